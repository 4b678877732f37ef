"""The command: its help, how it fails, what it exits with."""

import subprocess
import sys

import pytest

import outfold
from commands import CODE, call, done
from outfold.app.cli import demo


def fail(*_):
    raise RuntimeError("the disk is made of cheese")


def test_help_and_version():
    assert "demo" in call("--help").output
    assert call("--version").output.split()[-1] == outfold.__version__


@pytest.mark.parametrize("words", [("dance",), ("demo", "--loud"), ("demo", "here")])
def test_a_bad_call_exits_with_2(words):
    answer = call(*words)
    assert answer.exit_code == 2
    assert "Traceback" not in answer.output


def test_a_failure_is_a_sentence_and_exits_with_1(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run", fail)
    answer = call("demo", "--out", tmp_path / "picture.png")
    assert answer.exit_code == 1
    assert "RuntimeError: the disk is made of cheese" in answer.stderr
    assert "--debug" in answer.stderr
    assert "Traceback" not in answer.output
    assert isinstance(answer.exception, SystemExit)


def test_debug_lets_the_traceback_through(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run", fail)
    answer = call("--debug", "demo", "--out", tmp_path / "picture.png")
    assert answer.exit_code == 1
    assert isinstance(answer.exception, RuntimeError)


@pytest.mark.parametrize("name", ["fit", "transform", "inverse", "info", "plan", "tune", "report", "demo", "reproduce"])
def test_help_shows_an_example(name):
    told = done(name, "--help").output
    assert f"  outfold {name}" in told.partition("Example:")[2]


def test_debug_brings_the_traceback(wine):
    answer = call("--debug", "fit", wine.with_name("none.csv"), "--save", wine.with_name("m.outfold"))
    assert type(answer.exception).__name__ == "TableError"


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
