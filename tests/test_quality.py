"""Alignment of embeddings."""

import numpy as np
import pytest
from scipy.spatial import procrustes

from outfold.quality import Alignment, aligned_error


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    fixed = rng.normal(size=(40, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return fixed @ turn * 2.5 + [1.0, -2.0, 3.0], fixed, turn


def test_a_similarity_is_undone(pair):
    moving, fixed, turn = pair
    found = Alignment.of(moving, fixed)
    np.testing.assert_allclose(found(moving), fixed, atol=1e-12)
    np.testing.assert_allclose(found.rotation, turn.T, atol=1e-12)
    assert found.scale == pytest.approx(0.4)


def test_a_rigid_motion_keeps_lengths(pair):
    moving, fixed, _ = pair
    found = Alignment.of(moving, fixed, rescale=False)
    assert found.scale == 1
    lengths = np.linalg.norm(np.diff(found(moving), axis=0), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(np.diff(moving, axis=0), axis=1))


def test_the_error_is_scipys_disparity(pair):
    moving, fixed, _ = pair
    moving = moving + np.random.default_rng(1).normal(size=moving.shape)
    assert aligned_error(moving, fixed) == pytest.approx(np.sqrt(procrustes(fixed, moving)[2]))


def test_weights_are_repeats(pair):
    moving, fixed, _ = pair
    moving = moving + np.random.default_rng(1).normal(size=moving.shape)
    times = np.arange(40) % 3
    again = np.repeat(np.arange(40), times)
    weighted, repeated = Alignment.of(moving, fixed, weights=times), Alignment.of(moving[again], fixed[again])
    np.testing.assert_allclose(weighted(moving), repeated(moving), atol=1e-12)


def test_embeddings_of_different_rows_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(4, 2\)"):
        Alignment.of(np.ones((3, 2)), np.ones((4, 2)))
