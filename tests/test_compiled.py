"""Compiled loops against the same code uncompiled and against NumPy."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from outfold import _compiled


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
    for loop in (_compiled.transpose_pattern, _compiled.transpose_pattern.plain):
        got = loop(ptr, index, 9)
        assert np.array_equal(got[0], turned.indptr)
        assert np.array_equal(got[1], turned.indices)
    other_ptr, other, second = pattern(seed + 1)
    both = csr_array(abs(matrix) + abs(second))
    both.sort_indices()
    for loop in (_compiled.union_rows, _compiled.union_rows.plain):
        got = loop(ptr, index, other_ptr, other)
        assert np.array_equal(got[0], both.indptr)
        assert np.array_equal(got[1], both.indices)


@given(seeds, st.integers(1, 8))
def test_smallest_in_rows(seed, k):
    values = np.random.default_rng(seed).integers(0, 12, (6, 20)).astype(float)
    limit = np.partition(values, k - 1, axis=1)[:, k - 1]
    for loop in (_compiled.smallest_in_rows, _compiled.smallest_in_rows.plain):
        counts, out = np.empty(6, np.int64), np.empty((6, 20), np.int64)
        loop(values, k, np.full(6, 0.5), counts, out, 0, 6)
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
    _compiled.times_block(matrix.indptr, matrix.indices, matrix.data, V, out, 0, 12)
    np.testing.assert_allclose(out, matrix @ V, atol=1e-14)


@given(seeds)
def test_aggregates_cover_and_hang_together(seed):
    from scipy.sparse.csgraph import connected_components

    graph = sparse_matrix(seed, 40, 40, 0.08)
    graph = csr_array(graph + graph.T)
    for loop in (_compiled.aggregate, _compiled.aggregate.plain):
        labels, count = loop(graph.indptr, graph.indices, graph.data, 0.1)
        assert set(labels) == set(range(count))
    for label in range(count):
        members = np.flatnonzero(labels == label)
        assert connected_components(graph[members][:, members], directed=False)[0] == 1


@pytest.mark.parametrize("home", ["read-only", "fine"])
def test_no_place_to_cache_is_no_obstacle(home, tmp_path):
    code = (
        "import numba, numpy as np\n"
        "from outfold import _compiled\n"
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
        + "print(_compiled.transpose_pattern(np.array([0, 1]), np.array([2]), 3)[0].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[0, 0, 0, 1]"
