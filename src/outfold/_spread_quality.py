"""How good an embedding is whose rows lie in parts: the numbers of rows in memory, without bringing them here.

Alignments are sums of moments, angles a triangular factor, both joined in a tree. What looks at a draw draws the rows
it would in memory. Neighbours are found in two walks: which rows are the nearest of those that ask, and how many are
nearer to those elsewhere. So an answer has the size of what was asked, never that of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg import subspace_angles as angles_between
from scipy.spatial.distance import cdist

from . import neighbourhoods, scale
from .alignment import Alignment
from .distances import LARGEST, Distances, Metric
from .runners import Threads, row_blocks
from .sources import Source, checked, in_dask, shuffled, weighed

Array = NDArray[Any]

MOST_DRAWN = 1 << 15  # rows that are brought here
ANSWERS = 1 << 20  # neighbours looked for in one walk


def walked(rows: scale.Spread, look: Any, join: Any, title: str, measure: Any = None) -> Any:
    """What ``look`` finds in all parts, joined in their order."""
    measure = np.broadcast_to(np.ones(1), len(rows)) if measure is None else measure
    return reduce(join, (found for _, (found,) in rows.joined(look, join, measure, Threads(1), title=title)))


# -- rows ------------------------------------------------------------------------------------


def check_draw(count: int, rows: Source) -> None:
    if count > MOST_DRAWN:
        raise ValueError(
            f"{count} rows of {rows} would be brought here, more than {MOST_DRAWN}. Pass rows={MOST_DRAWN} or fewer; "
            "X.compute() brings all of them, if they fit."
        )


def drawn(rows: scale.Spread, index: Array) -> Array:
    """Some rows, here, by increasing index."""
    check_draw(len(index), rows)
    return rows.take(index)


def some_of(name: str, X: Any, most: int, count: int, random: Any) -> Array:
    """All rows of a collection that has no more than ``most``, else so many that ``permutation`` puts first, here."""
    rows = table(name, X)
    if len(rows) <= most:
        return drawn(rows, np.arange(len(rows)))
    check_draw(count, rows)
    return rows.take(shuffled(len(rows), count, random))


def table(name: str, values: Any) -> Any:
    """Rows and columns: spread, if they are Dask's, else an array of finite numbers. A column is a table."""
    if not in_dask(values):
        return neighbourhoods.table(name, values)
    if getattr(values, "ndim", 2) == 1:
        values = values.to_frame() if scale.is_frame(values) else values[:, None]
    rows = scale.rows_of(values)
    if not min(rows.shape):
        raise ValueError(f"{name} must be a table of rows and columns, none of them 0; its shape is {rows.shape}.")
    return rows


def measure_of(weights: Any, rows: scale.Spread) -> Any:
    """Weights of the rows as they are, here or in parts; None stays."""
    if weights is None:
        return None
    if in_dask(weights):
        return scale.Weights.of(weights, rows, unit=1.0)
    return weighed("weights", weights, len(rows))


# -- moments ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Mass and mean of rows, and sum w (x - mean)(x - mean)' (Chan, Golub and LeVeque, 1979)."""

    mass: float
    mean: Array
    scatter: Array

    def joined(self, later: Moments) -> Moments:
        mass = self.mass + later.mass
        if mass == 0:
            return self
        apart = later.mean - self.mean
        between = np.outer(apart, apart) * (self.mass * later.mass / mass)
        return Moments(mass, self.mean + apart * (later.mass / mass), self.scatter + later.scatter + between)


@dataclass(frozen=True)
class Chosen:
    """Rows of a part that are among some of the data, by increasing number; None: all are."""

    numbers: Array | None

    def of(self, count: int, start: int) -> Array:
        if self.numbers is None:
            return np.ones(count, dtype=bool)
        inside = np.zeros(count, dtype=bool)
        a, b = np.searchsorted(self.numbers, [start, start + count])
        inside[self.numbers[a:b] - start] = True
        return inside


EVERY_ROW = Chosen(None)


@dataclass(frozen=True)
class Scatter:
    """The moments of the chosen rows of a part, about their mean or about 0."""

    chosen: Chosen = EVERY_ROW
    centre: bool = True

    def __call__(self, rows: Array, measure: Array, start: int) -> Moments:
        weight = measure * self.chosen.of(len(rows), start)
        mass = float(weight.sum())
        mean = weight @ rows / mass if self.centre and mass > 0 else np.zeros(rows.shape[1])
        about = rows - mean
        return Moments(mass, mean, about.T @ (weight[:, None] * about))


