"""The plan of a fit before it runs: memory and time of each stage, and the choices of "auto".

Bytes are those allocated at once beside the data. Seconds are those of a core of 3 GHz with AVX2, divided by the number
of cores; they are right within a factor of about 1.5. The plan assumes that neighbours are searched by a tree in up to
ten features and through all pairs in more: a surface in many features takes less, noise in six to ten features may take
more. It assumes that graphs have five times as many second neighbours as neighbours, which is right for surfaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._runtime.collections import planner
from .._runtime.memory import free_memory
from .._runtime.threads import Threads
from ..data import sources
from ..data.sources import InMemory
from ..graphs import AllPairs
from ..graphs.rules import DenseOrNearest, choose_rule
from ..landmarks import AllRows, AtMost, Enough, Points, count_of
from ..neighbors.tree import MOST_FEATURES, TREE_FEATURES
from ..operators import landmark_passes
from ..operators.affinity_graph import Affinities
from ..operators.centred import Distant, Kernels
from ..operators.geodesic import Geodesic
from ..operators.heat_potential import TABLES_HELD, HeatPotential
from ..operators.landmark_diffusion import LandmarkDiffusion
from ..operators.laplacian import Unnormalized
from ..operators.local_weights import LocalWeights
from ..operators.low_rank import LowRankDiffusion
from ..solvers import Auto

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
class Plan:
    """The stages, in order, of a fit of ``method`` to data of ``shape``."""

    method: str
    shape: tuple[int, int]
    anchors: int
    edges: str
    solver: str
    memory: float  #: limit in bytes
    stages: tuple[Stage, ...]
    workers: int = 0  #: number of workers, of one thread each; 0: this process
    parts: int = 0  #: number of partitions of the rows

    @property
    def peak(self) -> float:
        """Return the largest number of bytes allocated at once, beside the data."""
        return max(stage.bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def moved(self) -> float:
        """Return the bytes that are sent between machines or read."""
        return sum(stage.moved for stage in self.stages)

    @property
    def fits(self) -> bool:
        return self.peak <= self.memory

    def __str__(self) -> str:
        rows, features = self.shape
        where = f", {self.parts} parts on {self.workers} workers" if self.workers else ""
        lines = [
            f"{self.method} of {rows} x {features}: {self.anchors} anchors, {self.edges}, solver {self.solver}{where}",
            *(self._line(s.name, s.bytes, s.seconds, s.moved) for s in self.stages),
            self._line("all", self.peak, self.seconds, self.moved)
            + ("" if self.workers else f"   of {self.memory / 1e6:,.0f} MB: {'fits' if self.fits else 'does not fit'}"),
        ]
        return "\n".join(lines)

    def _line(self, name: str, held: float, seconds: float, moved: float) -> str:
        beside = f"   {moved / 1e6:>12,.0f} MB moved" if self.workers else ""
        return f"  {name:<12} {held / 1e6:>10,.0f} MB {seconds:>9.1f} s{beside}"


@dataclass(frozen=True)
class _Case:
    """The sizes from which costs are computed."""

    rows: int
    features: int
    anchors: int
    components: int
    cores: int
    in_memory: bool


def plan(
    X: Any, method: Any, *, in_memory: bool | None = None, workers: int | None = None, measured: bool = False
) -> Plan:
    """Return the memory and time that ``method.fit(X)`` needs, without fitting; X may be the shape alone.

    Parameters
    ----------
    X : rows as ``fit`` takes them, or (rows, features)
    method : an estimator, or its class
    in_memory : bool, optional
        Whether the rows are in memory, so that the fit stores their embedding. By default arrays are and files are
        not. A shape stands for rows that are not in memory if the method can read them in blocks.
    workers : int, optional
        Plan a fit with landmarks of partitioned rows on ``workers`` workers of one thread each. Bytes are those of the
        worker that needs most; the plan also reports the bytes sent between machines.
    measured : bool
        For ``workers``: measure the seconds a row takes on a part of X (on random numbers if X is a shape) instead of
        assuming a typical core. The measurement takes some seconds.

    Examples
    --------
    >>> from outfold import Roseland, plan
    >>> found = plan((4_000_000, 3), Roseland(10, landmarks=400_000, memory="8GB"))
    >>> found.edges, found.fits
    ('auto: 32 nearest landmarks', True)
    """
    if isinstance(method, type):
        method = method()
    if not hasattr(method, "_recipe"):
        raise ValueError(f"{method!r} is none of Outfold's methods: pass an estimator, such as Roseland().")
    recipe = method._recipe()
    alone = isinstance(X, tuple) and len(X) == 2 and all(isinstance(size, int | np.integer) for size in X)
    source = None if alone else sources.open_rows(X)
    shape = tuple(map(int, X)) if alone else np.shape(X) if source is None else source.shape
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"A plan is for rows and features, not for shape {shape}: pass (rows, features), or a table.")
    if workers is not None:
        rows = None if alone else InMemory(np.asarray(X, dtype=float)) if source is None else source
        return planner().plan(recipe, (shape[0], shape[1]), rows, workers, measured)
    if in_memory is None:
        in_memory = source is None and not (alone and recipe.streams)
    return of_recipe(recipe, (shape[0], shape[1]), method._runner(), in_memory)


def of_recipe(recipe: Any, shape: tuple[int, int], runner: Threads, in_memory: bool) -> Plan:
    """Return the plan of a recipe for data of this shape."""
    anchors = anchors_of(recipe.landmarks, shape[0])
    wanted = recipe.wanted
    components = 32 if isinstance(wanted, str) else int(np.max(wanted))
    case = _Case(*shape, anchors, components, runner.workers, in_memory)
    edges, solver, stages = COSTS[type(recipe.view)](case, recipe.view)
    if in_memory or not recipe.streams:
        held = 8.0 * shape[0] * (components + 1)
        stages = [*stages, Stage("embedding", stages[-1].bytes * 0.3 + held, _extension(case, recipe.view, edges))]
    memory = getattr(recipe.view, "memory", free_memory())
    chosen = solver if isinstance(recipe.solver, Auto) else type(recipe.solver).__name__.lower()
    return Plan(recipe.method, shape, anchors, edges, chosen, memory, tuple(stages))


def refuse_beyond_memory(recipe: Any, shape: tuple[int, int], runner: Threads, in_memory: bool) -> None:
    """Raise MemoryError if the plan exceeds the limit, with the numbers and the parameters that would fit."""
    found = of_recipe(recipe, shape, runner, in_memory)
    if found.fits:
        return
    largest = max(found.stages, key=lambda stage: stage.bytes)
    told = (
        f"{found.method} with {found.anchors} landmarks ({found.edges}) needs about {found.peak / 1e9:.2f} GB for the "
        f"{largest.name}, and memory allows {found.memory / 1e9:.2f} GB."
    )
    fewer = found.anchors
    while fewer > 16:
        fewer = int(fewer / 1.2)
        if of_recipe(replace(recipe, landmarks=Points(np.empty((fewer, shape[1])))), shape, runner, in_memory).fits:
            raise MemoryError(f"{told} landmarks={fewer} would fit, or memory='{found.peak * 1.1 / 1e9:.2f}GB'.")
    raise MemoryError(f"{told} Pass memory='{found.peak * 1.1 / 1e9:.2f}GB'.")


def anchors_of(choice: Any, rows: int) -> int:
    if isinstance(choice, AllRows):
        return rows
    if isinstance(choice, Points):
        return len(choice.points)
    if isinstance(choice, Enough | AtMost):
        return choice.count(rows)
    return count_of(choice.size, rows)


def search_seconds(features: int, rows: int, anchors: int, k: int) -> float:
    """Return the seconds, on one core, to find the ``k`` nearest anchors of each of ``rows`` rows."""
    if features <= TREE_FEATURES:
        return rows * k * VISIT * (1 + features / 30)
    return rows * anchors * (2 * features / FLOPS + ENTRY / 2)


def _search(case: _Case, rows: int, anchors: int, k: int) -> float:
    return search_seconds(case.features, rows, anchors, k) / case.cores


def _beside_a_tree(case: _Case, n: int, stages: list[Stage]) -> list[Stage]:
    """Return the stages, each with the memory of a tree over n points added if there are few enough features."""
    held = 10.0 * n * case.features if case.features <= MOST_FEATURES else 0.0  # its points and boxes
    return [replace(stage, bytes=stage.bytes + held) for stage in stages]


def _dense_solve(case: _Case, n: int, large: str = "lanczos") -> tuple[str, Stage]:
    small = n <= Auto.dense_up_to
    flops = 5 * n**3 if small else 4.0 * n * n * 6 * (case.components + 10)
    return ("dense" if small else large), Stage("solve", 2.2 * 8 * n * n, flops / FLOPS / case.cores)


def _sparse_solve(case: _Case, n: int, entries: float) -> tuple[str, Stage]:
    width = case.components + 5
    seconds = 8 * (EDGE * entries + 2e-7 * n * width) / case.cores
    return "lobpcg", Stage("solve", 40 * entries + 100 * n * width, seconds)


def _affinity_cost(case: _Case, view: Affinities) -> tuple[str, str, list[Stage]]:
    n = case.anchors
    edges, chosen = choose_rule(view.edges, n), "auto: " if isinstance(view.edges, DenseOrNearest) else ""
    if isinstance(edges, AllPairs):
        large = "shiftinvert" if isinstance(view.normalization, Unnormalized) else "lanczos"
        solver, solve = _dense_solve(case, n, large)
        table = Stage("kernel", 8.0 * n * n * 1.2, n * n * (ENTRY + case.features * 1e-10) / case.cores)
        return chosen + edges.describe(), solver, [table, solve]
    k = getattr(edges, "k", 32)
    told = "ball" if getattr(edges, "radius", 0) == "auto" else edges.describe()
    entries = 1.3 * n * k
    solver, solve = "dense" if n <= Auto.dense_up_to else "lanczos", Stage("solve", 0.0, 0.1)
    if n > Auto.lanczos_up_to:
        solver, solve = _sparse_solve(case, n, entries)
    elif n > Auto.dense_up_to and isinstance(view.normalization, Unnormalized):
        solver = "shiftinvert"
    stages = [
        Stage("neighbours", 34.0 * n * (k + 1), _search(case, n, n, k)),
        Stage("graph", 16.0 * n * (k + 1) + 36 * entries, EDGE * entries),
        solve,
    ]
    return chosen + told, solver, _beside_a_tree(case, n, stages)


def _centred_cost(case: _Case, view: Any) -> tuple[str, str, list[Stage]]:
    n = case.anchors
    solver, solve = _dense_solve(case, n, "krylov")
    return "all pairs", solver, [Stage("kernel", 8.0 * n * n * 1.2, n * n * ENTRY / case.cores), solve]


def _low_rank_cost(case: _Case, view: LowRankDiffusion) -> tuple[str, str, list[Stage]]:
    n, m = case.rows, case.anchors
    solver, solve = _dense_solve(case, m)
    walks = (4 if view.alpha else 2) * n * m * ENTRY + 2.0 * n * m * m / FLOPS
    return "all landmarks", solver if m <= Auto.dense_up_to else "krylov", [
        Stage("kernel", 8.0 * m * m * 2, m * m * ENTRY),
        Stage("operator", 8.0 * m * m * (case.cores + 6) + 24.0 * n, walks / case.cores),
        solve,
    ]  # fmt: skip


def _geodesic_cost(case: _Case, view: Geodesic) -> tuple[str, str, list[Stage]]:
    n, m = case.rows, case.anchors
    solver, solve = _dense_solve(case, m, "krylov")
    stages = [
        Stage("neighbours", 34.0 * n * 11, _search(case, n, n, 11)),
        Stage("geodesics", 8.0 * n * m + 8.0 * m * m, n * m * 1e-8 / case.cores),
        replace(solve, bytes=solve.bytes + 8.0 * n * m),
    ]
    return "geodesics", solver, _beside_a_tree(case, n, stages)


def _local_weights_cost(case: _Case, view: LocalWeights) -> tuple[str, str, list[Stage]]:
    n, k = case.anchors, view.k
    stages = [
        Stage("neighbours", 34.0 * n * (k + 1), _search(case, n, n, k)),
        Stage("weights", 16.0 * n * k, n * k**2 * 3e-9 / case.cores),
        Stage("solve", 12.0 * n * k * k + 400.0 * n * np.log2(n), 4e-8 * n * k * np.log2(n)),
    ]
    return f"{k} nearest", "dense" if n <= Auto.dense_up_to else "shiftinvert", _beside_a_tree(case, n, stages)


def _landmark_diffusion_cost(case: _Case, view: LandmarkDiffusion) -> tuple[str, str, list[Stage]]:
    n, m, f = case.rows, case.anchors, case.features
    edges, chosen = choose_rule(view.edges, m), "auto: " if isinstance(view.edges, DenseOrNearest) else ""
    told = chosen + view.describe(edges)
    if isinstance(edges, AllPairs):
        solver, solve = _dense_solve(case, m)
        block = 8.0 * m * case.cores * min(n, landmark_passes.gram_step(m))
        walk = n * m * ENTRY / case.cores
        kept = 8.0 * m * m * view.updatable
        return told, solver, [
            Stage("first pass", 8.0 * m * m, walk),
            Stage("second pass", 8.0 * m * m * (case.cores + 2.5) + block, walk + n * m * m / FLOPS / case.cores),
            replace(solve, bytes=solve.bytes + kept),
        ]  # fmt: skip
    k = edges.k
    chunk = landmark_passes.chunk_rows(n, f, k, view.memory)
    passes = 1 if chunk >= n else 2
    gram = m * min(m, landmark_passes.SECOND_NEIGHBORS_PER_NEIGHBOR * k)
    kept = 12.0 * gram * view.updatable
    rows = chunk * (24.0 + 16 * f)
    sums = 24.0 * gram * (1 if chunk >= n else 2)
    solver, solve = ("dense" if m <= Auto.dense_up_to else "lanczos"), Stage("solve", 24.0 * gram, 0.2)
    if m > Auto.lanczos_up_to:
        solver, solve = _sparse_solve(case, m, gram)
    looked = _search(case, n, m, k)
    searching = 40.0 * k * min(chunk, landmark_passes.SEARCHED_ROWS * case.cores)  # threads hold it until the end
    return told, solver, [
        Stage("first pass", rows + chunk * k * 12.0 + searching, looked),
        Stage(
            "second pass",
            rows + chunk * k * 24.0 + sums + searching,
            looked * (passes - 1) + n * k * k * PRODUCT / case.cores,
        ),
        replace(solve, bytes=solve.bytes + kept + (rows + 4.0 * chunk * k if passes == 1 and case.in_memory else 0.0)),
    ]  # fmt: skip


def _seen_entries(case: _Case) -> float:
    """Return the seconds to compute the alpha-decaying kernel from every row to the landmarks."""
    return case.rows * case.anchors * (2 * ENTRY + case.features * 1e-9) / case.cores


def _heat_potential_cost(case: _Case, view: HeatPotential) -> tuple[str, str, list[Stage]]:
    m = case.anchors
    table, pairs = 8.0 * m * m, _seen_entries(case)
    solver = "dense" if m <= Auto.dense_up_to else "lanczos"
    return view.describe(), solver, [
        Stage("kernel", 3 * 8.0 * case.cores * max(m * 16, 1 << 20) + 400.0 * m, pairs),
        Stage("potential", TABLES_HELD * table, 20.0 * m**3 / FLOPS / case.cores),
        Stage("scaling", 3 * table, 200 * m * m * ENTRY / case.cores),
    ]  # fmt: skip


def _extension(case: _Case, view: Any, edges: str) -> float:
    """Return the seconds to embed the rows that are not anchors."""
    if case.anchors == case.rows:
        return 0.0
    if isinstance(view, HeatPotential):
        return _seen_entries(case)
    return case.rows * (32 * EDGE if "nearest" in edges else case.anchors * ENTRY) / case.cores


COSTS: dict[type, Callable[[_Case, Any], tuple[str, str, list[Stage]]]] = {
    Affinities: _affinity_cost,
    Distant: _centred_cost,
    Kernels: _centred_cost,
    Geodesic: _geodesic_cost,
    LocalWeights: _local_weights_cost,
    HeatPotential: _heat_potential_cost,
    LandmarkDiffusion: _landmark_diffusion_cost,
    LowRankDiffusion: _low_rank_cost,
}
