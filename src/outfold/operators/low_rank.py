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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from .._loops.elementwise import exponential
from .._runtime.threads import BLOCK_ENTRIES, Threads, row_blocks
from .._runtime.typing import Array, Axes, Matrix
from ..data.sources import Answer, Source
from ..data.sparse_rows import as_rows
from ..distances import Metric, PointMetric
from ..graphs import AllPairs, components
from ..graphs.fitted import DenseGraph
from ..graphs.protocols import FittedKernel
from ..kernels import Kernel
from ..landmarks import Anchors
from ..trust import Reference
from .concerns import Concern, Importance, contrasts_only
from .costs import ENTRY, FLOPS, Case, Cost, Stage
from .expansion import EigenPairs, Expansion
from .markov import SolvedOverLandmarks
from .operator import DENSE_SOLVER_UP_TO, MarkovOperator, RowRule, Rows, links
from .problem import BuiltProblem, Eigenproblem, Facts, Span

REACH = 1e-2  # a row is within reach of a landmark if its weight exceeds this; the weight of a landmark on itself is 1
CLEAR = 1e-2  # a degree is clearly positive if it exceeds this fraction of its value for positive weights
FED = 1e-6  # least fraction of a landmark's mass that must remain after astray rows are left out
DEFINITE = 1e-6  # relative residual of left-out landmarks above which the kernel is not positive definite


# -- the row of any point --------------------------------------------------------------------


@dataclass(frozen=True)
class LowRankRule(RowRule):
    """w(x, .) / (w(x, .) A^-1 h): the weights of an interpolation by the kernel, divided by the row's degree.

    An astray row (out of reach, or of a degree that is not clearly positive) gets the row of its nearest landmark, and
    support -inf.
    """

    geometry: Annotated[DenseGraph, Axes("n d")]
    kernel: FittedKernel
    degrees: Annotated[
        Array, Axes("n q")
    ]  # (landmarks, 2 or 4): w(x, .) @ degrees is h(x), its limit and, if alpha > 0, q(x), its limit
    least: float  # log of the least weight on the nearest landmark (log of REACH, for kernels with k(x, x) = 1)

    @property
    def row_entries(self) -> int:
        return self.geometry.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.geometry.nearest(Z)

    def at_nearest(self, Z: Array) -> Rows:
        return self.rows(self.geometry.anchors[self.nearest(Z)])

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
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
        return Rows(weights=seen, log_degree=log_mass, log_mass=log_mass)

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


@dataclass(frozen=True, kw_only=True)
class LowRankOperator(MarkovOperator):
    """G; its trivial eigenvector g may have entries of either sign."""

    constant: Array  # g
    factor: Array  # R
    degree: Array  # h at the landmarks

    def trivial(self, most: int) -> Array:
        result: Array = self.parts.contrasts(most) * (self.constant / np.linalg.norm(self.constant))[:, None]
        return result

    def nearly_separate(self) -> None:
        """Return None: entries of either sign are no edges."""
        return None

    def solver_choice(self, large: bool, told: str) -> tuple[str, str]:
        return "krylov", f"a kernel of low rank, {told}"

    def functions(self, vectors: Array) -> Array:
        """Return psi at the landmarks: |g| R'v / (sqrt(lambda) h)."""
        values = np.maximum((vectors * (self.matrix @ vectors)).sum(axis=0), np.finfo(float).tiny)
        result: Array = (
            np.linalg.norm(self.constant) * (self.factor.T @ vectors) / np.sqrt(values) / self.degree[:, None]
        )
        return result


@dataclass(frozen=True, kw_only=True)
class LowRankMarkov(SolvedOverLandmarks):
    """lambda^power psi, interpolated by the kernel from the landmarks."""

    factor: Array  # R
    degree: Array  # h at the landmarks
    reach: float  # factor by which rounding is magnified for lambda = 1

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """Return A^-1 (h psi) lambda^power."""
        basis: Array = cho_solve((self.factor, False), functions * self.degree[:, None]) * eigenvalues**self.power
        return basis

    def amplification(self, values: Array) -> float:
        """Return the factor by which rounding is magnified.

        As v = G v / lambda, |w| |R^-1 G| bounds the terms of the sum psi = |g| w R^-1 v / (sqrt(lambda) h).
        """
        return float((self.reach * values ** (self.power - 1.5)).max())


