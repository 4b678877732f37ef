"""Strings and numbers are shorthand for objects: here is where each becomes one, or a clear error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from . import bandwidths, kernels, landmarks, neighbors, normalizations, solvers

ON_FAR = ("warn", "nan", "raise", "nearest")
KERNELS = ("gaussian", "precomputed")
EPSILON = ("auto", "median", "neighbor", "slope", "percentile")
SOLVERS = ("auto", "dense", "lanczos")
LAPLACIANS = ("random_walk", "unnormalized")


def one_of(name: str, value: Any, valid: Sequence[str]) -> str:
    """``value`` if it is one of the valid names, else an error that lists them."""
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"{name}={value!r} is not known. Valid: {', '.join(map(repr, valid))}.")
    return value


def number(name: str, value: Any, *, low: float, high: float = math.inf, open_low: bool = False) -> float:
    """``value`` as a float within the bounds."""
    bound = f"{'>' if open_low else '>='} {low:g}" + (f" and <= {high:g}" if math.isfinite(high) else "")
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be a number {bound}.")
    plain = float(value)
    if math.isnan(plain) or plain < low or plain > high or (open_low and plain == low):
        raise ValueError(f"{name}={value!r} must be {bound}.")
    return plain


def count(name: str, value: Any, *, low: int = 1) -> int:
    """``value`` as a whole number >= low."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_) or value < low:
        raise ValueError(f"{name}={value!r} must be a whole number >= {low}.")
    return int(value)


def bandwidth(value: Any) -> Any:
    """A number, a rule's name, or a rule."""
    if hasattr(value, "bandwidth"):
        return value
    if isinstance(value, str):
        named = {
            "auto": bandwidths.Neighbor(),
            "median": bandwidths.Percentile(50.0),
            "neighbor": bandwidths.Neighbor(16),
            "slope": bandwidths.Slope(),
            "percentile": bandwidths.Percentile(1.0),
        }
        return named[one_of("epsilon", value, EPSILON)]
    epsilon = number("epsilon", value, low=0.0, open_low=True)
    if math.isinf(epsilon):
        raise ValueError("epsilon=inf (the binary graph) needs a sparse rule; a dense kernel would be all ones.")
    return bandwidths.Fixed(epsilon)


def geometry_and_kernel(metric: Any, kernel: Any, epsilon: Any) -> tuple[Any, Any]:
    """The geometry specification (None: precomputed) and the kernel specification."""
    rule = bandwidth(epsilon)
    if callable(kernel):
        return kernels.Pairwise(kernel), kernels.Affinity()
    one_of("kernel", kernel, KERNELS)
    if not (callable(metric) or isinstance(metric, neighbors.Metric)):
        one_of("metric", metric, neighbors.METRICS)
    if kernel == "precomputed":
        return None, kernels.Affinity()
    if isinstance(metric, str) and metric == "precomputed":
        return None, kernels.Gaussian(rule)
    spec = metric if isinstance(metric, neighbors.Metric) else neighbors.Metric(metric)
    return spec, kernels.Gaussian(rule)


def solver(value: Any) -> Any:
    if hasattr(value, "top") or isinstance(value, solvers.Auto):
        return value
    named = {"auto": solvers.Auto(), "dense": solvers.Dense(), "lanczos": solvers.Lanczos()}
    return named[one_of("solver", value, SOLVERS)]


def landmark_choice(value: Any) -> Any:
    """None, a count, a fraction, an array of points, or an object with ``select``."""
    if value is None:
        return landmarks.Everything()
    if hasattr(value, "select"):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool):
        return landmarks.Random(count("landmarks", value, low=2))
    if isinstance(value, Real) and not isinstance(value, bool):
        return landmarks.Random(number("landmarks", value, low=0.0, high=1.0, open_low=True))
    if isinstance(value, str):
        raise ValueError(f"landmarks={value!r} is not known. Valid: None, a count, a fraction, an array of points.")
    return landmarks.Points(np.asarray(value, dtype=float))


def laplacian(value: Any) -> Any:
    one_of("laplacian", value, LAPLACIANS)
    return normalizations.Markov(0.0) if value == "random_walk" else normalizations.Unnormalized()


def wanted(value: Any) -> int | str | tuple[int, ...]:
    """n_components: a count, "auto", or a sequence of eigenpair indices (0 is the trivial one)."""
    if isinstance(value, str):
        return one_of("n_components", value, ("auto",))
    if isinstance(value, Sequence | np.ndarray):
        indices = tuple(count("n_components index", v) for v in value)
        if not indices or len(set(indices)) < len(indices):
            raise ValueError(f"n_components={value!r} must hold distinct eigenpair indices, at least one.")
        return indices
    return count("n_components", value)
