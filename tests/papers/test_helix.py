"""Measures of the helix: what they say where the answer is known."""

import numpy as np
import pytest

from outfold.papers import contrasts, helix, networks

ANGLE = np.linspace(0, 2 * np.pi, 200, endpoint=False)


def circle(turns=1, stretch=1.0):
    return np.column_stack([stretch * np.cos(turns * ANGLE), np.sin(turns * ANGLE)])


def test_roundness_and_turns_tell_a_circle_from_what_is_none():
    assert helix.roundness(circle()) < 1e-12
    assert helix.roundness(circle(stretch=2.0)) > 0.2
    assert helix.turns(circle(), ANGLE) == pytest.approx(1)
    assert helix.turns(circle(turns=-3), ANGLE) == pytest.approx(3)


def test_neighbours_far_apart_are_counted_where_a_curve_crosses_itself():
    assert contrasts.mix(circle(), ANGLE) == 0
    eight = np.column_stack([np.sin(ANGLE), np.sin(2 * ANGLE)])
    assert 0.01 < contrasts.mix(eight, ANGLE) < 0.2


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
    mse, latent, accuracy = networks.probes(
        Flat(), networks.Factors(X=X, label=label, angle=angle, train=train, test=test)
    )
    assert mse == pytest.approx(3.0)  # 9 in one of three features
    assert latent > 0.9
    assert accuracy == 1
    mixed = networks.Factors(X=X, label=label[order], angle=angle[order], train=train, test=test)
    _, latent, accuracy = networks.probes(Flat(), mixed)
    assert latent < 0.2
    assert accuracy < 0.7
