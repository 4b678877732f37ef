"""Block Krylov iteration, for large dense matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import Operator
from .session import Session, Solver, orthogonal_to


@dataclass(frozen=True)
class Krylov(Solver):
    """Rayleigh-Ritz on a block Krylov space: few products with many columns, for large dense matrices.

    The block is wider than the count, so no copy of a multiple eigenvalue is missed. Stops when every residual
    is below ``tol`` times the largest eigenvalue.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Krylov()).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-8)
    ('krylov', True)
    """

    tol: float = 1e-13
    max_columns: int = 200
    max_products: int = 300

    @property
    def complete(self) -> bool:
        return True

    def start(self, operator: Operator) -> Session:
        return _KrylovSession(operator, self.tol, self.max_columns, self.max_products)


@dataclass(frozen=True)
class _KrylovSession:
    operator: Operator
    tol: float
    max_columns: int
    max_products: int

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n, width = self.operator.size, max(8, count + 3)
        most = min(self.max_columns + 2 * width, n - known.shape[1])
        basis, images = (np.empty((n, most), order="F") for _ in range(2))
        form = np.zeros((most, most))
        fresh, size = orthogonal_to(np.random.default_rng(n).standard_normal((n, width)), known), 0
        with self.operator.runner.ticker("solving", " products") as bar:
            for _ in range(self.max_products):
                bar.update()
                new = slice(size, size + fresh.shape[1])
                size = new.stop
                basis[:, new] = fresh
                images[:, new] = self.operator.matmat(fresh)
                form[:size, new] = basis[:, :size].T @ images[:, new]
                values, turn = linalg.eigh(form[:size, :size], lower=False)
                values, best = values[::-1][:count], turn[:, ::-1][:, :count]
                rest = images[:, :size] @ best - (basis[:, :size] @ best) * values
                rest -= known @ (known.T @ rest)
                if np.linalg.norm(rest, axis=0).max() <= self.tol * np.abs(values).max():
                    return values, basis[:, :size] @ best
                fresh = images[:, new].copy()
                if size + width > most:  # the basis is full: restart from its best Ritz vectors
                    kept = turn[:, ::-1][:, : count + width]
                    basis[:, : kept.shape[1]], images[:, : kept.shape[1]] = (
                        basis[:, :size] @ kept,
                        images[:, :size] @ kept,
                    )
                    size, fresh = kept.shape[1], rest
                    form[:size, :size] = basis[:, :size].T @ images[:, :size]
                fresh = orthogonal_to(fresh[:, : most - size], np.hstack([known, basis[:, :size]]))
        raise ConvergenceError(
            f"Block Krylov left a residual of {np.linalg.norm(rest, axis=0).max():.1e} after {self.max_products} "
            f"products for {count} pairs of a {n} x {n} operator.",
            (values, basis[:, :size] @ best),
        )
