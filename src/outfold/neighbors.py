"""Search: which anchors are near a point. Exact by a tree of boxes or all pairs (blocked BLAS), whichever is quicker.

By faiss, approximately, on request or where an exact search would be slow; by a transformer on request.

Searches propose candidates; distances are always recomputed pair by pair in one fixed way, so that
a distance is a function of its two points alone, to the last bit, whichever way the pair was found.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _compiled, _patterns, _tree
from .distances import Distances
from .exceptions import OutfoldWarning
from .runners import Threads, available_cores, row_blocks

Array = NDArray[Any]

LEAF = 16  # points in a box
FEW_FEATURES = 5  # up to here a tree beats going through all pairs, whatever the points
TREE_FEATURES = 10  # up to here it is expected to, before the points are known
MOST_FEATURES = 128  # beyond no tree is tried
PROBES, PROBED = 32, 32  # points asked how many boxes a search looks into, and for how many neighbours
SLOW_SECONDS = 20.0  # an exact search estimated to take longer uses faiss, or says so
FLAT_WORK = 2e12  # n^2 features up to which faiss goes through all pairs
PAIR_FLOPS = 8e9  # of one core going through all pairs, for the estimate


@dataclass(frozen=True)
class Lists:
    """For each row some anchors with their squared distances: row i owns [ptr[i], ptr[i + 1])."""

    ptr: Array
    index: Array
    squared: Array

    def rows(self) -> Array:
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def kept(self, keep: Array) -> Lists:
        """Only the entries where ``keep``."""
        counts = np.add.reduceat(np.append(keep, False), self.ptr[:-1]) * (np.diff(self.ptr) > 0)
        return Lists(np.append(0, np.cumsum(counts)), self.index[keep], self.squared[keep])

    def kth(self, k: int) -> Array:
        """Squared distance of each row's k-th, where rows are nearest first; a search may have listed more."""
        return self.squared[self.ptr[:-1] + k - 1]

    def nearest(self, k: int) -> Lists:
        """The k nearest of each row, and what lies exactly as far as the last."""
        return self.kept(self.squared <= np.repeat(self.kth(k), np.diff(self.ptr)))


class Search(Protocol):
    """An index over the anchors."""

    @property
    def distances(self) -> Distances: ...

    @property
    def exact(self) -> bool: ...

    def closest(self, Z: Array, k: int, runner: Threads, groups: Any = None) -> Lists:
        """At least the k nearest anchors of each row (ties at the k-th included), and those with d <= reach[j] if they
        are grouped by reach; nearest first."""
        ...

    def arranged(self, Z: Array, runner: Threads) -> Array:
        """An order of the rows that puts rows near each other next to each other, if the search knows one."""
        ...

    def grouped(self, reach: Array) -> Any:
        """The anchors' own reach in the form ``within`` takes it."""
        ...

    def within(self, Z: Array, radii: Array, groups: Any, runner: Threads) -> Lists:
        """A superset of the anchors with d <= radii[i], or d <= radii[i] * reach[j] if they are grouped by reach."""
        ...


