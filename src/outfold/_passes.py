"""The walks of landmark diffusion over rows: what landmarks see of them, and the Gram matrix of the landmarks.

Sums are over blocks of rows, in memory, read from files or elsewhere (see :class:`outfold.sources.Elsewhere`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from scipy.special import gammainc

from . import _products, components, neighbors
from ._problem import Kept
from .checkpoints import Checkpoint
from .neighbors import Lists
from .normalizations import Operator, links, scale_both_sides
from .runners import BLOCK_ENTRIES, Threads, block_rows, row_blocks
from .sources import Elsewhere, InMemory, Source
from .trust import LOG_FLOOR, SAMPLED_ROWS, Reference

Array = NDArray[Any]

TINY = np.finfo(float).tiny
LITTLE_SUPPORT = -3.0  # where few rows are but some may be: a twentieth of the typical mass
LEAST_RADIUS = 0.1  # of a landmark's neighbourhood, in units of the median one
SEARCHED_ROWS = 1 << 15  # at a time, on each thread
GRAM_ROWS, GRAM_PARTS = 128, 128  # of a sparse product: at least so many rows at a time, in at most about so many parts
CHUNK_ENTRY_BYTES = 28  # what an entry of a chunk takes at the most: column and weight, and both once more, turned
CHUNK_SHARE = 0.4  # of the memory
PART_MEMORY = 1 << 29  # bytes for a walk over a part of rows elsewhere, on one thread
GRAM_BYTES = 1 << 26  # of a piece of the Gram matrix, where it is summed up in pieces
SECOND = 5  # second neighbours for each neighbour: right for surfaces


@dataclass(frozen=True)
class Sums:
    """What the first pass sums up of some rows."""

    seen: Array  # for each landmark, the mass of rows that see it
    log_mass: Array  # of every so many-th row
    entries: float
    least: float  # of the log mass of all rows

    def joined(self, later: Sums) -> Sums:
        """Of these rows and of those that follow them."""
        return Sums(
            self.seen + later.seen,
            np.append(self.log_mass, later.log_mass),
            self.entries + later.entries,
            min(self.least, later.least),
        )

    @classmethod
    def of(cls, seen: Array, log_mass: Array, entries: int, every: int, start: int) -> Sums:
        return cls(seen, log_mass[-start % every :: every].copy(), float(entries), float(log_mass.min(initial=np.inf)))

    @classmethod
    def restored(cls, state: dict[str, Array]) -> Sums:
        return cls(state["seen"], state["log_mass"], float(state["entries"]), float(state["least"]))


@dataclass(frozen=True)
class FirstPass:
    """The first pass over a part of the rows, where they are."""

    passes: Passes  # without rows
    every: int

    def __call__(self, points: Array, measure: Array, start: int) -> Sums:
        found = self.passes.over(points, measure).first_sums(self.every, 0, start)
        return reduce(Sums.joined, (sums for _, sums in found))


@dataclass(frozen=True)
class SecondPass:
    """The second pass over a part of the rows: pieces of their Gram matrix, at once or one by one."""

    passes: Passes  # without rows
    gain: Array
    pieces: list[slice]

    def __call__(self, points: Array, measure: Array, start: int, piece: int | None = None) -> Any:
        passes = self.passes.over(points, measure)
        if piece is not None:
            return passes.gram_piece(self.gain, self.pieces[piece])
        G = passes.second(self.gain)
        return tuple(G[rows] for rows in self.pieces) if len(self.pieces) > 1 else G


def summed(G: Any, part: Any) -> Any:
    """A sum that leaves both as they are: what was found elsewhere may be asked for again."""
    return csr_array(G + part) if issparse(G) else G + part


class Passes(ABC):
    """Two walks over the rows; sums are taken block by block in order, so threads do not change them."""

    piecewise = False  # whether pieces of the Gram matrix are found one by one, for want of memory

    def __init__(
        self,
        rows: Source,
        measure: Array,
        geometry: Any,
        kernel: Any,
        runner: Threads,
        memory: float,
        checkpoint: Checkpoint,
    ) -> None:
        self.rows, self.measure, self.runner = rows, measure, runner
        self.geometry, self.kernel = geometry, kernel
        self.memory, self.checkpoint = memory, checkpoint
        self.kept: Kept | None = None  # what the rows see, if it fits in memory
        self.low = -np.inf  # log mass that few rows fall below, once the first pass is done

    @abstractmethod
    def _step(self, gram: bool) -> int:
        """Rows of a block."""

    @abstractmethod
    def _walk(self, look: Any, step: int, start: int, title: str) -> Iterator[tuple[slice, Any]]:
        """Blocks from ``start`` on with what ``look`` finds there, in order."""

    @abstractmethod
    def _look_first(self, every: int, start: int, block: slice, *seen: Any) -> Sums:
        """What a block sees, the first row of all being row ``start`` of the data."""

    @abstractmethod
    def _look_second(self, gain: Array, block: slice, *seen: Any) -> Any:
        """W' diag(m / d) W of a block."""

    @abstractmethod
    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        """p_Y, and what mass and second moment the cut leaves of a Gaussian at each landmark."""

    @abstractmethod
    def _restored_gram(self, state: dict[str, Array], count: int) -> Any:
        """The sum so far."""

    @abstractmethod
    def added(self, G: Any, part: Any) -> Any:
        """The sum with one more block."""

    @abstractmethod
    def gram_piece(self, gain: Array, rows: slice) -> Any:
        """Some rows of the Gram matrix of all rows."""

    @abstractmethod
    def pieces(self) -> list[slice]:
        """Rows of the Gram matrix that are summed up together, where rows are elsewhere."""

    @abstractmethod
    def put_together(self, parts: list[Any]) -> Any:
        """A Gram matrix from its pieces."""

    def first(self) -> tuple[Array, Reference, float]:
        """p_X, the mass of rows each landmark sees; what rows see; entries a row."""
        every, count = 1 + len(self.rows) // SAMPLED_ROWS, len(self.geometry.anchors)
        state = self._restored("first pass")
        start = 0 if state is None else int(state.pop("next"))
        sums = Sums(np.zeros(count), np.empty(0), 0.0, np.inf) if state is None else Sums.restored(state)
        for block, more in self.first_sums(every, start):
            sums = sums.joined(more)
            kept = {"next": np.array(block.stop), "landmarks": np.array(count), **asdict(sums)}
            self.checkpoint.keep("first pass", kept, done=block.stop == len(self.rows))
        weight = self.measure[::every]
        reference = Reference.of(sums.log_mass, np.array([sums.least]), weight)
        hundredth = Reference.of(sums.log_mass, np.array([np.inf]), weight).lowest
        self.low = max(reference.lowest, min(hundredth, reference.typical + LITTLE_SUPPORT))
        return sums.seen, reference, float(sums.entries) / len(self.rows)

    def first_sums(self, every: int, start: int, offset: int = 0) -> Iterator[tuple[slice, Sums]]:
        """Block by block from ``start`` on; the first row of all is row ``offset`` of the data."""
        if not isinstance(self.rows, Elsewhere):
            yield from self._walk(partial(self._look_first, every, offset), self._step(gram=False), start, "first pass")
            return
        look = FirstPass(self.alone(), every)
        for block, (sums,) in self.rows.joined(
            look, Sums.joined, self.measure, self.runner, title="first pass", start=start
        ):
            yield block, sums

    def alone(self) -> Passes:
        """The same walks without rows, to be sent to where rows are."""
        alone = copy.copy(self)
        alone.rows = alone.measure = alone.kept = None  # type: ignore[assignment]
        alone.runner, alone.memory, alone.checkpoint = Threads(1), PART_MEMORY, Checkpoint()
        return alone

    def over(self, points: Array, measure: Array) -> Passes:
        """The same walks over these rows."""
        there = copy.copy(self)
        there.rows, there.measure = InMemory(points), measure
        return there

    def correction(self, seen: Array, alpha: float, total: float) -> tuple[Array, Array]:
        """omega, which undoes the density of rows (of mass ``total``) and of landmarks, and the pace tau."""
        count = len(seen)
        if alpha == 0:
            return np.ones(count), np.ones(count)
        among, mass, moment = self._landmarks_themselves()
        omega = (seen / total) ** -2 * (among / count) ** -1 * mass**2 / moment
        return omega**alpha, (moment / mass) ** alpha

    def second(self, gain: Array) -> Any:
        """W^T diag(m / d) W with d = W gain, gain = omega p_X: G before its columns are scaled by sqrt(omega)."""
        state = self._restored("second pass") or {"next": np.array(0)}
        G = self._restored_gram(state, len(gain))
        for block, part in self.gram_sums(gain, int(state["next"])):
            G = self.added(G, part)
            self.checkpoint.keep(
                "second pass",
                lambda at=block.stop, so_far=G: _gram_state(so_far, at),
                done=block.stop == len(self.rows),
            )
        return G

    def gram_sums(self, gain: Array, start: int) -> Iterator[tuple[slice, Any]]:
        """The Gram matrix of blocks from ``start`` on."""
        if not isinstance(self.rows, Elsewhere):
            yield from self._walk(partial(self._look_second, gain), self._step(gram=True), start, "second pass")
            return
        look = SecondPass(self.alone(), gain, pieces := self.pieces())
        for block, found in self.rows.joined(
            look,
            summed,
            self.measure,
            self.runner,
            title="second pass",
            start=start,
            pieces=len(pieces),
            apart=self.piecewise,
        ):
            yield block, self.put_together(found)

    @staticmethod
    def operator(G: Any, seen: Array, omega: Array, pace: Array) -> Operator:
        """The operator G, scaled in place: its top eigenvector is c = sqrt(omega) p_X, times sqrt(tau)."""
        count, gain, root = len(seen), omega * seen, np.sqrt(omega)
        wait = np.sqrt(pace.min() / pace)
        scale_both_sides(G, root * wait)
        if (wait < 1).any():
            G = _with_diagonal(G, 1 - np.square(wait))
        stationary = np.square(root * seen / wait)
        stationary /= stationary.sum()
        parts = components.find(links(G), stationary)
        moves = np.square(wait) if (wait < 1).any() else None
        return Operator("markov", G, 1.0, 2.0, np.ones(count), stationary, parts, gain, seen, pace=moves)

    def _restored(self, stage: str) -> dict[str, Array] | None:
        """The state of a pass over these landmarks (before those that nothing sees are left out there are more)."""
        state = self.checkpoint.restored(stage)
        return state if state is not None and state["landmarks"] == len(self.geometry.anchors) else None

    def affinities(self, Z: Array) -> Any:
        measured = self.geometry.cross(np.ascontiguousarray(Z))
        if issparse(measured):
            measured.data = self.kernel.affinity(measured.data)
            return measured
        return self.kernel.affinity(measured)

    @staticmethod
    def _log_mass(mass: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(mass), LOG_FLOOR)


