"""Fits of parts of the data, and what they say about the rest: how extensions are chosen and bands are calibrated.

A part of the training rows is held out, the others are fitted anew and the embedding of the fold is aligned with that
of the full fit over the rows both have. A held-out row then has two positions in the same coordinates: the one the fold
gives it as a new point, and the one it has when it is fitted together with the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _engine, calibration, extensions
from .alignment import Alignment
from .bandwidths import Fixed
from .calibration import Witness
from .checkpoints import Checkpoint
from .extensions import SEED, Auto, Known, Nystrom
from .kernels import Gaussian, Named
from .runners import Threads
from .sources import InMemory, Source, shuffled
from .trust import Trust

Array = NDArray[Any]

HALF = 0.5  # standard errors by which another extension must be ahead of the method's own


@dataclass(frozen=True)
class Candidate:
    """An extension and its held-out error: root mean square relative to the spread, a geometric mean over folds."""

    extension: Any
    error: float
    doubt: float = 0.0  # standard error, over the folds, of the log of its ratio to the method's own rule

    def __str__(self) -> str:
        return f"{self.extension} {self.error:.4g}"


@dataclass(frozen=True)
class Sample:
    """Rows at hand, their measure, and where a fit of all of them puts them."""

    X: Array
    measure: Array
    embedding: Array
    given: bool  # X is a square matrix between the rows

    def rows(self, index: Array, seen_by: Array) -> Array:
        """Some rows, as a fit of others sees them."""
        return self.X[np.ix_(index, seen_by)] if self.given else self.X[index]


@dataclass(frozen=True)
class Fold:
    """A fit of some rows, and the others."""

    found: _engine.Fit
    held: Array
    points: Array  # the held rows, as the fold sees them
    target: Array  # where the full fit has them
    alignment: Alignment  # from the fold's coordinates to those of the full fit


def alone(recipe: _engine.Recipe, components: int, epsilon: float) -> _engine.Recipe:
    """The recipe of a part: as many components as the whole, this bandwidth (NaN: its own), no traces on disk."""
    if isinstance(recipe.wanted, str):
        recipe = replace(recipe, wanted=components)
    kernel = None if np.isnan(epsilon) else getattr(recipe.view, "kernel", None)
    if isinstance(kernel, Gaussian) and np.isfinite(epsilon):
        recipe = replace(recipe, view=replace(recipe.view, kernel=replace(kernel, rule=Fixed(epsilon))))
    elif isinstance(kernel, Named) and kernel.gamma == "auto":
        recipe = replace(recipe, view=replace(recipe.view, kernel=replace(kernel, gamma=1 / (2 * epsilon))))
    if hasattr(recipe.view, "checkpoint"):
        recipe = replace(recipe, view=replace(recipe.view, checkpoint=Checkpoint()))
    return recipe


def fitted(
    rows: Source, measure: Array, recipe: _engine.Recipe, most: int, components: int, epsilon: float, runner: Threads
) -> tuple[Sample, _engine.Recipe]:
    """The rows with the embedding of a fit of them, and the recipe of their parts.

    Of many rows a random part, whose bandwidth is chosen anew where a rule chooses it: that of many is too narrow for
    few.
    """
    if len(rows) > most:
        index, epsilon = shuffled(len(rows), most, np.random.default_rng(SEED)), np.nan
    else:
        index = np.arange(len(rows))
    X = rows.array()[np.ix_(index, index)] if recipe.view.given else rows.take(index)
    measure = np.array(measure[index], dtype=float)
    recipe = alone(recipe, components, epsilon)
    found = _engine.fit(InMemory(X), recipe, measure, np.random.default_rng(SEED), runner)
    embedding: Any = found.embedding
    return Sample(X, measure, embedding, recipe.view.given), alone(recipe, components, found.report.epsilon)


def sampled(
    rows: Source, recipe: _engine.Recipe, found: _engine.Fit, most: int, runner: Threads
) -> tuple[Sample, _engine.Recipe]:
    """As ``fitted``, with the embedding that is there already if it is of no more than ``most`` rows."""
    components, epsilon = len(found.eigenvalues), found.report.epsilon
    if len(rows) > most or found.embedding is None:
        return fitted(rows, found.measure, recipe, most, components, epsilon, runner)
    sample = Sample(rows.array(), np.array(found.measure), found.embedding, recipe.view.given)
    return sample, alone(recipe, components, epsilon)


def folds(sample: Sample, recipe: _engine.Recipe, count: int, runner: Threads, seed: int = SEED) -> Iterator[Fold]:
    """Every row is held out once; copies of a row together, so that none is new to a fold that holds another."""
    rng = np.random.default_rng(seed)
    counted = np.flatnonzero(sample.measure > 0)
    places, member = np.unique(sample.X[counted], axis=0, return_inverse=True)
    label = np.full(len(sample.X), -1)
    label[counted] = (rng.permutation(len(places)) % count)[member.ravel()]
    bar = runner.bar("folds", len(counted))
    for fold in range(count):
        held, rest = np.flatnonzero(label == fold), np.flatnonzero((label != fold) & (label >= 0))
        if len(held) == 0:
            continue
        measure = sample.measure[rest]
        X = InMemory(sample.rows(rest, rest))
        found = _engine.fit(X, recipe, measure, np.random.default_rng(SEED), runner)
        embedding: Any = found.embedding
        alignment = aligned(found, embedding, sample.embedding[rest], measure, sample.measure.sum())
        seen = rest if found.columns is None else rest[found.columns]
        yield Fold(found, held, sample.rows(held, seen), sample.embedding[held], alignment)
        bar.update(len(held))
    bar.close()


def aligned(found: _engine.Fit, moving: Array, fixed: Array, measure: Array, total: float) -> Alignment:
    """The rigid motion onto a fit of more rows; where columns have length 1 they are as much smaller there."""
    shrink = float(np.sqrt(measure.sum() / total)) if found.unit_columns else 1.0
    motion = Alignment.of(shrink * moving, fixed, weights=measure, rescale=False)
    return replace(motion, origin=motion.origin / shrink, scale=shrink)


def compare(
    sample: Sample, recipe: _engine.Recipe, specs: Sequence[Any], count: int, runner: Threads
) -> list[Candidate]:
    """The held-out error of each extension, best first."""
    squares = []
    for fold in folds(sample, recipe, count, runner):
        known = fold.found.known(recipe.view, runner)
        share = sample.measure[fold.held] / sample.measure[fold.held].sum()
        models = (spec.fit(known, runner) for spec in specs)
        left = [fold.alignment(model.embed(fold.points, runner)) - fold.target for model in models]
        squares.append([share @ (part**2).sum(axis=1) for part in left])
    return _ranked(specs, np.array(squares), _spread(sample.embedding, sample.measure))


def _spread(values: Array, measure: Array) -> float:
    share = measure / measure.sum()
    return max(float(share @ ((values - share @ values) ** 2).sum(axis=1)), np.finfo(float).tiny)


def _ranked(specs: Sequence[Any], squares: Array, spread: float) -> list[Candidate]:
    """Best first, of squared errors (folds, specs).

    Errors are geometric means over folds: where a fold went wrong, whatever shrinks looks good. To be ahead of the
    method's own rule, which is exact on the training points, takes more than half a standard error.
    """
    logs = np.log(np.maximum(np.where(np.isfinite(squares), squares, np.inf) / spread, 1e-300)) / 2
    errors, doubt = logs.mean(axis=0), np.zeros(len(specs))
    own = [i for i, spec in enumerate(specs) if isinstance(spec, Nystrom)]
    if own and len(logs) > 1:
        with np.errstate(invalid="ignore"):
            doubt = np.nan_to_num((logs - logs[:, own[:1]]).std(axis=0, ddof=1)) / np.sqrt(len(logs))
    order = np.argsort(errors + HALF * doubt, kind="stable")
    return [Candidate(specs[i], float(np.exp(errors[i])), float(doubt[i])) for i in order]


def choose(
    rows: Source, recipe: _engine.Recipe, found: _engine.Fit, known: Known, auto: Auto, runner: Threads
) -> _engine.Fit:
    """The fit with the extension of the least held-out error; the table stays in the report."""
    if recipe.view.given:
        return _noted(found, "extension='auto' had one choice, 'nystrom': others learn from features.")
    specs = list(auto.candidates or extensions.candidates(known))
    try:
        sample, part = sampled(rows, recipe, found, auto.rows, runner)
        table = compare(sample, part, specs, auto.folds, runner)
    except ValueError as error:  # a part of the data that cannot be fitted
        return _noted(found, f"extension='auto' could not fit parts of the data and stayed with 'nystrom': {error}")
    chosen = _engine.extended(found, rows, known, table[0].extension, runner)
    return replace(chosen, report=replace(chosen.report, candidates=tuple(table)))


def _noted(found: _engine.Fit, text: str) -> _engine.Fit:
    return replace(found, report=replace(found.report, warnings=(*found.report.warnings, text)))


def held_out(
    sample: Sample, recipe: _engine.Recipe, extension: Any, count: int, runner: Threads
) -> Iterator[tuple[Trust, Array]]:
    """The evidence on held-out rows and their errors, fold by fold."""
    for fold in folds(sample, recipe, count, runner):
        known = fold.found.known(recipe.view, runner)
        positions, trust = _engine.carried(known, extension, runner).look(fold.points, runner)
        witness = None if recipe.view.given else Witness.of(known, runner)
        trust = calibration.judged(trust, positions, witness, fold.points, runner)
        yield trust, np.linalg.norm(fold.alignment(positions) - fold.target, axis=1)


def compare_maps(known: Known, specs: Sequence[Any], count: int, runner: Threads) -> list[Candidate]:
    """The held-out error of each extension of known values: nothing is fitted anew but the extension."""
    label = np.random.default_rng(SEED).permutation(len(known.points)) % count
    squares = []
    bar = runner.bar("way back", len(label))
    for fold in np.unique(label):
        held, part = label == fold, known.part(np.flatnonzero(label != fold))
        share = known.measure[held] / known.measure[held].sum()
        models = (spec.fit(part, runner) for spec in specs)
        left = [model.embed(known.points[held], runner) - known.values[held] for model in models]
        squares.append([share @ (part**2).sum(axis=1) for part in left])
        bar.update(int(held.sum()))
    bar.close()
    return _ranked(specs, np.array(squares), _spread(known.values, known.measure))
