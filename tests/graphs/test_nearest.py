"""The nearest anchors of each point and its local scale, against sums written out."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import cloud, new_points
from outfold import neighbors
from outfold._runtime.threads import Threads
from outfold.data.weights import mean_at_rank
from outfold.distances import Metric
from outfold.graphs.nearest import NearestAnchors

RUNNER = Threads(1)


def fit(X, measure=None, k=5, local=None, epsilon=1.0, search="auto", tapers=False):
    found = neighbors.build(Metric().fit(np.asarray(X, dtype=float)), search)
    measure = np.ones(len(X)) if measure is None else measure
    return NearestAnchors.fit(found, measure, k, k if local is None else local, RUNNER, epsilon=epsilon, tapers=tapers)


def written_out(X, Z, measure, k, local, epsilon=1.0, tapers=False):
    """Return 2 d^2 / (r(x)^2 + r_j^2) - 2 epsilon log (count taper), infinite where x does not keep j."""
    counted = np.minimum(measure, 1.0)

    def row(z):
        squared = cdist([z], X, "sqeuclidean")[0]

        def shares(count):
            out, left = np.zeros(len(X)), count
            for value in np.unique(squared):
                ties = squared == value
                if left <= 1e-12 * count:
                    break
                out[ties] = min(1.0, left / counted[ties].sum())
                left -= (out * counted)[ties].sum()
            return out

        weights = shares(local) * counted
        return squared, shares(k), np.sqrt(weights @ squared / weights.sum())

    unit = np.array([row(x)[2] for x in X])
    table = np.full((len(Z), len(X)), np.inf)
    for at, z in enumerate(Z):
        squared, share, own = row(z)
        kept = share > 0
        if tapers:
            last = mean_at_rank(squared, counted, k)
            share = share * (0.01 + 0.99 * np.maximum(0, 1 - squared / last))
        table[at, kept] = 2 * squared[kept] / (own**2 + unit[kept] ** 2) - 2 * epsilon * np.log((share * counted)[kept])
    return table


def dense(measured):
    out = np.full(measured.shape, np.inf)
    rows = np.repeat(np.arange(measured.shape[0]), np.diff(measured.indptr))
    out[rows, measured.indices] = measured.data
    return out


@pytest.mark.parametrize("search", ["tree", "brute"])
@pytest.mark.parametrize(("k", "local"), [(5, 5), (9, 4)])
@pytest.mark.parametrize("kind", ["plain", "grid"])
@pytest.mark.parametrize("tapers", [False, True])
def test_values_are_those_written_out(kind, k, local, search, tapers):
    X = np.unique(cloud(3, kind, 40), axis=0)
    graph, shared, _ = fit(X, k=k, local=local, epsilon=0.7, search=search, tapers=tapers)
    Z = np.vstack([X[:5], new_points(X, 0)])
    truth = written_out(X, Z, np.ones(len(X)), k, local, 0.7, tapers)
    assert np.allclose(dense(graph.cross(Z)), truth, rtol=1e-12)
    assert (dense(graph.scale(shared))[:5] == dense(graph.cross(Z))[:5]).all()


@pytest.mark.parametrize("tapers", [False, True])
def test_weights_below_one_count_in_part(tapers):
    X = cloud(4)
    measure = np.random.default_rng(0).uniform(0.05, 3, len(X))
    graph, *_ = fit(X, measure, k=6, tapers=tapers)
    Z = new_points(X, 1)
    assert np.allclose(dense(graph.cross(Z)), written_out(X, Z, measure, 6, 6, tapers=tapers), rtol=1e-12)


def test_a_point_that_moves_exchanges_its_last_neighbour_without_a_jump():
    X = np.random.default_rng(0).normal(size=(60, 2))
    way = X[3] + np.linspace(0, 1, 4001)[:, None] * (X[7] - X[3])
    steps = {}
    for tapers in (False, True):
        graph, *_ = fit(X, k=8, tapers=tapers)
        weights = np.exp(-dense(graph.cross(way)) / 2)
        steps[tapers] = np.abs(np.diff(weights / weights.sum(axis=1, keepdims=True), axis=0)).max()
    assert steps[True] < 0.01  # 1 % of a weight at the cut, and the length of a step
    assert steps[False] > 10 * steps[True]


def test_the_kernel_is_continuous_in_the_weights():
    """Across the weight at which one neighbour more begins to count."""
    X, Z = cloud(5), new_points(cloud(5), 2)
    measure = np.full(len(X), 0.5)
    at = [np.exp(-dense(fit(X, measure + step, k=6)[0].cross(Z)) / 2) for step in (-1e-9, 1e-9)]
    assert np.abs(at[0] - at[1]).max() < 1e-6


def test_a_fraction_of_a_neighbour_lies_between_the_whole_numbers():
    X, Z = cloud(5), new_points(cloud(5), 2)
    graph, *_ = fit(X, k=6.25, local=3.5)
    expected = written_out(X, Z, np.ones(len(X)), 6.25, 3.5)
    assert np.allclose(dense(graph.cross(Z)), expected, rtol=1e-12)
    assert (np.isfinite(expected).sum(axis=1) == 7).all()


def test_an_anchor_whose_weight_vanishes_is_absent():
    X, Z = cloud(5), new_points(cloud(5), 2)
    measure = np.where(np.arange(len(X)) < 3, 1e-12, 1.0)
    nearly, gone = (fit(X[rows], measure[rows], k=6) for rows in (slice(None), slice(3, None)))
    weights = [np.exp(-dense(found[0].cross(Z)) / 2) for found in (nearly, gone)]
    assert np.allclose(weights[0][:, 3:], weights[1], atol=1e-10)
    assert weights[0][:, :3].max() < 1e-11
    assert np.allclose(nearly[0].look(Z)[2], gone[0].look(Z)[2], atol=1e-10)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 1.0)], ids=str)
def test_the_farthest_neighbour_is_the_mean_over_the_last_count(weights):
    X = cloud(7)
    measure = np.random.default_rng(0).uniform(*weights, len(X))
    graph, shared, _ = fit(X, measure, k=6)
    count = np.minimum(measure, 1.0)
    own, theirs = np.square(shared.unit), np.square(graph.unit)
    for at, found in enumerate(graph.farthest(shared)):
        part = slice(shared.lists.ptr[at], shared.lists.ptr[at + 1])
        index = shared.lists.index[part]
        values = 2 * shared.lists.squared[part] / (own[at] + theirs[index])
        shares = count[index] if shared.shares is None else shared.shares[part]
        order = np.argsort(values)
        assert np.isclose(found, mean_at_rank(values[order], shares[order], 6.0))
        if weights == (1.0, 1.0):
            assert found == values.max()


def test_weights_of_one_or_more_are_alike():
    X, Z = cloud(6), new_points(cloud(6), 3)
    found = [dense(fit(X, np.full(len(X), weight))[0].cross(Z)) for weight in (1.0, 2.0, 1000.5)]
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_ties_share_the_last_place():
    X = np.array([[0.0], [1.0], [-1.0], [5.0]])
    graph, *_ = fit(X, k=2)
    row = dense(graph.cross(np.array([[0.0]])))[0]
    own = np.sqrt(1 / 2)  # one neighbour at distance 0, one half at 1 twice
    assert row[0] == 0
    assert np.allclose(row[1:3], 2 / (own**2 + graph.unit[1:3] ** 2) + 2 * np.log(2))
    assert row[3] == np.inf


def test_a_row_does_not_depend_on_its_batch():
    X, Z = cloud(7, "grid", 60), new_points(cloud(7, "grid", 60), 4, 30)
    graph, *_ = fit(X)
    together = dense(graph.cross(Z))
    assert all((dense(graph.cross(Z[[i]]))[0] == together[i]).all() for i in range(len(Z)))


def test_rows_beyond_floating_point_have_no_edges():
    graph, *_ = fit(cloud(8))
    measured = graph.cross(np.array([[1e200, 0, 0], [0.0, 0, 0]]))
    assert np.diff(measured.indptr).tolist() == [0, 5]
