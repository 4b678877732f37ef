"""The operator over the anchors, whose eigenpairs a solver computes, and the rows of points over the anchors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse

from .._loops import csr
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..graphs.components import Components

Kind = Literal["markov", "laplacian", "residual", "centred"]


@dataclass(frozen=True)
class Rows:
    """The weights of points on the anchors: ``rows @ basis`` is their embedding."""

    weights: Any  # (r, n): dense, CSR, or any object with `@`
    log_degree: Array  # (r,), log sum_j m_j w(x, x_j)
    log_mass: Array  # (r,), the support: log_degree, or with weights that decrease with distance if w does not
    divisor: Array | None = None  # (r, components) or (r, 1): divides the products; None: 1
    centre: Array | None = None  # (n,): subtracted from every row of weights
    measure: Array | None = None  # (n,): multiplies every row

    def __matmul__(self, basis: Array) -> Array:
        if self.measure is not None:
            basis = basis * self.measure[:, None]
        values = self.weights @ basis
        if self.centre is not None:
            values -= self.centre @ basis
        return values if self.divisor is None else values / self.divisor


def fill_empty_rows(measured: csr_array, empty: Array, nearest: Array) -> csr_array:
    """Give empty rows one entry, at distance 0, for their nearest anchor."""
    counts = np.diff(measured.indptr)
    rows = np.append(np.repeat(np.arange(len(counts)), counts), empty)
    order = np.argsort(rows, kind="stable")
    counts[empty] = 1
    data, columns = np.append(measured.data, np.zeros(len(empty))), np.append(measured.indices, nearest)
    return csr_array((data[order], columns[order], np.append(0, np.cumsum(counts))), shape=measured.shape)


@dataclass(frozen=True)
class Operator:
    """A symmetric matrix whose largest eigenpairs are wanted, with its exact trivial eigenpairs.

    ``kind`` is "markov" (largest eigenvalue 1, for the constant), "laplacian" or "residual" (minus a matrix with
    smallest eigenvalue 0, for the constant) or "centred" (any eigenvalues; the constant has 0 and is not wanted).
    """

    kind: Kind
    matrix: Any = field(repr=False)  # dense or CSR
    top: float  # the largest eigenvalue, exact (centred: an upper bound)
    spread: float  # no eigenvalue lies below top - spread (centred: below -spread)
    measure: Array  # m
    stationary: Array  # pi: eigenfunctions are orthonormal in it
    parts: Components
    gain: Any = None  # factor of the affinity to each anchor in a row; None: the row rule has none
    mass: Any = None  # q = W m; centred: the kernel's column means
    both_ends: bool = False  # the eigenvalues largest in magnitude are wanted, whatever their sign
    runner: Threads = field(default_factory=Threads)
    pace: Array | None = None  # 1 - probability of staying, per anchor; None if no anchor waits
    smooth: Array | None = None  # (n, few): smooth functions, see `crowding`
    total: float = 1.0  # markov: sum m d, so that m d / total is ``stationary``
    guess: Array | None = None  # (n, few): approximate eigenvectors, from which a solver may start

    @property
    def size(self) -> int:
        return len(self.measure)

    def trivial(self, most: int) -> Array:
        """Return orthonormal eigenvectors of ``top``, at most ``most``: the constant, then component contrasts."""
        if self.kind == "centred":
            return np.empty((self.size, 0))
        return self.parts.contrasts(most) * np.sqrt(self.stationary / self.stationary.sum())[:, None]

    def functions(self, vectors: Array) -> Array:
        """Return eigenvectors of the symmetric matrix as functions, orthonormal in ``stationary``."""
        functions = vectors / np.sqrt(self.stationary)[:, None]
        if self.kind == "centred":  # make it exact: rows may have large means, which must cancel
            functions -= self.stationary @ functions / self.stationary.sum()
        return functions

    def distance(self, values: Array) -> Array:
        """Return the distance of each eigenvalue from the trivial one, to which residuals are relative."""
        return np.abs(values) if self.kind == "centred" else self.top - values

    def trivial_among(self, values: Array) -> int:
        """Return how many of the eigenvalues equal the trivial one up to rounding."""
        if self.kind == "centred":
            return 1
        near = 1e-8 if self.kind != "residual" else 64 * np.finfo(float).eps
        return int((self.top - values <= near * self.spread).sum())

    @property
    def sparse(self) -> bool:
        return issparse(self.matrix)

    def matmat(self, V: Array, out: Array | None = None) -> Array:
        """Return S V, in ``out`` if there is one (fresh memory costs as much as a product)."""
        if not self.sparse or V.shape[1] == 1:
            return self.matrix @ V
        out = np.empty(V.shape) if out is None else out
        V, M = np.ascontiguousarray(V), self.matrix

        def fill(block: slice) -> None:
            csr.times_block(M.indptr, M.indices, M.data, V, out, block.start, block.stop)

        self.runner.run(fill, row_blocks(self.size, 16 * V.shape[1]))
        return out

    def diagonal(self) -> Array:
        return self.matrix.diagonal()

    def crowding(self) -> float:
        """Return an upper bound on the distance of the next eigenvalue from ``top``.

        It is the least Rayleigh quotient of ``top`` - matrix over the functions ``smooth``.
        """
        if self.smooth is None:
            return self.spread
        root = np.sqrt(self.stationary)[:, None]
        V = (self.smooth - self.stationary @ self.smooth) * root
        V = V[:, np.linalg.norm(V, axis=0) > 0]
        return float((self.top - (V * self.matmat(V)).sum(axis=0) / (V * V).sum(axis=0)).min(initial=self.spread))


def not_rounding(
    values: Array, kept: Array, operator: Operator, asked: str, clip: bool, skip: int, hint: str = ""
) -> Array:
    """Return ``kept`` without pairs beyond the rank if ``clip``; else raise ValueError if there are such pairs."""
    norm = max(float(np.abs(values).max()), operator.spread / (2 * np.sqrt(operator.size)))  # at most the operator norm
    tiny = operator.size * np.finfo(float).eps * norm
    beyond = np.abs(values[kept]) <= tiny
    if not beyond.any():
        return kept
    if clip and not beyond.all():
        return kept[~beyond]
    rank = int((np.abs(values) > tiny).sum()) - skip
    raise ValueError(
        f"n_components={asked}: that is beyond the rank of the kernel, only {rank} non-trivial eigenvalues exceed "
        f"rounding ({tiny:.1e}). The data may hold few distinct points, or "
        + (hint or f"epsilon may be too large. Ask for at most {rank} components or lower epsilon.")
    )


def links(S: Any, least: float | None = None) -> Any:
    """Return the edges above ``least`` (None: eps / n, as smaller ones change eigenvalues by rounding at most)."""
    cut = np.finfo(float).eps / S.shape[0] if least is None else least
    if not issparse(S):
        return cut < S
    keep = S.data > cut
    if keep.all():
        return S
    counts = np.add.reduceat(np.append(keep, False), S.indptr[:-1]) * (np.diff(S.indptr) > 0)
    return csr_array((S.data[keep], S.indices[keep], np.append(0, np.cumsum(counts))), shape=S.shape)


def scale_both_sides(W: Any, factor: Array) -> None:
    """Multiply W_ij by factor_i factor_j, in place."""
    if issparse(W):
        csr.scale_rows_and_columns(W.indptr, W.indices, W.data, factor, 0, W.shape[0])
    else:
        W *= factor[:, None]
        W *= factor


def add_to_diagonal(W: Any, values: Array) -> None:
    """Add ``values`` to the diagonal, in place; W must store every entry of its diagonal."""
    if issparse(W):
        rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
        W.data[rows == W.indices] += values
    else:
        W[np.diag_indices_from(W)] += values
