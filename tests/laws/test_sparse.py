"""Sparse rows and sparse graphs give what the same numbers give as arrays, in every method, for fit and transform."""

import warnings

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix, eye_array, lil_array, save_npz
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import SpectralClustering as TheirClustering
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.manifold import Isomap as TheirIsomap
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors, kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from catalogue import ALL_METHODS, quietly, size_of, tolerance, up_to_signs
from outfold import (
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
    graphs,
    load,
)
from outfold.datasets import noisy_moons, swiss_roll
from outfold.exceptions import OutfoldWarning, SpectrumWarning

REFUSED = {  # settings that do not take sparse rows, with what the error says
    "isomap chebyshev signed": "'chebyshev' does not take sparse rows",
    "diffusion-maps landmarks, linear": "'linear' combines features",
    "diffusion-maps by a network": "'net' combines features",
    "roseland of a callable kernel": "kernel=a callable does not take sparse rows",
}
SEES_SPARSE = {name: estimator for name, estimator in ALL_METHODS.items() if name not in REFUSED}


def sparse_cloud(seed, rows=60, features=8):
    rng = np.random.default_rng(seed)
    return np.where(rng.uniform(size=(rows, features)) < 0.4, rng.normal(size=(rows, features)) + 1, 0.0)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", SEES_SPARSE)
def test_sparse_features_equal_dense_ones(name, seed):
    X, Z = sparse_cloud(seed), sparse_cloud(seed + 10, rows=9)
    dense, sparse = clone(SEES_SPARSE[name]), clone(SEES_SPARSE[name])
    embedding = quietly(dense.fit_transform, X)
    close = tolerance(dense, embedding)
    np.testing.assert_allclose(quietly(sparse.fit_transform, csr_matrix(X)), embedding, rtol=0, atol=close)
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, rtol=0, atol=close)
    wanted = quietly(dense.transform, Z)
    size = size_of(wanted) / size_of(embedding)
    for rows in (csr_matrix(Z), csr_array(Z), coo_array(Z), csc_matrix(Z), Z):
        np.testing.assert_allclose(quietly(sparse.transform, rows), wanted, rtol=0, atol=close * max(1.0, size))
    np.testing.assert_allclose(quietly(dense.transform, csr_array(Z)), wanted, rtol=0, atol=close * max(1.0, size))
    far = np.vstack([Z, np.full(8, 1e6)])
    ours, theirs = sparse.trust(csr_array(far)), dense.trust(far)
    assert ours.flag[-1]
    np.testing.assert_array_equal(ours.flag, theirs.flag)
    np.testing.assert_allclose(np.exp(ours.support), np.exp(theirs.support), atol=1e-9)
    if dense.report_.warnings != sparse.report_.warnings:  # about the same things
        assert len(dense.report_.warnings) == len(sparse.report_.warnings)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_take_sparse_features_says_why(name):
    with pytest.raises((ValueError, TypeError), match=REFUSED[name]):
        quietly(clone(ALL_METHODS[name]).fit, csr_array(sparse_cloud(0)))


@pytest.mark.parametrize("kernel", ["chi2", lambda x, y: float(x @ y)], ids=["chi2", "callable"])
def test_kernels_of_arrays_say_so(kernel):
    with pytest.raises(ValueError, match="does not take sparse rows"):
        KernelPCA(kernel=kernel).fit(csr_array(sparse_cloud(0)))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("method", [DiffusionMaps, Isomap, ClassicalMDS, PHATE])
def test_the_metrics_of_sparse_rows(method, metric):
    X, Z = sparse_cloud(3), sparse_cloud(4, rows=7)
    X, Z = X[X.any(axis=1)], Z[Z.any(axis=1)]
    dense, sparse = (quietly(method(metric=metric).fit, rows) for rows in (X, csr_array(X)))
    wanted = quietly(dense.transform, Z)
    np.testing.assert_allclose(quietly(sparse.transform, csr_array(Z)), wanted, atol=1e-9 * size_of(wanted))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("method", [DiffusionMaps, Isomap, PHATE, Roseland])
