"""What a fit on workers would take: seconds of each pass, memory of a worker, bytes between machines.

seconds of a pass = parts of the busiest worker * (rows of a part (seconds a row + bytes a row / rate) + overhead)

Sums are joined where they are, so of the Gram matrix about one copy a part moves between workers, and one a wave comes
here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _passes, planning, scale
from .graphs import AllPairs, settled
from .landmarks import Anchors, along_the_tree
from .planning import Plan, Stage
from .roseland import LandmarkDiffusion
from .runners import Threads, available_cores
from .sources import Source

Array = NDArray[Any]

READ = 4e8  # bytes of rows a worker reads in a second, decompressed
WIRE = 3e8  # bytes a second from machine to machine
ADD = 2e8  # bytes of two sums added in a second
TASK = 0.01  # seconds of a task beside its work: sending it, and what it waits for
BASE = 3e8  # bytes of a worker that has done nothing yet
WINDOWS = 16  # of consecutive rows, from which landmarks are drawn to be measured with


@dataclass(frozen=True)
class Rates:
    """Seconds a row takes on one thread."""

    first: float
    second: float
    added: float  # seconds to add two sums of the second pass
    sight: float  # seconds here, to find epsilon and what rows need to see the landmarks


def plan(recipe: Any, shape: tuple[int, int], rows: Source | None, workers: int, measured: bool) -> Plan:
    """The plan of a recipe on workers; ``rows`` are looked at if it is to be measured."""
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
    if not isinstance(recipe.view, LandmarkDiffusion):  # the landmarks alone are fitted
        return _told(recipe, shape, m, alone.edges, alone, [reading, *alone.stages], workers, parts)
    edges, dense = _edges(recipe.view, m)
    rates = _measured(recipe, shape, m, rows, workers, parts) if measured else _typical(features, m, edges, dense)
    gram = 8.0 * m * m if dense else 12.0 * m * min(m, _passes.SECOND * edges.k)
    piece = min(gram, _passes.GRAM_BYTES)
    part = row * n / parts
    held = BASE + part + points + (8.0 * m * 64 * 1024 if dense else _passes.CHUNK_SHARE * _passes.PART_MEMORY)
    blocks = 1 if dense else -(-n // parts // _passes.chunk_rows(n, features, edges.k, _passes.PART_MEMORY))
    joined = gram / WIRE + blocks * rates.added
    waves = min(scale.WAVES, -(-parts // workers))
    first = _pass(n, parts, workers, row, rates.first, 0.0)
    second = _pass(n, parts, workers, row, rates.second, joined) + waves * (gram / WIRE + rates.added)
    if dense and gram > _passes.GRAM_BYTES:  # rows are looked at again for every piece
        second += _pass(n, parts, workers, row, rates.first, 0.0) * (gram / piece - 1)
    stages = [
        replace(reading, seconds=reading.seconds + rates.sight),
        Stage("first pass", held, first, points * workers + 8.0 * m * (parts + waves) + row * n),
        Stage("second pass", held + (scale.ARITY + 2) * piece, second, gram * (parts + waves) + row * n),
        alone.stages[-1],
    ]
    return _told(recipe, shape, m, _edges_told(recipe.view, edges), alone, stages, workers, parts)


def _edges_told(view: Any, edges: Any) -> str:
    return ("auto: " if edges is not view.edges else "") + view.told(edges)


def _told(
    recipe: Any, shape: tuple[int, int], m: int, edges: str, alone: Plan, stages: list[Stage], workers: int, parts: int
) -> Plan:
    return Plan(recipe.method, shape, m, edges, alone.solver, alone.memory, tuple(stages), workers, parts)


def _parts(rows: Source | None, n: int, features: int, workers: int) -> int:
    """In which the rows lie, or would best lie: no larger than can be held easily, two for each worker at least."""
    if isinstance(rows, scale.Spread):
        return int(rows.values.numblocks[0])
    return int(max(1, min(n, max(2 * workers, -(-8 * n * features // scale.PART_BYTES)))))


def _waves(parts: int, workers: int) -> int:
    """How many parts the busiest worker has."""
    return -(-parts // workers)


def _part_read(n: int, parts: int, row: float) -> float:
    return TASK + n / parts * row / READ


def _pass(n: int, parts: int, workers: int, row: float, rate: float, joined: float) -> float:
    return _waves(parts, workers) * (_part_read(n, parts, row) + n / parts * rate + TASK + joined)


def _edges(view: LandmarkDiffusion, m: int) -> tuple[Any, bool]:
    edges = settled(view.edges, m)
    return edges, isinstance(edges, AllPairs)


def _typical(features: int, m: int, edges: Any, dense: bool) -> Rates:
    """Of a core of 3 GHz with AVX2."""
    if dense:
        walk = m * planning.ENTRY
        return Rates(walk, walk + m * m / planning.FLOPS, 8.0 * m * m / ADD, m * walk)
    looked = planning.search_seconds(features, 1, m, edges.k) + edges.k * planning.EDGE
    gram = 12.0 * m * min(m, _passes.SECOND * edges.k)
    return Rates(looked, looked + edges.k**2 * planning.PRODUCT, gram / ADD, m * looked)


def _measured(recipe: Any, shape: tuple[int, int], m: int, rows: Source | None, workers: int, parts: int) -> Rates:
    """By both passes over a part, on as many threads at once as there are workers and cores."""
    points, landmarks = _sample(shape, m, rows, recipe.view, -(-shape[0] // parts))
    anchors = along_the_tree(Anchors(landmarks, None, np.ones(m)), recipe.view.metric)
    start = time.perf_counter()
    _, geometry, kernel, _ = recipe.view.sight(anchors.points, Threads())
    sight = time.perf_counter() - start
    measure = np.ones(len(points))
    passes: Any = recipe.view.passes(None, measure, geometry, kernel, Threads(1)).alone()
    looks = _passes.FirstPass(passes, 1), _passes.SecondPass(passes, np.ones(m), [slice(0, m)])
    together = min(workers, available_cores())

    def seconds(look: Any, count: int) -> float:
        start = time.perf_counter()
        blocks = [slice(at, at + 1) for at in range(together)]
        list(Threads(together).map(lambda _: look(points[:count], measure[:count], 0), blocks, "measuring"))
        return (time.perf_counter() - start) / count

    for look in looks:
        seconds(look, min(len(points), 1024))  # compiled and loaded
    rates = [seconds(look, len(points)) for look in looks]
    G, start = looks[1](points, measure, 0), time.perf_counter()
    _passes.summed(G, G)
    return Rates(rates[0], rates[1], time.perf_counter() - start, sight)


def _sample(shape: tuple[int, int], m: int, rows: Source | None, view: Any, part: int) -> tuple[Array, Array]:
    """Consecutive rows, as many as a worker looks at together, and rows from here and there to be landmarks."""
    edges, dense = _edges(view, m)
    count = 4 * _passes.gram_step(m) if dense else _passes.chunk_rows(*shape, edges.k, _passes.PART_MEMORY)
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
