"""Loops that NumPy cannot express, compiled by numba the first time each is called.

The only module that imports numba. Every loop releases the GIL, so our own thread pool runs it on row
ranges. The plain Python functions (``loop.plain``) are the same code uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
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


@partial(Loop, freedom=FUSED)
def exponential(values, factor):
    """exp(factor * values) in place, for factor * values <= 0; below -708 it is 0. Right to the last place but one."""
    turns, power = np.empty(512), np.empty(512)
    for first in range(0, len(values), 512):
        exponential_part(values[first : first + 512], factor, 0.0, turns, power)


@partial(Loop, freedom=FUSED)
def exponential_part(x, factor, top, turns, power):
    """exp(factor * x - top) in place, of no more entries than there is room beside.

    2^k e^r with k whole and |r| <= log(2) / 2. Adding 1.5 * 2^52 rounds to a whole number and leaves it in the low
    bits, from where it goes to the exponent. The series ends at r^13. All loops run in vector registers.
    """
    bits, power_bits = turns.view(np.int64), power.view(np.int64)
    for j in range(len(x)):
        v = factor * x[j] - top
        turns[j] = (v if v > -708.0 else -708.0) * 1.4426950408889634 + 6755399441055744.0
    for j in range(len(x)):
        power_bits[j] = (bits[j] + 1023) << 52
    for j in range(len(x)):
        v = factor * x[j] - top
        k = turns[j] - 6755399441055744.0
        r = ((v if v > -708.0 else -708.0) - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        x[j] = p * power[j] if v > -708.0 else 0.0


@Loop
def squared_table(Z, columns, out):
    """Squared distances of the rows of Z to points given feature by feature, summed as ``squared_pairs`` does."""
    for i in range(len(Z)):
        row = out[i]
        for f in range(Z.shape[1]):
            z, points = Z[i, f], columns[f]
            if f == 0:
                for j in range(len(points)):
                    step = z - points[j]
                    row[j] = step * step
            else:
                for j in range(len(points)):
                    step = z - points[j]
                    row[j] += step * step


@partial(Loop, freedom=NUMBERS)
def tops_of_parts(row, factor, tops):
    """The largest of factor * row in each run of 32, and of all; four at a time, none waiting for another."""
    top = -np.inf
    for part in range(len(tops)):
        first, end = 32 * part, min(32 * part + 32, len(row))
        a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
        for j in range(first, end - 3, 4):
            a, b = max(a, factor * row[j]), max(b, factor * row[j + 1])
            c, d = max(c, factor * row[j + 2]), max(d, factor * row[j + 3])
        for j in range(end - (end - first) % 4, end):
            a = max(a, factor * row[j])
        tops[part] = max(max(a, b), max(c, d))
        top = max(top, tops[part])
    return top


@partial(Loop, freedom=ANY_ORDER)
def scaled_sums(values, first, gain, measure):
    """Columns from the first on times their gain, in place; their sum, and the sum with the measure instead."""
    total, mass = 0.0, 0.0
    for j in range(len(values)):
        mass += values[j] * measure[first + j]
        values[j] *= gain[first + j]
        total += values[j]
    return total, mass


@Loop
def softmax(values, factor, gain, measure, cut, tops, totals, masses):
    """gain * exp(factor * values - top) in place, row by row, and its sums; a run of 32 all below exp(cut) is 0."""
    columns = values.shape[1]
    parts, turns, power = np.empty((columns + 31) // 32), np.empty(512), np.empty(512)
    for i in range(len(values)):
        top = tops_of_parts(values[i], factor, parts)
        tops[i], totals[i], masses[i], first = top, 0.0, 0.0, 0
        for part in range(len(parts)):
            end = min(32 * part + 32, columns)
            near = parts[part] - top > cut
            if not near or end == columns or end - first == 512:  # what is near comes in runs
                run = values[i, first : end if near else 32 * part]
                exponential_part(run, factor, top, turns, power)
                total, mass = scaled_sums(run, first, gain, measure)
                totals[i], masses[i], first = totals[i] + total, masses[i] + mass, end
            if not near:
                values[i, 32 * part : end] = 0.0


@Loop
def softmax_rows(indptr, columns, values, factor, gain, measure, log_mass):
    """gain * w over its sum in place, w = exp(factor * values), for rows of a CSR matrix; log sum of measure * w."""
    for i in range(len(indptr) - 1):
        a, b = indptr[i], indptr[i + 1]
        top = -np.inf
        for p in range(a, b):
            top = max(top, factor * values[p])
        top = top if np.isfinite(top) else 0.0
        total, mass = 0.0, 0.0
        for p in range(a, b):
            seen = np.exp(factor * values[p] - top)
            mass += seen * measure[columns[p]]
            values[p] = seen * gain[columns[p]]
            total += values[p]
        for p in range(a, b):
            values[p] /= total
        log_mass[i] = top + np.log(mass)


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
def transpose_pattern(indptr, indices, columns):
    """The transposed pattern; its rows come out in increasing order of column."""
    counts = np.zeros(columns + 1, np.int64)
    for p in range(len(indices)):
        counts[indices[p] + 1] += 1
    for j in range(columns):
        counts[j + 1] += counts[j]
    place = counts[:-1].copy()
    rows = np.empty(len(indices), indices.dtype)
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            rows[place[j]] = i
            place[j] += 1
    return counts, rows


@Loop
def transpose_within(indptr, indices, values, limits, columns):
    """The transposed pattern of the entries with values[p] <= limits[row], in 32 bits; rows in increasing order."""
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
def reaching(indptr, indices, values, weights, mass, out, start, stop):
    """out[i] = the value at which the weights of row i, summed in order, reach ``mass``; its last if they do not."""
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
def off_diagonal_sums(indptr, indices, data, weights):
    """sum_j data_ij weights_j over j other than i, for each row i."""
    out = np.zeros(len(indptr) - 1)
    for i in range(len(indptr) - 1):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            if indices[p] != i:
                total += data[p] * weights[indices[p]]
        out[i] = total
    return out


@Loop
def scale_rows_and_columns(indptr, indices, data, factor, start, stop):
    """data_ij times factor_i factor_j, in place."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            data[p] = data[p] * factor[i] * factor[indices[p]]


