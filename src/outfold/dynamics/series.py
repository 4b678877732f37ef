"""Collections of time series, read from what callers have: frames, lists of arrays, arrays with labels.

There is no container of our own: results come back in the form of the input.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn import get_config

from .._runtime.typing import Array, Data, Shaped
from ..data import inputs
from ..data.sources import require_in_memory

Column: TypeAlias = str | ArrayLike | None  # one entry for each row, or the name of a column of a frame
SeriesData: TypeAlias = Array | list[Array] | Shaped  # an array, a list of arrays or a frame, as the input was

OFF_GRID = 1e-3  # of a step: times further from a whole number of steps are irregular


class Entries(Protocol):
    """One entry for each row: an array, or an index of pandas."""

    @property
    def dtype(self) -> object: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> object: ...

    def __add__(self, ahead: Array, /) -> Entries: ...

    def take(self, rows: Array, /) -> Entries: ...

    def tolist(self) -> list[Any]: ...


class Form(Protocol):
    """How the caller passed the rows, and so how results are returned."""

    @property
    def single_table(self) -> bool:
        """Whether results are one table of features."""
        ...

    def restore(self, values: Array, rows: Array, names: list[str]) -> SeriesData:
        """Return values of some of the caller's rows in the caller's order."""
        ...

    def extend(self, values: Array, last: Array, ahead: Array, names: list[str]) -> SeriesData:
        """Return values that follow the last row of each series, ``ahead`` after it; values (series, ahead, d)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Series:
    """Rows of all series, one series after another in the order of time, cut into stretches without a gap."""

    values: Array  # (n, d)
    starts: Array  # (stretches + 1,): the first row of each stretch, and n
    owners: Array  # (stretches,): the series of each stretch
    labels: list[object]  # the name of each series
    times: Array  # (n,); of dates, seconds since the first
    stamps: Entries  # (n,), in the order of the caller's rows: the times as the caller wrote them
    rows: Array  # (n,): the caller's number of each row
    step: float  # between two rows of a stretch
    table: Any  # the features as the caller passed them, for the check of number and names
    form: Form

    def with_values(self, values: Array) -> Series:
        """Return the same rows with other values."""
        return replace(self, values=values, table=values)

    def ages(self) -> Array:
        """Return how many rows of its stretch come before each row, (n,)."""
        first: Array = np.repeat(self.starts[:-1], np.diff(self.starts))
        return np.arange(len(first)) - first

    def select(self, kept: Array) -> Series:
        """Return the rows where ``kept`` is True. Of each stretch these must be successive."""
        counts = np.add.reduceat(kept.astype(int), self.starts[:-1])
        left = counts > 0
        return replace(
            self,
            values=self.values[kept],
            starts=np.append(0, np.cumsum(counts[left])),
            owners=self.owners[left],
            times=self.times[kept],
            rows=self.rows[kept],
        )

    def pairs(self) -> tuple[Array, Array]:
        """Return the rows that have a successor in their stretch, and these successors."""
        has_next = np.ones(len(self.times), dtype=bool)
        has_next[self.starts[1:] - 1] = False
        before = np.flatnonzero(has_next)
        return before, before + 1

    def ends(self) -> Array:
        """Return the last row of each series, in the order of ``labels``."""
        last = np.zeros(len(self.labels), dtype=int)
        last[self.owners] = self.starts[1:] - 1  # of several stretches the last assignment counts
        return last

    def require(self, least: int, why: str) -> None:
        """Refuse a series without a stretch of ``least`` rows; ``why`` says what needs them."""
        longest = np.zeros(len(self.labels), dtype=int)
        np.maximum.at(longest, self.owners, np.diff(self.starts))
        if (longest >= least).all():
            return
        which = int((longest < least).argmax())
        of_it = np.flatnonzero(np.repeat(self.owners, np.diff(self.starts)) == which)
        first, last = (self.stamps[self.rows[row]] for row in of_it[[0, -1]])
        samples = f"{longest[which]} sample{'s' * int(longest[which] != 1)}"
        raise ValueError(
            f"{self.title(which)} has {samples} in its longest stretch without a gap ({len(of_it)} in all, from "
            f"time {_show(first)} to {_show(last)}, one step is {self.step:g}), and {why} needs {least}. Leave this "
            "series out, or fill in its missing times."
        )

    def require_ends(self, least: int, why: str) -> None:
        """Refuse a series whose last stretch has fewer than ``least`` rows."""
        for which, last in enumerate(self.ends()):
            length = int(last - self.starts[np.searchsorted(self.starts, last, side="right") - 1]) + 1
            if length < least:
                raise ValueError(
                    f"{self.title(which)} ends, at time {_show(self.stamps[self.rows[last]])}, with {length} "
                    f"row{'s' * (length != 1)} after its last gap, and {why} needs {least}. Pass a longer history."
                )

    def title(self, which: int) -> str:
        """Return what messages call a series."""
        return f"Series {_show(self.labels[which])}"

    def restore(self, names: list[str]) -> SeriesData:
        """Return the values in the form of the caller's input."""
        return self.form.restore(self.values, self.rows, names)


