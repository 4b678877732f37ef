"""The eigenproblem over the anchors that a view builds, with the inputs of the row rule and of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._runtime.threads import Threads
from ..bandwidths import NO_BANDWIDTH, Bandwidth
from ..landmarks import Anchors
from ..neighbors.lists import measure_pairs
from ..trust import Reference
from .operator import Operator


@dataclass(frozen=True)
class NeighborLists:
    """The anchors of each row, as CSR index arrays; rows are sorted so that near rows are adjacent."""

    order: NDArray[Any]  # row i of the lists is row order[i] of the data
    ptr: NDArray[Any]
    index: NDArray[Any]

    def block(self, rows: slice, points: NDArray[Any], distances: Any) -> csr_array:
        """Return squared distances of the rows ``rows`` to their anchors, as the geometry's ``cross`` does."""
        index = self.index[self.ptr[rows.start] : self.ptr[rows.stop]]
        ptr = self.ptr[rows.start : rows.stop + 1] - self.ptr[rows.start]
        lists = measure_pairs(distances, points, ptr, index, Threads(1))
        return csr_array((lists.squared, index, ptr), shape=(len(points), len(distances.anchors)))


@dataclass(frozen=True)
class BuiltProblem:
    """An operator over the anchors; ``normalization`` turns its eigenpairs into a basis and a row rule."""

    anchors: Anchors
    operator: Operator
    normalization: Any
    geometry: Any  # distances or kernel values from any point to the anchors
    kernel: Any
    reference: Reference
    columns: NDArray[Any] | None  # columns of a precomputed matrix that the row rule reads; None: rows are features
    edges: str  # description of the edges, for the report
    degree: float  # mean number of anchors in a row
    bandwidth: Bandwidth = NO_BANDWIDTH
    notes: tuple[str, ...] = ()  # warnings for the report
    kept: NeighborLists | None = None  # the anchors of each training row, if `build` has stored them
    gathered: Any = None  # further results: `PassSums` for updates, `Placement` of PHATE
