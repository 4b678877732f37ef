"""Metric multidimensional scaling: coordinates whose distances are as near as possible to a matrix of distances.

    stress = 1/2 sum_ij m_i m_j (delta_ij - |y_i - y_j|)^2

by majorisation (SMACOF; De Leeuw, 1977), started from classical scaling. A step is the Guttman transform,
y_i <- 1/M sum_j m_j delta_ij (y_i - y_j) / |y_i - y_j|, M = sum m. After a step of double length the majorising
parabola is as high as before it, so such a step does not raise the stress either, and about half as many steps are
needed (De Leeuw and Heiser, 1980).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from .._loops import smacof
from .._runtime.threads import Threads
from .._runtime.typing import Array

BLOCK_ROWS = 64  # rows of a step that a thread computes at once
POWER_STEPS = 30  # steps of the subspace iteration, for classical scaling of many points
LAPACK_UP_TO = 500  # points up to which classical scaling uses LAPACK


@dataclass(frozen=True)
class Layout:
    """The coordinates that scaling gives to the points, and their stress."""

    places: Array  # (n, components): coordinates about their mean, along their principal axes
    stress: float  # relative to the sum of squared distances over pairs; 0 is a perfect fit
    steps: int
    history: tuple[float, ...] = ()  # the stress before each step


def classical(distances: Array, count: int, measure: Array) -> Array:
    """Return the coordinates of classical scaling, (n, count), zero beyond the rank.

    Their inner products are nearest to those that the distances define.
    """
    n, total = len(distances), measure.sum()
    root = np.sqrt(measure)
    inner = np.square(distances)
    inner *= -0.5
    means = inner @ measure / total
    inner -= means[:, None]
    inner -= means - float(means @ measure / total)
    inner *= root[:, None]
    inner *= root
    if n <= LAPACK_UP_TO:
        values, vectors = eigh(inner, subset_by_index=[n - count, n - 1])
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        values, vectors = _top(inner, count)
    result: Array = vectors / root[:, None] * np.sqrt(np.maximum(values, 0.0))
    return result


def _top(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return approximations of the ``count`` largest eigenpairs, by subspace iteration from fixed columns.

    They are accurate enough to start SMACOF from.
    """
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
) -> Layout:
    """Return the layout of least stress, computed from ``start`` (None: classical scaling).

    Steps of double length are taken until one lowers the stress by less than ``tol`` of it. The last step is a plain
    one: double steps may alternate between two sides of the minimum.
    """
    n, total = len(distances), float(measure.sum())
    start = classical(distances, count, measure) if start is None else start
    places = np.ascontiguousarray(start.T, dtype=float)
    moved, parts = np.empty_like(places), np.empty(n)
    blocks = [slice(first, min(first + BLOCK_ROWS, n)) for first in range(0, n, BLOCK_ROWS)]

    def look() -> float:
        """Return the stress of ``places`` and write their Guttman transform to ``moved``."""
        runner.run(lambda b: smacof.guttman_rows(distances, places, measure, moved, parts, b.start, b.stop), blocks)
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
    return Layout(along_axes(places.T, measure), relative, len(history) - 1, tuple(history))


def stress(distances: Array, places: Array, measure: Array) -> float:
    """Return the stress of ``places``, relative to the stress of all points at the origin."""
    off = np.square(distances - cdist(places, places))
    size = float(measure @ (np.square(distances) @ measure))
    return float(measure @ (off @ measure)) / max(size, np.finfo(float).tiny)


def along_axes(places: Array, measure: Array) -> Array:
    """Return the coordinates about their mean, rotated to their principal axes, largest variance first."""
    centred = places - measure @ places / measure.sum()
    _, _, axes = np.linalg.svd(np.sqrt(measure)[:, None] * centred, full_matrices=False)
    result: Array = centred @ axes.T
    return result
