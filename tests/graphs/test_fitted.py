"""Sparse rules: an edge is a function of its two points, whoever asks and in whatever company."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from catalogue import cloud, new_points, quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, graphs, neighbors
from outfold._runtime.threads import Threads
from outfold.bandwidths import Bandwidth
from outfold.data.places import count_neighbors
from outfold.distances import Metric
from outfold.graphs import pair_statistics
from outfold.kernels import GaussianKernel

RUNNER = Threads(1)
KERNEL = GaussianKernel(Bandwidth(0.5, "given"))

RULES = {
    "union": graphs.Union(6),
    "union brute": graphs.Union(6, search="brute"),
    "union local": graphs.Union(9, local=7),
    "mutual": graphs.Mutual(8),
    "mutual brute": graphs.Mutual(8, search="brute"),
    "ball": graphs.Ball("auto"),
    "ball brute": graphs.Ball("auto", search="brute"),
    "threshold": graphs.Threshold(1e-2),
    "continuous k-nn": graphs.Ball("auto", local=7),
    "continuous k-nn brute": graphs.Ball("auto", local=7, search="brute"),
}

rules = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())

tied_clouds = st.builds(
    cloud,
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["plain", "duplicates", "grid", "collinear", "outlier", "tenths", "few"]),
    rows=st.integers(20, 70),
    features=st.integers(1, 3),
)


def drawn(rule, X, measure=None):
    measure = np.ones(len(X)) if measure is None else measure
    found = replace(rule.statistics(Metric(), X, measure, RUNNER), counts=count_neighbors(X, measure))
    return rule.draw(found, KERNEL, RUNNER)


def predicate(rule, graph, X, Z):
    """Which edges the rule's formula asks for, by brute force on all distances."""
    squared = cdist(Z, X, "sqeuclidean")
    ranked = np.sort(np.sqrt(squared), axis=1)
    if isinstance(rule, graphs.Union | graphs.Mutual):
        own = (ranked[:, rule.k - 1] + ranked[:, rule.k]) / 2
        among = np.sort(cdist(X, X), axis=1)
        theirs = (among[:, rule.k - 1] + among[:, rule.k]) / 2
        choose = np.maximum if isinstance(rule, graphs.Union) else np.minimum
        bound = choose(own[:, None], theirs)
    elif rule.local:
        sigma = np.maximum(ranked[:, rule.local - 1], graph.floor)
        bound = graph.radius * np.sqrt(sigma[:, None] * graph.sigma)
    else:
        bound = np.full(squared.shape, graph.radius)
    return np.sqrt(squared), bound


@rules
@settings(max_examples=max(60, settings().max_examples))
@given(X=tied_clouds, seed=st.integers(0, 1000))
def test_no_edge_flips(rule, X, seed):
    graph = drawn(rule, X)
    whole = graph.gram(RUNNER)
    assert abs(whole - whole.T).max() == 0
    assert (whole.indptr == whole.T.tocsr().indptr).all()
    rng = np.random.default_rng(seed)
    part = rng.permutation(len(X))[: rng.integers(1, len(X))]
    Z = np.vstack([X[part], new_points(X, seed)])
    order = rng.permutation(len(Z))
    mixed = graph.without_caches().cross(Z[order])[np.argsort(order)]
    mixed.sort_indices()
    for row, i in enumerate(part):  # training rows among new ones: the same edges, the same bits
        mine, theirs = mixed[[row]], whole[[i]]
        assert np.array_equal(mine.indices, theirs.indices)
        assert np.array_equal(mine.data, theirs.data)
    for row in range(len(part), len(Z)):  # a batch against a single row
        alone = graph.cross(Z[row : row + 1])
        alone.sort_indices()
        assert np.array_equal(alone.indices, mixed[[row]].indices)
        assert np.array_equal(alone.data, mixed[[row]].data)


