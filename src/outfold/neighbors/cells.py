"""Approximate search in the nearest of many cells (inverted lists: Jegou, Douze and Schmid 2011), by matrix products.

The cells are those of k-means. A row is compared with the anchors in its ``probes`` nearest cells, and only with these.
The cells of a row follow from the row and the centres alone, so the search answers a training row and an equal new one
alike, alone and in any batch. Everything it needs are arrays: centres, and the anchors of each cell.

``probes`` is set by a sample of anchors whose neighbours are searched among all anchors: so many cells that at least
``AIMED`` of the neighbours are found, less two standard errors of the sample. Another sample measures the recall.

Distances come from products in single precision, about the centre of a cell, less their largest possible rounding.
The least of these bounds select a few more anchors than are wanted, whose distances are computed in double precision.
Where the bounds do not exclude all others, as among many equal distances, or where a row is very far away, it is
searched again in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._loops import cells as loops
from .._runtime.threads import Threads, blas_threads, row_blocks
from .._runtime.typing import WHOLE, Array, Axes, Index, Interval
from ..distances import Distances
from .brute import Brute
from .centres import FAR, Centres, find_means, rounding
from .lists import Lists, nearest_first, sort_rows
from .search import RECALLED, Reaches, Search

CELLS_PER_ROOT = 1.75  # cells, relative to the square root of the number of anchors
AIMED = 0.95  # share of the nearest neighbours that the searched cells should hold at least
CHECKED = 160  # anchors in each of the two samples
SPARE = 12  # anchors beyond those wanted that are selected in single precision
ROWS_AT_ONCE = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Cells(Search):
    """Search among the anchors in the ``probes`` nearest cells of a row, for Euclidean distances."""

    distances: Annotated[Distances, Axes("n d")]
    centres: Annotated[Array, Axes("q d")]
    members: Annotated[Array, Axes("n"), Index("n"), WHOLE]  # the anchors, cell after cell
    sizes: Annotated[Array, Axes("q"), WHOLE]  # number of anchors in each cell
    probes: Annotated[int, Interval(1)]
    recall: Annotated[float, Interval(0.0, 1.0)]  # share of the ``RECALLED`` nearest that the search returns
    exact: ClassVar[bool] = False
    row_entries: ClassVar[int] = 256

    @classmethod
    def of(cls, distances: Distances, runner: Threads) -> Cells:
        """Return the cells of the anchors, and so many probes that ``AIMED`` of the neighbours are found."""
        points = distances.anchors
        with blas_threads(1):  # products of several threads differ by rounding
            centres = find_means(points, max(2, int(CELLS_PER_ROOT * np.sqrt(len(points)))), runner)
            cell = Centres(centres).nearest(points, 1, runner)[:, 0]
        sizes, members = np.bincount(cell, minlength=len(centres)), np.argsort(cell, kind="stable")
        cells = cls(distances=distances, centres=centres, members=members, sizes=sizes, probes=len(centres), recall=1.0)
        ranks = cells._ranks_of_neighbors(cell, runner)
        chosen, checked = ranks[: len(ranks) // 2], ranks[len(ranks) // 2 :]
        probes = _count_probes(chosen, len(centres))
        fewer = replace(cells, probes=probes, recall=float((checked < probes).mean()))
        fewer._cache.update(cells._cache)
        return fewer

    def _ranks_of_neighbors(self, cell: Array, runner: Threads) -> Array:
        """Return at which place the cells of the nearest neighbours are among the cells of a row, (rows, ``RECALLED``).

        For a random sample of the anchors, whose neighbours are searched in all cells. ``cell``: that of each anchor.
        """
        points = self.distances.anchors
        rows = np.random.default_rng(1).permutation(len(points))[: 2 * CHECKED]
        sample = np.ascontiguousarray(points[rows], dtype=float)
        k = min(RECALLED + 1, len(points))
        with blas_threads(1):
            order = self._centres.nearest(sample, len(self.centres), runner)
        lists = self._closest(sample, order, k, runner)
        places = np.empty(order.shape, np.int64)
        np.put_along_axis(places, order, np.arange(order.shape[1])[None], axis=1)
        nearest = lists.index[lists.ptr[:-1, None] + np.arange(1, k)]
        ranks: Array = np.take_along_axis(places, cell[nearest], axis=1)
        return ranks

    @cached_property
    def _ends(self) -> Array:
        return np.append(0, np.cumsum(self.sizes))

    def _place(self, runner: Threads) -> tuple[Array, Array]:
        """Return the anchors about the centres of their cells, cell after cell, in single precision, and their squares.

        They are computed once.
        """
        if "placed" not in self._cache:
            points, ends = self.distances.anchors, self._ends
            placed, squares = np.empty(points.shape, np.float32), np.empty(len(points), np.float32)

            def fill(part: slice) -> None:
                for cell in range(part.start, part.stop):
                    at = slice(ends[cell], ends[cell + 1])
                    placed[at] = self._centres.place(points[self.members[at]], self.centres[cell])
                    squares[at] = np.einsum("ij,ij->i", placed[at], placed[at])

            runner.run(fill, row_blocks(len(self.centres), len(points) * points.shape[1] // len(self.centres)))
            self._cache["placed"] = placed, squares
        return self._cache["placed"]

    @cached_property
    def _cache(self) -> dict[str, tuple[Array, Array]]:
        return {}

    @cached_property
    def _centres(self) -> Centres:
        return Centres(self.centres)

    @cached_property
    def _of_centres(self) -> Brute:
        return Brute(self._centres.exactly)

    def _probes_of(self, Z: Array, runner: Threads) -> Array:
        """Return the ``probes`` nearest cells of each row, about nearest first."""
        with blas_threads(1):
            return self._centres.nearest(Z, self.probes, runner)

    def closest(self, Z: Array, k: int, runner: Threads, groups: Reaches | None = None) -> Lists:
        k = min(len(self.distances.anchors), k)
        parts = []
        for start in range(0, len(Z), ROWS_AT_ONCE):
            rows = Z[start : start + ROWS_AT_ONCE]
            lists = self._closest(rows, self._probes_of(rows, runner), k, runner)
            parts.append(lists if groups is None else self._add_reached(rows, lists, groups, runner))
        return parts[0] if len(parts) == 1 else _join(parts)

    def _closest(self, Z: Array, probed: Array, k: int, runner: Threads) -> Lists:
        """Return the k nearest anchors of each row among those in the cells ``probed``, ties included."""
        wide = min(len(self.distances.anchors), k + SPARE)
        best = np.full((len(Z), wide), np.inf, np.float32)
        found = np.full((len(Z), wide), -1, np.int64)
        near = np.full(len(Z), np.inf)  # squared distance to the nearest centre

        def keep(pairs: _Pairs) -> None:
            loops.keep_smallest(pairs.table, pairs.members, pairs.rows, best, found)
            near[pairs.rows] = np.minimum(near[pairs.rows], pairs.own)

        self._visit(Z, probed, keep, runner)
        B = rounding(Z.shape[1])
        kept = best <= (best[:, k - 1] * (1 + 4 * B) + 8 * B * near)[:, None]  # about those that may be the k nearest
        lists = self._measured_lists(Z, np.where(kept, found, -1), probed, runner)
        last = _kth(lists, k)
        others = best[np.arange(len(Z)), np.minimum(kept.sum(axis=1), wide - 1)]  # a bound of all that are not kept
        unsure = ~(last < np.inf) | (others < np.inf) & (others <= last / self._centres.unit**2) | (near > FAR**2)
        lists = lists.select(lists.squared <= np.repeat(last, np.diff(lists.ptr)))
        if unsure.any():
            rows = np.flatnonzero(unsure)
            lists = _replace(lists, rows, self._again(Z[rows], probed[rows], k, runner))
        return lists

    def _measured_lists(self, Z: Array, found: Array, probed: Array, runner: Threads) -> Lists:
        """Return the anchors ``found`` (-1: none) with their squared distances, nearest first."""
        there = found >= 0
        ptr, index = np.append(0, np.cumsum(there.sum(axis=1))), found[there]
        order = np.argsort(probed[:, 0], kind="stable")
        return sort_rows(Lists(ptr, index, self.distances.of_pairs_along(order, Z, ptr, index, runner)), runner)

    def _again(self, Z: Array, probed: Array, k: int, runner: Threads) -> Lists:
        """Return the k nearest of the rows, with ties, in double precision; further cells where these hold too few."""
        ends, parts = self._ends, []
        for z, cells in zip(Z, probed):
            if self.sizes[cells].sum() < k:
                every = self._of_centres.closest(z[None], len(self.centres), Threads(1)).index
                cells = every[: 1 + int(np.searchsorted(np.cumsum(self.sizes[every]), k))]
            index = np.sort(np.concatenate([self.members[ends[cell] : ends[cell + 1]] for cell in cells]))
            ptr = np.array([0, len(index)])
            squared = self.distances.of_pairs(z[None], ptr, index, Threads(1))
            order = np.argsort(squared, kind="stable")
            order = order[: np.searchsorted(squared[order], squared[order[k - 1]], side="right")]
            parts.append(Lists(np.array([0, len(order)]), index[order], squared[order]))
        return _join(parts)

    def within(self, Z: Array, radii: Array, groups: Reaches | None, runner: Threads) -> Lists:
        reach = np.ones(len(self.distances.anchors)) if groups is None else groups.squared
        pieces: dict[tuple[int, ...], tuple[Array, Array]] = {}

        def keep(pairs: _Pairs) -> None:
            bound = np.square(radii[pairs.rows])[:, None] * reach[pairs.members] * (1 + 1e-6)
            row, member = np.nonzero(pairs.table <= bound / self._centres.unit**2)
            pieces[pairs.slot, pairs.cell, int(pairs.rows[0])] = pairs.rows[row], pairs.members[member]

        self._visit(Z, self._probes_of(Z, runner), keep, runner)
        parts = [pieces[at] for at in sorted(pieces)]
        rows, index = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        order = np.lexsort((index, rows))
        ptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(Z))))
        index = index[order]
        return Lists(ptr, index, self.distances.of_pairs(Z, ptr, index, runner))

    def _add_reached(self, Z: Array, lists: Lists, groups: Reaches, runner: Threads) -> Lists:
        """Return the lists with the anchors in the searched cells that reach a row."""
        reached = self.within(Z, np.ones(len(Z)), groups, runner)
        rows = np.concatenate([lists.rows(), reached.rows()])
        index = np.concatenate([lists.index, reached.index])
        pairs = np.unique(rows * len(self.distances.anchors) + index)
        ptr = np.append(0, np.cumsum(np.bincount(pairs // len(self.distances.anchors), minlength=len(Z))))
        return nearest_first(self.distances, Z, ptr, pairs % len(self.distances.anchors), runner)

    def adjacent(self) -> Array:
        return self.members

    def both_ways(self, Z: Array, lists: Lists, runner: Threads) -> Array:
        """Return which entries lie in each other's ``probes`` nearest cells."""
        own, reach = self._nearest_cells(Z, runner)
        counts = np.diff(lists.ptr)
        back = csr_array(
            (np.ones(len(lists.index), np.int8), lists.index, lists.ptr), shape=(len(Z), len(self._cell[0]))
        )
        back = back.tocsc()
        there = self._of_centres.distances.of_pairs(Z, lists.ptr, self._cell[0][lists.index], runner)
        here = np.empty(len(there))
        order = np.argsort(lists.index, kind="stable")  # entry by entry in the order of the anchors
        here[order] = self._of_centres.distances.of_pairs(
            self.distances.anchors, back.indptr, own[lists.rows()[order]], runner
        )
        found: Array = (there <= np.repeat(reach, counts)) & (here <= self._cell[1][lists.index])
        return found

    @cached_property
    def _cell(self) -> tuple[Array, Array]:
        """The cell of each anchor, and the squared distance to the last of its ``probes`` nearest centres."""
        cell = np.empty(len(self.members), np.int64)
        cell[self.members] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return cell, self._nearest_cells(self.distances.anchors, Threads())[1]

    def _nearest_cells(self, Z: Array, runner: Threads) -> tuple[Array, Array]:
        """Return the nearest cell of each row, and the squared distance to the last of the ``probes`` nearest."""
        lists = self._of_centres.closest(Z, self.probes, runner)
        return lists.index[lists.ptr[:-1]], lists.squared[lists.ptr[:-1] + self.probes - 1]

    def group(self, reach: Array) -> Reaches:
        return Reaches(np.square(reach), np.empty(0))

    def _visit(self, Z: Array, probed: Array, use: Callable[[_Pairs], None], runner: Threads) -> None:
        """Call ``use`` with squared distances of each row to the anchors in its cells: nearest cells of all rows first.

        In a round each row has one cell, so no two calls of a round have a row in common. Where every row is compared
        with all cells, threads share the rows instead.
        """
        self._place(runner)
        if probed.shape[1] == len(self.centres):

            def compare(rows: slice) -> None:
                for cell in np.flatnonzero(self.sizes):
                    use(self._measure(Z, np.arange(rows.start, rows.stop), int(cell), 0))

            step = -(-len(Z) // runner.workers)
            with blas_threads(1):
                runner.run(compare, [slice(at, min(at + step, len(Z))) for at in range(0, len(Z), step)])
            return
        with blas_threads(1), runner.bar("neighbours", self.probes, unit=" cells") as bar:
            for slot in range(self.probes):
                order = np.argsort(probed[:, slot], kind="stable")
                starts = np.searchsorted(probed[order, slot], np.arange(len(self.centres) + 1))
                cells = np.flatnonzero((np.diff(starts) > 0) & (self.sizes > 0))

                def look(part: slice, slot: int = slot, order: Array = order, starts: Array = starts,
                         cells: Array = cells) -> None:  # fmt: skip
                    for cell in cells[part]:
                        use(self._measure(Z, order[starts[cell] : starts[cell + 1]], int(cell), slot))

                step = max(1, len(cells) // (4 * runner.workers))
                runner.run(look, [slice(at, at + step) for at in range(0, len(cells), step)])
                bar.update()

    def _measure(self, Z: Array, rows: Array, cell: int, slot: int) -> _Pairs:
        """Return the squared distances of some rows to the anchors of a cell, in single precision."""
        placed, norms = self._cache["placed"]
        at = slice(self._ends[cell], self._ends[cell + 1])
        moved = self._centres.place(Z[rows], self.centres[cell])
        own, less = np.einsum("ij,ij->i", moved, moved), np.float32(1 - rounding(Z.shape[1]))
        moved *= -2
        table = moved @ placed[at].T
        table += less * own[:, None]
        table += less * norms[at]
        return _Pairs(slot, cell, rows, self.members[at], table, own)


class _Pairs(NamedTuple):
    """Squared distances of some rows to the anchors of one of their cells, in squared units of the spread.

    They are lower bounds: each is less than the distance by its largest possible rounding.
    """

    slot: int  # the cell is the nearest but ``slot`` of the rows
    cell: int
    rows: Array
    members: Array
    table: Array  # (rows, members)
    own: Array  # squared distance of each row to the centre


def _kth(lists: Lists, k: int) -> Array:
    """Return the squared distance of each row's k-th entry; infinity where it has fewer."""
    counts = np.diff(lists.ptr)
    last = lists.squared[np.minimum(lists.ptr[:-1] + k, lists.ptr[1:]) - 1]
    return np.where(counts >= k, last, np.inf)


def _join(parts: list[Lists]) -> Lists:
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    index, squared = (np.concatenate([getattr(part, name) for part in parts]) for name in ("index", "squared"))
    return Lists(np.append(0, np.cumsum(counts)), index, squared)


def _replace(lists: Lists, rows: Array, others: Lists) -> Lists:
    """Return the lists with those of some rows, in increasing order, replaced."""
    replaced = np.zeros(len(lists.ptr) - 1, bool)
    replaced[rows] = True
    kept = lists.select(~np.repeat(replaced, np.diff(lists.ptr)))
    at = np.concatenate([kept.rows(), rows[others.rows()]])
    order = np.argsort(at, kind="stable")
    index, squared = (np.concatenate([getattr(part, name) for part in (kept, others)])[order] for name in
                      ("index", "squared"))  # fmt: skip
    return Lists(np.append(0, np.cumsum(np.bincount(at, minlength=len(replaced)))), index, squared)


def _count_probes(ranks: Array, cells: int) -> int:
    """Return how many cells to search: the mean recall of the sample, less two standard errors, is ``AIMED``."""
    recall = np.sort(ranks, axis=1)
    for probes in range(2, cells):
        found = (recall < probes).mean(axis=1)
        if found.mean() - 2 * found.std() / np.sqrt(len(found)) >= AIMED:
            return probes
    return cells
