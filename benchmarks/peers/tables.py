"""Pages and pictures made of the lines that the runner wrote: no figure in them is typed by hand."""

from __future__ import annotations

import json
import os
import pathlib
import re
import statistics
import sys
from functools import partial
from itertools import groupby

from contenders import CONTENDERS, NEIGHBOURS

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "peers.jsonl"
NAMES = {"outfold": "Outfold", "phate": "PHATE", "umap-learn": "UMAP", "snapatac2": "SnapATAC2", "faiss-cpu": "faiss"}
LIBRARIES = ("outfold", "scikit-learn", "datafold", "pydiffmap", "phate", "umap-learn", "openTSNE", "scanpy")
NOISE = 1.1  # two medians closer than this are called alike

KEEPS = "it is made to keep neighbours, which is what is counted; PHATE, ours and theirs, keeps far distances too"
SMALL = "up to 3,000 rows ours keeps all pairs and solves them to rounding, in a fraction of a second"
LANDMARKS = "up to 1,000 landmarks ours keeps them all and solves to rounding: a fraction of a second whatever the rows"
UNION = "an edge that one end alone counts among its neighbours weighs half there, and in our union as much as others"
NARROW = "our default bandwidth follows the dense side and is narrow for the sparse one; what `tune` finds is wider"
FEW = "a fraction of a second: ours solves to rounding, looks for missed pairs and measures what `trust` compares with"
FLAGS = "milliseconds: ours also flags the rows that are outside the data"
FIRST = "the first call arranges the cells; the same call again takes half as long"
SINGLE = "it works in single precision and embeds no new rows"
WHY = {  # (suite, row, contender, what), without what need not be said on the left: why a peer is ahead there
    ("UMAP", "error"): KEEPS,
    ("openTSNE", "error"): KEEPS,
    **{("1,000 rows", name, "seconds"): SMALL for name in CONTENDERS},
    **{
        (f"{data} rows", name, "seconds"): FEW
        for data in ("S-curve, 1,000", "digits, 1,000", "red wine, 1,000", "S-curve, 4,000", "cytometry, 4,000")
        for name in CONTENDERS
    },
    ("pydiffmap", "transform_seconds"): FLAGS,
    ("MNIST, 60,000 rows", "UMAP", "transform_seconds"): FIRST,
    ("SnapATAC2", "seconds"): SINGLE,
    ("datafold Roseland, 1000", "seconds"): LANDMARKS,
    ("scikit-learn SpectralEmbedding", "error"): UNION,
    ("scikit-learn SpectralEmbedding, amg", "error"): UNION,
    ("uneven circle", "datafold DiffusionMaps", "error"): NARROW,
    ("uneven circle", "datafold DiffusionMaps", "eigenvalue_error"): NARROW,
    ("uneven circle", "scanpy", "eigenvalue_error"): f"{NARROW} (of the eigenfunctions it misses more)",
}


def read(path=RESULTS):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def newest(lines):
    """The lines of the commit that was measured last: one series."""
    return [line for line in lines if line["commit"] == lines[-1]["commit"]]


def keep(path, fresh):
    """Put the fresh lines in the place of older ones about the same things."""

    def of(line):
        return line["suite"], line["row"], line["contender"]

    new = read(fresh)
    replaced = {of(line) for line in new}
    lines = [line for line in read(path) if of(line) not in replaced] + new
    fresh.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.replace(fresh, path)


def over(line, of="", failed="failed"):
    """In words, what a run had too much of, or that it failed; "" if it came to its end."""
    if f"{of}stopped" in line:
        return f"over {line[f'{of}stopped']:g} s"
    if f"{of}full" in line:
        return f"over {line[f'{of}full']:.0f} GB"
    return failed if f"{of}failed" in line else ""


