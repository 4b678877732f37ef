"""What fits say about themselves."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from catalogue import cloud, quietly
from outfold import (
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
)
from outfold.datasets import s_curve, sphere
from outfold.exceptions import SpectrumWarning
from outfold.operators.concerns import Concern, FeatureScales, Importance, measure_linearity, most_important

METHODS = (DiffusionMaps, LaplacianEigenmaps, Roseland, Isomap, LocallyLinearEmbedding, KernelPCA, ClassicalMDS, PHATE)


def warned(model, X):
    return quietly(model.fit, X).report_.warnings


def scale_warnings(model, X):
    return [text for text in warned(model, X) if "outweigh" in text]


# -- at most three, the most important first -----------------------------------------------


def test_three_are_kept_the_most_important_first_and_none_twice():
    given = [Concern(Importance.ROUNDING, "d"), Concern(Importance.PIECES, "a"), Concern(Importance.WIDTH, "c")]
    given += [Concern(Importance.FEW_ROWS, "b"), Concern(Importance.PIECES, "a")]
    assert most_important(given) == ("a", "b", "c")
    assert most_important([]) == ()


def test_a_fit_says_at_most_three_things():
    """Pieces, an unscaled column, a kernel that is too narrow, a cut, and rounding."""
    X = np.vstack([cloud(0, rows=60), cloud(1, rows=60) + 40]) * [1, 1, 1000]
    found = warned(DiffusionMaps(6, epsilon=1e-3, n_neighbors=3, t=0), X)
    assert len(found) == 3
    assert "components" in found[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "data", [load_digits().data, load_iris().data, s_curve(800, random_state=0)[0], sphere(800, random_state=0)]
)
def test_good_data_has_one_warning_at_most(method, data):
    assert len(warned(method(2), data)) <= 1


# -- scales --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_feature_that_outweighs_the_others_is_named(method):
    table = load_wine(as_frame=True).data
    (text,) = scale_warnings(method(2), table)
    low, high = table.std(ddof=0).idxmin(), table.std(ddof=0).idxmax()
    assert f"{table[low].std(ddof=0):.2g} ({low!r}) to {table[high].std(ddof=0):.3g} ({high!r})" in text
    assert "StandardScaler" in text
    (text,) = scale_warnings(method(2), table.to_numpy())
    assert "(X[:, 12])" in text
    assert not scale_warnings(method(2), StandardScaler().fit_transform(table))


def test_columns_of_files_keep_their_names_in_warnings(tmp_path):
    table = load_wine(as_frame=True).data
    table.to_parquet(tmp_path / "wine.parquet")
    for landmarks in (None, 100):
        (text,) = scale_warnings(DiffusionMaps(2, landmarks=landmarks, random_state=0), tmp_path / "wine.parquet")
        assert "'proline'" in text


def test_weights_are_repeats_and_constant_features_do_not_count():
    points = np.column_stack([np.arange(4.0), 200.0 * np.array([0, 1, 0, 0]), np.full(4, 7.0)])
    weights = np.array([1.0, 2, 3, 1])
    scales = FeatureScales.of(points, weights, ["a", "b", "c"])
    repeated = np.repeat(points, weights.astype(int), axis=0)
    np.testing.assert_allclose(scales.spread, repeated.std(axis=0)[:2])
    assert scales.names == ["'a'", "'b'"]


def test_a_ratio_of_fifty_is_the_limit_and_rare_pixels_are_no_concern():
    axis = np.array([[-1.0], [1.0]])
    for ratio, count in ((49, 0), (51, 1)):
        assert len(FeatureScales.of(axis * [1, ratio, 1], np.ones(2), None).concerns()) == count
    assert FeatureScales.of(axis * [1, 1, 1000, 1000], np.ones(2), None).concerns()  # half of them do not count
    images = axis * np.append(np.full(40, 1.0), np.full(24, 1e-3))  # 40 of 64 features matter
    assert FeatureScales.of(images, np.ones(2), None).concerns() == []


def test_metrics_that_rescale_features_and_given_distances_are_silent():
    X = cloud(0, rows=120) * [1, 1, 1000]
    assert scale_warnings(DiffusionMaps(2), X)
    for metric in ("seuclidean", "cosine", "mahalanobis"):
        assert not scale_warnings(DiffusionMaps(2, metric=metric), X)
    assert not scale_warnings(DiffusionMaps(2, metric="precomputed"), np.abs(X[:, :1] - X[:, :1].T))
    assert not scale_warnings(KernelPCA(2, kernel="cosine"), X)
    assert scale_warnings(KernelPCA(2, kernel="rbf"), X)


def test_the_report_says_that_features_were_used_as_given():
    report = DiffusionMaps(2).fit(pd.DataFrame(cloud(0, rows=100), columns=list("abc"))).report_
    assert report.features.startswith("as given; standard deviations")
    assert report.features in str(report)
    assert DiffusionMaps(2, kernel="precomputed").fit(np.ones((9, 9)) + np.eye(9)).report_.features == ""


# -- outliers ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_five_rows_that_carry_a_coordinate_are_seen_in_the_embedding(method):
    """Against the definition, on the training rows."""
    rng = np.random.default_rng(0)
    for X in ((rng.uniform(size=(400, 30)) < 0.1).astype(float), rng.normal(size=(400, 3))):
        model = quietly(
            method(2).set_params(**({"random_state": 0} if "random_state" in method().get_params() else {})).fit, X
        )
        _, first = np.unique(X, axis=0, return_index=True)
        held = np.square(model.embedding_[first] - model.embedding_[first].mean(axis=0))
        share = (np.sort(held, axis=0)[-5:].sum(axis=0) / held.sum(axis=0)).max()
        if not 0.4 < share < 0.6:
            assert any("shows outliers" in text for text in model.report_.warnings) == (share > 0.5)


# -- widths --------------------------------------------------------------------------------


def linear_part(model, X):
    return LinearRegression().fit(X, model.embedding_).score(X, model.embedding_)


def test_a_kernel_that_spans_the_data_is_said_to_give_a_linear_map():
    digits = load_digits().data
    wide = quietly(DiffusionMaps(2, kernel="gaussian").fit, digits)
    assert linear_part(wide, digits) > 0.98  # so the sentence is true
    assert any("linear in the features, as in PCA" in text and "'adaptive'" in text for text in wide.report_.warnings)
    local = DiffusionMaps(2).fit(digits)
    assert linear_part(local, digits) < 0.9
    assert local.report_.warnings == ()


def test_the_linear_share_is_that_of_a_regression():
    X = cloud(0, rows=200, features=4)
    bent = np.column_stack([X[:, 0] - X[:, 1], np.square(X[:, 2])])
    expected = [LinearRegression().fit(X, column).score(X, column) for column in bent.T]
    assert expected[0] == pytest.approx(1)
    assert measure_linearity(X, bent) == pytest.approx(expected[1])
    wide = np.hstack([X, 1e-3 * np.random.default_rng(0).normal(size=(200, 300))])
    assert measure_linearity(wide, np.random.default_rng(1).normal(size=(200, 2))) < 0.2  # 304 features explain all
    assert measure_linearity(wide, bent[:, :1]) > 0.99


def test_later_coordinates_of_a_circle_have_small_eigenvalues_and_are_not_linear():
    """Second harmonics: lambda = exp(-2 epsilon) = 0.45, and cos 2t is no linear function of cos t and sin t."""
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    maps = DiffusionMaps([3, 4], epsilon=0.4).fit(X)
    assert maps.eigenvalues_[0] < 0.5
    assert maps.report_.warnings == ()


@pytest.mark.parametrize("epsilon", [1e-3, 300.0])
def test_an_epsilon_in_units_of_the_data_for_a_kernel_in_local_units(epsilon):
    X = s_curve(300, random_state=0)[0]
    found = warned(DiffusionMaps(2, kernel="adaptive", epsilon=epsilon), X)
    assert any("far from every local scale" in text and "kernel='gaussian'" in text for text in found)
    assert warned(DiffusionMaps(2, kernel="adaptive", epsilon=2.0), X) == ()


def test_rows_without_neighbours_are_counted():
    X = np.vstack([cloud(0, rows=80), [[50.0, 0, 0], [0, 60, 0]]])
    with pytest.warns(SpectrumWarning, match=r"3 components \(sizes 80, 1, 1\); 2 rows have no neighbour in reach"):
        DiffusionMaps(2, epsilon=1.0).fit(X)


# -- landmarks -----------------------------------------------------------------------------


def test_dropped_landmarks_are_counted():
    X = s_curve(300, random_state=0)[0]
    given = np.vstack([X[::3], X[:60] + 100])
    with pytest.warns(SpectrumWarning, match="60 of 160 landmarks were dropped.*choose landmarks among the rows"):
        model = Roseland(2, landmarks=given).fit(X)
    assert len(model.landmarks_) == 100
    assert Roseland(2, landmarks=X[::3]).fit(X).report_.warnings == ()


# -- the local scale -----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-5, 1e4])
@pytest.mark.parametrize("method", [DiffusionMaps, Roseland])
def test_an_epsilon_far_from_every_local_scale_names_the_scale(method, epsilon):
    """That of the tenth neighbour, by the sorted distances of all rows."""
    X = s_curve(100, random_state=0)[0]
    squared = np.sort(np.square(X[:, None] - X).sum(axis=2), axis=1)[:, 10]
    given = {"landmarks": X} if method is Roseland else {}
    found = warned(method(2, epsilon=epsilon, **given), X)
    assert any(f"squared distances to neighbours are about {np.median(squared):.2g}" in text for text in found)
