"""Sums over pairs of sparse rows, compiled. Rows are CSR with increasing columns; every sum runs along the columns."""

from __future__ import annotations

from .._runtime.jit import Loop
from .._runtime.typing import Array


@Loop
def inner_products(
    indptr: Array, indices: Array, values: Array, col_ptr: Array, rows: Array, entries: Array, out: Array, start: int
) -> None:
    """Add to out[i] the products of row start + i with the rows whose CSC arrays are ``col_ptr, rows, entries``."""
    for i in range(len(out)):
        for p in range(indptr[start + i], indptr[start + i + 1]):
            f, value = indices[p], values[p]
            for q in range(col_ptr[f], col_ptr[f + 1]):
                out[i, rows[q]] += value * entries[q]


@Loop
def _square_distance(
    indices: Array, values: Array, p: int, stop: int, other: Array, theirs: Array, q: int, end: int
) -> float:
    """Return the squared distance of two rows, whose entries lie at [p, stop) and [q, end)."""
    total = 0.0
    while p < stop or q < end:
        if q == end or (p < stop and indices[p] < other[q]):
            difference = values[p]
            p += 1
        elif p == stop or other[q] < indices[p]:
            difference = theirs[q]
            q += 1
        else:
            difference = values[p] - theirs[q]
            p += 1
            q += 1
        total += difference * difference
    return total


@Loop
def _total_difference(
    indices: Array, values: Array, p: int, stop: int, other: Array, theirs: Array, q: int, end: int
) -> float:
    """Return the sum of absolute differences of two rows, whose entries lie at [p, stop) and [q, end)."""
    total = 0.0
    while p < stop or q < end:
        if q == end or (p < stop and indices[p] < other[q]):
            total += abs(values[p])
            p += 1
        elif p == stop or other[q] < indices[p]:
            total += abs(theirs[q])
            q += 1
        else:
            total += abs(values[p] - theirs[q])
            p += 1
            q += 1
    return total


@Loop
def _inner_product(
    indices: Array, values: Array, p: int, stop: int, other: Array, theirs: Array, q: int, end: int
) -> float:
    """Return the inner product of two rows, whose entries lie at [p, stop) and [q, end)."""
    total = 0.0
    while p < stop and q < end:
        if indices[p] < other[q]:
            p += 1
        elif other[q] < indices[p]:
            q += 1
        else:
            total += values[p] * theirs[q]
            p += 1
            q += 1
    return total


@Loop
def pair_squares(
    indptr: Array, indices: Array, values: Array, other_ptr: Array, other: Array, theirs: Array,
    ptr: Array, index: Array, out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out[p] = squared distance of row i and row index[p] of the others, for p in [ptr[i], ptr[i + 1])."""
    for i in range(start, stop):
        for p in range(ptr[i], ptr[i + 1]):
            j = index[p]
            out[p] = _square_distance(
                indices, values, indptr[i], indptr[i + 1], other, theirs, other_ptr[j], other_ptr[j + 1]
            )  # fmt: skip


@Loop
def pair_differences(
    indptr: Array, indices: Array, values: Array, other_ptr: Array, other: Array, theirs: Array,
    ptr: Array, index: Array, out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out[p] = sum of absolute differences of row i and row index[p] of the others, for p in [ptr[i], ptr[i + 1])."""
    for i in range(start, stop):
        for p in range(ptr[i], ptr[i + 1]):
            j = index[p]
            out[p] = _total_difference(
                indices, values, indptr[i], indptr[i + 1], other, theirs, other_ptr[j], other_ptr[j + 1]
            )  # fmt: skip


@Loop
def pair_products(
    indptr: Array, indices: Array, values: Array, other_ptr: Array, other: Array, theirs: Array,
    ptr: Array, index: Array, out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out[p] = inner product of row i and row index[p] of the others, for p in [ptr[i], ptr[i + 1])."""
    for i in range(start, stop):
        for p in range(ptr[i], ptr[i + 1]):
            j = index[p]
            out[p] = _inner_product(
                indices, values, indptr[i], indptr[i + 1], other, theirs, other_ptr[j], other_ptr[j + 1]
            )


@Loop
def square_small(
    indptr: Array, indices: Array, values: Array, other_ptr: Array, other: Array, theirs: Array,
    norms: Array, other_norms: Array, share: float, out: Array,
) -> None:  # fmt: skip
    """Compute anew the squared distances out[i, j] below share * (norms[i] + other_norms[j]): these have cancelled."""
    for i in range(len(out)):
        for j in range(len(other_norms)):
            if out[i, j] < share * (norms[i] + other_norms[j]):
                out[i, j] = _square_distance(
                    indices, values, indptr[i], indptr[i + 1], other, theirs, other_ptr[j], other_ptr[j + 1]
                )  # fmt: skip


@Loop
def absolute_table(
    indptr: Array, indices: Array, values: Array, other_ptr: Array, other: Array, theirs: Array, out: Array
) -> None:
    """out[i, j] = sum of absolute differences of row i and row j of the others."""
    for i in range(len(out)):
        for j in range(out.shape[1]):
            out[i, j] = _total_difference(
                indices, values, indptr[i], indptr[i + 1], other, theirs, other_ptr[j], other_ptr[j + 1]
            )  # fmt: skip
