"""The graph and the operator of a fitted model: eigenvectors are its own, entries are the kernel's."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator
from sklearn.base import clone

from catalogue import cloud, quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, graphs, load
from outfold.trust import REFERENCE_ROWS

X = cloud(0, rows=60)
METHODS = {
    "adaptive": DiffusionMaps(t=0),
    "gaussian": DiffusionMaps(kernel="gaussian", alpha=0.5, t=0),
    "union": DiffusionMaps(kernel="gaussian", n_neighbors=8, t=0),
    "without the diagonal": DiffusionMaps(kernel="gaussian", diagonal=False, t=0),
    "self-tuning": DiffusionMaps(kernel="self_tuning", n_neighbors=9, t=0),
    "landmarks": DiffusionMaps(landmarks=0.7, random_state=0, t=0),
    "laplacian-eigenmaps": LaplacianEigenmaps(kernel="gaussian", n_neighbors=graphs.Mutual(12)),
    "unnormalized": LaplacianEigenmaps(kernel="gaussian", laplacian="unnormalized"),
    "unnormalized adaptive": LaplacianEigenmaps(laplacian="unnormalized"),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_the_eigenvectors_of_the_operator_are_those_of_the_fit(name, weighted):
    weights = np.random.default_rng(0).uniform(1.0, 3.0, 60) if weighted else None
    model = quietly(clone(METHODS[name]).fit, X, sample_weight=weights)
    W, P = model.graph_, model.operator_
    assert abs(W - W.T).max() < 1e-14
    values = model.eigenvalues_
    if isinstance(model, LaplacianEigenmaps) and model.laplacian == "random_walk":
        values = 1 - values
    left = P @ model.eigenvectors_ - model.eigenvectors_ * values
    assert np.abs(left).max() < 1e-9 * max(1.0, np.abs(P.data).max())
    if getattr(model, "laplacian", "") != "unnormalized":
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)


def test_the_graph_of_a_gaussian_is_its_kernel():
    model = DiffusionMaps(epsilon=0.7).fit(X)
    squared = np.square(X[:, None] - X).sum(axis=2)
    np.testing.assert_allclose(model.graph_.toarray(), np.exp(-squared / 1.4), rtol=1e-12)


def test_the_graph_of_a_precomputed_matrix_is_that_matrix_made_symmetric(tmp_path):
    directed = csr_array(np.where(np.random.default_rng(0).uniform(size=(40, 40)) < 0.3, 1.0, 0.0))
    model = quietly(DiffusionMaps(kernel="precomputed").fit, directed)
    np.testing.assert_array_equal(model.graph_.toarray(), graphs.symmetrize(directed).toarray())
    model.save(tmp_path / "graph.outfold")
    with pytest.raises(ValueError, match="this model keeps none"):
        _ = load(tmp_path / "graph.outfold").graph_


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_operator_of_cosines_is_a_linear_operator(alpha, diagonal, weighted, sparse, tmp_path):
    random = np.random.default_rng(1)
    rows = random.uniform(0.1, 1.0, (60, 9)) * (random.uniform(size=(60, 9)) < 0.6)
    m = np.random.default_rng(0).integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    model = DiffusionMaps(2, kernel="cosine", alpha=alpha, diagonal=diagonal, t=0)
    quietly(model.fit, csr_array(rows) if sparse else rows, sample_weight=m)
    P = model.operator_
    assert isinstance(P, LinearOperator)
    assert P.shape == (60, 60)
    assert np.abs(P @ model.eigenvectors_ - model.eigenvectors_ * model.eigenvalues_).max() < 1e-10
    order, m = model.landmark_indices_, m[model.landmark_indices_]
    U = rows[order] / np.linalg.norm(rows[order], axis=1)[:, None]
    W = U @ U.T - (0 if diagonal else np.diag(1 / m))
    A = W * np.multiply.outer((W @ m) ** -alpha, (W @ m) ** -alpha * m)
    wanted = A / A.sum(axis=1)[:, None]
    np.testing.assert_allclose(P @ np.eye(60), wanted, rtol=0, atol=1e-13)
    np.testing.assert_allclose(P.T @ np.eye(60), wanted.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(P @ np.ones(60), 1.0, atol=1e-13)
    model.save(tmp_path / "cosine.outfold")
    np.testing.assert_array_equal(load(tmp_path / "cosine.outfold").operator_ @ np.eye(60), P @ np.eye(60))


def test_the_operator_of_cosines_between_landmarks_and_of_rows_that_are_not_stored():
    rows = np.abs(cloud(0, rows=REFERENCE_ROWS + 50))
    model = LaplacianEigenmaps(2, kernel="cosine", landmarks=100, random_state=0).fit(rows)
    P = model.operator_
    left = P @ model.eigenvectors_ - model.eigenvectors_ * (1 - model.eigenvalues_)
    assert P.shape == (100, 100)
    assert np.abs(left).max() < 1e-10
    with pytest.raises(ValueError, match=r"stores 2000 of them.*Fit with landmarks=2000"):
        _ = DiffusionMaps(2, kernel="cosine").fit(rows).operator_


def test_kernels_without_a_graph_say_so():
    cosine = quietly(DiffusionMaps(kernel="cosine").fit, np.abs(X))
    with pytest.raises(ValueError, match="makes no table of pairs, so there is no graph_.*operator_ has products"):
        _ = cosine.graph_
    with pytest.raises(ValueError, match="has a generator"):
        _ = quietly(DiffusionMaps(kernel="variable").fit, X).operator_
