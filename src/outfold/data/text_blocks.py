"""CSV through pyarrow, a block of bytes at a time: about ten times as quick as the reader of the standard library.

Only text that both readers take in the same way is read here. Anything else ends the walk (:class:`Unlike`), and the
caller goes on from that row with the reader of the standard library, which also words the errors.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, product
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np

from .._runtime.extras import extra
from .._runtime.threads import Threads
from .._runtime.typing import Array

BLOCK_BYTES = 1 << 24  # bytes of text that are parsed at a time
RECORD_BYTES_UP_TO = 1 << 26  # bytes without the end of a record: a quote may not be closed
PARSED_BYTES = 1 << 20  # bytes of a block for one thread of pyarrow
COLUMNS_UP_TO = 2000  # of more columns a block holds so few rows that setting up a column takes longer than reading it
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})  # cells that count as missing, in lower case
_BLANK = " \t"
_QUOTE, _RETURN, _LINE = b'"', b"\r", b"\n"

# (rows, features), and a list of cells for each column carried along
Block: TypeAlias = tuple[Array, list[Sequence[Any]]]


class ArrowColumn(Protocol):
    """The methods of an Arrow column that are used here."""

    @property
    def type(self) -> object: ...
    @property
    def null_count(self) -> int: ...
    def to_numpy(self) -> Array: ...
    def to_pylist(self) -> list[str]: ...


class Unlike(Exception):
    """Raised for text that may mean something else to the reader of the standard library."""


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty or a word for a missing value."""
    return cell.strip().lower() in MISSING


def read_number(cell: str) -> float:
    """Return the number in a cell; raise ValueError if there is none."""
    if "_" in cell:  # Python reads 1_2 as 12
        raise ValueError
    return float(cell)


def read_blocks(
    file: BinaryIO, names: Sequence[str], features: Sequence[str], carried: Sequence[str], separator: str
) -> Iterator[Block]:
    """Yield the features and the columns ``carried`` of consecutive rows, from the place of ``file`` on.

    Raises :class:`Unlike` before the first row that the two readers might not read alike.
    """
    arrow, text = extra("pyarrow", "io"), extra("pyarrow.csv", "io")
    strings = set(carried)
    kinds = {name: arrow.string() if name in strings else arrow.float64() for name in (*features, *carried)}
    if not kinds:  # pyarrow would take all columns
        raise Unlike
    parse = text.ParseOptions(delimiter=separator, newlines_in_values=True)
    reading = text.ReadOptions(column_names=names, block_size=PARSED_BYTES, use_threads=Threads().workers > 1)
    spellings = _spell_missing()

    def parsed(block: bytes, kinds: dict[str, Any]) -> Block:
        convert = text.ConvertOptions(
            column_types=kinds, include_columns=list(kinds), null_values=spellings, strings_can_be_null=False
        )
        table = text.read_csv(arrow.py_buffer(block), reading, parse, convert)
        values = np.empty((table.num_rows, len(features)))
        for number, name in enumerate(features):
            values[:, number] = _floats(table.column(name))
        return values, [table.column(name).to_pylist() for name in carried]

    for block in _whole_records(file):
        _check_alike(block, separator.encode())
        if not (block[:4096].strip(b"\r\n") or block.strip(b"\r\n")):
            continue
        try:
            yield parsed(block, kinds)
            continue
        except ValueError:  # a cell such as 1_2 or " NA" (the errors of pyarrow derive from ValueError)
            pass
        try:
            yield parsed(block, dict.fromkeys(kinds, arrow.string()))
        except ValueError as error:
            raise Unlike from error


