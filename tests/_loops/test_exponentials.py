"""Exponentials and softmax against the same code uncompiled and against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from catalogue import pattern
from outfold._loops import exponentials
from outfold._loops import selection as selection_loops

seeds = st.integers(0, 10**6)


@pytest.mark.parametrize("loop", [exponentials.exponential, exponentials.exponential.plain], ids=["compiled", "plain"])
def test_exponential_is_right_to_the_last_place(loop):
    x = np.concatenate([-np.random.default_rng(0).uniform(0, 700, 3000), -np.logspace(-18, 2, 500), [0.0, -707.9]])
    found = x / 2.5
    loop(found, 2.5)
    expected = np.exp(2.5 * (x / 2.5))
    assert np.abs((found - expected) / np.spacing(expected)).max() <= 1.5
    beyond = np.array([-708.5, -1e10, -1e300, -np.inf])
    loop(beyond, 1.0)
    assert np.array_equal(beyond, np.zeros(4))


@given(seeds, st.integers(1, 4))
def test_squared_table(seed, features):
    rng = np.random.default_rng(seed)
    Z, X = rng.normal(size=(7, features)), rng.normal(size=(33, features))
    fast, slow = np.empty((7, 33)), np.empty((7, 33))
    exponentials.squared_table(Z, X.T.copy(), fast)
    exponentials.squared_table.plain(Z, X.T.copy(), slow)
    assert np.array_equal(fast, slow)
    pairs = np.empty(7 * 33)
    ptr, index = np.arange(0, 7 * 33 + 1, 33), np.tile(np.arange(33), 7)
    selection_loops.squared_pairs(Z, X, ptr, index, pairs, 0, 7)
    assert np.array_equal(fast.ravel(), pairs)  # whichever way a pair is measured


@given(seeds, st.integers(1, 150), st.sampled_from([0.1, 10.0, 1000.0]))
def test_softmax(seed, width, spread):
    rng = np.random.default_rng(seed)
    logs, (gain, measure) = rng.normal(size=(5, width)) * spread, rng.uniform(0.1, 1, (2, width))
    logs[3] = -np.inf
    expected = gain * np.exp(logs - np.where(np.isfinite(logs), logs, 0).max(axis=1, keepdims=True))
    expected[3] = 0.0
    for loop in (exponentials.softmax, exponentials.softmax.plain):
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
    for loop in (exponentials.softmax_rows, exponentials.softmax_rows.plain):
        got, mass = logs.copy(), np.empty(len(some))
        loop(matrix.indptr, matrix.indices, got, 1.0, gain, measure, mass)
        np.testing.assert_allclose(mass, np.logaddexp.reduce(table + np.log(measure), axis=1), rtol=1e-12, atol=1e-12)
        weights = csr_array((got, matrix.indices, matrix.indptr), matrix.shape).toarray()
        logits = table + np.log(gain)
        expected = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        np.testing.assert_allclose(weights, expected, rtol=1e-10, atol=1e-300)


def test_the_sums_of_a_row_do_not_depend_on_where_the_arrays_lie():
    """Each array starts right behind the other, where a compiler's check for overlap would take another path."""
    n = 299
    rng = np.random.default_rng(0)
    values, gain, measure = -rng.uniform(0, 3, (1, n)), rng.uniform(0.5, 1, n), np.ones(n)
    answers = set()
    for order in ([0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0], [0, 2, 1], [2, 0, 1]):
        for gap in range(4):
            room = np.zeros(3 * n + 16)
            parts = [room[place * n + place * gap :][:n] for place in range(3)]
            here = dict(zip(order, parts))
            here[0][:], here[1][:], here[2][:] = values[0], gain, measure
            top, total, mass = np.empty((3, 1))
            exponentials.softmax(here[0].reshape(1, n), 1.0, here[1], here[2], -42.0, top, total, mass)
            answers.add((total[0], mass[0], here[0].tobytes()))
    assert len(answers) == 1


def test_rows_whose_logarithms_are_all_infinite_become_nan():
    """The distance of a row times the factor overflows: its model takes the nearest anchor for NaN."""
    for loop in (exponentials.softmax_rows, exponentials.softmax_rows.plain):
        values, log_mass = np.array([1e200, 1e200, 1.0]), np.empty(2)
        with np.errstate(over="ignore", divide="ignore"):
            loop(np.array([0, 2, 3]), np.array([0, 1, 1]), values, -1e200, np.ones(2), np.ones(2), log_mass)
        assert np.isnan(values[:2]).all()
        assert values[2] == 1
        assert log_mass[0] == -np.inf
