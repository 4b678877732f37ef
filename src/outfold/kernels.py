"""From squared distances to affinities, in the plain and in the log domain.

A specification (``Gaussian("auto")``) is fitted to squared distances and returns a frozen value
with a number in it; the specification stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from . import neighbors
from .bandwidths import NO_BANDWIDTH, Bandwidth, Fixed, Neighbor, Percentile
from .distances import Distances, Metric, bounded
from .elementwise import exponential
from .runners import Threads, row_blocks
from .surveys import DenseSurvey
from .trust import Nearness, Reference

Array = NDArray[Any]


class Kernel(Protocol):
    """A fitted kernel: an elementwise function of what the geometry measured."""

    bandwidth: Bandwidth

    @property
    def slack(self) -> float:
        """How far off a squared distance may be that its affinity is right to 1e-13."""
        ...

    def affinity(self, measured: Array) -> Array:
        """Affinities in the place of what was measured."""
        ...

    def logs(self, measured: Array) -> tuple[Array, float]:
        """Log affinities as values, in the place of what was measured, times a factor."""
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

    @property
    def slack(self) -> float:
        return 2e-13 * self.bandwidth.epsilon

    def affinity(self, measured: Array) -> Array:
        return exponential(measured, -0.5 / self.bandwidth.epsilon)

    def logs(self, measured: Array) -> tuple[Array, float]:
        return measured, -0.5 / self.bandwidth.epsilon

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
    slack: ClassVar[float] = 0.0

    def fit(self, survey: Any) -> Affinity:
        measured, measure = survey.squared, survey.measure
        smallest = measured.min()
        if not smallest >= 0:
            raise ValueError(
                f"Affinities must be >= 0; the smallest given is {smallest:.3g}. Are they correlations? Clip them at "
                "0, or take KernelPCA, whose kernel may have any sign."
            )
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

    def logs(self, measured: Array) -> tuple[Array, float]:
        with np.errstate(divide="ignore"):
            return np.log(measured, out=measured), 1.0

    def witness(self, measured: Array) -> Array | None:
        return None


GIVEN = Bandwidth(float("nan"), "none: kernel values are given")
NAMED = ("additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid")


@dataclass(frozen=True)
class Named:
    """One of scikit-learn's kernels by name with its own parameters, or a callable k(x, y)."""

    name: str | Callable[[Array, Array], float]
    gamma: float | str | None = None  # None: 1 / n_features; "auto": 1 / (2 epsilon), epsilon the median d^2 (rbf)
    degree: float = 3
    coef0: float = 1

    @property
    def definite(self) -> bool:
        """Whether it has no negative eigenvalues whatever the data."""
        if self.name in ("poly", "polynomial"):
            return self.degree == int(self.degree) and self.coef0 >= 0
        return self.name in ("rbf", "linear", "cosine", "laplacian", "chi2")

    def fit(self, points: Array, measure: Array, runner: Threads) -> tuple[KernelValues, Array, Reference]:
        """The kernel with its numbers, its values between the points, and what they see of each other."""
        distances = Metric().fit(points)
        nearness, reference = Nearness.of(_nearest_place(distances, runner), measure)
        bandwidth = NO_BANDWIDTH
        usual = 1.0 if self.name == "chi2" else 1 / points.shape[1]
        gamma = usual if self.gamma is None or isinstance(self.gamma, str) else self.gamma
        squared = distances.gram(runner) if self.name == "rbf" else None
        if isinstance(self.gamma, str) and squared is not None:
            bandwidth = Percentile(50.0).bandwidth(DenseSurvey(distances, squared, measure))
            gamma = 1 / (2 * bandwidth.epsilon)
        elif self.name == "rbf":
            bandwidth = Bandwidth(1 / (2 * gamma), "given" if self.gamma else "1 / n_features")
        search = None if self.name == "rbf" else neighbors.build(distances, "auto")
        centre = points.mean(axis=0) if self.name == "linear" else None
        values = KernelValues(distances, nearness, bandwidth, self.name, gamma, self.degree, self.coef0, search, centre)
        K = values.gram(squared, runner)
        if callable(self.name) and not np.allclose(K, K.T, rtol=1e-8, atol=1e-12 * np.abs(K).max()):
            worst = np.abs(K - K.T).max()
            raise ValueError(
                f"The kernel callable is not symmetric: k(x, y) and k(y, x) differ by up to {worst:.3g}. Pass their "
                "mean, if that is what you mean."
            )
        return values, K, reference


