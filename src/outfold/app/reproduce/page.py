"""Where outcomes go: pictures and a record for each experiment, and one page over all of them."""

from __future__ import annotations

import base64
import html
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

from ..._version import __version__
from . import NAMES
from .record import Effort, Experiment, Finding, NotAtHand, Outcome, Record, Table, Value

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
    """Read the records that lie in ``out`` and write results.json, results.md and index.html over them."""
    files = [out / name / RECORD for name in NAMES]
    records = [Record.of(json.loads(file.read_text(encoding="utf-8"))) for file in files if file.is_file()]
    table = json.dumps([record.as_dict() for record in records], indent=1, ensure_ascii=False, allow_nan=False)
    _write(out / "results.json", table)
    _write(out / "results.md", "\n\n".join(map(markdown, records)) + "\n")
    _write(out / "index.html", _html(records, out))
    return records


def _notes(heard: list[warnings.WarningMessage]) -> list[str]:
    """Each kind of warning once, with how often it came."""
    kinds = Counter(warning.category.__name__ for warning in heard)
    first = {warning.category.__name__: str(warning.message) for warning in reversed(heard)}
    return [f"{kind}, {count} times, first: {first[kind]}" for kind, count in sorted(kinds.items())]


def _record(experiment: Experiment, effort: Effort, outcome: Outcome, seconds: float, notes: list[str]) -> Record:
    pictures = [{"file": f"{picture.name}.png", "caption": picture.caption} for picture in outcome.pictures]
    findings = [Finding(**{**vars(line), "ours": _plain(line.ours)}) for line in outcome.findings]
    tables = [
        Table(table.title, list(table.columns), [[_plain(cell) for cell in row] for row in table.rows])
        for table in outcome.tables
    ]
    versions = {"outfold": __version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _LIBRARIES}
    about = (experiment.name, experiment.title, experiment.source, experiment.settings)
    return Record(*about, round(seconds, 1), effort.seed, effort.repeats, versions, findings, tables, pictures, notes)


def _plain(value: Value) -> Value:
    """JSON has no NaN and no infinity."""
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else str(float(value))


def _write(path: Path, text: str) -> None:
    """The old file or the new one, never half of it."""
    half = path.with_name(path.name + ".part")
    half.write_text(text, encoding="utf-8")
    os.replace(half, path)


# -- how figures are told ------------------------------------------------------------------


def told(value: Value | None) -> str:
    """A figure as people read it.

    >>> told(0.0091734), told(2000.0), told("a circle"), told(None)
    ('0.00917', '2000', 'a circle', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"


def summary(record: Record) -> str:
    """A run in a line."""
    words = [verdict(line.agrees) for line in record.findings]
    return (
        f"{record.seconds:4.0f} s  {words.count('agrees')} agree, {words.count('differs')} differ, "
        f"{words.count('not compared')} not compared"
    )


def verdict(agrees: bool | None) -> str:
    return {True: "agrees", False: "differs", None: "not compared"}[agrees]


def markdown(record: Record) -> str:
    """The record as a section of Markdown."""
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
    """Its cells."""
    return finding.what, finding.ours, finding.paper, verdict(finding.agrees), finding.why


def grid(columns: Iterable[str], rows: Iterable[Iterable[Value | None]]) -> str:
    """A table in Markdown."""
    lines = [[str(column) for column in columns], *([told(cell) for cell in row] for row in rows)]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- the page ------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --line: #d5dbe2; --paper: #fff; --shade: #f4f6f8;
  --good: #11703c; --bad: #a8430a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #9aa6b4; --line: #3a434e; --paper: #14181d;
  --shade: #1d2329; --good: #5fd08f; --bad: #ffab6b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { margin: 0 0 .3rem; } h2 { margin: 3.2rem 0 .2rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { margin: 1.6rem 0 .4rem; font-size: 1rem; }
p { margin: .4rem 0; max-width: 52rem; } .soft { color: var(--soft); } a { color: inherit; }
code { background: var(--shade); padding: .1em .35em; border-radius: 4px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; margin: .8rem 0; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.figure { font-variant-numeric: tabular-nums; }
.agrees { color: var(--good); font-weight: 600; white-space: nowrap; }
.differs { color: var(--bad); font-weight: 600; white-space: nowrap; } .not { color: var(--soft); white-space: nowrap; }
figure { margin: 1.4rem 0; } figure img { max-width: 100%; height: auto; background: #fff;
  border: 1px solid var(--line); border-radius: 6px; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 52rem; }
""".strip()
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def _html(records: list[Record], out: Path) -> str:
    lines = [finding for record in records for finding in record.findings]
    agree, differ = (sum(line.agrees is answer for line in lines) for answer in (True, False))
    count = (
        f"{len(records)} experiments, {len(lines)} figures: {agree} agree with the papers, {differ} differ (each says "
        f"why), {len(lines) - agree - differ} have nothing there to compare with. Outfold {__version__}."
    )
    toc = "".join(f'<li><a href="#{_text(r.name)}">{_text(r.title)}</a></li>' for r in records)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Outfold: the papers' experiments</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>The papers’ experiments, run again</h1><p>{_text(count)}</p><nav><ul>{toc}</ul></nav>"
        + "".join(_section(record, out) for record in records)
        + "</main></body></html>\n"
    )


def _section(record: Record, out: Path) -> str:
    parts = [
        f'<section id="{_text(record.name)}"><h2>{_text(record.title)}</h2>',
        f'<p class="soft">{_text(record.source)} · <code>outfold reproduce {_text(record.name)}</code> · '
        f"{record.seconds:.0f} s</p>",
        f"<p>{_text(record.settings)}</p>",
        '<div class="wide"><table><thead><tr><th>figure</th><th>ours</th><th>paper</th><th></th><th>remark</th></tr>'
        "</thead><tbody>",
        *(_finding_row(finding) for finding in record.findings),
        "</tbody></table></div>",
        *(_html_table(table) for table in record.tables),
        *(f'<p class="soft">{_text(note)}</p>' for note in record.notes),
        *(_figure(out / record.name / picture["file"], picture["caption"]) for picture in record.pictures),
        "</section>",
    ]
    return "".join(parts)


def _finding_row(finding: Finding) -> str:
    word = verdict(finding.agrees)
    return (
        f'<tr><td>{_text(finding.what)}</td><td class="figure">{_text(told(finding.ours))}</td>'
        f'<td class="figure">{_text(told(finding.paper))}</td><td class="{word.split()[0]}">{word}</td>'
        f"<td>{_text(finding.why)}</td></tr>"
    )


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    rows = ("".join(f'<td class="figure">{_text(told(cell))}</td>' for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<h3>{_text(table.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _figure(file: Path, caption: str) -> str:
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="{_text(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_text(caption)}</figcaption></figure>"
    )


def _text(words: str) -> str:
    return html.escape(words, quote=True)
