"""Roseland: against the singular value decomposition, the circle, and itself in other words."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import ive

from catalogue import aligned_error, cloud, new_points, quietly, up_to_signs
from outfold import DiffusionMaps, Roseland, graphs, load, plan
from outfold.datasets import s_curve
from outfold.exceptions import SpectrumWarning
from outfold.operators import landmark_passes

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


# -- a cut off, and other kernels: there and back by brute force ---------------------------------

CROWD = np.random.default_rng(5).uniform(-1, 1, (400, 3)) * [1.6, 1.2, 0.8]
MARKS = CROWD[::2].copy()
CROWD[-1] += 40  # a row that is no landmark and, behind a cut, sees none
FRESH = new_points(CROWD, 5, 30)
COPIES = np.random.default_rng(5).uniform(0.5, 2, len(CROWD))
EPSILON = 0.3


def there_and_back(W, rows, omega, t, count=3):
    """Eigenvalues, psi of all rows and of new ones with the affinities ``rows``; those of lost rows are NaN."""
    W, rows = W * np.sqrt(omega), rows * np.sqrt(omega)
    c = W.T @ COPIES
    d = W @ c
    A = np.sqrt(COPIES / np.where(d > 0, d, 1))[:, None] * W
    _, sigma, V = np.linalg.svd(A, full_matrices=False)
    sigma, V = sigma[1 : count + 1], V[1 : count + 1].T

    def places(part):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(COPIES @ d) * (part @ V) / (part @ c)[:, None] * sigma ** (2 * t - 1)

    return sigma**2, places(W), places(rows)


def check_there_and_back(model, X, Z, W, rows, omega):
    """Whether a model of X has the eigenpairs of W, embeds the new rows Z, and its own, by them."""
    quietly(model.fit, X, sample_weight=COPIES)
    values, psi, new = there_and_back(W, rows, omega, model.t)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=0, atol=1e-10)
    for found, expected in ((model.embedding_, psi), (model.transform(Z, on_far="keep"), new)):
        some = np.isfinite(expected).all(axis=1)
        assert some.mean() > 0.8
        assert up_to_signs(found[some], expected[some]) < 1e-10
        assert np.isfinite(found).all()
    assert np.array_equal(model.transform(X, on_far="keep"), model.embedding_)
    assert (model.trust(X).support[~(W > 0).any(axis=1)] == -np.inf).all()


def gaussian(A, B, radius=np.inf):
    distance = cdist(A, B)
    return np.exp(-(distance**2) / (2 * EPSILON)) * (distance <= radius)


def in_units(A, k=None, delta=np.inf):
    """Self-tuning weights of rows on the landmarks: of the k nearest, or within delta."""
    distance, unit = cdist(A, MARKS), np.sort(cdist(MARKS, MARKS))[:, 6]
    squared = distance**2 / np.multiply.outer(np.sort(distance)[:, 6], unit)
    near = np.sort(distance)[:, len(MARKS) - 1 if k is None else k - 1]
    return np.exp(-squared) * (distance <= near[:, None]) * (squared <= delta**2)


def without_density(W, among, alpha):
    """omega of landmarks whose density is that of ``among``, their affinities to each other."""
    return ((W.T @ COPIES) ** -2 / among.sum(axis=0)) ** alpha


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.parametrize("t", [0, 1, 2, 0.7])
@pytest.mark.parametrize("eta", [1e-3, 0.2])
def test_a_threshold_is_diffusion_to_landmarks_in_reach_and_back(alpha, t, eta):
    radius = np.sqrt(-2 * EPSILON * np.log(eta))
    W, rows, among = (gaussian(A, MARKS, radius) for A in (CROWD, FRESH, MARKS))
    omega = without_density(W, among, alpha)
    options = {"landmarks": MARKS, "epsilon": EPSILON, "alpha": alpha, "t": t}
    for cut in ({"threshold": eta}, {"n_neighbors": graphs.Threshold(eta)}, {"n_neighbors": graphs.Ball(radius)}):
        check_there_and_back(Roseland(3, **cut, **options), CROWD, FRESH, W, rows, omega)


@pytest.mark.parametrize("radius", [1.0, 0.9])  # rows without landmarks; products of many and of few entries
def test_sums_of_few_and_of_many_landmarks_in_reach_are_the_same_sums(radius, monkeypatch):
    options = {"landmarks": MARKS, "epsilon": EPSILON, "n_neighbors": graphs.Ball(radius)}
    dense, sparse_sums = (
        (monkeypatch.setattr(landmark_passes, "DENSE_FROM", share), quietly(Roseland(3, **options).fit, CROWD))[1]
        for share in (0.0, 1.0)
    )
    assert dense.report_.degree == sparse_sums.report_.degree
    np.testing.assert_allclose(dense.eigenvalues_, sparse_sums.eigenvalues_, rtol=1e-12)
    assert up_to_signs(dense.embedding_, sparse_sums.embedding_) < 1e-9 * np.abs(dense.embedding_).max()


def test_a_threshold_of_1e_8_is_the_whole_gaussian_to_about_that():
    options = {"landmarks": MARKS, "epsilon": EPSILON}
    cut = quietly(Roseland(3, threshold=1e-8, **options).fit, CROWD[:-1])
    whole = quietly(Roseland(3, n_neighbors=None, **options).fit, CROWD[:-1])
    np.testing.assert_allclose(cut.eigenvalues_, whole.eigenvalues_, rtol=0, atol=1e-6)
    assert up_to_signs(cut.embedding_, whole.embedding_) < 1e-4


def test_alpha_one_removes_the_density_behind_a_threshold():
    *ratios, fit = spectra(uneven_circle(8000), 4, landmarks=1000, epsilon=0.01, threshold=1e-3)
    np.testing.assert_allclose(ratios, [1, 1, 4, 4], rtol=0.05)
    assert fit > 0.999


@pytest.mark.parametrize("alpha", [0, 1])
def test_a_callable_kernel_is_diffusion_by_it(alpha):
    W, rows, among = (gaussian(A, MARKS[::4]) for A in (CROWD, FRESH, MARKS[::4]))
    model = Roseland(3, landmarks=MARKS[::4], kernel=plain_gaussian, alpha=alpha, t=0.5)
    check_there_and_back(model, CROWD, FRESH, W, rows, without_density(W, among, alpha))


def plain_gaussian(x, y):
    return np.exp(-((x - y) ** 2).sum() / (2 * EPSILON))


@pytest.mark.parametrize("alpha", [0, 1])
@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({"kernel": "self_tuning"}, lambda A: in_units(A, 15)),
        ({"kernel": "self_tuning", "n_neighbors": 9}, lambda A: in_units(A, 9)),
        ({"kernel": "self_tuning", "n_neighbors": None}, in_units),
        ({"kernel": "self_tuning", "n_neighbors": graphs.Ball(1.6)}, lambda A: in_units(A, delta=1.6)),
        ({"kernel": "continuous_knn", "n_neighbors": graphs.Ball(1.6)}, lambda A: in_units(A, delta=1.6) > 0),
    ],
    ids=["15 nearest", "9 nearest", "all", "ball", "continuous k-nn"],
)
def test_kernels_in_units_of_the_seventh_landmark(options, weights, alpha):
    W, rows = (np.asarray(weights(A), dtype=float) for A in (CROWD, FRESH))
    omega = (W.T @ COPIES) ** (-2.0 * alpha)  # in these units landmarks are even
    check_there_and_back(Roseland(3, landmarks=MARKS, alpha=alpha, **options), CROWD, FRESH, W, rows, omega)


def test_a_ball_may_weigh_all_its_landmarks_alike():
    W, rows, among = (np.sign(gaussian(A, MARKS, 1.2)) for A in (CROWD, FRESH, MARKS))
    model = Roseland(3, landmarks=MARKS, epsilon=np.inf, n_neighbors=graphs.Ball(1.2))
    check_there_and_back(model, CROWD, FRESH, W, rows, without_density(W, among, 1))


def test_mutual_neighbours_are_in_reach_of_row_and_landmark():
    def weights(A):
        radius, own = (np.sort(cdist(B, MARKS))[:, 11:13].mean(axis=1) for B in (A, MARKS))
        return gaussian(A, MARKS) * (cdist(A, MARKS) <= np.minimum.outer(radius, own))

    W, rows = weights(CROWD), weights(FRESH)
    model = Roseland(3, landmarks=MARKS, epsilon=EPSILON, alpha=0, n_neighbors=graphs.Mutual(12))
    check_there_and_back(model, CROWD, FRESH, W, rows, np.ones(len(MARKS)))
    assert model.report_.edges == "mutual 12 nearest"


def test_alpha_one_removes_the_density_behind_mutual_neighbours():
    options = {"landmarks": 1000, "epsilon": 0.01, "n_neighbors": graphs.Mutual(32)}
    *ratios, fit = spectra(uneven_circle(8000), 4, **options)
    np.testing.assert_allclose(ratios, [1, 1, 4, 4], rtol=0.06)
    assert fit > 0.999


def test_rows_with_no_landmark_in_reach_have_no_weight_and_are_flagged():
    far = np.vstack([CROWD, CROWD[:9] + 30])
    options = {"landmarks": MARKS, "epsilon": EPSILON, "threshold": 1e-2}
    with pytest.warns(SpectrumWarning) as told:
        model = Roseland(3, **options).fit(far)
    expected = "10 of 409 rows have no landmark in reach (weights of at least 0.01)"
    assert any(expected in str(warning.message) for warning in told)
    plain = quietly(Roseland(3, **options).fit, CROWD)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-12)
    trust = model.trust(far)
    assert trust.flag[-9:].all()
    assert (trust.support[-9:] == -np.inf).all()
    nearest = model.landmarks_[cdist(far[-9:], model.landmarks_).argmin(axis=1)]
    np.testing.assert_allclose(model.embedding_[-9:], model.transform(nearest), atol=1e-12)


@pytest.mark.parametrize("cut", [{"threshold": 1e-3}, {"n_neighbors": graphs.Ball(0.8)}, {"n_neighbors": 5}], ids=str)
def test_landmarks_that_no_row_has_in_reach_are_counted_in_the_report(cut):
    far = np.vstack([MARKS, MARKS[:20] + 30])
    with pytest.warns(SpectrumWarning, match="20 of 220 landmarks were dropped, .*landmarks_ has the others"):
        model = Roseland(3, landmarks=far, epsilon=EPSILON, **cut).fit(CROWD[:-1])
    assert len(model.landmarks_) == model.report_.n_anchors == 200
    assert cdist(model.landmarks_, MARKS).min(axis=1).max() == 0


@pytest.mark.parametrize("alpha", [0, 1])
def test_landmarks_that_rows_hardly_see_give_no_nan(alpha):
    for far in np.arange(8.0, 22.0):
        marks = np.vstack([Y, [[far + 3, 0, 0]]])
        model = quietly(Roseland(3, landmarks=marks, epsilon=0.3, n_neighbors=None, alpha=alpha).fit, X)
        assert np.isfinite(model.eigenvalues_).all()
        assert np.isfinite(model.embedding_).all()


# -- precomputed: rows times landmarks ---------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 1])
@pytest.mark.parametrize("t", [0, 1, 0.7])
@pytest.mark.parametrize("radius", [np.inf, 1.3], ids=["all", "some"])
def test_given_affinities_are_diffusion_by_them_dense_or_sparse(alpha, t, radius):
    W, rows = (gaussian(A, MARKS, radius) for A in (CROWD, FRESH))
    seen = W.T @ COPIES
    omega = (seen / seen.mean()) ** (-3.0 * alpha)  # landmarks as dense as rows
    model = Roseland(3, kernel="precomputed", alpha=alpha, t=t)
    check_there_and_back(model, W, rows, W, rows, omega)
    for kind in (sparse.csr_matrix, sparse.coo_array):
        other = Roseland(3, kernel="precomputed", alpha=alpha, t=t)
        check_there_and_back(other, kind(W), kind(rows), W, rows, omega)
        assert up_to_signs(other.transform(rows, on_far="keep"), model.transform(rows, on_far="keep")) < 1e-10
    assert np.array_equal(model.landmarks_, np.arange(len(MARKS)))
    assert model.landmark_indices_ is None


@pytest.mark.parametrize(
    "options", [{}, {"threshold": 0.05}, {"n_neighbors": graphs.Ball(1.1)}, {"n_neighbors": 12, "alpha": 0}], ids=str
)
def test_given_distances_are_cut_as_those_of_features(options):
    crowd, fresh = CROWD[:-1], FRESH[np.abs(FRESH).max(axis=1) < 2]
    distance, rows = cdist(crowd, MARKS), cdist(fresh, MARKS)
    options = {"epsilon": EPSILON, "n_neighbors": None, "alpha": 0, **options}
    features = quietly(Roseland(3, landmarks=MARKS, **options).fit, crowd)
    given = quietly(Roseland(3, metric="precomputed", **options).fit, distance)
    np.testing.assert_allclose(given.eigenvalues_, features.eigenvalues_, rtol=1e-10)
    assert up_to_signs(given.embedding_, features.embedding_) < 1e-9
    expected = features.transform(fresh, on_far="keep")
    assert up_to_signs(given.transform(rows, on_far="keep"), expected) < 1e-9
    stored = quietly(Roseland(3, metric="precomputed", **options).fit, with_zeros(distance))
    assert up_to_signs(stored.transform(with_zeros(rows), on_far="keep"), expected) < 1e-9


def with_zeros(table):
    """A sparse matrix that stores every entry, zeros too."""
    ptr = np.arange(0, table.size + 1, table.shape[1])
    return sparse.csr_array((table.ravel(), np.tile(np.arange(table.shape[1]), len(table)), ptr), shape=table.shape)


def test_a_distance_that_is_not_stored_is_out_of_reach():
    distance, rows = cdist(CROWD, MARKS), cdist(FRESH, MARKS)
    near, new = (radius_graph(table, 1.1) for table in (distance, rows))
    given = quietly(Roseland(3, metric="precomputed", epsilon=EPSILON).fit, near)
    ball = quietly(Roseland(3, metric="precomputed", epsilon=EPSILON, n_neighbors=graphs.Ball(1.1)).fit, distance)
    np.testing.assert_allclose(given.eigenvalues_, ball.eigenvalues_, rtol=1e-10)
    assert up_to_signs(given.transform(new, on_far="keep"), ball.transform(rows, on_far="keep")) < 1e-9


def radius_graph(table, radius):
    row, column = np.nonzero(table <= radius)
    return sparse.coo_array((table[row, column], (row, column)), shape=table.shape).tocsr()


@pytest.mark.parametrize("rule", ["auto", "median", "slope", "percentile"])
def test_epsilon_follows_the_distances_of_rows_to_landmarks(rule):
    given = quietly(Roseland(3, metric="precomputed", epsilon=rule).fit, cdist(CROWD, MARKS))
    features = quietly(Roseland(3, landmarks=MARKS, kernel="gaussian", n_neighbors=None, epsilon=rule).fit, CROWD)
    assert given.epsilon_ == pytest.approx(features.epsilon_, rel=0.2)


def test_columns_that_no_row_has_are_dropped_and_rows_stay_as_long():
    W = np.hstack([gaussian(CROWD[:-1], MARKS[:90]), np.zeros((len(CROWD) - 1, 2))])
    with pytest.warns(SpectrumWarning, match="2 of 92 landmarks were dropped"):
        model = Roseland(3, kernel="precomputed").fit(W)
    assert np.array_equal(model.landmarks_, np.arange(90))
    assert model.report_.n_anchors == 90
    plain = quietly(Roseland(3, kernel="precomputed").fit, W[:, :90])
    assert up_to_signs(model.transform(W), plain.transform(W[:, :90])) < 1e-10
    with pytest.raises(ValueError, match="X has 90 features, but Roseland is expecting 92"):
        model.transform(W[:, :90])


def test_a_given_row_without_entries_is_flagged_and_finite():
    W = gaussian(CROWD, MARKS, 1.2)
    for matrix in (W, sparse.csr_array(W)):
        model = quietly(Roseland(3, kernel="precomputed").fit, matrix)
        rows = np.vstack([W[:3], np.zeros((1, len(MARKS)))])
        rows = rows if matrix is W else sparse.csr_array(rows)
        assert np.isfinite(model.transform(rows, on_far="keep")).all()
        assert np.isfinite(model.transform(rows, on_far="nearest")).all()
        trust = model.trust(rows)
        assert trust.flag.tolist() == [False, False, False, True]
        assert trust.support[3] == -np.inf
        assert np.isnan(model.transform(rows, on_far="nan")[3]).all()


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"kernel": "precomputed"}, {"metric": "precomputed"}, {"metric": "precomputed", "threshold": 0.05}],
    ids=str,
)
def test_models_of_given_matrices_come_back_from_files(options, mmap, tmp_path):
    table = gaussian if "kernel" in options else cdist
    for make in (np.asarray, sparse.csr_array):
        model = quietly(Roseland(3, **options).fit, make(table(CROWD, MARKS)))
        model.save(tmp_path / "m")
        again, rows = load(tmp_path / "m", mmap=mmap), make(table(FRESH, MARKS))
        assert np.array_equal(again.transform(rows), model.transform(rows))
        assert np.array_equal(again.trust(rows).p_value, model.trust(rows).p_value)
        assert np.array_equal(again.landmarks_, model.landmarks_)


def test_given_matrices_are_read_from_files_in_blocks(tmp_path):
    W = gaussian(CROWD, MARKS)
    np.save(tmp_path / "w.npy", W)
    here = quietly(Roseland(3, kernel="precomputed").fit, W)
    there = quietly(Roseland(3, kernel="precomputed").fit, tmp_path / "w.npy")
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-12)
    assert up_to_signs(np.asarray(there.transform(tmp_path / "w.npy", on_far="keep")), here.embedding_) < 1e-9
    np.save(tmp_path / "w.npy", W - 0.5)
    with pytest.raises(ValueError, match="Negative values in data: kernel='precomputed' needs values >= 0, got -0.5"):
        Roseland(3, kernel="precomputed").fit(tmp_path / "w.npy")


def test_models_of_given_matrices_are_calibrated_and_planned():
    W = gaussian(CROWD, MARKS[:60])
    model = quietly(Roseland(3, kernel="precomputed").fit, W)
    quietly(model.calibrate, W, folds=3)
    assert (model.trust(W[:5]).error > 0).all()
    found = plan(W, Roseland(3, kernel="precomputed"))
    assert found.anchors == 60
    assert found.edges == "all landmarks"


def minus_one(x, y):
    return -1.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"landmarks": None}, "needs landmarks"),
        ({"landmarks": 151}, "landmarks=151 .*150"),
        ({"landmarks": 10, "n_neighbors": 11}, "n_neighbors=11 is more than the 10 landmarks"),
        ({"metric": "precomputed"}, "Negative values in data: metric='precomputed'"),
        ({"kernel": "precomputed", "landmarks": 30}, "columns are the landmarks. Leave landmarks at 'auto'"),
        ({"kernel": "precomputed", "updatable": True}, "updatable=True: .*kernel='precomputed' does not hold"),
        ({"kernel": "precomputed", "epsilon": 2.0}, "epsilon=2.0 would do nothing"),
        ({"kernel": "precomputed", "threshold": 0.1}, "threshold=0.1 cut off distances"),
        ({"kernel": max, "n_neighbors": 9}, "n_neighbors=9, .* a kernel callable gives affinities"),
        ({"metric": "precomputed", "kernel": "adaptive"}, "needs the features of the landmarks"),
        ({"metric": "precomputed", "kernel": "self_tuning"}, "needs the features of the landmarks"),
        ({"metric": "precomputed", "n_neighbors": graphs.Mutual(5)}, "needs distances between landmarks"),
        ({"metric": "precomputed", "n_neighbors": graphs.Ball("auto")}, "a Ball with a radius"),
        ({"metric": "precomputed", "n_neighbors": 2}, "alpha=1.0 with n_neighbors=2: .* Pass alpha=0"),
        ({"kernel": "adaptive", "threshold": 0.1}, "kernel='adaptive' keeps a number of nearest landmarks"),
        ({"n_neighbors": graphs.Ball(1.0), "kernel": "adaptive"}, "Pass kernel='gaussian' or 'self_tuning'"),
        ({"n_neighbors": 7, "threshold": 0.1}, "n_neighbors=7 and threshold=0.1 both say"),
        ({"threshold": 1.0}, "threshold=1 keeps nothing"),
        ({"kernel": "continuous_knn", "epsilon": 0.5}, "has no epsilon"),
        ({"kernel": "self_tuning", "epsilon": "median"}, "measures in local units"),
        ({"kernel": "rbf"}, "'self_tuning', 'continuous_knn', 'precomputed'"),
        ({"kernel": minus_one, "landmarks": 20}, "Affinities must be >= 0"),
        ({"landmarks": 40, "n_neighbors": graphs.Mutual(41)}, "n_neighbors=41 is more than the 40 landmarks"),
        ({"epsilon": np.inf}, "finite"),
        ({"alpha": 2}, "alpha=2 must be >= 0 and <= 1"),
        ({"t": -1}, "t=-1 must be >= 0"),
        ({"n_components": 40, "epsilon": 1e3, "landmarks": 60}, "beyond the rank"),
    ],
    ids=[f"bad {number}" for number in range(27)],
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
