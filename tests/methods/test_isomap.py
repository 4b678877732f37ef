"""Isomap: against scikit-learn's, and graphs that fall apart."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import manifold

from catalogue import cloud, new_points, quietly, up_to_signs
from outfold import Isomap, KernelPCA, graphs
from outfold.datasets import swiss_roll
from outfold.exceptions import OutfoldWarning

X = cloud(0, rows=120)
Z = new_points(X, 0, 30)


@pytest.mark.parametrize("rule", ["neighbours", "radius"])
def test_isomap_is_scikit_learns(rule):
    roll, _ = swiss_roll(400, random_state=0)
    new, _ = swiss_roll(50, random_state=1)
    if rule == "neighbours":
        ours = Isomap(3, n_neighbors=10).fit(roll)
        theirs = manifold.Isomap(n_neighbors=10, n_components=3, eigen_solver="dense").fit(roll)
    else:
        ours = Isomap(3, n_neighbors=graphs.Ball(4.5)).fit(roll)
        theirs = manifold.Isomap(n_neighbors=None, radius=4.5, n_components=3, eigen_solver="dense").fit(roll)
    assert up_to_signs(ours.embedding_, theirs.embedding_) < 1e-8
    assert up_to_signs(ours.transform(roll), theirs.transform(roll)) < 1e-8
    assert up_to_signs(ours.transform(new), theirs.transform(new)) < 1e-8


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "precomputed"])
def test_isomap_by_other_metrics_is_scikit_learns(metric):
    A, B = X + 3, Z + 3
    table, rows = (cdist(A, A), cdist(B, A)) if metric == "precomputed" else (A, B)
    ours = quietly(Isomap(2, n_neighbors=12, metric=metric).fit, table)
    theirs = manifold.Isomap(n_neighbors=12, n_components=2, metric=metric, eigen_solver="dense").fit(table)
    assert up_to_signs(ours.embedding_, theirs.embedding_) < 1e-8
    assert up_to_signs(quietly(ours.transform, rows), theirs.transform(rows)) < 1e-8


def test_landmark_isomap_unrolls_the_roll():
    roll, position = swiss_roll(2000, random_state=0)
    model = Isomap(2, landmarks=200, random_state=0).fit(roll)
    assert abs(np.corrcoef(model.embedding_[:, 0], position[:, 0])[0, 1]) > 0.99


def test_isomap_in_pieces():
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 30, cloud(3, rows=15) - 30])
    with pytest.warns(OutfoldWarning, match=r"3 components \(sizes 60, 30, 15\).*joined.*now 6"):
        warned = Isomap(n_neighbors=6).fit(pieces)
    joined = Isomap(n_neighbors=6, components="join").fit(pieces)
    assert np.array_equal(warned.embedding_, joined.embedding_)
    with pytest.raises(ValueError, match=r"3 components \(sizes 60, 30, 15\).*infinite.*now 6.*components='join'"):
        Isomap(n_neighbors=6, components="error").fit(pieces)
    largest = Isomap(n_neighbors=6, components="largest").fit(pieces)
    alone = Isomap(n_neighbors=6).fit(pieces[:60])
    np.testing.assert_allclose(largest.embedding_[:60], alone.embedding_, atol=1e-10)
    np.testing.assert_allclose(quietly(largest.transform, pieces), largest.embedding_, atol=1e-9)
    assert largest.trust(pieces).flag.tolist() == [False] * 60 + [True] * 45
    with pytest.raises(ValueError, match="too few to embed"):
        Isomap(n_neighbors=6, components="largest", landmarks=pieces[60:80]).fit(pieces)
    D = cdist(pieces, pieces)
    given = Isomap(n_neighbors=6, components="join", metric="precomputed").fit(D)
    assert up_to_signs(given.embedding_, joined.embedding_) < 1e-8


def test_components_may_be_named():
    everything = Isomap(4).fit(X)
    some = Isomap([2, 4]).fit(X)
    np.testing.assert_allclose(some.embedding_, everything.embedding_[:, [1, 3]], atol=1e-10)
    np.testing.assert_allclose(KernelPCA([3]).fit_transform(X)[:, 0], KernelPCA(3).fit_transform(X)[:, 2], atol=1e-10)
