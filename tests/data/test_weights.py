"""Statistics of repeated values, which are continuous in the numbers of copies; weights of another kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfold.data import normalize_weights
from outfold.data.sources import InMemory
from outfold.data.weights import added_measure, at_whole_numbers, mean_at_rank, measure_on, weighted_quantile

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, n=st.integers(1, 12))
def test_at_whole_weights_the_rank_is_that_of_the_repeated_values(seed, n):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=n).round(1), rng.integers(1, 5, n)
    repeated = np.sort(np.repeat(values, weights))
    for rank in range(1, len(repeated) + 1):
        assert mean_at_rank(values, weights.astype(float), float(rank)) == repeated[rank - 1]
    assert mean_at_rank(values, weights.astype(float), len(repeated) + 2.0) == repeated[-1]


@given(seed=seeds, share=st.integers(1, 6))
def test_a_fraction_of_a_copy_is_that_part_of_one(seed, share):
    """Weights of m / share: the mean over the ``share`` pieces that make up the copy."""
    rng = np.random.default_rng(seed)
    values, pieces = rng.normal(size=8), rng.integers(1, 9, 8)
    repeated = np.sort(np.repeat(values, pieces))
    for rank in range(1, len(repeated) // share + 1):
        wanted = repeated[(rank - 1) * share : rank * share].mean()
        assert mean_at_rank(values, pieces / share, float(rank)) == pytest.approx(wanted, abs=1e-12)


@given(seed=seeds, rank=st.floats(0.1, 20))
def test_the_mean_at_a_rank_moves_no_further_than_weights_and_rank(seed, rank):
    rng = np.random.default_rng(seed)
    values, weights, step = rng.normal(size=10), rng.uniform(0, 3, 10), 1e-6 * rng.uniform(size=10)
    step[weights < 0.5] = 0
    weights[weights < 0.5] = 0  # absence, and a little presence
    more = weights + 1e-6 * rng.uniform(size=10)
    far = 4 * np.ptp(values) / min(rank, 1.0)
    before = mean_at_rank(values, weights, rank)
    assert abs(mean_at_rank(values, more, rank) - before) <= far * np.abs(more - weights).sum() + 1e-9
    assert abs(mean_at_rank(values, weights, rank + 1e-6) - before) <= far * 1e-6 + 1e-9


def test_infinite_values_do_not_become_nan():
    values = np.array([1.0, np.inf, 2.0])
    assert mean_at_rank(values, np.ones(3), 2.0) == 2.0
    assert mean_at_rank(values, np.ones(3), 2.5) == np.inf
    assert mean_at_rank(values, np.ones(3), 3.0) == np.inf


@given(seed=seeds, n=st.integers(1, 30), level=st.sampled_from([0.01, 0.5, 0.95]))
def test_a_quantile_is_the_least_value_with_the_share_at_or_below_it(seed, n, level):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=n), rng.integers(1, 4, n)
    repeated = np.sort(np.repeat(values, weights))
    wanted = repeated[max(1, int(np.ceil(level * len(repeated) - 1e-9))) - 1]
    assert weighted_quantile(values, weights.astype(float), level) == wanted


def test_a_rule_for_whole_numbers_is_joined_by_lines():
    assert at_whole_numbers(lambda n: n // 3, 6.0) == 2
    assert at_whole_numbers(lambda n: n // 3, 5.75) == 1.75
    assert at_whole_numbers(lambda n: n // 3, 6 - 1e-15) == 2


def test_normalized_weights_have_mean_one_over_those_above_zero():
    weights = np.array([0.0, 3.0, 5.0, 0.0, 1.0])
    found = normalize_weights(weights)
    np.testing.assert_allclose(found, weights / 3)
    np.testing.assert_allclose(normalize_weights(found), found)
    np.testing.assert_allclose(normalize_weights(weights * 0.37), found)
    for wrong in ([-1.0, 1.0], [0.0, 0.0], [np.nan, 1.0], 3.0, [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="finite numbers >= 0"):
            normalize_weights(wrong)


def test_normalized_weights_of_dask_stay_lazy():
    array = pytest.importorskip("dask.array")
    weights = np.array([0.0, 3.0, 5.0, 0.0, 1.0])
    lazy = normalize_weights(array.from_array(weights, chunks=2))
    assert isinstance(lazy, array.Array)
    np.testing.assert_allclose(lazy.compute(), weights / 3)


def test_weights_of_a_fit_are_as_given_and_those_of_an_update_in_its_unit():
    rows, weights = InMemory(np.ones((3, 2))), [0.5, 2.0, 0.25]
    assert measure_on(rows, weights).tolist() == weights
    assert measure_on(rows, None).tolist() == [1, 1, 1]
    assert added_measure(rows, weights, 1.0).tolist() == weights
    assert added_measure(rows, weights, 0.5).tolist() == [1.0, 4.0, 0.5]
