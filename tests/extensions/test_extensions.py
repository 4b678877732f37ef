"""Extensions in every method: names, values, and what stays spectral."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import outfold
from catalogue import quietly
from functions import MEASURE, METHODS, NAMED, RUNNER, X, Z, known_of, learnt, methods
from outfold import PHATE, DiffusionMaps, LocallyLinearEmbedding
from outfold.extensions import (
    Auto,
    Barycentric,
    CompressedDiffusion,
    GeometricHarmonics,
    KernelRidge,
    LaplacianPyramid,
    LinearMap,
    Nystrom,
)


@pytest.mark.parametrize("spec", [LaplacianPyramid(), CompressedDiffusion(), Barycentric(), LinearMap()], ids=str)
def test_constants_are_reproduced(spec):
    flat = np.tile([3.0, -1.5], (len(X), 1))
    far = np.vstack([Z, [[30.0, 30.0, 30.0]]])
    found = learnt(spec, at=far, values=flat, measure=MEASURE)
    np.testing.assert_allclose(found, np.tile([3.0, -1.5], (len(far), 1)), rtol=1e-9)


# -- names, objects and bad values ---------------------------------------------------------


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_the_object_with_its_defaults(name):
    by_name, by_object = (DiffusionMaps(extension=e).fit(X) for e in (name, NAMED[name]))
    np.testing.assert_array_equal(by_name.transform(X), by_object.transform(X))
    assert by_name.report_.extension == ("nystrom" if name == "nystrom" else str(NAMED[name]))


CHOICES = "'nystrom', 'least_squares', 'geometric_harmonics', 'laplacian_pyramid', 'kernel_ridge'"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"extension": KernelRidge(ridge=0)}, "extension: ridge=0 must be > 0"),
        ({"extension": LinearMap(ridge=-1)}, "extension: ridge=-1 must be > 0"),
        ({"extension": KernelRidge(centres=1)}, "extension: centres=1 must be"),
        ({"extension": KernelRidge(epsilon="x")}, "extension: epsilon='x' is not known. Valid: 'auto'"),
        ({"extension": GeometricHarmonics(epsilon=0)}, "extension: epsilon=0 must be > 0"),
        ({"extension": GeometricHarmonics(condition=0)}, "extension: condition=0 must be > 0"),
        ({"extension": LaplacianPyramid(levels=0)}, "extension: levels=0 must be"),
        ({"extension": Barycentric(0)}, "extension: n_neighbors=0 must be"),
        ({"extension": CompressedDiffusion("many")}, "extension: landmarks='many' is not known. Valid: 'auto'"),
        ({"extension": CompressedDiffusion(1)}, "landmarks=1 must be"),
        ({"extension": Auto(folds=1)}, "extension: folds=1 must be"),
        ({"extension": Auto(candidates=(KernelRidge(ridge=0),))}, "extension: candidates: ridge=0 must be > 0"),
        ({"extension": Auto(candidates=("spline",))}, "extension: candidates='spline' is not known. Valid: 'nystrom'"),
        ({"extension": Auto(candidates=("auto",))}, "extension: candidates='auto' is not known"),
        ({"extension": Auto(candidates=KernelRidge())}, "extension: candidates=.* must be a tuple"),
        ({"extension": "spline"}, f"extension='spline' is not known. Valid: {CHOICES}"),
        ({"extension": KernelRidge}, f"extension=<class .* is not known. Pass one of {CHOICES}.* or a regressor"),
        ({"extension": Ridge}, "extension=<class .* is not known"),
        ({"extension": 3}, "extension=3 is not known"),
        ({"inverse": "spline"}, "inverse='spline' is not known. Valid: 'geometric_harmonics'"),
        ({"inverse": "nystrom"}, "inverse='nystrom' is not known"),
        ({"inverse": Nystrom()}, r"inverse=Nystrom\(\) is not known"),
        ({"inverse": Auto(candidates=(Nystrom(),))}, r"inverse: candidates=Nystrom\(\) is not known"),
        ({"inverse": KernelRidge(ridge=0)}, "inverse: ridge=0 must be > 0"),
    ],
    ids=repr,
)
def test_bad_values_name_the_parameter_and_the_choices(parameters, message):
    with pytest.raises(ValueError, match=message):
        DiffusionMaps(**parameters).fit(X)


@pytest.mark.parametrize("extension", ["kernel_ridge", KernelRidge(), KNeighborsRegressor()], ids=repr)
def test_a_given_matrix_has_no_features_to_learn_from(extension):
    with pytest.raises(ValueError, match="extension=.* learns from features, and metric='precomputed' has none"):
        DiffusionMaps(metric="precomputed", extension=extension).fit(cdist(X, X))


@pytest.mark.parametrize("name", ["barycentric", "compressed_diffusion", "linear"])
def test_missing_values_are_named_where_features_are_combined(name):
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match=f"'{name}' combines features, and 1 of 90 points have NaN"):
        quietly(DiffusionMaps(metric="nan_euclidean", extension=name).fit, holes)
    model = quietly(DiffusionMaps(metric="nan_euclidean", extension="kernel_ridge").fit, holes)
    assert np.isfinite(quietly(model.transform, holes)).all()
    with pytest.raises(ValueError, match="1 of 90 points to learn the way back from have NaN"):
        model.inverse_transform(np.zeros((1, 2)))


# -- every method --------------------------------------------------------------------------


def test_no_method_is_forgotten():
    networks = {"DiffusionNet", "GRAE"}  # extensions themselves
    assert set(METHODS) == set(outfold.methods.__all__) - networks


@methods
@pytest.mark.parametrize("name", [n for n in NAMED if n != "nystrom"])
def test_every_method_takes_every_extension_and_keeps_its_spectral_embedding(method, name):
    own = quietly(clone(method).fit, X)
    model = quietly(clone(method).set_params(extension=name).fit, X)
    np.testing.assert_array_equal(model.embedding_, own.embedding_)
    np.testing.assert_array_equal(model.eigenvalues_, own.eigenvalues_)
    assert model.report_.extension == str(NAMED[name])
    found = quietly(model.transform, Z)
    assert found.shape == (len(Z), model.embedding_.shape[1])
    assert np.isfinite(found).all()
    assert np.abs(found - quietly(own.transform, Z)).max() > 0  # it is another function
    worst = np.abs(quietly(model.transform, model.landmarks_) - own.embedding_[own.landmark_indices_]).max()
    np.testing.assert_allclose(model.report_.extension_gap, worst, rtol=1e-6, atol=1e-10)


@methods
def test_least_squares_is_nystroms_formula_or_says_that_there_is_none(method):
    kernels = ("adaptive", "gaussian") if getattr(method, "kernel", "") == "auto" else (None,)
    for kernel in kernels:
        options = {} if kernel is None else {"kernel": kernel}
        own = quietly(clone(method).set_params(**options).fit, X)
        model = clone(method).set_params(extension="least_squares", **options)
        if isinstance(method, LocallyLinearEmbedding | PHATE):
            with pytest.raises(ValueError, match="Use extension='nystrom'"):
                quietly(model.fit, X)
            continue
        np.testing.assert_array_equal(quietly(model.fit, X).transform(X), own.transform(X))


@pytest.mark.parametrize("method", ["DiffusionMaps", "KernelPCA", "ClassicalMDS", "Isomap", "LocallyLinearEmbedding"])
def test_rows_that_are_no_landmarks_follow_the_extension(method):
    model = clone(METHODS[method]).set_params(landmarks=0.7, random_state=0)
    own = quietly(clone(model).fit, X)
    model = quietly(model.set_params(extension="kernel_ridge").fit, X)
    at = model.landmark_indices_
    others = np.setdiff1d(np.arange(len(X)), at)
    np.testing.assert_array_equal(model.embedding_[at], own.embedding_[at])  # spectral
    np.testing.assert_allclose(model.embedding_[others], quietly(model.transform, X)[others], rtol=0, atol=1e-12)
    assert np.abs(model.embedding_[others] - own.embedding_[others]).max() > 1e-6
    known = known_of(X[at], own.embedding_[at])
    expected = KernelRidge().fit(known, RUNNER).embed(X[others], RUNNER)
    np.testing.assert_allclose(model.embedding_[others], expected, rtol=0, atol=1e-10)