@dataclass(frozen=True)
class KernelValues:
    """k(x, anchor) for all anchors, and how near the nearest is."""

    distances: Distances
    nearness: Nearness
    bandwidth: Bandwidth
    name: str | Callable[[Array, Array], float]
    gamma: float
    degree: float
    coef0: float
    search: Any  # of the nearest anchor, where the kernel's own values do not tell
    centre: Array | None  # "linear" is taken about the mean: centring undoes it, and rounding stays small

    @property
    def row_entries(self) -> int:
        return len(self.distances.anchors)

    def gram(self, squared: Array | None, runner: Threads) -> Array:
        """Between the anchors; squared distances, where they are at hand, are overwritten."""
        n = len(self.distances.anchors)
        out = np.empty((n, n)) if squared is None else squared

        def fill(block: slice) -> None:
            out[block] = self._of(self.distances.anchors[block]) if squared is None else self._rbf(out[block])

        runner.each(fill, row_blocks(n, n), "kernel")
        return out

    def values(self, Z: Array) -> tuple[Array, Array]:
        if self.name == "rbf":
            squared = self.distances.cross(Z, slack=1e-13 / self.gamma)
            log_mass = self.nearness.log_mass(np.maximum(squared.min(axis=1), 0.0))
            return self._rbf(squared), log_mass
        lists = self.search.closest(bounded(Z), 1, Threads(1))
        return self._of(Z), self.nearness.log_mass(lists.squared[lists.ptr[:-1]])

    def pairs(self, X: Array, Y: Array) -> Array:
        """k(x, y) between any rows."""
        among = replace(self, distances=replace(self.distances, anchors=Y))
        return among._rbf(among.distances.cross(X)) if self.name == "rbf" else among._of(X)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    def _rbf(self, squared: Array) -> Array:
        return exponential(squared, -self.gamma)

    def _of(self, Z: Array) -> Array:
        anchors = self.distances.anchors
        if callable(self.name):
            return _called(self.name, Z, anchors)
        if self.name == "linear":
            return (Z - self.centre) @ (anchors - self.centre).T
        from sklearn.metrics.pairwise import pairwise_kernels

        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        with np.errstate(over="ignore"):  # of a power; told when the kernel is centred
            return pairwise_kernels(Z, anchors, metric=self.name, filter_params=True, **options)


def _nearest_place(distances: Distances, runner: Threads) -> Array:
    """Squared distance of each anchor to the nearest one in another place."""
    places, member = np.unique(distances.anchors, axis=0, return_inverse=True)
    lists = neighbors.build(replace(distances, anchors=places), "auto").closest(places, 2, runner)
    return lists.squared[lists.ptr[:-1] + 1][member.ravel()]


@dataclass(frozen=True)
class GivenValues:
    """Rows of kernel values as the caller gives them.

    k(x, x) is not among them, so how near a point is cannot be told; a row is outside the data when its mass
    sum |k(x, .)| is outside twice the range of the training rows'.
    """

    anchors: Array  # indices of the training columns
    measure: Array
    lowest: float
    highest: float
    bandwidth: Bandwidth = GIVEN

    @classmethod
    def of(cls, columns: Array, anchors: Any) -> tuple[GivenValues, Array, Reference]:
        K = np.array(anchors.points[:, columns], dtype=float)
        mass = np.abs(K) @ anchors.measure
        found = cls(columns, anchors.measure, float(mass.min()) / 2, float(mass.max()) * 2)
        return found, K, Reference(0.0, -1e-12)

    @property
    def row_entries(self) -> int:
        return len(self.anchors)

    def values(self, Z: Array) -> tuple[Array, Array]:
        mass = np.abs(Z) @ self.measure
        with np.errstate(divide="ignore"):
            beyond = np.maximum(np.log(mass / self.highest), np.log(self.lowest) - np.log(mass))
        return np.array(Z, dtype=float), -np.maximum(beyond, 0.0)

    def nearest(self, Z: Array) -> Array:
        return np.asarray(Z).argmax(axis=1)


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
        return _called(self.function, Z, self.anchors)

    def nearest(self, Z: Array) -> Array:
        return self.cross(Z).argmax(axis=1)


def _called(function: Callable[[Array, Array], float], Z: Array, anchors: Array) -> Array:
    values = np.array([[function(z, a) for a in anchors] for z in Z], dtype=float).reshape(len(Z), len(anchors))
    bad = ~np.isfinite(values)
    if bad.any():
        row, anchor = np.argwhere(bad)[0]
        raise ValueError(
            f"The kernel callable returned NaN or infinity for {bad.sum()} of {bad.size} pairs; it must return a "
            f"finite number. Try it on the first, k({Z[row]}, {anchors[anchor]})."
        )
    return values


def epsilon_from_sigma(sigma: float) -> float:
    """epsilon of exp(-d^2 / (2 sigma^2)).

    >>> epsilon_from_sigma(3.0)
    9.0
    """
    return float(sigma) ** 2


def epsilon_from_gamma(gamma: float) -> float:
    """epsilon of scikit-learn's exp(-gamma d^2).

    >>> epsilon_from_gamma(0.5)
    1.0
    """
    return 1 / (2 * float(gamma))


def epsilon_from_plain(scale: float) -> float:
    """epsilon of exp(-d^2 / scale), as datafold, pydiffmap and many papers write it.

    >>> epsilon_from_plain(2.0)
    1.0
    """
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
