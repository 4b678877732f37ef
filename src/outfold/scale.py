"""Rows beyond one machine: Dask carries the same fits and the same formula to wherever the rows are.

A fit is sums over rows: each part of a Dask array is looked at where it lies, answers are joined in a tree, in the
order of the rows, and one small eigenproblem is solved here. ``transform`` and its kin are row by row, hence lazy. What
tasks need, landmarks or a model, travels in the graph, so any worker can be lost; each task works on one thread.
"""

from __future__ import annotations

import copy
import os
import re
import tempfile
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import sinks, tables
from .exceptions import ClusterError
from .preparation import Preparation, Prepared, complete
from .runners import Threads, available_cores, blas_threads
from .sources import Elsewhere, checked, extra

Array = NDArray[Any]

WAVES = 64  # at most so many answers come back from a pass, each joined over as many parts
IN_FLIGHT = 4  # waves that are at work together
PART_BYTES = 1 << 26  # of a table that is read in parts
ARITY = 4  # answers joined by one task


def _dask(module: str) -> Any:
    return extra(f"dask.{module}", "scale")


# -- rows ----------------------------------------------------------------------------------


def rows_of(X: Any) -> Spread:
    """The rows of a Dask array or DataFrame; sizes of parts that are not known are counted."""
    names = None
    if is_frame(X):
        names = [str(name) for name in X.columns]
        X = X.to_dask_array(lengths=True)
    if not hasattr(X, "chunks") or X.ndim != 2:
        raise ValueError(f"A Dask array of rows and columns is needed, or a DataFrame; got {X!r}.")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"The Dask array holds {X.dtype}; numbers are needed. Leave other columns out.")
    if np.isnan(X.shape[0]):
        X = copy.copy(X)
        X.compute_chunk_sizes()
    return Spread(by_rows(X), names)


def is_frame(X: Any) -> bool:
    return hasattr(X, "map_partitions") and hasattr(X, "divisions")


def beside(*tables: Any) -> Spread:
    """Spread rows and arrays, all of the same rows, as one table in the parts of the first that is spread."""
    sizes = next((table.values.chunks[0] for table in tables if isinstance(table, Spread)), (len(tables[0]),))
    sizes = tuple(size for size in sizes if size)
    array = _dask("array")
    parts = [
        table.values.rechunk({0: sizes})
        if isinstance(table, Spread)
        else array.from_array(table, chunks=(sizes, -1), name=False)
        for table in tables
    ]
    return Spread(by_rows(array.concatenate(parts, axis=1)))


def by_rows(X: Any) -> Any:
    """Chunked by rows alone."""
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def mapped(function: Callable[[Array], Array], X: Any, columns: int) -> Any:
    """What a function makes of rows, so many columns, as a lazy Dask array."""
    X = by_rows(X.to_dask_array() if is_frame(X) else X)
    chunks, meta = (X.chunks[0], (columns,)), np.empty((0, columns))
    return X.map_blocks(_applied, travelling(function), meta, dtype=float, chunks=chunks, meta=meta)


def _applied(rows: Any, function: Callable[[Array], Array], nothing: Array) -> Array:
    with blas_threads(1):
        return function(np.ascontiguousarray(rows, dtype=float)) if len(rows) else nothing


