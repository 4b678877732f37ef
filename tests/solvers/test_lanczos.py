"""Lanczos, plain and on a polynomial, against LAPACK."""

from dataclasses import replace

import numpy as np
import pytest

from outfold import DiffusionMaps, LaplacianEigenmaps, solvers
from outfold.solvers import lanczos as solvers_lanczos

X = np.random.default_rng(0).normal(size=(300, 3))


@pytest.mark.parametrize("method", [DiffusionMaps(6), LaplacianEigenmaps(6, laplacian="unnormalized")], ids=["P", "L"])
def test_lanczos_and_lapack_agree(method):
    dense = method.set_params(solver="dense").fit(X)
    values, embedding = dense.eigenvalues_, dense.embedding_
    lanczos = method.set_params(solver="lanczos").fit(X)
    assert lanczos.report_.solver == "lanczos"
    np.testing.assert_allclose(lanczos.eigenvalues_, values, atol=1e-12 * max(1, values.max()))
    np.testing.assert_allclose(lanczos.embedding_, embedding, atol=1e-8)
    assert lanczos.report_.residual < 1e-9


def flat_torus(n, dimension):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (n, dimension))
    return np.hstack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_lanczos_on_a_polynomial_agrees_with_lapack(dimension, monkeypatch):
    monkeypatch.setattr(solvers_lanczos, "FILTERED_FROM", 1000)
    X = flat_torus(2000, dimension)
    truth = DiffusionMaps(7, n_neighbors=16, solver="dense").fit(X).eigenvalues_
    found = DiffusionMaps(7, n_neighbors=16, solver=solvers.Lanczos(tol=1e-7)).fit(X)
    assert found.report_.solver == "lanczos"
    assert found.report_.residual < 1e-4
    np.testing.assert_allclose(1 - found.eigenvalues_, 1 - truth, rtol=1e-6)


def test_a_filter_that_cuts_too_high_is_not_believed(monkeypatch):
    monkeypatch.setattr(solvers_lanczos, "FILTERED_FROM", 1000)
    sheet = np.random.default_rng(0).uniform(size=(1500, 2))
    truth = DiffusionMaps(9, n_neighbors=12, solver="dense").fit(sheet).eigenvalues_
    tight = solvers_lanczos._Filter.of

    def high(operator):
        return replace(tight(operator), cut=float(truth[3]))

    monkeypatch.setattr(solvers_lanczos._Filter, "of", high)
    found = DiffusionMaps(9, n_neighbors=12, solver="lanczos").fit(sheet).eigenvalues_
    np.testing.assert_allclose(found, truth, atol=1e-9)


def test_a_filter_that_does_not_reach_all_wanted_pairs_gives_up_early(monkeypatch):
    """Of 21 pairs of a torus most lie below the cut: the polynomial shows them as small as all the others."""
    monkeypatch.setattr(solvers_lanczos, "FILTERED_FROM", 1000)
    asked, polynomial = [], solvers_lanczos._Filter._polynomial
    monkeypatch.setattr(
        solvers_lanczos._Filter, "_polynomial", lambda self, v: (asked.append(1), polynomial(self, v))[1]
    )
    X = flat_torus(2000, 2)
    truth = DiffusionMaps(20, n_neighbors=16, solver="dense").fit(X).eigenvalues_
    found = DiffusionMaps(20, n_neighbors=16, solver=solvers.Lanczos(tol=1e-7)).fit(X)
    assert found.report_.solver == "lanczos"
    np.testing.assert_allclose(found.eigenvalues_, truth, atol=1e-6)
    assert 0 < len(asked) < 2000
