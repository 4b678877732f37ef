"""Functions learnt from points and their values: how an embedding is carried to new points, and back to features.

Every extension is a specification with ``fit(known, runner)``, which returns a model with ``embed(Z, runner)``. The
inverse of an embedding is an extension with points and values exchanged. "nystrom" is the row rule of the method itself
and exact on the training points; the others are approximate there, and the fit reports by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from . import landmarks, neighbors
from .distances import Distances, Metric, bounded
from .elementwise import exponential, softmax
from .reconstruction import BarycentricRule
from .runners import Threads, blas_threads, row_blocks
from .sources import InMemory
from .trust import Nearness

Array = NDArray[Any]

CENTRES = 1000  # points that carry a kernel sum
LEARNT = 5  # times as many are learnt from, at the most
SEED = 0  # of what is drawn here: an extension depends on its points, not on chance
ROUNDING = 1e-12  # eigenvalues of a Gaussian matrix below this part of the largest are rounding
NEIGHBOR = 8  # the unit of bandwidths is the median squared distance to this neighbour


@dataclass(frozen=True)
class Known:
    """Points, where a fit has put them, and the fit's own model."""

    points: Array
    values: Array
    measure: Array
    metric: Metric = field(default_factory=Metric)
    model: Any = None  # the spectral model; None where there is none, as on the way back
    _found: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # of points and measure only

    @classmethod
    def of(cls, points: Array, values: Array, measure: Array, metric: Any = None, model: Any = None) -> Known:
        """Equal points are one, of their joint measure and mean value."""
        _, first, member = np.unique(points, axis=0, return_index=True, return_inverse=True)
        if len(first) < len(points):
            order = np.argsort(first)
            place = np.argsort(order)[member.ravel()]
            total = np.bincount(place, weights=measure)
            values = np.column_stack([np.bincount(place, weights=measure * column) / total for column in values.T])
            points, measure = points[first[order]], total
        metric = metric if isinstance(metric, Metric) else Metric()
        return cls(points, values, np.array(measure), metric, model)

    def part(self, rows: Array) -> Known:
        """Some of the points, without the model."""
        return Known(self.points[rows], self.values[rows], self.measure[rows], self.metric, None)

    def _once(self, key: Any, find: Callable[[], Any]) -> Any:
        if key not in self._found:
            self._found[key] = find()
        return self._found[key]

    def centres(self, most: int) -> Array:
        """At most so many of the points, drawn at random; all of them if they are few."""
        n = len(self.points)
        if n <= most:
            return np.arange(n)
        draw = np.random.default_rng(SEED).choice
        return self._once(("centres", most), lambda: np.sort(draw(n, most, replace=False)))

    def distances(self, most: int) -> Distances:
        """To the centres, in the metric of all points."""
        return self._once(("distances", most), lambda: self.metric.fit(self.points).among(self.centres(most)))

    @property
    def mean(self) -> Array:
        return self.measure @ self.values / self.measure.sum()

    def scales(self, most: int = CENTRES) -> tuple[float, float]:
        """epsilon of near neighbours and of typical pairs, among so many centres."""

        def find() -> tuple[float, float]:
            sample = self.distances(most)
            table = sample.cross(sample.anchors)
            np.fill_diagonal(table, np.inf)
            k = min(NEIGHBOR, len(table) - 1)
            near = float(np.median(np.partition(table, k - 1, axis=1)[:, k - 1])) if k else 1.0
            far = float(np.median(table[np.isfinite(table)])) if k else 1.0
            far = far if far > 0 else 1.0
            return (near if near > 0 else far), max(near, far)

        return self._once(("scales", most), find)

    def spectrum(self, epsilon: float, most: int, runner: Threads) -> KernelSpectrum:
        """The Gaussian kernel over the centres, taken apart."""
        key = ("spectrum", epsilon, most)
        return self._once(key, lambda: KernelSpectrum.of(self, epsilon, most, runner))