def regroup(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Yield the same rows in blocks of ``rows`` rows; the last may be shorter."""
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        if (count := sum(len(values) for values, _ in held)) < rows:
            continue
        values, cells = _join(held)
        for at in range(0, count - rows + 1, rows):
            yield values[at : at + rows], [column[at : at + rows] for column in cells]
        left = count - count % rows
        held = [(values[left:], [column[left:] for column in cells])]
    values, cells = _join(held)
    if len(values):
        yield values, cells


def _join(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*(cells for _, cells in blocks))
    values = np.concatenate([values for values, _ in blocks]) if blocks else np.empty((0, 0))
    return values, [list(chain.from_iterable(column)) for column in columns]


def _spell_missing() -> list[str]:
    """Return the words for a missing value in all mixtures of small and capital letters."""
    mixtures = (product(*({letter, letter.upper()} for letter in word)) for word in MISSING)
    return sorted({"".join(letters) for mixture in mixtures for letters in mixture})


def _floats(column: ArrowColumn) -> Array:
    """Return a column as float64, NaN where a value is missing; raise ValueError at a cell that is no number."""
    arrow, compute = extra("pyarrow", "io"), extra("pyarrow.compute", "io")
    if arrow.types.is_floating(column.type):
        found: Array = column.to_numpy()
        if np.count_nonzero(np.isnan(found)) != column.null_count:
            raise ValueError("pyarrow takes nan(1) for a number")
        return found
    bare = compute.utf8_trim(column, _BLANK)
    missing = compute.is_in(compute.ascii_lower(bare), value_set=arrow.array(sorted(MISSING)))
    with suppress(arrow.ArrowInvalid):
        found = compute.if_else(missing, None, bare).cast(arrow.float64()).to_numpy()
        if np.count_nonzero(np.isnan(found)) == compute.sum(missing).as_py():
            return found
    return np.array([np.nan if is_missing(cell) else read_number(cell) for cell in column.to_pylist()])


def _whole_records(file: BinaryIO) -> Iterator[bytes]:
    """Yield blocks of whole records: each ends at a line feed with an even number of quotes before it."""
    rest, more = b"", True
    while more:
        if len(rest) >= RECORD_BYTES_UP_TO:
            raise Unlike
        read = file.read(BLOCK_BYTES)
        more, rest = bool(read), rest + read
        cut = end = len(rest)
        quotes = rest.count(_QUOTE) if more and _QUOTE in rest else 0
        while more and (cut := rest.rfind(_LINE, 0, end)) >= 0:
            quotes, end = quotes and quotes - rest.count(_QUOTE, cut, end), cut
            if quotes % 2 == 0:
                break
        cut = cut + 1 if more else len(rest)
        if cut > 0:
            yield rest[:cut]
            rest = rest[cut:]


def _check_alike(block: bytes, separator: bytes) -> None:
    """Raise :class:`Unlike` if the two readers might cut the block into different cells."""
    if b"\0" in block:
        raise Unlike
    if _RETURN in block and block.count(_RETURN) != block.count(b"\r\n"):
        raise Unlike
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unlike from error
    limit = csv.field_size_limit()
    window = max(1, limit // 2)  # a cell that is too long covers one of these windows
    for at in range(0, len(block) - window + 1, window):
        if block.find(separator, at, at + window) < 0 and block.find(_LINE, at, at + window) < 0:
            raise Unlike
    if _QUOTE in block:
        _check_quotes(np.frombuffer(_LINE + block + _LINE, np.uint8), separator, limit)


def _check_quotes(letters: Array, separator: bytes, limit: int) -> None:
    """Raise :class:`Unlike` unless every quote opens a cell, closes it, or is one of two within it."""
    quotes = np.flatnonzero(letters == ord(_QUOTE))
    if len(quotes) % 2:
        raise Unlike
    opening, closing = quotes[::2], quotes[1::2]
    doubled = opening[1:] == closing[:-1] + 1
    opening, closing = opening[np.append(True, ~doubled)], closing[np.append(~doubled, True)]
    ends = np.zeros(256, bool)
    ends[[ord(separator), ord(_LINE)]] = True
    before = ends[letters[opening - 1]]
    ends[ord(_RETURN)] = True
    if not (before.all() and ends[letters[closing + 1]].all()) or (closing - opening).max() > limit:
        raise Unlike
