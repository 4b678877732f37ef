"""What estimators over networks share: an encoder, a way back, and a bounded sample that says where the data is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import _resolve, neighbors
from .._estimator import SpectralEstimator
from ..distances import Metric, bounded
from ..extensions import Known, by_blocks
from ..runners import Threads
from ..trust import Nearness, Reference, Trust
from .networks import Network

Array = NDArray[Any]

SAMPLE = 2000  # training rows that are kept, to tell what lies outside the data


@dataclass(frozen=True)
class Sentinel:
    """Some of the training rows, and how far from them is far."""

    known: Known
    search: Any
    nearness: Nearness
    reference: Reference

    @classmethod
    def of(cls, known: Known, runner: Threads) -> Sentinel:
        """A random part of the rows, with where the encoder puts them."""
        known = known.part(known.centres(SAMPLE))
        search = neighbors.build(Metric().fit(known.points), "auto")
        k = min(2, len(known.points))
        nearness, reference = Nearness.of(search.closest(known.points, k, runner).kth(k), known.measure)
        return cls(known, search, nearness, reference)

    def look(self, Z: Array, runner: Threads) -> tuple[Array, Array]:
        """The nearest row of the sample, and the squared distance to it."""

        def of(points: Array) -> Array:
            lists = self.search.closest(bounded(points), 1, Threads(1))
            first = lists.ptr[:-1]
            return np.column_stack([lists.index[first], lists.squared[first]])

        found = by_blocks(of, Z, 2, neighbors.row_entries(self.search), runner)
        return found[:, 0].astype(int), found[:, 1]


@dataclass(frozen=True)
class NetworkModel:
    """An encoder, and who says how far to believe it."""

    encoder: Network
    sentinel: Sentinel

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> Trust:
        return self.look(Z, runner)[1]

    def look(self, Z: Array, runner: Threads) -> tuple[Array, Trust]:
        """Embedding and evidence."""
        values = self.encoder.embed(Z, runner)
        _, squared = self.sentinel.look(Z, runner)
        beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(beyond):
            values[beyond] = self.nearest(np.asarray(Z)[beyond])
        return values, self.sentinel.reference.judge(self.sentinel.nearness.log_mass(squared))

    def nearest(self, Z: Array) -> Array:
        """Where the nearest row of the sample is."""
        return self.sentinel.known.values[self.sentinel.look(Z, Threads(1))[0]]


class NetworkEstimator(SpectralEstimator):
    """The contract of the spectral methods, for a model that is a network."""

    model_: NetworkModel
    report_: Any
    history_: dict[str, Array]
    reconstruction_error_: float

    def _recipe(self) -> Any:
        raise ValueError(
            f"{type(self).__name__} is a network, without the stages of a spectral method to plan, tune or expand: how "
            "long it takes is found out by training. Ask the method it follows instead."
        )

    def calibrate(self, X: Any = None, **options: Any) -> Any:
        """Not for networks, which keep no training rows to hold out: see ``report_`` and ``history_`` instead."""
        raise ValueError(
            f"{type(self).__name__} keeps no training rows to hold out. Calibrate the spectral method with "
            "extension='net' instead; trust(X) tells support, distance, residual and disagreement."
        )

    def _adopt_network(self, encoder: Network, points: Array, measure: Array, runner: Threads) -> Array:
        """Take an encoder and return where it puts the points."""
        self.__dict__.pop("_witness", None)
        places = encoder.embed(points, runner)
        sentinel = Sentinel.of(Known.of(points, places, measure), runner)
        self.model_ = NetworkModel(encoder, sentinel)
        self._n_features_out = places.shape[1]
        return places

    def _known(self) -> Known:
        return self.model_.sentinel.known

    @property
    def n_iter_(self) -> int:
        """Iterations of the encoder's training."""
        return len(self.history_["loss"])

    @property
    def encoder_(self) -> Network:
        """The network from features to coordinates."""
        return self.model_.encoder

    @property
    def decoder_(self) -> Any:
        """The network from coordinates to features."""
        return self._learnt_back().model

    def _learnt_back(self) -> Any:
        check_is_fitted(self)
        if not hasattr(self, "_way_back"):
            raise ValueError("inverse=None: no way back was learnt. Fit with inverse='net'.")
        return self._way_back

    # -- there and back --------------------------------------------------------------------

    def reconstruct(self, X: Any) -> Array:
        """r(x) = decode(encode(x)): the rows without what the coordinates do not hold, such as noise.

        Parameters
        ----------
        X : array of shape (n, n_features)
        """
        self._learnt_back()
        Z = self._validate(X, reset=False)
        runner = self._runner()
        return self._learnt_back().embed(self.model_.embed(Z, runner), runner).astype(Z.dtype, copy=False)

    def is_outlier(self, X: Any, rho: float = 10.0) -> Array:
        """Whether ``|x - r(x)|^2`` >= rho times its mean over the training rows (``reconstruction_error_``).

        Parameters
        ----------
        X : array of shape (n, n_features)
        rho : float > 0
            How many times the mean is too much.
        """
        rho = _resolve.number("rho", rho, low=0.0, open_low=True)
        left = np.asarray(self.reconstruct(X), dtype=float) - self._validate(X, reset=False)
        return np.square(left).sum(axis=1) >= rho * self.reconstruction_error_

    def sample(self, n: int = 100, *, spread: float = 1.0, random_state: Any = None) -> Array:
        """New rows like the training rows: coordinates drawn around those of training rows, decoded.

        z = z_i + s (z_k - z_i), i a row of the kept sample, k one of its ``NEAR`` nearest there, s uniform in
        [0, spread]: between rows where spread <= 1.

        Parameters
        ----------
        n : int
        spread : float >= 0
        random_state : int, RandomState or None
        """
        n, spread = _resolve.count("n", n), _resolve.number("spread", spread, low=0.0)
        way_back = self._learnt_back()
        places = self._known().values
        return way_back.embed(_between(places, n, spread, random_state), self._runner())


NEAR = 5


def _between(places: Array, n: int, spread: float, random_state: Any) -> Array:
    """Places on the way from some to near ones."""
    rng = np.random.default_rng(_resolve.seed(random_state))
    scale = places.std(axis=0)
    search = neighbors.build(Metric().fit(places / np.where(scale > 0, scale, 1.0)), "auto")
    chosen = rng.integers(0, len(places), n)
    count = min(NEAR + 1, len(places))
    lists = search.closest(search.distances.anchors[chosen], count, Threads(1))
    other = lists.index[lists.ptr[:-1] + rng.integers(min(1, count - 1), count, n)]
    return places[chosen] + spread * rng.uniform(size=(n, 1)) * (places[other] - places[chosen])