class Result:
    """What one contender reached at one row: medians of its runs."""

    def __init__(self, lines):
        self.lines = lines
        self.row, self.contender, self.suite = (lines[0][key] for key in ("row", "contender", "suite"))
        self.n, self.new = lines[0]["n"], lines[0]["new"]
        self.ours = self.contender.startswith("outfold")

    def median(self, key):
        found = [line[key] for line in self.lines if line.get(key) is not None]
        return statistics.median(found) if found else None

    @property
    def name(self):
        library, method, *_ = CONTENDERS[self.contender]
        library = NAMES.get(library, library)
        return library if library in (method, f"open{method}") else f"{library} {method}"

    @property
    def library(self):
        """Its name alone, with what the method has in brackets."""
        library, method, *_ = CONTENDERS[self.contender]
        return NAMES.get(library, library) + (re.search(r" \(.+\)$", method) or [""])[0]

    @property
    def stopped(self):
        """In words, why there is no figure."""
        last = self.lines[-1]
        return over(last) + (" at fewer" if "at" in last else "") or None


def results(lines, suite):
    """The rows of a suite: lists of results, ours first."""
    mine = [line for line in lines if line["suite"] == suite]
    rows = {}
    for line in mine:
        rows.setdefault(line["row"], {}).setdefault(line["contender"], []).append(line)
    places = list(CONTENDERS)  # ours in this order, whatever was measured again; peers as they come
    return [
        sorted(
            (Result(runs) for runs in row.values()),
            key=lambda one: places.index(one.contender) if one.ours else len(places),
        )
        for row in rows.values()
    ]


# -- figures in words ----------------------------------------------------------------------


