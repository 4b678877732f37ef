"""Extension by least squares: the experiments of Wang (2019), with errors as numbers where the paper shows pictures."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from .. import DiffusionMaps, plotting
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..datasets import clusters_3d, punched_sphere, s_curve, swiss_roll
from ..exceptions import OutfoldWarning
from ..extensions.alignment import Alignment
from ..extensions.least_squares import JointModel
from .record import Effort, Experiment, Finding, Outcome, Picture, ResultTable, assertion, comparison, measurement

ROWS, NEIGHBORS, REPEATS = 2048, 25, 5
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5)  # shares of training rows
KERNELS = {"graph Laplacian": 0, "Laplace-Beltrami": 1}  # alpha
SETS: dict[str, tuple[Any, float]] = {  # generator, epsilon
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


# -- measurements --------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Errors of the extension, coordinates to draw, and the fits whose graph was disconnected."""

    # percent, by (data set, share, kernel, way)
    errors: dict[tuple[str, float, str, str], list[float]] = field(default_factory=dict)
    drawn: dict[str, dict[str, Any]] = field(default_factory=dict)  # by data set: the data, and coordinates by way
    apart: list[str] = field(default_factory=list)  # the data set of each fit whose graph was disconnected

    def median(self, *key: Any) -> float:
        return float(np.median(self.errors[key]))

    def curve(self, name: str, kernel: str, way: str) -> Array:
        """Return the median error at each share, (shares,)."""
        return np.array([self.median(name, share, kernel, way) for share in SHARES])

    def curves(self, way: str) -> Array:
        """Return the median errors of all data sets and kernels, (sets x kernels, shares)."""
        return np.array([self.curve(name, kernel, way) for name in SETS for kernel in KERNELS])


def places(kernel: str, epsilon: float, train: Array, test: Array) -> Iterator[tuple[str, Array, Array, Any]]:
    """Yield (way, coordinates of the training rows, extended coordinates of the test rows, fit) for each way."""
    for coordinates, t in (("diffusion", 0.5), ("canonical", 1)):
        maps = DiffusionMaps(2, epsilon=epsilon, alpha=KERNELS[kernel], t=t, n_neighbors=NEIGHBORS)
        model = maps.set_params(coordinates=coordinates).fit(train)
        way = "Nystrom" if coordinates == "diffusion" else "training"
        yield way, model.embedding_, model.transform(test) if len(test) else test[:, :2], model
        if way == "training" and len(test):
            joint = JointModel(model.model_)
            yield "joint", joint.training(train, test, Threads()), joint.embed(test, Threads()), model


def align(seen: Array, new: Array, target: Array) -> tuple[Array, Array, float]:
    """Align ``seen`` and ``new`` with the fit of all rows (training rows first).

    Returns both, aligned, and the error of ``new`` in percent.
    """
    onto = Alignment.of(seen, target[: len(seen)])
    seen, new, true = onto(seen), onto(new), target[len(seen) :]
    off = np.sqrt(((new - true) ** 2).sum() / ((true - true.mean(axis=0)) ** 2).sum())
    return seen, new, 100 * float(off)


