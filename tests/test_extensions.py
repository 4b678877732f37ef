"""Extensions and the way back: against plain NumPy and scikit-learn, in every method, and how "auto" chooses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.distance import cdist
from sklearn import decomposition, kernel_ridge
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

import outfold
from catalogue import cloud, new_points, quietly
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
    crossfit,
    datasets,
    landmarks,
)
from outfold.bandwidths import Fixed
from outfold.distances import Metric
from outfold.exceptions import SpectrumWarning
from outfold.extensions import (
    Auto,
    Barycentric,
    CompressedDiffusion,
    GeometricHarmonics,
    KernelRidge,
    Known,
    LaplacianPyramid,
    LinearMap,
    Nystrom,
    Regressor,
)
from outfold.runners import Threads
from outfold.sources import InMemory

RUNNER = Threads(1)
X = cloud(0, rows=90)
Z = new_points(X, 0, 25)
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2], np.cos(X.sum(axis=1))])
MEASURE = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)


def fitted(spec, points=X, values=Y, measure=None, metric=None):
    """What the specification learns of the values."""
    return spec.fit(known_of(points, values, measure, metric), RUNNER)


def known_of(points=X, values=Y, measure=None, metric=None):
    return Known.of(points, values, np.ones(len(points)) if measure is None else measure, metric)


def learnt(spec, at=Z, **given):
    """The learnt function at some points."""
    return fitted(spec, **given).embed(at, RUNNER)


def gaussian(A, B, epsilon, metric="sqeuclidean"):
    return np.exp(-cdist(A, B, metric) / (2 * epsilon))


# -- kernel ridge --------------------------------------------------------------------------


def scikit_ridge(points, values, epsilon, ridge, at, weights=None):
    mean = np.average(values, axis=0, weights=weights)
    model = kernel_ridge.KernelRidge(kernel="rbf", gamma=1 / (2 * epsilon), alpha=ridge)
    return model.fit(points, values - mean, sample_weight=weights).predict(at) + mean


@pytest.mark.parametrize(("epsilon", "ridge"), [(0.5, 1e-3), (1.0, 1e-1), (0.1, 10.0)])
def test_kernel_ridge_is_scikit_learns_about_the_mean(epsilon, ridge):
    found = learnt(KernelRidge(epsilon, ridge))
    np.testing.assert_allclose(found, scikit_ridge(X, Y, epsilon, ridge, Z), rtol=0, atol=1e-8)


def test_a_measure_of_kernel_ridge_is_rows_repeated():
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    expected = scikit_ridge(X[copies], Y[copies], 0.5, 1e-2, Z)
    np.testing.assert_allclose(learnt(KernelRidge(0.5, 1e-2), measure=MEASURE), expected, rtol=0, atol=1e-8)
    repeated = learnt(KernelRidge(0.5, 1e-2), points=X[copies], values=Y[copies])
    np.testing.assert_allclose(repeated, expected, rtol=0, atol=1e-8)
    assert np.abs(learnt(KernelRidge(0.5, 1e-2)) - expected).max() > 1e-3  # and is not without effect


def test_kernel_ridge_of_few_centres_solves_the_normal_equations_over_all_points():
    epsilon, ridge, known = 0.7, 1e-2, known_of(measure=MEASURE)
    centres = X[known.centres(20)]
    assert centres.shape == (20, 3)
    mean = np.average(Y, axis=0, weights=MEASURE)
    B, K = gaussian(X, centres, epsilon), gaussian(centres, centres, epsilon)
    c = np.linalg.solve(B.T @ (MEASURE[:, None] * B) + ridge * K, B.T @ (MEASURE[:, None] * (Y - mean)))
    found = learnt(KernelRidge(epsilon, ridge, centres=20), measure=MEASURE)
    np.testing.assert_allclose(found, gaussian(Z, centres, epsilon) @ c + mean, rtol=0, atol=1e-8)


def test_the_metric_goes_into_the_kernel():
    """Squared Manhattan distances give no Mercer kernel: its positive part is taken."""
    epsilon, ridge = 0.8, 1e-2
    s, v = np.linalg.eigh(np.exp(-(cdist(X, X, "cityblock") ** 2) / (2 * epsilon)))
    assert s[0] < -0.1
    s, v = s[s > 1e-10], v[:, s > 1e-10]

    def expected(values, at):
        c = v @ ((v.T @ (values - values.mean(axis=0))) / (s + ridge)[:, None])
        return np.exp(-(cdist(at, X, "cityblock") ** 2) / (2 * epsilon)) @ c + values.mean(axis=0)

    found = learnt(KernelRidge(epsilon, ridge), metric=Metric("manhattan"))
    np.testing.assert_allclose(found, expected(Y, Z), rtol=0, atol=1e-8)
    model = DiffusionMaps(metric="manhattan", extension=KernelRidge(epsilon, ridge)).fit(X)
    np.testing.assert_allclose(quietly(model.transform, Z), expected(model.embedding_, Z), rtol=0, atol=1e-8)


def test_epsilon_auto_of_kernel_ridge_lies_between_neighbours_and_typical_pairs():
    table = cdist(X, X, "sqeuclidean")
    typical = np.median(table[~np.eye(len(X), dtype=bool)])
    near = np.median(np.sort(table, axis=1)[:, 8])  # the 8th neighbour: the 0th is the point itself
    epsilon = np.sqrt(near * typical)
    np.testing.assert_allclose(learnt(KernelRidge()), learnt(KernelRidge(epsilon)), rtol=0, atol=1e-9)


# -- geometric harmonics -------------------------------------------------------------------


@pytest.mark.parametrize("condition", [10.0, 1e3])
def test_geometric_harmonics_are_the_truncated_eigen_expansion(condition):
    s, v = np.linalg.eigh(gaussian(X, X, 0.5))
    kept = s >= s[-1] / condition
    assert 2 < kept.sum() < len(X)
    mean = Y.mean(axis=0)
    expected = gaussian(Z, X, 0.5) @ (v[:, kept] / s[kept]) @ (v[:, kept].T @ (Y - mean)) + mean
    np.testing.assert_allclose(learnt(GeometricHarmonics(0.5, condition)), expected, rtol=0, atol=1e-9)


def test_a_measure_of_geometric_harmonics_is_rows_repeated():
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    s, v = np.linalg.eigh(gaussian(X[copies], X[copies], 0.5))
    kept = s >= s[-1] / 100
    mean = Y[copies].mean(axis=0)
    expected = gaussian(Z, X[copies], 0.5) @ (v[:, kept] / s[kept]) @ (v[:, kept].T @ (Y[copies] - mean)) + mean
    found = learnt(GeometricHarmonics(0.5, 100.0), measure=MEASURE)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_larger_condition_leaves_less_on_the_training_points():
    left = [np.linalg.norm(learnt(GeometricHarmonics(0.5, c), at=X) - Y) for c in (1e1, 1e2, 1e3, 1e4)]
    assert np.all(np.diff(left) < 0)


@pytest.mark.parametrize("residual", [0.3, 1e-1, 1e-2])
def test_geometric_harmonics_widen_until_their_residual_or_the_scale_of_neighbours(residual):
    known = known_of()
    near, far = known.scales()
    model = GeometricHarmonics(residual=residual).fit(known, RUNNER)
    used = np.array([epsilon for epsilon, _ in model.levels])
    np.testing.assert_allclose(used, far / 4.0 ** np.arange(len(used)))
    part = np.linalg.norm(model.embed(X, RUNNER) - Y) / np.linalg.norm(Y - Y.mean(axis=0))
    assert part <= residual or used[-1] <= near
    assert np.all(used[:-1] > near)
    shorter = replace(model, levels=model.levels[:-1]).embed(X, RUNNER) if len(used) > 1 else None
    if shorter is not None:  # no level more than needed (the levels' means are those of what is left, and small)
        assert np.linalg.norm(shorter - Y) / np.linalg.norm(Y - Y.mean(axis=0)) > 0.9 * residual


def test_the_residual_is_over_the_measure():
    noise = Y.copy()
    noise[:5] += 100.0
    measure = np.ones(len(X))
    measure[:5] = 1e-12
    counted = GeometricHarmonics(residual=0.2).fit(known_of(values=noise), RUNNER)
    ignored = GeometricHarmonics(residual=0.2).fit(known_of(values=noise, measure=measure), RUNNER)
    assert len(ignored.levels) < len(counted.levels)


def test_geometric_harmonics_carry_a_smooth_function_to_new_points():
    S, _ = datasets.s_curve(300, random_state=0)
    smooth = np.column_stack([S[:, 0], np.sin(S[:, 2])])
    found = learnt(GeometricHarmonics(), at=S[200:], points=S[:200], values=smooth[:200])
    assert np.abs(found - smooth[200:]).mean() < 0.03 * smooth.std()


# -- Laplacian pyramid ---------------------------------------------------------------------


def pyramid(points, values, at, epsilon, measure, levels=12):
    """Plain NumPy: sigma halves, no point sees itself, stop when what is left grows."""
    table, far = cdist(points, points, "sqeuclidean"), cdist(at, points, "sqeuclidean")
    mean = measure @ values / measure.sum()
    left, out, error, used = values - mean, np.tile(mean, (len(at), 1)), np.inf, 0
    sigma = np.sqrt(epsilon)
    for _ in range(levels):
        W = np.exp(-table / (2 * sigma**2)) * measure
        np.fill_diagonal(W, 0.0)
        rest = left - (W / W.sum(axis=1, keepdims=True)) @ left
        now = measure @ (rest**2).sum(axis=1)
        if not now < error:
            break
        W = np.exp(-far / (2 * sigma**2)) * measure
        out += (W / W.sum(axis=1, keepdims=True)) @ left
        left, error, sigma, used = rest, now, sigma / 2, used + 1
    return out, used


@pytest.mark.parametrize("measure", [np.ones(len(X)), MEASURE], ids=["ones", "weights"])
def test_a_pyramid_is_that_of_plain_numpy(measure):
    expected, used = pyramid(X, Y, Z, 6.0, measure)
    model = fitted(LaplacianPyramid(6.0), measure=measure)
    assert len(model.levels) == used > 2
    np.testing.assert_allclose(model.embed(Z, RUNNER), expected, rtol=0, atol=1e-10)
    limited, _ = pyramid(X, Y, Z, 6.0, measure, levels=2)
    np.testing.assert_allclose(learnt(LaplacianPyramid(6.0, levels=2), measure=measure), limited, rtol=0, atol=1e-10)


def test_a_pyramid_stops_at_noise_and_goes_on_where_a_function_is_smooth():
    line = np.linspace(0, 1, 200)[:, None]
    noise = np.random.default_rng(0).normal(size=(200, 1))
    smooth = np.sin(9 * line)
    on_noise, on_smooth = (fitted(LaplacianPyramid(), points=line, values=v) for v in (noise, smooth))
    assert len(on_smooth.levels) >= len(on_noise.levels) + 2
    between = ((line[1:] + line[:-1]) / 2)[10:-10]  # at the ends all neighbours lie on one side
    assert np.abs(on_smooth.embed(between, RUNNER) - np.sin(9 * between)).max() < 0.05
    assert on_noise.embed(between, RUNNER).std() < 0.5 * noise.std()  # noise is not followed


@pytest.mark.parametrize("spec", [LaplacianPyramid(), CompressedDiffusion(), Barycentric(), LinearMap()], ids=str)
def test_constants_are_reproduced(spec):
    flat = np.tile([3.0, -1.5], (len(X), 1))
    far = np.vstack([Z, [[30.0, 30.0, 30.0]]])
    found = learnt(spec, at=far, values=flat, measure=MEASURE)
    np.testing.assert_allclose(found, np.tile([3.0, -1.5], (len(far), 1)), rtol=1e-9)


# -- barycentric, compressed diffusion, linear ---------------------------------------------


def test_barycentric_weights_reproduce_linear_functions_inside_a_simplex():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.2, 1.0], [9.0, 9.0], [9.0, 10.0]])
    slope = np.array([[2.0, -1.0], [0.5, 3.0]])
    inside = np.random.default_rng(0).dirichlet(np.ones(3), 20) @ corners[:3]
    found = learnt(Barycentric(3, reg=1e-10), at=inside, points=corners, values=corners @ slope + 4)
    np.testing.assert_allclose(found, inside @ slope + 4, atol=1e-7)
    ridged = learnt(Barycentric(3), at=inside, points=corners, values=corners @ slope + 4)
    assert 1e-7 < np.abs(ridged - (inside @ slope + 4)).max() < 0.05  # the ridge pulls weights together


def test_barycentric_weights_keep_training_values():
    np.testing.assert_allclose(learnt(Barycentric(7), at=X), Y, rtol=0, atol=1e-12)


def test_compressed_diffusion_is_two_markov_steps():
    places, epsilon = X[::6] + 0.01, 0.4
    there, back = gaussian(Z, places, epsilon), gaussian(places, X, epsilon) * MEASURE
    there, back = (P / P.sum(axis=1, keepdims=True) for P in (there, back))
    spec = CompressedDiffusion(landmarks.Points(places), epsilon)
    np.testing.assert_allclose(learnt(spec, measure=MEASURE), there @ back @ Y, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("choice", "count"),
    [(20, 20), (0.3, 27), (landmarks.FarthestPoint(20), 20), (landmarks.KMeans(20), 20), (X[:20], 20)],
    ids=["count", "fraction", "farthest points", "k-means", "points"],
)
def test_landmarks_of_compressed_diffusion_are_chosen_as_those_of_a_method(choice, count):
    model = DiffusionMaps(extension=CompressedDiffusion(choice)).fit(X)
    assert len(model.model_.extension.distances.anchors) == count
    assert "CompressedDiffusion(landmarks=" in model.report_.extension


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


# -- regressors ----------------------------------------------------------------------------


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


# -- names, objects and bad values ---------------------------------------------------------

NAMED = {
    "nystrom": Nystrom(),
    "geometric_harmonics": GeometricHarmonics(),
    "laplacian_pyramid": LaplacianPyramid(),
    "kernel_ridge": KernelRidge(),
    "barycentric": Barycentric(),
    "compressed_diffusion": CompressedDiffusion(),
    "linear": LinearMap(),
}


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

METHODS = {
    "DiffusionMaps": DiffusionMaps(2),
    "LaplacianEigenmaps": LaplacianEigenmaps(2),
    "SpectralClustering": SpectralClustering(3, random_state=0),
    "KernelPCA": KernelPCA(2, kernel="rbf", gamma="auto"),
    "ClassicalMDS": ClassicalMDS(2),
    "Isomap": Isomap(2, n_neighbors=8),
    "LocallyLinearEmbedding": LocallyLinearEmbedding(2, n_neighbors=8),
    "Roseland": Roseland(2, landmarks=0.5, random_state=0),
    "PHATE": PHATE(2, random_state=0),
}
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


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
    own = quietly(clone(method).fit, X)
    model = clone(method).set_params(extension="least_squares")
    if isinstance(method, LocallyLinearEmbedding | PHATE):
        with pytest.raises(ValueError, match="Use extension='nystrom'"):
            quietly(model.fit, X)
        return
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


# -- the choice ----------------------------------------------------------------------------

FEW = (Nystrom(), KernelRidge(), KernelRidge(0.05, 1e-1), Barycentric(8), LinearMap())


@pytest.fixture(scope="module")
def chosen():
    S, _ = datasets.s_curve(150, random_state=0)
    return S, DiffusionMaps(2, extension="auto").fit(S)


def test_the_table_is_sorted_and_its_first_row_is_used(chosen):
    S, model = chosen
    table = model.report_.candidates
    guarded = [np.log(row.error) + row.doubt / 2 for row in table]
    np.testing.assert_allclose(guarded, sorted(guarded), rtol=1e-12)
    assert [row.doubt for row in table if isinstance(row.extension, Nystrom)] == [0.0]
    assert max(row.doubt for row in table) > 0
    assert sum(isinstance(row.extension, Nystrom) for row in table) == 1
    best = table[0].extension
    assert model.report_.extension == ("nystrom" if isinstance(best, Nystrom) else str(best))
    new = datasets.s_curve(20, random_state=1)[0]
    alone = DiffusionMaps(2, extension=best).fit(S)
    np.testing.assert_array_equal(quietly(model.transform, new), quietly(alone.transform, new))
    assert str(table[0]) in str(model.report_)


def test_other_scales_than_that_of_the_eigenproblem_are_tried(chosen):
    S, model = chosen
    widths = {row.extension.epsilon for row in model.report_.candidates if isinstance(row.extension, KernelRidge)}
    assert len(widths) >= 3
    assert all(abs(width / model.epsilon_ - 1) > 1e-6 for width in widths)
    near, far = known_of(S, S).scales()
    np.testing.assert_allclose([min(widths), max(widths)], [near, far], rtol=1e-3)
    kinds = {type(row.extension) for row in model.report_.candidates}
    assert kinds == {type(spec) for spec in NAMED.values()}


def test_the_choice_is_the_same_bits_every_time(chosen):
    S, model = chosen
    again = DiffusionMaps(2, extension="auto", random_state=5).fit(S)
    assert again.report_.candidates == model.report_.candidates
    np.testing.assert_array_equal(again.transform(S), model.transform(S))


def test_only_the_candidates_asked_for_are_compared():
    regressor = KNeighborsRegressor(3)
    model = DiffusionMaps(extension=Auto(folds=2, candidates=("linear", Barycentric(6), regressor))).fit(X)
    found = [row.extension for row in model.report_.candidates]
    assert {type(spec) for spec in found} == {LinearMap, Barycentric, Regressor}
    assert not hasattr(regressor, "n_features_in_")
    other = DiffusionMaps(extension=Auto(folds=2, candidates=["linear"])).fit(X)
    assert other.report_.extension == "LinearMap()"


@pytest.mark.parametrize(
    "method",
    [DiffusionMaps(2, epsilon=0.4), DiffusionMaps(2), ClassicalMDS(2), LocallyLinearEmbedding(2, n_neighbors=8)],
    ids=["diffusion", "diffusion with a found epsilon", "mds", "lle"],
)
def test_the_errors_are_those_of_folds_fitted_anew(method):
    """By hand: fit the rest, align over the rest, look at the held-out rows."""
    model = quietly(clone(method).set_params(extension=Auto(folds=3, candidates=FEW)).fit, X)
    whole = model.embedding_
    spread = ((whole - whole.mean(axis=0)) ** 2).sum() / len(X)
    sample = crossfit.Sample(X, np.ones(len(X)), whole, False)
    recipe = crossfit.alone(method._recipe(), 2, model.report_.epsilon)
    squares, held = [], []
    for fold in crossfit.folds(sample, recipe, 3, RUNNER):
        rest = np.setdiff1d(np.arange(len(X)), fold.held)
        held += list(fold.held)
        squares.append([])
        for spec in FEW:
            part = clone(method).set_params(extension=spec)
            if isinstance(method, DiffusionMaps):
                part.set_params(epsilon=model.epsilon_)
            part = quietly(part.fit, X[rest])
            moving, fixed = part.embedding_, whole[rest]
            shrink = np.sqrt(len(rest) / len(X)) if isinstance(method, LocallyLinearEmbedding) else 1.0
            turn, _ = orthogonal_procrustes(moving - moving.mean(axis=0), fixed - fixed.mean(axis=0))
            places = quietly(part.transform, X[fold.held])
            moved = shrink * (places - moving.mean(axis=0)) @ turn + fixed.mean(axis=0)
            squares[-1].append(((moved - whole[fold.held]) ** 2).sum(axis=1).mean())
    assert sorted(held) == list(range(len(X)))  # every row once
    expected = np.exp(np.log(np.sqrt(np.array(squares) / spread)).mean(axis=0))
    found = {row.extension: row.error for row in model.report_.candidates}
    np.testing.assert_allclose([found[spec] for spec in FEW], expected, rtol=1e-6)


def test_a_given_matrix_leaves_no_choice():
    with pytest.warns(SpectrumWarning, match="'auto' had one choice, 'nystrom'"):
        model = DiffusionMaps(metric="precomputed", extension="auto").fit(cdist(X, X))
    assert model.report_.extension == "nystrom"
    assert model.report_.candidates == ()
    assert any("others learn from features" in text for text in model.report_.warnings)
    plain = DiffusionMaps(metric="precomputed").fit(cdist(X, X))
    np.testing.assert_array_equal(model.transform(cdist(Z, X)), plain.transform(cdist(Z, X)))


def test_parts_that_cannot_be_fitted_leave_nystrom_and_a_note():
    method = LocallyLinearEmbedding(2, n_neighbors=12, extension=Auto(folds=2, candidates=FEW))
    with pytest.warns(SpectrumWarning, match="could not fit parts of the data and stayed with 'nystrom'"):
        model = method.fit(X[:20])  # ten rows have no twelve neighbours
    assert model.report_.extension == "nystrom"


@pytest.mark.parametrize("extension", [Auto(folds=3, candidates=FEW), *FEW[1:], LaplacianPyramid(), "auto"], ids=str)
def test_weights_equal_repeats(extension):
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    weighted = quietly(DiffusionMaps(2, epsilon=1.0, extension=extension).fit, X, sample_weight=MEASURE)
    repeated = quietly(DiffusionMaps(2, epsilon=1.0, extension=extension).fit, X[copies])
    assert weighted.report_.extension == repeated.report_.extension
    found, expected = quietly(weighted.transform, Z), quietly(repeated.transform, Z)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    table = [{row.extension: row.error for row in m.report_.candidates} for m in (weighted, repeated)]
    assert table[0].keys() == table[1].keys()
    np.testing.assert_allclose([table[0][k] for k in table[0]], [table[1][k] for k in table[0]], rtol=1e-5)


def test_streamed_rows_are_sampled_and_judged_as_a_fit_of_the_sample():
    S, _ = datasets.s_curve(400, random_state=0)
    for epsilon in (0.2, "auto"):
        recipe = DiffusionMaps(2, epsilon=epsilon)._recipe()
        found = crossfit._engine.fit(InMemory(S), recipe, np.ones(400), np.random.default_rng(0), RUNNER)
        part, of_parts = crossfit.sampled(InMemory(S), recipe, found, 80, RUNNER)
        assert len(np.unique(part.X, axis=0)) == len(part.X) == 80
        alone = DiffusionMaps(2, epsilon=epsilon).fit(part.X)
        np.testing.assert_allclose(part.embedding, alone.embedding_, atol=1e-10)
        assert of_parts.view.kernel.rule == Fixed(alone.epsilon_)  # what suits many rows is too narrow for few
        whole, of_parts = crossfit.sampled(InMemory(S), recipe, found, 400, RUNNER)
        assert whole.embedding is found.embedding
        assert of_parts.view.kernel.rule == Fixed(found.report.epsilon)
    assert alone.epsilon_ > 2 * found.report.epsilon


# -- the way back --------------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("method", "most"),
    [(DiffusionMaps(5), 0.05), (LaplacianEigenmaps(5), 0.05), (Isomap(5, n_neighbors=10), 0.15)],
    ids=["diffusion maps", "laplacian eigenmaps", "isomap"],
)
def test_the_round_trip_is_short_and_its_error_is_what_new_points_see(method, most):
    model = clone(method).fit(S)
    assert model.round_trip_error_ < most
    back = model.inverse_transform(quietly(model.transform, HELD))
    spread = np.sqrt(((S - S.mean(axis=0)) ** 2).sum(axis=1).mean())
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
