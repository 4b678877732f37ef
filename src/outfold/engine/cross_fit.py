"""Cross-validation: fits of parts of the data choose the extension and calibrate the error radii.

Some training rows are held out and the others are fitted anew. The embedding of this fold is aligned with the full
embedding over the rows that both contain. A held-out row then has two embeddings in the same coordinates: the fold
embeds it as a new sample, and the full fit embeds it as a training sample. Their distance is the held-out error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import FREE, Array
from ..data.places import number_places
from ..data.sources import InMemory, Source, draw_numbers
from ..data.sparse_rows import dense_rows
from ..extensions import Auto, Nystrom
from ..extensions.alignment import Alignment
from ..extensions.calibration import Calibration, SecondOpinion
from ..extensions.samples import SEED, Extension, FittedExtension, Samples
from ..operators.concerns import MOST_CONCERNS
from ..trust import RowFacts, calibrated_judge
from .fit import Fit, Recipe, extend_fit, extend_model, fit_recipe

Invert: TypeAlias = Callable[[Samples], FittedExtension]  # fits the inverse transform to samples
MOST_TURN = 20.0  # degrees by which the subspace of one of ten folds may turn
LEAST_GAP = 0.2  # relative gap after the last coordinate: with less, a few rows more may exchange it for the next
LOOKED_BEYOND = 5  # coordinates beyond those asked for, to find a clear gap
ROWS_BEFORE_LEAVING = 100  # held-out rows before extensions that are behind leave a comparison
FAR_BEHIND = 1.25  # times the error of the best after one fold; its root after two, and so on
SWITCH_MARGIN = 0.5  # standard errors by which another extension must beat `Nystrom`, the method's own rule


@dataclass(frozen=True)
class Candidate:
    """An extension and its held-out error.

    The error is the root mean square relative to the standard deviation of the embedding, a geometric mean over folds.
    """

    extension: Extension
    error: Annotated[float, FREE]
    doubt: Annotated[float, FREE] = 0.0  # standard error over the folds of log(its error / error of `Nystrom`)

    def __str__(self) -> str:
        return f"{self.extension} {self.error:.4g}"


@dataclass(frozen=True)
class Sample:
    """Rows in memory, their measure, and their embedding by a fit of all of them."""

    X: Array
    measure: Array
    embedding: Array
    given: bool  # X is a precomputed square matrix between the rows

    def rows(self, index: Array, seen_by: Array) -> Array:
        """Return the rows ``index``; of a square precomputed matrix only their columns ``seen_by``."""
        return self.X[index][:, seen_by] if self.given else self.X[index]


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A fit of some rows, and the rows that were held out of it."""

    found: Fit
    rest: Array  # indices of the fitted rows
    held: Array  # indices of the held-out rows
    points: Array  # the held-out rows, as input of the fold's model
    target: Array  # embedding of the held-out rows by the full fit
    alignment: Alignment  # from the fold's coordinates to those of the full fit


def alone(recipe: Recipe, components: int, epsilon: float) -> Recipe:
    """Return the recipe for a part of the rows.

    It has ``components`` components, bandwidth ``epsilon`` (NaN: the part chooses its own) and no checkpoint on disk.
    """
    if isinstance(recipe.wanted, str):
        recipe = replace(recipe, wanted=components)
    return replace(recipe, view=recipe.view.alone(epsilon))


def fit_sample(
    rows: Source, measure: Array, recipe: Recipe, most: int, components: int, epsilon: float, runner: Threads
) -> tuple[Sample, Recipe]:
    """Fit the rows and return them with their embedding, and the recipe for the folds.

    If there are more than ``most`` rows, a random sample of ``most`` is fitted. Its bandwidth is chosen anew unless it
    is fixed, because a bandwidth for many rows is too narrow for few.
    """
    if len(rows) > most:
        index, epsilon = draw_numbers(len(rows), most, np.random.default_rng(SEED)), np.nan
    else:
        index = np.arange(len(rows))
    X = rows.array()[index][:, index] if recipe.view.between_rows else rows.take(index)
    measure = np.array(measure[index], dtype=float)
    recipe = alone(recipe, components, epsilon)
    found = fit_recipe(InMemory(X), recipe, measure, np.random.default_rng(SEED), runner)
    assert found.embedding is not None
    return Sample(X, measure, found.embedding, recipe.view.between_rows), alone(
        recipe, components, found.report.epsilon
    )


