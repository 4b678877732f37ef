"""Centred kernels: kernel PCA, classical MDS and, over geodesics, Isomap.

    K~ = K - K 1m'/M - 1m'K/M + (m'Km/M^2),    K~ diag(m) f = lambda f,    embedding = sqrt(lambda) f

with m the measure and M its sum. A new point has the embedding (k(x, .) - column means) m f / sqrt(lambda): the mean of
its own row cancels, because f is orthogonal to the constant. A negative eigenvalue (distances that are not Euclidean)
gives sqrt(|lambda|) f if signed coordinates are requested (Laub and Mueller, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..data.sources import Source
from ..distances import Given
from ..graphs.components import Components
from ..graphs.drawing import check_memory
from ..kernels import GivenValues
from ..landmarks import Anchors, given_columns
from ..trust import Nearness
from . import spectrum
from .operator import Operator, Rows, not_rounding
from .problem import BuiltProblem

MUCH = 0.4  # the report warns if a larger part of sum |lambda| is negative


@dataclass(frozen=True)
class CentredRule:
    """k(x, .) - column means, weighted by the measure."""

    geometry: Any
    measure: Array | None  # None: 1 everywhere
    centre: Array  # column means of the kernel

    @property
    def row_entries(self) -> int:
        return self.geometry.row_entries

    def rows(self, Z: Array) -> Rows:
        values, log_mass = self.geometry.values(Z)
        return Rows(values, log_mass, log_mass, centre=self.centre, measure=self.measure)


@dataclass(frozen=True)
class Centring:
    """Double centring; ``signed`` selects the eigenvalues largest in magnitude, whatever their sign."""

    signed: bool = False
    definite: bool = False  # the kernel is positive semi-definite: it has no negative eigenvalues
    skip: ClassVar[int] = 0
    unit_columns: ClassVar[bool] = False

    def fit(self, K: Array, measure: Array, runner: Threads) -> Operator:
        """Return the operator; K becomes the symmetric conjugate of K~ diag(m), in place."""
        with np.errstate(over="ignore", invalid="ignore"):
            centre = K @ measure / measure.sum()
        if not np.isfinite(centre).all():
            raise ValueError("The kernel overflows: its values reach infinity. Rescale the features.")
        level = float(centre @ measure / measure.sum())
        root = np.sqrt(measure)
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
        return Operator("centred", K, bound, bound, measure, measure, parts, measure, centre, self.signed, runner)

    def rule(self, operator: Operator, geometry: Any, kernel: Any, eigenvalues: Array) -> CentredRule:
        weighted = not np.all(operator.measure == 1)
        return CentredRule(geometry, operator.measure if weighted else None, operator.mass)

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions * (np.sign(eigenvalues) / np.sqrt(np.abs(eigenvalues)))

    def scale(self, eigenvalues: Array) -> Array:
        return eigenvalues

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectrum.spectral_dimension(values if self.signed else np.maximum(values, 0))

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        """Return the pairs whose eigenvalue exceeds rounding and, unless ``signed``, is positive."""
        usable = values if self.signed else np.maximum(values, 0)
        hint = "lie on a line or plane; other eigenvalues are zero or negative. Ask for fewer components."
        return not_rounding(usable, kept, operator, asked, clip, skip=0, hint=hint)

    def amplification(self, values: Array) -> float:
        sizes = np.abs(values)
        return float(np.sqrt(sizes.max() / sizes.min()))

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        """Return the negative part of sum |lambda| over the whole spectrum (an estimate beyond 1000 rows)."""
        if self.definite:
            return 0.0
        trace, negative = float(operator.diagonal().sum()), _negative_trace(operator, values, vectors)
        share = negative / (trace + 2 * negative)
        return float(share) if share > 1e-12 else 0.0


def _negative_trace(operator: Operator, values: Array, vectors: Array, steps: int = 12, probes: int = 6) -> float:
    """Return minus the sum of the negative eigenvalues, exact up to 1000 rows.

    Beyond, the computed pairs count exactly and the rest is estimated by Lanczos quadrature with random sign vectors
    (Ubaru, Chen and Saad, 2017).
    """
    n = operator.size
    if n <= 1000:
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
class SquaredDistances:
    """-d^2 / 2 to the anchors, and the support of a point by its distance to the nearest anchor."""

    distances: Any
    nearness: Nearness

    @property
    def row_entries(self) -> int:
        return len(self.distances.anchors)

    def values(self, Z: Array) -> tuple[Array, Array]:
        squared = self.distances.cross(Z)
        log_mass = self.nearness.log_mass(squared.min(axis=1))
        squared *= -0.5
        return squared, log_mass

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return -d^2 / 2 between any rows, (len(X), len(Y))."""
        return -0.5 * replace(self.distances, anchors=Y).cross(X)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)


