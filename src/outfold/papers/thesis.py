"""Experiments on each data set of Dorado's thesis: spectra, extension from one half to the other, the error curve."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from .. import DiffusionMaps, plotting, quality
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..bandwidths import Percentile
from ..engine.model import ExtendedModel
from ..exceptions import OutfoldWarning
from ..extensions import GeometricHarmonics, KernelRidge, LaplacianPyramid, LeastSquares
from ..extensions.least_squares import JointModel
from ..extensions.samples import Extension
from ..neural import Net, Training
from ..operators.spectrum import spectral_dimension
from ..selection import smallest_time
from .record import BARS, Effort, Experiment, Finding, Outcome, Picture, ResultTable, has_torch, measurement, plus_minus

SOURCE = "Sara Dorado Alfaro, Low-Rank Approximation and Diffusion Maps, master's thesis, UAM Madrid, 2018"
SHARES = tuple(np.arange(1, 10) / 10)  # shares of the training rows that are landmarks
REPEATS = 10
SPECTRUM = 30  # number of eigenvalues computed for a spectrum
RANK = 20  # number of coordinates on which extensions are compared
TIMES = (1, 4, 16, 40, 100)
DRAWS = 3  # random splits of the rows on which extensions are compared
ETA = 10.0  # weight of the eigenvector term in the second network
ITERATIONS = 500  # of L-BFGS, for networks with `RANK` outputs
WAYS: dict[str, str | Extension] = {  # extensions that are compared
    "Nystrom": "nystrom",
    "least squares, training degrees": LeastSquares("training"),
    "least squares, joint degrees": LeastSquares("joint"),
    "geometric harmonics": GeometricHarmonics(),
    "kernel ridge": KernelRidge(),
    "Laplacian pyramid": LaplacianPyramid(),
}


@dataclass(frozen=True, kw_only=True)
class Study:
    """A data set with the settings that the thesis chooses."""

    X: Array
    colors: Array
    percentile: float
    t: float
    dimension: int
    test_rows: int
    labels: Array | None = None  # classes by which splits are stratified
    alpha: float = 1e-4  # scikit-learn's weight decay of networks: the best value in ``outfold reproduce grids``

    @cached_property
    def whole(self) -> DiffusionMaps:
        """The fit of all rows: all other fits have its bandwidth and are compared with its embedding."""
        return self.maps(self.dimension).fit(self.X)

    def maps(
        self,
        components: int,
        *,
        percentile: float | None = None,
        epsilon: float | None = None,
        t: float | None = None,
        coordinates: str = "diffusion",
        extension: str | Extension = "nystrom",
    ) -> DiffusionMaps:
        """Return the thesis's diffusion maps, not fitted: all pairs, alpha = 1, sigma a percentile of the distances."""
        return DiffusionMaps(
            components,
            epsilon=Percentile(self.percentile if percentile is None else percentile) if epsilon is None else epsilon,
            t=self.t if t is None else t,
            alpha=1.0,
            n_neighbors=None,
            coordinates=coordinates,
            extension=extension,
        )

    def split(self, test_rows: int, seed: int) -> tuple[Array, Array]:
        """Return the numbers of the rows to fit, and of the rows to extend to."""
        index = np.arange(len(self.X))
        train, test = train_test_split(index, test_size=test_rows, stratify=self.labels, random_state=seed)
        return train, test


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set of the thesis: a row of the table in ``grids``, and an experiment that `run` runs."""

    name: str
    title: str
    settings: str
    study: Callable[[int], Study]  # of a seed
    percentiles: Sequence[float]  # of the distances, for which spectra are computed
    mu: float  # the weight decay that the thesis chooses for its network
    report: Callable[[Results, Effort], Outcome]  # what is claimed, drawn and printed

    def run(self, effort: Effort) -> Outcome:
        return self.report(Results(self.study(effort.seed), effort, self.percentiles), effort)

    @property
    def experiment(self) -> Experiment:
        return Experiment(name=self.name, title=self.title, source=SOURCE, settings=self.settings, run=self.run)


class Results:
    """What is measured on each data set: spectra, an extension from one half to the other, the error curve."""

    def __init__(self, study: Study, effort: Effort, percentiles: Sequence[float]) -> None:
        self.study = study
        self.spectra, self.decay = spectra(study, percentiles)
        self.half = extend(study, *study.split(len(study.X) // 2, effort.seed))
        self.curve, self.curve_picture, self.reconstruction, self.aligned = error_curve(study, effort)
        self.others = other_extensions(study, effort)

    def classes(self, title: str) -> tuple[list[Picture], tuple[float, float]]:
        """Return pictures of a data set with classes, and the share of rows whose nearest landmark has their class.

        The first share is for landmarks (a landmark is not its own neighbour), the second for rows extended to.
        """
        colors, half = self.study.colors, self.half
        figure, ((left, right),) = plotting.grid(1, 2, space=(0,), size=(6.4, 4.8))
        plotting.embedding(self.study.whole, colors=colors, axes=left, title=title)
        plotting.embedding(self.study.whole, colors=colors, axes=right)
        caption = "The first three coordinates, and the first two, coloured by class."
        seen, new = (half.model.transform(self.study.X[rows], on_far="keep") for rows in (half.train, half.test))
        halves = Picture.row(
            "halves",
            "Half of the rows as landmarks, and the other half extended to.",
            {
                f"{len(seen)} landmarks": (seen, colors[half.train]),
                f"{len(new)} rows extended to": (new, colors[half.test]),
            },
        )
        search = NearestNeighbors(n_neighbors=1).fit(seen)
        own, other = (search.kneighbors(rows, return_distance=False)[:, 0] for rows in (None, new))
        known = colors[half.train]
        shares = float((known[own] == known).mean()), float((known[other] == colors[half.test]).mean())
        return [Picture("embedding", figure, caption), self.decay, halves, self.curve_picture], shares

    def errors(self) -> list[Finding]:
        """Return findings on the errors of the extension."""
        return [
            measurement("reconstruction error, half and half", self.half.reconstruction),
            measurement("the same rows, aligned error in % of the spread", 100 * self.half.aligned),
            falls("aligned error, fewest to most landmarks", self.aligned, None),
        ]


# -- spectra -------------------------------------------------------------------------------


def spectra(study: Study, percentiles: Sequence[float]) -> tuple[ResultTable, Picture]:
    """Return a table of s(0.1, t) for several percentiles and times, and a picture of the decay of eigenvalues."""
    rows: list[list[float | str]] = []
    for percentile in percentiles:
        with warnings.catch_warnings(action="ignore", category=OutfoldWarning):  # the thesis looks at wide kernels too
            maps = study.maps(SPECTRUM, percentile=percentile, t=1).fit(study.X)
        kept = (spectral_dimension(maps.eigenvalues_, t=t) for t in TIMES)
        rows.append([percentile, np.sqrt(maps.epsilon_), *map(describe_dimension, kept)])
    figure, (left, right) = plotting.panels(1, 1)
    rules = [Percentile(percentile) for percentile in percentiles]
    plotting.decay(study.X, epsilons=rules, method=study.maps(2, t=1), components=SPECTRUM, axes=left)
    plotting.spectrum(study.maps(SPECTRUM, t=1).fit(study.X), t=TIMES, axes=right)
    caption = (
        "Eigenvalues without the trivial 1: left for several percentiles, right at the thesis's percentile for several "
        "times."
    )
    columns = ["percentile", "sigma", *(f"t = {t:g}" for t in TIMES)]
    table = ResultTable("Dimension s(0.1, t) by percentile of the distances", columns, rows)
    return table, Picture("spectra", figure, caption)


def describe_dimension(found: int | None) -> float | str:
    return f"> {SPECTRUM - 1}" if found is None else float(found)


def chosen_dimension(study: Study, paper: int, *, why: str = "") -> list[Finding]:
    """Return findings on s(0.1, t) at the thesis's t, and on the smallest t at which it is at most its dimension."""
    eigenvalues = study.maps(SPECTRUM, t=1).fit(study.X).eigenvalues_
    found = spectral_dimension(eigenvalues, t=study.t)
    ours = measurement(f"dimension s(0.1, {study.t:g})", describe_dimension(found))
    first = smallest_time(eigenvalues, study.dimension)
    return [
        ours.against(f"{paper}", found == paper, why),
        measurement(f"first t with s(0.1, t) <= {study.dimension}", first),
    ]


