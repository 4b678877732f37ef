"""Commands that signals reach at random moments: ``python sweep.py FOLDER SEED COUNT stop|kill COMMAND ...`` prints.

Each trial is a fork of this process, which has imported what a command imports, so a moment is one of the work. After
it, every output is the old file or the new one, nothing else is in the folder or among the temporary files, and the
exit code is that of the signal, unless the command was done before.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter

import numpy as np

import outfold.app.cli.fit  # noqa: F401
from outfold.app.cli import demo, stream  # noqa: F401
from outfold.app.cli.main import main

TABLE = "rows.csv"
WORDS = {  # command: words, outputs
    "fit": "fit rows.csv --id id --save m.outfold --out o.csv --picture p.png",
    "fit-slow": "fit rows.csv --id id --method phate --calibrate --save m.outfold",
    "fit-parts": "fit rows.csv --method roseland --landmarks 60 --seed 0 --set memory=1e9 --save m.outfold -o o.npy",
    "transform": "transform model.outfold rows.csv --trust -o o.csv",
    "transform-npy": "transform model.outfold rows.csv -o o.npy",
    "transform-parquet": "transform model.outfold rows.csv -o o.parquet",
    "transform-zarr": "transform model.outfold rows.csv -o o.zarr",
    "transform-h5ad": "transform model.outfold rows.csv -o o.h5ad",
    "inverse": "inverse model.outfold places.csv -o o.csv",
    "tune": "tune rows.csv --id id --picture p.png",
    "plan": "plan rows.csv --id id",
    "info": "info model.outfold",
    "report": "report model.outfold rows.csv -o r.html",
    "demo": "demo --out p.png",
    "reproduce": "reproduce helix --repeats 1 --out papers",
    "serve": "serve model.outfold --port 0",
    "explore": "explore model.outfold rows.csv --no-open",
}
OUTPUTS = ("m.outfold", "o.csv", "o.npy", "o.parquet", "o.zarr", "o.h5ad", "p.png", "r.html")
INPUTS = ("rows.csv", "model.outfold", "places.csv")
LONGEST = {"serve": 1.0, "explore": 1.5}  # seconds in which a signal comes to a command that does not end by itself
PATIENCE = 30  # seconds that a command may take to end


def contents(path):
    """All bytes at a path, of the files of a folder too."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return path.read_bytes() if path.exists() else None


def prepare(folder):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4))
    lines = [f"{at},{','.join(f'{value:.6f}' for value in row)}" for at, row in enumerate(rows)]
    (folder / TABLE).write_text("\n".join(["id,a,b,c,d", *lines, ""]))
    run(folder, "fit rows.csv --id id --save model.outfold --out places.csv")


def start(folder, words):
    """Begin a command in a fork, with temporary files in a folder of their own."""
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    tempfile.tempdir = str(folder / "temporary")
    handle = os.open(folder.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    main(words.split(), prog_name="outfold")
    raise SystemExit(99)  # not reached


def end(child, patience=PATIENCE):
    """The exit code of a command, or minus the signal that killed it."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def run(folder, words):
    (folder / "temporary").mkdir(exist_ok=True)
    code = end(start(folder, words), 300)
    assert code == 0, (words, code, (folder.parent / "said").read_text())


def trial(folder, name, number, delay, news):
    """Faults of one signal after ``delay`` seconds, the exit code, and the seconds until the end."""
    child = start(folder, WORDS[name])
    time.sleep(delay)
    began = time.monotonic()
    os.kill(child, number)
    code = end(child)
    seconds, said = time.monotonic() - began, (folder.parent / "said").read_text()
    faults = []
    if code not in (0, 128 + number, -number):
        faults.append(f"exit code {code}: {said[-1500:]}")
    if "Traceback" in said and code != -number:
        faults.append(said[-1500:])
    for output, (old, new) in news.items():
        if contents(folder / output) not in (old, new):
            faults.append(f"{output} is neither the old file nor the new one")
    left = {path.name for path in folder.iterdir()} - {*INPUTS, *OUTPUTS, "temporary", "papers"}
    left |= {path.name for path in (folder / "temporary").iterdir() if not path.name.startswith("outfold-loops")}
    left |= {path.name for path in (folder / "papers").rglob("*.part")}
    if number == signal.SIGKILL:  # partial files stay, and the next run to the same outputs removes them
        left = {name for name in left if not re.fullmatch(r"\..*\.(part|old)", name) and not name.startswith("outfold")}
    if left:
        faults.append(f"left behind: {sorted(left)}")
    return faults, code, seconds


def put(folder, olds):
    """Put the old outputs, or nothing, where a trial writes."""
    for path in folder.iterdir():
        if path.name not in (*INPUTS, *olds):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "temporary").mkdir()
    for name, old in olds.items():
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for part, content in old.items() if isinstance(old, dict) else [("", old)] if old is not None else []:
            file = path / part if part else path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def sweep(folder, seed, count, names, numbers=(signal.SIGINT, signal.SIGTERM)):
    """Faults, and what came of ``count`` signals to each command."""
    draw, faults, codes, slowest, early = random.Random(seed), [], Counter(), (0.0, ""), []
    prepare(folder)
    for name in names:
        put(folder, {})
        lasts, news = LONGEST.get(name), {}
        if lasts is None:
            run(folder, WORDS[name])  # compiles and fills caches of the disk
            began = time.monotonic()
            run(folder, WORDS[name])
            lasts = time.monotonic() - began
            news = {output: contents(folder / output) for output in OUTPUTS if (folder / output).exists()}
        for trial_number in range(count):
            old = {n: draw.choice([None, {"old": b"old"} if n.endswith("zarr") else b"old"]) for n in news}
            put(folder, old)
            number = draw.choice(numbers)
            delay = draw.uniform(0, 1.1 * lasts)
            wrong, code, seconds = trial(folder, name, number, delay, {n: (old[n], new) for n, new in news.items()})
            faults += [f"{name}, trial {trial_number}, signal {number} after {delay:.3f} s: {text}" for text in wrong]
            if number == signal.SIGKILL:
                run(folder, WORDS[name])
                parts = [path.name for path in folder.iterdir() if path.name.endswith((".part", ".old"))]
                faults += [f"{name}, trial {trial_number}: the next run left {parts}"] if parts else []
            codes[str(code)] += 1
            if code is not None and code < 0:
                early.append(f"{name} after {delay:.3f} of {lasts:.3f} s")
            slowest = max(slowest, (seconds, f"{name} after {delay:.3f} s"))
    return {"faults": faults, "codes": codes, "slowest": slowest, "outside": early}


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1]) / "work"
    place.mkdir()
    ends = (signal.SIGKILL,) if sys.argv[4] == "kill" else (signal.SIGINT, signal.SIGTERM)
    result = sweep(place, int(sys.argv[2]), int(sys.argv[3]), sys.argv[5:] or list(WORDS), ends)
    print(json.dumps(result))
