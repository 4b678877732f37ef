"""Model selection: how many coordinates to keep, which ones, and the diffusion time.

The functions take the eigenvalues of a Markov kernel without the trivial 1: ``eigenvalues_`` of DiffusionMaps and
Roseland as they are (t counts the steps of the method: one of Roseland is two of diffusion maps), and
``1 - eigenvalues_`` of LaplacianEigenmaps, whose own are small where a Markov kernel's are large. A centred
kernel (KernelPCA, ClassicalMDS, Isomap) has eigenvalues of any size: criteria that compare ``|lambda|`` with
``|lambda_1|`` use them as they are, and criteria that need ``|lambda| <= 1`` say so.
"""

from ..operators.spectrum import entropy_time, spectral_dimension, spectral_entropy
from .coordinates import LocalLinearSelection, residuals
from .dimension import gap_dimension, likelihood_dimension, slope_dimension, smallest_time
from .novelty import EmbeddingOutliers
from .outliers import RemoveOutliers
from .tuning import Tuning, tune

__all__ = [
    "EmbeddingOutliers",
    "LocalLinearSelection",
    "RemoveOutliers",
    "Tuning",
    "entropy_time",
    "gap_dimension",
    "likelihood_dimension",
    "residuals",
    "slope_dimension",
    "smallest_time",
    "spectral_dimension",
    "spectral_entropy",
    "tune",
]
