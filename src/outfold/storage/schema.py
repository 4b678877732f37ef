"""What the parts of an object in a model file must be, read from the annotations of its class.

Every part is checked by its annotation: whole numbers, numbers that are not NaN, finite arrays, names, objects of a
class or of a protocol that their class inherits from. Marks of ``_runtime.typing`` add what a type does not say: axes
that must agree (letters), ranges, and which numbers may be infinite or NaN. Each object has its own letters; the mark
``Axes`` of a part that is an object copies letters from it, so that a basis must have as many rows as there are
anchors, however deeply these are nested.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy.sparse import csr_array

from .. import kernels
from .._runtime.registry import ESTIMATORS, stored_class, stored_name
from .._runtime.typing import (
    CACHE,
    FREE,
    NAN,
    POSITIVE,
    RISING,
    SPARSE_ROWS,
    WEIGHTS,
    WHOLE,
    Array,
    Axes,
    Index,
    Interval,
    Sparse,
)
from ..data.checkpoints import Checkpoint
from ..data.sparse_rows import SparseRows
from ..distances import LARGEST_ENTRY, METRIC_PARAMETERS, METRICS, SPARSE_METRICS, Distances
from ..neural import network
from ..operators.operator import RowRule

MOST_WHOLE = 1 << 53
MOST_FLOAT = 1e304  # of an entry of an array: sums over ten thousand rows are finite
SPARSE = (Sparse, csr_array)


@dataclass(frozen=True)
class Part:
    """A field of a stored class: its type and its marks."""

    name: str
    kind: Any
    marks: tuple[object, ...]
    required: bool  # it has no default, so older files have it too

    def mark(self, kind: type[Axes] | type[Index] | type[Interval]) -> Any:
        """Return the mark of this class, or None."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)

    @property
    def array(self) -> bool:
        """Whether the part is an array, dense or sparse, or None."""
        return any(kind in SPARSE or get_origin(kind) is np.ndarray for kind in alternatives(self.kind))


def is_estimator(value: object) -> bool:
    """Whether a value is one of our estimators."""
    return stored_name(type(value)) in ESTIMATORS


@cache
def stored_parts(name: str) -> tuple[Part, ...]:
    """Return the fields of a class that a file holds."""
    kind = stored_class(name)
    hints = get_type_hints(kind, include_extras=True)
    parts = (_part(field, hints[field.name]) for field in fields(kind))
    return tuple(part for part in parts if CACHE not in part.marks)


def _part(field: Field[Any], hint: Any) -> Part:
    kind, marks = (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())
    return Part(field.name, kind, marks, field.default is MISSING and field.default_factory is MISSING)


