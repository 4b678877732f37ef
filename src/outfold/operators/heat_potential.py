"""Potential of heat diffusion (PHATE; Moon et al., 2019): distances between the diffusion profiles of the anchors.

    K(x, y) = 1/2 exp(-(d / sigma(x))^a) + 1/2 exp(-(d / sigma(y))^a),   sigma the distance to neighbour k
    A = K (every row is an anchor) or K' diag(m / K 1) K (from landmarks to the rows and back),   P = A m / d
    U = -log(P^t / m + floor), or 2 / (1 - gamma) (P^t / m)^((1 - gamma) / 2);   delta_ij^2 = sum_l m_l (U_il - U_jl)^2
    y by metric scaling of delta;   embedding(x) = sum_l p(x, l) y_l,   p(x, .) the row of K m, summing to 1

m is the measure of the anchors (landmarks: 1, since the measure of the rows is in A). The embedding of every row,
training or new, is the mean of the anchors' coordinates, weighted by its own row of K. Equal rows are merged into one
anchor of their joint measure, so sigma is never zero.

sigma of a row is at most the largest sigma of an anchor, so that a row far from the data tends to its nearest anchor.
Entries below ``CUT`` times the largest in their row are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse import csr_array

from .._runtime.memory import check_fits
from .._runtime.threads import Threads, block_rows, row_blocks
from .._runtime.typing import POSITIVE, WEIGHTS, Array, Axes, Interval, Matrix
from ..data.sources import InMemory, Source
from ..data.sparse_rows import SparseRows, as_rows
from ..distances import GivenNeighbors, GivenTable, Metric, SearchedDistances
from ..graphs.drawing import unit_floor
from ..graphs.pair_statistics import table_kth
from ..landmarks import Anchors, given_columns, holds_every_row
from ..trust import LOG_FLOOR, SAMPLED_ROWS, Reference
from . import _smacof, spectrum
from ._smacof import Layout
from .concerns import Concern, Importance
from .costs import ENTRY, FLOPS, Case, Cost, Stage
from .markov import Markov, log_mass_without_self
from .operator import DENSE_SOLVER_UP_TO, MarkovOperator, Normalization, Operator, RowRule, Rows
from .problem import BuiltProblem, Eigenproblem, Facts, Gathered
from .signs import orient

TINY = np.finfo(float).tiny
CUT = 1e-4  # weights below this fraction of the largest in their row are left out
PROBABILITY_FLOOR = 1e-7  # added to a probability before the logarithm
TABLES_HELD = 5  # tables (anchors, anchors) in memory at once
WIDE = 3  # work on a row in units of its distances, for cutting blocks


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The affinities of rows to the anchors, as the arrays of a CSR matrix."""

    ptr: Array
    index: Array
    log_weight: Array  # log K
    squared: Array  # squared distances
    beyond: Array  # rows for which powers of distances overflow: all weight is on their nearest anchor

    def rows(self) -> Array:
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))


