"""Quality of rows that lie in parts: the numbers of rows in memory, and nothing of their size is brought here."""

import contextlib
import pickle

import numpy as np
import pytest

from outfold import DiffusionMaps, Roseland, quality, selection
from outfold.data import sources
from outfold.datasets import s_curve
from outfold.distances import Metric
from outfold.extensions import alignment
from outfold.quality import neighbor_ranks
from outfold.selection import LocalLinearSelection, tuning

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
cloudpickle = pytest.importorskip("cloudpickle")

N = 60
PARTS = {
    "one": (N,),
    "uneven, one empty": (1, 23, 0, 30, 6),
    "single rows": (1,) * N,
    "halves of columns": (25, 35),
}


@pytest.fixture(autouse=True)
def here():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    """Data with copies, and a coarse embedding full of ties."""
    X, position = s_curve(N, random_state=0)
    X[20:28] = X[:8]
    return X, np.round(position, 1)


@pytest.fixture(params=PARTS)
def parts(request):
    return lambda values: in_parts(values, PARTS[request.param], request.param == "halves of columns")


def in_parts(values, sizes=(15, 26, 19), columns=False):
    values = np.asarray(values)
    return da.from_array(values, chunks=(sizes, *(((1, values.shape[1] - 1),) if columns else values.shape[1:])))


def otherwise(values):
    """Dask's, in parts of 17 rows."""
    return da.from_array(np.asarray(values), chunks=(17, *np.shape(values)[1:]))


class Watch:
    """A scheduler that is sent what a cluster would be sent, and counts the bytes of what it hands over."""

    def __init__(self):
        self.bytes = 0

    def __call__(self, graph, keys, **options):
        found = dask.local.get_sync(cloudpickle.loads(cloudpickle.dumps(graph)), keys)
        self.bytes += len(pickle.dumps(found))
        return found


@contextlib.contextmanager
def nothing_computed():
    def refuse(graph, keys, **options):
        raise AssertionError("something was computed")

    with dask.config.set(scheduler=refuse):
        yield


# -- alignments and angles -----------------------------------------------------------------


def moved(embedding):
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    return 3 * embedding @ turn + 5 + 0.1 * rng.normal(size=embedding.shape)


@pytest.mark.parametrize("rescale", [True, False])
def test_an_aligned_error_is_that_of_rows_in_memory(rows, parts, rescale):
    fixed, moving = rows[1], moved(rows[1])
    wanted = quality.aligned_error(moving, fixed, rescale=rescale)
    for one, other in ((parts(moving), otherwise(fixed)), (parts(moving), fixed), (moving, parts(fixed))):
        assert quality.aligned_error(one, other, rescale=rescale) == pytest.approx(wanted, rel=1e-12)


def test_a_small_aligned_error_is_not_lost_in_sums_of_squares():
    fixed = np.random.default_rng(0).normal(size=(500, 3))
    moving = fixed[:, ::-1] + 1e-9 * np.random.default_rng(1).normal(size=fixed.shape) + 1e3
    wanted = quality.aligned_error(moving, fixed)
    found = quality.aligned_error(da.from_array(moving, chunks=(23, 3)), da.from_array(fixed, chunks=(100, 3)))
    assert 1e-10 < wanted < 1e-8
    assert found == pytest.approx(wanted, rel=1e-3)  # rounding of numbers about 1000 is 1e-4 of it


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_an_aligned_mse_is_that_of_rows_in_memory(rows, parts, centre, weighted):
    fixed, moving = rows[1], moved(rows[1])
    weights = np.random.default_rng(2).integers(0, 4, N) / 2 if weighted else None
    chosen = np.r_[3:40:5, -2, 59]
    wanted = quality.aligned_mse(moving, fixed, fit_rows=chosen, weights=weights, centre=centre)
    mask = np.isin(np.arange(N), np.where(chosen < 0, chosen + N, chosen))
    given = None if weights is None else otherwise(weights)
    for fit_rows, measure in ((chosen, given), (mask, weights)):
        found = quality.aligned_mse(parts(moving), otherwise(fixed), fit_rows=fit_rows, weights=measure, centre=centre)
        assert found == pytest.approx(wanted, rel=1e-12)


def test_an_alignment_is_found_in_parts_and_moves_rows_lazily(rows, parts):
    fixed, moving = rows[1], moved(rows[1])
    wanted = alignment.Alignment.of(moving, fixed)
    found = alignment.Alignment.of(parts(moving), otherwise(fixed))
    for name in ("origin", "rotation", "scale", "target"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12, atol=1e-12)
    with nothing_computed():
        places = found(parts(moving))
    assert places.shape == moving.shape
    assert places.chunks[0] == parts(moving).chunks[0]
    np.testing.assert_allclose(places.compute(), wanted(moving), rtol=0, atol=1e-12)


