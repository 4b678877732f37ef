"""A Gaussian of all pairs at any n: the circle, the three ways against each other, the plan and the refusal."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import outfold
from catalogue import aligned_error, new_points, quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, SpectralClustering, plan
from outfold._runtime.threads import Threads
from outfold.datasets import s_curve
from outfold.distances import Metric
from outfold.engine import plan as planning
from outfold.exceptions import SpectrumWarning
from outfold.operators import gaussian_pairs
from outfold.operators.gaussian_pairs import LEFT_OUT, Survey, Way, count_pairs
from outfold.papers.landmark_fits import missed_share


def uneven_circle(n, seed=0):
    """Angles of density 1 + 0.8 cos, and their points."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 3 * n)
    angle = angle[rng.uniform(0, 1.8, 3 * n) < 1 + 0.8 * np.cos(angle)][:n]
    return angle, np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.fixture
def take(monkeypatch):
    """Make every fit take the way of this name."""

    def take(name):
        monkeypatch.setattr(gaussian_pairs, "DENSE_UP_TO", 0)
        monkeypatch.setattr(Survey, "ways", lambda self, needed: [Way(name=name, bytes=0.0, seconds=0.0)])

    return take


# -- the oracle: the circle at any n -----------------------------------------------------------


@pytest.mark.parametrize("n", [2900, 3100, 5100, 20_000, 200_000])
def test_the_circle_at_any_n(n):
    """The density does not matter, rates 2 (1 - lambda) / epsilon are 1 1 4 4, coordinates are cos and sin."""
    X = uneven_circle(n)[1]
    maps = DiffusionMaps(4, kernel="gaussian", epsilon=0.01, alpha=1, t=0).fit(X)
    assert missed_share(maps.embedding_[:, :2], X) < 0.03
    np.testing.assert_allclose(2 * (1 - maps.eigenvalues_) / 0.01, [1, 1, 4, 4], rtol=0.06)
    some = slice(None, None, n // 100)
    np.testing.assert_allclose(maps.transform(X[some]), maps.embedding_[some], rtol=0, atol=1e-9)
    assert (
        maps.report_.edges == "auto: all pairs"
        if n <= 5000
        else "all pairs by a kernel of low rank" in maps.report_.edges
    )


@pytest.mark.parametrize("make", [LaplacianEigenmaps, SpectralClustering])
def test_other_methods_take_the_same_operator(make):
    """LaplacianEigenmaps is DiffusionMaps with alpha=0 and t=0, at any n."""
    X = uneven_circle(8000)[1]
    found = make(4, kernel="gaussian", epsilon=0.01).fit(X)
    maps = DiffusionMaps(len(found.eigenvalues_), kernel="gaussian", epsilon=0.01, alpha=0, t=0).fit(X)
    np.testing.assert_allclose(1 - found.eigenvalues_, maps.eigenvalues_, rtol=0, atol=1e-12)
    assert found.report_.edges == maps.report_.edges
    assert "low rank" in maps.report_.edges


def test_an_unnormalized_laplacian_keeps_the_pairs_that_weigh():
    X = uneven_circle(6000)[1]
    maps = LaplacianEigenmaps(2, kernel="gaussian", epsilon=3e-4, laplacian="unnormalized").fit(X)
    full = LaplacianEigenmaps(2, kernel="gaussian", epsilon=3e-4, laplacian="unnormalized", threshold=1e-15).fit(X)
    assert maps.report_.edges == f"auto: weights of at least {LEFT_OUT / 6000:g}"
    np.testing.assert_allclose(maps.eigenvalues_, full.eigenvalues_, rtol=1e-5)


# -- the ways against each other ---------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
def test_low_rank_is_the_dense_operator(take, alpha):
    X = s_curve(1500, random_state=0)[0]
    Z = new_points(X, 0, 30)
    dense = DiffusionMaps(4, kernel="gaussian", epsilon=0.3, alpha=alpha).fit(X)
    take("pivots")
    low = DiffusionMaps(4, kernel="gaussian", epsilon=0.3, alpha=alpha).fit(X)
    assert "low rank" in low.report_.edges
    assert low.report_.n_anchors < 1000
    np.testing.assert_allclose(low.eigenvalues_, dense.eigenvalues_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(low.embedding_, dense.embedding_, rtol=0, atol=1e-6)  # signs included
    near = np.isfinite(low.trust(Z).support)
    assert near.sum() > 20
    np.testing.assert_allclose(quietly(low.transform, Z)[near], quietly(dense.transform, Z)[near], rtol=0, atol=1e-5)


def test_its_kernel_between_rows_is_the_dense_one(take):
    from outfold.quality import kernel_loss

    X = s_curve(800, random_state=0)[0]
    losses = [kernel_loss(DiffusionMaps(4, kernel="gaussian", epsilon=0.5).fit(X), X[::9])]
    take("pivots")
    losses.append(kernel_loss(DiffusionMaps(4, kernel="gaussian", epsilon=0.5).fit(X), X[::9]))
    np.testing.assert_allclose(*map(np.asarray, losses), rtol=1e-5)


@pytest.mark.parametrize(("alpha", "factor"), [(0, 2), (1, 6)])
def test_pairs_that_are_left_out_do_not_matter(take, alpha, factor):
    """alpha=0: an eigenvalue moves by twice what a row leaves out, at most; each power of a degree adds as much."""
    X = s_curve(1500, random_state=0)[0]
    W = np.exp(-cdist(X, X, "sqeuclidean") / 0.04)
    left = np.where(W < LEFT_OUT / 1500, W, 0)
    assert left.any()
    assert left.sum(axis=1).max() <= LEFT_OUT
    dense = DiffusionMaps(4, kernel="gaussian", epsilon=0.02, alpha=alpha).fit(X)
    take("graph")
    graph = DiffusionMaps(4, kernel="gaussian", epsilon=0.02, alpha=alpha).fit(X)
    assert graph.report_.degree < 1000
    share = (left / W.sum(axis=1)[:, None]).sum(axis=1).max()
    np.testing.assert_allclose(graph.eigenvalues_, dense.eigenvalues_, rtol=0, atol=factor * share + 1e-13)
    assert aligned_error(graph.embedding_, dense.embedding_) < 1e-6


def test_weights_are_repeats_and_the_order_does_not_matter(take):
    take("pivots")
    X = s_curve(400, random_state=0)[0]
    counts = np.random.default_rng(0).integers(1, 4, len(X))
    order = np.random.default_rng(1).permutation(len(X))
    one, repeats, turned = (
        DiffusionMaps(3, kernel="gaussian", epsilon=0.5).fit(rows, sample_weight=weights)
        for rows, weights in ((X, counts), (np.repeat(X, counts, axis=0), None), (X[order], counts[order]))
    )
    for other in (repeats, turned):
        np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=0, atol=1e-11)
        np.testing.assert_allclose(other.transform(X), one.transform(X), rtol=0, atol=1e-9)


def test_landmarks_are_few_anchors_and_the_same_rule(monkeypatch):
    monkeypatch.setattr(gaussian_pairs, "DENSE_UP_TO", 1000)
    X = uneven_circle(4000)[1]
    low = DiffusionMaps(2, kernel="gaussian", epsilon=0.05, landmarks=2000, random_state=0).fit(X)
    all_pairs = DiffusionMaps(2, kernel="gaussian", epsilon=0.05, n_neighbors=None, landmarks=2000, random_state=0).fit(
        X
    )
    assert "pivots of 2000 rows" in low.report_.edges
    np.testing.assert_allclose(low.eigenvalues_, all_pairs.eigenvalues_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(low.embedding_, all_pairs.transform(X), rtol=0, atol=1e-6)


def test_a_file_holds_it(take, tmp_path):
    take("pivots")
    X = uneven_circle(500)[1]
    maps = DiffusionMaps(2, kernel="gaussian", epsilon=0.05).fit(X)
    maps.save(tmp_path / "maps.outfold")
    loaded = outfold.load(tmp_path / "maps.outfold")
    assert loaded._fitted_recipe == maps._fitted_recipe
    assert loaded.transform(X).tobytes() == maps.transform(X).tobytes()


def test_parts_and_small_eigenvalues_are_told(take):
    take("pivots")
    X = uneven_circle(400)[1]
    with pytest.warns(SpectrumWarning, match="The kernel falls into 2 components.*Raise epsilon"):
        assert DiffusionMaps(3, kernel="gaussian", epsilon=0.05).fit(np.vstack([X, X + 50])).report_.components == 2
    told = quietly(DiffusionMaps(6, kernel="gaussian", epsilon=50.0).fit, X).report_.warnings
    assert any("a kernel of low rank is right to about 1e-09. Keep fewer components" in text for text in told)


# -- the choice ----------------------------------------------------------------------------------


def test_pairs_are_counted():
    X = s_curve(200, random_state=0)[0]
    assert count_pairs(Metric().fit(X), 1.0, Threads(1)) == (cdist(X, X) <= 1.0).sum()
    X = s_curve(3000, random_state=0)[0]
    assert count_pairs(Metric().fit(X), 0.5, Threads(1)) == pytest.approx((cdist(X, X) <= 0.5).sum(), rel=0.1)


@pytest.mark.parametrize(
    ("rows", "parameters", "words"),
    [
        (400, {"epsilon": 0.01}, "auto: all pairs"),
        (5400, {"epsilon": 0.01}, "auto: all pairs by a kernel of low rank"),
        (5400, {"epsilon": 1e-4}, "auto: weights of at least 1.85185e-10"),
        (5400, {"epsilon": 1.0, "coordinates": "canonical"}, "auto: all pairs"),  # most pairs weigh, no low rank
        (5400, {"epsilon": 1e-4, "metric": "manhattan"}, "auto: weights of at least"),
    ],
)
def test_the_plan_chooses_as_the_fit_does(rows, parameters, words):
    X = uneven_circle(rows)[1]
    method = DiffusionMaps(2, kernel="gaussian", **parameters)
    planned, report = plan(X, method), quietly(method.fit, X).report_
    for edges in (planned.edges, report.edges):
        assert edges.split(",")[0].startswith(words)
    assert planned.solver == report.solver or report.solver_why.startswith("sparse")
    assert planned.fits
    assert plan((rows, 2), method).peak > 0


def test_a_kernel_that_fits_no_way_is_refused_with_the_calls_that_work(monkeypatch):
    monkeypatch.setattr(gaussian_pairs, "DENSE_UP_TO", 500)
    X = np.random.default_rng(0).normal(size=(1500, 8))
    for module in (gaussian_pairs, planning):
        monkeypatch.setattr(module, "free_memory", lambda: 1e7)
    method = DiffusionMaps(2, kernel="gaussian", epsilon=2.0, random_state=0)
    with pytest.raises(MemoryError) as told:
        method.fit(X)
    text = str(told.value)
    for words in (
        "n = 1500 rows with epsilon=2 (given)",
        "all pairs need about 0.0396 GB",
        "2.2e+06 pairs of weight 7e-10 or more about 0.0",
        "0.01 GB are free",
        "Low rank: 751 pivots leave 0.",
        "kernel='adaptive'",
        "n_neighbors=32",
        "landmarks=500",
        "Roseland",
    ):
        assert words in text
    assert not plan(X, method).fits
    quietly(method.set_params(landmarks=500).fit, X)
    quietly(method.set_params(landmarks=None, n_neighbors=32).fit, X)


def test_pivots_that_do_not_suffice_give_way(monkeypatch):
    """A sample of 500 rows misses the lonely ones."""
    monkeypatch.setattr(gaussian_pairs, "DENSE_UP_TO", 500)
    monkeypatch.setattr(gaussian_pairs, "RANKED_ROWS", 300)
    lonely = 100 + 50.0 * np.arange(200)[:, None] * [1, 0]
    X = np.vstack([uneven_circle(20_000)[1], lonely])
    monkeypatch.setattr(gaussian_pairs, "RANK_UP_TO", 150)
    monkeypatch.setattr(gaussian_pairs, "BUDGET", 1e-3)
    with pytest.raises(MemoryError, match=r"150 pivots leave 0\.00\d* of the kernel of 20200 rows"):
        DiffusionMaps(2, kernel="gaussian", epsilon=0.1).fit(X)


def test_the_binary_graph_needs_neighbours():
    with pytest.raises(ValueError, match="needs a sparse rule"):
        DiffusionMaps(2, epsilon=np.inf).fit(uneven_circle(50)[1])
