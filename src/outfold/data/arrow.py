"""Parquet and Feather files, read as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._runtime.extras import extra
from .._runtime.typing import Array


@dataclass(frozen=True)
class ArrowFile:
    """A Parquet or Feather file, read as Arrow batches."""

    path: Path

    @property
    def _parquet(self) -> bool:
        return self.path.suffix == ".parquet"

    @cached_property
    def _file(self) -> Any:
        if self._parquet:
            return extra("pyarrow.parquet", "io").ParquetFile(self.path)
        return extra("pyarrow.ipc", "io").open_file(extra("pyarrow", "io").memory_map(str(self.path)))

    @cached_property
    def schema(self) -> Any:
        return self._file.schema_arrow if self._parquet else self._file.schema

    @cached_property
    def _sizes(self) -> list[int]:
        """Rows in each row group of a Parquet file, or in each batch of a Feather file."""
        file = self._file
        if self._parquet:
            return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        return [file.get_batch(number).num_rows for number in range(file.num_record_batches)]

    @property
    def rows(self) -> int:
        return sum(self._sizes)

    def between(self, names: Sequence[str], start: int, stop: int) -> list[Any]:
        """Return the columns of rows ``start`` to ``stop``; a Parquet file is read by whole row groups."""
        wanted: list[int] = []
        at, before = 0, 0
        for number, size in enumerate(self._sizes):
            if at < stop and at + size > start:
                before = before if wanted else at
                wanted.append(number)
            at += size
        if self._parquet:
            found = self._file.read_row_groups(wanted, columns=names)
        else:
            batches = [self._file.get_batch(number) for number in wanted]
            found = extra("pyarrow", "io").Table.from_batches(batches, schema=self.schema)
        found = found.slice(start - before, stop - start)
        return [found.column(name).combine_chunks() for name in names]

    def batches(self, names: Sequence[str] | None, rows: int) -> Iterator[Any]:
        """Yield batches of at most ``rows`` rows with the columns ``names`` (None: all)."""
        if self._parquet:
            found = self._file.iter_batches(batch_size=rows, columns=names)
        else:
            whole = map(self._file.get_batch, range(self._file.num_record_batches))
            found = (batch.slice(at, rows) for batch in whole for at in range(0, batch.num_rows, rows))
        for batch in found:
            yield batch if names is None or batch.schema.names == list(names) else batch.select(names)


def arrow_is_number(kind: object) -> bool:
    types = extra("pyarrow.types", "io")
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def arrow_numbers(columns: Sequence[Any], rows: int) -> Array:
    """Return Arrow columns as float64, (rows, columns), NaN where a value is missing."""
    arrow = extra("pyarrow", "io")
    values = np.empty((rows, len(columns)))
    for number, column in enumerate(columns):
        if column.null_count or not arrow.types.is_floating(column.type):
            column = column.cast(arrow.float64(), safe=False)
        values[:, number] = column.to_numpy(zero_copy_only=False)
    return values
