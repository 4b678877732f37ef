"""PHATE against the ``phate`` package: agreement, seconds, and whether training rows and new ones follow one rule.

The package runs in an interpreter of its own, given by its path (its licence is not ours: nothing of it is imported).
Each run has a process of its own, both with default parameters; fits are timed with ``fit_transform``, ours after
what numba compiles once is compiled. Agreement is the correlation of distances between rows in the two embeddings; one
rule: root mean square of transform(X[i]) - fit_transform(X)[i] over 500 rows, relative to the spread.

    python benchmarks/phate.py path/to/python [part of a name] [--write]
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pages
from sets import FOLDER, SETS, cells, drawn

from outfold.quality import distance_correlation

COMMON = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
X = np.load(sys.argv[1] + "/rows.npy")
{start}
begin = time.perf_counter()
Y = model.fit_transform(X)
seconds = time.perf_counter() - begin
at = np.random.default_rng(0).permutation(len(X))[:500]
off = np.sqrt(np.square(model.transform(X[at]) - Y[at]).sum(axis=1).mean() / Y.var(axis=0).sum())
np.save(sys.argv[1] + "/{side}.npy", Y)
print(json.dumps([seconds, float(off), int({t})]))
"""
OURS = COMMON.format(
    side="ours",
    t="model.t_",
    start="from outfold import PHATE\nPHATE().fit(np.random.default_rng(0).normal(size=(1500, 3)))\n"
    "model = PHATE(random_state=0)",
)
THEIRS = COMMON.format(
    side="theirs", t="model.optimal_t", start="import phate\nmodel = phate.PHATE(random_state=0, verbose=0)"
)


def tree(n, seed, branches=8, features=30):
    """Straight branches of length 10, each from the end of one of the last three, with noise."""
    rng = np.random.default_rng(seed)
    ends, rows = [np.zeros(features)], []
    for part in np.array_split(np.arange(n), branches):
        start = ends[rng.integers(max(0, len(ends) - 3), len(ends))]
        step = rng.normal(size=features)
        step *= 10 / np.linalg.norm(step)
        rows.append(start + rng.uniform(size=(len(part), 1)) * step)
        ends.append(start + step)
    return np.vstack(rows) + rng.normal(scale=0.4, size=(n, features))


def helices(n, seed):
    return drawn(np.load(FOLDER / "grae" / "toroidal_helices.npz")["X"])(n, seed)


CASES = {
    "tree, 1500": (tree, 1500),
    "tree, 5000": (tree, 5000),
    "another tree, 5000": (lambda n, seed: tree(n, seed + 1), 5000),
    "Swiss roll, 1800": (SETS["Swiss roll"], 1800),
    "Swiss roll, 5000": (SETS["Swiss roll"], 5000),
    "S-curve, 1500": (SETS["S-curve"], 1500),
    "S-curve, 4000": (SETS["S-curve"], 4000),
    "digits, 1797": (SETS["digits"], 1797),
    "cytometry, 1500": (SETS.get("cytometry"), 1500),
    "cytometry, 6000": (SETS.get("cytometry"), 6000),
    "cytometry, 31027 (without copies)": (SETS.get("cytometry"), 40_000),
    "cytometry, 36144": (lambda n, seed: cells(), 36_144),
    "toroidal helices, 1500": (helices, 1500),
    "toroidal helices, 8000": (helices, 8000),
}


def run(python, code, folder):
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or python == sys.executable}
    done = subprocess.run(
        [python, "-c", code, folder], capture_output=True, text=True, check=True, cwd=folder, env=alone
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(python, part=""):
    """Measure every case whose name holds ``part``; the rows of a table."""
    table = [
        "| rows | correlation | seconds, ours | the package | t, ours | the package | one rule, ours | the package |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (rows, n) in CASES.items():
        if part not in name or rows is None or ("cytometry" in name and "cytometry" not in SETS):
            continue
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/rows.npy", np.ascontiguousarray(rows(n, 0)))
            ours, theirs = run(sys.executable, OURS, folder), run(python, THEIRS, folder)
            embeddings = (np.load(f"{folder}/{side}.npy") for side in ("ours", "theirs"))
            found = distance_correlation(*embeddings, method="pearson")
        table.append(
            f"| {name} | {found:.3f} | {ours[0]:.1f} | {theirs[0]:.1f} | {ours[2]} | {theirs[2]} "
            f"| {ours[1]:.0g} | {theirs[1]:.1g} |"
        )
        print(table[-1], flush=True)
    return table


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--write"]
    if not given:
        raise SystemExit(__doc__)
    lines = main(*given)
    if "--write" in sys.argv:
        pages.write("methods/phate.md", "package", "\n".join(lines))
