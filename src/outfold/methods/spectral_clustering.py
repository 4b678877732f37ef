"""Spectral clustering."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from .._runtime.threads import openmp_after_fork
from .._runtime.typing import FLAG, Array, Data, Interval, Weights
from ..engine.fit import CLUSTERS, Fit, Recipe
from .declaration import estimator
from .laplacian_eigenmaps import LaplacianEigenmaps

if TYPE_CHECKING:

    class ClusterMixin:
        """The mixin of scikit-learn, which has no types."""

else:
    from sklearn.base import ClusterMixin

STARTS = 30  # of k-means: scikit-learn's own clustering makes 10
STARTED_ON = 4000  # rows at most, on which the starts are compared


@estimator
class SpectralClustering(ClusterMixin, LaplacianEigenmaps):
    """Spectral clustering with a ``predict``: k-means on Laplacian eigenmaps.

    ``labels_`` are the clusters of the training rows, ``predict`` of the same rows, ``n_clusters_`` is their number.

    Parameters
    ----------
    n_clusters : int or "auto"
        "auto": 2 to 20, by the last clear gap of the spectrum. ``report_.clusters`` has the gap with its standard
        error and other numbers that come near; a fit warns if no gap is clear.
    normalize_rows : bool
        Ng, Jordan and Weiss: scale each row of (1, psi_1, ..., psi_{N-1}) to length 1 first.
    random_state : int, RandomState or None
        Seeds the choice of landmarks; k-means always makes the same 30 starts.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.05, random_state=0)
    >>> clusters = SpectralClustering(2, random_state=0).fit(X)
    >>> bool(clusters.predict([[0.0, 1.0]])[0] == clusters.predict([[-1.0, 0.0]])[0])
    True
    >>> SpectralClustering("auto").fit(X).n_clusters_
    2
    """

    n_components: ClassVar[int]  # type: ignore[misc]  # no parameter: it follows from the number of clusters
    n_clusters: Annotated[int | Literal["auto"], Interval(1)] = field(default=8, kw_only=False)
    normalize_rows: Annotated[bool, FLAG] = False

    _stored: ClassVar[dict[str, str]] = {"cluster_centers_": "clusters", "labels_": "[r]; optional; whole; rows"}

    def _recipe(self) -> Recipe:
        return replace(super()._recipe(), clip_to_rank=True, clusters=self.n_clusters)

    def _component_choice(self) -> int | str:
        return CLUSTERS if self.n_clusters == "auto" else max(1, self.n_clusters - 1)

    @property
    def n_clusters_(self) -> int:
        """The number of clusters."""
        check_is_fitted(self)
        return len(self.cluster_centers_)

    def _adopt(self, found: Fit, dtype: np.dtype[Any]) -> None:
        super()._adopt(found, dtype)
        self.__dict__.pop("labels_", None)
        if found.embedding is not None:
            features, measure = self._features(found.embedding), found.measure
        else:  # the rows are not in memory: k-means runs on the landmarks
            features = self._features(found.model.embed(found.anchors.points, self._runner()))
            measure = found.anchors.measure
        counted = found.report.clusters
        count = int(self.n_clusters) if counted is None else counted.chosen
        self.cluster_centers_ = _find_centres(features, measure, count)
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
        with openmp_after_fork():
            nearest: Array = pairwise_distances_argmin(self._features(embedding), self.cluster_centers_)
        return nearest

    def _features(self, embedding: Array) -> Array:
        if not self.normalize_rows:
            return np.asarray(embedding, dtype=float)
        rows = np.column_stack([np.ones(len(embedding)), embedding])
        units: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return units


def _find_centres(features: Array, measure: Array, count: int) -> Array:
    """Return the centres of k-means, (count, columns).

    The best of ``STARTS`` starts (k-means++) on the distinct rows or, of many, on rows at even steps of mass, in an
    order that depends on the rows alone, so weights count as repeats; then Lloyd's algorithm on all rows.
    """
    some, mass = _merge_equal(features, measure) if len(features) <= STARTED_ON else _even_rows(features, measure)
    with openmp_after_fork():
        if len(some) > count:
            start = KMeans(count, n_init=STARTS, random_state=0).fit(some, sample_weight=mass).cluster_centers_
        else:  # copies: some clusters stay empty
            start = some[np.arange(count) % len(some)]
        means = KMeans(count, init=start, n_init=1, tol=1e-8, max_iter=1000)
        centres: Array = means.fit(features, sample_weight=measure).cluster_centers_
    return centres


def _even_rows(features: Array, measure: Array) -> tuple[Array, Array]:
    """Return ``STARTED_ON`` rows at even steps of mass along the first coordinate; each has mass 1."""
    order = np.lexsort(features.T[::-1])
    steps = (np.arange(STARTED_ON) + 0.5) / STARTED_ON
    mass = np.cumsum(measure[order])
    return features[order[np.searchsorted(mass, steps * mass[-1])]], np.ones(STARTED_ON)


def _merge_equal(features: Array, measure: Array) -> tuple[Array, Array]:
    """Return the rows that differ by more than rounding, and the mass of each; rows without mass are left out."""
    size = np.abs(features).max(initial=np.finfo(float).tiny)
    _, first, member = np.unique(np.round(features / size, 9), axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(member.ravel(), weights=measure)
    return features[first[mass > 0]], mass[mass > 0]
