"""Updates of a fitted landmark model by new rows, without reading the old rows again.

    p_X' = p_X + sum over new rows, so omega' and gain' = omega' p_X' are exact
    H = sum_i m_i w_i w_i^T / d_i,  d_i = w_i . gain    is not: the degrees of old rows have become d_i' = w_i . gain'

Two facts about the old degrees remain: sum_i m_i w_ia d_i' / d_i = (H gain')_a, so around landmark a the degrees grew
by the factor r_a = (H gain')_a / p_X_a; and H' gain' = p_X, whatever the degrees are. We take H' = diag(s) H diag(s)
with the s that satisfies the second equation: starting from s = r^(-1/2), the iteration s <- s sqrt(p_X / (H' gain'))
halves the error in each step. New rows are added with their true degrees, so G' = sqrt(omega') (H' + new) sqrt(omega')
has its trivial eigenvector exactly.

Where new rows have little support, some of them become landmarks y. The affinities of the old rows to y are not
computed but interpolated: w(x, y) = sum_a w(x, a) b_a, b >= 0 by least squares over the old landmarks around y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.optimize import linear_sum_assignment, nnls
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from .. import neighbors
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Axes, Matrix, Weights
from ..data.sources import Source, unit_measure
from ..data.weights import added_measure
from ..distances import Distances
from ..extensions.domain import TrainingSample
from ..graphs.fitted import DenseGraph, SparseGraph
from ..graphs.protocols import Geometry
from ..landmarks import Anchors, Points
from ..operators.concerns import Concern, Importance
from ..operators.landmark_diffusion import LandmarkDiffusion, PassSums
from ..operators.landmark_passes import NearestLandmarks, Passes, in_local_units
from ..operators.markov import MarkovRule
from ..operators.operator import MarkovOperator, Operator, RowRule, scale_both_sides
from ..operators.problem import BuiltProblem
from ..solvers import solve
from ..trust import Reference
from .fit import Fit, Recipe, report_on, sample_rows
from .model import ExtendedModel, SpectralModel
from .report import Drift

CROWD = 4.0  # least mass of rows around a new landmark; less if a landmark of the fit had fewer rows on average
CANDIDATE_ROWS = 8192  # new landmarks are chosen among at most this number of rows of little support
AROUND = 32  # old landmarks from which a new one is interpolated
BALANCED = 1e-15  # `rebalance` stops when no scale changes by more than this
EXTRA = 6  # eigenpairs computed beyond the wanted ones, in case an old coordinate has moved down the spectrum
MIXING_GAP = 0.25  # eigenvalues this close, relative to their distance from 0 and 1, may mix
SAME = 0.1  # an unwanted eigenvalue this close to a wanted one may have changed order with it
STREAMED_ROWS = 1 << 17  # rows read in one block
MOST_OUTSIDE = 0.05  # share of new rows outside the data of the fit: more of them are a warning if landmarks stay


@dataclass(frozen=True, kw_only=True)
class UpdateState:
    """The data that an updatable model stores between updates."""

    found: Annotated[Fit, Axes("n d c")]  # without embedding and measure of its rows
    wanted: tuple[int, ...]  # numbers of the selected eigenpairs; 1 is the first non-trivial one
    first: Annotated[
        Array, Axes("l c")
    ]  # embedding of the landmarks at the fit; later landmarks are appended after them
    start: Annotated[
        Array, Axes("n e")
    ]  # eigenfunctions on the landmarks from which the solver of the next update starts
    unit: float = 1.0  # divisor of the sample weights: 1, unless 0.1.0 fitted the model with weights of mean 1

    @property
    def gathered(self) -> PassSums:
        return sums_of(self.found)

    def recipe(self, recipe: Recipe) -> Recipe:
        """Return the recipe of the fit with the memory limit and the solver of ``recipe``."""
        limits = recipe.view.long_run
        view = self.gathered.view if limits is None else self.gathered.view.within(limits.memory)
        points = rule_of(self.found).geometry.anchors
        return replace(recipe, view=view, wanted=self.wanted, landmarks=Points(points))


def sums_of(found: Fit) -> PassSums:
    """Return the stored sums of an updatable fit."""
    assert isinstance(found.gathered, PassSums)
    return found.gathered


def rule_of(found: Fit) -> MarkovRule:
    """Return the row rule of a landmark fit."""
    assert isinstance(found.model.rule, MarkovRule)
    return found.model.rule


def distances_of(geometry: Geometry) -> Distances:
    """Return the distances to the landmarks."""
    distances = getattr(geometry, "distances", None)
    assert isinstance(distances, Distances)
    return distances


def begin(found: Fit, wanted: int | str | tuple[int, ...], runner: Threads) -> UpdateState:
    """Return the state, for later updates, of a model that was just fitted."""
    model = found.model.spectral if isinstance(found.model, ExtendedModel) else found.model
    found, places = replace(found, model=model), model.embed(rule_of(found).geometry.anchors, runner)
    pairs = wanted if isinstance(wanted, tuple) else tuple(range(1, model.basis.shape[1] + 1))
    return UpdateState(found=_alone(found), wanted=pairs, first=places, start=model.basis)


def _alone(found: Fit) -> Fit:
    return replace(found, embedding=None, measure=np.empty(0))


def update(
    past: UpdateState, recipe: Recipe, rows: list[Source], sample_weight: Weights, runner: Threads
) -> tuple[Fit, UpdateState]:
    """Return the fit updated by new rows, aligned to the old coordinates, and the state for the next update.

    ``rows`` is [new rows], or [new rows, all rows] for an exact update. ``sample_weight`` belongs to the last entry.
    """
    recipe, exact, new, old = past.recipe(recipe), len(rows) > 1, rows[0], past.found
    measure = added_measure(rows[-1], sample_weight, past.unit)
    if exact and len(rows[-1]) < past.gathered.rows + len(new):
        raise ValueError(
            f"source has {len(rows[-1])} rows, but {past.gathered.rows} were seen before and {len(new)} are new: it "
            "must hold them all. To leave some out, fit again."
        )
    with runner.blas():
        own = unit_measure(len(new)) if exact else measure
        points, which = _new_landmarks(old, new, own, runner)
        anchors = _anchors(past.gathered, rule_of(old).geometry.anchors, points, which)
        sums = _repeat_sums if exact else _continue_sums
        assert isinstance(recipe.view, LandmarkDiffusion)
        problem = sums(recipe.view, old, rows[-1], measure, anchors, runner)
        operator = _with_guess(problem.operator, old.model.rule, past.start, points)
        problem = replace(problem, operator=operator, notes=_rows_without_landmarks(old, new, runner))
        found, start = _solve(recipe, problem, old, new)
    drift = replace(_drift(past, found, runner), rows=len(new), landmarks=len(points), exact=exact)
    found = replace(found, report=replace(found.report, n_samples=sums_of(found).rows, drift=drift))
    found = replace(found, sample=_join_samples(past, new, own, rows[-1] if exact else None))
    return found, replace(past, found=found, start=start)


def _join_samples(past: UpdateState, new: Source, measure: Array, every: Source | None) -> TrainingSample | None:
    """Return a sample of old and new rows, in proportion to their numbers; of ``every`` row if it is given."""
    if every is not None:
        return sample_rows(every, unit_measure(len(every)))
    before = past.found.sample
    if before is None:  # the landmarks were all rows, or 0.1.0 fitted the model
        anchors = past.found.anchors
        before = TrainingSample(anchors.points, anchors.measure)
    return before.join(sample_rows(new, measure), past.gathered.rows, len(new))


def _with_guess(operator: Operator, rule: RowRule, values: Array, added: Array) -> Operator:
    """Return the operator with a starting guess: the old eigenfunctions, extended to added landmarks by ``rule``."""
    if len(added):
        values = np.vstack([values, rule.rows(added) @ values])
    return replace(operator, guess=values * np.sqrt(operator.stationary)[:, None])


# -- landmarks -----------------------------------------------------------------------------


def _new_landmarks(old: Fit, rows: Source, measure: Array, runner: Threads) -> tuple[Array, Array]:
    """Return the rows that become landmarks, and their indices.

    Candidates are rows of little support with a kernel mass of at least ``CROWD`` of such rows around them. The
    candidate farthest from all landmarks is added first, until every candidate has about a third (1/e) of the typical
    kernel mass. At most, the number of landmarks doubles. Where :func:`_keeps_landmarks` says why, there are none.
    """
    gathered, rule, typical = sums_of(old), rule_of(old), old.model.reference.typical
    if _keeps_landmarks(rule.geometry):
        return np.empty((0, rows.shape[1])), np.empty(0, np.int64)
    found, mass = [], []
    for block, points in rows.blocks(STREAMED_ROWS):
        log_mass = old.model.evidence(points, runner).support + typical
        low = np.flatnonzero((log_mass < gathered.low) & (measure[block] > 0))
        found.append(block.start + low)
        mass.append(log_mass[low])
    which, mass_of = np.concatenate(found), np.exp(np.concatenate(mass))
    some = np.unique(np.linspace(0, len(which) - 1, min(len(which), CANDIDATE_ROWS)).astype(int))
    which, mass_of = which[some], mass_of[some]
    points = rows.take(which)
    count, distances = len(gathered.seen), distances_of(rule.geometry).to(points)
    crowd = np.zeros(len(points))
    for part in row_blocks(len(points), len(points)):
        crowd[part] = rule.kernel.affinity(distances.cross(points[part])) @ measure[which]
    able = crowd >= min(CROWD, gathered.total / count)
    which, points, mass_of = which[able], points[able], mass_of[able]
    picked = _farthest(points, mass_of, rule, np.exp(typical - 1), count)
    return points[picked], which[picked]


def _keeps_landmarks(geometry: Geometry) -> str:
    """Return what keeps the landmarks of a model from growing, as the beginning of a sentence; "" if nothing does."""
    if in_local_units(geometry):  # more landmarks would change the local scale of old rows
        return "A kernel in local units"
    if isinstance(geometry, SparseGraph) and geometry.radii is not None:  # and the radius of old landmarks
        return "A mutual graph"
    return "" if isinstance(getattr(geometry, "distances", None), Distances) else "A kernel callable"


def _rows_without_landmarks(old: Fit, rows: Source, runner: Threads) -> tuple[Concern, ...]:
    """Return a warning if many new rows are outside the data and the geometry cannot have more landmarks."""
    keeper = _keeps_landmarks(rule_of(old).geometry)
    if not keeper:
        return ()
    lowest = old.model.reference.lowest - old.model.reference.typical
    blocks = (points for _, points in rows.blocks(STREAMED_ROWS))
    outside = sum(int((old.model.evidence(points, runner).support < lowest).sum()) for points in blocks)
    if outside <= MOST_OUTSIDE * len(rows):
        return ()
    text = (
        f"{outside} of {len(rows)} new rows lie outside the data of the fit, where there are no landmarks. {keeper} "
        "keeps its landmarks, so the coordinates of these rows are extrapolated. Fit again with old and "
        "new rows, or fit kernel='gaussian', whose updates add landmarks."
    )
    return (Concern(Importance.LANDMARKS, text),)


def _farthest(points: Array, mass: Array, rule: MarkovRule, enough: float, most: int) -> Array:
    """Return increasing indices of points, selected by farthest point until all have kernel mass ``enough``."""
    distances, picked = distances_of(rule.geometry), list[int]()
    squared = np.empty(len(points))
    for part in row_blocks(len(points), len(distances.anchors)):
        squared[part] = distances.cross(points[part]).min(axis=1)
    among = distances.to(points)
    while len(picked) < most and (mass < enough).any():
        at = int(np.where(mass < enough, squared, -1.0).argmax())
        if at in picked:  # the remaining candidates are copies of selected points
            break
        picked.append(at)
        to = among.cross(points[[at]])[0]
        squared = np.minimum(squared, to)
        mass = mass + rule.kernel.affinity(to)
    return np.sort(np.array(picked, dtype=int))


def _anchors(gathered: PassSums, old: Array, points: Array, which: Array) -> Anchors:
    index = None if gathered.index is None else np.append(gathered.index, gathered.rows + which)
    return Anchors(np.vstack([old, points]), index, np.ones(len(old) + len(points)))


def _passes(
    view: LandmarkDiffusion,
    rule: MarkovRule,
    rows: Source,
    measure: Array,
    points: Array,
    runner: Threads,
    dense: bool | None = None,
) -> Passes:
    """Return the passes over the rows, with a geometry over more landmarks of the same metric and kind of search.

    ``dense``: whether the sums that they continue are; None: they begin anew.
    """
    geometry = rule.geometry
    if len(points) > len(geometry.anchors):
        distances = distances_of(geometry).to(np.ascontiguousarray(points))
        by: str = getattr(view.edges, "search", "auto")
        if isinstance(geometry, NearestLandmarks):
            geometry = replace(geometry, search=neighbors.build(distances, by))
        elif isinstance(geometry, SparseGraph):
            search = neighbors.build(distances, by)
            geometry = replace(geometry, search=search, measure=np.ones(len(points)))
        else:
            geometry = DenseGraph(distances=distances, measure=np.ones(len(points)), slack=rule.kernel.slack)
    return view.passes(rows, measure, geometry, rule.kernel, runner, dense)


# -- sums over rows ------------------------------------------------------------------------


def _continue_sums(
    view: LandmarkDiffusion, old: Fit, rows: Source, measure: Array, anchors: Anchors, runner: Threads
) -> BuiltProblem:
    """Return the eigenproblem of old and new rows, from the stored sums over the old rows."""
    gathered, rule, before = sums_of(old), rule_of(old), old.model.reference
    passes = _passes(view, rule, rows, measure, anchors.points, runner, isinstance(gathered.gram, np.ndarray))
    more, reference, degree = passes.first()
    H, seen = gathered.gram, gathered.seen
    if len(more) > len(seen):
        B = _explain(view.passes(rows, measure, rule.geometry, rule.kernel, runner), passes)
        H, seen = _see_through(H, B), np.append(seen, B.T @ seen)
    else:
        H = H.copy()
    total, count = gathered.total + float(measure.sum()), gathered.rows + len(rows)
    omega, pace = passes.correction(seen + more, view.alpha, total)
    gain = omega * (seen + more)
    rebalance(H, seen, gain)
    H = passes.add(H, passes.second(gain))
    share = gathered.total / total
    typical = share * before.typical + (1 - share) * reference.typical
    degree = (gathered.rows * old.report.degree + len(rows) * degree) / count
    gathered = PassSums(
        view=view,
        gram=H.copy(),
        seen=seen + more,
        total=total,
        rows=count,
        low=gathered.low,
        index=anchors.index,
    )
    operator = passes.operator(H, seen + more, omega, pace)
    return _problem(passes, gathered, operator, old, anchors, replace(before, typical=typical), degree)


def _repeat_sums(
    view: LandmarkDiffusion, old: Fit, rows: Source, measure: Array, anchors: Anchors, runner: Threads
) -> BuiltProblem:
    """Return the eigenproblem of all rows, from new passes over all of them."""
    passes = _passes(view, rule_of(old), rows, measure, anchors.points, runner)
    seen, reference, degree = passes.first()
    if not (seen > 0).all():
        raise ValueError(
            f"{int((seen <= 0).sum())} of {len(seen)} landmarks are seen by no row of source. It must hold all rows, "
            "old and new; to leave some out, fit again."
        )
    total = float(measure.sum())
    omega, pace = passes.correction(seen, view.alpha, total)
    H = passes.second(omega * seen)
    gathered = PassSums(
        view=view,
        gram=H.copy(),
        seen=seen,
        total=total,
        rows=len(rows),
        low=passes.low,
        index=anchors.index,
    )
    operator = passes.operator(H, seen, omega, pace)
    return _problem(passes, gathered, operator, old, anchors, reference, degree)


def _problem(
    passes: Passes,
    gathered: PassSums,
    operator: MarkovOperator,
    old: Fit,
    anchors: Anchors,
    reference: Reference,
    degree: float,
) -> BuiltProblem:
    normalization = gathered.view.normalization
    return BuiltProblem(
        anchors=anchors,
        operator=replace(operator, runner=passes.runner, smooth=anchors.points[:, :16]),
        normalization=normalization,
        rule=normalization.rule(operator, passes.geometry, passes.kernel),
        reference=reference,
        edges=old.report.edges,
        recall=old.report.recall,
        degree=degree,
        bandwidth=passes.kernel.bandwidth,
        gathered=gathered,
    )


def rebalance(H: Matrix, seen: Array, gain: Array) -> None:
    """Replace H by diag(s) H diag(s), in place, with s such that H gain = seen."""
    some = seen > 0
    scale = np.ones(len(seen))
    for _ in range(100):
        now = scale * (H @ (scale * gain))
        step = np.sqrt(np.divide(seen, now, out=np.ones(len(seen)), where=some & (now > 0)))
        scale *= step
        if np.abs(step - 1).max() <= BALANCED:
            break
    scale_both_sides(H, scale)


def _explain(before: Passes, after: Passes) -> csr_array:
    """Return B >= 0, (old, added), such that W(rows, added) ~ W(rows, old) B; AROUND old landmarks for each column."""
    old, points = before.geometry.anchors, after.geometry.anchors
    count, distances = len(old), distances_of(before.geometry)
    rows, columns, values = [np.empty(0, int)], [np.empty(0, int)], [np.empty(0)]
    for at in range(count, len(points)):
        near = np.argsort(distances.cross(points[[at]])[0], kind="stable")[: 2 * AROUND]
        target, design = (_dense(passes.affinities(old[near])) for passes in (after, before))
        target, design = target[:, [at]], design[:, near[:AROUND]]
        if target.max() < 1e-6:  # an added landmark far from all old ones: its column of B is zero
            continue
        part = nnls(design, target[:, 0])[0]
        kept = np.flatnonzero(part > 0)
        rows.append(near[kept])
        columns.append(np.full(len(kept), at - count))
        values.append(part[kept])
    where = (np.concatenate(rows), np.concatenate(columns))
    return csr_array((np.concatenate(values), where), shape=(count, len(points) - count))


def _dense(M: Matrix) -> Array:
    return M if isinstance(M, np.ndarray) else M.toarray()


def _see_through(H: Matrix, B: csr_array) -> Matrix:
    """Return [1 B]^T H [1 B], the sums over the old rows with the interpolated columns of added landmarks."""
    side = H @ B
    if not isinstance(H, np.ndarray):
        result: Matrix = csr_array(block_array([[H, side], [side.T, B.T @ side]]))
        return result
    corner = B.T @ side
    return np.block([[H, side], [side.T, (corner + corner.T) / 2]])


# -- coordinates ---------------------------------------------------------------------------


def _solve(recipe: Recipe, problem: BuiltProblem, old: Fit, rows: Source) -> tuple[Fit, Array]:
    """Solve and rotate the new eigenfunctions to the old ones. Returns the fit and all computed eigenfunctions."""
    operator, normalization = problem.operator, problem.normalization
    kept = np.array(recipe.wanted) - 1 + normalization.skip
    spectrum = solve(operator, recipe.solver, min(operator.size, int(kept.max()) + 2 + EXTRA))
    asked = f"{recipe.wanted} of {operator.size} landmarks"
    normalization.within_rank(spectrum.values, kept, operator, asked, False)
    near = np.asarray(
        _close(spectrum.values, SAME)[:, kept].any(axis=1)
    )  # pairs that may have mixed with the wanted ones
    near[: normalization.skip] = False
    able = np.flatnonzero(near)
    values, functions = spectrum.values[able], operator.functions(spectrum.vectors[:, able])
    turn = follow(_overlap(old, functions), values, np.isin(able, kept))
    eigenvalues = values @ np.square(turn)
    basis, scale = normalization.basis(functions, values) @ turn, normalization.scale(eigenvalues)
    found = Fit(
        model=SpectralModel(problem.rule, basis, scale, problem.reference),
        anchors=problem.anchors.at(problem.order),
        eigenvalues=eigenvalues,
        functions=(functions @ turn)[problem.order],
        embedding=None,
        measure=np.empty(0),
        columns=None,
        places=None,
        unit_columns=False,
        report=report_on(rows, recipe, problem, spectrum, kept, 0.0, 0.0),
        gathered=problem.gathered,
    )
    return found, operator.functions(spectrum.vectors[:, normalization.skip :])


def _overlap(old: Fit, functions: Array) -> Array:
    """Return the correlations of old and new functions over the old landmarks, weighted by their mass; (old, new)."""
    share = rule_of(old).gain * sums_of(old).seen
    share = share / share.sum()
    before, after = old.model.basis, functions[: len(share)]
    before, after = before - share @ before, after - share @ after
    size = np.sqrt(share @ np.square(before))
    result: Array = (before / np.maximum(size, np.finfo(float).tiny)).T @ (share[:, None] * after)
    return result


def _close(values: Array, part: float) -> Array:
    """Return, for each pair of eigenvalues, whether they differ by at most ``part`` of their distance from 0 or 1."""
    size = np.minimum(np.abs(values), 1 - values)
    return np.asarray(np.abs(values[:, None] - values) <= part * np.maximum(size[:, None], size))


def follow(overlap: Array, values: Array, kept: Array) -> Array:
    """Return R, (computed, old) with orthonormal columns: the new coordinates times R follow the old ones.

    Eigenvalues that differ by less than a quarter (of their distance from 1 or 0, whichever is less), and those linked
    through them, form a group. An update mixes the functions of a group, so R rotates them to the old coordinates (U V'
    of the overlap's U S V'), which preserves distances. For an eigenpair alone in its group, R only sets its order and
    sign. Pairs that are not ``kept`` are included only if their eigenvalue is nearly equal to that of a kept pair.
    """
    _, group = connected_components(csr_array(_close(values, MIXING_GAP)), directed=False)
    slots = group[kept]  # a group receives as many old coordinates as it has `kept` pairs
    held = np.sqrt(np.square(overlap) @ (group[:, None] == slots))
    columns, places = linear_sum_assignment(-held)
    turn = np.zeros(overlap.T.shape)
    for one in np.unique(slots):
        mine, members = columns[slots[places] == one], np.flatnonzero(group == one)
        U, _, V = np.linalg.svd(overlap[np.ix_(mine, members)].T, full_matrices=False)
        turn[np.ix_(members, mine)] = U @ V
    return turn


def _drift(past: UpdateState, new: Fit, runner: Threads) -> Drift:
    old = past.found
    points = rule_of(old).geometry.anchors
    before, after = old.model.embed(points, runner), new.model.embed(points, runner)
    rates = np.abs(new.eigenvalues - old.eigenvalues) / np.maximum(1 - old.eigenvalues, 1e-12)
    count = 1 if old.report.drift is None else old.report.drift.updates + 1
    moved, since = _movement(before, after), _movement(past.first, after[: len(past.first)])
    return Drift(
        updates=count,
        rows=0,
        landmarks=0,
        exact=False,
        moved=moved,
        moved_since_fit=since,
        eigenvalues=float(rates.max()),
    )


def _movement(before: Array, after: Array) -> float:
    """Return the root mean squared displacement relative to the standard deviation of ``before``."""
    spread = np.square(before - before.mean(axis=0)).sum()
    return float(np.sqrt(np.square(after - before).sum() / max(spread, np.finfo(float).tiny)))
