"""Solvers of sparse graphs against LAPACK and against themselves on other threads."""

import numpy as np
import pytest

from outfold import DiffusionMaps, LaplacianEigenmaps, datasets, solvers


@pytest.mark.parametrize("solver", ["lanczos", "shift_invert", "lobpcg", solvers.Filtered(1e-5)], ids=str)
@pytest.mark.parametrize(
    "method",
    [DiffusionMaps(6, n_neighbors=16), LaplacianEigenmaps(6, n_neighbors=16, laplacian="unnormalized")],
    ids=["P", "L"],
)
def test_sparse_solvers_agree_with_lapack(solver, method):
    sheet = np.random.default_rng(0).uniform(size=(1500, 2)) * [3, 1]
    dense = method.set_params(solver="dense").fit(sheet)
    values, embedding = dense.eigenvalues_, dense.embedding_
    sparse = method.set_params(solver=solver).fit(sheet)
    name = solver if isinstance(solver, str) else "filtered"
    assert sparse.report_.solver == name.replace("_", "")
    gone = 1 - values if isinstance(method, DiffusionMaps) else values
    np.testing.assert_allclose(sparse.eigenvalues_, values, atol=1e-8 * gone.max())
    np.testing.assert_allclose(sparse.embedding_, embedding, atol=1e-3)
    assert sparse.report_.residual < 2e-5


@pytest.mark.parametrize("solver", [solvers.Lobpcg(), solvers.Filtered(tol=1e-5)], ids=["lobpcg", "filtered"])
def test_n_jobs_changes_no_more_than_the_rounding_of_a_sparse_fit(solver):
    X = datasets.s_curve(9000, random_state=0)[0]
    one, *others = (DiffusionMaps(5, n_neighbors=12, solver=solver, n_jobs=j).fit(X) for j in (1, 2, 3))
    gap = -np.diff(one.eigenvalues_, prepend=1.0).max()
    for other in others:  # BLAS rounds by the number of its threads: the contract allows 1e-12, and 1e-13 / gap
        np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.embedding_, other.embedding_, rtol=0, atol=1e-13 / gap)
