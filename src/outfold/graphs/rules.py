"""Which anchors a point keeps, as a function of distances alone, so that any point can be asked.

``AllPairs`` keeps everything (dense). The sparse rules keep an edge by a predicate on d(x, x_j)::

    Union(k)    d <= max(r(x), r_j)          Ball(radius)     d <= radius
    Mutual(k)   d <= min(r(x), r_j)          Threshold(eta)   w >= eta

with r midway between the k-th and the (k+1)-th distance, counting the point itself. ``local=k`` measures
in local units, d^2 / (sigma(x) sigma_j), sigma the k-th distance: self-tuning with any rule, continuous
k-NN with a ball. A fitted graph has twin verbs, ``gram()`` and ``cross(Z)``, that give squared distances
(in local units if asked), dense or as CSR with every kept entry explicit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .._runtime.typing import Array


def _describe(rule: str, local: int | None) -> str:
    return rule if local is None else f"{rule}, in units of neighbour {local}"


# -- specifications ------------------------------------------------------------------------


@dataclass(frozen=True)
class AllPairs:
    """Every point is joined to every anchor; dense."""

    local: int | None = None

    def describe(self) -> str:
        return _describe("all pairs", self.local)

    def remedy(self) -> str:
        return "Raise epsilon"


@dataclass(frozen=True)
class Union:
    """x and x_j are joined if either is among the other's k nearest (both counting themselves).

    ``search``: "tree", "brute" (all pairs), "faiss", or an object like scikit-learn's KNeighborsTransformer. "auto"
    takes the tree or all pairs, whichever is quicker for these points; or faiss, approximately, where all pairs would
    take more than 20 s and it is installed.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Union(10, search="tree")).fit(circle(100, random_state=0)).report_.edges
    'union of 10 nearest'
    """

    k: int = 32
    search: Any = "auto"
    local: int | None = None

    def describe(self) -> str:
        return _describe(f"union of {self.k} nearest", self.local)

    def remedy(self) -> str:
        return "Raise n_neighbors"


@dataclass(frozen=True)
class Mutual:
    """x and x_j are joined if each is among the other's k nearest (both counting themselves).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Mutual(20)).fit(circle(100, random_state=0)).report_.edges
    'mutual 20 nearest'
    """

    k: int = 32
    search: Any = "auto"
    local: int | None = None

    def describe(self) -> str:
        return _describe(f"mutual {self.k} nearest", self.local)

    def remedy(self) -> str:
        return "Raise k, or use Union"


@dataclass(frozen=True)
class Ball:
    """x and x_j are joined if d <= ``radius`` (in local units if ``local``).

    >>> from outfold import Isomap
    >>> from outfold.datasets import circle
    >>> Isomap(n_neighbors=Ball(0.5)).fit(circle(100, random_state=0)).report_.edges
    'paths along the ball of radius 0.5'
    """

    radius: float | Literal["auto"]
    search: Any = "auto"
    local: int | None = None

    def describe(self) -> str:
        return _describe(f"ball of radius {self.radius:.4g}", self.local)

    def remedy(self) -> str:
        return "Raise the radius"


@dataclass(frozen=True)
class Threshold:
    """x and x_j are joined if their Gaussian weight reaches ``eta``: a ball of radius sqrt(-2 epsilon log eta).

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import circle
    >>> DiffusionMaps(n_neighbors=Threshold(0.01)).fit(circle(100, random_state=0)).report_.edges
    'weights of at least 0.01'
    """

    eta: float
    search: Any = "auto"
    local: int | None = None

    def describe(self) -> str:
        return _describe(f"weights of at least {self.eta:g}", self.local)

    def remedy(self) -> str:
        return "Raise epsilon or lower the threshold"


@dataclass(frozen=True)
class DenseOrNearest:
    """``AllPairs`` up to ``dense_up_to`` anchors, ``Union(32)`` beyond."""

    local: int | None = None
    dense_up_to: int = 3000

    def choose(self, n: int) -> Any:
        return AllPairs(self.local) if n <= self.dense_up_to else Union(local=self.local)


def choose_rule(edges: Any, n: int) -> Any:
    """Return the rule ``edges``; for ``DenseOrNearest`` the rule that it chooses for ``n`` anchors."""
    return edges.choose(n) if isinstance(edges, DenseOrNearest) else edges


def check_k(edges: Any, measure: Array) -> None:
    """Raise ValueError if k is not smaller than the number of anchors."""
    k = getattr(edges, "k", 0)
    if k >= measure.sum():
        raise ValueError(
            f"n_neighbors={k} must be smaller than the number of anchors, n = {measure.sum():g}. Lower it, or pass "
            "n_neighbors=None to keep every pair."
        )
