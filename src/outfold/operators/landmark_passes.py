"""The two passes of landmark diffusion over the rows: column sums of the kernel, and the Gram matrix of the landmarks.

Rows are summed in blocks if they are in memory or in files, or in partitions on the workers that hold them (see
:class:`outfold.data.sources.PartitionedRows`).
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.special import gammainc

from .._loops import csr
from .._runtime.threads import BLOCK_ENTRIES, Threads, block_rows, row_blocks
from .._runtime.typing import POSITIVE, Array, Axes, Interval, Matrix, Sparse
from ..data.checkpoints import Checkpoint
from ..data.sources import Answer, InMemory, PartitionedRows, Source
from ..data.sparse_rows import as_rows
from ..distances import SearchedDistances, clip_entries
from ..graphs import components
from ..graphs.drawing import unit_floor
from ..graphs.fitted import SparseGraph
from ..graphs.nearest import NearestAnchors
from ..graphs.pair_statistics import even_sample
from ..graphs.protocols import FittedKernel, Geometry
from ..neighbors import Lists, Search
from ..trust import LOG_FLOOR, SAMPLED_ROWS, Reference
from .costs import SECOND_NEIGHBORS_PER_NEIGHBOR
from .given_landmarks import GivenLandmarks
from .operator import MarkovOperator, add_to_diagonal, links, scale_both_sides
from .problem import NeighborLists

T_co = TypeVar("T_co", covariant=True)

TINY = np.finfo(float).tiny
LITTLE_SUPPORT = -3.0  # support is little if log(mass / typical mass) is below this: a twentieth of the typical mass
LEAST_RADIUS = 0.1  # least radius of a landmark's neighbourhood, in units of the median radius
SEARCHED_ROWS = 1 << 15  # rows of a neighbour search at a time, on each thread
SEARCH_BLOCK = 1 << 13  # of these, rows of one search: the results that wait are small
# A sparse Gram product is computed in blocks of at least GRAM_ROWS rows, and in about GRAM_PARTS blocks or fewer.
GRAM_ROWS, GRAM_PARTS = 128, 128
GATHERED_FROM = 1 << 17  # rows from which they are put in another order on several threads
CHUNK_ENTRY_BYTES = 28  # most bytes for an entry of a chunk: column and weight, and both again in the transpose
CHUNK_SHARE = 0.4  # share of the memory limit that a chunk may take
PART_MEMORY = 1 << 29  # bytes for a pass over one partition of the rows, on one thread
GRAM_BYTES = 1 << 26  # bytes of a piece of the Gram matrix, if it is summed in pieces
GRAPH_ENTRIES = 1.6  # entries of a chunk that stores values beside columns, relative to one that does not
DENSE_FROM = 1 / 8  # share of the landmarks in a row from which dense products are quicker than sparse ones
WIDTH_ROWS = 1024  # landmarks whose rows are counted, to know how many landmarks a row has


@dataclass(frozen=True, kw_only=True)
class NearestLandmarks(Geometry):
    """Squared distances to the k nearest landmarks, ties with the k-th included.

    With ``local`` they are in local units, d^2 / (sigma(x) sigma_j), sigma the distance to neighbour ``local``.
    """

    search: Annotated[Search, Axes("n d")]
    k: Annotated[int, Interval(1, "n")]
    local: Annotated[int | None, Interval(1)] = None
    sigma: Annotated[Array | None, Axes("n"), POSITIVE] = None
    floor: Annotated[float, Interval(0)] = 0.0  # of local units

    @classmethod
    def in_local_units(cls, search: Search, k: int, local: int, runner: Threads) -> NearestLandmarks:
        """Return the geometry with the local units of the landmarks."""
        nearest = cls(search=search, k=k, local=min(local, k))
        sigma = nearest._units(nearest.lists(nearest.anchors, runner))
        floor = unit_floor(sigma)
        return replace(nearest, sigma=np.maximum(sigma, floor), floor=floor)

    @property
    def distances(self) -> SearchedDistances:
        return self.search.distances

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return self.search.row_entries

    def lists(self, Z: Array, runner: Threads) -> Lists:
        lists = self.search.closest(clip_entries(Z), self.k, runner)
        return lists.nearest(self.k) if len(lists.index) > self.k * len(Z) else lists

    def _units(self, lists: Lists) -> Array:
        """Return the local units of the listed rows."""
        assert self.local is not None
        return np.maximum(np.sqrt(lists.kth(self.local)), self.floor)

    def cross(self, Z: Array) -> csr_array:
        lists = self.lists(Z, Threads(1))
        values = lists.squared
        if self.sigma is not None:
            values = values / (self._units(lists)[lists.rows()] * self.sigma[lists.index])
        return csr_array((values, lists.index, lists.ptr), shape=(len(Z), len(self.anchors)))

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The sums of the first pass over some rows."""

    seen: Array  # (landmarks,): column sums of W, weighted by the measure of the rows
    log_mass: Array  # log mass of rows 0, `every`, 2 `every`, ...
    entries: float  # number of entries of W
    least: float  # least log mass of all rows of positive measure
    lost: float = 0.0  # number of rows of positive measure with no weight on any landmark

    @classmethod
    def empty(cls, count: int) -> Sums:
        """Return the sums over no rows."""
        return cls(seen=np.zeros(count), log_mass=np.empty(0), entries=0.0, least=np.inf)

    def join(self, later: Sums) -> Sums:
        """Return the sums over these rows and those that follow them."""
        return Sums(
            seen=self.seen + later.seen,
            log_mass=np.append(self.log_mass, later.log_mass),
            entries=self.entries + later.entries,
            least=min(self.least, later.least),
            lost=self.lost + later.lost,
        )

    @classmethod
    def of(
        cls, seen: Array, mass: Array, log_mass: Array, measure: Array, entries: int, every: int, start: int
    ) -> Sums:
        """Return the sums of rows whose weights have the sums ``mass``; ``log_mass``: their support."""
        able = measure > 0
        least, lost = float(log_mass.min(initial=np.inf, where=able)), float(np.count_nonzero(able & (mass <= 0)))
        some = log_mass[-start % every :: every].copy()
        return cls(seen=seen, log_mass=some, entries=float(entries), least=least, lost=lost)

    @classmethod
    def restore(cls, state: dict[str, Array]) -> Sums:
        lost = float(state.get("lost", 0.0))
        entries, least = float(state["entries"]), float(state["least"])
        return cls(seen=state["seen"], log_mass=state["log_mass"], entries=entries, least=least, lost=lost)


