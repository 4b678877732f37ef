"""Potential of heat diffusion (PHATE; Moon et al., 2019): distances between what diffusion from each anchor reaches.

    K(x, y) = 1/2 exp(-(d / sigma(x))^a) + 1/2 exp(-(d / sigma(y))^a),   sigma the distance to neighbour k
    A = K (every row is an anchor) or K' diag(m / K 1) K (from landmarks to the rows and back),   P = A m / d
    U = -log(P^t / m + floor), or 2 / (1 - gamma) (P^t / m)^((1 - gamma) / 2);   delta_ij^2 = sum_l m_l (U_il - U_jl)^2
    y by metric scaling of delta;   embedding(x) = sum_l p(x, l) y_l,   p(x, .) the row of K m, summing to 1

m is the measure of the anchors (landmarks: 1; the rows' own is in A). Every row, training or new, is placed by its own
row of K: its anchors' mean. Equal rows are one anchor of their joint measure, so sigma is never zero.

A row's own sigma is held below the largest of the anchors: one that is farther out tends to its nearest anchor.
Entries below ``CUT`` of the largest in their row are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.sparse import csr_array

from . import scaling, selection
from ._problem import Problem
from ._signs import orient
from .distances import Distances
from .graphs import unit_floor
from .landmarks import Anchors
from .normalizations import Markov, Operator, Rows, lonely_mass
from .runners import Threads, block_rows, check_fits, row_blocks
from .scaling import Placed
from .sources import Elsewhere, Source
from .surveys import table_kth
from .trust import LOG_FLOOR, SAMPLED_ROWS, Reference

Array = NDArray[Any]

TINY = np.finfo(float).tiny
CUT = 1e-4  # of the largest weight in a row: what is less is none
FLOOR = 1e-7  # of a probability, before the logarithm
TABLES = 5  # of anchors times anchors, held at once
WIDE = 3  # passes over a block of distances


@dataclass(frozen=True)
class Seen:
    """What rows see of the anchors, as the parts of a CSR matrix."""

    ptr: Array
    index: Array
    log_weight: Array  # log K
    squared: Array  # distances
    beyond: Array  # rows for which powers of distances overflow: they see their nearest anchor

    def rows(self) -> Array:
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))


@dataclass(frozen=True)
class Decay:
    """The alpha-decaying kernel to the anchors."""

    distances: Distances
    neighbours: int
    decay: float
    units: Array  # sigma^2 of the anchors
    least: float  # of any sigma^2

    @classmethod
    def of(cls, distances: Distances, neighbours: int, decay: float, runner: Threads) -> Decay:
        """With sigma of the anchors from their distances to each other."""
        anchors = distances.anchors
        units, ones = np.empty(len(anchors)), np.ones(len(anchors))

        def look(block: slice) -> None:
            units[block] = table_kth(distances.cross(anchors[block]), ones, neighbours + 1)

        runner.each(look, row_blocks(len(anchors), WIDE * len(anchors)), "neighbours")
        least = unit_floor(np.sqrt(units)) ** 2  # of nearly equal points
        return cls(distances, neighbours, decay, np.maximum(units, least), least)

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return WIDE * len(self.units)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    def seen(self, Z: Array) -> Seen:
        """The anchors each row sees. A row sees at least one."""
        squared = self.distances.cross(Z)
        own = table_kth(squared, np.ones(len(self.units)), self.neighbours + 1)
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
        return _cut(Seen(ptr, index, log_weight, kept, beyond))


def _cut(seen: Seen) -> Seen:
    """Without what weighs less than ``CUT`` of the largest in its row."""
    top = np.maximum.reduceat(seen.log_weight, seen.ptr[:-1])
    rows = seen.rows()
    keep = seen.log_weight >= top[rows] + np.log(CUT)
    counts = np.bincount(rows[keep], minlength=len(top))
    ptr = np.append(0, np.cumsum(counts))
    return Seen(ptr, seen.index[keep], seen.log_weight[keep], seen.squared[keep], seen.beyond)


@dataclass(frozen=True)
class DecayRule:
    """p(x, l) = K(x, l) m_l / sum; the support is log sum_l m_l exp(-d^2 / (2 sigma_l^2)) over the anchors seen."""

    geometry: Decay
    measure: Array

    @property
    def row_entries(self) -> int:
        return self.geometry.row_entries

    def rows(self, Z: Array) -> Rows:
        seen = self.geometry.seen(Z)
        rows, start, weight = seen.rows(), seen.ptr[:-1], self.measure[seen.index]
        top = np.maximum.reduceat(seen.log_weight, start)
        values = weight * np.exp(seen.log_weight - top[rows])
        total = np.add.reduceat(values, start)
        log_degree = top + np.log(total)
        log_mass = log_support(seen, self.geometry.units, weight)
        log_degree[seen.beyond] = log_mass[seen.beyond] = -np.inf
        shape = len(Z), len(self.measure)
        return Rows(csr_array((values / total[rows], seen.index, seen.ptr), shape=shape), log_degree, log_mass)


def log_support(seen: Seen, units: Array, weight: Array) -> Array:
    """log sum_l m_l exp(-d^2 / (2 sigma_l^2)): weights that fall off with distance whatever a row's own sigma."""
    logs = -0.5 * seen.squared / units[seen.index]
    top = np.maximum.reduceat(logs, seen.ptr[:-1])
    return top + np.log(np.add.reduceat(weight * np.exp(logs - top[seen.rows()]), seen.ptr[:-1]))


