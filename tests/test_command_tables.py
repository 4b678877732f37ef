"""The command on tables: from a file to a model, a table and a picture, and how it fails."""

import csv
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import outfold
from outfold import methods, sources, storage, tables
from outfold.app import flow, options, telling
from outfold.app.command import main
from outfold.datasets import s_curve
from outfold.exceptions import OutfoldWarning
from outfold.preparation import Preparation

CODE = "from outfold.app.command import main; main(prog_name='outfold')"


def call(*words, **settings):
    return CliRunner().invoke(main, [str(word) for word in words], **settings)


def done(*words, **settings):
    answer = call(*words, **settings)
    assert answer.exit_code == 0, answer.output
    return answer


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def data():
    X, position = s_curve(300, random_state=0)
    return np.asarray(X), np.ravel(position)[:300]


@pytest.fixture
def wine(tmp_path, data):
    """A header, an id, a text column, a label, an empty and a constant column, and a missing value."""
    X, position = data
    with open(tmp_path / "wine.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["bottle", "x", "y", "z", "grape", "quality", "spare", "one"])
        for row, (point, value) in enumerate(zip(X, position)):
            cells = [repr(float(v)) for v in point]
            if row == 15:
                cells[1] = ""
            kind = "good" if value > np.median(position) else "bad"
            writer.writerow([f"{row:03d}", *cells, "merlot", kind, "", "1"])
    return tmp_path / "wine.csv"


@pytest.fixture
def model(wine):
    path = wine.with_name("wine.outfold")
    done("fit", wine, "--id", "bottle", "--label", "quality", "--components", 3, "--save", path)
    return path


# -- as a new user would -------------------------------------------------------------------


def test_from_a_table_to_a_picture_in_two_commands(wine, data):
    pytest.importorskip("matplotlib")
    place = wine.parent
    fit = [
        "fit",
        wine,
        "--id",
        "bottle",
        "--label",
        "quality",
        "--save",
        place / "m.outfold",
        "--picture",
        place / "p.png",
    ]
    told = done(*fit).stdout
    for words in (
        "299 of 300 used",
        "1 of 300 rows lack a value, in 'y' (1); line 17",
        "3 used: 'x', 'y', 'z'",
        "columns that hold no numbers: 'grape'",
        "columns without values: 'spare'",
        "columns of one value: 'one'",
        "standard: each column centred and divided by its standard deviation",
    ):
        assert words in told
    assert (place / "p.png").read_bytes().startswith(b"\x89PNG")
    told = done("transform", place / "m.outfold", wine, "-o", place / "out.csv").stdout
    assert "299 of 300 rows" in told
    assert "1 of 300 rows lack a value, in 'y' (1); line 17" in told
    assert "1 without a position, for missing values" in told
    rows = rows_of(place / "out.csv")
    assert [row["bottle"] for row in rows] == [f"{at:03d}" for at in range(300)]
    assert {row["quality"] for row in rows} == {"good", "bad"}
    assert rows[15]["diffusionmaps0"] == rows[15]["diffusionmaps1"] == ""
    X = np.delete(data[0], 15, axis=0)
    expected = outfold.DiffusionMaps(2).fit_transform((X - X.mean(axis=0)) / X.std(axis=0))
    found = np.array([[float(row[f"diffusionmaps{at}"]) for at in (0, 1)] for row in rows if row["diffusionmaps0"]])
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_embedding_of_a_fit_is_the_transform_of_its_table(wine, model):
    for suffix in ("csv", "npy"):
        one, two = wine.with_name(f"one.{suffix}"), wine.with_name(f"two.{suffix}")
        fit = ["--id", "bottle", "--label", "quality", "--components", 3, "--save", wine.with_name("again.outfold")]
        done("fit", wine, *fit, "--out", one)
        done("transform", model, wine, "-o", two)
        assert one.read_bytes() == two.read_bytes()
    assert np.isnan(np.load(wine.with_name("one.npy"))[15]).all()


@pytest.mark.parametrize("name", ["fit", "transform", "inverse", "info", "plan", "tune", "report", "demo", "reproduce"])
def test_help_shows_an_example(name):
    told = done(name, "--help").output
    assert f"  outfold {name}" in told.partition("Example:")[2]


def test_every_public_method_has_its_name():
    assert set(options.METHODS.values()) == set(methods.__all__)
    assert set(options.TABLES) == set(__import__("outfold.sinks").sinks.TABLES)
    told = done("fit", "--help").output
    assert all(name in told for name in options.METHODS)


OPTIONS = {
    "spectral-clustering": ["--set", "n_clusters=3"],
    "diffusion-net": ["--set", "max_iter=2"],
    "grae": ["--set", "epochs=2", "--set", "hidden=[20]"],
}


@pytest.mark.parametrize("method", options.METHODS)
def test_every_method_goes_from_table_to_table(tmp_path, data, method):
    if method in ("diffusion-net", "grae"):
        pytest.importorskip("torch")
    np.save(tmp_path / "a.npy", data[0][:120])
    extra = OPTIONS.get(method, ["--components", 3])
    done("fit", tmp_path / "a.npy", "--method", method, *extra, "--save", tmp_path / "m", "--out", tmp_path / "one.csv")
    done("transform", tmp_path / "m", tmp_path / "a.npy", "--trust", "-o", tmp_path / "two.csv")
    one, two = rows_of(tmp_path / "one.csv"), rows_of(tmp_path / "two.csv")
    assert len(one) == len(two) == 120
    assert all(two[at][name] == row[name] for at, row in enumerate(one) for name in row)
    assert {"support", "outside"} <= set(two[0])
    assert method != "spectral-clustering" or {row["cluster"] for row in one} == {"0", "1", "2"}


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
    answer = call("fit", wine, "--method", "grae", "--calibrate", "--save", model)
    assert answer.exit_code == 2


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


def test_json_is_one_object_and_quiet_is_silent(wine):
    out = ["--id", "bottle", "--out", wine.with_name("a.csv")]
    answer = done("fit", wine, *out, "--json")
    found = json.loads(answer.stdout)
    assert answer.stderr == ""
    assert found["rows"] == 299
    assert found["columns"] == ["x", "y", "z"]
    assert found["columns_text"] == ["grape", "quality"]
    assert len(found["eigenvalues"]) == 2
    assert done("fit", wine, *out, "--quiet").output == ""


def test_standard_input_and_output(wine, model):
    answer = done("transform", model, "-", "-o", "-", input=wine.read_text())
    assert answer.stdout.splitlines()[0].startswith("bottle,quality,diffusionmaps0")
    assert len(answer.stdout.splitlines()) == 301
    assert "299 of 300 rows" in answer.stderr


def test_set_reaches_any_parameter_and_wrong_ones_are_named(wine):
    save = ["--id", "bottle", "--save", wine.with_name("m.outfold")]
    done("fit", wine, *save, "--set", "alpha=0.5", "--set", "t=2", "--epsilon", "0.3", "--neighbors", "null")
    maps, _ = storage.open_model(wine.with_name("m.outfold"))
    assert (maps.alpha, maps.t, maps.epsilon, maps.n_neighbors) == (0.5, 2, 0.3, None)
    for words, message in [
        (["--set", "alhpa=1"], "no parameter alhpa. Did you mean alpha?"),
        (["--set", "alpha"], "write it as name=value"),
        (["--set", "alpha=7"], "alpha=7"),
        (["--method", "isomap", "--epsilon", "1"], "--epsilon: isomap has no parameter epsilon"),
        (["--set", "metric=precomputed"], "need Python"),
        (["--components", "many"], "n_components"),
        (["--method", "umap"], "'umap' is not one of"),
        (["--columns", ","], "names no column"),
    ]:
        answer = call("fit", wine, *save, *words)
        assert answer.exit_code == 2, words
        assert message in answer.stderr
        assert "Traceback" not in answer.output


# -- how it fails --------------------------------------------------------------------------


def bad_files():
    """Name, content and what is told."""
    wide = ",".join(f"c{at}" for at in range(10_000))
    yield "none.csv", None, "There is no file"
    yield "empty.csv", "", "empty.csv is empty"
    yield "header.csv", "x,y\n", "header.csv has a header but no rows"
    yield "one.csv", "x,y\n1,2\n", "one.csv has 1 row, line 2"
    yield "broken.csv", "x,y\n" + "1,2\n3,4\n" * 700 + "5\n", "broken.csv, line 1402: 1 cell where the header has 2"
    yield "word.csv", "x,y\n" + "1,2\n3,4\n" * 700 + "5,six\n", "word.csv, line 1402: 'six' in column 'y'"
    yield "quote.csv", 'x,y\n1,2\n"3,4\n', "quote.csv, line 3"
    yield "text.csv", "x,y\na,b\nc,d\n", "has no column of numbers"
    yield "twice.csv", "x,x\n1,2\n3,4\n", "twice.csv, line 1: 2 columns (1, 2) are called 'x'"
    yield (
        "wide.csv",
        wide + "\n" + wide.replace("c", "") + "\n1\n",
        "wide.csv, line 3: 1 cell where the header has 10000",
    )
    yield "table.docx", "x", "table.docx is none of .csv"
    yield "wrong.parquet", "x,y\n1,2\n", "wrong.parquet is not a Parquet file"
    yield "wrong.npy", "x,y\n1,2\n", "wrong.npy is not an array"


@pytest.mark.parametrize(("name", "content", "message"), list(bad_files()), ids=lambda value: str(value)[:12])
def test_bad_input_is_told_with_file_and_line_and_leaves_nothing(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    before = sorted(tmp_path.iterdir())
    answer = call("fit", tmp_path / name, "--save", tmp_path / "m.outfold", "--out", tmp_path / "o.csv")
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.output
    assert len(answer.stderr) < 500
    assert sorted(tmp_path.iterdir()) == before


def test_ten_thousand_columns_fit_and_say_so_briefly(tmp_path):
    rng = np.random.default_rng(0)
    names = ",".join(f"c{at}" for at in range(10_000))
    rows = "\n".join(",".join(map(str, rng.integers(0, 99, 10_000).tolist())) for _ in range(12))
    (tmp_path / "wide.csv").write_text(f"{names}\n{rows}\n")
    told = done("fit", tmp_path / "wide.csv", "--save", tmp_path / "m.outfold").stdout
    assert "10000 used: 'c0'" in told
    assert max(map(len, told.splitlines())) < 200
    done("transform", tmp_path / "m.outfold", tmp_path / "wide.csv", "-o", tmp_path / "o.csv")
    assert len(rows_of(tmp_path / "o.csv")) == 12


def test_what_is_no_model_is_told(tmp_path, wine):
    (tmp_path / "m.outfold").write_bytes(b"\x00" * 100)
    for model, message in [("m.outfold", "m.outfold"), ("absent", "There is no model")]:
        for words in (["transform", tmp_path / model, wine, "-o", tmp_path / "o.csv"], ["info", tmp_path / model]):
            answer = call(*words)
            assert answer.exit_code == 2
            assert message in answer.stderr
            assert "Traceback" not in answer.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Say what to keep"),
        (["--out", "{}"], "different files"),
        (["--out", "o.doc"], "should end in one of .csv"),
        (["--out", "absent/o.csv"], "does not exist"),
        (["--out", "-", "--json"], "both want standard output"),
        (["--picture", "p.png", "--components", "1"], "at least 2 coordinates"),
    ],
)
def test_calls_that_cannot_be_meant_are_refused_before_any_work(wine, monkeypatch, words, message):
    monkeypatch.setattr(tables, "opened", lambda *_, **__: pytest.fail("the table was opened"))
    monkeypatch.chdir(wine.parent)
    answer = call("fit", wine, *(word.format(wine) for word in words))
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_a_fit_beyond_memory_is_refused_with_what_would_do(wine, monkeypatch):
    monkeypatch.setattr("outfold.planning.free_memory", lambda: 1e4)
    answer = call("fit", wine, "--save", wine.with_name("m.outfold"))
    assert answer.exit_code == 1
    assert "--landmarks 2000" in answer.stderr


