"""Comparisons of the thesis: PCA with diffusion maps, alpha 0 with 1, k-means in the data with k-means after them."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

from .. import DiffusionMaps, plotting
from .._runtime.typing import Array
from ..bandwidths import Percentile
from ..datasets import helix, noisy_moons
from ..quality import aligned_error
from . import thesis
from .record import Effort, Experiment, Outcome, Picture, ResultTable, assertion

ROWS, NOISE, PERCENTILE = 2000, 0.05, 2
MOONS, MOON_NOISE, SIGMA = 1000, 0.05, 0.1234
APART = 0.5  # neighbours whose curve parameters differ by more than this (radians) are a mistake


def mix(places: Array, angle: Array, neighbors: int = 10) -> float:
    """Return the share of nearest neighbours that are more than ``APART`` away along the curve."""
    near = NearestNeighbors(n_neighbors=neighbors).fit(places).kneighbors(return_distance=False)
    gap = np.abs(angle[near] - angle[:, None])
    return float((np.minimum(gap, 2 * np.pi - gap) > APART).mean())


def arc_circle(angle: Array) -> Array:
    """Return the first two Laplace-Beltrami eigenfunctions of the closed curve: a circle by arc length, (n, 2)."""
    grid = np.linspace(0, 2 * np.pi, 20_001)
    speed = np.sqrt(np.sin(grid) ** 2 + 4 * np.cos(2 * grid) ** 2 + 9 * np.cos(3 * grid) ** 2)
    length = np.append(0, np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(grid)))
    place = 2 * np.pi * np.interp(angle, grid, length) / length[-1]
    return np.column_stack([np.cos(place), np.sin(place)])


def two_groups(places: Array, label: Array) -> float:
    """Return the accuracy of k-means with two clusters."""
    found = KMeans(2, n_init=10, random_state=0).fit_predict(places)
    right = float((found == label).mean())
    return max(right, 1 - right)


def straight(places: Array, label: Array) -> float:
    """Return the accuracy of the best straight line between the two classes (logistic regression)."""
    unit = (places - places.mean(axis=0)) / places.std(axis=0)
    return float(LogisticRegression(C=1e6, max_iter=10_000).fit(unit, label).score(unit, label))


def run(effort: Effort) -> Outcome:
    X, angle = helix(ROWS, noise=NOISE, random_state=effort.seed)
    flat = PCA(2).fit_transform(X)
    by_alpha = {
        alpha: DiffusionMaps(2, epsilon=Percentile(PERCENTILE), alpha=alpha, n_neighbors=None).fit(X).embedding_
        for alpha in (0.0, 0.5, 1.0)
    }
    truth = arc_circle(angle)
    off = {alpha: 100 * aligned_error(places, truth) for alpha, places in by_alpha.items()}
    moons, label = noisy_moons(MOONS, noise=MOON_NOISE, random_state=effort.seed)
    unfolded = DiffusionMaps(2, epsilon=SIGMA**2, alpha=0.0, n_neighbors=None).fit(moons).embedding_
    mistakes = mix(flat, angle), mix(by_alpha[1.0], angle)
    findings = [
        assertion(
            "neighbours far apart on the helix: PCA, diffusion maps",
            f"{mistakes[0]:.1%}, {mistakes[1]:.1%}",
            "PCA lays distant parts over each other; diffusion maps do not",
            mistakes[0] > 0.01 and mistakes[1] < mistakes[0] / 20,
        ),
        assertion(
            "distance from the even circle: alpha = 0, alpha = 1, in % of its radius",
            f"{off[0.0]:.1f}, {off[1.0]:.1f}",
            "spikes at alpha = 0; a smooth circle at 1",
            off[1.0] < off[0.0] / 2,
        ),
        assertion(
            "moons told apart by k-means: in the plane, in the embedding",
            f"{two_groups(moons, label):.1%}, {two_groups(unfolded, label):.1%}",
            "not possible in the plane, perfect in the embedding",
            two_groups(moons, label) < 0.95 and two_groups(unfolded, label) == 1,
        ),
        assertion(
            "moons told apart by a line: in the plane, in the embedding",
            f"{straight(moons, label):.1%}, {straight(unfolded, label):.1%}",
            "linearly separable in the embedding",
            straight(unfolded, label) == 1,
            f"The thesis does not print its noise; here it is {MOON_NOISE}.",
        ),
    ]
    rows = [[alpha, off[alpha]] for alpha in by_alpha]
    tables = [ResultTable("Helix: distance from the even circle, in % of its radius", ["alpha", "distance"], rows)]
    pictures = [_linear(angle, flat, by_alpha[1.0]), _alphas(angle, by_alpha), _moons(moons, unfolded, label)]
    return Outcome(findings, pictures, tables)


def _linear(angle: Array, flat: Array, unrolled: Array) -> Picture:
    figure, (left, right) = plotting.panels(1, 1)
    plotting.embedding(flat, colors=angle, axes=left, title="PCA")
    plotting.embedding(unrolled, colors=angle, axes=right, title="diffusion maps, alpha = 1")
    return Picture(
        "pca", figure, "The helix by PCA, where strands cross, and by diffusion maps, coloured by the parameter."
    )


def _alphas(angle: Array, by_alpha: dict[float, Array]) -> Picture:
    figure, row = plotting.panels(*[0.7] * len(by_alpha))
    for axes, (alpha, places) in zip(row, by_alpha.items()):
        plotting.embedding(places, colors=angle, axes=axes, title=f"alpha = {alpha:g}")
    return Picture("alpha", figure, "Where points are crowded the curve is drawn together at alpha = 0, and not at 1.")


def _moons(moons: Array, unfolded: Array, label: Array) -> Picture:
    figure, (left, right) = plotting.panels(1, 1)
    plotting.embedding(moons, colors=label, axes=left, title="noisy moons")
    plotting.embedding(unfolded, colors=label, axes=right, title=f"diffusion maps, sigma = {SIGMA}, alpha = 0")
    return Picture("moons", figure, "Two moons, and their diffusion maps: a line between them is enough there.")


EXPERIMENT = Experiment(
    "contrasts",
    "PCA against diffusion maps, alpha 0 against 1, k-means against spectral",
    thesis.SOURCE,
    "Helix: 2000 points, noise 0.05, percentile 2, t = 1. Moons: 1000 points, sigma = 0.1234, alpha = 0.",
    run,
)
