"""Diffusion nets: encoder and decoder, noise, outliers, samples and how they are trained."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from outfold import DiffusionMaps, DiffusionNet
from outfold.datasets import helix
from outfold.neural import Training
from outfold.quality import aligned_error

torch = pytest.importorskip("torch")
SMALL = {"hidden": (12, 8), "max_iter": 15, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def ring():
    return helix(600, noise=0.05, random_state=0)[0]


@pytest.fixture(scope="module")
def net(ring):
    return DiffusionNet(eigen_penalty=0.5, hidden=(30, 20), max_iter=150, n_jobs=1, random_state=0).fit(ring)


def test_encoder_and_decoder_come_close(net, ring):
    new = helix(200, noise=0.05, random_state=1)[0]
    ours, theirs = (model.transform(new, on_far="keep") for model in (net, net.spectral_))
    assert aligned_error(ours, theirs) < 0.1
    gap = np.abs(net.transform(ring) - net.embedding_).max()
    np.testing.assert_allclose(net.report_.extension_gap, gap, rtol=1e-6)
    assert net.score(new) == pytest.approx(-np.mean((ours - theirs) ** 2))
    assert np.array_equal(net.reconstruct(new), net.inverse_transform(ours))
    squares = ((net.reconstruct(ring) - ring) ** 2).sum(axis=1)
    assert net.reconstruction_error_ == pytest.approx(squares.mean(), rel=1e-9)


def test_noise_is_left_behind(ring):
    net = DiffusionNet(eigen_penalty=0.5, hidden=(30, 20), max_iter=400, n_jobs=1, random_state=0).fit(ring)
    clean, noisy = (helix(400, noise=noise, random_state=1)[0] for noise in (0.0, 0.05))
    before = np.linalg.norm(noisy - clean, axis=1).mean()
    after = np.linalg.norm(net.reconstruct(noisy) - clean, axis=1).mean()
    assert after < 0.9 * before


def test_outliers_are_what_does_not_come_back(net, ring):
    far = np.array([[0.0, 0.0, 9.0]])
    assert net.is_outlier(far, 10).all()
    squares = ((net.reconstruct(ring) - ring) ** 2).sum(axis=1)
    assert np.array_equal(net.is_outlier(ring, 2.0), squares >= 2.0 * net.reconstruction_error_)
    with pytest.raises(ValueError, match="rho=0"):
        net.is_outlier(ring, 0)


def test_samples_lie_among_the_data(net, ring):
    made = net.sample(200, random_state=0)
    assert made.shape == (200, 3)
    assert np.array_equal(made, net.sample(200, random_state=0))
    nearest = np.sqrt(((made[:, None] - ring) ** 2).sum(axis=2)).min(axis=1)
    assert np.median(nearest) < 0.2
    still = net.sample(50, spread=0.0, random_state=0)
    back = net.inverse_transform(net.transform(ring))
    assert np.sqrt(((still[:, None] - back) ** 2).sum(axis=2)).min(axis=1).max() < 1e-9


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_the_same_seed_gives_the_same_bits(solver, ring):
    one, two, other = (
        DiffusionNet(solver=solver, eigen_penalty=0.1, **{**SMALL, "random_state": seed}).fit(ring).transform(ring)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_adam_learns_with_the_penalty_over_patches(ring):
    model = DiffusionNet(
        eigen_penalty=0.1,
        spectral=DiffusionMaps(n_neighbors=10),
        solver="adam",
        hidden=(30, 30),
        max_iter=60,
        training=Training(batch=64, rate=5e-3),
        n_jobs=1,
        random_state=0,
    ).fit(ring)
    assert aligned_error(model.transform(ring), model.embedding_) < 0.3
    assert model.history_["eigen"][-1] < model.history_["eigen"].max()


def test_training_stops_when_held_out_rows_do_not_gain(ring):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 5))
    settings = {**SMALL, "hidden": (60,), "max_iter": 400, "weight_decay": 0.0}
    model = DiffusionNet(spectral=DiffusionMaps(), training=Training(patience=10), **settings).fit(noise)
    held = model.history_["held_out"]
    assert len(held) < 400
    assert held.argmin() >= len(held) - 12
    assert set(model.history_) == {"loss", "fit", "decay", "held_out"}
    whole = DiffusionNet(training=Training(validation=0.0), **SMALL).fit(ring)
    assert "held_out" not in whole.history_
    assert (np.diff(whole.history_["loss"]) <= 0).all()
    np.testing.assert_allclose(whole.history_["loss"], whole.history_["fit"] + whole.history_["decay"], rtol=1e-12)


def test_weight_decay_can_be_searched_for(ring):
    search = GridSearchCV(DiffusionNet(inverse=None, **SMALL), {"weight_decay": [1e-5, 10.0]}, cv=2).fit(ring)
    assert search.best_params_ == {"weight_decay": 1e-5}
    with pytest.raises(ValueError, match="no way back was learnt"):
        search.best_estimator_.inverse_transform([[0.0, 0.0]])


def test_another_way_back_can_be_taken(ring):
    model = DiffusionNet(inverse="kernel_ridge", **SMALL).fit(ring)
    assert model.inverse_transform(model.transform(ring)).shape == ring.shape
    assert model.reconstruction_error_ > 0


def test_more_components_and_given_landmarks(ring):
    model = DiffusionNet(
        5, spectral=DiffusionMaps(landmarks=100, random_state=0), eigen_penalty=0.1, inverse=None, **SMALL
    ).fit(ring)
    assert model.transform(ring).shape == (600, 5)
    assert model.report_.n_anchors == 100
