"""Answers known beforehand: circle, torus, sphere, densities, identities, a published reference."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ive, spherical_in
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from catalogue import aligned_error, cloud, quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, SpectralClustering
from outfold.bandwidths import Percentile
from outfold.data import normalize_weights
from outfold.exceptions import SpectrumWarning
from outfold.kernels import Variable


def grid_circle(n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def fibonacci_sphere(n):
    k = np.arange(n) + 0.5
    z, angle = 1 - 2 * k / n, np.pi * (1 + np.sqrt(5)) * k
    return np.column_stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z])


def quantile_circle(n, contrast):
    """Angles at the quantiles of the density 1 + contrast cos."""
    fine = np.linspace(0, 2 * np.pi, 200_001)
    angle = np.interp((np.arange(n) + 0.5) / n, (fine + contrast * np.sin(fine)) / (2 * np.pi), fine)
    return np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_uniform_circle_has_bessel_eigenvalues_each_twice(alpha, solver):
    epsilon, k = 0.1, np.repeat(np.arange(1, 5), 2)
    X = grid_circle(400)
    maps = DiffusionMaps(8, epsilon=epsilon, alpha=alpha, solver=solver).fit(X)
    np.testing.assert_allclose(maps.eigenvalues_, ive(k, 1 / epsilon) / ive(0, 1 / epsilon), rtol=0, atol=1e-12)


def test_uniform_circle_extends_to_trigonometric_functions_and_scales_with_the_radius():
    epsilon, n = 0.1, 400
    maps = DiffusionMaps(2, epsilon=epsilon, t=0).fit(grid_circle(n))
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 50)
    rays = np.column_stack([np.cos(angle), np.sin(angle)])
    on = maps.transform(rays)
    np.testing.assert_allclose((on**2).sum(axis=1), 2, atol=1e-12)  # psi = sqrt(2) (cos, sin) up to a rotation
    for radius in (0.5, 1.3):
        ratio = (ive(1, radius / epsilon) / ive(0, radius / epsilon)) / (ive(1, 1 / epsilon) / ive(0, 1 / epsilon))
        np.testing.assert_allclose(quietly(maps.transform, radius * rays), ratio * on, atol=1e-12)


def test_flat_torus_eigenvalues_are_products():
    epsilon, side = 0.3, 24
    angle = 2 * np.pi * np.arange(side) / side
    a, b = (g.ravel() for g in np.meshgrid(angle, angle))
    X = np.column_stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)])
    maps = DiffusionMaps(8, epsilon=epsilon).fit(X)
    c = ive(1, 1 / epsilon) / ive(0, 1 / epsilon)
    aliasing = np.exp(-((2 * np.pi / side) ** -2) * 2 * np.pi**2 * epsilon)  # of the 24-point rule, below 1e-30
    assert aliasing < 1e-12
    np.testing.assert_allclose(maps.eigenvalues_, [c] * 4 + [c**2] * 4, rtol=0, atol=1e-12)


def test_fibonacci_sphere_has_modified_spherical_bessel_eigenvalues():
    epsilon = 0.2
    maps = DiffusionMaps(8, epsilon=epsilon).fit(fibonacci_sphere(1500))
    ratio = [spherical_in(l, 1 / epsilon) / spherical_in(0, 1 / epsilon) for l in (1, 1, 1, 2, 2, 2, 2, 2)]
    np.testing.assert_allclose(maps.eigenvalues_, ratio, atol=1e-4)


@pytest.mark.parametrize("t", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0, 0.5, 1])
def test_euclidean_distance_is_diffusion_distance(alpha, t):
    X, weights = cloud(0, rows=60), np.random.default_rng(1).integers(1, 4, 60)
    epsilon = 0.6
    maps = DiffusionMaps(59, epsilon=epsilon, alpha=alpha, t=t)
    maps = quietly(maps.fit, X, sample_weight=weights)
    W = np.exp(-cdist(X, X, "sqeuclidean") / (2 * epsilon))
    q = W @ weights
    A = W / np.outer(q**alpha, q**alpha)
    d = A @ weights
    P = A * weights / d[:, None]
    pi = weights * d / (weights @ d)
    Pt = np.linalg.matrix_power(P, t)
    truth = ((Pt[:, None] - Pt[None]) ** 2 / pi).sum(axis=2)
    np.testing.assert_allclose(cdist(maps.embedding_, maps.embedding_, "sqeuclidean"), truth, atol=1e-12 * truth.max())


def test_eigenfunctions_are_orthonormal_in_the_stationary_measure():
    X = cloud(1, rows=80)
    maps = DiffusionMaps(10, epsilon=0.5, alpha=0).fit(X)
    degree = np.exp(-cdist(X, X, "sqeuclidean")).sum(axis=1)
    pi = degree / degree.sum()
    np.testing.assert_allclose(maps.eigenvectors_.T @ (pi[:, None] * maps.eigenvectors_), np.eye(10), atol=1e-12)
    np.testing.assert_allclose(pi @ maps.eigenvectors_, 0, atol=1e-12)


@pytest.mark.parametrize("epsilon", ["auto", 0.5, "median", "slope", "percentile", "neighbor", "cut_off"])
@pytest.mark.parametrize(
    "estimator",
    [DiffusionMaps(3), DiffusionMaps(3, alpha=0, t=0), LaplacianEigenmaps(3, laplacian="unnormalized")],
    ids=["alpha=1", "alpha=0", "unnormalized"],
)
def test_whole_number_weights_equal_repeated_rows(estimator, epsilon):
    X, weights = cloud(2, rows=50), np.random.default_rng(3).integers(0, 4, 50)
    estimator.set_params(epsilon=epsilon)
    weighted = quietly(estimator.fit, X, sample_weight=weights)
    once = weighted.transform(X, on_far="nearest"), weighted.eigenvalues_, weighted.epsilon_
    repeated = quietly(estimator.fit, np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(repeated.epsilon_, once[2], rtol=1e-12 if epsilon != "slope" else 1e-2)
    if epsilon == "slope":  # read off a histogram; the rest follows from its epsilon
        return
    np.testing.assert_allclose(repeated.eigenvalues_, once[1], atol=1e-11)
    np.testing.assert_allclose(repeated.transform(X, on_far="nearest"), once[0], atol=1e-9)


def test_the_scale_of_weights_matters_only_where_neighbours_are_counted():
    X, weights = cloud(3, rows=50), np.random.default_rng(3).uniform(0.1, 2, 50)
    one = DiffusionMaps(2, epsilon=0.8).fit(X, sample_weight=weights)
    two = DiffusionMaps(2, epsilon=0.8).fit(X, sample_weight=weights * 0.37)
    np.testing.assert_allclose(one.embedding_, two.embedding_, atol=1e-10)
    one, two = (DiffusionMaps(2).fit(X, sample_weight=normalize_weights(w)) for w in (weights, weights * 0.37))
    np.testing.assert_allclose(one.embedding_, two.embedding_, atol=1e-10)


def test_alpha_one_removes_the_density_on_a_circle():
    X = quantile_circle(2000, 0.8)
    ratios, fits = {}, {}
    for alpha in (0, 1):
        maps = DiffusionMaps(4, epsilon=0.005, alpha=alpha, t=0).fit(X)
        mu = 1 - maps.eigenvalues_
        ratios[alpha] = mu / mu[:2].mean()
        fits[alpha] = LinearRegression().fit(maps.embedding_[:, :2], X).score(maps.embedding_[:, :2], X)
    np.testing.assert_allclose(ratios[1], [1, 1, 4, 4], rtol=0.01)
    assert fits[1] >= 0.999
    assert np.abs(ratios[0] - [1, 1, 4, 4]).max() > 0.2  # alpha=0 does not
    assert fits[0] < 0.99


def test_the_rates_of_the_variable_kernel_are_those_of_the_manifold_whatever_the_density():
    """2 mu tends to k^2 on a circle and to l (l + 1) on a sphere; the error is of the order of r^2."""
    X = quantile_circle(8000, 0.8)
    maps = DiffusionMaps(4, kernel=Variable(1), t=0).fit(X)
    np.testing.assert_allclose(2 * maps.eigenvalues_, [1, 1, 4, 4], rtol=0.01)
    assert LinearRegression().fit(maps.embedding_[:, :2], X).score(maps.embedding_[:, :2], X) >= 0.999
    maps = DiffusionMaps(8, kernel=Variable(2), t=0).fit(fibonacci_sphere(1500))
    np.testing.assert_allclose(2 * maps.eigenvalues_, [2] * 3 + [6] * 5, rtol=0.03)


def test_the_adaptive_kernel_sees_an_even_circle_in_its_own_metric():
    """Sampling is even in local units: with F the cumulative angle, the functions are cos kF and sin kF.

    The error of functions and eigenvalues is of second order in the angle that k neighbours span: r is taken to be the
    same at both ends of a step, and the step to be straight. That angle is at most 2 pi k / n over the least density.
    """
    n, k = 2000, 15
    X, even = quantile_circle(n, 0.8), quantile_circle(n, 0.0)
    maps, plain = (DiffusionMaps(4, n_neighbors=k, t=0).fit(points) for points in (X, even))
    error = (2 * np.pi * k / n / (1 - 0.8)) ** 2
    truth = np.column_stack([even, even[:, 0] ** 2 - even[:, 1] ** 2, 2 * even[:, 0] * even[:, 1]])  # k = 1 and 2
    assert LinearRegression().fit(maps.embedding_, truth).score(maps.embedding_, truth) >= 1 - error**2
    np.testing.assert_allclose(1 - maps.eigenvalues_, 1 - plain.eigenvalues_, rtol=error)


@pytest.mark.parametrize("kernel", ["gaussian", "variable"])
def test_alpha_one_removes_the_density_on_a_sphere(kernel):
    rng = np.random.default_rng(0)
    z = _z_with_density(rng.uniform(size=4000))
    angle = rng.uniform(0, 2 * np.pi, 4000)
    X = np.column_stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z])
    maps = DiffusionMaps(3, kernel=kernel, alpha=1, t=0).fit(X)
    assert LinearRegression().fit(maps.embedding_, X).score(maps.embedding_, X) >= 0.99


def _z_with_density(u):
    """Heights of points with density proportional to 1 + 0.8 z: solve z/2 + 0.2 z^2 + 0.3 = u."""
    return (-0.5 + np.sqrt(0.25 + 0.8 * (u - 0.3))) / 0.4


def test_laplacian_eigenmaps_are_diffusion_maps_at_alpha_0_and_t_0():
    X, Z = cloud(4, rows=80), cloud(5, rows=9)
    laplacian = LaplacianEigenmaps(3, epsilon=0.7).fit(X)
    diffusion = DiffusionMaps(3, epsilon=0.7, alpha=0, t=0).fit(X)
    np.testing.assert_allclose(laplacian.eigenvalues_, 1 - diffusion.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(quietly(laplacian.transform, Z), quietly(diffusion.transform, Z), atol=1e-12)


def test_unnormalized_eigenvectors_satisfy_their_equation():
    X = cloud(6, rows=70)
    maps = LaplacianEigenmaps(4, epsilon=0.7, laplacian="unnormalized").fit(X)
    W = np.exp(-cdist(X, X, "sqeuclidean") / 1.4)
    L = np.diag(W.sum(axis=1)) - W
    v = maps.embedding_
    np.testing.assert_allclose(L @ v, v * maps.eigenvalues_, atol=1e-11)
    np.testing.assert_allclose(maps.eigenvalues_, np.linalg.eigvalsh(L)[1:5], atol=1e-11)
    np.testing.assert_allclose((v**2).mean(axis=0), 1, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_every_row_duplicated_changes_nothing():
    X = cloud(7, rows=50)
    one, two = (DiffusionMaps(3, epsilon=0.5).fit(A) for A in (X, np.vstack([X, X])))
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(two.embedding_, np.vstack([one.embedding_] * 2), atol=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive", "variable"])
def test_rotation_translation_and_scale_change_nothing(kernel):
    """But epsilon, a squared length, and the rates of "variable", one over a squared length."""
    X = cloud(8, rows=60)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    estimator = DiffusionMaps(3, kernel=kernel, t=0 if kernel == "variable" else 1)
    base = clone(estimator).fit(X)
    for moved, factor, tol in ((X @ turn, 1, 1e-11), (X + 10, 1, 1e-11), (X * 8, 64, 1e-13), (X * 3, 9, 1e-11)):
        maps = clone(estimator).fit(moved)
        pace = factor if kernel == "variable" else 1
        np.testing.assert_allclose(maps.epsilon_, base.epsilon_ * factor, rtol=1e-12)
        np.testing.assert_allclose(maps.eigenvalues_ * pace, base.eigenvalues_, atol=1e-12)
        assert np.abs(np.abs(maps.embedding_) - np.abs(base.embedding_)).max() < tol


def test_helix_reference_is_reproduced(shared_data):
    h5py = pytest.importorskip("h5py")
    with h5py.File(shared_data / "ddm_reference" / "helix_results.h5") as file:
        train, test = file["original/train/X"][:], file["original/test/X"][:]
        sigma = float(file["hyperparameters/sigma"][()])
        reference = file["nystrom/train/X_red"][:], file["nystrom/test/X_red"][:]
    maps = DiffusionMaps(2, epsilon=Percentile(3.0), alpha=1, t=100).fit(train)
    assert maps.epsilon_ == pytest.approx(sigma**2, rel=1e-12)
    for ours, theirs in zip((maps.embedding_, maps.transform(test, on_far="keep")), reference):
        signs = np.sign((ours * theirs).sum(axis=0))
        np.testing.assert_allclose(ours * signs, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("normalize_rows", [False, True])
def test_spectral_clustering_separates_moons_where_k_means_does_not(normalize_rows):
    from sklearn.cluster import KMeans
    from sklearn.datasets import make_moons

    X, y = make_moons(500, noise=0.07, random_state=0)
    fresh, truth = make_moons(1000, noise=0.07, random_state=1)
    clusters = SpectralClustering(2, normalize_rows=normalize_rows).fit(X)

    def agreement(labels, y):
        return max((labels == y).mean(), (labels != y).mean())

    assert agreement(KMeans(2, n_init=5, random_state=0).fit_predict(X), y) < 0.9
    assert agreement(clusters.labels_, y) > 0.99
    assert np.array_equal(clusters.predict(X), clusters.labels_)
    assert agreement(quietly(clusters.predict, fresh), truth) > 0.99


def test_components_that_are_the_clusters_are_no_reason_to_warn():
    X = np.vstack([cloud(0, rows=60), cloud(1, rows=60) + 50])
    clusters = SpectralClustering(2, n_neighbors=8).fit(X)
    assert clusters.report_.components == 2
    assert not clusters.report_.warnings
    assert len(set(clusters.labels_[:60])) == len(set(clusters.labels_[60:])) == 1
    with pytest.warns(SpectrumWarning, match="2 components"):
        SpectralClustering(1, n_neighbors=8).fit(X)


def test_landmarks_solve_the_small_problem_and_extend_it():
    X = quantile_circle(600, 0.5)
    points = X[::4]
    on_points = DiffusionMaps(2, epsilon=0.05).fit(points)
    extended = DiffusionMaps(2, epsilon=0.05, landmarks=points).fit(X)
    np.testing.assert_allclose(extended.embedding_, on_points.transform(X), atol=1e-12)
    full = DiffusionMaps(2, epsilon=0.05).fit(X)
    assert aligned_error(extended.embedding_, full.embedding_) < 0.01


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "cityblock", "chebyshev", "seuclidean", "mahalanobis"])
def test_precomputed_distances_equal_features(metric):
    X, Z = cloud(9, rows=60), cloud(10, rows=11)
    params = {"VI": np.linalg.pinv(np.cov(X.T))} if metric == "mahalanobis" else {}
    if metric == "seuclidean":
        params = {"V": X.var(axis=0, ddof=1)}
    features = DiffusionMaps(3, metric=metric).fit(X)
    given = DiffusionMaps(3, metric="precomputed").fit(cdist(X, X, metric, **params))
    np.testing.assert_allclose(given.eigenvalues_, features.eigenvalues_, atol=1e-12)
    ours, theirs = quietly(given.transform, cdist(Z, X, metric, **params)), quietly(features.transform, Z)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-9)


def test_precomputed_affinities_and_kernel_callables_equal_the_gaussian():
    X, Z = cloud(11, rows=40), cloud(12, rows=5)

    def affinity(A, B):
        return np.exp(-cdist(A, B, "sqeuclidean") / 1.6)

    gaussian = DiffusionMaps(2, epsilon=0.8).fit(X)
    given = DiffusionMaps(2, kernel="precomputed").fit(affinity(X, X))
    called = DiffusionMaps(2, kernel=lambda x, y: np.exp(-((x - y) ** 2).sum() / 1.6)).fit(X)
    expected = quietly(gaussian.transform, Z)
    np.testing.assert_allclose(np.abs(quietly(given.transform, affinity(Z, X))), np.abs(expected), atol=1e-10)
    np.testing.assert_allclose(quietly(called.transform, Z), expected, atol=1e-10)


def test_precomputed_with_landmarks_takes_distances_to_all_rows_or_to_the_landmarks():
    X, Z = cloud(13, rows=60), cloud(14, rows=6)
    maps = DiffusionMaps(2, metric="precomputed", landmarks=30, random_state=0, epsilon=0.8)
    quietly(maps.fit, cdist(X, X))
    wide, narrow = cdist(Z, X), cdist(Z, X[maps.landmark_indices_])
    np.testing.assert_allclose(quietly(maps.transform, wide), quietly(maps.transform, narrow), atol=1e-14)
    assert maps.embedding_.shape == (60, 2)
