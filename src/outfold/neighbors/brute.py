"""Neighbour search through all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._loops import selection as selection_loops
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..distances import Distances
from .lists import Lists, measure_pairs, nearest_first


@dataclass(frozen=True)
class Brute:
    """Search through all pairs, block by block: BLAS selects candidates (Euclidean), exact distances decide.

    Any other metric is evaluated exactly from the start.
    """

    distances: Distances
    exact: bool = True

    def _table(self, Z: Array) -> tuple[Array, Array]:
        """Return approximate squared distances (rows, n), and a bound of each row's error."""
        if self.distances.name != "euclidean":
            return self.distances.cross(Z), np.zeros(len(Z))
        table, rounding = self.distances.by_product(Z)
        return table, 4 * (Z.shape[1] + 4) * rounding

    def closest(self, Z: Array, k: int, runner: Threads, groups: Any = None) -> Lists:
        n = len(self.distances.anchors)
        k = min(n, k + 1)
        reach = np.full(n, -np.inf) if groups is None else groups * (1 + 1e-9)

        def look(block: slice) -> tuple[Array, Array]:
            table, slack = self._table(Z[block])
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

    def arrange(self, Z: Array, runner: Threads) -> Array:
        return np.arange(len(Z))

    def group(self, reach: Array) -> Array:
        return np.square(reach)

    def within(self, Z: Array, radii: Array, groups: Any, runner: Threads) -> Lists:
        def look(block: slice) -> tuple[Array, Array]:
            table, slack = self._table(Z[block])
            bound = np.square(radii[block])[:, None] * (1.0 if groups is None else groups) * (1 + 1e-9)
            near = table <= bound + slack[:, None]
            return near.sum(axis=1), np.nonzero(near)[1]

        return self._collect(Z, look, runner, sort=False)

    def _collect(self, Z: Array, look: Any, runner: Threads, *, sort: bool) -> Lists:
        found = list(runner.map(look, row_blocks(len(Z), len(self.distances.anchors)), "neighbours"))
        ptr = np.append(0, np.cumsum(np.concatenate([counts for counts, _ in found])))
        index = np.ascontiguousarray(np.concatenate([columns for _, columns in found]), dtype=np.int64)
        return (nearest_first if sort else measure_pairs)(self.distances, Z, ptr, index, runner)
