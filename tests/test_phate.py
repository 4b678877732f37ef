"""PHATE: kernel, potentials and scaling against naive formulas and scikit-learn; one rule for all rows."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof

from catalogue import cloud, quietly
from outfold import PHATE, landmarks, plan, quality
from outfold.datasets import s_curve, swiss_roll
from outfold.exceptions import SpectrumWarning
from outfold.potential import FLOOR, potential_distances, potentials
from outfold.runners import Threads
from outfold.scaling import along_axes, classical, metric, stress

X = s_curve(300, random_state=0)[0]


def naive_kernel(Z, anchors, k, decay, cap):
    """1/2 exp(-(d / sigma(x))^a) + 1/2 exp(-(d / sigma(y))^a), what is below 1e-4 of the row's largest left out."""
    ours = np.sort(cdist(anchors, anchors), axis=1)[:, k]
    own = np.minimum(np.sort(cdist(Z, anchors), axis=1)[:, k], ours.max() if cap else np.inf)
    d = cdist(Z, anchors)
    with np.errstate(over="ignore"):
        K = (np.exp(-((d / own[:, None]) ** decay)) + np.exp(-((d / ours) ** decay))) / 2
    K[K / K.max(axis=1, keepdims=True) < 1e-4] = 0
    return K


# -- the kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "decay"), [(5, 40), (3, 2), (9, 10.5)])
def test_rows_are_those_of_the_formula(k, decay):
    model = PHATE(n_neighbors=k, decay=decay, t=2).fit(X)
    for Z in (X[:40], X[:40] + np.random.default_rng(0).normal(scale=0.02, size=(40, 3))):
        K = naive_kernel(Z, X, k, decay, cap=True)
        rows = model.model_.rule.rows(Z)
        np.testing.assert_allclose(rows.weights.toarray(), K / K.sum(axis=1, keepdims=True), rtol=0, atol=1e-12)
        np.testing.assert_allclose(rows.log_degree, np.log(K.sum(axis=1)), rtol=0, atol=1e-12)


def test_anchors_are_scaled_from_potentials_of_the_kernel_between_them():
    model = PHATE(t=7, random_state=0).fit(X)
    K = naive_kernel(X, X, 5, 40, cap=False)
    np.testing.assert_allclose(K, K.T, atol=1e-15)
    P = K / K.sum(axis=1, keepdims=True)
    U = -np.log(np.linalg.matrix_power(P, 7) + FLOOR)
    np.testing.assert_allclose(stress(cdist(U, U), model.embedding_, np.ones(300)), model.stress_, rtol=1e-6)
    values = np.sort(np.linalg.eigvals(P).real)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[1:3], atol=1e-10)


def test_landmarks_diffuse_to_the_rows_and_back():
    at = np.arange(0, 300, 3)
    model = PHATE(t=4, landmarks=X[at]).fit(X)
    K = naive_kernel(X, X[at], 5, 40, cap=True)
    there, back = K / K.sum(axis=1, keepdims=True), K.T / K.T.sum(axis=1, keepdims=True)
    U = -np.log(np.linalg.matrix_power(back @ there, 4) + FLOOR)
    places = model.model_.places
    np.testing.assert_allclose(stress(cdist(U, U), places, np.ones(100)), model.stress_, rtol=1e-6)
    np.testing.assert_allclose(model.transform(X), there @ places, atol=1e-10)


def test_weights_count_as_repeats():
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, len(X))
    weighted = PHATE(landmarks=None).fit(X, sample_weight=weights)
    repeated = PHATE(landmarks=None).fit(np.repeat(X, weights, axis=0))
    assert weighted.t_ == repeated.t_
    np.testing.assert_allclose(quietly(weighted.transform, X), quietly(repeated.transform, X), atol=1e-8)


