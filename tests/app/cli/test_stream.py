"""The command goes through tables: others than the fit's, large ones, and interrupted ones."""

import csv
import signal
import subprocess
import sys

import numpy as np
import pytest

import outfold
from commands import CODE, call, done, rows_of
from outfold.app.cli import stream
from outfold.data import columns as preparation
from outfold.data import sources, tables
from outfold.datasets import s_curve

# -- tables that differ from the fit's -----------------------------------------------------


def test_columns_in_another_order_among_others_are_found_and_units_are_the_fit_s(wine, model):
    rows = rows_of(wine)[:40]
    with open(wine.with_name("more.csv"), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["z", "price", "bottle", "x", "y"])
        writer.writerows([row["z"], "9", row["bottle"], row["x"], row["y"]] for row in rows)
    told = done("transform", model, wine.with_name("more.csv"), "-o", wine.with_name("a.csv")).stdout
    assert "columns the model does not know: 'price'" in told
    done("transform", model, wine, "-o", wine.with_name("b.csv"))
    a, b = rows_of(wine.with_name("a.csv")), rows_of(wine.with_name("b.csv"))
    assert [row.pop("bottle") for row in a] == [row.pop("bottle") for row in b[:40]]
    assert list(a[0]) == ["diffusionmaps0", "diffusionmaps1", "diffusionmaps2"]
    for one, other in zip(a, b):
        np.testing.assert_allclose(*([float(row[name] or "nan") for name in one] for row in (one, other)), atol=1e-12)


def test_a_table_that_lacks_a_column_is_refused(wine, model):
    text = wine.read_text().replace("bottle,x,y,z", "bottle,x,yy,z", 1)
    wine.with_name("other.csv").write_text(text)
    answer = call("transform", model, wine.with_name("other.csv"), "-o", wine.with_name("a.csv"))
    assert answer.exit_code == 2
    assert "other.csv has no column 'y' that the model was fitted with. Did you mean 'yy'?" in answer.stderr
    assert not wine.with_name("a.csv").exists()


def test_rows_outside_the_data_are_told_and_answered(wine, model):
    wine.with_name("far.csv").write_text("bottle,x,y,z\n1,0,1,0\n2,900,900,900\n")
    told = done("transform", model, wine.with_name("far.csv"), "-o", wine.with_name("a.csv"), "--trust").stdout
    assert "1 row lies outside the data of the fit (the first is line 3)" in told
    rows = rows_of(wine.with_name("a.csv"))
    assert rows[1]["outside"] == "True"
    assert float(rows[1]["support"]) < -5
    words = ["transform", model, wine.with_name("far.csv"), "-o", wine.with_name("a.csv"), "--on-far"]
    done(*words, "nan")
    assert rows_of(wine.with_name("a.csv"))[1]["diffusionmaps0"] == ""
    assert call(*words, "raise").exit_code == 2


def test_a_calibrated_model_gives_each_row_a_radius(wine):
    model, out = wine.with_name("m.outfold"), wine.with_name("a.csv")
    done("fit", wine, "--id", "bottle", "--calibrate", "--save", model)
    done("transform", model, wine, "--trust", "-o", out)
    radii = [float(row["error"]) for row in rows_of(out) if row["error"]]
    assert len(radii) == 299
    assert min(radii) > 0


NETWORKS = {"diffusion-net": ["--set", "max_iter=2"], "grae": ["--set", "epochs=2"]}


@pytest.mark.parametrize("method", NETWORKS)
def test_a_network_can_be_calibrated(tmp_path, data, method):
    pytest.importorskip("torch")
    np.save(tmp_path / "a.npy", data[0][:100])
    words = ["--method", method, *NETWORKS[method], "--set", "hidden=[8]", "--calibrate"]
    done("fit", tmp_path / "a.npy", *words, "--save", tmp_path / "m.outfold")
    done("transform", tmp_path / "m.outfold", tmp_path / "a.npy", "--trust", "-o", tmp_path / "b.csv")
    assert all(float(row["error"]) > 0 for row in rows_of(tmp_path / "b.csv"))


def test_the_trust_written_is_that_of_the_library(tmp_path, data):
    maps = outfold.DiffusionMaps(2).fit(data[0][:200])
    maps.save(tmp_path / "m.outfold")
    X = np.vstack([data[0][190:], [[9.0, 9.0, 9.0]]])  # some training rows, and one row far off
    np.save(tmp_path / "a.npy", X)
    done("transform", tmp_path / "m.outfold", tmp_path / "a.npy", "--trust", "-o", tmp_path / "a.csv")
    rows, truth = rows_of(tmp_path / "a.csv"), maps.trust(X)
    assert list(rows[0])[:4] == ["p_value", "score", "support", "outside"]
    for name in ("p_value", "score", "support"):
        np.testing.assert_array_equal([float(row[name]) for row in rows], getattr(truth, name))
    assert [row["outside"] == "True" for row in rows] == truth.flag.tolist()


