"""Encoding of values as trees of plain JSON, with arrays stored beside the tree, and decoding.

A tree is null, a truth value, a number, a text, or a dictionary that says what it is:

    {"float": "inf"}   {"array": name, "order": "F"}   {"names": texts}   {"csr": [arrays], "shape": [rows, columns]}
    {"rows": [arrays], "shape": [rows, columns]}: sparse rows of data
    {"list": [trees]}   {"tuple": [trees]}   {"dict": [[key, tree], ...]}   {"path": text}
    {"class": name, "fields": {name: tree}}   {"estimator": name, "params": {...}, "state": {...}}

Classes are those of ``_runtime.registry``. Reading builds no other objects and checks every value.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from .._runtime.registry import ESTIMATORS, stored_class, stored_name, stored_names
from ..data.checkpoints import Checkpoint
from ..data.sparse_rows import SparseRows
from ..neighbors.transformers import Proposed
from . import container as storage_container
from . import schema
from .container import Container
from .schema import Wrong

MOST_DEPTH = 40
VALUE_CLASSES = stored_names() - ESTIMATORS
INLINE_TEXTS_UP_TO = 32  # texts: a longer list is stored as an array of bytes


def refers(tree: Any) -> bool:
    """Whether a tree refers to an array."""
    if isinstance(tree, dict):
        return "array" in tree or "texts" in tree or any(map(refers, tree.values()))
    return isinstance(tree, list) and any(map(refers, tree))


# -- writing -------------------------------------------------------------------------------


class Writer:
    """Encodes values as trees and collects their arrays in ``arrays``; equal arrays are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.digests: dict[str, str] = {}
        self._known: dict[Any, str] = {}

    def estimator(self, estimator: Any, path: str) -> dict[str, Any]:
        """Return the tree of an estimator of Outfold; a subclass defines it."""
        raise Wrong(f"{path} is an estimator")

    def value(self, value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return str(value) if isinstance(value, str) else value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            value = value.item()
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            if abs(value) > schema.MOST_WHOLE:
                raise Wrong(f"{path} is {value}, beyond {schema.MOST_WHOLE}")
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, csr_array):
            kind = "rows" if isinstance(value, SparseRows) else "csr"
            parts = [self._array(getattr(value, part), f"{path}.{part}") for part in ("data", "indices", "indptr")]
            return {kind: parts, "shape": [int(v) for v in value.shape]}
        if isinstance(value, list | tuple | range | dict):
            return self._several(value, path)
        return self._object(value, path)

    def _several(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise Wrong(f"{path} has keys that are not texts")
            return {"dict": [[str(key), self.value(entry, f"{path}.{_word(key)}")] for key, entry in value.items()]}
        kind = "list" if isinstance(value, list) else "tuple"
        if len(value) > INLINE_TEXTS_UP_TO and all(type(entry) is str for entry in value):
            return {kind: self._texts(list(value), path)}
        return {kind: [self.value(entry, f"{path}.{at}") for at, entry in enumerate(value)]}

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        if schema.is_estimator(value):
            return self.estimator(value, f"{path}.")
        if isinstance(value, Checkpoint):
            return {"checkpoint": None if value.folder is None else str(value.folder), "seconds": float(value.seconds)}
        if isinstance(value, Path):
            return {"path": str(value)}
        name = stored_name(type(value))
        if name is None:
            what = "a callable" if callable(value) and not isinstance(value, BaseEstimator) else "an object"
            raise Wrong(f"{path} is {what}, {short(value)}")
        if isinstance(value, Proposed):
            raise Wrong(f"{path} is a search by {short(value.source.transformer)}")
        parts = [part.name for part in schema.stored_parts(name)]
        return {"class": name, "fields": {part: self.value(getattr(value, part), f"{path}.{part}") for part in parts}}

    def _array(self, array: Any, path: str) -> dict[str, Any]:
        if array.dtype == object and all(isinstance(entry, str) for entry in array.flat):
            return {"names": self._texts([str(entry) for entry in array], path)}
        if not storage_container.storable(array):
            raise Wrong(f"{path} is an array of {array.dtype} with {array.ndim} axes")
        turned = _column_by_column(array)
        shape = array.T.shape if turned else array.shape  # `ascontiguousarray` makes shape () into (1,)
        stored = np.ascontiguousarray(array.T if turned else array, array.dtype.newbyteorder("<")).reshape(shape)
        name = self._put_aside(stored, path)
        return {"array": name, "order": "F"} if turned else {"array": name}

    def _texts(self, texts: list[str], path: str) -> Any:
        """Return few texts as they are, many as a reference to an array of bytes: the header stays small."""
        if len(texts) <= INLINE_TEXTS_UP_TO or any("\0" in text for text in texts):
            return texts
        return {"texts": self._put_aside(np.frombuffer("\0".join(texts).encode(), np.uint8), path)}

    def _put_aside(self, array: Any, path: str) -> str:
        digest = storage_container.digest(array)
        key = (digest, array.dtype.str, array.shape)
        if key not in self._known:
            name = path.replace("..", ".").strip(".")[:190]
            while name in self.arrays:
                name = f"{name[:190]}.{len(self.arrays)}"
            self._known[key] = name
            self.arrays[name], self.digests[name] = array, digest
        return self._known[key]


def _column_by_column(array: Any) -> bool:
    """Whether an array lies in memory by columns. Loaded in the same order, products with it give the same bits."""
    if array.ndim != 2 or array.flags.c_contiguous:
        return False
    rows, columns = array.strides
    return bool(rows == array.itemsize and columns >= array.shape[0] * array.itemsize)


def _word(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)[:40]


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- reading -------------------------------------------------------------------------------


class Reader:
    """Decodes values from trees; refuses classes and attributes that are not listed."""

    def __init__(self, container: Container) -> None:
        self.container = container

    def estimator(self, tree: Any, path: str, depth: int) -> Any:
        """Return the estimator of a tree; a subclass defines it."""
        raise Wrong(f"{path} is an estimator")

    def value(self, tree: Any, path: str, depth: int = 0) -> tuple[Any, dict[str, int]]:
        """Return the value of a tree, and the letters of its axes if it is an object of Outfold."""
        if depth > MOST_DEPTH:
            raise Wrong(f"{path[:200]} lies deeper than {MOST_DEPTH} levels")
        if tree is None or isinstance(tree, bool | str | float):
            return tree, {}
        if isinstance(tree, int):
            if abs(tree) > schema.MOST_WHOLE:
                raise Wrong(f"{path} is a number beyond {schema.MOST_WHOLE}")
            return tree, {}
        if not isinstance(tree, dict):
            raise Wrong(f"{path} is a bare list")
        if "class" in tree:
            return self._object(tree, path, depth)
        if "estimator" in tree:
            return self.estimator(tree, f"{path}.", depth + 1), {}
        return self._plain(tree, path, depth), {}

    def _plain(self, tree: dict[str, Any], path: str, depth: int) -> Any:
        kind = next(iter(tree), "")
        inside: Any = tree.get(kind)
        beside = {"array": "order", "csr": "shape", "rows": "shape", "checkpoint": "seconds"}
        if kind not in PLAIN_KINDS or not tree.keys() <= {kind, beside.get(kind, kind)}:
            raise Wrong(f"{path} holds {str(list(tree))[:80]}, which is nothing known")
        if kind == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inside]
        if kind == "array":
            return self._array(tree)
        if kind == "names":
            names = np.array(self._texts(inside, path), dtype=object)
            names.flags.writeable = False
            return names
        if kind == "csr":
            return self._csr(tree["csr"], tree["shape"], path)
        if kind == "rows":
            return self._rows(tree, path)
        if kind == "path":
            return Path(_text(inside, path))
        if kind == "checkpoint":
            return Checkpoint(None if inside is None else _text(inside, path), float(tree["seconds"]))
        if kind == "dict":
            found = {_text(key, path): self.value(v, f"{path}.{_word(key)}", depth + 1)[0] for key, v in inside}
            if len(found) != len(inside):
                raise Wrong(f"{path} has a key twice")
            return found
        entries = self._texts(inside, path) if isinstance(inside, dict) else [
            self.value(entry, f"{path}.{at}", depth + 1)[0] for at, entry in enumerate(inside)
        ]  # fmt: skip
        return entries if kind == "list" else tuple(entries)

    def _object(self, tree: dict[str, Any], path: str, depth: int) -> tuple[Any, dict[str, int]]:
        check_keys(tree, {"class", "fields"}, path)
        stored, given = _text(tree["class"], path), tree["fields"]
        if stored not in VALUE_CLASSES or not isinstance(given, dict):
            raise Wrong(f"{path} is of a class {str(tree['class'])[:60]!r} that no model has")
        given = schema.gather_training(stored, given)
        parts = schema.stored_parts(stored)
        known = {part.name for part in parts}
        if not {part.name for part in parts if part.required} <= given.keys() <= known:
            raise Wrong(f"{path} has the fields {sorted(given)}, not {sorted(known)}"[:300])
        values, inner = {}, {}
        for name, part in given.items():
            values[name], inner[name] = self.value(part, f"{path}.{name}", depth + 1)
        letters = schema.check(stored, values, inner)
        return stored_class(stored)(**values), letters

    def _array(self, tree: Any) -> Any:
        if not isinstance(tree, dict) or tree.get("order", "F") != "F":
            raise Wrong("an array in no known order")
        array = self.container.array(_text(tree["array"], "array"))
        return array.T if "order" in tree else array

    def _texts(self, tree: Any, path: str) -> list[str]:
        if isinstance(tree, dict):
            check_keys(tree, {"texts"}, path)
            array = self.container.array(_text(tree["texts"], path))
            return array.astype(np.uint8, casting="safe", copy=False).tobytes().decode().split("\0")
        return [_text(entry, path) for entry in tree]

    def _rows(self, tree: dict[str, Any], path: str) -> SparseRows:
        found = self._csr(tree["rows"], tree["shape"], path)
        steps = np.diff(found.indices.astype(np.int64))
        steps[found.indptr[1:-1][(found.indptr[1:-1] > 0) & (found.indptr[1:-1] < found.nnz)] - 1] = 1  # a new row
        if found.data.dtype != np.float64 or not (steps > 0).all():
            raise Wrong(f"{path} has rows whose columns do not increase")
        return SparseRows((found.data, found.indices, found.indptr), shape=found.shape)

    def _csr(self, parts: list[Any], shape: list[int], path: str) -> csr_array:
        data, indices, indptr = (self._array(part) for part in parts)
        rows, columns = shape
        schema.check_shape(data, "e", {"e": len(indices)}, path)
        schema.check_index(indices, columns, path)
        schema.check_shape(indptr, "r", {"r": rows + 1}, path)
        schema.check_index(indptr, len(data) + 1, path)
        if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            raise Wrong(f"{path} is no sparse matrix")
        return csr_array((data, indices, indptr), shape=(rows, columns))


PLAIN_KINDS = {"float", "array", "names", "csr", "rows", "path", "checkpoint", "dict", "list", "tuple"}


def check_keys(tree: Any, keys: set[str], path: str) -> None:
    if not isinstance(tree, dict) or tree.keys() != keys:
        raise Wrong(f"{path} should hold {sorted(keys)}")


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise Wrong(f"{path} should be a text")
    return value
