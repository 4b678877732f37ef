"""How far to believe a position: the facts about a point, and bands that hold what they promise."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from catalogue import ALL_METHODS, cloud, new_points, quietly
from outfold import DiffusionMaps, KernelPCA, LocallyLinearEmbedding, Roseland
from outfold._runtime.threads import Threads
from outfold.datasets import circle, s_curve
from outfold.extensions.alignment import Alignment
from outfold.extensions.calibration import SECOND_OPINION_CENTRES, Calibration, SecondOpinion, _effective
from outfold.extensions.samples import Samples
from outfold.trust import Trust

RUN = Threads(1)


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
    _, residual, _ = witness.facts(Z, RUN)
    np.testing.assert_allclose(residual, np.clip(expected, 0, 1), atol=1e-9)
    assert residual[20:].max() < 1e-4  # training points explain themselves
    far = witness.facts(np.full((1, 3), 1e3), RUN)
    assert far[1] == pytest.approx(1.0)


def test_the_distance_is_in_units_of_the_nearest_points_neighbours():
    X = cloud(1, rows=80)
    Z = new_points(X, 1, 20)
    to, among = cdist(Z, X), np.sort(cdist(X, X), axis=1)
    expected = to.min(axis=1) / np.maximum(among[:, 8], 0.1 * np.median(among[:, 8]))[to.argmin(axis=1)]
    np.testing.assert_allclose(SecondOpinion.of(known(X), RUN).facts(Z, RUN)[0], expected, rtol=1e-9)


def test_the_second_opinion_agrees_where_a_function_is_smooth_and_not_where_it_is_noise():
    X = s_curve(400, random_state=0)[0]
    smooth, noise = X[:, [0]], np.random.default_rng(0).normal(size=(400, 1))
    off = [
        np.abs(SecondOpinion.of(known(X, values), RUN).facts(X, RUN)[2] - values).mean() / values.std()
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
        found = Calibration.of((Trust(support=support[i], flag=flags), errors[i]) for i in range(10))
        # a joint fit adds a fold's worth of rows to one more fold than those of the calibration did
        fresh = errors[10] * np.sqrt(9 / 11)
        held.append((fresh <= found.radius(Trust(support=support[10], flag=flags), 0.9)).mean())
    assert 0.87 <= np.mean(held) <= 0.95  # 300 draws of ten folds leave a standard error of up to 0.02


def test_bands_are_wider_where_the_facts_say_so():
    rng = np.random.default_rng(0)
    support, flags = rng.normal(size=500), np.zeros(500, bool)
    errors = np.exp(-support + 0.2 * rng.normal(size=500))
    found = Calibration.of([(Trust(support=support, flag=flags), errors)] * 2)
    poor, rich = found.radius(Trust(support=np.array([-1.0, 1.0]), flag=np.zeros(2, bool)), 0.9)
    assert poor / rich == pytest.approx(np.exp(2), rel=0.1)
    assert (
        found.radius(Trust(support=np.zeros(1), flag=np.ones(1, bool)), 0.9) == np.inf
    )  # outside the data nothing is promised


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


def test_landmark_models_are_calibrated_on_rows(curve):
    for estimator in (Roseland(2, landmarks=80, random_state=0), DiffusionMaps(2, landmarks=150, random_state=0)):
        model = estimator.fit(curve)
        with pytest.raises(ValueError, match=r"no training rows to hold out.*Pass X"):
            model.calibrate()
        error = model.calibrate(curve, folds=4).trust(curve[:10]).error
        assert np.isfinite(error).all()


def test_given_distances_are_calibrated_by_support_alone(curve):
    D = cdist(curve, curve)
    model = DiffusionMaps(2, metric="precomputed").fit(D)
    with pytest.raises(ValueError, match=r"metric='precomputed'.*Pass X"):
        model.calibrate()
    trust = model.calibrate(D, folds=4).trust(D[:10])
    assert np.isfinite(trust.error).all()
    assert trust.distance is None


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
    model = KernelPCA(2, kernel="rbf").fit(curve).calibrate(curve, folds=3, rows=60)
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
