"""Locally linear embedding (LLE): each point is approximated by a combination of its neighbours.

    W minimises |x_i - sum_j W_ij x_j|^2 over the k nearest, rows summing to 1; small end of (I - W)' diag(m) (I - W)

The Gram matrix of the differences x_i - x_j is singular for k > n_features, so a ridge is added: reg times its
trace in the fit (as in scikit-learn), reg times its diagonal for the rows of any point. The second ridge is zero for
the entry of a point that is its own neighbour, so a training point is reproduced exactly.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array, eye_array

from .. import neighbors
from .._loops import barycentric as barycentric_loops
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import POSITIVE, WEIGHTS, Array, Axes, Interval, Matrix
from ..data.sources import Source
from ..data.sparse_rows import SparseRows, stack_rows
from ..distances import Metric, clip_entries
from ..exceptions import OutfoldWarning
from ..graphs import components
from ..graphs.pair_statistics import lists_of_mass, select_nearest
from ..landmarks import Anchors, along_the_tree
from ..neighbors import Lists, Search
from ..neighbors.tree import TREE_FEATURES
from ..trust import Nearness
from .concerns import Concern, Importance, contrasts_only
from .costs import SECOND_NEIGHBORS_PER_NEIGHBOR, Case, Cost, Stage
from .directions import LOOKED
from .expansion import EigenPairs, Expansion, SmallEndKernel
from .operator import DENSE_SOLVER_UP_TO, Normalization, Operator, ResidualOperator, RowRule, Rows
from .problem import BuiltProblem, Eigenproblem, Facts

FLAT_OVERLAP = 3.7  # (entries in a row of (I - W)'(I - W)) / k: about 3.1 in two dimensions, 4.3 in three
SLOW_SECONDS = 30.0  # warn if the factorisation is estimated to take longer


@dataclass(frozen=True, kw_only=True)
class BarycentricRule(RowRule):
    """The weights by which a point's nearest anchors reconstruct it."""

    search: Annotated[Search, Axes("n d")]
    k: Annotated[int, Interval(1, "n")]
    reg: Annotated[float, POSITIVE]
    nearness: Nearness
    counts: Annotated[Array | None, Axes("n"), WEIGHTS] = None  # of each anchor as a neighbour; None: 1

    @property
    def anchors(self) -> Array:
        return self.search.distances.anchors

    @property
    def row_entries(self) -> int:
        return self.search.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.search.distances.nearest(Z)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        lists = _nearest(
            _list_nearest(self.search, clip_entries(Z), self.k, self.counts, Threads(1)), self.k, self.counts
        )
        W = weights(Z, self.search.distances.anchors, lists, self.reg, False, Threads(1))
        log_mass = self.nearness.log_mass(lists.squared[lists.ptr[:-1]])
        return Rows(weights=W, log_degree=log_mass, log_mass=log_mass)


