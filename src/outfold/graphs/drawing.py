"""Statistics of a rule for edges and the fitted graph, and the memory checks before them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from .._runtime.memory import check_fits
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..bandwidths import PairStatistics
from ..data.weights import at_whole_numbers, weighted_quantile
from ..neighbors import Lists
from .pair_statistics import SearchStatistics, kth, lists_of_mass, select_nearest

Kind = TypeVar("Kind", bound=PairStatistics)


def expect_kind(statistics: PairStatistics, kind: type[Kind]) -> Kind:
    """Return the statistics. Raise TypeError if they are not of the kind that the edge rule collects."""
    if not isinstance(statistics, kind):
        raise TypeError(f"This edge rule needs {kind.__name__}, not {type(statistics).__name__}.")
    return statistics


def check_memory(n: int, instead: str) -> None:
    """Raise MemoryError if a dense (n, n) table and the memory of the solver do not fit."""
    check_fits(2.2 * 8 * n * n, f"A dense kernel of n = {n} points needs", instead)


def check_table(rows: int, columns: int, what: str, instead: str) -> None:
    """Raise MemoryError if a (points, anchors) table and a kernel between the anchors do not fit."""
    needed = 8.0 * rows * columns + 2.2 * 8 * columns**2
    check_fits(needed, f"{what} between {rows} points and {columns} anchors need", f"Take fewer: {instead}.")


def connecting_radius(found: SearchStatistics, sigma: Array | None, runner: Threads) -> float:
    """Return the least radius at which 95 % of the points have enough neighbours for a connected graph.

    A random geometric graph is connected from about log n neighbours on. With ``sigma`` the radius is in local units.
    """
    measure, counts, total = found.measure, found.counts, found.total
    mass = at_whole_numbers(lambda n: min(1 + max(3.0, float(int(1.5 * np.log(max(n, 1.0))))), n / 2), total)
    while True:
        looked = 2 * mass if counts is None else 2 * mass + 1
        lists = lists_of_mass(found.search, found.distances.anchors, measure, looked, runner, counts=counts)
        lists = select_nearest(lists, measure, 2 * mass, counts)
        if sigma is not None:
            scaled = lists.squared / (sigma[lists.rows()] * sigma[lists.index])
            order = np.lexsort((scaled, lists.rows()))
            lists = Lists(lists.ptr, lists.index[order], scaled[order])
        squared = kth(lists, measure, mass, counts)
        if counts is None:
            order = np.argsort(squared)
            level = np.searchsorted(np.cumsum(measure[order]), 0.95 * measure.sum() * (1 - 1e-12))
            radius = float(np.sqrt(squared[order[level]]))
        else:
            radius = float(np.sqrt(weighted_quantile(squared, counts, 0.95)))
        if radius > 0 or mass >= total:
            return radius * (1 + 1e-6)
        mass *= 2  # most points have many copies: look at more neighbours


def unit_floor(sigma: Array, counts: Array | None = None) -> float:
    """Return the smallest local unit allowed, a millionth of the median: a point with many copies has sigma = 0."""
    positive = sigma > 0
    if not positive.any():
        return 1.0
    if counts is None:
        return 1e-6 * float(np.median(sigma[positive]))
    return 1e-6 * weighted_quantile(sigma[positive], counts[positive], 0.5)
