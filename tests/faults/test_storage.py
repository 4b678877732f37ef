"""Model files: writers that are killed, full disks and folders that cannot be written."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from models import fitted
from outfold import DiffusionMaps
from outfold.data.writers import _MACHINE


@pytest.fixture(scope="module")
def small():
    return fitted(DiffusionMaps(2, n_neighbors=8))


def test_what_killed_writers_left_is_swept_and_nothing_else(small, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead, host = process.pid, _MACHINE
    swept = [f".m.{host}-{dead}-00000000.part", ".m.00000000-1-00000001.part"]
    kept = [
        f".m.{host}-{os.getpid()}-00000002.part",  # of a writer at work
        f".m.00000000-{dead}-00000003.part",  # of another machine, where the process may live
        f".n.{host}-{dead}-00000004.part",  # of another model
        ".m.part",
        "other",
    ]
    for name in swept + kept:
        (tmp_path / name).write_text("half")
    os.utime(tmp_path / swept[1], (0, time.time() - 90_000))
    small.save(tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "m"])


WRITING = """
import os, random, signal, sys, time
import numpy as np
from outfold import DiffusionMaps, load
path, count = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
models = [DiffusionMaps(2, n_neighbors=8).fit(rng.normal(size=(400, 200))) for _ in range(2)]
models[0].save(path)
points = rng.normal(size=(5, 200))
answers = [m.transform(points, on_far="keep").tobytes() for m in models]
draw, seen = random.Random(0), [0, 0]
began = time.perf_counter()
for _ in range(5):
    models[0].save(path)
lasts = (time.perf_counter() - began) / 5
for _ in range(count):
    child = os.fork()
    if not child:
        while True:
            for model in reversed(models):
                model.save(path)
    time.sleep(draw.uniform(0, 4 * lasts))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    seen[answers.index(load(path).transform(points, on_far="keep").tobytes())] += 1
models[0].save(path)
print(sum(seen), count < 100 or min(seen) > 0, os.listdir(os.path.dirname(path)))
"""


def child(code, *arguments):
    run = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_the_old_model_or_the_new_one(count, tmp_path):
    assert child(WRITING, tmp_path / "m", count) == f"{count} True ['m']"


FAILING = """
import os, resource, signal, sys
import numpy as np
from outfold import DiffusionMaps, storage  # now: the other user may not be able to read Python's folder
path = sys.argv[1]
model = DiffusionMaps(2, n_neighbors=8).fit(np.random.default_rng(0).normal(size=(300, 5)))
for how in ("full", "read-only"):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    if how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
    else:
        os.chmod(os.path.dirname(path), 0o555)
        os.setuid(65534) if os.getuid() == 0 else None
    try:
        model.save(path)
    except OSError as error:
        os.write(1, f"{how}: {error}\\n".encode())
    os._exit(0)
"""


@pytest.mark.skipif(os.name != "posix", reason="no limits on files")
def test_a_full_disk_and_a_read_only_folder_are_clear_errors_and_lose_nothing(small, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    small.save(folder / "m")
    before = (folder / "m").read_bytes()
    for parent in folder.parents:  # so that another user gets there
        if parent.owner() == folder.owner() and parent != pathlib.Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    try:
        full, closed = child(FAILING, folder / "m").splitlines()
    finally:
        folder.chmod(0o755)
    assert "(File too large); nothing was put in its place. Is the disk full?" in full
    assert "(Permission denied); nothing was put in its place. Is the folder writable?" in closed
    assert (folder / "m").read_bytes() == before
    assert os.listdir(folder) == ["m"]
