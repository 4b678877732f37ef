"""Kernels: affinities, and their logarithms, from squared distances.

``fit`` of a specification (``Gaussian(rule)``) returns a frozen kernel with the number epsilon; the specification does
not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Protocol, runtime_checkable

import numpy as np

from . import neighbors
from ._loops import centred_values
from ._loops.elementwise import exponential, exponential_less_one
from ._runtime.threads import Threads, row_blocks
from ._runtime.typing import POSITIVE, WEIGHTS, WHOLE, Array, Axes, Interval
from .bandwidths import NO_BANDWIDTH, Bandwidth, BandwidthRule, Fixed, Neighbor, PairStatistics, Percentile
from .data.places import find_places
from .data.sparse_rows import SparseRows
from .distances import Distances, Metric, PointDistances, PointMetric, clip_entries
from .graphs.drawing import expect_kind
from .graphs.given import GivenStatistics
from .graphs.pair_statistics import DenseStatistics
from .graphs.protocols import FittedKernel, ValueGeometry
from .neighbors import Search
from .trust import Nearness, Reference


@runtime_checkable
class Kernel(Protocol):
    """A kernel before its epsilon is chosen."""

    def fit(self, statistics: PairStatistics) -> FittedKernel: ...

    def at(self, epsilon: float) -> Kernel:
        """Return the kernel with this epsilon, if it has one to choose; NaN or infinity: the kernel itself."""
        return self


@dataclass(frozen=True)
class Gaussian(Kernel):
    """w(x, y) = exp(-d(x, y)^2 / (2 epsilon)), with w(x, x) = 1.

    >>> import numpy as np
    >>> squared = np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> GaussianKernel(Bandwidth(1.0, "given")).affinity(squared.copy())[0].round(4).tolist()
    [1.0, 0.3679]
    """

    rule: BandwidthRule
    witness: float | None = None  # epsilon to judge support with if the kernel's own is infinite

    def at(self, epsilon: float) -> Gaussian:
        return replace(self, rule=Fixed(epsilon)) if np.isfinite(epsilon) else self

    def fit(self, statistics: PairStatistics) -> GaussianKernel:
        bandwidth = self.rule.bandwidth(statistics)
        if np.isfinite(bandwidth.epsilon):
            return GaussianKernel(bandwidth)
        return GaussianKernel(bandwidth, self.witness or Neighbor(8).bandwidth(statistics).epsilon)


@dataclass(frozen=True)
class GaussianKernel(FittedKernel):
    """A Gaussian with its epsilon; at epsilon = inf every edge of the graph weighs 1."""

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
        return float(np.sqrt(-2 * self.bandwidth.epsilon * np.log(eta)))


@dataclass(frozen=True)
class Affinity(Kernel, FittedKernel):
    """A kernel for values that are affinities already: a precomputed matrix, or computed by a callable."""

    bandwidth: Bandwidth = field(default_factory=lambda: Bandwidth(np.nan, "none: affinities are given"))
    slack: ClassVar[float] = 0.0

    def fit(self, statistics: PairStatistics) -> Affinity:
        if isinstance(statistics, GivenStatistics):  # a sparse graph, which was checked when it was made symmetric
            return self
        measured, measure = expect_kind(statistics, DenseStatistics).squared, statistics.measure
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
        return _refuse_negative(measured)

    def logs(self, measured: Array) -> tuple[Array, float]:
        _refuse_negative(measured)
        with np.errstate(divide="ignore"):
            return np.log(measured, out=measured), 1.0

    def witness(self, measured: Array) -> Array | None:
        return None

    def reach(self, eta: float) -> float:
        raise ValueError("Affinities are given, so no distance belongs to a threshold: keep every pair.")


def _refuse_negative(measured: Array) -> Array:
    """Return affinities; raise ValueError if one is negative."""
    smallest = measured.min(initial=0.0)
    if smallest < 0:
        raise ValueError(
            f"Negative values in data: affinities must be >= 0; the smallest is {smallest:.3g}. Clip them at 0, if "
            "that is what you mean."
        )
    return measured


@dataclass(frozen=True)
class Variable:
    """kernel="variable" with a known dimension: the generator of Laplace-Beltrami on uneven samples.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> maps = DiffusionMaps(kernel=Variable(dim=1)).fit(circle(500, random_state=0))
    >>> (2 * maps.eigenvalues_).round().tolist()
    [1.0, 1.0]
    """

    dim: Annotated[float | None, Interval(0.0, open_low=True)] = None  # None: estimated


GIVEN = Bandwidth(float("nan"), "none: kernel values are given")
DENSE_ONLY = ("additive_chi2", "chi2")  # scikit-learn computes them for arrays only
BY_PRODUCTS = ("cosine", "linear", "poly", "polynomial", "sigmoid")  # of inner products
TANH_IS_ONE = 19.0  # argument from which tanh is 1 to rounding
HIGHEST_DEGREE = 100  # of a polynomial that is expanded about the centre
NAMED = (*BY_PRODUCTS, "additive_chi2", "chi2", "laplacian", "rbf")


@dataclass(frozen=True)
class Named:
    """One of scikit-learn's kernels by name with its own parameters, or a callable k(x, y)."""

    name: str | Callable[[Array, Array], float]
    gamma: float | str | None = None  # None: 1 / n_features; "auto": 1 / (2 epsilon), epsilon the median d^2 (rbf)
    degree: float = 3
    coef0: float = 1

    @property
    def definite(self) -> bool:
        """Whether the kernel is positive semidefinite for any data."""
        if self.name in ("poly", "polynomial"):
            return self.degree == int(self.degree) and self.coef0 >= 0
        return self.name in ("rbf", "linear", "cosine", "laplacian", "chi2")

    def fit(
        self, points: Array, measure: Array, runner: Threads, weighed: bool = False
    ) -> tuple[KernelValues, Array, Reference]:
        """Return (fitted kernel, its values between the points (n, n), reference for the support of new rows)."""
        if callable(self.name) or self.name in DENSE_ONLY:
            refuse_sparse("a callable" if callable(self.name) else repr(self.name), points)
        if self.name in DENSE_ONLY:
            _refuse_negative_features(str(self.name), points)
        distances = Metric().fit(points)
        nearness, reference = Nearness.of(_nearest_place(distances, runner), measure, weighed)
        bandwidth = NO_BANDWIDTH
        usual = 1.0 if self.name == "chi2" else 1 / points.shape[1]
        gamma = usual if self.gamma is None or isinstance(self.gamma, str) else self.gamma
        squared = distances.gram(runner) if self.name == "rbf" else None
        if isinstance(self.gamma, str) and squared is not None:
            bandwidth = Percentile(50.0).bandwidth(
                DenseStatistics(distances=distances, squared=squared, measure=measure)
            )
            gamma = 1 / (2 * bandwidth.epsilon)
        elif self.name == "rbf":
            bandwidth = Bandwidth(1 / (2 * gamma), "given" if self.gamma else "1 / n_features")
        search = None if self.name == "rbf" else neighbors.build(distances, "auto")
        centred = self.name == "linear" or (self.name in BY_PRODUCTS and not isinstance(points, SparseRows))
        centre = points.mean(axis=0) if centred else None
        values = KernelValues(
            distances=distances,
            nearness=nearness,
            bandwidth=bandwidth,
            name=self.name,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            search=search,
            centre=centre,
        )
        K = values.gram(squared, runner)
        values.check(K)
        if callable(self.name) and not np.allclose(K, K.T, rtol=1e-8, atol=1e-12 * np.abs(K).max()):
            worst = np.abs(K - K.T).max()
            raise ValueError(
                f"The kernel callable is not symmetric: k(x, y) and k(y, x) differ by up to {worst:.3g}. Pass their "
                "mean, if that is what you mean."
            )
        return values, K, reference


