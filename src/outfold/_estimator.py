"""The scikit-learn contract over the engine: parameters, validation, fitted attributes. Nothing numerical."""

from __future__ import annotations

import copy
import hashlib
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _engine, _resolve, calibration, crossfit, planning, sinks, sources
from ._storable import Storable
from .calibration import Calibration, Witness
from .checkpoints import Checkpoint
from .exceptions import FarPointsError, FarPointsWarning, SpectrumWarning
from .extensions import Auto, Known, Nystrom
from .inverse import WayBack
from .landmarks import Everything
from .runners import Threads, check_fits
from .sources import InMemory, Source
from .trust import Trust

Array = NDArray[Any]

STREAMED_ROWS = 1 << 17  # embedded at a time
BESIDE = {"checkpoint", "n_jobs", "verbose"}  # parameters that do not change what is fitted


class SpectralEstimator(Storable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What every spectral method shares; a method adds its parameters and ``_recipe``."""

    # parameters that every method has; subclasses set them in __init__
    n_jobs: int | None
    verbose: bool
    random_state: Any
    extension: Any
    inverse: Any
    _needs_positive = True  # precomputed values must not be negative

    def _recipe(self) -> _engine.Recipe:
        raise AssertionError("a method defines its recipe")

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the embedding.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a square matrix if precomputed
            With landmarks also what does not fit in memory, read block by block as often as needed (by Isomap and LLE
            at once): a memmap, paths of .npy, .parquet or .zarr, an HDF5 or Zarr array, a function that gives an
            iterable of row blocks.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            The measure on the training points. A whole-number weight equals repeating the row.
        """
        fitted = copy.copy(self)  # a fit that fails or is interrupted leaves self as it was
        fitted._fit(X, sample_weight)
        self.__dict__ = fitted.__dict__
        for text in self.report_.warnings:
            warnings.warn(text, SpectrumWarning, stacklevel=2)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then ``transform(X)``."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X, on_far="keep")

    def _fit(self, X: Any, sample_weight: Any) -> None:
        recipe = self._recipe()
        runner = self._runner()
        extension = _resolve.extension(self.extension, self._precomputed())
        self._carriers = extension, _resolve.extension(self.inverse, None, name="inverse")
        rows, dtype = self._rows(X, recipe)
        if hasattr(recipe.view, "memory"):
            planning.refuse_beyond_memory(recipe, rows.shape, runner, isinstance(rows, InMemory))
        measure = measure_on(rows, sample_weight)
        seed = _resolve.seed(self.random_state)
        checkpoint = getattr(recipe.view, "checkpoint", Checkpoint())
        if checkpoint.folder is not None:  # what is free may differ the second time, and with it the chunks
            weights = None if sample_weight is None else measure
            seed, memory = checkpoint.begin(self._key(rows, weights), seed, recipe.view.memory)
            recipe = replace(recipe, view=replace(recipe.view, memory=memory))
        self._fitted_recipe = recipe  # parameters may be set anew before the next fit
        found = _engine.fit(rows, recipe, measure, np.random.default_rng(seed), runner)
        found = self._extended(found, rows, recipe, extension, runner)
        self._adopt(found, dtype)
        checkpoint.finish()

    @staticmethod
    def _extended(
        found: _engine.Fit, rows: Source, recipe: _engine.Recipe, extension: Any, runner: Threads
    ) -> _engine.Fit:
        if isinstance(extension, Nystrom):
            return found
        known = found.known(recipe.view, runner)
        if isinstance(extension, Auto):
            return crossfit.choose(rows, recipe, found, known, extension, runner)
        return _engine.extended(found, rows, known, extension, runner)

    def _key(self, rows: Source, weights: Any) -> str:
        """What tells this fit from others: parameters, data and weights."""
        told = {name: value for name, value in self.get_params().items() if name not in BESIDE}
        told.update(kind=type(self).__name__, data=rows.fingerprint(), sample_weight=weights)
        parts = (v.tobytes() if isinstance(v, np.ndarray) else repr(v).encode() for _, v in sorted(told.items()))
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def _rows(self, X: Any, recipe: _engine.Recipe) -> tuple[Source, Any]:
        """The training rows, checked, and the type the embedding is to have."""
        source = sources.opened(X)
        if source is None or not recipe.streams:
            X = self._validate(X if source is None else source.array(), reset=True)
            return InMemory(np.ascontiguousarray(X, dtype=float)), X.dtype
        if len(source) < 2:
            raise ValueError(f"A fit needs at least 2 rows; {source} has {len(source)}.")
        self.n_features_in_ = source.shape[1]
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        return source, np.dtype(float)

    def _adopt(self, found: _engine.Fit, dtype: Any) -> None:
        for name in ("_way_back", "_witness", "calibration_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.model_ = found.model
        self.report_ = found.report
        self.eigenvalues_ = found.eigenvalues
        self.eigenvectors_ = found.functions
        if hasattr(self, "epsilon"):
            self.epsilon_ = found.report.epsilon
        self.landmarks_ = found.anchors.points if self._precomputed() is None else found.anchors.index
        self.landmark_indices_ = found.anchors.index
        self._anchor_measure = found.anchors.measure
        self._columns = found.columns
        self.__dict__.pop("embedding_", None)
        if found.embedding is not None:
            self.embedding_ = found.embedding.astype(dtype, copy=False)
        self._n_features_out = found.model.basis.shape[1]

    # -- new points ------------------------------------------------------------------------

    def transform(self, X: Any, *, on_far: str = "warn", out: Any = None, return_trust: bool = False) -> Any:
        """Embed any points, new or not: ``row(x) @ basis``.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n_anchors) if precomputed
            Or what ``fit`` takes block by block: a memmap, paths of .npy, .parquet or .zarr, a function that gives
            blocks of rows.
            A Dask array or DataFrame: a lazy one is returned, with its chunks or divisions.
        on_far : {"warn", "nan", "raise", "nearest"}
            What to do with rows outside the data: embed them and warn, give NaN, raise, or give the
            position of the nearest training point. What is lazy does not warn: see ``trust(X).flag``.
        out : array, memmap or path ending in .npy, .parquet or .zarr, optional
            Where the embedding goes, block by block; it is returned. A file appears when it is complete. Of Dask's
            rows, a path ending in .zarr or .parquet (a folder of files).
        return_trust : bool
            Also return ``trust(X)``, found on the way.
        """
        if on_far != "keep":
            _resolve.one_of("on_far", on_far, _resolve.ON_FAR)
        check_is_fitted(self)
        if sources.in_dask(X):
            return self._lazily(X, out, on_far=on_far, embedding=True, trust=return_trust)
        source = sources.opened(X)
        if return_trust and (source is not None or out is not None):
            raise ValueError("return_trust=True is for rows in memory: call trust on blocks of what is streamed.")
        if source is not None or out is not None:
            return self._transform_blocks(source, X, on_far, out)
        Z, embedding, trust = self._looked(X, on_far)
        if return_trust:
            return embedding.astype(Z.dtype, copy=False), self._judged(Z, embedding, trust)
        return embedding.astype(Z.dtype, copy=False)

    def _looked(self, X: Any, on_far: str, start: int = 0) -> tuple[Array, Array, Trust]:
        """Rows, checked, their embedding and evidence; the first is row ``start`` of the data."""
        Z = self._validate(X, reset=False)
        embedding, trust = self.model_.look(Z, self._runner())
        if on_far != "keep" and trust.flag.any():
            self._answer_far(on_far, Z, embedding, trust, start)
        return Z, embedding, trust

    def _lazily(self, X: Any, out: Any = None, **wanted: Any) -> Any:
        """The same of the rows of a Dask collection, when they are asked for."""
        from . import _lazy

        self._refuse_batchwise()
        return _lazy.applied(self, X, out, **wanted)

    def _refuse_batchwise(self) -> None:
        """Refuse a model whose answer for a row depends on the rows that come with it."""
        if getattr(getattr(self.model_, "extension", None), "batchwise", False):
            raise ValueError(
                "Joint degrees are those of a whole batch, which must be in memory: in Python pass an array without "
                "out=, or fit with LeastSquares(degrees='training')."
            )

    def _transform_blocks(self, source: Source | None, X: Any, on_far: str, out: Any) -> Any:
        """As ``transform``, a block of rows at a time."""
        self._refuse_batchwise()
        rows = InMemory(self._validate(X, reset=False)) if source is None else source
        if source is not None:
            self._check_features(source.shape[1], source.names, str(source))
        shape = (len(rows), self._n_features_out)
        dtype = rows.values.dtype if isinstance(rows, InMemory) else np.dtype(float)
        if out is None:
            told = f"The embedding of {shape[0]} rows needs"
            check_fits(float(np.prod(shape)) * dtype.itemsize, told, "out='embedding.npy' writes it to disk.")
            out = np.empty(shape, dtype)
        flags: list[Array] = []
        with sinks.opened(out, shape, dtype, list(self.get_feature_names_out())) as write:
            bar = self._runner().bar("embedding", len(rows))
            for block, points in rows.blocks(STREAMED_ROWS):
                embedding, trust = self.model_.look(points, Threads(self.n_jobs))
                if on_far in ("nan", "raise", "nearest") and trust.flag.any():
                    self._answer_far(on_far, points, embedding, trust, block.start)
                flags.append(trust.flag)
                write(block, embedding.astype(dtype, copy=False))
                bar.update(len(points))
            bar.close()
        flag = np.concatenate(flags)
        if on_far == "warn" and flag.any():
            self._warn_far(int(flag.sum()), len(flag), f"the first is row {flag.argmax()}", 5)
        return out

    def _check_features(self, count: int, names: list[str] | None, told: str) -> None:
        if count != self.n_features_in_:
            raise ValueError(
                f"X has {count} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and list(known) != names:
            other = next((a, b) for a, b in zip(known, names) if a != b)
            raise ValueError(
                f"The columns of {told} are not those of the fit: {other[1]!r} instead of {other[0]!r}. Select them in "
                "the order of feature_names_in_."
            )

    # -- how far to believe it -------------------------------------------------------------

    def trust(self, X: Any, *, coverage: float = 0.9) -> Trust:
        """How far to believe ``transform(X)``.

        Arrays with an entry a row: ``support`` (log kernel mass relative to a typical training row), ``flag`` (outside
        the data), ``distance`` (to the nearest training point, in units of how far its neighbours are), ``residual``
        (what the kernel of the training points leaves unexplained of the row, 0 to 1), ``disagreement`` (how far a
        second extension puts it) and, after ``calibrate``, ``error``: a radius that holds with probability ``coverage``
        the position a fit with the row among the training data would give, aligned over the training data.

        Of a Dask array these are lazy Dask arrays; of a DataFrame a lazy DataFrame of them is returned.
        """
        coverage = _resolve.number("coverage", coverage, low=0.0, high=1.0, open_low=True)
        check_is_fitted(self)
        if sources.in_dask(X):
            return self._lazily(X, trust=True, coverage=coverage)
        return self._judged(*self._looked(X, "keep"), coverage)

    def _judged(self, Z: Array, embedding: Array, trust: Trust, coverage: float = 0.9) -> Trust:
        trust = calibration.judged(trust, embedding, self._witnessed(), Z, self._runner())
        if not hasattr(self, "calibration_"):
            return trust
        return replace(trust, error=self.calibration_.radius(trust, coverage))

    def _witnessed(self) -> Witness | None:
        """A second opinion, learnt when first asked for."""
        if "_witness" not in self.__dict__:
            self._witness = None if self._precomputed() else Witness.of(self._known(), self._runner())
        return self._witness

    def _known(self) -> Known:
        """The anchors and where ``transform`` puts them."""
        points: Any = self.landmarks_
        positions = self.model_.embed(points, self._runner())
        return Known.of(points, positions, self._anchor_measure, getattr(self._fitted_recipe.view, "metric", None))

    def calibrate(self, X: Any = None, *, sample_weight: Any = None, folds: int = 10, rows: int = 5000) -> Self:
        """Learn how large errors are, from parts of the training data held out: ``trust`` then gives ``error``.

        Each part is embedded by a fit of the others and compared with its place in the fit of all, aligned over the
        others (K-fold cross-conformal scores): ``folds`` fits of nearly all rows.

        Parameters
        ----------
        X : the training rows, or a sample of them, as in ``fit``
            None: those the model holds, with their weights; with landmarks it does not hold them.
        sample_weight : array, optional
            Of the rows of X, as in ``fit``.
        folds : int
        rows : int
            Of more a random part is used; bands are then those of a fit of so few, wider than they need be.
        """
        check_is_fitted(self)
        folds, rows = _resolve.count("folds", folds, low=2), _resolve.count("rows", rows, low=20)
        recipe, runner = self._fitted_recipe, self._runner()
        if X is None and (self._precomputed() or not isinstance(recipe.landmarks, Everything)):
            why = "with landmarks" if self._precomputed() is None else f"with {self._precomputed()}='precomputed'"
            raise ValueError(f"calibrate() has no training rows to hold out: {why} the model keeps none. Pass X.")
        if X is None and sample_weight is not None:
            raise ValueError("sample_weight belongs to the rows of X; without X those of the fit are used.")
        source = InMemory(np.asarray(self.landmarks_)) if X is None else self._given_rows(X)
        measure = self._anchor_measure if X is None else measure_on(source, sample_weight)
        extension = self._chosen_extension()
        epsilon = self.report_.epsilon if X is None or len(source) == self.report_.n_samples else np.nan
        sample, recipe = crossfit.fitted(source, measure, recipe, rows, len(self.eigenvalues_), epsilon, runner)
        self.calibration_ = Calibration.of(crossfit.held_out(sample, recipe, extension, folds, runner))
        return self

    def _chosen_extension(self) -> Any:
        """The extension in use: of "auto" the chosen one."""
        extension = self._carriers[0]
        if not isinstance(extension, Auto):
            return extension
        return self.report_.candidates[0].extension if self.report_.candidates else Nystrom()

    def _given_rows(self, X: Any) -> Source:
        """Rows as ``fit`` takes them, with the features of the fit."""
        source = sources.opened(X)
        if source is None:
            return InMemory(np.ascontiguousarray(self._validate(X, reset=False), dtype=float))
        self._check_features(source.shape[1], source.names, str(source))
        return source

    # -- and back --------------------------------------------------------------------------

    def inverse_transform(self, Z: Any) -> Array:
        """From coordinates back to features, by the extension ``inverse`` names; learnt when first asked for.

        Parameters
        ----------
        Z : array of shape (n, n_components)
            Of a Dask array or DataFrame a lazy one is returned.
        """
        way_back = self._learnt_back()
        if sources.in_dask(Z):
            return self._lazily(Z, features=True)
        Z = check_array(Z, dtype=[np.float64, np.float32])
        if Z.shape[1] != self._n_features_out:
            raise ValueError(f"Z has {Z.shape[1]} columns, but the embedding has {self._n_features_out} components.")
        return way_back.embed(Z, self._runner()).astype(Z.dtype, copy=False)

    @property
    def round_trip_error_(self) -> float:
        """How far ``inverse_transform`` ends from held-out points, relative to the spread of the features."""
        return self._learnt_back().error

    def _learnt_back(self) -> WayBack:
        check_is_fitted(self)
        if self._precomputed():
            raise ValueError(
                f"{self._precomputed()}='precomputed' has no features to go back to: fit on features instead."
            )
        missing: Array = np.isnan(np.asarray(self.landmarks_)).any(axis=1)
        if missing.any():
            raise ValueError(
                f"{missing.sum()} of {len(missing)} points to learn the way back from have NaN among their features. "
                "Fill them in before fitting."
            )
        if not hasattr(self, "_way_back"):
            self._way_back = WayBack.of(self._known(), self._carriers[1], self._runner())
        return self._way_back

    def _answer_far(self, on_far: str, Z: Array, embedding: Array, trust: Trust, start: int = 0) -> None:
        far = np.flatnonzero(trust.flag)
        first = f"the first is row {start + far[0]}, support {trust.support[far[0]]:.3g}"
        if on_far == "raise":
            raise FarPointsError(
                f"{len(far)} of {len(Z)} rows lie outside the training data ({first}). Pass on_far='warn', 'nan' or "
                "'nearest' to embed the rest."
            )
        if on_far == "warn":
            self._warn_far(len(far), len(Z), first, 6)
        elif on_far == "nan":
            embedding[far] = np.nan
        else:
            embedding[far] = self.model_.nearest(Z[far])

    @staticmethod
    def _warn_far(count: int, rows: int, first: str, level: int) -> None:
        warnings.warn(
            f"{count} of {rows} rows lie outside the training data ({first}); their positions are extrapolated. See "
            "trust(X); on_far= chooses what to do.",
            FarPointsWarning,
            stacklevel=level,  # where transform was called
        )

    def __getattr__(self, name: str) -> Any:
        if name == "round_trip_error_":
            check_is_fitted(self)
        kept = {
            "embedding_": True,
            "labels_": hasattr(type(self), "predict"),
            "spectral_": hasattr(type(self), "score"),
        }
        if kept.get(name) and "report_" in self.__dict__ and name not in self.__dict__.get("_sealed", {}):
            raise AttributeError(
                f"This model keeps no {name}: it was saved without (save(path, embedding=True) keeps it), its rows "
                "were not in memory, or it was updated since: call transform."
            )
        return super().__getattr__(name)

    # -- scikit-learn ----------------------------------------------------------------------

    def _runner(self) -> Threads:
        if self.n_jobs is not None and (not isinstance(self.n_jobs, int | np.integer) or self.n_jobs == 0):
            raise ValueError(f"n_jobs={self.n_jobs!r} must be None or a whole number other than 0.")
        return Threads(self.n_jobs, bool(self.verbose))

    def _precomputed(self) -> str | None:
        for name in ("kernel", "metric"):
            value = getattr(self, name, None)
            if isinstance(value, str) and value == "precomputed":
                return name
        return None

    def _validate(self, X: Any, *, reset: bool) -> Array:
        if issparse(sources.here(X)):
            raise TypeError(
                f"{type(self).__name__} does not take sparse feature matrices. Reduce them first "
                "(sklearn.decomposition.TruncatedSVD), or pass X.toarray() if it fits in memory."
            )
        metric = getattr(self, "metric", None)
        nan = "allow-nan" if isinstance(metric, str) and metric == "nan_euclidean" else True
        options: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": nan}
        given = self._precomputed()
        if given and not reset:
            return self._validate_given_rows(X, options, given)
        X = validate_data(self, X, reset=reset, ensure_min_samples=2 if reset else 1, **options)
        if given:
            _check_square(X, given, self._needs_positive)
        return X

    def _validate_given_rows(self, X: Any, options: dict[str, Any], given: str) -> Array:
        """Rows of distances or affinities: to the anchors, or to all training rows."""
        X = check_array(X, **options)
        index: Any = self._columns
        if X.shape[1] == self.n_features_in_ and X.shape[1] != len(index):
            X = X[:, index]
        elif X.shape[1] != len(index):
            return validate_data(self, X, reset=False, **options)  # raises with both numbers
        if self._needs_positive:
            _check_positive(X, given)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed() is not None
        tags.input_tags.positive_only = self._precomputed() is not None and self._needs_positive
        tags.input_tags.sparse = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def measure_on(rows: Source, sample_weight: Any) -> Any:
    """The measure on rows, here or where they are."""
    if not sources.in_dask(sample_weight):
        return sample_measure(sample_weight, len(rows))
    from . import scale

    if isinstance(rows, scale.Spread):
        return scale.Weights.of(sample_weight, rows)
    return sample_measure(sample_weight.compute(), len(rows))


def sample_measure(sample_weight: Any, n: int) -> Array:
    """The measure: whole-number weights are counts, others are scaled to mean 1."""
    if sample_weight is None:
        return np.broadcast_to(np.ones(1), n)
    weights = np.array(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}.")
    if len(weights) != n:
        raise ValueError(f"sample_weight has {len(weights)} entries for {n} rows.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"sample_weight must be finite and >= 0; the smallest given is {weights.min():.3g}.")
    if (weights > 0).sum() < 2:
        raise ValueError(
            f"sample_weight is zero for all but {(weights > 0).sum()} of {n} rows; a fit needs at least 2 rows of "
            "positive weight."
        )
    return weights if (weights == np.round(weights)).all() else weights / weights[weights > 0].mean()


def _check_positive(X: Array, given: str) -> None:
    if (X < 0).any():
        raise ValueError(f"Negative values in data: {given}='precomputed' needs values >= 0, got {X.min():.3g}.")


def _check_square(X: Array, given: str, positive: bool) -> None:
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"{given}='precomputed' needs a square matrix between the training points, got {X.shape}. Pass "
            "features with another metric, or the n x n matrix."
        )
    if positive:
        _check_positive(X, given)
    if not np.allclose(X, X.T, rtol=1e-6, atol=1e-10 * np.abs(X).max()):
        raise ValueError(
            f"{given}='precomputed' needs a symmetric matrix; entries differ by up to {np.abs(X - X.T).max():.3g}. "
            "Pass (X + X.T) / 2 if that is what you mean."
        )
    if given == "metric" and np.abs(np.diagonal(X)).max() > 1e-10 * X.max():
        raise ValueError(
            f"metric='precomputed' needs zero distance from a point to itself; the diagonal reaches "
            f"{np.diagonal(X).max():.3g}. Are these affinities? Then pass kernel='precomputed'."
        )
