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
from .graphs import check_table
from .runners import Threads, row_blocks
from .sources import Elsewhere, InMemory, Source
from .surveys import DenseSurvey

Array = NDArray[Any]

POOL_BYTES = 1 << 27  # of rows that landmarks are chosen among where the data is not in memory


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

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        index, X = np.flatnonzero(measure > 0), rows.array()
        return Anchors(X if len(index) == len(X) else X[index], index, measure[index])


@dataclass(frozen=True)
class Random:
    """``size`` training rows drawn without replacement: a count (int) or a fraction (float).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=Random(0.1), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    size: int | float

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        index = _some(measure, lambda able: count_of(self.size, able), rng)
        return Anchors(rows.take(index), index, measure[index])


@dataclass(frozen=True)
class Enough:
    """Four times the square root of the rows, at least 500 and at most all of them, at random."""

    @staticmethod
    def count(rows: int) -> int:
        return min(rows, max(500, int(4 * np.sqrt(rows))))

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        return Random(self.count(able(measure))).select(rows, measure, rng)


@dataclass(frozen=True)
class UpTo:
    """Every row while there are no more than ``most``; beyond, so many at random."""

    most: int

    def count(self, rows: int) -> int:
        return min(rows, self.most)

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        return Random(self.count(able(measure))).select(rows, measure, rng)


@dataclass(frozen=True)
class Points:
    """Points given by the caller; they need not be training rows.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=Points(X[:50]), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    points: Array

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        if self.points.ndim != 2 or self.points.shape[1] != rows.shape[1]:
            raise ValueError(
                f"landmarks has shape {self.points.shape}, but the data has {rows.shape[1]} features. "
                "Pass an array of shape (count, features), a count, or a fraction."
            )
        if len(self.points) < 2 or not np.isfinite(self.points).all():
            finite = int(np.isfinite(self.points).all(axis=1).sum())
            raise ValueError(f"landmarks must hold at least 2 points, all finite; {finite} of {len(self.points)} are.")
        return Anchors(self.points, None, np.ones(len(self.points)))


