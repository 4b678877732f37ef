"""How good an embedding is: every number against an exact formula, a naive loop or scikit-learn."""

import pickle
import resource
import warnings

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist, pdist
from scipy.stats import pearsonr, spearmanr
from sklearn.base import clone
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from catalogue import ALL_METHODS, APPROXIMATE, cloud, new_points, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    graphs,
    quality,
)
from outfold.datasets import s_curve, swiss_roll
from outfold.expansions import Small, expansion
from outfold.extensions import KernelRidge
from outfold.quality import Alignment, aligned_error


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    fixed = rng.normal(size=(40, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return fixed @ turn * 2.5 + [1.0, -2.0, 3.0], fixed, turn


def test_a_similarity_is_undone(pair):
    moving, fixed, turn = pair
    found = Alignment.of(moving, fixed)
    np.testing.assert_allclose(found(moving), fixed, atol=1e-12)
    np.testing.assert_allclose(found.rotation, turn.T, atol=1e-12)
    assert found.scale == pytest.approx(0.4)


def test_a_rigid_motion_keeps_lengths(pair):
    moving, fixed, _ = pair
    found = Alignment.of(moving, fixed, rescale=False)
    assert found.scale == 1
    lengths = np.linalg.norm(np.diff(found(moving), axis=0), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(np.diff(moving, axis=0), axis=1))


def test_the_error_is_scipys_disparity(pair):
    moving, fixed, _ = pair
    moving = moving + np.random.default_rng(1).normal(size=moving.shape)
    assert aligned_error(moving, fixed) == pytest.approx(np.sqrt(procrustes(fixed, moving)[2]))


def test_weights_are_repeats(pair):
    moving, fixed, _ = pair
    moving = moving + np.random.default_rng(1).normal(size=moving.shape)
    times = np.arange(40) % 3
    again = np.repeat(np.arange(40), times)
    weighted, repeated = Alignment.of(moving, fixed, weights=times), Alignment.of(moving[again], fixed[again])
    np.testing.assert_allclose(weighted(moving), repeated(moving), atol=1e-12)


def test_embeddings_of_different_rows_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(4, 2\)"):
        Alignment.of(np.ones((3, 2)), np.ones((4, 2)))


# -- aligned MSE and angles ------------------------------------------------------------------


def test_the_aligned_mse_is_dorados_with_the_rotation_the_right_way_round(pair):
    _, fixed, turn = pair
    rng = np.random.default_rng(2)
    moving = fixed @ turn + 0.1 * rng.normal(size=fixed.shape)
    U, _, V = np.linalg.svd(moving[:25].T @ fixed[:25])
    naive = np.mean([np.sum((fixed[q] - moving[q] @ (U @ V)) ** 2) for q in range(25, 40)])
    assert quality.aligned_mse(moving, fixed, fit_rows=np.arange(25)) == pytest.approx(naive, rel=1e-12)
    as_mask = quality.aligned_mse(moving, fixed, fit_rows=np.arange(40) < 25)
    assert as_mask == pytest.approx(naive, rel=1e-12)
    transposed = np.mean([np.sum((fixed[q] - moving[q] @ (U @ V).T) ** 2) for q in range(25, 40)])
    assert naive < transposed / 10  # what the thesis prints


def test_the_aligned_mse_weighs_rows_as_repeats(pair):
    _, fixed, turn = pair
    moving = fixed @ turn + 0.1 * np.random.default_rng(2).normal(size=fixed.shape)
    times, chosen = 1 + np.arange(40) % 3, np.arange(40) < 25
    again = np.repeat(np.arange(40), times)
    weighted = quality.aligned_mse(moving, fixed, fit_rows=chosen, weights=times)
    assert weighted == pytest.approx(quality.aligned_mse(moving[again], fixed[again], fit_rows=chosen[again]))


@pytest.mark.parametrize("rows", [np.arange(40), np.zeros(40, bool)])
def test_an_aligned_mse_needs_rows_on_both_sides(pair, rows):
    with pytest.raises(ValueError, match="of 40 rows"):
        quality.aligned_mse(pair[0], pair[1], fit_rows=rows)


def test_angles_between_planes_are_those_they_were_turned_by():
    angles = np.array([0.7, 1e-9])
    A = np.eye(5)[:, :2]
    B = A * np.cos(angles) + np.eye(5)[:, 2:4] * np.sin(angles)
    np.testing.assert_allclose(quality.subspace_angles(A, B @ [[2.0, 1.0], [0.0, 3.0]]), angles, rtol=1e-6)


def test_angles_in_a_measure_are_those_of_repeated_rows():
    rng = np.random.default_rng(0)
    A, B, times = rng.normal(size=(20, 2)), rng.normal(size=(20, 3)), rng.integers(1, 4, 20)
    again = np.repeat(np.arange(20), times)
    weighted = quality.subspace_angles(A, B, weights=times)
    np.testing.assert_allclose(weighted, quality.subspace_angles(A[again], B[again]), rtol=1e-10)


def test_eigenfunctions_span_the_same_space_in_their_measure():
    X, _ = s_curve(150, random_state=0)
    maps = DiffusionMaps(3).fit(X)
    canonical = DiffusionMaps(3, coordinates="canonical").fit(X)
    root = canonical.embedding_ / canonical.eigenvalues_**0.5 / (maps.embedding_ / maps.eigenvalues_)
    assert quality.subspace_angles(maps.embedding_ * root[:, :1], canonical.embedding_).max() < 1e-8
    assert quality.subspace_angles(maps.embedding_, canonical.embedding_).max() > 1e-3


def test_columns_that_span_no_space_are_refused():
    with pytest.raises(ValueError, match="2 columns of B are not independent"):
        quality.subspace_angles(np.eye(3)[:, :2], np.ones((3, 2)))


# -- neighbours ------------------------------------------------------------------------------


def naive_ranks(x, rows, skip=None):
    """1, 2, ... by distance, then by row; 0 for the row itself."""
    squared = [float(np.sum((x - y) ** 2)) for y in rows]
    order = sorted((j for j in range(len(rows)) if j != skip), key=lambda j: (squared[j], j))
    ranks = np.zeros(len(rows), int)
    for place, j in enumerate(order):
        ranks[j] = place + 1
    return ranks


def naive_score(near, near_asking, far, far_asking, k, itself):
    total, choices = 0, len(near) - itself
    for i in range(len(near_asking)):
        skip = i if itself else None
        close, ranks = naive_ranks(near_asking[i], near, skip), naive_ranks(far_asking[i], far, skip)
        total += sum(max(0, ranks[j] - k) for j in range(len(near)) if 1 <= close[j] <= k)
    worst = k * (2 * choices - 3 * k + 1) / 2
    return 1 - total / (len(near_asking) * worst)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_trustworthiness_of_training_rows_is_scikit_learns(k):
    X = np.random.default_rng(0).normal(size=(120, 5))
    assert (
        abs(quality.trustworthiness(X, X[:, :2], n_neighbors=k) - sklearn_trustworthiness(X, X[:, :2], n_neighbors=k))
        < 1e-12
    )
    assert (
        abs(quality.continuity(X, X[:, :2], n_neighbors=k) - sklearn_trustworthiness(X[:, :2], X, n_neighbors=k))
        < 1e-12
    )


@pytest.mark.parametrize("kind", ["plain", "duplicates", "grid"])
@pytest.mark.parametrize("held_out", [False, True])
def test_ranks_agree_with_naive_ones(kind, held_out):
    X = cloud(3, kind, rows=50)
    Z = X.copy() if not held_out else np.vstack([new_points(X, 0, 12), X[:3]])
    E, F = np.round(X[:, :2], 1), np.round(Z[:, :2], 1)
    new = (Z, F) if held_out else None
    trust = quality.trustworthiness(X, E, n_neighbors=4, new=new)
    assert abs(trust - naive_score(E, F, X, Z, 4, not held_out)) < 1e-12
    joined = quality.continuity(X, E, n_neighbors=4, new=new)
    assert abs(joined - naive_score(X, Z, E, F, 4, not held_out)) < 1e-12


def test_new_rows_that_keep_every_neighbour_score_one_and_shuffled_ones_little():
    X = np.random.default_rng(0).normal(size=(200, 2))
    Z = np.random.default_rng(1).normal(size=(50, 2))
    for score in (quality.trustworthiness, quality.continuity):
        assert score(X, 3 * X, new=(Z, 3 * Z)) == 1
        assert score(X, X, new=(Z, Z[::-1])) < 0.8


def test_a_part_of_the_rows_says_the_same_within_its_standard_error():
    X, _ = swiss_roll(1500, random_state=0)
    E = X[:, [0, 1]]
    for score in (quality.trustworthiness, quality.continuity):
        whole = score(X, E)
        assert (whole.standard_error, whole.rows) == (0, 1500)
        parts = [score(X, E, rows=200, random_state=seed) for seed in range(12)]
        off = np.array([(part - whole) / part.standard_error for part in parts])
        assert 0.4 < np.sqrt(np.mean(off**2)) < 2
        assert all(part.rows == 200 for part in parts)


def test_scores_do_not_depend_on_threads_or_blocks(monkeypatch):
    X, _ = s_curve(300, random_state=0)
    one = quality.trustworthiness(X, X[:, :2], n_jobs=1)
    monkeypatch.setattr("outfold.neighbourhoods.TABLE_ENTRIES", 700)
    assert quality.trustworthiness(X, X[:, :2], n_jobs=2) == one
    value = quality.distance_correlation(X, X[:, :2])
    monkeypatch.setattr("outfold.neighbourhoods.TABLE_ENTRIES", 1 << 22)
    assert abs(quality.distance_correlation(X, X[:, :2]) - value) < 1e-13


def test_weights_of_asked_rows_are_repeats_of_their_answers():
    X = np.random.default_rng(0).normal(size=(60, 3))
    Z = np.random.default_rng(1).normal(size=(10, 3))
    times = np.arange(10) % 3
    again = np.repeat(np.arange(10), times)
    weighted = quality.trustworthiness(X, X[:, :1], new=(Z, Z[:, :1]), sample_weight=times)
    assert abs(weighted - quality.trustworthiness(X, X[:, :1], new=(Z[again], Z[again, :1]))) < 1e-14


def test_a_score_is_a_float_that_keeps_its_standard_error():
    X, _ = s_curve(300, random_state=0)
    score = quality.trustworthiness(X, X[:, :2], rows=50)
    again = pickle.loads(pickle.dumps(score))
    assert (again, again.standard_error, again.rows) == (score, score.standard_error, 50)
    assert "+-" in str(score)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_neighbors": 10}, "less than half the 20 rows"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
        ({"rows": 0}, "rows=0"),
        ({"new": np.ones((3, 2))}, "is a pair"),
        ({"new": (np.ones((3, 2)), np.ones((3, 1)))}, "3 columns, but its new rows have 2"),
        ({"sample_weight": -np.ones(20)}, "sample_weight"),
    ],
)
def test_bad_questions_are_refused(change, told):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match=told):
        quality.trustworthiness(X, X[:, :1], **change)