def test_a_row_of_zeros_has_no_direction_and_the_message_names_it(method, form):
    X = sparse_cloud(0)
    X = X[X.any(axis=1)]
    fitted = quietly(method(metric="cosine").fit, form(X))
    Z = X.copy()
    Z[31] = 0.0
    named = rf"1 of the {len(X)} rows holds only zeros \(row 31\), so it has no direction"
    with pytest.raises(ValueError, match=named):
        method(metric="cosine").fit(form(Z))
    with pytest.raises(ValueError, match=named):
        fitted.transform(form(Z))
    Z[[40, 45]] = 0.0
    with pytest.raises(ValueError, match=rf"3 of the {len(X)} rows hold only zeros \(the first is row 31\)"):
        method(metric="cosine").fit(form(Z))


def test_rows_of_zeros_in_a_file_are_counted_by_the_block(tmp_path):
    X = sparse_cloud(0, rows=200)
    X = X[X.any(axis=1)]
    X[90] = 0.0
    save_npz(tmp_path / "rows.npz", csr_array(X))
    with pytest.raises(ValueError, match=r"1 of the \d+ rows of this block holds only zeros"):
        quietly(Roseland(metric="cosine", landmarks=X[:50]).fit, tmp_path / "rows.npz")


def test_rows_of_one_value_have_no_correlation():
    X = sparse_cloud(0)
    X[X.max(axis=1) == X.min(axis=1)] = np.arange(8)
    X[5] = 3.0
    with pytest.raises(ValueError, match=r"1 of the 60 rows holds one value only \(row 5\)"):
        DiffusionMaps(metric="correlation").fit(X)


@pytest.mark.parametrize("estimator", [DiffusionMaps(), Isomap(), LocallyLinearEmbedding(), Roseland(landmarks=0.6)])
def test_files_of_models_with_sparse_rows(estimator, tmp_path):
    X, Z = csr_array(sparse_cloud(0)), csr_array(sparse_cloud(1))
    model = quietly(clone(estimator).fit, X)
    model.save(tmp_path / "model.outfold")
    again = load(tmp_path / "model.outfold")
    np.testing.assert_array_equal(quietly(again.transform, Z), quietly(model.transform, Z))
    np.testing.assert_array_equal(again.trust(Z).p_value, model.trust(Z).p_value)


def test_a_model_is_not_changed_by_changes_to_its_sparse_rows():
    X, Z = csr_array(sparse_cloud(0)), csr_array(sparse_cloud(1))
    model = quietly(DiffusionMaps().fit, X)
    before = quietly(model.transform, Z)
    X.data *= 3
    np.testing.assert_array_equal(quietly(model.transform, Z), before)
    with pytest.raises(ValueError, match="read-only"):
        model.landmarks_.data[0] = 7.0


@pytest.mark.parametrize(
    "estimator", [Roseland(landmarks=30, random_state=0), DiffusionMaps(landmarks=30, random_state=0)]
)
def test_sparse_blocks_files_and_dask(estimator, tmp_path):
    X = csr_array(sparse_cloud(0, rows=200, features=20))  # no two rows are equal
    wanted = quietly(clone(estimator).fit, X).transform(X, on_far="keep")
    save_npz(tmp_path / "rows.npz", X)
    blocks = lambda: (X[at : at + 37] for at in range(0, 200, 37))  # noqa: E731
    array = pytest.importorskip("dask.array")
    lazy = array.from_array(X.toarray(), chunks=(50, -1)).map_blocks(csr_matrix)
    for source in (tmp_path / "rows.npz", blocks, lazy):
        model = quietly(clone(estimator).fit, source)
        np.testing.assert_allclose(quietly(model.transform, X), wanted, atol=1e-10)
        out = quietly(model.transform, source)
        np.testing.assert_allclose(np.asarray(out), wanted, atol=1e-10)
        assert isinstance(model.landmarks_, csr_array)


