"""A detector of outliers, in scikit-learn's interface, made of any estimator with ``trust``."""
# mypy: allow-subclassing-any

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from .._runtime.typing import Array, Data, Weights
from ..data.weights import measure_on
from ..distances import Metric
from ..extensions.domain import Domain, TrainingSample
from ..methods import parameters
from ..methods.base import SpectralEstimator
from ..trust import LEVEL, Judge

LARGEST_SCORE = float(np.finfo(np.float32).max)  # in place of infinity; sums of it, and casts to float32, are finite


@dataclass(eq=False, repr=False)
class EmbeddingOutliers(OutlierMixin, BaseEstimator):
    """Find rows outside the data that a method was fitted to: ``trust`` of the method, as a detector of scikit-learn.

    ``predict`` judges new rows: -1 is ``trust(X, level=level).flag``. A training row is a copy of itself to it, and so
    inside: ``fit_predict`` judges each training row by the others instead.

    Parameters
    ----------
    estimator : an estimator of Outfold, such as ``DiffusionMaps()``
    level : float in [0, 1]
        Share of new rows like the training rows that ``predict`` labels -1.
    prefit : bool
        The estimator is fitted already; ``fit`` then only checks it.

    Attributes
    ----------
    estimator_ : the fitted estimator
        A fitted clone of ``estimator``; ``estimator`` itself with ``prefit=True``.
    offset_ : float
        Rows with ``score_samples`` below it are outside. After ``estimator_.calibrate()`` or an update, fit again with
        ``prefit=True``.
    n_features_in_ : int
    feature_names_in_ : array, if the training rows had names of features

    Examples
    --------
    >>> import numpy as np
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> detector = EmbeddingOutliers(DiffusionMaps()).fit(X[:290])
    >>> detector.predict([X[290], [5.0, 0.0, 0.0]]).tolist()
    [1, -1]
    >>> detector.fit_predict(np.vstack([X, [[5.0, 0.0, 0.0]]]))[-1].item()
    -1
    """

    estimator: SpectralEstimator
    _: KW_ONLY
    level: float = LEVEL
    prefit: bool = False

    def fit(self, X: Data, y: object = None, sample_weight: Weights = None) -> Self:
        """Fit the estimator.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or what else the estimator's ``fit`` takes
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            As in the estimator's ``fit``; not used if that is fitted already.
        """
        level = parameters.number("level", self.level, low=0.0, high=1.0)
        if not isinstance(self.estimator, SpectralEstimator):
            raise TypeError(f"estimator={self.estimator!r} must be an estimator of Outfold, such as DiffusionMaps().")
        if self.prefit:
            self._check_prefit(X)
            fitted = self.estimator
        else:
            fitted = clone(self.estimator).fit(X, sample_weight=sample_weight)
        self.estimator_ = fitted
        self.n_features_in_ = fitted.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(fitted, "feature_names_in_"):
            self.feature_names_in_ = fitted.feature_names_in_
        self.offset_ = -_highest_inside(fitted._judge_of_rows(), level)
        return self

    def _check_prefit(self, X: Data) -> None:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError as error:
            raise NotFittedError(
                "prefit=True needs a fitted estimator, and this one is not (clone and cross-validation return unfitted "
                "copies). Fit it first, or pass prefit=False."
            ) from error
        self.estimator._open_given_rows(X)  # raises if its features are others

    def fit_predict(self, X: Data, y: object = None, sample_weight: Weights = None) -> Array:
        """Fit, and return 1 for training rows inside the data, -1 for outliers among them, (n_samples,).

        Each row is compared with the other rows, so copies of a row are inside. Up to 5 % of the rows may be outliers:
        a row is one if its probability is below ``level`` in an exponential tail that is fitted to the strangest tenth
        of the rows by its median. Of rows without outliers, about ``level`` are labelled -1.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or what else the estimator's ``fit`` takes
            With ``prefit=True`` the rows that the estimator was fitted to.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            As in the estimator's ``fit``.
        """
        given = isinstance(self.estimator, SpectralEstimator) and self.estimator._precomputed_parameter()
        if given:
            raise ValueError(
                f"fit_predict needs features, and {given}='precomputed' has none. Call fit, then predict with the rows "
                "of new samples; or fit on features."
            )
        self.fit(X, y, sample_weight=sample_weight)
        fitted = self.estimator_
        rows = fitted._open_given_rows(X)
        points, measure = rows.array(), np.asarray(measure_on(rows, sample_weight))
        sample = TrainingSample.of(points[measure > 0], measure[measure > 0])
        p = Domain.judge_training_rows(sample, _metric_of(fitted), points, fitted._runner())
        return np.where(p < self.level, -1, 1)

    def score_samples(self, X: Data) -> Array:
        """Return how normal each row is: minus the ``score`` of ``trust``, (n,).

        Infinite scores become +-3.4e38: the largest is that of a row that equals a training row, the smallest that of a
        row with no training row in reach.
        """
        check_is_fitted(self)
        fitted = self.estimator_
        judged = fitted._judge(*fitted._embed_rows(X))
        return np.clip(-judged.score, -LARGEST_SCORE, LARGEST_SCORE)

    def decision_function(self, X: Data) -> Array:
        """Return ``score_samples(X) - offset_``, (n,): negative for rows outside the data."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Data) -> Array:
        """Return 1 for rows inside the training data, -1 for rows outside, (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _metric_of(fitted: SpectralEstimator) -> Metric:
    """Return the metric in which rows are compared; networks have no recipe, and compare Euclidean distances."""
    recipe = getattr(fitted, "_fitted_recipe", None)
    return (None if recipe is None else recipe.view.feature_metric) or Metric()


def _highest_inside(judge: Judge, level: float) -> float:
    """Return the highest score with a p-value of at least ``level``, by bisection: p-values fall with the score.

    If every finite score is inside, only infinite ones are above the result; if none is, only -inf is not.
    """

    def inside(score: float) -> bool:
        return bool(judge.p_value(np.array([score]))[0] >= level)

    low, high = -LARGEST_SCORE, LARGEST_SCORE
    if not inside(low):
        return low
    if inside(high):
        return high / 2
    while low < (middle := low / 2 + high / 2) < high:
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low
