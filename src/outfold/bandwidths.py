"""Rules that choose epsilon from the distances between the anchors.

Every rule is a value: ``rule.bandwidth(statistics) -> Bandwidth``. Weighting a row by 3 and repeating it three times
give the same epsilon; all rules but ``Slope`` and ``CutOff`` are continuous in the weights. The kernel is
exp(-d^2 / (2 epsilon)): a length sigma chosen by a rule becomes epsilon = sigma^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, runtime_checkable

import numpy as np

from ._runtime.typing import FREE, POSITIVE, Array, Interval
from .data.weights import at_whole_numbers, mean_at_rank

ALL_EQUAL = (
    "All training points are equal (or so close that squared distances underflow), so there is no geometry to "
    "embed and no scale to choose epsilon from. Check the input, or rescale it."
)


@dataclass(frozen=True)
class Bandwidth:
    """The epsilon that a rule chose, how it did, and the dimension that it estimated (or None)."""

    epsilon: Annotated[float, FREE]
    how: str
    dimension: Annotated[float | None, FREE] = None


@runtime_checkable
class PairStatistics(Protocol):
    """Statistics of the distances between the anchors, before a graph exists."""

    if TYPE_CHECKING:

        @property
        def measure(self) -> Array: ...

        @property
        def total(self) -> float:
            """Number of neighbours that all anchors count together."""
            ...

        @property
        def widest(self) -> float:
            """Number of neighbours in the graph; inf if it has no such number."""
            ...

        @property
        def recall(self) -> float | None:
            """Share of the nearest anchors that are found, from a sample; None: all are, NaN: nobody has checked."""
            ...

    def radius(self, k: float) -> float:
        """Return the median over the anchors of the distance to neighbour k, without the point itself."""
        ...

    def longest(self, k: float) -> float:
        """Return the largest distance of an anchor to its neighbour k, without the point itself."""
        ...

    def pairs(self) -> tuple[Array, Array]:
        """Return the squared distances of pairs i < j and their weights; copies of a row are pairs at 0."""
        ...


@runtime_checkable
class BandwidthRule(Protocol):
    """A rule that chooses epsilon."""

    def bandwidth(self, statistics: PairStatistics) -> Bandwidth: ...


NO_BANDWIDTH = Bandwidth(float("nan"), "none")


@dataclass(frozen=True)
class Fixed(BandwidthRule):
    """epsilon = the number that the caller chose.

    >>> from outfold import DiffusionMaps
    >>> DiffusionMaps(epsilon=Fixed(4.0)).fit([[0.0], [1.0], [2.0], [4.0]]).epsilon_
    4.0
    """

    epsilon: Annotated[float, Interval(0.0, open_low=True), POSITIVE, FREE]

    def bandwidth(self, statistics: PairStatistics) -> Bandwidth:
        return Bandwidth(self.epsilon, "given")


@dataclass(frozen=True)
class Percentile(BandwidthRule):
    """sigma = the q-th percentile (0 to 100) of the distances between distinct training points.

    >>> from outfold import DiffusionMaps
    >>> maps = DiffusionMaps(epsilon=Percentile(50)).fit([[0.0], [1.0], [2.0], [4.0]])
    >>> maps.epsilon_  # distances 1, 1, 2, 2, 3, 4
    4.0
    """

    q: Annotated[float, Interval(0.0, 100.0)] = 50.0

    def bandwidth(self, statistics: PairStatistics) -> Bandwidth:
        values, weights = statistics.pairs()
        positive = values > 0
        if not positive.any():
            return _positive(0.0, "percentile")
        values, weights, level = values[positive], weights[positive], self.q / 100
        once = np.all(weights == 1)
        chosen = np.quantile(np.sqrt(values), level) if once else _quantile(np.sqrt(values), weights, level)
        return _positive(float(chosen) ** 2, f"{self.q:g}th percentile of distances")


@dataclass(frozen=True)
class Neighbor(BandwidthRule):
    """sigma = the median distance to the k-th neighbour; k="auto" follows dimension and n.

    The error of a spectrum has a part that grows with epsilon and one that falls with the number of
    points in reach of a kernel. They balance at k = c n^(2/(d+2)); c is fitted once on circles, spheres and tori
    (``benchmarks/bandwidth.py``), d is read off the growth of the neighbour distances.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(epsilon=Neighbor(8)).fit(circle(100, random_state=0)).report_.bandwidth
    'median distance to neighbour 8'
    """

    k: Annotated[int | Literal["auto"], Interval(1)] = "auto"

    def bandwidth(self, statistics: PairStatistics) -> Bandwidth:
        total = _enough(statistics)
        dimension = self._dimension(statistics)
        k = at_whole_numbers(lambda n: self._whole_k(n, dimension, statistics.widest), total)
        radius = statistics.radius(k)
        while radius == 0 and k < total - 1:  # the median row has more than k copies
            k = min(2 * k, total - 1)
            radius = statistics.radius(k)
        return _positive(radius**2, f"median distance to neighbour {k:g}", dimension)

    def _whole_k(self, total: float, dimension: float, widest: float) -> float:
        """Return the k for ``total`` points; a whole number."""
        if self.k == "auto":
            k = min(max(8.0, 0.152 * total ** (2 / (dimension + 2))), max(1.0, total / 4))
            edge = widest / 2 ** min(dimension, 2.0)  # the k at which the longest edges are about two sigma
            k = min(k, max(edge, min(3.0, widest / 2)))
        else:
            k = float(min(self.k, total - 1))
        return max(1.0, float(int(k)))

    @staticmethod
    def _dimension(statistics: PairStatistics) -> float:
        near = at_whole_numbers(lambda n: max(1.0, float(int(min(8, n / 8)))), statistics.total)
        far = at_whole_numbers(lambda n: max(1.0, float(int(min(32, n / 2)))), statistics.total)
        inner, outer = statistics.radius(near), statistics.radius(far)
        if not 0 < inner < outer:
            return 2.0
        return float(np.clip(np.log(far / near) / np.log(outer / inner), 1.0, 20.0))


@dataclass(frozen=True)
class CutOff(BandwidthRule):
    """epsilon = r^2 / log(1 / tolerance), r the largest distance of a point to its k-th nearest, counting itself.

    This is the rule of datafold's ``optimize_parameters``. There the largest is over 1000 random points; here it is
    over all points, or an even sample of 4000 if there are more than 4000 and the graph has only the nearest. The
    kernel exp(-d^2 / (2 epsilon)) falls to sqrt(tolerance) at r, and to ``tolerance`` at sqrt(2) r. One outlier makes r
    large: ``Neighbor`` takes a median.

    >>> from outfold import DiffusionMaps
    >>> maps = DiffusionMaps(epsilon=CutOff(2, tolerance=1e-4)).fit([[0.0], [1.0], [2.0], [4.0]])
    >>> bool(abs(maps.epsilon_ - 2.0**2 / np.log(1e4)) < 1e-15)  # distances to the nearest: 1, 1, 1, 2
    True
    """

    k: Annotated[int, Interval(2)] = 10
    tolerance: Annotated[float, Interval(0.0, 1.0, open_low=True)] = 1e-8

    def bandwidth(self, statistics: PairStatistics) -> Bandwidth:
        total = _enough(statistics)
        if self.tolerance == 1:
            raise ValueError("tolerance=1 makes epsilon infinite: a weight of 1 is at distance 0. Pass less than 1.")
        radius = statistics.longest(min(float(self.k), total) - 1)
        how = f"{self.tolerance:g} at sqrt(2) times the largest distance to neighbour {self.k}, counting the point"
        return _positive(radius**2 / -np.log(self.tolerance), how)


@dataclass(frozen=True)
class Slope(BandwidthRule):
    """epsilon where log sum_ij exp(-d^2/(2 epsilon)) grows fastest in log epsilon.

    The slope there is half the dimension (Coifman, Shkolnisky, Sigworth and Singer, 2008). It estimates
    a dimension well and a bandwidth roughly; see ``Neighbor`` for the default.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import sphere
    >>> maps = DiffusionMaps(epsilon=Slope()).fit(sphere(500, random_state=0))
    >>> round(maps.report_.dimension)
    2
    """

    def bandwidth(self, statistics: PairStatistics) -> Bandwidth:
        total = Growth.of(statistics)
        best = int(total.slopes.argmax())
        return _positive(float(total.epsilons[best]), "steepest slope", float(2 * total.slopes[best]))


@dataclass(frozen=True)
class Growth:
    """S(epsilon) = sum_ij exp(-d_ij^2 / (2 epsilon)) on a grid, from nearly no pair in reach to all pairs."""

    epsilons: Array
    sums: Array
    slopes: Array  # d log S / d log epsilon

    @classmethod
    def of(cls, statistics: PairStatistics) -> Growth:
        values, weights = statistics.pairs()
        positive = values > 0
        if not positive.any():
            raise ValueError(ALL_EQUAL)
        logs = np.log(values[positive])
        edges = np.linspace(logs.min(), logs.max() + 1e-9, 4097)
        mass, _ = np.histogram(logs, edges, weights=weights[positive])
        squares = np.exp((edges[:-1] + edges[1:]) / 2)
        zero_mass = weights[~positive].sum() + statistics.measure.sum() / 2  # copies, and each row with itself
        epsilons = np.exp(np.linspace(edges[0] - 4, edges[-1] + 4, 400))
        decay = np.exp(-squares / (2 * epsilons[:, None]))
        half = decay @ mass + zero_mass  # pairs i < j
        return cls(epsilons, 2 * half, (decay * squares) @ mass / (2 * epsilons) / half)


def _enough(statistics: PairStatistics) -> float:
    """Return the number of neighbours that all anchors count together; refuse fewer than 2."""
    total = statistics.total
    if total < 2:
        raise ValueError(
            f"The sample weights add up to {total:.3g} neighbours, too few to choose epsilon from: a weight is the "
            "number of copies of a row. Pass outfold.data.normalize_weights(sample_weight) if only their ratios "
            "matter."
        )
    return total


def _positive(epsilon: float, how: str, dimension: float | None = None) -> Bandwidth:
    if not epsilon > 0:
        raise ValueError(ALL_EQUAL)
    return Bandwidth(epsilon, how, dimension)


def _quantile(values: Array, weights: Array, level: float) -> float:
    """Return the linear-interpolation quantile of values repeated ``weights`` times, which may be fractions."""
    total = float(weights.sum())
    return mean_at_rank(values, weights, level * max(total - 1.0, 0.0) + min(total, 1.0))
