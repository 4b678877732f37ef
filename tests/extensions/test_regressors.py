"""Regressors as extensions: linear maps and those of scikit-learn."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

from catalogue import quietly
from functions import MEASURE, X, Y, Z, learnt
from outfold import DiffusionMaps
from outfold.extensions import LinearMap


@pytest.mark.parametrize("features", [3, 200])
def test_a_linear_map_is_least_squares(features):
    points = np.random.default_rng(3).normal(size=(len(X), features))
    at = np.random.default_rng(4).normal(size=(9, features))
    centre, mean = points.mean(axis=0), Y.mean(axis=0)
    B = np.linalg.lstsq(points - centre, Y - mean, rcond=1e-10)[0]
    found = learnt(LinearMap(), at=at, points=points)
    np.testing.assert_allclose(found, (at - centre) @ B + mean, rtol=0, atol=1e-5)


def test_a_measure_of_a_linear_map_is_weighted_least_squares():
    expected = LinearRegression().fit(X, Y, sample_weight=MEASURE).predict(Z)
    np.testing.assert_allclose(learnt(LinearMap(), measure=MEASURE), expected, rtol=0, atol=1e-6)


class Remembering(BaseEstimator):
    """A regressor that keeps what it was given, in a shared list, and predicts zeros of some shape."""

    def __init__(self, seen=None, shape=None):
        self.seen = seen
        self.shape = shape

    def __sklearn_clone__(self):
        return Remembering(self.seen, self.shape)  # with the same list

    def fit(self, points, values, sample_weight=None):
        self.seen.append((np.shape(values), None if sample_weight is None else np.array(sample_weight)))
        return self

    def predict(self, points):
        return np.zeros((len(points), *(self.shape or ())))


def test_a_regressor_is_cloned_and_predicts_what_it_predicts_alone():
    regressor = KNeighborsRegressor(3, weights="distance")
    model = DiffusionMaps(2, extension=regressor).fit(X)
    assert not hasattr(regressor, "n_features_in_")
    expected = clone(regressor).fit(X, model.embedding_).predict(Z)
    np.testing.assert_allclose(quietly(model.transform, Z), expected, rtol=0, atol=1e-12)
    assert "KNeighborsRegressor" in model.report_.extension


def test_weights_reach_a_regressor_that_takes_them():
    seen = []
    DiffusionMaps(2, extension=Remembering(seen, (2,))).fit(X, sample_weight=MEASURE)
    shape, weights = seen[-1]
    assert shape == (len(X), 2)
    np.testing.assert_array_equal(weights, MEASURE)
    DiffusionMaps(2, extension=Remembering(seen, (2,))).fit(X)
    assert seen[-1][1] is None
    by_weight = DiffusionMaps(2, extension=Ridge(1.0)).fit(X, sample_weight=MEASURE)
    expected = Ridge(1.0).fit(X, by_weight.embedding_, sample_weight=MEASURE).predict(X[:7])
    np.testing.assert_allclose(by_weight.transform(X[:7]), expected, rtol=0, atol=1e-12)
    no_weights = KNeighborsRegressor(3)  # takes none, and is left without
    assert np.isfinite(DiffusionMaps(2, extension=no_weights).fit(X, sample_weight=MEASURE).transform(X)).all()


def test_a_single_component_suits_a_regressor_of_one_target():
    seen = []
    DiffusionMaps(1, extension=Remembering(seen)).fit(X)
    assert seen[-1][0] == (len(X),)
    model = DiffusionMaps(1, extension=KNeighborsRegressor(1)).fit(X)
    assert model.transform(X).shape == (len(X), 1)
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-12)


def test_a_prediction_of_the_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"Remembering.predict returned shape \(90, 3\) .* must return \(90, 2\)"):
        DiffusionMaps(2, extension=Remembering([], (3,))).fit(X)