@dataclass(frozen=True)
class KernelSpectrum:
    """Eigenfunctions of a Gaussian kernel over some centres, orthogonal over the points.

    With K = V L V' between the centres and B = K(points, centres) V L^(-1/2), B' diag(m) B = U s U': functions
    k(x, centres) V L^(-1/2) U whose squares sum up to s over the points. With every point a centre, s are
    the eigenvalues of the kernel matrix itself.
    """

    distances: Distances
    epsilon: float
    turn: Array  # (centres, functions): V L^(-1/2) U
    values: Array  # s, decreasing
    rows: Array  # points that were looked at
    functions: Array  # (rows, functions), times the measure

    @classmethod
    def of(cls, known: Known, epsilon: float, most: int, runner: Threads) -> KernelSpectrum:
        distances, rows = known.distances(most), known.centres(LEARNT * most)
        measure = known.measure[rows, None]
        with blas_threads(1):  # threads that wait for each other cost more than they bring at this size
            K = gaussian(distances, distances.anchors, epsilon)
            level, V = linalg.eigh(K, overwrite_a=True, driver="evd")
            kept = level > ROUNDING * level[-1]
            turn = V[:, kept] / np.sqrt(level[kept])
            if len(rows) == len(K) and np.all(measure == 1):
                functions, s = V[:, kept] * np.sqrt(level[kept]), level[kept]
                return cls(distances, epsilon, turn[:, ::-1], s[::-1], rows, functions[:, ::-1])
        B = by_blocks(
            lambda points: gaussian(distances, points, epsilon) @ turn,
            known.points[rows],
            turn.shape[1],
            len(K),
            runner,
        )
        with runner.blas():
            gram = B.T @ (B * measure)
        with blas_threads(1):
            s, U = linalg.eigh(gram, overwrite_a=True, driver="evd")
        kept = s > ROUNDING * s[-1]
        s, U = s[kept][::-1], U[:, kept][:, ::-1]
        with runner.blas():
            return cls(distances, epsilon, turn @ U, s, rows, (B @ U) * measure)

    def explained(self, least: float = 1e-6) -> Array:
        """(centres, functions) whose squares at x sum up to k(x, .) K^-1 k(., x), without the smallest eigenvalues."""
        K = gaussian(self.distances, self.distances.anchors, self.epsilon)
        level, V = linalg.eigh(K, overwrite_a=True)
        kept = level > least * level[-1]
        return V[:, kept] / np.sqrt(level[kept])

    def model(self, known: Known, weights: Array) -> KernelSum:
        """The function whose part along each eigenfunction is its product with the values times a weight."""
        products = self.functions.T @ (known.values[self.rows] - known.mean)
        coefficients = self.turn @ (weights[:, None] * products)
        return KernelSum(self.distances, ((self.epsilon, coefficients),), known.mean)


def gaussian(distances: Distances, Z: Array, epsilon: float) -> Array:
    """exp(-d^2 / (2 epsilon)) from each row of Z to the anchors."""
    return exponential(distances.cross(np.asarray(Z, dtype=float), slack=2e-13 * epsilon), -0.5 / epsilon)


@dataclass(frozen=True)
class KernelSum:
    """y(x) = mean + sum over levels of k(x, centres) c: Gaussian weights, or means by them over a measure."""

    distances: Distances
    levels: tuple[tuple[float, Array], ...]  # epsilon, coefficients
    mean: Array
    measure: Array | None = None  # of the centres; None: weights are not divided by their sum

    def embed(self, Z: Array, runner: Threads) -> Array:
        finest = min(epsilon for epsilon, _ in self.levels)

        def of(points: Array) -> Array:
            squared = self.distances.cross(points, slack=2e-13 * finest)
            out = np.tile(self.mean, (len(points), 1))
            for level, (epsilon, coefficients) in enumerate(self.levels):
                last = level == len(self.levels) - 1
                seen = squared if last else squared.copy()
                out += _sums(seen, epsilon, coefficients, self.measure)
            return out

        return by_blocks(of, Z, len(self.mean), len(self.distances.anchors), runner)

    @property
    def amplification(self) -> float:
        """How much rounding of the weights is magnified, relative to the values."""
        sums = [np.abs(c).sum(axis=0) * (1 if self.measure is None else 1 / len(c)) for _, c in self.levels]
        return float(np.max(sums))


def _sums(squared: Array, epsilon: float, coefficients: Array, measure: Array | None) -> Array:
    if measure is None:
        return exponential(squared, -0.5 / epsilon) @ coefficients
    _, total, _ = softmax(squared, -0.5 / epsilon, measure, measure, -42.0)
    return squared @ coefficients / total[:, None]


