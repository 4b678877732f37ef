"""The measures behind the experiments on the helix, tables and contrasts: what they say where the answer is known."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from outfold.app.reproduce import contrasts, helix, networks, thesis
from outfold.app.reproduce.record import Effort
from outfold.datasets import helix as points_on_helix
from outfold.leastsquares import JointModel
from outfold.runners import Threads

ANGLE = np.linspace(0, 2 * np.pi, 200, endpoint=False)


def circle(turns=1, stretch=1.0):
    return np.column_stack([stretch * np.cos(turns * ANGLE), np.sin(turns * ANGLE)])


@pytest.fixture(scope="module")
def small():
    X, angle = points_on_helix(300, noise=0.02, random_state=0)
    return thesis.Study(X, angle, 4, 10, 2, 100)


def test_roundness_and_turns_tell_a_circle_from_what_is_none():
    assert helix.roundness(circle()) < 1e-12
    assert helix.roundness(circle(stretch=2.0)) > 0.2
    assert helix.turns(circle(), ANGLE) == pytest.approx(1)
    assert helix.turns(circle(turns=-3), ANGLE) == pytest.approx(3)


def test_neighbours_far_apart_are_counted_where_a_curve_crosses_itself():
    assert contrasts.mixed(circle(), ANGLE) == 0
    eight = np.column_stack([np.sin(ANGLE), np.sin(2 * ANGLE)])
    assert 0.01 < contrasts.mixed(eight, ANGLE) < 0.2


def test_the_even_circle_runs_at_the_speed_of_the_helix():
    places = contrasts.arc_circle(ANGLE)
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1, atol=1e-12)
    curve = np.column_stack([np.cos(ANGLE), np.sin(2 * ANGLE), np.sin(3 * ANGLE)])
    steps = np.linalg.norm(np.diff(curve, axis=0), axis=1), np.linalg.norm(np.diff(places, axis=0), axis=1)
    ratio = steps[1] / steps[0]
    assert ratio.std() / ratio.mean() < 0.01


def test_two_groups_and_lines_are_told():
    label = np.repeat([0, 1], 50)
    apart = np.random.default_rng(0).normal(size=(100, 2)) + 10 * label[:, None]
    assert contrasts.two_groups(apart, label) == contrasts.straight(apart, label) == 1
    mixed = np.random.default_rng(0).normal(size=(100, 2))
    assert contrasts.straight(mixed, label) < 0.75


def test_the_angle_is_found_in_a_circle_turned_or_mirrored_and_not_in_noise():
    order = np.random.default_rng(0).permutation(np.arange(5, 195))  # a row at the cut may land on its other side
    train, test = order[:150], order[150:]
    for places in (circle(), circle()[:, ::-1], circle() * [1, -1] + 3):
        assert networks.latent(places[train], places[test], ANGLE[train], ANGLE[test]) > 0.95
    line = np.column_stack([ANGLE, ANGLE**2])
    assert networks.latent(line[train], line[test], ANGLE[train], ANGLE[test]) > 0.99
    noise = np.random.default_rng(1).normal(size=(200, 2))
    assert networks.latent(noise[train], noise[test], ANGLE[train], ANGLE[test]) < 0.2


class Flat:
    """Keeps two of three features; the way back fills the third with zeros."""

    def transform(self, X, on_far):
        return X[:, :2]

    def inverse_transform(self, places):
        return np.column_stack([places, np.zeros(len(places))])


def test_probes_see_class_angle_and_the_way_back():
    label, angle = np.repeat([0, 1], 190), np.tile(ANGLE[5:195], 2)
    X = np.column_stack([np.cos(angle) + 5 * label, np.sin(angle), np.full(380, 3.0)])
    order = np.random.default_rng(0).permutation(380)
    train, test = order[:300], order[300:]
    mse, latent, accuracy = networks.probes(Flat(), networks.Factors(X, label, angle, train, test))
    assert mse == pytest.approx(3.0)  # 9 in one of three features
    assert latent > 0.9
    assert accuracy == 1
    _, latent, accuracy = networks.probes(Flat(), networks.Factors(X, label[order], angle[order], train, test))
    assert latent < 0.2
    assert accuracy < 0.7


def test_parts_of_a_study_keep_the_shares_of_classes(small):
    label = np.repeat([0, 1, 2], [30, 90, 180])
    train, test = replace(small, labels=label).split(100, 0)
    assert not set(train) & set(test)
    assert np.bincount(label[test]).tolist() == [10, 30, 60]


def test_the_bandwidth_of_a_study_is_the_percentile_and_its_spectrum_decides_the_dimension(small):
    assert np.sqrt(small.whole.epsilon_) == pytest.approx(np.percentile(pdist(small.X), 4))
    table, picture = thesis.spectra(small, (4, 30))
    assert [row[0] for row in table.rows] == [4, 30]
    assert len(picture.figure.axes) == 2
    kept, first = thesis.chosen_dimension(small, 2)
    assert not kept.agrees
    later = thesis.chosen_dimension(replace(small, t=first.ours), 2)[0]
    assert later.agrees


def test_errors_fall_with_the_landmarks_and_nystrom_reconstructs_its_own(small):
    few, many = (thesis.extend(small, np.arange(size), np.arange(200, 300)) for size in (60, 200))
    assert many.reconstruction < few.reconstruction / 3
    assert many.aligned < few.aligned / 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 20 landmarks are few
        table, _, reconstruction, aligned = thesis.error_curve(small, Effort(repeats=1))
    assert len(table.rows) == len(reconstruction) == len(aligned) == 9
    assert [row[0] for row in table.rows] == list(range(20, 181, 20))
    finding = thesis.falls("error", reconstruction, "falls")
    assert finding.agrees == (np.diff(reconstruction) < 0).all()
    assert thesis.falls("error", reconstruction[::-1], "falls").agrees is False


def test_every_extension_is_compared_by_its_own_figures(small, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(thesis, "RANK", 5)
    monkeypatch.setattr(thesis, "ITERATIONS", 20)
    table = thesis.other_extensions(small, Effort(repeats=2))
    found = {name: figures for name, *figures in table.rows}
    assert list(found) == [*thesis.WAYS, "network, eta = 0", "network, eta = 10"]
    squares = {name for name in found if name.startswith("least squares")}
    assert {found[name][0] for name in squares} == {found["Nystrom"][0]}  # in degrees they differ, and they cancel
    assert len({tuple(figures) for figures in found.values()}) == len(found)
    assert all(" ± " in figure for figures in found.values() for figure in figures)
    assert "2 draws" in table.title
    assert "PyTorch" not in table.title


def test_aligned_errors_of_the_comparison_are_those_of_the_extension(small, monkeypatch):
    monkeypatch.setattr(thesis, "RANK", small.dimension)
    train, test = small.split(150, 0)
    truth = {c: thesis._twenty(small, c, small.X) for c in ("diffusion", "canonical")}
    _, at_one, at_t = thesis._errors(small, truth, train, test, "nystrom")
    assert at_one == pytest.approx(100 * thesis.extend(replace(small, t=1), train, test).aligned)
    assert at_t == pytest.approx(100 * thesis.extend(small, train, test).aligned)
    maps = thesis._twenty(small, "canonical", small.X[train])
    joint = JointModel(maps.model_)
    seen, new = joint.training(small.X[train], small.X[test], Threads()), joint.embed(small.X[test], Threads())
    plain = np.sqrt(150 / 300) * maps.transform(small.X, on_far="keep")
    for degrees, (ours, theirs) in {"joint": (seen, new), "training": (plain[train], plain[test])}.items():
        target = truth["canonical"].embedding_
        U, _, V = np.linalg.svd(ours.T @ target[train])
        square = np.square(theirs @ U @ V - target[test]).sum() / np.square(target[test] - target[test].mean(0)).sum()
        _, canonical, _ = thesis._errors(small, truth, train, test, thesis.LeastSquares(degrees))
        assert canonical == pytest.approx(100 * np.sqrt(square))


def test_without_torch_networks_are_left_out_of_the_comparison_and_it_says_so(small, monkeypatch):
    monkeypatch.setattr(thesis, "RANK", 5)
    monkeypatch.setattr(thesis, "WAYS", {"Nystrom": "nystrom"})
    monkeypatch.setattr(thesis, "find_spec", lambda name: None)
    table = thesis.other_extensions(small, Effort(repeats=1))
    assert [row[0] for row in table.rows] == ["Nystrom"]
    assert 'pip install "outfold[neural]"' in table.title


def test_contrasts_come_out_as_the_thesis_draws_them():
    outcome = contrasts.run(Effort())
    assert all(finding.agrees for finding in outcome.findings)
    assert [picture.name for picture in outcome.pictures] == ["pca", "alpha", "moons"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["helix", "wine", "vowel", "grids", "denoising", "networks"])
def test_experiments_run_in_full(name, shared_data, monkeypatch):
    from outfold.app.reproduce import experiment

    if name in ("grids", "denoising"):
        pytest.importorskip("torch")
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = experiment(name).run(Effort(repeats=1))
    assert all(finding.why for finding in outcome.findings if finding.agrees is False)
    assert outcome.pictures
