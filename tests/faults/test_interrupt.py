"""Ctrl-C: a fit ends soon, wherever it is, and leaves no thread behind that keeps the process from ending."""

import signal
import subprocess
import sys
import time

import pytest

FIT = """
import numpy as np
from outfold import {method}
X = np.random.default_rng(0).normal(size={shape})
print("begin", flush=True)
{method}().fit(X)
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 5])
@pytest.mark.parametrize(
    ("method", "shape"),
    [("DiffusionMaps", (100_000, 20)), ("KernelPCA", (6000, 20)), ("ClassicalMDS", (8000, 20)), ("Isomap", (8000, 20))],
)
def test_a_long_fit_ends_when_it_is_interrupted(method, shape, seconds):
    code = FIT.format(method=method, shape=shape)
    fit = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert fit.stdout.readline() == "begin\n"
        time.sleep(seconds)
        if fit.poll() is not None:
            pytest.skip("the fit was done before the interrupt")
        fit.send_signal(signal.SIGINT)
        output, errors = fit.communicate(timeout=10)
    finally:
        fit.kill()
    if "done" in output:
        pytest.skip("the fit was done before the interrupt")
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert fit.returncode == -signal.SIGINT
