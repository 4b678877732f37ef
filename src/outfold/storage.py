"""The model file: what of an estimator is kept, and how it is read again without believing anything.

A file holds a tree of plain values, arrays and objects of the classes listed in ``_forms``, nothing else: no code, no
names to import, no paths to open. Search trees, indices and other caches are not kept but built again. What is read is
checked as if it came from an enemy: digests first, then every number, shape and name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _container, _forms
from ._container import Container
from ._forms import ESTIMATORS, Wrong
from ._trees import Reader, Writer, check_keys, refers, short
from ._version import __version__
from .exceptions import ModelFileError, OutfoldWarning

FORMAT = 1

OF_THE_ROWS = ("embedding_", "labels_", "spectral_")  # kept only if asked for: as many as there were training rows
NOT_KEPT = ("_witness", "_sealed")  # built again when they are needed

ATTRIBUTES: dict[str, str] = {  # of fitted estimators: a kind, or the axes of an array
    "model_": "model",
    "report_": "Report Encoded",
    "eigenvalues_": "[c]",
    "eigenvectors_": "[a c]",
    "epsilon_": "float",
    "landmarks_": "landmarks",
    "landmark_indices_": "index r",
    "_anchor_measure": "[a]",
    "_columns": "index d",
    "_carriers": "extensions",
    "_fitted_recipe": "Recipe",
    "_n_features_out": "count",
    "n_features_in_": "count",
    "feature_names_in_": "names d",
    "calibration_": "Calibration",
    "_way_back": "WayBack",
    "_past": "Past None",
    "_sklearn_output_config": "config",
    "t_": "count",
    "stress_": "float",
    "cluster_centers_": "clusters",
    "embedding_": "[r c]",
    "labels_": "[r]",
    "spectral_": "estimator",
    "history_": "history",
    "decoder_history_": "history",
    "reconstruction_error_": "float",
    "rows_": "[i]",
    "search_": "search",
    "_label": "[i]",
    "pieces_": "estimators",
    "origins_": "[p c]",
    "centres_": "[p c]",
}
WHOLE = ("labels_", "rows_", "_label")  # arrays of whole numbers; the others are of floating point
OF_POINTS = ("landmarks", "target")  # parameters that may be as large as the data
SIZES = ("n_features_in_", "_n_features_out", "report_")  # that tell what shapes arrays must have
FITTED = {"n_features_in_", "_n_features_out"}  # what every fitted estimator has
SPECTRAL = FITTED | {
    "model_", "report_", "eigenvalues_", "eigenvectors_", "landmarks_", "landmark_indices_", "_anchor_measure",
    "_columns", "_carriers", "_fitted_recipe",
}  # fmt: skip
NEEDED = {name: SPECTRAL for name in ESTIMATORS} | {
    "SpectralClustering": SPECTRAL | {"cluster_centers_"},
    "PHATE": SPECTRAL | {"t_", "stress_"},
    "DiffusionNet": FITTED | {"model_", "report_", "history_"},
    "GRAE": FITTED | {"model_", "report_", "history_", "_way_back", "reconstruction_error_"},
    "Islands": FITTED | {"search_", "_label", "pieces_", "origins_", "centres_"},
}


# -- the surface ---------------------------------------------------------------------------


def save(estimator: Any, path: Any, *, embedding: bool = False, preparation: Any = None) -> None:
    """Write a fitted estimator, and what was done to a table before the fit, to a file.

    Parameters
    ----------
    estimator : a fitted method of Outfold
    path : str or path
    embedding : bool
        Whether to keep what belongs to the training rows.
    preparation : outfold.preparation.Preparation, optional

    Examples
    --------
    >>> import os, tempfile
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> path = os.path.join(tempfile.mkdtemp(), "circle.outfold")
    >>> save(DiffusionMaps(2).fit(circle(100)), path)
    >>> load(path).transform([[1.0, 0.0]]).shape
    (1, 2)
    """
    path = Path(path)
    if type(estimator) not in ESTIMATORS.values():
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
    _check_readable(Container(path, 0, document, writer.arrays, writer.digests, None, writer.arrays))
    _container.write(path, document, writer.arrays)


def load(path: Any, *, mmap: bool = False) -> Any:
    """The estimator that ``save`` wrote, checked from the first bit to the last.

    Parameters
    ----------
    path : str or path
    mmap : bool
        Open at once and read parts when they are first used: the header is checked now, an array when it is read. The
        file must not be changed in place while the model is in use (``save`` never does).

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
    >>> DiffusionMaps(2).fit(circle(100)).save(path)
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
    """The estimator in a file, and the preparation of its table or None.

    Parameters and errors are those of :func:`load`. With a preparation, rows of the table go through it first:
    ``estimator.transform(preparation.apply(rows))``.
    """
    with _container.opened(path, mapped=mmap) as container:
        try:
            return _read(container, lazily=mmap)
        except UNEXPECTED as error:
            raise _refused(container, error) from error