def test_rows_with_nan_and_rows_of_different_number_are_refused():
    X = np.ones((20, 3))
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="1 of 20 rows of X hold NaN"):
        quality.continuity(X, np.ones((20, 1)))
    with pytest.raises(ValueError, match="20 rows, but embedding has 19"):
        quality.continuity(np.ones((20, 2)), np.ones((19, 1)))


# -- distances -------------------------------------------------------------------------------


def naive_szekely(X, Y):
    tables = []
    for Z in (X, Y):
        D = cdist(Z, Z)
        tables.append(D - D.mean(axis=0) - D.mean(axis=1)[:, None] + D.mean())
    A, B = tables
    return np.sqrt((A * B).mean() / np.sqrt((A * A).mean() * (B * B).mean()))


def test_distance_correlations_agree_with_naive_ones():
    X = cloud(0, "duplicates", rows=60)
    E = X[:, :1] ** 2
    assert abs(quality.distance_correlation(X, E) - pearsonr(pdist(X), pdist(E))[0]) < 1e-12
    by_rank = quality.distance_correlation(X, E, method="spearman")
    assert abs(by_rank - spearmanr(pdist(X), pdist(E))[0]) < 1e-12
    assert abs(quality.distance_correlation(X, E, method="szekely") - naive_szekely(X, E)) < 1e-12


