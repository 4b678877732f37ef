"""Choice and scaling of the columns of a table: the features of a fit, and of every later table.

A :class:`Preparation` holds the names of the columns, those left out, and the centre and scale of each. It is part of a
model that was fitted to a table. :func:`prepare` computes it in one pass over the table and counts missing values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from .._runtime.typing import POSITIVE, Array, Axes
from ..exceptions import TableError
from .sources import Source
from .sparse_rows import largest_entries
from .tables import Batch, Table, join_names

SCALINGS = ("standard", "robust", "none")
SAMPLE_BYTES = 1 << 27  # memory for the sample of rows for medians and quartiles
SAMPLE_ROWS = 100_000
LEFT_OUT_REASONS = {
    "text": "columns that hold no numbers",
    "empty": "columns without values",
    "constant": "columns of one value",
}
PLACES_SHOWN = 3  # rows with missing values that a message lists


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Which columns, in which order, and how they are scaled: (x - centre) / scale.

    >>> import numpy as np
    >>> cups = Preparation(("tea", "milk"), scaling="standard", centre=np.array([1.0, 2.0]), scale=np.array([1.0, 4.0]))
    >>> cups.apply(np.array([[2.0, 6.0]])).tolist(), cups.undo(np.array([[1.0, 1.0]])).tolist()
    ([[1.0, 1.0]], [[2.0, 6.0]])
    """

    columns: tuple[str, ...] = field(kw_only=False)
    scaling: str = "none"
    #: (columns,); empty means 0
    centre: Annotated[Array, Axes("p")] = field(default_factory=lambda: np.empty(0), repr=False)
    #: (columns,); empty means 1
    scale: Annotated[Array, Axes("q"), POSITIVE] = field(default_factory=lambda: np.empty(0), repr=False)
    named: bool = True  #: whether the table of the fit named its columns
    width: int = 0  #: number of numeric columns in that table, if they have no names
    id: str | None = None
    label: str | None = None
    text: tuple[str, ...] = ()  #: columns left out because they hold no numbers
    empty: tuple[str, ...] = ()  #: columns left out because all values are missing
    constant: tuple[str, ...] = ()  #: columns left out because they hold one value
    rows_left_out: int = 0  #: rows that the fit left out for missing values

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling={self.scaling!r} must be one of {', '.join(SCALINGS)}.")
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError(f"columns must be at least one name, each once; got {join_names(self.columns)}.")
        carried = [name for name in (self.id, self.label) if name is not None]
        names = (*self.columns, *self.text, *self.empty, *self.constant, *carried)
        if not all(isinstance(name, str) for name in names):
            raise ValueError("Columns are named by text.")
        if self.width < 0 or self.rows_left_out < 0:
            raise ValueError(f"width={self.width} and rows_left_out={self.rows_left_out} count something.")
        places = {f"column_{at}" for at in range(1, self.width + 1)}
        if not self.named and not set(self.columns) <= places:
            raise ValueError(
                f"Columns without names are column_1 to column_{self.width}, not {join_names(self.columns)}."
            )
        for name in ("centre", "scale"):
            values = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, values)
            if values.shape != ((0,) if self.scaling == "none" else (len(self.columns),)):
                raise ValueError(f"{name} has shape {values.shape} for {len(self.columns)} columns ({self.scaling}).")
            if not np.isfinite(values).all() or (name == "scale" and (values <= 0).any()):
                raise ValueError(f"{name} must be finite{' and above 0' if name == 'scale' else ''}.")

    def apply(self, block: Array) -> Array:
        """Return the features (rows, columns) of raw rows, whose columns are ``columns`` in order.

        If the columns of the fit have no names, rows may also have all ``width`` numeric columns.
        """
        block = np.asarray(block, dtype=float)
        wide = not self.named and block.ndim == 2 and block.shape[1] == self.width
        if wide and self.width != len(self.columns):
            block = block[:, self._positions()]
        if block.ndim != 2 or block.shape[1] != len(self.columns):
            raise ValueError(f"Rows of shape {block.shape}, but the model takes {len(self.columns)} columns.")
        return block if self.scaling == "none" else (block - self.centre) / self.scale

    def undo(self, array: Array) -> Array:
        """Return features in the units of the table: the inverse of :meth:`apply`."""
        array = np.asarray(array, dtype=float)
        if array.ndim != 2 or array.shape[1] != len(self.columns):
            raise ValueError(f"Features of shape {array.shape}, but the model has {len(self.columns)}.")
        return array if self.scaling == "none" else array * self.scale + self.centre

    def _positions(self) -> list[int]:
        return [int(name.removeprefix("column_")) - 1 for name in self.columns]

    def match(self, table: Table) -> tuple[str, ...]:
        """Return the columns of a table that hold the features: by name if both have names, else by their order."""
        if table.named and self.named:
            table.require(self.columns, "that the model was fitted with")
            return self.columns
        there = table.numeric
        if not self.named and len(there) == self.width:
            return tuple(there[at] for at in self._positions())
        if len(there) == len(self.columns):
            return there
        wanted = len(self.columns) if self.named else self.width
        raise TableError(
            f"{table.told} has {len(there)} columns of numbers, and the model takes {wanted}"
            + (f" ({join_names(self.columns)})." if self.named else ", by their place.")
            + "".join(
                f" In {table.unit} {table.places([row])[0]}, {cell[:40]!r} in column {name!r} is not a number."
                for name, cell, row in table.find_spoiled()[:1]
            )
        )

    def find_ignored(self, table: Table) -> tuple[str, ...]:
        """Return the columns of a table that the model has no record of: neither used, left out nor carried along."""
        known = {*table.aside, *self.columns, *self.text, *self.empty, *self.constant, self.id, self.label}
        return tuple(name for name in table.names if name not in known) if table.named and self.named else ()

    def describe_left_out(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the columns that are not used, as (field that lists them, reason, their names)."""
        return [(name, why, gone) for name, why in LEFT_OUT_REASONS.items() if (gone := getattr(self, name))]

    def describe(self) -> str:
        """Return the scaling in words."""
        return {
            "standard": "each column centred and divided by its standard deviation",
            "robust": "each column centred at its median and divided by its interquartile range",
            "none": "none; columns are used as they are",
        }[self.scaling]

    def describe_scales(self) -> str:
        """Return the smallest and the largest scale of a column, with their names; "" if columns are used as given."""
        if not len(self.scale):
            return ""
        low, high = int(self.scale.argmin()), int(self.scale.argmax())
        return f"{self.scale[low]:.2g} ({self.columns[low]!r}) to {self.scale[high]:.3g} ({self.columns[high]!r})"


@dataclass(frozen=True)
class Prepared(Source):
    """A source of the complete rows of a table, as features."""

    table: Table
    preparation: Preparation
    rows: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, len(self.preparation.columns)

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse: those of a sparse table, unless scaling fills them in."""
        return self.table.sparse and self.preparation.scaling == "none"

    def pieces(self) -> Iterator[Array]:
        if self.sparse:
            rows = self.table.sparse_rows(self.preparation.match(self.table))
            whole = np.isfinite(largest_entries(rows))
            yield rows if whole.all() else rows[whole]
            return
        for batch in self.table.batches(self.preparation.match(self.table)):
            whole = complete(batch.values)
            yield self.preparation.apply(batch.values if whole.all() else batch.values[whole])

    def __str__(self) -> str:
        return f"{self.table.told} ({self.shape[0]} x {self.shape[1]})"


def complete(values: Array) -> Array:
    """Return a mask (rows,) of the rows without missing values."""
    with np.errstate(over="ignore", invalid="ignore"):  # large numbers, and both infinities
        total = values.sum()
    if np.isfinite(total):
        return np.ones(len(values), bool)
    return np.asarray(np.isfinite(values).all(axis=1))


# -- missing values ------------------------------------------------------------------------


@dataclass(kw_only=True)
class Missing:
    """Counts of rows with missing values, gathered batch by batch."""

    features: tuple[str, ...]
    rows: int = 0  # all rows read so far
    left_out: int = 0
    first: list[int] = field(default_factory=list)
    lacking: Array = field(init=False)  # missing values in each column
    rising: tuple[str, ...] = ()  # columns that increase from row to row, as a row number does

    def __post_init__(self) -> None:
        self.lacking = np.zeros(len(self.features), dtype=int)

    def add(self, batch: Batch) -> Array:
        """Count a batch; return a mask of its complete rows."""
        whole = complete(batch.values)
        self.rows += len(whole)
        if not whole.all():
            self.left_out += int((~whole).sum())
            self.lacking += (~np.isfinite(batch.values)).sum(axis=0)
            if len(self.first) < PLACES_SHOWN:
                self.first += (batch.start + np.flatnonzero(~whole)[: PLACES_SHOWN - len(self.first)]).tolist()
        return whole

    def describe(self, table: Table) -> str:
        """Return how many rows lack values, in which columns, and where the first of them are."""
        often = np.argsort(-self.lacking, kind="stable")
        columns = [f"{self.features[at]!r} ({self.lacking[at]})" for at in often if self.lacking[at]]
        more = f" and {len(columns) - 4} more" if len(columns) > 4 else ""
        places = ", ".join(map(str, table.places(self.first)))
        unit = table.unit if len(self.first) == 1 else table.unit + "s"
        return (
            f"{self.left_out} of {self.rows} rows lack a value, in {', '.join(columns[:4])}{more}; "
            f"{'first ' if self.left_out > len(self.first) else ''}{unit} {places}"
        )


# -- the first pass over a table -----------------------------------------------------------


@dataclass(kw_only=True)
class _Sums:
    """Mean, squares about it, minimum and maximum of each column; joined as in Chan, Golub and LeVeque (1979)."""

    rows: int = 0
    mean: Array = field(default_factory=lambda: np.array(0.0))
    squares: Array = field(default_factory=lambda: np.array(0.0))
    low: Array = field(default_factory=lambda: np.array(np.inf))
    high: Array = field(default_factory=lambda: np.array(-np.inf))
    last: Array = field(default_factory=lambda: np.array(-np.inf))
    rising: Array = field(default_factory=lambda: np.array(True))  # whether each column increases from row to row

    def add(self, values: Array) -> None:
        if not len(values):
            return
        mean, rows = values.mean(axis=0), self.rows + len(values)
        apart = mean - self.mean
        self.squares = self.squares + ((values - mean) ** 2).sum(axis=0)
        self.squares = self.squares + apart**2 * (self.rows * len(values) / rows)
        self.mean = self.mean + apart * (len(values) / rows)
        self.low, self.high = np.minimum(self.low, values.min(axis=0)), np.maximum(self.high, values.max(axis=0))
        self.rising = self.rising & (values[0] > self.last) & (values[1:] > values[:-1]).all(axis=0)
        self.rows, self.last = rows, values[-1]

    @property
    def constant(self) -> Array:
        """Mask of the columns that hold one value, up to rounding."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        flat: Array = self.high - self.low <= 8 * np.finfo(float).eps * size
        return flat


class _Sample:
    """A random sample of rows that come in blocks: the ``most`` rows with the smallest random keys."""

    def __init__(self, columns: int) -> None:
        self.most = int(max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * columns))))
        self._random = np.random.default_rng(0)
        self._held: list[tuple[Array, Array]] = [(np.empty(0), np.empty((0, columns)))]  # keys and rows
        self._count, self._highest = 0, np.inf

    def add(self, values: Array) -> None:
        keys = self._random.random(len(values))
        lower = keys < self._highest
        self._held.append((keys[lower], values[lower]))
        self._count += len(self._held[-1][0])
        if self._count > 2 * self.most:  # not at every block: a block may be a row
            self._cut()

    def _cut(self) -> None:
        keys, rows = (np.concatenate(part) for part in zip(*self._held))
        if len(keys) > self.most:
            kept = np.sort(np.argpartition(keys, self.most)[: self.most])
            keys, rows = keys[kept], rows[kept]
            self._highest = keys.max()
        self._held, self._count = [(keys, rows)], len(keys)

    @property
    def rows(self) -> Array:
        self._cut()
        return self._held[0][1]


def prepare(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    id: str | None = None,
    label: str | None = None,
    scaling: str = "standard",
    watch: Callable[[int], object] = int,
) -> tuple[Preparation, Missing]:
    """Choose the features of a table and compute their centre and scale, in one pass (two if columns are empty).

    Returns the preparation and the counts of missing values.

    Without ``columns`` the features are all columns of numbers except ``id`` and ``label``. Empty columns are left out
    and so, unless ``scaling`` is "none", are columns that hold one value. Rows with a missing value do not count.
    Medians and quartiles of more than 100,000 rows are those of a random sample; if the quartiles of a column are
    equal, its standard deviation is the scale. ``watch`` is called with the number of rows of each batch.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling!r} must be one of {', '.join(SCALINGS)}.")
    features, text = _choose_columns(table, columns, id, label)
    sums, sample, missing = _walk(table, features, scaling == "robust", watch)
    empty = tuple(name for name, lacking in zip(features, missing.lacking) if lacking == missing.rows)
    if empty and missing.rows and columns is None:
        features = tuple(name for name, lacking in zip(features, missing.lacking) if lacking != missing.rows)
        if features:
            sums, sample, missing = _walk(table, features, scaling == "robust", watch)
    _enough(table, features, missing)
    varied = np.ones(len(features), bool) if scaling == "none" else ~sums.constant
    if not varied.any():
        raise TableError(f"{table.told}: every column holds one value only ({join_names(features)}); nothing to embed.")
    centre, scale = np.empty(0), np.empty(0)
    if scaling != "none":
        centre, scale = sums.mean[varied], np.sqrt(sums.squares[varied] / sums.rows)
    if sample is not None:
        lower, centre, upper = np.percentile(sample.rows[:, varied], [25, 50, 75], axis=0)
        scale = np.where(upper > lower, upper - lower, scale)
    found = Preparation(
        columns=tuple(name for name, kept in zip(features, varied) if kept),
        scaling=scaling,
        centre=centre,
        scale=scale,
        named=table.named,
        width=len(table.numeric),
        id=id,
        label=label,
        text=text,
        empty=empty,
        constant=tuple(name for name, kept in zip(features, varied) if not kept),
        rows_left_out=missing.left_out,
    )
    return found, missing