def describe(path: Any) -> dict[str, Any]:
    """What the header of a file tells, without reading an array.

    A dictionary: ``method``, ``params``, ``rows``, ``features``, ``components``, ``report`` (text), ``embedding`` and
    ``preparation`` (whether they are in it), ``format``, ``versions``, ``bytes`` and ``arrays``.

    >>> import os, tempfile
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> path = os.path.join(tempfile.mkdtemp(), "circle.outfold")
    >>> save(DiffusionMaps(2).fit(circle(100)), path)
    >>> told = describe(path)
    >>> told["method"], told["rows"], told["embedding"]
    ('DiffusionMaps', 100, False)
    """
    with _container.opened(path) as container:
        document = _document(container)
        reader = _Reader(container)
        tree = document["estimator"]
        try:
            state = {name: None if refers(v) else reader.value(v, name)[0] for name, v in tree["state"].items()}
            params = {name: _shown(reader, v, name) for name, v in tree["params"].items()}
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
            raise _refused(container, error) from error


UNEXPECTED = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
TOP = {"format", "outfold", "numpy", "embedding", "estimator", "preparation", "arrays"}


def _refused(container: Container, error: Exception) -> ModelFileError:
    if isinstance(error, ModelFileError):
        return error
    return container.wrong(
        str(error)[:300] if isinstance(error, Wrong) else f"{type(error).__name__}: {str(error)[:300]}"
    )


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
    if type(version) is not int or version < 1 or document.keys() != TOP:
        raise container.wrong("it does not say what it holds")
    return document


def _shown(reader: Reader, tree: Any, name: str) -> Any:
    if refers(tree):
        return "array" if isinstance(tree, dict) and "array" in tree else "with arrays"
    value = reader.value(tree, name)[0]
    return value if isinstance(value, bool | int | float | str | None) else str(value)


# -- estimators ----------------------------------------------------------------------------