def short(value):
    """Three digits at most, for people."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.{2 if abs(value) >= 1 else 3}g}" if abs(value) < 10 else f"{value:.0f}"


def times(mine, other):
    return None if not mine or not other else other / mine


def ratio(value):
    return "–" if value is None else f"{short(value)}x"


def table(head, rows):
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)])


# -- tables --------------------------------------------------------------------------------


NOT_YET = "Not measured yet."


def on_real_data(lines, limit=False):
    """The rows with real data, fewest rows first: of the systems, or of neighbours alone, which are their limit."""
    for row in sorted(results(lines, "real"), key=lambda row: row[0].n):
        if kept := [one for one in row if one.contender.startswith(NEIGHBOURS) == limit]:
            yield kept


def head(row, one):
    """The first two cells of a line: the problem in the first line of its row, and the library."""
    return f"**{one.row}**" if one is row[0] else "", f"**{one.name}**" if one.ours else one.name


def of_new_rows(one):
    """Seconds for new rows in words, and again once all is prepared for them."""
    seconds, again = one.median("transform_seconds"), one.median("again_seconds")
    if seconds is None:
        return over(one.lines[-1], "transform_") or "–"
    return short(seconds) + (f", again {short(again)}" if again is not None else "")


def real(lines):
    """Seconds of a fit and of new rows, how many times ours, and memory."""
    rows = []
    for row in on_real_data(lines):
        us = row[0]
        for one in row:
            cells = []
            for key, shown in (
                ("seconds", one.stopped or short(one.median("seconds"))),
                ("transform_seconds", of_new_rows(one)),
            ):
                cells += [shown, "1" if one is us else ratio(times(us.median(key), one.median(key)))]
            rows.append([*head(row, one), *cells, short(one.median("peak_mb"))])
    shown = ["problem", "library", "fit, seconds", "of ours", "new rows, seconds", "of ours", "peak MB"]
    return table(shown, rows) if rows else NOT_YET


def limit(lines):
    """Seconds and recall of 15 neighbours alone."""
    rows = []
    for row in on_real_data(lines, limit=True):
        for one in row:
            shown = one.stopped or short(one.median("seconds")), short(one.median("prepare_seconds"))
            recall = one.median("recall")
            found = "–" if recall is None else f"{100 * recall:.1f} %"
            rows.append([*head(row, one), *shown, of_new_rows(one), found, short(one.median("peak_mb"))])
    shown = ["problem", "library", "graph, seconds", "prepare, seconds", "new rows, seconds", "recall", "peak MB"]
    return table(shown, rows) if rows else NOT_YET


def of_ours(lines):
    """What our fits of real data tell of themselves."""
    rows = []
    for row in on_real_data(lines):
        for one in (one for one in row if one.ours):
            figures = (one.median(name) for name in ("residual", "gap", "recall", "products", "components"))
            solver = one.lines[-1].get("solver", one.stopped or "–")
            rows.append([*head(row, one), solver, *map(short, figures)])
    shown = ["problem", "method", "solver", "residual", "gap", "recall", "products", "components"]
    return table(shown, rows) if rows else NOT_YET


def timed(lines, suite):
    """Seconds (or rows a second), how many times ours, memory and error, a line for each contender."""
    rows = []
    for row in results(lines, suite):
        us = row[0]
        for one in row:
            seconds = one.median("seconds")
            shown = one.stopped or (short(one.new / seconds) if one.new else short(seconds))
            rows.append(
                [
                    f"**{one.row}**" if one is us else "",
                    f"**{one.name}**" if one is us else one.name,
                    shown,
                    "1" if one is us else ratio(times(us.median("seconds"), seconds)),
                    short(one.median("peak_mb")),
                    *([short(one.median("error"))] if suite == "fit" else []),
                ]
            )
    unit = "rows a second" if suite == "transform" else "seconds"
    head = ["problem", "library", unit, "time of ours", "peak MB", *(["error"] if suite == "fit" else [])]
    return table(head, rows)


def accuracy(lines):
    """Errors of eigenfunctions, and of eigenvalues where the library tells them."""
    rows = []
    for row in results(lines, "accuracy"):
        for one in row:
            rows.append(
                [
                    f"**{one.row}**" if one is row[0] else "",
                    f"**{one.name}**" if one is row[0] else one.name,
                    one.stopped or short(one.median("error")),
                    short(one.median("eigenvalue_error")),
                ]
            )
    return table(["sampled manifold", "library", "eigenfunctions", "eigenvalues"], rows)


def memory(lines):
    rows = []
    for row in results(lines, "memory"):
        for one in row:
            peak = one.median("peak_mb")
            more = "1" if one is row[0] else ratio(times(row[0].median("peak_mb"), peak))
            name = f"**{one.name}**" if one is row[0] else one.name
            shown = one.stopped or short(peak), more, short(one.median("work_mb"))
            rows.append([f"**{one.row}**" if one is row[0] else "", name, *shown])
    return table(["problem", "library", "peak MB", "memory of ours", "of it, the work"], rows)


def scaling(lines):
    """Seconds by rows, a column for each contender."""
    rows = results(lines, "scaling")
    names = list(dict.fromkeys(one.contender for row in rows for one in row))
    shown = []
    for n in sorted({row[0].n for row in rows}):
        by = {one.contender: one for row in rows for one in row if one.n == n}
        cells = [(by[name].stopped or short(by[name].median("seconds"))) if name in by else "" for name in names]
        shown.append([f"{n:,}", *cells])
    heads = {one.contender: one.name for row in rows for one in row}
    return table(["rows", *(heads[name] for name in names)], shown)


def character(lines):
    """How a transform behaves, in figures and words."""
    rows = []
    for row in results(lines, "character"):
        for one in row:
            last = one.lines[-1]
            rows.append(
                [
                    f"**{one.name}**" if one.ours else one.name,
                    short(last.get("consistency")),
                    short(last.get("independence")),
                    last.get("far", one.stopped or "–"),
                    last.get("apart", "–"),
                ]
            )
    head = [
        "library",
        "training rows again",
        "alone or in a batch",
        "a row far away gets",
        "two pieces without an edge: said",
    ]
    return table(head, rows)


def behind(lines):
    """Where a peer is ahead of us by more than noise: its result, in what, our figure and its."""
    asked = {
        "real": ("seconds", "transform_seconds", "peak_mb"),
        "fit": ("seconds", "peak_mb", "error"),
        "transform": ("seconds", "peak_mb"),
        "accuracy": ("error", "eigenvalue_error"),
        "memory": ("peak_mb",),
        "scaling": ("seconds",),
    }
    for suite, whats in asked.items():
        for us, *others in results(lines, suite):
            for one in (one for one in others if not one.ours and not one.contender.startswith(NEIGHBOURS)):
                for what in whats:
                    mine, other = us.median(what), one.median(what)
                    if mine and other and mine > NOISE * other and mine > 1e-9:
                        yield one, what, mine, other


def imports(lines):
    """Memory of each library with hardly any rows: what it loads."""
    found = {}
    for one in (one for row in results(lines, "character") for one in row):
        library, peak = CONTENDERS[one.contender].library, one.median("peak_mb")
        found[library] = min(peak, found.get(library, peak))
    return found


def reason(lines, one, what, mine, other):
    """Why a peer is ahead: what is known of it, or for memory how much of it is imports."""
    key = (one.suite, one.row, one.contender, what)
    known = next((WHY[key[at:]] for at in range(3) if key[at:] in WHY), None)
    if known or what != "peak_mb":
        return known or "?"
    if one.suite == "real":
        us = next(row[0] for row in results(lines, "real") if row[0].row == one.row)
        added = f"{short(us.median('work_mb'))} and {short(one.median('work_mb'))}"
        return f"imports, data and a first small fit are most of it: the fit adds {added}"
    loaded = imports(lines)
    ours, theirs = loaded["outfold"], loaded[CONTENDERS[one.contender].library]
    beyond = f"{short(mine - ours)} and {short(max(other - theirs, 0))}"
    return f"imports are {short(ours)} of it and {short(theirs)}; beyond them {beyond}"


def honest(lines):
    """The rows where we are not ahead, and why."""
    rows = []
    words = {
        "seconds": "time",
        "transform_seconds": "time of new rows",
        "error": "error",
        "eigenvalue_error": "error of eigenvalues",
        "peak_mb": "memory",
    }
    for one, what, mine, other in sorted(behind(lines), key=lambda found: list(words).index(found[1])):
        why = reason(lines, one, what, mine, other)
        rows.append([f"{one.suite}: {one.row}", one.name, words[what], short(mine), short(other), why])
    return table(["row", "ahead of us", "in", "ours", "theirs", "why"], rows) if rows else "None."


def real_ratios(lines):
    """Rows of that table about real data: fits, then new rows."""
    rows = []
    for key, title in (("seconds", ""), ("transform_seconds", "transform: ")):
        for us, *others in on_real_data(lines):
            mine = us.median(key)
            told = {one.library: (one, one.median(key)) for one in others if not one.ours}
            cells = [
                f"{name} {one.stopped or ratio(times(mine, took))}"
                for name, (one, took) in told.items()
                if took or (one.stopped and not title)
            ]
            shown = f"{short(us.new / mine)} rows/s" if title and mine else f"{short(mine)} s" if mine else us.stopped
            if shown and cells:
                rows.append([title + us.row, shown, ", ".join(cells)])
    return rows


def ratios(lines):
    """The table of the front page: how many times our time each peer takes."""
    rows = real_ratios(lines)
    for suite in ("fit", "transform"):
        for us, *others in results(lines, suite):
            mine = us.median("seconds")
            cells = []
            for one in others:
                took = one.median("seconds")
                cells.append(f"{one.library} {one.stopped or ratio(times(mine, took))}")
            shown = f"{short(us.new / mine)} rows/s" if us.new else f"{short(mine)} s"
            title = f"transform: {us.row}" if us.new else us.row
            rows.append([title, shown, ", ".join(cells)])
    return table(["problem", "Outfold", "time of the peers, in ours"], rows)


FEATURES = {  # what is known of a library by its interface and documents, for the versions that are measured
    "embeds new points": (
        "all methods",
        "Isomap, LLE, kernel PCA; not eigenmaps, MDS, clusters",
        "yes",
        "yes",
        "yes",
        "yes",
        "yes",
        "not by diffmap",
    ),
    "an error radius for each": ("yes", "no", "no", "no", "no", "no", "no", "no"),
    "back to the data": ("all methods", "kernel PCA", "diffusion maps", "no", "no", "yes", "no", "no"),
    "diffusion time, density correction": (
        "both",
        "neither",
        "both",
        "density",
        "time",
        "neither",
        "neither",
        "density",
    ),
    "fits more rows than memory": ("yes", "no", "no", "no", "no", "no", "no", "no"),
    "says bytes and seconds before a fit": ("yes", "no", "no", "no", "no", "no", "no", "no"),
    "new rows into a fitted model": ("Roseland", "no", "no", "no", "no", "yes", "no", "no"),
    "a model file that runs no code": ("yes", "no", "no", "no", "no", "no", "no", "no"),
    "licence": ("BSD", "BSD", "MIT", "MIT", "GPL", "BSD", "BSD", "BSD"),
}


def features(lines):
    """What each library can do: measured where it is about behaviour, looked up where it is not."""
    by = {name: [] for name in LIBRARIES}
    for row in results(lines, "character"):
        for one in row:
            by[CONTENDERS[one.contender].library].append(one)

    def cells(of):
        return [of([one for one in found if not one.stopped]) or "–" for found in by.values()]

    def exact(key, found):
        off = [(one.median(key), one.name.split()[-1]) for one in found if one.median(key) is not None]
        worst, who = max(off, default=(None, ""))
        if worst is None:
            return None
        return "yes" if worst < 1e-8 else f"off by {100 * worst:.1g} %" + (f" ({who})" if len(off) > 1 else "")

    def said(key, found):
        words = (one.lines[-1][key] for one in found)
        return "; ".join(dict.fromkeys(word for word in words if not word.startswith("no ")))

    rows = [[name, *words] for name, words in FEATURES.items()]
    rows[1:1] = [
        ["training rows again land where the fit put them", *cells(partial(exact, "consistency"))],
        ["a row alone lands as in a batch", *cells(partial(exact, "independence"))],
        ["a row far away gets", *cells(partial(said, "far"))],
        ["two pieces without an edge: it gives", *cells(partial(said, "apart"))],
    ]
    rows.append(
        [
            "installs with scikit-learn",
            *cells(lambda found: found[0].lines[-1]["versions"]["scikit-learn"] if found else None),
        ]
    )
    return table(["", *(NAMES.get(name, name) for name in by)], rows)


def stamp(lines):
    """When, on what, with which versions."""
    dates = sorted({line["date"] for line in lines})
    where = lines[-1]["machine"]
    versions = {}
    for line in lines:
        if "versions" in line:
            versions[CONTENDERS[line["contender"]].library] = line["versions"]
    told = ", ".join(f"{NAMES.get(name, name)} {found[name]}" for name, found in versions.items())
    base = versions["outfold"]
    commits = " ".join(sorted({line["commit"] for line in lines if line["contender"].startswith("outfold")}))
    return (
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, {where['cores']} cores ({where['cpu']}), "
        f"{where['memory_gb']} GB, Python {base['python']}, NumPy {base['numpy']}. {told}. Commit {commits}."
    )


# -- pictures ------------------------------------------------------------------------------


def picture(lines, path):
    """Seconds against rows, both on logarithmic scales."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [one for row in results(lines, "scaling") for one in row]
    rows.sort(key=lambda one: one.contender)
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    colours = iter(plt.get_cmap("Set2").colors)
    for _, runs in groupby(rows, key=lambda one: one.contender):
        runs = sorted((one for one in runs if one.median("seconds")), key=lambda one: one.n)
        if not runs:
            continue
        x, y = [one.n for one in runs], [one.median("seconds") for one in runs]
        style = (
            {"linewidth": 3, "color": "#1b4965" if "Diff" in runs[0].name else "#c8553d"}
            if runs[0].ours
            else {"color": next(colours)}
        )
        axes.loglog(x, y, marker="o", label=runs[0].name, zorder=3 if runs[0].ours else 2, **style)
    axes.set(xlabel="rows of the S-curve", ylabel="seconds of a fit, ten coordinates")
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def pages(lines):
    """The text of every place that holds figures: (page, mark) -> text."""
    found = {
        ("docs/benchmarks.md", "stamp"): stamp(lines),
        ("README.md", "features"): features(lines),
        ("README.md", "ratios"): f"{ratios(newest(lines))}\n\n{stamp(newest(lines))}",
    }
    made = {
        "real": real(lines),
        "limit": limit(lines),
        "ours": of_ours(lines),
        "fit": timed(lines, "fit"),
        "transform": timed(lines, "transform"),
        "accuracy": accuracy(lines),
        "memory": memory(lines),
        "scaling": scaling(lines),
        "character": character(lines),
        "behind": honest(lines),
    }
    return found | {("docs/benchmarks.md", mark): text for mark, text in made.items()}


def write():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import pages as marks

    lines = read()
    for (page, mark), text in pages(lines).items():
        marks.write(ROOT / page, mark, text)
    picture(lines, ROOT / "docs" / "images" / "benchmarks-scaling.png")
