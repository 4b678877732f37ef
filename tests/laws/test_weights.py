"""Weights are numbers of copies: whole ones equal repeated rows, fractions lie in between, 0 is absence."""

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils import estimator_checks

import outfold
from catalogue import ALL_METHODS, cloud, quietly, size_of, smallest
from outfold import (
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    graphs,
    landmarks,
)

methods = pytest.mark.parametrize("estimator", ALL_METHODS.values(), ids=ALL_METHODS.keys())
seeds = st.integers(0, 2**32 - 1)


def fitted(estimator, X, weights=None):
    try:
        return quietly(clone(estimator).fit, X, sample_weight=weights)
    except ValueError as error:
        if "distinct points" in str(error) or "beyond the rank" in str(error) or "too few to embed" in str(error):
            reject()
        raise


def same(one, two, Z, loose=1.0):
    """Whether two models have the same eigenvalues and embed Z alike, to rounding."""
    size = max(1.0, float(np.abs(one.eigenvalues_).max()))
    np.testing.assert_allclose(two.eigenvalues_, one.eigenvalues_, rtol=0, atol=1e-10 * size * loose)
    wanted = one.transform(Z, on_far="nearest")
    allowed = max(1e-8, 1e-13 / smallest(one)) * size_of(wanted) * loose
    np.testing.assert_allclose(two.transform(Z, on_far="nearest"), wanted, rtol=0, atol=allowed)


@methods
@given(seed=seeds, kind=st.sampled_from(["plain", "duplicates"]))
def test_whole_weights_equal_repeated_rows_in_any_order(estimator, seed, kind):
    rng = np.random.default_rng(seed)
    X, weights = cloud(seed, kind, rows=44), rng.integers(0, 4, 44)
    repeated = rng.permutation(np.repeat(X, weights, axis=0))
    same(fitted(estimator, X, weights), fitted(estimator, repeated), X)


@methods
@given(seed=seeds)
def test_a_weight_of_zero_is_absence(estimator, seed):
    rng = np.random.default_rng(seed)
    X, weights = cloud(seed, rows=44), rng.uniform(0.6, 2, 44)
    weights[rng.permutation(44)[:12]] = 0
    there = weights > 0
    same(fitted(estimator, X, weights), fitted(estimator, X[there], weights[there]), X)


@methods
@given(seed=seeds)
def test_weights_that_differ_by_little_give_answers_that_do(estimator, seed):
    rng = np.random.default_rng(seed)
    X, weights = cloud(seed, rows=44), rng.uniform(0.6, 2, 44)
    same(fitted(estimator, X, weights), fitted(estimator, X, weights + 1e-11 * rng.uniform(size=44)), X, loose=100.0)


@methods
def test_a_thousand_and_a_half_lies_between_its_neighbours(estimator):
    X = cloud(5, rows=44)
    models = [fitted(estimator, X, np.full(44, weight)) for weight in (1000, 1000.5, 1001)]
    low, middle, high = (model.eigenvalues_ for model in models)
    slack = 1e-11 * size_of(middle)
    assert (np.minimum(low, high) - slack <= middle).all()
    assert (middle <= np.maximum(low, high) + slack).all()


ON_EVERY_ROW = {name: one for name, one in ALL_METHODS.items() if getattr(one, "landmarks", None) is None}


@pytest.mark.parametrize("estimator", ON_EVERY_ROW.values(), ids=ON_EVERY_ROW.keys())
@pytest.mark.parametrize("rows", [40, 64])  # at a whole multiple of 8 the rules for epsilon count one more
def test_weights_a_little_below_one_give_nearly_the_answers_of_no_weights(estimator, rows):
    rng = np.random.default_rng(rows)
    X = cloud(rows, rows=rows)
    same(fitted(estimator, X), fitted(estimator, X, 1 - 1e-11 * rng.uniform(size=rows)), X, loose=100.0)


GRAPHS = {
    "nearest": DiffusionMaps(3),
    "8 nearest": DiffusionMaps(3, n_neighbors=8),
    "variable": DiffusionMaps(3, kernel="variable", t=0),
    "all pairs": DiffusionMaps(3, kernel="gaussian"),
    "median": DiffusionMaps(3, epsilon="median"),
    "union": DiffusionMaps(3, kernel="gaussian", n_neighbors=8),
    "mutual": DiffusionMaps(3, n_neighbors=graphs.Mutual(12)),
    "ball": DiffusionMaps(3, n_neighbors=graphs.Ball("auto")),
    "self-tuning": DiffusionMaps(3, kernel="self_tuning"),
    "binary": LaplacianEigenmaps(3, n_neighbors=8, epsilon=np.inf),
    "continuous k-nn": LaplacianEigenmaps(3, kernel="continuous_knn"),
}


