"""How good an embedding is: against another one, its own kernel, its data, and what it does to new points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg import subspace_angles as angles_between
from scipy.spatial.distance import cdist

from . import _resolve
from .alignment import Alignment
from .expansions import Diffusion, Expansion, Small, expansion
from .graphs import DenseGraph
from .leastsquares import joint_degrees
from .neighbourhoods import Score, continuity, distance_correlation, table, trustworthiness
from .runners import Threads, check_fits, row_blocks
from .sources import Elsewhere, InMemory, Source, in_dask, weighed
from .stability import Induction, induction_versus_perturbation

Array = NDArray[Any]

EVERY = 5000  # anchors up to which all eigenpairs are found


def aligned_error(moving: Any, fixed: Any, *, rescale: bool = True) -> float:
    """Root mean squared distance after alignment, relative to the spread of ``fixed``: 0 where shapes agree.

    ``sqrt(sum_i |A(m_i) - f_i|^2 / sum_i |f_i - mean f|^2)``, A the best rigid motion, with a scale if that may change.

    Parameters
    ----------
    moving, fixed : arrays of shape (n, n_components), or Dask's
        Embeddings of the same rows; Dask's are summed up where they are.
    rescale : bool
        Whether the size may change too.

    Examples
    --------
    >>> import numpy as np
    >>> fixed = np.random.default_rng(0).normal(size=(50, 2))
    >>> bool(aligned_error(3 * fixed[:, ::-1] + 1, fixed) < 1e-12)
    True
    """
    if in_dask(moving) or in_dask(fixed):
        return _spread().aligned_error(moving, fixed, rescale=rescale)
    moving, fixed = table("moving", moving), table("fixed", fixed)
    left = Alignment.of(moving, fixed, rescale=rescale)(moving) - fixed
    return float(np.sqrt((left**2).sum() / ((fixed - np.mean(fixed, axis=0)) ** 2).sum()))


def aligned_mse(moving: Any, fixed: Any, *, fit_rows: Any, weights: Any = None, centre: bool = False) -> float:
    """Mean squared distance on held-out rows between two embeddings, turned onto each other over the others.

    With S = M' F over the rows fitted to and S = U L V', R = U V': the mean of ``|F(x) - M(x) R|^2`` over the other
    rows (Dorado, 2018, section 3.1.2, whose R is transposed).

    Parameters
    ----------
    moving, fixed : arrays of shape (n, n_components), or Dask's
        Embeddings of the same rows; ``fixed`` is the true one. Dask's are summed up where they are.
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
    if in_dask(moving) or in_dask(fixed):
        return _spread().aligned_mse(moving, fixed, fit_rows=fit_rows, weights=weights, centre=centre)
    moving, fixed = table("moving", moving), table("fixed", fixed)
    if moving.shape != fixed.shape:
        raise ValueError(f"Embeddings of the same rows have the same shape; got {moving.shape} and {fixed.shape}.")
    chosen = np.zeros(len(fixed), dtype=bool)
    chosen[np.asarray(fit_rows)] = True
    if chosen.all() or not chosen.any():
        raise ValueError(f"fit_rows names {chosen.sum()} of {len(chosen)} rows: some must be fitted to, some left.")
    weights = weighed("weights", weights, len(fixed))
    motion = Alignment.of(moving[chosen], fixed[chosen], weights=weights[chosen], rescale=False, centre=centre)
    squares = ((motion(moving[~chosen]) - fixed[~chosen]) ** 2).sum(axis=1)
    return float(np.average(squares, weights=weights[~chosen]))