# -- the extension -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A fit of some rows, and the errors of its extension to others."""

    model: DiffusionMaps
    train: Array  # numbers of the rows fitted
    test: Array  # numbers of the rows extended to
    reconstruction: float  # |C - B A^-1 B'|_F
    aligned: float  # root mean squared difference from the fit of all after alignment, relative to its deviation


def extend(study: Study, train: Array, test: Array, extension: str | Extension = "nystrom") -> Extended:
    """Fit ``train``, extend to ``test``, and measure both of the thesis's errors.

    The bandwidth is that of the whole data set, and rows are compared with its embedding. Degrees are sums over
    landmarks and test rows together, since the thesis sums over these rows only.
    """
    model = study.maps(study.dimension, epsilon=study.whole.epsilon_, extension=extension).fit(study.X[train])
    rows = np.append(train, test)
    moving = model.transform(study.X[rows], on_far="keep")
    aligned = _aligned_error(moving, study.whole.embedding_[rows], len(train))
    error = quality.reconstruction_error(model, study.X[test], degrees="joint")
    return Extended(model=model, train=train, test=test, reconstruction=error.every, aligned=aligned)


def _aligned_error(moving: Array, target: Array, seen: int) -> float:
    """Return the aligned error of the rows after the first ``seen``, relative to their deviation."""
    mse = quality.aligned_mse(moving, target, fit_rows=np.arange(seen))
    return float(np.sqrt(mse / target[seen:].var(axis=0).sum()))


