"""The stages of a fit, each run once; the fitted model is one formula, ``row(x) @ basis``.

data -> anchors -> distances -> kernel -> normalisation -> eigenpairs -> basis
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import WEIGHTS, WHOLE, Array, Axes
from ..bandwidths import ALL_EQUAL
from ..data.places import find_places
from ..data.sources import InMemory, Source
from ..data.sparse_rows import SparseRows, all_rows_equal, largest_entries
from ..distances import LARGEST_ENTRY, LEAST_SPREAD, Metric
from ..extensions.domain import Domain, TrainingSample
from ..extensions.samples import SEED, Extension, Samples
from ..graphs.local_dimension import LIKELIHOOD_NEIGHBORS, dimension_of_points
from ..graphs.pair_statistics import even_sample
from ..landmarks import AllRows, Anchors, AtMost, Landmarks, count_positive, holds_every_row
from ..operators import directions
from ..operators.cluster_count import PAIRS, ClusterCount
from ..operators.concerns import Concern, FeatureScales, Importance, measure_linearity, most_important
from ..operators.directions import count_directions
from ..operators.operator import DENSE_SOLVER_UP_TO
from ..operators.problem import SPANNED, BuiltProblem, Eigenproblem, Gathered
from ..operators.signs import orient
from ..solvers import Solver, Spectrum, solve
from ..trust import REFERENCE_ROWS
from .model import ExtendedModel, SpectralModel
from .report import Report

# Most eigenpairs that n_components="auto" computes if there are more anchors than the dense solver takes.
MOST_PAIRS = 512
CARRIED_SHARE = 0.5  # of the variance of a coordinate: more, held by five anchors, is a warning
CARRIED_FROM = 100  # anchors: of fewer, any five hold much
CLUSTERS = "clusters"  # as n_components: one less than there are clusters
DRAWN = 3  # first coordinates, which pictures show


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A method with its parameters: an eigenproblem and what to compute from it."""

    method: str
    view: Eigenproblem
    wanted: int | str | tuple[int, ...]  # n_components, or ``CLUSTERS``
    landmarks: Landmarks
    solver: Solver
    clip_to_rank: bool = False  # keep fewer components instead of raising when the rank runs out
    clusters: int | str = 1  # that are wanted: as many components, or fewer, are no concern. "auto": counted

    @property
    def streams(self) -> bool:
        """Whether the rows can be read in blocks, without being in memory."""
        return self.view.streams and (self.view.streams_every_row or not isinstance(self.landmarks, AllRows))

    def clip(self, anchors: int) -> Recipe:
        """Return the recipe for this number of distinct anchors, which have one coordinate less."""
        if not self.clip_to_rank or not isinstance(self.wanted, int):
            return self
        return replace(self, wanted=max(1, min(self.wanted, anchors - 1)))


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The result of a fit."""

    model: Annotated[SpectralModel | ExtendedModel, Axes("n d c")]
    anchors: Annotated[Anchors, Axes("n d")]
    eigenvalues: Annotated[Array, Axes("c")]
    functions: Annotated[Array, Axes("n c")]  # eigenfunctions on the anchors
    # Of the training rows: anchors have their spectral coordinates, the others are extended. None: rows not in memory.
    embedding: Annotated[Array | None, Axes("r c")]
    measure: Annotated[Array, Axes("r"), WEIGHTS]  # on the training rows
    columns: Annotated[Array | None, Axes("k"), WHOLE]  # the columns of a precomputed matrix that a row is read from
    places: Annotated[
        Array | None, Axes("n c")
    ]  # the spectral embedding of the anchors; None: all training rows have one, by their own rows
    unit_columns: bool  # coordinates have length 1 over the training rows, so they shrink as rows are added
    report: Report
    gathered: Gathered | None = None  # further results: `PassSums` if the fit can be updated, `Placement` of PHATE
    sample: Annotated[TrainingSample | None, Axes("d")] = None  # training rows, if the anchors are only some of them

    def samples(self, view: Eigenproblem, runner: Threads) -> Samples:
        """Return the anchors with their embedding, to which an extension is fitted."""
        points = self.anchors.points
        if view.given and not view.between_rows:  # a landmark's own row is not known: it is taken to be the landmark
            return Samples.of(points, self.model.basis, self.anchors.measure, None, self.model)
        places = self.model.embed(points, runner) if self.places is None else self.places
        return Samples.of(points, places, self.anchors.measure, view.feature_metric, self.model)

    def domain(self, view: Eigenproblem, runner: Threads) -> Domain:
        """Return what new rows are compared with."""
        sample = self.sample or (None if view.given else TrainingSample.of(self.anchors.points, self.anchors.measure))
        through_landmarks = self.sample is not None and not view.sees_every_row
        return Domain.of_model(self.model, sample, view.feature_metric, runner, through_landmarks)


def fit_recipe(rows: Source, recipe: Recipe, measure: Array, rng: np.random.Generator, runner: Threads) -> Fit:
    """Run the stages on the rows and return the fit."""
    view = recipe.view
    check_count(recipe, count_positive(measure))
    if not view.given and isinstance(rows, InMemory):
        check_points(rows.array())
    drawn = view.streams_every_row and isinstance(recipe.landmarks, AllRows) and not isinstance(rows, InMemory)
    anchors = (AtMost(REFERENCE_ROWS) if drawn else recipe.landmarks).select(rows, measure, rng)
    some = not (view.given or holds_every_row(anchors, measure))
    if not view.given:
        check_points(anchors.points)  # landmarks may be given
        if view.merges_copies:
            anchors = anchors.merge_copies()
            recipe = recipe.clip(len(anchors.measure))
    check_count(recipe, len(anchors.measure))
    with runner.blas():
        problem = view.build(rows, anchors, measure, _needed_pairs(recipe), runner)
        problem, spectrum, kept = _solve(problem, recipe)
        anchors, operator, normalization = problem.anchors, problem.operator, problem.normalization
        asked = f"{recipe.wanted} of {operator.size} anchors, n_features = {rows.shape[1]}"
        kept = normalization.within_rank(spectrum.values, kept, operator, asked, recipe.clip_to_rank)
        eigenvalues = normalization.eigenvalues(spectrum.values[kept])
        vectors = spectrum.vectors[:, kept]
        functions = operator.functions(vectors)
        share = operator.stationary / operator.stationary.sum()
        signs = orient(functions, share, None if view.given else anchors.points, runner)
        functions *= signs
        basis = normalization.basis_of(functions, vectors * signs, eigenvalues)
        scale = normalization.scale(eigenvalues)
        model = SpectralModel(problem.rule.at(eigenvalues), basis, scale, problem.reference)
        negative = normalization.negative_mass(operator, spectrum.values, spectrum.vectors)
    _check_finite(basis, eigenvalues)
    embedding, gap = _training_embedding(rows, problem, model, runner)
    if embedding is not None:
        _check_finite(embedding, eigenvalues)
    problem = replace(problem, notes=(*problem.notes, *_gap_concerns(gap, model)))
    embedded = None if embedding is None or isinstance(recipe.landmarks, AllRows) else (embedding, measure)
    report = report_on(rows, recipe, problem, spectrum, kept, negative, gap, embedded)
    order = problem.order
    return Fit(
        model=model,
        anchors=anchors.at(order),
        eigenvalues=eigenvalues,
        functions=functions[order],
        embedding=embedding,
        measure=measure,
        columns=problem.columns,
        places=_places_of_anchors(problem, model, embedding, runner),
        unit_columns=normalization.unit_columns,
        report=report,
        gathered=problem.gathered,
        sample=sample_rows(rows, measure) if some else None,
    )


def sample_rows(rows: Source, measure: Array) -> TrainingSample:
    """Return training rows that new ones are compared with."""
    drawn = AtMost(REFERENCE_ROWS).select(rows, measure, np.random.default_rng(SEED))
    return TrainingSample.of(drawn.points, drawn.measure)


def _places_of_anchors(
    problem: BuiltProblem, model: SpectralModel, embedding: Array | None, runner: Threads
) -> Array | None:
    """Return the spectral embedding of the anchors, ordered as in the fit; None if every row has one."""
    if model.scale is not None:
        return model.places[problem.order]
    if problem.normalization.of_all_rows:
        return None
    anchors, columns = problem.anchors, problem.columns
    if embedding is not None and anchors.index is not None:
        return embedding[anchors.index[problem.order]]
    anchors = anchors.at(problem.order)
    return model.embed(anchors.points if columns is None else anchors.points[:, columns], runner)


def extend_model(known: Samples, extension: Extension, runner: Threads) -> SpectralModel | ExtendedModel:
    """Return the model with this extension; the spectral model itself if the extension is the method's own rule."""
    function = extension.fit(known, runner)
    assert isinstance(known.model, SpectralModel)
    return known.model if function is known.model else ExtendedModel(known.model, function)


