"""The base of estimators that are networks: an encoder, an inverse, and a sample of the training rows for ``trust``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .. import neighbors
from .._runtime import ownership
from .._runtime.threads import Threads
from .._runtime.typing import Array, Axes, Data, Seed, Weights
from ..data.weights import measure_on
from ..distances import Metric, clip_entries
from ..engine import cross_fit
from ..engine.fit import Recipe
from ..engine.inverse import InverseModel
from ..extensions.alignment import Alignment
from ..extensions.calibration import Calibration, SecondOpinion
from ..extensions.domain import Domain, TrainingSample
from ..extensions.samples import SEED, FittedExtension, Model, Samples, by_blocks
from ..landmarks import AtMost
from ..neighbors import Search
from ..neural import Network, Training
from ..trust import Nearness, Reference, RowFacts, calibrated_judge
from . import parameters
from .base import SpectralEstimator
from .declaration import After, estimator

DOMAIN_ROWS = 2000  # training rows that a model stores, to flag rows outside the data


@dataclass(frozen=True)
class DomainGuard:
    """A sample of the training rows, and the distances from it that count as outside the data."""

    known: Annotated[Samples, Axes("n d c")]
    search: Annotated[Search, Axes("n d")]
    nearness: Nearness
    reference: Reference

    @classmethod
    def of(cls, known: Samples, runner: Threads) -> DomainGuard:
        """Sample at most DOMAIN_ROWS of the rows, with their embedding."""
        known = known.part(known.centres(DOMAIN_ROWS))
        search = neighbors.build(Metric().fit(known.points), "auto")
        k = min(2, len(known.points))
        nearness, reference = Nearness.of(search.closest(known.points, k, runner).kth(k), known.measure)
        return cls(known, search, nearness, reference)

    def look(self, Z: Array, runner: Threads) -> tuple[Array, Array]:
        """Return the number of the nearest row of the sample, and the squared distance to it."""

        def of(points: Array) -> Array:
            lists = self.search.closest(clip_entries(points), 1, Threads(1))
            first = lists.ptr[:-1]
            return np.column_stack([lists.index[first], lists.squared[first]])

        found = by_blocks(of, Z, 2, self.search.row_entries, runner)
        return found[:, 0].astype(int), found[:, 1]


@dataclass(frozen=True)
class NetworkModel(Model):
    """An encoder, and the guard that flags rows outside the data."""

    encoder: Annotated[Network, Axes("d c")]
    sentinel: Annotated[DomainGuard, Axes("d c")]

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> RowFacts:
        return self.look(Z, runner)[1]

    def look(self, Z: Array, runner: Threads) -> tuple[Array, RowFacts]:
        """Return embedding and facts; an embedding that overflows is replaced by that of the nearest sample row."""
        values = self.encoder.embed(Z, runner)
        _, squared = self.sentinel.look(Z, runner)
        beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(beyond):
            values[beyond] = self.nearest(np.asarray(Z)[beyond])
        return values, self.sentinel.reference.facts(self.sentinel.nearness.log_mass(squared))

    def nearest(self, Z: Array) -> Array:
        """Return the embedding of the nearest row of the sample."""
        return self.sentinel.known.values[self.sentinel.look(Z, Threads(1))[0]]


class NetworkAttributes(SpectralEstimator):
    """The attributes that training sets."""

    model_: NetworkModel
    report_: Any  # that of the spectral method, or of GRAE
    history_: dict[str, Array]
    reconstruction_error_: float


@estimator
class NetworkEstimator(NetworkAttributes):
    """The interface of the spectral methods, for a model that is a network.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the encoder's hidden layers; the decoder has them in reverse.
    training : Training of :mod:`outfold.neural`, optional
        Batches, learning rate, held-out rows and the end of training: ``Training(batch=64, rate=2e-3, validation=0.1,
        patience=50, tolerance=1e-3)``.
    device : "auto", "cpu", "cuda" or another of PyTorch's
    """

    training: Training | None = None
    device: Annotated[str, After("random_state")] = "auto"
    _stored: ClassVar[dict[str, str]] = {
        "model_": "NetworkModel; axes d c",
        "history_": "history",
        "eigenvalues_": "[c]; optional",
        "reconstruction_error_": "float; optional",
    }

    _refuses_sparse = (
        "the weights of a network are dense, one for each feature. Reduce the features first "
        "(sklearn.decomposition.TruncatedSVD), or pass X.toarray() if it fits in memory."
    )

    def _training(self) -> Training:
        """Return the options of training, checked."""
        found = Training() if self.training is None else self.training
        parameters.check_training(found)
        return found

    def _recipe(self) -> Recipe:
        raise ValueError(
            f"{type(self).__name__} is a network, without the stages of a spectral method to plan, tune or expand: how "
            "long it takes is found out by training. Ask the method it follows instead."
        )

    def calibrate(
        self,
        X: Data | None = None,
        *,
        sample_weight: Weights = None,
        folds: int = 5,
        rows: int = DOMAIN_ROWS,
        round_trip: bool = False,
    ) -> Self:
        """Estimate the errors from held-out rows; ``trust`` then judges by all facts and returns ``error``.

        Trains a network on the rows without each fold, and compares its embedding of the fold, aligned over the other
        rows, with that of this network. This takes ``folds`` trainings.

        Parameters
        ----------
        X : the training rows, or a sample of them, as in ``fit``
            None: the sample of training rows that the model stores, at most 2000.
        sample_weight : array, optional
            Weights of the rows of X, as in ``fit``.
        folds : int
        rows : int
            A random sample of ``rows`` rows is used if there are more.
        round_trip : bool
            Judge rows also by their distance to ``reconstruct(X)``.
        """
        check_is_fitted(self)
        folds, rows = parameters.count("folds", folds, low=2), parameters.count("rows", rows, low=20)
        if X is None and sample_weight is not None:
            raise ValueError("sample_weight belongs to the rows of X; without X those of the fit are used.")
        known = self.model_.sentinel.known
        points, measure = known.points, known.measure
        if X is not None:
            source = self._open_given_rows(X)
            drawn = AtMost(rows).select(source, measure_on(source, sample_weight), np.random.default_rng(SEED))
            points, measure = drawn.points, drawn.measure
        label = np.random.default_rng(SEED).permutation(len(points)) % folds
        target, runner = self.model_.embed(points, self._runner()), self._runner()
        parts = [label == fold for fold in range(folds)]
        held = [self._hold_out(points, measure, target, part, runner, round_trip) for part in parts]
        weight = np.concatenate([measure[part] for part in parts])
        judge = calibrated_judge([(facts, names) for facts, names, _ in held], weight)
        self.calibration_ = Calibration.of([(judge.judge(facts), errors) for facts, _, errors in held], judge)
        ownership.freeze(self.calibration_)
        return self

    def _hold_out(
        self, points: Array, measure: Array, target: Array, held: Array, runner: Threads, round_trip: bool
    ) -> tuple[RowFacts, tuple[str, ...], Array]:
        """Return facts, their names and errors of the rows ``held`` by a network that is trained on the others."""
        fold: Self = clone(self)
        fold._fit(points[~held], measure[~held])
        Z, embedding, facts = fold._embed_rows(points[held])
        domain = fold._domain()
        facts = fold._second_opinion().add(domain.add(facts, Z, runner), embedding, Z, runner)
        if round_trip:
            facts = cross_fit.add_round_trip(facts, Z, fold._inverse_model().embed(embedding, runner))
        motion = Alignment.of(fold.model_.embed(points[~held], runner), target[~held], rescale=False)
        return facts, domain.judge.names, np.linalg.norm(motion(embedding) - target[held], axis=1)

    def _find_domain(self) -> Domain:
        known = self.model_.sentinel.known
        return Domain.of(TrainingSample.of(known.points, known.measure), Metric(), self._runner())

    def _second_opinion(self) -> SecondOpinion:
        opinion = super()._second_opinion()
        assert opinion is not None  # there are features
        return opinion

    def _adopt_network(self, encoder: Network, points: Array, measure: Array, runner: Threads) -> Array:
        """Store an encoder with its sample, and return its embedding of the points."""
        for name in ("_witness", "calibration_"):  # caches of an earlier fit
            self.__dict__.pop(name, None)
        self._compared = {}
        places = encoder.embed(points, runner)
        sentinel = DomainGuard.of(Samples.of(points, places, measure), runner)
        self.model_ = NetworkModel(encoder, sentinel)
        self._n_features_out = places.shape[1]
        return places

    def _samples(self) -> Samples:
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
    def decoder_(self) -> FittedExtension:
        """The network from coordinates to features."""
        decoder: FittedExtension = self._inverse_model().model
        return decoder

    def _inverse_model(self) -> InverseModel:
        check_is_fitted(self)
        if not hasattr(self, "_way_back"):
            raise ValueError("inverse=None: no way back was learnt. Fit with inverse='net'.")
        return self._way_back

    # -- reconstruction --------------------------------------------------------------------

    def reconstruct(self, X: Data) -> Array:
        """Return r(x) = decode(encode(x)): the rows without what the coordinates do not represent, such as noise.

        Parameters
        ----------
        X : array of shape (n, n_features)
        """
        self._inverse_model()
        Z = self._validate(X, reset=False)
        runner = self._runner()
        return self._inverse_model().embed(self.model_.embed(Z, runner), runner).astype(Z.dtype, copy=False)

    def is_outlier(self, X: Data, rho: float = 10.0) -> Array:
        """Return whether ``|x - r(x)|^2`` >= rho times its mean over the training rows (``reconstruction_error_``).

        Parameters
        ----------
        X : array of shape (n, n_features)
        rho : float > 0
            A row is an outlier from this multiple of the mean.
        """
        rho = parameters.number("rho", rho, low=0.0, open_low=True)
        left = np.asarray(self.reconstruct(X), dtype=float) - self._validate(X, reset=False)
        outside: Array = np.square(left).sum(axis=1) >= rho * self.reconstruction_error_
        return outside

    def sample(self, n: int = 100, *, spread: float = 1.0, random_state: Seed = None) -> Array:
        """Return new rows like the training rows: coordinates drawn around those of training rows, decoded.

        z = z_i + s (z_k - z_i), with i a row of the stored sample, k one of its ``PARTNERS`` nearest rows there, and s
        uniform in [0, spread]. If spread <= 1, z lies between the two rows.

        Parameters
        ----------
        n : int
        spread : float >= 0
        random_state : int, RandomState or None
        """
        n, spread = parameters.count("n", n), parameters.number("spread", spread, low=0.0)
        way_back = self._inverse_model()
        places = self._samples().values
        return way_back.embed(_between(places, n, spread, random_state), self._runner())


PARTNERS = 5  # nearest rows that `sample` interpolates towards


def _between(places: Array, n: int, spread: float, random_state: Seed) -> Array:
    """Return ``n`` points on lines from random rows of ``places`` to near rows."""
    rng = np.random.default_rng(parameters.seed(random_state))
    scale = places.std(axis=0)
    search = neighbors.build(Metric().fit(places / np.where(scale > 0, scale, 1.0)), "auto")
    chosen = rng.integers(0, len(places), n)
    count = min(PARTNERS + 1, len(places))
    lists = search.closest(search.distances.anchors[chosen], count, Threads(1))
    other = lists.index[lists.ptr[:-1] + rng.integers(min(1, count - 1), count, n)]
    between: Array = places[chosen] + spread * rng.uniform(size=(n, 1)) * (places[other] - places[chosen])
    return between
