"""Loops over sparse rows against the same code uncompiled and against SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from catalogue import pattern, sparse_matrix
from outfold._loops import csr
from outfold.data.weights import mean_at_rank

seeds = st.integers(0, 10**6)


@given(seeds)
def test_union(seed):
    ptr, index, matrix = pattern(seed)
    other_ptr, other, second = pattern(seed + 1)
    both = csr_array(abs(matrix) + abs(second))
    both.sort_indices()
    for loop in (csr.union_rows, csr.union_rows.plain):
        got = loop(ptr, index, other_ptr, other)
        assert np.array_equal(got[0], both.indptr)
        assert np.array_equal(got[1], both.indices)


@given(seeds)
def test_aggregates_cover_and_hang_together(seed):
    from scipy.sparse.csgraph import connected_components

    graph = sparse_matrix(seed, 40, 40, 0.08)
    graph = csr_array(graph + graph.T)
    for loop in (csr.aggregate, csr.aggregate.plain):
        labels, count = loop(graph.indptr, graph.indices, graph.data, 0.1)
        assert set(labels) == set(range(count))
    for label in range(count):
        members = np.flatnonzero(labels == label)
        assert connected_components(graph[members][:, members], directed=False)[0] == 1


@given(seeds, st.sampled_from([np.float64, np.float32]), st.sampled_from([1, 7, 8, 19]))
def test_times_block_in_either_precision_and_any_width(seed, dtype, width):
    matrix = sparse_matrix(seed, 12, 9, 0.3).astype(dtype)
    V = np.random.default_rng(seed).normal(size=(9, width)).astype(dtype)
    for loop in (csr.times_block, csr.times_block.plain):
        out = np.empty((12, width), dtype)
        loop(matrix.indptr, matrix.indices, matrix.data, V, out, 0, 12)
        np.testing.assert_allclose(out, matrix @ V, atol=100 * np.finfo(dtype).eps)


@given(seeds)
def test_steps_of_relaxation_and_of_a_recurrence(seed):
    rng = np.random.default_rng(seed)
    S = sparse_matrix(seed, 12, 12, 0.3)
    V, R, onto = rng.normal(size=(3, 12, 16))
    gain = rng.uniform(size=12)
    expected = 0.3 * V + gain[:, None] * (R - 1.5 * V + S @ V) + 0.7 * onto
    for loop in (csr.smooth, csr.smooth.plain):
        out = np.empty((12, 16))
        for low in (0, 5):
            stop = 5 if low == 0 else 12
            loop(S.indptr, S.indices, S.data, 1.5, V, R, 0.3, gain, onto, 0.7, out, low, stop)
        np.testing.assert_allclose(out, expected, atol=1e-13)


@given(seeds, st.integers(1, 4))
def test_largest_in_rows(seed, keep):
    ptr, _, matrix = pattern(seed)
    sums = np.random.default_rng(seed).uniform(1, 2, 12)
    for loop in (csr.largest_in_rows, csr.largest_in_rows.plain):
        values = matrix.data.copy()
        loop(ptr, values, keep, sums, 0, 12)
        for i in range(12):
            row, before = values[ptr[i] : ptr[i + 1]], matrix.data[ptr[i] : ptr[i + 1]]
            if len(row):
                kept = np.sort(np.argsort(-before)[:keep])
                assert np.array_equal(np.flatnonzero(row), kept)
                np.testing.assert_allclose(row[kept], before[kept] * sums[i] / before[kept].sum())


@given(seeds)
def test_passes_over_a_graph(seed):
    rng = np.random.default_rng(seed)
    ptr, index, matrix = pattern(seed, 12, 12)
    limits, weights, n = rng.uniform(size=12), rng.uniform(0.5, 2, 12), 12
    dense = matrix.toarray()
    within = csr_array(np.where(dense <= limits[:, None], dense, 0).T)
    within.sort_indices()
    for loop in (csr.transpose_within, csr.transpose_within.plain):
        got = loop(ptr, index, matrix.data, limits, n)
        assert np.array_equal(got[0], within.indptr)
        assert np.array_equal(got[1], within.indices)
    off = dense - np.diag(np.diagonal(dense))
    for loop in (csr.off_diagonal_sums, csr.off_diagonal_sums.plain):
        np.testing.assert_allclose(loop(ptr, index, matrix.data, weights), off @ weights, atol=1e-14)
    full = ptr[1:] > ptr[:-1]
    for loop in (csr.reaching, csr.reaching.plain):
        out = np.empty(n)
        loop(ptr, index, matrix.data, weights, 2.0, out, 0, n)
        for i in np.flatnonzero(full):
            held = np.cumsum(weights[index[ptr[i] : ptr[i + 1]]])
            assert out[i] == matrix.data[ptr[i] + min(np.searchsorted(held, 2.0), len(held) - 1)]


@given(seeds, st.sampled_from([0.5, 1.0, 2.0, 2.3, 9.0]))
def test_the_mean_at_a_rank_is_that_of_each_row(seed, rank):
    ptr, index, matrix = pattern(seed)
    weights = np.random.default_rng(seed).choice([0.0, 0.25, 1.0, 3.0], matrix.shape[1])
    values = np.concatenate([np.sort(part) for part in np.split(matrix.data, ptr[1:-1])]).round(1)
    for loop in (csr.mean_at_rank, csr.mean_at_rank.plain):
        out = np.empty(len(ptr) - 1)
        loop(ptr, index, values, weights, rank, out, 0, len(out))
        for i in np.flatnonzero(np.diff(ptr)):
            part = slice(ptr[i], ptr[i + 1])
            assert out[i] == pytest.approx(mean_at_rank(values[part], weights[index[part]], rank), abs=1e-12)


@given(seeds, st.sampled_from([0.02, 0.05, 0.1]))
def test_connected_labels_are_the_components(seed, density):
    from scipy.sparse.csgraph import connected_components

    graph = sparse_matrix(seed, 40, 40, density)
    graph = csr_array(graph + graph.T)
    for loop in (csr.label_components, csr.label_components.plain):
        labels = loop(graph.indptr, graph.indices)
        count, expected = connected_components(graph, directed=False)
        assert labels.max() + 1 == count
        assert np.array_equal(labels, expected)
