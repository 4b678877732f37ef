"""kernel="cosine": all pairs of non-negative rows without a table of pairs, against the same with a table."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import outfold
from catalogue import quietly, up_to_signs
from outfold import DiffusionMaps, LaplacianEigenmaps, SpectralClustering
from outfold._loops import csr
from outfold.data.sparse_rows import SparseRows
from outfold.operators import cosine_pairs
from outfold.solvers import LowRank


def counts(rows=60, features=9, seed=0):
    """Non-negative rows, a part of whose entries are 0; none is empty."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.5, size=(rows, features)) * (rng.random((rows, features)) < 0.6)
    X[X.sum(axis=1) == 0] = 1.0
    X.flags.writeable = False
    return X


def some_weights(kind, rows=60):
    rng = np.random.default_rng(1)
    return {
        "none": None,
        "counts": rng.integers(1, 4, rows).astype(float),
        "fractions": rng.uniform(0.3, 2.0, rows),
    }[kind]


def by_a_table(X, m, alpha, diagonal, count):
    """(eigenvalues, psi, degrees / sum m d) of the table of cosines, by a general eigensolver."""
    m = np.ones(len(X)) if m is None else m
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    W = U @ U.T
    if not diagonal:
        W[np.diag_indices_from(W)] -= min(1.0, m.min()) / m
    q = W @ m
    A = W / np.outer(q, q) ** alpha
    d = A @ m
    values, psi = np.linalg.eig(A * m / d[:, None])
    order = np.argsort(-values.real)[1 : count + 1]
    values, psi = values.real[order], psi.real[:, order]
    return values, psi / np.sqrt((m * d / (m @ d)) @ psi**2), d / (m @ d)


