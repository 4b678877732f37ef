"""Where rows come from: an array, a memmap, files, or anything that yields blocks of rows.

A source has a shape and gives its rows in blocks of any size, in order, as checked float64 arrays; what does not fit in
memory is read again for every walk.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .runners import check_fits

Array = NDArray[Any]

PIECE_BYTES = 1 << 23  # of a file read at a time
LISTED = 10_000_000  # rows up to which a draw lists them all
SAMPLE = 256  # rows that tell two data sets apart


class Source:
    """Rows and features; a kind of source defines ``shape`` and ``pieces``."""

    names: list[str] | None = None  # of the features

    @property
    def shape(self) -> tuple[int, int]:
        raise AssertionError("a source has a shape")

    def pieces(self) -> Iterator[Array]:
        """Consecutive rows, any number at a time."""
        raise AssertionError("a source gives its rows")

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        """Blocks of so many rows (the last has what is left), from the block that begins at ``start`` on."""
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
                    yield self._checked(slice(at, at + filled), block)
                    at, filled = at + filled, 0
                    block = np.empty((min(rows, len(self) - at), self.shape[1]))
        if seen != len(self):
            raise ValueError(f"{self} gave {seen} rows, after {len(self)} the time before. Did it change on the way?")

    def take(self, index: Array) -> Array:
        """Some rows, by increasing index."""
        out = np.empty((len(index), self.shape[1]))
        for block, rows in self.blocks(1 << 16):
            a, b = np.searchsorted(index, [block.start, block.stop])
            out[a:b] = rows[index[a:b] - block.start]
        return out

    def array(self) -> Array:
        """All rows, if they fit in memory."""
        instead = "Roseland, or landmarks=5000 with another method, goes through it block by block."
        check_fits(8.0 * self.shape[0] * self.shape[1], f"{self} needs", instead)
        out = np.empty(self.shape)
        for block, rows in self.blocks(1 << 16):
            out[block] = rows
        return out

    def fingerprint(self) -> str:
        """What tells this data from other data: shape and a sample of the rows."""
        index = np.unique(np.linspace(0, len(self) - 1, SAMPLE).astype(int))
        return hashlib.sha256(repr(self.shape).encode() + self.take(index).tobytes()).hexdigest()

    def _checked(self, block: slice, rows: Array) -> tuple[slice, Array]:
        return block, checked(rows, block.start, str(self))

    def __str__(self) -> str:
        return f"the data ({self.shape[0]} x {self.shape[1]})"


class Elsewhere(Source):
    """Rows that lie in parts, perhaps on other machines: functions go to the rows, and small answers come back."""

    def joined(
        self,
        look: Callable[..., Any],
        join: Callable[[Any, Any], Any],
        measure: Any,
        runner: Any,
        *,
        title: str,
        start: int = 0,
        pieces: int = 1,
        apart: bool = False,
    ) -> Iterator[tuple[slice, list[Any]]]:
        """What ``look`` finds of all rows from ``start`` on, joined over more and more of them.

        Parameters
        ----------
        look : ``look(rows, measure, start)``, told which row of the data is the first of these
            With several ``pieces`` it returns a tuple of so many, joined each on its own; ``apart`` asks for them one
            by one, ``look(rows, measure, start, piece)``.
        join : ``join(earlier, later)``, associative
        measure : the weight of each row of the data
        """
        raise AssertionError("rows elsewhere take functions")

    def array(self) -> Array:
        raise ValueError(
            f"This fit needs all rows in memory, and {self} lies in parts, {8e-9 * self.shape[0] * self.shape[1]:.3g} "
            "GB in all. Roseland, or landmarks=5000 with diffusion maps, goes through them where they are; "
            "X.compute() brings them here if they fit."
        )


@dataclass(frozen=True)
class InMemory(Source):
    """An array that is here already, checked by whoever brought it."""

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
class Sliced(Source):
    """Something on disk that gives rows by slices: a memmap, an HDF5 data set, a Zarr array."""

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
            yield self._checked(block, self._read(block))

    def take(self, index: Array) -> Array:
        if not isinstance(self.values, np.memmap):
            return super().take(index)
        rows = np.array(self.values[index], dtype=float)
        self._forget()
        self._checked(slice(0, len(self)), rows)
        return rows

    def _read(self, block: slice) -> Array:
        rows = np.array(self.values[block], dtype=float, order="C")
        self._forget()
        return rows

    def _forget(self) -> None:
        """Give pages of a mapped file back: they count as ours, and the system keeps them if it can."""
        mapped = getattr(self.values, "_mmap", None)
        if mapped is not None and self.values.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def __str__(self) -> str:
        return f"{self.told} ({self.shape[0]} x {self.shape[1]})"


@dataclass(frozen=True)
class Joined(Source):
    """Sources one after another."""

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
class Parquet(Source):
    """A Parquet file, group by group; every column must be numeric."""

    path: Path

    @cached_property
    def _file(self) -> Any:
        return _pyarrow("parquet").ParquetFile(self.path)

    @property
    def names(self) -> list[str]:  # type: ignore[override]
        return list(self._file.schema_arrow.names)

    @cached_property
    def shape(self) -> tuple[int, int]:
        types = _pyarrow("types")
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
class Blocks(Source):
    """A function that gives an iterable of row blocks, the same ones every time it is called."""

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


def shuffled(count: int, first: int, random: Any) -> Array:
    """The first of a random order of ``count`` rows, in increasing order; all are listed up to ``LISTED``."""
    if count <= LISTED:
        return np.sort(random.permutation(count)[:first])
    seed = random.integers(2**31 - 1) if isinstance(random, np.random.Generator) else random.randint(2**31 - 1)
    return np.sort(np.random.default_rng(seed).choice(count, first, replace=False))


def checked(rows: Any, start: int, told: str) -> Array:
    """Rows as finite float64, of which the first is row ``start`` of the data."""
    rows = np.ascontiguousarray(rows, dtype=float)
    if not np.isfinite(rows.sum()) and not np.isfinite(rows).all():
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        raise ValueError(
            f"Input contains NaN or infinity: {len(bad)} of rows {start} to {start + len(rows) - 1} of {told}, the "
            f"first is row {start + bad[0]}. Drop or fill them first."
        )
    return rows


def weighed(name: str, values: Any, rows: int) -> Array:
    """A weight for each row, checked; 1 where none are given."""
    if values is None:
        return np.broadcast_to(np.ones(1), rows)
    weights = np.asarray(values, dtype=float)
    if weights.shape != (rows,) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"{name} of shape {weights.shape} must be {rows} finite numbers >= 0, one a row, not all 0.")
    return weights


def in_dask(X: Any) -> bool:
    """Whether it is a collection of Dask's; nothing is imported for that."""
    return type(X).__module__.split(".")[0] == "dask"