@pytest.mark.parametrize(("method", "naive"), [("pearson", pearsonr), ("spearman", spearmanr)])
def test_distance_correlations_of_new_rows_agree_with_naive_ones(method, naive):
    X, Z = cloud(0, rows=60), cloud(1, rows=25)
    found = quality.distance_correlation(X, X[:, :2], new=(Z, Z[:, :2]), method=method)
    expected = naive(cdist(Z, X).ravel(), cdist(Z[:, :2], X[:, :2]).ravel())[0]
    assert abs(found - expected) < 1e-12
    with pytest.raises(ValueError, match="szekely"):
        quality.distance_correlation(X, X[:, :2], new=(Z, Z[:, :2]), method="szekely")


@pytest.mark.parametrize("method", ["pearson", "spearman", "szekely"])
def test_the_standard_error_of_a_distance_correlation_is_about_right(method):
    X, _ = swiss_roll(2000, random_state=0)
    E = X[:, :1]
    whole = quality.distance_correlation(X, E, method=method, rows=1500)
    parts = [quality.distance_correlation(X, E, method=method, rows=150, random_state=s) for s in range(1, 25)]
    told = np.mean([part.standard_error for part in parts])
    assert 0.4 < np.sqrt(np.mean((np.array(parts, dtype=float) - whole) ** 2)) / told < 2


# -- kernel loss -----------------------------------------------------------------------------

