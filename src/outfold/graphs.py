"""Which anchors a point keeps, as a function of distances alone, so that any point can be asked.

``AllPairs`` keeps everything (dense). The sparse rules keep an edge by a predicate on d(x, x_j)::

    Union(k)    d <= max(r(x), r_j)          Ball(radius)     d <= radius
    Mutual(k)   d <= min(r(x), r_j)          Threshold(eta)   w >= eta

with r midway between the k-th and the (k+1)-th distance, counting the point itself. ``local=k`` measures
in local units, d^2 / (sigma(x) sigma_j), sigma the k-th distance: self-tuning with any rule, continuous
k-NN with a ball. A fitted graph has twin verbs, ``gram()`` and ``cross(Z)``, that give squared distances
(in local units if asked), dense or as CSR with every kept entry explicit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from . import _patterns, neighbors
from .distances import LARGEST, Distances
from .neighbors import Lists
from .runners import Threads, check_fits
from .surveys import DenseSurvey, SearchSurvey, kth, lists_of_mass, table_kth

Array = NDArray[Any]


def _told(rule: str, local: int | None) -> str:
    return rule if local is None else f"{rule}, in units of neighbour {local}"


# -- specifications ------------------------------------------------------------------------


@dataclass(frozen=True)
class AllPairs:
    """Every anchor; dense."""

    local: int | None = None

    def told(self) -> str:
        return _told("all pairs", self.local)

    def remedy(self) -> str:
        return "Raise epsilon"


@dataclass(frozen=True)
class Union:
    """x and x_j are joined if either is among the other's k nearest (both counting themselves).

    ``search``: "tree", "brute" (all pairs), "faiss", or an object like scikit-learn's KNeighborsTransformer. "auto"
    takes the tree or all pairs, whichever is quicker for these points; or faiss, approximately, where all pairs would
    take more than 20 s and it is installed.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Union(10, search="tree")).fit(circle(100, random_state=0)).report_.edges
    'union of 10 nearest'
    """

    k: int = 32
    search: Any = "auto"
    local: int | None = None

    def told(self) -> str:
        return _told(f"union of {self.k} nearest", self.local)

    def remedy(self) -> str:
        return "Raise n_neighbors"


@dataclass(frozen=True)
class Mutual:
    """x and x_j are joined if each is among the other's k nearest (both counting themselves).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Mutual(20)).fit(circle(100, random_state=0)).report_.edges
    'mutual 20 nearest'
    """

    k: int = 32
    search: Any = "auto"
    local: int | None = None

    def told(self) -> str:
        return _told(f"mutual {self.k} nearest", self.local)

    def remedy(self) -> str:
        return "Raise k, or use Union"


@dataclass(frozen=True)
class Ball:
    """Everything within ``radius`` (in local units if ``local``).

    >>> from outfold import Isomap
    >>> from outfold.datasets import circle
    >>> Isomap(n_neighbors=Ball(0.5)).fit(circle(100, random_state=0)).report_.edges
    'paths along the ball of radius 0.5'
    """

    radius: float | Literal["auto"]
    search: Any = "auto"
    local: int | None = None

    def told(self) -> str:
        return _told(f"ball of radius {self.radius:.4g}", self.local)

    def remedy(self) -> str:
        return "Raise the radius"


@dataclass(frozen=True)
class Threshold:
    """Everything whose Gaussian weight reaches ``eta``: a ball of radius sqrt(-2 epsilon log eta).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Threshold(0.01)).fit(circle(100, random_state=0)).report_.edges
    'weights of at least 0.01'
    """

    eta: float
    search: Any = "auto"
    local: int | None = None

    def told(self) -> str:
        return _told(f"weights of at least {self.eta:g}", self.local)

    def remedy(self) -> str:
        return "Raise epsilon or lower the threshold"


@dataclass(frozen=True)
class Either:
    """``AllPairs`` up to ``dense_up_to`` anchors, ``Union(32)`` beyond."""

    local: int | None = None
    dense_up_to: int = 3000

    def settled(self, n: int) -> Any:
        return AllPairs(self.local) if n <= self.dense_up_to else Union(local=self.local)


def settled(edges: Any, n: int) -> Any:
    """The rule itself, of ``Either`` the one that so many anchors decide for."""
    return edges.settled(n) if isinstance(edges, Either) else edges


def survey(edges: Any, metric: Any, points: Array, measure: Array, runner: Threads) -> Any:
    """What is known about the anchors' distances before the graph is drawn."""
    distances = metric.fit(points)
    if isinstance(edges, AllPairs):
        check_memory(
            len(points),
            "Keep nearest neighbours only (n_neighbors=32) or solve on some of the points (landmarks=5000).",
        )
        return DenseSurvey(distances, distances.gram(runner), measure)
    widest = float(edges.k) if isinstance(edges, Union | Mutual) else np.inf
    search = neighbors.build(distances, edges.search)
    return SearchSurvey(search, measure, runner, widest)