@Loop
def connected(indptr, indices):
    """A label for each row of a symmetric pattern, the same for rows that are connected; in order of first row."""
    n = len(indptr) - 1
    parent = np.arange(n)
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
            if a != b:  # the smaller one leads
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
            labels[i] = labels[parent[i]]  # a leader comes before those it leads
    return labels


@Loop
def union_rows(a_ptr, a, b_ptr, b):
    """Union of two patterns whose rows are in increasing order of column."""
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


@partial(Loop, freedom=FUSED)
def times_block(indptr, indices, data, V, out, start, stop):
    """out[start:stop] = (sparse rows start..stop) @ V for a dense block V, eight columns at a time in registers."""
    width = V.shape[1]
    whole = width - width % 8
    zero = V.dtype.type(0)  # of the block's own precision
    for i in range(start, stop):
        first, last = indptr[i], indptr[i + 1]
        for c in range(0, whole, 8):
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
            at = out[i, c : c + 8]
            at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7] = a0, a1, a2, a3, a4, a5, a6, a7
        for c in range(whole, width):
            total = zero
            for p in range(first, last):
                total += data[p] * V[indices[p], c]
            out[i, c] = total


@partial(Loop, freedom=FUSED)
def smoothed(indptr, indices, data, top, V, R, keep, gain, onto, add, out, start, stop):
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


@partial(Loop, freedom=FUSED)
def three_terms(indptr, indices, data, v, u, scale, middle, minus, out, start, stop):
    """out = scale (S v - middle v) - minus u in rows start..stop: a step of a recurrence of orthogonal polynomials."""
    for i in range(start, stop):
        a = b = c = d = 0.0  # four sums: one would wait for itself
        last = indptr[i + 1]
        four = last - (last - indptr[i]) % 4
        for p in range(indptr[i], four, 4):
            a += data[p] * v[indices[p]]
            b += data[p + 1] * v[indices[p + 1]]
            c += data[p + 2] * v[indices[p + 2]]
            d += data[p + 3] * v[indices[p + 3]]
        for p in range(four, last):
            a += data[p] * v[indices[p]]
        out[i] = scale * ((a + b) + (c + d) - middle * v[i]) - minus * u[i]


@Loop
def times_sparse(a_ptr, a_index, a, b_ptr, b_index, b, columns, start, stop):
    """Rows start..stop of a sparse product A B: entries of each row, their columns (as they come), their values."""
    counts = np.empty(stop - start, np.int64)
    place = np.full(columns, -1, np.int64)  # where the row holds a column, if it does
    room = 16 * (stop - start) + columns
    index, values = np.empty(room, np.int32), np.empty(room)
    used = 0
    for i in range(start, stop):
        if used + columns > room:
            room = 2 * room + columns
            more_index, more_values = np.empty(room, np.int32), np.empty(room)
            more_index[:used], more_values[:used] = index[:used], values[:used]
            index, values = more_index, more_values
        first = used
        for p in range(a_ptr[i], a_ptr[i + 1]):
            j, weight = a_index[p], a[p]
            for q in range(b_ptr[j], b_ptr[j + 1]):
                c = b_index[q]
                at = place[c]
                if at < first:
                    at = place[c] = used
                    index[at], values[at] = c, 0.0
                    used += 1
                values[at] += weight * b[q]
        counts[i - start] = used - first
    return counts, index[:used].copy(), values[:used].copy()


