"""Block LOBPCG for the small end of A = top I - S, preconditioned on two grids.

The coarse grid is a cover of the graph by neighbourhoods; functions are carried over by the smoothed
indicators times sqrt(pi), so the trivial vector is carried exactly. One relaxation kills what
oscillates (a kernel damps it strongly), the coarse solve what does not; the coarse eigenvectors are
the start. Small eigenproblems use Gram matrices; blocks are never stacked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import csc_array, csr_array, eye_array
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from . import _compiled
from .exceptions import ConvergenceError
from .normalizations import Operator

Array = NDArray[Any]


@dataclass(frozen=True)
class TwoGrid:
    """An operator with its coarse grid."""

    operator: Operator
    relax: Array  # (n, 1): the diagonal of a relaxation step
    carry: Any  # (n, coarse) sparse
    carry_back: Any
    mass: Any  # carry' carry
    coarse: Any  # carry' A carry
    solver: Any  # its factorisation, shifted a little

    @classmethod
    def of(cls, operator: Operator) -> TwoGrid:
        S, n = operator.matrix, operator.size
        relax = np.ones((n, 1)) if operator.kind == "markov" else 1 / operator.mass[:, None]
        strengths = np.abs(S.data)
        least = float(np.median(strengths)) if len(strengths) else 0.0
        labels, count = _compiled.aggregate(S.indptr, S.indices, S.data, least)
        root = np.sqrt(operator.stationary)
        root /= np.sqrt(np.bincount(labels, weights=operator.stationary, minlength=count))[labels]  # unit columns
        flat = csr_array((root, labels, np.arange(n + 1)), shape=(n, count))
        A = operator.top * eye_array(n, format="csr") - S
        carry = csr_array(flat - 2 / 3 * (A @ flat).multiply(relax))  # 2/3: keeps the columns independent
        if carry.nnz > 40 * n:
            raise ConvergenceError(
                f"The coarse grid of a {n} x {n} operator is too dense ({carry.nnz / n:.0f} cells meet at a point)."
            )
        back = csr_array(carry.T)
        mass, coarse = csc_array(back @ carry), csc_array(back @ (A @ carry))
        shift = 1e-9 * operator.spread
        try:
            solver = splu(csc_array(coarse + shift * mass))
        except RuntimeError as error:  # SuperLU: exactly singular
            raise ConvergenceError(
                f"The coarse grid of a {n} x {n} operator cannot be factorised ({error})."
            ) from error
        return cls(operator, relax, carry, back, mass, coarse, solver)

    def apply(self, V: Array) -> Array:
        """A V."""
        return self.operator.top * V - self.operator.matmat(V)

    def precondition(self, R: Array) -> Array:
        """Relax, correct on the coarse grid, relax: a symmetric approximation of the inverse of A."""
        X = self.relax * R
        X += self.carry @ self.solver.solve(self.carry_back @ (R - self.apply(X)))
        X += self.relax * (R - self.apply(X))
        return X

    def start(self, count: int) -> tuple[Array, Array]:
        """The coarse eigenpairs, small end first: eigenvalues of A and vectors on the fine grid."""
        size = self.coarse.shape[0]
        if size <= max(500, 3 * count):
            values, vectors = linalg.eigh(self.coarse.toarray(), self.mass.toarray(), subset_by_index=(0, count - 1))
        else:
            inverse = LinearOperator((size, size), matvec=self.solver.solve, dtype=float)
            first = np.random.default_rng(size).standard_normal(size)
            values, vectors = eigsh(
                self.coarse, k=count, M=self.mass, sigma=-1e-9 * self.operator.spread, OPinv=inverse, v0=first, tol=1e-5
            )
        order = np.argsort(values)
        return values[order], self.carry @ vectors[:, order]


def smallest(
    grid: TwoGrid, known: Array, start: Array, count: int, tol: float, most: int
) -> tuple[Array, Array, Array, int]:
    """Smallest ``count`` eigenpairs of A beyond ``known``: values, vectors, relative residuals, iterations."""
    X = _orthonormal(start - known @ (known.T @ start))
    AX = grid.apply(X)
    P = AP = None
    floor = 1e-13 * grid.operator.spread
    with grid.operator.runner.ticker("solving", " iterations") as bar:
        for iteration in range(most + 1):
            values, turn = linalg.eigh(_symmetric(X.T @ AX))
            X, AX = X @ turn, AX @ turn
            R = AX - X * values
            relative = np.linalg.norm(R[:, :count], axis=0) / np.maximum(np.abs(values[:count]), floor)
            bar.set_postfix_str(f"residual {relative.max():.0e} of {tol:.0e}", refresh=False)
            bar.update()
            if relative.max() <= tol or iteration == most:
                break
            W = grid.precondition(R)
            W -= known @ (known.T @ W)
            W -= X @ (X.T @ W)
            W = _orthonormal(W)
            X, AX, P, AP = _improve(X, AX, W, grid.apply(W), P, AP)
            if iteration % 8 == 7:  # rounding gathers in the products carried along
                X = _orthonormal(X - known @ (known.T @ X))
                AX, P, AP = grid.apply(X), None, None
    return values[:count], X[:, :count], relative, iteration


def _improve(X: Array, AX: Array, W: Array, AW: Array, P: Any, AP: Any) -> tuple[Array, Array, Array, Array]:
    """Rayleigh-Ritz over [X, W, P] by Gram matrices of the blocks."""
    blocks, images = ([X, W], [AX, AW]) if P is None else ([X, W, P], [AX, AW, AP])
    gram = _symmetric(np.block([[a.T @ b for b in blocks] for a in blocks]))
    form = _symmetric(np.block([[a.T @ b for b in images] for a in blocks]))
    scale, basis = linalg.eigh(gram)
    basis = basis[:, scale > 1e-12 * scale[-1]] / np.sqrt(scale[scale > 1e-12 * scale[-1]])
    turn = basis @ linalg.eigh(basis.T @ form @ basis)[1][:, : X.shape[1]]
    ends = np.cumsum([b.shape[1] for b in blocks])[:-1]
    parts = np.split(turn, ends)
    step, image = (sum(b @ t for b, t in zip(bs[1:], parts[1:])) for bs in (blocks, images))
    return X @ parts[0] + step, AX @ parts[0] + image, step, image


def _orthonormal(V: Array) -> Array:
    """Orthonormal columns by the Gram matrix, twice; directions that vanish are dropped."""
    for _ in range(2):
        V = V / np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)
        scale, turn = linalg.eigh(_symmetric(V.T @ V))
        keep = scale > 1e-14 * scale[-1]
        V = V @ (turn[:, keep] / np.sqrt(scale[keep]))
    return V


def _symmetric(M: Array) -> Array:
    return (M + M.T) / 2