@dataclass(frozen=True, kw_only=True)
class LowRankDiffusion(Eigenproblem):
    """``solver=LowRank()``."""

    metric: PointMetric
    kernel: Kernel
    alpha: float
    power: float
    tolerance: float
    components: str  # "warn" or "error"

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric if isinstance(self.metric, Metric) else None

    def alone(self, epsilon: float) -> LowRankDiffusion:
        return replace(self, kernel=self.kernel.at(epsilon))

    @property
    def against_outliers(self) -> str:
        return "Leave solver out, for kernel='adaptive', scale the features"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        asked = len(anchors.points)
        survey = AllPairs().statistics(self.metric, anchors.points, np.ones(asked), runner)
        kernel = self.kernel.fit(survey)
        A, distances = kernel.affinity(survey.squared), survey.distances
        size = float(A.diagonal().max())  # 1 for a Gaussian kernel
        least = float(np.log(REACH * size))
        passes = LowRankPasses(
            X=rows.array(),
            measure=measure,
            geometry=DenseGraph(distances=distances, measure=np.ones(asked)),
            kernel=kernel,
            least=least,
            runner=runner,
        )
        seen, most = passes.first()
        some = np.flatnonzero(most > REACH * size)
        factor, pivots = independent(A[np.ix_(some, some)], self.tolerance)
        kept = some[pivots]
        self._check_left(len(kept), asked, needed, kernel)
        A, points = A[np.ix_(kept, kept)], distances.anchors[kept]
        geometry = DenseGraph(distances=distances.to(points), measure=np.ones(len(kept)))
        solving = Solving(replace(passes, geometry=geometry), A, factor, self.alpha)
        found = solving.choose(seen[kept])
        operator = solving.operator(found, seen[kept], runner)
        if operator.parts.count > 1 and self.components == "error":
            raise ValueError(
                f"The landmarks fall into {operator.parts.describe()}. {REMEDY} or pass components='warn'."
            )
        counted = (found.weight > 0) | (measure == 0)
        there = found.weight > 0
        log_mass, reach = found.log_mass[there], solving.reach(found)
        return BuiltProblem(
            anchors=anchors.at(kept),
            operator=operator,
            normalization=LowRankMarkov(power=self.power, factor=factor, degree=found.degree, reach=reach),
            rule=LowRankRule(geometry, kernel, found.degrees, least),
            reference=Reference.of(log_mass, measure[there]),
            edges=f"all landmarks, {len(kept)} of {asked} independent",
            degree=float(len(kept)),
            bandwidth=kernel.bandwidth,
            notes=_astray(int((~counted).sum()), len(rows), asked, kernel.bandwidth.epsilon),
        )

    def _check_left(self, left: int, asked: int, needed: int, kernel: FittedKernel) -> None:
        if left <= needed:
            raise ValueError(
                f"n_components={needed} is beyond the rank of the kernel: only {left} of {asked} landmarks are near a "
                f"row and not explained by the others (epsilon {kernel.bandwidth.epsilon:.3g}, tolerance "
                f"{self.tolerance:.1g}). Ask for fewer components, lower epsilon, or choose other landmarks."
            )

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion:
        assert isinstance(rule, LowRankRule)
        return LowRankKernel(rule, pairs, self.power, self.alpha)

    def cost(self, case: Case) -> Cost:
        n, m = case.rows, case.anchors
        solver, solve = case.dense_solve(m)
        walks = (4 if self.alpha else 2) * n * m * ENTRY + 2.0 * n * m * m / FLOPS
        stages = [
            Stage("kernel", 8.0 * m * m * 2, m * m * ENTRY),
            Stage("operator", 8.0 * m * m * (case.cores + 6) + 24.0 * n, walks / case.cores),
            solve,
        ]
        return Cost("all landmarks", solver if m <= DENSE_SOLVER_UP_TO else "krylov", stages)

    def span(self, problem: BuiltProblem) -> Span:
        return Span("Lower epsilon, or pass kernel='adaptive' without LowRank()")

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        found = []
        if report.components > 1:
            text = (
                f"The landmarks fall into {problem.operator.parts.describe()}, so "
                f"{contrasts_only(report.components, report.n_components)} them apart. {REMEDY} "
                f"(now {report.epsilon:.3g})."
            )
            found.append(Concern(Importance.PIECES, text))
        if values.max() > 1 + 1e-6:
            text = (
                f"An eigenvalue is {values.max():.4g}, above 1: the low-rank kernel of {report.n_anchors} landmarks "
                f"has negative entries that matter. {REMEDY} (now {report.epsilon:.3g})."
            )
            found.append(Concern(Importance.SPECTRUM, text))
        if report.trace > report.n_anchors / 2:
            text = (
                f"The trace of P is {report.trace:.4g} for {report.n_anchors} landmarks: they are too few for this "
                f"epsilon, and most see little but the rows nearest to them. {REMEDY} (now {report.epsilon:.3g})."
            )
            found.append(Concern(Importance.WIDTH, text))
        if report.amplification > 1e8:
            text = (
                f"Rounding may be magnified by {report.amplification:.1e} in transform. Keep fewer components, use "
                "t >= 1, or raise the tolerance of LowRank."
            )
            found.append(Concern(Importance.ROUNDING, text))
        return found


