"""LAPACK: no copy of an eigenvalue is dropped."""

import numpy as np
import pytest

from outfold import LaplacianEigenmaps
from outfold.exceptions import SpectrumWarning


def test_a_highly_multiple_eigenvalue_is_not_dropped():
    complete = np.ones((46, 46))  # L = n - 11': one 0 and 45 times n, of which LAPACK's range driver returns one
    with pytest.warns(SpectrumWarning, match="transform misses the embedding of a training row"):
        maps = LaplacianEigenmaps(4, kernel="precomputed", laplacian="unnormalized").fit(complete)
    np.testing.assert_allclose(maps.eigenvalues_, 46, atol=1e-10)
    assert maps.embedding_.shape == (46, 4)
