"""The eigenproblem of B B' through that of B'B, where B has fewer columns than rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._runtime.threads import blas_threads
from .._runtime.typing import Array
from ..operators import operator as operators
from ..operators.operator import Operator
from .dense import Dense
from .lanczos import Lanczos
from .session import Session, Solver, orthogonal_to

DENSE_SHARE = 4  # one in this many eigenpairs, or more, are computed by LAPACK


@dataclass(frozen=True)
class Gram(Solver):
    """Eigenvectors v of B'B give eigenvectors B v of B B', with the same eigenvalues; all others are 0."""

    tol: float = 1e-12

    def start(self, operator: Operator) -> Session:
        side = operator.smaller_side
        assert side is not None, "the operator has no smaller side"
        return _GramSession(operator, side, self.tol)


@dataclass(frozen=True)
class _GramSession:
    operator: Operator
    side: operators.SmallerSide
    tol: float

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        inner = self.side.operator
        images = self.side.there(known)
        images /= np.linalg.norm(images, axis=0)
        there = min(count, inner.size - images.shape[1])
        few = inner.size > DENSE_SHARE * (count + images.shape[1] + 8)
        solver = Lanczos(self.tol) if few and not isinstance(inner.matrix, np.ndarray) else Dense()
        if there > 0:
            with blas_threads(1):  # products run on our own threads; vectors are too short for those of BLAS
                values, vectors = solver.start(inner).top(images, there, rough)
        else:
            values, vectors = np.empty(0), images[:, :0]
        vectors = self.side.back(vectors)
        size = np.linalg.norm(vectors, axis=0)
        within = size > 1e-7 * max(self.operator.top, 1e-300)  # B v vanishes where the eigenvalue is 0
        values, vectors = values[within], vectors[:, within] / size[within]
        lacking = count - len(values)
        if lacking:
            found = np.hstack([known, vectors])
            noise = np.random.default_rng(lacking).standard_normal((self.operator.size, lacking))
            vectors = np.hstack([vectors, orthogonal_to(noise, found)])
            values = np.append(values, np.zeros(lacking))
        return values, vectors
