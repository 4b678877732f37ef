"""Criteria for dimension and time, and which eigenvectors say something new."""

import numpy as np
import pytest
from scipy.special import iv
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from outfold import DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, Roseland, datasets
from outfold.bandwidths import Slope
from outfold.selection import (
    LocalLinearSelection,
    entropy_time,
    gap_dimension,
    residuals,
    slope_dimension,
    smallest_time,
    spectral_dimension,
    spectral_entropy,
)

CIRCLE = np.repeat(iv(np.arange(1, 7), 10.0) / iv(0, 10.0), 2)  # epsilon = 0.1
SPHERE = np.exp(-0.05 * np.repeat([2, 6, 12], [3, 5, 7]))
TORUS = np.exp(-0.05 * np.repeat([1.0, 2.0, 4.0], 4) * [*[1] * 4, *[1] * 4, *[0.9] * 4])


# -- dimension -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "by", "t", "dimension"),
    [
        (CIRCLE, "rate", 1, 2),
        (CIRCLE, "rate", 50, 2),
        (CIRCLE, "difference", 30, 2),
        (SPHERE, "rate", 1, 3),
        (SPHERE, "difference", 10, 3),
        (TORUS, "rate", 1, 4),
        ([0.2, -0.9, 0.85], "difference", 1, 2),
        ([1.0, 1.0, 1 - 1e-15, 0.3], "rate", 1, 3),
        ([5.0, 4.0, 0.5, 0.4], "ratio", 1, 2),
        ([5.0, 4.0, 0.5, 0.0], "ratio", 1, 3),
        ([0.5, 0.5, 0.5], "rate", 1, None),
        ([1.0, 1.0], "rate", 1, None),
        ([2.0, 2.0], "ratio", 1, None),
    ],
)
def test_the_gap_is_where_it_is_and_never_inside_a_multiplet(values, by, t, dimension):
    assert gap_dimension(values, by=by, t=t) == dimension


def test_the_gap_of_rates_is_that_of_a_naive_loop():
    values = np.sort(np.random.default_rng(0).uniform(size=30))[::-1]
    ratios = [np.log(values[l + 1]) / np.log(values[l]) for l in range(29)]
    assert gap_dimension(values) == int(np.argmax(ratios)) + 1


def test_the_slope_is_the_one_the_bandwidth_rule_finds():
    X = datasets.s_curve(300, random_state=0)[0]
    maps = DiffusionMaps(2, epsilon="slope").fit(X)
    assert slope_dimension(X) == maps.report_.dimension
    assert slope_dimension(maps) == maps.report_.dimension
    weighted = DiffusionMaps(2, epsilon=Slope()).fit(X, sample_weight=np.arange(300) % 3)
    assert slope_dimension(weighted) == pytest.approx(weighted.report_.dimension)


@pytest.mark.parametrize(("name", "dimension"), [("circle", 1), ("sphere", 2), ("flat_torus", 2)])
def test_the_slope_rounds_to_the_dimension(name, dimension):
    for seed in range(3):
        assert (
            round(slope_dimension(getattr(datasets, name)(5000 if seed == 0 else 400, random_state=seed))) == dimension
        )


# -- time ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.01])
@pytest.mark.parametrize("dimension", [2, 4, 6])
def test_the_smallest_time_reaches_the_dimension_and_a_step_less_does_not(dimension, delta):
    time = smallest_time(CIRCLE, dimension, delta=delta)
    assert time == int(time)
    assert spectral_dimension(CIRCLE, t=time, delta=delta) <= dimension
    before = spectral_dimension(CIRCLE, t=time - 1, delta=delta)
    assert before is None or before > dimension
    exact = smallest_time(CIRCLE, dimension, delta=delta, whole=False)
    assert time - 1 < exact <= time
    assert (CIRCLE[dimension] / CIRCLE[0]) ** exact == pytest.approx(delta)


def test_equality_reaches_the_dimension():
    assert smallest_time([1.0, 0.1, 0.01], 1) == 1
    assert smallest_time([1.0, 0.5, 0.25], 1, delta=0.125) == 3
    assert smallest_time([0.8, 0.0], 1) == 1


def test_entropy_is_that_of_the_normalised_spectrum():
    values = np.random.default_rng(0).uniform(-1, 1, 20)
    for t in (1, 2, 7):
        share = np.append(1, np.abs(values)) ** t
        share /= share.sum()
        np.testing.assert_allclose(spectral_entropy(values, [t]), -(share * np.log(share)).sum(), rtol=1e-12)
    share = np.abs(values) / np.abs(values).sum()
    np.testing.assert_allclose(spectral_entropy(7 * values, [1], trivial=False), -(share * np.log(share)).sum())


