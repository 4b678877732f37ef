"""Outfold: spectral manifold learning whose embeddings are functions."""

from ._version import __version__
from .methods import DiffusionMaps, LaplacianEigenmaps, SpectralClustering

__all__ = ["DiffusionMaps", "LaplacianEigenmaps", "SpectralClustering", "__version__"]
