"""Kernel PCA, classical MDS, Isomap and LLE: against scikit-learn, against each other, against the formulas."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn import decomposition, manifold
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import kneighbors_graph

from catalogue import cloud, new_points, quietly, up_to_signs
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LocallyLinearEmbedding,
    centring,
    graphs,
    reconstruction,
    solvers,
)
from outfold.datasets import swiss_roll
from outfold.exceptions import ConvergenceError, OutfoldWarning, SpectrumWarning
from outfold.extensions import KernelRidge
from outfold.runners import Threads

X = cloud(0, rows=120)
Z = new_points(X, 0, 30)


# -- scikit-learn --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("rbf", {"gamma": 0.3}),
        ("rbf", {}),
        ("poly", {}),
        ("poly", {"degree": 2, "coef0": 0.5, "gamma": 0.7}),
        ("cosine", {}),
        ("linear", {}),
        ("sigmoid", {"gamma": 0.05}),
        ("laplacian", {}),
        ("chi2", {}),
        ("additive_chi2", {}),
        ("polynomial", {"degree": 2}),
    ],
)
def test_kernel_pca_is_scikit_learns(kernel, parameters):
    A, B = (np.abs(X), np.abs(Z)) if "chi2" in kernel else (X, Z)
    ours = KernelPCA(3, kernel=kernel, **parameters).fit(A)
    named = kernel in ("rbf", "poly", "cosine", "linear", "sigmoid")  # scikit-learn's own takes no others by name
    call = partial(pairwise_kernels, metric=kernel, **parameters)
    theirs = decomposition.KernelPCA(3, kernel=kernel if named else "precomputed", **(parameters if named else {}))
    theirs.fit(A if named else call(A))
    B, seen = (B, B) if named else (B, call(B, A))
    assert up_to_signs(ours.transform(A), theirs.transform(A if named else call(A))) < 1e-8
    assert up_to_signs(quietly(ours.transform, B), theirs.transform(seen)) < 1e-8
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


def test_kernel_pca_of_a_callable_and_of_given_values():
    def kernel(x, y):
        return float((x @ y + 1) ** 2 - 3)  # takes negative values

    theirs = decomposition.KernelPCA(3, kernel=kernel).fit(X)
    by_call = KernelPCA(3, kernel=kernel).fit(X)
    table = np.array([[kernel(a, b) for b in X] for a in X])
    rows = np.array([[kernel(a, b) for b in X] for a in Z])
    given = KernelPCA(3, kernel="precomputed").fit(table)
    for model, new in ((by_call, Z), (given, rows)):
        assert up_to_signs(quietly(model.transform, new), theirs.transform(Z)) < 1e-8
    half = KernelPCA(3, kernel="precomputed", landmarks=60, random_state=0).fit(table)
    some = KernelPCA(3, kernel=kernel, landmarks=X[half.landmark_indices_]).fit(X)
    at = half.landmark_indices_
    for answer in (half.transform(rows), half.transform(rows[:, at])):  # to all training rows, or to the landmarks
        assert up_to_signs(answer, quietly(some.transform, Z)) < 1e-8
    assert half.trust(rows[:, at]).flag.sum() == 0
    assert half.trust(1e6 * rows[:, at]).flag.all()
    assert half.trust(0 * rows[:, at]).flag.all()
    beyond = 1e6 * rows[:3, at]
    nearest = half.embedding_[at[beyond.argmax(axis=1)]]
    np.testing.assert_allclose(half.transform(beyond, on_far="nearest"), nearest, atol=1e-8)


@pytest.mark.parametrize("rule", ["neighbours", "radius"])
def test_isomap_is_scikit_learns(rule):
    roll, _ = swiss_roll(400, random_state=0)
    new, _ = swiss_roll(50, random_state=1)
    if rule == "neighbours":
        ours = Isomap(3, n_neighbors=10).fit(roll)
        theirs = manifold.Isomap(n_neighbors=10, n_components=3, eigen_solver="dense").fit(roll)
    else:
        ours = Isomap(3, n_neighbors=graphs.Ball(4.5)).fit(roll)
        theirs = manifold.Isomap(n_neighbors=None, radius=4.5, n_components=3, eigen_solver="dense").fit(roll)
    assert up_to_signs(ours.embedding_, theirs.embedding_) < 1e-8
    assert up_to_signs(ours.transform(roll), theirs.transform(roll)) < 1e-8
    assert up_to_signs(ours.transform(new), theirs.transform(new)) < 1e-8


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "precomputed"])
def test_isomap_by_other_metrics_is_scikit_learns(metric):
    A, B = X + 3, Z + 3
    table, rows = (cdist(A, A), cdist(B, A)) if metric == "precomputed" else (A, B)
    ours = Isomap(2, n_neighbors=12, metric=metric).fit(table)
    theirs = manifold.Isomap(n_neighbors=12, n_components=2, metric=metric, eigen_solver="dense").fit(table)
    assert up_to_signs(ours.embedding_, theirs.embedding_) < 1e-8
    assert up_to_signs(quietly(ours.transform, rows), theirs.transform(rows)) < 1e-8


def test_lle_and_classical_mds_have_scikit_learns_embedding():
    roll, _ = swiss_roll(400, random_state=0)
    ours = LocallyLinearEmbedding(2, n_neighbors=12).fit(roll)
    theirs = manifold.LocallyLinearEmbedding(n_neighbors=12, n_components=2, eigen_solver="dense").fit(roll)
    assert up_to_signs(ours.embedding_, theirs.embedding_) < 1e-8
    if not hasattr(manifold, "ClassicalMDS"):
        pytest.skip("this scikit-learn has no ClassicalMDS")
    for metric in ("euclidean", "manhattan"):
        ours = ClassicalMDS(3, metric=metric).fit(X)
        assert up_to_signs(ours.embedding_, manifold.ClassicalMDS(3, metric=metric).fit_transform(X)) < 1e-8


# -- each other, and the formulas ----------------------------------------------------------


def test_pca_is_linear_kernel_pca_is_classical_mds():
    pca = decomposition.PCA(3).fit(X)
    for far in (0.0, 1e5):  # an offset of the data changes nothing but rounding
        kernel, scaling = KernelPCA(3).fit(X + far), ClassicalMDS(3).fit(X + far)
        limit = 1e-10 + 1e-14 * far
        for A in (X, Z):
            expected = pca.transform(A)
            assert up_to_signs(quietly(kernel.transform, A + far), expected) < limit
            assert up_to_signs(quietly(scaling.transform, A + far), expected) < limit


def triangulated(squared, rows, count):
    """Landmark MDS: -L# (row - mean row) / 2 (de Silva and Tenenbaum, 2004)."""
    n = len(squared)
    H = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * H @ squared @ H)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    return -0.5 * (rows - squared.mean(axis=0)) @ (vectors / np.sqrt(values))


