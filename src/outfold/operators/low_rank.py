"""Diffusion maps of all rows through a kernel of low rank (Erichson, Mathelin, Brunton and Kutz, 2018).

    C = W(rows, landmarks), A = W(landmarks, landmarks) = R'R,   W ~ C A^-1 C' = F F',   F = C R^-1
    q = F F'm,   u = m q^-alpha,   h = F g with g = F'u,   G = F' diag(u / h) F = V lambda V'   (landmarks x landmarks)
    psi(x) = w(x, .) A^-1 (h psi)_landmarks / w(x, .) A^-1 h_landmarks

P = diag(1 / h) F F' diag(u) is the Markov operator of all rows. G g = g, so the trivial eigenvector is exact. At the
landmarks the approximation is exact, hence so are their degrees. At other rows weights of either sign may cancel. A row
is called astray if it is out of reach of every landmark or if its degrees are not clearly positive; it takes the value
of its nearest landmark. R is a Cholesky factor with pivots; landmarks that the others explain up to rounding are left
out, so R can be inverted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from .._loops.elementwise import exponential
from .._runtime.threads import BLOCK_ENTRIES, Threads, row_blocks
from .._runtime.typing import Array
from ..data.sources import Source
from ..graphs import AllPairs, components, drawing
from ..graphs.fitted import DenseGraph
from ..landmarks import Anchors
from ..trust import Reference
from .markov import SolvedOverLandmarks
from .operator import Operator, Rows, links
from .problem import BuiltProblem

REACH = 1e-2  # a row is within reach of a landmark if its weight exceeds this; the weight of a landmark on itself is 1
CLEAR = 1e-2  # a degree is clearly positive if it exceeds this fraction of its value for positive weights
FED = 1e-6  # least fraction of a landmark's mass that must remain after astray rows are left out
DEFINITE = 1e-6  # relative residual of left-out landmarks above which the kernel is not positive definite


# -- the row of any point --------------------------------------------------------------------


@dataclass(frozen=True)
class LowRankRule:
    """w(x, .) / (w(x, .) A^-1 h): the weights of an interpolation by the kernel, divided by the row's degree.

    An astray row (out of reach, or of a degree that is not clearly positive) gets the row of its nearest landmark, and
    support -inf.
    """

    geometry: DenseGraph
    kernel: Any
    degrees: Array  # (landmarks, 2 or 4): w(x, .) @ degrees is h(x), its limit and, if alpha > 0, q(x), its limit
    least: float  # log of the least weight on the nearest landmark (log of REACH, for kernels with k(x, x) = 1)

    @property
    def row_entries(self) -> int:
        return self.geometry.row_entries

    def rows(self, Z: Array) -> Rows:
        seen, log_top = self.look(Z)
        degrees = seen @ self.degrees
        with np.errstate(divide="ignore"):
            log_mass = log_top + np.log(seen.sum(axis=1))
        astray = np.flatnonzero(~clear(log_top, degrees, self.least))
        if len(astray):
            log_mass[astray] = -np.inf
            seen[astray] = self.look(self.geometry.anchors[self.geometry.nearest(Z[astray])])[0]
            degrees[astray] = seen[astray] @ self.degrees
        seen /= degrees[:, :1]
        return Rows(seen, log_mass, log_mass)

    def look(self, Z: Array) -> tuple[Array, Array]:
        """Return the affinities divided by the largest of their row, and the log of the largest."""
        logs, factor = self.kernel.logs(self.geometry.cross(Z))
        logs *= factor
        top = logs.max(axis=1)
        logs -= np.where(np.isfinite(top), top, 0.0)[:, None]
        return exponential(logs), top


def clear(log_top: Array, degrees: Array, least: float) -> Array:
    """Return which rows are within reach and have clearly positive degrees."""
    return (degrees[:, ::2] > degrees[:, 1::2]).all(axis=1) & (log_top > least)


# -- the eigenproblem ------------------------------------------------------------------------


@dataclass(frozen=True)
class LowRankOperator(Operator):
    """G; its trivial eigenvector g may have entries of either sign."""

    constant: Any = None  # g
    factor: Any = None  # R
    degree: Any = None  # h at the landmarks

    def trivial(self, most: int) -> Array:
        return self.parts.contrasts(most) * (self.constant / np.linalg.norm(self.constant))[:, None]

    def functions(self, vectors: Array) -> Array:
        """Return psi at the landmarks: |g| R'v / (sqrt(lambda) h)."""
        values = np.maximum((vectors * (self.matrix @ vectors)).sum(axis=0), np.finfo(float).tiny)
        return np.linalg.norm(self.constant) * (self.factor.T @ vectors) / np.sqrt(values) / self.degree[:, None]


