"""Rows of a sparse matrix: CSR with the length of an array, and what we ask of rows whether they are sparse or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from .._runtime.threads import row_blocks
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
    """Return rows as float64 in C order, or as ``SparseRows`` with their columns in order if they are sparse."""
    if isinstance(Z, SparseRows):
        return Z if Z.has_sorted_indices else Z.sorted_indices()
    return SparseRows.of(Z) if issparse(Z) else np.ascontiguousarray(Z, dtype=float)


def dense_rows(Z: Array) -> Array:
    """Return the rows as an array. For a few rows, or a block of them: sparse rows may be much larger then."""
    values: Array = Z.toarray() if isinstance(Z, SparseRows) else np.asarray(Z, dtype=float)
    return values


def largest_entries(Z: Array) -> Array:
    """Return the largest absolute value in each row, (rows,)."""
    if not isinstance(Z, SparseRows):
        dense: Array = np.maximum(Z.max(axis=1), -Z.min(axis=1))  # np.abs would copy all rows
        return dense
    found = np.zeros(len(Z))
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        np.maximum.at(found, np.repeat(np.arange(len(Z)), np.diff(Z.indptr)), np.abs(Z.data))
    return found


def all_rows_equal(points: Array) -> bool:
    """Return whether every row equals the first."""
    if not isinstance(points, SparseRows):
        return all(bool((points[part] == points[0]).all()) for part in row_blocks(*points.shape))
    counts = np.diff(points.indptr)
    if (counts != counts[0]).any():
        return False
    shape = len(points), int(counts[0])
    return all(bool((part.reshape(shape) == part[: shape[1]]).all()) for part in (points.indices, points.data))


def stack_rows(parts: Sequence[Array]) -> Array:
    """Return the rows of several blocks in one: sparse if one of them is."""
    if len(parts) > 1 and any(isinstance(part, SparseRows) for part in parts):
        return SparseRows(vstack([csr_array(part) for part in parts], format="csr"))
    stacked: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return stacked


def like_rows(Z: Array, example: Array) -> Array:
    """Return rows in the form of ``example``, sparse or not. Of features, where what is not stored is 0."""
    if isinstance(Z, SparseRows) == isinstance(example, SparseRows):
        return Z
    return dense_rows(Z) if isinstance(Z, SparseRows) else SparseRows.of(Z)


def clip_rows(Z: Array, largest: float) -> Array:
    """Return rows with entries clipped to +-``largest``: Z itself if no entry of an array is larger."""
    if not isinstance(Z, SparseRows):
        if Z.size and Z.max() <= largest and Z.min() >= -largest:
            return Z
        return np.clip(Z, -largest, largest)
    return SparseRows((np.clip(Z.data, -largest, largest), Z.indices, Z.indptr), shape=Z.shape)


def squared_lengths(Z: Array) -> Array:
    """Return the sum of squares of each row, (rows,)."""
    if not isinstance(Z, SparseRows):
        dense: Array = np.einsum("ij,ij->i", Z, Z)
        return dense
    return sum_entries(Z, np.square(Z.data))


def squares_about(Z: Array, centre: Array) -> Array:
    """Return the squared distance of each row to ``centre``, (rows,)."""
    if not isinstance(Z, SparseRows):
        dense: Array = np.square(Z - centre).sum(axis=1)
        return dense
    squares: Array = np.maximum(squared_lengths(Z) - 2 * (Z @ centre) + centre @ centre, 0.0)
    return squares


def sum_entries(Z: SparseRows, values: Array) -> Array:
    """Return the sums of ``values``, one for each stored entry, over the rows; 0 for rows without entries."""
    sums = np.add.reduceat(np.append(values, np.zeros(1, values.dtype)), Z.indptr[:-1])
    sums[np.diff(Z.indptr) == 0] = 0
    result: Array = sums
    return result


def few_columns(points: Array, most: int = 16) -> Array:
    """Return at most ``most`` features as an array: of sparse rows, those that are stored most often."""
    if not isinstance(points, SparseRows):
        return points[:, :most]
    held = np.bincount(points.indices, minlength=points.shape[1])
    chosen = np.sort(np.argsort(-held, kind="stable")[:most])
    return dense_rows(points[:, chosen])


def row_keys(X: Array) -> list[bytes]:
    """Return the content of each row; equal rows have equal keys."""
    if not isinstance(X, SparseRows):
        return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]
    ends = zip(X.indptr[:-1], X.indptr[1:])
    return [X.indices[a:b].astype(np.int64).tobytes() + (X.data[a:b] + 0.0).tobytes() for a, b in ends]


def mean_and_deviation(points: Array, share: Array) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each feature; ``share``: weights of the rows, with sum 1."""
    mean: Array = share @ points
    if not isinstance(points, SparseRows):
        variance = np.zeros(len(mean))
        for part in row_blocks(*points.shape):  # no copy of all rows
            variance += share[part] @ np.square(points[part] - mean)
        return mean, np.sqrt(variance)
    weights = np.repeat(share, np.diff(points.indptr))
    stored, features = np.bincount(points.indices, weights=weights, minlength=points.shape[1]), points.indices
    squares = np.bincount(features, weights=weights * np.square(points.data - mean[features]), minlength=len(mean))
    return mean, np.sqrt(squares + np.maximum(1 - stored, 0.0) * np.square(mean))
