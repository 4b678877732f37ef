"""Elementwise functions where NumPy's own are the bottleneck."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _compiled

LARGE = 1 << 16  # below this compiling (or loading what was compiled) costs more than it saves


def exponential(values: NDArray[Any], factor: float = 1.0) -> NDArray[Any]:
    """exp(factor * values) in place; every factor * value is <= 0."""
    if values.size >= LARGE and values.flags.c_contiguous:
        _compiled.exponential(values.reshape(-1), factor)
        return values
    values *= factor
    return np.exp(values, out=values)


def softmax(logs: NDArray[Any], gain: NDArray[Any], cut: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """gain * exp(logs - top) in the place of logs, and the top of each row; what is below ``cut`` may be 0."""
    if logs.size >= LARGE and logs.flags.c_contiguous:
        top = np.empty(len(logs))
        _compiled.softmax(logs, gain, cut, top)
        return logs, top
    top = logs.max(axis=1)
    logs -= top[:, None]
    np.exp(logs, out=logs)
    logs *= gain
    return logs, top
