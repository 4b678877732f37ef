"""Diffusion in local units: a step goes from a point to one of its nearest anchors, and back to a point near that.

    w(x, k) = exp(-d(x, k)^2 / (epsilon (r(x)^2 + r_k^2)))   for the nearest anchors k of x, r the local scale
    C = W'm,   A = W diag(1 / C) W'                     (points x points: symmetric, positive semidefinite, A m = W 1)

A takes the place of the affinities in every normalisation: Markov (diffusion maps), the unnormalised Laplacian, and the
generator of ``kernel="variable"``. With q = A m, c = W'(m q^-alpha) and P = A diag(m) normalised with alpha,

    (P f)(x) = sum_k p(x, k) f_k,   p(x, k) = w(x, k) c_k / C_k / sum,   f_k = sum_y m_y q_y^-alpha w(y, k) f(y) / c_k

so a new point needs its own nearest anchors only: p(x, .) is a Markov row, and the basis is ``back`` times the
eigenfunctions (``back``: from functions on the points to f_k). Nothing of it depends on which points have x among
their neighbours. See :mod:`outfold.graphs.nearest` for the neighbours and r.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array, vstack

from .. import neighbors
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import WEIGHTS, Array, Axes, Interval, Sparse
from ..bandwidths import ALL_EQUAL, Bandwidth
from ..data.sources import InMemory, Source
from ..data.sparse_rows import SparseRows, as_rows, few_columns
from ..data.weights import at_whole_numbers
from ..distances import GivenNeighbors, GivenTable, Metric, SearchedDistances
from ..graphs import components
from ..graphs.bridges import bridge_lengths
from ..graphs.given import with_diagonal
from ..graphs.local_dimension import dimension_of_lists
from ..graphs.nearest import NearestAnchors, Shared
from ..kernels import GaussianKernel
from ..landmarks import ORDERED_FROM, Anchors, along_the_graph, along_the_tree, given_columns, holds_every_row
from ..neighbors.transformers import NeighborsTransformer
from ..neighbors.tree import TREE_FEATURES
from .affinity_graph import disconnected_note, largest_component
from .concerns import Concern, Importance
from .costs import EDGE, PRODUCT, Case, Cost, Stage
from .expansion import EigenPairs, Expansion
from .landmark_diffusion import LandmarkKernel
from .laplacian import LaplacianKernel, LaplacianRule, Unnormalized
from .markov import CanonicalRule, GraphNormalization, Markov, MarkovRule
from .operator import (
    DENSE_SOLVER_UP_TO,
    LANCZOS_UP_TO,
    MarkovChain,
    MarkovOperator,
    Normalization,
    Operator,
    RowRule,
)
from .problem import (
    BuiltProblem,
    Eigenproblem,
    Facts,
    NeighborLists,
    Span,
    magnified_rounding,
    too_narrow,
)
from .variable_rates import Generator, RateProblem, RateRule, local_dimension_of
from .walk import Walk, WalkOperator

NEIGHBORS = 20  # of a point, if the caller gives no number
WIDTH = 1.0  # epsilon in local units, if the caller gives none
FAR_WIDTH = 20.0  # times as wide or as narrow as the default: no width in local units
ENTRIES_PER_ENTRY = 6  # entries of A per entry of W, for plans: right for surfaces


@dataclass(frozen=True, kw_only=True)
class WalkRule(MarkovRule):
    """p(x, .) to the nearest anchors; from there the chain goes back to the points: P = p back."""

    own_measure: Annotated[Array, Axes("n"), WEIGHTS]  # m of the anchors
    own_stationary: Annotated[Array, Axes("n"), WEIGHTS]  # pi of the anchors as points; ``stationary`` is pi p

    @classmethod
    def between(cls, markov: MarkovRule, operator: Operator) -> WalkRule:
        """Return the rule of the rows ``markov`` for the operator of the points."""
        known = {part.name: getattr(markov, part.name) for part in fields(markov)}
        return cls(**known, own_measure=operator.measure, own_stationary=operator.stationary)

    def markov_chain(self) -> MarkovChain:
        anchors = self.geometry.anchors
        blocks = row_blocks(len(anchors), self.row_entries)
        p = csr_array(vstack([self.rows(as_rows(anchors[block])).weights for block in blocks]))
        assert self.stationary is not None
        values = p.data * np.repeat(self.own_stationary, np.diff(p.indptr)) / self.stationary[p.indices]
        back = csr_array((values, p.indices, p.indptr), shape=p.shape).T.tocsr()
        return MarkovChain(
            rule=self, anchors=anchors, measure=self.own_measure, stationary=self.own_stationary, back=back
        )


@dataclass(frozen=True)
class ThroughAnchors(Normalization):
    """A normalisation of A whose rows lead to the anchors: the basis is ``back`` times that of ``inner``."""

    inner: Normalization
    back: Sparse  # (anchors, points)

    @property
    def unit_columns(self) -> bool:
        return self.inner.unit_columns

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        basis: Array = self.back @ self.inner.basis(functions, eigenvalues)
        return basis

    def eigenvalues(self, operator_values: Array) -> Array:
        return self.inner.eigenvalues(operator_values)

    def scale(self, eigenvalues: Array) -> None:
        """Return None: the rows of the anchors embed them."""
        return None

    @property
    def looked(self) -> int:
        return self.inner.looked

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return self.inner.dimension(operator, values)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return self.inner.within_rank(values, kept, operator, asked, clip)

    def concerns(self, eigenvalues: Array) -> list[Concern]:
        return self.inner.concerns(eigenvalues)

    def amplification(self, values: Array) -> float:
        return self.inner.amplification(values)

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return self.inner.negative_mass(operator, values, vectors)


@dataclass(frozen=True, kw_only=True)
class NeighborWalk(Eigenproblem):
    """Diffusion in local units through the nearest anchors of each point."""

    metric: Metric | None  # None: the matrix is precomputed distances
    k: Annotated[int | str, Interval(2)]  # neighbours of a point; "auto": ``NEIGHBORS``, fewer of few points
    search: str | NeighborsTransformer = "auto"
    epsilon: float = WIDTH  # width of the kernel, in local units
    normalization: GraphNormalization | Generator
    components: str = "warn"

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def includes_itself(self) -> bool:
        return True

    @property
    def tapers(self) -> bool:
        """Whether weights fall to nearly 0 at the last neighbour; a generator counts on a Gaussian that is cut."""
        return not isinstance(self.normalization, Generator)

    @property
    def streams(self) -> bool:
        return not self.given

    @property
    def merges_copies(self) -> bool:
        return True

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric

    @property
    def against_outliers(self) -> str:
        remedy = "Pass kernel='adaptive'" if isinstance(self.normalization, Generator) else "Raise n_neighbors"
        return remedy if self.given else f"{remedy}, scale the features"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        """Return the eigenproblem over the anchors; with components="largest" only over their largest component."""
        given = anchors
        anchors = along_the_graph(anchors) if self.metric is None else along_the_tree(anchors, self.metric)
        search = neighbors.build(self._distances(anchors), self.search, runner)
        k, local, dimension = self._counts(search, anchors.measure, runner)
        geometry, shared, reference = NearestAnchors.fit(
            search, anchors.measure, k, local, runner, epsilon=self.epsilon, tapers=self.tapers
        )
        if holds_every_row(anchors, measure) and not search.complete():
            geometry = geometry.with_isolation(shared, anchors.measure)
        measured = geometry.scale(shared)
        if dimension is None:
            dimension = dimension_of_lists(shared.lists, geometry.counted, k)
        how = f"local scale: root mean square distance to {local:g} neighbours"
        kernel = GaussianKernel(Bandwidth(self.epsilon, how, dimension))
        built = self._normalize(geometry, kernel, measured, shared, anchors.measure, runner)
        if built.operator.parts.count > 1 and self.components != "warn":
            if self.components == "largest":
                least = 0 if isinstance(self.k, str) else self.k
                fewer = largest_component(anchors, built.operator, needed, self.given, least)
                return replace(self, components="warn").build(rows, fewer, measure, needed, runner)
            pairs = self._bridges(built.operator, geometry, anchors)
            geometry = replace(geometry, bridges=bridge_lengths(measured, pairs))
            measured = geometry.cross(geometry.anchors)
            built = self._normalize(geometry, kernel, measured, shared, anchors.measure, runner)
        smooth, operator = None if self.given else few_columns(anchors.points), built.operator
        if isinstance(operator, WalkOperator) and anchors is given and len(anchors.measure) >= ORDERED_FROM:
            operator = replace(operator, order=search.adjacent())
        return BuiltProblem(
            anchors=anchors,
            operator=replace(operator, runner=runner, smooth=smooth),
            normalization=built.normalization,
            rule=built.rule,
            reference=reference,
            columns=anchors.index if self.given else None,
            edges=self._describe(geometry) + neighbors.approximation(search.recall),
            recall=search.recall,
            degree=measured.nnz / len(anchors.measure),
            bandwidth=replace(kernel.bandwidth, epsilon=geometry.width),
            kept=self._keep_lists(rows, anchors, geometry, measured),
            revise=partial(self._revise, rows, anchors, measure, needed, runner)
            if isinstance(self.normalization, Generator)
            else None,
        )

    def _revise(
        self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads,
        problem: BuiltProblem, values: Array, vectors: Array,
    ) -> tuple[BuiltProblem, bool]:  # fmt: skip
        """Return the problem with a finer local scale or with s capped, and True, if the eigenvalues ask for it."""
        through, rule = problem.normalization, problem.rule
        assert isinstance(rule, RateRule)
        geometry = rule.geometry
        assert isinstance(through, ThroughAnchors)
        assert isinstance(through.inner, RateProblem)
        assert isinstance(geometry, NearestAnchors)
        assert isinstance(self.normalization, Generator)
        most = through.inner.resolving(geometry.local, float(-values.min()))
        if isinstance(self.k, str) and most < int(geometry.local):
            finer = replace(self, normalization=replace(self.normalization, most=most))
            return finer.build(rows, anchors, measure, needed, runner), True
        return _cap_rates(problem, values, vectors)

    def _distances(self, anchors: Anchors) -> SearchedDistances:
        if self.metric is not None:
            return self.metric.fit(anchors.points)
        table = as_rows(anchors.points[:, given_columns(anchors)])
        if not (table.data if isinstance(table, SparseRows) else table).any():
            raise ValueError(ALL_EQUAL)
        if isinstance(table, SparseRows):  # a walk may stay, whether the row of the node says so or not
            return GivenNeighbors(SparseRows(with_diagonal(table)))
        return GivenTable(table)

    def _counts(self, search: neighbors.Search, measure: Array, runner: Threads) -> tuple[float, float, float | None]:
        """Return the number of neighbours, the number that sets the local scale, and the dimension if it is needed."""
        counted = float(np.minimum(measure, 1.0).sum())
        few = at_whole_numbers(lambda n: max(2.0, n // 2), counted)
        if isinstance(self.k, int) and self.k >= counted:
            raise ValueError(
                f"n_neighbors={self.k} must be smaller than the number of distinct training rows, n = {counted:g}. "
                "Lower it, or leave it at 'auto'."
            )
        if not isinstance(self.normalization, Generator):
            k = min(float(NEIGHBORS), few) if isinstance(self.k, str) else float(self.k)
            return k, k, None
        dim = self.normalization.dim or local_dimension_of(search, np.minimum(measure, 1.0), runner)
        local, k = self.normalization.neighbors(counted, dim)
        k = min(k, few) if isinstance(self.k, str) else float(self.k)
        return k, min(local, k), dim

    def _normalize(
        self, geometry: NearestAnchors, kernel: GaussianKernel, measured: csr_array, shared: Shared, measure: Array,
        runner: Threads,
    ) -> Normalized:  # fmt: skip
        W = csr_array((measured.data.copy(), measured.indices, measured.indptr), shape=measured.shape)
        runner.run(lambda block: kernel.affinity(W.data[block]), row_blocks(len(W.data), 1))
        walk = Walk.of(W, measure)
        if isinstance(self.normalization, Generator):
            last, dim = geometry.farthest(shared), kernel.bandwidth.dimension or 1.0
            rates = self.normalization.fit(walk, geometry, last, dim, runner)
            markov = _markov_rule(walk, geometry, kernel, rates.weight, rates.total)
            through = ThroughAnchors(rates, walk.back(rates.weight))
            return Normalized(rates.operator, through, rates.rule(markov))
        alpha, total = 0.0, 1.0
        operator: Operator
        if isinstance(self.normalization, Markov):
            alpha = self.normalization.alpha
            operator = walk.operator(alpha, runner)
            total = operator.total
        else:
            operator = self.normalization.fit(walk.kernel(runner), measure)
        weight = walk.degree**-alpha
        markov = _markov_rule(walk, geometry, kernel, weight, total)
        rule: RowRule
        if isinstance(self.normalization, Unnormalized):
            rule = LaplacianRule(markov, np.empty(0), float(walk.degree.min()))
        elif not self.normalization.unit_columns:
            rule = WalkRule.between(markov, operator)
        else:
            root = np.sqrt(operator.stationary / measure)
            powers = markov.measure / markov.gain
            rule = CanonicalRule(markov=markov, alpha=alpha, powers=powers, root=root, log_total=markov.log_total)
        return Normalized(operator, ThroughAnchors(self.normalization, walk.back(weight)), rule)

    def _or_pass(self, anchors: Anchors, warn: bool = False) -> str:
        """Return the parameters for a disconnected graph; sparse distances may store none across, so no bridge."""
        sparse = self.given and isinstance(anchors.points, SparseRows)
        choices = ["'warn' (contrasts become coordinates)"] * warn + ["'largest'"] + ["'join'"] * (not sparse)
        parameters = f"or pass components={' or '.join(filter(None, (', '.join(choices[:-1]), choices[-1])))}"
        return f"store more neighbours of each node, {parameters}" if sparse else parameters

    def _bridges(self, operator: Operator, geometry: NearestAnchors, anchors: Anchors) -> Array:
        """Return the shortest bridges between components. Raise ValueError if components="error"."""
        if self.components == "error":
            raise ValueError(
                f"The graph has {operator.parts.describe()}. Raise n_neighbors (now {geometry.k:g}), "
                f"{self._or_pass(anchors, warn=True)}."
            )
        return components.bridges(operator.parts, geometry.distances)

    def _keep_lists(
        self, rows: Source, anchors: Anchors, geometry: NearestAnchors, measured: csr_array
    ) -> NeighborLists | None:
        """Return the values of the anchors that are training rows, if rows need nothing else."""
        index = anchors.index
        if isinstance(self.normalization, Generator):
            return None
        if not isinstance(rows, InMemory) or index is None or (self.given and len(index) < len(rows)):
            return None
        return NeighborLists(
            order=index,
            ptr=measured.indptr,
            index=measured.indices,
            distances=geometry.distances,
            values=measured.data,
        )

    def _describe(self, geometry: NearestAnchors) -> str:
        if not isinstance(self.k, str):
            return f"{geometry.k:g} nearest of each point"
        few = f" (few points; {NEIGHBORS} of more)" if geometry.k < NEIGHBORS else ""
        return f"auto: {geometry.k:g} nearest of each point{few}"

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        if isinstance(self.normalization, Markov):
            return WalkKernel(rule, pairs, self.normalization)
        return WalkLaplacianKernel(rule, pairs) if isinstance(rule, LaplacianRule) else None

    @property
    def without_kernel(self) -> str:
        return (
            "eigenfunctions of a generator, (1 - P) / s with s the local pace, not of a kernel (kernel='adaptive' has "
            "one)"
        )

    def cost(self, case: Case) -> Cost:
        n = case.anchors
        k = min(NEIGHBORS, max(2, n // 2)) if isinstance(self.k, str) else self.k
        if isinstance(self.normalization, Generator) and isinstance(self.k, str):
            k = min(max(2, n // 2), int(self.normalization.neighbors(n, self.normalization.dim or 2.0)[1]))
        entries = ENTRIES_PER_ENTRY * 1.0 * n * k
        # the distances, W, its square root, and both transposed, of the walk; then the vectors
        walk = Stage("solve", 60.0 * n * k + 16.0 * n * (2 * case.components + 20), 0.1)
        solver, solve = "dense" if n <= DENSE_SOLVER_UP_TO else "lanczos", walk
        few = case.features > TREE_FEATURES and isinstance(self.normalization, Markov)
        if n > LANCZOS_UP_TO and few:
            solver, solve = "filtered", case.filtered_solve(n, n * k)
        elif n > LANCZOS_UP_TO:
            solver, solve = case.sparse_solve(n, entries)
        elif n > DENSE_SOLVER_UP_TO and isinstance(self.normalization, Unnormalized | Generator):
            solver = "shiftinvert"
        if solver == "dense":
            solve = Stage("solve", 2.2 * 8 * n * n, 0.1)
        products = 0.0 if few else PRODUCT * n * k * k / case.cores
        stages = [
            Stage("neighbours", 40.0 * n * (k + 8), case.search(n, n, k)),
            Stage("graph", 80.0 * n * k + (0 if few else 30 * entries), EDGE * n * k + products),
            solve,
        ]
        told = ("auto: " if isinstance(self.k, str) else "") + f"{k} nearest of each point"
        return Cost(told, solver, case.beside_a_search(n, stages))

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        found = []
        if report.components > 1:
            text = f"{disconnected_note(report, problem.operator)} Raise n_neighbors (now {report.edges})"
            found.append(Concern(Importance.PIECES, f"{text}, {self._or_pass(problem.anchors)}."))
        if isinstance(problem.operator, MarkovOperator):
            found += too_narrow(report) if self.epsilon != WIDTH else []
        found += self._width_concerns()
        if isinstance(problem.normalization, ThroughAnchors) and isinstance(problem.normalization.inner, RateProblem):
            found += problem.normalization.inner.concerns(-values)
        return found + magnified_rounding(report)

    def span(self, problem: BuiltProblem) -> Span | None:
        return Span("Lower n_neighbors", steps=2) if isinstance(problem.operator, MarkovOperator) else None

    def _width_concerns(self) -> list[Concern]:
        """Return a warning if epsilon looks like one in the units of the data."""
        if WIDTH / FAR_WIDTH <= self.epsilon <= WIDTH * FAR_WIDTH:
            return []
        text = (
            f"epsilon={self.epsilon:.3g} is far from every local scale: this kernel measures in local units, where "
            f"{WIDTH:g} is the distance to neighbours. Leave epsilon out, or pass kernel='gaussian' for an epsilon in "
            "the units of the data."
        )
        return [Concern(Importance.WIDTH, text)]


@dataclass(frozen=True)
class Normalized:
    """What a normalisation of the walk gives."""

    operator: Operator
    normalization: ThroughAnchors
    rule: RowRule


def _cap_rates(problem: BuiltProblem, values: Array, vectors: Array) -> tuple[BuiltProblem, bool]:
    """Return the problem with s capped and True, if the eigenvalues ask for it.

    Else return it with the sensitivity of the rates to the dimension, and False.
    """
    through = problem.normalization
    assert isinstance(through, ThroughAnchors)
    assert isinstance(through.inner, RateProblem)
    rates, rule = through.inner, problem.rule
    assert isinstance(rule, RateRule)
    capped = rates.lower_cap(-values, vectors)
    if capped is not None:
        operator = replace(capped.operator, runner=problem.operator.runner, smooth=problem.operator.smooth)
        through = replace(through, inner=capped)
        return replace(problem, operator=operator, normalization=through, rule=capped.rule(rule.markov)), True
    moving = -values > problem.operator.near * problem.operator.spread
    functions = problem.operator.functions(vectors[:, moving])
    change = rates.sensitivity(-values[moving], functions) if moving.any() else 0.0
    told = f"{problem.bandwidth.how}; dimension {rates.dim:.2g}: rates change by {change:.0%} with one more or less"
    return replace(problem, bandwidth=replace(problem.bandwidth, how=told)), False


def _markov_rule(
    walk: Walk, geometry: NearestAnchors, kernel: GaussianKernel, weight: Array, total: float
) -> MarkovRule:
    """Return the rows p(x, k), for points weighted by ``weight``."""
    sums = walk.sums(weight)
    return MarkovRule(
        geometry=geometry,
        kernel=kernel,
        measure=np.ones(len(sums)),
        gain=sums / walk.seen,
        stationary=np.square(sums) / walk.seen / total,
        log_total=float(np.log(total)),
    )


class WalkKernel(LandmarkKernel):
    """A / sqrt(d d'): from points to anchors and back."""

    def __init__(self, rule: RowRule, pairs: EigenPairs, normalization: Markov) -> None:
        markov = rule.markov if isinstance(rule, CanonicalRule) else rule
        assert isinstance(markov, MarkovRule)
        super().__init__(markov, pairs, normalization.power)
        self.alpha, self.canonical, self.solved_on_anchors = normalization.alpha, normalization.canonical, True

    def _row_affinities(self, X: Array) -> tuple[Array, Array]:
        table, roots = super()._row_affinities(X)
        log_degree = np.maximum(self.rule.rows(X).log_degree, np.log(np.finfo(float).tiny))
        return table, roots * np.exp(-self.alpha * log_degree / 2)

    def functions(self, X: Array, embedding: Array) -> Array:
        return self._powers(embedding, self.power) if self.canonical else super().functions(X, embedding)


class WalkLaplacianKernel(LaplacianKernel):
    """L = diag(d) - A diag(m): A(x, y) = sum_k w(x, k) w(y, k) / C_k."""

    def _affinities(self, X: Array, Y: Array) -> Array:
        seen = self.rule.markov.stationary
        assert seen is not None
        to_anchors = np.eye(len(seen))
        W, V = (self.rule.markov.rows(Z) @ to_anchors * self._degrees(Z)[:, None] for Z in (X, Y))
        table: Array = (W / seen) @ V.T
        return table
