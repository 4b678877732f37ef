"""Points, values and methods to try extensions on."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import kernel_ridge

from catalogue import cloud, new_points
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
from outfold._runtime.threads import Threads
from outfold.extensions import (
    Barycentric,
    CompressedDiffusion,
    GeometricHarmonics,
    KernelRidge,
    LaplacianPyramid,
    LinearMap,
    Nystrom,
)
from outfold.extensions.samples import Samples

RUNNER = Threads(1)
X = cloud(0, rows=90)
Z = new_points(X, 0, 25)
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2], np.cos(X.sum(axis=1))])
MEASURE = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)


def fitted(spec, points=X, values=Y, measure=None, metric=None):
    """What the specification learns of the values."""
    return spec.fit(known_of(points, values, measure, metric), RUNNER)


def known_of(points=X, values=Y, measure=None, metric=None):
    return Samples.of(points, values, np.ones(len(points)) if measure is None else measure, metric)


def learnt(spec, at=Z, **given):
    """The learnt function at some points."""
    return fitted(spec, **given).embed(at, RUNNER)


def gaussian(A, B, epsilon, metric="sqeuclidean"):
    return np.exp(-cdist(A, B, metric) / (2 * epsilon))


def scikit_ridge(points, values, epsilon, ridge, at, weights=None):
    mean = np.average(values, axis=0, weights=weights)
    model = kernel_ridge.KernelRidge(kernel="rbf", gamma=1 / (2 * epsilon), alpha=ridge)
    return model.fit(points, values - mean, sample_weight=weights).predict(at) + mean


NAMED = {
    "nystrom": Nystrom(),
    "geometric_harmonics": GeometricHarmonics(),
    "laplacian_pyramid": LaplacianPyramid(),
    "kernel_ridge": KernelRidge(),
    "barycentric": Barycentric(),
    "compressed_diffusion": CompressedDiffusion(),
    "linear": LinearMap(),
}

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
FEW = (Nystrom(), KernelRidge(), KernelRidge(0.05, 1e-1), Barycentric(8), LinearMap())
