"""The engine: fit walks the stages once, and a model is one formula, ``row(x) @ basis``.

data -> anchors -> distances -> kernel -> normalisation -> eigenpairs -> basis
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._problem import Kept, Problem
from ._report import Report
from ._signs import orient
from .bandwidths import ALL_EQUAL
from .distances import LARGEST
from .extensions import Known
from .landmarks import Anchors, Everything, able
from .normalizations import Operator, Rows
from .runners import Threads, row_blocks
from .solvers import Auto, Spectrum, solve
from .sources import InMemory, Source
from .trust import Reference, Trust

Array = NDArray[Any]


MOST_PAIRS = 512  # that n_components="auto" looks at where there are more anchors than are solved densely


@dataclass(frozen=True)
class Recipe:
    """A method as its row in the table: how points see each other, and what is wanted of it."""

    method: str
    view: Any  # poses the eigenproblem of the anchors
    wanted: int | str | tuple[int, ...]
    landmarks: Any
    solver: Any
    clip_to_rank: bool = False  # keep fewer components instead of raising when the rank runs out

    @property
    def streams(self) -> bool:
        """Whether the rows need not be in memory."""
        return getattr(self.view, "streams", False) and not isinstance(self.landmarks, Everything)


@dataclass(frozen=True)
class SpectralModel:
    """Anchors and row rule, and a basis."""

    rule: Any
    basis: Array  # (anchors, components)
    scale: Array | None  # (components,): see ``places``; None: the anchors' own rows give their embedding
    reference: Reference

    def embed(self, Z: Array, runner: Threads) -> Array:
        """The embedding of any points."""
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> Trust:
        """How well the training data supports each point."""
        return self.look(Z, runner)[1]

    def look(self, Z: Array, runner: Threads, kept: Kept | None = None) -> tuple[Array, Trust]:
        """Embedding and evidence in one pass over row blocks; ``kept`` is what they see, if that is known."""
        embedding = np.empty((len(Z), self.basis.shape[1]))
        log_mass = np.empty(len(Z))
        blocks = row_blocks(len(Z), self.rule.row_entries)
        geometry = self.rule.geometry
        many = len(blocks) > 1 and hasattr(geometry, "arranged")
        order = geometry.arranged(np.asarray(Z, dtype=float), runner) if many else None
        if kept is not None:
            order = kept.order

        def fill(block: slice) -> None:
            at: Any = block if order is None else order[block]
            points = np.ascontiguousarray(Z[at], dtype=float)
            with np.errstate(over="ignore", invalid="ignore"):
                seen = () if kept is None else (kept.block(block, points, geometry.distances),)
                rows: Rows = self.rule.rows(points, *seen)
                values, mass = rows @ self.basis, rows.log_mass
            beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(beyond):  # where floating point ends a row is its nearest anchor
                values[beyond] = self.nearest(points[beyond])
                mass[beyond] = -np.inf
            embedding[at], log_mass[at] = values, mass

        runner.each(fill, blocks, "embedding")
        return embedding, self.reference.judge(log_mass)

    @property
    def places(self) -> Array:
        """The embedding of the anchors as the eigenproblem gives it: basis * scale, times the rule's root."""
        root = getattr(self.rule, "root", None)
        values = self.basis * self.scale
        return values if root is None else values * root[:, None]

    def nearest(self, Z: Array) -> Array:
        """The embedding of each point's nearest anchor."""
        at = self.rule.geometry.nearest(np.asarray(Z, dtype=float))
        if self.scale is None:
            return self.rule.rows(self.rule.geometry.anchors[at]) @ self.basis
        return self.places[at]


@dataclass(frozen=True)
class ExtendedModel:
    """A spectral model whose embedding is carried to points by another function than its rows."""

    spectral: SpectralModel
    extension: Any  # fitted

    @property
    def rule(self) -> Any:
        return self.spectral.rule

    @property
    def basis(self) -> Array:
        return self.spectral.basis

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> Trust:
        return self.spectral.evidence(Z, runner)

    def look(self, Z: Array, runner: Threads) -> tuple[Array, Trust]:
        """The extension's embedding, and the evidence of the spectral model."""
        values, trust = self.extension.embed(Z, runner), self.spectral.evidence(Z, runner)
        beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(beyond):
            values[beyond] = self.nearest(np.asarray(Z)[beyond])
        return values, trust

    def nearest(self, Z: Array) -> Array:
        return self.spectral.nearest(Z)


