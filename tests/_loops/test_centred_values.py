"""Kernels less their terms in one argument, against the same differences with 120 digits."""

from decimal import Decimal, getcontext, localcontext

import numpy as np
import pytest

from outfold._loops import centred_values

EPS = np.finfo(float).eps


def exact(function, level, p, q, r):
    """Return function(level + p + q + r) less its terms in one argument, in decimal arithmetic."""
    with localcontext() as context:
        context.prec = 120
        level, p, q, r = (Decimal(float(value)) for value in (level, p, q, r))
        return float(function(level + p + q + r) - function(level + p) - function(level + q) + function(level))


def tanh(value):
    with localcontext() as context:
        context.prec = getcontext().prec
        grown = (2 * value).exp()
        return (grown - 1) / (grown + 1)


def products(seed, level, small):
    """Return p (4, 1), q (5,), r (4, 5) as points within ``small`` of a centre of length sqrt(level) have them."""
    random = np.random.default_rng(seed)
    p, q = np.sqrt(level) * small * random.normal(size=(4, 1)), np.sqrt(level) * small * random.normal(size=5)
    return p, q, small**2 * random.normal(size=(4, 5))


@pytest.mark.parametrize("small", [1e-12, 1e-8, 1e-3, 0.1])
@pytest.mark.parametrize("level", [1.0, 1e4, 1e12])
@pytest.mark.parametrize("degree", [1, 2, 3, 7, 0.5, 2.5])
def test_powers_keep_all_digits(degree, level, small):
    p, q, r = products(0, level, small)
    call = centred_values.power if degree == int(degree) else centred_values.fractional_power
    found = call(np.float64(level), p, q, r, degree)
    for i, j in np.ndindex(found.shape):
        expected = exact(lambda value: value ** Decimal(degree), level, p[i, 0], q[j], r[i, j])
        # Two terms of this size are added, those of r and of p q: they may cancel, but nothing larger does.
        size = degree * level ** (degree - 1) * (abs(r[i, j]) + abs(degree - 1) * abs(p[i, 0] * q[j]) / level)
        assert abs(found[i, j] - expected) <= 40 * degree * EPS * size


@pytest.mark.parametrize("small", [1e-12, 1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("level", [0.01, 1.0, 6.0])
def test_the_hyperbolic_tangent_loses_one_step_only(level, small):
    p, q, r = products(1, level, small)
    found = centred_values.hyperbolic_tangent(np.float64(level), p, q, r)
    for i, j in np.ndindex(found.shape):
        step = abs(q[j]) + abs(r[i, j])  # of one argument; k itself would lose eps, whatever the step
        assert abs(found[i, j] - exact(tanh, level, p[i, 0], q[j], r[i, j])) <= 20 * EPS * min(step, 2.0)


@pytest.mark.parametrize("spread", [1e-10, 1e-6, 1e-2, 1.0, 1e3])
def test_directions_near_that_of_the_centre_keep_all_digits(spread):
    random = np.random.default_rng(2)
    centre = random.normal(size=3) * 1e3
    Z = centre + spread * random.normal(size=(6, 3))
    found = centred_values.directions(Z, centre)
    with localcontext() as context:
        context.prec = 60
        towards = [Decimal(float(c)) for c in centre]
        length = sum(c * c for c in towards).sqrt()
        for z, row in zip(Z, found, strict=True):
            exactly = [Decimal(float(value)) for value in z]
            norm = sum(value * value for value in exactly).sqrt()
            expected = np.array([float(a / norm - c / length) for a, c in zip(exactly, towards, strict=True)])
            assert np.abs(row - expected).max() <= 20 * EPS * min(1.0, spread / 1e3)


def test_directions_of_zeros_and_of_rows_in_any_unit():
    Z = np.array([[3.0, 4.0], [3e-200, 4e-200], [3e200, 4e200], [0.0, 0.0]])
    found = centred_values.directions(Z, np.array([0.0, 2.0]))
    np.testing.assert_allclose(found, [[0.6, -0.2], [0.6, -0.2], [0.6, -0.2], [0.0, -1.0]], atol=1e-15)
    np.testing.assert_allclose(centred_values.directions(Z, np.zeros(2))[:3], [[0.6, 0.8]] * 3, atol=1e-15)
