"""The generator of ``kernel="variable"``: rates and eigenfunctions whatever the density, and its extension."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from catalogue import cloud, new_points, quietly, up_to_signs
from operators.test_neighbor_walk import affinities
from outfold import DiffusionMaps, LaplacianEigenmaps
from outfold.datasets import circle, sphere
from outfold.exceptions import OutfoldWarning
from outfold.kernels import Variable


def missed(values, truth, weights):
    """Part of the true functions that the coordinates and a constant do not span."""
    root = np.sqrt(weights)[:, None]
    design = np.column_stack([np.ones(len(values)), values]) * root
    truth = (truth - weights @ truth / weights.sum()) * root
    left = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    return (left**2).sum() / (truth**2).sum()


def uneven_circle(n, seed):
    grid = np.linspace(0, 2 * np.pi, 20001)
    F = (grid + 0.8 * np.sin(grid)) / (2 * np.pi)
    return np.interp(np.random.default_rng(seed).uniform(size=n), F, grid)


@pytest.mark.parametrize("seed", [0, 1])
def test_rates_and_functions_of_a_circle_of_uneven_density(seed):
    """2 mu tends to k^2, and the functions are cos k angle and sin k angle; noise of r leaves a part at n = 2000."""
    angle = uneven_circle(2000, seed)
    maps = DiffusionMaps(4, kernel="variable", t=0).fit(np.c_[np.cos(angle), np.sin(angle)])
    truth = np.c_[np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)]
    assert missed(maps.embedding_, truth, 1 / (1 + 0.8 * np.cos(angle))) < 0.02
    assert np.allclose(2 * maps.eigenvalues_, [1, 1, 4, 4], rtol=0.2)


def test_rates_of_a_sphere_are_those_of_its_harmonics():
    """2 mu tends to l (l + 1): three times 2, five times 6."""
    maps = DiffusionMaps(8, kernel="variable", t=0).fit(sphere(2000, random_state=0))
    assert np.allclose(2 * maps.eigenvalues_, [2] * 3 + [6] * 5, rtol=0.2)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_it_is_the_dense_formula(alpha):
    X, k, dim = cloud(1, rows=80, features=2), 8, 2.0
    r = np.sqrt(np.sort(cdist(X, X, "sqeuclidean"), axis=1)[:, :k].mean(axis=1))
    maps = DiffusionMaps(3, kernel=Variable(dim), n_neighbors=k, alpha=alpha, t=0).fit(X)
    W = affinities(X, X, k, 1.0, tapers=False)
    A = W / W.sum(axis=0) @ W.T
    a = alpha - 0.5 - 1 / dim
    weight = (A.sum(axis=1) / r**dim) ** -a
    A *= np.multiply.outer(weight, weight)
    D = A.sum(axis=1)
    pace = maps.model_.rule.pace
    s = np.minimum(pace * r**2, maps.model_.rule.cap)
    values, functions = eigh((np.diag(D) - A), np.diag(D * s))
    assert np.allclose(maps.eigenvalues_, values[1:4], rtol=1e-8)
    functions *= np.sqrt((D * s).sum())
    assert up_to_signs(maps.embedding_, functions[:, 1:4]) < 1e-7
    assert values[3] * s.max() <= 0.75 * (1 + 1e-6)


def test_time_acts_as_an_exponential_of_the_rates():
    X = circle(400, random_state=0)
    still, later = (DiffusionMaps(2, kernel="variable", t=t).fit(X) for t in (0, 3))
    assert np.allclose(later.embedding_, still.embedding_ * np.exp(-3 * still.eigenvalues_), rtol=1e-10)


def test_a_time_that_leaves_nothing_warns():
    with pytest.warns(OutfoldWarning, match="Pass t=0"):
        DiffusionMaps(2, kernel="variable").fit(1e-3 * circle(300, random_state=0))


def test_a_far_row_keeps_its_side():
    """mu s(x) stays at most 3/4, so the sign does not turn and the row does not fall to the origin."""
    X = circle(500, random_state=0)
    maps = DiffusionMaps(2, kernel="variable", t=0).fit(X)
    near, far = (maps.model_.embed(factor * X[:50], maps._runner()) for factor in (1.0, 1e3))
    assert ((near * far).sum(axis=1) > 0).all()
    assert (np.linalg.norm(far, axis=1) > 0.3 * np.linalg.norm(near, axis=1)).all()


def test_contrasts_between_components_have_rate_zero_and_extend_as_constants():
    """As many components as coordinates and one more: every rate is 0, and no row, near or far, has a pole."""
    X = np.vstack([cloud(at, rows=20) + 100 * at for at in range(3)])
    maps = quietly(DiffusionMaps(2, kernel="variable", n_neighbors=6, t=0).fit, X)
    assert maps.report_.components == 3
    assert (maps.eigenvalues_ == 0).all()
    for at in range(3):
        rows = np.vstack([X[20 * at : 20 * at + 20], X[[20 * at]] + np.array([[0, 0, 1e-3], [0, 0, -1.0]])])
        found = quietly(maps.transform, rows)
        assert np.allclose(found, maps.embedding_[20 * at], rtol=0, atol=1e-12)
    assert np.isfinite(quietly(maps.transform, np.full((1, 3), 1e160))).all()


def test_an_outlier_caps_the_scale():
    X = np.vstack([circle(300, random_state=0), [[30.0, 0.0]]])
    maps = DiffusionMaps(4, kernel="variable", t=0).fit(X)
    assert maps.report_.amplification <= 2 * (1 + 1e-6)
    assert np.allclose(maps.transform(X), maps.embedding_)


def test_the_dimension_is_the_users_or_estimated_and_its_weight_is_reported():
    X = sphere(800, random_state=0)
    auto, given = (LaplacianEigenmaps(3, kernel=kernel).fit(X) for kernel in ("variable", Variable(2)))
    assert abs(auto.report_.dimension - 2) < 0.3
    assert given.report_.dimension == 2
    assert "with one more or less" in auto.report_.bandwidth


def test_new_points_of_a_sphere_have_the_value_of_the_function():
    X, Z = sphere(2000, random_state=0), sphere(500, random_state=1)
    maps = DiffusionMaps(3, kernel="variable", t=0).fit(X)
    turn = np.linalg.lstsq(maps.embedding_, X, rcond=None)[0]
    left = maps.model_.embed(Z, maps._runner()) @ turn - Z
    assert np.abs(left).max() < 0.35
    assert (left**2).mean() < 0.01


def test_new_points_do_not_depend_on_their_batch():
    X = cloud(5, rows=60)
    maps = DiffusionMaps(2, kernel="variable", t=0).fit(X)
    Z = new_points(X, 0)
    assert all((maps.transform(Z[[i]])[0] == maps.transform(Z)[i]).all() for i in range(len(Z)))


def test_more_coordinates_do_not_spoil_the_first():
    """Fewer neighbours set the scale if many pairs are wanted: capping s on a part of the circle would bend it."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 2 * np.pi, 20001)
    angle = np.interp(rng.uniform(size=2000), (grid + 0.8 * np.sin(grid)) / (2 * np.pi), grid)  # density 1 + 0.8 cos
    X = np.c_[np.cos(angle), np.sin(angle)]
    for count in (2, 10):
        maps = DiffusionMaps(count, kernel="variable", t=0).fit(X)
        assert missed(maps.embedding_[:, :2], X, np.ones(len(X))) < 0.01
        assert maps.eigenvalues_[:2] == pytest.approx(0.5, rel=0.1)
