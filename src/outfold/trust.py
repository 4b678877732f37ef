"""Measures of how far to trust the embedding of a point: its support, and a flag for 'outside the data'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ._runtime.typing import POSITIVE, Array
from .data.weights import weighted_quantile

SAMPLED_ROWS = 1_000_000  # training rows for the typical mass; if there are more, an even sample of them
LOG_FLOOR = -700.0  # log mass of a point without neighbours in reach, where exp would underflow


@dataclass(frozen=True, kw_only=True)
class Trust:
    """How far to trust the embedding of each row; every field is an array (rows,) or None."""

    support: Array  #: log kernel mass relative to the typical training row
    flag: Array  #: True if the row is outside the training data
    distance: Array | None = None  #: to the nearest training point, in units of that point's distance to its neighbours
    residual: Array | None = None  #: k(x, x) - k_hat(x, x), 0 where the training points explain x, 1 where they do not
    disagreement: Array | None = None  #: distance to the embedding by another extension
    error: Array | None = None  #: after calibration: error radius, which contains the embedding by a joint fit


@dataclass(frozen=True)
class Nearness:
    """Support if kernel mass says nothing about distance: -d^2 / (2 unit^2), d the distance to the nearest anchor."""

    unit_squared: Annotated[float, POSITIVE]  # median squared distance of an anchor to the nearest distinct anchor

    @classmethod
    def of(cls, squared: Array, measure: Array, weighed: bool = False) -> tuple[Nearness, Reference]:
        """Return (nearness, reference) from the anchors' squared distances to the nearest distinct anchor.

        The median is continuous in the measure, unless that is ``weighed``: the weight of the rows that a landmark is
        nearest to, which is no number of copies.
        """
        if not np.isfinite(squared).any():
            squared = np.ones(len(squared))
        squared = np.where(np.isfinite(squared), squared, np.nanmax(squared[np.isfinite(squared)]))
        nearness = cls((_step_median if weighed else _median)(squared, measure))
        lonely = np.maximum(nearness.log_mass(squared), LOG_FLOOR)
        reference = Reference.of(lonely, np.zeros(len(squared)), measure)
        return nearness, Reference(reference.typical, 4 * reference.lowest)  # flag: twice as far as 99 % of anchors

    def log_mass(self, squared: Array) -> Array:
        return np.maximum(-0.5 * (squared / self.unit_squared), -np.finfo(float).max)


def _median(values: Array, measure: Array) -> float:
    return weighted_quantile(values, measure, 0.5)


def _step_median(values: Array, measure: Array) -> float:
    order = np.argsort(values)
    return float(values[order[np.searchsorted(np.cumsum(measure[order]), measure.sum() / 2 * (1 - 1e-12))]])


@dataclass(frozen=True)
class Reference:
    """Log masses of training rows, with which the log mass of a new row is compared."""

    typical: float  # median log mass of a training row without itself
    # a row with a lower log mass is outside the data; 99 % of the training rows without themselves, and all with
    # themselves, are above
    lowest: float

    @classmethod
    def of(cls, lonely_log_mass: Array, log_mass: Array, measure: Array) -> Reference:
        order = np.argsort(lonely_log_mass)
        level = np.cumsum(measure[order]) / measure.sum()
        typical, lowest = (lonely_log_mass[order[np.searchsorted(level, at - 1e-12)]] for at in (0.5, 0.01))
        return cls(float(typical), float(min(lowest, log_mass.min() - 1e-9)))

    def judge(self, log_mass: Array) -> Trust:
        return Trust(support=log_mass - self.typical, flag=~(log_mass >= self.lowest))
