"""Output of the commands (lines, progress, notes, JSON), and the checks and helpers that several commands use."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def check_different_files(data: str, *places: Path | None) -> None:
    """Refuse to write to the input file, or to write two outputs to one file."""
    given = [path.resolve() for path in places if path is not None and str(path) != "-"]
    if len(set(given)) != len(given) or (data != "-" and Path(data).resolve() in given):
        raise click.UsageError("What is read and what is written must be different files.")


def open_model(model: Path) -> tuple[Any, Any]:
    """Return the estimator and its preparation. A model saved from Python has none: its columns are used unscaled."""
    from ... import storage
    from ...data.columns import Preparation
    from ...exceptions import ModelFileError

    if not model.exists():
        raise click.UsageError(f"There is no model {model}. Make one: outfold fit DATA --save {model.name}")
    estimator, preparation = storage.open_model(model)
    if preparation is None:
        names = tuple(map(str, getattr(estimator, "feature_names_in_", ())))
        count = estimator.n_features_in_
        columns = names or tuple(f"column_{at}" for at in range(1, count + 1))
        preparation = Preparation(columns, named=bool(names), width=count)
    if not isinstance(preparation, Preparation) or len(preparation.columns) != estimator.n_features_in_:
        raise ModelFileError(f"{model.name} holds a model and columns that do not belong together.")
    return estimator, preparation


def check_drawable(estimator: Any) -> None:
    """Refuse a picture before any work, if it needs more coordinates or matplotlib is missing."""
    from ... import plotting

    if getattr(estimator, "n_components", 2) == 1:
        raise click.UsageError("A picture needs at least 2 coordinates: --components 2.")
    plotting.panels(1)  # without matplotlib this raises, and says what to install


def prepare_table(
    teller: Console, table: Any, columns: list[str] | None, id_: str | None, label: str | None, scale: str
) -> Any:
    """Return the features of a table, and print which rows and columns are used and which are left out."""
    from ...data import tables
    from ...data.columns import Prepared, prepare

    if table.named is False:
        teller.row(
            "header", f"{table.told} names no columns: they are {tables.join_names(table.numeric, 3)}", named=False
        )
    with teller.progress("reading") as watch:
        found, missing = prepare(table, columns=columns, id=id_, label=label, scaling=scale, watch=watch)
    kept = missing.rows - missing.left_out
    teller.row("rows", f"{kept} of {missing.rows} used" if missing.left_out else f"{kept}", rows=kept)
    if missing.left_out:
        teller.row("left out", f"{missing.describe(table)}", rows_left_out=missing.left_out)
    teller.row(
        "columns", f"{len(found.columns)} used: {tables.join_names(found.columns, 8)}", columns=list(found.columns)
    )
    tell_columns(teller, found)
    teller.row(
        "scaling", f"{found.scaling}: {found.describe()}" if scale != "none" else found.describe(), scaling=scale
    )
    if missing.rising and table.named:
        name = missing.rising[0]
        teller.note(
            f"{name!r} grows from row to row. If it names or numbers rows, pass --id {name}: it is no measurement."
        )
    lost = [(n, c) for n, c in zip(missing.features, missing.lacking) if c > 0.2 * missing.rows]
    if lost:
        name, count = max(lost, key=lambda pair: pair[1])
        teller.note(f"{name!r} lacks {count} of {missing.rows} values: --columns without it keeps more rows.")
    for name, cell, row in table.find_spoiled():
        if name in found.text:
            where = f"{table.unit} {table.places([row])[0]}"
            teller.note(f"{name!r} holds numbers, but {cell!r} in {where}: mend such cells, or empty them, to use it.")
    return Prepared(table, found, kept)


def tell_columns(teller: Console, preparation: Any) -> None:
    """Print which columns were left out, and why."""
    from ...data import tables

    for name, why, gone in preparation.describe_left_out():
        teller.row("left out", f"{why}: {tables.join_names(gone, 8)}", **{f"columns_{name}": list(gone)})


def tell_spectrum(teller: Console, estimator: Any) -> None:
    """Print the bandwidth and the first eigenvalues, if the method has them."""
    epsilon, values = (getattr(estimator, name, None) for name in ("epsilon_", "eigenvalues_"))
    if epsilon is not None and epsilon == epsilon:
        teller.row("epsilon", f"{epsilon:.4g}", epsilon=float(epsilon))
    if values is not None:
        shown = "  ".join(f"{value:.4g}" for value in values[:8])
        teller.row("spectrum", shown + (" ..." if len(values) > 8 else ""), eigenvalues=values)


def size_of(path: Path) -> str:
    """Return the size of a file as text, in kB or MB."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


PROGRESS_SECONDS = 10.0  # seconds between plain lines of progress


class Console:
    """Output of a command: lines for people, or one JSON object at the end (``machine``).

    Lines go to standard output, or to standard error if the table goes to standard output (``aside``).
    """

    def __init__(self, *, quiet: bool = False, machine: bool = False, aside: bool = False) -> None:
        self.quiet, self.machine, self.aside = quiet, machine, aside
        self.facts: dict[str, Any] = {}
        self.notes: list[str] = []

    @property
    def bars(self) -> bool:
        """Whether to draw progress bars: on a terminal, unless ``quiet`` or ``machine``."""
        return not self.quiet and not self.machine and sys.stderr.isatty()

    def row(self, name: str, text: str, **facts: Any) -> None:
        """Print one aligned line, and store ``facts`` for the JSON object."""
        self.facts.update(facts)
        if not self.quiet and not self.machine:
            click.echo(f"  {name:<9} {text}", err=self.aside)

    def title(self, text: str, **facts: Any) -> None:
        """Print a line without indentation, above the rows, and store ``facts`` for the JSON object."""
        self.facts.update(facts)
        if not self.quiet and not self.machine:
            click.echo(text, err=self.aside)

    def note(self, text: str) -> None:
        """Print a remark for the user, once, and store it for the JSON object."""
        if text not in self.notes:
            self.notes.append(text)
            self.row("note", text)

    @contextmanager
    def progress(self, title: str, rows: int | None = None) -> Iterator[Callable[[int], Any]]:
        """Yield a function to call with numbers of finished rows.

        It moves a bar on a terminal, and prints a line every ``PROGRESS_SECONDS`` elsewhere.
        """
        from ..._runtime.threads import Threads

        if self.bars or self.quiet or self.machine:
            with Threads(None, self.bars).bar(title, rows) as bar:
                yield bar.update
            return
        seen, last = 0, time.monotonic()

        def update(count: int) -> None:
            nonlocal seen, last
            seen += count
            if time.monotonic() - last >= PROGRESS_SECONDS:
                last = time.monotonic()
                click.echo(f"  {title}: {seen}{f' of {rows}' if rows else ''} rows", err=True)

        yield update

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Turn warnings that are raised inside the block into notes."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        for warning in heard:
            if not issubclass(warning.category, DeprecationWarning | PendingDeprecationWarning | ResourceWarning):
                self.note(str(warning.message))

    def finish(self) -> None:
        """Print the JSON object, if ``machine`` is set."""
        if self.machine:
            facts = plain({**self.facts, "notes": self.notes})
            click.echo(json.dumps(facts, ensure_ascii=False, allow_nan=False, default=str))


def plain(value: Any) -> Any:
    """Return ``value`` as JSON can store it: arrays become lists, numbers that are not finite become None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
