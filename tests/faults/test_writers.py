"""Embeddings and checkpoints on a full disk."""

import subprocess
import sys

import numpy as np
import pytest

from outfold.datasets import s_curve

X = s_curve(700, random_state=0)[0]


def as_npy(folder, values=X, name="rows.npy"):
    np.save(folder / name, values)
    return folder / name


FULL = """
import resource, signal, sys, numpy as np
from outfold import Roseland
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rows = np.load(sys.argv[1])
model = Roseland(2, landmarks=60, random_state=0).fit(rows)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    if sys.argv[3] == "transform":
        model.transform(rows, out=sys.argv[2])
    else:
        Roseland(2, landmarks=60, random_state=0, checkpoint=sys.argv[2]).fit(rows)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["out.npy", "out.parquet", "out.zarr", "folder"])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(kind, tmp_path):
    rows = as_npy(tmp_path, np.tile(X, (4, 1)))
    target = tmp_path / "there" / kind
    target.parent.mkdir()
    if kind.endswith("npy") or kind.endswith("parquet"):
        target.write_text("old")
    what = "transform" if "." in kind else "checkpoint"
    run = [sys.executable, "-W", "ignore", "-c", FULL, str(rows), str(target), what]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "nothing was put in its place" in told
    if kind.endswith("npy") or kind.endswith("parquet"):
        assert target.read_text() == "old"
    assert [p.name for p in tmp_path.rglob("*.part")] == []
