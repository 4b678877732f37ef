"""Kernels, metrics, and conversions between conventions."""

from dataclasses import asdict

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel

from catalogue import cloud, quietly
from outfold import DiffusionMaps, kernels
from outfold.distances import METRICS, Metric
from outfold.runners import Threads
from outfold.surveys import DenseSurvey

X = cloud(0, rows=40)


def test_conversions_agree_with_the_other_conventions():
    ours = kernels.GaussianKernel(kernels.Bandwidth(kernels.epsilon_from_gamma(0.7), "")).affinity
    squared = pairwise_distances(X, squared=False) ** 2
    np.testing.assert_allclose(ours(squared), rbf_kernel(X, gamma=0.7), atol=1e-12)
    assert kernels.epsilon_from_sigma(3.0) == 9.0
    assert kernels.epsilon_from_plain(3.0) == 1.5


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


def test_a_specification_is_not_changed_by_a_fit():
    spec = kernels.Gaussian(kernels.Fixed(2.0))
    before = repr(spec)
    fitted = spec.fit(DenseSurvey(None, np.zeros((2, 2)), np.ones(2)))
    assert repr(spec) == before
    assert fitted.bandwidth.epsilon == 2.0


def test_far_rows_of_given_matrices_and_callables_can_take_their_nearest():
    from scipy.spatial.distance import cdist

    Z = np.vstack([X[:3], [[60.0, 0, 0]]])
    closest = ((X - Z[3]) ** 2).sum(axis=1).argmin()

    def weight(x, y):
        return float(np.exp(-((x - y) ** 2).sum()))

    def affinity(A, B):
        return np.exp(-cdist(A, B, "sqeuclidean"))

    for maps, train, rows in (
        (DiffusionMaps(2, metric="precomputed", epsilon=0.5), cdist(X, X), cdist(Z, X)),
        (DiffusionMaps(2, kernel="precomputed"), affinity(X, X), affinity(Z, X)),
        (DiffusionMaps(2, kernel=weight), X, Z),
    ):
        maps.fit(train)
        assert maps.trust(rows).flag.tolist() == [False, False, False, True]
        placed = maps.transform(rows, on_far="nearest")
        where = closest if maps.kernel == "gaussian" else None
        if where is not None:
            np.testing.assert_allclose(placed[3], maps.embedding_[where], atol=1e-10)
        assert np.isfinite(placed).all()


def test_the_report_is_data_too():
    facts = asdict(DiffusionMaps().fit(X).report_)
    assert facts["method"] == "DiffusionMaps"
    assert facts["n_samples"] == len(X)
