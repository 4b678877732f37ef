"""Loops that NumPy cannot express, compiled by numba the first time each is called.

The only module that imports numba. Every loop releases the GIL, so our own thread pool runs it on row
ranges. The plain Python functions (``loop.plain``) are the same code uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

FUSED = ("contract",)  # a * b + c may round once, where the processor can
NUMBERS = ("nnan", "nsz")  # none of them NaN: minima and maxima in vector registers
ANY_ORDER = ("reassoc", "contract", "nsz")  # of a sum: in vector registers, the same for the same build


class Loop:
    """A function compiled on first use; without a place to cache it is compiled for this process only.

    Loops of one module may call each other.
    """

    def __init__(self, plain: Callable[..., Any], freedom: tuple[str, ...] = ()) -> None:
        self.plain = plain
        self.fastmath = set(freedom)
        self.__doc__ = plain.__doc__

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        import numba

        known = self.plain.__globals__
        called = {name: known[name].compiled for name in self.plain.__code__.co_names if type(known.get(name)) is Loop}
        function = FunctionType(self.plain.__code__, {**known, **called}, self.plain.__name__)
        function.__qualname__ = self.plain.__qualname__
        try:
            return numba.njit(nogil=True, cache=True, fastmath=self.fastmath)(function)
        except RuntimeError:  # no writable folder to cache in
            return numba.njit(nogil=True, fastmath=self.fastmath)(function)


@Loop
def squared_pairs(Z, X, indptr, indices, out, start, stop):
    """Squared distances of the pairs (i, indices[...]) of rows start..stop; one fixed order of summation."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            total = 0.0
            for f in range(Z.shape[1]):
                difference = Z[i, f] - X[j, f]
                total += difference * difference
            out[p] = total


@Loop
def sort_rows(indptr, indices, values, start, stop):
    """Order each row's entries by value, then by column (insertion sort: rows are short or nearly sorted)."""
    for i in range(start, stop):
        for p in range(indptr[i] + 1, indptr[i + 1]):
            value, column = values[p], indices[p]
            q = p - 1
            while q >= indptr[i] and (values[q] > value or (values[q] == value and indices[q] > column)):
                values[q + 1], indices[q + 1] = values[q], indices[q]
                q -= 1
            values[q + 1], indices[q + 1] = value, column


@Loop
def smallest_in_rows(values, k, slack, reach, out_ptr, out, start, stop):
    """Columns whose value is within ``slack[i]`` of the row's k-th smallest or of ``reach[j]``; returns how many.

    ``out`` is (rows, width): the first ``width`` such columns of each row.
    """
    heap = np.empty(k)
    width = out.shape[1]
    for i in range(start, stop):
        filled = 0
        for j in range(values.shape[1]):
            v = values[i, j]
            if filled < k:  # sift up a max-heap
                c = filled
                heap[c] = v
                while c > 0 and heap[(c - 1) // 2] < heap[c]:
                    heap[c], heap[(c - 1) // 2] = heap[(c - 1) // 2], heap[c]
                    c = (c - 1) // 2
                filled += 1
            elif v < heap[0]:  # replace the largest and sift down
                heap[0] = v
                c = 0
                while True:
                    child = 2 * c + 1
                    if child >= k:
                        break
                    if child + 1 < k and heap[child + 1] > heap[child]:
                        child += 1
                    if heap[child] <= heap[c]:
                        break
                    heap[c], heap[child] = heap[child], heap[c]
                    c = child
        limit = heap[0] + slack[i]
        found = 0
        for j in range(values.shape[1]):
            if values[i, j] <= limit or values[i, j] <= reach[j] + slack[i]:
                if found < width:
                    out[i, found] = j
                found += 1
        out_ptr[i] = found


@Loop
def barycentric(Z, X, indptr, indices, reg, trace, out, start, stop):
    """Weights, summing to 1, by which the listed rows of X reconstruct each row of Z.

    G w = 1 with G the Gram matrix of the differences and a ridge: reg times its trace, or (``trace`` False) reg
    times its diagonal. The second is solved in units of each difference's length, so a difference of zero
    takes all the weight without a division by zero.
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
        if shortest == 0.0:  # the point itself is listed, or several in its place
            here = np.sum(unit[:k] == 0.0)
            for a in range(k):
                out[first + a] = 1.0 / here if unit[a] == 0.0 else 0.0
            continue
        ridge = reg * total if trace and total > 0.0 else reg
        for a in range(k):  # Cholesky row by row, forward on the way
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
        for a in range(k - 1, -1, -1):  # and back
            for c in range(a + 1, k):
                w[a] -= G[c, a] * w[c]
            w[a] /= G[a, a]
            out[first + a] = w[a] * (shortest / unit[a])
            total += out[first + a]
        for a in range(k):
            out[first + a] /= total


@Loop
def farthest_points(X, first, count):
    """Indices of ``count`` rows, each the farthest from those before it."""
    n, features = X.shape
    chosen = np.empty(count, np.int64)
    nearest = np.full(n, np.inf)
    at = first
    for c in range(count):
        chosen[c] = at
        best = -1.0
        following = at
        for i in range(n):
            total = 0.0
            for f in range(features):
                difference = X[i, f] - X[at, f]
                total += difference * difference
            if total < nearest[i]:
                nearest[i] = total
            if i == at:
                nearest[i] = -1.0  # taken
            if nearest[i] > best:
                best = nearest[i]
                following = i
        at = following
    return chosen


@Loop
def far_enough(X, least, most):
    """Indices of the rows, in their order, that are at squared distance >= ``least`` from those kept before."""
    kept = np.empty(most, np.int64)
    size = 0
    for i in range(X.shape[0]):
        if size == most:
            break
        free = True
        for k in range(size):
            total = 0.0
            for f in range(X.shape[1]):
                difference = X[i, f] - X[kept[k], f]
                total += difference * difference
            if total < least:
                free = False
                break
        if free:
            kept[size] = i
            size += 1
    return kept[:size]
