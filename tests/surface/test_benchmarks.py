"""The benchmarks against the peers: what they measure is right, and every figure of a page comes from a line."""

import importlib.util
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import cluster, manifold
from sklearn.metrics.pairwise import rbf_kernel

from catalogue import ROOT

FOLDER = ROOT / "benchmarks" / "peers"
PARTS = ("contenders", "environments", "guard", "real", "suites", "tables", "runner")


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


def test_every_row_of_every_suite_that_was_measured_was_measured_in_full(peers):
    lines = peers.tables.read()
    measured = {(line["suite"], line["row"], line["contender"]) for line in lines}
    for suite in {line["suite"] for line in lines}:
        for row in peers.suites.SUITES[suite]:
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


def test_new_rows_are_not_among_those_that_were_fitted(peers):
    suites, real = peers.suites, peers.real
    for row in suites.SUITES["real"]:
        assert row.data in real.TABLES
        if row.data in ("words", "MNIST", "flights") or real.missing(row.data):
            continue  # large, or not here
        n, new = min(row.n, 1500), min(row.new, 500)
        rows, fresh = suites.DATA[row.data](n, 0).rows, suites.fresh(row.data, new, 0)
        assert rows.shape == (n, fresh.shape[1])
        assert len(fresh) == new
        if row.data not in ("red wine", "cytometry"):  # they have copies
            assert not {one.tobytes() for one in rows} & {one.tobytes() for one in fresh}, row.title


def test_a_table_is_split_without_overlap(peers):
    table = peers.real.split(lambda: np.arange(50)[:, None])
    assert sorted([*table.rows(30).ravel(), *table.new(20).ravel()]) == list(range(50))
    given = {"digits, new rows": 1797, "red wine": 1599, "cytometry": 36_144, "flights": 3_000_000}
    rows = [row for row in peers.suites.SUITES["real"] if row.data in given]
    assert rows
    assert all(row.n + row.new <= given[row.data] for row in rows)


def test_clusters_and_words_are_of_one_distribution_whatever_the_seed(peers, tmp_path, monkeypatch):
    graphs = peers.real.beside("graphs")
    monkeypatch.setattr(graphs, "FOLDER", tmp_path)
    fitted, new = graphs.clusters(4000), graphs.clusters(4000, 1000)
    assert not np.allclose(fitted, new)
    assert np.linalg.norm(np.cov(fitted.T) - np.cov(new.T)) < 0.15 * np.linalg.norm(np.cov(fitted.T))
    first, other = (graphs.documents(300, 200, 5, seed) for seed in (0, 7))
    assert first.shape == other.shape == (300, 200)
    assert (first != other).nnz
    shares = [np.asarray(counts.sum(axis=0)).ravel() / counts.sum() for counts in (first, other)]
    assert np.abs(shares[0] - shares[1]).sum() < 0.2
    assert (graphs.documents(300, 200, 5) != first).nnz == 0


def test_recall_counts_neighbours_that_are_as_near_as_true_ones(peers):
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[200:220] = X[:20]  # copies: which of two is named does not matter
    order = np.argsort(((X[:, None] - X) ** 2).sum(axis=2), axis=1)
    assert peers.real.recall(X, order[:, :8]) == 1
    assert peers.real.recall(X, np.where(np.arange(8) < 6, order[:, :8], -1)) == pytest.approx(0.75)
    assert peers.real.recall(X, order[:, -8:]) == 0
    turned = np.argsort(-(unit := X / np.linalg.norm(X, axis=1)[:, None]) @ unit.T, axis=1)
    assert peers.real.recall(csr_matrix(X), turned[:, :8]) == 1  # of sparse rows by cosines


def test_data_that_are_not_there_are_left_out_with_a_reason(peers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers.real, "folder", lambda: tmp_path)
    assert "mnist.npz is not in" in peers.real.missing("MNIST")
    assert peers.real.missing("S-curve") == peers.real.missing("clusters in 50-D") == ""
    out = io.StringIO()
    row = peers.suites.Row("images", "MNIST", 100, ("outfold DiffusionMaps",))
    peers.runner.Measuring(out, tmp_path, 10).row("real", row, 1)
    assert not out.getvalue()
    assert "left out: mnist/mnist.npz" in capsys.readouterr().err


def test_a_process_that_takes_too_much_is_ended_with_what_it_has_said(peers):
    def run(program, seconds, megabytes):
        return peers.guard.run([sys.executable, "-c", program], "given", seconds, megabytes)

    done = run("print(input()); raise SystemExit(3)", 60, 1e6)
    assert (done.code, done.out, done.over) == (3, "given\n", "")
    slow = run("import time; print('said', flush=True); time.sleep(600)", 1, 1e6)
    assert (slow.out, slow.over) == ("said\n", "time")
    if sys.platform == "linux":
        assert run("import time; held = b'x' * 300_000_000; time.sleep(600)", 60, 200).over == "memory"


