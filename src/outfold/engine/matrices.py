"""The matrices of a fitted model over affinities: the graph between its anchors, and the Markov matrix or Laplacian."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array, vstack

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Sparse
from ..data.places import hash_rows
from ..data.sparse_rows import as_rows
from ..graphs.nearest import NearestAnchors
from ..operators.markov import MarkovRule
from ..operators.operator import RowRule
from ..operators.walk import Walk


def affinity_graph(rule: RowRule, anchors: Array, measure: Array, rows: Array | None, columns: Array | None) -> Sparse:
    """Return the symmetric affinities between the anchors, in their order.

    ``rows``: their rows of a precomputed matrix, with all its columns, and ``columns``: those of the rule. None: rows
    are features. Raise ValueError for a kernel that is never computed pair by pair.
    """
    markov = getattr(rule, "markov", rule)
    if not isinstance(markov, MarkovRule):
        raise ValueError("This kernel is never computed pair by pair, so there is no graph_ and no operator_.")
    if rows is None or columns is None:
        points = as_rows(markov.geometry.anchors)
        place = _places(hash_rows(points), hash_rows(as_rows(anchors)))
    else:
        points, place = as_rows(rows[columns][:, columns]), np.argsort(columns)
    parts = []
    for block in row_blocks(len(points), markov.row_entries):
        seen = markov.geometry.cross(points[block])
        weights = csr_array(markov.kernel.affinity(seen)) if isinstance(seen, np.ndarray) else csr_array(seen)
        if not isinstance(seen, np.ndarray):
            weights.data = markov.kernel.affinity(weights.data.copy())
        parts.append(weights)
    W = csr_array(vstack(parts, format="csr"))
    if isinstance(markov.geometry, NearestAnchors):
        back = np.empty(len(place))
        back[place] = measure
        W = csr_array(Walk.of(W, back).kernel(Threads(1)))
    ordered = csr_array(W[place][:, place])
    ordered.sort_indices()
    graph: Sparse = ordered
    return graph


def _places(keys: Array, wanted: Array) -> Array:
    """Return where each of the wanted keys is; equal keys in their order."""
    place = np.empty(len(keys), int)
    place[np.argsort(wanted, kind="stable")] = np.argsort(keys, kind="stable")
    return place


def without_diagonal(graph: Sparse, measure: Array) -> Sparse:
    """Return the affinities without one copy of each anchor beside itself, as ``diagonal=False`` has them."""
    loops: Sparse = csr_array(graph - diags_array(min(1.0, float(measure.min())) / measure))
    return loops


def markov_matrix(graph: Sparse, measure: Array, alpha: float) -> Sparse:
    """Return P = A diag(m) / d, A = W / (q^alpha q^alpha'), q = W m: its rows sum to 1."""
    weight = (graph @ measure) ** -alpha
    A = diags_array(weight) @ graph @ diags_array(weight * measure)
    P: Sparse = csr_array(diags_array(1 / A.sum(axis=1)) @ A)
    return P


def laplacian_matrix(graph: Sparse, measure: Array) -> Sparse:
    """Return L = diag(W m) - W diag(m)."""
    L: Sparse = csr_array(diags_array(graph @ measure) - graph @ diags_array(measure))
    return L
