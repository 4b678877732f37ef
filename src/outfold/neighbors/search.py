"""The protocol of a neighbour search."""

from __future__ import annotations

from typing import Any, Protocol

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..distances import Distances
from .lists import Lists


class Search(Protocol):
    """An index over the anchors."""

    @property
    def distances(self) -> Distances: ...

    @property
    def exact(self) -> bool: ...

    def closest(self, Z: Array, k: int, runner: Threads, groups: Any = None) -> Lists:
        """Return at least the k nearest anchors of each row (ties at the k-th included), nearest first.

        With ``groups`` (see :meth:`group`) the anchors j with d <= reach[j] are included too.
        """
        ...

    def arrange(self, Z: Array, runner: Threads) -> Array:
        """Return an order of the rows in which close rows are adjacent, if the search has one; else 0, 1, 2, ..."""
        ...

    def group(self, reach: Array) -> Any:
        """Return the reach of each anchor, (n,), in the form that ``closest`` and ``within`` take as ``groups``."""
        ...

    def within(self, Z: Array, radii: Array, groups: Any, runner: Threads) -> Lists:
        """Return a superset of the anchors with d <= radii[i], or with ``groups`` d <= radii[i] * reach[j]."""
        ...
