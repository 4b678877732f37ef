"""The search for epsilon, alpha, t and the coordinates to keep; ``outfold.selection.tune`` is its public name.

Errors of held-out rows fall as epsilon grows, since smooth functions are easy to extend. They are half of the matter,
the variance. The other half is the bias, what a wide kernel can no longer see. It shows as a difference to narrower
kernels that is larger than their own noise. Fits with different epsilon are made comparable by diffusing them for the
same time tau: with rates mu_k = -2 log(lambda_k) / epsilon, which tend to the eigenvalues of the Laplacian, the
coordinates exp(-mu_k tau) psi_k depend on epsilon only through its errors. Then, with E the coordinates, D the aligned
distance,

    variance(epsilon) = (held-out error^2 + stability^2) / 2, both by the jackknife over folds
    bias(epsilon)     = max over narrower e of [D(E_epsilon, E_e)^2 - variance(e)]_+ and bias(e)
    epsilon           = argmin variance + bias

which is the method of Goldenshluger and Lepski (2011), for embeddings. The bias never falls as epsilon grows:
a kernel that is far too wide may agree with a narrow one by accident, since rates first rise and then fall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Seed
from ..data.sources import InMemory, Source, draw_numbers, open_parts
from ..distances import Metric
from ..engine import cross_fit
from ..engine.fit import Recipe, fit_recipe
from ..extensions.alignment import Alignment
from ..graphs import AllPairs
from ..graphs.pair_statistics import DenseStatistics
from ..landmarks import Anchors, Landmarks
from ..methods import DiffusionMaps, LaplacianEigenmaps, Roseland, SpectralClustering, parameters
from ..methods.base import SpectralEstimator
from ..operators.spectrum import spectral_dimension
from ..solvers import LowRank
from .coordinates import LEAST_RESIDUAL, residuals
from .dimension import slope_dimension, smallest_time

ALPHAS = (0.0, 0.5, 1.0)
EPSILON_GRID_SIZE = 14  # values of epsilon: from the scale of the second neighbour to the median distance
FADED = 0.05  # weight of the last coordinate relative to the first, at the time tau of the comparison
REPRODUCED = 0.5  # a coordinate with a larger held-out error, in standard deviations, is noise
REFITTED = 5000  # rows: up to this many, all are fitted once with the best parameters to select the coordinates
UNSURE = 0.5  # a larger total error adds a note to the result
DELTA = 0.1  # weight, relative to the first, below which the coordinates that are not kept fall at the chosen t

Choice: TypeAlias = str | float | Sequence[float] | Array  # "auto", a number or several
Weigh: TypeAlias = Callable[[Array, Array], Array]  # eigenvalues and functions -> weighted functions


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One candidate. Errors are root mean squares relative to that of the embedding; bands are standard errors."""

    epsilon: float  #: NaN if the method has none
    alpha: float | None
    error: float  #: error of held-out rows after alignment
    error_band: float
    stability: float  #: how far fits to different rows differ
    stability_band: float
    bias: float  #: distance to narrower kernels beyond what their noise explains
    total: float  #: root of (error^2 + stability^2) / 2 + bias^2
    total_band: float
    eigenvalues: Array = field(repr=False)

    def __str__(self) -> str:
        parts = [f"{self.epsilon:<10.4g}", "-    " if self.alpha is None else f"{self.alpha:<5.3g}"]
        pairs = ((self.error, self.error_band), (self.stability, self.stability_band))
        parts += [f"{value:6.3f} +- {band:.3f}" for value, band in pairs]
        return "  ".join([*parts, f"{self.bias:6.3f}", f"{self.total:6.3f} +- {self.total_band:.3f}"])


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The result of :func:`tune`. Print it; ``estimator`` is ready to fit, and ``plotting.tuning`` draws it."""

    method: str
    best: dict[str, Any]  #: the chosen parameters, for ``set_params``
    estimator: SpectralEstimator  #: the method with these parameters, not fitted
    chosen: Setting
    table: tuple[Setting, ...]  #: all candidates, by alpha, then by epsilon
    intrinsic: int  #: intrinsic dimension of the data
    slope: float  #: of the kernel sum at the chosen epsilon; rounded, it is ``intrinsic``
    coordinates: tuple[int, ...]  #: eigenpairs to keep, counted from 1
    residuals: Array = field(repr=False)  #: the part of each eigenvector that earlier ones do not explain
    rows: int  #: how many rows were searched
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """The number of coordinates that the embedding needs; a closed surface needs more than it has dimensions."""
        return len(self.coordinates)

    def __str__(self) -> str:
        told = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.best.items()
        )
        lines = [
            f"{self.method}({told})",
            f"  intrinsic dimension {self.intrinsic} (slope {self.slope:.2f}), embedded by {self.dimension} "
            f"coordinates: eigenpairs {', '.join(map(str, self.coordinates))}",
            f"  {self.rows} rows, {len(self.table)} candidates",
            "",
            "    epsilon     alpha  held-out error   stability        bias    total",
        ]
        lines += [f"{'  > ' if row is self.chosen else '    '}{row}" for row in self.table]
        return "\n".join([*lines, *(f"  note: {text}" for text in self.notes)])


def tune(
    X: Data,
    method: SpectralEstimator | type[SpectralEstimator] = DiffusionMaps,
    *,
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
    """Choose epsilon, alpha, t and the coordinates by held-out error, stability and bias together.

    Epsilon and alpha minimise variance + bias (:mod:`outfold.selection.tuning`). The coordinates are the
    eigenvectors that held-out rows reproduce and that are no functions of earlier ones (:func:`residuals` > 0.4);
    there are at least as many as the data has dimensions. t is the smallest time at which every eigenvector after
    the last coordinate weighs less than 0.1 of the first. The held-out error cannot choose t, since it falls with t
    as coordinates fade.

    Parameters
    ----------
    X : array of shape (n, n_features), or a Dask collection, from which the rows to search are drawn
    method : estimator or class
        DiffusionMaps, Roseland or LaplacianEigenmaps, with kernel "auto", which the chosen epsilon makes the Gaussian,
        or "gaussian"; its other parameters stay as they are.
        For KernelPCA, ClassicalMDS, Isomap and LocallyLinearEmbedding only the coordinates are chosen: they have no
        limit that a narrow kernel is nearer to.
    epsilon : "auto", a number or a sequence of numbers
        "auto": 14 from the squared distance to the second neighbour (median) to the median squared distance.
    alpha : "auto", a number or a sequence of numbers
        "auto": 0, 1/2 and 1. The method's own stays unless another is better by a standard error.
    t : "auto", a number or a sequence of numbers
        From a sequence the smallest time that is long enough is chosen, else the longest.
    dimension : "auto" or int
        How many coordinates to keep: those with the largest residuals.
    components : int
        How many eigenpairs each fit computes.
    folds, repeats : int
        Each repeat splits the rows into ``folds`` parts and fits all but one of them, in turn.
    rows : int
        A random sample of ``rows`` rows is searched if there are more. Epsilon is then rescaled to all n rows, in
        proportion to n^(-2 / (d + 2)) with d the intrinsic dimension.
    random_state : int, RandomState or None
    n_jobs : int or None
    verbose : bool

    >>> from outfold.datasets import circle
    >>> found = tune(circle(200, random_state=0), alpha=1.0)
    >>> found.intrinsic, found.dimension, sorted(found.best)
    (1, 2, ['alpha', 'epsilon', 'n_components', 't'])
    """
    chosen = _check(method)
    components, folds = parameters.count("components", components), parameters.count("folds", folds, low=2)
    repeats, rows = parameters.count("repeats", repeats), parameters.count("rows", rows, low=20)
    if dimension != "auto" and parameters.count("dimension", dimension) > components:
        raise ValueError(f"dimension={dimension} is more than the components={components} that are looked at.")
    random = check_random_state(random_state)
    seeker, whole, points = _within(chosen, _source(chosen, X), rows, random)
    seeds = [int(random.randint(2**31 - 1)) for _ in range(repeats)]
    components = min(components, len(points) - -(-len(points) // folds) - 1)
    runner = Threads(n_jobs)
    metric = Metric.of(getattr(chosen, "metric", "euclidean"))
    known = AllPairs().statistics(metric, points, np.ones(len(points)), runner)
    times = _times(chosen, t)
    plan = _plan(chosen, known, epsilon, alpha)
    work = len(points) * (1 + folds * repeats)
    with Threads(n_jobs, verbose).bar("tuning", work * sum(len(grid) for _, grid in plan)) as bar:

        def tried(alpha: float | None, width: float) -> _Trial | ValueError:
            trial = _Trial.of(points, width, _at(seeker, components, width, alpha), folds, seeds, runner)
            bar.update(work)
            return trial

        searched = [_weigh([tried(value, width) for width in grid], value, _steps(chosen)) for value, grid in plan]
    return _conclude(chosen, seeker, points, whole, known, searched, dimension, times)


# -- what is searched ----------------------------------------------------------------------


def _check(method: SpectralEstimator | type[SpectralEstimator]) -> SpectralEstimator:
    found: object = method() if isinstance(method, type) else method
    if not isinstance(found, SpectralEstimator):
        raise ValueError(f"{found!r} is none of Outfold's methods: pass an estimator, such as DiffusionMaps().")
    if isinstance(found, SpectralClustering):
        raise ValueError(
            "SpectralClustering has clusters, not coordinates, to tune: tune LaplacianEigenmaps for epsilon, and count "
            "clusters with gap_dimension."
        )
    if (given := found._precomputed_parameter()) is not None:
        raise ValueError(f"{given}='precomputed' has no features to hold out and measure: pass features.")
    return found


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


def _steps(method: SpectralEstimator) -> int | None:
    """Return the diffusion steps in one power of an eigenvalue; None if the method has no epsilon to search."""
    if isinstance(method, LaplacianEigenmaps) and method.laplacian != "random_walk":
        raise ValueError(
            f"laplacian={method.laplacian!r} has eigenvalues in units of the degrees, which cannot be compared between "
            "epsilons: pass laplacian='random_walk'."
        )
    if not isinstance(method, DiffusionMaps | LaplacianEigenmaps | Roseland):
        return None
    if not (isinstance(method.kernel, str) and method.kernel in ("auto", "gaussian")):
        raise ValueError(
            f"kernel={method.kernel!r} has no epsilon to search, in units of the data: fit it as it is, or pass "
            "kernel='auto' or 'gaussian', for which tune searches the epsilon of the Gaussian."
        )
    return 2 if isinstance(method, Roseland) else 1


def _is_auto(value: Choice) -> bool:
    return isinstance(value, str) and value == "auto"


def _plan(
    method: SpectralEstimator, known: DenseStatistics, epsilon: Choice, alpha: Choice
) -> list[tuple[float | None, list[float]]]:
    """Return pairs of an alpha and the epsilons to try with it, the method's own alpha first."""
    name = type(method).__name__
    if _steps(method) is None:
        for told, value in (("epsilon", epsilon), ("alpha", alpha)):
            if not _is_auto(value):
                raise ValueError(f"{name} has no {told} that tune could search; leave {told}='auto'.")
        return [(None, [float("nan")])]
    grid = _default_grid(known) if _is_auto(epsilon) else _numbers("epsilon", epsilon)
    own = getattr(method, "alpha", None)
    if own is None:
        if not _is_auto(alpha):
            raise ValueError(f"{name} has no alpha; leave alpha='auto'.")
        return [(None, grid)]
    values = list(ALPHAS) if _is_auto(alpha) else _numbers("alpha", alpha, low=0.0, high=1.0)
    return [(value, grid) for value in sorted(values, key=lambda value: (value != own, -value))]


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