@dataclass(frozen=True)
class Spread(Elsewhere):
    """The rows of a Dask array, in the parts it has."""

    values: Any
    names: list[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    @cached_property
    def _parts(self) -> list[tuple[slice, Any]]:
        ends = np.cumsum(self.values.chunks[0]).tolist()
        found = zip(ends, self.values.chunks[0], self.values.to_delayed()[:, 0])
        return [(slice(end - size, end), part) for end, size, part in found if size]

    def pieces(self) -> Iterator[Array]:
        yield from map(np.asarray, _at_work(self._parts, "reading"))

    def take(self, index: Array) -> Array:
        wanted = []
        for block, part in self._parts:
            a, b = np.searchsorted(index, [block.start, block.stop])
            if b > a:
                task = _task("drawing rows", _taken, block)
                wanted.append((block, task(part, index[a:b] - block.start, block.start, str(self))))
        return np.concatenate([*_at_work(wanted, "drawing rows", 256), np.empty((0, self.shape[1]))])

    def joined(
        self,
        look: Callable[..., Any],
        join: Callable[[Any, Any], Any],
        measure: Any,
        runner: Threads,
        *,
        title: str,
        start: int = 0,
        pieces: int = 1,
        apart: bool = False,
    ) -> Iterator[tuple[slice, list[Any]]]:
        parts = _from(self._parts, start)
        wave = max(_threads(), -(-len(parts) // WAVES))
        node, call = travelling(look), partial(_called, told=str(self))
        waves = []
        for at in range(0, len(parts), wave):
            answers: list[list[Any]] = [[] for _ in range(pieces)]
            for block, part in parts[at : at + wave]:
                given = (node, part, _weight(measure, block), block.start)
                if apart:
                    found = [_task(title, call, block)(*given, piece) for piece in range(pieces)]
                else:
                    whole = _task(title, call, block)(*given)
                    found = [whole] if pieces == 1 else [whole[piece] for piece in range(pieces)]
                for several, one in zip(answers, found):
                    several.append(one)
            block = slice(parts[at][0].start, block.stop)
            waves.append((block, _task(title, list, block)([_tree(join, several) for several in answers])))
        with runner.bar(title, len(self)) as bar:
            bar.update(start)
            known = {part.key: block for block, part in parts if isinstance(part.key, tuple)}
            for (block, _), found in zip(waves, _at_work(waves, title, known=known)):
                bar.update(block.stop - block.start)
                yield block, found

    def __str__(self) -> str:
        return f"the Dask array ({self.shape[0]} x {self.shape[1]} in {self.values.numblocks[0]} parts)"


def _from(parts: list[tuple[slice, Any]], start: int) -> list[tuple[slice, Any]]:
    """Parts from a row on; one that it cuts is cut."""
    found = []
    for block, part in parts:
        if block.start >= start:
            found.append((block, part))
        elif block.stop > start:
            found.append((slice(start, block.stop), _task("reading", _rest, block)(part, start - block.start)))
    return found


def _rest(rows: Any, start: int) -> Any:
    return rows[start:]


def _taken(rows: Any, index: Array, start: int, told: str) -> Array:
    chosen = np.asarray(rows)[index]
    try:
        return checked(chosen, start, told)
    except ValueError:
        checked(rows, start, told)  # names the row
        raise


def _called(look: Any, rows: Any, weight: Any, start: int, *piece: int, told: str) -> Any:
    """On a worker: the rows of a part, checked, on one thread."""
    points = checked(rows, start, told)
    measure = np.broadcast_to(np.asarray(weight, dtype=float), len(points))
    with blas_threads(1):
        return look(points, measure, start, *piece)


def _tree(join: Callable[[Any, Any], Any], answers: list[Any]) -> Any:
    """Answers joined in order, a few at a time."""
    while len(answers) > 1:
        groups = [answers[at : at + ARITY] for at in range(0, len(answers), ARITY)]
        answers = [_task("joining", partial(reduce, join))(group) if len(group) > 1 else group[0] for group in groups]
    return answers[0]


# -- weights -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """The measure on rows that lie in parts: the words of an array that a fit needs, without being one.

    Whole numbers are counts; others are divided by the mean of those above 0.
    """

    values: Any  # a Dask array (n,), in the parts of the rows
    unit: float
    total: float
    least: float
    able: tuple[int, ...]  # rows above 0 in each part

    @classmethod
    def of(cls, weights: Any, rows: Spread, unit: float | None = None) -> Weights:
        """Checked, with one walk over them; ``unit`` is what they are divided by, where that is known."""
        if hasattr(weights, "divisions"):
            weights = weights.to_dask_array(lengths=True)
        if weights.ndim != 1:
            raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}.")
        if np.isnan(weights.shape[0]):
            weights = weights.compute_chunk_sizes()
        if weights.shape[0] != len(rows):
            raise ValueError(f"sample_weight has {weights.shape[0]} entries for {len(rows)} rows.")
        weights = weights.rechunk((rows.values.chunks[0],))
        finite, least, able, total, whole = _facts(weights)
        if not finite.all() or least.min() < 0:
            raise ValueError(f"sample_weight must be finite and >= 0; the smallest given is {least.min():.3g}.")
        if able.sum() < 2:
            raise ValueError(
                f"sample_weight is zero for all but {able.sum():.0f} of {len(rows)} rows; a fit needs at least 2 rows "
                "of positive weight."
            )
        unit = _unit(able, total, whole) if unit is None else unit
        return cls(weights, unit, total.sum() / unit, least.min() / unit, tuple(able.astype(int).tolist()))

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

    def __getitem__(self, at: Any) -> Array:
        """Some of them, here: by increasing index, or every so many-th."""
        return np.asarray(self.values[at].compute(), dtype=float) / self.unit

    def positive(self, ranks: Array) -> Array:
        """Which rows are the ranks[0]-th, ranks[1]-th, ... (increasing) of those above 0."""
        ends = np.cumsum(self.able)
        starts = np.cumsum((0, *self.values.chunks[0]))[:-1]
        tasks = []
        for part, able, end, start in zip(self.values.to_delayed(), self.able, ends, starts):
            a, b = np.searchsorted(ranks, [end - able, end])
            if b > a:
                tasks.append(_task("ranks", _ranked)(part, ranks[a:b] - (end - able), start))
        return np.concatenate(_dask("base").compute(*tasks)) if tasks else np.empty(0, dtype=int)

    def part(self, block: slice) -> Any:
        """Those of a part of the rows, where they are."""
        return (self.values[block] / self.unit).to_delayed()[0]


def unit(weights: Any) -> float:
    """What weights are divided by: 1 if all are whole numbers, else the mean of those above 0."""
    if hasattr(weights, "divisions"):
        weights = weights.to_dask_array()
    return _unit(*_facts(weights)[2:])


def _unit(able: Array, total: Array, whole: Array) -> float:
    return 1.0 if whole.all() else float(total.sum() / able.sum())


def _facts(weights: Any) -> Array:
    tasks = [_task("weights", _weighed)(part) for part in weights.to_delayed()]
    return np.array(_dask("base").compute(*tasks), dtype=float).T


def _weighed(part: Any) -> tuple[float, ...]:
    part = np.asarray(part, dtype=float)
    finite = np.isfinite(part).all()
    least = part.min(initial=np.inf) if finite else np.nan
    return finite, least, (part > 0).sum(), part.sum(), (part == np.round(part)).all()


def _ranked(part: Any, ranks: Array, start: int) -> Array:
    return start + np.flatnonzero(np.asarray(part) > 0)[ranks]


def _weight(measure: Any, block: slice) -> Any:
    """The weights of a part: one number where all are equal."""
    if isinstance(measure, Weights):
        return measure.part(block)
    return float(measure[0]) if measure.strides == (0,) else np.array(measure[block])


# -- files ---------------------------------------------------------------------------------


def of_table(path: str, obsm: str | None, prepared: Prepared) -> Spread:
    """The prepared rows of a table, read in parts by the workers: the file must be theirs too."""
    where = str(Path(path).resolve())
    rows, features = prepared.table.rows, prepared.shape[1]
    step = max(1, min(PART_BYTES // (8 * features), -(-rows // (2 * _threads()))))
    array, parts = _dask("array"), []
    whole = rows == len(prepared)
    for start in range(0, rows, step):
        block = slice(start, min(start + step, rows))
        task = _task("reading", _read, block)(where, obsm, prepared.preparation, block.start, block.stop)
        size = block.stop - block.start if whole else np.nan
        parts.append(array.from_delayed(task, shape=(size, features), dtype=float))
    found = array.concatenate(parts, allow_unknown_chunksizes=True)
    if not whole:  # rows that lack a value are left out
        found.compute_chunk_sizes()
    return Spread(found, list(prepared.preparation.columns) if prepared.preparation.named else None)


def _read(path: str, obsm: str | None, preparation: Preparation, start: int, stop: int) -> Array:
    table = tables.opened(path, obsm=obsm)
    values = table.between(preparation.matched(table), start, stop)
    return preparation.apply(values[complete(values)])


def write(table: Any, path: Path, suffix: str, names: Sequence[str]) -> None:
    """A Dask array into a new Zarr array, or into a folder of Parquet files, one for each part."""
    if suffix == ".zarr":
        table = _even(table)
        sinks.new_zarr(path, table.shape, table.dtype, table.chunksize)
    else:
        path.mkdir()
    work, start = [], 0
    for number, (part, size) in enumerate(zip(table.to_delayed()[:, 0], table.chunks[0])):
        block = slice(start, start := start + (0 if np.isnan(size) else size))
        if suffix == ".zarr":
            task = _task("writing", sinks.into_zarr, block)(str(path), block.start, part)
        else:
            task = _task("writing", sinks.parquet_part, block)(str(path / f"part-{number:06d}.parquet"), names, part)
        work.append((block, task))
    deque(_at_work(work, "writing", max(IN_FLIGHT, 2 * _threads())), maxlen=0)


def _even(table: Any) -> Any:
    """In parts of one size (but the last), so that no two tasks write to one chunk of a Zarr array."""
    if np.isnan(table.shape[0]):
        table = table.persist()
        table.compute_chunk_sizes()
    size = max(max(table.chunks[0]), 1)
    return table if all(part == size for part in table.chunks[0][:-1]) else table.rechunk({0: size})


# -- clusters ------------------------------------------------------------------------------


@contextmanager
def cluster(address: str = "local", *, workers: int | None = None, memory: Any = "auto") -> Iterator[Any]:
    """A client of the scheduler at an address, or of one made for the purpose on this machine's loopback.

    Parameters
    ----------
    address : "local", or that of a scheduler, such as tcp://10.0.0.5:8786 or tls://...
        Whoever reaches a scheduler can run code on its workers: use trusted networks, or TLS as Dask is configured.
    workers : int, optional
        Of a local cluster, processes of one thread. None: one for each core.
    memory : bytes or text, such as "2GB"
        What each of them may take; "auto" shares what there is.

    Examples
    --------
    >>> from outfold import scale
    >>> with scale.cluster("local", workers=1) as client:  # doctest: +SKIP
    ...     Roseland(landmarks=1000).fit(X)
    """
    distributed = extra("distributed", "scale")
    if address != "local":
        try:
            found = distributed.Client(address, timeout=10)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"No scheduler answers at {address} ({error}). Is it running, and reachable?") from error
        with found:
            yield found
        return
    count = available_cores() if workers is None else workers
    with (
        _same_environment(),
        tempfile.TemporaryDirectory(prefix="outfold-cluster-", ignore_cleanup_errors=True) as folder,
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any port that is free
            memory_limit=memory,
            local_directory=folder,
        ) as made,
        distributed.Client(made) as found,
    ):
        yield found


@contextmanager
def _same_environment() -> Iterator[None]:
    """What Dask sets for its workers (one thread, little memory kept) it sets here too; it is not to stay."""
    names = (*_dask("config").get("distributed.nanny.pre-spawn-environ"), "__DASK_PARENT_PID", "PYTHONHASHSEED")
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- at work -------------------------------------------------------------------------------


def client() -> Any:
    """The client of a cluster that Dask would use, or None: its own threads."""
    found = getattr(_dask("base").get_scheduler(), "__self__", None)
    return found if hasattr(found, "scheduler_info") else None


def _threads() -> int:
    found = client()
    return available_cores() if found is None else max(1, sum(found.nthreads().values()))


def _task(title: str, function: Callable[..., Any], rows: slice | None = None) -> Callable[..., Any]:
    """The function as a task, named after what it does and which rows it is about."""
    about = "" if rows is None else f"-rows-{rows.start}-{rows.stop - 1}"
    name = f"outfold-{title.replace(' ', '-')}{about}-{uuid.uuid4().hex}"
    return partial(_dask("delayed").delayed(function, pure=False), dask_key_name=name)


def travelling(value: Any) -> Any:
    """A value for the tasks of several graphs: sent to a cluster once, which makes it anew if its holder is lost."""
    node = _task("value", _same)(_dask("delayed").delayed(value, name=f"outfold-given-{uuid.uuid4().hex}"))
    found = client()
    if found is None:
        return node
    with _large_graph():
        return found.persist(node)


def _same(value: Any) -> Any:
    return value


@contextmanager
def _large_graph() -> Iterator[None]:
    """Landmarks travel in the graph, and may well be large."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _at_work(
    work: list[tuple[slice, Any]], title: str, most: int = IN_FLIGHT, known: dict[Any, slice] | None = None
) -> Iterator[Any]:
    """The results of tasks, each about some rows, in order and so many at a time; ``known`` tasks give these rows."""
    found = client()
    if found is None:
        yield from (task.compute() for _, task in work)
        return
    left, waiting = deque(work), deque[tuple[slice, Any]]()
    try:
        while left or waiting:
            while left and len(waiting) < most:
                rows, task = left.popleft()
                with _large_graph(), _telling(rows, title, known or {}):
                    waiting.append((rows, found.compute(task)))
            rows, future = waiting.popleft()
            with _telling(rows, title, known or {}):
                result = future.result()
            del future  # the cluster may forget it
            yield result
    finally:
        with suppress(Exception):  # the scheduler may be gone
            found.cancel([future for _, future in waiting])


@contextmanager
def _telling(rows: slice, title: str, known: dict[Any, slice]) -> Iterator[None]:
    """What was lost, and how to go on; errors about the rows themselves stay as they are."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind == "KilledWorker":
            key, _, failures = error.args
            first, last = _rows_of(key, rows, known)
            raise ClusterError(
                f"{failures + 1} workers, one after another, died in the {title} over rows {first} to {last} (task "
                f"{key!r}). Most likely that needs more memory than a worker has: make the chunks of X smaller or the "
                "workers larger. Their logs say more."
            ) from error
        if kind in LOST:
            raise ClusterError(
                f"The scheduler was lost in the {title} over rows {rows.start} to {rows.stop - 1} ({error}). A fit "
                "with checkpoint=FOLDER that is begun again on a new cluster goes on from what had come back."
            ) from error
        raise


def _rows_of(key: Any, rows: slice, known: dict[Any, slice]) -> tuple[Any, Any]:
    """The rows a task is about: by its name, if it is ours, or as the part it brings, whose task may be fused."""
    if found := re.search(r"-rows-(\d+)-(\d+)-", str(key)):
        return found[1], found[2]
    for (name, *at), part in known.items():
        if isinstance(key, tuple) and list(key[1:]) == at and name.rpartition("-")[0] in key[0]:
            return part.start, part.stop - 1
    return rows.start, rows.stop - 1


LOST = {"CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError", "TimeoutError"}
