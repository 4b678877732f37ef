"""What can be told about a new point, and how far off its position may be.

Four facts about a point say how well the training data pins it down: its support (log kernel mass), its distance to
the nearest training point in local units, the residual kernel 1 - k(x, .) K^-1 k(., x) (what the training points
leave unexplained of x; Wang, 2019, theorem 5), and how far two extensions disagree. Held-out rows, whose error is
known, tell how errors grow with the facts: log error is a linear function of them, and the ratio of error to that
function has a quantile. The product is the band.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import neighbors
from .distances import bounded
from .extensions import KernelSum, Known, by_blocks, gaussian
from .runners import Threads
from .trust import Trust

Array = NDArray[Any]

CENTRES = 128  # that the second opinion is based on: it has to be cheap
NEIGHBOR = 8  # the local unit is the distance to this neighbour
RIDGE = 1e-3
FLOOR = 1e-12


@dataclass(frozen=True)
class Witness:
    """A second opinion on any point: how near the data is, what a kernel leaves unexplained, another position."""

    search: Any
    unit: Array  # local unit of each point
    turn: Array  # (centres, functions): their squares sum up to k K^-1 k
    opinion: KernelSum

    @classmethod
    def of(cls, known: Known, runner: Threads) -> Witness:
        n = len(known.points)
        search = neighbors.build(known.metric.fit(known.points), "auto")
        k = min(NEIGHBOR, n - 1)
        lists = search.closest(known.points, k + 1, runner)
        reach = np.sqrt(lists.squared[lists.ptr[:-1] + k])
        unit = np.maximum(reach, 0.1 * np.median(reach) + np.finfo(float).tiny)
        found = known.spectrum(known.scales(CENTRES)[0], CENTRES, runner)
        opinion = found.model(known, 1 / (found.values + RIDGE))
        return cls(search, unit, found.explained(), opinion)

    def facts(self, Z: Array, runner: Threads) -> tuple[Array, Array, Array]:
        """Distance in local units, residual kernel and another position of each row."""
        distances, mean, (epsilon, coefficients) = self.opinion.distances, self.opinion.mean, self.opinion.levels[0]

        def of(points: Array) -> Array:
            lists = self.search.closest(bounded(points), 1, Threads(1))
            first = lists.ptr[:-1]
            away = np.sqrt(lists.squared[first]) / self.unit[lists.index[first]]
            seen = gaussian(distances, points, epsilon)
            explained = np.square(seen @ self.turn).sum(axis=1)
            return np.column_stack([away, np.clip(1 - explained, 0.0, 1.0), seen @ coefficients + mean])

        columns = 2 + len(mean)
        found = by_blocks(of, Z, columns, max(len(self.turn), neighbors.row_entries(self.search)), runner)
        return found[:, 0], found[:, 1], found[:, 2:]


def judged(trust: Trust, embedding: Array, witness: Witness | None, Z: Array, runner: Threads) -> Trust:
    """The evidence with all that a witness can add to it."""
    if witness is None:
        return trust
    distance, residual, other = witness.facts(Z, runner)
    return replace(trust, distance=distance, residual=residual, disagreement=np.linalg.norm(other - embedding, axis=1))


def _features(trust: Trust) -> Array:
    """What log errors are told by."""
    columns = [np.maximum(trust.support, -50.0)]
    if trust.distance is not None and trust.residual is not None and trust.disagreement is not None:
        columns += [np.log(part + floor) for part, floor in ((trust.distance, 1e-3), (trust.residual, 1e-6))]
        columns.append(np.log(trust.disagreement + FLOOR))
    return np.column_stack(columns)


@dataclass(frozen=True)
class Calibration:
    """log error = a + b . facts, and the sorted ratios of held-out errors to it."""

    lowest: Array
    highest: Array  # facts are held within what was seen
    centre: Array
    slopes: Array
    scores: Array
    effective: float  # as many independent rows say as much: rows of a fold err together

    @classmethod
    def of(cls, held: Iterable[tuple[Trust, Array]]) -> Calibration:
        """From the evidence and the errors of held-out rows, fold by fold. Rows outside the data do not count."""
        parts = [(_features(trust)[~trust.flag], error[~trust.flag]) for trust, error in held]
        facts, errors = np.vstack([f for f, _ in parts]), np.concatenate([e for _, e in parts])
        if len(errors) < 20:
            raise ValueError(
                f"Calibration needs at least 20 held-out rows inside the data; there are {len(errors)}. Pass more rows."
            )
        floor = max(FLOOR, 1e-6 * float(np.median(errors)))
        logs = np.log(np.maximum(errors, floor))
        lowest, highest = facts.min(axis=0), facts.max(axis=0)
        spread = facts.std(axis=0)
        centred = (facts - facts.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        gram = centred.T @ centred + len(logs) * 1e-2 * np.eye(facts.shape[1])
        slopes = np.linalg.solve(gram, centred.T @ (logs - logs.mean())) / np.where(spread > 0, spread, 1.0)
        centre = facts.mean(axis=0)
        shrink = np.sqrt((len(parts) - 1) / (len(parts) + 1))
        scores = shrink * errors / np.exp((facts - centre) @ slopes)
        effective = _effective(np.log(np.maximum(scores, floor)), [len(e) for _, e in parts])
        return cls(lowest, highest, centre, slopes, np.sort(scores), effective)

    def radius(self, trust: Trust, coverage: float) -> Array:
        """Within this distance of its position a row would be after a fit with it; inf outside the data."""
        facts = np.clip(_features(trust), self.lowest, self.highest)
        level = min(1.0, coverage * (1 + 0.5 / self.effective))  # a quantile of few is too low on average
        radius = np.quantile(self.scores, level) * np.exp((facts - self.centre) @ self.slopes)
        return np.where(trust.flag, np.inf, radius)


def _effective(logs: Array, sizes: list[int]) -> float:
    """Rows over the design effect 1 + (rows a fold - 1) rho, rho the correlation of rows of one fold."""
    groups = np.split(logs, np.cumsum(sizes)[:-1])
    groups = [g for g in groups if len(g) > 1]
    if len(groups) < 2:
        return float(len(logs))
    size = float(np.mean([len(g) for g in groups]))
    within = float(np.mean([g.var(ddof=1) for g in groups]))
    between = max(0.0, float(np.var([g.mean() for g in groups], ddof=1)) - within / size)
    rho = between / max(between + within, np.finfo(float).tiny)
    return len(logs) / (1 + (size - 1) * rho)
