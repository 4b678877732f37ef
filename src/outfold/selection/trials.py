"""Fits of candidates for ``outfold.selection.tune``, their errors, and the choice between them.

Errors of held-out rows fall as kernels grow wider, since smooth functions are easy to extend. They are half of the
matter, the variance. The other half is the bias, what a wide kernel can no longer see. It shows as a difference to
narrower kernels that is larger than their own noise. Fits of different width are made comparable by diffusing them for
the same time tau: with rates mu_k = -2 log(lambda_k) / epsilon, which tend to the eigenvalues of the Laplacian, the
coordinates exp(-mu_k tau) psi_k depend on the width only through its errors. (Rates of kernels in local units have no
common unit, so they are divided by their mean.) Then, with E the coordinates and D the aligned distance,

    variance(width) = (held-out error^2 + stability^2) / 2, both by the jackknife over folds
    bias(width)     = max over narrower w of [D(E_width, E_w)^2 - variance(w)]_+ and bias(w)
    width           = argmin variance + bias

which is the method of Goldenshluger and Lepski (2011), for embeddings. The bias never falls as the width grows: a
kernel that is far too wide may agree with a narrow one by accident, since rates first rise and then fall. The method's
own width stays unless another has a total that is lower by a standard error, and is not mostly noise itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..data.sources import InMemory
from ..engine import cross_fit
from ..engine.fit import Fit, Recipe, fit_recipe
from ..extensions.alignment import Alignment

FADED = 0.05  # weight of the last coordinate relative to the first, at the time tau of the comparison

UNSURE = 0.5  # a larger total error is mostly noise

Weigh: TypeAlias = Callable[[Array, Array], Array]  # rates and functions -> weighted functions


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Parameters to try."""

    alpha: float | None  # None: the method has none
    changed: dict[str, Any]  # parameters of the width that differ from the method's own
    n_neighbors: int | None = None  # if this number is searched

    @property
    def own(self) -> bool:
        """Whether the width is the method's own."""
        return not self.changed


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One candidate. Errors are root mean squares relative to that of the embedding; bands are standard errors."""

    epsilon: float  #: width of the kernel in the units of the data; NaN if the method has none
    n_neighbors: int | None = None  #: if this number was searched
    alpha: float | None
    error: float  #: error of held-out rows after alignment
    error_band: float
    stability: float  #: how far fits to different rows differ
    stability_band: float
    bias: float  #: distance to narrower kernels beyond what their noise explains
    total: float  #: root of (error^2 + stability^2) / 2 + bias^2
    total_band: float
    own: bool  #: whether the width is the method's own
    eigenvalues: Array = field(repr=False)

    def __str__(self) -> str:
        parts = [] if self.n_neighbors is None else [f"{self.n_neighbors:<11d}"]
        parts += [f"{self.epsilon:<10.4g}", "-    " if self.alpha is None else f"{self.alpha:<5.3g}"]
        pairs = ((self.error, self.error_band), (self.stability, self.stability_band))
        parts += [f"{value:6.3f} +- {band:.3f}" for value, band in pairs]
        return "  ".join([*parts, f"{self.bias:6.3f}", f"{self.total:6.3f} +- {self.total_band:.3f}"])


# -- fits and their errors -----------------------------------------------------------------


@dataclass(frozen=True)
class WithoutFold:
    """A fit without one fold."""

    held: Array  # mask of the rows of the fold
    rates: Array
    functions: Array  # at all rows


@dataclass(frozen=True, kw_only=True)
class TuningTrial:
    """Fits with the same parameters: to all rows, and without each fold."""

    candidate: Proposal
    whole: Fit
    rates: Array  # mu of the fit to all rows
    functions: Array  # (rows, components)
    parts: list[WithoutFold]

    @property
    def epsilon(self) -> float:
        return self.whole.report.epsilon

    @classmethod
    def of(
        cls, X: Array, candidate: Proposal, recipe: Recipe, rates: Callable[[Fit], Array], folds: int,
        seeds: list[int], runner: Threads,
    ) -> TuningTrial | ValueError:  # fmt: skip
        """Fit all rows, then all but each fold. Return the ValueError if a fit raises one."""
        try:
            measure = np.ones(len(X))
            found = fit_recipe(InMemory(X), recipe, measure, np.random.default_rng(seeds[0]), runner)
            sample, part = cross_fit.draw_sample(InMemory(X), recipe, found, len(X), runner)
            parts = []
            for seed in seeds:
                for fold in cross_fit.folds(sample, part, folds, runner, seed):
                    held = np.zeros(len(X), dtype=bool)
                    held[fold.held] = True
                    functions = np.empty((len(X), len(fold.found.eigenvalues)))
                    functions[~held] = fold.found.embedding
                    functions[held] = fold.found.model.embed(fold.points, runner)
                    shrink = fold.alignment.scale  # columns have length 1 over the fitted rows, which are fewer
                    parts.append(WithoutFold(held, rates(fold.found), shrink * functions))
        except ValueError as error:
            return error
        return cls(
            candidate=candidate,
            whole=found,
            rates=rates(found),
            functions=np.asarray(found.embedding),
            parts=parts,
        )

    def align(self, weigh: Weigh) -> tuple[Array, list[tuple[Array, Array]]]:
        """Return the weighted embedding, centred, and per fold its held-out mask and its aligned embedding."""
        whole = weigh(self.rates, self.functions)
        whole = whole - whole.mean(axis=0)
        placed = []
        for part in self.parts:
            moving, free = _pad(weigh(part.rates, part.functions), whole.shape[1]), ~part.held
            placed.append((part.held, Alignment.of(moving[free], whole[free], rescale=False)(moving)))
        return whole, placed

    def errors(self, weigh: Weigh) -> tuple[Array, Array, Array]:
        """Return the weighted embedding and, per fold, the squared held-out error and deviation from the mean fold.

        Both are relative to the variance of the embedding, and multiplied by folds - 1 (the jackknife): a fit without
        one fold lacks few rows, so it errs less than a fit to new data would.
        """
        whole, placed = self.align(weigh)
        spread, count = (whole**2).sum() / len(whole), len(placed)
        more = count / sum(float(held.mean()) for held, _ in placed) - 1
        held_out = [((place - whole)[held] ** 2).sum() / held.sum() / spread for held, place in placed]
        mean = np.mean([place for _, place in placed], axis=0)
        apart = [((place - mean) ** 2).sum() / len(whole) / spread * count / (count - 1) for _, place in placed]
        return whole, more * np.array(held_out), more * np.array(apart)

    def reproduce(self) -> Array:
        """Return the squared held-out error of each coordinate, relative to its variance."""
        whole, placed = self.align(_as_it_is)
        left = sum(((place - whole)[held] ** 2).mean(axis=0) / len(placed) for held, place in placed)
        error: Array = left / np.maximum(whole.var(axis=0), np.finfo(float).tiny)
        return error


def _pad(values: Array, columns: int) -> Array:
    """Return ``columns`` columns, the missing ones 0: the rank of a fold may allow fewer components."""
    return np.pad(values, ((0, 0), (0, max(0, columns - values.shape[1]))))[:, :columns]


def _apart(one: Array, other: Array) -> float:
    """Return the squared distance of two centred embeddings after alignment, relative to the product of their norms."""
    columns = max(one.shape[1], other.shape[1])
    one, other = _pad(one, columns), _pad(other, columns)
    left = Alignment.of(one, other, rescale=False)(one) - other
    return float((left**2).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


# -- the choice ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """All candidates of one alpha, from narrow to wide, and the number of the best."""

    table: list[Setting]
    trials: list[TuningTrial]
    best: int

    @property
    def chosen(self) -> Setting:
        return self.table[self.best]

    @property
    def trial(self) -> TuningTrial:
        return self.trials[self.best]


def compare(tried: list[TuningTrial | ValueError], *, fade: bool) -> Comparison:
    """Compare at the time tau of the best candidate: choose, set tau, and repeat until a choice comes again.

    Without ``fade`` coordinates are not weighted by rates, and the first candidate is chosen.
    """
    trials = [trial for trial in tried if isinstance(trial, TuningTrial)]
    if not trials:
        raise ValueError(
            f"None of {len(tried)} candidates could be fitted to these rows and to parts of them; the last said: "
            f"{tried[-1]}"
        )
    if not fade:
        return Comparison(_table(trials, _as_it_is), trials, 0)
    trials.sort(key=lambda trial: trial.epsilon)
    at = len(trials) // 2
    least = 1e-3 * max(float(trial.rates[-1]) for trial in trials)  # disconnected graphs: rates of 0
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        mu = trials[at].rates
        tau = -np.log(FADED) / max(mu[-1] - mu[0], least)
        table = _table(trials, partial(_fade, first=float(mu[0]), tau=float(tau)))
        at = _choose(table)
    return Comparison(table, trials, at)


def _choose(table: list[Setting]) -> int:
    """Return the number of the setting with the least total; that of the own one unless the least :func:`beats` it."""
    at = int(np.argmin([row.total for row in table]))
    own = [number for number, row in enumerate(table) if row.own]
    return own[0] if own and not beats(table[at], table[own[0]]) else at


def beats(rival: Setting, own: Setting) -> bool:
    """Return whether a setting may take the place of the method's own: better by a standard error, and reliable."""
    return rival.total <= UNSURE and rival.total + rival.total_band < own.total


