"""What a caller passes as rows, or as one number a row, read as arrays; what is no number is refused by its place.

Lists, arrays of any type, sparse matrices, tensors, and the tables of pandas, polars and pyarrow are read. Nothing of
these packages is imported: a table says by its type where it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
from scipy.sparse import issparse

from .._runtime.memory import check_fits
from .._runtime.typing import Array, Matrix, Shaped, Sparse

SHOWN_LETTERS = 60  # of a value in a message
CHECKED_BYTES_FROM = 1 << 28  # a smaller copy is made without asking for the free memory
NUMBER_TYPES = frozenset({float, int, bool, Decimal, Fraction, np.bool_, *np.sctypeDict.values()}) - {
    object, np.object_, np.str_, np.bytes_, np.void, np.datetime64, np.timedelta64,
    np.complex64, np.complex128, np.clongdouble,
}  # fmt: skip
FEW_NAMES = 5  # columns that a message lists


# -- tables --------------------------------------------------------------------------------


def read_rows(X: object, name: str = "X", *, column: bool = False) -> Any:
    """Return rows as a two-dimensional array, or a CSR matrix, of float64 or float32; NaN where a value is missing.

    An array that is one already is returned as it is. Raises TypeError for what is no table, and ValueError for what
    holds something else than numbers; both name the row and the column. With ``column`` X may be a single column.
    """
    if issparse(X):
        return _sparse(cast(Sparse, X), name)
    if _is_frame(X) and _root(X) == "pandas" and _all_sparse(X):
        return _sparse(X.sparse.to_coo(), name)  # type: ignore[attr-defined]
    columns = _columns(X, name)
    if columns is not None:
        return _side_by_side(columns, len(X), name)  # type: ignore[arg-type]
    values = _array(_of_series(X) if column else X, name)
    values = values[:, None] if column and values.ndim == 1 else values
    if values.dtype.kind not in "iufbOUST":
        raise ValueError(_kind_sentence(values.dtype, name, None))
    if values.ndim != 2:
        raise ValueError(_shape_sentence(values, X, name))
    return _as_numbers(values, name)


def column_names(X: object) -> list[object] | None:
    """Return the names of the columns of a table of pandas, polars or pyarrow; None for anything else."""
    if _root(X) == "pyarrow":
        return list(getattr(X, "column_names", ())) or None
    return list(X.columns) if _is_frame(X) else None  # type: ignore[attr-defined]


def _root(X: object) -> str:
    return type(X).__module__.partition(".")[0]


def _is_frame(X: object) -> bool:
    return _root(X) in ("pandas", "polars") and not hasattr(X, "collect") and hasattr(X, "columns")


def _columns(X: object, name: str) -> list[tuple[object, Array]] | None:
    """Return the columns of a table of another library with their names; None if X is none."""
    table: Any = X
    if _is_frame(X) and _root(X) == "pandas":
        series = (table.iloc[:, at] for at in range(table.shape[1]))
        return [(column, _of_pandas(values)) for column, values in zip(table.columns, series)]
    if _is_frame(X):
        return [(values.name, _one_axis(values.to_numpy(), values.name, name)) for values in table.get_columns()]
    if _root(X) == "pyarrow" and hasattr(X, "column_names"):
        chunks = (column.combine_chunks() if hasattr(column, "combine_chunks") else column for column in table.columns)
        return [(column, _of_arrow(values)) for column, values in zip(table.column_names, chunks)]
    return None


def _all_sparse(X: object) -> bool:
    """Whether every column of a table of pandas is sparse, and what it does not store is 0."""
    table: Any = X
    return table.shape[1] > 0 and all(getattr(kind, "fill_value", None) == 0 for kind in table.dtypes)


def _of_pandas(values: object) -> Array:
    series: Any = values
    kind = getattr(series.dtype, "kind", "O")
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series)
    if kind in "iufb":
        return np.asarray(series.to_numpy(dtype=float, na_value=np.nan))
    return np.asarray(series.array.astype(object), dtype=object) if kind == "O" else np.empty(len(series), f"{kind}8")


def _of_arrow(values: object) -> Array:
    column: Any = values
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _one_axis(values: Array, column: object, name: str) -> Array:
    if values.ndim != 1:
        raise ValueError(f"Column {column!r} of {name} holds several values a row. Make a column of each.")
    return values


def _side_by_side(columns: Sequence[tuple[object, Array]], rows: int, name: str) -> Array:
    single = bool(columns) and all(values.dtype == np.float32 for _, values in columns)
    found = empty((rows, len(columns)), np.float32 if single else np.float64, name)
    for number, (column, values) in enumerate(columns):
        found[:, number] = _as_numbers(values, name, column)
    return found


def _sparse(X: Sparse, name: str) -> Matrix:
    if len(X.shape) != 2:
        raise ValueError(
            f"{name} is a sparse array of shape {X.shape}; rows and columns are needed. Reshape your data."
        )
    rows: Any = X.tocsr()  # type: ignore[attr-defined]
    if rows.dtype.kind not in "iufb":
        raise ValueError(_kind_sentence(rows.dtype, name, None))
    found: Matrix = rows if rows.dtype in (np.float64, np.float32) else rows.astype(float)
    return found


# -- arrays --------------------------------------------------------------------------------


def _code(name: str) -> str:
    """Return how the caller's code may call a table that messages call ``name``."""
    return name if name.isidentifier() else "rows"


