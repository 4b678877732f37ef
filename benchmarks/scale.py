"""Large fits on one machine: seconds, peak memory and residuals, each measured in a process of its own.

    python benchmarks/scale.py                    every case
    python benchmarks/scale.py roseland disk      some of them
    python benchmarks/scale.py --write            also into docs/scale.md, with the picture

Cases: roseland, diffusion, images, rates, growth, gamma, disk. Residuals are relative to mu = 1 - lambda of their pair.
"Planned" is what ``outfold.plan`` said before. Figures of others in brackets are theirs, on their machines (the thesis:
Vazova 2021, six cores) or as its prototype and peers ran on two cores.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

DOCS = pathlib.Path(__file__).parents[1] / "docs"

CHILD = """
import json, sys, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from outfold import DiffusionMaps, LaplacianEigenmaps, Roseland, datasets, plan

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def measured(call):
    most, done = [held()], threading.Event()
    before = most[0]
    def watch():
        while not done.wait(0.01):
            most[0] = max(most[0], held())
    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return result, {"seconds": seconds, "growth": most[0] - before, "peak": most[0]}

def fitted(method, X):
    method, found = measured(lambda: method.fit(X))
    report, planned = method.report_, plan(X, method).peak
    return method, found | {"residual": report.residual, "solver": report.solver, "planned": planned}

def compiled():
    few = datasets.s_curve(8000, random_state=1)[0]
    for landmarks in (500, 4000):
        Roseland(10, landmarks=landmarks, random_state=0).fit(few).transform(few)
    DiffusionMaps(10).fit(datasets.s_curve(25_000, random_state=1)[0]).transform(few)

def smooth_manifold(n, features, seed=0):
    rng = np.random.default_rng(seed)
    inside = rng.uniform(-1, 1, (n, 2))
    waves = rng.normal(size=(2, features)) * 1.5
    return np.sin(inside @ waves + rng.uniform(0, 6, features))

