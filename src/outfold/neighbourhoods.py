"""Whether neighbours and distances survive an embedding, on the rows it was fitted to and on new ones.

Ranks of all rows among all rows take n^2 time; of many rows a random part asks and all of them answer, so memory stays
bounded and the answer has a standard error. Distances are taken pair by pair, and of equal ones the row that comes
first is nearer, so copies and ties give the same answer every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from . import _resolve
from .distances import LARGEST, Distances, Metric
from .runners import Threads, check_fits
from .sources import in_dask, weighed

Array = NDArray[Any]

TABLE_ENTRIES = 1 << 22  # 32 MB of distances at a time, on each thread
ALL_PAIRS = 1 << 30  # up to so many pairs every row asks: about 32 000 rows
LEAST_ROWS = 1000  # that ask where a part of them does
CORRELATED_ROWS = 2000  # whose pairs are correlated
GROUPS = 10  # of rows, whose answers tell the standard error


class Score(float):
    """A number, with the standard error that asking a part of the rows left it; 0 where all were asked."""

    standard_error: float
    rows: int  #: that were asked

    def __new__(cls, value: float, standard_error: float, rows: int) -> Score:
        found = super().__new__(cls, value)
        found.standard_error, found.rows = standard_error, rows
        return found

    def __getnewargs__(self) -> tuple[float, float, int]:  # type: ignore[override]
        return float(self), self.standard_error, self.rows

    def __str__(self) -> str:
        return f"{float(self):.4f}" + (f" +- {self.standard_error:.4f}" if self.standard_error else "")


def trustworthiness(
    X: Any,
    embedding: Any,
    *,
    n_neighbors: int = 5,
    new: tuple[Any, Any] | None = None,
    metric: Any = "euclidean",
    sample_weight: Any = None,
    rows: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Score:
    """How few of a row's neighbours in the embedding were far from it in the data; 1 is best (Venna and Kaski, 2001).

    1 - mean_i 2 / (k (2 c - 3 k + 1)) sum_j max(0, r(i, j) - k), over the k nearest j of i in the embedding; r is the
    rank of j among the c rows that i can choose from, by distance in the data.

    Parameters
    ----------
    X : array of shape (n, n_features), or Dask's
    embedding : array of shape (n, n_components), or Dask's
        In parts of any sizes; Dask's rows answer where they are.
    n_neighbors : int
        k; less than half the rows.
    new : (Z, embedding of Z), optional
        Ask these rows instead, for their neighbours among the n rows: the same number for points an embedding was
        extended to.
    metric : name, callable or Metric
        Of the data; the embedding's is Euclidean.
    sample_weight : array, optional
        How much each of the rows that are asked counts.
    rows : int, optional
        How many rows to ask, drawn at random. None: all, of more than 32 000 at least 1000.
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
    spaces = _spaces(X, embedding, new)
    return _penalised(spaces, metric, n_neighbors, sample_weight, rows, random_state, n_jobs, by_data=False)


