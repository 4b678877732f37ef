"""The battery of defaults, second part: clusters, dimensions, warnings, and the defaults of all other methods.

    python benchmarks/battery.py --write                everything but MNIST 60,000, into docs/defaults-clusters.md
    python benchmarks/battery.py --only "clusters iris"  tasks whose part and set have the words
    python benchmarks/battery.py --contender "outfold"  ours again; the lines of the others stay
    python benchmarks/battery.py --missing --write      after an interruption: what has no line yet
    python benchmarks/battery.py --large --write        MNIST 60,000 alone: long, and needs a quiet machine

Every fit is a line of ``results/battery.jsonl``; ``battery_tables.py`` makes the tables of them. Its parts:

- clusters: adjusted Rand index against the classes, three draws.
- dimension: estimates of the intrinsic dimension, ours and two of the literature.
- fits: every method by default: accuracy, trustworthiness, top5 and linearity of two coordinates, and its warnings.
- rows: MNIST with 2970, 2990 and 3010 rows: how far pictures and clusters agree on the rows they share.
- large: MNIST 60,000, and 10,000 test rows through transform.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from battery_measures import likelihood_dimension, linear_share, scales, two_nearest_dimension
from battery_sets import CLASSES, DIMENSIONS, FITTED
from default_fits import CONTENDERS
from default_process import Library
from default_sets import Sample, mnist
from defaults import accuracy, disagreement, picture_name, present, top5
from peers import environments
from sets import FOLDER
from sklearn.manifold import trustworthiness
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

RESULTS = pathlib.Path(__file__).parent / "results" / "battery.jsonl"
DRAWS = 3
STEPS = (2970, 2990, 3010)  # rows of MNIST, each part of the next
CLUSTERERS = ("outfold clusters", "outfold clusters, auto", "scikit-learn clusters", "k-means")
ESTIMATES = {"maximum likelihood": likelihood_dimension, "TwoNN": two_nearest_dimension}
DIMENSIONERS = ("outfold dimension", "outfold tune", "outfold components", *ESTIMATES)
WARNING = (  # methods whose warnings are judged
    "outfold DiffusionMaps",
    "outfold LaplacianEigenmaps",
    "outfold Roseland, 2",
    "outfold Isomap",
    "outfold LLE",
    "outfold KernelPCA",
    "outfold ClassicalMDS",
    "outfold PHATE",
    "outfold Gaussian",  # no default: its maps are often linear
)
RIVALS = {  # ours: the same method of another package
    "outfold Isomap": "scikit-learn Isomap",
    "outfold LLE": "scikit-learn LLE",
    "outfold KernelPCA": "scikit-learn KernelPCA",
    "outfold PHATE": "PHATE",
}
METHODS = (*WARNING[:-1], "outfold GRAE", *RIVALS.values())
STEPPED = (*WARNING[:3], "outfold clusters", "scikit-learn clusters")
LARGE = tuple(name for name in CONTENDERS if name.endswith("60,000"))


class Task(NamedTuple):
    """What one line measures."""

    part: str
    set: str
    n: int
    seed: int
    contender: str  # "data": facts of the table itself

    @property
    def library(self) -> str:
        return CONTENDERS[self.contender][0] if self.contender in CONTENDERS else "outfold"


def cluster_tasks() -> Iterator[Task]:
    for name, classes in CLASSES.items():
        if present(lambda seed, classes=classes: classes.draw(classes.sizes[0], seed)):
            for n in classes.sizes:
                yield from (Task("clusters", name, n, seed, who) for seed in range(DRAWS) for who in CLUSTERERS)


def fit_tasks() -> Iterator[Task]:
    for name, load in FITTED.items():
        if present(load):
            n = len(load(0).rows)
            yield Task("fits", name, n, 0, "data")
            yield from (
                Task("fits", name, n, 0, who) for who in dict.fromkeys((*WARNING, *METHODS)) if n <= CONTENDERS[who][2]
            )


def dimension_tasks() -> Iterator[Task]:
    for name, (load, _) in DIMENSIONS.items():
        if present(load):
            yield from (Task("dimension", name, len(load(0).rows), 0, who) for who in DIMENSIONERS)


def all_tasks(large: int) -> Iterator[Task]:
    """Return MNIST of ``large`` rows alone, or everything else if it is 0."""
    if large:
        yield from (Task("large", "MNIST", large, 0, who) for who in LARGE)
        return
    yield from dimension_tasks()
    yield from fit_tasks()
    yield from (Task("rows", "MNIST", STEPS[-1], seed, who) for seed in range(DRAWS) for who in STEPPED)
    yield from cluster_tasks()


# -- measures ------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def draw(part: str, name: str, n: int, seed: int) -> Sample:
    if part == "clusters":
        return CLASSES[name].draw(n, seed)
    if part == "rows":
        found = mnist(n)(seed)
        order = np.random.default_rng(seed).permutation(n)
        return Sample(found.rows[order], labels=found.labels[order])
    return DIMENSIONS[name][0](seed) if part == "dimension" else FITTED[name](seed)


def cluster_options(task: Task, labels: np.ndarray) -> dict[str, int]:
    """Return what the contender is called with: the number of classes and, if it starts at random, a seed."""
    if "clusters" not in task.contender and task.contender != "k-means":
        return {}
    ours = task.contender.startswith("outfold")
    return {"clusters": len(np.unique(labels))} | ({} if ours else {"seed": task.seed})


def measure_clusters(task: Task, process: Library, folder: pathlib.Path) -> dict:
    sample = draw(*task[:4])
    line, labels = process.fit(task.contender, sample.rows, **cluster_options(task, sample.labels))
    if labels is not None:
        line["rand"] = float(adjusted_rand_score(sample.labels, labels))
        if task.seed == 0:
            np.save(folder / picture_name(f"{task.set} {task.n}", task.contender), labels)
    return line | {"classes": len(np.unique(sample.labels))}


def measure_fit(task: Task, process: Library, folder: pathlib.Path) -> dict:
    sample = draw(*task[:4])
    if task.contender == "data":
        return scales(sample.rows)._asdict()
    line, places = process.fit(task.contender, sample.rows)
    if places is None:
        return line
    if not np.isfinite(places).all():
        return {"failed": "not finite"}
    np.save(folder / picture_name(task.set, task.contender), places[:, :2])
    return line | {
        "accuracy": accuracy(places[:, :2], sample.labels),
        "trustworthiness": float(trustworthiness(sample.rows, places[:, :2], n_neighbors=10)),
        "top5": top5(places),
        "linear": linear_share(sample.rows, places),
    }


def measure_dimension(task: Task, process: Library, folder: pathlib.Path) -> dict:
    sample = draw(*task[:4])
    if task.contender in ESTIMATES:
        return {"value": ESTIMATES[task.contender](sample.rows)}
    return process.fit(task.contender, sample.rows)[0]


def measure_steps(task: Task, process: Library, folder: pathlib.Path) -> dict:
    """Return the agreement of the second and the third fit ("step") and of the first two ("before")."""
    sample = draw(*task[:4])
    found = []
    for n in STEPS:
        line, places = process.fit(task.contender, sample.rows[:n], **cluster_options(task, sample.labels))
        if places is None:
            return line
        found.append(places)
    clusters = "clusters" in task.contender
    agree, score = (adjusted_rand_score, adjusted_rand_score) if clusters else (disagreement, accuracy)
    first, second, third = found
    return line | {
        "before": float(agree(first, second[: STEPS[0]])),
        "step": float(agree(second, third[: STEPS[1]])),
        **{f"score {n}": float(score(places, sample.labels[:n])) for n, places in zip(STEPS[1:], found[1:])},
    }


def new_accuracy(places: np.ndarray, labels: np.ndarray, new: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of new rows whose class is that of most of their ten nearest fitted rows."""
    near = NearestNeighbors(n_neighbors=10).fit(places).kneighbors(new, return_distance=False)
    votes = (labels[near][:, :, None] == np.unique(labels)).sum(axis=1)
    return float((np.unique(labels)[votes.argmax(axis=1)] == truth).mean())


