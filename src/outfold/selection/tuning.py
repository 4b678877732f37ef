"""The search for the width of the kernel, alpha, t and the coordinates to keep: ``outfold.selection.tune``.

The width is ``n_neighbors`` of kernels in local units and ``epsilon`` of the Gaussian. How candidates are compared is
said in :mod:`outfold.selection.trials`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Seed
from ..data.sources import InMemory, Source, draw_numbers, open_parts
from ..distances import Metric
from ..engine.fit import Fit, Recipe, fit_recipe
from ..engine.report import Report
from ..graphs import AllPairs, Union
from ..graphs.local_dimension import LIKELIHOOD_NEIGHBORS, dimension_of_points
from ..graphs.pair_statistics import DenseStatistics
from ..landmarks import Anchors, Landmarks
from ..methods import PHATE, DiffusionMaps, LaplacianEigenmaps, Roseland, SpectralClustering, parameters
from ..methods.base import SpectralEstimator
from ..methods.roseland import AUTO_LANDMARK_NEIGHBORS
from ..operators.directions import LEAST_RESIDUAL
from ..operators.landmark_diffusion import LandmarkDiffusion
from ..operators.neighbor_walk import NEIGHBORS, NeighborWalk
from ..operators.spectrum import spectral_dimension
from ..operators.variable_rates import Generator
from ..solvers import LowRank
from .coordinates import residuals
from .dimension import smallest_time
from .trials import UNSURE, Comparison, Proposal, Setting, TuningTrial, beats, compare

ALPHAS = (0.0, 0.5, 1.0)
EPSILON_GRID_SIZE = 14  # values of epsilon: from the scale of the second neighbour to the median distance
REPRODUCED = 0.5  # a coordinate with a larger held-out error, in standard deviations, is noise
REFITTED = 5000  # rows: up to this many, all are fitted once with the best parameters to select the coordinates
DELTA = 0.1  # weight, relative to the first, below which the coordinates that are not kept fall at the chosen t

Choice: TypeAlias = str | float | Sequence[float] | Array  # "auto", a number or several


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The result of :func:`tune`. Print it; ``estimator`` is ready to fit, and ``plotting.tuning`` draws it."""

    method: str
    best: dict[str, Any]  #: the chosen parameters, for ``set_params``; parameters that stay as they were are left out
    estimator: SpectralEstimator  #: the method with these parameters, not fitted
    chosen: Setting
    table: tuple[Setting, ...]  #: all candidates, by alpha, then by width
    intrinsic: int  #: intrinsic dimension of the data
    likelihood: float  #: its estimate by maximum likelihood; rounded, it is ``intrinsic``
    coordinates: tuple[int, ...]  #: eigenpairs to keep, counted from 1
    residuals: Array = field(repr=False)  #: the part of each eigenvector that earlier ones do not explain
    rows: int  #: how many rows were searched
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """The number of coordinates that the embedding needs; a closed surface needs more than it has dimensions."""
        return len(self.coordinates)

    def __str__(self) -> str:
        best = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.best.items()
        )
        width = "" if self.chosen.n_neighbors is None else "n_neighbors  "
        lines = [
            f"{self.method}({best})",
            f"  intrinsic dimension {self.intrinsic} (likelihood {self.likelihood:.2f}), embedded by {self.dimension} "
            f"coordinates: eigenpairs {', '.join(map(str, self.coordinates))}",
            f"  {self.rows} rows, {len(self.table)} candidates",
            "",
            f"    {width}epsilon     alpha  held-out error   stability        bias    total",
        ]
        lines += [f"{'  > ' if row is self.chosen else '    '}{row}" for row in self.table]
        return "\n".join([*lines, *(f"  note: {text}" for text in self.notes)])