def test_landmark_mds_is_triangulation_and_nystrom_on_the_landmark_kernel():
    scaling = ClassicalMDS(2, landmarks=40, random_state=0).fit(X)
    marks = scaling.landmarks_
    expected = triangulated(cdist(marks, marks) ** 2, cdist(Z, marks) ** 2, 2)
    assert up_to_signs(quietly(scaling.transform, Z), expected) < 1e-10
    assert up_to_signs(scaling.embedding_, quietly(ClassicalMDS(2).fit(marks).transform, X)) < 1e-10


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


def test_landmark_isomap_unrolls_the_roll():
    roll, position = swiss_roll(2000, random_state=0)
    model = Isomap(2, landmarks=200, random_state=0).fit(roll)
    assert abs(np.corrcoef(model.embedding_[:, 0], position[:, 0])[0, 1]) > 0.99


def test_the_rows_of_lle_reproduce_training_points_and_weights_sum_to_one():
    roll, _ = swiss_roll(300, random_state=0)
    rule = LocallyLinearEmbedding(2, n_neighbors=12).fit(roll).model_.rule
    own = rule.rows(rule.search.distances.anchors).weights
    assert abs(own - np.eye(300)).max() < 1e-10
    new = rule.rows(swiss_roll(50, random_state=1)[0]).weights
    np.testing.assert_allclose(new.sum(axis=1), 1, atol=1e-12)
    nearly = rule.rows(roll[:50] + 1e-9).weights  # continuous: next to a training point nearly all weight is on it
    assert nearly.toarray().max(axis=1).min() > 1 - 1e-6