@dataclass(frozen=True)
class Fit:
    """All that a fit found."""

    model: Any  # SpectralModel or ExtendedModel
    anchors: Anchors
    eigenvalues: Array
    functions: Array  # eigenfunctions on the anchors
    embedding: Array | None  # of the training rows: spectral, of landmarks; the rest extended. None: not in memory
    measure: Array  # on the training rows
    columns: Array | None  # of a given matrix: those a row is read from
    places: Array | None  # the spectral embedding of the anchors; None: their own rows give it
    unit_columns: bool  # coordinates have length 1 over the training rows, so they shrink as rows are added
    report: Report
    gathered: Any = None  # what else was found: sums over the rows, where the fit can be updated

    def known(self, view: Any, runner: Threads) -> Known:
        """What an extension may learn from."""
        points = self.anchors.points
        places = self.model.embed(points, runner) if self.places is None else self.places
        return Known.of(points, places, self.anchors.measure, getattr(view, "metric", None), self.model)


def fit(rows: Source, recipe: Recipe, measure: Array, rng: np.random.Generator, runner: Threads) -> Fit:
    """Walk the stages."""
    view = recipe.view
    _check_count(recipe.wanted, able(measure))
    anchors = recipe.landmarks.select(rows, measure, rng)
    if not view.given:
        check_points(anchors.points)
        if view.merges_copies:
            anchors = anchors.merged()
    _check_count(recipe.wanted, len(anchors.measure))
    with runner.blas():
        problem = view.pose(rows, anchors, measure, _needed(recipe), runner)
        anchors, operator, normalization = problem.anchors, problem.operator, problem.normalization
        spectrum, kept = _select(operator, normalization, recipe)
        asked = f"{recipe.wanted} of {operator.size} anchors, n_features = {rows.shape[1]}"
        kept = normalization.within_rank(spectrum.values, kept, operator, asked, recipe.clip_to_rank)
        eigenvalues = normalization.eigenvalues(spectrum.values[kept])
        functions = operator.functions(spectrum.vectors[:, kept])
        functions *= orient(
            functions, operator.stationary / operator.stationary.sum(), None if view.given else anchors.points
        )
        model = SpectralModel(
            normalization.rule(operator, problem.geometry, problem.kernel, eigenvalues),
            normalization.basis(functions, eigenvalues),
            normalization.scale(eigenvalues),
            problem.reference,
        )
        negative = normalization.negative_mass(operator, spectrum.values, spectrum.vectors)
    embedding, gap = _training_embedding(rows, problem, model, runner)
    report = report_on(rows, recipe, problem, spectrum, kept, negative, gap)
    order = np.arange(len(functions)) if anchors.index is None else np.argsort(anchors.index)
    places = None if model.scale is None else model.places[order]
    return Fit(
        model,
        anchors.at(order),
        eigenvalues,
        functions[order],
        embedding,
        measure,
        problem.columns,
        places,
        normalization.unit_columns,
        report,
        problem.gathered,
    )


def carried(known: Known, extension: Any, runner: Threads) -> SpectralModel | ExtendedModel:
    """The model of a fit with an extension: itself, if that is its own rule."""
    function = extension.fit(known, runner)
    return function if function is known.model else ExtendedModel(known.model, function)


def extended(found: Fit, rows: Source, known: Known, extension: Any, runner: Threads) -> Fit:
    """The same fit, carried to points by an extension."""
    model = carried(known, extension, runner)
    if not isinstance(model, ExtendedModel):
        return found
    sample = np.linspace(0, len(known.points) - 1, min(len(known.points), 256)).astype(int)
    gap = float(np.abs(model.embed(known.points[sample], runner) - known.values[sample]).max())
    embedding, index = found.embedding, found.anchors.index
    if embedding is not None and found.places is not None and (index is None or len(index) < len(embedding)):
        spectral, embedding = embedding, model.embed(rows.array(), runner)
        if index is not None:
            embedding[index] = spectral[index]
    size = max(float(np.abs(known.values).max()), np.finfo(float).tiny)
    amplification = max(1.0, getattr(model.extension, "amplification", 1.0) / size)
    report = replace(found.report, extension=str(extension), extension_gap=gap, amplification=amplification)
    return replace(found, model=model, embedding=embedding, report=report)


def _needed(recipe: Recipe) -> int:
    return 1 if isinstance(recipe.wanted, str) else int(np.max(recipe.wanted))


def check_points(points: Array) -> None:
    """Refuse points that are all equal, or so large that squared distances overflow."""
    if (points == points[0]).all():
        raise ValueError(ALL_EQUAL)
    largest = np.nanmax(np.abs(points))
    if largest > LARGEST:
        raise ValueError(f"Squared distances overflow: the data reaches {largest:.1e}. Rescale the features.")


