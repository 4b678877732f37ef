"""Rows and weights of Dask collections, read part by part on the workers and never gathered."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from .._runtime.threads import one_thread
from .._runtime.typing import Array
from ..data import table_files, writers
from ..data.columns import Preparation, Prepared, complete
from ..data.sources import Answer, Join, Measure, PartitionedRows, Source, WalkOptions, check_rows, unit_measure
from ..data.sparse_rows import SparseRows, as_rows, stack_rows
from ..data.weights import NEGLIGIBLE_WEIGHT, check_scale
from . import tasks
from .tasks import DaskArray, Delayed, as_array, dask_module, is_frame, make_task, run_tasks, travelling, worker_threads

WAVES = 64  # waves of parts in a pass, at most; the workers join the answers of a wave, and one comes back
PART_BYTES = 1 << 26  # bytes of a part, at most, when workers read a table file
ARITY = 4  # answers that one task joins


# -- rows ----------------------------------------------------------------------------------


def rows_of(X: object, column: bool = False) -> DaskRows:
    """Return the rows of a Dask array or DataFrame; unknown chunk sizes are computed."""
    if column and is_frame(X) and getattr(X, "ndim", 2) == 1:
        X = X.to_frame()
    names = [str(name) for name in X.columns] if is_frame(X) else None
    values = as_array(X, lengths=True)
    if column and values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"A Dask array of rows and columns is needed, or a DataFrame; got {X!r}.")
    if values.dtype.kind not in "fiub":
        raise ValueError(f"The Dask array holds {values.dtype}; numbers are needed. Leave other columns out.")
    if np.isnan(values.shape[0]):
        values = copy.copy(values)
        values.compute_chunk_sizes()
    return DaskRows(by_rows(values), names)


def by_rows(X: DaskArray) -> DaskArray:
    """Return X with all its columns in one chunk: chunks then split rows only."""
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


BlockInfo = dict[int, dict[str, Any]]  # what Dask tells a function of its block


def check_block(rows: Array, info: BlockInfo | None) -> int:
    """Return the number of the first row of a block, 0 if it is not known; refuse a block of another shape."""
    if not info or not info.get(0):
        return 0
    (start, stop), (_, columns) = info[0]["array-location"]
    if start is None or np.isnan(start) or np.isnan(stop):
        return 0
    told = f"the Dask array ({' x '.join(map(str, info[0]['shape']))} in {info[0]['num-chunks'][0]} parts)"
    part = int(info[0]["chunk-location"][0])
    PartSpan(part=part, start=int(start), stop=int(stop), columns=int(columns), told=told).check(rows)
    return int(start)


def map_rows(function: Callable[..., Array], X: object, columns: int) -> DaskArray:
    """Return ``function`` of each block of rows, as a lazy Dask array of shape (n, columns)."""
    values, meta = by_rows(as_array(X)), np.empty((0, columns))
    chunks = (values.chunks[0], (columns,))
    return values.map_blocks(_apply, travelling(function), meta, dtype=float, chunks=chunks, meta=meta)


def _apply(
    rows: Array, function: Callable[[Array], Array], nothing: Array, block_info: BlockInfo | None = None
) -> Array:
    check_block(rows, block_info)
    with one_thread():
        return function(as_rows(rows)) if rows.shape[0] else nothing


@dataclass(frozen=True)
class DaskRows(PartitionedRows):
    """The rows of a Dask array; a chunk of the array is a part."""

    values: DaskArray
    names: list[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    @cached_property
    def sparse(self) -> bool:
        return isinstance(self.take(np.arange(1)), SparseRows)

    @cached_property
    def _parts(self) -> list[tuple[slice, Delayed]]:
        ends = np.cumsum(self.values.chunks[0]).tolist()
        found = zip(ends, self.values.chunks[0], self.values.to_delayed()[:, 0])
        return [(slice(end - size, end), part) for end, size, part in found if size]

    def _span(self, block: slice) -> PartSpan:
        """Return what is known of the rows ``block``, which lie in one part."""
        number = int(np.searchsorted(np.cumsum(self.values.chunks[0]), block.start, side="right"))
        return PartSpan(part=number, start=block.start, stop=block.stop, columns=self.shape[1], told=str(self))

    def pieces(self) -> Iterator[Array]:
        for (block, _), rows in zip(self._parts, run_tasks(self._parts, "reading")):
            yield self._span(block).check(as_rows(rows))

    def take(self, index: Array) -> Array:
        wanted = []
        for block, part in self._parts:
            a, b = np.searchsorted(index, [block.start, block.stop])
            if b > a:
                task = make_task("drawing rows", _take, block)
                wanted.append((block, task(part, index[a:b] - block.start, self._span(block))))
        return stack_rows([*run_tasks(wanted, "drawing rows", 256)] or [np.empty((0, self.shape[1]))])

    def beside(self, tables: Sequence[Source]) -> DaskRows:
        sizes = tuple(size for size in self.values.chunks[0] if size)
        array = dask_module("array")
        parts = [
            table.values.rechunk({0: sizes})
            if isinstance(table, DaskRows)
            else array.from_array(table.array(), chunks=(sizes, -1), name=False)
            for table in tables
        ]
        return DaskRows(by_rows(array.concatenate(parts, axis=1)))

    def walk_pieces(
        self,
        look: Callable[..., Any],
        join: Join[Answer],
        pieces: int,
        apart: bool = False,
        **options: Unpack[WalkOptions],
    ) -> Iterator[tuple[slice, list[Answer]]]:
        title, start, measure = options["title"], options.get("start", 0), options["measure"]
        parts = _from(self._parts, start)
        wave = max(worker_threads(), -(-len(parts) // WAVES))
        measure = unit_measure(len(self)) if measure is None else measure
        node = travelling(look)
        waves = []
        for at in range(0, len(parts), wave):
            answers: list[list[Delayed]] = [[] for _ in range(pieces)]
            for block, part in parts[at : at + wave]:
                given = (node, part, _weight(measure, block), self._span(block))
                if apart:
                    found = [make_task(title, _look_at, block)(*given, piece) for piece in range(pieces)]
                else:
                    whole = make_task(title, _look_at, block)(*given)
                    found = [whole] if pieces == 1 else [whole[piece] for piece in range(pieces)]
                for several, one in zip(answers, found):
                    several.append(one)
            block = slice(parts[at][0].start, block.stop)
            waves.append((block, make_task(title, list, block)([_tree(join, several) for several in answers])))
        with options["runner"].bar(title, len(self)) as bar:
            bar.update(start)
            known = {part.key: block for block, part in parts if isinstance(part.key, tuple)}
            for (block, _), found in zip(waves, run_tasks(waves, title, known=known)):
                bar.update(block.stop - block.start)
                yield block, found

    def __str__(self) -> str:
        return f"the Dask array ({self.shape[0]} x {self.shape[1]} in {self.values.numblocks[0]} parts)"


@dataclass(frozen=True, kw_only=True)
class PartSpan:
    """Where rows lie in a Dask array: the number of their part, first row, end, and columns."""

    part: int
    start: int
    stop: int
    columns: int
    told: str

    def check(self, rows: Array) -> Array:
        """Return the rows; refuse a part of another shape than the array says it has."""
        if rows.shape != (self.stop - self.start, self.columns):
            raise ValueError(
                f"Part {self.part} of {self.told} should hold rows {self.start} to {self.stop - 1}, {self.columns} "
                f"columns each, and its shape is {rows.shape}. The array says of itself what is not so: does a "
                "function of map_blocks drop rows? Then its chunks are unknown: pass chunks=(np.nan, columns), or call "
                "compute_chunk_sizes()."
            )
        return rows


def _from(parts: list[tuple[slice, Delayed]], start: int) -> list[tuple[slice, Delayed]]:
    """Return the parts from row ``start`` on; the part that contains row ``start`` begins there."""
    found = []
    for block, part in parts:
        if block.start >= start:
            found.append((block, part))
        elif block.stop > start:
            found.append((slice(start, block.stop), make_task("reading", _rest, block)(part, start - block.start)))
    return found


def _rest(rows: Array, start: int) -> Array:
    return rows[start:]


def _take(rows: Array, index: Array, span: PartSpan) -> Array:
    chosen = span.check(as_rows(rows))[index]
    try:
        return check_rows(chosen, span.start, span.told)
    except ValueError:
        check_rows(rows, span.start, span.told)  # raises with the number of the row in the whole array
        raise


def _look_at(look: Callable[..., Answer], rows: Array, weight: Array | float, span: PartSpan, *piece: int) -> Answer:
    """Check the rows of a part and return ``look`` of them. Runs on a worker, on one thread."""
    points = span.check(check_rows(rows, span.start, span.told))
    if np.ndim(weight) and np.shape(weight) != (len(points),):
        raise ValueError(
            f"Part {span.part} of sample_weight has shape {np.shape(weight)} for {len(points)} rows, those from "
            f"{span.start} to {span.stop - 1} of {span.told}. Its chunks say otherwise: call compute_chunk_sizes()."
        )
    measure = np.broadcast_to(np.asarray(weight, dtype=float), len(points))
    with one_thread():
        return look(points, measure, span.start, *piece)


def _tree(join: Join[Any], answers: list[Delayed]) -> Delayed:
    """Return one task that joins ``answers`` in order, by a tree of tasks with up to ``ARITY`` inputs."""
    while len(answers) > 1:
        groups = [answers[at : at + ARITY] for at in range(0, len(answers), ARITY)]
        answers = [
            make_task("joining", partial(reduce, join))(group) if len(group) > 1 else group[0] for group in groups
        ]
    return answers[0]


# -- weights -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DaskWeights:
    """Sample weights of rows in parts, with the few methods of an array of shape (n,) that a fit calls.

    A weight is the number of copies of its row.
    """

    values: DaskArray  # (n,), chunked as the rows are
    unit: float  # the weights are divided by this number: 1, unless a model of 0.1.0 is updated
    total: float  # sum of the weights after that division
    least: float  # smallest weight after that division
    able: tuple[int, ...]  # number of weights above 0 in each part
    plain: bool  # all weights are 0 or 1
    largest: float = 1.0  # weight, after that division
    negligible: int = 0  # number of weights that became 0 as they are negligible beside the largest

    @classmethod
    def of(cls, sample_weight: object, rows: DaskRows, unit: float = 1.0) -> DaskWeights:
        """Check the weights in one pass and divide them by ``unit``."""
        weights = as_array(sample_weight, lengths=True)
        if weights.ndim != 1:
            raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}.")
        if np.isnan(weights.shape[0]):
            weights = weights.compute_chunk_sizes()
        if weights.shape[0] != len(rows):
            raise ValueError(f"sample_weight has {weights.shape[0]} entries for {len(rows)} rows.")
        weights = weights.rechunk((rows.values.chunks[0],))
        finite, least, able, total, plain, largest, lightest = _facts(weights)
        if not finite.all() or least.min() < 0:
            raise ValueError(f"sample_weight must be finite and >= 0; the smallest given is {least.min():.3g}.")
        top, given = largest.max(), able.sum()
        if top > 0:
            check_scale("sample_weight", top)
        if lightest.min() < NEGLIGIBLE_WEIGHT * top:
            weights = dask_module("array").where(weights < NEGLIGIBLE_WEIGHT * top, 0.0, weights)
            finite, least, able, total, plain, largest, lightest = _facts(weights)
        if able.sum() < 2:
            raise ValueError(
                f"sample_weight is zero for all but {able.sum():.0f} of {len(rows)} rows; a fit needs at least 2 rows "
                "of positive weight."
            )
        return cls(
            values=weights,
            unit=unit,
            total=total.sum() / unit,
            least=least.min() / unit,
            able=tuple(able.astype(int).tolist()),
            plain=bool(plain.all()) and unit == 1,
            largest=top / unit,
            negligible=int(given - able.sum()),
        )

    def __repr__(self) -> str:
        return f"Weights of {len(self)} rows: {self.total!r} in all, {self.least!r} at the least, {self.able} above 0"

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    def sum(self) -> float:
        return self.total

    def min(self) -> float:
        return self.least

    def __getitem__(self, at: Array | slice, /) -> Array:
        """Return some weights in memory: at an increasing index, or at every ``at.step``-th row of a slice."""
        return np.asarray(self.values[at].compute(), dtype=float) / self.unit

    def positive(self, ranks: Array) -> Array:
        """Return the numbers of the ranks[0]-th, ranks[1]-th, ... (increasing) of the rows whose weight is above 0."""
        ends = np.cumsum(self.able)
        starts = np.cumsum((0, *self.values.chunks[0]))[:-1]
        asked = []
        for part, able, end, start in zip(self.values.to_delayed(), self.able, ends, starts):
            a, b = np.searchsorted(ranks, [end - able, end])
            if b > a:
                asked.append(make_task("ranks", _rows_of_ranks)(part, ranks[a:b] - (end - able), start))
        return np.concatenate(dask_module("base").compute(*asked)) if asked else np.empty(0, dtype=int)

    def part(self, block: slice) -> Delayed:
        """Return the weights of the rows in ``block`` as a delayed array, which stays on the workers."""
        part: Delayed = (self.values[block] / self.unit).to_delayed()[0]
        return part


def _facts(weights: DaskArray) -> Array:
    facts = [make_task("weights", _weight_facts)(part) for part in weights.to_delayed()]
    return np.array(dask_module("base").compute(*facts), dtype=float).T


def _weight_facts(values: Array) -> tuple[float, ...]:
    part = np.asarray(values, dtype=float)
    finite = np.isfinite(part).all()
    least = part.min(initial=np.inf) if finite else np.nan
    able = part > 0
    lightest = part.min(initial=np.inf, where=able)
    plain = ((part == 0) | (part == 1)).all()
    return finite, least, able.sum(), part.sum(), plain, part.max(initial=0.0), lightest


def _rows_of_ranks(part: Array, ranks: Array, start: int) -> Array:
    return start + np.flatnonzero(np.asarray(part) > 0)[ranks]


def _weight(measure: Measure, block: slice) -> Delayed | Array | float:
    """Return the weights of a part: a single number if all weights of the fit are equal."""
    if isinstance(measure, DaskWeights):
        return measure.part(block)
    weights = np.asarray(measure)
    return float(weights[0]) if weights.strides == (0,) else np.array(weights[block])


# -- files ---------------------------------------------------------------------------------


def of_table(path: str, obsm: str | None, prepared: Prepared) -> DaskRows:
    """Return the prepared rows of a table file. The workers read its parts, so they need the file at the same path."""
    where = str(Path(path).resolve())
    rows, features = prepared.table.rows, prepared.shape[1]
    step = max(1, min(PART_BYTES // (8 * features), -(-rows // (2 * worker_threads()))))
    array, parts = dask_module("array"), []
    whole = rows == len(prepared)
    for start in range(0, rows, step):
        block = slice(start, min(start + step, rows))
        task = make_task("reading", _read, block)(where, obsm, prepared.preparation, block.start, block.stop)
        size = block.stop - block.start if whole else np.nan
        parts.append(array.from_delayed(task, shape=(size, features), dtype=float))
    found = array.concatenate(parts, allow_unknown_chunksizes=True)
    if not whole:  # rows with a missing value are left out, so the sizes of the parts are unknown
        found.compute_chunk_sizes()
    return DaskRows(found, list(prepared.preparation.columns) if prepared.preparation.named else None)


def _read(path: str, obsm: str | None, preparation: Preparation, start: int, stop: int) -> Array:
    table = table_files.open_table(path, obsm=obsm)
    values = table.between(preparation.match(table), start, stop)
    return preparation.apply(values[complete(values)])


def write(table: DaskArray, path: Path, suffix: str, names: Sequence[str]) -> None:
    """Write a Dask array to a new Zarr array, or to a folder with one Parquet file per part."""
    if suffix == ".zarr":
        table = _even(table)
        writers.new_zarr(path, (table.shape[0], table.shape[1]), table.dtype, table.chunksize)
    else:
        path.mkdir()
    work, start = [], 0
    for number, (part, size) in enumerate(zip(table.to_delayed()[:, 0], table.chunks[0])):
        block = slice(start, start := start + (0 if np.isnan(size) else size))
        if suffix == ".zarr":
            task = make_task("writing", writers.into_zarr, block)(str(path), block.start, part)
        else:
            task = make_task("writing", writers.parquet_part, block)(
                str(path / f"part-{number:06d}.parquet"), names, part
            )
        work.append((block, task))
    deque(run_tasks(work, "writing", max(tasks.IN_FLIGHT, 2 * worker_threads())), maxlen=0)
    for left in path.glob("*.part"):  # of workers that died while they wrote; others wrote these parts
        left.unlink(missing_ok=True)


def _even(table: DaskArray) -> DaskArray:
    """Return the table in parts of equal size (except the last): no two tasks then write to one chunk of a Zarr array.

    The sizes of the parts are computed if they are unknown.
    """
    if np.isnan(table.shape[0]):
        table = table.persist()
        table.compute_chunk_sizes()
    size = max(max(table.chunks[0]), 1)
    return table if all(part == size for part in table.chunks[0][:-1]) else table.rechunk({0: size})
