"""How far to trust the embedding of a row: facts about it, and its p-value among rows of the training data.

A row is flagged if its p-value is below a level. The p-value compares the score of the row with the scores of training
rows, each without itself. The score is a maximum over facts. A fact v is put on a common scale by the upper tenth of
its values on training rows, q its 90 % quantile and s the mean excess over q (from the median one):

    T(v) = log 10 + (v - q) / s,    -log of the tail probability if the tail is exponential
    score = max(T(isolation), 4 (T(v) - log 100) over the other facts v)

Isolation, which separates unknown classes best (docs/trust.md), is the main fact. The others count from their rarest
hundredth on (facts of fits: from their rarest thousandth), and then steeply: they see what isolation does not, and
hardly dilute it otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated

import numpy as np
from scipy.linalg import eigh
from scipy.stats import binom
from sklearn.utils.extmath import randomized_svd

from ._runtime.typing import FREE, POSITIVE, RISING, WEIGHTS, WHOLE, Array, Axes, Index, Interval
from .data.sparse_rows import SparseRows, squares_about
from .data.weights import weighted_quantile

SAMPLED_ROWS = 1_000_000  # training rows for the typical mass; if there are more, an even sample of them
LOG_FLOOR = -700.0  # log mass of a point without neighbours in reach, where exp would underflow
LEVEL = 0.01  # rows with a smaller p-value are flagged
REFERENCE_ROWS = 2000  # training rows that new rows are compared with, at most
MASSES = 2000  # log masses of training rows that a reference stores, at most
RANKED_SHARE = 4  # one in this number of rows sets the scale of the facts; the others are compared with
RANKED_FROM = 1000  # rows: fewer do both, because the tail of a quarter of them would be too few to set the scales
TAIL_RULE_UP_TO = 99  # rows compared with: a p-value can then be below 1 / (rows + 1)
OTHERS_FROM, FITS_FROM, OTHERS_SLOPE = np.log(100.0), np.log(1000.0), 4.0  # see the score above
TAIL_SHARE = 0.1  # of the rows beyond q
LEAST_SCALE = 1e-3  # of a fact, in units of its logarithm

LOW = "low "  # before the name of a fact of which small values are strange
SUPPORT = LOW + "support"
FACTS_OF_FITS = (SUPPORT, "residual", "disagreement", "round_trip")  # honest about held-out rows only


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """Facts about rows; every field is an array (rows,), or None if it was not computed."""

    support: Array  #: log kernel mass relative to the typical training row
    #: geometric mean distance to the nearest training rows, near ones first, relative to the distances between those
    isolation: Array | None = None
    distance: Array | None = None  #: to the nearest training row, in units of that row's distance to its 8th neighbour
    amplitude: Array | None = None  #: Mahalanobis length in the leading principal axes, 1 for a typical row
    remainder: Array | None = None  #: length outside these axes, 1 for a typical row
    residual: Array | None = None  #: k(x, x) - k_hat(x, x), 0 where the training points explain x, 1 where they do not
    disagreement: Array | None = None  #: distance to the embedding by another extension
    round_trip: Array | None = None  #: distance to ``inverse_transform(transform(x))``

    def logs(self, name: str) -> Array:
        """Return a fact on a scale on which its tail is about exponential: the larger the stranger.

        ``name`` is that of a field, with "low " before it if small values are strange.
        """
        fact = name.removeprefix(LOW)
        values: Array = getattr(self, fact)
        with np.errstate(divide="ignore"):
            if fact == "residual":
                values = -np.log(np.maximum(1 - values, 1e-12))
            elif fact != "support":
                values = np.log(values)
        return values if fact == name else -values

    @classmethod
    def join(cls, parts: list[RowFacts]) -> RowFacts:
        """Return the facts of several batches of rows as one; those that every batch has."""
        columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(cls)}
        whole = {name: np.concatenate(found) for name, found in columns.items() if all(v is not None for v in found)}
        return cls(**whole)


@dataclass(frozen=True, kw_only=True)
class Trust(RowFacts):
    """How far to trust the embedding of each row; every field is an array (rows,) or None."""

    p_value: Array  #: share of rows of the training data that are at least as strange
    score: Array  #: how strange the row is; about -log of that share
    flag: Array  #: True if the row is outside the training data: its p-value is below ``level``
    error: Array | None = None  #: after calibration: error radius, which contains the embedding by a joint fit


# -- the judgement -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Judge:
    """The score of any row, and the scores of training rows that it is compared with."""

    names: tuple[str, ...]  # of the facts, the main one first
    start: Annotated[Array, Axes("f")]  # q
    scale: Annotated[Array, Axes("f"), POSITIVE]  # s
    scores: Annotated[Array, Axes("s"), FREE, RISING]  # of training rows, increasing
    weight: Annotated[Array, Axes("s"), WEIGHTS]  # of these rows

    def __post_init__(self) -> None:
        known = {field.name for field in fields(RowFacts)}
        unknown = [name for name in self.names if name.removeprefix(LOW) not in known]
        if unknown or not self.names or len(self.names) != len(self.start):
            raise ValueError(f"{len(self.start)} scales belong to the facts {self.names}; unknown are {unknown}.")

    @classmethod
    def of(cls, facts: RowFacts, names: tuple[str, ...], weight: Array) -> Judge:
        """Return the judge of rows like these, each of which was described without itself.

        A quarter of the rows sets q and s, and the others are compared with, so that the scores of these and of new
        rows are exchangeable.
        """
        known = tuple(name for name in names if getattr(facts, name.removeprefix(LOW)) is not None)
        columns = _columns(facts, known)
        order = np.random.default_rng(0).permutation(len(columns))
        ranked = order[::RANKED_SHARE] if len(order) >= RANKED_FROM else order
        others = np.setdiff1d(order, ranked) if len(order) >= RANKED_FROM else order
        start, scale = np.array([upper_tail(column[ranked]) for column in columns.T]).T
        empty = np.empty(0)
        judge = cls(names=known, start=start, scale=scale, scores=empty, weight=empty)
        scores = judge.score(facts)[others]
        order = np.argsort(scores, kind="stable")
        return replace(judge, scores=scores[order], weight=_cap_copies(scores, weight[others])[order])

    def score(self, facts: RowFacts) -> Array:
        """Return the score of each row. One that equals a training row is strange by its support only, else -inf.

        Training rows may have little support: those far from all landmarks.
        """
        with np.errstate(over="ignore"):
            tails = -np.log(TAIL_SHARE) + (_columns(facts, self.names) - self.start) / self.scale
        main = tails[:, 0]
        least = np.array([FITS_FROM if name in FACTS_OF_FITS else OTHERS_FROM for name in self.names])
        others = OTHERS_SLOPE * (tails - least)
        score = np.fmax(main, np.fmax.reduce(others[:, 1:], axis=1, initial=-np.inf))
        copy = np.full(len(main), -np.inf)
        if SUPPORT in self.names[1:]:
            copy = others[:, self.names.index(SUPPORT)]
        return np.where(np.isneginf(main), copy, score)

    def p_value(self, score: Array) -> Array:
        """Return (1 + weight of the rows with a score at least as high) / (1 + weight of all rows).

        Compared with 99 rows or fewer that cannot fall below 0.01. Then it is divided by e for every unit of score
        beyond the largest, as an exponential tail is.
        """
        below = np.append(0.0, np.cumsum(self.weight))
        total = below[-1]
        p = (1 + total - below[np.searchsorted(self.scores, score, side="left")]) / (1 + total)
        if total <= TAIL_RULE_UP_TO and len(self.scores):
            p = np.where(score > self.scores[-1], self._tail(score), p)
        values: Array = p
        return values

    def _tail(self, score: Array) -> Array:
        """Return p-values beyond the largest score: they are divided by e for every unit."""
        finite = self.scores[np.isfinite(self.scores)]
        beyond = np.clip(score - (finite[-1] if len(finite) else 0.0), 0.0, 600.0)
        p: Array = np.exp(-beyond) / (1 + self.weight.sum())
        return p

    def alarms(self, score: Array, flag: Array, level: float = LEVEL) -> bool:
        """Return whether a batch holds rows that rows like the training rows do not explain.

        One in a hundred of these is flagged as well. So either more rows are flagged than that (with a probability of
        1 in 1000), or one is so strange that the tail of the training scores, continued, has it in less than 1 of 100
        batches of this size.
        """
        if not flag.any():
            return False
        rarest = float(self._tail(score[flag]).min())
        return bool(rarest * len(flag) < LEVEL or binom.sf(int(flag.sum()) - 1, len(flag), level) < 1e-3)

    def judge(self, facts: RowFacts, level: float = LEVEL) -> Trust:
        """Return the facts with their verdict. Rows with no training row in reach are always flagged."""
        score = self.score(facts)
        astray = ~(facts.support > -np.inf)
        score = np.where(astray, np.inf, score)
        p = self.p_value(score)
        given = {field.name: getattr(facts, field.name) for field in fields(RowFacts)}
        return Trust(**given, score=score, p_value=p, flag=astray | (p < level))


def calibrated_judge(parts: list[tuple[RowFacts, tuple[str, ...]]], weight: Array) -> Judge:
    """Return the judge of rows by all facts, from the held-out rows of several fits.

    ``parts`` are the facts of the rows, and the names of those that each fit judges new rows by without calibration.
    """
    shared = [name for name in parts[0][1] if all(name in names for _, names in parts)]
    others = [name for name in FACTS_OF_FITS if name not in shared]
    return Judge.of(RowFacts.join([facts for facts, _ in parts]), (*shared, *others), weight)


def _columns(facts: RowFacts, names: tuple[str, ...]) -> Array:
    return np.column_stack([facts.logs(name) for name in names])


def upper_tail(values: Array) -> tuple[float, float]:
    """Return q and s: the 90 % quantile, and the mean excess over it of an exponential tail with the same median.

    The median excess, because a few outliers among the rows would stretch the mean. It is at least half of what an
    exponential distribution has with the same distance from median to q: few rows may be equally strange by chance.
    """
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    middle, start = (float(q) for q in np.quantile(values, [0.5, 1 - TAIL_SHARE]))
    excess = values[values > start] - start
    beyond = float(np.median(excess)) / np.log(2.0) if len(excess) else 0.0
    return start, max(beyond, 0.5 * (start - middle) / np.log(0.5 / TAIL_SHARE), LEAST_SCALE)


def _cap_copies(scores: Array, weight: Array) -> Array:
    """Return the weights, with those of rows that have copies together at most as large as those of the others.

    If most rows have copies, their weights are importances rather than counts: then any new row would be strange.
    """
    copies = np.isneginf(scores)
    single, repeated = float(weight[~copies].sum()), float(weight[copies].sum())
    capped: Array = np.where(copies, weight * min(1.0, single / repeated if repeated else 1.0), weight)
    return capped


# -- facts from distances ------------------------------------------------------------------

ISOLATION_NEIGHBORS = 20  # nearest training rows of which isolation is a mean
UNIT_NEIGHBOR = 8  # the unit of a training row is its distance to this neighbour
LOCAL_SHARE = 0.75  # power of a neighbour's own unit in isolation; the rest is that of the typical unit


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """How far a row is from the training rows, relative to how far these are from each other.

        log isolation(x) = sum_k (log d_k - 3/4 log u_k - 1/4 log u) / k over sum_k 1 / k

    d_k is the distance to the k-th nearest training row, u_k the unit of that row (the distance to its 8th neighbour)
    and u the median unit. Units of the neighbours alone would not see a row beside a sparse cluster that is far from
    everything; the typical unit alone would flag sparse clusters.
    """

    unit: Annotated[Array, Axes("n"), POSITIVE]
    typical: Annotated[float, POSITIVE]
    count: Annotated[int, Interval(0, "n")]  # neighbours that are counted
    sample: Annotated[Array, Axes("m"), Index("n"), WHOLE]  # some of the rows
    alone: Annotated[Array, Axes("m"), FREE]  # log isolation of these rows, each without itself
    weight: Annotated[Array, Axes("m"), WEIGHTS]  # of these rows

    @classmethod
    def of(cls, ptr: Array, index: Array, squared: Array, measure: Array, most: int = REFERENCE_ROWS) -> Isolation:
        """Return it for rows with lists of their neighbours, nearest first and with themselves, as CSR."""
        n = len(ptr) - 1
        keep = index != np.repeat(np.arange(n), np.diff(ptr))
        counts = np.add.reduceat(np.append(keep, False), ptr[:-1])
        ptr, index, squared = np.append(0, np.cumsum(counts)), index[keep], squared[keep]
        count = min(ISOLATION_NEIGHBORS, int(counts.min()))
        if count == 0:
            none = np.empty(0)
            return cls(unit=np.ones(n), typical=1.0, count=0, sample=none.astype(int), alone=none, weight=none)
        last = min(UNIT_NEIGHBOR, count)
        unit, further = (np.sqrt(squared[ptr[:-1] + at - 1]) for at in (last, min(last + 1, count)))
        floor = 0.1 * float(np.median(unit)) + np.finfo(float).tiny
        unit, further = np.maximum(unit, floor), np.maximum(further, floor)
        sample = np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))
        at = ptr[:-1][sample, None] + np.arange(count)
        nearest, d = index[at], np.sqrt(squared[at])
        units = np.where(d <= unit[nearest], further[nearest], unit[nearest])  # without this row, one neighbour less
        typical = float(np.median(unit))
        alone = np.where(measure[sample] >= 2, -np.inf, _mean_log(d, units, typical))
        return cls(unit=unit, typical=typical, count=count, sample=sample, alone=alone, weight=measure[sample])

    def facts(self, ptr: Array, index: Array, squared: Array) -> Array:
        """Return isolation and distance of new rows, (rows, 2), from lists of their nearest training rows as CSR."""
        if self.count == 0:
            return np.column_stack([np.ones(len(ptr) - 1), np.sqrt(squared[ptr[:-1]])])
        if np.diff(ptr).min(initial=self.count) < self.count:
            raise ValueError(
                f"A row has {np.diff(ptr).min()} neighbours, and its isolation is a mean over {self.count}. No fit is "
                "like that, so the model was changed or its file forged: fit again."
            )
        at = ptr[:-1, None] + np.arange(self.count)
        units, d = self.unit[index[at]], np.sqrt(squared[at])
        return np.column_stack([np.exp(_mean_log(d, units, self.typical)), d[:, 0] / units[:, 0]])


def _mean_log(d: Array, units: Array, typical: float) -> Array:
    weights = 1 / np.arange(1.0, d.shape[1] + 1)
    with np.errstate(divide="ignore"):
        logs = np.log(d) - LOCAL_SHARE * np.log(units) - (1 - LOCAL_SHARE) * np.log(typical)
    mean: Array = logs @ (weights / weights.sum())
    return mean


# -- facts from the covariance -------------------------------------------------------------

AXES_UP_TO = 100  # principal axes
EXACT_UP_TO = 200  # rows or features, whichever are fewer: of more the axes are found by a randomised method
AXES_SHARE = 0.9  # of the variance that the leading axes hold
ROWS_PER_AXIS = 10
LEAST_REMAINDER = 1e-3  # share of the variance: a smaller remainder is not a fact
BLANK_FROM = 10  # axes: in fewer dimensions the centre is not empty, so a small amplitude is not strange


@dataclass(frozen=True, kw_only=True)
class PrincipalAxes:
    """The leading principal axes of the training rows, in which noise and blank rows differ from them.

    A row of noise has too much outside the axes, a blank one too little inside: neither need be far from all rows.
    """

    centre: Annotated[Array, Axes("d")]
    axes: Annotated[Array, Axes("d m")]
    deviations: Annotated[Array, Axes("m"), POSITIVE]
    rest: Annotated[float | None, POSITIVE]  # deviation outside the axes; None: there is too little

    @classmethod
    def of(cls, X: Array, count: int | None = None) -> PrincipalAxes | None:
        """Return ``count`` axes; None: those that hold 90 % of the variance, at most 100 and a tenth of the rows.

        There are none of too few rows, of equal rows and of features with NaN.
        """
        n, features = X.shape
        most = min(AXES_UP_TO, n // ROWS_PER_AXIS, features) if count is None else min(count, n - 1)
        if most < 1 or not np.isfinite(X.data if isinstance(X, SparseRows) else X).all():
            return None
        centre = X.mean(axis=0)
        total = float(squares_about(X, centre).sum()) / (n - 1)
        if not 0 < total < np.inf:
            return None
        if isinstance(X, SparseRows):
            variances, V = _leading_axes_of_sparse(X, centre, most)
        else:
            variances, V = _leading_axes(X - centre, most)
        held = np.cumsum(variances) / total
        chosen = min(most, int(np.searchsorted(held, AXES_SHARE)) + 1) if count is None else most
        chosen = min(chosen, max(1, int((variances > 1e-12 * total).sum())))
        rest = 1 - held[chosen - 1]
        return cls(
            centre=centre,
            axes=np.ascontiguousarray(V[:, :chosen]),
            deviations=np.sqrt(variances[:chosen]),
            rest=float(np.sqrt(rest * total)) if rest > LEAST_REMAINDER else None,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The facts that can be strange."""
        low = (LOW + "amplitude",) if len(self.deviations) >= BLANK_FROM else ()
        return ("amplitude", *low, *(() if self.rest is None else ("remainder",)))

    def facts(self, Z: Array) -> tuple[Array, Array | None]:
        """Return amplitude and remainder of rows."""
        inside = Z @ self.axes - self.centre @ self.axes if isinstance(Z, SparseRows) else (Z - self.centre) @ self.axes
        amplitude = np.sqrt(np.square(inside / self.deviations).mean(axis=1))
        if self.rest is None:
            return amplitude, None
        outside = squares_about(Z, self.centre) - np.square(inside).sum(axis=1)
        return amplitude, np.sqrt(np.maximum(outside, 0.0)) / self.rest

    def without_self(self, X: Array) -> tuple[Array, Array | None]:
        """Return the facts of the rows X of these axes, each by as many axes of rows that it is not among.

        By their own axes, outliers would look ordinary: they turn an axis towards themselves.
        """
        folds = 5 if min(X.shape) <= EXACT_UP_TO else 2
        label = np.random.default_rng(0).permutation(len(X)) % folds
        amplitude, remainder = np.empty(len(X)), np.empty(len(X))
        for fold in range(folds):
            others = PrincipalAxes.of(X[label != fold], len(self.deviations))
            if others is None:  # equal rows
                return self.facts(X)
            held = label == fold
            amplitude[held], outside = others.facts(X[held])
            remainder[held] = 0.0 if outside is None else outside
        return amplitude, None if self.rest is None else remainder


