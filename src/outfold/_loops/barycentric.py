"""Reconstruction weights of rows from their neighbours, compiled."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import Loop
from .._runtime.typing import Array

UNIT_ROUNDING = float(np.finfo(float).eps)


@Loop
def barycentric(
    Z: Array, X: Array, indptr: Array, indices: Array, reg: float, trace: bool, out: Array, start: int, stop: int
) -> None:
    """Write to ``out`` the weights, summing to 1, by which the listed rows of X reconstruct each row of Z.

    w solves G w = 1, with G the Gram matrix of the differences plus a ridge: reg times its trace, or (``trace``
    False) reg times its diagonal. The second is solved in units of each difference's length, so a difference of
    zero takes all the weight without a division by zero. The ridge is at least the rounding of the Gram matrix, which
    may be singular.
    """
    widest = 0
    for i in range(start, stop):
        widest = max(widest, indptr[i + 1] - indptr[i])
    features = Z.shape[1]
    D = np.empty((widest, features))
    G = np.empty((widest, widest))
    w = np.empty(widest)
    unit = np.empty(widest)
    for i in range(start, stop):
        first = indptr[i]
        k = indptr[i + 1] - first
        largest = 0.0
        for a in range(k):
            for f in range(features):
                D[a, f] = Z[i, f] - X[indices[first + a], f]
                largest = max(largest, abs(D[a, f]))
        total = 0.0
        shortest = np.inf
        for a in range(k):
            length = 0.0
            for f in range(features):
                D[a, f] = D[a, f] / largest if largest > 0.0 else 0.0
                length += D[a, f] * D[a, f]
            total += length
            unit[a] = 1.0 if trace else np.sqrt(length)
            shortest = min(shortest, unit[a])
        if shortest == 0.0:  # the list holds the point itself, or several copies of it
            here = np.sum(unit[:k] == 0.0)
            for a in range(k):
                out[first + a] = 1.0 / here if unit[a] == 0.0 else 0.0
            continue
        ridge = max(reg, 4.0 * k * UNIT_ROUNDING)
        if trace and total > 0.0:
            ridge *= total
        for a in range(k):  # Cholesky row by row, with forward substitution in the same loop
            w[a] = shortest / unit[a]
            for b in range(a + 1):
                value = 0.0
                for f in range(features):
                    value += D[a, f] * D[b, f]
                value = value / (unit[a] * unit[b]) + (ridge if a == b else 0.0)
                for c in range(b):
                    value -= G[a, c] * G[b, c]
                G[a, b] = np.sqrt(max(value, 1e-300)) if a == b else value / G[b, b]
                w[a] = w[a] / G[a, a] if a == b else w[a] - G[a, b] * w[b]
        total = 0.0
        for a in range(k - 1, -1, -1):  # back substitution
            for c in range(a + 1, k):
                w[a] -= G[c, a] * w[c]
            w[a] /= G[a, a]
            out[first + a] = w[a] * (shortest / unit[a])
            total += out[first + a]
        for a in range(k):
            out[first + a] /= total
