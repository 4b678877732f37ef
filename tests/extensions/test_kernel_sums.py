"""Extensions that are sums of kernels: against plain NumPy and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import quietly
from functions import MEASURE, RUNNER, X, Y, Z, fitted, gaussian, known_of, learnt, scikit_ridge
from outfold import DiffusionMaps, datasets, landmarks
from outfold._runtime.threads import Threads
from outfold.distances import Metric
from outfold.extensions import CompressedDiffusion, GeometricHarmonics, KernelRidge, LaplacianPyramid
from outfold.extensions.samples import Samples

# -- kernel ridge --------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "ridge"), [(0.5, 1e-3), (1.0, 1e-1), (0.1, 10.0)])
def test_kernel_ridge_is_scikit_learns_about_the_mean(epsilon, ridge):
    found = learnt(KernelRidge(epsilon, ridge))
    np.testing.assert_allclose(found, scikit_ridge(X, Y, epsilon, ridge, Z), rtol=0, atol=1e-8)


def test_a_measure_of_kernel_ridge_is_rows_repeated():
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    expected = scikit_ridge(X[copies], Y[copies], 0.5, 1e-2, Z)
    np.testing.assert_allclose(learnt(KernelRidge(0.5, 1e-2), measure=MEASURE), expected, rtol=0, atol=1e-8)
    repeated = learnt(KernelRidge(0.5, 1e-2), points=X[copies], values=Y[copies])
    np.testing.assert_allclose(repeated, expected, rtol=0, atol=1e-8)
    assert np.abs(learnt(KernelRidge(0.5, 1e-2)) - expected).max() > 1e-3  # and is not without effect


def test_kernel_ridge_of_few_centres_solves_the_normal_equations_over_all_points():
    epsilon, ridge, known = 0.7, 1e-2, known_of(measure=MEASURE)
    centres = X[known.centres(20)]
    assert centres.shape == (20, 3)
    mean = np.average(Y, axis=0, weights=MEASURE)
    B, K = gaussian(X, centres, epsilon), gaussian(centres, centres, epsilon)
    c = np.linalg.solve(B.T @ (MEASURE[:, None] * B) + ridge * K, B.T @ (MEASURE[:, None] * (Y - mean)))
    found = learnt(KernelRidge(epsilon, ridge, centres=20), measure=MEASURE)
    np.testing.assert_allclose(found, gaussian(Z, centres, epsilon) @ c + mean, rtol=0, atol=1e-8)


def test_the_metric_goes_into_the_kernel():
    """Squared Manhattan distances give no Mercer kernel: its positive part is taken."""
    epsilon, ridge = 0.8, 1e-2
    s, v = np.linalg.eigh(np.exp(-(cdist(X, X, "cityblock") ** 2) / (2 * epsilon)))
    assert s[0] < -0.1
    s, v = s[s > 1e-10], v[:, s > 1e-10]

    def expected(values, at):
        c = v @ ((v.T @ (values - values.mean(axis=0))) / (s + ridge)[:, None])
        return np.exp(-(cdist(at, X, "cityblock") ** 2) / (2 * epsilon)) @ c + values.mean(axis=0)

    found = learnt(KernelRidge(epsilon, ridge), metric=Metric("manhattan"))
    np.testing.assert_allclose(found, expected(Y, Z), rtol=0, atol=1e-8)
    model = DiffusionMaps(metric="manhattan", extension=KernelRidge(epsilon, ridge)).fit(X)
    np.testing.assert_allclose(quietly(model.transform, Z), expected(model.embedding_, Z), rtol=0, atol=1e-8)


def test_epsilon_auto_of_kernel_ridge_lies_between_neighbours_and_typical_pairs():
    table = cdist(X, X, "sqeuclidean")
    typical = np.median(table[~np.eye(len(X), dtype=bool)])
    near = np.median(np.sort(table, axis=1)[:, 8])  # the 8th neighbour: the 0th is the point itself
    epsilon = np.sqrt(near * typical)
    np.testing.assert_allclose(learnt(KernelRidge()), learnt(KernelRidge(epsilon)), rtol=0, atol=1e-9)


# -- geometric harmonics -------------------------------------------------------------------


@pytest.mark.parametrize("condition", [10.0, 1e3])
def test_geometric_harmonics_are_the_truncated_eigen_expansion(condition):
    s, v = np.linalg.eigh(gaussian(X, X, 0.5))
    kept = s >= s[-1] / condition
    assert 2 < kept.sum() < len(X)
    mean = Y.mean(axis=0)
    expected = gaussian(Z, X, 0.5) @ (v[:, kept] / s[kept]) @ (v[:, kept].T @ (Y - mean)) + mean
    np.testing.assert_allclose(learnt(GeometricHarmonics(0.5, condition)), expected, rtol=0, atol=1e-9)


def test_a_measure_of_geometric_harmonics_is_rows_repeated():
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    s, v = np.linalg.eigh(gaussian(X[copies], X[copies], 0.5))
    kept = s >= s[-1] / 100
    mean = Y[copies].mean(axis=0)
    expected = gaussian(Z, X[copies], 0.5) @ (v[:, kept] / s[kept]) @ (v[:, kept].T @ (Y[copies] - mean)) + mean
    found = learnt(GeometricHarmonics(0.5, 100.0), measure=MEASURE)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_larger_condition_leaves_less_on_the_training_points():
    left = [np.linalg.norm(learnt(GeometricHarmonics(0.5, c), at=X) - Y) for c in (1e1, 1e2, 1e3, 1e4)]
    assert np.all(np.diff(left) < 0)


@pytest.mark.parametrize("residual", [0.3, 1e-1, 1e-2])
def test_geometric_harmonics_widen_until_their_residual_or_the_scale_of_neighbours(residual):
    known = known_of()
    near, far = known.scales()
    model = GeometricHarmonics(residual=residual).fit(known, RUNNER)
    used = np.array([epsilon for epsilon, _ in model.levels])
    np.testing.assert_allclose(used, far / 4.0 ** np.arange(len(used)))
    part = np.linalg.norm(model.embed(X, RUNNER) - Y) / np.linalg.norm(Y - Y.mean(axis=0))
    assert part <= residual or used[-1] <= near
    assert np.all(used[:-1] > near)
    shorter = replace(model, levels=model.levels[:-1]).embed(X, RUNNER) if len(used) > 1 else None
    if shorter is not None:  # no level more than needed (the levels' means are those of what is left, and small)
        assert np.linalg.norm(shorter - Y) / np.linalg.norm(Y - Y.mean(axis=0)) > 0.9 * residual


def test_the_residual_is_over_the_measure():
    noise = Y.copy()
    noise[:5] += 100.0
    measure = np.ones(len(X))
    measure[:5] = 1e-12
    counted = GeometricHarmonics(residual=0.2).fit(known_of(values=noise), RUNNER)
    ignored = GeometricHarmonics(residual=0.2).fit(known_of(values=noise, measure=measure), RUNNER)
    assert len(ignored.levels) < len(counted.levels)


def test_geometric_harmonics_carry_a_smooth_function_to_new_points():
    S, _ = datasets.s_curve(300, random_state=0)
    smooth = np.column_stack([S[:, 0], np.sin(S[:, 2])])
    found = learnt(GeometricHarmonics(), at=S[200:], points=S[:200], values=smooth[:200])
    assert np.abs(found - smooth[200:]).mean() < 0.03 * smooth.std()


def pyramid(points, values, at, epsilon, measure, levels=12):
    """Plain NumPy: sigma halves, no point sees itself, stop when what is left grows."""
    table, far = cdist(points, points, "sqeuclidean"), cdist(at, points, "sqeuclidean")
    mean = measure @ values / measure.sum()
    left, out, error, used = values - mean, np.tile(mean, (len(at), 1)), np.inf, 0
    sigma = np.sqrt(epsilon)
    for _ in range(levels):
        W = np.exp(-table / (2 * sigma**2)) * measure
        np.fill_diagonal(W, 0.0)
        rest = left - (W / W.sum(axis=1, keepdims=True)) @ left
        now = measure @ (rest**2).sum(axis=1)
        if not now < error:
            break
        W = np.exp(-far / (2 * sigma**2)) * measure
        out += (W / W.sum(axis=1, keepdims=True)) @ left
        left, error, sigma, used = rest, now, sigma / 2, used + 1
    return out, used


# -- Laplacian pyramid ---------------------------------------------------------------------


@pytest.mark.parametrize("measure", [np.ones(len(X)), MEASURE], ids=["ones", "weights"])
def test_a_pyramid_is_that_of_plain_numpy(measure):
    expected, used = pyramid(X, Y, Z, 6.0, measure)
    model = fitted(LaplacianPyramid(6.0), measure=measure)
    assert len(model.levels) == used > 2
    np.testing.assert_allclose(model.embed(Z, RUNNER), expected, rtol=0, atol=1e-10)
    limited, _ = pyramid(X, Y, Z, 6.0, measure, levels=2)
    np.testing.assert_allclose(learnt(LaplacianPyramid(6.0, levels=2), measure=measure), limited, rtol=0, atol=1e-10)


def test_a_pyramid_stops_at_noise_and_goes_on_where_a_function_is_smooth():
    line = np.linspace(0, 1, 200)[:, None]
    noise = np.random.default_rng(0).normal(size=(200, 1))
    smooth = np.sin(9 * line)
    on_noise, on_smooth = (fitted(LaplacianPyramid(), points=line, values=v) for v in (noise, smooth))
    assert len(on_smooth.levels) >= len(on_noise.levels) + 2
    between = ((line[1:] + line[:-1]) / 2)[10:-10]  # at the ends all neighbours lie on one side
    assert np.abs(on_smooth.embed(between, RUNNER) - np.sin(9 * between)).max() < 0.05
    assert on_noise.embed(between, RUNNER).std() < 0.5 * noise.std()  # noise is not followed


# -- compressed diffusion ------------------------------------------------------------------


def test_compressed_diffusion_is_two_markov_steps():
    places, epsilon = X[::6] + 0.01, 0.4
    there, back = gaussian(Z, places, epsilon), gaussian(places, X, epsilon) * MEASURE
    there, back = (P / P.sum(axis=1, keepdims=True) for P in (there, back))
    spec = CompressedDiffusion(landmarks.Points(places), epsilon)
    np.testing.assert_allclose(learnt(spec, measure=MEASURE), there @ back @ Y, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("choice", "count"),
    [(20, 20), (0.3, 27), (landmarks.FarthestPoint(20), 20), (landmarks.KMeans(20), 20), (X[:20], 20)],
    ids=["count", "fraction", "farthest points", "k-means", "points"],
)
def test_landmarks_of_compressed_diffusion_are_chosen_as_those_of_a_method(choice, count):
    model = DiffusionMaps(extension=CompressedDiffusion(choice)).fit(X)
    assert len(model.model_.extension.distances.anchors) == count
    assert "CompressedDiffusion(landmarks=" in model.report_.extension


S, _ = datasets.s_curve(250, random_state=0)
HELD, _ = datasets.s_curve(60, random_state=1)


@pytest.mark.parametrize(("rows", "count"), [(3, 2), (40, 20), (1100, 500)])
def test_compressed_diffusion_takes_half_of_the_points_as_landmarks_at_most_500(rows, count):
    points = np.random.default_rng(0).normal(size=(rows, 3))
    model = CompressedDiffusion().fit(Samples.of(points, points[:, :2], np.ones(rows)), Threads(1))
    assert len(model.distances.anchors) == count