def _refuse_negative_features(kernel: str, points: Array) -> None:
    """Raise ValueError if a feature is negative."""
    if points.min() < 0:
        row, column = np.unravel_index(points.argmin(), points.shape)
        raise ValueError(
            f"kernel={kernel!r} compares histograms and takes features >= 0; column {column} is negative in row "
            f"{row}, {points.min():.3g}. Take another kernel ('rbf', 'laplacian'), or shift or clip the features."
        )


@dataclass(frozen=True, kw_only=True)
class KernelValues(ValueGeometry):
    """A fitted kernel with its values between a point and all anchors, and the log mass from the nearest anchor.

    Named kernels leave out terms that depend on one argument only, which centring cancels: k - 1 of kernels that decay
    with distance, k(x, y) - k(x, c) - k(c, y) + k(c, c) of those of inner products.
    """

    distances: Annotated[Distances, Axes("n d")]
    nearness: Nearness
    bandwidth: Bandwidth
    name: str | Callable[[Array, Array], float]
    gamma: Annotated[float, POSITIVE]
    degree: float
    coef0: float
    search: Annotated[
        Search | None, Axes("n d")
    ]  # search of the nearest anchor, where kernel values do not give its distance
    centre: Annotated[Array | None, Axes("d")]  # mean, for kernels of inner products of dense rows

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return len(self.anchors)

    def gram(self, squared: Array | None, runner: Threads) -> Array:
        """Return the values between the anchors, (n, n); ``squared`` distances, if not None, are overwritten."""
        n = len(self.distances.anchors)
        out = np.empty((n, n)) if squared is None else squared

        def fill(block: slice) -> None:
            out[block] = self._of(self.distances.anchors[block]) if squared is None else self._rbf(out[block])

        runner.each(fill, row_blocks(n, n), "kernel")
        return out

    def check(self, K: Array) -> None:
        """Raise ValueError if the values between the anchors are no numbers, or all alike."""
        level = 0.0 if self.centre is None else self.gamma * float(np.square(self.centre).sum()) + self.coef0
        if self.name == "sigmoid" and abs(level) > TANH_IS_ONE and np.abs(K).max() < np.finfo(float).eps:
            raise ValueError(
                f"kernel='sigmoid' is {np.sign(level):.0f} for all pairs: gamma x.y + coef0 is about {level:.3g}, "
                "where tanh does not vary. Lower gamma, or subtract the mean of the data."
            )
        if self.name in ("poly", "polynomial") and self.degree != int(self.degree) and np.isnan(K).any():
            raise ValueError(
                f"kernel='poly' with degree={self.degree:g} needs gamma x.y + coef0 >= 0, which {np.isnan(K).sum()} of "
                f"{K.size} pairs do not have. Take a whole degree, or raise coef0."
            )

    def values(self, Z: Array) -> tuple[Array, Array]:
        if self.name == "rbf":
            squared = self.distances.cross(Z, slack=1e-13 * self._reach / self.gamma)
            log_mass = self.nearness.log_mass(np.maximum(squared.min(axis=1), 0.0))
            return self._rbf(squared), log_mass
        assert self.search is not None
        lists = self.search.closest(clip_entries(Z), 1, Threads(1))
        return self._of(Z), self.nearness.log_mass(lists.squared[lists.ptr[:-1]])

    def pairs(self, X: Array, Y: Array) -> Array:
        """Return k(x, y) between the rows of X and of Y."""
        among = replace(self, distances=replace(self.distances, anchors=Y))
        return among._rbf(among.distances.cross(X)) if self.name == "rbf" else among._of(X)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    @cached_property
    def _reach(self) -> float:
        """How far values of "rbf" reach from 1, about: all of the way, unless the data are small beside its width."""
        anchors = self.distances.anchors
        if isinstance(anchors, SparseRows):
            return 1.0
        return float(-np.expm1(-self.gamma * np.square(anchors - anchors.mean(axis=0)).sum(axis=1).max()))

    def _rbf(self, squared: Array) -> Array:
        if self._reach < 0.01:
            return exponential_less_one(squared, -self.gamma)
        values = exponential(squared, -self.gamma)  # compiled, and quicker; subtracting 1 costs two digits at most
        values -= 1
        return values

    def _of(self, Z: Array) -> Array:
        anchors = self.distances.anchors
        if callable(self.name):
            return _call_kernel(self.name, Z, anchors)
        with np.errstate(
            over="ignore", invalid="ignore", divide="ignore"
        ):  # centring the kernel raises for infinite values
            return self._of_products(Z) if self.name in BY_PRODUCTS else self._of_differences(Z)

    def _of_differences(self, Z: Array) -> Array:
        from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances

        anchors = self.distances.anchors
        if self.name == "laplacian":
            return exponential_less_one(manhattan_distances(Z, anchors), -self.gamma)
        if Z.min(initial=0.0) < 0:
            _refuse_negative_features(str(self.name), Z)
        sums: Array = additive_chi2_kernel(np.array(Z), np.array(anchors))  # its loops refuse read-only arrays
        return sums if self.name == "additive_chi2" else exponential_less_one(sums, self.gamma)

    @cached_property
    def _moved(self) -> Array:
        """The anchors less the centre; for "cosine", their directions less that of the centre."""
        return self._move(self.distances.anchors)

    def _move(self, Z: Array) -> Array:
        assert self.centre is not None
        return centred_values.directions(Z, self.centre) if self.name == "cosine" else Z - self.centre

    def _of_products(self, Z: Array) -> Array:
        if self.centre is None:
            return self._of_sparse_products(Z)
        moved = self._move(Z)
        products: Array = moved @ self._moved.T
        if self.name in ("linear", "cosine"):
            return products
        level = self.gamma * (self.centre @ self.centre) + self.coef0
        p, q = self.gamma * (moved @ self.centre)[:, None], self.gamma * (self._moved @ self.centre)
        products *= self.gamma
        if self.name == "sigmoid":
            return centred_values.hyperbolic_tangent(level, p, q, products)
        if self.degree == int(self.degree) <= HIGHEST_DEGREE:
            return centred_values.power(level, p, q, products, int(self.degree))
        if self.degree == int(self.degree):
            whole: Array = np.power(level + p + q + products, self.degree)
            return whole
        return centred_values.fractional_power(level, p, q, products, self.degree)

    def _of_sparse_products(self, Z: Array) -> Array:
        from sklearn.metrics.pairwise import pairwise_kernels

        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        values: Array = pairwise_kernels(Z, self.distances.anchors, metric=self.name, filter_params=True, **options)
        return values