@dataclass(frozen=True)
class LowRankMarkov(SolvedOverLandmarks):
    """lambda^power psi, interpolated by the kernel from the landmarks."""

    factor: Array  # R
    degree: Array  # h at the landmarks
    degrees: Array  # see LowRankRule
    least: float  # see LowRankRule
    reach: float  # factor by which rounding is magnified for lambda = 1

    def rule(self, operator: Operator, geometry: DenseGraph, kernel: Any, eigenvalues: Array) -> LowRankRule:
        return LowRankRule(geometry, kernel, self.degrees, self.least)

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """Return A^-1 (h psi) lambda^power."""
        return cho_solve((self.factor, False), functions * self.degree[:, None]) * eigenvalues**self.power

    def amplification(self, values: Array) -> float:
        """Return the factor by which rounding is magnified.

        As v = G v / lambda, |w| |R^-1 G| bounds the terms of the sum psi = |g| w R^-1 v / (sqrt(lambda) h).
        """
        return float((self.reach * values ** (self.power - 1.5)).max())


@dataclass(frozen=True)
class LowRankDiffusion:
    """The view of ``solver=LowRank()``."""

    metric: Any
    kernel: Any
    alpha: float
    power: float
    tolerance: float
    components: str  # "warn" or "error"
    given: ClassVar[bool] = False
    merges_copies: ClassVar[bool] = False

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        asked = len(anchors.points)
        survey = drawing.collect_statistics(AllPairs(), self.metric, anchors.points, np.ones(asked), runner)
        kernel = self.kernel.fit(survey)
        A, distances = kernel.affinity(survey.squared), survey.distances
        size = float(A.diagonal().max())  # 1 for a Gaussian kernel
        least = float(np.log(REACH * size))
        passes = LowRankPasses(rows.array(), measure, DenseGraph(distances, np.ones(asked)), kernel, least, runner)
        seen, most = passes.first()
        some = np.flatnonzero(most > REACH * size)
        factor, pivots = independent(A[np.ix_(some, some)], self.tolerance)
        kept = some[pivots]
        self._check_left(len(kept), asked, needed, kernel)
        A, points = A[np.ix_(kept, kept)], distances.anchors[kept]
        geometry = DenseGraph(replace(distances, anchors=points), np.ones(len(kept)))
        solving = Solving(replace(passes, geometry=geometry), A, factor, self.alpha)
        found = solving.choose(seen[kept])
        operator = solving.operator(found, seen[kept], runner)
        if operator.parts.count > 1 and self.components == "error":
            raise ValueError(
                f"The landmarks fall into {operator.parts.describe()}. {REMEDY} or pass components='warn'."
            )
        counted = (found.weight > 0) | (measure == 0)
        return BuiltProblem(
            anchors.at(kept),
            operator,
            LowRankMarkov(self.power, factor, found.degree, found.degrees, least, solving.reach(found)),
            geometry,
            kernel,
            Reference.of(found.log_mass[counted], found.log_mass[counted], measure[counted]),
            columns=None,
            edges=f"all landmarks, {len(kept)} of {asked} independent",
            degree=float(len(kept)),
            bandwidth=kernel.bandwidth,
            notes=_astray(int((~counted).sum()), len(rows), asked, kernel.bandwidth.epsilon),
        )

    def _check_left(self, left: int, asked: int, needed: int, kernel: Any) -> None:
        if left <= needed:
            raise ValueError(
                f"n_components={needed} is beyond the rank of the kernel: only {left} of {asked} landmarks are near a "
                f"row and not explained by the others (epsilon {kernel.bandwidth.epsilon:.3g}, tolerance "
                f"{self.tolerance:.1g}). Ask for fewer components, lower epsilon, or choose other landmarks."
            )

    def concerns(self, report: Any, values: Array, problem: BuiltProblem) -> list[str]:
        found = []
        if report.components > 1:
            found.append(
                f"The landmarks fall into {problem.operator.parts.describe()}, so the first "
                f"{min(report.components - 1, report.n_components)} coordinates only tell them apart. {REMEDY} "
                f"(now {report.epsilon:.3g})."
            )
        if values.max() > 1 + 1e-6:
            found.append(
                f"An eigenvalue is {values.max():.4g}, above 1: the low-rank kernel of {report.n_anchors} landmarks "
                f"has negative entries that matter. {REMEDY} (now {report.epsilon:.3g})."
            )
        if report.trace > report.n_anchors / 2:
            found.append(
                f"The trace of P is {report.trace:.4g} for {report.n_anchors} landmarks: they are too few for this "
                f"epsilon, and most see little but the rows nearest to them. {REMEDY} (now {report.epsilon:.3g})."
            )
        found += report.too_wide(values.max())
        if report.amplification > 1e8:
            found.append(
                f"Rounding may be magnified by {report.amplification:.1e} in transform. Keep fewer components, use "
                "t >= 1, or raise the tolerance of LowRank."
            )
        return found


