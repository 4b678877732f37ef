"""Which search is taken: the tree, all pairs, Faiss, or a transformer of the caller's."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsTransformer

from catalogue import cloud, quietly
from outfold import DiffusionMaps, graphs
from outfold._runtime.threads import Threads
from outfold.distances import Metric
from outfold.exceptions import OutfoldWarning
from outfold.neighbors import build, choice
from outfold.neighbors.brute import Brute
from outfold.neighbors.tree import Tree


def test_a_transformer_can_search():
    X, Z = cloud(6, rows=200), cloud(7, rows=9)
    found = DiffusionMaps(2, n_neighbors=graphs.Union(8, search=KNeighborsTransformer(n_neighbors=12))).fit(X)
    exact = DiffusionMaps(2, kernel="gaussian", n_neighbors=8).fit(X)
    assert "approximately" in found.report_.edges
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(quietly(found.transform, Z), quietly(exact.transform, Z), atol=1e-10)


@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_a_slow_exact_search_names_the_seconds_and_the_extra(monkeypatch):
    monkeypatch.setattr(choice, "SLOW_SECONDS", 0.0)
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    X = np.random.default_rng(0).normal(size=(200, 20))
    with pytest.warns(OutfoldWarning, match=r"about \d+ s\. pip install \"outfold\[ann\]\""):
        maps = DiffusionMaps(n_neighbors=8).fit(X)
    assert "approximately" not in maps.report_.edges
    monkeypatch.undo()
    pytest.importorskip("faiss")
    monkeypatch.setattr(choice, "SLOW_SECONDS", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Coordinate . shows outliers")
        assert "approximately" in DiffusionMaps(n_neighbors=8).fit(X).report_.edges


def test_a_tree_is_taken_where_the_points_lie_on_something_of_few_dimensions():
    rng = np.random.default_rng(0)

    def on_a_sheet(n, features):
        return np.sin(rng.uniform(-1, 1, (n, 2)) @ np.random.default_rng(1).normal(size=(2, features)))

    for X, kind in [
        (rng.normal(size=(500, 5)), Tree),
        (on_a_sheet(8000, 64), Tree),
        (rng.normal(size=(3000, 10)), Brute),
        (rng.normal(size=(3000, 64)), Brute),
        (on_a_sheet(8000, 129), Brute),
        (on_a_sheet(20, 64), Brute),
        (np.zeros((100, 8)), Brute),  # every box holds a neighbour
    ]:
        assert type(build(Metric().fit(X), "auto")) is kind
    X, Z = on_a_sheet(3000, 64), on_a_sheet(50, 64)
    reach = rng.uniform(0, 0.5, len(X))
    tree, brute = (kind(Metric().fit(X)) for kind in (Tree, Brute))
    one, other = (search.closest(Z, 32, Threads(1), search.group(reach)) for search in (tree, brute))
    near = [one.select(one.squared <= 0.2), other.select(other.squared <= 0.2)]
    assert np.array_equal(near[0].squared, near[1].squared)
    assert np.array_equal(near[0].index, near[1].index)


def test_asking_whether_a_tree_pays_leaves_nothing_behind():
    search = build(Metric().fit(np.random.default_rng(0).uniform(size=(3000, 2)) @ np.ones((2, 8))), "auto")
    assert isinstance(search, Tree)
    assert "_moved" not in vars(search.distances)
