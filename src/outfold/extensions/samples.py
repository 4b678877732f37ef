"""What an extension is and what it is fitted to: specifications, fitted functions, samples, and kernel sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import numpy as np
from scipy import linalg

from .._loops.elementwise import exponential, softmax
from .._runtime.threads import Threads, blas_threads, row_blocks
from .._runtime.typing import CACHE, NAN, SPARSE_ROWS, WEIGHTS, Array, Axes
from ..data.places import find_places
from ..data.sparse_rows import SparseRows, as_rows
from ..distances import Distances, Metric
from ..operators.operator import RowRule
from ..trust import Reference, RowFacts

KERNEL_SUM_CENTRES = 1000  # most centres of a kernel sum
SPECTRUM_POINTS = 5  # a kernel sum is fitted to at most this number of points per centre
SEED = 0  # of all random samples: an extension is a function of its points, so a fit can be repeated
ROUNDING = 1e-12  # eigenvalues of a Gaussian matrix below this fraction of the largest are rounding
BANDWIDTH_NEIGHBOR = 8  # the unit of bandwidths is the median squared distance to this neighbour
Value = TypeVar("Value")


class FittedExtension(Protocol):
    """A function of points: a fitted extension. A class inherits from it and states what differs from the defaults."""

    @property
    def amplification(self) -> float:
        """The largest factor by which rounding is magnified in the values."""
        return 1.0

    @property
    def batchwise(self) -> bool:
        """Whether the value at a point depends on the other points of its batch."""
        return False

    def embed(self, Z: Array, runner: Threads) -> Array:
        """Return the values at any points, (n, components)."""
        ...


class Model(FittedExtension, Protocol):
    """A fitted model: it embeds any points and says how well the training data supports them."""

    def evidence(self, Z: Array, runner: Threads) -> RowFacts: ...

    def look(self, Z: Array, runner: Threads) -> tuple[Array, RowFacts]:
        """Return embedding and evidence from one pass over the points."""
        ...

    def nearest(self, Z: Array) -> Array:
        """Return the embedding of each point's nearest anchor."""
        ...


class RowModel(Model, Protocol):
    """A model whose row rule says how a point sees the anchors: ``row(x) @ basis``."""

    if TYPE_CHECKING:  # a field or a property; at run time a dataclass would take a property for the field's default

        @property
        def rule(self) -> RowRule: ...

        @property
        def basis(self) -> Array: ...

        @property
        def reference(self) -> Reference: ...

        @property
        def places(self) -> Array:
            """The embedding of the anchors as the eigenproblem gives it, (anchors, components)."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Points, their values (the embedding by a fit), their measure, and the spectral model of the fit."""

    points: Annotated[Array, Axes("n d"), NAN, SPARSE_ROWS]
    values: Annotated[Array, Axes("n c")]
    measure: Annotated[Array, Axes("n"), WEIGHTS]
    metric: Metric = field(default_factory=Metric)
    model: Annotated[RowModel | None, CACHE] = None  # the spectral model; None for parts and for the inverse transform
    # A cache of what depends on points and measure only, so that `replace(samples, values=...)` may share it.
    _found: Annotated[dict[Any, Any], CACHE] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, points: Array, values: Array, measure: Array, metric: Metric | None = None, model: RowModel | None = None
    ) -> Samples:
        """Return the samples with equal points merged: the measures are added, the values averaged."""
        places = find_places(points)
        if places is not None:
            total = places.mass(measure)
            values = np.column_stack([places.mass(measure * column) / total for column in values.T])
            points, measure = points[places.first], total
        return cls(points=points, values=values, measure=np.array(measure), metric=metric or Metric(), model=model)

    def part(self, rows: Array) -> Samples:
        """Return the samples with indices ``rows``, without the model."""
        return Samples(
            points=self.points[rows],
            values=self.values[rows],
            measure=self.measure[rows],
            metric=self.metric,
            model=None,
        )

    def _once(self, key: Hashable, find: Callable[[], Value]) -> Value:
        if key not in self._found:
            self._found[key] = find()
        value: Value = self._found[key]
        return value

    def centres(self, most: int) -> Array:
        """Return the indices of ``most`` points drawn at random; of all points if there are at most ``most``."""
        n = len(self.points)
        if n <= most:
            return np.arange(n)
        draw = np.random.default_rng(SEED).choice
        return self._once(("centres", most), lambda: np.sort(draw(n, most, replace=False)))

    def distances(self, most: int) -> Distances:
        """Return the distances to the centres, in the metric fitted to all points."""
        return self._once(("distances", most), lambda: self.metric.fit(self.points).among(self.centres(most)))

    @property
    def spectral(self) -> RowModel:
        """The spectral model of the fit."""
        assert self.model is not None, "these samples are not those of a fit"
        return self.model

    @property
    def mean(self) -> Array:
        mean: Array = self.measure @ self.values / self.measure.sum()
        return mean

    def scales(self, most: int = KERNEL_SUM_CENTRES) -> tuple[float, float]:
        """Return epsilon of near neighbours and epsilon of typical pairs, among at most ``most`` centres."""

        def find() -> tuple[float, float]:
            sample = self.distances(most)
            table = sample.cross(sample.anchors)
            np.fill_diagonal(table, np.inf)
            k = min(BANDWIDTH_NEIGHBOR, len(table) - 1)
            near = float(np.median(np.partition(table, k - 1, axis=1)[:, k - 1])) if k else 1.0
            far = float(np.median(table[np.isfinite(table)])) if k else 1.0
            far = far if far > 0 else 1.0
            return (near if near > 0 else far), max(near, far)

        return self._once(("scales", most), find)

    def spectrum(self, epsilon: float, most: int, runner: Threads) -> KernelSpectrum:
        """Return the eigenfunctions of the Gaussian kernel over at most ``most`` centres."""
        key = ("spectrum", epsilon, most)
        return self._once(key, lambda: KernelSpectrum.of(self, epsilon, most, runner))


