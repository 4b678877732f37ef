"""Losses, reconstructions and diffusion distances: against naive formulas."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.base import clone

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
from outfold.datasets import s_curve
from outfold.extensions import KernelRidge
from outfold.operators.expansion import SmallEndKernel
from outfold.quality.kernel_expansion import expansion

WITHOUT_KERNEL = {  # methods whose coordinates are no eigenfunctions of a kernel, and what they are
    name: "scaled distances"
    if name.startswith("phate")
    else r"eigenfunctions of a generator.*kernel='adaptive'"
    if "variable" in name
    else "those of a walk without the diagonal"
    for name in ALL_METHODS
    if name.startswith("phate") or "variable" in name or "without the diagonal" in name
}
WITH_KERNEL = [name for name in ALL_METHODS if name not in WITHOUT_KERNEL]
OWN_RULE = [
    name
    for name in WITH_KERNEL
    if name not in APPROXIMATE and name not in ("roseland nearest landmarks", "roseland t=0 manhattan")
]

APART = ["diffusion-maps joined", "diffusion-maps union", "diffusion-maps mutual", "isomap", "locally-linear-embedding"]


# -- kernel loss -----------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", WITH_KERNEL)
def test_every_method_has_a_loss_on_new_rows(name):
    X = cloud(0)
    fitted = quietly(clone(ALL_METHODS[name]).fit, X)
    Z = new_points(X, 0, 15)
    loss = quality.kernel_loss(fitted, Z, against="anchors", ranks=range(len(fitted.eigenvalues_) + 1))
    assert np.isfinite(loss).all()
    small = isinstance(expansion(fitted), SmallEndKernel)  # what a new row's kernel has of itself no anchor sees
    if name in OWN_RULE and not small and not name.startswith("roseland") and "low rank" not in name:
        assert (np.diff(loss) <= 1e-12 * loss[0]).all()  # a projection of the row on more functions
    if "isomap" in name and fitted.report_.n_anchors != len(X):
        with pytest.raises(ValueError, match="against='anchors'"):
            quality.kernel_loss(fitted, Z)
    else:
        assert np.isfinite(quality.kernel_loss(fitted, Z)).all()


@pytest.mark.parametrize("name", WITHOUT_KERNEL)
def test_what_is_no_eigenfunction_of_a_kernel_has_no_kernel_to_lose(name):
    fitted = quietly(clone(ALL_METHODS[name]).fit, cloud(0))
    for measure in (quality.kernel_loss, quality.diffusion_distance):
        with pytest.raises(ValueError, match=f"The coordinates of {type(fitted).__name__} are {WITHOUT_KERNEL[name]}"):
            measure(fitted, cloud(0))


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


def symmetric(X, epsilon, alpha):
    W = np.exp(-cdist(X, X, "sqeuclidean") / (2 * epsilon))
    q = W.sum(axis=1) ** alpha
    K = W / np.multiply.outer(q, q)
    d = K.sum(axis=1)
    return K / np.sqrt(np.multiply.outer(d, d))


# -- reconstruction --------------------------------------------------------------------------


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


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
def test_any_extension_is_measured_beside_nystrom_at_its_rank(kernel):
    X, _ = s_curve(400, random_state=0)
    X, Z = X[:300], X[300:]
    ridge = DiffusionMaps(4, t=2, kernel=kernel, extension=KernelRidge()).fit(X)
    plain = DiffusionMaps(4, t=2, kernel=kernel).fit(X)
    places = ridge.transform(Z, on_far="keep")
    found, own = quality.reconstruction_error(ridge, Z), quality.reconstruction_error(plain, Z)
    assert own.error == own.nystrom == found.nystrom
    assert found.error != found.nystrom
    assert found.every < found.error
    given = quality.reconstruction_error(plain, Z, embedding=places)
    assert given.error == pytest.approx(found.error, rel=1e-12)
    worse = quality.reconstruction_error(plain, Z, embedding=places[::-1])
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


@pytest.mark.parametrize("t", [1, 3])
def test_the_exact_diffusion_distance_in_local_units_is_that_of_the_powers_of_p(t):
    X = cloud(0)
    maps = DiffusionMaps(2, t=t, kernel="adaptive", n_neighbors=8).fit(X)
    rule = maps.model_.rule
    values = rule.geometry.cross(X)
    values.data = rule.kernel.affinity(values.data)
    W = np.empty(values.shape)  # columns in the order of the rows
    W[:, cdist(rule.geometry.anchors, X).argmin(axis=1)] = values.toarray()
    A = (W / W.sum(axis=0)) @ W.T
    q = A.sum(axis=1)
    K = A / np.multiply.outer(q, q)
    d = K.sum(axis=1)
    power, stationary = np.linalg.matrix_power(K / d[:, None], t), d / d.sum()
    naive = cdist(power / np.sqrt(stationary), power / np.sqrt(stationary))
    np.testing.assert_allclose(quality.diffusion_distance(maps, X, exact=True), naive, atol=1e-10)
    assert (quality.diffusion_distance(maps, X) <= naive + 1e-12).all()
    every = DiffusionMaps(39, t=t, kernel="adaptive", n_neighbors=8).fit(X)
    np.testing.assert_allclose(quality.diffusion_distance(every, X, X[:5]), naive[:, :5], atol=1e-8)


def test_only_a_chain_between_the_anchors_has_powers():
    X = cloud(0)
    for model in (Roseland(2, landmarks=30), Roseland(2, landmarks=30, kernel="gaussian"), DiffusionMaps(2, t=0.5)):
        with pytest.raises(ValueError, match="exact=True is for DiffusionMaps with a whole t >= 1"):
            quality.diffusion_distance(quietly(model.fit, X), X, exact=True)


@pytest.mark.parametrize(("kernel", "count"), [("gaussian", 12), ("adaptive", 40)])
def test_new_rows_have_diffusion_distances(kernel, count):
    X, _ = s_curve(200, random_state=0)
    maps = DiffusionMaps(count, t=3, kernel=kernel).fit(X[:150])
    assert maps.eigenvalues_[-1] ** 3 < 0.1  # what the coordinates leave out is little
    kept, exact = (quality.diffusion_distance(maps, X[150:], X[:150], exact=e) for e in (False, True))
    assert kept.shape == (50, 150)
    np.testing.assert_allclose(kept, exact, rtol=0.1)
    rose = Roseland(3, landmarks=60, random_state=0).fit(X)
    np.testing.assert_allclose(
        quality.diffusion_distance(rose, X), cdist(rose.transform(X), rose.transform(X)), atol=1e-12
    )
