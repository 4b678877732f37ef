"""Error radii of new points, calibrated on held-out rows.

Four facts say how well the training data determines a point: its support (log kernel mass), its distance to the nearest
training point in local units, the residual kernel 1 - k(x, .) K^-1 k(., x) (the part of x that the training points do
not explain; Wang, 2019, theorem 5), and the distance between its embeddings by two extensions. The errors of held-out
rows show how errors grow with the facts: log error is fitted as a linear function of them. The error radius is the
exponential of that function, times a quantile of the held-out ratios of error to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import POSITIVE, Array, Axes
from ..trust import Judge, RowFacts, Trust
from .samples import KernelSum, Samples, by_blocks, gaussian

SECOND_OPINION_CENTRES = 128  # centres of the second extension: few, because it has to be cheap
CALIBRATION_RIDGE = 1e-3
SCORE_FLOOR = 1e-12
Described = TypeVar("Described", bound=RowFacts)


@dataclass(frozen=True)
class SecondOpinion:
    """The residual kernel, and the embedding by a second extension, for any point."""

    turn: Array  # (centres, functions): the squares of k(x, .) @ turn sum to k K^-1 k
    opinion: KernelSum  # the second extension

    @classmethod
    def of(cls, known: Samples, runner: Threads) -> SecondOpinion:
        found = known.spectrum(known.scales(SECOND_OPINION_CENTRES)[0], SECOND_OPINION_CENTRES, runner)
        opinion = found.model(known, 1 / (found.values + CALIBRATION_RIDGE))
        return cls(found.explain(), opinion)

    def add(self, facts: Described, embedding: Array, Z: Array, runner: Threads) -> Described:
        """Return the facts of rows with the residual kernel and the disagreement about their embedding."""
        distances, mean, (epsilon, coefficients) = self.opinion.distances, self.opinion.mean, self.opinion.levels[0]

        def of(points: Array) -> Array:
            seen = gaussian(distances, points, epsilon)
            explained = np.square(seen @ self.turn).sum(axis=1)
            return np.column_stack([np.clip(1 - explained, 0.0, 1.0), seen @ coefficients + mean])

        found = by_blocks(of, Z, 1 + len(mean), len(self.turn), runner)
        disagreement = np.linalg.norm(found[:, 1:] - embedding, axis=1)
        return replace(facts, residual=found[:, 0], disagreement=disagreement)


def _features(trust: RowFacts) -> Array:
    """Return the facts from which log errors are predicted, (n, 1) or (n, 4)."""
    columns = [np.maximum(trust.support, -50.0)]
    if trust.distance is not None and trust.residual is not None and trust.disagreement is not None:
        columns += [np.log(part + floor) for part, floor in ((trust.distance, 1e-3), (trust.residual, 1e-6))]
        columns.append(np.log(trust.disagreement + SCORE_FLOOR))
    return np.column_stack(columns)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """log error = a + b . facts, and the sorted ratios of held-out errors to it."""

    lowest: Annotated[Array, Axes("f")]  # facts are clipped to the range of the held-out rows
    highest: Annotated[Array, Axes("f")]
    centre: Annotated[Array, Axes("f")]
    slopes: Annotated[Array, Axes("f")]
    scores: Annotated[Array, Axes("s")]
    effective: Annotated[float, POSITIVE]  # effective number of independent rows: errors in one fold are correlated
    judge: Judge | None = None  # by all facts, of held-out rows; None: a file of 0.1.0
    notes: tuple[str, ...] = ()  # why the radii may not hold

    @classmethod
    def of(
        cls, held: Iterable[tuple[Trust, Array]], judge: Judge | None = None, notes: tuple[str, ...] = ()
    ) -> Calibration:
        """Fit to the evidence and the errors of held-out rows, fold by fold. Rows outside the data are left out.

        With ``notes`` the folds disagree, and the radii are those of the fold with the largest errors.
        """
        parts = [(_features(trust)[~trust.flag], error[~trust.flag]) for trust, error in held]
        facts, errors = np.vstack([f for f, _ in parts]), np.concatenate([e for _, e in parts])
        if len(errors) < 20:
            raise ValueError(
                f"Calibration needs at least 20 held-out rows inside the data; there are {len(errors)}. Pass more rows."
            )
        floor = max(SCORE_FLOOR, 1e-6 * float(np.median(errors)))
        logs = np.log(np.maximum(errors, floor))
        lowest, highest = facts.min(axis=0), facts.max(axis=0)
        spread = facts.std(axis=0)
        centred = (facts - facts.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        gram = centred.T @ centred + len(logs) * 1e-2 * np.eye(facts.shape[1])
        slopes = np.linalg.solve(gram, centred.T @ (logs - logs.mean())) / np.where(spread > 0, spread, 1.0)
        centre = facts.mean(axis=0)
        scores = errors / np.exp((facts - centre) @ slopes)
        sizes = [len(e) for _, e in parts]
        effective = _effective(np.log(np.maximum(scores, floor)), sizes)
        if notes:
            scores = max((g for g in np.split(scores, np.cumsum(sizes)[:-1]) if len(g)), key=np.median)
        return cls(
            lowest=lowest,
            highest=highest,
            centre=centre,
            slopes=slopes,
            scores=np.sort(scores),
            effective=effective,
            judge=judge,
            notes=notes,
        )

    def radius(self, trust: Trust, coverage: float) -> Array:
        """Return the error radius of each row, (n,); inf outside the data.

        With probability ``coverage``, a fit that includes the row would embed it within this distance.
        """
        facts = np.clip(_features(trust), self.lowest, self.highest)
        level = min(1.0, coverage * (1 + 0.5 / self.effective))  # a quantile of few samples is too low on average
        radius = np.quantile(self.scores, level) * np.exp((facts - self.centre) @ self.slopes)
        return np.where(trust.flag, np.inf, radius)


def _effective(logs: Array, sizes: list[int]) -> float:
    """Return rows / design effect, 1 + (rows per fold - 1) rho, with rho the correlation of rows of one fold."""
    groups = np.split(logs, np.cumsum(sizes)[:-1])
    groups = [g for g in groups if len(g) > 1]
    if len(groups) < 2:
        return float(len(logs))
    size = float(np.mean([len(g) for g in groups]))
    within = float(np.mean([g.var(ddof=1) for g in groups]))
    between = max(0.0, float(np.var([g.mean() for g in groups], ddof=1)) - within / size)
    rho = between / max(between + within, np.finfo(float).tiny)
    return len(logs) / (1 + (size - 1) * rho)
