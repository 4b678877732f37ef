"""Statistics of the anchors' distances for bandwidth rules, before a graph exists: typical lengths, and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._loops import csr
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..bandwidths import PairStatistics
from ..distances import MeasuredDistances, SearchedDistances
from ..neighbors import Lists, Reaches, Search


@dataclass(frozen=True, kw_only=True)
class DenseStatistics(PairStatistics):
    """Statistics from the table of all squared distances between the anchors."""

    distances: MeasuredDistances
    squared: Array
    measure: Array
    widest: float = np.inf  # number of neighbours in the graph
    exact: bool = True  # all pairs are in the table

    def radius(self, k: float) -> float:
        return _median_length(table_kth(self.squared, self.measure, k + 1), self.measure)

    def pairs(self) -> tuple[Array, Array]:
        return _pairs(self.squared, self.measure)


@dataclass(frozen=True, kw_only=True)
class SearchStatistics(PairStatistics):
    """Statistics through a neighbour search; of more than ``most`` points a fixed sample is used."""

    search: Search
    measure: Array
    runner: Threads
    widest: float = np.inf
    most: int = 4000

    @property
    def distances(self) -> SearchedDistances:
        return self.search.distances

    @property
    def exact(self) -> bool:
        return self.search.exact

    @cached_property
    def sample(self) -> Array:
        return even_sample(self.distances.anchors, self.most)

    def radius(self, k: float) -> float:
        """Return the same as ``DenseStatistics.radius``, with the median over the sample."""
        rows = self.sample
        lists = lists_of_mass(self.search.of_any_k(), self.distances.anchors[rows], self.measure, k + 1, self.runner)
        return _median_length(kth(lists, self.measure, k + 1), self.measure[rows])

    def pairs(self) -> tuple[Array, Array]:
        """Return the same as ``DenseStatistics.pairs``, between 2000 of the points."""
        rows = even_sample(self.distances.anchors, 2000)
        table = np.empty((len(rows), len(rows)))

        def fill(block: slice) -> None:
            table[block] = self.distances.between(rows[block], rows)

        self.runner.each(fill, row_blocks(*table.shape), "distances")
        return _pairs(table, self.measure[rows])


def even_sample(points: Array, most: int) -> Array:
    """Return at most ``most`` rows at even ranks along a fixed direction: the same points for any order of rows."""
    if len(points) <= most:
        return np.arange(len(points))
    slope = np.modf(np.sqrt(2 + np.arange(points.shape[1])))[0] + 0.5
    order = np.argsort(np.nan_to_num(points) @ slope, kind="stable")
    rows: Array = order[np.linspace(0, len(order) - 1, most).astype(int)]
    return rows


def lists_of_mass(
    search: Search, Z: Array, measure: Array, mass: float, runner: Threads, groups: Reaches | None = None
) -> Lists:
    """Return nearest anchors of each row that together hold ``mass``; with ``groups`` also those that reach the row."""
    k = min(len(measure), int(np.ceil(mass)))
    lists = search.closest(Z, k, runner, groups)
    if (measure == 1).all():
        return lists
    while k < len(measure) and _mass_held(lists.nearest(k), measure).min() < min(mass, measure.sum()) * (1 - 1e-12):
        k = min(len(measure), 2 * k)
        lists = search.closest(Z, k, runner, groups)
    return lists


def _mass_held(lists: Lists, measure: Array) -> Array:
    return np.add.reduceat(measure[lists.index], lists.ptr[:-1])


def kth(lists: Lists, measure: Array, mass: float) -> Array:
    """Return the squared distance at which each row reaches the mass; lists must be nearest first."""
    out = np.empty(len(lists.ptr) - 1)
    csr.reaching(lists.ptr, lists.index, lists.squared, measure, float(mass), out, 0, len(out))
    return out


def table_kth(squared: Array, measure: Array, mass: float) -> Array:
    """Return the squared distance at which each row of a dense table reaches the mass."""
    if np.all(measure == 1):
        at = int(min(mass, squared.shape[1])) - 1
        return np.partition(squared, at, axis=1)[:, at]
    order = np.argsort(squared, axis=1, kind="stable")
    reached = np.cumsum(measure[order], axis=1) >= mass * (1 - 1e-12)
    first = np.where(reached[:, -1], reached.argmax(axis=1), squared.shape[1] - 1)
    found: Array = np.take_along_axis(squared, order, axis=1)[np.arange(len(squared)), first]
    return found


def _median_length(squared: Array, measure: Array) -> float:
    order = np.argsort(squared)
    half = np.searchsorted(np.cumsum(measure[order]), measure.sum() / 2 * (1 - 1e-12))
    return float(np.sqrt(squared[order[half]]))


def _pairs(squared: Array, measure: Array) -> tuple[Array, Array]:
    upper = np.triu_indices(len(squared), 1)
    values, weights = squared[upper], (measure[:, None] * measure)[upper]
    copies = np.maximum(measure * (measure - 1) / 2, 0)
    if copies.any():
        values, weights = np.append(values, 0.0), np.append(weights, copies.sum())
    return values, weights