def extend_fit(found: Fit, rows: Source, known: Samples, extension: Extension, runner: Threads) -> Fit:
    """Return the same fit with this extension to new points."""
    model = extend_model(known, extension, runner)
    if not isinstance(model, ExtendedModel):
        return found
    sample = np.linspace(0, len(known.points) - 1, min(len(known.points), 256)).astype(int)
    gap = float(np.abs(model.embed(known.points[sample], runner) - known.values[sample]).max())
    embedding, index = found.embedding, found.anchors.index
    if embedding is not None and found.places is not None and (index is None or len(index) < len(embedding)):
        spectral, embedding = embedding, model.embed(rows.array(), runner)
        if index is not None:
            _write_places(embedding, index, spectral[index], rows.array() if found.columns is None else None)
    size = max(float(np.abs(known.values).max()), np.finfo(float).tiny)
    amplification = max(1.0, model.extension.amplification / size)
    report = replace(found.report, extension=str(extension), extension_gap=gap, amplification=amplification)
    return replace(found, model=model, embedding=embedding, report=report)


def _needed_pairs(recipe: Recipe) -> int:
    return 1 if isinstance(recipe.wanted, str) else int(np.max(recipe.wanted))


def check_points(points: Array) -> None:
    """Refuse points that are all equal, or whose squared distances overflow or underflow."""
    if all_rows_equal(points):
        raise ValueError(ALL_EQUAL)
    largest = np.nanmax(largest_entries(points))
    if largest > LARGEST_ENTRY:
        raise ValueError(f"Squared distances overflow: the data reaches {largest:.1e}. Rescale the features.")
    spread = largest if isinstance(points, SparseRows) else _largest_spread(points)
    if spread < LEAST_SPREAD:
        raise ValueError(
            f"Squared distances underflow: the data spread over {spread:.1e} at most. Rescale the features, with "
            f"(X - X.mean(axis=0)) / {spread:.1e}, for example."
        )


