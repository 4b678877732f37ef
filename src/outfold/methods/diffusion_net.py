"""Diffusion Nets: a network that learns a spectral embedding, and another that learns its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .. import landmarks
from .._runtime.ownership import own
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Weights
from ..data.inputs import read_weights
from ..data.sources import InMemory
from ..data.weights import sample_measure
from ..engine.fit import check_points
from ..engine.inverse import InverseModel
from ..engine.model import ExtendedModel, SpectralModel
from ..extensions.samples import Samples
from ..neural import Net, training
from ..neural.network import Standardization
from . import parameters
from .base import SpectralEstimator
from .declaration import estimator
from .diffusion_maps import DiffusionMaps
from .network_base import NetworkEstimator
from .parameters import Components, ExtensionChoice, Specification


@estimator
class DiffusionNet(NetworkEstimator):
    """Diffusion Nets: an encoder that learns a spectral embedding, and a decoder from coordinates back to features.

    With y the embedding by ``spectral`` and o the encoder's outputs, each coordinate in units of its standard
    deviation, the loss is::

        1/(2N) sum_i |o_i - y_i|^2 + mu/2 sum |W|^2 + eta/(2N) sum_j |(P - lambda_j) o_j|^2.

    The decoder has the same loss without the last term, from the encoder's outputs to features (Mishne, Shaham,
    Cloninger and Cohen, 2017). ``transform`` is the encoder: it needs neither PyTorch nor the training rows, of which
    at most 2000 are stored for ``trust``. Training needs PyTorch: ``pip install "outfold[neural]"``.

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        As in the spectral method; it replaces that method's own value.
    spectral : a spectral method, optional
        The method whose embedding is learnt; None is :class:`DiffusionMaps`. It is cloned, not changed.
    activation : "relu", "elu", "tanh", "sigmoid" or "sine"
    weight_decay : float
        mu. scikit-learn's MLPRegressor has ``alpha/(2N) sum |W|^2`` beside ``1/(2Nd) sum |o - y|^2``, with d outputs:
        its alpha corresponds to mu = alpha d / N, since coordinates have standard deviation 1.
    eigen_penalty : float
        eta: the weight of the penalty that makes outputs eigenvectors of the Markov matrix P between the anchors. Only
        for methods that have one: DiffusionMaps and LaplacianEigenmaps (random walk).
    inverse : "net", None or another extension
        The decoder; None trains none, if you need ``transform`` only.
    solver : "auto", "lbfgs" or "adam"
        "lbfgs" takes all rows at once, in double precision; "adam" batches of them, in single precision, with a
        row's neighbours for the eigenvector term. "auto" is "lbfgs" up to 3000 rows.
    max_iter : int, optional
        Iterations of L-BFGS (None: 500) or epochs of Adam (None: as many as see 2,000,000 rows in all, between 10 and
        200).
    random_state : int, RandomState or None
        Seeds the spectral method, first weights, batches and held-out rows.

    Attributes
    ----------
    embedding_ : array, the spectral embedding of the training rows
    spectral_ : the fitted spectral method; only ``score`` uses it. If rows have copies or weights, it is fitted to the
        distinct rows with their joint weights, in an order of its own: training would magnify the rounding of sums
    encoder_, decoder_ : networks as NumPy arrays
    history_ : dict of arrays, losses and their parts by iteration; ``decoder_history_`` is that of the decoder
    reconstruction_error_ : mean of ``|x - r(x)|^2`` over the training rows
    report_ : the report of the spectral fit; ``extension_gap`` is the largest ``|transform - embedding_|``

    Examples
    --------
    >>> from outfold.datasets import circle
    >>> X = circle(200, random_state=0)
    >>> net = DiffusionNet(hidden=(20,), max_iter=50, random_state=0).fit(X)
    >>> net.transform(X[:3]).shape, net.inverse_transform(net.transform(X[:3])).shape
    ((3, 2), (3, 2))
    """

    n_components: Components = field(default=2, kw_only=False)
    spectral: SpectralEstimator | None = None
    hidden: Sequence[int] = (100, 100)  # these are checked as parameters of `Net`
    activation: str = "relu"
    weight_decay: float = 1e-6
    eigen_penalty: float = 0.0
    inverse: ExtensionChoice | None = "net"
    solver: str = "auto"
    max_iter: int | None = None

    _stored: ClassVar[dict[str, str]] = {
        "spectral_": "estimator; optional; rows",
        "decoder_history_": "history; optional",
    }

    # -- fitting ---------------------------------------------------------------------------

    def _fit(self, X: Data, sample_weight: Weights) -> None:
        seed = parameters.seed(self.random_state)
        encoder = self._net(seed)
        inverse = None if self.inverse is None else parameters.extension(self.inverse, None, name="inverse")
        method = self._method(seed)
        training.library()
        X = self._validate(X, reset=True)
        runner = self._runner()
        rows, measure = own(X), sample_measure(read_weights("sample_weight", sample_weight, len(X)), len(X))
        points, mass = _merge_copies(rows, measure)
        check_points(points)
        method._fit(points, mass)  # `fit` raises its warnings from the report
        self.spectral_ = method
        targets = np.asarray(self.spectral_.embedding_, dtype=float)
        model = self.spectral_.model_
        assert isinstance(model, SpectralModel | ExtendedModel)
        network, self.history_ = encoder.learn(Samples.of(points, targets, mass, None, model), runner)
        places = self._adopt_network(network, points, mass, runner)
        embedding = targets if points is rows else np.asarray(method.transform(rows, on_far="keep"), dtype=float)
        self.embedding_ = embedding.astype(X.dtype, copy=False)
        self.eigenvalues_ = self.spectral_.eigenvalues_
        self.report_ = replace(
            self.spectral_.report_,
            method="DiffusionNet",
            n_samples=len(rows),
            extension=str(encoder),
            extension_gap=float(np.abs(places - targets).max()),
            amplification=1.0,
        )
        self._learn_back(inverse, Samples.of(places, points, mass), encoder, runner)

    def _net(self, seed: int) -> Net:
        """Return the specification of the encoder, checked."""
        shared = ("hidden", "activation", "weight_decay", "eigen_penalty", "solver", "max_iter", "device")
        chosen = {name: getattr(self, name) for name in shared}
        return parameters.net(Net(**chosen, training=self._training(), random_state=seed), type(self).__name__)

    def _method(self, seed: int) -> SpectralEstimator:
        """Return an unfitted clone of the spectral method, with ``n_components`` of this estimator."""
        method = DiffusionMaps() if self.spectral is None else self.spectral
        if not isinstance(method, SpectralEstimator) or isinstance(method, NetworkEstimator):
            raise ValueError(f"spectral={method!r} must be a spectral method of outfold, such as DiffusionMaps().")
        known = method.get_params(deep=False)
        if "n_components" not in known:
            raise ValueError(f"{type(method).__name__} has no n_components: take LaplacianEigenmaps instead.")
        given = method._precomputed_parameter()
        if given:
            raise ValueError(f"spectral: {given}='precomputed' has no features for a network to learn from.")
        seeded = {} if known.get("random_state") is not None else {"random_state": seed}
        fresh: SpectralEstimator = clone(method)
        return fresh.set_params(
            n_components=self.n_components, extension="nystrom", n_jobs=self.n_jobs, verbose=self.verbose, **seeded
        )

    def _learn_back(self, spec: Specification | None, known: Samples, encoder: Net, runner: Threads) -> None:
        """Fit the decoder from coordinates to features, and measure ``reconstruction_error_``."""
        for name in ("_way_back", "decoder_history_", "reconstruction_error_"):
            self.__dict__.pop(name, None)
        if spec is None:
            return
        share = known.measure / known.measure.sum()
        if not isinstance(spec, Net):  # it may interpolate the training rows: use the held-out error
            self._way_back = InverseModel.of(Samples.of(known.values, known.points, known.measure), spec, runner)
            total = float(share @ np.square(known.values - share @ known.values).sum(axis=1))
            self.reconstruction_error_ = self._way_back.error**2 * total
            return
        if self.inverse == "net":
            spec = replace(encoder, hidden=encoder.hidden[::-1], eigen_penalty=0.0)
        scale = Standardization.of(known.points, known.measure, common=False).spread
        decoder, self.decoder_history_ = spec.learn(replace(known, points=known.points / scale), runner)
        last = self.decoder_history_.get("held_out", 2 * self.decoder_history_["fit"])
        error = float(np.sqrt(np.min(last, initial=np.inf) / known.values.shape[1]))
        self._way_back = InverseModel(model=decoder, scale=scale, error=error, extension=spec, candidates=())
        squares = np.square(self._way_back.embed(known.points, runner) - known.values).sum(axis=1)
        self.reconstruction_error_ = float(share @ squares)

    # -- how good it is --------------------------------------------------------------------

    def score(self, X: Data, y: object = None) -> float:
        """Return -(mean squared error) of ``transform(X)`` against the spectral method's extension: for grid searches.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : ignored
        """
        check_is_fitted(self)
        Z = self._validate(X, reset=False)
        runner = self._runner()
        left = self.model_.embed(Z, runner) - self.spectral_.model_.embed(Z, runner)
        return -float(np.square(left).mean())


def _merge_copies(rows: Array, measure: Array) -> tuple[Array, Array]:
    """Return the distinct rows of positive weight and their joint weights; the rows themselves if all weigh 1.

    They are in the order of their content, so that training sees the same numbers for weights and for repeated rows.
    """
    found = landmarks.Candidates.of(InMemory(rows), measure)
    if found is not None:
        return rows[found.index], found.measure
    counted = measure > 0
    return (rows, measure) if counted.all() else (rows[counted], measure[counted])
