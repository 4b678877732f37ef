"""A report: one page that needs nothing else, and nothing from outside ends a script."""

import json
import re

from click.testing import CliRunner

from outfold.app.cli.main import main


def done(*words):
    answer = CliRunner().invoke(main, [str(word) for word in words])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_report_is_one_page_that_needs_nothing_else(folder):
    out = folder / "one.html"
    done("report", folder / "m.outfold", folder / "a.csv", "-o", out)
    text = out.read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'sha256-" in text
    assert re.findall(r'(?:src|href)="([^"]*)"', re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)) == [
        "data:,"
    ]
    told = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)[1])
    assert told["model"]["method"] == "DiffusionMaps"
    assert ["scaling", "each column centred and divided by its standard deviation"] in told["model"]["columns"]
    assert {name for name, _ in told["model"]["fit"]} >= {"data", "epsilon", "graph", "spectrum", "solver"}
    assert len(told["spectrum"]["values"]) == 5
    assert told["live"] is None
    assert (
        "--label names a column of DATA"
        in CliRunner().invoke(main, ["report", str(folder / "m.outfold"), "--label", "kind", "-o", str(out)]).stderr
    )


def test_nothing_from_outside_ends_a_script_element(folder):
    done("report", folder / "evil.outfold", folder / "evil.csv", "-o", folder / "evil.html")
    text = (folder / "evil.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("</script>") == text.count("<script ") + text.count("<script>")