def _largest_spread(points: Array) -> float:
    """Return the largest range of a feature; NaN does not count."""
    return float(np.fmax.reduce(np.fmax.reduce(points) - np.fmin.reduce(points)))


def _check_finite(values: Array, eigenvalues: Array) -> None:
    """Raise ValueError if a coordinate is not a number: the last guard, for what no other check has foreseen."""
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"{bad.any(axis=0).sum()} of {values.shape[1]} coordinates are not finite (the first at row "
            f"{np.flatnonzero(bad.any(axis=1))[0]}); the smallest eigenvalue is {np.abs(eigenvalues).min():.1e}. Keep "
            "fewer components, and see whether features or weights span many orders of magnitude."
        )


def check_count(recipe: Recipe, n: int) -> None:
    wanted = recipe.wanted
    most = max(wanted) if isinstance(wanted, tuple) else wanted
    if not isinstance(most, str) and most >= n:
        if recipe.clusters != 1:
            raise ValueError(
                f"n_clusters={recipe.clusters} is more than the rows, n = {n}. Pass a smaller number, or 'auto'."
            )
        raise ValueError(
            f"n_components={wanted} needs more than {most} anchors, but there are n = {n}: n points have at "
            f"most n - 1 = {n - 1} non-trivial coordinates."
        )


def _solve(problem: BuiltProblem, recipe: Recipe) -> tuple[BuiltProblem, Spectrum, Array]:
    """Compute the wanted eigenpairs, again if they show that the problem must be changed."""
    while True:
        if not recipe.view.given:
            problem = problem.with_means()
        spectrum, kept = _select(problem, recipe)
        if problem.revise is None:
            return problem, spectrum, kept
        problem, again = problem.revise(
            problem, spectrum.values[: kept.max() + 1], spectrum.vectors[:, : kept.max() + 1]
        )
        if not again:
            return problem, spectrum, kept