def test_a_table_without_rows_leaves_no_table(wine, model):
    wine.with_name("none.csv").write_text("bottle,x,y,z\n")
    answer = call("transform", model, wine.with_name("none.csv"), "-o", wine.with_name("a.csv"))
    assert answer.exit_code == 2
    assert "none.csv has no rows" in answer.stderr
    assert not wine.with_name("a.csv").exists()


def test_a_column_called_as_ours_keeps_its_name(wine, tmp_path):
    text = wine.read_text().replace("bottle,", "support,", 1).replace("quality", "cluster", 1)
    wine.write_text(text)
    words = ["--method", "spectral-clustering", "--set", "n_clusters=2", "--id", "support", "--label", "cluster"]
    done("fit", wine, *words, "--save", tmp_path / "m.outfold")
    done("transform", tmp_path / "m.outfold", wine, "--trust", "-o", tmp_path / "a.csv")
    row = rows_of(tmp_path / "a.csv")[3]
    assert row["support"] == "003"
    assert row["cluster"] in ("good", "bad")
    assert row["outfold_cluster"] in ("0", "1")
    assert -9 < float(row["outfold_support"]) < 9


def test_inverse_gives_the_columns_in_their_units(wine, model, data):
    done("transform", model, wine, "-o", wine.with_name("a.csv"))
    told = done("inverse", model, wine.with_name("a.csv"), "-o", wine.with_name("b.csv")).stdout
    assert "of the spread of the columns" in told
    rows = rows_of(wine.with_name("b.csv"))
    assert list(rows[0]) == ["bottle", "x", "y", "z"]
    assert rows[15]["x"] == ""
    back = np.array([[float(row[name]) for name in "xyz"] for at, row in enumerate(rows) if at != 15])
    X = np.delete(data[0], 15, axis=0)
    assert np.sqrt(((back - X) ** 2).sum(axis=1).mean()) < 0.2 * np.sqrt(X.var(axis=0).sum())


def test_a_model_made_in_python_takes_columns_as_they_are(tmp_path, data):
    X = data[0]
    maps = outfold.DiffusionMaps(2).fit(X)
    maps.save(tmp_path / "m.outfold")
    np.save(tmp_path / "a.npy", X)
    done("transform", tmp_path / "m.outfold", tmp_path / "a.npy", "-o", tmp_path / "b.npy")
    np.testing.assert_allclose(np.load(tmp_path / "b.npy"), maps.embedding_, atol=1e-10)


# -- for machines --------------------------------------------------------------------------


def test_standard_input_and_output(wine, model):
    answer = done("transform", model, "-", "-o", "-", input=wine.read_text())
    assert answer.stdout.splitlines()[0].startswith("bottle,quality,diffusionmaps0")
    assert len(answer.stdout.splitlines()) == 301
    assert "299 of 300 rows" in answer.stderr


# -- how it fails --------------------------------------------------------------------------


def test_transform_and_inverse_refuse_what_they_cannot_give(wine, tmp_path):
    model, out = tmp_path / "m.outfold", tmp_path / "o.csv"
    done("fit", wine, "--save", model)
    np.save(tmp_path / "three.npy", np.ones((4, 3)))
    (tmp_path / "folder").mkdir()
    for words, message in [
        (["transform", model, wine, "--trust", "-o", tmp_path / "o.npy"], "--trust adds columns that .npy cannot name"),
        (["transform", model, wine, "--id", "cork", "-o", out], "has no column 'cork' to carry along"),
        (["transform", model, wine, "-o", tmp_path / "folder"], "should end in one of .csv"),
        (["inverse", model, tmp_path / "three.npy", "-o", out], "has no columns 'diffusionmaps0', 'diffusionmaps1'"),
        (["fit", wine, "--save", tmp_path / "folder"], "is a folder. Name a file in it."),
    ]:
        answer = call(*words)
        assert answer.exit_code == 2
        assert message in answer.stderr
        assert not out.exists()


# -- more than is held ---------------------------------------------------------------------


@pytest.mark.parametrize("method", [["roseland"], ["diffusion-maps"]])
def test_a_large_table_is_never_held(tmp_path, monkeypatch, data, method):
    monkeypatch.setattr(stream, "HELD_BYTES", 0)
    monkeypatch.setattr(tables, "BATCH_ROWS_UP_TO", 64)
    np.save(tmp_path / "a.npy", data[0])
    fit = ["fit", tmp_path / "a.npy", "--method", *method, "--landmarks", 100, "--out"]
    monkeypatch.setattr(sources.Source, "array", lambda _: pytest.fail("the whole table was loaded"))
    told = done(*fit, tmp_path / "one.npy").stdout
    assert "block by block" in told
    monkeypatch.undo()
    done(*fit, tmp_path / "two.npy")
    np.testing.assert_allclose(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"), atol=1e-8)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory as Linux tells it")
