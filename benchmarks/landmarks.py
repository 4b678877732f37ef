"""Which landmarks, and which way through them? Error against their number, median of five seeds.

Truth: DiffusionMaps on all rows, alpha = 1, its own epsilon ("auto") or four times that; all routes get that number.
Error: the part of the true eigenfunctions that the found ones, by the best linear map and a constant, leave
unexplained over all rows (0: the same span, 1: nothing in common). As many eigenfunctions, 3 to 8, as end at the
largest gap, so that no multiplet is cut.

    python benchmarks/landmarks.py [part of a data set's name]    prints the tables
    python benchmarks/landmarks.py --write                        and writes them and the picture into docs/
"""

import itertools
import os
import pathlib
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pages
from sklearn.datasets import load_digits

from outfold import DiffusionMaps, Roseland, landmarks
from outfold._runtime.threads import available_cores
from outfold.datasets import s_curve, swiss_roll
from outfold.plotting import panels
from outfold.solvers import LowRank

ROOT = pathlib.Path(__file__).parents[1]
COUNTS = (50, 100, 200, 400, 800)
CHOICES = ("Random", "KMeans", "FarthestPoint", "MinDistance", "InverseDensity", "RPCholesky")
ROUTES = ("Nystrom", "Roseland", "LowRank")
WIDTHS = (1, 4)  # epsilon over "auto"
SEEDS = 5


# -- data ----------------------------------------------------------------------------------


def uneven_circle(n=2000):
    """Density 1 + 0.8 cos."""
    grid = np.linspace(0, 2 * np.pi, 20_001)
    share = np.random.default_rng(0).uniform(size=n)
    angle = np.interp(share, (grid + 0.8 * np.sin(grid)) / (2 * np.pi), grid)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def punctured_sphere(n=2000):
    """No points near one pole, three times as many near the other as at its rim."""
    rng = np.random.default_rng(0)
    share = rng.uniform(size=n)
    height = -1 + 1.8 * (np.sqrt(9 - 8 * share) - 3) / -2  # density falls from 3 to 1 over [-1, 0.8]
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height])


def data_folder():
    named = os.environ.get("OUTFOLD_DATA")
    folder = pathlib.Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def cytometry(n=2500):
    """Cells by 23 markers, or None where the file is not."""
    file = (data_folder() or ROOT) / "cytof_bodenmiller" / "bodenmiller_untreated.npz"
    if not file.is_file():
        return None
    X = np.load(file)["X"].astype(float)
    return X[np.random.default_rng(0).choice(len(X), n, replace=False)]


DATA = {
    "S-curve, 2000 x 3": lambda: s_curve(2000, random_state=0)[0],
    "Swiss roll, 2000 x 3": lambda: swiss_roll(2000, random_state=0)[0],
    "circle of density 1 + 0.8 cos, 2000 x 2": uneven_circle,
    "punctured uneven sphere, 2000 x 3": punctured_sphere,
    "digits, 1797 x 64": lambda: load_digits().data,
    "cytometry, 2500 x 23": cytometry,
}


# -- measuring -----------------------------------------------------------------------------


class Chosen:
    """Landmarks chosen once, for every route."""

    def __init__(self, anchors):
        self.anchors = anchors

    def select(self, X, measure, rng):
        return self.anchors


def truth(X, width):
    """epsilon, and the eigenfunctions up to the largest gap."""
    epsilon = width * DiffusionMaps(1, n_neighbors=None).fit(X).epsilon_
    full = DiffusionMaps(9, epsilon=epsilon, t=0, n_neighbors=None).fit(X)
    gaps = (1 - full.eigenvalues_[3:]) / (1 - full.eigenvalues_[2:-1])
    return epsilon, full.embedding_[:, : 3 + int(gaps.argmax())]


def unexplained(true, found):
    true = true - true.mean(axis=0)
    basis = np.linalg.qr(found - found.mean(axis=0))[0]
    return np.linalg.norm(true - basis @ (basis.T @ true)) / np.linalg.norm(true)


def error(route, X, true, epsilon, anchors):
    """Error, and seconds of processor time."""
    options = {"epsilon": epsilon, "t": 0, "landmarks": Chosen(anchors), "n_neighbors": None, "n_jobs": 1}
    if route == "Roseland":
        model = Roseland(true.shape[1], **options)
    else:
        model = DiffusionMaps(true.shape[1], solver=LowRank() if route == "LowRank" else "auto", **options)
    start = time.process_time()
    try:
        embedding = model.fit(X).embedding_
    except ValueError:  # beyond the rank: nothing was found
        return 1.0, time.process_time() - start
    return unexplained(true, embedding), time.process_time() - start


def measure(name, width):
    """{(choice, count, route): (median error, seconds)}, epsilon, and how many eigenfunctions; None without the data.

    Under the route "choice" are the seconds of choosing.
    """
    warnings.simplefilter("ignore")
    X = DATA[name]()
    if X is None:
        return None
    epsilon, true = truth(X, width)
    found = {}
    for choice, count in itertools.product(CHOICES, COUNTS):
        rule = getattr(landmarks, choice)(count, **({"epsilon": epsilon} if choice == "RPCholesky" else {}))
        seeds = []
        for seed in range(1 if choice == "FarthestPoint" else SEEDS):
            start = time.process_time()
            anchors = rule.select(X, np.ones(len(X)), np.random.default_rng(seed))
            took = time.process_time() - start
            seeds.append([(0.0, took), *(error(route, X, true, epsilon, anchors) for route in ROUTES)])
        for route, values in zip(("choice", *ROUTES), np.median(seeds, axis=0)):
            found[choice, count, route] = tuple(map(float, values))
    return found, epsilon, true.shape[1]


