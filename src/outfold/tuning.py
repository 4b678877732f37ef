"""The search for epsilon, alpha, t and the coordinates to keep; ``outfold.selection.tune`` is its public name.

Errors of held-out rows fall as epsilon grows: what is smooth is easily extended. They are half of the matter, the
variance. The other half is what a wide kernel can no longer see, and it shows as a difference to narrower kernels that
is larger than their own noise. Fits with different epsilon are made comparable by diffusing them for the same time tau:
with rates mu_k = -2 log(lambda_k) / epsilon, which tend to the eigenvalues of the Laplacian, the coordinates
exp(-mu_k tau) psi_k depend on epsilon only through its errors. Then, with E the coordinates, D the aligned distance,

    variance(epsilon) = (held-out error^2 + stability^2) / 2, both by the jackknife over folds
    bias(epsilon)     = max over narrower e of [D(E_epsilon, E_e)^2 - variance(e)]_+ and bias(e)
    epsilon           = argmin variance + bias

which is the method of Goldenshluger and Lepski (2011), for embeddings. Bias does not fall again: what is wider than too
wide may agree with the narrow by accident, since rates first rise and then fall with epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from . import _engine, _resolve, crossfit
from .alignment import Alignment
from .distances import Metric
from .graphs import AllPairs, survey
from .landmarks import Anchors
from .methods import DiffusionMaps, LaplacianEigenmaps, Roseland, SpectralClustering
from .runners import Threads
from .selection import LEAST, residuals, slope_dimension, smallest_time, spectral_dimension
from .solvers import LowRank
from .sources import InMemory, Source, in_dask, opened, shuffled
from .surveys import DenseSurvey

Array = NDArray[Any]

ALPHAS = (0.0, 0.5, 1.0)
GRID = 14  # values of epsilon, from where a row sees two others to where it sees half of all
FADED = 0.05  # weight of the last coordinate relative to the first at the time that fits are compared at
REPRODUCED = 0.5  # a coordinate whose held-out rows err by more is noise
REFITTED = 5000  # of no more rows all are fitted once with the best parameters, to see which coordinates to keep
UNSURE = 0.5  # a total error that deserves a word
DELTA = 0.1  # coordinates beyond the kept ones weigh less than this at the chosen t


@dataclass(frozen=True)
class Setting:
    """One candidate. Errors are root mean squares relative to the spread, with standard errors over the folds."""

    epsilon: float  #: NaN where there is none
    alpha: float | None
    error: float  #: of held-out rows, aligned
    error_band: float
    stability: float  #: how far fits of other rows would differ
    stability_band: float
    bias: float  #: how much further it is from narrower kernels than their noise explains
    total: float
    total_band: float
    eigenvalues: Array = field(repr=False)

    def __str__(self) -> str:
        parts = [f"{self.epsilon:<10.4g}", "-    " if self.alpha is None else f"{self.alpha:<5.3g}"]
        pairs = ((self.error, self.error_band), (self.stability, self.stability_band))
        parts += [f"{value:6.3f} +- {band:.3f}" for value, band in pairs]
        return "  ".join([*parts, f"{self.bias:6.3f}", f"{self.total:6.3f} +- {self.total_band:.3f}"])


@dataclass(frozen=True)
class Tuning:
    """What a search found. Print it; ``estimator`` is ready to fit, ``plotting.tuning`` draws it."""

    method: str
    best: dict[str, Any]  #: for set_params
    estimator: Any  #: with them, not fitted
    chosen: Setting
    table: tuple[Setting, ...]  #: by alpha, then epsilon
    intrinsic: int  #: dimension of the data
    slope: float  #: of the kernel sum at the chosen epsilon, which says so
    coordinates: tuple[int, ...]  #: eigenpairs to keep, 1 the first
    residuals: Array = field(repr=False)  #: what earlier eigenvectors leave unexplained of each
    rows: int
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """How many coordinates the embedding needs; a closed surface needs more than it has dimensions."""
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
    X: Any,
    method: Any = DiffusionMaps,
    *,
    epsilon: Any = "auto",
    alpha: Any = "auto",
    t: Any = "auto",
    dimension: int | str = "auto",
    components: int = 10,
    folds: int = 5,
    repeats: int = 1,
    rows: int = 800,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Tuning:
    """Choose epsilon, alpha, t and the coordinates by held-out error, stability and bias together.

    Epsilon and alpha minimise variance + bias (:mod:`outfold.tuning`). Kept are the eigenvectors that held-out rows
    reproduce and that are no functions of earlier ones (:func:`residuals` > 0.4), and at least as many as the data has
    dimensions. t is the smallest at which all beyond the last kept weigh less than 0.1 of the first: the held-out error
    cannot choose it, since it falls with t as coordinates fade.

    Parameters
    ----------
    X : array of shape (n, n_features), or Dask's, of which the rows that are searched are drawn
    method : estimator or class
        DiffusionMaps, Roseland or LaplacianEigenmaps, with a Gaussian kernel; its other parameters stay as they are.
        Of KernelPCA, ClassicalMDS, Isomap and LocallyLinearEmbedding, which have no limit that a narrow kernel is
        nearer to, only the coordinates are chosen.
    epsilon : "auto", a number or a sequence of numbers
        "auto": 14 from the squared distance to the second neighbour (median) to the median squared distance.
    alpha : "auto", a number or a sequence of numbers
        "auto": 0, 1/2 and 1. The method's own stays unless another is better by a standard error.
    t : "auto", a number or a sequence of numbers
        Of a sequence the smallest that is long enough, or the longest.
    dimension : "auto" or int
        How many coordinates to keep: those with the largest residuals.
    components : int
        How many are looked at.
    folds, repeats : int
        Each repeat cuts the rows into so many parts and fits all but one.
    rows : int
        Of more a random part is searched, and epsilon then carried over as n^(-2 / (d + 2)) falls.
    random_state : int, RandomState or None
    n_jobs : int or None
    verbose : bool

    >>> from outfold.datasets import circle
    >>> found = tune(circle(200, random_state=0), alpha=1.0)
    >>> found.intrinsic, found.dimension, sorted(found.best)
    (1, 2, ['alpha', 'epsilon', 'n_components', 't'])
    """
    method = _checked(method)
    components, folds = _resolve.count("components", components), _resolve.count("folds", folds, low=2)
    repeats, rows = _resolve.count("repeats", repeats), _resolve.count("rows", rows, low=20)
    if dimension != "auto" and _resolve.count("dimension", dimension) > components:
        raise ValueError(f"dimension={dimension} is more than the components={components} that are looked at.")
    random = check_random_state(random_state)
    seeker, whole, X = _within(method, _source(method, X), rows, random)
    seeds = [int(random.randint(2**31 - 1)) for _ in range(repeats)]
    components = min(components, len(X) - -(-len(X) // folds) - 1)
    runner = Threads(n_jobs)
    known = survey(AllPairs(), Metric.of(getattr(method, "metric", "euclidean")), X, np.ones(len(X)), runner)
    times = _times(method, t)
    plan = _plan(method, known, epsilon, alpha)
    fits = 1 + folds * repeats
    with Threads(n_jobs, verbose).bar("tuning", len(X) * fits * sum(len(grid) for _, grid in plan)) as bar:

        def tried(alpha: float | None, width: float) -> _Trial | ValueError:
            trial = _Trial.of(X, width, _at(seeker, components, width, alpha), folds, seeds, runner)
            bar.update(len(X) * fits)
            return trial

        searched = [_weighed([tried(value, width) for width in grid], value, _steps(method)) for value, grid in plan]
    return _concluded(method, seeker, X, whole, known, searched, dimension, times)


# -- what is searched ----------------------------------------------------------------------


def _checked(method: Any) -> Any:
    method = method() if isinstance(method, type) else method
    if not hasattr(method, "_recipe"):
        raise ValueError(f"{method!r} is none of Outfold's methods: pass an estimator, such as DiffusionMaps().")
    if isinstance(method, SpectralClustering):
        raise ValueError(
            "SpectralClustering has clusters, not coordinates, to tune: tune LaplacianEigenmaps for epsilon, and count "
            "clusters with gap_dimension."
        )
    if method._precomputed():
        raise ValueError(
            f"{method._precomputed()}='precomputed' has no features to hold out and measure: pass features."
        )
    return method


def _source(method: Any, X: Any) -> Source:
    """Rows, checked; Dask's stay where they are, if they are more than would be fitted together."""
    if not in_dask(X):
        return InMemory(np.ascontiguousarray(clone(method)._validate(X, reset=True), dtype=float))
    whole = opened(X)
    assert whole is not None
    return whole if len(whole) > REFITTED else _source(method, whole.take(np.arange(len(whole))))