def _array(X: object, name: str) -> Array:
    """Return anything that is an array, or a sequence of rows, as an array of any type and shape."""
    root = _root(X)
    if isinstance(X, np.ma.MaskedArray):
        return _read_masked(X, name)
    if isinstance(X, np.ndarray):
        return np.asarray(X)
    if root == "torch" and hasattr(X, "detach"):
        return _of_tensor(X, name)
    if hasattr(X, "collect") and root == "polars":
        raise TypeError(f"{name} is a LazyFrame of polars, which holds no rows yet. Pass {_code(name)}.collect().")
    if isinstance(X, Mapping):
        raise TypeError(
            f"{name} is a {type(X).__name__}, which has no order of columns. Pass pandas.DataFrame({_code(name)})."
        )
    if isinstance(X, Set):
        raise TypeError(f"{name} is a {type(X).__name__}, which has no order. Pass a list of rows.")
    if isinstance(X, Iterator):
        raise TypeError(
            f"{name} is a {type(X).__name__}, which can be read once only. Pass list({_code(name)}), or, for rows that "
            "do not fit in memory, a function that returns an iterable of row blocks."
        )
    if isinstance(X, list | tuple | range):
        return _of_sequence(X, name)
    if isinstance(X, str | bytes | bytearray) or X is None:
        raise TypeError(f"{name} is {show_value(X)}; rows and columns of numbers are needed, such as an array.")
    try:
        found = np.asarray(X)
    except Exception as error:
        raise TypeError(
            f"{name}, a {type(X).__name__}, cannot be made an array ({error}). Pass an array or a table."
        ) from error
    if found.dtype == object and found.ndim == 0:
        raise TypeError(
            f"{name} is {show_value(X)}, of type {type(X).__name__}; rows and columns of numbers are needed."
        )
    return found


def _read_masked(X: np.ma.MaskedArray, name: str) -> Array:
    hidden = np.ma.getmaskarray(X)
    if hidden.dtype != bool or not hidden.any():
        return np.asarray(X.data)
    rows = hidden.reshape(len(hidden), -1).any(axis=1) if hidden.ndim else hidden.reshape(1)
    raise ValueError(
        f"{name} is a masked array with {hidden.sum()} of {hidden.size} values masked, the first in row "
        f"{rows.argmax()}. Drop these rows (numpy.ma.compress_rows), or pass {_code(name)}.filled(numpy.nan) and fill "
        "them in with sklearn.impute.SimpleImputer."
    )


def _of_tensor(X: object, name: str) -> Array:
    tensor: Any = X
    if "strided" not in str(tensor.layout):
        raise TypeError(f"{name} is a sparse tensor. Pass {_code(name)}.to_dense(), or a sparse matrix of SciPy.")
    there = tensor.detach().cpu()
    try:
        return np.asarray(there.resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError):  # numbers that NumPy does not have, such as bfloat16
        return np.asarray(there.float().numpy())


