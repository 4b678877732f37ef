"""Read-only copies of arrays: a fitted object stores copies of its inputs and makes them read-only.

So a change to the caller's arrays after a fit, or to an array that a model returned, cannot change the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from .threads import Threads, row_blocks
from .typing import Array


def own(values: ArrayLike, runner: Threads | None = None) -> Array:
    """Return a read-only copy of the values as float64 in C order."""
    if runner is None or not isinstance(values, np.ndarray) or values.ndim != 2:
        copy = np.array(values, dtype=float, order="C")
    else:  # by several threads: most of the time goes into fresh memory
        copy = np.empty(values.shape)
        runner.run(lambda part: np.copyto(copy[part], values[part]), row_blocks(*values.shape))
    copy.flags.writeable = False
    return copy


def freeze(value: object) -> None:
    """Make every array that belongs to a fitted object read-only."""
    for array in arrays(value):
        array.flags.writeable = False


def arrays(value: object, visited: set[int] | None = None) -> Iterator[Array]:
    """Yield every array in an outfold object: in its fields, and in the containers and outfold objects among them.

    Caches (search trees, private fields) and parameters of estimators, which belong to the caller, are not visited.
    """
    visited = set() if visited is None else visited
    if id(value) in visited:
        return
    visited.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif issparse(value):
        yield from (getattr(value, name) for name in ("data", "indices", "indptr") if hasattr(value, name))
    else:
        for part in _parts(value):
            yield from arrays(part, visited)


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if not type(value).__module__.startswith("outfold."):
        return []
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return [part for name, part in vars(value).items() if name not in params and name != "_sealed"]
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")]
    return []
