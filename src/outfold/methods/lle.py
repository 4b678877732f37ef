"""Locally linear embedding: reconstruction weights."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from ..operators.local_weights import LocalWeights
from . import parameters
from .base import SpectralEstimator


class LocallyLinearEmbedding(SpectralEstimator):
    """Locally linear embedding: neighbours reconstruct a point's coordinates by the weights that reconstruct the point.

    Weights W, rows summing to 1, minimise ``|x_i - sum_j W_ij x_j|^2`` over the k nearest neighbours; the embedding is
    the eigenvectors of (I - W)' (I - W) with the smallest eigenvalues, without the constant, as unit columns. A new
    point is the combination of its neighbours' coordinates by its own weights.

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates; "auto" cuts at the largest relative gap among the first ten eigenvalues; a sequence
        names eigenpairs (1 is the first non-trivial).
    n_neighbors : int
        Neighbours of a point beside itself; more than n_components. Equal rows count as one.
    reg : float > 0
        Ridge of the weights: reg times the trace of the local Gram matrix in the fit, as in scikit-learn, and reg
        times its diagonal for new rows, so that a training point keeps its coordinates.
    landmarks : None, int, float, array or a choice of :mod:`outfold.landmarks`
        Solve on these points only (a count, a fraction, or the points) and extend to the rest.
    components : "warn", "error" or "largest"
        If the neighbour graph is disconnected: make contrasts between its components the first coordinates; raise; or
        embed the largest and extend to the rest.
    extension, inverse :
        As in :class:`DiffusionMaps`.
    solver : "auto", "dense", "shift_invert", "lanczos" or a solver of :mod:`outfold.solvers`
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show the progress of steps that take longer than two seconds.

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(500, random_state=0)
    >>> flat = LocallyLinearEmbedding(2, n_neighbors=12).fit(X)
    >>> flat.transform(X[:3] + 0.01).shape
    (3, 2)
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        n_neighbors: int = 10,
        reg: float = 1e-3,
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
        self.reg = reg
        self.landmarks = landmarks
        self.components = components
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        neighbours = parameters.count("n_neighbors", self.n_neighbors)
        reg = parameters.number("reg", self.reg, low=0.0, open_low=True)
        policy = parameters.one_of("components", self.components, ("warn", "error", "largest"))
        return Recipe(
            method=type(self).__name__,
            view=LocalWeights(neighbours, reg, policy),
            wanted=parameters.parse_components(self.n_components),
            landmarks=parameters.landmark_choice(self.landmarks),
            solver=parameters.solver(self.solver, among=parameters.RESIDUAL_SOLVERS),
        )
