"""Columns of the page as bytes: numbers, codes of words, or text, one entry a row; small where they must travel."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEVELS = 65535  # steps of a number that is stored in two bytes; one code is left for "missing"
COARSE = 4095
EXACT_ROWS = 100_000  # up to so many rows numbers keep four bytes in a file
MOST_WORDS = 4096  # different values of a column that is coloured in groups
LONGEST = 500  # letters of a cell
AXES = 3  # coordinates that a file keeps whatever their size
IN_ORDER = 10  # words that have a colour each
_DIGITS = re.compile(r"([0-9]+)")
_DTYPES = {"f4": "<f4", "i4": "<i4", "u1": "u1", "u2": "<u2"}


@dataclass(frozen=True)
class Stream:
    """A column of the page."""

    name: str
    role: str  # coordinate, outside, support, error, label, column, id or row
    values: Array  # float32, int32, or codes of words (uint8, uint16); empty of a text
    words: tuple[str, ...] = ()  # what the codes stand for
    cells: tuple[str, ...] | None = None  # of a text
    low: float = 0.0  # of quantised numbers: low + step * code
    step: float = 0.0

    @property
    def kind(self) -> str:
        """How its bytes are to be read."""
        if self.cells is not None:
            return "text"
        if self.step:
            return "q2"
        return {"f": "f4", "i": "i4"}.get(self.values.dtype.kind) or f"u{self.values.dtype.itemsize}"

    def head(self) -> dict[str, Any]:
        """What a reader needs to know besides the bytes."""
        found: dict[str, Any] = {"name": self.name, "role": self.role, "kind": self.kind}
        if self.step:
            found |= {"low": self.low, "step": self.step}
        return found | ({"words": list(self.words)} if self.words else {})

    def raw(self) -> bytes:
        """Little-endian; a text is a JSON list."""
        if self.cells is not None:
            return json.dumps(self.cells, ensure_ascii=False).encode("utf-8")
        return self.values.astype(_DTYPES["u2" if self.step else self.kind], copy=False).tobytes()

    def packed(self) -> bytes:
        """Deflated; of numbers first all first bytes, then all second ones, which pack better."""
        raw = self.raw()
        if self.cells is None and self.values.itemsize > 1:
            raw = np.frombuffer(raw, np.uint8).reshape(-1, self.values.itemsize).T.tobytes()
        return zlib.compress(raw, 6)

    def quantised(self, levels: int = LEVELS) -> Stream:
        """Real numbers in two bytes: off by half of 1/levels of the range at most."""
        if self.kind != "f4":
            return self
        finite = np.isfinite(self.values)
        low, high = (float(f(self.values[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
        step = (high - low) / (levels - 1) or 1.0
        codes = np.full(len(self.values), LEVELS, np.uint16)
        codes[finite] = np.round((self.values[finite].astype(float) - low) / step).astype(np.uint16)
        return replace(self, values=codes, low=low, step=step)


def numbers(name: str, role: str, values: Array) -> Stream:
    """Real numbers; NaN where missing."""
    with np.errstate(over="ignore"):
        return Stream(name, role, np.asarray(values).astype(np.float32))


def grouped(name: str, role: str, cells: Sequence[Any]) -> Stream:
    """Words in groups: a few in their order, of many the most frequent first; a text where hardly any two are alike.

    >>> found = grouped("tea", "label", ["green", "black", "black", None])
    >>> found.words, found.values.tolist()
    (('(missing)', 'black', 'green'), [2, 1, 1, 0])
    """
    texts = np.array([_text(cell) for cell in cells], dtype=object)
    words, codes, counts = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
    if len(words) > MOST_WORDS:
        return Stream(name, role, np.empty(0, np.uint8), cells=tuple(texts))
    order = (
        np.argsort(-counts, kind="stable")
        if len(words) > IN_ORDER
        else np.array(sorted(range(len(words)), key=_natural(words)))
    )
    places = np.empty(len(order), np.uint8 if len(order) < 256 else np.uint16)
    places[order] = np.arange(len(order))
    return Stream(name, role, places[codes.ravel()], tuple(str(words[at]) for at in order))


def _natural(words: Any) -> Any:
    """Such that digit 9 comes before digit 10."""
    return lambda at: [
        (not part.isdecimal(), int(part) if part.isdecimal() else part) for part in _DIGITS.split(words[at]) if part
    ]


def named(name: str, cells: Sequence[Any]) -> Stream:
    """What rows are called: whole numbers where all are, else text."""
    texts = [_text(cell) for cell in cells]
    try:
        whole = [int(text) for text in texts]
    except ValueError:
        whole = []
    if whole and all(abs(value) < 1 << 31 and str(value) == text for value, text in zip(whole, texts)):
        return Stream(name, "id", np.array(whole, np.int32))
    return Stream(name, "id", np.empty(0, np.uint8), cells=tuple(texts))


def _text(cell: Any) -> str:
    text = "" if cell is None or cell != cell else str(cell).strip()
    return (text if len(text) <= LONGEST else text[: LONGEST - 1] + "…") or "(missing)"


def fitted(streams: Sequence[Stream], rows: int, most: int) -> tuple[list[Stream], list[str], list[str]]:
    """Streams that take ``most`` letters in base64 together at most, those letters, and what was given up for it.

    Numbers lose digits first, then columns go, the last first; then coordinates lose digits, then the last of them go.
    """
    if rows <= EXACT_ROWS:
        letters = [_letters(stream) for stream in streams]
        if sum(map(len, letters)) <= most:
            return list(streams), letters, []
    axes = [stream for stream in streams if stream.role == "coordinate"]
    for levels in (LEVELS, COARSE):
        small = [stream.quantised(levels) for stream in axes]
        letters = [_letters(stream) for stream in small]
        if sum(map(len, letters)) <= 0.8 * most:
            break
    notes = [f"Numbers are rounded to 1/{levels} of their range, to keep the file small."]
    while len(small) > AXES and sum(map(len, letters)) > 0.8 * most:
        small.pop()
        letters.pop()
    gone = [stream.name for stream in axes[len(small) :]]
    room = most - sum(map(len, letters))
    for stream in (stream.quantised() for stream in streams if stream.role != "coordinate"):
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
    return base64.b64encode(stream.packed()).decode("ascii")


def container(head: dict[str, Any], streams: Sequence[Stream]) -> bytes:
    """One answer: four bytes that tell the length of a JSON head, the head, and the bytes of each stream."""
    parts = [stream.raw() for stream in streams]
    told = {**head, "streams": [{**s.head(), "bytes": len(p)} for s, p in zip(streams, parts)]}
    text = json.dumps(told, allow_nan=False).encode("utf-8")
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])