def _within(method: Any, whole: Source, rows: int, random: Any) -> tuple[Any, Source, Array]:
    """The method as it is searched, the rows its fit depends on, and those of them that are looked at.

    A method that solves its problem on landmarks is searched on them, as if they were all. Roseland's are chosen once,
    and each part has those that are among its rows: chosen anew, they would add noise that missing rows do not explain.
    """
    seeker, given = clone(method), getattr(method, "landmarks", None)
    rng = np.random.default_rng(random.randint(2**31 - 1))
    if given is not None and not isinstance(method, Roseland):
        measure = np.broadcast_to(np.ones(1), len(whole))
        whole = InMemory(_resolve.landmark_choice(given).select(whole, measure, rng).points)
        seeker.set_params(landmarks=None)
        if isinstance(method.solver, LowRank):
            seeker.set_params(solver="auto")
    X = _looked_at(whole, rows, rng)
    if isinstance(method, Roseland):
        given = min(given, len(X)) if isinstance(given, int | np.integer) else given
        chosen = _resolve.landmark_choice(given).select(InMemory(X), np.ones(len(X)), rng)
        seeker.set_params(landmarks=chosen.points if chosen.index is None else _Among(chosen.points))
    return seeker, whole, X


def _looked_at(whole: Source, rows: int, rng: np.random.Generator) -> Array:
    if len(whole) <= rows:
        return whole.take(np.arange(len(whole)))
    if isinstance(whole, InMemory):
        return whole.take(np.sort(rng.permutation(len(whole))[:rows]))
    from ._spread_quality import check_draw

    check_draw(rows, whole)
    return whole.take(shuffled(len(whole), rows, rng))


