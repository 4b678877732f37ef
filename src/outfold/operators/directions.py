"""Which eigenfunctions are new directions, and which are functions of earlier ones (Dsilva et al., 2018)."""

from __future__ import annotations

import numpy as np

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..distances import Metric

LOOKED = 12  # eigenpairs that n_components="auto" compares
REGRESSED_ROWS = 1000  # rows at most by which it compares them
ROWS_PER_DIRECTION = 20  # of fewer rows, every late eigenfunction looks new
LEAST_RESIDUAL = 0.4  # a coordinate with a larger residual is a new direction
SCALE = 1 / 3  # bandwidth of the regression, relative to the median distance
SLOPE_RIDGE = 1e-6  # relative to the variance: one neighbour in reach of a row does not determine a slope


def count_directions(functions: Array, dimension: float, runner: Threads) -> int:
    """Return how many of the first columns to keep: up to the last new direction, and no fewer than ``dimension``.

    If data of two dimensions or more have one new direction, the column with the next largest residual counts as one:
    nearly equal eigenvalues mix a new direction with functions of earlier ones.
    """
    columns: int = functions.shape[1]
    if columns == 1:
        return 1
    left = residuals_of(functions, SCALE, True, runner)[1:]
    new = np.flatnonzero(left > LEAST_RESIDUAL) + 2
    last = int(new[-1]) if len(new) else 1
    whole = round(float(dimension))
    if last == 1 and whole > 1:
        last = int(left.argmax()) + 2
    return min(columns, max(last, whole))


def residuals_of(functions: Array, scale: float, standardize: bool, runner: Threads) -> Array:
    """Return the part of each column that a local linear regression on the earlier ones leaves, relative to its size.

    See :func:`outfold.selection.residuals`.
    """
    functions = functions - functions.mean(axis=0)
    spread = np.sqrt((functions**2).mean(axis=0))
    largest = max(float(spread.max()), np.finfo(float).tiny)
    constant = spread <= 1e-12 * largest
    functions = functions / (np.where(constant, 1.0, spread) if standardize else largest)
    found = np.ones(functions.shape[1])
    for k in range(1, functions.shape[1]):
        if constant[k]:
            found[k] = 0.0
            continue
        left = functions[:, k] - _predict(functions[:, :k], functions[:, k], scale, runner)
        found[k] = np.sqrt((left**2).sum() / (functions[:, k] ** 2).sum())
    return found


def _predict(known: Array, wanted: Array, scale: float, runner: Threads) -> Array:
    """Return the value of each row, predicted by a weighted linear regression over the other rows."""
    n, k = known.shape
    distances = Metric().fit(np.ascontiguousarray(known))
    squared = distances.gram(runner)
    width = _width(squared, scale)
    pair = np.triu_indices(k)
    moments = np.column_stack(
        [np.ones(n), wanted, known, known * wanted[:, None], known[:, pair[0]] * known[:, pair[1]]]
    )
    ridge = SLOPE_RIDGE * float((known**2).mean(axis=0).sum()) * np.eye(k)

    def of(block: slice) -> Array:
        logs = squared[block] / -(width**2)
        at = np.arange(block.start, block.stop)
        logs[np.arange(len(at)), at] = -np.inf  # leave-one-out: a row does not predict itself
        logs -= logs.max(axis=1, keepdims=True)
        sums = np.exp(logs) @ moments
        sums /= sums[:, :1]
        value, centre, cross = sums[:, 1], sums[:, 2 : 2 + k], sums[:, 2 + k : 2 + 2 * k]
        second = np.empty((len(at), k, k))
        second[:, pair[0], pair[1]] = second[:, pair[1], pair[0]] = sums[:, 2 + 2 * k :]
        second += ridge - centre[:, :, None] * centre[:, None, :]
        slope = np.linalg.solve(second, (cross - centre * value[:, None])[:, :, None])[:, :, 0]
        predicted: Array = value + ((known[block] - centre) * slope).sum(axis=1)
        return predicted

    return np.concatenate(list(runner.map(of, row_blocks(n, n), "regressions")))


def _width(squared: Array, scale: float) -> float:
    """Return scale * the median distance between rows, without distances of 0 if that median is 0 (copies)."""
    lengths = np.sqrt(squared[np.triu_indices(len(squared), 1)])
    lengths = lengths[lengths > 0] if np.median(lengths) == 0 else lengths
    return scale * float(np.median(lengths)) if len(lengths) else 1.0
