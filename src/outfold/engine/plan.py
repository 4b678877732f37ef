"""The plan of a fit before it runs: memory and time of each stage, and the choices of "auto".

Bytes are those allocated at once beside the caller's data, with the copy of it that the model keeps. Seconds are those
of a core of 3 GHz with AVX2, divided by the number of cores; they are right within a factor of about 1.5.

Sizes do not say of what dimension the data is. The plan assumes a surface in up to ten features: neighbours are
searched by a tree, and a graph has five times as many second neighbours as neighbours (noise in six to ten features has
more). In more features it assumes many dimensions: neighbours are searched through all pairs, and the walk is solved
without its second neighbours. A surface in many features takes less time, and a graph of it more memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .._runtime.collections import planner
from .._runtime.memory import free_memory
from .._runtime.threads import Threads
from .._runtime.typing import Array, Data
from ..data import sources
from ..data.sources import InMemory
from ..landmarks import AtMost
from ..operators.costs import Case, Stage
from ..solvers import Auto
from .fit import Recipe


@dataclass(frozen=True, kw_only=True)
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


class Planned(Protocol):
    """An estimator whose fit can be planned."""

    def _recipe(self) -> Recipe: ...

    def _runner(self) -> Threads: ...


def plan(
    X: Data | tuple[int, int],
    method: Planned | type[Planned],
    *,
    in_memory: bool | None = None,
    workers: int | None = None,
    measured: bool = False,
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
    ('auto: 15 nearest landmarks', True)
    """
    if isinstance(method, type):
        method = method()
    if not hasattr(method, "_recipe"):
        raise ValueError(f"{method!r} is none of Outfold's methods: pass an estimator, such as Roseland().")
    recipe = method._recipe()
    alone = isinstance(X, tuple) and len(X) == 2 and all(isinstance(size, int | np.integer) for size in X)
    source = None if alone else sources.open_rows(X)
    shape: tuple[int, ...] = np.shape(X) if source is None else source.shape  # type: ignore[arg-type]
    if alone:
        shape = tuple(np.asarray(X).tolist())
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"A plan is for rows and features, not for shape {shape}: pass (rows, features), or a table.")
    if workers is not None:
        rows = None if alone else InMemory(np.asarray(X, dtype=float)) if source is None else source
        result: Plan = planner().plan(recipe, (shape[0], shape[1]), rows, workers, measured)
        return result
    if in_memory is None:
        in_memory = source is None and not (alone and recipe.streams)
    points = np.asarray(X, dtype=float) if recipe.view.reads_rows and source is None and not alone else None
    return of_recipe(recipe, (shape[0], shape[1]), method._runner(), in_memory, points)


def of_recipe(
    recipe: Recipe, shape: tuple[int, int], runner: Threads, in_memory: bool, points: Array | None = None
) -> Plan:
    """Return the plan of a recipe for data of this shape; ``points``: the rows, if its choices depend on them."""
    own_columns = recipe.view.given and not recipe.view.between_rows  # the landmarks are the columns of the matrix
    anchors = shape[1] if own_columns else recipe.landmarks.count(shape[0])
    wanted = recipe.wanted
    components = 32 if isinstance(wanted, str) else int(np.max(wanted))
    case = Case(
        rows=shape[0],
        features=shape[1],
        anchors=anchors,
        components=components,
        cores=runner.workers,
        in_memory=in_memory,
        points=points,
    )
    cost = recipe.view.cost(case)
    own = 8.0 * shape[1] * (anchors if recipe.streams else shape[0])  # the rows that the model copies
    stages = [replace(stage, bytes=stage.bytes + own) for stage in cost.stages]
    if in_memory or not recipe.streams:
        held = 8.0 * shape[0] * (components + 1)
        seconds = 0.0 if anchors == shape[0] else recipe.view.extension_seconds(case, cost.edges)
        stages = [*stages, Stage("embedding", stages[-1].bytes * 0.3 + held, seconds)]
    limits = recipe.view.long_run
    return Plan(
        method=recipe.method,
        shape=shape,
        anchors=anchors,
        edges=cost.edges,
        solver=cost.solver if isinstance(recipe.solver, Auto) else type(recipe.solver).__name__.lower(),
        memory=free_memory() if limits is None else limits.memory,
        stages=tuple(stages),
    )


def refuse_beyond_memory(recipe: Recipe, shape: tuple[int, int], runner: Threads, in_memory: bool) -> None:
    """Raise MemoryError if the plan exceeds what is free, with the numbers and the parameters that would fit.

    A kernel whose cost depends on the rows decides by them: see :class:`outfold.operators.gaussian_pairs.Survey`.
    """
    if recipe.view.reads_rows:
        return
    found, limits = of_recipe(recipe, shape, runner, in_memory), recipe.view.long_run
    free = found.memory if limits is None else free_memory()
    if found.peak <= min(found.memory, free):
        return
    largest = max(found.stages, key=lambda stage: stage.bytes)
    points = "points" if found.anchors == shape[0] else "landmarks"
    told = (
        f"{found.method} with {found.anchors} {points} ({found.edges}) needs about {found.peak / 1e9:.3g} GB for the "
        f"{largest.name}, and "
    )
    if found.peak > free:
        told += f"{free / 1e9:.3g} GB are free."
    else:
        told += f"memory allows {found.memory / 1e9:.3g} GB."
    allowed, helps = min(found.memory, free), []
    if fewer := _landmarks_within(allowed, recipe, shape, runner, in_memory, found.anchors):
        helps.append(f"landmarks={fewer}")
    if limits is not None and found.peak * 1.1 < free:
        helps.append(f"memory='{found.peak * 1.1 / 1e9:.3g}GB'")
    helps += [recipe.view.smaller] if recipe.view.smaller else []
    raise MemoryError(f"{told} {'Pass ' + ', or '.join(helps) if helps else 'Take fewer rows'}.")


def _landmarks_within(
    allowed: float, recipe: Recipe, shape: tuple[int, int], runner: Threads, in_memory: bool, anchors: int
) -> int | None:
    """Return a number of landmarks with which the fit needs at most so many bytes; None if there is none."""
    while anchors > 16 and not recipe.view.given:
        anchors = int(anchors / 1.2)
        fewer = replace(recipe, landmarks=AtMost(anchors))
        if of_recipe(fewer, shape, runner, in_memory).peak <= allowed:
            return anchors
    return None
