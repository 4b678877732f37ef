"""Seeds of the fuzzers, and what an error of ours is.

A case is drawn by ``random.Random`` from the name of its fuzzer, a seed and a number. ``OUTFOLD_FUZZ_SEED`` names other
seeds (``7`` or ``7,8,9``), or one case (``7:123``), as the message of a failure says.
"""

import contextlib
import linecache
import os
import random
import traceback
from collections import Counter

import pytest

import outfold
from outfold.exceptions import ConvergenceError

PACKAGE = os.path.dirname(outfold.__file__) + os.sep
REFUSALS = (ValueError, TypeError, OSError, MemoryError, ImportError, ConvergenceError)
SEEDS = os.environ.get("OUTFOLD_FUZZ_SEED", "0").split(",")

each_seed = pytest.mark.parametrize("seed", SEEDS)


def run(check, seed, count, *subject):
    """Call ``check(*subject, rng)`` for ``count`` cases; return the outcomes. A failure names its case."""
    seed, _, only = seed.partition(":")
    seen = Counter()
    for case in [int(only)] if only else range(count):
        try:
            rng = random.Random(f"{check.__module__.rpartition('.')[2]}.{check.__name__} {seed}:{case}")
            seen[check(*subject, rng)] += 1
        except BaseException as error:
            error.add_note(f"{check.__name__}: OUTFOLD_FUZZ_SEED={seed}:{case} repeats this case alone.")
            raise
    return seen


def is_whole(seed):
    """Whether all cases of a seed are run, and not one of them."""
    return ":" not in seed


class Planted(Exception):
    """An error of the caller's own code, which must come back as it is."""


def is_ours(error):
    """Whether our code raises an error on purpose: it comes from a ``raise`` of the package, and is of a usual kind."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = frame.filename.startswith(PACKAGE)
    # the interpreter and NumPy raise in our frames too, on lines without `raise`
    meant = ours and linecache.getline(frame.filename, frame.lineno).lstrip().startswith("raise")
    return isinstance(error, REFUSALS) and meant and len(str(error)) > 10


def refusal(error):
    """Return the words of an error that our code raises on purpose; raise it again if it is any other."""
    if not is_ours(error):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise AssertionError(
            f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno}: {frame.line})"
        ) from error
    return str(error)


@contextlib.contextmanager
def refused(words=()):
    """Expect an error of ours that holds all ``words``."""
    try:
        yield
    except Exception as error:
        told = refusal(error)
        missing = [word for word in words if word not in told]
        assert not missing, f"{missing} are not in: {told}"
    else:
        raise AssertionError(f"This was taken, and should be refused with {words}.")
