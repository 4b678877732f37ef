"""The interface of eigenproblems, one for each row of the table of methods, and what ``build`` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from .._runtime.threads import Threads
from .._runtime.typing import Array, Sparse
from ..bandwidths import NO_BANDWIDTH, Bandwidth
from ..data.checkpoints import Checkpoint
from ..data.sources import Source
from ..data.sparse_rows import as_rows
from ..graphs.nearest import NearestAnchors
from ..landmarks import Anchors
from ..neighbors.lists import Lists
from ..trust import Reference
from .concerns import Concern, Importance, depends_on_scales
from .costs import Case, Cost
from .expansion import EigenPairs, Expansion
from .operator import Normalization, Operator, RowRule

if TYPE_CHECKING:
    from ..distances import Metric, SearchedDistances


Scale: TypeAlias = Callable[[], float] | None  # returns the local scale, see `Eigenproblem.local_scale`


class Span(NamedTuple):
    """What to know of a kernel that may span the data."""

    remedy: str
    steps: int = 1  # steps of the kernel in one of the operator
    scale: Scale = None

    def concerns(self, report: Facts, largest: float, linear: float) -> list[Concern]:
        """Return a warning if the kernel spans the data: all rows look alike, and the map is that of PCA or nearly so.

        ``largest``: the largest selected eigenvalue; ``linear``: the share of the first two coordinates that is linear
        in the features.
        """
        if (
            report.n_anchors < WIDTH_FROM
            or largest >= SPANNED**self.steps
            or (linear < LINEAR_SHARE and largest >= ALIKE)
        ):
            return []
        what = f"coordinates are linear in the features, as in PCA (R^2 {linear:.2f})"
        text = (
            f"The kernel spans the data: the largest eigenvalue is {largest:.2g} (epsilon={report.epsilon:.3g}, "
            f"{report.edges}), and {what if linear >= LINEAR_SHARE else 'all rows look alike'}. "
            f"{self.remedy}{_beside(self.scale)}."
        )
        return [Concern(Importance.WIDTH, text)]


WIDTH_FROM = 20  # anchors: fewer say little about a width
SPANNED = 0.5  # largest eigenvalue of one step, below which a kernel may span the data
LINEAR_SHARE = 0.9  # R^2 above which a map is called linear
ALIKE = 0.05  # largest eigenvalue below which all rows look alike


class Eigenproblem:
    """How the operator of the anchors is built, and how any point sees it: metric, graph, kernel, normalisation.

    A method names one with its parameters. A new one defines ``build`` and ``cost``; the rest has defaults.
    """

    @property
    def given(self) -> bool:
        """Whether the matrix between the rows is precomputed."""
        return False

    @property
    def between_rows(self) -> bool:
        """Whether the matrix is precomputed and square: every row has a column."""
        return self.given

    @property
    def sees_every_row(self) -> bool:
        """Whether a training row sees itself, landmark or not."""
        return False

    @property
    def includes_itself(self) -> bool:
        """Whether a node of precomputed distances is its own neighbour even if its row does not store that."""
        return False

    @property
    def streams(self) -> bool:
        """Whether the rows can be read in blocks, if there are landmarks."""
        return False

    @property
    def merges_copies(self) -> bool:
        """Whether equal anchors become one, which has the sum of their measures."""
        return False

    @property
    def feature_metric(self) -> Metric | None:
        """The metric between rows; None: Euclidean, or the matrix is precomputed."""
        return None

    @property
    def against_outliers(self) -> str:
        """What to do if a few outliers carry a coordinate, as the beginning of a sentence."""
        return "Scale the features"

    @property
    def smaller(self) -> str:
        """The parameters, beside fewer landmarks, that make a fit need less memory; empty if there are none."""
        return ""

    @property
    def reads_rows(self) -> bool:
        """Whether ``cost`` depends on the rows (``Case.points``), not on sizes alone."""
        return False

    @property
    def long_run(self) -> LongRun | None:
        """Memory limit and checkpoint of an eigenproblem that reads the rows in passes."""
        return None

    @property
    def streams_every_row(self) -> bool:
        """Whether ``build`` reads all rows in passes, without landmarks; its anchors are then a sample of the rows."""
        return False

    def within(self, memory: float) -> Self:
        """Return the eigenproblem with this memory limit, if it has one."""
        return self

    def alone(self, epsilon: float) -> Self:
        """Return the eigenproblem for a part of the rows: bandwidth ``epsilon`` (NaN: its own), no checkpoint."""
        return self

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        """Return the operator over the anchors and the row rule; ``needed``: the last eigenpair that is wanted."""
        raise AssertionError("an eigenproblem says how it is built")

    def cost(self, case: Case) -> Cost:
        """Return what ``build`` and the solver will need."""
        raise AssertionError("an eigenproblem says what it costs")

    def extension_seconds(self, case: Case, edges: str) -> float:
        """Return the seconds to embed rows that are not anchors."""
        return case.extension(edges)

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        """Return the warnings about a fit with the eigenvalues ``values``."""
        return []

    def span(self, problem: BuiltProblem) -> Span | None:
        """Return what to say if the kernel spans the data; None if the method has no width."""
        return None

    def local_scale(self, anchors: Anchors) -> float:
        """Return the median squared distance of an anchor to its tenth neighbour."""
        points, metric = anchors.points, self.feature_metric
        assert metric is not None
        some = np.linspace(0, len(points) - 1, min(len(points), 100)).astype(int)
        squared = metric.fit(points).cross(as_rows(points[some]))
        tenth = min(10, len(points) - 1)
        return float(np.median(np.partition(squared, tenth, axis=1)[:, tenth]))

    @property
    def weighs_scales(self) -> bool:
        """Whether a feature weighs the more the larger its scale."""
        return depends_on_scales(self.feature_metric)

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        """Return the kernel whose eigenfunctions the coordinates are; None: they are not those of a kernel."""
        return None

    @property
    def without_kernel(self) -> str:
        """What the coordinates are if they are not eigenfunctions of a kernel, in words."""
        return "scaled distances, not eigenfunctions of a kernel"


@dataclass(frozen=True)
class LongRun:
    """Limits of passes over the rows."""

    memory: float  # bytes
    checkpoint: Checkpoint


MAGNIFIED = 1e5  # rounding, from which on the report warns


class Facts(Protocol):
    """The facts of a fit on which warnings depend; the engine's report has them."""

    @property
    def n_anchors(self) -> int: ...

    @property
    def n_components(self) -> int: ...

    @property
    def edges(self) -> str: ...

    @property
    def epsilon(self) -> float: ...

    @property
    def components(self) -> int: ...

    @property
    def multiplicity(self) -> int: ...

    @property
    def trace(self) -> float: ...

    @property
    def negative_mass(self) -> float: ...

    @property
    def amplification(self) -> float: ...


