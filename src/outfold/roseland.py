"""Landmark diffusion (Roseland): every row diffuses to the landmarks and back.

    W rows x landmarks, omega_k = p_X(y_k)^(-2 alpha) p_Y(y_k)^(-alpha), W' = W sqrt(omega)
    c = W'^T m,   d = W' c,   G = W'^T diag(m / d) W' = V S^2 V'   (landmarks x landmarks)
    psi(x) = sum_k p(x, k) phi_k / sigma,   p(x, k) = w'(x, k) c_k / d(x),   phi = V |c| / c

p_X are the column sums of W over the rows, p_Y those over the landmarks, with the same truncation: the powers undo the
density of either (alpha = 1: Laplace-Beltrami; alpha = 0: plain Roseland). G c = c, so the trivial eigenvector is
known. The fit is two passes over row blocks, one for p_X, one for G; a row is a Markov row to the landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from . import components, graphs, neighbors, selection
from ._problem import Problem
from .graphs import AllPairs, DenseGraph, Either, SearchSurvey, kth
from .landmarks import Anchors, along_the_tree
from .normalizations import MarkovRule, Operator, links, not_rounding, scale_both_sides
from .sources import BLOCK_ENTRIES, Threads, row_blocks
from .trust import LOG_FLOOR, Reference

Array = NDArray[Any]

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class NearestLandmarks:
    """Squared distances to the k nearest landmarks, and to what lies exactly as far as the last."""

    search: Any
    k: int

    @property
    def anchors(self) -> Array:
        return self.search.distances.anchors

    @property
    def row_entries(self) -> int:
        return neighbors.row_entries(self.search)

    def cross(self, Z: Array) -> csr_array:
        lists = self.search.closest(np.clip(Z, -1e150, 1e150), self.k, Threads(1))
        if len(lists.index) > self.k * len(Z):
            last = kth(lists, np.ones(len(self.anchors)), self.k)
            lists = lists.kept(lists.squared <= np.repeat(last, np.diff(lists.ptr)))
        return csr_array((lists.squared, lists.index, lists.ptr), shape=(len(Z), len(self.anchors)))

    def nearest(self, Z: Array) -> Array:
        return self.search.distances.nearest(Z)


@dataclass(frozen=True)
class LandmarkMarkov:
    """sigma^(2 power) psi: one step is two steps of diffusion, so eigenvalues are sigma^2."""

    power: float = 1.0
    skip: ClassVar[int] = 1

    def rule(self, operator: Operator, geometry: Any, kernel: Any, eigenvalues: Array) -> MarkovRule:
        return MarkovRule(geometry, kernel, operator.measure, operator.gain)

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """embedding = sigma^(2 power) psi = row @ (sigma^(2 power - 1) phi)."""
        return functions * np.sqrt(eigenvalues) ** (2 * self.power - 1)

    def scale(self, eigenvalues: Array) -> None:
        """A landmark's embedding is its own row's, not a multiple of the basis."""
        return None

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return selection.spectral_dimension(values, t=self.power or 1.0)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return not_rounding(np.maximum(values, 0), kept, operator, asked, clip, skip=1)

    def amplification(self, values: Array) -> float:
        return float((np.sqrt(values) ** (2 * self.power - 1)).max())

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return 0.0  # G is positive


@dataclass(frozen=True)
class LandmarkDiffusion:
    """The view of Roseland."""

    metric: Any
    edges: Any  # Either, AllPairs or Union: its k nearest landmarks
    kernel: Any
    alpha: float
    normalization: LandmarkMarkov
    given: ClassVar[bool] = False
    merges_copies: ClassVar[bool] = False

    def pose(self, X: Array, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> Problem:
        chosen = isinstance(self.edges, Either)
        edges = self.edges.settled(len(anchors.points)) if chosen else self.edges
        anchors = along_the_tree(anchors, self.metric)
        if getattr(edges, "k", 0) > len(anchors.points):
            raise ValueError(
                f"n_neighbors={edges.k} is more than the {len(anchors.points)} landmarks. Lower it, raise landmarks, "
                "or pass n_neighbors=None to keep them all."
            )
        survey = graphs.survey(edges, self.metric, anchors.points, np.ones(len(anchors.points)), runner)
        kernel = self.kernel.fit(survey)
        geometry: Any = (
            NearestLandmarks(survey.search, edges.k)
            if isinstance(survey, SearchSurvey)
            else DenseGraph(survey.distances, survey.measure, slack=kernel.slack)
        )
        exact = survey.exact
        del survey
        passes = Passes(X, measure, geometry, kernel, runner)
        seen, log_mass, degree = passes.first()
        if not (seen > 0).all():  # landmarks that no row sees
            return self.pose(X, anchors.at(np.flatnonzero(seen > 0)), measure, needed, runner)
        operator = passes.second(seen, passes.correction(seen, self.alpha))
        return Problem(
            anchors,
            replace(operator, runner=runner, smooth=anchors.points[:, :16]),
            self.normalization,
            geometry,
            kernel,
            Reference.of(log_mass, log_mass, measure),
            columns=None,
            edges=("auto: " if chosen else "") + self._told(edges) + ("" if exact else ", found approximately"),
            degree=degree,
            bandwidth=kernel.bandwidth,
        )

    @staticmethod
    def _told(edges: Any) -> str:
        return "all landmarks" if isinstance(edges, AllPairs) else f"{edges.k} nearest landmarks"

    def concerns(self, report: Any, values: Array, problem: Problem) -> list[str]:
        found = []
        if report.components > 1:
            found.append(
                f"Landmarks and rows fall into {problem.operator.parts.told()} (counted in landmarks), so the first "
                f"{min(report.components - 1, report.n_components)} coordinates only tell them apart. Raise "
                f"n_neighbors (now {report.edges}), epsilon (now {report.epsilon:.3g}) or the number of landmarks."
            )
        if report.amplification > 1e5:
            found.append(
                f"The smallest kept eigenvalue magnifies rounding by {report.amplification:.1e} in transform. Keep "
                "fewer components or use t >= 1."
            )
        return found


@dataclass(frozen=True)
class Passes:
    """Two walks over the rows; sums are taken block by block in order, so threads do not change them."""

    X: Array
    measure: Array
    geometry: Any
    kernel: Any
    runner: Threads

    def first(self) -> tuple[Array, Array, float]:
        """p_X, the mass of rows each landmark sees; each row's log mass; entries a row."""
        seen, entries = np.zeros(len(self.geometry.anchors)), 0
        log_mass = np.empty(len(self.X))

        def look(block: slice) -> tuple[Array, int]:
            W = self._affinities(self.X[block])
            with np.errstate(divide="ignore"):
                log_mass[block] = np.log(W.sum(axis=1))
            return W.T @ self.measure[block], W.nnz if issparse(W) else W.size

        for sums, size in self._walk(look, self.geometry.row_entries, "first pass"):
            seen += sums
            entries += size
        return seen, np.maximum(log_mass, LOG_FLOOR), entries / len(self.X)

    def correction(self, seen: Array, alpha: float) -> Array:
        """omega: what undoes the density of rows and of landmarks."""
        if alpha == 0:
            return np.ones(len(seen))
        points = self.geometry.anchors
        among = np.zeros(len(points))
        for block in row_blocks(len(points), self.geometry.row_entries):
            among += self._affinities(points[block]).sum(axis=0)
        return (seen / self.measure.sum()) ** (-2 * alpha) * (among / len(points)) ** -alpha

    def second(self, seen: Array, omega: Array) -> Operator:
        """The operator G: its top eigenvector is c = sqrt(omega) p_X."""
        count, gain, root = len(seen), omega * seen, np.sqrt(omega)
        sparse = isinstance(self.geometry, NearestLandmarks)
        G: Any = csr_array((count, count)) if sparse else np.zeros((count, count))

        def look(block: slice) -> Any:
            W = self._affinities(self.X[block])
            d = W @ gain
            weight = np.sqrt(np.where(d > 0, self.measure[block] / np.maximum(d, TINY), 0.0))  # sees no landmark: none
            if not sparse:
                W *= weight[:, None]
                return W.T @ W
            W.data *= np.repeat(weight, np.diff(W.indptr))
            return csr_array(W.T @ W)

        for part in self._walk(
            look, self.geometry.row_entries if sparse else 1 + BLOCK_ENTRIES // (2 * count), "second pass"
        ):
            G = G + part if sparse else np.add(G, part, out=G)
        if sparse:
            G = csr_array((G + G.T) / 2)
            G.sort_indices()
        scale_both_sides(G, root)
        stationary = np.square(root * seen)
        stationary /= stationary.sum()
        parts = components.find(links(G), stationary)
        return Operator("markov", G, 1.0, 2.0, np.ones(count), stationary, parts, gain, seen)

    def _affinities(self, Z: Array) -> Any:
        measured = self.geometry.cross(np.ascontiguousarray(Z))
        if issparse(measured):
            measured.data = self.kernel.affinity(measured.data)
            return measured
        return self.kernel.affinity(measured)

    def _walk(self, look: Any, width: int, title: str) -> Any:
        return self.runner.map(look, row_blocks(len(self.X), width), title)
