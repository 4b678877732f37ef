"""A process that is ended when it takes too long or too much memory, with what it had said by then."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

STEP = 0.2  # seconds between two looks at the process


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    over: str  # "time" or "memory" if it was ended for that, else ""


def end_with_children():
    """Let a request to end this process act as an exception does, so that the process it watches ends as well."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def machine_mb():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6


def resident_mb(session):
    """Memory of all processes of a session, where the system tells (Linux), else 0."""
    pages = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            facts = path.read_text().rpartition(")")[2].split()  # the name before it may hold anything
        except OSError:  # it has ended meanwhile
            continue
        if int(facts[3]) == session:
            pages += int(facts[21])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run(command, text, seconds, megabytes, env=None):
    """Run a command with the text as its input; end it and what it started beyond the seconds or the megabytes."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(text)
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, env=env, start_new_session=True)
        try:
            over = watch(process, time.monotonic() + seconds, megabytes)
        finally:
            end(process)
        out.seek(0), err.seek(0)
        return Ended(process.returncode, out.read(), err.read(), over)


def watch(process, until, megabytes):
    """Wait for the end of a process; say what it had too much of."""
    while process.poll() is None:
        if time.monotonic() > until:
            return "time"
        if resident_mb(process.pid) > megabytes:
            return "memory"
        time.sleep(STEP)
    return ""


def end(process):
    """End a process and all of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
