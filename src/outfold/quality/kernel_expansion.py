"""The kernel of a fitted method between any rows, and its expansion k(x, y) ~ sum_r lambda_r f_r(x) f_r(y).

Every method below computes the leading eigenfunctions of a data-dependent kernel (Bengio et al., 2004). With m the
measure of the anchors, f are orthonormal in m, and on the anchors the sum over all eigenpairs is the kernel:

    diffusion maps, Laplacian eigenmaps   a(x, y) = w(x, y) / (D(x) D(y)),  D = q^alpha sqrt(delta), over the anchors
    Roseland                              sqrt(d(x) d(y)) / sum d  sum_k p(x, k) p(y, k) / pi_k, k the landmarks
    low rank                              w(x, .) A^-1 w(., y) in the place of w(x, y)
    kernel PCA, MDS, Isomap               k(x, y) - mean k(x, .) - mean k(., y) + mean k, means over the anchors
    unnormalised Laplacian                w(x, y) + [x = y] (c - d(x)) / m: the top of c - L
    locally linear embedding              the top of c - (I - W)'(I - W); (c - 1) w(x, x_j) / m_j for new x, 0 for two

c is Gershgorin's bound on the largest eigenvalue, so that no eigenvalue of the kernel is negative: any c gives the same
functions. Where the coordinates leave out a constant, its eigenpair is the first of the expansion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils.validation import check_is_fitted

from .. import neighbors
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..distances import Metric
from ..operators.centred import CentredRule
from ..operators.landmark_diffusion import LandmarkMarkov
from ..operators.laplacian import LaplacianRule
from ..operators.local_weights import BarycentricRule, residual, weights_of_anchors
from ..operators.low_rank import LowRankRule
from ..operators.markov import CanonicalRule, MarkovRule
from ..operators.operator import Rows

LOG_DEGREE_FLOOR = -300.0  # log D below which 1 / D^2 overflows, or nearly


class Expansion(ABC):
    """A kernel, and the map from coordinates to its eigenfunctions."""

    def __init__(self, estimator: Any, rule: Any) -> None:
        self.rule = rule
        self.values = np.asarray(estimator.eigenvalues_, dtype=float)  # eigenvalues of the coordinates
        self.anchors = np.asarray(estimator.landmarks_, dtype=float)
        self.measure = np.asarray(estimator._anchor_measure, dtype=float)
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
            functions = embedding / self.values**power
        if not np.isfinite(functions).all():
            raise ValueError(
                f"t={power:g} leaves nothing of coordinates whose eigenvalue is {np.abs(self.values).min():.2g}: "
                "lambda^t is 0 in floating point. Lower t or n_components."
            )
        return functions


class Diffusion(Expansion):
    """Markov kernels over all anchors."""

    def __init__(self, estimator: Any, rule: MarkovRule | CanonicalRule) -> None:
        super().__init__(estimator, rule)
        normalization = estimator._fitted_recipe.view.normalization
        self.power = normalization.power
        self.canonical = isinstance(rule, CanonicalRule)
        self.symmetric = rule if isinstance(rule, CanonicalRule) else CanonicalRule.of(rule, normalization.alpha)
        if hasattr(estimator, "laplacian"):
            self.values = 1 - self.values

    def table(self, X: Array, Y: Array) -> Array:
        markov = self.symmetric.markov
        (X, of_x), (Y, of_y) = self._row_affinities(X), self._row_affinities(Y)
        return affinities(markov, X, Y) / np.exp(np.add.outer(of_x, of_y))

    def _row_affinities(self, X: Array) -> tuple[Array, Array]:
        """Return X, with rows that no anchor reaches replaced by their nearest anchor, and log D."""
        scaling = _by_blocks(self.symmetric.log_scaling, X, self.symmetric.row_entries)
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
        return np.exp(_by_blocks(self.symmetric.log_root, X, self.symmetric.row_entries))


def affinities(markov: MarkovRule, X: Array, Y: Array) -> Array:
    """Return w(x, y) between any rows, by the edge rule of the fit."""
    measured = markov.geometry.pairs(X, Y)
    kept = np.isfinite(measured)
    out = np.zeros(measured.shape)
    out[kept] = markov.kernel.affinity(measured[kept])
    return out


class Landmarks(Expansion):
    """Roseland: from rows to landmarks and back."""

    def __init__(self, estimator: Any, rule: MarkovRule) -> None:
        super().__init__(estimator, rule)
        self.power = estimator._fitted_recipe.view.normalization.power
        self.solved_on_anchors = False

    def _row_affinities(self, X: Array) -> tuple[Array, Array]:
        """Return the rows p(x, .), and sqrt(d(x) / sum d)."""
        rows: Rows = self.rule.rows(X)
        table = rows @ np.eye(len(self.rule.gain))
        least = np.log(np.finfo(float).tiny)  # log degree of a row that no landmark reaches
        log_degree = np.maximum(rows.log_degree, least) - np.log(table @ (self.rule.measure / self.rule.gain))
        return table, np.exp((log_degree - self.rule.log_total) / 2)

    def table(self, X: Array, Y: Array) -> Array:
        (P, of_x), (Q, of_y) = self._row_affinities(X), self._row_affinities(Y)
        return (P / self.rule.stationary) @ Q.T * np.multiply.outer(of_x, of_y)

    def functions(self, X: Array, embedding: Array) -> Array:
        return self._powers(embedding, self.power) * self.constant(X)[:, None]

    def constant(self, X: Array) -> Array:
        return _by_blocks(lambda part: self._row_affinities(part)[1], X, len(self.rule.gain))


class LowRankKernel(Expansion):
    """Diffusion maps and Laplacian eigenmaps of all rows by a low-rank kernel (``solver=LowRank()``)."""

    def __init__(self, estimator: Any, rule: LowRankRule) -> None:
        super().__init__(estimator, rule)
        view = estimator._fitted_recipe.view
        self.power, self.alpha, self.solved_on_anchors = view.power, view.alpha, False
        if hasattr(estimator, "laplacian"):
            self.values = 1 - self.values

    @cached_property
    def _factor(self) -> Any:
        points = self.rule.geometry.anchors
        return cho_factor(self.rule.kernel.affinity(self.rule.geometry.cross(points)))

    @cached_property
    def _log_total(self) -> float:
        """log sum m delta = log h' A^-1 h over the landmarks."""
        degrees = self.rule.degrees[:, 0]
        h = self.rule.kernel.affinity(self.rule.geometry.cross(self.rule.geometry.anchors)) @ degrees
        return float(np.log(h @ degrees))

    def _row_affinities(self, X: Array) -> tuple[Array, Array, Array]:
        """Return w(x, .), h and q; a row that no landmark reaches gets those of its nearest landmark."""
        rows = self.rule.rows(X)
        W, log_top = self.rule.look(X)
        astray = np.flatnonzero(~np.isfinite(rows.log_mass))
        if len(astray):
            geometry = self.rule.geometry
            W[astray], log_top[astray] = self.rule.look(geometry.anchors[geometry.nearest(X[astray])])
        W *= np.exp(log_top)[:, None]
        degrees = W @ self.rule.degrees
        return W, degrees[:, 0], degrees[:, 2] if self.alpha else np.ones(len(X))

    def table(self, X: Array, Y: Array) -> Array:
        (W, h, q), (V, g, p) = self._row_affinities(X), self._row_affinities(Y)
        return W @ cho_solve(self._factor, V.T) / np.sqrt(np.multiply.outer(h * q**self.alpha, g * p**self.alpha))

    def functions(self, X: Array, embedding: Array) -> Array:
        return self._powers(embedding, self.power) * self.constant(X)[:, None]

    def constant(self, X: Array) -> Array:
        _, h, q = self._row_affinities(X)
        return np.sqrt(h * q**-self.alpha) * np.exp(-self._log_total / 2)


