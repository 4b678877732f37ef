"""Values of a kernel less its values with a centre, without the digits that subtracting them would cost.

    k(x, y) - k(x, c) - k(c, y) + k(c, c)

Centring a kernel removes terms that depend on one argument only, so it gives the same matrix for these values as for
k(x, y) itself. They are as small as the data are close together, where k(x, y) is nearly constant. With u = x - c and
v = y - c, the inner product of x and y is level + p + q + r: level = c.c, p = u.c, q = v.c, r = u.v.
"""

from __future__ import annotations

from math import comb

import numpy as np

from .._runtime.typing import Array

SATURATED = 300.0  # arguments of tanh beyond which it is +-1, and whose cosh is still finite


def power(level: float | Array, p: Array, q: Array, r: Array, degree: int) -> Array:
    """Return (level + p + q + r)^degree less its terms in one argument, for p (n, 1), q (m,) and r (n, m).

    The sum over j of comb(degree, j) level^(degree - j) D_j with D_j = (p + q + r)^j - p^j - q^j, where D_1 = r and
    D_(j+1) = (p + q + r) D_j + (q + r) p^j + (p + r) q^j.
    """
    total = p + q + r
    difference, left, right = r.copy(), p, q
    out = degree * level ** (degree - 1) * r if degree else np.zeros_like(r)
    for j in range(2, degree + 1):
        difference = total * difference + (q + r) * left + (p + r) * right
        left, right = left * p, right * q
        out += comb(degree, j) * level ** (degree - j) * difference
    return out


def fractional_power(level: float | Array, p: Array, q: Array, r: Array, degree: float) -> Array:
    """Return what ``power`` does for a degree that is not whole; NaN where level + p + q + r is negative.

    With P, Q, R relative to the level, 1 + P + Q + R = (1 + P) (1 + Q) (1 + S), so what is left of the powers is
    ((1 + P)^degree - 1) ((1 + Q)^degree - 1) + (1 + P)^degree (1 + Q)^degree ((1 + S)^degree - 1).
    """
    P, Q, R = p / level, q / level, r / level
    left, right = np.expm1(degree * np.log1p(P)), np.expm1(degree * np.log1p(Q))
    base, powers = (1 + P) * (1 + Q), (1 + left) * (1 + right)
    S = (R - P * Q) / np.where(base > 0, base, 1.0)
    near = (base > 0) & (np.abs(S) < 0.5)
    grown = powers * np.expm1(degree * np.log1p(np.where(near, S, 0.0)))
    out: Array = level**degree * (left * right + np.where(near, grown, (1 + P + Q + R) ** degree - powers))
    return out


def hyperbolic_tangent(level: float | Array, p: Array, q: Array, r: Array) -> Array:
    """Return tanh(level + p + q + r) less its terms in one argument.

    tanh a - tanh b = sinh(a - b) / (cosh a cosh b).
    """
    return _tanh_step(level + p, q + r) - _tanh_step(np.asarray(level), q)


def _tanh_step(start: Array, step: Array) -> Array:
    """Return tanh(start + step) - tanh(start)."""
    end = start + step
    near = np.abs(step) < 1
    scale = np.cosh(np.clip(start, -SATURATED, SATURATED)) * np.cosh(np.clip(end, -SATURATED, SATURATED))
    close = np.sinh(np.where(near, step, 0.0)) / scale
    out: Array = np.where(near, close, np.tanh(end) - np.tanh(start))
    return out


def directions(Z: Array, centre: Array) -> Array:
    """Return z / |z| - c / |c| for each row, of a row of zeros -c / |c|; for rows close to c from their difference."""
    largest = np.abs(Z).max(axis=1, keepdims=True, initial=0.0)
    units = Z / np.where(largest > 0, largest, 1.0)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1.0)
    size = np.abs(centre).max(initial=0.0)
    if size == 0:
        return units
    towards = centre / size
    length = np.linalg.norm(towards)
    out: Array = units - towards / length
    moved = Z / size - towards  # of rows close to the centre; not by Z - centre, which may be subnormal
    close = np.abs(moved).max(axis=1, initial=0.0) < 0.1 * length / np.sqrt(len(centre))
    if close.any():
        u = (Z[close] - centre) / size
        norms = np.linalg.norm(Z[close] / size, axis=1, keepdims=True)
        longer = ((u @ towards)[:, None] * 2 + np.square(u).sum(axis=1, keepdims=True)) / (norms + length)
        out[close] = (u * length - towards * longer) / (norms * length)
    return out