# -- potentials ------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1.0, 0.0, -1.0, 0.5])
def test_potentials_are_those_of_the_formula(gamma):
    rng = np.random.default_rng(0)
    P = rng.uniform(size=(20, 20)) ** 8
    P /= P.sum(axis=1, keepdims=True)
    power = P @ P @ P
    naive = -np.log(power + FLOOR) if gamma == 1 else 2 / (1 - gamma) * power ** ((1 - gamma) / 2)
    np.testing.assert_allclose(potentials(P, 3, gamma, np.ones(20)), naive, rtol=1e-12)
    np.testing.assert_allclose(potential_distances(P, 3, gamma, np.ones(20)), cdist(naive, naive), rtol=1e-10)


def test_gamma_near_one_tends_to_the_logarithm():
    P = np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
    near, logs = potential_distances(P, 2, 1 - 1e-6, np.ones(3)), potential_distances(P, 2, 1.0, np.ones(3))
    np.testing.assert_allclose(near, logs, rtol=1e-5)


# -- scaling ---------------------------------------------------------------------------------


def test_the_stress_never_rises_and_ends_where_scikit_learns_does():
    delta = np.sqrt(cdist(X[:150], X[:150], "cityblock"))  # in no plane
    ones = np.ones(150)
    found = metric(delta, 2, ones, Threads(1))
    history = np.array(found.history)
    assert (np.diff(history) <= 1e-12 * history[0]).all()
    assert history[-1] < 0.9 * history[0]
    _, theirs = smacof(
        delta,
        n_components=2,
        init=classical(delta, 2, ones),
        n_init=1,
        max_iter=2000,
        eps=1e-9,
        normalized_stress=False,
    )
    assert history[-1] == pytest.approx(theirs, rel=5e-3)
    assert found.stress == pytest.approx(history[-1] / (np.square(delta).sum() / 2), rel=1e-12)
    assert found.stress == pytest.approx(stress(delta, found.places, ones), rel=1e-9)


def test_distances_of_a_plane_are_kept():
    places = along_axes(np.random.default_rng(0).normal(size=(700, 2)), np.ones(700))  # also beyond dense solves
    found = metric(cdist(places, places), 2, np.ones(700), Threads(1)).places
    np.testing.assert_allclose(found * np.sign((found * places).sum(axis=0)), places, atol=1e-8)


def test_compiled_steps_are_the_plain_formula():
    from outfold import _stress

    rng = np.random.default_rng(0)
    places, measure = rng.normal(size=(3, 30)), rng.uniform(1, 2, 30)
    places[:, 1] = places[:, 0]  # two in one place
    delta = cdist(rng.normal(size=(30, 5)), rng.normal(size=(30, 5)))
    d = cdist(places.T, places.T)
    with np.errstate(divide="ignore"):
        pulls = np.where(d > 0, delta / d, 0.0) * measure
    expected = (pulls[:, :, None] * (places.T[:, None] - places.T)).sum(axis=1).T
    for step in (_stress.guttman_rows, _stress.guttman_rows.plain):
        out, parts = np.zeros((3, 30)), np.zeros(30)
        step(delta, places, measure, out, parts, 0, 30)
        np.testing.assert_allclose(out, expected, atol=1e-11)
        np.testing.assert_allclose(parts, measure * (np.square(delta - d) @ measure), rtol=1e-12)


def test_classical_scaling_is_where_metric_scaling_starts():
    first, second = (PHATE(mds=mds, t=5).fit(X) for mds in ("classical", "metric"))
    assert second.stress_ < first.stress_
    assert quality.distance_correlation(first.embedding_, second.embedding_, method="pearson") > 0.9


# -- the estimator ---------------------------------------------------------------------------


def test_one_rule_for_training_rows_and_new_ones():
    rows = swiss_roll(2500, random_state=0)[0]
    model = PHATE(landmarks=400, random_state=0)
    embedding = model.fit_transform(rows)
    np.testing.assert_allclose(model.transform(rows[:50]), embedding[:50], rtol=0, atol=1e-10)
    assert model.report_.n_anchors == 400
    assert 0 < model.report_.extension_gap < 0.2 * np.abs(embedding).max()


