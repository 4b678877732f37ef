"""Where the training data lie: a sample of the training rows, which any row is compared with, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from .. import neighbors
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import NAN, SPARSE_ROWS, WEIGHTS, Array, Axes
from ..data.places import find_places, hash_rows
from ..data.sparse_rows import as_rows, stack_rows
from ..distances import Metric, clip_entries
from ..neighbors import Search
from ..trust import (
    ISOLATION_NEIGHBORS,
    REFERENCE_ROWS,
    SUPPORT,
    TAIL_SHARE,
    Isolation,
    Judge,
    PrincipalAxes,
    Reference,
    RowFacts,
    upper_tail,
)
from .samples import SEED, RowModel, by_blocks


@dataclass(frozen=True)
class TrainingSample:
    """Distinct training rows and their measure: all of them, or a random sample."""

    points: Annotated[Array, Axes("t d"), NAN, SPARSE_ROWS]
    measure: Annotated[Array, Axes("t"), WEIGHTS]

    @classmethod
    def of(cls, points: Array, measure: Array) -> TrainingSample:
        """Return at most ``REFERENCE_ROWS`` distinct rows; equal rows are one, with the sum of their measures.

        They are those with the least hashes of their content, a random sample that does not depend on their order.
        """
        points = as_rows(points)
        keys = hash_rows(points)
        places = find_places(points, keys)
        if places is not None:
            points, measure, keys = points[places.first], places.mass(measure), keys[places.first]
        if len(points) > REFERENCE_ROWS:
            some = np.sort(np.argsort(keys, kind="stable")[:REFERENCE_ROWS])
            points, measure = points[some], measure[some]
        return cls(as_rows(points), np.asarray(measure, dtype=float))

    def join(self, later: TrainingSample, old: int, new: int) -> TrainingSample:
        """Return the rows of both, at most ``REFERENCE_ROWS``: a part of each, as ``old`` and ``new`` rows are many."""
        if len(self.points) + len(later.points) <= REFERENCE_ROWS:
            parts = [self, later]
        else:
            share = round(REFERENCE_ROWS * old / (old + new))
            share = min(max(share, REFERENCE_ROWS - len(later.points)), len(self.points))
            rng = np.random.default_rng(SEED)
            counts = zip((self, later), (share, REFERENCE_ROWS - share))
            parts = [part.at(np.sort(rng.permutation(len(part.points))[:count])) for part, count in counts]
        points = stack_rows([part.points for part in parts])
        return TrainingSample.of(points, np.concatenate([part.measure for part in parts]))

    def at(self, rows: Array) -> TrainingSample:
        return TrainingSample(self.points[rows], self.measure[rows])


@dataclass(frozen=True, kw_only=True)
class Domain:
    """What rows are compared with, and the judge by the facts that follow from it."""

    search: Search | None  # over the sample; None: the model knows the isolation of a row, or there are no features
    isolation: Isolation | None
    axes: PrincipalAxes | None
    judge: Judge

    @classmethod
    def of_model(
        cls,
        model: RowModel,
        sample: TrainingSample | None,
        metric: Metric | None,
        runner: Threads,
        through_landmarks: bool,
    ) -> Domain:
        """Return the domain of a fitted model; ``sample`` is None if its matrix is precomputed.

        ``through_landmarks``: the anchors are only some of the training rows, so these see them as new rows do.
        """
        known = model.rule.training_rows
        if known is not None:
            return cls._with_judge(None, *known)
        if sample is None:
            return cls.of_support(model.reference)
        support = model.evidence(sample.points, runner).support if through_landmarks else None
        return cls.of(sample, metric or Metric(), runner, support)

    @classmethod
    def of(cls, sample: TrainingSample, metric: Metric, runner: Threads, support: Array | None = None) -> Domain:
        """Return the domain of a sample, in the metric of the method; ``support`` of its rows if that is a fact."""
        points = sample.points
        search = neighbors.build(metric.fit(points), "auto")
        lists = search.closest(points, min(ISOLATION_NEIGHBORS + 1, len(points)), runner)
        isolation = Isolation.of(lists.ptr, lists.index, lists.squared, sample.measure)
        return cls._with_judge(search, isolation, points[isolation.sample], support)

    @classmethod
    def of_support(cls, reference: Reference) -> Domain:
        """Return the domain of a precomputed matrix: rows are judged by their support."""
        return cls(search=None, isolation=None, axes=None, judge=reference.judge())

    @classmethod
    def _with_judge(
        cls, search: Search | None, isolation: Isolation, points: Array, support: Array | None = None
    ) -> Domain:
        # In an order of their content: which rows set a scale must not depend on the order of the data.
        order = np.argsort(hash_rows(points) if len(points) else isolation.alone, kind="stable")
        ordered = replace(isolation, alone=isolation.alone[order], weight=isolation.weight[order])
        rows = points[order] if len(points) else points
        axes = PrincipalAxes.of(rows) if len(points) else None
        names = ("isolation", *(() if axes is None else axes.names))
        facts = cls._facts_alone(ordered, axes, rows)
        if support is not None:
            names, facts = (*names, SUPPORT), replace(facts, support=support[order])
        judge = Judge.of(facts, names, ordered.weight)
        return cls(search=search, isolation=isolation, axes=axes, judge=judge)

    @staticmethod
    def _facts_alone(isolation: Isolation, axes: PrincipalAxes | None, points: Array) -> RowFacts:
        """Return the facts of the rows of the sample, each without itself."""
        facts = RowFacts(support=np.zeros(len(isolation.alone)), isolation=np.exp(isolation.alone))
        if axes is None:
            return facts
        amplitude, remainder = axes.without_self(points)
        return replace(facts, amplitude=amplitude, remainder=remainder)

    @classmethod
    def judge_training_rows(cls, sample: TrainingSample, metric: Metric, Z: Array, runner: Threads) -> Array:
        """Return the p-values of training rows Z, each without itself, where up to 5 % of them may be outliers.

        Ranks would hide outliers, which are as strange as each other. So each fact has an exponential tail beyond its
        90 % quantile, with the median excess of the rows there; up to a score of log 10 the p-value is a rank.
        """
        domain = cls.of(sample, metric, runner)
        assert domain.isolation is not None
        if domain.isolation.count == 0:  # all rows are equal
            return np.ones(len(Z))
        alone = cls._facts_alone(domain.isolation, domain.axes, sample.points)
        start, scale = np.array([upper_tail(alone.logs(name)) for name in domain.judge.names]).T
        judge = replace(domain.judge, start=start, scale=scale)
        own, score = judge.score(alone), judge.score(domain.add(RowFacts(support=np.zeros(len(Z))), Z, runner))
        places = find_places(stack_rows([sample.points, Z]))
        if places is not None:  # the rows of the sample are distinct, so they are the first places
            place = places.member[len(own) :]
            among = place < len(own)
            score[among] = own[place[among]]
        ranks = 1 - np.searchsorted(np.sort(own), score, side="left") / len(own)
        return np.where(score > -np.log(TAIL_SHARE), np.exp(-score), np.maximum(ranks, TAIL_SHARE))

    def add(self, facts: RowFacts, Z: Array, runner: Threads) -> RowFacts:
        """Return the facts of rows with those of the domain."""
        if self.search is not None and self.isolation is not None:
            facts = self._add_isolation(facts, Z, self.search, self.isolation, runner)
        if self.axes is None:
            return facts
        axes = self.axes

        def of(points: Array) -> Array:
            amplitude, remainder = axes.facts(points)
            return np.column_stack([amplitude, np.ones(len(points)) if remainder is None else remainder])

        found = by_blocks(of, Z, 2, axes.axes.shape[0], runner)
        return replace(facts, amplitude=found[:, 0], remainder=None if axes.rest is None else found[:, 1])

    @staticmethod
    def _add_isolation(facts: RowFacts, Z: Array, search: Search, isolation: Isolation, runner: Threads) -> RowFacts:
        order = search.arrange(Z, runner)  # a tree finds near rows faster one after another
        found = np.empty((len(Z), 2))

        def fill(block: slice) -> None:
            at = order[block]
            lists = search.closest(clip_entries(as_rows(Z[at])), max(1, isolation.count), Threads(1))
            with np.errstate(over="ignore", invalid="ignore"):
                found[at] = isolation.facts(lists.ptr, lists.index, lists.squared)

        runner.each(fill, row_blocks(len(Z), search.row_entries), "trust")
        return replace(facts, isolation=found[:, 0], distance=found[:, 1])
