"""DMD and EDMD: systems whose eigenvalues, eigenfunctions and futures are known."""

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from sklearn.base import clone
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.utils import estimator_checks

from outfold import DiffusionMaps
from outfold.dynamics import DMD, EDMD, Delays

A = np.array([[0.9, -0.3, 0.0], [0.3, 0.9, 0.1], [0.0, 0.0, 0.7]])
SPECTRUM = [0.9 + 0.3j, 0.9 - 0.3j, 0.7]


def orbit(start, n, matrix=A):
    rows = [np.asarray(start, dtype=float)]
    while len(rows) < n:
        rows.append(matrix @ rows[-1])
    return np.array(rows)


STARTS = np.random.default_rng(0).normal(size=(3, 3))
LINEAR = [orbit(start, n) for start, n in zip(STARTS, (9, 4, 15))]
OMEGA = 0.31
CIRCLE = np.column_stack([np.cos(OMEGA * np.arange(400)), np.sin(OMEGA * np.arange(400))])
for rows in (*LINEAR, CIRCLE):
    rows.flags.writeable = False
linear_models = pytest.mark.parametrize("model", [DMD(), EDMD("identity")], ids=["DMD", "EDMD"])


def fourier(X, degree=3):
    angle = np.arctan2(X[:, 1], X[:, 0])
    return np.column_stack([np.ones(len(X)), *(f(k * angle) for k in range(1, degree + 1) for f in (np.cos, np.sin))])


# -- linear systems ------------------------------------------------------------------------


@linear_models
def test_a_linear_system_has_its_eigenvalues_modes_and_future(model):
    model = clone(model).fit(LINEAR)
    np.testing.assert_allclose(model.eigenvalues_, SPECTRUM, rtol=0, atol=1e-10)
    np.testing.assert_allclose(A @ model.modes_.T, model.modes_.T * model.eigenvalues_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.predict(STARTS[0], steps=8), LINEAR[0][1:], rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.concatenate(model.reconstruct(LINEAR)), np.concatenate(LINEAR), rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(model.transform(LINEAR[2])), LINEAR[2], rtol=0, atol=1e-10)
    assert model.score(LINEAR) == pytest.approx(1, abs=1e-12)
    assert model.residuals_.max() < 1e-10
    assert not model.spurious_.any()
    functions = model.transform(LINEAR[2])
    np.testing.assert_allclose(functions[1:], functions[:-1] * model.eigenvalues_, rtol=0, atol=1e-10)
    before = np.concatenate([part[:-1] for part in model.transform(LINEAR)])
    np.testing.assert_allclose(np.mean(np.abs(before) ** 2, axis=0), 1, rtol=1e-12)


@linear_models
def test_rates_and_periods_are_in_the_unit_of_time(model):
    model = clone(model).fit(LINEAR[2], time=0.5 * np.arange(15) + 7)
    np.testing.assert_allclose(model.rates_, np.log(SPECTRUM) / 0.5, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.periods_[:2], np.pi / np.arctan2(0.3, 0.9), rtol=1e-9)
    assert model.periods_[2] > 1e8
    values, vectors = np.linalg.eig(A)
    half = (vectors * values**0.5 @ np.linalg.inv(vectors)).real
    np.testing.assert_allclose(
        model.predict(STARTS[0], times=[0.25, 1.0]), [half @ STARTS[0], A @ A @ STARTS[0]], atol=1e-9
    )


@linear_models
@pytest.mark.parametrize("gaps", [False, True])
def test_neither_the_order_of_series_nor_gaps_change_the_fit(model, gaps):
    rows, labels = np.concatenate(LINEAR), np.repeat([0, 1, 2], [9, 4, 15])
    times = np.concatenate([np.arange(len(part)) for part in LINEAR])
    kept = np.ones(len(rows), dtype=bool)
    kept[[3, 17, 18]] = not gaps
    rows, labels, times = (
        rows[kept] + 1e-3 * np.random.default_rng(1).normal(size=(kept.sum(), 3)),
        labels[kept],
        times[kept],
    )
    one = clone(model).fit(rows, series=labels, time=times)
    turned = np.argsort(-labels, kind="stable")
    other = clone(model).fit(rows[turned], series=labels[turned], time=times[turned])
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other.transform(rows[:4]), one.transform(rows[:4]), rtol=0, atol=1e-8)
    there = {(label, t): x for x, label, t in zip(rows, labels, times)}
    pairs = [(x, there[label, t + 1]) for (label, t), x in there.items() if (label, t + 1) in there]
    assert len(pairs) == (20 if gaps else 25)
    before, after = (np.array(part) for part in zip(*pairs))
    wanted = np.linalg.eigvals(np.linalg.lstsq(before, after, rcond=None)[0])
    np.testing.assert_allclose(np.sort_complex(one.eigenvalues_), np.sort_complex(wanted), rtol=0, atol=1e-10)