def test_landmarks_stand_for_all_rows():
    rng = np.random.default_rng(0)
    branch, along = rng.integers(0, 3, 900), rng.uniform(0, 10, (900, 1))
    rows = along * np.eye(3, 20)[branch] + rng.normal(scale=0.3, size=(900, 20))
    whole = PHATE(landmarks=None).fit_transform(rows)
    few = PHATE(landmarks=400, random_state=0).fit_transform(rows)
    assert quality.distance_correlation(whole, few, method="pearson") > 0.97


def test_rows_in_a_file_are_as_rows_in_memory(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    streamed = PHATE(landmarks=100, random_state=0).fit(tmp_path / "rows.npy")
    np.testing.assert_array_equal(streamed.transform(X), PHATE(landmarks=100, random_state=0).fit_transform(X))


def test_a_far_row_is_its_nearest_anchor():
    model = PHATE(t=5).fit(X)
    far = X.mean(axis=0) + np.array([[1e3, 0, 0], [1e9, 0, 0], [1e200, 0, 0]])
    embedding, trust = quietly(model.transform, far, return_trust=True)
    for i in range(2):
        np.testing.assert_allclose(embedding[i], model.embedding_[cdist(far[i : i + 1], X).argmin()])
    assert np.isfinite(embedding).all()
    assert trust.flag.all()
    assert not model.trust(X).flag.any()


def test_landmarks_no_row_sees_are_left_out():
    given = np.vstack([X[::3], X[:10] + 1e3])
    model = quietly(PHATE(landmarks=given, t=4).fit, X)
    assert len(model.landmarks_) == 100


def test_parts_are_told():
    with pytest.warns(SpectrumWarning, match="falls into 3 components"):
        PHATE(n_neighbors=3).fit(np.vstack([cloud(s, rows=40) + 1e3 * s for s in range(3)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PHATE().fit(X)


def test_auto_takes_every_row_up_to_two_thousand():
    assert plan((2000, 3), PHATE()).anchors == 2000
    assert plan((100_000, 3), PHATE()).anchors == 2000
    few = landmarks.UpTo(50)
    assert len(PHATE(landmarks=few, random_state=0).fit(X).landmarks_) == 50


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 2.5}, "n_components=2.5 must be a whole number"),
        ({"n_components": "auto"}, "n_components='auto' must be a whole number"),
        ({"n_neighbors": 0}, "n_neighbors=0 must be a whole number >= 1"),
        ({"n_neighbors": 300}, "n_neighbors=300 must be smaller than the number of distinct points, 300"),
        ({"n_neighbors": 50, "landmarks": 40}, "distinct points, 40. Lower it, or raise landmarks"),
        ({"decay": 0}, "decay=0 must be > 0"),
        ({"decay": float("inf")}, "decay=inf must be > 0 and <= 1000"),
        ({"t": 0}, "t=0 must be a whole number >= 1"),
        ({"t": 2.5}, "t=2.5 must be a whole number"),
        ({"t": "long"}, "t='long' is not known. Valid: 'auto'"),
        ({"gamma": 1.1}, "gamma=1.1 must be >= -1 and <= 1"),
        ({"mds": "sgd"}, "mds='sgd' is not known. Valid: 'metric', 'classical'"),
        ({"metric": "precomputed"}, "PHATE needs features"),
        ({"landmarks": 301}, r"more landmarks than there are training rows \(300\)"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        PHATE(**parameters).fit(X)


def test_tables_that_cannot_fit_are_refused_first():
    rows = np.broadcast_to(np.arange(10.0), (10_000_000, 10))
    with pytest.raises(MemoryError, match="landmarks='auto' takes 2000"):
        PHATE(landmarks=None)._recipe().view.pose(None, landmarks.Anchors(rows, None, np.ones(1)), None, 2, Threads())