@dataclass(frozen=True)
class Scaled:
    """Where scaling put the anchors, in the place of eigenfunctions; eigenvalues are those of P."""

    places: Array
    skip: ClassVar[int] = 1
    unit_columns: ClassVar[bool] = False

    def rule(self, operator: Operator, geometry: Decay, kernel: Any, eigenvalues: Array) -> DecayRule:
        return DecayRule(geometry, operator.measure)

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return self.places

    def scale(self, eigenvalues: Array) -> Array:
        return np.ones(len(eigenvalues))

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return kept

    def amplification(self, values: Array) -> float:
        return 1.0  # a row is a mean

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return float(np.abs(values[values < 0]).sum() / np.abs(values).sum())


@dataclass(frozen=True)
class Found:
    """What a fit found on its way to the places."""

    t: int
    placed: Placed


@dataclass(frozen=True)
class Passed:
    """What a walk over some rows found."""

    table: csr_array  # K' diag(m / K 1) K
    log_mass: Array  # of every so many-th row
    least: float  # of all of them
    entries: int

    def joined(self, later: Passed) -> Passed:
        return Passed(
            csr_array(self.table + later.table),
            np.append(self.log_mass, later.log_mass),
            min(self.least, later.least),
            self.entries + later.entries,
        )


@dataclass(frozen=True)
class Through:
    """How rows see the landmarks, and landmarks each other through them."""

    geometry: Decay
    every: int  # so many-th row tells its mass

    def __call__(self, points: Array, measure: Array, start: int) -> Passed:
        """Block by block, which is what a part of the rows may be too large for."""
        blocks = row_blocks(len(points), self.geometry.row_entries)
        return reduce(Passed.joined, (self.block(points[b], measure[b], start + b.start) for b in blocks))

    def block(self, points: Array, measure: Array, start: int) -> Passed:
        seen = self.geometry.seen(np.ascontiguousarray(points, dtype=float))
        K = csr_array((np.exp(seen.log_weight), seen.index, seen.ptr), shape=(len(points), len(self.geometry.units)))
        K.data *= np.sqrt(measure / np.maximum(K.sum(axis=1), TINY))[seen.rows()]  # out of reach: nothing
        log_mass = log_support(seen, self.geometry.units, np.ones(len(seen.index)))
        log_mass[seen.beyond] = LOG_FLOOR
        log_mass = np.maximum(log_mass, LOG_FLOOR)
        return Passed(csr_array(K.T @ K), log_mass[-start % self.every :: self.every], float(log_mass.min()), K.nnz)