def two_topics(rows=40):
    """Rows of two groups that share no feature."""
    rng = np.random.default_rng(3)
    X = np.zeros((rows, 12))
    X[: rows // 2, :6] = rng.uniform(0.1, 1, (rows // 2, 6))
    X[rows // 2 :, 6:] = rng.uniform(0.1, 1, (rows - rows // 2, 6))
    return X


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("weights", ["none", "counts", "fractions"])
@pytest.mark.parametrize(("alpha", "t"), [(0, 0), (0.5, 1), (1, 2)])
def test_the_embedding_is_that_of_a_table_of_cosines(alpha, t, weights, diagonal, sparse):
    X, m = counts(), some_weights(weights)
    values, psi, degrees = by_a_table(X, m, alpha, diagonal, 3)
    rows = csr_array(X) if sparse else X
    maps = DiffusionMaps(3, kernel="cosine", alpha=alpha, t=t, diagonal=diagonal).fit(rows, sample_weight=m)
    assert np.abs(maps.eigenvalues_ - values).max() < 1e-13
    assert up_to_signs(maps.embedding_, values**t * psi) < 1e-11
    assert up_to_signs(maps.eigenvectors_, psi) < 1e-11
    canonical = DiffusionMaps(3, kernel="cosine", alpha=alpha, t=t, diagonal=diagonal, coordinates="canonical")
    expected = np.sqrt(degrees)[:, None] * values ** (t / 2) * psi
    assert up_to_signs(canonical.fit_transform(rows, sample_weight=m), expected) < 1e-11


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.parametrize("table", [True, False])
def test_rows_in_blocks_give_the_embedding_of_rows_in_memory(table, alpha, monkeypatch):
    if not table:  # products are passes over the rows
        monkeypatch.setattr(cosine_pairs, "gram_fits", lambda features, runner: False)
    X, m = counts(200, 30), some_weights("fractions", 200)
    maps = DiffusionMaps(3, kernel="cosine", alpha=alpha, solver="auto" if table else "lanczos")
    together = maps.fit_transform(X, sample_weight=m)
    values = maps.eigenvalues_
    for blocks in ([X[:70], X[70:]], [csr_array(X[:70]), csr_array(X[70:])]):
        apart = DiffusionMaps(3, kernel="cosine", alpha=alpha, solver=maps.solver)
        apart.fit(lambda blocks=blocks: blocks, sample_weight=m)
        assert np.abs(apart.eigenvalues_ - values).max() < 1e-12
        assert up_to_signs(apart.transform(X), together) < 1e-10


def test_partitions_give_the_embedding_of_rows_in_memory():
    dask = pytest.importorskip("dask.array")
    X = counts(200, 30)
    together = DiffusionMaps(3, kernel="cosine").fit_transform(X)
    apart = DiffusionMaps(3, kernel="cosine").fit(dask.from_array(X, chunks=(60, 30)))
    assert up_to_signs(apart.transform(X), together) < 1e-10


@pytest.mark.parametrize("shape", [(1300, 40), (1100, 1400)])
@pytest.mark.parametrize("diagonal", [True, False])
def test_beyond_dense_sizes_products_give_the_embedding_of_a_table(shape, diagonal):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(shape[1], 0.1), 5)
    X = rng.poisson(60 * rng.dirichlet(np.full(5, 0.2), shape[0]) @ topics).astype(float)
    X[X.sum(axis=1) == 0, 0] = 1.0
    exact = DiffusionMaps(3, kernel="cosine", diagonal=diagonal, solver="dense").fit(X)
    maps = DiffusionMaps(3, kernel="cosine", diagonal=diagonal).fit(csr_array(X))
    assert maps.report_.solver in ("gram", "krylov")
    assert maps.report_.residual < 1e-8
    assert np.abs(maps.eigenvalues_ - exact.eigenvalues_).max() < 1e-11
    assert up_to_signs(maps.embedding_, exact.embedding_) < 1e-7 * np.abs(exact.embedding_).max()


@pytest.mark.parametrize("coordinates", ["diffusion", "canonical"])
@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("landmarks", [None, 0.7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_transform_is_a_function_of_the_row(dtype, landmarks, diagonal, coordinates):
    X = counts().astype(dtype)
    maps = DiffusionMaps(
        2, kernel="cosine", alpha=0.5, diagonal=diagonal, coordinates=coordinates, landmarks=landmarks, random_state=0
    )
    embedding = quietly(maps.fit_transform, X)
    part = np.random.default_rng(2).permutation(len(X))[:9]
    close = 1e-12 if dtype == np.float64 else 1e-5
    assert embedding.dtype == dtype
    assert np.abs(quietly(maps.transform, X[part]) - embedding[part]).max() < close
    assert np.abs(quietly(maps.transform, X[part[:1]]) - embedding[part[:1]]).max() < close
    assert np.abs(quietly(maps.transform, csr_array(X[part])) - embedding[part]).max() < close
    assert np.abs(quietly(maps.transform, 8 * X[part]) - embedding[part]).max() < close  # length does not matter


def test_the_eigenvectors_at_landmarks_are_the_embedding_there():
    X = counts(200)
    maps = DiffusionMaps(3, kernel="cosine", landmarks=120, random_state=0).fit(X)
    assert maps.landmarks_.shape == (120, 9)
    at_landmarks = maps.eigenvectors_ * maps.eigenvalues_
    assert np.abs(quietly(maps.transform, maps.landmarks_) - at_landmarks).max() < 1e-11


def test_a_whole_weight_is_as_many_rows():
    X, m = counts(), some_weights("counts")
    for diagonal in (True, False):
        maps = DiffusionMaps(3, kernel="cosine", alpha=0.5, diagonal=diagonal)
        weighed = maps.fit(X, sample_weight=m).transform(X)
        repeated = maps.fit(np.repeat(X, m.astype(int), axis=0)).transform(X)
        assert np.abs(weighed - repeated).max() < 1e-11


def test_a_model_of_many_rows_stores_a_sample_of_them(monkeypatch, tmp_path):
    monkeypatch.setattr(cosine_pairs, "REFERENCE_ROWS", 50)
    X = counts(200)
    maps = DiffusionMaps(3, kernel="cosine").fit(csr_array(X))
    assert maps.landmarks_.shape == (50, 9)
    assert maps.report_.n_anchors == 50
    maps.save(tmp_path / "model.outfold")
    assert np.array_equal(outfold.load(tmp_path / "model.outfold").transform(X), maps.transform(X))
    assert maps.embedding_.shape == (200, 3)
    where = maps.landmark_indices_
    assert np.abs(maps.eigenvectors_ * maps.eigenvalues_ - maps.embedding_[where]).max() < 1e-11


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("diagonal", [True, False])
def test_a_loaded_model_is_the_same_to_the_bit(tmp_path, diagonal, sparse):
    X = csr_array(counts()) if sparse else counts()
    maps = DiffusionMaps(3, kernel="cosine", diagonal=diagonal).fit(X)
    maps.save(tmp_path / "model.outfold")
    loaded = outfold.load(tmp_path / "model.outfold")
    assert np.array_equal(loaded.transform(X), maps.transform(X))
    assert np.array_equal(loaded.trust(X).p_value, maps.trust(X).p_value)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("coordinates", ["diffusion", "canonical"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_without_a_common_feature_is_finite_and_flagged(sparse, coordinates, diagonal):
    X = np.column_stack([counts(), np.zeros(60)])
    maps = DiffusionMaps(2, kernel="cosine", coordinates=coordinates, diagonal=diagonal).fit(X)
    strange = np.zeros((2, 10))
    strange[1, 9] = 3.0
    strange = csr_array(strange) if sparse else strange
    places = quietly(maps.transform, strange)
    trust = maps.trust(strange)
    assert np.isfinite(places).all()
    assert np.isneginf(trust.support).all()
    assert trust.flag.all()
    mean = (X / np.linalg.norm(X, axis=1, keepdims=True)).mean(axis=0)
    assert np.allclose(places, quietly(maps.transform, [mean]), rtol=1e-10)
    nearest = quietly(maps.transform, strange, on_far="nearest")
    assert np.isfinite(nearest).all()


def test_rows_of_any_size_have_the_same_direction():
    X = counts()
    maps = DiffusionMaps(2, kernel="cosine").fit(X)
    for factor in (1e-170, 1e170):
        assert np.allclose(quietly(maps.transform, X * factor), maps.embedding_, atol=1e-11)


def test_groups_without_a_common_feature_are_contrasts():
    X = two_topics()
    maps = quietly(DiffusionMaps(2, kernel="cosine").fit, X)
    assert maps.report_.components == 2
    assert maps.report_.component_sizes == (20, 20)
    assert maps.eigenvalues_[0] == 1
    assert np.ptp(maps.embedding_[:20, 0]) < 1e-12
    apart = quietly(DiffusionMaps(2, kernel="cosine").fit, lambda: [X[:15], X[15:]])
    assert apart.report_.components == 2
    assert up_to_signs(quietly(apart.transform, X)[:, :1], maps.embedding_[:, :1]) < 1e-11
    with pytest.raises(ValueError, match="no feature in common"):
        DiffusionMaps(2, kernel="cosine", components="error").fit(X)
    largest = quietly(DiffusionMaps(2, kernel="cosine", components="largest").fit, X[5:])
    assert largest.report_.components == 1
    assert largest.report_.n_anchors == 20


def test_clusters_of_rows_by_their_direction():
    X = two_topics()
    labels = quietly(SpectralClustering(2, kernel="cosine").fit, X).labels_
    assert len(set(labels[:20])) == len(set(labels[20:])) == 1
    assert labels[0] != labels[-1]
    values = LaplacianEigenmaps(2, kernel="cosine").fit(counts()).eigenvalues_
    assert np.allclose(values, 1 - by_a_table(counts(), None, 0, True, 2)[0], atol=1e-12)


@pytest.mark.parametrize("count", ["auto", [1, 3]])
def test_components_are_chosen_as_with_other_kernels(count):
    maps = quietly(DiffusionMaps(count, kernel="cosine").fit, counts(150))
    assert maps.embedding_.shape[1] == (2 if count == [1, 3] else maps.report_.n_components)


def test_negative_entries_are_counted():
    X = counts() - 0.05
    with pytest.raises(ValueError, match=rf"{int((X < 0).sum())} are negative"):
        DiffusionMaps(kernel="cosine").fit(X)
    with pytest.raises(ValueError, match="entries >= 0"):
        DiffusionMaps(kernel="cosine").fit(counts()).transform(X)


def test_rows_of_zeros_are_counted():
    X = counts().copy()
    X[[4, 9]] = 0.0
    for rows in (X, csr_array(X), lambda: [X[:3], X[3:]]):
        with pytest.raises(ValueError, match=r"2 rows hold only zeros.*row 4"):
            DiffusionMaps(kernel="cosine").fit(rows)
    weights = np.ones(60)
    weights[[4, 9]] = 0
    kept = np.flatnonzero(weights)
    absent = DiffusionMaps(kernel="cosine").fit(X, sample_weight=weights)
    assert up_to_signs(absent.transform(X[kept]), DiffusionMaps(kernel="cosine").fit_transform(X[kept])) < 1e-11


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"n_neighbors": 5}, "metric='cosine'"),
        ({"threshold": 0.1}, "metric='cosine'"),
        ({"epsilon": 0.1}, "no width"),
        ({"metric": "manhattan"}, "would do nothing"),
        ({"components": "join"}, "adds edges"),
        ({"solver": "lobpcg"}, "products"),
        ({"solver": LowRank(), "landmarks": 0.5}, "products"),
    ],
)
def test_parameters_without_effect_are_refused(parameters, reason):
    with pytest.raises(ValueError, match=reason):
        DiffusionMaps(kernel="cosine", **parameters).fit(counts())


def test_the_unnormalized_laplacian_is_refused():
    with pytest.raises(ValueError, match="random_walk"):
        LaplacianEigenmaps(kernel="cosine", laplacian="unnormalized").fit(counts())


def test_more_components_than_directions_are_refused():
    with pytest.raises(ValueError, match="few directions"):
        DiffusionMaps(5, kernel="cosine").fit(counts(features=3))


def test_columns_are_connected_by_the_rows_that_store_them():
    matrix = SparseRows(csr_array(two_topics()))
    for loop in (csr.label_columns, csr.label_columns.plain):
        labels = loop(matrix.indptr, matrix.indices, 12)
        assert labels.tolist() == [0] * 6 + [6] * 6


def test_the_plan_counts_the_entries():
    plan = outfold.plan((1000, 50), DiffusionMaps(kernel="cosine"))
    assert plan.fits
    assert "50 features" in plan.edges
