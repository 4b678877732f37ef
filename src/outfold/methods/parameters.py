"""Functions that turn parameters (names, numbers) into checked objects, or raise an error that says what is valid."""

from __future__ import annotations

import math
import os
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from .. import bandwidths, distances, extensions, graphs, kernels, landmarks, neural, solvers
from .._runtime.memory import free_memory
from .._runtime.threads import Threads
from .._runtime.typing import FLAG, Array, Interval, Options, Seed
from ..bandwidths import BandwidthRule
from ..data import inputs
from ..data.checkpoints import Checkpoint
from ..graphs import rules
from ..graphs.protocols import EdgeRule
from ..landmarks import Landmarks
from ..solvers import Solver, shift_invert

ON_FAR = ("warn", "nan", "raise", "nearest")
EPSILON_RULES = ("auto", "median", "neighbor", "slope", "percentile", "cut_off")
MARKOV_SOLVERS = ("auto", "dense", "lanczos", "filtered", "shift_invert", "lobpcg")
CENTRED_SOLVERS = ("auto", "dense", "lanczos", "krylov")
RESIDUAL_SOLVERS = ("auto", "dense", "shift_invert", "lanczos")
SELF_TUNING_NEIGHBORS = 15  # of kernel="self_tuning", if the caller gives no number
SEARCHES = ("auto", "tree", "brute", "cells")


# -- types of parameters -------------------------------------------------------------------


class Predictor(Protocol):
    """A regressor, such as those of scikit-learn."""

    def fit(self, X: Array, y: Array) -> object: ...

    def predict(self, X: Array) -> Array: ...


Epsilon: TypeAlias = float | str | BandwidthRule
SparseRule: TypeAlias = graphs.Union | graphs.Mutual | graphs.Ball | graphs.Threshold
Neighbors: TypeAlias = int | str | SparseRule | None
MetricChoice: TypeAlias = str | Callable[..., float] | distances.Metric
Components: TypeAlias = int | str | Sequence[int] | Array
SolverChoice: TypeAlias = str | Solver
LandmarkChoice: TypeAlias = ArrayLike | Landmarks | None
Specification: TypeAlias = extensions.Extension | extensions.Auto
ExtensionChoice: TypeAlias = str | Specification | Predictor


# -- names and numbers ---------------------------------------------------------------------

LARGEST_COUNT = 2**53  # beyond it floating-point numbers, in which plans are computed, skip whole numbers
THREADS_UP_TO = 4096


def show_value(value: object) -> str:
    """Return how a message shows a value: its text, cut if it is long."""
    return inputs.show_value(value)


def one_of(name: str, value: object, valid: Sequence[str]) -> str:
    """Return ``value`` if it is one of the valid names, else raise an error that lists them."""
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"{name}={show_value(value)} is not known. Valid: {', '.join(map(repr, valid))}.")
    return value


def number(name: str, value: object, *, low: float, high: float = math.inf, open_low: bool = False) -> float:
    """Return ``value`` as a float within the bounds."""
    bound = f"{'>' if open_low else '>='} {low:g}" + (f" and <= {high:g}" if math.isfinite(high) else "")
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={show_value(value)} must be a number {bound}.")
    try:
        plain = float(value)
    except OverflowError:
        raise ValueError(f"{name}={show_value(value)} must be a number {bound}, at most 1.8e308.") from None
    if math.isnan(plain) or plain < low or plain > high or (open_low and plain == low):
        raise ValueError(f"{name}={show_value(value)} must be {bound}.")
    if plain and math.isfinite(plain) and not SMALLEST_NUMBER <= abs(plain) <= LARGEST_NUMBER:
        size = "small" if abs(plain) < SMALLEST_NUMBER else "large"
        raise ValueError(
            f"{name}={show_value(value)} is too {size}: it must be between {SMALLEST_NUMBER:g} and "
            f"{LARGEST_NUMBER:g} to be computed with."
        )
    return plain


def count(name: str, value: object, *, low: int = 1) -> int:
    """Return ``value`` as a whole number >= low."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_) or value < low:
        raise ValueError(f"{name}={show_value(value)} must be a whole number >= {low}.")
    if int(value) > LARGEST_COUNT:
        raise ValueError(f"{name}={show_value(value)} must be a whole number >= {low} and <= {LARGEST_COUNT}.")
    return int(value)


def flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool; 0 and 1 are taken too."""
    if not isinstance(value, bool | np.bool_ | int | np.integer):
        raise ValueError(f"{name}={show_value(value)} must be True or False.")
    return bool(value)


