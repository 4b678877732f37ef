"""The methods, one module each, which declare a recipe for the engine. A method is imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classical_mds import ClassicalMDS
    from .diffusion_maps import DiffusionMaps
    from .diffusion_net import DiffusionNet
    from .grae import GRAE
    from .isomap import Isomap
    from .kernel_pca import KernelPCA
    from .laplacian_eigenmaps import LaplacianEigenmaps
    from .lle import LocallyLinearEmbedding
    from .phate import PHATE
    from .roseland import Roseland
    from .separate_pieces import Islands as Islands
    from .spectral_clustering import SpectralClustering

METHOD_MODULES = {
    "GRAE": "grae",
    "PHATE": "phate",
    "ClassicalMDS": "classical_mds",
    "DiffusionMaps": "diffusion_maps",
    "DiffusionNet": "diffusion_net",
    "Islands": "separate_pieces",
    "Isomap": "isomap",
    "KernelPCA": "kernel_pca",
    "LaplacianEigenmaps": "laplacian_eigenmaps",
    "LocallyLinearEmbedding": "lle",
    "Roseland": "roseland",
    "SpectralClustering": "spectral_clustering",
}


def __getattr__(name: str) -> Any:
    if name not in METHOD_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{METHOD_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


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