def test_a_file_that_is_not_there_is_told_with_the_one_that_may_be_meant(tmp_path):
    (tmp_path / "wine.csv").write_text("x,y\n1,2\n")
    for name, hint in (("wien.csv", "wine.csv?"), ("zebra.csv", str(tmp_path)), ("no/a.csv", "is not there either")):
        answer = call("fit", tmp_path / name, "--save", tmp_path / "m.outfold")
        assert answer.exit_code == 2
        assert hint in answer.stderr


def test_a_column_that_a_word_spoils_is_told_with_its_line(tmp_path):
    lines = [f"{at},{at * at % 7},{'unknown' if at == 4 else at % 3},w{at}" for at in range(12)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c,d", *lines]))
    told = json.loads(done("fit", tmp_path / "a.csv", "--id", "a", "--save", tmp_path / "m.outfold", "--json").stdout)
    assert told["columns_text"] == ["c", "d"]
    assert [note for note in told["notes"] if "'unknown'" in note] == [
        "'c' holds numbers, but 'unknown' in line 6: mend such cells, or empty them, to use it."
    ]
    assert not any("'d'" in note for note in told["notes"])  # words throughout


def test_parameters_are_told_as_the_command_spells_them(wine):
    for words, told in [
        (["--neighbors", 5000], "(On the command line: --neighbors; None is written null.)"),
        (["--components", 900], "(On the command line: --components.)"),
        (["--set", "alpha=7"], "(On the command line: --set alpha=VALUE.)"),
    ]:
        answer = call("fit", wine, "--save", wine.with_name("m.outfold"), *words)
        assert answer.exit_code == 2
        assert told in answer.stderr
    assert "On the command line" not in call("fit", wine, "--id", "a=b", "--save", wine.with_name("m.outfold")).stderr


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


def test_a_column_that_lacks_many_values_is_told(tmp_path):
    lines = [f"{at % 5},{at * at % 7},{at % 3 if at % 2 else ''}" for at in range(30)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c", *lines]))
    told = json.loads(done("fit", tmp_path / "a.csv", "--save", tmp_path / "m.outfold", "--json").stdout)
    assert "'c' lacks 15 of 30 values: --columns without it keeps more rows." in told["notes"]


def test_debug_brings_the_traceback(wine):
    answer = call("--debug", "fit", wine.with_name("none.csv"), "--save", wine.with_name("m.outfold"))
    assert type(answer.exception).__name__ == "TableError"


# -- more than is held ---------------------------------------------------------------------


@pytest.mark.parametrize("method", [["roseland"], ["diffusion-maps"]])
def test_a_large_table_is_never_held(tmp_path, monkeypatch, data, method):
    monkeypatch.setattr(flow, "HELD_BYTES", 0)
    monkeypatch.setattr(tables, "MOST_ROWS", 64)
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
@pytest.mark.parametrize(
    "out", ["o.csv", *(pytest.param(name, marks=pytest.mark.slow) for name in ("o.npy", "o.parquet", "o.zarr"))]
)
def test_an_interrupt_leaves_nothing_half_written(tmp_path, data, model, out):
    """The table is a pipe that never ends, so the command is at work, its file begun, when the signal comes."""
    for suffix, library in (("zarr", "zarr"), ("parquet", "pyarrow")):
        if out.endswith(suffix):
            pytest.importorskip(library)
    folder = tmp_path / "out"
    folder.mkdir()
    code = (
        "import itertools, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background\n"
        "from outfold import tables\n"
        "from outfold.tables import Batch, Table\n"
        "import numpy as np\n"
        "class Endless(Table):\n"
        "    told, names, numeric = 'endless', ('x', 'y', 'z'), ('x', 'y', 'z')\n"
        "    def batches(self, features, carried=()):\n"
        "        for at in itertools.count():\n"
        "            if at == 5: print('under way', file=sys.stderr, flush=True)\n"
        "            yield Batch(at * 50, np.ones((50, 3)), [])\n"
        "tables.opened = lambda *a, **k: Endless()\n"
    ) + CODE
    words = [sys.executable, "-c", code, "transform", str(model), "endless", "-o", str(folder / out)]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = child.stderr.readline()
    assert line == "under way\n", line + child.stderr.read()
    assert len(list(folder.iterdir())) == 1  # begun, beside its place
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "Traceback" not in told
    assert list(folder.iterdir()) == []


def test_exit_codes_and_streams_of_the_real_command(wine):
    def run(*words, **settings):
        return subprocess.run(
            [sys.executable, "-c", CODE, *map(str, words)], capture_output=True, text=True, **settings
        )

    found = run("fit", "-", "--id", "bottle", "--out", "-", input=wine.read_text())
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 301
    assert "\r" not in found.stderr  # plain lines, no bars
    failed = run("fit", wine.with_name("none.csv"), "--out", "-")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.count("\n") == 1


def test_progress_is_plain_lines_where_nobody_looks(wine, model, monkeypatch):
    monkeypatch.setattr(telling, "EVERY", 0.0)
    monkeypatch.setattr(tables, "MOST_ROWS", 100)
    answer = done("transform", model, wine, "-o", wine.with_name("a.csv"))
    assert answer.stderr.splitlines() == [f"  embedding: {count} rows" for count in (100, 200, 300)]
    for flag in ("--quiet", "--json"):
        assert done("transform", model, wine, "-o", wine.with_name("a.csv"), flag).stderr == ""


def test_an_extra_that_is_not_here_is_named(wine, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    wine.with_name("a.parquet").write_bytes(b"PAR1")
    answer = call("fit", wine.with_name("a.parquet"), "--out", wine.with_name("a.csv"))
    assert answer.exit_code == 1
    assert 'pip install "outfold[io]"' in answer.stderr


def test_a_column_with_a_comma_can_be_named():
    assert options.split('a, "b,c" ,d') == ["a", "b,c", "d"]


def test_labels_of_any_kind_can_be_drawn():
    numbers = flow.groups(["1", "2", "3"])
    assert numbers.dtype.kind == "i"
    assert flow.groups([0.5, 1, 2]).dtype.kind == "f"
    hostile = flow.groups(["$\\frac", "_hidden", "a\nb", "", None, "x" * 99])
    assert hostile.tolist() == ["\\$\\frac", " _hidden", "a b", "(missing)", "(missing)", "x" * 29 + "…"]
    many = flow.groups([f"g{at}" for at in range(100)] + ["g5"])
    assert len(set(many)) == flow.MOST_GROUPS
    assert "81 others" in many


def test_pictures_of_more_rows_than_are_drawn_keep_an_even_part(monkeypatch):
    monkeypatch.setattr(flow, "DRAWN", 100)
    walk = flow.Walk(flow.Missing(("x",)))
    for start in range(0, 1000, 50):
        rows = np.arange(start, start + 50)
        walk.keep(start, np.ones(50, bool), np.column_stack([rows, rows]), np.zeros(50, bool), rows.tolist())
    kept = walk.places[:, 0]
    assert len(kept) <= 200
    assert (np.diff(kept) == walk.every).all()
    assert kept[0] == 0
    assert walk.labels == kept.tolist()


def test_a_picture_alone_embeds_only_what_it_draws(wine, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(flow, "DRAWN", 50)
    seen, answer = [], flow._answer
    monkeypatch.setattr(flow, "_answer", lambda e, points, *a: (seen.append(len(points)), answer(e, points, *a))[1])
    done("fit", wine, "--id", "bottle", "--picture", wine.with_name("p.png"))
    assert sum(seen) == 50
    done("fit", wine, "--id", "bottle", "--picture", wine.with_name("p.png"), "--out", wine.with_name("o.csv"))
    assert sum(seen) == 50 + 299


def test_the_preparation_is_kept_in_the_model(wine, model):
    _, found = storage.open_model(model)
    assert isinstance(found, Preparation)
    assert (found.columns, found.id, found.label, found.scaling) == (("x", "y", "z"), "bottle", "quality", "standard")
    assert (found.text, found.empty, found.constant, found.rows_left_out) == (("grape",), ("spare",), ("one",), 1)


def test_python_is_told_that_a_model_takes_scaled_rows(model, data):
    with pytest.warns(OutfoldWarning, match=r"columns were scaled \(standard\), and transform takes scaled rows"):
        maps = outfold.load(model)
    again, found = storage.open_model(model)
    np.testing.assert_array_equal(maps.transform(found.apply(data[0])), again.transform(found.apply(data[0])))


def test_a_model_whose_columns_are_of_another_is_refused(tmp_path, data):
    maps = outfold.DiffusionMaps(2).fit(data[0])
    storage.save(maps, tmp_path / "m.outfold", preparation=Preparation(("a", "b")))
    answer = call("info", tmp_path / "m.outfold")
    assert answer.exit_code == 2
    assert "do not belong together" in answer.stderr