@dataclass(frozen=True)
class Extension:
    """The specification of an extension; ``str`` shows the parameters that differ from their defaults."""

    def __str__(self) -> str:
        told = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(told)})"

    def fit(self, samples: Samples, runner: Threads) -> FittedExtension:
        """Fit to the samples and return a function of points."""
        raise AssertionError("an extension says how it is fitted")


@dataclass(frozen=True)
class Nystrom(Extension):
    """The method's own row rule: ``row(x) @ basis``, exact on the training points."""

    def fit(self, samples: Samples, runner: Threads) -> RowModel:
        return samples.spectral


@dataclass(frozen=True, kw_only=True)
class KernelSpectrum:
    """Eigenfunctions of a Gaussian kernel over some centres, orthogonal over the points.

    With K = V L V' between the centres and B = K(points, centres) V L^(-1/2), B' diag(m) B = U s U'. The functions
    are k(x, centres) V L^(-1/2) U; the sum of their squares over the points, weighted by m, is s. If every point is a
    centre, s are the eigenvalues of the kernel matrix itself.
    """

    distances: Distances
    epsilon: float
    turn: Array  # (centres, functions): V L^(-1/2) U
    values: Array  # s, decreasing
    rows: Array  # indices of the points used
    functions: Array  # (rows, functions): values at these points, times the measure

    @classmethod
    def of(cls, known: Samples, epsilon: float, most: int, runner: Threads) -> KernelSpectrum:
        distances, rows = known.distances(most), known.centres(SPECTRUM_POINTS * most)
        measure = known.measure[rows, None]
        with blas_threads(1):  # at this size the synchronisation of BLAS threads costs more than they save
            K = gaussian(distances, distances.anchors, epsilon)
            level, V = linalg.eigh(K, overwrite_a=True, driver="evd")
            kept = level > ROUNDING * level[-1]
            turn = V[:, kept] / np.sqrt(level[kept])
            if len(rows) == len(K) and np.all(measure == 1):
                functions, s = V[:, kept] * np.sqrt(level[kept]), level[kept]
                return cls(
                    distances=distances,
                    epsilon=epsilon,
                    turn=turn[:, ::-1],
                    values=s[::-1],
                    rows=rows,
                    functions=functions[:, ::-1],
                )
        of = lambda points: gaussian(distances, points, epsilon) @ turn  # noqa: E731
        B = by_blocks(of, known.points[rows], turn.shape[1], len(K), runner)
        with runner.blas():
            gram = B.T @ (B * measure)
        with blas_threads(1):
            s, U = linalg.eigh(gram, overwrite_a=True, driver="evd")
        kept = s > ROUNDING * s[-1]
        s, U = s[kept][::-1], U[:, kept][:, ::-1]
        with runner.blas():
            return cls(
                distances=distances, epsilon=epsilon, turn=turn @ U, values=s, rows=rows, functions=(B @ U) * measure
            )

    def explain(self, least: float = 1e-6) -> Array:
        """Return Q, (centres, functions): the squares of k(x, .) Q sum to k(x, .) K^-1 k(., x).

        Eigenvalues of K below ``least`` times the largest are left out.
        """
        K = gaussian(self.distances, self.distances.anchors, self.epsilon)
        level, V = linalg.eigh(K, overwrite_a=True, driver="evd")
        kept = level > least * level[-1]
        explained: Array = V[:, kept] / np.sqrt(level[kept])
        return explained

    def model(self, known: Samples, weights: Array) -> KernelSum:
        """Return mean + sum_j weights_j <f_j, values - mean> f_j over the eigenfunctions f_j."""
        products = self.functions.T @ (known.values[self.rows] - known.mean)
        coefficients = self.turn @ (weights[:, None] * products)
        return KernelSum(self.distances, ((self.epsilon, coefficients),), known.mean)


