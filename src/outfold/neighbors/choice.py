"""Choice of the neighbour search that is quickest for the points."""

from __future__ import annotations

import warnings

from .._runtime.threads import available_cores
from ..distances import GivenNeighbors, SearchedDistances, SparseDistances
from ..exceptions import OutfoldWarning
from .brute import Brute
from .faiss import FaissIndex, NeighborsTransformer, Proposed, TransformerIndex
from .given import GivenLists
from .search import Search
from .tree import MOST_FEATURES, Tree

SLOW_SECONDS = 20.0  # if an exact search would take longer, faiss is used, or a warning raised
PAIR_FLOPS = 8e9  # floating point operations per second of one core on all pairs, for the estimate


def build(distances: SearchedDistances, search: str | NeighborsTransformer) -> Search:
    """Return the search by name ("auto", "tree", "brute", "faiss") or from a transformer."""
    if isinstance(distances, GivenNeighbors):
        return GivenLists(distances)
    euclidean = distances.name == "euclidean"
    if isinstance(search, str) and search in ("tree", "faiss") and not euclidean:
        name = "precomputed" if distances.name == "given" else distances.name
        raise ValueError(f"search={search!r} is for Euclidean distances, not metric={name!r}. Pass search='auto'.")
    if not isinstance(search, str):
        return Proposed(distances, TransformerIndex(search, distances.anchors))
    if isinstance(distances, SparseDistances):
        return _over_sparse_rows(distances, search)
    if search == "tree":
        return Tree(distances)
    if search == "brute":
        return Brute(distances)
    if search == "faiss":
        return Proposed(distances, FaissIndex(distances.anchors).ready())
    n, features = distances.anchors.shape
    if euclidean and features <= MOST_FEATURES and (tree := Tree(distances)).pays():
        return tree
    seconds = 3.0 * n * n * (features + 8) / (PAIR_FLOPS * available_cores())
    if euclidean and seconds > SLOW_SECONDS:
        try:
            return Proposed(distances, FaissIndex(distances.anchors).ready())
        except ImportError:
            warnings.warn(
                f"Searching the neighbours of {n} points with {features} features exactly will take about "
                f'{seconds:.0f} s. pip install "outfold[ann]" (faiss) makes it a few seconds, approximately.',
                OutfoldWarning,
                stacklevel=2,
            )
    return Brute(distances)


def _over_sparse_rows(distances: SparseDistances, search: str) -> Search:
    """Return the search through all pairs: trees and faiss need dense rows."""
    if search in ("tree", "faiss"):
        raise ValueError(f"search={search!r} is for dense rows, and these are sparse. Pass search='auto' or 'brute'.")
    seconds = distances.all_pairs_seconds() / available_cores()
    if search == "auto" and seconds > SLOW_SECONDS:
        warnings.warn(
            f"Searching the neighbours of {len(distances.anchors)} sparse rows exactly will take about {seconds:.0f} "
            "s. An approximate search is quicker: n_neighbors=outfold.graphs.Union(k, search=PyNNDescentTransformer()) "
            "of pynndescent; or reduce the features first (sklearn.decomposition.TruncatedSVD).",
            OutfoldWarning,
            stacklevel=2,
        )
    return Brute(distances)