@dataclass(frozen=True)
class FirstPass:
    """The first pass over one partition of the rows, run on the worker that holds it."""

    passes: Passes  # without rows
    every: int

    def __call__(self, points: Array, measure: Array, start: int) -> Sums:
        found = self.passes.over(points, measure).first_sums(self.every, 0, start)
        return reduce(Sums.join, (sums for _, sums in found))


@dataclass(frozen=True)
class SecondPass:
    """The second pass over one partition of the rows: pieces of its Gram matrix, all together or one by one."""

    passes: Passes  # without rows
    gain: Array
    pieces: list[slice]

    def __call__(
        self, points: Array, measure: Array, start: int, piece: int | None = None
    ) -> Matrix | tuple[Matrix, ...]:
        passes = self.passes.over(points, measure)
        if piece is not None:
            return passes.gram_piece(self.gain, self.pieces[piece])
        G = passes.second(self.gain)
        return tuple(rows_of(G, rows) for rows in self.pieces) if len(self.pieces) > 1 else G


def add_sums(G: Matrix, part: Matrix) -> Matrix:
    """Return G + part and change neither, because a worker may send the same result again."""
    total: Any = G + part  # type: ignore[operator]  # both are dense, or both are sparse
    result: Matrix = total if isinstance(G, np.ndarray) else csr_array(total)
    return result


def rows_of(G: Matrix, rows: slice) -> Matrix:
    """Return some rows of a dense or sparse matrix."""
    return G[rows] if isinstance(G, np.ndarray) else csr_array(csr_array(G)[rows])


class BlockSums(Protocol[T_co]):
    """A function of a block of rows, which may be handed the landmarks of each row."""

    def __call__(self, points: Array, measure: Array, start: int, /, *kept: NeighborLists) -> T_co: ...


