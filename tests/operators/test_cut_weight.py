"""The warning where nearest neighbours cut a Gaussian that still weighs."""

import re

import numpy as np
import pytest

from outfold import DiffusionMaps, LaplacianEigenmaps, graphs
from outfold.exceptions import SpectrumWarning

ANGLES = 2 * np.pi / 600 * (np.arange(600) + np.random.default_rng(0).uniform(0, 0.2, 600))
X = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])


def warnings_of(method):
    return [text for text in method.fit(X).report_.warnings if "cuts the Gaussian" in text]


@pytest.mark.parametrize("rule", [10, graphs.Union(10), graphs.Mutual(10)], ids=str)
def test_a_cut_that_weighs_is_told_with_its_figure_and_the_remedies(rule):
    with pytest.warns(SpectrumWarning, match=r"n_neighbors=10 cuts the Gaussian of epsilon=0\.05"):
        maps = DiffusionMaps(2, epsilon=0.05, n_neighbors=rule).fit(X)
    text = next(t for t in maps.report_.warnings if "cuts" in t)
    distances = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)
    radius = distances[:, 9:11].mean(axis=1)  # midway between the tenth and the eleventh, a row itself is the first
    weight = np.exp(-(np.median(radius) ** 2) / 0.1)
    assert f"still weighs {weight:.2g} " in text
    enough, epsilon = (float(x) for x in re.search(r"about (\d+), or lower epsilon to about (\S+)\.$", text).groups())
    assert enough == pytest.approx(np.median((distances <= np.sqrt(-2 * 0.05 * np.log(0.01))).sum(axis=1)), rel=0.05)
    for remedy in ({"n_neighbors": "auto"}, {"n_neighbors": int(enough)}, {"epsilon": epsilon}):
        with_it = DiffusionMaps(2, **{"epsilon": 0.05, "n_neighbors": rule, **remedy}).fit(X)
        assert not any("cuts" in t for t in with_it.report_.warnings)


@pytest.mark.parametrize(
    "method",
    [
        DiffusionMaps(2, n_neighbors=10),  # epsilon="auto" suits the graph
        DiffusionMaps(2, n_neighbors=10, epsilon="median"),
        DiffusionMaps(2, n_neighbors=10, epsilon=1e-4),  # the weight at the cut is 1e-3
        DiffusionMaps(2, epsilon=0.05),
        DiffusionMaps(2, epsilon=0.05, threshold=0.3),  # a threshold says itself what it leaves out
        DiffusionMaps(2, kernel="self_tuning", n_neighbors=10, epsilon=1.0),
        LaplacianEigenmaps(2, n_neighbors=10, epsilon=np.inf),  # the binary graph is no Gaussian
    ],
    ids=str,
)
def test_others_are_silent(method):
    assert not warnings_of(method)