def test_lle_places_new_points_no_worse_than_scikit_learn():
    roll, new = (swiss_roll(n, random_state=seed)[0] for n, seed in ((1500, 0), (500, 1)))
    ours = LocallyLinearEmbedding(2, n_neighbors=12).fit(roll)
    theirs = manifold.LocallyLinearEmbedding(n_neighbors=12, n_components=2, eigen_solver="dense").fit(roll)
    everything = LocallyLinearEmbedding(2, n_neighbors=12).fit(np.vstack([roll, new])).embedding_

    def error(embedding):  # against the joint fit, aligned over the training points
        turn = np.linalg.lstsq(ours.embedding_, everything[:1500], rcond=None)[0]
        return np.sqrt(((embedding @ turn - everything[1500:]) ** 2).mean())

    signs = np.sign((ours.embedding_ * theirs.embedding_).sum(axis=0))
    assert error(ours.transform(new)) < 1.05 * error(theirs.transform(new) * signs)


# -- negative eigenvalues ------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 1500])
def test_geodesics_of_a_circle_have_a_third_as_much_negative_as_positive_mass(n):
    angle = np.arange(n) * 2 * np.pi / n
    around = Isomap(2, n_neighbors=4).fit(np.column_stack([np.cos(angle), np.sin(angle)]))
    share = around.report_.negative_mass
    assert share / (1 - share) == pytest.approx(1 / 3, rel=1e-3 if n <= 1000 else 0.2)  # beyond 1000 an estimate


def test_signed_coordinates_are_the_largest_in_magnitude_and_reproduce_the_kernel():
    D = cdist(X[:40], X[:40], "cityblock") ** 4
    H = np.eye(40) - 1 / 40
    K = -0.5 * H @ D**2 @ H
    values = np.linalg.eigvalsh(K)
    expected = values[np.argsort(-np.abs(values))]
    assert expected[:12].min() < 0 < expected[:12].max()
    signed = quietly(ClassicalMDS(12, metric="precomputed", signed=True).fit, D)
    np.testing.assert_allclose(signed.eigenvalues_, expected[:12], rtol=1e-8)
    plain = quietly(ClassicalMDS(5, metric="precomputed").fit, D)
    np.testing.assert_allclose(plain.eigenvalues_, np.sort(values)[::-1][:5], rtol=1e-8)
    everything = quietly(ClassicalMDS(39, metric="precomputed", signed=True).fit, D)
    rebuilt = (everything.embedding_ * np.sign(everything.eigenvalues_)) @ everything.embedding_.T
    np.testing.assert_allclose(rebuilt, K, atol=1e-8 * np.abs(K).max())
    np.testing.assert_allclose(signed.transform(D), signed.embedding_, atol=1e-9 * np.abs(D).max())
    assert plain.report_.negative_mass == pytest.approx(-values[values < 0].sum() / np.abs(values).sum(), rel=1e-8)
    assert plain.report_.negative_mass > 0.4
    assert "negative" in str(plain.report_)
    with pytest.warns(SpectrumWarning, match="signed=True"):
        ClassicalMDS(5, metric="precomputed").fit(D)


def test_signed_by_lanczos_is_signed_by_lapack():
    points = cloud(3, rows=1200)
    D = cdist(points, points, "cityblock") ** 1.5
    one, two = (
        quietly(ClassicalMDS(8, metric="precomputed", signed=True, solver=s).fit, D) for s in ("lanczos", "dense")
    )
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, rtol=1e-9)
    assert (one.eigenvalues_ < 0).any()