@dataclass(frozen=True)
class Distant:
    """The view of classical MDS: -d^2 / 2 between all anchors, centred. metric None: distances are precomputed."""

    metric: Any
    normalization: Centring
    merges_copies: ClassVar[bool] = False

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def streams(self) -> bool:
        return not self.given

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        check_memory(len(anchors.measure), "Solve on some of the points (landmarks=5000).")
        if self.given:
            distances: Any = Given(given_columns(anchors))
            squared = distances.cross(anchors.points[:, anchors.index])
        else:
            distances = self.metric.fit(anchors.points)
            squared = distances.gram(runner)
        nearness, reference = Nearness.of(distinct_nearest(squared, runner), anchors.measure)
        squared *= -0.5
        return BuiltProblem(
            anchors,
            self.normalization.fit(squared, anchors.measure, runner),
            self.normalization,
            SquaredDistances(distances, nearness),
            None,
            reference,
            columns=anchors.index if self.given else None,
            edges="all pairs",
            degree=float(len(anchors.measure)),
        )

    def concerns(self, report: Any, values: Array, problem: BuiltProblem) -> list[str]:
        return negative_concerns(report, self.normalization.signed)


@dataclass(frozen=True)
class Kernels:
    """The view of kernel PCA: values of a kernel between all anchors, centred."""

    kernel: Any  # kernels.Named; None: the kernel matrix is precomputed
    normalization: Centring
    merges_copies: ClassVar[bool] = False

    @property
    def given(self) -> bool:
        return self.kernel is None

    @property
    def streams(self) -> bool:
        return not self.given

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        check_memory(len(anchors.measure), "Solve on some of the points (landmarks=5000).")
        if self.given:
            geometry, K, reference = GivenValues.of(given_columns(anchors), anchors)
        else:
            geometry, K, reference = self.kernel.fit(anchors.points, anchors.measure, runner)
        return BuiltProblem(
            anchors,
            self.normalization.fit(K, anchors.measure, runner),
            self.normalization,
            geometry,
            None,
            reference,
            columns=anchors.index if self.given else None,
            edges="all pairs",
            degree=float(len(anchors.measure)),
            bandwidth=geometry.bandwidth,
        )

    def concerns(self, report: Any, values: Array, problem: BuiltProblem) -> list[str]:
        if report.negative_mass <= MUCH:
            return []
        return [
            f"{100 * report.negative_mass:.0f} % of the spectrum's mass is negative: this kernel is no inner product, "
            "and coordinates show the positive part only. Take a positive definite kernel, such as 'rbf'."
        ]


def distinct_nearest(squared: Array, runner: Threads) -> Array:
    """Return the smallest positive squared distance in each row of a table, (n,): copies of a point do not count."""
    out = np.empty(len(squared))

    def look(block: slice) -> None:
        out[block] = np.where(squared[block] > 0, squared[block], np.inf).min(axis=1)

    runner.each(look, row_blocks(len(squared), squared.shape[1]), "nearest")
    return out


def negative_concerns(report: Any, signed: bool) -> list[str]:
    """Return a warning if more than ``MUCH`` of the spectrum of distances is negative, else nothing."""
    if report.negative_mass <= MUCH:
        return []
    share = f"{100 * report.negative_mass:.0f} %"
    told = f"{share} of the spectrum's mass is negative: these distances are far from Euclidean"
    if signed:
        return [f"{told}."]
    return [
        f"{told}, and coordinates with positive eigenvalues show the rest only. signed=True keeps the largest of "
        "either sign."
    ]
