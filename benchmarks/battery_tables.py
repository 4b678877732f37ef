"""Tables and verdicts of the second part of the battery, from its lines."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from battery import CLUSTERERS, DIMENSIONERS, LARGE, METHODS, RIVALS, STEPPED, WARNING
from battery_measures import Scales
from battery_sets import CLASSES, DIMENSIONS, FITTED, LABELLED, LINEAR, QUIET, SIZES
from defaults import as_table

ALLOWED = 0.02  # of the adjusted Rand index
TOP5, STRAIGHT, PLANE = 0.5, 0.98, 0.95
BY_DEFINITION = ("outfold KernelPCA", "outfold ClassicalMDS")  # linear maps
WORDS = {  # what a warning about it says, at the least
    "top 5": "outlier",
    "column": "column|outweigh|dominat",
    "linear": "linear|PCA",
}
Lines = list[dict]


def of_part(lines: Lines, part: str) -> Lines:
    return [line for line in lines if line["part"] == part]


def by_set(lines: Lines) -> dict[str, dict[str, dict]]:
    """Return {set: {contender: line}}."""
    found: dict[str, dict[str, dict]] = defaultdict(dict)
    for line in lines:
        found[line["set"]][line["contender"]] = line
    return found


def title(name: str) -> str:
    return "phate package" if name == "PHATE" else name.removeprefix("outfold ").split(",")[0]


def share(value: float | None, digits: int = 3) -> str:
    """Return a number without the zero before its point."""
    return "" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def count(flags: list[bool]) -> str:
    return f"{sum(flags)} of {len(flags)}"


def reached(flags: list[bool], least: int | None = None) -> str:
    """Whether all hold, or at least so many; nothing if nothing was measured."""
    enough = sum(flags) >= (len(flags) if least is None else least)
    return ("yes" if enough else "**no**") if flags else ""


# -- clusters ------------------------------------------------------------------------------


class Rand(NamedTuple):
    """Mean adjusted Rand indices of a set; ``least`` is what ours has to reach."""

    name: str
    n: int
    classes: int
    rand: dict[str, float]
    found: str  # numbers of clusters by "auto"

    @property
    def least(self) -> float:
        return max(self.rand["scikit-learn clusters"], self.rand["k-means"]) - ALLOWED

    @property
    def holds(self) -> bool:
        return self.rand["outfold clusters"] >= self.least


def rands(lines: Lines) -> list[Rand]:
    cells = defaultdict(lambda: defaultdict(list))
    for line in of_part(lines, "clusters"):
        cells[line["set"], line["n"]][line["contender"]].append(line)
    found = []
    for name, classes in CLASSES.items():
        for n in classes.sizes:
            cell = cells[name, n]
            rand = {
                who: float(np.mean([line["rand"] for line in some]))
                for who, some in cell.items()
                if all("rand" in line for line in some)
            }
            numbers = sorted(
                {str(line.get("clusters", "failed")) for line in cell[CLUSTERERS[1]]}, key=lambda s: s.zfill(9)
            )
            if {*CLUSTERERS} - {CLUSTERERS[1]} <= rand.keys():
                found.append(Rand(name, n, cell["k-means"][0]["classes"], rand, ", ".join(numbers)))
    return found


def of_clusters(lines: Lines) -> str:
    rows = [
        [
            one.name,
            f"{one.n:,}",
            *(share(one.rand.get(who)) for who in ("outfold clusters", "scikit-learn clusters", "k-means")),
            "yes" if one.holds else "**no**",
            str(one.classes),
            one.found,
            share(one.rand.get("outfold clusters, auto")),
        ]
        for one in rands(lines)
    ]
    head = ["", "rows", "outfold", "scikit-learn", "k-means", "holds", "classes", "`auto` finds", "with `auto`"]
    return as_table(head, rows)


# -- dimensions ----------------------------------------------------------------------------


def is_near(value: float, likelihood: float) -> bool:
    """Within a quarter; a whole number may also be the nearest one."""
    return abs(value - likelihood) <= max(0.25 * likelihood, 0.5 if float(value).is_integer() else 0)


def values(lines: Lines) -> dict[str, dict[str, float | None]]:
    found = by_set(of_part(lines, "dimension"))
    return {
        name: {who: found[name][who].get("value") for who in DIMENSIONERS if who in found[name]}
        for name in DIMENSIONS
        if name in found
    }


def of_dimensions(lines: Lines) -> str:
    def cell(name: str, who: str, value: dict[str, float | None]) -> str:
        if (got := value.get(who)) is None:
            return "none"
        text = f"{got:.1f}" if who in ("outfold dimension", "maximum likelihood", "TwoNN") else str(got)
        judged = who in DIMENSIONERS[:2] and value["maximum likelihood"] is not None
        return f"**{text}**" if judged and not is_near(got, value["maximum likelihood"]) else text

    order = ("maximum likelihood", "TwoNN", *DIMENSIONERS[:3])
    rows = [
        [name, str(DIMENSIONS[name][1] or ""), *(cell(name, who, value) for who in order)]
        for name, value in values(lines).items()
    ]
    head = ["", "true", "maximum likelihood", "TwoNN", "`report_.dimension`", "`tune`", '`n_components="auto"`']
    return as_table(head, rows)


def dimension_demands(lines: Lines) -> list[list[str]]:
    found = values(lines)
    rows = []
    for who, text in (("outfold dimension", "`report_.dimension`"), ("outfold tune", "`tune`")):
        flags = [
            value[who] is not None and is_near(value[who], value["maximum likelihood"])
            for value in found.values()
            if {who, "maximum likelihood"} <= value.keys()
        ]
        rows.append(
            [
                f"{text} within 25 % of maximum likelihood",
                "10 sets",
                count(flags),
                reached(flags, 10),
            ]
        )
    for name, text, test in (
        ("circle", "2", lambda v: v == 2),
        ("sphere", "3", lambda v: v == 3),
        ("digits", "at most 12", lambda v: v <= 12),
    ):
        if (value := found.get(name, {}).get("outfold components")) is not None:
            rows.append([f'`n_components="auto"`, {name}', text, str(value), "yes" if test(value) else "**no**"])
    return rows


# -- warnings ------------------------------------------------------------------------------


def due(line: dict, data: Scales) -> list[str]:
    """Return what a fit should warn of."""
    return [
        name
        for name, holds in (
            ("top 5", line["top5"] > TOP5),
            ("column", data.dominated),
            (
                "linear",
                line["linear"] > STRAIGHT
                and data.plane < PLANE
                and line["set"] not in LINEAR
                and line["contender"] not in BY_DEFINITION,
            ),
        )
        if holds
    ]


def unsaid(line: dict, data: Scales) -> list[str]:
    """Return what a fit should have warned of, and did not."""
    said = " ".join(line.get("warnings", ()))
    return [name for name in due(line, data) if not re.search(WORDS[name], said, re.IGNORECASE)]


def judged_fits(lines: Lines) -> list[tuple[str, str, dict, Scales]]:
    """Return (set, method, line, facts of the table) of our fits."""
    found = by_set(of_part(lines, "fits"))
    return [
        (name, who, line, Scales(*(found[name]["data"][key] for key in Scales._fields)))
        for name in FITTED
        for who in WARNING
        if "data" in found[name] and "top5" in (line := found[name].get(who, {}))
    ]


def of_warnings(lines: Lines) -> str:
    """Numbers of warnings; bold with what is missing."""
    rows: dict[str, list[str]] = {}
    for name, _, line, data in judged_fits(lines):
        if name not in rows:
            rows[name] = [name, "yes" if data.dominated else "", str(data.pieces)]
        number, missing = len(line.get("warnings", ())), unsaid(line, data)
        rows[name].append(f"**{number}, not {', '.join(missing)}**" if missing else str(number))
    return as_table(["", "a column dominates", "components", *map(title, WARNING)], list(rows.values()))


def of_words(lines: Lines) -> str:
    """The first words of every warning, and which fits have it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, who, line, _ in judged_fits(lines):
        for text in line.get("warnings", ()):
            found[name, " ".join(text.split()[:9]).replace("|", "\\|")].append(title(who))
    return as_table(
        ["set", "warning", "methods"], [[name, f"{words} ...", ", ".join(who)] for (name, words), who in found.items()]
    )


