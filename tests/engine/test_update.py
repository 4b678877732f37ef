"""Updates: exact where they can be, near a full refit where they cannot, and in the old coordinates."""

import copy
from dataclasses import asdict, replace

import numpy as np
import pytest

from catalogue import cloud, new_points, quietly
from outfold import Roseland, graphs, plan
from outfold.datasets import flat_torus, s_curve
from outfold.engine import update as updating
from outfold.exceptions import SpectrumWarning
from outfold.graphs.nearest import NearestAnchors
from outfold.quality import aligned_error
from outfold.solvers import lobpcg

X = cloud(0, rows=150)
MORE = cloud(1, rows=50)
Z = new_points(X, 0, 20)
Y = X[::3]
OPTIONS = {"landmarks": Y, "epsilon": 0.8, "updatable": True}

sparse_or_dense = pytest.mark.parametrize("n_neighbors", [None, 12, graphs.Threshold(0.05)], ids=str)
alphas = pytest.mark.parametrize("alpha", [0, 1])


def uneven_circle(n, seed=0):
    grid = np.linspace(0, 2 * np.pi, 20_001)
    angle = np.interp(np.random.default_rng(seed).uniform(size=n), (grid + 0.5 * np.sin(grid)) / (2 * np.pi), grid)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def growing_curve(n, seed=0):
    """The S-curve from one end to the other: later rows lie where there were none."""
    rows, position = s_curve(n, random_state=seed)
    return rows[np.argsort(position[:, 0] + np.random.default_rng(seed).uniform(-2, 2, n))]


def moved(before, after):
    return np.sqrt(((after - before) ** 2).sum() / ((before - before.mean(axis=0)) ** 2).sum())


def in_steps(model, rows, start, steps=10):
    """Fitted to the first rows, then updated with the others."""
    quietly(model.fit, rows[:start])
    for part in np.array_split(rows[start:], steps):
        quietly(model.update, part)
    return model


def refitted(model, rows):
    """All rows at once, with the same kernel, landmarks and epsilon."""
    kernel = "adaptive" if isinstance(model.model_.rule.geometry, NearestAnchors) else "gaussian"
    fixed = {"landmarks": model.landmarks_, "kernel": kernel, "epsilon": model.epsilon_, "updatable": False}
    options = {**model.get_params(), **fixed}
    return quietly(Roseland(**options).fit, rows)


@alphas
@sparse_or_dense
def test_sums_over_rows_are_exact(n_neighbors, alpha):
    model = in_steps(Roseland(3, alpha=alpha, n_neighbors=n_neighbors, **OPTIONS), np.vstack([X, X + 0.01]), 150, 3)
    whole = quietly(Roseland(3, alpha=alpha, n_neighbors=n_neighbors, **OPTIONS).fit, np.vstack([X, X + 0.01]))
    assert model.report_.drift.landmarks == 0
    np.testing.assert_allclose(model._past.gathered.seen, whole._past.gathered.seen, rtol=1e-12)
    np.testing.assert_allclose(model.model_.rule.gain, whole.model_.rule.gain, rtol=1e-12)
    assert model._past.gathered.total == whole._past.gathered.total == model.report_.n_samples == 300


@alphas
@sparse_or_dense
def test_the_constant_stays_the_trivial_eigenvector(n_neighbors, alpha):
    model = in_steps(Roseland(3, alpha=alpha, n_neighbors=n_neighbors, **OPTIONS), np.vstack([X, MORE + 1]), 150, 2)
    gathered, gain = model._past.gathered, model.model_.rule.gain
    np.testing.assert_allclose(gathered.gram @ gain, gathered.seen, rtol=1e-13)
    H = gathered.gram if isinstance(gathered.gram, np.ndarray) else gathered.gram.toarray()
    S = np.sqrt(gain / gathered.seen)[:, None] * H * np.sqrt(gain / gathered.seen)  # omega = gain / p_X
    values = np.linalg.eigvalsh((S + S.T) / 2)
    np.testing.assert_allclose(values[-1], 1, atol=1e-12)
    assert values[0] > -1e-12
    assert model.eigenvalues_.max() < 1 - 1e-6


