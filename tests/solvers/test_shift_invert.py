"""Shift and invert on a dense kernel."""

import numpy as np
import pytest

from outfold import DiffusionMaps, LaplacianEigenmaps

X = np.random.default_rng(0).normal(size=(300, 3))


def test_shift_invert_on_a_dense_kernel():
    for method in (DiffusionMaps(4), LaplacianEigenmaps(4, laplacian="unnormalized")):
        values = method.set_params(solver="dense").fit(X).eigenvalues_
        found = method.set_params(solver="shift_invert").fit(X).eigenvalues_
        np.testing.assert_allclose(found, values, atol=1e-9 * max(1, values.max()))
    with pytest.raises(ValueError, match="sparse graphs"):
        DiffusionMaps(solver="lobpcg", n_neighbors=None).fit(X)
