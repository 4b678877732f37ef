"""Spectral clustering."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from .._runtime.typing import Array
from ..engine.fit import Recipe
from . import parameters
from .affinity_recipe import affinity_recipe
from .laplacian_eigenmaps import LaplacianEigenmaps


class SpectralClustering(ClusterMixin, LaplacianEigenmaps):
    """Spectral clustering with a ``predict``: k-means on Laplacian eigenmaps.

    Parameters
    ----------
    n_clusters : int
    normalize_rows : bool
        Ng, Jordan and Weiss: scale each row of (1, psi_1, ..., psi_{N-1}) to length 1 first.
    epsilon, laplacian, kernel, n_neighbors, threshold, metric, landmarks, components, extension, inverse :
        As in :class:`LaplacianEigenmaps`.
    solver, n_jobs, verbose :
        As in :class:`LaplacianEigenmaps`.
    random_state : int, RandomState or None
        Seeds the choice of landmarks; k-means starts from centres chosen greedily, not at random.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.05, random_state=0)
    >>> clusters = SpectralClustering(2, random_state=0).fit(X)
    >>> bool(clusters.predict([[0.0, 1.0]])[0] == clusters.predict([[-1.0, 0.0]])[0])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        normalize_rows: bool = False,
        epsilon: Any = "auto",
        laplacian: str = "random_walk",
        kernel: Any = "gaussian",
        n_neighbors: Any = "auto",
        threshold: float | None = None,
        metric: Any = "euclidean",
        landmarks: Any = None,
        components: str = "warn",
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.normalize_rows = normalize_rows
        self.epsilon = epsilon
        self.laplacian = laplacian
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.threshold = threshold
        self.metric = metric
        self.landmarks = landmarks
        self.components = components
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        clusters = parameters.count("n_clusters", self.n_clusters)
        recipe = affinity_recipe(self, max(1, clusters - 1), parameters.laplacian(self.laplacian))
        return replace(recipe, clip_to_rank=True)

    def _adopt(self, found: Any, dtype: Any) -> None:
        super()._adopt(found, dtype)
        self.__dict__.pop("labels_", None)
        here = found.embedding is not None  # in memory; else k-means runs on the landmarks
        features = self._features(found.embedding if here else found.model.embed(found.anchors.points, self._runner()))
        measure = found.measure if here else found.anchors.measure
        start = _greedy_centres(features, measure, self.n_clusters)
        means = KMeans(self.n_clusters, init=start, n_init=1, tol=1e-8, max_iter=1000, algorithm="lloyd")
        means.fit(features, sample_weight=measure)
        self.cluster_centers_ = means.cluster_centers_
        if here:
            self.labels_ = self._clusters(found.embedding)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and return ``labels_``, or ``predict(X)`` if the rows are not in memory."""
        self.fit(X, y, sample_weight=sample_weight)
        return self.labels_ if "labels_" in self.__dict__ else self.predict(X)

    def predict(self, X: Any) -> Array:
        """Return the cluster of any points: the nearest centre in the embedding."""
        check_is_fitted(self)
        if (there := self._collection(X)) is not None:
            return there.transform(self, X, label=True)
        return self._clusters(np.asarray(super().transform(X), dtype=float))

    def _clusters(self, embedding: Array) -> Array:
        return pairwise_distances_argmin(self._features(embedding), self.cluster_centers_)

    def _features(self, embedding: Array) -> Array:
        if not self.normalize_rows:
            return np.asarray(embedding, dtype=float)
        rows = np.column_stack([np.ones(len(embedding)), embedding])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _greedy_centres(features: Array, measure: Array, count: int) -> Array:
    """Return starting centres for k-means, (count, columns): each the candidate that lowers the cost most.

    Nothing is random. The candidates are rows at even steps of mass along the first coordinate, so weights count as
    repeats. If there are many rows, the cost is a sum over rows chosen in the same way.
    """
    order = np.lexsort(features.T[::-1])
    mass = np.cumsum(measure[order])

    def evenly(most: int) -> Array:
        size = min(most, len(order))
        return order[np.searchsorted(mass, (np.arange(size) + 0.5) / size * mass[-1])]

    pool = features[evenly(1000)]
    if len(features) > 4000:
        features, measure = features[evenly(4000)], np.ones(4000)
    squared = cdist(pool, features, "sqeuclidean")
    cost = np.full(len(features), np.inf)
    chosen = []
    for _ in range(count):
        best = int((np.minimum(squared, cost) @ measure).argmin())
        cost = np.minimum(cost, squared[best])
        chosen.append(pool[best])
    return np.array(chosen)