def test_modes_of_a_cut_rank_are_those_of_exact_dmd():
    rows = np.concatenate(LINEAR)
    x, y = rows[:-1].T, rows[1:].T  # one series, joined: no linear system fits
    U, s, Vt = np.linalg.svd(x, full_matrices=False)
    inverse = (Vt[:2].T / s[:2]) @ U[:, :2].T
    model = DMD(rank=2).fit(rows)
    operator = y @ inverse
    np.testing.assert_allclose(operator @ model.modes_.T, model.modes_.T * model.eigenvalues_, rtol=0, atol=1e-10)
    nonzero = sorted(np.linalg.eigvals(operator), key=abs)[1:]
    np.testing.assert_allclose(np.sort_complex(model.eigenvalues_), np.sort_complex(nonzero), rtol=0, atol=1e-10)


def test_regularisation_is_a_ridge_relative_to_the_largest_singular_value():
    rows = LINEAR[2]
    x, y = rows[:-1], rows[1:]
    penalty = 0.1 * np.linalg.norm(x, 2) ** 2
    wanted = np.linalg.eigvals(np.linalg.solve(x.T @ x + penalty * np.eye(3), x.T @ y))
    found = DMD(regularisation=0.1).fit(rows).eigenvalues_
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(wanted), rtol=0, atol=1e-10)


def test_the_unit_of_a_column_does_not_change_edmd():
    one = EDMD(PolynomialFeatures(2)).fit(LINEAR)
    other = EDMD(PolynomialFeatures(2)).fit([part * [1e6, 1.0, 1e-6] for part in LINEAR])
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=0, atol=1e-9)


def test_a_stable_model_stays_bounded():
    rows = orbit([1.0, 0.5], 20, np.array([[1.1, 0.2], [0.0, 0.8]]))
    free, stable = EDMD("identity").fit(rows), EDMD("identity", stable=True).fit(rows)
    np.testing.assert_allclose(free.eigenvalues_, [1.1, 0.8], atol=1e-10)
    np.testing.assert_allclose(stable.eigenvalues_, [1.0, 0.8], atol=1e-10)
    assert np.abs(stable.predict([1.0, 0.5], steps=1000)).max() < 10
    with pytest.raises(ValueError, match="grows beyond the largest number within 9000 steps.*1.1. Forecast fewer"):
        free.predict([1.0, 0.5], steps=9000)


def test_a_matrix_without_a_basis_of_eigenvectors_has_an_answer():
    shift = EDMD("identity").fit(orbit([1.0, 2.0, 3.0], 5, np.diag([1.0, 1.0], 1)))
    np.testing.assert_allclose(np.abs(shift.eigenvalues_), 0, atol=1e-4)  # a block of size 3: the cube root of rounding
    assert np.isfinite(shift.predict([1.0, 2.0, 3.0], steps=2)).all()


# -- functions of the state ----------------------------------------------------------------


def test_a_rotation_in_the_fourier_dictionary():
    model = EDMD(FunctionTransformer(fourier)).fit(CIRCLE)
    wanted = np.exp(1j * OMEGA * np.array([0, 1, -1, 2, -2, 3, -3]))
    np.testing.assert_allclose(model.eigenvalues_, wanted, rtol=0, atol=1e-10)
    assert model.residuals_.max() < 1e-10
    assert model.decoder_ == "modes"  # a FunctionTransformer without inverse_func returns its input