@dataclass(frozen=True, kw_only=True)
class Decay:
    """The alpha-decaying kernel to the anchors."""

    distances: Annotated[SearchedDistances, Axes("n d")]
    neighbours: Annotated[int, Interval(0, "n")]
    decay: Annotated[float, POSITIVE]
    units: Annotated[Array, Axes("n"), POSITIVE]  # sigma^2 of the anchors
    least: float  # lower bound of sigma^2
    counts: Annotated[Array | None, Axes("n"), WEIGHTS] = None  # of each anchor as a neighbour; None: 1

    @classmethod
    def of(
        cls, distances: SearchedDistances, neighbours: int, decay: float, runner: Threads, counts: Array | None = None
    ) -> Decay:
        """Return the kernel with sigma of the anchors from their distances to each other."""
        anchors = distances.anchors
        units, ones = np.empty(len(anchors)), np.ones(len(anchors))

        def look(block: slice) -> None:
            units[block] = _kth_known(distances.cross(anchors[block]), ones, neighbours + 1, counts)

        runner.each(look, row_blocks(len(anchors), WIDE * len(anchors)), "neighbours")
        least = unit_floor(np.sqrt(units), counts) ** 2  # a floor for nearly equal points
        units = np.maximum(units, least)
        return cls(distances=distances, neighbours=neighbours, decay=decay, units=units, least=least, counts=counts)

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return WIDE * len(self.units)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.distances.sees_nothing(Z)

    def look(self, Z: Array) -> Seen:
        """Return the affinities of each row of Z to the anchors, without negligible ones; at least one for each row."""
        squared = self.distances.cross(Z)
        own = _kth_known(squared, np.ones(len(self.units)), self.neighbours + 1, self.counts)
        own = np.clip(own, self.least, self.units.max())
        half = self.decay / 2
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = squared / np.maximum(own[:, None], self.units)  # -ratio^half >= log K >= -ratio^half - log 2
            nearest = ratio.min(axis=1)
            limit = np.maximum((nearest**half - np.log(CUT / 2)) ** (1 / half), nearest)
        beyond = np.flatnonzero(~np.isfinite(limit))
        mask = ratio <= limit[:, None]
        if len(beyond):
            at = squared[beyond].argmin(axis=1)
            lost = ~np.isfinite(squared[beyond, at])
            at[lost] = self.nearest(Z[beyond[lost]]) if lost.any() else at[lost]
            mask[beyond] = False
            mask[beyond, at], squared[beyond, at] = True, 0.0
        rows, index = np.nonzero(mask)
        kept = squared[rows, index]
        with np.errstate(over="ignore"):
            log_weight = np.logaddexp(-((kept / own[rows]) ** half), -((kept / self.units[index]) ** half)) - np.log(2)
        ptr = np.append(0, np.cumsum(mask.sum(axis=1)))
        return _cut(Seen(ptr=ptr, index=index, log_weight=log_weight, squared=kept, beyond=beyond))


def _kth_known(squared: Array, measure: Array, mass: float, counts: Array | None) -> Array:
    """Return the squared distance to neighbour ``mass`` of each row; of rows with fewer neighbours, to the last one."""
    found = table_kth(squared, measure, mass, counts)
    few = np.flatnonzero(~np.isfinite(found))
    found[few] = np.where(np.isfinite(squared[few]), squared[few], 0.0).max(axis=1)
    return found


def _cut(seen: Seen) -> Seen:
    """Leave out weights below ``CUT`` times the largest in their row."""
    top = np.maximum.reduceat(seen.log_weight, seen.ptr[:-1])
    rows = seen.rows()
    keep = seen.log_weight >= top[rows] + np.log(CUT)
    counts = np.bincount(rows[keep], minlength=len(top))
    ptr = np.append(0, np.cumsum(counts))
    index, log_weight, squared = (values[keep] for values in (seen.index, seen.log_weight, seen.squared))
    return Seen(ptr=ptr, index=index, log_weight=log_weight, squared=squared, beyond=seen.beyond)


@dataclass(frozen=True)
class DecayRule(RowRule):
    """p(x, l) = K(x, l) m_l / sum; the support is log sum_l m_l exp(-d^2 / (2 sigma_l^2)) over its anchors."""

    geometry: Annotated[Decay, Axes("n d")]
    measure: Annotated[Array, Axes("n"), WEIGHTS]

    @property
    def row_entries(self) -> int:
        return self.geometry.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.geometry.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.geometry.sees_nothing(Z)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        seen = self.geometry.look(Z)
        rows, start, weight = seen.rows(), seen.ptr[:-1], self.measure[seen.index]
        top = np.maximum.reduceat(seen.log_weight, start)
        values = weight * np.exp(seen.log_weight - top[rows])
        total = np.add.reduceat(values, start)
        log_degree = top + np.log(total)
        log_mass = log_support(seen, self.geometry.units, weight)
        log_degree[seen.beyond] = log_mass[seen.beyond] = -np.inf
        weights = csr_array((values / total[rows], seen.index, seen.ptr), shape=(len(Z), len(self.measure)))
        return Rows(weights=weights, log_degree=log_degree, log_mass=log_mass)


