"""Roseland and diffusion maps with the settings of Vazova (2021), and their errors against known eigenfunctions."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .. import DiffusionMaps, Roseland
from .._runtime.typing import Array
from ..exceptions import FarPointsWarning
from ..extensions.alignment import Alignment
from ..quality import subspace_angles

CUT_OFF = 1e-4  # the weight at datafold's cut-off c, where exp(-c^2 / epsilon) is 1e-8


def datafold_epsilon(points: Array, random: np.random.Generator) -> float:
    """Return the kernel scale of datafold's ``optimize_parameters``, which the thesis uses throughout.

    epsilon = c^2 / -log(1e-8), c the largest distance to a 25th neighbour (itself the first) among at most 1000 points.

    >>> line = np.arange(100.0)[:, None]  # at its ends the 25th is 24 away
    >>> round(datafold_epsilon(line, np.random.default_rng(0)) * -np.log(1e-8))
    576
    """
    some = points if len(points) <= 1000 else points[random.choice(len(points), 1000, replace=False)]
    reach = cKDTree(points).query(some, min(25, len(points)))[0][:, -1].max()
    return float(reach**2 / -np.log(1e-8))


def missed_share(coordinates: Array, truth: Array) -> float:
    """Return how much of ``truth`` is not in the span of the coordinates: root mean squared sine of the angles.

    >>> x = np.linspace(0, 1, 101)
    >>> round(missed_share(np.c_[x, x**2], np.c_[x + 3 * x**2]), 6)
    0.0
    """
    angles = subspace_angles(coordinates - coordinates.mean(axis=0), truth - truth.mean(axis=0))
    return float(np.sqrt(np.mean(np.sin(angles) ** 2)))


def eigenvalue_error(found: Array, true: Array) -> float:
    """Return the root mean squared relative error of the first ``len(true)`` eigenvalues."""
    return float(np.sqrt(np.mean((found[: len(true)] / true - 1) ** 2)))


def noisiness(coordinates: Array, place: Array, *, neighbors: int = 50) -> float:
    """Return how much of the coordinates is not a smooth function of ``place``, the true coordinates.

    That is the deviation from the mean over the nearest neighbours, relative to the deviation of the coordinates.

    >>> place = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> bool(noisiness(place, place) < 0.1), bool(noisiness(np.roll(place, 7, axis=0), place) > 0.9)
    (True, True)
    """
    near = cKDTree(place).query(place, neighbors)[1]
    left = coordinates - coordinates[near].mean(axis=1)
    return float(np.sqrt(np.mean(left.var(axis=0) / coordinates.var(axis=0)) * neighbors / (neighbors - 1)))


def thickness(coordinates: Array, along: Array, *, parts: int = 100) -> float:
    """Return the root mean squared distance of points from the mean curve of their embedding.

    It is relative to the deviation of the coordinates. Displacement along the curve does not count.

    >>> along = np.linspace(0, 1, 2000)
    >>> curve, off = np.c_[along, along**2], np.random.default_rng(0).normal(0, 0.05, 2000)
    >>> round(thickness(curve, along), 2), bool(thickness(curve + np.c_[0 * off, off], along) > 0.05)
    (0.0, True)
    """
    groups = np.array_split(np.argsort(along), parts)
    corners = np.array([coordinates[group].mean(axis=0) for group in groups])
    fine = np.linspace(0, parts - 1, 20 * parts)
    curve = np.column_stack([np.interp(fine, np.arange(parts), column) for column in corners.T])
    apart = cKDTree(curve).query(coordinates)[0]
    return float(np.sqrt(np.mean(apart**2) / coordinates.var(axis=0).sum()))


def agreement(points: Array, label: Array, *, neighbors: int = 5) -> float:
    """Return the mean share of a point's nearest neighbours that have its label."""
    near = cKDTree(points).query(points, neighbors + 1)[1][:, 1:]
    return float(np.mean(label[near] == label[:, None]))


@dataclass(frozen=True)
class Fitted:
    """A fit, its coordinates of variance 1, and its estimate of the Laplacian's eigenvalues."""

    model: DiffusionMaps | Roseland
    coordinates: Array  # (n, count), each of variance 1
    laplacian: Array  # eigenvalues of the Laplacian, (count,)
    seconds: float  # processor seconds


def fit_landmarks(model: DiffusionMaps | Roseland, X: Array) -> Fitted:
    """Fit, and estimate mu: -2 log(lambda) / epsilon for diffusion maps, half of it for Roseland, whose step is two."""
    start = time.process_time()
    model.set_params(n_jobs=1).fit(X)  # on one thread, so that other load on the machine changes the time little
    seconds = time.process_time() - start
    steps = 2 if isinstance(model, Roseland) else 1
    scale = steps * (model.epsilon_ if np.isfinite(model.epsilon_) else 1.0)  # a graph without weights has no scale
    found = -2 * np.log(np.maximum(model.eigenvalues_, 1e-300)) / scale
    return Fitted(model, model.embedding_ / model.embedding_.std(axis=0), found, seconds)


