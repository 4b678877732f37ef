"""Rules that select landmarks: the points on which the spectral problem is solved.

Every rule has a method ``select``, seeded by the estimator's ``random_state``. ``size`` is a count (int) or a fraction
of the rows (float). Rows drawn uniformly at random keep their own weight. The other rules choose points regardless of
the density of the rows, so each landmark gets the total weight of the rows it is nearest to (scaled to mean 1).

Where rows have weights (other than 0, absence, and 1), random choices depend on the content of the rows, not on their
number. In memory that holds for rows with copies too, and equal rows are one candidate of their joint weight: so
landmarks are distinct, and weights equal repeated rows, in any order. Rows that are not in memory are not compared with
each other; distinct ones give the same landmarks as in memory. Other rows are drawn by their row number.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.spatial import cKDTree
from sklearn.exceptions import ConvergenceWarning

from . import neighbors
from ._loops import selection as selection_loops
from ._runtime.ownership import own
from ._runtime.threads import Threads, row_blocks
from ._runtime.typing import NAN, SPARSE_ROWS, WEIGHTS, WHOLE, Array, Axes, Interval
from .bandwidths import Neighbor, Percentile
from .data.places import count_neighbors, find_places, hash_rows, scramble
from .data.sources import InMemory, Source
from .data.sparse_rows import SparseRows, as_rows, dense_rows, largest_entries, like_rows, squares_about
from .distances import Metric, PointMetric
from .graphs.drawing import check_table
from .graphs.pair_statistics import DenseStatistics
from .neighbors import Search, tree

WEIGHED_ROWS = 1 << 18  # rows whose nearest landmarks are searched in one block
ORDERED_FROM = 20_000  # nodes of a sparse graph from which they are reorder
POOL_BYTES = 1 << 27  # size of the random sample to choose from if the data is not in memory


@dataclass(frozen=True)
class Anchors:
    """The chosen points, the indices of their training rows (None if they are not training rows), and their measure."""

    points: Annotated[Array, Axes("n d"), NAN, SPARSE_ROWS]
    index: Annotated[Array | None, Axes("n"), WHOLE]
    measure: Annotated[Array, Axes("n"), WEIGHTS]
    weighed: bool = False  # the measure is that of the rows they are nearest to, with mean 1

    def at(self, rows: Array) -> Anchors:
        """Return the anchors ``rows``, in that order: these anchors themselves if the order is theirs."""
        if len(rows) == len(self.points) and np.array_equal(rows, np.arange(len(rows))):
            return self
        index = None if self.index is None else self.index[rows]
        return Anchors(self.points[rows], index, self.measure[rows], self.weighed)

    def counts(self, given: bool = False) -> Array | None:
        """Return how much each anchor counts as a neighbour; None: by its measure.

        ``given``: the points are rows of a precomputed matrix. Nodes of a sparse graph with equal rows are not equal:
        they may have the same neighbours. Else equal anchors count once together
        (:func:`outfold.data.places.count_neighbors`). Landmarks that were weighed by
        the rows they are nearest to count by that weight.
        """
        if self.weighed:
            return None
        if given and isinstance(self.points, SparseRows):
            return None if (self.measure == 1).all() else np.minimum(self.measure, 1.0)
        return count_neighbors(self.points, self.measure)

    def merge_copies(self) -> Anchors:
        """Return the anchors with equal points merged into one, which has the sum of their measures."""
        places = find_places(self.points)
        return self if places is None else replace(self.at(places.first), measure=places.mass(self.measure))


def along_the_tree(anchors: Anchors, metric: PointMetric | None) -> Anchors:
    """Return the anchors in the order of a k-d tree: close anchors are adjacent, so memory is read in order."""
    euclidean = isinstance(metric, Metric) and metric.name == "euclidean"
    if not euclidean or isinstance(anchors.points, SparseRows) or anchors.points.shape[1] > tree.TREE_FEATURES:
        return anchors
    return anchors.at(cKDTree(anchors.points, balanced_tree=False).indices)


def along_the_graph(anchors: Anchors) -> Anchors:
    """Return the nodes of a large sparse graph in an order in which neighbours are near each other in memory.

    By the reverse algorithm of Cuthill and McKee; products with a block of vectors then take a third of the time.
    """
    if not isinstance(anchors.points, SparseRows) or len(anchors.points) < ORDERED_FROM or anchors.index is None:
        return anchors
    points, index = anchors.points, anchors.index
    whole = len(index) == points.shape[1] and bool((np.diff(index) == 1).all())
    square = csr_array(points if whole else points[:, index])
    return anchors.at(reverse_cuthill_mckee(square, symmetric_mode=True))


def holds_every_row(anchors: Anchors, measure: Array) -> bool:
    """Return whether the anchors are all training rows, not a selection."""
    return anchors.index is not None and bool(np.isclose(anchors.measure.sum(), measure.sum(), rtol=1e-9))


def given_columns(anchors: Anchors) -> Array:
    """Return the columns of a precomputed matrix that belong to the anchors."""
    if anchors.index is None:
        raise ValueError("Landmarks of a precomputed matrix are chosen among its rows: pass a count or a fraction.")
    return anchors.index


@runtime_checkable
class Landmarks(Protocol):
    """A rule that selects landmarks among rows."""

    def count(self, rows: int) -> int:
        """Return the number of landmarks of ``rows`` rows of positive weight."""
        ...

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        """Return the landmarks, with their measure."""
        ...


@dataclass(frozen=True)
class _Sized(Landmarks):
    """A rule for ``size`` landmarks: a count (int) or a fraction of the rows (float)."""

    size: Annotated[int, Interval(2)] | Annotated[float, Interval(0.0, 1.0, open_low=True)]

    def count(self, rows: int) -> int:
        return count_of(self.size, rows)


@dataclass(frozen=True)
class AllRows(Landmarks):
    """Every training row with positive weight is a landmark."""

    def count(self, rows: int) -> int:
        return rows

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        index, X = np.flatnonzero(measure > 0), rows.array()
        return Anchors(X if len(index) == len(X) else X[index], index, measure[index])


@dataclass(frozen=True)
class Random(_Sized):
    """``size`` training rows drawn without replacement: a count (int) or a fraction (float).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=Random(0.1), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        candidates = Candidates.of(rows, measure)
        if candidates is None:
            return _draw_anchors(rows, measure, self.count(count_positive(measure)), rng)
        return candidates.draw(rows, candidates.count(self.size), rng)


