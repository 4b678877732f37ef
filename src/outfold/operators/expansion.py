"""The kernel of a fitted method between any rows, and its expansion k(x, y) ~ sum_r lambda_r f_r(x) f_r(y).

Every method below computes the leading eigenfunctions of a data-dependent kernel (Bengio et al., 2004). With m the
measure of the anchors, f are orthonormal in m, and on the anchors the sum over all eigenpairs is the kernel:

    diffusion maps, Laplacian eigenmaps   a(x, y) = w(x, y) / (D(x) D(y)),  D = q^alpha sqrt(delta), over the anchors
    Roseland                              sqrt(d(x) d(y)) / sum d  sum_k p(x, k) p(y, k) / pi_k, k the landmarks
    low rank                              w(x, .) A^-1 w(., y) in the place of w(x, y)
    adaptive                              sum_k w(x, k) w(y, k) / C_k in the place of w(x, y)
    kernel PCA, MDS, Isomap               k(x, y) - mean k(x, .) - mean k(., y) + mean k, means over the anchors
    unnormalised Laplacian                w(x, y) + [x = y] (c - d(x)) / m: the top of c - L
    locally linear embedding              the top of c - (I - W)'(I - W); (c - 1) w(x, x_j) / m_j for new x, 0 for two

c is Gershgorin's bound on the largest eigenvalue, so that no eigenvalue of the kernel is negative: any c gives the same
functions. Where the coordinates leave out a constant, its eigenpair is the first of the expansion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._runtime.threads import row_blocks
from .._runtime.typing import Array
from ..data.sparse_rows import row_keys


@dataclass(frozen=True)
class EigenPairs:
    """The eigenpairs of a fit."""

    eigenvalues: Array  # of the coordinates, as the operator has them
    anchors: Array
    measure: Array  # of the anchors


class Expansion(ABC):
    """A kernel, and the map from coordinates to its eigenfunctions."""

    def __init__(self, pairs: EigenPairs) -> None:
        self.values, self.anchors, self.measure = pairs.eigenvalues, pairs.anchors, pairs.measure
        self.solved_on_anchors = True  # the eigenproblem is that of the kernel between the anchors
        self.trivial = 1.0  # eigenvalue of the constant that is no coordinate; 0 if there is none

    @abstractmethod
    def table(self, X: Array, Y: Array) -> Array:
        """k(x, y), (len(X), len(Y))."""

    def to_anchors(self, X: Array) -> Array:
        """k(x, x_j), (len(X), anchors)."""
        return self.table(X, self.anchors)

    @abstractmethod
    def functions(self, X: Array, embedding: Array) -> Array:
        """f_r(x) from the embedding of these rows, (len(X), components)."""

    @abstractmethod
    def constant(self, X: Array) -> Array:
        """The trivial eigenfunction at X, (len(X),)."""

    def pairs(self, X: Array, embedding: Array) -> tuple[Array, Array]:
        """Return eigenvalues and eigenfunctions at X, the trivial pair first if there is one."""
        functions = self.functions(X, embedding)
        if not self.trivial:
            return self.values, functions
        return np.append(self.trivial, self.values), np.column_stack([self.constant(X), functions])

    def _powers(self, embedding: Array, power: float) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            functions: Array = embedding / self.values**power
        if not np.isfinite(functions).all():
            raise ValueError(
                f"t={power:g} leaves nothing of coordinates whose eigenvalue is {np.abs(self.values).min():.2g}: "
                "lambda^t is 0 in floating point. Lower t or n_components."
            )
        return functions


class SmallEndKernel(Expansion):
    """The top of c - M, for methods that use the smallest eigenvalues of M; functions are embedding * ``size``."""

    size = 1.0

    def functions(self, X: Array, embedding: Array) -> Array:
        return embedding * self.size

    def constant(self, X: Array) -> Array:
        return np.full(len(X), 1 / np.sqrt(self.measure.sum()))

    def _places(self, X: Array) -> Array:
        """Return the number of the anchor that equals each row, -1 if none does."""
        at_row = {key: at for at, key in enumerate(row_keys(self.anchors))}
        return np.array([at_row.get(key, -1) for key in row_keys(X)])


def number_rows(X: Array, first: Array | None = None) -> Array:
    """Return a number per row, the same for equal rows; with ``first``, numbers of its rows and -1 for others."""
    known: dict[bytes, int] = {}
    for key in row_keys(X if first is None else first):
        known.setdefault(key, len(known))
    return np.array([known.get(key, -1) for key in row_keys(X)])


def by_blocks(function: Callable[[Array], Array], X: Array, width: int) -> Array:
    """Return ``function(X)``, computed in blocks of rows that have ``width`` entries each."""
    return np.concatenate([function(X[block]) for block in row_blocks(len(X), width)])
