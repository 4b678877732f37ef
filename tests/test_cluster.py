"""A cluster of processes: its workers and its scheduler may be lost, and it listens to this machine alone."""

import ast
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
import pandas as pd
import psutil
import pytest
from click.testing import CliRunner

from outfold import Roseland, load, scale
from outfold.app.command import main
from outfold.datasets import s_curve
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
    with scale.cluster("local", workers=2, memory="2GB") as found:
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


def test_a_fit_on_workers_is_the_fit_here(client, expected):
    fitted = Roseland(**METHOD).fit(da.from_array(X, chunks=(STEP, 3)))
    assert np.abs(fitted.eigenvalues_ - expected.eigenvalues_).max() < 1e-10
    assert np.abs(fitted.transform(X, on_far="keep") - expected.transform(X, on_far="keep")).max() < 1e-10
    assert fitted.model_.reference.lowest == pytest.approx(expected.model_.reference.lowest, rel=1e-12)


def test_what_is_wrong_with_rows_is_told_as_ever(client):
    with pytest.raises(ValueError, match="first is row 12345"):
        Roseland(**METHOD).fit(da.where((da.arange(len(X), chunks=STEP) == 12345)[:, None], np.nan, X))


def test_everything_listens_to_this_machine_alone(client):
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    heard = [
        connection.laddr.ip
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(heard) >= 3  # the scheduler and two workers
    assert set(heard) == {"127.0.0.1"}
    info = client.scheduler_info()
    assert all(name.startswith("tcp://127.0.0.1:") for name in (info["address"], *info["workers"]))
    assert all(worker["nthreads"] == 1 for worker in info["workers"].values())


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_that_is_killed_changes_nothing(client, expected, tmp_path, stage):
    rows = deadly(tmp_path, STAGES[stage])
    fitted = Roseland(**METHOD).fit(rows)
    found = fitted.transform(rows).compute()
    assert (tmp_path / "reads").stat().st_size >= 5  # once more than without a loss
    assert np.abs(found - expected.transform(X, on_far="keep")).max() < 1e-10


def test_clusters_are_made_in_one_place_for_this_machine_alone():
    root = pathlib.Path(__file__).parents[1]
    made = []
    for path in [
        p for folder in ("src", "tests", "benchmarks", "examples", "docs") for p in root.glob(f"{folder}/**/*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("LocalCluster", "SpecCluster"):
                made.append((path.name, {word.arg: ast.unparse(word.value) for word in node.keywords}))
    assert [name for name, _ in made] == ["scale.py"]
    assert made[0][1]["host"] == "'127.0.0.1'"
    assert made[0][1]["dashboard_address"] == "'127.0.0.1:0'"


def test_rows_that_take_every_worker_down_are_named(tmp_path):
    before = dict(os.environ)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        scale.cluster("local", workers=2),
        pytest.raises(ClusterError, match=r"2 workers, .* died in the first pass over rows 20000 to 29999"),
    ):
        Roseland(**METHOD).fit(deadly(tmp_path, STAGES["first pass"], always=True))
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == {**before, "PYTEST_CURRENT_TEST": ""}


# -- a scheduler that is lost ----------------------------------------------------------------


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
        with scale.cluster(first.address), pytest.raises(ClusterError, match="scheduler was lost in the second pass"):
            method.fit(deadly(tmp_path, stage, victim=first.scheduler.pid))
    finally:
        first.close()
    assert {path.stem for path in (tmp_path / "kept").iterdir()} >= {"fit", "first-pass"}
    (tmp_path / "reads").unlink()
    second = Elsewhere(tmp_path)
    try:
        with scale.cluster(second.address):
            fitted = method.fit(deadly(tmp_path, 99))
    finally:
        second.close()
    assert (tmp_path / "reads").stat().st_size == 3  # fingerprint, landmarks, second pass: the first is not repeated
    assert np.abs(fitted.transform(X, on_far="keep") - expected.transform(X, on_far="keep")).max() < 1e-10


def test_no_scheduler_is_told(monkeypatch):
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterError, match="No scheduler"),
        scale.cluster("tcp://127.0.0.1:9"),
    ):
        pass


# -- the command -----------------------------------------------------------------------------


def test_the_command_fits_a_table_on_a_cluster(client, tmp_path):
    table = pd.DataFrame(X[:5000], columns=list("abc"))
    table.loc[::501, "b"] = np.nan
    table["name"] = [f"row {at}" for at in range(len(table))]
    table.to_parquet(tmp_path / "x.parquet", row_group_size=700)
    words = ["--method", "roseland", "--landmarks", "200", "--id", "name"]
    for model, more in (("here", []), ("there", ["--dask", client.scheduler.address])):
        words_ = ["fit", str(tmp_path / "x.parquet"), *words, "--save", str(tmp_path / f"{model}.outfold"), *more]
        result = CliRunner().invoke(main, words_)
        assert result.exit_code == 0, result.output
    assert "parts on " in result.output
    with pytest.warns(match="columns were scaled"):
        here, there = (load(tmp_path / f"{name}.outfold") for name in ("here", "there"))
    assert np.array_equal(here.landmarks_, there.landmarks_)
    assert np.abs(here.eigenvalues_ - there.eigenvalues_).max() < 1e-12


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.npy", "--dask", "local"], "--dask is for fits that go through rows in parts"),
        (["x.csv", "--dask", "local", "--method", "roseland"], "Write it as Parquet or Zarr"),
        (["x.npy", "--dask", "tcp://127.0.0.1:9", "--method", "roseland"], "No scheduler answers"),
    ],
)
def test_the_command_says_what_a_cluster_is_for(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X[:100])
    np.savetxt("x.csv", X[:100], delimiter=",", header="a,b,c", comments="")
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        result = CliRunner().invoke(main, ["fit", *words, "--save", "m.outfold"])
    assert result.exit_code in (1, 2)
    assert message in result.output.replace("\n", " ")
    assert not pathlib.Path("m.outfold").exists()
