"""Arrays and a document in one file: the layout of safetensors, with digests; nothing is believed unchecked.

    8 bytes       length of the header, little-endian
    header        {"__metadata__": {"sha256": ..., "outfold": document}, name: {dtype, shape, data_offsets}, ...}
    arrays        one after the other, in the order of their offsets, without gaps

The header begins with its own digest: SHA-256 of length and header with zeros in the place of the digest. The document
(JSON, as a string) holds the digest of every array. So no bit of a file can change without its being noticed; who made
the file is another question, which a digest does not answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._runtime.typing import Array
from ..data.writers import replacing
from ..exceptions import ModelFileError

MOST_HEADER = 1 << 20  # bytes of the header: JSON of that size, parsed, stays below 64 MB of memory
MOST_AXES = 8
ALIGNED = 64
PREFIX = b'{"__metadata__":{"sha256":"'
BLANK = b"0" * 64
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,199}")
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_CODES = {np.dtype(name): code for code, name in DTYPES.items()}
PIECE = 1 << 24  # bytes hashed or written at a time


def digest(array: Array) -> str:
    """SHA-256 of the bytes of a C-contiguous array."""
    return hashlib.sha256(_bytes(array)).hexdigest()


def _bytes(array: Array) -> memoryview:
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def storable(array: Array) -> bool:
    return array.dtype.newbyteorder("<") in _CODES and array.ndim <= MOST_AXES


# -- writing -------------------------------------------------------------------------------


def write(path: Path, document: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write the file whole or not at all. Arrays are C-contiguous and little-endian."""
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))  # wide items first: each is aligned
    header = _header(document, arrays)
    with replacing(path) as beside, open(beside, "wb", buffering=0) as file:
        _write_all(file, memoryview(header))
        for array in arrays.values():
            _write_all(file, _bytes(array))


def _write_all(file: Any, view: memoryview) -> None:
    at = 0
    while at < len(view):
        at += file.write(view[at : at + PIECE])


