"""Extensions that are sums of kernels: ridge regression, geometric harmonics, pyramids, compressed diffusion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from .. import landmarks
from .._loops.elementwise import softmax
from .._runtime.threads import Threads
from .._runtime.typing import Array, Interval
from ..data.sources import InMemory
from ..data.sparse_rows import SparseRows
from ..landmarks import Landmarks
from .samples import KERNEL_SUM_CENTRES, SEED, Extension, KernelSum, Samples, check_complete


@dataclass(frozen=True)
class KernelRidge(Extension):
    """y(x) = mean + k(x, .) c, c minimises ``|Y - mean - K c|^2 + ridge c'Kc``; Gaussian k.

    epsilon "auto" is the geometric mean of the bandwidths of near neighbours and of typical pairs. If there are more
    than ``centres`` points, the sum runs over a random sample of ``centres`` of them; c is fitted to at most 5 times
    as many.
    """

    epsilon: Annotated[float | Literal["auto"], Interval(0, open_low=True)] = "auto"
    ridge: Annotated[float, Interval(0, open_low=True)] = 1e-3
    centres: Annotated[int, Interval(2)] = KERNEL_SUM_CENTRES

    def fit(self, known: Samples, runner: Threads) -> KernelSum:
        near, far = known.scales()
        epsilon = float(np.sqrt(near) * np.sqrt(far)) if isinstance(self.epsilon, str) else float(self.epsilon)
        found = known.spectrum(epsilon, self.centres, runner)
        return found.model(known, 1 / (found.values + self.ridge))


@dataclass(frozen=True)
class GeometricHarmonics(Extension):
    """y(x) = mean + sum_j <Y, v_j> v_j(x), v_j(x) = k(x, .) v_j / s_j, over eigenvalues s_j >= s_0 / condition.

    Coifman and Lafon (2006). The kernel is a Gaussian of its own bandwidth. epsilon "auto" starts with the bandwidth of
    typical pairs and fits the residual with a quarter of it, and so on, until the residual is below ``residual`` times
    the standard deviation of the values or the bandwidth of near neighbours is reached.
    """

    epsilon: Annotated[float | Literal["auto"], Interval(0, open_low=True)] = "auto"
    condition: Annotated[float, Interval(0, open_low=True)] = 1e4
    residual: Annotated[float, Interval(0, open_low=True)] = 1e-2
    centres: Annotated[int, Interval(2)] = KERNEL_SUM_CENTRES

    def fit(self, known: Samples, runner: Threads) -> KernelSum:
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

    def _one(self, known: Samples, epsilon: float, runner: Threads) -> KernelSum:
        found = known.spectrum(epsilon, self.centres, runner)
        return found.model(known, np.where(found.values >= found.values[0] / self.condition, 1 / found.values, 0.0))


@dataclass(frozen=True)
class LaplacianPyramid(Extension):
    """y(x) = sum over levels of p_l(x, .) r_l: each level fits the residual of the one before, with half its width.

    Rabin and Coifman (2012). p_l is a Gaussian row divided by its sum. In the fit a point has no weight on itself, so
    residuals are leave-one-out errors, and levels are added until these grow (Fernandez et al., 2020): this avoids
    overfitting and the choice of a scale. epsilon is that of the first level; "auto" is the bandwidth of typical pairs.
    """

    epsilon: Annotated[float | Literal["auto"], Interval(0, open_low=True)] = "auto"
    levels: Annotated[int, Interval(1)] = 12
    centres: Annotated[int, Interval(2)] = 2 * KERNEL_SUM_CENTRES

    def fit(self, known: Samples, runner: Threads) -> KernelSum:
        chosen = known.centres(self.centres)
        distances = known.distances(self.centres)
        measure, left = known.measure[chosen], known.values[chosen] - known.mean
        squared = distances.gram(runner)
        np.fill_diagonal(squared, np.inf)  # no point has weight on itself
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
class CompressedDiffusion(Extension):
    """y(x) = sum_l p(x, l) sum_i p(l, i) y_i: a step from x to landmarks and one from them to the training points.

    Gigante et al. (2019). Both steps are Gaussian rows divided by their sum. epsilon "auto" is the median squared
    distance of a landmark to its nearest other landmark.
    """

    # As in the estimators; "auto": half of the points, at most 500, by farthest point.
    landmarks: str | Landmarks = "auto"
    epsilon: Annotated[float | Literal["auto"], Interval(0, open_low=True)] = "auto"

    def fit(self, known: Samples, runner: Threads) -> KernelSum:
        if not isinstance(known.points, SparseRows):
            check_complete(known, "compressed_diffusion")
        choice = self.landmarks
        if isinstance(choice, str):
            choice = landmarks.FarthestPoint(max(2, min(500, len(known.points) // 2)))
        rng = np.random.default_rng(SEED)
        places = choice.select(InMemory(known.points), known.measure, rng).points
        distances = known.metric.fit(known.points)
        distances = distances.to(places)
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
