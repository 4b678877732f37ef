"""Roseland: against the singular value decomposition, the circle, and itself in other words."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ive

from catalogue import aligned_error, cloud, new_points, quietly, up_to_signs
from outfold import DiffusionMaps, Roseland
from outfold.datasets import s_curve
from outfold.exceptions import SpectrumWarning

X = cloud(0, rows=150)
Z = new_points(X, 0, 20)
Y = X[::3]


def by_svd(X, Y, epsilon, measure=None):
    """sigma and psi of all rows, the trivial one first."""
    m = np.ones(len(X)) if measure is None else measure
    W = np.exp(-(cdist(X, Y) ** 2) / (2 * epsilon))
    c = W.T @ m
    d = W @ c
    U, sigma, V = np.linalg.svd(np.sqrt(m / d)[:, None] * W, full_matrices=False)
    return sigma, np.sqrt(m @ d) * U / np.sqrt(m * d)[:, None], (W, V, c, m @ d)


@pytest.mark.parametrize("t", [0, 0.5, 1, 3])
def test_it_is_the_singular_value_decomposition(t):
    sigma, psi, (_, V, c, total) = by_svd(X, Y, 0.8)
    np.testing.assert_allclose(np.abs(psi[:, 0]), 1, atol=1e-12)
    model = Roseland(4, landmarks=Y, epsilon=0.8, alpha=0, t=t, n_neighbors=None).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, sigma[1:5] ** 2, rtol=1e-11)
    assert up_to_signs(model.embedding_, psi[:, 1:5] * sigma[1:5] ** (2 * t)) < 1e-11
    rows = np.exp(-(cdist(Z, Y) ** 2) / 1.6)  # the line of the formula at new points
    expected = np.sqrt(total) * (rows @ V[1:5].T) / (rows @ c)[:, None] / sigma[1:5] * sigma[1:5] ** (2 * t)
    assert up_to_signs(quietly(model.transform, Z), expected) < 1e-11


def test_on_the_uniform_circle_one_step_is_two_steps_of_diffusion():
    angle = np.arange(300) * 2 * np.pi / 300
    around = np.column_stack([np.cos(angle), np.sin(angle)])
    for landmarks in (around, around[::2]):
        model = Roseland(6, landmarks=landmarks, epsilon=0.1, alpha=0, n_neighbors=None).fit(around)
        expected = np.repeat(ive([1, 2, 3], 10) / ive(0, 10), 2)
        np.testing.assert_allclose(np.sqrt(model.eigenvalues_), expected, atol=1e-12)
    twice = DiffusionMaps(6, epsilon=0.1, alpha=0, t=2).fit(around)
    assert aligned_error(twice.embedding_, model.embedding_) < 1e-10


def uneven_circle(n):
    grid = np.linspace(0, 2 * np.pi, 20_001)
    angle = np.interp((np.arange(n) + 0.5) / n, (grid + 0.8 * np.sin(grid)) / (2 * np.pi), grid)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def uneven_sphere(n):
    height, drawn = np.random.default_rng(0).uniform(-1, 1, (2, 4 * n))
    height = height[drawn < 0.8 * height][:n]  # density 1 + 0.8 height
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, len(height))
    return np.column_stack([*np.sqrt(1 - height**2) * np.array([np.cos(angle), np.sin(angle)]), height])


def explained(E, positions):
    """R^2 of the positions by a linear map of the coordinates."""
    A = np.column_stack([np.ones(len(E)), E])
    left = positions - A @ np.linalg.lstsq(A, positions, rcond=None)[0]
    return 1 - left.var() / positions.var()


def spectra(rows, count, **options):
    """Rates 1 - lambda over the mean of the first ones, and R^2 of the positions, median of five seeds."""
    found = []
    for seed in range(5):
        model = Roseland(count, random_state=seed, **options).fit(rows)
        rates = 1 - model.eigenvalues_
        first = rows.shape[1]
        found.append([*rates / rates[:first].mean(), explained(model.embedding_[:, :first], rows)])
    return np.median(found, axis=0)


@pytest.mark.parametrize("n_neighbors", [None, 32])
def test_alpha_one_removes_the_density_of_rows_and_landmarks(n_neighbors):
    options = {"landmarks": 1000, "epsilon": 0.01, "n_neighbors": n_neighbors}
    *ratios, fit = spectra(uneven_circle(8000), 4, **options)
    np.testing.assert_allclose(ratios, [1, 1, 4, 4], rtol=0.05)
    assert fit > 0.999
    *plain, worse = spectra(uneven_circle(8000), 4, alpha=0, **options)  # without it the density stays
    assert np.abs(np.array(plain) / [1, 1, 4, 4] - 1).max() > 0.05 or worse < 0.99


@pytest.mark.parametrize("n_neighbors", [None, 32])
def test_alpha_one_on_the_uneven_sphere(n_neighbors):
    *ratios, fit = spectra(uneven_sphere(6000), 3, landmarks=1000, epsilon=0.05, n_neighbors=n_neighbors)
    np.testing.assert_allclose(ratios, 1, rtol=0.08)
    assert fit > 0.99


def test_copies_among_landmarks_do_not_stop_time():
    rows = np.vstack([uneven_circle(2000), np.tile([1.0, 0.0], (60, 1))])
    marks = np.vstack([rows[:300], rows[-60:]])  # more copies than neighbours
    model = Roseland(2, landmarks=marks, n_neighbors=16, epsilon=0.01).fit(rows)
    assert 0 < model.eigenvalues_[1] < model.eigenvalues_[0] < 1 - 1e-9


@pytest.mark.parametrize("alpha", [0, 1])
@pytest.mark.parametrize("n_neighbors", [None, 12])
def test_weights_are_repeats(alpha, n_neighbors):
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    options = {"landmarks": Y, "epsilon": 0.8, "alpha": alpha, "n_neighbors": n_neighbors}
    weighted = Roseland(3, **options).fit(X, sample_weight=counts)
    repeated = Roseland(3, **options).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(quietly(weighted.transform, Z), quietly(repeated.transform, Z), atol=1e-9)


def test_all_nearest_landmarks_are_all_landmarks():
    dense, sparse = (Roseland(3, landmarks=Y, epsilon=0.8, n_neighbors=k).fit(X) for k in (None, len(Y)))
    assert dense.report_.edges == "all landmarks"
    assert sparse.report_.edges == "50 nearest landmarks"
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=1e-11)
    np.testing.assert_allclose(quietly(sparse.transform, Z), quietly(dense.transform, Z), atol=1e-10)


def test_how_many_landmarks():
    big, _ = s_curve(30_000, random_state=0)
    assert len(Roseland(random_state=0).fit(big).landmarks_) == int(4 * np.sqrt(30_000))
    assert len(Roseland(random_state=0).fit(X).landmarks_) == len(X)
    assert len(Roseland(landmarks=0.2, random_state=0).fit(X).landmarks_) == 30


def test_it_follows_diffusion_maps_at_size():
    big, position = s_curve(20_000, random_state=0)
    model = Roseland(1, landmarks=2000, n_neighbors=32, random_state=0).fit(big)
    assert abs(np.corrcoef(model.embedding_[:, 0], np.cos(position[:, 0] / 3 + np.pi / 2))[0, 1]) > 0.99
    assert model.report_.residual < 1e-4
    wide = Roseland(1, landmarks=2000, n_neighbors=32, random_state=0, n_jobs=1).fit(big)
    np.testing.assert_allclose(wide.embedding_, model.embedding_, atol=1e-9)


def test_landmarks_that_no_row_sees_are_left_out():
    far = np.vstack([Y, [[1e3, 0, 0]]])
    with pytest.warns(SpectrumWarning, match=f"1 of {len(far)} landmarks were dropped"):
        model = Roseland(3, landmarks=far, epsilon=0.8, n_neighbors=None).fit(X)
    plain = Roseland(3, landmarks=Y, epsilon=0.8, n_neighbors=None).fit(X)
    assert len(model.landmarks_) == len(Y)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-9)


def test_pieces_become_contrasts():
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 30])
    with pytest.warns(SpectrumWarning, match=r"2 components .*first coordinate only tells them apart"):
        model = Roseland(2, landmarks=0.5, epsilon=0.8, random_state=0).fit(pieces)
    assert np.ptp(model.embedding_[:60, 0]) < 1e-10
    np.testing.assert_allclose(model.eigenvalues_[0], 1, atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"landmarks": None}, "needs landmarks"),
        ({"landmarks": 151}, "landmarks=151 .*150"),
        ({"landmarks": 10, "n_neighbors": 11}, "n_neighbors=11 is more than the 10 landmarks"),
        ({"metric": "precomputed"}, "no rows to stream"),
        ({"epsilon": np.inf}, "finite"),
        ({"alpha": 2}, "alpha=2 must be >= 0 and <= 1"),
        ({"t": -1}, "t=-1 must be >= 0"),
        ({"n_components": 40, "epsilon": 1e3, "landmarks": 60}, "beyond the rank"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Roseland(random_state=0, **parameters).fit(X)


def test_two_grids_solve_for_landmarks_that_wait():
    rows = s_curve(30_000, random_state=0)[0]
    rows = np.vstack([rows, rows[rows[:, 1] < 0.7] + 1e-3])  # denser on one side
    model = Roseland(5, landmarks=8000, n_neighbors=32, random_state=0).fit(rows)
    assert model.report_.solver == "lobpcg"
    assert model.report_.residual < 1e-3


def test_landmarks_that_hardly_any_row_sees_are_refused_with_the_numbers():
    rows = cloud(0, rows=100)
    far = np.vstack([rows[:2], 1e3 + np.arange(24.0).reshape(8, 3)])
    with pytest.raises(ValueError, match="Rows see 2 of 10 landmarks with epsilon 0.01, too few for 3 coordinates"):
        Roseland(3, landmarks=far, epsilon=0.01).fit(rows)
    with pytest.raises(ValueError, match="Rows see 0 of 8 landmarks"):
        Roseland(3, landmarks=far[2:], epsilon=0.01).fit(rows)
