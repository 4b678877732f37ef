"""Experiments that train networks: what the grids choose, and what noise is left."""

import numpy as np
import pytest

from outfold.app.reproduce import denoising, grids, thesis
from outfold.app.reproduce.record import Effort, NotAtHand
from outfold.datasets import helix as points_on_helix


@pytest.fixture(scope="module")
def small():
    X, angle = points_on_helix(300, noise=0.02, random_state=0)
    return thesis.Study(X, angle, 4, 10, 2, 100)


@pytest.fixture
def few(monkeypatch):
    """A short grid, short trainings, short curves."""
    pytest.importorskip("torch")
    monkeypatch.setattr(grids, "ITERATIONS", 60)
    monkeypatch.setattr(grids, "GRID", (1e-4, 1.0, 1e4))
    monkeypatch.setattr(denoising, "ITERATIONS", 60)
    monkeypatch.setattr(denoising, "ROWS", 500)
    monkeypatch.setattr(denoising, "TRAIN", 400)
    monkeypatch.setattr(denoising, "PENALTIES", (0.0, 100.0))


def test_scikit_learns_alpha_is_turned_into_the_decay_of_the_same_optimum():
    """Its loss is ours over the number of outputs: with alpha d / N both are least at the same weights."""
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(60, 3))
    theirs = MLPRegressor(hidden_layer_sizes=(100, 100), alpha=0.7, solver="lbfgs", max_iter=5, random_state=0)
    with pytest.warns(UserWarning, match="lbfgs"):
        theirs.fit(X, Y)
    net = thesis.network(0.7, *Y.shape, iterations=5)
    squares = sum((W**2).sum() for W in theirs.coefs_)
    ours = ((theirs.predict(X) - Y) ** 2).sum() / (2 * len(X)) + net.weight_decay / 2 * squares
    assert net.hidden == theirs.hidden_layer_sizes
    assert ours == pytest.approx(3 * theirs.loss_, rel=1e-6)


def test_a_grid_prefers_little_decay_and_too_much_leaves_the_mean(few, small):
    found = grids.search(small, Effort(repeats=2), printed=1.0)
    assert found.errors.shape == (3, 2)
    assert found.chosen == 1e-4
    assert found.at(1e-4).mean() < 0.1
    assert found.at(1e4).mean() == pytest.approx(1, abs=0.1)
    assert not found.within
    assert grids.Searched(small, found.train, found.test, found.errors, 1e-4).within
    assert found.decay == pytest.approx(1e-4 * 2 / 180)
    assert not set(found.train) & set(found.test)


def test_folds_of_a_table_keep_the_shares_of_classes(few, small, monkeypatch):
    seen = []

    def predict(self, X):
        seen.append(X)
        return np.zeros((len(X), 2))

    monkeypatch.setattr(grids, "GRID", (1.0,))
    monkeypatch.setattr(grids, "ITERATIONS", 1)
    monkeypatch.setattr(grids.Encoder, "predict", predict)
    label = (np.arange(300) % 10 == 0).astype(int)
    X = np.column_stack([small.X, label])
    grids.search(thesis.Study(X, label, 4, 10, 2, 100, labels=label), Effort(repeats=3), printed=1.0)
    assert [part[:, 3].sum() for part in seen] == [6, 6, 6]


def test_grids_are_told_in_tables_findings_and_a_picture(few, small, monkeypatch):
    monkeypatch.setattr(grids, "SETS", {"curve": (lambda seed: small, 1e-4)})
    outcome = grids.run(Effort(repeats=2))
    chosen, last = outcome.findings
    assert chosen.agrees
    assert (chosen.ours, chosen.paper) == (1e-4, "0.0001")
    assert last.ours == pytest.approx(100, abs=10)
    values, choices = outcome.tables
    assert [row[0] for row in values.rows] == ["0.0001", "1", "10000"]
    assert choices.rows[0][:4] == ["curve", "0.0001", "1.1e-06", 120]
    train, test = small.split(120, 0)
    nets = thesis.network(1e-4, 180, 2, iterations=60), "nystrom"
    expected = [100 * thesis.extend(small, train, test, extension=way).aligned for way in nets]
    assert choices.rows[0][4:] == pytest.approx(expected)
    assert len(outcome.pictures[0].figure.axes) == 1


def test_errors_of_a_curve_are_those_of_its_noise():
    curve = denoising.Curve.of(0)
    rows = denoising.TRAIN
    np.testing.assert_allclose(curve.errors(curve.clean[rows:])[:2], 0, atol=0)
    assert curve.errors(curve.clean[rows:])[2] < 1e-3
    mean, root, across = curve.errors(curve.noisy[rows:])
    assert mean == pytest.approx(denoising.NOISE * np.sqrt(8 / np.pi), rel=0.03)  # of a normal vector in space
    assert root == pytest.approx(denoising.NOISE * np.sqrt(3), rel=0.03)
    assert across == pytest.approx(denoising.NOISE * np.sqrt(2), rel=0.03)  # without the part along the curve
    mean, root, across = curve.errors(curve.nearest)
    assert across == 0
    assert root == pytest.approx(denoising.NOISE, rel=0.05)  # the part along the curve


def test_noise_is_taken_off_and_the_effect_of_eta_is_shown(few):
    outcome = denoising.run(Effort(repeats=1))
    (table,) = outcome.tables
    assert [row[0] for row in table.rows] == [
        "with noise",
        "eta = 0",
        "eta = 100",
        "nearest point of the curve itself",
    ]
    assert all(finding.why for finding in outcome.findings)
    by_mean, by_root, ratio, _ = outcome.findings
    assert by_mean.agrees == (by_mean.ours <= denoising.BOUND)
    assert by_mean.ours < by_root.ours < 0.5
    assert ratio.agrees == all(float(part) < 1 for part in ratio.ours.split())
    assert len(outcome.pictures[0].figure.axes) == 4


@pytest.mark.parametrize("module", [grids, denoising])
def test_without_torch_the_experiment_is_left_out_with_the_way_to_get_it(module, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(NotAtHand, match=r'pip install "outfold\[neural\]"'):
        module.run(Effort(repeats=1))
