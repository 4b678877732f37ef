"""Columns of the page as bytes: numbers, codes of words, or text, one entry per row; compressed for a file."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..._runtime.typing import Array

LEVELS = 65535  # codes of a number that is stored in two bytes; code 65535 itself means "missing"
COARSE = 4095  # codes of a coordinate if `LEVELS` would make the file too large
EXACT_ROWS = 100_000  # a file with up to this many rows stores numbers in four bytes
MOST_WORDS = 4096  # different values of a column that is coloured in groups, at most
CELL_LETTERS_UP_TO = 500  # letters of a cell
AXES = 3  # coordinates that a file always stores, whatever their size
IN_ORDER = 10  # up to this many words are sorted by name, and each has its own colour
_DIGIT_RUNS = re.compile(r"([0-9]+)")
_DTYPES = {"f4": "<f4", "i4": "<i4", "u1": "u1", "u2": "<u2"}


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A column of the page: numbers, codes of words, or text."""

    name: str
    role: str  # coordinate, outside, p_value, support, error, label, column, id or row
    values: Array  # float32, int32, or codes of words (uint8, uint16); empty for text
    words: tuple[str, ...] = ()  # the word of each code
    cells: tuple[str, ...] | None = None  # the cells of a text column
    low: float = 0.0  # a quantised number is low + step * code
    step: float = 0.0  # 0 if the numbers are not quantised

    @property
    def kind(self) -> str:
        """The type of the bytes, for the script: text, q2 (quantised), f4, i4, u1 or u2."""
        if self.cells is not None:
            return "text"
        if self.step:
            return "q2"
        return {"f": "f4", "i": "i4"}.get(self.values.dtype.kind) or f"u{self.values.dtype.itemsize}"

    def head(self) -> dict[str, object]:
        """Return the description that a reader needs to decode the bytes."""
        found: dict[str, object] = {"name": self.name, "role": self.role, "kind": self.kind}
        if self.step:
            found |= {"low": self.low, "step": self.step}
        return found | ({"words": list(self.words)} if self.words else {})

    def raw(self) -> bytes:
        """Return the values as little-endian bytes; text as a JSON list."""
        if self.cells is not None:
            return json.dumps(self.cells, ensure_ascii=False).encode("utf-8")
        return self.values.astype(_DTYPES["u2" if self.step else self.kind], copy=False).tobytes()

    def pack(self) -> bytes:
        """Return the bytes compressed by zlib: all first bytes of the numbers, then all second bytes, and so on.

        Bytes in this order compress better.
        """
        raw = self.raw()
        if self.cells is None and self.values.itemsize > 1:
            raw = np.frombuffer(raw, np.uint8).reshape(-1, self.values.itemsize).T.tobytes()
        return zlib.compress(raw, 6)

    def quantise(self, levels: int = LEVELS) -> Stream:
        """Return real numbers as codes of two bytes, rounded by at most half of 1/levels of the range."""
        if self.kind != "f4":
            return self
        finite = np.isfinite(self.values)
        low, high = (float(f(self.values[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
        step = (high - low) / (levels - 1) or 1.0
        codes = np.full(len(self.values), LEVELS, np.uint16)
        codes[finite] = np.round((self.values[finite].astype(float) - low) / step).astype(np.uint16)
        return replace(self, values=codes, low=low, step=step)


def numbers(name: str, role: str, values: Array) -> Stream:
    """Return a stream of real numbers (float32), NaN where missing."""
    with np.errstate(over="ignore"):
        return Stream(name=name, role=role, values=np.asarray(values).astype(np.float32))


def group(name: str, role: str, cells: Sequence[object]) -> Stream:
    """Return a stream of words as codes: up to ``IN_ORDER`` words are sorted, more are ordered by frequency.

    More than ``MOST_WORDS`` different words are stored as text.

    >>> found = group("tea", "label", ["green", "black", "black", None])
    >>> found.words, found.values.tolist()
    (('(missing)', 'black', 'green'), [2, 1, 1, 0])
    """
    texts = np.array([_text(cell) for cell in cells], dtype=object)
    words, codes, counts = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
    if len(words) > MOST_WORDS:
        return Stream(name=name, role=role, values=np.empty(0, np.uint8), cells=tuple(texts))
    order = np.argsort(-counts, kind="stable")
    if len(words) <= IN_ORDER:
        order = np.array(sorted(range(len(words)), key=lambda at: _natural(str(words[at]))))
    places = np.empty(len(order), np.uint8 if len(order) < 256 else np.uint16)
    places[order] = np.arange(len(order))
    return Stream(name=name, role=role, values=places[codes.ravel()], words=tuple(str(words[at]) for at in order))


def _natural(word: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts "digit 9" before "digit 10"."""
    parts = [part for part in _DIGIT_RUNS.split(word) if part]
    return [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts]


def name_column(name: str, cells: Sequence[object]) -> Stream:
    """Return the stream of the names of rows: whole numbers if all are, else text."""
    texts = [_text(cell) for cell in cells]
    try:
        whole = [int(text) for text in texts]
    except ValueError:
        whole = []
    if whole and all(abs(value) < 1 << 31 and str(value) == text for value, text in zip(whole, texts)):
        return Stream(name=name, role="id", values=np.array(whole, np.int32))
    return Stream(name=name, role="id", values=np.empty(0, np.uint8), cells=tuple(texts))


def _text(cell: object) -> str:
    text = "" if cell is None or cell != cell else str(cell).strip()
    return (text if len(text) <= CELL_LETTERS_UP_TO else text[: CELL_LETTERS_UP_TO - 1] + "…") or "(missing)"


def fit_ends(streams: Sequence[Stream], rows: int, most: int) -> tuple[list[Stream], list[str], list[str]]:
    """Return streams with at most ``most`` base64 letters in total, these letters, and notes on what was given up.

    First numbers are rounded, then the last columns are left out. Then coordinates are rounded, and at the end the last
    coordinates are left out.
    """
    if rows <= EXACT_ROWS:
        letters = [_letters(stream) for stream in streams]
        if sum(map(len, letters)) <= most:
            return list(streams), letters, []
    axes = [stream for stream in streams if stream.role == "coordinate"]
    for levels in (LEVELS, COARSE):
        small = [stream.quantise(levels) for stream in axes]
        letters = [_letters(stream) for stream in small]
        if sum(map(len, letters)) <= 0.8 * most:
            break
    notes = [f"Numbers are rounded to 1/{levels} of their range, to keep the file small."]
    while len(small) > AXES and sum(map(len, letters)) > 0.8 * most:
        small.pop()
        letters.pop()
    gone = [stream.name for stream in axes[len(small) :]]
    room = most - sum(map(len, letters))
    for stream in (stream.quantise() for stream in streams if stream.role != "coordinate"):
        text = _letters(stream) if room > 0 else ""
        if not text or len(text) > room:
            gone.append(stream.name)
            continue
        small.append(stream)
        letters.append(text)
        room -= len(text)
    if gone:
        shown = ", ".join(gone[:6]) + (f" and {len(gone) - 6} more" if len(gone) > 6 else "")
        notes.append(f"Left out, to keep the file below 20 MB: {shown}. outfold explore shows all.")
    return small, letters, notes


def _letters(stream: Stream) -> str:
    return base64.b64encode(stream.pack()).decode("ascii")


def container(head: dict[str, object], streams: Sequence[Stream]) -> bytes:
    """Return one binary answer: the length of a JSON head (four bytes), the head, and the bytes of each stream."""
    parts = [stream.raw() for stream in streams]
    told = {**head, "streams": [{**s.head(), "bytes": len(p)} for s, p in zip(streams, parts)]}
    text = json.dumps(told, allow_nan=False).encode("utf-8")
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])
