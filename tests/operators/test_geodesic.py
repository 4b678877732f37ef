"""Geodesics: against shortest paths of SciPy, along bridges, and in little memory."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph

from catalogue import cloud, new_points, quietly, triangulated, up_to_signs
from outfold import Isomap, graphs, landmarks
from outfold.data.sources import InMemory
from outfold.datasets import swiss_roll
from outfold.landmarks import Anchors
from outfold.operators.geodesic import NO_ROW


def paths(data, k):
    """Geodesics along the graph of k neighbours, by SciPy."""
    graph = kneighbors_graph(data, k, mode="distance")
    return dijkstra(graph.maximum(graph.T), directed=False)


@pytest.mark.parametrize("landmarks", [None, 60, "given"])
def test_landmark_isomap_is_nystrom_on_geodesics_through_the_full_graph(landmarks):
    roll, _ = swiss_roll(300, random_state=0)
    new, _ = swiss_roll(40, random_state=1)
    nodes = roll
    if landmarks == "given":  # points of the caller's join the graph
        landmarks = swiss_roll(60, random_state=2)[0]
        nodes = np.vstack([roll, landmarks])
    model = Isomap(2, n_neighbors=10, landmarks=landmarks, random_state=0).fit(roll)
    D = paths(nodes, 10)
    at = np.array([int(cdist([mark], nodes).argmin()) for mark in model.landmarks_])
    hop = cdist(new, nodes)
    near = np.argsort(hop, axis=1)[:, :10]
    rows = np.min(np.take_along_axis(hop, near, 1)[:, :, None] + D[near][:, :, at], axis=1)
    expected = triangulated(D[np.ix_(at, at)] ** 2, rows**2, 2)
    assert up_to_signs(model.transform(new), expected) < 1e-10
    assert model.model_.rule.geometry.table.shape == (len(nodes), len(at))


def test_landmark_isomap_of_given_distances():
    roll, _ = swiss_roll(300, random_state=0)
    new, _ = swiss_roll(40, random_state=1)
    by_points = Isomap(2, landmarks=60, random_state=0).fit(roll)
    given = Isomap(2, landmarks=60, random_state=0, metric="precomputed").fit(cdist(roll, roll))
    assert np.array_equal(given.landmark_indices_, by_points.landmark_indices_)
    assert up_to_signs(given.transform(cdist(new, roll)), by_points.transform(new)) < 1e-9
    far = cdist(new[:1] + 1e4, roll)
    nearest = given.landmark_indices_[far[0, given.landmark_indices_].argmin()]
    np.testing.assert_allclose(given.transform(far, on_far="nearest")[0], given.embedding_[nearest], atol=1e-10)


@pytest.mark.parametrize("n", [300, 1500])
def test_geodesics_of_a_circle_have_a_third_as_much_negative_as_positive_mass(n):
    angle = np.arange(n) * 2 * np.pi / n
    around = Isomap(2, n_neighbors=4).fit(np.column_stack([np.cos(angle), np.sin(angle)]))
    share = around.report_.negative_mass
    assert share / (1 - share) == pytest.approx(1 / 3, rel=1e-3 if n <= 1000 else 0.2)  # beyond 1000 an estimate


def test_bridges_are_the_shortest_and_as_long_as_they_are():
    pieces = np.vstack([cloud(1, rows=40), cloud(2, rows=40) + 30])
    model = Isomap(n_neighbors=6, components="join").fit(pieces)
    D = paths(pieces, 6)
    apart = cdist(pieces[:40], pieces[40:])
    i, j = np.unravel_index(apart.argmin(), apart.shape)
    expected = D[:40, [i]] + apart[i, j] + D[40 + j, 40:]
    order = np.argsort(model.model_.rule.geometry.search.distances.anchors[:, 0])
    table = model.model_.rule.geometry.table[np.ix_(order, order)]
    where = np.argsort(np.argsort(pieces[:, 0]))
    np.testing.assert_allclose(table[np.ix_(where[:40], where[40:])], expected, rtol=1e-12)
    assert minimum_spanning_tree(table).nnz == 79


def test_a_new_row_of_isomap_takes_little_memory():
    import tracemalloc

    points = cloud(5, rows=1500)
    model = quietly(Isomap(n_neighbors=12, n_jobs=1).fit, points)
    new = new_points(points, 1, 3000)
    quietly(model.transform, new)
    tracemalloc.start()
    quietly(model.transform, new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 3000 * 1500  # bytes of new x n; scikit-learn's n_neighbors times that


def test_isomap_reaches_its_own_neighbours_where_distances_differ_by_rounding():
    X = cloud(2151, "duplicates", 27, 4)  # k-means centres of copies are off the copies by rounding
    model = quietly(Isomap(n_neighbors=6, landmarks=landmarks.KMeans(0.5), random_state=0).fit, X)
    assert model.report_.extension_gap < 1e-9


def test_landmarks_of_the_callers_are_nodes_that_are_no_rows():
    X, marks = cloud(0, rows=30), new_points(cloud(0, rows=30), 1, 5)
    view = Isomap(2, n_neighbors=6)._recipe().view
    nodes, at, weights = view._nodes(InMemory(X), Anchors(marks, None, np.arange(1.0, 6.0)), np.ones(30))
    assert sorted(nodes.index) == [NO_ROW] * 5 + list(range(30))
    assert NO_ROW == -1  # no index, and told from one by its sign
    assert np.array_equal(nodes.index[at], np.full(5, NO_ROW))
    assert np.array_equal(nodes.points[at], marks[weights.astype(int) - 1])
    rows = nodes.index != NO_ROW
    assert np.array_equal(nodes.points[rows], X[nodes.index[rows]])


@pytest.mark.parametrize("case", ["all rows", "some rows", "copies of rows", "given twice", "weights"])
def test_a_landmark_that_equals_a_training_row_is_that_row(case):
    """The oracle: classical scaling of SciPy's geodesics, in the measure of the landmarks."""
    roll, _ = swiss_roll(300, random_state=0)
    own = np.arange(7, 300, 3)
    data, marks, sample_weight = roll, roll[own], None
    if case == "some rows":
        marks = np.vstack([marks, swiss_roll(9, random_state=2)[0]])
    elif case == "copies of rows":
        data = np.vstack([roll, roll[own], roll[own[:5]]])
    elif case == "given twice":
        marks = np.vstack([marks, marks[:20]])
    elif case == "weights":
        sample_weight = np.random.default_rng(0).integers(1, 4, 300)
    model = Isomap(2, n_neighbors=10, landmarks=marks, random_state=0).fit(data, sample_weight=sample_weight)
    nodes = np.vstack([roll, marks[~(marks[:, None] == roll).all(axis=2).any(axis=1)]])
    D = paths(nodes, 10)
    at = np.array([int((nodes == mark).all(axis=1).argmax()) for mark in marks])  # twice if the landmark is
    expected = triangulated(D[np.ix_(at, at)] ** 2, D[:300, at] ** 2, 2)
    J = np.eye(len(at)) - 1 / len(at)
    values = np.linalg.eigvalsh(-0.5 * J @ D[np.ix_(at, at)] ** 2 @ J)[::-1][:2]
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-10)
    assert up_to_signs(model.transform(roll), expected) < 1e-10
    assert len(model.landmarks_) == len(np.unique(marks, axis=0))
    if case == "some rows":
        assert model.landmark_indices_ is None
    else:
        assert np.array_equal(data[model.landmark_indices_], model.landmarks_)


