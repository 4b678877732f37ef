"""The command serves what was saved."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

import outfold
from catalogue import quietly
from clients import PREPARATION, ROWS, X, error_of, post, serving
from outfold import storage
from outfold.app.cli.main import main
from outfold.app.service import server, service


@pytest.fixture(scope="module")
def served():
    model = outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200]))
    yield from serving(quietly(model.calibrate, folds=3))


@pytest.fixture
def app(served):
    return service.application(served, port=8765)


def test_an_open_address_without_a_token_is_refused_before_the_model_is_read(tmp_path, monkeypatch):
    monkeypatch.delenv("OUTFOLD_TOKEN", raising=False)
    answer = CliRunner().invoke(main, ["serve", str(tmp_path / "none.outfold"), "--host", "0.0.0.0"])
    assert answer.exit_code == 2
    assert "OUTFOLD_TOKEN" in answer.output
    answer = CliRunner().invoke(main, ["serve", str(tmp_path / "none.outfold"), "--host", "0.0.0.0", "--token", "x"])
    assert answer.exit_code == 2
    assert "There is no model" in answer.output


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = CliRunner().invoke(main, ["serve", str(tmp_path / "none.outfold")])
    assert answer.exit_code == 1
    assert 'pip install "outfold[app]"' in answer.output


def test_the_command_serves_what_was_saved(tmp_path, monkeypatch, served):
    path, seen = tmp_path / "wine.outfold", []
    storage.save(served.estimator, path, preparation=PREPARATION)

    def instead(app, host, port, *, ready):
        ready("http://127.0.0.1:1")
        seen.append(post(app, "/v1/transform", base=f"http://{host}:{port}"))
        seen.append(post(app, "/v1/transform", ROWS[[0] * 60], base=f"http://{host}:{port}"))

    monkeypatch.setattr(server, "run", instead)
    words = ["serve", str(path), "--port", "1234", "--max-rows", "50", "--workers", "1"]
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 0, answer.output
    truth = served.estimator.transform(PREPARATION.apply(ROWS), on_far="keep")
    np.testing.assert_array_equal(seen[0].json()["embedding"], truth)
    assert error_of(seen[1], 413)
    assert "http://127.0.0.1:1" in answer.output
    assert CliRunner().invoke(main, [*words, "--quiet"]).output == "http://127.0.0.1:1\n"