@dataclass(frozen=True)
class HeatPotential:
    """The view of PHATE."""

    metric: Any
    neighbours: int
    decay: float
    t: int | None  # None: the knee of the entropy
    gamma: float
    classical: bool  # stop at classical scaling
    given: ClassVar[bool] = False
    merges_copies: ClassVar[bool] = True
    streams: ClassVar[bool] = True

    def told(self) -> str:
        return f"decay {self.decay:g} in units of neighbour {self.neighbours}"

    def pose(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> Problem:
        n = len(anchors.points)
        check_tables(n)
        if self.neighbours >= n:
            raise ValueError(
                f"n_neighbors={self.neighbours} must be smaller than the number of distinct points, {n}. Lower it"
                + ("." if n == len(measure) else ", or raise landmarks.")
            )
        geometry = Decay.of(self.metric.fit(anchors.points), self.neighbours, self.decay, runner)
        if holds_every_row(anchors, measure):
            A, reference, degree = self._among(geometry, anchors.measure, runner)
        else:
            A, reference, degree = self._through(geometry, rows, measure, runner)
            heard = np.flatnonzero(A.diagonal() > 0)
            if len(heard) < n:  # landmarks that no row sees
                return self.pose(rows, anchors.at(heard), measure, needed, runner)
            anchors = replace(anchors, measure=np.ones(n))
        operator = replace(Markov(alpha=0.0).fit(A, anchors.measure), runner=runner)
        found = self._placed(operator, anchors, needed, runner)
        return Problem(
            anchors,
            operator,
            Scaled(found.placed.places),
            geometry,
            None,
            reference,
            columns=None,
            edges=self.told(),
            degree=degree,
            gathered=found,
        )

    def _among(self, geometry: Decay, measure: Array, runner: Threads) -> tuple[csr_array, Reference, float]:
        """K between the anchors, what each sees beside itself, and entries a row."""
        points, n = geometry.anchors, len(measure)
        blocks = row_blocks(n, geometry.row_entries)
        seen = _joined(list(runner.map(lambda b: geometry.seen(points[b]), blocks, "kernel")))
        logs = -0.5 * seen.squared / geometry.units[seen.index]
        K, near = (csr_array((np.exp(v), seen.index, seen.ptr), (n, n)) for v in (seen.log_weight, logs))
        reference = Reference.of(lonely_mass(near, measure), np.log(near @ measure), measure)
        return K, reference, K.nnz / n

    def _through(
        self, geometry: Decay, rows: Source, measure: Array, runner: Threads
    ) -> tuple[csr_array, Reference, float]:
        """K' diag(m / K 1) K over the rows, what rows see of the landmarks, and entries a row."""
        look = Through(geometry, every := 1 + len(rows) // SAMPLED_ROWS)
        found: Iterator[Passed]
        if isinstance(rows, Elsewhere):
            found = (part for _, (part,) in rows.joined(look, Passed.joined, measure, runner, title="landmarks"))
        else:
            blocks = (
                (block, (points, measure[block], block.start))
                for block, points in rows.blocks(block_rows(geometry.row_entries))
            )
            found = runner.over(look.block, blocks, "landmarks", len(rows))
        passed = reduce(Passed.joined, found)
        reference = Reference.of(passed.log_mass, np.array([passed.least]), measure[::every])
        return passed.table, reference, passed.entries / len(rows)

    def _placed(self, operator: Operator, anchors: Anchors, needed: int, runner: Threads) -> Found:
        """Diffuse, take potentials, and scale the distances between them."""
        S, root, measure = operator.matrix.toarray(), np.sqrt(operator.stationary), operator.measure
        t = self.t or selection.entropy_time(np.sort(np.abs(eigvalsh(S)))[::-1], trivial=False)
        S *= root / root[:, None]  # P
        delta = potential_distances(S, t, self.gamma, measure)
        if self.classical:
            places = scaling.along_axes(scaling.classical(delta, needed, measure), measure)
            placed = Placed(places, scaling.stress(delta, places, measure), 0)
        else:
            placed = scaling.metric(delta, needed, measure, runner)
        signs = orient(placed.places, measure / measure.sum(), anchors.points)
        return Found(t, replace(placed, places=placed.places * signs))

    def concerns(self, report: Any, values: Array, problem: Problem) -> list[str]:
        """What a careful reader would say about this fit."""
        if report.components == 1:
            return []
        return [
            f"The graph falls into {problem.operator.parts.told()}: how far they lie apart is read off the floor of "
            f"{FLOOR:g} under the logarithm, not off the data. Raise n_neighbors (now {self.neighbours}) or lower "
            f"decay (now {self.decay:g})."
        ]


def holds_every_row(anchors: Anchors, measure: Array) -> bool:
    """Whether the anchors are the training rows, and not some of them."""
    return anchors.index is not None and bool(np.isclose(anchors.measure.sum(), measure.sum(), rtol=1e-9))


def check_tables(n: int) -> None:
    """Refuse tables of anchors times anchors that cannot fit."""
    instead = "Solve on some of the points: landmarks='auto' takes 2000."
    check_fits(TABLES * 8.0 * n * n, f"Potentials of n = {n} anchors need", instead)


def potentials(P: Array, t: int, gamma: float, measure: Array) -> Array:
    """U = -log(P^t / m + floor) for gamma = 1, else 2 / (1 - gamma) (P^t / m)^((1 - gamma) / 2).

    >>> potentials(np.array([[0.5, 0.5], [0.25, 0.75]]), 1, 0.0, np.ones(2)).round(3).tolist()
    [[1.414, 1.414], [1.0, 1.732]]
    """
    reached = np.linalg.matrix_power(P, t) / measure
    if gamma == 1:
        return -np.log(reached + FLOOR)
    return 2 / (1 - gamma) * reached ** ((1 - gamma) / 2)


def potential_distances(P: Array, t: int, gamma: float, measure: Array) -> Array:
    """delta_ij = (sum_l m_l (U_il - U_jl)^2)^(1/2), by a product about the mean row."""
    U = potentials(P, t, gamma, measure)
    U -= measure @ U / measure.sum()
    U *= np.sqrt(measure)
    squared = U @ U.T
    sizes = squared.diagonal().copy()
    squared *= -2
    squared += sizes
    squared += sizes[:, None]
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared)


def _joined(parts: list[Seen]) -> Seen:
    """Blocks of rows, one below the other."""
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    starts = np.append(0, np.cumsum([len(part.ptr) - 1 for part in parts]))
    index, log_weight, squared = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("index", "log_weight", "squared")
    )
    beyond = np.concatenate([part.beyond + start for part, start in zip(parts, starts)])
    return Seen(np.append(0, np.cumsum(counts)), index, log_weight, squared, beyond)
