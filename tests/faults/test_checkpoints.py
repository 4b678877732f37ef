"""Taking up a fit that was killed."""

import subprocess
import sys

import numpy as np
import pytest

from outfold.datasets import s_curve

X = s_curve(700, random_state=0)[0]


def as_npy(folder, values=X, name="rows.npy"):
    np.save(folder / name, values)
    return folder / name


KILLED = """
import os, signal, sys, numpy as np
from outfold import Roseland
from outfold.data.checkpoints import Checkpoint
from outfold.engine import fit
from outfold.methods import parameters
from outfold.operators import landmark_passes
stage, at, rows, folder, near = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5] == "near"
count = 0
def dying(call):
    def wrapped(*args, **kwargs):
        global count
        count += 1
        if count > at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return wrapped
kind = landmark_passes.NearPasses if near else landmark_passes.DensePasses
if stage == "solve":
    fit.solve = dying(fit.solve)
elif stage != "none":
    name = "_look_first" if stage == "first" else "_look_second"
    setattr(kind, name, dying(getattr(kind, name)))
parameters.free_memory = lambda: 1.3e10 if stage == "none" else 1.45e10  # less the second time
landmark_passes.CHUNK_SHARE = 6e-4
landmark_passes.block_rows = lambda width: 16384
rows = np.load(rows, mmap_mode="r")
model = Roseland(3, landmarks=80, n_neighbors=8 if near else None, random_state=None, n_jobs=1,
                 checkpoint=Checkpoint(folder, seconds=0)).fit(rows)
np.savez(sys.argv[6], values=model.eigenvalues_, vectors=model.eigenvectors_, places=model.landmarks_)
print(os.listdir(folder))
"""


@pytest.mark.parametrize("near", ["near", "dense"])
@pytest.mark.parametrize(("stage", "at"), [("first", 2), ("second", 2), ("solve", 0)])
def test_a_killed_fit_resumes_to_the_same_bits(stage, at, near, tmp_path):
    rows = as_npy(tmp_path, s_curve(60_000, random_state=1)[0])

    def run(stage, folder, out):
        call = [sys.executable, "-W", "ignore", "-c", KILLED, stage, str(at), str(rows), str(folder), near, str(out)]
        return subprocess.run(call, capture_output=True, text=True, check=False)

    killed = run(stage, tmp_path / "kept", tmp_path / "never.npz")
    assert killed.returncode == -9, killed.stderr
    first = {p.name: p.read_bytes() for p in (tmp_path / "kept").iterdir()}
    assert first
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "fit.npz").write_bytes(first["fit.npz"])  # the same seed, from the beginning
    resumed = run("none", tmp_path / "kept", tmp_path / "resumed.npz")
    assert resumed.stdout.strip() == "[]", resumed.stderr  # nothing is left behind
    assert run("none", tmp_path / "whole", tmp_path / "whole.npz").returncode == 0
    with np.load(tmp_path / "resumed.npz") as a, np.load(tmp_path / "whole.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in a.files)
