"""Centred kernels: kernel PCA, classical MDS and, over geodesics, Isomap.

    K~ = K - K 1m'/M - 1m'K/M + (m'Km/M^2),    K~ diag(m) f = lambda f,    embedding = sqrt(lambda) f

with m the measure and M its sum. A new point has the embedding (k(x, .) - column means) m f / sqrt(lambda): the mean of
its own row cancels, because f is orthogonal to the constant. A negative eigenvalue (distances that are not Euclidean)
gives sqrt(|lambda|) f if signed coordinates are requested (Laub and Mueller, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import WEIGHTS, Array, Axes, Matrix
from ..data.sources import Source
from ..distances import Given, MeasuredDistances, Metric
from ..graphs.components import Components
from ..graphs.drawing import check_memory
from ..graphs.protocols import ValueGeometry
from ..kernels import GivenValues, KernelValues, Named
from ..landmarks import Anchors, given_columns
from ..trust import Nearness, Reference
from .concerns import Concern, Importance
from .costs import ENTRY, Case, Cost, Stage
from .expansion import EigenPairs, Expansion, by_blocks
from .operator import CentredOperator, Normalization, Operator, RowRule, Rows, not_rounding
from .problem import MAGNIFIED, BuiltProblem, Eigenproblem, Facts, magnified_rounding
from .spectrum import spectral_dimension

ROUNDINGS = 4  # about twice the largest that was seen, in units of eps c M
MUCH = 0.4  # the report warns if a larger part of sum |lambda| is negative


@dataclass(frozen=True)
class CentredRule(RowRule):
    """k(x, .) - column means, weighted by the measure."""

    geometry: Annotated[ValueGeometry, Axes("n d")]
    measure: Annotated[Array | None, Axes("n"), WEIGHTS]  # None: 1 everywhere
    centre: Annotated[Array, Axes("n")]  # column means of the kernel

    @property
    def row_entries(self) -> int:
        return self.geometry.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.geometry.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.geometry.sees_nothing(Z)

    def arrange(self, Z: Array, runner: Threads) -> Array | None:
        return self.geometry.arrange(Z, runner)

    @classmethod
    def of(cls, operator: CentredOperator, geometry: ValueGeometry) -> CentredRule:
        weighted = not np.all(operator.measure == 1)
        return cls(geometry, operator.measure if weighted else None, operator.centre)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        values, log_mass = self.geometry.values(Z)
        return Rows(weights=values, log_degree=log_mass, log_mass=log_mass, centre=self.centre, measure=self.measure)


@dataclass(frozen=True)
class Centring(Normalization):
    """Double centring; ``signed`` selects the eigenvalues largest in magnitude, whatever their sign."""

    signed: bool = False
    definite: bool = False  # the kernel is positive semi-definite: it has no negative eigenvalues
    cancellation: float = 1.0  # mean k(x, x) over that of the centred kernel: the digits that centring cancels
    skip: ClassVar[int] = 0

    def fit(self, K: Array, measure: Array, runner: Threads) -> CentredOperator:
        """Return the operator; K becomes the symmetric conjugate of K~ diag(m), in place."""
        with np.errstate(over="ignore", invalid="ignore"):
            centre = K @ measure / measure.sum()
        if not np.isfinite(centre).all():
            raise ValueError("The kernel overflows: its values reach infinity. Rescale the features.")
        level = float(centre @ measure / measure.sum())
        root = np.sqrt(measure)
        rounding = rounding_of(K, measure)
        size = float(np.abs(K.diagonal()) @ measure)
        blocks = row_blocks(len(K), len(K))

        def shift(block: slice) -> float:
            rows = K[block]
            rows -= centre[block, None]
            rows -= centre - level
            if not np.all(root == 1):
                rows *= root[block, None]
                rows *= root
            return float(np.abs(rows).sum(axis=1).max())

        bound = max(runner.map(shift, blocks, "centring"))
        parts = Components(np.zeros(len(K), int), np.ones(1))
        return CentredOperator(
            matrix=K,
            top=bound,
            spread=bound,
            measure=measure,
            stationary=measure,
            parts=parts,
            centre=centre,
            both_ends=self.signed,
            rounding=rounding,
            cancellation=max(1.0, size / max(float(np.abs(K.diagonal()).sum()), np.finfo(float).tiny)),
            runner=runner,
        )

    def of_operator(self, operator: Operator) -> Centring:
        return replace(self, cancellation=operator.cancellation)

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions * (np.sign(eigenvalues) / np.sqrt(np.abs(eigenvalues)))

    def scale(self, eigenvalues: Array) -> Array:
        return eigenvalues

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectral_dimension(values if self.signed else np.maximum(values, 0))

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        """As for every normalisation; unless ``signed``, an eigenvalue must also be positive."""
        usable = values if self.signed else np.maximum(values, 0)
        hint = "lie on a line or plane; other eigenvalues are zero or negative. Ask for fewer components."
        return not_rounding(usable, kept, operator, asked, clip, skip=0, hint=hint)

    def amplification(self, values: Array) -> float:
        sizes = np.abs(values)
        return float(self.cancellation * np.sqrt(sizes.max() / sizes.min()))

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        """Return the negative part of sum |lambda| over the whole spectrum (an estimate beyond 1000 rows)."""
        if self.definite:
            return 0.0
        trace, negative = float(operator.diagonal().sum()), _negative_trace(operator, values, vectors)
        share = negative / (trace + 2 * negative)
        return float(share) if share > 1e-12 else 0.0


def rounding_of(K: Array, measure: Array) -> float:
    """Return the size of eigenvalues that may be rounding of the kernel before it is centred.

    Entries up to c are right to eps c, and so are the column means that are subtracted from all rows alike: together
    an error of norm eps c M. c is the largest of the diagonal, which bounds the other entries of a positive kernel.
    The diagonal of squared distances is 0: their entries are no larger than the eigenvalues.
    """
    return float(ROUNDINGS * np.finfo(float).eps * np.abs(K.diagonal()).max() * measure.sum())


def _negative_trace(operator: Operator, values: Array, vectors: Array, steps: int = 12, probes: int = 6) -> float:
    """Return minus the sum of the negative eigenvalues, exact up to 1000 rows.

    Beyond, the computed pairs count exactly and the rest is estimated by Lanczos quadrature with random sign vectors
    (Ubaru, Chen and Saad, 2017).
    """
    n = operator.size
    if n <= 1000:
        assert isinstance(operator.matrix, np.ndarray)
        return float(-np.minimum(np.linalg.eigvalsh(operator.matrix), 0).sum())
    V = np.random.default_rng(n).choice([-1.0, 1.0], (n, probes))
    V -= vectors @ (vectors.T @ V)
    length = np.linalg.norm(V, axis=0)
    basis, diagonal, offs = [V / length], [], []
    for _ in range(steps):
        W = operator.matmat(basis[-1])
        diagonal.append((basis[-1] * W).sum(axis=0))
        W -= vectors @ (vectors.T @ W)
        for older in basis:
            W -= older * (older * W).sum(axis=0)
        offs.append(np.linalg.norm(W, axis=0))
        basis.append(W / np.where(offs[-1] > 0, offs[-1], 1.0))
    total = float(-np.minimum(values, 0).sum())
    for p in range(probes):
        ritz, turn = eigh_tridiagonal([d[p] for d in diagonal], [o[p] for o in offs[:-1]])
        total += float(length[p] ** 2 * (turn[0] ** 2 @ -np.minimum(ritz, 0))) / probes
    return total


@dataclass(frozen=True)
class SquaredDistances(ValueGeometry):
    """-d^2 / 2 to the anchors, and the support of a point by its distance to the nearest anchor."""

    distances: Annotated[MeasuredDistances, Axes("n d")]
    nearness: Nearness

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return len(self.anchors)

    def values(self, Z: Array) -> tuple[Array, Array]:
        squared = self.distances.cross(Z)
        log_mass = self.nearness.log_mass(squared.min(axis=1))
        squared *= -0.5
        return squared, log_mass

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return -d^2 / 2 between any rows, (len(X), len(Y))."""
        return -0.5 * self.distances.to(Y).cross(X)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)


