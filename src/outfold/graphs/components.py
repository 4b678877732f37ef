"""Connected components of a normalised kernel, and the coordinates that separate them.

Edges below rounding do not connect: a matrix with them and one without have the same eigenpairs in
floating point, and keeping them would leave the eigenvectors of eigenvalue 1 to chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from .._loops import csr
from .._runtime.threads import row_blocks
from .._runtime.typing import Array
from ..data.places import find_copies
from ..data.sparse_rows import SparseRows
from ..distances import SearchedDistances

MEAN_ENTRIES_UP_TO = 20_000_000  # entries of the means of components over sparse features


@dataclass(frozen=True)
class Components:
    """Labels ordered by mass (0 is the heaviest) and the mass of each component."""

    labels: Array  # (n,)
    masses: Array  # (count,), summing to 1
    means: Array | None = None  # (count, features): where each component lies; None: not known

    @property
    def count(self) -> int:
        return len(self.masses)

    def reorder(self, order: Array) -> Components:
        """Return the same components of the points in another order."""
        return replace(self, labels=self.labels[order])

    @property
    def sizes(self) -> Array:
        return np.bincount(self.labels, minlength=self.count)

    def describe(self) -> str:
        """Return the number of components and the largest sizes, in words."""
        sizes = ", ".join(map(str, np.sort(self.sizes)[::-1][:5])) + (", ..." if self.count > 5 else "")
        return f"{self.count} components (sizes {sizes})"

    def contrasts(self, most: int) -> Array:
        """Return the constant and the first contrasts, orthonormal in the measure: (n, min(most, count)).

        If the means are known, the contrasts are their principal components: two coordinates show the components where
        they lie. Other contrasts are those of :meth:`_one_by_one`.
        """
        values = self._one_by_one(min(most, self.count))
        if self.means is not None and values.shape[1] > 2:
            root = np.sqrt(self.masses)[:, None]
            moved = root * (self.means - self.masses @ self.means)
            if not np.isfinite(moved).all():  # the means of components that lie too far apart for numbers
                return values[self.labels]
            left, size, _ = np.linalg.svd(moved, full_matrices=False)
            basis = np.hstack([root, left[:, size > 1e-6 * size.max()]])[:, : values.shape[1]]
            for column in (root * values[:, 1:]).T:
                rest = column - basis @ (basis.T @ column)
                if basis.shape[1] < values.shape[1] and np.linalg.norm(rest) > 1e-6:
                    rest -= basis @ (basis.T @ rest)  # again: the first difference may be mostly rounding
                    basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            values = basis / root
        return values[self.labels]

    def _one_by_one(self, width: int) -> Array:
        """Return ``width`` functions of the components, (count, width).

        Gram-Schmidt on the indicators in order of mass: contrast k is zero on the heavier components, one
        value on component k and another on all lighter ones.
        """
        values = np.zeros((self.count, width))
        values[:, 0] = 1.0
        rest = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)
        for k in range(1, width):
            mass, here, after = self.masses[k - 1], rest[k - 1], rest[k]
            values[k - 1, k] = np.sqrt(after / (mass * here))
            values[k:, k] = -np.sqrt(mass / (here * after))
        return values

    def at(self, points: Array, measure: Array) -> Components:
        """Return the components with their means; as they are if a feature is missing, or sparse means are too many."""
        sparse = isinstance(points, SparseRows)
        if self.count < 3 or (sparse and self.count * points.shape[1] > MEAN_ENTRIES_UP_TO):
            return self  # of two components there is one contrast
        if not (sparse or np.isfinite(points).all()):
            return self
        held = np.bincount(self.labels, weights=measure)
        sums = csr_array((measure, (self.labels, np.arange(len(points)))), shape=(self.count, len(points))) @ points
        return replace(self, means=(sums.toarray() if sparse else sums) / held[:, None])


def find(links: Array | csr_array, measure: Array) -> Components:
    """Return the components of a symmetric boolean matrix (dense or CSR), ordered by ``measure``."""
    labels = _walk(links) if isinstance(links, np.ndarray) else csr.label_components(links.indptr, links.indices)
    masses = np.bincount(labels, weights=measure / measure.sum())
    order = np.argsort(-masses, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Components(rank[labels], masses[order])


def _walk(links: Array) -> Array:
    """Return the label of each row, (n,). Breadth first: every row is read once, so the cost is one pass."""
    labels = np.full(len(links), -1)
    current = 0
    for start in range(len(links)):
        if labels[start] >= 0:
            continue
        frontier = np.array([start])
        labels[start] = current
        while len(frontier):
            reached = links[frontier].any(axis=0) & (labels < 0)
            frontier = np.flatnonzero(reached)
            labels[frontier] = current
        current += 1
    return labels


def bridges(parts: Components, distances: SearchedDistances) -> Array:
    """Return short edges that connect the graph: (count, 2) pairs of anchors.

    The smallest component is joined to the nearest anchor outside it, until one component is left. Copies of an end
    are joined too.
    """
    if parts.count > 100:
        raise ValueError(
            f"The graph has {parts.count} components; bridging more than 100 would invent its shape. Raise n_neighbors."
        )
    labels, points, found = parts.labels.copy(), distances.anchors, []
    while len(groups := np.unique(labels, return_counts=True)[0]) > 1:
        sizes = np.bincount(labels)
        inside = np.flatnonzero(labels == groups[sizes[groups].argmin()])
        outside = np.flatnonzero(labels != labels[inside[0]])
        a, b, length = _closest_pair(distances, inside, outside)
        if not np.isfinite(length):
            raise ValueError(
                f"The graph has {parts.describe()}, and no distance between them is stored, so nothing can join them. "
                "Pass components='largest', or a graph with more neighbours."
            )
        ends = [find_copies(points, end) for end in (a, b)]
        found.append(np.array([(i, j) for i in ends[0] for j in ends[1]]))
        labels[inside] = labels[b]
    return np.vstack(found)


def _closest_pair(distances: SearchedDistances, inside: Array, outside: Array) -> tuple[int, int, float]:
    """Return the anchors of the shortest pair, and its length."""
    points = distances.anchors
    if distances.name == "euclidean" and not isinstance(points, SparseRows):
        length, nearest = cKDTree(points[inside]).query(points[outside])
    else:
        blocks = [distances.between(outside[at], inside) for at in row_blocks(len(outside), len(inside))]
        length, nearest = (np.concatenate(c) for c in zip(*((b.min(axis=1), b.argmin(axis=1)) for b in blocks)))
    best = int(length.argmin())
    return int(inside[nearest[best]]), int(outside[best]), float(length[best])
