"""Ctrl-C: work ends soon, wherever it is, without a trace; and commands that are killed or find the disk full."""

import json
import os
import pathlib
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


HERE = pathlib.Path(__file__).parent
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def told_by(script, *words):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / script), *map(str, words)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@posix
@pytest.mark.parametrize(("count", "size"), [(2, 600), pytest.param(50, 6000, marks=pytest.mark.slow)])
def test_an_interrupt_comes_through_at_any_moment_and_changes_no_estimator(count, size):
    """In compiled loops on our threads, in LAPACK, between them: 16 calls, ``count`` moments each."""
    found = told_by("interrupts.py", 0, count, size)
    assert found["faults"] == []
    assert sum(found["told"].values()) == 16 * count
    assert found["told"]["interrupted"] > 3 * count
    assert found["slowest"][0] < 10


@posix
@pytest.mark.parametrize(
    ("how", "count", "commands"),
    [
        ("stop", 2, ["transform", "serve"]),
        pytest.param("stop", 15, [], marks=pytest.mark.slow),
        pytest.param("kill", 10, ["fit", "transform", "transform-zarr", "report"], marks=pytest.mark.slow),
    ],
)
def test_a_command_that_is_ended_at_any_moment_leaves_the_old_files_or_the_new_ones(how, count, commands, tmp_path):
    found = told_by("sweep.py", tmp_path, 0, count, how, *commands)
    assert found["faults"] == []
    assert sum(found["codes"].values()) == count * (len(commands) or 17)


FULL_DISK = """
import json, os, pathlib, subprocess, sys
import numpy as np
import outfold
from click.testing import CliRunner
from outfold.app.cli.main import main
folder = pathlib.Path(sys.argv[1])
rows = np.random.default_rng(0).normal(size=(4000, 3))
np.save(folder / "rows.npy", rows)
outfold.Roseland(2, landmarks=500, random_state=0).fit(rows).save(folder / "model")
disk = folder / "disk"
disk.mkdir()
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "outfold", str(disk)], capture_output=True).returncode:
    print(json.dumps(None))
    sys.exit()
told = {}
try:
    fit = ["fit", folder / "rows.npy", "--method", "roseland", "--landmarks", "500", "--save", disk / "m"]
    transform = ["transform", folder / "model", folder / "rows.npy", "-o"]
    for name in ("o.csv", "o.npy", "o.parquet", "o.zarr", "o.h5ad", "m"):
        if name != "o.zarr":
            (disk / name).write_text("old")
        before = sorted(os.listdir(disk))
        words = fit if name == "m" else [*transform, disk / name]
        answer = CliRunner().invoke(main, [str(word) for word in words])
        kept = name == "o.zarr" or (disk / name).read_text() == "old"
        told[name] = [answer.exit_code, answer.stderr[-300:], kept and sorted(os.listdir(disk)) == before]
finally:
    subprocess.run(["umount", "-l", str(disk)], check=True)
print(json.dumps(told))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.getuid() != 0, reason="mounts a small disk: root only")
def test_a_command_that_fills_the_disk_says_so_and_keeps_the_old_file(tmp_path):
    call = [sys.executable, "-W", "ignore", "-c", FULL_DISK, str(tmp_path)]
    run = subprocess.run(call, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    if told is None:
        pytest.skip("no file system can be mounted here")
    for name, (code, said, kept) in told.items():
        assert code == 1, (name, said)
        assert "nothing was put in its place. Is the disk full?" in said.replace("\n", " "), name
        assert kept, name