@dataclass(frozen=True)
class _Among:
    """Those of some points that are among the rows."""

    points: Array

    def select(self, rows: Any, measure: Array, rng: np.random.Generator) -> Anchors:
        wanted = {point.tobytes() for point in self.points}
        index = np.flatnonzero([row.tobytes() in wanted for row in rows.array()])
        return Anchors(rows.take(index), index, measure[index])


def _steps(method: Any) -> int | None:
    """Diffusion steps in one power of an eigenvalue; None: the method has no kernel width to search."""
    if isinstance(method, LaplacianEigenmaps) and method.laplacian != "random_walk":
        raise ValueError(
            f"laplacian={method.laplacian!r} has eigenvalues in units of the degrees, which cannot be compared between "
            "epsilons: pass laplacian='random_walk'."
        )
    if isinstance(method, Roseland):
        return 2
    if isinstance(method, DiffusionMaps | LaplacianEigenmaps):
        if not (isinstance(method.kernel, str) and method.kernel == "gaussian"):
            raise ValueError(f"kernel={method.kernel!r} has no epsilon to search: pass kernel='gaussian'.")
        return 1
    return None


def _plan(method: Any, known: DenseSurvey, epsilon: Any, alpha: Any) -> list[tuple[float | None, list[float]]]:
    """For each alpha the epsilons to try, the method's own alpha first."""
    name = type(method).__name__
    if _steps(method) is None:
        for told, value in (("epsilon", epsilon), ("alpha", alpha)):
            if not (isinstance(value, str) and value == "auto"):
                raise ValueError(f"{name} has no {told} that tune could search; leave {told}='auto'.")
        return [(None, [float("nan")])]
    grid = _default_grid(known) if isinstance(epsilon, str) and epsilon == "auto" else _numbers("epsilon", epsilon)
    if not hasattr(method, "alpha"):
        if not (isinstance(alpha, str) and alpha == "auto"):
            raise ValueError(f"{name} has no alpha; leave alpha='auto'.")
        return [(None, grid)]
    values = list(ALPHAS) if isinstance(alpha, str) and alpha == "auto" else _numbers("alpha", alpha, low=0.0, high=1.0)
    return [(value, grid) for value in sorted(values, key=lambda value: (value != method.alpha, -value))]


