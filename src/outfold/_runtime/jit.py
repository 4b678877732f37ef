"""Loops compiled by numba the first time each is called; the only module that imports numba.

Every loop releases the GIL, so our own thread pool runs it on row ranges. The plain Python functions (``loop.plain``)
are the same code, not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar

FUSED = ("contract",)  # a * b + c may round once, on processors with that instruction
NUMBERS = ("nnan", "nsz")  # the caller promises no NaN, so minima and maxima run in vector registers
ANY_ORDER = ("reassoc", "contract", "nsz")  # sums in any order, in vector registers; one build gives one sum


P = ParamSpec("P")
R = TypeVar("R")


class Loop(Generic[P, R]):
    """A function that numba compiles on first use and caches on disk, or in this process if no folder is writable.

    Loops of one module may call each other.
    """

    def __init__(self, plain: Callable[P, R], freedom: tuple[str, ...] = ()) -> None:
        self.plain = plain
        self.fastmath = set(freedom)
        self.__doc__ = plain.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.compiled(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        import numba

        known = self.plain.__globals__
        called = {name: known[name].compiled for name in self.plain.__code__.co_names if type(known.get(name)) is Loop}
        function = FunctionType(self.plain.__code__, {**known, **called}, self.plain.__name__)
        function.__qualname__ = self.plain.__qualname__
        try:
            compiled: Callable[P, R] = numba.njit(nogil=True, cache=True, fastmath=self.fastmath)(function)
        except RuntimeError:  # no writable folder to cache in
            compiled = numba.njit(nogil=True, fastmath=self.fastmath)(function)
        return compiled


def loop_with(freedom: tuple[str, ...]) -> Callable[[Callable[P, R]], Loop[P, R]]:
    """Return the decorator of a loop whose arithmetic may be rearranged as ``freedom`` says."""
    return lambda plain: Loop(plain, freedom)
