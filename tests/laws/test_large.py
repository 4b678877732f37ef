"""Second tier: sizes that take seconds to minutes. Run with ``python -m pytest -m slow``."""

import numpy as np
import pytest

from catalogue import quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, datasets, graphs, solvers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("n", [30_000, 100_000])
def test_s_curve_fits_well_and_extends_exactly(n):
    X, position = datasets.s_curve(n, random_state=0)
    maps = DiffusionMaps(10).fit(X)
    assert maps.report_.residual <= 1e-3
    assert maps.report_.solver == "lobpcg"
    part = np.random.default_rng(0).permutation(n)[:2000]
    np.testing.assert_allclose(maps.transform(X[part]), maps.embedding_[part], atol=1e-6)
    along = np.abs(np.corrcoef(maps.embedding_[:, 0], np.cos(np.pi * _unit(position[:, 0])))[0, 1])
    across = np.abs(np.corrcoef(maps.embedding_[:, 0], np.cos(np.pi * _unit(position[:, 1])))[0, 1])
    assert max(along, across) > 0.999


def _unit(values):
    return (values - values.min()) / np.ptp(values)


@pytest.mark.parametrize("make", [datasets.circle, datasets.sphere, datasets.flat_torus])
@pytest.mark.parametrize("rule", [graphs.Union(32), graphs.Mutual(32), graphs.Threshold(1e-3)], ids=str)
def test_crowded_spectra_agree_between_solvers(make, rule):
    X = make(20_000, random_state=0)
    found, truth = (
        quietly(DiffusionMaps(8, n_neighbors=rule, solver=s, epsilon="auto").fit, X)
        for s in (solvers.Lobpcg(tol=1e-7), solvers.ShiftInvert())
    )
    np.testing.assert_allclose(1 - found.eigenvalues_, 1 - truth.eigenvalues_, rtol=1e-6)


def test_unnormalized_laplacian_at_size():
    X = datasets.sphere(20_000, random_state=0)
    for solver in ("auto", "lobpcg"):
        maps = LaplacianEigenmaps(3, n_neighbors=16, laplacian="unnormalized", solver=solver).fit(X)
        assert maps.report_.residual < 1e-4
        np.testing.assert_allclose(maps.transform(X[::97]), maps.embedding_[::97], atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_cells_stay_near_exact_search(seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, size=(20_000, 3))
    X = np.sin(u @ rng.normal(size=(3, 40)) * 2 + rng.uniform(0, 6, 40))
    fast, exact = (DiffusionMaps(3, n_neighbors=graphs.Union(16, search=s)).fit(X) for s in ("cells", "brute"))
    np.testing.assert_allclose(1 - fast.eigenvalues_, 1 - exact.eigenvalues_, rtol=1e-3)
    assert fast.report_.extension_gap < 0.05