def _at(method: SpectralEstimator, components: int, epsilon: float, alpha: float | None) -> Recipe:
    """Return the recipe of a candidate; its eigenvectors are not weighted (t = 0)."""
    wanted = {"n_components": components, "epsilon": epsilon, "alpha": alpha, "t": 0, "coordinates": "diffusion"}
    if np.isnan(epsilon):
        wanted = {"n_components": components}
    known = method.get_params(deep=False)
    found: SpectralEstimator = clone(method).set_params(
        **{k: v for k, v in wanted.items() if k in known and v is not None}
    )
    return replace(found._recipe(), clip_to_rank=True)


# -- fits and their errors -----------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """Fits with the same parameters: to all rows, and without each fold."""

    epsilon: float
    values: Array  # eigenvalues
    functions: Array  # (rows, components)
    parts: list[tuple[Array, Array, Array]]  # per fold: held-out mask, eigenvalues, functions at all rows

    @classmethod
    def of(
        cls, X: Array, epsilon: float, recipe: Recipe, folds: int, seeds: list[int], runner: Threads
    ) -> _Trial | ValueError:
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
                    parts.append((held, fold.found.eigenvalues, shrink * functions))
        except ValueError as error:
            return error
        return cls(epsilon, found.eigenvalues, np.asarray(found.embedding), parts)

    def rates(self, values: Array, steps: int) -> Array:
        rates: Array = -2 * np.log(np.clip(values, 1e-12, 1 - 1e-15)) / (steps * self.epsilon)
        return rates

    def align(self, weigh: Weigh) -> tuple[Array, list[tuple[Array, Array]]]:
        """Return the weighted embedding, centred, and per fold its held-out mask and its aligned embedding."""
        whole = weigh(self.values, self.functions)
        whole = whole - whole.mean(axis=0)
        placed = []
        for held, values, functions in self.parts:
            moving = _pad(weigh(values, functions), whole.shape[1])
            placed.append((held, Alignment.of(moving[~held], whole[~held], rescale=False)(moving)))
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
class _Search:
    """All candidates of one alpha, and the number of the best."""

    table: list[Setting]
    trials: list[_Trial]
    best: int


