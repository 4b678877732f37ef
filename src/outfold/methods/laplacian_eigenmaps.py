"""Laplacian eigenmaps."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from . import parameters
from .affinity_recipe import affinity_recipe
from .base import SpectralEstimator


class LaplacianEigenmaps(SpectralEstimator):
    """Laplacian eigenmaps: the smoothest functions on the graph, with a ``transform``.

    L psi = mu D psi with L = D - W ("random_walk": diffusion maps at alpha=0, t=0), or L v = mu v
    ("unnormalized"). ``eigenvalues_`` are the mu, in increasing order, without the zero of the constant.
    New points: psi(x) = p(x, .) psi / (1 - mu), respectively v(x) = w(x, .) v / (d(x) - mu).

    Parameters
    ----------
    n_components, epsilon, kernel, n_neighbors, threshold, metric, landmarks :
        As in :class:`DiffusionMaps`; "auto" components are those with 1 - mu > 0.1 (1 - mu_1).
    components, extension, inverse, solver, random_state, n_jobs, verbose :
        As in :class:`DiffusionMaps`.
    laplacian : "random_walk" or "unnormalized"

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    >>> maps = LaplacianEigenmaps(epsilon=0.1).fit(np.c_[np.cos(angle), np.sin(angle)])
    >>> maps.transform([[1.0, 0.0]]).shape, maps.eigenvalues_.round(3).tolist()
    ((1, 2), [0.051, 0.051])
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        epsilon: Any = "auto",
        laplacian: str = "random_walk",
        kernel: Any = "gaussian",
        n_neighbors: Any = "auto",
        threshold: float | None = None,
        metric: Any = "euclidean",
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
        self.epsilon = epsilon
        self.laplacian = laplacian
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.threshold = threshold
        self.metric = metric
        self.landmarks = landmarks
        self.components = components
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        return affinity_recipe(self, self.n_components, parameters.laplacian(self.laplacian))

    def _adopt(self, found: Any, dtype: Any) -> None:
        super()._adopt(found, dtype)
        if self.laplacian == "random_walk":
            self.eigenvalues_ = 1 - found.eigenvalues
