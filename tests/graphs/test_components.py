"""Components, contrasts, and what the fit says about them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from catalogue import cloud, quietly
from outfold import DiffusionMaps, graphs, solvers
from outfold._runtime.threads import Threads
from outfold.distances import Metric
from outfold.exceptions import SpectrumWarning
from outfold.graphs import components
from outfold.operators.markov import Markov


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
    maps = quietly(DiffusionMaps(2, kernel="gaussian").fit, X)
    assert maps.eigenvalues_[0] == 1
    told = maps.report_
    assert "2 components (sizes 50, 1); 1 row has no neighbour in reach" in told.warnings[0]
    assert "outweigh" in told.warnings[1]  # 1e5 is a scale of its own
    assert quietly(DiffusionMaps(2).fit, X).report_.components == 1  # in local units it stays joined to its neighbours


SIZES = [60, 55, 52, 50, 48, 46, 44, 42, 40, 38]


@pytest.mark.parametrize("seed", range(20))
def test_ten_far_blobs_on_a_sparse_graph(seed):
    X = blobs(SIZES, seed=seed)
    solver = ("lanczos", "shift_invert", "lobpcg", "dense")[seed % 4]
    maps = quietly(DiffusionMaps(12, n_neighbors=8, solver=solver).fit, X)
    assert maps.report_.components == maps.report_.multiplicity == 10
    assert (maps.eigenvalues_[:9] == 1).all()
    assert maps.eigenvalues_[9] < 1 - 1e-6
    np.testing.assert_allclose(maps.transform(X), maps.embedding_, atol=1e-9 if solver != "lobpcg" else 1e-4)


def chained(seed, weight):
    """Ten blobs as a sparse affinity, each tied to the next by one edge of the given weight."""
    X = blobs(SIZES, seed=seed)
    found = graphs.Union(8).statistics(Metric(), X, np.ones(len(X)), Threads(1))
    W = graphs.Union(8).draw(found, None, Threads(1)).gram(Threads(1))
    W.data = np.exp(-W.data / 0.4)
    starts = np.cumsum([0, *SIZES[:-1]])
    ties = csr_array((np.full(9, weight), (starts[:-1], starts[1:])), shape=W.shape)
    return csr_array(W + ties + ties.T)


@pytest.mark.parametrize("seed", range(20))
def test_ten_blobs_joined_by_edges_of_rounding_size_keep_their_count(seed):
    W = chained(seed, 1e-14)
    for solver in (solvers.Lanczos(), solvers.ShiftInvert(), solvers.Dense()):
        operator = Markov(1.0).fit(W.copy(), np.ones(W.shape[0]))
        assert operator.parts.count == 1
        spectrum = solvers.solve(operator, solver, 13)
        assert (spectrum.values > 1 - 1e-8).sum() == 10, type(solver).__name__
        assert spectrum.residuals.max() < 1e-10


@pytest.mark.parametrize("weight", [1e-6, 1e-9, 1e-11])
def test_weak_ties_are_resolved_by_every_solver(weight):
    W = chained(0, weight)
    truth = np.linalg.eigvalsh(Markov(0.0).fit(W.toarray(), np.ones(W.shape[0])).matrix)[::-1]
    for solver in (solvers.Lanczos(), solvers.ShiftInvert(), solvers.Dense()):
        operator = Markov(0.0).fit(W.copy(), np.ones(W.shape[0]))
        np.testing.assert_allclose(solvers.solve(operator, solver, 13).values, truth[:13], atol=1e-12)


def two_clusters():
    rng = np.random.default_rng(0)
    return np.vstack([rng.uniform(size=(80, 2)), rng.uniform(size=(50, 2)) + np.array([3.0, 0.0])])


def test_policy_error_names_sizes_and_ways_out():
    with pytest.raises(ValueError, match=r"2 components \(sizes 80, 50\).*n_neighbors.*'largest' or 'join'"):
        DiffusionMaps(n_neighbors=6, components="error").fit(two_clusters())
    DiffusionMaps(n_neighbors=6, components="error").fit(two_clusters()[:80])


def test_policy_largest_embeds_it_and_extends_to_the_rest():
    X = two_clusters()
    maps = DiffusionMaps(2, n_neighbors=6, components="largest").fit(X)
    alone = DiffusionMaps(2, n_neighbors=6).fit(X[:80])
    np.testing.assert_allclose(maps.eigenvalues_, alone.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(maps.embedding_[:80], alone.embedding_, atol=1e-10)
    np.testing.assert_allclose(maps.embedding_[80:], quietly(alone.transform, X[80:]), atol=1e-10)
    assert maps.report_.n_anchors == 80
    assert maps.landmark_indices_.max() == 79


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("gaussian", "9 of 21 anchors, 2 of them distinct: too few to embed"),
        ("adaptive", "2 of 6 anchors, 2 of them distinct: too few to embed"),  # copies are one anchor
    ],
)
def test_policy_largest_says_when_too_little_is_left(kernel, message):
    pairs = np.repeat([0.0, 1.0, 100.0, 101.0, 200.0, 201.0], [5, 4, 3, 3, 3, 3])[:, None]
    with pytest.raises(ValueError, match=message):
        DiffusionMaps(1, kernel=kernel, n_neighbors=2, components="largest").fit(pairs)


@pytest.mark.parametrize("search", ["tree", "brute"])
def test_policy_join_adds_the_shortest_bridge(search):
    X = np.vstack([two_clusters(), two_clusters()[:3]])
    rule = graphs.Union(6, search=search)
    maps = DiffusionMaps(2, n_neighbors=rule, components="join").fit(X)
    apart = quietly(DiffusionMaps(2, n_neighbors=rule).fit, X)
    assert apart.report_.components == 2
    assert maps.report_.components == 1
    graph = maps.model_.rule.geometry
    ends = graph.bridges.nonzero()
    a, b = graph.anchors[ends[0][0]], graph.anchors[ends[1][0]]
    shortest = min(np.linalg.norm(p - q) for p in X[:80] for q in X[80:130])
    assert np.linalg.norm(a - b) == pytest.approx(shortest)
    np.testing.assert_allclose(maps.transform(X[::-1]), maps.embedding_[::-1], atol=1e-10)


def test_join_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="dense"):
        DiffusionMaps(epsilon=1e-4, n_neighbors=None, components="join").fit(two_clusters())
    scattered = np.add.outer(1000.0 * np.arange(300), [0.0, 1.0]).reshape(-1, 1)  # 300 pairs, far apart
    with pytest.raises(ValueError, match="more than 100"):
        DiffusionMaps(n_neighbors=2, components="join").fit(scattered)


def test_bridges_by_any_metric():
    X = two_clusters()
    maps = DiffusionMaps(2, n_neighbors=6, metric="cityblock", components="join").fit(X)
    assert maps.report_.components == 1


def test_pieces_of_rows_with_missing_values_are_bridged():
    X = np.vstack([cloud(0, rows=40), cloud(1, rows=40) + 50.0])
    X[3, 0] = X[50, 1] = np.nan
    model = quietly(DiffusionMaps(2, metric="nan_euclidean", n_neighbors=5, components="join").fit, X)
    assert model.report_.components == 1


@pytest.mark.parametrize("n", [200, 2000])
def test_continuous_k_nn_finds_a_radius_that_connects(n):
    from outfold import datasets

    for make in (datasets.circle, datasets.sphere, datasets.flat_torus):
        maps = quietly(DiffusionMaps(2, kernel="continuous_knn", alpha=0).fit, make(n, random_state=0))
        assert maps.report_.components == 1
        assert maps.report_.degree < n / 4


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        (None, r"Raise epsilon \(now all pairs, epsilon 0.001\), or pass components='largest'\."),
        (graphs.Union(4), r"Raise n_neighbors \(now union of 4 nearest, .*'largest' or 'join'"),
        (graphs.Mutual(4), r"Raise k, or use Union \(now mutual 4 nearest"),
        (graphs.Ball(0.3), r"Raise the radius \(now ball of radius 0.3"),
        (graphs.Threshold(0.5), r"lower the threshold \(now weights of at least 0.5"),
    ],
    ids=str,
)
def test_the_hint_fits_the_rule(rule, remedy):
    maps = quietly(DiffusionMaps(1, n_neighbors=rule, epsilon=1e-3).fit, two_clusters())
    assert maps.report_.components > 1
    with pytest.warns(SpectrumWarning) as caught:
        maps.fit(two_clusters())
    assert any(re.search(remedy, str(w.message)) for w in caught)


@given(st.integers(0, 10_000), st.integers(3, 8), st.integers(1, 5))
def test_contrasts_of_components_that_lie_somewhere_are_the_principal_components_of_their_means(seed, count, features):
    rng = np.random.default_rng(seed)
    labels = np.append(np.arange(count), rng.integers(0, count, 40))
    measure = rng.uniform(0.5, 2, len(labels))
    found = components.find(csr_array(labels[:, None] == labels), measure)
    points = rng.normal(size=(count, features))[labels] + 0.1 * rng.normal(size=(len(labels), features))
    values = found.at(points, measure).contrasts(count)
    weight = measure / measure.sum()
    assert np.allclose(values.T @ (weight[:, None] * values), np.eye(count), atol=1e-10)
    assert np.allclose(np.abs(values[:, 0]), 1)
    means = np.array([weight[labels == label] @ points[labels == label] for label in range(count)])
    means = (means / np.bincount(labels, weights=weight)[:, None])[labels]
    table = np.sqrt(weight)[:, None] * (means - weight @ means)
    left, size, _ = np.linalg.svd(table, full_matrices=False)
    shown = min(features, count - 1)
    overlap = left[:, :shown].T @ (np.sqrt(weight)[:, None] * values[:, 1 : 1 + shown])
    assert np.allclose(np.abs(np.diag(overlap)), 1, atol=1e-6) or np.diff(size[:shown]).max(initial=-1) > -1e-3


def test_two_coordinates_show_every_component_where_it_lies():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 20]])
    X = np.vstack([c + 0.3 * rng.normal(size=(60, 2)) for c in centres])
    places = quietly(DiffusionMaps(2).fit, X).embedding_.reshape(5, 60, 2).mean(axis=1)
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(5, 1)]
    assert gaps.min() > 0.3  # in units of a coordinate's deviation