def measure_large(task: Task, process: Library, folder: pathlib.Path) -> dict:
    found = np.load(FOLDER / "mnist" / "mnist.npz")
    labels, truth = found["y"][: task.n], found["y_test"]
    with tempfile.TemporaryDirectory() as place:
        np.save(test := pathlib.Path(place) / "test.npy", found["X_test"] / 255.0)
        process.close()  # a process of its own: its peak is that of this fit
        line, places = process.fit(task.contender, found["X"][: task.n] / 255.0, test=str(test))
        process.close()
    if places is None:
        return line
    old, new = places[: task.n], places[task.n :]
    if places.ndim == 1:
        return line | {"rand": adjusted_rand_score(labels, old), "rand, new": adjusted_rand_score(truth, new)}
    return line | {
        f"accuracy, {columns}": new_accuracy(old[:, :columns], labels, new[:, :columns], truth) for columns in (2, 10)
    }


MEASURES: dict[str, Callable[[Task, Library, pathlib.Path], dict]] = {
    "clusters": measure_clusters,
    "fits": measure_fit,
    "dimension": measure_dimension,
    "rows": measure_steps,
    "large": measure_large,
}

# -- runs ----------------------------------------------------------------------------------


def shorten(line: dict, part: str) -> dict:
    """Round numbers to five digits, and leave out what no table reads."""
    unused = {"dimension"} if part == "large" else {"dimension", "peak"}
    return {
        key: float(f"{value:.5g}") if isinstance(value, float) else value
        for key, value in line.items()
        if key not in unused and value != []
    }


