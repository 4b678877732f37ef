"""diagonal=False: a walk in which no sample is its own neighbour."""

import numpy as np
import pytest

from catalogue import quietly, up_to_signs
from outfold import DiffusionMaps, LaplacianEigenmaps, SpectralClustering, graphs, kernels
from outfold.solvers import LowRank

EPSILON = 0.8
ALL_PAIRS = {"kernel": "gaussian", "epsilon": EPSILON}
EDGES = {
    "all pairs": ALL_PAIRS,
    "union": {**ALL_PAIRS, "n_neighbors": 8},
    "mutual": {**ALL_PAIRS, "n_neighbors": graphs.Mutual(14)},
    "ball": {**ALL_PAIRS, "n_neighbors": graphs.Ball(1.5)},
    "threshold": {**ALL_PAIRS, "threshold": 1e-2},
    "self-tuning": {"kernel": "self_tuning", "n_neighbors": None},
    "binary": {"kernel": "gaussian", "epsilon": np.inf, "n_neighbors": 8},
}


def points(rows=60):
    return np.random.default_rng(0).normal(size=(rows, 3))


def some_weights(kind, rows=60):
    rng = np.random.default_rng(1)
    return {
        "none": None,
        "counts": rng.integers(1, 4, rows).astype(float),
        "fractions": rng.uniform(0.3, 2.0, rows),
    }[kind]


def by_brute_force(X, m, alpha, count):
    """(eigenvalues, psi, degrees / sum m d) of the Gaussian without one copy of each row, by a general eigensolver."""
    m = np.ones(len(X)) if m is None else m
    W = np.exp(-np.square(X[:, None] - X).sum(axis=2) / (2 * EPSILON))
    W[np.diag_indices_from(W)] -= min(1.0, m.min()) / m
    q = W @ m
    A = W / np.outer(q, q) ** alpha
    d = A @ m
    values, psi = np.linalg.eig(A * m / d[:, None])
    order = np.argsort(-values.real)[1 : count + 1]
    values, psi = values.real[order], psi.real[:, order]
    return values, psi / np.sqrt((m * d / (m @ d)) @ psi**2), d / (m @ d)


@pytest.mark.parametrize("weights", ["none", "counts", "fractions"])
@pytest.mark.parametrize(("alpha", "t"), [(0, 0), (0.5, 1), (1, 2)])
def test_the_embedding_is_that_of_the_walk_without_self_loops(alpha, t, weights):
    X, m = points(), some_weights(weights)
    values, psi, degrees = by_brute_force(X, m, alpha, 3)
    maps = DiffusionMaps(3, **ALL_PAIRS, alpha=alpha, t=t, diagonal=False).fit(X, sample_weight=m)
    assert np.abs(maps.eigenvalues_ - values).max() < 1e-13
    assert up_to_signs(maps.embedding_, values**t * psi) < 1e-11
    canonical = DiffusionMaps(3, **ALL_PAIRS, alpha=alpha, t=t, diagonal=False, coordinates="canonical")
    expected = np.sqrt(degrees)[:, None] * values ** (t / 2) * psi
    assert up_to_signs(canonical.fit_transform(X, sample_weight=m), expected) < 1e-11


def test_laplacian_eigenmaps_of_it_is_that_of_a_precomputed_matrix_with_an_empty_diagonal():
    X = points()
    W = np.exp(-np.square(X[:, None] - X).sum(axis=2) / (2 * EPSILON))
    np.fill_diagonal(W, 0)
    given = LaplacianEigenmaps(3, kernel="precomputed").fit(W)
    maps = LaplacianEigenmaps(3, **ALL_PAIRS, diagonal=False).fit(X)
    assert np.abs(maps.eigenvalues_ - given.eigenvalues_).max() < 1e-13
    assert up_to_signs(maps.embedding_, given.embedding_) < 1e-11


def test_the_unnormalized_laplacian_does_not_depend_on_the_diagonal():
    X = points()
    with_it, without = (
        LaplacianEigenmaps(3, **ALL_PAIRS, laplacian="unnormalized", diagonal=diagonal).fit(X)
        for diagonal in (True, False)
    )
    assert np.array_equal(with_it.embedding_, without.embedding_)


