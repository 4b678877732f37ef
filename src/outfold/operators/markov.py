"""Markov normalisation: from affinities to a symmetric operator, and from the affinities of a new point to its row.

``Markov(alpha)`` and ``Unnormalized`` are specifications. Fitted to an affinity matrix W and a measure m, they return
an operator (for training: a symmetric matrix whose largest eigenpairs are wanted). From the operator they make the row
rule (the weights of any point on the anchors). Rows are computed in the log domain, so a point far from all anchors has
the exact limit instead of 0/0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse

from .._loops import csr, exponentials
from .._loops.elementwise import softmax
from .._runtime.typing import Array
from ..graphs import components
from ..kernels import Kernel
from ..trust import LOG_FLOOR
from . import spectrum
from .operator import Operator, Rows, fill_empty_rows, links, not_rounding, scale_both_sides


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
        """Return the approximate number of entries in a row, which sets the size of blocks."""
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
        """Return a log weight relative to the largest: weights below it do not change the sum of a row."""
        return -42.0 - float(np.log(self.gain.max() / self.gain.min()))

    def _sparse(self, Z: Array, measured: csr_array) -> Rows:
        empty = np.flatnonzero(np.diff(measured.indptr) == 0)
        if len(empty):
            measured = fill_empty_rows(measured, empty, self.geometry.nearest(Z[empty]))
        ptr, columns = measured.indptr, measured.indices
        witness = self.kernel.witness(measured.data)
        seen, factor = self.kernel.logs(measured.data)
        log_degree = np.empty(len(Z))
        exponentials.softmax_rows(ptr, columns, seen, factor, self.gain, self.measure, log_degree)
        log_mass = log_degree.copy()
        if witness is not None:
            with np.errstate(divide="ignore"):
                log_mass = np.log(np.add.reduceat(witness * self.measure[columns], ptr[:-1]))
        log_degree[empty] = log_mass[empty] = -np.inf
        return Rows(csr_array((seen, columns, ptr), shape=measured.shape), log_degree, log_mass)


@dataclass(frozen=True)
class CanonicalRule:
    """v(x) = root(x) psi(x), root(x)^2 = delta(x) / sum_j m_j delta_j: a Markov row times its own degree.

    delta(x) = q(x)^-alpha sum_j w(x, x_j) m_j q_j^-alpha = q(x)^(1 - alpha) / (p(x, .) q^alpha), over the anchors. A
    row with nothing in reach has the degree of its nearest anchor.
    """

    markov: MarkovRule
    alpha: float
    powers: Array  # (n,), q^alpha
    root: Array  # (n,), root(x) at the anchors
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
        """Return log d(x) of the kernel k = w / (d d'), d = q^alpha sqrt(delta); -inf if no anchor is in reach."""
        rows = self.markov.rows(Z)
        with np.errstate(invalid="ignore"):
            found = self.alpha * rows.log_degree + self._log_delta(rows) / 2
        return np.where(np.isfinite(rows.log_degree), found, -np.inf)

    @property
    def log_scaling_of_anchors(self) -> Array:
        return np.log(self.powers) + np.log(self.root) + self.log_total / 2

    def log_root(self, Z: Array) -> Array:
        """Return log sqrt(delta(x) / sum m delta): this root times psi is an eigenvector of the symmetric kernel."""
        return (self._log_delta(self.markov.rows(Z)) - self.log_total) / 2

    def _log_delta(self, rows: Rows) -> Array:
        typical, nearest = (rows @ np.column_stack([self.powers, self.root**2])).T
        with np.errstate(invalid="ignore"):
            found = (1 - self.alpha) * rows.log_degree - np.log(typical)
        return np.where(np.isfinite(rows.log_degree), found, np.log(nearest) + self.log_total)


@dataclass(frozen=True)
class SolvedOverLandmarks:
    """Base of normalisations whose operator acts on the rows, is positive and is solved over landmarks."""

    power: float
    skip: ClassVar[int] = 1
    unit_columns: ClassVar[bool] = False

    def eigenvalues(self, operator_values: Array) -> Array:
        return operator_values

    def scale(self, eigenvalues: Array) -> None:
        """Return None: the embedding of a landmark comes from its own row, it is not a multiple of the basis."""
        return None

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectrum.spectral_dimension(values, t=self.power or 1.0)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return not_rounding(np.maximum(values, 0), kept, operator, asked, clip, skip=1)

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return 0.0


@dataclass(frozen=True)
class Markov:
    """q = W m, A = W / (q^a q^a'), P = A diag(m) / d: diffusion with the density removed to degree alpha.

    alpha = 0 is the graph Laplacian, 1/2 the Fokker-Planck operator, 1 Laplace-Beltrami
    (the density does not matter). ``canonical``: the coordinates are the eigenvectors v = sqrt(d / sum m d) psi of the
    symmetric kernel A / sqrt(d d') instead of psi.
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
        """Return the operator; W becomes the symmetric conjugate of P, in place."""
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
        """Return how many of the non-trivial eigenvalues to select; None: more must be computed to decide."""
        return spectrum.spectral_dimension(values, t=self.power or 1.0)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        """Return ``kept``. Raise ValueError if an eigenvalue is rounding (``clip``: left out) or has no real power."""
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
        """Return the factor by which the row rule magnifies rounding."""
        return float((np.abs(values) ** (self.power - 1)).max())

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        """Return the negative part of sum |lambda| over the computed eigenvalues."""
        return float(np.abs(values[values < 0]).sum() / np.abs(values).sum())


def log_mass_without_self(W: Any, measure: Array) -> Array:
    """Return the log kernel mass of each row without one copy of itself.

    The sum leaves out the diagonal; subtracting it afterwards would lose small terms (1 + 1e-20 - 1 = 0).
    """
    own = W.diagonal().copy()
    if issparse(W):
        others = csr.off_diagonal_sums(W.indptr, W.indices, W.data, measure)
    else:
        np.fill_diagonal(W, 0.0)
        others = W @ measure
        np.fill_diagonal(W, own)
    beside = others + own * np.maximum(measure - 1, 0)  # a weight of 3 counts as two copies beside the row
    return np.log(np.maximum(beside, np.exp(LOG_FLOOR)))