def test_angles_are_those_of_rows_in_memory(rows, parts):
    X, embedding = rows
    weights = np.random.default_rng(2).integers(0, 3, N).astype(float)
    for given in (None, weights):
        wanted = quality.subspace_angles(X, embedding, weights=given)
        spread = None if given is None else otherwise(given)
        found = quality.subspace_angles(parts(X), otherwise(embedding), weights=spread)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-9, 1e-12])
def test_small_angles_are_right(angle):
    first, second = np.linalg.qr(np.random.default_rng(0).normal(size=(1000, 2)))[0].T
    turned = np.cos(angle) * first + np.sin(angle) * second
    found = quality.subspace_angles(da.from_array(first, chunks=70), da.from_array(turned, chunks=130))
    assert found == pytest.approx([angle], rel=1e-3, abs=1e-15)


def test_dependent_columns_span_no_space(rows):
    X = rows[0]
    with pytest.raises(ValueError, match="3 columns of A are not independent"):
        quality.subspace_angles(in_parts(X[:, [0, 1, 0]]), in_parts(rows[1]))


# -- neighbours ----------------------------------------------------------------------------


SCORES = [quality.trustworthiness, quality.continuity]


def same_score(found, wanted):
    return (
        float(found) == pytest.approx(float(wanted), rel=1e-12)
        and found.standard_error == pytest.approx(wanted.standard_error, rel=1e-12)
        and found.rows == wanted.rows
    )


@pytest.mark.parametrize("score", SCORES)
def test_neighbours_and_ranks_are_those_of_rows_in_memory(rows, parts, score):
    X, embedding = rows
    wanted = score(X, embedding)
    assert 0.5 < wanted < 1
    assert same_score(score(parts(X), otherwise(embedding)), wanted)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("k", [1, 20])
def test_some_rows_ask_with_the_same_seed(rows, score, k):
    X, embedding = rows
    weight = np.random.default_rng(5).uniform(size=N)
    options = {"n_neighbors": k, "rows": 23, "random_state": 7}
    wanted = score(X, embedding, sample_weight=weight, **options)
    assert wanted.standard_error > 0
    for given in (weight, otherwise(weight)):
        assert same_score(score(in_parts(X), embedding, sample_weight=given, **options), wanted)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("answers", [5, 1 << 20])
def test_however_many_ask_in_one_walk(rows, score, answers, monkeypatch):
    monkeypatch.setattr(neighbor_ranks, "ANSWERS", answers)
    assert same_score(score(in_parts(rows[0]), in_parts(rows[1]), rows=9), score(*rows, rows=9))


@pytest.mark.parametrize("score", SCORES)
def test_new_rows_ask_wherever_they_are(rows, score):
    X, embedding = rows
    new = X[5:45] + 0.1, embedding[5:45]
    wanted = score(X, embedding, new=new)
    spread = tuple(map(otherwise, new))
    for answering, asking in (((X, embedding), spread), ((in_parts(X), otherwise(embedding)), new)):
        assert same_score(score(*answering, new=asking), wanted)
    assert same_score(score(in_parts(X), embedding, new=spread), wanted)


@pytest.mark.parametrize("metric", ["cosine", "seuclidean", "mahalanobis", Metric("minkowski", {"p": 3}), "callable"])
def test_metrics_know_of_all_rows(rows, metric):
    metric = (lambda x, y: np.abs(x - y).sum()) if metric == "callable" else metric
    X = rows[0] * [1.0, 5.0, 0.1]
    for score in SCORES:
        wanted = score(X, rows[1], metric=metric, rows=30)
        assert same_score(score(in_parts(X), in_parts(rows[1]), metric=metric, rows=30), wanted)


@pytest.mark.parametrize("method", ["pearson", "spearman", "szekely"])
def test_a_correlation_of_distances_draws_the_same_rows(rows, parts, method):
    X, embedding = rows
    options = {"method": method, "rows": 40, "random_state": 3, "metric": "seuclidean"}
    assert same_score(
        quality.distance_correlation(parts(X), otherwise(embedding), **options),
        quality.distance_correlation(X, embedding, **options),
    )


def test_a_column_is_a_table(rows):
    angle = rows[1][:, 0]
    wanted = quality.trustworthiness(rows[0], angle)
    assert same_score(quality.trustworthiness(in_parts(rows[0]), da.from_array(angle, chunks=21)), wanted)


