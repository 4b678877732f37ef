"""Classical multidimensional scaling."""

from __future__ import annotations

from typing import Annotated

from .._runtime.typing import FLAG
from ..operators.centred import Centring, Distant
from . import parameters
from .declaration import estimator
from .parameters import MetricChoice
from .spectral_base import SpectralMethod


@estimator
class ClassicalMDS(SpectralMethod):
    """Classical multidimensional scaling: coordinates whose distances are those of the data, with a ``transform``.

    The kernel is -d^2 / 2, centred; the embedding sqrt(lambda) v. A new point is its row of squared distances
    to the anchors (for landmarks: landmark MDS, or triangulation).

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates; "auto" keeps those with lambda > 0.1 lambda_1; a sequence names eigenpairs (1 is
        the first).
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances, between the training points in ``fit``
        and to them (or to the landmarks) in ``transform``.
    signed : bool
        Distances that are not Euclidean have negative eigenvalues. False selects the largest; True the largest
        in magnitude, with coordinates ``sqrt(|lambda|) v``. ``report_.negative_mass`` is their part of
        ``sum |lambda|``.
    solver : "auto", "dense", "krylov", "lanczos" or a solver of :mod:`outfold.solvers`

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> scaling = ClassicalMDS(3).fit(X)
    >>> Y = scaling.transform(X)
    >>> bool(np.isclose(np.linalg.norm(Y[0] - Y[1]), np.linalg.norm(X[0] - X[1])))
    True
    """

    metric: MetricChoice = "euclidean"
    signed: Annotated[bool, FLAG] = False
    _solver_names = parameters.CENTRED_SOLVERS

    def _eigenproblem(self) -> Distant:
        metric = parameters.metric(self.metric)
        return Distant(metric, Centring(bool(self.signed), metric is not None and metric.name == "euclidean"))
