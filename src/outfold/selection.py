"""How many coordinates are worth keeping, which ones, and for how long to diffuse.

Eigenvalues here are those of a Markov kernel without the trivial 1: ``eigenvalues_`` of DiffusionMaps and Roseland as
they are (t counts the steps of the method: one of Roseland is two of diffusion maps), and ``1 - eigenvalues_`` of
LaplacianEigenmaps, whose own are small where a Markov kernel's are large. A centred kernel (KernelPCA, ClassicalMDS,
Isomap) has eigenvalues of any size: criteria that compare ``|lambda|`` with ``|lambda_1|`` read them as they are, those
that need ``|lambda| <= 1`` say so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .bandwidths import Slope
from .distances import Metric
from .graphs import AllPairs, survey
from .runners import Threads, row_blocks
from .sources import in_dask
from .surveys import even_sample

if TYPE_CHECKING:
    from .tuning import Tuning, tune

Array = NDArray[Any]

GAPS = ("rate", "difference", "ratio")
RIDGE = 1e-6  # of the spread: a row with one neighbour in reach has no slope of its own
LEAST = 0.4  # the residual of a new direction, if nothing else is said


def __getattr__(name: str) -> Any:
    """The search stands on the methods, and they on this module: it is loaded when it is asked for."""
    if name in ("Tuning", "tune"):
        return getattr(import_module(".tuning", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- dimension -----------------------------------------------------------------------------


def spectral_dimension(eigenvalues: NDArray[Any], *, t: float = 1.0, delta: float = 0.1) -> int | None:
    """``s(delta, t) = max{l : |lambda_l|^t > delta |lambda_1|^t}`` over non-trivial eigenvalues.

    Returns None ("not reached") if every given eigenvalue passes, so that more are needed to tell.

    >>> spectral_dimension([0.9, 0.8, 0.05, 0.01])
    2
    >>> spectral_dimension([0.9, 0.8]) is None
    True
    """
    sizes = _sizes(eigenvalues)
    passing = int(((sizes / sizes[0]) ** t > delta).sum())
    return None if passing == len(sizes) else passing


def gap_dimension(eigenvalues: Any, *, by: str = "rate", t: float = 1.0) -> int | None:
    """How many eigenvalues lie before the largest gap of the spectrum.

    Equal eigenvalues have no gap between them, so a multiplet is kept or left as a whole. Of equal gaps the first
    counts. None if there is no gap: all given eigenvalues are equal.

    Parameters
    ----------
    eigenvalues : array of shape (n,)
        At least two, and one more than the largest answer.
    by : "rate", "difference" or "ratio"
        "rate": ``log |lambda_l+1| / log |lambda_l|``, the ratio of decay rates. It tends to that of the Laplacian's
        eigenvalues and depends on neither t nor, much, epsilon: circle 1, 1, 4, 4: 2; sphere 2, 2, 2, 6: 3. Where
        ``|lambda| = 1`` several times (clusters) their end is the gap. Needs ``|lambda| <= 1``.
        "difference": ``|lambda_l|^t - |lambda_l+1|^t``, what weights of coordinates lose: moves to the front as t
        grows.
        "ratio": ``|lambda_l| / |lambda_l+1|``, for centred kernels; at the rank it is infinite.
    t : float > 0
        Only the difference depends on it.

    >>> gap_dimension([0.95, 0.95, 0.81, 0.81, 0.62])
    2
    >>> gap_dimension([7.0, 6.0, 0.1], by="ratio")
    2
    """
    sizes = _sizes(eigenvalues)
    if by not in GAPS:
        raise ValueError(f"by={by!r} is not known. Valid: {', '.join(map(repr, GAPS))}.")
    if len(sizes) < 2:
        raise ValueError("A gap lies between two eigenvalues, but only one was given. Fit more components.")
    with np.errstate(divide="ignore", invalid="ignore"):
        if by == "difference":
            gaps = sizes[:-1] ** t - sizes[1:] ** t
        elif by == "ratio":
            gaps = np.nan_to_num(sizes[:-1] / sizes[1:], nan=1.0, posinf=np.inf) - 1
        else:
            rates = _rates(sizes)
            gaps = np.nan_to_num(rates[1:] / rates[:-1], nan=1.0, posinf=np.inf) - 1
    return int(gaps.argmax()) + 1 if gaps.max() > 1e-9 else None


def slope_dimension(data: Any, *, metric: Any = "euclidean", n_jobs: int | None = None) -> float:
    """The intrinsic dimension as twice the steepest slope of log sum_ij exp(-d_ij^2 / (2 epsilon)) in log epsilon.

    Near the right scale the sum grows like epsilon^(d/2) (Coifman, Shkolnisky, Sigworth and Singer, 2008). Edges, few
    rows and high dimensions pull the number down, noise at small scales up: round it. Beyond 4000 rows an even sample
    of 2000 is looked at; of Dask's rows, which are not put in order, a random one.

    Parameters
    ----------
    data : array of shape (n, n_features), or Dask's, or a fitted method of this library
        Of a method its anchors, with their weights and its metric.
    metric : name, callable or Metric
        For arrays.
    n_jobs : int or None

    >>> from outfold.datasets import sphere
    >>> round(slope_dimension(sphere(500, random_state=0)))
    2
    """
    measure = None
    if hasattr(data, "report_"):
        if data._precomputed():
            raise ValueError(f"{data._precomputed()}='precomputed' keeps no points to look at; pass features.")
        metric, measure, data = getattr(data, "metric", "euclidean"), data._anchor_measure, data.landmarks_
    if in_dask(data):
        data = _drawn("data", data, 4000, 2000, 0)
    points = np.ascontiguousarray(_table("data", data, least=2))
    measure = np.ones(len(points)) if measure is None else np.asarray(measure, dtype=float)
    if len(points) > 4000:
        kept = even_sample(points, 2000)
        points, measure = points[kept], measure[kept]
    found = Slope().bandwidth(survey(AllPairs(), Metric.of(metric), points, measure, Threads(n_jobs)))
    return float(found.dimension or 0.0)


# -- diffusion time ------------------------------------------------------------------------


def smallest_time(eigenvalues: Any, dimension: int, *, delta: float = 0.1, whole: bool = True) -> float:
    """The smallest t with s(delta, t) <= dimension: ``t = log delta / log(|lambda_d+1| / |lambda_1|)``.

    Parameters
    ----------
    eigenvalues : array of shape (more than dimension,)
    dimension : int
        How many coordinates may keep more than ``delta`` of the weight of the first.
    delta : float between 0 and 1
    whole : bool
        Round up to a whole number of steps.

    >>> smallest_time([0.9, 0.8, 0.45, 0.3], 2)
    4.0
    >>> spectral_dimension([0.9, 0.8, 0.45, 0.3], t=4), spectral_dimension([0.9, 0.8, 0.45, 0.3], t=3)
    (2, 3)
    """
    sizes = _sizes(eigenvalues)
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta!r} must lie between 0 and 1.")
    if not 1 <= dimension < len(sizes):
        raise ValueError(
            f"dimension={dimension} needs eigenvalue {dimension + 1} to fall below delta, but there are {len(sizes)}. "
            f"Pass 1 to {len(sizes) - 1}, or fit more components."
        )
    ratio = max(sizes[dimension] / sizes[0], np.finfo(float).tiny)
    if ratio > 1 - 1e-12:
        equal = int((sizes > sizes[0] * (1 - 1e-12)).sum())
        raise ValueError(
            f"No time leaves {dimension} coordinates: the first {equal} eigenvalues are equal ({sizes[0]:.6g}) and "
            f"stay so for every t. Ask for dimension >= {equal}."
        )
    time = float(np.log(delta) / np.log(ratio))
    if not whole:
        return time
    time = float(np.ceil(time - 1e-9 * time))  # equality reaches it; rounding must not add a step
    return time if ratio**time <= delta * (1 + 1e-9) else time + 1


def spectral_entropy(eigenvalues: Any, times: Any, *, trivial: bool = True) -> Array:
    """The von Neumann entropy of P^t at each time: H(t) = -sum eta log eta, ``eta = |lambda|^t / sum |lambda|^t``.

    Parameters
    ----------
    eigenvalues : array
        Those left out count as zero: at small t give as many as can be had.
    times : array
    trivial : bool
        Add the trivial eigenvalue 1, which those of a Markov kernel come without; False for centred kernels.

    >>> spectral_entropy([1.0], [1, 2]).round(4).tolist()
    [0.6931, 0.6931]
    """
    sizes = _sizes(eigenvalues)
    sizes = np.append(1.0, sizes) if trivial else sizes / sizes[0]
    with np.errstate(divide="ignore"):
        logs = np.outer(np.asarray(times, dtype=float), np.log(sizes))
    powers = np.exp(logs)  # (times, eigenvalues)
    total = powers.sum(axis=1)
    return np.log(total) - (powers * np.where(powers > 0, logs, 0.0)).sum(axis=1) / total


def entropy_time(eigenvalues: Any, *, t_max: int = 100, trivial: bool = True) -> int:
    """The knee of the entropy of P^t over t = 1 .. t_max: where noise is gone and structure starts to go.

    Small eigenvalues vanish first and fast, those of the structure later and slowly (Moon et al., 2019). The knee is
    where two straight lines, one up to it and one from it, fit H best in least squares. 1 if H does not fall.

    >>> entropy_time(np.append([0.999, 0.998], np.full(200, 0.5)))
    11
    """
    if t_max < 4:
        raise ValueError(f"t_max={t_max} is too short: two lines need t = 1 to 4 at least.")
    times = np.arange(1.0, t_max + 1)
    entropy = spectral_entropy(eigenvalues, times, trivial=trivial)
    if np.ptp(entropy) < 1e-9:
        return 1
    left = _line_errors(times, entropy)
    right = _line_errors(times[::-1], entropy[::-1])[::-1]
    inner = slice(1, -1)  # each line has two points
    return int(times[inner][(left + right)[inner].argmin()])


def _line_errors(x: Array, y: Array) -> Array:
    """Squared error of the best line through the first 1, 2, ... points."""
    x, y = x - x[0], y - y[0]
    count = np.arange(1, len(x) + 1)
    sums = [np.cumsum(part) for part in (x, y, x * x, x * y, y * y)]
    X, Y, XX, XY, YY = sums
    spread = np.maximum(XX - X * X / count, np.finfo(float).tiny)
    return np.maximum(YY - Y * Y / count - (XY - X * Y / count) ** 2 / spread, 0.0)


# -- which eigenvectors --------------------------------------------------------------------


def residuals(
    eigenvectors: Any,
    *,
    scale: float = 1 / 3,
    standardize: bool = True,
    rows: int = 2000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Array:
    """How much of each eigenvector those before it leave unexplained: near 1 a new direction, near 0 a harmonic.

    psi_k(i) is predicted by a linear regression on psi_1 .. psi_k-1 over the other rows j, weighted by
    ``exp(-|Psi_i - Psi_j|^2 / h^2)``, h = scale * median distance, Psi = (psi_1, ..., psi_k-1), with a ridge of 1e-6 of
    the variance of Psi on the slopes. Then
    r_k^2 = sum_i (psi_k(i) - prediction)^2 / sum_i (psi_k(i) - mean)^2 and r_1 = 1 (Dsilva, Talmon, Coifman and
    Kevrekidis, 2018).

    Parameters
    ----------
    eigenvectors : array of shape (n, k), or Dask's
        In the order of their eigenvalues.
    scale : float > 0
        Of the bandwidth; the paper's is 1/3.
    standardize : bool
        Bring columns to variance 1 first, as eigenvectors have it: an embedding's weights lambda^t then do not count.
    rows : int
        Of more a random part is looked at.
    random_state : int, RandomState or None
    n_jobs : int or None

    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> residuals(np.cos(np.pi * np.column_stack([x[:, 0], 2 * x[:, 0], x[:, 1]]))).round(2).tolist()
    [1.0, 0.07, 1.0]
    """
    if not scale > 0 or not np.isfinite(scale):
        raise ValueError(f"scale={scale!r} must be a positive number.")
    if rows < 2:
        raise ValueError(f"rows={rows} is too few: a regression needs 2 rows at least.")
    if in_dask(eigenvectors):
        eigenvectors = _drawn("eigenvectors", eigenvectors, rows, rows, random_state)
    vectors = _table("eigenvectors", eigenvectors, least=2)
    if len(vectors) > rows:
        vectors = vectors[np.sort(check_random_state(random_state).permutation(len(vectors))[:rows])]
    vectors = vectors - vectors.mean(axis=0)
    spread = np.sqrt((vectors**2).mean(axis=0))
    largest = max(float(spread.max()), np.finfo(float).tiny)
    constant = spread <= 1e-12 * largest
    vectors = vectors / (np.where(constant, 1.0, spread) if standardize else largest)
    found = np.ones(vectors.shape[1])
    runner = Threads(n_jobs)
    for k in range(1, vectors.shape[1]):
        if constant[k]:
            found[k] = 0.0
            continue
        left = vectors[:, k] - _predicted(vectors[:, :k], vectors[:, k], scale, runner)
        found[k] = np.sqrt((left**2).sum() / (vectors[:, k] ** 2).sum())
    return found


def _predicted(known: Array, wanted: Array, scale: float, runner: Threads) -> Array:
    """Each row's value by a weighted linear regression over the others."""
    n, k = known.shape
    distances = Metric().fit(np.ascontiguousarray(known))
    squared = distances.gram(runner)
    width = _width(squared, scale)
    pair = np.triu_indices(k)
    moments = np.column_stack(
        [np.ones(n), wanted, known, known * wanted[:, None], known[:, pair[0]] * known[:, pair[1]]]
    )
    ridge = RIDGE * float((known**2).mean(axis=0).sum()) * np.eye(k)

    def of(block: slice) -> Array:
        logs = squared[block] / -(width**2)
        at = np.arange(block.start, block.stop)
        logs[np.arange(len(at)), at] = -np.inf  # a row is not its own witness
        logs -= logs.max(axis=1, keepdims=True)
        sums = np.exp(logs) @ moments
        sums /= sums[:, :1]
        value, centre, cross = sums[:, 1], sums[:, 2 : 2 + k], sums[:, 2 + k : 2 + 2 * k]
        second = np.empty((len(at), k, k))
        second[:, pair[0], pair[1]] = second[:, pair[1], pair[0]] = sums[:, 2 + 2 * k :]
        second += ridge - centre[:, :, None] * centre[:, None, :]
        slope = np.linalg.solve(second, (cross - centre * value[:, None])[:, :, None])[:, :, 0]
        return value + ((known[block] - centre) * slope).sum(axis=1)

    return np.concatenate(list(runner.map(of, row_blocks(n, n), "regressions")))