@rules
@given(seed=st.integers(0, 10**6), rows=st.integers(20, 60))
def test_edges_are_those_of_the_formula(rule, seed, rows):
    X = cloud(seed, rows=rows)
    Z = np.vstack([X[:5], cloud(seed + 1, rows=5)])
    graph = drawn(rule, X)
    lengths, bound = predicate(rule, graph, X, Z)
    got = graph.cross(Z)
    kept = np.zeros(got.shape, bool)
    kept[np.repeat(np.arange(len(Z)), np.diff(got.indptr)), got.indices] = True
    clear = np.abs(lengths - bound) > 1e-9 * bound
    assert np.array_equal(kept[clear], (lengths <= bound)[clear])


@pytest.mark.parametrize("name", ["union", "mutual", "ball", "threshold", "continuous k-nn", "union local"])
@given(seed=st.integers(0, 10**6))
def test_weights_count_as_repeated_rows(name, seed):
    X, weights = cloud(seed, rows=40), np.random.default_rng(seed).integers(1, 4, 40)
    weighted, repeated = drawn(RULES[name], X, weights.astype(float)), drawn(RULES[name], np.repeat(X, weights, axis=0))
    once, often = weighted.cross(X), repeated.cross(X)
    first = np.append(0, np.cumsum(weights)[:-1])
    often = often[:, first]
    np.testing.assert_allclose(once.toarray(), often.toarray(), atol=1e-12)
    assert once.nnz == often.nnz


def test_tree_and_brute_force_agree_to_the_bit():
    X, Z = cloud(0, rows=500), cloud(1, rows=100)
    for kind in (graphs.Union, graphs.Mutual):
        tree, brute = (drawn(kind(12, search=s), X) for s in ("tree", "brute"))
        for verb in (lambda g: g.gram(RUNNER), lambda g: g.cross(Z)):
            a, b = verb(tree), verb(brute)
            assert np.array_equal(a.indices, b.indices)
            assert np.array_equal(a.data, b.data)


@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_threshold_at_rounding_equals_the_dense_kernel():
    X, Z = np.random.default_rng(0).normal(size=(400, 2)), np.random.default_rng(1).normal(size=(50, 2))
    dense = DiffusionMaps(6, epsilon=0.1, n_neighbors=None).fit(X)
    sparse = DiffusionMaps(6, epsilon=0.1, threshold=1e-12).fit(X)
    assert sparse.report_.degree < 350
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, atol=1e-9)
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-9)
    near = ~dense.trust(Z).flag
    np.testing.assert_allclose(quietly(sparse.transform, Z)[near], quietly(dense.transform, Z)[near], atol=1e-9)


def test_a_ball_around_everything_equals_the_dense_kernel():
    X = cloud(2, rows=40)
    dense = DiffusionMaps(4, epsilon=0.5).fit(X)
    sparse = DiffusionMaps(4, epsilon=0.5, n_neighbors=graphs.Ball(1e3)).fit(X)
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-10)
    local = DiffusionMaps(4, kernel="self_tuning", n_neighbors=None).fit(X)
    sparse_local = DiffusionMaps(4, kernel="self_tuning", threshold=1e-13).fit(X)
    np.testing.assert_allclose(sparse_local.eigenvalues_, local.eigenvalues_, atol=1e-10)


def test_self_tuning_is_its_formula():
    X = cloud(3, rows=50)
    squared = cdist(X, X, "sqeuclidean")
    sigma = np.sqrt(np.sort(squared, axis=1)[:, 6])
    W = np.exp(-squared / np.outer(sigma, sigma))
    given = DiffusionMaps(3, kernel="precomputed").fit(W)
    tuned = DiffusionMaps(3, kernel="self_tuning", n_neighbors=None).fit(X)
    np.testing.assert_allclose(tuned.eigenvalues_, given.eigenvalues_, atol=1e-12)
    kept = drawn(graphs.Union(15), X).gram(RUNNER).toarray()
    np.fill_diagonal(kept, 1)
    near = DiffusionMaps(3, kernel="precomputed").fit(W * (kept > 0))
    tuned = DiffusionMaps(3, kernel="self_tuning").fit(X)  # of the 15 nearest
    np.testing.assert_allclose(tuned.eigenvalues_, near.eigenvalues_, atol=1e-12)


