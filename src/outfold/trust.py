"""How far to believe the position of a point: its support, and a flag for 'outside the data'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SAMPLED_ROWS = 1_000_000  # training rows from which the typical mass is read, of those that are walked over
LOG_FLOOR = -700.0  # log mass of a point that sees nothing but itself, where exp would underflow


@dataclass(frozen=True)
class Trust:
    """How far to believe the position of each row."""

    support: Array  #: log kernel mass relative to the typical training row
    flag: Array  #: outside the data
    distance: Array | None = None  #: to the nearest training point, in units of how far its neighbours are
    residual: Array | None = None  #: k(x, x) - k_hat(x, x), 0 where the training points explain x, 1 where they do not
    disagreement: Array | None = None  #: how far another extension puts it
    error: Array | None = None  #: once calibrated, a radius that holds the position a joint fit would give


@dataclass(frozen=True)
class Nearness:
    """Support where a kernel has no mass to speak of: -d^2 / (2 unit^2), d the distance to the nearest anchor."""

    unit_squared: float  # median squared distance of an anchor to the nearest other place

    @classmethod
    def of(cls, squared: Array, measure: Array) -> tuple[Nearness, Reference]:
        """From the anchors' squared distances to the nearest other place."""
        if not np.isfinite(squared).any():
            squared = np.ones(len(squared))
        squared = np.where(np.isfinite(squared), squared, np.nanmax(squared[np.isfinite(squared)]))
        order = np.argsort(squared)
        half = np.searchsorted(np.cumsum(measure[order]), measure.sum() / 2 * (1 - 1e-12))
        nearness = cls(float(squared[order[half]]))
        lonely = np.maximum(nearness.log_mass(squared), LOG_FLOOR)
        reference = Reference.of(lonely, np.zeros(len(squared)), measure)
        return nearness, Reference(reference.typical, 4 * reference.lowest)  # twice as far as 99 % of the anchors

    def log_mass(self, squared: Array) -> Array:
        return np.maximum(-0.5 * (squared / self.unit_squared), -np.finfo(float).max)


@dataclass(frozen=True)
class Reference:
    """What training rows look like to the rest of the training set."""

    typical: float  # median log mass of a training row without itself
    lowest: float  # what falls below is outside the data: 99 % of the training rows, and every row itself, do not

    @classmethod
    def of(cls, lonely_log_mass: Array, log_mass: Array, measure: Array) -> Reference:
        order = np.argsort(lonely_log_mass)
        level = np.cumsum(measure[order]) / measure.sum()
        typical, lowest = (lonely_log_mass[order[np.searchsorted(level, at - 1e-12)]] for at in (0.5, 0.01))
        return cls(float(typical), float(min(lowest, log_mass.min() - 1e-9)))

    def judge(self, log_mass: Array) -> Trust:
        return Trust(log_mass - self.typical, ~(log_mass >= self.lowest))