def error_curve(study: Study, effort: Effort) -> tuple[ResultTable, Picture, Array, Array]:
    """Return table and picture of both errors against the share of landmarks, and their means over the repeats.

    The means are the reconstruction error and the aligned error, each of shape (shares,).
    """
    repeats = effort.times(REPEATS)
    found = np.empty((repeats, len(SHARES), 2))
    for repeat, place in effort.walk(np.ndindex(repeats, len(SHARES)), "error curve"):
        pool, test = study.split(study.test_rows, effort.seed + repeat)
        order = effort.random(1, repeat).permutation(pool)  # shares are nested, so that curves are smooth
        run = extend(study, order[: round(SHARES[place] * len(pool))], test)
        found[repeat, place] = run.reconstruction, run.aligned
    mean, spread = found.mean(axis=0), found.std(axis=0)
    sizes = [round(share * (len(study.X) - study.test_rows)) for share in SHARES]
    table = ResultTable(
        f"Errors on {study.test_rows} test rows against the number of landmarks, mean and deviation of {repeats} draws",
        ["landmarks", "reconstruction", "aligned", "deviation", "deviation, aligned"],
        [[size, *both, *wide] for size, both, wide in zip(sizes, mean, spread)],
    )
    figure, both = plotting.panels(1, 1)
    for axes, column, title in zip(both, range(2), ("|C - B A⁻¹ B'|, Frobenius norm", "aligned error / spread")):
        axes.errorbar(sizes, mean[:, column], yerr=spread[:, column], **BARS)
        axes.set(xlabel="landmarks", title=title, yscale="log")
        axes.grid(alpha=0.25)
    caption = (
        "Left: the thesis's error, how well the kernel between test rows is reconstructed from landmarks. Right: how "
        "far test rows land from where a fit with them would put them. Bars are deviations over draws."
    )
    return table, Picture("error-curve", figure, caption), mean[:, 0], mean[:, 1]


def falls(what: str, curve: Array, claim: str | None) -> Finding:
    """Return a finding on whether an error falls as landmarks are added; ``claim`` is None if the thesis has none."""
    rises = int((np.diff(curve) > 0).sum())
    why = f"Rises at {rises} of {len(curve) - 1} steps." if rises else "Falls at every step."
    found = measurement(what, f"{curve[0]:.3g} to {curve[-1]:.3g}", why)
    return found if claim is None else found.against(claim, rises == 0, why)


# -- other extensions, by the thesis's own measure -----------------------------------------


