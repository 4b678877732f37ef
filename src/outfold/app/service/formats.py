"""Read and write tables in requests and answers: JSON, npy and Arrow. Input is not trusted, and is checked strictly.

Bytes that cannot be decoded raise :class:`Unreadable` (400), a table that the model cannot use :class:`Unfit` (422),
and too large a table :class:`TooMuch` (413). Messages name the row and the column.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, Never

import numpy as np

from ..._runtime.extras import extra
from ..._runtime.typing import Array
from ...data import arrow as data_arrow
from ...data.tables import join_names

JSON = "application/json"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
MEDIA_TYPES = (JSON, NPY, ARROW)

HEADER_BYTES = 4096  # bytes of the header of an npy file, at most
PART_CELLS = 20_000  # numbers that are written to JSON at a time
OTHER_COLUMNS = 1000  # columns that a table may have besides those of the model
_NPY = re.compile(
    rb"\{[ \n]*'descr'[ \n]*:[ \n]*'([<>|][fiu][1248])'[ \n]*,[ \n]*'fortran_order'[ \n]*:[ \n]*(True|False)[ \n]*,"
    rb"[ \n]*'shape'[ \n]*:[ \n]*\(((?:(?:0|[1-9][0-9]{0,19}), ?)*(?:0|[1-9][0-9]{0,19})?)\)[ \n]*,?[ \n]*\}[ \n]*"
)
_RECORD_BATCH = "record batch"


class BadTable(ValueError):
    """A table is refused, with this status of HTTP."""

    status = 400


class Unreadable(BadTable):
    """The bytes are not in the format that their Content-Type says."""


class Unfit(BadTable):
    """The table can be decoded, but the model cannot use it."""

    status = 422


class TooMuch(BadTable):
    """The table has more rows, columns or cells than a request may have."""

    status = 413


@dataclass(frozen=True)
class Taken:
    """The columns and sizes that a table in a request must have."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]  # allowed numbers of columns of a table without names
    most_rows: int
    by_place: bool = False  # whether columns with other names are used in their order

    def check_rows(self, rows: int) -> None:
        """Refuse more than ``most_rows`` rows, and a table without rows."""
        if rows > self.most_rows:
            raise TooMuch(f"{rows} rows; at most {self.most_rows} are taken at a time.")
        if rows == 0:
            raise Unfit("There are no rows.")

    def check_width(self, width: int, told: str) -> None:
        """Refuse rows whose number of columns is not in ``widths``."""
        if width not in self.widths:
            wanted = " or ".join(map(str, dict.fromkeys(self.widths)))
            raise Unfit(f"{told} has {width} numbers; {wanted} are needed ({join_names(self.columns, 6)}).")

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks a column, or has far too many."""
        if len(names) > len(self.columns) + OTHER_COLUMNS:
            raise TooMuch(f"{len(names)} columns; the model has {len(self.columns)}.")
        there = set(names)
        if lacking := [name for name in self.columns if name not in there]:
            raise Unfit(f"Column {join_names(lacking, 6)} is missing; the columns are {join_names(self.columns, 6)}.")

    def finite(self, values: Array) -> Array:
        """Return ``values`` as float64; refuse NaN and infinity."""
        values = np.ascontiguousarray(values, dtype=float)
        if not np.isfinite(values.sum()) and not (whole := np.isfinite(values)).all():
            row, column = (int(at) for at in np.argwhere(~whole)[0])
            name = f" ({self.columns[column]!r})" if values.shape[1] == len(self.columns) else ""
            raise Unfit(f"Row {row}, column {column}{name}: {values[row, column]} is not a finite number.")
        return values


@dataclass(frozen=True, kw_only=True)
class WireTable:
    """The table of an answer: a matrix with a name, and further columns."""

    title: str  # name of the matrix in JSON
    names: list[str]  # names of its columns
    values: Array  # (rows, names)
    beside: dict[str, Array] = field(default_factory=dict)  # further columns (rows,); npy answers leave them out
    more: dict[str, Array] = field(default_factory=dict)  # columns (rows,) that the request asked for


# -- in ------------------------------------------------------------------------------------


def read(form: str, body: bytes, taken: Taken) -> Array:
    """Return the numbers of a table, (rows, columns): finite, and with columns in the order of the model."""
    if not body:
        raise Unreadable("The body is empty.")
    with np.errstate(over="ignore", invalid="ignore"):
        return taken.finite({JSON: _read_json, NPY: _read_npy, ARROW: _read_arrow}[form](body, taken))


def _read_json(body: bytes, taken: Taken) -> Array:
    _check_counts(body, taken)
    document = parse_json(body)
    if not isinstance(document, dict) or len(document) != 1 or next(iter(document)) not in ("rows", "columns"):
        raise Unfit('An object with either "rows" (a list of rows) or "columns" (an object of lists) is needed.')
    rows = document.get("rows")
    if rows is not None:
        return _from_rows(rows, taken)
    columns = document.get("columns")
    if not isinstance(columns, dict):
        raise Unfit('"columns" must be an object of lists; "rows" a list of rows.')
    taken.check_names(list(columns))
    return _from_columns([columns[name] for name in taken.columns], taken)


def _check_counts(body: bytes, taken: Taken) -> None:
    """Refuse JSON whose parsed objects would need far more memory than its text; only characters are counted."""
    lists, objects, commas, colons = (body.count(letter) for letter in (b"[", b"{", b",", b":"))
    wide = max(*taken.widths, len(taken.columns)) + OTHER_COLUMNS
    if objects > OTHER_COLUMNS:
        raise Unreadable(f"{objects} objects; one is needed.")
    if colons > 8 * wide:  # column names may contain colons
        raise TooMuch(f"{colons} colons; the model has {len(taken.columns)} columns.")
    if lists > taken.most_rows + 2 * wide or commas > (taken.most_rows + 1) * wide:
        raise TooMuch(f"{lists} lists and {commas} commas; at most {taken.most_rows} rows are taken at a time.")


def parse_json(body: bytes) -> object:
    """Return the value of JSON text, by the standard: no NaN, no Infinity, no duplicate names, only UTF-8.

    >>> parse_json(b'{"rows": [[1, 2.5]]}')
    {'rows': [[1, 2.5]]}
    """
    try:
        found: object = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise Unreadable("The JSON is nested too deeply.") from None
    except Unreadable:
        raise
    except UnicodeDecodeError as error:
        raise Unreadable(f"The body is not UTF-8, from byte {error.start} on.") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"This is not JSON: {error.msg}, at character {error.pos}.") from None
    except ValueError:  # `int` refuses thousands of digits
        raise Unreadable("The JSON holds a number with too many digits.") from None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Unreadable(f"{twice[:60]!r} is there twice.")
    return found


def _no_constant(name: str) -> Never:
    raise Unreadable(f"{name} is not JSON: only finite numbers are taken.")


def _from_rows(rows: object, taken: Taken) -> Array:
    if not isinstance(rows, list):
        raise Unfit(f'"rows" must be a list of rows, not {_kind(rows)}.')
    taken.check_rows(len(rows))
    for number, row in enumerate(rows):
        if not isinstance(row, list):
            raise Unfit(f"Row {number} must be a list of numbers, not {_kind(row)}.")
        if len(row) != len(rows[0]):
            raise Unfit(f"Row {number} has {len(row)} numbers, row 0 has {len(rows[0])}.")
        if number == 0:
            taken.check_width(len(row), "Row 0")
        _check_numbers(row, (f"Row {number}, column ", ""))
    return np.array(rows, dtype=float)


def _from_columns(columns: list[Any], taken: Taken) -> Array:
    for name, values in zip(taken.columns, columns):
        if not isinstance(values, list):
            raise Unfit(f"Column {name!r} must be a list of numbers, not {_kind(values)}.")
        if len(values) != len(columns[0]):
            raise Unfit(f"Column {name!r} has {len(values)} rows, {taken.columns[0]!r} has {len(columns[0])}.")
    taken.check_rows(len(columns[0]))
    for name, values in zip(taken.columns, columns):
        _check_numbers(values, ("Row ", f", column {name!r}"))
    return np.array(columns, dtype=float).T


def _check_numbers(cells: list[Any], around: tuple[str, str]) -> None:
    """Refuse cells that are not numbers; the message is ``around[0]``, the index in the list, then ``around[1]``."""
    kinds = set(map(type, cells))
    if kinds <= {float}:
        return
    if not kinds <= {int, float}:  # exact types, so that bool is refused
        at, cell = next((at, cell) for at, cell in enumerate(cells) if type(cell) not in (int, float))
        raise Unfit(f"{around[0]}{at}{around[1]}: {_kind(cell)} is not a number.")
    for at, cell in enumerate(cells):
        if type(cell) is int and cell.bit_length() > 1023:
            raise Unfit(f"{around[0]}{at}{around[1]}: a number of {cell.bit_length()} bits is too large.")


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _read_npy(body: bytes, taken: Taken) -> Array:
    """Return the array of an npy file. A regular expression parses its header: nothing is evaluated or unpickled."""
    if body[:6] != b"\x93NUMPY" or len(body) < 12 or body[6] not in (1, 2, 3) or body[7] != 0:
        raise Unreadable("This is not an npy file of version 1, 2 or 3.")
    start, form = (10, "<H") if body[6] == 1 else (12, "<I")
    (size,) = struct.unpack_from(form, body, 8)
    if size > HEADER_BYTES or start + size > len(body):
        raise Unreadable(f"The npy header has {size} bytes; at most {HEADER_BYTES} are read.")
    parts = _NPY.fullmatch(body[start : start + size])
    if parts is None:
        raise Unreadable("The npy header does not tell of plain numbers (float, int or uint of 1 to 8 bytes).")
    shape = tuple(int(part) for part in parts[3].replace(b" ", b"").split(b",") if part)
    if len(shape) != 2:
        raise Unfit(f"The array has {len(shape)} axes; rows and columns are needed.")
    taken.check_rows(shape[0])
    taken.check_width(shape[1], "A row")
    try:
        kind = np.dtype(parts[1].decode())
    except TypeError:  # such as f1, which numpy does not have
        raise Unreadable(f"{parts[1].decode()} is no type of numbers.") from None
    if len(body) - start - size != kind.itemsize * shape[0] * shape[1]:
        raise Unreadable(f"{shape[0]} x {shape[1]} of {kind} are not {len(body) - start - size} bytes.")
    values = np.frombuffer(body, kind, offset=start + size)
    return values.reshape(shape, order="F" if parts[2] == b"True" else "C")


def _read_arrow(body: bytes, taken: Taken) -> Array:
    """Return the columns of the model, by name; other columns are not decoded.

    Compressed buffers are refused, since they could expand without bound.
    """
    arrow, ipc = extra("pyarrow", "io"), extra("pyarrow.ipc", "io")
    try:
        _check_messages(ipc, body)
        schema = ipc.open_stream(arrow.py_buffer(body)).schema
        if len(set(schema.names)) != len(schema.names):
            raise Unfit(f"{len(schema.names)} columns, of which {len(set(schema.names))} have different names.")
        wanted = list(taken.columns)
        if taken.by_place and len(schema.names) in taken.widths and not set(wanted) <= set(schema.names):
            wanted = schema.names
        else:
            taken.check_names(schema.names)
        for name in wanted:
            kind = schema.field(name).type
            if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind)):
                raise Unfit(f"Column {name!r} holds {str(kind)[:60]}, not numbers.")
        options = ipc.IpcReadOptions(
            included_fields=[schema.get_field_index(name) for name in wanted], use_threads=False
        )
        parts, rows = [], 0
        for batch in ipc.open_stream(arrow.py_buffer(body), options=options):
            rows += batch.num_rows
            if rows > taken.most_rows:
                taken.check_rows(rows)
            batch.validate(full=True)
            parts.append(data_arrow.arrow_numbers([batch.column(name) for name in wanted], batch.num_rows))
    except BadTable:
        raise
    except (arrow.ArrowException, OSError, struct.error, ValueError, KeyError, UnicodeError) as error:
        raise Unreadable("This is not an Arrow stream, or is damaged.") from error
    taken.check_rows(rows)
    return np.concatenate(parts)


def _check_messages(ipc: ModuleType, body: bytes) -> None:
    reader = ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type not in ("schema", _RECORD_BATCH):
            raise Unfit("Only plain record batches are taken: no dictionaries.")
        if message.type == _RECORD_BATCH and _is_compressed(message.metadata.to_pybytes()):
            raise Unfit("Compressed buffers are not taken: write the stream without compression.")


def _is_compressed(metadata: bytes) -> bool:
    """Whether the flatbuffer Message holds a RecordBatch whose field ``compression`` is set (the format's number 3)."""

    def entry(table: int, number: int) -> int:
        """Return the offset of a field of a flatbuffer table, 0 if the field is absent."""
        map_ = table - struct.unpack_from("<i", metadata, table)[0]
        (size,) = struct.unpack_from("<H", metadata, map_)
        if 4 + 2 * number >= size:
            return 0
        (offset,) = struct.unpack_from("<H", metadata, map_ + 4 + 2 * number)
        return table + offset if offset else 0

    (root,) = struct.unpack_from("<I", metadata, 0)
    header = entry(root, 2)
    return bool(entry(header + struct.unpack_from("<I", metadata, header)[0], 3))


# -- out -----------------------------------------------------------------------------------


def stack(tables: Sequence[WireTable]) -> WireTable:
    """Return the tables of consecutive rows as one."""
    first = tables[0]
    if len(tables) == 1:
        return first
    beside, more = (
        {name: np.concatenate([getattr(table, group)[name] for table in tables]) for name in getattr(first, group)}
        for group in ("beside", "more")
    )
    values = np.concatenate([table.values for table in tables])
    return WireTable(title=first.title, names=first.names, values=values, beside=beside, more=more)


def write(form: str, table: WireTable) -> list[Callable[[], bytes]]:
    """Return functions whose bytes make up the table: several, which each take a short time, for a large table in JSON.

    JSON has null for numbers that are not finite; npy leaves out ``beside``.
    """
    if form == JSON:
        return _write_json(table)
    return [partial(_write_npy if form == NPY else _write_arrow, table)]


def npy_names(table: WireTable) -> list[str]:
    """Return the names of the columns of an npy answer, which go into a header since npy cannot store them."""
    return [*table.names, *table.more]


def _write_json(table: WireTable) -> list[Callable[[], bytes]]:
    matrix = {table.title: table.values} if table.names else {}
    columns = matrix | table.beside | table.more
    rows = len(table.values)
    if sum(values.size for values in columns.values()) <= PART_CELLS:
        names = {"columns": table.names} if table.names else {}
        return [partial(_dump, names | {name: _lists(values) for name, values in columns.items()})]
    parts: list[Callable[[], bytes]] = []
    before = b'{"columns":' + _dump(table.names) + b"," if table.names else b"{"
    for name, values in columns.items():
        step = max(1, PART_CELLS // (values.size // rows))
        for start in range(0, rows, step):
            opening = before + _dump(name) + b":[" if start == 0 else b","
            parts.append(partial(_write_cells, opening, values[start : start + step], b"]" * (start + step >= rows)))
        before = b","
    return [*parts, lambda: b"}"]


def _write_cells(opening: bytes, values: Array, closing: bytes) -> bytes:
    return opening + _dump(_lists(values))[1:-1] + closing


def _dump(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _lists(values: Array) -> list[object]:
    """Return ``values`` as lists, with None for numbers that are not finite."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        finite, values = np.isfinite(values), values.astype(object)
        values[~finite] = None
    cells: list[object] = values.tolist()
    return cells


def _write_npy(table: WireTable) -> bytes:
    values = np.column_stack([table.values, *table.more.values()]) if table.more else table.values
    held = io.BytesIO()
    np.save(held, np.ascontiguousarray(values, dtype=float), allow_pickle=False)
    return held.getvalue()


def _write_arrow(table: WireTable) -> bytes:
    arrow, ipc = extra("pyarrow", "io"), extra("pyarrow.ipc", "io")
    columns: Mapping[str, Array] = {name: table.values[:, at] for at, name in enumerate(table.names)}
    columns = {**columns, **table.beside, **table.more}
    batch = arrow.RecordBatch.from_pydict({name: arrow.array(np.ascontiguousarray(v)) for name, v in columns.items()})
    held = io.BytesIO()
    with ipc.new_stream(held, batch.schema) as stream:
        stream.write_batch(batch)
    return held.getvalue()