def _choose_columns(
    table: Table, columns: Sequence[str] | None, id: str | None, label: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the feature columns, and the columns left out because they hold no numbers."""
    table.require([name for name in (id, label) if name is not None], "to carry along")
    if columns is not None:
        table.require(columns, "to use")
        if len(set(columns)) != len(columns):
            raise TableError(f"A column is named twice: {join_names(list(columns))}.")
        return tuple(columns), ()
    carried = {id, label}
    numbers = {*table.numeric} - carried
    others = numbers | carried | {*table.numeric, *table.aside}
    features = tuple(name for name in table.names if name in numbers)
    text = tuple(name for name in table.names if name not in others)
    if not features:
        raise TableError(
            f"{table.told} has no column of numbers to use (it has {join_names(table.names)}). Make numbers of words "
            "first, such as a column of 0 and 1 for each."
        )
    return features, text


def _walk(
    table: Table, features: tuple[str, ...], sampled: bool, watch: Callable[[int], object]
) -> tuple[_Sums, _Sample | None, Missing]:
    sums, sample, missing = _Sums(), _Sample(len(features)) if sampled else None, Missing(features=features)
    for batch in table.batches(features):
        whole = missing.add(batch)
        watch(len(whole))
        values = batch.values if whole.all() else batch.values[whole]
        sums.add(values)
        if sample is not None:
            sample.add(values)
    if sums.rows > 2:
        missing.rising = tuple(name for name, rising in zip(features, sums.rising) if rising)
    return sums, sample, missing


def _enough(table: Table, features: tuple[str, ...], missing: Missing) -> None:
    if not missing.rows:
        raise TableError(f"{table.told} has {'a header' if table.named else 'columns'} but no rows.")
    if not features:
        raise TableError(f"{table.told}: every column of numbers is empty.")
    if missing.rows == 1:
        raise TableError(f"{table.told} has 1 row, {table.unit} {table.places([0])[0]}; a fit needs at least 2.")
    if missing.rows - missing.left_out < 2:
        raise TableError(
            f"{table.told}: {missing.describe(table)}. That leaves {missing.rows - missing.left_out}, and a fit needs "
            "at least 2: leave such columns out, or fill them in."
        )
