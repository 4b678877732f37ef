"""How far induction is from transduction: the experiment of Bengio et al. (2004), section 5.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data
from ..data.sources import require_in_memory
from ..extensions.alignment import Alignment
from ..methods import parameters

MATCHES = ("signs", "rigid", "none")
LEAST_FIXED = 10  # fewest rows of F


class FittableMap(Protocol):
    """An estimator of Outfold, or any other with ``fit`` and ``transform``."""

    def fit(self, X: Array) -> object: ...

    def transform(self, X: Array) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Induction:
    """Perturbation by exchanged data, minus the error of predicting left-out rows; one entry per exchanged share."""

    fits: int  #: how many fits were made
    exchanged: Array  #: shares of the rows that were exchanged, ``|R1| / n``
    delta: Array  #: mean over rows of perturbation minus induction
    standard_error: Array  #: standard error of delta, over rows of F as in the paper
    between_repeats: Array  #: standard error from the means of repeats, which share no split; NaN for one repeat
    low: Array  #: 95 % interval of delta, by ``standard_error``
    high: Array
    perturbation: Array  #: mean distance between the fits before and after the exchange, aligned by regression
    induction: Array  #: mean distance between the fitted and the predicted coordinates of left-out rows
    points: Array  #: how many rows of F were compared, over all repeats

    @property
    def comparable_share(self) -> float:
        """The share at which delta first reaches 0, by interpolation; NaN if it never does.

        At share 0 nothing is perturbed, so delta is minus the induction error.
        """
        shares, delta = np.append(0.0, self.exchanged), np.append(-self.induction[0], self.delta)
        above = np.flatnonzero(delta >= 0)
        if not len(above):
            return float("nan")
        at = max(1, above[0])
        return float(shares[at] - (shares[at] - shares[at - 1]) * delta[at] / (delta[at] - delta[at - 1]))

    def __str__(self) -> str:
        lines = ["exchanged       delta        95 % interval         perturbation  induction"]
        for i, share in enumerate(self.exchanged):
            interval = f"[{self.low[i]:.4g}, {self.high[i]:.4g}]"
            lines.append(
                f"{100 * share:7.2f} % {self.delta[i]:12.4g}  {interval:24s} {self.perturbation[i]:11.4g} "
                f"{self.induction[i]:10.4g}"
            )
        return "\n".join(lines)


def induction_versus_perturbation(
    estimator: FittableMap,
    X: Data,
    *,
    exchanged: Sequence[float] = (0.01, 0.02, 0.05, 0.1),
    repeats: int = 1,
    left_out: int | None = 30,
    match: str = "signs",
    random_state: int = 0,
    verbose: bool = False,
) -> Induction:
    """Compare the error of embedding a left-out row with the change that exchanging some of the data causes.

    Rows are split into F, R1 and R2, ``|R1| = |R2|``. Perturbation of x in F: the distance between its coordinates
    in the fits to F + R1 and to F + R2, the second aligned to the first by linear regression over F. Induction: the
    distance between its coordinates in the fit to F + R1 and those that a fit to F + R1 without x predicts. delta is
    the mean difference (Bengio et al., 2004, section 5.3); above 0 induction is the smaller error.

    Parameters
    ----------
    estimator : a method of Outfold, or any estimator with ``fit`` and ``transform``
        It is cloned for each fit. Each fit chooses anew what depends on the data (epsilon="auto").
    X : array of shape (n, n_features), or a square matrix if precomputed; in memory
    exchanged : shares of the rows, ``|R1| / n``, each below 1/2
    repeats : int
        Splits for each share.
    left_out : int or None
        How many rows of F to leave out in turn, drawn at random: each takes a fit. None: every row, as in the paper.
    match : "signs", "rigid" or "none"
        How the fit without x is aligned to the fit with x, over the rows both have. The paper does nothing ("none").
        Outfold's signs are a function of the data, but one that may be near 0: "signs" flips back columns that flipped.
        "rigid" also rotates them, for eigenvalues so close that one row rotates their eigenvectors.
    random_state : int
    verbose : bool

    Examples
    --------
    >>> from outfold import ClassicalMDS
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(100, random_state=0)
    >>> found = induction_versus_perturbation(ClassicalMDS(2), X, exchanged=[0.05, 0.2], left_out=10)
    >>> bool((found.delta > 0).all()), found.fits
    (True, 24)
    """
    shares, table = _check_splits(X, exchanged)
    repeats = parameters.count("repeats", repeats)
    parameters.one_of("match", match, MATCHES)
    most = len(table) if left_out is None else parameters.count("left_out", left_out)
    trial = Trial(estimator, table, match)
    rng = np.random.default_rng(random_state)
    found: list[list[tuple[Array, Array]]] = []
    with Threads(None, verbose).bar("splits", len(shares) * repeats) as bar:
        for share in shares:
            size = max(1, round(share * len(table)))
            found.append([])
            for _ in range(repeats):
                order = rng.permutation(len(table))
                found[-1].append(trial.run(order[2 * size :], order[:size], order[size : 2 * size], most, rng))
                bar.update(1)
    return _summary(shares, found, trial.fits)


def _check_splits(X: Data, exchanged: Sequence[float]) -> tuple[Array, Array]:
    refusal = ValueError(
        "X is Dask's, and each of many fits is to all rows but a few. Draw as many as can be fitted that often, "
        "such as X[np.sort(np.random.default_rng(0).choice(len(X), 1000, replace=False))].compute()."
    )
    table = np.asarray(require_in_memory(X, refusal), dtype=float)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"X must be a table of finite numbers; its shape is {table.shape}.")
    shares = np.atleast_1d(np.asarray(exchanged, dtype=float))
    if shares.ndim != 1 or not shares.size or not ((shares > 0) & (shares < 0.5)).all():
        raise ValueError(f"exchanged={exchanged!r} must be shares of the rows between 0 and 1/2.")
    left = len(table) - 2 * max(1, round(shares.max() * len(table)))
    if left < LEAST_FIXED:
        raise ValueError(
            f"Exchanging {shares.max():g} of {len(table)} rows leaves {left} rows to compare, fewer than "
            f"{LEAST_FIXED}. Lower exchanged."
        )
    return np.sort(shares), table


class Trial:
    """Fits to parts of the rows; ``fits`` counts them."""

    def __init__(self, estimator: FittableMap, X: Array, match: str) -> None:
        self.estimator, self.X, self.match, self.fits = estimator, X, match, 0
        precomputed = getattr(estimator, "_precomputed_parameter", None)
        self.given = precomputed is not None and precomputed() is not None

    def run(
        self, fixed: Array, first: Array, second: Array, most: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return perturbation and induction error of ``most`` random rows of F, or of all if there are fewer."""
        chosen = fixed if most >= len(fixed) else rng.choice(fixed, most, replace=False)
        members = np.append(fixed, first)
        _, places = self._fit(members)
        _, others = self._fit(np.append(fixed, second))
        moved = _regress(others[: len(fixed)], places[: len(fixed)])
        apart = np.linalg.norm(moved - places[: len(fixed)], axis=1)
        where = {row: at for at, row in enumerate(fixed.tolist())}
        at = np.array([where[row] for row in chosen.tolist()])
        return apart[at], np.array([self._leave_out(members, place, places) for place in at])

    def _fit(self, members: Array) -> tuple[FittableMap, Array]:
        self.fits += 1
        part = self.X[np.ix_(members, members)] if self.given else self.X[members]
        fitted = clone(self.estimator).fit(part)
        places = getattr(fitted, "embedding_", None)
        return fitted, np.asarray(fitted.transform(part) if places is None else places, dtype=float)

    def _leave_out(self, members: Array, at: int, places: Array) -> float:
        rest = np.delete(members, at)
        fitted, seen = self._fit(rest)
        row = self.X[np.ix_([members[at]], rest)] if self.given else self.X[members[at]][None]
        options = {"on_far": "keep"} if hasattr(fitted, "model_") else {}
        predicted = np.asarray(fitted.transform(row, **options), dtype=float)
        known = np.delete(places, at, axis=0)
        if np.allclose((places**2).sum(axis=0), 1, rtol=1e-6):  # columns of length 1 shrink as rows are added
            shrink = np.sqrt(len(rest) / len(members))
            predicted, seen = shrink * predicted, shrink * seen
        if self.match == "rigid":
            predicted = Alignment.of(seen, known, rescale=False)(predicted)
        elif self.match == "signs":
            predicted = predicted * np.where((seen * known).sum(axis=0) < 0, -1.0, 1.0)
        return float(np.linalg.norm(predicted[0] - places[at]))


