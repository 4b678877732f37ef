"""Run times of the thesis on Roseland: exponents, crossings and the clock."""

import numpy as np
import pytest

from outfold import DiffusionMaps, Roseland
from outfold.papers import run_times
from outfold.papers.record import Effort

EFFORT = Effort(repeats=1)


def test_exponents_and_their_errors_are_those_of_the_power():
    sizes = np.array([1, 2, 4, 8, 16.0])
    power = run_times.Power.of(sizes, 3 * sizes**1.5)
    assert power.exponent == pytest.approx(1.5)
    assert power.last == pytest.approx(1.5)
    assert power.deviation == pytest.approx(0, abs=1e-12)
    bent = run_times.Power.of(sizes, sizes**2 + 5)
    assert bent.exponent < bent.last < 2
    assert bent.deviation > 0.05


def test_no_crossing_is_told_as_infinite():
    assert run_times.crossing([0.1, 1.0], [1.0, 2.0], 3.0) == np.inf
    assert run_times.crossing([0.1, 1.0], [1.0, 2.0], 0.5) == 0.1


def test_the_clock_measures_each_size_once(monkeypatch):
    fits = []
    monkeypatch.setattr(run_times, "_seconds", lambda model, X: fits.append((type(model), len(X))) or 1.0)
    clock = run_times.Clock(EFFORT, 3000)
    fits.clear()
    assert clock.roseland(3000, 300, None) == clock.roseland(3000, 300, None) == clock.diffusion(500, 32) == 1.0
    assert fits == [(Roseland, 3000), (DiffusionMaps, 500)]
