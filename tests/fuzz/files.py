"""Model files that are damaged or forged, by a seed, and what comes of them.

A forged file has right digests, and arrays that lie in it as they should: what is wrong is in the numbers, sizes, types
and names. It must be refused with :class:`ModelFileError`, or give a model that answers with finite numbers or one of
our own errors. ``python -m fuzz.files SEED COUNT [NAME ...]`` prints the files that do neither.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import linecache
import math
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

import outfold
from catalogue import ALL_METHODS, NETWORKS, quietly
from models import X, Z, fitted
from outfold import ClassicalMDS, DiffusionMaps, Isomap, Roseland, graphs, storage
from outfold._runtime.registry import stored_names
from outfold.data.columns import Preparation
from outfold.exceptions import ModelFileError
from outfold.methods.separate_pieces import Islands
from outfold.storage.container import DTYPES

HOME = str(Path(outfold.__file__).parent)
SECONDS = 20  # for one file: all of its answers take a few hundredths
CODES = {np.dtype(name): code for code, name in DTYPES.items()}


# -- a file in parts -----------------------------------------------------------------------


def taken_apart(content):
    """Document, entries and arrays (bytes) of a file."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    document = json.loads(header.pop("__metadata__")["outfold"])
    arrays = {n: content[8 + length :][slice(*e["data_offsets"])] for n, e in header.items()}
    return document, header, arrays


def put_together(document, entries, arrays, *, text=None, change=lambda header: header):
    """A file with right digests, whatever it holds. ``text`` stands for the document, ``change`` edits the header."""
    if text is None:
        document = {**document, "arrays": {n: hashlib.sha256(a).hexdigest() for n, a in arrays.items()}}
        text = json.dumps(document)
    header = json.dumps({"__metadata__": {"sha256": "0" * 64, "outfold": text}, **entries}, separators=(",", ":"))
    header = change(header).encode()
    header += b" " * (-len(header) % 8)
    start = len(header).to_bytes(8, "little") + header
    digest = hashlib.sha256(start).hexdigest().encode()
    return start.replace(b"0" * 64, digest, 1) + b"".join(arrays.values())


