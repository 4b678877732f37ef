"""The generator of diffusion on uneven samples (Berry and Harlim, 2016), through the nearest anchors of each point.

With A the affinities of :mod:`outfold.operators.neighbor_walk`, r the local scale and ``dim`` the dimension,

    q = A m / r^dim,   a = alpha - 1/2 - 1/dim,   A' = A / (q^a q^a'),   D = A' m,   P = A' diag(m) / D
    generator (1 - P) / s,   s = 2 epsilon r^2 b / a_0,   symmetric in sqrt(m D s) psi,   pi = m D s / sum

q is the density and r falls as density^(-1 / dim), so alpha = 1 leaves half the Laplace-Beltrami operator, whatever the
density: on the unit circle 2 mu tends to k^2. A step of P is two steps of the kernel, hence the 2; a_0 and b are the
mass and the second moment that a Gaussian keeps if it is cut at the last neighbour. Eigenfunctions extend by

    psi(x) = p(x, .) back(psi) / (1 - mu s(x))

which has a pole at s(x) = 1 / mu. So fewer neighbours set the scale if many pairs are wanted, and on the few rows where
that is not enough s is capped so that mu s <= 3/4, in fit and row alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from scipy import linalg
from scipy.special import gammainc

from .._runtime.threads import Threads
from .._runtime.typing import FREE, Array, Axes, Interval, Matrix, Sparse
from ..data.weights import at_whole_numbers, weighted_quantile
from ..graphs import components
from ..graphs.components import Components
from ..graphs.local_dimension import dimension_by_search
from ..graphs.nearest import NearestAnchors
from ..graphs.protocols import Geometry
from ..neighbors import Search
from ..trust import Isolation
from .concerns import Concern, Importance
from .directions import LOOKED
from .markov import MarkovRule
from .operator import (
    RELAXATIONS,
    LaplacianOperator,
    Normalization,
    Operator,
    RowRule,
    Rows,
    add_to_diagonal,
    links,
    scale_both_sides,
)
from .spectrum import spectral_dimension
from .walk import Walk

LOCAL_NEIGHBORS = 8  # least number of neighbours that set the local scale
FEWEST_LOCAL = 6  # the same, if many pairs are wanted
MOST_NEIGHBORS = 128
DIMENSION_NEIGHBORS = 16  # neighbours by which the dimension is estimated
SLOWEST = 1e-6  # least s, in units of its median: rows with many near copies must not set the scale of the spectrum
MOST_RATE = 0.75  # largest mu s: new rows are divided by 1/4 at the least


def local_dimension_of(search: Search, counted: Array, runner: Threads) -> float:
    """Return the dimension of the anchors by maximum likelihood, from 1 to 50."""
    found = dimension_by_search(search, counted, DIMENSION_NEIGHBORS, runner)
    return 1.0 if found is None else float(np.clip(found, 1.0, 50.0))


@dataclass(frozen=True, kw_only=True)
class RateRule(RowRule):
    """psi(x) = p(x, .) basis / (1 - mu s(x)), s(x) = min(pace r(x)^2, cap)."""

    markov: Annotated[MarkovRule, Axes("n d")]
    rates: Annotated[Array, Axes("c")]  # mu
    pace: float  # s / r^2
    least: float  # least and largest s
    cap: Annotated[float, FREE]

    @property
    def geometry(self) -> Geometry:
        return self.markov.geometry

    @property
    def training_rows(self) -> tuple[Isolation, Array] | None:
        return self.markov.training_rows

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.markov.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.markov.sees_nothing(Z)

    def at_nearest(self, Z: Array) -> Rows:
        return self.rows(self.geometry.anchors[self.nearest(Z)])

    def at(self, eigenvalues: Array) -> RateRule:
        """Return the rule for these rates; a row that is farther from the data than any anchor has mu s <= 3/4 too.

        Rates are 0 or more, and 0 up to rounding for contrasts between components, which need no cap: they are constant
        on what a row sees.
        """
        rates = np.maximum(eigenvalues, 0.0)
        most = max(float(rates.max()), np.finfo(float).tiny)
        cap = self.cap if np.isfinite(self.cap) else (1 + 1e-9) * MOST_RATE / most
        return replace(self, rates=rates, cap=cap)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        assert isinstance(self.geometry, NearestAnchors)
        near = self.geometry.look(Z)
        markov = self.markov.rows(Z, near.values)
        rows = replace(markov, log_mass=near.log_mass, surroundings=near.surroundings)
        with np.errstate(over="ignore"):
            slow = np.clip(self.pace * np.square(near.unit), self.least, self.cap)
        return rows.divide(1 - slow[:, None] * self.rates)


@dataclass(frozen=True)
class Generator:
    """The specification: coordinates are exp(-mu time) psi."""

    alpha: float = 1.0
    time: float = 0.0
    dim: Annotated[float | None, Interval(0.0, open_low=True)] = None  # None: estimated
    most: int = 64  # neighbours that set the local scale, at most

    def neighbors(self, count: float, dim: float) -> tuple[float, float]:
        """Return how many neighbours set the local scale, and how many a point keeps.

        The first grows as n^(2 / (dim + 2)), as bandwidths do. At the last neighbour the kernel has fallen to about
        exp(-3), in few dimensions: d^2 / r^2 = (k / k_0)^(2 / dim) (dim + 2) / dim = 6. Both are whole numbers for a
        whole count, and continuous in between.
        """
        wide = np.clip((6 * dim / (dim + 2)) ** (dim / 2), 2.0, 8.0)

        def local(n: float) -> int:
            return int(np.clip(0.3 * n ** (2 / (dim + 2)), min(LOCAL_NEIGHBORS, self.most), self.most))

        def kept(n: float) -> int:
            return int(np.clip(wide * local(n), 3 * LOCAL_NEIGHBORS, MOST_NEIGHBORS))

        return at_whole_numbers(local, count), at_whole_numbers(kept, count)

    def fit(self, walk: Walk, geometry: NearestAnchors, last: Array, dim: float, runner: Threads) -> RateProblem:
        """Return the generator of the walk; ``last``: squared distances to last neighbours, in local units."""
        unit, measure, degree = geometry.unit, walk.measure, walk.degree
        weight = density_weight(degree, unit, dim, self.alpha)
        A = walk.kernel(runner)
        D = weight * (A @ (weight * measure))
        cut = weighted_quantile(last, geometry.counted, 0.5) / (2 * geometry.epsilon)
        pace = 2 * geometry.epsilon * _kept_moment(cut, dim)
        slow = pace * np.square(unit)
        least = SLOWEST * weighted_quantile(slow, geometry.counted, 0.5)
        scale_both_sides(A, weight * np.sqrt(measure / D))
        total = float(measure @ D)
        parts = components.find(links(A), measure * D / total)
        return RateProblem(
            spec=self, dim=dim, markov=A, parts=parts, weight=weight, degree=degree, unit=unit, measure=measure,
            D=D, pace=pace, slow=np.maximum(slow, least), least=least,
        )  # fmt: skip


def density_weight(degree: Array, unit: Array, dim: float, alpha: float) -> Array:
    """Return q^-a."""
    logs = np.log(degree) - dim * np.log(unit)
    weight: Array = np.exp(-(alpha - 0.5 - 1 / dim) * (logs - np.median(logs)))
    return weight


def _kept_moment(cut: float, dim: float) -> float:
    """Return b / a_0, the part of a step's squared length that is left if d^2 / (2 epsilon r r') <= ``cut``."""
    if cut <= 0:
        return 1.0
    mass, moment = gammainc(dim / 2, cut), gammainc(dim / 2 + 1, cut)
    return float(moment / mass) if mass > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class RateProblem(Normalization):
    """The generator of the anchors."""

    spec: Generator
    dim: float
    markov: Sparse = field(repr=False)  # the symmetric conjugate of P
    parts: Components
    weight: Array  # q^-a
    degree: Array  # A m
    unit: Array  # r
    measure: Array  # m
    D: Array
    pace: float  # s / r^2
    slow: Array  # s
    least: float  # least s
    cap: float = np.inf  # largest s; infinite: no anchor needs one

    @property
    def total(self) -> float:
        return float(self.measure @ self.D)

    @property
    def operator(self) -> LaplacianOperator:
        """-(1 - P) / s, made symmetric."""
        M = self.markov.copy()
        add_to_diagonal(M, -np.ones(len(self.slow)))
        scale_both_sides(M, 1 / np.sqrt(self.slow))
        pi = self.measure * self.D * self.slow
        spread = float(1 / self.slow.min())
        return LaplacianOperator(
            matrix=M, spread=spread, measure=self.measure, stationary=pi / pi.sum(), parts=self.parts,
            degree=1 / self.slow,
        )  # fmt: skip

    def rule(self, markov: MarkovRule) -> RateRule:
        return RateRule(markov=markov, rates=np.empty(0), pace=self.pace, least=self.least, cap=self.cap)

    def lower_cap(self, rates: Array, vectors: Array) -> RateProblem | None:
        """Return the problem with s capped so that mu s <= 3/4; None if that holds already.

        ``vectors``: eigenvectors of the operator for the eigenvalues -``rates``. In their span the generator with s
        capped has Ritz values that are at least its rates (min-max), so a cap that suits them suits the rates.
        """
        cap, slow, most = float(self.slow.max()), self.slow, float(rates.max())
        while most * cap > MOST_RATE * (1 + 1e-9) and cap > slow.min():
            cap = max(min(MOST_RATE / most, 0.9 * cap), float(slow.min()))
            mass = vectors.T @ (vectors * (np.minimum(slow, cap) / slow)[:, None])
            try:
                most = float(linalg.eigh(np.diag(rates), (mass + mass.T) / 2, eigvals_only=True).max())
            except linalg.LinAlgError as error:  # the eigenvectors lie on rows that the cap leaves nothing of
                raise ValueError(
                    f"kernel='variable' has no rates here: squared local scales range from {self.slow.min():.1e} to "
                    f"{self.slow.max():.1e}. Scale the features, drop near copies, or take kernel='adaptive'."
                ) from error
        return None if cap >= slow.max() else replace(self, slow=np.minimum(slow, cap), cap=cap)

    def resolving(self, local: float, rate: float) -> int:
        """Return the number of neighbours at which mu s is small enough for ``rate``, but on outliers.

        Of more neighbours the scale s would have to be capped on more of the rows, which changes all eigenfunctions.
        """
        large = rate * min(float(self.slow.max()), 2 * weighted_quantile(self.slow, self.measure, 0.99))
        fewer = local * min(1.0, MOST_RATE / large) ** (self.dim / 2) if large > 0 else local
        return max(FEWEST_LOCAL, int(fewer))

    def sensitivity(self, rates: Array, functions: Array) -> float:
        """Return the largest relative change of the rates with a dimension of one more or one less, to first order."""
        root = self.weight * np.sqrt(self.measure / self.D)
        functions = functions / np.abs(functions).max(axis=0)  # in other units their squares may be no numbers
        worst = 0.0
        for other in (max(0.5, self.dim - 1), self.dim + 1):
            weight = density_weight(self.degree, self.unit, other, self.spec.alpha)
            block = np.column_stack([np.ones(len(weight)), functions]) * (weight * self.measure)[:, None]
            moved = (self.markov @ (block / root[:, None])) / root[:, None]  # A times the block
            D = weight * moved[:, 0]
            pi = self.measure * D
            energy = pi @ functions**2 - (block[:, 1:] * moved[:, 1:]).sum(axis=0)
            pi = pi * self.slow
            size = pi @ functions**2 - (pi @ functions) ** 2 / pi.sum()
            worst = max(worst, float(np.abs(energy / size / rates - 1).max()))
        return worst

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        basis: Array = functions * np.exp(-eigenvalues * self.spec.time)
        return basis

    @property
    def looked(self) -> int:
        return LOOKED

    def dimension(self, operator: Operator, values: Array) -> int | None:
        """Return how many weigh more than a tenth of the first at the time of the coordinates."""
        return spectral_dimension(np.exp((values - values[0]) * self.spec.time))

    def amplification(self, values: Array) -> float:
        return float(1 / np.abs(1 + values * self.slow.max()).min())

    def concerns(self, rates: Array) -> list[Concern]:
        """Return a warning if ``time`` is so long that nothing is left of the coordinates."""
        time, slowest = self.spec.time, float(rates.min())
        if slowest * time < RELAXATIONS:
            return []
        text = (
            f"t={time:g} leaves exp(-mu t) = {np.exp(-slowest * time):.1e} of the first coordinate, whose rate is "
            f"mu = {slowest:.3g} in units of the data. Pass t=0, or t near {1 / slowest:.2g}, or rescale the data."
        )
        return [Concern(Importance.WIDTH, text)]
