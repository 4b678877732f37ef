"""The interface of solvers, and linear algebra that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import Operator


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Eigenpairs of an operator in decreasing order, trivial ones first."""

    values: Array  #: (count,)
    vectors: Array  #: (n, count), orthonormal
    trivial: int  #: number of trivial pairs, which are exact (the constant and the contrasts between components)
    residuals: Array  #: ``|S v - lambda v|``
    solver: str
    why: str  #: reason for the choice of the solver
    products: int  #: products of the matrix with a vector


class Session(Protocol):
    """A solver at work on one operator."""

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        """Return values and vectors of the ``count`` largest eigenpairs orthogonal to ``known``, largest first.

        ``known``: eigenvectors to deflate, (n, any number). ``rough``: allowed error of an eigenvalue; None: the
        tolerance of the solver.
        """
        ...


class Solver:
    """The specification of a solver: frozen, with its tolerances."""

    @property
    def complete(self) -> bool:
        """Whether no pair is ever missed, so that ``solve`` need not check."""
        return False

    def start(self, operator: Operator) -> Session:
        """Return the solver at work on this operator."""
        raise AssertionError("a solver says how it starts")


def deflate(block: Array, known: Array) -> Array:
    """Return the part of the block orthogonal to the orthonormal columns ``known``."""
    rest: Array = block - known @ (known.T @ block)
    return rest


def orthogonal_to(block: Array, known: Array) -> Array:
    """Return the block made orthogonal to ``known`` and orthonormal; columns that vanish become random ones."""
    size = np.linalg.norm(block, axis=0)
    for _ in range(3):  # two passes suffice, unless a column vanished
        block = deflate(block, known)
        length = np.linalg.norm(block, axis=0)
        gone = ~(length > 1e-12 * size)
        if gone.any():
            block[:, gone] = np.random.default_rng(known.shape[1]).standard_normal((len(block), int(gone.sum())))
            length[gone] = np.linalg.norm(block[:, gone], axis=0)
        block /= length
        try:
            factor = linalg.cholesky(block.T @ block)
            block = linalg.solve_triangular(factor, block.T, trans="T").T
        except linalg.LinAlgError:
            block = linalg.qr(block, mode="economic")[0]
        size = np.ones(block.shape[1])
    return block


def starting_block(operator: Operator, known: Array) -> Array:
    """Return orthonormal vectors to start from: the part of ``operator.guess`` orthogonal to ``known``."""
    if operator.guess is None or not operator.guess.size:
        return known[:, :0]
    basis: Array
    basis, size, _ = linalg.svd(deflate(operator.guess, known), full_matrices=False)
    return basis[:, size > 1e-2 * np.linalg.norm(operator.guess, axis=0).max()]


def arpack_pairs(
    product: Callable[[Array], Array],
    known: Array,
    count: int,
    tol: float,
    most: int | None,
    extra: int = 30,
    guess: Array | None = None,
) -> tuple[Array, Array]:
    """Return ``count`` pairs of the symmetric map ``product``, largest first, by at most ``most`` restarts of ARPACK.

    ``extra``: columns of the Krylov basis beyond twice the count. ``guess``: vectors to start from.
    """
    n = len(known)
    start = np.random.default_rng(n).standard_normal(n)
    if guess is not None and guess.shape[1]:  # add noise for directions that the guess lacks
        start = guess.sum(axis=1) + 0.1 / np.sqrt(n) * start
    action = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
    subspace = min(n - 1, 2 * count + extra)
    try:
        values, vectors = eigsh(
            action, k=count, which="LA", v0=deflate(start, known), tol=tol, ncv=subspace, maxiter=most
        )
    except ArpackError as error:
        partial = (getattr(error, "eigenvalues", None), getattr(error, "eigenvectors", None))
        raise ConvergenceError(
            f"Lanczos did not find {count} eigenpairs of a {n} x {n} operator ({error}).", partial
        ) from error
    return values[::-1], vectors[:, ::-1]


def ritz_pairs(operator: Operator, vectors: Array) -> tuple[Array, Array]:
    """Return the Ritz pairs of the operator in the span of ``vectors``, largest first."""
    basis = linalg.qr(vectors, mode="economic")[0]
    form = basis.T @ operator.matmat(basis)
    values, turn = linalg.eigh((form + form.T) / 2)
    return values[::-1], (basis @ turn)[:, ::-1]