class FeatureMaker(Protocol):
    """A transformer of scikit-learn."""

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array: ...


def return_features(estimator: FeatureMaker, found: Series) -> SeriesData:
    """Return features of an estimator in the form of its input, where ``set_output`` can take that form."""
    container = getattr(estimator, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    if container != "default" and not found.form.single_table:
        raise ValueError(
            f"set_output(transform={container!r}) makes one frame of features. A list comes back as a list, and a "
            "frame with columns of series and time as such a frame: call set_output(transform='default')."
        )
    return found.restore(estimator.get_feature_names_out().tolist())


# -- forms ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayForm:
    """One array, of one series or, with labels, of several."""

    several: bool
    single_table: ClassVar[bool] = True

    def restore(self, values: Array, rows: Array, names: list[str]) -> SeriesData:
        return values[np.argsort(rows)]

    def extend(self, values: Array, last: Array, ahead: Array, names: list[str]) -> SeriesData:
        return list(values) if self.several else values[0]


@dataclass(frozen=True)
class ListForm:
    """A list of arrays, one for each series."""

    lengths: Array
    single_table: ClassVar[bool] = False

    def restore(self, values: Array, rows: Array, names: list[str]) -> SeriesData:
        first = np.searchsorted(rows, np.cumsum(self.lengths)[:-1])
        return np.split(values, first)

    def extend(self, values: Array, last: Array, ahead: Array, names: list[str]) -> SeriesData:
        return list(values)


@dataclass(frozen=True)
class FrameForm:
    """A frame of pandas or polars, with its index or the columns that name series and time."""

    frame: Any
    keys: dict[str, str]  # "series" and "time" -> the column
    stamps: Entries | None
    labels: Entries | None

    @property
    def single_table(self) -> bool:
        return not self.keys

    def restore(self, values: Array, rows: Array, names: list[str]) -> SeriesData:
        order = np.argsort(rows)
        taken, values = rows[order], values[order]
        if not hasattr(self.frame, "index"):  # polars
            kept = {name: self.frame[name][taken] for name in self.keys.values()}
            return self._build({**kept, **dict(zip(names, values.T))})
        index = self.frame.index.take(taken)
        kept = {name: self.frame[name].iloc[taken] for name in self.keys.values()}
        return self._build({**kept, **dict(zip(names, values.T))}, index=index)

    def extend(self, values: Array, last: Array, ahead: Array, names: list[str]) -> SeriesData:
        """Return a frame with the index, or the columns, of series and time continued."""
        taken = np.repeat(last, len(ahead))
        times = None if self.stamps is None else _later(self.stamps, taken, np.tile(ahead, len(last)))
        labels = None if self.labels is None else self.labels.take(taken)
        columns: dict[str, Any] = dict(zip(names, values.reshape(-1, values.shape[2]).T))
        if "time" in self.keys:
            columns = {self.keys["time"]: times, **columns}
        if "series" in self.keys:
            columns = {self.keys["series"]: labels, **columns}
        index: Any = getattr(self.frame, "index", None)
        if index is None or times is None or "time" in self.keys:
            return self._build(columns)
        if getattr(index, "nlevels", 1) == 2:
            times = type(index).from_arrays([labels, times], names=index.names)
        return self._build(columns, index=times)

    def _build(self, columns: dict[str, Any], **more: object) -> Shaped:
        frame: Shaped = type(self.frame)(columns, **more)
        return frame


def _later(stamps: Entries, rows: Array, ahead: Array) -> Entries:
    """Return the stamps of some rows plus times ahead, in the type of the stamps."""
    start = stamps.take(rows)
    kind = getattr(start.dtype, "kind", "M")
    if kind in "mM":
        return start + np.rint(ahead * 1e9).astype("timedelta64[ns]")
    whole = kind in "iu" and (ahead == np.rint(ahead)).all()
    return start + (ahead.astype(int) if whole else ahead)


# -- reading -------------------------------------------------------------------------------


def read_series(X: Data, series: Column = None, time: Column = None, *, step: float | None = None) -> Series:
    """Return the rows of all series in order.

    Parameters
    ----------
    X : an array (n, d) of one series; a list of such arrays; a frame of pandas with an index (series, time)
        Or a frame of pandas or polars with columns for series and time.
    series, time : array with an entry for each row, or name of a column, optional
        Rows of one series need not stand together, but must be in the order of time. Without ``time``, rows of a
        series are one step apart.
    step : float, optional
        The step of a fit, of which all times must be whole multiples; without it the smallest step of X.
    """
    require_in_memory(X)
    if issparse(X):
        raise TypeError("Series do not take sparse matrices. Pass X.toarray() if it fits in memory.")
    table, labels, stamps, form = _parts(X, series, time)
    values = np.asarray(inputs.read_rows(table), dtype=float)
    inputs.check_size(values, 1, "a collection of series")
    codes, names = _number_labels(labels, len(values))
    rows = np.argsort(codes, kind="stable")
    if stamps is None:
        times = _count_rows(codes) * (1.0 if step is None else step)
        stamps = times
    else:
        times = _seconds(stamps, len(values))
    _refuse_missing(values, codes, names, stamps, inputs.column_names(table))
    starts, step = _cut(codes[rows], times[rows], rows, names, stamps, step)
    return Series(
        values=values[rows],
        starts=starts,
        owners=codes[rows][starts[:-1]],
        labels=names,
        times=times[rows],
        stamps=stamps,
        rows=rows,
        step=step,
        table=table,
        form=form,
    )


def _parts(X: Data, series: Column, time: Column) -> tuple[Any, Any, Any, Form]:
    """Return the table of features, the labels and times of its rows (or None), and the form of X."""
    if inputs.column_names(X) is not None and type(X).__module__.partition(".")[0] in ("pandas", "polars"):
        return _frame_parts(X, series, time)
    for word, given in (("series", series), ("time", time)):
        if isinstance(given, str):
            raise ValueError(f"{word}={given!r} names a column, and X is no frame. Pass an array with an entry a row.")
    if isinstance(X, list | tuple) and any(hasattr(part, "shape") and np.ndim(part) != 0 for part in X):
        return _list_parts(list(X), series, time)
    labels = None if series is None else np.asarray(series)
    return X, labels, None if time is None else np.asarray(time), ArrayForm(series is not None)


def _list_parts(parts: list[Any], series: Column, time: Column) -> tuple[Array, Array, None, Form]:
    if series is not None or time is not None:
        raise ValueError(
            "A list of arrays is one series for each array, with a step of 1; series= and time= are for one array. "
            "Pass numpy.concatenate(X) with them."
        )
    for number, part in enumerate(parts):
        if inputs.column_names(part) is not None:
            raise TypeError(
                f"X[{number}] is a frame. Pass one frame: pandas.concat(dict(enumerate(X)), names=['series', 'time'])."
            )
        if np.ndim(part) != 2:
            raise ValueError(
                f"X[{number}] has shape {np.shape(part)}, and each series is an array of shape (times, features). Pass "
                "part[:, None] for a series of one feature."
            )
        if np.shape(part)[1] != np.shape(parts[0])[1]:
            raise ValueError(
                f"X[{number}] has {np.shape(part)[1]} features and X[0] has {np.shape(parts[0])[1]}. All series need "
                "the same features."
            )
        inputs.check_size(part, 1, f"series {number}")
    values = [np.asarray(inputs.read_rows(part, f"X[{number}]")) for number, part in enumerate(parts)]
    lengths = np.array([len(part) for part in values])
    return np.concatenate(values), np.repeat(np.arange(len(parts)), lengths), None, ListForm(lengths)


def _frame_parts(X: Data, series: Column, time: Column) -> tuple[Any, Any, Any, Form]:
    frame: Any = X
    columns = list(frame.columns)
    keys: dict[str, str] = {}
    for word, given in (("series", series), ("time", time)):
        if isinstance(given, str):
            if given not in columns:
                raise ValueError(
                    f"{word}={given!r} is not a column of X, whose columns are {', '.join(map(repr, columns[:5]))}."
                )
            keys[word] = given
    table = frame[[column for column in columns if column not in keys.values()]] if keys else frame
    labels, stamps = _index_parts(frame, series, time)
    if series is not None:
        labels = _column_of(frame, keys["series"]) if "series" in keys else np.asarray(series)
    if time is not None:
        stamps = _column_of(frame, keys["time"]) if "time" in keys else np.asarray(time)
    return table, labels, stamps, FrameForm(frame, keys, stamps, labels)


def _column_of(frame: object, name: str) -> Entries:
    """Return a column as an index of pandas, which keeps time zones, or as an array."""
    table: Any = frame
    column: Entries = table.set_index(name).index if hasattr(table, "index") else table[name].to_numpy()
    return column


def _index_parts(frame: object, series: Column, time: Column) -> tuple[Entries | None, Entries | None]:
    """Return the labels and times in the index of a frame of pandas, without those that are passed."""
    index: Any = getattr(frame, "index", None)  # polars has none
    levels = getattr(index, "nlevels", 1)
    if index is None or len(index) == 0 or (series is not None and time is not None):
        return None, None
    if levels > 2:
        raise ValueError(
            f"The index of X has {levels} levels, {', '.join(map(repr, index.names))}, and needs two: series and time. "
            "Join the others into one label, or pass series= and time=."
        )
    labels, stamps = (index.get_level_values(0), index.get_level_values(1)) if levels == 2 else (None, index)
    kind = getattr(stamps.dtype, "kind", "O")
    if time is not None or (series is not None and levels == 1 and kind not in "mM"):
        return labels, None  # row numbers of several series are no times
    if kind not in "iufmM":
        raise ValueError(
            f"The {'second level of the ' * (levels == 2)}index of X holds {_show(stamps[0])}, and is the time: "
            "numbers or dates. Pass X.reset_index(drop=True) for one series with a step of 1, or set the index to "
            "(series, time)."
        )
    return labels, stamps


def _number_labels(labels: Entries | None, n: int) -> tuple[Array, list[object]]:
    """Return the number of the series of each row, and the name of each series, in the order of appearance."""
    if labels is None:
        return np.zeros(n, dtype=int), [0]
    if labels.shape != (n,):
        raise ValueError(f"series has shape {labels.shape}, and needs one label for each of {n} rows.")
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=int)
    for label, number in numbers.items():
        if label is None or label != label:
            raise ValueError(f"Row {int((codes == number).argmax())} of X belongs to no series: its label is {label}.")
    return codes, list(numbers)


