"""Networks beside the slides' tables: ten runs on the published split, means and spreads.

Runs differ in the seed of weights, batches and held-out rows. Probes are those of ``outfold reproduce networks``; two
processes of one thread each. A run is a line of JSON in the given file, and is not done again.

    python benchmarks/networks.py results.jsonl [part of a set's or a method's name] [--write]
"""

import json
import os
import pathlib
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import numpy as np
import pages
from sets import FOLDER

from outfold.papers import networks

RUNS, PROCESSES = 10, 2
ALL = networks.NETWORKS | networks.LONGER


def one(name, method, seed):
    """The three figures of a run, and its seconds."""
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    _, found = networks.measure(networks.SETS[name], ALL[method][0], seed)
    return {"set": name, "method": method, "seed": seed, "found": found, "seconds": time.perf_counter() - begin}


def run(file, part):
    """Every run that is not in the file yet."""
    done = {(r["set"], r["method"], r["seed"]) for r in records(file)}
    wanted = [(s, m, seed) for m in ALL for seed in range(RUNS) for s in networks.SETS if part in f"{s} {m}"]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool, file.open("a") as lines:
        for job in as_completed([pool.submit(one, *key) for key in wanted if key not in done]):
            print(json.dumps(job.result()), file=lines, flush=True)
            print(json.dumps(job.result()), flush=True)


def records(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(file):
    """Means and spreads by method, each below the row of the slides that it is compared with."""
    every = records(file)
    lines = ["| | set | runs | MSE | R² | accuracy |", "|---|---|---|---|---|---|"]
    for name, slides in networks.SLIDES.items():
        for model, values in slides.items():
            lines.append(f"| {model}, slides | {name} | 10 | " + " | ".join(f"{x:.4f}" for x in values) + " |")
            for method, (_, row) in ALL.items():
                ours = [r for r in every if r["set"] == name and r["method"] == method]
                if row != model or not ours:
                    continue
                found = np.array([r["found"] for r in ours])
                told = (f"{m:.5f} ± {s:.5f}" for m, s in zip(found.mean(axis=0), found.std(axis=0)))
                lines.append(f"| **{method}** | {name} | {len(ours)} | {' | '.join(told)} |")
    return lines


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--write"]
    if not given:
        raise SystemExit(__doc__)
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OUTFOLD_DATA=str(FOLDER))
    results = pathlib.Path(given[0])
    run(results, given[1] if len(given) > 1 else "")
    print("\n".join(table(results)))
    if "--write" in sys.argv:
        pages.write("methods/grae.md", "slides", "\n".join(table(results)))
