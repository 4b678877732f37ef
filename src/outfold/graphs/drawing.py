"""Construction of a fitted graph from a rule for edges, and the memory checks before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import neighbors
from .._runtime.memory import check_fits
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..neighbors import Lists
from .fitted import DenseGraph, SparseGraph, midway_radii
from .pair_statistics import DenseStatistics, SearchStatistics, kth, lists_of_mass, table_kth
from .rules import AllPairs, Ball, Mutual, Union


def collect_statistics(edges: Any, metric: Any, points: Array, measure: Array, runner: Threads) -> Any:
    """Return statistics of the anchors' distances, from which a bandwidth rule chooses epsilon."""
    distances = metric.fit(points)
    if isinstance(edges, AllPairs):
        check_memory(
            len(points),
            "Keep nearest neighbours only (n_neighbors=32) or solve on some of the points (landmarks=5000).",
        )
        return DenseStatistics(distances, distances.gram(runner), measure)
    widest = float(edges.k) if isinstance(edges, Union | Mutual) else np.inf
    search = neighbors.build(distances, edges.search)
    return SearchStatistics(search, measure, runner, widest)


def check_memory(n: int, instead: str) -> None:
    """Raise MemoryError if a dense (n, n) table and the memory of the solver do not fit."""
    check_fits(2.2 * 8 * n * n, f"A dense kernel of n = {n} points needs", instead)


def check_table(rows: int, columns: int, what: str, instead: str) -> None:
    """Raise MemoryError if a (points, anchors) table and a kernel between the anchors do not fit."""
    needed = 8.0 * rows * columns + 2.2 * 8 * columns**2
    check_fits(needed, f"{what} between {rows} points and {columns} anchors need", f"Take fewer: {instead}.")


def draw(edges: Any, found: Any, kernel: Any, runner: Threads) -> Any:
    """Return the fitted graph of the rule ``edges``; the kernel, and so epsilon, is fitted already."""
    if isinstance(edges, AllPairs):
        if edges.local is None:
            return DenseGraph(found.distances, found.measure, found.squared, slack=kernel.slack)
        sigma = np.sqrt(table_kth(found.squared, found.measure, edges.local))
        floor = unit_floor(sigma)
        unit = np.maximum(sigma, floor)
        return DenseGraph(found.distances, found.measure, found.squared, edges.local, unit, floor)
    measure = found.measure
    nearby = isinstance(edges, Union | Mutual)
    mass = max(edges.k + 1 if nearby else 0, edges.local or 0)
    lists = lists_of_mass(found.search, found.distances.anchors, measure, mass, runner) if mass else None
    local: dict[str, Any] = {}
    if edges.local is not None and lists is not None:
        sigma = np.sqrt(kth(lists, measure, edges.local))
        floor = unit_floor(sigma)
        local = {"local": edges.local, "sigma": np.maximum(sigma, floor), "floor": floor}
    if nearby and lists is not None:
        radii = midway_radii(lists, measure, edges.k)
        kind: Any = "union" if isinstance(edges, Union) else "mutual"
        return SparseGraph(found.search, kind, measure, edges.k, radii, lists=lists, **local)
    radius = edges.radius if isinstance(edges, Ball) else kernel.reach(edges.eta)
    if radius == "auto":
        radius = _connecting_radius(found, local.get("sigma"), runner)
    return SparseGraph(found.search, "ball", measure, radius=float(radius), lists=lists, **local)


def _connecting_radius(found: SearchStatistics, sigma: Array | None, runner: Threads) -> float:
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
