"""Procrustes alignment of one embedding with another, computed from the moments of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Weights
from ..data.sources import InMemory, Measure, Source, map_rows, open_parts, put_beside
from ..data.weights import weights_on


@dataclass(frozen=True)
class Alignment:
    """The similarity y -> scale (y - origin) R + target that maps one embedding onto another."""

    origin: Array
    rotation: Array  #: orthogonal; may reflect
    scale: float
    target: Array

    @classmethod
    def of(
        cls, moving: Data, fixed: Data, *, weights: Weights = None, rescale: bool = True, centre: bool = True
    ) -> Alignment:
        """Return the best alignment of ``moving`` with ``fixed`` in weighted least squares.

        ``rescale=False`` is a rigid motion.

        With M and F about their means and M' W F = U S V', R = U V' and scale = tr S / tr(M' W M). ``centre=False``
        does not subtract the means. The rows of a Dask collection are summed on the workers that hold them.

        >>> import numpy as np
        >>> fixed = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        >>> moving = 3 * fixed[:, ::-1] + 5
        >>> bool(np.allclose(Alignment.of(moving, fixed)(moving), fixed))
        True
        """
        rows = pair_embeddings(_open_embedding(moving), _open_embedding(fixed))
        moments = find_moments(rows, weights_on("weights", rows, weights), RowMoments(centre=centre))
        return cls.of_moments(moments, rescale)

    @classmethod
    def of_moments(cls, moments: Moments, rescale: bool) -> Alignment:
        """Return the alignment from the moments of both embeddings side by side: ``moving``, then ``fixed``."""
        count = len(moments.mean) // 2
        size = float(np.trace(moments.scatter[:count, :count]))
        U, S, V = np.linalg.svd(moments.scatter[:count, count:])
        scale = float(S.sum() / size) if rescale and size > 0 else 1.0
        return cls(moments.mean[:count], U @ V, scale, moments.mean[count:])

    def __call__(self, moving: Data) -> Array:
        """Return the aligned rows; a lazy Dask array for a Dask collection."""
        return map_rows(self._move, moving, len(self.target))

    def _move(self, moving: Data) -> Array:
        return self.scale * (np.asarray(moving, dtype=float) - self.origin) @ self.rotation + self.target


def pair_embeddings(moving: Source, fixed: Source) -> Source:
    """Return two embeddings of the same rows side by side."""
    if moving.shape != fixed.shape:
        raise ValueError(f"Embeddings of the same rows have the same shape; got {moving.shape} and {fixed.shape}.")
    return put_beside(moving, fixed)


def _open_embedding(values: Data) -> Source:
    """Return the rows of an embedding, in memory or in partitions; a vector becomes a table of one column."""
    parts = open_parts(values, column=True)
    if parts is not None:
        return parts
    table = np.asarray(values, dtype=float)
    return InMemory(table[:, None] if table.ndim == 1 else table)


@dataclass(frozen=True)
class Moments:
    """Total weight and mean of rows, and their covariance sum w (x - mean)(x - mean)' / mass.

    Moments of parts are joined as in Chan, Golub and LeVeque (1979).
    """

    mass: float
    mean: Array
    scatter: Array

    def join(self, later: Moments) -> Moments:
        """Return the moments of these rows and of others."""
        mass = self.mass + later.mass
        if later.mass == 0 or self.mass == 0:
            return self if later.mass == 0 else later
        here, there = self.mass / mass, later.mass / mass
        apart = later.mean - self.mean
        scatter = here * self.scatter + there * later.scatter + here * there * np.outer(apart, apart)
        return Moments(mass, self.mean + there * apart, scatter)


@dataclass(frozen=True)
class RowMoments:
    """A function of a block of rows: the moments of the chosen rows and columns, about their mean or about 0."""

    chosen: Array | None = None  # increasing row indices; None: all rows
    centre: bool = True
    columns: int | None = None  # use the first `columns` columns; None: all

    def __call__(self, points: Array, measure: Array, start: int) -> Moments:
        points = points[:, : self.columns]
        weight = measure if self.chosen is None else measure * mark_rows(self.chosen, len(points), start)
        mass = float(weight.sum())
        share = weight / mass if mass > 0 else weight
        mean = share @ points if self.centre else np.zeros(points.shape[1])
        about = points - mean
        return Moments(mass, mean, about.T @ (share[:, None] * about))


def mark_rows(numbers: Array, count: int, start: int) -> Array:
    """Return which of the rows ``start``, ..., ``start + count - 1`` are in ``numbers``, which increase; (count,)."""
    inside = np.zeros(count, dtype=bool)
    a, b = np.searchsorted(numbers, [start, start + count])
    inside[numbers[a:b] - start] = True
    return inside


def find_moments(rows: Source, measure: Measure | None, look: RowMoments) -> Moments:
    """Return the moments of the rows. Raise ValueError if all weights are 0."""
    moments: Moments = rows.reduce(look, Moments.join, measure=measure, runner=Threads(1), title="moments")
    if not moments.mass > 0:
        raise ValueError("The rows that are fitted to weigh nothing: give some of them a weight above 0.")
    return moments