def network(alpha: float, rows: int, outputs: int, *, iterations: int, eigen_penalty: float = 0.0) -> Net:
    """Return the thesis's network: two hidden layers of 100, no early stopping.

    scikit-learn divides its loss by rows and outputs and its alpha by rows: mu = alpha d / N.
    """
    decay = alpha * outputs / rows
    return Net(
        (100, 100),
        weight_decay=decay,
        eigen_penalty=eigen_penalty,
        solver="lbfgs",
        max_iter=iterations,
        training=Training(validation=0.0),
    )


def other_extensions(study: Study, effort: Effort) -> ResultTable:
    """Return reconstruction and aligned errors of several extensions from one half of the rows to the other.

    The thesis does not do this: phi(x) = sqrt(d(x) / sum d) lambda^-t Psi(x) turns any extension of the embedding into
    one of the eigenvectors, and so into a low-rank kernel.
    """
    draws, half = range(effort.times(DRAWS)), len(study.X) // 2
    rows = len(study.X) - half
    chosen = dict(WAYS)
    title = (
        f"{RANK} coordinates at t = 1 by several extensions, {rows} landmarks, {half} test rows: mean ± deviation of "
        f"{len(draws)} draws. The last column: {study.dimension} of them at t = {study.t:g}."
    )
    if has_torch():
        for eta in (0.0, ETA):
            net = network(study.alpha, rows, RANK, iterations=ITERATIONS, eigen_penalty=eta)
            chosen[f"network, eta = {eta:g}"] = net
    else:
        title += ' Networks are left out, since PyTorch is not installed: pip install "outfold[neural]".'
    truth = {c: _twenty(study, c, study.X) for c in ("diffusion", "canonical")}
    found: dict[str, list[list[float]]] = {name: [] for name in chosen}
    for draw, name in effort.walk([(draw, name) for draw in draws for name in chosen], "extensions"):
        found[name].append(_errors(study, truth, *study.split(half, effort.seed + draw), chosen[name]))
    figures = ["reconstruction error", "aligned error, % of the spread", "aligned error, the thesis's coordinates"]
    return ResultTable(
        title, ["extension", *figures], [[name, *plus_minus(runs, ".4g", ".2g")] for name, runs in found.items()]
    )


def _twenty(study: Study, coordinates: str, X: Array, extension: str | Extension = "nystrom") -> DiffusionMaps:
    """Fit diffusion maps with ``RANK`` coordinates at t = 1 and the bandwidth of all rows."""
    epsilon = study.whole.epsilon_
    return study.maps(RANK, t=1, epsilon=epsilon, coordinates=coordinates, extension=extension).fit(X)


def _errors(
    study: Study, truth: dict[str, DiffusionMaps], train: Array, test: Array, way: str | Extension
) -> list[float]:
    """Return the reconstruction error, and aligned errors (%) of all coordinates and of those the thesis has.

    Aligned errors are relative to the deviation. Least squares (Wang) are in canonical coordinates, and are compared
    with the canonical coordinates of all rows.
    """
    canonical = isinstance(way, LeastSquares)
    coordinates = "canonical" if canonical else "diffusion"
    model, whole = _twenty(study, coordinates, study.X[train], way), truth[coordinates]
    new = model.model_.embed(study.X[test], Threads())
    seen, own = model.transform(study.X[train], on_far="keep"), new
    if isinstance(way, LeastSquares) and way.degrees == "joint":
        assert isinstance(model.model_, ExtendedModel)
        joint = model.model_.extension
        assert isinstance(joint, JointModel)
        seen = joint.training(study.X[train], study.X[test], Threads())
        own = joint.spectral.embed(study.X[test], Threads())  # joint degrees are in the reconstruction error already
    elif canonical:  # entries of an eigenvector of length 1 are larger if it has fewer rows
        seen, new = (part * np.sqrt(len(train) / len(study.X)) for part in (seen, new))
    moving, target = np.vstack([seen, new]), np.asarray(whole.embedding_)[np.append(train, test)]
    power = study.t - (0.5 if canonical else 1.0)  # canonical coordinates have lambda^(1/2)
    few = slice(study.dimension)
    there, true = (E[:, few] * fit.eigenvalues_[few] ** power for E, fit in ((moving, model), (target, whole)))
    error = quality.reconstruction_error(model, study.X[test], embedding=own, degrees="joint").error
    return [error, *(100 * _aligned_error(E, F, len(train)) for E, F in ((moving, target), (there, true)))]
