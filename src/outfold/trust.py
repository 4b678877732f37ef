"""How far to believe the position of a point: its support, and a flag for 'outside the data'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Trust:
    """``support`` is log kernel mass relative to the typical training row; ``flag`` marks rows outside."""

    support: Array
    flag: Array


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
