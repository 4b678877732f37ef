"""From affinities to a symmetric operator, and from a new point's affinities to its row.

``Markov(alpha)`` and ``Unnormalized`` are specifications. Fitted to an affinity matrix W and a measure m they give
an operator (the training side: a symmetric matrix whose top eigenpairs are wanted) which in
turn gives the row rule (how any point sees the anchors). Rows are computed in the log domain,
so a point far from everything has the exact limit instead of 0/0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from . import _patterns, _products, _softmax, components, selection
from .components import Components
from .elementwise import softmax
from .kernels import Kernel
from .runners import Threads, row_blocks
from .trust import LOG_FLOOR

Array = NDArray[Any]

Kind = Literal["markov", "laplacian", "residual", "centred"]


@dataclass(frozen=True)
class Rows:
    """How points see the anchors: ``rows @ basis`` is their embedding."""

    weights: Any  # (r, n), dense, CSR or anything that multiplies a basis
    log_degree: Array  # (r,), log sum_j m_j w(x, x_j)
    log_mass: Array  # the same, or by weights that fall off with distance where w does not: the support
    divisor: Array | None = None  # (r, components), (r, 1) or None
    centre: Array | None = None  # (n,): subtracted from every row of weights
    measure: Array | None = None  # (n,): multiplies every row

    def __matmul__(self, basis: Array) -> Array:
        if self.measure is not None:
            basis = basis * self.measure[:, None]
        values = self.weights @ basis
        if self.centre is not None:
            values -= self.centre @ basis
        return values if self.divisor is None else values / self.divisor


@dataclass(frozen=True)
class MarkovRule:
    """p(x, .) = softmax_j(log w(x, x_j) + log m_j - alpha log q_j); the density of x cancels.

    A row with nothing in reach is its nearest anchor, with support -inf.
    """

    geometry: Any
    kernel: Kernel
    measure: Array
    gain: Array  # m / q^alpha
    stationary: Array | None = None  # pi of the anchors
    log_total: float = 0.0  # log sum m d

    @property
    def row_entries(self) -> int:
        """About how many entries a row has, for cutting blocks."""
        return self.geometry.row_entries

    def rows(self, Z: Array, measured: Any = None) -> Rows:
        measured = self.geometry.cross(Z) if measured is None else measured
        return self._sparse(Z, measured) if issparse(measured) else self._dense(Z, measured)

    def _dense(self, Z: Array, measured: Array) -> Rows:
        seen, factor = self.kernel.logs(measured)
        top, total, mass = softmax(seen, factor, self.gain, self.measure, self._cut)
        empty = np.flatnonzero(~np.isfinite(top))
        if len(empty):
            seen[empty] = 0.0
            seen[empty, self.geometry.nearest(Z[empty])] = total[empty] = mass[empty] = 1.0
        log_mass = top + np.log(mass)
        return Rows(seen, log_mass, log_mass, total[:, None])

    @cached_property
    def _cut(self) -> float:
        """Log weights so far below the largest change no sum."""
        return -42.0 - float(np.log(self.gain.max() / self.gain.min()))

    def _sparse(self, Z: Array, measured: csr_array) -> Rows:
        empty = np.flatnonzero(np.diff(measured.indptr) == 0)
        if len(empty):
            measured = _filled(measured, empty, self.geometry.nearest(Z[empty]))
        ptr, columns = measured.indptr, measured.indices
        witness = self.kernel.witness(measured.data)
        seen, factor = self.kernel.logs(measured.data)
        log_degree = np.empty(len(Z))
        _softmax.softmax_rows(ptr, columns, seen, factor, self.gain, self.measure, log_degree)
        log_mass = log_degree.copy()
        if witness is not None:
            with np.errstate(divide="ignore"):
                log_mass = np.log(np.add.reduceat(witness * self.measure[columns], ptr[:-1]))
        log_degree[empty] = log_mass[empty] = -np.inf
        return Rows(csr_array((seen, columns, ptr), shape=measured.shape), log_degree, log_mass)


def _filled(measured: csr_array, empty: Array, nearest: Array) -> csr_array:
    """Give empty rows one entry, at distance 0, for their nearest anchor."""
    counts = np.diff(measured.indptr)
    rows = np.append(np.repeat(np.arange(len(counts)), counts), empty)
    order = np.argsort(rows, kind="stable")
    counts[empty] = 1
    data, columns = np.append(measured.data, np.zeros(len(empty))), np.append(measured.indices, nearest)
    return csr_array((data[order], columns[order], np.append(0, np.cumsum(counts))), shape=measured.shape)


@dataclass(frozen=True)
class CanonicalRule:
    """v(x) = root(x) psi(x), root(x)^2 = delta(x) / sum_j m_j delta_j: a Markov row times its own degree.

    delta(x) = q(x)^-alpha sum_j w(x, x_j) m_j q_j^-alpha = q(x)^(1 - alpha) / (p(x, .) q^alpha), over the anchors. A
    row with nothing in reach has the degree of its nearest anchor.
    """

    markov: MarkovRule
    alpha: float
    powers: Array  # (n,), q^alpha
    root: Array  # (n,), of the anchors
    log_total: float  # log sum_j m_j delta_j

    @classmethod
    def of(cls, markov: MarkovRule, alpha: float) -> CanonicalRule:
        assert markov.stationary is not None
        root = np.sqrt(markov.stationary / markov.measure)
        return cls(markov, alpha, markov.measure / markov.gain, root, markov.log_total)

    @property
    def geometry(self) -> Any:
        return self.markov.geometry

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def rows(self, Z: Array, measured: Any = None) -> Rows:
        rows = self.markov.rows(Z, measured)
        with np.errstate(over="ignore"):
            divisor = np.exp((self.log_total - self._log_delta(rows)) / 2)[:, None]
        if rows.divisor is not None:
            divisor = divisor * rows.divisor
        return Rows(rows.weights, rows.log_degree, rows.log_mass, divisor)

    def log_scaling(self, Z: Array) -> Array:
        """log d(x) of the symmetric kernel k = w / (d d'): d = q^alpha sqrt(delta), 0 where nothing is in reach."""
        rows = self.markov.rows(Z)
        with np.errstate(invalid="ignore"):
            found = self.alpha * rows.log_degree + self._log_delta(rows) / 2
        return np.where(np.isfinite(rows.log_degree), found, -np.inf)

    @property
    def log_scaling_of_anchors(self) -> Array:
        return np.log(self.powers) + np.log(self.root) + self.log_total / 2

    def log_root(self, Z: Array) -> Array:
        """log sqrt(delta(x) / sum m delta): what turns psi into the eigenvector of the symmetric kernel."""
        return (self._log_delta(self.markov.rows(Z)) - self.log_total) / 2

    def _log_delta(self, rows: Rows) -> Array:
        typical, nearest = (rows @ np.column_stack([self.powers, self.root**2])).T
        with np.errstate(invalid="ignore"):
            found = (1 - self.alpha) * rows.log_degree - np.log(typical)
        return np.where(np.isfinite(rows.log_degree), found, np.log(nearest) + self.log_total)


@dataclass(frozen=True)
class SolvedOverLandmarks:
    """What normalisations share whose operator is that of the rows, positive and solved over landmarks."""

    power: float
    skip: ClassVar[int] = 1
    unit_columns: ClassVar[bool] = False

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def scale(self, eigenvalues: Array) -> None:
        """A landmark's embedding is its own row's, not a multiple of the basis."""
        return None

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return selection.spectral_dimension(values, t=self.power or 1.0)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return not_rounding(np.maximum(values, 0), kept, operator, asked, clip, skip=1)

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return 0.0


@dataclass(frozen=True)
class LaplacianRule:
    """v(x) = w(x, .) v / (d(x) - mu): a Markov row whose divisor depends on the component.

    Below half the smallest training degree (no training row is there) d(x) is held, so that a far point
    tends to its nearest anchor instead of to the origin.
    """

    markov: MarkovRule
    eigenvalues: Array
    least_degree: float

    @property
    def geometry(self) -> Any:
        return self.markov.geometry

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def rows(self, Z: Array) -> Rows:
        rows = self.markov.rows(Z)
        with np.errstate(over="ignore"):
            degree = np.maximum(np.exp(rows.log_degree), self.least_degree / 2)
        divisor = 1 - self.eigenvalues / degree[:, None]
        small = np.abs(divisor) < 1e-8  # a pole: d(x) meets mu
        divisor[small] = np.where(divisor[small] < 0, -1e-8, 1e-8)
        if rows.divisor is not None:
            divisor = divisor * rows.divisor
        return Rows(rows.weights, rows.log_degree, rows.log_mass, divisor)


@dataclass(frozen=True)
class Operator:
    """A symmetric matrix whose largest eigenpairs are wanted, and what is known about them.

    ``kind`` tells which: "markov" (top eigenvalue 1, the constant), "laplacian" and "residual" (a matrix with small
    end 0, the constant, negated), "centred" (any values; the constant belongs to 0 and is not among the wanted).
    """

    kind: Kind
    matrix: Any = field(repr=False)  # dense or CSR
    top: float  # its largest eigenvalue, exactly (centred: a bound)
    spread: float  # no eigenvalue lies below top - spread (centred: below -spread)
    measure: Array  # m
    stationary: Array  # pi: eigenfunctions are orthonormal in it
    parts: Components
    gain: Any = None  # what an anchor's affinity is multiplied by in a row, where that is so
    mass: Any = None  # q = W m; centred: the kernel's column means
    both_ends: bool = False  # the eigenvalues largest in magnitude are wanted, whatever their sign
    runner: Threads = field(default_factory=Threads)
    pace: Array | None = None  # how fast each anchor moves, where some wait: the size of the diagonal of top - matrix
    smooth: Array | None = None  # (n, few): smooth functions, from which a solver may guess how crowded the top is
    total: float = 1.0  # markov: sum m d, by which m d becomes ``stationary``
    guess: Array | None = None  # (n, few): vectors near the wanted ones, from which a solver may start

    @property
    def size(self) -> int:
        return len(self.measure)

    def trivial(self, most: int) -> Array:
        """Orthonormal eigenvectors of ``top``: the constant, then contrasts between components."""
        if self.kind == "centred":
            return np.empty((self.size, 0))
        return self.parts.contrasts(most) * np.sqrt(self.stationary / self.stationary.sum())[:, None]

    def functions(self, vectors: Array) -> Array:
        """Eigenvectors of the symmetric matrix as functions, orthonormal in ``stationary``."""
        functions = vectors / np.sqrt(self.stationary)[:, None]
        if self.kind == "centred":  # exactly orthogonal to the constant: rows may have means of any size
            functions -= self.stationary @ functions / self.stationary.sum()
        return functions

    def distance(self, values: Array) -> Array:
        """What a residual is measured against: how far a value is from the trivial one."""
        return np.abs(values) if self.kind == "centred" else self.top - values

    def trivial_among(self, values: Array) -> int:
        """How many of the values are the trivial one, up to rounding."""
        if self.kind == "centred":
            return 1
        near = 1e-8 if self.kind != "residual" else 64 * np.finfo(float).eps
        return int((self.top - values <= near * self.spread).sum())

    @property
    def sparse(self) -> bool:
        return issparse(self.matrix)

    def matmat(self, V: Array, out: Array | None = None) -> Array:
        """S V, in ``out`` if there is one (fresh memory costs as much as a product)."""
        if not self.sparse or V.shape[1] == 1:
            return self.matrix @ V
        out = np.empty(V.shape) if out is None else out
        V, M = np.ascontiguousarray(V), self.matrix

        def fill(block: slice) -> None:
            _products.times_block(M.indptr, M.indices, M.data, V, out, block.start, block.stop)

        self.runner.run(fill, row_blocks(self.size, 16 * V.shape[1]))
        return out

    def diagonal(self) -> Array:
        return self.matrix.diagonal()

    def crowding(self) -> float:
        """A bound on the distance of the next eigenvalue from ``top``: the least Rayleigh quotient of ``smooth``."""
        if self.smooth is None:
            return self.spread
        root = np.sqrt(self.stationary)[:, None]
        V = (self.smooth - self.stationary @ self.smooth) * root
        V = V[:, np.linalg.norm(V, axis=0) > 0]
        return float((self.top - (V * self.matmat(V)).sum(axis=0) / (V * V).sum(axis=0)).min(initial=self.spread))


@dataclass(frozen=True)
class Markov:
    """q = W m, A = W / (q^a q^a'), P = A diag(m) / d: diffusion with the density removed to degree alpha.

    alpha = 0 is the graph Laplacian, 1/2 the Fokker-Planck operator, 1 Laplace-Beltrami
    (the density does not matter). ``canonical``: the eigenvectors v = sqrt(d / sum m d) psi of the symmetric kernel
    A / sqrt(d d') take the place of psi.
    """

    alpha: float = 1.0
    power: float = 1.0  # embedding = lambda^power psi
    canonical: bool = False
    skip: ClassVar[int] = 1  # trivial eigenpairs that are not coordinates
    merges_copies: ClassVar[bool] = False  # a function that differs between copies of a row has eigenvalue 0

    @property
    def unit_columns(self) -> bool:
        """Whether coordinates have length 1 over the anchors, so that they shrink as rows are added."""
        return self.canonical

    def fit(self, W: Array, measure: Array) -> Operator:
        """Turn W into the symmetric conjugate of P, in place."""
        q = W @ measure
        weight = q**-self.alpha
        d = (weight * (W @ (weight * measure))).clip(min=np.finfo(float).tiny)
        scale_both_sides(W, weight * np.sqrt(measure / d))
        total = float(measure @ d)
        stationary = measure * d / total
        parts = components.find(links(W), stationary)
        return Operator("markov", W, 1.0, 2.0, measure, stationary, parts, measure * weight, q, total=total)

    def rule(self, operator: Operator, geometry: Any, kernel: Kernel, eigenvalues: Array) -> MarkovRule | CanonicalRule:
        log_total = float(np.log(operator.total))
        markov = MarkovRule(geometry, kernel, operator.measure, operator.gain, operator.stationary, log_total)
        return CanonicalRule.of(markov, self.alpha) if self.canonical else markov

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """embedding = lambda^power psi = row @ (lambda^(power-1) psi)."""
        return functions * eigenvalues ** (self.power - 1)

    def scale(self, eigenvalues: Array) -> Array:
        """basis * scale is the embedding of the anchors (canonical: times the rule's root)."""
        return eigenvalues

    def dimension(self, operator: Operator, values: Array) -> int | None:
        """How many of the non-trivial values are worth keeping; None: more must be computed to tell."""
        return selection.spectral_dimension(values, t=self.power or 1.0)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        """The kept pairs, or an error if some are rounding or have no real power."""
        kept = not_rounding(values, kept, operator, asked, clip, skip=1)
        chosen = values[kept]
        if (chosen < 0).any() and self.power != int(self.power):
            told = f"t={self.power} is a fraction", "lambda^t", "a whole number"
            if self.canonical:
                told = f"t={2 * self.power:g} is not even", "lambda^(t/2)", "an even number"
            raise ValueError(
                f"{told[0]}, but {(chosen < 0).sum()} of the kept eigenvalues are negative "
                f"(down to {chosen.min():.3g}), so {told[1]} is not real. Use {told[2]} for t or fewer components."
            )
        return kept

    def amplification(self, values: Array) -> float:
        """How much the row rule magnifies rounding."""
        return float((np.abs(values) ** (self.power - 1)).max())

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        """Of the computed eigenvalues: the part of sum |lambda| that is negative."""
        return float(np.abs(values[values < 0]).sum() / np.abs(values).sum())


@dataclass(frozen=True)
class Unnormalized:
    """L = diag(d) - W diag(m), small end; eigenvalues are those of L.

    Copies of a row are merged first: L has eigenvectors that differ between copies, with eigenvalue d at that
    row, among the small ones; they are not functions of the data.
    """

    skip: ClassVar[int] = 1
    merges_copies: ClassVar[bool] = True
    unit_columns: ClassVar[bool] = False

    def fit(self, W: Array, measure: Array) -> Operator:
        """Turn W into the symmetric conjugate of -L, in place."""
        d = W @ measure
        scale_both_sides(W, np.sqrt(measure))
        stationary = measure / measure.sum()
        relative = W.copy()
        scale_both_sides(relative, 1 / np.sqrt(d))
        parts = components.find(links(relative), stationary)
        _add_to_diagonal(W, -d)
        spread = 2 * float(d.max())
        return Operator("laplacian", W, 0.0, spread, measure, stationary, parts, measure.copy(), d)

    def rule(self, operator: Operator, geometry: Any, kernel: Kernel, eigenvalues: Array) -> LaplacianRule:
        markov = MarkovRule(geometry, kernel, operator.measure, operator.gain)
        return LaplacianRule(markov, eigenvalues, float(operator.mass.min()))

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions.copy()

    def scale(self, eigenvalues: Array) -> Array:
        return np.ones(len(eigenvalues))

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return selection.spectral_dimension(1 + values * (2 / operator.spread))

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return kept  # the small end has no rank to run out of

    def amplification(self, values: Array) -> float:
        return 1.0

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return 0.0


def not_rounding(
    values: Array, kept: Array, operator: Operator, asked: str, clip: bool, skip: int, hint: str = ""
) -> Array:
    """The kept pairs, those beyond the rank left out if ``clip``, else refused."""
    norm = max(float(np.abs(values).max()), operator.spread / (2 * np.sqrt(operator.size)))  # at most the operator's
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


def lonely_mass(W: Any, measure: Array) -> Array:
    """Log mass each row sees beside itself (once). Summed without the diagonal: 1 + 1e-20 would forget."""
    own = W.diagonal().copy()
    if issparse(W):
        others = _patterns.off_diagonal_sums(W.indptr, W.indices, W.data, measure)
    else:
        np.fill_diagonal(W, 0.0)
        others = W @ measure
        np.fill_diagonal(W, own)
    beside = others + own * np.maximum(measure - 1, 0)  # a weight of 3 is two copies beside the row
    return np.log(np.maximum(beside, np.exp(LOG_FLOOR)))


def links(S: Any, least: float | None = None) -> Any:
    """Edges that floating point can see: dropping the others moves no eigenvalue by more than rounding."""
    cut = np.finfo(float).eps / S.shape[0] if least is None else least
    if not issparse(S):
        return cut < S
    keep = S.data > cut
    if keep.all():
        return S
    counts = np.add.reduceat(np.append(keep, False), S.indptr[:-1]) * (np.diff(S.indptr) > 0)
    return csr_array((S.data[keep], S.indices[keep], np.append(0, np.cumsum(counts))), shape=S.shape)


def scale_both_sides(W: Any, factor: Array) -> None:
    """W_ij times factor_i factor_j, in place."""
    if issparse(W):
        _patterns.scale_rows_and_columns(W.indptr, W.indices, W.data, factor, 0, W.shape[0])
    else:
        W *= factor[:, None]
        W *= factor


def _add_to_diagonal(W: Any, values: Array) -> None:
    """Add to the diagonal in place; every entry of it is stored."""
    if issparse(W):
        rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
        W.data[rows == W.indices] += values
    else:
        W[np.diag_indices_from(W)] += values
