"""How far a point is from the anchors: squared distances, by twin verbs.

``gram()`` speaks of the anchors among themselves, ``cross(Z)`` of new points. Both compute every
entry from its own pair alone (differences first, then squares), so a row does not depend on the
rows around it and small distances are right however far the data lies from the origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from . import _softmax
from .elementwise import LARGE
from .runners import Threads, row_blocks

Array = NDArray[Any]

FEW_FEATURES = 8  # up to here distances are quickest one by one
LARGEST = 1e150  # entry whose square is finite

_ALIASES = {"l1": "cityblock", "manhattan": "cityblock", "l2": "euclidean"}
_SCIPY = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "dice", "euclidean",
    "hamming", "jaccard", "mahalanobis", "minkowski", "rogerstanimoto", "russellrao", "seuclidean",
    "sokalsneath", "sqeuclidean", "yule",
)  # fmt: skip
_SKLEARN = ("haversine", "nan_euclidean")
METRICS = (*sorted((*_SCIPY, *_SKLEARN, *(a for a in _ALIASES))), "precomputed")


def bounded(Z: Array) -> Array:
    """Rows with entries no larger than ``LARGEST``, so that their squares do not overflow in a search."""
    return np.clip(Z, -LARGEST, LARGEST)


@dataclass(frozen=True)
class Metric:
    """A distance by scikit-learn's name for it, with its parameters, or a callable of two rows.

    >>> import numpy as np
    >>> points = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> float(Metric("euclidean").fit(points).cross(points[:1])[0, 1])
    25.0
    """

    name: str | Callable[[Array, Array], float] = "euclidean"
    params: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> Metric:
        """A metric as it is, or by name or callable; one that is not known is refused with those that are."""
        if isinstance(value, Metric):
            return value
        names = METRICS[:-1]
        if not callable(value) and not (isinstance(value, str) and value in names):
            raise ValueError(f"metric={value!r} is not known. Valid: {', '.join(map(repr, names))}, or a callable.")
        return cls(value)

    def fit(self, X: Array) -> Distances:
        """Fix the anchors, and what the metric needs to know about the data (variances, covariance)."""
        name = _ALIASES.get(self.name, self.name) if isinstance(self.name, str) else self.name
        params = dict(self.params)
        if name == "seuclidean" and "V" not in params:
            params["V"] = np.maximum(np.var(X, axis=0, ddof=1), np.finfo(float).tiny)
        if name == "mahalanobis" and "VI" not in params:
            params["VI"] = np.linalg.pinv(np.atleast_2d(np.cov(X.T)))
        if callable(name):
            _check_symmetric(name, X)
        return Distances(X, name, params)


def _check_symmetric(metric: Callable[[Array, Array], float], X: Array) -> None:
    """Ask a callable about some pairs, both ways round."""
    some = X[np.linspace(0, len(X) - 1, min(len(X), 24)).astype(int)]
    table = cdist(some, some, metric)
    if not (table >= 0).all():  # told where distances are taken
        return
    worst = np.abs(table - table.T).max()
    if worst > 1e-8 * np.abs(table).max():
        raise ValueError(
            f"The metric is not symmetric: d(x, y) and d(y, x) differ by up to {worst:.3g}, where distances reach "
            f"{np.abs(table).max():.3g}. Pass their mean, if that is what you mean."
        )
    if np.abs(np.diagonal(table)).max() > 1e-8 * np.abs(table).max():
        raise ValueError(
            f"The metric gives a point a distance of {np.diagonal(table).max():.3g} from itself; it must be 0. Is it a "
            "kernel? Then pass it as kernel=."
        )


@dataclass(frozen=True)
class Distances:
    """Squared distances to ``anchors``."""

    anchors: Array
    name: str | Callable[[Array, Array], float] = "euclidean"
    params: dict[str, Any] = field(default_factory=dict)

    def among(self, rows: Array) -> Distances:
        """To some of the anchors only."""
        return replace(self, anchors=self.anchors[rows])

    def between(self, rows: Array, columns: Array) -> Array:
        """Squared distances between some anchors and others."""
        return self.among(columns).cross(self.anchors[rows])

    def gram(self, runner: Threads) -> Array:
        """Squared distances between all anchors, (n, n)."""
        n = len(self.anchors)
        out = np.empty((n, n))

        def fill(block: slice) -> None:
            out[block] = self.cross(self.anchors[block])

        runner.each(fill, row_blocks(n, n), "distances")
        return out

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        """Squared distances from each row of Z to the anchors, (len(Z), n), right to ``slack`` if BLAS is to help."""
        if self.name == "euclidean":
            if Z.shape[1] <= FEW_FEATURES:
                return self._directly(Z)
            return self._nearly(Z, slack) if slack else cdist(Z, self.anchors, "sqeuclidean")
        distances = self._plain(Z)
        if np.isnan(distances).any() or (distances < 0).any():
            rows = np.flatnonzero((np.isnan(distances) | (distances < 0)).any(axis=1))
            raise ValueError(
                f"metric={self.name!r} returned NaN or a negative value for {len(rows)} of {len(Z)} rows "
                f"(the first is row {rows[0]} of this block). A distance must be a number >= 0."
            )
        with np.errstate(over="ignore"):  # infinitely far: the row rule takes the nearest anchor
            return np.square(distances, out=distances)

    @cached_property
    def _by_feature(self) -> Array:
        return np.ascontiguousarray(self.anchors.T, dtype=float)

    def _directly(self, Z: Array) -> Array:
        if len(Z) * len(self.anchors) < LARGE:
            return cdist(Z, self.anchors, "sqeuclidean")
        out = np.empty((len(Z), len(self.anchors)))
        _softmax.squared_table(np.ascontiguousarray(Z, dtype=float), self._by_feature, out)
        return out

    @cached_property
    def _moved(self) -> tuple[Array, Array, float]:
        """The mean, and columns (y, 1, |y|^2) about it."""
        centre = self.anchors.mean(axis=0)
        moved = self.anchors - centre
        norms = np.einsum("ij,ij->i", moved, moved)
        return centre, np.vstack([moved.T, np.ones(len(norms)), norms]), float(norms.max())

    def by_product(self, Z: Array) -> tuple[Array, Array]:
        """|x|^2 + |y|^2 - 2 x.y about the mean, as one product (Euclidean), and the size of each row's rounding."""
        centre, columns, largest = self._moved
        moved = Z - centre
        own = np.einsum("ij,ij->i", moved, moved)
        table = np.column_stack([-2 * moved, own, np.ones(len(own))]) @ columns
        return table, np.finfo(float).eps * (own + largest)

    def _nearly(self, Z: Array, slack: float) -> Array:
        """By a product where that is right to ``slack``; a distance near zero may be as far below it."""
        table, rounding = self.by_product(Z)
        exact = np.flatnonzero(~(4 * rounding <= slack))
        if len(exact):
            table[exact] = cdist(Z[exact], self.anchors, "sqeuclidean")
        return table

    def nearest(self, Z: Array) -> Array:
        """Index of the nearest anchor of each row, safe where squares would overflow."""
        if self.name != "euclidean":
            return self._plain(Z).argmin(axis=1)
        scale = max(float(np.abs(self.anchors).max()), np.finfo(float).tiny)
        reach = np.abs(Z).max(axis=1)
        far = reach > 1e7 * scale  # from there only the direction tells: squares lose the anchors in their rounding
        index = np.empty(len(Z), dtype=np.intp)
        index[~far] = cdist(Z[~far] / scale, self.anchors / scale, "sqeuclidean").argmin(axis=1)
        index[far] = ((Z[far] / reach[far, None]) @ (self.anchors / scale).T).argmax(axis=1)
        return index

    def _plain(self, Z: Array) -> Array:
        if self.name == "nan_euclidean":
            return np.array([self._over_shared_features(z) for z in Z])
        if self.name == "haversine":
            from sklearn.metrics.pairwise import haversine_distances

            return haversine_distances(Z, self.anchors)
        distances = cdist(Z, self.anchors, self.name, **self.params)
        if self.name in ("cosine", "correlation"):
            # 1 - cos of a row with itself is rounding of either sign; 4 ulp is zero
            distances[np.abs(distances) < 1e-15] = 0.0
        return distances

    def _over_shared_features(self, z: Array) -> Array:
        """Distances over the features both rows have, scaled up for those they do not (NaN if none)."""
        difference = self.anchors - z
        shared = (~np.isnan(difference)).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(np.nansum(difference**2, axis=1) * (len(z) / shared))


@dataclass(frozen=True)
class Given:
    """Precomputed values: what the caller passes *is* the row (distances are squared here)."""

    anchors: Array  # indices of the training columns
    squares: bool = True
    picks: bool = False  # rows hold more columns than the anchors'

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        return np.square(Z, dtype=float) if self.squares else np.array(Z, dtype=float)

    def nearest(self, Z: Array) -> Array:
        values = np.asarray(Z)[:, self.anchors] if self.picks else np.asarray(Z)
        return values.argmin(axis=1) if self.squares else values.argmax(axis=1)


@dataclass(frozen=True)
class GivenTable:
    """Precomputed distances between the nodes of a graph; a point is its row of distances to them."""

    anchors: Array  # (n, n)
    name: str = "given"

    def among(self, rows: Array) -> Given:
        """To some of the nodes only, picked from a row of all."""
        return Given(rows, picks=True)

    def between(self, rows: Array, columns: Array) -> Array:
        return np.square(self.anchors[np.ix_(rows, columns)])

    def cross(self, Z: Array) -> Array:
        return np.square(Z, dtype=float)
