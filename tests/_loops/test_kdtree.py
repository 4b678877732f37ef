"""The tree of boxes: every node holds its points."""

import numpy as np
import pytest

from outfold._loops import kdtree


def points(seed, n, features, *, copies):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, features)).astype(float) if copies else rng.normal(size=(n, features))


@pytest.mark.parametrize("loop", [kdtree.plant, kdtree.plant.plain], ids=["compiled", "plain"])
def test_every_node_holds_its_points(loop):
    X = points(0, 100, 2, copies=False)
    P, rows, low, high, first, last = loop(X, 8)
    assert np.array_equal(np.sort(rows), np.arange(100))
    assert np.array_equal(P.T, X[rows])
    for node in range(len(first)):
        inside = P[:, first[node] : last[node]]
        assert np.array_equal(inside.min(axis=1), low[node])
        assert np.array_equal(inside.max(axis=1), high[node])
    assert (last - first)[len(first) // 2 :].max() <= 8
