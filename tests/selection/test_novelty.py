"""EmbeddingOutliers is a detector of scikit-learn, whose verdict on new rows is that of ``trust``."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from outfold import DiffusionMaps, Isomap, KernelPCA, LocallyLinearEmbedding, Roseland
from outfold.datasets import s_curve
from outfold.selection import EmbeddingOutliers

pytestmark = pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
METHODS = [
    DiffusionMaps(),
    DiffusionMaps(kernel="gaussian", epsilon=0.2),
    DiffusionMaps(landmarks=100),
    Roseland(),
    Isomap(),
    KernelPCA(kernel="rbf", gamma=0.5),
    LocallyLinearEmbedding(),
    Isomap(metric="cityblock"),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=str)
FAR = np.array([[6.0, 0, 0], [-5, 4, 0], [0, 9, 2], [0, -6, -5], [3, 3, 8.0]])


def rows(n=300, seed=0):
    return s_curve(n, random_state=seed)[0]


def mixed(seed=5):
    """New rows: some like the training rows, some beside them, some far away, and two training rows."""
    near = rows(100, seed)
    return np.vstack([near, near + np.random.default_rng(seed).normal(scale=0.4, size=near.shape), FAR, rows()[:2]])


def test_scikit_learns_checks_pass_but_for_those_that_predict_training_rows():
    copies = "a training row is a copy of itself to predict, and so inside; fit_predict judges it by the other rows"
    excused = dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), copies)
    results = estimator_checks.check_estimator(
        EmbeddingOutliers(DiffusionMaps()), on_fail=None, on_skip=None, expected_failed_checks=excused
    )
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert sum(r["status"] == "passed" for r in results) >= 45


def test_what_the_two_checks_ask_holds_for_new_rows():
    X = make_blobs(300, random_state=0)[0]
    new = np.vstack([make_blobs(100, random_state=0)[0] + 0.01, [[30.0, 30.0]]])
    detector = EmbeddingOutliers(DiffusionMaps()).fit(X.tolist())
    labels, decision, scores = detector.predict(new), detector.decision_function(new), detector.score_samples(new)
    assert is_outlier_detector(detector)
    assert labels.dtype.kind == "i"
    assert set(labels) == {-1, 1}
    assert decision.dtype == scores.dtype == float
    np.testing.assert_array_equal(np.where(decision >= 0, 1, -1), labels)
    np.testing.assert_allclose(scores - detector.offset_, decision)
    for method in (detector.predict, detector.decision_function, detector.score_samples):
        with pytest.raises(ValueError, match="features"):
            method(new.T)
    own = detector.fit_predict(X)
    assert own.dtype.kind == "i"
    assert own.shape == (300,)
    assert set(own) == {-1, 1}


@each_method
def test_predict_is_the_flag_of_trust_and_the_sign_of_the_decision(method):
    model, new = clone(method).fit(rows()), mixed()
    for level in (0.0, 1e-4, 0.01, 0.05, 0.3, 1.0):
        detector = EmbeddingOutliers(model, level=level, prefit=True).fit(rows())
        flag = model.trust(new, level=level).flag
        labels, decision = detector.predict(new), detector.decision_function(new)
        np.testing.assert_array_equal(labels == -1, flag)
        np.testing.assert_array_equal(decision < 0, flag)
        assert np.isfinite(detector.score_samples(new)).all()
        assert np.isfinite(decision).all()
        assert np.isfinite(detector.offset_)


@pytest.mark.parametrize("n", [12, 60, 90])
def test_few_rows_and_rows_out_of_reach(n):
    """Few rows have p-values in a tail, beyond the highest score; rows that overflow have an infinite score."""
    detector = EmbeddingOutliers(DiffusionMaps()).fit(rows(n))
    new = np.vstack([mixed(), [[1e300, 0.0, 0.0]]])
    with np.errstate(over="ignore"):
        flag = detector.estimator_.trust(new).flag
        np.testing.assert_array_equal(detector.predict(new) == -1, flag)
        assert np.isfinite(detector.decision_function(new)).all()
    assert flag[-1]


def test_rows_that_all_have_copies():
    X = np.repeat(rows(60), 2, axis=0)
    detector = EmbeddingOutliers(DiffusionMaps()).fit(X)
    np.testing.assert_array_equal(detector.predict(mixed()) == -1, detector.estimator_.trust(mixed()).flag)
    assert (detector.predict(X) == 1).all()
    assert (detector.fit_predict(X) == 1).all()


def test_a_calibrated_model_is_judged_by_its_calibration():
    model = DiffusionMaps().fit(rows()).calibrate(folds=4)
    detector = EmbeddingOutliers(model, prefit=True, level=0.05).fit(rows())
    np.testing.assert_array_equal(detector.predict(mixed()) == -1, model.trust(mixed(), level=0.05).flag)


@each_method
def test_about_a_level_of_fresh_rows_is_outside(method):
    share = [
        np.mean(EmbeddingOutliers(method, level=0.05).fit(rows(300, seed)).predict(rows(1000, seed + 50)) == -1)
        for seed in range(3)
    ]
    assert 0.015 < np.mean(share) < 0.1


@each_method
def test_planted_outliers_are_found_among_the_training_rows(method):
    labels = EmbeddingOutliers(method).fit_predict(np.vstack([rows(), FAR]))
    assert (labels[300:] == -1).all()
    assert np.mean(labels[:300] == -1) <= 0.03


def test_about_a_level_of_clean_training_rows_is_outside():
    for level in (0.01, 0.05, 0.3):
        share = [np.mean(EmbeddingOutliers(KernelPCA(), level=level).fit_predict(rows(400, s)) == -1) for s in range(8)]
        assert level / 3 < np.mean(share) < 2 * level
    assert (EmbeddingOutliers(KernelPCA(), level=0.0).fit_predict(rows()) == 1).all()


def test_a_sample_stands_for_many_training_rows():
    """Of more than 2000 rows a sample is compared with: its rows without themselves, the others as they are."""
    labels = EmbeddingOutliers(Roseland()).fit_predict(np.vstack([rows(6000), FAR]))
    assert (labels[6000:] == -1).all()
    assert 0.002 < np.mean(labels[:6000] == -1) < 0.03


def test_copies_weights_and_absent_rows():
    X = np.vstack([rows(), FAR, FAR[:1]])
    detector = EmbeddingOutliers(DiffusionMaps())
    assert detector.fit_predict(X)[300:].tolist() == [1, -1, -1, -1, -1, 1]  # a copy is among the others
    weights = np.ones(305)
    weights[300] = 2
    np.testing.assert_array_equal(detector.fit_predict(X[:305], sample_weight=weights), detector.fit_predict(X)[:305])
    weights[300:] = 0  # absent: judged as new rows
    assert (detector.fit_predict(X[:305], sample_weight=weights)[300:] == -1).all()


def test_labels_of_training_rows_follow_the_metric():
    """In the cosine metric lengths do not count, and a row is found that has a direction of its own."""
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, size=(200, 1)) * (np.array([1.0, 1, 0]) + rng.normal(scale=0.05, size=(200, 3)))
    X = np.vstack([X, [[-2.0, 1, 3]]])
    assert EmbeddingOutliers(Isomap(metric="cosine")).fit_predict(X)[-1] == -1


def test_pipeline_clone_and_names():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows() * [1, 1, 1000], columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), EmbeddingOutliers(DiffusionMaps())).fit(X)
    new = pandas.DataFrame(np.vstack([X.to_numpy()[:5] + 1e-6, [[0, 9, 0]]]), columns=X.columns)
    assert pipeline.predict(new).tolist() == [1] * 5 + [-1]
    detector = EmbeddingOutliers(DiffusionMaps(n_components=3), level=0.02).fit(X)
    assert detector.feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(detector.fit(X.to_numpy()), "feature_names_in_")
    again = clone(detector).set_params(estimator__n_components=4)
    assert again.level == 0.02
    assert again.fit(X).estimator_.embedding_.shape == (300, 4)
    assert not hasattr(again.estimator, "embedding_")


def test_prefit():
    model = DiffusionMaps(landmarks=100, random_state=0).fit(rows())
    detector = EmbeddingOutliers(model, prefit=True).fit(rows())
    assert detector.estimator_ is model
    assert detector.n_features_in_ == 3
    fresh = EmbeddingOutliers(DiffusionMaps(landmarks=100, random_state=0)).fit(rows())
    np.testing.assert_array_equal(detector.decision_function(mixed()), fresh.decision_function(mixed()))
    np.testing.assert_array_equal(detector.fit_predict(rows()), fresh.fit_predict(rows()))
    with pytest.raises(ValueError, match="X has 2 features"):
        detector.fit(rows()[:, :2])
    with pytest.raises(NotFittedError, match="prefit=True needs a fitted estimator"):
        clone(detector).fit(rows())


def test_precomputed_matrices_predict_new_rows_only():
    X = rows()
    detector = EmbeddingOutliers(DiffusionMaps(metric="precomputed")).fit(cdist(X, X))
    new = np.vstack([rows(20, 1), FAR])
    trust = detector.estimator_.trust(cdist(new, X))
    np.testing.assert_array_equal(detector.predict(cdist(new, X)) == -1, trust.flag)
    assert trust.flag[20:].all()
    with pytest.raises(ValueError, match="metric='precomputed' has none. Call fit, then predict"):
        detector.fit_predict(cdist(X, X))


def test_nonsense_is_refused():
    with pytest.raises(NotFittedError):
        EmbeddingOutliers(DiffusionMaps()).predict(rows())
    with pytest.raises(ValueError, match="level=2"):
        EmbeddingOutliers(DiffusionMaps(), level=2).fit(rows())
    for method in (StandardScaler(), DiffusionMaps):
        with pytest.raises(TypeError, match="must be an estimator of Outfold"):
            EmbeddingOutliers(method).fit_predict(rows())
