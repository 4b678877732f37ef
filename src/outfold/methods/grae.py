"""Geometry regularised autoencoders: networks whose bottleneck follows an embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._runtime.ownership import own
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..engine.fit import check_points
from ..engine.inverse import InverseModel
from ..extensions.alignment import Alignment
from ..neural import training
from ..neural.extension import network, spacing, split_held_out
from ..neural.network import ACTIVATIONS, Standardization
from . import parameters
from .network_base import NetworkEstimator
from .separate_pieces import Islands, embed_quietly

SHARED_FRACTION = 0.2  # share of a subsample that is common to all subsamples
TRAINING_ROWS, EPOCH_RANGE = 300_000, (5, 400)  # rows read by all epochs together; the fewest and the most epochs
SMALL_BATCH, LARGE_BATCH, LARGE_BATCH_FROM = 64, 256, 10_000  # batch sizes up to and beyond LARGE_BATCH_FROM rows


@dataclass(frozen=True)
class GraeReport:
    """The report of a fit of GRAE."""

    method: str
    n_samples: int
    n_features: int
    n_components: int
    target: str
    parts: int  # subsamples the target was computed on
    iterations: int
    extension_gap: float  # largest |transform - target| over the training rows
    reconstruction: float  # mean squared error per feature, over the training rows
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
    """Geometry regularised autoencoder: an encoder and a decoder, with coordinates that follow an embedding.

    With e the target's embedding, z = encode(x), features and coordinates in units of their common standard
    deviation, the loss is::

        mean |x - decode(z)|^2 + lambda mean |z - e|^2 + mu/2 sum |W|^2

    with means over rows and columns (Duque, Morin, Wolf and Moon, 2022). lambda = 0 is a plain autoencoder. Training
    needs PyTorch: ``pip install "outfold[neural]"``; a trained model needs neither it nor the training rows, of which
    at most 2000 are stored for ``trust``.

    Parameters
    ----------
    n_components : int
        How many coordinates; also passed to the target if it has such a parameter.
    target : estimator, array of shape (n_samples, n_components) or None
        What the coordinates follow: any estimator with ``fit_transform`` (it is cloned), a fitted one (its
        ``transform`` is used as it is), or the coordinates themselves. None is
        :class:`outfold.methods.Islands`: Isomap of each connected component of the data by itself.
    weight : float
        lambda.
    relax : float in (0, 1]
        The share of lambda that remains at the end of training; lambda falls geometrically.
    hidden : sequence of int
        Widths of the encoder's hidden layers; the decoder has them in reverse.
    activation : "sine", "relu", "elu", "tanh" or "sigmoid"
        A decoder has few inputs and must separate near points, which sines learn sooner (Sitzmann et al., 2020).
    weight_decay : float
        mu.
    target_rows : int
        If there are more rows, the target is fitted to a random subsample of ``target_rows`` rows, and its
        ``transform`` embeds the others. A target without ``transform`` is computed on several subsamples that have a
        fifth of their rows in common; over the common rows, each is aligned to the first.
    epochs : int, optional
        Epochs of Adam; None: as many as read 300,000 rows in all, between 5 and 400.
    batch : int, optional
        Rows per step; None: 64, or 256 if there are more than 10,000 rows.
    rate : float
        The initial learning rate of Adam; it falls along a cosine.
    validation : float
        The share of the rows that is held out; training returns the parameters with the least loss on them. 0: none.
    patience : int
        Epochs without a smaller loss before training ends.
    tolerance : float
        The relative decrease that counts as a smaller loss.
    random_state : int, RandomState or None
        Seeds the target, first weights, batches, subsamples and held-out rows.
    device : "auto", "cpu", "cuda" or another of PyTorch's
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show the progress of steps that take longer than two seconds.

    Attributes
    ----------
    embedding_ : array, the target
    encoder_, decoder_ : networks as NumPy arrays
    history_ : dict of arrays, losses and their parts by epoch
    reconstruction_error_ : mean of ``|x - r(x)|^2`` over the training rows
    report_ : the report of the fit

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
        """Compute the target embedding, and train both networks.

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
        seed = parameters.seed(self.random_state)
        hidden = parameters.widths("hidden", self.hidden)
        columns = parameters.count("n_components", self.n_components)
        weight = parameters.number("weight", self.weight, low=0.0)
        relax = parameters.number("relax", self.relax, low=0.0, high=1.0, open_low=True)
        decay = parameters.number("weight_decay", self.weight_decay, low=0.0)
        share = parameters.number("validation", self.validation, low=0.0, high=0.9)
        most = parameters.count("target_rows", self.target_rows, low=10)
        parameters.one_of("activation", self.activation, tuple(ACTIVATIONS))
        self._plan(seed, rows=1)  # refuses invalid parameters before the rows are read
        training.library()
        X = self._validate(X, reset=True)
        plan = self._plan(seed, rows=len(X))
        rows, runner = own(X), self._runner()
        check_points(rows)
        if weight == 0:
            # a plain autoencoder has no target: random values set the scale of the coordinates
            embedding, parts = np.random.default_rng([seed, 4]).normal(size=(len(rows), columns)), 0
        else:
            embedding, parts = self._target(rows, columns, most, seed)
        measure = np.ones(len(rows))
        source, middle = (Standardization.of(values, measure, common=True) for values in (rows, embedding))
        rng = np.random.default_rng(seed)
        layers = (rows.shape[1], *hidden, columns)
        start = [
            training.initial(sizes, self.activation, spacing(values, runner), rng)
            for sizes, values in ((layers, source(rows)), (layers[::-1], middle(embedding)))
        ]
        held = split_held_out(np.arange(len(rows)), share, rng)
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

    def _plan(self, seed: int, rows: int) -> training.Schedule:
        epochs = training.passes(TRAINING_ROWS, rows, *EPOCH_RANGE) if self.epochs is None else self.epochs
        batch = self.batch if self.batch is not None else SMALL_BATCH if rows <= LARGE_BATCH_FROM else LARGE_BATCH
        return training.Schedule(
            "adam",
            parameters.count("epochs", epochs),
            parameters.count("batch", batch),
            parameters.number("rate", self.rate, low=0.0, open_low=True),
            parameters.count("patience", self.patience),
            parameters.number("tolerance", self.tolerance, low=0.0),
            seed,
            self.device,
        )

    def _settle(self, rows: Array, places: Array, embedding: Array, decoder: Any, parts: int, runner: Threads) -> None:
        """Store the decoder, the reconstruction error and the report."""
        squares = np.square(decoder.embed(places, runner) - rows).sum(axis=1)
        self.reconstruction_error_ = float(squares.mean())
        spread = np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()
        error = np.sqrt(self.reconstruction_error_ / spread)
        self._way_back = InverseModel(decoder, np.ones(places.shape[1]), float(error), "GRAE", ())
        told = "none" if not parts else type(self.target).__name__ if self.target is not None else "Islands"
        self.report_ = GraeReport(
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
        """Return the target embedding of the rows, and the number of subsamples it was computed on."""
        target = Islands(n_jobs=self.n_jobs) if self.target is None else self.target
        if not hasattr(target, "fit_transform"):
            return _positions(target, len(rows), columns), 1
        if _is_fitted(target):
            return _positions(embed_quietly(target, rows), len(rows), columns), 1
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
        return _positions(embed_quietly(fresh().fit(rows[chosen]), rows), len(rows), columns), 1

    def score(self, X: Any, y: Any = None) -> float:
        """Return -(mean squared error) per feature of ``reconstruct(X)``: for grid searches.

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
    """Return the target embedding as an array of shape (rows, columns), checked."""
    found = np.array(values, dtype=float)
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
    """Return an embedding by subsamples, each aligned to the first over their common rows, and their number."""
    order = rng.permutation(len(rows))
    shared = max(2, int(SHARED_FRACTION * most))
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