def _default_grid(known: DenseSurvey) -> list[float]:
    k, n = 2.0, len(known.measure)
    while known.radius(k) == 0 and k < n - 1:  # copies
        k = min(2 * k, n - 1)
    low = known.radius(k) ** 2
    values, _ = known.pairs()
    high = float(np.median(values[values > 0])) if (values > 0).any() else 0.0
    if not low > 0:
        raise ValueError("All rows are equal, so there is no geometry to tune for. Check the input.")
    return [float(value) for value in np.geomspace(low, max(high, 4 * low), GRID)]


def _numbers(name: str, values: Any, *, low: float = 0.0, high: float = np.inf) -> list[float]:
    given = values if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else [values]
    found = sorted({_resolve.number(name, value, low=low, high=high, open_low=name == "epsilon") for value in given})
    if not found or not np.isfinite(found).all():
        raise ValueError(f"{name}={values!r} must be 'auto' or finite numbers.")
    return found


def _times(method: Any, t: Any) -> list[float] | None:
    """The times to choose from; None: any."""
    if isinstance(t, str) and t == "auto":
        return None
    if not hasattr(method, "t"):
        raise ValueError(f"{type(method).__name__} has no t; leave t='auto'.")
    return _numbers("t", t)


def _at(method: Any, components: int, epsilon: float, alpha: float | None) -> _engine.Recipe:
    """The recipe of a candidate, with eigenvectors that are not weighted."""
    wanted = {"n_components": components, "epsilon": epsilon, "alpha": alpha, "t": 0, "coordinates": "diffusion"}
    if np.isnan(epsilon):
        wanted = {"n_components": components}
    known = method.get_params(deep=False)
    found = clone(method).set_params(**{k: v for k, v in wanted.items() if k in known and v is not None})
    return replace(found._recipe(), clip_to_rank=True)


