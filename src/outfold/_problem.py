"""What a view poses: the eigenproblem of the anchors, and what the row rule and the report need to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_array

from .bandwidths import NO_BANDWIDTH, Bandwidth
from .landmarks import Anchors
from .neighbors import measured
from .normalizations import Operator
from .runners import Threads
from .trust import Reference


@dataclass(frozen=True)
class Kept:
    """Which anchors rows see, in an order that puts rows near each other next to each other."""

    order: NDArray[Any]  # row i of the lists is row order[i] of the data
    ptr: NDArray[Any]
    index: NDArray[Any]

    def block(self, rows: slice, points: NDArray[Any], distances: Any) -> csr_array:
        """Some rows, as the geometry's ``cross`` gives them."""
        index = self.index[self.ptr[rows.start] : self.ptr[rows.stop]]
        ptr = self.ptr[rows.start : rows.stop + 1] - self.ptr[rows.start]
        lists = measured(distances, points, ptr, index, Threads(1))
        return csr_array((lists.squared, index, ptr), shape=(len(points), len(distances.anchors)))


@dataclass(frozen=True)
class Problem:
    """An operator over the anchors; ``normalization`` turns its eigenpairs into a basis and a row rule."""

    anchors: Anchors
    operator: Operator
    normalization: Any
    geometry: Any  # how a point sees the anchors
    kernel: Any
    reference: Reference
    columns: NDArray[Any] | None  # of a given matrix: those the row rule reads; None: rows are features
    edges: str  # which pairs were kept, for the report
    degree: float  # anchors a row keeps, on average
    bandwidth: Bandwidth = NO_BANDWIDTH
    notes: tuple[str, ...] = ()  # what the report should warn of
    kept: Kept | None = None  # what the training rows see of the anchors, if the pose has it at hand
    gathered: Any = None  # what else the pose found: sums over the rows, where the fit can be updated
