"""Geodesics for Isomap: lengths of shortest paths through a neighbour graph.

    D(x, y) = min over the neighbours i of x of  d(x, x_i) + D(x_i, y)

A point is linked to the graph through its k nearest training points (or those within the radius; or, of a mutual graph,
those of its k nearest that have it within their own radius, which reaches halfway from their k-th to their (k+1)-th
neighbour; or the nearest if there is no such point). y runs over the anchors: all training points, or landmarks. The
model stores a table (n, anchors) of geodesics through the graph of all training points. A training point is its own
nearest neighbour, so its row is its row of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array

from .. import neighbors
from .._loops import shortest_paths as path_loops
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import WEIGHTS, WHOLE, Array, Axes, Index, Interval
from ..bandwidths import ALL_EQUAL
from ..data.places import find_places
from ..data.sources import Source
from ..data.sparse_rows import SparseRows, all_rows_equal, as_rows, stack_rows
from ..data.weights import at_whole_numbers
from ..distances import GivenNeighbors, GivenTable, Metric, SearchedDistances, clip_entries
from ..graphs import Ball, Mutual, Union, components, drawing
from ..graphs.components import Components
from ..graphs.fitted import SparseGraph
from ..graphs.given import with_diagonal
from ..graphs.pair_statistics import SearchStatistics, lists_of_mass, midway_radii, select_nearest
from ..graphs.protocols import ValueGeometry
from ..landmarks import AllRows, Anchors, along_the_tree, given_columns
from ..neighbors import Lists, Search
from ..neighbors.lists import sort_rows
from ..trust import Nearness
from .centred import CentredKernel, CentredRule, Centring, negative_concerns
from .concerns import Concern, Importance
from .costs import Case, Cost, Stage
from .expansion import EigenPairs, Expansion
from .operator import RowRule
from .problem import BuiltProblem, Eigenproblem, Facts

LANES = 32  # sources whose geodesics are computed together

NO_ROW = -1  # index of a node that is not a training row


@dataclass(frozen=True)
class PathRows:
    """-D^2 / 2 of some points to the anchors; ``@`` multiplies it with a basis without storing the matrix."""

    lists: Lists  # the nodes each point is linked to directly
    table: Array  # (nodes, anchors): D

    def __matmul__(self, basis: Array) -> Array:
        rows = len(self.lists.ptr) - 1
        out = np.empty((rows, basis.shape[1]))
        lengths = np.sqrt(self.lists.squared)
        path_loops.through_neighbours(
            self.lists.ptr, self.lists.index, lengths, self.table, np.ascontiguousarray(basis), out, 0, rows
        )
        out *= -0.5
        return out


@dataclass(frozen=True, kw_only=True)
class Geodesics(ValueGeometry):
    """-D^2 / 2 to the anchors, and the support of a point by its distance to the nearest training point."""

    search: Annotated[Search, Axes("n>N d")]  # over the nodes of the graph
    measure: Annotated[Array, Axes("N"), WEIGHTS]  # of the nodes
    counts: Annotated[Array | None, Axes("N"), WEIGHTS] = None  # of each node as a neighbour; None: by its measure
    k: int  # neighbours of a new point; 0: those within the radius
    radius: float
    radii: Annotated[Array | None, Axes("N"), Interval(0)] = (
        None  # squared, of the nodes of a mutual graph; None: of another graph
    )
    table: Annotated[Array, Axes("N n"), Interval(0)]  # (nodes, anchors): D
    at: Annotated[Array, Axes("n"), Index("N"), WHOLE]  # indices of the anchors among the nodes
    nearness: Nearness

    @property
    def anchors(self) -> Array:
        return self.search.distances.anchors[self.at]

    @property
    def row_entries(self) -> int:
        return max(512, self.search.row_entries)

    def values(self, Z: Array) -> tuple[PathRows, Array]:
        lists = self._steps(clip_entries(Z))
        return PathRows(lists, self.table), self.nearness.log_mass(lists.squared[lists.ptr[:-1]])

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return -D^2 / 2 between any rows, through training points; equal rows are at distance 0."""
        if len(self.at) < len(self.table):
            raise ValueError(
                f"Geodesics are known to the {len(self.at)} landmarks only, not between other rows: take "
                "against='anchors', or fit without landmarks."
            )
        own, theirs = (self._steps(clip_entries(Z)) for Z in (X, Y))
        lengths = np.sqrt(own.squared), np.sqrt(theirs.squared)
        inward = np.empty((len(self.table), len(Y)))  # from each node to each y
        for j in range(len(Y)):
            part = slice(theirs.ptr[j], theirs.ptr[j + 1])
            inward[:, j] = (self.table[:, theirs.index[part]] + lengths[1][part]).min(axis=1)
        out = np.empty((len(X), len(Y)))
        for i in range(len(X)):
            part = slice(own.ptr[i], own.ptr[i + 1])
            out[i] = (inward[own.index[part]] + lengths[0][part, None]).min(axis=0)
        out[self.search.distances.to(Y).cross(X) == 0] = 0.0
        return -0.5 * out**2

    def nearest(self, Z: Array) -> Array:
        if len(self.at) == len(self.table):
            lists = self.search.closest(clip_entries(Z), 1, Threads(1))
            return lists.index[lists.ptr[:-1]]  # every node is an anchor, in the same order
        return self.search.distances.among(self.at).nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.search.distances.sees_nothing(Z)

    def arrange(self, Z: Array, runner: Threads) -> Array | None:
        """Return an order in which rows with the same neighbours are adjacent: they read the same table rows."""
        if self.sees_nothing(Z) is not None:
            return None
        lists = self.search.closest(clip_entries(Z), 1, runner)
        return np.argsort(lists.index[lists.ptr[:-1]], kind="stable")

    def _steps(self, Z: Array) -> Lists:
        """Return the nodes each point is linked to directly, nearest first."""
        if self.radii is not None:
            lists = lists_of_mass(self.search, Z, self.measure, self.k + 1, Threads(1), counts=self.counts)
            return _mutual(lists, midway_radii(lists, self.measure, self.k, self.counts), self.radii)
        if self.k:
            looked = self.k if self.counts is None else self.k + 1
            lists = lists_of_mass(self.search, Z, self.measure, looked, Threads(1), counts=self.counts)
            return select_nearest(lists, self.measure, self.k, self.counts)
        nearest = self.search.closest(Z, 1, Threads(1))
        reach = np.maximum(self.radius**2, nearest.squared[nearest.ptr[:-1]])  # if the ball is empty: the nearest
        lists = self.search.within(Z, np.sqrt(reach), None, Threads(1))
        return sort_rows(lists.select(lists.squared <= np.repeat(reach, np.diff(lists.ptr))), Threads(1))


