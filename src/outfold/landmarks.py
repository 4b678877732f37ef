"""Which points carry the spectral problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Anchors:
    """The chosen points, which training rows they are (None: none of them), and their measure."""

    points: Array
    index: Array | None
    measure: Array

    def at(self, rows: Array) -> Anchors:
        """Some of the anchors, in the order given."""
        return Anchors(self.points[rows], None if self.index is None else self.index[rows], self.measure[rows])

    def merged(self) -> Anchors:
        """Equal points as one, of their joint measure."""
        _, first, member = np.unique(self.points, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(self.points):
            return self
        order = np.argsort(first)
        return replace(self.at(first[order]), measure=np.bincount(member.ravel(), weights=self.measure)[order])


@dataclass(frozen=True)
class Everything:
    """Every training row with positive weight."""

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        index = np.flatnonzero(measure > 0)
        return Anchors(X if len(index) == len(X) else X[index], index, measure[index])


@dataclass(frozen=True)
class Random:
    """``size`` training rows drawn without replacement: a count (int) or a fraction (float)."""

    size: int | float

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        able = np.flatnonzero(measure > 0)
        count = self.size if isinstance(self.size, int) else max(2, round(self.size * len(able)))
        if count > len(able):
            raise ValueError(
                f"landmarks={self.size} asks for more landmarks than there are training rows ({len(able)}). "
                "Pass a smaller count, a fraction, or landmarks=None to use every row."
            )
        index = np.sort(rng.choice(able, size=count, replace=False))
        return Anchors(X[index], index, measure[index])


@dataclass(frozen=True)
class Enough:
    """Four times the square root of the rows, at least 500 and at most all of them, at random."""

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        able = int((measure > 0).sum())
        return Random(min(able, max(500, int(4 * np.sqrt(able))))).select(X, measure, rng)


@dataclass(frozen=True)
class Points:
    """Points given by the caller; they need not be training rows."""

    points: Array

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        if self.points.ndim != 2 or self.points.shape[1] != X.shape[1]:
            raise ValueError(
                f"landmarks has shape {self.points.shape}, but the data has {X.shape[1]} features. "
                "Pass an array of shape (count, features), a count, or a fraction."
            )
        if len(self.points) < 2 or not np.isfinite(self.points).all():
            raise ValueError("landmarks must hold at least 2 finite points.")
        return Anchors(self.points, None, np.ones(len(self.points)))
