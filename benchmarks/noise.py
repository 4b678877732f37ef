"""What noise does to the spectrum: the S-curve with Gaussian noise 0.3 in space, 4000 rows, median of five seeds.

Truth: DiffusionMaps on the same rows without noise, alpha = 1, epsilon "auto"; its first four eigenfunctions run along
the S (cos k), the fifth across it.

spectrum: (1 - lambda_k) / (1 - lambda_1), k = 2..4, mean relative error in percent (Roseland: sigma for lambda).
functions: the part of the four true eigenfunctions that the four found ones, by the best linear map, leave unexplained.
R^2: of the true length along the S, by a cubic of the first coordinate.
Every method with alpha = 1 and with alpha = 0.

    python benchmarks/noise.py            prints the table
    python benchmarks/noise.py --write    and writes it and the picture into docs/
"""

import itertools
import pathlib
import sys
import time
import warnings

import numpy as np
import pages

from outfold import DiffusionMaps, Roseland, landmarks
from outfold.datasets import s_curve
from outfold.plotting import panels
from outfold.solvers import LowRank

ROOT = pathlib.Path(__file__).parents[1]
ROWS, LANDMARKS, NOISE, SEEDS, PAIRS = 4000, 400, 0.3, 5, 4
ALPHAS = (1, 0)
DRAWN = ("epsilon 0.05", "epsilon 2", "k = 64")  # settings in the picture


def gaussian(epsilon, clean, seed):
    return DiffusionMaps(PAIRS, epsilon=epsilon, t=0, n_neighbors=None)


def self_tuning(epsilon, clean, seed):
    return DiffusionMaps(PAIRS, kernel="self_tuning", epsilon=epsilon, t=0, n_neighbors=None)


def continuous(n_neighbors, clean, seed):
    return DiffusionMaps(PAIRS, kernel="continuous_knn", n_neighbors=n_neighbors, t=0)


def noisy_landmarks(epsilon, clean, seed):
    return Roseland(PAIRS, landmarks=LANDMARKS, epsilon=epsilon, t=0, n_neighbors=None, random_state=seed)


def clean_landmarks(epsilon, clean, seed):
    return Roseland(PAIRS, landmarks=clean[:LANDMARKS], epsilon=epsilon, t=0, n_neighbors=None)


def mean_landmarks(epsilon, clean, seed):
    means = landmarks.KMeans(LANDMARKS)
    return Roseland(PAIRS, landmarks=means, epsilon=epsilon, t=0, n_neighbors=None, random_state=seed)


def low_rank(epsilon, clean, seed):
    means = landmarks.KMeans(LANDMARKS)
    return DiffusionMaps(PAIRS, landmarks=means, epsilon=epsilon, t=0, solver=LowRank(), random_state=seed)


WIDTHS = {"epsilon auto": "auto", "epsilon 0.05": 0.05, "epsilon 0.15": 0.15}
METHODS = {
    "DiffusionMaps, Gaussian": (gaussian, WIDTHS),
    "DiffusionMaps, self-tuning": (self_tuning, {"epsilon auto (0.5)": "auto", "epsilon 2": 2.0}),
    "DiffusionMaps, continuous k-NN": (continuous, {"k = 7": "auto", "k = 64": 64}),
    "Roseland, noisy landmarks": (noisy_landmarks, WIDTHS),
    "Roseland, clean landmarks": (clean_landmarks, WIDTHS),
    "Roseland, k-means of noisy rows": (mean_landmarks, WIDTHS),
    "LowRank, k-means of noisy rows": (low_rank, WIDTHS),
}


def ratios(model):
    step = np.sqrt(model.eigenvalues_) if isinstance(model, Roseland) else model.eigenvalues_
    return (1 - step[1:]) / (1 - step[0])


def unexplained(true, found):
    true = true - true.mean(axis=0)
    basis = np.linalg.qr(found - found.mean(axis=0))[0]
    return np.linalg.norm(true - basis @ (basis.T @ true)) / np.linalg.norm(true)


