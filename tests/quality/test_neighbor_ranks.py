"""Neighbours, ranks and distances of an embedding: against naive loops and scikit-learn."""

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import pearsonr, spearmanr
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from catalogue import cloud, new_points
from outfold import quality
from outfold.datasets import s_curve, swiss_roll


def naive_ranks(x, rows, skip=None):
    """1, 2, ... by distance, then by row; 0 for the row itself."""
    squared = [float(np.sum((x - y) ** 2)) for y in rows]
    order = sorted((j for j in range(len(rows)) if j != skip), key=lambda j: (squared[j], j))
    ranks = np.zeros(len(rows), int)
    for place, j in enumerate(order):
        ranks[j] = place + 1
    return ranks


def naive_score(near, near_asking, far, far_asking, k, itself):
    total, choices = 0, len(near) - itself
    for i in range(len(near_asking)):
        skip = i if itself else None
        close, ranks = naive_ranks(near_asking[i], near, skip), naive_ranks(far_asking[i], far, skip)
        total += sum(max(0, ranks[j] - k) for j in range(len(near)) if 1 <= close[j] <= k)
    worst = k * (2 * choices - 3 * k + 1) / 2
    return 1 - total / (len(near_asking) * worst)


# -- neighbours ------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 4, 9])
def test_trustworthiness_of_training_rows_is_scikit_learns(k):
    X = np.random.default_rng(0).normal(size=(120, 5))
    assert (
        abs(quality.trustworthiness(X, X[:, :2], n_neighbors=k) - sklearn_trustworthiness(X, X[:, :2], n_neighbors=k))
        < 1e-12
    )
    assert (
        abs(quality.continuity(X, X[:, :2], n_neighbors=k) - sklearn_trustworthiness(X[:, :2], X, n_neighbors=k))
        < 1e-12
    )


@pytest.mark.parametrize("kind", ["plain", "duplicates", "grid"])
@pytest.mark.parametrize("held_out", [False, True])
def test_ranks_agree_with_naive_ones(kind, held_out):
    X = cloud(3, kind, rows=50)
    Z = X.copy() if not held_out else np.vstack([new_points(X, 0, 12), X[:3]])
    E, F = np.round(X[:, :2], 1), np.round(Z[:, :2], 1)
    new = (Z, F) if held_out else None
    trust = quality.trustworthiness(X, E, n_neighbors=4, new=new)
    assert abs(trust - naive_score(E, F, X, Z, 4, not held_out)) < 1e-12
    joined = quality.continuity(X, E, n_neighbors=4, new=new)
    assert abs(joined - naive_score(X, Z, E, F, 4, not held_out)) < 1e-12


def test_new_rows_that_keep_every_neighbour_score_one_and_shuffled_ones_little():
    X = np.random.default_rng(0).normal(size=(200, 2))
    Z = np.random.default_rng(1).normal(size=(50, 2))
    for score in (quality.trustworthiness, quality.continuity):
        assert score(X, 3 * X, new=(Z, 3 * Z)) == 1
        assert score(X, X, new=(Z, Z[::-1])) < 0.8


def test_a_part_of_the_rows_says_the_same_within_its_standard_error():
    X, _ = swiss_roll(1500, random_state=0)
    E = X[:, [0, 1]]
    for score in (quality.trustworthiness, quality.continuity):
        whole = score(X, E)
        assert (whole.standard_error, whole.rows) == (0, 1500)
        parts = [score(X, E, rows=200, random_state=seed) for seed in range(12)]
        off = np.array([(part - whole) / part.standard_error for part in parts])
        assert 0.4 < np.sqrt(np.mean(off**2)) < 2
        assert all(part.rows == 200 for part in parts)


def test_scores_do_not_depend_on_threads_or_blocks(monkeypatch):
    X, _ = s_curve(300, random_state=0)
    one = quality.trustworthiness(X, X[:, :2], n_jobs=1)
    monkeypatch.setattr("outfold.quality.neighbor_ranks.TABLE_ENTRIES", 700)
    assert quality.trustworthiness(X, X[:, :2], n_jobs=2) == one
    monkeypatch.setattr("outfold.quality.neighbor_ranks.ANSWERING_ENTRIES", 340)
    assert quality.trustworthiness(X, X[:, :2], n_jobs=2) == one
    value = quality.distance_correlation(X, X[:, :2])
    monkeypatch.setattr("outfold.quality.neighbor_ranks.TABLE_ENTRIES", 1 << 22)
    assert abs(quality.distance_correlation(X, X[:, :2]) - value) < 1e-13