def test_a_rotation_in_diffusion_coordinates_has_fourier_modes():
    """Eigenvalues within the residual, as for a normal operator; eigenfunctions at new angles."""
    model = EDMD().fit(CIRCLE)
    new = np.linspace(0.1, 6.2, 50)
    functions = model.transform(np.column_stack([np.cos(new), np.sin(new)]))
    for number, k in enumerate([0, 1, -1, 2, -2, 3, -3]):
        error = abs(model.eigenvalues_[number] - np.exp(1j * OMEGA * k))
        assert error <= model.residuals_[number] + 1e-10
        assert error < 1e-3
        phase = functions[:, number] * np.exp(-1j * k * new)
        assert np.abs(phase - phase.mean()).max() < 0.05
    assert model.spurious_.tolist() == [False] * 11 + [True] * 2  # functions beyond the ten coordinates
    assert model.periods_[1] == pytest.approx(2 * np.pi / OMEGA, rel=1e-6)


def test_ornstein_uhlenbeck_has_the_rates_of_hermite_polynomials():
    """Rates k theta, eigenfunctions Hermite polynomials. Noise is in the residuals and makes no pair spurious."""
    theta, step, n = 1.0, 0.3, 20_000
    decay = np.exp(-theta * step)
    random = np.random.default_rng(0)
    noise = np.sqrt(1 - decay**2) * random.normal(size=(10, n))
    noise[:, 0] = random.normal(size=10)  # the stationary distribution
    rows = lfilter([1.0], [1.0, -decay], noise, axis=1).reshape(-1, 1)
    model = EDMD(PolynomialFeatures(3)).fit(
        rows, series=np.repeat(np.arange(10), n), time=np.tile(step * np.arange(n), 10)
    )
    np.testing.assert_allclose(model.rates_.real[1:], [-theta, -2 * theta, -3 * theta], rtol=0.05)
    assert abs(model.rates_[0]) < 1e-10
    np.testing.assert_allclose(model.residuals_[1:], np.sqrt(1 - decay ** (2 * np.arange(1, 4))), rtol=0.05)
    assert not model.spurious_.any()
    x = np.linspace(-2, 2, 9)
    hermite = [x, (x**2 - 1) / np.sqrt(2), (x**3 - 3 * x) / np.sqrt(6)]
    for found, wanted in zip(model.transform(x[:, None]).real.T[1:], hermite):
        assert min(np.abs(found - wanted).max(), np.abs(found + wanted).max()) < 0.15


MU, FREQUENCY, TWIST, STEP = 1.0, 2.0, 0.5, 0.05


def hopf(radius, angle, n):
    """The normal form z' = (mu + i omega) z - (1 + i twist) |z|^2 z, whose solutions are known."""
    t = STEP * np.arange(n)
    r = np.sqrt(MU / (1 + (MU / radius**2 - 1) * np.exp(-2 * MU * t)))
    turned = angle + FREQUENCY * t - TWIST / 2 * np.log(1 + (np.exp(2 * MU * t) - 1) * radius**2 / MU)
    return np.column_stack([r * np.cos(turned), r * np.sin(turned)])


def test_a_hopf_limit_cycle_has_its_period_and_its_rate_of_attraction():
    parts = [hopf(0.5, 0, 250), hopf(1.5, 2, 200), hopf(0.8, 4, 300)]
    period = 2 * np.pi / (FREQUENCY - TWIST * MU)
    model = EDMD(make_pipeline(Delays(4), PolynomialFeatures(3)))
    model.fit(pd.concat({i: pd.DataFrame(x, index=STEP * np.arange(len(x))) for i, x in enumerate(parts)}))
    lasting = model.eigenvalues_[np.abs(model.eigenvalues_) > 0.99]
    np.testing.assert_allclose(
        np.abs(np.angle(lasting)), np.repeat([0, 1, 2, 3], [1, 2, 2, 2]) * 2 * np.pi * STEP / period, atol=1e-5
    )
    np.testing.assert_allclose(model.periods_[1:7], np.repeat(period / np.array([1, 2, 3]), 2), rtol=1e-3)
    np.testing.assert_allclose(model.rates_.real[7:14], -2 * MU, rtol=0.01)
    truth = hopf(0.6, 1.0, 200)
    found = model.predict(truth[:10], steps=100, time=STEP * np.arange(10))
    np.testing.assert_allclose(found, truth[10:110], rtol=0, atol=1e-3)
    default = EDMD().fit(np.concatenate(parts), series=np.repeat([0, 1, 2], [250, 200, 300]))
    slow = default.periods_[np.isfinite(default.periods_) & ~default.spurious_].max()
    assert slow * STEP == pytest.approx(period, rel=1e-3)


