"""What a run of the papers' experiments leaves: pictures, a record, tables and a page; and how it fails."""

import json
import math
import shutil
import sys
import warnings

import pytest
from click.testing import CliRunner

from outfold import papers, plotting
from outfold.app.cli.main import main
from outfold.papers import page
from outfold.papers.record import (
    Experiment,
    Finding,
    Outcome,
    Picture,
    Record,
    ResultTable,
    measurement,
)

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>"


def call(*words):
    return CliRunner().invoke(main, ["reproduce", *map(str, words)])


def small(effort):
    """An outcome with everything in it that a page must carry."""
    figure, (axes,) = plotting.panels(1)
    axes.plot(effort.random(0).normal(size=5))
    for place in ("first", "second"):
        warnings.warn(f"a cloud at the {place} place", UserWarning, stacklevel=1)
    findings = [
        measurement("sigma", 0.1771).near(0.1756, within=0.02),
        measurement("rows", 1148).near(1175, within=0, why="The rule | as written leaves fewer."),
        measurement("shape", "round").against("a circle", True),
        measurement(HOSTILE, math.inf, HOSTILE),
    ]
    table = ResultTable("by landmarks", ["landmarks", "error"], [[120, 0.123456], ["all", math.nan]])
    return Outcome(findings, [Picture("curve", figure, f"A curve {HOSTILE}")], [table])


def lost(effort):
    raise OSError("the table is not at hand: set OUTFOLD_DATA")


@pytest.fixture
def stage(monkeypatch):
    """Two experiments instead of the papers': one that works and one without its data."""
    about = {"source": "Nobody, 2026"}
    made = {
        "helix": Experiment(name="helix", title=f"Small {HOSTILE}", settings="Five points.", run=small, **about),
        "wine": Experiment(name="wine", title="Lost", settings="None.", run=lost, **about),
    }
    monkeypatch.setattr(papers, "EXPERIMENT_NAMES", tuple(made))
    monkeypatch.setattr(page, "EXPERIMENT_NAMES", tuple(made))
    monkeypatch.setattr(papers, "experiment", made.__getitem__)


def test_without_a_name_the_experiments_are_listed():
    answer = call()
    assert answer.exit_code == 0
    assert [line.split()[0] for line in answer.stdout.splitlines()] == list(papers.EXPERIMENT_NAMES)


def test_a_run_leaves_pictures_a_record_tables_and_the_page(stage, tmp_path):
    answer = call("helix", "--out", tmp_path / "new" / "papers", "--seed", 4, "--repeats", 2)
    assert answer.exit_code == 0, answer.output
    assert answer.stderr == ""
    assert "2 agree, 1 differ, 1 not compared" in answer.stdout
    out = tmp_path / "new" / "papers"
    assert (out / "helix" / "curve.png").read_bytes().startswith(b"\x89PNG")
    (record,) = json.loads((out / "results.json").read_text())
    assert record["notes"] == ["UserWarning, 2 times, first: a cloud at the first place"]
    assert (record["seed"], record["repeats"], record["tables"][0]["rows"][1]) == (4, 2, ["all", "nan"])
    again = Record.of(record)
    assert again.findings[0] == Finding(what="sigma", ours=0.1771, paper=0.1756, agrees=True)
    assert again.as_dict() == record
    text = (out / "results.md").read_text()
    assert "| sigma | 0.177 | 0.176 | agrees |  |" in text
    assert "The rule \\| as written" in text
    assert "](helix/curve.png)" in text
    assert not list(out.rglob("*.part"))


def test_a_second_run_keeps_what_the_first_left_and_replaces_its_own(stage, tmp_path, monkeypatch):
    assert call("helix", "--out", tmp_path).exit_code == 0
    (tmp_path / "helix" / "old.png").write_bytes(b"an earlier picture")
    assert call("helix", "--out", tmp_path, "--seed", 1).exit_code == 0
    assert [file.name for file in (tmp_path / "helix").glob("*.png")] == ["curve.png"]
    found = {"title": "Found", "source": "Nobody", "settings": "None.", "run": small}
    monkeypatch.setattr(papers, "experiment", lambda name: Experiment(name=name, **found))
    assert call("wine", "--out", tmp_path).exit_code == 0
    records = json.loads((tmp_path / "results.json").read_text())
    assert [(record["name"], record["seed"]) for record in records] == [("helix", 1), ("wine", 0)]
    assert (tmp_path / "index.html").read_text().count("<section") == 2


def test_missing_data_leaves_one_experiment_out_and_says_why(stage, tmp_path):
    answer = call("all", "--out", tmp_path)
    assert answer.exit_code == 0
    assert "wine was left out: the table is not at hand" in answer.stderr
    assert (tmp_path / "index.html").is_file()
    alone = call("wine", "--out", tmp_path / "other")
    assert alone.exit_code == 1
    assert "set OUTFOLD_DATA" in alone.stderr
    assert not (tmp_path / "other").exists()


def test_bad_calls_are_refused_before_anything_runs(stage, tmp_path):
    answer = call("hellix", "--out", tmp_path)
    assert answer.exit_code == 2
    assert "helix, wine" in answer.stderr
    (tmp_path / "file").write_text("")
    assert call("helix", "--out", tmp_path / "file").exit_code == 2
    assert call("helix", "--out", tmp_path / "file" / "deeper").exit_code == 2
    assert call("helix", "--repeats", 0).exit_code == 2


def test_without_matplotlib_nothing_is_computed_and_the_way_to_get_it_is_told(stage, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(papers, "experiment", lambda name: pytest.fail("computed"))
    answer = call("helix", "--out", tmp_path)
    assert answer.exit_code == 1
    assert 'pip install "outfold[plot]"' in answer.stderr


def test_the_page_opens_without_network_scripts_or_complaints(stage, tmp_path):
    """In a browser: what it shows, that words stay words, at two widths, light and dark."""
    browser_path = shutil.which("chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")
    if browser_path is None:
        pytest.skip("the browser test needs chromium")
    assert call("helix", "--out", tmp_path, "--quiet").output == ""
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with warnings.catch_warnings(), sync.sync_playwright() as playwright:
        warnings.simplefilter("ignore")
        browser = playwright.chromium.launch(executable_path=browser_path, args=flags)
        for width, scheme in ((1280, "light"), (390, "dark")):
            view = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said, asked = [], []
            view.on("console", lambda message, said=said: said.append(message.text))
            view.on("pageerror", lambda error, said=said: said.append(str(error)))
            view.on("dialog", lambda dialog, said=said: said.append(dialog.message))
            view.on("request", lambda request, asked=asked: asked.append(request.url))
            view.goto((tmp_path / "index.html").as_uri())
            assert said == []
            assert all(url.startswith(("file:", "data:")) for url in asked)
            assert view.locator("section").count() == 1
            assert view.locator("script").count() == 0
            assert view.locator("tbody tr").first.inner_text().split() == ["sigma", "0.177", "0.176", "agrees"]
            assert HOSTILE in view.locator("figcaption").inner_text()
            loaded = view.locator("figure img").evaluate("image => image.complete && image.naturalWidth")
            assert loaded == 640
            assert view.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
