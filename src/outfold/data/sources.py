"""Sources of rows: an array, a memmap, files, or anything that yields blocks of rows.

A source has a shape and yields its rows in order, in blocks of any size, as checked float64 arrays. Rows that do not
fit in memory are read again for every pass. :meth:`Source.walk` is the one way to compute something from all rows: it
applies a function to blocks of rows where they are stored, and yields the small results in the order of the rows.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict, TypeGuard, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, load_npz

from .._runtime.collections import collection_module
from .._runtime.extras import extra
from .._runtime.memory import check_fits
from .._runtime.threads import Threads, block_rows
from .._runtime.typing import Array, Sliceable
from ..exceptions import TableError
from .arrow import ArrowFile, arrow_is_number, arrow_numbers
from .inputs import read_rows, refuse_missing
from .sparse_rows import SparseRows, as_rows, dense_rows, like_rows, row_keys, stack_rows

PIECE_BYTES = 1 << 23  # bytes of a file that are read at a time
PERMUTED_UP_TO = 10_000_000  # up to this many rows, a draw permutes all row numbers
FINGERPRINT_ROWS = 256  # rows in the sample that identifies a data set
DRAWN_UP_TO = 1 << 15  # most rows that are copied into memory from data in partitions

Answer = TypeVar("Answer")
Look = Callable[[Array, Array, int], Answer]  # look(points, weights, first): the answer for rows from row ``first`` on
Join = Callable[[Answer, Answer], Answer]  # join(earlier, later): the answer for two adjacent blocks; associative


class Measure(Protocol):
    """The weight of each row: an array (n,), or weights in partitions with these methods of an array."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Array | slice, /) -> Array: ...
    def sum(self) -> float: ...
    def min(self) -> float: ...


class WalkOptions(TypedDict):
    """How :meth:`Source.walk` goes through the rows."""

    measure: Measure | None  # the weight of each row; None: 1
    runner: Threads
    title: str  # name of the pass, for progress and errors
    start: NotRequired[int]  # the first row
    block: NotRequired[int]  # how many rows ``look`` gets at a time, for rows in memory or in files