def _count_rows(codes: Array) -> Array:
    """Return how many earlier rows belong to the same series, (n,)."""
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes[order])
    counts = np.empty(len(codes))
    counts[order] = np.arange(len(codes)) - first
    return counts


def _seconds(stamps: Entries, n: int) -> Array:
    """Return times as numbers: dates and durations as seconds since the first of them."""
    kind = getattr(getattr(stamps, "dtype", None), "kind", "O")
    if kind not in "mM":
        return inputs.read_column(np.asarray(stamps), "time", n)
    ticks = np.asarray(stamps, dtype=f"{kind}8[ns]")
    missing = np.isnat(ticks)
    if len(ticks) != n or missing.any():
        told = f"{missing.sum()} are missing, the first that of row {missing.argmax()}" if missing.any() else "no more"
        raise ValueError(f"time needs a date for each of {n} rows; it has {len(ticks)} entries, and {told}.")
    whole = ticks.astype(np.int64)
    return np.asarray((whole - whole.min()) / 1e9)


def _refuse_missing(
    values: Array,
    codes: Array,
    labels: list[object],
    stamps: Entries,
    names: list[object] | None,
) -> None:
    """Refuse NaN and infinity; the message names series and time."""
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return
    row, column = (int(at) for at in bad[0])
    what = "NaN" if np.isnan(values[row, column]) else "infinity"
    where = f"column {column}" if names is None else f"column {names[column]!r}"
    raise ValueError(
        f"Series {_show(labels[codes[row]])} has {what} at time {_show(stamps[row])}, {where} (input X contains "
        f"{what} or other values that are not finite in {len(np.unique(bad[:, 0]))} of {len(values)} rows). Drop these "
        "rows, which leaves a gap, or fill them in."
    )