def log_support(seen: Seen, units: Array, weight: Array) -> Array:
    """Return log sum_l m_l exp(-d^2 / (2 sigma_l^2)), which falls with distance whatever the row's own sigma."""
    logs = -0.5 * seen.squared / units[seen.index]
    top = np.maximum.reduceat(logs, seen.ptr[:-1])
    return top + np.log(np.add.reduceat(weight * np.exp(logs - top[seen.rows()]), seen.ptr[:-1]))


@dataclass(frozen=True)
class Scaled(Normalization):
    """The coordinates of the anchors by scaling, in place of eigenfunctions; eigenvalues are those of P."""

    places: Array

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return self.places

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return float(np.abs(values[values < 0]).sum() / np.abs(values).sum())

    def relative_gaps(self, distance: Array, kept: Array) -> tuple[float, ...]:
        return ()


@dataclass(frozen=True)
class Placement(Gathered):
    """The diffusion time t, and the layout of the anchors."""

    t: int
    placed: Layout


@dataclass(frozen=True)
class WalkSums:
    """Sums over some rows."""

    table: csr_array  # K' diag(m / K 1) K
    log_mass: Array  # log mass of rows 0, `every`, 2 `every`, ...
    least: float  # least log mass of all rows of positive measure
    entries: int  # number of entries of K

    def join(self, later: WalkSums) -> WalkSums:
        """Return the sums over these rows and those that follow them."""
        return WalkSums(
            csr_array(self.table + later.table),
            np.append(self.log_mass, later.log_mass),
            min(self.least, later.least),
            self.entries + later.entries,
        )


@dataclass(frozen=True)
class LandmarkWalk:
    """A function of a block of rows: their part of K' diag(m / K 1) K, and their support."""

    geometry: Decay
    every: int  # rows 0, `every`, 2 `every`, ... report their log mass

    def __call__(self, points: Array, measure: Array, start: int) -> WalkSums:
        """Return the sums over a part of the rows, computed in blocks, as a part may be too large for one table."""
        blocks = row_blocks(len(points), self.geometry.row_entries)
        return reduce(WalkSums.join, (self.block(points[b], measure[b], start + b.start) for b in blocks))

    def block(self, points: Array, measure: Array, start: int) -> WalkSums:
        seen = self.geometry.look(as_rows(points))
        K = csr_array((np.exp(seen.log_weight), seen.index, seen.ptr), shape=(len(points), len(self.geometry.units)))
        K.data *= np.sqrt(measure / np.maximum(K.sum(axis=1), TINY))[seen.rows()]  # K 1 may underflow
        log_mass = log_support(seen, self.geometry.units, np.ones(len(seen.index)))
        log_mass[seen.beyond] = LOG_FLOOR
        log_mass = np.maximum(log_mass, LOG_FLOOR)
        least = float(log_mass.min(initial=np.inf, where=measure > 0))
        return WalkSums(csr_array(K.T @ K), log_mass[-start % self.every :: self.every], least, K.nnz)


