"""Outfold: spectral manifold learning whose embeddings are functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .methods import PUBLIC_MODULES as _METHODS

if TYPE_CHECKING:
    from .engine.plan import plan as plan
    from .methods import GRAE as GRAE
    from .methods import PHATE as PHATE
    from .methods import ClassicalMDS as ClassicalMDS
    from .methods import DiffusionMaps as DiffusionMaps
    from .methods import DiffusionNet as DiffusionNet
    from .methods import Isomap as Isomap
    from .methods import KernelPCA as KernelPCA
    from .methods import LaplacianEigenmaps as LaplacianEigenmaps
    from .methods import LocallyLinearEmbedding as LocallyLinearEmbedding
    from .methods import Roseland as Roseland
    from .methods import SpectralClustering as SpectralClustering
    from .storage import load as load

_HOMES = {**dict.fromkeys(_METHODS, "methods"), "load": "storage", "plan": "engine.plan"}


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first asked for, so that ``import outfold`` is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'outfold' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["__version__", *_HOMES]
