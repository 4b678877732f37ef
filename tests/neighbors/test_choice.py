"""Which search is taken: the tree, all pairs, cells, or a transformer of the caller's."""

import numpy as np
from sklearn.neighbors import KNeighborsTransformer

from catalogue import cloud, quietly
from outfold import DiffusionMaps, graphs
from outfold._runtime.threads import Threads
from outfold.distances import Metric
from outfold.neighbors import build, choice
from outfold.neighbors.brute import Brute
from outfold.neighbors.cells import Cells
from outfold.neighbors.tree import Tree


def test_a_transformer_can_search():
    X, Z = cloud(6, rows=200), cloud(7, rows=9)
    found = DiffusionMaps(2, n_neighbors=graphs.Union(8, search=KNeighborsTransformer(n_neighbors=12))).fit(X)
    exact = DiffusionMaps(2, kernel="gaussian", n_neighbors=8).fit(X)
    assert "approximately" in found.report_.edges
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(quietly(found.transform, Z), quietly(exact.transform, Z), atol=1e-10)


def test_much_data_of_many_dimensions_is_searched_in_cells(monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 20))
    assert type(build(Metric().fit(X), "auto")) is Brute
    monkeypatch.setattr(choice, "CELLS_FROM", 1000)
    assert type(build(Metric().fit(X), "auto")) is Brute  # quick enough
    monkeypatch.setattr(choice, "CELLS_SECONDS", 0.0)
    assert type(build(Metric().fit(X), "auto")) is Cells
    assert type(build(Metric("cosine").fit(X), "auto")) is Brute
    assert type(build(Metric().fit(X[:, :3]), "auto")) is Tree


def test_a_tree_is_taken_where_the_points_lie_on_something_of_few_dimensions():
    rng = np.random.default_rng(0)

    def on_a_sheet(n, features):
        return np.sin(rng.uniform(-1, 1, (n, 2)) @ np.random.default_rng(1).normal(size=(2, features)))

    for X, kind in [
        (rng.normal(size=(500, 5)), Tree),
        (on_a_sheet(8000, 64), Tree),
        (rng.normal(size=(3000, 10)), Brute),
        (rng.normal(size=(3000, 64)), Brute),
        (on_a_sheet(7999, 129), Brute),
        (on_a_sheet(8000, 129), Cells),
        (on_a_sheet(20, 64), Brute),
        (np.zeros((100, 8)), Brute),  # every box holds a neighbour
    ]:
        assert type(build(Metric().fit(X), "auto")) is kind
    X, Z = on_a_sheet(3000, 64), on_a_sheet(50, 64)
    reach = rng.uniform(0, 0.5, len(X))
    tree, brute = (kind(Metric().fit(X)) for kind in (Tree, Brute))
    one, other = (search.closest(Z, 32, Threads(1), search.group(reach)) for search in (tree, brute))

    def asked_for(lists):  # a search may return more
        rank = np.arange(len(lists.index)) - lists.ptr[lists.rows()]
        return lists.select((rank < 32) | (lists.squared <= np.square(reach[lists.index])))

    one, other = asked_for(one), asked_for(other)
    assert np.array_equal(one.squared, other.squared)
    assert np.array_equal(one.index, other.index)


def test_asking_whether_a_tree_pays_leaves_nothing_behind():
    search = build(Metric().fit(np.random.default_rng(0).uniform(size=(3000, 2)) @ np.ones((2, 8))), "auto")
    assert isinstance(search, Tree)
    assert "_moved" not in vars(search.distances)
