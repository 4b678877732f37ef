"""Locally linear embedding: reconstruction weights."""

from __future__ import annotations

from typing import Annotated

from .._runtime.typing import Interval, Options
from ..operators.local_weights import LocalWeights
from . import parameters
from .declaration import After, estimator
from .spectral_base import SpectralMethod

AUTO_LINEAR_NEIGHBORS = 10  # neighbours of a point beside itself


@estimator
class LocallyLinearEmbedding(SpectralMethod):
    """Locally linear embedding: neighbours reconstruct a point's coordinates by the weights that reconstruct the point.

    Weights W, rows summing to 1, minimise ``|x_i - sum_j W_ij x_j|^2`` over the k nearest neighbours; the embedding is
    the eigenvectors of (I - W)' (I - W) with the smallest eigenvalues, without the constant, as unit columns. A new
    point is the combination of its neighbours' coordinates by its own weights.

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates. "auto": up to the last of ``n_neighbors`` - 1 eigenpairs, 12 at most, that is not a
        function of earlier ones (:func:`outfold.selection.residuals` > 0.4), and at least as many as the data has
        dimensions. A sequence names eigenpairs (1 is the first non-trivial).
    n_neighbors : "auto" or int
        Neighbours of a point beside itself; more than n_components. Equal rows count as one. "auto": 10, and all others
        of fewer than 11 distinct rows.
    reg : float > 0
        Ridge of the weights: reg times the trace of the local Gram matrix in the fit, as in scikit-learn (whose default
        is 1e-3), and reg times its diagonal for new rows, so that a training point keeps its coordinates.
    components : "warn", "error" or "largest"
        If the neighbour graph is disconnected: make contrasts between its components the first coordinates; raise; or
        embed the largest and extend to the rest.
    solver : "auto", "dense", "shift_invert", "lanczos" or a solver of :mod:`outfold.solvers`

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(500, random_state=0)
    >>> flat = LocallyLinearEmbedding(2, n_neighbors=12).fit(X)
    >>> flat.transform(X[:3] + 0.01).shape
    (3, 2)
    """

    n_neighbors: Annotated[int | str, Interval(1), Options("auto")] = "auto"
    reg: Annotated[float, Interval(0, 1e300, open_low=True)] = 1e-2
    components: Annotated[str, Options("warn", "error", "largest"), After("landmarks")] = "warn"
    _solver_names = parameters.RESIDUAL_SOLVERS

    def _eigenproblem(self) -> LocalWeights:
        auto = isinstance(self.n_neighbors, str)
        k = AUTO_LINEAR_NEIGHBORS if isinstance(self.n_neighbors, str) else int(self.n_neighbors)
        return LocalWeights(k, float(self.reg), self.components, fewer=auto)
