"""Studies of the thesis: their parts, bandwidths and errors."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from outfold.datasets import helix as points_on_helix
from outfold.papers import thesis
from outfold.papers.record import Effort


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


@pytest.fixture(scope="module")
def small():
    X, angle = points_on_helix(300, noise=0.02, random_state=0)
    return thesis.Study(X=X, colors=angle, percentile=4, t=10, dimension=2, test_rows=100)


def test_parts_of_a_study_keep_the_shares_of_classes(small):
    label = np.repeat([0, 1, 2], [30, 90, 180])
    train, test = replace(small, labels=label).split(100, 0)
    assert not set(train) & set(test)
    assert np.bincount(label[test]).tolist() == [10, 30, 60]


def test_the_bandwidth_of_a_study_is_the_percentile_and_its_spectrum_decides_the_dimension(small):
    assert np.sqrt(small.whole.epsilon_) == pytest.approx(np.percentile(pdist(small.X), 4))
    table, picture = thesis.spectra(small, (4, 30))
    assert [row[0] for row in table.rows] == [4, 30]
    assert len(picture.figure.axes) == 2
    kept, first = thesis.chosen_dimension(small, 2)
    assert not kept.agrees
    later = thesis.chosen_dimension(replace(small, t=first.ours), 2)[0]
    assert later.agrees


def test_errors_fall_with_the_landmarks_and_nystrom_reconstructs_its_own(small):
    few, many = (thesis.extend(small, np.arange(size), np.arange(200, 300)) for size in (60, 200))
    assert many.reconstruction < few.reconstruction / 3
    assert many.aligned < few.aligned / 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 20 landmarks are few
        table, _, reconstruction, aligned = thesis.error_curve(small, Effort(repeats=1))
    assert len(table.rows) == len(reconstruction) == len(aligned) == 9
    assert [row[0] for row in table.rows] == list(range(20, 181, 20))
    finding = thesis.falls("error", reconstruction, "falls")
    assert finding.agrees == (np.diff(reconstruction) < 0).all()
    assert thesis.falls("error", reconstruction[::-1], "falls").agrees is False
