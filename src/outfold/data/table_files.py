"""Tables in files: named columns that are read a batch of rows at a time.

CSV and TSV (also ``.gz``), Parquet (a file or a folder of them), Feather, npy, npz (of NumPy or a sparse one of SciPy),
Zarr, h5ad, and CSV from standard input. Feature columns become float64, NaN where a value is missing; other columns are
passed on unchanged.
A file that cannot be read raises a :class:`TableError` that names the file and the line.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import numpy as np

from .._runtime.extras import extra
from .._runtime.typing import Array
from ..exceptions import TableError
from . import arrow, text_blocks
from .sources import SparseFile, readable
from .tables import Batch, Matrix, Table, check_unique, join_names
from .text_blocks import is_missing, read_number

TYPE_ROWS = 1000  # the first rows, which decide whether a column of text holds numbers
ARROW_ROWS = 64  # rows that Arrow reads at a time at least: it takes as long for one row of very many columns
QUICK_BYTES_FROM = 1 << 20  # a smaller file is read before pyarrow is imported
_LAYOUT = "A table has a line of column names, then a line for each row."
SUFFIXES_TEXT = ".csv, .tsv, .parquet, .feather, .npy, .npz, .zarr, .h5ad"


def open_table(path: str | Path, *, obsm: str | None = None) -> Table:
    """Return the table in a file; ``-`` is CSV from standard input. ``obsm`` is an entry of an h5ad file (None: X)."""
    if str(path) == "-":
        return _standard_input()
    path = Path(path)
    if not path.exists():
        raise TableError(f"There is no file {path}. {_instead(path)}")
    if not os.access(path, os.R_OK):
        raise TableError(f"{path} cannot be read. Check its permissions.")
    suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if obsm is not None and suffix != ".h5ad":
        raise TableError(f"{path.name} has no obsm; only .h5ad files do.")
    if path.is_dir() and suffix != ".zarr":
        parts = tuple(sorted(path.glob("*.parquet")))
        if not parts:
            raise TableError(f"{path} is a folder without .parquet files in it.")
        return Arrow(parts, path.resolve().name)
    if path.is_file() and not path.stat().st_size:
        raise TableError(f"{path.name} is empty. {_LAYOUT}")
    if suffix in (".csv", ".tsv"):
        return Text(path, path.name, "\t" if suffix == ".tsv" else None)
    if suffix in (".parquet", ".feather", ".arrow"):
        return Arrow((path,), path.name)
    if suffix in (".npy", ".npz", ".zarr"):
        return _array(path, suffix)
    if suffix == ".h5ad":
        from . import h5ad

        return h5ad.table(path, obsm)
    raise TableError(
        f"{path.name} is none of {SUFFIXES_TEXT}, and - (CSV from standard input). Write it as one of these first."
    )


def _instead(path: Path) -> str:
    """Return a hint for a file that does not exist: a similar name, or where to check."""
    folder = path.parent.resolve()
    if not folder.is_dir():
        return f"The folder {folder} is not there either."
    near = difflib.get_close_matches(path.name, [other.name for other in folder.iterdir()], n=1, cutoff=0.7)
    return f"Did you mean {path.with_name(near[0])}?" if near else f"Check its name and its folder, {folder}."


# -- text ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text(Table):
    """A CSV file. The first line is the header unless it holds only numbers; comma, semicolon or tab separate cells."""

    path: Path
    told: str
    separator: str | None = None

    unit = "line"

    @cached_property
    def _first(self) -> list[str]:
        return self._read_first[0]

    @cached_property
    def _read_first(self) -> tuple[list[str], int]:
        """The first record, and the number of lines up to its end."""
        with self._reader() as (reader, records):
            return next(records, []), reader.line_num

    @cached_property
    def named(self) -> bool:  # type: ignore[override]
        return not all(_is_number(cell) for cell in self._first)

    @cached_property
    def names(self) -> tuple[str, ...]:
        if not self._first:
            raise TableError(f"{self.told} is empty. {_LAYOUT}")
        numbered = [f"column_{at}" for at in range(1, len(self._first) + 1)]
        names = [cell.strip() or other for cell, other in zip(self._first, numbered)] if self.named else numbered
        check_unique(names, f"{self.told}, line {self.places([-1])[0]}" if self.named else self.told)
        return tuple(names)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name, (column, words) in self._looked_at.items() if not words)

    def find_spoiled(self) -> list[tuple[str, str, int]]:
        few = {name: found for name, found in self._looked_at.items() if 0 < 2 * len(found[1]) < len(found[0])}
        return [(name, column[words[0]], words[0]) for name, (column, words) in few.items()]

    @cached_property
    def _looked_at(self) -> dict[str, tuple[Sequence[str], list[int]]]:
        """Map each column to its first cells and the indices of those that are neither numbers nor missing."""
        rows = next(self._blocks(TYPE_ROWS), [])
        columns = zip(self.names, zip(*rows) if rows else [()] * len(self.names))
        return {
            name: (column, [at for at, cell in enumerate(column) if not (_is_number(cell) or is_missing(cell))])
            for name, column in columns
        }

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        start = 0
        try:
            for values, cells in self._quick_blocks(features, carried):
                yield Batch(start, values, cells)
                start += len(values)
            return
        except (text_blocks.Unlike, ImportError):
            pass
        at = {name: number for number, name in enumerate(self.names)}
        for rows in self._blocks(self._step, start):
            columns = list(zip(*rows))
            values = np.empty((len(rows), len(features)))
            for number, name in enumerate(features):
                values[:, number] = self._numbers(columns[at[name]], name, start)
            yield Batch(start, values, [columns[at[name]] for name in carried])
            start += len(rows)

    def _quick_blocks(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[text_blocks.Block]:
        """Yield the rows by pyarrow; raise Unlike where the standard library has to go on, which may be at once."""
        small = self.path.stat().st_size < QUICK_BYTES_FROM
        if small or len(self.names) > text_blocks.COLUMNS_UP_TO or not find_spec("pyarrow"):
            raise text_blocks.Unlike
        with self._open_bytes() as file:
            head = b"".join(file.readline() for _ in range(self._read_first[1] if self.named else 0))
            if head.count(b"\r") != head.count(b"\r\n"):
                raise text_blocks.Unlike
            if not head and file.read(len(BOM_UTF8)) != BOM_UTF8:
                file.seek(0)
            blocks = text_blocks.read_blocks(file, self.names, features, carried, self._separator)
            yield from text_blocks.regroup(blocks, self._step)

    def places(self, rows: Sequence[int]) -> list[int]:
        """Return the line of each row, from 1; a quoted cell may span several lines. The header is row -1."""
        wanted, found = set(rows), []
        with self._reader() as (reader, _):
            line, row = 1, -int(self.named)
            for record in reader:
                if record and row in wanted:
                    found.append(line)
                if record and row >= max(rows):
                    break
                line, row = reader.line_num + 1, row + bool(record)
        return found

    def _numbers(self, cells: Sequence[str], name: str, start: int) -> list[float]:
        with suppress(ValueError):
            if "_" not in "".join(cells):
                return list(map(float, cells))
        found = []
        for row, cell in enumerate(cells):
            try:
                found.append(float("nan") if is_missing(cell) else read_number(cell))
            except ValueError:
                line = self.places([start + row])[0]
                raise TableError(
                    f"{self.told}, line {line}: {cell[:40]!r} in column {name!r} is not a number. Correct it, leave it "
                    "empty if the value is missing, or leave the column out."
                ) from None
        return found

    def _blocks(self, step: int, start: int = 0) -> Iterator[list[list[str]]]:
        """Yield lists of at most ``step`` records from row ``start`` on.

        Raises TableError if a record has another width than the first.
        """
        width = len(self.names)
        with self._reader() as (_, records):
            deque(islice(records, start + self.named), maxlen=0)
            while rows := list(islice(records, step)):
                wrong = next((row for row, cells in enumerate(rows) if len(cells) != width), None)
                if wrong is not None:
                    line, count = self.places([start + wrong])[0], len(rows[wrong])
                    raise TableError(
                        f"{self.told}, line {line}: {count} cell{'s' * (count != 1)} where "
                        f"{'the header' if self.named else 'the first line'} has {width}. Correct the line (is a cell "
                        "with a separator in it not quoted?)."
                    )
                yield rows
                start += len(rows)

    @contextmanager
    def _reader(self) -> Iterator[tuple[Any, Iterator[list[str]]]]:
        """Yield a CSV reader, which counts lines, and an iterator of its records without blank lines."""
        try:
            with self._open() as file:
                reader = csv.reader(file, delimiter=self._separator, strict=True)
                yield reader, filter(None, reader)
        except UnicodeDecodeError:
            raise TableError(
                f"{self.told}, line {self._undecodable()}: not UTF-8 text. Save it as UTF-8 first."
            ) from None
        except csv.Error as error:
            raise TableError(
                f"{self.told}, line {self._broken()}: {error}. Is a quote not closed, or not doubled?"
            ) from None

    @contextmanager
    def _open(self, errors: str = "strict") -> Iterator[TextIO]:
        """Yield the file as text with its own ends of lines; ``errors`` is the fate of bytes that are not UTF-8."""
        with self._open_bytes() as file:
            yield io.TextIOWrapper(file, encoding="utf-8-sig", errors=errors, newline="")

    @contextmanager
    def _open_bytes(self) -> Iterator[BinaryIO]:
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else open(self.path, "rb") as file:
                yield cast(BinaryIO, file)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TableError(f"{self.told} is not a whole gzip file: {error}.") from None

    @cached_property
    def _separator(self) -> str:
        if self.separator is not None:
            return self.separator
        with self._open("replace") as file:
            lines = iter(lambda: file.readline(1 << 22), "")
            first = next((line for line in lines if line.strip("\r\n")), "")
        bare = "".join(first.split('"')[::2])  # the text outside quotes
        return next((mark for mark in (",", ";", "\t") if mark in bare), ",")

    def _undecodable(self) -> int:
        with self._open("surrogateescape") as file:  # a byte that is not UTF-8 becomes a surrogate
            lines = enumerate(file, 1)
            return next(number for number, line in lines if any("\udc80" <= letter <= "\udcff" for letter in line))

    def _broken(self) -> int:
        """Return the line on which the first unreadable record begins."""
        line = 1
        with self._open() as file, suppress(csv.Error):
            reader = csv.reader(file, delimiter=self._separator, strict=True)
            for _ in reader:
                line = reader.line_num + 1
        return line


def _is_number(cell: str) -> bool:
    try:
        read_number(cell)
    except ValueError:
        return False
    return True


def _standard_input() -> Table:
    """Return standard input as a table; it is copied to a temporary file, since a table is read more than once."""
    handle, name = tempfile.mkstemp(prefix="outfold-", suffix=".csv")
    path = Path(name)
    try:
        with open(handle, "wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    table = Text(path, "standard input")
    weakref.finalize(table, path.unlink, missing_ok=True)
    if not path.stat().st_size:
        raise TableError(f"standard input is empty. {_LAYOUT}")
    return table


# -- Arrow ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrow(Table):
    """A table in Parquet or Feather files with the same columns, one after another."""

    paths: tuple[Path, ...]
    told: str

    @cached_property
    def _parts(self) -> list[arrow.ArrowFile]:
        parts = [arrow.ArrowFile(path) for path in self.paths]
        for part in parts:
            with self._readable(part):
                if part.schema.names != parts[0].schema.names:
                    raise TableError(f"{part.path.name} has other columns than {parts[0].path.name}, in {self.told}.")
        check_unique(parts[0].schema.names, self.told)
        return parts

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parts[0].schema.names)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._parts[0].schema if arrow.arrow_is_number(field.type))

    def kind(self, name: str) -> object:
        return self._parts[0].schema.field(name).type

    @cached_property
    def rows(self) -> int:
        return sum(part.rows for part in self._parts)

    def between(self, features: Sequence[str], start: int, stop: int) -> Array:
        found, at = [np.empty((0, len(features)))], 0
        for part in self._parts:
            with self._readable(part):
                if at < stop and at + part.rows > start:
                    columns = part.between(list(features), max(0, start - at), stop - at)
                    found.append(arrow.arrow_numbers(columns, len(columns[0]) if columns else 0))
                at += part.rows
        return np.concatenate(found)

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        numbers = set(self.numeric)
        if text := [name for name in features if name not in numbers]:
            raise TableError(
                f"{self.told}: column {join_names(text)} holds {self.kind(text[0])}, not numbers. Leave it out."
            )
        wanted, start, step = list(dict.fromkeys([*features, *carried])), 0, self._step
        for part in self._parts:
            with self._readable(part):
                for batch in part.batches(wanted, step * max(1, ARROW_ROWS // step)):
                    at = dict(zip(wanted, batch.columns))
                    values = arrow.arrow_numbers([at[name] for name in features], batch.num_rows)
                    others = [at[name].to_pylist() for name in carried]
                    for first in range(0, batch.num_rows, step):
                        rows = slice(first, first + step)
                        yield Batch(start + first, values[rows], [column[rows] for column in others])
                    start += batch.num_rows

    def _readable(self, part: arrow.ArrowFile) -> AbstractContextManager[None]:
        return readable(part.path.name, f"a {part.path.suffix.removeprefix('.').capitalize()} file")


def _array(path: Path, suffix: str) -> Table:
    values: Array
    with readable(path.name, "an array that can be read"):
        if suffix == ".npy":
            values = np.lib.format.open_memmap(path, mode="r")
        elif suffix == ".npz":
            values = _one_of(path)
        else:
            values = extra("zarr", "io").open(str(path), mode="r")
    shape = getattr(values, "shape", ())
    if len(shape) != 2 or not min(shape):
        raise TableError(f"{path.name} must hold one array of rows and columns; it has shape {tuple(shape)}.")
    if np.dtype(values.dtype).kind not in "iuf":
        raise TableError(f"{path.name} holds {values.dtype}, not numbers.")
    return Matrix(values, path.name)


def _one_of(path: Path) -> Array:
    """Return the array of an npz file: the sparse matrix of ``scipy.sparse.save_npz``, the only array, or X."""
    with open(path, "rb") as file:
        found = np.load(file)
        if isinstance(found, np.ndarray):
            raise TableError(f"{path.name} is a .npy file by its content. Rename it.")
        names = list(found)
        if {"format", "shape", "data"} <= set(names):
            rows: Array = SparseFile.of(path).values
            return rows
        if len(names) != 1 and "X" not in names:
            raise TableError(
                f"{path.name} holds {len(names)} arrays ({join_names(names)}); one, or one called X, is needed."
            )
        values: Array = found["X" if "X" in names else names[0]]
        return values