def gram_step(landmarks: int) -> int:
    """Rows of a dense product at a time: enough that adding it up costs little, no more than 64 MB."""
    return max(16, min(2 * landmarks, (1 << 23) // landmarks))


class Dense(Passes):
    """Every row sees every landmark; blocks of rows on several threads."""

    def _step(self, gram: bool) -> int:
        return gram_step(len(self.geometry.anchors)) if gram else block_rows(self.geometry.row_entries)

    def _walk(self, look: Any, step: int, start: int, title: str) -> Iterator[tuple[slice, Any]]:
        blocks = ((block, (block, points)) for block, points in self.rows.blocks(step, start))
        yield from self.runner.over(lambda block, points: (block, look(block, points)), blocks, title, len(self.rows))

    def _look_first(self, every: int, start: int, block: slice, points: Array) -> Sums:
        W = self.affinities(points)
        log_mass = self._log_mass(W.sum(axis=1))
        return Sums.of(W.T @ self.measure[block], log_mass, W.size, every, start + block.start)

    def _look_second(self, gain: Array, block: slice, points: Array) -> Array:
        W = self._over_root_degrees(gain, block, points)
        return W.T @ W

    def _over_root_degrees(self, gain: Array, block: slice, points: Array) -> Array:
        W = self.affinities(points)
        d = W @ gain
        W *= np.sqrt(np.where(d > 0, self.measure[block] / np.maximum(d, TINY), 0.0))[:, None]  # sees no landmark: none
        return W

    @property
    def piecewise(self) -> bool:  # type: ignore[override]
        return len(self.pieces()) > 1

    def pieces(self) -> list[slice]:
        return _pieces(count := len(self.geometry.anchors), 8 * count)

    def gram_piece(self, gain: Array, rows: slice) -> Array:
        """Some rows of the Gram matrix, from the diagonal on."""
        out = np.zeros((rows.stop - rows.start, len(gain) - rows.start))
        step = block_rows(len(gain))
        for block, points in self.rows.blocks(step):
            W = self._over_root_degrees(gain, block, points)
            out += W[:, rows].T @ W[:, rows.start :]
        return out

    def put_together(self, parts: list[Array]) -> Array:
        if len(parts) == 1:
            return parts[0]
        G = np.empty((len(self.geometry.anchors),) * 2)
        for rows, part in zip(self.pieces(), parts):
            G[rows, rows.start :] = part
            G[rows.start :, rows] = part.T
            G[rows, rows] = (part[:, : len(part)] + part[:, : len(part)].T) / 2
        return G

    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        points = self.geometry.anchors
        among, whole = np.zeros(len(points)), np.ones(len(points))
        for block in row_blocks(len(points), self.geometry.row_entries):
            among += self.affinities(points[block]).sum(axis=0)
        return among, whole, whole

    def _restored_gram(self, state: dict[str, Array], count: int) -> Array:
        return state["data"].copy() if "data" in state else np.zeros((count, count))

    def added(self, G: Array, part: Array) -> Array:
        return np.add(G, part, out=G)


def chunk_rows(rows: int, features: int, k: int, memory: float) -> int:
    """How many rows that see k landmarks each are gone through at a time."""
    row = CHUNK_ENTRY_BYTES * k + 3 * 8 * features
    return int(min(rows, max(1 << 14, CHUNK_SHARE * memory / row)))


class Near(Passes):
    """Every row sees its nearest landmarks; chunks as large as memory allows, one after another.

    In a chunk rows that see the same landmarks are next to each other, so products stay in the cache.
    """

    def _step(self, gram: bool) -> int:
        return chunk_rows(*self.rows.shape, self.geometry.k, self.memory)

    def _walk(self, look: Any, step: int, start: int, title: str) -> Iterator[tuple[slice, Any]]:
        quiet = replace(self.runner, verbose=False)
        with self.runner.bar(title, len(self.rows)) as bar:
            bar.update(start)
            for block, points in self.rows.blocks(step, start):
                kept = self._kept(points, bar, quiet) if self.kept is None else self.kept
                if step == len(self.rows):
                    self.kept = kept
                yield block, look(block, points[kept.order], kept)

    def _kept(self, points: Array, bar: Any, runner: Threads) -> Kept:
        order = self.geometry.search.arranged(points, runner)
        counts, index, total = np.empty(len(points), np.int64), np.empty(len(points) * self.geometry.k, np.int32), 0
        for part in row_blocks(len(points), BLOCK_ENTRIES // (SEARCHED_ROWS * runner.workers)):
            lists = self.geometry.lists(points[order[part]], runner)
            counts[part] = np.diff(lists.ptr)
            if total + len(lists.index) > len(index):
                index = np.append(index, np.empty(max(len(index), len(lists.index)), np.int32))
            index[total : total + len(lists.index)] = lists.index
            total += len(lists.index)
            bar.update(part.stop - part.start)
        return Kept(order, np.append(0, np.cumsum(counts)), index[:total])

    def _weights(self, points: Array, kept: Kept) -> Array:
        W = neighbors.measured(self.geometry.distances, points, kept.ptr, kept.index, self.runner).squared
        self.runner.run(lambda part: self.kernel.affinity(W[part]), row_blocks(len(W), 4))
        return W

    def _look_first(self, every: int, start: int, block: slice, points: Array, kept: Kept) -> Sums:
        W = self._weights(points, kept)
        sums, mass = np.zeros(len(self.geometry.anchors)), np.empty(len(kept.order))
        _products.sums_both_ways(kept.ptr, kept.index, W, self.measure[block][kept.order], sums, mass)
        log_mass = np.empty(len(mass))
        log_mass[kept.order] = self._log_mass(mass)
        return Sums.of(sums, log_mass, len(W), every, start + block.start)

    def pieces(self) -> list[slice]:
        count = len(self.geometry.anchors)
        return _pieces(count, 12 * min(count, SECOND * self.geometry.k))

    def gram_piece(self, gain: Array, rows: slice) -> csr_array:
        return self.second(gain)[rows]

    def put_together(self, parts: list[csr_array]) -> csr_array:
        return parts[0] if len(parts) == 1 else csr_array(vstack(parts))

    def _look_second(self, gain: Array, block: slice, points: Array, kept: Kept) -> csr_array:
        W = self._weights(points, kept)
        measure = self.measure[block][kept.order]
        self.runner.run(
            lambda part: _products.over_root_degrees(kept.ptr, kept.index, W, gain, measure, part.start, part.stop),
            row_blocks(len(kept.order), 64),
        )
        return gram(kept.ptr, kept.index, W, len(self.geometry.anchors), self.runner)

    def _landmarks_themselves(self) -> tuple[Array, Array, Array]:
        lists = self.geometry.lists(self.geometry.anchors, self.runner)
        last = lists.squared[lists.ptr[1:] - 1]
        W = self.kernel.affinity(lists.squared.copy())
        among = np.bincount(lists.index, weights=W, minlength=len(last))
        if self.geometry.k == len(last):  # nothing is cut off
            return among, np.ones(len(last)), np.ones(len(last))
        last = np.maximum(last, LEAST_RADIUS**2 * np.median(last))  # copies have none
        half, cut = local_dimension(lists) / 2, last / (2 * self.kernel.bandwidth.epsilon)
        return among, *(np.maximum(gammainc(power, cut), TINY) for power in (half, half + 1))

    def _restored_gram(self, state: dict[str, Array], count: int) -> Any:
        return csr_array((state["data"], state["indices"], state["indptr"]), (count,) * 2) if "data" in state else None

    def added(self, G: Any, part: csr_array) -> csr_array:
        return part if G is None else csr_array(G + part)


def _pieces(rows: int, row_bytes: int) -> list[slice]:
    """Rows of about ``GRAM_BYTES`` together."""
    count = -(-rows * row_bytes // GRAM_BYTES)
    step = -(-rows // count)
    return [slice(at, min(at + step, rows)) for at in range(0, rows, step)]


def local_dimension(lists: Lists) -> float:
    """Of a manifold, by how distances to neighbours grow (Levina and Bickel, 2004): 1 / mean log(r_k / r_j)."""
    last = np.repeat(lists.squared[lists.ptr[1:] - 1], np.diff(lists.ptr))
    apart = (lists.squared > 0) & (lists.squared < last)
    return 2 / float(np.log(last[apart] / lists.squared[apart]).mean()) if apart.any() else 1.0


def _with_diagonal(G: Any, more: Array) -> Any:
    """G with more on its diagonal, which it has."""
    if not issparse(G):
        G[np.diag_indices(len(G))] += more
        return G
    G.setdiag(G.diagonal() + more)
    return G


def gram(ptr: Array, index: Array, data: Array, columns: int, runner: Threads) -> csr_array:
    """W'W of a CSR matrix, rows of it on several threads; symmetric to the last bit, columns in order."""
    back = _products.turned(ptr, index, data, columns)
    step = max(GRAM_ROWS, columns // GRAM_PARTS)
    blocks = [slice(a, min(a + step, columns)) for a in range(0, columns, step)]
    found = list(
        runner.map(lambda b: _products.gram_rows(*back, ptr, index, data, b.start, b.stop), blocks, "products")
    )
    counts, indices, values = (np.concatenate([part[at] for part in found]) for at in range(3))
    return csr_array((values, indices, np.append(0, np.cumsum(counts))), shape=(columns, columns))


def _gram_state(G: Any, done: int) -> dict[str, Array]:
    state = {"data": G.data, "indices": G.indices, "indptr": G.indptr} if issparse(G) else {"data": G}
    return {"next": np.array(done), "landmarks": np.array(G.shape[0]), **state}
