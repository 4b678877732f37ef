"""Fits of rows and weights of any size, drawn by a seed."""

import pytest

from fuzz import seeds
from fuzz.fits import fits
from outfold.data import weights
from outfold.engine import fit as stages
from outfold.methods import base


@seeds.each_seed
def test_fits_give_numbers_or_a_sentence(seed):
    seen = seeds.run(fits, seed, 400)
    assert not seeds.is_whole(seed) or min(seen["finite"], seen["refused"]) > 60


@pytest.mark.slow
@seeds.each_seed
def test_many_fits(seed):
    seeds.run(fits, seed, 20_000)


CHECKS = {
    "points": [(stages, "check_points", lambda points: None)],
    "weights": [
        (base, "leave_out_negligible", lambda measure: (measure, [])),
        (weights, "check_scale", lambda name, largest: None),
        (stages, "_check_finite", lambda values, eigenvalues: None),
    ],
}


@pytest.mark.parametrize("checks", CHECKS.values(), ids=CHECKS.keys())
def test_the_fuzzer_sees_checks_that_are_taken_out(checks, monkeypatch):
    for check in checks:
        monkeypatch.setattr(*check)
    with pytest.raises(AssertionError):
        seeds.run(fits, "0", 1000)