def by_blocks(of: Callable[[Array], Array], Z: Array, columns: int, width: int, runner: Threads) -> Array:
    """A function of rows, block by block on the runner."""
    out = np.empty((len(Z), columns))

    def fill(block: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            out[block] = of(np.ascontiguousarray(Z[block], dtype=float))

    runner.each(fill, row_blocks(len(Z), width), "extension")
    return out


class Extension:
    """A specification; printed with what differs from its defaults."""

    def __str__(self) -> str:
        told = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(told)})"

    def fit(self, known: Known, runner: Threads) -> Any:
        """A model with ``embed(Z, runner)``."""
        raise AssertionError("an extension says how it is fitted")


@dataclass(frozen=True)
class Nystrom(Extension):
    """The method's own row rule: ``row(x) @ basis``, exact on the training points."""

    def fit(self, known: Known, runner: Threads) -> Any:
        return known.model


@dataclass(frozen=True)
class KernelRidge(Extension):
    """y(x) = mean + k(x, .) c, c minimises ``|Y - mean - K c|^2 + ridge c'Kc``; Gaussian k.

    epsilon "auto" is the geometric mean of what near neighbours and typical pairs have. Of more than
    ``centres`` points a random part carries the sum; all of them are fitted.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=KernelRidge(ridge=1e-4)).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 0.5)
    ('KernelRidge(ridge=0.0001)', True)
    """

    epsilon: float | str = "auto"
    ridge: float = 1e-3
    centres: int = CENTRES

    def fit(self, known: Known, runner: Threads) -> KernelSum:
        found = known.spectrum(_epsilon(self.epsilon, known), self.centres, runner)
        return found.model(known, 1 / (found.values + self.ridge))


def check_complete(known: Known, name: str) -> None:
    missing = np.flatnonzero(np.isnan(known.points).any(axis=1))
    if len(missing):
        raise ValueError(
            f"{name!r} combines features, and {len(missing)} of {len(known.points)} points have NaN among them. Pass "
            "'kernel_ridge', 'geometric_harmonics' or 'laplacian_pyramid', which see distances only."
        )


def _epsilon(asked: float | str, known: Known) -> float:
    return float(asked) if not isinstance(asked, str) else float(np.sqrt(np.prod(known.scales())))


@dataclass(frozen=True)
class GeometricHarmonics(Extension):
    """y(x) = mean + sum_j <Y, v_j> v_j(x), v_j(x) = k(x, .) v_j / s_j, over eigenvalues s_j >= s_0 / condition.

    Coifman and Lafon (2006). The kernel is a Gaussian of its own bandwidth. epsilon "auto" begins with that of typical
    pairs and carries what is left to a quarter of it, until the residual is below ``residual`` of the values' spread or
    the scale of near neighbours is reached.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=GeometricHarmonics(residual=1e-3)).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 0.5)
    ('GeometricHarmonics(residual=0.001)', True)
    """

    epsilon: float | str = "auto"
    condition: float = 1e4
    residual: float = 1e-2
    centres: int = CENTRES

    def fit(self, known: Known, runner: Threads) -> KernelSum:
        if not isinstance(self.epsilon, str):
            return self._one(known, float(self.epsilon), runner)
        finest, epsilon = known.scales()
        spread = known.measure @ ((known.values - known.mean) ** 2).sum(axis=1)
        levels: list[tuple[float, Array]] = []
        left, mean = known, known.mean
        while True:
            model = self._one(left, epsilon, runner)
            levels += model.levels
            mean = mean + (model.mean if left is not known else 0.0)
            rest = left.values - model.embed(left.points, runner)
            if known.measure @ (rest**2).sum(axis=1) <= self.residual**2 * spread or epsilon <= finest:
                return KernelSum(model.distances, tuple(levels), mean)
            left, epsilon = replace(known, values=rest), epsilon / 4

    def _one(self, known: Known, epsilon: float, runner: Threads) -> KernelSum:
        found = known.spectrum(epsilon, self.centres, runner)
        return found.model(known, np.where(found.values >= found.values[0] / self.condition, 1 / found.values, 0.0))


