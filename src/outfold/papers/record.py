"""Classes for an experiment, its settings and its results, and what several experiments draw and print alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np

from .. import plotting
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..methods.base import SpectralEstimator

Item = TypeVar("Item")
Value = float | str
BARS: dict[str, Any] = {"marker": "o", "markersize": 4, "capsize": 3, "color": "#4477aa"}  # how error bars are drawn


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

    def draws(self, paper: int, title: str) -> Iterator[int]:
        """Yield the numbers of the repeats, at most ``paper``, with a progress bar."""
        return self.walk(range(self.times(paper)), title)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the table: our result next to the paper's."""

    what: str
    ours: Value
    paper: Value | None = None  # None: the paper shows a picture, or nothing
    agrees: bool | None = None  # None: nothing to agree with
    why: str = ""  # the reason for a difference, or a remark on the result

    def against(self, paper: str, holds: bool | np.bool_ | None, why: str = "") -> Finding:
        """Return the finding with a statement of the paper in words, and whether it holds (None: not compared).

        >>> measurement("accuracy", 0.97).against("nearly perfect", 0.97 > 0.95).agrees
        True
        """
        return replace(self, paper=paper, agrees=None if holds is None else bool(holds), why=why)

    def near(self, paper: float, *, within: float, why: str = "") -> Finding:
        """Return the finding with a number of the paper; it agrees if both differ by at most ``within`` times it.

        >>> measurement("sigma", 0.18).near(0.1756, within=0.05).agrees
        True
        """
        agrees = bool(abs(float(self.ours) - paper) <= within * abs(paper))
        return replace(self, paper=float(paper), agrees=agrees, why=why)


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

    @classmethod
    def row(
        cls,
        name: str,
        caption: str,
        shown: Mapping[str, tuple[Array | SpectralEstimator, Array]],
        size: tuple[float, float] = (6.4, 4.8),
    ) -> Picture:
        """Draw embeddings in a row; ``shown`` has points (or a fitted estimator) and colours by title."""
        figure, (row,) = plotting.grid(1, len(shown), size=size)
        for axes, (title, (points, colors)) in zip(row, shown.items()):
            plotting.embedding(points, colors=colors, axes=axes, title=title)
        return cls(name, figure, caption)


@dataclass(frozen=True)
class Outcome:
    """All results of a run."""

    findings: Sequence[Finding]
    pictures: Sequence[Picture]
    tables: Sequence[ResultTable] = ()

    @classmethod
    def join(cls, parts: Iterable[Outcome]) -> Outcome:
        """Return the findings, pictures and tables of all parts."""
        outcomes = list(parts)
        return cls(
            [finding for part in outcomes for finding in part.findings],
            [picture for part in outcomes for picture in part.pictures],
            [table for part in outcomes for table in part.tables],
        )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment of a paper: name, title, citation, settings, and the function that runs it."""

    name: str
    title: str
    source: str  # the citation
    settings: str  # settings of the paper, and our choices where it gives none
    run: Callable[[Effort], Outcome]


@dataclass(frozen=True, kw_only=True)
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


def measurement(what: str, ours: Value, why: str = "") -> Finding:
    """Return a finding that is not compared; ``against`` adds what the paper says in words, ``near`` its number."""
    return Finding(what=what, ours=ours if isinstance(ours, str) else float(ours), why=why)


def relative_error(found: Array, wanted: Array) -> float:
    """Return the root mean squared distance of rows from those wanted, relative to the deviation of the latter."""
    return float(np.sqrt(((found - wanted) ** 2).sum() / ((wanted - wanted.mean(axis=0)) ** 2).sum()))


def plus_minus(runs: Array | Sequence[Sequence[float]], mean: str = ".4f", deviation: str = ".4f") -> list[str]:
    """Return "mean ± deviation" of each column over the runs, with these formats.

    >>> plus_minus([[1, 5], [3, 5]], ".1f", ".1f")
    ['2.0 ± 1.0', '5.0 ± 0.0']
    """
    pairs = zip(np.mean(runs, axis=0), np.std(runs, axis=0))
    return [f"{middle:{mean}} ± {spread:{deviation}}" for middle, spread in pairs]


class NotAtHand(OSError):
    """The data of an experiment, or PyTorch, is not on this machine and cannot be downloaded."""


def has_torch() -> bool:
    return find_spec("torch") is not None


def require_torch() -> None:
    """Raise ``NotAtHand`` where PyTorch is not installed."""
    if not has_torch():
        raise NotAtHand('networks are trained by PyTorch, which is not installed: pip install "outfold[neural]"')