class _Writer(Writer):
    """An estimator as a tree: its parameters, and what a fit left in it."""

    def __init__(self, embedding: bool) -> None:
        super().__init__()
        self.embedding = embedding

    def estimator(self, estimator: Any, path: str) -> dict[str, Any]:
        known = {kind: name for name, kind in ESTIMATORS.items()}
        params = estimator.get_params(deep=False)
        tree: dict[str, Any] = {"estimator": known[type(estimator)], "params": {}, "state": {}}
        for name, value in params.items():
            tree["params"][name] = self._parameter(name, value, f"{path}{name}")
        sealed = estimator.__dict__.get("_sealed", {})
        for name in sorted({*estimator.__dict__, *sealed}):  # in one order, so that equal models are equal files
            if name in params or name in NOT_KEPT or (name in OF_THE_ROWS and not self.embedding):
                continue
            if name not in ATTRIBUTES:
                raise ValueError(
                    f"{type(estimator).__name__} has an attribute {name!r} that a model file has no place for. Remove "
                    f"it (del estimator.{name}) before saving."
                )
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
    """Estimators from trees; attributes and classes that are not listed are refused."""

    def estimator(self, tree: Any, path: str, depth: int = 0, *, lazily: bool = False, fitted: bool = False) -> Any:
        check_keys(tree, {"estimator", "params", "state"}, path or "the model")
        kind: Any = ESTIMATORS.get(tree["estimator"])
        if kind is None:
            raise Wrong(f"there is no method {str(tree['estimator'])[:60]!r}")
        estimator = kind()  # older files may lack a parameter that came later
        params, state = tree["params"], tree["state"]
        if set(params) - set(kind._get_param_names()):
            raise Wrong(f"{tree['estimator']} has no parameters {sorted(set(params) - set(kind._get_param_names()))}")
        if (state or fitted) and not NEEDED[tree["estimator"]] <= state.keys():
            raise Wrong(f"{tree['estimator']} lacks {sorted(NEEDED[tree['estimator']] - state.keys())}")
        if not state.keys() <= ATTRIBUTES.keys():
            raise Wrong(f"{sorted(state.keys() - ATTRIBUTES.keys())[:3]} are no attributes of {tree['estimator']}")
        given = "precomputed" in (params.get("metric"), params.get("kernel"))
        if "_columns" in state and given != (state["_columns"] is not None):
            raise Wrong(f"{tree['estimator']} has columns of a matrix without one, or the other way round")
        lazily = lazily and kind is not ESTIMATORS["Islands"]  # whose parts are checked against each other
        sealed: dict[str, Callable[[], Any]] = {}
        letters = {"given": int(given), "nan": int("nan_euclidean" in str(params.get("metric")))}
        for name, part in sorted([*params.items(), *state.items()], key=lambda item: _turn(*item)):
            find = partial(self._attribute, name, part, f"{path}{name}", letters, name in state, depth)
            later = name in OF_POINTS if name in params else not hasattr(kind, name)
            if lazily and later and refers(part):
                estimator.__dict__.pop(name, None)
                sealed[name] = partial(_opened_later, self.container, find)
            else:
                setattr(estimator, name, find())
                _note_sizes(estimator, name, letters)
        if sealed:
            estimator._sealed = sealed
        _check_options(estimator)
        if "pieces_" in state:
            _check_pieces(estimator)
        return estimator

    def _attribute(self, name: str, tree: Any, path: str, letters: dict[str, int], fitted: bool, depth: int) -> Any:
        value, inner = self.value(tree, path, depth + 1)
        if fitted:
            _check_attribute(name, value, letters, inner, path)
        return value


def _turn(name: str, tree: Any) -> int:
    """Sizes first, then what is small, then arrays."""
    return 0 if name in SIZES else 2 if refers(tree) else 1


def _opened_later(container: Container, find: Callable[[], Any]) -> Any:
    try:
        return find()
    except UNEXPECTED as error:
        raise _refused(container, error) from error


def _instead(name: str) -> str:
    told = {
        "metric": "Pass a metric by its name, or fit on metric='precomputed' distances.",
        "kernel": "Pass a kernel by its name, or fit on kernel='precomputed' values.",
        "random_state": "set_params(random_state=None) or a whole number; the fitted model does not need it.",
        "extension": "Pass an extension of outfold.extensions by name or object.",
        "inverse": "Pass an extension of outfold.extensions by name or object.",
        "n_neighbors": "Pass search='auto', 'tree', 'brute' or 'faiss'.",
        "target": "set_params(target=None) before saving; the fitted model does not need it.",
        "method": "Pass a method of outfold.",
    }
    return told.get(name, "Pass a name, a number or an object of Outfold.")


# -- checking ------------------------------------------------------------------------------


