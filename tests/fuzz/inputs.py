"""Tables and weights in every form that callers have, and the odd values in them; drawn from a seed.

A :class:`Case` says which numbers the form holds, as float64, or None if there are none that it could mean.
"""

from __future__ import annotations

import array
import collections
import contextlib
import datetime
import decimal
import fractions
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse

NAMES = ["tea", "milk", "sugar", "lemon"]


@dataclass(frozen=True)
class Case:
    """A table as a caller passes it; ``make`` makes it anew, since some can be read once only."""

    name: str
    make: Callable[[], Any]
    numbers: np.ndarray | None  # the same as float64; None: to be refused

    def __str__(self) -> str:
        return self.name


def table(rng: np.random.Generator, rows: int = 30, columns: int = 3) -> np.ndarray:
    """Distinct rows of small whole numbers and halves, which every type of number can hold."""
    values = rng.permutation(16 * rows)[: rows * columns].reshape(rows, columns) % 120
    values[:, 0] = rng.permutation(rows)
    return values.astype(float)


# -- forms of a table ----------------------------------------------------------------------


def frame(X: np.ndarray, **options) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES[: X.shape[1]], **options)


def strided(X: np.ndarray) -> np.ndarray:
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def read_only(X: np.ndarray) -> np.ndarray:
    found = X.copy()
    found.flags.writeable = False
    return found


def mapped(X: np.ndarray) -> np.memmap:
    path = Path(tempfile.mkdtemp()) / "rows.bin"
    np.asarray(X).tofile(path)
    return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)