# -- with an estimator ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def maps(rows):
    return DiffusionMaps(3, n_neighbors=None).fit(rows[0][:40])


def test_a_kernel_loss_draws_the_same_rows(rows, parts, maps):
    weight = np.random.default_rng(5).uniform(size=N)
    for options in ({}, {"rows": 30, "random_state": 2}, {"rows": 30, "against": "anchors"}, {"rows": None}):
        wanted = quality.kernel_loss(maps, rows[0], sample_weight=weight, **options)
        found = quality.kernel_loss(maps, parts(rows[0]), sample_weight=otherwise(weight), **options)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_reconstruction_draws_the_same_rows_and_places(rows, parts, maps):
    places = maps.transform(rows[0], on_far="keep") * [1.0, 1.1, 0.9]
    for options in ({"rows": 30}, {"degrees": "joint"}):
        wanted = quality.reconstruction_error(maps, rows[0], embedding=places, **options)
        found = quality.reconstruction_error(maps, parts(rows[0]), embedding=otherwise(places), **options)
        for name in ("error", "nystrom", "every", "norm", "rows"):
            assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-10)


@pytest.mark.parametrize("exact", [True, False])
def test_diffusion_distances_of_pairs_and_to_rows_in_memory(rows, parts, maps, exact):
    X = rows[0]
    pairs = np.random.default_rng(0).integers(-N, N, size=(40, 2))
    wanted = quality.diffusion_distance(maps, X, pairs=pairs, exact=exact)
    for others in (None, X, otherwise(X)):
        found = quality.diffusion_distance(maps, parts(X), others, pairs=pairs, exact=exact)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    with nothing_computed():
        lazy = quality.diffusion_distance(maps, parts(X), X[:9], exact=exact)
    assert lazy.shape == (N, 9)
    assert lazy.chunks[0] == parts(X).chunks[0]
    np.testing.assert_allclose(lazy.compute(), quality.diffusion_distance(maps, X, X[:9], exact=exact), atol=1e-12)


# -- selection -----------------------------------------------------------------------------


def test_residuals_and_slopes_of_few_rows_are_those_in_memory(rows, parts):
    X = rows[0]
    np.testing.assert_array_equal(selection.residuals(parts(X)), selection.residuals(X))
    found = selection.residuals(parts(X), rows=30, random_state=3)
    np.testing.assert_array_equal(found, selection.residuals(X, rows=30, random_state=3))
    assert selection.slope_dimension(parts(X)) == selection.slope_dimension(X)
    assert selection.likelihood_dimension(parts(X)) == selection.likelihood_dimension(X)


def test_the_slope_of_many_rows_is_read_off_a_draw_that_parts_do_not_change():
    X = np.random.default_rng(0).uniform(size=(6000, 2))
    found = {selection.slope_dimension(da.from_array(X, chunks=(size, 2))) for size in (6000, 700)}
    assert len(found) == 1
    assert found.pop() == pytest.approx(selection.slope_dimension(X), abs=0.1)


def test_a_selection_is_fitted_to_a_draw_and_applied_lazily():
    x = np.random.default_rng(0).uniform(size=(600, 2))
    X = np.cos(np.pi * np.column_stack([x[:, 0], 2 * x[:, 0], x[:, 1]]))
    spread = da.from_array(X, chunks=(77, 2))
    for options in ({}, {"rows": 300}):
        wanted, found = LocalLinearSelection(**options).fit(X), LocalLinearSelection(**options).fit(spread)
        np.testing.assert_array_equal(found.residuals_, wanted.residuals_)
    with nothing_computed():
        kept = found.transform(spread)
        back = found.inverse_transform(kept)
    np.testing.assert_array_equal(kept.compute(), X[:, [0, 2]])
    np.testing.assert_array_equal(back.compute(), X * [1, 0, 1])
    with pytest.raises(ValueError, match="2 columns, but the fit had 3"):
        found.transform(kept)
    with pytest.raises(ValueError, match="would bring every row here"):
        found.set_output(transform="pandas").transform(spread)


@pytest.mark.parametrize("method", [DiffusionMaps(), DiffusionMaps(landmarks=90), Roseland(landmarks=40)])
@pytest.mark.parametrize("refitted", [50, 5000])
def test_a_search_draws_the_same_rows(method, refitted, monkeypatch):
    monkeypatch.setattr(tuning, "REFITTED", refitted)
    X = s_curve(150, random_state=1)[0]
    options = {"alpha": 1.0, "epsilon": [0.1, 0.3], "rows": 70, "components": 4}
    wanted = selection.tune(X, method, **options)
    found = selection.tune(in_parts(X, (70, 1, 79)), method, **options)
    assert str(found) == str(wanted)


