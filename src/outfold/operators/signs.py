"""Signs of coordinates, by a fixed functional of the data and never by the largest entry."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..data.sparse_rows import SparseRows, mean_and_deviation, sum_entries


def orient(functions: Array, measure: Array, features: Array | None, runner: Threads | None = None) -> Array:
    """Signs (+1 or -1) of the columns by a fixed functional of the data: sum_i pi_i psi(x_i) g(x_i) > 0.

    g is smooth and has none of the symmetries data may have, so neither the order of the rows nor
    rounding decides. Without features the third moment of psi decides, or else the row order.
    """
    size, found = np.sqrt(measure @ np.square(functions)), []
    if features is None:
        found.append(measure @ functions**3 / np.maximum(measure @ functions**2, np.finfo(float).tiny))  # unit of psi
    for probe in _probes(len(functions), measure, features, runner or Threads(1)):
        found.append(functions.T @ (probe * measure))
        scores = np.column_stack(found)  # (components, probes)
        clear = np.abs(scores) > 1e-3 * size[:, None]
        if clear.any(axis=1).all():  # the next probes would not be asked
            break
    first = np.where(clear.any(axis=1), clear.argmax(axis=1), np.abs(scores).argmax(axis=1))
    chosen = scores[np.arange(len(scores)), first]
    return np.where(chosen < 0, -1.0, 1.0)


def _probes(n: int, measure: Array, features: Array | None, runner: Threads) -> Iterator[Array]:
    """Yield three bounded generic functions of the rows, (n,) each."""
    golden = (np.sqrt(5) - 1) / 2
    if features is None:
        rows = np.arange(1, n + 1)
        yield from (np.sin(rows * golden * k + 0.5) for k in (1.0, 2.0, 3.0))
        return
    if not isinstance(features, SparseRows) and np.isnan(features.min()):
        missing = np.isnan(features)  # a metric that accepts NaN: replace NaN by the mean of the feature
        present = np.maximum(measure @ ~missing, np.finfo(float).tiny)
        features = np.where(missing, measure @ np.where(missing, 0.0, features) / present, features)
    mean, deviation = mean_and_deviation(features, measure)
    scale = float(np.linalg.norm(deviation)) or 1.0
    f = np.arange(1, features.shape[1] + 1)
    for k in range(3):
        out = np.empty(n)
        speed = 1 + (f * golden * (k + 1)) % 1.0 + k
        phase = 2 * np.pi * ((f * 0.7548776662466927 + k / 3) % 1.0)
        if isinstance(features, SparseRows):
            at, absent = features.indices, _sine(-mean / scale * speed + phase).astype(float)
            entries = _sine((features.data - mean[at]) / scale * speed[at] + phase[at]) - absent[at]
            out[:] = (sum_entries(features, entries) + absent.sum()) / len(f)
        else:
            runner.run(partial(_fill, out, features, mean, speed / scale, phase), row_blocks(n, features.shape[1]))
        out -= measure @ out
        spread = float(np.sqrt(measure @ out**2))
        yield out / (spread if spread > 0 else 1.0)


def _fill(out: Array, features: Array, mean: Array, speed: Array, phase: Array, block: slice) -> None:
    """Write the means of sin(speed (x - mean) + phase) over the features to a block of rows."""
    table = features[block] - mean
    table *= speed
    table += phase
    out[block] = _sine(table).mean(axis=1, dtype=float)


def _sine(values: Array) -> Array:
    """Return the sine in single precision, which takes a seventh of the time. The values are clipped in place."""
    sine: Array = np.sin(np.clip(values, -1e9, 1e9, out=values).astype(np.float32))
    return sine
