"""Equal rows: which rows of a table are copies of each other. Equal rows are one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._loops import hashing
from .._loops.elementwise import COMPILED_FROM
from .._runtime.typing import Array
from .sparse_rows import SparseRows, row_keys, sum_entries

HASHED_ROWS = 1 << 14  # rows hashed at a time, so that their hashes stay in the cache
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Places:
    """The distinct rows of a table, in the order in which they first appear."""

    first: Array  # (places,): the first row of each place, increasing
    member: Array  # (rows,): the place of each row

    def mass(self, measure: Array) -> Array:
        """Return the sum of the measure of each place's rows, (places,)."""
        return np.bincount(self.member, weights=measure, minlength=len(self.first))


def find_places(points: Array, keys: Array | None = None) -> Places | None:
    """Return the places of the rows; None if no two rows are equal. ``keys`` are their hashes, if known.

    Hashes are sorted, not rows; rows of equal hash are then compared, so the answer is exact.
    """
    keys = hash_rows(points) if keys is None else keys
    if not _has_equal(keys):
        return None
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    before, after = order[:-1][same], order[1:][same]
    if not _equal(points[before], points[after]):  # different rows with the same hash
        start, member = _compare_all(points)
    else:
        group = np.append(0, np.cumsum(~same))
        start, member = order[np.append(True, ~same)], np.empty(len(order), int)
        member[order] = group
    if len(start) == len(points):
        return None
    appearance = np.argsort(start)
    rank = np.empty(len(start), int)
    rank[appearance] = np.arange(len(start))
    return Places(start[appearance], rank[member])


def find_copies(points: Array, row: int) -> Array:
    """Return the rows that equal ``row``, itself included; NaN equals NaN."""
    if isinstance(points, SparseRows):
        key = row_keys(points[[row]])[0]
        return np.flatnonzero([other == key for other in row_keys(points)])
    return np.flatnonzero(((points == points[row]) | (np.isnan(points) & np.isnan(points[row]))).all(axis=1))


def number_places(points: Array) -> Array:
    """Return the number of each row's place, (rows,), by an order of the content: that of the rows does not matter."""
    if not isinstance(points, SparseRows):
        member: Array = np.unique(points, axis=0, return_inverse=True)[1].ravel()
        return member
    keys = hash_rows(points)
    places = find_places(points, keys)
    if places is None:
        return np.argsort(np.argsort(keys, kind="stable"))
    return np.argsort(np.argsort(keys[places.first], kind="stable"))[places.member]


def count_places(points: Array) -> int:
    """Return the number of distinct rows."""
    places = find_places(points)
    return len(points) if places is None else len(places.first)


def count_neighbors(points: Array, measure: Array) -> Array | None:
    """Return how much each row counts as a neighbour, (rows,); None if each counts 1.

    Neighbours are counted in places: equal rows count together as one neighbour, or as their joint measure if that is
    less than 1. So a weight of 1000 does not fill a neighbourhood, and a weight of 0 is absence.
    """
    places = find_places(points)
    if places is None:
        return None if (measure == 1).all() else np.minimum(measure, 1.0)
    counts: Array = measure / np.maximum(places.mass(measure)[places.member], 1.0)
    return counts


def hash_rows(points: Array, seed: int = 0) -> Array:
    """Return a 64-bit hash of the content of each row, (rows,); equal rows have equal hashes, sparse or not.

    It is a sum over the features that are not 0, of hashes of the feature's number and value.
    """
    columns = scramble((np.arange(1, points.shape[1] + 1, dtype=np.uint64)) * _STEP + np.uint64(seed))
    if isinstance(points, SparseRows):
        bits = _bits(points.data)
        hashes = np.where(bits == 0, np.uint64(0), scramble(bits ^ columns[points.indices]))
        return scramble(sum_entries(points, hashes))
    out = np.zeros(len(points), np.uint64)
    if points.size >= COMPILED_FROM and points.dtype == float and points.flags.c_contiguous:
        hashing.hash_entries(points.view(np.uint64), columns, out, 0, len(points))
        return scramble(out)
    if len(points) < points.shape[1]:  # whole rows at a time: there are more features than rows
        for at, row in enumerate(points):
            bits = _bits(row)
            out[at] = np.where(bits == 0, np.uint64(0), scramble(bits ^ columns)).sum(dtype=np.uint64)
        return scramble(out)
    for at in range(0, len(points), HASHED_ROWS):
        bits = _bits(points[at : at + HASHED_ROWS])
        found = out[at : at + HASHED_ROWS]
        for column, key in zip(bits.T, columns):
            found += np.where(column == 0, np.uint64(0), scramble(column ^ key))
    return scramble(out)


def scramble(keys: Array) -> Array:
    """Apply the finaliser of splitmix64 to 64-bit keys, in place: a bijection whose every bit depends on all bits."""
    keys ^= keys >> hashing.SHIFTS[0]
    keys *= hashing.MIX[0]
    keys ^= keys >> hashing.SHIFTS[1]
    keys *= hashing.MIX[1]
    keys ^= keys >> hashing.SHIFTS[2]
    return keys


def _equal(some: Array, others: Array) -> bool:
    """Return whether two tables have equal rows."""
    if isinstance(some, SparseRows):
        return row_keys(some) == row_keys(others)
    return np.array_equal(_bits(some), _bits(others))


def _compare_all(points: Array) -> tuple[Array, Array]:
    """Return the first row of each place, and the place of each row, by comparing the rows themselves."""
    if isinstance(points, SparseRows):
        number: dict[bytes, int] = {}
        member = np.array([number.setdefault(key, len(number)) for key in row_keys(points)])
        return np.unique(member, return_index=True)[1], member
    _, start, member = np.unique(_bits(points), axis=0, return_index=True, return_inverse=True)
    return start, member.ravel()


def _bits(points: Array) -> Array:
    """Return the rows as whole numbers, equal if and only if the rows are; -0 is 0."""
    return (np.asarray(points, dtype=float) + 0.0).view(np.uint64)


def _has_equal(keys: Array) -> bool:
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())
