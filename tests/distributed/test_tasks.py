"""A cluster of processes: the fit is the fit here, and it listens to this machine alone."""

import ast
import pathlib

import dask
import dask.array as da
import numpy as np
import pandas as pd
import psutil
import pytest
from click.testing import CliRunner

from catalogue import ROOT
from outfold import Roseland, load
from outfold.app.cli.main import main
from outfold.datasets import s_curve
from outfold.distributed import cluster
from outfold.exceptions import ClusterError

X = s_curve(60_000, random_state=0)[0]
STEP = 10_000
METHOD = {"n_components": 3, "landmarks": 400, "n_neighbors": 16, "random_state": 0}


@pytest.fixture(scope="module")
def expected():
    return Roseland(**METHOD).fit(X)


@pytest.fixture(scope="module")
def client():
    with cluster("local", workers=2, memory="2GB") as found:
        yield found


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


def test_clusters_are_made_in_one_place_for_this_machine_alone():
    made = []
    for path in [
        p for folder in ("src", "tests", "benchmarks", "examples", "docs") for p in ROOT.glob(f"{folder}/**/*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("LocalCluster", "SpecCluster"):
                made.append((path.name, {word.arg: ast.unparse(word.value) for word in node.keywords}))
    assert [name for name, _ in made] == ["tasks.py"]
    assert made[0][1]["host"] == "'127.0.0.1'"
    assert made[0][1]["dashboard_address"] == "'127.0.0.1:0'"


def test_no_scheduler_is_told(monkeypatch):
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterError, match="No scheduler"),
        cluster("tcp://127.0.0.1:9"),
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
