"""The way back: against scikit-learn, in every method, with every extension."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import decomposition
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor

from catalogue import quietly
from functions import MEASURE, NAMED, X, Z, methods, scikit_ridge
from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, datasets
from outfold.extensions import Auto, Barycentric, KernelRidge, LinearMap

S, _ = datasets.s_curve(250, random_state=0)
HELD, _ = datasets.s_curve(60, random_state=1)
QUICK = Auto(folds=3, candidates=(KernelRidge(), LinearMap(), Barycentric(8)))


@methods
def test_every_method_goes_back(method):
    model = quietly(clone(method).set_params(inverse=QUICK).fit, X)
    back = model.inverse_transform(quietly(model.transform, Z))
    assert back.shape == Z.shape
    assert np.isfinite(back).all()
    assert model.round_trip_error_ < 1  # better than the mean of the data


@pytest.mark.parametrize("name", [*list(NAMED)[1:], KNeighborsRegressor(3)], ids=str)
def test_every_inverse_goes_back(name):
    model = DiffusionMaps(5, inverse=name).fit(S)
    back = model.inverse_transform(quietly(model.transform, HELD))
    spread = np.sqrt(((S - S.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert np.sqrt(((back - HELD) ** 2).sum(axis=1).mean()) < 0.5 * spread
    assert 0 < model.round_trip_error_ < 0.5


def spread_of(rows):
    return np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


def spacing(rows):
    """Root mean square distance to the nearest other row, relative to the standard deviation."""
    return np.sqrt((np.sort(cdist(rows, rows), axis=1)[:, 1] ** 2).mean()) / spread_of(rows)


@pytest.mark.parametrize(
    ("method", "most"),
    [
        (DiffusionMaps(5, kernel="gaussian"), 0.05),
        (LaplacianEigenmaps(5, kernel="gaussian"), 0.05),
        # Neighbourhoods of 15 rows are as uneven as the sample: their coordinates place a row among its neighbours.
        (DiffusionMaps(5), spacing(S)),
        (LaplacianEigenmaps(5), spacing(S)),
        (Isomap(5, n_neighbors=10), 0.15),
    ],
    ids=["gaussian diffusion maps", "gaussian eigenmaps", "diffusion maps", "laplacian eigenmaps", "isomap"],
)
def test_the_round_trip_is_short_and_its_error_is_what_new_points_see(method, most):
    model = clone(method).fit(S)
    assert model.round_trip_error_ < most
    back = model.inverse_transform(quietly(model.transform, HELD))
    spread = spread_of(S)
    seen = np.sqrt(((back - HELD) ** 2).sum(axis=1).mean()) / spread
    assert seen < 3 * model.round_trip_error_ + 0.02


def test_the_round_trip_error_is_held_out():
    """Three parts, each reconstructed from the others by scikit-learn's ridge."""
    epsilon, ridge = 0.5, 1e-3
    model = DiffusionMaps(3, inverse=KernelRidge(epsilon, ridge)).fit(S)
    places = model.embedding_ / model.embedding_.std(axis=0)
    label = np.random.default_rng(0).permutation(len(S)) % 3
    squares = []
    for part in range(3):
        rest, held = label != part, label == part
        back = scikit_ridge(places[rest], S[rest], epsilon, ridge, places[held])
        squares.append(((back - S[held]) ** 2).sum(axis=1).mean())
    spread = ((S - S.mean(axis=0)) ** 2).sum(axis=1).mean()
    expected = np.exp(np.log(np.sqrt(np.array(squares) / spread)).mean())
    np.testing.assert_allclose(model.round_trip_error_, expected, rtol=1e-5)


def test_the_way_back_does_not_depend_on_diffusion_time():
    early, late = (DiffusionMaps(4, t=t).fit(S) for t in (0, 3))
    np.testing.assert_allclose(early.round_trip_error_, late.round_trip_error_, rtol=0, atol=1e-6)
    there = [quietly(model.transform, HELD) for model in (early, late)]
    assert np.abs(there[0] - there[1]).max() > 1e-2
    back = [model.inverse_transform(places) for model, places in zip((early, late), there)]
    np.testing.assert_allclose(*back, rtol=0, atol=1e-5)


