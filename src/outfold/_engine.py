"""The engine: fit walks the stages once, and a model is one formula, ``row(x) @ basis``.

data -> anchors -> distances -> kernel -> normalisation -> eigenpairs -> basis
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import selection
from ._report import Report
from .bandwidths import ALL_EQUAL
from .landmarks import Anchors
from .neighbors import Given
from .normalizations import Operator, Rows
from .solvers import Auto, Spectrum, orient, solve
from .sources import Threads, row_blocks
from .trust import Reference, Trust

Array = NDArray[Any]


@dataclass(frozen=True)
class Recipe:
    """A method as its row in the table: what each stage is."""

    method: str
    geometry: Any  # None: the matrix is given
    kernel: Any
    normalization: Any
    power: float  # embedding = lambda^power psi
    wanted: int | str | tuple[int, ...]
    landmarks: Any
    solver: Any
    given_distances: bool = True  # only for geometry=None
    clip_to_rank: bool = False  # keep fewer components instead of raising when the rank runs out


@dataclass(frozen=True)
class SpectralModel:
    """Anchors and row rule, and a basis."""

    rule: Any
    basis: Array  # (anchors, components)
    scale: Array  # (components,): basis * scale is the embedding of the anchors
    reference: Reference

    def embed(self, Z: Array, runner: Threads) -> Array:
        """The embedding of any points."""
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> Trust:
        """How well the training data supports each point."""
        return self.look(Z, runner)[1]

    def look(self, Z: Array, runner: Threads) -> tuple[Array, Trust]:
        """Embedding and evidence in one pass over row blocks."""
        embedding = np.empty((len(Z), self.basis.shape[1]))
        log_mass = np.empty(len(Z))

        def fill(block: slice) -> None:
            rows: Rows = self.rule.rows(Z[block])
            embedding[block] = rows @ self.basis
            log_mass[block] = rows.log_mass

        for _ in runner.map(fill, row_blocks(len(Z), len(self.basis)), "embedding"):
            pass
        return embedding, self.reference.judge(log_mass)

    def nearest(self, Z: Array) -> Array:
        """The embedding of each point's nearest anchor."""
        geometry = getattr(self.rule, "markov", self.rule).geometry
        return (self.basis * self.scale)[geometry.nearest(Z)]


@dataclass(frozen=True)
class Fit:
    """All that a fit found."""

    model: SpectralModel
    anchors: Anchors
    eigenvalues: Array
    functions: Array  # eigenfunctions on the anchors
    embedding: Array  # spectral embedding of the training rows (of landmarks; the rest are extended)
    measure: Array  # on the training rows
    report: Report


def fit(X: Array, recipe: Recipe, measure: Array, rng: np.random.Generator, runner: Threads) -> Fit:
    """Walk the stages."""
    anchors = recipe.landmarks.select(X, measure, rng)
    if recipe.normalization.merges_copies and recipe.geometry is not None:
        anchors = anchors.merged()
        if len(anchors.points) == 1:
            raise ValueError(ALL_EQUAL)
    _check_count(recipe.wanted, len(anchors.measure))
    geometry = _geometry(recipe, anchors)
    with runner.blas():
        measured = geometry.gram(runner)
        kernel = recipe.kernel.fit(measured, anchors.measure)
        for _ in runner.map(lambda block: kernel.affinity(measured[block]), row_blocks(*measured.shape), "kernel"):
            pass
        operator = recipe.normalization.fit(measured, anchors.measure)  # measured holds affinities now
        if isinstance(geometry, Given):
            geometry = replace(geometry, table=None)
        spectrum, kept = _select(operator, recipe)
        kept = _within_rank(operator, spectrum, kept, recipe)
        eigenvalues = recipe.normalization.eigenvalues(spectrum.values[kept])
        functions = operator.functions(spectrum.vectors[:, kept])
        features = None if recipe.geometry is None else anchors.points
        functions *= orient(functions, operator.stationary, features)
        model = SpectralModel(
            recipe.normalization.rule(operator, geometry, kernel, eigenvalues),
            recipe.normalization.basis(functions, eigenvalues, recipe.power),
            recipe.normalization.scale(eigenvalues),
            Reference.of(operator.lonely_log_mass, np.log(operator.mass), operator.measure),
        )
    embedding, gap = _training_embedding(X, anchors, model, recipe, runner)
    report = _report(X, recipe, kernel, operator, spectrum, kept, gap)
    return Fit(model, anchors, eigenvalues, functions, embedding, measure, report)


def _geometry(recipe: Recipe, anchors: Anchors) -> Any:
    if recipe.geometry is not None:
        return recipe.geometry.fit(anchors.points)
    if anchors.index is None:
        raise ValueError("Landmarks of a precomputed matrix are chosen among its rows: pass a count or a fraction.")
    return Given(anchors.index, anchors.points[:, anchors.index], recipe.given_distances)


def _check_count(wanted: Any, n: int) -> None:
    most = max(wanted) if isinstance(wanted, tuple) else wanted
    if most != "auto" and most >= n:
        raise ValueError(
            f"n_components={wanted} needs more than {most} anchors, but there are n = {n}: n points have at "
            f"most n - 1 = {n - 1} non-trivial coordinates."
        )


def _select(operator: Operator, recipe: Recipe) -> tuple[Spectrum, Array]:
    """Solve for what is wanted and one pair more (for the gap); tell which columns to keep."""
    n = operator.size
    wanted = recipe.wanted
    if not isinstance(wanted, str):
        kept = np.array(wanted if isinstance(wanted, tuple) else range(1, wanted + 1))
        return solve(operator, recipe.solver, min(n, kept.max() + 2)), kept
    t = recipe.power or 1.0
    count = n if n <= Auto.dense_up_to else 32
    while True:
        spectrum = solve(operator, recipe.solver, min(n, count))
        lambdas = 1 - (operator.top - spectrum.values[1:]) * (2 / operator.spread)
        chosen = selection.spectral_dimension(lambdas, t=t)
        if chosen is not None or count >= min(n, 512):
            kept = np.arange(1, (chosen or len(lambdas)) + 1)
            return spectrum, kept
        count *= 2


