"""The Lanczos method, with a Chebyshev filter for large sparse operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr
from .._runtime.threads import blas_threads, row_blocks
from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import Operator
from ._two_grid import highest
from .session import Session, Solver, arpack_pairs, ritz_pairs, starting_block

FILTERED_FROM = 20_000  # sparse matrices with more rows are filtered by a Chebyshev polynomial
FILTER_RESTARTS = 20  # 3 to 5 suffice if all wanted eigenvalues are above the filter's cut; else it may never converge


@dataclass(frozen=True)
class Lanczos(Solver):
    """Implicitly restarted Lanczos (ARPACK) on the deflated operator. ``tol=0`` is machine precision.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Lanczos(tol=1e-10)).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-6)
    ('lanczos', True)
    """

    tol: float = 0.0
    max_iterations: int | None = None

    def start(self, operator: Operator) -> Session:
        return _LanczosSession(operator, self.tol, self.max_iterations)


@dataclass(frozen=True)
class _LanczosSession:
    operator: Operator
    tol: float
    max_iterations: int | None

    @cached_property
    def filter(self) -> _Filter | None:
        """Return the filter for a large sparse matrix, else None.

        There, orthogonalising the Krylov basis costs more than the products with the matrix.
        """
        operator = self.operator
        if not operator.sparse or not operator.filterable or operator.size <= FILTERED_FROM:
            return None
        return _Filter.of(operator)

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n, spread = self.operator.size, self.operator.spread
        if self.filter is not None:
            found = self.filter.top(known, count, max(self.tol, 1e-10) if rough is None else 1e-2, self.max_iterations)
            if found is not None:
                return found
        tol = self.tol if rough is None else rough / max(abs(self.operator.top), spread / 2)
        with self.operator.runner.ticker("solving", " products") as bar:

            def product(v: Array) -> Array:
                bar.update()
                v = v.reshape(n, -1)
                image: Array = self.operator.matmat(v) - spread * (known @ (known.T @ v))
                return image

            return arpack_pairs(
                product, known, count, tol, self.max_iterations, guess=starting_block(self.operator, known)
            )


@dataclass(frozen=True)
class _Filter:
    """Lanczos on T_m(S), the Chebyshev polynomial that is small up to ``cut`` and grows above it.

    Its Krylov basis is m times shorter than that of S, for about the same number of products with S.
    """

    operator: Operator
    low: float  # lower bound on the spectrum of S
    cut: float
    degree: int

    @classmethod
    def of(cls, operator: Operator) -> _Filter | None:
        low = operator.top - highest(operator, np.ones((operator.size, 1)))
        cut = operator.top - 4 * operator.crowding()
        if cut <= (low + operator.top) / 2:
            return None
        rate = np.arccosh(1 + 2 * (operator.top - cut) / (cut - low))  # T_m grows by exp(rate) at the top per degree
        return cls(operator, low, cut, int(np.clip(round(2.5 / rate), 1, 12)))

    def top(self, known: Array, count: int, tol: float, most: int | None) -> tuple[Array, Array] | None:
        """Return the pairs; None if one is below ``cut``, where the filter does not preserve the order of eigenvalues.

        Such a pair is lost among others of the same size, so that Lanczos rarely converges: it gives up early.
        """
        most = FILTER_RESTARTS if most is None else min(most, FILTER_RESTARTS)
        with blas_threads(1), self.operator.runner.ticker("solving", " polynomials") as bar:

            def product(v: Array) -> Array:
                bar.update()
                v = v.ravel()
                v = self._polynomial(v - known @ (known.T @ v))
                rest: Array = v - known @ (known.T @ v)
                return rest

            guess = starting_block(self.operator, known)
            try:
                vectors = arpack_pairs(product, known, count, tol, most, extra=10, guess=guess)[1]
            except ConvergenceError:
                return None
            found = ritz_pairs(self.operator, vectors)
        return found if found[0].min() > self.cut else None

    def _polynomial(self, v: Array) -> Array:
        S, middle, half = self.operator.matrix, (self.cut + self.low) / 2, (self.cut - self.low) / 2
        if self.operator.square_root is not None:
            return self._through_root(v, middle, half)
        blocks = row_blocks(len(v), 16)
        before, now = v, v
        for k in range(self.degree):
            scale, minus, out = (1 if k == 0 else 2) / half, float(k > 0), np.empty(len(v))
            self.operator.runner.run(_three_terms(S, now, before, scale, middle, minus, out), blocks)
            before, now = now, out
        return now

    def _through_root(self, v: Array, middle: float, half: float) -> Array:
        before, now = np.zeros(len(v)), v
        for k in range(self.degree):
            image = self.operator.matmat(now[:, None])[:, 0]
            before, now = now, (1 if k == 0 else 2) / half * (image - middle * now) - (k > 0) * before
        return now


def _three_terms(
    S: csr_array, now: Array, before: Array, scale: float, middle: float, minus: float, out: Array
) -> Callable[[slice], None]:
    """Return a function that fills a block of ``out`` with scale (S - middle) now - minus before."""

    def fill(block: slice) -> None:
        csr.three_terms(S.indptr, S.indices, S.data, now, before, scale, middle, minus, out, block.start, block.stop)

    return fill
