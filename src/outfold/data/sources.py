"""Sources of rows: an array, a memmap, files, or anything that yields blocks of rows.

A source has a shape and yields its rows in order, in blocks of any size, as checked float64 arrays. Rows that do not
fit in memory are read again for every pass. :meth:`Source.walk` is the one way to compute something from all rows: it
applies a function to blocks of rows where they are stored, and yields the small results in the order of the rows.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._runtime.collections import load_collection
from .._runtime.extras import extra
from .._runtime.memory import check_fits
from .._runtime.threads import Threads, block_rows
from .._runtime.typing import Array
from .arrow import pyarrow_module

PIECE_BYTES = 1 << 23  # bytes of a file that are read at a time
PERMUTED_UP_TO = 10_000_000  # up to this many rows, a draw permutes all row numbers
FINGERPRINT_ROWS = 256  # rows in the sample that identifies a data set
DRAWN_UP_TO = 1 << 15  # most rows that are copied into memory from data in partitions

Look = Callable[[Array, Array, int], Any]
Join = Callable[[Any, Any], Any]


class Source:
    """A table of rows and features; a subclass defines ``shape`` and ``pieces``."""

    names: list[str] | None = None  # names of the features
    in_parts = False  # whether the rows are in partitions, perhaps on other machines

    @property
    def shape(self) -> tuple[int, int]:
        raise AssertionError("a source has a shape")

    def pieces(self) -> Iterator[Array]:
        """Yield arrays of consecutive rows, any number at a time."""
        raise AssertionError("a source gives its rows")

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        """Yield (slice, array) for blocks of ``rows`` rows from row ``start`` on; the last block may be shorter."""
        at, seen, filled = start, 0, 0
        block = np.empty((max(0, min(rows, len(self) - at)), self.shape[1]))
        for piece in self.pieces():
            part = np.asarray(piece, dtype=float)[max(0, start - seen) :]
            seen += len(piece)
            while len(part) and len(block):
                more = part[: len(block) - filled]
                block[filled : filled + len(more)] = more
                filled, part = filled + len(more), part[len(more) :]
                if filled == len(block):
                    yield self._check(slice(at, at + filled), block)
                    at, filled = at + filled, 0
                    block = np.empty((min(rows, len(self) - at), self.shape[1]))
        if seen != len(self):
            raise ValueError(f"{self} gave {seen} rows, after {len(self)} the time before. Did it change on the way?")

    def walk(
        self,
        look: Look,
        join: Join,
        *,
        measure: Any,
        runner: Threads,
        title: str,
        start: int = 0,
        block: int | None = None,
    ) -> Iterator[tuple[slice, Any]]:
        """Yield (rows, answer) for consecutive blocks of rows from row ``start`` on; the blocks depend on the shape.

        Parameters
        ----------
        look : ``look(points, weights, first)``, which can be pickled
            Returns the answer for a block of rows, whose first is row ``first`` of the data.
        join : ``join(earlier, later)``, associative
            Returns the answer for two adjacent blocks from their answers. Partitions are joined on the workers.
        measure : the weight of each row; None: 1
        block : how many rows ``look`` gets at a time, for rows in memory or in files
        """
        weights = unit_measure(len(self)) if measure is None else measure

        def ask(rows: slice, points: Array) -> tuple[slice, Any]:
            return rows, look(points, weights[rows], rows.start)

        blocks = self.blocks(block or block_rows(self.shape[1]), start)
        yield from runner.over(ask, ((rows, (rows, points)) for rows, points in blocks), title, len(self))

    def reduce(self, look: Look, join: Join, **options: Any) -> Any:
        """Return the answer for all rows: the answers of :meth:`walk` (same arguments), joined in order."""
        return reduce(join, (answer for _, answer in self.walk(look, join, **options)))

    def check_draw(self, count: int) -> None:
        """Raise ValueError if ``count`` rows are too many to copy into memory from partitions."""

    def draw(self, index: Array) -> Array:
        """Return the rows ``index`` (increasing), after :meth:`check_draw`."""
        self.check_draw(len(index))
        return self.take(index)

    def take(self, index: Array) -> Array:
        """Return the rows ``index`` (increasing) as an array."""
        out = np.empty((len(index), self.shape[1]))
        for block, rows in self.blocks(1 << 16):
            a, b = np.searchsorted(index, [block.start, block.stop])
            out[a:b] = rows[index[a:b] - block.start]
        return out

    def array(self) -> Array:
        """Return all rows as an array. Raise MemoryError if they do not fit in memory."""
        instead = "Roseland, or landmarks=5000 with another method, goes through it block by block."
        check_fits(8.0 * self.shape[0] * self.shape[1], f"{self} needs", instead)
        out = np.empty(self.shape)
        for block, rows in self.blocks(1 << 16):
            out[block] = rows
        return out

    def fingerprint(self) -> str:
        """Return a hash that identifies the data: of its shape and a sample of its rows."""
        index = np.unique(np.linspace(0, len(self) - 1, FINGERPRINT_ROWS).astype(int))
        return hashlib.sha256(repr(self.shape).encode() + self.take(index).tobytes()).hexdigest()

    def _check(self, block: slice, rows: Array) -> tuple[slice, Array]:
        return block, check_rows(rows, block.start, str(self))

    def __str__(self) -> str:
        return f"the data ({self.shape[0]} x {self.shape[1]})"


class PartitionedRows(Source):
    """Rows in partitions, perhaps on other machines."""

    in_parts = True

    def walk(self, look: Look, join: Join, *, block: int | None = None, **options: Any) -> Iterator[tuple[slice, Any]]:
        """Yield (rows, answer) for consecutive groups of partitions; ``look`` gets a partition at a time.

        The answers of a group are joined on the workers.
        """
        for rows, (answer,) in self.walk_pieces(look, join, 1, **options):
            yield rows, answer

    def walk_pieces(
        self,
        look: Callable[..., Any],
        join: Join,
        pieces: int,
        *,
        measure: Any,
        runner: Threads,
        title: str,
        start: int = 0,
        apart: bool = False,
    ) -> Iterator[tuple[slice, list[Any]]]:
        """Yield (rows, list of pieces of the answer), for an answer that is too large to move in one piece.

        ``look`` returns a tuple of ``pieces`` arrays, each joined on its own. With ``apart`` it is called once for each
        piece, as ``look(points, weights, first, piece)``.
        """
        raise AssertionError("rows in parts take functions")

    def beside(self, tables: Sequence[Source]) -> Source:
        """Return one table in partitions with the columns of ``tables``: this one and others with the same rows."""
        raise AssertionError("rows in parts stand beside others")

    def check_draw(self, count: int) -> None:
        if count > DRAWN_UP_TO:
            raise ValueError(
                f"{count} rows of {self} would be brought here, more than {DRAWN_UP_TO}. Pass rows={DRAWN_UP_TO} or "
                "fewer; X.compute() brings all of them, if they fit."
            )

    def array(self) -> Array:
        raise ValueError(
            f"This fit needs all rows in memory, and {self} lies in parts, {8e-9 * self.shape[0] * self.shape[1]:.3g} "
            "GB in all. Roseland, or landmarks=5000 with diffusion maps, goes through them where they are; "
            "X.compute() brings them here if they fit."
        )


@dataclass(frozen=True)
class InMemory(Source):
    """An array in memory that the caller has checked already."""

    values: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        for at in range(start, len(self.values), rows):
            block = slice(at, min(at + rows, len(self.values)))
            yield block, self.values[block]

    def take(self, index: Array) -> Array:
        return self.values[index]

    def array(self) -> Array:
        return self.values


@dataclass(frozen=True)
class SideBySide(Source):
    """The columns of several sources of the same rows, stacked side by side block by block."""

    tables: tuple[Source, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.tables[0]), sum(table.shape[1] for table in self.tables)

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        for parts in zip(*(table.blocks(rows, start) for table in self.tables)):
            yield parts[0][0], np.hstack([part for _, part in parts])

    def take(self, index: Array) -> Array:
        return np.hstack([table.take(index) for table in self.tables])


@dataclass(frozen=True)
class SlicedSource(Source):
    """An array on disk that is read by slices of rows: a memmap, an HDF5 data set, a Zarr array."""

    values: Any
    told: str

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def pieces(self) -> Iterator[Array]:
        step = max(1, PIECE_BYTES // (8 * max(1, self.shape[1])))
        for at in range(0, len(self), step):
            yield self._read(slice(at, at + step))

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        for at in range(start, len(self), rows):
            block = slice(at, min(at + rows, len(self)))
            yield self._check(block, self._read(block))

    def take(self, index: Array) -> Array:
        if not isinstance(self.values, np.memmap):
            return super().take(index)
        rows = np.array(self.values[index], dtype=float)
        self._forget()
        self._check(slice(0, len(self)), rows)
        return rows

    def _read(self, block: slice) -> Array:
        rows = np.array(self.values[block], dtype=float, order="C")
        self._forget()
        return rows

    def _forget(self) -> None:
        """Release the pages of a mapped file: they count as memory of this process. The system may still cache them."""
        mapped = getattr(self.values, "_mmap", None)
        if mapped is not None and self.values.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def __str__(self) -> str:
        return f"{self.told} ({self.shape[0]} x {self.shape[1]})"


@dataclass(frozen=True)
class JoinedSources(Source):
    """Several sources stacked, one after another."""

    parts: tuple[Source, ...]

    def __post_init__(self) -> None:
        widths = sorted({part.shape[1] for part in self.parts})
        if len(widths) != 1:
            raise ValueError(f"The {len(self.parts)} files have {widths[0]} to {widths[-1]} columns; they must agree.")

    @property
    def names(self) -> list[str] | None:  # type: ignore[override]
        return self.parts[0].names

    @property
    def shape(self) -> tuple[int, int]:
        return sum(len(part) for part in self.parts), self.parts[0].shape[1]

    def pieces(self) -> Iterator[Array]:
        for part in self.parts:
            yield from part.pieces()

    def __str__(self) -> str:
        return f"{len(self.parts)} files ({self.shape[0]} x {self.shape[1]})"


@dataclass(frozen=True)
class ParquetSource(Source):
    """A Parquet file, group by group; every column must be numeric."""

    path: Path

    @cached_property
    def _file(self) -> Any:
        return pyarrow_module("parquet").ParquetFile(self.path)

    @property
    def names(self) -> list[str]:  # type: ignore[override]
        return list(self._file.schema_arrow.names)

    @cached_property
    def shape(self) -> tuple[int, int]:
        types = pyarrow_module("types")
        schema = self._file.schema_arrow
        other = [f.name for f in schema if not (types.is_integer(f.type) or types.is_floating(f.type))]
        if other:
            raise ValueError(
                f"{self.path.name} has {len(other)} columns that are not numbers (the first is {other[0]!r}). Write it "
                "without them, or pass the rest as an array."
            )
        return self._file.metadata.num_rows, len(schema.names)

    def pieces(self) -> Iterator[Array]:
        step = max(1, PIECE_BYTES // (8 * max(1, self.shape[1])))
        for batch in self._file.iter_batches(batch_size=step):
            yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns]).astype(float)

    def __str__(self) -> str:
        return f"{self.path.name} ({self.shape[0]} x {self.shape[1]})"


@dataclass(frozen=True)
class BlockSource(Source):
    """A function that returns an iterable of row blocks, the same blocks at every call."""

    factory: Callable[[], Iterable[Any]]

    @cached_property
    def shape(self) -> tuple[int, int]:
        rows, features = 0, 0
        for piece in self.pieces():
            if rows and piece.shape[1] != features:
                raise ValueError(f"The blocks have {features} columns first and {piece.shape[1]} after {rows} rows.")
            rows, features = rows + piece.shape[0], piece.shape[1]
        return rows, features

    def pieces(self) -> Iterator[Array]:
        for piece in self.factory():
            block = np.asarray(piece)
            if block.ndim != 2:
                raise ValueError(f"A block of rows must be two-dimensional, got shape {block.shape}.")
            yield block


def draw_numbers(count: int, first: int, random: Any) -> Array:
    """Return ``first`` random row numbers below ``count``, increasing.

    Up to ``PERMUTED_UP_TO`` rows they are the first entries of a random permutation of all rows.
    """
    if count <= PERMUTED_UP_TO:
        return np.sort(random.permutation(count)[:first])
    seed = random.integers(2**31 - 1) if isinstance(random, np.random.Generator) else random.randint(2**31 - 1)
    return np.sort(np.random.default_rng(seed).choice(count, first, replace=False))


def check_rows(rows: Any, start: int, told: str) -> Array:
    """Return rows as float64. Raise ValueError if one is not finite. ``rows[0]`` is row ``start`` of ``told``."""
    rows = np.ascontiguousarray(rows, dtype=float)
    if not np.isfinite(rows.sum()) and not np.isfinite(rows).all():
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        raise ValueError(
            f"Input contains NaN or infinity: {len(bad)} of rows {start} to {start + len(rows) - 1} of {told}, the "
            f"first is row {start + bad[0]}. Drop or fill them first."
        )
    return rows


def put_beside(*tables: Source) -> Source:
    """Return one source with the columns of ``tables``, which have the same rows; in partitions if a table is."""
    spread = next((table for table in tables if isinstance(table, PartitionedRows)), None)
    return SideBySide(tables) if spread is None else spread.beside(tables)


def unit_measure(count: int) -> Array:
    """Return the weight 1 for each of ``count`` rows, as a view of a single number."""
    return np.broadcast_to(np.ones(1), count)


# -- collections of other libraries ----------------------------------------------------------


class Collection(Protocol):
    """The functions that a package provides for collections whose rows are in partitions, such as Dask arrays."""

    def rows(self, X: Any, *, column: bool = False) -> PartitionedRows:
        """Return the rows of X; with ``column`` X may be one column."""

    def weights(self, weights: Any, rows: Source, unit: float | None = None) -> Any:
        """Return the measure on rows in partitions: checked weights, divided by ``unit`` (None: by :meth:`unit`)."""

    def unit(self, weights: Any) -> float:
        """Return the divisor of the weights: 1 if all are whole numbers, else the mean of those above 0."""

    def map(self, function: Callable[[Array], Array], X: Any, columns: int) -> Any:
        """Return ``function`` of the rows, a table of ``columns`` columns, as a lazy collection."""

    def transform(self, estimator: Any, X: Any, out: Any = None, **wanted: Any) -> Any:
        """Return the output of a fitted estimator for each row as a lazy collection, or write it to ``out``."""


def collection(X: Any) -> Collection | None:
    """Return the :class:`Collection` that handles X if its rows are in partitions; None for any other X.

    Nothing is imported for arrays.
    """
    found: Collection | None = load_collection(X)
    return found


def require_in_memory(X: Any, refusal: Exception | None = None) -> Any:
    """Return X. Raise ``refusal`` for a collection, which ``np.asarray`` would gather silently."""
    if collection(X) is not None:
        raise refusal or TypeError(
            "This needs rows in memory, and these are Dask's: compute() brings them, or some of them, if they fit. "
            "transform, inverse_transform and trust take Dask's rows as they are, and so do fits with landmarks."
        )
    return X


def map_rows(function: Callable[[Any], Any], X: Any, columns: int) -> Any:
    """Return ``function(X)``, (rows, ``columns``); a lazy collection if X is a collection."""
    found = collection(X)
    return function(X) if found is None else found.map(function, X, columns)


def open_parts(X: Any, *, column: bool = False) -> PartitionedRows | None:
    """Return the rows of a collection (with ``column`` X may be one column); None for any other X."""
    found = collection(X)
    return None if found is None else found.rows(X, column=column)


def open_rows(X: Any) -> Source | None:
    """Return a source for data on disk, in partitions or in blocks; None if X is an array or can be made one."""
    if isinstance(X, Source):
        return X
    if (parts := open_parts(X)) is not None:
        return parts
    if isinstance(X, str | Path):
        return _file(Path(X))
    if isinstance(X, Sequence) and len(X) and all(isinstance(part, str | Path) for part in X):
        return JoinedSources(tuple(_file(Path(part)) for part in X))
    if isinstance(X, np.memmap) and X.ndim == 2:
        return SlicedSource(X, "the memmap")
    if type(X).__module__.split(".")[0] in ("h5py", "zarr") and len(getattr(X, "shape", ())) == 2:
        return SlicedSource(X, f"the {type(X).__module__.split('.')[0]} array")
    return BlockSource(X) if callable(X) and not hasattr(X, "__array__") else None


def _file(path: Path) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}, seen from {Path.cwd()}. Check the path, or pass a whole one.")
    if path.suffix == ".npy":
        values = np.load(path, mmap_mode="r")
        if values.ndim != 2:
            raise ValueError(f"{path.name} has shape {values.shape}; rows and columns are needed.")
        return SlicedSource(values, path.name)
    if path.suffix == ".zarr":
        found = extra("zarr", "io").open(str(path), mode="r")
        if len(getattr(found, "shape", ())) != 2:
            shape = getattr(found, "shape", None)
            told = "a group of arrays" if shape is None else f"an array of shape {shape}"
            raise ValueError(f"{path.name} holds {told}; one of rows and columns is needed: pass its own path.")
        return SlicedSource(found, path.name)
    if path.is_dir() and sorted(path.glob("*.parquet")):
        return JoinedSources(tuple(ParquetSource(part) for part in sorted(path.glob("*.parquet"))))
    if path.suffix == ".parquet":
        return ParquetSource(path)
    raise ValueError(f"{path.name} is none of .npy, .parquet (or a folder of them) and .zarr.")