def test_a_draw_of_very_many_rows_lists_none_of_them(monkeypatch):
    monkeypatch.setattr(sources, "PERMUTED_UP_TO", 10)
    for seeded in (np.random.default_rng, np.random.RandomState):
        found = sources.draw_numbers(10**12, 1000, seeded(0))
        assert len(found) == 1000
        assert (np.diff(found) > 0).all()
        assert found[-1] < 10**12
        np.testing.assert_array_equal(found, sources.draw_numbers(10**12, 1000, seeded(0)))


# -- frames --------------------------------------------------------------------------------


def test_frames_whose_parts_have_sizes_that_are_not_known(rows, maps):
    frames = pytest.importorskip("dask.dataframe")
    X, embedding = rows
    spread = frames.from_dask_array(in_parts(X), columns=["a", "b", "c"])
    places = frames.from_dask_array(otherwise(embedding), columns=["u", "v"])
    assert np.isnan(spread.to_dask_array().shape[0])
    assert same_score(quality.trustworthiness(spread, places), quality.trustworthiness(X, embedding))
    assert same_score(quality.continuity(spread, places["u"]), quality.continuity(X, embedding[:, 0]))
    wanted = quality.subspace_angles(X, embedding, weights=X[:, 0] ** 2)
    np.testing.assert_allclose(quality.subspace_angles(spread, places, weights=spread["a"] ** 2), wanted, rtol=1e-12)
    wanted = quality.aligned_error(X[:, :2], embedding)
    assert quality.aligned_error(spread[["a", "b"]], places) == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_array_equal(selection.residuals(spread), selection.residuals(X))
    np.testing.assert_allclose(quality.kernel_loss(maps, spread, rows=30), quality.kernel_loss(maps, X, rows=30))
    lazy = quality.diffusion_distance(maps, spread, X[:4])
    np.testing.assert_allclose(lazy.compute(), quality.diffusion_distance(maps, X, X[:4]), atol=1e-12)
    found = LocalLinearSelection(2).fit(spread)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert list(found.transform(spread).columns) == found.get_feature_names_out().tolist()


def test_arrays_whose_parts_have_sizes_that_are_not_known(rows):
    X, embedding = rows
    spread = in_parts(X)
    kept = X[:, 0] > 0
    wanted = quality.trustworthiness(X[kept], embedding[kept])
    found = quality.trustworthiness(spread[spread[:, 0] > 0], otherwise(embedding)[otherwise(X)[:, 0] > 0])
    assert same_score(found, wanted)


# -- nothing gathers -----------------------------------------------------------------------


MANY = 60_000


def many():
    """Rows made where they are needed."""
    random = da.random.default_rng(0)
    X = random.uniform(size=(MANY, 3), chunks=(5000, 3))
    return X, (X[:, :2] + 0.1 * random.normal(size=(MANY, 2), chunks=(5000, 2))).rechunk((7000, 2))


GATHERLESS = {
    "aligned_error": lambda X, E, model: quality.aligned_error(X[:, :2], E),
    "aligned_mse": lambda X, E, model: quality.aligned_mse(
        X[:, :2], E, fit_rows=np.arange(99), weights=da.fabs(X[:, 2])
    ),
    "alignment": lambda X, E, model: alignment.Alignment.of(X[:, :2], E),
    "subspace_angles": lambda X, E, model: quality.subspace_angles(X, E),
    "trustworthiness": lambda X, E, model: quality.trustworthiness(X, E, rows=20, metric="mahalanobis"),
    "continuity": lambda X, E, model: quality.continuity(X, E, rows=20),
    "new rows": lambda X, E, model: quality.trustworthiness(X, E, new=(X[:50], E[:50]), rows=20),
    "distance_correlation": lambda X, E, model: quality.distance_correlation(X, E, rows=100),
    "kernel_loss": lambda X, E, model: quality.kernel_loss(model, X, rows=100),
    "reconstruction_error": lambda X, E, model: quality.reconstruction_error(model, X, rows=100),
    "diffusion_distance": lambda X, E, model: quality.diffusion_distance(model, X, pairs=[[3, 59_000], [7, 30_000]]),
    "lazy diffusion_distance": lambda X, E, model: quality.diffusion_distance(
        model, X, np.full((1, 3), 0.5), exact=True
    )[7:9].compute(),
    "lazy alignment": lambda X, E, model: alignment.Alignment.of(X[:9, :2], E[:9])(E)[7:9].compute(),
    "residuals": lambda X, E, model: selection.residuals(E, rows=200),
    "slope_dimension": lambda X, E, model: selection.slope_dimension(X),
    "likelihood_dimension": lambda X, E, model: selection.likelihood_dimension(X),
    "selection": lambda X, E, model: LocalLinearSelection(1, rows=200).fit(E).transform(E),
    "tune": lambda X, E, model: selection.tune(X, epsilon=[0.1, 0.2], alpha=1.0, rows=100, components=3),
}


