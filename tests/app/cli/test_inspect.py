"""The command before and after a fit: info, plan, tune."""

import json
import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

from outfold.app.cli.main import main
from outfold.datasets import circle, s_curve


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def done(*words):
    answer = call(*words)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def table(path, X, names, labels):
    lines = [",".join(names), *(",".join([*map(repr, row), label]) for row, label in zip(X.tolist(), labels))]
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def model(tmp_path):
    X = np.asarray(s_curve(200, random_state=0)[0])
    table(tmp_path / "a.csv", X, ["x", "y", "z", "kind"], ["up" if row[0] > 0 else "down" for row in X])
    done("fit", tmp_path / "a.csv", "--label", "kind", "--components", 4, "--save", tmp_path / "m.outfold")
    return tmp_path / "m.outfold"


def test_info_tells_what_a_model_is(model):
    told = done("info", model)
    for words in (
        "DiffusionMaps",
        "200 rows, 3 columns",
        "'x', 'y', 'z'",
        "label     'kind'",
        "n_components=4",
        "4 coord",
    ):
        assert words in told
    found = json.loads(done("info", model, "--json"))
    assert found["columns"] == ["x", "y", "z"]
    assert len(found["eigenvalues"]) == 4
    assert found["scaling"] == "standard"


def test_plan_takes_a_size_or_a_table(model):
    assert "Roseland of 4000000 x 3: 8000 anchors" in done("plan", "4000000x3", "--method", "roseland")
    for kernel, named in (("auto", {"neighbours", "graph", "solve"}), ("gaussian", {"kernel", "solve"})):
        found = json.loads(done("plan", model.with_name("a.csv"), "--set", f"kernel={kernel}", "--json"))
        assert found["shape"] == [200, 3]
        assert found["fits"] is True
        assert {stage["name"] for stage in found["stages"]} >= named
    answer = call("plan", "10x3", "--method", "grae")
    assert answer.exit_code == 2
    assert "no plan for grae" in answer.stderr


@pytest.mark.parametrize("kernel", ["adaptive", "gaussian"])
def test_tune_prints_a_call_that_fits(kernel, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    X = circle(150, random_state=0)
    table(tmp_path / "a b.csv", X, ["x", "y", "kind"], ["a"] * len(X))
    flags = ["--label", "kind", "--kernel", kernel, "--set", "alpha=1"]
    told = done("tune", "a b.csv", *flags, "--picture", tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    words = shlex.split(re.search(r"^  call +(.*)$", told, re.MULTILINE)[1])
    assert words[:3] == ["outfold", "fit", "a b.csv"]
    done(*words[1:])
    found = json.loads(done("info", "m.outfold", "--json"))
    assert found["components"] == 2
    assert ("--epsilon" in words) == (kernel == "gaussian")
    if kernel == "gaussian":
        assert f"epsilon={words[words.index('--epsilon') + 1]}" in done("info", "m.outfold")
