"""The report of a fit is data too."""

from dataclasses import asdict

from catalogue import cloud
from outfold import DiffusionMaps

X = cloud(0, rows=40)


def test_the_report_is_data_too():
    facts = asdict(DiffusionMaps().fit(X).report_)
    assert facts["method"] == "DiffusionMaps"
    assert facts["n_samples"] == len(X)
