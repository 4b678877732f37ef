"""Metric multidimensional scaling: places whose distances are as near as can be to given ones.

    stress = 1/2 sum_ij m_i m_j (delta_ij - |y_i - y_j|)^2

by majorisation (SMACOF; De Leeuw, 1977), started from classical scaling. A step is the Guttman transform,
y_i <- 1/M sum_j m_j delta_ij (y_i - y_j) / |y_i - y_j|, M = sum m. The majorising parabola is as high twice as far, so
a step of double length does not raise the stress either, and about half as many are needed (De Leeuw and Heiser, 1980).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from . import _stress
from .runners import Threads

Array = NDArray[Any]

ROWS = 64  # of a step, on a thread at a time
POWER_STEPS = 30  # of the subspace iteration for classical scaling of many points
DENSE_UP_TO = 500


@dataclass(frozen=True)
class Placed:
    """Where scaling put the points."""

    places: Array  # (n, components), about their mean, along their principal axes
    stress: float  # sum over pairs, relative to the sum of squared distances: 0 is perfect
    steps: int
    history: tuple[float, ...] = ()  # the stress before each step


def classical(distances: Array, count: int, measure: Array) -> Array:
    """The places whose inner products are nearest to those of the distances: (n, count), zero beyond the rank."""
    n, total = len(distances), measure.sum()
    root = np.sqrt(measure)
    inner = np.square(distances)
    inner *= -0.5
    means = inner @ measure / total
    inner -= means[:, None]
    inner -= means - float(means @ measure / total)
    inner *= root[:, None]
    inner *= root
    if n <= DENSE_UP_TO:
        values, vectors = eigh(inner, subset_by_index=[n - count, n - 1])
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        values, vectors = _top(inner, count)
    return vectors / root[:, None] * np.sqrt(np.maximum(values, 0.0))


def _top(matrix: Array, count: int) -> tuple[Array, Array]:
    """The largest eigenpairs, well enough to start from: subspace iteration from fixed columns."""
    width = min(len(matrix), count + 8)
    V = matrix[:, np.linspace(0, len(matrix) - 1, width).astype(int)]
    for _ in range(POWER_STEPS):
        V = matrix @ np.linalg.qr(V)[0]
    V = np.linalg.qr(V)[0]
    values, turn = np.linalg.eigh(V.T @ (matrix @ V))
    return values[::-1][:count], (V @ turn)[:, ::-1][:, :count]


def metric(
    distances: Array,
    count: int,
    measure: Array,
    runner: Threads,
    *,
    start: Array | None = None,
    tol: float = 1e-5,
    max_steps: int = 500,
) -> Placed:
    """Places of least stress, from ``start`` (None: classical scaling).

    Steps of double length go on until one lowers the stress by less than ``tol`` of it; a last plain step ends in the
    valley, where plain steps stay.
    """
    n, total = len(distances), float(measure.sum())
    start = classical(distances, count, measure) if start is None else start
    places = np.ascontiguousarray(start.T, dtype=float)
    moved, parts = np.empty_like(places), np.empty(n)
    blocks = [slice(first, min(first + ROWS, n)) for first in range(0, n, ROWS)]

    def look() -> float:
        """The stress of the places; their transform goes to ``moved``."""
        runner.run(lambda b: _stress.guttman_rows(distances, places, measure, moved, parts, b.start, b.stop), blocks)
        np.divide(moved, total, out=moved)
        return float(parts.sum()) / 2

    history = [look()]
    for _ in range(max_steps):
        places = 2 * moved - places
        history.append(look())
        if history[-2] - history[-1] <= tol * history[-2]:
            break
    places = moved.copy()
    history.append(look())
    size = float(measure @ (np.square(distances) @ measure)) / 2
    relative = history[-1] / max(size, np.finfo(float).tiny)
    return Placed(along_axes(places.T, measure), relative, len(history) - 1, tuple(history))


def stress(distances: Array, places: Array, measure: Array) -> float:
    """The stress of places, relative to that of all points in one."""
    off = np.square(distances - cdist(places, places))
    size = float(measure @ (np.square(distances) @ measure))
    return float(measure @ (off @ measure)) / max(size, np.finfo(float).tiny)


def along_axes(places: Array, measure: Array) -> Array:
    """Places about their mean, turned to their principal axes, widest first."""
    centred = places - measure @ places / measure.sum()
    _, _, axes = np.linalg.svd(np.sqrt(measure)[:, None] * centred, full_matrices=False)
    return centred @ axes.T


__all__ = ["Placed", "along_axes", "classical", "metric", "stress"]