def weights(Z: Array, anchors: Array, lists: Lists, reg: float, trace: bool, runner: Threads) -> csr_array:
    """Return the reconstruction weights of each row of Z, with a ridge by the trace (``trace``) or by the diagonal."""
    out = np.empty(len(lists.index))
    if isinstance(anchors, SparseRows):
        _fill_sparse(Z, anchors, lists, reg, trace, out)
        return csr_array((out, lists.index, lists.ptr), shape=(len(Z), len(anchors)))
    Z, anchors = (np.ascontiguousarray(A, dtype=float) for A in (Z, anchors))

    def fill(block: slice) -> None:
        barycentric_loops.barycentric(Z, anchors, lists.ptr, lists.index, reg, trace, out, block.start, block.stop)

    runner.run(fill, row_blocks(len(Z), 64 * (1 + Z.shape[1] // 8)))
    return csr_array((out, lists.index, lists.ptr), shape=(len(Z), len(anchors)))


def _fill_sparse(Z: Array, anchors: Array, lists: Lists, reg: float, trace: bool, out: Array) -> None:
    """Write the weights of sparse rows: a row and its neighbours as an array of the features that they store."""
    for i in range(len(Z)):
        index = lists.index[lists.ptr[i] : lists.ptr[i + 1]]
        group = stack_rows([Z[[i]], anchors[index]])
        assert isinstance(group, SparseRows)
        used, column = np.unique(group.indices, return_inverse=True)
        table = np.zeros((len(group), max(1, len(used))))
        table[np.repeat(np.arange(len(group)), np.diff(group.indptr)), column] = group.data
        ptr, neighbors_of = np.array([0, len(index)]), np.arange(len(index))
        part = out[lists.ptr[i] : lists.ptr[i + 1]]
        barycentric_loops.barycentric(table[:1], table[1:], ptr, neighbors_of, reg, trace, part, 0, 1)


def weights_of_anchors(
    search: Search, k: int, reg: float, runner: Threads, counts: Array | None = None
) -> tuple[csr_array, Lists]:
    """Return the weights W of the fit, and the neighbour lists they belong to."""
    points = search.distances.anchors
    lists = _list_nearest(search, points, k + 1, counts, runner)
    lists = _nearest(lists.select(lists.index != lists.rows()), k, counts)
    return weights(points, points, lists, reg, True, runner), lists


def _list_nearest(search: Search, Z: Array, k: int, counts: Array | None, runner: Threads) -> Lists:
    """Return at least the nearest anchors of each row that together count k, or k + 1 with ``counts``."""
    if counts is None:
        return search.closest(Z, k, runner)
    return lists_of_mass(search, Z, counts, k + 1, runner, counts=counts)


def _nearest(lists: Lists, k: int, counts: Array | None) -> Lists:
    """Return the entries of each row up to neighbour k."""
    return lists.nearest(k) if counts is None else select_nearest(lists, counts, k, counts)


@dataclass(frozen=True)
class Residual(Normalization):
    """Eigenfunctions of the smallest eigenvalues of (I - W)'(I - W), orthonormal in the measure."""

    k: int  # neighbours of a point

    @property
    def looked(self) -> int:
        return min(LOOKED, self.k - 1)

    @property
    def unit_columns(self) -> bool:
        return True

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions.copy()

    def dimension(self, operator: Operator, values: Array) -> int | None:
        """Return the number before the largest ratio if the first is rounding: the functions mix then; else None."""
        least = operator.size * np.finfo(float).eps * operator.spread
        if -values[0] > least:
            return None
        first = np.maximum(-values, least)
        return int((first[1:] / first[:-1]).argmax()) + 1 if len(first) > 1 else 1


@dataclass(frozen=True)
class LocalWeights(Eigenproblem):
    """Locally linear embedding. Equal rows are merged into one point of their joint measure."""

    k: int
    reg: float
    components: str = "warn"
    fewer: bool = False  # of few points take fewer neighbours than k, instead of raising

    @property
    def merges_copies(self) -> bool:
        return True

    @property
    def weighs_scales(self) -> bool:
        return True

    @property
    def against_outliers(self) -> str:
        return "Raise n_neighbors or reg, scale the features"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        n = len(anchors.measure)
        if self.k <= needed:
            raise ValueError(
                f"n_neighbors={self.k} must be larger than n_components={needed}: weights on k neighbours are singular "
                f"for more than k - 1 coordinates. Raise n_neighbors to at least {needed + 1}."
            )
        anchors = along_the_tree(anchors, Metric())
        counts = anchors.counts()
        counted = n if counts is None else float(counts.sum())
        if self.fewer and self.k >= counted:
            most = int(np.ceil(counted)) - 1
            if most <= needed:
                raise ValueError(
                    f"{needed} coordinates need at least {needed + 2} distinct points, n = {counted:g}. Ask for fewer."
                )
            built = replace(self, k=most, fewer=False).build(rows, anchors, measure, needed, runner)
            return built.of_few(self.k)
        if self.k >= counted:
            told = "" if counts is None else " (weights below 1 count as their fraction)"
            raise ValueError(
                f"n_neighbors={self.k} must be smaller than the number of distinct points, n = {counted:g}{told}. "
                "Lower it."
            )
        search = neighbors.build(Metric().fit(anchors.points), "auto", runner)
        W, lists = weights_of_anchors(search, self.k, self.reg, runner, counts)
        pattern = csr_array((np.ones(W.nnz), W.indices, W.indptr), W.shape)
        parts = components.find(pattern, anchors.measure)
        if parts.count > 1 and self.components == "error":
            raise ValueError(
                f"The neighbour graph has {parts.describe()}. Raise n_neighbors (now {self.k}), or pass "
                "components='warn' (contrasts become coordinates) or 'largest'."
            )
        if parts.count > 1 and self.components == "largest":
            inside = np.flatnonzero(parts.labels == 0)
            if len(inside) <= max(0 if self.fewer else self.k, needed):
                raise ValueError(
                    f"The largest of {parts.count} components holds {len(inside)} of {n} distinct points: too few to "
                    "embed. Raise n_neighbors."
                )
            return replace(self, components="warn").build(rows, anchors.at(inside), measure, needed, runner)
        nearness, reference = Nearness.of(lists.squared[lists.ptr[:-1]], anchors.measure, anchors.weighed)
        operator = replace(residual(W, anchors.measure), parts=parts, runner=runner)
        self._warn_if_slow(operator)
        return BuiltProblem(
            anchors=anchors,
            operator=operator,
            normalization=Residual(self.k),
            rule=BarycentricRule(search=search, k=self.k, reg=self.reg, nearness=nearness, counts=counts),
            reference=reference,
            edges=f"{self.k} nearest neighbours" + neighbors.approximation(search.recall),
            recall=search.recall,
            degree=W.nnz / n,
        )

    def _warn_if_slow(self, operator: ResidualOperator) -> None:
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

    def cost(self, case: Case) -> Cost:
        n, k, surface = case.anchors, self.k, case.features <= TREE_FEATURES
        entries = n * min(n, k * min(k, SECOND_NEIGHBORS_PER_NEIGHBOR) if surface else k * k)
        # factors of graphs in two dimensions, and in three (George 1973), measured at ten neighbours: separators hold
        # as many more nodes as a node has neighbours
        factors = (16.0 * n * np.log2(n) if surface else 20.0 * n ** (4 / 3)) * max(1.0, k / 10)
        stages = [
            Stage("neighbours", 34.0 * n * (k + 1), case.search(n, n, k)),
            Stage("weights", 16.0 * n * k, n * k**2 * 3e-9 / case.cores),
            Stage("solve", 12.0 * (3 * entries + factors), 4e-8 * n * k * np.log2(n)),
        ]
        solver = "dense" if n <= DENSE_SOLVER_UP_TO else "shiftinvert"
        return Cost(f"{k} nearest", solver, case.beside_a_search(n, stages))

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion:
        assert isinstance(rule, BarycentricRule)
        return ResidualKernel(rule, pairs)

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        found = []
        if report.components > 1:
            text = (
                f"The neighbour graph has {problem.operator.parts.describe()}, so "
                f"{contrasts_only(report.components, report.n_components)} them apart. Raise "
                f"n_neighbors (now {self.k}), or pass components='largest'."
            )
            found.append(Concern(Importance.PIECES, text))
        if report.multiplicity > report.components:
            text = (
                f"{report.multiplicity} eigenvalues are zero up to rounding, so the coordinates are an arbitrary basis "
                "of as many functions: groups of points reconstruct themselves or the data is flat. Raise n_neighbors "
                f"(now {self.k}) or reg (now {self.reg:g})."
            )
            found.append(Concern(Importance.SPECTRUM, text))
        return found


def residual(W: csr_array, measure: Array) -> ResidualOperator:
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
    return ResidualOperator(matrix=M, spread=spread, measure=measure, stationary=measure, parts=parts)


class ResidualKernel(SmallEndKernel):
    """M = (I - W)'(I - W)."""

    def __init__(self, rule: BarycentricRule, pairs: EigenPairs) -> None:
        super().__init__(pairs)
        self.rule = rule
        search = neighbors.build(Metric().fit(self.anchors), "auto")
        operator = residual(weights_of_anchors(search, rule.k, rule.reg, Threads(), rule.counts)[0], self.measure)
        self.matrix, self.trivial = operator.matrix, operator.spread
        self.values = self.trivial - self.values
        self.search = search

    def table(self, X: Array, Y: Array) -> Array:
        if len(X) < len(Y):
            return self.table(Y, X).T
        at, to = self._places(X), self._places(Y)
        out = np.zeros((len(X), len(Y)))
        out[:, to >= 0] = self._to_anchors(X, at)[:, to[to >= 0]]
        new = to < 0
        if new.any():
            known = np.flatnonzero(at >= 0)
            out[np.ix_(known, new)] = self._to_anchors(Y[new], to[new])[:, at[known]].T
        return out

    def _to_anchors(self, X: Array, at: Array) -> Array:
        """k(x, x_j) for all anchors."""
        own = replace(self.rule, search=self.search)
        out = np.zeros((len(X), len(self.anchors)))
        new = np.flatnonzero(at < 0)
        if len(new):
            out[new] = (self.trivial - 1) * (own.rows(X[new]) @ np.eye(len(self.anchors))) / self.measure
        known = np.flatnonzero(at >= 0)
        root = np.sqrt(self.measure)
        out[known] = csr_array(self.matrix)[at[known]].toarray() / root[at[known], None] / root
        out[known, at[known]] += self.trivial / self.measure[at[known]]
        return out
