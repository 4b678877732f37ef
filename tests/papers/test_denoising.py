"""Networks of the thesis: what noise is left."""

import numpy as np
import pytest

from outfold.papers import denoising
from outfold.papers.record import Effort


def test_errors_of_a_curve_are_those_of_its_noise():
    curve = denoising.Curve.of(0)
    rows = denoising.TRAIN
    np.testing.assert_allclose(curve.errors(curve.clean[rows:])[:2], 0, atol=0)
    assert curve.errors(curve.clean[rows:])[2] < 1e-3
    mean, root, across = curve.errors(curve.noisy[rows:])
    assert mean == pytest.approx(denoising.NOISE * np.sqrt(8 / np.pi), rel=0.03)  # of a normal vector in space
    assert root == pytest.approx(denoising.NOISE * np.sqrt(3), rel=0.03)
    assert across == pytest.approx(denoising.NOISE * np.sqrt(2), rel=0.03)  # without the part along the curve
    mean, root, across = curve.errors(curve.nearest)
    assert across == 0
    assert root == pytest.approx(denoising.NOISE, rel=0.05)  # the part along the curve


def test_noise_is_taken_off_and_the_effect_of_eta_is_shown(few):
    outcome = denoising.run(Effort(repeats=1))
    (table,) = outcome.tables
    assert [row[0] for row in table.rows] == [
        "with noise",
        "eta = 0",
        "eta = 100",
        "nearest point of the curve itself",
    ]
    assert all(finding.why for finding in outcome.findings)
    by_mean, by_root, ratio, _ = outcome.findings
    assert by_mean.agrees == (by_mean.ours <= denoising.BOUND)
    assert by_mean.ours < by_root.ours < 0.5
    assert ratio.agrees == all(float(part) < 1 for part in ratio.ours.split())
    assert len(outcome.pictures[0].figure.axes) == 4