def run(tasks: list[Task], folder: pathlib.Path, path: pathlib.Path, jobs: int) -> None:
    """Measure all tasks, in ``jobs`` processes a library; write a line for each."""
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    lock, start = threading.Lock(), time.perf_counter()
    failures: list[BaseException] = []

    def work() -> None:
        with contextlib.ExitStack() as stack:
            open_ones: dict[str, Library] = {}
            while not failures:
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                if task.library not in open_ones:
                    open_ones[task.library] = stack.enter_context(Library(task.library, warm=True))
                line = MEASURES[task.part](task, open_ones[task.library], folder)
                with lock, open(path, "a") as file:
                    print(json.dumps(task._asdict() | shorten(line, task.part)), file=file)
                    left = waiting.qsize()
                    said = line.get("failed", "")
                    print(
                        f"{time.perf_counter() - start:5.0f} s, {left} left: {', '.join(map(str, task))} {said}"[:150]
                    )

    def guard() -> None:
        try:
            work()
        except BaseException as error:  # the others stop, and the main thread raises it
            failures.append(error)

    threads = [threading.Thread(target=guard) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def key_of(line: dict) -> Task:
    return Task(*(line[name] for name in Task._fields))


def read(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def drop(path: pathlib.Path, measured: set[Task]) -> None:
    """Remove the lines of what is measured again."""
    kept = [line for line in read(path) if key_of(line) not in measured]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))


def write(lines: list[dict], folder: pathlib.Path) -> None:
    """Put the tables and the contact sheets into the documentation."""
    import battery_sheets
    import battery_tables
    import pages

    for mark, text in battery_tables.texts(lines).items():
        pages.write("defaults-clusters.md", mark, text)
    battery_sheets.draw_all(folder, pages.DOCS / "images")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORDS", help="tasks whose part, set and rows have all of them")
    parser.add_argument("--contender", default="", metavar="WORD", help="contenders whose name has it")
    parser.add_argument("--missing", action="store_true", help="tasks without a line")
    parser.add_argument("--large", action="store_true", help="MNIST 60,000, and nothing else")
    parser.add_argument("--rows", type=int, default=60_000, metavar="N", help="of --large, to try it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes; 1 with --large")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="where the lines go")
    parser.add_argument("--pictures", type=pathlib.Path, default=environments.folder() / "battery", help="a folder")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--write", action="store_true", help="tables and sheets into docs/defaults-clusters.md")
    return parser.parse_args()


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)
    given = read_arguments()
    if not given.tables:
        tasks = [
            task
            for task in all_tasks(given.rows if given.large else 0)
            if all(word in f"{task.part} {task.set} {task.n}" for word in given.only.split())
            and given.contender in task.contender
        ]
        if given.missing:
            done = set(map(key_of, read(given.out)))
            tasks = [task for task in tasks if task not in done]
        given.pictures.mkdir(parents=True, exist_ok=True)
        drop(given.out, set(tasks))
        run(tasks, given.pictures, given.out, 1 if given.large else given.jobs)
    if given.write:
        write(read(given.out), given.pictures)


if __name__ == "__main__":
    main()
