"""The base classes of the estimators: saving, Dask collections, and ``fit`` and ``transform`` of spectral methods."""

from __future__ import annotations

import copy
import hashlib
import os
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._runtime import ownership
from .._runtime.memory import check_fits, explain_memory
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Seed, Weights
from ..data import inputs, sources, writers
from ..data.checkpoints import Checkpoint
from ..data.sources import Collection, InMemory, Source, collection, require_in_memory
from ..data.sparse_rows import SparseRows, as_rows, dense_rows, largest_entries, like_rows
from ..data.weights import leave_out_negligible, measure_on
from ..data.writers import Assignable
from ..distances import Metric, clear_tiny, takes_sparse
from ..engine import cross_fit
from ..engine import plan as planning
from ..engine.fit import Fit, Recipe, check_count, extend_fit, fit_recipe
from ..engine.inverse import InverseModel
from ..engine.report import Report
from ..exceptions import FarPointsError, FarPointsWarning, SpectrumWarning
from ..extensions import Auto, LinearMap, Nystrom
from ..extensions.calibration import Calibration, SecondOpinion
from ..extensions.domain import Domain, TrainingSample
from ..extensions.samples import Extension, Model, Samples
from ..graphs.given import check_units, make_symmetric, stores_every_pair, with_diagonal
from ..kernels import DENSE_ONLY
from ..landmarks import AllRows
from ..neural import Net
from ..trust import LEVEL, Judge, RowFacts, Trust
from . import parameters
from .declaration import check_names, estimator
from .parameters import ExtensionChoice, Specification
from .rows import check_positive, check_square, describe_width, fill_in, leave_out_isolated, validate_rows

Output: TypeAlias = Assignable | str | Path | None  # where an embedding is written

if TYPE_CHECKING:

    class Transformer:
        """What we use of scikit-learn's classes, which have no types."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

else:

    class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
        """A transformer of scikit-learn, which says what to pass instead of a parameter that it does not have."""

        def set_params(self, **params: Any) -> Self:
            check_names(self, params)
            return super().set_params(**params)

        def __dir__(self) -> list[str]:
            return list(object.__dir__(self))  # scikit-learn's reads every property, which would compute all of them


class Storable:
    """An estimator with ``save``. One from ``load(path, mmap=True)`` reads the parts in ``_sealed`` on first use.

    ``_stored`` declares the fitted attributes that a file holds: their kind, or the axes of an array (r rows, d
    features, a anchors, c coordinates), and whether they are optional, whole numbers, or as many as the training rows.
    """

    _stored: ClassVar[dict[str, str]] = {
        "n_features_in_": "count",
        "_n_features_out": "count",
        "feature_names_in_": "names d; optional",
        "_sklearn_output_config": "config; optional",
    }

    def save(self, path: str | os.PathLike[str], *, embedding: bool = False) -> None:
        """Write the fitted model to a file that :func:`outfold.load` reads. An interrupted save leaves the old file.

        Parameters
        ----------
        path : str or path
            Any name; ``.outfold`` is usual.
        embedding : bool
            Also store what belongs to the training rows: ``embedding_``, ``labels_``, and the spectral method of a
            network. ``transform`` needs none of these.
        """
        from .. import storage

        storage.save(self, path, embedding=embedding)

    def __getattr__(self, name: str) -> Any:
        sealed = self.__dict__.get("_sealed", {})
        if name not in sealed:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__[name] = value = sealed[name]()
        return value

    def __getstate__(self) -> dict[str, Any]:
        for name in self.__dict__.get("_sealed", {}):
            getattr(self, name)
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name != "_sealed"}


class TakesCollections:
    """An estimator that takes a Dask collection, whose rows are in partitions, and returns a lazy one."""

    def _collection(self, X: Data) -> Collection | None:
        """Return the adapter of X if X is such a collection, None for rows in memory or in files."""
        return collection(X)

    def _check_container(self) -> None:
        """Refuse ``set_output``: the result for a collection has the type of that collection."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if container != "default":
            raise ValueError(
                f"set_output(transform={container!r}) would bring every row here. Pass a Dask DataFrame to get one "
                "back, with set_output(transform='default')."
            )


STREAMED_ROWS = 1 << 17  # rows embedded at a time
RUNTIME_PARAMETERS = {"checkpoint", "n_jobs", "verbose"}  # parameters that do not change the fitted model


