"""Delay coordinates: each row beside earlier rows of its series."""
# mypy: allow-subclassing-any

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .._runtime.ownership import freeze
from .._runtime.typing import Array, Data
from ..data import inputs
from ..methods import parameters
from ..methods.rows import validate_rows
from .series import Column, Series, SeriesData, read_series, return_features


@dataclass(eq=False, repr=False)
class Delays(TransformerMixin, BaseEstimator):
    """Takens embedding: x(t) beside ``n_delays`` earlier values, which together determine the state of a system.

    Row t becomes (x(t), e^-kappa x(t - s), ..., e^(-kappa n_delays) x(t - n_delays s)), s = ``step`` rows of the series
    (Takens, 1981; weights of Berry, Cressman, Greguric-Ferencek and Sauer, 2013). Series are never joined, and no row
    looks across a gap: the first ``n_delays * step`` rows of a series, and after a gap, are dropped.

    Parameters
    ----------
    n_delays : int >= 0
    step : int
        Rows between two delays.
    kappa : float >= 0
        Decay of the weights.

    Attributes
    ----------
    dropped_ : array of int
        The training rows without an answer.
    sample_step_ : float
        Time between two rows.

    Examples
    --------
    >>> import numpy as np
    >>> Delays(2).fit_transform(np.arange(5.0)[:, None]).tolist()
    [[2.0, 1.0, 0.0], [3.0, 2.0, 1.0], [4.0, 3.0, 2.0]]
    >>> [len(part) for part in Delays(2).fit_transform([np.ones((5, 1)), np.ones((3, 1))])]
    [3, 1]
    """

    n_delays: int = 1
    _: KW_ONLY
    step: int = 1
    kappa: float = 0.0

    def fit(self, X: Data, y: object = None, *, series: Column = None, time: Column = None) -> Self:
        """Check the series, and find the time between two rows.

        Parameters
        ----------
        X : array (n, d) of one series, list of such arrays, or frame indexed by (series, time)
        y : ignored
        series, time : array with an entry for each row, or name of a column, optional
            The series of each row, and its time.
        """
        self.fit_series(read_series(X, series, time))
        return self

    def fit_transform(self, X: Data, y: object = None, *, series: Column = None, time: Column = None) -> SeriesData:
        """Fit, then ``transform(X)``."""
        return self.fit(X, series=series, time=time).transform(X, series=series, time=time)

    def transform(self, X: Data, *, series: Column = None, time: Column = None) -> SeriesData:
        """Return the rows with their delays, in the form of X; rows without an answer are dropped.

        A frame keeps the index, or the columns of series and time, of the rows that remain; ``mask(X)`` is True for
        them.

        Parameters
        ----------
        X, series, time :
            As in ``fit``.
        """
        check_is_fitted(self)
        found = self.transform_series(read_series(X, series, time, step=self.sample_step_))
        return return_features(self, found)

    def mask(self, X: Data, *, series: Column = None, time: Column = None) -> Array:
        """Return True for each row of X that has all its delays, (n,)."""
        check_is_fitted(self)
        found = read_series(X, series, time, step=self.sample_step_)
        mask = np.empty(len(found.rows), dtype=bool)
        mask[found.rows] = found.ages() >= self.reach
        return mask

    def inverse_transform(self, X: Data) -> SeriesData:
        """Return x(t), the last value: the first columns.

        Parameters
        ----------
        X : array of shape (n, (n_delays + 1) * n_features), or a list or a frame of what ``transform`` returned
        """
        check_is_fitted(self)
        if isinstance(X, list) and any(np.ndim(part) == 2 for part in X):
            return [np.asarray(self.inverse_transform(part)) for part in X]
        names = inputs.column_names(X)
        if names is not None:
            own = self.get_feature_names_out().tolist()
            absent = [name for name in own[: self.n_features_in_] if name not in names]
            if absent:
                raise ValueError(f"X has no column {absent[0]!r}. Pass what transform returned.")
            frame: Any = X
            found: SeriesData = frame[[name for name in names if name not in own[self.n_features_in_ :]]]
            return found
        values = inputs.read_rows(X)
        width = self.n_features_in_ * (self.n_delays + 1)
        if values.shape[1] != width:
            raise ValueError(
                f"X has {values.shape[1]} columns, and {self.n_features_in_} features with {self.n_delays} delays have "
                f"{width}. Pass what transform returned."
            )
        return np.array(values[:, : self.n_features_in_])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the names of the columns: ``x``, and ``x_lag2`` for the value two rows earlier."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        lags = (lag * self.step for lag in range(self.n_delays + 1))
        return np.array([f"{name}_lag{lag}" if lag else name for lag in lags for name in names], dtype=object)

    # -- inside the package ----------------------------------------------------------------

    @property
    def reach(self) -> int:
        """How many rows back the last delay lies."""
        return parameters.count("n_delays", self.n_delays, low=0) * parameters.count("step", self.step)

    def fit_series(self, found: Series) -> Series:
        """Fit to series that are read already; return what ``transform_series`` does."""
        parameters.number("kappa", self.kappa, low=0.0)
        found.require(self.reach + 1, self._why())
        validate_rows(self, found.table, reset=True, sparse=False)
        self.sample_step_ = found.step
        self.dropped_ = np.sort(found.rows[found.ages() < self.reach])
        freeze(self)
        return self.transform_series(found)

    def transform_series(self, found: Series) -> Series:
        """Return the series with delays, without the rows that have no answer."""
        validate_rows(self, found.table, reset=False, sparse=False)
        found.require(self.reach + 1, self._why())
        kept = found.ages() >= self.reach
        rows = np.flatnonzero(kept)
        weights = np.exp(-float(self.kappa) * np.arange(self.n_delays + 1))
        lagged = [weight * found.values[rows - lag * self.step] for lag, weight in enumerate(weights)]
        return found.select(kept).with_values(np.hstack(lagged))

    def _why(self) -> str:
        return f"Delays({self.n_delays}, step={self.step})"
