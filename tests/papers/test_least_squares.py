"""The experiment of Wang (2019): what it measures, on small sizes."""

import numpy as np
import pytest

from outfold.datasets import s_curve
from outfold.papers import least_squares
from outfold.papers.record import Effort

ONCE = Effort(seed=0, repeats=1)


@pytest.fixture(scope="module")
def extended():
    return least_squares.measure(ONCE, rows=500)


def test_every_set_share_kernel_and_way_is_measured(extended):
    cases = len(least_squares.SETS) * len(least_squares.SHARES) * len(least_squares.KERNELS) * len(least_squares.WAYS)
    assert len(extended.errors) == cases
    assert all(len(errors) == 1 and 0 < errors[0] < 100 for errors in extended.errors.values())
    assert len(least_squares.table(extended).rows) == 20


def test_joint_degrees_err_more_than_training_degrees_and_those_more_than_ratios(extended):
    nystrom, training, joint = (np.median(extended.curves(way)) for way in least_squares.WAYS)
    assert joint > 1.2 * training > 1.2 * nystrom


def test_places_by_every_way_are_exact_when_the_new_rows_are_training_rows():
    X, _ = s_curve(300, random_state=0)
    for way, seen, new, model in least_squares.places("graph Laplacian", 0.5, X, X[:20]):
        if way != "joint":  # there a repeated row counts twice
            np.testing.assert_allclose(new, seen[:20], atol=1e-10)
            np.testing.assert_allclose(seen, model.embedding_)


def test_an_aligned_copy_has_no_error_and_a_moved_one_its_distance():
    target = np.random.default_rng(0).normal(size=(50, 2))
    turn = np.array([[0.0, 2.0], [-2.0, 0.0]])
    seen, new, off = least_squares.align(target[:30] @ turn + 3, target[30:] @ turn + 3, target)
    np.testing.assert_allclose(np.vstack([seen, new]), target, atol=1e-12)
    assert off < 1e-10
    moved = least_squares.align(target[:30], target[30:] + np.array([0.1, 0]), target)[2]
    spread = np.sqrt(((target[30:] - target[30:].mean(axis=0)) ** 2).sum() / 20)
    assert moved == pytest.approx(100 * 0.1 / spread)


def test_misprints_are_told_from_what_is_right():
    found = least_squares.Misprints.of(0, rows=200)
    assert found.top_right == pytest.approx(1, abs=1e-12)
    assert found.top_printed < 0.5
    assert found.kernel_right < 1e-12
    assert found.kernel_printed > 1


def test_in_ratio_coordinates_least_squares_are_nystrom():
    assert least_squares.ratio_gap(0, rows=300) < 1e-10


def test_a_graph_that_falls_apart_is_counted_and_named():
    errors = {("S-curve", 0.5, "graph Laplacian", way): [1.0, 2.0] for way in least_squares.WAYS}
    whole = least_squares._apart(least_squares.Errors(errors))
    assert (whole.ours, whole.why) == ("0 of 2", "")
    parts = least_squares._apart(least_squares.Errors(errors, apart=["3-D clusters", "3-D clusters"]))
    assert parts.ours == "2 of 2"
    assert parts.why.startswith("3-D clusters: ")