CASES = {
    "s-curve": (lambda: s_curve(4000, random_state=0)[0], s_curve(400, random_state=9)[0], 3, {}),
    "torus": (lambda: flat_torus(4000, random_state=0), flat_torus(400, random_state=9), 4, {}),
    "uneven circle": (lambda: uneven_circle(4000), uneven_circle(400, 9), 2, {"epsilon": 0.05}),
}


@pytest.mark.parametrize(
    ("kernel", "n_neighbors"), [("gaussian", None), ("gaussian", 24), ("adaptive", "auto"), ("adaptive", 24)]
)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ten_updates_of_ten_per_cent_end_near_a_full_refit_and_old_points_stay(case, kernel, n_neighbors):
    make, grid, components, options = case
    rows = make()
    kind = {"kernel": kernel, "n_neighbors": n_neighbors, **(options if kernel == "gaussian" else {})}
    model = Roseland(components, landmarks=300, updatable=True, random_state=0, **kind).fit(rows[:2000])
    before = model.transform(rows[:2000])
    at_fit = model.transform(grid, on_far="keep")
    for part in np.array_split(rows[2000:], 10):
        model.update(part)
    refit = refitted(model, rows)
    truth = refit.transform(grid, on_far="keep")
    error = aligned_error(quietly(model.transform, grid), truth)
    assert error < 0.01
    assert error < 0.35 * aligned_error(at_fit, truth)  # nearer than the model before
    np.testing.assert_allclose(np.sort(model.eigenvalues_), np.sort(refit.eigenvalues_), rtol=3e-3)
    after = model.transform(rows[:2000], on_far="keep")
    assert moved(before, after) < 0.05
    assert model.report_.drift.moved_since_fit == pytest.approx(moved(before, after), rel=0.2)
    assert model.report_.drift.updates == 10
    assert model.report_.n_samples == 4000


@alphas
@pytest.mark.parametrize("n_neighbors", [None, 24, graphs.Threshold(1e-3)], ids=str)
def test_ten_updates_into_new_regions_add_landmarks_and_end_near_a_full_refit(n_neighbors, alpha):
    rows, grid = growing_curve(4000), s_curve(400, random_state=9)[0]
    options = {"kernel": "gaussian", "n_neighbors": n_neighbors, "alpha": alpha}
    model = Roseland(2, landmarks=300, updatable=True, random_state=0, **options)
    in_steps(model, rows, 2000)
    assert 320 < len(model.landmarks_) < 600
    assert len(model.landmarks_) == report_of(model).n_anchors
    assert model.trust(grid).flag.mean() < 0.03  # all of the curve is known now; 1 % of rows like these are flagged
    np.testing.assert_array_equal(rows[model.landmark_indices_], model.landmarks_)
    error = aligned_error(model.transform(grid), refitted(model, rows).transform(grid, on_far="keep"))
    assert error < 0.05


def report_of(model):
    assert str(model.report_.n_samples) in str(model.report_)
    assert "updates" in str(model.report_)
    return model.report_


@alphas
@sparse_or_dense
def test_an_exact_pass_is_a_fit_with_these_landmarks_in_the_old_coordinates(n_neighbors, alpha):
    far = cloud(2, rows=60) * 0.5 + [4.0, 0.0, 0.0]
    rows = np.vstack([X, far])
    model = quietly(Roseland(3, n_neighbors=n_neighbors, alpha=alpha, t=2, **OPTIONS).fit, X)
    before = quietly(model.transform, X)
    quietly(model.update, far, source=rows)
    assert len(model.landmarks_) > len(Y)
    assert model.report_.drift.exact
    refit = refitted(model, rows)
    np.testing.assert_allclose(model.eigenvalues_.sum(), refit.eigenvalues_.sum(), rtol=1e-10)
    assert aligned_error(quietly(model.transform, rows), quietly(refit.transform, rows)) < 1e-8
    after, other = quietly(model.transform, X), quietly(refit.transform, X)
    signs = np.sign((before * after).sum(axis=0))
    assert (signs > 0).all()
    assert moved(before, after) <= moved(before, other) + 1e-9


