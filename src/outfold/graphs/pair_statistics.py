"""Statistics of the anchors' distances for bandwidth rules, before a graph exists: typical lengths, and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._loops import csr
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..bandwidths import PairStatistics
from ..data.places import find_places
from ..data.sparse_rows import SparseRows
from ..data.weights import weighted_quantile
from ..distances import MeasuredDistances, SearchedDistances
from ..neighbors import Lists, Reaches, Search

COUNTED_ROWS = 256  # points whose pairs within a radius are counted


@dataclass(frozen=True, kw_only=True)
class DenseStatistics(PairStatistics):
    """Statistics from the table of all squared distances between the anchors."""

    distances: MeasuredDistances
    squared: Array
    measure: Array
    counts: Array | None = None  # how much each anchor counts as a neighbour; None: by its measure
    widest: float = np.inf  # number of neighbours in the graph
    recall: ClassVar[None] = None  # all pairs are in the table

    @property
    def total(self) -> float:
        return _total(self.measure, self.counts)

    def radius(self, k: float) -> float:
        return median_length(self._kth_squares(k), self.measure, self.counts)

    def longest(self, k: float) -> float:
        return float(np.sqrt(self._kth_squares(k).max()))

    def _kth_squares(self, k: float) -> Array:
        """Return the squared distance of each anchor to neighbour k."""
        return table_kth(self.squared, self.measure, k + 1, self.counts)

    def pairs(self) -> tuple[Array, Array]:
        return _pairs(self.squared, self.measure)


@dataclass(frozen=True, kw_only=True)
class SearchStatistics(PairStatistics):
    """Statistics through a neighbour search; of more than ``most`` points a fixed sample is used."""

    search: Search
    measure: Array
    runner: Threads
    counts: Array | None = None
    widest: float = np.inf
    most: int = 4000

    @property
    def total(self) -> float:
        return _total(self.measure, self.counts)

    @property
    def distances(self) -> SearchedDistances:
        return self.search.distances

    @property
    def recall(self) -> float | None:
        return self.search.recall

    @cached_property
    def _distinct(self) -> tuple[Array, Array]:
        """Return the rows to sample from, one of every place if places are counted, and the measure of each."""
        places = None if self.counts is None else find_places(self.distances.anchors)
        if places is None:
            return np.arange(len(self.measure)), self.measure
        return places.first, places.mass(self.measure)

    def _sample(self, most: int) -> tuple[Array, Array]:
        """Return at most ``most`` rows, and their measure."""
        rows, measure = self._distinct
        some = even_sample(self.distances.anchors[rows], most)
        return rows[some], measure[some]

    def radius(self, k: float) -> float:
        """Return the same as ``DenseStatistics.radius``, with the median over the sample."""
        squared, measure = self._kth_squares(k)
        return median_length(squared, measure, None if self.counts is None else np.minimum(measure, 1.0))

    def longest(self, k: float) -> float:
        """Return the same as ``DenseStatistics.longest``, over the sample."""
        return float(np.sqrt(self._kth_squares(k)[0].max()))

    def _kth_squares(self, k: float) -> tuple[Array, Array]:
        """Return the squared distance of each anchor of the sample to neighbour k, and their measure."""
        rows, measure = self._sample(self.most)
        lists = lists_of_mass(
            self.search.of_any_k(), self.distances.anchors[rows], self.measure, k + 1, self.runner, counts=self.counts
        )
        return kth(lists, self.measure, k + 1, self.counts), measure

    def pairs(self) -> tuple[Array, Array]:
        """Return the same as ``DenseStatistics.pairs``, between 2000 of the points."""
        rows, measure = self._sample(2000)
        table = np.empty((len(rows), len(rows)))

        def fill(block: slice) -> None:
            table[block] = self.distances.between(rows[block], rows)

        self.runner.each(fill, row_blocks(*table.shape), "distances")
        return _pairs(table, measure)


def even_sample(points: Array, most: int) -> Array:
    """Return at most ``most`` rows at even ranks along a fixed direction: the same points for any order of rows."""
    if len(points) <= most:
        return np.arange(len(points))
    order = line_order(points)
    rows: Array = order[np.linspace(0, len(order) - 1, most).astype(int)]
    return rows


def line_order(points: Array) -> Array:
    """Return the order of the points along a fixed direction."""
    slope = np.modf(np.sqrt(2 + np.arange(points.shape[1])))[0] + 0.5
    known = points if isinstance(points, SparseRows) else np.nan_to_num(points)
    return np.argsort(known @ slope, kind="stable")


def masses_within(distances: MeasuredDistances, measure: Array, radius: float, runner: Threads) -> Array:
    """Return the mass within the radius of each of ``COUNTED_ROWS`` points, an even sample; exact for each of them."""
    points = distances.anchors
    rows = points[even_sample(points, COUNTED_ROWS)]

    def count(block: slice) -> Array:
        mass: Array = (distances.cross(rows[block]) <= radius**2) @ measure
        return mass

    return np.concatenate(list(runner.map(count, row_blocks(len(rows), len(points)), "pairs")))


def lists_of_mass(
    search: Search,
    Z: Array,
    measure: Array,
    mass: float,
    runner: Threads,
    groups: Reaches | None = None,
    counts: Array | None = None,
) -> Lists:
    """Return nearest anchors of each row that together count ``mass``; with ``groups`` also those that reach the row.

    Anchors count as ``counts`` says, or by their measure if it is None.
    """
    counted = measure if counts is None else counts
    k = min(len(counted), int(np.ceil(mass)))
    lists = search.closest(Z, k, runner, groups)
    if (counted == 1).all() or search.complete():
        return lists
    while k < len(counted) and _mass_held(lists.nearest(k), counted).min() < min(mass, counted.sum()) * (1 - 1e-12):
        k = min(len(counted), 2 * k)
        lists = search.closest(Z, k, runner, groups)
    return lists


def _mass_held(lists: Lists, measure: Array) -> Array:
    return np.add.reduceat(measure[lists.index], lists.ptr[:-1])


def kth(lists: Lists, measure: Array, mass: float, counts: Array | None = None) -> Array:
    """Return the squared distance of each row to neighbour ``mass``; lists must be nearest first.

    With ``counts`` it is the mean over the neighbours from mass - 1 to mass, which is continuous in the counts; for
    counts of 1 and a whole mass, the distance of the last one. Without, it is the distance at which the measure of the
    nearest anchors reaches the mass.
    """
    out = np.empty(len(lists.ptr) - 1)
    if counts is None:
        csr.reaching(lists.ptr, lists.index, lists.squared, measure, float(mass), out, 0, len(out))
    else:
        csr.mean_at_rank(lists.ptr, lists.index, lists.squared, counts, float(mass), out, 0, len(out))
    return out


def midway_radii(lists: Lists, measure: Array, k: float, counts: Array | None = None) -> Array:
    """Return squared radii midway between the k-th and (k+1)-th distance; rounding never puts one below the k-th."""
    last = kth(lists, measure, k, counts)
    inner, outer = np.sqrt(last), np.sqrt(kth(lists, measure, k + 1, counts))
    return np.where(inner == outer, last, np.maximum(last, np.square((inner + outer) / 2)))


def select_nearest(lists: Lists, measure: Array, k: float, counts: Array | None) -> Lists:
    """Return the entries of each row up to neighbour k, with ties; with ``counts`` the lists must reach k + 1.

    With ``counts`` they lie within the radius midway to neighbour k + 1: rounding does not decide about the last one.
    """
    radii = kth(lists, measure, k) if counts is None else midway_radii(lists, measure, k, counts)
    return lists.select(lists.squared <= np.repeat(radii, np.diff(lists.ptr)))


def table_kth(squared: Array, measure: Array, mass: float, counts: Array | None = None) -> Array:
    """Return the same as ``kth``, of each row of a dense table."""
    if np.all((measure if counts is None else counts) == 1) and (counts is None or mass == int(mass)):
        at = int(min(mass, squared.shape[1])) - 1
        return np.partition(squared, at, axis=1)[:, at]
    order = np.argsort(squared, axis=1, kind="stable")
    if counts is not None:
        n = squared.shape[1]
        ptr, values = np.arange(0, order.size + 1, n), np.take_along_axis(squared, order, axis=1).ravel()
        return kth(Lists(ptr, order.ravel(), values), measure, mass, counts)
    reached = np.cumsum(measure[order], axis=1) >= mass * (1 - 1e-12)
    first = np.where(reached[:, -1], reached.argmax(axis=1), squared.shape[1] - 1)
    found: Array = np.take_along_axis(squared, order, axis=1)[np.arange(len(squared)), first]
    return found


def _total(measure: Array, counts: Array | None) -> float:
    return float((measure if counts is None else counts).sum())


def median_length(squared: Array, measure: Array, counts: Array | None = None) -> float:
    """Return the root of the median of squared distances: over places if they are counted, else in the measure."""
    if counts is not None:
        return float(np.sqrt(weighted_quantile(squared, counts, 0.5)))
    order = np.argsort(squared)
    half = np.searchsorted(np.cumsum(measure[order]), measure.sum() / 2 * (1 - 1e-12))
    return float(np.sqrt(squared[order[half]]))


def _pairs(squared: Array, measure: Array) -> tuple[Array, Array]:
    upper = np.triu_indices(len(squared), 1)
    values, weights = squared[upper], (measure[:, None] * measure)[upper]
    if not np.isfinite(values).all():  # pairs whose distance is not known
        values, weights = values[known := np.isfinite(values)], weights[known]
    copies = measure * (measure - 1) / 2  # below 0 for a fraction: each row also counts once with itself
    if copies.any():
        values, weights = np.append(values, 0.0), np.append(weights, copies.sum())
    return values, weights