@dataclass(frozen=True, kw_only=True)
class Geodesic(Eigenproblem):
    """Isomap: -D^2 / 2 between the anchors through the graph of all rows, centred."""

    metric: Metric | None  # None: distances are precomputed
    edges: Union | Mutual | Ball  # the k of Union and Mutual counts the point itself
    normalization: Centring
    components: str = "warn"
    fewer: bool = False  # of few points take fewer neighbours than `edges` counts, instead of raising

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def includes_itself(self) -> bool:
        return True

    @property
    def sees_every_row(self) -> bool:
        return True  # a node of the graph

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        nodes, at, weights = self._nodes(rows, anchors, measure)
        return self._build(nodes, at, weights, needed, runner)

    def _nodes(self, rows: Source, anchors: Anchors, measure: Array) -> tuple[Anchors, Array, Array]:
        """Return the nodes of the graph, the indices of the anchors among them, and the measure of the anchors.

        Nodes are sorted along a tree, so that near nodes are adjacent in memory.
        """
        if self.given:
            given_columns(anchors)
        nodes = AllRows().select(rows, measure, np.random.default_rng())
        members = nodes.index
        assert members is not None
        if anchors.index is None:
            nodes, own = _add_points(nodes, anchors.points)
        else:
            own = np.searchsorted(members, anchors.index)
        weights = np.bincount(own, weights=anchors.measure, minlength=len(nodes.measure))
        tagged = along_the_tree(Anchors(nodes.points, np.arange(len(weights)), nodes.measure), self.metric)
        order = tagged.index
        assert order is not None
        at = np.flatnonzero(weights[order])
        return nodes.at(order), at, weights[order][at]

    def _build(self, nodes: Anchors, at: Array, weights: Array, needed: int, runner: Threads) -> BuiltProblem:
        counts = nodes.counts(self.given)
        n = at_whole_numbers(float, float((nodes.measure if counts is None else counts).sum()))
        if not (self.given and isinstance(nodes.points, SparseRows)) and all_rows_equal(nodes.points):
            raise ValueError(ALL_EQUAL)
        if self.fewer and isinstance(self.edges, Union) and 2 <= n < self.edges.k:
            fewer = replace(self, edges=replace(self.edges, k=int(n)))
            return fewer._build(nodes, at, weights, needed, runner).of_few(self.edges.k - 1)
        self._check_sizes(n, len(nodes.measure), at)
        distances: SearchedDistances
        if self.metric is not None:
            distances = self.metric.fit(nodes.points)
        else:
            table = as_rows(nodes.points[:, nodes.index])
            if isinstance(table, SparseRows):  # a node is on the path from itself, whether its row says so or not
                distances = GivenNeighbors(SparseRows(with_diagonal(table)))
            else:
                distances = GivenTable(table)
        search = neighbors.build(distances, self.edges.search, runner)
        graph: SparseGraph = self.edges.draw(
            SearchStatistics(search=search, measure=nodes.measure, runner=runner, counts=counts), None, runner
        )
        lengths = graph.gram(runner)
        np.sqrt(lengths.data, out=lengths.data)
        pattern = csr_array((np.ones(lengths.nnz), lengths.indices, lengths.indptr), lengths.shape)
        parts = components.find(pattern, nodes.measure)
        notes: tuple[Concern, ...] = ()
        if parts.count > 1:
            if self.components == "largest":
                return self._within_largest(nodes, at, weights, parts, needed, runner)
            lengths, notes = self._join_components(lengths, parts, distances)
        nearness, reference = Nearness.of(_nearest_elsewhere(lengths), nodes.measure)
        table = shortest_paths(lengths, at, runner)
        K = _kernel(table, at, runner)
        k = graph.k - 1 if graph.kind == "union" else graph.k
        geometry = Geodesics(
            search=search,
            measure=nodes.measure,
            counts=counts,
            k=k,
            radius=graph.radius,
            radii=graph.radii if graph.kind == "mutual" else None,
            table=table,
            at=at,
            nearness=nearness,
        )
        operator = self.normalization.fit(K, weights, runner)
        return BuiltProblem(
            anchors=Anchors(nodes.points[at], _row_numbers(nodes, at), weights),
            operator=operator,
            normalization=self.normalization,
            rule=CentredRule.of(operator, geometry),
            reference=reference,
            columns=nodes.index if self.given else None,
            edges=f"paths along the {self._describe(graph)}" + neighbors.approximation(search.recall),
            recall=search.recall,
            degree=lengths.nnz / len(nodes.measure),
            notes=notes,
        )

    def _check_sizes(self, n: float, nodes: int, at: Array) -> None:
        if not isinstance(self.edges, Ball) and self.edges.k > n:
            raise ValueError(
                f"n_neighbors={self._now()} must be smaller than the number of points, n = {n:g} (equal rows "
                "count once, weights below 1 as their fraction). Lower it."
            )
        drawing.check_table(nodes, len(at), "Geodesics", "landmarks=1000")

    def _describe(self, graph: SparseGraph) -> str:
        if graph.kind == "union":
            return f"union of {graph.k - 1} nearest neighbours"
        if isinstance(self.edges, Ball):
            return replace(self.edges, radius=graph.radius).describe()
        return self.edges.describe()

    def _within_largest(
        self,
        nodes: Anchors,
        at: Array,
        weights: Array,
        parts: Components,
        needed: int,
        runner: Threads,
    ) -> BuiltProblem:
        inside = parts.labels == 0
        kept = np.flatnonzero(inside[at])
        enough = self.edges.k if not (isinstance(self.edges, Ball) or self.fewer) else 0
        counts = nodes.counts(self.given)
        if len(kept) < needed + 1 or (nodes.measure if counts is None else counts)[inside].sum() <= enough:
            raise ValueError(
                f"The largest of {parts.count} components holds {len(kept)} of {len(at)} anchors: too few to embed. "
                "Raise n_neighbors."
            )
        place = np.cumsum(inside) - 1
        return self._build(nodes.at(np.flatnonzero(inside)), place[at[kept]], weights[kept], needed, runner)

    def _join_components(
        self, lengths: csr_array, parts: Components, distances: SearchedDistances
    ) -> tuple[csr_array, tuple[Concern, ...]]:
        """Return the graph with the shortest bridges between its components, and the notes for the report."""
        told = f"The neighbour graph has {parts.describe()}, so some geodesics are infinite."
        now = f"{self.edges.remedy()} (now {self._now()})"
        if self.components == "error":
            if isinstance(distances, GivenNeighbors):
                raise ValueError(f"{told} {now}, store more neighbours of each node, or pass components='largest'.")
            raise ValueError(f"{told} {now} or pass components='join' or 'largest'.")
        pairs = components.bridges(parts, distances)
        across = np.array([np.sqrt(distances.between(pairs[[i], 0], pairs[[i], 1])[0, 0]) for i in range(len(pairs))])
        own, ends = lengths.tocoo(), np.vstack([pairs, pairs[:, ::-1]]).T
        rows, columns = (np.append(a, b) for a, b in zip((own.row, own.col), ends))
        joined = csr_array((np.concatenate([own.data, across, across]), (rows, columns)), shape=lengths.shape)
        if self.components == "join":
            return joined, ()
        text = f"{told} They were joined by the shortest bridges. {now}, or pass components='join' if that is meant."
        return joined, (Concern(Importance.PIECES, text),)

    def _now(self) -> str:
        if isinstance(self.edges, Ball):
            return f"{self.edges.radius}"
        return f"{self.edges.k - 1}" if isinstance(self.edges, Union) else f"Mutual({self.edges.k})"

    def cost(self, case: Case) -> Cost:
        n, m = case.rows, case.anchors
        solver, solve = case.dense_solve(m, "krylov")
        stages = [
            Stage("neighbours", 34.0 * n * 11, case.search(n, n, 11)),
            Stage("geodesics", 8.0 * n * m + 8.0 * m * m + 40.0 * n * 11, n * m * 1e-8 / case.cores),
            replace(solve, bytes=solve.bytes + 8.0 * n * m),
        ]
        return Cost("geodesics", solver, case.beside_a_search(n, stages))

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion:
        assert isinstance(rule, CentredRule)
        assert isinstance(rule.geometry, Geodesics)
        return GeodesicKernel(rule, rule.geometry, pairs)

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        return negative_concerns(report, self.normalization.signed)