@pytest.mark.parametrize("estimator", GRAPHS.values(), ids=GRAPHS.keys())
@given(seed=seeds)
def test_a_row_of_vanishing_weight_vanishes(estimator, seed):
    """Not so for paths (Isomap), which run through it, and reconstructions (LLE), which use it, at any weight."""
    X, weights = cloud(seed, rows=44), np.ones(44)
    weights[0] = 1e-10
    gone, nearly = fitted(estimator, X[1:]), fitted(estimator, X, weights)
    if nearly.report_.components > gone.report_.components:  # by itself, a row is a component of any weight
        reject()
    np.testing.assert_allclose(nearly.eigenvalues_, gone.eigenvalues_, rtol=0, atol=1e-7)


@pytest.mark.parametrize("estimator", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("weight", [1, 3, 1000, 1000.5, 1e6])
def test_heavy_rows_and_copies_do_not_fill_neighbourhoods(estimator, weight):
    """Uniform weights of 1 or more change nothing, and neither do as many copies."""
    X = cloud(6, rows=80)
    plain, heavy = fitted(estimator, X), fitted(estimator, X, np.full(80, weight))
    assert heavy.report_.components == plain.report_.components
    if estimator.epsilon != "median":  # a quantile of pairs: m copies have m^2 n (n - 1) / 2 of them
        same(plain, heavy, X)
    if weight == 3:
        same(heavy, fitted(estimator, np.repeat(X, 3, axis=0)), X)


@given(seed=seeds, some=st.integers(1, 8))
def test_uniform_weights_below_one_count_as_their_fraction(seed, some):
    """k neighbours of weight 1/2 are 2k rows: the radius is the mean of the squared distances that share rank k."""
    X, k, weight = cloud(seed, rows=60), 6, 1 / some
    model = quietly(
        DiffusionMaps(2, n_neighbors=graphs.Union(k), epsilon=1.0).fit, X, sample_weight=np.full(60, weight)
    )
    graph = model.model_.rule.geometry
    squared = np.sort(np.square(graph.anchors[:, None] - graph.anchors).sum(axis=2), axis=1)
    inner, outer = (np.sqrt(squared[:, (at - 1) * some : at * some].mean(axis=1)) for at in (k, k + 1))
    np.testing.assert_allclose(np.sqrt(graph.radii), (inner + outer) / 2, rtol=1e-12)


# -- weights of any size ---------------------------------------------------------------------

DEFAULTS = {str(one): one for one in (LocallyLinearEmbedding(2), Isomap(2), Roseland(2, random_state=0), KernelPCA(2))}
DEFAULTS |= {
    str(one): one for one in (KernelPCA(2, kernel="rbf", gamma="auto"), ClassicalMDS(2), PHATE(2, random_state=0))
}
DEFAULTS |= {str(one): one for one in (LaplacianEigenmaps(2), LaplacianEigenmaps(2, laplacian="unnormalized"))}
DEFAULTS |= GRAPHS


@methods
@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e300])
def test_weights_that_are_no_numbers_of_copies_are_refused(estimator, scale):
    X = cloud(2, rows=44)
    with pytest.raises(ValueError, match=r"largest sample_weight is .*normalize_weights"):
        fitted(estimator, X, np.full(44, scale))


@methods
@pytest.mark.parametrize("low", [-13, -40, -300])
def test_negligible_weights_are_zero_weights(estimator, low):
    """Rows that weigh less than rounding of the largest are left out, and the report says so."""
    seed, rng = 4, np.random.default_rng(-low)
    X, weights = cloud(seed, rows=44), rng.uniform(0.6, 1.0, 44)
    some = rng.permutation(44)[:12]
    weights[some] = 10 ** rng.uniform(low, -12.1, 12) * weights.max()
    without = weights.copy()
    without[some] = 0
    light = fitted(estimator, X, weights)
    same(light, fitted(estimator, X, without), X)
    assert any("12 of 44 sample weights are above 0 but below 1e-12" in text for text in light.report_.warnings)