OWN_RULE = [
    name
    for name in ALL_METHODS
    if name not in APPROXIMATE and name not in ("roseland nearest landmarks", "roseland t=0 manhattan")
]


APART = ["diffusion-maps joined", "diffusion-maps union", "diffusion-maps mutual", "isomap", "locally-linear-embedding"]


@pytest.mark.parametrize(("name", "kind"), [(n, "plain") for n in OWN_RULE] + [(n, "clusters") for n in APART])
def test_the_loss_on_training_rows_is_that_of_the_eigenvalues_left_out(name, kind):
    """Eckart and Young, against a dense decomposition of the kernel's table."""
    X = cloud(0, kind)
    fitted = quietly(clone(ALL_METHODS[name]).fit, X)
    found = expansion(fitted)
    points, measure = (found.anchors, found.measure) if found.solved_on_anchors else (X, np.ones(len(X)))
    K = found.to_anchors(points) if found.solved_on_anchors else found.table(points, points)
    values = eigh(K * np.sqrt(np.multiply.outer(measure, measure)), eigvals_only=True)[::-1]
    used = np.append(found.trivial, found.values) if found.trivial else found.values
    remaining, left = list(values), []
    for value in used:
        taken = remaining.pop(int(np.abs(np.array(remaining) - value).argmin()))
        assert taken == pytest.approx(value, abs=1e-10 * max(1, values[0]))
        left.append(np.sum(np.square(remaining)))
    left = left[bool(found.trivial) :]
    loss = quality.kernel_loss(fitted, None if found.solved_on_anchors else X)
    np.testing.assert_allclose(loss, np.array(left) / measure.sum() ** 2, atol=1e-10 * max(1, values[0] ** 2))


def test_the_loss_of_training_rows_does_not_depend_on_how_they_are_named():
    X, _ = s_curve(80, random_state=0)
    for method in (DiffusionMaps(3), Isomap(3), KernelPCA(3, kernel="rbf"), LocallyLinearEmbedding(3)):
        fitted = method.fit(X)
        told = [
            quality.kernel_loss(fitted),
            quality.kernel_loss(fitted, X),
            quality.kernel_loss(fitted, X, against="anchors"),
        ]
        np.testing.assert_allclose(told, [told[0]] * 3, rtol=1e-10)


def test_weights_of_training_rows_count_in_the_loss_as_repeats():
    X, _ = s_curve(60, random_state=0)
    times = 1 + np.arange(60) % 3
    again = np.repeat(np.arange(60), times)
    for method in (
        DiffusionMaps(2, epsilon=0.1),
        ClassicalMDS(2),
        LaplacianEigenmaps(2, epsilon=0.1, laplacian="unnormalized"),
    ):
        weighted = clone(method).fit(X, sample_weight=times)
        repeated = clone(method).fit(X[again])
        np.testing.assert_allclose(quality.kernel_loss(weighted), quality.kernel_loss(repeated), rtol=1e-9)
        rows = quality.kernel_loss(weighted, X, sample_weight=times)
        np.testing.assert_allclose(rows, quality.kernel_loss(weighted), rtol=1e-9)


def test_the_loss_on_new_rows_is_the_naive_one():
    X, _ = s_curve(120, random_state=0)
    X, Z = X[:90], X[90:]
    maps = DiffusionMaps(3, epsilon=0.2, alpha=1, t=2).fit(X)
    W, V, U = (np.exp(-cdist(a, b, "sqeuclidean") / 0.4) for a, b in ((X, X), (Z, X), (Z, Z)))
    q, of_z = W.sum(axis=1), V.sum(axis=1)
    d = (W / np.multiply.outer(q, q)).sum(axis=1)
    d_z = (V / np.multiply.outer(of_z, q)).sum(axis=1)
    C = U / np.multiply.outer(of_z * np.sqrt(d_z), of_z * np.sqrt(d_z))
    psi = maps.transform(Z) / maps.eigenvalues_**2
    root = np.sqrt(d_z / d.sum())
    naive = []
    left = C - np.multiply.outer(root, root)
    for r in range(3):
        left = left - maps.eigenvalues_[r] * np.multiply.outer(root * psi[:, r], root * psi[:, r])
        naive.append(np.mean(left**2))
    np.testing.assert_allclose(quality.kernel_loss(maps, Z), naive, rtol=1e-10)
    np.testing.assert_allclose(quality.kernel_loss(maps, Z, ranks=[3, 0])[0], naive[2], rtol=1e-10)


