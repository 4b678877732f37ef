"""``outfold fit`` of a Parquet file against the library call on the array, each in a process of its own, in turns.

    python benchmarks/command.py                    4,000,000 x 3, Roseland and diffusion maps through landmarks
    python benchmarks/command.py 1000000 5          rows, and how often
    python benchmarks/command.py --write            into docs/command.md

Of the library the fit alone is timed, of the command all of it: starting Python, reading, scaling, fitting, saving.
Where others use the machine too, seconds of work of all cores compare better. Peaks are those of the whole process.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import pages

from outfold.datasets import s_curve

LIBRARY = """
import json, resource, sys, time
import numpy as np, outfold
X, method = np.load(sys.argv[1]), eval("outfold." + sys.argv[2])
start, work = time.perf_counter(), time.process_time()
method.fit(X)
seconds, work = time.perf_counter() - start, time.process_time() - work
print(json.dumps([seconds, work, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]))
"""
COMMAND = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
run = subprocess.run([sys.executable, "-c", "from outfold.app.cli.main import main; main()", *sys.argv[1:]],
                     capture_output=True, text=True)
seconds = time.perf_counter() - start
if run.returncode:
    sys.exit(run.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3]))
"""
CASES = {
    "roseland": ("Roseland(2, random_state=0)", ["--method", "roseland"]),
    "diffusion-maps, 2000 landmarks": (
        "DiffusionMaps(2, landmarks=2000, random_state=0)",
        ["--method", "diffusion-maps", "--landmarks", "2000"],
    ),
}


def measured(code: str, *words: str) -> list[float]:
    """Seconds, seconds of work of all cores, and megabytes."""
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def main(rows: int = 4_000_000, times: int = 3, *, write: bool = False) -> None:
    import pyarrow
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        X = np.asarray(s_curve(rows, random_state=0)[0])
        pyarrow.parquet.write_table(pyarrow.table(list(X.T), names=["x", "y", "z"]), place / "data.parquet")
        np.save(place / "data.npy", (X - X.mean(axis=0)) / X.std(axis=0))
        del X
        words = ["fit", str(place / "data.parquet"), "--save", str(place / "m.outfold"), "--quiet"]
        table = ["| | seconds | of the library's | work of all cores, s | peak MB |", "|---|---|---|---|---|"]
        for name, (call, options) in CASES.items():
            runs = [
                (measured(LIBRARY, str(place / "data.npy"), call), measured(COMMAND, *words, *options))
                for _ in range(times)
            ]
            ratio = statistics.median(run[1][0] / run[0][0] for run in runs)
            for who, side in (("library", 0), ("command", 1)):
                seconds, work = (statistics.median(run[side][at] for run in runs) for at in (0, 1))
                peak = max(run[side][2] for run in runs)
                shown = f"{seconds:.1f} | {ratio if side else 1:.2f} | {work:.1f} | {peak:.0f}"
                table.append(f"| {name}, the {who} | {shown} |")
                print(table[-1], flush=True)
    if write:
        pages.write("command.md", "beside the library", "\n".join(table))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] if word != "--write"), write="--write" in sys.argv)
