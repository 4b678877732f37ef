"""One step of metric multidimensional scaling (SMACOF), compiled."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import ANY_ORDER, loop_with
from .._runtime.typing import Array


@loop_with(ANY_ORDER)
def guttman_rows(
    targets: Array, places: Array, measure: Array, out: Array, parts: Array, start: int, stop: int
) -> None:
    """Write rows start..stop of the Guttman transform, times the total measure, and each row's part of the stress.

    ``places`` and ``out`` are (components, n): the loops over j run in vector registers. Two points with equal
    coordinates do not move each other.
    """
    count, width = places.shape[1], places.shape[0]
    lengths, pulls = np.empty(count), np.empty(count)
    for i in range(start, stop):
        row = targets[i]
        lengths[:] = 0.0
        for c in range(width):
            here, line = places[c, i], places[c]
            for j in range(count):
                lengths[j] += (here - line[j]) * (here - line[j])
        stress = 0.0
        for j in range(count):
            length = np.sqrt(lengths[j])
            stress += measure[j] * (row[j] - length) * (row[j] - length)
            pulls[j] = measure[j] * row[j] / (length if length > 0.0 else np.inf)
        for c in range(width):
            here, line = places[c, i], places[c]
            total = 0.0
            for j in range(count):
                total += pulls[j] * (here - line[j])
            out[c, i] = total
        parts[i] = measure[i] * stress
