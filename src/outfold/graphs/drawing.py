"""Statistics of a rule for edges and the fitted graph, and the memory checks before them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from .._runtime.memory import check_fits
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..bandwidths import PairStatistics
from ..neighbors import Lists
from .pair_statistics import SearchStatistics, kth, lists_of_mass

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
    measure = found.measure
    mass = min(1 + max(3.0, float(int(1.5 * np.log(measure.sum())))), measure.sum() / 2)
    while True:
        lists = lists_of_mass(found.search, found.distances.anchors, measure, 2 * mass, runner)
        lists = lists.select(lists.squared <= np.repeat(kth(lists, measure, 2 * mass), np.diff(lists.ptr)))
        if sigma is not None:
            scaled = lists.squared / (sigma[lists.rows()] * sigma[lists.index])
            order = np.lexsort((scaled, lists.rows()))
            lists = Lists(lists.ptr, lists.index[order], scaled[order])
        squared = kth(lists, measure, mass)
        order = np.argsort(squared)
        level = np.searchsorted(np.cumsum(measure[order]), 0.95 * measure.sum() * (1 - 1e-12))
        radius = float(np.sqrt(squared[order[level]]))
        if radius > 0 or mass >= measure.sum():
            return radius * (1 + 1e-6)
        mass *= 2  # most points have many copies: look at more neighbours


def unit_floor(sigma: Array) -> float:
    """Return the smallest local unit allowed, a millionth of the median: a point with many copies has sigma = 0."""
    positive = sigma[sigma > 0]
    return 1e-6 * float(np.median(positive)) if len(positive) else 1.0
