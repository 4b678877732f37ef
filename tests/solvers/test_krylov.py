"""Block Krylov, and every solver of dense problems against LAPACK."""

import numpy as np
import pytest
from sklearn.base import clone

from outfold import ClassicalMDS, Isomap, KernelPCA, solvers
from outfold._runtime.threads import Threads
from outfold.datasets import swiss_roll
from outfold.exceptions import ConvergenceError
from outfold.operators import centred


@pytest.mark.parametrize("method", [KernelPCA(3, kernel="rbf", gamma=1.0), ClassicalMDS(3), Isomap(3)], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "krylov", "lanczos"])
def test_every_solver_is_lapack(method, solver):
    roll = swiss_roll(1100, random_state=0)[0] / 10
    dense = clone(method).set_params(solver="dense").fit(roll)
    model = clone(method).set_params(solver=solver).fit(roll)
    assert model.report_.solver == ("krylov" if solver == "auto" else solver)
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, rtol=1e-11)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-9)


def test_krylov_finds_every_copy_of_an_eigenvalue_and_goes_on_after_a_restart():
    far_apart = 1e3 * np.random.default_rng(0).normal(size=(1100, 3))  # the kernel is the identity
    model = KernelPCA(6, kernel="rbf", gamma=1.0).fit(far_apart)
    assert model.report_.solver == "krylov"
    np.testing.assert_allclose(model.eigenvalues_, 1, atol=1e-10)
    np.testing.assert_allclose(model.eigenvectors_.T @ model.eigenvectors_, np.eye(6), atol=1e-12)
    slow = np.random.default_rng(1).normal(size=(1200, 400))  # eigenvalues close to each other: many steps
    restarted = ClassicalMDS(4, solver=solvers.Krylov(max_columns=30)).fit(slow)
    expected = ClassicalMDS(4, solver="dense").fit(slow)
    np.testing.assert_allclose(restarted.eigenvalues_, expected.eigenvalues_, rtol=1e-11)
    with pytest.raises(ConvergenceError, match="Block Krylov left a residual"):
        solvers.Krylov(max_products=2).start(small_operator(slow)).top(np.empty((1200, 0)), 4)


def small_operator(points):
    return centred.Centring().fit(points @ points.T, np.ones(len(points)), Threads())
