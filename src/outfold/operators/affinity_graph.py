"""Kernels of distances on a graph: metric -> edges -> kernel -> normalisation -> eigenproblem.

Diffusion maps, Laplacian eigenmaps and spectral clustering share this view. The method ``build`` of a view returns the
eigenproblem over the anchors and the geometry from which the row of any point is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from .. import neighbors
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..bandwidths import Fixed, PairStatistics
from ..data.places import count_places
from ..data.sources import Source
from ..data.sparse_rows import SparseRows, as_rows, few_columns
from ..distances import Given, GivenMetric, Metric, PointMetric
from ..graphs import AllPairs, Ball, components, fitted, rules
from ..graphs.fitted import SparseGraph
from ..graphs.given import GivenEdges
from ..graphs.pair_statistics import DenseStatistics, SearchStatistics
from ..graphs.protocols import EdgeRule, FittedKernel, Graph
from ..graphs.rules import DenseOrNearest
from ..kernels import Gaussian, Kernel
from ..landmarks import Anchors, along_the_graph, along_the_tree, given_columns
from ..trust import Reference
from .concerns import Concern, Importance, contrasts_only
from .costs import EDGE, ENTRY, Case, Cost, Stage
from .cut_weight import cut_notes
from .expansion import EigenPairs, Expansion
from .laplacian import Unnormalized
from .markov import GraphNormalization, log_mass_without_self
from .operator import DENSE_SOLVER_UP_TO, LANCZOS_UP_TO, MarkovOperator, Operator, RowRule
from .problem import (
    BuiltProblem,
    Eigenproblem,
    Facts,
    Scale,
    Span,
    heavy_diagonal,
    magnified_rounding,
    too_narrow,
)

BINARY = "epsilon=inf (the binary graph) needs a sparse rule: pass n_neighbors, else it is all ones."


WITHOUT_DIAGONAL = "those of a walk without the diagonal, whose kernel is not that of its rows (pass diagonal=True)"


@dataclass(frozen=True, kw_only=True)
class Affinities(Eigenproblem):
    """The metric, the edges of the graph, the kernel and its normalisation."""

    metric: PointMetric | None  # None: the matrix is precomputed
    edges: EdgeRule
    kernel: Kernel
    normalization: GraphNormalization
    components: str = "warn"
    chosen: str = ""  # prefix of the edges in the report: "auto: " if the edge rule was chosen automatically
    given_distances: bool = True  # for metric=None: the matrix holds distances, not affinities

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def _given_affinities(self) -> bool:
        return self.given and not self.given_distances

    @property
    def streams(self) -> bool:
        return not self.given

    @property
    def merges_copies(self) -> bool:
        return self.normalization.merges_copies

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric if isinstance(self.metric, Metric) else None

    def alone(self, epsilon: float) -> Affinities:
        return replace(self, kernel=self.kernel.at(epsilon))

    @property
    def against_outliers(self) -> str:
        if self.given:
            return "Give the graph more edges" if self._given_affinities else "Pass kernel='adaptive'"
        return "Leave epsilon out and pass kernel='adaptive', scale the features"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        """Return the eigenproblem over the anchors; with components="largest" only over their largest component."""
        if isinstance(self.edges, DenseOrNearest):
            return self._choose_edges(len(anchors.measure)).build(rows, anchors, measure, needed, runner)
        if self.given and isinstance(self.edges, AllPairs):
            if isinstance(anchors.points, SparseRows):
                return self._over_given_edges().build(rows, along_the_graph(anchors), measure, needed, runner)
            if self.kernel == Gaussian(Fixed(np.inf)):
                raise ValueError(BINARY)
        if not isinstance(self.edges, AllPairs):
            anchors = along_the_tree(anchors, self.metric)
        counts = anchors.counts(self.given)
        rules.check_k(self.edges, anchors.measure if counts is None else counts)
        survey = self._survey(anchors, counts, runner)
        kernel = self.kernel.fit(survey)
        graph = self.edges.draw(survey, kernel, runner)
        recall = survey.recall
        del survey
        graph, operator, rule, reference, degree = self._operator(graph, kernel, anchors, runner)
        if operator.parts.count > 1 and self.components != "warn":
            if self.components == "largest":
                fewer = largest_component(anchors, operator, needed, self.given, getattr(self.edges, "k", 0))
                return replace(self, components="warn").build(rows, fewer, measure, needed, runner)
            graph = self._join_components(graph, operator, anchors, runner)
            graph, operator, rule, reference, degree = self._operator(graph, kernel, anchors, runner)
        smooth = None if self.given else few_columns(anchors.points)
        return BuiltProblem(
            anchors=anchors,
            operator=replace(operator, runner=runner, smooth=smooth),
            normalization=self.normalization.of_operator(operator),
            rule=rule,
            reference=reference,
            columns=anchors.index if self.given else None,
            edges=self._describe(graph) + neighbors.approximation(recall),
            recall=recall,
            degree=degree,
            bandwidth=kernel.bandwidth,
            notes=cut_notes(self.kernel, kernel, graph, runner),
        )

    def _over_given_edges(self) -> Affinities:
        """Return the same over the edges of a sparse matrix."""
        assert isinstance(self.edges, AllPairs)
        if self.edges.local is not None:
            raise ValueError(
                f"A kernel in units of neighbour {self.edges.local} over a sparse graph needs n_neighbors: pass a "
                "number, or leave kernel at 'auto'."
            )
        return replace(self, edges=GivenEdges(squares=self.given_distances))

    def _choose_edges(self, n: int) -> Affinities:
        return replace(self, edges=self.edges.choose(n), chosen="auto: ")

    def _describe(self, graph: Graph) -> str:
        edges = self.edges
        if isinstance(edges, Ball) and isinstance(graph, SparseGraph):
            edges = replace(edges, radius=graph.radius)
        told = self.chosen + edges.describe()
        return told if self.normalization.has_diagonal else told + ", without the diagonal"

    def _survey(self, anchors: Anchors, counts: Array | None, runner: Threads) -> PairStatistics:
        if self.metric is not None:
            found = self.edges.statistics(self.metric, anchors.points, anchors.measure, runner)
            assert isinstance(found, DenseStatistics | SearchStatistics)
            return replace(found, counts=counts)
        points = anchors.points[:, given_columns(anchors)]
        if not isinstance(self.edges, AllPairs):
            found = self.edges.statistics(GivenMetric(), as_rows(points), anchors.measure, runner)
            return replace(found, counts=counts) if isinstance(found, SearchStatistics) else found
        given = Given(given_columns(anchors), self.given_distances)
        squared = given.cross(points)
        return DenseStatistics(distances=given, squared=squared, measure=anchors.measure, counts=counts)

    def _operator(
        self, graph: Graph, kernel: FittedKernel, anchors: Anchors, runner: Threads
    ) -> tuple[Graph, Operator, RowRule, Reference, float]:
        """Return the graph without caches, its operator and row rule, the reference of support, and the mean degree."""
        measured = graph.gram(runner)
        graph = graph.without_caches()
        measure = anchors.measure
        dense = isinstance(measured, np.ndarray)
        values = measured if isinstance(measured, np.ndarray) else measured.data
        witness = kernel.witness(values)
        blocks = row_blocks(len(values), values.shape[1] if dense else 1)
        # In place: `measured` holds affinities from here on.
        runner.each(lambda block: kernel.affinity(values[block]), blocks, "kernel")
        seen = measured
        if witness is not None and not isinstance(measured, np.ndarray):  # a dense graph needs no witness
            seen = csr_array((witness, measured.indices, measured.indptr), measured.shape)
        reference = Reference.of(log_mass_without_self(seen, measure), measure)
        degree = float(len(measure)) if isinstance(measured, np.ndarray) else measured.nnz / len(measure)
        return graph, *self.normalization.normalize(measured, measure, graph, kernel), reference, degree

    def _join_components(self, graph: Graph, operator: Operator, anchors: Anchors, runner: Threads) -> Graph:
        """Return the graph with the shortest bridges between its components. Raise ValueError if components="error"."""
        told = f"The graph has {operator.parts.describe()}"
        only_given = self._is_given(anchors)
        if self.components == "error":
            remedy = self._remedy() if only_given else "Raise n_neighbors or epsilon"
            others = " or 'largest'" if only_given else ", 'largest' or 'join'"
            raise ValueError(f"{told}. {remedy}, or pass components='warn' (contrasts become coordinates){others}.")
        if isinstance(self.edges, AllPairs) and not self._given_affinities:
            raise ValueError(
                f"{told}, and it is dense: they are too far apart for epsilon, and no bridge would weigh anything. "
                "Raise epsilon, or pass n_neighbors with components='join'."
            )
        if not isinstance(graph, SparseGraph):
            raise ValueError(
                f"{told}, and nothing says how far they are apart, so nothing can join them. Pass "
                "components='largest' or 'warn', or a graph with more edges."
            )
        pairs = components.bridges(operator.parts, graph.distances)
        return fitted.with_bridges(graph, graph.gram(runner), pairs)

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        return self.normalization.kernel_between(rule, pairs)

    @property
    def without_kernel(self) -> str:
        return WITHOUT_DIAGONAL

    @property
    def smaller(self) -> str:
        return "n_neighbors=32 to keep nearest neighbours only" if isinstance(self.edges, AllPairs) else ""

    def cost(self, case: Case) -> Cost:
        n = case.anchors
        edges = self.edges.choose(n)
        chosen = "auto: " if isinstance(self.edges, DenseOrNearest) else self.chosen
        small_end = isinstance(self.normalization, Unnormalized)
        if isinstance(edges, AllPairs):
            solver, solve = case.dense_solve(n, "shiftinvert" if small_end else "lanczos")
            table = Stage("kernel", 8.0 * n * n * 1.2, n * n * (ENTRY + case.features * 1e-10) / case.cores)
            return Cost(chosen + edges.describe(), solver, [table, solve])
        k = getattr(edges, "k", 32)
        told = "ball" if getattr(edges, "radius", 0) == "auto" else edges.describe()
        entries = 1.3 * n * k
        solver, solve = "dense" if n <= DENSE_SOLVER_UP_TO else "lanczos", Stage("solve", 0.0, 0.1)
        if n > LANCZOS_UP_TO:
            solver, solve = case.sparse_solve(n, entries)
            solve = replace(solve, bytes=solve.bytes + 24 * entries)  # the distances and the kernel
        elif n > DENSE_SOLVER_UP_TO and small_end:
            solver = "shiftinvert"
        stages = [
            Stage("neighbours", 34.0 * n * (k + 1), case.search(n, n, k)),
            Stage("graph", 16.0 * n * (k + 1) + 36 * entries, EDGE * entries),
            solve,
        ]
        return Cost(chosen + told, solver, case.beside_a_search(n, stages))

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        found = []
        if report.components > 1:
            only_given = self._is_given(problem.anchors)
            if only_given:
                remedy = self._remedy()
            else:
                remedy = self.edges.choose(report.n_anchors).remedy()
                remedy += f" (now {report.edges}, epsilon {report.epsilon:.3g})"
            join = "" if only_given or "all pairs" in report.edges else " or 'join'"
            text = f"{disconnected_note(report, problem.operator)} {remedy}, or pass components='largest'{join}."
            found.append(Concern(Importance.PIECES, text))
        found += heavy_diagonal(report) if self._given_affinities else too_narrow(report, self._scale(problem))
        return found + magnified_rounding(report)

    def _is_given(self, anchors: Anchors) -> bool:
        """Return whether the edges are those of a matrix of affinities or of a sparse graph: none can be added."""
        return self._given_affinities or (self.given and isinstance(anchors.points, SparseRows))

    def _remedy(self) -> str:
        """Return what connects a graph that the caller gives."""
        if self._given_affinities:
            return "Give a graph with edges between them"
        if isinstance(self.edges, AllPairs | GivenEdges):
            return "Store more neighbours of each node"
        return f"{self.edges.remedy()} (now {self.edges.describe()}), store more neighbours of each node"

    def span(self, problem: BuiltProblem) -> Span | None:
        if not isinstance(problem.operator, MarkovOperator) or not np.isfinite(problem.bandwidth.epsilon):
            return None
        return Span("Lower epsilon, or pass kernel='adaptive'", scale=self._scale(problem))

    def _scale(self, problem: BuiltProblem) -> Scale:
        plain = isinstance(self.kernel, Gaussian) and self.kernel.witness is None and self.feature_metric is not None
        return partial(self.local_scale, problem.anchors) if plain else None


def disconnected_note(report: Facts, operator: Operator) -> str:
    """Return the beginning of the warning about a graph in several components."""
    alone = int((np.bincount(operator.parts.labels) == 1).sum())
    rows = f"{alone} row has" if alone == 1 else f"{alone} rows have"
    return (
        f"The graph falls into {operator.parts.describe()}"
        + (f"; {rows} no neighbour in reach" if alone else "")
        + f", so {contrasts_only(report.components, report.n_components)} them apart."
    )


def largest_component(anchors: Anchors, operator: Operator, needed: int, given: bool, k: float) -> Anchors:
    """Return the anchors of the component with the largest measure."""
    held = np.bincount(operator.parts.labels, weights=anchors.measure)
    found = anchors.at(np.flatnonzero(operator.parts.labels == held.argmax()))
    distinct = len(found.points) if given else count_places(found.points)
    if distinct < needed + 1 or _count_all(found) <= k:
        sparse = given and isinstance(anchors.points, SparseRows)
        remedy = "Give a graph with more edges" if sparse else "Raise n_neighbors or epsilon"
        raise ValueError(
            f"The largest of {operator.parts.count} components holds {len(found.points)} of {operator.size} anchors, "
            f"{distinct} of them distinct: too few to embed. {remedy}."
        )
    return found


def _count_all(anchors: Anchors) -> float:
    """Return the number of neighbours that all anchors count together."""
    counts = anchors.counts()
    return float((anchors.measure if counts is None else counts).sum())