# -- graphs that fall apart ----------------------------------------------------------------


def test_isomap_in_pieces():
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 30, cloud(3, rows=15) - 30])
    with pytest.warns(OutfoldWarning, match=r"3 components \(sizes 60, 30, 15\).*joined.*now 6"):
        warned = Isomap(n_neighbors=6).fit(pieces)
    joined = Isomap(n_neighbors=6, components="join").fit(pieces)
    assert np.array_equal(warned.embedding_, joined.embedding_)
    with pytest.raises(ValueError, match=r"3 components \(sizes 60, 30, 15\).*infinite.*now 6.*components='join'"):
        Isomap(n_neighbors=6, components="error").fit(pieces)
    largest = Isomap(n_neighbors=6, components="largest").fit(pieces)
    alone = Isomap(n_neighbors=6).fit(pieces[:60])
    np.testing.assert_allclose(largest.embedding_[:60], alone.embedding_, atol=1e-10)
    np.testing.assert_allclose(quietly(largest.transform, pieces), largest.embedding_, atol=1e-9)
    assert largest.trust(pieces).flag.tolist() == [False] * 60 + [True] * 45
    with pytest.raises(ValueError, match="too few to embed"):
        Isomap(n_neighbors=6, components="largest", landmarks=pieces[60:80]).fit(pieces)
    D = cdist(pieces, pieces)
    given = Isomap(n_neighbors=6, components="join", metric="precomputed").fit(D)
    assert up_to_signs(given.embedding_, joined.embedding_) < 1e-8


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


def test_lle_in_pieces():
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 30])
    with pytest.warns(SpectrumWarning, match=r"2 components \(sizes 60, 30\), so the first 1 coordinates"):
        model = LocallyLinearEmbedding(n_neighbors=6).fit(pieces)
    assert np.ptp(model.embedding_[:60, 0]) < 1e-12  # the first coordinate tells them apart
    assert model.report_.multiplicity == 2
    with pytest.raises(ValueError, match="2 components"):
        LocallyLinearEmbedding(n_neighbors=6, components="error").fit(pieces)
    largest = LocallyLinearEmbedding(n_neighbors=6, components="largest").fit(pieces)
    alone = LocallyLinearEmbedding(n_neighbors=6).fit(pieces[:60])
    np.testing.assert_allclose(largest.embedding_[:60], alone.embedding_, atol=1e-8)


# -- solvers and sizes ---------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "shift_invert", "dense"])
def test_lle_by_every_solver(solver):
    roll, _ = swiss_roll(1500, random_state=0)
    expected = LocallyLinearEmbedding(2, n_neighbors=12, solver="dense").fit(roll)
    model = LocallyLinearEmbedding(2, n_neighbors=12, solver=solver).fit(roll)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(model.embedding_, expected.embedding_, atol=1e-5)


def test_lle_says_when_it_will_take_long(monkeypatch):
    monkeypatch.setattr(reconstruction, "SLOW_SECONDS", 0.01)
    with pytest.warns(OutfoldWarning, match="1500 points overlap as in three or more dimensions.*landmarks=5000"):
        LocallyLinearEmbedding(2, n_neighbors=12).fit(np.random.default_rng(0).normal(size=(1500, 8)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LocallyLinearEmbedding(2, n_neighbors=12).fit(swiss_roll(1500, random_state=0)[0])


@pytest.mark.parametrize("method", [KernelPCA(3, kernel="rbf", gamma=1.0), ClassicalMDS(3), Isomap(3)], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "krylov", "lanczos"])
def test_every_solver_is_lapack(method, solver):
    roll = swiss_roll(1100, random_state=0)[0] / 10
    dense = clone(method).set_params(solver="dense").fit(roll)
    model = clone(method).set_params(solver=solver).fit(roll)
    assert model.report_.solver == ("krylov" if solver == "auto" else solver)
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, rtol=1e-11)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-9)


