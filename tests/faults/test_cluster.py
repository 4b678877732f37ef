"""A cluster of processes whose workers and scheduler are killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from contextlib import suppress

import dask
import dask.array as da
import numpy as np
import pytest

from outfold import Roseland
from outfold.datasets import s_curve
from outfold.distributed import cluster
from outfold.exceptions import ClusterError

X = s_curve(60_000, random_state=0)[0]
STEP = 10_000
METHOD = {"n_components": 3, "landmarks": 400, "n_neighbors": 16, "random_state": 0}
STAGES = {"drawing landmarks": 1, "first pass": 2, "second pass": 3, "transform": 4}  # which time rows are read


@pytest.fixture(scope="module")
def expected():
    return Roseland(**METHOD).fit(X)


@pytest.fixture(scope="module")
def client():
    with cluster("local", workers=2, memory="2GB") as found:
        yield found


def deadly(folder, stage, *, always=False, victim=None):
    """Rows whose third part, the so many-th time it is read (and always after), takes a process down."""

    def read(block, block_info=None):
        if block_info[0]["array-location"][0][0] == 2 * STEP:
            with open(pathlib.Path(folder) / "reads", "ab") as file:
                file.write(b".")
                count = file.tell()
            if count == stage or (always and count > stage):
                os.kill(victim or os.getpid(), signal.SIGKILL)
        return block

    return da.from_array(X, chunks=(STEP, 3)).map_blocks(read, dtype=float, meta=np.empty((0, 3)))


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_that_is_killed_changes_nothing(client, expected, tmp_path, stage):
    rows = deadly(tmp_path, STAGES[stage])
    fitted = Roseland(**METHOD).fit(rows)
    found = fitted.transform(rows).compute()
    assert (tmp_path / "reads").stat().st_size >= 5  # once more than without a loss
    assert np.abs(found - expected.transform(X, on_far="keep")).max() < 1e-10


FOUR_DEATHS = {
    # The scheduler blames every task that a worker held when it died. A task that only waited there is blamed with the
    # one that killed it, so few tasks wait on a worker, and one is given up after it was there at four deaths.
    "distributed.scheduler.allowed-failures": 3,
    "distributed.scheduler.worker-saturation": 1.0,
}


def test_rows_that_take_every_worker_down_are_named(tmp_path):
    before = dict(os.environ)
    with (
        dask.config.set(FOUR_DEATHS),
        cluster("local", workers=2),
        pytest.raises(ClusterError, match=r"4 workers, .* died in the first pass over rows 20000 to 29999"),
    ):
        Roseland(**METHOD).fit(deadly(tmp_path, STAGES["first pass"], always=True))
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == {**before, "PYTEST_CURRENT_TEST": ""}


class Elsewhere:
    """A scheduler and a worker of their own, as they would run on other machines."""

    def __init__(self, folder):
        file = str(folder / f"scheduler-{time.monotonic_ns()}.json")
        words = ["--scheduler-file", file, "--host", "127.0.0.1", "--no-dashboard"]
        run = [sys.executable, "-m"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.scheduler = subprocess.Popen([*run, "distributed.cli.dask_scheduler", *words, "--port", "0"], **quiet)
        worker = [*run, "distributed.cli.dask_worker", *words, "--nthreads", "1", "--nworkers", "1", "--no-nanny"]
        self.worker = subprocess.Popen([*worker, "--death-timeout", "20"], **quiet)
        self.address = self._address(pathlib.Path(file))

    @staticmethod
    def _address(file):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError, ValueError):
                return json.loads(file.read_text())["address"]
            time.sleep(0.05)
        raise AssertionError("the scheduler did not start")

    def close(self):
        for process in (self.worker, self.scheduler):
            process.kill()
            process.wait()


def test_a_lost_scheduler_leaves_a_checkpoint_to_go_on_from(expected, tmp_path):
    method = Roseland(**METHOD, checkpoint=tmp_path / "kept")
    first = Elsewhere(tmp_path)
    try:
        stage = STAGES["second pass"] + 1  # the fingerprint is read first
        with cluster(first.address), pytest.raises(ClusterError, match="scheduler was lost in the second pass"):
            method.fit(deadly(tmp_path, stage, victim=first.scheduler.pid))
    finally:
        first.close()
    assert {path.stem for path in (tmp_path / "kept").iterdir()} >= {"fit", "first-pass"}
    (tmp_path / "reads").unlink()
    second = Elsewhere(tmp_path)
    try:
        with cluster(second.address):
            fitted = method.fit(deadly(tmp_path, 99))
    finally:
        second.close()
    # fingerprint, landmarks, second pass, sample of rows: the first pass is not repeated
    assert (tmp_path / "reads").stat().st_size == 4
    assert np.abs(fitted.transform(X, on_far="keep") - expected.transform(X, on_far="keep")).max() < 1e-10