def test_calibration_and_p_values_of_sparse_rows():
    X = sparse_cloud(0, rows=150)
    dense, sparse = (quietly(DiffusionMaps().fit, rows) for rows in (X, csr_array(X)))
    quietly(sparse.calibrate, folds=3)
    quietly(dense.calibrate, folds=3)
    assert np.isfinite(sparse.trust(csr_array(X)).error).any()
    found = sparse.inverse_transform(sparse.embedding_[:4])
    np.testing.assert_allclose(found, dense.inverse_transform(dense.embedding_[:4]), atol=1e-6)


def test_text_and_categories_in_pipelines():
    words = ["sea ship sail wave wind", "tree leaf root bark seed", "star moon sun night sky"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words[at % 3].split(), 6)) for at in range(90)]
    clusters = make_pipeline(TfidfVectorizer(), SpectralClustering(3, metric="cosine"))
    assert adjusted_rand_score(clusters.fit_predict(texts), np.arange(90) % 3) == 1
    assert clusters.predict(["sea wave", "leaf bark"])[0] == clusters[-1].labels_[0]
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"kind": rng.choice(list("abcdefgh"), 80), "size": rng.normal(size=80)})
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]), (StandardScaler(), ["size"]), sparse_threshold=1.0)
    places = quietly(make_pipeline(encoder, DiffusionMaps(kernel="gaussian")).fit_transform, table)
    assert places.shape == (80, 2)


# -- graphs --------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
POINTS, NEW = RNG.normal(size=(150, 3)), RNG.normal(size=(12, 3))
DISTANCES, TO_NEW = cdist(POINTS, POINTS), cdist(NEW, POINTS)
KNN = KNeighborsTransformer(n_neighbors=12, mode="distance").fit(POINTS)
AFFINITY = [np.where(W > 0.05, W, 0.0) for W in (np.exp(-(DISTANCES**2)), np.exp(-(TO_NEW**2)))]

OF_AFFINITIES = {
    "diffusion-maps": DiffusionMaps(kernel="precomputed"),
    "diffusion-maps alpha=1/2 t=2": DiffusionMaps(kernel="precomputed", alpha=0.5, t=2),
    "diffusion-maps canonical": DiffusionMaps(kernel="precomputed", coordinates="canonical"),
    "diffusion-maps landmarks": DiffusionMaps(kernel="precomputed", landmarks=0.6, random_state=0),
    "laplacian-eigenmaps": LaplacianEigenmaps(kernel="precomputed"),
    "laplacian-eigenmaps unnormalized": LaplacianEigenmaps(kernel="precomputed", laplacian="unnormalized"),
    "spectral-clustering": SpectralClustering(3, kernel="precomputed"),
    "kernel-pca": KernelPCA(kernel="precomputed"),
}
OF_DISTANCES = {
    "diffusion-maps": DiffusionMaps(metric="precomputed"),
    "diffusion-maps gaussian": DiffusionMaps(metric="precomputed", kernel="gaussian"),
    "diffusion-maps union": DiffusionMaps(metric="precomputed", kernel="gaussian", n_neighbors=8),
    "diffusion-maps adaptive": DiffusionMaps(metric="precomputed", n_neighbors=8),
    "diffusion-maps mutual": DiffusionMaps(metric="precomputed", n_neighbors=graphs.Mutual(8)),
    "diffusion-maps ball": DiffusionMaps(metric="precomputed", n_neighbors=graphs.Ball(1.0)),
    "diffusion-maps threshold": DiffusionMaps(metric="precomputed", threshold=0.01),
    "diffusion-maps variable": DiffusionMaps(metric="precomputed", kernel="variable"),
    "diffusion-maps canonical": DiffusionMaps(metric="precomputed", coordinates="canonical"),
    "diffusion-maps self-tuning": DiffusionMaps(metric="precomputed", kernel="self_tuning", n_neighbors=8),
    "continuous k-nn": DiffusionMaps(metric="precomputed", kernel="continuous_knn", n_neighbors=8),
    "laplacian-eigenmaps unnormalized": LaplacianEigenmaps(metric="precomputed", laplacian="unnormalized"),
    "isomap": Isomap(metric="precomputed", n_neighbors=6),
    "isomap landmarks": Isomap(metric="precomputed", landmarks=60, random_state=0),
    "phate": PHATE(metric="precomputed"),
}


