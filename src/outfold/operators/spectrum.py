"""The number of significant eigenvalues, and the diffusion time.

Unless a function says otherwise, eigenvalues are those of a Markov kernel without the trivial 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._runtime.typing import Array

# -- dimension -----------------------------------------------------------------------------


def spectral_dimension(eigenvalues: NDArray[Any], *, t: float = 1.0, delta: float = 0.1) -> int | None:
    """``s(delta, t) = max{l : |lambda_l|^t > delta |lambda_1|^t}`` over non-trivial eigenvalues.

    Returns None if every eigenvalue passes, so that more eigenvalues are needed to decide.

    >>> spectral_dimension([0.9, 0.8, 0.05, 0.01])
    2
    >>> spectral_dimension([0.9, 0.8]) is None
    True
    """
    sizes = spectrum_sizes(eigenvalues)
    passing = int(((sizes / sizes[0]) ** t > delta).sum())
    return None if passing == len(sizes) else passing


def spectral_entropy(eigenvalues: Any, times: Any, *, trivial: bool = True) -> Array:
    """The von Neumann entropy of P^t at each time: H(t) = -sum eta log eta, ``eta = |lambda|^t / sum |lambda|^t``.

    Parameters
    ----------
    eigenvalues : array
        Eigenvalues that are left out count as zero: for small t pass as many as possible.
    times : array
    trivial : bool
        Whether to add the trivial eigenvalue 1, which ``eigenvalues`` of a Markov kernel leave out; False for centred
        kernels.

    >>> spectral_entropy([1.0], [1, 2]).round(4).tolist()
    [0.6931, 0.6931]
    """
    sizes = spectrum_sizes(eigenvalues)
    sizes = np.append(1.0, sizes) if trivial else sizes / sizes[0]
    with np.errstate(divide="ignore"):
        logs = np.outer(np.asarray(times, dtype=float), np.log(sizes))
    powers = np.exp(logs)  # (times, eigenvalues)
    total = powers.sum(axis=1)
    result: Array = np.log(total) - (powers * np.where(powers > 0, logs, 0.0)).sum(axis=1) / total
    return result


def entropy_time(eigenvalues: Any, *, t_max: int = 100, trivial: bool = True) -> int:
    """Return the knee of the entropy of P^t over t = 1 .. t_max, where noise has decayed and structure starts to decay.

    Small eigenvalues vanish first and fast, those of the structure later and slowly (Moon et al., 2019). The knee is
    where two straight lines, one up to it and one from it, fit H best in least squares. 1 if H does not fall.

    >>> entropy_time(np.append([0.999, 0.998], np.full(200, 0.5)))
    11
    """
    if t_max < 4:
        raise ValueError(f"t_max={t_max} is too short: two lines need t = 1 to 4 at least.")
    times = np.arange(1.0, t_max + 1)
    entropy = spectral_entropy(eigenvalues, times, trivial=trivial)
    if np.ptp(entropy) < 1e-9:
        return 1
    left = _line_errors(times, entropy)
    right = _line_errors(times[::-1], entropy[::-1])[::-1]
    inner = slice(1, -1)  # each line has two points
    return int(times[inner][(left + right)[inner].argmin()])


def _line_errors(x: Array, y: Array) -> Array:
    """Return the squared errors of the best lines through the first 1, 2, ... points, (n,)."""
    x, y = x - x[0], y - y[0]
    count = np.arange(1, len(x) + 1)
    sums = [np.cumsum(part) for part in (x, y, x * x, x * y, y * y)]
    X, Y, XX, XY, YY = sums
    spread = np.maximum(XX - X * X / count, np.finfo(float).tiny)
    result: Array = np.maximum(YY - Y * Y / count - (XY - X * Y / count) ** 2 / spread, 0.0)
    return result


# -- input checks --------------------------------------------------------------------------


def spectrum_sizes(eigenvalues: Any) -> Array:
    """Return |lambda|, largest first."""
    sizes = np.abs(np.asarray(eigenvalues, dtype=float))
    if sizes.ndim != 1:
        raise ValueError(f"Eigenvalues come as one row of numbers; got shape {sizes.shape}.")
    if not np.isfinite(sizes).all():
        raise ValueError(f"{int((~np.isfinite(sizes)).sum())} of {len(sizes)} eigenvalues are NaN or infinite.")
    if not len(sizes) or not sizes.any():
        raise ValueError("There is no non-zero eigenvalue to choose a dimension from.")
    return np.sort(sizes)[::-1]


def decay_rates(sizes: Array) -> Array:
    """Return -log |lambda|, zero if |lambda| is 1 up to rounding."""
    if sizes[0] > 1 + 1e-9:
        raise ValueError(
            f"Decay rates are those of a Markov kernel, whose |lambda| <= 1, but the largest given is {sizes[0]:.4g}. "
            "Of a Laplacian pass 1 - mu; of a centred kernel pass by='ratio'."
        )
    rates = -np.log(np.minimum(sizes, 1.0))
    return np.where(rates < 1e-12, 0.0, rates)