def _weigh(tried: list[_Trial | ValueError], alpha: float | None, steps: int | None) -> _Search:
    """Compare at the time tau of the best candidate: choose, set tau, and repeat until a choice comes again."""
    trials = [trial for trial in tried if isinstance(trial, _Trial)]
    if not trials:
        raise ValueError(
            f"None of {len(tried)} candidates could be fitted to these rows and to parts of them; the last said: "
            f"{tried[-1]}"
        )
    if steps is None:
        return _Search(_table(trials, alpha, lambda trial: _as_it_is), trials, 0)
    at = len(trials) // 2
    least = 1e-3 * max(trial.rates(trial.values, steps)[-1] for trial in trials)  # disconnected graphs: rates of 0
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        mu = trials[at].rates(trials[at].values, steps)
        tau = -np.log(FADED) / max(mu[-1] - mu[0], least)
        table = _table(trials, alpha, partial(_fading, first=float(mu[0]), tau=float(tau), steps=steps))
        at = int(np.argmin([row.total for row in table]))
    return _Search(table, trials, at)


def _as_it_is(values: Array, functions: Array) -> Array:
    return functions


def _fading(trial: _Trial, first: float, tau: float, steps: int) -> Weigh:
    def weigh(values: Array, functions: Array) -> Array:
        exponent = (trial.rates(values, steps) - first) * tau
        weighted: Array = functions * np.exp(-np.clip(exponent, -first * tau, 50.0))
        return weighted

    return weigh


