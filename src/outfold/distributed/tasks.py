"""Clusters and tasks: the only module that asks Dask for a scheduler."""

from __future__ import annotations

import os
import re
import tempfile
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import Any, Protocol, TypeGuard

import numpy as np

from .._runtime.extras import extra
from .._runtime.threads import available_cores
from .._runtime.typing import Array
from ..data.tables import join_names
from ..exceptions import ClusterError

IN_FLIGHT = 4  # waves that the cluster works on at the same time


def dask_module(module: str) -> ModuleType:
    return extra(f"dask.{module}", "scale")


# -- what is called on Dask's objects --------------------------------------------------------


class Delayed(Protocol):
    """A task: a value that is not computed yet."""

    key: str | tuple[object, ...]

    def compute(self) -> Any: ...
    def __getitem__(self, at: int, /) -> Delayed: ...


class DaskArray(Protocol):
    """A Dask array. Sizes are NaN where they are not known."""

    shape: tuple[int, ...]
    ndim: int
    dtype: np.dtype[Any]
    chunks: tuple[tuple[int, ...], ...]
    chunksize: tuple[int, int]
    numblocks: tuple[int, ...]

    def rechunk(self, chunks: object) -> DaskArray: ...
    def to_delayed(self) -> Array: ...
    def map_blocks(self, function: Callable[..., Array], *arguments: object, **options: object) -> DaskArray: ...
    def compute_chunk_sizes(self) -> DaskArray: ...
    def compute(self) -> Array: ...
    def persist(self) -> DaskArray: ...
    def astype(self, dtype: object) -> DaskArray: ...
    def __getitem__(self, rows: object, /) -> DaskArray: ...
    def __truediv__(self, unit: float, /) -> DaskArray: ...


class DaskFrame(Protocol):
    """A Dask DataFrame, or one column of it."""

    columns: Iterable[object]
    _meta: Any  # an empty pandas DataFrame with these columns

    def to_dask_array(self, lengths: bool | None = None) -> DaskArray: ...
    def map_partitions(self, function: Callable[..., Any], *arguments: object, meta: object) -> DaskFrame: ...
    def to_frame(self) -> DaskFrame: ...
    def __getitem__(self, columns: str | list[str], /) -> DaskFrame: ...


class Frame(Protocol):
    """A table of pandas: a partition of a Dask DataFrame."""

    columns: Iterable[object]

    def __getitem__(self, names: list[object], /) -> Frame: ...
    def __array__(self) -> Array: ...


class Client(Protocol):
    """A client of a cluster."""

    def nthreads(self) -> dict[str, int]: ...
    def persist(self, node: Delayed) -> Delayed: ...
    def compute(self, task: Delayed) -> Any: ...
    def cancel(self, futures: list[Any]) -> None: ...


def is_frame(X: object) -> TypeGuard[DaskFrame]:
    return hasattr(X, "map_partitions") and hasattr(X, "divisions")


def is_array(X: object) -> TypeGuard[DaskArray]:
    return hasattr(X, "chunks") and hasattr(X, "map_blocks")


def as_array(X: object, lengths: bool | None = None) -> DaskArray:
    """Return a Dask array, or the values of a DataFrame; with ``lengths`` the sizes of its parts are computed."""
    found: object = X
    if is_frame(X):
        meta = X._meta
        ordered = X.map_partitions(order_columns, list(meta.columns), meta=meta) if meta.ndim == 2 else X
        found = ordered.to_dask_array(lengths)
    if not is_array(found):
        raise ValueError(f"A Dask array of rows and columns is needed, or a DataFrame; got {X!r}.")
    return found


def order_columns(part: Frame, names: list[object]) -> Frame:
    """Return a partition of a DataFrame with its columns in the order of the whole; refuse one with other columns."""
    there = list(part.columns)
    if there == names:
        return part
    if len(there) != len(names) or set(there) != set(names):
        raise ValueError(
            f"A partition of the Dask DataFrame has the columns {join_names(there)}, and the DataFrame has "
            f"{join_names(names)}. Make all partitions with the same columns."
        )
    return part[names]


# -- clusters ------------------------------------------------------------------------------


@contextmanager
def cluster(address: str = "local", *, workers: int | None = None, memory: str | float = "auto") -> Iterator[Any]:
    """Yield a client of the scheduler at ``address``, or of a new local cluster that listens on the loopback only.

    Parameters
    ----------
    address : "local", or that of a scheduler, such as tcp://10.0.0.5:8786 or tls://...
        Whoever reaches a scheduler can run code on its workers: use trusted networks, or TLS as Dask is configured.
    workers : int, optional
        Number of processes of a local cluster, each with one thread. None: one for each core.
    memory : bytes or text, such as "2GB"
        Memory limit of each process of a local cluster; "auto" divides the memory of the machine.

    Examples
    --------
    >>> from outfold import distributed
    >>> with distributed.cluster("local", workers=1) as client:  # doctest: +SKIP
    ...     Roseland(landmarks=1000).fit(X)
    """
    distributed = extra("distributed", "scale")
    if address != "local":
        try:
            found = distributed.Client(address, timeout=10)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"No scheduler answers at {address} ({error}). Is it running, and reachable?") from error
        with found:
            yield found
        return
    count = available_cores() if workers is None else workers
    with (
        _same_environment(),
        tempfile.TemporaryDirectory(prefix="outfold-cluster-", ignore_cleanup_errors=True) as folder,
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any free port
            memory_limit=memory,
            local_directory=folder,
        ) as made,
        distributed.Client(made) as found,
    ):
        yield found