def warning_demands(lines: Lines) -> list[list[str]]:
    fits = judged_fits(lines)
    rows = []
    for kind, text in (
        ("top 5", "a warning where five samples hold more than half of a coordinate"),
        ("column", "a warning where a column dominates"),
        ("linear", "a warning where the map is linear"),
    ):
        some = [(line, data) for _, _, line, data in fits if kind in due(line, data)]
        flags = [kind not in unsaid(line, data) for line, data in some]
        rows.append([text, "all fits", count(flags), reached(flags)])
    flags = [len(line.get("warnings", ())) <= 1 for name, _, line, _ in fits if name in QUIET]
    rows.append([f"at most one warning on {', '.join(QUIET)}", "all fits", count(flags), reached(flags)])
    return rows


# -- MNIST with about 3000 and with 60,000 rows ------------------------------------------------


def of_rows(lines: Lines) -> str:
    found = of_part(lines, "rows")
    rows = []
    for who in STEPPED:
        some = [line for line in found if line["contender"] == who and "step" in line]
        if some:
            mean = {
                key: float(np.mean([line[key] for line in some]))
                for key in ("before", "step", "score 2990", "score 3010")
            }
            clusters = "clusters" in who
            name = (
                ("SpectralClustering" if who.startswith("outfold") else "scikit-learn SpectralClustering")
                if clusters
                else title(who)
            )
            kind = "adjusted Rand index of both" if clusters else "disagreement"
            rows.append(
                [
                    name,
                    kind,
                    *(
                        share(value, 4 if key in ("before", "step") and not clusters else 3)
                        for key, value in mean.items()
                    ),
                ]
            )
    return as_table(["", "", "2970 and 2990 rows", "2990 and 3010 rows", "score of 2990", "score of 3010"], rows)