def unpacked(content):
    """The document and the arrays, as arrays, of a file."""
    document, entries, arrays = taken_apart(content)
    return document, {
        name: np.frombuffer(arrays[name], DTYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
        for name, entry in entries.items()
    }


def packed(document, arrays):
    """A file of a document and arrays, well-formed."""
    entries, contents, end = {}, {}, 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        contents[name] = np.ascontiguousarray(array).tobytes()
        place = [end, end := end + array.nbytes]
        entries[name] = {"dtype": CODES[array.dtype], "shape": list(array.shape), "data_offsets": place}
    return put_together(document, entries, contents)


# -- files to begin with -------------------------------------------------------------------


def _sparse():
    values = np.abs(np.round(X, 1)) * (np.random.default_rng(0).uniform(size=X.shape) < 0.7) + 0.0
    values[:, 0] += 1
    return csr_array(values)


MORE = {  # what the catalogue's settings do not store
    "calibrated": lambda: quietly(fitted(DiffusionMaps(2, n_neighbors=8)).calibrate, folds=3),
    "with an inverse": lambda: fitted(DiffusionMaps(2, inverse="linear")),
    "isomap with an inverse": lambda: fitted(Isomap(n_neighbors=6, inverse="kernel_ridge")),
    "updatable": lambda: fitted(Roseland(landmarks=30, updatable=True, random_state=0)),
    "updatable nearest": lambda: fitted(Roseland(landmarks=30, n_neighbors=8, updatable=True, random_state=0)),
    "cells": lambda: fitted(DiffusionMaps(n_neighbors=graphs.Union(6, search="cells"), kernel="gaussian")),
    "islands": lambda: quietly(Islands(n_neighbors=8).fit, np.vstack([X, X + 50])),
    "distances": lambda: fitted(ClassicalMDS(metric="precomputed"), np.abs(X[:, None] - X).sum(axis=2)),
    "sparse rows": lambda: fitted(DiffusionMaps(metric="cosine"), _sparse()),
    "sparse rows, cosine kernel": lambda: fitted(DiffusionMaps(kernel="cosine"), _sparse()),
    "missing values": lambda: fitted(DiffusionMaps(metric="nan_euclidean"), np.where(X > 1.5, np.nan, X)),
    "weights": lambda: fitted(DiffusionMaps(2), X, None, np.arange(60) % 3.0),
    "landmarks of one's own": lambda: fitted(Roseland(3, landmarks=X[:40], random_state=7)),
}
UNSTORED = {"roseland of a callable kernel", "locally-linear-embedding by neighbours"}  # hold what no file does
NAMES = (*(name for name in {**ALL_METHODS, **NETWORKS} if name not in UNSTORED), *MORE)


@cache
def content_of(name):
    """The bytes of the file of a fitted model."""
    model = MORE[name]() if name in MORE else fitted({**ALL_METHODS, **NETWORKS}[name])
    scaled = Preparation(("a", "b", "c"), scaling="standard", centre=np.arange(3.0), scale=np.ones(3))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        storage.save(model, path, embedding=len(name) % 2 == 0, preparation=scaled if len(name) % 3 == 0 else None)
        return path.read_bytes()


# -- mutations -----------------------------------------------------------------------------

FLOATS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 0.5, 1e308, -1e308, 1e154, -1e154, 1e-308, 5e-324, 2.0**53)
WHOLES = (-1, 0, 1, 2, 3, 7, 59, 60, 61, 255, 1 << 20, 1 << 31, 1 << 53, (1 << 63) - 1, -(1 << 63))
TEXTS = ("", "nonsense", "precomputed", "euclidean", "cosine", "auto", "none", "inf", "nan", "0", "\0", "é", "a" * 300)


def tree_value(number):
    return number if isinstance(number, int) or math.isfinite(number) else {"float": str(number)}


