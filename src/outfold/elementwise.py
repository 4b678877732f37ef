"""Elementwise functions where NumPy's own are the bottleneck."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _softmax

Array = NDArray[Any]

LARGE = 1 << 16  # below this compiling (or loading what was compiled) costs more than it saves


def exponential(values: Array, factor: float = 1.0) -> Array:
    """exp(factor * values) in place; every factor * value is <= 0."""
    if values.size >= LARGE and values.flags.c_contiguous:
        _softmax.exponential(values.reshape(-1), factor)
        return values
    values *= factor
    return np.exp(values, out=values)


def softmax(values: Array, factor: float, gain: Array, measure: Array, cut: float) -> tuple[Array, Array, Array]:
    """gain * w in place, w = exp(factor * values - top), of which what is below exp(cut) may be 0.

    Returns each row's top, its sum of gain * w and its sum of measure * w.
    """
    if values.size >= LARGE and values.flags.c_contiguous:
        top, total, mass = np.empty((3, len(values)))
        _softmax.softmax(values, factor, gain, measure, cut, top, total, mass)
        return top, total, mass
    values *= factor
    top = values.max(axis=1)
    values -= top[:, None]
    np.exp(values, out=values)
    mass = values @ measure
    values *= gain
    return top, values.sum(axis=1), mass
