"""Solvers on graphs they struggle with: seconds, products, residuals over mu = 1 - lambda, warnings, and pairs missed.

    python benchmarks/hard_graphs.py                           every graph with every solver, then the table
    python benchmarks/hard_graphs.py --only ring --solver auto one graph, one solver (words that the names have)
    python benchmarks/hard_graphs.py --scale 0.02              see that everything runs: lines that are not kept
    python benchmarks/hard_graphs.py --table                   measure nothing, print the table of what there is

Every fit has ten coordinates and a process of its own, which is ended after ``--limit`` seconds or with most of the
memory. What compiles is compiled before the clock starts. Graphs go in as ``kernel="precomputed"``; of tables there is
the graph of 15 neighbours, and with ", rows" the fit that finds neighbours itself. A solver that fails hands over to
another: the table shows which of them ended it. "mu above the best" compares the ten mu with the least that any solver
found for the same graph: eigenvalues are never found too small, so what is above was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import warnings

import numpy as np
from scipy.sparse import issparse, load_npz, save_npz

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
import contenders
import environments
import guard
import hard_sets
import tables

import graphs

SOLVERS = ("auto", "Lanczos", "Lobpcg", "Filtered", "ShiftInvert")
LIMIT = 300.0
COMPILE = 300.0  # seconds that a process may take besides
MEMORY = 0.85  # of the machine
LEAST_MU = 1e-12  # mu below this are rounding: they are not compared


# -- one fit, in a process of its own ------------------------------------------------------


def model(solver, task):
    from outfold import DiffusionMaps, solvers

    chosen = solver if solver == "auto" else getattr(solvers, solver)()
    kernel = {} if task["rows"] else {"kernel": "precomputed"}
    return DiffusionMaps(10, solver=chosen, **kernel, **(task["how"] or {}))


def warm(task):
    """A small fit of the same kind, thrown away."""
    from outfold.datasets import s_curve

    X = s_curve(25_000, random_state=0)[0]
    some = X if task["rows"] else graphs.nearest(X)
    model("Lanczos" if task["solver"] == "ShiftInvert" else task["solver"], {**task, "how": None}).fit(some)


def fit(task):
    """The line about one fit."""
    X = load_npz(task["data"]) if task["data"].endswith(".npz") else np.load(task["data"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm(task)
    contenders.clock(task["limit"])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        maps, line = contenders.timed(model(task["solver"], task).fit, X)
    contenders.clock(0)
    report = maps.report_
    line |= contenders.told(maps) | {"why": report.solver_why, "mu": (1 - maps.eigenvalues_).tolist()}
    return line | {"warnings": [f"{one.category.__name__}: {str(one.message)[:150]}" for one in said]}


# -- all of them ---------------------------------------------------------------------------


def measure(task):
    """Run a fit in its process; what it found, or why there is nothing."""
    command = [sys.executable, __file__, "--fit"]
    ended = guard.run(command, json.dumps(task), COMPILE + task["limit"], MEMORY * guard.machine_mb(), dict(os.environ))
    if ended.over == "memory":
        return {"full": MEMORY * guard.machine_mb() / 1e3}
    if ended.over or ended.code == -signal.SIGALRM:
        return {"stopped": task["limit"]}
    if ended.code:
        return {"failed": (ended.err.strip().splitlines() or [f"code {ended.code}"])[-1][:300]}
    return json.loads(ended.out.splitlines()[-1])


def write(folder, X):
    path = str(folder / "data") + (".npz" if issparse(X) else ".npy")
    save_npz(path, X, compressed=False) if issparse(X) else np.save(path, X)
    return path


def run(given, names, keep):
    """Measure the graphs of these names with the solvers asked for, a line for each."""
    for name in names:
        hard = hard_sets.GRAPHS[name]
        if hard.file and not (hard_sets.real.folder() / hard.file).exists():
            print(f"{name}: left out, {hard.file} is not in the data folder", file=sys.stderr)
            continue
        start = time.perf_counter()
        X = hard.make(given.scale)
        facts = {"n": X.shape[0], "edges": int(X.nnz) if issparse(X) else None}
        print(f"{name}: made in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            task = {"data": write(pathlib.Path(folder), X), "rows": hard.rows, "how": hard.how, "limit": given.limit}
            for solver in SOLVERS:
                if given.solver.lower() not in solver.lower() or (solver == "ShiftInvert" and not hard.inverse):
                    continue
                line = {"graph": name, "asked": solver} | facts | measure(task | {"solver": solver})
                keep(line)
                print("   ", " | ".join(cells(line, {})), file=sys.stderr, flush=True)


# -- the table -----------------------------------------------------------------------------


def best(lines):
    """The least mu that any solver found for each graph: none is below the true one by more than rounding."""
    found = {}
    for line in lines:
        if "mu" in line:
            found.setdefault((line["graph"], line["n"]), []).append(np.sort(line["mu"]))
    return {graph: np.min([mu for mu in many if len(mu) == len(many[0])], axis=0) for graph, many in found.items()}


def missed(line, least):
    """How far the mu of a line are above the best, relative to these."""
    floor = least.get((line["graph"], line["n"]))
    if floor is None or "mu" not in line or len(floor) != len(line["mu"]):
        return None
    return float(((np.sort(line["mu"]) - floor) / np.maximum(np.abs(floor), LEAST_MU)).max())


def cells(line, least):
    ended = tables.over(line)
    ran = line.get("solver", "")
    handed = " (fallback)" if line.get("why", "").startswith("fallback") else ""
    said = sorted({one.split(":")[0] for one in line.get("warnings", ())})
    return [
        line["graph"],
        f"{line['n']:,}",
        line["asked"],
        ran + handed if ran else "–",
        ended or tables.short(line["seconds"]),
        tables.short(line.get("products")),
        tables.short(line.get("residual")),
        tables.short(missed(line, least)),
        tables.short(line.get("peak_mb")),
        line.get("failed", ", ".join(said) or "none").replace("|", "/"),
    ]


HEAD = [
    "graph",
    "nodes",
    "asked",
    "ended by",
    "seconds",
    "products",
    "residual/mu",
    "mu above the best",
    "peak MB",
    "said",
]


def shown(lines):
    """The table in Markdown, graphs in the order of the list."""
    order = {name: place for place, name in enumerate(hard_sets.GRAPHS)}
    lines = sorted(lines, key=lambda line: (order.get(line["graph"], len(order)), SOLVERS.index(line["asked"])))
    least = best(lines)
    return tables.table(HEAD, [cells(line, least) for line in lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="graphs whose name has it")
    parser.add_argument("--solver", default="", metavar="WORD", help=f"of {', '.join(SOLVERS)}")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="SECONDS", help="a fit that takes longer is ended"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of nodes")
    parser.add_argument("--out", type=pathlib.Path, help="where the lines are kept")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        print("\n" + json.dumps(fit(json.load(sys.stdin))))
        return
    out = given.out or environments.folder() / ("hard_graphs.jsonl" if given.scale == 1 else "hard_graphs_small.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    names = [name for name in hard_sets.GRAPHS if given.only in name]

    def keep(line):
        kept = {(one["graph"], one["asked"]): one for one in tables.read(out)}
        kept[line["graph"], line["asked"]] = line
        out.write_text("".join(json.dumps(one) + "\n" for one in kept.values()))

    if not given.table:
        guard.end_with_children()
        run(given, names, keep)
    print(shown([line for line in tables.read(out) if line["graph"] in names]))


if __name__ == "__main__":
    main()
