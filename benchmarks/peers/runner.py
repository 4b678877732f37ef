"""Outfold and its peers at the same problems: a process for each measurement, a JSON line for each process.

    python benchmarks/peers                      every suite, then the pages and pictures made of it
    python benchmarks/peers fit accuracy         some suites; their lines replace the older ones
    python benchmarks/peers --only Isomap        rows whose title has the word
    python benchmarks/peers real --rows 2000     see that everything runs: few rows, and lines that go elsewhere
    python benchmarks/peers --pages              measure nothing, make pages and pictures of what there is

Libraries take turns (ours, theirs, ours, theirs ...), so that what else the machine does meets all of them alike. What
compiles is compiled before the clock starts, for everyone. A run that takes longer than the limit, or nearly all of the
memory, is stopped, and the tables say so; with real data a peer that was stopped is not run at more rows.
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
import guard
import numpy as np
import real
import tables
from contenders import CONTENDERS, NEIGHBOURS
from scipy.sparse import issparse, save_npz
from suites import DATA, ONCE, SUITES, eigenfunctions, eigenvalues, fresh

HERE = pathlib.Path(__file__).parent
LIMIT = 120.0  # seconds that a fit and a transform may take
LIMITS = {"real": 120.0}  # there each of the two
WARM = 240.0  # seconds that a process may take besides: what compiles, compiles there
LONG = 25.0  # seconds beyond which a process runs once
LONG_RUN = 60.0  # with real data: seconds of our fit and transform beyond which they run once
MEMORY = 0.85  # of the machine, which a process may take


def commit():
    """The commit that is measured, the last one that changed the library, with a mark if files differ from it."""
    git, library = ["git", "-C", HERE], ["--", "../../src"]
    last = [*git, "log", "-1", "--format=%h", *library]
    name = subprocess.run(last, capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", *library], capture_output=True, text=True).stdout
    return name + ("+" if changed else "")


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"cpu": model, "cores": os.cpu_count(), "memory_gb": round(memory)}


class Measuring:
    """The runs of one session: data drawn once for all, lines written as they come."""

    def __init__(self, out, folder, limit, past=()):
        self.out, self.folder, self.limit = out, pathlib.Path(folder), limit
        self.about = {"commit": commit(), "machine": machine(), "date": datetime.date.today().isoformat()}
        self.stopped = set()  # contenders that are too slow for more rows of a growing suite
        self.past = {(line["suite"], line["row"], line["contender"]): line for line in past}
        self.samples, self.fresh = {}, {}

    def sample(self, data, n, seed):
        """Rows and truth, and the file the rows lie in."""
        key = (data, n, seed)
        if key not in self.samples:
            self.samples.clear()  # one at a time: some are large
            sample = DATA[data](n, seed)
            self.samples[key] = sample, self.write("rows", sample.rows)
        return self.samples[key]

    def new_rows(self, data, new, seed):
        """The file that holds them."""
        key = (data, new, seed)
        if key not in self.fresh:
            self.fresh.clear()
            self.fresh[key] = self.write("new", fresh(data, new, seed))
        return self.fresh[key]

    def write(self, name, X):
        path = str(self.folder / name) + (".npz" if issparse(X) else ".npy")
        save_npz(path, X, compressed=False) if issparse(X) else np.save(path, X)
        return path

    def once(self, suite, row, name, seed):
        """Measure one contender at one row; the line about it."""
        sample, path = self.sample(row.data, row.n, seed)
        answer = self.folder / "answer"
        task = {"suite": suite, "contender": name, "rows": path, "answer": str(answer)}
        if row.new:
            task["new_rows"] = self.new_rows(row.data, row.new, seed)
        about = {"suite": suite, "row": row.title, "contender": name, "data": row.data, "n": row.n, "new": row.new}
        line = about | {"features": sample.rows.shape[1], "seed": seed}
        line |= self.already(suite, row.n, name) or self.child(CONTENDERS[name].library, task)
        found = np.load(answer.with_suffix(".npz")) if "seconds" in line else None
        if found is not None and name.startswith(NEIGHBOURS):
            line["recall"] = real.recall(sample.rows, found["embedding"])
        if found is not None and row.error:
            line["error"] = row.error(sample, found)
            if row.error is eigenfunctions:
                line["eigenvalue_error"] = eigenvalues(sample, found)
        return line | self.about

    def child(self, library, task):
        """Run the task where the library lives."""
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or library == "outfold"}
        stages = 4 if task.get("suite") == "real" else 1
        ended = guard.run(
            [environments.python(library), HERE / "contenders.py"],
            json.dumps(task | {"limit": self.limit}),
            WARM + stages * self.limit,
            MEMORY * guard.machine_mb(),
            alone,
        )
        said = [line for line in ended.out.splitlines() if line.startswith('{"seconds"')]
        line, end = json.loads(said[-1]) if said else {}, self.why(ended)
        return line | {f"transform_{name}": value for name, value in end.items()} if line else end

    def why(self, ended):
        """Why a process did not come to its end, if so."""
        if ended.over == "memory":
            return {"full": MEMORY * guard.machine_mb() / 1e3}
        if ended.over or ended.code == -signal.SIGALRM:  # the child's own clock, which starts when all is compiled
            return {"stopped": self.limit}
        if ended.code:
            told = ended.err.strip().splitlines()
            return {"failed": told[-1][:200] if told else f"code {ended.code}"}
        return {}

    def already(self, suite, n, name):
        """With real data: that a peer was stopped at fewer rows, and where."""
        if suite not in LIMITS or name.startswith("outfold"):
            return {}
        for (of, title, who), line in self.past.items():
            if (of, who) == (suite, name) and line["n"] < n and "at" not in line and tables.over(line, failed=""):
                return {key: line[key] for key in ("stopped", "full") if key in line} | {"at": title}
        return {}

    def row(self, suite, row, repeats):
        """All contenders of a row in turn, as often as asked; those whose process takes long or fails, once."""
        if reason := real.missing(row.data):
            print(f"{suite:>10} {row.title[:44]:<44} left out: {reason}", file=sys.stderr, flush=True)
            return
        left = [name for name in row.contenders if (suite, name) not in self.stopped]
        for seed in range(repeats):
            for name in list(left):
                start = time.perf_counter()
                line = self.once(suite, row, name, seed if suite == "accuracy" else 0)
                print(json.dumps(line), file=self.out, flush=True)
                tell(line)
                self.past[suite, row.title, name] = line
                if "seconds" not in line or too_long(suite, line, time.perf_counter() - start):
                    left.remove(name)
                if suite == "scaling" and too_slow(line, self.limit):
                    self.stopped.add((suite, name))


def too_long(suite, line, took):
    """Whether once is enough: the process took long, or with real data and one of ours, what was measured did."""
    if suite not in LIMITS or not line["contender"].startswith("outfold"):
        return took > LONG
    return sum(line.get(f"{name}seconds", 0) for name in ("", "prepare_", "transform_")) > LONG_RUN


def too_slow(line, limit):
    """Whether four times the rows would take longer than the limit."""
    return 4 * line.get("seconds", limit) > limit


def tell(line):
    if "seconds" not in line:
        said = line.get("failed", tables.over(line)) + (f" (at {line['at']})" if "at" in line else "")
    else:
        said = f"{line['seconds']:9.3f} s {line['peak_mb']:8.0f} MB"
        said += f"  error {line['error']:.2g}" if line.get("error") is not None else ""
        said += f"  recall {line['recall']:.3f}" if "recall" in line else ""
        said += f"  far: {line['far']}" if "far" in line else ""
        said += f"  new rows: {line['transform_seconds']:.3f} s" if "transform_seconds" in line else ""
        said += f"  new rows: {line.get('transform_failed', over)}" if (over := tables.over(line, "transform_")) else ""
    print(f"{line['suite']:>10} {line['row'][:44]:<44} {line['contender']:<36} {said}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all of them by default")
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose title has it")
    parser.add_argument("--contender", default="", metavar="WORD", help="contenders whose name has it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="a run that takes longer is stopped",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="no data set has more rows, old or new; needs --out")
    parser.add_argument("--out", type=pathlib.Path, default=tables.RESULTS, help="where the lines go")
    parser.add_argument("--pages", action="store_true", help="measure nothing, make the pages")
    given = parser.parse_args()
    if unknown := set(given.suites) - set(SUITES):
        parser.error(f"no suite {', '.join(sorted(unknown))}: there are {', '.join(SUITES)}")
    if given.rows and given.out == tables.RESULTS:
        parser.error("lines of fewer rows are no results: --rows needs an --out of its own")
    if not given.pages:
        measure(given)
    if given.out == tables.RESULTS:
        tables.write()


def measure(given):
    guard.end_with_children()
    chosen = given.suites or list(SUITES)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    fresh = given.out.with_suffix(".new")
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder, open(fresh, "w") as out:
            work = Measuring(out, folder, given.limit, tables.read(given.out))
            for suite in chosen:
                work.limit = given.limit or LIMITS.get(suite, LIMIT)
                for row in SUITES[suite]:
                    row = row._replace(contenders=tuple(name for name in row.contenders if given.contender in name))
                    if given.rows:
                        row = row._replace(n=min(row.n, given.rows), new=min(row.new, given.rows))
                    if given.only in row.title:
                        work.row(suite, row, 1 if suite in ONCE else given.repeats)
    finally:  # what was measured before an interruption is kept
        tables.keep(given.out, fresh)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes", file=sys.stderr)