def _cut(
    codes: Array,
    times: Array,
    rows: Array,
    labels: list[object],
    stamps: Entries,
    step: float | None,
) -> tuple[Array, float]:
    """Return where stretches start, and the step. Rows are in the order of series and time."""
    same = codes[1:] == codes[:-1]
    change = np.diff(times)
    late = np.flatnonzero(same & (change <= 0))
    if len(late):
        raise ValueError(_order_sentence(int(late[0]), change, codes, rows, labels, stamps))
    known = step is not None
    if step is None:
        step = _smallest_step(change[same])
    counts = np.rint(change / step)
    wrong = np.flatnonzero(same & ((np.abs(change / step - counts) > OFF_GRID) | (counts < 1)))
    if len(wrong):
        at = int(wrong[0])
        earlier, later = (_show(stamps[rows[at + more]]) for more in (0, 1))
        of_what = "the step of the fit" if known else "the smallest step of all series"
        raise ValueError(
            f"Series {_show(labels[codes[at]])} has irregular times: {later} is {change[at] / step:.4g} steps after "
            f"{earlier}, and one step is {step:g}, {of_what}. Interpolate the series at regular times; missing times "
            "are allowed, times between steps are not."
        )
    fresh = np.flatnonzero(~same | (counts > 1)) + 1
    return np.concatenate([[0], fresh, [len(times)]]).astype(int), float(step)


def _smallest_step(changes: Array) -> float:
    """Return the mean of the changes that are as small as the smallest one; 1 if there are none."""
    if not len(changes):
        return 1.0
    smallest = changes.min()
    return float(changes[changes <= smallest * (1 + OFF_GRID)].mean())


def _order_sentence(at: int, change: Array, codes: Array, rows: Array, labels: list[object], stamps: Entries) -> str:
    earlier, later = (_show(stamps[rows[at + more]]) for more in (0, 1))
    label = _show(labels[codes[at]])
    if change[at] == 0:
        return (
            f"Series {label} has time {earlier} twice, in rows {rows[at]} and {rows[at + 1]} of X. Drop one of them, "
            "or give the rows of each series a label of their own."
        )
    return (
        f"Series {label} goes back in time: {later}, in row {rows[at + 1]} of X, comes after {earlier}. Sort the rows "
        "of each series by time (X.sort_index())."
    )


def _show(value: object) -> str:
    """Return a label or a time for a message."""
    plain = value.item() if isinstance(value, np.number | np.str_) else value
    return f"{plain:.10g}" if isinstance(plain, float) else repr(plain) if isinstance(plain, str) else str(plain)