@contextmanager
def _same_environment() -> Iterator[None]:
    """Restore environment variables on exit: Dask sets those of its workers (one thread, ...) in this process too."""
    names = (*dask_module("config").get("distributed.nanny.pre-spawn-environ"), "__DASK_PARENT_PID", "PYTHONHASHSEED")
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- at work -------------------------------------------------------------------------------


def client() -> Client | None:
    """Return the client of the cluster that Dask would use, or None if it would use threads of this process."""
    found: Client | None = getattr(dask_module("base").get_scheduler(), "__self__", None)
    return found if hasattr(found, "scheduler_info") else None


def worker_threads() -> int:
    found = client()
    return available_cores() if found is None else max(1, sum(found.nthreads().values()))


def make_task(title: str, function: Callable[..., Any], rows: slice | None = None) -> Callable[..., Delayed]:
    """Return ``function`` as a delayed function whose tasks are named after ``title`` and ``rows``."""
    about = "" if rows is None else f"-rows-{rows.start}-{rows.stop - 1}"
    name = f"outfold-{title.replace(' ', '-')}{about}-{uuid.uuid4().hex}"
    return partial(dask_module("delayed").delayed(function, pure=False), dask_key_name=name)


def travelling(value: object) -> Delayed:
    """Return ``value`` as a node for several graphs: sent to a cluster once, and restored if its worker is lost."""
    node = make_task("value", _same)(dask_module("delayed").delayed(value, name=f"outfold-given-{uuid.uuid4().hex}"))
    found = client()
    if found is None:
        return node
    with _large_graph():
        return found.persist(node)


def _same(value: object) -> object:
    return value


@contextmanager
def _large_graph() -> Iterator[None]:
    """Silence Dask's warning about large graphs: the graph contains the landmarks, which may be large."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def run_tasks(
    work: Sequence[tuple[slice, Delayed]], title: str, most: int = IN_FLIGHT, known: dict[Any, slice] | None = None
) -> Iterator[Any]:
    """Yield the results of ``work`` in order, with at most ``most`` tasks on the cluster at a time.

    Parameters
    ----------
    work : pairs (rows, task)
    title : name of the pass, for error messages
    most : number of tasks
    known : rows that each task of the collection itself loads, by its key
    """
    found = client()
    if found is None:
        yield from (task.compute() for _, task in work)
        return
    left, waiting = deque(work), deque[tuple[slice, Any]]()
    try:
        while left or waiting:
            while left and len(waiting) < most:
                rows, task = left.popleft()
                with _large_graph(), _telling(rows, title, known or {}):
                    waiting.append((rows, found.compute(task)))
            rows, future = waiting.popleft()
            with _telling(rows, title, known or {}):
                result = future.result()
            del future  # so that the cluster may free the result
            yield result
    finally:
        with suppress(Exception):  # the scheduler may be gone
            found.cancel([future for _, future in waiting])


@contextmanager
def _telling(rows: slice, title: str, known: dict[Any, slice]) -> Iterator[None]:
    """Raise :class:`ClusterError` for a lost worker or scheduler; errors about the rows themselves pass unchanged."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind == "KilledWorker":
            key, _, failures = error.args
            first, last = _rows_of(key, rows, known)
            raise ClusterError(
                f"{failures + 1} workers, one after another, died in the {title} over rows {first} to {last} (task "
                f"{key!r}). Most likely that needs more memory than a worker has: make the chunks of X smaller or the "
                "workers larger. Their logs say more."
            ) from error
        if kind in LOST:
            raise ClusterError(
                f"The scheduler was lost in the {title} over rows {rows.start} to {rows.stop - 1} ({error}). A fit "
                "with checkpoint=FOLDER that is begun again on a new cluster goes on from what had come back."
            ) from error
        raise


def _rows_of(key: object, rows: slice, known: dict[Any, slice]) -> tuple[Any, Any]:
    """Return the first and last row of the task ``key``.

    Tasks of Outfold have the rows in their name. A task that loads a part is looked up in ``known``; Dask may have
    fused it with others, so the comparison is by the end of the key and by part of the name.
    """
    if found := re.search(r"-rows-(\d+)-(\d+)-", str(key)):
        return found[1], found[2]
    for (name, *at), part in known.items():
        if isinstance(key, tuple) and list(key[1:]) == at and name.rpartition("-")[0] in key[0]:
            return part.start, part.stop - 1
    return rows.start, rows.stop - 1


LOST = {"CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError", "TimeoutError"}
