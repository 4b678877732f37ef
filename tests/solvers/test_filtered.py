"""Filtered subspace iteration: the eigenpairs of a dense solver, groups of nearly equal ones, and its limit."""

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array, diags_array, random_array

from outfold import DiffusionMaps, LaplacianEigenmaps
from outfold._loops import csr
from outfold.datasets import s_curve
from outfold.solvers import Filtered


def clustered(count=12, size=60):
    """Clusters that a few weak edges join: as many eigenvalues near the top."""
    rng = np.random.default_rng(0)
    W = csr_array(block_diag([np.ones((size, size)) + rng.uniform(size=(size, size)) for _ in range(count)]))
    n = count * size
    weak = random_array((n, n), density=0.002, rng=rng) * 1e-3
    return csr_array(W + W.T + weak + weak.T)


def test_the_pairs_are_those_of_a_dense_solver():
    W = clustered()
    dense = LaplacianEigenmaps(5, kernel="precomputed", solver="dense").fit(W)
    filtered = LaplacianEigenmaps(5, kernel="precomputed", solver=Filtered(tol=1e-6)).fit(W)
    np.testing.assert_allclose(filtered.eigenvalues_, dense.eigenvalues_, rtol=1e-8)
    turn = dense.embedding_.T @ filtered.embedding_ / len(dense.embedding_)
    np.testing.assert_allclose(np.linalg.svd(turn)[1], np.linalg.svd(dense.embedding_)[1][:5] ** 2 / 720, rtol=1e-4)


def test_crowded_eigenvalues_go_to_another_solver():
    path = csr_array(diags_array([np.ones(3999), np.ones(3999)], offsets=[-1, 1]))
    report = LaplacianEigenmaps(2, kernel="precomputed", solver=Filtered(max_products=40)).fit(path).report_
    assert report.solver == "lobpcg"
    assert report.solver_why.startswith("fallback: Filtered subspace iteration")


@pytest.mark.parametrize("kernel", ["adaptive", "gaussian", "precomputed"])
def test_products_in_single_precision_cost_no_accuracy(kernel):
    X = clustered() if kernel == "precomputed" else s_curve(900, random_state=0)[0]
    width = {"epsilon": 0.5} if kernel == "gaussian" else {}
    dense, filtered = (DiffusionMaps(4, kernel=kernel, solver=s, **width).fit(X) for s in ("dense", Filtered(tol=1e-9)))
    assert filtered.report_.solver == "filtered"
    assert filtered.report_.residual <= 1e-9 * 1.01  # in single precision no residual would be below 1e-7
    np.testing.assert_allclose(filtered.eigenvalues_, dense.eigenvalues_, rtol=1e-13)


@pytest.mark.parametrize("unit", [1e-100, 1e-30, 1e30, 1e100])
def test_affinities_in_any_unit(unit):
    W = clustered()
    how = {"kernel": "precomputed", "laplacian": "unnormalized", "solver": Filtered(tol=1e-9)}
    plain, scaled = (LaplacianEigenmaps(4, **how).fit(V) for V in (W, W * unit))
    np.testing.assert_allclose(scaled.eigenvalues_, plain.eigenvalues_ * unit, rtol=1e-9)
    assert scaled.report_.residual < 1e-8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_of_the_recurrence_is_its_formula(dtype):
    rng = np.random.default_rng(0)
    M = random_array((30, 20), density=0.3, rng=rng, format="csr", dtype=dtype)
    onto, now, rest, start = (rng.normal(size=(rows, 7)).astype(dtype) for rows in (20, 30, 30, 30))
    coefficients, add = np.array([1.5, 0.3, -0.7], dtype), rng.normal(size=7).astype(dtype)
    wanted = 1.5 * (M.toarray() @ onto) - 0.3 * now - 0.7 * start + add * rest
    for loop in (csr.recur, csr.recur.plain):
        out = start.copy()
        for a, b in ((0, 11), (11, 30)):
            loop(M.indptr, M.indices, M.data, onto, now, rest, coefficients, add, out, a, b)
        np.testing.assert_allclose(out, wanted, rtol=0, atol=60 * np.finfo(dtype).eps)