def continuity(
    X: Any,
    embedding: Any,
    *,
    n_neighbors: int = 5,
    new: tuple[Any, Any] | None = None,
    metric: Any = "euclidean",
    sample_weight: Any = None,
    rows: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Score:
    """How few of a row's neighbours in the data are far from it in the embedding; 1 is best (Venna and Kaski, 2001).

    As :func:`trustworthiness`, which see for the parameters, with data and embedding in each other's place.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> continuity(circle, angle) < 1  # cut open: neighbours across the cut are lost
    True
    """
    spaces = _spaces(X, embedding, new)
    return _penalised(spaces, metric, n_neighbors, sample_weight, rows, random_state, n_jobs, by_data=True)


def distance_correlation(
    X: Any,
    embedding: Any,
    *,
    method: str = "pearson",
    new: tuple[Any, Any] | None = None,
    metric: Any = "euclidean",
    rows: int | None = CORRELATED_ROWS,
    random_state: int = 0,
) -> Score:
    """Correlation of distances in the data with distances in the embedding, over pairs of rows.

    Parameters
    ----------
    X : array of shape (n, n_features), or Dask's
    embedding : array of shape (n, n_components), or Dask's
    method : "pearson", "spearman" or "szekely"
        Of the distances; of their ranks; or the distance correlation of Szekely, Rizzo and Bakirov (2007), which is 0
        for independent rows only: sqrt(dCov^2(X, Y) / (dVar(X) dVar(Y))) with double-centred tables of distances.
    new : (Z, embedding of Z), optional
        Take pairs of one of these rows and one of X instead; not for "szekely".
    metric : name, callable or Metric
        Of the data; the embedding's is Euclidean.
    rows : int, optional
        Of more rows so many are drawn at random, and all their pairs taken; of new rows too. None: all, of Dask's up to
        32 768.
    random_state : int

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(500, random_state=0)
    >>> distance_correlation(X, position) < 0.99 < distance_correlation(position, 2 * position)
    True
    """
    _resolve.one_of("method", method, ("pearson", "spearman", "szekely"))
    spaces = _spaces(X, embedding, new)
    if new is not None and method == "szekely":
        raise ValueError(
            "method='szekely' centres the table of one set of rows; with new= take 'pearson' or 'spearman'."
        )
    rng = np.random.default_rng(random_state)
    n, others = len(spaces.answering), len(spaces.asking)
    asked, own = _drawn(n, rows, rng), None if new is None else _drawn(others, rows, rng)
    if min(len(asked), n) < 3:
        raise ValueError(f"A correlation of distances needs at least 3 rows; there are {len(asked)}.")
    if method != "szekely":
        needed = 32.0 * len(asked) * (len(asked) / 2 if own is None else len(own))
        instead = f"Pass rows=, such as the default of {CORRELATED_ROWS}."
        check_fits(needed, f"The distances of all pairs of {len(asked)} rows need", instead)
    tables, measures = spaces.taken(asked, own), spaces.measures(metric)
    value = _correlated(tables, measures, method)
    complete = len(asked) == n and (own is None or len(own) == others)
    error = 0.0 if complete else _between_groups(tables, measures, method)
    return Score(value, error, len(asked))


# -- ranks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Here:
    """Data and embedding in memory, each as rows that answer; and rows that ask, which may be the same."""

    data: tuple[Array, Array]  # rows that answer, rows that ask
    flat: tuple[Array, Array]

    @property
    def answering(self) -> Array:
        return self.data[0]

    @property
    def asking(self) -> Array:
        return self.data[1]

    @property
    def itself(self) -> bool:
        return self.data[1] is self.data[0]

    def weight(self, sample_weight: Any) -> Array:
        """Of the rows that ask."""
        return weighed("sample_weight", sample_weight, len(self.asking))

    def measures(self, metric: Any) -> tuple[Distances, Distances]:
        return Metric.of(metric).fit(self.data[0]), Metric().fit(self.flat[0])

    def taken(self, asked: Array, own: Array | None) -> list[tuple[Array, Array | None]]:
        """Data and embedding of some rows that answer and, if others ask, of some of those."""
        return [(space[0][asked], None if own is None else space[1][own]) for space in (self.data, self.flat)]

    def excess(self, asked: Array, k: int, metric: Any, by_data: bool, n_jobs: int | None) -> Array:
        """Sum of max(0, rank - k) over the k neighbours of each row; ``by_data``: neighbours in the data."""
        far, near = self.measures(metric)
        places = self.flat[1], self.asking
        if by_data:
            near, far, places = far, near, (places[1], places[0])
        out = np.empty(len(asked))

        def ask(block: slice) -> None:
            own = asked[block]
            closest = nearest(near.cross(places[0][own]), own if self.itself else None, k)
            out[block] = _excess(far.cross(places[1][own]), own if self.itself else None, closest, k)

        step = max(1, TABLE_ENTRIES // len(self.answering))
        blocks = [slice(at, min(at + step, len(asked))) for at in range(0, len(asked), step)]
        Threads(n_jobs).each(ask, blocks, "neighbours")
        return out


def _spaces(X: Any, embedding: Any, new: Any) -> Any:
    """Data and embedding, here or where they are."""
    if any(map(in_dask, (X, embedding, *(new if isinstance(new, tuple | list) else ())))):
        from ._spread_quality import Spaces

        return Spaces.of(X, embedding, new)
    found = paired(table, X, embedding, new)
    return Here(*((found[0][at], found[-1][at]) for at in range(2)))


def paired(read: Callable[[str, Any], Any], X: Any, embedding: Any, new: Any) -> list[tuple[Any, Any]]:
    """Rows with their places, those that answer first, those that ask last; each table is read by its name."""
    pairs = [("X", X, "embedding", embedding)]
    if new is not None:
        if not isinstance(new, tuple | list) or len(new) != 2:
            raise ValueError("new= is a pair: the new rows and their embedding.")
        pairs.append(("new[0]", new[0], "new[1]", new[1]))
    found = []
    for name, rows, beside, places in pairs:
        rows, places = read(name, rows), read(beside, places)
        if len(rows) != len(places):
            raise ValueError(
                f"{name} has {len(rows)} rows, but {beside} has {len(places)}: they must be the same rows."
            )
        found.append((rows, places))
    for name, one, other in zip(("X", "embedding"), found[0], found[-1]):
        if one.shape[1] != other.shape[1]:
            raise ValueError(f"{name} has {one.shape[1]} columns, but its new rows have {other.shape[1]}.")
    return found


def table(name: str, values: Any) -> Array:
    """Rows and columns of finite numbers whose squares are finite."""
    values = np.asarray(values, dtype=float)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{name} must be a table of rows and columns, none of them 0; its shape is {values.shape}.")
    bad = len(values) - int(np.isfinite(values).all(axis=1).sum())
    if bad:
        raise ValueError(f"{bad} of {len(values)} rows of {name} hold NaN or infinity: leave them out.")
    if np.abs(values).max() > LARGEST:
        raise ValueError(f"Squared distances overflow: {name} reaches {np.abs(values).max():.1e}. Rescale it.")
    return np.ascontiguousarray(values)


def _drawn(n: int, rows: int | None, rng: np.random.Generator) -> Array:
    """All rows, or so many of them at random, in order."""
    count = n if rows is None else min(n, _resolve.count("rows", rows))
    return np.arange(n) if count == n else np.sort(rng.choice(n, count, replace=False))


def _penalised(
    spaces: Any,
    metric: Any,
    k: int,
    sample_weight: Any,
    rows: int | None,
    random_state: int,
    n_jobs: int | None,
    by_data: bool,
) -> Score:
    """1 minus the mean penalty of rows; ``by_data``: neighbours in the data, ranks in the embedding."""
    n, asking = len(spaces.answering), len(spaces.asking)
    choices = n - spaces.itself
    k = _resolve.count("n_neighbors", k)
    if 2 * k >= n:
        raise ValueError(f"n_neighbors={k} must be less than half the {n} rows, {n / 2:g}: beyond, ranks say nothing.")
    weight = spaces.weight(sample_weight)
    if rows is None and asking * n > ALL_PAIRS:
        rows = max(LEAST_ROWS, ALL_PAIRS // n)
    asked = _drawn(asking, rows, np.random.default_rng(random_state))
    penalty = spaces.excess(asked, k, metric, by_data, n_jobs)
    penalty *= 2 / (k * (2 * choices - 3 * k + 1))
    mean, error = _weighted_mean(penalty, weight[asked], asking)
    return Score(1 - mean, error, len(asked))


def _weighted_mean(values: Array, weight: Array, of: int) -> tuple[float, float]:
    """The mean, and its standard error as that of a part of ``of`` rows."""
    share = weight / max(weight.sum(), np.finfo(float).tiny)
    mean, count = float(share @ values), len(values)
    if count == of or count < 2:
        return mean, 0.0 if count == of else float("nan")
    spread = float(np.square(share * (values - mean)).sum()) * count / (count - 1)
    return mean, float(np.sqrt(spread * (1 - count / of)))


def nearest(squared: Array, itself: Array | None, k: int) -> Array:
    """The k nearest columns of each row; of equally far ones the first."""
    if itself is not None:
        squared[np.arange(len(squared)), itself] = np.inf
    last = np.partition(squared, k - 1, axis=1)[:, k - 1 : k]
    out = np.empty((len(squared), k), dtype=np.intp)
    for i, row in enumerate(squared):
        within, at = np.flatnonzero(row < last[i]), np.flatnonzero(row == last[i])
        out[i] = np.append(within, at[: k - len(within)])
    return out


def _excess(squared: Array, itself: Array | None, columns: Array, k: int) -> Array:
    """Sum of max(0, rank - k) over some columns of each row, ranks from 1 by distance, then by column."""
    if itself is not None:
        squared[np.arange(len(squared)), itself] = np.inf
    last = np.partition(squared, k - 1, axis=1)[:, k - 1]
    out = np.zeros(len(squared))
    for i, row in enumerate(squared):
        for j in columns[i][row[columns[i]] >= last[i]]:  # nearer ones have no excess
            rank = 1 + np.count_nonzero(row < row[j]) + np.count_nonzero(row[:j] == row[j])
            out[i] += max(0, rank - k)
    return out


# -- distances -------------------------------------------------------------------------------


def _tables(spaces: list[Any], measures: tuple[Distances, Distances]) -> Iterator[tuple[slice, Array, Array]]:
    """Distances in both spaces, some rows at a time."""
    columns = [replace(measure, anchors=space[0]) for space, measure in zip(spaces, measures)]
    asking = [space[0] if space[1] is None else space[1] for space in spaces]
    step = max(1, TABLE_ENTRIES // len(spaces[0][0]))
    for start in range(0, len(asking[0]), step):
        block = slice(start, min(start + step, len(asking[0])))
        first, second = (np.sqrt(to.cross(rows[block])) for to, rows in zip(columns, asking))
        yield block, first, second


def _correlated(spaces: list[Any], measures: tuple[Distances, Distances], method: str) -> float:
    if method == "szekely":
        return _szekely(spaces, measures)
    own = spaces[0][1] is None
    kept = []
    for block, a, b in _tables(spaces, measures):
        if own:  # each pair once
            above = np.arange(a.shape[1]) > np.arange(block.start, block.stop)[:, None]
            a, b = a[above], b[above]
        kept.append((a.ravel(), b.ravel()))
    first, second = (np.concatenate(part) for part in zip(*kept))
    if method == "spearman":
        first, second = rankdata(first), rankdata(second)
    return _pearson(first, second)


def _pearson(first: Array, second: Array) -> float:
    first, second = first - first.mean(), second - second.mean()
    sizes = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / sizes if sizes > 0 else float("nan")


def _szekely(spaces: list[Any], measures: tuple[Distances, Distances]) -> float:
    """Two walks over the pairs: means, then products of the centred tables."""
    n = len(spaces[0][0])
    means = np.empty((2, n))
    for block, *tables in _tables(spaces, measures):
        means[:, block] = [table.mean(axis=1) for table in tables]
    level = means.mean(axis=1)
    sums = np.zeros(3)
    for block, *tables in _tables(spaces, measures):
        A, B = (t - mean[block, None] - (mean - top) for t, mean, top in zip(tables, means, level))
        sums += (A * B).sum(), (A * A).sum(), (B * B).sum()
    size = np.sqrt(sums[1] * sums[2])
    return float(np.sqrt(max(sums[0] / size, 0.0))) if size > 0 else float("nan")


def _between_groups(spaces: list[Any], measures: tuple[Distances, Distances], method: str) -> float:
    """The standard error, from the answers of separate tenths of the rows."""
    found = []
    orders = [np.random.default_rng(0).permutation(len(a)) for a in spaces[0] if a is not None]
    if min(map(len, orders)) < 3 * GROUPS:
        return float("nan")
    for group in range(GROUPS):
        at = [order[group::GROUPS] for order in orders]
        part = [(a[at[0]], None if b is None else b[at[1]]) for a, b in spaces]
        found.append(_correlated(part, measures, method))
    return float(np.std(found, ddof=1) / np.sqrt(GROUPS))
