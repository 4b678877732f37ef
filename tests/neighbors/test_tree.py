"""The tree of boxes against all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfold._loops import kdtree
from outfold._runtime.threads import Threads
from outfold.distances import Metric
from outfold.neighbors import tree as tree_module
from outfold.neighbors.brute import Brute
from outfold.neighbors.tree import Tree

seeds = st.integers(0, 10**6)


def points(seed, n, features, *, copies):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, features)).astype(float) if copies else rng.normal(size=(n, features))


def table(Z, X):
    return sum(np.square(Z[:, None, f] - X[None, :, f]) for f in range(X.shape[1]))


def rows_of(lists):
    return [(lists.index[a:b].tolist(), lists.squared[a:b].tolist()) for a, b in zip(lists.ptr[:-1], lists.ptr[1:])]


@given(seeds, st.integers(2, 120), st.integers(1, 4), st.booleans(), st.sampled_from([1, 3, 50, 200]))
def test_the_nearest_are_those_of_all_pairs_ties_included(seed, n, features, copies, k):
    X, Z = (points(seed + s, m, features, copies=copies) for s, m in ((0, n), (1, 20)))
    squared, k = table(Z, X), min(k, n)
    kth = np.partition(squared, k - 1, axis=1)[:, k - 1]
    for row, (index, values) in enumerate(rows_of(Tree(Metric().fit(X)).closest(Z, k, Threads(1)))):
        expected = np.flatnonzero(squared[row] <= kth[row])
        expected = expected[np.lexsort((expected, squared[row, expected]))]
        assert index == expected.tolist()
        assert values == squared[row, expected].tolist()


@given(seeds, st.integers(2, 120), st.booleans())
def test_those_that_reach_a_point_are_found_with_the_nearest(seed, n, copies):
    X, Z = (points(seed + s, m, 2, copies=copies) for s, m in ((0, n), (1, 20)))
    reach, k = np.random.default_rng(seed).uniform(0, 2, n), min(3, n)
    squared = table(Z, X)
    limit = np.maximum(np.partition(squared, k - 1, axis=1)[:, [k - 1]], reach**2)
    search = Tree(Metric().fit(X))
    lists = search.closest(Z, k, Threads(1), search.group(reach))
    brute = Brute(Metric().fit(X))
    other = brute.closest(Z, k, Threads(1), brute.group(reach))
    for row, ((index, values), (superset, _)) in enumerate(zip(rows_of(lists), rows_of(other))):
        assert values == sorted(values)
        assert sorted(index) == np.flatnonzero(squared[row] <= limit[row]).tolist()
        assert set(index) <= set(superset)


@given(seeds, st.integers(2, 120), st.booleans())
def test_a_ball_in_units_of_either_end(seed, n, copies):
    X, Z = (points(seed + s, m, 3, copies=copies) for s, m in ((0, n), (1, 20)))
    rng = np.random.default_rng(seed)
    reach, radii = rng.uniform(0, 2, n), rng.uniform(0, 2, 20)
    search, squared = Tree(Metric().fit(X)), table(Z, X)
    lists = search.within(Z, radii, search.group(reach), Threads(1))
    for row, (index, values) in enumerate(rows_of(lists)):
        assert set(np.flatnonzero(squared[row] <= (radii[row] * reach) ** 2)) <= set(index)
        assert values == squared[row, index].tolist()
        assert (np.array(values) <= (radii[row] * reach[index]) ** 2 * (1 + 1e-8)).all()
    plain = search.within(Z, radii, None, Threads(1))
    assert len(plain.index) >= (squared <= radii[:, None] ** 2).sum()


def test_blocks_and_threads_do_not_matter():
    X = points(0, 3000, 3, copies=False)
    Z = points(1, 70_000, 3, copies=False)
    search = Tree(Metric().fit(X))
    one, two = (search.closest(Z, 5, Threads(jobs)) for jobs in (1, 2))
    few = search.closest(Z[:100], 5, Threads(1))
    assert np.array_equal(one.index, two.index)
    assert np.array_equal(one.index[:500], few.index)
    assert np.array_equal(one.squared[:500], few.squared)


@pytest.mark.parametrize(
    ("features", "dimension", "pays"), [(50, 2, True), (50, 8, False), (10, 3, True), (16, 16, False)]
)
def test_a_tree_pays_where_the_points_have_few_dimensions(features, dimension, pays, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.sin(rng.uniform(-1, 1, (6000, dimension)) @ rng.normal(size=(dimension, features)))
    search = Tree(Metric().fit(X))
    some = X[np.linspace(0, 5999, tree_module.PROBES).astype(int)]
    reach = np.partition(table(some, X), tree_module.PROBED - 1, axis=1)[:, tree_module.PROBED - 1]
    whole = tree_module._share_of_leaves(search.tree, some, reach)
    thin = kdtree.plant(np.ascontiguousarray(X[:: tree_module.THIN]), tree_module.LEAF // tree_module.THIN)
    assert tree_module._share_of_leaves(thin, some, reach) < whole  # so it may say no for both, and never yes
    assert search.pays() == pays == (whole * (15 + 4 * features) < 3 + features / 20)
