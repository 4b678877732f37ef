"""The matrices of a fitted model over affinities: the graph between its anchors, and the Markov matrix or Laplacian."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.linalg import LinearOperator

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Sparse
from ..data.places import hash_rows
from ..data.sparse_rows import as_rows
from ..graphs.nearest import NearestAnchors
from ..operators.cosine_pairs import LEAST_OTHERS, CosineRule, unit_rows
from ..operators.markov import MarkovRule
from ..operators.operator import RowRule
from ..operators.walk import Walk


def affinity_graph(rule: RowRule, anchors: Array, measure: Array, rows: Array | None, columns: Array | None) -> Sparse:
    """Return the symmetric affinities between the anchors, in their order.

    ``rows``: their rows of a precomputed matrix, with all its columns, and ``columns``: those of the rule. None: rows
    are features. Raise ValueError for a kernel that is never computed pair by pair.
    """
    markov = getattr(rule, "markov", rule)
    if isinstance(markov, CosineRule):
        raise ValueError(
            "kernel='cosine' makes no table of pairs, so there is no graph_: it would be U @ U.T, U the rows scaled to "
            "length 1 (sklearn.preprocessing.normalize). operator_ has products with the Markov matrix."
        )
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


def cosine_operator(rule: CosineRule, anchors: Array, measure: Array) -> LinearOperator:
    """Return P of all pairs of anchors by their cosine, as products: no table of pairs is made.

    P f = (w / d) (U U'(m w f) - c w f), U the anchors scaled to length 1, w = (q - c)^-alpha, q = U U'm; c is 0, or the
    weight of the copy that a row leaves out without the diagonal. Raise ValueError if the model stores a sample of its
    training rows.
    """
    U, m = unit_rows(anchors), measure
    missing = float(np.abs(U.T @ m - rule.mass).max() / rule.mass.max())
    if missing > 1e-9:
        raise ValueError(
            f"operator_ is a matrix between all training rows, and this model stores {len(U)} of them: kernel='cosine' "
            "needs no more to embed. Fit with landmarks=2000 or fewer for the matrix between these, or fewer rows."
        )
    q = U @ rule.mass
    left = np.where(q - rule.copy > LEAST_OTHERS, rule.copy, 0.0)
    weight = (q - left) ** -rule.alpha
    factor = 1 / (U @ rule.degree - left * weight)  # w / d

    def product(V: Array) -> Array:
        V = V.reshape(len(U), -1)
        scaled = (m * weight)[:, None] * V
        return factor[:, None] * (U @ (U.T @ scaled) - (left * weight)[:, None] * V)

    def transposed(V: Array) -> Array:
        scaled = factor[:, None] * V.reshape(len(U), -1)
        return weight[:, None] * (m[:, None] * (U @ (U.T @ scaled)) - left[:, None] * scaled)

    shape = len(U), len(U)
    return LinearOperator(
        shape, matvec=product, rmatvec=transposed, matmat=product, rmatmat=transposed, dtype=np.dtype(float)
    )


def laplacian_matrix(graph: Sparse, measure: Array) -> Sparse:
    """Return L = diag(W m) - W diag(m)."""
    L: Sparse = csr_array(diags_array(graph @ measure) - graph @ diags_array(measure))
    return L
