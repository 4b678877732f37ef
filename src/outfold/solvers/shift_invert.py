"""Shift-invert Lanczos, for eigenvalues crowded near the top of a sparse operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu

from .._runtime.typing import Array
from ..operators.operator import Operator
from .session import Session, Solver, arpack_pairs, ritz_pairs, starting_block

RESIDUAL_SHIFT = 1e-13  # shift for locally linear embedding: its eigenvalues are squares, so they are smaller


@dataclass(frozen=True)
class ShiftInvert(Solver):
    """Lanczos on the inverse of (top + shift) - S, factorised once (SuperLU, or Cholesky if dense).

    Very accurate for eigenvalues crowded near the top. For graphs of data of dimension above two the factors fill up.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=ShiftInvert()).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-8)
    ('shiftinvert', True)
    """

    shift: float = 1e-8

    def start(self, operator: Operator) -> Session:
        shifted = operator.top + self.shift * operator.spread
        S = operator.entries
        if not isinstance(S, np.ndarray):
            matrix = csc_array(shifted * eye_array(operator.size, format="csc") - S)
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
            return _InverseSession(operator, factors.solve)
        factor = linalg.cho_factor(shifted * np.eye(operator.size) - S, overwrite_a=True)
        return _InverseSession(operator, lambda v: linalg.cho_solve(factor, v, check_finite=False))


@dataclass(frozen=True)
class _InverseSession:
    operator: Operator
    solve: Callable[[Array], Array]

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        def product(v: Array) -> Array:
            v = v.reshape(self.operator.size, -1)
            v = self.solve(v - known @ (known.T @ v))
            rest: Array = v - known @ (known.T @ v)
            return rest

        guess = starting_block(self.operator, known)
        vectors = arpack_pairs(product, known, count, 1e-10 if rough is None else 1e-2, None, guess=guess)[1]
        return ritz_pairs(self.operator, vectors)
