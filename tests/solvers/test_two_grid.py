"""The coarse grid of LOBPCG."""

import numpy as np

from outfold import DiffusionMaps, LaplacianEigenmaps, datasets

X = np.random.default_rng(0).normal(size=(300, 3))


def test_cells_of_the_coarse_grid_may_depend_on_each_other():
    roll, _ = datasets.swiss_roll(2048, random_state=0)  # LAPACK calls its coarse mass singular
    found = [
        DiffusionMaps(3, epsilon=np.inf, n_neighbors=25, solver=solver).fit(roll).eigenvalues_
        for solver in ("lobpcg", "shift_invert")
    ]
    np.testing.assert_allclose(*found, atol=1e-10)


def test_the_coarse_grid_of_a_binary_graph_is_regular():
    sheet = np.random.default_rng(0).uniform(size=(4000, 2))
    maps = LaplacianEigenmaps(4, n_neighbors=10, epsilon=np.inf).fit(sheet)
    assert maps.report_.solver == "lobpcg"
    assert "fallback" not in maps.report_.solver_why
    assert "trace" not in str(LaplacianEigenmaps(2, laplacian="unnormalized").fit(X).report_)