def _width(squared: Array, scale: float) -> float:
    """scale * the median distance of distinct rows (of two groups of copies the median of all may be zero)."""
    lengths = np.sqrt(squared[np.triu_indices(len(squared), 1)])
    lengths = lengths[lengths > 0] if np.median(lengths) == 0 else lengths
    return scale * float(np.median(lengths)) if len(lengths) else 1.0


class LocalLinearSelection(SelectorMixin, BaseEstimator):
    """Keep the coordinates of an embedding that are not functions of earlier ones.

    By :func:`residuals`: r_k near 1 is a new direction, near 0 a harmonic of those before (on a strip of length a
    cos(2 pi x / a) is a function of cos(pi x / a)). Use it in a pipeline after any method, with more components than
    are wanted in the end.

    Parameters
    ----------
    n_components : int, optional
        Keep so many, those with the largest residuals: the intrinsic dimension, where that many coordinates suffice.
    threshold : float between 0 and 1, optional
        Keep those with a larger residual; 0.4 if neither is given. With both, at most ``n_components`` of them.
    scale, standardize, rows, random_state, n_jobs :
        As in :func:`residuals`.

    Attributes
    ----------
    residuals_ : array of shape (n_features,)

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from outfold import DiffusionMaps
    >>> strip = np.random.default_rng(0).uniform(size=(600, 2)) * [3.2, 1]
    >>> pipeline = make_pipeline(DiffusionMaps(6), LocalLinearSelection(2)).fit(strip)
    >>> pipeline[-1].get_support(indices=True).tolist()
    [0, 3]
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        threshold: float | None = None,
        scale: float = 1 / 3,
        standardize: bool = True,
        rows: int = 2000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.threshold = threshold
        self.scale = scale
        self.standardize = standardize
        self.rows = rows
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the residuals of the columns of an embedding.

        Parameters
        ----------
        X : array of shape (n_samples, n_coordinates), in the order of the eigenvalues
            Of Dask's, ``rows`` are drawn; ``transform`` then gives a lazy collection.
        y : ignored
        """
        names = [str(name) for name in X.columns] if in_dask(X) and hasattr(X, "columns") else None
        if in_dask(X):
            X = _drawn("X", X, self.rows, self.rows, self.random_state)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        wanted, least = self.n_components, self.threshold
        if wanted is not None and not 1 <= wanted <= X.shape[1]:
            raise ValueError(f"n_components={wanted} must be 1 to {X.shape[1]}, as many as there are coordinates.")
        if least is not None and not 0 <= least < 1:
            raise ValueError(f"threshold={least!r} must be >= 0 and below 1, which is the residual of the first.")
        self.residuals_ = residuals(
            X,
            scale=self.scale,
            standardize=self.standardize,
            rows=self.rows,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        kept = np.zeros(len(self.residuals_), dtype=bool)
        first = np.append(np.inf, self.residuals_[1:])  # of noise others may exceed 1
        kept[np.argsort(-first, kind="stable")[:wanted]] = True
        if least is not None or wanted is None:
            kept &= self.residuals_ > (LEAST if least is None else least)
        self._kept = kept
        return self

    def transform(self, X: Any) -> Any:
        """The coordinates that are kept; of Dask's rows a lazy collection.

        Parameters
        ----------
        X : array of shape (n_samples, n_coordinates)
        """
        if not in_dask(X):
            return super().transform(X)
        from ._lazy import check_container

        check_container(self)
        kept = self.get_support(indices=True)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} columns, but the fit had {self.n_features_in_} coordinates.")
        return X[[X.columns[at] for at in kept]] if hasattr(X, "columns") else X[:, kept]

    def inverse_transform(self, X: Any) -> Any:
        """All coordinates, with 0 for those that were not kept; of Dask's rows a lazy array.

        Parameters
        ----------
        X : array of shape (n_samples, kept coordinates)
        """
        if not in_dask(X):
            return super().inverse_transform(X)
        from .scale import mapped

        return mapped(super().inverse_transform, X, len(self.residuals_))

    def _get_support_mask(self) -> Array:
        check_is_fitted(self, "residuals_")
        return self._kept


