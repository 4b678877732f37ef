"""Lists of neighbours in CSR form, and squared distances of the listed pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._loops import selection as selection_loops
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..distances import SearchedDistances


@dataclass(frozen=True)
class Lists:
    """Some anchors of each row with their squared distances: row i has the entries [ptr[i], ptr[i + 1])."""

    ptr: Array
    index: Array
    squared: Array

    def rows(self) -> Array:
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def of_rows(self, rows: slice) -> Lists:
        """Return the lists of some rows; their entries are views."""
        ptr = self.ptr[rows.start : rows.stop + 1]
        entries = slice(ptr[0], ptr[-1])
        return Lists(ptr - ptr[0], self.index[entries], self.squared[entries])

    def select(self, keep: Array) -> Lists:
        """Return the lists with only the entries where ``keep`` is True."""
        counts = np.add.reduceat(np.append(keep, False), self.ptr[:-1]) * (np.diff(self.ptr) > 0)
        return Lists(np.append(0, np.cumsum(counts)), self.index[keep], self.squared[keep])

    def kth(self, k: int) -> Array:
        """Return the squared distance of each row's k-th entry; rows must be nearest first, of length k or more."""
        squared: Array = self.squared[self.ptr[:-1] + k - 1]
        return squared

    def nearest(self, k: int) -> Lists:
        """Return the k nearest of each row, with ties at the k-th distance; rows must be nearest first."""
        return self.select(self.squared <= np.repeat(self.kth(k), np.diff(self.ptr)))


def sort_rows(lists: Lists, runner: Threads) -> Lists:
    """Sort each row by increasing distance, in place."""

    def sort(block: slice) -> None:
        selection_loops.sort_rows(lists.ptr, lists.index, lists.squared, block.start, block.stop)

    runner.run(sort, row_blocks(len(lists.ptr) - 1, 64))
    return lists


def nearest_first(distances: SearchedDistances, Z: Array, ptr: Array, index: Array, runner: Threads) -> Lists:
    """Return the listed pairs with their squared distances, each row by increasing distance."""
    return sort_rows(Lists(ptr, index, distances.of_pairs(Z, ptr, index, runner)), runner)
