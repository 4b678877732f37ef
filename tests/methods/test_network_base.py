"""What both networks keep: rows alone, far rows, pickles without PyTorch."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from catalogue import cloud, new_points
from outfold import GRAE, DiffusionMaps, DiffusionNet
from outfold import plan as plan_of
from outfold.exceptions import FarPointsError, FarPointsWarning
from outfold.neural import Training
from outfold.quality import kernel_loss
from outfold.selection import tune

torch = pytest.importorskip("torch")
SMALL = {"hidden": (12, 8), "max_iter": 15, "n_jobs": 1, "random_state": 0}
TINY = {"hidden": (8,), "epochs": 3, "training": Training(batch=32), "n_jobs": 1, "random_state": 0}
BOTH = pytest.mark.parametrize("model", [DiffusionNet(**SMALL), GRAE(**TINY)], ids=["DiffusionNet", "GRAE"])


@BOTH
def test_a_row_does_not_depend_on_its_batch_and_far_ones_are_told(model):
    X = cloud(3, rows=80)
    model = clone(model).fit(X)
    Z = np.vstack([X[:5], new_points(X, 0)])
    alone = np.vstack([model.transform(Z[i : i + 1], on_far="nearest") for i in range(len(Z))])
    np.testing.assert_allclose(model.transform(Z, on_far="nearest"), alone, rtol=0, atol=1e-12)
    far = np.vstack([X[:3], np.full(3, 1e6), np.full(3, 1e200)])
    with pytest.warns(FarPointsWarning, match="2 of 5 rows"):
        found = model.transform(far)
    assert np.isfinite(found).all()
    trust = model.trust(far)
    assert trust.flag.tolist() == [False, False, False, True, True]
    assert trust.disagreement.shape == (5,)
    with pytest.raises(FarPointsError):
        model.transform(far, on_far="raise")
    assert np.isnan(model.transform(far, on_far="nan")[3:]).all()
    nearest = model.transform(far, on_far="nearest")
    assert (np.abs(nearest[3] - model.transform(X)).max(axis=1) < 1e-12).any()


@BOTH
def test_a_model_is_pickled_and_needs_no_torch(model, tmp_path):
    X = cloud(4, rows=60)
    model = clone(model).fit(X)
    file = tmp_path / "model"
    file.write_bytes(pickle.dumps((model, X)))
    code = (
        "import pickle, sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *rest):\n"
        "        assert not name.startswith('torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "model, X = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(model.transform(X).tobytes().hex(), model.reconstruct(X).tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [model.transform(X).tobytes().hex(), model.reconstruct(X).tobytes().hex()]


@BOTH
def test_without_torch_a_fit_says_how_to_get_it(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "outfold\[neural\]"'):
        clone(model).fit(cloud(0))
    with pytest.raises(ImportError, match=r'pip install "outfold\[neural\]"'):
        DiffusionMaps(extension="net").fit(cloud(0))
    assert np.isfinite(DiffusionMaps().fit_transform(cloud(0))).all()


@BOTH
def test_there_are_no_stages_to_plan_or_tune(model):
    with pytest.raises(ValueError, match="is a network, without the stages"):
        plan_of((1000, 3), model)
    with pytest.raises(ValueError, match="is a network, without the stages"):
        tune(cloud(5), model)


@BOTH
def test_there_is_no_kernel_to_lose(model):
    with pytest.raises(TypeError, match="has no kernel to look at"):
        kernel_loss(clone(model).fit(cloud(5)), cloud(5))


@BOTH
def test_a_network_is_calibrated_by_networks_of_some_rows(model):
    X = cloud(5, rows=80)
    model = clone(model).fit(X)
    assert model.trust(X[:3]).error is None
    own = model.calibrate(folds=2).trust(np.vstack([X[:10], np.full((1, 3), 1e4)]))
    assert np.isfinite(own.error[:10]).all()
    assert own.error[10] == np.inf
    assert model.calibration_.judge.names[-1] == "disagreement"
    given = model.calibrate(X, folds=2, round_trip=True).trust(X[:10])
    assert np.isfinite(given.error).all()
    np.testing.assert_allclose(given.round_trip, np.linalg.norm(model.reconstruct(X[:10]) - X[:10], axis=1))
    with pytest.raises(ValueError, match="belongs to the rows of X"):
        model.calibrate(sample_weight=np.ones(80))
    assert not hasattr(clone(model).fit(X), "calibration_")
