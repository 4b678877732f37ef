"""How many coordinates to keep: spectral gaps, the intrinsic dimension, and the diffusion time that leaves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Seed
from ..bandwidths import ALL_EQUAL, Slope
from ..data.inputs import read_rows
from ..data.sources import draw_numbers, open_parts
from ..distances import Metric, MetricLike
from ..graphs import AllPairs
from ..graphs.local_dimension import LIKELIHOOD_NEIGHBORS, dimension_of_points
from ..graphs.pair_statistics import even_sample
from ..methods.base import SpectralEstimator
from ..operators.spectrum import decay_rates, spectrum_sizes

GAPS = ("rate", "difference", "ratio")


def gap_dimension(eigenvalues: ArrayLike, *, by: str = "rate", t: float = 1.0) -> int | None:
    """Return how many eigenvalues lie before the largest gap of the spectrum.

    Equal eigenvalues have no gap between them, so a multiplet is never split. If gaps are equal, the first counts.
    Returns None if there is no gap, that is if all eigenvalues are equal.

    Parameters
    ----------
    eigenvalues : array of shape (n,)
        At least two, and one more than the largest answer.
    by : "rate", "difference" or "ratio"
        "rate": ``log |lambda_l+1| / log |lambda_l|``, the ratio of decay rates. It tends to that of the Laplacian's
        eigenvalues and depends on neither t nor, much, epsilon: circle 1, 1, 4, 4: 2; sphere 2, 2, 2, 6: 3. Where
        ``|lambda| = 1`` several times (clusters) their end is the gap. Needs ``|lambda| <= 1``.
        "difference": ``|lambda_l|^t - |lambda_l+1|^t``, the drop in the weights of the coordinates; the largest gap
        moves to the front as t grows.
        "ratio": ``|lambda_l| / |lambda_l+1|``, for centred kernels; at the rank it is infinite.
    t : float > 0
        Only ``by="difference"`` depends on it.

    >>> gap_dimension([0.95, 0.95, 0.81, 0.81, 0.62])
    2
    >>> gap_dimension([7.0, 6.0, 0.1], by="ratio")
    2
    """
    sizes = spectrum_sizes(eigenvalues)
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
            rates = decay_rates(sizes)
            gaps = np.nan_to_num(rates[1:] / rates[:-1], nan=1.0, posinf=np.inf) - 1
    return int(gaps.argmax()) + 1 if gaps.max() > 1e-9 else None


def slope_dimension(
    data: Data | SpectralEstimator, *, metric: MetricLike = "euclidean", n_jobs: int | None = None
) -> float:
    """Return the intrinsic dimension: twice the steepest slope of log sum_ij exp(-d_ij^2 / (2 epsilon)) in log epsilon.

    Near the right scale the sum grows like epsilon^(d/2) (Coifman, Shkolnisky, Sigworth and Singer, 2008). Edges, few
    rows and high dimensions pull the number down, noise at small scales up: round it. More than 4000 rows are replaced
    by an even sample of 2000; for a Dask collection, whose rows cannot be sorted, by a random sample of 2000.

    Parameters
    ----------
    data : array of shape (n, n_features), or a Dask collection, or a fitted method of this library
        A method stands for its anchors, with their weights and its metric.
    metric : name, callable or Metric
        The metric of an array; a method has its own.
    n_jobs : int or None

    >>> from outfold.datasets import sphere
    >>> round(slope_dimension(sphere(500, random_state=0)))
    2
    """
    points, measure, metric = _points_of(data, metric)
    if len(points) > 4000:
        kept = even_sample(points, 2000)
        points, measure = points[kept], measure[kept]
    found = Slope().bandwidth(AllPairs().statistics(Metric.of(metric), points, measure, Threads(n_jobs)))
    return float(found.dimension or 0.0)


def likelihood_dimension(
    data: Data | SpectralEstimator,
    *,
    n_neighbors: int = LIKELIHOOD_NEIGHBORS,
    metric: MetricLike = "euclidean",
    n_jobs: int | None = None,
) -> float:
    """Return the intrinsic dimension by maximum likelihood (Levina and Bickel, 2004).

    In d dimensions log(r_k / r_j), with r_j the distance of a row to neighbour j and k = ``n_neighbors``, has the mean
    1 / d. The result is the inverse of its mean over rows and j < k (MacKay and Ghahramani, 2005). Equal rows count as
    one. Noise in many features adds dimensions at the scale of the neighbours; few rows of a high dimension have fewer.
    Of more than 4000 rows the neighbours of an even sample are read; of more than 4000 rows of a Dask collection,
    whose rows cannot be sorted, only 2000 at random are used.

    Parameters
    ----------
    data : array of shape (n, n_features), or a Dask collection, or a fitted method of this library
        A method stands for its anchors, with their weights and its metric.
    n_neighbors : int
        Without the row itself; at least 2.
    metric : name, callable or Metric
        The metric of an array; a method has its own.
    n_jobs : int or None

    >>> from outfold.datasets import sphere
    >>> round(likelihood_dimension(sphere(500, random_state=0)))
    2
    """
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, int | np.integer) or n_neighbors < 2:
        raise ValueError(f"n_neighbors={n_neighbors!r} must be a whole number >= 2.")
    points, measure, metric = _points_of(data, metric)
    if (points == points[0]).all():
        raise ValueError(ALL_EQUAL)
    found = dimension_of_points(points, measure, Metric.of(metric), n_neighbors, Threads(n_jobs))
    if found is None:
        raise ValueError(
            f"The {n_neighbors} nearest neighbours of every row are equally far, so they show no dimension: there are "
            "too few different rows, or these lie on a grid. Raise n_neighbors."
        )
    return found


def _points_of(data: Data | SpectralEstimator, metric: MetricLike) -> tuple[Array, Array, MetricLike]:
    """Return the points of an array, a collection or a fitted method, their measure, and the metric."""
    measure = None
    if isinstance(data, SpectralEstimator):
        check_is_fitted(data)
        if (given := data._precomputed_parameter()) is not None:
            raise ValueError(f"{given}='precomputed' keeps no points to look at; pass features.")
        metric, measure, data = getattr(data, "metric", "euclidean"), data._anchor_measure, data.landmarks_
    points = np.ascontiguousarray(table_of_rows("data", draw_rows(data, 4000, 2000, 0), least=2))
    return points, np.ones(len(points)) if measure is None else np.asarray(measure, dtype=float), metric


# -- diffusion time ------------------------------------------------------------------------


def smallest_time(eigenvalues: ArrayLike, dimension: int, *, delta: float = 0.1, whole: bool = True) -> float:
    """Return the smallest t with s(delta, t) <= dimension: ``t = log delta / log(|lambda_d+1| / |lambda_1|)``.

    Parameters
    ----------
    eigenvalues : array of shape (more than dimension,)
    dimension : int
        How many coordinates may keep more than ``delta`` of the weight of the first.
    delta : float between 0 and 1
    whole : bool
        Round up to a whole number of steps.

    >>> from outfold.selection import spectral_dimension
    >>> smallest_time([0.9, 0.8, 0.45, 0.3], 2)
    4.0
    >>> spectral_dimension([0.9, 0.8, 0.45, 0.3], t=4), spectral_dimension([0.9, 0.8, 0.45, 0.3], t=3)
    (2, 3)
    """
    sizes = spectrum_sizes(eigenvalues)
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
    time = float(np.ceil(time - 1e-9 * time))  # `ratio**time == delta` is enough: rounding must not add a step
    return time if ratio**time <= delta * (1 + 1e-9) else time + 1


def draw_rows(X: Data, up_to: int, count: int, random_state: Seed) -> Data:
    """Return the rows of a collection, a random ``count`` if they exceed ``up_to``; X itself if it is in memory."""
    rows = open_parts(X, column=True)
    if rows is None:
        return X
    if len(rows) <= up_to:
        return rows.draw(np.arange(len(rows)))
    rows.check_draw(count)
    return rows.take(draw_numbers(len(rows), count, check_random_state(random_state)))


def table_of_rows(name: str, values: Data, *, least: int) -> Array:
    table = np.asarray(read_rows(values, name), dtype=float)
    if table.ndim != 2 or table.shape[0] < least or table.shape[1] < 1:
        raise ValueError(f"{name} must have shape (at least {least}, at least 1), but has {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} has NaN or infinite entries in {int((~np.isfinite(table)).any(axis=1).sum())} rows.")
    return table
