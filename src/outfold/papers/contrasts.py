"""Comparisons of the thesis: PCA with diffusion maps, alpha 0 with 1, k-means in the data with k-means after them."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

from .. import DiffusionMaps
from .._runtime.typing import Array
from ..bandwidths import Percentile
from ..datasets import helix, noisy_moons
from ..quality import aligned_error
from . import thesis
from .record import Effort, Experiment, Outcome, Picture, ResultTable, measurement

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
    far, far_unrolled = mix(flat, angle), mix(by_alpha[1.0], angle)
    grouped, grouped_unfolded = two_groups(moons, label), two_groups(unfolded, label)
    line, line_unfolded = straight(moons, label), straight(unfolded, label)
    findings = [
        measurement("neighbours far apart on the helix: PCA, diffusion maps", f"{far:.1%}, {far_unrolled:.1%}").against(
            "PCA lays distant parts over each other; diffusion maps do not", far > 0.01 and far_unrolled < far / 20
        ),
        measurement(
            "distance from the even circle: alpha = 0, alpha = 1, in % of its radius", f"{off[0.0]:.1f}, {off[1.0]:.1f}"
        ).against("spikes at alpha = 0; a smooth circle at 1", off[1.0] < off[0.0] / 2),
        measurement(
            "moons told apart by k-means: in the plane, in the embedding", f"{grouped:.1%}, {grouped_unfolded:.1%}"
        ).against("not possible in the plane, perfect in the embedding", grouped < 0.95 and grouped_unfolded == 1),
        measurement(
            "moons told apart by a line: in the plane, in the embedding", f"{line:.1%}, {line_unfolded:.1%}"
        ).against(
            "linearly separable in the embedding",
            line_unfolded == 1,
            f"The thesis does not print its noise; here it is {MOON_NOISE}.",
        ),
    ]
    pictures = [
        Picture.row(
            "pca",
            "The helix by PCA, where strands cross, and by diffusion maps, coloured by the parameter.",
            {"PCA": (flat, angle), "diffusion maps, alpha = 1": (by_alpha[1.0], angle)},
        ),
        Picture.row(
            "alpha",
            "Where points are crowded the curve is drawn together at alpha = 0, and not at 1.",
            {f"alpha = {alpha:g}": (places, angle) for alpha, places in by_alpha.items()},
            size=(4.48, 4.8),
        ),
        Picture.row(
            "moons",
            "Two moons, and their diffusion maps: a line between them is enough there.",
            {"noisy moons": (moons, label), f"diffusion maps, sigma = {SIGMA}, alpha = 0": (unfolded, label)},
        ),
    ]
    title = "Helix: distance from the even circle, in % of its radius"
    return Outcome(findings, pictures, [ResultTable(title, ["alpha", "distance"], [*map(list, off.items())])])


EXPERIMENT = Experiment(
    name="contrasts",
    title="PCA against diffusion maps, alpha 0 against 1, k-means against spectral",
    source=thesis.SOURCE,
    settings="Helix: 2000 points, noise 0.05, percentile 2, t = 1. Moons: 1000 points, sigma = 0.1234, alpha = 0.",
    run=run,
)