def squared_pairs(Z: Array, X: Array, ptr: Array, index: Array, runner: Threads) -> Array:
    """Squared distances of listed pairs."""
    out = np.empty(len(index))
    Z, X = (np.ascontiguousarray(A, dtype=float) for A in (Z, X))

    def fill(block: slice) -> None:
        _compiled.squared_pairs(Z, X, ptr, index, out, block.start, block.stop)

    runner.run(fill, row_blocks(len(Z), 8 * (1 + len(index) // max(1, len(Z)))))
    return out


def measured(distances: Distances, Z: Array, ptr: Array, index: Array, runner: Threads) -> Lists:
    """Listed pairs with their squared distances by any metric."""
    if distances.name == "euclidean":
        return Lists(ptr, index, squared_pairs(Z, distances.anchors, ptr, index, runner))
    return Lists(ptr, index, _look_up(distances, Z, ptr, index, runner))


def sorted_rows(lists: Lists, runner: Threads) -> Lists:
    """Each row in increasing order of distance, in place."""

    def sort(block: slice) -> None:
        _compiled.sort_rows(lists.ptr, lists.index, lists.squared, block.start, block.stop)

    runner.run(sort, row_blocks(len(lists.ptr) - 1, 64))
    return lists


def nearest_first(distances: Distances, Z: Array, ptr: Array, index: Array, runner: Threads) -> Lists:
    """The same, each row in increasing order of distance."""
    return sorted_rows(measured(distances, Z, ptr, index, runner), runner)


@dataclass(frozen=True)
class Tree:
    """A tree of boxes, for Euclidean distances between points on something of few dimensions."""

    distances: Distances
    exact: bool = True

    @cached_property
    def tree(self) -> tuple[Array, ...]:
        return _tree.plant(np.ascontiguousarray(self.distances.anchors, dtype=float), LEAF)

    def pays(self) -> bool:
        """Whether a search looks into so few boxes that all pairs by BLAS would take longer.

        That depends on the dimension of what the points lie on more than on their features, so some of them are asked.
        Both searches find the same neighbours. Costs are measured: nanoseconds an anchor.
        """
        points = self.distances.anchors
        n, features = points.shape
        if features <= FEW_FEATURES:
            return True
        some = np.asarray(points[np.linspace(0, n - 1, min(n, PROBES)).astype(int)], dtype=float)
        k = min(n, PROBED)
        reach = Brute(replace(self.distances)).closest(some, k, Threads(1)).kth(k)  # what it prepares is not kept
        low, high = (corner[len(corner) // 2 :] for corner in self.tree[2:4])  # of the leaves
        apart = (np.square(np.maximum(0, np.maximum(low - z, z - high))).sum(axis=1) for z in some)
        share = np.mean([(box <= far).mean() for box, far in zip(apart, reach)])
        return bool(share * (15 + 4 * features) < 3 + features / 20)

    def closest(self, Z: Array, k: int, runner: Threads, groups: Any = None) -> Lists:
        k = min(len(self.distances.anchors), k)
        reach, longest = (np.empty(0), np.empty(0)) if groups is None else groups
        return self._walk(Z, runner, lambda Z, order: _tree.nearest(Z, order, k, reach, longest, *self.tree))

    def arranged(self, Z: Array, runner: Threads) -> Array:
        """By the leaf a row falls into."""
        leaf = np.empty(len(Z), np.int64)
        _, _, low, high, _, _ = self.tree

        def look(block: slice) -> None:
            leaf[block] = _tree.leaves(Z, low, high, block.start, block.stop)

        runner.run(look, row_blocks(len(Z), 64))
        return np.argsort(leaf, kind="stable")

    def grouped(self, reach: Array) -> tuple[Array, Array]:
        """In the order of leaves, and the longest of each node."""
        _, rows, _, _, first, last = self.tree
        return _tree.highest(reach, rows, first, last)

    def within(self, Z: Array, radii: Array, groups: Any, runner: Threads) -> Lists:
        groups = self.grouped(np.ones(len(self.distances.anchors))) if groups is None else groups
        return self._walk(Z, runner, lambda Z, order: _tree.within(Z, order, radii, *groups, *self.tree))

    def _walk(self, Z: Array, runner: Threads, visit: Any) -> Lists:
        """Blocks of rows through the tree; lists in the order of rows."""
        Z = np.ascontiguousarray(Z, dtype=float)
        _, _, low, high, _, _ = self.tree

        def look(block: slice) -> tuple[Array, ...]:
            order = block.start + np.argsort(_tree.leaves(Z, low, high, block.start, block.stop), kind="stable")
            return order, *visit(Z, order)

        found: list[Any] = list(runner.map(look, row_blocks(len(Z), 64), "neighbours"))
        counts = np.empty(len(Z), np.int64)
        for order, sizes, _, _ in found:
            counts[order] = sizes
        ptr = np.append(0, np.cumsum(counts))
        index, squared = np.empty(ptr[-1], np.int64), np.empty(ptr[-1])

        def put(at: slice) -> None:
            _tree.put_rows(*found[at.start], ptr, index, squared)
            found[at.start] = None

        runner.run(put, [slice(i, i + 1) for i in range(len(found))])
        return Lists(ptr, index, squared)


@dataclass(frozen=True)
class Brute:
    """All pairs, block by block: BLAS proposes (Euclidean), exact distances decide; any other metric directly."""

    distances: Distances
    exact: bool = True

    def _table(self, Z: Array) -> tuple[Array, Array]:
        """Approximate squared distances (rows, n), and how far each row's may be off."""
        if self.distances.name != "euclidean":
            return self.distances.cross(Z), np.zeros(len(Z))
        table, rounding = self.distances.by_product(Z)
        return table, 4 * (Z.shape[1] + 4) * rounding

    def closest(self, Z: Array, k: int, runner: Threads, groups: Any = None) -> Lists:
        n = len(self.distances.anchors)
        k = min(n, k + 1)
        reach = np.full(n, -np.inf) if groups is None else groups * (1 + 1e-9)

        def look(block: slice) -> tuple[Array, Array]:
            table, slack = self._table(Z[block])
            rows = len(table)
            counts, width = np.empty(rows, np.int64), min(n, k + 8 if groups is None else 4 * k)
            while True:
                out = np.empty((rows, width), np.int64)
                _compiled.smallest_in_rows(table, k, 2 * slack, reach, counts, out, 0, rows)
                if counts.max() <= width:
                    break
                width = int(counts.max())
            return counts, out[np.arange(width) < counts[:, None]]

        return self._collect(Z, look, runner, sort=True)

    def arranged(self, Z: Array, runner: Threads) -> Array:
        return np.arange(len(Z))

    def grouped(self, reach: Array) -> Array:
        return np.square(reach)

    def within(self, Z: Array, radii: Array, groups: Any, runner: Threads) -> Lists:
        def look(block: slice) -> tuple[Array, Array]:
            table, slack = self._table(Z[block])
            bound = np.square(radii[block])[:, None] * (1.0 if groups is None else groups) * (1 + 1e-9)
            near = table <= bound + slack[:, None]
            return near.sum(axis=1), np.nonzero(near)[1]

        return self._collect(Z, look, runner, sort=False)

    def _collect(self, Z: Array, look: Any, runner: Threads, *, sort: bool) -> Lists:
        found = list(runner.map(look, row_blocks(len(Z), len(self.distances.anchors)), "neighbours"))
        ptr = np.append(0, np.cumsum(np.concatenate([counts for counts, _ in found])))
        index = np.ascontiguousarray(np.concatenate([columns for _, columns in found]), dtype=np.int64)
        return (nearest_first if sort else measured)(self.distances, Z, ptr, index, runner)


def _look_up(distances: Distances, Z: Array, ptr: Array, index: Array, runner: Threads) -> Array:
    """Squared distances of listed pairs by any metric, a block of rows at a time."""
    rows = np.repeat(np.arange(len(Z)), np.diff(ptr))

    def read(block: slice) -> Array:
        entries = slice(ptr[block.start], ptr[block.stop])
        return distances.cross(Z[block])[rows[entries] - block.start, index[entries]]

    return np.concatenate(list(runner.map(read, row_blocks(len(Z), len(distances.anchors)), "distances")))


@dataclass(frozen=True)
class Proposed:
    """Candidates from elsewhere (faiss, a k-neighbours transformer); everything else by ``Brute``."""

    distances: Distances
    source: Any = field(repr=False)
    exact: bool = False

    @cached_property
    def _brute(self) -> Brute:
        return Brute(self.distances)

    def closest(self, Z: Array, k: int, runner: Threads, groups: Any = None) -> Lists:
        n = len(self.distances.anchors)
        index = np.sort(self.source.candidates(Z, min(n, k)), axis=1)
        ptr = np.arange(0, index.size + 1, index.shape[1])
        flat = np.ascontiguousarray(index.ravel(), dtype=np.int64)
        if groups is not None:
            back = self._brute.within(Z, np.ones(len(Z)), groups, runner)
            ptr, flat = _patterns.union_rows(ptr, flat, back.ptr, back.index)
        return nearest_first(self.distances, Z, ptr, flat, runner)

    def arranged(self, Z: Array, runner: Threads) -> Array:
        return np.arange(len(Z))

    def grouped(self, reach: Array) -> Array:
        return self._brute.grouped(reach)

    def within(self, Z: Array, radii: Array, groups: Any, runner: Threads) -> Lists:
        return self._brute.within(Z, radii, groups, runner)


class FaissIndex:
    """Candidates from faiss, in float32: all pairs while that is quick, then inverted lists (k-means cells, seeded)."""

    def __init__(self, anchors: Array) -> None:
        self.anchors = anchors

    @cached_property
    def centre(self) -> Array:
        return self.anchors.mean(axis=0)

    @cached_property
    def index(self) -> Any:
        try:
            import faiss
        except ImportError as error:
            raise ImportError(
                'Neighbours are searched by faiss here, which is not installed: pip install "outfold[ann]".'
            ) from error
        data = np.ascontiguousarray(self.anchors - self.centre, dtype=np.float32)
        n, features = data.shape
        index: Any = faiss.IndexFlatL2(features)
        if n * n * features > FLAT_WORK:
            cells = int(4 * np.sqrt(n))
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(features), features, cells)
            index.cp.seed = 0
            index.train(data)
            index.nprobe = max(16, cells // 16)
        index.add(data)
        return index

    def ready(self) -> FaissIndex:
        """With its index built."""
        _ = self.index
        return self

    def candidates(self, Z: Array, k: int) -> Array:
        """More than k, so that rounding to float32 loses none of them."""
        rows = np.ascontiguousarray(Z - self.centre, dtype=np.float32)
        found = self.index.search(rows, min(self.index.ntotal, k + 8))[1]
        few = (found < 0).any(axis=1)
        if few.any():  # too few in the cells looked at: look everywhere for these
            import faiss

            everywhere: Any = faiss.SearchParametersIVF()
            everywhere.nprobe = self.index.nlist
            found[few] = self.index.search(rows[few], found.shape[1], params=everywhere)[1]
        return found


class TransformerIndex:
    """Candidates from an object with the contract of scikit-learn's KNeighborsTransformer."""

    def __init__(self, transformer: Any, anchors: Array) -> None:
        from sklearn.base import clone

        self.transformer = clone(transformer).fit(anchors)
        self.n = len(anchors)

    def candidates(self, Z: Array, k: int) -> Array:
        graph = self.transformer.transform(Z)
        if getattr(graph, "shape", None) != (len(Z), self.n):
            raise ValueError(
                f"{type(self.transformer).__name__} returned a graph of shape {getattr(graph, 'shape', None)} for "
                f"{len(Z)} rows and {self.n} anchors; expected {(len(Z), self.n)}."
            )
        counts = np.diff(graph.tocsr().indptr)
        if counts.min() < k:
            raise ValueError(
                f"{type(self.transformer).__name__} returned {counts.min()} neighbours for some row, but {k} are "
                f"needed (n_neighbors and one more, counting the point itself). Raise its n_neighbors to {k}."
            )
        graph = graph.tocsr()
        order = [np.argsort(graph.data[a:b])[:k] + a for a, b in zip(graph.indptr[:-1], graph.indptr[1:])]
        return graph.indices[np.array(order)]


def row_entries(search: Any) -> int:
    """About how many entries a row takes while it is searched, for cutting blocks."""
    return 64 if isinstance(search, Tree) else len(search.distances.anchors)


def of_any_k(search: Any) -> Search:
    """A search that can be asked for any number of neighbours, which a transformer cannot."""
    limited = isinstance(search, Proposed) and isinstance(search.source, TransformerIndex)
    return Brute(search.distances) if limited else search


def build(distances: Distances, search: Any) -> Search:
    """The search by name ("auto", "tree", "brute", "faiss") or from a transformer."""
    euclidean = distances.name == "euclidean"
    if search in ("tree", "faiss") and not euclidean:
        name = "precomputed" if distances.name == "given" else distances.name
        raise ValueError(f"search={search!r} is for Euclidean distances, not metric={name!r}. Pass search='auto'.")
    if search == "tree":
        return Tree(distances)
    if search == "brute":
        return Brute(distances)
    if search == "faiss":
        return Proposed(distances, FaissIndex(distances.anchors).ready())
    if search != "auto":
        return Proposed(distances, TransformerIndex(search, distances.anchors))
    n, features = distances.anchors.shape
    if euclidean and features <= MOST_FEATURES and (tree := Tree(distances)).pays():
        return tree
    seconds = 3.0 * n * n * (features + 8) / (PAIR_FLOPS * available_cores())
    if euclidean and seconds > SLOW_SECONDS:
        try:
            return Proposed(distances, FaissIndex(distances.anchors).ready())
        except ImportError:
            warnings.warn(
                f"Searching the neighbours of {n} points with {features} features exactly will take about "
                f'{seconds:.0f} s. pip install "outfold[ann]" (faiss) makes it a few seconds, approximately.',
                OutfoldWarning,
                stacklevel=2,
            )
    return Brute(distances)
