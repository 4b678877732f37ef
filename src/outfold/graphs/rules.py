"""The rules for edges, as values; the predicate of each is in the table of the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypedDict

import numpy as np

from .. import neighbors
from .._runtime.threads import Threads
from .._runtime.typing import Array, Interval
from ..bandwidths import PairStatistics
from ..data.weights import at_whole_numbers
from ..distances import PointMetric, SearchedDistances
from ..neighbors import Lists
from ..neighbors.transformers import NeighborsTransformer
from .drawing import check_memory, connecting_radius, expect_kind, unit_floor
from .fitted import DenseGraph, SparseGraph
from .pair_statistics import DenseStatistics, SearchStatistics, kth, lists_of_mass, midway_radii, table_kth
from .protocols import EdgeRule, FittedKernel, Graph


class _LocalUnits(TypedDict, total=False):
    """The fields of a fitted graph that measure in local units; empty if it does not."""

    local: int
    sigma: Array
    floor: float


def _local_units(local: int, squared: Array, counts: Array | None) -> _LocalUnits:
    """Return the local units of the anchors from their squared distances to neighbour ``local``."""
    sigma = np.sqrt(squared)
    floor = unit_floor(sigma, counts)
    return {"local": local, "sigma": np.maximum(sigma, floor), "floor": floor}


class _Rule(EdgeRule):
    """What all rules share: their words."""

    words: ClassVar[str]  # in the report; {0} is the rule
    advice: ClassVar[str]  # if the graph is disconnected

    if TYPE_CHECKING:

        @property
        def local(self) -> int | None: ...

    @property
    def neighbors(self) -> int:
        return 0

    def describe(self) -> str:
        words = self.words.format(self)
        return words if self.local is None else f"{words}, in units of neighbour {self.local}"

    def remedy(self) -> str:
        return self.advice


# -- specifications ------------------------------------------------------------------------


@dataclass(frozen=True)
class AllPairs(_Rule):
    """Every point is joined to every anchor; dense."""

    local: Annotated[int | None, Interval(1)] = None
    words = "all pairs"
    advice = "Raise epsilon"

    def statistics(self, metric: PointMetric, points: Array, measure: Array, runner: Threads) -> DenseStatistics:
        distances = metric.fit(points)
        check_memory(
            len(points),
            "Keep nearest neighbours only (n_neighbors=32) or solve on some of the points (landmarks=5000).",
        )
        return DenseStatistics(distances=distances, squared=distances.gram(runner), measure=measure)

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> DenseGraph:
        found = expect_kind(statistics, DenseStatistics)
        if self.local is None:
            slack = 0.0 if kernel is None else kernel.slack
            return DenseGraph(distances=found.distances, measure=found.measure, table=found.squared, slack=slack)
        counts = found.counts
        units = _local_units(self.local, table_kth(found.squared, found.measure, self.local, counts), counts)
        return DenseGraph(distances=found.distances, measure=found.measure, counts=counts, table=found.squared, **units)


class _SparseRule(_Rule):
    """A rule that keeps some pairs, through a neighbour search."""

    if TYPE_CHECKING:

        @property
        def search(self) -> str | NeighborsTransformer: ...

    def statistics(self, metric: PointMetric, points: Array, measure: Array, runner: Threads) -> SearchStatistics:
        distances = metric.fit(points)
        if not isinstance(distances, SearchedDistances):
            raise TypeError("Affinities by a callable have no nearest neighbours to search: keep every pair.")
        return SearchStatistics(
            search=neighbors.build(distances, self.search, runner),
            measure=measure,
            runner=runner,
            widest=float(self.neighbors or np.inf),
        )

    def _lists(self, found: SearchStatistics, runner: Threads) -> tuple[Lists | None, _LocalUnits]:
        """Return the nearest anchors of the anchors that the rule needs, if any, and the local units."""
        mass = max(self.neighbors + 1 if self.neighbors else 0, self.local or 0)
        if not mass:
            return None, {}
        counts = found.counts
        lists = lists_of_mass(found.search, found.distances.anchors, found.measure, mass, runner, counts=counts)
        if self.local is None:
            return lists, {}
        return lists, _local_units(self.local, kth(lists, found.measure, self.local, counts), counts)

    def _ball(self, statistics: PairStatistics, radius: float | Literal["auto"], runner: Threads) -> SparseGraph:
        """Return the graph of a ball; "auto" is the least radius that probably connects the points."""
        found = expect_kind(statistics, SearchStatistics)
        lists, units = self._lists(found, runner)
        if radius == "auto":
            radius = connecting_radius(found, units.get("sigma"), runner)
        return SparseGraph(
            search=found.search,
            kind="ball",
            measure=found.measure,
            counts=found.counts,
            radius=float(radius),
            lists=lists,
            **units,
        )


@dataclass(frozen=True)
class _NearestRule(_SparseRule):
    """A rule that counts neighbours."""

    k: Annotated[int, Interval(2)] = 32
    search: str | NeighborsTransformer = "auto"
    local: Annotated[int | None, Interval(1)] = None
    kind: ClassVar[Literal["union", "mutual"]]

    @property
    def neighbors(self) -> int:
        return self.k

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> SparseGraph:
        found = expect_kind(statistics, SearchStatistics)
        lists, units = self._lists(found, runner)
        assert lists is not None
        radii = midway_radii(lists, found.measure, self.k, found.counts)
        return SparseGraph(
            search=found.search,
            kind=self.kind,
            measure=found.measure,
            counts=found.counts,
            k=self.k,
            radii=radii,
            lists=lists,
            **units,
        )


@dataclass(frozen=True)
class Union(_NearestRule):
    """x and x_j are joined if either is among the other's k nearest (both counting themselves).

    ``search``: "tree", "brute" (all pairs), "cells" (the nearest cells of k-means, approximately), or an object like
    scikit-learn's KNeighborsTransformer. "auto" takes the tree where the points lie on something of few dimensions, all
    pairs of up to 8000 points, and cells of more.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Union(10, search="tree")).fit(circle(100, random_state=0)).report_.edges
    'union of 10 nearest'
    """

    kind = "union"
    words = "union of {0.k} nearest"
    advice = "Raise n_neighbors"


@dataclass(frozen=True)
class Mutual(_NearestRule):
    """x and x_j are joined if each is among the other's k nearest (both counting themselves).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Mutual(20)).fit(circle(100, random_state=0)).report_.edges
    'mutual 20 nearest'
    """

    kind = "mutual"
    words = "mutual {0.k} nearest"
    advice = "Raise k, or use Union"


@dataclass(frozen=True)
class Ball(_SparseRule):
    """x and x_j are joined if d <= ``radius`` (in local units if ``local``).

    >>> from outfold import Isomap
    >>> from outfold.datasets import circle
    >>> Isomap(n_neighbors=Ball(0.5)).fit(circle(100, random_state=0)).report_.edges
    'paths along the ball of radius 0.5'
    """

    radius: Annotated[float | Literal["auto"], Interval(0.0, open_low=True)]
    search: str | NeighborsTransformer = "auto"
    local: Annotated[int | None, Interval(1)] = None
    words = "ball of radius {0.radius:.4g}"
    advice = "Raise the radius"

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> SparseGraph:
        return self._ball(statistics, self.radius, runner)


@dataclass(frozen=True)
class Threshold(_SparseRule):
    """x and x_j are joined if their Gaussian weight reaches ``eta``: a ball of radius sqrt(-2 epsilon log eta).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Threshold(0.01)).fit(circle(100, random_state=0)).report_.edges
    'weights of at least 0.01'
    """

    eta: Annotated[float, Interval(0.0, 1.0, open_low=True)]
    search: str | NeighborsTransformer = "auto"
    local: Annotated[int | None, Interval(1)] = None
    words = "weights of at least {0.eta:g}"
    advice = "Raise epsilon or lower the threshold"

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> SparseGraph:
        assert kernel is not None
        return self._ball(statistics, kernel.reach(self.eta), runner)


@dataclass(frozen=True)
class DenseOrNearest(_Rule):
    """``AllPairs`` up to ``dense_up_to`` anchors, ``Union(k)`` beyond."""

    local: Annotated[int | None, Interval(1)] = None
    dense_up_to: int = 3000
    k: Annotated[int, Interval(2)] = 32
    words = "all pairs up to {0.dense_up_to} points, union of {0.k} nearest beyond"
    advice = "Raise n_neighbors or epsilon"

    def choose(self, n: int) -> AllPairs | Union:
        return AllPairs(self.local) if n <= self.dense_up_to else Union(self.k, local=self.local)

    def statistics(self, metric: PointMetric, points: Array, measure: Array, runner: Threads) -> PairStatistics:
        return self.choose(len(points)).statistics(metric, points, measure, runner)

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> Graph:
        return self.choose(len(statistics.measure)).draw(statistics, kernel, runner)


def check_k(edges: EdgeRule, counts: Array) -> None:
    """Raise ValueError if k is not smaller than the number of anchors, counted as neighbours."""
    n = at_whole_numbers(float, float(counts.sum()))
    if edges.neighbors >= n:
        raise ValueError(
            f"n_neighbors={edges.neighbors} must be smaller than the number of anchors, n = {n:g} (equal "
            "rows count once, weights below 1 as their fraction). Lower it, or pass n_neighbors=None to keep every "
            "pair."
        )
