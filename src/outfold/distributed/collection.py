"""The implementation of :class:`outfold.data.sources.Collection` for Dask arrays and DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from .._runtime.typing import Array
from ..data.sources import Source, Wanted
from ..methods.base import SpectralEstimator
from .rows import DaskRows, DaskWeights, map_rows, rows_of
from .tasks import DaskArray
from .transform import apply_estimator


class DaskCollection:
    """The operations on Dask arrays and DataFrames that fits and transforms need."""

    def rows(self, X: object, *, column: bool = False) -> DaskRows:
        return rows_of(X, column)

    def weights(self, weights: object, rows: Source, unit: float = 1.0) -> DaskWeights:
        assert isinstance(rows, DaskRows)
        return DaskWeights.of(weights, rows, unit)

    def map(self, function: Callable[..., Array], X: object, columns: int) -> DaskArray:
        return map_rows(function, X, columns)

    def transform(
        self, estimator: SpectralEstimator, X: object, out: str | Path | None = None, **wanted: Unpack[Wanted]
    ) -> Any:
        return apply_estimator(estimator, X, out, **wanted)
