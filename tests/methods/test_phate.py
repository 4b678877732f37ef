"""PHATE: one rule for all rows, by landmarks and from files."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import cloud, quietly
from outfold import PHATE, landmarks, plan, quality
from outfold._runtime.threads import Threads
from outfold.datasets import s_curve, swiss_roll
from outfold.exceptions import SpectrumWarning

X = s_curve(300, random_state=0)[0]


def test_one_rule_for_training_rows_and_new_ones():
    rows = swiss_roll(2500, random_state=0)[0]
    model = PHATE(landmarks=400, random_state=0)
    embedding = model.fit_transform(rows)
    np.testing.assert_allclose(model.transform(rows[:50]), embedding[:50], rtol=0, atol=1e-10)
    assert model.report_.n_anchors == 400
    assert 0 < model.report_.extension_gap < 0.2 * np.abs(embedding).max()


def test_landmarks_stand_for_all_rows():
    rng = np.random.default_rng(0)
    branch, along = rng.integers(0, 3, 900), rng.uniform(0, 10, (900, 1))
    rows = along * np.eye(3, 20)[branch] + rng.normal(scale=0.3, size=(900, 20))
    whole = PHATE(landmarks=None).fit_transform(rows)
    few = PHATE(landmarks=400, random_state=0).fit_transform(rows)
    assert quality.distance_correlation(whole, few, method="pearson") > 0.97


def test_rows_in_a_file_are_as_rows_in_memory(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    streamed = PHATE(landmarks=100, random_state=0).fit(tmp_path / "rows.npy")
    np.testing.assert_array_equal(streamed.transform(X), PHATE(landmarks=100, random_state=0).fit_transform(X))


def test_a_far_row_is_its_nearest_anchor():
    model = PHATE(t=5).fit(X)
    far = X.mean(axis=0) + np.array([[1e3, 0, 0], [1e9, 0, 0], [1e200, 0, 0]])
    embedding, trust = quietly(model.transform, far, return_trust=True)
    for i in range(2):
        np.testing.assert_allclose(embedding[i], model.embedding_[cdist(far[i : i + 1], X).argmin()])
    assert np.isfinite(embedding).all()
    assert trust.flag.all()
    assert not model.trust(X).flag.any()


def test_landmarks_no_row_sees_are_left_out():
    given = np.vstack([X[::3], X[:10] + 1e3])
    model = quietly(PHATE(landmarks=given, t=4).fit, X)
    assert len(model.landmarks_) == 100


def test_parts_are_told():
    with pytest.warns(SpectrumWarning, match="falls into 3 components"):
        PHATE(n_neighbors=3).fit(np.vstack([cloud(s, rows=40) + 1e3 * s for s in range(3)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PHATE().fit(X)


def test_auto_takes_every_row_up_to_two_thousand():
    assert plan((2000, 3), PHATE()).anchors == 2000
    assert plan((100_000, 3), PHATE()).anchors == 2000
    few = landmarks.AtMost(50)
    assert len(PHATE(landmarks=few, random_state=0).fit(X).landmarks_) == 50


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 2.5}, "n_components=2.5 must be a whole number"),
        ({"n_components": "auto"}, "n_components='auto' must be a whole number"),
        ({"n_neighbors": 0}, "n_neighbors=0 must be a whole number >= 1"),
        ({"n_neighbors": 300}, "n_neighbors=300 must be smaller than the number of distinct points, 300"),
        ({"n_neighbors": 50, "landmarks": 40}, "distinct points, 40. Lower it, or raise landmarks"),
        ({"decay": 0}, "decay=0 must be > 0"),
        ({"decay": float("inf")}, "decay=inf must be > 0 and <= 1000"),
        ({"t": 0}, "t=0 must be a whole number >= 1"),
        ({"t": 2.5}, "t=2.5 must be a whole number"),
        ({"t": "long"}, "t='long' is not known. Valid: 'auto'"),
        ({"gamma": 1.1}, "gamma=1.1 must be >= -1 and <= 1"),
        ({"mds": "sgd"}, "mds='sgd' is not known. Valid: 'metric', 'classical'"),
        ({"metric": "precomputed"}, r"needs a square matrix .* \(300, 3\)"),
        ({"landmarks": 301}, r"more landmarks than there are training rows \(300\)"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        PHATE(**parameters).fit(X)


def test_tables_that_cannot_fit_are_refused_first():
    rows = np.broadcast_to(np.arange(10.0), (10_000_000, 10))
    with pytest.raises(MemoryError, match="landmarks='auto' takes 2000"):
        PHATE(landmarks=None)._recipe().view.build(None, landmarks.Anchors(rows, None, np.ones(1)), None, 2, Threads())


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"landmarks": 0.7}, {"landmarks": X[:150:2]}, {"mds": "classical"}, {"extension": "kernel_ridge"}],
    ids=["every row", "landmarks", "given landmarks", "classical", "another extension"],
)
def test_equal_rows_have_equal_embeddings(settings, weighted):
    rows = np.vstack([X[:150], X[:40], X[:7]])
    sample_weight = np.random.default_rng(0).uniform(0.5, 3, len(rows)) if weighted else None
    embedding = quietly(PHATE(2, random_state=0, **settings).fit, rows, sample_weight=sample_weight).embedding_
    np.testing.assert_allclose(embedding[150:], np.vstack([embedding[:40], embedding[:7]]), rtol=0, atol=1e-11)