@Loop
def largest_in_rows(indptr, values, keep, sums, start, stop):
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
def aggregate(indptr, indices, data, least):
    """Cover a graph by small neighbourhoods: a label for each row, and how many labels there are.

    A row none of whose neighbours is taken becomes a root and takes them; what is left joins the neighbourhood
    it is most strongly tied to. Edges below ``least`` do not count.
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
def group_sources(indptr, indices, sources, lanes):
    """An order of the sources in which each run of ``lanes`` lies together in the graph, about its first one."""
    n, m = len(indptr) - 1, len(sources)
    here, same = np.full(n, -1), np.full(m, -1)  # the sources at each node, linked
    for s in range(m - 1, -1, -1):
        same[s] = here[sources[s]]
        here[sources[s]] = s
    seen, queue = np.full(n, -1), np.empty(n, np.int64)
    order = np.empty(m, np.int64)
    done = head = tail = run = 0
    for s in range(m):
        while here[sources[s]] >= 0:  # breadth first from here, until the run is full
            queue[0], seen[sources[s]] = sources[s], run
            head, tail = 0, 1
            while head < tail and done < (run + 1) * lanes:
                i = queue[head]
                head += 1
                while here[i] >= 0 and done < (run + 1) * lanes:
                    order[done] = here[i]
                    here[i] = same[here[i]]
                    done += 1
                for p in range(indptr[i], indptr[i + 1]):
                    if seen[indices[p]] != run:
                        seen[indices[p]] = run
                        queue[tail] = indices[p]
                        tail += 1
            run = done // lanes
    return order


@Loop
def shortest_paths(indptr, indices, lengths, sources, order, lanes, out, start, stop):
    """out[node, s] = length of the shortest path from sources[s], for s in order[start:stop]; inf where there is none.

    ``lanes`` sources travel together, on a wave that spreads from the first of them: a node whose distances fell
    waits in a ring of buckets, sorted by its distance from the first. The order only decides how often a node
    is taken up again, never the result. The graph is symmetric and its lengths are not negative.
    """
    n, ring = len(indptr) - 1, 16
    total = lengths.sum()
    scale = 4.0 * len(lengths) / total if total > 0.0 else 0.0  # buckets are a quarter of a mean edge wide
    distance = np.empty((n, lanes))
    following = np.empty(n, np.int64)
    waiting = np.zeros(n, np.bool_)
    first, last = np.full(ring, -1), np.full(ring, -1)
    for low in range(start, stop, lanes):
        width = min(lanes, stop - low)
        distance[:] = np.inf
        for lane in range(width):
            distance[sources[order[low + lane]], lane] = 0.0
        for lead in range(width):  # the first is enough, unless the sources lie in several components
            i = sources[order[low + lead]]
            reached = False
            for lane in range(lead):
                reached |= distance[i, lane] < np.inf
            if reached:
                continue
            first[0] = last[0] = i
            following[i] = -1
            now, left = 0, 1
            while left > 0:
                i = first[now % ring]
                if i < 0:
                    now += 1
                    continue
                first[now % ring] = following[i]
                waiting[i] = False
                left -= 1
                near = distance[i]
                for p in range(indptr[i], indptr[i + 1]):
                    j, length = indices[p], lengths[p]
                    far = distance[j]
                    better = 0
                    for lane in range(lanes):
                        better |= near[lane] + length < far[lane]
                    if better == 0:
                        continue
                    for lane in range(lanes):  # + 0.0: without it LLVM makes masked stores, slow on AMD
                        far[lane] = min(far[lane], near[lane] + length) + 0.0
                    if waiting[j]:
                        continue
                    key = far[lead] * scale
                    bucket = (int(min(key, now + ring - 1.0)) if key > now else now) % ring
                    if first[bucket] < 0:
                        first[bucket] = j
                    else:
                        following[last[bucket]] = j
                    last[bucket] = j
                    following[j] = -1
                    waiting[j] = True
                    left += 1
        for top in range(0, n, 64):  # in tiles, for either layout of out
            for lane in range(width):
                s = order[low + lane]
                for i in range(top, min(top + 64, n)):
                    out[i, s] = distance[i, lane]


@Loop
def through_neighbours(indptr, nodes, lengths, table, basis, out, start, stop):
    """out[r] = squares @ basis for rows start..stop; squares[j] = min_i (length_i + table[i, j])^2 over the nodes of r.

    One fixed order of summation for each row, whatever its company. Rows that share nodes should be neighbours:
    what they share of the table then stays in the cache.
    """
    m, c = basis.shape
    tile, lanes, rows = 512, 32, 32
    weights = np.zeros((c, (m + tile - 1) // tile * tile))
    for j in range(m):
        for k in range(c):
            weights[k, j] = basis[j, k]
    sums = np.empty((rows, c, lanes))
    reach = np.empty(tile)
    for low in range(start, stop, rows):
        width = min(rows, stop - low)
        sums[:] = 0.0
        for left in range(0, m, tile):
            right = min(left + tile, m)
            for g in range(width):
                r = low + g
                reach[:] = np.inf
                final = indptr[r + 1] - 1
                for p in range(indptr[r], indptr[r + 1], 4):  # four at a time; the last one fills up
                    q, s, t = min(p + 1, final), min(p + 2, final), min(p + 3, final)
                    ga, gb = table[nodes[p], left:right], table[nodes[q], left:right]
                    gc, gd = table[nodes[s], left:right], table[nodes[t], left:right]
                    la, lb, lc, ld = lengths[p], lengths[q], lengths[s], lengths[t]
                    for j in range(right - left):  # + 0.0: without it LLVM makes masked stores, slow on AMD
                        best = min(min(ga[j] + la, gb[j] + lb), min(gc[j] + lc, gd[j] + ld))
                        reach[j] = min(reach[j], best) + 0.0
                reach[right - left :] = 0.0
                for j in range(tile):
                    reach[j] *= reach[j]
                for k in range(c):
                    total = sums[g, k]
                    for q in range(0, tile, 4 * lanes):
                        x, w = reach[q : q + 4 * lanes], weights[k, left + q : left + q + 4 * lanes]
                        for j in range(lanes):
                            total[j] += (x[j] * w[j] + x[j + lanes] * w[j + lanes]) + (
                                x[j + 2 * lanes] * w[j + 2 * lanes] + x[j + 3 * lanes] * w[j + 3 * lanes]
                            )
        for g in range(width):
            for k in range(c):
                value = 0.0
                for j in range(lanes):
                    value += sums[g, k, j]
                out[low + g, k] = value


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


@Loop
def sums_both_ways(indptr, indices, data, measure, by_column, by_row):
    """Of a CSR matrix: to each column the sum of its entries times their rows' measure is added; row sums."""
    for i in range(len(indptr) - 1):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p]
            by_column[indices[p]] += data[p] * measure[i]
        by_row[i] = total


