"""LOBPCG with a two-grid preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._runtime.threads import blas_threads
from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import Operator
from ._two_grid import TwoGrid, smallest
from .session import Session, Solver, starting_block


@dataclass(frozen=True)
class Lobpcg(Solver):
    """Block LOBPCG preconditioned on two grids, for large sparse graphs with eigenvalues crowded near the top.

    It stops when every residual is below ``tol`` times the distance of its eigenvalue from the top.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Lobpcg(tol=1e-4)).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-3)
    ('lobpcg', True)
    """

    tol: float = 1e-5
    max_iterations: int = 60

    def start(self, operator: Operator) -> Session:
        if not operator.sparse:
            raise ValueError("solver='lobpcg' works on sparse graphs; pass n_neighbors, or solver='auto'.")
        return _LobpcgSession(operator, self.tol, self.max_iterations)


@dataclass
class _LobpcgSession:
    operator: Operator
    tol: float
    max_iterations: int
    grid: TwoGrid | None = None  # built in the first call

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n = self.operator.size
        width = min(-(-(count + max(3, count // 4)) // 8) * 8, n - known.shape[1])  # a multiple of 8
        if self.grid is None:
            with blas_threads(1):
                self.grid = TwoGrid.of(self.operator, width + known.shape[1])
        goal = self.tol if rough is None else 2e-2
        with blas_threads(1):  # `TwoGrid` runs its own threads over blocks
            guess = starting_block(self.operator, known)[:, :width]
            first = self.grid.start(np.hstack([known, guess]), width - guess.shape[1])
            first = np.ascontiguousarray(np.hstack([guess, first]))
            values, vectors, relative, used = smallest(self.grid, known, first, count, goal, self.max_iterations)
        if relative.max() > goal or len(values) < count:
            raise ConvergenceError(
                f"LOBPCG reached a relative residual of {relative.max():.1e} instead of {goal:.0e} after {used} "
                f"iterations for {count} pairs of a {n} x {n} operator.",
                (self.operator.top - values, vectors),
            )
        return self.operator.top - values, vectors