def test_krylov_finds_every_copy_of_an_eigenvalue_and_goes_on_after_a_restart():
    far_apart = 1e3 * np.random.default_rng(0).normal(size=(1100, 3))  # the kernel is the identity
    model = KernelPCA(6, kernel="rbf", gamma=1.0).fit(far_apart)
    assert model.report_.solver == "krylov"
    np.testing.assert_allclose(model.eigenvalues_, 1, atol=1e-10)
    np.testing.assert_allclose(model.eigenvectors_.T @ model.eigenvectors_, np.eye(6), atol=1e-12)
    slow = np.random.default_rng(1).normal(size=(1200, 400))  # eigenvalues close to each other: many steps
    restarted = ClassicalMDS(4, solver=solvers.Krylov(max_columns=30)).fit(slow)
    expected = ClassicalMDS(4, solver="dense").fit(slow)
    np.testing.assert_allclose(restarted.eigenvalues_, expected.eigenvalues_, rtol=1e-11)
    with pytest.raises(ConvergenceError, match="Block Krylov left a residual"):
        solvers.Krylov(max_products=2).start(small_operator(slow)).top(np.empty((1200, 0)), 4)


def small_operator(points):
    return centring.Centring().fit(points @ points.T, np.ones(len(points)), Threads())


@pytest.mark.parametrize(
    "method", [KernelPCA("auto"), ClassicalMDS("auto"), Isomap("auto"), LocallyLinearEmbedding("auto")], ids=repr
)
def test_auto_finds_the_plane(method):
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, (500, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    assert quietly(method.fit, plane).embedding_.shape[1] == 2


def test_components_may_be_named():
    everything = Isomap(4).fit(X)
    some = Isomap([2, 4]).fit(X)
    np.testing.assert_allclose(some.embedding_, everything.embedding_[:, [1, 3]], atol=1e-10)
    np.testing.assert_allclose(KernelPCA([3]).fit_transform(X)[:, 0], KernelPCA(3).fit_transform(X)[:, 2], atol=1e-10)


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


# -- the way back --------------------------------------------------------------------------


def test_the_inverse_of_linear_kernel_pca_is_that_of_pca():
    pca, kernel = decomposition.PCA(2).fit(X), KernelPCA(2, inverse="linear").fit(X)
    back = kernel.inverse_transform(quietly(kernel.transform, Z))
    np.testing.assert_allclose(back, pca.inverse_transform(pca.transform(Z)), atol=1e-6)


def test_kernel_pca_goes_back_to_digits_better_than_pca_and_scikit_learn():
    digits = load_digits().data / 16
    old, new = digits[:1200], digits[1200:]

    def lost(model):
        return ((model.inverse_transform(quietly(model.transform, new)) - new) ** 2).mean()

    ours = lost(KernelPCA(10, kernel="rbf", gamma=0.02).fit(old))
    assert ours < 0.7 * lost(decomposition.PCA(10).fit(old))
    assert ours < 0.6 * lost(decomposition.KernelPCA(10, kernel="rbf", gamma=0.02, fit_inverse_transform=True).fit(old))


def test_weights_count_on_the_way_back():
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = KernelPCA(2, kernel="rbf", gamma=0.2).fit(X, sample_weight=weights)
    repeated = KernelPCA(2, kernel="rbf", gamma=0.2).fit(np.repeat(X, weights, axis=0))
    places = weighted.transform(X[:9])
    np.testing.assert_allclose(weighted.inverse_transform(places), repeated.inverse_transform(places), atol=1e-8)


def test_the_way_back_is_that_of_the_last_fit():
    model = KernelPCA(2, kernel="rbf", gamma=0.2).fit(X)
    model.inverse_transform(model.transform(X[:3]))
    model.fit(X + 100)
    assert model.inverse_transform(model.transform(X[:3] + 100)).min() > 90


def test_no_way_back():
    table = X @ X.T
    with pytest.raises(ValueError, match="no features to go back to"):
        KernelPCA(kernel="precomputed").fit(table).inverse_transform(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="3 columns, but the embedding has 2 components"):
        KernelPCA().fit(X).inverse_transform(np.zeros((2, 3)))


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "data", "message"),
    [
        (KernelPCA(kernel="gaussian"), X, "Valid: .*'rbf'.*'precomputed'"),
        (KernelPCA(kernel="rbf", gamma=-1), X, "gamma=-1 must be > 0"),
        (KernelPCA(kernel="poly", gamma="auto"), X, "gamma='auto' is chosen for kernel='rbf'"),
        (KernelPCA(kernel="rbf", gamma="best"), X, "Valid: 'auto'"),
        (KernelPCA(degree=0), X, "degree=0 must be > 0"),
        (KernelPCA(coef0="one"), X, "coef0='one' must be a number"),
        (KernelPCA(inverse=KernelRidge(ridge=0)), X, "inverse: ridge=0 must be > 0"),
        (KernelPCA(solver="lobpcg"), X, "Valid: 'auto', 'dense', 'lanczos', 'krylov'"),
        (KernelPCA(kernel=lambda x, y: x[0]), X, "not symmetric.*differ by up to"),
        (KernelPCA(kernel=lambda x, y: np.nan), X, "returned NaN"),
        (KernelPCA(kernel="precomputed"), X, r"square matrix.*\(120, 3\)"),
        (KernelPCA(kernel="precomputed"), np.triu(np.ones((5, 5))), "symmetric"),
        (KernelPCA(kernel="poly"), X * 1e120, "overflows"),
        (KernelPCA(4), X, "only 3 non-trivial eigenvalues"),
        (KernelPCA(kernel="precomputed"), -X @ X.T, "only 0 non-trivial eigenvalues"),
        (ClassicalMDS(metric="precomputed"), np.zeros((9, 9)), "only 0 non-trivial eigenvalues"),
        (Isomap("auto", metric="precomputed"), np.zeros((20, 20)), "no non-zero eigenvalue"),
        (KernelPCA(kernel="chi2"), X, "negative"),
        (ClassicalMDS(signed="yes"), X, "signed='yes' must be True or False"),
        (ClassicalMDS(metric="euclid"), X, "Valid: .*'euclidean'"),
        (ClassicalMDS(metric=lambda x, y: abs(x[0] - 2 * y[0])), X, "metric is not symmetric.*differ by up to"),
        (ClassicalMDS(metric=lambda x, y: 1.0), X, "distance of 1 from itself"),
        (ClassicalMDS(metric="precomputed"), X, r"square matrix.*\(120, 3\)"),
        (ClassicalMDS(metric="precomputed", landmarks=cdist(X, X)[:5]), cdist(X, X), "pass a count or a fraction"),
        (ClassicalMDS(4), X, "only 3 non-trivial eigenvalues"),
        (Isomap(n_neighbors=0), X, "n_neighbors=0 must be a whole number >= 1"),
        (Isomap(n_neighbors=120), X, "n_neighbors=120 must be smaller than the number of points, n = 120"),
        (Isomap(n_neighbors=graphs.Mutual(5)), X, "Union.*Ball"),
        (Isomap(n_neighbors=graphs.Ball(-1.0)), X, "radius=-1.0 must be > 0"),
        (Isomap(components="split"), X, "Valid: 'warn', 'error', 'largest', 'join'"),
        (Isomap(metric=lambda x, y: abs(x[0] - 2 * y[0])), X, "metric is not symmetric"),
        (Isomap(metric="precomputed"), X, r"square matrix.*\(120, 3\)"),
        (Isomap(metric="precomputed", landmarks=cdist(X, X)[:5]), cdist(X, X), "pass a count or a fraction"),
        (LocallyLinearEmbedding(n_neighbors=2), X, "n_neighbors=2 must be larger than n_components=2"),
        (LocallyLinearEmbedding(n_neighbors=120), X, "n_neighbors=120 must be smaller.*distinct points, n = 120"),
        (LocallyLinearEmbedding(reg=0), X, "reg=0 must be > 0"),
        (LocallyLinearEmbedding(components="join"), X, "Valid: 'warn', 'error', 'largest'"),
        (LocallyLinearEmbedding(solver="lobpcg"), X, "Valid: 'auto', 'dense', 'shift_invert', 'lanczos'"),
        (LocallyLinearEmbedding(n_neighbors=6), np.repeat(X[:5], 10, axis=0), "distinct points, n = 5"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:40],
)
def test_what_cannot_be_is_refused_with_the_numbers(method, data, message):
    with pytest.raises(ValueError, match=message):
        method.fit(data)


