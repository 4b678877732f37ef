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
from typing import TYPE_CHECKING

import click

from ..._runtime.jit import keep_quiet

if TYPE_CHECKING:
    from ...data.columns import Preparation
    from ...methods.base import SpectralEstimator

PROGRESS_SECONDS = 10.0  # seconds between plain lines of progress


class Console:
    """Output of a command: lines for people, or one JSON object at the end (``machine``).

    Lines go to standard output, or to standard error if the table goes to standard output (``aside``).
    """

    def __init__(self, quiet: bool = False, machine: bool = False) -> None:
        self.quiet, self.machine, self.aside = quiet, machine, False
        self.facts: dict[str, object] = {}
        self.notes: list[str] = []
        if quiet or machine:
            keep_quiet()

    def leave_output(self, out: Path | None) -> None:
        """Leave standard output to the table, if ``out`` says that it goes there."""
        self.aside = str(out) == "-"
        if self.aside and self.machine:
            raise click.UsageError("--json and -o - both want standard output: name a file for one of them.")

    @property
    def bars(self) -> bool:
        """Whether to draw progress bars: on a terminal, unless ``quiet`` or ``machine``."""
        return not self.quiet and not self.machine and sys.stderr.isatty()

    def row(self, name: str, text: str, **facts: object) -> None:
        """Print one aligned line, and store ``facts`` for the JSON object."""
        self.title(line(name, text), **facts)

    def title(self, text: str, **facts: object) -> None:
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
    def progress(self, title: str, rows: int | None = None) -> Iterator[Callable[[int], object]]:
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


def line(name: str, text: str) -> str:
    """Return one aligned line."""
    return f"  {name:<9} {text}"


def plain(value: object) -> object:
    """Return ``value`` as JSON can store it: arrays become lists, numbers that are not finite become None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- helpers of commands -------------------------------------------------------------------


def check_different_files(data: str, *places: Path | None) -> None:
    """Refuse to write to the input file, or to write two outputs to one file."""
    given = [path.resolve() for path in places if path is not None and str(path) != "-"]
    if len(set(given)) != len(given) or (data != "-" and Path(data).resolve() in given):
        raise click.UsageError("What is read and what is written must be different files.")


def open_model(model: Path) -> tuple[SpectralEstimator, Preparation]:
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
        preparation = Preparation(columns=columns, named=bool(names), width=count)
    if not isinstance(preparation, Preparation) or len(preparation.columns) != estimator.n_features_in_:
        raise ModelFileError(f"{model.name} holds a model and columns that do not belong together.")
    return estimator, preparation


def check_drawable(estimator: SpectralEstimator) -> None:
    """Refuse a picture before any work, if it needs more coordinates or matplotlib is missing."""
    from ... import plotting

    if getattr(estimator, "n_components", 2) == 1:
        raise click.UsageError("A picture needs at least 2 coordinates: --components 2.")
    plotting.panels(1)  # without matplotlib this raises, and says what to install


def tell_columns(teller: Console, preparation: Preparation) -> None:
    """Print which columns were left out, and why."""
    from ...data import tables

    for name, why, gone in preparation.describe_left_out():
        teller.row("left out", f"{why}: {tables.join_names(gone, 8)}", **{f"columns_{name}": list(gone)})


def tell_spectrum(teller: Console, estimator: SpectralEstimator) -> None:
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
