"""Fits on one and two workers of a local cluster, against the plan and against the fit in memory.

    python benchmarks/cluster.py                   1, 5 and 20 million rows of 3, and rows of 50
    python benchmarks/cluster.py --rows 1000000    one size
    python benchmarks/cluster.py --write           also into docs/cluster.md

Workers are processes of one thread with 2 GB each. Rows lie in a Zarr array; plans are measured (``plan(...,
measured=True)``) right before each fit; each fit is repeated and the median taken. Efficiency is seconds on one worker
over twice the seconds on two.
"""

import argparse
import pathlib
import statistics
import tempfile
import threading
import time
import warnings

import dask.array as da
import numpy as np
import pages
import psutil
import zarr

from outfold import Roseland, datasets, plan
from outfold.distributed import cluster

LANDMARKS = 10_000
CHUNK = 1_000_000


def write_rows(path, rows, features):
    """Rows around a surface, a chunk at a time."""
    chunk = min(CHUNK * 3 // features, -(-rows // 8))
    store = zarr.open(str(path), mode="w", shape=(rows, features), chunks=(chunk, features), dtype=float)
    for number, at in enumerate(range(0, rows, chunk)):
        count = min(chunk, rows - at)
        if features == 3:
            block = datasets.s_curve(count, random_state=number)[0]
        else:
            rng = np.random.default_rng(0)
            waves, phase = rng.normal(size=(2, features)) * 1.5, rng.uniform(0, 6, features)
            block = np.sin(np.random.default_rng(number + 1).uniform(-1, 1, (count, 2)) @ waves + phase)
        store[at : at + count] = block
    return path


class Watch:
    """The largest resident memory of each worker."""

    def __init__(self, client):
        self.workers = [psutil.Process(pid) for pid in client.run(_pid).values()]
        self.most, self._done = [0] * len(self.workers), threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self):
        while not self._done.wait(0.05):
            self.most = [max(most, worker.memory_info().rss) for most, worker in zip(self.most, self.workers)]

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()


def _pid():
    import os

    return os.getpid()


def method(**more):
    return Roseland(5, landmarks=LANDMARKS, random_state=0, **more)


def timed(call):
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def on_workers(path, workers, repeats, out=None):
    """Planned and measured seconds, peak memory of a worker, and the model."""
    with cluster("local", workers=workers, memory="2GB") as client:
        rows = da.from_zarr(str(path))
        method().fit(rows[: min(len(rows), 200_000)].rechunk((50_000, -1)))  # compiled on every worker
        planned = plan(rows, method(), workers=workers, measured=True)
        with Watch(client) as watch:
            runs = [timed(lambda: method().fit(rows)) for _ in range(repeats)]
        fitted = runs[-1][0]
        found = {
            "rows": rows.shape[0],
            "features": rows.shape[1],
            "workers": workers,
            "planned": planned.seconds,
            "seconds": statistics.median(seconds for _, seconds in runs),
            "peak": max(watch.most),
        }
        if out is not None:
            found["transform"] = timed(lambda: fitted.transform(rows, out=out))[1]
    print(
        f"{found['rows']:>10} x {found['features']:<3} on {workers}: {found['seconds']:7.1f} s, planned "
        f"{found['planned']:7.1f} s ({found['planned'] / found['seconds'] - 1:+.0%}), worker at most "
        f"{found['peak'] / 1e9:.2f} GB",
        flush=True,
    )
    return found, fitted


def compared(path, fitted):
    """How far the fit in memory is from that on workers."""
    X = zarr.open(str(path), mode="r")[:]
    here, seconds = timed(lambda: method().fit(X))
    new = X[:: max(1, len(X) // 100_000)]
    apart = np.abs(here.transform(new, on_far="keep") - fitted.transform(new, on_far="keep")).max()
    values = np.abs(here.eigenvalues_ - fitted.eigenvalues_).max()
    print(
        f"           in memory {seconds:.1f} s; coordinates differ by {apart:.1e}, eigenvalues by {values:.1e}",
        flush=True,
    )
    return seconds, float(apart), float(values)


def table(found):
    lines = ["| rows | workers | seconds | planned | worker's memory | efficiency |", "|---|---|---|---|---|---|"]
    for one, two in found:
        for run in (one, two):
            efficiency = f"{one['seconds'] / (2 * two['seconds']):.2f}" if run is two else ""
            lines.append(
                f"| {run['rows']:,} x {run['features']} | {run['workers']} | {run['seconds']:.1f} "
                f"| {run['planned']:.1f} ({run['planned'] / run['seconds'] - 1:+.0%}) "
                f"| {run['peak'] / 1e9:.2f} GB | {efficiency} |"
            )
    return "\n".join(lines)


def far_plan(wide):
    """The plan of 10^9 x 50 on 100 workers, with the seconds a row of this machine, beside those of a run."""
    text = f"```\n{plan((10**9, 50), method(), workers=100, measured=True)}\n```"
    if wide is None:
        return text
    seconds = wide["seconds"] * wide["workers"] / wide["rows"] * 10**9 / 100
    return (
        f"{text}\n\nAt the seconds a row that {wide['rows']:,} x {wide['features']} took on {wide['workers']} workers "
        f"(above), it would be {seconds:,.0f} s."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--wide", type=int, default=400_000, help="rows of 50 features; 0: none")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [(rows, 3) for rows in words.rows] + ([(words.wide, 50)] if words.wide else [])
    found, last = [], None
    with tempfile.TemporaryDirectory() as folder:
        for rows, features in cases:
            path = write_rows(pathlib.Path(folder) / f"{rows}x{features}.zarr", rows, features)
            one, _ = on_workers(path, 1, words.repeats)
            two, fitted = on_workers(path, 2, words.repeats, out=pathlib.Path(folder) / "places.zarr")
            print(
                f"           efficiency {one['seconds'] / (2 * two['seconds']):.2f}; transform {two['transform']:.1f} s"
            )
            seconds, apart, values = compared(path, fitted)
            found.append((one, two))
            if features == 3:
                last = (two, seconds, apart, values)
    two, seconds, apart, values = last
    text = (
        f"{table(found)}\n\nOf {two['rows']:,} rows in memory, on two threads, the fit takes {seconds:.0f} s, with "
        f"the embedding of all of them; coordinates of 100,000 rows differ from it by {apart:.0e}, eigenvalues by "
        f"{values:.0e}. `transform` of all rows into a Zarr array takes {two['transform']:.0f} s on two workers."
    )
    print(text)
    print(far := far_plan(found[-1][1] if words.wide else None))
    if words.write:
        pages.write("cluster.md", "measured", text)
        pages.write("cluster.md", "plan", far)


if __name__ == "__main__":
    main()
