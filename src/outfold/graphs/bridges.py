"""Edges that join the components of a graph, for points that coincide with an anchor that has one."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from .._runtime.typing import Array
from ..neighbors import Lists


def find_bridges(bridges: csr_array, lists: Lists) -> csr_array | None:
    """Return the bridges of the points that coincide with an anchor that has one, as CSR, or None."""
    here = lists.select(lists.squared == 0)
    at = csr_array((np.ones(len(here.index)), here.index, here.ptr), shape=(len(lists.ptr) - 1, bridges.shape[0]))
    joined = at @ bridges
    if joined.nnz == 0:
        return None
    copies = at @ csr_array((np.ones(bridges.nnz), bridges.indices, bridges.indptr), bridges.shape)
    for part in (joined, copies):
        part.sort_indices()
    joined.data /= copies.data  # equal anchors have the same bridges: take the mean
    return joined


def bridge_lengths(gram: csr_array, pairs: Array) -> csr_array:
    """Return the edges ``pairs`` both ways as CSR; a length is capped at the longest edge at its two ends."""
    longest = np.maximum.reduceat(gram.data, gram.indptr[:-1])
    typical = float(np.median(gram.data[gram.data > 0])) if (gram.data > 0).any() else 1.0
    length = np.maximum(longest[pairs[:, 0]], longest[pairs[:, 1]])
    length = np.where(length > 0, length, typical)
    ends = np.vstack([pairs, pairs[:, ::-1]]).T
    return csr_array((np.append(length, length), ends), shape=gram.shape)


def add_bridges(values: csr_array, lists: Lists, bridges: csr_array) -> csr_array:
    """Return ``values`` with the bridges of points that coincide with an anchor; the shorter of two edges counts."""
    across = find_bridges(bridges, lists)
    if across is None:
        return values
    rows, columns = (np.repeat(np.arange(values.shape[0]), np.diff(part.indptr)) for part in (values, across))
    row, column = np.append(rows, columns), np.append(values.indices, across.indices)
    data = np.append(values.data, across.data)
    order = np.lexsort((data, column, row))
    row, column, data = row[order], column[order], data[order]
    first = np.append(True, (np.diff(row) != 0) | (np.diff(column) != 0))
    ptr = np.append(0, np.cumsum(np.bincount(row[first], minlength=values.shape[0])))
    return csr_array((data[first], column[first], ptr), shape=values.shape)
