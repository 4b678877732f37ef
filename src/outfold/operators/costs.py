"""What a stage of a fit costs, in bytes and seconds, from the sizes alone; see :mod:`outfold.engine.plan`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .._runtime.threads import BLOCK_ENTRIES
from .._runtime.typing import Array
from ..neighbors.cells import Cells
from ..neighbors.choice import CELLS_FROM
from ..neighbors.tree import TREE_FEATURES
from .operator import BLOCK_WIDTH, DENSE_SOLVER_UP_TO

FLOPS = 2.5e10  # floating-point operations a second in a matrix product, on one core
ENTRY = 4e-9  # seconds for an entry of a dense kernel: its distance, exponential and sums
VISIT = 1.8e-7  # seconds for each neighbour in a tree search
COMPARED = 7.5  # anchors and centres that a row is compared with among cells, over the square root of the anchors
EDGE = 3e-8  # seconds for an edge of a graph, until it is an entry of the operator
SUBSPACE = 1.2e-7  # seconds of subspace iteration for an entry of W and a vector of the block
PRODUCT = 4e-9  # seconds for a term of a sparse product
SECOND_NEIGHBORS_PER_NEIGHBOR = 5  # second neighbours per neighbour: right for surfaces
KRYLOV_COLUMNS = 120  # columns that a block Krylov space usually reaches, of 200 at most


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

    @property
    def blocks(self) -> float:
        """The bytes of the blocks of rows that the threads compute at a time."""
        return 8.0 * BLOCK_ENTRIES * self.cores

    def beside_a_search(self, n: int, stages: list[Stage]) -> list[Stage]:
        """Return the stages, each with the memory of a neighbour search among n points."""
        return [replace(stage, bytes=stage.bytes + self._search_bytes(n)) for stage in stages]

    def _search_bytes(self, n: int) -> float:
        if self.features <= TREE_FEATURES:
            return 18.0 * n * self.features  # the points in the order of a tree, those of its leaves, and its boxes
        if n >= CELLS_FROM:
            # the points about the centres, in single precision; blocks of rows, which have many features
            return 4.0 * n * self.features + 2 * self.blocks * max(1.0, self.features / Cells.row_entries)
        return 8.0 * n * (self.features + 2)  # the points about their mean

    def dense_solve(self, n: int, large: str = "lanczos") -> tuple[str, Stage]:
        """Return the solver of a dense operator (``large``: beyond dense sizes) and its stage."""
        small = n <= DENSE_SOLVER_UP_TO
        flops = 5 * n**3 if small else 4.0 * n * n * 6 * (self.components + 10)
        tables = 2.2  # the matrix, its copy without known pairs, and vectors
        if large == "krylov" and not small:  # products with the matrix only
            tables = 1 + 2 * KRYLOV_COLUMNS / n
        return ("dense" if small else large), Stage("solve", tables * 8 * n * n, flops / FLOPS / self.cores)

    def sparse_solve(self, n: int, entries: float) -> tuple[str, Stage]:
        """Return the solver of a large sparse operator and its stage."""
        width = self.components + 5
        seconds = 8 * (EDGE * entries + 2e-7 * n * width) / self.cores
        return "lobpcg", Stage("solve", 40 * entries + 100 * n * width, seconds)

    def filtered_solve(self, n: int, entries: float) -> Stage:
        """Return the stage of subspace iteration through W, with ``entries``, and its transpose."""
        width = max(BLOCK_WIDTH, 2 * (self.components + 1))
        blocks = 40.0 * n * width  # two in double and four in single precision, and the last one of the call before
        return Stage("solve", 68.0 * entries + blocks, SUBSPACE * width * entries / self.cores)

    def extension(self, edges: str) -> float:
        """Return the seconds to embed the rows that are not anchors."""
        return self.rows * (32 * EDGE if "nearest" in edges else self.anchors * ENTRY) / self.cores


def search_seconds(features: int, rows: int, anchors: int, k: int) -> float:
    """Return the seconds, on one core, to find the ``k`` nearest anchors of each of ``rows`` rows."""
    if features <= TREE_FEATURES:
        return rows * k * VISIT * (1 + features / 30)
    if anchors >= CELLS_FROM:  # in single precision
        return rows * COMPARED * math.sqrt(anchors) * (features / FLOPS + ENTRY / 4)
    return rows * anchors * (2 * features / FLOPS + ENTRY / 2)
