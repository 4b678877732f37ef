"""The benchmarks against the peers: what they measure is right, and every figure of a page comes from a line."""

import importlib.util
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import cluster, manifold
from sklearn.metrics.pairwise import rbf_kernel

from catalogue import ROOT

FOLDER = ROOT / "benchmarks" / "peers"
PARTS = ("contenders", "environments", "suites", "tables", "runner")


@pytest.fixture(scope="module")
def peers():
    """The modules of the runner, which find each other by name."""
    made = SimpleNamespace()
    for name in PARTS:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        setattr(made, name, sys.modules[name])
        spec.loader.exec_module(sys.modules[name])
    yield made
    for name in PARTS:
        del sys.modules[name]


def marked(page, mark):
    return (ROOT / page).read_text().split(f"<!-- {mark} -->\n")[1].split(f"\n<!-- end {mark} -->")[0]


def test_every_figure_of_the_pages_comes_from_the_lines(peers):
    found = peers.tables.pages(peers.tables.read())
    assert len(found) >= 10
    for (page, mark), text in found.items():
        assert marked(page, mark) == text, f"{mark} in {page} is not what `python benchmarks/peers --pages` writes"


def test_every_row_of_every_suite_was_measured_in_full(peers):
    lines = peers.tables.read()
    measured = {(line["suite"], line["row"], line["contender"]) for line in lines}
    for suite, rows in peers.suites.SUITES.items():
        for row in rows:
            missing = {name for name in row.contenders if (suite, row.title, name) not in measured}
            if suite == "scaling":
                grown = [line for line in lines if line["suite"] == suite]
                missing -= {line["contender"] for line in grown if peers.runner.too_slow(line, peers.runner.LIMIT)}
            assert not missing, f"{suite}, {row.title}"
    for line in lines:
        assert {"date", "commit", "machine", "n", "features"} <= set(line)
        assert ("seconds" in line) == ("versions" in line)


def test_where_a_peer_is_ahead_the_page_says_why(peers):
    lines = peers.tables.read()
    behind = list(peers.tables.behind(lines))
    rows = marked("docs/benchmarks.md", "behind").splitlines()[2:]
    assert len(rows) == len(behind)
    for row in rows:
        assert len(row.split("|")[-2].strip()) > 20, f"no reason given: {row}"


def test_what_the_table_says_of_scikit_learn_is_so():
    for name in ("SpectralEmbedding", "MDS"):
        assert not hasattr(getattr(manifold, name), "transform")
    assert not hasattr(cluster.SpectralClustering, "predict")
    assert hasattr(manifold.Isomap, "transform")
    assert hasattr(manifold.LocallyLinearEmbedding, "transform")
    assert not hasattr(manifold.Isomap, "inverse_transform")


@pytest.mark.parametrize("data", ["S-curve", "circle", "uneven circle", "sphere", "flat torus"])
def test_true_functions_have_no_error_and_noise_has_nearly_all(peers, data):
    sample = peers.suites.DATA[data](1500, 0)
    truth = {"embedding": sample.truth["functions"], "values": sample.truth["values"]}
    assert peers.suites.eigenfunctions(sample, truth) < 1e-20
    assert peers.suites.eigenvalues(sample, truth) == 0
    noise = {"embedding": np.random.default_rng(0).normal(size=(1500, 10)), "values": 2 * truth["values"] ** 2}
    assert 0.95 < peers.suites.eigenfunctions(sample, noise) <= 1
    assert peers.suites.eigenvalues(sample, noise) > 0.1
    spectrum = sample.truth["functions"].T @ sample.truth["functions"] / 1500
    off = spectrum - np.diag(np.diag(spectrum))
    assert np.abs(off).max() < (0.5 if data == "uneven circle" else 0.1)  # orthogonal, as eigenfunctions are


def test_residuals_of_exact_pairs_vanish(peers):
    sample = peers.suites.DATA["S-curve"](200, 0)
    K = rbf_kernel(sample.rows, gamma=1.0)
    H = np.eye(200) - 1 / 200
    values, vectors = np.linalg.eigh(H @ K @ H)
    exact = {"embedding": vectors[:, -5:] * np.sqrt(values[-5:])}
    residual = peers.suites.residual(rbf_kernel)
    assert peers.suites.residual(lambda X: rbf_kernel(X, gamma=1.0))(sample, exact) < 1e-12
    assert residual(sample, exact) > 1e-3  # another gamma


def test_a_line_is_written_for_what_ran_what_failed_and_what_was_stopped(peers, tmp_path, monkeypatch):
    row = peers.suites.Row("tiny", "S-curve", 300, ("outfold DiffusionMaps",), peers.suites.eigenfunctions, 50)
    out = io.StringIO()
    work = peers.runner.Measuring(out, tmp_path, 120)
    work.row("fit", row, 1)
    line = json.loads(out.getvalue())
    assert line["seconds"] > 0
    assert line["peak_mb"] > line["work_mb"] >= 0
    assert 0 <= line["error"] < 0.2
    assert line["versions"]["outfold"]
    assert line["commit"]
    assert line["n"] == 300
    assert line["new"] == 50
    failed = work.child("outfold", {"contender": "no such one", "rows": "nowhere.npy"})
    assert "KeyError" in failed["failed"]
    work.limit = 1e-3
    work.row("fit", row, 1)
    assert json.loads(out.getvalue().splitlines()[-1])["stopped"] == 1e-3


def test_fresh_lines_take_the_place_of_older_ones(peers, tmp_path):
    def line(row, seconds):
        return json.dumps({"suite": "fit", "row": row, "contender": "outfold LLE", "seconds": seconds})

    old, new = tmp_path / "a.jsonl", tmp_path / "a.new"
    old.write_text("\n".join([line("one", 1), line("two", 2)]) + "\n")
    new.write_text(line("one", 3) + "\n")
    peers.tables.keep(old, new)
    assert [(line["row"], line["seconds"]) for line in peers.tables.read(old)] == [("two", 2), ("one", 3)]
    assert not new.exists()


def test_an_environment_is_made_once_with_what_the_library_needs(peers, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setenv("OUTFOLD_BENCHMARKS", str(tmp_path))
    monkeypatch.setattr(peers.environments.venv, "create", lambda place, **how: place.mkdir(parents=True))
    monkeypatch.setattr(peers.environments.subprocess, "run", lambda words, **how: asked.append(words))
    first, second = peers.environments.python("datafold"), peers.environments.python("datafold")
    assert first == second == str(tmp_path / "datafold" / "bin" / "python")
    assert len(asked) == 1
    assert asked[0][-1] == "datafold"
    assert peers.environments.python("outfold") == sys.executable
