"""Subspace iteration with a Chebyshev filter, for large sparse graphs (Zhou, Saad, Tiago and Chelikowsky, 2006).

A block of vectors is multiplied by a polynomial of S that is small on the unwanted part of the spectrum, [low, cut],
and grows above it. Ritz pairs of the block follow, and a better cut: the last Ritz value of the block. The block is
wider than the number of wanted pairs, so it holds whole groups of eigenvalues near the top, such as those of clusters
that are nearly separate. Lanczos would have to resolve each of them before it converges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from .._runtime.threads import row_blocks
from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import Operator
from .session import Session, Solver

LEAST_WIDTH = 24  # of the block
GROWTH = 6.0  # log of the growth of the first pair against the last of the block in a round
DEGREES = (4, 32)  # of the polynomial
FIRST_DEGREE = 12  # of the polynomial that a random block is multiplied by
BOUND_STEPS = 12  # Lanczos steps for the lower bound of the spectrum
SEEN_PRODUCTS = 30  # after which the pace tells whether the rest will do
ROUGH = 2e-2  # relative residual that suffices to see whether a pair was missed
RELATIVE_RESIDUALS = (5e-4, 8e-4)  # relative residuals for which the absolute one, ``RESIDUAL``, need not be reached
RESIDUAL = 8e-9  # absolute: the difference between transform and embedding


@dataclass(frozen=True)
class Filtered(Solver):
    """Chebyshev-filtered subspace iteration.

    It stops when every residual is below ``tol`` times the distance of its eigenvalue from the top. None: 8e-9, but at
    least 5e-4 and at most 8e-4 of that distance.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Filtered(tol=1e-5)).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-4)
    ('filtered', True)
    """

    tol: float | None = None
    max_products: int = 250  # with the block

    def start(self, operator: Operator) -> Session:
        return _FilteredSession(operator, self.tol, self.max_products)


@dataclass
class _FilteredSession:
    operator: Operator
    tol: float | None
    max_products: int
    spare: Array | None = None  # vectors of an earlier call that were not returned

    @cached_property
    def low(self) -> float:
        """A lower bound of the spectrum: eigenvalues below it would grow as those near the top do.

        The least Ritz value of a few Lanczos steps, less the length of the last residual (Zhou and Li, 2011).
        """
        operator = self.operator
        now = np.random.default_rng(0).standard_normal(operator.size)
        now /= np.linalg.norm(now)
        before, off = np.zeros(operator.size), 0.0
        diagonal, offs = [], []
        for _ in range(min(BOUND_STEPS, operator.size)):
            image = operator.matmat(now[:, None])[:, 0] - off * before
            diagonal.append(float(image @ now))
            image -= diagonal[-1] * now
            off = float(np.linalg.norm(image))
            offs.append(off)
            if off <= 1e-12 * operator.spread:
                break
            before, now = now, image / off
        least = float(linalg.eigh_tridiagonal(diagonal, offs[: len(diagonal) - 1], eigvals_only=True)[0]) - offs[-1]
        return max(least, operator.top - operator.spread)

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        operator = self.operator
        width = min(max(LEAST_WIDTH, 2 * count), operator.size - known.shape[1])
        if rough is not None and self.spare is not None and self.spare.shape[1] > count:
            width = min(width, self.spare.shape[1])
        blocks = _Blocks(operator, known, np.empty((3, operator.size, width)))
        left, cut = self.max_products, self.low + 0.9 * (operator.top - self.low)
        with operator.runner.ticker("solving", " products") as bar, operator.runner.blas():
            have = self._first_block(blocks, width)
            if have < width:
                blocks.filter(self.low, cut, FIRST_DEGREE)
            while True:
                values, sizes = blocks.ritz()
                distance = np.maximum(operator.top - values[:count], 1e-12 * operator.spread)
                excess = float((sizes[:count] / distance / self._goal(distance, rough)).max())
                if excess <= 1:
                    break
                cut = max(cut if left < self.max_products else self.low, float(values[-1]))
                degree = self._degree(cut, blocks, values, count, excess, left)
                blocks.filter(self.low, cut, degree)
                left -= degree + 1
                bar.update(degree + 1)
        self.spare = blocks.vectors[:, count:]
        return values[:count], blocks.vectors[:, :count].copy()

    def _goal(self, distance: Array, rough: float | None) -> Array | float:
        """Return the relative residual of each pair at which the iteration stops."""
        if rough is not None:
            return ROUGH
        return np.clip(RESIDUAL / distance, *RELATIVE_RESIDUALS) if self.tol is None else self.tol

    def _first_block(self, blocks: _Blocks, width: int) -> int:
        """Fill the block with vectors of an earlier call and random ones; return how many are earlier ones."""
        have = 0 if self.spare is None else min(self.spare.shape[1], width)
        if self.spare is not None:
            blocks.vectors[:, :have] = self.spare[:, :have]
        blocks.vectors[:, have:] = np.random.default_rng(0).standard_normal((self.operator.size, width - have))
        self.spare = None
        return have

    def _degree(self, cut: float, blocks: _Blocks, values: Array, count: int, excess: float, left: int) -> int:
        """Return the degree of the next polynomial. Raise ConvergenceError if too many products would follow."""
        middle, half = (cut + self.low) / 2, max((cut - self.low) / 2, 1e-12 * self.operator.spread)
        pace = float(np.arccosh(max(1.0, (values[count - 1] - middle) / half)))
        growth = float(np.arccosh(max(1.0, (self.operator.top - middle) / half)))
        degree = int(np.clip(round(GROWTH / max(growth, 1e-9)), *DEGREES))
        degree = min(degree, max(DEGREES[0], int(np.ceil((np.log(excess) + 1) / max(pace, 1e-9)))))
        if left < degree or (left < self.max_products - SEEN_PRODUCTS and np.log(excess) > pace * left):
            raise ConvergenceError(
                f"Filtered subspace iteration is at {excess:.1g} times its tolerance for {count} pairs of a "
                f"{self.operator.size} x {self.operator.size} operator, with {left} products left.",
                (values[:count], blocks.vectors[:, :count].copy()),
            )
        return degree


class _Blocks:
    """The block of vectors, and two more for products: fresh memory costs as much as a product."""

    def __init__(self, operator: Operator, known: Array, room: Array) -> None:
        self.operator, self.known = operator, known
        self.vectors, self.image, self.other = room

    def filter(self, low: float, cut: float, degree: int) -> None:
        """Multiply the block by T_degree of S, mapped so that [low, cut] becomes [-1, 1], scaled to 1 at the top."""
        operator = self.operator
        middle, half = (cut + low) / 2, max((cut - low) / 2, 1e-12 * operator.spread)
        scale = first = half / (operator.top - middle)
        pieces = row_blocks(len(self.vectors), 4 * self.vectors.shape[1])
        for step in range(degree):
            operator.matmat(self.vectors, self.image)
            following = 1 / (2 / first - scale) if step else scale
            gain, keep = (2 if step else 1) * following / half, -scale * following if step else 0.0

            def advance(at: slice, gain: float = gain, keep: float = keep) -> None:
                now, out, image = self.vectors[at], self.other[at], self.image[at]
                if keep:
                    out *= keep
                else:
                    out[:] = 0.0
                image -= middle * now
                image *= gain
                out += image

            operator.runner.run(advance, pieces)
            self.vectors, self.other, scale = self.other, self.vectors, following

    def ritz(self) -> tuple[Array, Array]:
        """Turn the block into Ritz vectors orthogonal to ``known``; return their values and the sizes of residuals."""
        self.vectors -= self.known @ (self.known.T @ self.vectors)
        self.operator.matmat(self.vectors, self.image)
        white = _whiten(self.vectors.T @ self.vectors)
        table = white.T @ (self.vectors.T @ self.image) @ white
        values, turn = linalg.eigh((table + table.T) / 2)
        turn = white @ turn[:, ::-1]
        self._turn(turn)
        np.matmul(self.image, turn, out=self.other)
        self.image, self.other = self.other, self.image
        values = values[::-1]
        products = np.einsum("ij,ij->j", self.image, self.image)
        sizes = np.sqrt(np.maximum(products - np.square(values), 0.0))  # vectors have length 1
        near = sizes < 1e-6 * self.operator.spread  # the difference of squares has cancelled
        if near.any():
            rest = self.image[:, near] - self.vectors[:, near] * values[near]
            sizes[near] = np.linalg.norm(rest, axis=0)
        return values, sizes

    def _turn(self, by: Array) -> None:
        np.matmul(self.vectors, by, out=self.other)
        self.vectors, self.other = self.other, self.vectors


def _whiten(products: Array) -> Array:
    """Return T with T' products T = 1; directions of rounding size stay as they are small."""
    lengths = np.sqrt(np.maximum(products.diagonal(), np.finfo(float).tiny))
    sizes, turn = linalg.eigh(products / lengths / lengths[:, None])
    white: Array = turn / np.sqrt(np.maximum(sizes, 1e-14 * sizes[-1])) / lengths[:, None]
    return white
