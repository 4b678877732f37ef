"""Experiments on each data set of Dorado's thesis: spectra, extension from one half to the other, the error curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from .. import DiffusionMaps, plotting, quality
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..bandwidths import Percentile
from ..engine.model import ExtendedModel
from ..extensions import GeometricHarmonics, KernelRidge, LaplacianPyramid, LeastSquares
from ..neural import Net
from ..operators.spectrum import spectral_dimension
from ..selection import smallest_time
from .record import Effort, Finding, Picture, ResultTable, Value, assertion, measurement

SOURCE = "Sara Dorado Alfaro, Low-Rank Approximation and Diffusion Maps, master's thesis, UAM Madrid, 2018"
SHARES = tuple(np.arange(1, 10) / 10)  # shares of the training rows that are landmarks
REPEATS = 10
SPECTRUM = 30  # number of eigenvalues computed for a spectrum
RANK = 20  # number of coordinates on which extensions are compared
TIMES = (1, 4, 16, 40, 100)
DRAWS = 3  # random splits of the rows on which extensions are compared
ETA = 10.0  # weight of the eigenvector term in the second network
ITERATIONS = 500  # of L-BFGS, for networks with `RANK` outputs
WAYS: dict[str, Any] = {  # extensions that are compared
    "Nystrom": "nystrom",
    "least squares, training degrees": LeastSquares("training"),
    "least squares, joint degrees": LeastSquares("joint"),
    "geometric harmonics": GeometricHarmonics(),
    "kernel ridge": KernelRidge(),
    "Laplacian pyramid": LaplacianPyramid(),
}
FIGURES = ["reconstruction error", "aligned error, % of the spread", "aligned error, the thesis's coordinates"]


@dataclass(frozen=True)
class Study:
    """A data set with the settings that the thesis chooses."""

    X: Array
    colors: Array
    percentile: float
    t: float
    dimension: int
    test_rows: int
    labels: Array | None = None  # classes by which splits are stratified
    alpha: float = (
        1e-4  # weight decay of networks as scikit-learn defines it: the best value in ``outfold reproduce grids``
    )

    @cached_property
    def whole(self) -> DiffusionMaps:
        """The fit of all rows: all other fits have its bandwidth and are compared with its embedding."""
        return self.maps(self.dimension).fit(self.X)

    def maps(self, components: int, *, percentile: float | None = None, **changed: Any) -> DiffusionMaps:
        """Return the thesis's diffusion maps, not fitted: all pairs, alpha = 1, sigma a percentile of the distances."""
        rule = Percentile(self.percentile if percentile is None else percentile)
        settings: dict[str, Any] = {"epsilon": rule, "t": self.t, "alpha": 1.0, "n_neighbors": None, **changed}
        return DiffusionMaps(components, **settings)

    def split(self, test_rows: int, seed: int) -> tuple[Array, Array]:
        """Return the numbers of the rows to fit, and of the rows to extend to."""
        index = np.arange(len(self.X))
        train, test = train_test_split(index, test_size=test_rows, stratify=self.labels, random_state=seed)
        return train, test


# -- spectra -------------------------------------------------------------------------------


def spectra(study: Study, percentiles: Sequence[float]) -> tuple[ResultTable, Picture]:
    """Return a table of s(0.1, t) for several percentiles and times, and a picture of the decay of eigenvalues."""
    rows: list[list[Value]] = []
    for percentile in percentiles:
        maps = study.maps(SPECTRUM, percentile=percentile, t=1).fit(study.X)
        kept = (spectral_dimension(maps.eigenvalues_, t=t) for t in TIMES)
        rows.append([percentile, np.sqrt(maps.epsilon_), *(_dimension(found) for found in kept)])
    columns = ["percentile", "sigma", *(f"t = {t:g}" for t in TIMES)]
    figure, (left, right) = plotting.panels(1, 1)
    rules = [Percentile(percentile) for percentile in percentiles]
    plotting.decay(study.X, epsilons=rules, method=study.maps(2, t=1), components=SPECTRUM, axes=left)
    plotting.spectrum(study.maps(SPECTRUM, t=1).fit(study.X), t=TIMES, axes=right)
    caption = (
        "Eigenvalues without the trivial 1: left for several percentiles, right at the thesis's percentile for several "
        "times."
    )
    return ResultTable("Dimension s(0.1, t) by percentile of the distances", columns, rows), Picture(
        "spectra", figure, caption
    )


