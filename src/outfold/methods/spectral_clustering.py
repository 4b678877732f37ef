"""Spectral clustering."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from .._runtime.typing import Array, Data, Interval, Weights
from ..engine.fit import Fit, Recipe
from .declaration import estimator
from .laplacian_eigenmaps import LaplacianEigenmaps

if TYPE_CHECKING:

    class ClusterMixin:
        """The mixin of scikit-learn, which has no types."""

else:
    from sklearn.base import ClusterMixin


@estimator
class SpectralClustering(ClusterMixin, LaplacianEigenmaps):
    """Spectral clustering with a ``predict``: k-means on Laplacian eigenmaps.

    Parameters
    ----------
    n_clusters : int
    normalize_rows : bool
        Ng, Jordan and Weiss: scale each row of (1, psi_1, ..., psi_{N-1}) to length 1 first.
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

    n_components: ClassVar[int]  # type: ignore[misc]  # no parameter: it follows from the number of clusters
    n_clusters: Annotated[int, Interval(1)] = field(default=8, kw_only=False)
    normalize_rows: bool = False

    _stored: ClassVar[dict[str, str]] = {"cluster_centers_": "clusters", "labels_": "[r]; optional; whole; rows"}

    def _recipe(self) -> Recipe:
        return replace(super()._recipe(), clip_to_rank=True, clusters=int(self.n_clusters))

    def _component_choice(self) -> int:
        return max(1, int(self.n_clusters) - 1)

    def _adopt(self, found: Fit, dtype: np.dtype[Any]) -> None:
        super()._adopt(found, dtype)
        self.__dict__.pop("labels_", None)
        if found.embedding is not None:
            features, measure = self._features(found.embedding), found.measure
        else:  # the rows are not in memory: k-means runs on the landmarks
            features = self._features(found.model.embed(found.anchors.points, self._runner()))
            measure = found.anchors.measure
        start = _greedy_centres(features, measure, self.n_clusters)
        means = KMeans(self.n_clusters, init=start, n_init=1, tol=1e-8, max_iter=1000, algorithm="lloyd")
        means.fit(features, sample_weight=measure)
        self.cluster_centers_ = means.cluster_centers_
        if found.embedding is not None:
            self.labels_ = self._clusters(found.embedding)

    def fit_predict(self, X: Data, y: object = None, sample_weight: Weights = None) -> Array:
        """Fit, and return ``labels_``, or ``predict(X)`` if the rows are not in memory."""
        self.fit(X, y, sample_weight=sample_weight)
        return self.labels_ if "labels_" in self.__dict__ else self.predict(X)

    def predict(self, X: Data) -> Array:
        """Return the cluster of any points: the nearest centre in the embedding."""
        check_is_fitted(self)
        if (there := self._collection(X)) is not None:
            lazy: Array = there.transform(self, X, label=True)
            return lazy
        return self._clusters(np.asarray(super().transform(X), dtype=float))

    def _clusters(self, embedding: Array) -> Array:
        nearest: Array = pairwise_distances_argmin(self._features(embedding), self.cluster_centers_)
        return nearest

    def _features(self, embedding: Array) -> Array:
        if not self.normalize_rows:
            return np.asarray(embedding, dtype=float)
        rows = np.column_stack([np.ones(len(embedding)), embedding])
        units: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return units


def _greedy_centres(features: Array, measure: Array, count: int) -> Array:
    """Return starting centres for k-means, (count, columns): each the candidate that lowers the cost most.

    Nothing is random. The candidates are all distinct rows or, of many, rows at even steps of mass along the first
    coordinate, so weights count as repeats. If there are many rows, the cost is a sum over rows chosen in the same way.
    """
    if len(features) <= 4000:
        features, measure = _merge_equal(features, measure)
    order = np.lexsort(features.T[::-1])
    mass = np.cumsum(measure[order])

    def evenly(most: int) -> Array:
        size = min(most, len(order))
        chosen: Array = order[np.searchsorted(mass, (np.arange(size) + 0.5) / size * mass[-1])]
        return chosen

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


def _merge_equal(features: Array, measure: Array) -> tuple[Array, Array]:
    """Return the rows that differ by more than rounding, and the mass of each; rows without mass are left out."""
    size = np.abs(features).max(initial=np.finfo(float).tiny)
    _, first, member = np.unique(np.round(features / size, 9), axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(member.ravel(), weights=measure)
    return features[first[mass > 0]], mass[mass > 0]
