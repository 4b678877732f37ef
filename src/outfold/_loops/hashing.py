"""Hashes of rows, compiled."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import Loop
from .._runtime.typing import Array

MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # multipliers of splitmix64
SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
ZERO, MINUS_ZERO = np.uint64(0), np.uint64(1 << 63)


@Loop
def hash_entries(bits: Array, columns: Array, out: Array, start: int, stop: int) -> None:
    """out[i] = the sum over row i of splitmix64(bits ^ columns), without the entries that are 0 or -0."""
    for i in range(start, stop):
        total = ZERO
        for f in range(bits.shape[1]):
            key = bits[i, f]
            if key != ZERO and key != MINUS_ZERO:
                key ^= columns[f]
                key ^= key >> SHIFTS[0]
                key *= MIX[0]
                key ^= key >> SHIFTS[1]
                key *= MIX[1]
                key ^= key >> SHIFTS[2]
                total += key
        out[i] = total