def _of_sequence(X: Sequence[Any], name: str) -> Array:
    parts = list(X)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        parts = [_read_masked(part, f"{name}[{at}]") if isinstance(part, np.ma.MaskedArray) else part
                 for at, part in enumerate(parts)]  # fmt: skip
    if any(_root(part) == "torch" for part in parts):
        parts = [
            _of_tensor(part, f"{name}[{at}]") if hasattr(part, "detach") else part for at, part in enumerate(parts)
        ]
    if any(isinstance(part, Mapping) for part in parts):
        raise TypeError(
            f"{name} is a list of dictionaries. Pass pandas.DataFrame({_code(name)}), whose columns have an order."
        )
    try:
        found = np.array(parts)
    except (ValueError, TypeError, OverflowError, DeprecationWarning):
        widths = [
            len(part) if hasattr(part, "__len__") and not isinstance(part, str | bytes) else None for part in parts
        ]
        other = next((at for at, width in enumerate(widths) if width != widths[0]), None)
        if other is not None:
            raise ValueError(
                f"The rows of {name} differ in length: row 0 has {_count(widths[0])}, row {other} "
                f"{_count(widths[other])}. Fill the shorter ones, or drop them."
            ) from None
        return _of_objects(parts, name)
    if found.dtype.kind in "US" and not all(isinstance(part, str | bytes) for part in parts):
        return _of_objects(parts, name)  # numbers beside text have become text
    return found


def _count(width: int | None) -> str:
    return "no values" if width is None else f"{width} value{'s' * (width != 1)}"


def _of_objects(parts: list[Any], name: str) -> Array:
    """Return a list of rows as an array of Python objects, for a message that names one of them."""
    try:
        return np.array(parts, dtype=object)
    except (ValueError, TypeError):
        raise ValueError(
            f"A value of {name} is a sequence itself, and of another length than the others. Each value is one number."
        ) from None


def _shape_sentence(values: Array, X: object, name: str) -> str:
    what = "scalar array" if values.ndim == 0 else f"{values.ndim}D array"
    start = f"Expected 2D array, got {what} instead: {name} has shape {values.shape}. "
    if values.ndim == 1 and hasattr(X, "to_frame"):
        return f"{start}It is one column. Reshape your data: {_code(name)}.to_frame() has one feature."
    if values.ndim < 2:
        return (
            f"{start}Reshape your data: {_code(name)}.reshape(-1, 1) if each value is a row with one feature, "
            f"{_code(name)}.reshape(1, -1) if they are one row."
        )
    return f"{start}Reshape your data: {_code(name)}.reshape(len({_code(name)}), -1) makes one row of each part."


# -- numbers -------------------------------------------------------------------------------


def _as_numbers(values: Array, name: str, column: object = None) -> Array:
    """Return an array of any type as float64, or as it is if its type is float32 or float64.

    ``column`` is the name of its column if it has a single axis.
    """
    kind = values.dtype.kind
    if kind == "f" and values.dtype in (np.float64, np.float32) and values.dtype.isnative:
        return values
    if kind in "iufb":
        check_copy(values.shape, name)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(float)
    if kind in "OUST":
        return _of_cells(values, name, column)
    raise ValueError(_kind_sentence(values.dtype, name, column))


def _kind_sentence(dtype: np.dtype[Any], name: str, column: object) -> str:
    what = name if column is None else f"Column {column!r} of {name}"
    if dtype.kind == "c":
        return (
            f"Complex data not supported: {what} has type {dtype}. Pass real and imaginary parts as features, "
            f"numpy.hstack([{_code(name)}.real, {_code(name)}.imag])."
        )
    if dtype.kind in "mM":
        word, unit = ("durations", "seconds") if dtype.kind == "m" else ("dates", "days since the first one")
        return f"{what} holds {word} ({dtype}), which have no unit as numbers. Convert them, for example to {unit}."
    if dtype.names:
        shown = ", ".join(map(repr, dtype.names[:FEW_NAMES]))
        return (
            f"{what} is a structured array with the fields {shown}. Pass "
            f"numpy.lib.recfunctions.structured_to_unstructured({_code(name)}, dtype=float)."
        )
    return f"{what} has type {dtype}, and numbers are needed."


