"""Kernel PCA."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from ..operators.centred import Centring, Kernels
from . import parameters
from .base import SpectralEstimator
from .centred_recipe import centred_recipe


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
        Degree of "poly".
    coef0 : float
        Constant term of "poly" and "sigmoid".
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
        Show the progress of steps that take longer than two seconds.

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
        kernel = parameters.named_kernel(self)
        return centred_recipe(self, Kernels(kernel, Centring(definite=kernel is not None and kernel.definite)))