@pytest.mark.parametrize("coordinates", ["diffusion", "canonical"])
@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.parametrize("edges", EDGES)
def test_transform_of_training_rows_is_their_embedding(edges, alpha, coordinates):
    X = points()
    maps = DiffusionMaps(3, **EDGES[edges], alpha=alpha, diagonal=False, coordinates=coordinates)
    quietly(maps.fit, X)
    part = np.random.default_rng(2).permutation(len(X))[:9]
    assert np.abs(quietly(maps.transform, X[part]) - maps.embedding_[part]).max() < 1e-11
    assert maps.report_.extension_gap < 1e-11
    assert maps.report_.edges.endswith("without the diagonal")


@pytest.mark.parametrize("edges", ["all pairs", "union", "self-tuning"])
def test_a_whole_weight_is_as_many_rows(edges):
    X, m = points(), some_weights("counts")
    maps = DiffusionMaps(3, **EDGES[edges], alpha=0.5, diagonal=False)
    weighed = quietly(maps.fit, X, sample_weight=m).transform(X)
    repeated = quietly(maps.fit, np.repeat(X, m.astype(int), axis=0)).transform(X)
    assert np.abs(weighed - repeated).max() < 1e-11


def test_a_point_far_away_has_the_place_of_its_nearest_anchor():
    X = points()
    far = X[3] + np.array([1e4, 0, 0])
    maps = DiffusionMaps(2, **ALL_PAIRS, alpha=0.5, diagonal=False).fit(X)
    nearest = np.linalg.norm(X - far, axis=1).argmin()
    assert np.allclose(quietly(maps.transform, [far]), maps.embedding_[nearest], rtol=1e-12)
    assert maps.trust([far]).flag.all()


def test_a_row_without_neighbours_stays_its_own():
    X = np.vstack([points(), [[60.0, 0, 0]]])
    maps = quietly(DiffusionMaps(2, **ALL_PAIRS, alpha=0.5, diagonal=False).fit, X)
    assert maps.report_.components == 2
    assert maps.eigenvalues_[0] == 1
    assert np.abs(quietly(maps.transform, X) - maps.embedding_).max() < 1e-10


@pytest.mark.parametrize("apart", [2.0, 4.0, 6.0, 8.0])
def test_a_row_with_hardly_a_neighbour_is_embedded_as_exactly_as_others(apart):
    X = np.vstack([points(), [[3 + apart, 0, 0]]])
    maps = quietly(DiffusionMaps(2, **ALL_PAIRS, alpha=1, diagonal=False).fit, X)
    assert np.abs(quietly(maps.transform, X) - maps.embedding_).max() < 1e-10


def test_a_table_and_a_graph_of_the_same_pairs_agree():
    X = points()
    dense = DiffusionMaps(3, **ALL_PAIRS, n_neighbors=None, diagonal=False).fit(X)
    sparse = DiffusionMaps(3, **ALL_PAIRS, threshold=1e-300, diagonal=False).fit(X)
    assert up_to_signs(dense.embedding_, sparse.embedding_) < 1e-11


def test_clusters_are_found_without_it():
    X = np.vstack([points(30), points(30) + np.array([9, 0, 0])])
    labels = quietly(SpectralClustering(2, kernel="gaussian", epsilon=2.0, diagonal=False).fit, X).labels_
    assert len(set(labels[:30])) == len(set(labels[30:])) == 1
    assert labels[0] != labels[30]


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "kernel='gaussian' or 'cosine'"),
        ({"kernel": "adaptive"}, "from a sample to an anchor"),
        ({"kernel": kernels.Variable(2)}, "from a sample to an anchor"),
        ({"kernel": "precomputed"}, "fill_diagonal"),
        ({"kernel": lambda x, y: 1.0}, "a callable may have any"),
        ({"solver": LowRank(), "landmarks": 0.5}, "no longer of low rank"),
    ],
)
def test_kernels_that_cannot_leave_the_diagonal_out_say_why(parameters, reason):
    with pytest.raises(ValueError, match=reason):
        DiffusionMaps(diagonal=False, **parameters).fit(np.abs(points()))
