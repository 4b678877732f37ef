"""The engine: fit walks the stages once, and a model is one formula, ``row(x) @ basis``.

data -> anchors -> distances -> kernel -> normalisation -> eigenpairs -> basis
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.spatial import cKDTree

from . import components, graphs, neighbors, selection
from ._report import Report
from .bandwidths import ALL_EQUAL
from .distances import Given
from .graphs import AllPairs, DenseSurvey, Either
from .landmarks import Anchors
from .normalizations import Operator, Rows, lonely_mass
from .solvers import Auto, Spectrum, orient, solve
from .sources import Threads, row_blocks
from .trust import Reference, Trust

Array = NDArray[Any]


@dataclass(frozen=True)
class Recipe:
    """A method as its row in the table: what each stage is."""

    method: str
    metric: Any  # None: the matrix is given
    edges: Any  # which pairs to keep
    kernel: Any
    normalization: Any
    power: float  # embedding = lambda^power psi
    wanted: int | str | tuple[int, ...]
    landmarks: Any
    solver: Any
    components: str = "warn"
    chosen: str = ""  # said before the edges in the report, where they were not asked for by name
    given_distances: bool = True  # only for metric=None
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
            rows: Rows = self.rule.rows(np.asarray(Z[block], dtype=float))
            embedding[block] = rows @ self.basis
            log_mass[block] = rows.log_mass

        for _ in runner.map(fill, row_blocks(len(Z), self.rule.row_entries), "embedding"):
            pass
        return embedding, self.reference.judge(log_mass)

    def nearest(self, Z: Array) -> Array:
        """The embedding of each point's nearest anchor."""
        return (self.basis * self.scale)[self.rule.geometry.nearest(np.asarray(Z, dtype=float))]


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
    X = np.asarray(X, dtype=float)
    anchors = recipe.landmarks.select(X, measure, rng)
    if recipe.metric is not None:
        _check_points(anchors.points)
    if recipe.normalization.merges_copies and recipe.metric is not None:
        anchors = anchors.merged()
    return _fit(X, recipe, anchors, measure, runner)


def _fit(X: Array, recipe: Recipe, anchors: Anchors, measure: Array, runner: Threads) -> Fit:
    _check_count(recipe.wanted, len(anchors.measure))
    if isinstance(recipe.edges, Either):
        recipe = replace(recipe, edges=recipe.edges.settled(len(anchors.measure)), chosen="auto: ")
    anchors = _along_the_tree(anchors, recipe)
    with runner.blas():
        survey = _survey(recipe, anchors, runner)
        kernel = recipe.kernel.fit(survey)
        graph = graphs.draw(recipe.edges, survey, kernel, runner)
        if getattr(recipe.edges, "radius", None) == "auto":
            recipe = replace(recipe, edges=replace(recipe.edges, radius=graph.radius))
        exact = survey.exact
        del survey
        graph, operator, reference, degree = _operator(graph, kernel, recipe, anchors, runner)
        if operator.parts.count > 1 and recipe.components != "warn":
            if recipe.components == "largest":
                return _fit(X, replace(recipe, components="warn"), _largest(anchors, operator, recipe), measure, runner)
            graph = _joined(graph, operator, recipe, runner)
            graph, operator, reference, degree = _operator(graph, kernel, recipe, anchors, runner)
        smooth = None if recipe.metric is None else anchors.points[:, :16]
        operator = replace(operator, runner=runner, smooth=smooth)
        spectrum, kept = _select(operator, recipe)
        kept = _within_rank(operator, spectrum, kept, recipe)
        eigenvalues = recipe.normalization.eigenvalues(spectrum.values[kept])
        functions = operator.functions(spectrum.vectors[:, kept])
        functions *= orient(functions, operator.stationary, None if recipe.metric is None else anchors.points)
        model = SpectralModel(
            recipe.normalization.rule(operator, graph, kernel, eigenvalues),
            recipe.normalization.basis(functions, eigenvalues, recipe.power),
            recipe.normalization.scale(eigenvalues),
            reference,
        )
    embedding, gap = _training_embedding(X, anchors, model, recipe, runner)
    report = _report(X, recipe, kernel, operator, spectrum, kept, gap, degree, exact)
    order = np.arange(len(functions)) if anchors.index is None else np.argsort(anchors.index)
    return Fit(model, anchors.at(order), eigenvalues, functions[order], embedding, measure, report)


def _check_points(points: Array) -> None:
    if (points == points[0]).all():
        raise ValueError(ALL_EQUAL)
    largest = np.nanmax(np.abs(points))
    if largest > 1e150:
        raise ValueError(f"Squared distances overflow: the data reaches {largest:.1e}. Rescale the features.")


def _along_the_tree(anchors: Anchors, recipe: Recipe) -> Anchors:
    """Anchors near each other next to each other: a search and a product then run through memory in order."""
    searched = not isinstance(recipe.edges, AllPairs) and recipe.metric.name == "euclidean"
    if not searched or anchors.points.shape[1] > neighbors.TREE_FEATURES:
        return anchors
    return anchors.at(cKDTree(anchors.points, balanced_tree=False).indices)


def _survey(recipe: Recipe, anchors: Anchors, runner: Threads) -> Any:
    if recipe.metric is not None:
        return graphs.survey(recipe.edges, recipe.metric, anchors.points, anchors.measure, runner)
    if anchors.index is None:
        raise ValueError("Landmarks of a precomputed matrix are chosen among its rows: pass a count or a fraction.")
    given = Given(anchors.index, recipe.given_distances)
    return DenseSurvey(given, given.cross(anchors.points[:, anchors.index]), anchors.measure)