def measure(effort: Effort, *, rows: int = ROWS, sets: Any = SETS) -> Errors:
    """Fit the training rows, extend to the test rows, and compare with a fit of all rows, for several draws."""
    found = Errors()
    draws = list(itertools.product(sets, range(effort.times(REPEATS))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutfoldWarning)  # `Errors.apart` counts disconnected graphs instead
        for name, repeat in effort.walk(draws, "least-squares"):
            _measure_draw(found, name, effort.seed + repeat, rows, draw=repeat == 0)
    return found


def _measure_draw(found: Errors, name: str, seed: int, rows: int, *, draw: bool) -> None:
    make, epsilon = SETS[name]
    X, truth = make(rows, random_state=seed)
    order = np.random.default_rng(seed).permutation(rows)
    X, colour = X[order], (truth[:, 0] if truth.ndim == 2 else truth)[order]
    if draw:
        found.drawn[name] = {"data": (X, X[:, 2] if make is punched_sphere else colour)}
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
                    found.drawn[name][way] = seen, new, targets[way][size:], off


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
        train = W[: rows // 2, : rows // 2]
        mass, all_mass = train.sum(axis=1), W.sum(axis=1)
        right, printed = np.sqrt(mass * (train @ (1 / mass))), mass * np.sqrt(train @ (1 / mass))
        joint = np.sqrt(all_mass * (W @ (1 / all_mass)))[: rows // 2]
        inner, wanted = train / np.outer(right, right), train / np.outer(joint, joint)
        off = [
            np.linalg.norm(inner * np.outer(factor, factor) - wanted) / np.linalg.norm(wanted)
            for factor in (joint / right, right / joint)
        ]
        return cls(_top(train, printed), _top(train, right), float(off[0]), float(off[1]))


def _top(W: Array, degrees: Array) -> float:
    n = len(W)
    return float(eigh(W / np.outer(degrees, degrees), eigvals_only=True, subset_by_index=(n - 1, n - 1))[0])


# -- findings ------------------------------------------------------------------------------


def _findings(found: Errors, misprints: Misprints, gap: float) -> list[Finding]:
    joint = found.curves("joint")
    grows = int((joint[:, -1] > joint[:, 0]).sum())
    steadily = int((np.diff(joint, axis=1) > 0).all(axis=1).sum())
    words = "the paper compares pictures; the figure is the worst of four sets and two kernels"
    return [
        assertion(
            "90 / 10: error of the extension, % of the spread",
            joint[:, 0].max(),
            "satisfactory",
            joint[:, 0].max() < SATISFACTORY,
            f"{words}; we read satisfactory as under {SATISFACTORY} %",
        ),
        assertion(
            "50 / 50: error of the extension, % of the spread",
            joint[:, -1].max(),
            "acceptable",
            joint[:, -1].max() < ACCEPTABLE,
            f"{words}; we read acceptable as under {ACCEPTABLE} %",
        ),
        assertion(
            "error grows from 90 / 10 to 50 / 50",
            f"in {grows} of {len(joint)} cases",
            "larger errors with fewer training rows",
            grows == len(joint),
            f"at every step in {steadily} of them",
        ),
        *_compared_ways(found, gap),
        *_misprint_findings(misprints),
        measurement(
            "training graphs that fell apart",
            f"{len(found.apart)} of {sum(map(len, found.errors.values())) // len(WAYS)}",
            _apart(found.apart),
        ),
    ]


def _compared_ways(found: Errors, gap: float) -> list[Finding]:
    joint, training, nystrom = (found.curves(way) for way in ("joint", "training", "Nystrom"))
    sharper = sum(
        found.median(name, share, "Laplace-Beltrami", "training")
        < found.median(name, share, "graph Laplacian", "training")
        for name in SETS
        for share in SHARES
    )
    return [
        measurement(
            "error with joint degrees over Nystrom's, median",
            float(np.median(joint / nystrom)),
            "the paper does not compare with Nystrom. Ratios are better: degrees, and their errors, cancel",
        ),
        measurement("error with training degrees over Nystrom's, median", float(np.median(training / nystrom))),
        measurement(
            "error with joint degrees over that with training degrees, median",
            float(np.median(joint / training)),
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


def _apart(names: list[str]) -> str:
    if not names:
        return ""
    where = ", ".join(sorted(set(names)))
    return f"{where}: all rows of a bridge may be test rows; contrasts of the parts become coordinates then"


def _misprint_findings(found: Misprints) -> list[Finding]:
    return [
        comparison(
            "top eigenvalue with d_i = sqrt(S_i sum_j w_ij / S_j)",
            found.top_right,
            1.0,
            within=1e-9,
            why="section 3.2: the greatest eigenvalue of the Laplace-Beltrami kernel is 1",
        ),
        comparison(
            "top eigenvalue with d_i = S_i sqrt(sum_j w_ij / S_j)",
            found.top_printed,
            1.0,
            within=1e-9,
            why="a misprint in lines 4 and 11 of algorithm 1: 1 / S_i is missing under the root",
        ),
        assertion(
            "inner products of the moved training rows Y D D_X^-1, error against the joint kernel",
            found.kernel_right,
            "the joint kernel",
            found.kernel_right < 1e-9,
        ),
        assertion(
            "the same with Y D^-1 D_X",
            found.kernel_printed,
            "the joint kernel",
            found.kernel_printed < 1e-9,
            "a misprint in line 15 of algorithm 1: the factors are the wrong way round",
        ),
    ]


def table(found: Errors) -> ResultTable:
    """Return the table of median errors in percent."""
    columns = ["data", "train / test", *(f"{way}, {kernel}" for kernel in KERNELS for way in WAYS)]
    rows = [
        [name, f"{100 * share:.0f} / {100 - 100 * share:.0f}"]
        + [f"{found.median(name, share, kernel, way):.1f}" for kernel in KERNELS for way in WAYS]
        for name in SETS
        for share in SHARES
    ]
    return ResultTable("Extended against fitted: error in percent of the spread", columns, rows)


# -- picture -------------------------------------------------------------------------------

VIEWS = {"S-curve": (0.4, 0.25), "Swiss roll": (0.35, 0.3), "punched sphere": (0.4, 0.5), "3-D clusters": (0.6, 0.35)}


def picture(found: Errors) -> Picture:
    """Draw the data and, for each way, the test rows with lines to their coordinates in the fit of all rows."""
    figure, grid = plotting.grid(len(found.drawn), 1 + len(WAYS), size=(3.3, 3.1))
    for row, (name, drawn) in zip(grid, found.drawn.items()):
        X, colour = drawn["data"]
        across, up, depth = _project(X, *VIEWS[name])
        near = np.argsort(depth)
        row[0].scatter(across[near], up[near], s=5, c=colour[near], cmap="turbo", linewidths=0)
        row[0].set_ylabel(name)
        for axes, way in zip(row[1:], WAYS):
            seen, new, true, off = drawn[way]
            axes.scatter(*seen.T, s=5, c="#b8bec6", linewidths=0, zorder=1)
            ends = np.stack([new, true, np.full_like(new, np.nan)], axis=1).reshape(-1, 2)
            axes.plot(*ends.T, color="#222222", linewidth=0.5, zorder=2)
            axes.scatter(*new.T, s=7, c=colour[len(seen) :], cmap="turbo", linewidths=0, zorder=3)
            axes.text(0.03, 0.97, f"{off:.1f} %", transform=axes.transAxes, va="top")
    for axes, title in zip(grid[0], ("data", *WAYS.values())):
        axes.set_title(title)
    for axes in itertools.chain.from_iterable(grid):
        axes.set(xticks=[], yticks=[])
        axes.set_aspect("equal", adjustable="datalim")
        axes.spines[:].set(visible=True, color="#d0d4da")
    return Picture(
        "least-squares",
        figure,
        "Half of the rows fitted (grey), the others extended (coloured); lines lead to where the fit of all rows has "
        "them. Laplace-Beltrami; the error of the drawn rows in percent of their spread.",
    )


def _project(X: Array, turn: float, tilt: float) -> tuple[Array, Array, Array]:
    """Return an orthographic view of points in space: across, up, and depth."""
    x, y, z = (X - X.mean(axis=0)).T
    across, away = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    return across, np.cos(tilt) * z + np.sin(tilt) * away, -np.cos(tilt) * away + np.sin(tilt) * z


def run(effort: Effort) -> Outcome:
    found = measure(effort)
    findings = _findings(found, Misprints.of(effort.seed), ratio_gap(effort.seed))
    return Outcome(findings, [picture(found)], [table(found)])


EXPERIMENT = Experiment(
    "least-squares",
    "Extension by least squares",
    "Wang (2019), Least square approach to out-of-sample extensions of diffusion maps, section 4",
    "2048 rows, 25 nearest neighbours (union), two coordinates; the paper's epsilon = 1 is 0.5 here, its infinity for "
    "the Swiss roll the binary graph. Fit the training rows, extend to the test rows, bring the training rows onto "
    "those of a fit of all rows by a similarity: root mean squared distance of the test rows from theirs, in percent "
    "of their spread. Median of five draws (the paper shows one). Nystrom: diffusion coordinates at t = 1/2, which are "
    "the ratios phi_k / phi_0; training and joint: canonical coordinates with degrees of the training rows or of both.",
    run,
)