def _leading_axes_of_sparse(X: SparseRows, centre: Array, most: int) -> tuple[Array, Array]:
    """Return the same as ``_leading_axes`` of sparse rows less their mean, from the products between the rows."""
    n = len(X)
    products: Array = (X @ X.T).toarray()
    products -= products.mean(axis=0)
    products -= products.mean(axis=1)[:, None]
    values, U = eigh(products / (n - 1), subset_by_index=(max(0, n - most), n - 1))
    values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
    V = X.T @ U - np.outer(centre, U.sum(axis=0))
    return values, V / np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)


def _leading_axes(C: Array, most: int) -> tuple[Array, Array]:
    """Return the ``most`` largest variances of centred rows, decreasing, and their axes, (features, most)."""
    n, features = C.shape
    if min(n, features) > EXACT_UP_TO:
        _, s, V = randomized_svd(C, most, n_iter=2, random_state=0)
        return np.square(s) / (n - 1), V.T
    if features <= n:
        values, V = np.linalg.eigh(C.T @ C / (n - 1))
        return np.maximum(values[::-1][:most], 0.0), V[:, ::-1][:, :most]
    values, U = np.linalg.eigh(C @ C.T / (n - 1))
    values, U = np.maximum(values[::-1][:most], 0.0), U[:, ::-1][:, :most]
    V = C.T @ U
    return values, V / np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)