def test_four_million_rows_go_through_fit_and_transform_in_little_memory(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.asarray(s_curve(4_000_000, random_state=0)[0])
    ids = [f"{at:07d}" for at in range(len(X))]
    parquet.write_table(
        arrow.table([arrow.array(ids), *map(arrow.array, X.T)], names=["id", "x", "y", "z"]), tmp_path / "a.parquet"
    )
    code = (  # not ru_maxrss, which counts what this process held when it forked
        "import atexit, re, sys\n"
        "peak = lambda: print(re.search('VmHWM:.*?([0-9]+)', open('/proc/self/status').read())[1], file=sys.stderr)\n"
        "atexit.register(peak)\n"
    ) + CODE
    fit = ["fit", "a.parquet", "--id", "id", "--landmarks", "500", "--save", "m.outfold"]
    for words in (fit, ["transform", "m.outfold", "a.parquet", "-o", "o.parquet"]):
        run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert int(run.stderr.splitlines()[-1]) < 600_000  # kB
    out = parquet.read_table(tmp_path / "o.parquet")
    assert out.column_names == ["id", "diffusionmaps0", "diffusionmaps1"]
    assert out.column("id").to_pylist() == ids


# -- interruption --------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize(
    "out", ["o.csv", *(pytest.param(name, marks=pytest.mark.slow) for name in ("o.npy", "o.parquet", "o.zarr"))]
)
def test_an_interrupt_leaves_nothing_half_written(tmp_path, data, model, out, name, code):
    """The table is a pipe that never ends, so the command is at work, its file begun, when the signal comes."""
    for suffix, library in (("zarr", "zarr"), ("parquet", "pyarrow")):
        if out.endswith(suffix):
            pytest.importorskip(library)
    folder = tmp_path / "out"
    folder.mkdir()
    setting = (
        "import itertools, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background\n"
        "from outfold.data import table_files\n"
        "from outfold.data.tables import Batch, Table\n"
        "import numpy as np\n"
        "class Endless(Table):\n"
        "    told, names, numeric = 'endless', ('x', 'y', 'z'), ('x', 'y', 'z')\n"
        "    def batches(self, features, carried=()):\n"
        "        for at in itertools.count():\n"
        "            if at == 5: print('under way', file=sys.stderr, flush=True)\n"
        "            yield Batch(at * 50, np.ones((50, 3)), [])\n"
        "table_files.open_table = lambda *a, **k: Endless()\n"
    ) + CODE
    words = [sys.executable, "-c", setting, "transform", str(model), "endless", "-o", str(folder / out)]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = child.stderr.readline()
    assert line == "under way\n", line + child.stderr.read()
    assert len(list(folder.iterdir())) == 1  # begun, beside its place
    child.send_signal(getattr(signal, name))
    _, told = child.communicate(timeout=60)
    assert child.returncode == code
    assert "Traceback" not in told
    assert list(folder.iterdir()) == []


def test_labels_of_any_kind_can_be_drawn():
    numbers = stream.groups(["1", "2", "3"])
    assert numbers.dtype.kind == "i"
    assert stream.groups([0.5, 1, 2]).dtype.kind == "f"
    hostile = stream.groups(["$\\frac", "_hidden", "a\nb", "", None, "x" * 99])
    assert hostile.tolist() == ["\\$\\frac", " _hidden", "a b", "(missing)", "(missing)", "x" * 29 + "…"]
    many = stream.groups([f"g{at}" for at in range(100)] + ["g5"])
    assert len(set(many)) == stream.LABEL_GROUPS_UP_TO
    assert "81 others" in many


def test_pictures_of_more_rows_than_are_drawn_keep_an_even_part(monkeypatch):
    monkeypatch.setattr(stream, "PICTURE_ROWS", 100)
    tally = stream.Tally(preparation.Missing(features=("x",)))
    for start in range(0, 1000, 50):
        rows = np.arange(start, start + 50)
        tally.drawn.add(rows, [np.column_stack([rows, rows])], [rows.tolist()])
    (numbers, places), (labels,) = tally.drawn.join()
    kept = places[:, 0]
    assert len(kept) <= 200
    assert (np.diff(kept) == tally.drawn.every).all()
    assert kept[0] == 0
    assert labels == kept.tolist() == numbers.tolist()


def test_a_picture_alone_embeds_only_what_it_draws(wine, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(stream, "PICTURE_ROWS", 50)
    seen, answer = [], stream._answer
    monkeypatch.setattr(stream, "_answer", lambda e, points, *a: (seen.append(len(points)), answer(e, points, *a))[1])
    done("fit", wine, "--id", "bottle", "--picture", wine.with_name("p.png"))
    assert sum(seen) == 50
    done("fit", wine, "--id", "bottle", "--picture", wine.with_name("p.png"), "--out", wine.with_name("o.csv"))
    assert sum(seen) == 50 + 299
