"""What a fit has to say about itself: sentences, each with its remedy, and how much they matter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from .._runtime.typing import Array
from ..data.sparse_rows import SparseRows, mean_and_deviation
from ..distances import Metric

MOST_CONCERNS = 3  # that a fit mentions
UNEQUAL_SCALES = 50.0  # ratio of standard deviations of features
LOOKED_AT = 4096  # rows at most, at even steps, whose features are compared
REGRESSED = 1000  # rows at most, by which a map is judged linear
PRINCIPAL = 10  # components on which it is regressed
DOMINATED = 0.1  # of the features, or fewer, make up the distances
SUMS_OVER_FEATURES = {"euclidean", "l2", "sqeuclidean", "cityblock", "manhattan", "l1", "minkowski", "chebyshev"}


class Importance(IntEnum):
    """How much a concern matters, the first most."""

    UNSOLVED = 0  # the eigenpairs are not those of the problem
    PIECES = 1  # the graph is disconnected, or rows have no neighbours
    FEW_ROWS = 2  # a coordinate shows few rows
    SCALES = 3  # a feature outweighs the others
    WIDTH = 4  # the kernel is much too wide or too narrow
    CUT = 5  # the kernel is cut
    SPECTRUM = 6  # the eigenvalues do not have the expected form
    LANDMARKS = 7  # landmarks or rows were left out
    GUESS = 8  # a number that "auto" chose is a guess
    ROUNDING = 9


class Concern(NamedTuple):
    """A sentence for the user."""

    importance: Importance
    text: str


def most_important(concerns: Iterable[Concern]) -> tuple[str, ...]:
    """Return the sentences of the most important concerns, the most important first."""
    ordered = sorted(concerns, key=lambda concern: concern.importance)
    return tuple(dict.fromkeys(concern.text for concern in ordered))[:MOST_CONCERNS]


def contrasts_only(components: int, kept: int) -> str:
    """Return which coordinates only tell the components of a graph apart."""
    count = min(components - 1, kept)
    return "the first coordinate only tells" if count == 1 else f"the first {count} coordinates only tell"


def depends_on_scales(metric: Metric | None) -> bool:
    """Return whether a feature weighs the more in the metric the larger its scale."""
    return metric is not None and isinstance(metric.name, str) and metric.name in SUMS_OVER_FEATURES


@dataclass(frozen=True)
class FeatureScales:
    """The standard deviations of the features that vary."""

    spread: Array
    names: list[str]

    @classmethod
    def of(cls, points: Array, measure: Array, names: list[str] | None) -> FeatureScales:
        """Measure the features of points, of ``LOOKED_AT`` points at even steps if there are more."""
        every = -(-len(points) // LOOKED_AT)
        points, mass = points[::every], measure[::every] / measure[::every].sum()
        spread = mean_and_deviation(points, mass)[1]
        largest = abs(points).max(axis=0)
        largest = largest.toarray().ravel() if issparse(largest) else largest
        varying = np.flatnonzero(spread > 1e-12 * largest)
        return cls(spread[varying], [repr(names[at]) if names else f"X[:, {at}]" for at in varying])

    @property
    def _extremes(self) -> tuple[str, str]:
        low, high = int(self.spread.argmin()), int(self.spread.argmax())
        return f"{self.spread[low]:.2g} ({self.names[low]})", f"{self.spread[high]:.3g} ({self.names[high]})"

    def __str__(self) -> str:
        return "as given; standard deviations {} to {}".format(*self._extremes) if len(self.spread) > 1 else "as given"

    def concerns(self) -> list[Concern]:
        """Return a warning if a few features of far larger scale than others make up the distances, else nothing.

        Pixels that are rarely inked also vary little, so a ratio of scales alone is no concern. Either half of the
        features do not count beside the largest, or few make up the sum: with v the variances of the d features,
        (sum v)^2 / sum v^2, which is how many of them matter, exceeds a tenth of d by no more than 1.
        """
        if len(self.spread) < 2:
            return []
        scaled = self.spread / self.spread.max()
        matter = np.square(np.square(scaled).sum()) / np.square(np.square(scaled)).sum()
        lost = scaled <= 1 / UNEQUAL_SCALES
        if not lost.any() or (matter > 1 + DOMINATED * len(scaled) and lost.mean() < 0.5):
            return []
        low, high = self._extremes
        text = (
            f"Some features outweigh others: standard deviations range from {low} to {high}. Features are used as "
            "given; unless they share a unit, scale them first (sklearn.preprocessing.StandardScaler)."
        )
        return [Concern(Importance.SCALES, text)]


def measure_linearity(points: Array, coordinates: Array) -> float:
    """Return R^2 of two coordinates as linear functions of the features, that of the worse one.

    More than ``PRINCIPAL`` features are replaced by as many principal components: any map is linear in enough of them.
    """
    every = -(-len(points) // REGRESSED)
    wanted = coordinates[::every, :2] - coordinates[::every, :2].mean(axis=0)
    if isinstance(points, SparseRows):
        features = _principal_components(points[::every])
    else:
        features = points[::every] - points[::every].mean(axis=0)
        if features.shape[1] > PRINCIPAL:
            u, s, _ = np.linalg.svd(features, full_matrices=False)
            features = u[:, :PRINCIPAL] * s[:PRINCIPAL]
    left = wanted - features @ np.linalg.lstsq(features, wanted, rcond=1e-9)[0]
    total = np.maximum(np.square(wanted).sum(axis=0), np.finfo(float).tiny)
    return float((1 - np.square(left).sum(axis=0) / total).min())


def _principal_components(rows: SparseRows) -> Array:
    """Return the first ``PRINCIPAL`` principal components of sparse rows, from the products between them."""
    products: Array = (rows @ rows.T).toarray()
    products -= products.mean(axis=0)
    products -= products.mean(axis=1)[:, None]
    values, vectors = np.linalg.eigh(products)
    kept: Array = vectors[:, -PRINCIPAL:] * np.sqrt(np.maximum(values[-PRINCIPAL:], 0.0))
    return kept
