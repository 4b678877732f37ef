"""Locally linear embedding (LLE): each point is approximated by a combination of its neighbours.

    W minimises |x_i - sum_j W_ij x_j|^2 over the k nearest, rows summing to 1; small end of (I - W)' diag(m) (I - W)

The Gram matrix of the differences x_i - x_j is singular for k > n_features, so a ridge is added: reg times its
trace in the fit (as in scikit-learn), reg times its diagonal for the rows of any point. The second ridge is zero for
the entry of a point that is its own neighbour, so a training point is reproduced exactly.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, eye_array

from .. import neighbors
from .._loops import barycentric as barycentric_loops
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..data.sources import Source
from ..distances import Metric, clip_entries
from ..exceptions import OutfoldWarning
from ..graphs import components
from ..landmarks import Anchors, along_the_tree
from ..neighbors import Lists, choice
from ..trust import Nearness
from .operator import Operator, Rows
from .problem import BuiltProblem

FLAT_OVERLAP = 3.7  # (entries in a row of (I - W)'(I - W)) / k: about 3.1 in two dimensions, 4.3 in three
SLOW_SECONDS = 30.0  # warn if the factorisation is estimated to take longer


@dataclass(frozen=True)
class BarycentricRule:
    """The weights by which a point's nearest anchors reconstruct it."""

    search: Any
    k: int
    reg: float
    nearness: Nearness

    @property
    def row_entries(self) -> int:
        return choice.row_entries(self.search)

    @property
    def geometry(self) -> Any:
        return self

    def nearest(self, Z: Array) -> Array:
        return self.search.distances.nearest(Z)

    def rows(self, Z: Array) -> Rows:
        lists = self.search.closest(clip_entries(Z), self.k, Threads(1)).nearest(self.k)
        W = weights(Z, self.search.distances.anchors, lists, self.reg, False, Threads(1))
        log_mass = self.nearness.log_mass(lists.squared[lists.ptr[:-1]])
        return Rows(W, log_mass, log_mass)