@pytest.fixture(scope="module")
def cube():
    return DiffusionMaps(2).fit(np.random.default_rng(0).uniform(size=(100, 3)))


@pytest.mark.parametrize("what", GATHERLESS)
def test_what_comes_here_is_smaller_than_one_column(what, cube):
    with dask.config.set(scheduler=(watch := Watch())):
        GATHERLESS[what](*many(), cube)
    assert watch.bytes < 8 * MANY / 4


def test_the_watch_sees_what_gathers():
    with dask.config.set(scheduler=(watch := Watch())):
        np.asarray(many()[0][:, 0])
    assert watch.bytes > 8 * MANY


# -- refusals ------------------------------------------------------------------------------


def test_what_would_bring_too_much_is_refused_before_anything_is_computed(cube):
    X, E = many()
    with nothing_computed():
        for refused, told in [
            (lambda: quality.trustworthiness(X, E, rows=40_000), "40000 rows of the Dask array .* more than 32768"),
            (lambda: quality.distance_correlation(X, E, rows=None, method="szekely"), "60000 rows .* rows=32768"),
            (lambda: quality.kernel_loss(cube, X, rows=None), "60000 rows .* rows=32768"),
            (lambda: quality.reconstruction_error(cube, X, rows=50, degrees="joint"), "between all 60000 rows"),
            (lambda: quality.diffusion_distance(cube, X), "Pass pairs="),
            (lambda: quality.diffusion_distance(cube, np.zeros((5, 3)), X), "Pass pairs="),
            (lambda: quality.induction_versus_perturbation(cube, X), "Draw as many as can be fitted"),
            (lambda: quality.aligned_mse(E, E, fit_rows=X[:, 0] > 0.5), "fit_rows must be here"),
            (lambda: quality.aligned_mse(E, E, fit_rows=[]), "names 0 of 60000 rows"),
            (lambda: quality.aligned_error(E, X), "have the same shape"),
            (lambda: quality.subspace_angles(E, X[:7]), "A has 60000 rows and B has 7"),
            (lambda: quality.trustworthiness(X, E[:9]), "X has 60000 rows, but embedding has 9"),
            (lambda: quality.trustworthiness(X, E, n_neighbors=30_000), "less than half the 60000 rows"),
            (lambda: quality.kernel_loss(cube, E), "X has 2 features"),
            (lambda: quality.diffusion_distance(cube, E, np.zeros((1, 3))), "X has 2 features"),
            (lambda: quality.diffusion_distance(cube, X, pairs=[[0, 60_000]]), "to 60000, of 60000 rows"),
            (lambda: selection.residuals(X, rows=40_000), "40000 rows .* rows=32768"),
            (lambda: selection.tune(X, rows=40_000), "40000 rows .* rows=32768"),
        ]:
            with pytest.raises((ValueError, IndexError), match=told):
                refused()


def test_bad_rows_are_named(rows):
    X = rows[0].copy()
    X[37, 1] = np.nan
    for call in (quality.trustworthiness, quality.subspace_angles):
        with pytest.raises(ValueError, match="the first is row 37"):
            call(in_parts(X), in_parts(rows[1]))
    huge = rows[0].copy()
    huge[5] = 1e200
    with pytest.raises(ValueError, match=r"reach 1\.0e\+200"):
        quality.continuity(in_parts(huge), in_parts(rows[1]), rows=4)


def test_weights_that_are_none_are_refused(rows):
    moving, fixed = in_parts(moved(rows[1])), in_parts(rows[1])
    late = np.r_[np.zeros(30), np.ones(30)]
    with pytest.raises(ValueError, match="fitted to weigh nothing"):
        quality.aligned_mse(moving, fixed, fit_rows=np.arange(9), weights=late)
    with pytest.raises(ZeroDivisionError, match="no mean over them"):
        quality.aligned_mse(moving, fixed, fit_rows=np.arange(30, 60), weights=late)
    with pytest.raises(ValueError, match="30 of 60 are negative, the first that of row 30"):
        quality.subspace_angles(moving, fixed, weights=-late)
    with pytest.raises(ValueError, match="finite and >= 0"):
        quality.subspace_angles(moving, fixed, weights=otherwise(-late))