@dataclass(frozen=True)
class LaplacianPyramid(Extension):
    """y(x) = sum over levels of p_l(x, .) r_l: what a level leaves, r_(l+1), goes to the next, of half the width.

    Rabin and Coifman (2012). p_l is a Gaussian row over its sum. While fitting no point sees itself, so what is left
    is what leaving it out leaves, and levels are added until that grows (Fernandez et al., 2020): nothing is overfitted
    and no scale must be chosen. epsilon is that of the first level; "auto" is that of typical pairs.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=LaplacianPyramid(levels=8)).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 1.0)
    ('LaplacianPyramid(levels=8)', True)
    """

    epsilon: float | str = "auto"
    levels: int = 12
    centres: int = 2 * CENTRES

    def fit(self, known: Known, runner: Threads) -> KernelSum:
        chosen = known.centres(self.centres)
        distances = known.distances(self.centres)
        measure, left = known.measure[chosen], known.values[chosen] - known.mean
        squared = distances.gram(runner)
        np.fill_diagonal(squared, np.inf)  # no point sees itself
        epsilon = known.scales()[1] if isinstance(self.epsilon, str) else float(self.epsilon)
        found: list[tuple[float, Array]] = []
        error = np.inf
        for _ in range(self.levels):
            row = squared.copy()
            _, total, _ = softmax(row, -0.5 / epsilon, measure, measure, -42.0)
            with np.errstate(invalid="ignore"):
                rest = left - row @ left / total[:, None]
            now = float(measure @ (rest**2).sum(axis=1))
            if not now < error:
                break
            found.append((epsilon, left))
            left, error, epsilon = rest, now, epsilon / 4
        return KernelSum(distances, tuple(found), known.mean, measure)


@dataclass(frozen=True)
class Barycentric(Extension):
    """y(x) = sum_j w_j(x) y_j, w the weights by which the nearest points reconstruct x (those of LLE).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=Barycentric(20)).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 1e-10)
    ('Barycentric(n_neighbors=20)', True)
    """

    n_neighbors: int = 10
    reg: float = 1e-3

    def fit(self, known: Known, runner: Threads) -> BarycentricModel:
        check_complete(known, "barycentric")
        search = neighbors.build(Metric().fit(known.points), "auto")
        k = min(self.n_neighbors, len(known.points))
        return BarycentricModel(BarycentricRule(search, k, self.reg, Nearness(1.0)), known.values)


@dataclass(frozen=True)
class BarycentricModel:
    """Fitted reconstruction weights, and what they are applied to."""

    rule: BarycentricRule
    values: Array

    def embed(self, Z: Array, runner: Threads) -> Array:
        of = lambda points: self.rule.rows(points) @ self.values  # noqa: E731
        return by_blocks(of, Z, self.values.shape[1], self.rule.row_entries, runner)