def test_one_observed_coordinate_is_enough_with_delays():
    x = [np.cos(OMEGA * np.arange(n) + phase)[:, None] for n, phase in ((30, 0.0), (20, 2.0))]
    model = EDMD(Delays(1)).fit(x)
    np.testing.assert_allclose(model.eigenvalues_, np.exp([1j * OMEGA, -1j * OMEGA]), rtol=0, atol=1e-10)
    later = model.predict([x[0][:7], x[1][:5]], steps=3)
    np.testing.assert_allclose(later, [x[0][7:10], x[1][5:8]], rtol=0, atol=1e-10)
    assert [len(part) for part in model.reconstruct(x)] == [29, 19]
    np.testing.assert_allclose(np.concatenate(model.reconstruct(x)), np.concatenate([x[0][1:], x[1][1:]]), atol=1e-10)
    with pytest.raises(
        ValueError, match="Series 0 ends, at time 0, with 1 row after its last gap, and a forecast needs 2"
    ):
        model.predict([1.0], steps=3)


def test_spurious_eigenvalues_of_a_truncated_dictionary_are_flagged():
    """x -> 4 x (1 - x) doubles the degree of Chebyshev polynomials: of degree 4, only the constant is an eigenfunction.

    T_k goes to T_2k, so 1 is the only eigenvalue in L2 of the invariant measure; the others are those of the cut.
    """
    x = [0.3123]
    while len(x) < 2000:
        x.append(4 * x[-1] * (1 - x[-1]))
    model = EDMD(PolynomialFeatures(4)).fit(np.array(x)[:, None])
    assert model.spurious_.tolist() == [False, True, True, True, True]
    assert model.residuals_[0] < 1e-10
    assert model.residuals_[1:].min() > 0.9
    assert model.eigenvalues_[0] == pytest.approx(1, abs=1e-10)


# -- dictionaries and the way back ---------------------------------------------------------


def test_the_inverse_of_the_dictionary_is_used_where_it_is_closer():
    curve = np.column_stack([CIRCLE[:, 0], CIRCLE[:, 1], CIRCLE[:, 0] ** 3])
    model = EDMD(DiffusionMaps(2)).fit(curve)
    assert model.decoder_ == "dictionary"
    np.testing.assert_allclose(model.predict(curve[:1], steps=10), curve[1:11], atol=0.1)  # of modes: cos(3 angle) / 4
    scaled = EDMD(make_pipeline(StandardScaler())).fit([part + 5 for part in LINEAR])
    assert scaled.decoder_ == "dictionary"  # the modes have no constant, the scaler has
    doubled = EDMD(FunctionTransformer(lambda X: 2 * X)).fit(LINEAR)  # its inverse_transform returns its input
    assert doubled.decoder_ == "modes"
    np.testing.assert_allclose(doubled.predict(STARTS[0]), LINEAR[0][1:2], rtol=0, atol=1e-10)
    log = EDMD(FunctionTransformer(np.log, np.exp)).fit(np.exp(LINEAR[2]))
    assert log.decoder_ == "dictionary"
    np.testing.assert_allclose(log.predict(np.exp(STARTS[2]), steps=14), np.exp(LINEAR[2][1:]), rtol=1e-9)


def test_delays_may_come_after_other_steps_but_not_inside_a_union():
    scaled = EDMD(make_pipeline(StandardScaler(with_mean=False), make_pipeline(Delays(1), "passthrough"))).fit(LINEAR)
    np.testing.assert_allclose(scaled.eigenvalues_, SPECTRUM, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="FeatureUnion returned 26 rows for 28. In a dictionary only Delays may drop"):
        EDMD(make_union(Delays(2))).fit(LINEAR)


def test_a_fit_changes_neither_its_dictionary_nor_its_input():
    dictionary = make_pipeline(StandardScaler(), PolynomialFeatures(2))
    EDMD(dictionary).fit(LINEAR)
    assert not hasattr(dictionary[0], "mean_")


