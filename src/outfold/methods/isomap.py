"""Isomap."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from ..operators.centred import Centring
from ..operators.geodesic import Geodesic
from . import parameters
from .base import SpectralEstimator
from .centred_recipe import centred_recipe


class Isomap(SpectralEstimator):
    """Isomap: coordinates whose distances are the lengths of shortest paths through a neighbour graph.

    The kernel is -D^2 / 2 with D the geodesic distance, centred; the embedding sqrt(lambda) v. A new point reaches
    the graph through its nearest training points: D(x, y) = min_i d(x, x_i) + D(x_i, y).

    Parameters
    ----------
    n_components, extension, inverse, random_state, n_jobs, verbose :
        As in :class:`KernelPCA`.
    n_neighbors : int, or a rule ``Union(k)`` or ``Ball(radius)`` of :mod:`outfold.graphs`
        Neighbours of a point beside itself, as in scikit-learn (a ``Union`` counts the point itself); or all
        within a radius.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances.
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

    def __init__(
        self,
        n_components: Any = 2,
        *,
        n_neighbors: Any = 10,
        metric: Any = "euclidean",
        signed: bool = False,
        landmarks: Any = None,
        components: str = "warn",
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.signed = signed
        self.landmarks = landmarks
        self.components = components
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        policy = parameters.one_of("components", self.components, parameters.COMPONENT_CHOICES)
        centring = Centring(parameters.flag(self, "signed"))
        return centred_recipe(
            self, Geodesic(parameters.metric(self.metric), parameters.paths_along(self.n_neighbors), centring, policy)
        )
