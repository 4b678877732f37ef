"""Criteria for dimension and time."""

import numpy as np
import pytest
from scipy.special import iv

from outfold import DiffusionMaps, datasets
from outfold.bandwidths import Slope
from outfold.operators.spectrum import spectral_dimension
from outfold.selection import gap_dimension, slope_dimension, smallest_time

CIRCLE = np.repeat(iv(np.arange(1, 7), 10.0) / iv(0, 10.0), 2)  # epsilon = 0.1
SPHERE = np.exp(-0.05 * np.repeat([2, 6, 12], [3, 5, 7]))
TORUS = np.exp(-0.05 * np.repeat([1.0, 2.0, 4.0], 4) * [*[1] * 4, *[1] * 4, *[0.9] * 4])


@pytest.mark.parametrize(
    ("values", "by", "t", "dimension"),
    [
        (CIRCLE, "rate", 1, 2),
        (CIRCLE, "rate", 50, 2),
        (CIRCLE, "difference", 30, 2),
        (SPHERE, "rate", 1, 3),
        (SPHERE, "difference", 10, 3),
        (TORUS, "rate", 1, 4),
        ([0.2, -0.9, 0.85], "difference", 1, 2),
        ([1.0, 1.0, 1 - 1e-15, 0.3], "rate", 1, 3),
        ([5.0, 4.0, 0.5, 0.4], "ratio", 1, 2),
        ([5.0, 4.0, 0.5, 0.0], "ratio", 1, 3),
        ([0.5, 0.5, 0.5], "rate", 1, None),
        ([1.0, 1.0], "rate", 1, None),
        ([2.0, 2.0], "ratio", 1, None),
    ],
)
def test_the_gap_is_where_it_is_and_never_inside_a_multiplet(values, by, t, dimension):
    assert gap_dimension(values, by=by, t=t) == dimension


def test_the_gap_of_rates_is_that_of_a_naive_loop():
    values = np.sort(np.random.default_rng(0).uniform(size=30))[::-1]
    ratios = [np.log(values[l + 1]) / np.log(values[l]) for l in range(29)]
    assert gap_dimension(values) == int(np.argmax(ratios)) + 1


def test_the_slope_is_the_one_the_bandwidth_rule_finds():
    X = datasets.s_curve(300, random_state=0)[0]
    maps = DiffusionMaps(2, epsilon="slope").fit(X)
    assert slope_dimension(X) == maps.report_.dimension
    assert slope_dimension(maps) == maps.report_.dimension
    weighted = DiffusionMaps(2, epsilon=Slope()).fit(X, sample_weight=np.arange(300) % 3)
    assert slope_dimension(weighted) == pytest.approx(weighted.report_.dimension)


@pytest.mark.parametrize(("name", "dimension"), [("circle", 1), ("sphere", 2), ("flat_torus", 2)])
def test_the_slope_rounds_to_the_dimension(name, dimension):
    for seed in range(3):
        assert (
            round(slope_dimension(getattr(datasets, name)(5000 if seed == 0 else 400, random_state=seed))) == dimension
        )


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.01])
@pytest.mark.parametrize("dimension", [2, 4, 6])
def test_the_smallest_time_reaches_the_dimension_and_a_step_less_does_not(dimension, delta):
    time = smallest_time(CIRCLE, dimension, delta=delta)
    assert time == int(time)
    assert spectral_dimension(CIRCLE, t=time, delta=delta) <= dimension
    before = spectral_dimension(CIRCLE, t=time - 1, delta=delta)
    assert before is None or before > dimension
    exact = smallest_time(CIRCLE, dimension, delta=delta, whole=False)
    assert time - 1 < exact <= time
    assert (CIRCLE[dimension] / CIRCLE[0]) ** exact == pytest.approx(delta)


def test_equality_reaches_the_dimension():
    assert smallest_time([1.0, 0.1, 0.01], 1) == 1
    assert smallest_time([1.0, 0.5, 0.25], 1, delta=0.125) == 3
    assert smallest_time([0.8, 0.0], 1) == 1


def test_precomputed_distances_have_no_points_to_look_at():
    X = datasets.circle(30, random_state=0)
    maps = DiffusionMaps(2, metric="precomputed").fit(np.linalg.norm(X[:, None] - X, axis=2))
    with pytest.raises(ValueError, match="metric='precomputed' keeps no points"):
        slope_dimension(maps)
