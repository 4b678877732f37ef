"""ARPACK: pairs it misses, and no convergence."""

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence

from outfold import DiffusionMaps, solvers
from outfold.exceptions import ConvergenceError
from outfold.solvers import lanczos as solvers_lanczos
from outfold.solvers import session as solvers_session

X = np.random.default_rng(0).normal(size=(300, 3))


def test_a_pair_that_arpack_misses_is_found(monkeypatch):
    whole = solvers_session.arpack_pairs
    expected = DiffusionMaps(5, solver="dense").fit(X).eigenvalues_
    calls = []

    def forgetful(product, known, count, tol, most, **options):
        calls.append(count)
        values, vectors = whole(product, known, count + 1 if len(calls) == 1 else count, tol, most)
        if len(calls) > 1:
            return values, vectors
        keep = np.delete(np.arange(count + 1), 2)
        return values[keep], vectors[:, keep]

    monkeypatch.setattr(solvers_lanczos, "arpack_pairs", forgetful)
    found = DiffusionMaps(5, solver="lanczos").fit(X).eigenvalues_
    assert len(calls) >= 3
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_no_convergence_falls_back_to_lapack_and_says_so(monkeypatch):
    def fails(*args, **kwargs):
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr(solvers_session, "eigsh", fails)
    maps = DiffusionMaps(3, solver="lanczos").fit(X)
    assert maps.report_.solver == "dense"
    assert "fallback" in maps.report_.solver_why
    with pytest.raises(ConvergenceError, match="300 x 300") as caught:
        solvers.Lanczos().start(_operator()).top(_operator().trivial(1), 3)
    assert caught.value.partial is not None


def _operator():
    from scipy.spatial.distance import cdist

    from outfold.operators.markov import Markov

    return Markov(1.0).fit(np.exp(-cdist(X, X, "sqeuclidean")), np.ones(len(X)))