compiled()
"""


def child(code, repeats=1):
    """The JSON a piece of code prints as ``out``: of repeats the run of median seconds."""
    found = []
    for _ in range(repeats):
        run = subprocess.run(
            [sys.executable, "-c", f"{CHILD}\n{code}\nprint(json.dumps(out))"],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise RuntimeError(run.stderr)
        found.append(json.loads(run.stdout.splitlines()[-1]))
    return found[0] if repeats == 1 else sorted(found, key=lambda f: f["seconds"])[repeats // 2]


def fit(method, data, repeats=1):
    return child(f"out = fitted({method}, {data})[1]", repeats)


def fit_rows(cases):
    print("| fit | seconds | peak | planned | residual | solver |\n|---|---|---|---|---|---|")
    for name, method, data, repeats in cases:
        f = fit(method, data, repeats)
        print(
            f"| {name} | {f['seconds']:.1f} | {f['growth'] / 1e9:.2f} GB "
            f"| {f['planned'] / 1e9:.2f} GB | {f['residual']:.0e} | {f['solver']} |",
            flush=True,
        )


def roseland():
    curve = "datasets.s_curve({}, random_state=0)[0]".format
    fit_rows(
        [
            ("Roseland, 1M x 3, 10k landmarks", "Roseland(10, landmarks=10_000, random_state=0)",
             curve("1_000_000"), 3),
            ("Roseland, 4M x 3, 400k landmarks [15,575 s; 88 s]", "Roseland(10, landmarks=400_000, random_state=0)",
             curve("4_000_000"), 1),
            ("Roseland, 2.5M x 3, 625k landmarks [14,021 s]", "Roseland(10, landmarks=625_000, random_state=0)",
             curve("2_500_000"), 1),
        ]
    )  # fmt: skip


def diffusion():
    sizes = {"100k": (100_000, 3), "550k [3,761 s]": (550_000, 1), "1M": (1_000_000, 1)}
    fit_rows(
        [
            (f"DiffusionMaps, {name} x 3", "DiffusionMaps(10)", f"datasets.s_curve({n}, random_state=0)[0]", repeats)
            for name, (n, repeats) in sizes.items()
        ]
    )


def images():
    fit_rows(
        [("Roseland, 70k x 784, 5k landmarks", "Roseland(10, landmarks=5000, random_state=0)",
          "smooth_manifold(70_000, 784)", 1)]
    )  # fmt: skip


def rates():
    print("| transform, 10 components | points a second | others |\n|---|---|---|")
    for name, method, features, rows, others in [
        ("3-D, 1000 landmarks", "Roseland(10, landmarks=1000, random_state=0)", 3, 1_000_000, "datafold 611k"),
        ("3-D, 32 nearest of 1000", "Roseland(10, landmarks=1000, n_neighbors=32, random_state=0)", 3, 1_000_000, ""),
        ("64-D, 1000 landmarks", "Roseland(10, landmarks=1000, random_state=0)", 64, 200_000, "datafold 18.6k"),
        ("3-D, 10k training points", "DiffusionMaps(10)", 3, 500_000, "datafold 98.7k"),
        ("64-D, 10k training points", "DiffusionMaps(10)", 64, 50_000, "datafold 1.9k, pydiffmap 20k"),
    ]:
        data = "datasets.s_curve({}, random_state={})[0]" if features == 3 else "smooth_manifold({}, 64)"
        found = child(
            f"model = {method}.fit({data.format(10_000, 0)})\nZ = {data.format(rows, 1)}\nmodel.transform(Z[:20_000])\n"
            "runs = [measured(lambda: model.transform(Z))[1]['seconds'] for _ in range(5)]\nout = runs"
        )
        print(f"| {name} | {rows / statistics.median(found):,.0f} | {others} |", flush=True)


def growth():
    sizes = [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000]
    found = [
        fit("Roseland(10, landmarks=10_000, random_state=0)", f"datasets.s_curve({n}, random_state=0)[0]")
        for n in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log([f["seconds"] for f in found]), 1)[0]
    print("| rows | " + " | ".join(f"{n / 1e6:g}M" for n in sizes) + " |\n|" + "---|" * (len(sizes) + 1))
    print("| seconds, 10k landmarks | " + " | ".join(f"{f['seconds']:.1f}" for f in found) + " |")
    print(f"\nCost grows as rows^{slope:.2f}.", flush=True)
    return {"sizes": sizes, "seconds": [f["seconds"] for f in found], "slope": slope}


def gamma():
    n, parts = 100_000, [0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]
    data = f"datasets.s_curve({n}, random_state=0)[0]"
    whole = fit("DiffusionMaps(10)", data)["seconds"]
    seconds = [fit(f"Roseland(10, landmarks={g}, n_neighbors=32, random_state=0)", data)["seconds"] for g in parts]
    print(f"| gamma, {n} rows | " + " | ".join(f"{g:g}" for g in parts) + " | DiffusionMaps |")
    print("|" + "---|" * (len(parts) + 2))
    print("| seconds | " + " | ".join(f"{s:.1f}" for s in seconds) + f" | {whole:.1f} |", flush=True)
    return {"parts": parts, "seconds": seconds, "whole": whole}


def disk():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.npy"
        child(
            f"rows = np.lib.format.open_memmap({str(path)!r}, mode='w+', shape=(20_000_000, 3))\n"
            "for part in range(20):\n"
            "    rows[part * 1_000_000 : (part + 1) * 1_000_000] = datasets.s_curve(1_000_000, random_state=part)[0]\n"
            "rows.flush()\nout = {}"
        )
        found = {}
        for where, mode, memory in [("disk", "'r'", "'1GB'"), ("memory", "None", "'auto'")]:
            basis = pathlib.Path(folder) / f"{where}.npz"
            found[where] = child(
                f"X = np.load({str(path)!r}, mmap_mode={mode})\n"
                f"model, out = fitted(Roseland(10, landmarks=10_000, memory={memory}, random_state=0), X)\n"
                "Z = datasets.s_curve(20_000, random_state=99)[0]\n"
                f"np.savez({str(basis)!r}, values=model.eigenvalues_, coordinates=model.transform(Z, on_far='nearest'))"
            )
        a, b = (dict(np.load(pathlib.Path(folder) / f"{where}.npz")) for where in found)
    apart = np.abs(a["coordinates"] - b["coordinates"]).max()
    print("| 20M x 3, 10k landmarks | seconds | growth | planned | whole process |\n|---|---|---|---|---|")
    for where, f in found.items():
        told = 'memmap, memory="1GB"' if where == "disk" else "in memory"
        sizes = " | ".join(f"{f[key] / 1e9:.2f} GB" for key in ("growth", "planned", "peak"))
        print(f"| {told} | {f['seconds']:.1f} | {sizes} |")
    print(f"\nCoordinates of 20,000 other points differ by {apart:.0e} at the most.", flush=True)


def picture(grown, parts):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.loglog(grown["sizes"], grown["seconds"], "o-", color="#1f6f8b")
    left.set(xlabel="rows", ylabel="seconds", title=f"10,000 landmarks: rows^{grown['slope']:.2f}")
    left.set_xticks(grown["sizes"], [f"{n / 1e6:g}M" for n in grown["sizes"]])
    left.set_yticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    left.minorticks_off()
    right.plot(parts["parts"], parts["seconds"], "o-", color="#1f6f8b", label="Roseland")
    right.axhline(parts["whole"], color="#c8553d", ls="--", label="DiffusionMaps")
    right.set(
        xlabel="landmarks as a fraction of 100,000 rows", ylabel="seconds", ylim=(0, None), title="Where they cross"
    )
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "scale.png", dpi=110)


def main(arguments):
    cases = {f.__name__: f for f in (roseland, diffusion, images, rates, growth, gamma, disk)}
    write = "--write" in arguments
    chosen = [a for a in arguments if a != "--write"] or list(cases)
    lines = []
    if write:
        import builtins

        plain = builtins.print

        def both(*texts, **options):
            plain(*texts, **options)
            lines.append(" ".join(map(str, texts)))

        globals()["print"] = both
    found = {}
    for name in chosen:
        print()
        found[name] = cases[name]()
    if write:
        picture(found["growth"], found["gamma"])
        page = (DOCS / "scale.md").read_text()
        before, rest = page.split("<!-- growth -->")
        after = rest.split("<!-- end growth -->")[1]
        shown = "![Seconds against rows, and against the fraction of landmarks.](images/scale.png)"
        text = "\n".join(lines).strip()
        (DOCS / "scale.md").write_text(f"{before}<!-- growth -->\n{shown}\n\n{text}\n<!-- end growth -->{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