@pytest.mark.parametrize("name", OF_AFFINITIES)
def test_sparse_affinities_equal_dense_ones(name):
    dense, sparse = (quietly(clone(OF_AFFINITIES[name]).fit, W) for W in (AFFINITY[0], csr_matrix(AFFINITY[0])))
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-10 * size_of(dense.embedding_))
    wanted = quietly(dense.transform, AFFINITY[1])
    for rows in (csr_matrix(AFFINITY[1]), lil_array(AFFINITY[1]), AFFINITY[1]):
        np.testing.assert_allclose(quietly(sparse.transform, rows), wanted, atol=1e-10 * size_of(wanted))
    np.testing.assert_allclose(quietly(dense.transform, csr_array(AFFINITY[1])), wanted, atol=1e-12)


@pytest.mark.parametrize("name", OF_DISTANCES)
def test_sparse_distances_of_all_pairs_equal_dense_ones(name):
    dense, sparse = (quietly(clone(OF_DISTANCES[name]).fit, D) for D in (DISTANCES, csr_matrix(DISTANCES)))
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-10 * size_of(dense.embedding_))
    wanted = quietly(dense.transform, TO_NEW)
    np.testing.assert_allclose(quietly(sparse.transform, csr_array(TO_NEW)), wanted, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in OF_DISTANCES if n not in ("diffusion-maps mutual", "diffusion-maps ball")])
def test_precomputed_distances_of_all_pairs_equal_features(name):  # without contrasts, which features order
    estimator = clone(OF_DISTANCES[name])
    given = quietly(clone(estimator).fit, DISTANCES)
    of_features = quietly(clone(estimator).set_params(metric="euclidean").fit, POINTS)
    size = size_of(of_features.embedding_)
    assert up_to_signs(given.embedding_, of_features.embedding_) < 1e-9 * size
    moved = quietly(of_features.transform, NEW)
    assert up_to_signs(quietly(given.transform, TO_NEW), moved) < 1e-8 * size_of(moved)


BOTH = [("kernel", name) for name in OF_AFFINITIES] + [("metric", name) for name in OF_DISTANCES]


@pytest.mark.parametrize(("given", "name"), BOTH)
def test_the_laws_of_sparse_graphs(given, name, tmp_path):
    distances = given == "metric"
    graph = KNN.transform(POINTS) if distances else csr_array(AFFINITY[0])
    Z = KNN.transform(NEW) if distances else csr_array(AFFINITY[1])
    model = clone((OF_DISTANCES if distances else OF_AFFINITIES)[name])
    embedding = quietly(model.fit_transform, graph)
    symmetric = graphs.symmetrize(graph, "union" if distances else "mean", distances=distances)
    close = tolerance(model, embedding)
    part = np.random.default_rng(0).permutation(150)[:40]
    np.testing.assert_allclose(quietly(model.transform, symmetric[part]), embedding[part], atol=close)
    if not isinstance(model, PHATE):
        np.testing.assert_allclose(model.embedding_, embedding, atol=close)
    moved = quietly(model.transform, Z)
    alone = np.vstack([quietly(model.transform, Z[[at]]) for at in range(12)])
    np.testing.assert_allclose(moved, alone, atol=1e-11 * size_of(embedding))
    model.save(tmp_path / "graph.outfold")
    again = load(tmp_path / "graph.outfold")
    np.testing.assert_array_equal(quietly(again.transform, Z), moved)
    np.testing.assert_array_equal(again.trust(Z).flag, model.trust(Z).flag)