def _of_cells(values: Array, name: str, column: object) -> Array:
    """Return objects or text as float64: numbers, text that is a number, and NaN for a missing value."""
    check_copy(values.shape, name)
    if values.dtype == object and {type(cell) for cell in values.flat} <= NUMBER_TYPES:
        try:
            return values.astype(float)
        except (OverflowError, ValueError):
            pass  # below, where the value is named
    found = np.empty(values.shape)
    flat = found.reshape(-1)
    for at, cell in enumerate(values.flat):
        try:
            flat[at] = _number(cell)
        except (TypeError, ValueError, OverflowError) as error:
            place = np.unravel_index(at, values.shape)
            of_column = (
                "" if column is None and len(place) == 1 else f", column {place[1] if column is None else repr(column)}"
            )
            raise _cell_error(cell, f"row {place[0]}{of_column} of {name}", error) from None
    return found


def _number(cell: object) -> float:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # of pandas
        return float("nan")
    if isinstance(cell, complex | np.complexfloating | np.generic) and np.asarray(cell).dtype.kind in "cmM":
        raise TypeError
    if getattr(cell, "ndim", 0):
        raise TypeError
    return float(cell)  # type: ignore[arg-type]  # raises TypeError for what is no number


def _cell_error(cell: object, where: str, error: Exception) -> Exception:
    """Return the error about a value that is no number."""
    start = f"{where[0].upper()}{where[1:]} holds {show_value(cell)}"
    if isinstance(cell, str | bytes) and not cell.strip():
        return ValueError(f"{start}, which is empty: could not convert string to float. Write a missing value as NaN.")
    if isinstance(cell, str | bytes):
        return ValueError(
            f"{start}, which is text: could not convert string to float. Leave the column out, or encode it with "
            "sklearn.preprocessing.OneHotEncoder or OrdinalEncoder."
        )
    if isinstance(cell, complex | np.complexfloating):
        return ValueError(
            f"Complex data not supported: {where} holds {show_value(cell)}. Pass real and imaginary parts."
        )
    if isinstance(error, OverflowError):
        return ValueError(f"{start}, beyond the largest float, 1.8e308. Rescale the column or take its logarithm.")
    return TypeError(
        f"{start}, of type {type(cell).__name__}: an argument must be a real number, or a string of one number. "
        "Convert such values, or leave the column out."
    )


def show_value(value: object) -> str:
    """Return how a message shows a value: its text, cut if it is long."""
    try:
        text = repr(value)
    except Exception:  # ints of very many digits have none
        return f"a {type(value).__name__} without a text"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."


def check_copy(shape: tuple[int, ...], name: str, itemsize: int = 8) -> None:
    """Refuse a copy in float64 that cannot be allocated."""
    needed = float(itemsize) * float(np.prod([float(length) for length in shape]))
    if needed >= CHECKED_BYTES_FROM:
        check_fits(
            needed,
            f"{name} of shape {shape} as floating-point numbers needs",
            "Pass fewer rows, or a .npy file with landmarks=.",
        )


def empty(shape: tuple[int, ...], dtype: type, name: str) -> Array:
    check_copy(shape, name, np.dtype(dtype).itemsize)
    return np.empty(shape, dtype)


# -- sizes and missing values --------------------------------------------------------------


def check_size(rows: Shaped, least: int, asker: str) -> None:
    """Refuse a table with fewer than ``least`` rows, or without features."""
    if rows.shape[0] < least:
        hint = "Pass more rows." if rows.shape[0] else "Is a filter too strict?"
        raise ValueError(
            f"Found array with {rows.shape[0]} sample(s) (shape={tuple(rows.shape)}) while a minimum of {least} is "
            f"required by {asker}. {hint}"
        )
    if rows.shape[1] < 1:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={tuple(rows.shape)}) while a minimum of 1 is required. "
            f"{asker} needs at least one column: is a selection of columns empty?"
        )