def draw_sample(rows: Source, recipe: Recipe, found: Fit, most: int, runner: Threads) -> tuple[Sample, Recipe]:
    """As ``fit_sample``, but reuse the embedding of ``found`` if it has at most ``most`` rows."""
    components, epsilon = len(found.eigenvalues), found.report.epsilon
    if len(rows) > most or found.embedding is None:
        return fit_sample(rows, found.measure, recipe, most, components, epsilon, runner)
    sample = Sample(rows.array(), np.array(found.measure), found.embedding, recipe.view.between_rows)
    return sample, alone(recipe, components, epsilon)


def folds(sample: Sample, recipe: Recipe, count: int, runner: Threads, seed: int = SEED) -> Iterator[Fold]:
    """Yield ``count`` folds; every row with weight is held out once.

    Copies of a row are held out together, since a row with a copy in the training part is not new to the fold.
    """
    rng = np.random.default_rng(seed)
    counted = np.flatnonzero(sample.measure > 0)
    member = number_places(sample.X[counted])
    label = np.full(len(sample.X), -1)
    label[counted] = (rng.permutation(int(member.max()) + 1) % count)[member]
    bar = runner.bar("folds", len(counted))
    for fold in range(min(count, int(member.max()) + 1)):  # with fewer places than folds, the others are empty
        held, rest = np.flatnonzero(label == fold), np.flatnonzero((label != fold) & (label >= 0))
        if len(held) == 0:
            continue
        measure = sample.measure[rest]
        X = InMemory(sample.rows(rest, rest))
        found = fit_recipe(X, recipe, measure, np.random.default_rng(SEED), runner)
        assert found.embedding is not None
        alignment = align_places(found, found.embedding, sample.embedding[rest], measure, sample.measure.sum())
        seen = rest if found.columns is None else rest[found.columns]
        yield Fold(
            found=found,
            rest=rest,
            held=held,
            points=sample.rows(held, seen),
            target=sample.embedding[held],
            alignment=alignment,
        )
        bar.update(len(held))
    bar.close()


def align_places(found: Fit, moving: Array, fixed: Array, measure: Array, total: float) -> Alignment:
    """Return the rigid motion from the embedding of a fold onto that of the full fit.

    Where columns have length 1 over the rows, coordinates shrink as rows are added; ``scale`` corrects for that.
    """
    shrink = float(np.sqrt(measure.sum() / total)) if found.unit_columns else 1.0
    motion = Alignment.of(shrink * moving, fixed, weights=measure, rescale=False)
    return replace(motion, origin=motion.origin / shrink, scale=shrink)


def compare(sample: Sample, recipe: Recipe, specs: Sequence[Extension], count: int, runner: Threads) -> list[Candidate]:
    """Return the held-out error of each extension, best first."""
    squares = []
    for fold in folds(sample, recipe, count, runner):
        known = fold.found.samples(recipe.view, runner)
        share = sample.measure[fold.held] / sample.measure[fold.held].sum()
        models = (spec.fit(known, runner) for spec in specs)
        left = [fold.alignment(model.embed(fold.points, runner)) - fold.target for model in models]
        squares.append([share @ (part**2).sum(axis=1) for part in left])
    return _rank(specs, np.array(squares), _spread(sample.embedding, sample.measure))


def _spread(values: Array, measure: Array) -> float:
    share = measure / measure.sum()
    return max(float(share @ ((values - share @ values) ** 2).sum(axis=1)), np.finfo(float).tiny)


def _rank(specs: Sequence[Extension], squares: Array, spread: float) -> list[Candidate]:
    """Return the candidates, best first, from their squared errors, shape (folds, specs).

    Errors are geometric means over folds: in an arithmetic mean one failed fold dominates, and it favours extensions
    that shrink towards the mean. ``Nystrom``, the method's own rule, is exact on the training points; another extension
    must beat it by half a standard error.
    """
    logs = np.log(np.maximum(np.where(np.isfinite(squares), squares, np.inf) / spread, 1e-300)) / 2
    errors, doubt = logs.mean(axis=0), np.zeros(len(specs))
    own = [i for i, spec in enumerate(specs) if isinstance(spec, Nystrom)]
    if own and len(logs) > 1:
        with np.errstate(invalid="ignore"):
            doubt = np.nan_to_num((logs - logs[:, own[:1]]).std(axis=0, ddof=1)) / np.sqrt(len(logs))
    order = np.argsort(errors + SWITCH_MARGIN * doubt, kind="stable")
    return [Candidate(specs[i], float(np.exp(errors[i])), float(doubt[i])) for i in order]


