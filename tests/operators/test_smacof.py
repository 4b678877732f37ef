"""Scaling by stress: against scikit-learn, and where it starts."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof

from outfold import PHATE, quality
from outfold._runtime.threads import Threads
from outfold.datasets import s_curve
from outfold.operators._smacof import along_axes, classical, metric, stress

X = s_curve(300, random_state=0)[0]


def test_the_stress_never_rises_and_ends_where_scikit_learns_does():
    delta = np.sqrt(cdist(X[:150], X[:150], "cityblock"))  # in no plane
    ones = np.ones(150)
    found = metric(delta, 2, ones, Threads(1))
    history = np.array(found.history)
    assert (np.diff(history) <= 1e-12 * history[0]).all()
    assert history[-1] < 0.9 * history[0]
    _, theirs = smacof(
        delta,
        n_components=2,
        init=classical(delta, 2, ones),
        n_init=1,
        max_iter=2000,
        eps=1e-9,
        normalized_stress=False,
    )
    assert history[-1] == pytest.approx(theirs, rel=5e-3)
    assert found.stress == pytest.approx(history[-1] / (np.square(delta).sum() / 2), rel=1e-12)
    assert found.stress == pytest.approx(stress(delta, found.places, ones), rel=1e-9)


def test_distances_of_a_plane_are_kept():
    places = along_axes(np.random.default_rng(0).normal(size=(700, 2)), np.ones(700))  # also beyond dense solves
    found = metric(cdist(places, places), 2, np.ones(700), Threads(1)).places
    np.testing.assert_allclose(found * np.sign((found * places).sum(axis=0)), places, atol=1e-8)


def test_classical_scaling_is_where_metric_scaling_starts():
    first, second = (PHATE(mds=mds, t=5).fit(X) for mds in ("classical", "metric"))
    assert second.stress_ < first.stress_
    assert quality.distance_correlation(first.embedding_, second.embedding_, method="pearson") > 0.9