def here(X: Any) -> Any:
    """X itself; refused if it is Dask's, which conversions would gather without a word."""
    if in_dask(X):
        raise TypeError(
            "This needs rows in memory, and these are Dask's: compute() brings them, or some of them, if they fit. "
            "transform, inverse_transform and trust take Dask's rows as they are, and so do fits with landmarks."
        )
    return X


def opened(X: Any) -> Source | None:
    """A source for what is on disk or comes in blocks; None for what is an array, or can be made one."""
    if isinstance(X, Source):
        return X
    if in_dask(X):
        from . import scale

        return scale.rows_of(X)
    if isinstance(X, str | Path):
        return _file(Path(X))
    if isinstance(X, Sequence) and len(X) and all(isinstance(part, str | Path) for part in X):
        return Joined(tuple(_file(Path(part)) for part in X))
    if isinstance(X, np.memmap) and X.ndim == 2:
        return Sliced(X, "the memmap")
    if type(X).__module__.split(".")[0] in ("h5py", "zarr") and len(getattr(X, "shape", ())) == 2:
        return Sliced(X, f"the {type(X).__module__.split('.')[0]} array")
    return Blocks(X) if callable(X) and not hasattr(X, "__array__") else None


def _file(path: Path) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}, seen from {Path.cwd()}. Check the path, or pass a whole one.")
    if path.suffix == ".npy":
        values = np.load(path, mmap_mode="r")
        if values.ndim != 2:
            raise ValueError(f"{path.name} has shape {values.shape}; rows and columns are needed.")
        return Sliced(values, path.name)
    if path.suffix == ".zarr":
        found = extra("zarr", "io").open(str(path), mode="r")
        if len(getattr(found, "shape", ())) != 2:
            shape = getattr(found, "shape", None)
            told = "a group of arrays" if shape is None else f"an array of shape {shape}"
            raise ValueError(f"{path.name} holds {told}; one of rows and columns is needed: pass its own path.")
        return Sliced(found, path.name)
    if path.is_dir() and sorted(path.glob("*.parquet")):
        return Joined(tuple(Parquet(part) for part in sorted(path.glob("*.parquet"))))
    if path.suffix == ".parquet":
        return Parquet(path)
    raise ValueError(f"{path.name} is none of .npy, .parquet (or a folder of them) and .zarr.")


