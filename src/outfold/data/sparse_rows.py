"""Rows of a sparse matrix: CSR with the length of an array, and what we ask of rows whether they are sparse or not."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from .._runtime.typing import Array


class SparseRows(csr_array):  # type: ignore[misc]  # SciPy has no types
    """Rows of numbers as CSR: float64, columns in order, none twice. Slices of rows are ``SparseRows`` too.

    A feature that is not stored is 0. Of a precomputed matrix, an entry that is not stored is no edge.
    """

    def __len__(self) -> int:
        rows: int = self.shape[0]
        return rows

    @classmethod
    def of(cls, X: object, *, keep_zeros: bool = False) -> SparseRows:
        """Return a copy of any sparse matrix; stored zeros are dropped unless ``keep_zeros``."""
        rows = cls(X, dtype=float, copy=True)
        rows.sum_duplicates()
        if not keep_zeros:
            rows.eliminate_zeros()
        return rows


def as_rows(Z: Array) -> Array:
    """Return rows as float64 in C order; sparse rows as they are."""
    return Z if isinstance(Z, SparseRows) else np.ascontiguousarray(Z, dtype=float)


def dense_rows(Z: Array) -> Array:
    """Return the rows as an array. For a few rows, or a block of them: sparse rows may be much larger then."""
    values: Array = Z.toarray() if isinstance(Z, SparseRows) else np.asarray(Z, dtype=float)
    return values


def largest_entries(Z: Array) -> Array:
    """Return the largest absolute value in each row, (rows,)."""
    if not isinstance(Z, SparseRows):
        dense: Array = np.abs(Z).max(axis=1)
        return dense
    found = np.zeros(len(Z))
    np.maximum.at(found, np.repeat(np.arange(len(Z)), np.diff(Z.indptr)), np.abs(Z.data))
    return found


def all_rows_equal(points: Array) -> bool:
    """Return whether every row equals the first."""
    if not isinstance(points, SparseRows):
        return bool((points == points[0]).all())
    counts = np.diff(points.indptr)
    if (counts != counts[0]).any():
        return False
    shape = len(points), int(counts[0])
    return all(bool((part.reshape(shape) == part[: shape[1]]).all()) for part in (points.indices, points.data))
