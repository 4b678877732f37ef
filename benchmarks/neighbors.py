"""Neighbour searches, ours and those of libraries: the table that decides what ``search="auto"`` takes.

    python benchmarks/neighbors.py                      every problem, then the tables in docs/benchmarks.md
    python benchmarks/neighbors.py --only MNIST         problems whose title has the word
    python benchmarks/neighbors.py --search faiss       searches whose name has it
    python benchmarks/neighbors.py --rows 2000 --out F  see that everything runs: few rows, lines that go elsewhere
    python benchmarks/neighbors.py --pages              measure nothing, write the tables of what there is

Each search has a process of its own at each problem, in the environment of its library. A line says the seconds of the
graph (an index, and the 15 neighbours of every row) and of 10,000 new rows, and the recall of both on 300 rows. What
compiles is compiled before the clock starts. A search is ended after a minute, or when it has taken ``PATIENCE`` times
as long as the quickest before it; an exact one that was ended is not run at more rows of the same kind. Lines of the
same commit are kept: an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
from typing import NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))
import environments
import guard
import pages
import real
import runner
import tables
from searches import SEARCHES
from sklearn.neighbors import NearestNeighbors

RESULTS = HERE / "results" / "neighbors.jsonl"
NEIGHBORS, NEW, CHECKED = 15, 10_000, 300
RECALL = 0.95  # which a search must reach to be called quickest
LIMIT = 60.0  # seconds that a search may take
PATIENCE, LEAST = 2.5, 3.0  # times as long as the quickest before it, and seconds that any search may take
COMPILE = 120.0  # seconds that a process may take besides
MEMORY = 0.85  # of the machine


# -- problems ------------------------------------------------------------------------------


class Problem(NamedTuple):
    n: int
    features: int
    dimension: int  # of the set that the rows lie on; 0: noise in all features
    data: str = ""  # a table of `real`, instead of rows drawn

    @property
    def title(self):
        if self.data:
            return self.data
        return f"{self.n:,} x {self.features}, " + (f"dimension {self.dimension}" if self.dimension else "noise")

    def rows(self, count, seed):
        """Rows to search among (seed 0), or new ones."""
        if self.data:
            table = real.TABLES[self.data]
            return np.ascontiguousarray(table.new(count) if seed else table.rows(count))
        random = np.random.default_rng(seed)
        if not self.dimension:
            return random.normal(size=(count, self.features))
        waves = np.random.default_rng(99).normal(size=(self.dimension, self.features))
        return np.sin(random.uniform(-1, 1, (count, self.dimension)) @ waves)


PROBLEMS = [
    *(Problem(2000, *kind) for kind in ((3, 2), (10, 0), (50, 8), (784, 8))),
    *(Problem(10_000, *kind) for kind in ((3, 2), (10, 8), (10, 0), (50, 2), (50, 8), (50, 0), (200, 8), (784, 8))),
    *(Problem(50_000, *kind) for kind in ((3, 0), (10, 8), (10, 0), (50, 2), (50, 8), (200, 8))),
    *(Problem(200_000, *kind) for kind in ((10, 8), (50, 8))),
    Problem(60_000, 784, 0, "MNIST"),
    Problem(100_000, 50, 0, "clusters in 50-D"),
]


def truth(X, Z):
    """Some rows, and the distance of their last true neighbour, without the rows themselves; the same of new ones."""
    at = np.sort(np.random.default_rng(0).permutation(len(X))[:CHECKED])
    exact = NearestNeighbors(n_neighbors=NEIGHBORS + 1, algorithm="brute").fit(X)
    new = exact.kneighbors(Z[:CHECKED], NEIGHBORS)[0][:, -1]
    return {"at": at, "radii": exact.kneighbors(X[at])[0][:, -1], "new_radii": new}


# -- measuring -----------------------------------------------------------------------------


def run(given, keep, past):
    """Measure the problems asked for, a line for each search."""
    about = {"commit": runner.commit(), "machine": runner.machine(), "date": datetime.date.today().isoformat()}
    for problem in (problem for problem in PROBLEMS if given.only in problem.title):
        if reason := real.missing(problem.data):
            print(f"{problem.title}: left out, {reason}", file=sys.stderr)
            continue
        n = min(problem.n, given.rows or problem.n)
        done = {
            line["search"]: line
            for line in past
            if (line["problem"], line["n"], line["commit"]) == (problem.title, n, about["commit"])
        }
        names = [name for name in SEARCHES if given.search in name and name not in done and fit_for(name, problem)]
        if names:
            measure(problem, n, names, done, about, keep, past)


def fit_for(name, problem):
    """Whether a search is measured there: one that compiles for long in every process, only where it has a chance."""
    return not SEARCHES[name].compiles or (problem.n >= 50_000 and problem.features >= 10)


def hopeless(name, problem, past):
    """That an exact search, which takes seconds as the square of the rows, was stopped at fewer rows of this kind."""
    kind = (name, problem.features, problem.dimension)
    for line in past if SEARCHES[name].exact and not problem.data else ():
        alike = (line["search"], line["features"], line["dimension"]) == kind and line["n"] < problem.n
        if alike and "stopped" in line:
            return {"stopped": line["stopped"], "at": line.get("at", line["n"])}
    return {}


def measure(problem, n, names, done, about, keep, past):
    with tempfile.TemporaryDirectory() as folder:
        X, Z = problem.rows(n, 0), problem.rows(min(NEW, n) if problem.data else NEW, 1)
        task = {name: str(pathlib.Path(folder) / f"{name}.npy") for name in ("rows", "new_rows")}
        np.save(task["rows"], X), np.save(task["new_rows"], Z)
        np.savez(pathlib.Path(folder) / "truth.npz", **truth(X, Z))
        task |= {"truth": str(pathlib.Path(folder) / "truth.npz"), "k": NEIGHBORS, "recall": RECALL}
        del X, Z
        for name in names:
            if done.get("outfold auto", {}).get("taken") == name.removeprefix("outfold "):
                continue  # it is measured
            line = {"problem": problem.title, "n": n, "features": problem.features, "dimension": problem.dimension}
            quickest = min((total(one) for one in done.values() if reached(one)), default=np.inf)
            limit = min(LIMIT, max(LEAST, PATIENCE * quickest))
            found = hopeless(name, problem, past) or child(name, task | {"search": name, "limit": limit})
            done[name] = line | {"search": name} | found | about
            past.append(done[name])
            keep(done[name])
            print(f"{problem.title:<28} {name:<16} {said(done[name])}", file=sys.stderr, flush=True)


def child(name, task):
    """Run a search where its library lives: what it found, or why there is nothing."""
    library = SEARCHES[name].library
    alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or library == "outfold"}
    command = [environments.python(library), HERE / "peers" / "searches.py"]
    ended = guard.run(command, json.dumps(task), COMPILE + task["limit"], MEMORY * guard.machine_mb(), alone)
    if ended.over == "memory":
        return {"full": MEMORY * guard.machine_mb() / 1e3}
    if ended.over or ended.code == -signal.SIGALRM:
        return {"stopped": round(task["limit"], 1)}
    if ended.code:
        return {"failed": (ended.err.strip().splitlines() or [f"code {ended.code}"])[-1][:200]}
    return json.loads(ended.out.splitlines()[-1])


def total(line):
    """Seconds of all that a fit and a transform ask of a search."""
    return line["graph_seconds"] + line["prepare_seconds"] + line["new_seconds"]


def reached(line):
    return "new_recall" in line and min(line["graph_recall"], line["new_recall"]) >= RECALL


def said(line):
    if "new_seconds" not in line:
        return line.get("failed") or tables.over(line) + (f" at {line['at']:,} rows" if "at" in line else "")
    seconds = f"graph {line['graph_seconds']:7.3f} s, new rows {new_rows(line):7.3f} s"
    recall = f"recall {line['graph_recall']:.3f}, {line['new_recall']:.3f}"
    return f"{seconds}, {recall}, alike {line['alike']:.2f}" + (f", took {line['taken']}" if "taken" in line else "")


def new_rows(line):
    return line["prepare_seconds"] + line["new_seconds"]


# -- tables --------------------------------------------------------------------------------


def by_problem(lines):
    """The lines of each problem by the name of the search, in the order of the list."""
    found = {}
    for line in lines:
        found.setdefault(line["problem"], {})[line["search"]] = line
    return {one.title: found[one.title] for one in PROBLEMS if one.title in found}


def percent(share):
    return f"{100 * share:.1f} %"


def figures(line):
    recall = percent(min(line["graph_recall"], line["new_recall"]))
    return [tables.short(line["graph_seconds"]), tables.short(new_rows(line)), recall]


def by_taken(found):
    """The lines with that of "auto" under the name of the search that it took."""
    return {f"outfold {line['taken']}" if "taken" in line else name: line for name, line in found.items()}


def deciding(problems):
    """Of each problem the quickest search, ours, and how many times as long it takes."""
    rows = []
    for title, found in problems.items():
        good = {name: line for name, line in found.items() if reached(line)}
        auto = found.get("outfold auto", {})
        if not good or "new_seconds" not in auto:
            rows.append([title, "–", "", "", "", tables.over(auto) or "–", *[""] * 5])
            continue
        best = min(good, key=lambda name: total(good[name]))
        own = {name: total(line) for name, line in good.items() if name.startswith("outfold")}
        least = min(own, key=own.get, default="–")
        least = auto["taken"] if least == "outfold auto" else least.removeprefix("outfold ")
        shown = auto["taken"] if best == "outfold auto" else best
        name = f"**Outfold {shown.removeprefix('outfold ')}**" if best.startswith("outfold") else shown
        ratio = tables.ratio(total(auto) / total(good[best]))
        rows.append([title, name, *figures(good[best]), auto["taken"], *figures(auto), ratio, least])
    head = ["problem", "quickest", "graph, s", "new rows, s", "recall", "auto takes", "graph, s", "new rows, s"]
    return tables.table([*head, "recall", "of the quickest", "quickest of ours"], rows)


def behaving(problems):
    """Of each search how often it reached the recall and was the quickest, and how it answers."""
    shown = [by_taken(found) for found in problems.values()]
    rows, winners = [], []
    for found in shown:
        good = [name for name, line in found.items() if reached(line)]
        winners += [min(good, key=lambda name: total(found[name]))] if good else []
    for name in (name for name in SEARCHES if name != "outfold auto"):
        lines = [found[name] for found in shown if name in found]
        ran = [line for line in lines if "new_seconds" in line]
        cells = [f"{sum(map(reached, lines))} of {len(lines)}", str(winners.count(name))]
        if ran:
            same = sum(line["deterministic"] for line in ran)
            cells += ["yes" if same == len(ran) else "no" if not same else f"in {same} of {len(ran)}"]
            least = min(line["alike"] for line in ran)
            cells += ["yes" if least == 1 else f"{percent(least)} of them"]
        title = f"**{name.replace('outfold', 'Outfold')}**" if name.startswith("outfold") else name
        rows.append([title, *cells, *["–"] * (4 - len(cells))])
    head = ["search", "done in time with the recall", "quickest", "same index twice", "training rows asked again"]
    return tables.table(head, rows)


def text(lines):
    problems = by_problem(lines)
    if not problems:
        return tables.NOT_YET
    versions = {SEARCHES[line["search"]].library: line["versions"] for line in lines if "versions" in line}
    told = ", ".join(f"{tables.NAMES.get(name, name)} {found[name]}" for name, found in versions.items())
    machine, dates = lines[-1]["machine"], sorted({line["date"] for line in lines})
    where = f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gb']} GB"
    commits = " ".join(sorted({line["commit"] for line in lines}))
    stamp = f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, {where}. {told}. Commit {commits}."
    return f"{deciding(problems)}\n\n{behaving(problems)}\n\n{stamp}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="problems whose title has it")
    parser.add_argument("--search", default="", metavar="WORD", help=f"of {', '.join(SEARCHES)}")
    parser.add_argument("--rows", type=int, metavar="N", help="no problem has more rows; needs --out")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="where the lines go")
    parser.add_argument("--pages", action="store_true", help="measure nothing, write the tables")
    given = parser.parse_args()
    if given.rows and given.out == RESULTS:
        parser.error("lines of fewer rows are no results: --rows needs an --out of its own")

    def keep(line):
        kept = {(one["problem"], one["search"]): one for one in tables.read(given.out)}
        kept[line["problem"], line["search"]] = line
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("".join(json.dumps(one) + "\n" for one in kept.values()))

    start = time.perf_counter()
    if not given.pages:
        guard.end_with_children()
        run(given, keep, tables.read(given.out))
        print(f"{(time.perf_counter() - start) / 60:.1f} minutes", file=sys.stderr)
    if given.out == RESULTS:
        pages.write("benchmarks.md", "neighbors", text(tables.read(RESULTS)))
    else:
        print(text(tables.read(given.out)))


if __name__ == "__main__":
    main()
