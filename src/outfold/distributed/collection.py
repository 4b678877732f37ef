"""The implementation of :class:`outfold.data.sources.Collection` for Dask arrays and DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._runtime.typing import Array
from ..data.sources import Source
from .rows import DaskRows, DaskWeights, map_rows, rows_of, unit
from .transform import apply_estimator


class DaskCollection:
    """The operations on Dask arrays and DataFrames that fits and transforms need."""

    def rows(self, X: Any, *, column: bool = False) -> DaskRows:
        return rows_of(X, column)

    def weights(self, weights: Any, rows: Source, unit: float | None = None) -> DaskWeights:
        assert isinstance(rows, DaskRows)
        return DaskWeights.of(weights, rows, unit)

    def unit(self, weights: Any) -> float:
        return unit(weights)

    def map(self, function: Callable[[Array], Array], X: Any, columns: int) -> Any:
        return map_rows(function, X, columns)

    def transform(self, estimator: Any, X: Any, out: Any = None, **wanted: Any) -> Any:
        return apply_estimator(estimator, X, out, **wanted)
