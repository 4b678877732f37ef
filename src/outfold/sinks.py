"""Where an embedding goes, block by block: an array of the caller's, or a file that appears whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sources import extra

Array = NDArray[Any]
Write = Callable[[slice, Array], None]

SUFFIXES = (".npy", ".parquet", ".zarr")
STALE_SECONDS = 24 * 3600.0  # without a write: whoever wrote it is gone
_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]  # process ids are those of one machine


@contextmanager
def opened(out: Any, shape: tuple[int, int], dtype: Any, names: list[str]) -> Iterator[Write]:
    """A function that takes blocks of rows in order; what it wrote is in place when the block ends without error."""
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
    """A path beside the target that takes its place at the end, or is removed: the target is the old one or the new.

    What writers that were killed left beside the same target is removed first.
    """
    beside = path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.part")
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
    """Remove what is left of writers to this path that are gone: dead on this machine, or still for a day."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{8}\.part")
    for name in os.listdir(path.parent):
        found = pattern.fullmatch(name)
        if not found:
            continue
        left = path.with_name(name)
        try:
            still = time.time() - left.lstat().st_mtime > STALE_SECONDS
        except FileNotFoundError:  # its writer has just finished
            continue
        if still or (found[1] == _HOST and not _alive(int(found[2]))):
            _remove(left)


def _alive(process: int) -> bool:
    if os.name == "nt":  # where signal 0 would end the process
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
    """Wait until the disk has it (a folder's entries where the system offers that)."""
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
