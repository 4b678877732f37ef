"""Measures of the quality of an embedding: against another one, its kernel, its data, and on new points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from .._runtime.memory import check_fits
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Data, Weights
from ..data.sources import InMemory, Source, check_rows, open_parts
from ..data.weights import weights_on
from ..engine.model import ExtendedModel, SpectralModel
from ..extensions.alignment import Alignment
from ..extensions.least_squares import joint_degrees
from ..graphs.fitted import DenseGraph
from ..methods import parameters
from ..methods.base import SpectralEstimator
from ..operators.expansion import Expansion, SmallEndKernel
from ..operators.markov import DiffusionKernel
from .alignment_errors import aligned_error, aligned_mse, subspace_angles
from .induction import Induction, induction_versus_perturbation
from .kernel_expansion import expansion
from .neighbor_ranks import Score, continuity, distance_correlation, trustworthiness
from .tables import read_table, sample_rows, take_rows

FULL_SPECTRUM_UP_TO = 5000  # anchors: up to this many, all eigenpairs are computed


# -- against its own kernel ------------------------------------------------------------------


def kernel_loss(
    estimator: SpectralEstimator,
    X: Data | None = None,
    *,
    ranks: ArrayLike | None = None,
    against: str = "rows",
    sample_weight: Weights = None,
    rows: int | None = 2000,
    random_state: int = 0,
) -> Array:
    """Return the part of the method's kernel that its coordinates do not explain: the loss of spectral methods.

    The loss is the mean over pairs of (k(x, y) - sum_{r <= N} lambda_r f_r(x) f_r(y))^2, with k the data-dependent
    kernel of the method (:mod:`outfold.quality.kernel_expansion`) and f_r its eigenfunctions as ``transform`` gives
    them (Bengio et al., 2004, section 4). On the rows that the eigenproblem was solved on, the loss is the sum of
    the other squared eigenvalues over n^2, and no functions do better. A constant that is no coordinate has rank 0:
    the sum always includes it.

    Parameters
    ----------
    estimator : a fitted method, with any extension
    X : array of shape (n, n_features), or a Dask collection, optional
        Training or new rows. None: the anchors of the eigenproblem, with their weights.
    ranks : sequence of int, optional
        How many coordinates to use. None: 1, 2, ... all.
    against : "rows" or "anchors"
        Pairs of two rows of X, or of a row of X and an anchor. Between two new rows Isomap with landmarks has no
        geodesic, and the kernel of locally linear embedding is 0 whatever they are: take "anchors" there.
    sample_weight : array, optional
        Weights of the rows of X.
    rows : int or None
        A random sample of ``rows`` rows is used if there are more. None: all rows; at most 32 768 of a Dask collection.
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
    parameters.one_of("against", against, ("rows", "anchors"))
    if X is None and not found.solved_on_anchors:
        raise ValueError(f"{type(estimator).__name__} solves for all rows and keeps the landmarks only: pass X.")
    if X is None and sample_weight is not None:
        raise ValueError("sample_weight belongs to the rows of X; without X those of the fit are used.")
    count = len(found.values)
    chosen = np.arange(1, count + 1) if ranks is None else np.atleast_1d(np.asarray(ranks))
    if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() > count or chosen.dtype.kind not in "iu":
        raise ValueError(f"ranks={ranks!r} must be whole numbers from 0 to {count}, the number of coordinates.")
    source, runner = _source(estimator, found, X), estimator._runner()
    weight = weights_on("sample_weight", source, found.measure if X is None else sample_weight)
    some = _some(source, rows, random_state)
    points, weight = take_rows(source, some), weight[some]
    values, functions = found.pairs(points, estimator.model_.embed(points, runner))
    columns, others, their_weight = points, functions, weight
    if against == "anchors" or X is None:
        columns, their_weight = found.anchors, found.measure
        others = found.pairs(columns, estimator.model_.embed(columns, runner))[1]
    look = found.to_anchors if columns is found.anchors else partial(found.table, Y=columns)
    losses = np.zeros(count + 1)
    for at in row_blocks(len(points), 1 + len(columns) // 4):
        left = look(points[at])
        losses += _squares(left, values, functions[at], others, weight[at], their_weight, bool(found.trivial))
    return np.asarray(losses[chosen] / (weight.sum() * their_weight.sum()))


def _squares(
    left: Array, values: Array, own: Array, others: Array, weight: Array, their_weight: Array, trivial: bool
) -> Array:
    """Return the weighted sum of squares that remains of a table after 0, 1, ... coordinates are subtracted.

    ``trivial``: the first pair is the constant, which is always subtracted.
    """
    out = [] if trivial else [weight @ (left * left) @ their_weight]
    for at, value in enumerate(values):
        left -= np.multiply.outer(value * own[:, at], others[:, at])
        out.append(weight @ (left * left) @ their_weight)
    return np.array(out)


@dataclass(frozen=True, kw_only=True)
class Reconstruction:
    """Distances of the kernel between rows from its reconstruction by extended eigenvectors: Frobenius norms."""

    error: float  #: by the estimator's extension, at ``rank``
    nystrom: float  #: by the Nystrom formula, at the same rank
    every: float  #: by Nystrom with all eigenpairs, ``|C - B A^-1 B'|``; NaN beyond 5000 anchors or for Roseland
    norm: float  #: ``|C|``
    rank: int  #: coordinates used, beside the constant
    rows: int  #: rows that were used; norms are scaled up if there are more
    squared: bool  #: whether all of these are squares

    def __float__(self) -> float:
        return self.error

    def __str__(self) -> str:
        return (
            f"{self.error:.5g} at rank {self.rank} (Nystrom {self.nystrom:.5g}; with every eigenpair {self.every:.5g}; "
            f"the kernel {self.norm:.5g})"
        )


def reconstruction_error(
    estimator: SpectralEstimator,
    X: Data,
    *,
    embedding: Data | None = None,
    rank: int | None = None,
    degrees: str = "anchors",
    squared: bool = False,
    rows: int | None = 5000,
    random_state: int = 0,
) -> Reconstruction:
    """Return how well eigenvectors extended to new rows reconstruct the kernel between them, for any extension.

    ``|C - Phi Lambda Phi'|_F``, C = a(x, y) the symmetric kernel between the rows, phi(x) = sqrt(d(x) / sum d)
    lambda^-t Psi(x) the eigenvectors that an embedding Psi implies. For Nystrom with all eigenpairs this is
    ``|C - B A^-1 B'|_F``, with A between the anchors and B from rows to anchors (Dorado, 2018, equation 3.2.2). It
    falls as epsilon grows whatever the embedding is worth: compare extensions by it, not bandwidths.

    Parameters
    ----------
    estimator : a fitted method of a Markov or centred kernel, with any extension
    X : array of shape (n, n_features), or a Dask collection
        Rows that are not anchors.
    embedding : array of shape (n, n_components), or a Dask collection, optional
        The embedding of X by another function, such as a network, in the estimator's coordinates. None:
        ``transform(X)``.
    rank : int, optional
        How many coordinates to use, beside the constant. None: all the estimator has.
    degrees : "anchors" or "joint"
        Whose degrees divide the kernel: over the anchors, as in the design of ``transform``, or over anchors and rows
        together, as in the thesis, which makes all norms smaller. A joint degree is a sum over all rows, so a Dask
        collection may have at most ``rows`` rows.
    squared : bool
        Return squares of the norms, as in equation 3.2.2.
    rows : int or None
        A random sample of ``rows`` rows is used if there are more, and norms are scaled up. None: all rows; at most
        32 768 of a Dask collection.
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
    parameters.one_of("degrees", degrees, ("anchors", "joint"))
    if isinstance(found, SmallEndKernel):
        raise ValueError("The small end of a Laplacian or residual has no kernel to give back: see kernel_loss.")
    rank = len(found.values) if rank is None else parameters.count("rank", rank, low=0)
    if rank > len(found.values):
        raise ValueError(f"rank={rank} is more than the {len(found.values)} coordinates of the estimator.")
    source = _source(estimator, found, X)
    some = _some(source, rows, random_state)
    scale = _joint_scale(found, source, len(some))[some] if degrees == "joint" else np.ones(len(some))
    points = take_rows(source, some)
    model, runner = estimator.model_, estimator._runner()
    if embedding is None:
        own = model.embed(points, runner)
    else:
        table, shape = read_table("embedding", embedding), (len(source), len(found.values))
        if table.shape != shape:
            raise ValueError(
                f"embedding has shape {table.shape}; of these rows in the estimator's coordinates it would be {shape}."
            )
        own = table.draw(some)
    pairs = [found.pairs(points, places) for places in (own, getattr(model, "spectral", model).embed(points, runner))]
    kept = rank + bool(found.trivial)
    factors = [(values[:kept], functions[:, :kept]) for values, functions in pairs]
    if found.solved_on_anchors and len(found.anchors) <= FULL_SPECTRUM_UP_TO:
        factors.append(_all_pairs(found, points))
    sums = _remaining_squares(found, points, factors, scale) * (len(source) / len(points)) ** 2
    error, nystrom, every, norm = (sums if squared else np.sqrt(sums)).tolist()
    return Reconstruction(
        error=error, nystrom=nystrom, every=every, norm=norm, rank=rank, rows=len(points), squared=squared
    )


def _remaining_squares(found: Expansion, points: Array, factors: list[tuple[Array, Array]], scale: Array) -> Array:
    """Return the sums of squares of s (C - F L F') s for three expansions, NaN for a missing one, and of s C s."""
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
    """Return every eigenpair of the kernel between the anchors that exceeds rounding, extended to the points."""
    values, vectors = eigh(found.to_anchors(found.anchors))
    kept = np.abs(values) > len(values) * np.finfo(float).eps * np.abs(values).max()
    values, vectors = values[kept], vectors[:, kept]
    return values, found.to_anchors(points) @ vectors / values


def _joint_scale(found: Expansion, source: Source, looked_at: int) -> Array:
    """Return, per row, the degree over the anchors divided by that over anchors and rows together."""
    if source.in_parts and looked_at < len(source):
        raise ValueError(
            f"degrees='joint' needs the kernel between all {len(source)} rows, of which {looked_at} would be brought "
            "here. Take degrees='anchors', or pass the rows that count as an array."
        )
    geometry = found.symmetric.geometry if isinstance(found, DiffusionKernel) else None
    if not (isinstance(geometry, DenseGraph) and geometry.sigma is None) or not isinstance(found, DiffusionKernel):
        raise ValueError(
            "degrees='joint' is for diffusion maps and Laplacian eigenmaps over all pairs (n_neighbors=None): other "
            "rules of edges change when rows join the anchors. Take degrees='anchors'."
        )
    points = take_rows(source, np.arange(len(source)))
    joint = joint_degrees(found.symmetric, points, Threads())[1]
    return np.asarray(np.exp(found.symmetric.log_scaling(points)) / joint)


def diffusion_distance(
    estimator: SpectralEstimator,
    X: Data,
    Y: Data | None = None,
    *,
    pairs: ArrayLike | None = None,
    exact: bool = False,
) -> Array:
    """Return diffusion distances between rows: how differently they diffuse.

    ``sqrt(sum_k (p_t(x, k) - p_t(y, k))^2 / pi_k) = |Psi(x) - Psi(y)|`` in all diffusion coordinates.

    Parameters
    ----------
    estimator : a fitted DiffusionMaps or Roseland
        Its coordinates give the distance in the components it has: never more than the exact one, and close to it once
        lambda^t is small.
    X : array of shape (n, n_features), or a Dask collection
    Y : array of shape (m, n_features), or a Dask collection with ``pairs``, optional
        None: distances between the rows of X. If X is a Dask collection, the distances to a Y in memory are a lazy Dask
        array.
    pairs : array of int of shape (count, 2), optional
        Row numbers of X and of Y: only these distances are computed, however many rows there are.
    exact : bool
        Use the powers of P themselves (DiffusionMaps with a whole t >= 1); this takes the memory and time of a table
        between all anchors.

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
    if pairs is None:
        return _all_distances(estimator, found, X, Y, exact)
    first = _source(estimator, found, X)
    second = first if Y is None else _source(estimator, found, Y)
    numbers = np.asarray(pairs)
    if numbers.ndim != 2 or numbers.shape[1] != 2 or numbers.dtype.kind not in "iu":
        raise ValueError(f"pairs must be whole numbers in two columns; got {numbers.dtype} of shape {numbers.shape}.")
    for column, rows in zip(numbers.T, (first, second)):
        if len(column) and not -len(rows) <= column.min() <= column.max() < len(rows):
            raise IndexError(f"pairs reach from row {column.min()} to {column.max()}, of {len(rows)} rows.")
    place = _placing(estimator, found, exact)
    out = np.empty(len(numbers))
    for block in row_blocks(len(numbers), len(found.anchors) if exact else 64):
        ends = [place(take_rows(rows, numbers[block, side])) for side, rows in enumerate((first, second))]
        out[block] = np.linalg.norm(ends[0] - ends[1], axis=1)
    return out


def _all_distances(estimator: SpectralEstimator, found: Expansion, X: Data, Y: Data | None, exact: bool) -> Array:
    """Return the table of distances between all rows; a lazy one if X is a Dask collection."""
    second = _source(estimator, found, X if Y is None else Y)
    if second.in_parts:
        raise ValueError(
            "Distances between all pairs of Dask's rows are too many for a table. Pass pairs=, the row numbers of "
            "those that are wanted, or Dask's rows as X and an array as Y."
        )
    place = _placing(estimator, found, exact)
    if (there := estimator._collection(X)) is not None:
        _source(estimator, found, X)  # raises for other features than those of the fit
        ends = place(second.array())
        table: Array = there.map(DistancesTo(place, ends, len(found.anchors) if exact else 64), X, len(ends))
        return table
    first = second if Y is None else _source(estimator, found, X)
    needed, told = 8.0 * len(first) * len(second), f"{len(first)} x {len(second)} distances need"
    check_fits(needed, told, "Pass pairs= or fewer rows.")
    here = place(first.array())
    return np.asarray(cdist(here, here if Y is None else place(second.array())))


@dataclass(frozen=True)
class DistancesTo:
    """Distances from the embedding of rows to the points ``ends``, a block of rows at a time."""

    place: Callable[[Array], Array]
    ends: Array
    row_entries: int  # numbers per embedded row

    def __call__(self, rows: Array) -> Array:
        rows = check_rows(rows, 0, "a part of X")
        blocks = row_blocks(len(rows), self.row_entries)
        return np.concatenate([cdist(self.place(rows[block]), self.ends) for block in blocks])


def _placing(estimator: SpectralEstimator, found: Expansion, exact: bool) -> Callable[[Array], Array]:
    """Return a function from rows to points whose distances are diffusion distances; exact: p_t(x, .) / sqrt(pi)."""
    if not exact:
        return partial(estimator.model_.embed, runner=Threads(estimator.n_jobs))
    model, power = estimator.model_, getattr(found, "power", 0.0)
    spectral = model.spectral if isinstance(model, ExtendedModel) else model
    chain = spectral.markov_chain() if isinstance(spectral, SpectralModel) else None
    if chain is None or power < 1 or power != int(power):
        raise ValueError(
            "exact=True is for DiffusionMaps with a whole t >= 1: it takes powers of P between the anchors, which "
            "Roseland and kernels of low rank do not have. Leave exact=False."
        )
    count, instead = len(found.anchors), "Leave exact=False: the coordinates come close once lambda^t is small."
    check_fits(32.0 * count**2, f"Powers of P between {count} anchors need", instead)
    steps, rule = int(power) - 1, chain.rule
    assert chain.stationary is not None
    end = np.diag(1 / np.sqrt(chain.stationary))
    if steps:
        P = rule.rows(chain.anchors) @ chain.pull_back(np.eye(count))
        end = np.linalg.matrix_power(P, steps) @ end
    last = chain.pull_back(end)
    return lambda rows: rule.rows(rows) @ last


# -- rows ------------------------------------------------------------------------------------


def _source(estimator: SpectralEstimator, found: Expansion, X: Data | None) -> Source:
    """Return the checked rows of X, in memory or in partitions; the anchors if X is None."""
    if (parts := open_parts(X)) is not None:
        estimator._check_features(parts.shape[1], parts.names, "the Dask DataFrame")
        return parts
    rows = found.anchors if X is None else estimator._validate(X, reset=False)
    return InMemory(np.ascontiguousarray(rows, dtype=float))


def _some(source: Source, rows: int | None, random_state: int) -> Array:
    """Return the numbers of the rows to use, which can be copied into memory."""
    some = sample_rows(len(source), rows, np.random.default_rng(random_state))
    source.check_draw(len(some))
    return some


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
