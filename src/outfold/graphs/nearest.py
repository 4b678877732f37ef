"""The geometry in which every point keeps its own nearest anchors: the rule of a row needs nothing of other rows.

A point x keeps the ``k`` nearest anchors. Copies of a row are one anchor, and an anchor counts as one neighbour, or as
its weight if that is below 1; the last neighbour counts in part if the count would pass ``k``, which may be a fraction.
The kernel is multiplied by the count of an entry, so an anchor whose weight vanishes is absent. The local scale is

    r(x)^2 = mean squared distance to the ``k`` nearest anchors, x itself included if it is one

and squared distances are in local units, d(x, x_j)^2 / ((r(x)^2 + r_j^2) / 2). Where r changes slowly that is
d^2 / (r(x) r_j) to second order. An outlier, whose r is its distance to the data, stays joined to its neighbours, whose
r is small; the product would leave it alone. All of it is a function of distances to the anchors, so new points have
it, and it is exact for any index that answers the same question in the same way.

A kernel that is cut where it still weighs jumps: a point that moves exchanges its last neighbour for another. So
weights fall to nearly 0 at the distance R(x) of the last neighbour (``tapers``):

    w(x, x_j) = exp(-d^2 / (epsilon (r(x)^2 + r_j^2))) (TAPER_FLOOR + (1 - TAPER_FLOOR) (1 - d^2 / R(x)^2))

The floor keeps neighbours of a point that are all equally far.

Support must fall with the distance from the data, which d / r(x) does not. It is the mass in units of the anchors:
sum_j c_j exp(-d^2 / (2 r_j^2)), c_j the count of an anchor, tapered as above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr, selection
from .._runtime.threads import Threads
from .._runtime.typing import POSITIVE, Array, Axes, Interval
from ..data.sparse_rows import largest_entries
from ..data.weights import weighted_quantile
from ..distances import LARGEST_ENTRY, GivenTable, SearchedDistances, clip_entries
from ..neighbors import Lists, Search
from ..trust import LOG_FLOOR, Isolation, Reference
from .bridges import add_bridges
from .drawing import unit_floor
from .protocols import Geometry

TAPER_FLOOR = 0.01  # weight of the last neighbour, relative to a kernel without taper


@dataclass(frozen=True)
class Shared:
    """The nearest anchors of some rows: lists, the count of each entry, and the local scale r(x) of each row."""

    lists: Lists
    shares: Array | None  # how much of a neighbour each entry is, tapered; None: all are 1
    unit: Array
    taper: Array | None  # the factor of each entry that is part of its share; None: nothing is tapered


class NearestSeen(NamedTuple):
    """How rows see their nearest anchors."""

    values: csr_array  # squared distances in local units
    unit: Array  # local scale of each row
    log_mass: Array
    surroundings: Array | None  # (rows, 2): isolation and distance


@dataclass(frozen=True, kw_only=True)
class NearestAnchors(Geometry):
    """Squared distances of a point to its ``k`` nearest anchors, in local units."""

    search: Annotated[Search, Axes("n d")]
    counted: Annotated[Array, Axes("n"), POSITIVE]  # how much of a neighbour each anchor is: min(weight, 1)
    k: Annotated[float, Interval(1)]
    local: Annotated[float, Interval(1)]  # neighbours of which r is the root mean square distance, at most ``k``
    unit: Annotated[Array, Axes("n"), POSITIVE]  # r of the anchors
    floor: Annotated[float, Interval(0)]  # least r
    epsilon: Annotated[float, POSITIVE] = 1.0  # of the kernel: an entry that counts c < 1 is longer by -2 epsilon log c
    tapers: bool = False  # whether weights fall to nearly 0 at the last neighbour
    # CSR: edges that join components, with the cap of their squared length.
    bridges: Annotated[csr_array | None, Axes("n n")] = None
    isolation: Annotated[Isolation | None, Axes("n")] = None  # if the anchors are the training rows

    @classmethod
    def fit(
        cls, search: Search, measure: Array, k: float, local: float, runner: Threads, *, epsilon: float, tapers: bool
    ) -> tuple[NearestAnchors, Shared, Reference]:
        """Return the geometry of the anchors, the anchors that each of them keeps, and their support."""
        counted = np.minimum(measure, 1.0)
        none = np.ones(len(counted))
        graph = cls(
            search=search, counted=counted, k=k, local=local, unit=none, floor=0.0, epsilon=epsilon, tapers=tapers
        )
        shared = graph.select(search.distances.anchors, runner)
        floor = unit_floor(shared.unit, counted)
        shared = replace(shared, unit=np.maximum(shared.unit, floor))
        graph = replace(graph, unit=shared.unit, floor=floor)
        lonely = graph.log_mass(shared.lists, shared.taper, without_self=True)
        reference = Reference.of(np.maximum(lonely, LOG_FLOOR), measure)
        return graph, shared, reference

    @property
    def distances(self) -> SearchedDistances:
        return self.search.distances

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return self.search.row_entries

    @property
    def width(self) -> float:
        """epsilon r^2 of the median anchor: the width of the kernel in the units of the data."""
        return self.epsilon * weighted_quantile(np.square(self.unit), self.counted, 0.5)

    @cached_property
    def _whole(self) -> bool:
        """Whether every anchor counts as one neighbour."""
        return bool((self.counted == 1).all())

    def arrange(self, Z: Array, runner: Threads) -> Array | None:
        return self.search.arrange(Z, runner)

    def lists(self, Z: Array, runner: Threads) -> Lists:
        """Return the anchors that each row keeps, with their squared distances, nearest first."""
        return self.select(Z, runner).lists

    def select(self, Z: Array, runner: Threads) -> Shared:
        """Return the anchors that each row keeps, and its local scale."""
        return self.share(self._enough(clip_entries(Z), runner))

    def _enough(self, Z: Array, runner: Threads) -> Lists:
        """Return at least the nearest anchors of each row that count as ``k`` together, nearest first."""
        n = len(self.counted)
        count = min(n, math.ceil(self.k))
        lists = self.search.closest(Z, count, runner)
        if self._whole or self.search.complete():
            return lists
        while count < n and np.add.reduceat(self.counted[lists.index], lists.ptr[:-1]).min() < self.k:
            count = min(n, 2 * count)
            lists = self.search.closest(Z, count, runner)
        return lists

    def share(self, lists: Lists) -> Shared:
        """Select from lists that are long enough, nearest first."""
        rows = len(lists.ptr) - 1
        shares, kept, moments = np.ones(len(lists.index)), np.empty(rows, np.int64), np.empty(rows)
        options = lists.ptr, lists.index, lists.squared, self.counted
        if self.local < self.k:
            selection.share_nearest(*options, float(self.local), shares, kept, moments)
            unit = np.sqrt(moments)
        selection.share_nearest(*options, float(self.k), shares, kept, moments)
        if not self._whole:
            shares *= self.counted[lists.index]
        if self.local >= self.k:
            unit = np.sqrt(moments)
        counts = np.diff(lists.ptr)
        if (kept < counts).any():
            nearest = np.arange(len(lists.index)) - np.repeat(lists.ptr[:-1], counts) < np.repeat(kept, counts)
            shares, lists = shares[nearest], lists.select(nearest)
        taper = self._taper(lists) if self.tapers else None
        if taper is not None:
            shares *= taper
        return Shared(lists, None if (shares == 1).all() else shares, np.maximum(unit, self.floor), taper)

    def _taper(self, lists: Lists) -> Array:
        """Return the factor of each entry. R^2 is a mean over the last neighbour's count: continuous in weights."""
        last = np.empty(len(lists.ptr) - 1)
        csr.mean_at_rank(lists.ptr, lists.index, lists.squared, self.counted, float(self.k), last, 0, len(last))
        part = lists.squared / np.repeat(np.maximum(last, np.finfo(float).tiny), np.diff(lists.ptr))
        factor: Array = 1 - (1 - TAPER_FLOOR) * np.minimum(part, 1.0)
        return factor

    def scale(self, shared: Shared) -> csr_array:
        """Return the squared distances in local units, longer where an entry counts in part, as CSR."""
        lists, values = shared.lists, self._in_local_units(shared)
        if shared.shares is not None:
            values -= 2 * self.epsilon * np.log(shared.shares)
        index, ptr = lists.index, lists.ptr
        if max(len(index), len(self.anchors)) < np.iinfo(np.int32).max:  # half the memory, and faster products
            index, ptr = index.astype(np.int32, copy=False), ptr.astype(np.int32)
        out = csr_array((values, index, ptr), shape=(len(ptr) - 1, len(self.anchors)))
        return out if self.bridges is None else add_bridges(out, lists, self.bridges)

    def _in_local_units(self, shared: Shared) -> Array:
        """Return the squared distances of the entries in local units."""
        lists = shared.lists
        own, theirs = np.square(shared.unit), np.square(self.unit)
        values: Array = 2 * lists.squared / (own[lists.rows()] + theirs[lists.index])
        return values

    def farthest(self, shared: Shared) -> Array:
        """Return the largest squared distance of each row in local units: the mean over its last neighbour's count."""
        lists, values = shared.lists, self._in_local_units(shared)
        order = np.lexsort((values, lists.rows()))
        shares = np.ones(len(values)) if shared.shares is None else shared.shares[order]
        out, entries = np.empty(len(lists.ptr) - 1), np.arange(len(values))
        csr.mean_at_rank(lists.ptr, entries, values[order], shares, float(self.k), out, 0, len(out))
        return out

    def log_mass(self, lists: Lists, taper: Array | None = None, without_self: bool = False) -> Array:
        """Return the log of the mass of each row in units of the anchors; -inf if it has no entry.

        ``taper``: the factors of the entries, if they are known.
        """
        logs = -0.5 * lists.squared / np.square(self.unit)[lists.index]
        if not self._whole:
            logs += np.log(self.counted[lists.index])
        if self.tapers:
            logs += np.log(self._taper(lists) if taper is None else taper)
        if without_self:  # as a new row sees the anchors, which lies on none of them
            logs[lists.squared == 0] = -np.inf
        largest = np.maximum.reduceat(logs, lists.ptr[:-1])
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = np.add.reduceat(np.exp(logs - np.repeat(largest, np.diff(lists.ptr))), lists.ptr[:-1])
            return np.where(np.isfinite(largest), largest + np.log(sums), -np.inf)

    def with_isolation(self, shared: Shared, measure: Array) -> NearestAnchors:
        """Return the geometry with the isolation of its anchors, which are the training rows."""
        lists = shared.lists
        return replace(self, isolation=Isolation.of(lists.ptr, lists.index, lists.squared, measure))

    @property
    def training_rows(self) -> tuple[Isolation, Array] | None:
        if self.isolation is None:
            return None
        given = isinstance(self.distances, GivenTable)
        return self.isolation, np.empty((0, 0)) if given else self.anchors[self.isolation.sample]

    def look(self, Z: Array) -> NearestSeen:
        """Return the values of ``cross``, and the facts of each row that follow from its neighbours."""
        shared = self.select(Z, Threads(1))
        out, beyond = self.scale(shared), largest_entries(Z) > LARGEST_ENTRY
        if beyond.any():  # rows whose squares overflow have no edges
            keep = ~np.repeat(beyond, np.diff(out.indptr))
            ptr = np.append(0, np.cumsum(np.where(beyond, 0, np.diff(out.indptr))))
            out = csr_array((out.data[keep], out.indices[keep], ptr), shape=out.shape)
        lists = shared.lists
        facts = None if self.isolation is None else self.isolation.facts(lists.ptr, lists.index, lists.squared)
        return NearestSeen(out, shared.unit, np.where(beyond, -np.inf, self.log_mass(lists, shared.taper)), facts)

    def cross(self, Z: Array) -> csr_array:
        return self.look(Z).values

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.distances.sees_nothing(Z)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)
