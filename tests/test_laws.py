"""The contract, held for every method in the catalogue."""

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from catalogue import ALL_METHODS, APPROXIMATE, NETWORKS, cloud, clouds, new_points, quietly, tolerance
from outfold import PHATE, Isomap, LocallyLinearEmbedding
from outfold.exceptions import FarPointsError, FarPointsWarning, OutfoldWarning

methods = pytest.mark.parametrize("estimator", ALL_METHODS.values(), ids=ALL_METHODS.keys())
everyone = pytest.mark.parametrize(
    "estimator", [*ALL_METHODS.values(), *NETWORKS.values()], ids=[*ALL_METHODS.keys(), *NETWORKS.keys()]
)


NOT_FOR_THIS_CLOUD = (  # errors that odd clouds deserve
    "too few to embed",  # the largest component of a cloud of copies
    "beyond the rank",  # a line has one principal component
    "kernel overflows",  # a cubic kernel of huge data
    "number of distinct points",  # fewer than LLE or PHATE has neighbours
)


def fitted(estimator, X):
    """A fitted clone and its training embedding."""
    model = clone(estimator)
    try:
        return model, quietly(model.fit_transform, X)
    except ValueError as error:
        if any(text in str(error) for text in NOT_FOR_THIS_CLOUD):
            reject()
        raise


@everyone
@given(X=clouds, seed=st.integers(0, 1000))
def test_transform_of_any_part_of_the_training_set_equals_fit_transform(estimator, X, seed):
    model, embedding = fitted(estimator, X)
    rng = np.random.default_rng(seed)
    part = rng.permutation(len(X))[: rng.integers(1, len(X))]
    mixed = np.vstack([X[part], new_points(X, seed)])
    order = rng.permutation(len(mixed))
    result = np.empty((len(mixed), embedding.shape[1]))
    result[order] = quietly(model.transform, mixed[order])
    np.testing.assert_allclose(result[: len(part)], embedding[part], rtol=0, atol=tolerance(model, embedding))


@everyone
@given(X=clouds)
def test_the_extension_passes_through_the_spectral_embedding(estimator, X):
    model, embedding = fitted(estimator, X)
    chosen = getattr(model, "landmark_indices_", None)
    anchors = slice(None) if chosen is None else chosen
    worst = np.abs(embedding - model.embedding_)[anchors].max()
    if any(estimator is other for other in (APPROXIMATE | NETWORKS).values()):  # or says how far it is from it
        np.testing.assert_allclose(model.report_.extension_gap, worst, rtol=1e-6, atol=tolerance(model, embedding))
        return
    assert worst <= tolerance(model, embedding)
    assert model.report_.extension_gap <= tolerance(model, embedding)


@everyone
@given(X=clouds, seed=st.integers(0, 1000))
def test_a_row_does_not_depend_on_its_batch(estimator, X, seed):
    model, embedding = fitted(estimator, X)
    Z = np.vstack([new_points(X, seed, 9), X[:3]])
    together = quietly(model.transform, Z)
    alone = np.vstack([quietly(model.transform, Z[i : i + 1]) for i in range(len(Z))])
    size = np.abs(embedding).max() * max(1.0, model.report_.amplification * 1e-3)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12 * max(1.0, size))


@everyone
@given(X=clouds, seed=st.integers(0, 1000))
def test_a_far_row_is_finite_flagged_and_alone_in_it(estimator, X, seed):
    model, embedding = fitted(estimator, X)
    Z = new_points(X, seed, 20)
    spread = np.abs(X - X.mean(axis=0)).max()
    far = np.vstack([Z, X.mean(axis=0) + 1e6 * spread])
    result, trust = quietly(model.transform, far), model.trust(far)
    assert np.isfinite(result).all()
    assert trust.flag[-1]
    assert not np.isnan(trust.support).any()
    size = max(1.0, np.abs(embedding).max() * max(1.0, model.report_.amplification * 1e-3))
    np.testing.assert_allclose(result[:-1], quietly(model.transform, Z), rtol=0, atol=1e-12 * size)