def test_landmarks_of_the_callers_at_every_row_are_no_landmarks():
    X = cloud(4, "duplicates", 50)
    given, every = (Isomap(2, n_neighbors=6, landmarks=marks).fit(X) for marks in (X, None))
    np.testing.assert_allclose(given.eigenvalues_, every.eigenvalues_, rtol=1e-10)
    assert up_to_signs(given.embedding_, every.embedding_) < 1e-10


# -- mutual neighbours ---------------------------------------------------------------------


def mutual_radii(table, k):
    """Halfway between the distances to the k-th and the next nearest, from sorted tables (rows by anchors)."""
    near = np.sort(table, axis=1)
    return (near[:, k - 1] + near[:, k]) / 2


@pytest.mark.parametrize("marks", [None, 50])
def test_isomap_of_a_mutual_graph_is_classical_scaling_of_its_paths_at_training_and_new_rows(marks):
    """The oracle: a dense mask of the edges, SciPy's shortest paths, and triangulation of new rows."""
    roll, _ = swiss_roll(400, random_state=0)
    new = np.vstack([swiss_roll(40, random_state=1)[0], [[40.0, 10.0, 0.0]]])  # the last is in nobody's radius
    k, D = 12, cdist(roll, roll)
    radii = mutual_radii(D, k)
    edges = np.where(np.minimum.outer(radii, radii) >= D, D, 0)
    paths_between = dijkstra(csr_array(edges), directed=False)
    assert np.isfinite(paths_between).all()
    model = Isomap(2, n_neighbors=graphs.Mutual(k), landmarks=marks, random_state=0).fit(roll)
    at = model.landmark_indices_
    hop = cdist(new, roll)
    linked = np.minimum.outer(mutual_radii(hop, k), radii) >= hop
    linked[~linked.any(axis=1), hop[~linked.any(axis=1)].argmin(axis=1)] = True
    assert linked[-1].sum() == 1
    rows = np.where(linked, hop, np.inf)[:, :, None] + paths_between[None][:, :, at]
    squared = paths_between[np.ix_(at, at)] ** 2
    expected = triangulated(squared, rows.min(axis=1) ** 2, 2)
    assert up_to_signs(quietly(model.transform, new), expected) < 1e-10 * np.abs(expected).max()
    training = triangulated(squared, paths_between[:, at] ** 2, 2)
    assert up_to_signs(model.embedding_, training) < 1e-10 * np.abs(training).max()
    np.testing.assert_allclose(model.transform(roll), model.embedding_, atol=1e-10)
    assert "mutual 12 nearest" in model.report_.edges


