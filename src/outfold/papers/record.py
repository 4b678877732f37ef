"""Classes for an experiment, its settings and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from .._runtime.threads import Threads

Item = TypeVar("Item")
Value = float | str


@dataclass(frozen=True)
class Effort:
    """The settings of a run: the seed, and the largest number of repeats (None: as many as in the paper)."""

    seed: int = 0
    repeats: int | None = None
    verbose: bool = False

    def times(self, paper: int) -> int:
        """Return the number of repeats: that of the paper, ``paper``, but at most ``repeats``."""
        return paper if self.repeats is None else min(self.repeats, paper)

    def random(self, *key: int) -> np.random.Generator:
        """Return a random generator for this key: what one part draws does not depend on the others."""
        return np.random.default_rng([self.seed, *key])

    def walk(self, items: Iterable[Item], title: str) -> Iterator[Item]:
        """Yield the items, with a progress bar."""
        items = list(items)
        with Threads(verbose=self.verbose).bar(title, len(items), unit="run") as bar:
            for item in items:
                yield item
                bar.update()


@dataclass(frozen=True)
class Finding:
    """One line of the table: our result next to the paper's."""

    what: str
    ours: Value
    paper: Value | None  # None: the paper shows a picture, or nothing
    agrees: bool | None  # None: nothing to agree with
    why: str = ""  # the reason for a difference, or a remark on the result


@dataclass(frozen=True)
class ResultTable:
    """A table of results without a single number in the paper to compare with: a curve, a grid of settings."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file, and its caption."""

    name: str
    figure: Any  # a matplotlib figure
    caption: str


@dataclass(frozen=True)
class Outcome:
    """All results of a run."""

    findings: Sequence[Finding]
    pictures: Sequence[Picture]
    tables: Sequence[ResultTable] = ()


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper: name, title, citation, settings, and the function that runs it."""

    name: str
    title: str
    source: str  # the citation
    settings: str  # settings of the paper, and our choices where it gives none
    run: Callable[[Effort], Outcome]


@dataclass(frozen=True)
class Record:
    """An outcome as stored in a JSON file: plain values, and the names of picture files."""

    name: str
    title: str
    source: str
    settings: str
    seconds: float
    seed: int
    repeats: int | None
    versions: dict[str, str]
    findings: list[Finding]
    tables: list[ResultTable]
    pictures: list[dict[str, str]]  # file, caption
    notes: list[str]  # warnings of the library during the run

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Record:
        findings = [Finding(**line) for line in values["findings"]]
        return cls(**{**values, "findings": findings, "tables": [ResultTable(**table) for table in values["tables"]]})


def comparison(what: str, ours: float, paper: float, *, within: float, why: str = "") -> Finding:
    """Return a finding that agrees if ``ours`` differs from ``paper`` by at most ``within`` times ``paper``.

    >>> comparison("sigma", 0.18, 0.1756, within=0.05).agrees
    True
    """
    return Finding(what, float(ours), float(paper), bool(abs(ours - paper) <= within * abs(paper)), why)


def assertion(what: str, ours: Value, paper: str, holds: bool, why: str = "") -> Finding:
    """Return a finding about a statement of the paper in words, and whether it holds."""
    return Finding(what, ours if isinstance(ours, str) else float(ours), paper, bool(holds), why)


def measurement(what: str, ours: Value, why: str = "") -> Finding:
    """Return a finding for which the paper has no number and no statement."""
    return Finding(what, ours if isinstance(ours, str) else float(ours), None, None, why)


class NotAtHand(OSError):
    """The data of an experiment, or PyTorch, is not on this machine and cannot be downloaded."""