@dataclass(frozen=True)
class CompressedDiffusion(Extension):
    """y(x) = sum_l p(x, l) sum_i p(l, i) y_i: a step from x to landmarks and one from them to the training points.

    Gigante et al. (2019). Gaussian steps, each over its sum; epsilon "auto" is the squared distance of a landmark to
    the nearest other.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=CompressedDiffusion(landmarks=100)).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 2.0)
    ('CompressedDiffusion(landmarks=Random(size=100))', True)
    """

    landmarks: Any = "auto"  # as in the methods; "auto": half of the points, at most 500, by farthest points
    epsilon: float | str = "auto"

    def fit(self, known: Known, runner: Threads) -> KernelSum:
        check_complete(known, "compressed_diffusion")
        choice = self.landmarks
        if isinstance(choice, str):
            choice = landmarks.FarthestPoint(max(2, min(500, len(known.points) // 2)))
        rng = np.random.default_rng(SEED)
        places = choice.select(InMemory(known.points), known.measure, rng).points
        distances = known.metric.fit(known.points)
        distances = Distances(places, distances.name, distances.params)
        squared = distances.cross(known.points)
        epsilon = self.epsilon
        if isinstance(epsilon, str):
            between = distances.cross(places)
            positive = np.where(between > 0, between, np.inf).min(axis=1)
            epsilon = float(np.median(positive[np.isfinite(positive)])) if np.isfinite(positive).any() else 1.0
        back = squared.T.copy()
        _, total, _ = softmax(back, -0.5 / epsilon, known.measure, known.measure, -42.0)
        at_landmarks = back @ (known.values - known.mean) / total[:, None]
        return KernelSum(distances, ((epsilon, at_landmarks),), known.mean, np.ones(len(places)))


@dataclass(frozen=True)
class LinearMap(Extension):
    """y(x) = mean + (x - mean of x) B by least squares, with a ridge relative to the variance of x.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=LinearMap()).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 3.0)
    ('LinearMap()', True)
    """

    ridge: float = 1e-9

    def fit(self, known: Known, runner: Threads) -> LinearModel:
        check_complete(known, "linear")
        share = known.measure / known.measure.sum()
        centre = share @ known.points
        X = (known.points - centre) * np.sqrt(share)[:, None]
        Y = (known.values - known.mean) * np.sqrt(share)[:, None]
        level = self.ridge * max(float((X**2).sum()), np.finfo(float).tiny)
        if X.shape[1] <= len(X):
            B = linalg.solve(X.T @ X + level * np.eye(X.shape[1]), X.T @ Y, assume_a="pos")
        else:
            B = X.T @ linalg.solve(X @ X.T + level * np.eye(len(X)), Y, assume_a="pos")
        return LinearModel(centre, B, known.mean)


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear map."""

    centre: Array
    matrix: Array
    mean: Array

    def embed(self, Z: Array, runner: Threads) -> Array:
        of = lambda points: (points - self.centre) @ self.matrix + self.mean  # noqa: E731
        return by_blocks(of, Z, len(self.mean), len(self.centre), runner)


@dataclass(frozen=True)
class Regressor(Extension):
    """A regressor of the caller's own, with scikit-learn's fit(X, Y) and predict(X). It is cloned, not touched.

    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> maps = DiffusionMaps(extension=KNeighborsRegressor(3)).fit(circle(100, random_state=0))
    >>> maps.report_.extension
    'Regressor(regressor=KNeighborsRegressor(n_neighbors=3))'
    """

    regressor: Any

    def fit(self, known: Known, runner: Threads) -> RegressorModel:
        model = clone(self.regressor)
        targets = known.values if known.values.shape[1] > 1 else known.values[:, 0]
        weighted = has_fit_parameter(model, "sample_weight") and not np.all(known.measure == 1)
        model.fit(known.points, targets, **({"sample_weight": known.measure} if weighted else {}))
        return RegressorModel(model, known.values.shape[1])


@dataclass(frozen=True)
class RegressorModel:
    """A fitted regressor."""

    regressor: Any
    columns: int

    def embed(self, Z: Array, runner: Threads) -> Array:
        found = np.asarray(self.regressor.predict(bounded(np.asarray(Z, dtype=float))), dtype=float)
        if found.size != len(Z) * self.columns:
            raise ValueError(
                f"{type(self.regressor).__name__}.predict returned shape {found.shape} for {len(Z)} rows; an extension "
                f"must return ({len(Z)}, {self.columns})."
            )
        return found.reshape(len(Z), self.columns)


@dataclass(frozen=True)
class Auto:
    """Whichever of the candidates has the least error on rows that were held out and fitted with the others.

    Of more than ``rows`` training rows a random part is looked at. The fit takes ``folds`` fits more.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> chosen = DiffusionMaps(extension=Auto(candidates=("nystrom", "linear"))).fit(X).report_.candidates
    >>> str(chosen[0].extension), len(chosen)
    ('Nystrom()', 2)
    """

    folds: int = 5
    rows: int = 10_000
    candidates: tuple[Any, ...] = ()  # empty: kernels of several widths, and one or some of each kind


def candidates(known: Known, *, inverse: bool = False) -> list[Any]:
    """What "auto" chooses among: kernels from the scale of near neighbours to that of typical pairs."""
    near, far = known.scales()
    grid = [float(f"{e:.4g}") for e in np.geomspace(near, far, 5)] if far > 1.01 * near else [near]
    found: list[Any] = [] if inverse else [Nystrom()]
    if inverse:  # many coordinates are best combined by a kernel wider than they spread
        grid = [*grid[::2], 8 * far]
    found += [KernelRidge(epsilon, ridge) for epsilon in grid for ridge in (1e-1, 1e-2, 1e-3, 1e-5)]
    found += [GeometricHarmonics(epsilon, condition) for epsilon in grid for condition in (1e2, 1e4, 1e6)]
    found += [GeometricHarmonics(), LaplacianPyramid()]
    if not np.isnan(known.points).any():
        found += [LinearMap(), CompressedDiffusion()]
        found += [Barycentric(k) for k in (5, 10, 20) if k < len(known.points)]
    return found


__all__ = [
    "Auto",
    "Barycentric",
    "CompressedDiffusion",
    "GeometricHarmonics",
    "KernelRidge",
    "LaplacianPyramid",
    "LinearMap",
    "Nystrom",
]
