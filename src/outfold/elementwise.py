"""Elementwise functions where NumPy's own are the bottleneck."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _compiled

LARGE = 1 << 18  # below this compiling (or loading what was compiled) costs more than it saves


def exponential(values: NDArray[Any], factor: float = 1.0) -> NDArray[Any]:
    """exp(factor * values) in place; every factor * value is <= 0."""
    if values.size >= LARGE and values.flags.c_contiguous:
        _compiled.exponential(values.reshape(-1), factor)
        return values
    values *= factor
    return np.exp(values, out=values)