class Source:
    """A table of rows and features; a subclass defines ``shape`` and ``pieces``."""

    names: list[str] | None = None  # names of the features
    told: str = "the data"  # name in messages
    in_parts = False  # whether the rows are in partitions, perhaps on other machines

    @property
    def shape(self) -> tuple[int, int]:
        raise AssertionError("a source has a shape")

    @property
    def sparse(self) -> bool:
        """Whether its blocks are ``SparseRows``."""
        return False

    def pieces(self) -> Iterator[Array]:
        """Yield arrays of consecutive rows, any number at a time."""
        raise AssertionError("a source gives its rows")

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        """Yield (slice, array) for blocks of ``rows`` rows from row ``start`` on; the last block may be shorter."""
        if self.sparse:
            yield from self._sparse_blocks(rows, start)
            return
        at, seen, filled = start, 0, 0
        block = np.empty((max(0, min(rows, len(self) - at)), self.shape[1]))
        for piece in self.pieces():
            self._check_width(piece, seen)
            part = np.asarray(read_rows(piece, f"a block of {self.told}"), dtype=float)[max(0, start - seen) :]
            seen += len(piece)
            while len(part) and len(block):
                more = part[: len(block) - filled]
                block[filled : filled + len(more)] = more
                filled, part = filled + len(more), part[len(more) :]
                if filled == len(block):
                    yield self._check(slice(at, at + filled), block)
                    at, filled = at + filled, 0
                    block = np.empty((min(rows, len(self) - at), self.shape[1]))
        self._check_count(seen)

    def _sparse_blocks(self, rows: int, start: int) -> Iterator[tuple[slice, Array]]:
        at, seen, empty = start, 0, SparseRows((0, self.shape[1]))
        held: list[Array] = [empty]
        for piece in self.pieces():
            self._check_width(piece, seen)
            part = as_rows(piece)[max(0, start - seen) :]
            seen += len(piece)
            while len(part) and at < len(self):
                missing = min(rows, len(self) - at) - sum(map(len, held))
                held, part = [*held, part[:missing]], part[missing:]
                if len(held[-1]) == missing:
                    block = stack_rows(held)
                    yield self._check(slice(at, at + len(block)), block)
                    at, held = at + len(block), [empty]
        self._check_count(seen)

    def _check_width(self, piece: Array, seen: int) -> None:
        if len(piece) and piece.shape[1] != self.shape[1]:
            raise ValueError(
                f"{self} gave {piece.shape[1]} columns at row {seen}, after {self.shape[1]} the time before. Did it "
                "change on the way?"
            )

    def _check_count(self, seen: int) -> None:
        if seen != len(self):
            raise ValueError(f"{self} gave {seen} rows, after {len(self)} the time before. Did it change on the way?")

    def walk(
        self, look: Look[Answer], join: Join[Answer], **options: Unpack[WalkOptions]
    ) -> Iterator[tuple[slice, Answer]]:
        """Yield (rows, answer) for consecutive blocks of rows; the blocks depend on the shape.

        ``look`` can be pickled. Answers of partitions are joined on the workers.
        """
        weights = unit_measure(len(self)) if options["measure"] is None else options["measure"]

        def ask(rows: slice, points: Array) -> tuple[slice, Answer]:
            return rows, look(points, weights[rows], rows.start)

        blocks = self.blocks(options.get("block") or block_rows(self.shape[1]), options.get("start", 0))
        items = ((rows, (rows, points)) for rows, points in blocks)
        yield from options["runner"].over(ask, items, options["title"], len(self))

    def reduce(self, look: Look[Answer], join: Join[Answer], **options: Unpack[WalkOptions]) -> Answer:
        """Return the answer for all rows: the answers of :meth:`walk`, joined in order."""
        return reduce(join, (answer for _, answer in self.walk(look, join, **options)))

    def beside(self, tables: Sequence[Source]) -> Source:
        """Return one source with the columns of ``tables``: this one and others with the same rows."""
        return SideBySide(tuple(tables))

    def check_draw(self, count: int) -> None:
        """Raise ValueError if ``count`` rows are too many to copy into memory from partitions."""

    def draw(self, index: Array) -> Array:
        """Return the rows ``index`` (increasing), after :meth:`check_draw`."""
        self.check_draw(len(index))
        return self.take(index)

    def take(self, index: Array) -> Array:
        """Return the rows ``index`` (increasing) as an array."""
        found = []
        for block, rows in self.blocks(1 << 16):
            a, b = np.searchsorted(index, [block.start, block.stop])
            found.append(rows[index[a:b] - block.start])
        return stack_rows(found)

    def array(self) -> Array:
        """Return all rows as an array. Raise MemoryError if they do not fit in memory."""
        if self.sparse:
            return stack_rows([rows for _, rows in self.blocks(1 << 16)])
        instead = "Roseland, or landmarks=5000 with another method, goes through it block by block."
        check_fits(8.0 * self.shape[0] * self.shape[1], f"{self} needs", instead)
        out = np.empty(self.shape)
        for block, rows in self.blocks(1 << 16):
            out[block] = rows
        return out

    def fingerprint(self) -> str:
        """Return a hash that identifies the data: of its shape and a sample of its rows."""
        index = np.unique(np.linspace(0, len(self) - 1, FINGERPRINT_ROWS).astype(int))
        rows = self.take(index)
        content = b"".join(row_keys(rows)) if isinstance(rows, SparseRows) else rows.tobytes()
        return hashlib.sha256(repr(self.shape).encode() + content).hexdigest()

    def _check(self, block: slice, rows: Array) -> tuple[slice, Array]:
        return block, check_rows(rows, block.start, str(self), self.names)

    def __str__(self) -> str:
        return f"{self.told} ({self.shape[0]} x {self.shape[1]})"