def weights(Z: Array, anchors: Array, lists: Lists, reg: float, trace: bool, runner: Threads) -> csr_array:
    """Return the reconstruction weights of each row of Z, with a ridge by the trace (``trace``) or by the diagonal."""
    out = np.empty(len(lists.index))
    Z, anchors = (np.ascontiguousarray(A, dtype=float) for A in (Z, anchors))

    def fill(block: slice) -> None:
        barycentric_loops.barycentric(Z, anchors, lists.ptr, lists.index, reg, trace, out, block.start, block.stop)

    runner.run(fill, row_blocks(len(Z), 64 * (1 + Z.shape[1] // 8)))
    return csr_array((out, lists.index, lists.ptr), shape=(len(Z), len(anchors)))


def weights_of_anchors(search: Any, k: int, reg: float, runner: Threads) -> tuple[csr_array, Lists]:
    """Return the weights W of the fit, and the neighbour lists they belong to."""
    points = search.distances.anchors
    lists = search.closest(points, k + 1, runner)
    lists = lists.select(lists.index != lists.rows()).nearest(k)
    return weights(points, points, lists, reg, True, runner), lists


@dataclass(frozen=True)
class Residual:
    """Eigenfunctions of the smallest eigenvalues of (I - W)'(I - W), orthonormal in the measure."""

    reg: float
    k: int
    nearness: Nearness
    skip: ClassVar[int] = 1
    unit_columns: ClassVar[bool] = True

    def rule(self, operator: Operator, geometry: Any, kernel: Any, eigenvalues: Array) -> BarycentricRule:
        return BarycentricRule(geometry, self.k, self.reg, self.nearness)

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions.copy()

    def scale(self, eigenvalues: Array) -> Array:
        return np.ones(len(eigenvalues))

    def dimension(self, operator: Operator, values: Array) -> int | None:
        """Return the dimension before the largest relative gap among the first ten eigenvalues."""
        first = np.maximum(-values[:11], operator.size * np.finfo(float).eps * operator.spread)
        return int((first[1:] / first[:-1]).argmax()) + 1

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return kept  # small eigenvalues are not limited by the rank

    def amplification(self, values: Array) -> float:
        return 1.0

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return 0.0


@dataclass(frozen=True)
class LocalWeights:
    """The view of locally linear embedding. Equal rows are merged into one point of their joint measure."""

    k: int
    reg: float
    components: str = "warn"
    given: ClassVar[bool] = False
    merges_copies: ClassVar[bool] = True

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        n = len(anchors.measure)
        if self.k <= needed:
            raise ValueError(
                f"n_neighbors={self.k} must be larger than n_components={needed}: weights on k neighbours are singular "
                f"for more than k - 1 coordinates. Raise n_neighbors to at least {needed + 1}."
            )
        if self.k >= n:
            raise ValueError(
                f"n_neighbors={self.k} must be smaller than the number of distinct points, n = {n}. Lower it."
            )
        anchors = along_the_tree(anchors, Metric())
        search = neighbors.build(Metric().fit(anchors.points), "auto")
        W, lists = weights_of_anchors(search, self.k, self.reg, runner)
        pattern = csr_array((np.ones(W.nnz), W.indices, W.indptr), W.shape)
        parts = components.find(pattern, anchors.measure)
        if parts.count > 1 and self.components == "error":
            raise ValueError(
                f"The neighbour graph has {parts.describe()}. Raise n_neighbors (now {self.k}), or pass "
                "components='warn' (contrasts become coordinates) or 'largest'."
            )
        if parts.count > 1 and self.components == "largest":
            inside = np.flatnonzero(parts.labels == 0)
            if len(inside) <= max(self.k, needed):
                raise ValueError(
                    f"The largest of {parts.count} components holds {len(inside)} of {n} distinct points: too few to "
                    "embed. Raise n_neighbors."
                )
            return replace(self, components="warn").build(rows, anchors.at(inside), measure, needed, runner)
        nearness, reference = Nearness.of(lists.squared[lists.ptr[:-1]], anchors.measure)
        operator = replace(residual(W, anchors.measure), parts=parts, runner=runner)
        self._warn_if_slow(operator)
        return BuiltProblem(
            anchors,
            operator,
            Residual(self.reg, self.k, nearness),
            search,
            None,
            reference,
            columns=None,
            edges=f"{self.k} nearest neighbours" + ("" if search.exact else ", found approximately"),
            degree=W.nnz / n,
        )

    def _warn_if_slow(self, operator: Operator) -> None:
        """Warn if factorising will be slow: the factors fill up for data of more than two dimensions.

        The dimension is judged by the number of entries in a row: it grows as neighbourhoods overlap less.
        """
        n, shared = operator.size, operator.matrix.nnz / operator.size / self.k
        seconds = 6 * (n / 10_000) ** 2.4  # measured on a torus of three dimensions
        if shared > FLAT_OVERLAP and seconds > SLOW_SECONDS:
            warnings.warn(
                f"The neighbourhoods of these {n} points overlap as in three or more dimensions, where factorising the "
                f"problem takes long (of the order of {seconds:.0f} s or more). landmarks=5000 solves it on some of "
                "the points and extends it to the rest.",
                OutfoldWarning,
                stacklevel=2,
            )

    def concerns(self, report: Any, values: Array, problem: BuiltProblem) -> list[str]:
        found = []
        if report.components > 1:
            found.append(
                f"The neighbour graph has {problem.operator.parts.describe()}, so the first "
                f"{min(report.components - 1, report.n_components)} coordinates only tell them apart. Raise "
                f"n_neighbors (now {self.k}), or pass components='largest'."
            )
        if report.multiplicity > report.components:
            found.append(
                f"{report.multiplicity} eigenvalues are zero up to rounding, so the coordinates are an arbitrary basis "
                "of as many functions: groups of points reconstruct themselves or the data is flat. Raise n_neighbors "
                f"(now {self.k}) or reg (now {self.reg:g})."
            )
        return found


def residual(W: csr_array, measure: Array) -> Operator:
    """Return the operator -(I - W)' diag(m) (I - W), made symmetric by the measure."""
    n, root = len(measure), np.sqrt(measure)
    A = csr_array(eye_array(n, format="csr") - W)
    if not np.all(root == 1):
        A.data *= np.repeat(root, np.diff(A.indptr))
        A.data /= root[A.indices]
    M = csr_array(A.T @ A)
    M.sort_indices()
    spread = float(np.abs(M).sum(axis=1).max())
    M.data *= -1
    parts = components.Components(np.zeros(n, int), np.ones(1))
    return Operator("residual", M, 0.0, spread, measure, measure, parts)