def _header(document: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    told: dict[str, Any] = {"__metadata__": {"sha256": BLANK.decode(), "outfold": plain(document)}}
    end = 0
    for name, array in arrays.items():
        code = _CODES[array.dtype]
        told[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    header = plain(told).encode()
    header += b" " * (-(len(header) + 8) % ALIGNED)
    if len(header) > MOST_HEADER:
        raise ValueError(f"The description of this model takes {len(header)} bytes; a file holds {MOST_HEADER} of it.")
    start = len(header).to_bytes(8, "little") + header
    return start.replace(BLANK, _header_digest(start), 1)


def plain(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _header_digest(start: bytes) -> bytes:
    """Return SHA-256 of length and header, with zeros in the place of the digest."""
    at = 8 + len(PREFIX)
    return hashlib.sha256(start[:at] + BLANK + start[at + 64 :]).hexdigest().encode()


# -- reading -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The type and shape of an array, and its bytes in the file: ``start`` to ``stop``."""

    dtype: Any
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Container:
    """A file whose header has been checked; an array is checked when it is first read."""

    path: Path
    size: int
    document: dict[str, Any]
    places: dict[str, Place]
    digests: dict[str, str]
    source: Any  # the file, or a private map of it
    found: dict[str, Array] = field(default_factory=dict)  # arrays that have been read and checked

    def array(self, name: str) -> Array:
        if name not in self.places:
            raise self.wrong(f"it refers to an array {name[:200]!r} that it does not hold")
        if name not in self.found:
            place = self.places[name]
            array = self._map(place) if isinstance(self.source, mmap.mmap) else self._read(place)
            if digest(array) != self.digests[name]:
                raise self.wrong(f"the array {name!r} does not match its SHA-256")
            if place.dtype == np.dtype(bool) and (array.view(np.uint8) > 1).any():
                raise self.wrong(f"the array {name!r} has truth values other than 0 and 1")
            array.flags.writeable = False
            self.found[name] = array
        return self.found[name]

    def _map(self, place: Place) -> Array:
        count = math.prod(place.shape)
        if count == 0:
            return np.empty(place.shape, place.dtype)
        return np.frombuffer(self.source, place.dtype, count, place.start).reshape(place.shape)

    def _read(self, place: Place) -> Array:
        array = np.empty(place.shape, place.dtype)
        view, at = _bytes(array), 0
        self.source.seek(place.start)
        while at < len(view):
            got = self.source.readinto(view[at : at + PIECE])
            if not got:
                raise self.wrong("it became shorter while it was read")
            at += got
        return array

    def wrong(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}. {DAMAGED}")


DAMAGED = "The file is damaged or was not written by Outfold: take a copy, or fit and save again."


@contextmanager
def open_container(path: Any, *, mapped: bool = False) -> Iterator[Container]:
    """Open a file and check its header. Arrays can be read inside the block or, if ``mapped``, at any later time."""
    path = Path(path)
    try:
        try:
            found = os.stat(path)
        except ValueError as error:  # a null character, or letters that no file name has
            raise ModelFileError(f"{str(path)!r} cannot be the path of a file ({error}). Name another.") from error
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{path} is not a file: a folder, perhaps. A model is one file that save() wrote.")
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            start = _read_header(file, size, path)
            source: Any = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) if mapped else file
            yield _check_header(start, size, path, source)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read as a model: {error.strerror or error}.") from error
    except MemoryError as error:
        raise ModelFileError(
            f"{path} needs more memory than there is; load(path, mmap=True) reads as it goes."
        ) from error


def _read_header(file: BinaryIO, size: int, path: Path) -> bytes:
    """Return the bytes of length and header, after a check of their digest."""
    first = file.read(min(size, 8 + len(PREFIX)))
    if len(first) < 8 + len(PREFIX) or first[8:] != PREFIX:
        what = "empty" if not size else "a zip archive" if first[:2] == b"PK" else f"not a model ({size} bytes)"
        raise ModelFileError(
            f"{path} is {what}. A model is a file that outfold fit --save or estimator.save(path) wrote."
        )
    length = int.from_bytes(first[:8], "little")
    if length > MOST_HEADER or length > size - 8:
        raise ModelFileError(
            f"{path}: its header claims {length} bytes, of a file of {size} and {MOST_HEADER} at most. {DAMAGED}"
        )
    start = first + file.read(8 + length - len(first))
    at = len(first)
    if len(start) != 8 + length or start[at : at + 64] != _header_digest(start):
        raise ModelFileError(f"{path}: its header does not match its SHA-256. {DAMAGED}")
    return start


def _check_header(start: bytes, size: int, path: Path, source: Any) -> Container:
    """Parse the header into a container; refuse sizes that do not agree with those of the file."""

    def wrong(what: str) -> ModelFileError:
        return ModelFileError(f"{path}: {what}. {DAMAGED}")

    try:
        header = parse_header(start[8:].decode())
        told = header.pop("__metadata__")
        document = parse_header(told["outfold"])
        if set(told) != {"sha256", "outfold"} or not isinstance(document, dict):
            raise ValueError("metadata")
        places = {name: _place(name, entry, len(start)) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise wrong(f"its header is not that of a model ({type(error).__name__}: {str(error)[:200]})") from error
    at = len(start)
    for name, place in sorted(places.items(), key=lambda item: (item[1].start, item[1].stop)):
        if place.start != at:
            raise wrong(f"the array {name!r} begins at byte {place.start}, but the one before ends at {at}")
        if place.start % place.dtype.itemsize:
            raise wrong(f"the array {name!r} is not aligned")
        at = place.stop
    if at != size:
        raise wrong(f"its arrays end at byte {at} of {size}")
    digests = document.get("arrays")
    if not isinstance(digests, dict) or digests.keys() != places.keys():
        raise wrong("it does not hold the arrays it lists")
    return Container(path=path, size=size, document=document, places=places, digests=digests, source=source)


def _place(name: str, entry: Any, base: int) -> Place:
    if not NAME.fullmatch(name) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"array {name[:200]!r}")
    dtype, shape, (start, stop) = np.dtype(DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
    whole = [*shape, start, stop]
    if len(shape) > MOST_AXES or any(type(v) is not int or not 0 <= v < 1 << 62 for v in whole):
        raise ValueError(f"shape or place of array {name!r}")
    if stop - start != math.prod(shape) * dtype.itemsize or math.prod(v or 1 for v in shape) >= 1 << 60:
        raise ValueError(f"array {name!r} of shape {shape} in {stop - start} bytes")
    return Place(dtype, tuple(shape), base + start, base + stop)


def parse_header(text: str) -> Any:
    """Parse strict JSON: NaN, duplicate keys and numbers that overflow are refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key comes twice")
        return found

    def finite(text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text[:40]} is beyond floating point")
        return number

    def refused(text: str) -> Any:
        raise ValueError(f"{text} is no number")

    return json.loads(text, object_pairs_hook=once, parse_float=finite, parse_constant=refused)