def choose(rows: Source, recipe: Recipe, found: Fit, known: Samples, auto: Auto, runner: Threads) -> Fit:
    """Return the fit with the extension of least held-out error; its report lists all candidates."""
    if recipe.view.given:
        return _note_choice(found, "extension='auto' had one choice, 'nystrom': others learn from features.")
    specs = auto.specifications(known)
    try:
        sample, part = draw_sample(rows, recipe, found, auto.rows, runner)
        table = compare(sample, part, specs, auto.folds, runner)
    except ValueError as error:  # a fold cannot be fitted
        return _note_choice(
            found, f"extension='auto' could not fit parts of the data and stayed with 'nystrom': {error}"
        )
    chosen = extend_fit(found, rows, known, table[0].extension, runner)
    return replace(chosen, report=replace(chosen.report, candidates=tuple(table)))


def _note_choice(found: Fit, text: str) -> Fit:
    return replace(found, report=replace(found.report, warnings=(*found.report.warnings[: MOST_CONCERNS - 1], text)))


@dataclass(frozen=True, kw_only=True)
class HeldOutRows:
    """The held-out rows of a fold: the facts about them, and their embedding in the coordinates of the fold."""

    fold: Fold
    facts: RowFacts
    names: tuple[str, ...]  # of the facts that the fold judges new rows by
    embedding: Array

    def errors(self, sample: Sample, recipe: Recipe, outside: Array, runner: Threads) -> Array:
        """Return the distance of each row to its embedding by a fit of all rows but those ``outside``; these have NaN.

        A row outside the data may change the whole embedding, and nobody would add it to the training data.
        """
        fold, errors = self.fold, np.full(len(outside), np.nan)
        if not outside.any():
            errors[:] = np.linalg.norm(fold.alignment(self.embedding) - fold.target, axis=1)
            return errors
        inside = fold.held[~outside]
        joined = np.sort(np.append(fold.rest, inside))
        measure = sample.measure[joined]
        joint = fit_recipe(InMemory(sample.rows(joined, joined)), recipe, measure, np.random.default_rng(SEED), runner)
        assert joint.embedding is not None
        assert fold.found.embedding is not None
        fixed, target = (joint.embedding[np.searchsorted(joined, rows)] for rows in (fold.rest, inside))
        rest = sample.measure[fold.rest]
        alignment = align_places(fold.found, fold.found.embedding, fixed, rest, float(measure.sum()))
        errors[~outside] = np.linalg.norm(alignment(self.embedding[~outside]) - target, axis=1)
        return errors


def hold_out(
    sample: Sample, recipe: Recipe, extension: Extension, count: int, runner: Threads, invert: Invert | None = None
) -> Iterator[HeldOutRows]:
    """Yield the held-out rows of each fold; with ``invert`` the round trip is a fact about them."""
    for fold in folds(sample, recipe, count, runner):
        known = fold.found.samples(recipe.view, runner)
        embedding, facts = extend_model(known, extension, runner).look(fold.points, runner)
        domain = fold.found.domain(recipe.view, runner)
        facts = domain.add(facts, fold.points, runner)
        if not recipe.view.given:
            facts = SecondOpinion.of(known, runner).add(facts, embedding, fold.points, runner)
        if invert is not None:
            facts = add_round_trip(facts, fold.points, invert(known).embed(embedding, runner))
        yield HeldOutRows(fold=fold, facts=facts, names=domain.judge.names, embedding=embedding)


def add_round_trip(facts: RowFacts, Z: Array, back: Array) -> RowFacts:
    """Return the facts with the distance of each row to ``back``, where the inverse takes its embedding."""
    with np.errstate(over="ignore"):
        return replace(facts, round_trip=np.linalg.norm(dense_rows(Z) - back, axis=1))


def calibrate(
    sample: Sample, recipe: Recipe, extension: Extension, count: int, runner: Threads, invert: Invert | None = None
) -> Calibration:
    """Return the judge of rows by all facts and the calibration of their errors, from ``count`` folds."""
    parts = list(hold_out(sample, recipe, extension, count, runner, invert))
    weight = np.concatenate([sample.measure[part.fold.held] for part in parts])
    judge = calibrated_judge([(part.facts, part.names) for part in parts], weight)
    found = []
    for part in parts:
        trust = judge.judge(part.facts)
        found.append((trust, part.errors(sample, recipe, trust.flag, runner)))
    return Calibration.of(found, judge, find_instability(sample, recipe, [part.fold for part in parts], runner))


