"""Sparse rows, compiled: patterns, products and sums over CSR arrays."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import FUSED, Loop, loop_with
from .._runtime.typing import Array


@Loop
def transpose_within(indptr: Array, indices: Array, values: Array, limits: Array, columns: int) -> tuple[Array, Array]:
    """Return the transposed pattern of the entries with values[p] <= limits[row], columns int32 and increasing."""
    counts = np.zeros(columns + 1, np.int64)
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            counts[indices[p] + 1] += values[p] <= limits[i]
    for j in range(columns):
        counts[j + 1] += counts[j]
    place = counts[:-1].copy()
    rows = np.empty(counts[columns], np.int32)
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            if values[p] <= limits[i]:
                j = indices[p]
                rows[place[j]] = i
                place[j] += 1
    return counts, rows


@Loop
def reaching(
    indptr: Array, indices: Array, values: Array, weights: Array, mass: float, out: Array, start: int, stop: int
) -> None:
    """out[i] = the value at which the weights of row i, summed in order, reach ``mass``; else the row's last value."""
    for i in range(start, stop):
        held = 0.0
        at = indptr[i + 1] - 1
        for p in range(indptr[i], indptr[i + 1]):
            held += weights[indices[p]]
            if held >= mass * (1 - 1e-12):
                at = p
                break
        out[i] = values[at]


@Loop
def mean_at_rank(
    indptr: Array, indices: Array, values: Array, weights: Array, rank: float, out: Array, start: int, stop: int
) -> None:
    """out[i] = the mean of row i's values, sorted and repeated ``weights`` times, over the copies (rank - 1, rank].

    Where a row has fewer copies, its last value takes the place of those that are missing.
    """
    low, high = max(rank - 1.0, 0.0), rank
    close_low, close_high = 1e-12 * max(1.0, low), 1e-12 * max(1.0, high)
    for i in range(start, stop):
        held, below = 0.0, low
        base, mean = np.nan, 0.0
        last = indptr[i + 1] - 1
        for p in range(indptr[i], last + 1):
            held += weights[indices[p]]
            if held <= low + close_low and p < last:
                continue
            end = high if held >= high - close_high or p == last else held
            if np.isnan(base):
                base = values[p]
            elif end > below and values[p] > base:
                mean += (end - below) * (values[p] - base)
            below = end
            if end == high:
                break
        out[i] = base + mean / (high - low)


@Loop
def union_rows(a_ptr: Array, a: Array, b_ptr: Array, b: Array) -> tuple[Array, Array]:
    """Return the union of two patterns; rows of both, and of the union, are in increasing order of column."""
    n = len(a_ptr) - 1
    ptr = np.zeros(n + 1, np.int64)
    out = np.empty(len(a) + len(b), a.dtype)
    at = 0
    for i in range(n):
        p, q = a_ptr[i], b_ptr[i]
        while p < a_ptr[i + 1] or q < b_ptr[i + 1]:
            if q >= b_ptr[i + 1] or (p < a_ptr[i + 1] and a[p] < b[q]):
                out[at] = a[p]
                p += 1
            elif p >= a_ptr[i + 1] or b[q] < a[p]:
                out[at] = b[q]
                q += 1
            else:
                out[at] = a[p]
                p += 1
                q += 1
            at += 1
        ptr[i + 1] = at
    return ptr, out[:at].copy()


@Loop
def label_components(indptr: Array, indices: Array) -> Array:
    """Return the component of each row of a symmetric pattern, (n,); components are numbered by their first row."""
    n = len(indptr) - 1
    parent = np.empty(n, np.int64)
    for i in range(n):
        parent[i] = i
    for i in range(n):
        a = i
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        for p in range(indptr[i], indptr[i + 1]):
            b = indices[p]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a != b:  # union-find: the smaller root becomes the parent
                if b < a:
                    a, b = b, a
                parent[b] = a
    labels = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if parent[i] == i:
            labels[i] = count
            count += 1
        else:
            labels[i] = labels[parent[i]]  # a parent precedes its children, so its label is set already
    return labels


