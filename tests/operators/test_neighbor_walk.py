"""Diffusion in local units: dense formulas, closed forms, and the extension to new points."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.base import clone

from catalogue import cloud, new_points, quietly, up_to_signs
from outfold import DiffusionMaps, LaplacianEigenmaps, SpectralClustering, plan
from outfold.datasets import circle
from outfold.engine import fit
from outfold.neighbors import build
from outfold.operators.neighbor_walk import NEIGHBORS, WIDTH
from outfold.operators.walk import WalkOperator


def affinities(X, Z, k, epsilon=WIDTH, tapers=True):
    """exp(-d^2 / (epsilon (r(x)^2 + r_j^2))), tapered, of the rows of Z to their k nearest rows of X: without ties."""

    def nearest(rows):
        squared = cdist(rows, X, "sqeuclidean")
        keep = squared <= np.sort(squared, axis=1)[:, [k - 1]]
        return squared, keep, np.sqrt((squared * keep).sum(axis=1) / k)

    squared, keep, own = nearest(Z)
    taper = 1 - 0.99 * tapers * squared / np.sort(squared, axis=1)[:, [k - 1]]
    return np.where(keep, np.exp(-squared / epsilon / np.add.outer(own**2, nearest(X)[2] ** 2)) * taper, 0.0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_dense_formula_for_training_and_new_points(alpha, weighted):
    X, k = cloud(1, rows=60), 9
    m = np.random.default_rng(0).uniform(1, 4, len(X)) if weighted else np.ones(len(X))
    W = affinities(X, X, k)
    seen = W.T @ m
    A = W / seen @ W.T
    q = A @ m
    assert np.allclose(q, W.sum(axis=1))
    A /= np.multiply.outer(q, q) ** alpha
    d = A @ m
    pi = m * d / (m @ d)
    values, vectors = eigh(np.sqrt(np.outer(m / d, m / d)) * A)
    values, psi = values[::-1][1:4], (vectors[:, ::-1] / np.sqrt(pi)[:, None])[:, 1:4]
    maps = DiffusionMaps(3, alpha=alpha, t=2, n_neighbors=k).fit(X, sample_weight=m)
    assert np.allclose(maps.eigenvalues_, values, rtol=1e-10)
    assert up_to_signs(maps.embedding_, values**2 * psi) < 1e-9
    Z = new_points(X, 2)
    w = affinities(X, Z, k)
    a = w / seen @ W.T / q**alpha * m
    a /= a.sum(axis=1, keepdims=True)
    signs = np.sign((maps.embedding_ * psi).sum(axis=0))
    assert np.allclose(maps.transform(Z), values * (a @ psi) * signs, atol=1e-9)


def test_even_points_on_a_circle_have_the_closed_form():
    """W is circulant: the eigenvalue of cos(l angle) is (sum_j w_j cos(l j h) / sum_j w_j)^2."""
    n, k = 101, 15
    angle = 2 * np.pi * np.arange(n) / n
    steps = np.arange(-(k // 2), k // 2 + 1)
    squared = 4 * np.sin(np.pi * steps / n) ** 2
    w = np.exp(-squared / (2 * WIDTH * squared.mean())) * (1 - 0.99 * squared / squared.max())
    expected = [(w @ np.cos(2 * np.pi * order * steps / n) / w.sum()) ** 2 for order in (1, 1, 2, 2)]
    maps = DiffusionMaps(4, n_neighbors=k).fit(np.c_[np.cos(angle), np.sin(angle)])
    assert np.allclose(maps.eigenvalues_, expected, rtol=1e-12)


def test_on_an_uneven_circle_the_coordinates_are_those_of_the_cumulative_angle():
    """Sampling is uniform in local units, so the eigenfunctions are cos F and sin F; of angle they are not."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 2 * np.pi, 20001)
    F = (grid + 0.8 * np.sin(grid)) / (2 * np.pi)  # density 1 + 0.8 cos
    angle = np.interp(rng.uniform(size=2000), F, grid)
    cumulated = 2 * np.pi * np.interp(angle, grid, F)
    maps = DiffusionMaps(2).fit(np.c_[np.cos(angle), np.sin(angle)])

    def missed(truth):
        design = np.column_stack([np.ones(len(angle)), maps.embedding_])
        left = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
        return (left**2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum()

    assert missed(np.c_[np.cos(cumulated), np.sin(cumulated)]) < 0.02
    assert missed(np.c_[np.cos(angle), np.sin(angle)]) > 0.1


def test_the_unnormalised_laplacian_is_that_of_the_same_affinities():
    X, k = cloud(2, rows=50), 8
    W = affinities(X, X, k)
    A = W / W.sum(axis=0) @ W.T
    values = eigh(np.diag(A.sum(axis=1)) - A, eigvals_only=True)[1:3]
    maps = LaplacianEigenmaps(2, laplacian="unnormalized", n_neighbors=k).fit(X)
    assert np.allclose(maps.eigenvalues_, values, rtol=1e-9)


def test_copies_are_one_neighbour():
    X = cloud(3, rows=40)
    plain, copied = (DiffusionMaps(2).fit(rows) for rows in (X, np.repeat(X, 5, axis=0)))
    assert np.allclose(plain.eigenvalues_, copied.eigenvalues_, rtol=1e-10)
    assert copied.report_.components == 1


def test_distances_given_are_like_distances_computed():
    X = cloud(4, rows=50)
    table = cdist(X, X)
    given = DiffusionMaps(2, metric="precomputed", n_neighbors=7).fit(table)
    computed = DiffusionMaps(2, n_neighbors=7).fit(X)
    assert np.allclose(given.eigenvalues_, computed.eigenvalues_, rtol=1e-10)
    Z = new_points(X, 0)
    assert up_to_signs(given.transform(cdist(Z, X)), computed.transform(Z)) < 1e-9


def test_joined_components_are_one():
    X = np.vstack([cloud(0, rows=30), cloud(1, rows=30) + 50])
    apart = quietly(DiffusionMaps(2, n_neighbors=6).fit, X)
    joined = DiffusionMaps(2, n_neighbors=6, components="join").fit(X)
    assert (apart.report_.components, joined.report_.components) == (2, 1)
    assert np.allclose(joined.transform(X), joined.embedding_)
    with pytest.raises(ValueError, match=r"2 components.*Raise n_neighbors \(now 6\)"):
        DiffusionMaps(n_neighbors=6, components="error").fit(X)


@pytest.mark.parametrize("rows", [4, 5, 10, 40])
def test_few_rows_have_fewer_neighbours(rows):
    X = cloud(0, rows=40)[:rows]
    maps = quietly(DiffusionMaps(2).fit, X)
    k = min(NEIGHBORS, max(2, rows // 2))
    few = " (few points; 20 of more)" if k < NEIGHBORS else ""
    assert maps.report_.edges == f"auto: {k} nearest of each point{few}"
    with pytest.raises(ValueError, match="smaller than the number of distinct training rows"):
        DiffusionMaps(n_neighbors=rows).fit(X)


def test_the_plan_says_what_the_fit_does():
    X = cloud(0, rows=80)
    assert plan(X, DiffusionMaps()).edges == DiffusionMaps().fit(X).report_.edges


def test_auto_is_gaussian_where_an_epsilon_is_given_and_the_same_rule_at_every_size():
    X = circle(300, random_state=0)
    given, named = (DiffusionMaps(2, epsilon=0.1, **more).fit(X) for more in ({}, {"kernel": "gaussian"}))
    assert (given.embedding_ == named.embedding_).all()
    edges = {DiffusionMaps().fit(circle(n, random_state=0)).report_.edges for n in (100, 2990, 3010)}
    assert edges == {"auto: 20 nearest of each point"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "adaptive", "epsilon": "median"}, "measures in local units"),
        ({"kernel": "adaptive", "epsilon": np.inf}, "measures in local units"),
        ({"kernel": "variable", "n_neighbors": None}, "keeps a number of nearest points"),
        ({"kernel": "variable", "coordinates": "canonical"}, "rates and eigenfunctions of a generator"),
        ({"n_neighbors": "many"}, "'auto'"),
        ({"n_neighbors": 1}, "n_neighbors=1"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        DiffusionMaps(**parameters).fit(cloud(0))


def test_clusters_of_unequal_density_are_found():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(150, 2)) * 0.1, rng.normal(size=(150, 2)) * 2 + [30, 0]])
    labels = quietly(SpectralClustering(2).fit, X).labels_
    assert len(set(labels[:150])) == len(set(labels[150:])) == 1
    assert labels[0] != labels[150]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_products_through_the_square_root_are_those_with_the_matrix(alpha, monkeypatch):
    X = cloud(5, rows=120)
    weight = np.random.default_rng(0).uniform(0.3, 3, len(X))
    seen = []
    select = fit._select
    monkeypatch.setattr(fit, "_select", lambda problem, *rest: seen.append(problem.operator) or select(problem, *rest))
    quietly(DiffusionMaps(2, alpha=alpha).fit, X, sample_weight=weight)
    V = np.random.default_rng(1).normal(size=(len(X), 3))
    assert seen[0].square_root is not None
    for block in (V, V[:, :1]):
        assert np.abs(seen[0].matmat(block) - seen[0].entries @ block).max() < 1e-14


@pytest.mark.parametrize("search", ["cells", "tree"])
def test_an_order_for_the_solver_changes_nothing_but_rounding(search, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 12)) * np.geomspace(8, 1, 12)
    monkeypatch.setattr("outfold.neighbors.build", lambda distances, _, runner: build(distances, search, runner))
    method = DiffusionMaps(4, solver="lanczos")
    plain = quietly(clone(method).fit, X)
    orders = []
    reorder = WalkOperator.reorder
    monkeypatch.setattr(WalkOperator, "reorder", lambda self: (orders.append(self.order), reorder(self))[1])
    monkeypatch.setattr("outfold.operators.neighbor_walk.ORDERED_FROM", 1000)
    ordered = quietly(clone(method).fit, X)
    assert len(orders) == 1
    assert np.array_equal(np.sort(orders[0]), np.arange(1200))
    assert not np.array_equal(orders[0], np.arange(1200))
    np.testing.assert_allclose(ordered.eigenvalues_, plain.eigenvalues_, rtol=0, atol=1e-12)
    gap = np.abs(np.diff(plain.eigenvalues_, prepend=1.0)).min()
    np.testing.assert_allclose(ordered.embedding_, plain.embedding_, rtol=0, atol=1e-11 / gap)