def nodes(tree, path=()):
    """Paths of all nodes of a tree."""
    yield path
    for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from nodes(part, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def change_bytes(content, draw):
    """Bits flipped, bytes cut out, put in, doubled or zeroed, the end cut: digests are those of before."""
    kind, start = draw.choice(["bit", "cut", "in", "zeros", "end", "twice"]), draw.randrange(len(content))
    stop = min(len(content), start + draw.choice([1, 8, 64, 4096]))
    middle = {
        "bit": bytes([content[start] ^ 1 << draw.randrange(8)]) + content[start + 1 : stop],
        "cut": b"",
        "in": draw.randbytes(stop - start) + content[start:stop],
        "zeros": bytes(stop - start),
        "end": None,
        "twice": 2 * content[start:stop],
    }[kind]
    changed = content[:start] if middle is None else content[:start] + middle + content[stop:]
    return f"bytes {kind} {start}:{stop}", changed


def change_entry(content, draw):
    """The header says other types, shapes or places of arrays; digests are right."""
    document, entries, arrays = taken_apart(content)
    name = draw.choice(list(entries))
    entry, other = entries[name], entries[draw.choice(list(entries))]
    field = draw.choice(["dtype", "shape", "data_offsets", "swap", "name", "lost"])
    shape, (start, stop) = entry["shape"], entry["data_offsets"]
    step = draw.choice([-8, -1, 1, 8])
    if field == "dtype":
        entry["dtype"] = draw.choice([*DTYPES, "BF16"])
    elif field == "shape":
        entry["shape"] = draw.choice([shape[::-1], [math.prod(shape)], [*shape, 1], [0, *shape], [-1], shape[:-1], []])
    elif field == "data_offsets":
        entry["data_offsets"] = draw.choice([[start + step, stop + step], [start, stop + step], [start, start]])
    elif field == "swap":
        entry["data_offsets"], other["data_offsets"] = other["data_offsets"], entry["data_offsets"]
    elif field == "name":
        entries[name + "x"] = entries.pop(name)
        arrays = {name + "x" if key == name else key: value for key, value in arrays.items()}
    else:
        del entries[name]
    return f"entry {field} {name}", put_together(document, entries, arrays)


def change_array(document, arrays, draw):
    """One array has other numbers, another type or another size."""
    name = draw.choice(list(arrays))
    array = arrays[name]
    kind = draw.choice(["number", "number", "numbers", "order", "size", "size", "axes", "type", "other"])
    if kind == "number" and array.size:
        values = FLOATS if array.dtype.kind == "f" else WHOLES
        with np.errstate(all="ignore"):
            value = np.array([draw.choice(values)]).astype(array.dtype)[0]
            array.reshape(-1)[draw.randrange(array.size)] = value
        return f"array {name} has a {value}"
    if kind == "numbers":
        value = draw.choice(FLOATS if array.dtype.kind == "f" else WHOLES)
        value = np.array([value]).astype(array.dtype)[0]
        how = draw.choice(["all", "times", "plus"])
        with np.errstate(all="ignore"):
            values = np.full(array.shape, value) if how == "all" else array * value if how == "times" else array + value
            arrays[name] = np.asarray(values).astype(array.dtype)
        return f"array {name} {how} {value}"
    if kind == "order" and array.ndim:
        how = draw.choice(["reversed", "sorted", "shuffled"])
        order = np.random.default_rng(draw.randrange(1 << 30)).permutation(len(array))
        arrays[name] = {"reversed": array[::-1], "sorted": np.sort(array, axis=0), "shuffled": array[order]}[how].copy()
        return f"array {name} {how}"
    if kind == "size" and array.ndim:
        axis = draw.randrange(array.ndim)
        size = draw.choice([0, 1, array.shape[axis] - 1, array.shape[axis] + 1, 2 * array.shape[axis]])
        arrays[name] = resized(array, axis, max(size, 0))
        return f"array {name} axis {axis} of {size}"
    if kind == "axes":
        shape = draw.choice([(*array.shape, 1), (1, *array.shape), (array.size,), array.shape[::-1]])
        arrays[name] = array.reshape(shape)
        return f"array {name} of shape {shape}"
    if kind == "other":
        other = draw.choice(list(arrays))
        arrays[name], arrays[other] = arrays[other], array
        return f"arrays {name} and {other} swapped"
    dtype = np.dtype(draw.choice(list(DTYPES.values())))
    with np.errstate(all="ignore"):
        arrays[name] = array.astype(dtype)
    return f"array {name} of {dtype}"


def resized(array, axis, size):
    """An array with another size along an axis: cut, or repeated from its beginning."""
    if not array.shape[axis]:
        return np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    return np.take(array, np.arange(size) % array.shape[axis], axis=axis)


def change_size(document, arrays, draw):
    """All axes of one size have another, and whole numbers of the tree with them: nothing disagrees."""
    sizes = sorted({size for array in arrays.values() for size in array.shape})
    old = draw.choice(sizes)
    new = draw.choice([0, 1, 2, max(0, old - 1), old + 1, 2 * old])
    for name, array in arrays.items():
        for axis, size in enumerate(array.shape):
            if size == old:
                array = resized(array, axis, new)
        arrays[name] = array

    def replaced(tree):
        if isinstance(tree, dict):
            return {key: replaced(part) for key, part in tree.items()}
        if isinstance(tree, list):
            return [replaced(part) for part in tree]
        return new if type(tree) is int and tree == old else tree

    for part in ("estimator", "preparation"):
        document[part] = replaced(document[part])
    return f"size {old} is {new}"


def change_tree(document, arrays, draw):
    """A node of the tree is another number, text, array, object, list, or not there."""
    tree = document["estimator"] if draw.random() < 0.9 else document["preparation"] or document["estimator"]
    places = [path for path in nodes(tree) if path]
    leaves = [path for path in places if not isinstance(at(tree, path), dict | list)]
    path = draw.choice(leaves if draw.random() < 0.6 else places)
    holder, node = at(tree, path[:-1]), at(tree, path)
    told = ".".join(map(str, path))
    kind = draw.choice(["number", "number", "text", "copy", "copy", "none", "lost", "class", "empty"])
    if kind == "number" and not isinstance(node, str):
        value = draw.choice((*FLOATS, *WHOLES, True, False))
        holder[path[-1]] = tree_value(value)
    elif kind == "text" or (kind == "number" and isinstance(node, str)):
        texts = [text for text in (at(tree, place) for place in leaves) if isinstance(text, str)]
        value = holder[path[-1]] = draw.choice([*TEXTS, *texts])
    elif kind == "class" and isinstance(node, dict) and "class" in node:
        value = node["class"] = draw.choice(sorted(stored_names()))
    elif kind == "lost" and isinstance(holder, dict):
        value = "lost"
        del holder[path[-1]]
    elif kind == "empty" and isinstance(node, dict):
        value = holder[path[-1]] = {key: type(part)() if isinstance(part, list) else part for key, part in node.items()}
    elif kind in ("copy", "class"):
        place = draw.choice(places)
        value = ".".join(map(str, place))
        holder[path[-1]] = json.loads(json.dumps(at(tree, place)))
    else:
        value = holder[path[-1]] = draw.choice([None, [], {}, {"list": []}, {"tuple": []}, {"dict": []}])
    return f"{told} is {str(value)[:80]}"


def graft(document, arrays, draw):
    """An object of the tree is one of another model, of the same class or in the same field."""
    other, theirs = unpacked(content_of(draw.choice(NAMES)))
    ours = [path for path in nodes(document["estimator"]) if path and is_object(at(document["estimator"], path))]
    path = draw.choice(ours)
    node = at(document["estimator"], path)
    able = [
        place
        for place in nodes(other["estimator"])
        if place and is_object(found := at(other["estimator"], place))
        and (place[-1] == path[-1] or found.get("class") == node.get("class"))
    ]  # fmt: skip
    if not able:
        return change_tree(document, arrays, draw)
    place = draw.choice(able)
    text = json.dumps(at(other["estimator"], place))
    for name, array in theirs.items():
        arrays[f"theirs.{name}"] = array
        text = text.replace(json.dumps(name), json.dumps(f"theirs.{name}"))
    at(document["estimator"], path[:-1])[path[-1]] = json.loads(text)
    return f"{'.'.join(map(str, path))} is another model's {'.'.join(map(str, place))}"


def is_object(node):
    return isinstance(node, dict) and not node.keys().isdisjoint({"class", "estimator", "array", "csr", "rows"})


FORGED = (change_array, change_array, change_array, change_size, change_tree, change_tree, graft)


def mutation(content, draw):
    """What was done to a file, in words, and the file."""
    kind = draw.random()
    if kind < 0.06:
        return change_bytes(content, draw)
    if kind < 0.12:
        return change_entry(content, draw)
    document, arrays = unpacked(content)
    told = [draw.choice(FORGED)(document, arrays, draw)]
    if draw.random() < 0.2 and list(nodes(document["estimator"])) != [()]:  # not if the first left nothing to change
        told.append(change_array(document, arrays, draw))
    return "; ".join(told), packed(document, arrays)


# -- what comes of a file ------------------------------------------------------------------


def ours(error):
    """Whether we raised an error: its last line of code is a ``raise`` in the package."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(HOME) and linecache.getline(last.filename, last.lineno).strip().startswith("raise")


def answers(model):
    """Yield the answers of a model by name: functions that give numbers that must be finite."""
    rows = np.asarray(X[:6] if getattr(model, "n_features_in_", 0) == 3 else np.ones((6, model.n_features_in_)))
    if "precomputed" in (getattr(model, "metric", None), getattr(model, "kernel", None)):
        yield "transform", lambda: model.transform(np.ones((6, model.n_features_in_)))
        return
    rows = np.vstack([rows, Z[:6]]) if rows.shape[1] == 3 else rows
    yield "transform", lambda: model.transform(rows)
    if hasattr(model, "trust"):
        yield "trust", lambda: model.trust(rows).p_value
        yield "inverse", lambda: model.inverse_transform(np.zeros((3, model._n_features_out)))
    if hasattr(model, "predict"):
        yield "predict", lambda: model.predict(rows)
    if hasattr(model, "update") and getattr(model, "updatable", False):
        yield "update", lambda: model.update(rows).transform(rows)
    yield "text", lambda: (str(getattr(model, "report_", "")), repr(model), 0.0)[2]


def outcome(path, mapped):
    """Return "refused", "answers" or "says" (with our error), or raise ``AssertionError`` with what is wrong."""
    try:
        model, preparation = storage.open_model(path, mmap=mapped)
        if preparation is not None:
            preparation.apply(np.ones((2, len(preparation.columns))))
    except ModelFileError as error:
        if str(path) not in str(error):
            raise AssertionError(f"the error does not name the file: {error}") from error
        if any(str(error).startswith(f"{path}: {kind}: ") for kind in LEAKED):
            raise AssertionError(f"a sentence is missing: {error}") from error
        return "refused"
    except Exception as error:
        raise AssertionError(f"load: {type(error).__name__}: {error} {where(error)}") from error
    if not hasattr(model, "n_features_in_") or model.n_features_in_ > 10_000:
        return "answers"
    said = False
    for name, ask in answers(model):
        try:
            found = np.asarray(ask(), dtype=float)
        except (ValueError, MemoryError) as error:
            if not ours(error):
                raise AssertionError(f"{name}: {type(error).__name__}: {error} {where(error)}") from error
            said = True
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error} {where(error)}") from error
        else:
            if not np.isfinite(found).all():
                raise AssertionError(f"{name}: {(~np.isfinite(found)).sum()} of {found.size} numbers are not finite")
            if name == "trust" and not ((found >= 0) & (found <= 1)).all():
                raise AssertionError(f"p-values from {found.min()} to {found.max()}")
    return "says" if said else "answers"


LEAKED = ("KeyError", "IndexError", "AttributeError", "TypeError", "ValueError", "RecursionError", "OverflowError")


def where(error):
    """The last line of ours that an error went through, and its last line."""
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if line.filename.startswith(HOME)]
    return " <- ".join(f"{Path(line.filename).name}:{line.lineno} {line.name}" for line in [*own[-1:], lines[-1]])


def hung(signum, frame):
    raise TimeoutError(f"no answer within {SECONDS} s, in {frame.f_code.co_filename}:{frame.f_lineno}")


def run(seed, count, names=NAMES):
    """Try ``count`` files of each model; return how many came to what, and faults (name, number, mutation, what)."""
    counts, faults = Counter(), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        path = Path(folder) / "forged"
        for name in names:
            content = content_of(name)
            for number in range(count):
                draw = random.Random(f"{seed} {name} {number}")
                told, changed = mutation(content, draw)
                os.write(2, f"{name}, {seed} {number}: {told}\n".encode())  # the last line says what a crash was about
                path.write_bytes(changed)
                if hasattr(signal, "alarm"):
                    signal.alarm(SECONDS)
                try:
                    counts[outcome(path, mapped=draw.random() < 0.2)] += 1
                except (AssertionError, TimeoutError) as error:
                    faults.append((name, number, told, str(error)))
                finally:
                    if hasattr(signal, "alarm"):
                        signal.alarm(0)
    return counts, faults


def main(seed, count, *names):
    faulthandler.enable()
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, hung)
    counts, faults = run(int(seed), int(count), names or NAMES)
    print(json.dumps([counts, faults]))


if __name__ == "__main__":
    main(*sys.argv[1:])
