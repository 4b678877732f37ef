"""Fitted graphs: squared distances of a point to the anchors it is joined to, dense or as CSR."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr
from .._runtime.threads import Threads
from .._runtime.typing import CACHE, FREE, POSITIVE, WEIGHTS, Array, Axes, Interval
from ..data.sparse_rows import largest_entries
from ..distances import LARGEST_ENTRY, MeasuredDistances, SearchedDistances
from ..neighbors import Lists, Reaches, Search
from .bridges import bridge_lengths, find_bridges
from .pair_statistics import kth, lists_of_mass, midway_radii, table_kth
from .protocols import Graph

# -- fitted graphs -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DenseGraph(Graph):
    """A graph of all pairs, in local units if ``sigma`` is not None."""

    distances: Annotated[MeasuredDistances, Axes("n d")]
    measure: Annotated[Array, Axes("n"), WEIGHTS]
    counts: Annotated[Array | None, Axes("n"), WEIGHTS] = None  # of each anchor as a neighbour; None: by its measure
    # (n, n), between the anchors; given to the caller of gram().
    table: Annotated[Array | None, CACHE] = field(repr=False, default=None)
    local: Annotated[int | None, Interval(1)] = None
    sigma: Annotated[Array | None, Axes("n"), POSITIVE] = None
    floor: Annotated[float, Interval(0)] = 0.0  # of local units
    slack: Annotated[float, FREE] = 0.0  # allowed error of a new row's squared distances

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    def gram(self, runner: Threads) -> Array:
        assert self.table is not None
        return self._in_local_units(self.table, self.sigma)

    @property
    def row_entries(self) -> int:
        return 8 * len(self.measure)  # a row is read several times: it should stay in the cache

    def without_caches(self) -> DenseGraph:
        """Return the graph without the table, which ``gram`` has returned and the caller may have overwritten."""
        return replace(self, table=None)

    def cross(self, Z: Array) -> Array:
        if self.sigma is None or self.local is None:
            return self.distances.cross(Z, self.slack)
        squared = self.distances.cross(Z)
        return self._in_local_units(squared, self._units(squared))

    def pairs(self, X: Array, Y: Array) -> Array:
        squared = self.distances.to(Y).cross(X)
        if self.sigma is None or self.local is None:
            return squared
        own, theirs = (self._units(self.distances.cross(Z)) for Z in (X, Y))
        squared /= own[:, None]
        squared /= theirs
        return squared

    def _units(self, squared: Array) -> Array:
        """Return the local units of rows from their squared distances to all anchors."""
        assert self.local is not None
        return np.maximum(np.sqrt(table_kth(squared, self.measure, self.local, self.counts)), self.floor)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.distances.sees_nothing(Z)

    def _in_local_units(self, squared: Array, own: Array | None) -> Array:
        if self.sigma is not None and own is not None:
            beyond = ~np.isfinite(squared)
            with np.errstate(invalid="ignore", over="ignore"):
                squared /= own[:, None]
                squared /= self.sigma
            squared[beyond] = np.inf
        return squared


@dataclass(frozen=True, kw_only=True)
class SparseGraph(Graph):
    """A graph whose edges satisfy a predicate; stores the radius and the local unit of each anchor."""

    search: Annotated[Search, Axes("n d")]
    kind: Literal["union", "mutual", "ball"]
    measure: Annotated[Array, Axes("n"), WEIGHTS]
    counts: Annotated[Array | None, Axes("n"), WEIGHTS] = None  # of each anchor as a neighbour; None: by its measure
    k: int = 0  # number of neighbours of union and mutual
    radii: Annotated[Array | None, Axes("n"), Interval(0)] = (
        None  # (n,) squared radii of the anchors, for union and mutual
    )
    radius: float = 0.0  # radius of a ball
    local: Annotated[int | None, Interval(1)] = None
    sigma: Annotated[Array | None, Axes("n"), POSITIVE] = None
    floor: Annotated[float, Interval(0)] = 0.0  # of local units
    # CSR: edges that join components, with the cap of their squared length.
    bridges: Annotated[csr_array | None, Axes("n n")] = None
    # Nearest anchors of the anchors, until gram().
    lists: Annotated[Lists | None, CACHE] = field(repr=False, default=None)

    @property
    def distances(self) -> SearchedDistances:
        return self.search.distances

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    def gram(self, runner: Threads) -> csr_array:
        """Return the squared distances of the anchors that are joined, (n, n)."""
        lists = self._nearest_lists(self.anchors, runner) if self.lists is None else self.lists
        if self.kind != "union" or lists is None or self.radii is None:
            out = self._rows(self.anchors, lists, runner)
            out.sort_indices()
            return out
        n = len(self.anchors)
        back_ptr, back = csr.transpose_within(lists.ptr, lists.index, lists.squared, self.radii, n)
        near = csr_array((np.empty(len(back), np.int8), back, back_ptr), shape=(n, n)).tocsc()  # its transposed pattern
        # j is among the k nearest of i, or i among those of j
        ptr, index = csr.union_rows(near.indptr, near.indices, back_ptr, back)
        kept = self._both_ways(self.anchors, self._measure(self.anchors, ptr, index, runner), runner)
        return self._as_csr(kept, self.anchors, self.sigma, runner)

    @property
    def row_entries(self) -> int:
        return self.search.row_entries

    def without_caches(self) -> SparseGraph:
        """Return the graph without the neighbour lists of the anchors, which only ``gram`` needs."""
        return replace(self, lists=None)

    def cross(self, Z: Array) -> csr_array:
        runner, beyond = Threads(1), self._beyond(Z)
        if not beyond.any():
            return self._rows(Z, self._nearest_lists(Z, runner), runner)
        rows = np.where(beyond, 0, np.cumsum(~beyond))  # rows whose squares overflow have no edges
        inside = self.cross(Z[~beyond]) if not beyond.all() else csr_array((0, len(self.anchors)))
        counts = np.append(0, np.diff(inside.indptr))[rows]
        ptr = np.append(0, np.cumsum(counts))
        return csr_array((inside.data, inside.indices, ptr), shape=(len(Z), len(self.anchors)))

    def nearest(self, Z: Array) -> Array:
        if self._beyond(Z).any():
            return self.distances.nearest(Z)
        lists = self.search.closest(Z, 1, Threads(1))
        return lists.index[lists.ptr[:-1]]

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return squared distances (len(X), len(Y)), infinite where there is no edge; radii count anchors only."""
        squared = self.distances.to(Y).cross(X)
        (radii, sigma), (their_radii, their_sigma) = (self._own(self._nearest_lists(Z, Threads(1))) for Z in (X, Y))
        units = 1.0 if sigma is None or their_sigma is None else np.multiply.outer(sigma, their_sigma)
        if radii is None or their_radii is None:
            limit = self.radius**2 * units
        else:
            limit = (np.minimum if self.kind == "mutual" else np.maximum).outer(radii, their_radii)
        kept = np.where(squared <= limit, squared, np.inf) / units
        if self.bridges is not None:
            here, there = (csr_array(self.distances.cross(Z) == 0).astype(float) for Z in (X, Y))
            copies = (here @ (self.bridges > 0).astype(float) @ there.T).toarray()
            lengths = (here @ self.bridges @ there.T).toarray() / np.maximum(copies, 1)
            kept = np.where(copies > 0, np.minimum(kept, lengths), kept)
        return kept

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.distances.sees_nothing(Z)

    @staticmethod
    def _beyond(Z: Array) -> Array:
        beyond: Array = largest_entries(Z) > LARGEST_ENTRY
        return beyond

    def _rows(self, Z: Array, lists: Lists | None, runner: Threads) -> csr_array:
        radii, sigma = self._own(lists)
        if self.kind == "ball":
            kept = self._in_ball(Z, sigma, runner)
        else:
            assert lists is not None
            assert self.radii is not None
            assert radii is not None
            own, theirs = np.repeat(radii, np.diff(lists.ptr)), self.radii[lists.index]
            limit = np.minimum(own, theirs) if self.kind == "mutual" else np.maximum(own, theirs)
            kept = lists.select(lists.squared <= limit)
        return self._as_csr(self._both_ways(Z, kept, runner), Z, sigma, runner)

    def _both_ways(self, Z: Array, lists: Lists, runner: Threads) -> Lists:
        """Return the entries that the search finds from either end."""
        found = self.search.both_ways(Z, lists, runner)
        return lists if found is None else lists.select(found)

    def _nearest_lists(self, Z: Array, runner: Threads) -> Lists | None:
        """Return the nearest anchors of each row; for a union also the anchors whose own radius reaches the row."""
        mass = max(self.k + 1 if self.radii is not None else 0, self.local or 0)
        groups = self._groups if self.kind == "union" else None
        return lists_of_mass(self.search, Z, self.measure, mass, runner, groups, self.counts) if mass else None

    def _own(self, lists: Lists | None) -> tuple[Array | None, Array | None]:
        """Return the squared radii and the local units of the listed points; None if the rule does not use them."""
        if lists is None:
            return None, None
        radii = None if self.radii is None else midway_radii(lists, self.measure, self.k, self.counts)
        if self.sigma is None or self.local is None:
            return radii, None
        return radii, np.maximum(np.sqrt(kth(lists, self.measure, self.local, self.counts)), self.floor)

    def _in_ball(self, Z: Array, sigma: Array | None, runner: Threads) -> Lists:
        if sigma is None or self.sigma is None:
            lists = self.search.within(Z, np.full(len(Z), self.radius), None, runner)
            return lists.select(lists.squared <= self.radius**2)
        lists = self.search.within(Z, self.radius * np.sqrt(sigma), self._groups, runner)
        return lists.select(lists.squared <= self.radius**2 * (sigma[lists.rows()] * self.sigma[lists.index]))

    @cached_property
    def _groups(self) -> Reaches:
        reach = self.radii if self.kind == "union" else self.sigma
        assert reach is not None
        return self.search.group(np.sqrt(reach))

    def _measure(self, Z: Array, ptr: Array, index: Array, runner: Threads) -> Lists:
        return Lists(ptr, index, self.distances.of_pairs(Z, ptr, index, runner))

    def _as_csr(self, lists: Lists, Z: Array, sigma: Array | None, runner: Threads) -> csr_array:
        across = None if self.bridges is None else find_bridges(self.bridges, lists)
        if across is not None:
            pattern = csr_array((np.empty(len(lists.index), np.int8), lists.index, lists.ptr), shape=across.shape)
            pattern = pattern.sorted_indices()
            ptr, index = csr.union_rows(pattern.indptr, pattern.indices, across.indptr, across.indices)
            lists = self._measure(Z, ptr, index, runner)
        squared = lists.squared
        if sigma is not None and self.sigma is not None:
            squared = squared / (sigma[lists.rows()] * self.sigma[lists.index])
        index, ptr = lists.index, lists.ptr
        if max(len(index), len(self.anchors)) < np.iinfo(np.int32).max:  # half the memory, and faster products
            index, ptr = index.astype(np.int32, copy=False), ptr.astype(np.int32)
        out = csr_array((squared, index, ptr), shape=(len(lists.ptr) - 1, len(self.anchors)))
        if across is not None:
            out.sort_indices()
            rows = np.repeat(np.arange(len(Z)), np.diff(across.indptr))
            for row, column, length in zip(rows, across.indices, across.data):
                row_columns = out.indices[out.indptr[row] : out.indptr[row + 1]]
                at = out.indptr[row] + np.searchsorted(row_columns, column)
                out.data[at] = min(out.data[at], length)
        return out


def with_bridges(graph: SparseGraph, gram: csr_array, pairs: Array) -> SparseGraph:
    """Return the graph with the extra edges ``pairs``; a length is capped at the longest edge at its two ends."""
    return replace(graph, bridges=bridge_lengths(gram, pairs))
