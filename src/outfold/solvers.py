"""Eigensolvers as values, and the one place where order, residuals and counts are settled.

A solver is asked for the ``count`` largest eigenpairs of an operator whose trivial eigenvectors are
known exactly. Those are deflated first, so no solver ever has to find a multiple eigenvalue 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from .exceptions import ConvergenceError
from .normalizations import Operator

Array = NDArray[Any]


@dataclass(frozen=True)
class Spectrum:
    """Eigenpairs of an operator in decreasing order, trivial ones first."""

    values: Array  # (count,)
    vectors: Array  # (n, count), orthonormal
    trivial: int  # how many of them are known exactly (the constant and the contrasts)
    residuals: Array  # |S v - lambda v|
    solver: str
    why: str


class Solver(Protocol):
    """Find ``count`` eigenpairs below the trivial ones."""

    def top(self, operator: Operator, trivial: Array, count: int) -> tuple[Array, Array]: ...


@dataclass(frozen=True)
class Dense:
    """LAPACK on the whole matrix: O(n^3), never misses a pair."""

    def top(self, operator: Operator, trivial: Array, count: int) -> tuple[Array, Array]:
        n = operator.size
        deflated = operator.matrix - (operator.spread * trivial) @ trivial.T
        values, vectors = linalg.eigh(
            deflated, subset_by_index=(n - count, n - 1), overwrite_a=True, check_finite=False
        )
        return values[::-1], vectors[:, ::-1]


@dataclass(frozen=True)
class Lanczos:
    """Implicitly restarted Lanczos (ARPACK) on the deflated operator, checked for missed pairs.

    After the solve what was found is deflated too and the largest remaining eigenvalue is sought; if it
    belongs among the found ones it is added and the check repeated. ``tol=0`` is machine precision.
    """

    tol: float = 0.0
    max_iterations: int | None = None

    def top(self, operator: Operator, trivial: Array, count: int) -> tuple[Array, Array]:
        values, vectors = self._arpack(operator, trivial, count, self.tol)
        for _ in range(operator.size):
            known = np.hstack([trivial, vectors])
            if known.shape[1] >= operator.size - 1:
                break
            missed, vector = self._arpack(operator, known, 1, max(self.tol, 1e-4))
            slack = 1e-10 * operator.spread
            if missed[0] <= values.min() + slack:
                break
            refined, vector = self._arpack(operator, known, 1, self.tol)
            values, vectors = np.append(values, refined), np.hstack([vectors, vector])
        order = np.argsort(-values, kind="stable")[:count]
        return values[order], vectors[:, order]

    def _arpack(self, operator: Operator, known: Array, count: int, tol: float) -> tuple[Array, Array]:
        n = operator.size

        def product(v: Array) -> Array:
            v = v.reshape(n, -1)
            return operator.matmat(v) - operator.spread * (known @ (known.T @ v))

        start = np.random.default_rng(n).standard_normal(n)
        start -= known @ (known.T @ start)
        action = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
        subspace = min(n - 1, 2 * count + 30)
        try:
            values, vectors = eigsh(
                action, k=count, which="LA", v0=start, tol=tol, ncv=subspace, maxiter=self.max_iterations
            )
        except ArpackError as error:
            partial = getattr(error, "eigenvalues", None)
            raise ConvergenceError(
                f"Lanczos did not find {count} eigenpairs of a {n} x {n} operator ({error}).", partial
            ) from error
        return values[::-1], vectors[:, ::-1]


@dataclass(frozen=True)
class Auto:
    """Dense for small problems, many pairs and Laplacians; Lanczos otherwise; dense again if that fails."""

    dense_up_to: int = 1000

    def choose(self, operator: Operator, count: int) -> tuple[Solver, str]:
        n = operator.size
        if n <= self.dense_up_to:
            return Dense(), f"n = {n} <= {self.dense_up_to}"
        if count > n // 20:
            return Dense(), f"{count} pairs are more than n/20 = {n // 20}"
        if operator.top == 0:
            return Dense(), "the small end of an unnormalised Laplacian converges slowly by Lanczos"
        return Lanczos(), f"n = {n} > {self.dense_up_to}, {count} pairs"


def solve(operator: Operator, solver: Any, count: int) -> Spectrum:
    """The trivial eigenpairs and as many more as make ``count``, with their residuals."""
    trivial = operator.trivial(count)
    exact = trivial.shape[1]
    values, vectors = np.full(exact, operator.top), trivial
    name, why = "none", "all wanted pairs are contrasts between components"
    if count > exact:
        if isinstance(solver, Auto):
            solver, why = solver.choose(operator, count - exact)
        else:
            why = "asked for"
        name = type(solver).__name__.lower()
        if isinstance(solver, Lanczos) and count - exact >= operator.size - exact:
            solver, name, why = Dense(), "dense", "Lanczos cannot compute every eigenpair"
        try:
            found, found_vectors = solver.top(operator, trivial, count - exact)
        except ConvergenceError as error:
            if operator.size > 20_000:
                raise
            found, found_vectors = Dense().top(operator, trivial, count - exact)
            name, why = "dense", f"fallback: {error}"
        values, vectors = np.append(values, found), np.hstack([trivial, found_vectors])
    residuals = np.linalg.norm(operator.matmat(vectors) - vectors * values, axis=0)
    return Spectrum(values, vectors, exact, residuals, name, why)


def orient(functions: Array, measure: Array, features: Array | None) -> Array:
    """Signs (+1 or -1) of the columns by a fixed functional of the data: sum_i pi_i psi(x_i) g(x_i) > 0.

    g is smooth and has none of the symmetries data may have, so neither the order of the rows nor
    rounding decides. Without features the third moment of psi, then the row order, stand in.
    """
    probes = _probes(len(functions), measure, features)
    scores = (functions * measure[:, None]).T @ probes  # (components, probes)
    cubes = (functions**3 * measure[:, None]).sum(axis=0)
    if features is None:
        scores = np.column_stack([cubes, scores])
    size = np.sqrt((functions**2 * measure[:, None]).sum(axis=0))[:, None]
    clear = np.abs(scores) > 1e-3 * size
    first = np.where(clear.any(axis=1), clear.argmax(axis=1), np.abs(scores).argmax(axis=1))
    chosen = scores[np.arange(len(scores)), first]
    return np.where(chosen < 0, -1.0, 1.0)


def _probes(n: int, measure: Array, features: Array | None) -> Array:
    """Three bounded generic functions of the rows, (n, 3)."""
    golden = (np.sqrt(5) - 1) / 2
    if features is None:
        rows = np.arange(1, n + 1)[:, None]
        return np.sin(rows * golden * np.array([1.0, 2.0, 3.0]) + 0.5)
    centred = features - measure @ features
    scale = np.sqrt((measure @ centred**2).sum())
    scaled = centred / (scale if scale > 0 else 1.0)
    f = np.arange(1, features.shape[1] + 1)
    out = np.empty((n, 3))
    for k in range(3):
        speed = 1 + (f * golden * (k + 1)) % 1.0 + k
        phase = 2 * np.pi * ((f * 0.7548776662466927 + k / 3) % 1.0)
        out[:, k] = np.sin(scaled * speed + phase).mean(axis=1)
    out -= measure @ out
    spread = np.sqrt(measure @ out**2)
    return out / np.where(spread > 0, spread, 1.0)