def gaussian(distances: Distances, Z: Array, epsilon: float) -> Array:
    """Return exp(-d^2 / (2 epsilon)) from each row of Z to the anchors, (len(Z), anchors)."""
    return exponential(distances.cross(as_rows(Z), slack=2e-13 * epsilon), -0.5 / epsilon)


@dataclass(frozen=True)
class KernelSum(FittedExtension):
    """y(x) = mean + sum over levels of k(x, centres) c, k a Gaussian row.

    With a ``measure``, rows are multiplied by it and divided by their sum.
    """

    distances: Annotated[Distances, Axes("n d")]
    levels: tuple[tuple[float, Array], ...]  # (epsilon, coefficients c) of each level
    mean: Annotated[Array, Axes("c")]
    measure: Annotated[Array | None, Axes("n"), WEIGHTS] = None  # of the centres; None: rows are not normalised

    def embed(self, Z: Array, runner: Threads) -> Array:
        finest = min(epsilon for epsilon, _ in self.levels)

        def of(points: Array) -> Array:
            squared = self.distances.cross(points, slack=2e-13 * finest)
            out = np.tile(self.mean, (len(points), 1))
            for level, (epsilon, coefficients) in enumerate(self.levels):
                seen = squared if level == len(self.levels) - 1 else squared.copy()
                if self.measure is None:
                    out += exponential(seen, -0.5 / epsilon) @ coefficients
                else:
                    _, total, _ = softmax(seen, -0.5 / epsilon, self.measure, self.measure, -42.0)
                    out += seen @ coefficients / total[:, None]
            return out

        return by_blocks(of, Z, len(self.mean), len(self.distances.anchors), runner)

    @property
    def amplification(self) -> float:
        """Return the largest factor by which rounding of the weights is magnified in the values."""
        sums = [np.abs(c).sum(axis=0) * (1 if self.measure is None else 1 / len(c)) for _, c in self.levels]
        return float(np.max(sums))


def by_blocks(of: Callable[[Array], Array], Z: Array, columns: int, width: int, runner: Threads) -> Array:
    """Return ``of(Z)``, shape (len(Z), columns), computed in blocks of rows on the threads of ``runner``."""
    out = np.empty((len(Z), columns))

    def fill(block: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            out[block] = of(as_rows(Z[block]))

    runner.each(fill, row_blocks(len(Z), width), "extension")
    return out


def check_complete(known: Samples, name: str) -> None:
    if isinstance(known.points, SparseRows):
        raise ValueError(
            f"{name!r} combines features, and these are sparse. Pass 'nystrom', 'kernel_ridge', 'geometric_harmonics' "
            "or 'laplacian_pyramid', which see distances only; or X.toarray() if it fits in memory."
        )
    missing = np.flatnonzero(np.isnan(known.points).any(axis=1))
    if len(missing):
        raise ValueError(
            f"{name!r} combines features, and {len(missing)} of {len(known.points)} points have NaN among them. Pass "
            "'kernel_ridge', 'geometric_harmonics' or 'laplacian_pyramid', which see distances only."
        )
