"""From the columns of a table to the features of a fit, the same way for every table that comes later.

A :class:`Preparation` names the columns, says what was left out and holds the centre and the scale of each: it is part
of a model made from a table. The first walk over a table (:func:`prepare`) finds it and counts what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exceptions import TableError
from .sources import Source
from .tables import Batch, Table, listed

Array = NDArray[Any]

SCALINGS = ("standard", "robust", "none")
SAMPLE_BYTES = 1 << 27  # of the rows whose median and quartiles are taken
SAMPLE_ROWS = 100_000
LEFT_OUT = {
    "text": "columns that hold no numbers",
    "empty": "columns without values",
    "constant": "columns of one value",
}
FIRST = 3  # places that a message names


@dataclass(frozen=True)
class Preparation:
    """Which columns, in which order, and how they are scaled: (x - centre) / scale.

    >>> import numpy as np
    >>> cups = Preparation(("tea", "milk"), scaling="standard", centre=np.array([1.0, 2.0]), scale=np.array([1.0, 4.0]))
    >>> cups.apply(np.array([[2.0, 6.0]])).tolist(), cups.undo(np.array([[1.0, 1.0]])).tolist()
    ([[1.0, 1.0]], [[2.0, 6.0]])
    """

    columns: tuple[str, ...]
    scaling: str = "none"
    centre: Array = field(default_factory=lambda: np.empty(0), repr=False)  #: 0 if empty
    scale: Array = field(default_factory=lambda: np.empty(0), repr=False)  #: 1 if empty
    named: bool = True  #: whether the table of the fit named its columns
    width: int = 0  #: columns of numbers it had, where they have no names
    id: str | None = None
    label: str | None = None
    text: tuple[str, ...] = ()  #: columns left out since they hold no numbers
    empty: tuple[str, ...] = ()  #: since they hold nothing
    constant: tuple[str, ...] = ()  #: since they hold one value
    rows_left_out: int = 0  #: of the fit, for missing values

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling={self.scaling!r} must be one of {', '.join(SCALINGS)}.")
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError(f"columns must be at least one name, each once; got {listed(self.columns)}.")
        names = (
            *self.columns,
            *self.text,
            *self.empty,
            *self.constant,
            *(x for x in (self.id, self.label) if x is not None),
        )
        if not all(isinstance(name, str) for name in names):
            raise ValueError("Columns are named by text.")
        if self.width < 0 or self.rows_left_out < 0:
            raise ValueError(f"width={self.width} and rows_left_out={self.rows_left_out} count something.")
        places = {f"column_{at}" for at in range(1, self.width + 1)}
        if not self.named and not set(self.columns) <= places:
            raise ValueError(f"Columns without names are column_1 to column_{self.width}, not {listed(self.columns)}.")
        for name in ("centre", "scale"):
            values = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, values)
            if values.shape != ((0,) if self.scaling == "none" else (len(self.columns),)):
                raise ValueError(f"{name} has shape {values.shape} for {len(self.columns)} columns ({self.scaling}).")
            if not np.isfinite(values).all() or (name == "scale" and (values <= 0).any()):
                raise ValueError(f"{name} must be finite{' and above 0' if name == 'scale' else ''}.")

    def apply(self, block: Array) -> Array:
        """Features of raw rows whose columns are in order (or, where the fit's had no names, all there were)."""
        block = np.asarray(block, dtype=float)
        wide = not self.named and block.ndim == 2 and block.shape[1] == self.width
        if wide and self.width != len(self.columns):
            block = block[:, self._positions()]
        if block.ndim != 2 or block.shape[1] != len(self.columns):
            raise ValueError(f"Rows of shape {block.shape}, but the model takes {len(self.columns)} columns.")
        return block if self.scaling == "none" else (block - self.centre) / self.scale

    def undo(self, array: Array) -> Array:
        """Back to the units of the table."""
        array = np.asarray(array, dtype=float)
        if array.ndim != 2 or array.shape[1] != len(self.columns):
            raise ValueError(f"Features of shape {array.shape}, but the model has {len(self.columns)}.")
        return array if self.scaling == "none" else array * self.scale + self.centre

    def _positions(self) -> list[int]:
        return [int(name.removeprefix("column_")) - 1 for name in self.columns]

    def matched(self, table: Table) -> tuple[str, ...]:
        """The columns of a table that hold the features: by name where both have names, else by place and number."""
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
            + (f" ({listed(self.columns)})." if self.named else ", by their place.")
        )

    def ignored(self, table: Table) -> tuple[str, ...]:
        """Columns of a table that the model has never heard of."""
        known = {*table.aside, *self.columns, *self.text, *self.empty, *self.constant, self.id, self.label}
        return tuple(name for name in table.names if name not in known) if table.named and self.named else ()

    def left_out(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Columns that are not used: the field that lists them, why, and their names."""
        return [(name, why, gone) for name, why in LEFT_OUT.items() if (gone := getattr(self, name))]

    def told(self) -> str:
        """The scaling in words."""
        return {
            "standard": "each column centred and divided by its standard deviation",
            "robust": "each column centred at its median and divided by its interquartile range",
            "none": "none; columns are used as they are",
        }[self.scaling]


@dataclass(frozen=True)
class Prepared(Source):
    """The complete rows of a table, as features."""

    table: Table
    preparation: Preparation
    rows: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, len(self.preparation.columns)

    def pieces(self) -> Iterator[Array]:
        for batch in self.table.batches(self.preparation.matched(self.table)):
            whole = complete(batch.values)
            yield self.preparation.apply(batch.values if whole.all() else batch.values[whole])

    def __str__(self) -> str:
        return f"{self.table.told} ({self.shape[0]} x {self.shape[1]})"


def complete(values: Array) -> Array:
    """Which rows have a number everywhere."""
    if np.isfinite(values.sum()):
        return np.ones(len(values), bool)
    return np.asarray(np.isfinite(values).all(axis=1))


# -- what is missing -----------------------------------------------------------------------


@dataclass
class Missing:
    """Rows without all of their values, gathered batch by batch."""

    features: tuple[str, ...]
    rows: int = 0  # all that were seen
    left_out: int = 0
    first: list[int] = field(default_factory=list)
    lacking: Array = field(default_factory=lambda: np.empty(0))  # how often in each column
    rising: tuple[str, ...] = ()  # columns that grow from row to row, as the number of a row does

    def __post_init__(self) -> None:
        self.lacking = np.zeros(len(self.features), dtype=int)

    def add(self, batch: Batch) -> Array:
        """Which rows of the batch are complete."""
        whole = complete(batch.values)
        self.rows += len(whole)
        if not whole.all():
            self.left_out += int((~whole).sum())
            self.lacking += (~np.isfinite(batch.values)).sum(axis=0)
            if len(self.first) < FIRST:
                self.first += (batch.start + np.flatnonzero(~whole)[: FIRST - len(self.first)]).tolist()
        return whole

    def told(self, table: Table) -> str:
        """How many, in which columns, and where the first are."""
        often = np.argsort(-self.lacking, kind="stable")
        columns = [f"{self.features[at]!r} ({self.lacking[at]})" for at in often if self.lacking[at]]
        more = f" and {len(columns) - 4} more" if len(columns) > 4 else ""
        places = ", ".join(map(str, table.places(self.first)))
        unit = table.unit if len(self.first) == 1 else table.unit + "s"
        return (
            f"{self.left_out} of {self.rows} rows lack a value, in {', '.join(columns[:4])}{more}; "
            f"{'first ' if self.left_out > len(self.first) else ''}{unit} {places}"
        )


# -- the first walk ------------------------------------------------------------------------


@dataclass
class _Sums:
    """Mean, squares about it, least and most of each column; blocks are joined as Chan, Golub and LeVeque (1979) do."""

    rows: int = 0
    mean: Any = 0.0
    squares: Any = 0.0
    low: Any = np.inf
    high: Any = -np.inf
    last: Any = -np.inf
    rising: Any = True  # from row to row

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
        """Columns of one value, up to rounding."""
        return self.high - self.low <= 8 * np.finfo(float).eps * np.maximum(np.abs(self.low), np.abs(self.high))


class _Sample:
    """A random part of rows that come in blocks: those whose random numbers are smallest."""

    def __init__(self, columns: int) -> None:
        self.most = int(max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * columns))))
        self._random = np.random.default_rng(0)
        self._keys, self.rows = np.empty(0), np.empty((0, columns))

    def add(self, values: Array) -> None:
        keys = self._random.random(len(values))
        if len(self._keys) == self.most:
            lower = keys < self._keys.max()
            keys, values = keys[lower], values[lower]
        self._keys, self.rows = np.append(self._keys, keys), np.concatenate([self.rows, values])
        if len(self._keys) > self.most:
            kept = np.sort(np.argpartition(self._keys, self.most)[: self.most])
            self._keys, self.rows = self._keys[kept], self.rows[kept]


def prepare(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    id: str | None = None,
    label: str | None = None,
    scaling: str = "standard",
    watch: Callable[[int], Any] = int,
) -> tuple[Preparation, Missing]:
    """Choose the features of a table and find their centre and scale, in one walk over it.

    Without ``columns`` these are all columns of numbers but ``id`` and ``label``. Columns that hold nothing are left
    out, and so, unless ``scaling`` is "none", are those that hold one value. Rows with a missing value are not counted
    in. Median and quartiles of more than 100,000 rows are those of a random part; where quartiles agree the standard
    deviation takes their place. ``watch`` is told how many rows went by.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling!r} must be one of {', '.join(SCALINGS)}.")
    features, text = _chosen(table, columns, id, label)
    sums, sample, missing = _walked(table, features, scaling == "robust", watch)
    empty = tuple(name for name, lacking in zip(features, missing.lacking) if lacking == missing.rows)
    if empty and missing.rows and columns is None:
        features = tuple(name for name in features if name not in set(empty))
        if features:
            sums, sample, missing = _walked(table, features, scaling == "robust", watch)
    _enough(table, features, missing)
    varied = np.ones(len(features), bool) if scaling == "none" else ~sums.constant
    if not varied.any():
        raise TableError(f"{table.told}: every column holds one value only ({listed(features)}); nothing to embed.")
    found = Preparation(
        columns=tuple(name for name, kept in zip(features, varied) if kept),
        named=table.named,
        width=len(table.numeric),
        id=id,
        label=label,
        text=text,
        empty=empty,
        constant=tuple(name for name, kept in zip(features, varied) if not kept),
        rows_left_out=missing.left_out,
    )
    if scaling == "none":
        return found, missing
    spread = np.sqrt(sums.squares[varied] / sums.rows)
    if sample is None:
        return replace(found, scaling=scaling, centre=sums.mean[varied], scale=spread), missing
    lower, centre, upper = np.percentile(sample.rows[:, varied], [25, 50, 75], axis=0)
    scale = np.where(upper > lower, upper - lower, spread)
    return replace(found, scaling=scaling, centre=centre, scale=scale), missing


def _chosen(
    table: Table, columns: Sequence[str] | None, id: str | None, label: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Feature columns, and those left out since they hold no numbers."""
    table.require([name for name in (id, label) if name is not None], "to carry along")
    if columns is not None:
        table.require(columns, "to use")
        if len(set(columns)) != len(columns):
            raise TableError(f"A column is named twice: {listed(list(columns))}.")
        return tuple(columns), ()
    numbers, other = set(table.numeric), {id, label}
    features = tuple(name for name in table.names if name in numbers - other)
    text = [name for name in table.names if name not in numbers | other | set(table.aside)]
    if not features:
        raise TableError(
            f"{table.told} has no column of numbers to use (it has {listed(table.names)}). Make numbers of words "
            "first, such as a column of 0 and 1 for each."
        )
    return features, tuple(text)


def _walked(
    table: Table, features: tuple[str, ...], sampled: bool, watch: Callable[[int], Any]
) -> tuple[_Sums, _Sample | None, Missing]:
    sums, sample, missing = _Sums(), _Sample(len(features)) if sampled else None, Missing(features)
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
            f"{table.told}: {missing.told(table)}. That leaves {missing.rows - missing.left_out}, and a fit needs at "
            "least 2: leave such columns out, or fill them in."
        )
