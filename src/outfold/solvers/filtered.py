"""Subspace iteration with a Chebyshev filter, for large sparse graphs (Zhou, Saad, Tiago and Chelikowsky, 2006).

A block of vectors is multiplied by a polynomial of S that is small on the unwanted part of the spectrum, [low, cut],
and grows above it. Ritz pairs of the block follow, and a better cut: the last Ritz value of the block. The block is
wider than the number of wanted pairs, so it holds whole groups of eigenvalues near the top, such as those of clusters
that are nearly separate. Lanczos would have to resolve each of them before it converges.

The products of a polynomial are computed in single precision, which takes half the time, and cost no accuracy: for a
Ritz pair (theta, v) with residual r = S v - theta v,

    p(S) v = p(theta) v + q(S) r,    q(x) = (p(x) - p(theta)) / (x - theta)

Only the correction q(S) r is rounded, relative to its own size, which shrinks with the residual. Residuals and Ritz
pairs are computed in double precision, once for each polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import linalg

from .._loops import csr
from .._runtime.threads import blas_threads, row_blocks
from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import BLOCK_WIDTH, Operator
from .session import Session, Solver

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

    @cached_property
    def _single(self) -> SinglePrecision:
        return SinglePrecision(self.operator)

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        operator = self.operator
        width = min(max(BLOCK_WIDTH, 2 * count), operator.size - known.shape[1])
        if rough is not None and self.spare is not None and self.spare.shape[1] > count:
            width = min(width, self.spare.shape[1])
        blocks = _Blocks(operator, known, self._single, width)
        left, cut = self.max_products, self.low + 0.9 * (operator.top - self.low)
        with operator.runner.ticker("solving", " products") as bar, blas_threads(1):
            have = self._first_block(blocks, width)
            values, sizes = blocks.ritz()
            if have < width:
                blocks.filter(self.low, cut, FIRST_DEGREE)
                values, sizes = blocks.ritz()
            while True:
                distance = np.maximum(operator.top - values[:count], 1e-12 * operator.spread)
                excess = float((sizes[:count] / distance / self._goal(distance, rough)).max())
                if excess <= 1:
                    break
                cut = max(cut if left < self.max_products else self.low, float(values[-1]))
                degree = self._degree(cut, blocks, values, count, excess, left)
                blocks.filter(self.low, cut, degree)
                values, sizes = blocks.ritz()
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
    """The block of vectors and its image, and room for the polynomial: fresh memory costs as much as a product."""

    def __init__(self, operator: Operator, known: Array, single: SinglePrecision, width: int) -> None:
        self.operator, self.known, self.single = operator, known, single
        self.vectors, self.image = np.empty((2, operator.size, width))
        self.rest, self.now, self.other, self.between = np.empty((4, operator.size, width), np.float32)
        self.values = np.zeros(width)
        self.pieces = row_blocks(operator.size, 8 * width)

    def filter(self, low: float, cut: float, degree: int) -> None:
        """Multiply the block by T_degree of S, mapped so that [low, cut] becomes [-1, 1], scaled to 1 at the top."""
        operator, unit = self.operator, self.single.unit
        middle, half = (cut + low) / 2, max((cut - low) / 2, 1e-12 * operator.spread)
        scale = first = half / (operator.top - middle)
        places = (self.values - middle) / half
        before, share = np.ones(len(places)), scale * places  # of v in T_k(S) v; now and other hold the rest of it
        self.other[:] = 0.0
        operator.runner.run(partial(self._begin, scale * unit / half), self.pieces)
        for _ in range(1, degree):
            following = 1 / (2 / first - scale)
            gain, keep = 2 * following, -scale * following
            step = (gain * unit / half, gain * middle / half, keep)
            self.single.recur(self.now, self.between, self.rest, step, gain * unit / half * share, self.other)
            before, share = share, gain * places * share + keep * before
            self.now, self.other, scale = self.other, self.now, following
        operator.runner.run(partial(self._end, share), self.pieces)

    def _begin(self, scale: float, at: slice) -> None:
        np.multiply(self.rest[at], np.float32(scale), out=self.now[at])

    def _end(self, share: Array, at: slice) -> None:
        self.vectors[at] *= share
        self.vectors[at] += self.now[at]

    def ritz(self) -> tuple[Array, Array]:
        """Turn the block into Ritz vectors orthogonal to ``known``; return their values and the sizes of residuals."""
        shares, width = self._sum(self._known_products), self.vectors.shape[1]
        self.operator.runner.run(partial(self._deflate, shares), self.pieces)
        self.operator.matmat(self.vectors, self.image)
        products = self._sum(self._own_products)
        white = _whiten(products[:, :width])
        table = white.T @ products[:, width:] @ white
        values, turn = linalg.eigh((table + table.T) / 2)
        self.values = values[::-1].copy()
        squares = self._sum(partial(self._turn, white @ turn[:, ::-1]))
        return self.values, np.sqrt(squares)

    def _sum(self, product: Callable[[slice], Array]) -> Array:
        """Return the sum of ``product(piece)`` over pieces of rows, in their order."""
        parts: dict[int, Array] = {}

        def look(at: slice) -> None:
            parts[at.start] = product(at)

        self.operator.runner.run(look, self.pieces)
        total: Array = np.sum([parts[at.start] for at in self.pieces], axis=0)
        return total

    def _known_products(self, at: slice) -> Array:
        products: Array = self.known[at].T @ self.vectors[at]
        return products

    def _deflate(self, shares: Array, at: slice) -> None:
        self.vectors[at] -= self.known[at] @ shares

    def _own_products(self, at: slice) -> Array:
        products: Array = self.vectors[at].T @ np.hstack([self.vectors[at], self.image[at]])
        return products

    def _turn(self, by: Array, at: slice) -> Array:
        """Multiply the block and its image by ``by``, write the residuals; return their squared lengths, (width,)."""
        self.vectors[at] = self.vectors[at] @ by
        self.image[at] = self.image[at] @ by
        rest = self.image[at] - self.vectors[at] * self.values
        self.rest[at] = rest / self.single.unit
        squares: Array = np.einsum("ij,ij->j", rest, rest)
        return squares


class SinglePrecision:
    """Products with S / unit in single precision, in whose range every entry is; dense S in its own precision."""

    def __init__(self, operator: Operator) -> None:
        self.operator, factors = operator, operator.factors()
        self.unit = max(abs(operator.top), operator.spread)
        each = self.unit ** (1 / max(1, len(factors)))
        self.factors = [(M.indptr, M.indices, (M.data / each).astype(np.float32)) for M in factors]

    def recur(
        self, now: Array, between: Array, rest: Array, step: tuple[float, float, float], add: Array, out: Array
    ) -> None:
        """out = gain S / unit now - shift now + keep out + add rest, with (gain, shift, keep) = ``step``.

        ``between`` is room for a block.
        """
        coefficients, add = np.array(step, np.float32), add.astype(np.float32)
        pieces, run = row_blocks(len(now), 16 * now.shape[1]), self.operator.runner.run
        if not self.factors:
            gain, shift, keep = coefficients
            out *= keep
            out += gain * (self.operator.matmat(now.astype(float)) / self.unit) - shift * now + add * rest
            return
        self.operator.products.count += now.shape[1]
        onto, (indptr, indices, data) = now, self.factors[-1]
        if len(self.factors) == 2:
            first = self.factors[0]
            run(lambda at: csr.times_block(*first, now, between, at.start, at.stop), pieces)
            onto = between
        run(
            lambda at: csr.recur(indptr, indices, data, onto, now, rest, coefficients, add, out, at.start, at.stop),
            pieces,
        )


def _whiten(products: Array) -> Array:
    """Return T with T' products T = 1; directions of rounding size stay as they are small."""
    lengths = np.sqrt(np.maximum(products.diagonal(), np.finfo(float).tiny))
    sizes, turn = linalg.eigh(products / lengths / lengths[:, None])
    white: Array = turn / np.sqrt(np.maximum(sizes, 1e-14 * sizes[-1])) / lengths[:, None]
    return white