def alternatives(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union without their marks, or the type alone."""
    if get_origin(kind) is Annotated:
        kind = kind.__origin__
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for part in get_args(kind) for inner in alternatives(part))
    return (kind,)


TRAINING_FIELDS = ("batch", "rate", "validation", "patience", "tolerance")


def gather_training(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the stored fields or parameters of a network; 0.1.0 stored those of ``Training`` among them."""
    if name not in ("Net", "DiffusionNet", "GRAE") or "training" in given or not given.keys() & set(TRAINING_FIELDS):
        return given
    options = {field: value for field, value in given.items() if field in TRAINING_FIELDS}
    others = {field: value for field, value in given.items() if field not in TRAINING_FIELDS}
    return {**others, "training": {"class": "Training", "fields": options}}


# -- checking ------------------------------------------------------------------------------


class Wrong(ValueError):
    """An error that says what is wrong with a value."""


Letters = dict[str, int]


def check(name: str, values: dict[str, Any], inner: dict[str, Letters]) -> Letters:
    """Check the fields of an object and return its letters; ``inner`` holds the letters of fields that are objects."""
    letters: Letters = {}
    present = [part for part in stored_parts(name) if part.name in values]
    for part in present:
        axes = part.mark(Axes)
        if axes is not None and not part.array:
            for pair in axes.letters.split():
                theirs, _, ours = pair.partition(">")
                if theirs in inner.get(part.name, {}):
                    agree(letters, ours or theirs, inner[part.name][theirs], f"{name}.{part.name}")
    for part in present:
        _check_part(part, values[part.name], letters, f"{name}.{part.name}")
    sizes = {**letters, **{key: value for key, value in values.items() if type(value) is int}}
    for part in present:
        _check_range(part, values[part.name], sizes, f"{name}.{part.name}")
    if name in FURTHER:
        FURTHER[name](values, letters)
    return letters


def _check_part(part: Part, value: Any, letters: Letters, told: str) -> None:
    sparse = SPARSE_ROWS in part.marks and isinstance(value, SparseRows)
    if not sparse and not any(_fits(kind, value) for kind in alternatives(part.kind)):
        raise Wrong(f"{told} is {_describe(value)}, not {part.kind}"[:300])
    if FREE not in part.marks:
        check_numbers(
            value, told, nan=NAN in part.marks, most=LARGEST_ENTRY if SPARSE_ROWS in part.marks else MOST_FLOAT
        )
    check_type(value, told, whole=WHOLE in part.marks)
    axes = part.mark(Axes)
    if axes is not None and part.array and value is not None:
        check_shape(value, axes.letters, letters, told)
    if POSITIVE in part.marks and value is not None and not np.all(np.asarray(value) > 0):
        raise Wrong(f"{told} must be positive")
    if WEIGHTS in part.marks and value is not None:
        check_weights(value, told)
    if RISING in part.marks and value is not None and (np.isnan(value).any() or (value[1:] < value[:-1]).any()):
        raise Wrong(f"{told} must not fall")


def _check_range(part: Part, value: Any, sizes: Letters, told: str) -> None:
    index, interval = part.mark(Index), part.mark(Interval)
    if index is not None and value is not None:
        check_index(value, sizes[index.below], told)
    if interval is not None and isinstance(value, np.ndarray) and value.size:
        _check_range(replace(part, marks=(interval,)), float(value.min()), sizes, f"the least entry of {told}")
    if interval is not None and type(value) in (int, float):
        high = sizes.get(interval.high, np.inf) if isinstance(interval.high, str) else interval.high
        if not interval.low <= value <= high or (interval.open_low and value == interval.low):
            raise Wrong(f"{told} is {value}, beyond {interval.low} to {high}")


def agree(letters: Letters, letter: str, value: int, told: str) -> None:
    """Set a letter to a size; raise ``Wrong`` if it has another size already, or none where there must be some."""
    if value == 0 and letter not in EMPTY:
        raise Wrong(f"{told} is empty")
    if letters.setdefault(letter, value) != value:
        raise Wrong(f"{told} has {value} where {letters[letter]} are needed")


EMPTY = frozenset("efmpqrs")  # letters of axes that may have no entry


def check_type(value: object, told: str, *, whole: bool = False) -> None:
    """Refuse arrays of other numbers than those we compute with."""
    array = value.data if isinstance(value, csr_array) else value
    if isinstance(array, np.ndarray) and array.dtype.name not in (WHOLE_TYPES if whole else FLOAT_TYPES):
        raise Wrong(f"{told} is an array of {array.dtype}")


WHOLE_TYPES, FLOAT_TYPES = ("int32", "int64"), ("float32", "float64")


def check_weights(value: Array, told: str) -> None:
    if value.size and not ((value >= 0).all() and 0 < value.sum() < np.inf):
        raise Wrong(f"{told} must be weights: none below 0, and some above")


def check_shape(value: Any, axes: str, letters: Letters, told: str) -> None:
    wanted = axes.split()
    if len(value.shape) != len(wanted):
        raise Wrong(f"{told} has {len(value.shape)} axes instead of {len(wanted)}")
    for letter, size in zip(wanted, value.shape):
        agree(letters, letter, int(size), told)


def check_index(value: Any, count: int, told: str) -> None:
    if value.dtype.kind not in "iu" or (value.size and not 0 <= int(value.min()) <= int(value.max()) < count):
        raise Wrong(f"{told} must hold indices below {count}")


def check_numbers(value: Any, told: str, *, nan: bool = False, most: float = MOST_FLOAT) -> None:
    """Refuse NaN anywhere, and infinity and numbers beyond ``most`` in arrays; ``nan`` allows NaN in an array."""
    if isinstance(value, float) and value != value:
        raise Wrong(f"{told} is NaN")
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        right = ~np.isinf(value) if nan else np.isfinite(value)
        if not right.all():
            raise Wrong(f"{told} has {value.size - int(right.sum())} entries that are NaN or infinite")
        if (
            value.dtype.itemsize == 8
            and (largest := max(-np.nanmin(value, initial=0), np.nanmax(value, initial=0))) > most
        ):
            raise Wrong(f"{told} reaches {largest:.1e}, beyond {most:.0e}")
    if isinstance(value, csr_array):
        check_numbers(value.data, told, most=most)
    if isinstance(value, tuple | list):
        for entry in value:
            check_numbers(entry, told)
    if isinstance(value, dict):
        for key, entry in value.items():
            check_numbers(entry, f"{told}[{key!r}]")


def _describe(value: object) -> str:
    return stored_name(type(value)) or type(value).__name__


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value is what one alternative of an annotation says."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind in (bool, str, types.NoneType):
        return type(value) is kind
    if kind is int:
        return type(value) is int and abs(value) <= MOST_WHOLE
    if kind is float:
        return type(value) is float or (type(value) is int and abs(value) <= MOST_WHOLE)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    if kind in SPARSE:
        return isinstance(value, csr_array) and not isinstance(value, SparseRows)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin in (tuple, list):
        return type(value) is origin and _entries_fit(inner, value)
    if origin is dict:
        return type(value) is dict
    storable = stored_name(type(value)) is not None or type(value) is Checkpoint
    return storable and kind in type(value).__mro__


def _entries_fit(inner: tuple[Any, ...], value: Any) -> bool:
    if len(inner) == 2 and inner[1] is not Ellipsis:
        return len(value) == 2 and all(any(_fits(k, v) for k in alternatives(i)) for i, v in zip(inner, value))
    return all(any(_fits(kind, entry) for kind in alternatives(inner[0])) for entry in value)


# -- what letters and annotations do not say -----------------------------------------------


def _levels(values: dict[str, Any], letters: Letters) -> None:
    if not values["levels"]:
        raise Wrong("KernelSum has no levels")
    for level in values["levels"]:
        if not (isinstance(level, tuple) and len(level) == 2 and isinstance(level[0], float) and level[0] > 0):
            raise Wrong("a level of KernelSum is not a positive epsilon with coefficients")
        check_shape(level[1], "n c", letters, "KernelSum.levels")


def _of_its_rule(values: dict[str, Any], letters: Letters) -> None:
    if values["scale"] is None and type(values["rule"]).at_nearest is RowRule.at_nearest:
        raise Wrong("SpectralModel has no scale, and its rule no rows of its anchors")


def _of_degrees(values: dict[str, Any], letters: Letters) -> None:
    if letters["q"] not in (2, 4):
        raise Wrong(f"LowRankRule has {letters['q']} columns of degrees, not 2 or 4")


def _through_nearest(values: dict[str, Any], letters: Letters) -> None:
    if stored_name(type(values["markov"].geometry)) != "NearestAnchors":
        raise Wrong("RateRule sees other anchors than the nearest ones")


def _of_a_walk(values: dict[str, Any], letters: Letters) -> None:
    if values["stationary"] is None:
        raise Wrong("WalkRule has no stationary distribution")


def _of_all_landmarks(values: dict[str, Any], letters: Letters) -> None:
    rule, sums = values["found"].model.rule, values["found"].gathered
    known = stored_name(type(sums)) == "Gathered" and stored_name(type(rule)) in ("MarkovRule", "LandmarkMarkov")
    if not known or not isinstance(getattr(rule.geometry, "distances", None), Distances):
        raise Wrong("Past continues a fit that cannot be continued")
    if letters["l"] < letters["n"]:
        raise Wrong(f"Past knows {letters['l']} of {letters['n']} landmarks")


def _layers(values: dict[str, Any], letters: Letters) -> None:
    weights, biases = values["weights"], values["biases"]
    if values["activation"] not in network.ACTIVATIONS:
        raise Wrong(f"the activation {values['activation']!r} is not known")
    width = letters["d"]
    if len(weights) != len(biases) or not weights:
        raise Wrong("Network has as many biases as layers")
    for W, b in zip(weights, biases):
        if W.ndim != 2 or W.shape[0] != width or b.shape != W.shape[1:]:
            raise Wrong(f"a layer of Network has shape {W.shape} after {width} outputs")
        width = W.shape[1]
    if width != letters["c"]:
        raise Wrong(f"Network gives {width} outputs where {letters['c']} are needed")


def _of_its_kind(values: dict[str, Any], letters: Letters) -> None:
    _within_mass(values, letters)
    near = values["kind"] in ("union", "mutual")
    if near != (values.get("radii") is not None) or (near and values["k"] < 1):
        raise Wrong(f"SparseGraph of kind {values['kind']!r} with radii {values.get('radii') is not None}")
    if (values.get("local") is None) != (values.get("sigma") is None):
        raise Wrong("SparseGraph has local units and no sigma, or the other way round")


def _within_mass(values: dict[str, Any], letters: Letters) -> None:
    if not 0 <= values.get("k", 0) <= values["measure"].sum() or not values.get("radius", 0.0) >= 0:
        raise Wrong(f"k = {values.get('k')} or the radius {values.get('radius')} is beyond the points")


def _name_of_metric(values: dict[str, Any], letters: Letters) -> None:
    if values.get("name", "euclidean") not in METRICS:
        raise Wrong(f"the metric {values['name']!r} is not known")
    if not values.get("params", {}).keys() <= set(METRIC_PARAMETERS):
        raise Wrong("a metric has the parameters p, V, VI and w only")
    anchors = values.get("anchors")
    if anchors is not None and values.get("name") != "nan_euclidean":
        check_numbers(anchors, "Distances.anchors")


def _name_of_kernel(values: dict[str, Any], letters: Letters) -> None:
    if values["name"] not in kernels.NAMED:
        raise Wrong(f"the kernel {values['name']!r} is not known")
    if values["name"] != "rbf" and values["search"] is None:
        raise Wrong("KernelValues has no search")
    if values["name"] == "linear" and values["centre"] is None:
        raise Wrong("KernelValues has no centre")


def _euclidean(values: dict[str, Any], letters: Letters) -> None:
    if not isinstance(values["distances"], Distances) or values["distances"].name != "euclidean":
        raise Wrong("Tree and Cells are for Euclidean distances between points")


def _in_cells(values: dict[str, Any], letters: Letters) -> None:
    _euclidean(values, letters)
    members, sizes = values["members"], values["sizes"]
    if (sizes < 0).any() or sizes.sum() != len(members) or (np.bincount(members) != 1).any():
        raise Wrong("Cells does not hold every anchor in one cell")
    if values["probes"] > len(sizes):
        raise Wrong(f"Cells searches {values['probes']} of {len(sizes)} cells")


def _over_sparse_rows(values: dict[str, Any], letters: Letters) -> None:
    if values.get("name", "euclidean") not in SPARSE_METRICS or values.get("params"):
        raise Wrong(f"the metric {values.get('name')!r} does not take sparse rows")
    if not isinstance(values["anchors"], SparseRows):
        raise Wrong("SparseDistances has anchors that are not sparse")


def _of_dense_rows(values: dict[str, Any], letters: Letters) -> None:
    _name_of_metric(values, letters)
    if isinstance(values["anchors"], SparseRows):
        raise Wrong("Distances has sparse anchors")


def _of_neighbors(values: dict[str, Any], letters: Letters) -> None:
    _is_given(values, letters)
    if not isinstance(values["anchors"], SparseRows):
        raise Wrong("GivenNeighbors has a matrix that is not sparse")


def _is_given(values: dict[str, Any], letters: Letters) -> None:
    if values.get("name", "given") != "given":
        raise Wrong("GivenTable has no other name than given")


def _candidates(values: dict[str, Any], letters: Letters) -> None:
    if any(stored_name(type(entry)) != "Candidate" for entry in values.get("candidates", ())):
        raise Wrong("Report.candidates holds something else")


def _some_width(values: dict[str, Any], letters: Letters) -> None:
    if values["epsilon"] <= 0:
        raise Wrong(f"epsilon = {values['epsilon']} is not positive")


def _of_columns(values: dict[str, Any], letters: Letters) -> None:
    if not {letters.get("p", 0), letters.get("q", 0)} <= {0, len(values["columns"])}:
        raise Wrong("Preparation does not scale as many columns as it has")


def _of_features(values: dict[str, Any], letters: Letters) -> None:
    if len(values["mass"]) != len(values["degree"]):
        raise Wrong(f"CosineRule has masses of {len(values['mass'])} features and {len(values['degree'])} degrees")
    if not (np.linalg.norm(values["mass"]) > 0 and (values["mass"] >= 0).all() and (values["degree"] >= 0).all()):
        raise Wrong("masses and degrees of CosineRule must not be negative, and some positive")


FURTHER: dict[str, Callable[[dict[str, Any], Letters], None]] = {
    "Preparation": _of_columns,
    "SpectralModel": _of_its_rule,
    "Past": _of_all_landmarks,
    "LowRankRule": _of_degrees,
    "RateRule": _through_nearest,
    "WalkRule": _of_a_walk,
    "Bandwidth": _some_width,
    "Tree": _euclidean,
    "Cells": _in_cells,
    "CosineRule": _of_features,
    "GivenTable": _is_given,
    "Report": _candidates,
    "KernelSum": _levels,
    "Network": _layers,
    "SparseGraph": _of_its_kind,
    "Geodesics": _within_mass,
    "Distances": _of_dense_rows,
    "SparseDistances": _over_sparse_rows,
    "GivenNeighbors": _of_neighbors,
    "Metric": _name_of_metric,
    "KernelValues": _name_of_kernel,
}
