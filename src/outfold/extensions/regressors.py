"""Extension by a linear map or a regressor of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..distances import clip_entries
from .base import Extension
from .samples import Samples, by_blocks, check_complete


@dataclass(frozen=True)
class LinearMap(Extension):
    """y(x) = mean + (x - mean of x) B by least squares, with a ridge relative to the variance of x.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=LinearMap()).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 3.0)
    ('LinearMap()', True)
    """

    ridge: float = 1e-9

    def fit(self, known: Samples, runner: Threads) -> LinearModel:
        check_complete(known, "linear")
        share = known.measure / known.measure.sum()
        centre = share @ known.points
        X = (known.points - centre) * np.sqrt(share)[:, None]
        Y = (known.values - known.mean) * np.sqrt(share)[:, None]
        level = self.ridge * max(float((X**2).sum()), np.finfo(float).tiny)
        if X.shape[1] <= len(X):
            B = linalg.solve(X.T @ X + level * np.eye(X.shape[1]), X.T @ Y, assume_a="pos")
        else:
            B = X.T @ linalg.solve(X @ X.T + level * np.eye(len(X)), Y, assume_a="pos")
        return LinearModel(centre, B, known.mean)


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear map."""

    centre: Array
    matrix: Array
    mean: Array

    def embed(self, Z: Array, runner: Threads) -> Array:
        of = lambda points: (points - self.centre) @ self.matrix + self.mean  # noqa: E731
        return by_blocks(of, Z, len(self.mean), len(self.centre), runner)


@dataclass(frozen=True)
class Regressor(Extension):
    """Any regressor with scikit-learn's fit(X, Y) and predict(X). A clone is fitted; the regressor is not changed.

    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> maps = DiffusionMaps(extension=KNeighborsRegressor(3)).fit(circle(100, random_state=0))
    >>> maps.report_.extension
    'Regressor(regressor=KNeighborsRegressor(n_neighbors=3))'
    """

    regressor: Any

    def fit(self, known: Samples, runner: Threads) -> RegressorModel:
        model = clone(self.regressor)
        targets = known.values if known.values.shape[1] > 1 else known.values[:, 0]
        weighted = has_fit_parameter(model, "sample_weight") and not np.all(known.measure == 1)
        model.fit(known.points, targets, **({"sample_weight": known.measure} if weighted else {}))
        return RegressorModel(model, known.values.shape[1])


@dataclass(frozen=True)
class RegressorModel:
    """A fitted regressor."""

    regressor: Any
    columns: int

    def embed(self, Z: Array, runner: Threads) -> Array:
        found = np.asarray(self.regressor.predict(clip_entries(np.asarray(Z, dtype=float))), dtype=float)
        if found.size != len(Z) * self.columns:
            raise ValueError(
                f"{type(self.regressor).__name__}.predict returned shape {found.shape} for {len(Z)} rows; an extension "
                f"must return ({len(Z)}, {self.columns})."
            )
        return found.reshape(len(Z), self.columns)
