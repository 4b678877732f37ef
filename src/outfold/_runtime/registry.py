"""Classes that a model file may hold: the name of each in files, and its module.

A file refers to a class by its stored name. That name belongs to the file format: it stays when the class is renamed or
moved. The list is closed, so a file cannot name any other class. A class is imported when a file first refers to it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

# fmt: off
STORED_ESTIMATORS = {  # module: name of its estimator
    "methods.classical_mds": "ClassicalMDS",
    "methods.diffusion_maps": "DiffusionMaps",
    "methods.diffusion_net": "DiffusionNet",
    "methods.grae": "GRAE",
    "methods.isomap": "Isomap",
    "methods.kernel_pca": "KernelPCA",
    "methods.laplacian_eigenmaps": "LaplacianEigenmaps",
    "methods.lle": "LocallyLinearEmbedding",
    "methods.phate": "PHATE",
    "methods.roseland": "Roseland",
    "methods.separate_pieces": "Islands",
    "methods.spectral_clustering": "SpectralClustering",
}
STORED_CLASSES = {  # module: stored names of its classes; "name=Class" if the class has another name in the code
    "data.columns": "Preparation",
    "distances": "Metric Distances SparseDistances Given GivenTable GivenNeighbors",
    "trust": "Nearness Reference Isolation Judge",
    "bandwidths": "Bandwidth Fixed Percentile Neighbor CutOff Slope",
    "neighbors.brute": "Brute",
    "neighbors.cells": "Cells",
    "neighbors.given": "GivenLists",
    "neighbors.tree": "Tree",
    "graphs.fitted": "DenseGraph SparseGraph",
    "graphs.given": "GivenEdges GivenGraph",
    "graphs.nearest": "NearestAnchors",
    "graphs.rules": "AllPairs Union Mutual Ball Threshold Either=DenseOrNearest",
    "kernels": "GaussianKernel Affinity KernelValues GivenValues Gaussian Named Variable",
    "landmarks": (
        "Everything=AllRows Random Enough UpTo=AtMost Points KMeans FarthestPoint MinDistance InverseDensity "
        "RPCholesky Columns Anchors"
    ),
    "operators.affinity_graph": "Affinities",
    "operators.centred": "SquaredDistances CentredRule Kernels Distant Centring",
    "operators.cluster_count": "ClusterCount",
    "operators.cosine_pairs": "CosineRule CosinePairs",
    "operators.gaussian_pairs": "GaussianPairs",
    "operators.geodesic": "Geodesics Geodesic",
    "operators.given_landmarks": "GivenLandmarks",
    "operators.heat_potential": "Decay DecayRule HeatPotential",
    "operators.landmark_diffusion": "LandmarkDiffusion LandmarkMarkov Gathered=PassSums",
    "operators.landmark_passes": "NearestLandmarks",
    "operators.laplacian": "LaplacianRule Unnormalized",
    "operators.local_weights": "BarycentricRule Reconstruction=LocalWeights",
    "operators.low_rank": "LowRankRule LowRankDiffusion",
    "operators.markov": "MarkovRule CanonicalRule LooplessRule Markov",
    "operators.neighbor_walk": "NeighborWalk WalkRule",
    "operators.variable_rates": "RateRule Generator",
    "solvers.auto": "AutoSolver=Auto",
    "solvers.dense": "Dense",
    "solvers.filtered": "Filtered",
    "solvers.krylov": "Krylov",
    "solvers.lanczos": "Lanczos",
    "solvers.lobpcg": "Lobpcg",
    "solvers.low_rank": "LowRank",
    "solvers.shift_invert": "ShiftInvert",
    "extensions.auto": "Auto",
    "extensions.calibration": "Calibration",
    "extensions.domain": "TrainingSample",
    "extensions.kernel_sums": "KernelRidge GeometricHarmonics LaplacianPyramid CompressedDiffusion",
    "extensions.least_squares": "JointModel LeastSquares",
    "extensions.regressors": "BarycentricModel Barycentric LinearModel LinearMap",
    "extensions.samples": "KernelSum Known=Samples Nystrom",
    "engine.cross_fit": "Candidate",
    "engine.fit": "Recipe Fit",
    "engine.inverse": "WayBack=InverseModel",
    "engine.model": "SpectralModel ExtendedModel",
    "engine.report": "Report Drift",
    "engine.update": "Past=UpdateState",
    "neural.extension": "Net Training",
    "neural.network": "Scaling=Standardization Network",
    "methods.grae": "Encoded=GraeReport",
    "methods.network_base": "Sentinel=DomainGuard NetworkModel",
}
# fmt: on
ESTIMATORS = frozenset(STORED_ESTIMATORS.values())


def _entries() -> list[tuple[str, str, str]]:
    """Return (stored name, module, name of the class) of every class."""
    found = []
    for module, words in [*STORED_CLASSES.items(), *STORED_ESTIMATORS.items()]:
        for word in words.split():
            name, _, kind = word.partition("=")
            found.append((name, f"outfold.{module}", kind or name))
    return found


@cache
def _homes() -> dict[str, tuple[str, str]]:
    return {name: (module, kind) for name, module, kind in _entries()}


@cache
def _names() -> dict[tuple[str, str], str]:
    return {(module, kind): name for name, module, kind in _entries()}


def stored_names() -> set[str]:
    """Return all names that a file may use."""
    return set(_homes())


@cache
def stored_class(name: str) -> type[Any]:
    """Return the class of a stored name; its module is imported on first use."""
    module, kind = _homes()[name]
    found: type[Any] = getattr(import_module(module), kind)
    return found


def stored_name(kind: type) -> str | None:
    """Return the stored name of a class, or None if files cannot hold the class."""
    return _names().get((kind.__module__, kind.__qualname__))