def test_the_linear_inverse_of_linear_kernel_pca_is_that_of_pca():
    wide = np.random.default_rng(0).normal(size=(60, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
    pca, kernel = decomposition.PCA(3).fit(wide), KernelPCA(3, inverse="linear").fit(wide)
    back = kernel.inverse_transform(kernel.transform(wide))
    np.testing.assert_allclose(back, pca.inverse_transform(pca.transform(wide)), rtol=0, atol=1e-6)


def test_weights_equal_repeats_on_the_way_back():
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    weighted = quietly(DiffusionMaps(2, epsilon=1.0, inverse=QUICK).fit, X, sample_weight=MEASURE)
    repeated = quietly(DiffusionMaps(2, epsilon=1.0, inverse=QUICK).fit, X[copies])
    places = quietly(weighted.transform, Z)
    np.testing.assert_allclose(weighted.round_trip_error_, repeated.round_trip_error_, rtol=1e-5)
    np.testing.assert_allclose(weighted.inverse_transform(places), repeated.inverse_transform(places), atol=1e-6)


@pytest.mark.parametrize("given", ["metric", "kernel"])
def test_a_given_matrix_has_no_features_to_go_back_to(given):
    table = cdist(X, X) if given == "metric" else np.exp(-cdist(X, X, "sqeuclidean"))
    model = DiffusionMaps(**{given: "precomputed"}).fit(table)
    with pytest.raises(ValueError, match=f"{given}='precomputed' has no features to go back to"):
        model.inverse_transform(model.embedding_)
    with pytest.raises(ValueError, match="no features to go back to"):
        _ = model.round_trip_error_


def test_coordinates_of_another_embedding_are_refused():
    with pytest.raises(ValueError, match="3 columns, but the embedding has 2 components"):
        DiffusionMaps(2, inverse="linear").fit(X).inverse_transform(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="NaN"):
        DiffusionMaps(2, inverse="linear").fit(X).inverse_transform(np.full((4, 2), np.nan))


@methods
def test_there_is_no_way_back_before_a_fit(method):
    with pytest.raises(NotFittedError):
        clone(method).inverse_transform(np.zeros((2, 2)))


def test_float32_stays_float32_on_the_way_back():
    model = DiffusionMaps(2, inverse="kernel_ridge").fit(X.astype(np.float32))
    places = quietly(model.transform, Z.astype(np.float32))
    back = model.inverse_transform(places)
    assert places.dtype == back.dtype == np.float32
    wide = model.inverse_transform(places.astype(float))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(back, wide, atol=1e-5)


def test_a_refit_forgets_the_old_way_back():
    model = DiffusionMaps(2, inverse="kernel_ridge").fit(X)
    model.inverse_transform(model.embedding_)
    before = model.round_trip_error_
    moved = np.array(S[:, ::-1]) + 100
    model.fit(moved)
    assert model.inverse_transform(model.embedding_).min() > 90
    fresh = DiffusionMaps(2, inverse="kernel_ridge").fit(moved)
    assert model.round_trip_error_ == fresh.round_trip_error_ != before


@pytest.mark.parametrize("value", [1e300, np.finfo(float).max])
def test_the_largest_coordinates_go_back_to_finite_features(value):
    found = DiffusionMaps(2).fit(X).inverse_transform(np.array([[value, -value], [0.0, value]]))
    assert np.isfinite(found).all()


def test_two_rows_have_no_inverse_and_three_have_one():
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="no inverse transform of 2 distinct rows: .*Fit 3 rows or more"):
        ClassicalMDS(1).fit(rows[:2]).inverse_transform([[0.0]])
    assert np.isfinite(ClassicalMDS(1).fit(rows).inverse_transform([[0.0]])).all()


def test_a_model_that_embeds_all_rows_at_one_point_has_no_inverse():
    model = ClassicalMDS(2).fit(np.random.default_rng(0).normal(size=(30, 3)))
    model.model_ = replace(model.model_, basis=0 * model.model_.basis)
    with pytest.raises(ValueError, match="no inverse transform: .*at one point, or beyond floating"):
        model.inverse_transform([[0.0, 0.0]])