class Passes(ABC):
    """The two passes over the rows; blocks are summed in order, so results do not depend on threads."""

    piecewise = False  # whether pieces of the Gram matrix are computed one by one, to save memory

    def __init__(
        self,
        rows: Source,
        measure: Array,
        geometry: Geometry,
        kernel: FittedKernel,
        runner: Threads,
        memory: float,
        checkpoint: Checkpoint,
    ) -> None:
        self.rows, self.measure, self.runner = rows, measure, runner
        self.geometry, self.kernel = geometry, kernel
        self.memory, self.checkpoint = memory, checkpoint
        self.kept: NeighborLists | None = None  # landmarks of each row, if they fit in memory
        self.low = -np.inf  # `PassSums.low`, set by the first pass
        self.lost = 0  # number of rows with no weight on any landmark, set by the first pass

    @abstractmethod
    def _step(self, gram: bool) -> int:
        """Return the number of rows of a block."""

    @abstractmethod
    def _walk(self, look: BlockSums[Answer], step: int, start: int, title: str) -> Iterator[tuple[slice, Answer]]:
        """Yield the blocks of rows from ``start`` on, each with the result of ``look``, in order."""

    @abstractmethod
    def _look_first(
        self, every: int, offset: int, points: Array, measure: Array, start: int, *kept: NeighborLists
    ) -> Sums:
        """Return the first sums over the block from ``start`` on; these rows begin at row ``offset`` of the data."""

    @abstractmethod
    def _look_second(self, gain: Array, points: Array, measure: Array, start: int, *kept: NeighborLists) -> Matrix:
        """Return W' diag(m / d) W of a block."""

    @abstractmethod
    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        """Return p_Y, and the mass a and second moment b of the cut Gaussian at each landmark."""

    @abstractmethod
    def _restore_gram(self, state: dict[str, Array], count: int) -> Matrix | None:
        """Return the partial Gram matrix of a checkpoint, or an empty one."""

    @abstractmethod
    def add(self, G: Matrix | None, part: Matrix) -> Matrix:
        """Return the sum with one more block; may change G in place."""

    @abstractmethod
    def gram_piece(self, gain: Array, rows: slice) -> Matrix:
        """Return rows ``rows`` of the Gram matrix over all data."""

    @abstractmethod
    def pieces(self) -> list[slice]:
        """Return the slices of Gram-matrix rows that are summed together, for partitioned data."""

    @abstractmethod
    def put_together(self, parts: list[Matrix]) -> Matrix:
        """Return the Gram matrix assembled from its pieces."""

    def first(self) -> tuple[Array, Reference, float]:
        """Return p_X (landmarks,), the reference of the rows' support, and the mean number of entries in a row."""
        every, count = 1 + len(self.rows) // SAMPLED_ROWS, len(self.geometry.anchors)
        state = self._restore("first pass")
        start = 0 if state is None else int(state.pop("next"))
        sums = Sums.empty(count) if state is None else Sums.restore(state)
        for block, more in self.first_sums(every, start):
            sums = sums.join(more)
            kept = {"next": np.array(block.stop), "landmarks": np.array(count), **asdict(sums)}
            self.checkpoint.keep("first pass", kept, done=block.stop == len(self.rows))
        weight = self.measure[::every]
        reference = Reference.of(sums.log_mass, weight)
        least = min(reference.lowest, sums.least - 1e-9)  # below every row
        self.low = max(least, min(reference.lowest, reference.typical + LITTLE_SUPPORT))
        self.lost = int(sums.lost)
        return sums.seen, reference, float(sums.entries) / len(self.rows)

    def first_sums(self, every: int, start: int, offset: int = 0) -> Iterator[tuple[slice, Sums]]:
        """Yield blocks from row ``start`` on with their sums; these rows begin at row ``offset`` of the data."""
        if not self.rows.in_parts:
            yield from self._walk(partial(self._look_first, every, offset), self._step(gram=False), start, "first pass")
            return
        options: Any = {"measure": self.measure, "runner": self.runner, "title": "first pass", "start": start}
        yield from self.rows.walk(FirstPass(self.alone(), every), Sums.join, **options)

    def alone(self) -> Passes:
        """Return these passes without rows, to be sent to workers."""
        alone = copy.copy(self)
        alone.rows = alone.measure = alone.kept = None  # type: ignore[assignment]
        alone.runner, alone.memory, alone.checkpoint = Threads(), PART_MEMORY, Checkpoint()
        return alone

    def over(self, points: Array, measure: Array) -> Passes:
        """Return these passes over other rows."""
        there = copy.copy(self)
        there.rows, there.measure = InMemory(points), measure
        return there

    def correction(self, seen: Array, alpha: float, total: float) -> tuple[Array, Array]:
        """Return omega, which undoes the density of rows (of mass ``total``) and of landmarks, and the pace tau."""
        count = len(seen)
        if alpha == 0:
            return np.ones(count), np.ones(count)
        if isinstance(self.geometry, GivenLandmarks):
            return (seen * count / total) ** (-3 * alpha), np.ones(count)
        if in_local_units(self.geometry):
            return (seen * count / total) ** (-2 * alpha), np.ones(count)
        among, mass, moment = self._landmarks_themselves()
        omega = (seen / total) ** -2 * (among / count) ** -1 * mass**2 / moment
        return omega**alpha, (moment / mass) ** alpha

    def second(self, gain: Array) -> Matrix:
        """Return W^T diag(m / d) W, d = W gain, gain = omega p_X: G before scaling by sqrt(omega) on both sides."""
        state = self._restore("second pass") or {"next": np.array(0)}
        G = self._restore_gram(state, len(gain))
        for block, part in self.gram_sums(gain, int(state["next"])):
            G = self.add(G, part)
            self.checkpoint.keep(
                "second pass",
                lambda at=block.stop, so_far=G: _gram_state(so_far, at),
                done=block.stop == len(self.rows),
            )
        assert G is not None
        return G

    def gram_sums(self, gain: Array, start: int) -> Iterator[tuple[slice, Matrix]]:
        """Yield blocks from row ``start`` on with their Gram matrices."""
        if not isinstance(self.rows, PartitionedRows):
            yield from self._walk(partial(self._look_second, gain), self._step(gram=True), start, "second pass")
            return
        look = SecondPass(self.alone(), gain, pieces := self.pieces())
        options: Any = {"measure": self.measure, "runner": self.runner, "title": "second pass", "start": start}
        for block, found in self.rows.walk_pieces(look, add_sums, len(pieces), apart=self.piecewise, **options):
            yield block, self.put_together(found)

    @staticmethod
    def operator(G: Matrix, seen: Array, omega: Array, pace: Array) -> MarkovOperator:
        """Return the operator G_wait, scaled in place. Its top eigenvector is c sqrt(tau), c = sqrt(omega) p_X."""
        count, gain, root = len(seen), omega * seen, np.sqrt(omega)
        wait = np.sqrt(pace.min() / pace)
        scale_both_sides(G, root * wait)
        if (wait < 1).any():
            add_to_diagonal(G, 1 - np.square(wait))
        stationary = np.square(root * seen / wait)
        stationary /= stationary.sum()
        parts = components.find(links(G), stationary)
        moves = np.square(wait) if (wait < 1).any() else None
        return MarkovOperator(
            matrix=G, measure=np.ones(count), stationary=stationary, parts=parts, gain=gain, mass=seen, pace=moves
        )

    def _restore(self, stage: str) -> dict[str, Array] | None:
        """Return the checkpoint of a pass, or None if it has another number of landmarks.

        Landmarks to which no row has weight are left out after the first pass, which then runs again with fewer.
        """
        state = self.checkpoint.restore(stage)
        return state if state is not None and state["landmarks"] == len(self.geometry.anchors) else None

    def affinities(self, Z: Array) -> Matrix:
        measured = self.geometry.cross(as_rows(Z))
        if isinstance(measured, np.ndarray):
            return self.kernel.affinity(measured)
        measured.data = self.kernel.affinity(measured.data)
        result: Matrix = measured
        return result

    @staticmethod
    def _log_mass(mass: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(mass), LOG_FLOOR)


