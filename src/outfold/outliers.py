"""Rows that stand alone, and a transformer that leaves them out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _resolve, neighbors
from .distances import Metric
from .runners import Threads
from .sources import here

Array = NDArray[Any]


class RemoveOutliers(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Leave out the rows with fewer than ``min_neighbors`` training rows within ``radius``.

    ``transform`` of the training rows or of others keeps a row by the same rule; a row does not count as its own
    neighbour, copies of it do. ``mask(X)`` tells which rows are kept, for arrays that go along with X.

    Parameters
    ----------
    min_neighbors : int
        How many neighbours a row needs.
    radius : float or "auto"
        How near they must be; "auto" is three times the median distance to the ``min_neighbors``-th.
    metric : name, callable or Metric

    Attributes
    ----------
    radius_ : float
    mask_ : array of shape (n_samples,)
        Which training rows are kept.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.vstack([np.random.default_rng(0).uniform(size=(50, 2)), [[9.0, 0.0]]])
    >>> RemoveOutliers().fit_transform(X).shape
    (50, 2)
    """

    def __init__(self, min_neighbors: int = 3, *, radius: Any = "auto", metric: Any = "euclidean") -> None:
        self.min_neighbors = min_neighbors
        self.radius = radius
        self.metric = metric

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the radius and remember the rows."""
        needed = _resolve.count("min_neighbors", self.min_neighbors)
        X = validate_data(self, here(X), dtype=float, ensure_min_samples=2)
        if needed >= len(X):
            raise ValueError(f"min_neighbors={needed} must be smaller than the number of rows, n = {len(X)}. Lower it.")
        self.search_ = neighbors.build(Metric.of(self.metric).fit(X), "auto")
        if isinstance(self.radius, str):
            _resolve.one_of("radius", self.radius, ("auto",))
            self.radius_ = 3 * self._typical(X, needed)
        else:
            self.radius_ = _resolve.number("radius", self.radius, low=0.0, open_low=True)
        self.mask_ = self._count(X) - 1 >= needed
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit and return the training rows that are kept."""
        return np.asarray(validate_data(self.fit(X), X, reset=False, dtype=float))[self.mask_]

    def mask(self, X: Any) -> Array:
        """Which rows have enough training rows within the radius (a training row is not its own neighbour)."""
        check_is_fitted(self)
        X = validate_data(self, here(X), reset=False, dtype=float)
        lists = self.search_.closest(X, 1, Threads())
        itself = lists.squared[lists.ptr[:-1]] == 0
        return self._count(X) - itself >= self.min_neighbors

    def transform(self, X: Any) -> Array:
        """The rows that are kept."""
        kept = self.mask(X)
        return np.asarray(X, dtype=float)[kept]

    def _count(self, X: Array) -> Array:
        lists = self.search_.within(X, np.full(len(X), self.radius_), None, Threads())
        near = lists.kept(lists.squared <= self.radius_**2)
        return np.diff(near.ptr)

    def _typical(self, X: Array, k: int) -> float:
        lists = self.search_.closest(X, k + 1, Threads())
        radius = float(np.sqrt(np.median(lists.squared[np.minimum(lists.ptr[:-1] + k, lists.ptr[1:] - 1)])))
        return radius if radius > 0 else float(np.sqrt(lists.squared.max()))