def test_weights_of_asked_rows_are_repeats_of_their_answers():
    X = np.random.default_rng(0).normal(size=(60, 3))
    Z = np.random.default_rng(1).normal(size=(10, 3))
    times = np.arange(10) % 3
    again = np.repeat(np.arange(10), times)
    weighted = quality.trustworthiness(X, X[:, :1], new=(Z, Z[:, :1]), sample_weight=times)
    assert abs(weighted - quality.trustworthiness(X, X[:, :1], new=(Z[again], Z[again, :1]))) < 1e-14


def test_a_score_is_a_float_that_keeps_its_standard_error():
    X, _ = s_curve(300, random_state=0)
    score = quality.trustworthiness(X, X[:, :2], rows=50)
    again = pickle.loads(pickle.dumps(score))
    assert (again, again.standard_error, again.rows) == (score, score.standard_error, 50)
    assert "+-" in str(score)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_neighbors": 10}, "less than half the 20 rows"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
        ({"rows": 0}, "rows=0"),
        ({"new": np.ones((3, 2))}, "is a pair"),
        ({"new": (np.ones((3, 2)), np.ones((3, 1)))}, "3 columns, but its new rows have 2"),
        ({"sample_weight": -np.ones(20)}, "sample_weight"),
    ],
)
def test_bad_questions_are_refused(change, told):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match=told):
        quality.trustworthiness(X, X[:, :1], **change)


def test_rows_with_nan_and_rows_of_different_number_are_refused():
    X = np.ones((20, 3))
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="1 of 20 rows of X hold NaN"):
        quality.continuity(X, np.ones((20, 1)))
    with pytest.raises(ValueError, match="20 rows, but embedding has 19"):
        quality.continuity(np.ones((20, 2)), np.ones((19, 1)))


def naive_szekely(X, Y):
    tables = []
    for Z in (X, Y):
        D = cdist(Z, Z)
        tables.append(D - D.mean(axis=0) - D.mean(axis=1)[:, None] + D.mean())
    A, B = tables
    return np.sqrt((A * B).mean() / np.sqrt((A * A).mean() * (B * B).mean()))


# -- distances -------------------------------------------------------------------------------


def test_distance_correlations_agree_with_naive_ones():
    X = cloud(0, "duplicates", rows=60)
    E = X[:, :1] ** 2
    assert abs(quality.distance_correlation(X, E) - pearsonr(pdist(X), pdist(E))[0]) < 1e-12
    by_rank = quality.distance_correlation(X, E, method="spearman")
    assert abs(by_rank - spearmanr(pdist(X), pdist(E))[0]) < 1e-12
    assert abs(quality.distance_correlation(X, E, method="szekely") - naive_szekely(X, E)) < 1e-12


@pytest.mark.parametrize(("method", "naive"), [("pearson", pearsonr), ("spearman", spearmanr)])
def test_distance_correlations_of_new_rows_agree_with_naive_ones(method, naive):
    X, Z = cloud(0, rows=60), cloud(1, rows=25)
    found = quality.distance_correlation(X, X[:, :2], new=(Z, Z[:, :2]), method=method)
    expected = naive(cdist(Z, X).ravel(), cdist(Z[:, :2], X[:, :2]).ravel())[0]
    assert abs(found - expected) < 1e-12
    with pytest.raises(ValueError, match="szekely"):
        quality.distance_correlation(X, X[:, :2], new=(Z, Z[:, :2]), method="szekely")


@pytest.mark.parametrize("method", ["pearson", "spearman", "szekely"])
def test_the_standard_error_of_a_distance_correlation_is_about_right(method):
    X, _ = swiss_roll(2000, random_state=0)
    E = X[:, :1]
    whole = quality.distance_correlation(X, E, method=method, rows=1500)
    parts = [quality.distance_correlation(X, E, method=method, rows=150, random_state=s) for s in range(1, 25)]
    told = np.mean([part.standard_error for part in parts])
    assert 0.4 < np.sqrt(np.mean((np.array(parts, dtype=float) - whole) ** 2)) / told < 2