@everyone
def test_one_far_row_in_a_batch_of_a_thousand(estimator):
    X = cloud(0, rows=150)
    model, _ = fitted(estimator, X)
    near = X[np.random.default_rng(0).integers(0, len(X), 999)]
    with pytest.warns(FarPointsWarning, match="1 of 1000 rows") as told:
        batch = model.transform(np.vstack([near, np.full(3, 1e6)]))
    assert told[0].filename == __file__  # where transform was called
    assert np.isfinite(batch).all()
    np.testing.assert_allclose(batch[:-1], model.transform(near), rtol=0, atol=1e-12)
    assert model.trust(np.vstack([near, np.full(3, 1e6)])).flag.sum() == 1
    beyond = quietly(model.transform, np.full((1, 3), 1e200))  # squares overflow; the nearest anchor is the limit
    assert np.isfinite(beyond).all()


@methods
def test_on_far_chooses_what_happens(estimator):
    X = cloud(1, rows=60)
    model, _ = fitted(estimator, X)
    Z = np.vstack([X[:4], np.full(3, 1e3)])
    inside = model.transform(X[:4])
    with pytest.raises(FarPointsError, match="1 of 5 rows"):
        model.transform(Z, on_far="raise")
    nan = model.transform(Z, on_far="nan")
    assert np.isnan(nan[4]).all()
    np.testing.assert_allclose(nan[:4], inside, atol=1e-12)
    anchors = model.landmarks_
    closest = anchors[((anchors - Z[4]) ** 2).sum(axis=1).argmin()]
    nearest = model.transform(Z, on_far="nearest")
    np.testing.assert_allclose(
        nearest[4], model.transform([closest])[0], atol=tolerance(model, inside) + model.report_.extension_gap
    )
    with pytest.raises(ValueError, match="'warn', 'nan', 'raise', 'nearest'"):
        model.transform(Z, on_far="drop")


@methods
@given(X=clouds)
def test_the_spectrum_is_honest(estimator, X):
    model, _ = fitted(estimator, X)
    report = model.report_
    assert report.residual < 1e-2 or any("residual" in text for text in report.warnings)  # small, or told
    assert report.components == len(report.component_sizes) or report.components > 20
    assert report.multiplicity >= report.components
    assert sum(report.component_sizes) == report.n_anchors or report.components > 20
    assert len(model.eigenvalues_) == report.n_components == model.embedding_.shape[1]
    assert report.method in str(report)
    assert str(report.n_samples) in str(report)


@methods
def test_the_same_call_gives_the_same_bits(estimator):
    X = cloud(2, rows=100)
    first, one = fitted(estimator, X)
    again, two = fitted(estimator, X)
    assert np.array_equal(one, two)
    assert np.array_equal(first.eigenvalues_, again.eigenvalues_)
    narrow = clone(estimator).set_params(n_jobs=1)
    np.testing.assert_allclose(quietly(narrow.fit_transform, X), one, rtol=0, atol=1e-11)


