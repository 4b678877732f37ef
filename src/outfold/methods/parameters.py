"""Functions that turn parameters (names, numbers) into checked objects, or raise an error that says what is valid."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import bandwidths, distances, extensions, graphs, kernels, landmarks, neural, solvers
from .._runtime.memory import free_memory
from ..data.checkpoints import Checkpoint
from ..graphs import rules
from ..neural import extension as neural_extension
from ..neural.network import ACTIVATIONS
from ..operators import laplacian as operators_laplacian
from ..operators import markov
from ..solvers import shift_invert

ON_FAR = ("warn", "nan", "raise", "nearest")
AFFINITY_KERNELS = ("gaussian", "self_tuning", "continuous_knn", "precomputed")
EPSILON_RULES = ("auto", "median", "neighbor", "slope", "percentile")
MARKOV_SOLVERS = ("auto", "dense", "lanczos", "shift_invert", "lobpcg")
COMPONENT_CHOICES = ("warn", "error", "largest", "join")
COORDINATES = ("diffusion", "canonical")
CENTRED_SOLVERS = ("auto", "dense", "lanczos", "krylov")
RESIDUAL_SOLVERS = ("auto", "dense", "shift_invert", "lanczos")
SEARCHES = ("auto", "tree", "brute", "faiss")
LAPLACIANS = ("random_walk", "unnormalized")


def one_of(name: str, value: Any, valid: Sequence[str]) -> str:
    """Return ``value`` if it is one of the valid names, else raise an error that lists them."""
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"{name}={value!r} is not known. Valid: {', '.join(map(repr, valid))}.")
    return value


def number(name: str, value: Any, *, low: float, high: float = math.inf, open_low: bool = False) -> float:
    """Return ``value`` as a float within the bounds."""
    bound = f"{'>' if open_low else '>='} {low:g}" + (f" and <= {high:g}" if math.isfinite(high) else "")
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be a number {bound}.")
    plain = float(value)
    if math.isnan(plain) or plain < low or plain > high or (open_low and plain == low):
        raise ValueError(f"{name}={value!r} must be {bound}.")
    return plain


def count(name: str, value: Any, *, low: int = 1) -> int:
    """Return ``value`` as a whole number >= low."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_) or value < low:
        raise ValueError(f"{name}={value!r} must be a whole number >= {low}.")
    return int(value)


def steps(value: Any) -> int | None:
    """Return a whole number of diffusion steps, None for "auto"."""
    if isinstance(value, str):
        one_of("t", value, ("auto",))
        return None
    return count("t", value)


def seed(value: Any) -> int:
    """Return a whole number drawn from a random_state."""
    return int(check_random_state(value).randint(2**31 - 1))


def bandwidth(value: Any, *, auto: Any) -> Any:
    """Return the bandwidth rule of a number, a name or a rule; ``auto`` is the rule of "auto"."""
    if isinstance(value, bandwidths.Fixed):
        number("epsilon", value.epsilon, low=0.0, open_low=True)
    elif isinstance(value, bandwidths.Percentile):
        number("q", value.q, low=0.0, high=100.0)
    elif isinstance(value, bandwidths.Neighbor) and value.k != "auto":
        count("k", value.k)
    if hasattr(value, "bandwidth"):
        return value
    if isinstance(value, str):
        named = {
            "auto": auto,
            "median": bandwidths.Percentile(50.0),
            "neighbor": bandwidths.Neighbor(16),
            "slope": bandwidths.Slope(),
            "percentile": bandwidths.Percentile(1.0),
        }
        return named[one_of("epsilon", value, EPSILON_RULES)]
    return bandwidths.Fixed(number("epsilon", value, low=0.0, open_low=True))