def by_landmarks(X: Array, landmarks: Array, epsilon: float, count: int, *, alpha: float = 0.0) -> Fitted:
    """Fit Roseland; the thesis has alpha=0. A row has weights to all landmarks or, if cheaper, up to the cut-off."""
    some = landmarks[:: -(-len(landmarks) // 500)]
    reach = np.sqrt(-2 * epsilon * np.log(CUT_OFF))
    most = int(cKDTree(landmarks).query_ball_point(some, reach, return_length=True).max())
    nearest = most + most // 8 if 8 * most < len(landmarks) else None
    model = Roseland(count, landmarks=landmarks, epsilon=epsilon, alpha=alpha, t=0, n_neighbors=nearest)
    return fit_landmarks(model, X)


def by_all(X: Array, epsilon: float, count: int, *, alpha: float = 1.0) -> Fitted:
    """Fit diffusion maps as datafold does: weights beyond the cut-off, where they are 1e-4, are left out."""
    return fit_landmarks(DiffusionMaps(count, epsilon=epsilon, alpha=alpha, t=0, threshold=CUT_OFF), X)


def draw_rows(X: Array, share: float, random: np.random.Generator) -> Array:
    """Return a random sample of a share of the rows."""
    return X[np.sort(random.choice(len(X), max(2, round(share * len(X))), replace=False))]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Errors of held-out digits against a fit of all digits with the same landmarks."""

    error: float  # distance of the held-out digits, relative to the deviation
    seen: float  # the same for training digits: they move too, since the fit of all has more rows
    right: float  # share of held-out digits whose 5 nearest training digits vote for their label
    right_seen: float  # the same for training digits
    flagged: float  # share of held-out digits flagged as far


def hold_out(
    X: Array, label: Array, random: np.random.Generator, *, share: float = 0.25, test: float = 1 / 3
) -> tuple[HeldOut, Array, Array, Array, Array]:
    """Fit to part of the rows and extend to the others.

    Returns (HeldOut, embedding of the fitted rows, of the held-out rows, numbers of the fitted rows, of the held-out).
    """
    order = random.permutation(len(X))
    new, old = np.sort(order[: round(test * len(X))]), np.sort(order[round(test * len(X)) :])
    landmarks = draw_rows(X[old], share, random)
    epsilon = datafold_epsilon(landmarks, random)
    part, whole = (Roseland(2, landmarks=landmarks, epsilon=epsilon, alpha=0.0, t=0).fit(rows) for rows in (X[old], X))
    with warnings.catch_warnings(action="ignore", category=FarPointsWarning):  # `flagged` counts far points
        extended = part.transform(X[new])
    turned = Alignment.of(part.embedding_, whole.embedding_[old])
    spread = np.sqrt(whole.embedding_.var(axis=0).sum())

    def apart(found: Array, wanted: Array) -> float:
        return float(np.sqrt(np.mean(np.sum((turned(found) - wanted) ** 2, axis=1))) / spread)

    near, near_seen = (cKDTree(part.embedding_).query(rows, 6)[1] for rows in (extended, part.embedding_))
    figures = HeldOut(
        error=apart(extended, whole.embedding_[new]),
        seen=apart(part.embedding_, whole.embedding_[old]),
        right=_vote(label[old][near[:, :5]], label[new]),
        right_seen=_vote(label[old][near_seen[:, 1:]], label[old]),
        flagged=float(np.mean(part.trust(X[new]).flag != 0)),
    )
    return figures, part.embedding_, extended, old, new


def _vote(votes: Array, label: Array) -> float:
    counts = np.stack([(votes == digit).sum(axis=1) for digit in range(label.max() + 1)], axis=1)
    return float(np.mean(counts.argmax(axis=1) == label))


# -- true functions ------------------------------------------------------------------------


def rectangle_truth(X: Array, count: int, *, sides: tuple[float, float] = (3.0, 5.0)) -> tuple[Array, Array]:
    """Return the first non-constant Neumann functions of a rectangle and their eigenvalues.

    The functions are cos(pi i x / a) cos(pi j y / b).

    >>> functions, values = rectangle_truth(np.zeros((1, 2)), 4)
    >>> (values / np.pi**2).round(3).tolist()
    [0.04, 0.111, 0.151, 0.16]
    """
    i, j = (order.ravel()[1:] for order in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    values = np.pi**2 * ((i / sides[0]) ** 2 + (j / sides[1]) ** 2)
    first = np.argsort(values)[:count]
    waves = np.cos(np.pi * X[:, :1] * i[first] / sides[0]) * np.cos(np.pi * X[:, 1:] * j[first] / sides[1])
    return waves, values[first]


def circle_truth(X: Array, pairs: int) -> tuple[Array, Array]:
    """Return cos and sin of k times the angle, (n, 2 pairs), and the eigenvalues k^2, each twice."""
    angle, k = np.arctan2(X[:, 1], X[:, 0])[:, None], np.arange(1, pairs + 1)
    functions = np.stack([np.cos(k * angle), np.sin(k * angle)], axis=2).reshape(len(X), -1)
    return functions, np.repeat(k, 2) ** 2.0


def s_curve_truth(place: Array, count: int = 5) -> tuple[Array, Array]:
    """Return the functions of the flat sheet, 3 pi long and 2 high: four along it, then the first across."""
    return rectangle_truth(place + np.array([1.5 * np.pi, 0.0]), count, sides=(3 * np.pi, 2.0))
