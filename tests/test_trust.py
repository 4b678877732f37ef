"""Support and flags: what is typical, what lies outside, and how exactly that is one row in a hundred."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from catalogue import ALL_METHODS, NETWORKS, cloud, quietly
from outfold import ClassicalMDS, DiffusionMaps, LocallyLinearEmbedding, Roseland
from outfold.trust import LOG_FLOOR, Nearness, Reference

everyone = pytest.mark.parametrize(
    "estimator", [*ALL_METHODS.values(), *NETWORKS.values()], ids=[*ALL_METHODS, *NETWORKS]
)


def gaussian_mass(Z, X, epsilon, weights=1.0):
    squared = ((Z[:, None] - X) ** 2).sum(axis=2)
    return (np.exp(-squared / (2 * epsilon)) * weights).sum(axis=1)


def lower_quantile(values, weights, share):
    """The smallest value at or below which ``share`` of the weight lies, by repeating rows."""
    repeated = np.sort(np.repeat(values, weights))
    return repeated[max(0, int(np.ceil(share * len(repeated) - 1e-9)) - 1)]


def test_support_is_zero_at_the_median_log_mass_without_self():
    X = cloud(0, rows=101)
    maps = quietly(DiffusionMaps(epsilon=0.7).fit, X)
    alone = np.log(gaussian_mass(X, X, 0.7) - 1)
    expected = np.log(gaussian_mass(X, X, 0.7)) - np.median(alone)
    np.testing.assert_allclose(maps.trust(X).support, expected, rtol=0, atol=1e-12)
    Z = np.random.default_rng(0).normal(size=(500, 3))
    typical = np.log(gaussian_mass(Z, X, 0.7)) - np.median(alone)
    np.testing.assert_allclose(maps.trust(Z).support, typical, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [100, 101, 199, 200, 250, 1000])
def test_exactly_one_in_a_hundred_is_below_the_level_before_it_is_clipped(rows):
    """The level is the mass of the row at 1 %: with distinct masses, ceil(n / 100) - 1 are below it."""
    masses = np.random.default_rng(rows).permutation(np.linspace(-9, 3, rows))
    found = Reference.of(masses, np.full(rows, np.inf), np.ones(rows))
    assert (masses < found.lowest).sum() == int(np.ceil(rows / 100)) - 1
    assert (masses <= found.lowest).sum() == int(np.ceil(rows / 100))
    assert (masses < found.typical).sum() == int(np.ceil(rows / 2)) - 1


def test_weights_are_repeats_in_both_quantiles():
    rng = np.random.default_rng(1)
    masses, weights = rng.normal(size=300), rng.integers(1, 9, 300)
    found = Reference.of(masses, np.full(300, np.inf), weights.astype(float))
    assert found.typical == lower_quantile(masses, weights, 0.5)
    assert found.lowest == lower_quantile(masses, weights, 0.01)
    scaled = Reference.of(masses, np.full(300, np.inf), weights * 1e-3)
    assert (scaled.typical, scaled.lowest) == (found.typical, found.lowest)


def test_the_level_is_clipped_below_every_training_row_with_itself():
    alone, whole = np.linspace(-3, 3, 1000), np.linspace(-5, 3, 1000)
    found = Reference.of(alone, whole, np.ones(1000))
    assert found.lowest == whole.min() - 1e-9
    higher = Reference.of(alone, whole + 100, np.ones(1000))
    assert higher.lowest == alone[9]  # 1 %, where no row is in the way


def test_a_row_at_the_level_is_inside_and_one_below_is_not():
    found = Reference(typical=2.0, lowest=-1.0)
    judged = found.judge(np.array([2.0, -1.0, np.nextafter(-1.0, -2), -np.inf, np.nan, np.inf]))
    assert judged.support[:4].tolist() == [0.0, -3.0, np.nextafter(-1.0, -2) - 2.0, -np.inf]
    assert judged.flag.tolist() == [False, False, True, True, True, False]


@everyone
def test_no_training_row_is_flagged(estimator):
    """What the contract says today, of rows within reach of an anchor; an outlier that is no anchor is flagged."""
    X = cloud(3, rows=80)
    assert not quietly(clone(estimator).fit, X).trust(X).flag.any()
    if estimator in (ALL_METHODS["kernel-pca poly"], *NETWORKS.values()):
        return  # of rank one there; trained slowly
    model = quietly(clone(estimator).fit, cloud(3, "outlier", rows=80))
    assert not model.trust(model.landmarks_).flag.any()


def test_of_nearness_the_unit_is_the_median_gap_and_the_flag_twice_the_longest_but_one_in_a_hundred():
    gaps = np.random.default_rng(0).permutation(np.arange(1.0, 301.0))  # distances to the nearest distinct anchor
    nearness, reference = Nearness.of(gaps**2, np.ones(300))
    assert nearness.unit_squared == 150.0**2
    np.testing.assert_allclose(nearness.log_mass(gaps**2), -(gaps**2) / (2 * 150.0**2), rtol=1e-15)
    assert reference.typical == -0.5 * (151 / 150) ** 2  # of the masses, the lower of the two in the middle
    limit = 2 * 298.0  # 99 % of the anchors have a gap below 298, and three have as much or more
    inside, outside = (reference.judge(nearness.log_mass(np.array([(limit * f) ** 2]))) for f in (1 - 1e-9, 1 + 1e-9))
    assert not inside.flag[0]
    assert outside.flag[0]


def test_of_nearness_weights_are_repeats():
    rng = np.random.default_rng(2)
    squared, weights = rng.uniform(0.1, 4, 60), rng.integers(1, 5, 60)
    one, two = (
        Nearness.of(squared, weights.astype(float)),
        Nearness.of(np.repeat(squared, weights), np.ones(weights.sum())),
    )
    assert one[0].unit_squared == two[0].unit_squared
    assert (one[1].typical, one[1].lowest) == (two[1].typical, two[1].lowest)


def test_anchors_without_another_count_as_the_farthest():
    nearness, _ = Nearness.of(np.array([1.0, 4.0, np.inf, np.inf, np.inf]), np.ones(5))
    assert nearness.unit_squared == 4.0
    lonely, reference = Nearness.of(np.full(3, np.inf), np.ones(3))
    assert lonely.unit_squared == 1.0
    assert np.isfinite([reference.typical, reference.lowest]).all()
    assert lonely.log_mass(np.array([np.inf]))[0] == -np.finfo(float).max


@pytest.mark.parametrize(
    "estimator",
    [
        DiffusionMaps(),
        DiffusionMaps(kernel="gaussian"),
        DiffusionMaps(kernel="gaussian", n_neighbors=10),
        Roseland(landmarks=0.5, random_state=0),
        Roseland(landmarks=0.5, kernel="gaussian", random_state=0),
        ClassicalMDS(),
        LocallyLinearEmbedding(n_neighbors=8),
    ],
    ids=str,
)
def test_support_falls_along_a_way_out_and_the_flag_stays_up(estimator):
    X = cloud(5, rows=200)
    model = quietly(estimator.fit, X)
    way = np.linspace(0, 60, 200)[:, None] * np.array([[1.0, 0.0, 0.0]]) + X.mean(axis=0)
    trust = model.trust(way)
    first = int(trust.flag.argmax())
    assert 0 < first < 40
    assert trust.flag[first:].all()
    falling = np.diff(trust.support[first:])
    assert (falling[np.isfinite(falling)] <= 0).all()


@pytest.mark.parametrize("k", [5, 8, 10, 12, 15, 30])
def test_in_local_units_support_falls_along_a_way_out_while_the_nearest_anchors_are_the_same(k):
    """Each anchor has its own unit, so support may jump where one enters the list: up, if its unit is larger."""
    X = cloud(5, rows=200)
    model = quietly(DiffusionMaps(n_neighbors=k).fit, X)
    way = np.linspace(0, 60, 2000)[:, None] * np.array([[1.0, 0.0, 0.0]]) + X.mean(axis=0)
    trust = model.trust(way)
    first = int(trust.flag.argmax())
    assert 0 < first < 400
    assert trust.flag[2 * first :].all()
    nearest = np.sort(np.argsort(cdist(way, X), axis=1)[:, :k], axis=1)
    same = (nearest[1:] == nearest[:-1]).all(axis=1)[first:]
    assert same.sum() > 1000
    assert (np.diff(trust.support[first:])[same] <= 0).all()


def test_a_point_without_neighbours_has_the_floor_and_not_minus_infinity_as_its_own_mass():
    """A row alone in its graph: its mass without itself underflows, and must not make the quantiles infinite."""
    X = np.vstack([cloud(0, rows=60), np.full((1, 3), 1e4)])
    model = quietly(DiffusionMaps(epsilon=0.5).fit, X)
    reference = model.model_.reference
    assert np.isfinite([reference.typical, reference.lowest]).all()
    assert reference.lowest >= LOG_FLOOR - 1
    assert not model.trust(X).flag.any()