def _dimension(found: int | None) -> Value:
    return f"> {SPECTRUM - 1}" if found is None else float(found)


def chosen_dimension(study: Study, paper: int, *, why: str = "") -> list[Finding]:
    """Return findings on s(0.1, t) at the thesis's t, and on the smallest t at which it is at most its dimension."""
    eigenvalues = study.maps(SPECTRUM, t=1).fit(study.X).eigenvalues_
    found = spectral_dimension(eigenvalues, t=study.t)
    first = smallest_time(eigenvalues, study.dimension)
    return [
        assertion(f"dimension s(0.1, {study.t:g})", _dimension(found), f"{paper}", found == paper, why),
        measurement(f"first t with s(0.1, t) <= {study.dimension}", first),
    ]


# -- the extension -------------------------------------------------------------------------


@dataclass(frozen=True)
class Extended:
    """A fit of some rows, and the errors of its extension to others."""

    model: DiffusionMaps
    train: Array  # numbers of the rows fitted
    test: Array  # numbers of the rows extended to
    reconstruction: float  # |C - B A^-1 B'|_F
    aligned: float  # root mean squared difference from the fit of all after alignment, relative to its deviation


def extend(study: Study, train: Array, test: Array, **changed: Any) -> Extended:
    """Fit ``train``, extend to ``test``, and measure both of the thesis's errors.

    The bandwidth is that of the whole data set, and rows are compared with its embedding. Degrees are sums over
    landmarks and test rows together, since the thesis sums over these rows only.
    """
    model = study.maps(study.dimension, epsilon=study.whole.epsilon_, **changed).fit(study.X[train])
    moving = model.transform(study.X[np.append(train, test)], on_far="keep")
    target = study.whole.embedding_[np.append(train, test)]
    mse = quality.aligned_mse(moving, target, fit_rows=np.arange(len(train)))
    spread = study.whole.embedding_[test].var(axis=0).sum()
    error = quality.reconstruction_error(model, study.X[test], degrees="joint")
    return Extended(model, train, test, error.every, float(np.sqrt(mse / spread)))


def error_curve(study: Study, effort: Effort) -> tuple[ResultTable, Picture, Array, Array]:
    """Return table and picture of both errors against the share of landmarks, and their means over the repeats.

    The means are the reconstruction error and the aligned error, each of shape (shares,).
    """
    repeats = effort.times(REPEATS)
    found = np.empty((repeats, len(SHARES), 2))
    runs = [(repeat, place) for repeat in range(repeats) for place in range(len(SHARES))]
    for repeat, place in effort.walk(runs, "error curve"):
        pool, test = study.split(study.test_rows, effort.seed + repeat)
        order = effort.random(1, repeat).permutation(pool)  # shares are nested, so that curves are smooth
        run = extend(study, order[: round(SHARES[place] * len(pool))], test)
        found[repeat, place] = run.reconstruction, run.aligned
    mean, spread = found.mean(axis=0), found.std(axis=0)
    sizes = [round(share * (len(study.X) - study.test_rows)) for share in SHARES]
    rows = [[size, *both, *wide] for size, both, wide in zip(sizes, mean, spread)]
    table = ResultTable(
        f"Errors on {study.test_rows} test rows against the number of landmarks, mean and deviation of {repeats} draws",
        ["landmarks", "reconstruction", "aligned", "deviation", "deviation, aligned"],
        rows,
    )
    return table, _curve_picture(sizes, mean, spread), mean[:, 0], mean[:, 1]


def _curve_picture(sizes: list[int], mean: Array, spread: Array) -> Picture:
    figure, both = plotting.panels(1, 1)
    titles = ("|C - B A⁻¹ B'|, Frobenius norm", "aligned error / spread")
    for axes, column, title in zip(both, range(2), titles):
        axes.errorbar(
            sizes, mean[:, column], yerr=spread[:, column], marker="o", markersize=4, capsize=3, color="#4477aa"
        )
        axes.set(xlabel="landmarks", title=title, yscale="log")
        axes.grid(alpha=0.25)
    caption = (
        "Left: the thesis's error, how well the kernel between test rows is reconstructed from landmarks. Right: how "
        "far test rows land from where a fit with them would put them. Bars are deviations over draws."
    )
    return Picture("error-curve", figure, caption)