def tune(
    X: Data,
    method: SpectralEstimator | type[SpectralEstimator] = DiffusionMaps,
    *,
    n_neighbors: Choice = "auto",
    epsilon: Choice = "auto",
    alpha: Choice = "auto",
    t: Choice = "auto",
    dimension: int | str = "auto",
    components: int = 10,
    folds: int = 5,
    repeats: int = 1,
    rows: int = 800,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Tuning:
    """Choose the width of the kernel, alpha, t and the coordinates by held-out error, stability and bias together.

    The width is ``n_neighbors`` of the adaptive kernel, the default, and ``epsilon`` of the Gaussian. Widths and alphas
    that are searched minimise variance + bias (:mod:`outfold.selection.trials`); the method's own stay unless others
    are better by a standard error. The coordinates are the eigenvectors that held-out rows reproduce and that are no
    functions of earlier ones (:func:`residuals` > 0.4); there are at least as many as the data has dimensions. t is
    the smallest time at which every eigenvector after the last coordinate weighs less than 0.1 of the first. The
    held-out error cannot choose t, since it falls with t as coordinates fade.

    If the graph has several components, the data are clusters. Then nothing is searched: the result has the method as
    it was, and a note.

    Parameters
    ----------
    X : array of shape (n, n_features), or a Dask collection, from which the rows to search are drawn
    method : estimator or class
        DiffusionMaps, Roseland or LaplacianEigenmaps; parameters that are not searched stay as they are.
        ``kernel="variable"`` chooses its own width: of it alpha, t and the coordinates are chosen.
        For KernelPCA, ClassicalMDS, Isomap and LocallyLinearEmbedding only the coordinates are chosen: they have no
        limit that a narrow kernel is nearer to.
    n_neighbors : "auto", a number or a sequence of numbers
        Of the adaptive kernel. "auto": the method's own stays, since the criterion does not choose better ones.
    epsilon : "auto", a number or a sequence of numbers
        Of the Gaussian; numbers make ``kernel="auto"`` the Gaussian. "auto": the method's own, and 14 from the squared
        distance to the second neighbour (median) to the median squared distance.
    alpha : "auto", a number or a sequence of numbers
        "auto": 0, 1/2 and 1, and the method's own stays unless another is better by a standard error; of the adaptive
        kernel, for which alpha hardly matters, the method's own.
    t : "auto", a number or a sequence of numbers
        From a sequence the smallest time that is long enough is chosen, else the longest.
    dimension : "auto" or int
        How many coordinates to keep: those with the largest residuals.
    components : int
        How many eigenpairs each fit computes.
    folds, repeats : int
        Each repeat splits the rows into ``folds`` parts and fits all but one of them, in turn.
    rows : int
        A random sample of ``rows`` rows is searched if there are more. The number of neighbours is the same for all n
        rows; epsilon is rescaled in proportion to n^(-2 / (d + 2)) with d the intrinsic dimension.
    random_state : int, RandomState or None
    n_jobs : int or None
    verbose : bool

    >>> from outfold.datasets import circle
    >>> found = tune(circle(200, random_state=0), alpha=1.0)
    >>> found.intrinsic, found.dimension, found.best["n_components"]
    (1, 2, 2)
    """
    chosen = _check(method)
    components, folds = parameters.count("components", components), parameters.count("folds", folds, low=2)
    repeats, rows = parameters.count("repeats", repeats), parameters.count("rows", rows, low=20)
    if dimension != "auto" and parameters.count("dimension", dimension) > components:
        raise ValueError(f"dimension={dimension} is more than the components={components} that are looked at.")
    times, plan = _times(chosen, t), SearchPlan.of(chosen, n_neighbors, epsilon, alpha)
    random = check_random_state(random_state)
    seeker, whole, points = _within(plan.prepare(chosen), _source(chosen, X), rows, random)
    if (points == points[0]).all():
        raise ValueError("All rows are equal, so there is no geometry to tune for. Check the input.")
    seeds = [int(random.randint(2**31 - 1)) for _ in range(repeats)]
    components = min(components, len(points) - -(-len(points) // folds) - 1)
    runner = Threads(n_jobs)
    metric = Metric.of(getattr(chosen, "metric", "euclidean"))
    known = AllPairs().statistics(metric, points, np.ones(len(points)), runner)
    grid = plan.candidates(seeker, known)
    clusters = plan.clusters(seeker, points, components, runner)
    if clusters is not None:
        grid = [replace(plan, values=None).candidates(seeker, known)[0][:1]]  # the method as it is
    work = len(points) * (1 + folds * repeats)
    with Threads(n_jobs, verbose).bar("tuning", work * sum(map(len, grid))) as bar:

        def tried(candidate: Proposal) -> TuningTrial | ValueError:
            recipe = _at(seeker, components, candidate.alpha, candidate.changed)
            trial = TuningTrial.of(points, candidate, recipe, plan.rates, folds, seeds, runner)
            bar.update(work)
            return trial

        compared = [compare(list(map(tried, some)), fade=plan.steps is not None) for some in grid]
    run = TuningRun(method=chosen, seeker=seeker, plan=plan, X=points, whole=whole, runner=runner)
    if clusters is not None:
        return run.give_up(compared[0], clusters)
    return run.conclude(compared, dimension, times)


# -- what is searched ----------------------------------------------------------------------


def _check(method: SpectralEstimator | type[SpectralEstimator]) -> SpectralEstimator:
    found: object = method() if isinstance(method, type) else method
    if not isinstance(found, SpectralEstimator):
        raise ValueError(f"{found!r} is none of Outfold's methods: pass an estimator, such as DiffusionMaps().")
    if isinstance(found, SpectralClustering):
        raise ValueError(
            "SpectralClustering has clusters, not coordinates, to tune: pass n_clusters='auto' to count them, or tune "
            "LaplacianEigenmaps."
        )
    if isinstance(found, PHATE):
        raise ValueError(
            "PHATE chooses its own t, and its n_components are the 2 or 3 of a picture, so there is nothing to tune: "
            "fit it as it is, or tune DiffusionMaps."
        )
    if (given := found._precomputed_parameter()) is not None:
        raise ValueError(f"{given}='precomputed' has no features to hold out and measure: pass features.")
    return found


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """What is searched for a method."""

    alphas: list[float | None]  # the method's own first
    steps: int | None  # diffusion steps in one power of an eigenvalue; 0: eigenvalues are rates; None: no width
    name: str = ""  # the parameter of the width: "n_neighbors" or "epsilon"; "": the method chooses its width
    values: list[float] | None = None  # the widths to choose from; None: the method's own and a grid

    @classmethod
    def of(cls, method: SpectralEstimator, n_neighbors: Choice, epsilon: Choice, alpha: Choice) -> SearchPlan:
        steps, width = _width(method, not _is_auto(epsilon))
        for name, value in (("n_neighbors", n_neighbors), ("epsilon", epsilon)):
            if name != width and not _is_auto(value):
                raise ValueError(
                    f"{_describe(method, width)} has no {name} that tune could search; leave {name}='auto'."
                )
        passed = {"n_neighbors": n_neighbors, "epsilon": epsilon}.get(width, "auto")
        values = None if _is_auto(passed) else _numbers(width, passed, low=2.0 if width == "n_neighbors" else 0.0)
        own = None if steps is None else getattr(method, "alpha", None)
        if own is None:
            if not _is_auto(alpha):
                raise ValueError(f"{type(method).__name__} has no alpha; leave alpha='auto'.")
            return cls(alphas=[None], steps=steps, name=width, values=values)
        alphas = [own] if width == "n_neighbors" else list(ALPHAS)  # in local units alpha hardly matters
        alphas = alphas if _is_auto(alpha) else _numbers("alpha", alpha, low=0.0, high=1.0)
        ordered = sorted(alphas, key=lambda value: (value != own, -value))
        return cls(alphas=[*ordered], steps=steps, name=width, values=values)

    def prepare(self, method: SpectralEstimator) -> SpectralEstimator:
        """Return the method with its kernel by name, if "auto" would become another one without landmarks."""
        found: SpectralEstimator = clone(method)
        return found.set_params(kernel="gaussian") if self.name == "epsilon" else found

    def candidates(self, method: SpectralEstimator, known: DenseStatistics) -> list[list[Proposal]]:
        """Return the candidates of each alpha."""
        if self.name == "n_neighbors":
            widths = self._neighbors(method, len(known.measure))
        elif self.name == "epsilon":
            own = [] if self.values is not None else [Proposal(alpha=None, changed={})]
            grid = _default_grid(known) if self.values is None else self.values
            widths = own + [Proposal(alpha=None, changed={"epsilon": value}) for value in grid]
        else:
            widths = [Proposal(alpha=None, changed={})]
        return [[replace(width, alpha=alpha) for width in widths] for alpha in self.alphas]

    def _neighbors(self, method: SpectralEstimator, n: int) -> list[Proposal]:
        """Return the method's own number of neighbours, or those that the caller passed."""
        given = getattr(method, "n_neighbors", "auto")
        if self.values is not None:
            numbers = [int(value) for value in self.values]
            rules = [replace(given, k=k) if isinstance(given, Union) else k for k in numbers]
            return [Proposal(alpha=None, changed={"n_neighbors": r}, n_neighbors=k) for r, k in zip(rules, numbers)]
        usual = min(AUTO_LANDMARK_NEIGHBORS if isinstance(method, Roseland) else NEIGHBORS, max(2, n // 2))
        own = usual if isinstance(given, str) else int(getattr(given, "k", given))
        return [Proposal(alpha=None, changed={}, n_neighbors=own)]

    def rates(self, found: Fit) -> Array:
        """Return the rates of the eigenpairs, comparable between fits."""
        if not self.steps:
            return found.eigenvalues
        rates: Array = -2 * np.log(np.clip(found.eigenvalues, 1e-12, 1 - 1e-15)) / (self.steps * found.report.epsilon)
        return rates / rates.mean() if self.name == "n_neighbors" else rates

    def clusters(self, method: SpectralEstimator, X: Array, components: int, runner: Threads) -> Report | None:
        """Return the report of a fit over nearest neighbours if their graph has several components, else None.

        A Gaussian may only be too narrow, so its rows are fitted with the adaptive kernel.
        """
        if self.steps is None or getattr(method, "components", "warn") != "warn":
            return None
        seen = DiffusionMaps(metric=getattr(method, "metric", "euclidean")) if self.name == "epsilon" else method
        try:
            recipe = _at(seen, components, None, {})
            report = fit_recipe(InMemory(X), recipe, np.ones(len(X)), np.random.default_rng(0), runner).report
        except ValueError:  # the candidates will say it
            return None
        return report if max(report.components, report.multiplicity) > 1 else None


def _width(method: SpectralEstimator, epsilon: bool) -> tuple[int | None, str]:
    """Return the diffusion steps in one power of an eigenvalue, and the parameter of the width.

    ``epsilon``: the caller passes numbers for it, which makes kernel="auto" the Gaussian.
    """
    if isinstance(method, LaplacianEigenmaps) and method.laplacian != "random_walk":
        raise ValueError(
            f"laplacian={method.laplacian!r} has eigenvalues in units of the degrees, which cannot be compared between "
            "epsilons: pass laplacian='random_walk'."
        )
    if not isinstance(method, DiffusionMaps | LaplacianEigenmaps | Roseland):
        return None, ""
    view = clone(method)._recipe().view
    if not (epsilon and method.kernel == "auto"):
        if isinstance(view, NeighborWalk):
            return (0, "") if isinstance(view.normalization, Generator) else (2, "n_neighbors")
        if isinstance(view, LandmarkDiffusion) and view.local:
            return 2, "n_neighbors"
    if not (isinstance(method.kernel, str) and method.kernel in ("auto", "gaussian")):
        raise ValueError(
            f"kernel={method.kernel!r} has no width that tune could search: fit it as it is, or pass kernel='adaptive' "
            "or 'gaussian'."
        )
    return 2 if isinstance(method, Roseland) else 1, "epsilon"


def _describe(method: SpectralEstimator, width: str) -> str:
    name = type(method).__name__
    return f"{name} with kernel={method.kernel!r}" if width and hasattr(method, "kernel") else name


def _source(method: SpectralEstimator, X: Data) -> Source:
    """Return the checked rows; those of a Dask collection stay in partitions if there are more than REFITTED."""
    whole = open_parts(X)
    if whole is None:
        return InMemory(np.ascontiguousarray(clone(method)._validate(X, reset=True), dtype=float))
    return whole if len(whole) > REFITTED else _source(method, whole.take(np.arange(len(whole))))


def _within(
    method: SpectralEstimator, whole: Source, rows: int, random: np.random.RandomState
) -> tuple[SpectralEstimator, Source, Array]:
    """Return the method to search with, the rows its fit depends on, and the sample of them to search.

    A method that solves its problem on landmarks is searched on them, as if they were all rows. Roseland's landmarks
    are chosen once, and each fold uses those among its rows: a new choice would add noise that the missing rows do not
    explain.
    """
    seeker, given = clone(method), getattr(method, "landmarks", None)
    rng = np.random.default_rng(random.randint(2**31 - 1))
    if given is not None and not isinstance(method, Roseland):
        measure = np.broadcast_to(np.ones(1), len(whole))
        whole = InMemory(parameters.landmark_choice(given).select(whole, measure, rng).points)
        seeker.set_params(landmarks=None)
        if isinstance(getattr(method, "solver", None), LowRank):
            seeker.set_params(solver="auto")
    X = _draw_rows(whole, rows, rng)
    if isinstance(method, Roseland):
        given = min(given, len(X)) if isinstance(given, int | np.integer) else given
        chosen = parameters.landmark_choice(given).select(InMemory(X), np.ones(len(X)), rng)
        seeker.set_params(landmarks=chosen.points if chosen.index is None else _Among(chosen.points))
    return seeker, whole, X


def _draw_rows(whole: Source, rows: int, rng: np.random.Generator) -> Array:
    if len(whole) <= rows:
        return whole.take(np.arange(len(whole)))
    if isinstance(whole, InMemory):
        return whole.take(np.sort(rng.permutation(len(whole))[:rows]))
    whole.check_draw(rows)
    return whole.take(draw_numbers(len(whole), rows, rng))


@dataclass(frozen=True)
class _Among(Landmarks):
    """A choice of landmarks: those of ``points`` that are among the rows."""

    points: Array

    def count(self, rows: int) -> int:
        return len(self.points)

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        wanted = {point.tobytes() for point in self.points}
        index = np.flatnonzero([row.tobytes() in wanted for row in rows.array()])
        return Anchors(rows.take(index), index, measure[index])


def _is_auto(value: Choice) -> bool:
    return isinstance(value, str) and value == "auto"


def _default_grid(known: DenseStatistics) -> list[float]:
    k, n = 2.0, len(known.measure)
    while known.radius(k) == 0 and k < n - 1:  # copies: their radius is 0
        k = min(2 * k, n - 1)
    low = known.radius(k) ** 2
    values, _ = known.pairs()
    high = float(np.median(values[values > 0])) if (values > 0).any() else 0.0
    if not low > 0:
        raise ValueError("All rows are equal, so there is no geometry to tune for. Check the input.")
    return [float(value) for value in np.geomspace(low, max(high, 4 * low), EPSILON_GRID_SIZE)]


def _numbers(name: str, values: Choice, *, low: float = 0.0, high: float = np.inf) -> list[float]:
    given = values if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else [values]
    found = sorted({parameters.number(name, value, low=low, high=high, open_low=name == "epsilon") for value in given})
    if not found or not np.isfinite(found).all():
        raise ValueError(f"{name}={values!r} must be 'auto' or finite numbers.")
    return found


def _times(method: SpectralEstimator, t: Choice) -> list[float] | None:
    """Return the times to choose from; None allows any time."""
    if _is_auto(t):
        return None
    if not hasattr(method, "t"):
        raise ValueError(f"{type(method).__name__} has no t; leave t='auto'.")
    return _numbers("t", t)


def _at(method: SpectralEstimator, components: int, alpha: float | None, changed: dict[str, Any]) -> Recipe:
    """Return the recipe of a candidate; its eigenvectors are not weighted (t = 0)."""
    wanted = {"n_components": components, "t": 0, "coordinates": "diffusion"}
    if alpha is not None:
        wanted["alpha"] = alpha
    known = method.get_params(deep=False)
    found: SpectralEstimator = clone(method).set_params(**{k: v for k, v in wanted.items() if k in known}, **changed)
    return replace(found._recipe(), clip_to_rank=True)


# -- the result ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TuningRun:
    """A method and the rows that were searched."""

    method: SpectralEstimator
    seeker: SpectralEstimator  # the method without landmarks, if it is searched on them
    plan: SearchPlan
    X: Array
    whole: Source  # all rows that a fit of the method depends on
    runner: Threads

    def conclude(self, compared: list[Comparison], dimension: int | str, times: list[float] | None) -> Tuning:
        """Choose the best alpha, the coordinates and the time, and rescale them from the searched rows to all rows."""
        own = compared[0]
        rival = min(compared[1:], key=lambda one: one.chosen.total + one.chosen.total_band, default=own)
        search = rival if beats(rival.chosen, own.chosen) else own
        likelihood, chosen = self._likelihood(), search.chosen
        best: dict[str, Any] = {}
        carried = self._epsilon_ratio(max(1, round(likelihood)))
        changed = dict(search.trial.candidate.changed)
        if "epsilon" in changed:
            changed["epsilon"] *= carried
        if chosen.alpha is not None:
            best["alpha"] = chosen.alpha
        functions, values = search.trial.functions, chosen.eigenvalues
        if len(self.X) < len(self.whole) <= REFITTED:  # all rows may order the eigenpairs differently
            searcher = self.plan.prepare(self.method) if isinstance(self.method, Roseland) else self.seeker
            recipe = _at(searcher, functions.shape[1], chosen.alpha, changed)
            fit = fit_recipe(self.whole, recipe, np.ones(len(self.whole)), np.random.default_rng(0), self.runner)
            functions, values, carried = np.asarray(fit.embedding), fit.eigenvalues, 1.0
        left = residuals(functions)
        coordinates = _kept_count(left, search.trial.reproduce(), max(1, round(likelihood)), dimension)
        if hasattr(self.method, "t"):
            best["t"] = self._time(values, max(coordinates), times, carried)
        consecutive = coordinates == tuple(range(1, len(coordinates) + 1))
        best = {**changed, **best, "n_components": len(coordinates) if consecutive else list(coordinates)}
        table = tuple(row for one in sorted(compared, key=lambda one: one.chosen.alpha or 0.0) for row in one.table)
        return self._result(best, search, table, likelihood, coordinates, left, self._notes(search))

    def give_up(self, compared: Comparison, report: Report) -> Tuning:
        """Return the method as it was, with a note about the clusters."""
        count = max(report.components, report.multiplicity)
        sizes = ", ".join(map(str, report.component_sizes[:5])) + (", ..." if report.components > 5 else "")
        inside = " To embed the largest alone, pass components='largest'." * hasattr(self.method, "components")
        note = (
            f"the graph ({report.edges}) falls into {count} clusters (component sizes {sizes}), which the first "
            f"{count - 1} coordinates separate, whatever the width. So nothing was searched, and the method is as it "
            f"was. Use SpectralClustering(n_clusters={count}).{inside}"
        )
        trial = compared.trial
        left = residuals(trial.functions)
        first = tuple(range(1, min(max(2, count - 1), len(left)) + 1))
        return self._result({}, compared, tuple(compared.table), self._likelihood(), first, left, (note,))

    def _result(
        self, best: dict[str, Any], search: Comparison, table: tuple[Setting, ...], likelihood: float,
        coordinates: tuple[int, ...], left: Array, notes: tuple[str, ...],
    ) -> Tuning:  # fmt: skip
        return Tuning(
            method=type(self.method).__name__,
            best=best,
            estimator=clone(self.method).set_params(**best),
            chosen=search.chosen,
            table=table,
            intrinsic=max(1, round(likelihood)),
            likelihood=likelihood,
            coordinates=coordinates,
            residuals=left,
            rows=len(self.X),
            notes=notes,
        )

    def _likelihood(self) -> float:
        """Return the dimension of at most ``REFITTED`` rows in memory; 1 if their neighbours are equally far."""
        metric, X = Metric.of(getattr(self.method, "metric", "euclidean")), self.X
        if isinstance(self.whole, InMemory):
            X = np.ascontiguousarray(_draw_rows(self.whole, REFITTED, np.random.default_rng(0)))
        return dimension_of_points(X, np.ones(len(X)), metric, LIKELIHOOD_NEIGHBORS, self.runner) or 1.0

    def _epsilon_ratio(self, dimension: int) -> float:
        """Return epsilon of all rows over that of the searched rows."""
        more = len(self.whole) / len(self.X)
        if self.plan.steps == 0:  # rates, in the units of the data
            return 1.0
        return float(more ** (-2 / (dimension + (0 if self.plan.name == "n_neighbors" else 2))))

    def _time(self, values: Array, last: int, times: list[float] | None, carried: float) -> float:
        """Return the smallest time at which eigenpairs after ``last`` weigh less than DELTA of the first."""
        rates = self.plan.steps == 0
        sizes = np.exp(values[0] - values) if rates else values
        if times is not None:
            fits = (spectral_dimension(sizes, t=t * carried, delta=DELTA) or np.inf for t in times)
            return min((t for t, count in zip(times, fits) if count <= last), default=max(times))
        try:
            exact = smallest_time(sizes, min(last, len(sizes) - 1), delta=DELTA, whole=False)
        except ValueError:  # this eigenvalue equals the first: no time separates them
            return 1.0
        return exact if rates else float(max(1.0, np.ceil(exact / carried - 1e-9)))

    def _notes(self, search: Comparison) -> tuple[str, ...]:
        last, notes, chosen, name = len(search.table) - 1, [], search.chosen, self.plan.name
        if name == "n_neighbors" and chosen.own:
            notes.append(
                "n_neighbors stays as it was: a search for it makes about one map in five worse (docs/selection.md). "
                "Pass numbers to search them all the same."
            )
        elif name and last == 0:
            notes.append(f"one {name} was tried, so nothing is known about its bias.")
        elif name and chosen.own:
            notes.append(f"{name} stays as it was: no other was better by a standard error.")
        elif search.best in (0, last) and last > 0:
            notes.append(
                f"the best {name} is the {'widest' if search.best else 'narrowest'} that was tried; try beyond."
            )
        if chosen.total > UNSURE:
            notes.append(
                f"even the best is off by {chosen.total:.2f} of the spread: outliers, clusters or more components than "
                "the rows can tell apart."
            )
        if len(self.X) < len(self.whole):
            what = ", and epsilon carried over to all" if name == "epsilon" and not chosen.own else ""
            notes.append(f"{len(self.X)} of {len(self.whole)} rows were searched{what}.")
        if len(self.whole) > max(REFITTED, len(self.X)):
            notes.append(
                "coordinates are those of the rows searched; of all rows, nearly equal ones may change places."
            )
        return tuple(notes)


def _kept_count(left: Array, reproduced: Array, intrinsic: int, dimension: int | str) -> tuple[int, ...]:
    """Return the eigenpairs to keep, counted from 1: the first, then new directions that are no noise."""
    order = np.argsort(-np.append(np.inf, left[1:]), kind="stable")
    if dimension != "auto":
        return tuple(int(k) + 1 for k in np.sort(order[: int(dimension)]))
    steady = [int(k) for k in order if k == 0 or reproduced[k] < REPRODUCED**2]
    new = [k for k in steady if k == 0 or left[k] > LEAST_RESIDUAL]
    return tuple(k + 1 for k in sorted(steady[: max(intrinsic, len(new))]))
