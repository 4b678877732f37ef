"""Barycentric weights against the same code uncompiled and against NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outfold._loops import barycentric as barycentric_loops

seeds = st.integers(0, 10**6)


@given(seeds, st.booleans())
def test_barycentric_weights_minimise_the_distance_with_their_ridge(seed, trace):
    rng = np.random.default_rng(seed)
    Z, X = rng.normal(size=(5, 3)), rng.normal(size=(20, 3))
    index = np.concatenate([rng.permutation(20)[:6] for _ in range(5)])
    ptr = np.arange(0, 31, 6)
    for loop in (barycentric_loops.barycentric, barycentric_loops.barycentric.plain):
        out = np.empty(30)
        loop(Z, X, ptr, index, 1e-2, trace, out, 0, 5)
        for i in range(5):
            D = Z[i] - X[index[6 * i : 6 * i + 6]]
            G = D @ D.T
            ridge = np.trace(G) * np.eye(6) if trace else np.diag(np.diagonal(G))
            expected = np.linalg.solve(G + 1e-2 * ridge, np.ones(6))
            np.testing.assert_allclose(out[6 * i : 6 * i + 6], expected / expected.sum(), rtol=1e-9, atol=1e-12)


def test_barycentric_weights_of_a_listed_point_and_of_a_far_one():
    X = np.random.default_rng(0).normal(size=(8, 3))
    Z = np.vstack([X[2], np.full(3, 1e200)])
    out = np.empty(16)
    barycentric_loops.barycentric(Z, X, np.array([0, 8, 16]), np.tile(np.arange(8), 2), 1e-3, False, out, 0, 2)
    assert np.array_equal(out[:8], np.eye(8)[2])
    np.testing.assert_allclose(out[8:], 1 / 8, rtol=1e-6)
