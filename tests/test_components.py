"""Components, contrasts, and what the fit says about them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from catalogue import quietly
from outfold import DiffusionMaps, components
from outfold.exceptions import SpectrumWarning


def blobs(sizes, spread=1e6, seed=0):
    rng = np.random.default_rng(seed)
    centres = spread * np.eye(len(sizes))
    return np.vstack([rng.normal(size=(s, len(sizes))) * 0.1 + c for s, c in zip(sizes, centres)])


@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(0, 0.2))
def test_components_are_those_of_scipy(seed, n, density):
    rng = np.random.default_rng(seed)
    links = rng.uniform(size=(n, n)) < density
    links |= links.T | np.eye(n, dtype=bool)
    ours = components.find(links, np.ones(n))
    count, labels = connected_components(links)
    assert ours.count == count
    assert len(set(zip(ours.labels, labels))) == count
    assert (np.diff(ours.masses) <= 0).all()


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_contrasts_are_orthonormal_and_constant_on_components(seed, count):
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(count), rng.integers(0, count, 30)]
    measure = rng.uniform(0.1, 2, len(labels))
    parts = components.find(labels[:, None] == labels, measure)
    values = parts.contrasts(100)
    pi = measure / measure.sum()
    np.testing.assert_allclose(values.T @ (pi[:, None] * values), np.eye(count), atol=1e-12)
    for label in range(count):
        assert np.ptp(values[labels == label], axis=0).max() == 0
    assert parts.contrasts(2).shape[1] == min(2, count)


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
@pytest.mark.parametrize("seed", range(5))
def test_ten_far_blobs_have_eigenvalue_one_ten_times(solver, seed):
    X = blobs([30, 25, 22, 20, 18, 16, 14, 12, 10, 8], seed=seed)
    with pytest.warns(SpectrumWarning, match=r"10 components \(sizes 30, 25, 22, 20, 18, \.\.\.\)"):
        maps = DiffusionMaps(11, epsilon=0.2, solver=solver).fit(X)
    assert maps.report_.components == maps.report_.multiplicity == 10
    np.testing.assert_allclose(maps.eigenvalues_[:9], 1, atol=0)
    assert (maps.eigenvalues_[9:] < 1 - 1e-6).all()
    np.testing.assert_allclose(maps.transform(X), maps.embedding_, atol=1e-10)


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_edges_below_rounding_do_not_connect(solver):
    X = blobs([40, 30, 20], spread=1.5)  # exp(-d^2 / 0.05) with d about 2
    maps = quietly(DiffusionMaps(3, epsilon=0.025, solver=solver).fit, X)
    assert maps.report_.components == 3
    np.testing.assert_allclose(maps.transform(X), maps.embedding_, atol=1e-10)


def test_nearly_disconnected_blobs_keep_their_count():
    X = blobs([40, 30, 20], spread=1.0)
    for solver in ("dense", "lanczos"):
        maps = quietly(DiffusionMaps(3, epsilon=0.025, solver=solver).fit, X)
        assert maps.report_.components == 1
        assert maps.report_.multiplicity == 3
        np.testing.assert_allclose(maps.transform(X), maps.embedding_, atol=1e-10)


def test_an_isolated_row_is_told():
    X = np.vstack([np.random.default_rng(0).normal(size=(50, 2)), [[1e5, 0]]])
    with pytest.warns(SpectrumWarning, match=r"2 components \(sizes 50, 1\)"):
        maps = DiffusionMaps(2).fit(X)
    assert maps.eigenvalues_[0] == 1


@pytest.mark.parametrize(("epsilon", "message"), [(1e-4, "too small"), (1e4, "too large")])
def test_a_bandwidth_off_by_far_is_told(epsilon, message):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(SpectrumWarning) as caught:
        DiffusionMaps(1, epsilon=epsilon).fit(X)
    assert any(message in str(w.message) for w in caught)


def test_a_tiny_eigenvalue_is_told_when_it_is_divided_by():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(SpectrumWarning, match="magnifies rounding"):
        DiffusionMaps(40, epsilon=3.0, t=0).fit(X)