def refuse_missing(
    rows: Matrix,
    told: str = "X",
    *,
    names: Sequence[object] | None = None,
    start: int | None = None,
    allow_nan: bool = False,
    advice: str = "",
) -> None:
    """Refuse rows with NaN (unless ``allow_nan``) or infinity; the message counts them and names row and column.

    With ``start``, the rows are a block of ``told`` that begins with row ``start``. ``advice`` is added to what to do
    about NaN.
    """
    values: Array = rows if isinstance(rows, np.ndarray) else rows.data
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=float)):
            return
    for word, test in (("NaN", np.isnan), ("infinity", np.isinf)):
        if word == "NaN" and allow_nan:
            continue
        row, column = _places(rows, test)
        if len(row):
            raise ValueError(_missing_sentence(word, row, column, rows.shape, told, names, start, advice))


def _places(rows: Matrix, test: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return row and column of each entry that passes a test, in order of the rows."""
    if isinstance(rows, np.ndarray):
        return np.nonzero(test(rows))  # type: ignore[return-value]
    at = np.flatnonzero(test(rows.data))
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[at]
    return row, rows.indices[at]


def _missing_sentence(
    word: str,
    row: Array,
    column: Array,
    shape: tuple[int, int],
    told: str,
    names: Sequence[object] | None,
    start: int | None,
    advice: str,
) -> str:
    def label(at: int) -> str:
        return f"column {at}" if names is None else f"column {names[at]!r}"

    many = len(np.unique(row))
    counts = np.bincount(column, minlength=shape[1])
    spoiled = int((counts > 0).sum())
    worst = np.argsort(-counts, kind="stable")[: min(FEW_NAMES, spoiled)]
    listed = ", ".join(f"{label(int(at))} has {counts[at]}" for at in worst)
    by_column = (
        "" if spoiled == 1 else f"; {listed}{f', {spoiled - len(worst)} others have some' * (spoiled > len(worst))}"
    )
    scope = f"Input {told} contains {word}: {len(row)} of {shape[0] * shape[1]} values, in {many} of {shape[0]} rows"
    if start is not None:
        block = f"rows {start} to {start + shape[0] - 1} of {told}"
        scope = f"Input contains {word}: {len(row)} values, in {many} of {block}"
    told_of = f"{scope}; the first is row {(start or 0) + row[0]}, {label(int(column[0]))}{by_column}. "
    if word == "NaN":
        return f"{told_of}Drop these rows, or fill them in first (sklearn.impute.SimpleImputer, KNNImputer){advice}."
    return f"{told_of}Drop these rows or clip the values; a division by 0 or the logarithm of 0 gives infinity."


# -- one number a row ----------------------------------------------------------------------


def read_column(values: object, name: str, rows: int) -> Array:
    """Return one finite number for each row as float64, (rows,)."""
    if issparse(values) or _columns(values, name) is not None:
        shape = tuple(values.shape)  # type: ignore[attr-defined]
        raise ValueError(
            f"{name} is a table of shape {shape}, and must be a 1D array with one number for each of {rows} rows. Pass "
            "one of its columns."
        )
    array = _array(_of_series(values), name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a 1D array with one number for each of {rows} rows; got shape {array.shape}.")
    if len(array) != rows:
        raise ValueError(f"{name} has {len(array)} entries for {rows} rows. Pass one number for each row.")
    numbers = _as_numbers(array, name).astype(float, copy=False)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"{name} must be finite: {len(bad)} of {rows} entries are NaN or infinity, the first that of row {bad[0]}."
        )
    return numbers


def _of_series(given: object) -> object:
    """Return a column of another library as an array."""
    values: Any = given
    if _root(values) == "pandas" and hasattr(values, "array") and hasattr(values, "dtype"):
        return _of_pandas(values)
    if _root(values) == "polars" and hasattr(values, "to_numpy"):
        return values.to_numpy()
    return _of_arrow(values) if _root(values) == "pyarrow" and hasattr(values, "to_numpy") else values


def read_weights(name: str, values: object, rows: int) -> Array | None:
    """Return weights, one for each row, all finite and >= 0; a single number is the weight of every row."""
    if values is None:
        return None
    if np.ndim(values) == 0 if isinstance(values, int | float | np.generic | np.ndarray) else False:
        values = np.full(rows, values)
    weights = read_column(values, name, rows)
    bad = np.flatnonzero(weights < 0)
    if len(bad):
        raise ValueError(
            f"{name} must be finite and >= 0; the smallest given is {weights.min():.3g}, and {len(bad)} of {rows} are "
            f"negative, the first that of row {bad[0]}."
        )
    return weights
