"""Rows of a table through a fitted model, batch by batch: coordinates, trust and clusters; an even sample of the rows.

The commands, the page and the service share these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..data.columns import Missing
from ..data.tables import Batch, Table
from ..exceptions import TableError
from ..methods.base import SpectralEstimator
from ..trust import LEVEL, Trust


@dataclass(frozen=True)
class EmbeddedRows:
    """Embedding of rows, and how far to trust it."""

    places: Array  # (rows, components)
    trust: Trust
    clusters: Array | None  # (rows,); None if the method does not cluster


def embed_rows(
    estimator: SpectralEstimator, points: Array, *, evidence: bool, coverage: float = 0.9, level: float = LEVEL
) -> EmbeddedRows:
    """Embed points. With ``evidence``, trust has all that ``estimator.trust`` returns; else the verdict."""
    points = estimator._like_fitted(points)
    places, facts = estimator.model_.look(points, Threads(estimator.n_jobs))
    trust = estimator._judge(points, places, facts, level)
    if evidence:
        trust = estimator._add_evidence(points, places, trust, coverage)
    return EmbeddedRows(places, trust, estimator._clusters(places) if clusters(estimator) else None)


def clusters(estimator: SpectralEstimator) -> int | None:
    """Return the number of clusters of a method that clusters, else None."""
    return len(estimator.cluster_centers_) if hasattr(estimator, "cluster_centers_") else None


def spectrum(estimator: SpectralEstimator) -> tuple[Array, bool] | None:
    """Return the eigenvalues to draw (1 - mu for a random walk) and whether they decrease; None if there are none."""
    values = getattr(estimator, "eigenvalues_", None)
    if values is None or not len(values):
        return None
    values = np.asarray(values, float)
    if hasattr(estimator, "laplacian"):
        walk = estimator.laplacian == "random_walk"
        return (1 - values if walk else values), walk
    return values, type(estimator).__name__ != "LocallyLinearEmbedding"


def read_batches(
    table: Table, features: Sequence[str], carried: Sequence[str], missing: Missing, watch: Callable[[int], object]
) -> Iterator[tuple[Batch, Array]]:
    """Yield each batch of a table and a mask of its complete rows, counted in ``missing``. No rows raise TableError.

    ``watch`` is called with the number of rows when a batch is done.
    """
    for batch in table.batches(features, carried):
        yield batch, missing.add(batch)
        watch(len(batch.values))
    if not missing.rows:
        raise TableError(f"{table.told} has no rows.")


@dataclass
class EvenSample:
    """Rows collected batch by batch, at most ``most``: if there are more, every second, fourth, ... row stays."""

    most: int
    every: int = 1  # rows 0, `every`, 2 `every`, ... of the table are stored
    rows: int = 0  # number of rows stored
    # per batch: row numbers and other arrays; cells of columns as lists
    parts: list[tuple[list[Array], list[list[Any]]]] = field(default_factory=list)

    def add(self, number: Array, arrays: Sequence[Array], cells: Sequence[Sequence[object]]) -> None:
        """Add rows: their numbers in the table, arrays with an entry per row, and columns of cells."""
        self.parts.append(self._thin([number, *arrays], cells))
        self.rows += len(self.parts[-1][0][0])
        while self.rows > self.most:
            self.every *= 2
            self.parts = [self._thin(*part) for part in self.parts]
            self.rows = sum(len(arrays[0]) for arrays, _ in self.parts)

    def _thin(self, arrays: list[Array], cells: Sequence[Sequence[object]]) -> tuple[list[Array], list[list[Any]]]:
        kept = np.flatnonzero(arrays[0] % self.every == 0)
        return [array[kept] for array in arrays], [[column[at] for at in kept.tolist()] for column in cells]

    def join(self) -> tuple[list[Array], list[list[Any]]]:
        """Return the arrays, that of row numbers first, and the columns of cells, of all stored rows."""
        arrays = [np.concatenate(part) for part in zip(*(arrays for arrays, _ in self.parts))]
        return arrays, [list(chain.from_iterable(column)) for column in zip(*(cells for _, cells in self.parts))]
