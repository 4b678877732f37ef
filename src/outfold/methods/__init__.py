"""The methods, each a short declaration over the engine."""

from .barycentric import LocallyLinearEmbedding
from .centred import ClassicalMDS, Isomap, KernelPCA
from .diffusion import DiffusionMaps, LaplacianEigenmaps, SpectralClustering
from .heat import PHATE
from .roseland import Roseland

__all__ = [
    "PHATE",
    "ClassicalMDS",
    "DiffusionMaps",
    "Isomap",
    "KernelPCA",
    "LaplacianEigenmaps",
    "LocallyLinearEmbedding",
    "Roseland",
    "SpectralClustering",
]
