"""Shortest paths against the same code uncompiled and against SciPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from outfold._loops import shortest_paths

seeds = st.integers(0, 10**6)


@given(seeds, st.sampled_from([4, 7, 32]))
def test_shortest_paths_are_dijkstras_to_the_bit(seed, lanes):
    rng = np.random.default_rng(seed)
    n = 40
    upper = np.triu(np.where(rng.random((n, n)) < 0.06, rng.choice([1.0, 0.25, 1e-3]) * rng.random((n, n)), 0), 1)
    graph = csr_array(upper + upper.T)  # often in several components
    ptr, index = graph.indptr.astype(np.int64), graph.indices.astype(np.int64)
    sources = rng.integers(0, n, 25)
    expected = dijkstra(graph, directed=False, indices=sources).T
    for group, find in (
        (shortest_paths.group_sources, shortest_paths.shortest_paths),
        (shortest_paths.group_sources.plain, shortest_paths.shortest_paths.plain),
    ):
        order = group(ptr, index, sources, lanes)
        assert np.array_equal(np.sort(order), np.arange(25))
        out, turned = np.empty((n, 25)), np.empty((25, n))
        for low in range(0, 25, 10):
            find(ptr, index, graph.data, sources, order, lanes, out, low, min(low + 10, 25))
        find(ptr, index, graph.data, sources, order, lanes, turned.T, 0, 25)
        assert np.array_equal(out, expected)
        assert np.array_equal(turned.T, expected)


def test_shortest_paths_over_edges_of_no_length():
    graph = csr_array(np.ones((4, 4)))
    ptr, index = graph.indptr.astype(np.int64), graph.indices.astype(np.int64)
    out = np.empty((4, 4))
    shortest_paths.shortest_paths(ptr, index, np.zeros(16), np.arange(4), np.arange(4), 4, out, 0, 4)
    assert np.array_equal(out, np.zeros((4, 4)))


@pytest.mark.parametrize("m", [3, 512, 700])
@pytest.mark.parametrize("c", [1, 5])
def test_rows_through_neighbours(m, c):
    rng = np.random.default_rng(m)
    table, basis = rng.random((30, m)), rng.normal(size=(m, c))
    ptr = np.append(0, np.cumsum(rng.integers(1, 9, 50)))
    index, lengths = rng.integers(0, 30, ptr[-1]), rng.random(ptr[-1])
    pairs = list(itertools.pairwise(ptr))
    expected = np.array([np.square((lengths[a:b, None] + table[index[a:b]]).min(axis=0)) @ basis for a, b in pairs])
    out, parts = np.empty((50, c)), np.empty((50, c))
    shortest_paths.through_neighbours(ptr, index, lengths, table, basis, out, 0, 50)
    for low in range(0, 50, 17):
        shortest_paths.through_neighbours(ptr, index, lengths, table, basis, parts, low, min(low + 17, 50))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-11)
    assert np.array_equal(out, parts)  # a row does not depend on its company
    slow = np.empty((2, c))
    shortest_paths.through_neighbours.plain(ptr[:3], index, lengths, table, basis, slow, 0, 2)
    np.testing.assert_allclose(slow, expected[:2], rtol=1e-12, atol=1e-11)
