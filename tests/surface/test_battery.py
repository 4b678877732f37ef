"""The second part of the battery of defaults: its measures are right, and figures of its page come from lines."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from catalogue import ROOT

FOLDER = ROOT / "benchmarks"
NAMES = ("battery", "battery_measures", "battery_sets", "battery_tables")
BESIDE = ("sets", "default_sets", "default_fits", "default_process", "defaults", "environments")


@pytest.fixture(scope="module")
def battery():
    """The modules of the battery, which find others beside them by name."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if name in (*NAMES, *BESIDE) or name.split(".")[0] == "peers":
                del sys.modules[name]


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_estimates_of_dimension_are_right_on_flat_tori(battery, dimension):
    """Tori have no boundary; the standard error of maximum likelihood is about d / sqrt(n), that of TwoNN as well."""
    angle = np.random.default_rng(dimension).uniform(0, 2 * np.pi, (8000, dimension))
    X = np.hstack([np.cos(angle), np.sin(angle)])
    bias = 1 - 0.05 * (dimension - 1)  # balls of ten to twenty neighbours feel the curvature
    assert bias * dimension < battery.battery_measures.likelihood_dimension(X) < 1.04 * dimension
    assert battery.battery_measures.two_nearest_dimension(X) == pytest.approx(dimension, rel=0.08)


def test_estimates_of_dimension_are_the_formulas_of_the_papers(battery):
    X = np.random.default_rng(0).normal(size=(60, 3))
    distances = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, 1:]
    by_k = []
    for k in (10, 11, 12):
        inverse = [sum(np.log(row[k - 1] / row[j]) for j in range(k - 1)) / (k - 1) for row in distances]
        by_k.append(1 / np.mean(inverse))
    assert battery.battery_measures.likelihood_dimension(X, 10, 12) == pytest.approx(np.mean(by_k), rel=1e-12)
    ratio = np.sort(distances[:, 1] / distances[:, 0])[:54]
    height = [-np.log(1 - i / 60) for i in range(1, 55)]
    slope = np.linalg.lstsq(np.log(ratio)[:, None], np.array(height), rcond=None)[0][0]
    assert battery.battery_measures.two_nearest_dimension(X) == pytest.approx(slope, rel=1e-12)


def test_copies_of_rows_do_not_count_as_neighbours(battery):
    X = np.random.default_rng(1).normal(size=(300, 2))
    for estimate in (battery.battery_measures.likelihood_dimension, battery.battery_measures.two_nearest_dimension):
        assert estimate(np.vstack([X, X[:50]])) == pytest.approx(estimate(X), rel=1e-12)


def test_a_linear_map_is_seen_and_one_that_only_interpolates_is_not(battery):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    share = battery.battery_measures.linear_share
    assert share(X, X @ rng.normal(size=(6, 2)) + 3) > 1 - 1e-9
    assert share(X, np.square(X[:, :2])) < 0.1
    assert share(X, np.column_stack([X[:, 0], np.square(X[:, 1])])) < 0.1  # the worse of the two coordinates
    assert share(rng.normal(size=(80, 200)), rng.normal(size=(80, 2))) < 0.3  # more features than rows: any map fits


def test_a_column_dominates_if_it_is_most_of_the_variance_and_far_larger_than_others(battery):
    scales = battery.battery_measures.scales
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    assert not scales(X).dominated
    found = scales(X * [1, 1, 100, 1, 1])
    assert found.dominated
    assert found.share == pytest.approx(1e4 / (1e4 + 4), rel=1e-3)
    assert found.ratio == pytest.approx(100, rel=0.1)
    assert not scales(X * [1, 1, 4, 1, 1]).dominated  # most of the variance, but no other unit
    apart = np.vstack([X, X + 100])
    assert scales(apart).pieces == 2
    flat = np.column_stack([X[:, :2], X[:, :2] @ rng.normal(size=(2, 3))])
    assert scales(flat).plane == pytest.approx(1, abs=1e-12)


def test_clusters_take_the_numbers_of_their_classes(battery):
    labels = np.repeat([0, 1, 2], 10)
    renamed = np.array([7, 3, 5])[labels]
    renamed[0] = 3
    found = battery.battery_measures.match(renamed, labels)
    assert (found[1:] == labels[1:]).all()
    assert found[0] == 1
    spare = np.where(np.arange(30) > 25, 9, renamed)
    assert set(battery.battery_measures.match(spare, labels)) == {0, 1, 2, 3}


