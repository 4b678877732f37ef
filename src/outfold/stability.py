"""How far induction is from transduction: the experiment of Bengio et al. (2004), section 5.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import clone

from . import _resolve
from .alignment import Alignment
from .runners import Threads
from .sources import in_dask

Array = NDArray[Any]

MATCHES = ("signs", "rigid", "none")
LEAST_FIXED = 10  # rows of F


@dataclass(frozen=True)
class Induction:
    """How much farther rows move when data is exchanged than when they are left out and predicted; an entry a share."""

    fits: int
    exchanged: Array  #: shares of the rows that were exchanged, ``|R1| / n``
    delta: Array  #: mean of perturbation minus induction
    standard_error: Array  #: of delta, over rows of F as in the paper
    between_repeats: Array  #: the same from the means of repeats, which share no split; NaN of one repeat
    low: Array  #: 95 % interval of delta, by ``standard_error``
    high: Array
    perturbation: Array  #: mean distance after the exchange, aligned by regression
    induction: Array  #: mean distance of rows left out
    points: Array  #: how many rows of F were compared, repeats together

    @property
    def comparable_share(self) -> float:
        """The share at which delta first reaches 0, by interpolation; NaN if it never does.

        Where nothing is exchanged nothing is perturbed, and delta is minus the induction error.
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
    estimator: Any,
    X: Any,
    *,
    exchanged: Sequence[float] = (0.01, 0.02, 0.05, 0.1),
    repeats: int = 1,
    left_out: int | None = 30,
    match: str = "signs",
    random_state: int = 0,
    verbose: bool = False,
) -> Induction:
    """Compare the error of embedding a row it was not fitted to with what exchanging some of the data does.

    Rows are split into F, R1 and R2, ``|R1| = |R2|``. Perturbation of x in F: the distance between its places in fits
    of F + R1 and of F + R2, the second brought onto the first by linear regression over F. Induction: the distance
    between its place in the fit of F + R1 and the place that a fit of F + R1 without x predicts for it. delta is the
    mean difference (Bengio et al., 2004, section 5.3); above 0 induction is the smaller error.

    Parameters
    ----------
    estimator : a method of Outfold, or any estimator with ``fit`` and ``transform``
        It is cloned for each fit. What it chooses by the data (epsilon="auto") it chooses anew each time.
    X : array of shape (n, n_features), or a square matrix if precomputed; in memory
    exchanged : shares of the rows, ``|R1| / n``, each below 1/2
    repeats : int
        Splits for each share.
    left_out : int or None
        How many rows of F to leave out in turn, drawn at random: each takes a fit. None: every one, as in the paper.
    match : "signs", "rigid" or "none"
        How the fit without x is brought onto the fit with it, over the rows both have. The paper does nothing ("none").
        Outfold's signs are a function of the data, but one that may be near 0: "signs" flips back columns that flipped.
        "rigid" turns them too, for eigenvalues so close that one row turns their eigenvectors.
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
    shares, X = _checked(X, exchanged)
    repeats = _resolve.count("repeats", repeats)
    _resolve.one_of("match", match, MATCHES)
    most = len(X) if left_out is None else _resolve.count("left_out", left_out)
    trial = Trial(estimator, X, match)
    rng = np.random.default_rng(random_state)
    found: list[list[tuple[Array, Array]]] = []
    with Threads(None, verbose).bar("splits", len(shares) * repeats) as bar:
        for share in shares:
            size = max(1, round(share * len(X)))
            found.append([])
            for _ in range(repeats):
                order = rng.permutation(len(X))
                found[-1].append(trial.run(order[2 * size :], order[:size], order[size : 2 * size], most, rng))
                bar.update(1)
    return _summary(shares, found, trial.fits)


def _checked(X: Any, exchanged: Sequence[float]) -> tuple[Array, Array]:
    if in_dask(X):
        raise ValueError(
            "X is Dask's, and each of many fits is to all rows but a few. Draw as many as can be fitted that often, "
            "such as X[np.sort(np.random.default_rng(0).choice(len(X), 1000, replace=False))].compute()."
        )
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or not np.isfinite(X).all():
        raise ValueError(f"X must be a table of finite numbers; its shape is {X.shape}.")
    shares = np.atleast_1d(np.asarray(exchanged, dtype=float))
    if shares.ndim != 1 or not shares.size or not ((shares > 0) & (shares < 0.5)).all():
        raise ValueError(f"exchanged={exchanged!r} must be shares of the rows between 0 and 1/2.")
    left = len(X) - 2 * max(1, round(shares.max() * len(X)))
    if left < LEAST_FIXED:
        raise ValueError(
            f"Exchanging {shares.max():g} of {len(X)} rows leaves {left} rows to compare, fewer than {LEAST_FIXED}. "
            "Lower exchanged."
        )
    return np.sort(shares), X


class Trial:
    """Fits of parts of the rows, counted."""

    def __init__(self, estimator: Any, X: Array, match: str) -> None:
        self.estimator, self.X, self.match, self.fits = estimator, X, match, 0
        precomputed = getattr(estimator, "_precomputed", None)
        self.given = precomputed is not None and precomputed() is not None

    def run(
        self, fixed: Array, first: Array, second: Array, most: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Perturbation and induction of some rows of F."""
        chosen = fixed if most >= len(fixed) else rng.choice(fixed, most, replace=False)
        members = np.append(fixed, first)
        _, places = self._fitted(members)
        _, others = self._fitted(np.append(fixed, second))
        moved = _regressed(others[: len(fixed)], places[: len(fixed)])
        apart = np.linalg.norm(moved - places[: len(fixed)], axis=1)
        where = {row: at for at, row in enumerate(fixed.tolist())}
        at = np.array([where[row] for row in chosen.tolist()])
        return apart[at], np.array([self._left_out(members, place, places) for place in at])

    def _fitted(self, members: Array) -> tuple[Any, Array]:
        self.fits += 1
        part = self.X[np.ix_(members, members)] if self.given else self.X[members]
        fitted = clone(self.estimator).fit(part)
        places = getattr(fitted, "embedding_", None)
        return fitted, np.asarray(fitted.transform(part) if places is None else places, dtype=float)

    def _left_out(self, members: Array, at: int, places: Array) -> float:
        rest = np.delete(members, at)
        fitted, seen = self._fitted(rest)
        row = self.X[np.ix_([members[at]], rest)] if self.given else self.X[members[at]][None]
        options = {"on_far": "keep"} if hasattr(fitted, "model_") else {}
        predicted = np.asarray(fitted.transform(row, **options), dtype=float)
        known = np.delete(places, at, axis=0)
        if np.allclose((places**2).sum(axis=0), 1, rtol=1e-6):  # columns of length 1 shrink as rows are added
            shrink = np.sqrt(len(rest) / len(members))
            predicted, seen = shrink * predicted, shrink * seen
        return float(np.linalg.norm(_matched(self.match, seen, known, predicted) - places[at]))