class PartitionedRows(Source):
    """Rows in partitions, perhaps on other machines."""

    in_parts = True

    def walk(
        self, look: Look[Answer], join: Join[Answer], **options: Unpack[WalkOptions]
    ) -> Iterator[tuple[slice, Answer]]:
        """Yield (rows, answer) for consecutive groups of partitions; ``look`` gets a partition at a time."""
        for rows, (answer,) in self.walk_pieces(look, join, 1, **options):
            yield rows, answer

    def walk_pieces(
        self,
        look: Callable[..., Any],
        join: Join[Answer],
        pieces: int,
        apart: bool = False,
        **options: Unpack[WalkOptions],
    ) -> Iterator[tuple[slice, list[Answer]]]:
        """Yield (rows, list of pieces of the answer), for an answer that is too large to move in one piece.

        ``look`` returns a tuple of ``pieces`` arrays, each joined on its own. With ``apart`` it is called once for each
        piece, as ``look(points, weights, first, piece)``.
        """
        raise AssertionError("rows in parts take functions")

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
    names: list[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def sparse(self) -> bool:
        return isinstance(self.values, SparseRows)

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

    values: Sliceable
    told: str

    def __post_init__(self) -> None:
        if np.dtype(self.values.dtype).kind not in "iufb":
            raise ValueError(f"{self.told} holds {self.values.dtype}; numbers are needed.")

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
        rows = np.array(read_rows(self.values[index], str(self)), dtype=float)
        self._forget()
        self._check(slice(0, len(self)), rows)
        return rows

    def _read(self, block: slice) -> Array:
        with readable(self.told, "an array that can be read"):
            values = self.values[block]
        rows = np.array(read_rows(values, str(self)), dtype=float, order="C")
        self._forget()
        return rows

    def _forget(self) -> None:
        """Release the pages of a mapped file: they count as memory of this process. The system may still cache them."""
        mapped = getattr(self.values, "_mmap", None)
        if mapped is not None and getattr(self.values, "mode", "") in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class JoinedSources(Source):
    """Several sources stacked, one after another."""

    parts: tuple[Source, ...]

    def __post_init__(self) -> None:
        widths = sorted({part.shape[1] for part in self.parts})
        if len(widths) != 1:
            raise ValueError(f"The {len(self.parts)} files have {widths[0]} to {widths[-1]} columns; they must agree.")
        object.__setattr__(self, "names", self.parts[0].names)
        object.__setattr__(self, "told", f"{len(self.parts)} files")

    @property
    def shape(self) -> tuple[int, int]:
        return sum(len(part) for part in self.parts), self.parts[0].shape[1]

    @property
    def sparse(self) -> bool:
        return self.parts[0].sparse

    def pieces(self) -> Iterator[Array]:
        for part in self.parts:
            if part.sparse != self.sparse:
                raise ValueError(f"{part} and {self.parts[0]} are not both sparse.")
            yield from (rows for _, rows in part.blocks(1 << 16)) if part.sparse else part.pieces()


@dataclass(frozen=True)
class ArrowRows(Source):
    """The columns of a Parquet file, batch by batch; all of them are numeric."""

    file: ArrowFile
    told: str
    names: list[str]

    @classmethod
    def of(cls, path: Path) -> ArrowRows:
        file = ArrowFile(path)
        with readable(path.name, "a Parquet file"):
            other = [column.name for column in file.schema if not arrow_is_number(column.type)]
        if other:
            raise ValueError(
                f"{path.name} has {len(other)} columns that are not numbers (the first is {other[0]!r}). Write it "
                "without them, or pass the rest as an array."
            )
        return cls(file, path.name, list(file.schema.names))

    @property
    def shape(self) -> tuple[int, int]:
        return self.file.rows, len(self.names)

    def pieces(self) -> Iterator[Array]:
        with readable(self.told, "a Parquet file"):
            for batch in self.file.batches(None, max(1, PIECE_BYTES // (8 * max(1, len(self.names))))):
                yield arrow_numbers(batch.columns, batch.num_rows)


@dataclass(frozen=True)
class SparseFile(Source):
    """The rows of a sparse matrix that ``scipy.sparse.save_npz`` wrote; they are held in memory, as they are stored."""

    values: SparseRows
    told: str

    @classmethod
    def of(cls, path: Path) -> SparseFile:
        with readable(path.name, "a sparse matrix as scipy.sparse.save_npz writes it"), open(path, "rb") as file:
            rows = load_npz(file)
            if hasattr(rows, "check_format"):  # compiled loops trust the indices
                rows.check_format(full_check=True)
        return cls(SparseRows.of(read_rows(rows, path.name)), path.name)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def sparse(self) -> bool:
        return True

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[slice, Array]]:
        for at in range(start, len(self), rows):
            block = slice(at, min(at + rows, len(self)))
            yield self._check(block, self.values[block])

    def take(self, index: Array) -> Array:
        return self._check(slice(0, len(self)), self.values[index])[1]


@dataclass(frozen=True)
class BlockSource(Source):
    """A function that returns an iterable of row blocks, the same blocks at every call."""

    factory: Callable[[], Iterable[Any]]

    @cached_property
    def shape(self) -> tuple[int, int]:
        rows, features = 0, 0
        for piece in self.pieces():
            if rows and len(piece) and piece.shape[1] != features:
                raise ValueError(f"The blocks have {features} columns first and {piece.shape[1]} after {rows} rows.")
            features = piece.shape[1] if len(piece) or not rows else features
            rows += len(piece)
        return rows, features

    @cached_property
    def sparse(self) -> bool:
        return bool(issparse(next(self._iterate(), None)))

    def pieces(self) -> Iterator[Array]:
        seen = 0
        for piece in self._iterate():
            block = block_numbers(piece, seen)
            yield as_rows(like_rows(block, SparseRows((0, block.shape[1])))) if self.sparse else dense_rows(block)
            seen += len(block)

    def _iterate(self) -> Iterator[Any]:
        try:
            blocks = self.factory()
        except TypeError as error:
            raise TypeError(
                f"X is {self.factory!r}, and should be a function without arguments that returns an iterable of row "
                f"blocks, a new one at each call ({error})."
            ) from error
        if isinstance(blocks, Iterator) and blocks is self.__dict__.get("_last"):
            raise ValueError(
                "The function of row blocks returned the same iterator twice, whose first rows are gone: rows are read "
                "more than once. Let it make a new one at every call."
            )
        self.__dict__["_last"] = blocks
        try:
            return iter(blocks)
        except TypeError:
            raise TypeError(
                f"The function of row blocks returned {type(blocks).__name__}; it must return an iterable of arrays, "
                "the same at every call."
            ) from None


def block_numbers(block: object, start: int) -> Array:
    """Return a block of rows as an array of numbers, or as ``SparseRows``; ``start`` is its first row, for messages."""
    rows: Array = read_rows(block, f"the block of rows from row {start} on")
    return as_rows(rows) if issparse(rows) else rows


@contextmanager
def readable(told: str, kind: str) -> Iterator[None]:
    """Turn whatever a library raises at a damaged file into a TableError; ``kind`` is what it should be."""
    try:
        yield
    except (TableError, ImportError, MemoryError):
        raise
    except Exception as error:  # decoders raise errors of every kind
        why = (str(error).splitlines() or [type(error).__name__])[0][:200]
        if "objects" in why or "pickle" in why:
            raise TableError(f"{told} is not {kind}: it is no array, or holds Python objects") from error
        raise TableError(f"{told} is not {kind}, or is damaged: {why}") from error


def draw_numbers(count: int, first: int, random: np.random.RandomState | np.random.Generator) -> Array:
    """Return ``first`` random row numbers below ``count``, increasing.

    Up to ``PERMUTED_UP_TO`` rows they are the first entries of a random permutation of all rows.
    """
    if count <= PERMUTED_UP_TO:
        return np.sort(random.permutation(count)[:first])
    seed = random.integers(2**31 - 1) if isinstance(random, np.random.Generator) else random.randint(2**31 - 1)
    return np.sort(np.random.default_rng(seed).choice(count, first, replace=False))


def check_rows(values: ArrayLike, start: int, told: str, names: Sequence[object] | None = None) -> Array:
    """Return rows as float64. Raise ValueError if one is not finite. ``rows[0]`` is row ``start`` of ``told``."""
    given: Array = values if issparse(values) else np.asarray(values)  # type: ignore[assignment]
    rows = as_rows(given)
    refuse_missing(rows, told, names=names, start=start)
    return rows


def put_beside(*tables: Source) -> Source:
    """Return one source with the columns of ``tables``, which have the same rows; in partitions if a table is."""
    return next((table for table in tables if table.in_parts), tables[0]).beside(tables)


def unit_measure(count: int) -> Array:
    """Return the weight 1 for each of ``count`` rows, as a view of a single number."""
    return np.broadcast_to(np.ones(1), count)


# -- collections of other libraries ----------------------------------------------------------


class Wanted(TypedDict, total=False):
    """What :meth:`Collection.transform` computes for each row."""

    embedding: bool
    trust: bool
    features: bool  # by the inverse transform
    label: bool  # the cluster
    on_far: str
    coverage: float
    level: float


class Collection(Protocol):
    """The functions that a package provides for collections whose rows are in partitions, such as Dask arrays."""

    def rows(self, X: object, *, column: bool = False) -> PartitionedRows:
        """Return the rows of X; with ``column`` X may be one column."""

    def weights(self, weights: object, rows: Source, unit: float = 1.0) -> Measure:
        """Return the measure on rows in partitions: checked weights, divided by ``unit``."""

    def map(self, function: Callable[..., Array], X: object, columns: int) -> Any:
        """Return ``function`` of the rows, (rows, ``columns``), as a lazy collection."""

    def transform(self, estimator: Any, X: object, out: object = None, **wanted: Unpack[Wanted]) -> Any:
        """Return the output of a fitted estimator for each row as a lazy collection, or write it to ``out``."""


def collection(X: object) -> Collection | None:
    """Return the :class:`Collection` that handles X if its rows are in partitions; None for any other X.

    Nothing is imported for arrays.
    """
    module = collection_module(X)
    return None if module is None else module.COLLECTION


def require_in_memory(X: Answer, refusal: Exception | None = None) -> Answer:
    """Return X. Raise ``refusal`` for a collection, which ``np.asarray`` would gather silently."""
    if collection(X) is not None:
        raise refusal or TypeError(
            "This needs rows in memory, and these are Dask's: compute() brings them, or some of them, if they fit. "
            "transform, inverse_transform and trust take Dask's rows as they are, and so do fits with landmarks."
        )
    return X


def map_rows(function: Callable[[Answer], Array], X: Answer, columns: int) -> Array:
    """Return ``function(X)``, (rows, ``columns``); a lazy collection, which computes such an array, if X is one."""
    found = collection(X)
    lazy: Array | None = None if found is None else found.map(function, X, columns)
    return function(X) if lazy is None else lazy


def open_parts(X: object, *, column: bool = False) -> PartitionedRows | None:
    """Return the rows of a collection (with ``column`` X may be one column); None for any other X."""
    found = collection(X)
    return None if found is None else found.rows(X, column=column)


def open_rows(X: object) -> Source | None:
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
    if _is_stored_array(X):
        return SlicedSource(X, f"the {type(X).__module__.split('.')[0]} array")
    return BlockSource(X) if callable(X) and not hasattr(X, "__array__") else None


def _is_stored_array(X: object) -> TypeGuard[Sliceable]:
    return type(X).__module__.split(".")[0] in ("h5py", "zarr") and len(getattr(X, "shape", ())) == 2


def _file(path: Path) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}, seen from {Path.cwd()}. Check the path, or pass a whole one.")
    if path.suffix == ".npy":
        with readable(path.name, "an npy file"):
            values = np.lib.format.open_memmap(path, mode="r")
        if values.ndim != 2:
            raise ValueError(f"{path.name} has shape {values.shape}; rows and columns are needed.")
        return SlicedSource(values, path.name)
    if path.suffix == ".npz":
        return SparseFile.of(path)
    if path.suffix == ".zarr":
        with readable(path.name, "a Zarr array"):
            found = extra("zarr", "io").open(str(path), mode="r")
        if len(getattr(found, "shape", ())) != 2:
            shape = getattr(found, "shape", None)
            told = "a group of arrays" if shape is None else f"an array of shape {shape}"
            raise ValueError(f"{path.name} holds {told}; one of rows and columns is needed: pass its own path.")
        return SlicedSource(found, path.name)
    if path.is_dir() and sorted(path.glob("*.parquet")):
        return JoinedSources(tuple(ArrowRows.of(part) for part in sorted(path.glob("*.parquet"))))
    if path.suffix == ".parquet":
        return ArrowRows.of(path)
    raise ValueError(f"{path.name} is none of .npy, .npz, .parquet (or a folder of them) and .zarr.")