def _table(trials: list[_Trial], alpha: float | None, weight: Callable[[_Trial], Weigh]) -> list[Setting]:
    embeddings: list[Array] = []
    variances: list[float] = []
    table = []
    bias = 0.0
    for trial in trials:
        whole, held_out, apart = trial.errors(weight(trial))
        both = (held_out + apart) / 2
        bias = max([bias, *(_apart(whole, other) - v for other, v in zip(embeddings, variances))])
        embeddings.append(whole)
        variances.append(float(both.mean()))
        (error, error_band), (stability, stability_band) = _root(held_out), _root(apart)
        total = float(np.sqrt(both.mean() + bias))
        table.append(
            Setting(
                epsilon=trial.epsilon,
                alpha=alpha,
                error=error,
                error_band=error_band,
                stability=stability,
                stability_band=stability_band,
                bias=float(np.sqrt(bias)),
                total=total,
                total_band=_standard_error(both) / (2 * max(total, 1e-12)),
                eigenvalues=trial.values,
            )
        )
    return table


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _root(squares: Array) -> tuple[float, float]:
    """Return the root of the mean, and its standard error."""
    root = float(np.sqrt(squares.mean()))
    return root, _standard_error(squares) / (2 * max(root, 1e-12))


def _conclude(
    method: SpectralEstimator,
    seeker: SpectralEstimator,
    X: Array,
    whole: Source,
    known: DenseStatistics,
    searched: list[_Search],
    dimension: int | str,
    times: list[float] | None,
) -> Tuning:
    """Choose the best alpha, the coordinates and the time, and rescale them from the searched rows to all rows."""
    own = searched[0]
    rivals = [(s.table[s.best].total + s.table[s.best].total_band, s) for s in searched[1:]]
    rival = min(rivals, key=lambda pair: pair[0], default=None)
    search = rival[1] if rival and rival[0] < own.table[own.best].total else own
    chosen, trial = search.table[search.best], search.trials[search.best]
    steps = _steps(method)
    metric = getattr(method, "metric", "euclidean")
    slope = slope_dimension(X, metric=metric) if steps is None else _slope(known, chosen.epsilon)
    intrinsic = max(1, round(slope))
    carried = (len(whole) / len(X)) ** (-2 / (intrinsic + 2))
    best = {"epsilon": chosen.epsilon * carried, "alpha": chosen.alpha}
    best = {name: value for name, value in best.items() if value is not None and steps is not None}
    functions, values, told = trial.functions, chosen.eigenvalues, _notes(search, X, whole, steps)
    if len(X) < len(whole) <= REFITTED:  # all rows may order the eigenpairs differently
        searcher = method if isinstance(method, Roseland) else seeker
        recipe = _at(searcher, functions.shape[1], best.get("epsilon", np.nan), chosen.alpha)
        fit = fit_recipe(whole, recipe, np.ones(len(whole)), np.random.default_rng(0), Threads())
        functions, values, carried = np.asarray(fit.embedding), fit.eigenvalues, 1.0
    left = residuals(functions)
    coordinates = _kept_count(left, trial.reproduce(), intrinsic, dimension)
    if hasattr(method, "t"):
        best["t"] = _time(values, max(coordinates), times, carried)
    consecutive = coordinates == tuple(range(1, len(coordinates) + 1))
    settings = {**best, "n_components": len(coordinates) if consecutive else list(coordinates)}
    table = tuple(row for s in sorted(searched, key=lambda s: s.table[0].alpha or 0.0) for row in s.table)
    return Tuning(
        method=type(method).__name__,
        best=settings,
        estimator=clone(method).set_params(**settings),
        chosen=chosen,
        table=table,
        intrinsic=intrinsic,
        slope=slope,
        coordinates=coordinates,
        residuals=left,
        rows=len(X),
        notes=told,
    )


