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
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..data.checkpoints import Checkpoint
from ..data.sources import InMemory, Source
from ..distances import Distances, clip_entries
from ..graphs import AllPairs, drawing, rules
from ..graphs.fitted import DenseGraph
from ..graphs.pair_statistics import SearchStatistics
from ..graphs.rules import DenseOrNearest
from ..landmarks import Anchors, along_the_tree
from ..neighbors import Lists, choice
from .landmark_passes import DensePasses, NearPasses, Passes
from .markov import MarkovRule, SolvedOverLandmarks
from .operator import Operator
from .problem import BuiltProblem


@dataclass(frozen=True)
class NearestLandmarks:
    """Squared distances to the k nearest landmarks, ties with the k-th included."""

    search: Any
    k: int

    @property
    def distances(self) -> Distances:
        return self.search.distances

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return choice.row_entries(self.search)

    def lists(self, Z: Array, runner: Threads) -> Lists:
        lists = self.search.closest(clip_entries(Z), self.k, runner)
        return lists.nearest(self.k) if len(lists.index) > self.k * len(Z) else lists

    def cross(self, Z: Array) -> csr_array:
        lists = self.lists(Z, Threads(1))
        return csr_array((lists.squared, lists.index, lists.ptr), shape=(len(Z), len(self.anchors)))

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)


@dataclass(frozen=True)
class LandmarkMarkov(SolvedOverLandmarks):
    """sigma^(2 power) psi: one step is two steps of diffusion, so eigenvalues are sigma^2."""

    def rule(self, operator: Operator, geometry: Any, kernel: Any, eigenvalues: Array) -> MarkovRule:
        log_total = float(np.log(operator.gain @ operator.mass))  # log |c|^2, |c|^2 the sum of the degrees of all rows
        return MarkovRule(geometry, kernel, operator.measure, operator.gain, operator.stationary, log_total)

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """embedding = sigma^(2 power) psi = row @ (sigma^(2 power - 1) phi)."""
        return functions * np.sqrt(eigenvalues) ** (2 * self.power - 1)

    def amplification(self, values: Array) -> float:
        return float((np.sqrt(values) ** (2 * self.power - 1)).max())


@dataclass(frozen=True)
class LandmarkDiffusion:
    """The view of Roseland."""

    metric: Any
    edges: Any  # DenseOrNearest, AllPairs, or Union: each row has its k nearest landmarks
    kernel: Any
    alpha: float
    normalization: LandmarkMarkov
    memory: float = np.inf  # limit in bytes
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    updatable: bool = False  # store the sums that an update needs
    given: ClassVar[bool] = False
    merges_copies: ClassVar[bool] = False
    streams: ClassVar[bool] = True

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        chosen = isinstance(self.edges, DenseOrNearest)
        anchors = along_the_tree(anchors, self.metric)
        edges, geometry, kernel, exact = self.fit_geometry(anchors.points, runner)
        passes = self.passes(rows, measure, geometry, kernel, runner)
        seen, reference, degree = passes.first()
        if (left := int((seen > 0).sum())) <= needed:
            raise ValueError(
                f"Rows see {left} of {len(seen)} landmarks with epsilon {kernel.bandwidth.epsilon:.3g}, too few for "
                f"{needed} coordinates. Raise epsilon, or choose landmarks among the rows."
            )
        if left < len(seen):  # leave out landmarks to which no row has weight
            return self.build(rows, anchors.at(np.flatnonzero(seen > 0)), measure, needed, runner)
        omega, pace = passes.correction(seen, self.alpha, total := float(measure.sum()))
        G = passes.second(omega * seen)
        settled = replace(self, edges=edges, kernel=kernel, checkpoint=Checkpoint())
        told = (settled, G.copy(), seen, total, len(rows), passes.low, anchors.index) if self.updatable else None
        operator = passes.operator(G, seen, omega, pace)
        return BuiltProblem(
            anchors,
            replace(operator, runner=runner, smooth=anchors.points[:, :16]),
            self.normalization,
            geometry,
            kernel,
            reference,
            columns=None,
            edges=("auto: " if chosen else "") + self.describe(edges) + ("" if exact else ", found approximately"),
            degree=degree,
            bandwidth=kernel.bandwidth,
            kept=passes.kept if isinstance(rows, InMemory) else None,
            gathered=None if told is None else PassSums(*told),
        )

    def fit_geometry(self, points: Array, runner: Threads) -> tuple[Any, Any, Any, bool]:
        """Fit the kernel to the landmarks. Returns (edge rule, geometry, kernel, whether the search is exact)."""
        edges = rules.choose_rule(self.edges, len(points))
        if getattr(edges, "k", 0) > len(points):
            raise ValueError(
                f"n_neighbors={edges.k} is more than the {len(points)} landmarks. Lower it, raise landmarks, or pass "
                "n_neighbors=None to keep them all."
            )
        survey = drawing.collect_statistics(edges, self.metric, points, np.ones(len(points)), runner)
        kernel = self.kernel.fit(survey)
        if isinstance(survey, SearchStatistics):
            return edges, NearestLandmarks(survey.search, edges.k), kernel, survey.exact
        geometry = DenseGraph(survey.distances, survey.measure, slack=kernel.slack)
        return edges, geometry, kernel, survey.exact

    def passes(self, rows: Source, measure: Array, geometry: Any, kernel: Any, runner: Threads) -> Passes:
        """Return the two passes over the rows for this geometry."""
        walk = NearPasses if isinstance(geometry, NearestLandmarks) else DensePasses
        return walk(rows, measure, geometry, kernel, runner, self.memory, self.checkpoint)

    @staticmethod
    def describe(edges: Any) -> str:
        return "all landmarks" if isinstance(edges, AllPairs) else f"{edges.k} nearest landmarks"

    def concerns(self, report: Any, values: Array, problem: BuiltProblem) -> list[str]:
        found = []
        if report.components > 1:
            found.append(
                f"Landmarks and rows fall into {problem.operator.parts.describe()} (counted in landmarks), so the "
                f"first {min(report.components - 1, report.n_components)} coordinates only tell them apart. Raise "
                f"n_neighbors (now {report.edges}), epsilon (now {report.epsilon:.3g}) or the number of landmarks."
            )
        return found + report.describe_amplification()


@dataclass(frozen=True)
class PassSums:
    """The sums of the two passes, which an update continues; landmarks are in the order of the geometry."""

    view: LandmarkDiffusion  # with the edge rule chosen and the kernel fitted
    gram: Any  # W^T diag(m / d) W, dense or CSR
    seen: Array  # p_X
    total: float  # sum of m
    rows: int  # number of rows
    low: float  # log mass below which support is little: few rows have less
    index: Array | None  # row indices of the landmarks; None: they are not rows
