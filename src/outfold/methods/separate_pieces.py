"""``Islands``: each connected component of the data (a piece) embedded by itself, and laid out side by side."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .. import neighbors
from .._runtime.ownership import freeze
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Interval
from ..data.places import find_places
from ..distances import Metric
from . import parameters
from .base import SpectralEstimator, Storable, Transformer
from .declaration import estimator
from .isomap import Isomap
from .rows import validate_rows

ROOM = 1.25  # distance between centres, in units of the sum of two radii
LANDMARKS_FROM = 2000  # rows: a larger piece is embedded by Isomap with landmarks
PIECE_LANDMARKS = 500  # landmarks of Isomap for such a piece


@runtime_checkable
class PieceMethod(Protocol):
    """A transformer that can be fitted: one of ours, or of scikit-learn."""

    def fit_transform(self, X: Array) -> Array: ...

    def transform(self, X: Array) -> Array: ...


@estimator
class Islands(Storable, Transformer):
    """Embed each connected piece of the data by itself, and lay the pieces out side by side.

    Pieces are the components of the graph of ``n_neighbors`` nearest neighbours. An embedding of all of them at once
    uses its first coordinates to separate them; ``Islands`` gives each piece all coordinates. The distances between the
    centres of the pieces are those in the data, as well as ``n_components`` coordinates allow, enlarged until no two
    pieces overlap. A new row belongs to the piece of its nearest training row.

    Parameters
    ----------
    n_components : int
    method : estimator, optional
        The estimator that embeds each piece, with ``fit_transform`` and ``transform``; None is :class:`outfold.Isomap`.
    n_neighbors : int
        Neighbours in the graph whose components are the pieces. Too few tear sparse curves, too many join separate
        pieces.
    smallest : float
        A component with less than this share of the rows is no piece: its rows belong to the nearest piece.
    n_jobs : int or None

    Attributes
    ----------
    pieces_ : list of fitted estimators
    centres_ : array of shape (pieces, n_components)
    labels_ : array of shape (n_samples,), the piece of each training row

    Examples
    --------
    >>> from outfold.datasets import circle
    >>> X = circle(100, random_state=0)
    >>> model = Islands().fit(np.vstack([X, X + 9]))
    >>> len(model.pieces_), model.transform(X).shape
    (2, (100, 2))
    """

    n_components: Annotated[int, Interval(1)] = field(default=2, kw_only=False)
    method: PieceMethod | None = None
    n_neighbors: Annotated[int, Interval(1)] = 15
    smallest: Annotated[float, Interval(0, 1)] = 0.02
    n_jobs: int | None = None
    _stored: ClassVar[dict[str, str]] = {
        "rows_": "[i]; optional; whole",
        "search_": "search",
        "_label": "[i]; whole",
        "pieces_": "estimators",
        "origins_": "[p c]",
        "centres_": "[p c]",
        "labels_": "[r]; optional; whole; rows",
    }

    def fit(self, X: Data, y: object = None) -> Self:
        """Find the connected components of the data, and embed each."""
        parameters.check(self)
        columns, k = int(self.n_components), int(self.n_neighbors)
        X = np.asarray(validate_rows(self, X, reset=True, least=2, sparse=False), dtype=float)
        runner = parameters.threads(self.n_jobs)
        if self.method is not None and (isinstance(self.method, type) or not isinstance(self.method, PieceMethod)):
            raise ValueError(
                f"method={parameters.show_value(self.method)} must be None or an estimator with fit_transform, "
                "transform and n_components."
            )
        piece = _pieces(X, k, runner)
        sizes = np.bincount(piece)
        large = np.flatnonzero(sizes >= max(self.smallest * len(X), 2 * columns + 2))
        if len(large) == 0:
            large = np.array([sizes.argmax()])
        self.rows_ = np.flatnonzero(np.isin(piece, large))
        self.search_ = neighbors.build(Metric().fit(X[self.rows_]), "auto")
        self._label = np.searchsorted(large, piece[self.rows_])
        self.pieces_, places = [], []
        for number in range(len(large)):
            part = X[self.rows_[self._label == number]]
            model = clone(self._method(part)).set_params(n_components=columns)
            places.append(np.asarray(model.fit_transform(part)))
            self.pieces_.append(model)
        middles = np.array([X[self.rows_[self._label == number]].mean(axis=0) for number in range(len(large))])
        self.origins_ = np.array([p.mean(axis=0) for p in places])
        radii = np.array([np.linalg.norm(p - p.mean(axis=0), axis=1).max() for p in places])
        self.centres_ = _layout(middles, radii, columns)
        self.labels_ = self._belongs(X, runner)
        self._n_features_out = columns
        freeze(self)
        return self

    def _method(self, part: Array) -> PieceMethod:
        if self.method is not None:
            return self.method
        places = find_places(part)
        landmarks = PIECE_LANDMARKS if len(part) > LANDMARKS_FROM else None
        k = max(1, min(self.n_neighbors, len(part if places is None else places.first) - 1))
        return Isomap(n_neighbors=k, landmarks=landmarks, components="join", random_state=0, n_jobs=self.n_jobs)

    def transform(self, X: Data) -> Array:
        """Return each row in the coordinates of its piece, moved to the centre of that piece."""
        check_is_fitted(self)
        X = np.asarray(validate_rows(self, X, reset=False, sparse=False), dtype=float)
        label = self._belongs(X, Threads(self.n_jobs))
        found = np.empty((len(X), len(self.centres_[0])))
        for number in np.unique(label):
            mine = label == number
            found[mine] = embed_quietly(self.pieces_[number], X[mine]) - self.origins_[number] + self.centres_[number]
        return found

    def _belongs(self, X: Array, runner: Threads) -> Array:
        if len(self.pieces_) == 1:
            return np.zeros(len(X), dtype=int)
        lists = self.search_.closest(X, 1, runner)
        return self._label[lists.index[lists.ptr[:-1]]]


def embed_quietly(model: PieceMethod, X: Array) -> Array:
    """Return ``transform(X)`` of any transformer; those of Outfold do not warn of rows outside the data."""
    if isinstance(model, SpectralEstimator):
        embedding: Array = model.transform(X, on_far="keep")
        return embedding
    return model.transform(X)


def _pieces(X: Array, k: int, runner: Threads) -> Array:
    """Return the component of each row in the graph of the k nearest neighbours; equal rows count as one."""
    places = find_places(X)
    points = X if places is None else X[places.first]
    k = min(k, len(points) - 1) + 1
    lists = neighbors.build(Metric().fit(points), "auto").closest(points, k, runner).nearest(k)
    graph = csr_array((np.ones(len(lists.index)), lists.index, lists.ptr), shape=(len(points), len(points)))
    labels: Array = connected_components(graph, directed=False)[1]
    return labels if places is None else labels[places.member]


def _layout(middles: Array, radii: Array, columns: int) -> Array:
    """Return centres with about the distances of ``middles``, enlarged until balls of the radii are disjoint."""
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
    for _ in range(100):  # separate centres that coincide by noise; the scaling below makes room
        apart = cdist(places, places)[pairs]
        if (apart > 0).all():
            break
        places = places + 1e-3 * radii.mean() * np.random.default_rng(0).normal(size=places.shape)
    scaled: Array = places * (reach[pairs] / apart).max()
    return scaled