@Loop
def off_diagonal_sums(indptr: Array, indices: Array, data: Array, weights: Array) -> Array:
    """Return sum_j data_ij weights_j over j other than i, for each row i."""
    out = np.zeros(len(indptr) - 1)
    for i in range(len(indptr) - 1):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            if indices[p] != i:
                total += data[p] * weights[indices[p]]
        out[i] = total
    return out


@loop_with(FUSED)
def times_block(indptr: Array, indices: Array, data: Array, V: Array, out: Array, start: int, stop: int) -> None:
    """out[start:stop] = (sparse rows start..stop) @ V for a dense block V."""
    width = V.shape[1]
    total = np.empty(width, V.dtype)
    for i in range(start, stop):
        for c in range(width):
            total[c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            weight, j = data[p], indices[p]
            for c in range(width):
                total[c] += weight * V[j, c]
        for c in range(width):
            out[i, c] = total[c]


@loop_with(FUSED)
def recur(
    indptr: Array, indices: Array, data: Array, onto: Array, now: Array, rest: Array, coefficients: Array, add: Array,
    out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out = gain M onto - shift now + keep out + add rest in rows start..stop: a step of a three-term recurrence.

    M are the sparse rows, ``coefficients`` are (gain, shift, keep), and ``add`` has a value for each column.
    """
    width = now.shape[1]
    gain, shift, keep = coefficients
    total = np.empty(width, now.dtype)
    for i in range(start, stop):
        for c in range(width):
            total[c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            weight, j = data[p], indices[p]
            for c in range(width):
                total[c] += weight * onto[j, c]
        for c in range(width):
            out[i, c] = gain * total[c] - shift * now[i, c] + keep * out[i, c] + add[c] * rest[i, c]


@loop_with(FUSED)
def smooth(
    indptr: Array, indices: Array, data: Array, top: float | np.float32, V: Array, R: Array, keep: float | np.float32,
    gain: Array, onto: Array, add: float | np.float32, out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out = keep V + gain (R - (top - S) V) + add onto in rows start..stop: a step of relaxation in one pass.

    ``gain`` has a value for each row; blocks have a multiple of eight columns.
    """
    zero = V.dtype.type(0)
    for i in range(start, stop):
        first, last = indptr[i], indptr[i + 1]
        g = gain[i]
        k = keep - g * top
        for c in range(0, V.shape[1], 8):
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
            for p in range(first, last):
                weight, row = data[p], V[indices[p], c : c + 8]
                a0 += weight * row[0]
                a1 += weight * row[1]
                a2 += weight * row[2]
                a3 += weight * row[3]
                a4 += weight * row[4]
                a5 += weight * row[5]
                a6 += weight * row[6]
                a7 += weight * row[7]
            v, r, o, at = V[i, c : c + 8], R[i, c : c + 8], onto[i, c : c + 8], out[i, c : c + 8]
            at[0], at[1], at[2], at[3] = a0, a1, a2, a3
            at[4], at[5], at[6], at[7] = a4, a5, a6, a7
            for q in range(8):
                at[q] = k * v[q] + g * (r[q] + at[q]) + add * o[q]


@Loop
def largest_in_rows(indptr: Array, values: Array, keep: int, sums: Array, start: int, stop: int) -> None:
    """Set all but the ``keep`` largest values of each row to 0 and scale the rest to the row's sum, in place."""
    best = np.empty(keep)
    for i in range(start, stop):
        best[:] = -np.inf
        for p in range(indptr[i], indptr[i + 1]):
            v = values[p]
            c = keep - 1
            while c >= 0 and best[c] < v:
                if c < keep - 1:
                    best[c + 1] = best[c]
                best[c] = v
                c -= 1
        total = 0.0
        left = keep
        for p in range(indptr[i], indptr[i + 1]):
            if values[p] < best[keep - 1] or left == 0 or values[p] <= 0.0:
                values[p] = 0.0
            else:
                total += values[p]
                left -= 1
        if total > 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                values[p] *= sums[i] / total


@Loop
def aggregate(indptr: Array, indices: Array, data: Array, least: float) -> tuple[Array, int]:
    """Cover a graph by small neighbourhoods: a label for each row, and how many labels there are.

    A row none of whose neighbours has a label becomes a root and labels them. A row that is left joins the
    neighbourhood of its heaviest edge. Around a root, edges below ``least`` do not count.
    """
    n = len(indptr) - 1
    labels = np.full(n, -1, np.int64)
    count = 0
    for i in range(n):
        if labels[i] >= 0:
            continue
        free = True
        for p in range(indptr[i], indptr[i + 1]):
            if data[p] >= least and labels[indices[p]] >= 0:
                free = False
                break
        if free:
            for p in range(indptr[i], indptr[i + 1]):
                if data[p] >= least:
                    labels[indices[p]] = count
            labels[i] = count
            count += 1
    roots = labels.copy()
    for i in range(n):
        if labels[i] >= 0:
            continue
        best = -1.0
        for p in range(indptr[i], indptr[i + 1]):
            if roots[indices[p]] >= 0 and data[p] > best:
                best = data[p]
                labels[i] = roots[indices[p]]
        if labels[i] < 0:
            labels[i] = count
            count += 1
    return labels, count


@Loop
def sums_both_ways(indptr: Array, indices: Array, data: Array, measure: Array, by_column: Array, by_row: Array) -> None:
    """Add to ``by_column`` each column's sum of entries times their rows' measure; write row sums to ``by_row``."""
    for i in range(len(indptr) - 1):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p]
            by_column[indices[p]] += data[p] * measure[i]
        by_row[i] = total


@Loop
def over_root_degrees(
    indptr: Array, indices: Array, data: Array, gain: Array, measure: Array, start: int, stop: int
) -> None:
    """Overwrite CSR rows start..stop by w sqrt(m / d), d = the row's sum of w * gain; by 0 where d is 0."""
    for i in range(start, stop):
        d = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            d += data[p] * gain[indices[p]]
        scale = np.sqrt(measure[i] / d) if d > 1e-300 else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            data[p] *= scale


@Loop
def sort_first(numbers: Array, count: int) -> None:
    """Sort the first ``count`` numbers in place (Shell sort; numba compiles ``np.sort`` for a second)."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for p in range(gap, count):
            number, q = numbers[p], p
            while q >= gap and numbers[q - gap] > number:
                numbers[q] = numbers[q - gap]
                q -= gap
            numbers[q] = number
        gap //= 3


@Loop
def gram_rows(
    back_ptr: Array, back_rows: Array, back_values: Array, indptr: Array, indices: Array, data: Array, start: int,
    stop: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return rows start..stop of W'W: entries per row, their columns (in increasing order), their values."""
    total, room = 0, 256 * (stop - start)
    counts, columns, values = np.empty(stop - start, np.int64), np.empty(room, np.int32), np.empty(room)
    sums, seen = np.zeros(len(back_ptr) - 1), np.zeros(len(back_ptr) - 1, np.bool_)
    touched = np.empty(len(sums), np.int32)
    for j in range(start, stop):
        count = 0
        for q in range(back_ptr[j], back_ptr[j + 1]):
            i, w = back_rows[q], back_values[q]
            for p in range(indptr[i], indptr[i + 1]):
                column = indices[p]
                if not seen[column]:
                    seen[column] = True
                    touched[count] = column
                    count += 1
                sums[column] += w * data[p]
        if total + count > room:
            room = max(2 * room, total + count)
            more_columns, more_values = np.empty(room, np.int32), np.empty(room)
            for p in range(total):  # quicker to compile than a copy of a slice
                more_columns[p], more_values[p] = columns[p], values[p]
            columns, values = more_columns, more_values
        if 16 * count > len(seen):  # many columns: quicker to look at all than to sort
            count = 0
            for column in range(len(seen)):
                if seen[column]:
                    touched[count] = column
                    count += 1
        else:
            sort_first(touched, count)
        for p in range(count):
            column = touched[p]
            columns[total + p], values[total + p] = column, sums[column]
            sums[column], seen[column] = 0.0, False
        counts[j - start] = count
        total += count
    return counts, columns[:total], values[:total]


@Loop
def count_merged(indptr: Array, indices: Array, other_ptr: Array, other: Array, alone: bool, counts: Array) -> None:
    """counts[i] = columns in either of two rows i (``alone``), or in both; columns must increase within rows."""
    for i in range(len(indptr) - 1):
        p, q, found = indptr[i], other_ptr[i], 0
        stop, end = indptr[i + 1], other_ptr[i + 1]
        while p < stop and q < end:
            if indices[p] == other[q]:
                found += 1
                p += 1
                q += 1
            else:
                found += alone
                if indices[p] < other[q]:
                    p += 1
                else:
                    q += 1
        counts[i] = found + (stop - p + end - q if alone else 0)


@Loop
def merge_rows(
    indptr: Array, indices: Array, values: Array, other_ptr: Array, other: Array, other_values: Array,
    low: float, high: float, alone: float, out_ptr: Array, columns: Array, out: Array,
) -> float:  # fmt: skip
    """Merge the rows of two CSR matrices whose columns increase; return the largest difference between them.

    An entry in both becomes low * min + high * max of the two. One that is in one only is multiplied by ``alone`` and
    differs by its own size; it is left out if ``alone`` is 0, as ``out_ptr`` counts it then.
    """
    largest = 0.0
    for i in range(len(indptr) - 1):
        p, q, at = indptr[i], other_ptr[i], out_ptr[i]
        while p < indptr[i + 1] or q < other_ptr[i + 1]:
            left = p < indptr[i + 1] and (q == other_ptr[i + 1] or indices[p] <= other[q])
            right = q < other_ptr[i + 1] and (p == indptr[i + 1] or other[q] <= indices[p])
            a = values[p] if left else other_values[q]
            b = other_values[q] if right else values[p]
            if left and right:
                columns[at], out[at] = indices[p], low * min(a, b) + high * max(a, b)
                largest = max(largest, abs(a - b))
                at += 1
            else:
                largest = max(largest, abs(a))
                if alone > 0:
                    columns[at], out[at] = (indices[p] if left else other[q]), alone * a
                    at += 1
            p += left
            q += right
    return largest


@Loop
def stored_values(indptr: Array, indices: Array, values: Array, ptr: Array, columns: Array, out: Array) -> None:
    """out[p] = the entry of row i in column columns[p], for p in [ptr[i], ptr[i + 1]); inf if it is not stored.

    Columns must increase within the rows of the matrix.
    """
    for i in range(len(ptr) - 1):
        low, high = indptr[i], indptr[i + 1]
        for p in range(ptr[i], ptr[i + 1]):
            at = low + np.searchsorted(indices[low:high], columns[p])
            out[p] = values[at] if at < high and indices[at] == columns[p] else np.inf


@Loop
def label_columns(indptr: Array, indices: Array, columns: int) -> Array:
    """Return a column of the same component for each column, (columns,): a row connects the columns that it stores."""
    parent = np.empty(columns, np.int64)
    for j in range(columns):
        parent[j] = j
    for i in range(len(indptr) - 1):
        if indptr[i] == indptr[i + 1]:
            continue
        a = indices[indptr[i]]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        for p in range(indptr[i] + 1, indptr[i + 1]):
            b = indices[p]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a != b:  # the smaller root becomes the parent
                if b < a:
                    a, b = b, a
                parent[b] = a
    for j in range(columns):
        parent[j] = parent[parent[j]]
    return parent
