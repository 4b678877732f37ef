"""Squared distances of points to the anchors, by any metric.

``gram()`` returns those between the anchors, ``cross(Z)`` those of new points to the anchors. Both compute every
entry from its own pair alone (differences first, then squares), so a row does not depend on the
rows around it and small distances are right however far the data lies from the origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from scipy.spatial.distance import cdist

from ._loops import csr, exponentials, selection, sparse_pairs
from ._loops.elementwise import COMPILED_FROM
from ._runtime.ownership import own
from ._runtime.threads import Threads, row_blocks
from ._runtime.typing import NAN, SPARSE_ROWS, WHOLE, Array, Axes
from .data.sparse_rows import SparseRows, clip_rows, largest_entries, squared_lengths

DIRECT_FEATURES_UP_TO = 8  # features up to which a loop over pairs is quickest
LARGEST_ENTRY = 1e150  # entries up to this size have finite squares
LEAST_SPREAD = 1e-130  # data that spread this far have squares of neighbours' distances with all digits
LEAST_ENTRY = 1e-150  # entries below it are 0: rounding hides them, and their squares are 0 or have few digits

_ALIASES = {"l1": "cityblock", "manhattan": "cityblock", "l2": "euclidean"}
_SCIPY = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "dice", "euclidean",
    "hamming", "jaccard", "mahalanobis", "minkowski", "rogerstanimoto", "russellrao", "seuclidean",
    "sokalsneath", "sqeuclidean", "yule",
)  # fmt: skip
_SKLEARN = ("haversine", "nan_euclidean")
SPARSE_METRICS = ("euclidean", "sqeuclidean", "cityblock", "cosine")  # that have loops over sparse rows
PRODUCT_SECONDS, SELECTION_SECONDS = 1.2e-9, 1.5e-9  # for a product of two stored entries, and for a pair of rows
CANCELLED = 1e-2  # |x - y|^2 relative to |x|^2 + |y|^2, below which it is computed from differences
WITHOUT_DIRECTION = {"cosine": "only zeros", "correlation": "one value only"}  # metrics of angles: which rows have none
METRIC_PARAMETERS = ("V", "VI", "p", "w")  # of SciPy's metrics by name
METRICS = (*sorted((*_SCIPY, *_SKLEARN, *(a for a in _ALIASES))), "precomputed")


@runtime_checkable
class MeasuredDistances(Protocol):
    """Squared distances (or affinities) of any point to the anchors."""

    if TYPE_CHECKING:  # a field or a property; at run time a dataclass would take a property for the field's default

        @property
        def anchors(self) -> Array: ...

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        """Return the values of the rows of Z, (len(Z), n), with an error of at most ``slack``."""
        ...

    def nearest(self, Z: Array) -> Array:
        """Return the index of the nearest anchor of each row."""
        ...

    def to(self, anchors: Array) -> Self:
        """Return the same distances to other anchors."""
        ...

    def sees_nothing(self, Z: Array) -> Array | None:
        """Return which rows of a precomputed matrix have no entry; None: every row has some, or rows are features."""
        return None


@runtime_checkable
class PointDistances(MeasuredDistances, Protocol):
    """Squared distances (or affinities) that are computed from points."""

    def gram(self, runner: Threads) -> Array:
        """Return the values between all anchors, (n, n)."""
        ...


@runtime_checkable
class SearchedDistances(MeasuredDistances, Protocol):
    """Squared distances through which a neighbour search runs: of points, or of a table between nodes."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str | Callable[[Array, Array], float]: ...

    def among(self, rows: Array) -> MeasuredDistances:
        """Return the distances to the anchors ``rows`` only."""
        ...

    def between(self, rows: Array, columns: Array) -> Array:
        """Return the squared distances between the anchors ``rows`` and the anchors ``columns``."""
        ...

    def estimate(self, Z: Array) -> tuple[Array, Array]:
        """Return approximate squared distances (len(Z), n), and a bound of each row's error."""
        ...

    def of_pairs(self, Z: Array, ptr: Array, index: Array, runner: Threads) -> Array:
        """Return the squared distances of row i to the anchors index[ptr[i]:ptr[i + 1]], in the order of ``index``."""
        out = np.empty(len(index))

        def read(block: slice) -> None:
            entries = slice(ptr[block.start], ptr[block.stop])
            rows = np.repeat(np.arange(block.stop - block.start), np.diff(ptr[block.start : block.stop + 1]))
            out[entries] = self.cross(Z[block])[rows, index[entries]]

        runner.each(read, row_blocks(len(Z), len(self.anchors)), "distances")
        return out


