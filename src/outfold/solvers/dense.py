"""The dense eigensolver of LAPACK."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from .._runtime.typing import Array
from ..operators.operator import Operator
from .session import Session, Solver


@dataclass(frozen=True)
class Dense(Solver):
    """LAPACK on the whole matrix: O(n^3), never misses a pair.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Dense()).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-8)
    ('dense', True)
    """

    @property
    def complete(self) -> bool:
        return True

    def start(self, operator: Operator) -> Session:
        return _DenseSession(operator)


@dataclass(frozen=True)
class _DenseSession:
    operator: Operator

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n = self.operator.size
        S = self.operator.entries
        matrix = S if isinstance(S, np.ndarray) else S.toarray()
        deflated = matrix - (self.operator.spread * known) @ known.T
        values, vectors = linalg.eigh(deflated, subset_by_index=(n - count, n - 1), check_finite=False)
        if len(values) < count:  # LAPACK's range driver drops copies of a highly multiple eigenvalue
            values, vectors = linalg.eigh(deflated, driver="evd", overwrite_a=True, check_finite=False)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
