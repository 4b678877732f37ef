"""Landmarks that are the columns of a precomputed matrix, rows times landmarks: distances, or affinities.

How the landmarks lie to each other is not in such a matrix. What is not stored in a sparse one is out of reach: an
affinity of 0, or a distance that is too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array

from .._runtime.threads import Threads
from .._runtime.typing import FREE, WHOLE, Array, Axes, Index, Interval, Matrix, Sparse
from ..bandwidths import PairStatistics
from ..data.sources import Source
from ..data.sparse_rows import SparseRows
from ..graphs.given import has_no_entry, nearest_entry, stored_entries
from ..graphs.pair_statistics import kth, median_length
from ..graphs.protocols import Geometry
from ..landmarks import Anchors
from ..neighbors import Lists
from ..neighbors.lists import sort_rows

BANDWIDTH_ENTRIES = 4_000_000  # most entries of the rows from which epsilon is chosen
BANDWIDTH_ROWS = 2000  # most of these rows


def columns_of(anchors: Anchors) -> Array:
    """Return the columns that are landmarks; the points of ``anchors`` are their numbers."""
    columns: Array = anchors.points[:, 0].astype(np.int64)
    return columns


@dataclass(frozen=True, kw_only=True)
class GivenLandmarks(Geometry):
    """Squared distances (or affinities) of precomputed rows to the landmarks that they reach."""

    anchors: Annotated[Array, Axes("n"), WHOLE, Index("columns")]  # the columns that are landmarks
    columns: Annotated[int, Interval(1)]  # of a row
    squares: bool  # whether the values are distances, which are squared
    radius: Annotated[float, FREE] = np.inf  # a longer distance is out of reach
    k: Annotated[int, Interval(0)] = 0  # nearest landmarks that a row keeps, ties included; 0: all in reach

    @property
    def cuts(self) -> bool:
        """Whether some of the given distances are left out."""
        return self.k > 0 or np.isfinite(self.radius)

    @property
    def row_entries(self) -> int:
        return self.columns

    def _of_landmarks(self, Z: Array) -> Array:
        """Return the columns of the landmarks."""
        if len(self.anchors) == self.columns:
            return Z
        return SparseRows(Z[:, self.anchors]) if isinstance(Z, SparseRows) else Z[:, self.anchors]

    def cross(self, Z: Array) -> Matrix:
        rows = self._of_landmarks(Z)
        values = rows.data if isinstance(rows, SparseRows) else rows
        if values.size and (least := float(values.min())) < 0:
            given = "metric" if self.squares else "kernel"
            raise ValueError(f"Negative values in data: {given}='precomputed' needs values >= 0, got {least:.3g}.")
        if not isinstance(rows, SparseRows) and not self.cuts:
            dense: Array = np.square(rows, dtype=float) if self.squares else np.array(rows, dtype=float)
            return dense
        stored = stored_entries(rows, self.squares)
        entries = np.square(stored.data) if self.squares else stored.data.copy()
        reached = Lists(stored.indptr, stored.indices, entries)
        if np.isfinite(self.radius):
            reached = reached.select(stored.data <= self.radius)
        if self.k:
            reached = nearest_of(reached, self.k)
        seen: Sparse = csr_array((reached.squared, reached.index, reached.ptr), shape=stored.shape)
        return seen

    def nearest(self, Z: Array) -> Array:
        return nearest_entry(self._of_landmarks(Z), self.squares)

    def sees_nothing(self, Z: Array) -> Array:
        if not len(Z):
            return np.zeros(0, bool)
        return has_no_entry(self._of_landmarks(Z), self.squares)


def nearest_of(lists: Lists, k: int) -> Lists:
    """Return the k nearest entries of each row, or all if they are fewer; with ties at the k-th distance."""
    counts = np.diff(lists.ptr)
    order = np.lexsort((lists.squared, lists.rows()))
    last = np.zeros(len(counts))
    some = counts > 0
    last[some] = lists.squared[order[(lists.ptr[:-1] + np.minimum(counts, k) - 1)[some]]]
    return lists.select(lists.squared <= np.repeat(last, counts))


@dataclass(frozen=True, kw_only=True)
class RowStatistics(PairStatistics):
    """Statistics of the distances from some rows to the landmarks, which stand for those between landmarks.

    A distance of 0 belongs to a row that is the landmark itself, or a copy of it: it is no neighbour.
    """

    lists: Lists  # positive distances, nearest first
    weight: Array  # of these rows
    landmarks: int
    widest: float = np.inf
    exact: bool = True

    @classmethod
    def of(
        cls, rows: Source, measure: Array, geometry: GivenLandmarks, widest: float, runner: Threads
    ) -> RowStatistics:
        """Return the statistics of rows at even steps."""
        most = max(64, min(BANDWIDTH_ROWS, BANDWIDTH_ENTRIES // max(1, geometry.columns)))
        index = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int))
        weight = np.asarray(measure[index], dtype=float)
        seen = geometry.cross(rows.take(index))
        W = stored_entries(seen, True) if isinstance(seen, np.ndarray) else seen
        lists = Lists(W.indptr.astype(np.int64), W.indices.astype(np.int64), W.data).select(W.data > 0)
        held = (np.diff(lists.ptr) > 0) & (weight > 0)
        kept = lists.select(np.repeat(held, np.diff(lists.ptr)))
        ptr = np.append(0, np.cumsum(np.diff(kept.ptr)[held]))
        lists = sort_rows(Lists(ptr, kept.index, kept.squared), runner)
        return cls(lists=lists, weight=weight[held], landmarks=len(geometry.anchors), widest=widest)

    @property
    def measure(self) -> Array:
        """Twice the weight of each row: in a sum over pairs it meets itself once for all its landmarks, not for two."""
        return 2 * self.weight

    @property
    def total(self) -> float:
        return float(self.landmarks)

    def radius(self, k: float) -> float:
        if not len(self.weight):
            return 0.0
        return median_length(kth(self.lists, np.ones(self.landmarks), k), self.weight)

    def pairs(self) -> tuple[Array, Array]:
        return self.lists.squared, np.repeat(self.weight, np.diff(self.lists.ptr))
