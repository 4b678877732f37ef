"""Choice of the neighbour search that is quickest for the points."""

from __future__ import annotations

import warnings

from .._runtime.threads import Threads, available_cores
from ..distances import Distances, GivenNeighbors, SearchedDistances, SparseDistances
from ..exceptions import OutfoldWarning
from .brute import Brute
from .cells import Cells
from .given import GivenLists
from .search import Search
from .transformers import NeighborsTransformer, Proposed, TransformerIndex
from .tree import MOST_FEATURES, Tree

CELLS_FROM = 8000  # points: fewer are searched exactly
CELLS_SECONDS = 1.0  # an exact search that would take less is done
SLOW_SECONDS = 20.0  # if a search of sparse rows would take longer, a warning is raised
PAIR_FLOPS = 8e9  # floating point operations per second of one core on all pairs, for the estimate


def build(distances: SearchedDistances, search: str | NeighborsTransformer, runner: Threads | None = None) -> Search:
    """Return the search by name ("auto", "tree", "brute", "cells") or from a transformer."""
    if isinstance(distances, GivenNeighbors):
        return GivenLists(distances)
    euclidean = distances.name == "euclidean"
    if isinstance(search, str) and search in ("tree", "cells") and not euclidean:
        name = "precomputed" if distances.name == "given" else distances.name
        raise ValueError(f"search={search!r} is for Euclidean distances, not metric={name!r}. Pass search='auto'.")
    if not isinstance(search, str):
        return Proposed(distances, TransformerIndex(search, distances.anchors))
    if isinstance(distances, SparseDistances):
        return _over_sparse_rows(distances, search)
    if search == "tree":
        return Tree(distances)
    if search == "brute" or not euclidean:
        return Brute(distances)
    assert isinstance(distances, Distances)
    n, features = distances.anchors.shape
    if search == "cells":
        return Cells.of(distances, runner or Threads())
    if features <= MOST_FEATURES and (tree := Tree(distances)).pays():
        return tree
    seconds = 3.0 * n * n * (features + 8) / (PAIR_FLOPS * available_cores())
    if n >= CELLS_FROM and seconds > CELLS_SECONDS:
        return Cells.of(distances, runner or Threads())
    return Brute(distances)


def _over_sparse_rows(distances: SparseDistances, search: str) -> Search:
    """Return the search through all pairs: trees and cells need dense rows."""
    if search in ("tree", "cells"):
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
