"""Selection of the coordinates that are new directions, by local linear regression of each on the earlier ones."""
# mypy: allow-subclassing-any

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._runtime.ownership import freeze
from .._runtime.typing import Array, Data, Seed
from ..data.sources import map_rows
from ..methods import parameters
from ..methods.base import TakesCollections
from ..methods.rows import validate_rows
from ..operators.directions import LEAST_RESIDUAL, SCALE, residuals_of
from .dimension import draw_rows, table_of_rows

LARGEST_SCALE = 1e100  # its square is finite, and that of 1 / LARGEST_SCALE is not 0


def residuals(
    eigenvectors: Data,
    *,
    scale: float = SCALE,
    standardize: bool = True,
    rows: int = 2000,
    random_state: Seed = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return the part of each eigenvector that earlier ones do not explain: near 1 a new direction, near 0 a harmonic.

    psi_k(i) is predicted by a linear regression on psi_1 .. psi_k-1 over the other rows j, weighted by
    ``exp(-|Psi_i - Psi_j|^2 / h^2)``, h = scale * median distance, Psi = (psi_1, ..., psi_k-1), with a ridge of 1e-6 of
    the variance of Psi on the slopes. Then
    r_k^2 = sum_i (psi_k(i) - prediction)^2 / sum_i (psi_k(i) - mean)^2 and r_1 = 1 (Dsilva, Talmon, Coifman and
    Kevrekidis, 2018).

    Parameters
    ----------
    eigenvectors : array of shape (n, k), or a Dask collection
        In the order of their eigenvalues.
    scale : float > 0
        The bandwidth h relative to the median distance; 1/3 in the paper.
    standardize : bool
        Scale columns to variance 1 first, as eigenvectors have it: the weights lambda^t of an embedding then do not
        count.
    rows : int
        A random sample of ``rows`` rows is used if there are more.
    random_state : int, RandomState or None
    n_jobs : int or None

    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> residuals(np.cos(np.pi * np.column_stack([x[:, 0], 2 * x[:, 0], x[:, 1]]))).round(2).tolist()
    [1.0, 0.07, 1.0]
    """
    scale = parameters.number("scale", scale, low=1 / LARGEST_SCALE, high=LARGEST_SCALE)
    rows = parameters.count("rows", rows, low=2)
    vectors = table_of_rows("eigenvectors", draw_rows(eigenvectors, rows, rows, random_state), least=2)
    if len(vectors) > rows:
        vectors = vectors[np.sort(parameters.random_source(random_state).permutation(len(vectors))[:rows])]
    return residuals_of(vectors, scale, parameters.flag("standardize", standardize), parameters.threads(n_jobs))


@dataclass(eq=False, repr=False)
class LocalLinearSelection(TakesCollections, SelectorMixin, BaseEstimator):
    """Select the coordinates of an embedding that are not functions of earlier ones.

    The criterion is :func:`residuals`: r_k near 1 is a new direction, near 0 a harmonic of earlier ones (on a strip of
    length a, cos(2 pi x / a) is a function of cos(pi x / a)). Use it in a pipeline after any method that computes more
    components than you need.

    Parameters
    ----------
    n_components : int, optional
        How many to select: those with the largest residuals. Pass the intrinsic dimension if that many coordinates
        suffice.
    threshold : float between 0 and 1, optional
        Select those with a larger residual; 0.4 if neither parameter is set. With both parameters, at most
        ``n_components`` of them.
    scale, standardize, rows, random_state, n_jobs :
        As in :func:`residuals`.

    Attributes
    ----------
    residuals_ : array of shape (n_features,)

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from outfold import DiffusionMaps
    >>> strip = np.random.default_rng(0).uniform(size=(600, 2)) * [2.5, 1]
    >>> pipeline = make_pipeline(DiffusionMaps(6), LocalLinearSelection(2)).fit(strip)
    >>> pipeline[-1].get_support(indices=True).tolist()
    [0, 2]
    """

    n_components: int | None = None
    _: KW_ONLY
    threshold: float | None = None
    scale: float = SCALE
    standardize: bool = True
    rows: int = 2000
    random_state: Seed = 0
    n_jobs: int | None = None

    def fit(self, X: Data, y: object = None) -> Self:
        """Compute the residuals of the columns of an embedding.

        Parameters
        ----------
        X : array of shape (n_samples, n_coordinates), in the order of the eigenvalues
            From a Dask collection ``rows`` rows are drawn at random; ``transform`` then returns a lazy collection.
        y : ignored
        """
        drawn = draw_rows(X, self.rows, self.rows, self.random_state)
        names = getattr(X, "columns", None) if drawn is not X else None
        table: Array = validate_rows(self, drawn, reset=True, least=2, sparse=False)
        if names is not None:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        wanted, least = self.n_components, self.threshold
        if wanted is not None and parameters.count("n_components", wanted) > table.shape[1]:
            raise ValueError(f"n_components={wanted} must be 1 to {table.shape[1]}, as many as there are coordinates.")
        if least is not None and parameters.number("threshold", least, low=0.0) >= 1:
            raise ValueError(f"threshold={least!r} must be >= 0 and below 1, which is the residual of the first.")
        self.residuals_ = residuals(
            table,
            scale=self.scale,
            standardize=self.standardize,
            rows=self.rows,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        kept = np.zeros(len(self.residuals_), dtype=bool)
        first = np.append(np.inf, self.residuals_[1:])  # always select the first: residuals of noise may exceed its 1
        kept[np.argsort(-first, kind="stable")[:wanted]] = True
        if least is not None or wanted is None:
            kept &= self.residuals_ > (LEAST_RESIDUAL if least is None else least)
        self._kept = kept
        freeze(self)
        return self

    def transform(self, X: Any) -> Any:
        """Return the selected coordinates; for a Dask collection, a lazy collection.

        Parameters
        ----------
        X : array of shape (n_samples, n_coordinates)
        """
        if self._collection(X) is None:
            return super().transform(X)
        self._check_container()
        kept = self.get_support(indices=True)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} columns, but the fit had {self.n_features_in_} coordinates.")
        return X[[X.columns[at] for at in kept]] if hasattr(X, "columns") else X[:, kept]

    def inverse_transform(self, X: Data) -> Array:
        """Return all coordinates, with 0 for those that were not selected; for a Dask collection, a lazy array.

        Parameters
        ----------
        X : array of shape (n_samples, selected coordinates)
        """
        return map_rows(super().inverse_transform, X, len(self._get_support_mask()))

    def _get_support_mask(self) -> Array:
        check_is_fitted(self, "residuals_")
        return self._kept