@methods
def test_the_order_of_the_rows_does_not_matter(estimator):
    if getattr(estimator, "landmarks", None) is not None:
        pytest.skip("which rows become landmarks depends on their order")
    X = cloud(3, rows=100)
    order = np.random.default_rng(0).permutation(len(X))
    model, embedding = fitted(estimator, X)
    shuffled, permuted = fitted(estimator, X[order])
    np.testing.assert_allclose(shuffled.eigenvalues_, model.eigenvalues_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(permuted, embedding[order], rtol=0, atol=1e-9)  # signs included


@everyone
def test_float32_is_kept(estimator):
    X = cloud(4, rows=60)
    model, wide = fitted(estimator, X)
    narrow, embedding = fitted(estimator, X.astype(np.float32))
    assert embedding.dtype == narrow.embedding_.dtype == np.float32
    np.testing.assert_allclose(embedding, wide, atol=1e-4 * max(1, np.abs(wide).max()) * model.report_.amplification)
    part = quietly(narrow.transform, X[:5].astype(np.float32))
    np.testing.assert_allclose(part, embedding[:5], atol=tolerance(narrow, embedding))


@everyone
def test_inputs_are_not_touched_and_layout_does_not_matter(estimator):
    X = cloud(5, rows=50)
    model, embedding = fitted(estimator, X)
    before = X.copy()
    assert np.array_equal(quietly(clone(estimator).fit_transform, np.asfortranarray(X)), embedding)
    strided = np.repeat(X, 2, axis=0)[::2]
    assert np.array_equal(quietly(model.transform, strided), quietly(model.transform, X))
    assert np.array_equal(X, before)


@everyone
def test_a_failed_fit_loses_nothing(estimator):
    X = cloud(6, rows=50)
    model, _ = fitted(estimator, X)
    before = model.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 2), np.nan))
    with pytest.raises(ValueError, match="equal"):
        model.fit(np.ones((30, 4)))
    assert np.array_equal(model.transform(X), before)


@everyone
def test_pandas_and_polars_in_and_out(estimator):
    import pandas as pd
    import polars as pl

    X = cloud(7, rows=50)
    embedding = quietly(clone(estimator).fit_transform, X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(50) + 100)
    for table, output in ((frame, "pandas"), (pl.DataFrame(frame.to_dict("list")), "polars")):
        model = clone(estimator).set_output(transform=output)
        result = quietly(model.fit_transform, table)
        assert list(result.columns) == list(model.get_feature_names_out())
        assert np.array_equal(result.to_numpy(), embedding)
        with pytest.raises(ValueError, match="feature names"):
            model.transform(table[["b", "a", "c"]])
        if output == "pandas":
            assert list(result.index) == list(frame.index)


@methods
def test_pipelines_clone_and_grid_search(estimator):
    from sklearn.neighbors import KNeighborsRegressor

    X = cloud(8, rows=60)
    y = X[:, 0]
    pipe = make_pipeline(StandardScaler(), clone(estimator), KNeighborsRegressor(3))
    step = pipe.steps[1][0]
    search = quietly(GridSearchCV(pipe, {f"{step}__solver": ["auto", "dense"]}, cv=3, error_score="raise").fit, X, y)
    assert search.best_params_[f"{step}__solver"] in ("auto", "dense")
    assert np.isfinite(quietly(search.predict, X[:5])).all()


EXTRA_CHECKS = (
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_dataframe_column_names_consistency",
)


@everyone
@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # k-means on fewer points than clusters
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")  # checks mix arrays and frames
def test_scikit_learn_agrees(estimator):
    excused = {}
    four_points = "four distinct points: a graph of so few has less than two components, or LLE too few neighbours"
    graph_of_points = isinstance(estimator, Isomap | LocallyLinearEmbedding | PHATE)
    if (
        graph_of_points
        or getattr(estimator, "components", "") == "largest"
        or getattr(estimator, "epsilon", 0) == np.inf
    ):
        excused = {c: four_points for c in ("check_sample_weights_shape", "check_sample_weights_not_overwritten")}
    if getattr(estimator, "landmarks", None) is not None:
        excused["check_sample_weight_equivalence_on_dense_data"] = "which rows become landmarks depends on their number"
    results = estimator_checks.check_estimator(clone(estimator), on_fail=None, expected_failed_checks=excused)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) >= 45
    for name in EXTRA_CHECKS:
        getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@everyone
def test_every_parameter_is_documented(estimator):
    for name in estimator.get_params(deep=False):
        assert name in type(estimator).__doc__, f"{name} is not in the docstring of {type(estimator).__name__}"


def test_our_warnings_can_be_filtered_by_kind():
    assert issubclass(FarPointsWarning, OutfoldWarning)
    assert issubclass(OutfoldWarning, UserWarning)