def check_memory(n: int, instead: str) -> None:
    """Refuse a dense table that cannot fit: it and what the solver needs beside it."""
    check_fits(2.2 * 8 * n * n, f"A dense kernel of n = {n} points needs", instead)


def check_table(rows: int, columns: int, what: str, instead: str) -> None:
    """Refuse a table of points times anchors that cannot fit beside a kernel between the anchors."""
    needed = 8.0 * rows * columns + 2.2 * 8 * columns**2
    check_fits(needed, f"{what} between {rows} points and {columns} anchors need", f"Take fewer: {instead}.")


# -- fitted graphs -------------------------------------------------------------------------


@dataclass(frozen=True)
class DenseGraph:
    """All pairs, in local units if ``sigma`` is given."""

    distances: Any
    measure: Array
    table: Array | None = field(repr=False, default=None)  # the anchors' own, handed over by the first gram()
    local: int | None = None
    sigma: Array | None = None
    floor: float = 0.0  # of local units
    slack: float = 0.0  # how far off a new row's squared distances may be

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    def gram(self, runner: Threads) -> Array:
        assert self.table is not None
        return self._in_local_units(self.table, self.sigma)

    @property
    def row_entries(self) -> int:
        return 8 * len(self.measure)  # a row is gone through several times: let it stay in the cache

    def emptied(self) -> DenseGraph:
        """Without the table, which ``gram`` gave away."""
        return replace(self, table=None)

    def cross(self, Z: Array) -> Array:
        if self.sigma is None or self.local is None:
            return self.distances.cross(Z, self.slack) if self.slack else self.distances.cross(Z)
        squared = self.distances.cross(Z)
        own = np.maximum(np.sqrt(table_kth(squared, self.measure, self.local)), self.floor)
        return self._in_local_units(squared, own)

    def pairs(self, X: Array, Y: Array) -> Array:
        """What ``cross`` would measure between these rows if Y were anchors."""
        squared = replace(self.distances, anchors=Y).cross(X)
        if self.sigma is None or self.local is None:
            return squared
        own, theirs = (np.sqrt(table_kth(self.distances.cross(Z), self.measure, self.local)) for Z in (X, Y))
        squared /= np.maximum(own, self.floor)[:, None]
        squared /= np.maximum(theirs, self.floor)
        return squared

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    def _in_local_units(self, squared: Array, own: Array | None) -> Array:
        if self.sigma is not None and own is not None:
            beyond = ~np.isfinite(squared)
            with np.errstate(invalid="ignore", over="ignore"):
                squared /= own[:, None]
                squared /= self.sigma
            squared[beyond] = np.inf
        return squared