# -- telling -------------------------------------------------------------------------------


HEAD = " | ".join(f"m = {m}" for m in COUNTS) + " |"


def table(name, width, found, epsilon, count):
    best = {(m, r): min(found[c, m, r][0] for c in CHOICES) for m in COUNTS for r in ROUTES}
    told = "" if width == 1 else f" ({width} times auto)"
    lines = [
        f"**{name}**, epsilon {epsilon:.3g}{told}, {count} eigenfunctions",
        "",
        f"| landmarks | {HEAD}",
        "|---" * (len(COUNTS) + 1) + "|",
    ]
    for choice in CHOICES:
        cells = []
        for m in COUNTS:
            values = [(found[choice, m, r][0], best[m, r]) for r in ROUTES]
            cells.append(" / ".join(f"**{v:.2g}**" if v <= 1.05 * b else f"{v:.2g}" for v, b in values))
        lines.append(f"| {choice} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(results):
    """Geometric mean of the error over data sets and widths, for each choice and route."""
    lines = [f"| landmarks | {HEAD}", "|---" * (len(COUNTS) + 1) + "|"]
    for choice in CHOICES:
        cells = []
        for m in COUNTS:
            errors = [[found[choice, m, r][0] for r in ROUTES] for found, *_ in results.values()]
            cells.append(" / ".join(f"{v:.2g}" for v in np.exp(np.mean(np.log(errors), axis=0))))
        lines.append(f"| {choice} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cost(results):
    """Median seconds of processor time: of choosing, and of each route over all choices."""
    lines = [f"| seconds | {HEAD}", "|---" * (len(COUNTS) + 1) + "|"]
    for name, keys in [*((c, [(c, "choice")]) for c in CHOICES), *((r, [(c, r) for c in CHOICES]) for r in ROUTES)]:
        cells = [np.median([found[c, m, r][1] for c, r in keys for found, *_ in results.values()]) for m in COUNTS]
        lines.append(
            f"| {name}, {'choosing' if name in CHOICES else 'fit'} | " + " | ".join(f"{v:.2g}" for v in cells) + " |"
        )
    return "\n".join(lines)


def draw(results, path):
    names = list(dict.fromkeys(name for name, _ in results))
    figure, row = panels(*[1] * len(names))
    for axes in row:
        axes.remove()
    grid = figure.subplots(len(WIDTHS), len(names), sharex=True, sharey=True, squeeze=False)
    for (name, width), (found, *_) in results.items():
        axes = grid[WIDTHS.index(width)][names.index(name)]
        for route, color in zip(ROUTES, ("#ee7733", "#228833", "#4477aa")):
            for choice in CHOICES:
                bold = choice == "KMeans"
                axes.plot(
                    COUNTS,
                    [found[choice, m, route][0] for m in COUNTS],
                    color=color,
                    linewidth=2.2 if bold else 1.2 if choice == "Random" else 0.7,
                    alpha=1.0 if bold or choice == "Random" else 0.4,
                    linestyle="--" if choice == "Random" else "-",
                    label=f"{route}, KMeans" if bold else f"{route}, Random" if choice == "Random" else None,
                )
        axes.set(xscale="log", yscale="log", xticks=COUNTS, xticklabels=COUNTS, ylim=(3e-6, 1.5))
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        axes.set_title(
            f"{name.split(',')[0].split(' of ')[0].split('uneven ')[-1]}, epsilon {'auto' if width == 1 else '4 auto'}",
            fontsize=9,
        )
    for axes in grid[-1]:
        axes.set_xlabel("landmarks")
    for line in grid:
        line[0].set_ylabel("error")
    grid[0][0].legend(fontsize=6.5, frameon=False, loc="lower left")
    figure.set_size_inches(2.5 * len(names), 5.4)
    figure.savefig(path, dpi=90)


def main(only="", into_docs=False):
    start, results = time.perf_counter(), {}
    cases = [(name, width) for name in DATA for width in WIDTHS if only in name]
    with ProcessPoolExecutor(available_cores()) as pool:
        for case, found in zip(cases, pool.map(measure, *zip(*cases))):
            if found is not None:
                results[case] = found
                print(f"\n{table(*case, *found)}", flush=True)
    print(f"\n{summary(results)}\n\n{cost(results)}\n\n{time.perf_counter() - start:.0f} s")
    if into_docs:
        page = ROOT / "docs" / "landmarks.md"
        pages.write(page, "summary", summary(results))
        pages.write(page, "cost", cost(results))
        pages.write(page, "tables", "\n\n".join(table(*key, *value) for key, value in results.items()))
        draw(results, ROOT / "docs" / "images" / "landmarks.png")


if __name__ == "__main__":
    given = [a for a in sys.argv[1:] if a != "--write"]
    main(*given, into_docs="--write" in sys.argv)