def test_rows_of_a_given_matrix_must_match_it():
    scaling = ClassicalMDS(metric="precomputed").fit(cdist(X, X))
    with pytest.raises(ValueError, match=r"59 features.*expecting 120"):
        scaling.transform(np.ones((2, 59)))
    with pytest.raises(ValueError, match="Negative values"):
        scaling.transform(-np.ones((2, 120)))


def test_tables_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("outfold.runners.free_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match="n = 120 points.*landmarks"):
        ClassicalMDS().fit(X)
    with pytest.raises(MemoryError, match="n = 120 points.*landmarks"):
        KernelPCA().fit(X)
    with pytest.raises(MemoryError, match="Geodesics between 120 points and 120 anchors.*landmarks"):
        Isomap().fit(X)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (ClassicalMDS(3, metric="precomputed"), "distances"),
        (Isomap(3, metric="precomputed"), "distances"),
        (KernelPCA(3, kernel="precomputed"), "kernel"),
        (DiffusionMaps(3, metric="precomputed", epsilon=1.0), "distances"),
    ],
)
def test_the_order_of_a_given_table_decides_no_sign(method, kind):
    """Third moments do, in the unit of each function, whatever the number of rows."""
    X = np.random.default_rng(0).gamma(2.0, size=(300, 3)) * [3.0, 2.0, 1.0]
    table = cdist(X, X) if kind == "distances" else X @ X.T
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        one, other = (clone(method).fit(t).embedding_ for t in (table, table[np.ix_(order, order)]))
        np.testing.assert_allclose(other, one[order], rtol=0, atol=1e-7 * np.abs(one).max())