@dataclass(frozen=True, kw_only=True)
class HeatPotential(Eigenproblem):
    """PHATE."""

    metric: Metric | None  # None: distances are precomputed
    neighbours: int
    decay: float
    t: int | None  # diffusion time; None: the knee of the entropy
    gamma: float
    classical: bool  # stop at classical scaling
    fewer: bool = False  # of few points take fewer neighbours, instead of raising

    @property
    def given(self) -> bool:
        return self.metric is None

    @property
    def includes_itself(self) -> bool:
        return True

    @property
    def merges_copies(self) -> bool:
        return True

    @property
    def streams(self) -> bool:
        return not self.given

    @property
    def feature_metric(self) -> Metric | None:
        return self.metric

    def describe(self) -> str:
        return f"decay {self.decay:g} in units of neighbour {self.neighbours}"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        n = len(anchors.points)
        check_tables(n)
        counts = anchors.counts(self.given)
        counted = n if counts is None else float(counts.sum())
        if self.fewer and self.neighbours >= counted > 1:
            fewer = replace(self, neighbours=int(np.ceil(counted)) - 1)
            return fewer.build(rows, anchors, measure, needed, runner).of_few(self.neighbours)
        if self.neighbours >= counted:
            raise ValueError(
                f"n_neighbors={self.neighbours} must be smaller than the number of distinct points, {counted:g}"
                + ("" if counts is None else " (weights below 1 count as their fraction)")
                + (". Lower it." if n == len(measure) else ". Lower it, or raise landmarks.")
            )
        geometry = Decay.of(self._distances(anchors), self.neighbours, self.decay, runner, counts)
        if self.given:
            rows = InMemory(as_rows(rows.array()[:, given_columns(anchors)]))
        if holds_every_row(anchors, measure):
            A, reference, degree = self._among(geometry, anchors.measure, runner)
        else:
            A, reference, degree = self._through(geometry, rows, measure, runner)
            heard = np.flatnonzero(A.diagonal() > 0)
            if len(heard) < n:  # leave out landmarks to which no row has weight
                return self.build(rows, anchors.at(heard), measure, needed, runner)
            anchors = replace(anchors, measure=np.ones(n))
        operator = replace(Markov(alpha=0.0).fit(A, anchors.measure), runner=runner)
        found = self._place(operator, anchors, needed, runner)
        return BuiltProblem(
            anchors=anchors,
            operator=operator,
            normalization=Scaled(found.placed.places),
            rule=DecayRule(geometry, operator.measure),
            reference=reference,
            columns=anchors.index if self.given else None,
            edges=self.describe(),
            degree=degree,
            gathered=found,
        )

    def _distances(self, anchors: Anchors) -> SearchedDistances:
        if self.metric is not None:
            return self.metric.fit(anchors.points)
        table = as_rows(anchors.points[:, given_columns(anchors)])
        return GivenNeighbors(table) if isinstance(table, SparseRows) else GivenTable(table)

    def _among(self, geometry: Decay, measure: Array, runner: Threads) -> tuple[csr_array, Reference, float]:
        """Return K between the anchors, the reference of their support, and the mean number of entries in a row."""
        points, n = geometry.anchors, len(measure)
        blocks = row_blocks(n, geometry.row_entries)
        seen = _join(list(runner.map(lambda b: geometry.look(points[b]), blocks, "kernel")))
        logs = -0.5 * seen.squared / geometry.units[seen.index]
        K, near = (csr_array((np.exp(v), seen.index, seen.ptr), (n, n)) for v in (seen.log_weight, logs))
        reference = Reference.of(log_mass_without_self(near, measure), measure)
        return K, reference, K.nnz / n

    def _through(
        self, geometry: Decay, rows: Source, measure: Array, runner: Threads
    ) -> tuple[csr_array, Reference, float]:
        """Return K' diag(m / K 1) K over the rows, the reference of their support, and the mean entries in a row."""
        look = LandmarkWalk(geometry, every := 1 + len(rows) // SAMPLED_ROWS)
        block = block_rows(geometry.row_entries)
        passed = rows.reduce(look, WalkSums.join, measure=measure, runner=runner, title="landmarks", block=block)
        reference = Reference.of(passed.log_mass, measure[::every])
        return passed.table, reference, passed.entries / len(rows)

    def _place(self, operator: MarkovOperator, anchors: Anchors, needed: int, runner: Threads) -> Placement:
        """Diffuse, compute potentials, and lay the anchors out by scaling of the distances between potentials."""
        entries = operator.entries
        assert not isinstance(entries, np.ndarray)
        S, root, measure = entries.toarray(), np.sqrt(operator.stationary), operator.measure
        t = self.t or spectrum.entropy_time(np.sort(np.abs(eigvalsh(S)))[::-1], trivial=False)
        S *= root / root[:, None]  # P
        delta = potential_distances(S, t, self.gamma, measure)
        if self.classical:
            places = _smacof.along_axes(_smacof.classical(delta, needed, measure), measure)
            placed = Layout(places, _smacof.stress(delta, places, measure), 0)
        else:
            placed = _smacof.metric(delta, needed, measure, runner)
        signs = orient(placed.places, measure / measure.sum(), anchors.points)
        return Placement(t, replace(placed, places=placed.places * signs))

    def cost(self, case: Case) -> Cost:
        m = case.anchors
        table = 8.0 * m * m
        stages = [
            Stage("kernel", 3 * 8.0 * case.cores * max(m * 16, 1 << 20) + 400.0 * m, self._kernel_seconds(case)),
            Stage("potential", TABLES_HELD * table, 20.0 * m**3 / FLOPS / case.cores),
            Stage("scaling", 3 * table, 200 * m * m * ENTRY / case.cores),
        ]
        return Cost(self.describe(), "dense" if m <= DENSE_SOLVER_UP_TO else "lanczos", stages)

    def extension_seconds(self, case: Case, edges: str) -> float:
        return self._kernel_seconds(case)

    @staticmethod
    def _kernel_seconds(case: Case) -> float:
        return case.rows * case.anchors * (2 * ENTRY + case.features * 1e-9) / case.cores

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        if report.components == 1:
            return []
        text = (
            f"The graph falls into {problem.operator.parts.describe()}: how far they lie apart is read off the floor "
            f"of {PROBABILITY_FLOOR:g} under the logarithm, not off the data. Raise n_neighbors (now "
            f"{self.neighbours}) or lower decay (now {self.decay:g})"
        )
        if self.given and isinstance(problem.anchors.points, SparseRows):
            text += (
                ", store more neighbours of each node, or fit the rows and columns of the largest component, which "
                "scipy.sparse.csgraph.connected_components(graph, directed=False) labels"
            )
        text += "."
        return [Concern(Importance.PIECES, text)]


def check_tables(n: int) -> None:
    """Raise MemoryError if tables (n, n) do not fit in memory."""
    instead = "Solve on some of the points: landmarks='auto' takes 2000."
    check_fits(TABLES_HELD * 8.0 * n * n, f"Potentials of n = {n} anchors need", instead)


def potentials(P: Array, t: int, gamma: float, measure: Array) -> Array:
    """U = -log(P^t / m + floor) for gamma = 1, else 2 / (1 - gamma) (P^t / m)^((1 - gamma) / 2).

    >>> potentials(np.array([[0.5, 0.5], [0.25, 0.75]]), 1, 0.0, np.ones(2)).round(3).tolist()
    [[1.414, 1.414], [1.0, 1.732]]
    """
    reached = np.linalg.matrix_power(P, t) / measure
    if gamma == 1:
        return -np.log(reached + PROBABILITY_FLOOR)
    return 2 / (1 - gamma) * reached ** ((1 - gamma) / 2)


def potential_distances(P: Array, t: int, gamma: float, measure: Array) -> Array:
    """delta_ij = (sum_l m_l (U_il - U_jl)^2)^(1/2), by a matrix product after centring U."""
    U = potentials(P, t, gamma, measure)
    U -= measure @ U / measure.sum()
    U *= np.sqrt(measure)
    squared = U @ U.T
    sizes = squared.diagonal().copy()
    squared *= -2
    squared += sizes
    squared += sizes[:, None]
    np.fill_diagonal(squared, 0.0)
    result: Array = np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared)
    return result


def _join(parts: list[Seen]) -> Seen:
    """Return the blocks of rows stacked into one."""
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    starts = np.append(0, np.cumsum([len(part.ptr) - 1 for part in parts]))
    index, log_weight, squared = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("index", "log_weight", "squared")
    )
    beyond = np.concatenate([part.beyond + start for part, start in zip(parts, starts)])
    ptr = np.append(0, np.cumsum(counts))
    return Seen(ptr=ptr, index=index, log_weight=log_weight, squared=squared, beyond=beyond)
