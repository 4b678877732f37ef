"""Weights that reproduce points: what they sum to, and how their equations are solved."""

import warnings

import numpy as np
import pytest

from outfold import LocallyLinearEmbedding
from outfold.datasets import swiss_roll
from outfold.exceptions import OutfoldWarning
from outfold.operators import local_weights


def test_the_rows_of_lle_reproduce_training_points_and_weights_sum_to_one():
    roll, _ = swiss_roll(300, random_state=0)
    rule = LocallyLinearEmbedding(2, n_neighbors=12).fit(roll).model_.rule
    own = rule.rows(rule.search.distances.anchors).weights
    assert abs(own - np.eye(300)).max() < 1e-10
    new = rule.rows(swiss_roll(50, random_state=1)[0]).weights
    np.testing.assert_allclose(new.sum(axis=1), 1, atol=1e-12)
    nearly = rule.rows(roll[:50] + 1e-9).weights  # continuous: next to a training point nearly all weight is on it
    assert nearly.toarray().max(axis=1).min() > 1 - 1e-6


@pytest.mark.parametrize("solver", ["auto", "shift_invert", "dense"])
def test_lle_by_every_solver(solver):
    roll, _ = swiss_roll(1500, random_state=0)
    expected = LocallyLinearEmbedding(2, n_neighbors=12, solver="dense").fit(roll)
    model = LocallyLinearEmbedding(2, n_neighbors=12, solver=solver).fit(roll)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(model.embedding_, expected.embedding_, atol=1e-5)


def test_lle_says_when_it_will_take_long(monkeypatch):
    monkeypatch.setattr(local_weights, "SLOW_SECONDS", 0.01)
    with pytest.warns(OutfoldWarning, match="1500 points overlap as in three or more dimensions.*landmarks=5000"):
        LocallyLinearEmbedding(2, n_neighbors=12).fit(np.random.default_rng(0).normal(size=(1500, 8)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LocallyLinearEmbedding(2, n_neighbors=12).fit(swiss_roll(1500, random_state=0)[0])