def test_binary_graph_weighs_every_edge_alike_and_still_flags_far_rows():
    X = cloud(4, rows=80)
    maps = LaplacianEigenmaps(3, n_neighbors=6, epsilon=np.inf).fit(X)
    W = drawn(graphs.Union(6), X).gram(RUNNER)
    W.data[:] = 1.0
    given = LaplacianEigenmaps(3, kernel="precomputed").fit(W.toarray())
    np.testing.assert_allclose(maps.eigenvalues_, given.eigenvalues_, atol=1e-12)
    assert maps.trust([[50.0, 0.0, 0.0]]).flag[0]
    assert not maps.trust(X).flag.any()


@pytest.mark.parametrize("rule", [graphs.Mutual(5), graphs.Ball("auto"), graphs.Threshold(0.1)], ids=str)
def test_an_empty_row_is_its_nearest_anchor(rule):
    X = cloud(5, rows=80)
    maps = quietly(DiffusionMaps(2, n_neighbors=rule).fit, X)
    far = np.array([[30.0, 0.0, 0.0]])
    assert maps.model_.rule.geometry.cross(far).nnz == 0
    trust = maps.trust(far)
    assert trust.flag[0]
    assert trust.support[0] == -np.inf
    nearest = X[((X - far) ** 2).sum(axis=1).argmin()]
    weights = maps.model_.rule.rows(far).weights
    assert weights.nnz == 1
    np.testing.assert_array_equal(maps.model_.rule.geometry.anchors[weights.indices[0]], nearest)


def test_rounding_never_drops_the_last_neighbour():
    """Midway between two distances one unit in the last place apart must not fall below the nearer."""
    near = np.random.default_rng(0).uniform(1, 2, 1000)
    squared = np.column_stack([np.zeros(1000), near, np.nextafter(near, 3)]).ravel()
    lists = neighbors.Lists(np.arange(0, 3001, 3), np.tile(np.arange(3), 1000), squared)
    assert (pair_statistics.midway_radii(lists, np.ones(3), 2) >= near).all()


@pytest.mark.parametrize("seed", range(4))
def test_with_light_weights_the_union_counts_fractions_for_a_row_alone_and_in_a_batch(seed):
    """Anchors of weight below 1: more than k of them count as k, and those that reach a row do not count."""
    rng = np.random.default_rng(seed)
    X, Z, weights = rng.normal(size=(60, 2)), rng.normal(size=(25, 2)), rng.uniform(0.05, 2.5, 60)
    maps = quietly(DiffusionMaps(2, n_neighbors=graphs.Union(6)).fit, X, sample_weight=weights)
    graph = maps.model_.rule.geometry

    def radius(z, mass):
        """The root of the mean squared distance of the neighbours from mass - 1 to mass, in small steps."""
        squared = np.square(graph.anchors - z).sum(axis=1)
        order = np.argsort(squared)
        ranks = mass - 1 + (np.arange(20_000) + 0.5) / 20_000
        return np.sqrt(squared[order[np.searchsorted(np.cumsum(np.minimum(graph.measure, 1)[order]), ranks)]].mean())

    def midway(z):
        return (radius(z, 6) + radius(z, 7)) / 2

    radii = np.array([midway(x) for x in graph.anchors])
    together = graph.cross(Z)
    for i, z in enumerate(Z):
        away = np.sqrt(np.square(graph.anchors - z).sum(axis=1))
        bound = np.maximum(radii, midway(z))
        clear = np.abs(away - bound) > 1e-3 * bound
        for found in (together[[i]], graph.cross(z[None])):
            kept = np.isin(np.arange(60), found.indices)
            assert np.array_equal(kept[clear], (away <= bound)[clear])
        assert np.array_equal(np.sort(together[[i]].indices), np.sort(graph.cross(z[None]).indices))
