"""Every noun says which protocol it implements, and its fields stay fields."""

from dataclasses import MISSING, fields

import numpy as np
import pytest

from outfold import bandwidths, distances, graphs, kernels, landmarks
from outfold._runtime.threads import Threads
from outfold.graphs import fitted, given, pair_statistics, protocols, rules
from outfold.neighbors import Search, brute, cells, transformers, tree
from outfold.neighbors.given import GivenLists

IMPLEMENTED = [
    (distances.MeasuredDistances, (distances.Distances, distances.Given, distances.GivenTable, kernels.PairwiseValues)),
    (distances.SearchedDistances, (distances.Distances, distances.SparseDistances)),
    (distances.SearchedDistances, (distances.GivenTable, distances.GivenNeighbors)),
    (distances.PointMetric, (distances.Metric, distances.GivenMetric, kernels.CallableKernel)),
    (
        bandwidths.PairStatistics,
        (pair_statistics.DenseStatistics, pair_statistics.SearchStatistics, given.GivenStatistics),
    ),
    (
        bandwidths.BandwidthRule,
        (bandwidths.Fixed, bandwidths.Percentile, bandwidths.Neighbor, bandwidths.Slope),
    ),
    (Search, (brute.Brute, tree.Tree, cells.Cells, transformers.Proposed, GivenLists)),
    (
        protocols.EdgeRule,
        (
            graphs.AllPairs,
            graphs.Union,
            graphs.Mutual,
            graphs.Ball,
            graphs.Threshold,
            rules.DenseOrNearest,
            given.GivenEdges,
        ),
    ),
    (protocols.Graph, (fitted.DenseGraph, fitted.SparseGraph, given.GivenGraph)),
    (protocols.ValueGeometry, (kernels.KernelValues, kernels.GivenValues)),
    (kernels.Kernel, (kernels.Gaussian, kernels.Affinity)),
    (protocols.FittedKernel, (kernels.GaussianKernel, kernels.Affinity)),
    (
        landmarks.Landmarks,
        (landmarks.AllRows, landmarks.Random, landmarks.Enough, landmarks.AtMost, landmarks.Points),
    ),
    (landmarks.Landmarks, (landmarks.KMeans, landmarks.FarthestPoint, landmarks.MinDistance, landmarks.InverseDensity)),
    (landmarks.Landmarks, (landmarks.RPCholesky,)),
]
PAIRS = [(protocol, kind) for protocol, kinds in IMPLEMENTED for kind in kinds]


@pytest.mark.parametrize(("protocol", "kind"), PAIRS, ids=lambda value: value.__name__)
def test_a_noun_names_its_protocol_and_no_field_takes_a_property_for_its_default(protocol, kind):
    assert issubclass(kind, protocol)
    assert protocol in kind.__mro__
    assert not any(isinstance(field.default, property) for field in fields(kind) if field.default is not MISSING)


def test_a_rule_without_order_leaves_the_rows_as_they_are():
    graph = fitted.DenseGraph(distances=distances.Metric().fit(np.eye(2)), measure=np.ones(2))
    assert graph.arrange(np.eye(2), Threads(1)) is None
