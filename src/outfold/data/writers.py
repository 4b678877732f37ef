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
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
from numpy.typing import DTypeLike

from .._runtime.extras import extra
from .._runtime.typing import Array

Write = Callable[[slice, Array], None]
Add = Callable[[Sequence[Sequence[Any]], Array], None]  # values of the columns carried along, and numbers

SUFFIXES = (".npy", ".parquet", ".zarr")
NUMBERS_ONLY = (".npy", ".zarr")
STALE_SECONDS = 24 * 3600.0  # a partial file without a write for this time has no writer any more
# part of the names of partial files: a process id means something on its own machine only
_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]


class Assignable(Protocol):
    """An array of the caller, to which rows are assigned: of NumPy, Zarr or HDF5."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __setitem__(self, rows: slice, values: Array, /) -> None: ...


@dataclass(frozen=True)
class TableLayout:
    """The columns of a file: those carried along, and numbers of one type."""

    names: Sequence[str]  # of the numbers
    dtype: DTypeLike = "<f8"  # of the numbers
    rows: int | None = None  # None: known when the file is complete
    carried: dict[str, object] = field(default_factory=dict)  # name -> Arrow or NumPy type, or None for text


# -- the two ways in -----------------------------------------------------------------------


@contextmanager
def open_writer(
    out: str | Path | Assignable, shape: tuple[int, int], dtype: DTypeLike, names: Sequence[str]
) -> Iterator[Write]:
    """Yield a function that writes blocks of rows in order; a file is in place once the context ends without error."""
    if not isinstance(out, str | Path):
        if getattr(out, "shape", None) != shape:
            raise ValueError(f"out has shape {getattr(out, 'shape', None)}; the embedding has {shape}.")
        yield out.__setitem__
        if isinstance(out, np.memmap):
            out.flush()
        return
    path = Path(out)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"out={str(out)!r} must end in {', '.join(SUFFIXES)}, or be an array of shape {shape}.")
    with (
        replacing(path, folder=path.suffix == ".zarr") as beside,
        WRITERS[path.suffix](beside, TableLayout(names, dtype, shape[0])) as add,
    ):
        yield lambda block, rows: add((), rows)


@contextmanager
def table(out: str | Path, carried: dict[str, object], names: Sequence[str]) -> Iterator[Add]:
    """Yield a function that adds rows to a table: values of the columns carried along, and numbers.

    Parameters
    ----------
    out : path ending in .csv, .tsv, .parquet, .npy, .zarr or .h5ad; "-" is CSV on standard output
        .npy and .zarr hold the numbers alone. A file appears when it is complete.
    carried : dict
        Names of the columns carried along, with their Arrow or NumPy type, or None for text.
    names : sequence of str
        Names of the columns of numbers.
    """
    layout = TableLayout(names, carried=carried)
    if str(out) == "-":
        yield _text_rows(sys.stdout, ",", layout)
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
    with replacing(path, folder=path.suffix == ".zarr") as beside, WRITERS[path.suffix](beside, layout) as add:
        yield add


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it replaces ``path`` at the end, or is removed after an error.

    So ``path`` is always the old file or the complete new one. A link stays a link: the file it leads to is replaced,
    or made if there is none. A new file has the permissions that the umask leaves, an old one keeps its own. Temporary
    files of killed writers are removed first. ``folder`` says that the writer makes a folder: there is nothing at the
    temporary path then, and else an empty file.
    """
    asked, beside = path, None
    try:
        path = _follow_links(asked)
        old = _permissions(path, folder)
        name = f".{path.name}.{_MACHINE}-{os.getpid()}-{secrets.token_hex(4)}.part"
        _sweep(path)
        beside = path.with_name(name)
        if not folder:  # nobody reads a new version whose old one they could not
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600))
        yield beside
        if old is not None and not folder:
            _give(beside, old)
        _settle(beside)
        if folder:
            _swap_folders(beside, path)
        else:
            os.replace(beside, path)
        _settle(path.parent)
    except OSError as error:
        raise OSError(
            error.errno,
            f"Could not write {asked} ({error.strerror or error}); nothing was put in its place. "
            f"{_advice(error.errno)}",
        ) from error
    finally:
        if beside is not None:
            _remove(beside)


