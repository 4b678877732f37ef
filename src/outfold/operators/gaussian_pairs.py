"""A Gaussian kernel of all pairs, at any number of anchors: which way to compute the operator.

1. All pairs, as a table, up to ``DENSE_UP_TO`` anchors; beyond, if a table is the quickest way and fits in memory.
2. The pairs whose weight reaches eta = ``LEFT_OUT`` / n. What a row leaves out is then at most ``LEFT_OUT`` of its own
   weight, w(x, x) = 1, hence of its degree q(x) >= 1. With alpha = 0 no eigenvalue of the symmetric operator
   D^-1/2 W D^-1/2 moves by more than 2 ``LEFT_OUT``: the entries left out have at most this norm (their row sums), and
   so has the change of D. Points on a manifold leave out far less, about eta itself.
3. A kernel of low rank, whose landmarks are pivots of a Cholesky factorisation (:mod:`.pivoted_cholesky`): positive
   definite kernels only, so for Euclidean distances; Markov operators only.
4. Otherwise the fit is refused, with the numbers.

Pairs are counted exactly for a sample of the rows, and the rank is that of ``RANKED_ROWS`` rows. Of the ways whose
memory is within ``BUDGET`` of the free memory, the quickest is taken. A fit and a plan choose by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from .._runtime.memory import free_memory
from .._runtime.threads import BLOCK_ENTRIES, Threads
from .._runtime.typing import Array
from ..bandwidths import Fixed
from ..data.sources import InMemory, Source
from ..data.sparse_rows import as_rows
from ..distances import Distances, Metric
from ..graphs import AllPairs, Threshold
from ..graphs.pair_statistics import even_sample, masses_within
from ..graphs.protocols import EdgeRule, FittedKernel
from ..kernels import Gaussian, Kernel
from ..landmarks import Anchors
from ..neighbors.tree import Tree
from .affinity_graph import WITHOUT_DIAGONAL, Affinities
from .concerns import Concern, Importance, contrasts_only
from .costs import ENTRY, FLOPS, Case, Cost, Stage
from .expansion import EigenPairs, Expansion
from .laplacian import Unnormalized
from .low_rank import LowRankDiffusion, LowRankKernel, LowRankOperator, LowRankRule
from .markov import GraphNormalization, Markov
from .operator import RowRule
from .pivoted_cholesky import NO_PIVOTS, REMAINDER, PivotedCholesky, Pivots
from .problem import BuiltProblem, Eigenproblem, Facts, Span, magnified_rounding

DENSE_UP_TO = 5000  # anchors up to which all pairs are kept: 0.4 GB, about a second
LEFT_OUT = 1e-6  # the largest share of its own weight that a row leaves out
RANK_UP_TO = 2000  # most pivots
RANKED_ROWS = 3000  # rows of which the rank is computed; it counts if it is at most half of them
BUDGET = 0.7  # share of the free memory that a fit may take
TOLERANCE = 1e-10  # of the low-rank kernel: see LowRank
RESOLVED = 1e3 * REMAINDER  # least eigenvalue that a kernel of low rank gives to three digits

TABLE_ENTRY = 5e-8  # seconds for an entry of a dense kernel, with its solution
GRAPH_EDGE = 4e-7  # seconds for an edge of a graph, with its solution
TABLE_BYTES = 2.2 * 8  # of an entry
EDGE_BYTES = 36.0
PASSES = 4  # over all rows, for pivots and operator, in units of rows * rank^2 operations


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to compute the operator, with its cost."""

    name: str  # "table", "graph" or "pivots"
    bytes: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The numbers on which the choice depends."""

    anchors: int
    kernel: FittedKernel = field(repr=False)
    eta: float
    search: str  # of neighbours, exact
    edges: float  # number of pairs whose weight reaches eta, estimated from the counted rows
    distinct: Anchors | None = field(repr=False)  # without copies; None: no kernel of low rank can be taken
    ranked: int  # number of rows of which the rank was computed
    pivots: Pivots
    small_end: bool = False  # the operator is an unnormalised Laplacian: a table of it is factorised

    @property
    def rank_is_known(self) -> bool:
        return self.pivots.suffice and len(self.pivots.rows) <= self.ranked // 2

    def ways(self, needed: int) -> list[Way]:
        """Return the ways that can be taken, the quickest first."""
        n, rank = self.anchors, len(self.pivots.rows)
        factorisation = n**3 / 3 / FLOPS if self.small_end else 0.0
        ways = [
            Way(name="table", bytes=TABLE_BYTES * n * n, seconds=TABLE_ENTRY * n * n + factorisation),
            Way(name="graph", bytes=EDGE_BYTES * self.edges, seconds=GRAPH_EDGE * self.edges),
        ]
        if self.rank_is_known and rank > needed + 1:
            ways.append(Way(name="pivots", bytes=pivot_bytes(n, rank), seconds=pivot_seconds(n, rank)))
        return sorted(ways, key=lambda way: way.seconds)

    def refusal(self) -> MemoryError:
        """Return the error that says why no way can be taken."""
        n, free = self.anchors, free_memory()
        bandwidth = self.kernel.bandwidth
        told = (
            f"A Gaussian kernel of n = {n} rows with epsilon={bandwidth.epsilon:.3g} ({bandwidth.how}) does not fit: "
            f"all pairs need about {TABLE_BYTES * n * n / 1e9:.3g} GB, the {self.edges:.2g} pairs of weight "
            f"{self.eta:.1g} or more about {EDGE_BYTES * self.edges / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free (a "
            f"fit takes {BUDGET:.0%} at most)."
        )
        if self.ranked:
            told += (
                f" Low rank: {len(self.pivots.rows)} pivots leave {self.pivots.remainder:.1g} of the kernel of "
                f"{self.ranked} rows."
            )
        return MemoryError(
            f"{told} Leave epsilon out and pass kernel='adaptive'; keep nearest neighbours (n_neighbors=32), which is "
            f"another kernel; solve on some of the rows (landmarks={DENSE_UP_TO}, or Roseland); or lower epsilon."
        )


def pivot_bytes(n: int, rank: int) -> float:
    """Return the bytes of the factors and of the rows without copies; blocks of rows come on top."""
    return 8.0 * 3 * rank * rank + 160.0 * n


def pivot_seconds(n: int, rank: int) -> float:
    return PASSES * n * rank * (ENTRY + rank / FLOPS)


def affordable(ways: list[Way]) -> Iterator[Way]:
    """Yield the ways whose memory is within the budget."""
    budget = BUDGET * free_memory()
    return (way for way in ways if way.bytes <= budget)


@dataclass(frozen=True, kw_only=True)
class GaussianPairs(Eigenproblem):
    """``kernel="gaussian"`` with ``n_neighbors="auto"``: the operator of all pairs of anchors."""

    metric: Metric
    kernel: Kernel
    normalization: GraphNormalization
    components: str = "warn"

    @property
    def streams(self) -> bool:
        return True

    @property
    def merges_copies(self) -> bool:
        return self.normalization.merges_copies

    @property
    def feature_metric(self) -> Metric:
        return self.metric

    @property
    def reads_rows(self) -> bool:
        return True

    @property
    def against_outliers(self) -> str:
        return "Leave epsilon out and pass kernel='adaptive', scale the features"

    def alone(self, epsilon: float) -> GaussianPairs:
        return replace(self, kernel=self.kernel.at(epsilon))

    # -- the fit -------------------------------------------------------------------------------

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        """Return the eigenproblem over the anchors, by the quickest way that fits in memory."""
        if self._is_small(len(anchors.measure)):
            return self._over_pairs(AllPairs()).build(rows, anchors, measure, needed, runner)
        survey = self.survey(anchors, runner)
        for way in affordable(survey.ways(needed)):
            if way.name != "pivots":
                return self._of_survey(survey, way).build(rows, anchors, measure, needed, runner)
            assert survey.distinct is not None
            found = self._search_pivots(survey.distinct, survey.kernel, runner).extend(survey.pivots, RANK_UP_TO)
            survey = replace(survey, pivots=found, ranked=len(survey.distinct.measure))
            if found.suffice:
                return self._through_pivots(survey, anchors, needed, runner)
        raise survey.refusal()

    def survey(self, anchors: Anchors, runner: Threads) -> Survey:
        """Return the numbers on which the choice depends, from samples of the anchors."""
        n = len(anchors.measure)
        eta = LEFT_OUT / n
        statistics = Threshold(eta).statistics(self.metric, anchors.points, anchors.measure, runner)
        kernel = self.kernel.fit(statistics)
        distances = self.metric.fit(anchors.points)
        distinct, ranked, pivots = None, 0, NO_PIVOTS
        if self._has_low_rank(distances):
            distinct = anchors.merge_copies()
            ranked = min(RANKED_ROWS, len(distinct.measure))
            pivots = self._search_pivots(distinct, kernel, runner).sample(ranked, 1 + ranked // 2)
        return Survey(
            anchors=n,
            kernel=kernel,
            eta=eta,
            search="tree" if isinstance(statistics.search, Tree) else "brute",
            edges=count_pairs(distances, kernel.reach(eta), runner),
            distinct=distinct,
            ranked=ranked,
            pivots=pivots,
            small_end=isinstance(self.normalization, Unnormalized),
        )

    def _is_small(self, n: int) -> bool:
        return n <= DENSE_UP_TO and TABLE_BYTES * n * n <= free_memory()

    def _has_low_rank(self, distances: Distances) -> bool:
        markov = isinstance(self.normalization, Markov) and not self.normalization.canonical
        markov = markov and self.normalization.has_diagonal
        return markov and distances.name == "euclidean" and self.components in ("warn", "error")

    def _over_pairs(self, edges: EdgeRule) -> Affinities:
        return Affinities(
            metric=self.metric,
            edges=edges,
            kernel=self.kernel,
            normalization=self.normalization,
            components=self.components,
            chosen="auto: ",
        )

    def _of_survey(self, survey: Survey, way: Way) -> Affinities:
        return self._over_pairs(AllPairs() if way.name == "table" else Threshold(survey.eta, search=survey.search))

    def _search_pivots(self, distinct: Anchors, kernel: FittedKernel, runner: Threads) -> PivotedCholesky:
        return PivotedCholesky(distances=self.metric.fit(distinct.points), kernel=kernel, runner=runner)

    def _through_pivots(self, survey: Survey, anchors: Anchors, needed: int, runner: Threads) -> BuiltProblem:
        """Return the eigenproblem of all anchors through the kernel of low rank."""
        assert isinstance(self.normalization, Markov)
        assert survey.distinct is not None
        low_rank = LowRankDiffusion(
            metric=self.metric,
            kernel=Gaussian(Fixed(survey.kernel.bandwidth.epsilon)),
            alpha=self.normalization.alpha,
            power=self.normalization.power,
            tolerance=TOLERANCE,
            components=self.components,
        )
        found, landmarks = survey.pivots, survey.distinct.at(survey.pivots.rows)
        problem = low_rank.build(InMemory(anchors.points), landmarks, anchors.measure, needed, runner)
        return replace(
            problem,
            edges=f"auto: all pairs by a kernel of low rank, {len(found.rows)} pivots of {survey.anchors} rows leave "
            f"{found.remainder:.1g} of its trace",
            bandwidth=survey.kernel.bandwidth,
        )

    @property
    def without_kernel(self) -> str:
        return WITHOUT_DIAGONAL

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        if not isinstance(rule, LowRankRule):
            return self.normalization.kernel_between(rule, pairs)
        assert isinstance(self.normalization, Markov)
        return LowRankKernel(rule, pairs, self.normalization.power, self.normalization.alpha)

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        if not isinstance(problem.operator, LowRankOperator):
            return self._over_pairs(AllPairs()).concerns(report, values, problem)
        found = []
        if report.components > 1:
            text = (
                f"The kernel falls into {problem.operator.parts.describe()}, so "
                f"{contrasts_only(report.components, report.n_components)} them apart. Raise epsilon "
                f"(now {report.epsilon:.3g})."
            )
            found.append(Concern(Importance.PIECES, text))
        if values.min() < RESOLVED:
            text = (
                f"The smallest kept eigenvalue is {values.min():.1g}, and a kernel of low rank is right to about "
                f"{REMAINDER:.0g}. Keep fewer components, or lower epsilon (now {report.epsilon:.3g})."
            )
            found.append(Concern(Importance.ROUNDING, text))
        return found + magnified_rounding(report)

    def span(self, problem: BuiltProblem) -> Span | None:
        if isinstance(self.normalization, Unnormalized):
            return None
        return Span("Lower epsilon, or pass kernel='adaptive'", scale=partial(self.local_scale, problem.anchors))

    # -- the plan ------------------------------------------------------------------------------

    def cost(self, case: Case) -> Cost:
        """Return the cost of the way that a fit would take; of sizes alone, without rows, that of the slowest."""
        n = case.anchors
        if self._is_small(n):
            return self._over_pairs(AllPairs()).cost(case)
        if case.points is None:
            return self._cost_of_sizes(case)
        points = as_rows(case.points[even_sample(case.points, n)])
        survey = self.survey(Anchors(points, None, np.ones(len(points))), Threads())
        ways = survey.ways(case.components)
        way = next(affordable(ways), min(ways, key=lambda way: way.bytes))
        if way.name == "table":
            return self._over_pairs(AllPairs()).cost(case)
        if way.name == "graph":
            return self._graph_cost(case, survey)
        return self._pivot_cost(case, len(survey.pivots.rows), f"about {len(survey.pivots.rows)} pivots of {n} rows")

    def _cost_of_sizes(self, case: Case) -> Cost:
        if isinstance(self.normalization, Unnormalized):
            return self._over_pairs(AllPairs()).cost(case)
        return self._pivot_cost(case, RANK_UP_TO, f"at most {RANK_UP_TO} pivots; the rows decide")

    def _graph_cost(self, case: Case, survey: Survey) -> Cost:
        n, edges = case.anchors, survey.edges
        solver, solve = case.sparse_solve(n, edges)
        seconds = GRAPH_EDGE * edges / case.cores / 2
        stages = [Stage("neighbours", EDGE_BYTES * edges, seconds), replace(solve, seconds=seconds)]
        return Cost("auto: " + Threshold(survey.eta).describe(), solver, stages)

    def _pivot_cost(self, case: Case, rank: int, told: str) -> Cost:
        solver, solve = case.dense_solve(rank)
        n = case.anchors
        pivots = Stage(
            "pivots", pivot_bytes(n, rank) + 16.0 * BLOCK_ENTRIES * case.cores, pivot_seconds(n, rank) / case.cores
        )
        return Cost(f"auto: all pairs by a kernel of low rank, {told}", solver, [pivots, solve])


def count_pairs(distances: Distances, radius: float, runner: Threads) -> float:
    """Return the number of ordered pairs within the radius, estimated from an even sample of rows."""
    n = len(distances.anchors)
    return n * float(masses_within(distances, np.ones(n), radius, runner).mean())
