"""Diffusion maps, Laplacian eigenmaps and spectral clustering: affinities, normalised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from .. import _resolve
from .._engine import Recipe
from .._estimator import SpectralEstimator
from ..affinities import Affinities
from ..lowrank import LowRankDiffusion
from ..normalizations import Markov
from ..solvers import LowRank
from ..sources import in_dask

Array = NDArray[Any]


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
        Diffusion time; fractions where every kept eigenvalue is positive.
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
        If the graph falls apart: contrasts between its components become the first coordinates; raise; embed
        the largest and extend to the rest; join them by the shortest bridges (each weighs what the longest
        edge at its ends does).
    coordinates : "diffusion" or "canonical"
        "canonical": lambda^(t/2) v, the canonical basis of the kernel k^t, where v are the unit eigenvectors of the
        symmetric kernel k = w / (d d'), d = q^alpha sqrt(delta), delta the row sums of A: the coordinates of Wang
        (2019), whose inner products are k^t. v(x) = sqrt(delta(x) / sum_j m_j delta_j) psi(x).
    extension : "nystrom", "auto", another name, an object of :mod:`outfold.extensions` or a regressor
        How the embedding is carried to points: by the method's own rows, exactly ("nystrom"); by "least_squares",
        "geometric_harmonics", "laplacian_pyramid", "kernel_ridge", "barycentric", "compressed_diffusion", "linear" or
        "net" (needs PyTorch), learnt from the anchors; or by whichever errs least on held-out rows ("auto").
    inverse : "auto" or any of these but the first and "least_squares"
        How ``inverse_transform`` goes back to the features.
    solver : "auto", "dense", "lanczos", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
        ``LowRank()`` with landmarks: the operator of all rows, by a kernel of low rank through the landmarks
        (Gaussian kernel, n_neighbors "auto" or None, components "warn" or "error").
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show progress for what takes longer than two seconds.

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
        alpha = _resolve.number("alpha", self.alpha, low=0.0, high=1.0)
        t = _resolve.number("t", self.t, low=0.0)
        canonical = _resolve.one_of("coordinates", self.coordinates, _resolve.COORDINATES) == "canonical"
        return _recipe(self, self.n_components, Markov(alpha, t / 2 if canonical else t, canonical))


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
        As there.
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
        return _recipe(self, self.n_components, _resolve.laplacian(self.laplacian))

    def _adopt(self, found: Any, dtype: Any) -> None:
        super()._adopt(found, dtype)
        if self.laplacian == "random_walk":
            self.eigenvalues_ = 1 - found.eigenvalues


class SpectralClustering(ClusterMixin, LaplacianEigenmaps):
    """Spectral clustering with a ``predict``: k-means on Laplacian eigenmaps.

    Parameters
    ----------
    n_clusters : int
    normalize_rows : bool
        Ng, Jordan and Weiss: scale each row of (1, psi_1, ..., psi_{N-1}) to length 1 first.
    epsilon, laplacian, kernel, n_neighbors, threshold, metric, landmarks, components, extension, inverse :
        As in :class:`LaplacianEigenmaps`.
    solver, n_jobs, verbose :
        As there.
    random_state : int, RandomState or None
        Seeds the choice of landmarks; k-means starts from centres chosen greedily, not at random.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.05, random_state=0)
    >>> clusters = SpectralClustering(2, random_state=0).fit(X)
    >>> bool(clusters.predict([[0.0, 1.0]])[0] == clusters.predict([[-1.0, 0.0]])[0])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        normalize_rows: bool = False,
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
        self.n_clusters = n_clusters
        self.normalize_rows = normalize_rows
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
        clusters = _resolve.count("n_clusters", self.n_clusters)
        recipe = _recipe(self, max(1, clusters - 1), _resolve.laplacian(self.laplacian))
        return replace(recipe, clip_to_rank=True)

    def _adopt(self, found: Any, dtype: Any) -> None:
        super()._adopt(found, dtype)
        self.__dict__.pop("labels_", None)
        here = found.embedding is not None  # else the landmarks stand for the rows
        features = self._features(found.embedding if here else found.model.embed(found.anchors.points, self._runner()))
        measure = found.measure if here else found.anchors.measure
        start = _greedy_centres(features, measure, self.n_clusters)
        means = KMeans(self.n_clusters, init=start, n_init=1, tol=1e-8, max_iter=1000, algorithm="lloyd")
        means.fit(features, sample_weight=measure)
        self.cluster_centers_ = means.cluster_centers_
        if here:
            self.labels_ = self._clusters(found.embedding)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit and return ``labels_``; of rows that are not in memory, ``predict(X)``."""
        self.fit(X, y, sample_weight=sample_weight)
        return self.labels_ if "labels_" in self.__dict__ else self.predict(X)

    def predict(self, X: Any) -> Array:
        """The cluster of any points: the nearest centre in the embedding."""
        if in_dask(X):
            check_is_fitted(self)
            return self._lazily(X, label=True)
        return self._clusters(np.asarray(super().transform(X), dtype=float))

    def _clusters(self, embedding: Array) -> Array:
        return pairwise_distances_argmin(self._features(embedding), self.cluster_centers_)

    def _features(self, embedding: Array) -> Array:
        if not self.normalize_rows:
            return np.asarray(embedding, dtype=float)
        rows = np.column_stack([np.ones(len(embedding)), embedding])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _greedy_centres(features: Array, measure: Array, count: int) -> Array:
    """Starting centres for k-means: each the candidate that lowers the cost most. No randomness.

    Candidates, and of many rows those the cost is taken over, are rows at even steps of mass along the first
    coordinate, so weights count as repeats.
    """
    order = np.lexsort(features.T[::-1])
    mass = np.cumsum(measure[order])

    def evenly(most: int) -> Array:
        size = min(most, len(order))
        return order[np.searchsorted(mass, (np.arange(size) + 0.5) / size * mass[-1])]

    pool = features[evenly(1000)]
    if len(features) > 4000:
        features, measure = features[evenly(4000)], np.ones(4000)
    squared = cdist(pool, features, "sqeuclidean")
    cost = np.full(len(features), np.inf)
    chosen = []
    for _ in range(count):
        best = int((np.minimum(squared, cost) @ measure).argmin())
        cost = np.minimum(cost, squared[best])
        chosen.append(pool[best])
    return np.array(chosen)


def _recipe(estimator: Any, n_components: Any, normalization: Any) -> Recipe:
    """What the methods over affinities name alike."""
    if isinstance(estimator.solver, LowRank):
        return _low_rank(estimator, n_components, normalization)
    policy = _resolve.one_of("components", estimator.components, _resolve.COMPONENTS)
    given_distances = estimator._precomputed() == "metric"
    stages = _resolve.stages(estimator)
    return Recipe(
        method=type(estimator).__name__,
        view=Affinities(**stages, normalization=normalization, components=policy, given_distances=given_distances),
        wanted=_resolve.wanted(n_components),
        landmarks=_resolve.landmark_choice(estimator.landmarks),
        solver=_resolve.solver(estimator.solver),
    )


def _low_rank(estimator: Any, n_components: Any, normalization: Any) -> Recipe:
    """The same operator, of all rows, by a kernel of low rank."""
    stages = _resolve.low_rank_stages(estimator, normalization)
    return Recipe(
        method=type(estimator).__name__,
        view=LowRankDiffusion(**stages, alpha=normalization.alpha, power=normalization.power),
        wanted=_resolve.wanted(n_components),
        landmarks=_resolve.landmark_choice(estimator.landmarks),
        solver=estimator.solver,
    )


__all__ = ["DiffusionMaps", "LaplacianEigenmaps", "SpectralClustering"]
