"""Run experiments and write the results: pictures and a record for each, and one page for all of them."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .._version import __version__
from . import EXPERIMENT_NAMES, html
from .html import text
from .record import Effort, Experiment, Finding, NotAtHand, Outcome, Record, ResultTable, Value

RECORD = "result.json"
COLUMNS = ("figure", "ours", "paper", "verdict", "remark")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")


def run(experiment: Experiment, effort: Effort, out: Path) -> Record:
    """Run one experiment and write its pictures and record into ``out/<name>``."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            outcome = experiment.run(effort)
        except OSError as error:
            raise NotAtHand(str(error)) from error
    record = _record(experiment, effort, outcome, time.perf_counter() - start, _notes(heard))
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    for picture in outcome.pictures:
        picture.figure.savefig(folder / f"{picture.name}.png", dpi=100)
    _write(folder / RECORD, json.dumps(record.as_dict(), indent=1, ensure_ascii=False, allow_nan=False))
    return record


def assemble(out: Path) -> list[Record]:
    """Read all records in ``out``, write results.json, results.md and index.html from them, and return them."""
    files = [out / name / RECORD for name in EXPERIMENT_NAMES]
    records = [Record.of(json.loads(file.read_text(encoding="utf-8"))) for file in files if file.is_file()]
    table = json.dumps([record.as_dict() for record in records], indent=1, ensure_ascii=False, allow_nan=False)
    _write(out / "results.json", table)
    _write(out / "results.md", "\n\n".join(map(markdown, records)) + "\n")
    _write(out / "index.html", _html(records, out))
    return records


def _notes(heard: list[warnings.WarningMessage]) -> list[str]:
    """Return a note for each kind of warning, with its count and the first message."""
    kinds = Counter(warning.category.__name__ for warning in heard)
    first = {warning.category.__name__: str(warning.message) for warning in reversed(heard)}
    return [f"{kind}, {count} times, first: {first[kind]}" for kind, count in sorted(kinds.items())]


def _record(experiment: Experiment, effort: Effort, outcome: Outcome, seconds: float, notes: list[str]) -> Record:
    pictures = [{"file": f"{picture.name}.png", "caption": picture.caption} for picture in outcome.pictures]
    findings = [Finding(**{**vars(line), "ours": _plain(line.ours)}) for line in outcome.findings]
    tables = [
        ResultTable(table.title, list(table.columns), [[_plain(cell) for cell in row] for row in table.rows])
        for table in outcome.tables
    ]
    versions = {"outfold": __version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _LIBRARIES}
    about = (experiment.name, experiment.title, experiment.source, experiment.settings)
    return Record(*about, round(seconds, 1), effort.seed, effort.repeats, versions, findings, tables, pictures, notes)


def _plain(value: Value) -> Value:
    """Return the value for JSON, which has no NaN and no infinity: these become text."""
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else str(float(value))


def _write(path: Path, text: str) -> None:
    """Write through a temporary file, so that ``path`` is always the old file or the complete new one."""
    half = path.with_name(path.name + ".part")
    half.write_text(text, encoding="utf-8")
    os.replace(half, path)


# -- text ----------------------------------------------------------------------------------


def describe(value: Value | None) -> str:
    """Return a result as text with three significant digits; whole numbers in full.

    >>> describe(0.0091734), describe(2000.0), describe("a circle"), describe(None)
    ('0.00917', '2000', 'a circle', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"


def summary(record: Record) -> str:
    """Return one line about a run: seconds, and how many results agree with the paper."""
    words = [verdict(line.agrees) for line in record.findings]
    return (
        f"{record.seconds:4.0f} s  {words.count('agrees')} agree, {words.count('differs')} differ, "
        f"{words.count('not compared')} not compared"
    )


def verdict(agrees: bool | None) -> str:
    return {True: "agrees", False: "differs", None: "not compared"}[agrees]


def markdown(record: Record) -> str:
    """Return the record as a section of Markdown."""
    parts = [
        f"## {record.title}",
        f"`outfold reproduce {record.name}` · {record.source} · {record.seconds:.0f} s",
        record.settings,
        grid(COLUMNS, map(line, record.findings)),
    ]
    parts += [f"**{table.title}**\n\n{grid(table.columns, table.rows)}" for table in record.tables]
    parts += [f"*{note}*" for note in record.notes]
    parts += [f"![{picture['caption']}]({record.name}/{picture['file']})" for picture in record.pictures]
    return "\n\n".join(parts)


def line(finding: Finding) -> tuple[Value | None, ...]:
    """Return the cells of a finding, in the order of ``COLUMNS``."""
    return finding.what, finding.ours, finding.paper, verdict(finding.agrees), finding.why


def grid(columns: Iterable[str], rows: Iterable[Iterable[Value | None]]) -> str:
    """Return a table in Markdown."""
    lines = [[str(column) for column in columns], *([describe(cell) for cell in row] for row in rows)]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- the page ------------------------------------------------------------------------------


def _html(records: list[Record], out: Path) -> str:
    lines = [finding for record in records for finding in record.findings]
    agree, differ = (sum(line.agrees is answer for line in lines) for answer in (True, False))
    count = (
        f"{len(records)} experiments, {len(lines)} figures: {agree} agree with the papers, {differ} differ (each says "
        f"why), {len(lines) - agree - differ} have nothing there to compare with. Outfold {__version__}."
    )
    toc = "".join(f'<li><a href="#{text(r.name)}">{text(r.title)}</a></li>' for r in records)
    body = f"<h1>The papers’ experiments, run again</h1><p>{text(count)}</p><nav><ul>{toc}</ul></nav>" + "".join(
        _section(record, out) for record in records
    )
    return html.page("Outfold: the papers' experiments", body)


def _section(record: Record, out: Path) -> str:
    parts = [
        f'<section id="{text(record.name)}"><h2>{text(record.title)}</h2>',
        f'<p class="soft">{text(record.source)} · <code>outfold reproduce {text(record.name)}</code> · '
        f"{record.seconds:.0f} s</p>",
        f"<p>{text(record.settings)}</p>",
        '<div class="wide"><table><thead><tr><th>figure</th><th>ours</th><th>paper</th><th></th><th>remark</th></tr>'
        "</thead><tbody>",
        *(_finding_row(finding) for finding in record.findings),
        "</tbody></table></div>",
        *(_html_table(table) for table in record.tables),
        *(f'<p class="soft">{text(note)}</p>' for note in record.notes),
        *(
            html.figure((out / record.name / picture["file"]).read_bytes(), picture["caption"])
            for picture in record.pictures
        ),
        "</section>",
    ]
    return "".join(parts)


def _finding_row(finding: Finding) -> str:
    word = verdict(finding.agrees)
    return (
        f'<tr><td>{text(finding.what)}</td><td class="figure">{text(describe(finding.ours))}</td>'
        f'<td class="figure">{text(describe(finding.paper))}</td><td class="{word.split()[0]}">{word}</td>'
        f"<td>{text(finding.why)}</td></tr>"
    )


def _html_table(table: ResultTable) -> str:
    rows = ([describe(cell) for cell in row] for row in table.rows)
    return f"<h3>{text(table.title)}</h3>{html.table(table.columns, rows)}"
