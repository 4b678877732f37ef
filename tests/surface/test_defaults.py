"""The battery of defaults: its measures are right, and every figure of its page comes from a line."""

import importlib
import sys

import numpy as np
import pytest

from catalogue import ROOT

FOLDER = ROOT / "benchmarks"
PARTS = ("sets", "default_sets", "default_fits", "environments", "defaults")


@pytest.fixture(scope="module")
def battery():
    """The module of the battery, which finds others beside it by name."""
    before = dict(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("defaults")
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - set(before):
            if name in PARTS or name.split(".")[0] == "peers":
                del sys.modules[name]


def test_measures_are_what_their_names_say(battery):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(200, 3))
    turned = 5 * truth @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + 2
    assert battery.missed(turned, truth) < 1e-20
    assert battery.missed(rng.normal(size=(200, 3)), truth) > 0.9
    assert battery.disagreement(truth, turned[:, :2] * 0 + truth[:, 1::-1]) < 1e-12
    spike = np.zeros((200, 2))
    spike[:5] = 1
    assert battery.top5(spike + 1e-9 * truth[:, :2]) > 0.95
    assert battery.top5(truth) < 0.3
    labels = (truth[:, 0] > 0).astype(int)
    assert battery.accuracy(truth[:, :1], labels) > 0.95
    assert battery.accuracy(rng.normal(size=(200, 1)), labels) < 0.7
    assert battery.accuracy(truth[:, :1], truth[:, 0]) > 0.9


def test_eigenfunctions_are_orthogonal_on_even_samples_and_those_of_the_ellipsoid_solve_its_problem(battery):
    for shape in battery.MANIFOLDS:
        sample = battery.manifold(shape, "even", 0, 20_000, 0)
        functions = sample.functions / np.sqrt(np.square(sample.functions).mean(axis=0))
        gram = functions.T @ functions / len(functions)
        assert np.abs(gram - np.eye(len(gram))).max() < 0.05, shape
        assert np.abs(functions.mean(axis=0)).max() < 0.05, shape


def test_a_verdict_allows_five_per_cent_or_a_standard_error(battery):
    key = ("noisy", "circle", 500, "missed")
    assert battery.judge(key, {"outfold": [0.104], "scanpy": [0.1], "PCA": [0.0]}, "outfold").holds
    assert not battery.judge(key, {"outfold": [0.106], "scanpy": [0.1]}, "outfold").holds
    assert battery.judge(key, {"outfold": [0.1, 0.13], "scanpy": [0.09, 0.13]}, "outfold").holds
    better = battery.judge(("table", "digits", 10, "accuracy, 2"), {"outfold": [0.9], "PCA": [0.6]}, "outfold")
    assert better.holds
    assert better.peer == "PCA"


def test_every_figure_of_the_page_comes_from_the_lines(battery):
    found = battery.read(battery.RESULTS)
    page = (ROOT / "docs" / "defaults.md").read_text()
    for mark, text in battery.texts(found).items():
        assert f"<!-- {mark} -->\n{text}\n<!-- end {mark} -->" in page, mark
