"""How good an embedding is: alignments and angles against exact formulas; what is asked amiss."""

import resource
import warnings

import numpy as np
import pytest
from scipy.spatial import procrustes

from outfold import DiffusionMaps, quality
from outfold.datasets import s_curve
from outfold.extensions import alignment
from outfold.extensions.alignment import Alignment
from outfold.quality import aligned_error


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    fixed = rng.normal(size=(40, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return fixed @ turn * 2.5 + [1.0, -2.0, 3.0], fixed, turn


def test_a_similarity_is_undone(pair):
    moving, fixed, turn = pair
    found = Alignment.of(moving, fixed)
    np.testing.assert_allclose(found(moving), fixed, atol=1e-12)
    np.testing.assert_allclose(found.rotation, turn.T, atol=1e-12)
    assert found.scale == pytest.approx(0.4)


def test_a_rigid_motion_keeps_lengths(pair):
    moving, fixed, _ = pair
    found = Alignment.of(moving, fixed, rescale=False)
    assert found.scale == 1
    lengths = np.linalg.norm(np.diff(found(moving), axis=0), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(np.diff(moving, axis=0), axis=1))


def test_the_error_is_scipys_disparity(pair):
    moving, fixed, _ = pair
    moving = moving + np.random.default_rng(1).normal(size=moving.shape)
    assert aligned_error(moving, fixed) == pytest.approx(np.sqrt(procrustes(fixed, moving)[2]))


def test_weights_are_repeats(pair):
    moving, fixed, _ = pair
    moving = moving + np.random.default_rng(1).normal(size=moving.shape)
    times = np.arange(40) % 3
    again = np.repeat(np.arange(40), times)
    weighted, repeated = Alignment.of(moving, fixed, weights=times), Alignment.of(moving[again], fixed[again])
    np.testing.assert_allclose(weighted(moving), repeated(moving), atol=1e-12)


def test_embeddings_of_different_rows_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(4, 2\)"):
        Alignment.of(np.ones((3, 2)), np.ones((4, 2)))


# -- aligned MSE and angles ------------------------------------------------------------------


def test_the_aligned_mse_is_dorados_with_the_rotation_the_right_way_round(pair):
    _, fixed, turn = pair
    rng = np.random.default_rng(2)
    moving = fixed @ turn + 0.1 * rng.normal(size=fixed.shape)
    U, _, V = np.linalg.svd(moving[:25].T @ fixed[:25])
    naive = np.mean([np.sum((fixed[q] - moving[q] @ (U @ V)) ** 2) for q in range(25, 40)])
    assert quality.aligned_mse(moving, fixed, fit_rows=np.arange(25)) == pytest.approx(naive, rel=1e-12)
    as_mask = quality.aligned_mse(moving, fixed, fit_rows=np.arange(40) < 25)
    assert as_mask == pytest.approx(naive, rel=1e-12)
    transposed = np.mean([np.sum((fixed[q] - moving[q] @ (U @ V).T) ** 2) for q in range(25, 40)])
    assert naive < transposed / 10  # what the thesis prints


def test_the_aligned_mse_weighs_rows_as_repeats(pair):
    _, fixed, turn = pair
    moving = fixed @ turn + 0.1 * np.random.default_rng(2).normal(size=fixed.shape)
    times, chosen = 1 + np.arange(40) % 3, np.arange(40) < 25
    again = np.repeat(np.arange(40), times)
    weighted = quality.aligned_mse(moving, fixed, fit_rows=chosen, weights=times)
    assert weighted == pytest.approx(quality.aligned_mse(moving[again], fixed[again], fit_rows=chosen[again]))


@pytest.mark.parametrize("rows", [np.arange(40), np.zeros(40, bool)])
def test_an_aligned_mse_needs_rows_on_both_sides(pair, rows):
    with pytest.raises(ValueError, match="of 40 rows"):
        quality.aligned_mse(pair[0], pair[1], fit_rows=rows)


def test_angles_between_planes_are_those_they_were_turned_by():
    angles = np.array([0.7, 1e-9])
    A = np.eye(5)[:, :2]
    B = A * np.cos(angles) + np.eye(5)[:, 2:4] * np.sin(angles)
    np.testing.assert_allclose(quality.subspace_angles(A, B @ [[2.0, 1.0], [0.0, 3.0]]), angles, rtol=1e-6)


def test_angles_in_a_measure_are_those_of_repeated_rows():
    rng = np.random.default_rng(0)
    A, B, times = rng.normal(size=(20, 2)), rng.normal(size=(20, 3)), rng.integers(1, 4, 20)
    again = np.repeat(np.arange(20), times)
    weighted = quality.subspace_angles(A, B, weights=times)
    np.testing.assert_allclose(weighted, quality.subspace_angles(A[again], B[again]), rtol=1e-10)


def test_eigenfunctions_span_the_same_space_in_their_measure():
    X, _ = s_curve(150, random_state=0)
    maps = DiffusionMaps(3).fit(X)
    canonical = DiffusionMaps(3, coordinates="canonical").fit(X)
    root = canonical.embedding_ / canonical.eigenvalues_**0.5 / (maps.embedding_ / maps.eigenvalues_)
    assert quality.subspace_angles(maps.embedding_ * root[:, :1], canonical.embedding_).max() < 1e-8
    assert quality.subspace_angles(maps.embedding_, canonical.embedding_).max() > 1e-3


def test_columns_that_span_no_space_are_refused():
    with pytest.raises(ValueError, match="2 columns of B are not independent"):
        quality.subspace_angles(np.eye(3)[:, :2], np.ones((3, 2)))


# -- many rows -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_rows_are_judged_in_bounded_memory():
    X, position = s_curve(1_000_000, random_state=0)
    Z, there = s_curve(2000, random_state=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quality.trustworthiness(X, position, rows=200) > 0.999
        assert quality.continuity(X, position, rows=200) > 0.999
        assert quality.trustworthiness(X, position, new=(Z, there), rows=200) > 0.999
        assert 0.5 < quality.distance_correlation(X, position) < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # KB


def test_what_takes_a_table_of_all_anchors_is_left_out_or_refused_when_there_are_many(monkeypatch):
    X, _ = s_curve(120, random_state=0)
    maps = DiffusionMaps(3).fit(X[:80])
    full = quality.reconstruction_error(maps, X[80:])
    monkeypatch.setattr(quality, "FULL_SPECTRUM_UP_TO", 79)
    part = quality.reconstruction_error(maps, X[80:])
    assert np.isnan(part.every)
    assert (part.error, part.nystrom, part.norm) == (full.error, full.nystrom, full.norm)
    monkeypatch.setattr("outfold._runtime.memory.free_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"80 anchors need about 0\.000205 GB.*exact=False"):
        quality.diffusion_distance(maps, X[:2], exact=True)
    with pytest.raises(MemoryError, match="pairs of 120 rows"):
        quality.distance_correlation(X, X[:, :2])
    assert quality.distance_correlation(X, X[:, :2], rows=50) > 0


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "weights? has 3 entries for 20 rows"),
        (-np.ones(20), "20 of 20 are negative, the first that of row 0"),
        (np.zeros(20), "must be 20 finite numbers >= 0.*not all 0"),
        (np.full(20, np.nan), "20 of 20 entries are NaN or infinity, the first that of row 0"),
    ],
    ids=["short", "negative", "zero", "nan"],
)
def test_weights_that_are_none_are_refused_and_counted(weights, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    for measure in (
        lambda: quality.aligned_mse(X, X, fit_rows=np.arange(5), weights=weights),
        lambda: quality.subspace_angles(X, X, weights=weights),
        lambda: alignment.Alignment.of(X, X, weights=weights),
        lambda: quality.trustworthiness(X, X, sample_weight=weights),
    ):
        with pytest.raises(ValueError, match=message):
            measure()


def test_a_metric_that_is_not_known_is_refused_with_those_that_are():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="metric='manhatten' is not known. Valid: .*'manhattan'"):
        quality.trustworthiness(X, X, metric="manhatten")


def test_an_embedding_of_one_coordinate_may_be_a_row_of_numbers():
    places = np.random.default_rng(0).normal(size=20)
    assert quality.aligned_error(5 - 2 * places, places) < 1e-12
