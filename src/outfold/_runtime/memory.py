"""Free memory, and the check that refuses a large allocation in advance.

What is free is the least of three amounts: what the machine has left, what the limits of the container leave (control
groups, version 1 and 2), and what ``ulimit -v`` and ``ulimit -d`` leave. A file that is missing or unreadable
sets no limit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import numpy as np

ROOT = Path("/")  # the folder that holds /proc and /sys
UNLIMITED = 1 << 60  # bytes: control groups write such a number, or "max", where there is no limit
NONE = float("inf")


def free_memory() -> float:
    """Return the bytes that this process can still allocate without swapping; infinity if nothing limits them."""
    return max(0.0, min(_of_machine(), _of_container(), _of_process()))


def check_fits(needed: float, what: str, instead: str) -> None:
    """Raise MemoryError if ``needed`` bytes are not free; the message begins with ``what``, ends with ``instead``."""
    free = free_memory()
    if needed > free:
        raise MemoryError(f"{what} about {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free. {instead}")


@contextmanager
def explain_memory(what: str, instead: str) -> Iterator[None]:
    """Raise NumPy's MemoryError inside with the bytes, what is free, and what to do; ``what`` begins the message."""
    try:
        yield
    except MemoryError as error:
        shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
        if shape is None or dtype is None:  # ours, or Python's, which says nothing
            if str(error):
                raise
            raise MemoryError(f"{what} ran out of memory; {free_memory() / 1e9:.3g} GB are free. {instead}") from error
        needed = float(np.prod([float(length) for length in shape])) * dtype.itemsize
        raise MemoryError(
            f"{what} needed an array of shape {tuple(shape)}, about {needed / 1e9:.3g} GB, and "
            f"{free_memory() / 1e9:.3g} GB are free. {instead}"
        ) from error


def _of_machine() -> float:
    """Return the bytes available on this machine; on macOS, which counts otherwise, all that it has."""
    if sys.platform == "win32":
        return _of_windows()
    if (available := _table("proc/meminfo").get("MemAvailable")) is not None:
        return available
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return NONE


def _of_windows() -> float:
    import ctypes

    amounts = ("physical", "free", "paged", "unpaged", "virtual", "room", "more")

    class Status(ctypes.Structure):  # MEMORYSTATUSEX
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in amounts),
        )

    status = Status(length=ctypes.sizeof(Status))
    try:
        told = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return NONE
    return float(min(status.free, status.paged)) if told else NONE


def _of_process() -> float:
    """Return what is left of the process's limits on its address space and its data segment."""
    try:
        import resource
    except ImportError:  # Windows
        return NONE
    used = _table("proc/self/status")
    left = [NONE]
    for name, field in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
        try:
            limit = resource.getrlimit(getattr(resource, name))[0]
        except (AttributeError, OSError, ValueError):
            continue
        if limit not in (resource.RLIM_INFINITY, -1):
            left.append(limit - used.get(field, 0.0))
    return min(left)


def _of_container() -> float:
    """Return what is left of the least limit of the process's control groups, from its own up to the mounted root."""
    left = [NONE]
    for folder, second in _control_groups():
        stat = _table(folder / "memory.stat")
        if second:
            limits = [_number(folder / "memory.max"), _number(folder / "memory.high")]
            used, cache = _number(folder / "memory.current"), stat.get("inactive_file", 0.0)
        else:  # a limit further up may hold although its folder is not mounted here
            limits = [_number(folder / "memory.limit_in_bytes"), stat.get("hierarchical_memory_limit")]
            used, cache = _number(folder / "memory.usage_in_bytes"), stat.get("total_inactive_file", 0.0)
        least = min((limit for limit in limits if limit is not None), default=NONE)
        if least < UNLIMITED:
            held = 0.0 if used is None else max(0.0, used - cache)  # the kernel drops cached files when it must
            left.append(least - held)
    return min(left)


def _control_groups() -> Iterator[tuple[Path, bool]]:
    """Yield the folders of the control groups that limit this process's memory, and whether each is of version 2."""
    own: dict[bool, PurePosixPath] = {}
    for line in _lines("proc/self/cgroup"):  # "4:memory:/a/b", or of version 2 "0::/a/b"
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            own[True] = PurePosixPath(path)
        elif "memory" in controllers.split(","):
            own[False] = PurePosixPath(path)
    for line in _lines("proc/self/mountinfo"):
        told, _, kind = line.partition(" - ")
        fields, kinds = told.split(), kind.split()
        if len(fields) < 5 or not kinds or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        second = kinds[0] == "cgroup2"
        if second not in own or not (second or "memory" in kinds[-1].split(",")):
            continue
        top = ROOT / fields[4].replace("\\040", " ").lstrip("/")
        inner = PurePosixPath()  # a path that is not below the mounted folder is one of another namespace
        if own[second].is_relative_to(fields[3]) and ".." not in own[second].parts:
            inner = own[second].relative_to(fields[3])
        yield from ((top / part, second) for part in (inner, *inner.parents))


def _lines(path: str | Path) -> list[str]:
    try:
        return (ROOT / path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> float | None:
    """Return the number in a file; None if there is none, as in "max"."""
    return next((float(line) for line in _lines(path) if line.strip().isdecimal()), None)


def _table(path: str | Path) -> dict[str, float]:
    """Return the lines "name number" or "name: number kB" of a file, in bytes."""
    found = {}
    for line in _lines(path):
        name, *rest = line.split()[:3] or [""]
        if rest and rest[0].isdecimal():
            found[name.rstrip(":")] = float(rest[0]) * (1024.0 if rest[1:] == ["kB"] else 1.0)
    return found
