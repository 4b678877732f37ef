"""Forged and damaged files of every method: refused with a sentence, or a model with finite answers or our errors."""

import json
import os
import subprocess
import sys

import pytest

from fuzz.files import NAMES

RUN = """
import sys
import fuzz.files as files
from outfold.storage import schema
{fault}
files.main(*sys.argv[1:])
"""


def found(seed, count, *names, fault=""):
    """Counts of outcomes, and the faults; run apart, as a fault may end the process."""
    call = [sys.executable, "-W", "ignore", "-c", RUN.format(fault=fault), str(seed), str(count), *names]
    path = os.pathsep.join(filter(None, sys.path))
    run = subprocess.run(call, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    if run.returncode:
        tried = [line for line in run.stderr.splitlines() if ", " in line]
        return {}, [f"the process ended ({run.returncode}): {tried[-1:]} {run.stderr[-1500:]}"]
    return json.loads(run.stdout)


def test_no_forged_file_gives_an_error_of_others_or_a_number_that_is_not_finite():
    counts, faults = found(0, 3)
    assert faults == []
    assert sum(counts.values()) == 3 * len(NAMES)
    assert counts["refused"] > counts["answers"] > len(NAMES) / 2  # files of both kinds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_thousands_of_forged_files(seed):
    counts, faults = found(seed, 60)
    assert faults == []
    assert sum(counts.values()) == 60 * len(NAMES)


@pytest.mark.parametrize(
    "check",
    ["check_weights", *(pytest.param(name, marks=pytest.mark.slow) for name in ("check_numbers", "check_shape"))],
)
def test_the_fuzzer_sees_a_check_that_is_taken_out(check):
    fault = f"schema.{check} = lambda *values, **how: None"
    names = ("diffusion-maps gaussian", "kernel-pca rbf", "isomap landmarks", "roseland")
    _, faults = found(1, 60, *names, fault=fault)
    assert faults
