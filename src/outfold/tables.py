"""Tables: named columns of a file, read a batch of rows at a time.

CSV and TSV (also ``.gz``), Parquet (a file or a folder of them), Feather, npy, npz, Zarr, h5ad, and CSV from standard
input. Feature columns become float64, NaN where a value is missing; other columns are handed on as they are written.
What cannot be read is a :class:`TableError` that names the file and the line.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import os
import shutil
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import sources
from .exceptions import TableError

Array = NDArray[Any]

CELLS = 1 << 19  # in a batch, about
MOST_ROWS = 1 << 16  # in a batch
LOOKED_AT = 1000  # rows that tell whether a column of text holds numbers
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})  # in lower case
_FORM = "A table has a line of column names, then a line for each row."
KINDS = ".csv, .tsv, .parquet, .feather, .npy, .npz, .zarr, .h5ad"


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a table."""

    start: int  #: number of the first, from 0
    values: Array  #: (rows, features), NaN where missing
    carried: list[Sequence[Any]]  #: other columns, as they are


class Table:
    """Named columns; a kind of table defines its names, which hold numbers, and ``batches``."""

    told: str  # what messages call it
    named: bool = True  # whether the file itself names its columns
    unit: str = "row"
    aside: tuple[str, ...] = ()  # columns that can be carried along only

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        raise AssertionError("a table has columns")

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers."""
        raise AssertionError("a table knows its numbers")

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """The rows in order, some at a time: features as numbers, other columns as they are."""
        raise AssertionError("a table gives its rows")

    @property
    def rows(self) -> int:
        """How many there are, where the file says so."""
        raise TableError(
            f"{self.told} is read from its beginning to its end, so parts of it cannot be given to workers. Write it "
            "as Parquet or Zarr first."
        )

    def between(self, features: Sequence[str], start: int, stop: int) -> Array:
        """The features of some rows, found without reading those before."""
        raise AssertionError("a table that knows its rows finds them")

    def kind(self, name: str) -> Any:
        """Its Arrow or NumPy type where it has one."""
        return None

    def spoiled(self) -> list[tuple[str, str, int]]:
        """Columns that would hold numbers but for a few cells: name, the first such cell and its row."""
        return []

    def places(self, rows: Sequence[int]) -> list[int]:
        """Where a person finds these rows, in units of ``unit``."""
        return [row + 1 for row in rows]

    @property
    def _step(self) -> int:
        return max(1, min(MOST_ROWS, CELLS // max(1, len(self.names))))

    def require(self, wanted: Iterable[str], why: str) -> None:
        """Refuse if a column is not there, with what is."""
        there = set(self.names)
        lacking = [name for name in wanted if name not in there]
        if not lacking:
            return
        lower = {name.lower(): name for name in self.names}
        near = [lower[name] for name in difflib.get_close_matches(lacking[0].lower(), lower, n=3, cutoff=0.6)]
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"It has {listed(self.names)}."
        raise TableError(f"{self.told} has no column{'s' * (len(lacking) > 1)} {listed(lacking)} {why}. {hint}")

    def __str__(self) -> str:
        return self.told


def listed(names: Sequence[Any], most: int = 6) -> str:
    """Names for a message, not ten thousand of them.

    >>> listed(["a", "b"]), listed(range(10000), most=2)
    ("'a', 'b'", '0, 1 and 9998 more')
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def opened(path: str | Path, *, obsm: str | None = None) -> Table:
    """The table in a file; ``-`` is CSV from standard input. ``obsm`` names a part of an h5ad file (X without it)."""
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
        raise TableError(f"{path.name} is empty. {_FORM}")
    if suffix in (".csv", ".tsv"):
        return Text(path, path.name, "\t" if suffix == ".tsv" else None)
    if suffix in (".parquet", ".feather", ".arrow"):
        return Arrow((path,), path.name)
    if suffix in (".npy", ".npz", ".zarr"):
        return _array(path, suffix)
    if suffix == ".h5ad":
        from . import annotated

        return annotated.table(path, obsm)
    raise TableError(
        f"{path.name} is none of {KINDS}, and - (CSV from standard input). Write it as one of these first."
    )


def _instead(path: Path) -> str:
    """What may have been meant by a file that is not there."""
    folder = path.parent.resolve()
    if not folder.is_dir():
        return f"The folder {folder} is not there either."
    near = difflib.get_close_matches(path.name, [other.name for other in folder.iterdir()], n=1, cutoff=0.7)
    return f"Did you mean {path.with_name(near[0])}?" if near else f"Check its name and its folder, {folder}."


