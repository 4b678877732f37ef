"""The demo: what it prints, what it writes, how it fails."""

import re
import sys
import warnings

import pytest

from commands import call
from outfold.app.cli import demo
from outfold.exceptions import SpectrumWarning


def fail(*_):
    raise RuntimeError("the disk is made of cheese")


@pytest.fixture(scope="module")
def result():
    return demo.run()


@pytest.fixture
def quick(monkeypatch, result):
    """The demo with its computation done once for all tests."""
    monkeypatch.setattr(demo, "run", lambda: result)


def test_demo_prints_a_short_aligned_summary_and_writes_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "picture.png"
    answer = call("demo", "--out", out)
    assert answer.exit_code == 0, answer.output
    assert answer.stderr == ""
    assert out.read_bytes().startswith(b"\x89PNG")
    title, *rows = answer.stdout.splitlines()
    assert len(rows) < 10
    assert max(map(len, [title, *rows[:-1]])) <= 100
    assert [row[2:12].strip() for row in rows] == ["fitted", "spectrum", "embedded", "error", "", "outside", "picture"]
    assert rows[-1].endswith(str(out))


def test_demo_picture_goes_to_the_current_folder_and_is_named_in_full(tmp_path, monkeypatch, quick):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    answer = call("demo")
    assert answer.exit_code == 0
    assert (tmp_path / "outfold-demo.png").is_file()
    assert str(tmp_path / "outfold-demo.png") in answer.stdout


def test_demo_extends_well_and_its_figures_are_the_result(result):
    assert len(result.unseen) == pytest.approx(len(result.seen) / 3, abs=2)
    assert 0 < result.error_drawn < 0.1
    assert 0 < result.error < 0.2
    assert result.outside < 0.05 * len(result.unseen)
    assert f"{result.error_drawn:.1%}" in demo.summary(result)
    assert re.search(rf"\b{result.outside} of {len(result.unseen)} ", demo.summary(result))


def test_demo_figures_do_not_change_from_run_to_run(result):
    again = demo.run()
    assert (again.unseen == result.unseen).all()
    assert (again.error, again.outside) == (result.error, result.outside)


def test_demo_quiet_prints_nothing(tmp_path, quick):
    pytest.importorskip("matplotlib")
    answer = call("demo", "--quiet", "--out", tmp_path / "picture.svg")
    assert (answer.exit_code, answer.output) == (0, "")
    assert (tmp_path / "picture.svg").is_file()


def test_demo_tells_warnings_as_notes(monkeypatch):
    work = demo._run

    def worried():
        for _ in range(2):
            warnings.warn("the spectrum is odd", SpectrumWarning, stacklevel=2)
        return work()

    monkeypatch.setattr(demo, "_run", worried)
    notes = demo.run()
    assert notes.notes == ("the spectrum is odd",)
    assert "  note      the spectrum is odd" in demo.summary(notes).splitlines()


@pytest.mark.parametrize("words", [(), ("--quiet",)], ids=["aloud", "quiet"])
def test_demo_without_matplotlib_says_how_to_get_it_and_succeeds(tmp_path, monkeypatch, quick, words):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    answer = call("demo", *words, "--out", tmp_path / "picture.png")
    assert answer.exit_code == 0
    assert 'pip install "outfold[plot]"' in (answer.stderr if words else answer.stdout)
    assert not (tmp_path / "picture.png").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent/picture.png", "does not exist"),
        ("picture.docx", "should end in one of .png, .svg, .pdf"),
        ("folder.png", "is a folder"),
    ],
)
def test_a_place_where_no_picture_can_go_is_a_bad_call(tmp_path, monkeypatch, name, message):
    monkeypatch.setattr(demo, "run", fail)  # refused before any work
    (tmp_path / "folder.png").mkdir()
    answer = call("demo", "--out", tmp_path / name)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert "--out" in answer.stderr
    assert "Traceback" not in answer.output


def test_a_folder_without_permission_is_a_bad_call(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # even root is told no
    answer = call("demo", "--out", tmp_path / "picture.png")
    assert answer.exit_code == 2
    assert "cannot be written" in " ".join(answer.stderr.split())