def _follow_links(path: Path) -> Path:
    """Return the path at the end of the links that ``path`` goes through; there may be no file yet."""
    if "\0" in str(path):
        raise ValueError(f"{str(path)!r} holds a null character, which no path can. Name another file.")
    if not path.is_symlink():
        return path
    with suppress(FileNotFoundError):
        os.stat(path)  # raises for links in a circle
    return Path(os.path.realpath(path))


def _permissions(path: Path, folder: bool) -> os.stat_result | None:
    """Return what the system says of the old file, or None; refuse to replace anything but a file (or a folder)."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode) and not folder:
        raise IsADirectoryError(errno.EISDIR, "It is a folder")
    if not stat.S_ISDIR(old.st_mode) and folder:
        raise NotADirectoryError(errno.ENOTDIR, "It is a file, and a folder is to be written")
    if not folder and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "It is a device or a pipe")
    return old


def _give(path: Path, old: os.stat_result) -> None:
    """Give a file the owner, where that is allowed, and the mode of an old one."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, stat.S_IMODE(old.st_mode))


def _swap_folders(beside: Path, path: Path) -> None:
    """Put a folder in the place of ``path``. Between the two renames the old one is called ``.old``."""
    old = beside.with_suffix(".old")
    try:
        if path.exists():
            path.rename(old)
        beside.rename(path)
    finally:  # an interrupt may come between the renames
        _settle_swap(old, path)


def _settle_swap(old: Path, path: Path) -> None:
    """Remove the old folder, or move it back if nothing is in its place."""
    if not old.exists():
        return
    if path.exists():
        _remove(old)
    else:
        old.rename(path)


def _advice(number: int | None) -> str:
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Is the folder writable?"
    if number in (errno.EISDIR, errno.EINVAL):
        return "Name a file."
    if number == errno.ELOOP:
        return "Do its links lead in a circle?"
    if number == errno.ENAMETOOLONG:
        return "Names are limited, often to 255 bytes, and the temporary file needs 40 of them."
    if number in (errno.ENOENT, errno.ENOTDIR):
        return "Is there such a folder?"
    return "Is the disk full?"