REMEDY = "Take more landmarks, evenly spread (landmarks.FarthestPoint), or a larger epsilon"


def _astray(count: int, rows: int, landmarks: int, epsilon: float) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"{count} of {rows} rows are out of reach of the {landmarks} landmarks, or their low-rank degrees are not "
        f"clearly positive. They do not count in the fit and take the value of the nearest landmark. {REMEDY} (now "
        f"{epsilon:.3g}).",
    )


def independent(A: Array, tolerance: float) -> tuple[Array, Array]:
    """Return R and the pivots of the Cholesky factorisation A = R'R, stopped at the relative residual ``tolerance``."""
    size = float(A.diagonal().max(initial=0.0))
    if not size > 0:
        return np.empty((0, 0)), np.empty(0, dtype=int)
    table, pivots, rank, _ = dpstrf(A, tol=tolerance * size)
    pivots = pivots - 1
    beside, last = table[:rank, rank:], pivots[rank:]
    worst = np.abs(A[np.ix_(last, last)] - beside.T @ beside).max(initial=0.0)
    if worst > max(DEFINITE, len(A) * tolerance) * size:
        raise ValueError(
            f"The kernel between the landmarks is not positive definite: {rank} of {len(A)} explain the others only up "
            f"to {worst:.1g}. LowRank needs a kernel that is, such as the Gaussian of metric='euclidean'; for other "
            "metrics and kernels take solver='auto'."
        )
    return np.triu(table[:rank, :rank]), pivots[:rank]


# -- passes over the rows --------------------------------------------------------------------


