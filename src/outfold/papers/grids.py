"""The thesis's search for the weight decay of its networks: ten values, ten folds, three data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from .. import plotting
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..extensions.samples import Samples
from . import helix, thesis, vowel, wine
from .record import Effort, Experiment, Finding, NotAtHand, Outcome, Picture, ResultTable, assertion, measurement

GRID = tuple(10.0**power for power in range(-6, 4))
FOLDS, TEST_SHARE = 10, 0.4
ITERATIONS = 200  # of L-BFGS, the default of scikit-learn
SETS: dict[str, tuple[Callable[[int], thesis.Study], float]] = {  # data, and the mu that the thesis chooses
    "helix": (helix.study, 1e-4),
    "wine": (lambda seed: wine.study(), 0.1),
    "vowel": (lambda seed: vowel.study(), 1.0),
}
WORTH_PROCESSES = 100  # trainings from which on processes run in parallel


class Encoder(BaseEstimator):
    """The thesis's network as a regressor from features to an embedding; each coordinate is scaled to deviation 1."""

    def __init__(self, alpha: float = 1e-4) -> None:
        self.alpha = alpha

    def fit(self, X: Array, Y: Array) -> Encoder:
        self.spread_ = Y.std(axis=0)
        net = thesis.network(self.alpha, *Y.shape, iterations=ITERATIONS)
        self.network_ = net.fit(Samples.of(X, Y / self.spread_, np.ones(len(X))), Threads(1))
        return self

    def predict(self, X: Array) -> Array:
        return self.network_.embed(X, Threads(1)) * self.spread_


@dataclass(frozen=True)
class GridSearch:
    """A grid search on one data set: errors of held-out rows, relative to the variance of the embedding."""

    study: thesis.Study
    train: Array
    test: Array
    errors: Array  # (values of the grid, folds)
    printed: float  # the mu that the thesis chooses

    @property
    def chosen(self) -> float:
        return GRID[int(self.errors.mean(axis=1).argmin())]

    def at(self, alpha: float) -> Array:
        """Return the errors at ``alpha``, one per fold."""
        found: Array = self.errors[int(np.argmin(np.abs(np.log(np.array(GRID) / alpha))))]
        return found

    def describe(self, alpha: float) -> str:
        return f"{100 * self.at(alpha).mean():.3g} ± {100 * self.at(alpha).std():.2g}"

    @property
    def within(self) -> bool:
        """Whether the error at the thesis's mu exceeds the best by at most two standard errors, over folds."""
        mean, error = self.behind
        return mean <= 2 * error

    @property
    def behind(self) -> tuple[float, float]:
        """Error at the thesis's mu minus the least error, in % of the variance: mean over folds and standard error."""
        more = 100 * (self.at(self.printed) - self.at(self.chosen))
        return float(more.mean()), float(more.std(ddof=1) / np.sqrt(len(more)))

    @property
    def decay(self) -> float:
        """The chosen mu as ``weight_decay`` of our networks."""
        return self.chosen * self.study.dimension / len(self.train)


def search(study: thesis.Study, effort: Effort, printed: float) -> GridSearch:
    """Embed 60 % of the rows by diffusion maps, and cross-validate networks that learn this embedding.

    As in the thesis, the target of a held-out row is its coordinates in the embedding of the 60 %, to which it belongs.
    """
    train, test = study.split(round(TEST_SHARE * len(study.X)), effort.seed)
    X, Y = study.X[train], np.asarray(study.maps(study.dimension).fit(study.X[train]).embedding_)
    folds = max(2, effort.times(FOLDS))
    rule = KFold if study.labels is None else StratifiedKFold
    kinds = np.zeros(len(train)) if study.labels is None else study.labels[train]
    found = GridSearchCV(
        Encoder(),
        {"alpha": GRID},
        scoring="neg_mean_squared_error",
        cv=list(rule(folds, shuffle=True, random_state=effort.seed).split(X, kinds)),
        refit=False,
        error_score="raise",
        n_jobs=-1 if folds * len(GRID) >= WORTH_PROCESSES else None,
    ).fit(X, Y)
    errors = np.array([-found.cv_results_[f"split{fold}_test_score"] for fold in range(folds)]).T
    return GridSearch(study, train, test, errors / Y.var(axis=0).mean(), printed)