def in_local_units(geometry: Geometry) -> bool:
    """Whether distances are measured in units of the landmarks around."""
    return isinstance(geometry, NearestAnchors) or getattr(geometry, "sigma", None) is not None


def measures_again(geometry: Geometry) -> bool:
    """Whether a pass stores which landmarks a row has, and measures their distances again."""
    return isinstance(geometry, NearestAnchors) or (isinstance(geometry, NearestLandmarks) and geometry.sigma is None)


def _not_joined(earlier: Answer, later: Answer) -> Answer:
    raise AssertionError("`walk` joins answers of partitions only, and these rows are in memory or in a file")


def gram_step(landmarks: int) -> int:
    """Return the rows of a dense product at a time: enough that the sum of products costs little, at most 64 MB."""
    return max(16, min(2 * landmarks, (1 << 23) // landmarks))


class DensePasses(Passes):
    """Passes in which every row has weight on every landmark, or on many; blocks of rows run on several threads."""

    def _table(self, points: Array) -> Array:
        W = self.affinities(points)
        return W if isinstance(W, np.ndarray) else W.toarray()

    def _step(self, gram: bool) -> int:
        return gram_step(len(self.geometry.anchors)) if gram else block_rows(self.geometry.row_entries)

    def _walk(self, look: BlockSums[Answer], step: int, start: int, title: str) -> Iterator[tuple[slice, Answer]]:
        options: Any = {"measure": self.measure, "runner": self.runner, "title": title, "start": start, "block": step}
        yield from self.rows.walk(look, _not_joined, **options)

    def _look_first(
        self, every: int, offset: int, points: Array, measure: Array, start: int, *kept: NeighborLists
    ) -> Sums:
        seen = self.affinities(points)
        entries = seen.size if isinstance(seen, np.ndarray) else seen.nnz
        W = seen if isinstance(seen, np.ndarray) else seen.toarray()
        mass = W.sum(axis=1)
        return Sums.of(W.T @ measure, mass, self._log_mass(mass), measure, entries, every, offset + start)

    def _look_second(self, gain: Array, points: Array, measure: Array, start: int, *kept: NeighborLists) -> Array:
        W = self._over_root_degrees(gain, points, measure)
        return W.T @ W

    def _over_root_degrees(self, gain: Array, points: Array, measure: Array) -> Array:
        W = self._table(points)
        d = W @ gain
        W *= np.sqrt(np.where(d > 0, measure / np.maximum(d, TINY), 0.0))[:, None]  # d = 0: no weight
        return W

    @property
    def piecewise(self) -> bool:  # type: ignore[override]
        return len(self.pieces()) > 1

    def pieces(self) -> list[slice]:
        return _pieces(count := len(self.geometry.anchors), 8 * count)

    def gram_piece(self, gain: Array, rows: slice) -> Array:
        """Return rows ``rows`` of the Gram matrix, columns from ``rows.start`` on: the matrix is symmetric."""
        out = np.zeros((rows.stop - rows.start, len(gain) - rows.start))
        step = block_rows(len(gain))
        for block, points in self.rows.blocks(step):
            W = self._over_root_degrees(gain, points, self.measure[block])
            out += W[:, rows].T @ W[:, rows.start :]
        return out

    def put_together(self, parts: list[Matrix]) -> Matrix:
        if len(parts) == 1:
            return parts[0]
        G = np.empty((len(self.geometry.anchors),) * 2)
        for rows, part in zip(self.pieces(), parts):
            assert isinstance(part, np.ndarray)
            G[rows, rows.start :] = part
            G[rows.start :, rows] = part.T
            G[rows, rows] = (part[:, : len(part)] + part[:, : len(part)].T) / 2
        return G

    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        points = self.geometry.anchors
        among, whole = np.zeros(len(points)), np.ones(len(points))
        for block in row_blocks(len(points), self.geometry.row_entries):
            among += self._table(points[block]).sum(axis=0)
        return among, whole, whole

    def _restore_gram(self, state: dict[str, Array], count: int) -> Array:
        return state["data"].copy() if "data" in state else np.zeros((count, count))

    def add(self, G: Matrix | None, part: Matrix) -> Array:
        assert isinstance(G, np.ndarray)
        assert isinstance(part, np.ndarray)
        return np.add(G, part, out=G)


def chunk_rows(rows: int, features: int, k: int, memory: float) -> int:
    """Return the number of rows of a chunk, for rows with k landmarks each."""
    row = CHUNK_ENTRY_BYTES * k + 3 * 8 * features
    return int(min(rows, max(1 << 14, CHUNK_SHARE * memory / row)))


class NearPasses(Passes):
    """Passes in which every row has weight on its nearest landmarks; chunks are as large as memory allows.

    In a chunk, rows with the same landmarks are adjacent, so products stay in the cache.
    """

    geometry: NearestLandmarks | NearestAnchors

    @property
    def _width(self) -> int:
        """About how many landmarks a row has."""
        return math.ceil(self.geometry.k)

    def _step(self, gram: bool) -> int:
        return chunk_rows(*self.rows.shape, self._width, self.memory)

    def _walk(self, look: BlockSums[Answer], step: int, start: int, title: str) -> Iterator[tuple[slice, Answer]]:
        quiet = replace(self.runner, verbose=False)
        with self.runner.bar(title, len(self.rows)) as bar:
            bar.update(start)
            for block, points in self.rows.blocks(step, start):
                kept = self._find_neighbors(points, bar, quiet) if self.kept is None else self.kept
                if step == len(self.rows):
                    self.kept = kept
                ordered = gather(points, kept.order, self.runner)
                yield block, look(ordered, gather(self.measure[block], kept.order, self.runner), block.start, kept)

    def _find_neighbors(self, points: Array, bar: Any, runner: Threads) -> NeighborLists:
        order = self.geometry.search.arrange(points, runner)
        counts, index, total = np.empty(len(points), np.int64), np.empty(len(points) * self._width, np.int32), 0

        def see(part: slice) -> tuple[Array, Array]:
            lists = self.geometry.lists(points[order[part]], Threads(1))
            return np.diff(lists.ptr), lists.index.astype(np.int32)

        parts = row_blocks(len(points), BLOCK_ENTRIES // SEARCH_BLOCK)
        for part, (lengths, found) in zip(parts, runner.map(see, parts, "neighbours")):
            counts[part] = lengths
            if total + len(found) > len(index):
                index = np.append(index, np.empty(max(len(index), len(found)), np.int32))
            index[total : total + len(found)] = found
            total += len(found)
            bar.update(part.stop - part.start)
        units = self.geometry if isinstance(self.geometry, NearestAnchors) else None
        ptr = np.append(0, np.cumsum(counts))
        return NeighborLists(order=order, ptr=ptr, index=index[:total], distances=self.geometry.distances, units=units)

    def _lists(self, points: Array, kept: NeighborLists) -> Lists:
        return Lists(kept.ptr, kept.index, self.geometry.distances.of_pairs(points, kept.ptr, kept.index, self.runner))

    def _weights(self, lists: Lists) -> Array:
        """Return the weights of the entries, in place of their squared distances."""
        geometry, W = self.geometry, lists.squared

        def scale(rows: slice) -> None:
            assert isinstance(geometry, NearestAnchors)
            part = lists.of_rows(rows)
            part.squared[:] = geometry.scale(geometry.share(part)).data

        if isinstance(geometry, NearestAnchors):
            self.runner.run(scale, row_blocks(len(lists.ptr) - 1, 16 * self._width))
        self.runner.run(lambda part: self.kernel.affinity(W[part]), row_blocks(len(W), 4))
        return W

    def _local_mass(self, lists: Lists) -> Array | None:
        """Return the log mass of each row without itself, in units of the landmarks; None: that of its weights."""
        geometry = self.geometry
        if not isinstance(geometry, NearestAnchors):
            return None
        blocks = row_blocks(len(lists.ptr) - 1, 16 * self._width)
        parts = self.runner.map(
            lambda rows: geometry.log_mass(lists.of_rows(rows), without_self=True), blocks, "support"
        )
        support: Array = np.maximum(np.concatenate(list(parts)), LOG_FLOOR)
        return support

    def _look_first(
        self, every: int, offset: int, points: Array, measure: Array, start: int, *kept: NeighborLists
    ) -> Sums:
        (lists,) = kept
        measured = self._lists(points, lists)
        support = self._local_mass(measured)
        W = self._weights(measured)
        sums, mass = np.zeros(len(self.geometry.anchors)), np.empty(len(lists.order))
        csr.sums_both_ways(lists.ptr, lists.index, W, measure, sums, mass)
        log_mass, in_order, mass_in_order = np.empty(len(mass)), np.empty(len(mass)), np.empty(len(mass))
        in_order[lists.order], mass_in_order[lists.order] = measure, mass
        log_mass[lists.order] = self._log_mass(mass) if support is None else support
        return Sums.of(sums, mass_in_order, log_mass, in_order, len(W), every, offset + start)

    def pieces(self) -> list[slice]:
        count = len(self.geometry.anchors)
        return _pieces(count, 12 * min(count, SECOND_NEIGHBORS_PER_NEIGHBOR * self._width))

    def gram_piece(self, gain: Array, rows: slice) -> Matrix:
        return rows_of(self.second(gain), rows)

    def put_together(self, parts: list[Matrix]) -> Matrix:
        return parts[0] if len(parts) == 1 else csr_array(vstack(parts))

    def _look_second(self, gain: Array, points: Array, measure: Array, start: int, *kept: NeighborLists) -> csr_array:
        (lists,) = kept
        W = self._weights(self._lists(points, lists))
        self.runner.run(
            lambda part: csr.over_root_degrees(lists.ptr, lists.index, W, gain, measure, part.start, part.stop),
            row_blocks(len(lists.order), 64),
        )
        return gram(lists.ptr, lists.index, W, len(self.geometry.anchors), self.runner)

    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        assert isinstance(self.geometry, NearestLandmarks)
        lists = self.geometry.lists(self.geometry.anchors, self.runner)
        last = lists.squared[lists.ptr[1:] - 1]
        W = self.kernel.affinity(lists.squared.copy())
        among = np.bincount(lists.index, weights=W, minlength=len(last))
        if self.geometry.k == len(last):  # nothing is cut off
            return among, np.ones(len(last)), np.ones(len(last))
        return among, *cut_moments(last, local_dimension(lists), self.kernel.bandwidth.epsilon)

    def _restore_gram(self, state: dict[str, Array], count: int) -> Sparse | None:
        return csr_array((state["data"], state["indices"], state["indptr"]), (count,) * 2) if "data" in state else None

    def add(self, G: Matrix | None, part: Matrix) -> Matrix:
        return part if G is None else add_sums(G, part)


class GraphPasses(NearPasses):
    """Passes in which a row has weight on the landmarks that the geometry joins it to, perhaps on none.

    The values of a chunk are stored beside its columns, and not computed again if the chunk holds all rows.
    """

    geometry: Geometry  # type: ignore[assignment]
    width = 1.0  # about how many landmarks a row has

    @property
    def _width(self) -> int:
        return math.ceil(self.width)

    def _step(self, gram: bool) -> int:
        rows, features = self.rows.shape
        given = isinstance(self.geometry, GivenLandmarks)  # rows are as long as their entries
        return chunk_rows(rows, 0 if given else features, math.ceil(GRAPH_ENTRIES * self.width), self.memory)

    def _find_neighbors(self, points: Array, bar: Any, runner: Threads) -> NeighborLists:
        geometry, search = self.geometry, None
        if isinstance(geometry, SparseGraph | NearestLandmarks):
            search = geometry.search
        order = np.arange(len(points)) if search is None else search.arrange(points, runner)

        def see(part: slice) -> Sparse:
            seen = geometry.cross(points[order[part]])
            assert not isinstance(seen, np.ndarray)
            return seen

        found = list(runner.map(see, row_blocks(len(points), max(64, geometry.row_entries, self._width)), "neighbours"))
        counts = np.concatenate([np.diff(seen.indptr) for seen in found])
        index, values = (np.concatenate(part) for part in zip(*((seen.indices, seen.data) for seen in found)))
        bar.update(len(points))
        return NeighborLists(
            order=order,
            ptr=np.append(0, np.cumsum(counts, dtype=np.int64)),
            index=index.astype(np.int32, copy=False),
            distances=None if search is None else search.distances,
            values=values,
        )

    def _lists(self, points: Array, kept: NeighborLists) -> Lists:
        assert kept.values is not None
        return Lists(kept.ptr, kept.index, kept.values.copy())

    def _weights(self, lists: Lists) -> Array:
        W = lists.squared
        self.runner.run(lambda part: self.kernel.affinity(W[part]), row_blocks(len(W), 4))
        return W

    def _local_mass(self, lists: Lists) -> Array | None:
        """Return the log mass of each row by weights that fall with the distance; None: by those of the kernel."""
        witness = self.kernel.witness(lists.squared)
        return None if witness is None else self._log_mass(np.bincount(lists.rows(), witness, len(lists.ptr) - 1))

    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        geometry, points = self.geometry, self.geometry.anchors
        among, whole = np.zeros(len(points)), np.ones(len(points))
        for block in row_blocks(len(points), max(64, geometry.row_entries, self._width)):
            W: Any = self.affinities(points[block])
            among += W.sum(axis=0)
        if not isinstance(geometry, SparseGraph) or geometry.radii is None:  # the same radius everywhere
            return among, whole, whole
        lists = geometry.search.closest(points, geometry.k, self.runner).nearest(geometry.k)
        return among, *cut_moments(geometry.radii, local_dimension(lists), self.kernel.bandwidth.epsilon)


def landmarks_per_row(geometry: Geometry) -> float:
    """Return about how many landmarks a row has: the mean over rows that lie on a landmark."""
    points = geometry.anchors[even_sample(geometry.anchors, WIDTH_ROWS)]
    blocks = row_blocks(len(points), geometry.row_entries)
    entries = (np.count_nonzero(np.isfinite(_values(geometry.cross(points[block])))) for block in blocks)
    return max(1.0, sum(entries) / len(points))


def _values(measured: Matrix) -> Array:
    values: Array = measured if isinstance(measured, np.ndarray) else measured.data
    return values


def cut_moments(squared: Array, dimension: float, epsilon: float) -> tuple[Array, Array]:
    """Return the mass and the second moment of a Gaussian that is cut at these squared radii, relative to the whole."""
    middle = np.median(squared) or np.median(squared[squared > 0]) if squared.any() else 1.0  # copies: radius 0
    half = dimension / 2
    wide = middle * 10.0 ** min(6.0, 100 / half)  # beyond, w is 1 within the radius, and the moments are powers of it
    cut = np.maximum(squared, LEAST_RADIUS**2 * middle) / (2 * min(epsilon, wide))
    mass, moment = (np.maximum(gammainc(power, cut), TINY) for power in (half, half + 1))
    return mass, moment


def _pieces(rows: int, row_bytes: int) -> list[slice]:
    """Return slices of rows, each of about ``GRAM_BYTES``."""
    count = -(-rows * row_bytes // GRAM_BYTES)
    step = -(-rows // count)
    return [slice(at, min(at + step, rows)) for at in range(0, rows, step)]


def local_dimension(lists: Lists) -> float:
    """Return the intrinsic dimension by the growth of neighbour distances, 1 / mean log(r_k / r_j).

    Levina and Bickel (2004).
    """
    last = np.repeat(lists.squared[lists.ptr[1:] - 1], np.diff(lists.ptr))
    apart = (lists.squared > 0) & (lists.squared < last)
    return 2 / float(np.log(last[apart] / lists.squared[apart]).mean()) if apart.any() else 1.0


def gram(ptr: Array, index: Array, data: Array, columns: int, runner: Threads) -> csr_array:
    """Return W'W of a CSR matrix, computed on several threads; exactly symmetric, with sorted columns.

    On one thread SciPy's ``W.T @ W`` is up to a quarter quicker; on two this is (benchmarks/own_loops.py).
    """
    if len(data) < np.iinfo(np.int32).max:  # else SciPy widens the index, which takes twice the memory
        ptr = ptr.astype(np.int32, copy=False)
    W = csr_array((data, index, ptr), shape=(len(ptr) - 1, columns)).tocsc()
    back = W.indptr, W.indices, W.data
    step = max(GRAM_ROWS, columns // GRAM_PARTS)
    blocks = [slice(a, min(a + step, columns)) for a in range(0, columns, step)]
    found = list(runner.map(lambda b: csr.gram_rows(*back, ptr, index, data, b.start, b.stop), blocks, "products"))
    counts, indices, values = (np.concatenate([part[at] for part in found]) for at in range(3))
    return csr_array((values, indices, np.append(0, np.cumsum(counts))), shape=(columns, columns))


def gather(table: Array, order: Array, runner: Threads) -> Array:
    """Return ``table[order]``, copied on several threads."""
    if not isinstance(table, np.ndarray) or len(order) < GATHERED_FROM:
        picked: Array = table[order]
        return picked
    out = np.empty((len(order), *table.shape[1:]), table.dtype)

    def copy_rows(rows: slice) -> None:
        out[rows] = table[order[rows]]

    runner.run(copy_rows, row_blocks(len(order), 16))
    return out


def _gram_state(G: Matrix, done: int) -> dict[str, Array]:
    state = {"data": G} if isinstance(G, np.ndarray) else {"data": G.data, "indices": G.indices, "indptr": G.indptr}
    return {"next": np.array(done), "landmarks": np.array(G.shape[0]), **state}