def _as_it_is(rates: Array, functions: Array) -> Array:
    return functions


def _fade(rates: Array, functions: Array, first: float, tau: float) -> Array:
    weighted: Array = functions * np.exp(-np.clip((rates - first) * tau, -first * tau, 50.0))
    return weighted


def _table(trials: list[TuningTrial], weigh: Weigh) -> list[Setting]:
    embeddings: list[Array] = []
    variances: list[float] = []
    table = []
    bias = 0.0
    for trial in trials:
        whole, held_out, apart = trial.errors(weigh)
        both = (held_out + apart) / 2
        bias = max([bias, *(_apart(whole, other) - v for other, v in zip(embeddings, variances))])
        embeddings.append(whole)
        variances.append(float(both.mean()))
        (error, error_band), (stability, stability_band) = _root(held_out), _root(apart)
        total = float(np.sqrt(both.mean() + bias))
        table.append(
            Setting(
                epsilon=trial.epsilon,
                n_neighbors=trial.candidate.n_neighbors,
                alpha=trial.candidate.alpha,
                error=error,
                error_band=error_band,
                stability=stability,
                stability_band=stability_band,
                bias=float(np.sqrt(bias)),
                total=total,
                total_band=_standard_error(both) / (2 * max(total, 1e-12)),
                own=trial.candidate.own,
                eigenvalues=trial.whole.eigenvalues,
            )
        )
    return table


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _root(squares: Array) -> tuple[float, float]:
    """Return the root of the mean, and its standard error."""
    root = float(np.sqrt(squares.mean()))
    return root, _standard_error(squares) / (2 * max(root, 1e-12))
