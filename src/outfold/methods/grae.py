"""Geometry regularised autoencoders: networks whose bottleneck follows an embedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._runtime.ownership import own
from .._runtime.threads import Threads
from .._runtime.typing import FREE, Array, Data, Interval, Options, Weights
from ..engine.fit import check_points
from ..engine.inverse import InverseModel
from ..extensions.alignment import Alignment
from ..neural import training
from ..neural.extension import network, spacing, split_held_out
from ..neural.network import ACTIVATIONS, Network, Standardization
from . import parameters
from .declaration import estimator
from .network_base import NetworkEstimator
from .separate_pieces import Islands, PieceMethod, embed_quietly

SHARED_FRACTION = 0.2  # share of a subsample that is common to all subsamples
TRAINING_ROWS, EPOCH_RANGE = 300_000, (5, 400)  # rows read by all epochs together; the fewest and the most epochs
SMALL_BATCH, LARGE_BATCH, LARGE_BATCH_FROM = 64, 256, 10_000  # batch sizes up to and beyond LARGE_BATCH_FROM rows
PATIENT_EPOCHS = 50  # default of `patience`


@runtime_checkable
class Embedding(Protocol):
    """An estimator that embeds the rows it is fitted to."""

    def fit_transform(self, X: Array) -> Array: ...


Target: TypeAlias = Embedding | ArrayLike | None


@dataclass(frozen=True, kw_only=True)
class GraeReport:
    """The report of a fit of GRAE."""

    method: str
    n_samples: int
    n_features: int
    n_components: int
    target: str
    parts: int  # subsamples the target was computed on
    iterations: int
    extension_gap: Annotated[float, FREE]  # largest |transform - target| over the training rows
    reconstruction: Annotated[float, FREE]  # mean squared error per feature, over the training rows
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


@estimator
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
    random_state : int, RandomState or None
        Seeds the target, first weights, batches, subsamples and held-out rows.

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

    n_components: Annotated[int, Interval(1)] = field(default=2, kw_only=False)
    target: Target = None
    weight: Annotated[float, Interval(0)] = 100.0
    relax: Annotated[float, Interval(0, 1, open_low=True)] = 1.0
    hidden: Annotated[Sequence[int], Interval(1)] = (400, 200, 100)
    activation: Annotated[str, Options(*ACTIVATIONS)] = "sine"
    weight_decay: Annotated[float, Interval(0)] = 0.0
    target_rows: Annotated[int, Interval(10)] = 10_000
    epochs: Annotated[int | None, Interval(1)] = None
    inverse = None  # no parameters: the decoder is the inverse
    extension = None

    # -- fitting ---------------------------------------------------------------------------

    _stored: ClassVar[dict[str, str]] = {"_way_back": "WayBack; axes d>c c>d", "reconstruction_error_": "float"}

    def fit(self, X: Data, y: object = None) -> Self:  # type: ignore[override]
        """Compute the target embedding, and train both networks.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : ignored
        """
        return super().fit(X, y)

    def fit_transform(self, X: Data, y: object = None) -> Array:  # type: ignore[override]
        """Fit, then ``transform(X)``."""
        embedding: Array = self.fit(X, y).transform(X, on_far="keep")
        return embedding

    def _fit(self, X: Data, sample_weight: Weights = None) -> None:
        seed = parameters.seed(self.random_state)
        parameters.check(self)
        validation = self._training().validation
        columns, weight = int(self.n_components), float(self.weight)
        training.library()
        X = self._validate(X, reset=True)
        plan = self._plan(seed, rows=len(X))
        rows, runner = own(X), self._runner()
        check_points(rows)
        if weight == 0:
            # a plain autoencoder has no target: random values set the scale of the coordinates
            embedding, parts = np.random.default_rng([seed, 4]).normal(size=(len(rows), columns)), 0
        else:
            embedding, parts = self._target(rows, columns, int(self.target_rows), seed)
        measure = np.ones(len(rows))
        source, middle = (Standardization.of(values, measure, common=True) for values in (rows, embedding))
        rng = np.random.default_rng(seed)
        layers = (rows.shape[1], *(int(width) for width in self.hidden), columns)
        start = [
            training.initial(sizes, self.activation, spacing(values, runner), rng)
            for sizes, values in ((layers, source(rows)), (layers[::-1], middle(embedding)))
        ]
        held = split_held_out(np.arange(len(rows)), validation, rng)
        depth = len(start[0])
        settings = self.activation, depth, weight, float(self.relax), float(self.weight_decay)
        task = training.Autoencoder(source(rows), middle(embedding), held, *settings, plan)
        trained = training.train(task, [*start[0], *start[1]], plan, runner)
        self.history_ = trained.history
        places = self._adopt_network(
            network(trained.parameters[:depth], self.activation, source, middle), rows, measure, runner
        )
        self.embedding_ = (places if weight == 0 else embedding).astype(X.dtype, copy=False)
        decoder = network(trained.parameters[depth:], self.activation, middle, source)
        self._settle(rows, places, embedding, decoder, parts, runner)

    def _plan(self, seed: int, rows: int) -> training.Schedule:
        options = self._training()
        return training.Schedule(
            solver="adam",
            iterations=self.epochs or training.passes(TRAINING_ROWS, rows, *EPOCH_RANGE),
            batch=options.batch or (SMALL_BATCH if rows <= LARGE_BATCH_FROM else LARGE_BATCH),
            rate=options.rate,
            patience=options.patience or PATIENT_EPOCHS,
            tolerance=options.tolerance,
            seed=seed,
            device=self.device,
        )

    def _settle(
        self, rows: Array, places: Array, embedding: Array, decoder: Network, parts: int, runner: Threads
    ) -> None:
        """Store the decoder, the reconstruction error and the report."""
        squares = np.square(decoder.embed(places, runner) - rows).sum(axis=1)
        self.reconstruction_error_ = float(squares.mean())
        spread = np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()
        error = np.sqrt(self.reconstruction_error_ / spread)
        self._way_back = InverseModel(
            model=decoder, scale=np.ones(places.shape[1]), error=float(error), extension="GRAE", candidates=()
        )
        told = "none" if not parts else type(self.target).__name__ if self.target is not None else "Islands"
        self.report_ = GraeReport(
            method="GRAE",
            n_samples=len(rows),
            n_features=rows.shape[1],
            n_components=places.shape[1],
            target=told,
            parts=parts,
            iterations=len(self.history_["loss"]),
            extension_gap=float(np.abs(places - embedding).max()) if parts else 0.0,
            reconstruction=self.reconstruction_error_ / rows.shape[1],
        )

    # -- the target ------------------------------------------------------------------------

    def _target(self, rows: Array, columns: int, most: int, seed: int) -> tuple[Array, int]:
        """Return the target embedding of the rows, and the number of subsamples it was computed on."""
        target = Islands(n_jobs=self.n_jobs) if self.target is None else self.target
        if not isinstance(target, Embedding):
            return _positions(target, len(rows), columns), 1
        if isinstance(target, PieceMethod) and _is_fitted(target):
            return _positions(embed_quietly(target, rows), len(rows), columns), 1
        asked = {"n_components": columns, "random_state": seed, "n_jobs": self.n_jobs}
        unfitted = clone(target)
        known = unfitted.get_params(deep=False)
        settings = {
            name: value
            for name, value in asked.items()
            if name in known and (name == "n_components" or known[name] is None)
        }
        unfitted.set_params(**settings)

        def find(part: Array) -> Array:
            return _positions(clone(unfitted).fit_transform(part), len(part), columns)

        rng = np.random.default_rng([seed, 3])
        if len(rows) <= most:
            return find(rows), 1
        if not isinstance(target, PieceMethod):
            return _in_parts(rows, find, most, rng)
        chosen = np.sort(rng.choice(len(rows), most, replace=False))
        return _positions(embed_quietly(unfitted.fit(rows[chosen]), rows), len(rows), columns), 1

    def score(self, X: Data, y: object = None) -> float:
        """Return -(mean squared error) per feature of ``reconstruct(X)``: for grid searches.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : ignored
        """
        left = np.asarray(self.reconstruct(X), dtype=float) - self._validate(X, reset=False)
        return -float(np.square(left).mean())


def _is_fitted(target: object) -> bool:
    try:
        check_is_fitted(target)
    except (NotFittedError, TypeError):
        return False
    return True


def _positions(values: ArrayLike, rows: int, columns: int) -> Array:
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


def _in_parts(rows: Array, find: Callable[[Array], Array], most: int, rng: np.random.Generator) -> tuple[Array, int]:
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
