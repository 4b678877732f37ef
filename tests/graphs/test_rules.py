"""Rules of graphs: what "auto" takes, and what is refused."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsTransformer

from catalogue import cloud, quietly
from outfold import DiffusionMaps, Roseland, graphs
from outfold.datasets import s_curve
from outfold.graphs import rules as graphs_rules


def test_auto_is_dense_up_to_a_size_and_says_what_it_did():
    assert graphs_rules.DenseOrNearest().choose(3000) == graphs.AllPairs()
    assert graphs_rules.DenseOrNearest().choose(3001) == graphs.Union(32)
    rows = s_curve(1200, random_state=0)[0]
    edges = [
        Roseland(2, kernel="gaussian", landmarks=count, random_state=0).fit(rows).report_.edges
        for count in (1000, 1001)
    ]
    assert edges == ["auto: all landmarks", "auto: 32 nearest landmarks"]
    X = np.random.default_rng(0).uniform(size=(3200, 2))
    assert "auto: all pairs" in str(DiffusionMaps(2, kernel="gaussian").fit(X[:100]).report_)


@pytest.mark.parametrize("n", [100, 3200])
def test_self_tuning_keeps_fifteen_neighbours_at_any_size_and_all_pairs_of_fewer_rows(n):
    X = np.random.default_rng(0).uniform(size=(n, 2))
    maps = DiffusionMaps(2, kernel="self_tuning", solver="lanczos").fit(X)
    assert "auto: union of 15 nearest" in str(maps.report_)
    assert "auto: all pairs" in str(quietly(DiffusionMaps(2, kernel="self_tuning").fit, X[:15]).report_)
    np.testing.assert_allclose(maps.transform(X[::50]), maps.embedding_[::50], atol=1e-9)


class WrongShape(KNeighborsTransformer):
    def transform(self, X):
        return super().transform(X)[:, :5]


def test_bad_rules():
    X = cloud(8, rows=60)
    for parameters, message in (
        ({"n_neighbors": 60}, r"n_neighbors=60 .* n = 60"),
        ({"n_neighbors": 1}, "n_neighbors=1 must be a whole number >= 2"),
        ({"n_neighbors": 2.5}, "n_neighbors=2.5"),
        ({"n_neighbors": "few"}, "Valid: 'auto'"),
        ({"n_neighbors": graphs.Mutual(61)}, "n = 60"),
        ({"n_neighbors": graphs.Ball(0)}, "radius=0 must be > 0"),
        ({"n_neighbors": graphs.Union(5, search="annoy")}, "'auto', 'tree', 'brute', 'cells'"),
        ({"n_neighbors": graphs.Union(5, search=3)}, "KNeighborsTransformer"),
        ({"n_neighbors": graphs.Union(5, search="tree"), "metric": "cosine"}, "search='tree' is for Euclidean"),
        ({"n_neighbors": graphs.Union(5, search="cells"), "metric": "cosine"}, "search='cells' is for Euclidean"),
        ({"n_neighbors": graphs.Union(5, local=7)}, "units of neighbour 7, which is for kernel='self_tuning'"),
        ({"n_neighbors": graphs.Union(5, local=0), "kernel": "self_tuning"}, "local=0"),
        ({"n_neighbors": graphs.Union(8, search=KNeighborsTransformer(n_neighbors=4))}, "Raise its n_neighbors to 9"),
        ({"n_neighbors": graphs.Union(3, search=WrongShape(n_neighbors=9))}, r"shape \(60, 5\)"),
        ({"threshold": 0}, "threshold=0 must be > 0"),
        ({"threshold": 1}, "below 1"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"threshold": 0.1, "n_neighbors": 5}, "n_neighbors=5 and threshold=0.1 both.*pass one"),
        ({"epsilon": np.inf, "n_neighbors": None}, "needs a sparse rule"),
        ({"n_neighbors": 5, "metric": lambda x, y: np.nan}, "returned NaN"),
        ({"n_neighbors": 5, "metric": lambda x, y: -1.0}, "negative"),
        ({"epsilon": np.inf, "threshold": 0.1}, "needs a sparse rule"),
        ({"kernel": "continuous_knn", "epsilon": 2.0}, r"no epsilon \(given 2.0\)"),
        ({"kernel": "self_tuning", "epsilon": "median"}, "local units"),
        ({"components": "all"}, "'warn', 'error', 'largest', 'join'"),
        ({"n_neighbors": 5, "kernel": "precomputed"}, "kernel='precomputed' leave them at their defaults"),
        ({"n_neighbors": 5, "kernel": lambda x, y: 1.0}, "kernel callable"),
        ({"kernel": "self_tuning", "metric": "precomputed"}, "needs a square matrix"),
        ({"kernel": "precomputed", "epsilon": 0.5}, "epsilon=0.5 would do nothing"),
        ({"kernel": lambda x, y: 1.0, "epsilon": 0.5}, "epsilon=0.5 would do nothing"),
    ):
        with pytest.raises(ValueError, match=message):
            DiffusionMaps(**parameters).fit(X)


@pytest.mark.parametrize("n", [5, 7, 9])
def test_the_radius_of_few_points_holds_half_of_them(n):
    """Of fewer than ten points not four neighbours but half of the points, at every point."""
    points = np.random.default_rng(n).normal(size=(n, 2))
    mass = min(4.0, n / 2)
    distances = np.sort(np.sqrt(((points[:, None] - points) ** 2).sum(axis=2)), axis=1)
    radius = distances[:, int(np.ceil(mass)) - 1].max()  # the point itself counts
    maps = quietly(DiffusionMaps(1, n_neighbors=graphs.Ball("auto")).fit, points)
    assert maps.model_.rule.geometry.radius == pytest.approx(radius, rel=2e-6)
