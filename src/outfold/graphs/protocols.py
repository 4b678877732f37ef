"""What a graph over anchors is made of: rules for edges, fitted geometries, fitted kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from .._runtime.threads import Threads
from .._runtime.typing import Array, Matrix
from ..bandwidths import Bandwidth, PairStatistics
from ..distances import PointMetric


@runtime_checkable
class RowGeometry(Protocol):
    """How a point lies to the anchors, for blocks of rows."""

    if TYPE_CHECKING:

        @property
        def anchors(self) -> Array:
            """The anchors as ``transform`` takes rows; indices of columns if rows are precomputed."""
            ...

        @property
        def row_entries(self) -> int:
            """About how many numbers a row needs, to choose the size of blocks."""
            ...

    def nearest(self, Z: Array) -> Array:
        """Return the index of the nearest anchor of each row."""
        ...

    def arrange(self, Z: Array, runner: Threads) -> Array | None:
        """Return an order of the rows in which rows that read the same memory are adjacent; None: any order."""
        return None

    def sees_nothing(self, Z: Array) -> Array | None:
        """Return which rows of a precomputed matrix have no entry; None: every row has some, or rows are features."""
        return None


@runtime_checkable
class Geometry(RowGeometry, Protocol):
    """A fitted graph or search: squared distances (or affinities) of any point to the anchors it keeps."""

    def cross(self, Z: Array) -> Matrix:
        """Return the values of each row of Z, (len(Z), n), dense or as CSR with every kept entry explicit."""
        ...


@runtime_checkable
class Graph(Geometry, Protocol):
    """A geometry that knows the edges between its anchors too."""

    def gram(self, runner: Threads) -> Matrix:
        """Return the values between the anchors, (n, n); the caller may overwrite them."""
        ...

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return the values (len(X), len(Y)) that ``cross`` would return if Y were the anchors; inf: no edge."""
        ...

    def without_caches(self) -> Self:
        """Return the graph without what only ``gram`` needs."""
        ...


@runtime_checkable
class ValueGeometry(RowGeometry, Protocol):
    """A geometry whose kernel values have any sign; the nearest anchor gives the support."""

    def values(self, Z: Array) -> tuple[SupportsProduct, Array]:
        """Return the kernel values of each row of Z to the anchors, and the log mass of each row."""
        ...

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return the kernel values between any rows, (len(X), len(Y))."""
        raise AssertionError("precomputed values are known for rows and anchors only")


class SupportsProduct(Protocol):
    """A matrix that is only multiplied: an array, or rows that are not stored."""

    def __matmul__(self, basis: Array, /) -> Array: ...


@runtime_checkable
class FittedKernel(Protocol):
    """An elementwise function of the values ``measured`` (squared distances, or affinities)."""

    if TYPE_CHECKING:

        @property
        def bandwidth(self) -> Bandwidth: ...

        @property
        def slack(self) -> float:
            """The error of a squared distance that leaves its affinity right to 1e-13."""
            ...

    def affinity(self, measured: Array) -> Array:
        """Return affinities; ``measured`` may be overwritten."""
        ...

    def logs(self, measured: Array) -> tuple[Array, float]:
        """Return (values, factor): log affinities are factor * values; ``measured`` may be overwritten."""
        ...

    def witness(self, measured: Array) -> Array | None:
        """Return affinities that decrease with distance, to judge support; None if the kernel's own affinities do."""
        ...

    def reach(self, eta: float) -> float:
        """Return the distance at which the affinity falls to ``eta``."""
        ...


@runtime_checkable
class EdgeRule(Protocol):
    """Which anchors a point keeps."""

    if TYPE_CHECKING:

        @property
        def neighbors(self) -> int:
            """Number of neighbours that a point keeps; 0 if the rule does not count them."""
            ...

    def choose(self, n: int) -> EdgeRule:
        """Return the rule for ``n`` anchors."""
        return self

    def statistics(self, metric: PointMetric, points: Array, measure: Array, runner: Threads) -> PairStatistics:
        """Return statistics of the anchors' distances, from which a bandwidth rule chooses epsilon."""
        ...

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> Graph:
        """Return the fitted graph. ``kernel`` has its epsilon already; None if the graph serves lengths alone."""
        ...

    def describe(self) -> str:
        """Return the rule in words, for the report."""
        ...

    def remedy(self) -> str:
        """Return what to change if the graph is disconnected."""
        ...