def explained(length, first):
    powers = np.vander(first / np.abs(first).max(), 4)
    left = length - powers @ np.linalg.lstsq(powers, length, rcond=None)[0]
    return 1 - left.var() / length.var()


def nearest_place(clean, noisy, place):
    """The clean sheet where noise has moved each row along it: about the best to be asked of a function of the row."""
    length = place[:, 0]
    along = np.column_stack([np.cos(length), np.zeros(len(length)), -np.sign(length) * np.sin(length)])
    moved = np.clip(length + ((noisy - clean) * along).sum(axis=1), -1.5 * np.pi, 1.5 * np.pi)
    return np.column_stack([np.sin(moved), np.clip(noisy[:, 1], 0, 2), np.sign(moved) * (np.cos(moved) - 1)])


def measure():
    """{(method, setting): {alpha: rows of (spectrum, functions, R^2, epsilon)}}, and first coordinates to draw."""
    found, first = {}, {}
    for seed in range(SEEDS):
        clean, place = s_curve(ROWS, random_state=seed)
        noisy, _ = s_curve(ROWS, random_state=seed, noise=NOISE)
        truth = DiffusionMaps(PAIRS, t=0, n_neighbors=None).fit(clean)
        best = truth.transform(nearest_place(clean, noisy, place))
        yardstick = (0.0, unexplained(truth.embedding_, best), explained(place[:, 0], best[:, 0]), np.nan)
        first_row = found.setdefault(("yardstick", "clean functions where noise moved the rows"), {})
        for alpha in ALPHAS:
            first_row.setdefault(alpha, []).append(yardstick)
        for name, (method, settings) in METHODS.items():
            for (told, setting), alpha in itertools.product(settings.items(), ALPHAS):
                model = method(setting, clean, seed).set_params(alpha=alpha).fit(noisy)
                off = 100 * np.abs(ratios(model) / ratios(truth) - 1).mean()
                functions = unexplained(truth.embedding_, model.embedding_)
                right = explained(place[:, 0], model.embedding_[:, 0])
                rows = found.setdefault((name, told), {}).setdefault(alpha, [])
                rows.append((off, functions, right, model.epsilon_))
                if seed == 0 and alpha == 1 and told in DRAWN:
                    first[f"{name}, {told}"] = place[:, 0], model.embedding_[:, 0]
    return found, first


def table(found):
    columns = [f"{what}, alpha = {alpha}" for alpha in ALPHAS for what in ("spectrum, %", "functions", "R^2")]
    lines = ["| method | setting | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    for (name, told), by_alpha in found.items():
        cells = []
        for alpha in ALPHAS:
            off, functions, right, epsilon = np.median(by_alpha[alpha], axis=0)
            cells += [f"{off:.1f}", f"{functions:.3f}", f"{right:.4f}"]
        shown = f"{told} ({epsilon:.2g})" if told == "epsilon auto" else told
        lines.append(f"| {name} | {shown} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(first, path):
    figure, row = panels(*[1] * len(first))
    for axes, (name, (length, value)) in zip(row, first.items()):
        sign = np.sign(np.corrcoef(length, value)[0, 1])
        axes.scatter(length, sign * value, s=1.5, alpha=0.4, c="#4477aa")
        method, kind, setting = name.split(", ")
        axes.set_title(f"{method}\n{kind}\n{setting}", fontsize=8)
        axes.set(xlabel="length along the S", yticks=[], ylim=np.quantile(sign * value, [0.001, 0.999]) * 1.3)
    row[0].set_ylabel("first coordinate")
    figure.set_size_inches(2.1 * len(first), 2.9)
    figure.savefig(path, dpi=90)


def main(into_docs=False):
    start = time.perf_counter()
    found, first = measure()
    print(f"{table(found)}\n\n{time.perf_counter() - start:.0f} s")
    if into_docs:
        pages.write("noise.md", "table", table(found))
        draw(first, ROOT / "docs" / "images" / "noise.png")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main("--write" in sys.argv)
