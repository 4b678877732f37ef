"""Isomap."""

from __future__ import annotations

from typing import Annotated, Literal

from .. import graphs
from .._runtime.typing import FLAG, Options
from ..graphs.given import SYMMETRIZE
from ..operators.centred import Centring
from ..operators.geodesic import Geodesic
from . import parameters
from .declaration import After, estimator
from .parameters import MetricChoice, SparseRule
from .spectral_base import SpectralMethod

AUTO_PATH_NEIGHBORS = 10  # neighbours of a point beside itself


@estimator
class Isomap(SpectralMethod):
    """Isomap: coordinates whose distances are the lengths of shortest paths through a neighbour graph.

    The kernel is -D^2 / 2 with D the geodesic distance, centred; the embedding sqrt(lambda) v. A new point reaches
    the graph through its nearest training points: D(x, y) = min_i d(x, x_i) + D(x_i, y).

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates; "auto" keeps those with lambda > 0.1 lambda_1; a sequence names eigenpairs (1 is
        the first).
    n_neighbors : "auto", int, or a rule ``Union(k)`` or ``Ball(radius)`` of :mod:`outfold.graphs`
        Neighbours of a point beside itself, as in scikit-learn (a ``Union`` counts the point itself); or all
        within a radius. Equal rows count as one. "auto": 10, and all others of fewer than 11 rows.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances. A sparse X holds those between neighbours, of which
        the nearest ``n_neighbors`` are taken.
    symmetrize : "auto", "mean", "union", "mutual" or "error"
        How a precomputed matrix that is not symmetric becomes so: :func:`outfold.graphs.symmetrize`. "auto": a sparse
        one by "union", an edge in either direction; a dense one is refused, as "error" refuses both.
    signed : bool
        Whether to keep the eigenvalues largest in magnitude instead of the largest; as in :class:`ClassicalMDS`.
    landmarks : None, int, float, array or a choice of :mod:`outfold.landmarks`
        Landmark Isomap: geodesics from these points only, through the graph of all; memory n x landmarks
        instead of n x n.
    components : "warn", "join", "error" or "largest"
        If the graph is disconnected: join its components by the shortest bridges, with or without a warning; raise;
        or embed the largest and extend to the rest.
    solver : "auto", "dense", "krylov", "lanczos" or a solver of :mod:`outfold.solvers`

    Examples
    --------
    >>> import numpy as np
    >>> from outfold.datasets import swiss_roll
    >>> X, position = swiss_roll(800, random_state=0)
    >>> flat = Isomap(2).fit(X)
    >>> bool(abs(np.corrcoef(flat.embedding_[:, 0], position[:, 0])[0, 1]) > 0.99)
    True
    """

    n_neighbors: int | Literal["auto"] | SparseRule = "auto"
    metric: MetricChoice = "euclidean"
    signed: Annotated[bool, FLAG] = False
    symmetrize: Annotated[str, Options(*SYMMETRIZE)] = "auto"
    components: Annotated[str, Options("warn", "error", "largest", "join"), After("landmarks")] = "warn"
    _solver_names = parameters.CENTRED_SOLVERS
    _takes_graphs = True

    def _eigenproblem(self) -> Geodesic:
        metric, edges, centring = (
            parameters.metric(self.metric),
            _edge_rule(self.n_neighbors),
            Centring(bool(self.signed)),
        )
        return Geodesic(
            metric=metric,
            edges=edges,
            normalization=centring,
            components=self.components,
            fewer=isinstance(self.n_neighbors, str),
        )


def _edge_rule(value: int | Literal["auto"] | SparseRule) -> graphs.Union | graphs.Ball:
    """Return the rule of the graph: k neighbours beside the point itself, or the rule that was passed."""
    if isinstance(value, str):
        parameters.one_of("n_neighbors", value, ("auto",))
        return graphs.Union(AUTO_PATH_NEIGHBORS + 1)
    if isinstance(value, graphs.Union | graphs.Ball):
        parameters.check_rule(value)
        parameters.refuse_local_unit(value, "kernels of diffusion maps; paths have the lengths of the data")
        return value
    if isinstance(value, graphs.Mutual | graphs.Threshold | graphs.AllPairs):
        raise ValueError(f"n_neighbors={value!r}: paths run along a count of neighbours, Union(k) or Ball(radius).")
    return graphs.Union(parameters.count("n_neighbors", value) + 1)
