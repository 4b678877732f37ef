"""What `outfold.plan` says of a fit against what the fit takes, for every method: a process for each fit.

A process compiles and loads everything with a small fit, resets the peak of its resident memory, fits, and reads the
peak: "grown" is what the fit held at once beside the data. Linux only. Prints a table in Markdown.

    python benchmarks/plans.py [--only Isomap] [--repeat 1]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import warnings

import numpy as np

CASES = [  # estimator, rows, features
    ("DiffusionMaps()", 200_000, 3),
    ("DiffusionMaps()", 100_000, 8),
    ("DiffusionMaps()", 30_000, 50),
    ("DiffusionMaps()", 20_000, 400),
    ("DiffusionMaps(kernel='variable')", 60_000, 3),
    ("DiffusionMaps(kernel='self_tuning')", 100_000, 3),
    ("DiffusionMaps(kernel='continuous_knn')", 100_000, 3),
    ("DiffusionMaps(kernel='gaussian', n_neighbors=32)", 30_000, 50),
    ("DiffusionMaps(kernel='gaussian', n_neighbors=None)", 4_000, 3),
    ("DiffusionMaps(kernel='gaussian', n_neighbors=None)", 6_000, 3),
    ("DiffusionMaps(kernel='gaussian', n_neighbors=None)", 4_000, 200),
    ("DiffusionMaps(kernel='gaussian', epsilon=1.0)", 2_900, 50),
    ("DiffusionMaps(kernel='cosine')", 100_000, 50),
    ("DiffusionMaps(landmarks=3000, kernel='gaussian', n_neighbors=None)", 20_000, 50),
    ("LaplacianEigenmaps()", 200_000, 3),
    ("LaplacianEigenmaps()", 30_000, 50),
    ("LaplacianEigenmaps(laplacian='unnormalized')", 40_000, 3),
    ("SpectralClustering()", 200_000, 3),
    ("SpectralClustering()", 30_000, 50),
    ("Roseland()", 500_000, 3),
    ("Roseland()", 100_000, 50),
    ("Roseland(landmarks=3000, n_neighbors=None)", 50_000, 50),
    ("KernelPCA()", 3_000, 3),
    ("KernelPCA()", 6_000, 3),
    ("KernelPCA()", 4_000, 400),
    ("KernelPCA(kernel='rbf')", 6_000, 3),
    ("KernelPCA(kernel='rbf')", 4_000, 400),
    ("ClassicalMDS()", 3_000, 3),
    ("ClassicalMDS()", 6_000, 3),
    ("ClassicalMDS()", 4_000, 400),
    ("Isomap()", 3_000, 3),
    ("Isomap()", 5_000, 3),
    ("Isomap()", 4_000, 50),
    ("Isomap(landmarks=1000)", 30_000, 3),
    ("Isomap(landmarks=1000)", 20_000, 50),
    ("LocallyLinearEmbedding()", 100_000, 3),
    ("LocallyLinearEmbedding()", 30_000, 50),
    ("PHATE()", 2_000, 3),
    ("PHATE()", 50_000, 3),
    ("PHATE()", 20_000, 50),
    ("PHATE(landmarks=None)", 4_000, 3),
]


def rows_of(n: int, features: int) -> np.ndarray:
    """Return a noisy surface in three features; in more, clusters of dimension 12 on a bent sheet."""
    from outfold.datasets import s_curve

    if features == 3:
        return s_curve(n, random_state=0)[0]
    rng = np.random.default_rng(0)
    inner = min(12, features)
    centres = rng.normal(size=(20, inner)) * 2.5
    turned = rng.normal(size=(inner, features)) / np.sqrt(inner)
    points = centres[rng.integers(20, size=n)] + rng.normal(size=(n, inner))
    return np.tanh(points / 3) * 3 @ turned + 0.15 * rng.normal(size=(n, features))


def status(name: str) -> float:
    """Return a line of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        return next(1024.0 * int(line.split()[1]) for line in file if line.startswith(f"{name}:"))


def measure(call: str, n: int, features: int) -> dict[str, object]:
    """Return the bytes planned for a fit in this process, and those it took."""
    import outfold

    warnings.simplefilter("ignore")
    X = rows_of(n, features)
    if "cosine" in call:  # which takes no negative entries
        X = np.abs(X)
    name = call.partition("(")[0]

    def make() -> outfold.DiffusionMaps:
        return eval(call, {name: getattr(outfold, name)})

    for some in (300, 1500):  # compile and load what dense and sparse fits need
        make().set_params(**({"landmarks": 100} if "landmarks=" in call else {})).fit(X[:some])
    found = outfold.plan(X, make())
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    fitted = make().fit(X)
    grown = status("VmHWM") - before
    kept = status("VmRSS") - before
    stages = {stage.name: stage.bytes for stage in found.stages}
    return {"planned": found.peak, "grown": grown, "kept": kept, "stages": stages, "solver": fitted.report_.solver}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="calls that contain this text")
    parser.add_argument("--repeat", type=int, default=1, help="processes for each fit; the median is told")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(*json.loads(chosen.one))))
        return
    print("| fit | rows | planned, MB | grown, MB | planned / grown | largest stage | solver |")
    print("|---|---|---|---|---|---|---|")
    for call, n, features in CASES:
        if chosen.only not in call:
            continue
        task = [sys.executable, __file__, "--one", json.dumps([call, n, features])]
        runs = [subprocess.run(task, capture_output=True, text=True, check=False) for _ in range(chosen.repeat)]
        lines = [json.loads(run.stdout.splitlines()[-1]) for run in runs if not run.returncode]
        if not lines:
            print(f"| `{call}` | {n} x {features} | {(runs[0].stderr.splitlines() or ['killed'])[-1]} |", flush=True)
            continue
        planned, grown = lines[0]["planned"], statistics.median(line["grown"] for line in lines)
        largest = max(lines[0]["stages"], key=lines[0]["stages"].get)
        print(
            f"| `{call}` | {n} x {features} | {planned / 1e6:.0f} | {grown / 1e6:.0f} | {planned / grown:.2f} "
            f"| {largest} | {lines[0]['solver']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
