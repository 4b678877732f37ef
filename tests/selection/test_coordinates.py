"""Which eigenvectors say something new."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from outfold import DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, Roseland, datasets
from outfold.selection import LocalLinearSelection, residuals


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


EVEN = datasets.rectangle(600, sides=(2.45, 1.0), grid=True)  # or eigenvalues 1 and 1.17 would mix


@pytest.mark.parametrize(
    "maps",
    [
        DiffusionMaps(7),
        DiffusionMaps(7, kernel="gaussian"),
        DiffusionMaps(7, kernel="variable"),
        Roseland(7, landmarks=EVEN[::2]),
        Roseland(7, landmarks=300, kernel="gaussian", random_state=0),
        LaplacianEigenmaps(7),
        LaplacianEigenmaps(7, kernel="gaussian"),
    ],
)
def test_in_a_pipeline_the_second_coordinate_of_a_strip_is_found(maps):
    x = EVEN
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