# -- fits and their errors -----------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """Fits with the same parameters: of all rows, and of parts of them."""

    epsilon: float
    values: Array  # eigenvalues
    functions: Array  # (rows, components)
    parts: list[tuple[Array, Array, Array]]  # which rows were held out, eigenvalues, functions at all rows

    @classmethod
    def of(
        cls, X: Array, epsilon: float, recipe: _engine.Recipe, folds: int, seeds: list[int], runner: Threads
    ) -> _Trial | ValueError:
        """Why not, if the data cannot be fitted so."""
        try:
            measure = np.ones(len(X))
            found = _engine.fit(InMemory(X), recipe, measure, np.random.default_rng(seeds[0]), runner)
            sample, part = crossfit.sampled(InMemory(X), recipe, found, len(X), runner)
            parts = []
            for seed in seeds:
                for fold in crossfit.folds(sample, part, folds, runner, seed):
                    held = np.zeros(len(X), dtype=bool)
                    held[fold.held] = True
                    embedding: Any = fold.found.embedding
                    functions = np.empty((len(X), embedding.shape[1]))
                    functions[~held], functions[held] = embedding, fold.found.model.embed(fold.points, runner)
                    shrink = fold.alignment.scale  # of columns whose length is 1 over the rows
                    parts.append((held, fold.found.eigenvalues, shrink * functions))
        except ValueError as error:
            return error
        whole: Any = found.embedding
        return cls(epsilon, found.eigenvalues, whole, parts)

    def rates(self, values: Array, steps: int) -> Array:
        return -2 * np.log(np.clip(values, 1e-12, 1 - 1e-15)) / (steps * self.epsilon)

    def errors(self, weigh: Any) -> tuple[Array, Array, Array]:
        """The weighted embedding, and of each fold the squared held-out error and deviation from the others.

        Relative to the spread, and times folds - 1 (the jackknife): a fold lacks few rows, and errs only so much.
        """
        whole = _centred(weigh(self.values, self.functions))
        spread = (whole**2).sum() / len(whole)
        more = len(self.parts) / sum(float(held.mean()) for held, _, _ in self.parts) - 1
        placed, held_out = [], []
        for held, values, functions in self.parts:
            moving = _padded(weigh(values, functions), whole.shape[1])
            placed.append(Alignment.of(moving[~held], whole[~held], rescale=False)(moving))
            held_out.append(((placed[-1] - whole)[held] ** 2).sum() / held.sum() / spread)
        mean = np.mean(placed, axis=0)
        count = len(placed)
        apart = [((place - mean) ** 2).sum() / len(whole) / spread * count / (count - 1) for place in placed]
        return whole, more * np.array(held_out), more * np.array(apart)

    def reproduced(self) -> Array:
        """Squared held-out error of each coordinate, relative to its variance."""
        whole = _centred(self.functions)
        left = np.zeros(whole.shape[1])
        for held, _, functions in self.parts:
            moving = _padded(functions, whole.shape[1])
            place = Alignment.of(moving[~held], whole[~held], rescale=False)(moving)
            left += ((place - whole)[held] ** 2).mean(axis=0) / len(self.parts)
        return left / np.maximum(whole.var(axis=0), np.finfo(float).tiny)


def _centred(values: Array) -> Array:
    return values - values.mean(axis=0)


def _padded(values: Array, columns: int) -> Array:
    """A part may have fewer components within its rank."""
    return np.pad(values, ((0, 0), (0, max(0, columns - values.shape[1]))))[:, :columns]


