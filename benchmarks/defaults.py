"""The battery of defaults: Outfold and its peers, all without arguments, on manifolds and on real tables.

    python benchmarks/defaults.py --write                everything, into docs/defaults.md with its contact sheet
    python benchmarks/defaults.py --only clean           cells whose kind or name has the word
    python benchmarks/defaults.py --contender outfold    ours again; the lines of the others stay

Every fit is a line of ``results/defaults.jsonl``. Peers live in environments of their own (``peers/environments.py``).

- missed: the part of the true eigenfunctions that as many coordinates do not span, by least squares over the rows.
- accuracy: share of rows whose class is that of most of their ten nearest neighbours in 2 or 10 coordinates; for faces,
  whose label is an angle, the share of its variance that the mean of those neighbours explains.
- trustworthiness: of 10 neighbours in 2 coordinates (Venna and Kaski), on 3000 rows at most.
- top5: share of a coordinate's variance that its five largest rows hold, the larger of the first two coordinates.
- halves: two fits that share a third of the rows, on these rows, aligned: part of the variance that disagrees.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import sys
from typing import NamedTuple

import numpy as np
from default_fits import CONTENDERS, PEERS
from default_process import Library
from default_sets import DENSITIES, MANIFOLDS, NOISE, TABLES, Sample, manifold
from peers import environments
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "defaults.jsonl"
SMALL = {500: 5, 2000: 5, 20_000: 1}  # rows of a manifold: draws
BY_DEFAULT = ("outfold", "outfold eigenmaps", "outfold Roseland", *PEERS)
MEASURES = ("missed", "missed in local units", "accuracy, 2", "accuracy, 10", "trustworthiness", "top5", "halves")
LOWER_IS_BETTER = {"missed", "missed in local units", "top5", "halves"}


class Cell(NamedTuple):
    """A set on which all are compared."""

    kind: str  # "clean", "noisy" or "table"
    name: str
    n: int
    shape: tuple = ()  # of a manifold: (shape, density, noisy features)

    def draw(self, seed: int) -> Sample:
        return manifold(*self.shape, self.n, seed) if self.shape else TABLES[self.name](seed)

    @property
    def draws(self) -> int:
        return SMALL[self.n] if self.shape else 1

    def contenders(self, wanted: str) -> list[str]:
        names = [
            *BY_DEFAULT,
            *(["outfold variable"] if self.kind == "clean" else []),
            *([] if self.shape else ["UMAP", "PHATE"]),
        ]
        return [name for name in names if self.n <= CONTENDERS[name][2] and wanted in name]


def all_cells() -> list[Cell]:
    cells = [
        Cell(
            "noisy" if noise else "clean",
            f"{shape}, {density}" + (f", noise in {noise}" if noise else ""),
            n,
            (shape, density, noise),
        )
        for n, noise, shape, density in itertools.product(SMALL, NOISE, MANIFOLDS, DENSITIES)
    ]
    return cells + [Cell("table", name, len(load(0).rows)) for name, load in TABLES.items() if present(load)]


def present(load) -> bool:
    try:
        load(0)
    except FileNotFoundError as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


# -- measures ------------------------------------------------------------------------------


def missed(places: np.ndarray, functions: np.ndarray) -> float:
    used = places[:, : functions.shape[1]]
    basis = np.column_stack([np.ones(len(used)), used / np.maximum(np.abs(used).max(axis=0), 1e-300)])
    rest = functions - basis @ np.linalg.lstsq(basis, functions, rcond=None)[0]
    return float((rest.var(axis=0) / functions.var(axis=0)).mean())


def accuracy(places: np.ndarray, labels: np.ndarray) -> float:
    near = NearestNeighbors(n_neighbors=11).fit(places).kneighbors(return_distance=False)[:, :10]
    if labels.dtype.kind == "f":
        return float(1 - np.mean((labels[near].mean(axis=1) - labels) ** 2) / labels.var())
    votes = (labels[near][:, :, None] == np.unique(labels)).sum(axis=1)
    return float((np.unique(labels)[votes.argmax(axis=1)] == labels).mean())


def top5(places: np.ndarray) -> float:
    squared = np.square(places[:, :2] - places[:, :2].mean(axis=0))
    return float((np.sort(squared, axis=0)[-5:].sum(axis=0) / squared.sum(axis=0)).max())


def disagreement(first: np.ndarray, second: np.ndarray) -> float:
    """Part of the variance of two aligned pictures that differs."""
    a, b = (p[:, :2] - p[:, :2].mean(axis=0) for p in (first, second))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(1 - np.linalg.svd(a.T @ b, compute_uv=False).sum() ** 2)


def measures(sample: Sample, places: np.ndarray) -> dict[str, float]:
    if not np.isfinite(places).all():
        return {"failed": "not finite"}
    if sample.functions is not None:
        found = {"missed": missed(places, sample.functions)}
        if sample.local is not None:
            found["missed in local units"] = missed(places, sample.local)
        return found
    some = np.random.default_rng(0).permutation(len(places))[:3000]
    return {
        "accuracy, 2": accuracy(places[:, :2], sample.labels),
        "accuracy, 10": accuracy(places, sample.labels),
        "trustworthiness": float(trustworthiness(sample.rows[some], places[some, :2], n_neighbors=10)),
        "top5": top5(places),
    }


# -- runs ----------------------------------------------------------------------------------


class Task(NamedTuple):
    cell: Cell
    seed: int
    contender: str
    part: np.ndarray | None = None  # rows that are fitted; None: all


def tasks_of(cells: list[Cell], wanted: str, draws: int) -> list[Task]:
    tasks = [Task(c, s, name) for c in cells for s in range(min(draws, c.draws)) for name in c.contenders(wanted)]
    for cell in (c for c in cells if c.kind == "table" and c.n <= 3000):
        third = np.random.default_rng(0).integers(0, 3, cell.n)
        for name in ("outfold", "scanpy"):
            tasks += [Task(cell, 0, name, np.flatnonzero(third != left)) for left in (0, 1) if wanted in name]
    return tasks


def run_library(library: str, tasks: list[Task], folder: pathlib.Path, out) -> None:
    """Fit all tasks of a library in one process; write a line for each."""
    pictures: dict[tuple, np.ndarray] = {}
    with Library(library) as process:
        for task in tasks:
            sample = task.cell.draw(task.seed)
            said, places = process.fit(task.contender, sample.rows if task.part is None else sample.rows[task.part])
            line = {"contender": task.contender}
            line |= {key: said[key] for key in ("seconds", "failed", "warnings") if key in said}
            line |= {"kind": task.cell.kind, "set": task.cell.name, "n": task.cell.n, "seed": task.seed}
            if places is not None and task.part is None:
                line |= measures(sample, places)
                if task.cell.kind == "table":
                    np.save(folder / picture_name(task.cell.name, task.contender), places[:, :2])
            elif places is not None:
                key = (task.cell.name, task.contender)
                full = np.full((task.cell.n, 2), np.nan)
                full[task.part] = places[:, :2]
                if key not in pictures:
                    pictures[key] = full
                    continue
                both = np.isfinite(full[:, 0]) & np.isfinite(pictures[key][:, 0])
                line |= {"kind": "halves", "halves": disagreement(full[both], pictures[key][both])}
            out(line)


def picture_name(name: str, contender: str) -> str:
    return f"{name}--{contender}.npy".replace(" ", "-").replace(",", "")


def run(tasks: list[Task], folder: pathlib.Path, path: pathlib.Path) -> None:
    by_library: dict[str, list[Task]] = collections.defaultdict(list)
    for task in tasks:
        by_library[CONTENDERS[task.contender][0]].append(task)
    for library in by_library:
        environments.python(library)
    with open(path, "a") as file, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:

        def out(line: dict) -> None:
            short = {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in line.items()}
            print(json.dumps(short), file=file, flush=True)

        jobs = {pool.submit(run_library, name, some, folder, out): name for name, some in by_library.items()}
        for job in concurrent.futures.as_completed(jobs):
            job.result()
            print(f"{jobs[job]}: done", file=sys.stderr)


# -- tables --------------------------------------------------------------------------------


Values = dict[tuple, dict[str, list[float]]]


def read(path: pathlib.Path) -> Values:
    """Return {(kind, set, n, measure): {contender: values}}."""
    found: Values = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in map(json.loads, path.read_text().splitlines()):
        for measure in MEASURES:
            if measure in line:
                found[line["kind"], line["set"], line["n"], measure][line["contender"]].append(line[measure])
    return found


class Verdict(NamedTuple):
    """Ours against the best peer of a cell."""

    key: tuple
    ours: float
    best: float
    peer: str
    holds: bool


def judge(key: tuple, values: dict[str, list[float]], ours: str) -> Verdict | None:
    """Compare ours with the best peer: at least equal within 5 % or one standard error of the difference.

    PCA is no peer for eigenfunctions: those of circles, spheres and tori are linear in the features, so it has them by
    construction.
    """
    peers = {name: values[name] for name in PEERS if name in values and not ("missed" in key[3] and name == "PCA")}
    if ours not in values or not peers:
        return None
    sign = 1 if key[3] in LOWER_IS_BETTER else -1
    peer = min(peers, key=lambda name: sign * np.mean(peers[name]))
    mine, best = np.mean(values[ours]), np.mean(peers[peer])
    spread = [np.std(v, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in (values[ours], peers[peer])]
    holds = sign * (mine - best) <= max(0.05 * abs(best), float(np.hypot(*spread)))
    return Verdict(key, float(mine), float(best), peer, bool(holds))


GROUPS = {  # title: (kind, measure, ours)
    'Clean manifolds, `kernel="variable"`': ("clean", "missed", "outfold variable"),
    "Clean circles in local units, by default": ("clean", "missed in local units", "outfold"),
    "Noisy manifolds, by default": ("noisy", "missed", "outfold"),
    "Tables, by default: accuracy in 2 coordinates": ("table", "accuracy, 2", "outfold"),
    "Tables, by default: accuracy in 10 coordinates": ("table", "accuracy, 10", "outfold"),
    "Tables, by default: trustworthiness": ("table", "trustworthiness", "outfold"),
    "Tables, by default: agreement of two halves": ("halves", "halves", "outfold"),
}


def verdicts(found: Values) -> dict[str, list[Verdict]]:
    return {
        title: [
            v
            for key, values in found.items()
            if (key[0], key[3]) == (kind, measure) and (v := judge(key, values, ours))
        ]
        for title, (kind, measure, ours) in GROUPS.items()
    }


def as_table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def summary(found: Values) -> str:
    """How often ours is at least equal to the best peer, and where not."""
    rows = []
    for title, some in verdicts(found).items():
        if some:
            ratio = np.exp(np.mean([np.log(max(v.ours, 1e-9) / max(v.best, 1e-9)) for v in some]))
            rows.append([title, f"{sum(v.holds for v in some)} of {len(some)}", f"{ratio:.2f}"])
    return as_table(["", "at least equal to the best peer", "ours / best peer, geometric mean"], rows)


def behind(found: Values) -> str:
    rows = [
        [
            title,
            v.key[1] + (f", {v.key[2]} rows" if v.key[0] != "table" else ""),
            f"{v.ours:.3f}",
            f"{v.best:.3f}",
            v.peer,
        ]
        for title, some in verdicts(found).items()
        for v in some
        if not v.holds
    ]
    return as_table(["", "set", "ours", "best peer", "which"], rows)


def of_tables(found: Values, measure: str) -> str:
    names = [*BY_DEFAULT, "UMAP", "PHATE"]
    rows = [
        [
            key[1],
            *(
                f"{np.mean(values[name]):.3f}"[1 if np.mean(values[name]) < 0.9995 else 0 :] if name in values else ""
                for name in names
            ),
        ]
        for key, values in found.items()
        if key[0] == "table" and key[3] == measure
    ]
    return as_table(["", *names], rows)


def of_manifolds(found: Values, n: int) -> str:
    """Ours and the best peer, for each manifold of n rows: mean of the draws."""
    rows = []
    for (kind, name, count, measure), values in found.items():
        if kind in ("clean", "noisy") and (count, measure) == (n, "missed"):
            best = judge((kind, name, count, measure), values, "outfold")
            variable = f"{np.mean(values['outfold variable']):.3f}" if "outfold variable" in values else ""
            rows.append(
                [
                    name,
                    f"{np.mean(values['outfold']):.3f}",
                    variable,
                    *((f"{best.best:.3f}", best.peer) if best else ("", "")),
                ]
            )
    return as_table(["", "by default", '`kernel="variable"`', "best peer", "which"], rows)


def texts(found: Values) -> dict[str, str]:
    """Return the tables of the page, by the mark they stand behind."""
    return {
        "defaults summary": summary(found),
        "defaults behind": behind(found),
        "defaults accuracy 2": of_tables(found, "accuracy, 2"),
        "defaults accuracy 10": of_tables(found, "accuracy, 10"),
        "defaults trustworthiness": of_tables(found, "trustworthiness"),
        "defaults top5": of_tables(found, "top5"),
        "defaults manifolds": of_manifolds(found, 2000),
    }


def write(found: Values, folder: pathlib.Path) -> None:
    """Put the tables and the contact sheet into the documentation."""
    import default_sheet
    import pages

    for mark, text in texts(found).items():
        pages.write("defaults.md", mark, text)
    shown = [
        "outfold",
        "outfold eigenmaps",
        "outfold Roseland",
        *(p for p in PEERS if p != "pydiffmap"),
        "UMAP",
        "PHATE",
    ]
    pictures, labels = {}, {}
    for name, load in TABLES.items():
        labels[name] = load(0).labels
        for contender in shown:
            if (path := folder / picture_name(name, contender)).exists():
                pictures[name, contender] = np.load(path)
    default_sheet.draw(pictures, labels, pages.DOCS / "images" / "defaults.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="cells whose kind or name has it")
    parser.add_argument("--contender", default="", metavar="WORD", help="contenders whose name has it")
    parser.add_argument("--rows", type=int, default=20_000, metavar="N", help="manifolds of at most N rows")
    parser.add_argument("--draws", type=int, default=5, metavar="N", help="at most N draws of a manifold")
    parser.add_argument(
        "--out", type=pathlib.Path, default=RESULTS, help="where the lines go; what is measured again is replaced"
    )
    parser.add_argument(
        "--pictures",
        type=pathlib.Path,
        default=environments.folder() / "pictures",
        help="folder for the coordinates of the tables",
    )
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument(
        "--write", action="store_true", help="put the tables and the contact sheet into docs/defaults.md"
    )
    given = parser.parse_args()
    if not given.tables:
        cells = [c for c in all_cells() if given.only in f"{c.kind} {c.name}" and (not c.shape or c.n <= given.rows)]
        tasks = tasks_of(cells, given.contender, given.draws)
        given.pictures.mkdir(parents=True, exist_ok=True)
        drop(given.out, {(t.cell.name, t.cell.n, t.contender) for t in tasks})
        run(tasks, given.pictures, given.out)
    found = read(given.out)
    print(summary(found), behind(found), sep="\n\n")
    if given.write:
        write(found, given.pictures)


def drop(path: pathlib.Path, measured: set[tuple]) -> None:
    """Remove the lines of what is measured again."""
    lines = path.read_text().splitlines() if path.exists() else []
    kept = [line for line in lines if (l := json.loads(line)) and (l["set"], l["n"], l["contender"]) not in measured]
    path.write_text("".join(line + "\n" for line in kept))


if __name__ == "__main__":
    main()
