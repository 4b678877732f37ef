"""What a command says: aligned lines for people, or one JSON object for machines."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

EVERY = 10.0  # seconds between plain lines of progress


class Teller:
    """Lines as things happen, on standard output unless a table goes there; facts, once, if machines listen."""

    def __init__(self, *, quiet: bool = False, machine: bool = False, aside: bool = False) -> None:
        self.quiet, self.machine, self.aside = quiet, machine, aside
        self.facts: dict[str, Any] = {}
        self.notes: list[str] = []

    @property
    def bars(self) -> bool:
        """Whether somebody looks at progress."""
        return not self.quiet and not self.machine and sys.stderr.isatty()

    def row(self, name: str, text: str, **facts: Any) -> None:
        """One aligned line, and what it says as data."""
        self.facts.update(facts)
        if not self.quiet and not self.machine:
            click.echo(f"  {name:<9} {text}", err=self.aside)

    def title(self, text: str, **facts: Any) -> None:
        """A line of its own, before the rows."""
        self.facts.update(facts)
        if not self.quiet and not self.machine:
            click.echo(text, err=self.aside)

    def note(self, text: str) -> None:
        """Something to think about."""
        if text not in self.notes:
            self.notes.append(text)
            self.row("note", text)

    @contextmanager
    def progress(self, title: str, rows: int | None = None) -> Iterator[Callable[[int], Any]]:
        """A function to tell how many rows went by: a bar on a terminal, else a plain line now and then."""
        from ..runners import Threads

        if self.bars or self.quiet or self.machine:
            with Threads(None, self.bars).bar(title, rows) as bar:
                yield bar.update
            return
        seen, last = 0, time.monotonic()

        def update(count: int) -> None:
            nonlocal seen, last
            seen += count
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                click.echo(f"  {title}: {seen}{f' of {rows}' if rows else ''} rows", err=True)

        yield update

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Warnings inside become notes."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        for warning in heard:
            if not issubclass(warning.category, DeprecationWarning | PendingDeprecationWarning | ResourceWarning):
                self.note(str(warning.message))

    def finish(self) -> None:
        """The JSON object, if machines listen."""
        if self.machine:
            facts = plain({**self.facts, "notes": self.notes})
            click.echo(json.dumps(facts, ensure_ascii=False, allow_nan=False, default=str))


def plain(value: Any) -> Any:
    """As JSON has it: no arrays, no NaN."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