# -- support -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nearness:
    """Support if kernel mass says nothing about distance: -d^2 / (2 unit^2), d the distance to the nearest anchor."""

    unit_squared: Annotated[float, POSITIVE]  # median squared distance of an anchor to the nearest distinct anchor

    @classmethod
    def of(cls, squared: Array, measure: Array, weighed: bool = False) -> tuple[Nearness, Reference]:
        """Return (nearness, reference) from the anchors' squared distances to the nearest distinct anchor.

        The median is continuous in the measure, unless that is ``weighed``: the weight of the rows that a landmark is
        nearest to, which is no number of copies.
        """
        if not np.isfinite(squared).any():
            squared = np.ones(len(squared))
        squared = np.where(np.isfinite(squared), squared, np.nanmax(squared[np.isfinite(squared)]))
        nearness = cls((_step_median if weighed else _median)(squared, measure))
        lonely = np.maximum(nearness.log_mass(squared), LOG_FLOOR)
        return nearness, Reference.of(lonely, measure)

    def log_mass(self, squared: Array) -> Array:
        return np.maximum(-0.5 * (squared / self.unit_squared), -np.finfo(float).max)


def _median(values: Array, measure: Array) -> float:
    return weighted_quantile(values, measure, 0.5)


def _step_median(values: Array, measure: Array) -> float:
    order = np.argsort(values)
    return float(values[order[np.searchsorted(np.cumsum(measure[order]), measure.sum() / 2 * (1 - 1e-12))]])