def _notes(search: _Search, X: Array, whole: Source, steps: int | None) -> tuple[str, ...]:
    last, notes = len(search.table) - 1, []
    if steps is not None and last == 0:
        notes.append("one epsilon was tried, so nothing is known about its bias.")
    elif search.best in (0, last) and last > 0:
        notes.append(f"the best epsilon is the {'widest' if search.best else 'narrowest'} that was tried; try beyond.")
    if search.table[search.best].total > UNSURE:
        notes.append(
            f"even the best is off by {search.table[search.best].total:.2f} of the spread: outliers, clusters or more "
            "components than the rows can tell apart."
        )
    if len(X) < len(whole):
        what = "" if steps is None else ", and epsilon carried over to all"
        notes.append(f"{len(X)} of {len(whole)} rows were searched{what}.")
    if len(whole) > max(REFITTED, len(X)):
        notes.append("coordinates are those of the rows searched; of all rows, nearly equal ones may change places.")
    return tuple(notes)


def _slope(known: DenseStatistics, epsilon: float) -> float:
    """Return 2 d log sum_(i<j) exp(-d^2 / (2 epsilon)) / d log epsilon: the dimension that the kernel sees."""
    squares, weights = known.pairs()
    weights = weights * np.exp(-squares / (2 * epsilon))
    return float((weights @ squares) / (epsilon * max(weights.sum(), np.finfo(float).tiny)))


def _kept_count(left: Array, reproduced: Array, intrinsic: int, dimension: int | str) -> tuple[int, ...]:
    """Return the eigenpairs to keep, counted from 1: the first, then new directions that are no noise."""
    order = np.argsort(-np.append(np.inf, left[1:]), kind="stable")
    if dimension != "auto":
        return tuple(int(k) + 1 for k in np.sort(order[: int(dimension)]))
    steady = [int(k) for k in order if k == 0 or reproduced[k] < REPRODUCED**2]
    new = [k for k in steady if k == 0 or left[k] > LEAST_RESIDUAL]
    return tuple(k + 1 for k in sorted(steady[: max(intrinsic, len(new))]))


def _time(eigenvalues: Array, last: int, times: list[float] | None, carried: float) -> float:
    """Return the smallest time at which eigenpairs after ``last`` weigh less than DELTA of the first."""
    if times is not None:
        enough = [t for t in times if (spectral_dimension(eigenvalues, t=t * carried, delta=DELTA) or np.inf) <= last]
        return min(enough, default=max(times))
    try:
        exact = smallest_time(eigenvalues, min(last, len(eigenvalues) - 1), delta=DELTA, whole=False)
    except ValueError:  # this eigenvalue equals the first: no time separates them
        return 1.0
    return float(max(1.0, np.ceil(exact / carried - 1e-9)))
