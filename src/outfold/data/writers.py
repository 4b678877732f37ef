"""Writers of embeddings, block by block, into an array or a file; a file appears only when it is complete."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._runtime.extras import extra
from .._runtime.typing import Array

Write = Callable[[slice, Array], None]
Add = Callable[[list[Sequence[Any]], Array], None]

SUFFIXES = (".npy", ".parquet", ".zarr")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".zarr", ".h5ad")
NUMBERS_ONLY = (".npy", ".zarr")
STALE_SECONDS = 24 * 3600.0  # a partial file without a write for this time has no writer any more
# part of the names of partial files: a process id means something on its own machine only
_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]


@contextmanager
def open_writer(out: Any, shape: tuple[int, int], dtype: Any, names: list[str]) -> Iterator[Write]:
    """Yield a function that writes blocks of rows in order; a file is in place once the context ends without error."""
    if not isinstance(out, str | Path):
        yield _into_array(out, shape)
        if isinstance(out, np.memmap):
            out.flush()
        return
    path = Path(out)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"out={str(out)!r} must end in {', '.join(SUFFIXES)}, or be an array of shape {shape}.")
    kind = {".npy": _npy, ".parquet": _parquet, ".zarr": _zarr}[path.suffix]
    with replacing(path) as beside, kind(beside, shape, dtype, names) as write:
        yield write


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; it replaces ``path`` at the end, or is removed after an error.

    So ``path`` is always the old file or the complete new one. Temporary files of killed writers are removed first.
    """
    beside = path.with_name(f".{path.name}.{_MACHINE}-{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        _sweep(path)
        yield beside
        _settle(beside)
        if path.is_dir():
            old = beside.with_suffix(".old")
            path.rename(old)
            beside.rename(path)
            shutil.rmtree(old)
        else:
            os.replace(beside, path)
        _settle(path.parent)
    except OSError as error:
        raise OSError(
            error.errno,
            f"Could not write {path} ({error.strerror}); nothing was put in its place. {_advice(error.errno)}",
        ) from error
    finally:
        _remove(beside)


def _advice(number: int | None) -> str:
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Is the folder writable?"
    if number in (errno.ENOENT, errno.ENOTDIR):
        return "Is there such a folder?"
    return "Is the disk full?"


def _sweep(path: Path) -> None:
    """Remove partial files of dead writers to ``path``: no such process on this machine, or no write for a day."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{8}\.part")
    for name in os.listdir(path.parent):
        found = pattern.fullmatch(name)
        if not found:
            continue
        left = path.with_name(name)
        try:
            still = time.time() - left.lstat().st_mtime > STALE_SECONDS
        except FileNotFoundError:  # its writer has just renamed or removed it
            continue
        if still or (found[1] == _MACHINE and not _alive(int(found[2]))):
            _remove(left)


def _alive(process: int) -> bool:
    if os.name == "nt":  # on Windows, signal 0 would end the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _settle(path: Path) -> None:
    """Wait until the file is on the disk (or the entries of a folder, if the system supports that)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _into_array(out: Any, shape: tuple[int, int]) -> Write:
    if getattr(out, "shape", None) != shape:
        raise ValueError(f"out has shape {getattr(out, 'shape', None)}; the embedding has {shape}.")

    def write(block: slice, rows: Array) -> None:
        out[block] = rows

    return write


@contextmanager
def _npy(path: Path, shape: tuple[int, int], dtype: Any, names: list[str]) -> Iterator[Write]:
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

        def write(block: slice, rows: Array) -> None:
            file.write(np.ascontiguousarray(rows, dtype=dtype).data)

        yield write


@contextmanager
def _parquet(path: Path, shape: tuple[int, int], dtype: Any, names: list[str]) -> Iterator[Write]:
    arrow, parquet = extra("pyarrow", "io"), extra("pyarrow.parquet", "io")
    schema = arrow.schema([(name, arrow.from_numpy_dtype(np.dtype(dtype))) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:

        def write(block: slice, rows: Array) -> None:
            columns = [np.ascontiguousarray(column, dtype=dtype) for column in rows.T]
            writer.write_table(arrow.Table.from_arrays([arrow.array(column) for column in columns], schema=schema))

        yield write


@contextmanager
def _zarr(path: Path, shape: tuple[int, int], dtype: Any, names: list[str]) -> Iterator[Write]:
    chunks = (min(shape[0], max(1, (1 << 20) // shape[1])), shape[1])
    store = extra("zarr", "io").open(str(path), mode="w", shape=shape, dtype=np.dtype(dtype), chunks=chunks)

    def write(block: slice, rows: Array) -> None:
        store[block] = rows

    yield write


# -- parts written by several processes -----------------------------------------------------


def new_zarr(path: Path, shape: tuple[int, int], dtype: Any, chunks: tuple[int, int]) -> None:
    """Create an empty Zarr array, into which :func:`into_zarr` puts parts."""
    extra("zarr", "io").open(str(path), mode="w", shape=shape, dtype=np.dtype(dtype), chunks=chunks)


def into_zarr(path: str, start: int, rows: Array) -> int:
    """Write rows from row ``start`` on into an existing array; return their number. To write twice does no harm."""
    store = extra("zarr", "io").open(path, mode="r+")
    store[start : start + len(rows)] = rows
    return len(rows)


def parquet_part(path: str, names: list[str], rows: Array) -> int:
    """Write rows as one Parquet file, which appears only when it is complete; return their number."""
    beside = f"{path}.{secrets.token_hex(4)}.part"
    with _parquet(Path(beside), (len(rows), len(names)), rows.dtype, names) as write:
        write(slice(0, len(rows)), rows)
    os.replace(beside, path)
    return len(rows)


# -- tables --------------------------------------------------------------------------------


@contextmanager
def table(out: str | Path, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    """Yield a function that adds rows to a table: values of the columns carried along, and numbers.

    Parameters
    ----------
    out : path ending in .csv, .tsv, .parquet, .npy, .zarr or .h5ad; "-" is CSV on standard output
        .npy and .zarr hold the numbers alone. A file appears when it is complete.
    carried : dict
        Names of the columns carried along, with their Arrow or NumPy type, or None for text.
    names : list of str
        Names of the columns of numbers.
    """
    if str(out) == "-":
        with _text(sys.stdout, ",", carried, names) as add:
            yield add
        sys.stdout.flush()
        return
    path = Path(out)
    if path.suffix not in TABLE_SUFFIXES:
        raise ValueError(
            f"{path.name} must end in one of {', '.join(TABLE_SUFFIXES)}, or be - (CSV on standard output)."
        )
    if twice := set(carried) & set(names):
        raise ValueError(
            f"{path.name} would have two columns called {sorted(twice)[0]!r}. Rename the one of the table."
        )
    kinds: dict[str, Any] = {".parquet": _arrow_table, ".npy": _npy_table, ".zarr": _zarr_table, ".h5ad": _write_h5ad}
    with replacing(path) as beside, kinds.get(path.suffix, _text_file)(beside, carried, names) as add:
        yield add


@contextmanager
def _text_file(path: Path, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    separator = "\t" if ".tsv" in path.suffixes else ","
    with open(path, "w", encoding="utf-8", newline="") as file, _text(file, separator, carried, names) as add:
        yield add


@contextmanager
def _text(file: Any, separator: str, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow([*carried, *names])

    def add(others: list[Sequence[Any]], rows: Array) -> None:
        columns = [column.tolist() for column in rows.T]
        if not np.isfinite(rows).all():
            columns = [[None if value != value else value for value in column] for column in columns]
        writer.writerows(zip(*others, *columns))

    yield add


@contextmanager
def _arrow_table(path: Path, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    arrow, parquet = extra("pyarrow", "io"), extra("pyarrow.parquet", "io")
    fields = [(name, _arrow_type(arrow, kind)) for name, kind in carried.items()]
    schema = arrow.schema([*fields, *((name, arrow.float64()) for name in names)])
    with parquet.ParquetWriter(path, schema) as writer:

        def add(others: list[Sequence[Any]], rows: Array) -> None:
            arrays = [arrow.array(values, type=kind) for values, (_, kind) in zip(others, fields)]
            arrays += [arrow.array(np.ascontiguousarray(column)) for column in rows.T]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))

        yield add


def _arrow_type(arrow: Any, kind: Any) -> Any:
    if kind is None:
        return arrow.string()
    return arrow.from_numpy_dtype(kind) if isinstance(kind, np.dtype) else kind


@contextmanager
def _npy_table(path: Path, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    """Yield a function that adds rows to a .npy file; the header gets the number of rows at the end."""
    count = 0

    def header() -> int:
        told = {"descr": "<f8", "fortran_order": False, "shape": (count, len(names))}
        np.lib.format.write_array_header_1_0(file, told)  # pads the header, so that the number of rows can grow
        return file.tell()

    with open(path, "wb") as file:
        size = header()

        def add(others: list[Sequence[Any]], rows: Array) -> None:
            nonlocal count
            file.write(np.ascontiguousarray(rows, dtype="<f8").data)
            count += len(rows)

        yield add
        file.seek(0)
        if header() != size:
            raise AssertionError("the header of an npy file has room for the number of rows")


@contextmanager
def _zarr_table(path: Path, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    chunks = (max(1, (1 << 18) // len(names)), len(names))
    store = extra("zarr", "io").open(
        str(path), mode="w", shape=(0, len(names)), dtype=np.dtype(float), chunks=chunks, fill_value=0.0
    )

    def write(rows: Array) -> None:
        start = store.shape[0]
        store.resize((start + len(rows), len(names)))
        store[start:] = rows

    with ThreadPoolExecutor(1) as pool:  # an interrupt waits for a write that Zarr has begun: it would go on otherwise

        def add(others: list[Sequence[Any]], rows: Array) -> None:
            pool.submit(write, rows).result()

        yield add


@contextmanager
def _write_h5ad(path: Path, carried: dict[str, Any], names: list[str]) -> Iterator[Add]:
    """Yield a function that collects rows; AnnData writes a file in one call, so it is written at the end."""
    from . import h5ad

    others: list[list[Any]] = [[] for _ in carried]
    blocks: list[Array] = [np.empty((0, len(names)))]

    def add(more: list[Sequence[Any]], rows: Array) -> None:
        blocks.append(np.array(rows, dtype=float))
        for column, values in zip(others, more):
            column.extend(values)

    yield add
    h5ad.write(path, dict(zip(carried, others)), np.concatenate(blocks), names)