@pytest.mark.parametrize("components", ["warn", "join", "largest", "error"])
def test_a_mutual_graph_in_pieces_is_joined_cut_or_refused(components):
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 30, [[100.0, 0, 0]]])  # an outlier is nobody's neighbour
    model = Isomap(2, n_neighbors=graphs.Mutual(9), components=components)
    if components == "error":
        with pytest.raises(ValueError, match=r"components \(sizes .*\).*Raise k, or use Union \(now Mutual\(9\)\)"):
            model.fit(pieces)
        return
    quietly(model.fit, pieces)
    inside = slice(0, 60) if components == "largest" else slice(None)
    np.testing.assert_allclose(
        quietly(model.transform, pieces)[inside], model.embedding_[inside], atol=1e-10 * np.abs(pieces).max()
    )


def test_a_mutual_graph_counts_copies_once_and_takes_weights():
    X, copies = cloud(6, rows=60), np.random.default_rng(0).integers(1, 5, 60)
    weighted = quietly(Isomap(2, n_neighbors=graphs.Mutual(12)).fit, X, sample_weight=copies)
    repeated = quietly(Isomap(2, n_neighbors=graphs.Mutual(12)).fit, np.repeat(X, copies, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
    assert up_to_signs(quietly(weighted.transform, X), quietly(repeated.transform, X)) < 1e-9


def test_a_mutual_graph_of_given_distances_is_that_of_the_points():
    X, Z = cloud(6, rows=80), new_points(cloud(6, rows=80), 3, 9)
    by_points = quietly(Isomap(2, n_neighbors=graphs.Mutual(12)).fit, X)
    given = quietly(Isomap(2, n_neighbors=graphs.Mutual(12), metric="precomputed").fit, cdist(X, X))
    assert up_to_signs(quietly(given.transform, cdist(Z, X)), quietly(by_points.transform, Z)) < 1e-9


def test_sparse_rows_have_the_mutual_graph_and_the_landmarks_of_dense_ones():
    X, Z = np.maximum(cloud(6, rows=80, features=6), 0), np.maximum(new_points(cloud(6, rows=80, features=6), 3, 9), 0)
    for settings in ({}, {"landmarks": X[::2]}, {"landmarks": landmarks.MinDistance(distance=0.8), "random_state": 0}):
        dense = quietly(Isomap(2, n_neighbors=graphs.Mutual(14), **settings).fit, X)
        sparse = quietly(Isomap(2, n_neighbors=graphs.Mutual(14), **settings).fit, csr_array(X))
        np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=1e-8)
        assert up_to_signs(quietly(sparse.transform, csr_array(Z)), quietly(dense.transform, Z)) < 1e-7
        if "landmarks" in settings:
            assert set(sparse.landmark_indices_) == set(dense.landmark_indices_)
