"""Lanczos against LAPACK."""

import numpy as np
import pytest

from outfold import DiffusionMaps, LaplacianEigenmaps

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
