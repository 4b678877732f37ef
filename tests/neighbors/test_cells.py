"""Search in the nearest cells: the same answer for a row alone, in any batch and in the fit, and how much it finds."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, graphs, load
from outfold._loops import cells as loops
from outfold._runtime.threads import Threads
from outfold.distances import Distances, Metric
from outfold.neighbors import build, cells
from outfold.neighbors.brute import Brute
from outfold.neighbors.cells import RECALLED, Cells

RUNNER = Threads()


def curved(n, features, seed=0):
    """A surface of four dimensions in ``features``."""
    rng = np.random.default_rng(seed)
    return np.sin(rng.uniform(-1.5, 1.5, (n, 4)) @ np.random.default_rng(99).normal(size=(4, features)))


X, Z = curved(4000, 30), curved(60, 30, seed=1)
SEARCH = Cells.of(Distances(X), RUNNER)


def lists_of(search, rows, k):
    found = search.closest(rows, k, RUNNER)
    return [(found.index[a:b].tolist(), found.squared[a:b].tolist()) for a, b in zip(found.ptr[:-1], found.ptr[1:])]


def share_of(found, wanted):
    return np.mean([len(set(a) & set(b)) / len(b) for (a, _), (b, _) in zip(found, wanted)])


def test_every_anchor_is_in_one_cell_the_nearest():
    assert sorted(SEARCH.members) == list(range(4000))
    cell = np.repeat(np.arange(len(SEARCH.centres)), SEARCH.sizes)
    nearest = ((X[SEARCH.members][:, None] - SEARCH.centres) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(cell, nearest)


@pytest.mark.parametrize("k", [1, 15, 40])
def test_the_answer_is_that_of_all_pairs_within_the_nearest_cells(k):
    ends = np.append(0, np.cumsum(SEARCH.sizes))
    for z, (index, squared) in zip(Z, lists_of(SEARCH, Z, k)):
        cells = np.argsort(((z - SEARCH.centres) ** 2).sum(axis=1))[: SEARCH.probes]
        there = np.concatenate([SEARCH.members[ends[c] : ends[c + 1]] for c in cells])
        lengths = ((X[there] - z) ** 2).sum(axis=1)
        assert index == there[np.lexsort((there, lengths))[:k]].tolist()
        np.testing.assert_allclose(squared, np.sort(lengths)[:k], rtol=1e-12)


def test_a_row_alone_in_a_batch_and_of_the_fit_has_one_answer():
    together = lists_of(SEARCH, np.vstack([X[:50], Z]), 20)
    everything = lists_of(SEARCH, X, 20)
    for at, row in enumerate(np.vstack([X[:50], Z])):
        assert lists_of(SEARCH, row[None], 20)[0] == together[at]
    assert everything[:50] == together[:50]


def test_threads_change_no_bit():
    again = Cells.of(Distances(X), Threads(1))
    for name in ("centres", "members", "sizes", "probes", "recall"):
        np.testing.assert_array_equal(getattr(again, name), getattr(SEARCH, name))


@pytest.mark.parametrize("make", [lambda: X, lambda: np.random.default_rng(0).normal(size=(3000, 40))])
def test_the_recall_that_is_reported_is_what_a_search_of_all_pairs_finds(make):
    points = make()
    search = Cells.of(Distances(points), RUNNER)
    rows = np.random.default_rng(7).permutation(len(points))[:500]
    found, wanted = (lists_of(s, points[rows], RECALLED + 1) for s in (search, Brute(Distances(points))))
    wanted = [(index[: RECALLED + 1], None) for index, _ in wanted]
    others = (share_of(found, wanted) * (RECALLED + 1) - 1) / RECALLED  # without the row itself
    assert others >= 0.95
    error = np.sqrt(0.05 * RECALLED / 160 / RECALLED)  # of a mean over 160 rows whose neighbours err together
    assert abs(search.recall - others) < 3 * error


def test_equal_distances_are_all_found_or_all_left_out():
    grid = np.array([(a, b, c, 0, 0) for a in range(12) for b in range(12) for c in range(12)], float)
    search = Cells.of(Distances(grid), RUNNER)
    every = Brute(Distances(grid))
    found, alone = search.closest(grid[:200], 5, RUNNER), [search.closest(z[None], 5, RUNNER) for z in grid[:200]]
    for at, one in enumerate(alone):
        part = slice(found.ptr[at], found.ptr[at + 1])
        assert one.index.tolist() == found.index[part].tolist()
        kth = found.squared[found.ptr[at] + 4]
        assert found.squared[part].max() == kth
    exact = every.closest(grid[:200], 5, RUNNER)
    full = [found.ptr[at + 1] - found.ptr[at] for at in range(200)]
    assert max(full) > 5
    assert np.mean(exact.kth(5) == found.kth(5)) > 0.9


def test_points_far_from_the_origin_keep_their_neighbours():
    moved = Cells.of(Distances(X + 1e6), RUNNER)
    exact = [(index[:15], None) for index, _ in lists_of(Brute(Distances(X)), X[:300], 15)]
    assert share_of(lists_of(moved, X[:300] + 1e6, 15), exact) > 0.95


def test_a_row_far_away_and_more_neighbours_than_cells_hold():
    far = np.full((1, 30), 1e4)
    assert len(lists_of(SEARCH, far, 10)[0][0]) == 10
    several = int(SEARCH.sizes.max()) * SEARCH.probes + 1
    (index, squared), *_ = lists_of(SEARCH, Z[:1], several)
    assert len(set(index)) == len(index) == several
    assert (np.diff(squared) >= 0).all()


def test_anchors_within_a_radius_and_anchors_that_reach_a_row():
    radius = float(np.sqrt(np.median([s[-1] for _, s in lists_of(SEARCH, Z, 15)])))
    found = SEARCH.within(Z, np.full(60, radius), None, RUNNER)
    found = found.select(found.squared <= radius**2)
    lengths = ((Z[:, None] - X) ** 2).sum(axis=2)
    wanted = lengths <= radius**2
    there = np.zeros_like(wanted)
    there[found.rows(), found.index] = True
    assert not (there & ~wanted).any()
    assert (there & wanted).sum() > 0.95 * wanted.sum()  # about as far as the 15 nearest, whose recall is 0.95
    reach = np.random.default_rng(0).uniform(0.5, 1.5, 4000) * radius
    seen = SEARCH.closest(Z, 5, RUNNER, SEARCH.group(reach))
    wanted = lengths <= reach**2
    there[:] = False
    there[seen.rows(), seen.index] = True
    cells = np.argsort(((Z[:, None] - SEARCH.centres) ** 2).sum(axis=2), axis=1)[:, : SEARCH.probes]
    cell = np.empty(4000, int)
    cell[SEARCH.members] = np.repeat(np.arange(len(SEARCH.centres)), SEARCH.sizes)
    searched = (cell[None, :, None] == cells[:, None]).any(axis=2)
    np.testing.assert_array_equal(there & wanted, searched & wanted)
    for at in range(60):
        assert set(lists_of(SEARCH, Z[at : at + 1], 5)[0][0]) <= set(np.flatnonzero(there[at]))


def test_keeping_the_smallest_is_that_of_plain_python():
    rng = np.random.default_rng(0)
    tables = [rng.uniform(size=(6, 9)).astype(np.float32) for _ in range(4)]
    for loop in (loops.keep_smallest, loops.keep_smallest.plain):
        best, found = np.full((6, 5), np.inf, np.float32), np.full((6, 5), -1, np.int64)
        for at, table in enumerate(tables):
            loop(table, np.arange(9) + 9 * at, np.arange(6), best, found)
        values = np.hstack(tables)
        order = np.argsort(values, axis=1)[:, :5]
        np.testing.assert_array_equal(found, order)
        np.testing.assert_array_equal(best, np.take_along_axis(values, order, axis=1))


@pytest.fixture
def cells_for_few(monkeypatch):
    monkeypatch.setattr("outfold.neighbors.choice.CELLS_FROM", 1000)
    monkeypatch.setattr("outfold.neighbors.choice.CELLS_SECONDS", 0.0)


@pytest.mark.usefixtures("cells_for_few")
def test_the_laws_hold_through_cells(tmp_path):
    points = np.random.default_rng(0).normal(size=(2000, 5)) @ np.random.default_rng(1).normal(size=(5, 130))
    new = points[:40] + 0.1
    model = quietly(DiffusionMaps(3).fit, points)
    assert isinstance(build(Metric().fit(points), "auto"), Cells)
    assert "found approximately: 9" in model.report_.edges
    assert 0.9 < model.report_.recall < 1
    assert model.report_.extension_gap == 0
    part = np.random.default_rng(0).permutation(2000)[:300]
    np.testing.assert_allclose(model.transform(points[part]), model.embedding_[part], atol=1e-10)
    moved = quietly(model.transform, new)
    np.testing.assert_allclose(np.vstack([quietly(model.transform, z[None]) for z in new]), moved, atol=1e-12)
    model.save(tmp_path / "model.outfold")
    again = load(tmp_path / "model.outfold")
    np.testing.assert_array_equal(quietly(again.transform, new), moved)
    assert again.report_.recall == model.report_.recall


def test_a_union_graph_takes_its_reverse_edges_from_the_cells(monkeypatch):
    rule = graphs.Union(16, search="cells")
    exact = quietly(LaplacianEigenmaps(3, n_neighbors=graphs.Union(16, search="brute")).fit, X)
    monkeypatch.setattr(Brute, "within", None)  # all pairs would be searched by it
    model = quietly(LaplacianEigenmaps(3, n_neighbors=rule).fit, X)
    np.testing.assert_allclose(1 - model.eigenvalues_, 1 - exact.eigenvalues_, rtol=0.05)
    moved = quietly(model.transform, Z)
    np.testing.assert_allclose(np.vstack([quietly(model.transform, z[None]) for z in Z]), moved, atol=1e-12)
    assert model.report_.extension_gap < 1e-6 * np.abs(model.embedding_).max()  # that of an iterative solver


def test_cells_are_for_euclidean_distances():
    with pytest.raises(ValueError, match="search='cells' is for Euclidean"):
        build(Metric("cosine").fit(X), "cells")


@pytest.mark.parametrize("rule", [graphs.Union(8, search="cells"), graphs.Mutual(12, search="cells")], ids=str)
def test_edges_that_cells_find_from_both_ends_are_the_same_for_new_rows(rule, monkeypatch):
    monkeypatch.setattr(cells, "AIMED", 0.5)  # so few cells that many neighbours are listed by one end only
    X = np.random.default_rng(0).normal(size=(1500, 10))
    model = quietly(DiffusionMaps(3, n_neighbors=rule, components="largest").fit, X)
    assert model.report_.recall < 0.8
    W = model.graph_
    assert abs(W - W.T).max() < 1e-15
    inside = np.flatnonzero(~np.isnan(model.embedding_).any(axis=1))[::7]
    again = quietly(model.transform, X[inside])
    np.testing.assert_allclose(again, model.embedding_[inside], rtol=0, atol=1e-10 * np.abs(again).max())


@pytest.mark.parametrize("unit", [2.0**-340, 2.0**-100, 2.0**100, 2.0**340])
def test_neighbors_do_not_depend_on_the_unit(unit):
    scaled = Cells.of(Distances(X * unit), RUNNER)
    assert (scaled.probes, scaled.recall) == (SEARCH.probes, SEARCH.recall)
    for (index, squared), (other, lengths) in zip(lists_of(scaled, Z * unit, 15), lists_of(SEARCH, Z, 15)):
        assert index == other
        np.testing.assert_allclose(np.array(squared) / unit / unit, lengths, rtol=1e-14)


def hard_points(kind):
    rng = np.random.default_rng(5)
    if kind == "heavy tails":
        return rng.lognormal(sigma=3, size=(4000, 20))
    if kind == "one outlier":
        return np.vstack([curved(3999, 20), np.full((1, 20), 1e25)])
    return 1e3 * rng.normal(size=(20, 20))[rng.integers(20, size=4000)] + 1e-2 * curved(4000, 20)  # tight clusters


@pytest.mark.parametrize("kind", ["heavy tails", "one outlier", "tight clusters"])
def test_hard_points_have_their_neighbors_and_few_are_searched_again(kind, monkeypatch):
    again, plain = [], Cells._again

    def counted(self, Z, probed, k, runner):
        again.append(len(Z))
        return plain(self, Z, probed, k, runner)

    monkeypatch.setattr(Cells, "_again", counted)
    points = hard_points(kind)
    search = Cells.of(Distances(points), RUNNER)
    assert sum(again) < 0.05 * 320  # of the sample
    again.clear()
    found = lists_of(search, points, 16)
    assert sum(again) < 0.05 * 4000
    true = [(np.argsort(lengths)[:16], None) for lengths in cdist(points, points, "sqeuclidean")]
    assert share_of([(index[:16], None) for index, _ in found], true) > 0.95
    assert search.recall > 0.95
    cell = np.empty(4000, int)
    cell[search.members] = np.repeat(np.arange(len(search.centres)), search.sizes)
    for row in (0, 1, 2, 3999):
        order = np.argsort(((points[row] - search.centres) ** 2).sum(axis=1), kind="stable")
        there = np.flatnonzero(np.isin(cell, order[: search.probes]))
        lengths = ((points[there] - points[row]) ** 2).sum(axis=1)
        assert found[row][0][:16] == there[np.lexsort((there, lengths))[:16]].tolist()