class FittedAttributes:
    """The attributes that a fit sets."""

    model_: Model
    report_: Report
    embedding_: Array  # in-memory fits only
    eigenvalues_: Array
    eigenvectors_: Array
    landmarks_: Array  # the anchors; row numbers if precomputed
    landmark_indices_: Array | None
    n_features_in_: int
    extension: ExtensionChoice | None  # parameters of spectral methods, which `_fit` reads
    inverse: ExtensionChoice | None


@estimator
class SpectralEstimator(TakesCollections, Storable, FittedAttributes, Transformer):
    """The base of every estimator; a spectral method adds its parameters and its eigenproblem.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show the progress of steps that take longer than two seconds.
    """

    random_state: Seed = None
    n_jobs: int | None = None
    verbose: bool = False
    _stored: ClassVar[dict[str, str]] = {
        "model_": "model; axes d c n>a",
        "report_": "Report Encoded",
        "embedding_": "[r c]; optional; rows",
        "calibration_": "Calibration; optional; axes f",
        "_training_sample": "TrainingSample None; optional; axes d",
        "_way_back": "WayBack; optional; axes d>c c>d",
    }
    _needs_positive = True  # precomputed values must not be negative
    _takes_graphs = False  # whether a precomputed matrix may be sparse, with edges that are not known
    _takes_no_negative_features = False
    _refuses_sparse: ClassVar[str] = ""  # why sparse matrices are refused, and what to do; empty: they are taken

    def _recipe(self) -> Recipe:
        raise AssertionError("a method defines its recipe")

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, X: Data, y: object = None, sample_weight: Weights = None) -> Self:
        """Fit the embedding.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a square matrix if precomputed
            With landmarks also data that do not fit in memory, read block by block as often as needed (Isomap and LLE
            read all rows at once): a memmap, paths of .npy, .parquet or .zarr, an HDF5 or Zarr array, a function that
            returns an iterable of row blocks.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            The number of copies of each row, which may be a fraction; 0 is absence. Weights without a scale of their
            own need one first: :func:`outfold.data.normalize_weights`.
        """
        fitted = copy.copy(self)
        with explain_memory(f"The fit of {type(self).__name__}", "Pass fewer rows, or landmarks=; plan() says bytes."):
            fitted._fit(X, sample_weight)
        return self._become(fitted)

    def _become(self, fitted: Self) -> Self:
        """Take the state of a fitted copy: a fit that fails or is interrupted leaves self as it was."""
        ownership.freeze(fitted)
        self.__dict__ = fitted.__dict__
        for text in self.report_.warnings:
            warnings.warn(text, SpectrumWarning, stacklevel=3)
        return self

    def fit_transform(self, X: Data, y: object = None, sample_weight: Weights = None) -> Array:
        """Fit, then ``transform(X)``."""
        self.fit(X, y, sample_weight=sample_weight)
        graph = self.__dict__.get("_graph")  # X may be a directed graph
        embedding: Array = self.transform(X if graph is None else graph, on_far="keep")
        return embedding

    def _extensions(self) -> tuple[Specification, Specification]:
        """Return the extension and that of the inverse transform, checked."""
        extension = parameters.extension(self.extension, self._precomputed_parameter())
        return extension, parameters.extension(self.inverse, None, name="inverse")

    def _fit(self, X: Data, sample_weight: Weights) -> None:
        recipe = self._recipe()
        self.__dict__.pop("_graph", None)
        runner = self._runner()
        self._carriers = self._extensions()
        rows, dtype = self._rows(X, recipe)
        self._check_counts(recipe, rows.shape)
        limits = recipe.view.long_run
        if limits is not None or not rows.sparse:  # sizes do not say what sparse rows need: `build` asks
            planning.refuse_beyond_memory(recipe, rows.shape, runner, isinstance(rows, InMemory))
        measure, notes = leave_out_negligible(measure_on(rows, sample_weight))
        given = self._precomputed_parameter()
        if given is not None and isinstance(rows, InMemory):
            check_units(rows.array(), given)
        if given is not None and self._takes_graphs and recipe.view.between_rows:
            graph = rows.array()
            if given == "metric" and recipe.view.includes_itself and isinstance(graph, SparseRows):
                rows = InMemory(SparseRows(with_diagonal(graph)), rows.names)
            if isinstance(rows.array(), SparseRows) or getattr(self, "symmetrize", "auto") not in ("auto", "error"):
                self._graph = rows.array()
            measure, alone = leave_out_isolated(rows.array(), measure, given)
            notes += alone
        metric = recipe.view.feature_metric
        if metric is not None and isinstance(rows, InMemory):
            metric.check_directions(rows.array(), "rows")
        seed = parameters.seed(self.random_state)
        checkpoint = Checkpoint() if limits is None else limits.checkpoint
        if limits is not None and checkpoint.folder is not None:  # a resumed fit takes the stored `memory`
            weights = None if sample_weight is None else measure
            seed, memory = checkpoint.begin(self._key(rows, weights), seed, limits.memory)
            recipe = replace(recipe, view=recipe.view.within(memory))
        self._fitted_recipe = recipe  # `set_params` may change the parameters afterwards
        found = fit_recipe(rows, recipe, measure, np.random.default_rng(seed), runner)
        found = self._extend_fit(found, rows, recipe, self._carriers[0], runner)
        if notes:
            found = replace(found, report=replace(found.report, warnings=(*notes, *found.report.warnings)))
        self._adopt(found, dtype)
        checkpoint.finish()

    def _check_counts(self, recipe: Recipe, shape: tuple[int, int]) -> None:
        """Refuse more coordinates or neighbours than there are points, before a plan counts their bytes."""
        own_columns = recipe.view.given and not recipe.view.between_rows  # the landmarks are the columns of the matrix
        points = max(shape[0], shape[1] if own_columns else recipe.landmarks.count(shape[0]))
        if points < 2 or (not own_columns and recipe.landmarks.count(shape[0]) < 2):
            given = parameters.show_value(getattr(self, "landmarks", None))
            raise ValueError(f"landmarks={given} of {shape[0]} rows are less than 2. Raise it, or pass more rows.")
        check_count(recipe, points)
        k = getattr(self, "n_neighbors", None)
        if isinstance(k, int | np.integer) and k > points:
            pairs = ", or pass n_neighbors=None to keep every pair" if getattr(self, "kernel", "") == "gaussian" else ""
            told = f"n_neighbors={k} must be smaller than the number of points, n = {points}. Lower it{pairs}."
            raise ValueError(told)

    @staticmethod
    def _extend_fit(found: Fit, rows: Source, recipe: Recipe, extension: Specification, runner: Threads) -> Fit:
        if isinstance(extension, Nystrom):
            return found
        known = found.samples(recipe.view, runner)
        if isinstance(extension, Auto):
            return cross_fit.choose(rows, recipe, found, known, extension, runner)
        return extend_fit(found, rows, known, extension, runner)

    def _key(self, rows: Source, weights: Weights) -> str:
        """Return a digest of parameters, data and weights, which identifies this fit."""
        told = {name: value for name, value in self.get_params().items() if name not in RUNTIME_PARAMETERS}
        told.update(kind=type(self).__name__, data=rows.fingerprint(), sample_weight=weights)
        parts = (v.tobytes() if isinstance(v, np.ndarray) else repr(v).encode() for _, v in sorted(told.items()))
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def _rows(self, X: Data, recipe: Recipe) -> tuple[Source, np.dtype[Any]]:
        """Return the checked training rows, and the dtype of the embedding."""
        source = sources.open_rows(X)
        if source is None or not recipe.streams:
            values = self._validate(X if source is None else source.array(), reset=True)
            keeps = source is None and not recipe.streams  # the model stores these rows: copy the caller's array
            names = source.names if source is not None else [str(n) for n in getattr(self, "feature_names_in_", ())]
            inputs.check_copy(values.shape, "X")
            if not recipe.view.given and isinstance(values, np.ndarray):
                values = clear_tiny(values, self._runner())
            rows = ownership.own(values, self._runner()) if keeps and not issparse(values) else as_rows(values)
            return InMemory(rows, names or None), values.dtype
        if len(source) < 2:
            raise ValueError(f"A fit needs at least 2 rows; {source} has {len(source)}.")
        self.n_features_in_ = source.shape[1]
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        return source, np.dtype(float)

    def _adopt(self, found: Fit, dtype: np.dtype[Any]) -> None:
        for name in ("_way_back", "_witness", "calibration_"):  # caches of an earlier fit
            self.__dict__.pop(name, None)
        self._compared: dict[str, Domain] = {}
        self._training_sample: TrainingSample | None = found.sample
        self.model_ = found.model
        self.report_ = found.report
        self.eigenvalues_ = found.eigenvalues
        self.eigenvectors_ = found.functions
        if hasattr(self, "epsilon"):
            self.epsilon_ = found.report.epsilon
        points, index = found.anchors.points, found.anchors.index
        self.landmarks_ = points if index is None or self._precomputed_parameter() is None else index
        self.landmark_indices_ = index
        self._anchor_measure = found.anchors.measure
        self._columns = found.columns
        self.__dict__.pop("embedding_", None)
        if found.embedding is not None:
            self.embedding_ = found.embedding.astype(dtype, copy=False)
        self._n_features_out = found.model.basis.shape[1]

    # -- new points ------------------------------------------------------------------------

    def transform(self, X: Data, *, on_far: str = "warn", out: Output = None, return_trust: bool = False) -> Any:
        """Embed any points, new or not: ``row(x) @ basis``.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n_anchors) if precomputed
            Or what ``fit`` reads block by block: a memmap, paths of .npy, .parquet or .zarr, a function that returns
            blocks of rows.
            A Dask array or DataFrame: a lazy one is returned, with its chunks or divisions.
        on_far : {"warn", "nan", "raise", "nearest"}
            What to do with rows outside the training data, those with ``trust(X).flag``: embed them and warn, return
            NaN, raise, or return the embedding of the nearest training point. One in a hundred rows like the training
            rows is flagged too: "warn" and "raise" do so if there are more, or if one is far outside. A lazy result
            does not warn.
        out : array, memmap or path ending in .npy, .parquet or .zarr, optional
            Where the embedding goes, block by block; it is returned. A file appears when it is complete. For a Dask
            collection, a path ending in .zarr or .parquet (a folder of files).
        return_trust : bool
            Also return ``trust(X)``, from the same pass over the rows.
        """
        if on_far != "keep":
            parameters.one_of("on_far", on_far, parameters.ON_FAR)
        check_is_fitted(self)
        if (there := self._collection(X)) is not None:
            return there.transform(self, X, out, on_far=on_far, embedding=True, trust=return_trust)
        source = sources.open_rows(X)
        if return_trust and (source is not None or out is not None):
            raise ValueError("return_trust=True is for rows in memory: call trust on blocks of what is streamed.")
        if source is not None or out is not None:
            return self._transform_blocks(source, X, on_far, out)
        Z, embedding, facts = self._embed_rows(X)
        trust = self._add_evidence(Z, embedding, self._judge(Z, embedding, facts)) if return_trust else None
        if on_far != "keep":
            self._answer_far(on_far, Z, embedding, trust or self._judge(Z, embedding, facts))
        embedding = embedding.astype(Z.dtype, copy=False)
        return embedding if trust is None else (embedding, trust)

    def _embed_rows(self, X: Data) -> tuple[Array, Array, RowFacts]:
        """Return the checked rows, their embedding, and the facts about them that the model knows."""
        with explain_memory("The embedding of these rows", "Pass fewer rows at a time, or out='embedding.npy'."):
            Z = self._validate(X, reset=False)
            return Z, *self.model_.look(Z, self._runner())

    def _collection(self, X: Data) -> Collection | None:
        found = super()._collection(X)
        if found is not None:
            self._refuse_batchwise()
        return found

    def _refuse_batchwise(self) -> None:
        """Refuse a model whose embedding of a row depends on the other rows of X."""
        if self.model_.batchwise:
            raise ValueError(
                "Joint degrees are those of a whole batch, which must be in memory: in Python pass an array without "
                "out=, or fit with LeastSquares(degrees='training')."
            )

    def _transform_blocks(self, source: Source | None, X: Data, on_far: str, out: Output) -> Output:
        """Return ``transform(X)``, computed and written a block of rows at a time."""
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
        found: list[tuple[Array, Array]] = []
        with writers.open_writer(out, shape, dtype, list(self.get_feature_names_out())) as write:
            bar = self._runner().bar("embedding", len(rows))
            for block, points in rows.blocks(STREAMED_ROWS):
                points = self._like_fitted(points)
                embedding, facts = self.model_.look(points, Threads(self.n_jobs))
                if on_far != "keep":
                    trust = self._judge(points, embedding, facts)
                    found.append((trust.flag, trust.score))
                    if on_far != "warn":
                        self._answer_far(on_far, points, embedding, trust, block.start)
                write(block, embedding.astype(dtype, copy=False))
                bar.update(len(points))
            bar.close()
        if on_far != "warn" or not found:
            return out
        flag, score = (np.concatenate(part) for part in zip(*found))
        if self._judge_of_rows().alarms(score, flag):
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

    # -- trust -----------------------------------------------------------------------------

    def trust(self, X: Data, *, coverage: float = 0.9, level: float = LEVEL) -> Trust:
        """Return evidence on how reliable ``transform(X)`` is.

        The arrays have one entry per row. ``p_value`` is the share of rows of the training data that are at least as
        strange, ``score`` how strange the row is, and ``flag`` is ``p_value < level``: the row is outside the training
        data. The score is a maximum over facts: ``isolation`` (distance to the nearest training rows, relative to the
        distances between those), ``amplitude`` and ``remainder`` (length inside and outside the leading principal
        axes, 1 for a typical row) and, after ``calibrate``, ``support`` (log kernel mass relative to a typical training
        row), ``residual`` (the part of the row that the kernel of the training points does not explain, 0 to 1) and
        ``disagreement`` (the distance to the embedding by a second extension). ``distance`` is that to the nearest
        training row, relative to the distance between neighbours. ``error``, after ``calibrate``, is an error radius.
        With probability ``coverage`` it contains the coordinates that a fit with the row among the training data would
        give, aligned over the training data; it is infinite for rows that are flagged.

        For a Dask array the arrays are lazy; for a Dask DataFrame, a lazy DataFrame of them is returned.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n_anchors) if precomputed
        coverage : float in (0, 1]
        level : float in (0, 1)
            Share of rows like the training rows that are flagged.
        """
        coverage = parameters.number("coverage", coverage, low=0.0, high=1.0, open_low=True)
        level = parameters.number("level", level, low=0.0, high=1.0)
        check_is_fitted(self)
        if (there := self._collection(X)) is not None:
            lazy: Trust = there.transform(self, X, trust=True, coverage=coverage, level=level)
            return lazy
        Z, embedding, facts = self._embed_rows(X)
        return self._add_evidence(Z, embedding, self._judge(Z, embedding, facts, level), coverage)

    def _judge(self, Z: Array, embedding: Array, facts: RowFacts, level: float = LEVEL) -> Trust:
        """Return the facts that decide about the rows, and the verdict."""
        judge, runner = self._judge_of_rows(), self._runner()
        facts = self._domain().add(facts, Z, runner)
        opinion = self._second_opinion() if "disagreement" in judge.names else None
        if opinion is not None:
            facts = opinion.add(facts, embedding, Z, runner)
        if "round_trip" in judge.names:
            facts = cross_fit.add_round_trip(facts, Z, self._inverse_model().embed(embedding, runner))
        return judge.judge(facts, level)

    def _judge_of_rows(self) -> Judge:
        """Return the judge of a calibrated model, by all facts; else the one by the facts of the domain."""
        calibration: Calibration | None = getattr(self, "calibration_", None)
        return self._domain().judge if calibration is None or calibration.judge is None else calibration.judge

    def _add_evidence(self, Z: Array, embedding: Array, trust: Trust, coverage: float = 0.9) -> Trust:
        """Return the trust with the facts that do not decide, and the error radius of a calibrated model."""
        opinion = self._second_opinion()
        if opinion is not None and trust.residual is None:
            trust = opinion.add(trust, embedding, Z, self._runner())
        if not hasattr(self, "calibration_"):
            return trust
        return replace(trust, error=self.calibration_.radius(trust, coverage))

    def _domain(self) -> Domain:
        """Return what rows are compared with, found on first use.

        It is kept in a dictionary that the fit made: ``transform`` must not add attributes.
        """
        cache: dict[str, Domain] = self.__dict__.setdefault("_compared", {})
        if "domain" not in cache:
            cache["domain"] = self._find_domain()
            ownership.freeze(cache["domain"])
        return cache["domain"]

    def _find_domain(self) -> Domain:
        stored = getattr(self, "_training_sample", None)
        sample = stored
        if stored is None and self._precomputed_parameter() is None:
            sample = TrainingSample.of(self.landmarks_, self._anchor_measure)
        model: Any = self.model_
        view = self._fitted_recipe.view
        through_landmarks = stored is not None and not view.sees_every_row
        return Domain.of_model(model, sample, view.feature_metric, self._runner(), through_landmarks)

    def _second_opinion(self) -> SecondOpinion | None:
        """Return the second extension, fitted on first use; None for a precomputed matrix."""
        if "_witness" not in self.__dict__:
            self._witness = None if self._precomputed_parameter() else SecondOpinion.of(self._samples(), self._runner())
            ownership.freeze(self._witness)
        return self._witness

    def _operator_eigenvalues(self) -> Array:
        """Return the eigenvalues of the operator: ``eigenvalues_``, unless a method shows others."""
        return np.asarray(self.eigenvalues_, dtype=float)

    def _samples(self) -> Samples:
        """Return the anchors and their embedding by ``transform``."""
        points: Any = self.landmarks_
        positions = self.model_.embed(points, self._runner())
        return Samples.of(points, positions, self._anchor_measure, self._fitted_recipe.view.feature_metric)

    def _dense_samples(self) -> Samples:
        """Return the same with an array of features: an inverse transform combines the features of many rows."""
        found = self._samples()
        if isinstance(found.points, SparseRows):
            shape = found.points.shape
            told = f"inverse_transform: {shape[0]} sparse rows of {shape[1]} features as an array need"
            check_fits(2 * 8.0 * shape[0] * shape[1], told, "Fit with landmarks=1000, or reduce the features first.")
            return replace(found, points=dense_rows(found.points))
        return found

    def calibrate(
        self,
        X: Data | None = None,
        *,
        sample_weight: Weights = None,
        folds: int = 10,
        rows: int = 5000,
        round_trip: bool = False,
    ) -> Self:
        """Estimate the errors from held-out parts of the training data; ``trust`` then returns ``error``.

        The p-value is then that of all facts, also of those that only held-out rows are honest about.

        Each part is embedded by a fit to the others and compared with its embedding in the fit to all rows, aligned
        over the others (K-fold cross-conformal scores). This takes ``folds`` fits to nearly all rows.

        Parameters
        ----------
        X : the training rows, or a sample of them, as in ``fit``
            None: the training rows that the model stores, with their weights. A model with landmarks stores 2000 of
            them at most.
        sample_weight : array, optional
            Weights of the rows of X, as in ``fit``.
        folds : int
        rows : int
            A random sample of ``rows`` rows is used if there are more; error radii are then those of a fit to the
            sample, and wider than necessary.
        round_trip : bool
            Judge rows also by their distance to ``inverse_transform(transform(x))``. An inverse is fitted in each fold.
        """
        check_is_fitted(self)
        folds, rows = parameters.count("folds", folds, low=2), parameters.count("rows", rows, low=20)
        recipe, runner = self._fitted_recipe, self._runner()
        if X is None and sample_weight is not None:
            raise ValueError("sample_weight belongs to the rows of X; without X those of the fit are used.")
        source = InMemory(self._stored_rows().points) if X is None else self._open_given_rows(X)
        measure = self._stored_rows().measure if X is None else measure_on(source, sample_weight)
        extension = self._chosen_extension()
        every = len(source) == self.report_.n_samples or (X is None and getattr(self, "_training_sample", None) is None)
        epsilon = self.report_.epsilon if every else np.nan
        sample, recipe = cross_fit.fit_sample(source, measure, recipe, rows, len(self.eigenvalues_), epsilon, runner)
        inverse = self._carriers[1] if round_trip else None
        if inverse is not None:
            self._inverse_model()  # raises if there is none
        invert = None if inverse is None else partial(InverseModel.of, spec=inverse, runner=runner)
        self.calibration_ = cross_fit.calibrate(sample, recipe, extension, folds, runner, invert)
        ownership.freeze(self.calibration_)
        for text in self.calibration_.notes:
            warnings.warn(text, SpectrumWarning, stacklevel=2)
        return self

    def _stored_rows(self) -> TrainingSample:
        """Return the training rows that the model stores: all of them, or a sample. Raise ValueError if it has none."""
        if self._precomputed_parameter() is not None:
            raise ValueError(
                f"calibrate() has no training rows to hold out: with {self._precomputed_parameter()}='precomputed' the "
                "model keeps none. Pass X."
            )
        sample: TrainingSample | None = getattr(self, "_training_sample", None)
        if sample is not None:
            return sample
        every = isinstance(self._fitted_recipe.landmarks, AllRows) or len(self.landmarks_) == self.report_.n_samples
        if not every:
            raise ValueError(
                "calibrate() has no training rows to hold out: a model with landmarks of Outfold 0.1.0 keeps none. "
                "Pass X."
            )
        return TrainingSample(self.landmarks_, self._anchor_measure)

    def _chosen_extension(self) -> Extension:
        """Return the extension in use; for "auto" the one that was chosen."""
        extension = self._carriers[0]
        if not isinstance(extension, Auto):
            return extension
        chosen: Extension = self.report_.candidates[0].extension if self.report_.candidates else Nystrom()
        return chosen

    def _open_given_rows(self, X: Data) -> Source:
        """Return rows in any form that ``fit`` takes; refuse features other than those of the fit."""
        source = sources.open_rows(X)
        if source is None:
            return InMemory(as_rows(self._validate(X, reset=False)))
        self._check_features(source.shape[1], source.names, str(source))
        return source

    # -- inverse transform -----------------------------------------------------------------

    def inverse_transform(self, Z: Data) -> Array:
        """Map coordinates back to features by the extension that ``inverse`` names, which is fitted on first use.

        Parameters
        ----------
        Z : array of shape (n, n_components)
            For a Dask array or DataFrame a lazy one is returned.
        """
        way_back = self._inverse_model()
        if (there := self._collection(Z)) is not None:
            lazy: Array = there.transform(self, Z, features=True)
            return lazy
        values: Array = inputs.read_rows(Z, "Z")
        if issparse(values):
            raise TypeError("Z holds coordinates, which are an array and no sparse matrix. Pass Z.toarray().")
        inputs.check_size(values, 1, type(self).__name__)
        inputs.refuse_missing(values, "Z")
        if values.shape[1] != self._n_features_out:
            raise ValueError(
                f"Z has {values.shape[1]} columns, but the embedding has {self._n_features_out} components."
            )
        return way_back.embed(values, self._runner()).astype(values.dtype, copy=False)

    @property
    def round_trip_error_(self) -> float:
        """The error of ``inverse_transform`` at held-out points, relative to the standard deviation of the features."""
        return self._inverse_model().error

    def _inverse_model(self) -> InverseModel:
        check_is_fitted(self)
        if self._precomputed_parameter():
            raise ValueError(
                f"{self._precomputed_parameter()}='precomputed' has no features to go back to: fit on features instead."
            )
        missing: Array = np.isnan(largest_entries(self.landmarks_))
        if missing.any():
            raise ValueError(
                f"{missing.sum()} of {len(missing)} points to learn the way back from have NaN among their features. "
                "Fill them in before fitting."
            )
        if not hasattr(self, "_way_back"):
            self._way_back = InverseModel.of(self._dense_samples(), self._carriers[1], self._runner())
            ownership.freeze(self._way_back)
        return self._way_back

    def _answer_far(self, on_far: str, Z: Array, embedding: Array, trust: Trust, start: int = 0) -> None:
        far = np.flatnonzero(trust.flag)
        if not len(far) or (on_far in ("warn", "raise") and not self._judge_of_rows().alarms(trust.score, trust.flag)):
            return
        first = f"the first is row {start + far[0]}, p-value {trust.p_value[far[0]]:.2g}"
        if on_far == "raise":
            raise FarPointsError(
                f"{len(far)} of {len(Z)} rows lie outside the training data ({first}). Pass on_far='warn', 'nan' or "
                "'nearest' to embed the rest."
            )
        if on_far == "warn":
            self._warn_far(len(far), len(Z), first, 5)
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
            stacklevel=level,  # the warning names the caller of `transform`
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
        return parameters.threads(self.n_jobs, self.verbose)

    def _precomputed_parameter(self) -> str | None:
        for name in ("kernel", "metric"):
            value = getattr(self, name, None)
            if isinstance(value, str) and value == "precomputed":
                return name
        return None

    def _takes_nan(self) -> bool:
        """Return whether the metric measures over the features that two rows both have."""
        metric = getattr(self, "metric", None)
        name = metric.name if isinstance(metric, Metric) else metric
        return isinstance(name, str) and name == "nan_euclidean"

    def _validate(self, X: Data, *, reset: bool) -> Array:
        """Return the checked rows: an array, or ``SparseRows``, which are a copy."""
        if issparse(require_in_memory(X)) and self._refuses_sparse:
            raise TypeError(f"{type(self).__name__} does not take sparse matrices: {self._refuses_sparse}")
        given = self._precomputed_parameter()
        if given and not reset:
            return self._validate_given_rows(X, given)
        values: Array = validate_rows(self, X, reset=reset, least=2 if reset else 1, allow_nan=self._takes_nan())
        if issparse(values):
            if self._refuses_sparse:  # a table of sparse columns
                raise TypeError(f"{type(self).__name__} does not take sparse matrices: {self._refuses_sparse}")
            values = SparseRows.of(values, keep_zeros=given == "metric")
        if not given and reset:
            return values
        if not given:
            recipe = getattr(self, "_fitted_recipe", None)  # networks have none
            if recipe is not None and recipe.view.feature_metric is not None:
                recipe.view.feature_metric.check_directions(values, "rows")
            return self._like_fitted(values)
        return self._check_graph(values, given)

    def _check_graph(self, values: Array, given: str) -> Array:
        """Return a precomputed matrix, checked and symmetric; sparse only if the method takes graphs."""
        distances = given == "metric"
        check_square(values, given, self._needs_positive)
        if distances and isinstance(values, SparseRows):  # a copy: the caller's matrix stays as it is
            values.data[np.repeat(np.arange(len(values)), np.diff(values.indptr)) == values.indices] = 0.0
        if isinstance(values, SparseRows) and (not self._takes_graphs or (distances and stores_every_pair(values))):
            values = fill_in(values, type(self).__name__, distances)
        rule = getattr(self, "symmetrize", "error")
        return make_symmetric(values, rule, distances=distances, parameter=f"{given}='precomputed'")

    def _like_fitted(self, rows: Array) -> Array:
        """Return rows of features in the form of the fitted ones: sparse, or an array."""
        known = getattr(self, "landmarks_", None)  # networks have none, and take arrays only
        if self._precomputed_parameter() is not None:  # what is not stored is no 0
            return rows
        if known is None or isinstance(rows, SparseRows) == isinstance(known, SparseRows):
            return rows
        if isinstance(rows, SparseRows):
            told = f"This model was fitted to an array, and {len(rows)} sparse rows as an array need"
            check_fits(8.0 * rows.shape[0] * rows.shape[1], told, "Transform fewer rows at a time.")
        return like_rows(rows, known)

    def _fitted_sparse(self) -> bool:
        """Whether the rows of a precomputed matrix are those of a sparse graph."""
        model: Any = self.model_
        return model.rule.sees_nothing(SparseRows((0, 1))) is not None

    def _validate_given_rows(self, X: Data, given: str) -> Array:
        """Return checked distances or affinities to the anchors; X may hold those to all training rows."""
        values: Array = inputs.read_rows(X)
        inputs.check_size(values, 1, type(self).__name__)
        inputs.refuse_missing(values)
        if issparse(values):
            values = SparseRows.of(values, keep_zeros=given == "metric")
            if not self._fitted_sparse():  # of a full matrix, what is not stored is 0
                values = values.toarray()
        index: Any = self._columns
        if values.shape[1] == self.n_features_in_ and values.shape[1] != len(index):
            values = values[:, index]
        elif values.shape[1] != len(index):
            raise ValueError(describe_width(self, values.shape[1]))
        if self._needs_positive:
            check_positive(values, given)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self._precomputed_parameter() is not None
        tags.input_tags.pairwise = given
        tags.input_tags.positive_only = (given and self._needs_positive) or self._takes_no_negative_features
        tags.input_tags.allow_nan = self._takes_nan()
        extension, kernel = getattr(self, "extension", None), getattr(self, "kernel", None)
        dense_only = self._refuses_sparse or extension in ("linear", "net") or isinstance(extension, LinearMap | Net)
        dense_only = dense_only or callable(kernel) or kernel in DENSE_ONLY
        tags.input_tags.sparse = not dense_only and takes_sparse(getattr(self, "metric", "euclidean"))
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
