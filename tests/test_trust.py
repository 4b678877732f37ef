"""Trust: the facts against brute force, p-values against their definition, and what they promise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom, ks_2samp
from sklearn.base import clone

from catalogue import ALL_METHODS, NETWORKS, cloud, quietly
from outfold import ClassicalMDS, DiffusionMaps, KernelPCA, LocallyLinearEmbedding, Roseland
from outfold.datasets import s_curve
from outfold.trust import (
    LEVEL,
    LOG_FLOOR,
    Isolation,
    Judge,
    Nearness,
    PrincipalAxes,
    Reference,
    RowFacts,
    calibrated_judge,
    upper_tail,
)

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


def facts_of(scores, **others):
    """Facts whose main one, on its logarithmic scale, is ``scores``."""
    return RowFacts(support=np.zeros(len(scores)), isolation=np.exp(scores), **others)


# -- support -------------------------------------------------------------------------------


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
def test_exactly_one_in_a_hundred_is_below_the_lowest_mass(rows):
    """It is the mass of the row at 1 %: with distinct masses, ceil(n / 100) - 1 are below it."""
    masses = np.random.default_rng(rows).permutation(np.linspace(-9, 3, rows))
    found = Reference.of(masses, np.ones(rows))
    assert (masses < found.lowest).sum() == int(np.ceil(rows / 100)) - 1
    assert (masses <= found.lowest).sum() == int(np.ceil(rows / 100))
    assert (masses < found.typical).sum() == int(np.ceil(rows / 2)) - 1


def test_the_lowest_mass_does_not_depend_on_the_most_isolated_row():
    masses = np.linspace(-3, 3, 1000)
    outlier = np.append(masses[1:], -500.0)
    assert Reference.of(outlier, np.ones(1000)).lowest == pytest.approx(Reference.of(masses, np.ones(1000)).lowest)


def test_weights_are_repeats_in_both_quantiles():
    rng = np.random.default_rng(1)
    masses, weights = rng.normal(size=300), rng.integers(1, 9, 300)
    found = Reference.of(masses, weights.astype(float))
    assert found.typical == lower_quantile(masses, weights, 0.5)
    assert found.lowest == lower_quantile(masses, weights, 0.01)
    scaled = Reference.of(masses, weights * 1e-3)
    assert (scaled.typical, scaled.lowest) == (found.typical, found.lowest)


def test_a_reference_of_two_quantiles_has_both_in_its_judge():
    """Files of 0.1.0 hold the median and the 1 % quantile: a log mass is strange at the second."""
    judge = Reference(typical=2.0, lowest=-1.0).judge()
    p = judge.judge(RowFacts(support=np.array([0.0, -3.0 + 0.2, -3.0 - 0.2]))).p_value
    assert p[0] == pytest.approx(0.5, abs=0.02)
    assert p[1] > LEVEL > p[2]


def test_of_nearness_the_unit_is_the_median_gap():
    gaps = np.random.default_rng(0).permutation(np.arange(1.0, 301.0))  # distances to the nearest distinct anchor
    nearness, reference = Nearness.of(gaps**2, np.ones(300))
    assert nearness.unit_squared == 150.0**2
    np.testing.assert_allclose(nearness.log_mass(gaps**2), -(gaps**2) / (2 * 150.0**2), rtol=1e-15)
    assert reference.typical == -0.5 * (151 / 150) ** 2  # of the masses, the lower of the two in the middle


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


def test_a_point_without_neighbours_has_the_floor_and_not_minus_infinity_as_its_own_mass():
    """A row alone in its graph: its mass without itself underflows, and must not make the quantiles infinite."""
    X = np.vstack([cloud(0, rows=60), np.full((1, 3), 1e4)])
    model = quietly(DiffusionMaps(epsilon=0.5).fit, X)
    reference = model.model_.reference
    assert np.isfinite([reference.typical, reference.lowest]).all()
    assert reference.lowest >= LOG_FLOOR - 1
    assert not model.trust(X).flag.any()


# -- facts ---------------------------------------------------------------------------------


def brute_isolation(Z, X, count, drop=None):
    """Isolation and distance by the definition; ``drop``: the row of X that each row of Z leaves out."""
    values, distances = [], []
    for i, z in enumerate(Z):
        rest = X if drop is None else np.delete(X, drop[i], axis=0)
        among = np.sort(cdist(rest, rest), axis=1)[:, 1:]
        unit = among[:, 7]
        unit = np.maximum(unit, 0.1 * np.median(unit))
        d = np.linalg.norm(rest - z, axis=1)
        near = np.argsort(d)[:count]
        weights = 1 / np.arange(1, count + 1)
        logs = np.log(d[near]) - 0.75 * np.log(unit[near]) - 0.25 * np.log(np.median(unit))
        values.append(np.exp(weights @ logs / weights.sum()))
        distances.append(d[near[0]] / unit[near[0]])
    return np.array(values), np.array(distances)


@pytest.mark.parametrize("estimator", [DiffusionMaps(), KernelPCA(2, kernel="rbf"), Roseland(landmarks=40)], ids=str)
def test_isolation_and_distance_are_their_definition(estimator):
    X, Z = s_curve(150, random_state=0)[0], cloud(1, rows=20)
    model = quietly(clone(estimator).fit, X)
    trust = model.trust(Z)
    count = model._domain().isolation.count
    assert count == (19 if isinstance(estimator, DiffusionMaps) else 20)  # the 20 nearest of a row count itself
    isolation, distance = brute_isolation(Z, X, count)
    np.testing.assert_allclose(trust.isolation, isolation, rtol=1e-10)
    np.testing.assert_allclose(trust.distance, distance, rtol=1e-10)


def test_a_training_row_without_itself_is_what_a_fit_without_it_says():
    """Up to the median unit, which is that of all rows."""
    X = s_curve(120, random_state=3)[0]
    order = np.argsort(cdist(X, X), axis=1, kind="stable")[:, :21]
    ptr = 21 * np.arange(121)
    squared = np.take_along_axis(cdist(X, X, "sqeuclidean"), order, axis=1)
    found = Isolation.of(ptr, order.ravel(), squared.ravel(), np.ones(120))
    expected, _ = brute_isolation(X, X, 20, drop=range(120))
    assert found.sample.tolist() == list(range(120))
    np.testing.assert_allclose(np.exp(found.alone), expected, rtol=0.01)
    assert np.median(np.abs(np.exp(found.alone) / expected - 1)) < 1e-3
    copies = Isolation.of(ptr, order.ravel(), squared.ravel(), np.where(np.arange(120) < 5, 2.0, 1.0))
    assert np.isneginf(copies.alone[:5]).all()  # another copy stays
    assert np.isfinite(copies.alone[5:]).all()


@pytest.mark.parametrize("features", [8, 300])
def test_amplitude_and_remainder_are_lengths_in_and_outside_the_principal_axes(features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, features)) * np.geomspace(5, 0.1, features)
    axes = PrincipalAxes.of(X)
    C = X - X.mean(axis=0)
    variances = np.square(np.linalg.svd(C, compute_uv=False)) / 399
    held = np.cumsum(variances) / variances.sum()
    count = min(40, int(np.searchsorted(held, 0.9)) + 1)  # at least ten rows an axis
    V = axes.axes
    assert V.shape == (features, count)
    np.testing.assert_allclose(V.T @ V, np.eye(count), atol=1e-10)
    found = np.square(C @ V).sum() / 399 / variances.sum()  # of many features the axes are found approximately
    assert found == pytest.approx(held[count - 1], abs=1e-10 if features == 8 else 0.05)
    Z = rng.normal(size=(30, features))
    inside = (Z - X.mean(axis=0)) @ V
    amplitude, remainder = axes.facts(Z)
    outside = np.linalg.norm((Z - X.mean(axis=0)) - inside @ V.T, axis=1)
    np.testing.assert_allclose(amplitude, np.sqrt((inside**2 / axes.deviations**2).mean(axis=1)), rtol=1e-10)
    np.testing.assert_allclose(remainder, outside / axes.rest, rtol=1e-9)
    np.testing.assert_allclose(np.square((C @ V) / axes.deviations).mean(), 399 / 400, rtol=0.05)


def test_training_rows_are_described_by_axes_of_rows_they_are_not_among():
    """Heavy tails: by axes that it turned towards itself, an outlier among the training rows would look ordinary."""
    shares = []
    for seed in range(10):
        X = np.random.default_rng(seed).standard_t(2, size=(600, 40)) * np.geomspace(5, 0.5, 40)
        train, fresh = X[:300], X[300:]
        axes = PrincipalAxes.of(train)
        own, alone, new = axes.facts(train)[1], axes.without_self(train)[1], axes.facts(fresh)[1]
        shares.append([(values > np.quantile(new, 0.9)).mean() for values in (own, alone)])  # of fresh rows: one in ten
    by_own, by_others = np.mean(shares, axis=0)
    assert by_own < 0.08
    assert 0.09 < by_others < 0.2  # axes of half of the rows leave more outside, never less


def test_axes_need_rows_and_finite_features():
    assert PrincipalAxes.of(np.random.default_rng(0).normal(size=(9, 3))) is None
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[3, 1] = np.nan
    assert PrincipalAxes.of(X) is None
    assert PrincipalAxes.of(np.ones((50, 3))) is None


def test_a_small_amplitude_is_strange_in_many_dimensions_only():
    rng = np.random.default_rng(0)
    for dimension, strange in ((3, False), (40, True)):
        X = rng.normal(size=(800, dimension))
        assert ("low amplitude" in PrincipalAxes.of(X).names) == strange
        assert quietly(DiffusionMaps().fit, X).trust(X.mean(axis=0)[None]).flag[0] == strange


# -- scores and p-values -------------------------------------------------------------------


def test_the_scale_of_a_fact_is_that_of_an_exponential_tail():
    values = np.random.default_rng(0).exponential(3.0, size=200_000)
    start, scale = upper_tail(values)
    assert start == pytest.approx(3 * np.log(10), rel=0.02)
    assert scale == pytest.approx(3.0, rel=0.02)
    spoilt = np.append(values, np.full(2000, 1e6))  # one in a hundred
    assert upper_tail(spoilt)[1] < 1.5 * scale
    assert upper_tail(np.full(50, 2.0)) == (2.0, 1e-3)
    assert upper_tail(np.full(50, np.inf)) == (0.0, 1.0)


def test_the_score_is_a_maximum_in_which_others_count_from_their_rarest_hundredth():
    rng = np.random.default_rng(0)
    known = facts_of(rng.normal(size=1000), remainder=rng.uniform(0.2, 0.3, 1000), residual=rng.uniform(0, 1, 1000))
    judge = Judge.of(known, ("isolation", "remainder", "residual"), np.ones(1000))
    q, s = judge.start, judge.scale

    def score(main, other, fitted=0.0):
        given = {"remainder": np.exp([other]), "residual": 1 - np.exp([-fitted])}
        return judge.score(facts_of(np.array([main]), **given))[0]

    tail = np.log(10) + 1.5
    assert score(q[0] + 1.5 * s[0], q[1]) == pytest.approx(tail)  # the other is ordinary
    rare = q[1] + (np.log(100) - np.log(10) + 1.0) * s[1]  # its T is log 100 + 1
    assert score(q[0] - 100 * s[0], rare) == pytest.approx(4.0)
    assert score(q[0] + 50 * s[0], rare) == pytest.approx(np.log(10) + 50)
    later = q[2] + (np.log(1000) - np.log(10) + 1.0) * s[2]  # a fact of fits counts from its rarest thousandth on
    assert score(q[0] - 100 * s[0], q[1], later) == pytest.approx(4.0)
    assert score(-np.inf, rare) == -np.inf  # it equals a training row


def test_a_training_row_is_strange_by_support_alone():
    rng = np.random.default_rng(0)
    known = replace(facts_of(rng.normal(size=500)), support=rng.normal(size=500))
    judge = Judge.of(known, ("isolation", "low support"), np.ones(500))
    rows = replace(facts_of(np.full(2, -np.inf)), support=np.array([0.0, -50.0]))
    assert judge.judge(rows).flag.tolist() == [False, True]


def test_the_p_value_is_a_rank_among_rows_that_did_not_set_the_scale():
    scores = np.random.default_rng(0).normal(size=2000)
    judge = Judge.of(facts_of(scores), ("isolation",), np.ones(2000))
    assert len(judge.scores) == 1500
    Z = np.linspace(-4, 4, 77)
    found = judge.score(facts_of(Z))
    expected = [(1 + (judge.scores >= value).sum()) / 1501 for value in found]
    np.testing.assert_allclose(judge.p_value(found), expected, rtol=1e-14)
    assert judge.p_value(np.array([np.inf]))[0] == 1 / 1501  # never below
    trust = judge.judge(facts_of(Z), level=0.2)
    np.testing.assert_array_equal(trust.flag, trust.p_value < 0.2)


def test_of_few_rows_the_p_value_goes_on_as_an_exponential_tail():
    scores = np.random.default_rng(0).normal(size=60)
    judge = Judge.of(facts_of(scores), ("isolation",), np.ones(60))
    top = judge.scores[-1]
    np.testing.assert_allclose(
        judge.p_value(top + np.array([0.0, 1e-12, 1.0, 3.0])), [2 / 61, 1 / 61, np.exp(-1) / 61, np.exp(-3) / 61]
    )
    more = Judge.of(facts_of(np.random.default_rng(0).normal(size=100)), ("isolation",), np.ones(100))
    assert more.p_value(np.array([1e9]))[0] == 1 / 101  # below 0.01: no rule is needed


def test_weights_count_as_repeats_and_rows_with_copies_at_most_as_much_as_the_others():
    rng = np.random.default_rng(3)
    scores, weights = rng.normal(size=90), rng.integers(1, 4, 90).astype(float)
    judge = Judge.of(facts_of(scores), ("isolation",), weights)
    value = judge.scores[45]
    heavier = weights[np.argsort(scores)][45:].sum()
    assert judge.p_value(np.array([value]))[0] == pytest.approx((1 + heavier) / (1 + weights.sum()))
    scores[:80] = -np.inf  # rows with copies
    capped = Judge.of(facts_of(scores), ("isolation",), np.full(90, 1000.0))
    assert capped.weight[:80].sum() == pytest.approx(capped.weight[80:].sum())


def test_rows_without_a_training_row_in_reach_are_always_flagged():
    judge = Judge.of(facts_of(np.zeros(50)), ("isolation",), np.ones(50))
    trust = judge.judge(replace(facts_of(np.zeros(2)), support=np.array([0.0, -np.inf])), level=0.0)
    assert trust.flag.tolist() == [False, True]
    assert trust.score[1] == np.inf


def test_facts_of_several_fits_are_judged_together_by_those_that_all_have():
    parts = [
        (facts_of(np.arange(30.0), amplitude=np.ones(30), residual=np.full(30, 0.5)), ("isolation", "amplitude")),
        (facts_of(np.arange(30.0), residual=np.full(30, 0.5)), ("isolation",)),
    ]
    judge = calibrated_judge(parts, np.ones(60))
    assert judge.names == ("isolation", "low support", "residual")
    assert len(judge.scores) == 60


# -- what it promises ----------------------------------------------------------------------


@pytest.mark.parametrize("calibrated", [False, True])
def test_fresh_rows_have_uniform_p_values(calibrated):
    """Over 12 splits of 500 + 500 rows: as many flagged as the level says, and the same scores as training rows."""
    rejected, flagged = 0, []
    for seed in range(12):
        X = s_curve(1000, random_state=seed)[0]
        model = DiffusionMaps(2, n_jobs=1).fit(X[:500])
        if calibrated:
            model.calibrate(folds=5)
        trust = model.trust(X[500:])
        rejected += ks_2samp(model._judge_of_rows().scores, trust.score).pvalue < 0.01
        flagged.append(trust.flag.sum())
    assert rejected <= 2
    total = sum(flagged)
    low, high = binom.ppf([1e-4, 1 - 1e-4], 6000, LEVEL)
    assert low / 3 < total < 2 * high  # a split is judged by one set of 500 scores, so the count varies more


@everyone
def test_no_training_row_is_flagged(estimator):
    """What the contract says, of rows within reach of an anchor; an outlier that is no anchor is flagged."""
    X = cloud(3, rows=80)
    assert not quietly(clone(estimator).fit, X).trust(X).flag.any()
    if estimator in (ALL_METHODS["kernel-pca poly"], *NETWORKS.values()):
        return  # of rank one there; trained slowly
    model = quietly(clone(estimator).fit, cloud(3, "outlier", rows=80))
    assert not model.trust(model.landmarks_).flag.any()


@everyone
def test_far_rows_are_flagged_by_every_method(estimator):
    X = cloud(3, rows=120)
    model = quietly(clone(estimator).fit, X)
    far = X.mean(axis=0) + 10 * np.linalg.norm(X - X.mean(axis=0), axis=1).max() * np.vstack([np.eye(3), -np.eye(3)])
    assert model.trust(far).flag.all()


@pytest.mark.parametrize(
    "estimator",
    [DiffusionMaps(), DiffusionMaps(kernel="gaussian"), Roseland(random_state=0), KernelPCA(2, kernel="rbf")],
    ids=str,
)
def test_images_of_noise_are_flagged_and_images_are_not(estimator):
    from sklearn.datasets import load_digits

    digits = load_digits().data[np.random.default_rng(0).permutation(1797)]
    model = quietly(clone(estimator).fit, digits[:900])
    rng = np.random.default_rng(1)
    shuffled = np.array([rng.permutation(row) for row in digits[900:1000]])
    for strange in (rng.uniform(0, 16, (100, 64)), rng.choice(digits.ravel(), (100, 64)), shuffled, 16 - digits[900:]):
        assert model.trust(strange).flag.mean() >= 0.95
    assert model.trust(digits[900:]).flag.mean() <= 0.03


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
    assert (np.diff(trust.isolation[first:]) > 0).all()
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


def test_a_batch_alarms_if_rows_like_the_training_rows_do_not_explain_it():
    rng = np.random.default_rng(0)
    judge = Judge.of(facts_of(rng.exponential(size=2000)), ("isolation",), np.ones(2000))
    ordinary = [judge.judge(facts_of(rng.exponential(size=1000))) for _ in range(50)]
    assert sum(trust.flag.any() for trust in ordinary) > 45  # one in a hundred is flagged
    assert sum(judge.alarms(trust.score, trust.flag) for trust in ordinary) <= 2
    one = judge.judge(facts_of(np.append(rng.exponential(size=999), 40.0)))  # one row is very far
    many = judge.judge(facts_of(np.append(rng.exponential(size=960), np.full(40, 6.5))))  # too many are a little far
    assert judge.alarms(one.score, one.flag)
    assert judge.alarms(many.score, many.flag)
    assert not judge.alarms(np.zeros(5), np.zeros(5, bool))


def test_the_level_is_a_parameter():
    X = s_curve(1000, random_state=0)[0]
    model = DiffusionMaps().fit(X[:500])
    loose, strict = (model.trust(X[500:], level=level) for level in (0.2, 0.01))
    np.testing.assert_array_equal(loose.p_value, strict.p_value)
    assert 0.1 < loose.flag.mean() < 0.3
    with pytest.raises(ValueError, match="level=2"):
        model.trust(X, level=2)


@everyone
def test_trust_does_not_depend_on_the_batch(estimator):
    X = cloud(3, rows=80)
    model = quietly(clone(estimator).fit, X)
    if model.model_.batchwise:
        return  # joint degrees depend on the batch by definition
    Z = np.vstack([cloud(4, rows=12), [[30.0, 0.0, 0.0]]])
    whole = model.trust(Z)
    for i in (0, 5, 12):
        alone = model.trust(Z[i : i + 1])
        for name in ("p_value", "isolation", "distance", "amplitude", "support"):
            np.testing.assert_allclose(getattr(alone, name)[0], getattr(whole, name)[i], rtol=1e-9, atol=1e-12)
        assert alone.flag[0] == whole.flag[i]