@dataclass(frozen=True)
class KMeans:
    """Centres of mini-batch k-means (they are not training rows).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=KMeans(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    size: int | float
    batch: int = 4096

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        from sklearn.cluster import MiniBatchKMeans

        points, index, count = _pool(rows, measure, self.size, rng)
        seed = int(rng.integers(2**31 - 1))
        means = MiniBatchKMeans(count, batch_size=max(self.batch, 2 * count), n_init=1, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres: some stand for none
            means.fit(points, sample_weight=measure[index])
        return _standing_for(Anchors(means.cluster_centers_, None, np.ones(count)), rows, measure)


@dataclass(frozen=True)
class FarthestPoint:
    """Each the row farthest from those before, the first farthest from the mean: an even cover, edges included.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=FarthestPoint(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    size: int | float

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        points, index, count = _pool(rows, measure, self.size, rng)
        first = int(np.square(points - points.mean(axis=0)).sum(axis=1).argmax())
        at = np.sort(_compiled.farthest_points(points, first, count))
        return _standing_for(Anchors(points[at], index[at], measure[index[at]]), rows, measure)


@dataclass(frozen=True)
class MinDistance:
    """Rows in random order, each kept if it is far enough from those kept before: an even cover, as far apart as their
    number allows. Of more than ``pool`` times as many rows a random part is looked at.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=MinDistance(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    size: int | float
    pool: int = 20

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        points, index, count = _pool(rows, measure, self.size, rng, self.pool)
        order = rng.permutation(len(points))
        points = points[order]
        low, high = 0.0, float(np.linalg.norm(np.ptp(points, axis=0)))
        kept = _compiled.far_enough(points, 0.0, count)
        for _ in range(24):
            middle = (low + high) / 2
            found = _compiled.far_enough(points, middle**2, count)
            low, high = (middle, high) if len(found) == count else (low, middle)
            kept = found if len(found) == count else kept
        kept = kept[np.argsort(order[kept])]
        index = index[order[kept]]
        return _standing_for(Anchors(points[kept], index, measure[index]), rows, measure)


@dataclass(frozen=True)
class InverseDensity:
    """Rows drawn with weights p^-3, so that landmarks have density 1 / p^2 where the rows have p.

    p is a Gaussian density estimate over 2000 of the rows; below its first percentile it is held, else a few
    outliers would be all that is drawn.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=InverseDensity(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    size: int | float

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        points, index, count = _pool(rows, measure, self.size, rng)
        some = Random(min(len(points), 2000)).select(InMemory(points), measure[index], rng)
        distances = Metric().fit(some.points)
        epsilon = Neighbor().bandwidth(DenseSurvey(distances, distances.gram(Threads()), some.measure)).epsilon
        blocks = row_blocks(len(points), len(some.points))
        density = np.concatenate([np.exp(-0.5 / epsilon * distances.cross(points[b])) @ some.measure for b in blocks])
        least = max(np.quantile(density, 0.01), 1e-90 * density.max())  # whose cube can be divided by
        odds = np.maximum(density, least) ** -3.0 * measure[index]
        at = np.sort(rng.choice(len(points), size=count, replace=False, p=odds / odds.sum()))
        return _standing_for(Anchors(points[at], index[at], measure[index[at]]), rows, measure)


@dataclass(frozen=True)
class RPCholesky:
    """Rows by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2023): each is drawn where the kernel is not
    yet explained by those before. Gaussian kernel; epsilon=None is the median squared distance. Of more than ``pool``
    times as many rows a random part is looked at.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=RPCholesky(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    size: int | float
    epsilon: float | None = None
    pool: int = 10

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        points, index, count = _pool(rows, measure, self.size, rng, self.pool)
        check_table(len(points), count, "The factors of randomly pivoted Cholesky", "a smaller size or pool")
        distances = Metric().fit(points)
        epsilon = self.epsilon or _median_squared(points[rng.permutation(len(points))[:1000]])
        factor, left = np.zeros((len(points), count)), np.ones(len(points))
        picked: list[int] = []
        while len(picked) < count:
            at = _draw(left * measure[index], picked, rng)
            column = np.exp(-0.5 / epsilon * distances.cross(distances.anchors[[at]])[0])
            column -= factor[:, : len(picked)] @ factor[at, : len(picked)]
            if column[at] > 0:
                factor[:, len(picked)] = column / np.sqrt(column[at])
            left = np.maximum(left - factor[:, len(picked)] ** 2, 0.0)
            picked.append(at)
        chosen = np.sort(picked)
        return _standing_for(Anchors(points[chosen], index[chosen], measure[index[chosen]]), rows, measure)


def _draw(odds: Array, taken: list[int], rng: np.random.Generator) -> int:
    """A row by its odds, none twice; evenly once nothing is left to explain."""
    odds[taken] = 0.0
    if odds.sum() <= 1e-12 * len(odds):
        odds = np.ones(len(odds))
        odds[taken] = 0.0
    return int(rng.choice(len(odds), p=odds / odds.sum()))


def _median_squared(points: Array) -> float:
    some = Metric().fit(points)
    return Percentile(50.0).bandwidth(DenseSurvey(some, some.gram(Threads()), np.ones(len(some.anchors)))).epsilon


def able(measure: Any) -> int:
    """How many rows have a positive weight."""
    if isinstance(measure, np.ndarray):
        return len(measure) if measure.min() > 0 else int(np.count_nonzero(measure))
    return sum(measure.able)


def _some(measure: Any, count: Any, rng: np.random.Generator) -> Array:
    """So many rows of positive weight, at random, in order."""
    return _positive(measure, np.sort(rng.choice(able(measure), size=count(able(measure)), replace=False)))


def _positive(measure: Any, ranks: Array) -> Array:
    """Which rows are the ranks-th of positive weight."""
    if measure.min() > 0:
        return ranks
    return np.flatnonzero(measure > 0)[ranks] if isinstance(measure, np.ndarray) else measure.positive(ranks)


def _pool(
    rows: Source, measure: Array, size: int | float, rng: np.random.Generator, most: float = np.inf
) -> tuple[Array, Array, int]:
    """Rows to choose from, which they are, and how many to choose: all, or ``most`` times as many at random (of what is
    not in memory as many as make ``POOL_BYTES``)."""
    most_of = able(measure)
    count = count_of(size, most_of)
    enough = min(most_of, most * count)
    if not isinstance(rows, InMemory):
        enough = min(enough, max(count, POOL_BYTES // (8 * rows.shape[1])))
    index = _some(measure, lambda _: int(enough), rng) if enough < most_of else _positive(measure, np.arange(most_of))
    return np.ascontiguousarray(rows.take(index), dtype=float), index, count


def count_of(size: int | float, rows: int) -> int:
    """A count or a fraction of the rows, as a count."""
    count = int(size) if isinstance(size, int | np.integer) else max(2, round(size * rows))
    if count > rows:
        raise ValueError(
            f"landmarks={size} asks for more landmarks than there are training rows ({rows}). "
            "Pass a smaller count, a fraction, or landmarks=None to use every row."
        )
    if count < 2:
        raise ValueError(f"landmarks={size} must be at least 2.")
    return count


@dataclass(frozen=True)
class NearestTo:
    """How much of some rows each point is the nearest to."""

    search: Any
    runner: Threads

    def __call__(self, points: Array, measure: Array, start: int) -> Array:
        lists = self.search.closest(points, 1, self.runner)
        return np.bincount(lists.index[lists.ptr[:-1]], weights=measure, minlength=len(self.search.distances.anchors))


def _standing_for(found: Anchors, rows: Source, measure: Array) -> Anchors:
    """The landmarks with the weight of the rows they are nearest to; those nearest to none are left out."""
    search = neighbors.build(Metric().fit(np.ascontiguousarray(found.points, dtype=float)), "auto")
    mass = np.zeros(len(found.points))
    if isinstance(rows, Elsewhere):
        for _, (part,) in rows.joined(
            NearestTo(search, Threads(1)), np.add, measure, Threads(), title="weighing landmarks"
        ):
            mass += part
    else:
        nearest = NearestTo(search, Threads())
        for block, points in rows.blocks(1 << 18):
            mass += nearest(points, measure[block], block.start)
    some = np.flatnonzero(mass > 0)
    return replace(found.at(some), measure=mass[some] / mass[some].mean())
