"""The tolerances of the laws: from the contract, never from the code under test, and narrow enough to see a fault."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from catalogue import (
    ALL_METHODS,
    LowRank,
    cloud,
    new_points,
    quietly,
    row_tolerance,
    size_of,
    smallest,
    tolerance,
)
from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, Roseland, graphs


def test_the_report_has_no_say_in_a_tolerance():
    X = cloud(0, rows=60)
    for estimator in ALL_METHODS.values():
        model = quietly(clone(estimator).fit, X)
        before = tolerance(model, model.embedding_), row_tolerance(model, model.embedding_, X, model.embedding_)
        model.report_ = SimpleNamespace(amplification=1e9)
        assert (
            tolerance(model, model.embedding_),
            row_tolerance(model, model.embedding_, X, model.embedding_),
        ) == before


@pytest.mark.parametrize(
    "estimator",
    [DiffusionMaps(), DiffusionMaps(t=0), LaplacianEigenmaps(), Roseland(landmarks=0.7, t=0, random_state=0)],
    ids=str,
)
def test_lambda_is_the_smallest_of_the_markov_matrix(estimator):
    X = cloud(1, rows=60)
    model = quietly(clone(estimator).set_params(n_components=6, epsilon=0.5).fit, X)
    values = model.eigenvalues_ if not isinstance(model, LaplacianEigenmaps) else 1 - model.eigenvalues_
    assert smallest(model) == np.abs(values).min() < 0.9


def test_many_components_with_small_eigenvalues_stay_within_the_contract():
    """Twelve components have eigenvalues down to 1e-8, where the laws' two have 0.1 and more."""
    seen = []
    settings = [
        DiffusionMaps(12, t=0),
        DiffusionMaps(12, t=0.5),
        LaplacianEigenmaps(12),
        KernelPCA(12, kernel="rbf", gamma="auto"),
        KernelPCA(12, kernel="rbf", gamma="auto", solver="lanczos"),
        ClassicalMDS(12, metric="manhattan", signed=True),
        Isomap(12, n_neighbors=6, signed=True),
        Roseland(12, landmarks=0.6, t=0, random_state=0),
        *(DiffusionMaps(12, t=t, landmarks=0.6, solver=LowRank(tol), random_state=0)
          for t in (0, 1) for tol in (1e-6, 1e-10, 1e-13)),
    ]  # fmt: skip
    for estimator in settings:
        for seed, kind in enumerate(("plain", "collinear", "clusters", "constant", "grid")):
            X = cloud(seed, kind, rows=80)
            try:
                model = quietly(clone(estimator).fit, X)
            except ValueError as error:
                if "beyond the rank" in str(error):
                    continue
                raise
            places, Z = quietly(clone(estimator).fit_transform, X), new_points(X, seed, 9)
            mixed = quietly(model.transform, np.vstack([Z, X]))
            allowed = tolerance(model, places)
            np.testing.assert_allclose(mixed[9:], places, rtol=0, atol=allowed)
            anchors = getattr(model, "landmark_indices_", None)
            anchors = slice(None) if anchors is None else anchors
            np.testing.assert_allclose(places[anchors], model.embedding_[anchors], rtol=0, atol=allowed)
            alone = np.vstack([quietly(model.transform, z[None]) for z in Z])
            np.testing.assert_allclose(mixed[:9], alone, rtol=0, atol=row_tolerance(model, places, Z, mixed[:9]))
            seen.append(smallest(model))
    assert len(seen) > 40
    assert min(seen) < 1e-6


def test_an_outlier_that_is_no_landmark_is_rounded_by_its_squared_distance():
    X = np.array(cloud(31, rows=60))
    X[50] = 1e6
    model = ClassicalMDS(2, landmarks=X[:40]).fit(X)
    Z = new_points(X, 0, 40)
    together = quietly(model.transform, Z)
    alone = np.vstack([quietly(model.transform, z[None]) for z in Z])
    places = quietly(model.transform, X)
    worst = np.abs(together - alone).max()
    assert worst > 1e-12 * size_of(places)  # so the exception is needed
    assert worst <= row_tolerance(model, places, Z, together)


def test_an_unnormalized_laplacian_that_meets_a_pole_says_so():
    """mu = d(x): v(x) = w(x, .) v / (d(x) - mu) is 0 / 0, which no row can give.

    Two neighbours that see all others alike have such an eigenvector, (1, -1) on them, with mu their degree.
    """
    twins = np.array([[0.0, 0.1], [0.0, -0.1], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    graph = graphs.Ball(1.1)
    for count, pole in ((2, False), (4, True)):
        maps = LaplacianEigenmaps(count, laplacian="unnormalized", n_neighbors=graph, epsilon=np.inf)
        model = quietly(maps.fit, twins)
        degree = (np.sqrt(((twins[:, None] - twins) ** 2).sum(axis=2)) < 1.1).sum(axis=1)
        assert (np.abs(1 - model.eigenvalues_ / degree[:, None]).min() < 1e-10) == pole
        gap = np.abs(quietly(model.transform, twins) - model.embedding_).max()
        assert model.report_.extension_gap == pytest.approx(gap, abs=1e-13)
        assert (gap > 0.1) == pole
        assert pole or gap <= tolerance(model, model.embedding_)


def test_near_a_pole_rounding_grows_as_the_square_of_the_coordinate():
    X = cloud(1746, "plain", *np.random.default_rng(1746).integers([24, 1], [81, 5]))
    model = LaplacianEigenmaps(kernel="gaussian", laplacian="unnormalized").fit(X)
    Z = new_points(X, 1746, 20)
    together = quietly(model.transform, Z)
    alone = np.vstack([quietly(model.transform, z[None]) for z in Z])
    assert size_of(together) > 20 * size_of(model.embedding_)
    worst = np.abs(together - alone).max()
    assert worst <= row_tolerance(model, model.embedding_, Z, together)
