"""Extended against fitted: the data sets and settings of Wang (2019), median of five seeds.

2048 rows, 25 nearest neighbours (union), two coordinates, alpha = 0 (graph Laplacian) and 1 (Laplace-Beltrami). The
paper's epsilon = 1 is epsilon = 0.5 here; its epsilon = inf for the Swiss roll is the binary graph.

Error: fit the training rows, extend to the test rows, bring the training rows onto those of the fit of all rows (a
similarity), and take the root mean squared distance of the test rows to theirs, in percent of their spread.

Nystrom: coordinates="diffusion" at t = 1/2, which are the ratios phi_k / phi_0 of the others.
training, joint: coordinates="canonical" at t = 1, least squares with degrees of the training set or of both sets.

    python benchmarks/least_squares.py            prints the table
    python benchmarks/least_squares.py --write    and writes it and the picture into docs/
"""

import itertools
import pathlib
import sys
import time
import warnings

import numpy as np
import pages
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from outfold import DiffusionMaps
from outfold.datasets import clusters_3d, punched_sphere, s_curve, swiss_roll
from outfold.leastsquares import LeastSquares
from outfold.quality import Alignment
from outfold.runners import Threads

ROOT = pathlib.Path(__file__).parents[1]
ROWS, NEIGHBORS, SEEDS = 2048, 25, 5
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5)  # of training rows
ALPHAS = {"graph Laplacian": 0, "Laplace-Beltrami": 1}
SETS = {  # generator, epsilon
    "S-curve": (s_curve, 0.5),
    "Swiss roll": (swiss_roll, np.inf),
    "punched sphere": (punched_sphere, 0.5),
    "3-D clusters": (clusters_3d, 0.5),
}
WAYS = ("Nystrom", "training", "joint")
TITLES = ("Nystrom, ratios", "least squares, training degrees", "least squares, joint degrees")
DRAWN = 1, 0.5  # alpha and share in the picture


def maps(way, epsilon, alpha):
    coordinates, t = ("diffusion", 0.5) if way == "Nystrom" else ("canonical", 1)
    return DiffusionMaps(2, epsilon=epsilon, alpha=alpha, t=t, n_neighbors=NEIGHBORS, coordinates=coordinates)


def places(way, epsilon, alpha, train, test):
    """Coordinates of the training rows and, extended, of the test rows."""
    spec = LeastSquares("joint" if way == "joint" else "training")
    model = maps(way, epsilon, alpha).set_params(extension=spec).fit(train)
    if way != "joint":
        return model.embedding_, model.transform(test)
    return model.model_.extension.training(train, test, Threads()), model.transform(test)


def aligned(seen, new, target, size):
    """Both brought onto the fit of all rows (training rows first), and the error of the new ones in percent."""
    onto = Alignment.of(seen, target[:size])
    seen, new, true = onto(seen), onto(new), target[size:]
    off = np.sqrt(((new - true) ** 2).sum() / ((true - true.mean(axis=0)) ** 2).sum())
    return seen, new, 100 * off


def measure():
    """{(set, share): {(alpha, way): errors}}, and places to draw."""
    found, drawn = {}, {}
    for (name, (make, epsilon)), seed in itertools.product(SETS.items(), range(SEEDS)):
        X, truth = make(ROWS, random_state=seed)
        order = np.random.default_rng(seed).permutation(ROWS)
        X, colour = X[order], (truth[:, 0] if truth.ndim == 2 else truth)[order]
        if make is punched_sphere:
            colour = X[:, 2]
        for alpha, way in itertools.product(ALPHAS.values(), WAYS):
            target = maps(way, epsilon, alpha).fit(X).embedding_
            for share in SHARES:
                size = round(share * ROWS)
                seen, new, off = aligned(*places(way, epsilon, alpha, X[:size], X[size:]), target, size)
                found.setdefault((name, share), {}).setdefault((alpha, way), []).append(off)
                if seed == 0 and (alpha, share) == DRAWN:
                    drawn.setdefault(name, {"data": (X, colour)})[way] = seen, new, target[size:], off
    return found, drawn


def table(found):
    columns = [f"{way}, {name}" for name in ALPHAS for way in WAYS]
    lines = ["| data | train / test | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    for (name, share), errors in found.items():
        cells = [f"{np.median(errors[alpha, way]):.1f}" for alpha in ALPHAS.values() for way in WAYS]
        lines.append(f"| {name} | {100 * share:.0f} / {100 - 100 * share:.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# -- the picture ---------------------------------------------------------------------------


def seen_from(X, turn=0.6, tilt=0.35):
    """Orthographic view of points in space: across, up, and depth."""
    x, y, z = (X - X.mean(axis=0)).T
    across, away = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    return across, np.cos(tilt) * z + np.sin(tilt) * away, -np.cos(tilt) * away + np.sin(tilt) * z


VIEWS = {"S-curve": (0.4, 0.25), "Swiss roll": (0.35, 0.3), "punched sphere": (0.4, 0.5), "3-D clusters": (0.6, 0.35)}


def draw(drawn, path):
    figure = Figure(figsize=(13.2, 12.4), layout="constrained")
    grid = figure.subplots(len(drawn), 1 + len(WAYS))
    for row, (name, found) in zip(grid, drawn.items()):
        X, colour = found["data"]
        across, up, depth = seen_from(X, *VIEWS[name])
        near = np.argsort(depth)
        row[0].scatter(across[near], up[near], s=5, c=colour[near], cmap="turbo", linewidths=0)
        row[0].set_ylabel(name, fontsize=12)
        for axes, way in zip(row[1:], WAYS):
            seen, new, true, off = found[way]
            axes.scatter(*seen.T, s=5, c="#b8bec6", linewidths=0, zorder=1)
            axes.add_collection(
                LineCollection(np.stack([new, true], axis=1), colors="#222222", linewidths=0.5, zorder=2)
            )
            axes.scatter(*new.T, s=7, c=colour[len(seen) :], cmap="turbo", linewidths=0, zorder=3)
            axes.text(0.03, 0.97, f"{off:.1f} %", transform=axes.transAxes, va="top", fontsize=12)
    for axes, title in zip(grid[0], ("data", *TITLES)):
        axes.set_title(title, fontsize=12)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.set_aspect("equal", adjustable="datalim")
        axes.spines[:].set_color("#d0d4da")
    figure.savefig(path, dpi=80)


def main(into_docs=False):
    start = time.perf_counter()
    found, drawn = measure()
    print(f"{table(found)}\n\n{time.perf_counter() - start:.0f} s")
    if into_docs:
        pages.write("least-squares.md", "table", table(found))
        draw(drawn, ROOT / "docs" / "images" / "least-squares.png")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main("--write" in sys.argv)