def too_narrow(report: Facts, scale: Scale = None) -> list[Concern]:
    """Return a warning if most rows see little but themselves, else nothing."""
    if not report.trace > report.n_anchors / 2 or report.n_anchors < WIDTH_FROM:
        return []
    text = (
        f"epsilon={report.epsilon:.3g} looks too small: the trace of P is {report.trace:.4g} for n = "
        f"{report.n_anchors}, so most rows see little but themselves. Try a larger epsilon or "
        f"epsilon='auto'{_beside(scale)}."
    )
    return [Concern(Importance.WIDTH, text)]


def heavy_diagonal(report: Facts) -> list[Concern]:
    """Return the same of precomputed affinities, which have no epsilon."""
    if not report.trace > report.n_anchors / 2 or report.n_anchors < WIDTH_FROM:
        return []
    text = (
        f"Most nodes have little affinity but to themselves: the trace of P is {report.trace:.4g} for n = "
        f"{report.n_anchors}. Lower the diagonal of the matrix (W.setdiag(0) or np.fill_diagonal(W, 0) clears it), or "
        "raise the affinities beside it."
    )
    return [Concern(Importance.WIDTH, text)]


def _beside(scale: Scale) -> str:
    return "" if scale is None else f" (squared distances to neighbours are about {scale():.2g})"


