"""Neighbour search through all pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from .._loops import selection as selection_loops
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Axes
from ..distances import SearchedDistances
from .lists import Lists, sort_rows
from .search import Reaches, Search


@dataclass(frozen=True)
class Brute(Search):
    """Search through all pairs, block by block: BLAS selects candidates (Euclidean), exact distances decide.

    Any other metric is evaluated exactly from the start.
    """

    distances: Annotated[SearchedDistances, Axes("n d")]
    exact: bool = True
    recall: ClassVar[None] = None

    @property
    def row_entries(self) -> int:
        return len(self.distances.anchors)

    def closest(self, Z: Array, k: int, runner: Threads, groups: Reaches | None = None) -> Lists:
        n = len(self.distances.anchors)
        k = min(n, k + 1)
        reach = np.full(n, -np.inf) if groups is None else groups.squared * (1 + 1e-9)

        def look(block: slice) -> tuple[Array, Array]:
            table, slack = self.distances.estimate(Z[block])
            rows = len(table)
            counts, width = np.empty(rows, np.int64), min(n, k + 8 if groups is None else 4 * k)
            while True:
                out = np.empty((rows, width), np.int64)
                selection_loops.smallest_in_rows(table, k, 2 * slack, reach, counts, out, 0, rows)
                if counts.max() <= width:
                    break
                width = int(counts.max())
            return counts, out[np.arange(width) < counts[:, None]]

        return self._collect(Z, look, runner, sort=True)

    def group(self, reach: Array) -> Reaches:
        return Reaches(np.square(reach), np.empty(0))

    def within(self, Z: Array, radii: Array, groups: Reaches | None, runner: Threads) -> Lists:
        def look(block: slice) -> tuple[Array, Array]:
            table, slack = self.distances.estimate(Z[block])
            bound = np.square(radii[block])[:, None] * (1.0 if groups is None else groups.squared) * (1 + 1e-9)
            near = table <= bound + slack[:, None]
            return near.sum(axis=1), np.nonzero(near)[1]

        return self._collect(Z, look, runner, sort=False)

    def _collect(self, Z: Array, look: Callable[[slice], tuple[Array, Array]], runner: Threads, *, sort: bool) -> Lists:
        width = max(len(self.distances.anchors), Z.shape[1])  # `estimate` copies the rows of a block
        found = list(runner.map(look, row_blocks(len(Z), width), "neighbours"))
        ptr = np.append(0, np.cumsum(np.concatenate([counts for counts, _ in found])))
        index = np.ascontiguousarray(np.concatenate([columns for _, columns in found]), dtype=np.int64)
        lists = Lists(ptr, index, self.distances.of_pairs(Z, ptr, index, runner))
        return sort_rows(lists, runner) if sort else lists
