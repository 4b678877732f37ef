"""The thread pool over row blocks, progress bars and BLAS threads.

Blocks depend on the shape of the problem only, never on the number of threads, so a result does not depend on
``n_jobs``.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

BLOCK_ENTRIES = 1 << 20  # 8 MB of float64 a block: large enough for BLAS, small enough for the cache
_SINGLE_THREADED: ContextVar[bool] = ContextVar("_SINGLE_THREADED", default=False)

Result = TypeVar("Result")


class BlasLimit(Protocol):
    """A limit of the threads of BLAS, which ends with a context or a call."""

    def restore_original_limits(self) -> None: ...
    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> None: ...


class Bar(Protocol):
    """A progress bar, of which other code uses these methods of tqdm."""

    def update(self, n: float = 1) -> object: ...
    def set_postfix_str(self, s: str, refresh: bool = True) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Bar: ...
    def __exit__(self, *error: object) -> None: ...


def available_cores() -> int:
    """Return the number of cores this process may run on (its CPU affinity, if the system reports one)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def block_rows(width: int) -> int:
    """Return how many rows of ``width`` entries hold about ``BLOCK_ENTRIES`` entries."""
    return max(16, BLOCK_ENTRIES // max(1, width))


def row_blocks(rows: int, width: int) -> list[slice]:
    """Cut ``rows`` rows of ``width`` entries into blocks of about ``BLOCK_ENTRIES`` entries."""
    step = block_rows(width)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Return the controller of the libraries that have their own threads; cached, since it takes milliseconds."""
    return ThreadpoolController()


def blas_threads(count: int) -> BlasLimit:
    """Return a context manager inside which BLAS uses ``count`` threads."""
    limited: BlasLimit = _blas().limit(limits=count)
    return limited


_FORKED = False  # whether this process was forked from one that had imported this module


def _note_fork() -> None:
    global _FORKED
    _FORKED = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def is_forked() -> bool:
    """Return whether this process is a fork. GNU's OpenMP waits there for ever for the threads of the process before.

    scikit-learn and PyTorch use it. It needs no threads where it is limited to one.
    """
    return _FORKED


@lru_cache(maxsize=1)
def _openmp() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="openmp")


def openmp_after_fork() -> AbstractContextManager[object]:
    """Return a context manager that limits OpenMP to one thread in a forked process, and changes nothing elsewhere."""
    limited: AbstractContextManager[object] = _openmp().limit(limits=1) if _FORKED else nullcontext()
    return limited


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and every ``Threads`` to one thread inside: a worker of a cluster runs several tasks at once."""
    token = _SINGLE_THREADED.set(True)
    try:
        with blas_threads(1):
            yield
    finally:
        _SINGLE_THREADED.reset(token)


@lru_cache(maxsize=4)
def _leaf_pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Return a pool that stays open, for loops of milliseconds; ``process`` makes a forked process start its own."""
    return ThreadPoolExecutor(workers, thread_name_prefix="outfold")


@dataclass(frozen=True)
class Threads:
    """Run a function over row blocks on ``n_jobs`` threads (None: every core), in order.

    While blocks run in parallel, BLAS uses one thread in each, so that threads do not compete for cores.
    """

    n_jobs: int | None = None
    verbose: bool = False

    @property
    def workers(self) -> int:
        if _SINGLE_THREADED.get():
            return 1
        cores = available_cores()
        if self.n_jobs is None:
            return cores
        return max(1, cores + 1 + self.n_jobs) if self.n_jobs < 0 else self.n_jobs

    def run(self, function: Callable[[slice], object], blocks: list[slice]) -> None:
        """Call ``function(block)`` for every block: for compiled loops, which do not use BLAS or other blocks."""
        if len(blocks) == 1 or self.workers == 1:
            for block in blocks:
                function(block)
            return
        list(_leaf_pool(self.workers, os.getpid()).map(function, blocks))

    def map(self, function: Callable[[slice], Result], blocks: list[slice], title: str) -> Iterator[Result]:
        """Yield ``function(block)`` for every block, in order."""
        if len(blocks) == 1:  # no pool, no BLAS bookkeeping: a single row stays fast
            yield function(blocks[0])
            return
        yield from self.over(function, ((block, (block,)) for block in blocks), title, blocks[-1].stop)

    def each(self, function: Callable[[slice], object], blocks: list[slice], title: str) -> None:
        """Call ``function(block)`` for every block and drop the results: for functions that fill arrays."""
        deque(self.map(function, blocks, title), maxlen=0)

    def over(
        self, function: Callable[..., Result], items: Iterable[tuple[slice, tuple[Any, ...]]], title: str, rows: int
    ) -> Iterator[Result]:
        """Yield ``function(*arguments)`` for every (block, arguments), in order.

        Only a few items and results are in memory at a time, so the data may be larger than memory.
        """
        if self.workers == 1:
            with self.bar(title, rows) as bar, blas_threads(1):
                for block, arguments in items:
                    yield function(*arguments)
                    bar.update(block.stop - block.start)
            return
        waiting: deque[tuple[slice, Future[Result]]] = deque()
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

    def ticker(self, title: str, unit: str) -> Bar:
        """Return a progress bar without a total, for iterations."""
        return self.bar(title, None, unit=unit)

    @contextmanager
    def blas(self) -> Iterator[None]:
        """Limit BLAS to our thread count inside (does nothing for ``n_jobs=None``)."""
        if self.n_jobs is None:
            yield
        else:
            with blas_threads(self.workers):
                yield

    def bar(self, title: str, rows: int | None, *, unit: str = "row") -> Bar:
        """Return a progress bar over ``rows`` rows or other units, with rate and time left."""
        from tqdm import tqdm

        scaled, hidden = unit == "row", not self.verbose
        bar: Bar = tqdm(total=rows, desc=title, unit=unit, unit_scale=scaled, delay=2, disable=hidden)
        return bar