def cluster_line(contender, rand, seed=0, **more):
    line = {"part": "clusters", "set": "iris", "n": 150, "seed": seed, "contender": contender, "classes": 3}
    return line | {"rand": rand, "clusters": 3} | more


def test_clusters_hold_within_two_hundredths_of_the_better_peer(battery):
    def judge(ours, scikit, means):
        rands = zip(battery.battery.CLUSTERERS, (ours, ours, scikit, means))
        lines = [cluster_line(who, rand, seed) for who, rand in rands for seed in (0, 1)]
        (one,) = battery.battery_tables.rands(lines)
        return one

    assert judge(0.71, 0.7, 0.725).holds
    assert not judge(0.70, 0.7, 0.725).holds
    assert judge(0.71, 0.7, 0.725).found == "3"
    lines = [cluster_line(who, 0.5) for who in battery.battery.CLUSTERERS[:3]]
    assert battery.battery_tables.rands(lines) == []  # k-means was not measured


def test_a_dimension_is_near_within_a_quarter_or_as_the_nearest_whole_number(battery):
    near = battery.battery_tables.is_near
    assert near(12.4, 10.0)
    assert not near(12.6, 10.0)
    assert near(1, 1.45)  # rounding is no error
    assert not near(1.05, 1.45)
    assert not near(1, 1.6)


def test_a_warning_counts_only_if_it_is_about_the_trouble(battery):
    tables = battery.battery_tables
    data = battery.battery_measures.Scales(0.99, 300.0, 0.5, 1)
    line = {"set": "digits", "top5": 0.9, "linear": 1.0, "contender": "outfold Gaussian"}
    assert tables.due(line, data) == ["top 5", "column", "linear"]
    assert tables.unsaid(line, data) == ["top 5", "column", "linear"]
    said = line | {"warnings": ["Coordinate 1 shows outliers: scale the features."]}
    assert tables.unsaid(said, data) == ["column", "linear"]
    assert tables.due(line, data._replace(plane=0.99, ratio=2.0)) == ["top 5"]  # a plane has a linear map
    assert tables.due(line | {"set": "sphere"}, data._replace(ratio=2.0)) == ["top 5"]  # so are its eigenfunctions
    assert tables.due(line | {"top5": 0.1, "linear": 0.5}, data._replace(ratio=2.0)) == []
    assert tables.due(line | {"contender": "outfold KernelPCA"}, data) == ["top 5", "column"]  # linear by definition


def test_new_rows_are_classed_by_the_fitted_ones(battery):
    rng = np.random.default_rng(0)
    places, new = rng.uniform(-1, 1, (500, 1)), rng.uniform(-1, 1, (300, 1))
    labels, truth = (places[:, 0] > 0).astype(int), (new[:, 0] > 0).astype(int)
    assert battery.battery.new_accuracy(places, labels, new, truth) > 0.97
    assert battery.battery.new_accuracy(places, labels, new, 1 - truth) < 0.03


def test_every_figure_of_the_page_comes_from_the_lines(battery):
    lines = battery.battery.read(battery.battery.RESULTS)
    page = (ROOT / "docs" / "defaults-clusters.md").read_text()
    for mark, text in battery.battery_tables.texts(lines).items():
        assert f"<!-- {mark} -->\n{text}\n<!-- end {mark} -->" in page, mark


def test_no_line_is_there_twice_and_every_part_was_measured(battery):
    lines = battery.battery.read(battery.battery.RESULTS)
    keys = [battery.battery.key_of(line) for line in lines]
    assert len(keys) == len(set(keys))
    assert {"clusters", "dimension", "fits", "rows"} <= {key.part for key in keys}
    for part, contenders in (
        ("clusters", battery.battery.CLUSTERERS),
        ("dimension", battery.battery.DIMENSIONERS),
        ("fits", (*battery.battery.WARNING, *battery.battery.METHODS, "data")),
        ("rows", battery.battery.STEPPED),
    ):
        assert {key.contender for key in keys if key.part == part} == set(contenders)