def test_missing_values_leave_signs_to_the_others():
    X = cloud(0, rows=120).copy()
    X[::9, 0], X[4::9, 2] = np.nan, np.nan  # any two rows have the other column
    order = np.random.default_rng(1).permutation(len(X))
    one, other = (DiffusionMaps(3, metric="nan_euclidean").fit(rows).embedding_ for rows in (X, X[order]))
    np.testing.assert_allclose(other, one[order], rtol=0, atol=1e-9)


def test_pieces_of_rows_with_missing_values_are_bridged():
    X = np.vstack([cloud(0, rows=40), cloud(1, rows=40) + 50.0])
    X[3, 0] = X[50, 1] = np.nan
    model = quietly(DiffusionMaps(2, metric="nan_euclidean", n_neighbors=5, components="join").fit, X)
    assert model.report_.components == 1


def test_an_indefinite_kernel_is_told_in_its_own_words():
    K = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.warns(SpectrumWarning, match="no inner product.*'rbf'"):
        KernelPCA(2, kernel="precomputed").fit(K + K.T)
    D = np.abs(K + K.T)
    np.fill_diagonal(D, 0.0)
    with pytest.warns(SpectrumWarning, match="far from Euclidean, and .* signed=True"):
        ClassicalMDS(2, metric="precomputed").fit(D)
    with pytest.warns(SpectrumWarning, match=r"far from Euclidean\.$"):
        signed = ClassicalMDS(4, metric="precomputed", signed=True).fit(D)
    assert signed.report_.gap >= 0
