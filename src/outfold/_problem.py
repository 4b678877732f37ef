"""What a view poses: the eigenproblem of the anchors, and what the row rule and the report need to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .bandwidths import NO_BANDWIDTH, Bandwidth
from .landmarks import Anchors
from .normalizations import Operator
from .trust import Reference


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
