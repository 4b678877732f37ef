"""Pivoted Cholesky factorisation of a Gaussian kernel: which rows explain all others, and how much is left.

    A = W(pivots, pivots) = R'R,   F(x) = w(x, pivots) R^-1,   left(x) = w(x, x) - |F(x)|^2 >= 0

The remainder is the mean of ``left``: the trace of W - F F' over n. As W - F F' is positive semidefinite, an entry is
off by at most sqrt(left(x) left(y)). Rows are read in blocks, so memory does not grow with rows times pivots.

Pivots are chosen in rounds, as in block variants of randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2023).
A round takes candidates by their share of ``left`` and selects among them greedily, the largest ``left`` first.
Candidates lie at even steps of the sum of ``left`` along a fixed direction. So pivots depend on the set of points
alone: not on the order of rows, on copies, on weights or on a seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..distances import Distances
from ..graphs.pair_statistics import even_sample, line_order
from ..graphs.protocols import FittedKernel

REMAINDER = 1e-9  # target; also the least ``left`` of a pivot, so that R can be inverted
CANDIDATES = 1000  # in a round
ROUNDS = 50  # most rounds; three or four suffice if the kernel is of low rank


@dataclass(frozen=True, kw_only=True)
class Pivots:
    """The rows that were chosen, and the remainder they leave."""

    rows: Array
    remainder: float

    @property
    def suffice(self) -> bool:
        return self.remainder <= REMAINDER


NO_PIVOTS = Pivots(rows=np.empty(0, dtype=int), remainder=1.0)


@dataclass(frozen=True, kw_only=True)
class PivotedCholesky:
    """The choice of pivots among distinct points."""

    distances: Distances  # to all points
    kernel: FittedKernel  # w(x, x) = 1
    runner: Threads

    def sample(self, rows: int, most: int) -> Pivots:
        """Return at most ``most`` pivots of an even sample of ``rows`` points."""
        points = self.distances.anchors
        chosen = even_sample(points, rows)
        return self._choose(chosen[line_order(points[chosen])], NO_PIVOTS, most)

    def extend(self, start: Pivots, most: int) -> Pivots:
        """Return ``start`` with further pivots, at most ``most``, until they suffice for all points."""
        return self._choose(line_order(self.distances.anchors), start, most)

    def _choose(self, among: Array, start: Pivots, most: int) -> Pivots:
        pivots = start.rows
        for _ in range(ROUNDS):
            factor = self._factor(pivots)
            left = self._rest(among, pivots, factor)
            remainder = float(left.mean())
            if remainder <= REMAINDER or len(pivots) >= most:
                break
            more = self._best(among[_shares(left, CANDIDATES)], pivots, factor)
            if not len(more):
                break
            pivots = np.append(pivots, more[: most - len(pivots)])
        return Pivots(rows=pivots, remainder=remainder)

    def _affinities(self, rows: Array, columns: Array) -> Array:
        points = self.distances.anchors
        return self.kernel.affinity(self.distances.to(points[columns]).cross(points[rows]))

    def _factor(self, pivots: Array) -> Array:
        """Return R."""
        factor: Array = cholesky(self._affinities(pivots, pivots)) if len(pivots) else np.empty((0, 0))
        return factor

    def _coefficients(self, rows: Array, pivots: Array, factor: Array) -> Array:
        """Return F' of the rows, (pivots, rows)."""
        table = self._affinities(rows, pivots)
        explained: Array = solve_triangular(factor, table.T, trans="T", overwrite_b=True, check_finite=False)
        return explained

    def _rest(self, rows: Array, pivots: Array, factor: Array) -> Array:
        """Return ``left`` of the rows."""
        left = np.ones(len(rows))
        if not len(pivots):
            return left

        def look(block: slice) -> None:
            left[block] -= np.square(self._coefficients(rows[block], pivots, factor)).sum(axis=0)

        self.runner.each(look, row_blocks(len(rows), 2 * len(pivots)), "pivots")
        return left.clip(min=0.0)

    def _best(self, candidates: Array, pivots: Array, factor: Array) -> Array:
        """Return candidates in the order of greedy pivoting, until none has more than ``REMAINDER`` left."""
        table = self._affinities(candidates, candidates)
        if len(pivots):
            explained = self._coefficients(candidates, pivots, factor)
            table -= explained.T @ explained
        _, order, rank, _ = dpstrf(table, tol=REMAINDER)
        best: Array = candidates[order[:rank] - 1]
        return best


def _shares(left: Array, count: int) -> Array:
    """Return at most ``count`` positions at even steps of the sum of ``left``, and the largest."""
    summed = np.cumsum(left)
    steps = (np.arange(count) + 0.5) / count * summed[-1]
    chosen = np.searchsorted(summed, steps).clip(max=len(left) - 1)
    shares: Array = np.unique(np.append(chosen, left.argmax()))
    return shares
