"""Pieces that are embedded by themselves."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outfold import Isomap
from outfold._runtime.threads import Threads
from outfold.methods import Islands
from outfold.neural.extension import spacing
from outfold.quality import aligned_error

torch = pytest.importorskip("torch")


def test_pieces_are_embedded_by_themselves_and_do_not_overlap():
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.vstack([ring, ring + np.array([9, 0]), ring * 2 + np.array([0, 30])])
    model = Islands().fit(X)
    Z = model.transform(X)
    assert len(model.pieces_) == 3
    assert np.array_equal(model.labels_, np.repeat([0, 1, 2], 200))
    for part in range(3):
        mine = Z[model.labels_ == part]
        radius = np.linalg.norm(mine - model.centres_[part], axis=1)
        assert radius.std() < 0.05 * radius.mean()
        others = np.linalg.norm(Z[model.labels_ != part] - model.centres_[part], axis=1)
        assert others.min() > radius.max()
    one = Islands().fit(ring)
    assert aligned_error(one.transform(ring), Isomap(n_neighbors=15).fit(ring).embedding_) < 1e-8


def test_spacing_and_pieces_do_not_depend_on_the_search():
    rows = np.random.default_rng(0).uniform(size=(401, 3))
    wide = np.hstack([rows, np.zeros((401, 200))])  # too many features for a tree
    assert spacing(rows, Threads(1)) == pytest.approx(spacing(wide, Threads(1)), rel=1e-12)
    kth = np.sort(cdist(rows, rows), axis=1)[:, 8]
    assert spacing(rows, Threads(1)) == pytest.approx(np.median(kth), rel=1e-12)
    few, many = (Islands(2, n_neighbors=2).fit(X) for X in (rows, wide))
    assert np.array_equal(few.rows_, many.rows_)
