"""Connected components of a normalised kernel, and the coordinates that tell them apart.

Edges below rounding do not connect: a matrix with them and one without have the same eigenpairs in
floating point, and keeping them would leave the eigenvectors of eigenvalue 1 to chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Components:
    """Labels ordered by mass (0 is the heaviest) and the mass of each component."""

    labels: Array  # (n,)
    masses: Array  # (count,), summing to 1

    @property
    def count(self) -> int:
        return len(self.masses)

    @property
    def sizes(self) -> Array:
        return np.bincount(self.labels, minlength=self.count)

    def contrasts(self, most: int) -> Array:
        """The constant and the first contrasts, orthonormal in the measure: (n, min(most, count)).

        Gram-Schmidt on the indicators in order of mass: contrast k is zero on the heavier components, one
        value on component k and another on all lighter ones.
        """
        width = min(most, self.count)
        values = np.zeros((self.count, width))
        values[:, 0] = 1.0
        rest = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)
        for k in range(1, width):
            mass, here, after = self.masses[k - 1], rest[k - 1], rest[k]
            values[k - 1, k] = np.sqrt(after / (mass * here))
            values[k:, k] = -np.sqrt(mass / (here * after))
        return values[self.labels]


def find(links: Array, measure: Array) -> Components:
    """Components of a boolean matrix (dense, symmetric), ordered by ``measure``."""
    labels = _walk(links)
    masses = np.bincount(labels, weights=measure / measure.sum())
    order = np.argsort(-masses, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Components(rank[labels], masses[order])


def _walk(links: Array) -> Array:
    """Breadth first: every row is read once, so the cost is one pass over the matrix."""
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