def _operator(
    graph: Any, kernel: Any, recipe: Recipe, anchors: Anchors, runner: Threads
) -> tuple[Any, Operator, Reference, float]:
    """The normalised operator of a graph, what training rows see of each other, and the mean row length."""
    measured = graph.gram(runner)
    graph = graph.emptied()
    measure = anchors.measure
    sparse = issparse(measured)
    values = measured.data if sparse else measured
    witness = kernel.witness(values)
    blocks = row_blocks(len(values), 1 if sparse else values.shape[1])
    for _ in runner.map(lambda block: kernel.affinity(values[block]), blocks, "kernel"):
        pass  # measured holds affinities now
    seen = measured if witness is None else csr_array((witness, measured.indices, measured.indptr), measured.shape)
    reference = Reference.of(lonely_mass(seen, measure), np.log(seen @ measure), measure)
    degree = measured.nnz / len(measure) if sparse else float(len(measure))
    return graph, recipe.normalization.fit(measured, measure), reference, degree


def _largest(anchors: Anchors, operator: Operator, recipe: Recipe) -> Anchors:
    """The anchors of the component with the largest measure."""
    held = np.bincount(operator.parts.labels, weights=anchors.measure)
    found = anchors.at(np.flatnonzero(operator.parts.labels == held.argmax()))
    distinct = len(found.points) if recipe.metric is None else len(np.unique(found.points, axis=0))
    needed = 2 if isinstance(recipe.wanted, str) else int(np.max(recipe.wanted)) + 1
    if distinct < needed or found.measure.sum() <= getattr(recipe.edges, "k", 0):
        raise ValueError(
            f"The largest of {operator.parts.count} components holds {len(found.points)} of {operator.size} anchors, "
            f"{distinct} of them distinct: too few to embed. Raise n_neighbors or epsilon."
        )
    return found


def _joined(graph: Any, operator: Operator, recipe: Recipe, runner: Threads) -> Any:
    """The graph with the shortest bridges between its components, or an error if that is the policy."""
    parts = operator.parts
    sizes = ", ".join(map(str, np.sort(parts.sizes)[::-1][:5])) + (", ..." if parts.count > 5 else "")
    told = f"The graph has {parts.count} components (sizes {sizes})"
    if recipe.components == "error":
        raise ValueError(
            f"{told}. Raise n_neighbors or epsilon, or pass components='warn' (contrasts become coordinates), "
            "'largest' or 'join'."
        )
    if isinstance(recipe.edges, AllPairs):
        raise ValueError(
            f"{told}, and it is dense: they are too far apart for epsilon, and no bridge would weigh anything. Raise "
            "epsilon, or pass n_neighbors with components='join'."
        )
    pairs = components.bridges(parts, graph.search.distances)
    return graphs.with_bridges(graph, graph.gram(runner), pairs)


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
    if recipe.metric is None:
        rows = rows[:, anchors.index]
    gap = float(np.abs(model.embed(rows, runner) - spectral[sample]).max())
    if anchors.index is not None and len(anchors.index) == len(X):
        embedding = np.empty_like(spectral)
    else:
        embedding = model.embed(X if recipe.metric is not None else X[:, anchors.index], runner)
    if anchors.index is not None:
        embedding[anchors.index] = spectral
    return embedding, gap


def _report(
    X: Array,
    recipe: Recipe,
    kernel: Any,
    operator: Operator,
    spectrum: Spectrum,
    kept: Array,
    gap: float,
    degree: float,
    exact: bool,
) -> Report:
    n = operator.size
    values, distance = spectrum.values, operator.top - spectrum.values
    after = kept.max() + 1
    solved = slice(spectrum.trivial, None)
    least = 1e4 * np.finfo(float).eps * operator.spread  # a smaller distance has no four digits in floating point
    relative = spectrum.residuals[solved] / np.maximum(distance[solved], least)
    markov = operator.top == 1
    factor = np.abs(values[kept]) ** (recipe.power - 1) if markov else np.ones(1)
    negative = np.abs(values[values < 0]).sum() / np.abs(values).sum() if markov else 0.0
    report = Report(
        method=recipe.method,
        n_samples=len(X),
        n_features=X.shape[1],
        n_anchors=n,
        edges=recipe.chosen + recipe.edges.told() + ("" if exact else ", found approximately"),
        degree=degree,
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
        trace=float(operator.diagonal().sum()) if markov else float("nan"),
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
            f"The graph falls into {report.components} components (sizes {sizes}), so the first "
            f"{min(report.components - 1, report.n_components)} coordinates only tell them apart. "
            f"{recipe.edges.remedy()} (now {report.edges}, epsilon {report.epsilon:.3g}), or pass "
            + ("components='largest'." if isinstance(recipe.edges, AllPairs) else "components='largest' or 'join'.")
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
    if report.residual > 1e-2:
        found.append(
            f"The solver ({report.solver}) left a residual of {report.residual:.1e} of an eigenvalue's distance to 1. "
            "Coordinates may be off by as much; try solver='shift_invert'."
        )
    if recipe.wanted == "auto" and len(values) == len(operator.measure) - 1:
        found.append("n_components='auto' did not see the spectrum decay below 0.1; every component was kept.")
    return found
