"""Estimate a fit on Dask workers: seconds of each pass, memory of a worker, bytes sent between machines.

seconds of a pass = parts of the busiest worker * (rows of a part (seconds a row + bytes a row / rate) + overhead)

Workers add their sums before they send them on: about one copy of the Gram matrix per part moves between workers, and
one copy per wave of parts comes back to the client.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from .._runtime.threads import Threads, available_cores, one_thread
from .._runtime.typing import Array
from ..data.sources import Answer, InMemory, Look, Source
from ..engine import plan as planning
from ..engine.fit import Recipe
from ..engine.plan import Plan
from ..landmarks import Anchors, along_the_tree
from ..operators import costs, landmark_passes
from ..operators.costs import Stage
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


def plan(recipe: Recipe, shape: tuple[int, int], rows: Source | None, workers: int, measured: bool) -> Plan:
    """Return the plan of ``recipe`` on ``workers`` workers; ``measured`` times both passes on a sample of ``rows``."""
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
    if not recipe.streams:
        raise ValueError(
            f"{recipe.method} without landmarks needs all rows in one memory: workers= is for landmarks=N, or Roseland."
        )
    n, features = shape
    m = recipe.landmarks.count(n)
    parts = _parts(rows, n, features, workers)
    alone = planning.of_recipe(recipe, (max(m, 2), features), Threads(), False)
    row, points = 8.0 * features, 8.0 * features * m
    reading = Stage("landmarks", BASE + 2 * row * n / parts, _waves(parts, workers) * _part_read(n, parts, row), points)
    if not isinstance(recipe.view, LandmarkDiffusion):  # other views fit the landmarks only: no passes over all rows
        return replace(alone, shape=shape, anchors=m, stages=(reading, *alone.stages), workers=workers, parts=parts)
    edges, k = recipe.view.choose_edges(m), _neighbors(recipe.view, m)
    rates = _measure_rates(recipe, shape, m, rows, workers, parts) if measured else _typical(features, m, k)
    gram, held, blocks = _gram_bytes(m, k), BASE + row * n / parts + points, 1
    if k is None:
        held += 8.0 * m * 64 * 1024
    else:
        held += landmark_passes.CHUNK_SHARE * landmark_passes.PART_MEMORY
        blocks = -(-n // parts // landmark_passes.chunk_rows(n, features, k, landmark_passes.PART_MEMORY))
    piece = min(gram, landmark_passes.GRAM_BYTES)
    joined = gram / WIRE + blocks * rates.added
    waves = min(dask_rows.WAVES, -(-parts // workers))
    first = _pass(n, parts, workers, row, rates.first, 0.0)
    second = _pass(n, parts, workers, row, rates.second, joined) + waves * (gram / WIRE + rates.added)
    if (
        k is None and gram > landmark_passes.GRAM_BYTES
    ):  # each piece of the Gram matrix needs its own pass over all rows
        second += _pass(n, parts, workers, row, rates.first, 0.0) * (gram / piece - 1)
    stages = [
        replace(reading, seconds=reading.seconds + rates.sight),
        Stage("first pass", held, first, points * workers + 8.0 * m * (parts + waves) + row * n),
        Stage("second pass", held + (dask_rows.ARITY + 2) * piece, second, gram * (parts + waves) + row * n),
        alone.stages[-1],
    ]
    told = ("auto: " if edges is not recipe.view.edges or recipe.view.chosen else "") + recipe.view.describe(edges)
    return replace(alone, shape=shape, anchors=m, edges=told, stages=tuple(stages), workers=workers, parts=parts)


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


def _neighbors(view: LandmarkDiffusion, m: int) -> int | None:
    """Return the number of landmarks that a row keeps, of ``m``; None: all of them."""
    return view.row_width(m)


def _gram_bytes(m: int, k: int | None) -> float:
    return 8.0 * m * m if k is None else 12.0 * m * min(m, costs.SECOND_NEIGHBORS_PER_NEIGHBOR * k)


def _typical(features: int, m: int, k: int | None) -> Rates:
    """Return the rates of a 3 GHz core with AVX2, without a measurement."""
    if k is None:
        walk = m * costs.ENTRY
        return Rates(walk, walk + m * m / costs.FLOPS, _gram_bytes(m, k) / ADD, m * walk)
    walk = costs.search_seconds(features, 1, m, k) + k * costs.EDGE
    return Rates(walk, walk + k**2 * costs.PRODUCT, _gram_bytes(m, k) / ADD, m * walk)


def _measure_rates(
    recipe: Recipe, shape: tuple[int, int], m: int, rows: Source | None, workers: int, parts: int
) -> Rates:
    """Time both passes over one part, on ``min(workers, cores)`` threads at once."""
    view = recipe.view
    assert isinstance(view, LandmarkDiffusion)
    points, landmarks = _sample(shape, m, rows, view, -(-shape[0] // parts))
    anchors = along_the_tree(Anchors(landmarks, None, np.ones(m)), view.metric)
    start = time.perf_counter()
    _, geometry, kernel, _ = view.fit_geometry(anchors.points, Threads())
    sight = time.perf_counter() - start
    measure = np.ones(len(points))
    passes = view.passes(InMemory(points), measure, geometry, kernel, Threads()).alone()
    looks = landmark_passes.FirstPass(passes, 1), landmark_passes.SecondPass(passes, np.ones(m), [slice(0, m)])
    together = min(workers, available_cores())

    def run(look: Look[Answer], count: int) -> Answer:
        with one_thread():
            return look(points[:count], measure[:count], 0)

    def seconds(look: Look[object], count: int) -> float:
        start = time.perf_counter()
        blocks = [slice(at, at + 1) for at in range(together)]
        list(Threads(together).map(lambda _: run(look, count), blocks, "measuring"))
        return (time.perf_counter() - start) / count

    for look in looks:
        seconds(look, min(len(points), 1024))  # a first run that does not count: it compiles and loads code
    rates = [seconds(look, len(points)) for look in looks]
    G, start = run(looks[1], len(points)), time.perf_counter()
    assert not isinstance(G, tuple)  # one piece
    landmark_passes.add_sums(G, G)
    return Rates(rates[0], rates[1], time.perf_counter() - start, sight)


def _sample(
    shape: tuple[int, int], m: int, rows: Source | None, view: LandmarkDiffusion, part: int
) -> tuple[Array, Array]:
    """Return consecutive rows, as many as a worker processes at once, and ``m`` landmarks from ``WINDOWS`` windows.

    Both are random numbers if ``rows`` is None.
    """
    k = _neighbors(view, m)
    whole = 4 * landmark_passes.gram_step(m)
    count = min(part, whole if k is None else landmark_passes.chunk_rows(*shape, k, landmark_passes.PART_MEMORY))
    if rows is None:
        rng = np.random.default_rng(0)
        return rng.normal(size=(count, shape[1])), rng.normal(size=(m, shape[1]))
    starts = np.linspace(0, max(0, shape[0] - -(-m // WINDOWS)), min(WINDOWS, m)).astype(int)
    index = np.unique(np.add.outer(starts, np.arange(-(-m // WINDOWS))).ravel())
    index = index[index < shape[0]][:m]
    if len(index) < m:
        index = np.sort(np.random.default_rng(0).choice(shape[0], m, replace=False))
    return rows.take(np.arange(count)), rows.take(index)