def _regressed(moving: Array, fixed: Array) -> Array:
    """The moving embedding by linear regression onto the fixed one."""
    table = np.column_stack([np.ones(len(moving)), moving])
    return table @ np.linalg.lstsq(table, fixed, rcond=None)[0]


def _matched(how: str, moving: Array, fixed: Array, row: Array) -> Array:
    """The row, moved as the moving embedding is onto the fixed one."""
    if how == "rigid":
        return Alignment.of(moving, fixed, rescale=False)(row)[0]
    return row[0] * np.where((moving * fixed).sum(axis=0) < 0, -1.0, 1.0) if how == "signs" else row[0]


def _summary(shares: Array, found: list[list[tuple[Array, Array]]], fits: int) -> Induction:
    columns = []
    for repeats in found:
        perturbation, induction = (np.concatenate(part) for part in zip(*repeats))
        difference = perturbation - induction
        count = len(difference)
        error = float(difference.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
        means = np.array([(one - other).mean() for one, other in repeats])
        between = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")
        reach = error * float(student.ppf(0.975, max(count - 1, 1)))
        mean = float(difference.mean())
        columns.append((mean, error, between, mean - reach, mean + reach, perturbation.mean(), induction.mean(), count))
    return Induction(fits, shares, *np.array(columns).T)