def stages(estimator: Any) -> dict[str, Any]:
    """Return metric, edges and kernel from the parameters that every kernel method has."""
    metric, kernel = estimator.metric, estimator.kernel
    if callable(kernel):
        _only_affinities(estimator, "a kernel callable")
        return {"metric": kernels.CallableKernel(kernel), "edges": graphs.AllPairs(), "kernel": kernels.Affinity()}
    one_of("kernel", kernel, AFFINITY_KERNELS)
    if not (callable(metric) or isinstance(metric, distances.Metric)):
        one_of("metric", metric, distances.METRICS)
    local = {"self_tuning": 7, "continuous_knn": 7}.get(kernel)
    rule = bandwidth(estimator.epsilon, auto=bandwidths.Neighbor() if local is None else bandwidths.Fixed(0.5))
    if kernel == "continuous_knn" and estimator.epsilon != "auto":
        raise ValueError(
            f"kernel='continuous_knn' has no epsilon (given {estimator.epsilon!r}): its edges all weigh 1. Its delta "
            "is set by n_neighbors=outfold.graphs.Ball(delta)."
        )
    if kernel == "self_tuning" and not isinstance(rule, bandwidths.Fixed):
        raise ValueError(
            f"kernel='self_tuning' measures in local units, so epsilon={estimator.epsilon!r} must be 'auto' (0.5) "
            "or a number near 1."
        )
    if kernel == "precomputed" or (isinstance(metric, str) and metric == "precomputed"):
        _no_sparse_rule(estimator, "a precomputed matrix")
        if kernel == "precomputed":
            _only_affinities(estimator, "kernel='precomputed'")
        if local:
            raise ValueError(f"kernel={kernel!r} needs features or a metric to search, not metric='precomputed'.")
        spec = kernels.Affinity() if kernel == "precomputed" else kernels.Gaussian(rule)
        edges: Any = graphs.AllPairs()
        metric = None
    else:
        spec = kernels.Gaussian(
            bandwidths.Fixed(math.inf) if kernel == "continuous_knn" else rule, 0.5 if local else None
        )
        edges = edge_rule(estimator.n_neighbors, estimator.threshold, kernel, local)
        metric = distances.Metric.of(metric)
    if isinstance(edges, graphs.AllPairs | graphs.Threshold) and rule == bandwidths.Fixed(math.inf):
        raise ValueError("epsilon=inf (the binary graph) needs a sparse rule: pass n_neighbors, else it is all ones.")
    return {"metric": metric, "edges": edges, "kernel": spec}


def _only_affinities(estimator: Any, what: str) -> None:
    """Refuse parameters that have no effect when X or a callable supplies the affinities."""
    _no_sparse_rule(estimator, what)
    if not (isinstance(estimator.epsilon, str) and estimator.epsilon == "auto"):
        raise ValueError(f"{what} gives affinities as they are, so epsilon={estimator.epsilon!r} would do nothing.")


def _no_sparse_rule(estimator: Any, what: str) -> None:
    if estimator.n_neighbors not in (None, "auto") or estimator.threshold is not None:
        raise ValueError(f"n_neighbors and threshold search features; with {what} leave them at their defaults.")


def edge_rule(n_neighbors: Any, threshold: Any, kernel: str, local: int | None) -> Any:
    """Return the rule that selects pairs; the rule of "auto" depends on the number of anchors."""
    if threshold is not None:
        _check_rule(rule := graphs.Threshold(threshold, local=local))
        if n_neighbors not in (None, "auto"):
            raise ValueError(
                f"n_neighbors={n_neighbors!r} and threshold={threshold!r} both say which pairs to keep: pass one."
            )
        return replace(rule, eta=float(threshold))
    if isinstance(n_neighbors, graphs.Union | graphs.Mutual | graphs.Ball | graphs.Threshold):
        _check_rule(n_neighbors)
        if local is None:
            _no_local_unit(n_neighbors, "kernel='self_tuning' or 'continuous_knn'")
        return replace(n_neighbors, local=local if n_neighbors.local is None else n_neighbors.local)
    if isinstance(n_neighbors, str):
        one_of("n_neighbors", n_neighbors, ("auto",))
        return graphs.Ball("auto", local=local) if kernel == "continuous_knn" else rules.DenseOrNearest(local)
    if n_neighbors is None:
        return graphs.Ball("auto", local=local) if kernel == "continuous_knn" else graphs.AllPairs(local)
    k = count("n_neighbors", n_neighbors, low=2)
    return graphs.Ball("auto", local=k) if kernel == "continuous_knn" else graphs.Union(k, local=local)


def _no_local_unit(rule: Any, where: str) -> None:
    if rule.local is not None:
        raise ValueError(f"n_neighbors={rule!r} measures in units of neighbour {rule.local}, which is for {where}.")


def _check_rule(rule: Any) -> None:
    if rule.local is not None:
        count("local", rule.local)
    if isinstance(rule, graphs.Union | graphs.Mutual):
        count("n_neighbors", rule.k, low=2)
    elif isinstance(rule, graphs.Ball) and rule.radius != "auto":
        number("radius", rule.radius, low=0.0, open_low=True)
    elif isinstance(rule, graphs.Threshold) and number("threshold", rule.eta, low=0.0, high=1.0, open_low=True) == 1:
        raise ValueError("threshold=1 keeps nothing but the points themselves; it must be below 1.")
    if isinstance(rule.search, str):
        one_of("search", rule.search, SEARCHES)
    elif not (hasattr(rule.search, "fit") and hasattr(rule.search, "transform")):
        raise ValueError(
            f"search={rule.search!r} must be one of {', '.join(map(repr, SEARCHES))} or an object with fit and "
            "transform that returns a sparse graph of distances (scikit-learn's KNeighborsTransformer)."
        )


