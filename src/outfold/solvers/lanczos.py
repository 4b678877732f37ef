"""The Lanczos method."""

from __future__ import annotations

from dataclasses import dataclass

from .._runtime.typing import Array
from ..operators.operator import Operator
from .session import Session, Solver, arpack_pairs, starting_block


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
    max_iterations: int = 300  # restarts, of some 30 to 50 products each

    def start(self, operator: Operator) -> Session:
        return _LanczosSession(operator, self.tol, self.max_iterations)


@dataclass(frozen=True)
class _LanczosSession:
    operator: Operator
    tol: float
    max_iterations: int

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n, spread = self.operator.size, self.operator.spread
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
