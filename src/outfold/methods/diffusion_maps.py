"""Diffusion maps."""

from __future__ import annotations

from typing import Annotated

from .._runtime.typing import Interval, Options
from ..operators.markov import Markov
from ..operators.problem import Eigenproblem
from .declaration import After, estimator
from .spectral_base import AffinityMethod


@estimator
class DiffusionMaps(AffinityMethod):
    """Diffusion maps: coordinates whose Euclidean distance is the diffusion distance.

    With W the Gaussian kernel, q = W m, A = W / (q^alpha q^alpha'), P = A diag(m) / d and eigenpairs
    P psi = lambda psi, the embedding is lambda^t psi without the constant; psi is
    orthonormal in the stationary measure. A new point is its Markov row times the basis (Nystrom).

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates. "auto": up to the last of 12 eigenpairs that is not a function of earlier ones
        (:func:`outfold.selection.residuals` > 0.4), and at least as many as the data has dimensions, of those with
        ``|lambda|^t > 0.1 |lambda_1|^t``; all contrasts between components of the graph. A sequence names eigenpairs (1
        is the first non-trivial).
    alpha : float in [0, 1]
        How much of the sampling density to remove: 0 graph Laplacian, 1/2 Fokker-Planck,
        1 Laplace-Beltrami (none is left).
    t : float >= 0
        Diffusion time; it may be a fraction if every selected eigenvalue is positive.
    coordinates : "diffusion" or "canonical"
        "canonical": lambda^(t/2) v, the canonical basis of the kernel k^t, where v are the unit eigenvectors of the
        symmetric kernel k = w / (d d'), d = q^alpha sqrt(delta), delta the row sums of A: the coordinates of Wang
        (2019), whose inner products are k^t. v(x) = sqrt(delta(x) / sum_j m_j delta_j) psi(x).

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    >>> maps = DiffusionMaps(epsilon=0.1).fit(np.c_[np.cos(angle), np.sin(angle)])
    >>> maps.transform([[1.0, 0.0]]).shape, maps.eigenvalues_.round(3).tolist()
    ((1, 2), [0.949, 0.949])
    """

    alpha: Annotated[float, Interval(0, 1), After("epsilon")] = 1.0
    t: Annotated[float, Interval(0)] = 1
    coordinates: Annotated[str, Options("diffusion", "canonical"), After("components")] = "diffusion"

    def _eigenproblem(self) -> Eigenproblem:
        canonical = self.coordinates == "canonical"
        power = float(self.t) / 2 if canonical else float(self.t)
        return self._over_affinities(Markov(float(self.alpha), power, canonical))