def _check_count(wanted: Any, n: int) -> None:
    most = max(wanted) if isinstance(wanted, tuple) else wanted
    if most != "auto" and most >= n:
        raise ValueError(
            f"n_components={wanted} needs more than {most} anchors, but there are n = {n}: n points have at "
            f"most n - 1 = {n - 1} non-trivial coordinates."
        )


def _select(operator: Operator, normalization: Any, recipe: Recipe) -> tuple[Spectrum, Array]:
    """Solve for what is wanted and one pair more (for the gap); tell which columns to keep."""
    n, skip, wanted = operator.size, normalization.skip, recipe.wanted
    if not isinstance(wanted, str):
        kept = np.array(wanted if isinstance(wanted, tuple) else range(1, wanted + 1)) - 1 + skip
        return solve(operator, recipe.solver, min(n, kept.max() + 2)), kept
    count = n if n <= Auto.dense_up_to else 32
    while True:
        spectrum = solve(operator, recipe.solver, min(n, count))
        chosen = normalization.dimension(operator, spectrum.values[skip:])
        if chosen is not None or count >= min(n, MOST_PAIRS):
            return spectrum, np.arange(chosen or len(spectrum.values) - skip) + skip
        count *= 2


def _training_embedding(
    source: Source, problem: Problem, model: SpectralModel, runner: Threads
) -> tuple[Array | None, float]:
    """The spectral embedding of the training rows (None: not in memory), and how far ``transform`` is from it."""
    X = source.array() if isinstance(source, InMemory) else None
    if model.scale is None:  # the embedding of the rows is the formula
        return None if X is None else model.look(X, runner, problem.kept)[0], 0.0
    spectral = model.places
    anchors, columns = problem.anchors, problem.columns
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
        embedding[anchors.index] = spectral
    return embedding, gap


def report_on(
    rows: Source, recipe: Recipe, problem: Problem, spectrum: Spectrum, kept: Array, negative: float, gap: float
) -> Report:
    """The facts of a fit that keeps these eigenpairs, with what a careful reader would say of them."""
    operator = problem.operator
    values, distance = spectrum.values, operator.distance(spectrum.values)
    after, size = kept.max() + 1, np.abs(values) if operator.both_ends else values
    solved = slice(spectrum.trivial, None)
    least = 1e4 * np.finfo(float).eps * operator.spread  # a smaller distance has no four digits in floating point
    relative = spectrum.residuals[solved] / np.maximum(distance[solved], least)
    report = Report(
        method=recipe.method,
        n_samples=len(rows),
        n_features=rows.shape[1],
        n_anchors=operator.size,
        edges=problem.edges,
        degree=problem.degree,
        epsilon=problem.bandwidth.epsilon,
        bandwidth=problem.bandwidth.how,
        dimension=problem.bandwidth.dimension,
        solver=spectrum.solver,
        solver_why=spectrum.why,
        n_components=len(kept),
        components=operator.parts.count,
        component_sizes=tuple(int(s) for s in np.sort(operator.parts.sizes)[::-1][:20]),
        multiplicity=max(operator.trivial_among(values), operator.parts.count),
        residual=float(relative.max(initial=0.0)),
        gap=float(size[kept.max()] - size[after]) if after < len(values) else float("nan"),
        trace=float(operator.diagonal().sum()) if operator.kind == "markov" else float("nan"),
        negative_mass=negative,
        amplification=float(max(1.0, problem.normalization.amplification(values[kept]))),
        extension_gap=gap,
    )
    return replace(report, warnings=tuple(_concerns(report, values[kept], problem, recipe)))


def _concerns(report: Report, values: Array, problem: Problem, recipe: Recipe) -> list[str]:
    """What a careful reader would say about this fit."""
    found = [*problem.notes, *recipe.view.concerns(report, values, problem)]
    if report.residual > 1e-2:
        found.append(
            f"The solver ({report.solver}) left a residual of {report.residual:.1e} of an eigenvalue's distance to "
            "the trivial one. Coordinates may be off by as much; try solver='shift_invert'."
        )
    n = report.n_anchors
    solved = n if n <= Auto.dense_up_to else min(n, MOST_PAIRS)
    if recipe.wanted == "auto" and len(values) == solved - problem.normalization.skip:
        found.append(
            f"n_components='auto' did not see the spectrum decay below 0.1 within {solved} eigenpairs; all "
            f"{len(values)} coordinates were kept."
        )
    return found
