"""A transformer that removes rows with few neighbours."""
# mypy: allow-subclassing-any

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import neighbors
from .._runtime.ownership import freeze, own
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data
from ..data.inputs import read_rows
from ..distances import LARGEST_ENTRY, Metric, MetricLike
from ..methods import parameters
from ..methods.rows import validate_rows


@dataclass(eq=False, repr=False)
class RemoveOutliers(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Leave out the rows with fewer than ``min_neighbors`` training rows within ``radius``.

    ``transform`` applies the same rule to training rows and to new rows. A row does not count as its own neighbour;
    copies of it do. ``mask(X)`` says which rows stay, for other arrays with the same rows as X.

    Parameters
    ----------
    min_neighbors : int
        How many neighbours a row needs.
    radius : float or "auto"
        How near they must be; "auto" is three times the median distance to the ``min_neighbors``-th
        neighbour.
    metric : name, callable or Metric

    Attributes
    ----------
    radius_ : float
    mask_ : array of shape (n_samples,)
        True for the training rows that stay.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.vstack([np.random.default_rng(0).uniform(size=(50, 2)), [[9.0, 0.0]]])
    >>> RemoveOutliers().fit_transform(X).shape
    (50, 2)
    """

    min_neighbors: int = 3
    _: KW_ONLY
    radius: float | str = "auto"
    metric: MetricLike = "euclidean"

    def fit(self, X: Data, y: object = None) -> Self:
        """Choose the radius and store the training rows."""
        parameters.refuse_class("metric", self.metric)
        needed = parameters.count("min_neighbors", self.min_neighbors)
        rows = np.asarray(validate_rows(self, X, reset=True, least=2, sparse=False), dtype=float)
        if needed >= len(rows):
            raise ValueError(
                f"min_neighbors={needed} must be smaller than the number of rows, n = {len(rows)}. Lower it."
            )
        self.search_ = neighbors.build(Metric.of(self.metric).fit(own(rows)), "auto")
        if isinstance(self.radius, str):
            parameters.one_of("radius", self.radius, ("auto",))
            self.radius_ = 3 * self._typical(rows, needed)
        else:
            self.radius_ = parameters.number("radius", self.radius, low=0.0, high=LARGEST_ENTRY, open_low=True)
        self.mask_ = self._count(rows) - 1 >= needed
        freeze(self)
        return self

    def fit_transform(self, X: Data, y: object = None) -> Array:
        """Fit, and return the training rows that stay."""
        return np.asarray(validate_rows(self.fit(X), X, reset=False, sparse=False), dtype=float)[self.mask_]

    def mask(self, X: Data) -> Array:
        """Return True for each row with enough training rows within the radius (a row is not its own neighbour)."""
        check_is_fitted(self)
        rows = np.asarray(validate_rows(self, X, reset=False, sparse=False), dtype=float)
        lists = self.search_.closest(rows, 1, Threads())
        itself = lists.squared[lists.ptr[:-1]] == 0
        return np.asarray(self._count(rows) - itself >= self.min_neighbors)

    def transform(self, X: Data) -> Array:
        """Return the rows that stay."""
        kept = self.mask(X)
        return np.asarray(read_rows(X), dtype=float)[kept]

    def _count(self, X: Array) -> Array:
        lists = self.search_.within(X, np.full(len(X), self.radius_), None, Threads())
        near = lists.select(lists.squared <= self.radius_**2)
        return np.diff(near.ptr)

    def _typical(self, X: Array, k: int) -> float:
        lists = self.search_.closest(X, k + 1, Threads())
        radius = float(np.sqrt(np.median(lists.squared[np.minimum(lists.ptr[:-1] + k, lists.ptr[1:] - 1)])))
        return radius if radius > 0 else float(np.sqrt(lists.squared.max()))
