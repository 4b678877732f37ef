"""Dynamic mode decomposition: the linear evolution of the state, or of functions of it."""
# mypy: allow-subclassing-any

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .. import neighbors
from .._runtime.ownership import freeze
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data
from ..data import inputs
from ..distances import Metric
from ..methods import DiffusionMaps, parameters
from ..methods.rows import validate_rows
from .delays import Delays
from .series import Column, Series, SeriesData, read_series, return_features

SPURIOUS_FROM = 0.1  # of the size of an eigenfunction: an error of K phi = lambda phi beyond it makes a pair spurious
COMPARED_PAIRS_UP_TO = 2000  # pairs of states whose nearest pair is searched
DECODED_ROWS_UP_TO = 500  # rows on which the inverse transform of the dictionary and the modes are compared
DECODING_ROUNDING = 1e-12  # of the squares of states: smaller differences of errors decide nothing
MAPS_UP_TO = 10  # coordinates of the default dictionary
ROWS_PER_MAP = 10  # distinct states for each of them; fewer fit any future
LEAST_POINTS = 3  # distinct states of which diffusion maps has a coordinate


class DictionaryTransformer(Protocol):
    """A transformer with scikit-learn's methods."""

    def fit_transform(self, X: Array) -> Array: ...

    def transform(self, X: Array) -> Array: ...

    def inverse_transform(self, X: Array) -> Array:
        """Return the rows of transformed values, where the transformer can."""
        ...


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """The eigenpairs of a linear evolution of the dictionary: psi(x_t+1)' ~ psi(x_t)' K."""

    eigenvalues: Array  # (k,)
    weights: Array  # (p, k): the eigenfunctions are psi(x)' weights
    lifted: Array  # (k, p): psi(x)' ~ eigenfunctions(x) lifted
    modes: Array  # (k, d): x ~ eigenfunctions(x) modes
    residuals: Array  # (k,)
    spurious: Array  # (k,)


