"""Induction versus perturbation: figure 4 of Bengio et al. (2004)."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from .. import ClassicalMDS, Isomap, LaplacianEigenmaps, LocallyLinearEmbedding, plotting
from .._runtime.typing import Array
from ..datasets import fetch_faces, fetch_ionosphere, swiss_roll
from ..exceptions import OutfoldWarning
from ..quality import Induction, induction_versus_perturbation
from .record import Effort, Experiment, Finding, Outcome, Picture, ResultTable, Value, assertion, measurement

NEIGHBORS, ROLL_ROWS = 10, 698
EXCHANGED = (0.005, 0.01, 0.02, 0.05, 0.1)  # shares of the rows
SPLITS, LEFT_OUT = 4, 8
ABOUT, MOST = 0.02, 0.05  # "about 2 %", "1 to 5 %"
FACE_WIDTH = 0.01  # sigma^2 of exp(-d^2 / sigma^2), d^2 the mean over pixels
TENTH = 0.45  # the same sigma^2, in units of the faces' median squared distance to the tenth neighbour
METHODS = ("MDS", "spectral clustering", "Isomap", "LLE")


def gaussian(name: str, X: Array) -> float:
    """Return the epsilon of spectral clustering, the same for all fits of a data set."""
    if name == "faces":
        return FACE_WIDTH * X.shape[1] / 2
    squared = np.sort(squareform(pdist(X, "sqeuclidean")), axis=1)
    return float(TENTH * np.median(squared[:, NEIGHBORS]) / 2)


def prepare(method: str, X: Array, epsilon: float) -> tuple[Any, Array]:
    """Return the method and its input: a matrix of distances, computed once, or rows for LLE, which needs them.

    Rows with more features than there are rows are rotated into their span, which changes no distance.
    """
    if method == "LLE":
        if X.shape[1] >= len(X):
            U, S, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
            X = (U * S)[:, : len(X) - 1]
        return LocallyLinearEmbedding(2, n_neighbors=NEIGHBORS), X
    methods = {
        "MDS": ClassicalMDS(2, metric="precomputed"),
        "Isomap": Isomap(2, n_neighbors=NEIGHBORS, metric="precomputed"),
        "spectral clustering": LaplacianEigenmaps(2, epsilon=epsilon, n_neighbors=None, metric="precomputed"),
    }
    return methods[method], squareform(pdist(X))


@dataclass(frozen=True)
class Sets:
    """The data sets that could be loaded, and the names of those that could not."""

    tables: dict[str, Array]
    missing: tuple[str, ...] = ()

    @classmethod
    def at_hand(cls, seed: int) -> Sets:
        tables = {"faces": fetch_faces().data, "Swiss roll": swiss_roll(ROLL_ROWS, random_state=seed)[0]}
        try:
            tables["ionosphere"] = fetch_ionosphere().data
        except OSError:
            return cls(tables, ("ionosphere",))
        return cls(tables)


Found = dict[tuple[str, str], Induction]  # by data set and method


def measure(effort: Effort, tables: dict[str, Array], *, left_out: int = LEFT_OUT, exchanged: Any = EXCHANGED) -> Found:
    """Return delta for each data set and method."""
    found: Found = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", OutfoldWarning
        )  # a row that is left out may be far from the others; the experiment counts it too
        for name, method in effort.walk(list(itertools.product(tables, METHODS)), "induction"):
            estimator, X = prepare(method, tables[name], gaussian(name, tables[name]))
            found[name, method] = induction_versus_perturbation(
                estimator,
                X,
                exchanged=exchanged,
                repeats=effort.times(SPLITS),
                left_out=left_out,
                random_state=effort.seed,
            )
    return found


def crossing(found: Induction) -> str:
    """Return the share at which delta is first 0, in words; below the smallest share tried it is unknown."""
    share, tried = found.comparable_share, found.exchanged
    if np.isnan(share):
        return f"above {100 * tried[-1]:g} %"
    return f"{100 * share:.2g} %" if share >= tried[0] else f"below {100 * tried[0]:g} %"


def findings(found: Found, missing: Sequence[str] = ()) -> list[Finding]:
    lines = [
        assertion(
            f"{name}, {method}: share exchanged whose effect is that of induction",
            crossing(one),
            "about 2 % (1 to 5 %)" if name == "faces" else "similar",
            one.comparable_share <= MOST,
            _remark(one),
        )
        for (name, method), one in found.items()
    ]
    near = {key: int(np.argmin(np.abs(one.exchanged - ABOUT))) for key, one in found.items()}
    fine = sum(one.high[near[key]] >= 0 for key, one in found.items())
    grows = sum(one.delta[-1] > one.delta[0] for one in found.values())
    lines += [
        assertion(
            "induction less than or comparable to exchanging 2 %",
            f"in {fine} of {len(found)} cases",
            "in most cases",
            2 * fine > len(found),
            "the 95 % interval of delta reaches 0 or lies above",
        ),
        assertion(
            "delta larger at the largest share than at the smallest",
            f"in {grows} of {len(found)} cases",
            "almost monotonically increasing",
            2 * grows > len(found),
        ),
    ]
    why = "not at hand: neither in the folder OUTFOLD_DATA names nor from OpenML"
    return [*lines, *(measurement(name, "left out", why) for name in missing)]


def _remark(found: Induction) -> str:
    """Return in words at which shares the 95 % interval of delta does not contain 0."""
    below, above = found.exchanged[found.high < 0], found.exchanged[found.low > 0]
    parts = []
    if len(below):
        parts.append(f"below 0 at {', '.join(f'{100 * share:g}' for share in below)} %")
    if len(above):
        parts.append(f"above 0 at {', '.join(f'{100 * share:g}' for share in above)} %")
    return f"95 % interval {', '.join(parts)}" if parts else "no 95 % interval of delta is off 0"


def table(found: Found) -> ResultTable:
    """Return all results, with 95 % intervals over rows, as in the paper, and standard errors over splits."""
    columns = ["data", "method", "exchanged, %", "delta", "95 % interval", "standard error over splits"]
    columns += ["perturbation", "induction", "rows compared"]
    rows: list[list[Value]] = [
        [
            name,
            method,
            100 * float(one.exchanged[at]),
            float(one.delta[at]),
            f"{one.low[at]:.2g} to {one.high[at]:.2g}",
            float(one.between_repeats[at]),
            float(one.perturbation[at]),
            float(one.induction[at]),
            float(one.points[at]),
        ]
        for (name, method), one in found.items()
        for at in range(len(one.exchanged))
    ]
    return ResultTable("Perturbation minus induction", columns, rows)


def picture(found: Found) -> Picture:
    """Draw delta against the share of rows exchanged, with a row of axes for each data set."""
    names = list(dict.fromkeys(name for name, _ in found))
    figure, grid = plotting.grid(len(names), len(METHODS), size=(3.4, 2.8))
    for (row, name), (column, method) in itertools.product(enumerate(names), enumerate(METHODS)):
        axes, one = grid[row][column], found[name, method]
        share = 100 * one.exchanged
        axes.axhline(0, color="#8a929c", linewidth=0.8)
        axes.errorbar(
            share, one.delta, [one.delta - one.low, one.high - one.delta], color="#4477aa", marker="o", ms=4, capsize=3
        )
        axes.set_xscale("log")
        axes.set_xticks(share, [f"{value:g}" for value in share])
        axes.minorticks_off()
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
        if row == 0:
            axes.set_title(method)
        if row == len(names) - 1:
            axes.set_xlabel("rows exchanged, %")
        if column == 0:
            axes.set_ylabel(f"{name}\ndelta")
    return Picture(
        "figure-4",
        figure,
        "Figure 4. How much farther rows move when data is exchanged than when they are left out and predicted "
        "(delta), with 95 % intervals over rows. Above the line induction is the smaller error.",
    )


def run(effort: Effort) -> Outcome:
    sets = Sets.at_hand(effort.seed)
    found = measure(effort, sets.tables)
    return Outcome(findings(found, sets.missing), [picture(found)], [table(found)])


EXPERIMENT = Experiment(
    "induction",
    "Induction versus perturbation",
    "Bengio, Delalleau, Le Roux, Paiement, Vincent and Ouimet (2004), Spectral dimensionality reduction, figure 4",
    "Rows are split into F, R1 and R2. Perturbation: how far rows of F are apart in fits of F + R1 and of F + R2, "
    "aligned by linear regression. Induction: how far a row of F is, in a fit of F + R1 without it, from its place in "
    "the fit with it, signs apart. delta is the mean difference; a case agrees when it is 0 at 5 % exchanged or "
    "sooner. Two coordinates, 10 neighbours for Isomap and LLE. All 698 faces, at 32 x 32 pixels; a Swiss roll of 698 "
    "rows; ionosphere where it is at hand. The paper's Gaussian bandwidth of 0.01 does not say of which pixels: we "
    "take sigma^2 = 0.01 in exp(-d^2 / sigma^2) with d^2 a mean over pixels in [0, 1], which joins each face to its "
    "nearest (with sigma = 0.01 nearly every face would stand alone). That is 0.45 of the median squared distance to "
    "the tenth neighbour, and so it is for the other sets. The paper leaves out every row of F; we leave out 8 drawn "
    "at random in each of 4 splits. Rows far from the others count like any.",
    run,
)
