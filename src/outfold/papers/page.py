"""Run experiments and write the results: pictures and a record for each, and one page for all of them."""

from __future__ import annotations

import base64
import html
import importlib.metadata
import json
import math
import platform
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .._version import __version__
from ..data.writers import replacing
from . import EXPERIMENT_NAMES
from .record import Effort, Experiment, Finding, NotAtHand, Record, ResultTable, Value

RECORD = "result.json"
COLUMNS = ("figure", "ours", "paper", "verdict", "remark")
TITLE = "Outfold: the papers' experiments"
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
    seconds = round(time.perf_counter() - start, 1)
    pictures = [{"file": f"{picture.name}.png", "caption": picture.caption} for picture in outcome.pictures]
    findings = [Finding(**{**vars(line), "ours": _plain(line.ours)}) for line in outcome.findings]
    tables = [
        ResultTable(table.title, list(table.columns), [[_plain(cell) for cell in row] for row in table.rows])
        for table in outcome.tables
    ]
    versions = {"outfold": __version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _LIBRARIES}
    record = Record(
        name=experiment.name,
        title=experiment.title,
        source=experiment.source,
        settings=experiment.settings,
        seconds=seconds,
        seed=effort.seed,
        repeats=effort.repeats,
        versions=versions,
        findings=findings,
        tables=tables,
        pictures=pictures,
        notes=_notes(heard),
    )
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    for picture in outcome.pictures:
        with replacing(folder / f"{picture.name}.png") as beside:
            picture.figure.savefig(beside, format="png", dpi=100)
    _write(folder / RECORD, json.dumps(record.as_dict(), indent=1, ensure_ascii=False, allow_nan=False))
    for old in folder.glob("*.png"):  # last: until then the old record may still name it
        if old.stem not in {picture.name for picture in outcome.pictures}:
            old.unlink()
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


def _plain(value: Value) -> Value:
    """Return the value for JSON, which has no NaN and no infinity: these become text."""
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else str(float(value))


def _write(path: Path, text: str) -> None:
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


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


# -- the page: no scripts, no network access; all text is escaped --------------------------

STYLE = """
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
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def _html(records: list[Record], out: Path) -> str:
    lines = [finding for record in records for finding in record.findings]
    agree, differ = (sum(line.agrees is answer for line in lines) for answer in (True, False))
    count = (
        f"{len(records)} experiments, {len(lines)} figures: {agree} agree with the papers, {differ} differ (each says "
        f"why), {len(lines) - agree - differ} have nothing there to compare with. Outfold {__version__}."
    )
    toc = "".join(f'<li><a href="#{text(r.name)}">{text(r.title)}</a></li>' for r in records)
    body = f"<h1>The papers’ experiments, run again</h1><p>{text(count)}</p><nav><ul>{toc}</ul></nav>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{text(TITLE)}</title><style>{STYLE}</style></head><body><main>{body}"
        f"{''.join(_section(record, out) for record in records)}</main></body></html>\n"
    )


def _section(record: Record, out: Path) -> str:
    findings = [
        _cell(what) + _cell(ours, "figure") + _cell(paper, "figure") + _cell(word, str(word).split()[0]) + _cell(why)
        for what, ours, paper, word, why in map(line, record.findings)
    ]
    parts = [
        f'<section id="{text(record.name)}"><h2>{text(record.title)}</h2>',
        f'<p class="soft">{text(record.source)} · <code>outfold reproduce {text(record.name)}</code> · '
        f"{record.seconds:.0f} s</p><p>{text(record.settings)}</p>",
        _table([*COLUMNS[:3], "", COLUMNS[4]], findings),
    ]
    for table in record.tables:
        rows = ["".join(_cell(cell, "figure") for cell in row) for row in table.rows]
        parts.append(f"<h3>{text(table.title)}</h3>{_table(table.columns, rows)}")
    parts += [f'<p class="soft">{text(note)}</p>' for note in record.notes]
    for picture in record.pictures:
        data = base64.b64encode((out / record.name / picture["file"]).read_bytes()).decode("ascii")
        caption = text(picture["caption"])
        parts.append(f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">')
        parts.append(f"<figcaption>{caption}</figcaption></figure>")
    return "".join([*parts, "</section>"])


def _table(columns: Iterable[str], rows: Iterable[str]) -> str:
    """Return the HTML of a table; ``rows`` are the HTML of their cells."""
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Value | None, kind: str = "") -> str:
    return f'<td class="{kind}">{text(describe(value))}</td>' if kind else f"<td>{text(describe(value))}</td>"


def text(words: str) -> str:
    """Return ``words`` escaped for HTML."""
    return html.escape(words, quote=True)
