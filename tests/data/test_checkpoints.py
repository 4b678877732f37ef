"""Checkpoints: those of another fit are refused."""

import numpy as np
import pytest

from outfold import Roseland
from outfold.datasets import s_curve

X = s_curve(700, random_state=0)[0]


def as_npy(folder, values=X, name="rows.npy"):
    np.save(folder / name, values)
    return folder / name


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    rows = as_npy(tmp_path)
    from outfold.data.checkpoints import Checkpoint

    kept = Checkpoint(tmp_path / "kept")
    kept.begin("another", 0, 1e9)
    with pytest.raises(ValueError, match="other data or with other parameters"):
        Roseland(2, landmarks=60, checkpoint=tmp_path / "kept").fit(rows)
    (tmp_path / "kept" / "fit.npz").write_bytes(b"PK half a file")
    with pytest.raises(ValueError, match="cannot be read"):
        Roseland(2, landmarks=60, checkpoint=str(tmp_path / "kept")).fit(rows)
    with pytest.raises(ValueError, match="path of a folder"):
        Roseland(2, landmarks=60, checkpoint=3).fit(rows)