def flag(estimator: Any, name: str) -> bool:
    value = getattr(estimator, name)
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be True or False.")
    return bool(value)


def metric(value: Any) -> Any:
    """Return a metric, or None for metric="precomputed"."""
    if isinstance(value, str) and one_of("metric", value, distances.METRICS) == "precomputed":
        return None
    return distances.Metric.of(value)


def named_kernel(estimator: Any) -> Any:
    """Return a kernel of scikit-learn with its parameters, or None for kernel="precomputed"."""
    kernel, gamma = estimator.kernel, estimator.gamma
    if not callable(kernel):
        one_of("kernel", kernel, (*kernels.NAMED, "precomputed"))
    if isinstance(gamma, str):
        one_of("gamma", gamma, ("auto",))
        if kernel != "rbf":
            raise ValueError(f"gamma='auto' is chosen for kernel='rbf'; with kernel={kernel!r} pass a number or None.")
    elif gamma is not None:
        gamma = number("gamma", gamma, low=0.0, open_low=True)
    degree = number("degree", estimator.degree, low=0.0, open_low=True)
    coef0 = number("coef0", estimator.coef0, low=-math.inf)
    return None if isinstance(kernel, str) and kernel == "precomputed" else kernels.Named(kernel, gamma, degree, coef0)


def paths_along(value: Any) -> Any:
    """Return the edge rule of Isomap's graph: k neighbours beside the point itself, or the rule that was passed."""
    if isinstance(value, graphs.Union | graphs.Ball):
        _check_rule(value)
        _no_local_unit(value, "kernels of diffusion maps; paths have the lengths of the data")
        return value
    if isinstance(value, graphs.Mutual | graphs.Threshold | graphs.AllPairs):
        raise ValueError(f"n_neighbors={value!r}: paths run along a count of neighbours, Union(k) or Ball(radius).")
    return graphs.Union(count("n_neighbors", value) + 1)


def low_rank_stages(estimator: Any, normalization: Any) -> dict[str, Any]:
    """Return metric, kernel and the other stages of solver=LowRank(), or raise an error if it does not apply."""
    found, asked = stages(estimator), f"solver={estimator.solver!r}"
    if estimator.landmarks is None:
        raise ValueError(f"{asked} needs landmarks: pass a count, a fraction, points or a choice of outfold.landmarks.")
    if estimator._precomputed_parameter():
        raise ValueError(f"{asked} measures from rows to landmarks: pass features, not a precomputed matrix.")
    if isinstance(estimator.kernel, str) and estimator.kernel != "gaussian":
        raise ValueError(
            f"{asked} needs a positive definite kernel, kernel='gaussian' or a callable that is; "
            f"kernel={estimator.kernel!r} is not."
        )
    if not isinstance(found["edges"], graphs.AllPairs | rules.DenseOrNearest):
        raise ValueError(f"{asked} keeps all landmarks in a row: leave n_neighbors and threshold at their defaults.")
    if not isinstance(normalization, markov.Markov):
        raise ValueError(f"{asked} solves Markov operators: pass laplacian='random_walk', or another solver.")
    if normalization.canonical:
        raise ValueError(f"{asked} gives coordinates='diffusion' only; for 'canonical' leave the solver at 'auto'.")
    if found["kernel"] == kernels.Gaussian(bandwidths.Fixed(math.inf)):
        raise ValueError("epsilon=inf weighs all landmarks alike; a low-rank kernel needs a finite one.")
    policy = one_of("components", estimator.components, COMPONENT_CHOICES)
    if policy not in ("warn", "error"):
        raise ValueError(f"components={policy!r} edits a graph, and {asked} has none: pass 'warn' or 'error'.")
    tolerance = number("tolerance", estimator.solver.tolerance, low=0.0, high=0.1, open_low=True)
    return {"metric": found["metric"], "kernel": found["kernel"], "components": policy, "tolerance": tolerance}


DENSE_LANDMARKS = 1000  # up to this many, a row uses all landmarks; beyond, the 32 nearest are as exact and far cheaper