def test_an_exact_pass_after_updates_takes_back_what_they_approximated():
    rows = np.vstack([X, X + 0.1, X - 0.1])
    model = in_steps(Roseland(3, n_neighbors=None, **OPTIONS), rows[:300], 150, 3)
    refit = refitted(model, rows)
    rough = in_steps(Roseland(3, n_neighbors=None, **OPTIONS), rows, 150, 4)
    model.update(rows[300:], source=rows)
    assert (
        aligned_error(quietly(model.transform, Z), quietly(refit.transform, Z))
        < 1e-9
        < aligned_error(quietly(rough.transform, Z), quietly(refit.transform, Z))
    )


@sparse_or_dense
def test_transform_after_an_update_is_one_formula_for_every_row(n_neighbors):
    model = in_steps(
        Roseland(3, n_neighbors=n_neighbors, **OPTIONS), np.vstack([X, MORE + np.array([3.0, 0, 0])]), 150, 2
    )
    some = np.vstack([MORE, Z, X])
    together = quietly(model.transform, some)
    order = np.random.default_rng(0).permutation(len(some))
    np.testing.assert_allclose(quietly(model.transform, some[order]), together[order], rtol=0, atol=1e-12)
    alone = np.vstack([quietly(model.transform, some[i : i + 1]) for i in range(0, len(some), 7)])
    np.testing.assert_allclose(alone, together[::7], rtol=0, atol=1e-12)
    assert model.eigenvectors_.shape == (len(model.landmarks_), 3)
    far = np.vstack([Z, [[1e6, 0, 0]]])
    assert np.isfinite(quietly(model.transform, far)).all()
    assert model.trust(far).flag[-1]
    assert not model.trust(X).flag.any()


