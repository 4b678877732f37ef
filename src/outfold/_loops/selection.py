"""Selection of rows and pairs, compiled: squared distances of pairs, smallest entries, farthest points."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import Loop
from .._runtime.typing import Array


@Loop
def squared_pairs(Z: Array, X: Array, indptr: Array, indices: Array, out: Array, start: int, stop: int) -> None:
    """Write squared distances of the pairs (i, indices[...]) of rows start..stop.

    Each sum has one fixed order, feature by feature. An addition waits for the one before it in its sum, so the sums of
    four pairs are computed together.
    """
    features = Z.shape[1]
    for i in range(start, stop):
        p, last = indptr[i], indptr[i + 1]
        while p + 4 <= last:
            j0, j1, j2, j3 = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]
            sum0 = sum1 = sum2 = sum3 = 0.0
            for f in range(features):
                z = Z[i, f]
                d0, d1, d2, d3 = z - X[j0, f], z - X[j1, f], z - X[j2, f], z - X[j3, f]
                sum0 += d0 * d0
                sum1 += d1 * d1
                sum2 += d2 * d2
                sum3 += d3 * d3
            out[p], out[p + 1], out[p + 2], out[p + 3] = sum0, sum1, sum2, sum3
            p += 4
        while p < last:
            total = 0.0
            for f in range(features):
                difference = Z[i, f] - X[indices[p], f]
                total += difference * difference
            out[p] = total
            p += 1


@Loop
def squared_pairs_of(
    rows: Array, Z: Array, X: Array, indptr: Array, indices: Array, out: Array, start: int, stop: int
) -> None:
    """Write squared distances of the pairs of rows[start:stop]."""
    for at in range(start, stop):
        squared_pairs(Z, X, indptr, indices, out, rows[at], rows[at] + 1)


@Loop
def sort_rows(indptr: Array, indices: Array, values: Array, start: int, stop: int) -> None:
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
def smallest_in_rows(
    values: Array, k: int, slack: Array, reach: Array, out_ptr: Array, out: Array, start: int, stop: int
) -> None:
    """Select the columns j of row i whose value is at most its k-th smallest, or ``reach[j]``, plus ``slack[i]``.

    ``out_ptr[i]`` becomes their number; ``out``, (rows, width), the first ``width`` such columns of each row.
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
def farthest_points(X: Array, first: int, count: int) -> Array:
    """Return the indices of ``count`` rows, each the farthest from those before it."""
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
                nearest[i] = -1.0  # chosen already
            if nearest[i] > best:
                best = nearest[i]
                following = i
        at = following
    return chosen


@Loop
def far_enough(X: Array, least: float, most: int) -> Array:
    """Return indices of at most ``most`` rows, each at squared distance >= ``least`` from those selected before it."""
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


@Loop
def share_nearest(
    indptr: Array, indices: Array, squared: Array, counted: Array, k: float, shares: Array, kept: Array, moments: Array
) -> None:
    """Select the nearest entries of each row whose counts add up to ``k``; rows must be nearest first.

    Entries at the distance where the count passes ``k`` share what is left of it: ``shares`` is their part, 1 for the
    entries before. ``kept`` becomes the number of selected entries, ``moments`` the mean of their squared distances,
    weighted by count and share.
    """
    for i in range(len(indptr) - 1):
        mass, moment = 0.0, 0.0
        p, stop = indptr[i], indptr[i + 1]
        while p < stop and mass < k * (1 - 1e-12):
            ties, q = 0.0, p
            while q < stop and squared[q] == squared[p]:
                ties += counted[indices[q]]
                q += 1
            share = min(1.0, (k - mass) / ties)
            for at in range(p, q):
                shares[at] = share
            mass += share * ties
            moment += share * ties * squared[p]
            p = q
        kept[i] = p - indptr[i]
        moments[i] = moment / mass