def test_the_knee_is_that_of_a_naive_search_over_two_lines():
    values = np.concatenate([[0.99, 0.97, 0.9], np.random.default_rng(1).uniform(0, 0.7, 100)])
    times = np.arange(1.0, 61)
    entropy = spectral_entropy(values, times)

    def error(x, y):
        return ((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2).sum()

    errors = [error(times[: b + 1], entropy[: b + 1]) + error(times[b:], entropy[b:]) for b in range(1, 59)]
    assert entropy_time(values, t_max=60) == times[1 + int(np.argmin(errors))]


def test_the_knee_of_a_bent_curve_is_the_bend_and_a_flat_one_has_none():
    assert entropy_time([1.0, 1.0]) == 1
    quick = np.concatenate([[0.9999], np.full(500, 0.3)])
    slow = np.concatenate([[0.9999], np.full(500, 0.8)])
    assert entropy_time(quick) < entropy_time(slow) < 60


# -- eigenvectors --------------------------------------------------------------------------


def strip(n, length, height, seed):
    return np.random.default_rng(seed).uniform(size=(n, 2)) * [length, height]


def harmonics(x, length, height, count):
    """The first eigenfunctions of the rectangle, and (k, l) of each."""
    pairs = sorted(
        ((k, l) for k in range(9) for l in range(9)), key=lambda p: (p[0] / length) ** 2 + (p[1] / height) ** 2
    )
    pairs = pairs[1 : count + 1]
    return np.column_stack([np.prod(np.cos(np.pi * x * p / [length, height]), axis=1) for p in pairs]), pairs


def naive(vectors, scale=1 / 3):
    """The definition, row by row."""
    vectors = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    n, found = len(vectors), [1.0]
    for k in range(1, vectors.shape[1]):
        known, wanted = vectors[:, :k], vectors[:, k]
        distance = np.linalg.norm(known[:, None] - known[None], axis=2)
        width = scale * np.median(distance[np.triu_indices(n, 1)])
        left = []
        for i in range(n):
            others = np.arange(n) != i
            root = np.exp(-(distance[i, others] ** 2) / width**2 / 2)
            root /= np.linalg.norm(root)
            design = np.column_stack([np.ones(n - 1), known[others] - known[i]])
            ridge = np.sqrt(1e-6 * known.var(axis=0).sum()) * np.eye(k + 1)[1:]
            both = np.vstack([root[:, None] * design, ridge])
            solution = np.linalg.lstsq(both, np.append(root * wanted[others], np.zeros(k)), rcond=None)[0]
            left.append(wanted[i] - solution[0])
        found.append(np.sqrt(np.square(left).sum() / np.square(wanted).sum()))
    return np.array(found)


def test_residuals_are_those_of_a_naive_loop():
    vectors = np.random.default_rng(0).normal(size=(120, 4)) * [3.0, 1.0, 0.1, 2.0]
    np.testing.assert_allclose(residuals(vectors), naive(vectors), rtol=1e-10)
    np.testing.assert_allclose(residuals(vectors, scale=1.0), naive(vectors, 1.0), rtol=1e-10)


@pytest.mark.parametrize("length", [1.6, 3.3, 5.4])
def test_of_a_rectangles_harmonics_the_two_coordinates_are_chosen(length):
    x = strip(600, length, 1.0, 0)
    vectors, pairs = harmonics(x, length, 1.0, 9)
    found = residuals(vectors)
    assert found[0] == 1
    kept = LocalLinearSelection(2).fit(vectors).get_support(indices=True)
    assert [pairs[k] for k in kept] == [(1, 0), (0, 1)]
    np.testing.assert_array_equal(LocalLinearSelection().fit(vectors).get_support(indices=True), kept)
    assert found[kept].min() > 0.9
    assert np.delete(found, kept).max() < 0.3


@pytest.mark.parametrize("maps", [DiffusionMaps(7), Roseland(7, landmarks=300, random_state=0), LaplacianEigenmaps(7)])
def test_in_a_pipeline_the_second_coordinate_of_a_strip_is_found(maps):
    x = datasets.rectangle(600, sides=(2.45, 1.0), grid=True)  # even, or eigenvalues 1 and 1.17 would mix
    pipeline = make_pipeline(clone(maps), LocalLinearSelection(2)).fit(x)
    first, second = pipeline.transform(x).T
    assert abs(np.corrcoef(first, np.cos(np.pi * x[:, 0] / 2.45))[0, 1]) > 0.98
    assert abs(np.corrcoef(second, np.cos(np.pi * x[:, 1]))[0, 1]) > 0.98
    names = pipeline.get_feature_names_out()
    assert len(names) == 2
    assert names[0] == type(maps).__name__.lower() + "0"


def test_residuals_do_not_depend_on_weights_threads_shifts_or_time():
    vectors, _ = harmonics(strip(400, 2.7, 1.0, 2), 2.7, 1.0, 5)
    plain = residuals(vectors)
    np.testing.assert_allclose(residuals(vectors * 0.5 ** np.arange(5) + 3, n_jobs=2), plain, rtol=1e-8)


def test_a_part_of_many_rows_says_the_same():
    vectors, _ = harmonics(strip(2500, 2.7, 1.0, 2), 2.7, 1.0, 4)
    assert np.abs(residuals(vectors, rows=700) - residuals(vectors, rows=2500)).max() < 0.05
    np.testing.assert_array_equal(residuals(vectors, rows=700), residuals(vectors, rows=700))


def test_copies_constants_and_outliers_are_survived():
    rng = np.random.default_rng(0)
    vectors = np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60), np.full(60, 2.5), rng.normal(size=60)])
    vectors[7] = [1e3, -1e3, 2.5, 1.0]
    found = residuals(vectors)
    assert np.isfinite(found).all()
    assert found[2] == 0
    assert residuals(np.zeros((5, 3))).tolist() == [1.0, 0.0, 0.0]