def test_the_centred_loss_on_new_rows_is_the_naive_one():
    X, _ = s_curve(100, random_state=0)
    X, Z = X[:70], X[70:]
    scaling = ClassicalMDS(2).fit(X)
    half = [-0.5 * cdist(a, b, "sqeuclidean") for a, b in ((X, X), (Z, X), (Z, Z))]
    K = half[2] - half[1].mean(axis=1)[:, None] - half[1].mean(axis=1) + half[0].mean()
    E = scaling.transform(Z)
    naive = [np.mean((K - E[:, :r] @ E[:, :r].T) ** 2) for r in (1, 2)]
    np.testing.assert_allclose(quality.kernel_loss(scaling, Z), naive, rtol=1e-10)


def test_geodesics_between_new_rows_go_through_training_rows():
    X, _ = s_curve(100, random_state=0)
    X, Z = X[:80], X[80:90]
    flat = Isomap(2, n_neighbors=6).fit(X)
    geometry = flat.model_.rule.geometry
    D = np.sqrt(-2 * geometry.pairs(Z, Z))
    through = np.sqrt(-2 * (geometry.values(Z)[0] @ np.eye(80)))
    nodes = geometry.anchors if hasattr(geometry, "anchors") else geometry.search.distances.anchors
    reach = cdist(Z, nodes)
    for i in range(10):
        for j in range(10):
            near = np.argsort(reach[j])[:6]
            naive = 0 if i == j else (through[i, near] + reach[j, near]).min()
            assert D[i, j] == pytest.approx(naive, abs=1e-10)


@pytest.mark.parametrize("name", [name for name in ALL_METHODS if not name.startswith("phate")])
def test_every_method_has_a_loss_on_new_rows(name):
    X = cloud(0)
    fitted = quietly(clone(ALL_METHODS[name]).fit, X)
    Z = new_points(X, 0, 15)
    loss = quality.kernel_loss(fitted, Z, against="anchors", ranks=range(len(fitted.eigenvalues_) + 1))
    assert np.isfinite(loss).all()
    small = isinstance(expansion(fitted), Small)  # what a new row's kernel has of itself no anchor sees
    if name in OWN_RULE and not small and not name.startswith("roseland") and "low rank" not in name:
        assert (np.diff(loss) <= 1e-12 * loss[0]).all()  # a projection of the row on more functions
    if "isomap" in name and fitted.report_.n_anchors != len(X):
        with pytest.raises(ValueError, match="against='anchors'"):
            quality.kernel_loss(fitted, Z)
    else:
        assert np.isfinite(quality.kernel_loss(fitted, Z)).all()


def test_scaled_distances_have_no_kernel_to_lose():
    with pytest.raises(ValueError, match="PHATE are scaled distances, not eigenfunctions"):
        quality.kernel_loss(quietly(clone(ALL_METHODS["phate"]).fit, cloud(0)))


def test_a_part_of_the_rows_has_about_the_loss_of_all():
    X, _ = s_curve(600, random_state=0)
    maps = DiffusionMaps(3).fit(X[:200])
    whole = quality.kernel_loss(maps, X[200:])
    part = quality.kernel_loss(maps, X[200:], rows=150, random_state=1)
    np.testing.assert_allclose(part, whole, rtol=0.25)
    assert not np.array_equal(part, whole)


def test_a_row_that_sees_nothing_is_its_nearest_anchor_and_one_beyond_floating_point_is_refused():
    X, _ = s_curve(80, random_state=0)
    far = np.vstack([X[:5], X[7] + [60.0, 0.0, 0.0]])
    mutual = quietly(DiffusionMaps(2, n_neighbors=graphs.Mutual(8)).fit, X)
    nearest = np.vstack([X[:5], X[cdist(far[5:], X).argmin()]])
    found = expansion(mutual)
    np.testing.assert_allclose(found.table(far, far), found.table(nearest, nearest), rtol=1e-10)
    np.testing.assert_allclose(found.constant(far), found.constant(nearest), rtol=1e-10)
    assert np.isfinite(quality.kernel_loss(mutual, far)).all()
    with pytest.raises(ValueError, match="1 of 6 rows are so far outside"):
        quality.kernel_loss(DiffusionMaps(2, n_neighbors=None).fit(X), far)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda X: quality.kernel_loss(Roseland(2, landmarks=20, random_state=0).fit(X)), "pass X"),
        (lambda X: quality.kernel_loss(DiffusionMaps(2).fit(X), ranks=[3]), "from 0 to 2"),
        (lambda X: quality.kernel_loss(DiffusionMaps(2).fit(X), X[:, :2]), "2 features"),
        (lambda X: quality.kernel_loss(DiffusionMaps(2, metric="precomputed").fit(cdist(X, X))), "precomputed"),
        (lambda X: quality.kernel_loss(DiffusionMaps(2).fit(X), against="all"), "against='all'"),
        (lambda X: quality.reconstruction_error(LocallyLinearEmbedding(2).fit(X), X), "small end"),
        (lambda X: quality.reconstruction_error(DiffusionMaps(2).fit(X), X, rank=3), "rank=3"),
        (lambda X: quality.reconstruction_error(DiffusionMaps(2).fit(X), X, embedding=X), r"\(50, 3\)"),
        (
            lambda X: quality.reconstruction_error(DiffusionMaps(2, n_neighbors=8).fit(X), X, degrees="joint"),
            "n_neighbors=None",
        ),
        (lambda X: quality.diffusion_distance(DiffusionMaps(2, t=0.5).fit(X), X, exact=True), "whole t"),
        (lambda X: quality.diffusion_distance(Isomap(2).fit(X), X), "no diffusion time"),
        (lambda X: quality.diffusion_distance(DiffusionMaps(2).fit(X), X, pairs=[0, 1]), "two columns"),
    ],
)
def test_questions_that_have_no_answer_are_refused(call, told):
    X, _ = s_curve(50, random_state=0)
    with pytest.raises(ValueError, match=told):
        call(X)


