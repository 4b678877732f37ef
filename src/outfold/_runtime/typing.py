"""Types for annotations, and the marks of fields and parameters, as in ``Annotated[Array, Axes("n")]``.

One line of a class serves the reader, the schema of model files, the validation of parameters and the command.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]


class Sparse(Protocol):
    """A sparse matrix in CSR format, such as SciPy's ``csr_array``, which has no types of its own."""

    data: Array
    indices: Array
    indptr: Array

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nnz(self) -> int: ...

    def __matmul__(self, other: Any, /) -> Any: ...

    def copy(self) -> Sparse: ...

    def diagonal(self) -> Array: ...

    def toarray(self) -> Array: ...


Matrix: TypeAlias = Array | Sparse  # ``isinstance(M, np.ndarray)`` tells them apart, for mypy too


class Shaped(Protocol):
    """Anything with a shape: a Dask or Zarr array, a DataFrame, a sparse matrix, one of our sources."""

    @property
    def shape(self) -> tuple[Any, ...]: ...


class Sliceable(Protocol):
    """A table on disk or in memory that is read by slices of rows: a memmap, an HDF5 data set, a Zarr array."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


Data: TypeAlias = ArrayLike | Shaped | os.PathLike[str] | Callable[[], Iterable[Any]]  # rows as ``fit`` takes them
Weights: TypeAlias = ArrayLike | Shaped | None
Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None


# -- marks of fields -----------------------------------------------------------------------


@dataclass(frozen=True)
class Axes:
    """The axes of an array, one letter each; of a field that is an object, the letters shared with it.

    ``Axes("n>N d")``: its n is our N, its d our d.
    """

    letters: str


@dataclass(frozen=True)
class Interval:
    """The range of a number; ``open_low``: without ``low`` itself. ``high`` may be a letter of the object's axes."""

    low: float = -np.inf
    high: float | str = np.inf
    open_low: bool = False


@dataclass(frozen=True, init=False)
class Options:
    """The valid names of a text: ``Annotated[str, Options("warn", "error")]``."""

    choices: tuple[str, ...]

    def __init__(self, *choices: str) -> None:
        object.__setattr__(self, "choices", choices)


@dataclass(frozen=True)
class Index:
    """Whole numbers from 0 to below a letter of the object's axes, or below another field."""

    below: str


@dataclass(frozen=True)
class Mark:
    """A mark without a value; see ``POSITIVE`` and those beside it."""

    name: str


POSITIVE = Mark("positive")  # every entry is > 0
WEIGHTS = Mark("weights")  # entries are >= 0, and their sum is > 0 and finite
RISING = Mark("rising")  # no entry is below the one before
FLAG = Mark("flag")  # a parameter that must be True or False
FREE = Mark("free")  # may be infinite or NaN
NAN = Mark("nan")  # an array that may hold NaN, as nan_euclidean takes them
SPARSE_ROWS = Mark("sparse rows")  # an array that may be ``SparseRows``
WHOLE = Mark("whole")  # an array of whole numbers; others hold floats
CACHE = Mark("cache")  # not stored in model files