@dataclass(frozen=True)
class Left:
    """Sum of w |motion(moving) - fixed|^2 over the rows of a part that were not chosen, and their mass."""

    motion: Alignment
    chosen: Chosen | None  # None: of all rows

    def __call__(self, rows: Array, measure: Array, start: int) -> Array:
        count = rows.shape[1] // 2
        weight = measure if self.chosen is None else measure * ~self.chosen.of(len(rows), start)
        squares = ((self.motion(rows[:, :count]) - rows[:, count:]) ** 2).sum(axis=1)
        return np.array([weight @ squares, weight.sum()])


def _pair(moving: Any, fixed: Any) -> scale.Spread:
    """Two embeddings of the same rows side by side."""
    moving, fixed = table("moving", moving), table("fixed", fixed)
    if moving.shape != fixed.shape:
        raise ValueError(f"Embeddings of the same rows have the same shape; got {moving.shape} and {fixed.shape}.")
    return scale.beside(moving, fixed)


def _moved(
    rows: scale.Spread, measure: Any, rescale: bool, centre: bool, chosen: Chosen = EVERY_ROW
) -> tuple[Alignment, Moments]:
    moments = walked(rows, Scatter(chosen, centre), Moments.joined, "moments", measure)
    if not moments.mass > 0:
        raise ValueError("The rows that are fitted to weigh nothing: give some of them a weight above 0.")
    count = rows.shape[1] // 2
    share = moments.scatter / moments.mass
    size = float(np.trace(share[:count, :count]))
    means = moments.mean[:count], moments.mean[count:]
    return Alignment.of_moments(*means, share[:count, count:], size, rescale), moments


def alignment(moving: Any, fixed: Any, *, weights: Any, rescale: bool, centre: bool) -> Alignment:
    rows = _pair(moving, fixed)
    return _moved(rows, measure_of(weights, rows), rescale, centre)[0]


def aligned_error(moving: Any, fixed: Any, *, rescale: bool) -> float:
    rows = _pair(moving, fixed)
    motion, moments = _moved(rows, None, rescale, centre=True)
    count = rows.shape[1] // 2
    left = walked(rows, Left(motion, None), np.add, "distances")[0]
    return float(np.sqrt(left / np.trace(moments.scatter[count:, count:])))


def aligned_mse(moving: Any, fixed: Any, *, fit_rows: Any, weights: Any, centre: bool) -> float:
    rows = _pair(moving, fixed)
    chosen = Chosen(_numbers(fit_rows, len(rows)))
    measure = measure_of(weights, rows)
    motion, _ = _moved(rows, measure, rescale=False, centre=centre, chosen=chosen)
    squares, mass = walked(rows, Left(motion, chosen), np.add, "distances", measure)
    if not mass > 0:
        raise ZeroDivisionError("The rows that were not fitted to weigh nothing: there is no mean over them.")
    return float(squares / mass)


def _numbers(fit_rows: Any, count: int) -> Array:
    if in_dask(fit_rows):
        raise ValueError("fit_rows must be here: the row numbers of the landmarks, or a mask as a NumPy array.")
    given = np.asarray(fit_rows)
    if given.dtype == bool and given.shape != (count,):
        raise ValueError(f"fit_rows as a mask has {given.size} entries for {count} rows.")
    numbers = np.flatnonzero(given) if given.dtype == bool else np.atleast_1d(given)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < -count or numbers.max() >= count):
        raise IndexError(f"fit_rows={fit_rows!r} must be numbers of the {count} rows.")
    numbers = np.unique(np.where(numbers < 0, numbers + count, numbers).astype(np.int64))
    if not 0 < len(numbers) < count:
        raise ValueError(f"fit_rows names {len(numbers)} of {count} rows: some must be fitted to, some left.")
    return numbers


# -- spaces of functions -----------------------------------------------------------------------


def triangle(rows: Array, measure: Array, start: int) -> Array:
    """R of diag(sqrt(w)) X = Q R: small angles are lost in X' X, but not in R."""
    return qr(np.sqrt(measure)[:, None] * rows, mode="r")[0][: rows.shape[1]]


def _triangles(first: Array, second: Array) -> Array:
    return qr(np.vstack([first, second]), mode="r")[0][: first.shape[1]]


