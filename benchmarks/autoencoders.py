"""GRAE end to end against the ``phate`` package's landmark PHATE: mass cytometry, and a tree of 220,000 x 40.

End to end: the target, both networks, and where the training rows are put. Each run has a process of its own, one
after the other; the package runs in an interpreter of its own, given by its path. Ours: once with defaults, once with
smaller networks and a target of fewer rows, and once following our own PHATE. What is left: the mean squared error of
the way there and back over that of the mean row (for the package, which has no way back, nothing).

    python benchmarks/autoencoders.py path/to/python [part of a name] [--write]
"""

import sys
import tempfile

import numpy as np
import pages
from phate import run, tree
from sets import cells

COMMON = """
import json, resource, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
X = np.load(sys.argv[1] + "/rows.npy")
{start}
begin = time.perf_counter()
Y = model.fit_transform(X)
seconds = time.perf_counter() - begin
left = {left}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps([seconds, peak, left]))
"""
WARM = (
    "from outfold import GRAE, PHATE\nGRAE(target={0}, epochs=1).fit(np.random.default_rng(0).normal(size=(1500, 3)))\n"
)
LEFT = "float(-model.score(X[:20000]) / X[:20000].var(axis=0).mean())"
QUICK = "hidden=(100, 100), activation='relu', target_rows=3000"
WAYS = {
    "GRAE, quick": COMMON.format(start=WARM.format("None") + f"model = GRAE({QUICK}, random_state=0)", left=LEFT),
    "GRAE": COMMON.format(start=WARM.format("None") + "model = GRAE(random_state=0)", left=LEFT),
    "GRAE of PHATE": COMMON.format(
        start=WARM.format("PHATE()") + "model = GRAE(target=PHATE(), random_state=0)", left=LEFT
    ),
    "PHATE": COMMON.format(start=WARM.format("PHATE()") + "model = PHATE(random_state=0)", left="None"),
    "the package's PHATE": COMMON.format(
        start="import phate\nmodel = phate.PHATE(random_state=0, verbose=0)", left="None"
    ),
}
CASES = {
    "cytometry, 36144 x 23": cells,
    "tree, 220000 x 40": lambda: tree(220_000, 0, branches=12, features=40),
}


def main(python, part=""):
    """Measure every case whose name holds ``part``; the rows of a table."""
    table = ["| rows | | seconds | of the package's | peak, GB | left of the variance |", "|---|---|---|---|---|---|"]
    for name, rows in CASES.items():
        if part not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/rows.npy", np.ascontiguousarray(rows()))
            found = {
                way: run(python if "package" in way else sys.executable, code, folder) for way, code in WAYS.items()
            }
        theirs = found["the package's PHATE"][0]
        for way, (seconds, peak, left) in found.items():
            told = "" if left is None else f"{left:.3f}"
            table.append(f"| {name} | {way} | {seconds:.1f} | {seconds / theirs:.2f} | {peak:.2f} | {told} |")
            print(table[-1], flush=True)
    return table


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--write"]
    if not given:
        raise SystemExit(__doc__)
    lines = main(*given)
    if "--write" in sys.argv:
        pages.write("methods/grae.md", "package", "\n".join(lines))
