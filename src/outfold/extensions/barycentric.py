"""Extension by the weights that reconstruct a point from its nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from .. import neighbors
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..distances import Metric
from ..operators.local_weights import BarycentricRule
from ..trust import Nearness
from .base import Extension
from .samples import Samples, by_blocks, check_complete


@dataclass(frozen=True)
class Barycentric(Extension):
    """y(x) = sum_j w_j(x) y_j, w the weights by which the nearest points reconstruct x (those of LLE).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(extension=Barycentric(20)).fit(X)
    >>> maps.report_.extension, bool(maps.report_.extension_gap < 1e-10)
    ('Barycentric(n_neighbors=20)', True)
    """

    n_neighbors: int = 10
    reg: float = 1e-3

    def fit(self, known: Samples, runner: Threads) -> BarycentricModel:
        check_complete(known, "barycentric")
        search = neighbors.build(Metric().fit(known.points), "auto")
        k = min(self.n_neighbors, len(known.points))
        return BarycentricModel(BarycentricRule(search, k, self.reg, Nearness(1.0)), known.values)


@dataclass(frozen=True)
class BarycentricModel:
    """The rule for the reconstruction weights of any point, and the values they combine."""

    rule: BarycentricRule
    values: Array

    def embed(self, Z: Array, runner: Threads) -> Array:
        of = lambda points: self.rule.rows(points) @ self.values  # noqa: E731
        return by_blocks(of, Z, self.values.shape[1], self.rule.row_entries, runner)