@dataclass(frozen=True)
class SparseGraph:
    """Anchors kept by a predicate; stores what the predicate needs of each anchor."""

    search: Any
    kind: Literal["union", "mutual", "ball"]
    measure: Array
    k: int = 0  # of union and mutual
    radii: Array | None = None  # squared, of union and mutual
    radius: float = 0.0  # of a ball
    local: int | None = None
    sigma: Array | None = None
    floor: float = 0.0  # of local units
    bridges: Any = None  # CSR: anchors joined whatever the predicate says, with the squared length counted
    lists: Lists | None = field(repr=False, default=None)  # the anchors' own nearest, only until gram()

    @property
    def distances(self) -> Distances:
        return self.search.distances

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    def gram(self, runner: Threads) -> csr_array:
        """Squared distances of the kept pairs of anchors."""
        lists = self._nearest_lists(self.anchors, runner) if self.lists is None else self.lists
        if self.kind != "union" or lists is None:
            out = self._rows(self.anchors, lists, runner)
            out.sort_indices()
            return out
        n = len(self.anchors)
        back_ptr, back = _patterns.transpose_within(lists.ptr, lists.index, lists.squared, self.radii, n)
        ptr, index = _patterns.transpose_pattern(back_ptr, back, n)
        ptr, index = _patterns.union_rows(ptr, index, back_ptr, back)  # my k nearest, or I am among yours
        return self._as_csr(self._measure(self.anchors, ptr, index, runner), self.anchors, self.sigma, runner)

    @property
    def row_entries(self) -> int:
        """About how many entries a row takes on the way, for cutting blocks."""
        return neighbors.row_entries(self.search)

    def emptied(self) -> SparseGraph:
        """Without the anchors' own lists, which only ``gram`` needs."""
        return replace(self, lists=None)

    def cross(self, Z: Array) -> csr_array:
        """Squared distances of each row of Z to the anchors it keeps."""
        runner, beyond = Threads(1), self._beyond(Z)
        if not beyond.any():
            return self._rows(Z, self._nearest_lists(Z, runner), runner)
        rows = np.where(beyond, 0, np.cumsum(~beyond))  # nothing is in reach of rows whose squares overflow
        inside = self.cross(Z[~beyond]) if not beyond.all() else csr_array((0, len(self.anchors)))
        counts = np.append(0, np.diff(inside.indptr))[rows]
        ptr = np.append(0, np.cumsum(counts))
        return csr_array((inside.data, inside.indices, ptr), shape=(len(Z), len(self.anchors)))

    def nearest(self, Z: Array) -> Array:
        """Index of the nearest anchor of each row."""
        if self._beyond(Z).any():
            return self.distances.nearest(Z)
        lists = self.search.closest(Z, 1, Threads(1))
        return lists.index[lists.ptr[:-1]]

    def pairs(self, X: Array, Y: Array) -> Array:
        """Squared distances between these rows, infinite where the predicate keeps no edge; radii over the anchors."""
        squared = replace(self.distances, anchors=Y).cross(X)
        (radii, sigma), (their_radii, their_sigma) = (self._own(self._nearest_lists(Z, Threads(1))) for Z in (X, Y))
        units = 1.0 if sigma is None or their_sigma is None else np.multiply.outer(sigma, their_sigma)
        if radii is None or their_radii is None:
            limit = self.radius**2 * units
        else:
            limit = (np.minimum if self.kind == "mutual" else np.maximum).outer(radii, their_radii)
        kept = np.where(squared <= limit, squared, np.inf) / units
        if self.bridges is not None:
            here, there = (csr_array(self.distances.cross(Z) == 0).astype(float) for Z in (X, Y))
            copies = (here @ (self.bridges > 0).astype(float) @ there.T).toarray()
            lengths = (here @ self.bridges @ there.T).toarray() / np.maximum(copies, 1)
            kept = np.where(copies > 0, np.minimum(kept, lengths), kept)
        return kept

    @staticmethod
    def _beyond(Z: Array) -> Array:
        return np.abs(Z).max(axis=1) > LARGEST

    def _rows(self, Z: Array, lists: Lists | None, runner: Threads) -> csr_array:
        radii, sigma = self._own(lists)
        if self.kind == "ball":
            kept = self._in_ball(Z, sigma, runner)
        else:
            assert lists is not None
            assert self.radii is not None
            assert radii is not None
            own, theirs = np.repeat(radii, np.diff(lists.ptr)), self.radii[lists.index]
            limit = np.minimum(own, theirs) if self.kind == "mutual" else np.maximum(own, theirs)
            kept = lists.kept(lists.squared <= limit)
        return self._as_csr(kept, Z, sigma, runner)

    def _nearest_lists(self, Z: Array, runner: Threads) -> Lists | None:
        """The nearest anchors of each row, and of a union those that count it among theirs."""
        mass = max(self.k + 1 if self.radii is not None else 0, self.local or 0)
        groups = self._groups if self.kind == "union" else None
        return lists_of_mass(self.search, Z, self.measure, mass, runner, groups) if mass else None

    def _own(self, lists: Lists | None) -> tuple[Array | None, Array | None]:
        """The points' own squared radii and local units, where the rule has them."""
        if lists is None:
            return None, None
        radii = None if self.radii is None else _midway(lists, self.measure, self.k)
        if self.sigma is None or self.local is None:
            return radii, None
        return radii, np.maximum(np.sqrt(kth(lists, self.measure, self.local)), self.floor)

    def _in_ball(self, Z: Array, sigma: Array | None, runner: Threads) -> Lists:
        if sigma is None or self.sigma is None:
            lists = self.search.within(Z, np.full(len(Z), self.radius), None, runner)
            return lists.kept(lists.squared <= self.radius**2)
        lists = self.search.within(Z, self.radius * np.sqrt(sigma), self._groups, runner)
        return lists.kept(lists.squared <= self.radius**2 * (sigma[lists.rows()] * self.sigma[lists.index]))

    @cached_property
    def _groups(self) -> Any:
        reach = self.radii if self.kind == "union" else self.sigma
        assert reach is not None
        return self.search.grouped(np.sqrt(reach))

    def _pattern(self, lists: Lists) -> tuple[Array, Array]:
        """Pointers and columns, each row in increasing order of column (transposing twice sorts)."""
        ptr, rows = _patterns.transpose_pattern(lists.ptr, lists.index, len(self.anchors))
        return _patterns.transpose_pattern(ptr, rows, len(lists.ptr) - 1)

    def _measure(self, Z: Array, ptr: Array, index: Array, runner: Threads) -> Lists:
        return neighbors.measured(self.distances, Z, ptr, index, runner)

    def _as_csr(self, lists: Lists, Z: Array, sigma: Array | None, runner: Threads) -> csr_array:
        across = None if self.bridges is None else self._bridged(lists)
        if across is not None:
            more = (part.astype(np.int64) for part in (across.indptr, across.indices))
            ptr, index = _patterns.union_rows(*self._pattern(lists), *more)
            lists = self._measure(Z, ptr, index, runner)
        squared = lists.squared
        if sigma is not None and self.sigma is not None:
            squared = squared / (sigma[lists.rows()] * self.sigma[lists.index])
        index, ptr = lists.index, lists.ptr
        if max(len(index), len(self.anchors)) < np.iinfo(np.int32).max:  # half the memory, and faster products
            index, ptr = index.astype(np.int32, copy=False), ptr.astype(np.int32)
        out = csr_array((squared, index, ptr), shape=(len(lists.ptr) - 1, len(self.anchors)))
        if across is not None:
            out.sort_indices()
            rows = np.repeat(np.arange(len(Z)), np.diff(across.indptr))
            for row, column, length in zip(rows, across.indices, across.data):
                row_columns = out.indices[out.indptr[row] : out.indptr[row + 1]]
                at = out.indptr[row] + np.searchsorted(row_columns, column)
                out.data[at] = min(out.data[at], length)
        return out

    def _bridged(self, lists: Lists) -> csr_array | None:
        """Bridges of the points that stand in the place of an anchor with one."""
        here = lists.kept(lists.squared == 0)
        at = csr_array((np.ones(len(here.index)), here.index, here.ptr), shape=(len(lists.ptr) - 1, len(self.anchors)))
        joined = at @ self.bridges
        if joined.nnz == 0:
            return None
        ones = csr_array((np.ones(self.bridges.nnz), self.bridges.indices, self.bridges.indptr), self.bridges.shape)
        copies = at @ ones  # anchors in one place have the same bridges: take their mean
        for part in (joined, copies):
            part.sort_indices()
        joined.data /= copies.data
        return joined