def test_a_line_about_real_data_tells_of_the_fit_new_rows_and_the_report(peers, tmp_path):
    out = io.StringIO()
    row = peers.suites.Row("tiny", "S-curve, new rows", 300, ("outfold DiffusionMaps",), None, 50)
    peers.runner.Measuring(out, tmp_path, 120).row("real", row, 1)
    line = json.loads(out.getvalue())
    assert min(line[f"{name}seconds"] for name in ("", "transform_", "again_")) > 0
    assert line["transform_peak_mb"] > 0
    assert line["solver"] == "dense"
    assert 0 <= line["gap"] < 1e-9
    assert 0 <= line["residual"] < 1e-9
    assert line["versions"]["outfold"]


def test_a_peer_that_was_stopped_is_not_run_at_more_rows(peers, tmp_path):
    past = [{"suite": "real", "row": "few", "contender": "UMAP", "n": 100, "stopped": 600}]
    work = peers.runner.Measuring(io.StringIO(), tmp_path, 600, past)
    assert work.already("real", 200, "UMAP") == {"stopped": 600, "at": "few"}
    assert not work.already("real", 100, "UMAP")
    assert not work.already("real", 200, "PHATE")
    assert not work.already("fit", 200, "UMAP")
    work.past["real", "few", "UMAP"] = past[0] | {"at": "fewer"}  # says it of others, not of itself
    assert not work.already("real", 200, "UMAP")


def real_line(contender, n=1000, **more):
    about = {
        "suite": "real",
        "row": f"a table, {n} rows",
        "contender": contender,
        "data": "a table",
        "n": n,
        "new": 500,
    }
    return about | {"seconds": 2.0, "transform_seconds": 1.0, "peak_mb": 400.0, "work_mb": 100.0} | more


def test_tables_of_real_data_tell_systems_from_neighbours_and_why_there_is_no_figure(peers):
    tables = peers.tables
    lines = [
        real_line("UMAP", seconds=1.0, transform_seconds=8.0, again_seconds=0.5),
        real_line("outfold Roseland", seconds=3.0),
        real_line("outfold DiffusionMaps", solver="lanczos", residual=1e-8, gap=1e-9),
        real_line("pynndescent", seconds=0.5, prepare_seconds=0.25, recall=0.987),
        real_line("PHATE", transform_stopped=600, transform_seconds=None),
        {key: v for key, v in real_line("datafold DiffusionMaps").items() if "seconds" not in key} | {"stopped": 600},
        {key: v for key, v in real_line("pydiffmap").items() if "seconds" not in key} | {"full": 20.0, "at": "few"},
    ]
    shown = tables.real(lines).splitlines()
    assert shown[2].startswith("| **a table, 1000 rows** | **Outfold DiffusionMaps** | 2 | 1 | 1 | 1 | 400 |")
    assert shown[3].startswith("|  | **Outfold Roseland** | 3 | 1.5x |")
    assert "UMAP | 1 | 0.5x | 8, again 0.5 | 8x |" in shown[4]
    assert "over 600 s | –" in shown[5]
    assert "datafold DiffusionMaps | over 600 s | –" in shown[6]
    assert "pydiffmap DiffusionMap | over 20 GB at fewer | –" in shown[7]
    assert "pynndescent | 0.5 | 0.25 | 1 | 98.7 % |" in tables.limit(lines)
    assert "UMAP" not in tables.limit(lines)
    assert "lanczos | 1e-8 | 1e-9 |" in tables.of_ours(lines)
    assert "UMAP 0.5x" in tables.real_ratios(lines)[0][2]
    assert tables.real_ratios(lines)[1][0].startswith("transform: ")
    assert [(one.contender, what) for one, what, *_ in tables.behind(lines)] == [("UMAP", "seconds")]
    heavier = [line | {"peak_mb": 100.0} if line["contender"] == "UMAP" else line for line in lines]
    one, what, mine, other = list(tables.behind(heavier))[-1]
    assert what == "peak_mb"
    assert "the fit adds 100 and 100" in tables.reason(heavier, one, what, mine, other)
    assert tables.real([]) == tables.limit([]) == tables.of_ours([]) == tables.NOT_YET


def test_lines_of_few_rows_never_become_results(peers, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["peers", "real", "--rows", "100"])
    with pytest.raises(SystemExit):
        peers.runner.main()
