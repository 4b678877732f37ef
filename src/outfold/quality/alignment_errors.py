"""Differences between two embeddings of the same rows, as sums over rows in memory or in partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import qr
from scipy.linalg import subspace_angles as angles_between

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data, Weights
from ..data.sources import put_beside, require_in_memory
from ..data.weights import weights_on
from ..extensions.alignment import Alignment, RowMoments, find_moments, mark_rows, pair_embeddings
from .tables import read_table


def aligned_error(moving: Data, fixed: Data, *, rescale: bool = True) -> float:
    """Return the root mean squared distance after alignment, relative to that of ``fixed`` from its mean: 0 is best.

    ``sqrt(sum_i |A(m_i) - f_i|^2 / sum_i |f_i - mean f|^2)``, A the best rigid motion, with a scale if ``rescale``.

    Parameters
    ----------
    moving, fixed : arrays of shape (n, n_components), or Dask collections
        Embeddings of the same rows; Dask collections are summed partition by partition.
    rescale : bool
        Whether the size may change too.

    Examples
    --------
    >>> import numpy as np
    >>> fixed = np.random.default_rng(0).normal(size=(50, 2))
    >>> bool(aligned_error(3 * fixed[:, ::-1] + 1, fixed) < 1e-12)
    True
    """
    rows = pair_embeddings(read_table("moving", moving), read_table("fixed", fixed))
    moments = find_moments(rows, None, RowMoments())
    look = ResidualSquares(Alignment.of_moments(moments, rescale))
    squares, mass = rows.reduce(look, np.add, measure=None, runner=Threads(1), title="distances")
    count = rows.shape[1] // 2
    return float(np.sqrt(squares / (mass * np.trace(moments.scatter[count:, count:]))))


def aligned_mse(
    moving: Data, fixed: Data, *, fit_rows: ArrayLike, weights: Weights = None, centre: bool = False
) -> float:
    """Return the mean squared distance of two embeddings on held-out rows, after a rotation fitted on ``fit_rows``.

    With S = M' F over ``fit_rows`` and S = U L V', R = U V': the mean of ``|F(x) - M(x) R|^2`` over the other
    rows (Dorado, 2018, section 3.1.2, whose R is transposed).

    Parameters
    ----------
    moving, fixed : arrays of shape (n, n_components), or Dask collections
        Embeddings of the same rows; ``fixed`` is the true one. Dask collections are summed partition by partition.
    fit_rows : array of int or bool
        The rows that R is computed from: the landmarks.
    weights : array of shape (n,), optional
        How much each row counts, in R and in the mean.
    centre : bool
        Also move the means of the embeddings over ``fit_rows`` onto each other.

    Examples
    --------
    >>> import numpy as np
    >>> fixed = np.random.default_rng(0).normal(size=(50, 2))
    >>> aligned_mse(fixed[:, ::-1] * [1, -1], fixed, fit_rows=np.arange(30)) < 1e-20
    True
    """
    rows = pair_embeddings(read_table("moving", moving), read_table("fixed", fixed))
    chosen = _row_numbers(fit_rows, len(rows))
    measure = weights_on("weights", rows, weights)
    motion = Alignment.of_moments(find_moments(rows, measure, RowMoments(chosen, centre)), rescale=False)
    look = ResidualSquares(motion, left_out=chosen)
    squares, mass = rows.reduce(look, np.add, measure=measure, runner=Threads(1), title="distances")
    if not mass > 0:
        raise ZeroDivisionError("The rows that were not fitted to weigh nothing: there is no mean over them.")
    return float(squares / mass)


@dataclass(frozen=True)
class ResidualSquares:
    """A function of rows of two embeddings: the sum of w |motion(moving) - fixed|^2, and the sum of w."""

    motion: Alignment
    left_out: Array | None = None  # numbers, in order, of the rows that do not count

    def __call__(self, points: Array, measure: Array, start: int) -> Array:
        count = points.shape[1] // 2
        weight = measure if self.left_out is None else measure * ~mark_rows(self.left_out, len(points), start)
        squares = ((self.motion(points[:, :count]) - points[:, count:]) ** 2).sum(axis=1)
        return np.array([weight @ squares, weight.sum()])


def _row_numbers(fit_rows: ArrayLike, count: int) -> Array:
    """Return the rows of a mask or of a list of numbers, in order: some of ``count``, but not all."""
    refusal = ValueError("fit_rows must be here: the row numbers of the landmarks, or a mask as a NumPy array.")
    given = np.asarray(require_in_memory(fit_rows, refusal))
    if given.dtype == bool and given.shape != (count,):
        raise ValueError(f"fit_rows as a mask has {given.size} entries for {count} rows.")
    numbers = np.flatnonzero(given) if given.dtype == bool else np.atleast_1d(given)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < -count or numbers.max() >= count):
        raise IndexError(f"fit_rows={fit_rows!r} must be numbers of the {count} rows.")
    numbers = np.unique(np.where(numbers < 0, numbers + count, numbers).astype(np.int64))
    if not 0 < len(numbers) < count:
        raise ValueError(f"fit_rows names {len(numbers)} of {count} rows: some must be fitted to, some left.")
    return numbers


# -- spaces of functions -----------------------------------------------------------------------


def subspace_angles(A: Data, B: Data, *, weights: Weights = None) -> Array:
    """Return the principal angles between the column spaces of two embeddings, largest first, in radians.

    arccos of the singular values of Q_A' Q_B, with Q orthonormal bases in the weights (small angles by their sine).

    Parameters
    ----------
    A, B : arrays of shape (n, columns), or Dask collections
        Functions on the same rows; as many angles as the smaller space has dimensions. For Dask
        collections, triangular factors of the partitions are combined.
    weights : array of shape (n,), optional
        The measure in which functions are orthogonal, such as the stationary one.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.eye(4)[:, :2]
    >>> bool(subspace_angles(A, A @ [[1.0, 2.0], [3.0, 4.0]]).max() < 1e-12)
    True
    >>> subspace_angles(A, np.eye(4)[:, 2:]).round(4).tolist()
    [1.5708, 1.5708]
    """
    first, second = read_table("A", A), read_table("B", B)
    if len(first) != len(second):
        raise ValueError(f"A has {len(first)} rows and B has {len(second)}: they must be functions on the same rows.")
    rows = put_beside(first, second)
    measure = weights_on("weights", rows, weights)
    R = rows.reduce(find_factor, join_factors, measure=measure, runner=Threads(1), title="factors")
    factors = R[:, : first.shape[1]], R[:, first.shape[1] :]
    for name, factor in zip("AB", factors):
        sizes = np.linalg.svd(factor, compute_uv=False)
        least = sizes.max() * max(len(rows), factor.shape[1]) * np.finfo(float).eps
        if len(sizes) < factor.shape[1] or (sizes <= least).any():
            raise ValueError(f"The {factor.shape[1]} columns of {name} are not independent: they span no such space.")
    return np.asarray(angles_between(*factors))


def find_factor(points: Array, measure: Array, start: int) -> Array:
    """Return R of diag(sqrt(w)) X = Q R: small angles are lost in X' X, but not in R."""
    factor: Array = qr(np.sqrt(measure)[:, None] * points, mode="r")[0][: points.shape[1]]
    return factor


def join_factors(first: Array, second: Array) -> Array:
    """Return R of two factors on top of each other."""
    factor: Array = qr(np.vstack([first, second]), mode="r")[0][: first.shape[1]]
    return factor
