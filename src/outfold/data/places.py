"""Equal rows: which rows of a table are copies of each other. Equal rows are one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._runtime.typing import Array

HASHED_ROWS = 1 << 14  # rows hashed at a time, so that their hashes stay in the cache
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # multipliers of splitmix64
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
    if not np.array_equal(_bits(points[before]), _bits(points[after])):  # different rows with the same hash
        _, start, member = np.unique(_bits(points), axis=0, return_index=True, return_inverse=True)
        member = member.ravel()
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
    """Return a 64-bit hash of the content of each row, (rows,); equal rows have equal hashes."""
    out = np.empty(len(points), np.uint64)
    for at in range(0, len(points), HASHED_ROWS):
        bits = _bits(points[at : at + HASHED_ROWS])
        found = np.full(len(bits), seed, np.uint64)
        for column in bits.T:
            found += _STEP
            found ^= column
            scramble(found)
        out[at : at + len(bits)] = found
    return out


def scramble(keys: Array) -> Array:
    """Apply the finaliser of splitmix64 to 64-bit keys, in place: a bijection whose every bit depends on all bits."""
    keys ^= keys >> np.uint64(30)
    keys *= _MIX[0]
    keys ^= keys >> np.uint64(27)
    keys *= _MIX[1]
    keys ^= keys >> np.uint64(31)
    return keys


def _bits(points: Array) -> Array:
    """Return the rows as whole numbers, equal if and only if the rows are; -0 is 0."""
    return (np.asarray(points, dtype=float) + 0.0).view(np.uint64)


def _has_equal(keys: Array) -> bool:
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())
