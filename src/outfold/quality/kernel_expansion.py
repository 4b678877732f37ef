"""The kernel of a fitted estimator between any rows; see :mod:`outfold.operators.expansion`."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..engine.model import ExtendedModel, SpectralModel
from ..methods.base import SpectralEstimator
from ..operators.expansion import EigenPairs, Expansion


def expansion(estimator: object) -> Expansion:
    """Return the expansion of a fitted estimator."""
    check_is_fitted(estimator)
    if not isinstance(estimator, SpectralEstimator) or not isinstance(estimator.model_, SpectralModel | ExtendedModel):
        raise TypeError(
            f"{type(estimator).__name__} has no kernel to look at: pass a fitted spectral method of Outfold."
        )
    if estimator._precomputed_parameter():
        raise ValueError(
            f"{estimator._precomputed_parameter()}='precomputed' tells of rows and anchors only, and this needs the "
            "kernel between any rows: fit on features, with a metric or kernel that may be a callable."
        )
    anchors, measure = (np.asarray(values, dtype=float) for values in (estimator.landmarks_, estimator._anchor_measure))
    pairs = EigenPairs(estimator._operator_eigenvalues(), anchors, measure)
    view = estimator._fitted_recipe.view
    found = view.kernel_between(estimator.model_.rule, pairs)
    if found is None:
        raise ValueError(
            f"The coordinates of {type(estimator).__name__} are {view.without_kernel}, so there is none to compare "
            "with. Judge them by quality.distance_correlation."
        )
    return found
