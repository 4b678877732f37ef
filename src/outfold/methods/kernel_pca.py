"""Kernel PCA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from .. import kernels
from .._runtime.typing import Array, Interval, Options
from ..operators.centred import Centring, Kernels
from . import parameters
from .declaration import estimator
from .spectral_base import SpectralMethod


@estimator
class KernelPCA(SpectralMethod):
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
    solver : "auto", "dense", "krylov", "lanczos" or a solver of :mod:`outfold.solvers`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> pca = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    >>> pca.transform(X[:3]).shape, pca.inverse_transform(pca.transform(X[:3])).shape
    ((3, 2), (3, 4))
    """

    _needs_positive = False

    kernel: str | Callable[[Array, Array], float] = "linear"
    gamma: Annotated[float | str | None, Interval(0, 1e300, open_low=True), Options("auto")] = None
    degree: Annotated[float, Interval(0, open_low=True)] = 3
    coef0: Annotated[float, Interval()] = 1
    _solver_names = parameters.CENTRED_SOLVERS

    def _eigenproblem(self) -> Kernels:
        kernel, gamma = self.kernel, self.gamma
        if not callable(kernel):
            parameters.one_of("kernel", kernel, (*kernels.NAMED, "precomputed"))
        if isinstance(gamma, str) and kernel != "rbf":
            raise ValueError(f"gamma='auto' is chosen for kernel='rbf'; with kernel={kernel!r} pass a number or None.")
        if kernel == "precomputed":
            return Kernels(None, Centring(definite=False))
        scale = gamma if gamma is None or isinstance(gamma, str) else float(gamma)
        named = kernels.Named(kernel, scale, float(self.degree), float(self.coef0))
        return Kernels(named, Centring(definite=named.definite))
