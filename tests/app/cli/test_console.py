"""What the command tells: JSON, progress, and what is missing."""

import json
import sys

import outfold
from commands import call, done
from outfold import storage
from outfold.app.cli import console
from outfold.data import tables
from outfold.data.columns import Preparation


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


def test_what_is_no_model_is_told(tmp_path, wine):
    (tmp_path / "m.outfold").write_bytes(b"\x00" * 100)
    for model, message in [("m.outfold", "m.outfold"), ("absent", "There is no model")]:
        for words in (["transform", tmp_path / model, wine, "-o", tmp_path / "o.csv"], ["info", tmp_path / model]):
            answer = call(*words)
            assert answer.exit_code == 2
            assert message in answer.stderr
            assert "Traceback" not in answer.output


def test_progress_is_plain_lines_where_nobody_looks(wine, model, monkeypatch):
    monkeypatch.setattr(console, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(tables, "BATCH_ROWS_UP_TO", 100)
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


def test_a_model_whose_columns_are_of_another_is_refused(tmp_path, data):
    maps = outfold.DiffusionMaps(2).fit(data[0])
    storage.save(maps, tmp_path / "m.outfold", preparation=Preparation(columns=("a", "b")))
    answer = call("info", tmp_path / "m.outfold")
    assert answer.exit_code == 2
    assert "do not belong together" in answer.stderr
