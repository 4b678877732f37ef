"""Rules for epsilon."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist

from catalogue import cloud, quietly
from outfold import DiffusionMaps, datasets
from outfold._runtime.threads import Threads
from outfold.bandwidths import Bandwidth, CutOff, Fixed, Growth, Neighbor, Percentile, Slope
from outfold.distances import Metric
from outfold.graphs import Union
from outfold.graphs.pair_statistics import DenseStatistics

X = cloud(0, rows=60)
SQUARED = cdist(X, X, "sqeuclidean")
ONES = np.ones(60)
SURVEY = DenseStatistics(distances=None, squared=SQUARED, measure=ONES)


def test_fixed_is_the_callers_number():
    assert Fixed(0.25).bandwidth(SURVEY).epsilon == 0.25


@pytest.mark.parametrize("q", [1, 25, 50, 99])
def test_percentile_is_the_squared_percentile_of_the_distances(q):
    assert Percentile(q).bandwidth(SURVEY).epsilon == pytest.approx(np.percentile(pdist(X), q) ** 2)


@pytest.mark.parametrize("k", [1, 5, 16])
def test_neighbor_is_the_squared_median_distance_to_the_kth(k):
    radii = np.sort(np.sqrt(SQUARED), axis=1)[:, k]
    lower_median = np.sort(radii)[29]
    assert Neighbor(k).bandwidth(SURVEY).epsilon == pytest.approx(lower_median**2)


@pytest.mark.parametrize(
    ("make", "dimension"),
    [(datasets.circle, 1), (datasets.sphere, 2), (datasets.flat_torus, 2)],
)
def test_rules_read_the_dimension(make, dimension):
    points = make(1500, random_state=0)
    squared = cdist(points, points, "sqeuclidean")
    for rule in (Neighbor(), Slope()):
        assert (
            round(rule.bandwidth(DenseStatistics(distances=None, squared=squared, measure=np.ones(1500))).dimension)
            == dimension
        )


def farthest_kth(points, k):
    """The largest distance to the k-th nearest, counting the point, over the distinct points."""
    distinct = np.unique(points, axis=0)
    return np.sort(cdist(distinct, distinct), axis=1)[:, min(k, len(distinct)) - 1].max()


@pytest.mark.parametrize("k", [2, 10, 60, 100])
def test_the_kernel_is_the_tolerance_at_root_two_cut_offs(k):
    epsilon = CutOff(k, tolerance=1e-6).bandwidth(SURVEY).epsilon
    assert np.exp(-2 * farthest_kth(X, k) ** 2 / (2 * epsilon)) == pytest.approx(1e-6, rel=1e-10)


@pytest.mark.parametrize("n", [5, 9, 10, 400])
def test_the_cut_off_is_datafolds(n):
    """datafold 2: k = 10, tolerance 1e-8; the largest of all distances if there are fewer than ten rows."""
    points = cloud(3, rows=n)
    cut_off = farthest_kth(points, 10) if n >= 10 else pdist(points).max()
    found = quietly(DiffusionMaps(1, epsilon="cut_off").fit, points)
    assert found.epsilon_ == pytest.approx(cut_off**2 / -np.log(1e-8), rel=1e-12)
    assert "largest distance to neighbour 10, counting the point" in found.report_.bandwidth


def test_the_cut_off_through_a_search_is_that_of_all_pairs():
    points = cloud(5, rows=500)
    found = Union(12).statistics(Metric(), points, np.ones(500), Threads(1))
    assert CutOff().bandwidth(found).epsilon == pytest.approx(farthest_kth(points, 10) ** 2 / -np.log(1e-8), rel=1e-12)


def test_the_cut_off_of_a_graph_of_distances_is_that_of_the_points():
    near = np.argsort(SQUARED, axis=1)[:, :30]  # the point itself at a stored distance of 0
    lengths = np.sqrt(np.take_along_axis(SQUARED, near, axis=1))
    graph = csr_array((lengths.ravel(), near.ravel(), np.arange(0, near.size + 1, 30)), shape=SQUARED.shape)
    found = quietly(DiffusionMaps(1, epsilon="cut_off", metric="precomputed").fit, graph)
    assert found.epsilon_ == pytest.approx(farthest_kth(X, 10) ** 2 / -np.log(1e-8), rel=1e-12)


def test_the_cut_off_counts_copies_and_weights_once():
    copies = np.random.default_rng(0).integers(1, 40, len(X))
    once = CutOff(6).bandwidth(SURVEY).epsilon
    for fit in (
        lambda maps: maps.fit(X, sample_weight=copies),
        lambda maps: maps.fit(np.repeat(X, copies, axis=0)),
    ):
        assert quietly(fit, DiffusionMaps(1, epsilon=CutOff(6))).epsilon_ == pytest.approx(once, rel=1e-12)


def test_slope_finds_the_steepest_point_of_the_kernel_sum():
    found = Slope().bandwidth(SURVEY).epsilon

    def slope(epsilon):
        w = np.exp(-SQUARED / (2 * epsilon))
        return (w * SQUARED).sum() / (2 * epsilon) / w.sum()

    grid = np.exp(np.linspace(np.log(SQUARED[SQUARED > 0].min()), np.log(SQUARED.max()), 300))
    assert slope(found) == pytest.approx(max(map(slope, grid)), rel=1e-3)


def test_the_kernel_sum_is_that_of_all_pairs():
    total = Growth.of(SURVEY)
    naive = [np.exp(-SQUARED / (2 * epsilon)).sum() for epsilon in total.epsilons]
    np.testing.assert_allclose(total.sums, naive, rtol=1e-3)
    np.testing.assert_allclose(np.gradient(np.log(naive), np.log(total.epsilons)), total.slopes, atol=0.01)


def test_many_copies_do_not_give_zero():
    copies = np.repeat(cloud(1, rows=5), 40, axis=0)
    squared = cdist(copies, copies, "sqeuclidean")
    for rule in (Neighbor(), Neighbor(16), Percentile(1), Slope()):
        assert rule.bandwidth(DenseStatistics(distances=None, squared=squared, measure=np.ones(200))).epsilon > 0


def test_a_rule_of_ones_own_is_welcome_and_left_unchanged():
    class Tenth:
        def bandwidth(self, survey):
            return Bandwidth(survey.pairs()[0].max() / 10, "a tenth of the largest")

    maps = quietly(DiffusionMaps(epsilon=Tenth()).fit, X)
    assert maps.epsilon_ == pytest.approx(SQUARED.max() / 10)
    assert "a tenth of the largest" in str(maps.report_)


@pytest.mark.parametrize("name", ["auto", "median", "neighbor", "slope", "percentile", "cut_off"])
def test_every_name_is_a_different_rule(name):
    names = ("median", "neighbor", "slope", "percentile", "cut_off")
    others = {n: quietly(DiffusionMaps(1, epsilon=n).fit, X).epsilon_ for n in names}
    mine = quietly(DiffusionMaps(1, epsilon=name).fit, X).epsilon_
    assert sum(value == mine for value in others.values()) == (name in others)


@pytest.mark.parametrize(
    ("make", "truth", "limit"),
    [
        (datasets.circle, [1, 1, 4, 4, 9, 9, 16, 16], 0.012),
        (datasets.sphere, [1, 1, 1, 3, 3, 3, 3, 3], 0.03),
        (datasets.flat_torus, [1] * 4 + [2] * 4, 0.025),
    ],
    ids=["circle", "sphere", "torus"],
)
def test_the_default_bandwidth_sees_the_true_spectrum(make, truth, limit):
    errors = []
    for seed in range(5):
        mu = 1 - DiffusionMaps(8, kernel="gaussian").fit(make(2000, random_state=seed)).eigenvalues_
        multiplet = truth.count(1)
        errors.append(np.mean(np.abs(mu / mu[:multiplet].mean() / truth - 1)))
    assert np.median(errors) <= limit


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Fixed(-1.0), "epsilon=-1.0 must be > 0"),
        (Fixed(0), "epsilon=0 must be > 0"),
        (Percentile(150), "q=150"),
        (Neighbor("x"), "k='x'"),
        (Neighbor(-3), "k=-3"),
        (CutOff(1), "k=1 must be a whole number >= 2"),
        (CutOff(10, tolerance=0), "tolerance=0 must be > 0 and <= 1"),
        (CutOff(10, tolerance=1), "tolerance=1 makes epsilon infinite"),
    ],
)
def test_rules_are_checked_as_numbers_are(rule, message):
    with pytest.raises(ValueError, match=message):
        DiffusionMaps(epsilon=rule).fit(X)


def three_torus(n, seed):
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, (n, 3))
    return np.hstack([np.cos(angles), np.sin(angles)])


def test_the_longest_edges_of_a_sparse_graph_are_two_sigma_in_two_dimensions_and_longer_beyond():
    """k = widest / 4 from two dimensions on: fewer neighbours would leave sigma to chance."""
    points = three_torus(1500, 0)
    survey = DenseStatistics(
        distances=None, squared=cdist(points, points, "sqeuclidean"), measure=np.ones(1500), widest=28.0
    )
    found = Neighbor().bandwidth(survey)
    assert round(found.dimension) == 3
    assert found.how == "median distance to neighbour 7"
    line = np.linspace(0, 1, 400)[:, None]
    survey = DenseStatistics(
        distances=None, squared=cdist(line, line, "sqeuclidean"), measure=np.ones(400), widest=12.0
    )
    assert Neighbor().bandwidth(survey).how == "median distance to neighbour 6"


def test_a_sparse_graph_sees_the_spectrum_of_the_three_torus():
    mu = 1 - DiffusionMaps(6, n_neighbors=32).fit(three_torus(3000, 1)).eigenvalues_
    assert np.ptp(mu) / mu.mean() < 0.2  # all six are 1
