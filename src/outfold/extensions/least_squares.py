"""The least-squares extension of Wang (2019), with degrees over the training set or over training set and batch.

With k = w / (d d') = sum_j phi_j phi_j' on the anchors and d = q^alpha sqrt(delta), functions extend to new points z by

    phi(z) = lambda^-1 sum_j w(z, x_j) phi_j / (d(z) d_j)

"training" degrees sum d(z) over the anchors: this is ``DiffusionMaps(coordinates="canonical")`` itself. "joint" degrees
e sum over anchors and batch together, so that inner products are the joint kernel w / (e e'). The anchors move as well:

    phi_Z = L^-1 phi D^-1 w_Z E_Z^-1 = training(Z) D_Z / E_Z         phi_X = phi D / E_X

In the printed algorithm d_i = S_i sqrt(sum_j w_ij / S_j) lacks 1 / S_i under the root (without it the top eigenvalue is
not 1), and Y D^-1 D_X has its factors the wrong way round. In ratios phi_k / phi_0 = sqrt(lambda_k) psi_k the degrees
cancel: in diffusion coordinates the least-squares extension is Nystrom's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array

from .. import neighbors
from .._runtime.threads import Threads
from .._runtime.typing import Array, Axes
from ..data.places import count_neighbors
from ..data.sparse_rows import as_rows, largest_entries, row_keys, stack_rows
from ..distances import LARGEST_ENTRY, Given, PointDistances
from ..graphs import AllPairs, Ball, Mutual, Union, drawing
from ..graphs.fitted import DenseGraph, SparseGraph
from ..graphs.pair_statistics import DenseStatistics, SearchStatistics
from ..operators.centred import CentredRule
from ..operators.low_rank import LowRankRule
from ..operators.markov import CanonicalRule, MarkovRule
from .samples import Extension, FittedExtension, RowModel, Samples, by_blocks

DEGREE_CHOICES = ("training", "joint")


@dataclass(frozen=True)
class LeastSquares(Extension):
    """Extend by least squares between reproducing kernel Hilbert spaces (Wang, 2019).

    Kernel PCA, classical MDS and Isomap: T(f)(x) = <f, k(x, .)> is Nystrom's formula itself. Diffusion maps and the
    random-walk Laplacian in ratio coordinates psi: again Nystrom's, whatever the degrees. Canonical coordinates: with
    "joint" degrees the embedding of a point depends on its batch, and so does that of the anchors.

    Parameters
    ----------
    degrees : "training" or "joint"
        Sum the degrees over the anchors alone, or over anchors and batch together.
    """

    degrees: str = "training"

    def __post_init__(self) -> None:
        if self.degrees not in DEGREE_CHOICES:
            raise ValueError(f"degrees={self.degrees!r} is not known. Valid: {', '.join(map(repr, DEGREE_CHOICES))}.")

    def fit(self, known: Samples, runner: Threads) -> FittedExtension:
        """Return the spectral model if it is the least-squares extension already, else a model with joint degrees."""
        model = known.spectral
        if self.degrees == "joint" and isinstance(model.rule, CanonicalRule):
            return JointModel(model)
        if isinstance(model.rule, CanonicalRule | MarkovRule | CentredRule | LowRankRule):
            return model
        raise ValueError(
            "Least squares extend functions of a Mercer kernel, and a Laplacian, a residual or a potential is none. "
            "Use extension='nystrom', or DiffusionMaps or LaplacianEigenmaps(laplacian='random_walk')."
        )


@dataclass(frozen=True)
class JointModel(FittedExtension):
    """Canonical coordinates with joint degrees: the embedding of a point depends on the other rows of its batch.

    By design, two laws of the other models do not hold: ``embed`` of a training row is not its training embedding, and
    a row embedded alone differs from the row in a batch. ``embed(Z)`` and ``training(X, Z)`` share one coordinate
    system. Each row of a batch counts once, copies of anchors too. A sparse graph is drawn anew over anchors and batch,
    with the same epsilon.
    """

    spectral: Annotated[RowModel, Axes("n d c")]  # the model of the fit
    batchwise = True  # a batch must not be embedded in blocks: its degrees depend on all its rows

    def __post_init__(self) -> None:
        geometry = self.rule.geometry
        if not isinstance(geometry, DenseGraph | SparseGraph):
            raise ValueError(
                "Joint degrees are sums of a kernel between the rows of a batch, and a kernel in local units goes "
                "through the anchors. Pass kernel='gaussian', or degrees='training'."
            )
        if isinstance(geometry, DenseGraph) and isinstance(geometry.distances, Given):
            raise ValueError(
                "Joint degrees need the kernel between the rows of a batch, and precomputed rows tell of the anchors "
                "only. Pass features, or degrees='training'."
            )

    @property
    def rule(self) -> CanonicalRule:
        if not isinstance(self.spectral.rule, CanonicalRule):
            raise ValueError("Joint degrees are for coordinates='canonical'; in other coordinates they cancel.")
        return self.spectral.rule

    def embed(self, Z: Array, runner: Threads) -> Array:
        """Return phi_Z = training(Z) D_Z / E_Z, the embedding of a batch."""
        Z = as_rows(Z)
        joint = joint_degrees(self.rule, Z, runner)[1]
        own = by_blocks(lambda rows: self.rule.log_scaling(rows)[:, None], Z, 1, self.rule.row_entries, runner)
        embedding: Array = self.spectral.embed(Z, runner) * np.exp(own - np.log(joint)[:, None])
        return embedding

    def training(self, X: Array, Z: Array, runner: Threads) -> Array:
        """Return phi_X = phi D / E_X, the embedding of anchors X when the batch Z joins them."""
        X = as_rows(X)
        at = self.rule.geometry.nearest(X)
        others = np.flatnonzero([a != b for a, b in zip(row_keys(self.rule.geometry.anchors[at]), row_keys(X))])
        if len(others):
            raise ValueError(
                f"{len(others)} of {len(X)} rows are not anchors (the first is row {others[0]}). Pass rows the fit was "
                "solved on (landmarks_), and the others in the batch."
            )
        joint = joint_degrees(self.rule, as_rows(Z), runner)[0]
        factor = np.exp(self.rule.log_scaling_of_anchors - np.log(joint))
        embedding: Array = (self.spectral.places * factor[:, None])[at]
        return embedding


def joint_degrees(rule: CanonicalRule, Z: Array, runner: Threads) -> tuple[Array, Array]:
    """Return d of the anchors and d of the batch, in the kernel w / (d d') over both; rows of the batch weigh 1.

    d = S^alpha sqrt(delta), delta = S^-alpha sum_j w_j m_j S_j^-alpha, S = sum_j m_j w_j: sqrt(S) at alpha 0,
    sqrt(S sum_j w_j m_j / S_j) at 1. A row whose squares overflow has weight on itself alone, so
    d = 1.
    """
    near = np.flatnonzero(largest_entries(Z) <= LARGEST_ENTRY)
    n, measure = len(rule.markov.measure), np.append(rule.markov.measure, np.ones(len(near)))
    W = _joint_kernel(rule.markov, Z[near], measure, runner)
    mass = W @ measure
    weight = mass**-rule.alpha
    found = np.sqrt(mass**rule.alpha * (W @ (weight * measure)))
    of_batch = np.ones(len(Z))
    of_batch[near] = found[n:]
    return found[:n], of_batch


def _joint_kernel(markov: MarkovRule, Z: Array, measure: Array, runner: Threads) -> Array | csr_array:
    """Return w over anchors and batch together, with the kernel and the edge rule of the fit."""
    geometry, kernel = markov.geometry, markov.kernel
    together = stack_rows([geometry.anchors, Z])
    assert isinstance(geometry, DenseGraph | SparseGraph)
    counts = None if geometry.counts is None else count_neighbors(together, measure)
    if isinstance(geometry, DenseGraph):
        distances = geometry.distances.to(together)
        assert isinstance(distances, PointDistances)
        drawing.check_memory(len(measure), "Transform fewer rows at a time, or pass degrees='training'.")
        statistics = DenseStatistics(
            distances=distances, squared=distances.gram(runner), measure=measure, counts=counts
        )
        table: Array = AllPairs(geometry.local).draw(statistics, kernel, runner).gram(runner)
        kernel.affinity(table)
        return table
    found = SearchStatistics(
        search=neighbors.build(geometry.distances.to(together), "auto"),
        measure=measure,
        runner=runner,
        counts=counts,
    )
    graph = _edges(geometry).draw(found, kernel, runner)
    if geometry.bridges is not None:
        graph = replace(graph, bridges=_pad(geometry.bridges, len(Z)))
    matrix: csr_array = graph.gram(runner)
    kernel.affinity(matrix.data)
    return matrix


def _edges(graph: SparseGraph) -> Ball | Union | Mutual:
    """Return the edge rule of a sparse graph, with its fitted radius."""
    if graph.kind == "ball":
        return Ball(graph.radius, local=graph.local)
    return (Union if graph.kind == "union" else Mutual)(graph.k, local=graph.local)


def _pad(bridges: csr_array, more: int) -> csr_array:
    """Return the bridges with ``more`` empty rows and columns, for points without bridges."""
    n = bridges.shape[0] + more
    return csr_array((bridges.data, bridges.indices, np.append(bridges.indptr, [bridges.nnz] * more)), shape=(n, n))
