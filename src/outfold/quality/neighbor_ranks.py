"""Measures of how well an embedding preserves neighbours and distances, on training rows and on new rows.

A row that *asks* is a query: its neighbours are searched among the rows that *answer*. Ranks of all rows among all rows
take n^2 time. If there are many rows, a random sample asks and all rows answer, so memory stays bounded and the score
has a standard error. Distances are computed pair by pair, and of two equal ones the row that comes first is nearer, so
copies and ties give the same score every time.

Ranks take two passes over the rows that answer, in memory or in partitions. The first pass finds the nearest rows in
one space; the second counts the rows that are nearer than these in the other space. If all rows that answer are in one
block, as they are in memory, the first pass counts too. Results have one row per row that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.stats import rankdata

from .._runtime.memory import check_fits
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Weights
from ..data.sources import Source, put_beside
from ..data.weights import weights_on
from ..distances import LARGEST_ENTRY, Distances, Metric, MetricLike
from ..extensions.alignment import RowMoments, find_moments
from ..methods import parameters
from .tables import read_table, sample_rows

TABLE_ENTRIES = 1 << 22  # 32 MB of distances at a time, on each thread
ANSWERING_ENTRIES = 1 << 25  # 256 MB of rows that answer at a time
ANSWERS = 1 << 20  # neighbours searched for in one pass
ALL_PAIRS = 1 << 30  # pairs: up to this many every row asks, that is up to about 32 000 rows
LEAST_ROWS = 1000  # fewest rows that ask if only a sample asks
CORRELATED_ROWS = 2000  # rows whose pairs are correlated, by default
ERROR_GROUPS = 10  # groups of rows, whose scores give the standard error
Answer = TypeVar("Answer")


class Score(float):
    """A number with its standard error, which is 0 if all rows were used and not a sample."""

    standard_error: float
    rows: int  #: how many rows were used

    def __new__(cls, value: float, standard_error: float, rows: int) -> Score:
        found = super().__new__(cls, value)
        found.standard_error, found.rows = standard_error, rows
        return found

    def __getnewargs__(self) -> tuple[float, float, int]:  # type: ignore[override]
        return float(self), self.standard_error, self.rows

    def __str__(self) -> str:
        return f"{float(self):.4f}" + (f" +- {self.standard_error:.4f}" if self.standard_error else "")


def trustworthiness(
    X: Data,
    embedding: Data,
    *,
    n_neighbors: int = 5,
    new: tuple[Data, Data] | None = None,
    metric: MetricLike = "euclidean",
    sample_weight: Weights = None,
    rows: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Score:
    """Return how few neighbours in the embedding are far away in the data; 1 is best (Venna and Kaski, 2001).

    1 - mean_i 2 / (k (2 c - 3 k + 1)) sum_j max(0, r(i, j) - k), over the k nearest j of i in the embedding; r is the
    rank of j among the c rows that i can choose from, by distance in the data.

    Parameters
    ----------
    X : array of shape (n, n_features), or a Dask collection
    embedding : array of shape (n, n_components), or a Dask collection
        Its partitions may differ from those of X; Dask computes distances on the partitions.
    n_neighbors : int
        k; less than half the rows.
    new : (Z, embedding of Z), optional
        Score these rows instead, by their neighbours among the n rows: the same number for points that the embedding
        was extended to.
    metric : name, callable or Metric
        The metric of the data; that of the embedding is Euclidean.
    sample_weight : array, optional
        Weights of the rows that are scored.
    rows : int, optional
        How many rows to score, drawn at random. None: all rows; a sample of at least 1000 if there are more than
        32 000.
    random_state : int
    n_jobs : int, optional
        For rows in memory.

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(500, random_state=0)
    >>> trustworthiness(X, position) > 0.9999, trustworthiness(X, X[:, :2]) < 0.98
    (True, True)
    """
    spaces = Spaces.of(X, embedding, new, metric)
    return _penalise(spaces, n_neighbors, sample_weight, rows, random_state, n_jobs, by_data=False)


def continuity(
    X: Data,
    embedding: Data,
    *,
    n_neighbors: int = 5,
    new: tuple[Data, Data] | None = None,
    metric: MetricLike = "euclidean",
    sample_weight: Weights = None,
    rows: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Score:
    """Return how few neighbours in the data are far away in the embedding; 1 is best (Venna and Kaski, 2001).

    As :func:`trustworthiness`, with the same parameters, but with data and embedding exchanged.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> continuity(circle, angle) < 1  # cut open: neighbours across the cut are lost
    True
    """
    spaces = Spaces.of(X, embedding, new, metric)
    return _penalise(spaces, n_neighbors, sample_weight, rows, random_state, n_jobs, by_data=True)


def distance_correlation(
    X: Data,
    embedding: Data,
    *,
    method: str = "pearson",
    new: tuple[Data, Data] | None = None,
    metric: MetricLike = "euclidean",
    rows: int | None = CORRELATED_ROWS,
    random_state: int = 0,
) -> Score:
    """Return the correlation of distances in the data with distances in the embedding, over pairs of rows.

    Parameters
    ----------
    X : array of shape (n, n_features), or a Dask collection
    embedding : array of shape (n, n_components), or a Dask collection
    method : "pearson", "spearman" or "szekely"
        Pearson correlation of the distances; of their ranks; or the distance correlation of Szekely, Rizzo and Bakirov
        (2007), which is 0 for independent rows only: sqrt(dCov^2(X, Y) / (dVar(X) dVar(Y))) with double-centred tables
        of distances.
    new : (Z, embedding of Z), optional
        Take pairs of one of these rows and one of X instead; not for "szekely".
    metric : name, callable or Metric
        The metric of the data; that of the embedding is Euclidean.
    rows : int, optional
        A random sample of ``rows`` rows is used if there are more, with all its pairs; the same for new rows. None: all
        rows; at most 32 768 of a Dask collection.
    random_state : int

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(500, random_state=0)
    >>> distance_correlation(X, position) < 0.99 < distance_correlation(position, 2 * position)
    True
    """
    parameters.one_of("method", method, ("pearson", "spearman", "szekely"))
    spaces = Spaces.of(X, embedding, new, metric)
    if new is not None and method == "szekely":
        raise ValueError(
            "method='szekely' centres the table of one set of rows; with new= take 'pearson' or 'spearman'."
        )
    rng = np.random.default_rng(random_state)
    n, others = len(spaces.answering), len(spaces.asking)
    asked, own = sample_rows(n, rows, rng), None if new is None else sample_rows(others, rows, rng)
    if min(len(asked), n) < 3:
        raise ValueError(f"A correlation of distances needs at least 3 rows; there are {len(asked)}.")
    if method != "szekely":
        needed = 32.0 * len(asked) * (len(asked) / 2 if own is None else len(own))
        instead = f"Pass rows=, such as the default of {CORRELATED_ROWS}."
        check_fits(needed, f"The distances of all pairs of {len(asked)} rows need", instead)
    first, second = spaces.answering.draw(asked), None if own is None else spaces.asking.draw(own)
    pairs = Pairs(first, second, spaces.both())
    complete = len(asked) == n and (own is None or len(own) == others)
    return Score(pairs.correlate(method), 0.0 if complete else pairs.standard_error(method), len(asked))


# -- ranks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """Some columns of a table, and the distances between rows in them."""

    columns: slice
    distances: Distances

    def distances_to(self, rows: Array) -> Callable[[Array], Array]:
        """Return the function from rows of the table to their squared distances to ``rows``."""
        to = replace(self.distances, anchors=np.ascontiguousarray(rows[:, self.columns]))
        return lambda others: to.cross(np.ascontiguousarray(others[:, self.columns]))


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """Data and embedding side by side, of the rows that answer and of the rows that ask (the queries)."""

    answering: Source
    asking: Source
    features: int  # the first columns are the data
    itself: bool  # whether the rows that ask are also the rows that answer
    metric: MetricLike  # of the data

    @classmethod
    def of(cls, X: Data, embedding: Data, new: tuple[Data, Data] | None, metric: MetricLike) -> Spaces:
        """Read X and its embedding and, if ``new`` rows ask, these and their embedding."""
        if new is not None and (not isinstance(new, tuple | list) or len(new) != 2):
            raise ValueError("new= is a pair: the new rows and their embedding.")
        data, flat = _read_pair("X", X, "embedding", embedding)
        answering = asking = put_beside(data, flat)
        if new is not None:
            pair = _read_pair("new[0]", new[0], "new[1]", new[1])
            for name, one, other in zip(("X", "embedding"), (data, flat), pair):
                if one.shape[1] != other.shape[1]:
                    raise ValueError(f"{name} has {one.shape[1]} columns, but its new rows have {other.shape[1]}.")
            asking = put_beside(*pair)
        itself = new is None or new[0] is X
        return cls(answering=answering, asking=asking, features=data.shape[1], itself=itself, metric=metric)

    def both(self) -> tuple[Space, Space]:
        """Return the spaces of data and of embedding; variances that a metric needs are taken over all rows."""
        metric, data, flat = Metric.of(self.metric), slice(None, self.features), slice(self.features, None)
        some = self.answering.take(np.unique(np.linspace(0, len(self.answering) - 1, 24).astype(int)))
        missing = {"seuclidean": "V", "mahalanobis": "VI"}.get(metric.name if isinstance(metric.name, str) else "")
        if missing is not None and missing not in metric.params:
            moments = find_moments(self.answering, None, RowMoments(columns=self.features))
            covariance = moments.scatter * (moments.mass / (moments.mass - 1))
            variances = np.maximum(np.diagonal(covariance), np.finfo(float).tiny)
            known = variances if missing == "V" else np.linalg.pinv(covariance)
            metric = replace(metric, params={**metric.params, missing: known})
        return Space(data, metric.fit(some[:, data])), Space(flat, Metric().fit(some[:, flat]))

    def excess(self, asked: Array, k: int, by_data: bool, n_jobs: int | None) -> Array:
        """Return the sum of max(0, rank - k) over the k neighbours of each row that asks.

        ``by_data``: neighbours are those in the data, ranks those in the embedding.
        """
        places, (data, flat) = self.asking.draw(asked), self.both()
        near, far = (data, flat) if by_data else (flat, data)
        out, step = np.empty(len(asked)), max(1, ANSWERS // k)
        for at in range(0, len(asked), step):
            block = slice(at, at + step)
            numbers = asked[block] if self.itself else None
            out[block] = self._excess(Asking(places[block], numbers, Threads(n_jobs)), near, far, k)
        return out

    def _excess(self, asking: Asking, near: Space, far: Space, k: int) -> Array:
        look = partial(find_neighbors, asking, near, far, k, len(self.answering))
        found = self._ask(look, partial(Neighbors.join, k=k), "neighbours")
        nearer, some = found.nearer, np.flatnonzero((found.bounds > -np.inf).any(axis=1))
        if nearer is None:
            nearer = np.zeros(found.index.shape, dtype=np.int64)
            if len(some):
                ranks = partial(count_ranks, asking.among(some), far, found.index[some], found.bounds[some])
                nearer[some] = self._ask(ranks, np.add, "ranks")
        excess: Array = np.maximum(1 + nearer - k, 0).sum(axis=1)
        return excess

    def _ask(
        self, look: Callable[[Array, Array, int], Answer], join: Callable[[Answer, Answer], Answer], title: str
    ) -> Answer:
        """Return the combined result over the rows that answer; threads divide the rows that ask."""
        block = max(1, ANSWERING_ENTRIES // self.answering.shape[1])
        found: Answer = self.answering.reduce(look, join, measure=None, runner=Threads(1), title=title, block=block)
        return found


def _read_pair(name: str, values: Data, beside: str, flat: Data) -> tuple[Source, Source]:
    """Return rows and their embedding, which must have as many rows."""
    rows, places = read_table(name, values), read_table(beside, flat)
    if len(rows) != len(places):
        raise ValueError(f"{name} has {len(rows)} rows, but {beside} has {len(places)}: they must be the same rows.")
    return rows, places


def _blocks(count: int, width: int) -> list[slice]:
    """Cut ``count`` rows into blocks whose tables of ``width`` columns have at most ``TABLE_ENTRIES`` entries."""
    step = max(1, TABLE_ENTRIES // width)
    return [slice(at, min(at + step, count)) for at in range(0, count, step)]


@dataclass(frozen=True)
class Asking:
    """Rows that ask."""

    places: Array
    numbers: Array | None  # their numbers among the rows that answer; None if they are other rows
    runner: Threads

    def among(self, some: Array) -> Asking:
        """Return the same for the subset ``some`` of the rows."""
        numbers = None if self.numbers is None else self.numbers[some]
        return replace(self, places=self.places[some], numbers=numbers)

    def each(self, answer: Callable[..., None], spaces: tuple[Space, ...], rows: Array, start: int) -> None:
        """Call ``answer(block, table, ...)`` for blocks of rows that ask, with squared distances in each space.

        A table holds the distances to all ``rows``, the first of which is row ``start``; the distance of a row to
        itself is infinite.
        """
        if np.abs(rows).max() > LARGEST_ENTRY:
            raise ValueError(f"Squared distances overflow: the rows reach {np.abs(rows).max():.1e}. Rescale them.")
        measured = [space.distances_to(rows) for space in spaces]

        def ask(block: slice) -> None:
            tables = [squared(self.places[block]) for squared in measured]
            if self.numbers is not None:
                own = self.numbers[block] - start
                inside = np.flatnonzero((own >= 0) & (own < len(rows)))
                for table in tables:
                    table[inside, own[inside]] = np.inf
            answer(block, *tables)

        self.runner.each(ask, _blocks(len(self.places), len(rows)), "neighbours")


@dataclass(frozen=True, kw_only=True)
class Neighbors:
    """The nearest rows of each row that asks, nearest first; arrays of shape (rows that ask, k)."""

    near: Array  # squared distances
    index: Array  # numbers of these rows
    far: Array  # squared distances in the other space
    least: Array  # the k smallest squared distances to any rows in the other space, in order
    nearer: Array | None = None  # how many rows are nearer in the other space, if all answered

    @property
    def bounds(self) -> Array:
        """Squared distances in the other space, -inf for rows that are among the k nearest there."""
        return leave_out_near(self.far, self.least)

    def join(self, later: Neighbors, k: int) -> Neighbors:
        """Return the k nearest rows of both; of equal distances the earlier row comes first."""
        near, index, far, least = (
            np.concatenate([getattr(self, name), getattr(later, name)], axis=1)
            for name in ("near", "index", "far", "least")
        )
        order = np.argsort(near, axis=1, kind="stable")[:, :k]
        near, index, far = (np.take_along_axis(values, order, axis=1) for values in (near, index, far))
        return Neighbors(near=near, index=index, far=far, least=np.sort(least, axis=1)[:, :k])


def find_neighbors(
    asking: Asking, near: Space, far: Space, k: int, total: int, points: Array, measure: Array, start: int
) -> Neighbors:
    """Return the k nearest ``points`` of each row that asks, with their ranks if these are all ``total`` rows."""
    k = min(k, len(points))
    shape = len(asking.places), k
    nearer = np.empty(shape, np.int64) if len(points) == total else None
    found = Neighbors(
        near=np.empty(shape), index=np.empty(shape, np.int64), far=np.empty(shape), least=np.empty(shape), nearer=nearer
    )

    def answer(block: slice, near: Array, far: Array) -> None:
        columns = nearest(near, k)
        squared = np.take_along_axis(near, columns, axis=1)
        order = np.argsort(squared, axis=1, kind="stable")
        columns = np.take_along_axis(columns, order, axis=1)
        found.near[block], found.index[block] = np.take_along_axis(squared, order, axis=1), start + columns
        found.far[block] = np.take_along_axis(far, columns, axis=1)
        found.least[block] = np.sort(np.partition(far, k - 1, axis=1)[:, :k], axis=1)
        if nearer is not None:
            nearer[block] = count_nearer(far, columns, leave_out_near(found.far[block], found.least[block]))

    asking.each(answer, (near, far), points, start)
    return found


def count_ranks(
    asking: Asking, far: Space, index: Array, bounds: Array, points: Array, measure: Array, start: int
) -> Array:
    """Return how many ``points`` are nearer than the rows ``index``, (rows that ask, k); ties go to the first row.

    ``bounds``: the squared distances to the rows ``index``; -inf where the count is not needed.
    """
    out = np.empty(index.shape, dtype=np.int64)
    before = np.clip(index - start, 0, len(points))

    def answer(block: slice, far: Array) -> None:
        out[block] = count_nearer(far, before[block], bounds[block])

    asking.each(answer, (far,), points, start)
    return out


def leave_out_near(far: Array, least: Array) -> Array:
    """Return squared distances, -inf for those below the k-th smallest: these rows have rank <= k, so no penalty."""
    return np.where(far >= least[:, -1:], far, -np.inf)


def count_nearer(far: Array, columns: Array, bounds: Array) -> Array:
    """Return how many entries of each row of ``far`` are below ``bounds``, or equal and before ``columns``."""
    out = np.zeros(columns.shape, dtype=np.int64)
    for i, at in zip(*np.nonzero(bounds > -np.inf)):
        row, bound = far[i], bounds[i, at]
        out[i, at] = np.count_nonzero(row < bound) + np.count_nonzero(row[: columns[i, at]] == bound)
    return out


def nearest(squared: Array, k: int) -> Array:
    """Return the columns of the k smallest entries of each row, in increasing order; ties go to the first column."""
    last = np.partition(squared, k - 1, axis=1)[:, k - 1 : k]
    within = squared <= last
    for i in np.flatnonzero(np.count_nonzero(within, axis=1) > k):
        equal = np.flatnonzero(squared[i] == last[i])
        within[i, equal[k - np.count_nonzero(squared[i] < last[i]) :]] = False
    return np.nonzero(within)[1].reshape(len(squared), k)


def _penalise(
    spaces: Spaces, k: int, weights: Weights, rows: int | None, random_state: int, n_jobs: int | None, by_data: bool
) -> Score:
    """Return 1 minus the mean penalty of rows; ``by_data``: neighbours in the data, ranks in the embedding."""
    n, asking = len(spaces.answering), len(spaces.asking)
    k = parameters.count("n_neighbors", k)
    if 2 * k >= n:
        raise ValueError(f"n_neighbors={k} must be less than half the {n} rows, {n / 2:g}: beyond, ranks say nothing.")
    weight = weights_on("sample_weight", spaces.asking, weights)
    if rows is None and asking * n > ALL_PAIRS:
        rows = max(LEAST_ROWS, ALL_PAIRS // n)
    asked = sample_rows(asking, rows, np.random.default_rng(random_state))
    penalty = spaces.excess(asked, k, by_data, n_jobs)
    penalty *= 2 / (k * (2 * (n - spaces.itself) - 3 * k + 1))
    mean, error = _weighted_mean(penalty, weight[asked], asking)
    return Score(1 - mean, error, len(asked))


def _weighted_mean(values: Array, weight: Array, of: int) -> tuple[float, float]:
    """Return the weighted mean, and its standard error as that of a sample of ``of`` rows."""
    share = weight / max(weight.sum(), np.finfo(float).tiny)
    mean, count = float(share @ values), len(values)
    if count == of or count < 2:
        return mean, 0.0 if count == of else float("nan")
    spread = float(np.square(share * (values - mean)).sum()) * count / (count - 1)
    return mean, float(np.sqrt(spread * (1 - count / of)))


# -- distances -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, whose distances in two spaces are correlated: of ``rows``, or of one of them and one of others."""

    rows: Array  # data and embedding side by side
    others: Array | None
    spaces: tuple[Space, Space]

    def tables(self) -> Iterator[tuple[slice, Array, Array]]:
        """Yield blocks of rows with their distances to ``rows`` in both spaces."""
        first, second = (space.distances_to(self.rows) for space in self.spaces)
        asking = self.rows if self.others is None else self.others
        for block in _blocks(len(asking), len(self.rows)):
            yield block, np.sqrt(first(asking[block])), np.sqrt(second(asking[block]))

    def correlate(self, method: str) -> float:
        """Return the correlation of the distances in both spaces."""
        if method == "szekely":
            return self._szekely()
        kept = []
        for block, a, b in self.tables():
            if self.others is None:  # each pair once
                above = np.arange(a.shape[1]) > np.arange(block.start, block.stop)[:, None]
                a, b = a[above], b[above]
            kept.append((a.ravel(), b.ravel()))
        first, second = (np.concatenate(part) for part in zip(*kept))
        if method == "spearman":
            first, second = rankdata(first), rankdata(second)
        first, second = first - first.mean(), second - second.mean()
        sizes = float(np.linalg.norm(first) * np.linalg.norm(second))
        return float(first @ second) / sizes if sizes > 0 else float("nan")

    def _szekely(self) -> float:
        """Return the distance correlation, in two passes over the pairs: means, then products of the centred tables."""
        means = np.empty((2, len(self.rows)))
        for block, *tables in self.tables():
            means[:, block] = [table.mean(axis=1) for table in tables]
        level = means.mean(axis=1)
        sums = np.zeros(3)
        for block, *tables in self.tables():
            A, B = (t - mean[block, None] - (mean - top) for t, mean, top in zip(tables, means, level))
            sums += (A * B).sum(), (A * A).sum(), (B * B).sum()
        size = np.sqrt(sums[1] * sums[2])
        return float(np.sqrt(max(sums[0] / size, 0.0))) if size > 0 else float("nan")

    def standard_error(self, method: str) -> float:
        """Return the standard error, from the correlations of ERROR_GROUPS separate groups of rows."""
        others = self.rows if self.others is None else self.others
        orders = [np.random.default_rng(0).permutation(len(part)) for part in (self.rows, others)]
        if min(map(len, orders)) < 3 * ERROR_GROUPS:
            return float("nan")
        found = []
        for group in range(ERROR_GROUPS):
            own, other = (order[group::ERROR_GROUPS] for order in orders)
            part = replace(self, rows=self.rows[own], others=None if self.others is None else others[other])
            found.append(part.correlate(method))
        return float(np.std(found, ddof=1) / np.sqrt(ERROR_GROUPS))