@dataclass(frozen=True)
class Enough(Landmarks):
    """Random rows: four times the square root of the number of rows, at least 500 and at most all."""

    def count(self, rows: int) -> int:
        return min(rows, max(500, int(4 * np.sqrt(rows))))

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        return _draw_some(self, rows, measure, rng)


@dataclass(frozen=True)
class AtMost(Landmarks):
    """Every row if there are no more than ``most``, else ``most`` random rows."""

    most: int

    def count(self, rows: int) -> int:
        return min(rows, self.most)

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        return _draw_some(self, rows, measure, rng)


@dataclass(frozen=True)
class Points(Landmarks):
    """The caller's own points; they need not be training rows.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=Points(X[:50]), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    points: Annotated[Array, Axes("n d"), SPARSE_ROWS]

    def __post_init__(self) -> None:
        mine = SparseRows.of(self.points) if issparse(self.points) else own(self.points)
        object.__setattr__(self, "points", mine)

    def count(self, rows: int) -> int:
        return len(self.points)

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        if self.points.ndim != 2 or self.points.shape[1] != rows.shape[1]:
            raise ValueError(
                f"landmarks has shape {self.points.shape}, but the data has {rows.shape[1]} features. "
                "Pass an array of shape (count, features), a count, or a fraction."
            )
        bounds = largest_entries(self.points)
        if len(self.points) < 2 or not np.isfinite(bounds).all():
            finite = int(np.isfinite(bounds).sum())
            raise ValueError(f"landmarks must hold at least 2 points, all finite; {finite} of {len(self.points)} are.")
        return Anchors(like_rows(self.points, rows.take(np.arange(1))), None, np.ones(len(self.points)))


@dataclass(frozen=True)
class Columns(Landmarks):
    """The columns of a precomputed matrix, rows times landmarks: the points are their numbers."""

    def count(self, rows: int) -> int:
        raise AssertionError("the matrix says how many columns it has")

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        columns = rows.shape[1]
        if columns < 2:
            raise ValueError(
                f"A precomputed matrix of shape {rows.shape} has {columns} landmark; at least 2 are needed."
            )
        return Anchors(np.arange(columns, dtype=float)[:, None], None, np.ones(columns))


@dataclass(frozen=True)
class KMeans(_Sized):
    """Centres of k-means (they are not training rows), in mini-batches if there are more rows than ``batch``.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=KMeans(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    batch: int = 4096

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        from sklearn import cluster
        from threadpoolctl import threadpool_limits

        pool = _pool(rows, measure, self.size, rng)
        points = dense_rows(pool.points) if 8.0 * np.prod(pool.points.shape) <= POOL_BYTES else pool.points
        count, seed = pool.count, int(rng.integers(2**31 - 1))
        batch = max(self.batch, 2 * count)
        means = cluster.MiniBatchKMeans(count, batch_size=batch, n_init=1, random_state=seed)
        if len(pool.points) <= batch:  # small batches of few rows wander: rounding would decide where they end
            means = cluster.KMeans(count, n_init=1, random_state=seed)
        with warnings.catch_warnings(), threadpool_limits(1):  # the sums of several threads differ by rounding
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres: extra ones go
            means.fit(points, sample_weight=pool.measure)
        centres, labels = means.cluster_centers_, means.labels_
        alone = np.bincount(labels, minlength=count)[labels] == 1
        centres[labels[alone]] = dense_rows(pool.points[alone])  # exactly: equal points count once as neighbours
        centres = like_rows(centres, pool.points)
        return _standing_for(Anchors(centres, None, np.ones(count)), rows, measure)


@dataclass(frozen=True)
class FarthestPoint(_Sized):
    """Farthest-point sampling: each landmark is the row farthest from those before.

    The first is the row farthest from the mean of the rows. The landmarks cover the data evenly, edges included.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=FarthestPoint(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        pool = _pool(rows, measure, self.size, rng)
        first = int(squares_about(pool.points, pool.mean()).argmax())
        if isinstance(pool.points, SparseRows):
            at = np.sort(_farthest_sparse(pool.points, first, pool.count))
        else:
            at = np.sort(selection_loops.farthest_points(pool.points, first, pool.count))
        return _standing_for(pool.at(at), rows, measure)


@dataclass(frozen=True)
class MinDistance(Landmarks):
    """Rows in random order, each selected if it is far enough from those selected before: an even cover.

    Pass ``size`` or ``distance``. With ``size``, a count (int) or a fraction (float), the least distance is the largest
    that still gives so many landmarks; with more than ``pool`` times as many rows, landmarks are chosen from a random
    sample of that size. With ``distance``, no two landmarks are nearer to each other (in the Euclidean metric), and
    every row in memory is nearer than that to one; the number of landmarks follows.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=MinDistance(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    >>> far = DiffusionMaps(landmarks=MinDistance(distance=0.4), random_state=0).fit(X).landmarks_
    >>> bool(np.linalg.norm(far[:, None] - far, axis=2)[np.triu_indices(len(far), 1)].min() >= 0.4)
    True
    """

    size: Annotated[int | None, Interval(2)] | Annotated[float, Interval(0.0, 1.0, open_low=True)] = None
    pool: int = 20
    distance: Annotated[float | None, Interval(0.0, open_low=True)] = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.distance is None):
            raise ValueError(
                f"MinDistance(size={self.size}, distance={self.distance}): pass either a number of landmarks or their "
                "least distance."
            )
        distance = self.distance
        if distance is not None and not (isinstance(distance, Real) and 0 < float(distance) < np.inf):
            raise ValueError(f"MinDistance: distance={distance!r} must be a finite number > 0.")

    def count(self, rows: int) -> int:
        """Return the number of landmarks; by distance it is not known before, so plans take that of "auto"."""
        return Enough().count(rows) if self.size is None else count_of(self.size, rows)

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        size, most = (2, np.inf) if self.size is None else (self.size, self.pool)
        pool = _pool(rows, measure, size, rng, most)
        order = rng.permutation(len(pool.points))
        points = pool.points[order]
        kept = self._at_distance(points) if self.size is None else self._as_far_as_possible(points, pool.count)
        return _standing_for(pool.at(np.sort(order[kept])), rows, measure)

    @staticmethod
    def _as_far_as_possible(points: Array, count: int) -> Array:
        """Return ``count`` rows that are as far apart as the order of the rows allows."""
        low, high = 0.0, _extent(points)
        kept = _far_enough(points, 0.0, count)
        for _ in range(24):
            middle = (low + high) / 2
            found = _far_enough(points, middle**2, count)
            low, high = (middle, high) if len(found) == count else (low, middle)
            kept = found if len(found) == count else kept
        return kept

    def _at_distance(self, points: Array) -> Array:
        """Return rows at least ``distance`` apart, of which one is nearer than that to any other row."""
        assert self.distance is not None
        kept = _far_enough(points, float(self.distance) ** 2, len(points))
        if len(kept) < 2:
            wide = float(np.sqrt(Metric().fit(points).cross(points[[kept[0]]]).max()))
            raise ValueError(
                f"MinDistance(distance={self.distance:g}) leaves {len(kept)} landmark: no row is farther than "
                f"{wide:.3g} from it. Pass a smaller distance, or a number of landmarks."
            )
        return kept


@dataclass(frozen=True)
class InverseDensity(_Sized):
    """Rows drawn with weights p^-3, so that landmarks have density 1 / p^2 where the rows have p.

    p is a Gaussian density estimate over 2000 of the rows, raised to at least its first percentile: otherwise a few
    outliers would take all the draws.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=InverseDensity(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        pool = _pool(rows, measure, self.size, rng)
        points = pool.points
        if pool.count == len(points):
            return _standing_for(pool.at(np.arange(pool.count)), rows, measure)
        some = AtMost(2000).select(InMemory(points), pool.measure, rng)
        distances = Metric().fit(some.points)
        squared = distances.gram(Threads())
        survey = DenseStatistics(distances=distances, squared=squared, measure=some.measure, counts=some.counts())
        epsilon = Neighbor().bandwidth(survey).epsilon
        blocks = row_blocks(len(points), len(some.points))
        density = np.concatenate([np.exp(-0.5 / epsilon * distances.cross(points[b])) @ some.measure for b in blocks])
        least = max(np.quantile(density, 0.01), 1e-90 * density.max())  # large enough that 1 / cube is finite
        odds = np.maximum(density, least) ** -3.0 * pool.measure
        at = np.sort(rng.choice(len(points), size=pool.count, replace=False, p=odds / odds.sum()))
        return _standing_for(pool.at(at), rows, measure)


@dataclass(frozen=True)
class RPCholesky(_Sized):
    """Rows by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2023).

    Each row is drawn with a probability proportional to the part of k(x, x) that the rows before do not explain. The
    kernel is Gaussian; epsilon=None is the median squared distance. With more than ``pool`` times as many rows,
    landmarks are chosen from a random sample of that size.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(500, random_state=0)
    >>> DiffusionMaps(landmarks=RPCholesky(50), random_state=0).fit(X).landmarks_.shape
    (50, 3)
    """

    epsilon: float | None = None
    pool: int = 10

    def select(self, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
        pool = _pool(rows, measure, self.size, rng, self.pool)
        points, count = pool.points, pool.count
        check_table(len(points), count, "The factors of randomly pivoted Cholesky", "a smaller size or pool")
        distances = Metric().fit(points)
        epsilon = self.epsilon or _median_squared(points[rng.permutation(len(points))[:1000]])
        factor, left = np.zeros((len(points), count)), np.ones(len(points))
        picked: list[int] = []
        while len(picked) < count:
            at = _draw(left * pool.measure, picked, rng)
            column = np.exp(-0.5 / epsilon * distances.cross(distances.anchors[[at]])[0])
            column -= factor[:, : len(picked)] @ factor[at, : len(picked)]
            if column[at] > 0:
                factor[:, len(picked)] = column / np.sqrt(column[at])
            left = np.maximum(left - factor[:, len(picked)] ** 2, 0.0)
            picked.append(at)
        return _standing_for(pool.at(np.sort(picked)), rows, measure)


def _draw(odds: Array, taken: list[int], rng: np.random.Generator) -> int:
    """Return a row drawn by its odds, not one of ``taken``; uniformly once all odds are nearly 0."""
    odds[taken] = 0.0
    if odds.sum() <= 1e-12 * len(odds):
        odds = np.ones(len(odds))
        odds[taken] = 0.0
    return int(rng.choice(len(odds), p=odds / odds.sum()))


def _median_squared(points: Array) -> float:
    some = Metric().fit(points)
    return (
        Percentile(50.0)
        .bandwidth(DenseStatistics(distances=some, squared=some.gram(Threads()), measure=np.ones(len(some.anchors))))
        .epsilon
    )


class PartitionedMeasure(Protocol):
    """Weights of rows that are not in memory."""

    able: tuple[int, ...]  # number of positive weights in each partition
    plain: bool  # all weights are 0 or 1

    def min(self) -> float: ...

    def positive(self, ranks: Array) -> Array:
        """Return the indices of the rows with these ranks among the rows of positive weight."""
        ...


def count_positive(measure: Array | PartitionedMeasure) -> int:
    """Return the number of rows with positive weight."""
    if isinstance(measure, np.ndarray):
        return len(measure) if measure.min() > 0 else int(np.count_nonzero(measure))
    return sum(measure.able)


@dataclass(frozen=True)
class Candidates:
    """One row of every place, for rows in memory that have copies or weights; in the order of their content's hash."""

    index: Array  # row numbers
    measure: Array  # of all rows of the place
    keys: Array  # hashes of the content, increasing

    @classmethod
    def of(cls, rows: Source, measure: Array) -> Candidates | None:
        """Return the candidates; None if rows are to be drawn by their number."""
        if not isinstance(rows, InMemory):
            return None
        index, points = None, rows.values
        if measure.min() == 0:
            index = np.flatnonzero(measure > 0)
            points, measure = points[index], measure[index]
        keys = hash_rows(points)
        places = find_places(points, keys)
        if places is None and (measure == 1).all():
            return None
        first = np.arange(len(points)) if places is None else places.first
        mass = measure if places is None else places.mass(measure)
        order = np.argsort(keys[first], kind="stable")
        first, mass = first[order], mass[order]
        return cls(first if index is None else index[first], mass, keys[first])

    def count(self, size: int | float) -> int:
        """Return ``size`` as a count: at most all candidates, an error if it is more than rows and copies together."""
        places = len(self.index)
        if not isinstance(size, int | np.integer):
            return min(places, count_of(size, max(2, places)))
        return min(places, count_of(size, max(places, int(self.measure.sum()))))

    def draw(self, rows: Source, count: int, rng: np.random.Generator) -> Anchors:
        """Return ``count`` random candidates; those of measure below 1 are drawn more rarely, in proportion."""
        at = self._draw(count, rng)
        at = at[np.argsort(self.index[at])]
        return Anchors(rows.take(self.index[at]), self.index[at], self.measure[at])

    def _draw(self, count: int, rng: np.random.Generator) -> Array:
        """Return the candidates that come first in a race."""
        return np.argsort(race_times(self.keys, self.measure, race_seed(rng)), kind="stable")[:count]

    def sample(self, count: int, rng: np.random.Generator) -> Candidates:
        """Return ``count`` random candidates, in their order."""
        at = np.sort(self._draw(count, rng))
        return Candidates(self.index[at], self.measure[at], self.keys[at])


def race_seed(rng: np.random.Generator) -> np.uint64:
    return np.uint64(rng.integers(2**63))


def race_times(keys: Array, measure: Array, seed: np.uint64) -> Array:
    """Return -log(uniform) / min(measure, 1), where the uniform number is a hash of key and seed."""
    uniform = (scramble(keys ^ seed).astype(float) + 0.5) * 2.0**-64
    times: Array = -np.log(uniform) / np.minimum(measure, 1.0)
    return times


@dataclass(frozen=True)
class Race:
    """Callable that returns the ``count`` rows that come first in a race, as (times, row numbers)."""

    seed: np.uint64
    count: int

    def __call__(self, points: Array, measure: Array, start: int) -> Array:
        able = np.flatnonzero(measure > 0)
        return self._first(np.vstack([race_times(hash_rows(points[able]), measure[able], self.seed), start + able]))

    def join(self, one: Array, other: Array) -> Array:
        return self._first(np.hstack([one, other]))

    def _first(self, runners: Array) -> Array:
        return runners[:, np.argsort(runners[0], kind="stable")[: self.count]]


def _draw_some(rule: Landmarks, rows: Source, measure: Array, rng: np.random.Generator) -> Anchors:
    """Return as many random rows as the rule counts."""
    candidates = Candidates.of(rows, measure)
    if candidates is None:
        return _draw_anchors(rows, measure, rule.count(count_positive(measure)), rng)
    return candidates.draw(rows, rule.count(len(candidates.index)), rng)


def _draw_anchors(rows: Source, measure: Array, count: int, rng: np.random.Generator) -> Anchors:
    index = _draw_rows(rows, measure, count, rng)
    return Anchors(rows.take(index), index, measure[index])


def _draw_rows(rows: Source, measure: Array, count: int, rng: np.random.Generator) -> Array:
    """Return the sorted indices of ``count`` random rows of positive weight."""
    if _is_plain(measure):
        return _positive(measure, np.sort(rng.choice(count_positive(measure), size=count, replace=False)))
    race = Race(race_seed(rng), count)
    first = rows.reduce(race, race.join, measure=measure, runner=Threads(1), title="drawing landmarks")
    return np.sort(first[1].astype(np.int64))


def _is_plain(measure: Array | PartitionedMeasure) -> bool:
    """Whether all weights are 0 or 1."""
    if isinstance(measure, np.ndarray):
        return bool(((measure == 0) | (measure == 1)).all())
    return measure.plain


def _positive(measure: Array | PartitionedMeasure, ranks: Array) -> Array:
    """Return the indices of the rows with these ranks among the rows of positive weight."""
    if measure.min() > 0:
        return ranks
    return np.flatnonzero(measure > 0)[ranks] if isinstance(measure, np.ndarray) else measure.positive(ranks)


@dataclass(frozen=True)
class Pool:
    """The rows from which landmarks are chosen."""

    points: Array
    index: Array  # row numbers
    measure: Array
    count: int  # number of landmarks

    def at(self, chosen: Array) -> Anchors:
        """Return the chosen rows as anchors, before they are weighed."""
        return Anchors(self.points[chosen], self.index[chosen], self.measure[chosen])

    def mean(self) -> Array:
        """Return the mean of the rows, with their copies."""
        if (self.measure == 1).all():
            mean: Array = self.points.mean(axis=0)
            return mean
        if isinstance(self.points, SparseRows):
            weighted: Array = self.measure @ self.points / self.measure.sum()
            return weighted
        return np.average(self.points, axis=0, weights=self.measure)


def _pool(rows: Source, measure: Array, size: int | float, rng: np.random.Generator, most: float = np.inf) -> Pool:
    """Return the rows from which landmarks are chosen.

    These are all rows of positive weight, or a random sample: at most ``most`` times the number of landmarks, and at
    most ``POOL_BYTES`` if the data is not in memory.
    """
    candidates = Candidates.of(rows, measure)
    if candidates is not None:
        wanted = candidates.count(size)
        if most * wanted < len(candidates.index):
            candidates = candidates.sample(int(most * wanted), rng)
        points = as_rows(rows.take(candidates.index))
        return Pool(points, candidates.index, candidates.measure, wanted)
    most_of = count_positive(measure)
    count = count_of(size, most_of)
    enough = min(most_of, most * count)
    if not isinstance(rows, InMemory):
        enough = min(enough, max(count, POOL_BYTES // (8 * rows.shape[1])))
    some = enough < most_of
    index = _draw_rows(rows, measure, int(enough), rng) if some else _positive(measure, np.arange(most_of))
    points = as_rows(rows.take(index))
    weights = np.asarray(measure[index], dtype=float)
    if not _is_plain(measure):
        order = np.argsort(hash_rows(points), kind="stable")
        points, index, weights = points[order], index[order], weights[order]
    return Pool(points, index, weights, count)


def _extent(points: Array) -> float:
    """Return a length that no two points are farther apart than."""
    if isinstance(points, SparseRows):
        return 2 * float(np.sqrt(squares_about(points, points.mean(axis=0)).max()))
    return float(np.linalg.norm(np.ptp(points, axis=0)))


def _farthest_sparse(points: Array, first: int, count: int) -> Array:
    """Return the indices of ``count`` sparse rows, each the farthest from those before it."""
    distances, nearest, chosen = Metric().fit(points), np.full(len(points), np.inf), [first]
    while len(chosen) < count:
        nearest = np.minimum(nearest, distances.cross(points[[chosen[-1]]])[0])
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
    return np.array(chosen)


def _far_enough(points: Array, least: float, most: int) -> Array:
    """Return indices of at most ``most`` rows, each at squared distance >= ``least`` from those selected before it."""
    if not isinstance(points, SparseRows):
        return selection_loops.far_enough(points, least, most)
    distances, free = Metric().fit(points), np.ones(len(points), bool)
    kept: list[int] = []
    while free.any() and len(kept) < most:
        kept.append(int(free.argmax()))
        free &= distances.cross(points[[kept[-1]]])[0] >= least
        free[: kept[-1] + 1] = False
    return np.array(kept)


def count_of(size: int | float, rows: int) -> int:
    """Return ``size``, a count (int) or a fraction (float) of ``rows``, as a count."""
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
    """Callable that returns, for each landmark, the total weight of the rows it is nearest to."""

    search: Search

    def __call__(self, points: Array, measure: Array, start: int) -> Array:
        lists = self.search.closest(points, 1, Threads())
        return np.bincount(lists.index[lists.ptr[:-1]], weights=measure, minlength=len(self.search.distances.anchors))


def _standing_for(found: Anchors, rows: Source, measure: Array) -> Anchors:
    """Return the landmarks with the weight of the rows they are nearest to (mean 1), without landmarks of weight 0."""
    search = neighbors.build(Metric().fit(as_rows(found.points)), "auto")
    mass = rows.reduce(
        NearestTo(search),
        np.add,
        measure=measure,
        runner=Threads(1),  # the search itself uses threads
        title="weighing landmarks",
        block=WEIGHED_ROWS,
    )
    some = np.flatnonzero(mass > 0)
    return replace(found.at(some), measure=mass[some] / mass[some].mean(), weighed=True)