class CentredProblem(Eigenproblem):
    """What eigenproblems of centred kernels between all anchors share."""

    if TYPE_CHECKING:

        @property
        def normalization(self) -> Centring: ...

    @property
    def streams(self) -> bool:
        return not self.given

    def _problem(
        self, K: Array, geometry: ValueGeometry, anchors: Anchors, reference: Reference, runner: Threads
    ) -> BuiltProblem:
        operator = self.normalization.fit(K, anchors.measure, runner)
        return BuiltProblem(
            anchors=anchors,
            operator=operator,
            normalization=self.normalization.of_operator(operator),
            rule=CentredRule.of(operator, geometry),
            reference=reference,
            columns=anchors.index if self.given else None,
            edges="all pairs",
            degree=float(len(anchors.measure)),
        )

    def cost(self, case: Case) -> Cost:
        n = case.anchors
        solver, solve = case.dense_solve(n, "krylov")
        kernel = Stage("kernel", 8.0 * n * n + min(case.blocks, 8.0 * n * n), n * n * ENTRY / case.cores)
        return Cost("all pairs", solver, self._beside_points(case, [kernel, solve]))

    def _beside_points(self, case: Case, stages: list[Stage]) -> list[Stage]:
        return stages

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion:
        assert isinstance(rule, CentredRule)
        return CentredKernel(rule, pairs)


@dataclass(frozen=True)
class Distant(CentredProblem):
    """Classical MDS: -d^2 / 2 between all anchors, centred. metric None: distances are precomputed."""

    metric: Metric | None
    normalization: Centring

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        check_memory(len(anchors.measure), "Solve on some of the points (landmarks=5000).")
        distances: MeasuredDistances
        if self.metric is None:
            distances = Given(given_columns(anchors))
            squared = distances.cross(anchors.points[:, anchors.index])
        else:
            distances = self.metric.fit(anchors.points)
            squared = distances.gram(runner)
        nearness, reference = Nearness.of(distinct_nearest(squared, runner), anchors.measure, anchors.weighed)
        squared *= -0.5
        return self._problem(squared, SquaredDistances(distances, nearness), anchors, reference, runner)

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        return negative_concerns(report, self.normalization.signed)