def test_a_row_without_entries_is_flagged_and_finite():
    empty = csr_array((1, 150))
    for estimator in [*OF_AFFINITIES.values(), *OF_DISTANCES.values()]:
        if isinstance(estimator, KernelPCA) or (estimator.metric == "precomputed" and estimator.landmarks == 0.6):
            continue
        graph = csr_array(AFFINITY[0]) if getattr(estimator, "kernel", "") == "precomputed" else KNN.transform(POINTS)
        model = quietly(clone(estimator).fit, graph)
        assert model.trust(empty).flag.all()
        assert np.isfinite(quietly(model.transform, empty)).all()
        assert np.isfinite(quietly(model.transform, empty, on_far="nearest")).all()


@pytest.mark.parametrize("itself", [0.0, 1.0])  # an edge to itself leads nowhere either
def test_isolated_nodes_are_left_out_and_said(itself):
    W = AFFINITY[0].copy()
    W[[3, 8]], W[:, [3, 8]] = 0.0, 0.0
    W[[3, 8], [3, 8]] = itself
    others = np.setdiff1d(np.arange(150), [3, 8])
    for graph in (W, csr_array(W)):
        with pytest.warns(SpectrumWarning) as told:
            model = DiffusionMaps(kernel="precomputed").fit(graph)
        assert "2 nodes have no edge to another node (the first is node 3)" in str(told[0].message)
        alone = quietly(DiffusionMaps(kernel="precomputed").fit, W[np.ix_(others, others)])
        assert up_to_signs(model.embedding_[others], alone.embedding_) < 1e-10
        assert (model.embedding_[[3, 8]] == 0).all()
        trust = model.trust(graph)
        np.testing.assert_array_equal(np.flatnonzero(np.isneginf(trust.support)), [3, 8])
        assert trust.flag[[3, 8]].all()
    for graph in (itself * np.eye(20), csr_array(itself * np.eye(20))):
        with pytest.raises(ValueError, match=r"The graph has no edges: 20 of 20 nodes have none to another node"):
            DiffusionMaps(kernel="precomputed").fit(graph)


def two_components():
    return np.vstack([POINTS, POINTS[:100] + 99])


GIVEN = [
    (DiffusionMaps, {"kernel": "precomputed"}, "Give a graph with edges between them"),
    (LaplacianEigenmaps, {"kernel": "precomputed"}, "Give a graph with edges between them"),
    (DiffusionMaps, {"metric": "precomputed"}, "(now auto: 20 nearest of each point), store more neighbours"),
    (DiffusionMaps, {"metric": "precomputed", "kernel": "gaussian"}, "Store more neighbours of each node"),
    (
        DiffusionMaps,
        {"metric": "precomputed", "epsilon": 0.05, "n_neighbors": 7},
        "Raise n_neighbors (now union of 7 nearest), store more neighbours of each node",
    ),
]


@pytest.mark.parametrize(("method", "given", "remedy"), GIVEN)
@pytest.mark.parametrize("dense", [False, True])
def test_advice_on_a_disconnected_graph_of_the_caller_can_be_followed(method, given, remedy, dense):
    mode = "connectivity" if "kernel" in given and "metric" not in given else "distance"
    graph = kneighbors_graph(two_components(), 8, mode=mode)
    if dense and mode == "distance":
        pytest.skip("a dense matrix has the distance of every pair")
    graph = graphs.symmetrize(graph).toarray() if dense else graph
    with pytest.warns(SpectrumWarning) as told:
        method(**given).fit(graph)
    text = next(str(one.message) for one in told if "falls into 2 components" in str(one.message))
    assert remedy in text
    assert text.endswith("or pass components='largest'.")
    for word in ("epsilon", "nan", "join"):
        assert word not in text
    assert quietly(method(components="largest", **given).fit, graph).report_.n_anchors == 150
    with pytest.raises(ValueError, match=r"2 components \(sizes 150, 100\)\.") as refused:
        method(components="error", **given).fit(graph)
    assert str(refused.value).endswith("or pass components='warn' (contrasts become coordinates) or 'largest'.")
    assert "epsilon" not in str(refused.value)
    with pytest.raises(ValueError, match="nothing can join them"):
        method(components="join", **given).fit(graph)


