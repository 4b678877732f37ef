"""The methods, each a short declaration over the engine."""

from .barycentric import LocallyLinearEmbedding
from .centred import ClassicalMDS, Isomap, KernelPCA
from .diffusion import DiffusionMaps, LaplacianEigenmaps, SpectralClustering
from .diffusion_net import DiffusionNet
from .grae import GRAE
from .heat import PHATE
from .roseland import Roseland

__all__ = [
    "GRAE",
    "PHATE",
    "ClassicalMDS",
    "DiffusionMaps",
    "DiffusionNet",
    "Isomap",
    "KernelPCA",
    "LaplacianEigenmaps",
    "LocallyLinearEmbedding",
    "Roseland",
    "SpectralClustering",
]