def extra(module: str, name: str) -> Any:
    """A module of an extra, or how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f'This needs {package}: pip install "outfold[{name}]".') from error


def _pyarrow(module: str) -> Any:
    return extra(f"pyarrow.{module}", "io")


# -- columns of Arrow ----------------------------------------------------------------------


@dataclass(frozen=True)
class ArrowFile:
    """Columns of a Parquet or Feather file, as batches of Arrow."""

    path: Path

    @cached_property
    def _file(self) -> Any:
        if self.path.suffix == ".parquet":
            return _pyarrow("parquet").ParquetFile(self.path)
        return _pyarrow("ipc").open_file(extra("pyarrow", "io").memory_map(str(self.path)))

    @cached_property
    def schema(self) -> Any:
        return self._file.schema_arrow if self.path.suffix == ".parquet" else self._file.schema

    @cached_property
    def rows(self) -> int:
        if self.path.suffix == ".parquet":
            return self._file.metadata.num_rows
        return sum(self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches))

    def between(self, names: list[str], start: int, stop: int) -> list[Any]:
        """The columns of some rows; of a Parquet file the row groups they lie in are read."""
        parquet = self.path.suffix == ".parquet"
        count = self._file.num_row_groups if parquet else self._file.num_record_batches
        wanted: list[int] = []
        at, before = 0, 0
        for number in range(count):
            size = self._file.metadata.row_group(number).num_rows if parquet else self._file.get_batch(number).num_rows
            if at < stop and at + size > start:
                before = before if wanted else at
                wanted.append(number)
            at += size
        if parquet:
            found = self._file.read_row_groups(wanted, columns=names)
        else:
            arrow = extra("pyarrow", "io")
            found = arrow.Table.from_batches([self._file.get_batch(number) for number in wanted], schema=self.schema)
        found = found.slice(start - before, stop - start)
        return [found.column(name).combine_chunks() for name in names]

    def batches(self, names: list[str], rows: int) -> Iterator[Any]:
        """At most so many rows at a time, of the columns named."""
        if self.path.suffix == ".parquet":
            for batch in self._file.iter_batches(batch_size=rows, columns=names):
                yield batch.select(names)
            return
        for number in range(self._file.num_record_batches):
            whole = self._file.get_batch(number).select(names)
            for at in range(0, whole.num_rows, rows):
                yield whole.slice(at, rows)


def arrow_is_number(kind: Any) -> bool:
    types = _pyarrow("types")
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def arrow_numbers(column: Any) -> Array:
    """As float64, NaN where there is none."""
    arrow = extra("pyarrow", "io")
    if arrow.types.is_floating(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
