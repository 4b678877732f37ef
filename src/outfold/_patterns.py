"""Sparse patterns, compiled: turned, joined, cut, scaled and taken apart."""

from __future__ import annotations

import numpy as np

from ._compiled import Loop


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
