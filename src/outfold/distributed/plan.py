"""Estimate a fit on Dask workers: seconds of each pass, memory of a worker, bytes sent between machines.

seconds of a pass = parts of the busiest worker * (rows of a part (seconds a row + bytes a row / rate) + overhead)

Workers add their sums before they send them on: about one copy of the Gram matrix per part moves between workers, and
one copy per wave of parts comes back to the client.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._runtime.threads import Threads, available_cores, one_thread
from .._runtime.typing import Array
from ..data.sources import Source
from ..engine import plan as planning
from ..engine.plan import Plan, Stage
from ..graphs import AllPairs
from ..graphs.rules import choose_rule
from ..landmarks import Anchors, along_the_tree
from ..operators import landmark_passes
from ..operators.landmark_diffusion import LandmarkDiffusion
from . import rows as dask_rows

READ = 4e8  # bytes of decompressed rows that a worker reads per second
WIRE = 3e8  # bytes per second between two machines
ADD = 2e8  # bytes per second when two sums are added
TASK = 0.01  # seconds of overhead per task: sending it and waiting for its inputs
BASE = 3e8  # bytes of memory of an idle worker
WINDOWS = 16  # windows of consecutive rows, from which `_sample` takes the landmarks for measuring


@dataclass(frozen=True)
class Rates:
    """Seconds per row of both passes on one thread, and seconds of the steps around them."""

    first: float  # seconds per row in the first pass
    second: float  # seconds per row in the second pass
    added: float  # seconds to add two sums of the second pass
    sight: float  # seconds on the client to fit epsilon and the geometry of the landmarks


def plan(recipe: Any, shape: tuple[int, int], rows: Source | None, workers: int, measured: bool) -> Plan:
    """Return the plan of ``recipe`` on ``workers`` workers; ``measured`` times both passes on a sample of ``rows``."""
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
    if not recipe.streams:
        raise ValueError(
            f"{recipe.method} without landmarks needs all rows in one memory: workers= is for landmarks=N, or Roseland."
        )
    n, features = shape
    m = planning.anchors_of(recipe.landmarks, n)
    parts = _parts(rows, n, features, workers)
    alone = planning.of_recipe(recipe, (max(m, 2), features), Threads(), False)
    row, points = 8.0 * features, 8.0 * features * m
    reading = Stage("landmarks", BASE + 2 * row * n / parts, _waves(parts, workers) * _part_read(n, parts, row), points)
    if not isinstance(recipe.view, LandmarkDiffusion):  # other views fit the landmarks only: no passes over all rows
        return _plan_of(recipe, shape, m, alone.edges, alone, [reading, *alone.stages], workers, parts)
    edges, dense = _edges(recipe.view, m)
    rates = _measure_rates(recipe, shape, m, rows, workers, parts) if measured else _typical(features, m, edges, dense)
    gram = 8.0 * m * m if dense else 12.0 * m * min(m, landmark_passes.SECOND_NEIGHBORS_PER_NEIGHBOR * edges.k)
    piece = min(gram, landmark_passes.GRAM_BYTES)
    part = row * n / parts
    held = (
        BASE
        + part
        + points
        + (8.0 * m * 64 * 1024 if dense else landmark_passes.CHUNK_SHARE * landmark_passes.PART_MEMORY)
    )
    blocks = (
        1 if dense else -(-n // parts // landmark_passes.chunk_rows(n, features, edges.k, landmark_passes.PART_MEMORY))
    )
    joined = gram / WIRE + blocks * rates.added
    waves = min(dask_rows.WAVES, -(-parts // workers))
    first = _pass(n, parts, workers, row, rates.first, 0.0)
    second = _pass(n, parts, workers, row, rates.second, joined) + waves * (gram / WIRE + rates.added)
    if dense and gram > landmark_passes.GRAM_BYTES:  # each piece of the Gram matrix needs its own pass over all rows
        second += _pass(n, parts, workers, row, rates.first, 0.0) * (gram / piece - 1)
    stages = [
        replace(reading, seconds=reading.seconds + rates.sight),
        Stage("first pass", held, first, points * workers + 8.0 * m * (parts + waves) + row * n),
        Stage("second pass", held + (dask_rows.ARITY + 2) * piece, second, gram * (parts + waves) + row * n),
        alone.stages[-1],
    ]
    return _plan_of(recipe, shape, m, _edges_told(recipe.view, edges), alone, stages, workers, parts)


def _edges_told(view: Any, edges: Any) -> str:
    return ("auto: " if edges is not view.edges else "") + view.describe(edges)


def _plan_of(
    recipe: Any, shape: tuple[int, int], m: int, edges: str, alone: Plan, stages: list[Stage], workers: int, parts: int
) -> Plan:
    return Plan(recipe.method, shape, m, edges, alone.solver, alone.memory, tuple(stages), workers, parts)


def _parts(rows: Source | None, n: int, features: int, workers: int) -> int:
    """Return the number of parts of a Dask array; of other rows one such that a part has at most ``PART_BYTES``.

    A worker has at least two parts.
    """
    if isinstance(rows, dask_rows.DaskRows):
        return int(rows.values.numblocks[0])
    return int(max(1, min(n, max(2 * workers, -(-8 * n * features // dask_rows.PART_BYTES)))))


def _waves(parts: int, workers: int) -> int:
    """Return the number of parts of the busiest worker."""
    return -(-parts // workers)


def _part_read(n: int, parts: int, row: float) -> float:
    return TASK + n / parts * row / READ


def _pass(n: int, parts: int, workers: int, row: float, rate: float, joined: float) -> float:
    return _waves(parts, workers) * (_part_read(n, parts, row) + n / parts * rate + TASK + joined)


def _edges(view: LandmarkDiffusion, m: int) -> tuple[Any, bool]:
    edges = choose_rule(view.edges, m)
    return edges, isinstance(edges, AllPairs)


def _typical(features: int, m: int, edges: Any, dense: bool) -> Rates:
    """Return the rates of a 3 GHz core with AVX2, without a measurement."""
    if dense:
        walk = m * planning.ENTRY
        return Rates(walk, walk + m * m / planning.FLOPS, 8.0 * m * m / ADD, m * walk)
    looked = planning.search_seconds(features, 1, m, edges.k) + edges.k * planning.EDGE
    gram = 12.0 * m * min(m, landmark_passes.SECOND_NEIGHBORS_PER_NEIGHBOR * edges.k)
    return Rates(looked, looked + edges.k**2 * planning.PRODUCT, gram / ADD, m * looked)


def _measure_rates(recipe: Any, shape: tuple[int, int], m: int, rows: Source | None, workers: int, parts: int) -> Rates:
    """Time both passes over one part, on ``min(workers, cores)`` threads at once."""
    points, landmarks = _sample(shape, m, rows, recipe.view, -(-shape[0] // parts))
    anchors = along_the_tree(Anchors(landmarks, None, np.ones(m)), recipe.view.metric)
    start = time.perf_counter()
    _, geometry, kernel, _ = recipe.view.fit_geometry(anchors.points, Threads())
    sight = time.perf_counter() - start
    measure = np.ones(len(points))
    passes: Any = recipe.view.passes(None, measure, geometry, kernel, Threads()).alone()
    looks = landmark_passes.FirstPass(passes, 1), landmark_passes.SecondPass(passes, np.ones(m), [slice(0, m)])
    together = min(workers, available_cores())

    def run(look: Any, count: int) -> Any:
        with one_thread():
            return look(points[:count], measure[:count], 0)

    def seconds(look: Any, count: int) -> float:
        start = time.perf_counter()
        blocks = [slice(at, at + 1) for at in range(together)]
        list(Threads(together).map(lambda _: run(look, count), blocks, "measuring"))
        return (time.perf_counter() - start) / count

    for look in looks:
        seconds(look, min(len(points), 1024))  # a first run that does not count: it compiles and loads code
    rates = [seconds(look, len(points)) for look in looks]
    G, start = run(looks[1], len(points)), time.perf_counter()
    landmark_passes.add_sums(G, G)
    return Rates(rates[0], rates[1], time.perf_counter() - start, sight)


def _sample(shape: tuple[int, int], m: int, rows: Source | None, view: Any, part: int) -> tuple[Array, Array]:
    """Return consecutive rows, as many as a worker processes at once, and ``m`` landmarks from ``WINDOWS`` windows.

    Both are random numbers if ``rows`` is None.
    """
    edges, dense = _edges(view, m)
    count = (
        4 * landmark_passes.gram_step(m)
        if dense
        else landmark_passes.chunk_rows(*shape, edges.k, landmark_passes.PART_MEMORY)
    )
    count = min(count, part)
    if rows is None:
        rng = np.random.default_rng(0)
        return rng.normal(size=(count, shape[1])), rng.normal(size=(m, shape[1]))
    starts = np.linspace(0, max(0, shape[0] - -(-m // WINDOWS)), min(WINDOWS, m)).astype(int)
    index = np.unique(np.add.outer(starts, np.arange(-(-m // WINDOWS))).ravel())
    index = index[index < shape[0]][:m]
    if len(index) < m:
        index = np.sort(np.random.default_rng(0).choice(shape[0], m, replace=False))
    return rows.take(np.arange(count)), rows.take(index)