@runtime_checkable
class PointMetric(Protocol):
    """A metric, or a callable kernel, before the anchors are known."""

    def fit(self, X: Array) -> PointDistances:
        """Return the distances (or affinities) to the anchors X."""
        ...


def clip_entries(Z: Array) -> Array:
    """Return Z clipped to +-``LARGEST_ENTRY``, so that squares do not overflow in a search."""
    return clip_rows(Z, LARGEST_ENTRY)


def clear_tiny(rows: Array, runner: Threads) -> Array:
    """Return the rows with 0 for entries below ``LEAST_ENTRY``, in a copy if there are any."""

    def tiny(part: slice) -> Array:
        values = rows[part]
        found: Array = (np.abs(values) < LEAST_ENTRY) & (values != 0)
        return found

    if not np.fmax(rows.max(initial=0.0), -rows.min(initial=0.0)) >= LEAST_SPREAD:  # too small altogether
        return rows
    parts = row_blocks(*rows.shape)
    if not any(runner.map(lambda part: bool(tiny(part).any()), parts, "rows")):
        return rows
    cleared = rows.copy()
    for part in parts:
        cleared[part][tiny(part)] = 0.0
    return cleared


@dataclass(frozen=True)
class Metric(PointMetric):
    """A distance by scikit-learn's name for it, with its parameters, or a callable of two rows.

    >>> import numpy as np
    >>> points = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> float(Metric("euclidean").fit(points).cross(points[:1])[0, 1])
    25.0
    """

    name: str | Callable[[Array, Array], float] = "euclidean"
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) and not callable(self.name):
            raise ValueError(f"Metric: name={self.name!r} must be a name, such as 'euclidean', or a callable.")
        if not isinstance(self.params, dict):
            raise ValueError(f"Metric: params={self.params!r} must be a dictionary, such as {{'p': 1.5}}.")
        unknown = () if callable(self.name) else sorted(map(str, self.params.keys() - METRIC_PARAMETERS))
        if unknown:
            raise ValueError(
                f"Metric: params has {', '.join(map(repr, unknown))}; {self.name!r} takes some of "
                f"{', '.join(map(repr, METRIC_PARAMETERS))}."
            )
        mine = {name: own(value) if isinstance(value, np.ndarray) else value for name, value in self.params.items()}
        object.__setattr__(self, "params", mine)

    @classmethod
    def of(cls, value: object) -> Metric:
        """Return a metric from a Metric, a name or a callable. Raise ValueError for an unknown name."""
        if isinstance(value, Metric):
            return value
        names = METRICS[:-1]
        if not callable(value) and not (isinstance(value, str) and value in names):
            raise ValueError(f"metric={value!r} is not known. Valid: {', '.join(map(repr, names))}, or a callable.")
        return cls(value)

    def check_directions(self, X: Array, what: str) -> None:
        """Raise ValueError if a metric of angles gets a row without a direction; ``what`` names the rows of X."""
        if not isinstance(self.name, str) or self.name not in WITHOUT_DIRECTION:
            return
        lost = _without_direction(self.name, X)
        if len(lost):
            raise ValueError(_say_without_direction(self.name, lost, len(X), what))

    def fit(self, X: Array) -> Distances:
        """Return the distances to the anchors X, with the parameters that depend on X (variances, covariance)."""
        name = _ALIASES.get(self.name, self.name) if isinstance(self.name, str) else self.name
        params = dict(self.params)
        if isinstance(X, SparseRows):
            return SparseDistances(X, _sparse_name(name, params), {})
        if name == "euclidean" and params:  # the loops and searches for it know no weights
            name, params = "minkowski", {"p": 2, **params}
        if name == "seuclidean" and "V" not in params:
            params["V"] = np.maximum(np.var(X, axis=0, ddof=1), np.finfo(float).tiny)
        if name == "mahalanobis" and "VI" not in params:
            params["VI"] = np.linalg.pinv(np.atleast_2d(np.cov(X.T)))
        if callable(name):
            _check_symmetric(name, X)
        return Distances(X, name, params)


def _without_direction(name: object, X: Array) -> Array:
    """Return the numbers of the rows that have no angle to others."""
    if name == "correlation" and not isinstance(X, SparseRows):
        return np.flatnonzero(X.max(axis=1) == X.min(axis=1))
    return np.flatnonzero(largest_entries(X) == 0)


