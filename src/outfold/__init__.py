"""Outfold: spectral manifold learning whose embeddings are functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .engine.plan import plan
    from .methods import (
        GRAE,
        PHATE,
        ClassicalMDS,
        DiffusionMaps,
        DiffusionNet,
        Isomap,
        KernelPCA,
        LaplacianEigenmaps,
        LocallyLinearEmbedding,
        Roseland,
        SpectralClustering,
    )
    from .storage import load

_HOMES = {
    "ClassicalMDS": "methods",
    "DiffusionMaps": "methods",
    "DiffusionNet": "methods",
    "GRAE": "methods",
    "Isomap": "methods",
    "KernelPCA": "methods",
    "LaplacianEigenmaps": "methods",
    "LocallyLinearEmbedding": "methods",
    "PHATE": "methods",
    "Roseland": "methods",
    "SpectralClustering": "methods",
    "load": "storage",
    "plan": "engine.plan",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first asked for, so that ``import outfold`` is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'outfold' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


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
    "__version__",
    "load",
    "plan",
]
