"""From squared distances to affinities, in the plain and in the log domain.

A specification (``Gaussian("auto")``) is fitted to squared distances and returns a frozen value
with a number in it; the specification stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .bandwidths import Bandwidth, Fixed, Neighbor

Array = NDArray[Any]


class Kernel(Protocol):
    """A fitted kernel: an elementwise function of what the geometry measured."""

    bandwidth: Bandwidth

    def affinity(self, measured: Array) -> Array:
        """Affinities in the place of what was measured."""
        ...

    def log_affinity(self, measured: Array) -> Array:
        """Log affinities in the place of what was measured."""
        ...

    def witness(self, measured: Array) -> Array | None:
        """Affinities that fall off with distance, for judging support; None if the kernel's own do."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """w(x, y) = exp(-d(x, y)^2 / (2 epsilon)), with w(x, x) = 1.

    >>> import numpy as np
    >>> squared = np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> GaussianKernel(Bandwidth(1.0, "given")).affinity(squared.copy())[0].round(4).tolist()
    [1.0, 0.3679]
    """

    rule: Any  # a bandwidth rule
    witness: float | None = None  # epsilon by which support is judged where the kernel's own is infinite

    def fit(self, survey: Any) -> GaussianKernel:
        bandwidth = self.rule.bandwidth(survey)
        if np.isfinite(bandwidth.epsilon):
            return GaussianKernel(bandwidth)
        return GaussianKernel(bandwidth, self.witness or Neighbor(8).bandwidth(survey).epsilon)


@dataclass(frozen=True)
class GaussianKernel:
    """A Gaussian with its epsilon; at epsilon = inf every kept edge weighs 1."""

    bandwidth: Bandwidth
    witness_epsilon: float | None = None

    def affinity(self, measured: Array) -> Array:
        return np.exp(self.log_affinity(measured), out=measured)

    def log_affinity(self, measured: Array) -> Array:
        measured *= -0.5 / self.bandwidth.epsilon
        return measured

    def witness(self, measured: Array) -> Array | None:
        if self.witness_epsilon is None:
            return None
        return np.exp(measured * (-0.5 / self.witness_epsilon))

    def reach(self, eta: float) -> float:
        """The distance at which the weight falls to eta."""
        return float(np.sqrt(-2 * self.bandwidth.epsilon * np.log(eta)))


@dataclass(frozen=True)
class Affinity:
    """Values that are affinities already: given as a matrix or computed by a callable."""

    bandwidth: Bandwidth = field(default_factory=lambda: Bandwidth(np.nan, "none: affinities are given"))

    def fit(self, survey: Any) -> Affinity:
        measured, measure = survey.squared, survey.measure
        smallest = measured.min()
        if not smallest >= 0:
            raise ValueError(f"Affinities must be >= 0; the smallest given is {smallest:.3g}.")
        if not np.allclose(measured, measured.T, rtol=1e-8, atol=1e-12 * measured.max()):
            worst = np.abs(measured - measured.T).max()
            raise ValueError(
                f"The affinity matrix is not symmetric (largest difference {worst:.3g}). "
                "Pass (W + W.T) / 2 if that is what you mean."
            )
        lonely = np.flatnonzero(measured @ measure <= 0)
        if len(lonely):
            raise ValueError(
                f"{len(lonely)} of {len(measured)} rows have no affinity with any row, themselves included (the "
                f"first is row {lonely[0]}). Outfold's kernels have w(x, x) = 1: np.fill_diagonal(W, 1) is usual."
            )
        return self

    def affinity(self, measured: Array) -> Array:
        return measured

    def log_affinity(self, measured: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(measured, out=measured)

    def witness(self, measured: Array) -> Array | None:
        return None


@dataclass(frozen=True)
class Pairwise:
    """A callable k(x, y) of two rows as a geometry whose values are affinities."""

    function: Callable[[Array, Array], float]

    def fit(self, X: Array) -> PairwiseValues:
        return PairwiseValues(X, self.function)


@dataclass(frozen=True)
class PairwiseValues:
    """Affinities k(x, anchor) by a callable."""

    anchors: Array
    function: Callable[[Array, Array], float]

    def gram(self, runner: Any) -> Array:
        return self.cross(self.anchors)

    def cross(self, Z: Array) -> Array:
        values = np.array([[self.function(z, a) for a in self.anchors] for z in Z], dtype=float)
        values = values.reshape(len(Z), len(self.anchors))
        if not np.isfinite(values).all():
            raise ValueError("The kernel callable returned NaN or infinity; an affinity must be a finite number >= 0.")
        return values

    def nearest(self, Z: Array) -> Array:
        return self.cross(Z).argmax(axis=1)


def epsilon_from_sigma(sigma: float) -> float:
    """epsilon of exp(-d^2 / (2 sigma^2))."""
    return float(sigma) ** 2


def epsilon_from_gamma(gamma: float) -> float:
    """epsilon of scikit-learn's exp(-gamma d^2)."""
    return 1 / (2 * float(gamma))


def epsilon_from_plain(scale: float) -> float:
    """epsilon of exp(-d^2 / scale), as datafold, pydiffmap and many papers write it."""
    return float(scale) / 2


__all__ = [
    "Affinity",
    "Fixed",
    "Gaussian",
    "GaussianKernel",
    "epsilon_from_gamma",
    "epsilon_from_plain",
    "epsilon_from_sigma",
]
