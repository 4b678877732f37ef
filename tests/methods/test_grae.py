"""GRAE: an autoencoder that follows its target."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from catalogue import cloud
from outfold import GRAE, Isomap
from outfold.datasets import s_curve
from outfold.neural import Net, Training
from outfold.quality import aligned_error

torch = pytest.importorskip("torch")
TINY = {"hidden": (8,), "epochs": 3, "training": Training(batch=32), "n_jobs": 1, "random_state": 0}


def test_an_autoencoder_follows_its_target():
    X, _ = s_curve(400, random_state=0)
    settings = {
        "hidden": (40, 20),
        "epochs": 60,
        "training": Training(batch=64, rate=5e-3),
        "n_jobs": 1,
        "random_state": 0,
    }
    target = Isomap().fit(X)
    for given in (Isomap(), target, target.embedding_, None):
        model = GRAE(target=given, weight=10.0, **settings).fit(X)
        assert aligned_error(model.transform(X), target.embedding_, rescale=False) < 0.15
        assert model.score(X) > -0.05 * X.var(axis=0).mean()
    plain = GRAE(weight=0.0, **settings).fit(X)
    assert plain.score(X) > -0.2 * X.var(axis=0).mean()
    assert set(plain.history_) == {"loss", "reconstruction", "geometry", "decay", "held_out"}


def test_fit_transform_is_transform_after_fit():
    X = cloud(0, rows=60)
    assert np.array_equal(GRAE(**TINY).fit_transform(X), GRAE(**TINY).fit(X).transform(X, on_far="keep"))


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
    given = GRAE(epochs=3, training=Training(batch=5))._plan(0, rows)
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
        ({"training": Training(batch=0)}, "batch=0"),
        ({"training": Training(batch=32, rate=1e30)}, "Training diverged"),
        ({"training": {"batch": 32}}, "must be a Training"),
        ({"n_components": "auto"}, "n_components='auto'"),
    ],
)
def test_bad_targets_and_settings_are_refused(changes, match):
    with pytest.raises(ValueError, match=match), np.errstate(all="ignore"):
        GRAE(**{**TINY, "epochs": 8, **changes}).fit(cloud(0, rows=100))
