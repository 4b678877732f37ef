"""Operators by kind: what each says of its eigenvalues to a solver."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from outfold.graphs.components import Components
from outfold.operators.operator import CentredOperator, LaplacianOperator, MarkovOperator, ResidualOperator

ONE = np.ones(3)
PARTS = Components(np.zeros(3, int), np.ones(1))
SHARED = {"measure": ONE, "stationary": ONE / 3, "parts": PARTS}
S = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])  # rows sum to 1: a Markov matrix
KINDS = {
    "markov": MarkovOperator(matrix=S, gain=ONE, mass=ONE, **SHARED),
    "laplacian": LaplacianOperator(matrix=S - np.eye(3), spread=2.0, degree=ONE, **SHARED),
    "residual": ResidualOperator(matrix=csr_array(S - np.eye(3)), spread=2.0, **SHARED),
    "centred": CentredOperator(matrix=S - 1 / 3, top=2.0, spread=2.0, centre=ONE / 3, **SHARED),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_trivial_vectors_are_eigenvectors_of_the_top(kind):
    operator = KINDS[kind]
    vectors = operator.trivial(2)
    np.testing.assert_allclose(operator.matmat(vectors), operator.top * vectors, atol=1e-15)
    assert vectors.shape[1] == (0 if kind == "centred" else 1)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missed_eigenvalue_may_lie_a_hundredth_of_its_distance_above_the_last(kind):
    operator = KINDS[kind]
    last = operator.top - 0.4 if kind != "centred" else 0.4
    distance = float(operator.distance(np.array([last]))[0])
    assert distance == pytest.approx(0.4)
    assert 0 < operator.slack(last) <= 0.0101 * distance


@pytest.mark.parametrize("kind", ["markov", "laplacian", "residual"])
def test_eigenvalues_at_the_top_up_to_rounding_are_trivial(kind):
    operator = KINDS[kind]
    near = operator.near * operator.spread
    values = operator.top - np.array([0.0, 0.9 * near, 1.1 * near, 0.5])
    assert operator.trivial_among(values) == 2


def test_functions_of_a_centred_kernel_have_mean_zero():
    weights = np.array([1.0, 2.0, 5.0])
    operator = CentredOperator(
        matrix=S, top=2.0, spread=2.0, centre=ONE, measure=weights, stationary=weights, parts=PARTS
    )
    vectors = np.random.default_rng(0).normal(size=(3, 2))
    functions = operator.functions(vectors)
    np.testing.assert_allclose(weights @ functions, 0, atol=1e-14)
    raw = vectors / np.sqrt(weights)[:, None]
    np.testing.assert_allclose(functions, raw - weights @ raw / 8, atol=1e-14)


def test_only_a_markov_operator_has_a_trace_to_report():
    assert KINDS["markov"].trace() == pytest.approx(1.6)
    assert all(np.isnan(KINDS[kind].trace()) for kind in KINDS if kind != "markov")
