"""Outfold and its peers at the same problems: a process for each measurement, a JSON line for each process.

    python benchmarks/peers                      every suite, then the pages and pictures made of it
    python benchmarks/peers fit accuracy         some suites; their lines replace the older ones
    python benchmarks/peers --only Isomap        rows whose title has the word
    python benchmarks/peers --pages              measure nothing, make pages and pictures of what there is

Libraries take turns (ours, theirs, ours, theirs ...), so that what else the machine does meets all of them alike. What
compiles is compiled before the clock starts, for everyone. A run that takes longer than the limit is stopped, and the
tables say so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

import environments
import numpy as np
import tables
from contenders import CONTENDERS
from suites import DATA, ONCE, SUITES, eigenfunctions, eigenvalues

HERE = pathlib.Path(__file__).parent
LIMIT = 120.0  # seconds that a fit and a transform may take
WARM = 240.0  # seconds that a process may take besides: what compiles, compiles there
LONG = 25.0  # seconds beyond which a process runs once


def commit():
    """The commit that is measured, with a mark if files differ from it."""
    git = ["git", "-C", HERE]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "--", "../../src"], capture_output=True, text=True).stdout
    return name + ("+" if changed else "")


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"cpu": model, "cores": os.cpu_count(), "memory_gb": round(memory)}


class Measuring:
    """The runs of one session: data drawn once for all, lines written as they come."""

    def __init__(self, out, folder, limit):
        self.out, self.folder, self.limit = out, pathlib.Path(folder), limit
        self.about = {"commit": commit(), "machine": machine(), "date": datetime.date.today().isoformat()}
        self.stopped = set()  # contenders that are too slow for more rows of a growing suite
        self.samples = {}

    def sample(self, data, n, seed):
        """Rows and truth, and the file the rows lie in."""
        key = (data, n, seed)
        if key not in self.samples:
            self.samples.clear()  # one at a time: some are large
            path = self.folder / f"{data}-{n}-{seed}.npy".replace(" ", "-")
            sample = DATA[data](n, seed)
            np.save(path, sample.rows)
            self.samples[key] = sample, str(path)
        return self.samples[key]

    def once(self, suite, row, name, seed):
        """Measure one contender at one row; the line about it."""
        sample, path = self.sample(row.data, row.n, seed)
        answer = self.folder / "answer"
        task = {"suite": suite, "contender": name, "rows": path, "answer": str(answer)}
        if row.new:
            task["new_rows"] = str(self.folder / "new.npy")
            np.save(task["new_rows"], DATA[row.data](row.new, seed + 1000).rows)
        about = {"suite": suite, "row": row.title, "contender": name, "data": row.data, "n": row.n, "new": row.new}
        line = about | {"features": sample.rows.shape[1], "seed": seed} | self.child(CONTENDERS[name].library, task)
        if "seconds" in line and row.error:
            found = np.load(answer.with_suffix(".npz"))
            line["error"] = row.error(sample, found)
            if row.error is eigenfunctions:
                line["eigenvalue_error"] = eigenvalues(sample, found)
        return line | self.about

    def child(self, library, task):
        """Run the task where the library lives."""
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or library == "outfold"}
        try:
            done = subprocess.run(
                [environments.python(library), HERE / "contenders.py"],
                input=json.dumps(task | {"limit": self.limit}),
                capture_output=True,
                text=True,
                timeout=WARM + self.limit,
                env=alone,
            )
        except subprocess.TimeoutExpired:
            return {"stopped": self.limit}
        if done.returncode == -signal.SIGALRM:  # the child's own clock, which starts when all is compiled
            return {"stopped": self.limit}
        if done.returncode:
            return {
                "failed": done.stderr.strip().splitlines()[-1][:200]
                if done.stderr.strip()
                else f"code {done.returncode}"
            }
        return json.loads(done.stdout.splitlines()[-1])

    def row(self, suite, row, repeats):
        """All contenders of a row in turn, as often as asked; those whose process takes long or fails, once."""
        left = [name for name in row.contenders if (suite, name) not in self.stopped]
        for seed in range(repeats):
            for name in list(left):
                start = time.perf_counter()
                line = self.once(suite, row, name, seed if suite == "accuracy" else 0)
                print(json.dumps(line), file=self.out, flush=True)
                tell(line)
                if "seconds" not in line or time.perf_counter() - start > LONG:
                    left.remove(name)
                if suite == "scaling" and too_slow(line, self.limit):
                    self.stopped.add((suite, name))


def too_slow(line, limit):
    """Whether four times the rows would take longer than the limit."""
    return 4 * line.get("seconds", limit) > limit


def tell(line):
    if "seconds" not in line:
        said = f"stopped after {line['stopped']} s" if "stopped" in line else line["failed"]
    else:
        said = f"{line['seconds']:9.3f} s {line['peak_mb']:8.0f} MB"
        said += f"  error {line['error']:.2g}" if line.get("error") is not None else ""
        said += f"  far: {line['far']}" if "far" in line else ""
    print(f"{line['suite']:>10} {line['row'][:44]:<44} {line['contender']:<36} {said}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all of them by default")
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose title has it")
    parser.add_argument("--contender", default="", metavar="WORD", help="contenders whose name has it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="SECONDS", help="a run that takes longer is stopped"
    )
    parser.add_argument("--out", type=pathlib.Path, default=tables.RESULTS, help="where the lines go")
    parser.add_argument("--pages", action="store_true", help="measure nothing, make the pages")
    given = parser.parse_args()
    if unknown := set(given.suites) - set(SUITES):
        parser.error(f"no suite {', '.join(sorted(unknown))}: there are {', '.join(SUITES)}")
    if not given.pages:
        measure(given)
    if given.out == tables.RESULTS:
        tables.write()


def measure(given):
    chosen = given.suites or list(SUITES)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    fresh = given.out.with_suffix(".new")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, open(fresh, "w") as out:
        work = Measuring(out, folder, given.limit)
        for suite in chosen:
            for row in SUITES[suite]:
                row = row._replace(contenders=tuple(name for name in row.contenders if given.contender in name))
                if given.only in row.title:
                    work.row(suite, row, 1 if suite in ONCE else given.repeats)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes", file=sys.stderr)
    tables.keep(given.out, fresh)