class KoopmanEstimator(TransformerMixin, BaseEstimator):
    """What DMD and EDMD share: eigenfunctions of the evolution, forecasts, and the way back to states."""

    rank: int | None
    regularisation: float
    _exact = False

    def _settings(self) -> tuple[object, bool]:
        """Return the dictionary, and whether eigenvalues are projected onto the unit disc."""
        raise AssertionError("an estimator defines its dictionary")

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, X: Data, y: object = None, *, series: Column = None, time: Column = None) -> Self:
        """Fit the evolution from all pairs of successive rows. Pairs never join two series or cross a gap.

        Parameters
        ----------
        X : array (n, d) of one series, list of such arrays, or frame indexed by (series, time)
        y : ignored
        series, time : array with an entry for each row, or name of a column, optional
            The series of each row, and its time.
        """
        fitted = copy.copy(self)
        fitted._fit(X, series, time)
        freeze(fitted)
        self.__dict__ = fitted.__dict__  # a fit that fails leaves self as it was
        return self

    def _fit(self, X: Data, series: Column, time: Column) -> None:
        given, stable = self._settings()
        rank = None if self.rank is None else parameters.count("rank", self.rank)
        ridge = parameters.number("regularisation", self.regularisation, low=0.0)
        found = read_series(X, series, time)
        validate_rows(self, found.table, reset=True, sparse=False)
        found.require(2, f"a pair of successive rows for {type(self).__name__}")
        self.dictionary_ = _dictionary_of(given, found.values)
        lifted = _lift(self.dictionary_, found.with_values(found.values), fit=True)
        lifted.require(2, f"a pair of successive rows after the delays of {type(self).__name__}")
        states = _states_of(found, lifted)
        self._adopt(decompose(lifted, states, rank=rank, ridge=ridge, exact=self._exact, stable=stable), found.step)
        self.decoder_ = "modes" if self._exact else self._choose_decoder(lifted.values, states)

    def _adopt(self, found: Decomposition, step: float) -> None:
        self.step_ = step
        self.eigenvalues_, self.modes_ = found.eigenvalues, found.modes
        self.residuals_, self.spurious_ = found.residuals, found.spurious
        self._weights, self._lifted = found.weights, found.lifted
        with np.errstate(divide="ignore"):
            angles = np.angle(found.eigenvalues)
            self.rates_ = np.log(np.abs(found.eigenvalues)) / step + 1j * (angles / step)
            self.periods_ = 2 * np.pi * step / np.abs(angles)

    def _choose_decoder(self, psi: Array, states: Array) -> str:
        """Return which way back to states has the smaller error on training rows."""
        if not hasattr(self.dictionary_, "inverse_transform"):
            return "modes"
        sample = slice(None, None, -(-len(psi) // DECODED_ROWS_UP_TO))
        functions = psi[sample] @ self._weights
        back = _as_array(self.dictionary_.inverse_transform((functions @ self._lifted).real))
        if back.shape != states[sample].shape:  # a FunctionTransformer without inverse_func returns its input
            return "modes"
        known = states[sample]
        errors = [_relative_error(known, found) for found in (back, (functions @ self.modes_).real)]
        return "dictionary" if errors[0] + DECODING_ROUNDING < errors[1] else "modes"

    # -- eigenfunctions and states ---------------------------------------------------------

    def fit_transform(self, X: Data, y: object = None, *, series: Column = None, time: Column = None) -> SeriesData:
        """Fit, then ``transform(X)``."""
        return self.fit(X, series=series, time=time).transform(X, series=series, time=time)

    def transform(self, X: Data, *, series: Column = None, time: Column = None) -> SeriesData:
        """Return the eigenfunctions at any states, complex, (n, k), in the form of X; polars stores them as objects.

        Parameters
        ----------
        X : rows, as in ``fit``
            With delays in the dictionary, series: rows without all their delays are dropped.
        series, time :
            As in ``fit``.
        """
        _, lifted = self._open(X, series, time)
        return return_features(self, lifted.with_values(lifted.values @ self._weights))

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Return the states of values of the eigenfunctions, (n, d).

        ``decoder_`` says how: by the modes, or by the inverse transform of the dictionary where that is closer on the
        training rows.

        Parameters
        ----------
        X : array of shape (n, k), complex
        """
        check_is_fitted(self)
        values = np.asarray(X)
        if values.ndim != 2 or values.shape[1] != len(self.eigenvalues_):
            raise ValueError(
                f"X has shape {values.shape}, and each row needs the values of {len(self.eigenvalues_)} "
                "eigenfunctions. Pass what transform returned."
            )
        return self._decode(values)

    def _decode(self, functions: Array) -> Array:
        if self.decoder_ == "modes":
            return np.asarray((functions @ self.modes_).real)
        return _as_array(self.dictionary_.inverse_transform((functions @ self._lifted).real))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the names of the eigenfunctions."""
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{number}" for number in range(len(self.eigenvalues_))], dtype=object)

    # -- evolution -------------------------------------------------------------------------

    def predict(
        self,
        initial: Data,
        *,
        steps: int | None = None,
        times: ArrayLike | None = None,
        series: Column = None,
        time: Column = None,
    ) -> SeriesData:
        """Return the states that follow the last row of each series.

        Parameters
        ----------
        initial : one state (d,), or series as in ``fit``
            With delays in the dictionary, each series must end with all the rows that they need.
        steps : int, optional
            How many steps; 1 without ``times``.
        times : array, optional
            Instead of steps: how long after the last row, in the unit of time of the fit (seconds for dates).
        series, time :
            As in ``fit``.

        Returns
        -------
        array of shape (steps, d) for one series, a list of these, or a frame whose index goes on from that of X
        """
        ahead = self._ahead(steps, times)
        found, lifted = self._open(_as_rows(initial), series, time, last=True)
        functions = (lifted.values @ self._weights)[lifted.ends()]
        later = self._evolve(functions[:, None], ahead[:, None] / self.step_)
        states = self._decode(later.reshape(-1, later.shape[2])).reshape(len(functions), len(ahead), -1)
        return found.form.extend(states, lifted.rows[lifted.ends()], ahead, self._names())

    def reconstruct(self, X: Data, *, series: Column = None, time: Column = None) -> SeriesData:
        """Return X as predicted from the first row of each stretch, in the form of X.

        With delays in the dictionary, a stretch begins with its first row that has all of them.

        Parameters
        ----------
        X, series, time :
            As in ``fit``.
        """
        _, lifted = self._open(X, series, time)
        ages = lifted.ages()
        first = np.arange(len(ages)) - ages
        later = self._evolve((lifted.values @ self._weights)[first], ages[:, None].astype(float))
        return lifted.with_values(self._decode(later)).restore(self._names())

    def score(self, X: Data, y: object = None, *, series: Column = None, time: Column = None) -> float:
        """Return R^2 one step ahead: ``1 - sum |x_t+1 - prediction|^2 / sum |x_t+1 - mean|^2``.

        Parameters
        ----------
        X, series, time :
            As in ``fit``.
        y : ignored
        """
        found, lifted = self._open(X, series, time)
        lifted.require(2, "a pair of successive rows")
        before, after = lifted.pairs()
        functions = lifted.values[before] @ self._weights
        predicted = self._decode(self._evolve(functions, np.ones((1, 1))))
        states = _states_of(found, lifted)[after]
        largest = np.abs(states).max() or 1.0  # squares of large values do not overflow
        variance = np.square((states - states.mean(axis=0)) / largest).sum()
        error = np.square((states - predicted) / largest).sum()
        return float(1 - error / variance) if variance > 0 else float(error == 0)

    def _evolve(self, functions: Array, powers: Array) -> Array:
        """Return the eigenfunctions ``powers`` steps later."""
        with np.errstate(over="ignore", invalid="ignore"):
            later = functions * self.eigenvalues_**powers
        if not np.isfinite(later).all():
            growth = np.abs(self.eigenvalues_).max()
            raise ValueError(
                f"The forecast grows beyond the largest number within {powers.max():g} steps: the largest eigenvalue "
                f"has size {growth:.6g}. Forecast fewer steps, or use EDMD(stable=True)."
            )
        return np.asarray(later)

    def _ahead(self, steps: int | None, times: ArrayLike | None) -> Array:
        check_is_fitted(self)
        if steps is not None and times is not None:
            raise ValueError("predict takes steps= (how many) or times= (how long after the last row), not both.")
        if times is None:
            return np.arange(1, parameters.count("steps", 1 if steps is None else steps) + 1) * self.step_
        values = np.atleast_1d(np.asarray(times))
        ahead = inputs.read_column(values, "times", len(values))
        if (ahead < 0).any():
            raise ValueError(f"times must be >= 0, after the last row; the smallest is {ahead.min():g}.")
        return ahead

    def _open(self, X: Data, series: Column, time: Column, *, last: bool = False) -> tuple[Series, Series]:
        """Return checked series, and the dictionary of their rows; with ``last`` of their last rows at least."""
        check_is_fitted(self)
        found = read_series(X, series, time, step=self.step_)
        validate_rows(self, found.table, reset=False, sparse=False)
        if last:
            reach = sum(part.reach for part in _steps(self.dictionary_) if isinstance(part, Delays))
            found.require_ends(reach + 1, "a forecast")
        return found, _lift(self.dictionary_, found.with_values(found.values), fit=False)

    def _names(self) -> list[str]:
        names: list[str] = _check_feature_names_in(self).tolist()
        return names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # eigenfunctions are complex
        return tags


@dataclass(eq=False, repr=False)
class DMD(KoopmanEstimator):
    """Exact dynamic mode decomposition: x_t+1 = A x_t, by least squares over all pairs of successive rows.

    With X0 and X1 the rows before and after, and X0 = U S V' cut at ``rank``, the eigenvalues are those of
    U' X1 V S^-1, and the modes eigenvectors of A (Tu, Rowley, Luchtenburg, Brunton and Kutz, 2014).

    Parameters
    ----------
    rank : int, optional
        How many singular values count; all that are not rounding if None.
    regularisation : float >= 0
        Ridge penalty, relative to the largest singular value squared.

    Attributes
    ----------
    eigenvalues_ : complex array of shape (k,)
        Of one step, the largest first.
    rates_ : complex array of shape (k,)
        log(eigenvalues) / step: growth in the real part, 2 pi frequency in the imaginary part.
    periods_ : array of shape (k,)
        ``2 pi / |imaginary part of the rate|``; infinite without oscillation.
    modes_ : complex array of shape (k, d)
        x(t) = sum of eigenfunctions times modes.
    residuals_ : array of shape (k,)
        ``|phi(x_t+1) - lambda phi(x_t)| / |phi(x_t)|``, root mean squares over the pairs.
    spurious_ : array of bool of shape (k,)
        Pairs that are no eigenpairs of the evolution: see :class:`EDMD`.
    step_ : float
        Time between two rows.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.5, 0.9]) ** np.arange(6)[:, None] @ [[1.0, 1.0], [1.0, -1.0]]
    >>> DMD().fit(x).eigenvalues_.real.round(6).tolist()
    [0.9, 0.5]
    """

    rank: int | None = None
    _: KW_ONLY
    regularisation: float = 0.0
    _exact = True

    def _settings(self) -> tuple[object, bool]:
        return "identity", False


@dataclass(eq=False, repr=False)
class EDMD(KoopmanEstimator):
    """Extended dynamic mode decomposition: the linear evolution of functions of the state, the Koopman operator.

    With psi the functions of the dictionary, psi(x_t+1)' = psi(x_t)' K by least squares over all pairs of successive
    rows, K w = lambda w, the eigenfunctions are phi(x) = psi(x)' w, and phi(x_t+1) = lambda phi(x_t) (Williams,
    Kevrekidis and Rowley, 2015). They are functions of any state, x is their combination by the modes, and each
    eigenpair has its residual (Colbrook and Townsend, 2024).

    Parameters
    ----------
    dictionary : transformer or Pipeline, "identity" or None
        None: a constant, coordinates of :class:`outfold.DiffusionMaps` (one for ten states, up to ten), and the state.
        Steps of a pipeline may be :class:`Delays`. Add a constant to a dictionary of your own if
        the states do not vary around 0.
    rank : int, optional
        How many singular values of the dictionary on the data count; all that are not rounding if None. The columns
        are first scaled to mean square 1.
    regularisation : float >= 0
        Ridge penalty, relative to the largest singular value squared.
    stable : bool
        Move eigenvalues outside the unit disc to its boundary, so that forecasts stay bounded.

    Attributes
    ----------
    eigenvalues_ : complex array of shape (k,)
        Of one step, the largest first.
    rates_ : complex array of shape (k,)
        log(eigenvalues) / step: growth in the real part, 2 pi frequency in the imaginary part.
    periods_ : array of shape (k,)
        ``2 pi / |imaginary part of the rate|``; infinite without oscillation.
    modes_ : complex array of shape (k, d)
        x(t) is about the sum of eigenfunctions times modes.
    residuals_ : array of shape (k,)
        ``|phi(x_t+1) - lambda phi(x_t)| / |phi(x_t)|``, root mean squares over the pairs. Noise of the process adds
        ``sqrt(1 - |lambda|^2)`` at most.
    spurious_ : array of bool of shape (k,)
        True if the error of K phi = lambda phi without noise is above 0.1 by two standard errors. With
        r = phi(x_t+1) - lambda phi(x_t), its square is the mean of r times the conjugate r of the pair whose state is
        nearest: noise of two pairs is independent and cancels, an error that is a function of the state does not. In
        high dimensions the nearest state is far, and fewer are flagged.
    decoder_ : "modes" or "dictionary"
        How ``predict`` and ``inverse_transform`` return to states.
    dictionary_ : the fitted dictionary
    step_ : float
        Time between two rows.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> x = 0.9 ** np.arange(20)[:, None]
    >>> EDMD(PolynomialFeatures(2)).fit(x).eigenvalues_.real.round(6).tolist()
    [1.0, 0.9, 0.81]
    """

    dictionary: DictionaryTransformer | str | None = None
    _: KW_ONLY
    rank: int | None = None
    regularisation: float = 0.0
    stable: bool = False

    def _settings(self) -> tuple[object, bool]:
        return self.dictionary, parameters.flag("stable", self.stable)


# -- the dictionary ------------------------------------------------------------------------


def _dictionary_of(given: object, states: Array) -> DictionaryTransformer:
    """Return an unfitted dictionary."""
    if isinstance(given, str):
        parameters.one_of("dictionary", given, ("identity",))
        return FunctionTransformer()  # type: ignore[no-any-return]
    if given is None:
        parts = [("constant", FunctionTransformer(_ones)), ("state", FunctionTransformer())]
        distinct = len(np.unique(states, axis=0))
        if distinct >= LEAST_POINTS:
            count = max(1, min(MAPS_UP_TO, distinct // ROWS_PER_MAP))
            parts.insert(1, ("maps", DiffusionMaps(count)))
        return FeatureUnion(parts)  # type: ignore[no-any-return]
    if inspect.isclass(given) or not hasattr(given, "fit") or not hasattr(given, "transform"):
        hint = f"{given.__name__}()" if inspect.isclass(given) else "PolynomialFeatures(3)"
        raise TypeError(
            f"dictionary={parameters.show_value(given)} must be a transformer, such as {hint}, 'identity' or None."
        )
    return clone(given)  # type: ignore[no-any-return]


def _ones(X: Array) -> Array:
    return np.ones((len(X), 1))


def _steps(dictionary: object) -> Iterator[object]:
    """Yield the transformers of a dictionary in the order in which they are applied."""
    if not isinstance(dictionary, Pipeline):
        yield dictionary
        return
    for _, part in dictionary.steps:
        if part is not None and part != "passthrough":
            yield from _steps(part)


def _lift(dictionary: object, found: Series, *, fit: bool) -> Series:
    """Return the functions of the dictionary on series; delays drop rows."""
    for part in _steps(dictionary):
        if isinstance(part, Delays):
            found = part.fit_series(found) if fit else part.transform_series(found)
            continue
        step: DictionaryTransformer = part  # type: ignore[assignment]
        values = _as_array(step.fit_transform(found.values) if fit else step.transform(found.values))
        if len(values) != len(found.values):
            raise ValueError(
                f"{type(part).__name__} returned {len(values)} rows for {len(found.values)}. In a dictionary only "
                "Delays may drop rows, as a step of a Pipeline: make_pipeline(Delays(3), ...)."
            )
        found = found.with_values(values)
    return found


def _as_array(values: object) -> Array:
    dense = values.toarray() if issparse(values) else values  # type: ignore[attr-defined]
    return np.asarray(inputs.read_rows(dense, "the result of the dictionary"), dtype=float)


def _as_rows(initial: Data) -> Data:
    """Return a single state as a series of one row, and anything else as it is."""
    if isinstance(initial, list | tuple):
        return [list(initial)] if all(np.ndim(entry) == 0 for entry in initial) else initial
    return initial[None] if isinstance(initial, np.ndarray) and initial.ndim == 1 else initial


def _relative_error(states: Array, found: Array) -> float:
    """Return the sum of squared errors over that of the states."""
    largest = np.abs(states).max() or 1.0  # squares of large values do not overflow
    return float(np.square((found - states) / largest).sum() / (np.square(states / largest).sum() or 1.0))


def _states_of(found: Series, lifted: Series) -> Array:
    """Return the states of the rows that the dictionary left."""
    place = np.empty(len(found.rows), dtype=int)
    place[found.rows] = np.arange(len(found.rows))
    return found.values[place[lifted.rows]]


# -- the decomposition ---------------------------------------------------------------------


def decompose(
    lifted: Series, states: Array, *, rank: int | None, ridge: float, exact: bool, stable: bool
) -> Decomposition:
    """Return the eigenpairs of K, of all pairs of successive rows.

    With psi(x_t) = U S V' and z = S^-1 V' psi, K is similar to F U' psi(x_t+1) V S^-1, F = S^2 / (S^2 + penalty).
    """
    before, after = lifted.pairs()
    psi, later = lifted.values[before], lifted.values[after]
    scale = np.ones(psi.shape[1]) if exact else _mean_sizes(psi)
    U, S, Vt = _singular_values(psi / scale, rank)
    shares = S / S[0]
    shrink = shares**2 / (shares**2 + ridge)
    whiten = Vt.T / S / scale[:, None]  # (p, r): psi whiten = U
    evolution = shrink[:, None] * (U.T @ (later @ whiten))
    eigenvalues, vectors = (part.astype(complex) for part in np.linalg.eig(evolution))
    if stable:
        eigenvalues = eigenvalues / np.maximum(np.abs(eigenvalues), 1.0)
    order = _order(eigenvalues)
    eigenvalues, vectors = eigenvalues[order], vectors[:, order] * np.sqrt(len(U))
    vectors = vectors / _phases(U @ vectors, states[before])
    back = np.linalg.pinv(vectors)
    modes = back @ (U.T @ states[before])
    if exact:
        moving = np.abs(eigenvalues) > 1e-12 * np.abs(eigenvalues).max()
        advanced = back @ (shrink[:, None] * (U.T @ states[after]))
        modes[moving] = advanced[moving] / eigenvalues[moving, None]
    errors = (later @ whiten) @ vectors - eigenvalues * (U @ vectors)
    return Decomposition(
        eigenvalues=eigenvalues,
        weights=whiten @ vectors,
        lifted=(back * S) @ (Vt * scale),
        modes=modes,
        residuals=np.sqrt(np.mean(np.abs(errors) ** 2, axis=0)),
        spurious=_flag_spurious(errors, U * shares),
    )


def _mean_sizes(psi: Array) -> Array:
    """Return the root mean square of each column, 1 for a column of zeros; squares of large values do not overflow."""
    largest = np.abs(psi).max(axis=0)
    largest[largest == 0] = 1.0
    sizes = largest * np.sqrt(np.mean((psi / largest) ** 2, axis=0))
    return np.where(sizes > 0, sizes, 1.0)


def _singular_values(psi: Array, rank: int | None) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition, cut at the rank."""
    U, S, Vt = np.linalg.svd(psi, full_matrices=False)
    full = int((S / (S[0] or 1.0) > max(psi.shape) * np.finfo(float).eps).sum())
    if not full:
        raise ValueError("All rows are 0, so nothing evolves. Pass other states, or a dictionary with a constant.")
    if rank is not None and rank > full:
        raise ValueError(
            f"rank={rank} is more than the rank of the data, {full}: {len(psi)} pairs of rows, {psi.shape[1]} "
            "functions. Lower it, or pass None."
        )
    kept = full if rank is None else rank
    return U[:, :kept], S[:kept], Vt[:kept]


def _order(eigenvalues: Array) -> Array:
    """Return the order: the largest first, then slow before fast; of two conjugates the positive angle."""
    angles = np.angle(eigenvalues)
    return np.lexsort((angles < 0, np.abs(angles).round(9), -np.abs(eigenvalues).round(9)))


def _phases(functions: Array, states: Array) -> Array:
    """Return the phase of each eigenfunction, a sign if it is real: that of its mean against a generic function."""
    centred = states - states.mean(axis=0)
    centred = centred / (np.abs(centred).max() or 1.0)
    centred = centred / (np.sqrt(np.mean(centred**2)) or 1.0)
    speeds = 1 + np.modf(np.arange(1, states.shape[1] + 1) * (np.sqrt(5) - 1) / 2)[0]
    probes = [0.5 + np.sin(k * centred @ speeds / np.sqrt(len(speeds)) + 0.5) for k in (1, 2, 3)]
    scores = np.array(probes) @ functions / len(states)  # (3, k)
    clear = np.abs(scores) > 1e-3
    chosen = np.where(clear.any(axis=0), clear.argmax(axis=0), np.abs(scores).argmax(axis=0))
    score = scores[chosen, np.arange(scores.shape[1])]
    return np.where(score == 0, 1.0, score / np.where(score == 0, 1.0, np.abs(score)))


def _flag_spurious(errors: Array, points: Array) -> Array:
    """Return which eigenpairs have an error beyond ``SPURIOUS_FROM`` that neighbouring states share, (k,)."""
    n = len(points)
    if n < 3:
        return np.zeros(errors.shape[1], dtype=bool)
    sample = np.arange(0, n, -(-n // COMPARED_PAIRS_UP_TO))
    runner = Threads()
    lists = neighbors.build(Metric().fit(np.ascontiguousarray(points)), "auto", runner).closest(
        np.ascontiguousarray(points[sample]), 2, runner
    )
    first, second = lists.index[lists.ptr[:-1]], lists.index[lists.ptr[:-1] + 1]
    nearest = np.where(first == sample, second, first)
    shared = (errors[sample] * errors[nearest].conj()).real
    error = shared.std(axis=0) / np.sqrt(len(sample))
    return np.asarray(shared.mean(axis=0) - 2 * error > SPURIOUS_FROM**2)