# -- what is given -------------------------------------------------------------------------


def _sizes(eigenvalues: Any) -> Array:
    """|lambda|, largest first."""
    sizes = np.abs(np.asarray(eigenvalues, dtype=float))
    if sizes.ndim != 1:
        raise ValueError(f"Eigenvalues come as one row of numbers; got shape {sizes.shape}.")
    if not np.isfinite(sizes).all():
        raise ValueError(f"{int((~np.isfinite(sizes)).sum())} of {len(sizes)} eigenvalues are NaN or infinite.")
    if not len(sizes) or not sizes.any():
        raise ValueError("There is no non-zero eigenvalue to choose a dimension from.")
    return np.sort(sizes)[::-1]


def _rates(sizes: Array) -> Array:
    """-log |lambda|, zero where it is 1 to rounding."""
    if sizes[0] > 1 + 1e-9:
        raise ValueError(
            f"Decay rates are those of a Markov kernel, whose |lambda| <= 1, but the largest given is {sizes[0]:.4g}. "
            "Of a Laplacian pass 1 - mu; of a centred kernel pass by='ratio'."
        )
    rates = -np.log(np.minimum(sizes, 1.0))
    return np.where(rates < 1e-12, 0.0, rates)


def _drawn(name: str, X: Any, most: int, count: int, random_state: Any) -> Array:
    """Dask's rows: all of no more than ``most``, else so many at random."""
    from ._spread_quality import some_of

    return some_of(name, X, most, count, check_random_state(random_state))


def _table(name: str, values: Any, *, least: int) -> Array:
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.shape[0] < least or table.shape[1] < 1:
        raise ValueError(f"{name} must have shape (at least {least}, at least 1), but has {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} has NaN or infinite entries in {int((~np.isfinite(table)).any(axis=1).sum())} rows.")
    return table


__all__ = [
    "LocalLinearSelection",
    "Tuning",
    "entropy_time",
    "gap_dimension",
    "residuals",
    "slope_dimension",
    "smallest_time",
    "spectral_dimension",
    "spectral_entropy",
    "tune",
]
