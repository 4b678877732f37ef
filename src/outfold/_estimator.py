"""The scikit-learn contract over the engine: parameters, validation, fitted attributes. Nothing numerical."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _engine, _resolve
from .exceptions import FarPointsError, FarPointsWarning, SpectrumWarning
from .sources import Threads
from .trust import Trust

Array = NDArray[Any]


class SpectralEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What every spectral method shares; a method adds its parameters and ``_recipe``."""

    # parameters that every method has; subclasses set them in __init__
    n_jobs: int | None
    verbose: bool
    random_state: Any
    _needs_positive = True  # precomputed values must not be negative

    def _recipe(self) -> _engine.Recipe:
        raise AssertionError("a method defines its recipe")

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the embedding.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a square matrix if precomputed
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            The measure on the training points. A whole-number weight equals repeating the row.
        """
        fitted = copy.copy(self)  # a fit that fails or is interrupted leaves self as it was
        fitted._fit(X, sample_weight)
        self.__dict__ = fitted.__dict__
        for text in self.report_.warnings:
            warnings.warn(text, SpectrumWarning, stacklevel=2)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then ``transform(X)``."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X, on_far="keep")

    def _fit(self, X: Any, sample_weight: Any) -> None:
        recipe = self._recipe()
        runner = self._runner()
        X = self._validate(X, reset=True)
        measure = _measure(sample_weight, len(X))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        found = _engine.fit(X, recipe, measure, np.random.default_rng(seed), runner)
        self._adopt(found, X.dtype)

    def _adopt(self, found: _engine.Fit, dtype: Any) -> None:
        self.model_ = found.model
        self.report_ = found.report
        self.eigenvalues_ = found.eigenvalues
        self.eigenvectors_ = found.functions
        if hasattr(self, "epsilon"):
            self.epsilon_ = found.report.epsilon
        self.landmarks_ = found.anchors.points if self._precomputed() is None else found.anchors.index
        self.landmark_indices_ = found.anchors.index
        self._columns = found.columns
        self.embedding_ = found.embedding.astype(dtype, copy=False)
        self._n_features_out = found.model.basis.shape[1]

    # -- new points ------------------------------------------------------------------------

    def transform(self, X: Any, *, on_far: str = "warn") -> Array:
        """Embed any points, new or not: ``row(x) @ basis``.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n_anchors) if precomputed
        on_far : {"warn", "nan", "raise", "nearest"}
            What to do with rows outside the data: embed them and warn, give NaN, raise, or give the
            position of the nearest training point.
        """
        if on_far != "keep":
            _resolve.one_of("on_far", on_far, _resolve.ON_FAR)
        check_is_fitted(self)
        Z = self._validate(X, reset=False)
        embedding, trust = self.model_.look(Z, self._runner())
        if on_far != "keep" and trust.flag.any():
            self._answer_far(on_far, Z, embedding, trust)
        return embedding.astype(Z.dtype, copy=False)

    def trust(self, X: Any) -> Trust:
        """How far to believe ``transform(X)``: ``support`` and ``flag`` for each row."""
        check_is_fitted(self)
        return self.model_.evidence(self._validate(X, reset=False), self._runner())

    def _answer_far(self, on_far: str, Z: Array, embedding: Array, trust: Trust) -> None:
        far = np.flatnonzero(trust.flag)
        told = (
            f"{len(far)} of {len(Z)} rows lie outside the training data (the first is row {far[0]}, support "
            f"{trust.support[far[0]]:.3g})"
        )
        if on_far == "raise":
            raise FarPointsError(f"{told}. Pass on_far='warn', 'nan' or 'nearest' to embed the rest.")
        if on_far == "warn":
            warnings.warn(
                f"{told}; their positions are extrapolated. See trust(X); on_far= chooses what to do.",
                FarPointsWarning,
                stacklevel=4,
            )
        elif on_far == "nan":
            embedding[far] = np.nan
        else:
            embedding[far] = self.model_.nearest(Z[far])

    # -- scikit-learn ----------------------------------------------------------------------

    def _runner(self) -> Threads:
        if self.n_jobs is not None and (not isinstance(self.n_jobs, int | np.integer) or self.n_jobs == 0):
            raise ValueError(f"n_jobs={self.n_jobs!r} must be None or a whole number other than 0.")
        return Threads(self.n_jobs, bool(self.verbose))

    def _precomputed(self) -> str | None:
        for name in ("kernel", "metric"):
            value = getattr(self, name, None)
            if isinstance(value, str) and value == "precomputed":
                return name
        return None

    def _validate(self, X: Any, *, reset: bool) -> Array:
        if issparse(X):
            raise TypeError(
                f"{type(self).__name__} does not take sparse feature matrices. Reduce them first "
                "(sklearn.decomposition.TruncatedSVD), or pass X.toarray() if it fits in memory."
            )
        metric = getattr(self, "metric", None)
        nan = "allow-nan" if isinstance(metric, str) and metric == "nan_euclidean" else True
        options: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": nan}
        given = self._precomputed()
        if given and not reset:
            return self._validate_given_rows(X, options, given)
        X = validate_data(self, X, reset=reset, ensure_min_samples=2 if reset else 1, **options)
        if given:
            _check_square(X, given, self._needs_positive)
        return X

    def _validate_given_rows(self, X: Any, options: dict[str, Any], given: str) -> Array:
        """Rows of distances or affinities: to the anchors, or to all training rows."""
        from sklearn.utils import check_array

        X = check_array(X, **options)
        index: Any = self._columns
        if X.shape[1] == self.n_features_in_ and X.shape[1] != len(index):
            X = X[:, index]
        elif X.shape[1] != len(index):
            return validate_data(self, X, reset=False, **options)  # raises with both numbers
        if self._needs_positive:
            _check_positive(X, given)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed() is not None
        tags.input_tags.positive_only = self._precomputed() is not None and self._needs_positive
        tags.input_tags.sparse = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _measure(sample_weight: Any, n: int) -> Array:
    """The measure: whole-number weights are counts, others are scaled to mean 1."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.array(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}.")
    if len(weights) != n:
        raise ValueError(f"sample_weight has {len(weights)} entries for {n} rows.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"sample_weight must be finite and >= 0; the smallest given is {weights.min():.3g}.")
    if (weights > 0).sum() < 2:
        raise ValueError(
            f"sample_weight is zero for all but {(weights > 0).sum()} of {n} rows; a fit needs at least 2 rows of "
            "positive weight."
        )
    return weights if (weights == np.round(weights)).all() else weights / weights[weights > 0].mean()


def _check_positive(X: Array, given: str) -> None:
    if (X < 0).any():
        raise ValueError(f"Negative values in data: {given}='precomputed' needs values >= 0, got {X.min():.3g}.")


def _check_square(X: Array, given: str, positive: bool) -> None:
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"{given}='precomputed' needs a square matrix between the training points, got {X.shape}. Pass "
            "features with another metric, or the n x n matrix."
        )
    if positive:
        _check_positive(X, given)
    if not np.allclose(X, X.T, rtol=1e-6, atol=1e-10 * np.abs(X).max()):
        raise ValueError(
            f"{given}='precomputed' needs a symmetric matrix; entries differ by up to {np.abs(X - X.T).max():.3g}."
        )
    if given == "metric" and np.abs(np.diagonal(X)).max() > 1e-10 * X.max():
        raise ValueError(
            f"metric='precomputed' needs zero distance from a point to itself; the diagonal reaches "
            f"{np.diagonal(X).max():.3g}. Are these affinities? Then pass kernel='precomputed'."
        )
