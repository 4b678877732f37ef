"""Who walks the rows: the thread pool that maps over row blocks.

Blocks depend on the shape of the problem only, never on the number of threads, so a result does
not depend on ``n_jobs``.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

BLOCK_ENTRIES = 1 << 20  # 8 MB of float64 a block: large enough for BLAS, small enough for the cache


def available_cores() -> int:
    """Cores this process may run on (affinity respected where the system tells)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> float:
    """Bytes of memory that can be had without swapping, infinity where the system does not tell."""
    try:
        with open("/proc/meminfo") as file:
            return 1024.0 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def check_fits(needed: float, what: str, instead: str) -> None:
    """Refuse what does not fit in memory before it is allocated: ``what`` needs so much; do this ``instead``."""
    free = free_memory()
    if needed > free:
        raise MemoryError(f"{what} about {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free. {instead}")


def block_rows(width: int) -> int:
    """How many rows of ``width`` entries make about ``BLOCK_ENTRIES``."""
    return max(16, BLOCK_ENTRIES // max(1, width))


def row_blocks(rows: int, width: int) -> list[slice]:
    """Cut ``rows`` rows of ``width`` entries into blocks of about ``BLOCK_ENTRIES`` entries."""
    step = block_rows(width)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """The libraries that have threads of their own; looking for them takes milliseconds."""
    return ThreadpoolController()


def blas_threads(count: int) -> Any:
    """Inside, BLAS works with so many threads."""
    return _blas().limit(limits=count)


@lru_cache(maxsize=4)
def _leaf_pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay, for loops of milliseconds; a forked process has none of them and starts its own."""
    return ThreadPoolExecutor(workers, thread_name_prefix="outfold")


@dataclass(frozen=True)
class Threads:
    """Run a function over row blocks on ``n_jobs`` threads (None: every core), in order.

    While blocks run in parallel BLAS gets one thread each, so the cores are not fought over.
    """

    n_jobs: int | None = None
    verbose: bool = False

    @property
    def workers(self) -> int:
        cores = available_cores()
        if self.n_jobs is None:
            return cores
        return max(1, cores + 1 + self.n_jobs) if self.n_jobs < 0 else self.n_jobs

    def run(self, function: Callable[[slice], Any], blocks: list[slice]) -> None:
        """Call ``function(block)`` for every block: for compiled loops, which leave BLAS and other blocks alone."""
        if len(blocks) == 1 or self.workers == 1:
            for block in blocks:
                function(block)
            return
        list(_leaf_pool(self.workers, os.getpid()).map(function, blocks))

    def map(self, function: Callable[[slice], Any], blocks: list[slice], title: str) -> Iterator[Any]:
        """Yield ``function(block)`` for every block, in order."""
        if len(blocks) == 1:  # no pool, no BLAS bookkeeping: a single row stays fast
            yield function(blocks[0])
            return
        yield from self.over(function, ((block, (block,)) for block in blocks), title, blocks[-1].stop)

    def each(self, function: Callable[[slice], Any], blocks: list[slice], title: str) -> None:
        """Call ``function(block)`` for every block, one after another or together: for what fills arrays."""
        deque(self.map(function, blocks, title), maxlen=0)

    def over(
        self, function: Callable[..., Any], items: Iterable[tuple[slice, tuple[Any, ...]]], title: str, rows: int
    ) -> Iterator[Any]:
        """Yield ``function(*arguments)`` for every (block, arguments), in order.

        Items are drawn and results held a few at a time, so a walk over more than memory stays small.
        """
        waiting: deque[tuple[slice, Future[Any]]] = deque()
        with self.bar(title, rows) as bar, blas_threads(1), ThreadPoolExecutor(self.workers) as pool:
            try:
                for block, arguments in items:
                    waiting.append((block, pool.submit(function, *arguments)))
                    if len(waiting) > self.workers + 1:
                        done, future = waiting.popleft()
                        yield future.result()
                        bar.update(done.stop - done.start)
                while waiting:
                    done, future = waiting.popleft()
                    yield future.result()
                    bar.update(done.stop - done.start)
            finally:
                pool.shutdown(cancel_futures=True)

    def ticker(self, title: str, unit: str) -> Any:
        """A bar of unknown length for iterations."""
        from tqdm import tqdm

        return tqdm(desc=title, unit=unit, delay=2, disable=not self.verbose)

    @contextmanager
    def blas(self) -> Iterator[None]:
        """Limit BLAS to our thread count inside (does nothing for ``n_jobs=None``)."""
        if self.n_jobs is None:
            yield
        else:
            with blas_threads(self.workers):
                yield

    def bar(self, title: str, rows: int | None, *, unit: str = "row") -> Any:
        """A bar over rows or other units, with rate and time left."""
        from tqdm import tqdm

        return tqdm(total=rows, desc=title, unit=unit, unit_scale=unit == "row", delay=2, disable=not self.verbose)
