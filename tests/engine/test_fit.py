"""What a fit selects of its spectrum, and what it says about it."""

import numpy as np
import pytest

from catalogue import cloud, quietly
from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LocallyLinearEmbedding
from outfold.exceptions import SpectrumWarning

X = np.random.default_rng(0).normal(size=(300, 3))


@pytest.mark.parametrize(
    "method", [KernelPCA("auto"), ClassicalMDS("auto"), Isomap("auto"), LocallyLinearEmbedding("auto")], ids=repr
)
def test_auto_finds_the_plane(method):
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, (500, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    assert quietly(method.fit, plane).embedding_.shape[1] == 2


def test_every_eigenpair_can_be_asked_for():
    small = cloud(0, rows=20)
    for solver in ("dense", "lanczos", "auto"):
        maps = quietly(DiffusionMaps(19, epsilon=0.05, solver=solver).fit, small)
        assert maps.eigenvalues_.shape == (19,)
        assert np.isnan(maps.report_.gap)
        assert maps.report_.trace == pytest.approx(1 + maps.eigenvalues_.sum())


def test_indices_pick_eigenpairs():
    many = DiffusionMaps(6).fit(X)
    some = DiffusionMaps([1, 4, 6]).fit(X)
    np.testing.assert_allclose(some.embedding_, many.embedding_[:, [0, 3, 5]], atol=1e-12)
    np.testing.assert_allclose(some.eigenvalues_, many.eigenvalues_[[0, 3, 5]], atol=1e-12)


@pytest.mark.parametrize("n", [300, 1100])
@pytest.mark.parametrize("t", [1, 4])
def test_auto_components_follow_the_spectrum(n, t):
    points = np.random.default_rng(1).normal(size=(n, 2))
    maps = quietly(DiffusionMaps("auto", epsilon=0.5, t=t).fit, points)
    more = quietly(DiffusionMaps(maps.report_.n_components + 1, epsilon=0.5, t=t).fit, points).eigenvalues_
    ratio = (more / more[0]) ** t
    assert (ratio[:-1] > 0.1).all()
    assert ratio[-1] <= 0.1


def test_auto_components_not_reached_is_told():
    maps = quietly(DiffusionMaps("auto", epsilon=1e-3).fit, cloud(0, rows=30))
    assert any("decay below 0.1 within 30 eigenpairs; all 29" in text for text in maps.report_.warnings)
    maps = quietly(DiffusionMaps("auto", epsilon=1e-6).fit, np.random.default_rng(0).uniform(size=(1100, 3)))
    assert any("decay below 0.1 within 512 eigenpairs; all 511" in text for text in maps.report_.warnings)


@pytest.mark.parametrize(("epsilon", "message"), [(1e-4, "too small"), (1e4, "spans the data")])
def test_a_bandwidth_off_by_far_is_told(epsilon, message):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(SpectrumWarning) as caught:
        DiffusionMaps(1, epsilon=epsilon).fit(X)
    assert any(message in str(w.message) for w in caught)


def test_a_tiny_eigenvalue_is_told_when_it_is_divided_by():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(SpectrumWarning) as caught:
        DiffusionMaps(40, epsilon=3.0, t=0).fit(X)
    assert any("magnifies rounding" in str(w.message) for w in caught)


def test_outliers_that_carry_a_coordinate_are_named_with_the_remedy_and_the_default_has_none():
    rows = np.vstack([X, [[4.0, 4, 4], [-4, 4, 0], [0, -5, 4]]])
    with pytest.warns(SpectrumWarning, match=r"Coordinate 1 shows outliers: 5 of 303 .* pass kernel='adaptive'"):
        DiffusionMaps(2, epsilon=1.0).fit(rows)
    assert DiffusionMaps(2).fit(rows).report_.warnings == ()
    with pytest.warns(SpectrumWarning, match=r"Coordinate 1 shows outliers: 5 of 303 .* Scale the features, or drop"):
        KernelPCA(2, kernel="poly").fit(rows)
