"""The papers' experiments: each under its name, in full, and left out where something is missing."""

import warnings

import pytest

from outfold import papers
from outfold.papers import denoising, experiment, grids, record
from outfold.papers.record import Effort, NotAtHand

ONCE = Effort(seed=0, repeats=1)
EFFORT = Effort(repeats=1)


@pytest.mark.parametrize("name", papers.EXPERIMENT_NAMES)
def test_every_experiment_loads_under_its_name_and_says_whose_it_is(name):
    found = papers.experiment(name)
    assert found.name == name
    assert all((found.title, found.source, found.settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["least-squares", "eigenfunctions", "induction"])
def test_each_experiment_runs_and_what_differs_says_why(name, request):
    if name != "least-squares":
        request.getfixturevalue("faces")
    outcome = experiment(name).run(ONCE)
    assert all((outcome.pictures, outcome.findings, outcome.tables))
    assert all(line.why for line in outcome.findings if line.agrees is False)
    misprints = {"least-squares": 2, "eigenfunctions": 0}
    assert sum(line.agrees is False for line in outcome.findings) == misprints.get(name, pytest.approx(0, abs=2))


@pytest.mark.parametrize("module", [grids, denoising])
def test_without_torch_the_experiment_is_left_out_with_the_way_to_get_it(module, monkeypatch):
    monkeypatch.setattr(record, "find_spec", lambda name: None)
    with pytest.raises(NotAtHand, match=r'pip install "outfold\[neural\]"'):
        module.run(Effort(repeats=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["roseland", "run-times"])
def test_the_experiments_run_and_give_verdicts_and_pictures(name, capsys):
    outcome = experiment(name).run(EFFORT)
    assert sum(line.agrees is not None for line in outcome.findings) >= 8
    assert all(line.why for line in outcome.findings if line.agrees is False)
    assert outcome.pictures
    assert outcome.tables
    assert len({picture.name for picture in outcome.pictures}) == len(outcome.pictures)
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["helix", "wine", "vowel", "grids", "denoising", "networks"])
def test_experiments_run_in_full(name, shared_data, monkeypatch):
    from outfold.papers import experiment

    if name in ("grids", "denoising"):
        pytest.importorskip("torch")
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = experiment(name).run(Effort(repeats=1))
    assert all(finding.why for finding in outcome.findings if finding.agrees is False)
    assert outcome.pictures
