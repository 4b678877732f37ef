"""Geometry regularised autoencoders: a bottleneck that follows an embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .. import _resolve
from .._engine import check_points
from ..inverse import WayBack
from ..neural import training
from ..neural.estimators import NetworkEstimator
from ..neural.nets import held_out, network, spacing
from ..neural.networks import ACTIVATIONS, Scaling
from ..quality import Alignment
from ..runners import Threads
from .islands import Islands, embedded

Array = NDArray[Any]

SHARED = 0.2  # part of a subsample that all subsamples have in common
SEEN, EPOCHS = 300_000, (5, 400)  # rows that all epochs see together, with the fewest and the most epochs
BATCH, LARGE_BATCH, LARGE = 64, 256, 10_000  # of fewer and of more rows than LARGE


@dataclass(frozen=True)
class Encoded:
    """What a fit of GRAE says about itself."""

    method: str
    n_samples: int
    n_features: int
    n_components: int
    target: str
    parts: int  # subsamples the target was computed on
    iterations: int
    extension_gap: float  # largest |transform - target| over the training rows
    reconstruction: float  # mean squared error a feature, training rows
    amplification: float = 1.0
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = f", in {self.parts} parts" if self.parts > 1 else ""
        return "\n".join(
            [
                self.method,
                f"  data            {self.n_samples} rows x {self.n_features} features",
                f"  target          {self.target}{parts}; gap {self.extension_gap:.2g}",
                f"  training        {self.iterations} epochs",
                f"  reconstruction  {self.reconstruction:.3g} mean squared error a feature",
            ]
        )


class GRAE(NetworkEstimator):
    """Geometry regularised autoencoder: there and back through coordinates that follow an embedding.

    With e the target's embedding, z = encode(x), features and coordinates in units of their common spread, the loss
    is::

        mean |x - decode(z)|^2 + lambda mean |z - e|^2 + mu/2 sum |W|^2

    with means over rows and columns (Duque, Morin, Wolf and Moon, 2022). lambda = 0 is a plain autoencoder. Training
    needs PyTorch: ``pip install "outfold[neural]"``; a trained model needs neither it nor the training rows, of which
    at most 2000 are kept for ``trust``.

    Parameters
    ----------
    n_components : int
        Coordinates; of the target too if it has such a parameter.
    target : estimator, array of shape (n_samples, n_components) or None
        What the coordinates follow: any estimator with ``fit_transform`` (it is cloned), a fitted one (its
        ``transform`` is used as it is), or the positions themselves. None is
        :class:`outfold.methods.islands.Islands`: Isomap, of each connected piece of the data by itself.
    weight : float
        lambda.
    relax : float in (0, 1]
        The part of lambda that is left at the end of training; it falls geometrically.
    hidden : sequence of int
        Widths of the encoder's hidden layers; the decoder has them in reverse.
    activation : "sine", "relu", "elu", "tanh" or "sigmoid"
        A decoder has few inputs and must tell near places apart, which sines learn sooner (Sitzmann et al., 2020).
    weight_decay : float
        mu.
    target_rows : int
        Of more rows the target is fitted to a random subsample of so many, and puts the others where its
        ``transform`` does. One that has none is computed on subsamples that have a fifth of their rows in common: over
        those each is turned onto the first.
    epochs : int, optional
        Of Adam; None: as many as see 300,000 rows in all, between 5 and 400.
    batch : int, optional
        Rows a step; None: 64, or 256 of more than 10,000 rows.
    rate : float
        Of Adam, at the beginning; it falls along a cosine.
    validation : float
        The part of the rows that is held out: the parameters with the least loss there are kept. 0: none.
    patience : int
        Epochs without a smaller loss before training ends.
    tolerance : float
        The part by which a loss must be smaller.
    random_state : int, RandomState or None
        Seeds the target, first weights, batches, subsamples and held-out rows.
    device : "auto", "cpu", "cuda" or another of PyTorch's
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show progress for what takes longer than two seconds.

    Attributes
    ----------
    embedding_ : array, the target
    encoder_, decoder_ : networks as NumPy arrays
    history_ : dict of arrays, losses and their parts by epoch
    reconstruction_error_ : mean of ``|x - r(x)|^2`` over the training rows
    report_ : what a fit says about itself

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(200, random_state=0)
    >>> model = GRAE(hidden=(20,), epochs=5, random_state=0).fit(X)
    >>> model.transform(X[:3]).shape, model.inverse_transform(model.transform(X[:3])).shape
    ((3, 2), (3, 3))
    """

    inverse = None
    extension = None

    def __init__(
        self,
        n_components: int = 2,
        *,
        target: Any = None,
        weight: float = 100.0,
        relax: float = 1.0,
        hidden: Any = (400, 200, 100),
        activation: str = "sine",
        weight_decay: float = 0.0,
        target_rows: int = 10_000,
        epochs: int | None = None,
        batch: int | None = None,
        rate: float = 2e-3,
        validation: float = 0.1,
        patience: int = 50,
        tolerance: float = 1e-3,
        random_state: Any = None,
        device: str = "auto",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.target = target
        self.weight = weight
        self.relax = relax
        self.hidden = hidden
        self.activation = activation
        self.weight_decay = weight_decay
        self.target_rows = target_rows
        self.epochs = epochs
        self.batch = batch
        self.rate = rate
        self.validation = validation
        self.patience = patience
        self.tolerance = tolerance
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Find the target, and train.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : ignored
        """
        return super().fit(X, y)

    def fit_transform(self, X: Any, y: Any = None) -> Array:  # type: ignore[override]
        """Fit, then ``transform(X)``."""
        return self.fit(X, y).transform(X, on_far="keep")

    def _fit(self, X: Any, sample_weight: Any = None) -> None:
        seed = _resolve.seed(self.random_state)
        hidden = _resolve.widths("hidden", self.hidden)
        columns = _resolve.count("n_components", self.n_components)
        weight = _resolve.number("weight", self.weight, low=0.0)
        relax = _resolve.number("relax", self.relax, low=0.0, high=1.0, open_low=True)
        decay = _resolve.number("weight_decay", self.weight_decay, low=0.0)
        share = _resolve.number("validation", self.validation, low=0.0, high=0.9)
        most = _resolve.count("target_rows", self.target_rows, low=10)
        _resolve.one_of("activation", self.activation, tuple(ACTIVATIONS))
        self._plan(seed, rows=1)  # refuses what is wrong before rows are looked at
        training.library()
        X = self._validate(X, reset=True)
        plan = self._plan(seed, rows=len(X))
        rows, runner = np.ascontiguousarray(X, dtype=float), self._runner()
        check_points(rows)
        if weight == 0:
            embedding, parts = np.random.default_rng([seed, 4]).normal(size=(len(rows), columns)), 0  # for its scale
        else:
            embedding, parts = self._target(rows, columns, most, seed)
        measure = np.ones(len(rows))
        source, middle = (Scaling.of(values, measure, common=True) for values in (rows, embedding))
        rng = np.random.default_rng(seed)
        layers = (rows.shape[1], *hidden, columns)
        start = [
            training.initial(sizes, self.activation, spacing(values, runner), rng)
            for sizes, values in ((layers, source(rows)), (layers[::-1], middle(embedding)))
        ]
        held = held_out(np.arange(len(rows)), share, rng)
        depth = len(start[0])
        task = training.Autoencoder(
            source(rows), middle(embedding), held, self.activation, depth, weight, relax, decay, plan
        )
        trained = training.train(task, [*start[0], *start[1]], plan, runner)
        self.history_ = trained.history
        places = self._adopt_network(
            network(trained.parameters[:depth], self.activation, source, middle), rows, measure, runner
        )
        self.embedding_ = (places if weight == 0 else embedding).astype(X.dtype, copy=False)
        decoder = network(trained.parameters[depth:], self.activation, middle, source)
        self._settle(rows, places, embedding, decoder, parts, runner)

    def _plan(self, seed: int, rows: int) -> training.Plan:
        epochs = training.passes(SEEN, rows, *EPOCHS) if self.epochs is None else self.epochs
        batch = self.batch if self.batch is not None else BATCH if rows <= LARGE else LARGE_BATCH
        return training.Plan(
            "adam",
            _resolve.count("epochs", epochs),
            _resolve.count("batch", batch),
            _resolve.number("rate", self.rate, low=0.0, open_low=True),
            _resolve.count("patience", self.patience),
            _resolve.number("tolerance", self.tolerance, low=0.0),
            seed,
            self.device,
        )

    def _settle(self, rows: Array, places: Array, embedding: Array, decoder: Any, parts: int, runner: Threads) -> None:
        """Measure the way there and back."""
        squares = np.square(decoder.embed(places, runner) - rows).sum(axis=1)
        self.reconstruction_error_ = float(squares.mean())
        spread = np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()
        error = np.sqrt(self.reconstruction_error_ / spread)
        self._way_back = WayBack(decoder, np.ones(places.shape[1]), float(error), "GRAE", ())
        told = "none" if not parts else type(self.target).__name__ if self.target is not None else "Islands"
        self.report_ = Encoded(
            "GRAE",
            len(rows),
            rows.shape[1],
            places.shape[1],
            told,
            parts,
            len(self.history_["loss"]),
            float(np.abs(places - embedding).max()) if parts else 0.0,
            self.reconstruction_error_ / rows.shape[1],
        )

    # -- the target ------------------------------------------------------------------------

    def _target(self, rows: Array, columns: int, most: int, seed: int) -> tuple[Array, int]:
        """Where the target puts the rows, and on how many parts it was computed."""
        target = Islands(n_jobs=self.n_jobs) if self.target is None else self.target
        if not hasattr(target, "fit_transform"):
            return _positions(target, len(rows), columns), 1
        if _is_fitted(target):
            return _positions(embedded(target, rows), len(rows), columns), 1
        asked = {"n_components": columns, "random_state": seed, "n_jobs": self.n_jobs}
        known = target.get_params(deep=False)
        settings = {
            name: value
            for name, value in asked.items()
            if name in known and (name == "n_components" or known[name] is None)
        }
        fresh = lambda: clone(target).set_params(**settings)  # noqa: E731
        find = lambda part: _positions(fresh().fit_transform(part), len(part), columns)  # noqa: E731
        rng = np.random.default_rng([seed, 3])
        if len(rows) <= most:
            return find(rows), 1
        if not hasattr(target, "transform"):
            return _in_parts(rows, find, most, rng)
        chosen = np.sort(rng.choice(len(rows), most, replace=False))
        return _positions(embedded(fresh().fit(rows[chosen]), rows), len(rows), columns), 1

    def score(self, X: Any, y: Any = None) -> float:
        """-(mean squared error) a feature of ``reconstruct(X)``: for grid searches.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : ignored
        """
        left = np.asarray(self.reconstruct(X), dtype=float) - self._validate(X, reset=False)
        return -float(np.square(left).mean())


