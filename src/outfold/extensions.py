"""Functions learnt from pairs of rows: used to go from coordinates back to features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from .kernels import KernelValues, Named
from .runners import Threads, row_blocks

Array = NDArray[Any]


@dataclass(frozen=True)
class KernelRidge:
    """y(x) = mean + k(x, .) c with (K + ridge tr(K)/n diag(1/m)) c = Y - mean.

    The mean is not penalised, so a linear kernel gives back what PCA would. "rbf" takes epsilon from the mean
    squared distance between the rows of X, which is twice their variance.
    """

    kernel: str = "rbf"
    ridge: float = 1e-3

    def fit(self, X: Array, Y: Array, measure: Array, runner: Threads) -> RidgeModel:
        centred = X - measure @ X / measure.sum()
        spread = 2 * float(measure @ (centred**2).sum(axis=1) / measure.sum())
        named = Named(self.kernel, gamma=1 / (2 * spread) if self.kernel == "rbf" else None)
        values, K, _ = named.fit(X, measure, runner)
        mean = measure @ Y / measure.sum()
        level = self.ridge * (measure @ K.diagonal()) / measure.sum()
        K[np.diag_indices_from(K)] += level / measure
        return RidgeModel(values, linalg.solve(K, Y - mean, assume_a="pos", overwrite_a=True), mean)


@dataclass(frozen=True)
class RidgeModel:
    """A fitted kernel ridge regression."""

    values: KernelValues
    coefficients: Array
    mean: Array

    def embed(self, Z: Array, runner: Threads) -> Array:
        out = np.empty((len(Z), self.coefficients.shape[1]))

        def fill(block: slice) -> None:
            out[block] = self.values.values(np.asarray(Z[block], dtype=float))[0] @ self.coefficients + self.mean

        for _ in runner.map(fill, row_blocks(len(Z), self.values.row_entries), "inverse"):
            pass
        return out