@alphas
@sparse_or_dense
def test_weights_are_repeats(n_neighbors, alpha):
    counts = np.random.default_rng(0).integers(0, 4, len(MORE))
    options = {**OPTIONS, "n_neighbors": n_neighbors, "alpha": alpha}
    weighted = quietly(Roseland(3, **options).fit, X)
    repeated = quietly(Roseland(3, **options).fit, X)
    quietly(weighted.update, MORE, sample_weight=counts)
    quietly(repeated.update, np.repeat(MORE, counts, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(quietly(weighted.transform, Z), quietly(repeated.transform, Z), atol=1e-9)


def test_weights_that_are_no_counts_keep_the_unit_of_the_fit():
    weights = np.random.default_rng(0).uniform(0.1, 0.5, len(X) + len(MORE))
    model = Roseland(3, n_neighbors=None, **OPTIONS).fit(X, sample_weight=weights[: len(X)])
    whole = Roseland(3, n_neighbors=None, **OPTIONS).fit(np.vstack([X, MORE]), sample_weight=weights)
    quietly(model.update, MORE, sample_weight=weights[len(X) :])
    one, other = (m._past.gathered.seen / m._past.gathered.total for m in (model, whole))
    np.testing.assert_allclose(one[: len(Y)], other, rtol=1e-12)


def test_drift_is_reported_and_larger_when_the_data_change():
    rows = s_curve(3000, random_state=0)[0]
    more, position = s_curve(1000, random_state=1)
    same, other = (Roseland(3, landmarks=200, updatable=True, random_state=0).fit(rows) for _ in range(2))
    assert same.report_.drift is None
    before = same.eigenvalues_
    same.update(more[:300])
    quietly(other.update, more[position[:, 0] > 0][:300] + np.array([0.5, 0.0, 0.0]))  # 20 of them lie outside the data
    calm, shaken = same.report_.drift, other.report_.drift
    assert (calm.rows, calm.updates, calm.exact) == (300, 1, False)
    assert 0 < calm.moved < 0.03
    assert shaken.moved > 3 * calm.moved
    assert shaken.eigenvalues > calm.eigenvalues
    change = np.abs(same.eigenvalues_ - before) / (1 - before)
    assert calm.eigenvalues == pytest.approx(change.max(), rel=1e-12)
    assert asdict(same.report_)["drift"]["rows"] == 300


def test_a_few_outliers_become_no_landmarks_but_a_crowd_does():
    model = Roseland(2, landmarks=60, kernel="gaussian", updatable=True, random_state=0).fit(cloud(0, rows=400))
    outliers = np.vstack([MORE[:20], [[40.0, 0, 0], [0, 40.0, 0]]])
    model.update(outliers)
    assert model.report_.drift.landmarks == 0
    assert model.trust(outliers[-2:]).flag.all()
    with pytest.warns(SpectrumWarning, match="2 components"):  # as a fit would
        model.update(cloud(3, rows=40) * 0.1 + 40)
    assert model.report_.drift.landmarks > 0
    assert not model.trust(np.full((1, 3), 40.0)).flag.any()


def test_in_local_units_landmarks_stay_and_many_rows_outside_are_a_warning():
    """More landmarks would change the local scale of old rows, which are gone."""
    rows = growing_curve(4000)
    model = Roseland(2, landmarks=300, updatable=True, random_state=0).fit(rows[:2000])
    model.update(rows[:500] + 1e-3)
    with pytest.warns(SpectrumWarning, match=r"of 2000 new rows lie outside the data of the fit.*kernel='gaussian'"):
        model.update(rows[2000:])
    assert len(model.landmarks_) == 300
    assert model.report_.drift.landmarks == 0
    assert any("new rows lie outside" in text for text in model.report_.warnings)


def test_it_fails_without_what_it_needs_and_leaves_the_model_as_it_was():
    with pytest.raises(ValueError, match="updatable=True"):
        Roseland(2, landmarks=Y).fit(X).update(MORE)
    assert Roseland(2, landmarks=Y).fit(X)._past is None
    with pytest.raises(ValueError, match="updatable='yes' must be True or False"):
        Roseland(2, updatable="yes").fit(X)
    model = Roseland(2, **OPTIONS).fit(X)
    before, expected = dict(model.__dict__), model.transform(Z, on_far="keep")
    for rows, options, message in (
        (MORE[:, :2], {}, "2 features"),
        (np.where(MORE > 1, np.nan, MORE), {}, "NaN"),
        (MORE, {"sample_weight": [1, 2]}, "sample_weight has 2 entries for 50 rows"),
        (MORE, {"sample_weight": -np.ones(50)}, "finite and >= 0"),
        (MORE, {"sample_weight": np.zeros(50)}, "not all 0"),
        (MORE, {"source": X}, "source has 150 rows, but 150 were seen before and 50 are new"),
        (MORE, {"source": np.vstack([MORE] * 4) + 100}, "landmarks are seen by no row of source"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update(rows, **options)
        assert model.__dict__ == before or all(model.__dict__[name] is value for name, value in before.items())
        np.testing.assert_array_equal(model.transform(Z, on_far="keep"), expected)


def test_an_updated_model_has_no_embedding_of_its_rows():
    model = Roseland(2, **OPTIONS).fit(X)
    assert model.embedding_.shape == (150, 2)
    quietly(model.update, MORE)
    with pytest.raises(AttributeError, match="updated since: call transform"):
        model.embedding_  # noqa: B018


def test_new_rows_may_come_from_a_file(tmp_path):
    np.save(tmp_path / "more.npy", MORE)
    here, there = (Roseland(2, **OPTIONS).fit(X) for _ in range(2))
    quietly(here.update, MORE)
    quietly(there.update, tmp_path / "more.npy")
    np.testing.assert_allclose(there.transform(X, on_far="keep"), here.transform(X, on_far="keep"), atol=1e-12)
    quietly(there.update, MORE[:1])
    assert there.report_.n_samples == 201


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
@pytest.mark.parametrize(
    ("solver", "n_neighbors"), [("lanczos", "auto"), ("lanczos", 12), ("lobpcg", 12), ("shift_invert", 12)]
)
def test_every_solver_goes_on_from_the_old_basis_to_the_same_answer(solver, n_neighbors, kernel):
    rows = s_curve(1500, random_state=0)[0]
    options = {"landmarks": 300, "n_neighbors": n_neighbors, "kernel": kernel, "updatable": True, "random_state": 0}
    plain, other = (Roseland(3, solver=name, **options) for name in ("dense", solver))
    in_steps(plain, rows, 1000, 2)
    in_steps(other, rows, 1000, 2)
    assert other.report_.solver == solver.replace("_", "")
    np.testing.assert_allclose(other.eigenvalues_, plain.eigenvalues_, rtol=1e-6)
    assert aligned_error(other.transform(rows, on_far="keep"), plain.transform(rows, on_far="keep")) < 1e-3


def test_the_solver_starts_from_the_old_basis(monkeypatch):
    rows, steps, smallest = s_curve(9000, random_state=0)[0], [], lobpcg.smallest

    def counted(*arguments):
        found = smallest(*arguments)
        steps.append(found[3])
        return found

    monkeypatch.setattr(lobpcg, "smallest", counted)
    model = Roseland(3, landmarks=1500, n_neighbors=24, solver="lobpcg", updatable=True, random_state=0)
    model.fit(rows[:8000]).update(rows[8000:8500])
    lost = copy.deepcopy(model)
    lost._past = replace(lost._past, start=lost._past.start[:, :0])
    needed = []
    for one in (model, lost):
        steps.clear()
        one.update(rows[8500:])
        needed.append(steps[0])
    assert needed[0] < needed[1]


def test_coordinates_that_are_apart_keep_place_and_sign_and_groups_turn():
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    overlap = np.zeros((4, 5))
    overlap[0, 1], overlap[1, 0] = -0.99, 0.98  # changed places
    overlap[2:, 2:4] = turn.T
    values = np.array([0.9, 0.8, 0.5, 0.48, 0.1])
    R = updating.follow(overlap, values, np.array([True, True, True, True, False]))
    np.testing.assert_allclose(R.T @ R, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(R[:2, :2], [[0, 1], [-1, 0]], atol=1e-12)
    np.testing.assert_allclose(R[2:4, 2:], turn, atol=1e-12)
    assert np.abs(R[4]).max() == 0


def test_rows_and_columns_are_scaled_alike_to_the_sums_asked_for():
    W = np.random.default_rng(0).uniform(size=(40, 8))
    gain = np.random.default_rng(1).uniform(0.5, 2, 8)
    H = W.T @ (W / (W @ gain)[:, None])
    seen, other = W.sum(axis=0), gain * np.random.default_rng(2).uniform(0.8, 1.2, 8)
    truth = W.T @ (W / (W @ other)[:, None])
    before = np.abs(H - truth).max()
    updating.rebalance(H, seen, other)
    np.testing.assert_allclose(H @ other, seen, rtol=1e-14)
    np.testing.assert_allclose(H, H.T, rtol=1e-14)
    assert np.abs(H - truth).max() < 0.2 * before


@pytest.mark.parametrize("wanted", ["auto", [1, 3]], ids=str)
def test_it_keeps_the_components_the_fit_chose(wanted):
    model = Roseland(wanted, n_neighbors=None, t=3, **OPTIONS).fit(X)
    count, before = len(model.eigenvalues_), model.transform(X)
    values = model.eigenvalues_
    model.set_params(n_components=1, alpha=0, epsilon=5.0)  # what was fitted is what goes on
    model.update(X[:40] + 0.01)
    assert model.transform(X).shape == (150, count)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=0.05)
    assert moved(before, model.transform(X)) < 0.1
    assert model.epsilon_ == 0.8


def test_nearly_equal_eigenvalues_do_not_spin():
    rows = flat_torus(3000, random_state=0)  # the first four are equal but for sampling
    model = Roseland(2, landmarks=300, updatable=True, random_state=0).fit(rows[:1500])
    before = quietly(model.transform, rows[:1500])
    for part in np.array_split(rows[1500:], 5):
        model.update(part)
    assert moved(before, quietly(model.transform, rows[:1500])) < 0.05  # though two of four are kept


@pytest.mark.parametrize("n_neighbors", [None, 16])
def test_a_plan_counts_what_is_kept_for_updates(n_neighbors):
    options = {"landmarks": 900, "n_neighbors": n_neighbors, "memory": "8GB"}
    plain, more = (plan((100_000, 3), Roseland(3, updatable=kept, **options)) for kept in (False, True))
    assert more.stages[2].bytes > plain.stages[2].bytes


def test_a_movement_is_relative_to_the_standard_deviation():
    """Every point moves by (3, 4), a distance of 5; the standard deviation is that of all coordinates together."""
    before = np.random.default_rng(0).normal(size=(50, 2)) * [2, 7]
    after = before + np.array([3.0, 4.0])
    deviation = np.sqrt(before.var(axis=0).sum())
    assert updating._movement(before, after) == pytest.approx(5 / deviation, rel=1e-12)
    assert updating._movement(before, before) == 0
