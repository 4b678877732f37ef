"""The command fits tables: from a file to a model, a table and a picture, and how it fails."""

import json

import numpy as np
import pytest
import scipy.sparse

import outfold
from commands import call, done, rows_of
from outfold import storage
from outfold.app.cli import options
from outfold.data import table_files
from outfold.data.columns import Preparation
from outfold.data.sparse_rows import SparseRows
from outfold.exceptions import OutfoldWarning


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


OPTIONS = {
    "spectral-clustering": ["--set", "n_clusters=3"],
    "diffusion-net": ["--set", "max_iter=2"],
    "grae": ["--set", "epochs=2", "--set", "hidden=[20]"],
}


@pytest.mark.parametrize("method", options.COMMAND_METHODS)
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
    assert {"p_value", "score", "support", "outside"} <= set(two[0])
    assert method != "spectral-clustering" or {row["cluster"] for row in one} == {"0", "1", "2"}


SPARSE = [
    ("csr", "standard", []),
    ("csc", "robust", []),
    ("coo", "none", []),
    ("csr", "none", ["--method", "roseland", "--columns", "column_4,column_1,column_5,column_7"]),
    ("csr", "none", ["--method", "spectral-clustering"]),
]


@pytest.mark.parametrize(("form", "scale", "options"), SPARSE, ids=lambda value: str(value)[:12])
def test_a_sparse_file_gives_what_the_same_numbers_in_an_array_do(tmp_path, form, scale, options):
    rng = np.random.default_rng(0)
    table = rng.random((150, 12)) * (rng.random((150, 12)) < 0.4)
    table[7, 3] = np.nan  # a row that is left out
    dense, sparse = tmp_path / "dense.npy", tmp_path / "sparse.npz"
    np.save(dense, table)
    scipy.sparse.save_npz(sparse, scipy.sparse.csr_array(table).asformat(form))
    out = []
    for data in (dense, sparse):
        model = data.with_suffix(".outfold")
        fitted = done("fit", data, "--scale", scale, *options, "--save", model, "--out", tmp_path / "fit.npy")
        assert ("is sparse, and centred columns are not" in fitted.output) == (data == sparse and scale != "none")
        done("transform", model, data, "-o", tmp_path / "new.npy", "--on-far", "nearest")
        out.append([np.load(tmp_path / "fit.npy"), np.load(tmp_path / "new.npy")])
        assert isinstance(storage.open_model(model)[0].landmarks_, SparseRows) == (data == sparse and scale == "none")
    np.testing.assert_allclose(out[1], out[0], rtol=0, atol=1e-10 * np.nanmax(np.abs(out[0])))
    assert np.isnan(out[1][0][7]).all()
    assert np.isfinite(np.delete(out[1][0], 7, axis=0)).all()
    done("report", sparse.with_suffix(".outfold"), sparse, "-o", tmp_path / "page.html")
    done("info", sparse.with_suffix(".outfold"))
    assert "149 x" in done("plan", sparse).output


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
    monkeypatch.setattr(table_files, "open_table", lambda *_, **__: pytest.fail("the table was opened"))
    monkeypatch.chdir(wine.parent)
    answer = call("fit", wine, *(word.format(wine) for word in words))
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_a_fit_beyond_memory_is_refused_with_what_would_do(wine, monkeypatch):
    monkeypatch.setattr("outfold.engine.plan.free_memory", lambda: 1e4)
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


def test_a_column_that_lacks_many_values_is_told(tmp_path):
    lines = [f"{at % 5},{at * at % 7},{at % 3 if at % 2 else ''}" for at in range(30)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c", *lines]))
    told = json.loads(done("fit", tmp_path / "a.csv", "--save", tmp_path / "m.outfold", "--json").stdout)
    assert "'c' lacks 15 of 30 values: --columns without it keeps more rows." in told["notes"]


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
