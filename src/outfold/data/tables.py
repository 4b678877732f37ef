"""Tables: named columns that are read a batch of rows at a time."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from .._runtime.typing import Array, Sliceable
from ..exceptions import TableError
from .sources import readable
from .sparse_rows import SparseRows

BATCH_CELLS = 1 << 19  # cells (rows times columns) in a batch, about
BATCH_ROWS_UP_TO = 1 << 16  # rows in a batch
COMPARED_NAMES = 20_000  # names that are searched for one similar to a wrong one; 200,000 would take seconds


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a table."""

    start: int  #: number of the first row, from 0
    values: Array  #: (rows, features), NaN where missing
    carried: list[Sequence[Any]]  #: columns carried along, unchanged; a sequence for each


class Table:
    """A table of named columns; a subclass defines ``names``, ``numeric`` and ``batches``."""

    told: str  # name of the table in messages
    named: bool = True  # whether the file itself names its columns
    unit: str = "row"
    aside: tuple[str, ...] = ()  # columns that can only be carried along, never be features
    sparse: bool = False  # whether the file holds a sparse matrix, in memory: see ``sparse_rows``

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, in order."""
        raise AssertionError("a table has columns")

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the columns that hold numbers."""
        raise AssertionError("a table knows its numbers")

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield the rows in order, a batch at a time: ``features`` as numbers, ``carried`` columns unchanged."""
        raise AssertionError("a table gives its rows")

    @property
    def rows(self) -> int:
        """Number of rows, if the file stores it."""
        raise TableError(
            f"{self.told} is read from its beginning to its end, so parts of it cannot be given to workers. Write it "
            "as Parquet or Zarr first."
        )

    def between(self, features: Sequence[str], start: int, stop: int) -> Array:
        """Return the features of rows ``start`` to ``stop``, (rows, features), without reading the rows before."""
        raise AssertionError("a table that knows its rows finds them")

    def sparse_rows(self, features: Sequence[str]) -> SparseRows:
        """Return the features of all rows of a sparse table."""
        raise AssertionError("a table that is sparse has sparse rows")

    def kind(self, name: str) -> object:
        """Return the Arrow or NumPy type of a column, or None if it has none."""
        return None

    def find_spoiled(self) -> list[tuple[str, str, int]]:
        """Return the columns in which a few cells are not numbers: (name, the first such cell, its row)."""
        return []

    def places(self, rows: Sequence[int]) -> list[int]:
        """Return where the user finds these rows in the file: numbers of rows or lines (see ``unit``), from 1."""
        return [row + 1 for row in rows]

    @property
    def _step(self) -> int:
        return max(1, min(BATCH_ROWS_UP_TO, BATCH_CELLS // max(1, len(self.names))))

    def require(self, wanted: Iterable[str], why: str) -> None:
        """Raise TableError if a column is missing; the message lists similar or existing names."""
        there = set(self.names)
        lacking = [name for name in wanted if name not in there]
        if not lacking:
            return
        lower, wrong = {name.lower(): name for name in self.names}, lacking[0].lower()
        others = [wrong] if wrong in lower else islice(lower, COMPARED_NAMES)
        near = [lower[name] for name in difflib.get_close_matches(wrong, others, n=3, cutoff=0.6)]
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"It has {join_names(self.names)}."
        raise TableError(f"{self.told} has no column{'s' * (len(lacking) > 1)} {join_names(lacking)} {why}. {hint}")

    def __str__(self) -> str:
        return self.told


def join_names(names: Sequence[object], most: int = 6) -> str:
    """Return at most ``most`` names for a message, and the number of the others.

    >>> join_names(["a", "b"]), join_names(range(10000), most=2)
    ("'a', 'b'", '0, 1 and 9998 more')
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def check_unique(names: Sequence[str], told: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        at = [str(number) for number, name in enumerate(names, 1) if name == twice[0]]
        raise TableError(f"{told}: {len(at)} columns ({', '.join(at[:5])}) are called {twice[0]!r}. Rename them first.")


# -- arrays --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix(Table):
    """A table from an array that is read by slices of rows, and optional columns to carry along (``beside``)."""

    values: Sliceable
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
        check_unique(names, self.told)
        return names

    def kind(self, name: str) -> object:
        kind = np.asarray(self.beside[name]).dtype if self.beside and name in self.beside else np.dtype(float)
        return kind if kind.kind in "iufb" else None

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        return isinstance(self.values, SparseRows)

    def sparse_rows(self, features: Sequence[str]) -> SparseRows:
        columns = self._columns(features)
        assert isinstance(self.values, SparseRows)
        return self.values if isinstance(columns, slice) else SparseRows(self.values[:, columns])

    def between(self, features: Sequence[str], start: int, stop: int) -> Array:
        return self._block(start, stop)[:, self._columns(features)]

    def _block(self, start: int, stop: int) -> Array:
        with readable(self.told, "an array that can be read"):
            rows = self.values[start:stop]
            return np.array(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float, order="C")

    def _columns(self, features: Sequence[str]) -> slice | list[int]:
        at = {name: number for number, name in enumerate(self.numeric)}
        if text := [name for name in features if name not in at]:
            raise TableError(
                f"{self.told}: column {join_names(text)} is not one of the numbers; it can only be carried along."
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
