"""``report_.amplification`` of each row rule, against its formula in NumPy."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from catalogue import cloud, new_points, quietly
from outfold import (
    GRAE,
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    DiffusionNet,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
)
from outfold.extensions import KernelRidge, LaplacianPyramid
from outfold.solvers import LowRank

X = cloud(0, rows=90)


def amplification(estimator, **options):
    model = quietly(estimator.fit, X, **options)
    return model, model.report_.amplification


@pytest.mark.parametrize("t", [0, 0.5, 1, 3])
@pytest.mark.parametrize("coordinates", ["diffusion", "canonical"])
def test_of_a_markov_row_it_is_the_power_that_the_basis_has_beside_psi(t, coordinates):
    """embedding = lambda^p psi = row @ (lambda^(p - 1) psi); canonical coordinates have p = t / 2."""
    model, found = amplification(DiffusionMaps(5, t=t, epsilon=0.3, coordinates=coordinates))
    power = t if coordinates == "diffusion" else t / 2
    assert found == pytest.approx(max(1.0, (model.eigenvalues_ ** (power - 1)).max()), rel=1e-12)
    assert found > 1 or power >= 1


def test_of_laplacian_eigenmaps_it_is_one_over_lambda():
    model, found = amplification(LaplacianEigenmaps(5, epsilon=1.0))
    assert found == pytest.approx(1 / (1 - model.eigenvalues_).min(), rel=1e-12)
    assert found > 1.2


@pytest.mark.parametrize(
    "estimator",
    [
        KernelPCA(4, kernel="rbf", gamma="auto"),
        ClassicalMDS(3),
        ClassicalMDS(6, metric="manhattan", signed=True),
        Isomap(3, n_neighbors=8),
    ],
    ids=str,
)
def test_of_a_centred_row_it_is_the_root_of_a_ratio(estimator):
    """The basis is f / sqrt(lambda), the embedding sqrt(lambda) f: rounding of the first coordinate is the unit."""
    model, found = amplification(estimator)
    sizes = np.abs(model.eigenvalues_)
    assert found == pytest.approx(np.sqrt(sizes.max() / sizes.min()), rel=1e-12)
    assert found > 1.1


@pytest.mark.parametrize(
    "estimator",
    [
        LaplacianEigenmaps(3, laplacian="unnormalized"),
        LocallyLinearEmbedding(3, n_neighbors=8),
        PHATE(random_state=0),
        DiffusionNet(hidden=(6,), max_iter=4, random_state=0),
        GRAE(hidden=(6,), epochs=2, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_of_rows_that_carry_values_as_they_are_it_is_one(estimator):
    assert amplification(estimator)[1] == 1.0


@pytest.mark.parametrize("t", [0, 0.25, 1, 2])
def test_of_roseland_half_a_step_is_in_the_row(t):
    """embedding = sigma^(2t) psi = row @ (sigma^(2t - 1) phi), eigenvalues sigma^2."""
    model, found = amplification(Roseland(5, landmarks=0.6, t=t, epsilon=0.3, random_state=0))
    assert found == pytest.approx(max(1.0, (model.eigenvalues_ ** (t - 0.5)).max()), rel=1e-12)
    assert found > 1 or t >= 0.5


@pytest.mark.parametrize("t", [0, 1, 2])
def test_of_low_rank_it_is_the_largest_sum_of_absolute_terms(t):
    """psi = |g| w R^-1 G v / (lambda^(3/2) h) for unit v, so |w| |R^-1 G| bounds the terms of lambda^t psi."""
    epsilon, weight = 0.8, np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    low = DiffusionMaps(4, epsilon=epsilon, alpha=0, t=t, landmarks=X[::2], solver=LowRank())
    model, found = amplification(low, sample_weight=weight)
    Y = model.landmarks_  # in the order of the pivots
    C, A = (np.exp(-cdist(rows, Y, "sqeuclidean") / (2 * epsilon)) for rows in (X, Y))
    R = np.linalg.cholesky(A).T
    h = C.T @ weight
    F = solve_triangular(R, C.T, trans="T").T
    g = F.T @ weight
    G = F.T @ ((weight / (F @ g))[:, None] * F)
    terms = A @ np.abs(solve_triangular(R, G))
    reach = (np.linalg.norm(terms, axis=1) * np.linalg.norm(g) / h).max()
    assert found == pytest.approx(max(1.0, reach * (model.eigenvalues_ ** (t - 1.5)).max()), rel=1e-4)
    assert found > 3


def test_of_another_extension_it_is_the_sum_of_its_coefficients_in_units_of_the_embedding():
    ridge = KernelRidge(0.5, 1e-6)
    model, found = amplification(DiffusionMaps(2, extension=ridge))
    places = quietly(DiffusionMaps(2).fit_transform, X)
    K = np.exp(-cdist(X, X, "sqeuclidean") / (2 * 0.5))
    coefficients = np.linalg.solve(K + 1e-6 * np.eye(len(X)), places - places.mean(axis=0))
    expected = np.abs(coefficients).sum(axis=0).max() / np.abs(places).max()
    assert found == pytest.approx(max(1.0, expected), rel=1e-4)
    assert found > 5
    Z = new_points(X, 0, 5)
    assert np.isfinite(model.transform(Z)).all()
    assert amplification(DiffusionMaps(2, extension=LaplacianPyramid()))[1] < 10  # its rows are averages
