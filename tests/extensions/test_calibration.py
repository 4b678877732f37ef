"""How far to believe a position: the facts about a point, and bands that hold what they promise."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from catalogue import ALL_METHODS, cloud, new_points, quietly
from outfold import DiffusionMaps, KernelPCA, LocallyLinearEmbedding, Roseland
from outfold._runtime.threads import Threads
from outfold.data.sources import InMemory
from outfold.datasets import circle, noisy_moons, s_curve, sphere
from outfold.engine import cross_fit
from outfold.exceptions import SpectrumWarning
from outfold.extensions import Nystrom
from outfold.extensions.alignment import Alignment
from outfold.extensions.calibration import SECOND_OPINION_CENTRES, Calibration, SecondOpinion, _effective
from outfold.extensions.samples import Samples
from outfold.trust import RowFacts, Trust

RUN = Threads(1)


def opinion_on(witness, Z, embedding=None):
    """The facts of rows by the second opinion."""
    embedding = np.zeros((len(Z), 2)) if embedding is None else embedding
    return witness.add(RowFacts(support=np.zeros(len(Z))), embedding, Z, RUN)


def trusted(support, flag):
    none = np.zeros(len(support))
    return Trust(support=support, flag=flag, p_value=none, score=none)


@pytest.fixture(scope="module")
def curve():
    return s_curve(300, random_state=0)[0]


def known(X, values=None):
    return Samples.of(X, X[:, :2] if values is None else values, np.ones(len(X)))


def test_the_residual_kernel_is_what_the_points_leave_unexplained():
    X = cloud(0, rows=60)
    witness = SecondOpinion.of(known(X), RUN)
    Z = np.vstack([new_points(X, 0, 20), X[:5]])
    K, k = (np.exp(-cdist(A, X, "sqeuclidean") / (2 * witness.opinion.levels[0][0])) for A in (X, Z))
    level, V = np.linalg.eigh(K)
    kept = level > 1e-6 * level[-1]
    expected = 1 - np.square(k @ V[:, kept] / np.sqrt(level[kept])).sum(axis=1)
    residual = opinion_on(witness, Z).residual
    np.testing.assert_allclose(residual, np.clip(expected, 0, 1), atol=1e-9)
    assert residual[20:].max() < 1e-4  # training points explain themselves
    assert opinion_on(witness, np.full((1, 3), 1e3)).residual == pytest.approx(1.0)


def test_the_second_opinion_agrees_where_a_function_is_smooth_and_not_where_it_is_noise():
    X = s_curve(400, random_state=0)[0]
    smooth, noise = X[:, [0]], np.random.default_rng(0).normal(size=(400, 1))
    off = [
        opinion_on(SecondOpinion.of(known(X, values), RUN), X, values).disagreement.mean() / values.std()
        for values in (smooth, noise)
    ]
    assert off[0] < 0.05 < 0.4 < off[1]
    assert len(SecondOpinion.of(known(X, smooth), RUN).turn) == SECOND_OPINION_CENTRES


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9])
def test_bands_hold_where_rows_of_a_fold_err_together(rho):
    rng = np.random.default_rng(0)
    held = []
    for _ in range(300):
        logs = np.sqrt(rho) * rng.normal(size=(11, 1)) + np.sqrt(1 - rho) * rng.normal(size=(11, 40))
        support = rng.normal(size=(11, 40))
        errors = np.exp(logs - 0.7 * support)
        flags = np.zeros(40, bool)
        found = Calibration.of((trusted(support[i], flags), errors[i]) for i in range(10))
        held.append((errors[10] <= found.radius(trusted(support[10], flags), 0.9)).mean())
    assert 0.87 <= np.mean(held) <= 0.95  # 300 draws of ten folds leave a standard error of up to 0.02


def test_bands_are_wider_where_the_facts_say_so():
    rng = np.random.default_rng(0)
    support, flags = rng.normal(size=500), np.zeros(500, bool)
    errors = np.exp(-support + 0.2 * rng.normal(size=500))
    found = Calibration.of([(trusted(support, flags), errors)] * 2)
    poor, rich = found.radius(trusted(np.array([-1.0, 1.0]), np.zeros(2, bool)), 0.9)
    assert poor / rich == pytest.approx(np.exp(2), rel=0.1)
    assert found.radius(trusted(np.zeros(1), np.ones(1, bool)), 0.9) == np.inf  # outside the data nothing is promised


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
def test_a_calibrated_model_gives_radii_that_hold_fresh_points(curve, kernel):
    held, flagged = [], []
    for seed in range(4):
        rows = np.random.default_rng(seed).permutation(len(curve))
        test, train = curve[rows[:30]], curve[rows[30:]]
        model = DiffusionMaps(2, kernel=kernel).fit(train).calibrate()
        places, trust = model.transform(test, return_trust=True)
        same = {"epsilon": model.epsilon_} if kernel == "gaussian" else {}
        whole = DiffusionMaps(2, kernel=kernel, **same).fit(np.vstack([train, test])).embedding_
        onto = Alignment.of(model.embedding_, whole[: len(train)], rescale=False)
        inside = ~trust.flag
        held.append((np.linalg.norm(onto(places) - whole[len(train) :], axis=1) <= trust.error)[inside].mean())
        flagged.append(trust.flag.mean())
    assert 0.75 <= np.mean(held) <= 1.0
    assert np.mean(flagged) <= 0.05


@pytest.mark.parametrize("name", ["diffusion-maps", "isomap", "kernel-pca rbf", "locally-linear-embedding",
                                  "classical-mds", "laplacian-eigenmaps unnormalized", "spectral-clustering",
                                  "diffusion-maps canonical", "diffusion-maps by geometric harmonics"])  # fmt: skip
def test_every_method_can_be_calibrated(name):
    X = cloud(3, rows=120)
    model = quietly(clone(ALL_METHODS[name]).fit, X)
    before = model.trust(X[:5])
    assert before.error is None
    quietly(model.calibrate, folds=4)
    Z = np.vstack([new_points(X, 3, 20), np.full((1, 3), 1e5)])
    trust = model.trust(Z)
    assert trust.flag[-1]
    assert trust.error[-1] == np.inf
    assert np.isfinite(trust.error[~trust.flag]).all()
    assert (trust.error > 0).all()
    assert (model.trust(Z, coverage=0.5).error[~trust.flag] < trust.error[~trust.flag]).all()
    for fact in (trust.support, trust.distance, trust.residual, trust.disagreement):
        assert fact.shape == (21,)
        assert not np.isnan(fact).any()


def test_landmark_models_are_calibrated_on_the_rows_they_store_or_on_others(curve):
    for estimator in (Roseland(2, landmarks=80, random_state=0), DiffusionMaps(2, landmarks=150, random_state=0)):
        model = estimator.fit(curve)
        own = quietly(model.calibrate, folds=4).trust(curve[:10]).error
        given = quietly(model.calibrate, curve, folds=4).trust(curve[:10]).error
        assert np.isfinite([own, given]).all()
        np.testing.assert_allclose(np.median(own), np.median(given), rtol=0.5)


def test_the_round_trip_is_a_fact_on_request(curve):
    model = DiffusionMaps(3).fit(curve)
    assert "round_trip" not in quietly(model.calibrate, folds=3).calibration_.judge.names
    quietly(model.calibrate, folds=3, round_trip=True)
    assert model.calibration_.judge.names[-1] == "round_trip"
    Z = curve[:20] + 0.02
    trust = model.trust(Z)
    back = model.inverse_transform(model.transform(Z, on_far="keep"))
    np.testing.assert_allclose(trust.round_trip, np.linalg.norm(Z - back, axis=1), rtol=1e-9)
    D = cdist(curve, curve)
    with pytest.raises(ValueError, match="no features to go back to"):
        DiffusionMaps(2, metric="precomputed").fit(D).calibrate(D, round_trip=True)


def test_a_model_of_0_1_0_with_landmarks_stores_no_rows(curve):
    model = Roseland(2, landmarks=80, random_state=0).fit(curve)
    model._training_sample = None  # as files of 0.1.0 load
    with pytest.raises(ValueError, match=r"no training rows to hold out.*Pass X"):
        model.calibrate()


def test_rows_outside_the_data_do_not_enter_the_joint_fit(curve):
    """Three far rows among the training data: radii of the others are those of a model without them."""
    rows = np.random.default_rng(0).permutation(np.vstack([curve, np.eye(3) * 40 + [[0, 0, 9.0]]]))
    spoilt = quietly(DiffusionMaps(2, kernel="gaussian", epsilon=0.3).fit, rows)
    runner, recipe = Threads(1), spoilt._fitted_recipe
    sample, part = cross_fit.fit_sample(InMemory(rows), np.ones(len(rows)), recipe, 5000, 2, 0.3, runner)
    seen = 0
    for held in cross_fit.hold_out(sample, part, Nystrom(), 10, runner):
        outside = np.linalg.norm(held.fold.points, axis=1) > 20
        errors = held.errors(sample, part, outside, runner)
        assert np.isnan(errors).tolist() == outside.tolist()
        if not outside.any():
            continue
        seen += 1
        joined = np.sort(np.append(held.fold.rest, held.fold.held[~outside]))
        joint = quietly(DiffusionMaps(2, kernel="gaussian", epsilon=0.3).fit, rows[joined]).embedding_
        fixed = joint[np.searchsorted(joined, held.fold.rest)]
        onto = Alignment.of(held.fold.found.embedding, fixed, rescale=False)
        target = joint[np.searchsorted(joined, held.fold.held[~outside])]
        expected = np.linalg.norm(onto(held.embedding[~outside]) - target, axis=1)
        np.testing.assert_allclose(errors[~outside], expected, atol=1e-8)
    assert seen >= 1


def test_a_cut_through_equal_eigenvalues_is_a_warning_that_names_the_number_to_keep():
    X = sphere(400, random_state=0)
    with pytest.warns(SpectrumWarning, match=r"eigenvalues 2 and 3 nearly coincide\. Pass n_components=3"):
        cut = DiffusionMaps(2).fit(X).calibrate(folds=4)
    assert len(cut.calibration_.notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = DiffusionMaps(3).fit(X).calibrate(folds=4)
    assert whole.calibration_.notes == ()


def test_a_graph_whose_components_depend_on_the_rows_is_a_warning_and_radii_are_those_of_the_worst_fold():
    X, _ = noisy_moons(600, random_state=4)
    model = quietly(DiffusionMaps(2, n_neighbors=6).fit, X)
    with pytest.warns(SpectrumWarning, match="components, depending on which rows are left out"):
        model.calibrate(folds=4)
    assert len(model.calibration_.scores) <= 150  # those of one fold


def test_the_angle_between_subspaces_is_the_largest_principal_angle():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 3))
    A -= A.mean(axis=0)
    turn = np.radians(25)
    other = rng.normal(size=50)
    other -= other.mean()
    other -= np.linalg.qr(A)[0] @ (np.linalg.qr(A)[0].T @ other)
    Q = np.linalg.qr(A)[0]
    B = np.column_stack([Q[:, :2], np.cos(turn) * Q[:, 2] + np.sin(turn) * other / np.linalg.norm(other)])
    assert cross_fit.subspace_angle(A, B @ rng.normal(size=(3, 3)) + 7.0) == pytest.approx(25.0, abs=1e-6)
    assert cross_fit.subspace_angle(A, A @ rng.normal(size=(3, 3))) == pytest.approx(0.0, abs=1e-5)


def test_given_distances_are_calibrated_without_features(curve):
    D = cdist(curve, curve)
    model = DiffusionMaps(2, metric="precomputed").fit(D)
    with pytest.raises(ValueError, match=r"metric='precomputed'.*Pass X"):
        model.calibrate()
    trust = model.calibrate(D, folds=4).trust(D[:10])
    assert np.isfinite(trust.error).all()
    assert trust.isolation is not None  # the default kernel knows the nearest rows
    assert (trust.residual, trust.amplitude) == (None, None)
    affinities = DiffusionMaps(2, kernel="precomputed").fit(np.exp(-(D**2)))
    far = np.vstack([np.exp(-(D[:2] ** 2)), np.full((1, len(D)), 1e-30)])
    assert affinities.trust(far).isolation is None
    assert affinities.trust(far).flag.tolist() == [False, False, True]


def test_a_new_fit_forgets_the_calibration_and_the_same_call_gives_the_same_bits(curve):
    model = DiffusionMaps(2).fit(curve).calibrate(folds=3)
    first = model.trust(curve[:20]).error
    np.testing.assert_array_equal(first, DiffusionMaps(2).fit(curve).calibrate(folds=3).trust(curve[:20]).error)
    np.testing.assert_array_equal(first, model.transform(curve[:20], return_trust=True)[1].error)
    assert model.fit(curve).trust(curve[:20]).error is None


def test_bad_calls_are_told(curve, tmp_path):
    with pytest.raises(NotFittedError):
        DiffusionMaps().calibrate()
    model = DiffusionMaps(2).fit(curve)
    for options, text in (({"folds": 1}, "folds=1"), ({"rows": 5}, "rows=5")):
        with pytest.raises(ValueError, match=text):
            model.calibrate(**options)
    with pytest.raises(ValueError, match="coverage=0"):
        model.trust(curve, coverage=0)
    with pytest.raises(ValueError, match="return_trust=True is for rows in memory"):
        model.transform(curve, return_trust=True, out=tmp_path / "out.npy")
    with pytest.raises(ValueError, match="at least 20 held-out rows"):
        DiffusionMaps(1).fit(circle(12, random_state=0)).calibrate(folds=2)
    assert model.trust(curve).error is None  # a failure leaves the model as it was


def test_weights_of_given_rows_count_as_those_of_the_fit(curve):
    times = np.arange(len(curve)) % 3
    model = DiffusionMaps(2, epsilon=0.1).fit(curve, sample_weight=times)
    with pytest.raises(ValueError, match="belongs to the rows of X"):
        model.calibrate(sample_weight=times)
    weighted = model.calibrate(curve, sample_weight=times, folds=3)
    given = weighted.trust(curve[:9]).error
    plain = model.calibrate(curve[times > 0], folds=3).trust(curve[:9]).error
    own = model.calibrate(folds=3).trust(curve[:9]).error
    np.testing.assert_allclose(given, own, rtol=1e-6)
    assert np.abs(plain / given - 1).max() > 1e-3


def test_many_rows_are_sampled(curve):
    model = quietly(KernelPCA(2, kernel="rbf").fit(curve).calibrate, curve, folds=3, rows=60)
    assert 20 <= len(model.calibration_.scores) <= 60


def test_coordinates_of_length_one_are_compared_at_their_own_length(curve):
    few, many = (
        LocallyLinearEmbedding(2, n_neighbors=12).fit(curve).calibrate(folds=folds).trust(curve).error
        for folds in (3, 10)
    )
    size = np.linalg.norm(LocallyLinearEmbedding(2, n_neighbors=12).fit(curve).embedding_, axis=1).mean()
    assert np.median(many) < size
    assert np.median(few) < 3 * size


def test_rows_of_one_fold_count_as_one_analysis_of_variance_says():
    """Four folds of five: mean square within 2.5, variance of the means 20, so rho = 19.5 / 22."""
    within = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])  # variance 2.5
    means = np.array([-6.0, -2.0, 2.0, 6.0]) * np.sqrt(0.75)  # variance 20
    logs = (means[:, None] + within).ravel()
    rho = (20 - 2.5 / 5) / (20 - 2.5 / 5 + 2.5)
    assert _effective(logs, [5, 5, 5, 5]) == pytest.approx(20 / (1 + 4 * rho), rel=1e-12)
    assert _effective(np.tile(within, 4), [5, 5, 5, 5]) == 20  # equal folds are independent rows
    assert _effective(np.repeat(means, 5), [5, 5, 5, 5]) == pytest.approx(4)  # rows of a fold say the same
    assert _effective(logs, [20]) == 20