def find_instability(sample: Sample, recipe: Recipe, parts: list[Fold], runner: Threads) -> tuple[str, ...]:
    """Return why the coordinates of fits of nearly all rows differ, with what to do; nothing if they do not."""
    components = {fold.found.report.components for fold in parts}
    if max(components) > max(1, recipe.clusters if isinstance(recipe.clusters, int) else 1):
        counts = " to ".join(str(count) for count in sorted({min(components), max(components)}))
        return (
            f"Error radii may not hold: the graph has {counts} components, depending on which rows are left out, and "
            "the coordinates follow them. Raise n_neighbors until it is connected.",
        )
    turn = max(subspace_angle(fold.found.embedding, sample.embedding[fold.rest]) for fold in parts)
    gaps = [fold.found.report.relative_gaps[-1] for fold in parts if fold.found.report.relative_gaps]
    gap = float(np.median(gaps)) if gaps else np.nan
    # The difference of fits of a part and of all rows has a variance like 1 / (folds - 1).
    if turn <= MOST_TURN * np.sqrt(9 / max(1, len(parts) - 1)) and not gap < LEAST_GAP:
        return ()
    count = sample.embedding.shape[1]
    why = f", because eigenvalues {count} and {count + 1} nearly coincide" if gap < LEAST_GAP else ""
    return (
        f"Error radii may not hold: the space of the {count} coordinates turns by up to {turn:.0f} degrees if a part "
        f"of the rows is left out{why}. {_stable_count(sample, recipe, count, runner)}",
    )


def _stable_count(sample: Sample, recipe: Recipe, count: int, runner: Threads) -> str:
    """Return the advice which number of coordinates ends before a clear gap between eigenvalues."""
    more = replace(recipe, wanted=min(count + LOOKED_BEYOND, len(sample.X) - 2), clip_to_rank=True)
    try:
        found = fit_recipe(InMemory(sample.X), more, sample.measure, np.random.default_rng(SEED), runner)
    except ValueError:  # beyond the rank
        return "Ask for fewer coordinates."
    gaps = np.array(found.report.relative_gaps)
    able = 1 + np.flatnonzero(gaps >= LEAST_GAP)
    able = able[able != count]
    if not len(able):
        return "No number of coordinates near it ends before a clear gap."
    nearest = int(able[np.argmin(np.abs(able - count) - 0.5 * (able > count))])
    asked = f"n_components={nearest}" if recipe.clusters == 1 else f"n_clusters={nearest + 1}"
    return f"Pass {asked}, which ends before a clear gap."


def subspace_angle(moving: Array | None, fixed: Array) -> float:
    """Return the largest angle, in degrees, between the spans of two sets of coordinates of the same rows."""
    assert moving is not None
    bases = [np.linalg.qr(values - values.mean(axis=0))[0] for values in (moving, fixed)]
    least = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).min()
    return float(np.degrees(np.arccos(np.clip(least, 0.0, 1.0))))


def compare_maps(known: Samples, specs: Sequence[Extension], count: int, runner: Threads) -> list[Candidate]:
    """Return the held-out error of each extension of fixed values, best first; only the extension is fitted anew.

    An extension that is far behind on enough held-out rows is not fitted to the other folds.
    """
    label = np.random.default_rng(SEED).permutation(len(known.points)) % count
    squares = np.full((count, len(specs)), np.nan)
    bar = runner.bar("way back", len(label))
    for fold in range(count):
        held, part = label == fold, known.part(np.flatnonzero(label != fold))
        share = known.measure[held] / known.measure[held].sum()
        running = _in_the_race(squares[:fold], int((label < fold).sum()))
        for at, spec in enumerate(specs):
            if not running[at]:
                continue
            left = spec.fit(part, runner).embed(known.points[held], runner) - known.values[held]
            error = float(share @ (left**2).sum(axis=1))
            squares[fold, at] = error if np.isfinite(error) else np.inf
        bar.update(int(held.sum()))
    bar.close()
    return _rank(specs, _fill_in(squares), _spread(known.values, known.measure))


def _in_the_race(squares: Array, rows: int) -> Array:
    """Return which extensions may still be the best, (specs,), from their squared errors on ``rows`` held-out rows."""
    if rows < ROWS_BEFORE_LEAVING:
        return np.ones(squares.shape[1], bool)
    running = ~np.isnan(squares[-1])
    behind = _log_errors(squares)
    inside: Array = running & ~(behind > behind[running].min() + np.log(FAR_BEHIND) / len(squares))
    return inside


def _log_errors(squares: Array) -> Array:
    """Return the mean over folds of the logs of the errors, (specs,); NaN where an extension left the race."""
    logs: Array = np.log(np.clip(squares, 1e-300, 1e300)).mean(axis=0) / 2
    return logs


def _fill_in(squares: Array) -> Array:
    """Return the squared errors, those of folds that an extension was not fitted to in proportion to the best one's."""
    best = int(np.nanargmin(_log_errors(squares)))
    ratios = np.clip(squares, 1e-300, 1e300) / np.clip(squares[:, [best]], 1e-300, 1e300)
    usual = np.exp(np.nanmean(np.log(ratios), axis=0))
    filled: Array = np.where(np.isnan(squares), squares[:, [best]] * usual, squares)
    return filled
