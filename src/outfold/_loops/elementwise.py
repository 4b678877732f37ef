"""The exponential and the softmax, compiled for large arrays, where NumPy's are the bottleneck."""

from __future__ import annotations

import numpy as np

from .._runtime.typing import Array
from . import exponentials

COMPILED_FROM = 1 << 16  # entries; for fewer, compiling (or loading from the cache) costs more than it saves


def exponential(values: Array, factor: float = 1.0) -> Array:
    """Return exp(factor * values), computed in place; every factor * value must be <= 0."""
    if values.size >= COMPILED_FROM and values.flags.c_contiguous:
        exponentials.exponential(values.reshape(-1), factor)
        return values
    values *= factor
    return np.exp(values, out=values)


def exponential_less_one(values: Array, factor: float = 1.0) -> Array:
    """Return exp(factor * values) - 1, computed in place, with all digits where it is small."""
    values *= factor
    return np.expm1(values, out=values)


def softmax(values: Array, factor: float, gain: Array, measure: Array, cut: float) -> tuple[Array, Array, Array]:
    """Overwrite ``values`` by gain * w, w = exp(factor * values - top); a w below exp(cut) may become 0.

    Returns three arrays of one value per row: top (the largest factor * value), sum of gain * w, sum of measure * w.
    """
    if values.size >= COMPILED_FROM and values.flags.c_contiguous:
        top, total, mass = np.empty((3, len(values)))
        exponentials.softmax(values, factor, gain, measure, cut, top, total, mass)
        return top, total, mass
    values *= factor
    top = values.max(axis=1)
    values -= top[:, None]
    np.exp(values, out=values)
    mass = values @ measure
    values *= gain
    return top, values.sum(axis=1), mass
