"""Parameters of centred methods: what cannot be is refused with the numbers. An infinite epsilon of all methods."""

import contextlib
import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import cloud, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
    graphs,
    solvers,
)
from outfold.extensions import KernelRidge
from outfold.methods.spectral_base import AFFINITY_KERNELS

X = cloud(0, rows=120)


@pytest.mark.parametrize(
    ("method", "data", "message"),
    [
        (KernelPCA(kernel="gaussian"), X, "Valid: .*'rbf'.*'precomputed'"),
        (KernelPCA(kernel="rbf", gamma=-1), X, "gamma=-1 must be > 0"),
        (KernelPCA(kernel="poly", gamma="auto"), X, "gamma='auto' is chosen for kernel='rbf'"),
        (KernelPCA(kernel="rbf", gamma="best"), X, "Valid: 'auto'"),
        (KernelPCA(degree=0), X, "degree=0 must be > 0"),
        (KernelPCA(coef0="one"), X, "coef0='one' must be a number"),
        (KernelPCA(inverse=KernelRidge(ridge=0)), X, "inverse: ridge=0 must be > 0"),
        (KernelPCA(solver="lobpcg"), X, "Valid: 'auto', 'dense', 'lanczos', 'krylov'"),
        (KernelPCA(kernel=lambda x, y: x[0]), X, "not symmetric.*differ by up to"),
        (KernelPCA(kernel=lambda x, y: np.nan), X, "returned NaN"),
        (KernelPCA(kernel="precomputed"), X, r"square matrix.*\(120, 3\)"),
        (KernelPCA(kernel="precomputed"), np.triu(np.ones((5, 5))), "symmetric"),
        (KernelPCA(kernel="poly"), X * 1e120, "overflows"),
        (KernelPCA(4), X, "only 3 non-trivial eigenvalues"),
        (KernelPCA(kernel="precomputed"), -X @ X.T, "only 0 non-trivial eigenvalues"),
        (ClassicalMDS(metric="precomputed"), np.zeros((9, 9)), "only 0 non-trivial eigenvalues"),
        (ClassicalMDS("auto", metric="precomputed"), np.zeros((20, 20)), "no non-zero eigenvalue"),
        (Isomap("auto", metric="precomputed"), np.zeros((20, 20)), "All training points are equal"),
        (DiffusionMaps(metric="precomputed"), np.zeros((20, 20)), "All training points are equal"),
        (LaplacianEigenmaps(kernel="variable", metric="precomputed"), np.zeros((20, 20)), "All training points"),
        (KernelPCA(kernel="chi2"), X, "negative"),
        (ClassicalMDS(signed="yes"), X, "signed='yes' must be True or False"),
        (ClassicalMDS(metric="euclid"), X, "Valid: .*'euclidean'"),
        (ClassicalMDS(metric=lambda x, y: abs(x[0] - 2 * y[0])), X, "metric is not symmetric.*differ by up to"),
        (ClassicalMDS(metric=lambda x, y: 1.0), X, "distance of 1 from itself"),
        (ClassicalMDS(metric="precomputed"), X, r"square matrix.*\(120, 3\)"),
        (ClassicalMDS(metric="precomputed", landmarks=cdist(X, X)[:5]), cdist(X, X), "pass a count or a fraction"),
        (ClassicalMDS(4), X, "only 3 non-trivial eigenvalues"),
        (Isomap(n_neighbors=0), X, "n_neighbors=0 must be a whole number >= 1"),
        (Isomap(n_neighbors=120), X, "n_neighbors=120 must be smaller than the number of points, n = 120"),
        (Isomap(n_neighbors=graphs.Threshold(0.1)), X, r"Union\(k\), Mutual\(k\) or Ball\(radius\)"),
        (Isomap(n_neighbors=graphs.Mutual(1)), X, "n_neighbors=1 must be a whole number >= 2"),
        (Isomap(n_neighbors=graphs.Mutual(121)), X, r"n_neighbors=Mutual\(121\) must be smaller.*n = 120"),
        (Isomap(n_neighbors=graphs.Mutual(5, local=3)), X, "in units of neighbour 3"),
        (Isomap(n_neighbors=graphs.Ball(-1.0)), X, "radius=-1.0 must be > 0"),
        (Isomap(components="split"), X, "Valid: 'warn', 'error', 'largest', 'join'"),
        (Isomap(metric=lambda x, y: abs(x[0] - 2 * y[0])), X, "metric is not symmetric"),
        (Isomap(metric="precomputed"), X, r"square matrix.*\(120, 3\)"),
        (Isomap(metric="precomputed", landmarks=cdist(X, X)[:5]), cdist(X, X), "pass a count or a fraction"),
        (LocallyLinearEmbedding(n_neighbors=2), X, "n_neighbors=2 must be larger than n_components=2"),
        (LocallyLinearEmbedding(n_neighbors=120), X, "n_neighbors=120 must be smaller.*distinct points, n = 120"),
        (LocallyLinearEmbedding(reg=0), X, "reg=0 must be > 0"),
        (LocallyLinearEmbedding(components="join"), X, "Valid: 'warn', 'error', 'largest'"),
        (LocallyLinearEmbedding(solver="lobpcg"), X, "Valid: 'auto', 'dense', 'shift_invert', 'lanczos'"),
        (LocallyLinearEmbedding(n_neighbors=6), np.repeat(X[:5], 10, axis=0), "distinct points, n = 5"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:40],
)
def test_what_cannot_be_is_refused_with_the_numbers(method, data, message):
    with pytest.raises(ValueError, match=message):
        method.fit(data)


RULES = (None, "auto", 8, graphs.Union(8), graphs.Mutual(12), graphs.Ball(1.5), graphs.Threshold(0.1))
SOLVERS = ("auto", "dense", "lanczos", "shift_invert", "lobpcg", solvers.LowRank())


def rbf(x, y):
    return float(np.exp(-((x - y) ** 2).sum()))


@pytest.mark.parametrize("method", [DiffusionMaps, LaplacianEigenmaps, SpectralClustering, Roseland])
@pytest.mark.parametrize("kernel", [*AFFINITY_KERNELS, rbf], ids=lambda kernel: getattr(kernel, "__name__", kernel))
def test_an_infinite_epsilon_is_the_binary_graph_or_refused_in_words(method, kernel):
    table = np.exp(-cdist(X, X))
    for rule, marks, solver in itertools.product(RULES, (None, 60), SOLVERS):
        if method is Roseland:
            estimator = Roseland(epsilon=np.inf, kernel=kernel, n_neighbors=rule, landmarks=marks or "auto")
        else:
            estimator = method(epsilon=np.inf, kernel=kernel, n_neighbors=rule, landmarks=marks, solver=solver)
        with contextlib.suppress(ValueError):
            quietly(estimator.fit, table if kernel == "precomputed" else X)
            assert np.isfinite(estimator.embedding_).all()
            assert estimator.epsilon_ == np.inf