def subspace_angles(A: Any, B: Any, *, weights: Any) -> Array:
    A, B = table("A", A), table("B", B)
    if len(A) != len(B):
        raise ValueError(f"A has {len(A)} rows and B has {len(B)}: they must be functions on the same rows.")
    rows = scale.beside(A, B)
    R = walked(rows, triangle, _triangles, "factors", measure_of(weights, rows))
    factors = R[:, : A.shape[1]], R[:, A.shape[1] :]
    for name, factor in zip("AB", factors):
        sizes = np.linalg.svd(factor, compute_uv=False)
        least = sizes.max() * max(len(rows), factor.shape[1]) * np.finfo(float).eps
        if len(sizes) < factor.shape[1] or (sizes <= least).any():
            raise ValueError(f"The {factor.shape[1]} columns of {name} are not independent: they span no such space.")
    return np.asarray(angles_between(*factors))


# -- neighbours --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spaces:
    """Data and embedding side by side: rows that answer and rows that ask, as :class:`neighbourhoods.Here` has them."""

    answering: scale.Spread
    asking: scale.Spread
    features: int  # the first columns are the data

    @classmethod
    def of(cls, X: Any, embedding: Any, new: Any) -> Spaces:
        """From X, its embedding and, if other rows ask, those and theirs."""
        if isinstance(new, tuple | list) and len(new) == 2 and new[0] is X and new[1] is embedding:
            new = None
        pairs = neighbourhoods.paired(table, X, embedding, new)
        spread = [scale.beside(*pair) for pair in pairs]
        return cls(spread[0], spread[-1], pairs[0][0].shape[1])

    @property
    def itself(self) -> bool:
        return self.asking is self.answering

    def weight(self, sample_weight: Any) -> Any:
        found = measure_of(sample_weight, self.asking)
        return np.broadcast_to(np.ones(1), len(self.asking)) if found is None else found

    def measures(self, metric: Any) -> tuple[Distances, Distances]:
        """Of the data and of the embedding; what a metric must know of all rows is summed up."""
        metric = Metric.of(metric)
        some = self.answering.take(np.unique(np.linspace(0, len(self.answering) - 1, 24).astype(int)))
        missing = {"seuclidean": "V", "mahalanobis": "VI"}.get(metric.name if isinstance(metric.name, str) else "")
        if missing is not None and missing not in metric.params:
            moments = walked(self.answering, partial(_scatter, self.features), Moments.joined, "moments")
            covariance = moments.scatter / (moments.mass - 1)
            if missing == "V":
                known = np.maximum(np.diagonal(covariance), np.finfo(float).tiny)
            else:
                known = np.linalg.pinv(covariance)
            metric = replace(metric, params={**metric.params, missing: known})
        return metric.fit(some[:, : self.features]), Metric().fit(some[:, self.features :])

    def taken(self, asked: Array, own: Array | None) -> list[tuple[Array, Array | None]]:
        """Data and embedding of some rows that answer and, if others ask, of some of those."""
        first = drawn(self.answering, asked)
        second = None if own is None else drawn(self.asking, own)
        columns = slice(None, self.features), slice(self.features, None)
        return [
            (np.ascontiguousarray(first[:, part]), None if second is None else np.ascontiguousarray(second[:, part]))
            for part in columns
        ]

    def excess(self, asked: Array, k: int, metric: Any, by_data: bool, n_jobs: Any) -> Array:
        """As :meth:`neighbourhoods.Here.excess`, in two walks over the parts."""
        places = drawn(self.asking, asked)
        data, flat = slice(None, self.features), slice(self.features, None)
        near, far = zip((flat, data), reversed(self.measures(metric)))
        near, far = (far, near) if by_data else (near, far)
        out = np.empty(len(asked))
        step = max(1, ANSWERS // k)
        for at in range(0, len(asked), step):
            block = slice(at, at + step)
            asking = Asking(places[block], asked[block] if self.itself else None, Space(*near), Space(*far))
            found = walked(self.answering, partial(closest, asking, k), partial(_closer, k), "neighbours")
            ranks = 1 + walked(self.answering, partial(nearer, asking, found[1:]), np.add, "ranks")
            out[block] = np.maximum(ranks - k, 0).sum(axis=1)
        return out


def _scatter(features: int, rows: Array, measure: Array, start: int) -> Moments:
    return Scatter()(rows[:, :features], measure, start)


@dataclass(frozen=True)
class Space:
    """Some columns of a table, and how far rows are from each other in them."""

    columns: slice
    measure: Distances

    def to(self, rows: Array) -> Distances:
        """Distances to rows of the table."""
        return replace(self.measure, anchors=np.ascontiguousarray(rows[:, self.columns]))


@dataclass(frozen=True)
class Asking:
    """Rows that ask, which they are of those that answer, and the two spaces."""

    places: Array
    numbers: Array | None  # None: none of them
    near: Space
    far: Space

    def tables(self, space: Space, rows: Array, start: int) -> Iterator[tuple[slice, Array]]:
        """Squared distances to the rows of a part, some that ask at a time; a row is infinitely far from itself."""
        if np.abs(rows).max() > LARGEST:
            raise ValueError(f"Squared distances overflow: the rows reach {np.abs(rows).max():.1e}. Rescale them.")
        to = space.to(rows)
        step = max(1, neighbourhoods.TABLE_ENTRIES // len(rows))
        for at in range(0, len(self.places), step):
            block = slice(at, min(at + step, len(self.places)))
            squared = to.cross(np.ascontiguousarray(self.places[block, space.columns]))
            if self.numbers is not None:
                own = self.numbers[block] - start
                inside = np.flatnonzero((own >= 0) & (own < len(rows)))
                squared[inside, own[inside]] = np.inf
            yield block, squared


def closest(asking: Asking, k: int, rows: Array, measure: Array, start: int) -> Array:
    """The nearest rows of a part, nearest first: squared distance, number and squared distance in the other space."""
    k = min(k, len(rows))
    out = np.empty((3, len(asking.places), k))
    far = asking.far.to(rows)
    places = np.ascontiguousarray(asking.places[:, asking.far.columns])
    for block, squared in asking.tables(asking.near, rows, start):
        index = neighbourhoods.nearest(squared, None, k)
        found = np.take_along_axis(squared, index, axis=1)
        order = np.argsort(found, axis=1, kind="stable")
        index = np.take_along_axis(index, order, axis=1)
        out[0, block], out[1, block] = np.take_along_axis(found, order, axis=1), index + start
        for i, columns in enumerate(index, block.start):
            out[2, i] = far.among(columns).cross(places[i : i + 1])[0]
    return out


def _closer(k: int, earlier: Array, later: Array) -> Array:
    """The nearest of both; of equally far ones the earlier."""
    both = np.concatenate([earlier, later], axis=2)
    order = np.argsort(both[0], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(both, order[None], axis=2)


def nearer(asking: Asking, known: Array, rows: Array, measure: Array, start: int) -> Array:
    """How many rows of a part come before rows of known number and distance; of equally far ones the first does."""
    numbers, distances = known
    out = np.empty(numbers.shape, dtype=np.int64)
    first = np.clip(numbers - start, 0, len(rows)).astype(np.intp)  # so many rows of the part come before
    for block, squared in asking.tables(asking.far, rows, start):
        for i, row in enumerate(squared, block.start):
            for at, (split, bound) in enumerate(zip(first[i], distances[i])):
                out[i, at] = np.count_nonzero(row[:split] <= bound) + np.count_nonzero(row[split:] < bound)
    return out


# -- with an estimator -------------------------------------------------------------------------


def rows_for(estimator: Any, X: Any) -> scale.Spread:
    """Rows that a fitted estimator can look at."""
    rows = scale.rows_of(X)
    estimator._check_features(rows.shape[1], rows.names, "the Dask DataFrame")
    return rows


def anywhere(rows: scale.Spread, index: Array) -> Array:
    """Rows by any index, in its order."""
    wanted, back = np.unique(np.where(index < 0, index + len(rows), index), return_inverse=True)
    return rows.take(wanted)[back]


def distances_to(X: Any, place: Callable[[Array], Array], ends: Array, row_entries: int) -> Any:
    """Distances from the places of rows to some points, as a lazy Dask array; a place takes so many numbers."""
    return scale.mapped(partial(_to, place, ends, row_entries), X, len(ends))


def _to(place: Callable[[Array], Array], ends: Array, row_entries: int, rows: Array) -> Array:
    rows = checked(rows, 0, "a part of X")
    return np.concatenate([cdist(place(rows[block]), ends) for block in row_blocks(len(rows), row_entries)])
