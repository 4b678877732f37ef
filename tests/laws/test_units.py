"""Units are free: data, distances, affinities and kernels in any unit give the same embedding, or are refused."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.neighbors import kneighbors_graph

from catalogue import ALL_METHODS, cloud, quietly
from outfold import (
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
)
from outfold.exceptions import SpectrumWarning

X, Z = cloud(3, rows=60), 0.9 * cloud(3, rows=60)[:7]
DISTANCES, AFFINITIES = cdist(X, X), np.exp(-(cdist(X, X) ** 2) / 2)

OF_FEATURES = [  # whose parameters are free of units
    DiffusionMaps(2),
    DiffusionMaps(2, kernel="gaussian"),
    DiffusionMaps(2, epsilon="median"),
    DiffusionMaps(2, kernel="self_tuning"),
    DiffusionMaps(2, kernel="variable", t=0),
    LaplacianEigenmaps(2),
    LaplacianEigenmaps(2, kernel="continuous_knn"),
    LaplacianEigenmaps(2, laplacian="unnormalized"),
    KernelPCA(2),
    KernelPCA(2, kernel="rbf", gamma="auto"),
    KernelPCA(2, kernel="cosine"),
    ClassicalMDS(2),
    Isomap(2),
    LocallyLinearEmbedding(2),
    Roseland(2, random_state=0),
    Roseland(2, kernel="gaussian", random_state=0),
    PHATE(2, random_state=0),
    SpectralClustering(2, random_state=0),
    DiffusionMaps(2, extension="kernel_ridge"),
    DiffusionMaps(2, extension="geometric_harmonics"),
]
OF_DISTANCES = [
    DiffusionMaps(2, metric="precomputed"),
    Isomap(2, metric="precomputed"),
    ClassicalMDS(2, metric="precomputed"),
    PHATE(2, metric="precomputed", random_state=0),
    Roseland(2, metric="precomputed", random_state=0),
]
SOLVERS = ["auto", "dense", "lanczos", "lobpcg", "shift_invert", "filtered"]


def relative(model, values):
    return values / np.abs(model.embedding_).max()


def assert_unit_is_free(estimator, rows, new, factor):
    """The factor is a power of 2: scaling is exact, so only rounding at other places of a sum may differ."""
    plain = quietly(clone(estimator).fit, rows)
    scaled = quietly(clone(estimator).fit, rows * factor)
    np.testing.assert_allclose(relative(scaled, scaled.embedding_), relative(plain, plain.embedding_), atol=1e-9)
    found, wanted = (quietly(m.transform, new * s) for m, s in ((scaled, factor), (plain, 1.0)))
    np.testing.assert_allclose(relative(scaled, found), relative(plain, wanted), atol=1e-9)


@pytest.mark.parametrize("estimator", OF_FEATURES, ids=str)
@pytest.mark.parametrize("power", [-420, -100, 100, 490])
def test_of_features(estimator, power):
    if getattr(estimator, "kernel", "") == "variable":  # whose eigenvalues are rates, in units of 1 / length^2
        power = int(np.clip(power, -200, 200))
    assert_unit_is_free(estimator, X, Z, 2.0**power)


@pytest.mark.parametrize("estimator", OF_DISTANCES, ids=str)
@pytest.mark.parametrize("power", [-420, -100, 100, 490])
def test_of_given_distances(estimator, power):
    assert_unit_is_free(estimator, DISTANCES, 1.1 * DISTANCES[:7], 2.0**power)


@pytest.mark.parametrize("laplacian", ["random_walk", "unnormalized"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("power", [-330, -60, 60, 330])
def test_of_given_affinities_whatever_the_solver(laplacian, solver, power):
    graph = kneighbors_graph(cloud(1, rows=300), 10, mode="distance")
    graph = csr_array(graph.maximum(graph.T))
    graph.data = np.exp(-(graph.data**2))
    estimator = LaplacianEigenmaps(2, kernel="precomputed", laplacian=laplacian, solver=solver)
    plain, scaled = quietly(clone(estimator).fit, graph), quietly(clone(estimator).fit, graph * 2.0**power)
    unit = 2.0**power if laplacian == "unnormalized" else 1.0
    np.testing.assert_allclose(scaled.eigenvalues_, plain.eigenvalues_ * unit, rtol=1e-6)
    assert scaled.report_.residual < 1e-2
    assert scaled.report_.solver == plain.report_.solver


@pytest.mark.parametrize("power", [-330, 330])
@pytest.mark.parametrize(
    "estimator", [DiffusionMaps(2), Roseland(2, random_state=0), KernelPCA(2), SpectralClustering(2)], ids=str
)
def test_of_given_dense_affinities(estimator, power):
    assert_unit_is_free(clone(estimator).set_params(kernel="precomputed"), AFFINITIES, AFFINITIES[:7], 2.0**power)


# -- what cannot be computed is refused, with the number -------------------------------------


@pytest.mark.parametrize("name", ALL_METHODS)
@pytest.mark.parametrize("scale", [1e-155, 1e-162, 1e-300, 1e155, 1e200, 1e300])
def test_features_whose_squares_are_no_numbers(name, scale):
    with pytest.raises(ValueError, match="Squared distances (under|over)flow: the data .*e[-+][0-9]+.*Rescale"):
        quietly(clone(ALL_METHODS[name]).fit, X * scale)


@pytest.mark.parametrize("name", ALL_METHODS)
def test_rows_that_are_copies_to_rounding(name):
    """Half of the rows at 1e-162 are copies of one point; with clusters of copies some methods have no coordinates."""
    rows = X.copy()
    rows[::2] *= 1e-162
    try:
        model = quietly(clone(ALL_METHODS[name]).fit, rows)
    except ValueError as error:
        if "distinct" not in str(error):
            raise
        return
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(quietly(model.transform, Z)).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e160, 1e300])
@pytest.mark.parametrize("estimator", OF_DISTANCES, ids=str)
def test_distances_whose_squares_are_no_numbers(estimator, scale):
    with pytest.raises(ValueError, match=r"largest value of the precomputed matrix is .*Divide the matrix"):
        quietly(clone(estimator).fit, DISTANCES * scale)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_affinities_whose_products_are_no_numbers(scale):
    for estimator in (DiffusionMaps(2), Roseland(2), KernelPCA(2), LaplacianEigenmaps(2)):
        with pytest.raises(ValueError, match=r"largest value of the precomputed matrix is .*Divide the matrix"):
            quietly(clone(estimator).set_params(kernel="precomputed").fit, AFFINITIES * scale)


# -- numbers that are far from the data's ----------------------------------------------------

WIDTHS = [
    DiffusionMaps(2),
    DiffusionMaps(2, n_neighbors=5),
    DiffusionMaps(2, kernel="gaussian"),
    DiffusionMaps(2, kernel="gaussian", n_neighbors=5),
    DiffusionMaps(2, kernel="self_tuning"),
    DiffusionMaps(2, coordinates="canonical"),
    LaplacianEigenmaps(2, laplacian="unnormalized", n_neighbors=5),
    Roseland(2, random_state=0),
    Roseland(2, n_neighbors=5, random_state=0),
    Roseland(2, kernel="gaussian", random_state=0),
    DiffusionMaps(2, extension="kernel_ridge"),
]
EXTREMES = [1e-320, 1e-300, 1e-200, 1e-20, 1e20, 1e200, 1e300, 1.7e308]


@pytest.mark.parametrize("epsilon", EXTREMES)
@pytest.mark.parametrize("estimator", WIDTHS, ids=str)
def test_any_width_gives_numbers_or_a_sentence(estimator, epsilon):
    try:
        model = quietly(clone(estimator).set_params(epsilon=epsilon).fit, X)
    except ValueError as error:
        if "epsilon" not in str(error):
            raise
        return
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(quietly(model.transform, Z)).all()


@pytest.mark.parametrize("estimator", [DiffusionMaps(2), Roseland(2, random_state=0)], ids=str)
def test_a_time_after_which_nothing_is_left_is_said(estimator):
    with pytest.warns(SpectrumWarning, match="the walk has forgotten where it began. Lower t, to about"):
        clone(estimator).set_params(t=1e5).fit(X)


@pytest.mark.parametrize("reg", [1e-300, 1e-20, 1e-12])
@pytest.mark.parametrize("features", [3, 20])
def test_a_ridge_below_rounding(reg, features):
    """With more neighbours than features the Gram matrix is singular: the ridge is at least its rounding."""
    rows = np.random.default_rng(0).normal(size=(80, features))
    model = quietly(LocallyLinearEmbedding(2, n_neighbors=12, reg=reg).fit, rows)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(quietly(model.transform, 0.9 * rows[:5])).all()
    if features == 3:
        assert any("zero up to rounding" in text for text in model.report_.warnings)
