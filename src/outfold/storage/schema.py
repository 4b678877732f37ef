"""What a model file may hold: a closed list of classes, and what the parts of each must be.

Every part of an object is checked by its annotation: whole numbers, numbers that are not NaN, finite arrays, names. A
``Form`` adds what an annotation does not say: axes that must agree (letters), ranges, which classes are allowed where
the annotation is ``Any``, and which numbers may be infinite or NaN. Each object has its own letters; ``parts`` copies
letters from the objects it holds, so that a basis must have as many rows as there are anchors, however deeply these are
nested.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from .. import distances, kernels
from .._runtime.registry import names_of, stored_class, stored_name
from ..engine import cross_fit
from ..neural import network

MOST_WHOLE = 1 << 53


@dataclass(frozen=True)
class Form:
    """What the fields of a class must be; the keys are names of fields."""

    shapes: dict[str, str] = field(default_factory=dict)  # the axes of an array, one letter each
    parts: dict[str, str] = field(default_factory=dict)  # letters taken from a field; "n>N": its n is our N
    among: dict[str, str] = field(default_factory=dict)  # the groups a field's class must be in
    index: dict[str, str] = field(default_factory=dict)  # whole numbers from 0 to below a letter
    limits: dict[str, tuple[float, str]] = field(default_factory=dict)  # lower bound, and upper bound as a letter
    positive: tuple[str, ...] = ()  # fields that are > 0
    free: tuple[str, ...] = ()  # fields that may be infinite or NaN
    without: tuple[str, ...] = ()  # caches, which are not stored


_N_D = "n d"

GROUPS = {  # classes allowed for fields annotated as Any
    "search": "Tree Brute Proposed",
    "geometry": "DenseGraph SparseGraph NearestLandmarks",
    "values": "KernelValues SquaredDistances GivenValues Geodesics",
    "rule": "MarkovRule CanonicalRule LaplacianRule CentredRule BarycentricRule LowRankRule DecayRule",
    "kernel": "GaussianKernel Affinity",
    "measured": "Distances Given GivenTable",
    "model": "SpectralModel ExtendedModel NetworkModel",
    "function": "KernelSum BarycentricModel LinearModel Network JointModel",
    "view": "Affinities Kernels Distant Geodesic Reconstruction LandmarkDiffusion LowRankDiffusion HeatPotential",
    "normalization": "Markov Unnormalized Centring LandmarkMarkov",
    "specification": "Gaussian Affinity Named GaussianKernel",
    "bandwidth": "Fixed Percentile Neighbor Slope",
    "edges": "AllPairs Union Mutual Ball Threshold Either",
    "landmarks": "Everything Random Enough UpTo Points KMeans FarthestPoint MinDistance InverseDensity RPCholesky",
    "solver": "AutoSolver Dense Lanczos Krylov ShiftInvert Lobpcg LowRank",
    "extension": (
        "Nystrom LeastSquares KernelRidge GeometricHarmonics LaplacianPyramid Barycentric CompressedDiffusion "
        "LinearMap Net Auto"
    ),
}

FORMS: dict[str, Form] = {
    # distances, searches, graphs
    "Metric": Form(),
    "Distances": Form({"anchors": _N_D}),
    "Given": Form({"anchors": "n"}),
    "GivenTable": Form({"anchors": "n n"}),
    "Tree": Form(parts={"distances": _N_D}),
    "Brute": Form(parts={"distances": _N_D}, among={"distances": "measured"}),
    "Proposed": Form(parts={"distances": _N_D}, without=("source",)),
    "DenseGraph": Form(
        {"measure": "n", "sigma": "n"}, {"distances": _N_D}, {"distances": "measured"},
        positive=("sigma",), without=("table",), free=("slack",),
    ),
    "SparseGraph": Form(
        {"measure": "n", "radii": "n", "sigma": "n", "bridges": "n n"}, {"search": _N_D},
        {"search": "search", "bridges": "csr None"}, positive=("sigma",), without=("lists",),
    ),
    "NearestLandmarks": Form(
        parts={"search": _N_D}, among={"search": "search"}, limits={"k": (1, "n")}
    ),
    # kernels and rules
    "Bandwidth": Form(free=("epsilon", "dimension")),
    "GaussianKernel": Form(),
    "Affinity": Form(),
    "KernelValues": Form(
        {"centre": "d"}, {"distances": _N_D, "search": _N_D}, {"search": "search None"},
        positive=("gamma",),
    ),
    "GivenValues": Form({"anchors": "n", "measure": "n"}),
    "SquaredDistances": Form(parts={"distances": _N_D}, among={"distances": "measured"}),
    "Geodesics": Form(
        {"measure": "N", "table": "N n", "at": "n"}, {"search": "n>N d"}, {"search": "search"},
        {"at": "N"},
    ),
    "MarkovRule": Form(
        {"measure": "n", "gain": "n", "stationary": "n"}, {"geometry": _N_D},
        {"geometry": "geometry", "kernel": "kernel"}, positive=("gain",),
    ),
    "CanonicalRule": Form({"powers": "n", "root": "n"}, {"markov": _N_D}),
    "LaplacianRule": Form({"eigenvalues": "c"}, {"markov": _N_D}),
    "CentredRule": Form(
        {"measure": "n", "centre": "n"}, {"geometry": _N_D}, {"geometry": "values"}
    ),
    "BarycentricRule": Form(
        parts={"search": _N_D}, among={"search": "search"}, limits={"k": (1, "n")},
        positive=("reg",),
    ),
    "LowRankRule": Form({"degrees": "n q"}, {"geometry": _N_D}, {"kernel": "kernel"}),
    "Decay": Form(
        {"units": "n"}, {"distances": _N_D}, limits={"neighbours": (0, "n")},
        positive=("units", "decay"),
    ),
    "DecayRule": Form({"measure": "n"}, {"geometry": _N_D}),
    "Nearness": Form(positive=("unit_squared",)),
    "Reference": Form(),
    # models
    "SpectralModel": Form(
        {"basis": "n c", "scale": "c"}, {"rule": "n d c"}, {"rule": "rule"}
    ),
    "ExtendedModel": Form(
        parts={"spectral": "n d c", "extension": "d c"}, among={"extension": "function"}
    ),
    "KernelSum": Form({"mean": "c", "measure": "n"}, {"distances": _N_D}),
    "BarycentricModel": Form({"values": "n c"}, {"rule": _N_D}),
    "LinearModel": Form({"centre": "d", "matrix": "d c", "mean": "c"}),
    "JointModel": Form(parts={"spectral": "n d c"}, among={"spectral": "model"}),
    "Scaling": Form({"mean": "c", "spread": "c"}, positive=("spread",)),
    "Network": Form(
        parts={"source": "c>d", "target": "c"}, among={"activation": "activation"}
    ),
    "Known": Form({"points": _N_D, "values": "n c", "measure": "n"}, without=("_found", "model")),
    "Sentinel": Form(parts={"known": "n d c", "search": _N_D}, among={"search": "search"}),
    "NetworkModel": Form(parts={"encoder": "d c", "sentinel": "d c"}),
    "Calibration": Form(
        {"lowest": "f", "highest": "f", "centre": "f", "slopes": "f", "scores": "s"},
        positive=("effective",),
    ),
    "Candidate": Form(among={"extension": "extension"}, free=("error", "doubt")),
    "WayBack": Form(
        {"scale": "d"}, {"model": "d c"}, {"model": "function", "extension": "extension str"},
        positive=("scale",), free=("error",),
    ),
    # reports of a fit
    "Report": Form(
        free=("epsilon", "degree", "residual", "gap", "trace", "negative_mass", "amplification", "extension_gap",
              "dimension"),
    ),
    "Drift": Form(free=("moved", "moved_since_fit", "eigenvalues")),
    "Encoded": Form(free=("extension_gap", "reconstruction")),
    # specifications
    "Recipe": Form(
        among={"view": "view", "landmarks": "landmarks", "solver": "solver"}),
    "Affinities": Form(
        among={"metric": "Metric None", "edges": "edges", "kernel": "specification", "normalization": "normalization"},
    ),
    "Kernels": Form(among={"kernel": "Named None"}),
    "Distant": Form(among={"metric": "Metric None"}),
    "Geodesic": Form(among={"metric": "Metric None", "edges": "edges"}),
    "Reconstruction": Form(),
    "LandmarkDiffusion": Form(
        among={"metric": "Metric None", "edges": "edges", "kernel": "specification"}, free=("memory",),
    ),
    "LowRankDiffusion": Form(among={"metric": "Metric None", "kernel": "specification"}),
    "HeatPotential": Form(among={"metric": "Metric None"}),
    "Markov": Form(),
    "Unnormalized": Form(),
    "Centring": Form(),
    "LandmarkMarkov": Form(),
    "Gaussian": Form(among={"rule": "bandwidth"}),
    "Named": Form(),
    "Fixed": Form(free=("epsilon",), positive=("epsilon",)),
    "Percentile": Form(),
    "Neighbor": Form(),
    "Slope": Form(),
    "AllPairs": Form(),
    "Union": Form(among={"search": "str"}),
    "Mutual": Form(among={"search": "str"}),
    "Ball": Form(among={"search": "str"}),
    "Threshold": Form(among={"search": "str"}),
    "Either": Form(),
    "Everything": Form(),
    "Random": Form(),
    "Enough": Form(),
    "UpTo": Form(),
    "Points": Form({"points": _N_D}),
    "KMeans": Form(),
    "FarthestPoint": Form(),
    "MinDistance": Form(),
    "InverseDensity": Form(),
    "RPCholesky": Form(),
    "AutoSolver": Form(),
    "Dense": Form(),
    "Lanczos": Form(),
    "Krylov": Form(),
    "ShiftInvert": Form(),
    "Lobpcg": Form(),
    "LowRank": Form(),
    "Nystrom": Form(),
    "LeastSquares": Form(),
    "KernelRidge": Form(),
    "GeometricHarmonics": Form(),
    "LaplacianPyramid": Form(),
    "Barycentric": Form(),
    "CompressedDiffusion": Form(among={"landmarks": "str landmarks"}),
    "LinearMap": Form(),
    "Net": Form(),
    "Auto": Form(),
    # the state that an update starts from
    "Anchors": Form({"points": _N_D, "index": "n", "measure": "n"}),
    "Gathered": Form(
        {"gram": "n n", "seen": "n", "index": "n"}, among={"gram": "array csr"},
        index={"index": "rows"},
    ),
    "Fit": Form(
        {"eigenvalues": "c", "functions": "n c", "embedding": "r c", "measure": "r", "columns": "k", "places": "n c"},
        {"model": "n d c", "anchors": _N_D}, {"model": "model", "gathered": "Gathered None"},
    ),
    "Past": Form({"first": "l c", "start": "n e"}, {"found": "n d c"}),
    # the preparation of a table before the fit
    "Preparation": Form({"centre": "p", "scale": "q"}, positive=("scale",)),
}  # fmt: skip

ESTIMATORS = frozenset(
    [
        "DiffusionMaps", "LaplacianEigenmaps", "SpectralClustering", "Roseland", "KernelPCA", "ClassicalMDS", "Isomap",
        "LocallyLinearEmbedding", "PHATE", "DiffusionNet", "GRAE", "Islands",
    ]
)  # fmt: skip


def is_estimator(value: Any) -> bool:
    """Whether a value is one of our estimators."""
    return stored_name(type(value)) in ESTIMATORS


def stored_fields(name: str) -> list[Any]:
    """Return the fields of a class that a file holds."""
    return [f for f in fields(stored_class(name)) if f.name not in FORMS[name].without]


def required_fields(name: str) -> set[str]:
    """Return the names of the fields without a default, which older files have too."""
    return {f.name for f in stored_fields(name) if f.default is MISSING and f.default_factory is MISSING}


# -- checking ------------------------------------------------------------------------------


class Wrong(ValueError):
    """An error that says what is wrong with a value."""


Letters = dict[str, int]


def check(name: str, values: dict[str, Any], inner: dict[str, Letters]) -> Letters:
    """Check the fields of an object and return its letters; ``inner`` holds the letters of fields that are objects."""
    form = FORMS[name]
    letters: Letters = {}
    for part, handed in form.parts.items():
        for pair in handed.split():
            theirs, _, ours = pair.partition(">")
            if theirs in inner.get(part, {}):
                agree(letters, ours or theirs, inner[part][theirs], f"{name}.{part}")
    for f in stored_fields(name):
        if f.name not in values:
            continue
        value, told = values[f.name], f"{name}.{f.name}"
        if not _fits(f.type, value, form.among.get(f.name)):
            raise Wrong(f"{told} is {_describe(value)}, not {f.type}")
        if f.name not in form.free:
            check_numbers(value, told, nan=name in NAN_POINTS and f.name in NAN_POINTS[name])
        if isinstance(value, np.ndarray) and value.dtype.kind not in (
            "iu" if (name, f.name) in INTEGER_FIELDS else "f"
        ):
            raise Wrong(f"{told} is an array of {value.dtype}")
        if f.name in form.shapes and value is not None:
            check_shape(value, form.shapes[f.name], letters, told)
        if f.name in form.positive and value is not None and not np.all(np.asarray(value) > 0):
            raise Wrong(f"{told} must be positive")
    _check_ranges(form, values, letters, name)
    if name in FURTHER:
        FURTHER[name](values, letters)
    return letters


INTEGER_FIELDS = {  # arrays of whole numbers; all others hold floats
    ("Given", "anchors"), ("GivenValues", "anchors"), ("Geodesics", "at"), ("Anchors", "index"), ("Gathered", "index"),
    ("Fit", "columns"),
}  # fmt: skip
NAN_POINTS = {"Distances": ("anchors",), "Known": ("points",), "Anchors": ("points",)}  # may hold NaN (nan_euclidean)


def agree(letters: Letters, letter: str, value: int, told: str) -> None:
    """Set a letter to a size; raise ``Wrong`` if it has another size already."""
    if letters.setdefault(letter, value) != value:
        raise Wrong(f"{told} has {value} where {letters[letter]} are needed")


def check_shape(value: Any, axes: str, letters: Letters, told: str) -> None:
    wanted = axes.split()
    if len(value.shape) != len(wanted):
        raise Wrong(f"{told} has {len(value.shape)} axes instead of {len(wanted)}")
    for letter, size in zip(wanted, value.shape):
        agree(letters, letter, int(size), told)


def _check_ranges(form: Form, values: dict[str, Any], letters: Letters, name: str) -> None:
    known = {**letters, **{k: v for k, v in values.items() if type(v) is int}}
    for part, letter in form.index.items():
        if values.get(part) is not None:
            check_index(values[part], known[letter], f"{name}.{part}")
    for part, (low, letter) in form.limits.items():
        if part in values and not low <= values[part] <= known.get(letter, np.inf):
            raise Wrong(f"{name}.{part} is {values[part]}, beyond {low} to {known.get(letter)}")


def check_index(value: Any, count: int, told: str) -> None:
    if value.dtype.kind not in "iu" or (value.size and not 0 <= int(value.min()) <= int(value.max()) < count):
        raise Wrong(f"{told} must hold indices below {count}")


def check_numbers(value: Any, told: str, *, nan: bool = False) -> None:
    """Refuse NaN anywhere and infinity in arrays; ``nan`` allows NaN in an array."""
    if isinstance(value, float) and value != value:
        raise Wrong(f"{told} is NaN")
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        right = ~np.isinf(value) if nan else np.isfinite(value)
        if not right.all():
            raise Wrong(f"{told} has {value.size - int(right.sum())} entries that are NaN or infinite")
    if isinstance(value, csr_array):
        check_numbers(value.data, told)
    if isinstance(value, tuple | list):
        for entry in value:
            check_numbers(entry, told)
    if isinstance(value, dict):
        for key, entry in value.items():
            check_numbers(entry, f"{told}[{key!r}]")


def _describe(value: Any) -> str:
    return stored_name(type(value)) or type(value).__name__


def _fits(annotation: Any, value: Any, groups: str | None) -> bool:
    if groups is None:
        return any(_one_fits(kind.strip(), value) for kind in str(annotation).split(" | "))
    if groups == "activation":
        return isinstance(value, str) and value in network.ACTIVATIONS
    allowed = " ".join(GROUPS.get(group, group) for group in groups.split()).split()
    plain = {type(None): "None", str: "str", np.ndarray: "array", csr_array: "csr"}
    return plain.get(type(value), _describe(value)) in allowed


def _one_fits(kind: str, value: Any) -> bool:
    """Whether a value is what one alternative of an annotation says."""
    plain = {"None": type(None), "bool": bool, "str": str, "dict[str, Any]": dict}
    if kind in plain:
        return type(value) is plain[kind]
    if kind == "int":
        return type(value) is int and abs(value) <= MOST_WHOLE
    if kind == "float":
        return type(value) is float or (type(value) is int and abs(value) <= MOST_WHOLE)
    if kind in ("Array", "NDArray[Any]"):
        return isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    if kind.startswith("Literal["):
        return isinstance(value, str) and value in re.findall(r"""["']([^"']*)["']""", kind)
    if kind.startswith("tuple["):
        each = kind.removeprefix("tuple[").removesuffix("]").removesuffix(", ...")
        nested = each.startswith("tuple[")
        return isinstance(value, tuple) and (nested or all(_one_fits(each, entry) for entry in value))
    if kind.startswith("Callable"):
        return False
    known = names_of(kind.split(".")[-1])
    return not known or stored_name(type(value)) in known


# -- what letters and annotations do not say -----------------------------------------------


def _levels(values: dict[str, Any], letters: Letters) -> None:
    if not values["levels"]:
        raise Wrong("KernelSum has no levels")
    for level in values["levels"]:
        if not (isinstance(level, tuple) and len(level) == 2 and isinstance(level[0], float) and level[0] > 0):
            raise Wrong("a level of KernelSum is not a positive epsilon with coefficients")
        check_shape(level[1], "n c", letters, "KernelSum.levels")


def _layers(values: dict[str, Any], letters: Letters) -> None:
    weights, biases = values["weights"], values["biases"]
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
    if values.get("name", "euclidean") not in distances.METRICS:
        raise Wrong(f"the metric {values['name']!r} is not known")
    if not values.get("params", {}).keys() <= {"p", "V", "VI", "w"}:
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


def _of_points(values: dict[str, Any], letters: Letters) -> None:
    if values["distances"].name != "euclidean":
        raise Wrong("Tree is for Euclidean distances")


def _is_given(values: dict[str, Any], letters: Letters) -> None:
    if values.get("name", "given") != "given":
        raise Wrong("GivenTable has no other name than given")


def _candidates(values: dict[str, Any], letters: Letters) -> None:
    if any(type(entry) is not cross_fit.Candidate for entry in values.get("candidates", ())):
        raise Wrong("Report.candidates holds something else")


def _some_width(values: dict[str, Any], letters: Letters) -> None:
    if values["epsilon"] <= 0:
        raise Wrong(f"epsilon = {values['epsilon']} is not positive")


def _of_columns(values: dict[str, Any], letters: Letters) -> None:
    if not {letters.get("p", 0), letters.get("q", 0)} <= {0, len(values["columns"])}:
        raise Wrong("Preparation does not scale as many columns as it has")


FURTHER = {
    "Preparation": _of_columns,
    "Bandwidth": _some_width,
    "Tree": _of_points,
    "GivenTable": _is_given,
    "Report": _candidates,
    "KernelSum": _levels,
    "Network": _layers,
    "SparseGraph": _of_its_kind,
    "Geodesics": _within_mass,
    "Distances": _name_of_metric,
    "Metric": _name_of_metric,
    "KernelValues": _name_of_kernel,
}
