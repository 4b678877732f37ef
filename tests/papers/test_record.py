"""What is recorded of an experiment."""

import numpy as np

from outfold.papers.record import Effort, measurement


def test_a_figure_agrees_within_its_share_and_not_beyond():
    assert measurement("x", 1.02).near(1.0, within=0.02 + 1e-9).agrees
    assert not measurement("x", 1.03).near(1.0, within=0.02).agrees
    assert measurement("x", 1.0).agrees is None


def test_parts_of_an_experiment_draw_independently_of_each_other_and_of_the_order():
    effort = Effort(seed=3)
    first = effort.random(1, 2).normal(size=4)
    effort.random(5).normal(size=100)
    np.testing.assert_array_equal(first, Effort(seed=3).random(1, 2).normal(size=4))
    assert not np.allclose(first, effort.random(1, 3).normal(size=4))
    assert (Effort(repeats=2).times(10), Effort(repeats=20).times(10), Effort().times(10)) == (2, 10, 10)
