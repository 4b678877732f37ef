"""The papers' figures beside ours, from a finished ``outfold reproduce all --out DIR``, into docs/papers.md.

outfold reproduce all --out DIR
python benchmarks/papers.py DIR
"""

import json
import pathlib
import sys

import pages

from outfold.papers import page
from outfold.papers.record import Record


def table(record):
    return f"### {record.title}\n\n{page.grid(page.COLUMNS, map(page.line, record.findings))}"


def extensions(records):
    """The tables that compare extensions, in one."""
    columns, rows, titles = None, [], []
    for record in records:
        for found in record.tables:
            if found.columns[0] == "extension":
                columns = ["data", *found.columns]
                rows += [[record.name, *row] for row in found.rows]
                titles.append(f"{record.name}: {found.title}")
    return "\n\n".join([page.grid(columns, rows), *titles])


def main(folder):
    read = json.loads((pathlib.Path(folder) / "results.json").read_text(encoding="utf-8"))
    records = [Record.of(values) for values in read]
    times = ", ".join(f"{record.name} {record.seconds:.0f}" for record in records)
    total = sum(record.seconds for record in records)
    versions = ", ".join(f"{name} {version}" for name, version in records[0].versions.items())
    head = f"{total / 60:.1f} minutes on 2 cores (seconds: {times}); {versions}."
    pages.write("papers.md", "extensions", extensions(records))
    pages.write("papers.md", "results", "\n\n".join([head, *map(table, records)]))


if __name__ == "__main__":
    main(sys.argv[1])