def magnified_rounding(report: Facts) -> list[Concern]:
    """Return a warning if transform divides by so small an eigenvalue that rounding grows by more than 1e5."""
    if report.amplification <= MAGNIFIED:
        return []
    text = (
        f"The smallest kept eigenvalue magnifies rounding by {report.amplification:.1e} in transform. Keep fewer "
        "components or use t >= 1."
    )
    return [Concern(Importance.ROUNDING, text)]


@dataclass(frozen=True, kw_only=True)
class NeighborLists:
    """The anchors of each row, as CSR index arrays; rows are sorted so that near rows are adjacent."""

    order: Array  # row i of the lists is row order[i] of the data
    ptr: Array
    index: Array
    distances: SearchedDistances | None  # to the anchors; None: the rows are precomputed, and `values` are theirs
    values: Array | None = None  # what the geometry's ``cross`` returns for them; None: computed from ``distances``
    units: NearestAnchors | None = None  # the geometry, if its ``cross`` returns distances in local units

    def block(self, rows: slice, points: Array) -> Sparse:
        """Return the values of the rows ``rows`` to their anchors, as the geometry's ``cross`` does."""
        entries = slice(self.ptr[rows.start], self.ptr[rows.stop])
        index = self.index[entries]
        ptr = self.ptr[rows.start : rows.stop + 1] - self.ptr[rows.start]
        assert self.distances is not None
        if self.values is not None:
            shape = (len(points), len(self.distances.anchors))
            known: Sparse = csr_array((self.values[entries].copy(), index, ptr), shape=shape)
            return known
        lists = Lists(ptr, index, self.distances.of_pairs(points, ptr, index, Threads(1)))
        if self.units is not None:
            scaled: Sparse = self.units.scale(self.units.share(lists))
            return scaled
        result: Sparse = csr_array((lists.squared, index, ptr), shape=(len(points), len(self.distances.anchors)))
        return result


class Gathered:
    """Base of further results of ``build``, which a method keeps."""


@dataclass(frozen=True, kw_only=True)
class BuiltProblem:
    """An operator over the anchors and the rule of rows; ``normalization`` turns eigenpairs into a basis."""

    anchors: Anchors
    operator: Operator
    normalization: Normalization
    rule: RowRule
    reference: Reference
    columns: Array | None = None  # columns of a precomputed matrix that the row rule reads; None: rows are features
    edges: str  # description of the edges, for the report
    degree: float  # mean number of anchors in a row
    recall: float | None = None  # of the neighbour search, from a sample; None: it is exact, NaN: nobody has checked
    bandwidth: Bandwidth = NO_BANDWIDTH
    notes: tuple[Concern, ...] = ()  # warnings for the report
    kept: NeighborLists | None = None  # the anchors of each training row, if `build` has stored them
    gathered: Gathered | None = None
    stored: Array | None = None  # the anchors that the model stores; None: all of them
    # Called with the problem, its eigenvalues and eigenvectors. Returns the problem, changed if these show that it must
    # be, and whether it must be solved again.
    revise: Callable[[BuiltProblem, Array, Array], tuple[BuiltProblem, bool]] | None = None

    def with_means(self) -> BuiltProblem:
        """Return the problem with the places of its components, by which contrasts between them are ordered."""
        parts = self.operator.parts.at(self.anchors.points, self.anchors.measure)
        return self if parts is self.operator.parts else replace(self, operator=replace(self.operator, parts=parts))

    def of_few(self, usual: int) -> BuiltProblem:
        """Return the problem with a line for the report: of more points, the default is ``usual`` neighbours."""
        return replace(self, edges=f"{self.edges} (few points; {usual} of more)")

    @property
    def order(self) -> Array:
        """The order of the anchors by their training rows; of those that the model stores."""
        if self.stored is not None:
            return self.stored
        index = self.anchors.index
        return np.arange(self.operator.size) if index is None else np.argsort(index)