def _select(problem: BuiltProblem, recipe: Recipe) -> tuple[Spectrum, Array]:
    """Compute the wanted eigenpairs and one more (for the gap). Returns the spectrum and the indices of the wanted."""
    operator, normalization = problem.operator, problem.normalization
    n, skip, wanted = operator.size, normalization.skip, recipe.wanted
    if not isinstance(wanted, str):
        kept = np.array(wanted if isinstance(wanted, tuple) else range(1, wanted + 1)) - 1 + skip
        return solve(operator, recipe.solver, min(n, kept.max() + 2)), kept
    if wanted == CLUSTERS:
        spectrum = solve(operator, recipe.solver, min(n, PAIRS))
        return spectrum, np.arange(ClusterCount.of(operator, spectrum.values, spectrum.vectors).chosen - 1) + skip
    if normalization.looked:
        return _select_directions(problem, recipe)
    count = n if n <= DENSE_SOLVER_UP_TO else 32
    while True:
        spectrum = solve(operator, recipe.solver, min(n, count))
        chosen = normalization.dimension(operator, spectrum.values[skip:])
        if chosen is not None or count >= min(n, MOST_PAIRS):
            return spectrum, np.arange(chosen or len(spectrum.values) - skip) + skip
        count *= 2


def _select_directions(problem: BuiltProblem, recipe: Recipe) -> tuple[Spectrum, Array]:
    """Select the contrasts of components, and the first eigenpairs up to the last that is a new direction.

    Of them those that ``normalization.dimension`` allows: they weigh little, or are rounding, beyond it.
    """
    operator, normalization = problem.operator, problem.normalization
    n, skip = operator.size, normalization.skip
    contrasts = min(operator.parts.count - 1, MOST_PAIRS)
    spectrum = solve(operator, recipe.solver, min(n, max(normalization.looked, contrasts) + skip + 1))
    values = spectrum.values[skip : skip + max(normalization.looked, contrasts)]
    dimension = _dimension(problem, recipe.view)
    seen = max(n // directions.ROWS_PER_DIRECTION, round(dimension))
    looked = max(contrasts, min(seen, normalization.dimension(operator, values) or len(values)))
    if contrasts < looked:
        functions = operator.functions(spectrum.vectors[:, skip : skip + looked])
        functions = functions[_sample_anchors(problem, recipe.view, functions)]
        looked = max(contrasts, count_directions(functions, dimension, operator.runner))
    return spectrum, np.arange(looked) + skip


def _sample_anchors(problem: BuiltProblem, view: Eigenproblem, functions: Array) -> Array:
    """Return at most ``directions.REGRESSED_ROWS`` different anchors, the same ones for any order of rows."""
    if view.given:
        return even_sample(functions[:, :1], directions.REGRESSED_ROWS)
    points = problem.anchors.points
    places = find_places(points)
    distinct = np.arange(len(points)) if places is None else places.first
    rows: Array = distinct[even_sample(points[distinct], directions.REGRESSED_ROWS)]
    return rows


def _dimension(problem: BuiltProblem, view: Eigenproblem) -> float:
    """Return the dimension of the anchors: that of the report, else by maximum likelihood; 1 if nothing is known."""
    if problem.bandwidth.dimension is not None:
        return problem.bandwidth.dimension
    if view.given:
        return 1.0
    anchors, metric = problem.anchors, view.feature_metric or Metric()
    if problem.stored is not None:
        anchors = anchors.at(problem.stored)
    points, measure = anchors.points, anchors.measure
    return dimension_of_points(points, measure, metric, LIKELIHOOD_NEIGHBORS, problem.operator.runner) or 1.0


def _training_embedding(
    source: Source, problem: BuiltProblem, model: SpectralModel, runner: Threads
) -> tuple[Array | None, float]:
    """Return the embedding of the training rows (None: not in memory).

    Also the largest error of ``transform`` against it, over a sample of the anchors.
    """
    X = source.array() if isinstance(source, InMemory) else None
    anchors, columns = problem.anchors, problem.columns
    if model.scale is None:  # `row(x) @ basis` is the embedding of the anchors too
        if X is not None and columns is not None and problem.kept is None:
            X = X[:, columns]
        if X is None:
            return None, 0.0
        embedding = model.look(X, runner, problem.kept)[0]
        if problem.kept is not None and len(problem.kept.order) < len(X):
            rest = _write_copies(embedding, problem.kept.order, X)
            if len(rest):
                embedding[rest] = model.embed(X[rest], runner)
        return embedding, 0.0
    spectral = model.places
    sample = np.linspace(0, len(spectral) - 1, min(len(spectral), 256)).astype(int)
    rows = anchors.points[sample]
    gap = float(np.abs(model.embed(rows if columns is None else rows[:, columns], runner) - spectral[sample]).max())
    if X is None:
        return None, gap
    if anchors.index is not None and len(anchors.index) == len(X):
        embedding = np.empty_like(spectral)
    else:
        embedding = model.embed(X if columns is None else X[:, columns], runner)
    if anchors.index is not None:
        _write_places(embedding, anchors.index, spectral, X if columns is None else None)
    return embedding, gap


def _write_places(embedding: Array, index: Array, places: Array, X: Array | None) -> None:
    """Write the embedding of the anchors to the rows ``index`` of X, and to rows that equal them, in place.

    X None: rows are precomputed, and equal ones are not looked for.
    """
    embedding[index] = places
    if X is not None and len(index) < len(X):
        _write_copies(embedding, index, X)


def _write_copies(embedding: Array, index: Array, X: Array) -> Array:
    """Write the embedding of the rows ``index`` to rows that equal them, in place; return the rows that equal none."""
    equal = find_places(X)
    member = np.arange(len(X)) if equal is None else equal.member
    anchor = np.full(len(X) if equal is None else len(equal.first), -1)
    anchor[member[index]] = index
    source = anchor[member]
    rest = np.flatnonzero(source < 0)
    source[index] = -1
    copies = np.flatnonzero(source >= 0)
    embedding[copies] = embedding[source[copies]]
    return rest


def report_on(
    rows: Source, recipe: Recipe, problem: BuiltProblem, spectrum: Spectrum, kept: Array, negative: float, gap: float,
    embedded: tuple[Array, Array] | None = None,
) -> Report:  # fmt: skip
    """Return the report of a fit with the eigenpairs ``kept``, with its warnings.

    ``embedded``: the embedding of the rows and their measure, if the anchors are only some of the rows.
    """
    operator = problem.operator
    values, distance = spectrum.values, operator.distance(spectrum.values)
    after, size = kept.max() + 1, np.abs(values) if operator.both_ends else values
    solved = slice(spectrum.trivial, None)
    least = 1e4 * np.finfo(float).eps * operator.spread  # a smaller distance has fewer than four correct digits
    relative = spectrum.residuals[solved] / np.maximum(distance[solved], least)
    report = Report(
        method=recipe.method,
        n_samples=len(rows),
        n_features=rows.shape[1],
        n_anchors=len(problem.order),
        edges=problem.edges,
        recall=problem.recall,
        degree=problem.degree,
        epsilon=problem.bandwidth.epsilon,
        bandwidth=problem.bandwidth.how,
        dimension=problem.bandwidth.dimension,
        solver=spectrum.solver,
        solver_why=spectrum.why,
        products=spectrum.products,
        n_components=len(kept),
        components=operator.parts.count,
        component_sizes=tuple(int(s) for s in np.sort(operator.parts.sizes)[::-1][:20]),
        multiplicity=max(operator.trivial_among(values), operator.parts.count),
        residual=float(relative.max(initial=0.0)),
        gap=float(size[kept.max()] - size[after]) if after < len(values) else float("nan"),
        relative_gaps=problem.normalization.relative_gaps(distance, kept),
        trace=operator.trace(),
        negative_mass=negative,
        amplification=float(max(1.0, problem.normalization.amplification(values[kept]))),
        extension_gap=gap,
        clusters=ClusterCount.of(operator, values, spectrum.vectors) if recipe.wanted == CLUSTERS else None,
    )
    found = _concerns(report, values[kept], problem, recipe)
    mass = operator.measure if isinstance(recipe.landmarks, AllRows) else operator.stationary
    shown = (operator.functions(spectrum.vectors[:, kept[:DRAWN]]), mass) if embedded is None else embedded
    found += few_carriers(*shown, recipe.view.against_outliers)
    found += _width_concerns(report, recipe.view, problem, values[kept], spectrum.vectors[:, kept[:2]])
    if not recipe.view.weighs_scales:
        return replace(report, warnings=most_important(found))
    scales = FeatureScales.of(problem.anchors.points, problem.anchors.measure, rows.names)
    return replace(report, warnings=most_important([*found, *scales.concerns()]), features=str(scales))


def _width_concerns(
    report: Report, view: Eigenproblem, problem: BuiltProblem, values: Array, vectors: Array
) -> list[Concern]:
    """Return a warning if the kernel spans the data, else nothing."""
    span = view.span(problem)
    if span is None or values.max() >= SPANNED**span.steps:
        return []
    linear = 0.0 if view.given else measure_linearity(problem.anchors.points, problem.operator.functions(vectors))
    return span.concerns(report, float(values.max()), linear)


def _gap_concerns(gap: float, model: SpectralModel) -> list[Concern]:
    """Return a warning if ``transform`` misses the embedding of a training row altogether, else nothing."""
    size = 0.0 if model.scale is None else float(np.abs(model.places).max())
    if not gap > 0.5 * size:
        return []
    text = (
        f"transform misses the embedding of a training row by {gap:.2g}, where coordinates reach {size:.2g}: an "
        "eigenvector lies on a few rows (of little weight, or with hardly a neighbour), for which the extension "
        "divides by almost 0. Keep fewer components, or leave such rows out."
    )
    return [Concern(Importance.UNSOLVED, text)]


def few_carriers(coordinates: Array, mass: Array, remedy: str) -> list[Concern]:
    """Return a warning if five samples hold most of the variance of one of the first coordinates, else nothing."""
    if len(mass) < CARRIED_FROM:
        return []
    coordinates, mass = coordinates[:, :DRAWN], mass / mass.sum()
    held = mass[:, None] * np.square(coordinates - mass @ coordinates)
    share = np.partition(held, -5, axis=0)[-5:].sum(axis=0) / np.maximum(held.sum(axis=0), np.finfo(float).tiny)
    if not (share > CARRIED_SHARE).any():
        return []
    first = int(np.argmax(share > CARRIED_SHARE))
    text = (
        f"Coordinate {first + 1} shows outliers: 5 of {len(mass)} samples hold {share[first]:.0%} of its variance. "
        f"{remedy}, or drop the outliers (outfold.selection.RemoveOutliers)."
    )
    return [Concern(Importance.FEW_ROWS, text)]


def _concerns(report: Report, values: Array, problem: BuiltProblem, recipe: Recipe) -> list[Concern]:
    """Return the warnings about this fit, but those of :func:`few_carriers` and of scales."""
    wanted = recipe.clusters if report.clusters is None else report.clusters.chosen
    as_wanted = replace(report, components=1) if report.components <= int(wanted) else report
    found = [*problem.notes, *recipe.view.concerns(as_wanted, values, problem), *problem.normalization.concerns(values)]
    if report.residual > 1e-2:
        text = (
            f"The solver ({report.solver}) left a residual of {report.residual:.1e} of an eigenvalue's distance to "
            "the trivial one. Coordinates may be off by as much; try solver='shift_invert'."
        )
        found.append(Concern(Importance.UNSOLVED, text))
    if report.clusters is not None and (text := report.clusters.warning() or ""):
        found.append(Concern(Importance.GUESS, text))
    n = report.n_anchors
    solved = n if n <= DENSE_SOLVER_UP_TO else min(n, MOST_PAIRS)
    every = len(values) == solved - problem.normalization.skip
    if recipe.wanted == "auto" and every and not problem.normalization.looked:
        text = (
            f"n_components='auto' did not see the spectrum decay below 0.1 within {solved} eigenpairs; all "
            f"{len(values)} coordinates were kept."
        )
        found.append(Concern(Importance.GUESS, text))
    return found