def _say_without_direction(name: object, lost: Array, count: int, what: str) -> str:
    one = len(lost) == 1
    hold, first, they = ("holds", "", "it has") if one else ("hold", "the first is ", "they have")
    return (
        f"metric={name!r} measures angles, and {len(lost)} of the {count} {what} {hold} {WITHOUT_DIRECTION[str(name)]} "
        f"({first}row {lost[0]}), so {they} no direction. Drop such rows."
    )


def _sparse_name(name: str | Callable[[Array, Array], float], params: dict[str, Any]) -> str:
    """Return the name of a metric that has loops over sparse rows. Raise ValueError for another."""
    if isinstance(name, str) and name in SPARSE_METRICS and not params:
        return name
    told = f"metric={name!r}" + (f" with {sorted(params)}" if params else "")
    raise ValueError(
        f"{told} does not take sparse rows; 'euclidean', 'cosine' and 'manhattan' do. Pass one of these, or "
        "X.toarray() if it fits in memory."
    )


def takes_sparse(metric: object) -> bool:
    """Return whether a metric takes sparse rows: by name or as a Metric without parameters."""
    name, params = (metric.name, metric.params) if isinstance(metric, Metric) else (metric, {})
    name = _ALIASES.get(name, name) if isinstance(name, str) else name
    return isinstance(name, str) and name in (*SPARSE_METRICS, "precomputed") and not params


def _check_symmetric(metric: Callable[[Array, Array], float], X: Array) -> None:
    """Raise ValueError if d(x, y) != d(y, x) or d(x, x) != 0 for some rows of X."""
    some = X[np.linspace(0, len(X) - 1, min(len(X), 24)).astype(int)]
    table = cdist(some, some, metric)
    if not (table >= 0).all():  # NaN or negative: `Distances.cross` raises with a better message
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


MetricLike: TypeAlias = str | Metric | Callable[[Array, Array], float]