class Centred(Expansion):
    """Kernel PCA, classical MDS and Isomap."""

    def __init__(self, estimator: Any, rule: CentredRule) -> None:
        super().__init__(estimator, rule)
        self.trivial = 0.0
        geometry = rule.geometry
        if hasattr(geometry, "at"):  # geodesics: anchors in the order of the table
            self.anchors = np.asarray(geometry.search.distances.anchors[geometry.at], dtype=float)
            self.measure = np.ones(len(self.anchors)) if rule.measure is None else rule.measure

    def to_anchors(self, X: Array) -> Array:
        if not hasattr(self.rule.geometry, "at"):
            return super().to_anchors(X)
        values = self.rule.geometry.values(X)[0] @ np.eye(len(self.anchors))
        level = float(self.rule.centre @ self._share)
        return values - (values @ self._share)[:, None] - (self.rule.centre - level)

    @cached_property
    def _share(self) -> Array:
        count = len(self.rule.centre)
        measure = np.ones(count) if self.rule.measure is None else self.rule.measure
        return measure / measure.sum()

    def _means(self, X: Array) -> Array:
        share = self._share[:, None]
        return _by_blocks(
            lambda part: (self.rule.geometry.values(part)[0] @ share)[:, 0], X, self.rule.geometry.row_entries
        )

    def table(self, X: Array, Y: Array) -> Array:
        level = float(self.rule.centre @ self._share)
        return self.rule.geometry.pairs(X, Y) - self._means(X)[:, None] - (self._means(Y) - level)

    def functions(self, X: Array, embedding: Array) -> Array:
        return embedding / np.sqrt(np.abs(self.values))

    def constant(self, X: Array) -> Array:
        raise AssertionError("centring leaves no constant")


