"""What the first use costs: CPU seconds of an import, of a first fit after installation, and in the next process.

Each task runs in a fresh process, first with an empty cache of compiled loops ("first"), then with that cache
("next"). Prints a table in Markdown and, with ``--loops``, what was compiled for which types. Run
``python benchmarks/first_touch.py [TASK ...]``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

START = "import numpy as np\nfrom outfold.datasets import swiss_roll\nX = swiss_roll(1000, random_state=0)[0]\n"
FITTED = START + "from outfold import DiffusionMaps\nmaps = DiffusionMaps().fit(X)\nplaces = maps.embedding_[:5]\n"
FITTED += "new = swiss_roll(5, random_state=1)[0]\nmaps.transform(new)\n"

TASKS = {  # name: (what is not counted, what is)
    "import a class": ("import numpy", "from outfold import DiffusionMaps"),
    "DiffusionMaps().fit(X)": (START + "from outfold import DiffusionMaps", "DiffusionMaps().fit(X)"),
    "DiffusionMaps(n_neighbors=10)": (
        START + "from outfold import DiffusionMaps",
        "DiffusionMaps(n_neighbors=10).fit(X)",
    ),
    "DiffusionMaps, 20,000 rows": (
        START + "from outfold import DiffusionMaps\nX = swiss_roll(20_000, random_state=0)[0]",
        "DiffusionMaps().fit(X)",
    ),
    "DiffusionMaps, 4,000 x 50": (
        START + "from outfold import DiffusionMaps\nX = np.random.default_rng(0).normal(size=(4000, 50))",
        "DiffusionMaps().fit(X)",
    ),
    "Isomap().fit(X)": (START + "from outfold import Isomap", "Isomap().fit(X)"),
    "PHATE().fit(X)": (START + "from outfold import PHATE", "PHATE().fit(X)"),
    "LocallyLinearEmbedding().fit(X)": (
        START + "from outfold import LocallyLinearEmbedding",
        "LocallyLinearEmbedding().fit(X)",
    ),
    "Roseland().fit(X)": (START + "from outfold import Roseland", "Roseland().fit(X)"),
    "SpectralClustering(8).fit(X)": (START + "from outfold import SpectralClustering", "SpectralClustering(8).fit(X)"),
    "KernelPCA().fit(X)": (START + "from outfold import KernelPCA", "KernelPCA().fit(X)"),
    "transform(new)": (FITTED.rsplit("maps.transform", 1)[0], "maps.transform(new)"),
    "trust(new)": (FITTED, "maps.trust(new)"),
    "inverse_transform of 5 rows": (FITTED, "maps.inverse_transform(places)"),
    "ten lines of the README": (
        "import numpy",
        START + "from outfold import DiffusionMaps\n"
        "maps = DiffusionMaps(n_components=2).fit(X)\n"
        "assert np.allclose(maps.transform(X[:10]), maps.embedding_[:10])\n"
        "new, _ = swiss_roll(5, random_state=1)\n"
        "maps.transform(new), maps.trust(new).flag, maps.trust([[0.0, 90.0, 0.0]]).flag\n"
        "maps.inverse_transform(maps.transform(new)) - new\n"
        "str(maps.report_)",
    ),
}
HEAVY = (
    "pandas",
    "scipy.stats",
    "scipy.optimize",
    "sklearn.cluster",
    "sklearn.linear_model",
    "sklearn.metrics",
    "numba",
)

PROGRAM = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
(before, counted), watched = json.loads(sys.argv[1])
loops, scope = [], {}
if watched:
    from numba.core import event

    class Listener(event.Listener):
        begun = []

        def on_start(self, happened):
            self.begun.append(time.process_time())

        def on_end(self, happened):
            loop, spent = happened.data["dispatcher"].py_func, time.process_time() - self.begun.pop()
            types = ", ".join(map(str, happened.data["args"]))
            loops.append((loop.__module__.rpartition(".")[2] + "." + loop.__name__, types, spent, len(self.begun)))

    event.register("numba:compile", Listener())
exec(before, scope)
started = time.process_time()
exec(counted, scope)
seconds = time.process_time() - started
print(json.dumps({"seconds": seconds, "loops": loops, "modules": sorted(sys.modules)}))
"""


def run(task: tuple[str, str], cache: str, watched: bool = False) -> dict:
    """Run a task in a fresh process and return what it reports; ``watched``: with every loop compiled."""
    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps((task, watched))],
        env={**os.environ, **alone, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", help="parts of the names of tasks; all by default")
    parser.add_argument("--repeat", type=int, default=3, help="processes with the filled cache; the least time counts")
    parser.add_argument("--loops", action="store_true", help="list every loop compiled, for which types")
    given = parser.parse_args()
    print("| task | first time, CPU s | next process | our modules | loops compiled | in s | heavy modules |")
    print("|---|---|---|---|---|---|---|")
    details = []
    for name, task in TASKS.items():
        if given.tasks and not any(part in name for part in given.tasks):
            continue
        with tempfile.TemporaryDirectory() as cache:
            first = run(task, cache)
            later = [run(task, cache) for _ in range(given.repeat)]
        with tempfile.TemporaryDirectory() as cache:
            loops = run(task, cache, watched=True)["loops"]
        after = min(line["seconds"] for line in later)
        spent = sum(seconds for *_, seconds, depth in loops if depth == 0)
        ours = sum(module.split(".")[0] == "outfold" for module in first["modules"])
        heavy = ", ".join(module for module in HEAVY if module in first["modules"])
        details += [f"\n{name}", *(f"{s:7.2f} s {'  ' * depth}{loop}({types})" for loop, types, s, depth in loops)]
        print(
            f"| {name} | {first['seconds']:.2f} | {after:.2f} | {ours} | {len(loops)} | {spent:.1f} | {heavy} |",
            flush=True,
        )
    if given.loops:
        print("\n".join(details))


if __name__ == "__main__":
    main()
