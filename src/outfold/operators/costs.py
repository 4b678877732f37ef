"""What a stage of a fit costs, in bytes and seconds, from the sizes alone; see :mod:`outfold.engine.plan`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .._runtime.typing import Array
from ..neighbors.tree import MOST_FEATURES, TREE_FEATURES
from .operator import DENSE_SOLVER_UP_TO

FLOPS = 2.5e10  # floating-point operations a second in a matrix product, on one core
ENTRY = 4e-9  # seconds for an entry of a dense kernel: its distance, exponential and sums
VISIT = 1.8e-7  # seconds for each neighbour in a tree search
EDGE = 3e-8  # seconds for an edge of a graph, until it is an entry of the operator
PRODUCT = 4e-9  # seconds for a term of a sparse product


@dataclass(frozen=True)
class Stage:
    """One stage of a fit, with its cost."""

    name: str
    bytes: float  #: allocated at once; with workers, on the worker that needs most
    seconds: float
    moved: float = 0.0  #: bytes sent between machines


@dataclass(frozen=True)
class Cost:
    """The stages of an eigenproblem in order, its edges in words, and the solver that "auto" would choose."""

    edges: str
    solver: str
    stages: list[Stage]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The sizes from which costs are computed."""

    rows: int
    features: int
    anchors: int
    components: int
    cores: int
    in_memory: bool
    points: Array | None = None  # the rows, if the eigenproblem reads them and they are in memory

    def search(self, rows: int, anchors: int, k: int) -> float:
        """Return the seconds to find the ``k`` nearest anchors of each of ``rows`` rows."""
        return search_seconds(self.features, rows, anchors, k) / self.cores

    def beside_a_tree(self, n: int, stages: list[Stage]) -> list[Stage]:
        """Return the stages, each with the memory of a tree over n points if there are few enough features."""
        held = 10.0 * n * self.features if self.features <= MOST_FEATURES else 0.0  # its points and boxes
        return [replace(stage, bytes=stage.bytes + held) for stage in stages]

    def dense_solve(self, n: int, large: str = "lanczos") -> tuple[str, Stage]:
        """Return the solver of a dense operator (``large``: beyond dense sizes) and its stage."""
        small = n <= DENSE_SOLVER_UP_TO
        flops = 5 * n**3 if small else 4.0 * n * n * 6 * (self.components + 10)
        return ("dense" if small else large), Stage("solve", 2.2 * 8 * n * n, flops / FLOPS / self.cores)

    def sparse_solve(self, n: int, entries: float) -> tuple[str, Stage]:
        """Return the solver of a large sparse operator and its stage."""
        width = self.components + 5
        seconds = 8 * (EDGE * entries + 2e-7 * n * width) / self.cores
        return "lobpcg", Stage("solve", 40 * entries + 100 * n * width, seconds)

    def extension(self, edges: str) -> float:
        """Return the seconds to embed the rows that are not anchors."""
        return self.rows * (32 * EDGE if "nearest" in edges else self.anchors * ENTRY) / self.cores


def search_seconds(features: int, rows: int, anchors: int, k: int) -> float:
    """Return the seconds, on one core, to find the ``k`` nearest anchors of each of ``rows`` rows."""
    if features <= TREE_FEATURES:
        return rows * k * VISIT * (1 + features / 30)
    return rows * anchors * (2 * features / FLOPS + ENTRY / 2)