def _nearest_place(distances: Distances, runner: Threads) -> Array:
    """Return the squared distance of each anchor to the nearest distinct anchor, (n,)."""
    places = find_places(distances.anchors)
    points = distances.anchors if places is None else distances.anchors[places.first]
    nearest = neighbors.build(distances.to(points), "auto").closest(points, 2, runner).kth(2)
    return nearest if places is None else nearest[places.member]


@dataclass(frozen=True, kw_only=True)
class GivenValues(ValueGeometry):
    """Rows of kernel values that the caller passes.

    They do not include k(x, x), so distances are not available. A row is outside the data if its mass sum |k(x, .)| is
    below half the least or above twice the largest mass of the training rows.
    """

    anchors: Annotated[Array, Axes("n"), WHOLE]  # indices of the training columns
    measure: Annotated[Array, Axes("n"), WEIGHTS]
    lowest: float
    highest: float
    bandwidth: Bandwidth = GIVEN

    @classmethod
    def of(cls, columns: Array, points: Array, measure: Array) -> tuple[GivenValues, Array, Reference]:
        K = np.array(points[:, columns], dtype=float)
        mass = np.abs(K) @ measure
        found = cls(anchors=columns, measure=measure, lowest=float(mass.min()) / 2, highest=float(mass.max()) * 2)
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
        at: Array = np.asarray(Z).argmax(axis=1)
        return at


