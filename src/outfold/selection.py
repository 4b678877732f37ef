"""How many coordinates are worth keeping."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def spectral_dimension(eigenvalues: NDArray[Any], *, t: float = 1.0, delta: float = 0.1) -> int | None:
    """s(delta, t) = max{l : |lambda_l|^t > delta |lambda_1|^t} over non-trivial eigenvalues.

    Returns None ("not reached") if every given eigenvalue passes, so that more are needed to tell.

    >>> spectral_dimension([0.9, 0.8, 0.05, 0.01])
    2
    >>> spectral_dimension([0.9, 0.8]) is None
    True
    """
    sizes = np.sort(np.abs(np.asarray(eigenvalues, dtype=float)))[::-1]
    if not len(sizes) or sizes[0] == 0:
        raise ValueError("There is no non-zero eigenvalue to choose a dimension from.")
    passing = int(((sizes / sizes[0]) ** t > delta).sum())
    return None if passing == len(sizes) else passing
