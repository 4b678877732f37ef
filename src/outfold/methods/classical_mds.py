"""Classical multidimensional scaling."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from ..operators.centred import Centring, Distant
from . import parameters
from .base import SpectralEstimator
from .centred_recipe import centred_recipe


class ClassicalMDS(SpectralEstimator):
    """Classical multidimensional scaling: coordinates whose distances are those of the data, with a ``transform``.

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
        Distances that are not Euclidean have negative eigenvalues. False selects the largest; True the largest
        in magnitude, with coordinates ``sqrt(|lambda|) v``. ``report_.negative_mass`` is their part of
        ``sum |lambda|``.

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
        metric = parameters.metric(self.metric)
        definite = metric is not None and metric.name == "euclidean"
        return centred_recipe(self, Distant(metric, Centring(parameters.flag(self, "signed"), definite)))