# -- the experiment ------------------------------------------------------------------------


def run(effort: Effort) -> Outcome:
    if not find_spec("torch"):
        raise NotAtHand('networks are trained by PyTorch, which is not installed: pip install "outfold[neural]"')
    found = {
        name: search(make(effort.seed), effort, printed)
        for name, (make, printed) in effort.walk(SETS.items(), "grids of mu")
    }
    findings = [line for name, one in found.items() for line in _findings(name, one)]
    return Outcome(findings, [_picture(found)], [_by_value(found), _choices(found)])


def _findings(name: str, one: GridSearch) -> list[Finding]:
    mean, error = one.behind
    why = (
        f"{one.describe(one.chosen)} % of the variance at our best, {one.describe(one.printed)} % at the thesis's, "
        f"which errs {mean:.2g} ± {error:.2g} more fold by fold: agreement is within two standard errors. Folds and "
        "first weights of the thesis are not known."
    )
    return [
        assertion(f"{name}: mu with the least held-out error", one.chosen, f"{one.printed:g}", one.within, why),
        measurement(
            f"{name}: error at the largest mu, % of the variance",
            100 * one.at(GRID[-1]).mean(),
            "100 is a network that knows the mean only.",
        ),
    ]


def _by_value(found: dict[str, GridSearch]) -> ResultTable:
    folds = next(iter(found.values())).errors.shape[1]
    columns = ["mu", *(f"{name} (weight_decay = {one.study.dimension} mu / N)" for name, one in found.items())]
    rows = [[f"{alpha:g}", *(one.describe(alpha) for one in found.values())] for alpha in GRID]
    return ResultTable(
        f"Held-out mean squared error, % of the variance: mean ± deviation of {folds} folds", columns, rows
    )


def _choices(found: dict[str, GridSearch]) -> ResultTable:
    rows: list[list[Any]] = []
    for name, one in found.items():
        net = thesis.network(one.chosen, len(one.train), one.study.dimension, iterations=ITERATIONS)
        ours, nystrom = (
            thesis.extend(one.study, one.train, one.test, extension=way).aligned for way in (net, "nystrom")
        )
        rows.append([name, f"{one.chosen:g}", f"{one.decay:.2g}", len(one.test), 100 * ours, 100 * nystrom])
    columns = ["data", "mu", "weight_decay", "test rows", "network, % of the spread", "Nystrom, % of the spread"]
    return ResultTable("With the best mu: aligned error on the other 40 %, against the fit of all rows", columns, rows)


def _picture(found: dict[str, GridSearch]) -> Picture:
    figure, (row,) = plotting.grid(1, len(found), size=(4.6, 3.8))
    for axes, (name, one) in zip(row, found.items()):
        mean, spread = 100 * one.errors.mean(axis=1), 100 * one.errors.std(axis=1)
        below = np.minimum(spread, 0.9 * mean)  # a logarithmic axis has no 0
        axes.errorbar(GRID, mean, yerr=[below, spread], marker="o", markersize=4, capsize=3, color="#4477aa")
        axes.axvline(one.printed, color="#cc3311", linestyle="--", linewidth=1, label=f"thesis: {one.printed:g}")
        axes.axvline(one.chosen, color="#4477aa", linestyle=":", linewidth=1.5, label=f"ours: {one.chosen:g}")
        axes.set(xscale="log", yscale="log", xlabel="mu", title=name)
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", frameon=False)
    row[0].set_ylabel("held-out error, % of the variance")
    return Picture(
        "grids",
        figure,
        "Error of held-out rows by mu: flat over many powers of ten, then the network forgets. Bars: folds.",
    )


EXPERIMENT = Experiment(
    "grids",
    "Networks: the grids of mu",
    thesis.SOURCE,
    "60 % of the rows of helix, wine and vowels (the text has 40 % once, but counts 60 % everywhere), embedded by "
    "diffusion maps with each set's settings; two hidden layers of 100, ReLU, L-BFGS, 200 iterations, no early "
    "stopping; mu from 1e-6 to 1e3, ten folds, by classes where there are some. The mu of the thesis is scikit-learn's "
    "alpha, ours is weight_decay = mu d / N for d coordinates and N rows; coordinates are scaled to spread 1, which "
    "the thesis does not tell. Its errors are in a figure only; the values it arrives at are printed.",
    run,
)