class ArrayLike:
    """An object with ``__array__`` and nothing else."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = X

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.X, dtype=dtype)


def objects(X: np.ndarray, kind: Callable[[float], object]) -> np.ndarray:
    found = np.empty(X.shape, dtype=object)
    found[...] = [[kind(value) for value in row] for row in X]
    return found


def tensors() -> dict[str, Callable[[np.ndarray], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    return {
        "torch": torch.tensor,
        "torch float32": lambda X: torch.tensor(X, dtype=torch.float32),
        "torch float16": lambda X: torch.tensor(X, dtype=torch.float16),
        "torch bfloat16": lambda X: torch.tensor(X, dtype=torch.bfloat16),
        "torch int64": lambda X: torch.tensor(X.astype(np.int64)),
        "torch requires_grad": lambda X: torch.tensor(X, requires_grad=True),
        "torch transposed": lambda X: torch.tensor(np.ascontiguousarray(X.T)).T,
        "list of torch rows": lambda X: list(torch.tensor(X)),
    }


KINDS = ("f8", "f4", "f2", ">f8", ">f4", "g", "i1", "u1", "i2", ">i4", "u4", "i8", "u8")

FORMS: dict[str, Callable[[np.ndarray], Any]] = {  # each holds the numbers of a table
    **{f"array {kind}": (lambda X, kind=kind: X.astype(kind)) for kind in KINDS},
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "reversed": lambda X: X[::-1].copy()[::-1],
    "read-only": read_only,
    "memmap": mapped,
    "memmap f4": lambda X: mapped(X.astype("f4")),
    "memmap i8": lambda X: mapped(X.astype("i8")),
    "masked, nothing hidden": lambda X: np.ma.array(X, mask=False),
    "masked, no mask": np.ma.array,
    "list of lists": lambda X: X.tolist(),
    "tuple of tuples": lambda X: tuple(map(tuple, X.tolist())),
    "list of arrays": list,
    "list of array.array": lambda X: [array.array("d", row) for row in X],
    "list of masked rows, nothing hidden": lambda X: [np.ma.array(row) for row in X],
    "list of Series": lambda X: [pd.Series(row) for row in X],
    "list of int": lambda X: X.astype(int).tolist(),
    "deque of lists": lambda X: list(collections.deque(X.tolist())),
    "array-like": ArrayLike,
    "objects": lambda X: X.astype(object),
    "objects int": lambda X: objects(X, int),
    "objects of NumPy": lambda X: objects(X, np.float32),
    "Decimal": lambda X: objects(X, lambda value: decimal.Decimal(str(value))),
    "Fraction": lambda X: objects(X, fractions.Fraction),
    "text of numbers": lambda X: X.astype(str),
    "objects, text of numbers": lambda X: objects(X, str),
    "bytes of numbers": lambda X: X.astype("S"),
    "list of text of numbers": lambda X: X.astype(str).tolist(),
    "pandas": frame,
    "pandas float32": lambda X: frame(X.astype("f4")),
    "pandas int": lambda X: frame(X.astype(int)),
    "pandas mixed": lambda X: frame(X).astype({"tea": "int8", "milk": "float32"}),
    "pandas Int64": lambda X: frame(X.astype(int)).astype("Int64"),
    "pandas Float32": lambda X: frame(X).astype("Float32"),
    "pandas objects": lambda X: frame(X).astype(object),
    "pandas category": lambda X: frame(X).astype("category"),
    "pandas text of numbers": lambda X: frame(X).astype(str),
    "pandas string": lambda X: frame(X).astype("string"),
    "pandas sparse": lambda X: frame(X).astype(pd.SparseDtype(float, 0.0)),
    "pandas with a sparse column": lambda X: frame(X).astype({"tea": pd.SparseDtype(float, 0.0)}),
    "pandas double[pyarrow]": lambda X: frame(X).astype("double[pyarrow]"),
    "pandas int64[pyarrow]": lambda X: frame(X).astype("int64[pyarrow]"),
    "pandas decimal[pyarrow]": lambda X: frame(objects(X, lambda v: decimal.Decimal(str(v)))).astype(
        pd.ArrowDtype(pa.decimal128(12, 3))
    ),
    "pandas, numbered columns": pd.DataFrame,
    "pandas, two levels of names": lambda X: pd.DataFrame(
        X, columns=pd.MultiIndex.from_product([["cup"], NAMES[: X.shape[1]]])
    ),
    "pandas, odd index": lambda X: frame(X, index=pd.date_range("2020", periods=len(X))[::-1]),
    "polars": lambda X: pl.DataFrame(frame(X).to_dict("list")),
    "polars Float32": lambda X: pl.DataFrame(frame(X).to_dict("list")).cast(pl.Float32),
    "polars Int64": lambda X: pl.DataFrame(frame(X.astype(int)).to_dict("list")),
    "polars Decimal": lambda X: pl.DataFrame(frame(X).to_dict("list")).cast(pl.Decimal(12, 3)),
    "polars text of numbers": lambda X: pl.DataFrame(frame(X.astype(str)).to_dict("list")),
    "pyarrow Table": lambda X: pa.table(frame(X).to_dict("list")),
    "pyarrow Table, chunks": lambda X: pa.concat_tables(
        [pa.table(frame(part).to_dict("list")) for part in (X[:7], X[7:])]
    ),
    "pyarrow Table int": lambda X: pa.table(frame(X.astype(int)).to_dict("list")),
    "pyarrow RecordBatch": lambda X: pa.RecordBatch.from_pydict(frame(X).to_dict("list")),
    **{
        f"sparse {form}": (lambda X, form=form: scipy.sparse.coo_array(X).asformat(form))
        for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
    },
    "sparse matrix": scipy.sparse.csr_matrix,
    "sparse int": lambda X: scipy.sparse.csr_array(X.astype(int)),
    "sparse float32": lambda X: scipy.sparse.csr_array(X.astype("f4")),
    "sparse int64 indices": lambda X: wide_indices(X),
    "blocks": lambda X: lambda: iter([X[:9], X[9:]]),
    **tensors(),
}


def wide_indices(X: np.ndarray):
    found = scipy.sparse.csr_array(X)
    found.indices, found.indptr = found.indices.astype("i8"), found.indptr.astype("i8")
    return found


TRUTH = {  # forms of a table of 0 and 1
    "array bool": lambda X: X.astype(bool),
    "objects bool": lambda X: objects(X, bool),
    "list of bool": lambda X: X.astype(bool).tolist(),
    "pandas bool": lambda X: frame(X.astype(bool)),
    "pandas boolean": lambda X: frame(X.astype(bool)).astype("boolean"),
    "polars Boolean": lambda X: pl.DataFrame(frame(X.astype(bool)).to_dict("list")),
    "pyarrow bool": lambda X: pa.table(frame(X.astype(bool)).to_dict("list")),
    "sparse bool": lambda X: scipy.sparse.csr_array(X.astype(bool)),
}

# -- values that are no number -------------------------------------------------------------

CELLS: dict[str, object] = {
    "text": "grey",
    "empty text": "",
    "text with a comma": "1,5",
    "bytes": b"grey",
    "None": None,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "text nan": "nan",
    "NA": pd.NA,
    "NaT": pd.NaT,
    "10**400": 10**400,
    "complex": 1 + 2j,
    "date": datetime.date(2020, 1, 1),
    "datetime": datetime.datetime(2020, 1, 1),
    "timedelta": datetime.timedelta(days=1),
    "Timestamp": pd.Timestamp("2020"),
    "datetime64": np.datetime64("2020-01-01"),
    "timedelta64": np.timedelta64(1, "D"),
    "Decimal nan": decimal.Decimal("nan"),
    "Decimal snan": decimal.Decimal("sNaN"),
    "Decimal huge": decimal.Decimal("1e999999"),
    "list": [1.0, 2.0],
    "array": np.array([1.0]),
    "dict": {"a": 1},
    "set": {1},
    "object": object(),
    "type": float,
    "function": len,
}

HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {  # forms that can hold any of these
    "objects": lambda X: X,
    "list of lists": lambda X: X.tolist(),
    "tuple of lists": lambda X: tuple(X.tolist()),
    "list of arrays": list,
    "pandas": frame,
    "pandas category": lambda X: frame(X).astype({"milk": "category"}),
    "polars": lambda X: pl.DataFrame(
        [pl.Series(str(at), list(values), dtype=pl.Object) for at, values in enumerate(X.T)]
    ),
    "pyarrow": lambda X: pa.Table.from_pandas(frame(X)),
}


def spoil(X: np.ndarray, cell: object, at: tuple[int, int]) -> np.ndarray:
    found = X.astype(object)
    found[at] = cell
    return found


# -- what is no table ----------------------------------------------------------------------

KIND_FAULTS: dict[str, Callable[[np.ndarray], Any]] = {
    "complex": lambda X: X + 1j,
    "complex list": lambda X: (X + 1j).tolist(),
    "datetime64": lambda X: X.astype("datetime64[s]"),
    "timedelta64": lambda X: X.astype("timedelta64[s]"),
    "structured": lambda X: np.array(list(map(tuple, X)), dtype=[(name, float) for name in NAMES[: X.shape[1]]]),
    "recarray": lambda X: np.rec.fromarrays(list(X.T), names=NAMES[: X.shape[1]]),
    "structured 2-D": lambda X: X.astype([("value", float)]),
    "masked": lambda X: np.ma.array(X, mask=X[3, 1] == X),
    "masked, all": lambda X: np.ma.masked_all(X.shape),
    "list of masked rows": lambda X: [np.ma.array(row, mask=row == X[3, 1]) for row in X],
    "ragged": lambda X: [*X.tolist(), [1.0]],
    "ragged arrays": lambda X: [*X, X[0, :1]],
    "list with a number": lambda X: [*X.tolist(), 1.0],
    "list with None": lambda X: [*X.tolist(), None],
    "scalar": lambda X: 5.0,
    "0-D": lambda X: np.array(5.0),
    "1-D": lambda X: X[:, 0],
    "3-D": lambda X: X[:, :, None],
    "list of numbers": lambda X: X[:, 0].tolist(),
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "empty list": lambda X: [],
    "list of empty lists": lambda X: [[]] * 5,
    "pandas, no rows": lambda X: frame(X[:0]),
    "pandas, no columns": lambda X: frame(X)[[]],
    "polars, no rows": lambda X: pl.DataFrame(frame(X[:0]).to_dict("list")),
    "polars, empty": lambda X: pl.DataFrame(),
    "pyarrow, empty": lambda X: pa.table({}),
    "sparse, no rows": lambda X: scipy.sparse.csr_array((0, 3)),
    "sparse complex": lambda X: scipy.sparse.csr_array(X + 1j),
    "sparse with NaN": lambda X: scipy.sparse.csr_array(np.where(X[3, 1] == X, np.nan, X)),
    "sparse 1-D": lambda X: scipy.sparse.coo_array(X[:, 0]),
    "array with NaN": lambda X: np.where(X[3, 1] == X, np.nan, X),
    "float32 with inf": lambda X: np.where(X[3, 1] == X, np.inf, X).astype("f4"),
    "float16 with NaN": lambda X: np.where(X[3, 1] == X, np.nan, X).astype("f2"),
    "longdouble beyond": lambda X: X.astype("g") * np.longdouble("1e4000") + 1,
    "memmap with NaN": lambda X: mapped(np.where(X[3, 1] == X, np.nan, X)),
    "memmap complex": lambda X: mapped(X + 1j),
    "memmap of dates": lambda X: mapped(X.astype("datetime64[s]")),
    "text": lambda X: "rows.csv",
    "text of a file that is not there": lambda X: "nowhere.npy",
    "list of text": lambda X: ["a", "b"],
    "empty text": lambda X: "",
    "bytes": lambda X: b"rows",
    "a path": lambda X: Path("nowhere.npy"),
    "a folder": lambda X: Path(tempfile.gettempdir()),
    "None": lambda X: None,
    "True": lambda X: True,
    "object": lambda X: object(),
    "type": lambda X: float,
    "dict": lambda X: dict(enumerate(X.T)),
    "list of dicts": lambda X: frame(X).to_dict("records"),
    "set": lambda X: set(X[:, 0]),
    "frozenset": lambda X: frozenset(X[:, 0]),
    "generator": lambda X: (row for row in X),
    "map": lambda X: map(list, X),
    "zip": lambda X: zip(*X.T),
    "function that needs arguments": lambda X: lambda rows: rows,
    "function of nothing": lambda X: lambda: None,
    "function of text": lambda X: lambda: ["a", "b"],
    "function of ragged blocks": lambda X: lambda: [X, X[:, :2]],
    "function of NaN": lambda X: lambda: [np.where(X[3, 1] == X, np.nan, X)],
    "function of no blocks": lambda X: list,
    "pandas, one name twice": lambda X: pd.DataFrame(X, columns=["tea"] * X.shape[1]),
    "pandas Series": lambda X: frame(X)["tea"],
    "pandas Index": lambda X: frame(X).index,
    "pandas with dates": lambda X: frame(X).assign(milk=pd.date_range("2020", periods=len(X))),
    "pandas of dates": lambda X: frame(X).apply(lambda c: pd.date_range("2020", periods=len(X))),
    "pandas with zoned dates": lambda X: frame(X).assign(milk=pd.date_range("2020", periods=len(X), tz="UTC")),
    "pandas with timedeltas": lambda X: frame(X).assign(milk=pd.to_timedelta(range(len(X)), "s")),
    "pandas of timedeltas": lambda X: frame(X).apply(lambda c: pd.to_timedelta(range(len(X)), "s")),
    "pandas with periods": lambda X: frame(X).assign(milk=pd.period_range("2020", periods=len(X))),
    "pandas with intervals": lambda X: frame(X).assign(milk=pd.interval_range(0, len(X))),
    "pandas with complex": lambda X: frame(X).assign(milk=X[:, 1] + 1j),
    "pandas with a text category": lambda X: frame(X).assign(milk=pd.Categorical(["a"] * len(X))),
    "pandas with NA": lambda X: frame(X).astype("Float64").mask(frame(X) == X[3, 1]),
    "pandas with null[pyarrow]": lambda X: frame(X).astype("double[pyarrow]").mask(frame(X) == X[3, 1]),
    "pandas with timestamp[pyarrow]": lambda X: frame(X).assign(
        milk=pd.Series(pd.date_range("2020", periods=len(X))).astype("timestamp[ns][pyarrow]")
    ),
    "pandas, names of several types": lambda X: pd.DataFrame(X, columns=["tea", 1, ("a", 2)][: X.shape[1]]),
    "polars LazyFrame": lambda X: pl.DataFrame(frame(X).to_dict("list")).lazy(),
    "polars Series": lambda X: pl.Series(X[:, 0]),
    "polars with dates": lambda X: pl.from_pandas(frame(X).assign(milk=pd.date_range("2020", periods=len(X)))),
    "polars with durations": lambda X: pl.from_pandas(frame(X).assign(milk=pd.to_timedelta(range(len(X)), "s"))),
    "polars with lists": lambda X: pl.DataFrame({"tea": X[:, 0], "milk": X[:, 1:].tolist()}),
    "polars with arrays": lambda X: pl.DataFrame(
        {"tea": X[:, 0], "milk": pl.Series(X[:, 1:], dtype=pl.Array(float, 2))}
    ),
    "polars with structs": lambda X: pl.DataFrame({"tea": X[:, 0]}).with_columns(pl.struct("tea").alias("milk")),
    "polars Categorical": lambda X: pl.DataFrame({"tea": X[:, 0], "milk": ["a"] * len(X)}).cast(
        {"milk": pl.Categorical}
    ),
    "polars with null": lambda X: pl.DataFrame({"tea": [None, *X[1:, 0]], "milk": X[:, 1]}),
    "pyarrow ChunkedArray": lambda X: pa.chunked_array([X[:, 0]]),
    "pyarrow Array": lambda X: pa.array(X[:, 0]),
    "pyarrow with null": lambda X: pa.table({"tea": [None, *X[1:, 0]], "milk": X[:, 1]}),
    "pyarrow with text": lambda X: pa.table({"tea": X[:, 0], "milk": ["a"] * len(X)}),
    "pyarrow with dictionary": lambda X: pa.table(
        {"tea": X[:, 0], "milk": pa.array(["a"] * len(X)).dictionary_encode()}
    ),
    "pyarrow with timestamps": lambda X: pa.table({"tea": X[:, 0], "milk": X[:, 1].astype("datetime64[s]")}),
    "pyarrow with lists": lambda X: pa.table({"tea": X[:, 0], "milk": X[:, 1:].tolist()}),
    "pyarrow with nulls only": lambda X: pa.table({"tea": X[:, 0], "milk": pa.nulls(len(X))}),
    "too large": lambda X: np.broadcast_to(np.arange(2.0), (10**10, 2)).T,
    "too large, int": lambda X: np.broadcast_to(np.arange(2), (10**10, 2)),
    "too large, objects": lambda X: np.broadcast_to(X.astype(object)[:1], (10**10, 3)),
}


def sparse_tensor(X: np.ndarray):
    import torch

    return torch.tensor(X).to_sparse()


if tensors():
    KIND_FAULTS["torch sparse"] = sparse_tensor
    KIND_FAULTS["torch complex"] = lambda X: tensors()["torch"](X + 1j)
    KIND_FAULTS["torch 1-D"] = lambda X: tensors()["torch"](X[:, 0])


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Every form, every fault of a kind, and every cell in every form that can hold it, once each."""
    X = table(rng)
    for name, form in FORMS.items():
        yield Case(name, lambda form=form: form(X), X)
    flags = (rng.uniform(size=(30, 4)) < 0.5).astype(float)
    for name, form in TRUTH.items():
        yield Case(name, lambda form=form: form(flags), flags)
    for name, fault in KIND_FAULTS.items():
        yield Case(name, lambda fault=fault: fault(X), None)
    for name, cell in CELLS.items():
        for holder, form in HOLDERS.items():
            at = int(rng.integers(len(X))), 1
            with contextlib.suppress(Exception):  # polars and pyarrow refuse some of them themselves
                form(spoil(X, cell, at))
                yield Case(f"{name} in {holder}", lambda form=form, cell=cell, at=at: form(spoil(X, cell, at)), None)
