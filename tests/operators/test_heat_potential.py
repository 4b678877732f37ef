"""Heat potentials: rows and potentials against naive formulas."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import quietly
from outfold import PHATE
from outfold.datasets import s_curve
from outfold.operators._smacof import stress
from outfold.operators.heat_potential import PROBABILITY_FLOOR, potential_distances, potentials

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
    U = -np.log(np.linalg.matrix_power(P, 7) + PROBABILITY_FLOOR)
    np.testing.assert_allclose(stress(cdist(U, U), model.embedding_, np.ones(300)), model.stress_, rtol=1e-6)
    values = np.sort(np.linalg.eigvals(P).real)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[1:3], atol=1e-10)


def test_landmarks_diffuse_to_the_rows_and_back():
    at = np.arange(0, 300, 3)
    model = PHATE(t=4, landmarks=X[at]).fit(X)
    K = naive_kernel(X, X[at], 5, 40, cap=True)
    there, back = K / K.sum(axis=1, keepdims=True), K.T / K.T.sum(axis=1, keepdims=True)
    U = -np.log(np.linalg.matrix_power(back @ there, 4) + PROBABILITY_FLOOR)
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
    naive = -np.log(power + PROBABILITY_FLOOR) if gamma == 1 else 2 / (1 - gamma) * power ** ((1 - gamma) / 2)
    np.testing.assert_allclose(potentials(P, 3, gamma, np.ones(20)), naive, rtol=1e-12)
    np.testing.assert_allclose(potential_distances(P, 3, gamma, np.ones(20)), cdist(naive, naive), rtol=1e-10)


def test_gamma_near_one_tends_to_the_logarithm():
    P = np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
    near, logs = potential_distances(P, 2, 1 - 1e-6, np.ones(3)), potential_distances(P, 2, 1.0, np.ones(3))
    np.testing.assert_allclose(near, logs, rtol=1e-5)
