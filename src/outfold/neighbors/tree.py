"""Neighbour search by a k-d tree, for points of low intrinsic dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from .._loops import kdtree
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Axes
from ..distances import SearchedDistances
from .brute import Brute
from .lists import Lists
from .search import Reaches, Search

LEAF = 32  # points in a leaf
ROWS_PER_PART = 4  # rows that are searched one after another: the nearer they are, the better one bounds the next
TREE_ALWAYS_UP_TO = 5  # features up to which a tree is quicker than all pairs for any points
TREE_FEATURES = 10  # features up to which a tree is expected to be quicker, before the points are tested
MOST_FEATURES = 128  # with more features no tree is tried
PROBES, PROBED = 32, 32  # test searches that count the leaves they visit, and neighbours of each
THIN = 4  # every how many-th point the tree of a first test holds


@dataclass(frozen=True)
class Tree(Search):
    """A k-d tree for Euclidean distances, quick for points of low intrinsic dimension."""

    distances: Annotated[SearchedDistances, Axes("n d")]
    exact: bool = True
    recall: ClassVar[None] = None
    row_entries: ClassVar[int] = 128

    @cached_property
    def tree(self) -> kdtree.Boxes:
        return kdtree.plant(np.ascontiguousarray(self.distances.anchors, dtype=float), LEAF)

    def pays(self) -> bool:
        """Return whether a search visits so few leaves that it is quicker than all pairs by BLAS.

        That depends on the intrinsic dimension of the points more than on their features, so some searches are tested.
        Both searches return the same neighbours. The costs were measured: nanoseconds per anchor.

        A tree of every fourth point, with as many leaves, has smaller boxes: if even that does not pay, the tree of all
        points is not made.
        """
        points = self.distances.anchors
        n, features = points.shape
        if features <= TREE_ALWAYS_UP_TO:
            return True
        some = np.asarray(points[np.linspace(0, n - 1, min(n, PROBES)).astype(int)], dtype=float)
        k = min(n, PROBED)
        # a copy of `distances`, so that what it caches is freed afterwards
        reach = Brute(self.distances.to(points)).closest(some, k, Threads(1)).kth(k)
        most = (3 + features / 20) / (15 + 4 * features)
        thin = np.ascontiguousarray(points[::THIN], dtype=float)
        if _share_of_leaves(kdtree.plant(thin, LEAF // THIN), some, reach) >= most:
            return False
        return bool(_share_of_leaves(self.tree, some, reach) < most)

    def closest(self, Z: Array, k: int, runner: Threads, groups: Reaches | None = None) -> Lists:
        k = min(len(self.distances.anchors), k)
        reach, longest = groups or Reaches(np.empty(0), np.empty(0))
        return self._walk(Z, runner, lambda Z, order: kdtree.nearest(Z, order, k, reach, longest, self.tree))

    def arrange(self, Z: Array, runner: Threads) -> Array:
        """Return the rows sorted by the part of space in which they fall."""
        part, halvings = np.empty(len(Z), np.int64), self._halvings(len(Z))
        _, _, low, high, _, _ = self.tree

        def look(block: slice) -> None:
            part[block] = kdtree.leaves(Z, low, high, self._sides, halvings, block.start, block.stop)

        runner.run(look, row_blocks(len(Z), 64))
        return _order(part)

    @cached_property
    def _sides(self) -> Array:
        """The longest side of each node's box, along which it is cut."""
        _, _, low, high, _, _ = self.tree
        sides: Array = np.argmax(high - low, axis=1)
        return sides

    def _halvings(self, rows: int) -> int:
        """Return how often to halve a leaf for parts of about ``ROWS_PER_PART`` of the rows, at most 6 times."""
        leaves = (len(self.tree[2]) + 1) // 2
        return int(np.clip(np.log2(max(rows / leaves / ROWS_PER_PART, 1)), 0, 6))

    def adjacent(self) -> Array:
        """Return the anchors in the order of leaves."""
        rows: Array = self.tree[1]
        return rows

    def group(self, reach: Array) -> Reaches:
        """Return the squared reach in the order of leaves, and the largest one in each node."""
        _, rows, _, _, first, last = self.tree
        return Reaches(*kdtree.highest(reach, rows, first, last))

    def within(self, Z: Array, radii: Array, groups: Reaches | None, runner: Threads) -> Lists:
        reach, longest = groups or self.group(np.ones(len(self.distances.anchors)))
        return self._walk(Z, runner, lambda Z, order: kdtree.within(Z, order, radii, reach, longest, self.tree))

    def _walk(self, Z: Array, runner: Threads, visit: Callable[[Array, Array], tuple[Array, Array, Array]]) -> Lists:
        """Return the lists of all rows, in their order; ``visit`` searches a block of rows in the order of leaves."""
        Z = np.ascontiguousarray(Z, dtype=float)
        _, _, low, high, _, _ = self.tree

        def look(block: slice) -> tuple[Array, Array, Array, Array]:
            halvings = self._halvings(block.stop - block.start)
            order = block.start + _order(kdtree.leaves(Z, low, high, self._sides, halvings, block.start, block.stop))
            return order, *visit(Z, order)

        found = dict(enumerate(runner.map(look, row_blocks(len(Z), 64), "neighbours")))
        counts = np.empty(len(Z), np.int64)
        for order, sizes, _, _ in found.values():
            counts[order] = sizes
        ptr = np.append(0, np.cumsum(counts))
        index, squared = np.empty(ptr[-1], np.int64), np.empty(ptr[-1])

        def put(at: slice) -> None:
            order, sizes, listed, lengths = found.pop(at.start)
            kdtree.put_rows(order, sizes, listed, lengths, ptr, index, squared)

        runner.run(put, [slice(i, i + 1) for i in range(len(found))])
        return Lists(ptr, index, squared)


def _order(part: Array) -> Array:
    """Return the rows sorted by their parts, and by their number within a part."""
    if part.max(initial=0) < 1 << 16:
        part = part.astype(np.uint16)  # NumPy sorts short integers by their digits, in linear time
    return np.argsort(part, kind="stable")


def _share_of_leaves(tree: kdtree.Boxes, rows: Array, reach: Array) -> float:
    """Return the share of the leaves that a search visits, on average over the rows; ``reach``: of each, squared."""
    low, high = (corner[len(corner) // 2 :] for corner in tree[2:4])  # corners of the leaves
    apart = (np.square(np.maximum(0, np.maximum(low - z, z - high))).sum(axis=1) for z in rows)
    return float(np.mean([(box <= far).mean() for box, far in zip(apart, reach)]))