def _is_fitted(target: Any) -> bool:
    try:
        check_is_fitted(target)
    except (NotFittedError, TypeError):
        return False
    return hasattr(target, "transform")


def _positions(values: Any, rows: int, columns: int) -> Array:
    """A target's positions, checked."""
    found = np.asarray(values, dtype=float)
    if found.shape != (rows, columns):
        raise ValueError(
            f"The target has shape {found.shape}, but {rows} rows and n_components={columns} need ({rows}, {columns})."
        )
    if not np.isfinite(found).all():
        bad = (~np.isfinite(found)).any(axis=1)
        raise ValueError(
            f"{bad.sum()} of {rows} rows of the target have NaN or infinity (the first is row {bad.argmax()}). Leave "
            "them out of X and the target."
        )
    return found


def _in_parts(rows: Array, find: Any, most: int, rng: np.random.Generator) -> tuple[Array, int]:
    """Positions by subsamples: each is turned onto the first over the rows that all of them have."""
    order = rng.permutation(len(rows))
    shared = max(2, int(SHARED * most))
    common, rest = order[:shared], order[shared:]
    count = int(np.ceil(len(rest) / (most - shared)))
    found: Array | None = None
    for part in np.array_split(rest, count):
        index = np.concatenate([common, part])
        places = find(rows[index])
        if found is None:
            found = np.empty((len(rows), places.shape[1]))
            found[index] = places
        else:
            found[part] = Alignment.of(places[:shared], found[common])(places[shared:])
    assert found is not None
    return found, count
