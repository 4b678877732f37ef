"""Loops compiled by numba the first time each is called; the only module that imports numba.

Every loop releases the GIL, so our own thread pool runs it on row ranges. The plain Python functions (``loop.plain``)
are the same code, not compiled. Compiled code is cached on disk: beside the source, else in the user's cache folder,
else in a folder of the user's among temporary files. Someone at a terminal is told when compiling takes long.
"""

from __future__ import annotations

import os
import pickle
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar

from .._version import __version__

if TYPE_CHECKING:
    from types import ModuleType

FUSED = ("contract",)  # a * b + c may round once, on processors with that instruction
NUMBERS = ("nnan", "nsz")  # the caller promises no NaN, so minima and maxima run in vector registers
ANY_ORDER = ("reassoc", "contract", "nsz")  # sums in any order, in vector registers; one build gives one sum
SILENT_SECONDS = 2.0  # of compiling, before the user is told
_VERSION = re.sub(
    r"\W", "_", __version__
)  # part of a loop's name in the cache: file times may not change by an upgrade
UNREADABLE = (OSError, EOFError, pickle.UnpicklingError)  # what a cache raises whose disk is full or whose file is cut

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind")


class Loop(Generic[P, R]):
    """A function that numba compiles on first use and caches on disk, or in this process if no folder can be used.

    Loops of one module may call each other.
    """

    def __init__(self, plain: Callable[P, R], freedom: tuple[str, ...] = ()) -> None:
        self.plain = plain
        self.fastmath = set(freedom)
        self.__doc__ = plain.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return self.compiled(*args, **kwargs)
        except UNREADABLE:  # from the cache, before the loop runs: loops raise none of these
            self.__dict__["compiled"] = self._compile(cached=False)
            return self.compiled(*args, **kwargs)
        except SystemError as error:  # numba returns to Python with the interrupt pending, and Python complains of that
            cause: BaseException | None = error
            while isinstance(cause, SystemError):  # each function that it passes complains again
                cause = cause.__cause__
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise

    @cached_property
    def compiled(self) -> Callable[P, R]:
        return self._compile(cached=True)

    def _compile(self, cached: bool) -> Callable[P, R]:
        """Return what numba compiles on its first call, and the loops it calls, cached on disk or not."""
        known = self.plain.__globals__
        loops = {name: known[name] for name in self.plain.__code__.co_names if type(known.get(name)) is Loop}
        called = {name: loop.compiled if cached else loop._compile(cached) for name, loop in loops.items()}
        function = FunctionType(self.plain.__code__, {**known, **called}, self.plain.__name__)
        function.__qualname__ = f"{self.plain.__qualname__}_{_VERSION}"
        compiled: Callable[P, R] = _without_literals(_jit(function, cached, self.fastmath))
        return compiled


def loop_with(freedom: tuple[str, ...]) -> Callable[[Callable[P, R]], Loop[P, R]]:
    """Return the decorator of a loop whose arithmetic may be rearranged as ``freedom`` says."""
    return lambda plain: Loop(plain, freedom)


@cache
def _numba() -> ModuleType:
    """Import numba, and watch how long it compiles our loops."""
    import numba
    from numba.core import event

    event.Listener.register(Notice)  # as a virtual subclass, because numba is imported late
    event.register("numba:compile", _NOTICE)  # type: ignore[no-untyped-call]
    return numba


def _jit(function: FunctionType, cached: bool, fastmath: set[str]) -> Callable[..., R]:
    """Return what numba makes of ``function``, cached in the first folder that can be used, if ``cached``."""
    numba = _numba()
    jit: Callable[..., Callable[..., Callable[..., R]]] = partial(numba.njit, nogil=True, fastmath=fastmath)
    if cached:
        with suppress(RuntimeError):  # numba can write neither beside the source nor in the user's cache folder
            return jit(cache=True)(function)
        folder = private_folder()
        if folder is not None:
            with suppress(RuntimeError), _caching_in(folder):
                return jit(cache=True)(function)
    _NOTICE.every_time = True
    return jit()(function)


def _without_literals(compiled: Kind) -> Kind:
    """Make other loops call ``compiled`` with types only.

    Numba would compile it once more for a literal, such as a count that starts at 0.
    """
    from numba.core.types import unliteral

    template = getattr(compiled, "get_call_template", None)
    if template is None:  # NUMBA_DISABLE_JIT
        return compiled
    plainly = lambda args, kws: template(tuple(map(unliteral, args)), kws)  # noqa: E731
    setattr(compiled, "get_call_template", plainly)  # noqa: B010  # mypy does not see numba's classes
    return compiled


# -- where nothing can be written beside the source and in the user's cache folder ---------


@cache
def private_folder() -> str | None:
    """Return a folder among temporary files that only this user can open; None if there is none.

    A cache holds code. So a folder that belongs to someone else, that is a link, or that others may write to or read
    is refused, since someone may have put it there.
    """
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"outfold-loops-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        safe = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        if not safe:
            return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return str(folder)


@contextmanager
def _caching_in(folder: str) -> Iterator[None]:
    """Let numba cache in ``folder`` what is decorated inside; the code of other packages is not affected."""
    from numba.core import config

    before = getattr(config, "CACHE_DIR", "")
    setattr(config, "CACHE_DIR", folder)  # noqa: B010  # mypy does not see numba's settings
    try:
        yield
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


# -- saying that compiling takes long ------------------------------------------------------


def is_interactive() -> bool:
    """Return whether someone may be waiting: at a terminal, at a Python prompt or in a notebook."""
    return hasattr(sys, "ps1") or (sys.stderr is not None and sys.stderr.isatty())


class Compiled(Protocol):
    """A function that numba compiles."""

    py_func: Callable[..., object]


class Event(Protocol):
    """What numba says when it begins and ends to compile a function."""

    data: dict[str, Compiled]
    is_start: bool


class Notice:
    """Says once in a process that compiling takes long, to someone who waits for it; a listener of numba's events."""

    def __init__(self) -> None:
        self.wanted: bool | None = None  # None: if the process is interactive
        self.every_time = False  # nothing is cached
        self.seconds, self.depth, self.begun, self.said = 0.0, 0, 0.0, False

    def notify(self, event: Event) -> None:
        if not event.data["dispatcher"].py_func.__module__.startswith("outfold."):
            return
        now = time.perf_counter()
        self.depth += 1 if event.is_start else -1  # loops that a loop calls are compiled within its time
        if event.is_start and self.depth == 1:
            self.begun = now
        if self.seconds + now - self.begun > SILENT_SECONDS and not self.said:
            self.said = True
            self._say()
        if self.depth == 0:
            self.seconds += now - self.begun

    def _say(self) -> None:
        if not (is_interactive() if self.wanted is None else self.wanted):
            return
        text = "Outfold is compiling its loops for your processor. This takes some seconds, once after installation."
        if self.every_time:
            text = (
                "Outfold is compiling its loops. This takes some seconds in every process, because no cache folder can "
                "be written: set NUMBA_CACHE_DIR to a folder that can."
            )
        print(text, file=sys.stderr, flush=True)


_NOTICE = Notice()


def keep_quiet() -> None:
    """Never say that compiling takes long: for commands that are asked to print nothing."""
    _NOTICE.wanted = False