def falls(what: str, curve: Array, claim: str | None) -> Finding:
    """Return a finding on whether an error falls as landmarks are added; ``claim`` is None if the thesis has none."""
    ours = f"{curve[0]:.3g} to {curve[-1]:.3g}"
    rises = int((np.diff(curve) > 0).sum())
    why = f"Rises at {rises} of {len(curve) - 1} steps." if rises else "Falls at every step."
    return measurement(what, ours, why) if claim is None else assertion(what, ours, claim, rises == 0, why)


# -- other extensions, by the thesis's own measure -----------------------------------------


def network(alpha: float, rows: int, outputs: int, *, iterations: int, eigen_penalty: float = 0.0) -> Net:
    """Return the thesis's network: two hidden layers of 100, no early stopping.

    scikit-learn divides its loss by rows and outputs and its alpha by rows: mu = alpha d / N.
    """
    return Net(
        (100, 100),
        weight_decay=alpha * outputs / rows,
        eigen_penalty=eigen_penalty,
        solver="lbfgs",
        max_iter=iterations,
        validation=0.0,
    )


def ways(study: Study, rows: int) -> dict[str, Any]:
    """Return the extensions to compare, with networks if PyTorch is installed."""
    if not find_spec("torch"):
        return dict(WAYS)
    return WAYS | {
        f"network, eta = {eta:g}": network(study.alpha, rows, RANK, iterations=ITERATIONS, eigen_penalty=eta)
        for eta in (0.0, ETA)
    }


def other_extensions(study: Study, effort: Effort) -> ResultTable:
    """Return reconstruction and aligned errors of several extensions from one half of the rows to the other.

    The thesis does not do this: phi(x) = sqrt(d(x) / sum d) lambda^-t Psi(x) turns any extension of the embedding into
    one of the eigenvectors, and so into a low-rank kernel.
    """
    draws = range(effort.times(DRAWS))
    half = len(study.X) // 2
    chosen = ways(study, len(study.X) - half)
    truth = {c: _twenty(study, c, study.X) for c in ("diffusion", "canonical")}
    found: dict[str, list[Any]] = {name: [] for name in chosen}
    for draw, name in effort.walk([(draw, name) for draw in draws for name in chosen], "extensions"):
        train, test = study.split(half, effort.seed + draw)
        found[name].append(_errors(study, truth, train, test, chosen[name]))
    rows: list[list[Value]] = []
    for name, runs in found.items():
        pairs = zip(np.mean(runs, axis=0), np.std(runs, axis=0))
        rows.append([name, *(f"{mean:.4g} ± {spread:.2g}" for mean, spread in pairs)])
    title = (
        f"{RANK} coordinates at t = 1 by several extensions, {len(study.X) - half} landmarks, {half} test rows: mean ± "
        f"deviation of {len(draws)} draws. The last column: {study.dimension} of them at t = {study.t:g}."
    )
    if len(chosen) == len(WAYS):
        title += ' Networks are left out, since PyTorch is not installed: pip install "outfold[neural]".'
    return ResultTable(title, ["extension", *FIGURES], rows)


def _twenty(study: Study, coordinates: str, X: Array, extension: Any = "nystrom") -> DiffusionMaps:
    """Fit diffusion maps with ``RANK`` coordinates at t = 1 and the bandwidth of all rows."""
    settings = {"epsilon": study.whole.epsilon_, "coordinates": coordinates, "extension": extension}
    return study.maps(RANK, t=1, **settings).fit(X)


def _errors(study: Study, truth: dict[str, DiffusionMaps], train: Array, test: Array, way: Any) -> list[float]:
    """Return the reconstruction error, and aligned errors (%) of all coordinates and of those the thesis has.

    Aligned errors are relative to the deviation. Least squares (Wang) are in canonical coordinates, and are compared
    with the canonical coordinates of all rows.
    """
    canonical = isinstance(way, LeastSquares)
    model = _twenty(study, "canonical" if canonical else "diffusion", study.X[train], way)
    whole = truth["canonical" if canonical else "diffusion"]
    new = model.model_.embed(study.X[test], Threads())
    seen, own = model.transform(study.X[train], on_far="keep"), new
    if canonical and way.degrees == "joint":
        assert isinstance(model.model_, ExtendedModel)
        joint = model.model_.extension
        seen = joint.training(study.X[train], study.X[test], Threads())
        own = joint.spectral.embed(study.X[test], Threads())  # joint degrees are in the reconstruction error already
    elif canonical:  # entries of an eigenvector of length 1 are larger if it has fewer rows
        seen, new = (part * np.sqrt(len(train) / len(study.X)) for part in (seen, new))
    moving, target = np.vstack([seen, new]), np.asarray(whole.embedding_)[np.append(train, test)]
    power = study.t - (0.5 if canonical else 1.0)  # canonical coordinates have lambda^(1/2)
    few = slice(study.dimension)
    there, true = (E[:, few] * fit.eigenvalues_[few] ** power for E, fit in ((moving, model), (target, whole)))
    error = quality.reconstruction_error(model, study.X[test], embedding=own, degrees="joint").error
    return [error, _off(moving, target, len(train)), _off(there, true, len(train))]