@pytest.mark.parametrize("estimator", DEFAULTS.values(), ids=DEFAULTS.keys())
@given(seed=seeds, span=st.floats(0, 300), top=st.floats(-9, 15))
def test_weights_over_any_range_give_numbers_or_a_sentence(estimator, seed, span, top):
    """With weights over 12 decades or fewer, a row is where the transform sees it: v / sqrt(m) has this rounding."""
    rng = np.random.default_rng(seed)
    X, weights = cloud(seed, rows=44), 10 ** (rng.uniform(-span, 0, 44))
    weights *= 10**top / weights.max()
    try:
        model = quietly(clone(estimator).fit, X, sample_weight=weights)
    except ValueError as error:  # few rows are left, or the weights add up to few neighbours
        if not any(word in str(error) for word in ("weight", "neighbo", "rank", "points", "coordinates", "landmark")):
            raise
        return
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.eigenvalues_).all()
    new = quietly(model.transform, 0.9 * X[:5], on_far="keep")
    assert np.isfinite(new).all()
    missed = any("transform misses the embedding" in text for text in model.report_.warnings)
    assert missed or model.report_.extension_gap <= 0.5 * np.abs(model.embedding_).max()


@methods
def test_one_row_with_all_the_mass_is_named(estimator):
    X, weights = cloud(2, rows=44), np.full(44, 1e-9)
    weights[7] = 1e10
    with pytest.raises(ValueError, match="One row has a sample_weight of 1e.10, .* Lower the weight of row 7"):
        fitted(estimator, X, weights)


def test_normalized_weights_of_any_scale():
    weights = np.array([1e300, 2e300, 0, 3e300])
    np.testing.assert_allclose(outfold.data.normalize_weights(weights), [0.5, 1, 0, 1.5])
    np.testing.assert_allclose(outfold.data.normalize_weights([1e-320, 3e-320]), [0.5, 1.5], rtol=1e-3)


SPECTRAL = ("DiffusionMaps", "LaplacianEigenmaps", "Roseland", "KernelPCA", "ClassicalMDS", "Isomap")
SPECTRAL += ("LocallyLinearEmbedding", "SpectralClustering", "PHATE", "DiffusionNet")


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # k-means on fewer points than clusters
def test_scikit_learn_finds_weights_equal_to_repeats_in_default_estimators(name):
    for check in (
        estimator_checks.check_sample_weight_equivalence_on_dense_data,
        estimator_checks.check_sample_weights_shape,
        estimator_checks.check_sample_weights_not_overwritten,
        estimator_checks.check_sample_weights_list,
    ):
        check(name, getattr(outfold, name)())


@pytest.mark.parametrize("estimator", [Isomap, LocallyLinearEmbedding, outfold.PHATE])
def test_the_default_number_of_neighbours_fits_few_rows_and_a_number_too_large_is_refused(estimator):
    X = cloud(0, rows=5)
    few = quietly(estimator(1).fit, X)
    explicit = quietly(estimator(1, n_neighbors=4).fit, X)
    np.testing.assert_array_equal(few.embedding_, explicit.embedding_)
    with pytest.raises(ValueError, match="n_neighbors=20 must be smaller than"):
        estimator(1, n_neighbors=20).fit(cloud(0, rows=20))
    usual = 5 if estimator is outfold.PHATE else 10
    many = [quietly(estimator(1, n_neighbors=k).fit, cloud(1)).embedding_ for k in ("auto", usual)]
    np.testing.assert_array_equal(*many)


@pytest.mark.parametrize("count", [landmarks.Random(20), landmarks.Random(0.5), landmarks.Enough(), 20], ids=str)
def test_landmarks_of_weighted_rows_are_those_of_repeated_rows(count):
    rng = np.random.default_rng(0)
    X, weights = cloud(0, "duplicates", rows=60), rng.integers(0, 5, 60)
    weighted, repeated = (
        quietly(Roseland(landmarks=count, random_state=3).fit, points, sample_weight=w)
        for points, w in ((X, weights), (rng.permutation(np.repeat(X, weights, axis=0)), None))
    )
    one, two = (np.unique(model.landmarks_, axis=0) for model in (weighted, repeated))
    np.testing.assert_array_equal(one, two)
    assert len(one) == len(weighted.landmarks_)  # no copies among them
