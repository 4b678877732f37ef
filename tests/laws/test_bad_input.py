"""Bad input: a clear error that names the numbers, before anything large is allocated."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from catalogue import ALL_METHODS, NETWORKS, cloud, quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, SpectralClustering

methods = pytest.mark.parametrize("estimator", ALL_METHODS.values(), ids=ALL_METHODS.keys())
X = cloud(0, rows=60)


@methods
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.empty((0, 3)), "0 sample"),
        (np.empty((5, 0)), "0 feature"),
        (np.arange(5.0), "1D array"),
        (np.where(np.arange(60)[:, None] == 7, np.nan, X), "NaN"),
        (np.where(np.arange(60)[:, None] == 7, np.inf, X), "infinity"),
        (np.array([["a", "b"], ["c", "d"]]), "convert string"),
        (X + 1j, "[Cc]omplex"),
        (X[:1], "1 sample"),
        (np.ones((20, 3)), "equal"),
    ],
    ids=["empty", "no features", "1-D", "nan", "inf", "strings", "complex", "one row", "all equal"],
)
def test_data(estimator, bad, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(bad)


@pytest.mark.parametrize("estimator", NETWORKS.values(), ids=NETWORKS.keys())
def test_networks_refuse_sparse_features_and_say_why(estimator):
    with pytest.raises(TypeError, match=r"sparse matrices: the weights of a network are dense.*TruncatedSVD"):
        clone(estimator).fit(csr_matrix(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 60}, r"n_components=60 .* n = 60"),
        ({"n_components": [3, 75]}, r"n_components=\(3, 75\) .* n = 60"),
        ({"n_components": 0}, "n_components=0 must be a whole number >= 1"),
        ({"n_components": 2.5}, "n_components=2.5 must be a whole number"),
        ({"n_components": True}, "n_components=True must be a whole number"),
        ({"n_components": [1, 1]}, "distinct"),
        ({"n_components": [0, 1]}, "n_components index=0"),
        ({"n_components": "many"}, "pass a count"),
        ({"epsilon": 0}, "epsilon=0 must be > 0"),
        ({"epsilon": -1.0}, "epsilon=-1.0 must be > 0"),
        ({"epsilon": float("nan")}, "epsilon=nan must be > 0"),
        ({"epsilon": "best"}, "Valid: 'auto', 'median', 'neighbor', 'slope', 'percentile', 'cut_off'"),
        ({"epsilon": None}, "epsilon=None must be a number"),
        ({"alpha": 1.5}, "alpha=1.5 must be >= 0 and <= 1"),
        ({"alpha": -0.1}, "alpha=-0.1 must be >= 0 and <= 1"),
        ({"alpha": "one"}, "alpha='one' must be a number"),
        ({"t": -1}, "t=-1 must be >= 0"),
        ({"t": float("nan")}, "t=nan"),
        (
            {"kernel": "rbf"},
            "Valid: 'auto', 'adaptive', 'variable', 'gaussian', 'cosine', 'self_tuning', .*, 'precomputed'",
        ),
        ({"metric": "euclid"}, "Valid: .*'cosine'.*'euclidean'.*'precomputed'"),
        ({"solver": "magic"}, "Valid: 'auto', 'dense', 'lanczos', 'filtered', 'shift_invert', 'lobpcg'"),
        ({"landmarks": "all"}, "landmarks='all' is not known"),
        ({"landmarks": 61}, r"landmarks=61 .*\(60\)"),
        ({"landmarks": 1}, "landmarks=1 must be a whole number >= 2"),
        ({"landmarks": 1.5}, "landmarks=1.5 must be > 0 and <= 1"),
        ({"landmarks": np.zeros((5, 2))}, r"shape \(5, 2\), but the data has 3 features"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"n_jobs": "two"}, "n_jobs='two'"),
    ],
    ids=str,
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        DiffusionMaps(**parameters).fit(X)


def test_other_methods_parameters():
    with pytest.raises(ValueError, match="Valid: 'random_walk', 'unnormalized'"):
        LaplacianEigenmaps(laplacian="symmetric").fit(X)
    with pytest.raises(ValueError, match="n_clusters=0"):
        SpectralClustering(0).fit(X)
    with pytest.raises(ValueError, match="n = 60"):
        SpectralClustering(61).fit(X)


@methods
def test_nothing_large_is_allocated_for_a_bad_call(estimator):
    rows = 3000
    big = np.random.default_rng(0).normal(size=(rows, 3))
    asked = "n_clusters" if isinstance(estimator, SpectralClustering) else "n_components"
    bad = clone(estimator).set_params(**{asked: rows + 1})
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"n = {rows}"):
        bad.fit(big)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows * rows  # bytes: an eighth of the smallest n x n array


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(59)], "smallest given is -1"),
        (np.zeros(60), "zero for all but 0 of 60"),
        (np.r_[1.0, np.zeros(59)], "zero for all but 1 of 60"),
        (np.full(60, np.nan), "finite"),
        (np.ones(59), "59 entries for 60 rows"),
        (np.ones((60, 2)), "1D"),
    ],
    ids=["negative", "all zero", "one positive", "nan", "short", "2-D"],
)
@methods
def test_weights(estimator, weights, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(X, sample_weight=weights)


@methods
def test_not_fitted_wrong_features_and_bad_rows(estimator):
    model = clone(estimator)
    for call in (model.transform, model.trust, getattr(model, "predict", model.transform)):
        with pytest.raises(NotFittedError):
            call(X)
    quietly(model.fit, X)
    with pytest.raises(ValueError, match=r"X has 2 features, but \w+ is expecting 3 features"):
        model.transform(X[:, :2])
    spoiled = X[:5].copy()
    spoiled[2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.transform(spoiled)
    with pytest.raises(ValueError, match="0 sample"):
        model.transform(X[:0])


@pytest.mark.parametrize(
    ("parameters", "matrix", "message"),
    [
        ({"metric": "precomputed"}, np.ones((4, 3)), r"square matrix.*\(4, 3\)"),
        ({"metric": "precomputed"}, -np.ones((4, 4)), "Negative values"),
        ({"metric": "precomputed"}, np.triu(np.ones((4, 4)), 1), "symmetric"),
        ({"metric": "precomputed"}, np.eye(4), "kernel='precomputed'"),
        ({"kernel": "precomputed"}, -np.eye(4), "Negative values"),
        ({"kernel": "precomputed"}, np.zeros((4, 4)), "The graph has no edges"),
        ({"kernel": lambda x, y: np.nan}, X, "returned NaN"),
        ({"kernel": lambda x, y: -1.0}, X, "smallest given is -1"),
        ({"kernel": lambda x, y: x[0] + 10}, X, "not symmetric"),
        (
            {"kernel": lambda x, y: np.nan if (x == y).all() else 1.0},
            X,
            r"NaN or infinity for \d+ of \d+ pairs.*Try it",
        ),
        ({"metric": lambda x, y: np.nan}, X, "returned NaN or a negative value"),
        ({"metric": lambda x, y: -1.0}, X, "returned NaN or a negative value"),
    ],
)
def test_precomputed_and_callables(parameters, matrix, message):
    with pytest.raises(ValueError, match=message):
        DiffusionMaps(**parameters).fit(matrix)


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
def test_rows_of_a_precomputed_matrix_must_match_it(kernel):
    from scipy.spatial.distance import cdist

    maps = DiffusionMaps(metric="precomputed", kernel=kernel).fit(cdist(X, X))
    with pytest.raises(ValueError, match=r"59 features.*expecting 60"):
        maps.transform(np.ones((2, 59)))
    with pytest.raises(ValueError, match="Negative values"):
        maps.transform(-np.ones((2, 60)))
    with pytest.raises(ValueError, match="pass a count or a fraction"):
        DiffusionMaps(metric="precomputed", kernel=kernel, landmarks=np.ones((4, 60))).fit(cdist(X, X))


def test_beyond_the_rank_is_refused_with_the_rank():
    few = np.repeat(cloud(1, rows=4), 10, axis=0)
    with pytest.raises(ValueError, match="only 3 non-trivial eigenvalues"):
        DiffusionMaps(4, epsilon=1.0).fit(few)


def test_fractional_time_with_negative_eigenvalues_is_refused():
    path = np.eye(6) * 0.01 + np.eye(6, k=1) + np.eye(6, k=-1)
    with pytest.raises(ValueError, match=r"t=0\.5 is a fraction.*negative"):
        DiffusionMaps(5, kernel="precomputed", t=0.5).fit(path)
    maps = quietly(DiffusionMaps(5, kernel="precomputed", t=3).fit, path)
    assert (maps.eigenvalues_ < 0).any()
    assert maps.report_.negative_mass > 0


def test_data_too_wide_for_squares_is_told_to_rescale():
    with pytest.raises(ValueError, match="overflow.*Rescale"):
        DiffusionMaps().fit(X * 1e160)


def test_a_dense_kernel_that_cannot_fit_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setattr("outfold._runtime.memory.free_memory", lambda: 1e6)
    with pytest.raises(
        MemoryError, match=r"n = 400 points needs about 0\.00282 GB, and 0\.001 GB are free.*n_neighbors=32.*landmarks"
    ):
        DiffusionMaps(n_neighbors=None).fit(np.random.default_rng(0).normal(size=(400, 3)))
