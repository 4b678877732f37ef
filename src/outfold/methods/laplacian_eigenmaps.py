"""Laplacian eigenmaps."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from .._runtime.typing import Array, Options
from ..engine.fit import Fit
from ..engine.model import ExtendedModel, SpectralModel
from ..operators.laplacian import LaplacianRule, Unnormalized
from ..operators.markov import Markov
from ..operators.operator import RowRule
from ..operators.problem import Eigenproblem
from ..operators.variable_rates import RateRule
from .declaration import After, estimator
from .spectral_base import AffinityMethod


@estimator
class LaplacianEigenmaps(AffinityMethod):
    """Laplacian eigenmaps: the smoothest functions on the graph, with a ``transform``.

    L psi = mu D psi with L = D - W ("random_walk": diffusion maps at alpha=0, t=0), or L v = mu v
    ("unnormalized"). ``eigenvalues_`` are the mu, in increasing order, without the zero of the constant.
    New points: psi(x) = p(x, .) psi / (1 - mu), respectively v(x) = w(x, .) v / (d(x) - mu).

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates. "auto": up to the last of 12 eigenpairs that is not a function of earlier ones
        (:func:`outfold.selection.residuals` > 0.4), and at least as many as the data has dimensions; all contrasts
        between components of the graph. A sequence names eigenpairs (1 is the first non-trivial).
    laplacian : "random_walk" or "unnormalized"

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    >>> maps = LaplacianEigenmaps(epsilon=0.1).fit(np.c_[np.cos(angle), np.sin(angle)])
    >>> maps.transform([[1.0, 0.0]]).shape, maps.eigenvalues_.round(3).tolist()
    ((1, 2), [0.051, 0.051])
    """

    laplacian: Annotated[str, Options("random_walk", "unnormalized"), After("epsilon")] = "random_walk"

    def _eigenproblem(self) -> Eigenproblem:
        return self._over_affinities(Markov(0.0, power=0.0) if self.laplacian == "random_walk" else Unnormalized())

    def _adopt(self, found: Fit, dtype: np.dtype[Any]) -> None:
        super()._adopt(found, dtype)
        if not _has_rates(found.model.rule):
            self.eigenvalues_ = 1 - found.eigenvalues

    def _density_power(self, normalization: Markov) -> float:
        """Return 1: a generator without density."""
        return 1.0

    def _operator_eigenvalues(self) -> Array:
        values = super()._operator_eigenvalues()
        model = self.model_
        assert isinstance(model, SpectralModel | ExtendedModel)
        result: Array = values if _has_rates(model.rule) else 1 - values
        return result


def _has_rates(rule: RowRule) -> bool:
    """Whether eigenvalues are those of a Laplacian or a generator, not of a Markov matrix."""
    return isinstance(rule, LaplacianRule | RateRule)
