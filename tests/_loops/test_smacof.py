"""Steps of the stress against the plain formula."""

import numpy as np
from scipy.spatial.distance import cdist


def test_compiled_steps_are_the_plain_formula():
    from outfold._loops import smacof

    rng = np.random.default_rng(0)
    places, measure = rng.normal(size=(3, 30)), rng.uniform(1, 2, 30)
    places[:, 1] = places[:, 0]  # two in one place
    delta = cdist(rng.normal(size=(30, 5)), rng.normal(size=(30, 5)))
    d = cdist(places.T, places.T)
    with np.errstate(divide="ignore"):
        pulls = np.where(d > 0, delta / d, 0.0) * measure
    expected = (pulls[:, :, None] * (places.T[:, None] - places.T)).sum(axis=1).T
    for step in (smacof.guttman_rows, smacof.guttman_rows.plain):
        out, parts = np.zeros((3, 30)), np.zeros(30)
        step(delta, places, measure, out, parts, 0, 30)
        np.testing.assert_allclose(out, expected, atol=1e-11)
        np.testing.assert_allclose(parts, measure * (np.square(delta - d) @ measure), rtol=1e-12)
