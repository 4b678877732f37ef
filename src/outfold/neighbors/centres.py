"""The centres of cells: k-means, and the nearest centres of any row.

Products in single precision select, about the middle of the centres and in units of their spread, so that neither a
shift nor a scale of the data matters. With B = 4 (features + 8) eps, a product is off by at most B (|x|^2 + |c|^2).
Where that leaves open which centres are the nearest, the distances of those that may be are computed in double
precision. So a row has the same centres alone and in any batch, up to ties in double precision.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..distances import Distances

ROWS_PER_CELL, LLOYD_ROUNDS = 16, 4  # of k-means: rows of its sample for each cell, and iterations
FAR = 1e14  # in units of the spread: what is farther has squares that single precision cannot hold beside others
EPS = float(np.finfo(np.float32).eps)


def rounding(features: int) -> float:
    """Return B, see above."""
    return 4 * (features + 8) * EPS


class Centres:
    """The centres of cells, and a search for those nearest to a row."""

    def __init__(self, centres: Array) -> None:
        self.centres, self.exactly = centres, Distances(centres)
        self.middle: Array = np.median(centres, axis=0)
        lengths = np.linalg.norm(centres - self.middle, axis=1)
        spread = float(np.median(lengths)) or float(lengths.max()) or 1.0
        self.unit = float(np.exp2(np.floor(np.log2(spread))))  # a power of two: scaling does not round
        self.single = np.ascontiguousarray(self.place(centres, self.middle).T)
        self.norms = np.einsum("ij,ij->j", self.single, self.single)

    def place(self, points: Array, about: Array) -> Array:
        """Return the points about a point, in units of the spread and in single precision; far ones are clipped."""
        moved = points - about
        moved /= self.unit
        return np.clip(moved, -10 * FAR, 10 * FAR, out=moved).astype(np.float32)

    def nearest(self, points: Array, count: int, runner: Threads) -> Array:
        """Return the ``count`` nearest centres of each point, about nearest first; of equally near ones the first."""
        B, out = rounding(points.shape[1]), np.empty((len(points), count), np.int32)
        low_norms = self.norms * np.float32(1 - B)

        def look(block: slice) -> None:
            moved = self.place(points[block], self.middle)
            own = np.einsum("ij,ij->i", moved, moved, dtype=float)
            moved *= -2
            table = moved @ self.single
            table += low_norms  # now a lower bound of |x - c|^2 - |x|^2, but for B |x|^2
            out[block] = best = _smallest(table, count)
            upper = (np.take_along_axis(table, best, axis=1) + 2 * B * self.norms[best]).max(axis=1)
            limit = upper + 2 * B * own
            everything = (limit > FAR**2) | (own > FAR**2)
            unsure = np.flatnonzero(((table <= limit[:, None]).sum(axis=1) > count) | everything)
            if len(unsure):
                maybe = (table[unsure] <= limit[unsure, None]) | everything[unsure, None]
                out[block][unsure] = self._nearest_of(points[block][unsure], maybe, count)

        runner.run(look, row_blocks(len(points), 4 * len(self.centres)))
        return out

    def _nearest_of(self, points: Array, maybe: Array, count: int) -> Array:
        """Return the ``count`` nearest of those centres that are marked, in double precision."""
        row, centre = np.nonzero(maybe)
        ptr = np.append(0, np.cumsum(np.bincount(row, minlength=len(points))))
        order = np.lexsort((centre, self.exactly.of_pairs(points, ptr, centre, Threads(1)), row))
        nearest: Array = centre[order][ptr[:-1, None] + np.arange(count)]
        return nearest


def _smallest(table: Array, count: int) -> Array:
    """Return the columns of the ``count`` smallest entries of each row, in increasing order of the entries."""
    if count == 1:
        least: Array = table.argmin(axis=1)[:, None]
        return least
    some = np.arange(table.shape[1])[None] if count == table.shape[1] else np.argpartition(table, count - 1)[:, :count]
    order = np.argsort(np.take_along_axis(table, some, axis=1), axis=1)
    smallest: Array = np.take_along_axis(np.broadcast_to(some, (len(table), count)), order, axis=1)
    return smallest


def find_means(points: Array, count: int, runner: Threads) -> Array:
    """Return the centres of k-means on an even sample of the points, by a few rounds of Lloyd's algorithm.

    scikit-learn's k-means sums in an order that depends on its threads; the cells must not.
    """
    random = np.random.default_rng(0)
    some = np.sort(random.permutation(len(points))[: ROWS_PER_CELL * count])
    sample = np.ascontiguousarray(points[some], dtype=float)
    centres = sample[np.sort(random.permutation(len(sample))[:count])]
    for _ in range(LLOYD_ROUNDS):
        cell = Centres(centres).nearest(sample, 1, runner)[:, 0]
        sizes = np.bincount(cell, minlength=len(centres))
        sums = csr_array((np.ones(len(sample)), (cell, np.arange(len(sample)))), shape=(len(centres), len(sample)))
        held = sizes > 0
        centres[held] = (sums @ sample)[held] / sizes[held, None]
    return np.unique(centres, axis=0)
