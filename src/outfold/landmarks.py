"""Which points carry the spectral problem.

Every choice is a value with ``select``, seeded by the estimator's ``random_state``. ``size`` is a count (int) or a
fraction of the rows (float). Rows drawn at random keep their own weight. The others say where points should be, not how
much there is: each stands for the rows it is nearest to, and weighs as much as they do (one on average).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.exceptions import ConvergenceWarning

from . import _compiled, neighbors
from .bandwidths import Neighbor, Percentile
from .distances import Metric
from .graphs import DenseSurvey, check_table
from .sources import Threads, row_blocks

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


def along_the_tree(anchors: Anchors, metric: Any) -> Anchors:
    """Anchors near each other next to each other: a search and a product then run through memory in order."""
    if getattr(metric, "name", None) != "euclidean" or anchors.points.shape[1] > neighbors.TREE_FEATURES:
        return anchors
    return anchors.at(cKDTree(anchors.points, balanced_tree=False).indices)


def given_columns(anchors: Anchors) -> Array:
    """Which columns of a precomputed matrix belong to the anchors."""
    if anchors.index is None:
        raise ValueError("Landmarks of a precomputed matrix are chosen among its rows: pass a count or a fraction.")
    return anchors.index


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
        count = _count(self.size, len(able))
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


@dataclass(frozen=True)
class KMeans:
    """Centres of mini-batch k-means (they are not training rows)."""

    size: int | float
    batch: int = 4096

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        from sklearn.cluster import MiniBatchKMeans

        able = np.flatnonzero(measure > 0)
        count, seed = _count(self.size, len(able)), int(rng.integers(2**31 - 1))
        means = MiniBatchKMeans(count, batch_size=max(self.batch, 2 * count), n_init=1, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres: some stand for none
            means.fit(X[able], sample_weight=measure[able])
        return _standing_for(Anchors(means.cluster_centers_, None, np.ones(count)), X[able], measure[able])


@dataclass(frozen=True)
class FarthestPoint:
    """Each the row farthest from those before, the first farthest from the mean: an even cover, edges included."""

    size: int | float

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        able = np.flatnonzero(measure > 0)
        rows = np.ascontiguousarray(X[able], dtype=float)
        first = int(np.square(rows - rows.mean(axis=0)).sum(axis=1).argmax())
        chosen = np.sort(able[_compiled.farthest_points(rows, first, _count(self.size, len(able)))])
        return _standing_for(Anchors(X[chosen], chosen, measure[chosen]), X[able], measure[able])


@dataclass(frozen=True)
class MinDistance:
    """Rows in random order, each kept if it is far enough from those kept before: an even cover, as far apart as their
    number allows. Of more than ``pool`` times as many rows a random part is looked at."""

    size: int | float
    pool: int = 20

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        able = np.flatnonzero(measure > 0)
        count = _count(self.size, len(able))
        order = rng.permutation(able)[: self.pool * count]
        rows = np.ascontiguousarray(X[order], dtype=float)
        low, high = 0.0, float(np.linalg.norm(np.ptp(rows, axis=0)))
        kept = _compiled.far_enough(rows, 0.0, count)
        for _ in range(24):
            middle = (low + high) / 2
            found = _compiled.far_enough(rows, middle**2, count)
            low, high = (middle, high) if len(found) == count else (low, middle)
            kept = found if len(found) == count else kept
        chosen = np.sort(order[kept])
        return _standing_for(Anchors(X[chosen], chosen, measure[chosen]), X[able], measure[able])


@dataclass(frozen=True)
class InverseDensity:
    """Rows drawn with weights p^-3, so that landmarks have density 1 / p^2 where the rows have p.

    p is a Gaussian density estimate over 2000 of the rows; below its first percentile it is held, else a few
    outliers would be all that is drawn.
    """

    size: int | float

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        able = np.flatnonzero(measure > 0)
        rows, weights = X[able], measure[able]
        some = Random(min(len(able), 2000)).select(rows, weights, rng)
        distances = Metric().fit(some.points)
        epsilon = Neighbor().bandwidth(DenseSurvey(distances, distances.gram(Threads()), some.measure)).epsilon
        blocks = row_blocks(len(rows), len(some.points))
        density = np.concatenate([np.exp(-0.5 / epsilon * distances.cross(rows[b])) @ some.measure for b in blocks])
        odds = np.maximum(density, max(np.quantile(density, 0.01), np.finfo(float).tiny)) ** -3.0 * weights
        drawn = rng.choice(len(able), size=_count(self.size, len(able)), replace=False, p=odds / odds.sum())
        chosen = able[np.sort(drawn)]
        return _standing_for(Anchors(X[chosen], chosen, measure[chosen]), rows, weights)


@dataclass(frozen=True)
class RPCholesky:
    """Rows by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2023): each is drawn where the kernel is not
    yet explained by those before. Gaussian kernel; epsilon=None is the median squared distance. Of more than ``pool``
    times as many rows a random part is looked at."""

    size: int | float
    epsilon: float | None = None
    pool: int = 10

    def select(self, X: Array, measure: Array, rng: np.random.Generator) -> Anchors:
        able = np.flatnonzero(measure > 0)
        count = _count(self.size, len(able))
        order = rng.permutation(able)[: self.pool * count]
        check_table(len(order), count, "The factor of randomly pivoted Cholesky", "a smaller size or pool")
        distances = Metric().fit(np.ascontiguousarray(X[order], dtype=float))
        epsilon = self.epsilon or _median_squared(distances.anchors)
        factor, left = np.zeros((len(order), count)), np.ones(len(order))
        picked: list[int] = []
        while len(picked) < count:
            at = _draw(left * measure[order], picked, rng)
            column = np.exp(-0.5 / epsilon * distances.cross(distances.anchors[[at]])[0])
            column -= factor[:, : len(picked)] @ factor[at, : len(picked)]
            if column[at] > 0:
                factor[:, len(picked)] = column / np.sqrt(column[at])
            left = np.maximum(left - factor[:, len(picked)] ** 2, 0.0)
            picked.append(at)
        chosen = np.sort(order[picked])
        return _standing_for(Anchors(X[chosen], chosen, measure[chosen]), X[able], measure[able])


def _draw(odds: Array, taken: list[int], rng: np.random.Generator) -> int:
    """A row by its odds, none twice; evenly once nothing is left to explain."""
    odds[taken] = 0.0
    if odds.sum() <= 1e-12 * len(odds):
        odds = np.ones(len(odds))
        odds[taken] = 0.0
    return int(rng.choice(len(odds), p=odds / odds.sum()))


def _median_squared(points: Array) -> float:
    some = Metric().fit(points[:1000])
    return Percentile(50.0).bandwidth(DenseSurvey(some, some.gram(Threads()), np.ones(len(some.anchors)))).epsilon


def _count(size: int | float, rows: int) -> int:
    count = int(size) if isinstance(size, int | np.integer) else max(2, round(size * rows))
    if count > rows:
        raise ValueError(
            f"landmarks={size} asks for more landmarks than there are training rows ({rows}). "
            "Pass a smaller count, a fraction, or landmarks=None to use every row."
        )
    if count < 2:
        raise ValueError(f"landmarks={size} must be at least 2.")
    return count


def _standing_for(found: Anchors, X: Array, measure: Array) -> Anchors:
    """The landmarks with the weight of the rows they are nearest to; those nearest to none are left out."""
    search = neighbors.build(Metric().fit(np.ascontiguousarray(found.points, dtype=float)), "auto")
    lists = search.closest(np.ascontiguousarray(X, dtype=float), 1, Threads())
    mass = np.bincount(lists.index[lists.ptr[:-1]], weights=measure, minlength=len(found.points))
    some = np.flatnonzero(mass > 0)
    return replace(found.at(some), measure=mass[some] / mass[some].mean())
