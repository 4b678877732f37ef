"""The least-squares extension of Wang (2019), with degrees of the training set or of training set and batch together.

With k = w / (d d') = sum_j phi_j phi_j' on the anchors and d = q^alpha sqrt(delta), functions extend to new points z by

    phi(z) = lambda^-1 sum_j w(z, x_j) phi_j / (d(z) d_j)

"training" degrees take d(z) over the anchors: ``DiffusionMaps(coordinates="canonical")`` as it is. "joint" degrees take
it over anchors and batch together, e, so that inner products are the joint kernel w / (e e'); the anchors move as well:

    phi_Z = L^-1 phi D^-1 w_Z E_Z^-1 = training(Z) D_Z / E_Z         phi_X = phi D / E_X

In the printed algorithm d_i = S_i sqrt(sum_j w_ij / S_j) lacks 1 / S_i under the root (without it the top eigenvalue is
not 1), and Y D^-1 D_X has its factors the wrong way round. Ratios phi_k / phi_0 = sqrt(lambda_k) psi_k do not know the
degrees: in diffusion coordinates the least-squares extension is Nystrom's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from . import graphs, neighbors
from .centring import CentredRule
from .distances import LARGEST, Given
from .extensions import Extension, Known
from .graphs import AllPairs, Ball, DenseGraph, Mutual, SparseGraph, Union
from .lowrank import LowRankRule
from .normalizations import CanonicalRule, MarkovRule
from .runners import Threads, row_blocks
from .surveys import DenseSurvey, SearchSurvey

Array = NDArray[Any]

DEGREES = ("training", "joint")


@dataclass(frozen=True)
class LeastSquares(Extension):
    """Extend by least squares between reproducing kernel Hilbert spaces (Wang, 2019).

    Kernel PCA, classical MDS and Isomap: T(f)(x) = <f, k(x, .)> is Nystrom's formula itself. Diffusion maps and the
    random-walk Laplacian in ratio coordinates psi: again Nystrom's, whatever the degrees. Canonical coordinates: with
    "joint" degrees a point's place depends on the batch it comes in, and so do the anchors'.

    Parameters
    ----------
    degrees : "training" or "joint"
        Over the anchors alone, or over anchors and batch together.

    Examples
    --------
    >>> LeastSquares("joint")
    LeastSquares(degrees='joint')
    """

    degrees: str = "training"

    def __post_init__(self) -> None:
        if self.degrees not in DEGREES:
            raise ValueError(f"degrees={self.degrees!r} is not known. Valid: {', '.join(map(repr, DEGREES))}.")

    def fit(self, known: Known, runner: Threads) -> Any:
        """The spectral model itself, which often is the least-squares extension already, or one with joint degrees."""
        rule = known.model.rule
        if isinstance(rule, CanonicalRule):
            return known.model if self.degrees == "training" else JointModel(known.model)
        if isinstance(rule, MarkovRule | CentredRule | LowRankRule):
            return known.model
        raise ValueError(
            "Least squares extend functions of a Mercer kernel, and a Laplacian, a residual or a potential is none. "
            "Use extension='nystrom', or DiffusionMaps or LaplacianEigenmaps(laplacian='random_walk')."
        )


@dataclass(frozen=True)
class JointModel:
    """Canonical coordinates with joint degrees: where a point goes depends on the rows it comes with.

    Exempt by choice from the laws that hold elsewhere: ``embed`` of a training row is not its training embedding, and a
    row alone is not the row in a batch. What goes together is ``embed(Z)`` and ``training(X, Z)``. A batch counts each
    of its rows once, copies of anchors too. A sparse rule draws its edges anew over anchors and batch, epsilon kept.
    """

    spectral: Any  # the model of the fit
    batchwise: ClassVar[bool] = True  # blocks of a batch are not the batch

    def __post_init__(self) -> None:
        if not isinstance(self.spectral.rule, CanonicalRule):
            raise ValueError("Joint degrees are for coordinates='canonical'; in other coordinates they cancel.")
        if isinstance(self.spectral.rule.geometry.distances, Given):
            raise ValueError(
                "Joint degrees need the kernel between the rows of a batch, and precomputed rows tell of the anchors "
                "only. Pass features, or degrees='training'."
            )

    @property
    def rule(self) -> CanonicalRule:
        return self.spectral.rule

    def embed(self, Z: Array, runner: Threads) -> Array:
        """phi_Z = training(Z) D_Z / E_Z: the embedding of a batch."""
        Z = np.asarray(Z, dtype=float)
        joint = joint_degrees(self.rule, Z, runner)[1]
        return self.spectral.embed(Z, runner) * np.exp(_degrees(self.rule, Z, runner) - np.log(joint))[:, None]

    def training(self, X: Array, Z: Array, runner: Threads) -> Array:
        """phi_X = phi D / E_X: where anchors X go when the batch Z joins them."""
        X = np.asarray(X, dtype=float)
        at = self.rule.geometry.nearest(X)
        others = np.flatnonzero((self.rule.geometry.anchors[at] != X).any(axis=1))
        if len(others):
            raise ValueError(
                f"{len(others)} of {len(X)} rows are not anchors (the first is row {others[0]}). Pass rows the fit was "
                "solved on (landmarks_), and the others in the batch."
            )
        joint = joint_degrees(self.rule, np.asarray(Z, dtype=float), runner)[0]
        factor = np.exp(self.rule.log_scaling_of_anchors - np.log(joint))
        return (self.spectral.places * factor[:, None])[at]


def joint_degrees(rule: CanonicalRule, Z: Array, runner: Threads) -> tuple[Array, Array]:
    """d of the anchors and of the batch in the kernel w / (d d') of both together; rows of the batch weigh 1.

    d = S^alpha sqrt(delta), delta = S^-alpha sum_j w_j m_j S_j^-alpha, S = sum_j m_j w_j: sqrt(S) at alpha 0,
    sqrt(S sum_j w_j m_j / S_j) at 1. A row too far for its squares sees itself alone, and d = 1.
    """
    near = np.flatnonzero(np.abs(Z).max(axis=1, initial=0.0) <= LARGEST)
    n, measure = len(rule.markov.measure), np.append(rule.markov.measure, np.ones(len(near)))
    W = _joint_kernel(rule.markov, Z[near], measure, runner)
    mass = W @ measure
    weight = mass**-rule.alpha
    found = np.sqrt(mass**rule.alpha * (W @ (weight * measure)))
    of_batch = np.ones(len(Z))
    of_batch[near] = found[n:]
    return found[:n], of_batch


def _joint_kernel(markov: MarkovRule, Z: Array, measure: Array, runner: Threads) -> Any:
    """w over anchors and batch together, by the same kernel and rule of edges."""
    graph = _joint_graph(markov, Z, measure, runner)
    measured = graph.gram(runner)
    values = measured.data if issparse(measured) else measured
    markov.kernel.affinity(values)
    return measured


def _joint_graph(markov: MarkovRule, Z: Array, measure: Array, runner: Threads) -> Any:
    geometry, kernel = markov.geometry, markov.kernel
    distances = replace(geometry.distances, anchors=np.vstack([geometry.anchors, Z]))
    if isinstance(geometry, DenseGraph):
        graphs.check_memory(len(measure), "Transform fewer rows at a time, or pass degrees='training'.")
        survey = DenseSurvey(distances, distances.gram(runner), measure)
        return graphs.draw(AllPairs(geometry.local), survey, kernel, runner)
    found = SearchSurvey(neighbors.build(distances, "auto"), measure, runner)
    graph = graphs.draw(_edges(geometry), found, kernel, runner)
    return graph if geometry.bridges is None else replace(graph, bridges=_padded(geometry.bridges, len(Z)))


def _edges(graph: SparseGraph) -> Any:
    """The specification a sparse graph was drawn by, with the radius that was found."""
    if graph.kind == "ball":
        return Ball(graph.radius, local=graph.local)
    return (Union if graph.kind == "union" else Mutual)(graph.k, local=graph.local)


def _padded(bridges: csr_array, more: int) -> csr_array:
    """The bridges with rows and columns for points that have none."""
    n = bridges.shape[0] + more
    return csr_array((bridges.data, bridges.indices, np.append(bridges.indptr, [bridges.nnz] * more)), shape=(n, n))


def _degrees(rule: CanonicalRule, Z: Array, runner: Threads) -> Array:
    """log d of each row over the anchors."""
    out = np.empty(len(Z))

    def fill(block: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            out[block] = rule.log_scaling(np.ascontiguousarray(Z[block]))

    runner.each(fill, row_blocks(len(Z), rule.row_entries), "degrees")
    return out


__all__ = ["JointModel", "LeastSquares", "joint_degrees"]
