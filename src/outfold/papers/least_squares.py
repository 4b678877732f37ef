"""Extension by least squares: the experiments of Wang (2019), with errors as numbers where the paper shows pictures."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from .. import DiffusionMaps, plotting
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..datasets import clusters_3d, punched_sphere, s_curve, swiss_roll
from ..engine.model import SpectralModel
from ..exceptions import OutfoldWarning
from ..extensions.alignment import Alignment
from ..extensions.least_squares import JointModel
from .record import Effort, Experiment, Finding, Outcome, Picture, ResultTable, measurement, relative_error

ROWS, NEIGHBORS, REPEATS = 2048, 25, 5
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5)  # shares of training rows
KERNELS = {"graph Laplacian": 0, "Laplace-Beltrami": 1}  # alpha
SETS: dict[str, tuple[Callable[..., tuple[Array, Array]], float]] = {  # generator, epsilon
    "S-curve": (s_curve, 0.5),
    "Swiss roll": (swiss_roll, np.inf),
    "punched sphere": (punched_sphere, 0.5),
    "3-D clusters": (clusters_3d, 0.5),
}
WAYS = {
    "Nystrom": "Nystrom, ratios",
    "training": "least squares, training degrees",
    "joint": "least squares, joint degrees",
}
PICTURED = "Laplace-Beltrami", 0.5  # kernel and share in the picture
SATISFACTORY, ACCEPTABLE = 10, 20  # errors in percent of the deviation, our reading of the paper's words
VIEWS = {"S-curve": (0.4, 0.25), "Swiss roll": (0.35, 0.3), "punched sphere": (0.4, 0.5), "3-D clusters": (0.6, 0.35)}


@dataclass(frozen=True)
class Drawn:
    """One draw of a data set for the picture: rows, colours and, by way, training rows, test rows, targets, error."""

    X: Array
    colour: Array
    ways: dict[str, tuple[Array, Array, Array, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Errors:
    """Errors of the extension, coordinates to draw, and the fits whose graph was disconnected."""

    # percent, by (data set, share, kernel, way)
    errors: dict[tuple[str, float, str, str], list[float]] = field(default_factory=dict)
    drawn: dict[str, Drawn] = field(default_factory=dict)  # by data set
    apart: list[str] = field(default_factory=list)  # the data set of each fit whose graph was disconnected

    def median(self, name: str, share: float, kernel: str, way: str) -> float:
        return float(np.median(self.errors[name, share, kernel, way]))

    def curves(self, way: str) -> Array:
        """Return the median errors of all data sets and kernels, (sets x kernels, shares)."""
        cases = itertools.product(SETS, KERNELS)
        return np.array([[self.median(name, share, kernel, way) for share in SHARES] for name, kernel in cases])


def places(kernel: str, epsilon: float, train: Array, test: Array) -> Iterator[tuple[str, Array, Array, DiffusionMaps]]:
    """Yield (way, coordinates of the training rows, extended coordinates of the test rows, fit) for each way."""
    for way, coordinates, t in (("Nystrom", "diffusion", 0.5), ("training", "canonical", 1)):
        maps = DiffusionMaps(2, epsilon=epsilon, alpha=KERNELS[kernel], t=t, n_neighbors=NEIGHBORS)
        with warnings.catch_warnings(action="ignore", category=OutfoldWarning):  # the paper cuts a wide kernel
            model = maps.set_params(coordinates=coordinates).fit(train)
        yield way, model.embedding_, model.transform(test) if len(test) else test[:, :2], model
        if way == "training" and len(test):
            assert isinstance(model.model_, SpectralModel)
            joint = JointModel(model.model_)
            yield "joint", joint.training(train, test, Threads()), joint.embed(test, Threads()), model


def align(seen: Array, new: Array, target: Array) -> tuple[Array, Array, float]:
    """Align ``seen`` and ``new`` with the fit of all rows (training rows first).

    Returns both, aligned, and the error of ``new`` in percent.
    """
    onto = Alignment.of(seen, target[: len(seen)])
    return onto(seen), onto(new), 100 * relative_error(onto(new), target[len(seen) :])


def measure(effort: Effort, *, rows: int = ROWS, sets: Iterable[str] = SETS) -> Errors:
    """Fit the training rows, extend to the test rows, and compare with a fit of all rows, for several draws."""
    found = Errors()
    draws = list(itertools.product(sets, range(effort.times(REPEATS))))
    # `Errors.apart` counts disconnected graphs, so that no warning is needed
    with warnings.catch_warnings(action="ignore", category=OutfoldWarning):
        for name, repeat in effort.walk(draws, "least-squares"):
            _measure_draw(found, name, effort.seed + repeat, rows, draw=repeat == 0)
    return found


def _measure_draw(found: Errors, name: str, seed: int, rows: int, *, draw: bool) -> None:
    make, epsilon = SETS[name]
    X, truth = make(rows, random_state=seed)
    order = np.random.default_rng(seed).permutation(rows)
    X, colour = X[order], (truth[:, 0] if truth.ndim == 2 else truth)[order]
    if draw:
        found.drawn[name] = Drawn(X, X[:, 2] if make is punched_sphere else colour)
    for kernel in KERNELS:
        targets = {way: seen for way, seen, _, _ in places(kernel, epsilon, X, X[:0])}
        targets["joint"] = targets["training"]
        for share in SHARES:
            size = round(share * rows)
            for way, seen, new, model in places(kernel, epsilon, X[:size], X[size:]):
                seen, new, off = align(seen, new, targets[way])
                found.errors.setdefault((name, share, kernel, way), []).append(off)
                if way == "training" and model.report_.components > 1:
                    found.apart.append(name)
                if draw and (kernel, share) == PICTURED:
                    found.drawn[name].ways[way] = seen, new, targets[way][size:], off


def ratio_gap(seed: int, rows: int = ROWS) -> float:
    """Return how far least squares are from Nystrom in ratio coordinates: the largest sine of the angle between rows.

    Canonical coordinates are phi_k = phi_0 sqrt(lambda_k) psi_k whatever the degrees: a row of them is a multiple of
    that row of the diffusion coordinates at t = 1/2.
    """
    X = s_curve(rows, random_state=seed)[0]
    new = {way: extended for way, _, extended, _ in places("graph Laplacian", 0.5, X[: rows // 2], X[rows // 2 :])}
    gaps = []
    for way in ("training", "joint"):
        across = new[way][:, 0] * new["Nystrom"][:, 1] - new[way][:, 1] * new["Nystrom"][:, 0]
        size = np.linalg.norm(new[way], axis=1) * np.linalg.norm(new["Nystrom"], axis=1)
        gaps.append(np.abs(np.where(size > 0, across / size, 0)).max())
    return float(max(gaps))


@dataclass(frozen=True)
class Misprints:
    """Checks of two formulas of the paper, as printed and as corrected: degrees, and moved training rows."""

    top_printed: float  # top eigenvalue with the printed degrees
    top_right: float  # top eigenvalue with the corrected degrees
    kernel_printed: float  # relative error of inner products against the joint kernel, as printed
    kernel_right: float  # the same, corrected

    @classmethod
    def of(cls, seed: int, rows: int = 600) -> Misprints:
        """Compute both on an S-curve with all pairs; half of the rows are training rows."""
        X = s_curve(rows, random_state=seed)[0]
        W = np.exp(-cdist(X, X, "sqeuclidean"))
        half = rows // 2
        train = W[:half, :half]
        mass, all_mass = train.sum(axis=1), W.sum(axis=1)
        right, printed = np.sqrt(mass * (train @ (1 / mass))), mass * np.sqrt(train @ (1 / mass))
        joint = np.sqrt(all_mass * (W @ (1 / all_mass)))[:half]
        inner, wanted = train / np.outer(right, right), train / np.outer(joint, joint)
        last = (half - 1, half - 1)
        top = (eigh(train / np.outer(d, d), eigvals_only=True, subset_by_index=last)[0] for d in (printed, right))
        off = [
            np.linalg.norm(inner * np.outer(factor, factor) - wanted) / np.linalg.norm(wanted)
            for factor in (joint / right, right / joint)
        ]
        return cls(*map(float, (*top, *off)))

    def findings(self) -> list[Finding]:
        right = "section 3.2: the greatest eigenvalue of the Laplace-Beltrami kernel is 1"
        printed = "a misprint in lines 4 and 11 of algorithm 1: 1 / S_i is missing under the root"
        moved = "inner products of the moved training rows Y D D_X^-1, error against the joint kernel"
        return [
            measurement("top eigenvalue with d_i = sqrt(S_i sum_j w_ij / S_j)", self.top_right).near(
                1.0, within=1e-9, why=right
            ),
            measurement("top eigenvalue with d_i = S_i sqrt(sum_j w_ij / S_j)", self.top_printed).near(
                1.0, within=1e-9, why=printed
            ),
            measurement(moved, self.kernel_right).against("the joint kernel", self.kernel_right < 1e-9),
            measurement("the same with Y D^-1 D_X", self.kernel_printed).against(
                "the joint kernel",
                self.kernel_printed < 1e-9,
                "a misprint in line 15 of algorithm 1: the factors are the wrong way round",
            ),
        ]


def _findings(found: Errors, gap: float) -> list[Finding]:
    joint, training, nystrom = (found.curves(way) for way in ("joint", "training", "Nystrom"))
    first, last = joint[:, 0], joint[:, -1]
    grows = int((last > first).sum())
    steadily = int((np.diff(joint, axis=1) > 0).all(axis=1).sum())
    sharper = sum(
        found.median(name, share, "Laplace-Beltrami", "training")
        < found.median(name, share, "graph Laplacian", "training")
        for name, share in itertools.product(SETS, SHARES)
    )
    words = "the paper compares pictures; the figure is the worst of four sets and two kernels; we read"
    return [
        measurement("90 / 10: error of the extension, % of the spread", first.max()).against(
            "satisfactory", first.max() < SATISFACTORY, f"{words} satisfactory as under {SATISFACTORY} %"
        ),
        measurement("50 / 50: error of the extension, % of the spread", last.max()).against(
            "acceptable", last.max() < ACCEPTABLE, f"{words} acceptable as under {ACCEPTABLE} %"
        ),
        measurement("error grows from 90 / 10 to 50 / 50", f"in {grows} of {len(joint)} cases").against(
            "larger errors with fewer training rows", grows == len(joint), f"at every step in {steadily} of them"
        ),
        measurement(
            "error with joint degrees over Nystrom's, median",
            np.median(joint / nystrom),
            "the paper does not compare with Nystrom. Ratios are better: degrees, and their errors, cancel",
        ),
        measurement("error with training degrees over Nystrom's, median", np.median(training / nystrom)),
        measurement(
            "error with joint degrees over that with training degrees, median",
            np.median(joint / training),
            "the paper's own degrees are the worse: where S' = S (1 + e), they are off by e and the others by e / 2",
        ),
        measurement(
            "least squares and Nystrom in ratio coordinates, largest difference",
            gap,
            "phi_k / phi_0 do not know the degrees: there the two are one formula",
        ),
        measurement(
            "Laplace-Beltrami better than the graph Laplacian",
            f"in {sharper} of {len(SETS) * len(SHARES)} cases",
            "least squares, training degrees; the paper does not say which is better",
        ),
    ]


def _apart(found: Errors) -> Finding:
    """Return a finding on the training graphs that were disconnected, with the names of their data sets."""
    where = ", ".join(sorted(set(found.apart)))
    why = f"{where}: all rows of a bridge may be test rows; contrasts of the parts become coordinates then"
    fits = sum(map(len, found.errors.values())) // len(WAYS)
    return measurement("training graphs that fell apart", f"{len(found.apart)} of {fits}", why if where else "")


def table(found: Errors) -> ResultTable:
    """Return the table of median errors in percent."""
    columns = ["data", "train / test", *(f"{way}, {kernel}" for kernel in KERNELS for way in WAYS)]
    rows = [
        [name, f"{100 * share:.0f} / {100 - 100 * share:.0f}"]
        + [f"{found.median(name, share, kernel, way):.1f}" for kernel in KERNELS for way in WAYS]
        for name, share in itertools.product(SETS, SHARES)
    ]
    return ResultTable("Extended against fitted: error in percent of the spread", columns, rows)


def picture(found: Errors) -> Picture:
    """Draw the data and, for each way, the test rows with lines to their coordinates in the fit of all rows."""
    figure, grid = plotting.grid(len(found.drawn), 1 + len(WAYS), size=(3.3, 3.1))
    for row, (name, drawn) in zip(grid, found.drawn.items()):
        across, up, depth = _project(drawn.X, *VIEWS[name])
        near = np.argsort(depth)
        row[0].scatter(across[near], up[near], s=5, c=drawn.colour[near], cmap="turbo", linewidths=0)
        row[0].set_ylabel(name)
        for axes, way in zip(row[1:], WAYS):
            seen, new, true, off = drawn.ways[way]
            axes.scatter(*seen.T, s=5, c="#b8bec6", linewidths=0, zorder=1)
            ends = np.stack([new, true, np.full_like(new, np.nan)], axis=1).reshape(-1, 2)
            axes.plot(*ends.T, color="#222222", linewidth=0.5, zorder=2)
            axes.scatter(*new.T, s=7, c=drawn.colour[len(seen) :], cmap="turbo", linewidths=0, zorder=3)
            axes.text(0.03, 0.97, f"{off:.1f} %", transform=axes.transAxes, va="top")
    for axes, title in zip(grid[0], ("data", *WAYS.values())):
        axes.set_title(title)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.set_aspect("equal", adjustable="datalim")
        axes.spines[:].set(visible=True, color="#d0d4da")
    caption = (
        "Half of the rows fitted (grey), the others extended (coloured); lines lead to where the fit of all rows has "
        "them. Laplace-Beltrami; the error of the drawn rows in percent of their spread."
    )
    return Picture("least-squares", figure, caption)


def _project(X: Array, turn: float, tilt: float) -> tuple[Array, Array, Array]:
    """Return an orthographic view of points in space: across, up, and depth."""
    x, y, z = (X - X.mean(axis=0)).T
    across, away = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    return across, np.cos(tilt) * z + np.sin(tilt) * away, -np.cos(tilt) * away + np.sin(tilt) * z


def run(effort: Effort) -> Outcome:
    found = measure(effort)
    misprints = Misprints.of(effort.seed).findings()
    findings = [*_findings(found, ratio_gap(effort.seed)), *misprints, _apart(found)]
    return Outcome(findings, [picture(found)], [table(found)])


EXPERIMENT = Experiment(
    name="least-squares",
    title="Extension by least squares",
    source="Wang (2019), Least square approach to out-of-sample extensions of diffusion maps, section 4",
    settings="2048 rows, 25 nearest neighbours (union), two coordinates; the paper's epsilon = 1 is 0.5 here, its "
    "infinity for the Swiss roll the binary graph. Fit the training rows, extend to the test rows, bring the training "
    "rows onto those of a fit of all rows by a similarity: root mean squared distance of the test rows from theirs, in "
    "percent of their spread. Median of five draws (the paper shows one). Nystrom: diffusion coordinates at t = 1/2, "
    "which are the ratios phi_k / phi_0; training and joint: canonical coordinates with degrees of the training rows "
    "or of both.",
    run=run,
)
