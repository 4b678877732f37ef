"""Metrics: scikit-learn's numbers, far from the origin and with missing values."""

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from catalogue import cloud, quietly
from outfold import PHATE, ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, Roseland
from outfold._runtime.threads import Threads
from outfold.distances import METRICS, Distances, Metric

X = cloud(0, rows=40)
FEATURES = {"haversine": np.abs(X[:, :2]) % 1.5}
BOOLEAN = {"dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"}


@pytest.mark.parametrize("name", [m for m in METRICS if m not in ("precomputed",)])
def test_every_metric_is_scikit_learns(name):
    data = FEATURES.get(name, np.hstack([X, X**2, X**3]) > 0 if name in BOOLEAN else X)
    fitted = Metric(name).fit(np.asarray(data, dtype=float))
    params = {"V": fitted.params["V"]} if name == "seuclidean" else {}
    if name == "mahalanobis":
        params = {"VI": fitted.params["VI"]}
    expected = pairwise_distances(data, data.copy(), metric=name, **params) ** 2
    got = fitted.gram(Threads(1))
    np.testing.assert_allclose(got, expected, atol=1e-10)
    np.testing.assert_array_equal(got, got.T)
    np.testing.assert_allclose(fitted.cross(np.asarray(data[3:4], dtype=float))[0], got[3], atol=1e-15)


@pytest.mark.parametrize("name", ["euclidean", "cosine", "seuclidean", "mahalanobis", "minkowski", "canberra"])
def test_every_metric_keeps_the_first_law(name):
    metric = Metric("minkowski", {"p": 3}) if name == "minkowski" else name
    maps = DiffusionMaps(2, metric=metric)
    embedding = quietly(maps.fit_transform, X)
    np.testing.assert_allclose(quietly(maps.transform, X[::-1][5:9]), embedding[::-1][5:9], atol=1e-10)


def test_missing_values_are_for_the_metric_that_knows_them():
    gaps = np.array(X)
    gaps[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        DiffusionMaps().fit(gaps)
    maps = DiffusionMaps(metric="nan_euclidean").fit(gaps)
    assert np.isfinite(maps.transform(gaps)).all()


@pytest.mark.parametrize("metric", ["nan_euclidean", Metric("nan_euclidean")], ids=["name", "metric"])
@pytest.mark.parametrize("method", [ClassicalMDS, DiffusionMaps, Isomap, PHATE, Roseland], ids=lambda m: m.__name__)
def test_the_tag_says_that_missing_values_are_taken_and_they_are(method, metric):
    gaps = np.array(X)
    gaps[3, 1] = gaps[9, 0] = np.nan
    estimator = method(metric=metric)
    assert estimator.__sklearn_tags__().input_tags.allow_nan
    assert np.isfinite(quietly(estimator.fit_transform, gaps)).all()


@pytest.mark.parametrize(
    "estimator", [DiffusionMaps(), Isomap(metric="manhattan"), Isomap(metric=Metric("cosine")), KernelPCA()], ids=str
)
def test_the_tag_says_that_missing_values_are_refused_and_they_are(estimator):
    gaps = np.array(X)
    gaps[3, 1] = np.nan
    assert not estimator.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="contains NaN"):
        estimator.fit(gaps)


def test_distances_are_right_far_from_the_origin():
    moved = Metric().fit(X + 1e6).gram(Threads(1))
    np.testing.assert_allclose(moved, Metric().fit(X).gram(Threads(1)), atol=1e-8)
    assert (np.diagonal(moved) == 0).all()


def test_the_nearest_anchor_of_a_row_is_that_of_the_row_alone_however_far_others_are():
    anchors = np.random.default_rng(0).normal(size=(40, 3))
    direction = np.array([0.6, -0.64, 0.48])
    rows = np.vstack([anchors[:5] + 1e-3, np.outer([1e3, 1e8, 1e30, 1e200], direction)])
    distances = Metric("euclidean").fit(anchors)
    together = distances.nearest(rows)
    np.testing.assert_array_equal(together, np.concatenate([distances.nearest(row[None]) for row in rows]))
    np.testing.assert_array_equal(together[:5], np.arange(5))
    np.testing.assert_array_equal(together[6:], (anchors @ direction).argmax())


def test_metric_callables_equal_their_name():
    called = DiffusionMaps(2, metric=lambda x, y: np.abs(x - y).sum()).fit(X)
    named = DiffusionMaps(2, metric="manhattan").fit(X)
    np.testing.assert_allclose(called.embedding_, named.embedding_, atol=1e-10)


def test_only_bad_rows_are_counted_and_the_first_is_named():
    points = np.arange(12.0).reshape(6, 2)

    def broken(a, b):
        if a[0] in (4.0, 8.0):  # rows 2 and 4
            return -1.0 if a[0] == 4 else np.nan
        return np.abs(a - b).sum()  # 0 for a row and itself, which is fine

    distances = Distances(points, broken)
    with pytest.raises(ValueError, match=r"for 2 of 6 rows \(the first is row 2 of this block\)"):
        distances.cross(points)
    assert distances.cross(points[:2]).diagonal().tolist() == [0, 0]


# -- parameters ----------------------------------------------------------------------------


def test_weights_of_the_euclidean_metric_count():
    X, w = np.random.default_rng(0).normal(size=(20, 3)), np.array([1.0, 4.0, 0.25])
    weighted = Metric("euclidean", {"w": w}).fit(X).cross(X[:4])
    np.testing.assert_allclose(weighted, Metric().fit(X * np.sqrt(w)).cross(X[:4] * np.sqrt(w)), atol=1e-12)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"name": 3}, "name=3 must be a name"),
        ({"params": 3}, "params=3 must be a dictionary"),
        ({"params": {"q": 3}}, "params has 'q'; 'euclidean' takes some of 'V', 'VI', 'p', 'w'"),
    ],
)
def test_parameters_that_are_none_are_refused(how, told):
    with pytest.raises(ValueError, match=told):
        Metric(**how)
