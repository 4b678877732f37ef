"""Model files: functions that save, load and describe fitted estimators, without trusting the file.

A file holds a tree of plain values, arrays and objects of the classes listed in ``_runtime.registry``, nothing else: no
code, no names to import, no paths to open. Search trees, indices and other caches are not stored but built again. A
file is checked as if an attacker had written it: digests first, then every number, shape and name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._runtime.registry import ESTIMATORS, stored_class, stored_name, stored_names
from .._version import __version__
from ..data.sparse_rows import SparseRows
from ..distances import LARGEST_ENTRY
from ..exceptions import ModelFileError, OutfoldWarning
from ..extensions import Auto
from ..extensions.domain import TrainingSample
from ..extensions.samples import Extension, RowModel
from ..neighbors import Search
from . import container as storage_container
from . import schema
from .container import Container
from .encoding import Reader, Writer, check_keys, refers, short
from .schema import Wrong

FORMAT = 1

NOT_KEPT = ("_witness", "_compared", "_sealed", "_graph")  # never stored
LARGE_PARAMETERS = ("landmarks", "target")  # parameters that may be as large as the data
SIZES = ("n_features_in_", "_n_features_out", "report_")  # read first: they fix the shapes that arrays must have


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """An attribute of a fitted estimator: its kind, or the axes of an array as letters in brackets."""

    kind: str
    needed: bool = True
    whole: bool = False  # an array of whole numbers; others hold floats
    of_rows: bool = False  # its size grows with the training rows: stored with embedding=True only
    weights: bool = False  # an array of weights
    axes: str = ""  # of an object: the letters it shares with the estimator, as in ``Axes``


@cache
def stored_attributes(kind: type) -> dict[str, Attribute]:
    """Return the attributes that a file holds of an estimator, as ``_stored`` of its class and its parents declares."""
    found = {}
    for parent in reversed(kind.__mro__):
        for name, text in vars(parent).get("_stored", {}).items():
            words, *flags = text.split("; ")
            axes = next((flag.removeprefix("axes ") for flag in flags if flag.startswith("axes ")), "")
            found[name] = Attribute(
                kind=words,
                needed="optional" not in flags,
                whole="whole" in flags,
                of_rows="rows" in flags,
                weights="weights" in flags,
                axes=axes,
            )
    return found


# -- the surface ---------------------------------------------------------------------------


def save(estimator: Any, path: Any, *, embedding: bool = False, preparation: Any = None) -> None:
    """Write a fitted estimator, and the preparation of its table if there is one, to a file.

    Parameters
    ----------
    estimator : a fitted method of Outfold
    path : str or path
    embedding : bool
        Whether to store ``embedding_``, ``labels_`` and ``spectral_``, which belong to the training rows.
    preparation : outfold.data.Preparation, optional

    Examples
    --------
    >>> import os, tempfile
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> path = os.path.join(tempfile.mkdtemp(), "circle.outfold")
    >>> save(DiffusionMaps(2).fit(circle(100, random_state=0)), path)
    >>> load(path).transform([[1.0, 0.0]]).shape
    (1, 2)
    """
    path = Path(path)
    if not schema.is_estimator(estimator):
        raise TypeError(f"{type(estimator).__name__} is not a method of Outfold; a model file holds no others.")
    check_is_fitted(estimator)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; a model is one file: pass a path such as {path / 'm.outfold'}.")
    writer = _Writer(embedding)
    try:
        tree = writer.estimator(estimator, "")
        prepared = None if preparation is None else writer.value(preparation, "preparation")
    except Wrong as error:
        raise ValueError(f"This model cannot be kept in a file: {error}.") from error
    document = {
        "format": FORMAT,
        "outfold": __version__,
        "numpy": np.__version__,
        "embedding": bool(embedding),
        "estimator": tree,
        "preparation": prepared,
        "arrays": writer.digests,
    }
    _check_readable(
        Container(
            path=path,
            size=0,
            document=document,
            places=writer.arrays,
            digests=writer.digests,
            source=None,
            found=writer.arrays,
        )
    )
    storage_container.write(path, document, writer.arrays)


def load(path: Any, *, mmap: bool = False) -> Any:
    """Return the estimator that ``save`` wrote, after a check of the whole file.

    Parameters
    ----------
    path : str or path
    mmap : bool
        Open at once and read each part on first use: the header is checked now, an array when it is read. The file
        must not be changed in place while the model is in use (``save`` never does).

    Raises
    ------
    ModelFileError
        If anything at all is wrong with the file.

    Warns
    -----
    OutfoldWarning
        If the model was made from a table whose columns were scaled: ``open_model`` gives the scaling as well.

    Examples
    --------
    >>> import os, tempfile
    >>> from outfold import DiffusionMaps, load
    >>> from outfold.datasets import circle
    >>> path = os.path.join(tempfile.mkdtemp(), "circle.outfold")
    >>> DiffusionMaps(2).fit(circle(100, random_state=0)).save(path)
    >>> load(path, mmap=True).transform([[1.0, 0.0]]).shape
    (1, 2)
    """
    estimator, preparation = open_model(path, mmap=mmap)
    scaling = getattr(preparation, "scaling", "none")
    if scaling != "none":
        warnings.warn(
            f"{Path(path).name} was made from a table whose columns were scaled ({scaling}), and transform takes "
            "scaled rows. estimator, preparation = outfold.storage.open_model(path) gives both: "
            "estimator.transform(preparation.apply(rows)). The command outfold transform does it by itself.",
            OutfoldWarning,
            stacklevel=2,
        )
    return estimator


def open_model(path: Any, *, mmap: bool = False) -> tuple[Any, Any]:
    """Return the estimator in a file, and the preparation of its table or None.

    Parameters and errors are those of :func:`load`. With a preparation, rows of the table go through it first:
    ``estimator.transform(preparation.apply(rows))``.
    """
    with storage_container.open_container(path, mapped=mmap) as container:
        try:
            return _read(container, lazily=mmap)
        except UNEXPECTED as error:
            raise _refusal(container, error) from error


def describe(path: Any) -> dict[str, Any]:
    """Return what the header of a file says, without reading an array.

    The keys of the dictionary are ``method``, ``params``, ``rows``, ``features``, ``components``, ``report`` (text),
    ``embedding`` and ``preparation`` (whether the file holds them), ``format``, ``versions``, ``bytes`` and ``arrays``.

    >>> import os, tempfile
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> path = os.path.join(tempfile.mkdtemp(), "circle.outfold")
    >>> save(DiffusionMaps(2).fit(circle(100, random_state=0)), path)
    >>> told = describe(path)
    >>> told["method"], told["rows"], told["embedding"]
    ('DiffusionMaps', 100, False)
    """
    with storage_container.open_container(path) as container:
        document = _document(container)
        reader = _Reader(container)
        tree = document["estimator"]
        try:
            state = {name: None if refers(v) else reader.value(v, name)[0] for name, v in tree["state"].items()}
            params = {name: _show(reader, v, name) for name, v in tree["params"].items()}
            report = state.get("report_")
            return {
                "method": tree["estimator"],
                "params": params,
                "rows": getattr(report, "n_samples", None),
                "features": state["n_features_in_"],
                "components": state["_n_features_out"],
                "report": None if report is None else str(report),
                "embedding": "embedding_" in tree["state"],
                "preparation": document["preparation"] is not None,
                "format": document["format"],
                "versions": {name: str(document[name]) for name in ("outfold", "numpy")},
                "bytes": container.size,
                "arrays": {
                    name: {"dtype": place.dtype.name, "shape": place.shape, "bytes": place.stop - place.start}
                    for name, place in container.places.items()
                },
            }
        except UNEXPECTED as error:
            raise _refusal(container, error) from error


UNEXPECTED = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
DOCUMENT_KEYS = {"format", "outfold", "numpy", "embedding", "estimator", "preparation", "arrays"}


def _refusal(container: Container, error: Exception) -> ModelFileError:
    if isinstance(error, ModelFileError):
        return error
    if isinstance(error, Wrong):
        return container.wrong(str(error)[:300])
    return container.wrong(f"its parts are not those of a model ({type(error).__name__}: {str(error)[:300]})")


def _check_readable(container: Container) -> None:
    """Refuse to write what ``load`` would refuse to read."""
    try:
        _read(container)
    except UNEXPECTED as error:
        raise ValueError(f"This model cannot be kept: {error}.") from error


def _read(container: Container, *, lazily: bool = False) -> tuple[Any, Any]:
    document, reader = _document(container), _Reader(container)
    estimator = reader.estimator(document["estimator"], "", lazily=lazily, fitted=True)
    tree = document["preparation"]
    preparation = None if tree is None else reader.value(tree, "preparation")[0]
    if tree is not None:
        _check_class(preparation, "Preparation", "preparation")
    return estimator, preparation


def _document(container: Container) -> dict[str, Any]:
    document = container.document
    version = document.get("format")
    if type(version) is int and version > FORMAT:
        raise ModelFileError(
            f"{container.path} has format {version}, written by outfold {str(document.get('outfold'))[:40]}; this is "
            f"outfold {__version__}, which reads formats up to {FORMAT}. Upgrade outfold."
        )
    if type(version) is not int or version < 1 or document.keys() != DOCUMENT_KEYS:
        raise container.wrong("it does not say what it holds")
    return document


def _show(reader: Reader, tree: Any, name: str) -> Any:
    if refers(tree):
        return "array" if isinstance(tree, dict) and "array" in tree else "with arrays"
    value = reader.value(tree, name)[0]
    return value if isinstance(value, bool | int | float | str | None) else str(value)


# -- estimators ----------------------------------------------------------------------------


class _Writer(Writer):
    """Encodes an estimator as a tree: its parameters and its fitted attributes."""

    def __init__(self, embedding: bool) -> None:
        super().__init__()
        self.embedding = embedding

    def estimator(self, estimator: Any, path: str) -> dict[str, Any]:
        params = estimator.get_params(deep=False)
        tree: dict[str, Any] = {"estimator": stored_name(type(estimator)), "params": {}, "state": {}}
        for name, value in params.items():
            tree["params"][name] = self._parameter(name, value, f"{path}{name}")
        kind: type = type(estimator)
        sealed, known = estimator.__dict__.get("_sealed", {}), stored_attributes(kind)
        for name in sorted({*estimator.__dict__, *sealed}):  # sorted, so that equal models give equal files
            if name in params or name in NOT_KEPT:
                continue
            if name not in known:
                raise ValueError(
                    f"{type(estimator).__name__} has an attribute {name!r} that a model file has no place for. Remove "
                    f"it (del estimator.{name}) before saving."
                )
            if self.embedding or not known[name].of_rows:
                tree["state"][name] = self.value(getattr(estimator, name), f"{path}{name}")
        return tree

    def _parameter(self, name: str, value: Any, path: str) -> Any:
        try:
            return self.value(value, path)
        except Wrong as error:
            raise ValueError(
                f"{name}={short(value)} cannot be kept in a model file: {error}. A file holds no code and nothing of "
                f"other libraries. {_instead(name)}"
            ) from None


class _Reader(Reader):
    """Decodes estimators from trees; refuses attributes and classes that are not listed."""

    def estimator(self, tree: Any, path: str, depth: int = 0, *, lazily: bool = False, fitted: bool = False) -> Any:
        check_keys(tree, {"estimator", "params", "state"}, path or "the model")
        if tree["estimator"] not in ESTIMATORS:
            raise Wrong(f"there is no method {str(tree['estimator'])[:60]!r}")
        kind: type = stored_class(tree["estimator"])
        estimator = kind()  # older files may lack a parameter that came later
        params, state = schema.gather_training(tree["estimator"], tree["params"]), tree["state"]
        if unknown := set(params) - set(estimator.get_params(deep=False)):
            raise Wrong(f"{tree['estimator']} has no parameters {sorted(unknown)}")
        known = stored_attributes(kind)
        needed = {name for name, attribute in known.items() if attribute.needed}
        if (state or fitted) and not needed <= state.keys():
            raise Wrong(f"{tree['estimator']} lacks {sorted(needed - state.keys())}")
        if not state.keys() <= known.keys():
            raise Wrong(f"{sorted(state.keys() - known.keys())[:3]} are no attributes of {tree['estimator']}")
        given = "precomputed" in (params.get("metric"), params.get("kernel"))
        if "_columns" in state and given != (state["_columns"] is not None):
            raise Wrong(f"{tree['estimator']} has columns of a matrix without one, or the other way round")
        lazily = lazily and tree["estimator"] != "Islands"  # its pieces are checked against each other below
        sealed: dict[str, Callable[[], Any]] = {}
        letters = {"given": int(given), "nan": int("nan_euclidean" in str(params.get("metric")))}
        letters["f"] = 1 if given else 4  # facts that errors are predicted from: of a precomputed matrix, support alone
        letters["normalized"] = int(params.get("normalize_rows") is True)
        if "landmarks_" in state:
            _check_distances(state.get("model_"), letters["nan"], "rows" in state["landmarks_"])
            _check_distances(state.get("_fitted_recipe"), letters["nan"], "rows" in state["landmarks_"])
        for name, part in sorted([*params.items(), *state.items()], key=lambda item: _turn(*item)):
            expected = known[name] if name in state else None
            find = partial(self._attribute, part, f"{path}{name}", letters, expected, depth)
            later = name in LARGE_PARAMETERS if name in params else not hasattr(kind, name)
            if lazily and later and refers(part):
                estimator.__dict__.pop(name, None)
                sealed[name] = partial(_open_later, self.container, find)
            else:
                setattr(estimator, name, find())
                _note_sizes(estimator, name, letters)
        if sealed:
            estimator._sealed = sealed
        _check_options(estimator)
        if "pieces_" in state:
            _check_pieces(estimator)
        return estimator

    def _attribute(self, tree: Any, path: str, letters: dict[str, int], expected: Attribute | None, depth: int) -> Any:
        value, inner = self.value(tree, path, depth + 1)
        if expected is not None:
            _check_attribute(expected, value, letters, inner, path)
        return value


def _check_distances(tree: object, nan: int, sparse: bool) -> None:
    """Refuse distances that do not know missing values, or sparse rows, in a model that takes rows with these."""
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        _check_distances(part, nan, sparse)
    if not isinstance(tree, dict):
        return
    stored = tree.get("class")
    if nan and stored in ("Distances", "Metric") and tree["fields"].get("name") != "nan_euclidean":
        raise Wrong(DO_NOT_KNOW)
    if stored == ("Distances" if sparse else "SparseDistances"):
        raise Wrong(f"it has {stored} of landmarks that are {'sparse' if sparse else 'dense'}")


DO_NOT_KNOW = "some of its distances do not know missing values, which metric='nan_euclidean' allows"


def _turn(name: str, tree: Any) -> int:
    """Return the rank of an attribute in the order of reading: sizes first, then small values, then arrays."""
    return 0 if name in SIZES else 2 if refers(tree) else 1


def _open_later(container: Container, find: Callable[[], Any]) -> Any:
    try:
        return find()
    except UNEXPECTED as error:
        raise _refusal(container, error) from error


def _instead(name: str) -> str:
    told = {
        "metric": "Pass a metric by its name, or fit on metric='precomputed' distances.",
        "kernel": "Pass a kernel by its name, or fit on kernel='precomputed' values.",
        "random_state": "set_params(random_state=None) or a whole number; the fitted model does not need it.",
        "extension": "Pass an extension of outfold.extensions by name or object.",
        "inverse": "Pass an extension of outfold.extensions by name or object.",
        "n_neighbors": "Pass search='auto', 'tree', 'brute' or 'cells'.",
        "target": "set_params(target=None) before saving; the fitted model does not need it.",
        "method": "Pass a method of outfold.",
    }
    return told.get(name, "Pass a name, a number or an object of Outfold.")


# -- checking ------------------------------------------------------------------------------


def _note_sizes(estimator: Any, name: str, letters: dict[str, int]) -> None:
    """Store in ``letters`` the sizes that arrays must agree with, from numbers that are read before the arrays."""
    if name == "n_features_in_":
        letters["d"] = estimator.n_features_in_
    elif name == "_n_features_out":
        letters["c"] = estimator._n_features_out
    elif name == "report_":
        letters["r"] = estimator.report_.n_samples
        if hasattr(estimator.report_, "n_anchors"):
            letters["a"] = estimator.report_.n_anchors
    elif name == "_fitted_recipe":
        metric = getattr(estimator._fitted_recipe.view.feature_metric, "name", None)
        if letters["nan"] and metric != "nan_euclidean":
            raise Wrong(DO_NOT_KNOW)


def _check_attribute(
    expected: Attribute, value: Any, letters: dict[str, int], inner: dict[str, int], path: str
) -> None:
    kind = expected.kind
    for pair in expected.axes.split():
        theirs, _, own = pair.partition(">")
        if theirs in inner and (own or theirs) in letters:
            schema.agree(dict(letters), own or theirs, inner[theirs], path)
    if kind.startswith("["):
        if not isinstance(value, np.ndarray):
            raise Wrong(f"{path} is no array")
        schema.check_type(value, path, whole=expected.whole)
        schema.check_shape(value, kind[1:-1], dict(letters), path)
        schema.check_numbers(value, path)
        if expected.weights:
            schema.check_weights(value, path)
    elif kind.startswith("index"):
        if value is not None:
            schema.check_index(value, letters.get(kind[-1], 0), path)
    elif kind == "model":
        _check_kind(value, RowModel, path)
    elif kind in SIMPLE:
        if not SIMPLE[kind](value, letters):
            raise Wrong(f"{path} is {_name(value)}, which it cannot be")
    elif kind == "search":
        _check_kind(value, Search, path)
    else:
        _check_class(value, kind, path)
        if isinstance(value, TrainingSample):
            schema.check_numbers(value.points, path, nan=bool(letters["nan"]), most=LARGEST_ENTRY)


def _name(value: Any) -> str:
    """Return a plain value as text, of any other the name of its class: ``repr`` would run code of that class."""
    return short(value) if isinstance(value, bool | int | float | str | None) else type(value).__name__


def _check_class(value: Any, allowed: str, path: str) -> None:
    if ("None" if value is None else stored_name(type(value)) or "") not in allowed.split():
        raise Wrong(f"{path} is {_name(value)}, not {allowed}")


def _check_kind(value: object, kind: type, path: str) -> None:
    if stored_name(type(value)) is None or kind not in type(value).__mro__:
        raise Wrong(f"{path} is {_name(value)}, not a {kind.__name__}")


def _is_landmarks(value: Any, letters: dict[str, int]) -> bool:
    """Whether a value is an array of points or, for a precomputed matrix, of row numbers."""
    if letters["given"]:
        return isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.shape == (letters["a"],)
    known = isinstance(value, np.ndarray | SparseRows)
    if not known or value.dtype.kind != "f" or value.shape != (letters["a"], letters["d"]):
        return False
    schema.check_type(value, "landmarks_")
    schema.check_numbers(value, "landmarks_", nan=bool(letters["nan"]), most=LARGEST_ENTRY)
    return True


def _is_history(value: Any, letters: dict[str, int]) -> bool:
    arrays = value.values() if isinstance(value, dict) else [None]
    return "loss" in value and all(isinstance(v, np.ndarray) and v.ndim in (1, 2) for v in arrays)


def _is_names(value: Any, letters: dict[str, int]) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object and value.shape == (letters["d"],)


OUTPUTS = ("default", "pandas", "polars", None)
SIMPLE: dict[str, Callable[[Any, dict[str, int]], bool]] = {
    "count": lambda value, _: type(value) is int and value >= 1,
    "float": lambda value, _: type(value) in (float, int),
    "names d": _is_names,
    "landmarks": _is_landmarks,
    "history": _is_history,
    "clusters": lambda value, letters: (
        isinstance(value, np.ndarray)
        and value.ndim == 2
        and len(value) > 0
        and value.shape[1] == letters["c"] + letters["normalized"]
        and bool(np.isfinite(value).all())
    ),
    "config": lambda value, _: isinstance(value, dict) and all(v in OUTPUTS for v in value.values()),
    "extensions": lambda value, _: (
        isinstance(value, tuple)
        and len(value) == 2
        and all(stored_name(type(v)) is not None and isinstance(v, Extension | Auto) for v in value)
    ),
    "estimator": lambda value, _: schema.is_estimator(value),
    "estimators": lambda value, _: isinstance(value, list) and all(map(schema.is_estimator, value)),
}


def _check_pieces(islands: Any) -> None:
    pieces, rows = len(islands.pieces_), len(islands.search_.distances.anchors)
    schema.check_index(islands._label, pieces, "_label")
    schema.check_shape(islands._label, "i", {"i": rows}, "_label")
    for places in (islands.origins_, islands.centres_):
        schema.check_shape(places, "p c", {"p": pieces, "c": islands._n_features_out}, "the places of pieces")


def _check_options(estimator: Any) -> None:
    """Refuse parameters that ``fit`` would refuse."""
    try:
        _check_parameters(estimator)
    except (ValueError, TypeError) as error:
        raise Wrong(f"its parameters are not those of a fit: {str(error).rstrip('.')}") from error


def _check_parameters(estimator: Any) -> None:
    if hasattr(estimator, "_runner"):
        estimator._runner()
    sealed = estimator.__dict__.get("_sealed", {})
    if not hasattr(type(estimator), "_recipe") or hasattr(type(estimator), "encoder_"):
        return
    able = type(estimator)(**{n: getattr(estimator, n) for n in estimator._get_param_names() if n not in sealed})
    if "landmarks" in sealed:
        able.landmarks = 2  # stands for the stored points, which are not read yet
    if hasattr(able, "memory"):
        able.memory = 1  # "auto" would measure the free memory
    able._recipe()
    able._extensions()


# Imported, and their annotations read, now: so that reading a file imports, compiles and evaluates nothing.
for stored in ESTIMATORS:
    stored_class(stored)
for stored in stored_names() - ESTIMATORS:
    schema.stored_parts(stored)

__all__ = ["describe", "load", "open_model", "save"]