def of_large(lines: Lines) -> str:
    found = {line["contender"]: line for line in of_part(lines, "large") if line["n"] == 60_000}
    rows = []
    for who in LARGE:
        if line := found.get(who):
            if "failed" in line:
                rows.append([title(who), line["failed"], *[""] * 7])
                continue
            rows.append(
                [
                    title(who),
                    f"{line['seconds']:.0f}",
                    f"{line['transform']:.1f}" if "transform" in line else "",
                    f"{line['peak'] / 1e9:.1f}",
                    *(share(line.get(key)) for key in ("accuracy, 2", "accuracy, 10", "rand", "rand, new")),
                    str(len(line.get("warnings", ()))),
                ]
            )
    head = [
        "",
        "fit, s",
        "transform of 10,000, s",
        "peak, GB",
        "accuracy, 2",
        "accuracy, 10",
        "Rand",
        "Rand, new",
        "warnings",
    ]
    return as_table(head, rows) if rows else "Not measured yet: `python benchmarks/battery.py --large --write`."


# -- other methods -------------------------------------------------------------------------


def of_methods(lines: Lines, measure: str) -> str:
    found = by_set(of_part(lines, "fits"))

    def cell(line: dict) -> str:
        if "failed" in line:
            return "failed"
        if measure not in line:
            return ""
        return f"{line[measure]:.2g}" if measure == "seconds" else share(line[measure])

    rows = [[name, *(cell(found[name].get(who, {})) for who in METHODS)] for name in LABELLED if name in found]
    return as_table(["", *map(title, METHODS)], rows)


def rivalries(lines: Lines) -> list[tuple[str, str, str, float, float]]:
    """Return (ours, measure, set, value of ours, of the rival) of every table."""
    found = by_set(of_part(lines, "fits"))
    return [
        (ours, measure, name, found[name][ours][measure], found[name][rival][measure])
        for ours, rival in RIVALS.items()
        for measure in ("accuracy", "trustworthiness")
        for name in LABELLED
        if measure in found[name].get(ours, {}) and measure in found[name].get(rival, {})
    ]


def is_equal(ours: float, rival: float) -> bool:
    return ours >= 0.95 * rival


def rival_demands(lines: Lines) -> list[list[str]]:
    cells = defaultdict(list)
    for ours, measure, _, mine, other in rivalries(lines):
        cells[ours, measure].append(is_equal(mine, other))
    return [
        [
            f"{title(ours)} against {title(RIVALS[ours])}: {measure}",
            "at least equal",
            count(flags),
            reached(flags),
        ]
        for (ours, measure), flags in cells.items()
    ]


# -- the page ------------------------------------------------------------------------------


def cluster_demands(lines: Lines) -> list[list[str]]:
    found = rands(lines)
    rows = []
    for n in SIZES:
        flags = [one.holds for one in found if one.n == n]
        if flags:
            rows.append([f"clusters, {n:,} rows", "8 sets", count(flags), reached(flags, 8)])
    flags = [one.holds for one in found if one.n not in SIZES]
    rows.append(["clusters, tables of other sizes", "", count(flags), ""])
    flags = [one.found == str(one.classes) for one in found]
    rows.append(['`n_clusters="auto"` finds the number of classes in all draws', "", count(flags), ""])
    return rows


def summary(lines: Lines) -> str:
    rows = cluster_demands(lines) + dimension_demands(lines) + warning_demands(lines) + rival_demands(lines)
    return as_table(["", "wanted", "holds", "reached"], rows)


def behind(lines: Lines) -> str:
    rows = [
        [
            "adjusted Rand index",
            f"{one.name}, {one.n:,} rows",
            share(one.rand["outfold clusters"]),
            share(one.least + ALLOWED),
            who,
        ]
        for one in rands(lines)
        if not one.holds
        for who in [max(("scikit-learn clusters", "k-means"), key=one.rand.get)]
    ]
    rows += [
        [f"{title(ours)}: {measure}", name, share(mine), share(other), title(RIVALS[ours])]
        for ours, measure, name, mine, other in rivalries(lines)
        if not is_equal(mine, other)
    ]
    return as_table(["", "set", "ours", "theirs", "whose"], rows)


def texts(lines: Lines) -> dict[str, str]:
    """Return the tables of the page, by the mark they stand behind."""
    return {
        "battery summary": summary(lines),
        "battery behind": behind(lines),
        "battery clusters": of_clusters(lines),
        "battery dimensions": of_dimensions(lines),
        "battery warnings": of_warnings(lines),
        "battery words": of_words(lines),
        "battery rows": of_rows(lines),
        "battery large": of_large(lines),
        "battery accuracy": of_methods(lines, "accuracy"),
        "battery trustworthiness": of_methods(lines, "trustworthiness"),
        "battery top5": of_methods(lines, "top5"),
        "battery seconds": of_methods(lines, "seconds"),
    }
