"""Loops compiled by numba the first time each is called; the only module that imports numba.

Every loop releases the GIL, so our own thread pool runs it on row ranges. The plain Python functions (``loop.plain``)
are the same code, not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any

FUSED = ("contract",)  # a * b + c may round once, on processors with that instruction
NUMBERS = ("nnan", "nsz")  # the caller promises no NaN, so minima and maxima run in vector registers
ANY_ORDER = ("reassoc", "contract", "nsz")  # sums in any order, in vector registers; one build gives one sum


class Loop:
    """A function that numba compiles on first use and caches on disk, or in this process if no folder is writable.

    Loops of one module may call each other.
    """

    def __init__(self, plain: Callable[..., Any], freedom: tuple[str, ...] = ()) -> None:
        self.plain = plain
        self.fastmath = set(freedom)
        self.__doc__ = plain.__doc__

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        import numba

        known = self.plain.__globals__
        called = {name: known[name].compiled for name in self.plain.__code__.co_names if type(known.get(name)) is Loop}
        function = FunctionType(self.plain.__code__, {**known, **called}, self.plain.__name__)
        function.__qualname__ = self.plain.__qualname__
        try:
            return numba.njit(nogil=True, cache=True, fastmath=self.fastmath)(function)
        except RuntimeError:  # no writable folder to cache in
            return numba.njit(nogil=True, fastmath=self.fastmath)(function)
