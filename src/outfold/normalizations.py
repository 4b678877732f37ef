"""From affinities to a symmetric operator, and from a new point's affinities to its row.

``Markov(alpha)`` and ``Unnormalized`` are specifications. Fitted to an affinity matrix W and a measure m they give
an operator (the training side: a symmetric matrix whose top eigenpairs are wanted) which in
turn gives the row rule (how any point sees the anchors). Rows are computed in the log domain,
so a point far from everything has the exact limit instead of 0/0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from . import components
from .components import Components
from .kernels import Kernel
from .neighbors import Geometry

Array = NDArray[Any]

LOG_FLOOR = -700.0  # log mass of a point that sees nothing but itself, where exp would underflow


@dataclass(frozen=True)
class Rows:
    """How points see the anchors: ``rows @ basis`` is their embedding."""

    weights: Array  # (r, n), rows summing to 1
    log_mass: Array  # (r,), log sum_j m_j w(x, x_j)
    divisor: Array | None = None  # (r, components) or None

    def __matmul__(self, basis: Array) -> Array:
        values = self.weights @ basis
        return values if self.divisor is None else values / self.divisor


@dataclass(frozen=True)
class MarkovRule:
    """p(x, .) = softmax_j(log w(x, x_j) + log m_j - alpha log q_j); the density of x cancels."""

    geometry: Geometry
    kernel: Kernel
    measure: Array
    gain: Array  # m / q^alpha

    def rows(self, Z: Array) -> Rows:
        logs = self.kernel.log_affinity(self.geometry.cross(Z))
        top = logs.max(axis=1)
        empty = np.flatnonzero(~np.isfinite(top))
        if len(empty):  # nothing within reach of floating point: the nearest anchor is the limit
            logs[empty] = -np.inf
            logs[empty, self.geometry.nearest(Z[empty])] = 0.0
        logs -= np.where(np.isfinite(top), top, 0.0)[:, None]
        seen = np.exp(logs, out=logs)
        log_mass = top + np.log(seen @ self.measure)
        seen *= self.gain
        seen /= seen.sum(axis=1, keepdims=True)
        return Rows(seen, log_mass)


@dataclass(frozen=True)
class LaplacianRule:
    """v(x) = w(x, .) v / (d(x) - mu): a Markov row whose divisor depends on the component.

    Below half the smallest training degree (no training row is there) d(x) is held, so that a far point
    tends to its nearest anchor instead of to the origin.
    """

    markov: MarkovRule
    eigenvalues: Array
    least_degree: float

    def rows(self, Z: Array) -> Rows:
        rows = self.markov.rows(Z)
        with np.errstate(over="ignore"):
            degree = np.maximum(np.exp(rows.log_mass), self.least_degree / 2)
        divisor = 1 - self.eigenvalues / degree[:, None]
        small = np.abs(divisor) < 1e-8  # a pole: d(x) meets mu
        divisor[small] = np.where(divisor[small] < 0, -1e-8, 1e-8)
        return Rows(rows.weights, rows.log_mass, divisor)


@dataclass(frozen=True)
class Operator:
    """A symmetric matrix whose largest eigenpairs are wanted, and what is known about them."""

    matrix: Array = field(repr=False)
    top: float  # its largest eigenvalue, exactly
    spread: float  # no eigenvalue lies below top - spread
    measure: Array  # m
    stationary: Array  # pi: eigenfunctions are orthonormal in it
    parts: Components
    gain: Array
    lonely_log_mass: Array  # log mass each anchor sees beside itself
    mass: Array  # q = W m

    @property
    def size(self) -> int:
        return len(self.measure)

    def trivial(self, most: int) -> Array:
        """Orthonormal eigenvectors of ``top``: the constant, then contrasts between components."""
        return self.parts.contrasts(most) * np.sqrt(self.stationary)[:, None]

    def functions(self, vectors: Array) -> Array:
        """Eigenvectors of the symmetric matrix as functions, orthonormal in ``stationary``."""
        return vectors / np.sqrt(self.stationary)[:, None]

    def matmat(self, V: Array) -> Array:
        return self.matrix @ V

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes


@dataclass(frozen=True)
class Markov:
    """q = W m, A = W / (q^a q^a'), P = A diag(m) / d: diffusion with the density removed to degree alpha.

    alpha = 0 is the graph Laplacian, 1/2 the Fokker-Planck operator, 1 Laplace-Beltrami
    (the density does not matter).
    """

    alpha: float = 1.0
    merges_copies: ClassVar[bool] = False  # a function that differs between copies of a row has eigenvalue 0

    def fit(self, W: Array, measure: Array) -> Operator:
        """Turn W into the symmetric conjugate of P, in place."""
        lonely, q = _masses(W, measure)
        weight = q**-self.alpha
        d = (weight * (W @ (weight * measure))).clip(min=np.finfo(float).tiny)
        scale = weight * np.sqrt(measure / d)
        W *= scale[:, None]
        W *= scale
        stationary = measure * d / (measure @ d)
        parts = components.find(_links(W), stationary)
        return Operator(W, 1.0, 2.0, measure, stationary, parts, measure * weight, lonely, q)

    def rule(self, operator: Operator, geometry: Geometry, kernel: Kernel, eigenvalues: Array) -> MarkovRule:
        return MarkovRule(geometry, kernel, operator.measure, operator.gain)

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def basis(self, functions: Array, eigenvalues: Array, power: float) -> Array:
        """embedding = lambda^power psi = row @ (lambda^(power-1) psi)."""
        return functions * eigenvalues ** (power - 1)

    def scale(self, eigenvalues: Array) -> Array:
        """basis * scale is the embedding of the anchors."""
        return eigenvalues


@dataclass(frozen=True)
class Unnormalized:
    """L = diag(d) - W diag(m), small end; eigenvalues are those of L.

    Copies of a row are merged first: L has eigenvectors that differ between copies, with eigenvalue d at that
    row, among the small ones; they are not functions of the data.
    """

    merges_copies: ClassVar[bool] = True

    def fit(self, W: Array, measure: Array) -> Operator:
        """Turn W into the symmetric conjugate of -L, in place."""
        lonely, d = _masses(W, measure)
        root = np.sqrt(measure)
        W *= root[:, None]
        W *= root
        stationary = measure / measure.sum()
        parts = components.find(_links(W / np.sqrt(d * d[:, None])), stationary)
        W[np.diag_indices_from(W)] -= d
        return Operator(W, 0.0, 2 * float(d.max()), measure, stationary, parts, measure.copy(), lonely, d)

    def rule(self, operator: Operator, geometry: Geometry, kernel: Kernel, eigenvalues: Array) -> LaplacianRule:
        markov = MarkovRule(geometry, kernel, operator.measure, operator.gain)
        return LaplacianRule(markov, eigenvalues, float(operator.mass.min()))

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array, power: float) -> Array:
        return functions.copy()

    def scale(self, eigenvalues: Array) -> Array:
        return np.ones(len(eigenvalues))


def _masses(W: Array, measure: Array) -> tuple[Array, Array]:
    """Log mass each row sees beside itself (once), and q = W m. Summed apart: 1 + 1e-20 would forget."""
    own = np.diagonal(W).copy()
    np.fill_diagonal(W, 0.0)
    others = W @ measure
    np.fill_diagonal(W, own)
    beside = others + own * np.maximum(measure - 1, 0)  # a weight of 3 is two copies beside the row
    return np.log(np.maximum(beside, np.exp(LOG_FLOOR))), others + own * measure


def _links(S: Array) -> Array:
    """Edges that floating point can see: dropping the others moves no eigenvalue by more than rounding."""
    return np.finfo(float).eps / len(S) < S
