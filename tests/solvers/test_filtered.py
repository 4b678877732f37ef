"""Filtered subspace iteration: the eigenpairs of a dense solver, groups of nearly equal ones, and its limit."""

import numpy as np
from scipy.sparse import block_diag, csr_array, diags_array, random_array

from outfold import LaplacianEigenmaps
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
