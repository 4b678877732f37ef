"""Diffusion maps."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from ..operators.markov import Markov
from . import parameters
from .affinity_recipe import affinity_recipe
from .base import SpectralEstimator


class DiffusionMaps(SpectralEstimator):
    """Diffusion maps: coordinates whose Euclidean distance is the diffusion distance.

    With W the Gaussian kernel, q = W m, A = W / (q^alpha q^alpha'), P = A diag(m) / d and eigenpairs
    P psi = lambda psi, the embedding is lambda^t psi without the constant; psi is
    orthonormal in the stationary measure. A new point is its Markov row times the basis (Nystrom).

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates; "auto" keeps those with ``|lambda|^t > 0.1 |lambda_1|^t``; a sequence names
        eigenpairs (1 is the first non-trivial).
    epsilon : float, rule name or rule
        w = exp(-d^2 / (2 epsilon)). Names: "auto", "median", "neighbor", "percentile", "slope".
    alpha : float in [0, 1]
        How much of the sampling density to remove: 0 graph Laplacian, 1/2 Fokker-Planck,
        1 Laplace-Beltrami (none is left).
    t : float >= 0
        Diffusion time; it may be a fraction if every selected eigenvalue is positive.
    kernel : "gaussian", "self_tuning", "continuous_knn", "precomputed" or callable
        "self_tuning": d^2 / (sigma(x) sigma_j), sigma the distance to the 7th neighbour; "continuous_knn":
        edges with d^2 <= delta^2 rho(x) rho_j, all of weight 1 (``n_neighbors=Ball(delta)`` sets delta, an int
        the neighbour rho is measured to); "precomputed": X holds affinities; a callable k(x, y) returns one.
    n_neighbors : None, int, "auto" or a rule of :mod:`outfold.graphs`
        Which pairs the kernel keeps: all (None); x and y if either is among the other's k nearest, counting
        itself (int); all up to 3000 anchors and 32 nearest beyond ("auto"); or ``Mutual(k)``, ``Ball(radius)``,
        ``Threshold(eta)``, ``Union(k, search=...)``.
    threshold : float in (0, 1), optional
        Keep the pairs whose weight reaches it instead.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances.
    landmarks : None, int, float, array or a choice of :mod:`outfold.landmarks`
        Solve on these points only (a count, a fraction, or the points) and extend to the rest.
    components : "warn", "error", "largest" or "join"
        If the graph is disconnected: make contrasts between its components the first coordinates; raise; embed
        the largest and extend to the rest; or join them by the shortest bridges (each with the weight of the longest
        edge at its ends).
    coordinates : "diffusion" or "canonical"
        "canonical": lambda^(t/2) v, the canonical basis of the kernel k^t, where v are the unit eigenvectors of the
        symmetric kernel k = w / (d d'), d = q^alpha sqrt(delta), delta the row sums of A: the coordinates of Wang
        (2019), whose inner products are k^t. v(x) = sqrt(delta(x) / sum_j m_j delta_j) psi(x).
    extension : "nystrom", "auto", another name, an object of :mod:`outfold.extensions` or a regressor
        How the embedding is extended to points: by the method's own rows, exactly ("nystrom"); by "least_squares",
        "geometric_harmonics", "laplacian_pyramid", "kernel_ridge", "barycentric", "compressed_diffusion", "linear" or
        "net" (needs PyTorch), fitted to the anchors; or by the one with the least error on held-out rows ("auto").
    inverse : "auto" or any of these but the first and "least_squares"
        The extension from coordinates to features that ``inverse_transform`` uses.
    solver : "auto", "dense", "lanczos", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
        ``LowRank()`` with landmarks solves the operator of all rows by a low-rank kernel through the landmarks
        (Gaussian kernel, n_neighbors "auto" or None, components "warn" or "error").
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show the progress of steps that take longer than two seconds.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    >>> maps = DiffusionMaps(epsilon=0.1).fit(np.c_[np.cos(angle), np.sin(angle)])
    >>> maps.transform([[1.0, 0.0]]).shape, maps.eigenvalues_.round(3).tolist()
    ((1, 2), [0.949, 0.949])
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        epsilon: Any = "auto",
        alpha: float = 1.0,
        t: float = 1,
        kernel: Any = "gaussian",
        n_neighbors: Any = "auto",
        threshold: float | None = None,
        metric: Any = "euclidean",
        landmarks: Any = None,
        components: str = "warn",
        coordinates: str = "diffusion",
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.alpha = alpha
        self.t = t
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.threshold = threshold
        self.metric = metric
        self.landmarks = landmarks
        self.components = components
        self.coordinates = coordinates
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        alpha = parameters.number("alpha", self.alpha, low=0.0, high=1.0)
        t = parameters.number("t", self.t, low=0.0)
        canonical = parameters.one_of("coordinates", self.coordinates, parameters.COORDINATES) == "canonical"
        return affinity_recipe(self, self.n_components, Markov(alpha, t / 2 if canonical else t, canonical))