# -- text ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text(Table):
    """CSV: a header, unless the first line holds numbers only; comma, semicolon or tab."""

    path: Path
    told: str
    separator: str | None = None

    unit = "line"

    @cached_property
    def _first(self) -> list[str]:
        with self._reader() as (_, records):
            return next(records, [])

    @cached_property
    def named(self) -> bool:  # type: ignore[override]
        return not all(_is_number(cell) for cell in self._first)

    @cached_property
    def names(self) -> tuple[str, ...]:
        if not self._first:
            raise TableError(f"{self.told} is empty. {_FORM}")
        numbered = [f"column_{at}" for at in range(1, len(self._first) + 1)]
        names = [cell.strip() or other for cell, other in zip(self._first, numbered)] if self.named else numbered
        _unique(names, f"{self.told}, line {self.places([-1])[0]}" if self.named else self.told)
        return tuple(names)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name, (column, words) in self._looked_at.items() if not words)

    def spoiled(self) -> list[tuple[str, str, int]]:
        few = {name: found for name, found in self._looked_at.items() if 0 < 2 * len(found[1]) < len(found[0])}
        return [(name, column[words[0]], words[0]) for name, (column, words) in few.items()]

    @cached_property
    def _looked_at(self) -> dict[str, tuple[Sequence[str], list[int]]]:
        """Of each column the first cells, and which of them are words."""
        rows = next(self._blocks(LOOKED_AT), [])
        columns = zip(self.names, zip(*rows) if rows else [()] * len(self.names))
        return {
            name: (column, [at for at, cell in enumerate(column) if not (_is_number(cell) or _is_missing(cell))])
            for name, column in columns
        }

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        at = {name: number for number, name in enumerate(self.names)}
        start = 0
        for rows in self._blocks(self._step):
            columns = list(zip(*rows))
            values = np.empty((len(rows), len(features)))
            for number, name in enumerate(features):
                values[:, number] = self._numbers(columns[at[name]], name, start)
            yield Batch(start, values, [columns[at[name]] for name in carried])
            start += len(rows)

    def places(self, rows: Sequence[int]) -> list[int]:
        """Lines, which a quoted cell may have several of; the header is row -1."""
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
        try:
            return list(map(float, cells))
        except ValueError:
            pass
        found = []
        for row, cell in enumerate(cells):
            try:
                found.append(float("nan") if _is_missing(cell) else float(cell))
            except ValueError:
                line = self.places([start + row])[0]
                raise TableError(
                    f"{self.told}, line {line}: {cell[:40]!r} in column {name!r} is not a number. Correct it, leave it "
                    "empty if the value is missing, or leave the column out."
                ) from None
        return found

    def _blocks(self, step: int) -> Iterator[list[list[str]]]:
        """Records after the header, all of one width."""
        width, start = len(self.names), 0
        with self._reader() as (_, records):
            next(records if self.named else iter(()), None)
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
        """A reader, which counts lines, and its records without blank lines."""
        try:
            with self._file("rt", encoding="utf-8-sig", newline="") as file:
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
        except (gzip.BadGzipFile, EOFError) as error:
            raise TableError(f"{self.told} is not a whole gzip file: {error}.") from None

    def _file(self, mode: str, **options: Any) -> Any:
        return gzip.open(self.path, mode, **options) if self.path.suffix == ".gz" else open(self.path, mode, **options)

    @cached_property
    def _separator(self) -> str:
        if self.separator is not None:
            return self.separator
        try:
            with self._file("rt", encoding="utf-8-sig", errors="replace") as file:
                first = file.readline(1 << 22)
        except (gzip.BadGzipFile, EOFError) as error:
            raise TableError(f"{self.told} is not a whole gzip file: {error}.") from None
        bare = "".join(first.split('"')[::2])  # outside quotes
        return next((mark for mark in (",", ";", "\t") if mark in bare), ",")

    def _undecodable(self) -> int:
        with self._file("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    return number
        return number

    def _broken(self) -> int:
        """The line where the record begins that cannot be read."""
        with self._file("rt", encoding="utf-8-sig", newline="") as file:
            reader, line = csv.reader(file, delimiter=self._separator, strict=True), 1
            try:
                for _ in reader:
                    line = reader.line_num + 1
            except csv.Error:
                pass
        return line


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_2 as 12


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _unique(names: Sequence[str], told: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        at = [str(number) for number, name in enumerate(names, 1) if name == twice[0]]
        raise TableError(f"{told}: {len(at)} columns ({', '.join(at[:5])}) are called {twice[0]!r}. Rename them first.")


def _standard_input() -> Table:
    """What comes in is kept in a temporary file, since it is read more than once."""
    handle, name = tempfile.mkstemp(prefix="outfold-", suffix=".csv")
    path = Path(name)
    try:
        with open(handle, "wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    table = Text(path, "standard input")
    weakref.finalize(table, _unlink, str(path))
    if not path.stat().st_size:
        raise TableError(f"standard input is empty. {_FORM}")
    return table


def _unlink(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


# -- Arrow ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrow(Table):
    """Parquet and Feather."""

    paths: tuple[Path, ...]
    told: str

    @cached_property
    def _parts(self) -> list[sources.ArrowFile]:
        parts = [sources.ArrowFile(path) for path in self.paths]
        for part in parts:
            with self._readable(part):
                if part.schema.names != parts[0].schema.names:
                    raise TableError(f"{part.path.name} has other columns than {parts[0].path.name}, in {self.told}.")
        _unique(parts[0].schema.names, self.told)
        return parts

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parts[0].schema.names)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._parts[0].schema if sources.arrow_is_number(field.type))

    def kind(self, name: str) -> Any:
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
                    found.append(np.column_stack([sources.arrow_numbers(column) for column in columns]))
                at += part.rows
        return np.concatenate(found)

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        if text := [name for name in features if name not in set(self.numeric)]:
            raise TableError(
                f"{self.told}: column {listed(text)} holds {self.kind(text[0])}, not numbers. Leave it out."
            )
        wanted, start = list(dict.fromkeys([*features, *carried])), 0
        for part in self._parts:
            with self._readable(part):
                for batch in part.batches(wanted, self._step):
                    at = {name: column for name, column in zip(wanted, batch.columns)}
                    values = np.empty((batch.num_rows, len(features)))
                    for number, name in enumerate(features):
                        values[:, number] = sources.arrow_numbers(at[name])
                    yield Batch(start, values, [at[name].to_pylist() for name in carried])
                    start += batch.num_rows

    @contextmanager
    def _readable(self, part: sources.ArrowFile) -> Iterator[None]:
        try:
            yield
        except TableError:
            raise
        except (ValueError, OSError) as error:  # Arrow's errors are kinds of these
            why = str(error).splitlines()[0][:200]
            kind = part.path.suffix.removeprefix(".").capitalize()
            raise TableError(f"{part.path.name} is not a {kind} file, or is damaged: {why}") from error


# -- arrays --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix(Table):
    """An array that gives rows by slices, with columns beside it that are handed on."""

    values: Any
    told: str
    columns: tuple[str, ...] = ()
    beside: dict[str, Any] | None = None  # name -> a value for each row

    @property
    def named(self) -> bool:  # type: ignore[override]
        return bool(self.columns)

    @property
    def aside(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.beside or ())

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        return self.columns or tuple(f"column_{at}" for at in range(1, self.values.shape[1] + 1))

    @cached_property
    def names(self) -> tuple[str, ...]:
        names = (*self.numeric, *self.aside)
        _unique(names, self.told)
        return names

    def kind(self, name: str) -> Any:
        kind = np.asarray(self.beside[name]).dtype if self.beside and name in self.beside else np.dtype(float)
        return kind if kind.kind in "iufb" else None

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    def between(self, features: Sequence[str], start: int, stop: int) -> Array:
        return self._block(start, stop)[:, self._columns(features)]

    def _block(self, start: int, stop: int) -> Array:
        rows = self.values[start:stop]
        return np.array(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float, order="C")

    def _columns(self, features: Sequence[str]) -> Any:
        at = {name: number for number, name in enumerate(self.numeric)}
        if text := [name for name in features if name not in at]:
            raise TableError(
                f"{self.told}: column {listed(text)} is not one of the numbers; it can only be carried along."
            )
        index = [at[name] for name in features]
        return slice(None) if index == list(range(len(at))) else index

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        at, index = {name: number for number, name in enumerate(self.numeric)}, self._columns(features)
        beside = self.beside or {}
        for start in range(0, self.values.shape[0], self._step):
            block = self._block(start, start + self._step)
            others = [
                beside[name][start : start + len(block)] if name in beside else block[:, at[name]].tolist()
                for name in carried
            ]
            yield Batch(start, block[:, index], others)


def _array(path: Path, suffix: str) -> Table:
    try:
        if suffix == ".npy":
            values = np.load(path, mmap_mode="r")
        elif suffix == ".npz":
            values = _one_of(np.load(path), path.name)
        else:
            values = sources.extra("zarr", "io").open(str(path), mode="r")
    except TableError:
        raise
    except (ValueError, OSError, EOFError, KeyError) as error:
        why = (
            "it is no array, or holds Python objects"
            if "objects" in str(error) or "pickle" in str(error)
            else str(error).splitlines()[0][:200]
        )
        raise TableError(f"{path.name} is not an array that can be read: {why}") from error
    shape = getattr(values, "shape", ())
    if len(shape) != 2 or not min(shape):
        raise TableError(f"{path.name} must hold one array of rows and columns; it has shape {tuple(shape)}.")
    if np.dtype(values.dtype).kind not in "iuf":
        raise TableError(f"{path.name} holds {values.dtype}, not numbers.")
    return Matrix(values, path.name)


def _one_of(found: Any, told: str) -> Array:
    names = list(found.files)
    if len(names) != 1 and "X" not in names:
        raise TableError(f"{told} holds {len(names)} arrays ({listed(names)}); one, or one called X, is needed.")
    return found["X" if "X" in names else names[0]]