# -- reconstruction --------------------------------------------------------------------------


def symmetric(X, epsilon, alpha):
    W = np.exp(-cdist(X, X, "sqeuclidean") / (2 * epsilon))
    q = W.sum(axis=1) ** alpha
    K = W / np.multiply.outer(q, q)
    d = K.sum(axis=1)
    return K / np.sqrt(np.multiply.outer(d, d))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_joint_reconstruction_is_dorados_formula(alpha):
    X, _ = s_curve(60, random_state=0)
    A = symmetric(X, 0.05, alpha)
    direct = np.linalg.norm(A[40:, 40:] - A[40:, :40] @ np.linalg.solve(A[:40, :40], A[:40, 40:]))
    maps = quietly(DiffusionMaps(39, epsilon=0.05, alpha=alpha, t=1).fit, X[:40])
    found = quality.reconstruction_error(maps, X[40:], degrees="joint")
    assert abs(found.every - direct) < 1e-10
    assert abs(found.error - direct) < 1e-10  # all eigenpairs, as transform extends them
    assert abs(found.norm - np.linalg.norm(A[40:, 40:])) < 1e-10
    squared = quality.reconstruction_error(maps, X[40:], degrees="joint", squared=True)
    assert abs(squared.error - direct**2) < 1e-10


@pytest.mark.parametrize("options", [{"t": 1}, {"t": 4}, {"coordinates": "canonical"}, {"n_neighbors": 8}])
def test_all_eigenpairs_of_transform_reconstruct_as_the_inverse_does(options):
    X, _ = s_curve(60, random_state=0)
    maps = quietly(DiffusionMaps(39, **{"epsilon": 0.05, **options}).fit, X[:40])
    found = quality.reconstruction_error(maps, X[40:])
    expanded = expansion(maps)
    A, B, C = (expanded.table(a, b) for a, b in ((X[:40], X[:40]), (X[40:], X[:40]), (X[40:], X[40:])))
    direct = np.linalg.norm(C - B @ np.linalg.solve(A, B.T))
    assert abs(found.every - direct) < 1e-9 * max(1, direct)
    assert abs(found.error - direct) < 1e-9 * max(1, direct)


def test_any_extension_is_measured_beside_nystrom_at_its_rank():
    X, _ = s_curve(400, random_state=0)
    X, Z = X[:300], X[300:]
    ridge = DiffusionMaps(4, t=2, extension=KernelRidge()).fit(X)
    plain = DiffusionMaps(4, t=2).fit(X)
    found, own = quality.reconstruction_error(ridge, Z), quality.reconstruction_error(plain, Z)
    assert own.error == own.nystrom == found.nystrom
    assert found.error != found.nystrom
    assert found.every < found.error
    given = quality.reconstruction_error(plain, Z, embedding=ridge.transform(Z))
    assert given.error == pytest.approx(found.error, rel=1e-12)
    worse = quality.reconstruction_error(plain, Z, embedding=ridge.transform(Z)[::-1])
    assert worse.error > 1.2 * found.error
    assert float(found) == found.error
    assert "rank 4" in str(found)


def test_centred_kernels_are_reconstructed_too():
    X, _ = s_curve(100, random_state=0)
    scaling = ClassicalMDS(3).fit(X[:70])
    found = quality.reconstruction_error(scaling, X[70:])
    assert max(found.error, found.every) < 1e-10 * found.norm  # three features have rank three
    assert quality.reconstruction_error(scaling, X[70:], rank=2).error > 1e-3 * found.norm