def _regress(moving: Array, fixed: Array) -> Array:
    """Return the moving embedding after linear regression onto the fixed one."""
    table = np.column_stack([np.ones(len(moving)), moving])
    moved: Array = table @ np.linalg.lstsq(table, fixed, rcond=None)[0]
    return moved


def _summary(shares: Array, found: list[list[tuple[Array, Array]]], fits: int) -> Induction:
    """Return means and standard errors, an entry per share, from perturbation and induction of each repeat."""
    pooled = [[np.concatenate(part) for part in zip(*repeats)] for repeats in found]
    perturbation, induction = (np.array([part.mean() for part in column]) for column in zip(*pooled))
    delta = np.array([(one - other).mean() for one, other in pooled])
    error = np.array([_standard_error(one - other) for one, other in pooled])
    means = [np.array([(one - other).mean() for one, other in repeats]) for repeats in found]
    points = np.array([float(len(one)) for one, _ in pooled])
    reach = error * student.ppf(0.975, np.maximum(points - 1, 1))
    return Induction(
        fits=fits,
        exchanged=shares,
        delta=delta,
        standard_error=error,
        between_repeats=np.array([_standard_error(values) for values in means]),
        low=delta - reach,
        high=delta + reach,
        perturbation=perturbation,
        induction=induction,
        points=points,
    )


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
