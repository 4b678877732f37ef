"""Kernel PCA, classical MDS and Isomap: centred kernels, embedding sqrt(lambda) f."""

from __future__ import annotations

from typing import Any

from .. import _resolve
from .._engine import Recipe
from .._estimator import SpectralEstimator
from ..centring import Centring, Distant, Kernels
from ..geodesics import Geodesic


class KernelPCA(SpectralEstimator):
    """Kernel PCA: principal components in the feature space of any kernel.

    With K the kernel between the training points, centred to K~ = H K H, and K~ v = lambda v, the embedding is
    sqrt(lambda) v. A new point is its centred kernel row times v / sqrt(lambda).

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates; "auto" keeps those with lambda > 0.1 lambda_1; a sequence names eigenpairs (1 is
        the first).
    kernel : name, "precomputed" or callable
        scikit-learn's: "linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "chi2", "additive_chi2".
        "precomputed": X holds kernel values; a callable k(x, y) returns one.
    gamma : float, "auto" or None
        As in scikit-learn; None is 1 / n_features (chi2: 1). "auto" (rbf): 1 / (2 epsilon), epsilon the median
        squared distance.
    degree : float
        Of "poly".
    coef0 : float
        Of "poly" and "sigmoid".
    landmarks : None, int, float, array or a choice of :mod:`outfold.landmarks`
        Solve on these points only (a count, a fraction, or the points) and extend to the rest.
    extension, inverse :
        As in :class:`DiffusionMaps`.
    solver : "auto", "dense", "krylov", "lanczos" or a solver of :mod:`outfold.solvers`
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show progress for what takes longer than two seconds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> pca = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    >>> pca.transform(X[:3]).shape, pca.inverse_transform(pca.transform(X[:3])).shape
    ((3, 2), (3, 4))
    """

    _needs_positive = False

    def __init__(
        self,
        n_components: Any = 2,
        *,
        kernel: Any = "linear",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1,
        landmarks: Any = None,
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        kernel = _resolve.named_kernel(self)
        return _centred_recipe(self, Kernels(kernel, Centring(definite=kernel is not None and kernel.definite)))


class ClassicalMDS(SpectralEstimator):
    """Classical multidimensional scaling: coordinates whose distances are the given ones, with a ``transform``.

    The kernel is -d^2 / 2, centred; the embedding sqrt(lambda) v. A new point is its row of squared distances
    to the anchors (for landmarks: landmark MDS, or triangulation).

    Parameters
    ----------
    n_components, landmarks, extension, inverse, solver, random_state, n_jobs, verbose :
        As in :class:`KernelPCA`.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances, between the training points in ``fit``
        and to them (or to the landmarks) in ``transform``.
    signed : bool
        Distances that are not Euclidean have negative eigenvalues. False keeps the largest; True the largest
        in magnitude, with coordinates ``sqrt(|lambda|) v``. ``report_.negative_mass`` says how many there are.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> scaling = ClassicalMDS(3).fit(X)
    >>> Y = scaling.transform(X)
    >>> bool(np.isclose(np.linalg.norm(Y[0] - Y[1]), np.linalg.norm(X[0] - X[1])))
    True
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        metric: Any = "euclidean",
        signed: bool = False,
        landmarks: Any = None,
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.signed = signed
        self.landmarks = landmarks
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        metric = _resolve.metric(self.metric)
        definite = metric is not None and metric.name == "euclidean"
        return _centred_recipe(self, Distant(metric, Centring(_resolve.flag(self, "signed"), definite)))


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
        If the graph falls apart: join its parts by the shortest bridges, with or without a warning; raise; or
        embed the largest and extend to the rest.
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
        policy = _resolve.one_of("components", self.components, _resolve.COMPONENTS)
        centring = Centring(_resolve.flag(self, "signed"))
        return _centred_recipe(
            self, Geodesic(_resolve.metric(self.metric), _resolve.paths_along(self.n_neighbors), centring, policy)
        )


def _centred_recipe(estimator: Any, view: Any) -> Recipe:
    return Recipe(
        method=type(estimator).__name__,
        view=view,
        wanted=_resolve.wanted(estimator.n_components),
        landmarks=_resolve.landmark_choice(estimator.landmarks),
        solver=_resolve.solver(estimator.solver, among=_resolve.CENTRED_SOLVERS),
    )


__all__ = ["ClassicalMDS", "Isomap", "KernelPCA"]