def test_a_part_of_the_rows_reconstructs_about_as_badly():
    X, _ = s_curve(900, random_state=0)
    maps = DiffusionMaps(3).fit(X[:300])
    whole = quality.reconstruction_error(maps, X[300:])
    part = quality.reconstruction_error(maps, X[300:], rows=300)
    assert part.rows == 300
    assert part.error == pytest.approx(whole.error, rel=0.25)


# -- diffusion distance ----------------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 3])
def test_the_exact_diffusion_distance_is_that_of_the_powers_of_p(t):
    X = cloud(0)
    maps = DiffusionMaps(2, t=t, epsilon=0.5).fit(X)
    W = np.exp(-cdist(X, X, "sqeuclidean"))
    q = W.sum(axis=1)
    K = W / np.multiply.outer(q, q)
    d = K.sum(axis=1)
    power, stationary = np.linalg.matrix_power(K / d[:, None], t), d / d.sum()
    naive = np.array([[np.sqrt(np.sum((a - b) ** 2 / stationary)) for a in power] for b in power])
    np.testing.assert_allclose(quality.diffusion_distance(maps, X, exact=True), naive, atol=1e-10)
    kept = quality.diffusion_distance(maps, X)
    assert (kept <= naive + 1e-12).all()
    every = DiffusionMaps(39, t=t, epsilon=0.5).fit(X)
    np.testing.assert_allclose(quality.diffusion_distance(every, X, X[:5]), naive[:, :5], atol=1e-8)
    pairs = np.array([[0, 1], [5, 39], [7, 7]])
    for exact, table in ((False, kept), (True, naive)):
        some = quality.diffusion_distance(maps, X, pairs=pairs, exact=exact)
        np.testing.assert_allclose(some, table[pairs[:, 0], pairs[:, 1]], atol=1e-10)


def test_new_rows_have_diffusion_distances():
    X, _ = s_curve(200, random_state=0)
    maps = DiffusionMaps(12, t=3).fit(X[:150])
    kept, exact = (quality.diffusion_distance(maps, X[150:], X[:150], exact=e) for e in (False, True))
    assert kept.shape == (50, 150)
    np.testing.assert_allclose(kept, exact, rtol=0.1)
    rose = Roseland(3, landmarks=60, random_state=0).fit(X)
    np.testing.assert_allclose(
        quality.diffusion_distance(rose, X), cdist(rose.transform(X), rose.transform(X)), atol=1e-12
    )


# -- induction versus perturbation -----------------------------------------------------------


def test_induction_and_perturbation_are_those_of_a_naive_experiment():
    X, _ = s_curve(60, random_state=0)
    found = quality.induction_versus_perturbation(ClassicalMDS(2), X, exchanged=[0.1], left_out=None, random_state=3)
    order = np.random.default_rng(3).permutation(60)
    F, first, second = order[12:], order[:6], order[6:12]
    one, other = (ClassicalMDS(2).fit_transform(X[np.append(F, part)])[:48] for part in (first, second))
    table = np.column_stack([np.ones(48), other])
    perturbed = np.linalg.norm(table @ np.linalg.pinv(table) @ one - one, axis=1)
    induced = []
    for i in range(48):
        rest = np.append(np.delete(F, i), first)
        left = ClassicalMDS(2).fit(X[rest])
        turn = np.sign((left.embedding_[:47] * np.delete(one, i, axis=0)).sum(axis=0))
        induced.append(np.linalg.norm(left.transform(X[F[i]][None])[0] * turn - one[i]))
    delta = perturbed - np.array(induced)
    assert found.delta[0] == pytest.approx(delta.mean(), abs=1e-10)
    assert found.standard_error[0] == pytest.approx(delta.std(ddof=1) / np.sqrt(48), abs=1e-10)
    assert found.induction[0] == pytest.approx(np.mean(induced), abs=1e-10)
    assert found.low[0] < found.delta[0] < found.high[0]
    assert (found.points[0], found.fits) == (48, 50)


def test_exchanging_more_perturbs_more_and_induction_is_comparable_to_a_few_percent():
    X, _ = s_curve(200, random_state=0)
    found = quality.induction_versus_perturbation(
        LaplacianEigenmaps(2, epsilon=0.3, n_neighbors=None), X, exchanged=[0.01, 0.1, 0.2], repeats=3, left_out=15
    )
    assert (np.diff(found.perturbation) > 0).all()
    assert 0 < found.comparable_share < 0.1
    assert np.isfinite(found.between_repeats).all()
    assert len(str(found).splitlines()) == 4