def landmark_stages(estimator: Any) -> dict[str, Any]:
    """Return metric, edges and kernel of landmark diffusion."""
    found = metric(estimator.metric)
    if found is None:
        raise ValueError("metric='precomputed' has no rows to stream: pass features, or use DiffusionMaps.")
    n_neighbors = estimator.n_neighbors
    if isinstance(n_neighbors, graphs.Mutual | graphs.Ball | graphs.Threshold):
        raise ValueError(
            f"n_neighbors={n_neighbors!r}: a row keeps all landmarks (None), a count of them, or Union(k)."
        )
    rule = bandwidth(estimator.epsilon, auto=bandwidths.Neighbor())
    if rule == bandwidths.Fixed(math.inf):
        raise ValueError("epsilon=inf weighs all kept landmarks alike; landmark diffusion needs a finite one.")
    edges = edge_rule(n_neighbors, None, "gaussian", None)
    if isinstance(edges, rules.DenseOrNearest):
        edges = replace(edges, dense_up_to=DENSE_LANDMARKS)
    return {"metric": found, "edges": edges, "kernel": kernels.Gaussian(rule)}


UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def memory(value: Any) -> float:
    """Return bytes from a number or a text such as "4GB"; "auto" is 70 % of the free memory."""
    if isinstance(value, str):
        if value == "auto":
            return 0.7 * free_memory()
        found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]+)\s*", value)
        if not found or found[2].upper() not in UNITS or found[1].count(".") > 1 or found[1] == ".":
            raise ValueError(f"memory={value!r} is not known. Pass 'auto', bytes, or a text such as '4GB' or '500MiB'.")
        value = float(found[1]) * UNITS[found[2].upper()]
    return number("memory", value, low=0.0, open_low=True)


def checkpoint(value: Any) -> Checkpoint:
    """Return a Checkpoint with a folder, or one that stores nothing if ``value`` is None."""
    if isinstance(value, Checkpoint):
        return value
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ValueError(f"checkpoint={value!r} must be None, the path of a folder, or a Checkpoint.")
    return Checkpoint(value)


def solver(value: Any, among: Sequence[str] = MARKOV_SOLVERS) -> Any:
    if isinstance(value, solvers.LowRank):
        raise ValueError(
            f"solver={value!r} is for DiffusionMaps, LaplacianEigenmaps and SpectralClustering; here pass one of "
            f"{', '.join(map(repr, among))}."
        )
    if hasattr(value, "start") or isinstance(value, solvers.Auto):
        return value
    one_of("solver", value, among)
    if value == "shift_invert" and among is RESIDUAL_SOLVERS:
        return solvers.ShiftInvert(shift_invert.RESIDUAL_SHIFT)
    named = {
        "auto": solvers.Auto(),
        "dense": solvers.Dense(),
        "lanczos": solvers.Lanczos(),
        "shift_invert": solvers.ShiftInvert(),
        "lobpcg": solvers.Lobpcg(),
        "krylov": solvers.Krylov(),
    }
    return named[value]