def with_bridges(graph: SparseGraph, gram: Any, pairs: Array) -> SparseGraph:
    """The graph with more edges, each as long as counts: no longer than the longest edge at its ends."""
    longest = np.maximum.reduceat(gram.data, gram.indptr[:-1])
    typical = float(np.median(gram.data[gram.data > 0])) if (gram.data > 0).any() else 1.0
    length = np.maximum(longest[pairs[:, 0]], longest[pairs[:, 1]])
    length = np.where(length > 0, length, typical)
    ends = np.vstack([pairs, pairs[:, ::-1]]).T
    bridges = csr_array((np.append(length, length), ends), shape=(len(graph.anchors),) * 2)
    return replace(graph, bridges=bridges)


def draw(edges: Any, found: Any, kernel: Any, runner: Threads) -> Any:
    """The fitted graph of a specification, once the kernel (and so epsilon) is known."""
    if isinstance(edges, AllPairs):
        if edges.local is None:
            return DenseGraph(found.distances, found.measure, found.squared, slack=kernel.slack)
        sigma = np.sqrt(table_kth(found.squared, found.measure, edges.local))
        floor = unit_floor(sigma)
        unit = np.maximum(sigma, floor)
        return DenseGraph(found.distances, found.measure, found.squared, edges.local, unit, floor)
    measure = found.measure
    nearby = isinstance(edges, Union | Mutual)
    mass = max(edges.k + 1 if nearby else 0, edges.local or 0)
    lists = lists_of_mass(found.search, found.distances.anchors, measure, mass, runner) if mass else None
    local: dict[str, Any] = {}
    if edges.local is not None and lists is not None:
        sigma = np.sqrt(kth(lists, measure, edges.local))
        floor = unit_floor(sigma)
        local = {"local": edges.local, "sigma": np.maximum(sigma, floor), "floor": floor}
    if nearby and lists is not None:
        radii = _midway(lists, measure, edges.k)
        kind: Any = "union" if isinstance(edges, Union) else "mutual"
        return SparseGraph(found.search, kind, measure, edges.k, radii, lists=lists, **local)
    radius = edges.radius if isinstance(edges, Ball) else kernel.reach(edges.eta)
    if radius == "auto":
        radius = _connecting_radius(found, local.get("sigma"), runner)
    return SparseGraph(found.search, "ball", measure, radius=float(radius), lists=lists, **local)


