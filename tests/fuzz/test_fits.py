"""Fits of rows and weights of any size, drawn by a seed."""

import pytest

from fuzz import seeds
from fuzz.fits import fits
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


@pytest.mark.parametrize(
    "fault",
    [
        (stages, "check_points", lambda points: None),
        (base, "leave_out_negligible", lambda measure: (measure, [])),
    ],
    ids=["no check of points", "no weight is negligible"],
)
def test_the_fuzzer_sees_a_check_that_is_taken_out(fault, monkeypatch):
    monkeypatch.setattr(*fault)
    with pytest.raises(AssertionError):
        seeds.run(fits, "0", 1500)
