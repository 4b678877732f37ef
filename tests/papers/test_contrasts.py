"""Contrasts come out as the thesis draws them."""

from outfold.papers import contrasts
from outfold.papers.record import Effort


def test_contrasts_come_out_as_the_thesis_draws_them():
    outcome = contrasts.run(Effort())
    assert all(finding.agrees for finding in outcome.findings)
    assert [picture.name for picture in outcome.pictures] == ["pca", "alpha", "moons"]