@dataclass(frozen=True)
class Distances(PointDistances, SearchedDistances):
    """Squared distances to ``anchors``."""

    anchors: Annotated[Array, Axes("n d"), NAN, SPARSE_ROWS]
    name: str | Callable[[Array, Array], float] = "euclidean"
    params: dict[str, Any] = field(default_factory=dict)

    def among(self, rows: Array) -> Distances:
        return replace(self, anchors=self.anchors[rows])

    def to(self, anchors: Array) -> Distances:
        return replace(self, anchors=anchors)

    def between(self, rows: Array, columns: Array) -> Array:
        return self.among(columns).cross(self.anchors[rows])

    def gram(self, runner: Threads) -> Array:
        n = len(self.anchors)
        out = np.empty((n, n))

        def fill(block: slice) -> None:
            out[block] = self.cross(self.anchors[block])

        runner.each(fill, row_blocks(n, n), "distances")
        return out

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        """Return squared distances from the rows of Z to the anchors, (len(Z), n).

        With ``slack`` > 0 an error of up to ``slack`` is allowed, so that BLAS can be used.
        """
        if self.name == "euclidean":
            if Z.shape[1] <= DIRECT_FEATURES_UP_TO:
                return self._directly(Z)
            return self._nearly(Z, slack) if slack else cdist(Z, self.anchors, "sqeuclidean")
        distances = self._plain(Z)
        if np.isnan(distances).any() or (distances < 0).any():
            metric = Metric(self.name)
            metric.check_directions(self.anchors, "rows of the fit or landmarks")
            metric.check_directions(Z, "rows of this block")
            rows = np.flatnonzero((np.isnan(distances) | (distances < 0)).any(axis=1))
            raise ValueError(
                f"metric={self.name!r} returned NaN or a negative value for {len(rows)} of {len(Z)} rows "
                f"(the first is row {rows[0]} of this block). A distance must be a number >= 0."
            )
        with np.errstate(over="ignore"):  # an infinite distance is valid: such a row gets its nearest anchor
            return np.square(distances, out=distances)

    @cached_property
    def _by_feature(self) -> Array:
        return np.ascontiguousarray(self.anchors.T, dtype=float)

    def _directly(self, Z: Array) -> Array:
        out = np.empty((len(Z), len(self.anchors)))
        if out.size < COMPILED_FROM:
            cdist(Z, self.anchors, "sqeuclidean", out=out)
            return out
        exponentials.squared_table(np.ascontiguousarray(Z, dtype=float), self._by_feature, out)
        return out

    @cached_property
    def _moved(self) -> tuple[Array, Array, float]:
        """The mean of the anchors, the columns (y, 1, |y|^2) with y = anchor - mean, and the largest |y|^2."""
        centre = self.anchors.mean(axis=0)
        moved = self.anchors - centre
        norms = np.einsum("ij,ij->i", moved, moved)
        return centre, np.vstack([moved.T, np.ones(len(norms)), norms]), float(norms.max())

    def by_product(self, Z: Array) -> tuple[Array, Array]:
        """Return |x|^2 + |y|^2 - 2 x.y about the mean, by one product (Euclidean), and each row's rounding error."""
        centre, columns, largest = self._moved
        moved = Z - centre
        own = np.einsum("ij,ij->i", moved, moved)
        table = np.column_stack([-2 * moved, own, np.ones(len(own))]) @ columns
        return table, np.finfo(float).eps * (own + largest)

    def estimate(self, Z: Array) -> tuple[Array, Array]:
        if self.name != "euclidean":
            return self.cross(Z), np.zeros(len(Z))
        table, rounding = self.by_product(Z)
        return table, 4 * (Z.shape[1] + 4) * rounding

    def of_pairs(self, Z: Array, ptr: Array, index: Array, runner: Threads) -> Array:
        return self.of_pairs_along(None, Z, ptr, index, runner)

    def of_pairs_along(self, order: Array | None, Z: Array, ptr: Array, index: Array, runner: Threads) -> Array:
        """Return what ``of_pairs`` does, row after row in ``order``.

        Rows that are near each other share anchors. If they are adjacent in the order, these stay in the cache.
        """
        if self.name != "euclidean":
            return super().of_pairs(Z, ptr, index, runner)
        out = np.empty(len(index))
        Z, X = (np.ascontiguousarray(A, dtype=float) for A in (Z, self.anchors))

        def fill(block: slice) -> None:
            if order is None:
                selection.squared_pairs(Z, X, ptr, index, out, block.start, block.stop)
            else:
                selection.squared_pairs_of(order, Z, X, ptr, index, out, block.start, block.stop)

        runner.run(fill, row_blocks(len(Z), 8 * (1 + len(index) // max(1, len(Z)))))
        return out

    def _nearly(self, Z: Array, slack: float) -> Array:
        """Return squared distances by one product, exactly for rows whose error exceeds ``slack``.

        A result may be as low as -``slack``.
        """
        table, rounding = self.by_product(Z)
        exact = np.flatnonzero(~(4 * rounding <= slack))
        if len(exact):
            table[exact] = cdist(Z[exact], self.anchors, "sqeuclidean")
        return table

    def nearest(self, Z: Array) -> Array:
        """Return the index of the nearest anchor of each row, also where squares would overflow."""
        if self.name != "euclidean":
            index: Array = self._plain(Z).argmin(axis=1)
            return index
        scale = max(float(np.abs(self.anchors).max()), np.finfo(float).tiny)
        reach = np.abs(Z).max(axis=1)
        far = reach > 1e7 * scale  # rounding of squares hides the anchors: use the direction of z
        index = np.empty(len(Z), dtype=np.intp)
        index[~far] = cdist(Z[~far] / scale, self.anchors / scale, "sqeuclidean").argmin(axis=1)
        index[far] = ((Z[far] / reach[far, None]) @ (self.anchors / scale).T).argmax(axis=1)
        return index

    def _plain(self, Z: Array) -> Array:
        if self.name == "nan_euclidean":
            return np.array([self._over_shared_features(z) for z in Z])
        if self.name == "haversine":
            from sklearn.metrics.pairwise import haversine_distances

            distances: Array = haversine_distances(Z, self.anchors)
            return distances
        distances = cdist(Z, self.anchors, self.name, **self.params)
        if self.name in ("cosine", "correlation"):
            # 1 - cos of a row with itself is rounding of either sign; 4 ulp is zero
            distances[np.abs(distances) < 1e-15] = 0.0
        return distances

    def _over_shared_features(self, z: Array) -> Array:
        """Return distances over the features both rows have, scaled up for the missing ones (NaN if none is shared)."""
        difference = self.anchors - z
        shared = (~np.isnan(difference)).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            lengths: Array = np.sqrt(np.nansum(difference**2, axis=1) * (len(z) / shared))
        return lengths


@dataclass(frozen=True)
class SparseDistances(Distances):
    """Squared distances between sparse rows, which are never made dense.

    Inner products run through the features that a row stores. |x|^2 + |y|^2 - 2 x.y loses digits where x and y are
    close, so these distances are computed again from differences.
    """

    @cached_property
    def _lengths(self) -> Array:
        return squared_lengths(self.anchors)

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array]:
        """The anchors by features, as CSC arrays."""
        turned = self.anchors.tocsc()  # type: ignore[attr-defined]
        return turned.indptr, turned.indices, turned.data

    def _products(self, Z: Array) -> Array:
        out = np.zeros((len(Z), len(self.anchors)))
        sparse_pairs.inner_products(*_csr(Z), *self._columns, out, 0)
        return out

    def all_pairs_seconds(self) -> float:
        """Return about how long the products and the selection of neighbours take for all pairs, on one core."""
        stored = np.bincount(self.anchors.indices).astype(float)  # type: ignore[attr-defined]
        return float(np.square(stored).sum()) * PRODUCT_SECONDS + len(self.anchors) ** 2 * SELECTION_SECONDS

    def by_product(self, Z: Array) -> tuple[Array, Array]:
        """Return |x|^2 + |y|^2 - 2 x.y, and each row's rounding error."""
        own = squared_lengths(Z)
        table = self._products(Z)
        table *= -2
        table += own[:, None]
        table += self._lengths
        longest = np.diff(Z.indptr).max(initial=1)  # type: ignore[attr-defined]
        return table, np.finfo(float).eps * (longest + 4) * (own + float(self._lengths.max()))

    def estimate(self, Z: Array) -> tuple[Array, Array]:
        if self.name != "euclidean":
            return self.cross(Z), np.zeros(len(Z))
        return self.by_product(Z)

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        if self.name != "euclidean":
            return super().cross(Z)
        table, rounding = self.by_product(Z)
        if not (rounding <= slack).all():
            lengths = squared_lengths(Z), self._lengths
            sparse_pairs.square_small(*_csr(Z), *_csr(self.anchors), *lengths, CANCELLED, table)
        return table

    def of_pairs(self, Z: Array, ptr: Array, index: Array, runner: Threads) -> Array:
        loops = {"cityblock": sparse_pairs.pair_differences, "cosine": sparse_pairs.pair_products}
        loop, arrays = loops.get(str(self.name), sparse_pairs.pair_squares), (*_csr(Z), *_csr(self.anchors))
        out = np.empty(len(index))
        blocks = row_blocks(len(Z), 64 * (1 + len(index) // max(1, len(Z))))
        runner.run(lambda rows: loop(*arrays, ptr, index, out, rows.start, rows.stop), blocks)
        if self.name == "cosine":
            own = np.repeat(np.sqrt(squared_lengths(Z)), np.diff(ptr))
            out = 1 - out / own / np.sqrt(self._lengths)[index]
            out[np.abs(out) < 1e-15] = 0.0
        return out if self.name == "euclidean" else np.square(out, out=out)

    def nearest(self, Z: Array) -> Array:
        if self.name != "euclidean":
            return super().nearest(Z)
        scale = max(float(np.abs(self.anchors.data).max(initial=0.0)), np.finfo(float).tiny)
        reach = largest_entries(Z)
        far, unit = reach > 1e7 * scale, replace(self, anchors=self.anchors / scale)
        index = np.empty(len(Z), dtype=np.intp)
        index[~far] = unit.cross(Z[~far] / scale).argmin(axis=1)
        if far.any():  # rounding of squares hides the anchors: use the direction of z
            directions = Z[far].multiply(1 / reach[far, None]).tocsr()  # type: ignore[attr-defined]
            index[far] = unit._products(SparseRows(directions)).argmax(axis=1)
        return index

    def _plain(self, Z: Array) -> Array:
        if self.name == "sqeuclidean":
            return replace(self, name="euclidean").cross(Z)
        if self.name == "cityblock":
            out = np.empty((len(Z), len(self.anchors)))
            sparse_pairs.absolute_table(*_csr(Z), *_csr(self.anchors), out)
            return out
        with np.errstate(invalid="ignore", divide="ignore"):
            distances = 1 - self._products(Z) / np.sqrt(squared_lengths(Z))[:, None] / np.sqrt(self._lengths)
        distances[np.abs(distances) < 1e-15] = 0.0
        return distances


def _csr(rows: Array) -> tuple[Array, Array, Array]:
    assert isinstance(rows, SparseRows)
    return rows.indptr, rows.indices, rows.data


@dataclass(frozen=True)
class Given(MeasuredDistances):
    """Precomputed values: a row that the caller passes *is* the row of values (``cross`` squares distances)."""

    anchors: Annotated[Array, Axes("n"), WHOLE]  # indices of the training columns
    squares: bool = True  # whether the values are distances (to be squared) or affinities
    picks: bool = False  # whether rows have other columns beside those of the anchors

    def to(self, anchors: Array) -> Given:
        return replace(self, anchors=anchors)

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        values = self._as_array(Z)
        return np.square(values, dtype=float) if self.squares else np.array(values, dtype=float)

    def sees_nothing(self, Z: Array) -> Array | None:
        if self.squares:
            return None
        empty: Array = (self._as_array(Z) > 0).sum(axis=1) == 0
        return empty

    def _as_array(self, Z: Array) -> Array:
        """Return rows as an array; what sparse rows do not store is no affinity, or an infinite distance."""
        if not isinstance(Z, SparseRows):
            return np.asarray(Z)
        out = np.full(Z.shape, np.inf if self.squares else 0.0)
        out[np.repeat(np.arange(len(Z)), np.diff(Z.indptr)), Z.indices] = Z.data
        return out

    def nearest(self, Z: Array) -> Array:
        values = self._as_array(Z)[:, self.anchors] if self.picks else self._as_array(Z)
        at: Array = values.argmin(axis=1) if self.squares else values.argmax(axis=1)
        return at


@dataclass(frozen=True)
class GivenTable(SearchedDistances):
    """Precomputed distances between the nodes of a graph; a point is passed as its distances to all nodes."""

    anchors: Annotated[Array, Axes("n n")]  # (n, n)
    name: str = "given"

    def among(self, rows: Array) -> Given:
        """Return the distances to the nodes ``rows`` only; a point still has distances to all nodes."""
        return Given(rows, picks=True)

    def between(self, rows: Array, columns: Array) -> Array:
        squared: Array = np.square(self.anchors[np.ix_(rows, columns)])
        return squared

    def to(self, anchors: Array) -> GivenTable:
        return replace(self, anchors=anchors)

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        squared: Array = np.square(Z, dtype=float)
        return squared

    def estimate(self, Z: Array) -> tuple[Array, Array]:
        return self.cross(Z), np.zeros(len(Z))

    def nearest(self, Z: Array) -> Array:
        at: Array = np.argmin(Z, axis=1)
        return at


@dataclass(frozen=True)
class GivenNeighbors(SearchedDistances):
    """Precomputed distances between neighbours, as a sparse matrix; a point is passed as its distances to its own.

    A pair that is not stored is infinitely far apart.
    """

    anchors: Annotated[Array, Axes("n n"), SPARSE_ROWS]  # with a stored diagonal
    name: str = "given"

    def among(self, rows: Array) -> Given:
        """Return the distances to the nodes ``rows`` only; a point still has columns for all nodes."""
        return Given(rows, picks=True)

    def between(self, rows: Array, columns: Array) -> Array:
        return self._squares(self.anchors[rows][:, columns])

    def to(self, anchors: Array) -> GivenNeighbors:
        return replace(self, anchors=anchors)

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        return self._squares(Z)

    def estimate(self, Z: Array) -> tuple[Array, Array]:
        return self.cross(Z), np.zeros(len(Z))

    def sees_nothing(self, Z: Array) -> Array:
        stored: Array = np.diff(Z.indptr) == 0 if isinstance(Z, SparseRows) else np.zeros(len(Z), bool)
        return stored

    def of_pairs(self, Z: Array, ptr: Array, index: Array, runner: Threads) -> Array:
        out = np.empty(len(index))
        if isinstance(Z, SparseRows):
            csr.stored_values(Z.indptr, Z.indices, Z.data, ptr, index, out)
        else:
            out[:] = Z[np.repeat(np.arange(len(Z)), np.diff(ptr)), index]
        return np.square(out, out=out)

    def nearest(self, Z: Array) -> Array:
        at: Array = self.cross(Z).argmin(axis=1)
        return at

    @staticmethod
    def _squares(Z: Array) -> Array:
        if not isinstance(Z, SparseRows):
            dense: Array = np.square(Z, dtype=float)
            return dense
        out = np.full(Z.shape, np.inf)
        out[np.repeat(np.arange(len(Z)), np.diff(Z.indptr)), Z.indices] = np.square(Z.data)
        return out


@dataclass(frozen=True)
class GivenMetric(PointMetric):
    """The distances of a precomputed square matrix, dense or sparse."""

    def fit(self, X: Array) -> PointDistances:
        """Return the distances between the nodes."""
        found: Any = GivenNeighbors(X) if isinstance(X, SparseRows) else GivenTable(X)
        measured: PointDistances = found
        return measured
