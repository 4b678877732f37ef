"""New rows for a fitted landmark model, without the old ones.

    p_X' = p_X + sum over new rows, so omega' and gain' = omega' p_X' are exact
    H = sum_i m_i w_i w_i^T / d_i,  d_i = w_i . gain    is not: the degrees of old rows have become d_i' = w_i . gain'

What is known of them: sum_i m_i w_ia d_i' / d_i = (H gain')_a, so around landmark a degrees grew by the factor
r_a = (H gain')_a / p_X_a, and H' gain' = p_X whatever they are. H' = diag(s) H diag(s) is what fulfils that, found from
s = r^(-1/2) by s <- s sqrt(p_X / (H' gain')), which halves the error each time. New rows are added with their true
degrees, so G' = sqrt(omega') (H' + new) sqrt(omega') has its trivial eigenvector exactly.

Where new rows have little support, some of them become landmarks y. Old rows are taken to see such a one as the old
landmarks see it: w(x, y) = sum_a w(x, a) b_a, b >= 0 by least squares over the old landmarks around y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, nnls
from scipy.sparse import block_array, csr_array, issparse
from scipy.sparse.csgraph import connected_components

from . import _engine, neighbors, scale
from ._engine import ExtendedModel, Fit, Recipe, SpectralModel
from ._passes import Passes
from ._problem import Problem
from ._report import Drift
from .graphs import DenseGraph
from .landmarks import Anchors, Points
from .normalizations import Operator, scale_both_sides
from .roseland import Gathered, LandmarkDiffusion, NearestLandmarks
from .runners import Threads, row_blocks
from .solvers import solve
from .sources import Source, in_dask

Array = NDArray[Any]

CROWD = 4.0  # rows that must lie around a new landmark (fewer, where fewer rows shared one in the fit)
LOOKED_AT = 8192  # rows of little support, at most, among which landmarks are chosen
AROUND = 32  # old landmarks by which a new one is explained
BALANCED = 1e-15  # relative error of row sums that counts as none
EXTRA = 6  # pairs beyond the wanted ones, where old coordinates may have gone
NEAR = 0.25  # eigenvalues this close, relative to their distance from 0 and 1, may mix
SAME = 0.1  # so close that one that is not wanted may have changed places with one that is
STREAMED_ROWS = 1 << 17  # looked at in one go


@dataclass(frozen=True)
class Past:
    """What an updatable model remembers."""

    found: Fit  # without what belongs to its rows
    wanted: tuple[int, ...]  # which eigenpairs, 1 the first non-trivial
    first: Array  # embedding of the landmarks of the fit, which stay the first ones
    start: Array  # functions on the landmarks near the wanted ones and some beyond, for a solver
    unit: float = 1.0  # what sample weights are divided by

    @property
    def gathered(self) -> Gathered:
        return self.found.gathered

    def recipe(self, recipe: Recipe) -> Recipe:
        """That of the fit, with the memory and the solver of now."""
        view = replace(self.gathered.view, memory=recipe.view.memory)
        points = self.found.model.rule.geometry.anchors
        return replace(recipe, view=view, wanted=self.wanted, landmarks=Points(points))


def begun(found: Fit, wanted: Any, runner: Threads) -> Past:
    """The past of a model that was just fitted."""
    model = found.model.spectral if isinstance(found.model, ExtendedModel) else found.model
    found, places = replace(found, model=model), model.embed(model.rule.geometry.anchors, runner)
    pairs = wanted if isinstance(wanted, tuple) else tuple(range(1, model.basis.shape[1] + 1))
    return Past(_alone(found), pairs, places, model.basis)


def _alone(found: Fit) -> Fit:
    return replace(found, embedding=None, measure=np.empty(0))


def update(past: Past, recipe: Recipe, rows: list[Source], sample_weight: Any, runner: Threads) -> tuple[Fit, Past]:
    """The fit with new rows in it, aligned to the old coordinates, and the past it leaves.

    ``rows``: the new ones and, for an exact pass, all of them; the last have the weights.
    """
    recipe, exact, new, old = past.recipe(recipe), len(rows) > 1, rows[0], past.found
    past = replace(past, unit=unit(sample_weight)) if exact else past
    measure = weights(sample_weight, rows[-1], past.unit)
    if exact and len(rows[-1]) < past.gathered.rows + len(new):
        raise ValueError(
            f"source has {len(rows[-1])} rows, but {past.gathered.rows} were seen before and {len(new)} are new: it "
            "must hold them all. To leave some out, fit again."
        )
    with runner.blas():
        own = weights(None, new, 1.0) if exact else measure
        points, which = _new_landmarks(past.gathered, old.model, new, own, runner)
        anchors = _anchors(past.gathered, old.model.rule.geometry.anchors, points, which)
        sums = _repeated if exact else _continued
        problem = sums(recipe.view, old, rows[-1], measure, anchors, runner)
        problem = replace(problem, operator=_with_guess(problem.operator, old.model.rule, past.start, points))
        found, start = _solved(recipe, problem, old, new)
    drift = replace(_drift(past, found, runner), rows=len(new), landmarks=len(points), exact=exact)
    found = replace(found, report=replace(found.report, n_samples=problem.gathered.rows, drift=drift))
    return found, replace(past, found=found, start=start)


def unit(sample_weight: Any) -> float:
    """What a fit divides weights by: whole numbers are counts, others are scaled to mean 1."""
    if sample_weight is None:
        return 1.0
    if in_dask(sample_weight):
        return scale.unit(sample_weight)
    given = np.atleast_1d(np.asarray(sample_weight, dtype=float))
    return 1.0 if (given == np.round(given)).all() else float(given[given > 0].mean())


def weights(sample_weight: Any, rows: Source, unit: float) -> Any:
    """The measure on rows."""
    n = len(rows)
    if in_dask(sample_weight) and isinstance(rows, scale.Spread):
        return scale.Weights.of(sample_weight, rows, unit)
    given = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=float)
    if given.ndim > 1 or (given.ndim == 1 and len(given) != n):
        raise ValueError(f"sample_weight has shape {given.shape} for {n} rows.")
    if not np.isfinite(given).all() or (given < 0).any() or not (given > 0).any():
        raise ValueError(
            f"sample_weight must be finite and >= 0, and not all 0; the smallest given is {given.min():.3g}."
        )
    return np.broadcast_to(given / unit, n)


def _with_guess(operator: Operator, rule: Any, values: Array, added: Array) -> Operator:
    """For a solver to start from: the old eigenfunctions, at added landmarks as their rows see them."""
    if len(added):
        values = np.vstack([values, rule.rows(added) @ values])
    return replace(operator, guess=values * np.sqrt(operator.stationary)[:, None])


# -- landmarks -----------------------------------------------------------------------------


def _new_landmarks(
    gathered: Gathered, model: SpectralModel, rows: Source, measure: Array, runner: Threads
) -> tuple[Array, Array]:
    """Rows that become landmarks, and which they are.

    Those of little support that lie in a crowd of such rows, the farthest from all landmarks first, until each sees
    about a third of the mass that is typical; at most as many as there were.
    """
    found, mass = [], []
    for block, points in rows.blocks(STREAMED_ROWS):
        log_mass = model.evidence(points, runner).support + model.reference.typical
        low = np.flatnonzero((log_mass < gathered.low) & (measure[block] > 0))
        found.append(block.start + low)
        mass.append(log_mass[low])
    which, mass_of = np.concatenate(found), np.exp(np.concatenate(mass))
    some = np.unique(np.linspace(0, len(which) - 1, min(len(which), LOOKED_AT)).astype(int))
    which, mass_of = which[some], mass_of[some]
    points = rows.take(which)
    count, kernel = len(gathered.seen), model.rule.kernel
    distances = replace(model.rule.geometry.distances, anchors=points)
    crowd = np.zeros(len(points))
    for part in row_blocks(len(points), len(points)):
        crowd[part] = kernel.affinity(distances.cross(points[part])) @ measure[which]
    able = crowd >= min(CROWD, gathered.total / count)
    which, points, mass_of = which[able], points[able], mass_of[able]
    picked = _farthest(points, mass_of, model, np.exp(model.reference.typical - 1), count)
    return points[picked], which[picked]


def _farthest(points: Array, mass: Array, model: SpectralModel, enough: float, most: int) -> Array:
    """Indices of points, each the farthest from all landmarks and those before, until all see mass enough."""
    distances, picked = model.rule.geometry.distances, list[int]()
    squared = np.empty(len(points))
    for part in row_blocks(len(points), len(distances.anchors)):
        squared[part] = distances.cross(points[part]).min(axis=1)
    among = replace(distances, anchors=points)
    while len(picked) < most and (mass < enough).any():
        at = int(np.where(mass < enough, squared, -1.0).argmax())
        if at in picked:  # nothing but copies is left
            break
        picked.append(at)
        to = among.cross(points[[at]])[0]
        squared = np.minimum(squared, to)
        mass = mass + model.rule.kernel.affinity(to)
    return np.sort(np.array(picked, dtype=int))


def _anchors(gathered: Gathered, old: Array, points: Array, which: Array) -> Anchors:
    index = None if gathered.index is None else np.append(gathered.index, gathered.rows + which)
    return Anchors(np.vstack([old, points]), index, np.ones(len(old) + len(points)))


def _wider(geometry: Any, kernel: Any, points: Array, edges: Any) -> Any:
    """The same view of more landmarks."""
    if len(points) == len(geometry.anchors):
        return geometry
    distances = replace(geometry.distances, anchors=np.ascontiguousarray(points))
    if isinstance(geometry, NearestLandmarks):
        return replace(geometry, search=neighbors.build(distances, edges.search))
    return DenseGraph(distances, np.ones(len(points)), slack=kernel.slack)


# -- sums over rows ------------------------------------------------------------------------


def _continued(
    view: LandmarkDiffusion, old: Fit, rows: Source, measure: Array, anchors: Anchors, runner: Threads
) -> Problem:
    """The problem of old and new rows, from sums over the old ones."""
    gathered, rule, before = old.gathered, old.model.rule, old.model.reference
    passes = view.passes(
        rows, measure, _wider(rule.geometry, rule.kernel, anchors.points, view.edges), rule.kernel, runner
    )
    more, reference, degree = passes.first()
    H, seen = gathered.gram, gathered.seen
    if len(more) > len(seen):
        B = _explained(view.passes(rows, measure, rule.geometry, rule.kernel, runner), passes)
        H, seen = _seen_through(H, B), np.append(seen, B.T @ seen)
    else:
        H = H.copy()
    total, count = gathered.total + float(measure.sum()), gathered.rows + len(rows)
    omega, pace = passes.correction(seen + more, view.alpha, total)
    gain = omega * (seen + more)
    rebalance(H, seen, gain)
    H = passes.added(H, passes.second(gain))
    share = gathered.total / total
    typical = share * before.typical + (1 - share) * reference.typical
    degree = (gathered.rows * old.report.degree + len(rows) * degree) / count
    gathered = Gathered(view, H.copy(), seen + more, total, count, gathered.low, anchors.index)
    operator = passes.operator(H, seen + more, omega, pace)
    return _problem(passes, gathered, operator, old, anchors, replace(before, typical=typical), degree)


def _repeated(
    view: LandmarkDiffusion, old: Fit, rows: Source, measure: Array, anchors: Anchors, runner: Threads
) -> Problem:
    """The problem of all rows, passed over again."""
    rule = old.model.rule
    passes = view.passes(
        rows, measure, _wider(rule.geometry, rule.kernel, anchors.points, view.edges), rule.kernel, runner
    )
    seen, reference, degree = passes.first()
    if not (seen > 0).all():
        raise ValueError(
            f"{int((seen <= 0).sum())} of {len(seen)} landmarks are seen by no row of source. It must hold all rows, "
            "old and new; to leave some out, fit again."
        )
    total = float(measure.sum())
    omega, pace = passes.correction(seen, view.alpha, total)
    H = passes.second(omega * seen)
    gathered = Gathered(view, H.copy(), seen, total, len(rows), passes.low, anchors.index)
    operator = passes.operator(H, seen, omega, pace)
    return _problem(passes, gathered, operator, old, anchors, reference, degree)


def _problem(
    passes: Passes, gathered: Gathered, operator: Operator, old: Fit, anchors: Anchors, reference: Any, degree: float
) -> Problem:
    return Problem(
        anchors,
        replace(operator, runner=passes.runner, smooth=anchors.points[:, :16]),
        gathered.view.normalization,
        passes.geometry,
        passes.kernel,
        reference,
        columns=None,
        edges=old.report.edges,
        degree=degree,
        bandwidth=passes.kernel.bandwidth,
        gathered=gathered,
    )


def rebalance(H: Any, seen: Array, gain: Array) -> None:
    """Scale rows and columns of H alike, in place, so that H gain = seen."""
    some = seen > 0
    scale = np.ones(len(seen))
    for _ in range(100):
        now = scale * (H @ (scale * gain))
        step = np.sqrt(np.divide(seen, now, out=np.ones(len(seen)), where=some & (now > 0)))
        scale *= step
        if np.abs(step - 1).max() <= BALANCED:
            break
    scale_both_sides(H, scale)


def _explained(before: Any, after: Any) -> csr_array:
    """B: the columns of added landmarks as combinations, not negative, of those of the old landmarks around them."""
    old, points = before.geometry.anchors, after.geometry.anchors
    count, distances = len(old), before.geometry.distances
    rows, columns, values = [np.empty(0, int)], [np.empty(0, int)], [np.empty(0)]
    for at in range(count, len(points)):
        near = np.argsort(distances.cross(points[[at]])[0], kind="stable")[: 2 * AROUND]
        target = after.affinities(old[near])[:, [at]]
        design = before.affinities(old[near])[:, near[:AROUND]]
        target, design = (M.toarray() if issparse(M) else M for M in (target, design))
        if target.max() < 1e-6:  # far from all of them
            continue
        part = nnls(design, target[:, 0])[0]
        kept = np.flatnonzero(part > 0)
        rows.append(near[kept])
        columns.append(np.full(len(kept), at - count))
        values.append(part[kept])
    where = (np.concatenate(rows), np.concatenate(columns))
    return csr_array((np.concatenate(values), where), shape=(count, len(points) - count))


def _seen_through(H: Any, B: csr_array) -> Any:
    """[1 B]^T H [1 B]."""
    side = H @ B
    if issparse(H):
        return csr_array(block_array([[H, side], [side.T, B.T @ side]]))
    corner = B.T @ side
    return np.block([[H, side], [side.T, (corner + corner.T) / 2]])


# -- coordinates ---------------------------------------------------------------------------


def _solved(recipe: Recipe, problem: Problem, old: Fit, rows: Source) -> tuple[Fit, Array]:
    """Solve, and turn the new eigenfunctions to the old ones; also all functions that were found."""
    operator, normalization = problem.operator, problem.normalization
    kept = np.array(recipe.wanted) - 1 + normalization.skip
    spectrum = solve(operator, recipe.solver, min(operator.size, int(kept.max()) + 2 + EXTRA))
    asked = f"{recipe.wanted} of {operator.size} landmarks"
    normalization.within_rank(spectrum.values, kept, operator, asked, False)
    near = np.asarray(
        _close(spectrum.values, SAME)[:, kept].any(axis=1)
    )  # pairs that the wanted ones may have mixed with
    near[: normalization.skip] = False
    able = np.flatnonzero(near)
    values, functions = spectrum.values[able], operator.functions(spectrum.vectors[:, able])
    turn = followed(_overlap(old, functions), values, np.isin(able, kept))
    eigenvalues = values @ np.square(turn)
    model = SpectralModel(
        normalization.rule(operator, problem.geometry, problem.kernel, eigenvalues),
        normalization.basis(functions, values) @ turn,
        normalization.scale(eigenvalues),
        problem.reference,
    )
    report = _engine.report_on(rows, recipe, problem, spectrum, kept, 0.0, 0.0)
    order = np.arange(operator.size) if problem.anchors.index is None else np.argsort(problem.anchors.index)
    told = problem.anchors.at(order), eigenvalues, (functions @ turn)[order]
    found = Fit(model, *told, None, np.empty(0), None, None, False, report, problem.gathered)
    return found, operator.functions(spectrum.vectors[:, normalization.skip :])


def _overlap(old: Fit, functions: Array) -> Array:
    """Correlation-like products of old and new functions over the old landmarks, weighted by their mass; (old, new)."""
    share = old.model.rule.gain * old.gathered.seen
    share = share / share.sum()
    before, after = old.model.basis, functions[: len(share)]
    before, after = before - share @ before, after - share @ after
    size = np.sqrt(share @ np.square(before))
    return (before / np.maximum(size, np.finfo(float).tiny)).T @ (share[:, None] * after)


def _close(values: Array, part: float) -> Array:
    """Which of these eigenvalues differ by no more than a part of their distance from 0 and 1."""
    size = np.minimum(np.abs(values), 1 - values)
    return np.asarray(np.abs(values[:, None] - values) <= part * np.maximum(size[:, None], size))


def followed(overlap: Array, values: Array, kept: Array) -> Array:
    """R, orthonormal columns (found, old): new coordinates times R follow the old ones.

    Eigenpairs that are apart keep to themselves: R gives each its place and sign. Eigenvalues that differ by less
    than a quarter (of their distance from 1 or 0, whichever is less), and those linked through them, are a group:
    drift mixes its functions, so R turns them to the old coordinates (U V' of the overlap's U S V'), and distances
    stay as they are. Pairs that are not ``kept`` are there only if they are nearly equal to one that is.
    """
    _, group = connected_components(csr_array(_close(values, NEAR)), directed=False)
    slots = group[kept]  # as many old coordinates go to a group as it has kept pairs
    held = np.sqrt(np.square(overlap) @ (group[:, None] == slots))
    columns, places = linear_sum_assignment(-held)
    turn = np.zeros(overlap.T.shape)
    for one in np.unique(slots):
        mine, members = columns[slots[places] == one], np.flatnonzero(group == one)
        U, _, V = np.linalg.svd(overlap[np.ix_(mine, members)].T, full_matrices=False)
        turn[np.ix_(members, mine)] = U @ V
    return turn


def _drift(past: Past, new: Fit, runner: Threads) -> Drift:
    old = past.found
    points = old.model.rule.geometry.anchors
    before, after = old.model.embed(points, runner), new.model.embed(points, runner)
    rates = np.abs(new.eigenvalues - old.eigenvalues) / np.maximum(1 - old.eigenvalues, 1e-12)
    count = 1 if old.report.drift is None else old.report.drift.updates + 1
    moved, since = _moved(before, after), _moved(past.first, after[: len(past.first)])
    return Drift(count, 0, 0, False, moved, since, float(rates.max()))


def _moved(before: Array, after: Array) -> float:
    """Root mean squared displacement relative to the spread."""
    spread = np.square(before - before.mean(axis=0)).sum()
    return float(np.sqrt(np.square(after - before).sum() / max(spread, np.finfo(float).tiny)))
