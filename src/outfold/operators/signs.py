"""Signs of coordinates, by a fixed functional of the data and never by the largest entry."""

from __future__ import annotations

import numpy as np

from .._runtime.threads import row_blocks
from .._runtime.typing import Array
from ..data.sparse_rows import SparseRows, mean_and_deviation, sum_entries


def orient(functions: Array, measure: Array, features: Array | None) -> Array:
    """Signs (+1 or -1) of the columns by a fixed functional of the data: sum_i pi_i psi(x_i) g(x_i) > 0.

    g is smooth and has none of the symmetries data may have, so neither the order of the rows nor
    rounding decides. Without features the third moment of psi decides, or else the row order.
    """
    probes = _probes(len(functions), measure, features)
    scores = functions.T @ (probes * measure[:, None])  # (components, probes)
    if features is None:
        cubes = measure @ functions**3 / np.maximum(measure @ functions**2, np.finfo(float).tiny)  # unit of psi
        scores = np.column_stack([cubes, scores])
    size = np.sqrt(measure @ np.square(functions))[:, None]
    clear = np.abs(scores) > 1e-3 * size
    first = np.where(clear.any(axis=1), clear.argmax(axis=1), np.abs(scores).argmax(axis=1))
    chosen = scores[np.arange(len(scores)), first]
    return np.where(chosen < 0, -1.0, 1.0)


def _probes(n: int, measure: Array, features: Array | None) -> Array:
    """Three bounded generic functions of the rows, (n, 3)."""
    golden = (np.sqrt(5) - 1) / 2
    if features is None:
        rows = np.arange(1, n + 1)[:, None]
        result: Array = np.sin(rows * golden * np.array([1.0, 2.0, 3.0]) + 0.5)
        return result
    if not isinstance(features, SparseRows) and np.isnan(features.min()):
        missing = np.isnan(features)  # a metric that accepts NaN: replace NaN by the mean of the feature
        present = np.maximum(measure @ ~missing, np.finfo(float).tiny)
        features = np.where(missing, measure @ np.where(missing, 0.0, features) / present, features)
    mean, deviation = mean_and_deviation(features, measure)
    scale = float(np.linalg.norm(deviation)) or 1.0
    f = np.arange(1, features.shape[1] + 1)
    out = np.empty((n, 3))
    for k in range(3):
        speed = 1 + (f * golden * (k + 1)) % 1.0 + k
        phase = 2 * np.pi * ((f * 0.7548776662466927 + k / 3) % 1.0)
        if isinstance(features, SparseRows):
            at, absent = features.indices, np.sin(-mean / scale * speed + phase)
            entries = np.sin((features.data - mean[at]) / scale * speed[at] + phase[at]) - absent[at]
            out[:, k] = (sum_entries(features, entries) + absent.sum()) / len(f)
        else:
            for block in row_blocks(n, features.shape[1]):
                out[block, k] = np.sin((features[block] - mean) / scale * speed + phase).mean(axis=1)
    out -= measure @ out
    spread = np.sqrt(measure @ out**2)
    return out / np.where(spread > 0, spread, 1.0)