def _within_rank(operator: Operator, spectrum: Spectrum, kept: Array, recipe: Recipe) -> Array:
    """The kept pairs, or an error if some are rounding or have no real power."""
    if operator.top == 0:  # a Laplacian's small end has no rank to run out of
        return kept
    tiny = operator.size * np.finfo(float).eps
    beyond = np.abs(spectrum.values[kept]) <= tiny
    if beyond.any():
        rank = int((np.abs(spectrum.values) > tiny).sum())
        if recipe.clip_to_rank and not beyond.all():
            return kept[~beyond]
        raise ValueError(
            f"n_components={recipe.wanted} reaches beyond the rank of the kernel: only {rank - 1} non-trivial "
            f"eigenvalues exceed rounding ({tiny:.1e}). The data may hold few distinct points, or epsilon may "
            f"be too large. Ask for at most {rank - 1} components or lower epsilon."
        )
    values = spectrum.values[kept]
    if (values < 0).any() and recipe.power != int(recipe.power):
        raise ValueError(
            f"t={recipe.power} is a fraction, but {(values < 0).sum()} of the kept eigenvalues are negative "
            f"(down to {values.min():.3g}), so lambda^t is not real. Use a whole number for t or fewer components."
        )
    return kept


def _training_embedding(
    X: Array, anchors: Anchors, model: SpectralModel, recipe: Recipe, runner: Threads
) -> tuple[Array, float]:
    """The spectral embedding of the training rows, and how far ``transform`` is from it on a sample."""
    spectral = model.basis * model.scale
    sample = np.linspace(0, len(spectral) - 1, min(len(spectral), 256)).astype(int)
    rows = anchors.points[sample]
    if recipe.geometry is None:
        rows = rows[:, anchors.index]
    gap = float(np.abs(model.embed(rows, runner) - spectral[sample]).max())
    if anchors.index is not None and len(anchors.index) == len(X):
        return spectral, gap
    embedding = model.embed(X if recipe.geometry is not None else X[:, anchors.index], runner)
    if anchors.index is not None:
        embedding[anchors.index] = spectral
    return embedding, gap


def _report(
    X: Array, recipe: Recipe, kernel: Any, operator: Operator, spectrum: Spectrum, kept: Array, gap: float
) -> Report:
    n = operator.size
    values, distance = spectrum.values, operator.top - spectrum.values
    after = kept.max() + 1
    solved = slice(spectrum.trivial, None)
    relative = spectrum.residuals[solved] / np.maximum(distance[solved], np.finfo(float).tiny)
    markov = operator.top == 1
    factor = np.abs(values[kept]) ** (recipe.power - 1) if markov else np.ones(1)
    negative = np.abs(values[values < 0]).sum() / np.abs(values).sum() if markov else 0.0
    report = Report(
        method=recipe.method,
        n_samples=len(X),
        n_features=X.shape[1],
        n_anchors=n,
        epsilon=kernel.bandwidth.epsilon,
        bandwidth=kernel.bandwidth.how,
        dimension=kernel.bandwidth.dimension,
        solver=spectrum.solver,
        solver_why=spectrum.why,
        n_components=len(kept),
        components=operator.parts.count,
        component_sizes=tuple(int(s) for s in np.sort(operator.parts.sizes)[::-1][:20]),
        multiplicity=max(int((distance <= 1e-8 * operator.spread).sum()), operator.parts.count),
        residual=float(relative.max(initial=0.0)),
        gap=float(values[kept.max()] - values[after]) if after < len(values) else float("nan"),
        trace=float(np.trace(operator.matrix)) if markov else float("nan"),
        negative_mass=float(negative),
        amplification=float(max(1.0, factor.max())),
        extension_gap=gap,
    )
    return replace(report, warnings=tuple(_concerns(report, values[kept], operator, recipe)))


def _concerns(report: Report, values: Array, operator: Operator, recipe: Recipe) -> list[str]:
    """What a careful reader would say about this spectrum."""
    found = []
    if report.components > 1:
        sizes = ", ".join(map(str, report.component_sizes[:5])) + (", ..." if report.components > 5 else "")
        found.append(
            f"The kernel falls into {report.components} components (sizes {sizes}), so the first "
            f"{min(report.components - 1, report.n_components)} coordinates only tell them apart. Raise epsilon "
            f"(now {report.epsilon:.3g}), or embed the components separately."
        )
    if report.trace > report.n_anchors / 2:
        found.append(
            f"epsilon={report.epsilon:.3g} looks too small: the trace of P is {report.trace:.4g} for n = "
            f"{report.n_anchors}, so most rows see little but themselves. Try a larger epsilon or epsilon='auto'."
        )
    if operator.top == 1 and values.max() < 0.05:
        found.append(
            f"epsilon={report.epsilon:.3g} looks too large: the largest kept eigenvalue is {values.max():.2g}, so "
            "all rows look alike. Try a smaller epsilon or epsilon='auto'."
        )
    if report.amplification > 1e5:
        found.append(
            f"The smallest kept eigenvalue magnifies rounding by {report.amplification:.1e} in transform. Keep "
            "fewer components or use t >= 1."
        )
    if recipe.wanted == "auto" and len(values) == len(operator.measure) - 1:
        found.append("n_components='auto' did not see the spectrum decay below 0.1; every component was kept.")
    return found
