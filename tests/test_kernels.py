"""Kernels, and conversions between conventions."""

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel

from catalogue import cloud
from outfold import DiffusionMaps, bandwidths, kernels
from outfold.graphs.pair_statistics import DenseStatistics

X = cloud(0, rows=40)


def test_conversions_agree_with_the_other_conventions():
    ours = kernels.GaussianKernel(bandwidths.Bandwidth(kernels.epsilon_from_gamma(0.7), "")).affinity
    squared = pairwise_distances(X, squared=False) ** 2
    np.testing.assert_allclose(ours(squared), rbf_kernel(X, gamma=0.7), atol=1e-12)
    assert kernels.epsilon_from_sigma(3.0) == 9.0
    assert kernels.epsilon_from_plain(3.0) == 1.5


def test_a_specification_is_not_changed_by_a_fit():
    spec = kernels.Gaussian(bandwidths.Fixed(2.0))
    before = repr(spec)
    fitted = spec.fit(DenseStatistics(distances=None, squared=np.zeros((2, 2)), measure=np.ones(2)))
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