def threads(value: object, verbose: object = False) -> Threads:
    """Return the threads of ``n_jobs``, which is None or a whole number other than 0."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value != 0
    if value is not None and not (whole and abs(int(value)) <= THREADS_UP_TO):  # type: ignore[call-overload]
        raise ValueError(
            f"n_jobs={show_value(value)} must be None or a whole number other than 0, between {-THREADS_UP_TO} and "
            f"{THREADS_UP_TO}."
        )
    return Threads(None if value is None else int(value), flag("verbose", verbose))  # type: ignore[call-overload]


def widths(name: str, value: object) -> tuple[int, ...]:
    """Return the number of units of each hidden layer."""
    if isinstance(value, str) or not isinstance(value, Iterable) or not np.iterable(value):
        raise ValueError(f"{name}={show_value(value)} must hold the widths of the hidden layers, such as (100, 100).")
    return tuple(count(name, width) for width in value)


def seed(value: Seed) -> int:
    """Return a whole number drawn from a random_state."""
    return int(random_source(value).randint(2**31 - 1))


def random_source(value: Seed) -> np.random.RandomState:
    """Return the source of random numbers that ``random_state`` names."""
    try:
        found: np.random.RandomState = check_random_state(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(
            f"random_state={show_value(value)} must be None, a whole number from 0 to 2**32 - 1, or a "
            "numpy.random.RandomState."
        ) from None
    return found


# -- fields with marks ---------------------------------------------------------------------

SMALLEST_NUMBER, LARGEST_NUMBER = (
    1e-305,
    1e305,
)  # products with data and inverses are finite between these
ABOVE_ZERO, LOCAL = Interval(0, open_low=True), Annotated[int | None, Interval(1)]
LABELS: dict[tuple[type, str], str] = {  # what messages call a field: the parameter of the estimator that it stands for
    (graphs.Union, "k"): "n_neighbors",
    (graphs.Mutual, "k"): "n_neighbors",
    (graphs.Threshold, "eta"): "threshold",
}


def check(value: object, name: str = "") -> None:
    """Refuse an object with a field that its marks do not allow; ``name`` begins the message."""
    kind: type = type(value)
    for field, hint in marked_fields(kind).items():
        label = LABELS.get((kind, field), field)
        _check_field(f"{name}: {label}" if name else label, getattr(value, field), hint)


@cache
def marked_fields(kind: type) -> dict[str, Any]:
    """Return the annotation of every field of a class that has a range, options or a flag."""
    hints = get_type_hints(kind, include_extras=True)
    marks = (Interval, Options, type(FLAG))
    return {f: hint for f, hint in hints.items() if any(isinstance(m, marks) for m in get_args(hint)[1:])}


@cache
def _plain_fields(kind: type) -> dict[str, tuple[Any, ...]]:
    """Return the kinds of every field of a class that is a number without marks: int, float, or either, and None."""
    hints = get_type_hints(kind)
    parts = {
        f: get_args(hint) if get_origin(hint) in (typing.Union, UnionType) else (hint,) for f, hint in hints.items()
    }
    numbers = {f: kinds for f, kinds in parts.items() if set(kinds) <= {int, float, NoneType}}
    return {f: kinds for f, kinds in numbers.items() if f not in marked_fields(kind) and not f.startswith("_")}


def check_numbers(value: object, name: str) -> None:
    """Refuse an object with a number that is none, or below 0; ``name`` begins the message."""
    check(value, name)
    kind: type = type(value)
    for field, kinds in _plain_fields(kind).items():
        found, label = getattr(value, field, None), f"{name}: {field}"
        if found is None and NoneType in kinds:
            continue
        if float not in kinds or (int in kinds and isinstance(found, Integral)):
            count(label, found, low=0)
        else:
            number(label, found, low=0.0)


def _check_field(label: str, value: object, hint: Any) -> None:
    kind, *marks = get_args(hint)
    parts = get_args(kind) if get_origin(kind) in (typing.Union, UnionType) else (kind,)
    literals = [text for part in parts if get_origin(part) is Literal for text in get_args(part)]
    if (value is None and NoneType in parts) or (isinstance(value, str) and value in literals):
        return
    options = next((mark for mark in marks if isinstance(mark, Options)), None)
    interval = next((mark for mark in marks if isinstance(mark, Interval)), None)
    if FLAG in marks and not isinstance(value, bool | np.bool_):
        raise ValueError(f"{label}={show_value(value)} must be True or False.")
    if literals and isinstance(value, str):
        one_of(label, value, literals)
    elif options is not None and (interval is None or isinstance(value, str)):
        one_of(label, value, options.choices)
    elif interval is not None and get_origin(kind) in (tuple, Sequence):
        widths(label, value)
    elif interval is not None and float in parts:
        number(label, value, low=interval.low, high=float(interval.high), open_low=interval.open_low)
    elif interval is not None:
        count(label, value, low=int(interval.low))


# -- stages --------------------------------------------------------------------------------


def bandwidth(value: Epsilon, *, auto: BandwidthRule) -> BandwidthRule:
    """Return the bandwidth rule of a number, a name or a rule; ``auto`` is the rule of "auto"."""
    if isinstance(value, str):
        named: dict[str, BandwidthRule] = {
            "auto": auto,
            "median": bandwidths.Percentile(50.0),
            "neighbor": bandwidths.Neighbor(16),
            "slope": bandwidths.Slope(),
            "percentile": bandwidths.Percentile(1.0),
            "cut_off": bandwidths.CutOff(),
        }
        return named[one_of("epsilon", value, EPSILON_RULES)]
    if isinstance(value, int | float) or not hasattr(value, "bandwidth"):
        epsilon = number("epsilon", value, low=0.0, open_low=True)
        return bandwidths.Fixed(epsilon)
    check_numbers(value, "epsilon")
    return value


def edge_rule(n_neighbors: Neighbors, threshold: float | None, kernel: str, local: int | None) -> EdgeRule:
    """Return the rule that selects pairs; the rule of "auto" depends on the number of anchors."""
    if threshold is not None:
        check_rule(rule := graphs.Threshold(threshold, local=local))
        if n_neighbors not in (None, "auto"):
            raise ValueError(
                f"n_neighbors={n_neighbors!r} and threshold={threshold!r} both say which pairs to keep: pass one."
            )
        return replace(rule, eta=float(threshold))
    if isinstance(n_neighbors, SparseRule):
        check_rule(n_neighbors)
        if local is None:
            refuse_local_unit(n_neighbors, "kernel='self_tuning' or 'continuous_knn'")
        return replace(n_neighbors, local=local if n_neighbors.local is None else n_neighbors.local)
    if isinstance(n_neighbors, str):
        one_of("n_neighbors", n_neighbors, ("auto",))
    k = None if n_neighbors is None or isinstance(n_neighbors, str) else count("n_neighbors", n_neighbors, low=2)
    if kernel == "continuous_knn":
        return graphs.Ball("auto", local=local if k is None else k)
    if k is not None:
        return graphs.Union(k, local=local)
    if n_neighbors is None:
        return graphs.AllPairs(local)
    if kernel == "self_tuning":  # over all pairs every row of many features would look alike
        return rules.DenseOrNearest(local, dense_up_to=SELF_TUNING_NEIGHBORS, k=SELF_TUNING_NEIGHBORS)
    return rules.DenseOrNearest(local)


def refuse_local_unit(rule: SparseRule, where: str) -> None:
    if rule.local is not None:
        raise ValueError(f"n_neighbors={rule!r} measures in units of neighbour {rule.local}, which is for {where}.")


def check_rule(rule: SparseRule) -> None:
    """Refuse an edge rule with a number outside its range, or a search that is none."""
    check(rule)
    if isinstance(rule, graphs.Threshold) and rule.eta == 1:
        raise ValueError("threshold=1 keeps nothing but the points themselves; it must be below 1.")
    if isinstance(rule.search, str):
        one_of("search", rule.search, SEARCHES)
    elif not (hasattr(rule.search, "fit") and hasattr(rule.search, "transform")):
        raise ValueError(
            f"search={rule.search!r} must be one of {', '.join(map(repr, SEARCHES))} or an object with fit and "
            "transform that returns a sparse graph of distances (scikit-learn's KNeighborsTransformer)."
        )


def metric(value: MetricChoice) -> distances.Metric | None:
    """Return a metric, or None for metric="precomputed"."""
    refuse_class("metric", value)
    if isinstance(value, str) and one_of("metric", value, distances.METRICS) == "precomputed":
        return None
    return distances.Metric.of(value)


UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def memory(value: float | str) -> float:
    """Return bytes from a number or a text such as "4GB"; "auto" is 70 % of the free memory."""
    if isinstance(value, str):
        if value == "auto":
            return 0.7 * free_memory()
        found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]+)\s*", value)
        if not found or found[2].upper() not in UNITS or found[1].count(".") > 1 or found[1] == ".":
            raise ValueError(f"memory={value!r} is not known. Pass 'auto', bytes, or a text such as '4GB' or '500MiB'.")
        value = float(found[1]) * UNITS[found[2].upper()]
    return number("memory", value, low=0.0, open_low=True)


def checkpoint(value: str | os.PathLike[str] | Checkpoint | None) -> Checkpoint:
    """Return a Checkpoint with a folder, or one that stores nothing if ``value`` is None."""
    if isinstance(value, Checkpoint):
        checkpoint(value.folder)
        return value
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ValueError(f"checkpoint={show_value(value)} must be None, the path of a folder, or a Checkpoint.")
    if "\0" in str(value or ""):
        raise ValueError(f"checkpoint={show_value(value)} holds a null character, which no path may.")
    return Checkpoint(value)


def refuse_class(name: str, value: object) -> None:
    """Refuse a class, which can be called but makes an object instead of a number."""
    if isinstance(value, type):
        raise ValueError(f"{name}={value!r} is a class: pass a name, a function of two rows, or an object.")


def solver(value: SolverChoice, among: Sequence[str] = MARKOV_SOLVERS) -> Solver:
    if isinstance(value, solvers.LowRank):
        raise ValueError(
            f"solver={value!r} is for DiffusionMaps, LaplacianEigenmaps and SpectralClustering; here pass one of "
            f"{', '.join(map(repr, among))}."
        )
    if not isinstance(value, str | type | range | slice) and hasattr(value, "start"):
        check_numbers(value, "solver")
        return value
    name = one_of("solver", value, among)
    if name == "shift_invert" and among is RESIDUAL_SOLVERS:
        return solvers.ShiftInvert(shift_invert.RESIDUAL_SHIFT)
    named: dict[str, Solver] = {
        "auto": solvers.Auto(),
        "dense": solvers.Dense(),
        "lanczos": solvers.Lanczos(),
        "filtered": solvers.Filtered(),
        "shift_invert": solvers.ShiftInvert(),
        "lobpcg": solvers.Lobpcg(),
        "krylov": solvers.Krylov(),
    }
    return named[name]


EXTENSIONS: dict[str, Specification] = {
    "nystrom": extensions.Nystrom(),
    "least_squares": extensions.LeastSquares(),
    "geometric_harmonics": extensions.GeometricHarmonics(),
    "laplacian_pyramid": extensions.LaplacianPyramid(),
    "kernel_ridge": extensions.KernelRidge(),
    "barycentric": extensions.Barycentric(),
    "compressed_diffusion": extensions.CompressedDiffusion(),
    "linear": extensions.LinearMap(),
    "net": neural.Net(),
    "auto": extensions.Auto(),
}
SPECIFICATIONS: tuple[type, ...] = (  # whose marks `check` reads, beside those of the extensions
    graphs.Union, graphs.Mutual, graphs.Ball, graphs.Threshold, bandwidths.Fixed, bandwidths.Percentile,
    bandwidths.Neighbor, bandwidths.CutOff, kernels.Variable, solvers.LowRank, neural.Training,
)  # fmt: skip
for specification in {*SPECIFICATIONS, *map(type, EXTENSIONS.values())}:
    marked_fields(specification)  # now, so that reading a model file compiles no annotation
OF_THE_METHOD = ("nystrom", "least_squares")  # they extend the eigenvectors of the method only, so they are no inverse


def extension(value: ExtensionChoice | None, given: str | None, *, name: str = "extension") -> Specification:
    """Return an extension from a name, an object with ``fit(known, runner)``, or a regressor."""
    inverse = name == "inverse"
    found = _specification(value, [n for n in EXTENSIONS if not (inverse and n in OF_THE_METHOD)], name)
    if given and not inverse and not isinstance(found, extensions.Nystrom | extensions.Auto | extensions.LeastSquares):
        raise ValueError(
            f"{name}={value!r} learns from features, and {given}='precomputed' has none: leave it at 'nystrom', or "
            "fit on features."
        )
    return found


def _specification(value: ExtensionChoice | None, names: Sequence[str], name: str) -> Specification:
    """Return an extension, checked, with its own parameters turned into objects."""
    if isinstance(value, str):
        return EXTENSIONS[one_of(name, value, names)]
    if hasattr(value, "fit") and hasattr(value, "predict") and not isinstance(value, type):
        return extensions.Regressor(value)
    valid: set[type] = {type(EXTENSIONS[n]) for n in names}
    if type(value) not in valid or not isinstance(value, Specification):
        raise ValueError(
            f"{name}={value!r} is not known. Pass one of {', '.join(map(repr, names))}, an object of "
            "outfold.extensions, or a regressor with fit and predict."
        )
    check(value, name)
    if isinstance(value, neural.Net):
        return net(value, name)
    if isinstance(value, extensions.CompressedDiffusion):
        if isinstance(value.landmarks, str):
            one_of(f"{name}: landmarks", value.landmarks, ("auto",))
            return value
        return replace(value, landmarks=landmark_choice(value.landmarks))
    if isinstance(value, extensions.Auto):
        if not isinstance(value.candidates, tuple | list):
            raise ValueError(f"{name}: candidates={value.candidates!r} must be a tuple of extensions.")
        single = [n for n in names if n != "auto"]
        specifications = (_specification(v, single, f"{name}: candidates") for v in value.candidates)
        return replace(value, candidates=tuple(v for v in specifications if isinstance(v, extensions.Extension)))
    return value


def net(found: neural.Net, name: str) -> neural.Net:
    """Return the network; refuse one with a parameter outside its range."""
    check(found, name)
    check_training(found.training, name)
    if not isinstance(found.device, str):
        raise ValueError(f"{name}: device={found.device!r} must be a name such as 'auto', 'cpu' or 'cuda'.")
    if name == "inverse" and found.eigen_penalty > 0:
        raise ValueError("inverse: eigen_penalty > 0 is for coordinates; features are no eigenvectors. Leave it at 0.")
    return replace(found, hidden=tuple(int(width) for width in found.hidden))


def check_training(value: object, name: str = "") -> None:
    if not isinstance(value, neural.Training):
        raise ValueError(f"{f'{name}: ' if name else ''}training={value!r} must be a Training of outfold.neural.")
    check(value, name)


def landmark_choice(value: LandmarkChoice, auto: Landmarks | None = None) -> Landmarks:
    """Return the landmark choice of None, a count, a fraction, "auto", points, or an object with ``select``."""
    if value is None:
        return landmarks.AllRows()
    if isinstance(value, Landmarks) and not isinstance(value, type):
        return _check_landmarks(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return landmarks.Random(count("landmarks", value, low=2))
    if isinstance(value, Real) and not isinstance(value, bool):
        return landmarks.Random(number("landmarks", value, low=0.0, high=1.0, open_low=True))
    if isinstance(value, str):
        if value == "auto":
            return auto or landmarks.Enough()
        raise ValueError(
            f"landmarks={value!r} is not known. Valid: None, 'auto', a count, a fraction, an array of points, or a "
            "choice of outfold.landmarks."
        )
    if isinstance(value, bool | np.bool_) or not (np.iterable(value) or hasattr(value, "__array__") or issparse(value)):
        raise ValueError(
            f"landmarks={show_value(value)} is not known. Valid: None, 'auto', a count, a fraction, an array of "
            "points, or a choice of outfold.landmarks."
        )
    found = inputs.read_rows(value, "landmarks")
    return landmarks.Points(np.asarray(found, dtype=float) if isinstance(found, np.ndarray) else found)


def _check_landmarks(value: Landmarks) -> Landmarks:
    """Refuse a choice of landmarks with a number outside its range."""
    check_numbers(value, "landmarks")
    size = getattr(value, "size", 2)
    if isinstance(size, Integral):
        count("landmarks: size", size, low=2)
    elif size is not None or not hasattr(value, "distance"):  # MinDistance takes one of the two
        number("landmarks: size", size, low=0.0, high=1.0, open_low=True)
    return value


def parse_components(value: Components) -> int | str | tuple[int, ...]:
    """Return n_components: a count, "auto", or a tuple of eigenpair indices (0 is the trivial one)."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(
                f"n_components={show_value(value)} is not known: pass a count, 'auto' or numbers of eigenpairs."
            )
        return value
    if isinstance(value, np.ndarray) and np.ma.is_masked(value):
        raise ValueError(f"n_components={show_value(value)} has masked entries: leave them out.")
    if isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1):
        indices = tuple(count("n_components index", v) for v in value)
        if not indices or len(set(indices)) < len(indices):
            raise ValueError(f"n_components={show_value(value)} must hold distinct eigenpair indices, at least one.")
        return indices
    return count("n_components", value)
