"""Run times of Roseland and diffusion maps against the number of rows and landmarks (Vazova, 2021, section 3.4.4)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import DiffusionMaps, Roseland, plotting
from .._runtime.typing import Array
from ..datasets import s_curve
from ..methods.base import SpectralEstimator
from .landmark_fits import datafold_epsilon
from .record import Effort, Experiment, Finding, Outcome, Picture, ResultTable, Value, measurement

COMPONENTS = 10  # datafold's default
KEPT = 32  # nearest landmarks of a row (Roseland) or neighbours (diffusion maps) in a sparse kernel
DEGREES = {"rows": 1, "landmarks": 2, "both": 3}
WORDS = {1: "linear", 2: "quadratic", 3: "cubic"}
SHARES = (0.1, 0.3, 0.5, 0.7, 1.0)
TOLERANCE = 0.5  # of an exponent


@dataclass(frozen=True)
class Power:
    """The power law seconds = c size^exponent, fitted in logarithms."""

    exponent: float
    deviation: float  # standard error of the exponent
    last: float  # the exponent between the two largest sizes

    @classmethod
    def of(cls, sizes: Sequence[float], seconds: Sequence[float]) -> Power:
        """Fit the power law by least squares.

        >>> Power.of([1, 2, 4, 8], [3, 12, 48, 192]).exponent.__round__(6)
        2.0
        """
        x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds, dtype=float))
        slope, start = np.polyfit(x, y, 1)
        left = y - slope * x - start
        freedom = max(len(x) - 2, 1)
        deviation = float(np.sqrt(left @ left / freedom / np.sum((x - x.mean()) ** 2)))
        return cls(float(slope), deviation, float((y[-1] - y[-2]) / (x[-1] - x[-2])))


def polynomial_rest(sizes: Sequence[float], seconds: Sequence[float], *, degree: int) -> float:
    """Return the root mean squared residual of a polynomial fit, relative to the mean of the seconds.

    The thesis makes this comparison by eye.

    >>> polynomial_rest([1, 2, 3, 4], [1, 4, 9, 16], degree=2) < 1e-9
    True
    """
    x, y = np.asarray(sizes, dtype=float) / max(sizes), np.asarray(seconds, dtype=float)
    left = y - np.polyval(np.polyfit(x, y, degree), x)
    return float(np.sqrt(np.mean(left**2)) / np.mean(y))


class Clock:
    """Median processor seconds, on one thread, of fits to one S-curve; the result for each size is cached."""

    def __init__(self, effort: Effort, most: int) -> None:
        self._times = effort.times(3)
        self._random = effort.random(1)
        self._X = s_curve(most, random_state=int(self._random.integers(2**31)))[0]
        self._known: dict[tuple[int, int | None, int | None], float] = {}  # by rows, landmarks and nearest
        for nearest in (None, KEPT):  # first runs that do not count: they compile code and start threads
            self.roseland(2000, 200, nearest)
            self.diffusion(1000, nearest)
        self._known.clear()

    def roseland(self, n: int, m: int, nearest: int | None) -> float:
        """Return the seconds of Roseland on n rows and m landmarks, dense or with ``nearest`` landmarks per row."""
        landmarks = self._X[:m]  # rows are in random order
        epsilon = datafold_epsilon(landmarks, self._random)
        model = Roseland(COMPONENTS, landmarks=landmarks, epsilon=epsilon, alpha=0.0, n_neighbors=nearest, n_jobs=1)
        return self._median(model, n, m, nearest)

    def diffusion(self, n: int, nearest: int | None) -> float:
        """Return the seconds of diffusion maps on n rows, dense or with ``nearest`` neighbours per row."""
        epsilon = datafold_epsilon(self._X[:n], self._random)
        model = DiffusionMaps(COMPONENTS, epsilon=epsilon, n_neighbors=nearest, n_jobs=1)
        return self._median(model, n, None, nearest)

    def _median(self, model: SpectralEstimator, n: int, m: int | None, nearest: int | None) -> float:
        if (n, m, nearest) not in self._known:
            seconds = [_seconds(model, self._X[:n]) for _ in range(self._times)]
            self._known[n, m, nearest] = float(np.median(seconds))
        return self._known[n, m, nearest]


def _seconds(model: SpectralEstimator, X: Array) -> float:
    start = time.process_time()  # processor time, so that other work on the machine does not count
    model.fit(X)
    return time.process_time() - start


@dataclass(frozen=True)
class Kind:
    """Dense or sparse kernels: the fits, and remarks on their times."""

    nearest: int | None  # landmarks or neighbours of a row
    fits: dict[str, list[tuple[int, int]]]  # by the quantity that grows: rows and landmarks of each fit
    remarks: dict[str, str]  # by the quantity that grows, and on the share of landmarks ("shares")
    compared: int  # rows on which Roseland is compared with diffusion maps


KINDS = {
    "dense": Kind(
        None,
        {
            "rows": [(n, 500) for n in (5000, 10_000, 20_000, 40_000, 80_000)],
            "landmarks": [(20_000, m) for m in (125, 250, 500, 1000, 2000)],
            "both": [(n, n // 10) for n in (1500, 3000, 6000, 12_000, 24_000)],
        },
        {
            "rows": "500 landmarks: two passes over the rows and one eigenproblem of the landmarks.",
            "landmarks": "20,000 rows: distances and exponentials grow with m, products with m^2, the eigenproblem "
            "with m^3.",
            "both": "Gamma 0.1: distances and exponentials, of power 2, still count at these sizes.",
            "shares": "Half of a symmetric product against a full one; both then solve a problem of their own size.",
        },
        2000,
    ),
    "sparse": Kind(
        KEPT,
        {
            "rows": [(n, 1000) for n in (6250, 12_500, 25_000, 50_000, 100_000)],
            "landmarks": [(50_000, m) for m in (625, 1250, 2500, 5000, 10_000)],
            "both": [(n, n // 10) for n in (6250, 12_500, 25_000, 50_000, 100_000)],
        },
        {
            "rows": "1000 landmarks: a search, 32 weights and their products a row, and an eigenproblem that stays.",
            "landmarks": "50,000 rows: a row has 32 landmarks however many there are, so only the search and the "
            "eigenproblem grow; the m^2 of the thesis is that of a dense product.",
            "both": "Gamma 0.1: with 32 landmarks a row a fixed share of landmarks does not cost n^3.",
            "shares": "Roseland's product of landmarks has up to 32 x 32 entries a row, diffusion maps solve on the "
            "graph of 32 neighbours itself.",
        },
        6000,
    ),
}
Growth = dict[str, tuple[list[float], list[float]]]  # sizes and median seconds by the quantity that grows


def growing(clock: Clock, effort: Effort, word: str) -> Growth:
    """Return sizes and median seconds by the quantity that grows: rows, landmarks or both."""
    found = {}
    for name, pairs in KINDS[word].fits.items():
        walk = effort.walk(pairs, f"{word}, growing {name}")
        seconds = [clock.roseland(n, m, KINDS[word].nearest) for n, m in walk]
        found[name] = ([float(m if name == "landmarks" else n) for n, m in pairs], seconds)
    return found


def crossing(shares: Sequence[float], seconds: Sequence[float], level: float) -> float:
    """Return the share at which seconds first reach ``level``, by linear interpolation; infinite if they never do.

    >>> crossing([0.1, 0.5, 1.0], [1.0, 3.0, 9.0], 6.0)
    0.75
    """
    reached = np.flatnonzero(np.asarray(seconds) >= level)
    if not len(reached):
        return float("inf")
    last = int(reached[0])
    if last == 0:
        return float(shares[0])
    return float(np.interp(level, seconds[last - 1 : last + 1], shares[last - 1 : last + 1]))


def _growth_findings(word: str, found: Growth) -> Iterator[Finding]:
    for name, degree in DEGREES.items():
        power, rest = Power.of(*found[name]), polynomial_rest(*found[name], degree=degree)
        what = f"{word} kernel, growing {name}: exponent of the processor seconds"
        yield measurement(what, f"{power.exponent:.2f}; last doubling {power.last:.2f}").against(
            f"{WORDS[degree]} ({degree})",
            abs(power.last - degree) <= TOLERANCE,
            f"Standard error {power.deviation:.2f}; the verdict is that of the last doubling, within {TOLERANCE}. "
            f"{KINDS[word].remarks[name]} A polynomial of degree {degree}, the thesis's yardstick, leaves {rest:.1%}.",
        )


def run(effort: Effort) -> Outcome:
    clock = Clock(effort, 100_000)
    growth = {word: growing(clock, effort, word) for word in KINDS}
    findings = [finding for word, found in growth.items() for finding in _growth_findings(word, found)]
    rows: list[tuple[Value, ...]] = []
    figure, axes = plotting.panels(1, 1)
    for place, (word, kind) in zip(axes, KINDS.items()):
        title = f"{word}, {kind.compared} rows"
        maps = clock.diffusion(kind.compared, kind.nearest)
        walk = effort.walk(SHARES, f"{word}, shares")
        seconds = [clock.roseland(kind.compared, round(share * kind.compared), kind.nearest) for share in walk]
        equal = crossing(SHARES, seconds, maps)
        rows += [(title, share, found, maps, found / maps) for share, found in zip(SHARES, seconds)]
        what = f"{word} kernels, {kind.compared} rows: gamma from which Roseland is slower than diffusion maps"
        findings.append(
            measurement(what, equal if np.isfinite(equal) else "none up to 1").against(
                "approached and surpassed from 0.7",
                equal >= 0.7 and seconds[-1] >= 0.85 * maps,
                f"{seconds[0] / maps:.2f} of their time at gamma 0.1, {seconds[3] / maps:.2f} at 0.7, "
                f"{seconds[-1] / maps:.2f} at 1. {kind.remarks['shares']}",
            )
        )
        place.plot(SHARES, seconds, marker="o", label="Roseland")
        place.axhline(maps, color="#999999", linestyle="--", label="diffusion maps")
        place.set(title=title, xlabel="gamma", ylabel="processor seconds", ylim=(0, None))
        place.legend(frameon=False)
    sparse = growth["sparse"]
    many, few = sparse["both"][1][-1], sparse["rows"][1][-1]
    findings.append(
        measurement(
            "processor seconds for 100,000 rows with 10,000 and with 1000 landmarks",
            f"{many:.1f}, {few:.1f}",
            "The thesis fits 4,000,000 rows with gamma 0.1 in 15,575 s, 2,500,000 with 0.25 in 14,021 s and 550,000 by "
            "diffusion maps in 3761 s. Not run here: at the exponent of gamma 0.1 above ours would take about "
            f"{many * 40 ** Power.of(*sparse['both']).exponent:.0f} s for 4,000,000.",
        )
    )
    tables = [
        ResultTable(
            title,
            ("growing", "size", "median processor seconds"),
            [(name, *pair) for name, curve in found.items() for pair in zip(*curve)],
        )
        for title, found in zip(("Dense kernel", f"Sparse kernel, {KEPT} landmarks a row"), growth.values())
    ]
    columns = ("kernels", "gamma", "Roseland, s", "diffusion maps, s", "ratio")
    tables.append(ResultTable("Roseland against diffusion maps", columns, rows))
    caption = (
        "Median processor seconds of Roseland at growing shares of landmarks, and of diffusion maps on the same rows."
    )
    return Outcome(findings, [_growth_picture(growth), Picture("shares", figure, caption)], tables)


def _growth_picture(growth: dict[str, Growth]) -> Picture:
    figure, axes = plotting.panels(0.85, 0.85, 0.85)
    for place, (name, degree) in zip(axes, DEGREES.items()):
        for word, found in growth.items():
            place.plot(*found[name], marker="o", label=f"{word}: {Power.of(*found[name]).exponent:.2f}")
        sizes, seconds = growth["dense"][name]
        guide = seconds[-1] * (np.array(sizes) / sizes[-1]) ** degree
        place.plot(sizes, guide, color="#999999", linestyle="--", label=f"power {degree}")
        place.set(xscale="log", yscale="log", title=f"growing {name}", ylabel="processor seconds")
        place.set_xlabel("landmarks" if name == "landmarks" else "rows")
        place.legend(frameon=False)
    caption = (
        "Median processor seconds of a fit to the S-curve, with fitted exponents; dashed, the power the thesis expects."
    )
    return Picture("growth", figure, caption)


EXPERIMENT = Experiment(
    name="run-times",
    title="Run times of Roseland and diffusion maps",
    source="Vazova (2021), Scalable Manifold Learning through Landmark Diffusion, section 3.4.4",
    settings="S-curve, ten components, fits only, epsilon by datafold's rule (chosen outside the clock). The thesis: "
    "10,000 to 100,000 rows with 1000 landmarks, 100,000 rows with growing landmarks, both growing at gamma 0.1, "
    "sparse kernels, ten fits each, seconds on four cores. Here: processor seconds on one thread, so that other work "
    "on the machine does not count, medians of three fits after one that is not counted; dense kernels (where the "
    "thesis's count of operations holds) up to 80,000 rows and 2400 landmarks, and sparse ones (32 nearest landmarks "
    "of a row) up to 100,000 rows and 10,000 landmarks. Caches still move each figure.",
    run=run,
)
