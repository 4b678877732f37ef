"""Markov normalisation: from affinities to a symmetric operator, and from the affinities of a new point to its row.

``Markov(alpha)`` and ``Unnormalized`` are specifications. Fitted to an affinity matrix W and a measure m, they return
an operator (for training: a symmetric matrix whose largest eigenpairs are wanted). From the operator they make the row
rule (the weights of any point on the anchors). Rows are computed in the log domain, so a point far from all anchors has
the exact limit instead of 0/0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr, exponentials
from .._loops.elementwise import softmax
from .._runtime.typing import POSITIVE, WEIGHTS, Array, Axes, Matrix, Sparse
from ..graphs import components
from ..graphs.nearest import NearestAnchors
from ..graphs.protocols import FittedKernel, Geometry, Graph
from ..trust import LOG_FLOOR, Isolation
from .concerns import Concern
from .directions import LOOKED
from .expansion import EigenPairs, Expansion, by_blocks
from .operator import (
    MarkovChain,
    MarkovOperator,
    Normalization,
    Operator,
    RowRule,
    Rows,
    add_to_diagonal,
    fading_concerns,
    fill_empty_rows,
    links,
    not_rounding,
    put_rows,
    scale_both_sides,
)
from .spectrum import spectral_dimension


@dataclass(frozen=True, kw_only=True)
class MarkovRule(RowRule):
    """p(x, .) = softmax_j(log w(x, x_j) + log m_j - alpha log q_j); the density of x cancels.

    A row with nothing in reach is its nearest anchor, or has that anchor's row (``as_nearest``), with support -inf.
    """

    geometry: Annotated[Geometry, Axes("n d")]
    kernel: FittedKernel
    measure: Annotated[Array, Axes("n"), WEIGHTS]
    gain: Annotated[Array, Axes("n"), POSITIVE]  # m / q^alpha
    stationary: Annotated[Array | None, Axes("n"), WEIGHTS] = None  # pi of the anchors
    log_total: float = 0.0  # log sum m d
    as_nearest: bool = False  # anchors are embedded by their own rows, and so are rows with nothing in reach

    @property
    def row_entries(self) -> int:
        """Return the approximate number of entries in a row, which sets the size of blocks."""
        return self.geometry.row_entries

    @classmethod
    def of(cls, operator: MarkovOperator, geometry: Geometry, kernel: FittedKernel, total: float) -> MarkovRule:
        """Return the rule of an operator whose degrees have the sum ``total``."""
        gain, stationary = operator.gain, operator.stationary
        return cls(
            geometry=geometry,
            kernel=kernel,
            measure=operator.measure,
            gain=gain,
            stationary=stationary,
            log_total=float(np.log(total)),
        )

    @property
    def training_rows(self) -> tuple[Isolation, Array] | None:
        return self.geometry.training_rows if isinstance(self.geometry, NearestAnchors) else None

    def nearest(self, Z: Array) -> Array:
        return self.geometry.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.geometry.sees_nothing(Z)

    def at_nearest(self, Z: Array) -> Rows:
        at, anchors = self.nearest(Z), self.geometry.anchors
        if anchors.ndim == 2:
            return self.rows(anchors[at])
        one, lost = (
            np.ones(len(at)),
            np.full(len(at), -np.inf),
        )  # the row of a landmark is not known: it is the landmark
        weights = csr_array((one, at, np.arange(len(at) + 1)), shape=(len(at), len(anchors)))
        return Rows(weights=weights, log_degree=lost, log_mass=lost)

    def markov_chain(self) -> MarkovChain | None:
        return MarkovChain(rule=self, anchors=self.geometry.anchors, measure=self.measure, stationary=self.stationary)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        if measured is None and isinstance(self.geometry, NearestAnchors):
            near = self.geometry.look(Z)
            return replace(self._sparse(Z, near.values), log_mass=near.log_mass, surroundings=near.surroundings)
        seen = self.geometry.cross(Z) if measured is None else measured
        return self._dense(Z, seen) if isinstance(seen, np.ndarray) else self._sparse(Z, seen)

    def _dense(self, Z: Array, measured: Array) -> Rows:
        seen, factor = self.kernel.logs(measured)
        top, total, mass = softmax(seen, factor, self.gain, self.measure, self._cut)
        empty = np.flatnonzero(~np.isfinite(top))
        if len(empty):
            seen[empty] = 0.0
            seen[empty, self.geometry.nearest(Z[empty])] = total[empty] = mass[empty] = 1.0
        log_mass = top + np.log(mass)
        return Rows(weights=seen, log_degree=log_mass, log_mass=log_mass, divisor=total[:, None])

    @cached_property
    def _cut(self) -> float:
        """Return a log weight relative to the largest: weights below it do not change the sum of a row."""
        return -42.0 - float(np.log(self.gain.max() / self.gain.min()))

    def _sparse(self, Z: Array, measured: Sparse) -> Rows:
        empty = np.flatnonzero(np.diff(measured.indptr) == 0)
        alone = empty
        if len(empty) and self.as_nearest and self.geometry.anchors.ndim == 2:
            seen_there = self.geometry.cross(self.geometry.anchors[self.geometry.nearest(Z[empty])])
            assert not isinstance(seen_there, np.ndarray)
            measured, alone = put_rows(measured, empty, seen_there), empty[np.diff(seen_there.indptr) == 0]
        if len(alone):
            measured = fill_empty_rows(measured, alone, self.geometry.nearest(Z[alone]))
        ptr, columns = measured.indptr, measured.indices
        witness = self.kernel.witness(measured.data)
        seen, factor = self.kernel.logs(measured.data)
        seen[ptr[alone]] = 0.0  # weight 1, whether the kernel takes distances or affinities
        log_degree = np.empty(len(Z))
        exponentials.softmax_rows(ptr, columns, seen, factor, self.gain, self.measure, log_degree)
        log_mass = log_degree.copy()
        if witness is not None:
            with np.errstate(divide="ignore"):
                log_mass = np.log(np.add.reduceat(witness * self.measure[columns], ptr[:-1]))
        log_degree[empty] = log_mass[empty] = -np.inf
        weights = csr_array((seen, columns, ptr), shape=measured.shape)
        return Rows(weights=weights, log_degree=log_degree, log_mass=log_mass)


@dataclass(frozen=True, kw_only=True)
class CanonicalRule(RowRule):
    """v(x) = root(x) psi(x), root(x)^2 = delta(x) / sum_j m_j delta_j: a Markov row times its own degree.

    delta(x) = q(x)^-alpha sum_j w(x, x_j) m_j q_j^-alpha = q(x)^(1 - alpha) / (p(x, .) q^alpha), over the anchors. A
    row with nothing in reach has the degree of its nearest anchor.
    """

    markov: Annotated[MarkovRule, Axes("n d")]
    alpha: float
    powers: Annotated[Array, Axes("n")]  # (n,), q^alpha
    root: Annotated[Array, Axes("n")]  # (n,), root(x) at the anchors
    log_total: float  # log sum_j m_j delta_j

    @classmethod
    def of(cls, markov: MarkovRule, alpha: float) -> CanonicalRule:
        assert markov.stationary is not None
        root, powers = np.sqrt(markov.stationary / markov.measure), markov.measure / markov.gain
        return cls(markov=markov, alpha=alpha, powers=powers, root=root, log_total=markov.log_total)

    @property
    def geometry(self) -> Geometry:
        return self.markov.geometry

    @property
    def roots(self) -> Array:
        return self.root

    @property
    def training_rows(self) -> tuple[Isolation, Array] | None:
        return self.markov.training_rows

    def nearest(self, Z: Array) -> Array:
        return self.markov.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.markov.sees_nothing(Z)

    def at_nearest(self, Z: Array) -> Rows:
        return self.rows(self.geometry.anchors[self.nearest(Z)])

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        rows = self.markov.rows(Z, measured)
        with np.errstate(over="ignore"):
            divisor = np.exp((self.log_total - self._log_delta(rows)) / 2)[:, None]
        return rows.divide(divisor)

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
        result: Array = np.where(np.isfinite(rows.log_degree), found, np.log(nearest) + self.log_total)
        return result


@dataclass(frozen=True, kw_only=True)
class LooplessRule(RowRule):
    """The row of a walk that never stays: psi(x) = p(x, .) psi / (lambda + (1 - lambda) s(x)).

    The row of a training point includes the point itself; s(x) is the share of one copy of x in its row,

        s(x) = c q(x)^-alpha / sum_j w(x, x_j) m_j q_j^-alpha,    q(x) = sum_j w(x, x_j) m_j - c,    w(x, x) = 1

    c is the weight of a copy: 1, or the least weight if that is less. No share is above 1, so that a point far from the
    data tends to its nearest anchor; no q(x) is below half the least of the anchors.
    """

    markov: Annotated[MarkovRule, Axes("n d")]
    eigenvalues: Annotated[Array, Axes("c")]
    alpha: float
    copy: Annotated[float, POSITIVE]  # c
    powers: Annotated[Array, Axes("n")]  # q^alpha
    least_mass: Annotated[float, POSITIVE]  # the smallest q of the anchors
    root: Annotated[Array | None, Axes("n")] = None  # canonical coordinates: root(x) at the anchors, see CanonicalRule

    @property
    def geometry(self) -> Geometry:
        return self.markov.geometry

    @property
    def roots(self) -> Array | None:
        return self.root

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.markov.nearest(Z)

    def at_nearest(self, Z: Array) -> Rows:
        return self.rows(self.geometry.anchors[self.nearest(Z)])

    def at(self, eigenvalues: Array) -> LooplessRule:
        return replace(self, eigenvalues=eigenvalues)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        rows = self.markov.rows(Z, measured)
        reached = np.isfinite(rows.log_degree)
        columns = np.column_stack([self.powers, np.ones(len(self.powers)) if self.root is None else self.root**2])
        typical, nearest = (rows @ columns).T
        log_total = rows.log_degree - np.log(typical)  # of sum_j w(x, x_j) m_j q_j^-alpha
        log_mass = np.log(self._mass(Z, rows.log_degree))
        log_own = np.log(self.copy) - self.alpha * log_mass
        own = np.ones(len(Z))
        own[reached] = np.exp(np.minimum(log_own[reached] - log_total[reached], 0.0))
        divisor = guard_poles(self.eigenvalues + np.multiply.outer(own, 1 - self.eigenvalues))
        if self.root is not None:
            seen = reached & (1 - own > ALONE)
            log_root = np.log(nearest) / 2  # of a row that sees little but one copy of itself, or nothing
            log_delta = log_total[seen] + np.log(1 - own[seen]) - self.alpha * log_mass[seen]
            log_root[seen] = (log_delta - self.markov.log_total) / 2
            with np.errstate(over="ignore"):
                divisor *= np.exp(-log_root)[:, None]
        return rows.divide(divisor)

    def _mass(self, Z: Array, log_degree: Array) -> Array:
        """Return q(x); where little is left beside the copy, as a sum without cancellation."""
        found = np.exp(log_degree) - self.copy
        close = np.flatnonzero(np.abs(found) < 0.1 * self.copy) if self.alpha else np.empty(0, dtype=int)
        if len(close):
            measured = self.geometry.cross(np.ascontiguousarray(Z[close]))
            dense: Array = measured if isinstance(measured, np.ndarray) else measured.toarray()
            stored = np.isfinite(dense) if isinstance(measured, np.ndarray) else _pattern(measured)
            w = np.zeros(dense.shape)
            w[stored] = self.markov.kernel.affinity(dense[stored])
            at = np.arange(len(w)), w.argmax(axis=1)
            first, own = w[at], self.markov.measure[at[1]]
            w[at] = 0.0
            found[close] = w @ self.markov.measure + (own - self.copy) * first - self.copy * (1 - first)
        return np.maximum(found, self.least_mass / 2)


ALONE = 1e-10  # share of others in a row, below which its degree without itself is that of its nearest anchor


def _pattern(M: Sparse) -> Array:
    """Return which entries are stored, as a dense table."""
    stored = np.zeros(M.shape, dtype=bool)
    stored[np.repeat(np.arange(M.shape[0]), np.diff(M.indptr)), M.indices] = True
    return stored


def guard_poles(divisor: Array) -> Array:
    """Return the divisors, none closer to 0 than 1e-8, in place."""
    small = np.abs(divisor) < 1e-8
    divisor[small] = np.where(divisor[small] < 0, -1e-8, 1e-8)
    return divisor


@dataclass(frozen=True)
class SolvedOverLandmarks(Normalization):
    """Base of normalisations whose operator acts on the rows, is positive and is solved over landmarks."""

    power: float
    of_all_rows: ClassVar[bool] = True

    @property
    def looked(self) -> int:
        return LOOKED

    def scale(self, eigenvalues: Array) -> None:
        """Return None: the embedding of a landmark comes from its own row, it is not a multiple of the basis."""
        return None

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectral_dimension(values, t=self.power or 1.0)

    def concerns(self, eigenvalues: Array) -> list[Concern]:
        return fading_concerns(eigenvalues, self.power)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return not_rounding(np.maximum(values, 0), kept, operator, asked, clip, skip=1)


class GraphNormalization(Normalization):
    """A normalisation of affinities on a graph."""

    @property
    def looked(self) -> int:
        return LOOKED

    @property
    def merges_copies(self) -> bool:
        """Whether copies of a row are merged; no need if a function that differs between them has eigenvalue 0."""
        return False

    @property
    def has_diagonal(self) -> bool:
        """Whether a row is its own neighbour."""
        return True

    def fit(self, W: Matrix, measure: Array) -> Operator:
        """Return the operator of the affinities W, which it changes."""
        raise AssertionError("a normalisation says what its operator is")

    def normalize(
        self, W: Matrix, measure: Array, geometry: Geometry, kernel: FittedKernel
    ) -> tuple[Operator, RowRule]:
        """Return the operator of the affinities W, which it changes, and the rule of rows."""
        raise AssertionError("a normalisation says what its operator is")

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        """Return the kernel whose eigenfunctions the coordinates are; None: it has no rows of any point."""
        raise AssertionError("a normalisation says what its kernel is")


@dataclass(frozen=True)
class Markov(GraphNormalization):
    """q = W m, A = W / (q^a q^a'), P = A diag(m) / d: diffusion with the density removed to degree alpha.

    alpha = 0 is the graph Laplacian, 1/2 the Fokker-Planck operator, 1 Laplace-Beltrami
    (the density does not matter). ``canonical``: the coordinates are the eigenvectors v = sqrt(d / sum m d) psi of the
    symmetric kernel A / sqrt(d d') instead of psi. Without the ``diagonal`` a sample is not its own neighbour: W is
    replaced by W - c I / m, c one copy of each row. Copies are merged then: functions that differ between copies are
    not functions of the data.
    """

    alpha: float = 1.0
    power: float = 1.0  # embedding = lambda^power psi
    canonical: bool = False
    diagonal: bool = True

    @property
    def unit_columns(self) -> bool:
        return self.canonical

    @property
    def has_diagonal(self) -> bool:
        return self.diagonal

    @property
    def merges_copies(self) -> bool:
        return not self.diagonal

    def of_operator(self, operator: Operator) -> Normalization:
        if self.diagonal:
            return self
        assert isinstance(operator, MarkovOperator)
        assert operator.own is not None
        return LooplessMarkov(self.alpha, self.power, self.canonical, False, operator.own)

    def fit(self, W: Matrix, measure: Array) -> MarkovOperator:
        """Return the operator; W becomes the symmetric conjugate of P, in place."""
        if not self.diagonal:
            leave_out_copy(W, measure)
        q = W @ measure
        weight = q**-self.alpha
        d = (weight * (W @ (weight * measure))).clip(min=np.finfo(float).tiny)
        scale_both_sides(W, weight * np.sqrt(measure / d))
        total = float(measure @ d)
        stationary = measure * d / total
        parts = components.find(links(W), stationary)
        own = None
        if not self.diagonal:
            own = weight**2 * copy_weight(measure)
            own /= d + own
        return MarkovOperator(
            matrix=W,
            measure=measure,
            stationary=stationary,
            parts=parts,
            gain=measure * weight,
            mass=q,
            total=total,
            own=own,
        )

    def normalize(
        self, W: Matrix, measure: Array, geometry: Geometry, kernel: FittedKernel
    ) -> tuple[Operator, RowRule]:
        operator = self.fit(W, measure)
        markov = MarkovRule.of(operator, geometry, kernel, operator.total)
        if not self.diagonal:
            return operator, self._loopless_rule(operator, markov)
        return operator, CanonicalRule.of(markov, self.alpha) if self.canonical else markov

    def _loopless_rule(self, operator: MarkovOperator, markov: MarkovRule) -> LooplessRule:
        assert operator.own is not None
        return LooplessRule(
            markov=markov,
            eigenvalues=np.empty(0),
            alpha=self.alpha,
            copy=copy_weight(operator.measure),
            powers=operator.measure / operator.gain,
            least_mass=float(operator.mass.min()),
            root=np.sqrt(operator.stationary / operator.measure) if self.canonical else None,
        )

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        if isinstance(rule, LooplessRule):
            return None
        assert isinstance(rule, MarkovRule | CanonicalRule)
        return DiffusionKernel(rule, pairs, self)

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """embedding = lambda^power psi = row @ (lambda^(power-1) psi)."""
        basis: Array = functions * eigenvalues ** (self.power - 1)
        return basis

    def scale(self, eigenvalues: Array) -> Array:
        """basis * scale is the embedding of the anchors (canonical: times the rule's root)."""
        return eigenvalues

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectral_dimension(values, t=self.power or 1.0)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        """As for every normalisation; an eigenvalue must also have a real power."""
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

    def concerns(self, eigenvalues: Array) -> list[Concern]:
        return fading_concerns(eigenvalues, self.power)

    def amplification(self, values: Array) -> float:
        return float((np.abs(values) ** (self.power - 1)).max())

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        """Return the negative part of sum |lambda| over the computed eigenvalues."""
        return float(np.abs(values[values < 0]).sum() / np.abs(values).sum())


@dataclass(frozen=True)
class LooplessMarkov(Markov):
    """``Markov`` without the diagonal, fitted: psi(x) = p(x, .) psi / (lambda + (1 - lambda) s(x))."""

    own: Array | None = None  # s of the anchors

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        basis: Array = functions * eigenvalues**self.power
        return basis

    def scale(self, eigenvalues: Array) -> Array:
        return np.ones(len(eigenvalues))

    def amplification(self, values: Array) -> float:
        """Return the largest |lambda|^power / |divisor| at an anchor."""
        assert self.own is not None
        least = [np.abs(value + (1 - value) * self.own).min() for value in values]
        return float((np.abs(values) ** self.power / np.maximum(least, 1e-8)).max())


ALONE_BELOW = 1e-20  # weight of all others: a row for which they weigh less stays its own neighbour


def copy_weight(measure: Array) -> float:
    """Return the weight of a copy that a row leaves out: 1, or the least weight if that is less."""
    return min(1.0, float(measure.min()))


def leave_out_copy(W: Matrix, measure: Array) -> None:
    """Subtract one copy of each row from its own entry, in place: w_ii becomes w_ii (1 - c / m_i).

    A row without any other neighbour keeps its entry: a walk must go somewhere.
    """
    own = W.diagonal().copy()
    rest = own * (1 - copy_weight(measure) / measure)
    add_to_diagonal(W, rest - own)
    alone = W @ measure < ALONE_BELOW
    if alone.any():
        add_to_diagonal(W, np.where(alone, own, 0.0))


def log_mass_without_self(W: Matrix, measure: Array) -> Array:
    """Return the log kernel mass of each row without one copy of itself.

    The sum leaves out the diagonal; subtracting it afterwards would lose small terms (1 + 1e-20 - 1 = 0).
    """
    own = W.diagonal().copy()
    if isinstance(W, np.ndarray):
        np.fill_diagonal(W, 0.0)
        others = W @ measure
        np.fill_diagonal(W, own)
    else:
        others = csr.off_diagonal_sums(W.indptr, W.indices, W.data, measure)
    beside = others + own * np.maximum(measure - 1, 0)  # a weight of 3 counts as two copies beside the row
    result: Array = np.log(np.maximum(beside, np.exp(LOG_FLOOR)))
    return result


# -- the kernel between any rows ---------------------------------------------------------------

LOG_DEGREE_FLOOR = -300.0  # log D below which 1 / D^2 overflows, or nearly


class DiffusionKernel(Expansion):
    """Markov kernels over all anchors."""

    def __init__(self, rule: MarkovRule | CanonicalRule, pairs: EigenPairs, normalization: Markov) -> None:
        super().__init__(pairs)
        self.power, self.canonical = normalization.power, normalization.canonical
        self.symmetric = rule if isinstance(rule, CanonicalRule) else CanonicalRule.of(rule, normalization.alpha)

    def table(self, X: Array, Y: Array) -> Array:
        markov = self.symmetric.markov
        (X, of_x), (Y, of_y) = self._row_affinities(X), self._row_affinities(Y)
        return affinities(markov, X, Y) / np.exp(np.add.outer(of_x, of_y))

    def _row_affinities(self, X: Array) -> tuple[Array, Array]:
        """Return X, with rows that no anchor reaches replaced by their nearest anchor, and log D."""
        scaling = by_blocks(self.symmetric.log_scaling, X, self.symmetric.row_entries)
        lost = np.flatnonzero(~np.isfinite(scaling))
        if len(lost):
            geometry, X = self.symmetric.geometry, X.copy()
            X[lost] = geometry.anchors[geometry.nearest(X[lost])]
            scaling[lost] = self.symmetric.log_scaling(X[lost])
        far = np.flatnonzero(scaling < LOG_DEGREE_FLOOR)
        if len(far):
            raise ValueError(
                f"{len(far)} of {len(X)} rows are so far outside the data that the kernel of a row with itself, "
                f"1 / d(x), is beyond floating point (the first is row {far[0]}). Leave out what trust(X) flags."
            )
        return X, scaling

    def functions(self, X: Array, embedding: Array) -> Array:
        functions = self._powers(embedding, self.power)
        return functions if self.canonical else functions * self.constant(X)[:, None]

    def constant(self, X: Array) -> Array:
        return np.exp(by_blocks(self.symmetric.log_root, X, self.symmetric.row_entries))


def affinities(markov: MarkovRule, X: Array, Y: Array) -> Array:
    """Return w(x, y) between any rows, by the edge rule of the fit."""
    assert isinstance(markov.geometry, Graph)
    measured = markov.geometry.pairs(X, Y)
    kept = np.isfinite(measured)
    out = np.zeros(measured.shape)
    out[kept] = markov.kernel.affinity(measured[kept])
    return out