def subspace_angles(A: Any, B: Any, *, weights: Any = None) -> Array:
    """Principal angles between the spaces that the columns of two embeddings span, largest first, in radians.

    arccos of the singular values of Q_A' Q_B, with Q orthonormal bases in the weights (small angles by their sine).

    Parameters
    ----------
    A, B : arrays of shape (n, columns), or Dask's
        Functions on the same rows; as many angles as the smaller space has dimensions. Of Dask's rows, triangular
        factors of the parts are joined.
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
    if in_dask(A) or in_dask(B):
        return _spread().subspace_angles(A, B, weights=weights)
    A, B = table("A", A), table("B", B)
    if len(A) != len(B):
        raise ValueError(f"A has {len(A)} rows and B has {len(B)}: they must be functions on the same rows.")
    if weights is not None:
        root = np.sqrt(weighed("weights", weights, len(A)))[:, None]
        A, B = root * A, root * B
    for name, space in (("A", A), ("B", B)):
        if np.linalg.matrix_rank(space) < space.shape[1]:
            raise ValueError(f"The {space.shape[1]} columns of {name} are not independent: they span no such space.")
    return np.asarray(angles_between(A, B))


# -- against its own kernel ------------------------------------------------------------------


def kernel_loss(
    estimator: Any,
    X: Any = None,
    *,
    ranks: Any = None,
    against: str = "rows",
    sample_weight: Any = None,
    rows: int | None = 2000,
    random_state: int = 0,
) -> Array:
    """How much of the method's own kernel its coordinates leave: the loss that spectral methods minimise.

    mean over pairs of (k(x, y) - sum_{r <= N} lambda_r f_r(x) f_r(y))^2, k the data-dependent kernel of the method
    (:mod:`outfold.expansions`) and f_r its eigenfunctions as ``transform`` gives them (Bengio et al., 2004, section 4).
    On the rows it was solved on it is the sum of the other squared eigenvalues over n^2, and no functions do better.
    A constant that is no coordinate counts as rank 0: it is always in.

    Parameters
    ----------
    estimator : a fitted method, with any extension
    X : array of shape (n, n_features), or Dask's, optional
        Training or new rows. None: the anchors it was solved on, with their weights.
    ranks : sequence of int, optional
        How many coordinates to use. None: 1, 2, ... all.
    against : "rows" or "anchors"
        Pairs of two rows of X, or of a row of X and an anchor. Between two new rows Isomap with landmarks has no
        geodesic, and the kernel of locally linear embedding is 0 whatever they are: take "anchors" there.
    sample_weight : array, optional
        Of the rows of X.
    rows : int or None
        Of more rows so many are drawn at random. None: all, of Dask's up to 32 768.
    random_state : int

    Returns
    -------
    array with an entry for each rank

    Examples
    --------
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> loss = kernel_loss(DiffusionMaps(4).fit(X[:200]), X[200:])
    >>> loss.shape, bool((loss[1:] < loss[:-1]).all())
    ((4,), True)
    """
    found = expansion(estimator)
    _resolve.one_of("against", against, ("rows", "anchors"))
    if X is None:
        _check_anchors_will_do(estimator, found, sample_weight)
    chosen, source = _ranks(ranks, len(found.values)), _source(estimator, found, X)
    weight = _weights(found.measure if X is None else sample_weight, source)
    some = _some(source, rows, random_state)
    points, weight = _taken(source, some), weight[some]
    values, functions = found.pairs(points, _embed(estimator, points))
    columns, others, their_weight = points, functions, weight
    if against == "anchors" or X is None:
        columns, their_weight = found.anchors, found.measure
        others = found.pairs(columns, _embed(estimator, columns))[1]
    look = found.to_anchors if columns is found.anchors else partial(found.table, Y=columns)
    losses = np.zeros(len(found.values) + 1)
    for at in row_blocks(len(points), 1 + len(columns) // 4):
        left = look(points[at])
        losses += _squares(left, values, functions[at], others, weight[at], their_weight, bool(found.trivial))
    return losses[chosen] / (weight.sum() * their_weight.sum())


def _check_anchors_will_do(estimator: Any, found: Expansion, sample_weight: Any) -> None:
    if not found.solved_on_anchors:
        raise ValueError(f"{type(estimator).__name__} solves for all rows and keeps the landmarks only: pass X.")
    if sample_weight is not None:
        raise ValueError("sample_weight belongs to the rows of X; without X those of the fit are used.")


def _ranks(ranks: Any, count: int) -> Array:
    """How many coordinates to use, each time."""
    chosen = np.arange(1, count + 1) if ranks is None else np.atleast_1d(np.asarray(ranks))
    if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() > count or chosen.dtype.kind not in "iu":
        raise ValueError(f"ranks={ranks!r} must be whole numbers from 0 to {count}, the number of coordinates.")
    return chosen


def _squares(
    left: Array, values: Array, own: Array, others: Array, weight: Array, their_weight: Array, trivial: bool
) -> Array:
    """Weighted sums of squares of what is left of a table after 0, 1, ... coordinates."""
    out = []
    for r in range(len(values) + (not trivial)):
        if r or trivial:
            at = r if trivial else r - 1
            left -= np.multiply.outer(values[at] * own[:, at], others[:, at])
        out.append(weight @ (left * left) @ their_weight)
    return np.array(out)


@dataclass(frozen=True)
class Reconstruction:
    """How far the kernel between rows is from what eigenvectors extended to them give back: Frobenius norms."""

    error: float  #: by the estimator's extension, at ``rank``
    nystrom: float  #: by the Nystrom formula, at the same rank
    every: float  #: by Nystrom with all eigenpairs, ``|C - B A^-1 B'|``; NaN beyond 5000 anchors or for Roseland
    norm: float  #: ``|C|``
    rank: int  #: coordinates used, beside the constant
    rows: int  #: that were looked at; of more, norms are scaled up to all pairs
    squared: bool  #: whether all of these are squares

    def __float__(self) -> float:
        return self.error

    def __str__(self) -> str:
        return (
            f"{self.error:.5g} at rank {self.rank} (Nystrom {self.nystrom:.5g}; with every eigenpair {self.every:.5g}; "
            f"the kernel {self.norm:.5g})"
        )


def reconstruction_error(
    estimator: Any,
    X: Any,
    *,
    embedding: Any = None,
    rank: int | None = None,
    degrees: str = "anchors",
    squared: bool = False,
    rows: int | None = 5000,
    random_state: int = 0,
) -> Reconstruction:
    """How well eigenvectors extended to new rows give back the kernel between them, for any extension.

    ``|C - Phi Lambda Phi'|_F``, C = a(x, y) the symmetric kernel between the rows, phi(x) = sqrt(d(x) / sum d)
    lambda^-t Psi(x) the eigenvectors that an embedding Psi implies. For Nystrom with all eigenpairs this is
    ``|C - B A^-1 B'|_F``, with A between the anchors and B from rows to anchors (Dorado, 2018, equation 3.2.2). It
    falls as epsilon grows whatever the embedding is worth: compare extensions by it, not bandwidths.

    Parameters
    ----------
    estimator : a fitted method of a Markov or centred kernel, with any extension
    X : array of shape (n, n_features), or Dask's
        Rows that are not anchors.
    embedding : array of shape (n, n_components), or Dask's, optional
        Where another function, such as a network, puts them in the estimator's coordinates. None: ``transform(X)``.
    rank : int, optional
        How many coordinates to use, beside the constant. None: all the estimator has.
    degrees : "anchors" or "joint"
        Whose degrees divide the kernel: over the anchors, as in the design of ``transform``, or over anchors and rows
        together, as the thesis has it, which makes all of it smaller. Joint degrees are a factor of each row, and one
        that all rows have a part in: of Dask's no more than ``rows`` may be there.
    squared : bool
        Squares of the norms, as equation 3.2.2 has it.
    rows : int or None
        Of more rows so many are drawn at random, and norms scaled up. None: all, of Dask's up to 32 768.
    random_state : int

    Examples
    --------
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> found = reconstruction_error(DiffusionMaps(4).fit(X[:200]), X[200:])
    >>> found.every < found.error == found.nystrom < found.norm
    True
    """
    found = expansion(estimator)
    _resolve.one_of("degrees", degrees, ("anchors", "joint"))
    if isinstance(found, Small):
        raise ValueError("The small end of a Laplacian or residual has no kernel to give back: see kernel_loss.")
    rank = len(found.values) if rank is None else _resolve.count("rank", rank, low=0)
    if rank > len(found.values):
        raise ValueError(f"rank={rank} is more than the {len(found.values)} coordinates of the estimator.")
    source = _source(estimator, found, X)
    some = _some(source, rows, random_state)
    scale = _joint_scale(found, source, len(some))[some] if degrees == "joint" else np.ones(len(some))
    points = _taken(source, some)
    own = _embed(estimator, points) if embedding is None else _placed(embedding, len(source), found, some)
    model = getattr(estimator.model_, "spectral", estimator.model_)
    factors = _expansions(found, points, rank, own, model.embed(points, estimator._runner()))
    sums = _left(found, points, factors, scale) * (len(source) / len(points)) ** 2
    error, nystrom, every, norm = (sums if squared else np.sqrt(sums)).tolist()
    return Reconstruction(error, nystrom, every, norm, rank, len(points), squared)


def _expansions(found: Expansion, points: Array, rank: int, *embeddings: Array) -> list[tuple[Array, Array]]:
    """Eigenvalues and functions at the points: by each embedding up to a rank, then, of few anchors, all there are."""
    kept = rank + bool(found.trivial)
    factors = [found.pairs(points, places) for places in embeddings]
    factors = [(values[:kept], functions[:, :kept]) for values, functions in factors]
    if found.solved_on_anchors and len(found.anchors) <= EVERY:
        factors.append(_all_pairs(found, points))
    return factors


def _placed(embedding: Any, count: int, found: Expansion, some: Array) -> Array:
    """Given places of some rows."""
    embedding = (_spread().table if in_dask(embedding) else table)("embedding", embedding)
    if embedding.shape != (count, len(found.values)):
        raise ValueError(
            f"embedding has shape {embedding.shape}; of these rows in the estimator's coordinates it would be "
            f"{(count, len(found.values))}."
        )
    return _spread().drawn(embedding, some) if isinstance(embedding, Elsewhere) else embedding[some]


def _left(found: Expansion, points: Array, factors: list[tuple[Array, Array]], scale: Array) -> Array:
    """Sums of squares of s (C - F L F') s for up to three expansions, NaN for one that is not there, and of s C s."""
    sums = np.zeros(4)
    sums[len(factors) : 3] = np.nan
    for block in row_blocks(len(points), 1 + len(points) // 4):
        both = np.multiply.outer(scale[block], scale)
        C = found.table(points[block], points)
        sums[3] += np.square(C * both).sum()
        for at, (values, functions) in enumerate(factors):
            sums[at] += np.square((C - (functions[block] * values) @ functions.T) * both).sum()
    return sums


def _all_pairs(found: Expansion, points: Array) -> tuple[Array, Array]:
    """Every eigenpair of the kernel between the anchors that is more than rounding, at the points by Nystrom."""
    values, vectors = eigh(found.to_anchors(found.anchors))
    kept = np.abs(values) > len(values) * np.finfo(float).eps * np.abs(values).max()
    values, vectors = values[kept], vectors[:, kept]
    return values, found.to_anchors(points) @ vectors / values


def _joint_scale(found: Expansion, source: Source, looked_at: int) -> Array:
    """What degrees over anchors are of degrees over anchors and rows together."""
    if isinstance(source, Elsewhere) and looked_at < len(source):
        raise ValueError(
            f"degrees='joint' needs the kernel between all {len(source)} rows, of which {looked_at} would be brought "
            "here. Take degrees='anchors', or pass the rows that count as an array."
        )
    geometry = found.symmetric.geometry if isinstance(found, Diffusion) else None
    if not (isinstance(geometry, DenseGraph) and geometry.sigma is None) or not isinstance(found, Diffusion):
        raise ValueError(
            "degrees='joint' is for diffusion maps and Laplacian eigenmaps over all pairs (n_neighbors=None): other "
            "rules of edges change when rows join the anchors. Take degrees='anchors'."
        )
    points = _taken(source, np.arange(len(source)))
    joint = joint_degrees(found.symmetric, points, Threads())[1]
    return np.exp(found.symmetric.log_scaling(points)) / joint


def diffusion_distance(estimator: Any, X: Any, Y: Any = None, *, pairs: Any = None, exact: bool = False) -> Array:
    """Diffusion distances between rows: how differently they diffuse.

    ``sqrt(sum_k (p_t(x, k) - p_t(y, k))^2 / pi_k) = |Psi(x) - Psi(y)|`` in all diffusion coordinates.

    Parameters
    ----------
    estimator : a fitted DiffusionMaps or Roseland
        In its coordinates the distance is that of the components it keeps: never more than the exact one, and close to
        it once lambda^t is small.
    X : array of shape (n, n_features), or Dask's
    Y : array of shape (m, n_features), or Dask's with ``pairs``, optional
        None: distances between the rows of X. Of Dask's X the distances to a Y in memory are a lazy Dask array.
    pairs : array of int of shape (count, 2), optional
        Row numbers of X and of Y: only these distances, however many rows there are.
    exact : bool
        From the powers of P themselves (DiffusionMaps with a whole t >= 1); memory and time of a table of anchors.

    Returns
    -------
    array of shape (n, m), or (count,) with ``pairs``

    Examples
    --------
    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(200, random_state=0)
    >>> maps = DiffusionMaps(10, t=4).fit(X)
    >>> kept, exact = diffusion_distance(maps, X[:2]), diffusion_distance(maps, X[:2], exact=True)
    >>> bool(0.9 * exact[0, 1] < kept[0, 1] <= exact[0, 1])
    True
    """
    found = expansion(estimator)
    if getattr(found, "canonical", False) or not hasattr(found, "power") or hasattr(estimator, "laplacian"):
        raise ValueError(
            f"{type(estimator).__name__} has no diffusion time: diffusion distances are those of DiffusionMaps with "
            "coordinates='diffusion' and of Roseland."
        )
    if pairs is None and (in_dask(X) or in_dask(Y)):
        return _lazy_distance(estimator, found, X, Y, exact)
    first = _source(estimator, found, X)
    second = first if Y is None else _source(estimator, found, Y)
    if pairs is not None:
        pairs = _row_numbers(pairs, first, second)
    else:
        needed, told = 8.0 * len(first) * len(second), f"{len(first)} x {len(second)} distances need"
        check_fits(needed, told, "Pass pairs= or fewer rows.")
    place = _exactly(found) if exact else lambda rows: _embed(estimator, rows)
    if pairs is None:
        here = place(first.array())
        return cdist(here, here if Y is None else place(second.array()))
    out = np.empty(len(pairs))
    for block in row_blocks(len(pairs), len(found.anchors) if exact else 64):
        ends = [place(_taken(rows, pairs[block, side])) for side, rows in enumerate((first, second))]
        out[block] = np.linalg.norm(ends[0] - ends[1], axis=1)
    return out


def _row_numbers(pairs: Any, first: Source, second: Source) -> Array:
    """Pairs of rows, checked."""
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"pairs must be whole numbers in two columns; got {pairs.dtype} of shape {pairs.shape}.")
    for column, rows in zip(pairs.T, (first, second)):
        if len(column) and not -len(rows) <= column.min() <= column.max() < len(rows):
            raise IndexError(f"pairs reach from row {column.min()} to {column.max()}, of {len(rows)} rows.")
    return pairs


def _lazy_distance(estimator: Any, found: Expansion, X: Any, Y: Any, exact: bool) -> Any:
    """Of each of Dask's rows to rows in memory."""
    if Y is None or in_dask(Y):
        raise ValueError(
            "Distances between all pairs of Dask's rows are too many for a table. Pass pairs=, the row numbers of "
            "those that are wanted, or Dask's rows as X and an array as Y."
        )
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    estimator._check_features(X.shape[1] if names is None else len(names), names, "the Dask DataFrame")
    estimator._refuse_batchwise()
    place = _exactly(found) if exact else partial(_embed_alone, estimator.model_)
    ends = place(_source(estimator, found, Y).array())
    return _spread().distances_to(X, place, ends, len(found.anchors) if exact else 64)


def _exactly(found: Expansion) -> Any:
    """p_t(x, .) / sqrt(pi)."""
    if not isinstance(found, Diffusion) or found.power < 1 or found.power != int(found.power):
        raise ValueError("exact=True is for DiffusionMaps with a whole t >= 1: it takes powers of P.")
    count, instead = len(found.anchors), "Leave exact=False: the coordinates come close once lambda^t is small."
    check_fits(32.0 * count**2, f"Powers of P between {count} anchors need", instead)
    markov, steps = found.symmetric.markov, int(found.power) - 1
    same, stationary = np.eye(len(markov.gain)), markov.stationary
    assert stationary is not None
    end = np.diag(1 / np.sqrt(stationary))
    if steps:
        end = np.linalg.matrix_power(markov.rows(markov.geometry.anchors) @ same, steps) @ end
    return lambda rows: markov.rows(rows) @ end


# -- rows ------------------------------------------------------------------------------------


def _spread() -> Any:
    """What is done where rows are; nothing of it is needed for arrays."""
    from . import _spread_quality

    return _spread_quality


def _source(estimator: Any, found: Expansion, X: Any) -> Source:
    """Rows, checked, here or where they are; None: the anchors."""
    if in_dask(X):
        return _spread().rows_for(estimator, X)
    return InMemory(
        found.anchors if X is None else np.ascontiguousarray(estimator._validate(X, reset=False), dtype=float)
    )


def _taken(source: Source, index: Array) -> Array:
    """Some rows, here, in any order."""
    return _spread().anywhere(source, index) if isinstance(source, Elsewhere) else source.take(index)


def _weights(sample_weight: Any, source: Source) -> Any:
    """Of all rows."""
    if isinstance(source, Elsewhere) and sample_weight is not None:
        return _spread().measure_of(sample_weight, source)
    return weighed("sample_weight", sample_weight, len(source))


def _some(source: Source, rows: int | None, random_state: int) -> Array:
    """Which rows are looked at."""
    count = len(source) if rows is None else min(len(source), _resolve.count("rows", rows))
    if isinstance(source, Elsewhere):
        _spread().check_draw(count, source)
    if count == len(source):
        return np.arange(count)
    return np.sort(np.random.default_rng(random_state).choice(len(source), count, replace=False))


def _embed(estimator: Any, points: Array) -> Array:
    return np.asarray(estimator.model_.embed(points, estimator._runner()), dtype=float)


def _embed_alone(model: Any, points: Array) -> Array:
    """On one thread, wherever that is."""
    return np.asarray(model.embed(points, Threads(1)), dtype=float)


__all__ = [
    "Alignment",
    "Induction",
    "Reconstruction",
    "Score",
    "aligned_error",
    "aligned_mse",
    "continuity",
    "diffusion_distance",
    "distance_correlation",
    "induction_versus_perturbation",
    "kernel_loss",
    "reconstruction_error",
    "subspace_angles",
    "trustworthiness",
]
