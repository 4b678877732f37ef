"""Kernels of distances on a graph: metric -> edges -> kernel -> normalisation, posed as an eigenproblem.

What diffusion maps, Laplacian eigenmaps and spectral clustering share. A view ``pose``s the eigenproblem of the
anchors and says how any point will see them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from . import components, graphs
from ._problem import Problem
from .distances import Given
from .graphs import AllPairs, Either
from .landmarks import Anchors, along_the_tree, given_columns
from .normalizations import Operator, lonely_mass
from .runners import Threads, row_blocks
from .sources import Source
from .surveys import DenseSurvey
from .trust import Reference

Array = NDArray[Any]


@dataclass(frozen=True)
class Affinities:
    """Distances, which pairs to keep, a kernel of them and its normalisation."""

    metric: Any  # None: the matrix is given
    edges: Any  # which pairs to keep
    kernel: Any
    normalization: Any
    components: str = "warn"
    chosen: str = ""  # said before the edges in the report, where they were not asked for by name
    given_distances: bool = True  # only for metric=None

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def streams(self) -> bool:
        return not self.given

    @property
    def merges_copies(self) -> bool:
        return self.normalization.merges_copies

    def pose(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> Problem:
        """The eigenproblem of the anchors (of their largest component, if that is the policy)."""
        if isinstance(self.edges, Either):
            return self._settled(len(anchors.measure)).pose(rows, anchors, measure, needed, runner)
        if not isinstance(self.edges, AllPairs):
            anchors = along_the_tree(anchors, self.metric)
        graphs.check_k(self.edges, anchors.measure)
        survey = self._survey(anchors, runner)
        kernel = self.kernel.fit(survey)
        graph = graphs.draw(self.edges, survey, kernel, runner)
        exact = survey.exact
        del survey
        graph, operator, reference, degree = self._operator(graph, kernel, anchors, runner)
        if operator.parts.count > 1 and self.components != "warn":
            if self.components == "largest":
                fewer = _largest(anchors, operator, needed, self)
                return replace(self, components="warn").pose(rows, fewer, measure, needed, runner)
            graph = self._joined(graph, operator, runner)
            graph, operator, reference, degree = self._operator(graph, kernel, anchors, runner)
        smooth = None if self.given else anchors.points[:, :16]
        return Problem(
            anchors,
            replace(operator, runner=runner, smooth=smooth),
            self.normalization,
            graph,
            kernel,
            reference,
            columns=anchors.index if self.given else None,
            edges=self._told(graph) + ("" if exact else ", found approximately"),
            degree=degree,
            bandwidth=kernel.bandwidth,
        )

    def _settled(self, n: int) -> Affinities:
        return replace(self, edges=self.edges.settled(n), chosen="auto: ")

    def _told(self, graph: Any) -> str:
        edges = self.edges
        if getattr(edges, "radius", None) == "auto":
            edges = replace(edges, radius=graph.radius)
        return self.chosen + edges.told()

    def _survey(self, anchors: Anchors, runner: Threads) -> Any:
        if not self.given:
            return graphs.survey(self.edges, self.metric, anchors.points, anchors.measure, runner)
        given = Given(given_columns(anchors), self.given_distances)
        return DenseSurvey(given, given.cross(anchors.points[:, anchors.index]), anchors.measure)

    def _operator(
        self, graph: Any, kernel: Any, anchors: Anchors, runner: Threads
    ) -> tuple[Any, Operator, Reference, float]:
        """The normalised operator of a graph, what training rows see of each other, and the mean row length."""
        measured = graph.gram(runner)
        graph = graph.emptied()
        measure = anchors.measure
        sparse = issparse(measured)
        values = measured.data if sparse else measured
        witness = kernel.witness(values)
        blocks = row_blocks(len(values), 1 if sparse else values.shape[1])
        runner.each(lambda block: kernel.affinity(values[block]), blocks, "kernel")  # measured holds affinities now
        seen = measured if witness is None else csr_array((witness, measured.indices, measured.indptr), measured.shape)
        reference = Reference.of(lonely_mass(seen, measure), np.log(seen @ measure), measure)
        degree = measured.nnz / len(measure) if sparse else float(len(measure))
        return graph, self.normalization.fit(measured, measure), reference, degree

    def _joined(self, graph: Any, operator: Operator, runner: Threads) -> Any:
        """The graph with the shortest bridges between its components, or an error if that is the policy."""
        told = f"The graph has {operator.parts.told()}"
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
        return graphs.with_bridges(graph, graph.gram(runner), pairs)

    def concerns(self, report: Any, values: Array, problem: Problem) -> list[str]:
        """What a careful reader would say about this spectrum."""
        found = []
        if report.components > 1:
            remedy = graphs.settled(self.edges, report.n_anchors).remedy()
            found.append(
                f"The graph falls into {problem.operator.parts.told()}, so the first "
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
        return found + report.magnified()


def _largest(anchors: Anchors, operator: Operator, needed: int, view: Affinities) -> Anchors:
    """The anchors of the component with the largest measure."""
    held = np.bincount(operator.parts.labels, weights=anchors.measure)
    found = anchors.at(np.flatnonzero(operator.parts.labels == held.argmax()))
    distinct = len(found.points) if view.given else len(np.unique(found.points, axis=0))
    if distinct < needed + 1 or found.measure.sum() <= getattr(view.edges, "k", 0):
        raise ValueError(
            f"The largest of {operator.parts.count} components holds {len(found.points)} of {operator.size} anchors, "
            f"{distinct} of them distinct: too few to embed. Raise n_neighbors or epsilon."
        )
    return found
