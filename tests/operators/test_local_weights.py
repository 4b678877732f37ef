"""Weights that reproduce points: what they sum to, and how their equations are solved."""

import warnings

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_array

from catalogue import up_to_signs
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


def test_weights_of_rows_enter_the_residual_once_on_each_side():
    """The eigenproblem is (I - W)' diag(m) (I - W) u = mu diag(m) u, in NumPy with unequal m."""
    rng = np.random.default_rng(0)
    W, measure = rng.normal(size=(12, 12)) * (rng.uniform(size=(12, 12)) < 0.4), rng.uniform(0.2, 5, 12)
    np.fill_diagonal(W, 0.0)
    A = np.eye(12) - W
    expected = eigh(A.T @ (measure[:, None] * A), np.diag(measure))
    operator = local_weights.residual(csr_array(W), measure)
    values, vectors = np.linalg.eigh(-operator.matrix.toarray())
    np.testing.assert_allclose(values, expected[0], rtol=1e-10, atol=1e-12)
    functions = operator.functions(vectors)
    assert up_to_signs(functions, expected[1]) < 1e-8
    np.testing.assert_allclose(functions.T @ (measure[:, None] * functions), np.eye(12), atol=1e-10)