class Small(Expansion):
    """The top of c - M, for methods that use the smallest eigenvalues of M; functions are embedding * ``size``."""

    size = 1.0

    def functions(self, X: Array, embedding: Array) -> Array:
        return embedding * self.size

    def constant(self, X: Array) -> Array:
        return np.full(len(X), 1 / np.sqrt(self.measure.sum()))

    def _places(self, X: Array) -> Array:
        """Return the number of the anchor that equals each row, -1 if none does."""
        known = {row.tobytes(): at for at, row in enumerate(np.ascontiguousarray(self.anchors) + 0.0)}
        return np.array([known.get(row.tobytes(), -1) for row in np.ascontiguousarray(X) + 0.0])


class Unnormalised(Small):
    """L = diag(d) - W diag(m)."""

    def __init__(self, estimator: Any, rule: LaplacianRule) -> None:
        super().__init__(estimator, rule)
        self.trivial = 2 * float(self._degrees(self.anchors).max())
        self.values = self.trivial - self.values
        self.size = float(1 / np.sqrt(self.measure.sum()))

    def _degrees(self, X: Array) -> Array:
        markov = self.rule.markov
        return np.exp(_by_blocks(lambda part: markov.rows(part).log_degree, X, markov.row_entries))

    def table(self, X: Array, Y: Array) -> Array:
        out = affinities(self.rule.markov, X, Y)
        places = self._places(X)
        mass = np.where(places < 0, 1.0, self.measure[places])
        more = (self.trivial - self._degrees(X)) / mass
        return out + more[:, None] * (_same(X)[:, None] == _same(Y, X))


class Residuals(Small):
    """M = (I - W)'(I - W)."""

    def __init__(self, estimator: Any, rule: BarycentricRule) -> None:
        super().__init__(estimator, rule)
        search = neighbors.build(Metric().fit(self.anchors), "auto")
        operator = residual(weights_of_anchors(search, rule.k, rule.reg, Threads())[0], self.measure)
        self.matrix, self.trivial = operator.matrix, operator.spread
        self.values = self.trivial - self.values
        self.search = search

    def table(self, X: Array, Y: Array) -> Array:
        if len(X) < len(Y):
            return self.table(Y, X).T
        at, to = self._places(X), self._places(Y)
        out = np.zeros((len(X), len(Y)))
        out[:, to >= 0] = self._to_anchors(X, at)[:, to[to >= 0]]
        new = to < 0
        if new.any():
            known = np.flatnonzero(at >= 0)
            out[np.ix_(known, new)] = self._to_anchors(Y[new], to[new])[:, at[known]].T
        return out

    def _to_anchors(self, X: Array, at: Array) -> Array:
        """k(x, x_j) for all anchors."""
        own = BarycentricRule(self.search, self.rule.k, self.rule.reg, self.rule.nearness)
        out = np.zeros((len(X), len(self.anchors)))
        new = np.flatnonzero(at < 0)
        if len(new):
            out[new] = (self.trivial - 1) * own.rows(X[new]).weights.toarray() / self.measure
        known = np.flatnonzero(at >= 0)
        root = np.sqrt(self.measure)
        out[known] = self.matrix[at[known]].toarray() / root[at[known], None] / root
        out[known, at[known]] += self.trivial / self.measure[at[known]]
        return out


def _same(X: Array, first: Array | None = None) -> Array:
    """Return a number per row, the same for equal rows; with ``first``, numbers of its rows and -1 for others."""
    known: dict[bytes, int] = {}
    for row in np.ascontiguousarray(X if first is None else first) + 0.0:
        known.setdefault(row.tobytes(), len(known))
    return np.array([known.get(row.tobytes(), -1) for row in np.ascontiguousarray(X) + 0.0])


def _by_blocks(function: Any, X: Array, width: int) -> Array:
    return np.concatenate([function(X[block]) for block in row_blocks(len(X), width)])


def expansion(estimator: Any) -> Expansion:
    """Return the expansion of a fitted estimator."""
    check_is_fitted(estimator)
    if not hasattr(getattr(estimator, "model_", None), "rule"):
        raise TypeError(
            f"{type(estimator).__name__} has no kernel to look at: pass a fitted spectral method of Outfold."
        )
    if estimator._precomputed_parameter():
        raise ValueError(
            f"{estimator._precomputed_parameter()}='precomputed' tells of rows and anchors only, and this needs the "
            "kernel between any rows: fit on features, with a metric or kernel that may be a callable."
        )
    rule, view = estimator.model_.rule, estimator._fitted_recipe.view
    if isinstance(rule, MarkovRule) and isinstance(getattr(view, "normalization", None), LandmarkMarkov):
        return Landmarks(estimator, rule)
    kinds = {
        MarkovRule: Diffusion,
        CanonicalRule: Diffusion,
        LowRankRule: LowRankKernel,
        CentredRule: Centred,
        LaplacianRule: Unnormalised,
        BarycentricRule: Residuals,
    }
    if type(rule) not in kinds:
        raise ValueError(
            f"The coordinates of {type(estimator).__name__} are scaled distances, not eigenfunctions of a kernel, so "
            "there is none to compare with. Judge them by quality.distance_correlation."
        )
    return kinds[type(rule)](estimator, rule)
