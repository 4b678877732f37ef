"""What an experiment is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from ...runners import Threads

Item = TypeVar("Item")
Value = float | str


@dataclass(frozen=True)
class Effort:
    """How an experiment is run: from which seed, and how often what is repeated (None: as in the paper)."""

    seed: int = 0
    repeats: int | None = None
    verbose: bool = False

    def times(self, paper: int) -> int:
        """How many repeats, where the paper has so many."""
        return paper if self.repeats is None else min(self.repeats, paper)

    def random(self, *key: int) -> np.random.Generator:
        """A stream of its own for each key: what one part draws does not depend on the others."""
        return np.random.default_rng([self.seed, *key])

    def walk(self, items: Iterable[Item], title: str) -> Iterator[Item]:
        """The items, with a bar."""
        items = list(items)
        with Threads(verbose=self.verbose).bar(title, len(items), unit="run") as bar:
            for item in items:
                yield item
                bar.update()


@dataclass(frozen=True)
class Finding:
    """One line of the table: our figure beside the paper's."""

    what: str
    ours: Value
    paper: Value | None  # None: the paper shows a picture, or nothing
    agrees: bool | None  # None: nothing to agree with
    why: str = ""  # the reason of a difference, or what to know about the figure


@dataclass(frozen=True)
class Table:
    """Figures that have no single counterpart: a curve, a grid of settings."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file, and what to see in it."""

    name: str
    figure: Any  # of matplotlib
    caption: str


@dataclass(frozen=True)
class Outcome:
    """All that a run found."""

    findings: Sequence[Finding]
    pictures: Sequence[Picture]
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper: what it is called, whose it is, its settings, and how it is run."""

    name: str
    title: str
    source: str  # the citation
    settings: str  # as the paper has them, and where we had to choose
    run: Callable[[Effort], Outcome]


@dataclass(frozen=True)
class Record:
    """An outcome on disk: plain values, and names of picture files."""

    name: str
    title: str
    source: str
    settings: str
    seconds: float
    seed: int
    repeats: int | None
    versions: dict[str, str]
    findings: list[Finding]
    tables: list[Table]
    pictures: list[dict[str, str]]  # file, caption
    notes: list[str]  # what the library warned of on the way

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Record:
        findings = [Finding(**line) for line in values["findings"]]
        return cls(**{**values, "findings": findings, "tables": [Table(**table) for table in values["tables"]]})


def compared(what: str, ours: float, paper: float, *, within: float, why: str = "") -> Finding:
    """A figure that should be the paper's, give or take a share of it.

    >>> compared("sigma", 0.18, 0.1756, within=0.05).agrees
    True
    """
    return Finding(what, float(ours), float(paper), bool(abs(ours - paper) <= within * abs(paper)), why)


def claimed(what: str, ours: Value, paper: str, holds: bool, why: str = "") -> Finding:
    """What the paper says in words, and whether it is so."""
    return Finding(what, ours if isinstance(ours, str) else float(ours), paper, bool(holds), why)


def measured(what: str, ours: Value, why: str = "") -> Finding:
    """A figure the paper has none for."""
    return Finding(what, ours if isinstance(ours, str) else float(ours), None, None, why)


class NotAtHand(OSError):
    """What an experiment needs, its data or PyTorch, is neither here nor to be had."""