def check_k(edges: Any, measure: Array) -> None:
    """Refuse more neighbours than there are anchors."""
    k = getattr(edges, "k", 0)
    if k >= measure.sum():
        raise ValueError(
            f"n_neighbors={k} must be smaller than the number of anchors, n = {measure.sum():g}. Lower it, or pass "
            "n_neighbors=None to keep every pair."
        )


def _connecting_radius(found: SearchSurvey, sigma: Array | None, runner: Threads) -> float:
    """The least radius at which 95 % of the points see enough for one component (in local units if there are any).

    Random points within a radius of each other hang together from about log n neighbours on.
    """
    measure = found.measure
    mass = min(1 + max(3.0, float(int(1.5 * np.log(measure.sum())))), measure.sum() / 2)
    while True:
        lists = lists_of_mass(found.search, found.distances.anchors, measure, 2 * mass, runner)
        lists = lists.kept(lists.squared <= np.repeat(kth(lists, measure, 2 * mass), np.diff(lists.ptr)))
        if sigma is not None:
            scaled = lists.squared / (sigma[lists.rows()] * sigma[lists.index])
            order = np.lexsort((scaled, lists.rows()))
            lists = Lists(lists.ptr, lists.index[order], scaled[order])
        squared = kth(lists, measure, mass)
        order = np.argsort(squared)
        level = np.searchsorted(np.cumsum(measure[order]), 0.95 * measure.sum() * (1 - 1e-12))
        radius = float(np.sqrt(squared[order[level]]))
        if radius > 0 or mass >= measure.sum():
            return radius * (1 + 1e-6)
        mass *= 2  # mostly copies


# -- small tools ---------------------------------------------------------------------------


def _midway(lists: Lists, measure: Array, k: int) -> Array:
    """Squared radius midway between the k-th and the (k+1)-th distance; rounding never puts it below the k-th."""
    last = kth(lists, measure, k)
    inner, outer = np.sqrt(last), np.sqrt(kth(lists, measure, k + 1))
    return np.where(inner == outer, last, np.maximum(last, np.square((inner + outer) / 2)))


def unit_floor(sigma: Array) -> float:
    """Local units are kept off zero (many copies): no less than a millionth of the typical one."""
    positive = sigma[sigma > 0]
    return 1e-6 * float(np.median(positive)) if len(positive) else 1.0