def test_the_threshold_and_the_count_together():
    vectors, _ = harmonics(strip(400, 2.7, 1.0, 2), 2.7, 1.0, 5)
    found = residuals(vectors)
    for threshold in (0.0, 0.05, 0.5):
        kept = LocalLinearSelection(threshold=threshold).fit(vectors).get_support()
        np.testing.assert_array_equal(kept, found > threshold)
    assert LocalLinearSelection(3, threshold=0.5).fit(vectors).get_support().sum() == 2
    assert LocalLinearSelection(1, threshold=0.5).fit(vectors).get_support().tolist() == [True] + [False] * 4


def test_scikit_learns_checks_pass():
    results = estimator_checks.check_estimator(LocalLinearSelection(), on_fail=None, on_skip=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]


def test_it_takes_what_centred_methods_give():
    x = strip(300, 3.3, 1.0, 1)
    for method in (Isomap(3), KernelPCA(4, kernel="rbf", gamma=0.5)):
        assert make_pipeline(method, LocalLinearSelection(2)).fit_transform(x).shape == (300, 2)


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gap_dimension([0.5]), "only one was given"),
        (lambda: gap_dimension([0.5, 0.2], by="size"), "by='size' is not known"),
        (lambda: gap_dimension([3.0, 2.0]), "largest given is 3.*by='ratio'"),
        (lambda: gap_dimension([0.0, 0.0]), "no non-zero eigenvalue"),
        (lambda: gap_dimension([0.5, np.nan]), "1 of 2 eigenvalues are NaN"),
        (lambda: spectral_dimension(np.ones((2, 2))), r"shape \(2, 2\)"),
        (lambda: smallest_time([0.9, 0.5], 2), "needs eigenvalue 3.*there are 2"),
        (lambda: smallest_time([0.9, 0.5], 0), "dimension=0"),
        (lambda: smallest_time([0.9, 0.9, 0.9, 0.5], 2), "first 3 eigenvalues are equal.*dimension >= 3"),
        (lambda: smallest_time([0.9, 0.5], 1, delta=1.0), "delta=1.0 must lie between"),
        (lambda: entropy_time([0.9], t_max=3), "t_max=3 is too short"),
        (lambda: residuals([1.0, 2.0]), r"shape \(at least 2"),
        (lambda: residuals([[1.0, 2.0], [np.nan, 3.0]]), "infinite entries in 1 rows"),
        (lambda: residuals(np.eye(3), scale=0), "scale=0 must be"),
        (lambda: residuals(np.eye(3), rows=1), "rows=1 is too few"),
        (lambda: LocalLinearSelection(4).fit(np.eye(3)), "n_components=4 must be 1 to 3"),
        (lambda: LocalLinearSelection(threshold=1.0).fit(np.eye(3)), "threshold=1.0"),
        (lambda: slope_dimension(np.ones((5, 2))), "All training points are equal"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_precomputed_distances_have_no_points_to_look_at():
    X = datasets.circle(30, random_state=0)
    maps = DiffusionMaps(2, metric="precomputed").fit(np.linalg.norm(X[:, None] - X, axis=2))
    with pytest.raises(ValueError, match="metric='precomputed' keeps no points"):
        slope_dimension(maps)