def _apart(one: Array, other: Array) -> float:
    """Squared distance of two centred embeddings of the same rows, aligned, relative to their spreads."""
    columns = max(one.shape[1], other.shape[1])
    one, other = _padded(one, columns), _padded(other, columns)
    left = Alignment.of(one, other, rescale=False)(one) - other
    return float((left**2).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


# -- the choice ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    """All candidates of one alpha, and which is best."""

    table: list[Setting]
    trials: list[_Trial]
    best: int


def _weighed(tried: list[_Trial | ValueError], alpha: float | None, steps: int | None) -> _Search:
    """Compare at a time that belongs to the best candidate: choose, set the time, and again until it stays."""
    trials = [trial for trial in tried if isinstance(trial, _Trial)]
    if not trials:
        raise ValueError(
            f"None of {len(tried)} candidates could be fitted to these rows and to parts of them; the last said: "
            f"{tried[-1]}"
        )
    if steps is None:
        return _Search(_table(trials, alpha, lambda trial: _as_it_is), trials, 0)
    at = len(trials) // 2
    least = 1e-3 * max(trial.rates(trial.values, steps)[-1] for trial in trials)  # graphs in pieces have rates of zero
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


def _fading(trial: _Trial, first: float, tau: float, steps: int) -> Any:
    def weigh(values: Array, functions: Array) -> Array:
        exponent = (trial.rates(values, steps) - first) * tau
        return functions * np.exp(-np.clip(exponent, -first * tau, 50.0))

    return weigh


def _table(trials: list[_Trial], alpha: float | None, weight: Any) -> list[Setting]:
    embeddings: list[Array] = []
    variances: list[float] = []
    table = []
    bias = 0.0
    for trial in trials:
        whole, held_out, apart = trial.errors(weight(trial))
        both = (held_out + apart) / 2
        bias = max([bias, *(_apart(whole, other) - v for other, v in zip(embeddings, variances))])
        total = float(np.sqrt(both.mean() + bias))
        embeddings.append(whole)
        variances.append(float(both.mean()))
        (error, error_band), (stability, stability_band) = _root(held_out), _root(apart)
        band = _standard_error(both) / (2 * max(total, 1e-12))
        numbers = (error, error_band, stability, stability_band, float(np.sqrt(bias)), total, band)
        table.append(Setting(trial.epsilon, alpha, *numbers, trial.values))
    return table


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _root(squares: Array) -> tuple[float, float]:
    """The root of the mean, and its standard error."""
    root = float(np.sqrt(squares.mean()))
    return root, _standard_error(squares) / (2 * max(root, 1e-12))


def _concluded(
    method: Any,
    seeker: Any,
    X: Array,
    whole: Source,
    known: DenseSurvey,
    searched: list[_Search],
    dimension: int | str,
    times: Any,
) -> Tuning:
    """The best alpha, the coordinates and the time, carried over from the rows searched to all."""
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
    if len(X) < len(whole) <= REFITTED:  # the order of eigenpairs may be another
        recipe = _at(
            method if isinstance(method, Roseland) else seeker,
            functions.shape[1],
            best.get("epsilon", np.nan),
            chosen.alpha,
        )
        fit = _engine.fit(whole, recipe, np.ones(len(whole)), np.random.default_rng(0), Threads())
        functions, values, carried = np.asarray(fit.embedding), fit.eigenvalues, 1.0
    left = residuals(functions)
    coordinates = _kept(left, trial.reproduced(), intrinsic, dimension)
    if hasattr(method, "t"):
        best["t"] = _time(values, max(coordinates), times, carried)
    consecutive = coordinates == tuple(range(1, len(coordinates) + 1))
    settings = {**best, "n_components": len(coordinates) if consecutive else list(coordinates)}
    table = tuple(row for s in sorted(searched, key=lambda s: s.table[0].alpha or 0.0) for row in s.table)
    estimator, name = clone(method).set_params(**settings), type(method).__name__
    return Tuning(name, settings, estimator, chosen, table, intrinsic, slope, coordinates, left, len(X), told)


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


def _slope(known: DenseSurvey, epsilon: float) -> float:
    """2 d log sum_(i<j) exp(-d^2 / (2 epsilon)) / d log epsilon: the dimension that the kernel sees."""
    squares, weights = known.pairs()
    weights = weights * np.exp(-squares / (2 * epsilon))
    return float((weights @ squares) / (epsilon * max(weights.sum(), np.finfo(float).tiny)))


def _kept(left: Array, reproduced: Array, intrinsic: int, dimension: int | str) -> tuple[int, ...]:
    """Eigenpairs to keep, from 1: the first, then new directions that are no noise."""
    order = np.argsort(-np.append(np.inf, left[1:]), kind="stable")
    if dimension != "auto":
        return tuple(int(k) + 1 for k in np.sort(order[: int(dimension)]))
    steady = [int(k) for k in order if k == 0 or reproduced[k] < REPRODUCED**2]
    new = [k for k in steady if k == 0 or left[k] > LEAST]
    return tuple(k + 1 for k in sorted(steady[: max(intrinsic, len(new))]))


def _time(eigenvalues: Array, last: int, times: list[float] | None, carried: float) -> float:
    """The smallest time at which what comes after the last weighs less than DELTA of the first."""
    if times is not None:
        enough = [t for t in times if (spectral_dimension(eigenvalues, t=t * carried, delta=DELTA) or np.inf) <= last]
        return min(enough, default=max(times))
    try:
        exact = smallest_time(eigenvalues, min(last, len(eigenvalues) - 1), delta=DELTA, whole=False)
    except ValueError:  # equal to the first: no time tells them apart
        return 1.0
    return float(max(1.0, np.ceil(exact / carried - 1e-9)))
