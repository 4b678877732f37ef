"""Whose turn it is: threads that work on requests part by part, in turn by client.

A request is read, embedded in blocks of rows and written. Each of these parts is one turn. Turns go round the clients
that wait. Those of one client alternate between its short requests and its long ones, each in the order of arrival.
So a request of one row waits for a few parts, however many rows were sent before it.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from .policy import Refused

Result = TypeVar("Result")
Part: TypeAlias = Callable[[], Any]
# Yields parts that may run at the same time, and is sent their results. A single part runs within the same turn.
Steps: TypeAlias = Generator[list[Part], list[Any], Result]


class _Job:
    """A request under way: its steps, and the parts of the present step."""

    def __init__(self, client: str, steps: Steps[Any], *, short: bool) -> None:
        self.client, self.steps, self.short = client, steps, short
        self.future: Future[Any] = Future()  # can be cancelled until the job is done
        self.begun = False
        self.todo: deque[tuple[int, Part]] = deque()  # parts that nobody has begun; none: the next step is due
        self.results: Any = None  # of the parts of this step; None before the first step
        self.open = 0  # parts that are not done
        self.ended = False


class _Lines:
    """The requests of one client that wait for a turn: short ones and long ones."""

    def __init__(self) -> None:
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._last = self._long  # the line that had the last turn

    def __bool__(self) -> bool:
        return bool(self._short or self._long)

    def of(self, job: _Job) -> deque[_Job]:
        return self._short if job.short else self._long

    def next(self) -> _Job:
        """Return the first job of the line that did not have the last turn, or else of the other."""
        other = self._short if self._last is self._long else self._long
        self._last = other or self._last
        return self._last[0]


class Turns:
    """Threads that run the parts of requests, one part a turn.

    Parameters
    ----------
    workers : int
        Number of threads.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="outfold-service")
        self._lock = threading.Lock()
        self._clients: dict[str, _Lines] = {}  # those who wait, in the order of their turns
        self._unfinished: Counter[str] = Counter()  # requests by client
        self._closed = False

    async def run(self, client: str, steps: Steps[Result], *, short: bool, wait_seconds: float) -> Result:
        """Return what ``steps`` return. Raise Refused if no turn comes within ``wait_seconds``.

        A request whose task is cancelled gets no further turn.
        """
        job = _Job(client, steps, short=short)
        with self._lock:
            self._unfinished[client] += 1
            self._put(job, first=False)
        self._pool.submit(self._work)
        timer = asyncio.get_running_loop().call_later(wait_seconds, self._give_up, job, wait_seconds)
        try:
            found: Result = await asyncio.wrap_future(job.future)
            return found
        finally:
            timer.cancel()
            job.future.cancel()
            with self._lock:
                self._remove(job)
                self._unfinished[client] -= 1
                if not self._unfinished[client]:
                    del self._unfinished[client]

    def close(self) -> None:
        """Stop after the parts that run now."""
        with self._lock:
            self._closed = True
            self._clients.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- threads of the pool ---------------------------------------------------------------

    def _work(self) -> None:
        """Take turns until nobody waits."""
        while (taken := self._take()) is not None:
            job, part = taken
            try:
                self._advance(job) if part is None else self._finish(job, *part)
            except StopIteration as stop:
                self._end(job, None, stop.value)
            except BaseException as error:
                self._end(job, error)

    def _take(self) -> tuple[_Job, tuple[int, Part] | None] | None:
        """Return the job whose turn it is, and one of its parts (None: its next step); None if nobody waits."""
        with self._lock:
            client = next(iter(self._clients), None)
            if client is None:
                return None
            lines = self._clients.pop(client)
            job = lines.next()
            job.begun = True
            part = job.todo.popleft() if job.todo else None
            if not job.todo:
                lines.of(job).popleft()
            if lines:
                self._clients[client] = lines  # at the end
            return job, part

    def _advance(self, job: _Job) -> None:
        """Run a job up to its next step that has several parts. Raises StopIteration at its end."""
        parts = job.steps.send(job.results)
        while len(parts) == 1:
            parts = job.steps.send([parts[0]()])
        with self._lock:
            job.todo, job.open, job.results = deque(enumerate(parts)), len(parts), [None] * len(parts)
            self._put(job, first=True)
        if not self._closed:
            with suppress(RuntimeError):  # closed since
                for _ in range(min(len(parts), self.workers) - 1):
                    self._pool.submit(self._work)

    def _finish(self, job: _Job, number: int, part: Part) -> None:
        """Run one part; after the last one the next step is due."""
        result = part()
        with self._lock:
            job.results[number] = result
            job.open -= 1
            if not job.open:
                self._put(job, first=True)

    def _end(self, job: _Job, error: BaseException | None, result: object = None) -> None:
        """Hand over the result or the first error of a job, if anyone waits for it."""
        with self._lock:
            self._remove(job)
            again, job.ended = job.ended, True
        if again or not job.future.set_running_or_notify_cancel():
            return
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)

    # -- lines; the caller holds the lock --------------------------------------------------

    def _put(self, job: _Job, *, first: bool) -> None:
        """Let a job wait for a turn: at the end of its line, or ``first`` if it has begun."""
        if self._closed or job.ended or job.future.cancelled():
            return
        line = self._clients.setdefault(job.client, _Lines()).of(job)
        line.appendleft(job) if first else line.append(job)

    def _remove(self, job: _Job) -> None:
        """Let a job wait no longer."""
        if (lines := self._clients.get(job.client)) is None:
            return
        with suppress(ValueError):
            lines.of(job).remove(job)
        if not lines:
            del self._clients[job.client]

    def _give_up(self, job: _Job, seconds: float) -> None:
        """Refuse a job that has had no turn within ``seconds``."""
        with self._lock:
            if job.begun:
                return
            total, own = self._unfinished.total() - 1, self._unfinished[job.client] - 1
        told = (
            f"This request waited {seconds:g} s without a turn: {total} others are under way, {own} of them by the "
            "same client. Send fewer at a time, or smaller ones."
        )
        self._end(job, Refused(503, told, headers={"retry-after": str(math.ceil(seconds))}))
