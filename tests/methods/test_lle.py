"""Locally linear embedding: against scikit-learn's, and graphs that fall apart."""

import numpy as np
import pytest
from sklearn import manifold

from catalogue import cloud, up_to_signs
from outfold import ClassicalMDS, LocallyLinearEmbedding
from outfold.datasets import swiss_roll
from outfold.exceptions import SpectrumWarning

X = cloud(0, rows=120)


def test_lle_and_classical_mds_have_scikit_learns_embedding():
    roll, _ = swiss_roll(400, random_state=0)
    ours = LocallyLinearEmbedding(2, n_neighbors=12, reg=1e-3).fit(roll)
    theirs = manifold.LocallyLinearEmbedding(n_neighbors=12, n_components=2, eigen_solver="dense").fit(roll)
    assert up_to_signs(ours.embedding_, theirs.embedding_) < 1e-8
    if not hasattr(manifold, "ClassicalMDS"):
        pytest.skip("this scikit-learn has no ClassicalMDS")
    for metric in ("euclidean", "manhattan"):
        ours = ClassicalMDS(3, metric=metric).fit(X)
        assert up_to_signs(ours.embedding_, manifold.ClassicalMDS(3, metric=metric).fit_transform(X)) < 1e-8


def test_lle_places_new_points_no_worse_than_scikit_learn():
    roll, new = (swiss_roll(n, random_state=seed)[0] for n, seed in ((1500, 0), (500, 1)))
    ours = LocallyLinearEmbedding(2, n_neighbors=12, reg=1e-3).fit(roll)
    theirs = manifold.LocallyLinearEmbedding(n_neighbors=12, n_components=2, eigen_solver="dense").fit(roll)
    everything = LocallyLinearEmbedding(2, n_neighbors=12, reg=1e-3).fit(np.vstack([roll, new])).embedding_

    def error(embedding):  # against the joint fit, aligned over the training points
        turn = np.linalg.lstsq(ours.embedding_, everything[:1500], rcond=None)[0]
        return np.sqrt(((embedding @ turn - everything[1500:]) ** 2).mean())

    signs = np.sign((ours.embedding_ * theirs.embedding_).sum(axis=0))
    assert error(ours.transform(new)) < 1.05 * error(theirs.transform(new) * signs)


def test_lle_in_pieces():
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 30])
    with pytest.warns(SpectrumWarning, match=r"2 components \(sizes 60, 30\), so the first coordinate only"):
        model = LocallyLinearEmbedding(n_neighbors=6).fit(pieces)
    assert np.ptp(model.embedding_[:60, 0]) < 1e-12  # the first coordinate tells them apart
    assert model.report_.multiplicity == 2
    with pytest.raises(ValueError, match="2 components"):
        LocallyLinearEmbedding(n_neighbors=6, components="error").fit(pieces)
    largest = LocallyLinearEmbedding(n_neighbors=6, components="largest").fit(pieces)
    alone = LocallyLinearEmbedding(n_neighbors=6).fit(pieces[:60])
    np.testing.assert_allclose(largest.embedding_[:60], alone.embedding_, atol=1e-8)
