"""Compiled loops against the same code uncompiled and against NumPy."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from outfold import _compiled, _paths, _patterns, _products, _softmax


def sparse_matrix(seed, rows, columns, density):
    values = np.random.default_rng(seed).uniform(size=(2, rows, columns))
    return csr_array(np.where(values[0] < density, values[1], 0.0))


def pattern(seed, rows=12, columns=9):
    matrix = sparse_matrix(seed, rows, columns, 0.3)
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix


seeds = st.integers(0, 10**6)


@given(seeds)
def test_squared_pairs(seed):
    rng = np.random.default_rng(seed)
    ptr, index, _ = pattern(seed)
    Z, X = rng.normal(size=(12, 3)), rng.normal(size=(9, 3))
    fast, slow = np.empty(len(index)), np.empty(len(index))
    _compiled.squared_pairs(Z, X, ptr, index, fast, 0, 12)
    _compiled.squared_pairs.plain(Z, X, ptr, index, slow, 0, 12)
    rows = np.repeat(np.arange(12), np.diff(ptr))
    assert np.array_equal(fast, slow)
    np.testing.assert_allclose(fast, ((Z[rows] - X[index]) ** 2).sum(axis=1), rtol=1e-14)


@given(seeds)
def test_transpose_and_union(seed):
    ptr, index, matrix = pattern(seed)
    turned = csr_array(matrix.T)
    turned.sort_indices()
    for loop in (_patterns.transpose_pattern, _patterns.transpose_pattern.plain):
        got = loop(ptr, index, 9)
        assert np.array_equal(got[0], turned.indptr)
        assert np.array_equal(got[1], turned.indices)
    other_ptr, other, second = pattern(seed + 1)
    both = csr_array(abs(matrix) + abs(second))
    both.sort_indices()
    for loop in (_patterns.union_rows, _patterns.union_rows.plain):
        got = loop(ptr, index, other_ptr, other)
        assert np.array_equal(got[0], both.indptr)
        assert np.array_equal(got[1], both.indices)


@given(seeds, st.integers(1, 8), st.booleans())
def test_smallest_in_rows(seed, k, reached):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 12, (6, 20)).astype(float)
    reach = rng.integers(0, 12, 20).astype(float) if reached else np.full(20, -np.inf)
    limit = np.maximum(np.partition(values, k - 1, axis=1)[:, [k - 1]], reach)
    for loop in (_compiled.smallest_in_rows, _compiled.smallest_in_rows.plain):
        counts, out = np.empty(6, np.int64), np.empty((6, 20), np.int64)
        loop(values, k, np.full(6, 0.5), reach, counts, out, 0, 6)
        for i in range(6):
            assert np.array_equal(out[i, : counts[i]], np.flatnonzero(values[i] <= limit[i]))


@given(seeds)
def test_sort_rows_and_times_block(seed):
    ptr, index, matrix = pattern(seed)
    values = np.round(np.random.default_rng(seed).uniform(size=len(index)), 1)
    columns, ordered = index.copy(), values.copy()
    _compiled.sort_rows(ptr, columns, ordered, 0, 12)
    for i in range(12):
        row = slice(ptr[i], ptr[i + 1])
        order = np.lexsort((index[row], values[row]))
        assert np.array_equal(columns[row], index[row][order])
        assert np.array_equal(ordered[row], values[row][order])
    V, out = np.random.default_rng(seed).normal(size=(9, 4)), np.empty((12, 4))
    _products.times_block(matrix.indptr, matrix.indices, matrix.data, V, out, 0, 12)
    np.testing.assert_allclose(out, matrix @ V, atol=1e-14)


@given(seeds)
def test_aggregates_cover_and_hang_together(seed):
    from scipy.sparse.csgraph import connected_components

    graph = sparse_matrix(seed, 40, 40, 0.08)
    graph = csr_array(graph + graph.T)
    for loop in (_products.aggregate, _products.aggregate.plain):
        labels, count = loop(graph.indptr, graph.indices, graph.data, 0.1)
        assert set(labels) == set(range(count))
    for label in range(count):
        members = np.flatnonzero(labels == label)
        assert connected_components(graph[members][:, members], directed=False)[0] == 1


@given(seeds, st.sampled_from([np.float64, np.float32]), st.sampled_from([1, 7, 8, 19]))
def test_times_block_in_either_precision_and_any_width(seed, dtype, width):
    matrix = sparse_matrix(seed, 12, 9, 0.3).astype(dtype)
    V = np.random.default_rng(seed).normal(size=(9, width)).astype(dtype)
    for loop in (_products.times_block, _products.times_block.plain):
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
    for loop in (_products.smoothed, _products.smoothed.plain):
        out = np.empty((12, 16))
        for low in (0, 5):
            stop = 5 if low == 0 else 12
            loop(S.indptr, S.indices, S.data, 1.5, V, R, 0.3, gain, onto, 0.7, out, low, stop)
        np.testing.assert_allclose(out, expected, atol=1e-13)
    v, u = rng.normal(size=(2, 12))
    for loop in (_products.three_terms, _products.three_terms.plain):
        out = np.empty(12)
        loop(S.indptr, S.indices, S.data, v, u, 2.5, 0.4, 1.0, out, 0, 12)
        np.testing.assert_allclose(out, 2.5 * (S @ v - 0.4 * v) - u, atol=1e-13)


@given(seeds)
def test_times_sparse(seed):
    A, B = sparse_matrix(seed, 12, 9, 0.5), sparse_matrix(seed + 1, 9, 40, 0.6)
    for loop in (_products.times_sparse, _products.times_sparse.plain):
        parts = [loop(A.indptr, A.indices, A.data, B.indptr, B.indices, B.data, 40, a, b) for a, b in ((0, 1), (1, 12))]
        counts, index, values = (np.concatenate(c) for c in zip(*parts))
        found = csr_array((values, index, np.append(0, np.cumsum(counts))), shape=(12, 40))
        np.testing.assert_allclose(found.toarray(), (A @ B).toarray(), atol=1e-14)


@given(seeds, st.integers(1, 4))
def test_largest_in_rows(seed, keep):
    ptr, _, matrix = pattern(seed)
    sums = np.random.default_rng(seed).uniform(1, 2, 12)
    for loop in (_products.largest_in_rows, _products.largest_in_rows.plain):
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
    rows = np.repeat(np.arange(n), np.diff(ptr))
    dense = matrix.toarray()
    within = csr_array(np.where(dense <= limits[:, None], dense, 0).T)
    within.sort_indices()
    for loop in (_patterns.transpose_within, _patterns.transpose_within.plain):
        got = loop(ptr, index, matrix.data, limits, n)
        assert np.array_equal(got[0], within.indptr)
        assert np.array_equal(got[1], within.indices)
    off = dense - np.diag(np.diagonal(dense))
    for loop in (_patterns.off_diagonal_sums, _patterns.off_diagonal_sums.plain):
        np.testing.assert_allclose(loop(ptr, index, matrix.data, weights), off @ weights, atol=1e-14)
    for loop in (_patterns.scale_rows_and_columns, _patterns.scale_rows_and_columns.plain):
        data = matrix.data.copy()
        loop(ptr, index, data, weights, 0, n)
        np.testing.assert_allclose(data, matrix.data * weights[rows] * weights[index])
    full = ptr[1:] > ptr[:-1]
    for loop in (_patterns.reaching, _patterns.reaching.plain):
        out = np.empty(n)
        loop(ptr, index, matrix.data, weights, 2.0, out, 0, n)
        for i in np.flatnonzero(full):
            held = np.cumsum(weights[index[ptr[i] : ptr[i + 1]]])
            assert out[i] == matrix.data[ptr[i] + min(np.searchsorted(held, 2.0), len(held) - 1)]


@given(seeds, st.sampled_from([0.02, 0.05, 0.1]))
def test_connected_labels_are_the_components(seed, density):
    from scipy.sparse.csgraph import connected_components

    graph = sparse_matrix(seed, 40, 40, density)
    graph = csr_array(graph + graph.T)
    for loop in (_patterns.connected, _patterns.connected.plain):
        labels = loop(graph.indptr, graph.indices)
        count, expected = connected_components(graph, directed=False)
        assert labels.max() + 1 == count
        assert np.array_equal(labels, expected)


@pytest.mark.parametrize("loop", [_softmax.exponential, _softmax.exponential.plain], ids=["compiled", "plain"])
def test_exponential_is_right_to_the_last_place(loop):
    x = np.concatenate([-np.random.default_rng(0).uniform(0, 700, 3000), -np.logspace(-18, 2, 500), [0.0, -707.9]])
    found = x / 2.5
    loop(found, 2.5)
    expected = np.exp(2.5 * (x / 2.5))
    assert np.abs((found - expected) / np.spacing(expected)).max() <= 1.5
    beyond = np.array([-708.5, -1e10, -1e300, -np.inf])
    loop(beyond, 1.0)
    assert np.array_equal(beyond, np.zeros(4))


@given(seeds, st.booleans())
def test_barycentric_weights_minimise_the_distance_with_their_ridge(seed, trace):
    rng = np.random.default_rng(seed)
    Z, X = rng.normal(size=(5, 3)), rng.normal(size=(20, 3))
    index = np.concatenate([rng.permutation(20)[:6] for _ in range(5)])
    ptr = np.arange(0, 31, 6)
    for loop in (_compiled.barycentric, _compiled.barycentric.plain):
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
    _compiled.barycentric(Z, X, np.array([0, 8, 16]), np.tile(np.arange(8), 2), 1e-3, False, out, 0, 2)
    assert np.array_equal(out[:8], np.eye(8)[2])
    np.testing.assert_allclose(out[8:], 1 / 8, rtol=1e-6)


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
        (_paths.group_sources, _paths.shortest_paths),
        (_paths.group_sources.plain, _paths.shortest_paths.plain),
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
    _paths.shortest_paths(ptr, index, np.zeros(16), np.arange(4), np.arange(4), 4, out, 0, 4)
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
    _paths.through_neighbours(ptr, index, lengths, table, basis, out, 0, 50)
    for low in range(0, 50, 17):
        _paths.through_neighbours(ptr, index, lengths, table, basis, parts, low, min(low + 17, 50))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-11)
    assert np.array_equal(out, parts)  # a row does not depend on its company
    slow = np.empty((2, c))
    _paths.through_neighbours.plain(ptr[:3], index, lengths, table, basis, slow, 0, 2)
    np.testing.assert_allclose(slow, expected[:2], rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("home", ["read-only", "fine"])
def test_no_place_to_cache_is_no_obstacle(home, tmp_path):
    code = (
        "import numba, numpy as np\n"
        "from outfold import _patterns\n"
        + (
            "real = numba.njit\n"
            "def njit(*args, **options):\n"
            "    if options.get('cache'):\n"
            "        raise RuntimeError('cannot cache function: no locator available')\n"
            "    return real(*args, **options)\n"
            "numba.njit = njit\n"
            if home == "read-only"
            else ""
        )
        + "print(_patterns.transpose_pattern(np.array([0, 1]), np.array([2]), 3)[0].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[0, 0, 0, 1]"


@given(seeds, st.integers(1, 4))
def test_squared_table(seed, features):
    rng = np.random.default_rng(seed)
    Z, X = rng.normal(size=(7, features)), rng.normal(size=(33, features))
    fast, slow = np.empty((7, 33)), np.empty((7, 33))
    _softmax.squared_table(Z, X.T.copy(), fast)
    _softmax.squared_table.plain(Z, X.T.copy(), slow)
    assert np.array_equal(fast, slow)
    pairs = np.empty(7 * 33)
    ptr, index = np.arange(0, 7 * 33 + 1, 33), np.tile(np.arange(33), 7)
    _compiled.squared_pairs(Z, X, ptr, index, pairs, 0, 7)
    assert np.array_equal(fast.ravel(), pairs)  # whichever way a pair is measured


@given(seeds, st.integers(1, 150), st.sampled_from([0.1, 10.0, 1000.0]))
def test_softmax(seed, width, spread):
    rng = np.random.default_rng(seed)
    logs, (gain, measure) = rng.normal(size=(5, width)) * spread, rng.uniform(0.1, 1, (2, width))
    logs[3] = -np.inf
    expected = gain * np.exp(logs - np.where(np.isfinite(logs), logs, 0).max(axis=1, keepdims=True))
    expected[3] = 0.0
    for loop in (_softmax.softmax, _softmax.softmax.plain):
        got, (tops, totals, masses) = logs.copy(), np.empty((3, 5))
        with np.errstate(invalid="ignore"):
            loop(got, 1.0, gain, measure, -42.0, tops, totals, masses)
        np.testing.assert_allclose(totals, got.sum(axis=1), rtol=1e-13)
        np.testing.assert_allclose(masses, (got / gain) @ measure, rtol=1e-13)
        assert np.array_equal(tops, logs.max(axis=1))
        np.testing.assert_allclose(got[:3], expected[:3], rtol=1e-14, atol=1e-18)
        assert np.all(got[:, logs[0] < -np.inf] == 0)


@given(seeds)
def test_softmax_rows(seed):
    _, _, matrix = pattern(seed)
    rng = np.random.default_rng(seed)
    gain, measure = rng.uniform(0.5, 2, (2, 9))
    some = np.flatnonzero(np.diff(matrix.indptr))
    matrix = csr_array(matrix[some])
    logs = rng.normal(size=matrix.nnz) * 300
    table = np.full(matrix.shape, -np.inf)
    table[np.repeat(np.arange(len(some)), np.diff(matrix.indptr)), matrix.indices] = logs
    for loop in (_softmax.softmax_rows, _softmax.softmax_rows.plain):
        got, mass = logs.copy(), np.empty(len(some))
        loop(matrix.indptr, matrix.indices, got, 1.0, gain, measure, mass)
        np.testing.assert_allclose(mass, np.logaddexp.reduce(table + np.log(measure), axis=1), rtol=1e-12, atol=1e-12)
        weights = csr_array((got, matrix.indices, matrix.indptr), matrix.shape).toarray()
        logits = table + np.log(gain)
        expected = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        np.testing.assert_allclose(weights, expected, rtol=1e-10, atol=1e-300)
