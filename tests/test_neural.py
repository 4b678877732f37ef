"""Networks: losses against their formulas, inference without PyTorch, Diffusion Nets and GRAE."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from catalogue import cloud, new_points
from outfold import GRAE, DiffusionMaps, DiffusionNet, Isomap, LaplacianEigenmaps, Roseland, SpectralClustering
from outfold import plan as plan_of
from outfold.datasets import helix, s_curve
from outfold.exceptions import FarPointsError, FarPointsWarning
from outfold.methods.islands import Islands
from outfold.neural import Net, training
from outfold.neural.nets import _markov, spacing
from outfold.neural.networks import ACTIVATIONS, Network, Scaling
from outfold.quality import aligned_error, kernel_loss
from outfold.runners import Threads
from outfold.selection import tune

torch = pytest.importorskip("torch")

SMALL = {"hidden": (12, 8), "max_iter": 15, "n_jobs": 1, "random_state": 0}
TINY = {"hidden": (8,), "epochs": 3, "batch": 32, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def ring():
    return helix(600, noise=0.05, random_state=0)[0]


@pytest.fixture(scope="module")
def net(ring):
    return DiffusionNet(eigen_penalty=0.5, hidden=(30, 20), max_iter=150, n_jobs=1, random_state=0).fit(ring)


def identity(columns):
    return Scaling(np.zeros(columns), np.ones(columns))


def parameters(sizes, seed=0, activation="tanh"):
    rng = np.random.default_rng(seed)
    return [p + 0.1 * rng.normal(size=p.shape) for p in training.initial(sizes, activation, 0.1, rng)]


def plan(**changes):
    return replace(training.Plan("lbfgs", 10, 32, 1e-3, 10, 0.0, 0, "cpu"), **changes)


# -- formulas ------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_and_torch_give_the_same_outputs(activation):
    found = parameters((3, 7, 5, 2), activation=activation)
    X = np.random.default_rng(1).normal(size=(40, 3))
    theirs = training.forward([torch.as_tensor(p) for p in found], torch.as_tensor(X), activation).numpy()
    ours = Network(tuple(found[::2]), tuple(found[1::2]), activation, identity(3), identity(2)).embed(X, Threads(1))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("neighbours", [None, 8])
def test_the_loss_is_the_formula_of_the_paper(neighbours):
    X = cloud(0, rows=60)
    maps = DiffusionMaps(2, n_neighbors=neighbours, t=2).fit(X)
    P = _markov(maps.model_.rule)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-10)
    anchors = np.array(maps.model_.rule.geometry.anchors)
    psi = maps.model_.places
    np.testing.assert_allclose(P @ psi, psi * maps.eigenvalues_, atol=1e-10)
    rng = np.random.default_rng(0)
    measure, origin, held = rng.uniform(1, 2, 60), rng.normal(size=2), np.arange(5)
    eigen = training.Eigen(0.7, P, maps.eigenvalues_, np.arange(60), measure, origin, np.arange(60))
    task = training.Regression(anchors, psi, measure, held, "tanh", 0.3, eigen, plan())
    found = parameters((3, 6, 2))
    parts = [float(p) for p in task.loss([torch.as_tensor(p) for p in found], None, 0.0)]

    o = np.tanh(anchors @ found[0] + found[1]) @ found[2] + found[3]
    m = measure[5:]
    fit = sum(m[i] * np.sum((o[5:][i] - psi[5:][i]) ** 2) for i in range(55)) / (2 * m.sum())
    decay = 0.3 / 2 * (np.sum(found[0] ** 2) + np.sum(found[2] ** 2))
    shifted = o + origin
    left = [(P.toarray() - value * np.eye(60)) @ shifted[:, j] for j, value in enumerate(maps.eigenvalues_)]
    penalty = 0.7 / 2 * sum(measure @ part**2 for part in left) / measure.sum()
    np.testing.assert_allclose(parts, [fit, decay, penalty], rtol=1e-10)


def test_slopes_are_those_of_finite_differences():
    X = cloud(1, rows=40)
    maps = DiffusionMaps(2).fit(X)
    P = _markov(maps.model_.rule)
    eigen = training.Eigen(2.0, P, maps.eigenvalues_, np.arange(40), np.ones(40), np.ones(2), np.arange(40))
    task = training.Regression(X.copy(), maps.embedding_, np.ones(40), np.arange(0), "tanh", 0.1, eigen, plan())
    found = parameters((3, 4, 2))
    tensors = [torch.as_tensor(p).requires_grad_() for p in found]
    slopes = torch.autograd.grad(sum(task.loss(tensors, None, 0.0)), tensors)

    def total(values):
        return float(sum(task.loss([torch.as_tensor(p) for p in values], None, 0.0)))

    for which, slope in enumerate(slopes):
        step = np.zeros_like(found[which])
        step.flat[0] = 1e-6
        ahead, behind = ([p + sign * step if i == which else p for i, p in enumerate(found)] for sign in (1, -1))
        expected = (total(ahead) - total(behind)) / 2e-6
        np.testing.assert_allclose(float(slope.flatten()[0]), expected, rtol=1e-6, atol=1e-9)


def test_patches_see_the_rows_of_the_whole_matrix():
    X = cloud(2, rows=80)
    maps = DiffusionMaps(2, n_neighbors=6).fit(X)
    P = _markov(maps.model_.rule)
    anchors = np.array(maps.model_.rule.geometry.anchors)
    eigen = training.Eigen(1.0, P, maps.eigenvalues_, np.arange(80), np.ones(80), np.zeros(2), np.arange(80))
    task = training.Regression(anchors, maps.model_.places, np.ones(80), np.arange(0), "relu", 0.0, eigen, plan())
    chosen = np.arange(10, 30)
    task._patches = lambda n: chosen
    found = parameters((3, 6, 2), activation="relu")
    part = float(task.loss([torch.as_tensor(p) for p in found], np.arange(3), 0.0)[2])
    o = np.maximum(anchors @ found[0] + found[1], 0) @ found[2] + found[3]
    left = P @ o - o * maps.eigenvalues_
    np.testing.assert_allclose(part, (left[chosen] ** 2).sum() / (2 * len(chosen)), rtol=1e-10)


def test_the_loss_of_the_autoencoder_is_its_formula():
    rng = np.random.default_rng(0)
    X, E = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    there, back = parameters((4, 5, 2), 1), parameters((2, 5, 4), 2)
    task = training.Autoencoder(X, E, np.arange(0), "tanh", 4, 3.0, 0.25, 0.2, plan())
    parts = [float(p) for p in task.loss([torch.as_tensor(p) for p in (*there, *back)], None, 0.5)]
    z = np.tanh(X @ there[0] + there[1]) @ there[2] + there[3]
    r = np.tanh(z @ back[0] + back[1]) @ back[2] + back[3]
    squares = sum((W**2).sum() for W in (there[0], there[2], back[0], back[2]))
    expected = [((r - X) ** 2).mean(), 3.0 * 0.5 * ((z - E) ** 2).mean(), 0.1 * squares]
    np.testing.assert_allclose(parts, expected, rtol=1e-10)


# -- as an extension -----------------------------------------------------------------------


@pytest.mark.parametrize("method", [DiffusionMaps(), Isomap(), LaplacianEigenmaps(), Roseland(landmarks=200)])
def test_a_network_carries_any_embedding_and_goes_back(method, ring):
    small = Net((30,), max_iter=60)
    model = clone(method).set_params(extension=small, inverse=small, n_jobs=1, random_state=0).fit(ring)
    assert aligned_error(model.transform(ring), model.embedding_) < 0.2
    assert 0 < model.report_.extension_gap < np.ptp(model.embedding_)
    assert "Net(hidden=(30,)" in model.report_.extension
    assert model.round_trip_error_ < 0.3


def test_the_order_of_the_points_does_not_matter(ring):
    order = np.random.default_rng(0).permutation(len(ring))
    one = DiffusionMaps(extension=Net((10,), max_iter=8)).fit(ring)
    two = DiffusionMaps(extension=Net((10,), max_iter=8)).fit(ring[order])
    np.testing.assert_allclose(one.transform(ring), two.transform(ring), atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden": 10}, "widths of the hidden layers"),
        ({"hidden": (10, 0)}, "hidden=0 must be a whole number >= 1"),
        ({"activation": "swish"}, "'relu', 'elu', 'tanh', 'sigmoid', 'sine'"),
        ({"solver": "sgd"}, "'auto', 'lbfgs', 'adam'"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
        ({"eigen_penalty": np.nan}, "eigen_penalty=nan"),
        ({"rate": 0.0}, "rate=0.0 must be > 0"),
        ({"validation": 1.0}, "validation=1.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"batch": 2.5}, "batch=2.5"),
        ({"patience": -1}, "patience=-1"),
        ({"device": 3}, "must be a name"),
        ({"device": "gpu"}, "Valid: 'auto', 'cpu', 'cuda'"),
    ],
)
def test_bad_settings_are_refused(changes, match, ring):
    with pytest.raises(ValueError, match=match):
        DiffusionNet(**{**SMALL, **changes}).fit(ring)
    with pytest.raises(ValueError, match=match):
        DiffusionMaps(extension=Net(**changes)).fit(ring)


def test_penalties_without_a_markov_matrix_are_refused(ring):
    for method in (Isomap(), Roseland(landmarks=60), DiffusionMaps(coordinates="canonical")):
        with pytest.raises(ValueError, match="eigenvectors of a Markov matrix"):
            DiffusionNet(spectral=method, eigen_penalty=1.0, **SMALL).fit(ring)
    with pytest.raises(ValueError, match="features are no eigenvectors"):
        DiffusionMaps(inverse=Net(eigen_penalty=1.0)).fit(ring)
    with pytest.raises(ValueError, match="must be a spectral method"):
        DiffusionNet(spectral="isomap").fit(ring)
    with pytest.raises(ValueError, match="no n_components"):
        DiffusionNet(spectral=SpectralClustering()).fit(ring)
    with pytest.raises(ValueError, match="no features for a network"):
        DiffusionNet(spectral=DiffusionMaps(metric="precomputed")).fit(ring)
    holes = ring.copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN among"):
        DiffusionMaps(metric="nan_euclidean", extension="net").fit(holes)


# -- Diffusion Nets ------------------------------------------------------------------------


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
        batch=64,
        hidden=(30, 30),
        max_iter=60,
        rate=5e-3,
        n_jobs=1,
        random_state=0,
    ).fit(ring)
    assert aligned_error(model.transform(ring), model.embedding_) < 0.3
    assert model.history_["eigen"][-1] < model.history_["eigen"].max()


def test_training_stops_when_held_out_rows_do_not_gain(ring):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 5))
    settings = {**SMALL, "hidden": (60,), "max_iter": 400, "weight_decay": 0.0}
    model = DiffusionNet(spectral=DiffusionMaps(), patience=10, **settings).fit(noise)
    held = model.history_["held_out"]
    assert len(held) < 400
    assert held.argmin() >= len(held) - 12
    assert set(model.history_) == {"loss", "fit", "decay", "held_out"}
    whole = DiffusionNet(validation=0.0, **SMALL).fit(ring)
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


# -- GRAE ----------------------------------------------------------------------------------


def test_an_autoencoder_follows_its_target():
    X, _ = s_curve(400, random_state=0)
    settings = {"hidden": (40, 20), "epochs": 60, "batch": 64, "rate": 5e-3, "n_jobs": 1, "random_state": 0}
    target = Isomap().fit(X)
    for given in (Isomap(), target, target.embedding_, None):
        model = GRAE(target=given, weight=10.0, **settings).fit(X)
        assert aligned_error(model.transform(X), target.embedding_, rescale=False) < 0.15
        assert model.score(X) > -0.05 * X.var(axis=0).mean()
    plain = GRAE(weight=0.0, **settings).fit(X)
    assert plain.score(X) > -0.2 * X.var(axis=0).mean()
    assert set(plain.history_) == {"loss", "reconstruction", "geometry", "decay", "held_out"}


class NoTransform(BaseEstimator):
    """Isomap, of the rows it is given only."""

    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit_transform(self, X):
        return Isomap(self.n_components).fit_transform(X)


def test_targets_of_many_rows_are_put_together_from_parts():
    X, _ = s_curve(1200, random_state=0)
    whole = Isomap().fit(X).embedding_
    model = GRAE(target=NoTransform(), target_rows=500, **TINY).fit(X)
    assert model.report_.parts == 3
    assert aligned_error(model.embedding_, whole) < 0.05


def test_targets_that_are_functions_are_fitted_to_a_subsample():
    X, _ = s_curve(1200, random_state=0)
    whole = Isomap().fit(X).embedding_
    model = GRAE(target=Isomap(), target_rows=500, **TINY).fit(X)
    assert model.report_.parts == 1
    assert 1e-6 < aligned_error(model.embedding_, whole) < 0.05
    exact = GRAE(target=Isomap(), target_rows=1200, **TINY).fit(X)
    assert aligned_error(exact.embedding_, whole) < 1e-8


@pytest.mark.parametrize(
    ("rows", "epochs", "batch", "net_epochs"),
    [(100, 400, 64, 200), (3000, 100, 64, 200), (30_000, 10, 256, 67), (10**6, 5, 256, 10)],
)
def test_epochs_and_batches_follow_the_number_of_rows(rows, epochs, batch, net_epochs):
    found = GRAE()._plan(0, rows)
    assert (found.iterations, found.batch) == (epochs, batch)
    given = GRAE(epochs=3, batch=5)._plan(0, rows)
    assert (given.iterations, given.batch) == (3, 5)
    assert Net(solver="adam").plan(rows).iterations == net_epochs
    assert Net(solver="adam", max_iter=7).plan(rows).iterations == 7


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"target": np.zeros((3, 2))}, "shape \\(3, 2\\), but 100 rows"),
        ({"target": np.full((100, 2), np.nan)}, "NaN or inf"),
        ({"weight": -1.0}, "weight=-1.0"),
        ({"relax": 0.0}, "relax=0.0"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch": 0}, "batch=0"),
        ({"rate": 1e30}, "Training diverged"),
        ({"n_components": "auto"}, "n_components='auto'"),
    ],
)
def test_bad_targets_and_settings_are_refused(changes, match):
    with pytest.raises(ValueError, match=match), np.errstate(all="ignore"):
        GRAE(**{**TINY, "epochs": 8, **changes}).fit(cloud(0, rows=100))


# -- both ----------------------------------------------------------------------------------

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
def test_there_is_nothing_to_calibrate_with(model):
    with pytest.raises(ValueError, match="keeps no training rows"):
        clone(model).fit(cloud(5)).calibrate()


# -- islands -------------------------------------------------------------------------------


def test_pieces_are_embedded_by_themselves_and_do_not_overlap():
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.vstack([ring, ring + np.array([9, 0]), ring * 2 + np.array([0, 30])])
    model = Islands().fit(X)
    Z = model.transform(X)
    assert len(model.pieces_) == 3
    assert np.array_equal(model.labels_, np.repeat([0, 1, 2], 200))
    for part in range(3):
        mine = Z[model.labels_ == part]
        radius = np.linalg.norm(mine - model.centres_[part], axis=1)
        assert radius.std() < 0.05 * radius.mean()
        others = np.linalg.norm(Z[model.labels_ != part] - model.centres_[part], axis=1)
        assert others.min() > radius.max()
    one = Islands().fit(ring)
    assert aligned_error(one.transform(ring), Isomap(n_neighbors=15).fit(ring).embedding_) < 1e-8


def test_spacing_and_pieces_do_not_depend_on_the_search():
    rows = np.random.default_rng(0).uniform(size=(401, 3))
    wide = np.hstack([rows, np.zeros((401, 200))])  # too many features for a tree
    assert spacing(rows, Threads(1)) == pytest.approx(spacing(wide, Threads(1)), rel=1e-12)
    kth = np.sort(cdist(rows, rows), axis=1)[:, 8]
    assert spacing(rows, Threads(1)) == pytest.approx(np.median(kth), rel=1e-12)
    few, many = (Islands(2, n_neighbors=2).fit(X) for X in (rows, wide))
    assert np.array_equal(few.rows_, many.rows_)
