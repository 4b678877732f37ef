"""The methods, one module each, which declare a recipe for the engine. A method is imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classical_mds import ClassicalMDS as ClassicalMDS
    from .diffusion_maps import DiffusionMaps as DiffusionMaps
    from .diffusion_net import DiffusionNet as DiffusionNet
    from .grae import GRAE as GRAE
    from .isomap import Isomap as Isomap
    from .kernel_pca import KernelPCA as KernelPCA
    from .laplacian_eigenmaps import LaplacianEigenmaps as LaplacianEigenmaps
    from .lle import LocallyLinearEmbedding as LocallyLinearEmbedding
    from .phate import PHATE as PHATE
    from .roseland import Roseland as Roseland
    from .separate_pieces import Islands as Islands
    from .spectral_clustering import SpectralClustering as SpectralClustering

PUBLIC_MODULES = {  # the methods that `outfold` exports
    "GRAE": "grae",
    "PHATE": "phate",
    "ClassicalMDS": "classical_mds",
    "DiffusionMaps": "diffusion_maps",
    "DiffusionNet": "diffusion_net",
    "Isomap": "isomap",
    "KernelPCA": "kernel_pca",
    "LaplacianEigenmaps": "laplacian_eigenmaps",
    "LocallyLinearEmbedding": "lle",
    "Roseland": "roseland",
    "SpectralClustering": "spectral_clustering",
}
METHOD_MODULES = {**PUBLIC_MODULES, "Islands": "separate_pieces"}


def __getattr__(name: str) -> Any:
    if name not in METHOD_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{METHOD_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = list(PUBLIC_MODULES)