@dataclass(frozen=True)
class Reference:
    """Log masses of training rows without themselves, with which the log mass of a new row is compared."""

    typical: float  # median log mass
    lowest: float  # log mass that 1 % of the rows are below
    masses: Annotated[Array | None, Axes("m"), RISING] = (
        None  # at even steps of weight, increasing; None: a file of 0.1.0
    )

    @classmethod
    def of(cls, lonely_log_mass: Array, measure: Array) -> Reference:
        order = np.argsort(lonely_log_mass)
        level = np.cumsum(measure[order]) / measure.sum()
        typical, lowest = (lonely_log_mass[order[np.searchsorted(level, at - 1e-12)]] for at in (0.5, LEVEL))
        count = min(MASSES, max(1, round(float(measure.sum()))))
        steps = (np.arange(count) + 0.5) / count
        masses = lonely_log_mass[order[np.minimum(np.searchsorted(level, steps), len(order) - 1)]]
        return cls(float(typical), float(lowest), masses)

    def facts(self, log_mass: Array) -> RowFacts:
        return RowFacts(support=log_mass - self.typical)

    def judge(self) -> Judge:
        """Return the judge by support alone, where there are no features: of a precomputed matrix."""
        masses = self._two_quantiles() if self.masses is None else self.masses
        facts = self.facts(masses)
        return Judge.of(facts, (SUPPORT,), np.ones(len(masses)))

    def _two_quantiles(self) -> Array:
        """Return masses with the median and the 1 % quantile of this reference, and an exponential lower tail."""
        shares = (np.arange(MASSES) + 0.5) / MASSES
        masses: Array = self.typical - (self.typical - self.lowest) * np.log(0.5 / shares) / np.log(0.5 / LEVEL)
        return masses
