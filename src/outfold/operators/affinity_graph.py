"""Kernels of distances on a graph: metric -> edges -> kernel -> normalisation -> eigenproblem.

Diffusion maps, Laplacian eigenmaps and spectral clustering share this view. The method ``build`` of a view returns the
eigenproblem over the anchors and the geometry from which the row of any point is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..data.sources import Source
from ..distances import Given
from ..graphs import AllPairs, components, drawing, fitted, rules
from ..graphs.pair_statistics import DenseStatistics
from ..graphs.rules import DenseOrNearest
from ..landmarks import Anchors, along_the_tree, given_columns
from ..trust import Reference
from .markov import log_mass_without_self
from .operator import Operator
from .problem import BuiltProblem


@dataclass(frozen=True)
class Affinities:
    """The metric, the edges of the graph, the kernel and its normalisation."""

    metric: Any  # None: the matrix is precomputed
    edges: Any  # rule for the edges of the graph
    kernel: Any
    normalization: Any
    components: str = "warn"
    chosen: str = ""  # prefix of the edges in the report: "auto: " if the edge rule was chosen automatically
    given_distances: bool = True  # for metric=None: the matrix holds distances, not affinities

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def streams(self) -> bool:
        return not self.given

    @property
    def merges_copies(self) -> bool:
        return self.normalization.merges_copies

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        """Return the eigenproblem over the anchors; with components="largest" only over their largest component."""
        if isinstance(self.edges, DenseOrNearest):
            return self._choose_edges(len(anchors.measure)).build(rows, anchors, measure, needed, runner)
        if not isinstance(self.edges, AllPairs):
            anchors = along_the_tree(anchors, self.metric)
        rules.check_k(self.edges, anchors.measure)
        survey = self._survey(anchors, runner)
        kernel = self.kernel.fit(survey)
        graph = drawing.draw(self.edges, survey, kernel, runner)
        exact = survey.exact
        del survey
        graph, operator, reference, degree = self._operator(graph, kernel, anchors, runner)
        if operator.parts.count > 1 and self.components != "warn":
            if self.components == "largest":
                fewer = _largest(anchors, operator, needed, self)
                return replace(self, components="warn").build(rows, fewer, measure, needed, runner)
            graph = self._join_components(graph, operator, runner)
            graph, operator, reference, degree = self._operator(graph, kernel, anchors, runner)
        smooth = None if self.given else anchors.points[:, :16]
        return BuiltProblem(
            anchors,
            replace(operator, runner=runner, smooth=smooth),
            self.normalization,
            graph,
            kernel,
            reference,
            columns=anchors.index if self.given else None,
            edges=self._describe(graph) + ("" if exact else ", found approximately"),
            degree=degree,
            bandwidth=kernel.bandwidth,
        )

    def _choose_edges(self, n: int) -> Affinities:
        return replace(self, edges=self.edges.choose(n), chosen="auto: ")

    def _describe(self, graph: Any) -> str:
        edges = self.edges
        if getattr(edges, "radius", None) == "auto":
            edges = replace(edges, radius=graph.radius)
        return self.chosen + edges.describe()

    def _survey(self, anchors: Anchors, runner: Threads) -> Any:
        if not self.given:
            return drawing.collect_statistics(self.edges, self.metric, anchors.points, anchors.measure, runner)
        given = Given(given_columns(anchors), self.given_distances)
        return DenseStatistics(given, given.cross(anchors.points[:, anchors.index]), anchors.measure)

    def _operator(
        self, graph: Any, kernel: Any, anchors: Anchors, runner: Threads
    ) -> tuple[Any, Operator, Reference, float]:
        """Return the graph without caches, its operator, the reference of the support, and the mean degree."""
        measured = graph.gram(runner)
        graph = graph.without_caches()
        measure = anchors.measure
        sparse = issparse(measured)
        values = measured.data if sparse else measured
        witness = kernel.witness(values)
        blocks = row_blocks(len(values), 1 if sparse else values.shape[1])
        # In place: `measured` holds affinities from here on.
        runner.each(lambda block: kernel.affinity(values[block]), blocks, "kernel")
        seen = measured if witness is None else csr_array((witness, measured.indices, measured.indptr), measured.shape)
        reference = Reference.of(log_mass_without_self(seen, measure), np.log(seen @ measure), measure)
        degree = measured.nnz / len(measure) if sparse else float(len(measure))
        return graph, self.normalization.fit(measured, measure), reference, degree

    def _join_components(self, graph: Any, operator: Operator, runner: Threads) -> Any:
        """Return the graph with the shortest bridges between its components. Raise ValueError if components="error"."""
        told = f"The graph has {operator.parts.describe()}"
        if self.components == "error":
            raise ValueError(
                f"{told}. Raise n_neighbors or epsilon, or pass components='warn' (contrasts become coordinates), "
                "'largest' or 'join'."
            )
        if isinstance(self.edges, AllPairs):
            raise ValueError(
                f"{told}, and it is dense: they are too far apart for epsilon, and no bridge would weigh anything. "
                "Raise epsilon, or pass n_neighbors with components='join'."
            )
        pairs = components.bridges(operator.parts, graph.distances)
        return fitted.with_bridges(graph, graph.gram(runner), pairs)

    def concerns(self, report: Any, values: Array, problem: BuiltProblem) -> list[str]:
        """Return the warnings about this fit."""
        found = []
        if report.components > 1:
            remedy = rules.choose_rule(self.edges, report.n_anchors).remedy()
            found.append(
                f"The graph falls into {problem.operator.parts.describe()}, so the first "
                f"{min(report.components - 1, report.n_components)} coordinates only tell them apart. "
                f"{remedy} (now {report.edges}, epsilon {report.epsilon:.3g}), or pass "
                + ("components='largest'." if "all pairs" in report.edges else "components='largest' or 'join'.")
            )
        if report.trace > report.n_anchors / 2:
            found.append(
                f"epsilon={report.epsilon:.3g} looks too small: the trace of P is {report.trace:.4g} for n = "
                f"{report.n_anchors}, so most rows see little but themselves. Try a larger epsilon or epsilon='auto'."
            )
        if problem.operator.kind == "markov":
            found += report.too_wide(values.max())
        return found + report.describe_amplification()


def _largest(anchors: Anchors, operator: Operator, needed: int, view: Affinities) -> Anchors:
    """Return the anchors of the component with the largest measure."""
    held = np.bincount(operator.parts.labels, weights=anchors.measure)
    found = anchors.at(np.flatnonzero(operator.parts.labels == held.argmax()))
    distinct = len(found.points) if view.given else len(np.unique(found.points, axis=0))
    if distinct < needed + 1 or found.measure.sum() <= getattr(view.edges, "k", 0):
        raise ValueError(
            f"The largest of {operator.parts.count} components holds {len(found.points)} of {operator.size} anchors, "
            f"{distinct} of them distinct: too few to embed. Raise n_neighbors or epsilon."
        )
    return found
