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
    lowest: float  # its first percentile: what falls below is outside the data

    @classmethod
    def of(cls, lonely_log_mass: Array) -> Reference:
        return cls(float(np.median(lonely_log_mass)), float(np.quantile(lonely_log_mass, 0.01)))

    def judge(self, log_mass: Array) -> Trust:
        return Trust(log_mass - self.typical, ~(log_mass >= self.lowest))