def _add_points(nodes: Anchors, points: Array) -> tuple[Anchors, Array]:
    """Return the nodes and the points that equal none of them, and the node of each point.

    A point that equals several nodes is the first of them; points that equal each other are one node.
    """
    count, together = len(nodes.points), stack_rows([nodes.points, points])
    places = find_places(together)
    first = np.arange(count, len(together)) if places is None else places.first[places.member[count:]]
    new = np.unique(first[first >= count])
    index = np.append(np.asarray(nodes.index), np.full(len(new), NO_ROW))
    every = Anchors(together[np.append(np.arange(count), new)], index, np.append(nodes.measure, np.ones(len(new))))
    return every, np.where(first < count, first, count + np.searchsorted(new, first))


def _mutual(lists: Lists, own: Array, theirs: Array) -> Lists:
    """Return the entries within the squared radii at both ends; of a row without such an entry its nearest."""
    rows, start = lists.rows(), lists.ptr[:-1]
    keep = lists.squared <= np.minimum(own[rows], theirs[lists.index])
    alone = (np.bincount(rows[keep], minlength=len(start)) == 0) & (np.diff(lists.ptr) > 0)
    keep[start[alone]] = True
    return lists.select(keep)


def _row_numbers(nodes: Anchors, at: Array) -> Array | None:
    """Return the training rows of some nodes; None if one of them is not a training row."""
    rows = None if nodes.index is None else nodes.index[at]
    return None if rows is None or (rows == NO_ROW).any() else rows


