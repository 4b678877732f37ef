"""Checks and scaling of sample weights, which are the measure on the training points."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._runtime.typing import Array, Weights
from .sources import Measure, Source, collection, unit_measure


def measure_on(rows: Source, sample_weight: Weights, unit: float | None = None) -> Any:
    """Return the measure on rows: weights over ``unit``. With None whole numbers are counts, others get mean 1."""
    parts = _weights_in_parts(rows, sample_weight, unit)
    if parts is not None:
        return parts
    return sample_measure(sample_weight, len(rows)) if unit is None else _scale(sample_weight, len(rows), unit)


def weights_on(name: str, rows: Source, values: Weights) -> Measure:
    """Return the checked weight of each row, not scaled; 1 if ``values`` is None. ``name`` is for messages."""
    parts = _weights_in_parts(rows, values, 1.0)
    return check_weights(name, values, len(rows)) if parts is None else parts


def weight_unit(sample_weight: Weights) -> float:
    """Return the divisor of a fit's weights: 1 if all are whole numbers (counts), else the mean of those above 0."""
    found = collection(sample_weight)
    if found is not None:
        return found.unit(sample_weight)
    given = np.atleast_1d(np.asarray(1.0 if sample_weight is None else sample_weight, dtype=float))
    return 1.0 if (given == np.round(given)).all() else float(given[given > 0].mean())


def _weights_in_parts(rows: Source, values: Weights, unit: float | None) -> Measure | None:
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
    return np.broadcast_to(given / unit, n)


def sample_measure(sample_weight: Weights, n: int) -> Array:
    """Return the measure (n,): whole-number weights are counts, others are scaled to mean 1."""
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
    return weights if (weights == np.round(weights)).all() else weights / weights[weights > 0].mean()


def check_weights(name: str, values: Weights, rows: int) -> Array:
    """Return the checked weight of each row, (rows,); 1 if ``values`` is None. ``name`` is for messages."""
    if values is None:
        return unit_measure(rows)
    weights = np.asarray(values, dtype=float)
    if weights.shape != (rows,) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"{name} of shape {weights.shape} must be {rows} finite numbers >= 0, one a row, not all 0.")
    return weights
