"""Graphs that the caller gives as a matrix: affinities between nodes, or distances of neighbours.

Of a sparse matrix, an affinity that is not stored is 0, no edge. A distance that is not stored belongs to no pair of
neighbours; one that is stored as 0 is a distance of 0. That holds for the diagonal too: a node is its own neighbour if
its row says so; in a fit by nearest neighbours (adaptive kernels, Isomap, PHATE) every node is. Then the row of a node
is all that is needed to embed it, whether it was in the fit or is new. A sparse matrix of distances that stores all
pairs, but perhaps the diagonal, is taken for a full matrix.

Neighbour graphs are directed: i may be among the nearest of j, and j not among those of i. ``symmetrize`` makes a
graph of them by a rule with a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from .._loops import csr
from .._runtime.threads import Threads
from .._runtime.typing import CACHE, WHOLE, Array, Axes, Matrix, Sparse
from ..bandwidths import PairStatistics
from ..data.sparse_rows import SparseRows
from ..distances import LARGEST_ENTRY, LEAST_SPREAD, PointMetric
from ..neighbors import Lists
from ..neighbors.lists import sort_rows
from .drawing import expect_kind
from .pair_statistics import kth, median_length
from .protocols import EdgeRule, FittedKernel, Graph

SYMMETRIC_TO = 1e-6  # relative difference between w(i, j) and w(j, i) that is taken for rounding
TYPICAL_ENTRIES = 64  # of a row of a given graph, to choose the size of blocks


LARGEST_AFFINITY = 1e-101, 1e101  # within these, products and powers of degrees are numbers


def check_units(values: Array, given: str) -> None:
    """Raise ValueError if precomputed values are so large or so small that what is computed of them is no number."""
    low, high = (LEAST_SPREAD, LARGEST_ENTRY) if given == "metric" else LARGEST_AFFINITY
    stored = values.data if isinstance(values, SparseRows) else values
    largest = max(float(stored.max(initial=0.0)), -float(stored.min(initial=0.0)))
    if largest > 0 and not low <= largest <= high:
        raise ValueError(
            f"The largest value of the precomputed matrix is {largest:.3g}; {given}='precomputed' computes with values "
            f"from {low:.0e} to {high:.0e}. Divide the matrix by its largest value: units do not matter."
        )


class _Merge(NamedTuple):
    """How two entries (i, j) and (j, i) become one: low * smaller + high * larger; one without the other: alone."""

    low: float
    high: float
    alone: float


_AFFINITIES = {"mean": _Merge(0.5, 0.5, 0.5), "union": _Merge(0.0, 1.0, 1.0), "mutual": _Merge(1.0, 0.0, 0.0)}
_DISTANCES = {"mean": _Merge(0.5, 0.5, 1.0), "union": _Merge(1.0, 0.0, 1.0), "mutual": _Merge(0.0, 1.0, 0.0)}
SYMMETRIZATIONS = tuple(_AFFINITIES)
SYMMETRIZE = ("auto", *SYMMETRIZATIONS, "error")  # the parameter of estimators


def symmetrize(graph: Matrix, rule: str = "mean", *, distances: bool = False) -> Matrix:
    """Return a symmetric matrix from a directed graph, dense or sparse.

    Parameters
    ----------
    graph : array or sparse matrix (n, n)
        Affinities, or distances.
    rule : "mean", "union" or "mutual"
        "mean": (w_ij + w_ji) / 2. "union": an edge in either direction counts, with the larger affinity or the shorter
        distance. "mutual": an edge must be there in both directions, with the smaller affinity or the longer distance.
    distances : bool
        Whether the entries are distances. A distance that is stored in one direction only holds in both ("mean" and
        "union"), since an entry that is not stored is not a distance of 0.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> directed = csr_array(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    >>> symmetrize(directed, "mean").toarray().tolist()
    [[0.0, 0.75, 0.0], [0.75, 0.0, 1.0], [0.0, 1.0, 0.0]]
    >>> symmetrize(directed, "mutual").toarray().tolist()
    [[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if rule not in SYMMETRIZATIONS:
        raise ValueError(f"rule={rule!r} is not known. Valid: {', '.join(map(repr, SYMMETRIZATIONS))}.")
    merge = (_DISTANCES if distances else _AFFINITIES)[rule]
    if not issparse(graph):
        return _merge_dense(np.asarray(graph, dtype=float), merge)
    merged: Sparse = csr_array(merge_directions(SparseRows.of(graph, keep_zeros=distances), merge)[0])
    return merged


def merge_directions(W: SparseRows, merge: _Merge) -> tuple[SparseRows, float]:
    """Return W merged with its transpose, and the largest difference between the two."""
    back, n = csr_array(W).T.tocsr(), len(W)
    counts = np.empty(n, np.int64)
    csr.count_merged(W.indptr, W.indices, back.indptr, back.indices, merge.alone > 0, counts)
    ptr = np.append(0, np.cumsum(counts))
    columns, values = np.empty(ptr[-1], W.indices.dtype), np.empty(ptr[-1])
    own, theirs = (W.indptr, W.indices, W.data), (back.indptr, back.indices, back.data)
    largest = csr.merge_rows(*own, *theirs, *merge, ptr, columns, values)
    ptr = ptr.astype(W.indices.dtype) if ptr[-1] < np.iinfo(W.indices.dtype).max else ptr
    return SparseRows((values, columns, ptr), shape=W.shape), float(largest)


def _merge_dense(W: Array, merge: _Merge) -> Array:
    merged: Array = merge.low * np.minimum(W, W.T) + merge.high * np.maximum(W, W.T)
    return merged


def make_symmetric(graph: Array, rule: str, *, distances: bool, parameter: str) -> Array:
    """Return a symmetric graph by a rule: "auto", a rule of :func:`symmetrize`, or "error".

    "auto": a sparse graph by "mean" (affinities) or "union" (distances), which is what other libraries do. A dense
    matrix must be symmetric, since a directed one is a mistake more often than not.
    """
    sparse = isinstance(graph, SparseRows)
    chosen = ("union" if distances else "mean") if rule in ("auto", "error") else rule
    merge = (_DISTANCES if distances else _AFFINITIES)[chosen]
    merged: Array
    if isinstance(graph, SparseRows):
        merged, largest = merge_directions(graph, merge)
        size = float(np.abs(graph.data).max(initial=0.0))
    else:
        size, largest = float(np.abs(graph).max()), float(np.abs(graph - graph.T).max())
        merged = graph if largest == 0 else _merge_dense(graph, merge)
    if largest > SYMMETRIC_TO * size and (rule == "error" or (rule == "auto" and not sparse)):
        raise ValueError(
            f"{parameter} needs a symmetric matrix; entries (i, j) and (j, i) differ by up to {largest:.3g}. Pass "
            "(X + X.T) / 2 if that is what you mean, or outfold.graphs.symmetrize(X, rule) if the graph is directed."
        )
    return merged


def with_diagonal(W: Sparse) -> Sparse:
    """Return W with every entry of its diagonal stored: 0 where none was. Columns must increase within rows."""
    n = W.shape[0]
    rows = np.repeat(np.arange(n), np.diff(W.indptr))
    stored = np.zeros(n, bool)
    stored[rows[rows == W.indices]] = True
    missing = np.flatnonzero(~stored)
    if not len(missing):
        return W
    counts = np.diff(W.indptr) + ~stored
    before = np.bincount(rows[W.indices < rows], minlength=n)  # entries to the left of the diagonal
    ptr = np.append(0, np.cumsum(counts))
    new = np.zeros(ptr[-1], bool)
    new[ptr[missing] + before[missing]] = True
    columns, values = np.empty(len(new), W.indices.dtype), np.zeros(len(new))
    columns[new], columns[~new], values[~new] = missing, W.indices, W.data
    filled: Sparse = csr_array((values, columns, ptr.astype(W.indptr.dtype)), shape=W.shape)
    return filled


def is_isolated(graph: Array, distances: bool) -> Array:
    """Return which nodes have no edge: no distance to another node, or no affinity above 0 with another node."""
    alone: Array
    if not isinstance(graph, SparseRows):
        alone = np.zeros(len(graph), bool)
        if not distances:
            alone = (graph > 0).sum(axis=1) == (graph.diagonal() > 0)
        return alone
    rows = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    edges = (rows != graph.indices) & (distances | (graph.data > 0))
    alone = np.bincount(rows[edges], minlength=len(graph)) == 0
    return alone


def stores_every_pair(graph: Array) -> bool:
    """Return whether a sparse matrix of distances stores all pairs of different nodes."""
    assert isinstance(graph, SparseRows)
    n = len(graph)
    if graph.nnz < n * (n - 1):
        return False
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    return int((rows != graph.indices).sum()) == n * (n - 1)


def as_lists(W: SparseRows, runner: Threads) -> Lists:
    """Return the entries of each row with their squares, by increasing distance."""
    ptr = W.indptr.astype(np.int64)
    return sort_rows(Lists(ptr, W.indices.astype(np.int64), np.square(W.data)), runner)


@dataclass(frozen=True, kw_only=True)
class GivenStatistics(PairStatistics):
    """Statistics of the edges of a sparse graph: squared distances, or affinities."""

    values: Sparse  # symmetric
    squares: bool  # whether the values are squared distances
    measure: Array
    runner: Threads
    widest: float = np.inf
    recall: ClassVar[None] = None

    @property
    def total(self) -> float:
        return float(self.measure.sum())

    def radius(self, k: float) -> float:
        return median_length(self._kth_squares(k), self.measure)

    def longest(self, k: float) -> float:
        return float(np.sqrt(self._kth_squares(k).max()))

    def _kth_squares(self, k: float) -> Array:
        """Return the squared length of each node's edge to neighbour k."""
        shape = self.values.shape
        lengths = SparseRows((np.sqrt(self.values.data), self.values.indices, self.values.indptr), shape=shape)
        return kth(as_lists(lengths, self.runner), self.measure, k + 1)

    def pairs(self) -> tuple[Array, Array]:
        """Return the squared lengths of the edges and their weights: other pairs are not known."""
        rows = np.repeat(np.arange(len(self.measure)), np.diff(self.values.indptr))
        upper = rows < self.values.indices
        weights = self.measure[rows[upper]] * self.measure[self.values.indices[upper]]
        return self.values.data[upper], weights


@dataclass(frozen=True, kw_only=True)
class GivenEdges(EdgeRule):
    """The edges of a sparse graph that the caller gives."""

    squares: bool  # whether the graph has distances, which are squared
    neighbors: ClassVar[int] = 0

    def statistics(self, metric: PointMetric, points: Array, measure: Array, runner: Threads) -> GivenStatistics:
        graph = points
        assert isinstance(graph, SparseRows)
        values = np.square(graph.data) if self.squares else graph.data.copy()
        entries: Sparse = csr_array((values, graph.indices, graph.indptr), shape=graph.shape)
        return GivenStatistics(values=entries, squares=self.squares, measure=measure, runner=runner)

    def draw(self, statistics: PairStatistics, kernel: FittedKernel | None, runner: Threads) -> GivenGraph:
        found = expect_kind(statistics, GivenStatistics)
        return GivenGraph(anchors=np.arange(len(found.measure)), squares=self.squares, table=found.values)

    def describe(self) -> str:
        return "given edges"

    def remedy(self) -> str:
        return "Give a graph with more edges"


@dataclass(frozen=True, kw_only=True)
class GivenGraph(Graph):
    """A sparse graph whose rows the caller passes: squared distances, or affinities, of the stored entries."""

    anchors: Annotated[Array, Axes("n"), WHOLE]  # indices of the training columns
    squares: bool
    table: Annotated[Sparse | None, CACHE] = field(repr=False, default=None)  # (n, n), until ``gram``
    row_entries: ClassVar[int] = TYPICAL_ENTRIES

    def gram(self, runner: Threads) -> Sparse:
        assert self.table is not None
        return self.table

    def without_caches(self) -> GivenGraph:
        return replace(self, table=None)

    def cross(self, Z: Array) -> Sparse:
        rows = stored_entries(Z, self.squares)
        values = np.square(rows.data) if self.squares else rows.data.copy()
        seen: Sparse = csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        return seen

    def pairs(self, X: Array, Y: Array) -> Array:
        raise ValueError("A precomputed graph has no edges between new rows: the kernel between any rows is not known.")

    def nearest(self, Z: Array) -> Array:
        return nearest_entry(Z, self.squares)

    def sees_nothing(self, Z: Array) -> Array:
        return has_no_entry(Z, self.squares)


def stored_entries(Z: Array, distances: bool) -> SparseRows:
    """Return rows of a precomputed matrix as sparse ones; every distance of a dense row is an entry."""
    if isinstance(Z, SparseRows):
        return Z
    Z = np.asarray(Z, dtype=float)
    if not distances:
        return SparseRows(Z)
    ptr = np.arange(0, Z.size + 1, Z.shape[1])
    columns = np.tile(np.arange(Z.shape[1]), len(Z))
    return SparseRows((Z.ravel(), columns, ptr), shape=Z.shape)


def has_no_entry(Z: Array, distances: bool) -> Array:
    """Return the rows of a precomputed matrix that say nothing: no distance, or no affinity above 0."""
    if isinstance(Z, SparseRows):
        stored: Array = np.diff(Z.indptr) == 0
        return stored
    if distances:
        return np.zeros(len(Z), bool)
    empty: Array = (np.asarray(Z) > 0).sum(axis=1) == 0
    return empty


def nearest_entry(Z: Array, distances: bool) -> Array:
    """Return the column of the shortest distance, or of the largest affinity, in each row; 0 if it has no entry."""
    if not isinstance(Z, SparseRows):
        at: Array = Z.argmin(axis=1) if distances else Z.argmax(axis=1)
        return at
    found = np.zeros(len(Z), np.intp)
    held = np.flatnonzero(np.diff(Z.indptr))
    rows = np.repeat(np.arange(len(Z)), np.diff(Z.indptr))
    order = np.lexsort((Z.data if distances else -Z.data, rows))
    found[held] = Z.indices[order[Z.indptr[held]]]
    return found