def _sweep(path: Path) -> None:
    """Remove what dead writers to ``path`` left: no such process on this machine, or no write for a day."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{8}\.(part|old)")
    for name in sorted(os.listdir(path.parent)):  # the old folder before the new one, which replaces it
        found = pattern.fullmatch(name)
        if not found:
            continue
        left = path.with_name(name)
        try:
            still = time.time() - left.lstat().st_mtime > STALE_SECONDS
        except FileNotFoundError:  # its writer has just renamed or removed it
            continue
        if still or (found[1] == _MACHINE and not _alive(int(found[2]))):
            _settle_swap(left, path) if found[3] == "old" else _remove(left)


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


# -- kinds of files ------------------------------------------------------------------------


@contextmanager
def _npy(path: Path, layout: TableLayout) -> Iterator[Add]:
    count = 0

    def header() -> int:
        about = {"descr": np.lib.format.dtype_to_descr(np.dtype(layout.dtype)), "fortran_order": False}
        # the header is padded, so that the number of rows can grow
        np.lib.format.write_array_header_1_0(file, {**about, "shape": (count, len(layout.names))})
        return file.tell()

    with open(path, "wb") as file:
        size = header()

        def add(others: Sequence[Sequence[Any]], rows: Array) -> None:
            nonlocal count
            file.write(np.ascontiguousarray(rows, dtype=layout.dtype).data)
            count += len(rows)

        yield add
        file.seek(0)
        if header() != size:
            raise AssertionError("the header of an npy file has room for the number of rows")


@contextmanager
def _parquet(path: Path, layout: TableLayout) -> Iterator[Add]:
    arrow, parquet = extra("pyarrow", "io"), extra("pyarrow.parquet", "io")
    fields = [(name, arrow.string() if kind is None else kind) for name, kind in layout.carried.items()]
    fields = [(name, arrow.from_numpy_dtype(kind) if isinstance(kind, np.dtype) else kind) for name, kind in fields]
    schema = arrow.schema([*fields, *((name, arrow.from_numpy_dtype(np.dtype(layout.dtype))) for name in layout.names)])
    with parquet.ParquetWriter(path, schema) as writer:

        def add(others: Sequence[Sequence[Any]], rows: Array) -> None:
            arrays = [arrow.array(values, type=kind) for values, (_, kind) in zip(others, fields)]
            arrays += [arrow.array(np.ascontiguousarray(column, dtype=layout.dtype)) for column in rows.T]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))

        yield add


@contextmanager
def _zarr(path: Path, layout: TableLayout) -> Iterator[Add]:
    columns, at = len(layout.names), 0
    if layout.rows is None:
        shape, step = (0, columns), max(1, (1 << 18) // columns)
    else:
        shape, step = (layout.rows, columns), min(layout.rows, max(1, (1 << 20) // columns))
    how = {"shape": shape, "dtype": np.dtype(layout.dtype), "chunks": (step, columns), "fill_value": 0}
    store = extra("zarr", "io").open(str(path), mode="w", **how)

    def write(rows: Array) -> None:
        nonlocal at
        if layout.rows is None:
            store.resize((at + len(rows), columns))
        store[at : at + len(rows)] = rows
        at += len(rows)

    with ThreadPoolExecutor(1) as pool:  # an interrupt waits for a write that Zarr has begun: it would go on otherwise
        yield lambda others, rows: pool.submit(write, rows).result()


@contextmanager
def _text(path: Path, layout: TableLayout) -> Iterator[Add]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        yield _text_rows(file, "\t" if ".tsv" in path.suffixes else ",", layout)


def _text_rows(file: TextIO, separator: str, layout: TableLayout) -> Add:
    """Write the header, and return a function that adds rows."""
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow([*layout.carried, *layout.names])

    def add(others: Sequence[Sequence[Any]], rows: Array) -> None:
        columns = [column.tolist() for column in rows.T]
        if not np.isfinite(rows).all():
            columns = [[None if value != value else value for value in column] for column in columns]
        writer.writerows(zip(*others, *columns))

    return add


@contextmanager
def _h5ad(path: Path, layout: TableLayout) -> Iterator[Add]:
    """Yield a function that collects rows; AnnData writes a file in one call, so it is written at the end."""
    from . import h5ad

    others: list[list[Any]] = [[] for _ in layout.carried]
    blocks: list[Array] = [np.empty((0, len(layout.names)))]

    def add(more: Sequence[Sequence[Any]], rows: Array) -> None:
        blocks.append(np.array(rows, dtype=float))
        for column, values in zip(others, more):
            column.extend(values)

    yield add
    h5ad.write(path, dict(zip(layout.carried, others)), np.concatenate(blocks), list(layout.names))


WRITERS: dict[str, Callable[[Path, TableLayout], AbstractContextManager[Add]]] = {}
WRITERS |= {".csv": _text, ".tsv": _text, ".parquet": _parquet, ".npy": _npy, ".zarr": _zarr, ".h5ad": _h5ad}
TABLE_SUFFIXES = tuple(WRITERS)


# -- parts written by several processes -----------------------------------------------------


def new_zarr(path: Path, shape: tuple[int, int], dtype: DTypeLike, chunks: tuple[int, int]) -> None:
    """Create an empty Zarr array, into which :func:`into_zarr` puts parts."""
    extra("zarr", "io").open(str(path), mode="w", shape=shape, dtype=np.dtype(dtype), chunks=chunks)


def into_zarr(path: str, start: int, rows: Array) -> int:
    """Write rows from row ``start`` on into an existing array; return their number. To write twice does no harm."""
    store = extra("zarr", "io").open(path, mode="r+")
    store[start : start + len(rows)] = rows
    return len(rows)


def parquet_part(path: str, names: Sequence[str], rows: Array) -> int:
    """Write rows as one Parquet file, which appears only when it is complete; return their number."""
    beside = f"{path}.{secrets.token_hex(4)}.part"
    with _parquet(Path(beside), TableLayout(names, rows.dtype)) as add:
        add((), rows)
    os.replace(beside, path)
    return len(rows)