REMEDY = "Take more landmarks, evenly spread (landmarks.FarthestPoint), or a larger epsilon"


def _astray(count: int, rows: int, landmarks: int, epsilon: float) -> tuple[Concern, ...]:
    if not count:
        return ()
    text = (
        f"{count} of {rows} rows are out of reach of the {landmarks} landmarks, or their low-rank degrees are not "
        f"clearly positive. They do not count in the fit and take the value of the nearest landmark. {REMEDY} (now "
        f"{epsilon:.3g})."
    )
    return (Concern(Importance.LANDMARKS, text),)


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


@dataclass(frozen=True, kw_only=True)
class LowRankPasses:
    """Passes over the rows; blocks are summed in order, so results do not depend on threads."""

    X: Array
    measure: Array
    geometry: DenseGraph
    kernel: FittedKernel
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
            result: Array = F @ F.T
            return result

        for part in self._walk(look, "low-rank operator", 1 + BLOCK_ENTRIES // (2 * count)):
            G += part
        return (G + G.T) / 2, log_mass, good

    def _affinities(self, block: slice) -> Array:
        return self.kernel.affinity(self.geometry.cross(as_rows(self.X[block])))

    def _walk(self, look: Callable[[slice], Answer], title: str, width: int | None = None) -> Iterator[Answer]:
        return self.runner.map(look, row_blocks(len(self.X), width or self.geometry.row_entries), title)


def _log_top(W: Array) -> Array:
    with np.errstate(divide="ignore"):
        result: Array = np.log(W.max(axis=1))
        return result


@dataclass(frozen=True, kw_only=True)
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
                return SolvedSums(matrix=G, weight=u, degree=h, degrees=degrees, log_mass=log_mass)
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
            matrix=found.matrix,
            measure=one,
            stationary=stationary,
            parts=parts,
            runner=runner,
            gain=one,
            mass=found.degree,
            constant=g,
            factor=self.factor,
            degree=found.degree,
        )

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


class LowRankKernel(Expansion):
    """Diffusion maps and Laplacian eigenmaps of all rows by a low-rank kernel (``solver=LowRank()``)."""

    def __init__(self, rule: LowRankRule, pairs: EigenPairs, power: float, alpha: float) -> None:
        super().__init__(pairs)
        self.rule, self.power, self.alpha, self.solved_on_anchors = rule, power, alpha, False

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        points = self.rule.geometry.anchors
        result: tuple[Array, bool] = cho_factor(self.rule.kernel.affinity(self.rule.geometry.cross(points)))
        return result

    @cached_property
    def _log_total(self) -> float:
        """log sum m delta = log h' A^-1 h over the landmarks."""
        degrees = self.rule.degrees[:, 0]
        h = self.rule.kernel.affinity(self.rule.geometry.cross(self.rule.geometry.anchors)) @ degrees
        return float(np.log(h @ degrees))

    def _row_affinities(self, X: Array) -> tuple[Array, Array, Array]:
        """Return w(x, .), h and q; a row that no landmark reaches gets those of its nearest landmark."""
        rows = self.rule.rows(X)
        W, log_top = self.rule.look(X)
        astray = np.flatnonzero(~np.isfinite(rows.log_mass))
        if len(astray):
            geometry = self.rule.geometry
            W[astray], log_top[astray] = self.rule.look(geometry.anchors[geometry.nearest(X[astray])])
        W *= np.exp(log_top)[:, None]
        degrees = W @ self.rule.degrees
        return W, degrees[:, 0], degrees[:, 2] if self.alpha else np.ones(len(X))

    def table(self, X: Array, Y: Array) -> Array:
        (W, h, q), (V, g, p) = self._row_affinities(X), self._row_affinities(Y)
        result: Array = (
            W @ cho_solve(self._factor, V.T) / np.sqrt(np.multiply.outer(h * q**self.alpha, g * p**self.alpha))
        )
        return result

    def functions(self, X: Array, embedding: Array) -> Array:
        return self._powers(embedding, self.power) * self.constant(X)[:, None]

    def constant(self, X: Array) -> Array:
        _, h, q = self._row_affinities(X)
        result: Array = np.sqrt(h * q**-self.alpha) * np.exp(-self._log_total / 2)
        return result