@Loop
def over_root_degrees(indptr, indices, data, gain, measure, start, stop):
    """w sqrt(m / d), d = sum of w * gain, in place, for rows start..stop of a CSR matrix; 0 where d is."""
    for i in range(start, stop):
        d = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            d += data[p] * gain[indices[p]]
        scale = np.sqrt(measure[i] / d) if d > 1e-300 else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            data[p] *= scale


@Loop
def turned(indptr, indices, data, columns):
    """A CSR matrix by columns: pointers, rows and values, rows in order."""
    ptr = np.zeros(columns + 1, np.int64)
    for p in range(len(indices)):
        ptr[indices[p] + 1] += 1
    for j in range(columns):
        ptr[j + 1] += ptr[j]
    rows, values, free = np.empty(len(indices), np.int32), np.empty(len(indices)), ptr[:-1].copy()
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = free[indices[p]]
            rows[at], values[at] = i, data[p]
            free[indices[p]] += 1
    return ptr, rows, values


@Loop
def gram_rows(back_ptr, back_rows, back_values, indptr, indices, data, start, stop):
    """Rows start..stop of W'W: how many entries each has, which columns (in order), and their values."""
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
            more_columns[:total], more_values[:total] = columns[:total], values[:total]
            columns, values = more_columns, more_values
        columns[total : total + count] = np.sort(touched[:count])
        for p in range(total, total + count):
            values[p] = sums[columns[p]]
            sums[columns[p]], seen[columns[p]] = 0.0, False
        counts[j - start] = count
        total += count
    return counts, columns[:total], values[:total]
