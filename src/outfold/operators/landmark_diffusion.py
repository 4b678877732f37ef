"""Landmark diffusion (Roseland): every row diffuses to the landmarks and back.

    W rows x landmarks, omega_k = (p_X(y_k)^-2 p_Y(y_k)^-1 a^2 / b)^alpha, W' = W sqrt(omega)
    c = W'^T m,   d = W' c,   G = W'^T diag(m / d) W' = V S^2 V'   (landmarks x landmarks)
    psi(x) = sum_k p(x, k) phi_k / sigma,   p(x, k) = w'(x, k) c_k / d(x),   phi = V |c| / c

p_X are the column sums of W over the rows, p_Y those over the landmarks, with the same truncation: the powers undo the
density of either (alpha = 1: Laplace-Beltrami; alpha = 0: plain Roseland). G c = c, so the trivial eigenvector is
known. The fit is two passes over row blocks, one for p_X, one for G; a row is a Markov row to the landmarks.

Where a row keeps its nearest landmarks only, its Gaussian is cut off at their radius r, shorter where landmarks are
dense. Of a d-dimensional Gaussian that leaves the mass a = P(chi2_d < r^2 / epsilon) and the second moment
b = P(chi2_(d+2) < r^2 / epsilon), so a step there covers b / a of the squared length. Backwards, from landmarks to
rows, the cut bends the drift by grad log b. The factor a^2 / b in omega straightens it; landmarks wait so that time
passes everywhere as where steps are shortest: with the pace tau = (b / a)^alpha and kappa its least,

    G_wait = 1 - kappa tau^(-1/2) (1 - G) tau^(-1/2),   trivial eigenvector c sqrt(tau)

In local units (``local``) a row has its nearest landmarks, w = exp(-d^2 / (epsilon (r(x)^2 + r_k^2))), r the root mean
square distance to them (:mod:`outfold.graphs.nearest`): diffusion in the metric in which landmarks are even. With the
density f of the rows and g of the landmarks, the stationary density is f^2 g omega r^(2 dim), the column sums p_X are
f r^dim, and r^-dim is g: omega = p_X^(-2 alpha) leaves g, the volume of that metric, at alpha = 1. The same holds for
self-tuning and continuous k-NN, in units of a landmark's distance to its k-th neighbour.

A cut at a radius that is the same everywhere (``Ball``, ``Threshold``) leaves the same a and b everywhere: omega and
the pace are those of the whole Gaussian, with p_Y cut at that radius too. So are those of a callable, a function of the
distance. Of a precomputed matrix, rows times landmarks, p_Y is not known: the landmarks are taken for a random sample
of the rows, whose density is theirs, and omega = p_X^(-3 alpha).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import numpy as np

from .. import neighbors
from .._runtime.threads import Threads
from .._runtime.typing import FREE, WEIGHTS, WHOLE, Array, Axes, Index, Matrix
from ..bandwidths import Bandwidth, Fixed, Neighbor
from ..data.checkpoints import Checkpoint
from ..data.sources import InMemory, Source
from ..data.sparse_rows import SparseRows, few_columns
from ..distances import Metric, PointMetric
from ..graphs import AllPairs, Ball, Threshold, Union
from ..graphs.fitted import DenseGraph, SparseGraph
from ..graphs.local_dimension import dimension_of_lists
from ..graphs.nearest import NearestAnchors
from ..graphs.pair_statistics import SearchStatistics
from ..graphs.protocols import EdgeRule, FittedKernel, Geometry
from ..graphs.rules import DenseOrNearest
from ..kernels import Affinity, CallableKernel, Gaussian, GaussianKernel, Kernel
from ..landmarks import Anchors, along_the_tree
from ..trust import LEVEL
from . import landmark_passes
from .concerns import Concern, Importance, contrasts_only
from .costs import ENTRY, FLOPS, PRODUCT, SECOND_NEIGHBORS_PER_NEIGHBOR, Case, Cost, Stage
from .expansion import EigenPairs, Expansion, by_blocks
from .given_landmarks import GivenLandmarks, RowStatistics, columns_of
from .landmark_passes import DensePasses, GraphPasses, NearestLandmarks, NearPasses, Passes
from .markov import MarkovRule, SolvedOverLandmarks
from .operator import DENSE_SOLVER_UP_TO, LANCZOS_UP_TO, MarkovOperator, RowRule
from .problem import (
    BuiltProblem,
    Eigenproblem,
    Facts,
    Gathered,
    LongRun,
    Span,
    magnified_rounding,
    too_narrow,
)

TYPICAL_WIDTH = 32  # landmarks of a row in a ball, for a plan
LEAST_SEEN = 1e-60  # p_X of a landmark, relative to the largest, below which powers of it overflow
CALL = 5e-6  # seconds for one call of a kernel in Python


@dataclass(frozen=True)
class LandmarkMarkov(SolvedOverLandmarks):
    """sigma^(2 power) psi: one step is two steps of diffusion, so eigenvalues are sigma^2."""

    def rule(self, operator: MarkovOperator, geometry: Geometry, kernel: FittedKernel) -> MarkovRule:
        total = float(operator.gain @ operator.mass)  # |c|^2, the sum of the degrees of all rows
        return replace(MarkovRule.of(operator, geometry, kernel, total), as_nearest=True)

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """embedding = sigma^(2 power) psi = row @ (sigma^(2 power - 1) phi)."""
        basis: Array = functions * np.sqrt(eigenvalues) ** (2 * self.power - 1)
        return basis

    def amplification(self, values: Array) -> float:
        return float((np.sqrt(values) ** (2 * self.power - 1)).max())


@dataclass(frozen=True, kw_only=True)
class LandmarkDiffusion(Eigenproblem):
    """Roseland."""

    metric: PointMetric | None  # None: the matrix between rows and landmarks is precomputed
    edges: EdgeRule  # Union: each row has its k nearest landmarks, whether or not they have it among theirs
    kernel: Kernel | FittedKernel  # fitted in the state of an update
    alpha: float
    normalization: LandmarkMarkov
    memory: Annotated[float, FREE] = np.inf  # limit in bytes
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    updatable: bool = False  # store the sums that an update needs
    local: bool = False  # measure in units of the root mean square distance to the nearest landmarks
    chosen: bool = False  # the number of nearest landmarks is a default, and fewer of few landmarks

    given_distances: bool = True  # for metric=None: the matrix holds distances, not affinities

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def between_rows(self) -> bool:
        return False  # a precomputed matrix has rows and landmarks

    @property
    def streams(self) -> bool:
        return True

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric if isinstance(self.metric, Metric) else None

    @property
    def long_run(self) -> LongRun:
        return LongRun(self.memory, self.checkpoint)

    def within(self, memory: float) -> LandmarkDiffusion:
        return replace(self, memory=memory)

    def alone(self, epsilon: float) -> LandmarkDiffusion:
        kernel = self.kernel if self.local or not isinstance(self.kernel, Kernel) else self.kernel.at(epsilon)
        return replace(self, kernel=kernel, checkpoint=Checkpoint())

    @property
    def against_outliers(self) -> str:
        return "Raise n_neighbors, scale the features"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        chosen = isinstance(self.edges, DenseOrNearest) or self.chosen
        anchors = along_the_tree(anchors, self.metric)
        if self.given:
            edges, geometry, kernel, recall = self._given_geometry(rows, anchors, measure, runner)
        else:
            edges, geometry, kernel, recall = self.fit_geometry(anchors.points, runner)
        passes = self.passes(rows, measure, geometry, kernel, runner)
        seen, reference, degree = passes.first()
        some = seen > LEAST_SEEN * seen.max()
        if (left := int(some.sum())) <= needed:
            epsilon = kernel.bandwidth.epsilon
            width = f" with epsilon {epsilon:.3g}" if np.isfinite(epsilon) else ""
            raise ValueError(
                f"Rows see {left} of {len(seen)} landmarks{width}, too few for {needed} coordinates "
                f"({self.describe(edges, geometry)}). {self._remedy(edges)}, or choose landmarks among the rows."
            )
        if left < len(seen):  # leave out landmarks to which no row has weight
            fewer = self.build(rows, anchors.at(np.flatnonzero(some)), measure, needed, runner)
            text = (
                f"{len(seen) - fewer.operator.size} of {len(seen)} landmarks were dropped, since rows have no weight "
                f"on them ({self.describe(edges, geometry)}); landmarks_ has the others. {self._remedy(edges)}, or "
                "choose landmarks among the rows."
            )
            return replace(fewer, notes=(Concern(Importance.LANDMARKS, text), *fewer.notes))
        omega, pace = passes.correction(seen, self.alpha, total := float(measure.sum()))
        G = passes.second(omega * seen)
        gathered = None
        if self.updatable:
            gathered = PassSums(
                view=replace(self, edges=edges, kernel=kernel, checkpoint=Checkpoint()),
                gram=G.copy(),
                seen=seen,
                total=total,
                rows=len(rows),
                low=passes.low,
                index=anchors.index,
            )
        smooth = None if self.given else few_columns(anchors.points)
        operator = replace(passes.operator(G, seen, omega, pace), runner=runner, smooth=smooth)
        return BuiltProblem(
            anchors=anchors,
            operator=operator,
            normalization=self.normalization,
            rule=self.normalization.rule(operator, geometry, kernel),
            reference=reference,
            edges=self._describe_choice(edges, geometry, chosen) + neighbors.approximation(recall),
            recall=recall,
            degree=degree,
            bandwidth=_bandwidth_of(geometry, kernel),
            notes=self._lost_rows(passes.lost, len(rows), edges, geometry),
            kept=passes.kept if isinstance(rows, InMemory) and not self.given else None,
            gathered=gathered,
        )

    def fit_geometry(self, points: Array, runner: Threads) -> tuple[EdgeRule, Geometry, FittedKernel, float | None]:
        """Fit the kernel to the landmarks.

        Returns the edge rule, the geometry, the kernel, and the recall of the search.
        """
        edges = self.choose_edges(len(points))
        if edges.neighbors > len(points):
            raise ValueError(
                f"n_neighbors={edges.neighbors} is more than the {len(points)} landmarks. Lower it, raise landmarks, "
                "or pass n_neighbors=None to keep them all."
            )
        if isinstance(edges, Union) and self.local:
            return edges, *self._local_geometry(points, edges, runner)
        assert self.metric is not None
        survey = edges.statistics(self.metric, points, np.ones(len(points)), runner)
        kernel = self.kernel.fit(survey) if isinstance(self.kernel, Kernel) else self.kernel
        if isinstance(survey, SearchStatistics) and isinstance(edges, Union):
            if edges.local is None:
                return edges, NearestLandmarks(search=survey.search, k=edges.neighbors), kernel, survey.recall
            geometry = NearestLandmarks.in_local_units(survey.search, edges.neighbors, edges.local, runner)
            return edges, geometry, kernel, survey.recall
        return edges, edges.draw(survey, kernel, runner).without_caches(), kernel, survey.recall

    def _given_geometry(
        self, rows: Source, anchors: Anchors, measure: Array, runner: Threads
    ) -> tuple[EdgeRule, Geometry, FittedKernel, float | None]:
        """Fit the kernel to precomputed rows. Returns what ``fit_geometry`` does."""
        columns, edges = columns_of(anchors), self.choose_edges(len(anchors.points))
        if edges.neighbors > len(columns):
            raise ValueError(f"n_neighbors={edges.neighbors} is more than the {len(columns)} landmarks. Lower it.")
        geometry = GivenLandmarks(
            anchors=columns, columns=rows.shape[1], squares=self.given_distances, k=edges.neighbors
        )
        kernel: FittedKernel
        if isinstance(self.kernel, Affinity):
            return edges, geometry, self.kernel, None
        if isinstance(self.kernel, Kernel):
            widest = float(edges.neighbors or np.inf)
            kernel = self.kernel.fit(RowStatistics.of(rows, measure, geometry, widest, runner))
        else:
            kernel = self.kernel
        if isinstance(edges, Ball):
            assert not isinstance(edges.radius, str)
            geometry = replace(geometry, radius=float(edges.radius))
        if isinstance(edges, Threshold):
            geometry = replace(geometry, radius=kernel.reach(edges.eta))
        return edges, geometry, kernel, None

    def choose_edges(self, landmarks: int) -> EdgeRule:
        """Return the edge rule for this number of landmarks."""
        edges = self.edges.choose(landmarks)
        if isinstance(edges, Union) and self.chosen:
            return replace(edges, k=min(edges.k, max(2, landmarks // 2)))
        return edges

    def _local_geometry(
        self, points: Array, edges: Union, runner: Threads
    ) -> tuple[NearestAnchors, FittedKernel, float | None]:
        """Return the geometry in local units, the kernel, and the recall of the search."""
        assert isinstance(self.metric, Metric)
        search, ones = neighbors.build(self.metric.fit(points), edges.search, runner), np.ones(len(points))
        epsilon, how = self.kernel_width, f"local scale: root mean square distance to {edges.k} landmarks"
        geometry, shared, _ = NearestAnchors.fit(search, ones, edges.k, edges.k, runner, epsilon=epsilon, tapers=True)
        dimension = dimension_of_lists(shared.lists, ones, edges.k)
        return geometry, GaussianKernel(Bandwidth(epsilon, how, dimension)), search.recall

    @property
    def kernel_width(self) -> float:
        """epsilon of a kernel in local units."""
        if isinstance(self.kernel, GaussianKernel):
            return self.kernel.bandwidth.epsilon
        assert isinstance(self.kernel, Gaussian)
        assert isinstance(self.kernel.rule, Fixed)
        return self.kernel.rule.epsilon

    def passes(
        self,
        rows: Source,
        measure: Array,
        geometry: Geometry,
        kernel: FittedKernel,
        runner: Threads,
        dense: bool | None = None,
    ) -> Passes:
        """Return the two passes over the rows for this geometry; ``dense``: whether sums are (None: the quicker)."""
        options = rows, measure, geometry, kernel, runner, self.memory, self.checkpoint
        if landmark_passes.measures_again(geometry):
            return NearPasses(*options)
        if isinstance(geometry, DenseGraph):
            return DensePasses(*options)
        if isinstance(geometry, GivenLandmarks):
            stored = rows.values if isinstance(rows, InMemory) else None
            if not isinstance(stored, SparseRows):
                return DensePasses(*options)
            width = max(1.0, stored.nnz / len(stored))
        else:
            width = landmark_passes.landmarks_per_row(geometry)
        many = width > landmark_passes.DENSE_FROM * len(geometry.anchors)
        judged_apart = kernel.witness(np.zeros(1)) is not None  # dense rows have no witness
        if (many if dense is None else dense) and not judged_apart:
            return DensePasses(*options)
        passes = GraphPasses(*options)
        passes.width = width
        return passes

    @staticmethod
    def describe(edges: EdgeRule, geometry: Geometry | None = None) -> str:
        """Return which landmarks a row has, in words; a ball has its radius from the fitted ``geometry``."""
        if isinstance(edges, AllPairs):
            words = "every entry of the matrix" if isinstance(geometry, GivenLandmarks) else "all landmarks"
        elif isinstance(edges, Union):
            words = f"{edges.neighbors} nearest landmarks"
        else:
            return _describe_cut(edges, geometry)
        unit = getattr(edges, "local", None)
        return words if unit is None else f"{words}, in units of landmark {unit}"

    def _describe_choice(self, edges: EdgeRule, geometry: Geometry, chosen: bool) -> str:
        words = self.describe(edges, geometry)
        if not chosen:
            return words
        usual = self.edges.neighbors
        few = f" (few landmarks; {usual} of more)" if self.chosen and edges.neighbors < usual else ""
        return f"auto: {words}{few}"

    def _remedy(self, edges: EdgeRule) -> str:
        """Return what to change if rows and landmarks see too little of each other."""
        if not isinstance(self.kernel, Affinity):
            return edges.remedy()
        return "Pass a matrix with more entries" if self.given else "Take a kernel that falls more slowly"

    def _lost_rows(self, lost: int, rows: int, edges: EdgeRule, geometry: Geometry) -> tuple[Concern, ...]:
        """Return a warning if more rows have no landmark in reach than `trust` flags anyway, else nothing."""
        if lost <= LEVEL * rows:
            return ()
        text = (
            f"{lost} of {rows} rows have no landmark in reach ({self.describe(edges, geometry)}): they have no weight "
            f"in the fit, and trust flags them. {self._remedy(edges)}, or take more landmarks."
        )
        return (Concern(Importance.LANDMARKS, text),)

    def row_width(self, landmarks: int) -> int | None:
        """Return about how many of ``landmarks`` landmarks a row has; None: all, or so many that sums are dense.

        For a threshold that is an estimate, right for surfaces and the default epsilon; for a ball a guess.
        """
        edges = self.choose_edges(landmarks)
        if isinstance(edges, AllPairs):
            return None
        width = edges.neighbors or TYPICAL_WIDTH
        if isinstance(edges, Threshold) and isinstance(self.kernel, Gaussian) and self.kernel.rule == Neighbor():
            width = round(max(8.0, 0.152 * np.sqrt(landmarks)) * -2 * np.log(edges.eta))
        if not edges.neighbors and width > landmark_passes.DENSE_FROM * landmarks:
            return None
        return max(1, min(width, landmarks))

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion:
        assert isinstance(rule, MarkovRule)
        return LandmarkKernel(rule, pairs, self.normalization.power)

    def cost(self, case: Case) -> Cost:
        n, m, f = case.rows, case.anchors, case.features
        edges, k = self.choose_edges(m), self.row_width(m)
        chosen = "auto: " if isinstance(self.edges, DenseOrNearest) or self.chosen else ""
        told = chosen + self.describe(edges)
        if k is None:
            solver, solve = case.dense_solve(m)
            block = 8.0 * m * case.cores * min(n, landmark_passes.gram_step(m))
            called = isinstance(self.metric, CallableKernel)
            walk = n * m * CALL if called else n * m * ENTRY / case.cores
            kept = 8.0 * m * m * self.updatable
            second = 8.0 * m * m * (case.cores + 2.5) + block
            stages = [
                Stage("first pass", 8.0 * m * m, walk),
                Stage("second pass", second, walk + n * m * m / FLOPS / case.cores),
                replace(solve, bytes=solve.bytes + kept),
            ]
            return Cost(told, solver, stages)
        chunk = landmark_passes.chunk_rows(n, f, k, self.memory)
        whole = chunk >= n
        gram = m * min(m, SECOND_NEIGHBORS_PER_NEIGHBOR * k)
        kept = 12.0 * gram * self.updatable
        rows = chunk * (24.0 + 16 * f)
        sums = 24.0 * gram * (1 if whole else 2)
        solver, solve = ("dense" if m <= DENSE_SOLVER_UP_TO else "lanczos"), Stage("solve", 24.0 * gram, 0.2)
        if m > LANCZOS_UP_TO:
            solver, solve = case.sparse_solve(m, gram)
        looked = case.search(n, m, k)
        searching = 40.0 * k * min(chunk, landmark_passes.SEARCHED_ROWS * case.cores)  # threads hold it until the end
        products = n * k * k * PRODUCT / case.cores
        held = rows + 4.0 * chunk * k if whole and case.in_memory else 0.0
        stages = [
            Stage("first pass", rows + chunk * k * 12.0 + searching, looked),
            Stage("second pass", rows + chunk * k * 24.0 + sums + searching, products + (0.0 if whole else looked)),
            replace(solve, bytes=solve.bytes + kept + held),
        ]
        return Cost(told, solver, stages)

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        found = []
        if report.components > 1:
            remedy = f"Raise n_neighbors (now {report.edges}), epsilon (now {report.epsilon:.3g})"
            edges = self.choose_edges(report.n_anchors)
            if isinstance(self.kernel, Affinity):
                remedy = self._remedy(edges)
            elif not isinstance(edges, AllPairs | Union):
                remedy = f"{edges.remedy()} (now {report.edges}, epsilon {report.epsilon:.3g})"
            text = (
                f"Landmarks and rows fall into {problem.operator.parts.describe()} (counted in landmarks), so "
                f"{contrasts_only(report.components, report.n_components)} them apart. {remedy} or take more "
                "landmarks."
            )
            found.append(Concern(Importance.PIECES, text))
        operator = problem.operator
        waits = not isinstance(operator, MarkovOperator) or operator.pace is not None
        if self._in_plain_units and not waits and np.isfinite(report.epsilon):
            found += too_narrow(report, partial(self.local_scale, problem.anchors))
        return found + magnified_rounding(report)

    @property
    def _in_plain_units(self) -> bool:
        """Whether epsilon is a squared length of the data."""
        return not self.local and getattr(self.edges, "local", None) is None and self.feature_metric is not None

    def span(self, problem: BuiltProblem) -> Span | None:
        if not np.isfinite(problem.bandwidth.epsilon):  # of affinities there is none
            return None
        scale = partial(self.local_scale, problem.anchors) if self._in_plain_units else None
        remedy = "Lower n_neighbors or epsilon, or take more landmarks"
        if not isinstance(self.choose_edges(problem.operator.size), AllPairs | Union):
            remedy = "Lower epsilon or the radius, or take more landmarks"
        return Span(remedy, steps=2, scale=scale)


def _describe_cut(edges: EdgeRule, geometry: Geometry | None) -> str:
    """Return a rule that cuts at a distance in words; a ball has its radius from the fitted ``geometry``."""
    if isinstance(edges, Ball) and isinstance(geometry, SparseGraph):
        edges = replace(edges, radius=geometry.radius)
    elif isinstance(edges, Ball) and edges.radius == "auto":
        return "ball"
    return edges.describe().replace("in units of neighbour", "in units of landmark")


def _bandwidth_of(geometry: Geometry, kernel: FittedKernel) -> Bandwidth:
    """Return the bandwidth in the units of the data."""
    if isinstance(geometry, NearestAnchors):
        return replace(kernel.bandwidth, epsilon=geometry.width)
    return kernel.bandwidth


@dataclass(frozen=True, kw_only=True)
class PassSums(Gathered):
    """The sums of the two passes, which an update continues; landmarks are in the order of the geometry."""

    view: LandmarkDiffusion  # with the edge rule chosen and the kernel fitted
    gram: Annotated[Matrix, Axes("n n")]  # W^T diag(m / d) W
    seen: Annotated[Array, Axes("n"), WEIGHTS]  # p_X
    total: float  # sum of m
    rows: int  # number of rows
    low: float  # log mass below which support is little: few rows have less
    index: Annotated[
        Array | None, Axes("n"), Index("rows"), WHOLE
    ]  # row indices of the landmarks; None: they are not rows


class LandmarkKernel(Expansion):
    """Roseland: from rows to landmarks and back."""

    def __init__(self, rule: MarkovRule, pairs: EigenPairs, power: float) -> None:
        super().__init__(pairs)
        self.rule, self.power, self.solved_on_anchors = rule, power, False

    def _row_affinities(self, X: Array) -> tuple[Array, Array]:
        """Return the rows p(x, .), and sqrt(d(x) / sum d)."""
        rows = self.rule.rows(X)
        table = rows @ np.eye(len(self.rule.gain))
        least = np.log(np.finfo(float).tiny)  # log degree of a row that no landmark reaches
        log_degree = np.maximum(rows.log_degree, least) - np.log(table @ (self.rule.measure / self.rule.gain))
        return table, np.exp((log_degree - self.rule.log_total) / 2)

    def table(self, X: Array, Y: Array) -> Array:
        (P, of_x), (Q, of_y) = self._row_affinities(X), self._row_affinities(Y)
        return (P / self.rule.stationary) @ Q.T * np.multiply.outer(of_x, of_y)

    def functions(self, X: Array, embedding: Array) -> Array:
        return self._powers(embedding, self.power) * self.constant(X)[:, None]

    def constant(self, X: Array) -> Array:
        return by_blocks(lambda part: self._row_affinities(part)[1], X, len(self.rule.gain))