@dataclass(frozen=True)
class LowRankPasses:
    """Passes over the rows; blocks are summed in order, so results do not depend on threads."""

    X: Array
    measure: Array
    geometry: DenseGraph
    kernel: Any
    least: float  # see LowRankRule
    runner: Threads

    def first(self) -> tuple[Array, Array]:
        """Return the column sums of W over the rows, weighted by the measure, and the largest entry of each column."""
        seen, most = np.zeros((2, len(self.geometry.anchors)))

        def look(block: slice) -> tuple[Array, Array]:
            W = self._affinities(block)
            return W.T @ self.measure[block], W[self.measure[block] > 0].max(axis=0, initial=0.0)

        for sums, highest in self._walk(look, "column sums"):
            seen += sums
            np.maximum(most, highest, out=most)
        return seen, most

    def weights(self, degrees: Array, alpha: float) -> Array:
        """Return u = m q^-alpha, (rows,), 0 for astray rows."""
        u = np.zeros(len(self.X))

        def look(block: slice) -> None:
            W = self._affinities(block)
            q = W @ degrees
            good = clear(_log_top(W), q, self.least)
            u[block][good] = self.measure[block][good] * q[good, 0] ** -alpha

        self.runner.each(look, row_blocks(len(self.X), self.geometry.row_entries), "degrees")
        return u

    def sums(self, u: Array) -> Array:
        """Return C'u, the degrees h of the landmarks."""
        total = np.zeros(len(self.geometry.anchors))
        for part in self._walk(lambda block: self._affinities(block).T @ u[block], "degrees of landmarks"):
            total += part
        return total

    def gram(self, u: Array, degrees: Array, factor: Array) -> tuple[Array, Array, Array]:
        """Return G, the log mass of each row, and which rows are not astray."""
        count = len(factor)
        G, log_mass, good = np.zeros((count, count)), np.empty(len(self.X)), np.empty(len(self.X), dtype=bool)

        def look(block: slice) -> Array:
            W = self._affinities(block)
            with np.errstate(divide="ignore"):
                log_mass[block] = np.log(W.sum(axis=1))
            h = W @ degrees
            good[block] = clear(_log_top(W), h, self.least)
            weight = np.sqrt(np.divide(u[block], h[:, 0], out=np.zeros(len(W)), where=good[block]))
            W *= weight[:, None]
            F = solve_triangular(factor, W.T, trans="T", overwrite_b=True, check_finite=False)
            return F @ F.T

        for part in self._walk(look, "low-rank operator", 1 + BLOCK_ENTRIES // (2 * count)):
            G += part
        return (G + G.T) / 2, log_mass, good

    def _affinities(self, block: slice) -> Array:
        return self.kernel.affinity(self.geometry.cross(np.ascontiguousarray(self.X[block])))

    def _walk(self, look: Any, title: str, width: int | None = None) -> Any:
        return self.runner.map(look, row_blocks(len(self.X), width or self.geometry.row_entries), title)


def _log_top(W: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(W.max(axis=1))


@dataclass(frozen=True)
class SolvedSums:
    """The results of the passes."""

    matrix: Array  # G
    weight: Array  # (rows,): u, 0 for astray rows
    degree: Array  # (landmarks,): h
    degrees: Array  # (landmarks, 2 or 4): see LowRankRule
    log_mass: Array  # (rows,)


@dataclass(frozen=True)
class Solving:
    """The computation of G from column sums, over the rows that are not astray."""

    passes: LowRankPasses
    A: Array
    factor: Array  # R
    alpha: float

    def choose(self, seen: Array) -> SolvedSums:
        """Return the sums over rows that are not astray.

        Astray rows are left out and the degrees are computed again, until no further row is astray.
        """
        u, h, of_q = self.passes.measure.copy(), seen, np.empty((len(seen), 0))
        if self.alpha:
            # Scaled so that q is about 1 at most.
            of_q = self._degrees(seen / (self.passes.measure.sum() * self.A.diagonal().max()))
            u = self.passes.weights(of_q, self.alpha)
            h = self.passes.sums(u)
        for _ in range(50):
            self._check(h, seen)
            degrees = np.hstack([self._degrees(h), of_q])
            G, log_mass, good = self.passes.gram(u, degrees, self.factor)
            astray = (u > 0) & ~good
            if not astray.any():
                return SolvedSums(G, u, h, degrees, log_mass)
            u[astray] = 0.0
            h = self.passes.sums(u)
        raise ValueError(f"The low-rank degrees of {(u == 0).sum()} rows and more are not clearly positive. {REMEDY}.")

    def operator(self, found: SolvedSums, seen: Array, runner: Threads) -> LowRankOperator:
        g = solve_triangular(self.factor, found.degree, trans="T")
        stationary = seen / self.A.sum(axis=1) * (seen / seen.mean()) ** -self.alpha * found.degree
        stationary /= stationary.sum()
        parts = components.find(links(np.abs(found.matrix)), np.square(g))
        one = np.ones(len(g))
        return LowRankOperator(
            "markov", found.matrix, 1.0, 2.0, one, stationary, parts, runner=runner,
            constant=g, factor=self.factor, degree=found.degree,
        )  # fmt: skip

    def reach(self, found: SolvedSums) -> float:
        """Return the largest sum of absolute terms of an eigenfunction of lambda = 1 at a landmark."""
        g = solve_triangular(self.factor, found.degree, trans="T")
        summed = np.abs(self.A) @ np.abs(solve_triangular(self.factor, found.matrix))
        return float((np.linalg.norm(summed, axis=1) * np.linalg.norm(g) / found.degree).max())

    def _degrees(self, values: Array) -> Array:
        """Return D, (landmarks, 2): w(x, .) @ D is the degree with these values at the landmarks, and its limit."""
        return np.column_stack([cho_solve((self.factor, False), values), CLEAR * values / self.A.sum(axis=1)])

    def _check(self, h: Array, seen: Array) -> None:
        starved = h <= FED * seen
        if starved.any():
            raise ValueError(
                f"{starved.sum()} of {len(h)} landmarks are left without rows: the low-rank degrees of all rows near "
                f"them are not clearly positive. {REMEDY}."
            )
