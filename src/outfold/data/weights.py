"""Sample weights, which are the measure on the training points: the number of copies of each row, also fractional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._runtime.typing import Array, Weights
from .inputs import read_weights
from .sources import Measure, Source, collection, unit_measure

SUM_ROUNDING = 1e-12  # sums of weights that differ by less, relatively, are the same
SCALES = 1e-9, 1e15  # of the largest weight: beyond, sums and products of weights lose what a fit needs of them
NEGLIGIBLE_WEIGHT = 1e-12  # of the largest: with less, the root of a weight is lost in rounding


def measure_on(rows: Source, sample_weight: Weights) -> Any:
    """Return the measure on the rows of a fit: their weights, 1 if None."""
    parts = _weights_in_parts(rows, sample_weight, 1.0)
    return (
        sample_measure(read_weights("sample_weight", sample_weight, len(rows)), len(rows)) if parts is None else parts
    )


def added_measure(rows: Source, sample_weight: Weights, unit: float) -> Any:
    """Return the measure on rows that are added to a fit: their weights over the ``unit`` of that fit."""
    parts = _weights_in_parts(rows, sample_weight, unit)
    return _scale(read_weights("sample_weight", sample_weight, len(rows)), len(rows), unit) if parts is None else parts


def weights_on(name: str, rows: Source, values: Weights) -> Measure:
    """Return the checked weight of each row; 1 if ``values`` is None. ``name`` is for messages."""
    parts = _weights_in_parts(rows, values, 1.0)
    return check_weights(name, read_weights(name, values, len(rows)), len(rows)) if parts is None else parts


def normalize_weights(weights: Any) -> Any:
    """Return the weights divided by the mean of those above 0.

    ``sample_weight`` is the number of copies of a row, so its scale matters wherever neighbours are counted. Weights of
    another kind (probabilities, importances) have no scale of their own: give them this one, in which a typical row
    counts once.

    Parameters
    ----------
    weights : array of shape (n,), or a Dask array
        Finite and >= 0, not all 0.

    Examples
    --------
    >>> normalize_weights([1.0, 3.0, 0.0]).tolist()
    [0.5, 1.5, 0.0]
    """
    if collection(weights) is not None:
        return weights / (weights.sum() / (weights > 0).sum())
    given = np.asarray(weights, dtype=float)
    checked = _check_values("weights", given, len(np.atleast_1d(given)))
    relative = checked / checked.max()  # whose sum is finite
    return relative / relative[checked > 0].mean()


def _weights_in_parts(rows: Source, values: Weights, unit: float) -> Measure | None:
    """Return the weights if both they and the rows are in partitions, else None."""
    found = collection(values) if rows.in_parts else None
    return None if found is None else found.weights(values, rows, unit)


def _scale(sample_weight: Weights, n: int, unit: float) -> Array:
    """Return the weights of ``n`` rows that are added to a fit, divided by the ``unit`` of that fit."""
    given = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=float)
    if given.ndim > 1 or (given.ndim == 1 and len(given) != n):
        raise ValueError(f"sample_weight has shape {given.shape} for {n} rows.")
    if not np.isfinite(given).all() or (given < 0).any() or not (given > 0).any():
        raise ValueError(
            f"sample_weight must be finite and >= 0, and not all 0; the smallest given is {given.min():.3g}."
        )
    check_scale("sample_weight", float(given.max()))
    return np.broadcast_to(given / unit, n)


def sample_measure(sample_weight: Weights, n: int) -> Array:
    """Return the measure (n,): the number of copies of each row."""
    if sample_weight is None:
        return unit_measure(n)
    weights = np.array(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}.")
    if len(weights) != n:
        raise ValueError(f"sample_weight has {len(weights)} entries for {n} rows.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"sample_weight must be finite and >= 0; the smallest given is {weights.min():.3g}.")
    if (weights > 0).sum() < 2:
        raise ValueError(
            f"sample_weight is zero for all but {(weights > 0).sum()} of {n} rows; a fit needs at least 2 rows of "
            "positive weight."
        )
    check_scale("sample_weight", float(weights.max()))
    return weights


def check_weights(name: str, values: Weights, rows: int) -> Array:
    """Return the checked weight of each row, (rows,); 1 if ``values`` is None. ``name`` is for messages."""
    if values is None:
        return unit_measure(rows)
    weights = _check_values(name, values, rows)
    check_scale(name, float(weights.max()))
    return weights


def _check_values(name: str, values: Weights, rows: int) -> Array:
    weights = np.asarray(values, dtype=float)
    if weights.shape != (rows,) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"{name} of shape {weights.shape} must be {rows} finite numbers >= 0, one a row, not all 0.")
    return weights


def check_scale(name: str, largest: float) -> None:
    """Raise ValueError if the largest weight is so large or so small that no number of copies is meant."""
    low, high = SCALES
    if not low <= largest <= high:
        raise ValueError(
            f"The largest {name} is {largest:.3g}. A weight is the number of copies of a row, from "
            f"{low:.0e} to {high:.0e}. Pass outfold.data.normalize_weights(weights), where a typical row counts once."
        )


def leave_out_negligible(measure: Any) -> tuple[Any, list[str]]:
    """Return the measure with 0 for weights that are negligible beside the largest, and what to say about them."""
    if not isinstance(measure, np.ndarray):  # in partitions: they were left out when these were looked at
        found = measure.negligible
        return measure, [negligible_weights(found, len(measure), measure.largest)] if found else []
    largest = float(measure.max())
    negligible = (measure > 0) & (measure < NEGLIGIBLE_WEIGHT * largest)
    if not negligible.any():
        return measure, []
    if ((measure > 0) & ~negligible).sum() < 2:
        raise ValueError(
            f"One row has a sample_weight of {largest:.3g}, and all {negligible.sum()} others less than "
            f"{NEGLIGIBLE_WEIGHT:.0e} of that: rounding hides them. Lower the weight of row {measure.argmax()}."
        )
    left = np.where(negligible, 0.0, measure)
    return left, [negligible_weights(int(negligible.sum()), len(measure), largest)]


def negligible_weights(count: int, rows: int, largest: float) -> str:
    """Return what to say about rows whose weights are negligible beside the largest."""
    them = "1 sample weight is" if count == 1 else f"{count} of {rows} sample weights are"
    rest = "Its row was" if count == 1 else "Their rows were"
    return (
        f"{them} above 0 but below {NEGLIGIBLE_WEIGHT:.0e} of the largest ({largest:.3g}), which rounding hides. "
        f"{rest} left out of the fit, as with a weight of 0. Set such weights to 0 if you mean that, or raise them."
    )


# -- statistics that are continuous in the weights -------------------------------------------
#
# The k-th of sorted values, where each value lies `weight` times, is their mean over the copies between ranks k - 1
# and k. For whole weights and k that is the k-th value itself; in between it is continuous in every weight and in k.


def mean_at_rank(values: Array, weights: Array, rank: float) -> float:
    """Return the ``rank``-th of sorted values that are repeated ``weights`` times: their mean over (rank - 1, rank]."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends = np.cumsum(weights[order])
    low, high = max(rank - max(1.0, 4 * SUM_ROUNDING * rank), 0.0), rank  # of very many copies, one is not resolved
    for at in (low, high):
        ends[np.abs(ends - at) <= SUM_ROUNDING * max(1.0, at)] = at
    ends[-1] = max(ends[-1], high)  # beyond all copies: the last value
    shares = np.diff(np.clip(ends, low, high), prepend=low)
    some = np.flatnonzero(shares > 0)
    base = ordered[some[0]]
    if not np.isfinite(ordered[some[-1]]):
        return float(ordered[some[-1]])
    return float(base + shares[some] @ (ordered[some] - base) / (high - low))


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """Return the least value with at least the share ``level`` of the weights at or below it, continuously.

    Its rank is ceil(level * total) for a whole total, and linear in between.
    """
    total = float(weights.sum())
    return mean_at_rank(values, weights, at_whole_numbers(lambda n: np.ceil(level * n * (1 - SUM_ROUNDING)), total))


def at_whole_numbers(function: Callable[[float], float], total: float) -> float:
    """Return ``function(total)`` for a whole total; in between, the line through the values at its whole neighbours."""
    below = float(np.floor(total + SUM_ROUNDING * max(1.0, total)))
    beyond = total - below
    if beyond <= SUM_ROUNDING * max(1.0, total):
        return float(function(below))
    return float((1 - beyond) * function(below) + beyond * function(below + 1))
