"""Functions that read the tables of numbers that quality is measured on, in memory or in partitions."""

from __future__ import annotations

import numpy as np

from .._runtime.typing import Array, Data
from ..data.inputs import read_rows
from ..data.sources import InMemory, Source, open_parts
from ..data.sparse_rows import as_rows, dense_rows
from ..distances import LARGEST_ENTRY
from ..methods import parameters


def read_table(name: str, values: Data) -> Source:
    """Return a table of numbers; in memory they must be finite, with finite squares. One column is a table too."""
    parts = open_parts(values, column=True)
    if parts is not None:  # the numbers of a partition are checked when it is read
        _check_shape(name, parts.shape)
        return parts
    table = dense_rows(as_rows(read_rows(values, name, column=True)))
    _check_shape(name, table.shape)
    bad = len(table) - int(np.isfinite(table).all(axis=1).sum())
    if bad:
        raise ValueError(f"{bad} of {len(table)} rows of {name} hold NaN or infinity: leave them out.")
    if np.abs(table).max() > LARGEST_ENTRY:
        raise ValueError(f"Squared distances overflow: {name} reaches {np.abs(table).max():.1e}. Rescale it.")
    return InMemory(np.ascontiguousarray(table))


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or not min(shape):
        raise ValueError(f"{name} must be a table of rows and columns, none of them 0; its shape is {shape}.")


def take_rows(source: Source, index: Array) -> Array:
    """Return the rows of an index, in the order of the index; negative numbers count from the end."""
    wanted, back = np.unique(np.where(index < 0, index + len(source), index), return_inverse=True)
    return source.take(wanted)[back]


def sample_rows(count: int, rows: int | None, rng: np.random.Generator) -> Array:
    """Return the numbers of all ``count`` rows, or of a random sample of ``rows`` of them, in order."""
    size = count if rows is None else min(count, parameters.count("rows", rows))
    return np.arange(count) if size == count else np.sort(rng.choice(count, size, replace=False))
