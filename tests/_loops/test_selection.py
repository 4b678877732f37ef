"""Loops that measure, sort and select against the same code uncompiled and against NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from catalogue import pattern
from outfold._loops import csr
from outfold._loops import selection as selection_loops

seeds = st.integers(0, 10**6)


@given(seeds)
def test_squared_pairs(seed):
    rng = np.random.default_rng(seed)
    ptr, index, _ = pattern(seed)
    Z, X = rng.normal(size=(12, 3)), rng.normal(size=(9, 3))
    fast, slow = np.empty(len(index)), np.empty(len(index))
    selection_loops.squared_pairs(Z, X, ptr, index, fast, 0, 12)
    selection_loops.squared_pairs.plain(Z, X, ptr, index, slow, 0, 12)
    rows = np.repeat(np.arange(12), np.diff(ptr))
    assert np.array_equal(fast, slow)
    np.testing.assert_allclose(fast, ((Z[rows] - X[index]) ** 2).sum(axis=1), rtol=1e-14)
    some = rng.permutation(12)[:7]
    for loop in (selection_loops.squared_pairs_of, selection_loops.squared_pairs_of.plain):
        found = np.full(len(index), -1.0)
        loop(some, Z, X, ptr, index, found, 0, 7)
        np.testing.assert_array_equal(found, np.where(np.isin(rows, some), fast, -1.0))


@given(seeds, st.integers(1, 8), st.booleans())
def test_smallest_in_rows(seed, k, reached):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 12, (6, 20)).astype(float)
    reach = rng.integers(0, 12, 20).astype(float) if reached else np.full(20, -np.inf)
    limit = np.maximum(np.partition(values, k - 1, axis=1)[:, [k - 1]], reach)
    for loop in (selection_loops.smallest_in_rows, selection_loops.smallest_in_rows.plain):
        counts, out = np.empty(6, np.int64), np.empty((6, 20), np.int64)
        loop(values, k, np.full(6, 0.5), reach, counts, out, 0, 6)
        for i in range(6):
            assert np.array_equal(out[i, : counts[i]], np.flatnonzero(values[i] <= limit[i]))


@given(seeds)
def test_sort_rows_and_times_block(seed):
    ptr, index, matrix = pattern(seed)
    values = np.round(np.random.default_rng(seed).uniform(size=len(index)), 1)
    columns, ordered = index.copy(), values.copy()
    selection_loops.sort_rows(ptr, columns, ordered, 0, 12)
    for i in range(12):
        row = slice(ptr[i], ptr[i + 1])
        order = np.lexsort((index[row], values[row]))
        assert np.array_equal(columns[row], index[row][order])
        assert np.array_equal(ordered[row], values[row][order])
    V, out = np.random.default_rng(seed).normal(size=(9, 4)), np.empty((12, 4))
    csr.times_block(matrix.indptr, matrix.indices, matrix.data, V, out, 0, 12)
    np.testing.assert_allclose(out, matrix @ V, atol=1e-14)


@given(seeds, st.integers(1, 8))
def test_share_nearest(seed, k):
    """Shares times counts add up to k, entries before the last distance are whole, and moments are their mean."""
    rng = np.random.default_rng(seed)
    lists = [np.sort(rng.integers(0, 6, rng.integers(8, 14))).astype(float) for _ in range(5)]
    ptr = np.append(0, np.cumsum([len(row) for row in lists]))
    squared = np.concatenate(lists)
    index = np.concatenate([rng.permutation(20)[: len(row)] for row in lists])
    counted = rng.uniform(0.7, 1.0, 20)
    found = []
    for loop in (selection_loops.share_nearest, selection_loops.share_nearest.plain):
        shares, kept, moments = np.ones(len(squared)), np.empty(5, np.int64), np.empty(5)
        loop(ptr, index, squared, counted, float(k), shares, kept, moments)
        found.append((shares, kept, moments))
    assert all(np.array_equal(fast, slow) for fast, slow in zip(*found))
    for i in range(5):
        part = slice(ptr[i], ptr[i] + kept[i])
        mass = shares[part] * counted[index[part]]
        total = min(float(k), counted[index[ptr[i] : ptr[i + 1]]].sum())
        assert abs(mass.sum() - total) < 1e-9
        assert (shares[part][squared[part] < squared[part][-1]] == 1).all()
        assert abs(moments[i] - mass @ squared[part] / mass.sum()) < 1e-9
