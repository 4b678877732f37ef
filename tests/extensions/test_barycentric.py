"""Barycentric extension: linear functions and training values."""

import numpy as np

from functions import X, Y, learnt
from outfold.extensions import Barycentric


def test_barycentric_weights_reproduce_linear_functions_inside_a_simplex():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.2, 1.0], [9.0, 9.0], [9.0, 10.0]])
    slope = np.array([[2.0, -1.0], [0.5, 3.0]])
    inside = np.random.default_rng(0).dirichlet(np.ones(3), 20) @ corners[:3]
    found = learnt(Barycentric(3, reg=1e-10), at=inside, points=corners, values=corners @ slope + 4)
    np.testing.assert_allclose(found, inside @ slope + 4, atol=1e-7)
    ridged = learnt(Barycentric(3), at=inside, points=corners, values=corners @ slope + 4)
    assert 1e-7 < np.abs(ridged - (inside @ slope + 4)).max() < 0.05  # the ridge pulls weights together


def test_barycentric_weights_keep_training_values():
    np.testing.assert_allclose(learnt(Barycentric(7), at=X), Y, rtol=0, atol=1e-12)