def test_signs_that_flip_are_matched_and_rotations_if_asked():
    X, _ = s_curve(80, random_state=0)
    plain = quality.induction_versus_perturbation(DiffusionMaps(2), X, exchanged=[0.1], left_out=10)

    class Fickle(DiffusionMaps):
        """Signs by the number of rows."""

        def fit(self, X, y=None, sample_weight=None):
            super().fit(X)
            sign = np.array([1.0, (-1.0) ** len(X)])
            self.embedding_ = self.embedding_ * sign
            self._sign = sign
            return self

        def transform(self, X, **options):
            return super().transform(X, **options) * self._sign

    flipped = quality.induction_versus_perturbation(Fickle(2), X, exchanged=[0.1], left_out=10)
    np.testing.assert_allclose(flipped.delta, plain.delta, atol=1e-12)
    naive = quality.induction_versus_perturbation(Fickle(2), X, exchanged=[0.1], left_out=10, match="none")
    assert naive.induction[0] > 3 * plain.induction[0]
    rigid = quality.induction_versus_perturbation(DiffusionMaps(2), X, exchanged=[0.1], left_out=10, match="rigid")
    assert rigid.induction[0] < 2 * plain.induction[0]


def test_a_given_matrix_and_columns_of_length_one_are_split_as_rows_are():
    X, _ = s_curve(60, random_state=0)
    options = {"exchanged": [0.1], "left_out": 5}
    given = quality.induction_versus_perturbation(ClassicalMDS(2, metric="precomputed"), cdist(X, X), **options)
    plain = quality.induction_versus_perturbation(ClassicalMDS(2), X, **options)
    np.testing.assert_allclose(given.delta, plain.delta, atol=1e-9)
    unit = quality.induction_versus_perturbation(LocallyLinearEmbedding(1, n_neighbors=8), X, **options)
    assert unit.induction[0] < 0.05


@pytest.mark.parametrize(
    ("change", "told"),
    [({"exchanged": [0.5]}, "between 0 and 1/2"), ({"exchanged": [0.4]}, "leaves"), ({"match": "all"}, "match='all'")],
)
def test_splits_that_cannot_be_are_refused(change, told):
    with pytest.raises(ValueError, match=told):
        quality.induction_versus_perturbation(ClassicalMDS(1), np.random.default_rng(0).normal(size=(30, 2)), **change)


# -- many rows -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_rows_are_judged_in_bounded_memory():
    X, position = s_curve(1_000_000, random_state=0)
    Z, there = s_curve(2000, random_state=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quality.trustworthiness(X, position, rows=200) > 0.999
        assert quality.continuity(X, position, rows=200) > 0.999
        assert quality.trustworthiness(X, position, new=(Z, there), rows=200) > 0.999
        assert 0.5 < quality.distance_correlation(X, position) < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # KB


def test_what_takes_a_table_of_all_anchors_is_left_out_or_refused_when_there_are_many(monkeypatch):
    X, _ = s_curve(120, random_state=0)
    maps = DiffusionMaps(3).fit(X[:80])
    full = quality.reconstruction_error(maps, X[80:])
    monkeypatch.setattr(quality, "EVERY", 79)
    part = quality.reconstruction_error(maps, X[80:])
    assert np.isnan(part.every)
    assert (part.error, part.nystrom, part.norm) == (full.error, full.nystrom, full.norm)
    monkeypatch.setattr("outfold.runners.free_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"80 anchors need about 0\.000205 GB.*exact=False"):
        quality.diffusion_distance(maps, X[:2], exact=True)
    with pytest.raises(MemoryError, match="pairs of 120 rows"):
        quality.distance_correlation(X, X[:, :2])
    assert quality.distance_correlation(X, X[:, :2], rows=50) > 0


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(20), np.zeros(20), np.full(20, np.nan)], ids=str)
def test_weights_that_are_none_are_refused_with_their_shape(weights):
    X = np.random.default_rng(0).normal(size=(20, 2))
    for measure in (
        lambda: quality.aligned_mse(X, X, fit_rows=np.arange(5), weights=weights),
        lambda: quality.subspace_angles(X, X, weights=weights),
        lambda: quality.Alignment.of(X, X, weights=weights),
        lambda: quality.trustworthiness(X, X, sample_weight=weights),
    ):
        with pytest.raises(ValueError, match=r"weight.*of shape \(\d+,\) must be 20 finite numbers >= 0.*not all 0"):
            measure()


def test_a_metric_that_is_not_known_is_refused_with_those_that_are():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="metric='manhatten' is not known. Valid: .*'manhattan'"):
        quality.trustworthiness(X, X, metric="manhatten")


def test_an_embedding_of_one_coordinate_may_be_a_row_of_numbers():
    places = np.random.default_rng(0).normal(size=20)
    assert quality.aligned_error(5 - 2 * places, places) < 1e-12