EXTENSIONS = {
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
OF_THE_METHOD = ("nystrom", "least_squares")  # they extend the eigenvectors of the method only, so they are no inverse


def extension(value: Any, given: str | None, *, name: str = "extension") -> Any:
    """Return an extension from a name, an object with ``fit(known, runner)``, or a regressor."""
    inverse = name == "inverse"
    found = _specification(value, [n for n in EXTENSIONS if not (inverse and n in OF_THE_METHOD)], name)
    if given and not inverse and not isinstance(found, extensions.Nystrom | extensions.Auto | extensions.LeastSquares):
        raise ValueError(
            f"{name}={value!r} learns from features, and {given}='precomputed' has none: leave it at 'nystrom', or "
            "fit on features."
        )
    return found


def _specification(value: Any, names: Sequence[str], name: str) -> Any:
    """Return an extension, checked, with its own parameters turned into objects."""
    if isinstance(value, str):
        return EXTENSIONS[one_of(name, value, names)]
    if hasattr(value, "fit") and hasattr(value, "predict") and not isinstance(value, type):
        return extensions.Regressor(value)
    if type(value) not in (type(EXTENSIONS[n]) for n in names):
        raise ValueError(
            f"{name}={value!r} is not known. Pass one of {', '.join(map(repr, names))}, an object of "
            "outfold.extensions, or a regressor with fit and predict."
        )
    if isinstance(value, neural.Net):
        return net(value, name)
    _check_numbers(value, name)
    if isinstance(value, extensions.CompressedDiffusion) and not isinstance(value.landmarks, str):
        return replace(value, landmarks=landmark_choice(value.landmarks))
    if isinstance(value, extensions.CompressedDiffusion):
        one_of(f"{name}: landmarks", value.landmarks, ("auto",))
    if isinstance(value, extensions.Auto):
        if not isinstance(value.candidates, tuple | list):
            raise ValueError(f"{name}: candidates={value.candidates!r} must be a tuple of extensions.")
        single = [n for n in names if n != "auto"]
        return replace(
            value, candidates=tuple(_specification(v, single, f"{name}: candidates") for v in value.candidates)
        )
    return value


def _check_numbers(found: Any, name: str) -> None:
    """Refuse an extension with a number outside its range."""
    for field in ("ridge", "reg", "condition", "residual"):
        if hasattr(found, field):
            number(f"{name}: {field}", getattr(found, field), low=0.0, open_low=True)
    for field, low in (("centres", 2), ("levels", 1), ("n_neighbors", 1), ("folds", 2), ("rows", 10)):
        if hasattr(found, field):
            count(f"{name}: {field}", getattr(found, field), low=low)
    epsilon = getattr(found, "epsilon", "auto")
    if isinstance(epsilon, str):
        one_of(f"{name}: epsilon", epsilon, ("auto",))
    else:
        number(f"{name}: epsilon", epsilon, low=0.0, open_low=True)


def net(found: neural.Net, name: str) -> neural.Net:
    """Return the network; refuse one with a parameter outside its range."""
    widths(f"{name}: hidden", found.hidden)
    one_of(f"{name}: activation", found.activation, tuple(ACTIVATIONS))
    one_of(f"{name}: solver", found.solver, neural_extension.TRAINING_SOLVERS)
    for field in ("weight_decay", "eigen_penalty", "tolerance"):
        number(f"{name}: {field}", getattr(found, field), low=0.0)
    number(f"{name}: rate", found.rate, low=0.0, open_low=True)
    number(f"{name}: validation", found.validation, low=0.0, high=0.9)
    for field in ("max_iter", "patience"):
        if getattr(found, field) is not None:
            count(f"{name}: {field}", getattr(found, field))
    count(f"{name}: batch", found.batch)
    count(f"{name}: random_state", found.random_state, low=0)
    if not isinstance(found.device, str):
        raise ValueError(f"{name}: device={found.device!r} must be a name such as 'auto', 'cpu' or 'cuda'.")
    if name == "inverse" and found.eigen_penalty > 0:
        raise ValueError("inverse: eigen_penalty > 0 is for coordinates; features are no eigenvectors. Leave it at 0.")
    return replace(found, hidden=tuple(int(width) for width in found.hidden))


def widths(name: str, value: Any) -> tuple[int, ...]:
    """Return the number of units of each hidden layer."""
    if isinstance(value, str) or not np.iterable(value):
        raise ValueError(f"{name}={value!r} must hold the widths of the hidden layers, such as (100, 100).")
    return tuple(count(name, width) for width in value)


def landmark_choice(value: Any) -> Any:
    """Return the landmark choice of None, a count, a fraction, "auto", points, or an object with ``select``."""
    if isinstance(value, str) and value == "auto":
        return landmarks.Enough()
    if value is None:
        return landmarks.AllRows()
    if hasattr(value, "select"):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool):
        return landmarks.Random(count("landmarks", value, low=2))
    if isinstance(value, Real) and not isinstance(value, bool):
        return landmarks.Random(number("landmarks", value, low=0.0, high=1.0, open_low=True))
    if isinstance(value, str):
        raise ValueError(
            f"landmarks={value!r} is not known. Valid: None, 'auto', a count, a fraction, an array of points, or a "
            "choice of outfold.landmarks."
        )
    return landmarks.Points(np.asarray(value, dtype=float))


def laplacian(value: Any) -> Any:
    one_of("laplacian", value, LAPLACIANS)
    return markov.Markov(0.0, power=0.0) if value == "random_walk" else operators_laplacian.Unnormalized()


def parse_components(value: Any) -> int | str | tuple[int, ...]:
    """Return n_components: a count, "auto", or a tuple of eigenpair indices (0 is the trivial one)."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"n_components={value!r} is not known: pass a count, 'auto' or numbers of eigenpairs.")
        return value
    if isinstance(value, Sequence | np.ndarray):
        indices = tuple(count("n_components index", v) for v in value)
        if not indices or len(set(indices)) < len(indices):
            raise ValueError(f"n_components={value!r} must hold distinct eigenpair indices, at least one.")
        return indices
    return count("n_components", value)
