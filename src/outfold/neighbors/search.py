"""The protocol of a neighbour search."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..distances import SearchedDistances
from .lists import Lists

RECALLED = 15  # neighbours whose recall is reported


def approximation(recall: float | None) -> str:
    """Return what to add to the description of a graph: nothing if neighbours are exact (None)."""
    if recall is None:
        return ""
    return ", found approximately" + ("" if np.isnan(recall) else f": {recall:.1%} of the {RECALLED} nearest")


class Reaches(NamedTuple):
    """The reach of each anchor, in the form that the search which made it takes."""

    squared: Array  # (n,), in the order of the anchors; of a tree in the order of its leaves
    longest: Array  # of a tree the largest in each node, else empty


@runtime_checkable
class Search(Protocol):
    """An index over the anchors."""

    if TYPE_CHECKING:

        @property
        def distances(self) -> SearchedDistances: ...

        @property
        def exact(self) -> bool: ...

        @property
        def recall(self) -> float | None:
            """Share of the nearest anchors that are found, from a sample; None: all are, NaN: nobody has checked."""
            ...

        @property
        def row_entries(self) -> int:
            """About how many entries the search of a row needs, to choose the size of blocks."""
            ...

    def closest(self, Z: Array, k: int, runner: Threads, groups: Reaches | None = None) -> Lists:
        """Return at least the k nearest anchors of each row (ties at the k-th included), nearest first.

        With ``groups`` (see :meth:`group`) the anchors j with d <= reach[j] are included too.
        """
        ...

    def within(self, Z: Array, radii: Array, groups: Reaches | None, runner: Threads) -> Lists:
        """Return a superset of the anchors with d <= radii[i], or with ``groups`` d <= radii[i] * reach[j]."""
        ...

    def group(self, reach: Array) -> Reaches:
        """Return the reach of each anchor, (n,), in the form that ``closest`` and ``within`` take as ``groups``."""
        ...

    def arrange(self, Z: Array, runner: Threads) -> Array:
        """Return an order of the rows in which close rows are adjacent, if the search has one; else 0, 1, 2, ..."""
        return np.arange(len(Z))

    def adjacent(self) -> Array | None:
        """Return an order of the anchors in which near ones follow each other; None: the search has none."""
        return None

    def both_ways(self, Z: Array, lists: Lists, runner: Threads) -> Array | None:
        """Return which entries are found from either end, (entries,); None: all are.

        A search that looks at some of the anchors may list y for x and not x for y. Graphs keep the pairs that it finds
        both ways: then an edge is a function of its two ends, and a new row has the edges that the fit would give it.
        """
        return None

    def complete(self) -> bool:
        """Return whether ``closest`` returns every anchor that a row can reach, whatever their number."""
        return False

    def of_any_k(self) -> Search:
        """Return a search for any number of neighbours: itself, if it has no fixed number."""
        return self
