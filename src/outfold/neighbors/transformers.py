"""Search by a transformer of the caller's, which proposes candidates; distances are recomputed in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Protocol, Self

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr
from .._runtime.threads import Threads
from .._runtime.typing import CACHE, Array, Axes
from ..distances import SearchedDistances
from .brute import Brute
from .lists import Lists, nearest_first
from .search import Reaches, Search


class NeighborsTransformer(Protocol):
    """An object with the contract of scikit-learn's KNeighborsTransformer."""

    def fit(self, X: Array) -> Self: ...

    def transform(self, X: Array) -> csr_array:
        """Return the distances of each row to its nearest points, (len(X), n)."""
        ...


@dataclass(frozen=True)
class Proposed(Search):
    """Search with candidates from a transformer; the rest is done by ``Brute``."""

    distances: Annotated[SearchedDistances, Axes("n d")]
    source: Annotated[TransformerIndex, CACHE] = field(repr=False)
    exact: bool = False
    recall: ClassVar[float] = float("nan")

    @cached_property
    def _brute(self) -> Brute:
        return Brute(self.distances)

    @property
    def row_entries(self) -> int:
        return self._brute.row_entries

    def of_any_k(self) -> Search:
        return self._brute

    def closest(self, Z: Array, k: int, runner: Threads, groups: Reaches | None = None) -> Lists:
        n = len(self.distances.anchors)
        index = np.sort(self.source.candidates(Z, min(n, k)), axis=1)
        ptr = np.arange(0, index.size + 1, index.shape[1])
        flat = np.ascontiguousarray(index.ravel(), dtype=np.int64)
        if groups is not None:
            back = self._brute.within(Z, np.ones(len(Z)), groups, runner)
            ptr, flat = csr.union_rows(ptr, flat, back.ptr, back.index)
        return nearest_first(self.distances, Z, ptr, flat, runner)

    def group(self, reach: Array) -> Reaches:
        return self._brute.group(reach)

    def within(self, Z: Array, radii: Array, groups: Reaches | None, runner: Threads) -> Lists:
        return self._brute.within(Z, radii, groups, runner)


class TransformerIndex:
    """Candidates from a transformer."""

    def __init__(self, transformer: NeighborsTransformer, anchors: Array) -> None:
        from sklearn.base import clone

        self.transformer = clone(transformer).fit(anchors)
        self.n = len(anchors)

    def candidates(self, Z: Array, k: int) -> Array:
        graph = self.transformer.transform(Z)
        if getattr(graph, "shape", None) != (len(Z), self.n):
            raise ValueError(
                f"{type(self.transformer).__name__} returned a graph of shape {getattr(graph, 'shape', None)} for "
                f"{len(Z)} rows and {self.n} anchors; expected {(len(Z), self.n)}."
            )
        counts = np.diff(graph.tocsr().indptr)
        if counts.min() < k:
            raise ValueError(
                f"{type(self.transformer).__name__} returned {counts.min()} neighbours for some row, but {k} are "
                f"needed (n_neighbors and one more, counting the point itself). Raise its n_neighbors to {k}."
            )
        graph = graph.tocsr()
        order = [np.argsort(graph.data[a:b])[:k] + a for a, b in zip(graph.indptr[:-1], graph.indptr[1:])]
        chosen: Array = graph.indices[np.array(order)]
        return chosen