def _off(moving: Array, target: Array, seen: int) -> float:
    """Return the aligned error of the rows after the first ``seen``, in % of their deviation."""
    mse = quality.aligned_mse(moving, target, fit_rows=np.arange(seen))
    return 100 * float(np.sqrt(mse / target[seen:].var(axis=0).sum()))


# -- pictures of a labelled table ----------------------------------------------------------


def embedding_picture(study: Study, title: str) -> Picture:
    """Draw the embedding of all rows: three coordinates, and the first two."""
    figure, ((left, right),) = plotting.grid(1, 2, space=(0,), size=(6.4, 4.8))
    plotting.embedding(study.whole, colors=study.colors, axes=left, title=title)
    plotting.embedding(study.whole, colors=study.colors, axes=right)
    return Picture("embedding", figure, "The first three coordinates, and the first two, coloured by class.")


def halves_picture(study: Study, half: Extended) -> Picture:
    """Draw the embedding of the landmarks on the left and of the rows extended to on the right."""
    figure, (left, right) = plotting.panels(1, 1)
    for axes, rows, title in ((left, half.train, "landmarks"), (right, half.test, "rows extended to")):
        places = half.model.transform(study.X[rows], on_far="keep")
        plotting.embedding(places, colors=study.colors[rows], axes=axes, title=f"{len(rows)} {title}")
    return Picture("halves", figure, "Half of the rows as landmarks, and the other half extended to.")


def class_agreement(study: Study, half: Extended) -> tuple[float, float]:
    """Return the share of rows whose nearest landmark in the embedding has their class.

    The first number is for landmarks (a landmark is not its own neighbour), the second for rows extended to.
    """
    seen = half.model.transform(study.X[half.train], on_far="keep")
    new = half.model.transform(study.X[half.test], on_far="keep")
    search = NearestNeighbors(n_neighbors=1).fit(seen)
    own = search.kneighbors(return_distance=False)[:, 0]
    other = search.kneighbors(new, return_distance=False)[:, 0]
    known = study.colors[half.train]
    return float((known[own] == known).mean()), float((known[other] == study.colors[half.test]).mean())


# -- results for wine and vowels -----------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """Results for a data set with classes."""

    half: Extended
    agreement: tuple[float, float]  # result of `class_agreement`: landmarks, rows extended to
    reconstruction: Array  # mean reconstruction error by share of landmarks, (shares,)
    aligned: Array  # mean aligned error by share of landmarks, (shares,)
    pictures: list[Picture]
    tables: list[ResultTable]

    @classmethod
    def of(cls, study: Study, effort: Effort, percentiles: Sequence[float], title: str) -> Labelled:
        table, decay = spectra(study, percentiles)
        train, test = study.split(len(study.X) // 2, effort.seed)
        half = extend(study, train, test)
        curve, drawn, reconstruction, aligned = error_curve(study, effort)
        pictures = [embedding_picture(study, title), decay, halves_picture(study, half), drawn]
        tables = [table, curve, other_extensions(study, effort)]
        return cls(half, class_agreement(study, half), reconstruction, aligned, pictures, tables)

    def findings(self, claim: str, holds: bool, why: str = "") -> list[Finding]:
        """Return findings on class agreement and on the errors of the extension."""
        own, other = self.agreement
        return [
            assertion(
                "same class as the nearest landmark in the embedding, rows extended to (landmarks)",
                f"{other:.3f} ({own:.3f})",
                claim,
                holds,
                why,
            ),
            measurement("reconstruction error, half and half", self.half.reconstruction),
            measurement("the same rows, aligned error in % of the spread", 100 * self.half.aligned),
            falls("aligned error, fewest to most landmarks", self.aligned, None),
        ]
