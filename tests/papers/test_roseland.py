"""The thesis on Roseland: its yardsticks against what is known, its parts at small sizes."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outfold.datasets import circle, rectangle, s_curve
from outfold.papers import landmark_fits, roseland
from outfold.papers.record import Effort

EFFORT = Effort(repeats=1)


@pytest.mark.parametrize("dimension", [1, 3])
def test_epsilon_puts_the_farthest_25th_neighbour_where_the_weight_is_cut_off(dimension):
    points = np.random.default_rng(1).uniform(size=(300, dimension))
    cut_off = np.sort(cdist(points, points), axis=1)[:, 24].max()
    epsilon = landmark_fits.datafold_epsilon(points, np.random.default_rng(0))
    assert np.exp(-(cut_off**2) / (2 * epsilon)) == pytest.approx(landmark_fits.CUT_OFF, rel=1e-10)


def test_missed_is_the_residual_of_least_squares():
    random = np.random.default_rng(0)
    coordinates, truth = random.standard_normal((300, 4)), random.standard_normal((300, 1))
    design = np.column_stack([np.ones(300), coordinates])
    left = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    assert landmark_fits.missed_share(coordinates, truth) == pytest.approx(left.std() / truth.std(), rel=1e-10)


def test_agreement_counts_neighbours_other_than_the_point_itself():
    random = np.random.default_rng(0)
    points, label = random.standard_normal((80, 2)), random.integers(0, 3, 80)
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(distances, axis=1)[:, :5]
    assert landmark_fits.agreement(points, label) == pytest.approx(np.mean(label[near] == label[:, None]))


def test_thickness_sees_only_what_lies_across_the_curve():
    random = np.random.default_rng(0)
    angle = random.uniform(0, np.pi, 4000)
    moved = np.clip(angle + 0.2 * random.standard_normal(4000), 0.2, np.pi - 0.2)
    radius = 1 + 0.1 * random.standard_normal(4000)

    def arc(angle, radius=1.0):
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

    along, across = arc(moved), arc(angle, radius)
    assert landmark_fits.thickness(along, angle) < 0.5 * landmark_fits.noisiness(along, angle[:, None])
    spread = np.sqrt(across.var(axis=0).sum())
    assert landmark_fits.thickness(across, angle) == pytest.approx(0.1 / spread, rel=0.1)


@pytest.mark.parametrize(
    ("rows", "truth", "epsilon"),
    [
        (lambda: circle(800, random_state=0), lambda X: landmark_fits.circle_truth(X, 2), 0.02),
        (lambda: rectangle(800, random_state=0), lambda X: landmark_fits.rectangle_truth(X, 2), 0.05),
    ],
)
def test_corrected_landmarks_find_the_true_functions_and_eigenvalues(rows, truth, epsilon):
    X = rows()
    functions, values = truth(X)
    fit = landmark_fits.by_landmarks(X, X[:400], epsilon, len(values), alpha=1.0)
    assert landmark_fits.missed_share(fit.coordinates, functions) < 0.12
    assert landmark_fits.eigenvalue_error(fit.laplacian, values) < 0.2


def test_two_steps_of_diffusion_maps_and_one_of_roseland_give_the_same_eigenvalues():
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    maps, marks = landmark_fits.by_all(X, 0.02, 4), landmark_fits.by_landmarks(X, X, 0.02, 4)
    np.testing.assert_allclose(marks.laplacian, maps.laplacian, rtol=1e-3)  # both leave out weights below the cut-off
    np.testing.assert_allclose(marks.laplacian, [1, 1, 4, 4], rtol=0.05)


def test_keeping_landmarks_to_the_cut_off_changes_little():
    X, _ = s_curve(3000, random_state=0)
    sparse = landmark_fits.by_landmarks(X, X[:1500], 0.01, 3)
    assert sparse.model.n_neighbors is not None
    dense = landmark_fits.fit_landmarks(sparse.model.__class__(**{**sparse.model.get_params(), "n_neighbors": None}), X)
    np.testing.assert_allclose(sparse.laplacian, dense.laplacian, rtol=1e-3)


def test_at_one_epsilon_more_landmarks_err_less_and_the_correction_more_so():
    found, _ = roseland.circle_errors(Effort(repeats=3), 1000, (0.1, 1.0), epsilon=0.01)
    error = {name: values[0] for name, values in found.items()}
    assert error["gamma 1, alpha=0"] < error["gamma 0.1, alpha=0"]
    assert error["gamma 1, alpha=1"] < 0.5 * error["gamma 1, alpha=0"]


def test_with_as_many_landmarks_as_rows_plain_roseland_errs_more():
    functions, eigenvalues = roseland.accuracy(EFFORT, n=500, pairs=3, epsilon=0.01)
    assert functions.shape == eigenvalues.shape == (len(roseland.ACCURACY), 3)
    assert np.all(functions[0] < functions[1])


def test_more_rows_at_the_same_share_err_less():
    few, many = (roseland.s_curve_error(n, 0.25, EFFORT.random(0), alpha=1.0)[0] for n in (400, 3000))
    assert many < few


def test_clean_landmarks_leave_a_thinner_curve_than_noisy_ones_and_these_than_the_gaussian_kernel():
    fits, place = roseland.noisy_fits(EFFORT, n=2000)
    thick = {name: landmark_fits.thickness(fit.coordinates[:, :3], place[:, 0]) for name, fit in fits.items()}
    names = ("clean landmarks, alpha=0", "noisy landmarks, alpha=0", "diffusion maps, Gaussian kernel")
    clean, noisy, gaussian = (thick[name] for name in names)
    assert clean < noisy < gaussian


def test_held_out_digits_land_where_a_fit_of_all_puts_them():
    X, label = roseland.digits()
    figures, embedded, extended, old, new = landmark_fits.hold_out(X, label, EFFORT.random(3))
    assert len(embedded) == len(old)
    assert len(extended) == len(new) == round(len(X) / 3)
    assert not set(old) & set(new)
    assert figures.error < 0.15
    assert figures.right > 0.85
    assert figures.flagged < 0.05