def shortest_paths(lengths: csr_array, sources: Array, runner: Threads) -> Array:
    """Return the geodesics from each node to each source, (nodes, sources)."""
    ptr, index = (part.astype(np.int64) for part in (lengths.indptr, lengths.indices))
    n, count = lengths.shape[0], len(sources)
    order = path_loops.group_sources(ptr, index, sources, LANES)
    out = np.empty((n, count))
    filled = out.T if count == n else out  # a symmetric table is faster to fill by source

    def find(block: slice) -> None:
        path_loops.shortest_paths(ptr, index, lengths.data, sources, order, LANES, filled, block.start, block.stop)

    blocks = [slice(low, min(low + 4 * LANES, count)) for low in range(0, count, 4 * LANES)]
    runner.each(find, blocks, "geodesics")
    return out


def _kernel(table: Array, at: Array, runner: Threads) -> Array:
    """Return -D^2 / 2 between the anchors."""
    out = np.empty((len(at), len(at)))

    def fill(block: slice) -> None:
        rows = np.take(table, at[block], axis=0, out=out[block])
        rows *= rows
        rows *= -0.5

    runner.each(fill, row_blocks(len(at), len(at)), "kernel")
    return out


def _nearest_elsewhere(lengths: csr_array) -> Array:
    """Return the squared length of each node's shortest edge of positive length."""
    return np.square(np.minimum.reduceat(np.where(lengths.data > 0, lengths.data, np.inf), lengths.indptr[:-1]))


class GeodesicKernel(CentredKernel):
    """Isomap: the anchors are in the order of the table of geodesics, from which their values are read."""

    def __init__(self, rule: CentredRule, geometry: Geodesics, pairs: EigenPairs) -> None:
        anchors = np.asarray(geometry.search.distances.anchors[geometry.at], dtype=float)
        measure = np.ones(len(anchors)) if rule.measure is None else rule.measure
        super().__init__(rule, replace(pairs, anchors=anchors, measure=measure))

    def to_anchors(self, X: Array) -> Array:
        values = self.rule.geometry.values(X)[0] @ np.eye(len(self.anchors))
        level = float(self.rule.centre @ self._share)
        result: Array = values - (values @ self._share)[:, None] - (self.rule.centre - level)
        return result