def test_refitting_gives_the_same_bits():
    one, other = (EDMD().fit(CIRCLE) for _ in range(2))
    for name in ("eigenvalues_", "modes_", "residuals_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_default_dictionary_is_small_where_there_are_few_states():
    """White noise has no future; a dictionary with as many functions as pairs would predict its past."""
    noise = np.random.default_rng(0).normal(size=(30, 2))
    model = EDMD().fit(noise)
    assert len(model.eigenvalues_) == 6  # the constant, three coordinates, the state
    assert model.score(noise) < 0.5
    pulse = EDMD().fit(np.repeat([[1.0], [0.0]], 5, axis=0))  # of two states: no coordinates
    np.testing.assert_allclose(pulse.eigenvalues_, [1.0, 0.8], rtol=0, atol=1e-12)


REFUSED = {
    "rank": (DMD(rank=4), LINEAR, ValueError, "rank=4 is more than the rank of the data, 3: 25 pairs of rows"),
    "no rank": (DMD(rank=0), LINEAR, ValueError, "rank=0 must be a whole number >= 1"),
    "ridge": (DMD(regularisation=-1), LINEAR, ValueError, "regularisation=-1 must be >= 0"),
    "zeros": (DMD(), np.zeros((4, 2)), ValueError, "All rows are 0, so nothing evolves"),
    "name": (EDMD("poly"), LINEAR, ValueError, "dictionary='poly' is not known. Valid: 'identity'"),
    "class": (EDMD(PolynomialFeatures), LINEAR, TypeError, r"must be a transformer, such as PolynomialFeatures\(\)"),
    "delays": (EDMD(Delays(3)), LINEAR, ValueError, "Series 1 has 1 sample .* after the delays of EDMD needs 2"),
}  # fmt: skip


@pytest.mark.parametrize(("model", "X", "error", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_parameters_are_refused(model, X, error, sentence):
    with pytest.raises(error, match=sentence):
        model.fit(X)


def test_wrong_calls_are_refused():
    model = DMD().fit(LINEAR)
    with pytest.raises(ValueError, match="takes steps= .* or times= .*, not both"):
        model.predict(STARTS[0], steps=1, times=[1.0])
    with pytest.raises(ValueError, match="times must be >= 0, after the last row; the smallest is -1"):
        model.predict(STARTS[0], times=[1.0, -1.0])
    with pytest.raises(ValueError, match="steps=0 must be a whole number >= 1"):
        model.predict(STARTS[0], steps=0)
    with pytest.raises(ValueError, match="X has 2 features, but DMD is expecting 3"):
        model.transform(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"X has shape \(2, 2\), and each row needs the values of 3"):
        model.inverse_transform(np.ones((2, 2)))


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = DMD().fit(LINEAR)
    with pytest.raises(ValueError, match="All rows are 0"):
        model.fit(np.zeros((4, 2)))
    np.testing.assert_allclose(model.predict(STARTS[0]), LINEAR[0][1:2], rtol=0, atol=1e-10)


@linear_models
@pytest.mark.parametrize("unit", [1e-150, 1e150, 1e300])
def test_the_unit_of_states_does_not_change_the_spectrum(model, unit):
    found = clone(model).fit([part * unit for part in LINEAR])
    np.testing.assert_allclose(found.eigenvalues_, SPECTRUM, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.predict(STARTS[0] * unit, steps=2) / unit, LINEAR[0][1:3], rtol=0, atol=1e-10)
    assert not found.spurious_.any()


def test_what_a_model_returned_does_not_change_it():
    model = DMD().fit(LINEAR)
    with pytest.raises(ValueError, match="read-only"):
        model.eigenvalues_[0] = 0


EXCUSED = {
    "check_methods_sample_order_invariance": "predict continues a series: rows in another order are another series",
    "check_methods_subset_invariance": "predict returns one row for each step, not for each row",
    "check_fit2d_predict1d": "one state is a vector",
}


@pytest.mark.parametrize("model", [DMD(), EDMD("identity"), EDMD()], ids=repr)
@pytest.mark.filterwarnings("ignore")  # graphs of the two clusters of these checks have two components
def test_scikit_learn_agrees(model):
    results = estimator_checks.check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=EXCUSED)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
