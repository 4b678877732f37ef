"""Data in several pieces: each is embedded by itself, and they are laid out side by side."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _resolve, neighbors
from .._storable import Storable
from ..distances import Metric
from ..runners import Threads
from ..sources import here
from .centred import Isomap

Array = NDArray[Any]

ROOM = 1.25  # distance between centres, in units of the sum of two radii
MANY = 2000  # rows of an island beyond which Isomap takes landmarks
LANDMARKS = 500


class Islands(Storable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Embed each connected piece of the data by itself, and lay the pieces out side by side.

    Pieces are the components of the graph of ``n_neighbors`` nearest neighbours. An embedding of all of them at once
    spends its first coordinates on telling them apart; here each has all coordinates to itself. The centres of the
    pieces keep their distances in the data as well as so few coordinates can, blown up until no two pieces
    overlap. A new row belongs to the piece of its nearest training row.

    Parameters
    ----------
    n_components : int
    method : estimator, optional
        What each piece is embedded by, with ``fit_transform`` and ``transform``; None is :class:`outfold.Isomap`.
    n_neighbors : int
        Of the graph whose components are the pieces. Too few tear sparse curves, too many join what is apart.
    smallest : float
        Pieces with less than this part of the rows are none: their rows belong to the nearest that is one.
    n_jobs : int or None

    Attributes
    ----------
    pieces_ : list of fitted estimators
    centres_ : array of shape (pieces, n_components)
    labels_ : array of shape (n_samples,), the piece of each training row

    Examples
    --------
    >>> from outfold.datasets import circle
    >>> X = circle(100)
    >>> model = Islands().fit(np.vstack([X, X + 9]))
    >>> len(model.pieces_), model.transform(X).shape
    (2, (100, 2))
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: Any = None,
        n_neighbors: int = 15,
        smallest: float = 0.02,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.n_neighbors = n_neighbors
        self.smallest = smallest
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the pieces and embed each."""
        columns, k = _resolve.count("n_components", self.n_components), _resolve.count("n_neighbors", self.n_neighbors)
        smallest = _resolve.number("smallest", self.smallest, low=0.0, high=1.0)
        X = validate_data(self, here(X), dtype=float, ensure_min_samples=2)
        runner = Threads(self.n_jobs)
        search = neighbors.build(Metric().fit(X), "auto")
        piece = _pieces(search, X, min(k, len(X) - 1) + 1, runner)
        sizes = np.bincount(piece)
        large = np.flatnonzero(sizes >= max(smallest * len(X), 2 * columns + 2))
        if len(large) == 0:
            large = np.array([sizes.argmax()])
        self.rows_ = np.flatnonzero(np.isin(piece, large))
        self.search_ = neighbors.build(Metric().fit(X[self.rows_]), "auto")
        self._label = np.searchsorted(large, piece[self.rows_])
        self.pieces_, places = [], []
        for number in range(len(large)):
            part = X[self.rows_[self._label == number]]
            model = clone(self._method(len(part))).set_params(n_components=columns)
            places.append(np.asarray(model.fit_transform(part)))
            self.pieces_.append(model)
        middles = np.array([X[self.rows_[self._label == number]].mean(axis=0) for number in range(len(large))])
        self.origins_ = np.array([p.mean(axis=0) for p in places])
        radii = np.array([np.linalg.norm(p - p.mean(axis=0), axis=1).max() for p in places])
        self.centres_ = _layout(middles, radii, columns)
        self.labels_ = self._belongs(X, runner)
        self._n_features_out = columns
        return self

    def _method(self, rows: int) -> Any:
        if self.method is not None:
            return self.method
        landmarks = LANDMARKS if rows > MANY else None
        k = min(self.n_neighbors, rows - 1)
        return Isomap(n_neighbors=k, landmarks=landmarks, components="join", random_state=0, n_jobs=self.n_jobs)

    def transform(self, X: Any) -> Array:
        """Each row in the coordinates of its piece, moved to its place."""
        check_is_fitted(self)
        X = validate_data(self, here(X), reset=False, dtype=float)
        label = self._belongs(X, Threads(self.n_jobs))
        found = np.empty((len(X), len(self.centres_[0])))
        for number in np.unique(label):
            mine = label == number
            found[mine] = embedded(self.pieces_[number], X[mine]) - self.origins_[number] + self.centres_[number]
        return found

    def _belongs(self, X: Array, runner: Threads) -> Array:
        if len(self.pieces_) == 1:
            return np.zeros(len(X), dtype=int)
        lists = self.search_.closest(X, 1, runner)
        return self._label[lists.index[lists.ptr[:-1]]]


def embedded(model: Any, X: Array) -> Array:
    """By any transformer; ours are not to warn of rows that lie far."""
    return model.transform(X, on_far="keep") if hasattr(model, "trust") else model.transform(X)


def _pieces(search: Any, X: Array, k: int, runner: Threads) -> Array:
    lists = search.closest(X, k, runner).nearest(k)
    graph = csr_array((np.ones(len(lists.index)), lists.index, lists.ptr), shape=(len(X), len(X)))
    return connected_components(graph, directed=False)[1]


def _layout(middles: Array, radii: Array, columns: int) -> Array:
    """Places with the distances of the middles, as well as they fit, blown up until discs of the radii are apart."""
    count = len(middles)
    if count == 1:
        return np.zeros((1, columns))
    reach = ROOM * (radii[:, None] + radii)
    squared = np.maximum(cdist(middles, middles), 1e-3 * reach) ** 2
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-centring @ squared @ centring / 2)
    kept = min(columns, count)
    places = np.zeros((count, columns))
    places[:, :kept] = vectors[:, ::-1][:, :kept] * np.sqrt(np.maximum(values[::-1][:kept], 0.0))
    pairs = np.triu_indices(count, 1)
    for _ in range(100):  # push apart what is too near for its size, then blow up what is left
        apart = cdist(places, places)[pairs]
        if (apart > 0).all():
            break
        places = places + 1e-3 * radii.mean() * np.random.default_rng(0).normal(size=places.shape)
    return places * (reach[pairs] / apart).max()
