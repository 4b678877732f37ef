"""Affinities of rows, compiled: squared distances to all anchors, exponentials and softmax."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import ANY_ORDER, FUSED, NUMBERS, Loop, loop_with
from .._runtime.typing import Array


@loop_with(FUSED)
def exponential(values: Array, factor: float) -> None:
    """Overwrite ``values`` by exp(factor * values), for factor * values <= 0; below -708 it is 0.

    The result is right to the last place but one.
    """
    turns, power = np.empty(512), np.empty(512)
    for first in range(0, len(values), 512):
        exponential_part(values[first : first + 512], factor, 0.0, turns, power)


@loop_with(FUSED)
def exponential_part(x: Array, factor: float, top: float, turns: Array, power: Array) -> None:
    """Overwrite ``x`` by exp(factor * x - top); ``turns`` and ``power`` are work space of at least len(x) entries.

    The result is 2^k e^r with k whole and |r| <= log(2) / 2. Adding 1.5 * 2^52 rounds to a whole number and leaves it
    in the low bits, from where it is shifted to the exponent. The series ends at r^13. All loops run in vector
    registers.
    """
    bits, power_bits = turns.view(np.int64), power.view(np.int64)
    for j in range(len(x)):
        v = factor * x[j] - top
        turns[j] = (v if v > -708.0 else -708.0) * 1.4426950408889634 + 6755399441055744.0
    for j in range(len(x)):
        power_bits[j] = (bits[j] + 1023) << 52
    for j in range(len(x)):
        v = factor * x[j] - top
        k = turns[j] - 6755399441055744.0
        r = ((v if v > -708.0 else -708.0) - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        x[j] = p * power[j] if v > -708.0 else 0.0


@Loop
def squared_table(Z: Array, columns: Array, out: Array) -> None:
    """Write to ``out`` the squared distances of the rows of Z to the points ``columns`` (features, points).

    The order of summation is that of ``squared_pairs``.
    """
    for i in range(len(Z)):
        row = out[i]
        for f in range(Z.shape[1]):
            z, points = Z[i, f], columns[f]
            if f == 0:
                for j in range(len(points)):
                    step = z - points[j]
                    row[j] = step * step
            else:
                for j in range(len(points)):
                    step = z - points[j]
                    row[j] += step * step


@loop_with(NUMBERS)
def tops_of_parts(row: Array, factor: float, tops: Array) -> float:
    """Write to ``tops`` the maximum of factor * row over each run of 32 entries; return the maximum of all.

    Four independent maxima, so that none waits for another.
    """
    top = -np.inf
    for part in range(len(tops)):
        first, end = 32 * part, min(32 * part + 32, len(row))
        a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
        for j in range(first, end - 3, 4):
            a, b = max(a, factor * row[j]), max(b, factor * row[j + 1])
            c, d = max(c, factor * row[j + 2]), max(d, factor * row[j + 3])
        for j in range(end - (end - first) % 4, end):
            a = max(a, factor * row[j])
        tops[part] = max(max(a, b), max(c, d))
        top = max(top, tops[part])
    return top


@loop_with(ANY_ORDER)
def scaled_sums(values: Array, first: int, gain: Array, measure: Array) -> tuple[float, float]:
    """Multiply ``values`` by their gain in place; entry j belongs to column ``first`` + j.

    Returns the sum of gain * value and the sum of measure * value. No loop both sums and writes: the compiler would
    sum in another order wherever it cannot rule out that the arrays overlap, so the last bit would depend on where
    they lie in memory.
    """
    total, mass = 0.0, 0.0
    for j in range(len(values)):
        mass += values[j] * measure[first + j]
    for j in range(len(values)):
        values[j] *= gain[first + j]
    for j in range(len(values)):
        total += values[j]
    return total, mass


@Loop
def softmax(
    values: Array, factor: float, gain: Array, measure: Array, cut: float, tops: Array, totals: Array, masses: Array
) -> None:
    """Overwrite each row by gain * exp(factor * values - top); a run of 32 entries all below exp(cut) becomes 0.

    Writes for each row its top, its sum of gain * w and its sum of measure * w, w the exponential.
    """
    columns = values.shape[1]
    parts, turns, power = np.empty((columns + 31) // 32), np.empty(512), np.empty(512)
    for i in range(len(values)):
        top = tops_of_parts(values[i], factor, parts)
        tops[i], totals[i], masses[i], first = top, 0.0, 0.0, 0
        for part in range(len(parts)):
            end = min(32 * part + 32, columns)
            near = parts[part] - top > cut
            if not near or end == columns or end - first == 512:  # exponentiate a whole run of near parts at once
                run = values[i, first : end if near else 32 * part]
                exponential_part(run, factor, top, turns, power)
                total, mass = scaled_sums(run, first, gain, measure)
                totals[i], masses[i], first = totals[i] + total, masses[i] + mass, end
            if not near:
                values[i, 32 * part : end] = 0.0


@Loop
def softmax_rows(
    indptr: Array, columns: Array, values: Array, factor: float, gain: Array, measure: Array, log_mass: Array
) -> None:
    """Overwrite CSR rows by gain * w over its sum, w = exp(factor * values); log_mass = log of sum of measure * w.

    A row whose logarithms are all infinite becomes NaN.
    """
    for i in range(len(indptr) - 1):
        a, b = indptr[i], indptr[i + 1]
        top = -np.inf
        for p in range(a, b):
            top = max(top, factor * values[p])
        top = top if np.isfinite(top) else 0.0
        total, mass = 0.0, 0.0
        for p in range(a, b):
            seen = np.exp(factor * values[p] - top)
            mass += seen * measure[columns[p]]
            values[p] = seen * gain[columns[p]]
            total += values[p]
        for p in range(a, b):
            values[p] = values[p] / total if total > 0.0 else np.nan
        log_mass[i] = top + np.log(mass)