@dataclass(frozen=True)
class CallableKernel(PointMetric):
    """A callable k(x, y) of two rows as a geometry whose values are affinities."""

    function: Callable[[Array, Array], float]

    def fit(self, X: Array) -> PairwiseValues:
        refuse_sparse("a callable", X)
        return PairwiseValues(X, self.function)


@dataclass(frozen=True)
class PairwiseValues(PointDistances):
    """Affinities k(x, anchor) by a callable."""

    anchors: Array
    function: Callable[[Array, Array], float]

    def gram(self, runner: Threads) -> Array:
        return self.cross(self.anchors)

    def to(self, anchors: Array) -> PairwiseValues:
        return replace(self, anchors=anchors)

    def cross(self, Z: Array, slack: float = 0.0) -> Array:
        return _call_kernel(self.function, Z, self.anchors)

    def nearest(self, Z: Array) -> Array:
        at: Array = self.cross(Z).argmax(axis=1)
        return at


def refuse_sparse(kernel: str, points: Array) -> None:
    """Raise ValueError if the rows are sparse."""
    if isinstance(points, SparseRows):
        raise ValueError(
            f"kernel={kernel} does not take sparse rows. Pass X.toarray() if it fits in memory, or another kernel."
        )


def _call_kernel(function: Callable[[Array, Array], float], Z: Array, anchors: Array) -> Array:
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
    "Variable",
    "epsilon_from_gamma",
    "epsilon_from_plain",
    "epsilon_from_sigma",
]