def _note_sizes(estimator: Any, name: str, letters: dict[str, int]) -> None:
    """Sizes that the arrays have to agree with, from numbers that are read first."""
    if name == "n_features_in_":
        letters["d"] = estimator.n_features_in_
    elif name == "_n_features_out":
        letters["c"] = estimator._n_features_out
    elif name == "report_":
        letters["r"] = estimator.report_.n_samples
        if hasattr(estimator.report_, "n_anchors"):
            letters["a"] = estimator.report_.n_anchors


def _check_attribute(name: str, value: Any, letters: dict[str, int], inner: dict[str, int], path: str) -> None:
    kind = ATTRIBUTES[name]
    if kind.startswith("["):
        if not isinstance(value, np.ndarray):
            raise Wrong(f"{path} is no array")
        if value.dtype.kind not in ("iu" if name in WHOLE else "f"):
            raise Wrong(f"{path} is an array of {value.dtype}")
        _forms.check_shape(value, kind[1:-1], dict(letters), path)
        _forms.check_numbers(value, path)
    elif kind.startswith("index"):
        if value is not None:
            _forms.check_index(value, letters.get(kind[-1], 0), path)
    elif kind == "model":
        for theirs, ours in (("d", "d"), ("c", "c"), ("n", "a")):
            if theirs in inner and ours in letters:
                _forms.agree(dict(letters), ours, inner[theirs], path)
        _check_class(value, _forms.GROUPS["model"], path)
    elif kind in SIMPLE:
        if not SIMPLE[kind](value, letters):
            raise Wrong(f"{path} is {_named(value)}, which it cannot be")
    else:
        _check_class(value, _forms.GROUPS.get(kind, kind), path)


def _named(value: Any) -> str:
    """Not by ``repr``, which is code of its class."""
    return short(value) if isinstance(value, bool | int | float | str | None) else type(value).__name__


def _check_class(value: Any, allowed: str, path: str) -> None:
    if _forms.names().get(type(value), "None" if value is None else "") not in allowed.split():
        raise Wrong(f"{path} is {_named(value)}, not {allowed}")


def _is_landmarks(value: Any, letters: dict[str, int]) -> bool:
    """Points, or which rows of a given matrix they are."""
    if letters["given"]:
        return isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.shape == (letters["a"],)
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.shape != (letters["a"], letters["d"]):
        return False
    return not (np.isinf(value).any() if letters["nan"] else not np.isfinite(value).all())


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
        and 0 <= value.shape[1] - letters["c"] <= 1
        and bool(np.isfinite(value).all())
    ),
    "config": lambda value, _: isinstance(value, dict) and all(v in OUTPUTS for v in value.values()),
    "extensions": lambda value, _: (
        isinstance(value, tuple)
        and len(value) == 2
        and all(_forms.names().get(type(v)) in _forms.GROUPS["extension"].split() for v in value)
    ),
    "estimator": lambda value, _: type(value) in ESTIMATORS.values(),
    "estimators": lambda value, _: isinstance(value, list) and all(type(v) in ESTIMATORS.values() for v in value),
}


def _check_pieces(islands: Any) -> None:
    pieces, rows = len(islands.pieces_), len(islands.search_.distances.anchors)
    _forms.check_index(islands._label, pieces, "_label")
    _forms.check_shape(islands._label, "i", {"i": rows}, "_label")
    for places in (islands.origins_, islands.centres_):
        _forms.check_shape(places, "p c", {"p": pieces, "c": islands._n_features_out}, "the places of pieces")


def _check_options(estimator: Any) -> None:
    """Parameters that no fit would take are not those of a model."""
    sealed = estimator.__dict__.get("_sealed", {})
    if not hasattr(type(estimator), "_recipe") or hasattr(type(estimator), "encoder_"):
        return
    able = type(estimator)(**{n: getattr(estimator, n) for n in estimator._get_param_names() if n not in sealed})
    if "landmarks" in sealed:
        able.landmarks = 2  # some
    if hasattr(able, "memory"):
        able.memory = 1  # "auto" would ask the system
    able._recipe()


_forms.names()  # all classes are imported now, none by a load

__all__ = ["describe", "load", "open_model", "save"]