@dataclass(frozen=True)
class Kernels(CentredProblem):
    """Kernel PCA: values of a kernel between all anchors, centred."""

    kernel: Named | None  # None: the kernel matrix is precomputed
    normalization: Centring

    def _beside_points(self, case: Case, stages: list[Stage]) -> list[Stage]:
        return stages if self.kernel is None else case.beside_a_search(case.anchors, stages)

    @property
    def given(self) -> bool:
        return self.kernel is None

    def alone(self, epsilon: float) -> Kernels:
        if self.kernel is None or self.kernel.gamma != "auto" or np.isnan(epsilon):
            return self
        return replace(self, kernel=replace(self.kernel, gamma=1 / (2 * epsilon)))

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        check_memory(len(anchors.measure), "Solve on some of the points (landmarks=5000).")
        geometry: GivenValues | KernelValues
        if self.kernel is None:
            geometry, K, reference = GivenValues.of(given_columns(anchors), anchors.points, anchors.measure)
        else:
            geometry, K, reference = self.kernel.fit(anchors.points, anchors.measure, runner, anchors.weighed)
        return replace(self._problem(K, geometry, anchors, reference, runner), bandwidth=geometry.bandwidth)

    @property
    def weighs_scales(self) -> bool:
        return self.kernel is not None and self.kernel.name != "cosine"

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        assert isinstance(problem.normalization, Centring)
        found = cancelled_digits(report, problem.normalization.cancellation)
        if report.negative_mass <= MUCH:
            return found
        text = (
            f"{100 * report.negative_mass:.0f} % of the spectrum's mass is negative: this kernel is no inner product, "
            "and coordinates show the positive part only. Take a positive definite kernel, such as 'rbf'."
        )
        return [*found, Concern(Importance.SPECTRUM, text)]


def distinct_nearest(squared: Array, runner: Threads) -> Array:
    """Return the smallest positive squared distance in each row of a table, (n,): copies of a point do not count."""
    out = np.empty(len(squared))

    def look(block: slice) -> None:
        out[block] = np.where(squared[block] > 0, squared[block], np.inf).min(axis=1)

    runner.each(look, row_blocks(len(squared), squared.shape[1]), "nearest")
    return out


def cancelled_digits(report: Facts, cancellation: float) -> list[Concern]:
    """Return a warning if centring the kernel cancels so many digits that rounding grows by more than 1e5."""
    if report.amplification <= MAGNIFIED:
        return []
    if cancellation < 10:
        return magnified_rounding(report)
    text = (
        f"Rounding grows by {report.amplification:.1e} in transform: the kernel's values agree to within "
        f"{1 / cancellation:.1e} of their size, and centring subtracts what they share. Subtract a constant from the "
        "kernel yourself where you compute it (1 from a kernel with k(x, x) = 1), or widen the spread of the data "
        "beside the kernel's width."
    )
    return [Concern(Importance.ROUNDING, text)]


def negative_concerns(report: Facts, signed: bool) -> list[Concern]:
    """Return a warning if more than ``MUCH`` of the spectrum of distances is negative, else nothing."""
    if report.negative_mass <= MUCH:
        return []
    share = f"{100 * report.negative_mass:.0f} %"
    text = f"{share} of the spectrum's mass is negative: these distances are far from Euclidean"
    if not signed:
        text += ", and coordinates with positive eigenvalues show the rest only. signed=True keeps the largest of "
        text += "either sign"
    return [Concern(Importance.SPECTRUM, f"{text}.")]


class CentredKernel(Expansion):
    """Kernel PCA, classical MDS and Isomap."""

    def __init__(self, rule: CentredRule, pairs: EigenPairs) -> None:
        super().__init__(pairs)
        self.rule, self.trivial = rule, 0.0

    @cached_property
    def _share(self) -> Array:
        count = len(self.rule.centre)
        measure = np.ones(count) if self.rule.measure is None else self.rule.measure
        result: Array = measure / measure.sum()
        return result

    def _means(self, X: Array) -> Array:
        share = self._share[:, None]
        return by_blocks(
            lambda part: (self.rule.geometry.values(part)[0] @ share)[:, 0], X, self.rule.geometry.row_entries
        )

    def table(self, X: Array, Y: Array) -> Array:
        level = float(self.rule.centre @ self._share)
        result: Array = self.rule.geometry.pairs(X, Y) - self._means(X)[:, None] - (self._means(Y) - level)
        return result

    def functions(self, X: Array, embedding: Array) -> Array:
        return embedding / np.sqrt(np.abs(self.values))

    def constant(self, X: Array) -> Array:
        raise AssertionError("centring leaves no constant")
