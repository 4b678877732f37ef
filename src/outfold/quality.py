"""How good an embedding is: against another one, its own kernel, its data, and what it does to new points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import subspace_angles as angles_between

from .neighbourhoods import Score, continuity, distance_correlation, trustworthiness
from .stability import Induction, induction_versus_perturbation

Array = NDArray[Any]


@dataclass(frozen=True)
class Alignment:
    """y -> scale (y - origin) R + target: what brings one embedding onto another."""

    origin: Array
    rotation: Array  # orthogonal; may reflect
    scale: float
    target: Array

    @classmethod
    def of(
        cls, moving: Any, fixed: Any, *, weights: Any = None, rescale: bool = True, centre: bool = True
    ) -> Alignment:
        """The best in weighted least squares; ``rescale=False`` is a rigid motion.

        With M and F about their means and M' W F = U S V', R = U V' and scale = tr S / tr(M' W M). ``centre=False``
        leaves the origin where it is.

        >>> import numpy as np
        >>> fixed = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        >>> moving = 3 * fixed[:, ::-1] + 5
        >>> bool(np.allclose(Alignment.of(moving, fixed)(moving), fixed))
        True
        """
        moving, fixed = np.asarray(moving, dtype=float), np.asarray(fixed, dtype=float)
        if moving.shape != fixed.shape:
            raise ValueError(f"Embeddings of the same rows have the same shape; got {moving.shape} and {fixed.shape}.")
        weights = np.ones(len(moving)) if weights is None else np.asarray(weights, dtype=float)
        share = weights / weights.sum()
        origin, target = (share @ moving, share @ fixed) if centre else np.zeros((2, moving.shape[1]))
        M, F = moving - origin, fixed - target
        U, S, V = np.linalg.svd(M.T @ (share[:, None] * F))
        size = float(share @ (M * M).sum(axis=1))
        return cls(origin, U @ V, float(S.sum() / size) if rescale and size > 0 else 1.0, target)

    def __call__(self, moving: Any) -> Array:
        return self.scale * (np.asarray(moving, dtype=float) - self.origin) @ self.rotation + self.target


def aligned_error(moving: Any, fixed: Any, *, rescale: bool = True) -> float:
    """Root mean squared distance after alignment, relative to the spread of ``fixed``."""
    left = Alignment.of(moving, fixed, rescale=rescale)(moving) - fixed
    return float(np.sqrt((left**2).sum() / ((fixed - np.mean(fixed, axis=0)) ** 2).sum()))


def aligned_mse(moving: Any, fixed: Any, *, fit_rows: Any, weights: Any = None, centre: bool = False) -> float:
    """Mean squared distance on held-out rows between two embeddings, turned onto each other over the others.

    With S = M' F over the rows fitted to and S = U L V', R = U V': the mean of |F(x) - M(x) R|^2 over the other rows
    (Dorado, 2018, section 3.1.2, whose R is transposed).

    Parameters
    ----------
    moving, fixed : arrays of shape (n, n_components)
        Embeddings of the same rows; ``fixed`` is the true one.
    fit_rows : array of int or bool
        The rows R is found over: the landmarks.
    weights : array of shape (n,), optional
        How much each row counts, in R and in the mean.
    centre : bool
        Move the means of the rows fitted to onto each other too.

    Examples
    --------
    >>> import numpy as np
    >>> fixed = np.random.default_rng(0).normal(size=(50, 2))
    >>> aligned_mse(fixed[:, ::-1] * [1, -1], fixed, fit_rows=np.arange(30)) < 1e-20
    True
    """
    moving, fixed = _embedding("moving", moving), _embedding("fixed", fixed)
    if moving.shape != fixed.shape:
        raise ValueError(f"Embeddings of the same rows have the same shape; got {moving.shape} and {fixed.shape}.")
    chosen = np.zeros(len(fixed), dtype=bool)
    chosen[np.asarray(fit_rows)] = True
    if chosen.all() or not chosen.any():
        raise ValueError(f"fit_rows names {chosen.sum()} of {len(chosen)} rows: some must be fitted to, some left.")
    weights = np.ones(len(fixed)) if weights is None else np.asarray(weights, dtype=float)
    motion = Alignment.of(moving[chosen], fixed[chosen], weights=weights[chosen], rescale=False, centre=centre)
    squares = ((motion(moving[~chosen]) - fixed[~chosen]) ** 2).sum(axis=1)
    return float(np.average(squares, weights=weights[~chosen]))


def subspace_angles(A: Any, B: Any, *, weights: Any = None) -> Array:
    """Principal angles between the spaces that the columns of two embeddings span, largest first, in radians.

    arccos of the singular values of Q_A' Q_B, with Q orthonormal bases in the weights (small angles by their sine).

    Parameters
    ----------
    A, B : arrays of shape (n, columns)
        Functions on the same rows; as many angles as the smaller space has dimensions.
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
    A, B = _embedding("A", A), _embedding("B", B)
    if len(A) != len(B):
        raise ValueError(f"A has {len(A)} rows and B has {len(B)}: they must be functions on the same rows.")
    if weights is not None:
        weights = np.asarray(weights, dtype=float)
        if weights.shape != (len(A),) or not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(f"weights of shape {weights.shape} must be an entry >= 0 for each of the {len(A)} rows.")
        A, B = (np.sqrt(weights)[:, None] * table for table in (A, B))
    for name, table in (("A", A), ("B", B)):
        if np.linalg.matrix_rank(table) < table.shape[1]:
            raise ValueError(f"The {table.shape[1]} columns of {name} are not independent: they span no such space.")
    return np.asarray(angles_between(A, B))


def _embedding(name: str, values: Any) -> Array:
    values = np.asarray(values, dtype=float)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a table of finite numbers, not empty; its shape is {values.shape}.")
    return values


__all__ = [
    "Alignment",
    "Induction",
    "Score",
    "aligned_error",
    "aligned_mse",
    "continuity",
    "distance_correlation",
    "induction_versus_perturbation",
    "subspace_angles",
    "trustworthiness",
]
