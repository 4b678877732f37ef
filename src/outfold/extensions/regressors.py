"""Extension by a linear map, by the weights of nearest neighbours, or by a regressor of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy import linalg
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .. import neighbors
from .._runtime.threads import Threads
from .._runtime.typing import Array, Axes, Interval
from ..data.sparse_rows import SparseRows, as_rows
from ..distances import Metric, clip_entries
from ..operators.local_weights import BarycentricRule
from ..trust import Nearness
from .samples import Extension, FittedExtension, Samples, by_blocks, check_complete


@dataclass(frozen=True)
class LinearMap(Extension):
    """y(x) = mean + (x - mean of x) B by least squares, with a ridge relative to the variance of x."""

    ridge: Annotated[float, Interval(0, open_low=True)] = 1e-9

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
class LinearModel(FittedExtension):
    """A fitted linear map."""

    centre: Annotated[Array, Axes("d")]
    matrix: Annotated[Array, Axes("d c")]
    mean: Annotated[Array, Axes("c")]

    def embed(self, Z: Array, runner: Threads) -> Array:
        of = lambda points: (points - self.centre) @ self.matrix + self.mean  # noqa: E731
        return by_blocks(of, Z, len(self.mean), len(self.centre), runner)


@dataclass(frozen=True)
class Barycentric(Extension):
    """y(x) = sum_j w_j(x) y_j, w the weights by which the nearest points reconstruct x (those of LLE)."""

    n_neighbors: Annotated[int, Interval(1)] = 10
    reg: Annotated[float, Interval(0, open_low=True)] = 1e-3

    def fit(self, known: Samples, runner: Threads) -> BarycentricModel:
        if not isinstance(known.points, SparseRows):
            check_complete(known, "barycentric")
        search = neighbors.build(Metric().fit(known.points), "auto")
        k = min(self.n_neighbors, len(known.points))
        return BarycentricModel(BarycentricRule(search=search, k=k, reg=self.reg, nearness=Nearness(1.0)), known.values)


@dataclass(frozen=True)
class BarycentricModel(FittedExtension):
    """The rule for the reconstruction weights of any point, and the values they combine."""

    rule: Annotated[BarycentricRule, Axes("n d")]
    values: Annotated[Array, Axes("n c")]

    def embed(self, Z: Array, runner: Threads) -> Array:
        of = lambda points: self.rule.rows(points) @ self.values  # noqa: E731
        return by_blocks(of, Z, self.values.shape[1], self.rule.row_entries, runner)


@dataclass(frozen=True)
class Regressor(Extension):
    """Any regressor with scikit-learn's fit(X, Y) and predict(X). A clone is fitted; the regressor is not changed."""

    regressor: Any

    def fit(self, known: Samples, runner: Threads) -> RegressorModel:
        model = clone(self.regressor)
        targets = known.values if known.values.shape[1] > 1 else known.values[:, 0]
        weighted = has_fit_parameter(model, "sample_weight") and not np.all(known.measure == 1)
        model.fit(known.points, targets, **({"sample_weight": known.measure} if weighted else {}))
        return RegressorModel(model, known.values.shape[1])


@dataclass(frozen=True)
class RegressorModel(FittedExtension):
    """A fitted regressor."""

    regressor: Any
    columns: int

    def embed(self, Z: Array, runner: Threads) -> Array:
        found = np.asarray(self.regressor.predict(clip_entries(as_rows(Z))), dtype=float)
        if found.size != len(Z) * self.columns:
            raise ValueError(
                f"{type(self.regressor).__name__}.predict returned shape {found.shape} for {len(Z)} rows; an extension "
                f"must return ({len(Z)}, {self.columns})."
            )
        return found.reshape(len(Z), self.columns)
