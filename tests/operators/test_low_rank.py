"""Low rank: against the dense operator, its formula in plain matrices, the circle, and itself in other words."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ive

from catalogue import aligned_error, cloud, new_points, quietly, up_to_signs
from outfold import DiffusionMaps, KernelPCA, LaplacianEigenmaps, Roseland, SpectralClustering, graphs, landmarks
from outfold.bandwidths import Bandwidth
from outfold.data.sources import InMemory
from outfold.datasets import noisy_moons, s_curve
from outfold.distances import Distances
from outfold.exceptions import SpectrumWarning
from outfold.graphs import fitted
from outfold.kernels import GaussianKernel
from outfold.operators.low_rank import LowRankRule, independent
from outfold.solvers import LowRank

X = cloud(0, rows=150)
Z = new_points(X, 0, 20)
Y = X[::2]


def kernel(a, b, epsilon):
    return np.exp(-cdist(a, b, "sqeuclidean") / (2 * epsilon))


def around(angle):
    return np.column_stack([np.cos(angle), np.sin(angle)])


def by_matrices(X, Y, Z, epsilon, alpha, measure):
    """Eigenvalues, psi of the rows X and of new points Z, and q, all from the n x n low-rank kernel."""
    to_rows = np.linalg.solve(kernel(Y, Y, epsilon), kernel(Y, X, epsilon))
    W = kernel(X, Y, epsilon) @ to_rows
    q = W @ measure
    u = measure * q**-alpha
    h = W @ u
    root = np.sqrt(u / h)
    values, vectors = np.linalg.eigh(root[:, None] * (W + W.T) / 2 * root)
    values, vectors = values[::-1][:5], vectors[:, ::-1][:, :5]
    psi = vectors / np.sqrt(u * h / (u @ h))[:, None]
    P = kernel(Z, Y, epsilon) @ to_rows * u
    return values, psi, (P / P.sum(axis=1, keepdims=True)) @ psi / values, q


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.parametrize("t", [0, 1, 2.5])
@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_all_points_as_landmarks_are_plain_diffusion_maps(alpha, t):
    """To 1e-8: landmarks that the others explain to 1e-10 are left out, n of them move a degree by n times that."""
    ring = around(np.random.default_rng(0).uniform(0, 6, 150))
    for points, new, epsilon in ((X, Z, 0.8), (ring, new_points(ring, 0, 20), 0.1)):
        full = DiffusionMaps(4, epsilon=epsilon, alpha=alpha, t=t).fit(points)
        low = DiffusionMaps(4, epsilon=epsilon, alpha=alpha, t=t, landmarks=points, solver=LowRank()).fit(points)
        np.testing.assert_allclose(low.eigenvalues_, full.eigenvalues_, rtol=0, atol=1e-8)
        np.testing.assert_allclose(low.embedding_, full.embedding_, rtol=0, atol=1e-8)  # signs included
        reached = np.isfinite(low.trust(new).support)
        assert reached.sum() > 15
        found, expected = quietly(low.transform, new)[reached], quietly(full.transform, new)[reached]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    assert len(low.landmarks_) < 60  # the others were explained


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_it_is_the_operator_of_the_low_rank_kernel(alpha):
    measure = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    values, psi, there, _ = by_matrices(X, Y, Z, 0.8, alpha, measure)
    low = DiffusionMaps(4, epsilon=0.8, alpha=alpha, t=0, landmarks=Y, solver=LowRank()).fit(X, sample_weight=measure)
    np.testing.assert_allclose(low.eigenvalues_, values[1:], rtol=0, atol=1e-9)
    assert all("outliers" in text for text in low.report_.warnings)
    assert up_to_signs(low.embedding_, psi[:, 1:]) < 1e-6
    assert up_to_signs(quietly(low.transform, Z), there[:, 1:]) < 1e-5
    rows = cdist(low.landmarks_, X).argmin(axis=1)
    assert up_to_signs(low.eigenvectors_, psi[rows, 1:]) < 1e-6


def test_degrees_are_exact_at_landmarks_and_close_elsewhere():
    curve, _ = s_curve(1500, random_state=0)
    chosen = landmarks.FarthestPoint(300).select(InMemory(curve), np.ones(1500), np.random.default_rng(0)).points
    true = kernel(curve, curve, 0.1).sum(axis=1)
    factor, kept = independent(kernel(chosen, chosen, 0.1), 1e-10)
    found = np.linalg.solve(factor.T, kernel(curve, chosen[kept], 0.1).T)
    q = found.T @ found.sum(axis=1)
    np.testing.assert_allclose(q, true, rtol=0.01)
    at = cdist(curve, chosen[kept]).min(axis=1) == 0
    np.testing.assert_allclose(q[at], true[at], rtol=1e-7)


@pytest.mark.parametrize(("count", "close"), [(40, 5e-3), (60, 1e-4), (100, 1e-8)])
@pytest.mark.parametrize("alpha", [0, 1])
def test_few_landmarks_suffice_on_the_circle(count, close, alpha):
    circle = around(np.arange(1000) * 2 * np.pi / 1000)
    expected = np.repeat(ive([1, 2, 3], 10) / ive(0, 10), 2)
    model = DiffusionMaps(6, epsilon=0.1, alpha=alpha, landmarks=count, solver=LowRank(), random_state=0).fit(circle)
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=0, atol=close)


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_weights_are_repeats(alpha):
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    options = {"landmarks": Y, "epsilon": 0.8, "alpha": alpha, "solver": LowRank()}
    weighted = DiffusionMaps(3, **options).fit(X, sample_weight=counts)
    repeated = DiffusionMaps(3, **options).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(quietly(weighted.transform, Z), quietly(repeated.transform, Z), atol=1e-8)


def test_it_is_closer_to_all_rows_than_landmarks_alone():
    curve, _ = s_curve(2000, random_state=0)
    full = DiffusionMaps(4, epsilon=0.05).fit(curve)

    def error(**options):
        model = DiffusionMaps(4, epsilon=0.05, landmarks=400, random_state=0, **options).fit(curve)
        return aligned_error(full.embedding_, model.embedding_)

    assert error(solver=LowRank()) < 0.2 * error()


def test_threads_and_blocks_do_not_matter():
    curve, _ = s_curve(30_000, random_state=0)
    one, two = (
        DiffusionMaps(3, epsilon=0.1, landmarks=200, solver=LowRank(), random_state=0, n_jobs=k).fit(curve)
        for k in (1, 2)
    )
    # with old NumPy and SciPy one thread rounds otherwise than two: the contract allows 1e-13 / gap
    np.testing.assert_allclose(two.eigenvalues_, one.eigenvalues_, rtol=0, atol=1e-12)
    gap = -np.diff(one.eigenvalues_, prepend=1.0).max()
    np.testing.assert_allclose(two.embedding_, one.embedding_, rtol=0, atol=1e-13 / gap)
    part = np.random.default_rng(0).permutation(30_000)[:300]
    np.testing.assert_allclose(two.transform(curve[part]), two.embedding_[part], rtol=0, atol=1e-10)


def test_memory_is_of_blocks_not_of_rows_by_landmarks():
    curve, _ = s_curve(50_000, random_state=0)
    model = DiffusionMaps(2, epsilon=0.1, landmarks=300, solver=LowRank(), random_state=0, n_jobs=1)
    model.fit(curve[:3000])  # compiled and imported
    tracemalloc.start()
    model.fit(curve)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * len(curve) * 300


def test_many_landmarks_stay_dense():
    ring = around(np.random.default_rng(0).uniform(0, 6, 3200))
    low = DiffusionMaps(3, epsilon=0.1, landmarks=3100, solver=LowRank(), random_state=0).fit(ring)
    full = DiffusionMaps(3, epsilon=0.1, n_neighbors=None).fit(ring)
    assert "of 3100 independent" in low.report_.edges
    np.testing.assert_allclose(low.eigenvalues_, full.eigenvalues_, rtol=0, atol=1e-8)


def test_many_independent_landmarks_are_solved_iteratively():
    curve, _ = s_curve(1300, random_state=0)
    low = DiffusionMaps(3, epsilon=0.02, landmarks=curve, solver=LowRank()).fit(curve)
    full = DiffusionMaps(3, epsilon=0.02).fit(curve)
    assert low.report_.n_anchors > 1000
    assert low.report_.residual < 1e-8
    np.testing.assert_allclose(low.eigenvalues_, full.eigenvalues_, rtol=0, atol=1e-9)


def test_a_larger_tolerance_leaves_out_more_landmarks():
    models = [
        quietly(DiffusionMaps(3, epsilon=3, landmarks=X, solver=LowRank(at)).fit, X) for at in (1e-10, 1e-6, 1e-3)
    ]
    kept = [len(m.landmarks_) for m in models]
    assert kept[0] > kept[1] > kept[2]
    np.testing.assert_allclose(models[1].eigenvalues_, models[0].eigenvalues_, atol=1e-5)
    assert models[0].report_.edges == f"all landmarks, {kept[0]} of 150 independent"


@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_laplacian_eigenmaps_and_spectral_clustering_take_it():
    full = LaplacianEigenmaps(3, epsilon=0.8).fit(X)
    low = LaplacianEigenmaps(3, epsilon=0.8, landmarks=X, solver=LowRank()).fit(X)
    np.testing.assert_allclose(low.eigenvalues_, full.eigenvalues_, atol=1e-9)
    np.testing.assert_allclose(low.embedding_, full.embedding_, atol=1e-8)
    moons, truth = noisy_moons(2000, random_state=0)
    clusters = SpectralClustering(2, epsilon=0.01, landmarks=300, solver=LowRank(), random_state=0).fit(moons)
    agree = (clusters.predict(moons) == truth).mean()
    assert max(agree, 1 - agree) > 0.99


def test_a_callable_kernel_that_is_definite_will_do_whatever_its_size():
    part = X[:60]
    plain, small = (
        DiffusionMaps(2, landmarks=Y[:40], solver=LowRank(), kernel=lambda x, y, c=c: c * np.exp(-np.abs(x - y).sum()))
        for c in (1.0, 1e-9)
    )
    quietly(plain.fit, part)
    quietly(small.fit, part)
    np.testing.assert_allclose(quietly(plain.transform, part[::3]), plain.embedding_[::3], atol=1e-10)
    np.testing.assert_allclose(small.eigenvalues_, plain.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(small.embedding_, plain.embedding_, atol=1e-9)


def test_rows_that_no_landmark_reaches_take_the_nearest_one_and_are_told():
    apart = np.vstack([X, X[:5] + np.array([0, 0, 12.0])])
    with pytest.warns(SpectrumWarning, match=r"5 of 155 rows are out of reach .*FarthestPoint"):
        low = DiffusionMaps(2, epsilon=0.8, landmarks=Y, solver=LowRank()).fit(apart)
    trust = low.trust(apart)
    assert np.array_equal(np.flatnonzero(trust.flag), np.arange(150, 155))
    assert np.isneginf(trust.support[150:]).all()
    nearest = low.landmarks_[cdist(apart[150:], low.landmarks_).argmin(axis=1)]
    np.testing.assert_allclose(low.embedding_[150:], low.transform(nearest), atol=1e-9)
    alone = DiffusionMaps(2, epsilon=0.8, alpha=0, landmarks=Y, solver=LowRank())  # they do not count in the fit
    with pytest.warns(SpectrumWarning, match="5 of 155"):
        values = alone.fit(apart).eigenvalues_
    np.testing.assert_allclose(values, alone.fit(X).eigenvalues_, atol=1e-9)


def test_a_row_whose_degree_cancels_is_its_nearest_landmark():
    geometry = fitted.DenseGraph(distances=Distances(np.array([[0.0], [1.0]])), measure=np.ones(2))
    degrees = np.array([[1.0, 0.01], [-1.2, 0.01]])  # h of either sign, and the least it must be
    rule = LowRankRule(geometry, GaussianKernel(Bandwidth(0.25, "given")), degrees, np.log(0.01))
    good, bad, landmark = (rule.rows(np.array([[at]])) for at in (0.1, 0.48, 0.0))
    assert np.isfinite(good.log_mass).all()
    assert np.isneginf(bad.log_mass).all()
    np.testing.assert_allclose(bad.weights, landmark.weights)
    np.testing.assert_allclose(good.weights @ degrees[:, 0], 1)


def test_too_few_landmarks_are_told():
    curve, _ = s_curve(2000, random_state=0)
    with pytest.warns(SpectrumWarning) as told:
        DiffusionMaps(2, epsilon=0.02, landmarks=60, solver=LowRank(), random_state=1).fit(curve)
    texts = " ".join(str(w.message) for w in told)
    assert "Take more landmarks" in texts
    assert "for 60 landmarks: they are too few" in texts


def test_an_eigenvalue_above_one_is_told():
    curve, _ = s_curve(2000, random_state=0)
    with pytest.warns(SpectrumWarning) as told:
        DiffusionMaps(2, epsilon=0.024, landmarks=100, solver=LowRank(), random_state=0).fit(curve)
    assert any("above 1" in str(w.message) for w in told)


def test_landmarks_that_no_row_sees_are_left_out():
    near_some_rows = X[np.abs(X[:, 0]).argmax()] * [1, 0, 0] * 3  # but not within reach of any
    far = np.vstack([Y, [[1e3, 0, 0]], [near_some_rows]])
    model = DiffusionMaps(3, epsilon=0.8, landmarks=far, solver=LowRank()).fit(X)
    plain = DiffusionMaps(3, epsilon=0.8, landmarks=Y, solver=LowRank()).fit(X)
    assert len(model.landmarks_) == len(Y)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-9)


def test_pieces_become_contrasts_or_an_error():
    pieces = np.vstack([cloud(1, rows=60), cloud(2, rows=30) + 40])
    options = {"epsilon": 0.8, "landmarks": 0.7, "solver": LowRank(), "random_state": 0}
    with pytest.warns(SpectrumWarning, match=r"2 components .*first coordinate only tells them apart"):
        model = DiffusionMaps(2, **options).fit(pieces)
    assert np.ptp(model.embedding_[:60, 0]) < 1e-8
    np.testing.assert_allclose(model.eigenvalues_[0], 1, atol=1e-10)
    with pytest.raises(ValueError, match=r"fall into 2 components .*components='warn'"):
        DiffusionMaps(2, components="error", **options).fit(pieces)


LOW = {"landmarks": 50, "solver": LowRank(), "random_state": 0}


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        (DiffusionMaps, {"landmarks": None}, "needs landmarks"),
        (DiffusionMaps, {"n_neighbors": 8}, "n_neighbors and threshold"),
        (DiffusionMaps, {"n_neighbors": graphs.Mutual(8)}, "n_neighbors and threshold"),
        (DiffusionMaps, {"threshold": 0.01}, "n_neighbors and threshold"),
        (DiffusionMaps, {"kernel": "self_tuning"}, "positive definite kernel.*'self_tuning' is not"),
        (DiffusionMaps, {"kernel": "continuous_knn"}, "'continuous_knn' is not"),
        (DiffusionMaps, {"kernel": "precomputed"}, "not a precomputed matrix"),
        (DiffusionMaps, {"metric": "precomputed"}, "not a precomputed matrix"),
        (DiffusionMaps, {"metric": "chebyshev", "epsilon": 5}, "not positive definite.*solver='auto'"),
        (DiffusionMaps, {"components": "join"}, "components='join' edits a graph"),
        (DiffusionMaps, {"components": "largest"}, "'warn' or 'error'"),
        (DiffusionMaps, {"solver": LowRank(0)}, "tolerance=0 must be > 0"),
        (DiffusionMaps, {"solver": LowRank("small")}, "tolerance='small' must be a number"),
        (DiffusionMaps, {"epsilon": 1e7, "n_components": 9}, "beyond the rank"),
        (DiffusionMaps, {"epsilon": np.inf}, "finite"),
        (DiffusionMaps, {"epsilon": 0.8, "landmarks": X + 1e3}, "only 0 of 150 landmarks are near a row"),
        (DiffusionMaps, {"landmarks": 151}, "landmarks=151 .*150"),
        (LaplacianEigenmaps, {"laplacian": "unnormalized"}, "laplacian='random_walk'"),
        (Roseland, {}, "is for DiffusionMaps, LaplacianEigenmaps"),
        (KernelPCA, {}, "pass one of 'auto', 'dense', 'lanczos', 'krylov'"),
    ],
    ids=str,
)
def test_what_does_not_apply_is_refused(method, parameters, message):
    with pytest.raises(ValueError, match=message):
        method(**{**LOW, **parameters}).fit(X if parameters.get("metric") != "precomputed" else cdist(X, X))


def test_as_many_landmarks_as_components_are_one_too_few():
    """Four landmarks, two of them equal: three are left, and have two coordinates beside the constant."""
    marks = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    points = np.random.default_rng(0).uniform(size=(50, 2))
    settings = {"landmarks": marks, "solver": LowRank(), "epsilon": 0.3}
    with pytest.raises(ValueError, match="n_components=3 is beyond the rank of the kernel: only 3 of 4 landmarks"):
        DiffusionMaps(3, **settings).fit(points)
    assert quietly(DiffusionMaps(2, **settings).fit, points).embedding_.shape == (50, 2)


@pytest.mark.parametrize("method", [Roseland, DiffusionMaps], ids=["roseland", "low rank"])
def test_the_dimension_at_time_zero_is_that_at_time_one(method):
    """At t = 0 every coordinate weighs the same, so that the spectrum itself is cut."""
    rows = cloud(0, rows=600) * [1, 0.5, 0.2]  # long and thin, so that later coordinates fade
    options = {"landmarks": rows[::2], "epsilon": 0.4} | ({"solver": LowRank()} if method is DiffusionMaps else {})
    counts = [len(quietly(method("auto", t=t, **options).fit, rows).eigenvalues_) for t in (0, 1, 9)]
    assert counts[0] == counts[1] > counts[2]
