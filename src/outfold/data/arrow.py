"""Parquet and Feather files, read as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .._runtime.extras import extra
from .._runtime.typing import Array


def pyarrow_module(module: str) -> Any:
    return extra(f"pyarrow.{module}", "io")


# -- columns of Arrow ----------------------------------------------------------------------


@dataclass(frozen=True)
class ArrowFile:
    """A Parquet or Feather file, read as Arrow batches."""

    path: Path

    @cached_property
    def _file(self) -> Any:
        if self.path.suffix == ".parquet":
            return pyarrow_module("parquet").ParquetFile(self.path)
        return pyarrow_module("ipc").open_file(extra("pyarrow", "io").memory_map(str(self.path)))

    @cached_property
    def schema(self) -> Any:
        return self._file.schema_arrow if self.path.suffix == ".parquet" else self._file.schema

    @cached_property
    def rows(self) -> int:
        if self.path.suffix == ".parquet":
            return self._file.metadata.num_rows
        return sum(self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches))

    def between(self, names: list[str], start: int, stop: int) -> list[Any]:
        """Return the columns of rows ``start`` to ``stop``; a Parquet file is read by whole row groups."""
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
        """Yield batches of at most ``rows`` rows with the columns ``names``."""
        if self.path.suffix == ".parquet":
            for batch in self._file.iter_batches(batch_size=rows, columns=names):
                yield batch.select(names)
            return
        for number in range(self._file.num_record_batches):
            whole = self._file.get_batch(number).select(names)
            for at in range(0, whole.num_rows, rows):
                yield whole.slice(at, rows)


def arrow_is_number(kind: Any) -> bool:
    types = pyarrow_module("types")
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def arrow_numbers(column: Any) -> Array:
    """Return an Arrow column as float64, NaN where a value is missing."""
    arrow = extra("pyarrow", "io")
    if arrow.types.is_floating(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