def test_phate_names_a_remedy_for_a_disconnected_graph():
    graph = kneighbors_graph(two_components(), 8, mode="distance")
    with pytest.warns(SpectrumWarning, match=r"which scipy.sparse.csgraph.connected_components\(graph, directed=F"):
        PHATE(metric="precomputed").fit(graph)
    labels = connected_components(graph, directed=False)[1]
    largest = np.flatnonzero(labels == np.bincount(labels).argmax())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PHATE(metric="precomputed").fit(graph[largest][:, largest]).report_.n_anchors == 150


def test_a_heavy_diagonal_of_affinities_is_said_without_an_epsilon():
    W = kneighbors_graph(POINTS, 8) + 100 * eye_array(150)
    with pytest.warns(SpectrumWarning, match=r"Lower the diagonal of the matrix \(W.setdiag\(0\)") as told:
        DiffusionMaps(kernel="precomputed").fit(W)
    assert "epsilon" not in " ".join(str(one.message) for one in told)
    W = W.tolil()
    W.setdiag(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiffusionMaps(kernel="precomputed").fit(W)


def test_graphs_that_cannot_be_taken():
    W = csr_array(AFFINITY[0])
    negative = W.copy()
    negative.data[5] = -1.0
    with pytest.raises(ValueError, match=r"values >= 0, got -1 and 1 negative"):
        DiffusionMaps(kernel="precomputed").fit(negative)
    with pytest.raises(ValueError, match=r"square matrix .* \(150, 12\)"):
        DiffusionMaps(kernel="precomputed").fit(W[:, :12])
    with pytest.raises(ValueError, match="zero distance from a point to itself"):
        Isomap(metric="precomputed").fit(W)
    with pytest.raises(ValueError, match=r"stores \d+ of 22500"):
        ClassicalMDS(metric="precomputed").fit(KNN.transform(POINTS))
    with pytest.raises(ValueError, match="needs a symmetric matrix"):
        DiffusionMaps(kernel="precomputed", symmetrize="error").fit(kneighbors_graph(POINTS, 5))
    pieces = csr_array(np.kron(np.eye(3), np.ones((10, 10))))
    with pytest.raises(ValueError, match="nothing can join them"):
        quietly(DiffusionMaps(kernel="precomputed", components="join").fit, pieces)
    apart = KNeighborsTransformer(n_neighbors=4, mode="distance").fit_transform(np.vstack([POINTS, POINTS + 99]))
    with pytest.raises(ValueError, match=r"2 components.*no distance between them is stored"):
        quietly(Isomap(metric="precomputed", n_neighbors=4).fit, apart)


def test_self_distances_of_rounding_size_are_zero():
    graph = KNN.transform(POINTS).tocsr()
    rounded = graph.copy()
    rounded.data[graph.data == 0] = 4e-8
    ours, theirs = (quietly(Isomap(metric="precomputed").fit, table) for table in (rounded, graph))
    np.testing.assert_array_equal(ours.embedding_, theirs.embedding_)
    assert (rounded.data > 0).all()


def test_a_node_that_no_other_lists_leads_to_itself():
    graph = kneighbors_graph(POINTS, 15, mode="distance")  # stores no distance of a node to itself
    model = quietly(DiffusionMaps(3, metric="precomputed", n_neighbors=6, t=2).fit, graph)  # warnings are errors
    listed = np.unique(np.argsort(np.where(graph.toarray() > 0, graph.toarray(), np.inf), axis=1)[:, :6])
    unlisted = np.setdiff1d(np.arange(150), listed)
    assert len(unlisted) > 0
    only_them = csr_array((np.ones(len(unlisted)), (np.arange(len(unlisted)), unlisted)), shape=(len(unlisted), 150))
    wanted = model.eigenvectors_[unlisted] * model.eigenvalues_  # lambda^(t - 1) psi of the node: a step leads to it
    np.testing.assert_allclose(quietly(model.transform, only_them), wanted, atol=1e-10 * size_of(wanted))


def test_explicit_zeros_are_distances_but_no_affinities():
    W = csr_array(AFFINITY[0])
    padded = csr_array(
        (np.append(W.data, [0.0]), (np.append(np.repeat(np.arange(150), np.diff(W.indptr)), [0]),
                                    np.append(W.indices, [140]))), shape=W.shape
    )  # fmt: skip
    ours, theirs = (quietly(DiffusionMaps(kernel="precomputed").fit, graph) for graph in (padded, W))
    np.testing.assert_array_equal(ours.embedding_, theirs.embedding_)
    twins = np.vstack([POINTS, POINTS[:5]])
    graph = KNeighborsTransformer(n_neighbors=12, mode="distance").fit_transform(twins)
    model = quietly(Isomap(metric="precomputed", n_neighbors=8).fit, graph)
    np.testing.assert_allclose(model.embedding_[:5], model.embedding_[150:], atol=1e-8)


@pytest.mark.parametrize("rule", ["mean", "union", "mutual"])
def test_directed_graphs_become_symmetric_by_the_named_rule(rule):
    W = kneighbors_graph(POINTS, 6, mode="connectivity").toarray() * RNG.uniform(0.5, 1.0, (150, 150))
    D = KNN.transform(POINTS).toarray()
    known = (D > 0) | np.eye(150, dtype=bool)
    if rule == "mean":
        wanted = (W + W.T) / 2
        lengths = np.where(known & known.T, (D + D.T) / 2, D + D.T)
    elif rule == "union":
        wanted = np.maximum(W, W.T)
        lengths = np.where(known & known.T, np.minimum(D, D.T), D + D.T)
    else:
        wanted = np.where((W > 0) & (W.T > 0), np.minimum(W, W.T), 0.0)
        lengths = np.where(known & known.T, np.maximum(D, D.T), 0.0)
    np.testing.assert_allclose(graphs.symmetrize(csr_array(W), rule).toarray(), wanted, atol=1e-15)
    np.testing.assert_allclose(graphs.symmetrize(W, rule), wanted, atol=1e-15)
    np.testing.assert_allclose(
        graphs.symmetrize(KNN.transform(POINTS), rule, distances=True).toarray(), lengths, atol=1e-15
    )
    directed = quietly(
        LaplacianEigenmaps(kernel="precomputed", symmetrize=rule, components="largest").fit, csr_array(W)
    )
    straight = quietly(LaplacianEigenmaps(kernel="precomputed", components="largest").fit, csr_array(wanted))
    np.testing.assert_allclose(directed.embedding_, straight.embedding_, atol=1e-12)
    with pytest.raises(ValueError, match="'mean', 'union', 'mutual'"):
        graphs.symmetrize(W, "sum")


# -- scikit-learn's answers ----------------------------------------------------------------


def test_isomap_after_a_neighbors_transformer_gives_their_answer():
    X, _ = swiss_roll(400, random_state=0)
    Z, _ = swiss_roll(40, random_state=1)
    theirs, ours = (
        make_pipeline(
            KNeighborsTransformer(n_neighbors=12, mode="distance"), method(n_neighbors=8, metric="precomputed")
        )
        for method in (TheirIsomap, Isomap)
    )
    wanted = theirs.fit_transform(X)
    assert up_to_signs(wanted, ours.fit_transform(X)) < 1e-8 * size_of(wanted)
    assert up_to_signs(theirs.transform(Z), ours.transform(Z)) < 1e-8 * size_of(wanted)


@pytest.mark.parametrize("method", [DiffusionMaps, LaplacianEigenmaps, SpectralClustering, Isomap])
def test_distances_without_those_of_nodes_to_themselves_are_the_same_graph(method):
    X, _ = swiss_roll(200, random_state=0)
    with_self = KNeighborsTransformer(n_neighbors=12, mode="distance").fit_transform(X)
    without = kneighbors_graph(X, 12, mode="distance")  # as scanpy stores them
    assert with_self.nnz == without.nnz + 200
    model = method(3, metric="precomputed")
    wanted = model.fit_transform(with_self)
    np.testing.assert_array_equal(model.fit_transform(without), wanted)
    np.testing.assert_allclose(model.embedding_, wanted, rtol=0, atol=1e-10 * size_of(wanted))
    assert model.report_.components == 1


def test_spectral_embedding_of_a_graph_gives_their_answer():
    X, _ = swiss_roll(400, random_state=0)
    W = kneighbors_graph(X, 12, mode="connectivity")
    symmetric = graphs.symmetrize(W)
    theirs = SpectralEmbedding(3, affinity="precomputed", eigen_solver="arpack", eigen_tol=1e-13)
    wanted = theirs.fit_transform(csr_matrix(symmetric))
    model = LaplacianEigenmaps(3, kernel="precomputed").fit(W)
    found = model.embedding_ / np.sqrt(symmetric.sum())  # psi / sqrt(sum of degrees)
    assert up_to_signs(wanted, found) < 1e-8 * np.abs(wanted).max()


def test_clusters_of_precomputed_neighbors_are_theirs():
    X, _ = noisy_moons(400, random_state=0)
    graph = KNeighborsTransformer(n_neighbors=15, mode="distance").fit_transform(X)
    theirs = TheirClustering(2, affinity="precomputed_nearest_neighbors", n_neighbors=10, random_state=0).fit(graph)
    nearest = NearestNeighbors(n_neighbors=10, metric="precomputed").fit(graph).kneighbors_graph(graph)
    np.testing.assert_array_equal(theirs.affinity_matrix_.toarray(), graphs.symmetrize(nearest).toarray())
    ours = SpectralClustering(2, kernel="precomputed").fit(nearest)
    assert adjusted_rand_score(theirs.labels_, ours.labels_) == 1


def test_a_graph_of_another_library_by_its_sparse_export():
    networkx = pytest.importorskip("networkx")
    ring = networkx.cycle_graph(60)
    model = LaplacianEigenmaps(2, kernel="precomputed").fit(networkx.to_scipy_sparse_array(ring))
    np.testing.assert_allclose(model.eigenvalues_, 1 - np.cos(2 * np.pi / 60), rtol=1e-10)  # of the random walk


def test_the_search_of_sparse_rows_through_a_transformer():
    X = csr_array(sparse_cloud(0, rows=200, features=12))
    transformer = KNeighborsTransformer(n_neighbors=14, mode="distance")
    exact, proposed = (
        quietly(DiffusionMaps(kernel="gaussian", n_neighbors=graphs.Union(10, search=search)).fit, X)
        for search in ("brute", transformer)
    )
    np.testing.assert_allclose(proposed.embedding_, exact.embedding_, atol=1e-10)
    with pytest.raises(ValueError, match="'tree' is for dense rows"):
        DiffusionMaps(n_neighbors=graphs.Union(10, search="tree")).fit(X)


def test_the_warning_about_a_slow_search_of_sparse_rows(monkeypatch):
    monkeypatch.setattr("outfold.neighbors.choice.SLOW_SECONDS", 1e-9)
    with pytest.warns(OutfoldWarning, match="sparse rows exactly"):
        DiffusionMaps().fit(csr_array(sparse_cloud(0, rows=120)))
