"""The number of clusters by the eigengap, and k-means on the eigenmaps."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import outfold
from catalogue import quietly
from outfold import SpectralClustering
from outfold.datasets import circle
from outfold.exceptions import SpectrumWarning
from outfold.graphs.components import Components
from outfold.operators.cluster_count import MOST_CLUSTERS, ClusterCount
from outfold.operators.operator import LaplacianOperator


def count(distances, parts=1):
    """Count from distances of eigenvalues, of an operator that is minus a Laplacian."""
    n = len(distances)
    labels = np.arange(n) % parts
    operator = LaplacianOperator(
        matrix=np.zeros((n, n)), spread=2.0, measure=np.ones(n), stationary=np.ones(n) / n, degree=np.ones(n),
        parts=Components(labels, np.bincount(labels).astype(float)),
    )  # fmt: skip
    return ClusterCount.of(operator, -np.asarray(distances, dtype=float), np.eye(n))


def test_the_last_clear_gap_counts():
    """Two groups of two clusters each: gaps after 2 and after 4."""
    found = count([0, 1e-3, 0.02, 0.02, 0.3, 0.31, 0.32, 0.33, 0.34, 0.35])
    assert (found.chosen, found.clear) == (4, True)
    assert found.gap == pytest.approx(0.28)


def test_harmonics_of_a_curve_are_no_clear_gap():
    """Rates k^2 of an interval, and k^2 twice of a circle: (4 - 1) / 9 of the range is no clear gap."""
    assert not count(np.arange(20.0) ** 2 / 400).clear
    assert not count(np.append(0, np.repeat(np.arange(1.0, 12) ** 2, 2)) / 400).clear


def test_separate_pieces_are_counted_if_no_gap_is_clear():
    found = count([0, 0, 0.034, 0.109, 0.128, 0.236, 0.28, 0.3, 0.33], parts=2)
    assert (found.chosen, found.clear) == (2, False)


@pytest.mark.parametrize("distances", [[0, 0.5], [0, 0.1, 0.9], [0.0, 0.0]])
def test_few_eigenpairs_still_have_an_answer(distances):
    assert count(distances).chosen == 2


@pytest.mark.parametrize("k", [2, 3, 5, 9, 20])
@pytest.mark.parametrize("features", [5, 20])
def test_separate_blobs_are_counted(k, features):
    X, labels = make_blobs(100 * k, centers=k, n_features=features, center_box=(-12, 12), random_state=k)
    model = SpectralClustering("auto").fit(X)
    assert model.n_clusters_ == k
    assert model.report_.clusters.clear
    assert model.report_.warnings == ()
    assert adjusted_rand_score(labels, model.labels_) > 0.99
    assert model.embedding_.shape == (len(X), k - 1)
    assert f"{k} by the eigengap" in str(model.report_)


def test_rings_and_moons_are_two():
    for X in (
        make_circles(600, factor=0.5, noise=0.04, random_state=0)[0],
        make_moons(600, noise=0.05, random_state=0)[0],
    ):
        assert SpectralClustering("auto").fit(X).n_clusters_ == 2


def test_a_guess_is_called_one():
    X = np.random.default_rng(0).normal(size=(500, 10))
    with pytest.warns(SpectrumWarning, match="no clear gap .* guess.*Pass n_clusters"):
        found = SpectralClustering("auto").fit(X)
    assert 2 <= found.n_clusters_ <= MOST_CLUSTERS
    assert not quietly(SpectralClustering("auto").fit, circle(500, random_state=0)).report_.clusters.clear


def test_the_standard_error_is_that_of_independent_draws():
    """Two overlapping Gaussians: the deviation of the first gap over draws.

    First-order perturbation leaves terms of relative order 1 / sqrt(n); 25 draws know a deviation to 14 %.
    """
    gaps, errors = [], []
    for seed in range(25):
        X, _ = make_blobs(400, centers=[[0, 0], [5.0, 0]], random_state=seed)
        found = quietly(SpectralClustering("auto").fit, X)
        assert found.n_clusters_ == 2
        gaps.append(found.report_.clusters.gap)
        errors.append(found.report_.clusters.error)
    ratio = np.median(errors) / np.std(gaps, ddof=1)
    assert 1 / 2 < ratio < 4  # the error of modes within clusters errs on the large side


def test_weights_are_repeats_in_the_count_and_its_error():
    X, _ = make_blobs(150, centers=3, random_state=0)
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = SpectralClustering("auto").fit(X, sample_weight=weights)
    repeated = SpectralClustering("auto").fit(np.repeat(X, weights, axis=0))
    assert weighted.n_clusters_ == repeated.n_clusters_ == 3
    assert weighted.report_.clusters.error == pytest.approx(repeated.report_.clusters.error, rel=1e-6)
    assert adjusted_rand_score(np.repeat(weighted.labels_, weights), repeated.labels_) == 1


def test_it_is_kept_in_files_and_updated_by_a_second_fit(tmp_path):
    X, _ = make_blobs(200, centers=4, n_features=5, random_state=3)
    model = SpectralClustering("auto").fit(X)
    model.save(tmp_path / "m.outfold", embedding=True)
    again = outfold.load(tmp_path / "m.outfold")
    assert again.n_clusters_ == model.n_clusters_
    assert again.report_.clusters == model.report_.clusters
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert SpectralClustering(4).fit(X).report_.clusters is None


def test_other_values_are_refused():
    for value in ("many", 0, 2.5, None):
        with pytest.raises(ValueError, match="n_clusters"):
            SpectralClustering(value).fit(np.eye(5))


# -- k-means -------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("data", ["digits", "iris", "blobs", "noise"])
def test_labels_are_predicted_and_k_means_is_as_good_as_scikit_learn(data, normalize):
    """Its cost against ten starts of scikit-learn's on the same coordinates, eight times."""
    X = {
        "digits": load_digits().data,
        "iris": load_iris().data,
        "blobs": make_blobs(500, centers=20, n_features=12, random_state=0)[0],
        "noise": np.random.default_rng(0).normal(size=(400, 5)),
    }[data]
    for k in (3, 10, 20):
        model = quietly(SpectralClustering(k, normalize_rows=normalize).fit, X)
        np.testing.assert_array_equal(model.labels_, model.predict(X))
        features = model._features(model.embedding_)
        cost = np.square(features - model.cluster_centers_[model.labels_]).sum()
        theirs = [KMeans(k, n_init=10, random_state=seed).fit(features).inertia_ for seed in range(8)]
        assert cost <= max(theirs) + 1e-9


def test_many_rows_are_clustered_as_well_as_few():
    X, labels = make_blobs(9000, centers=8, n_features=6, random_state=1)
    model = SpectralClustering(8).fit(X)
    assert adjusted_rand_score(labels, model.labels_) > 0.99
    np.testing.assert_array_equal(model.labels_[:500], model.predict(X[:500]))


def test_more_clusters_than_rows_are_refused_by_their_name():
    with pytest.raises(ValueError, match="n_clusters=8 is more than the rows, n = 5"):
        SpectralClustering().fit(np.eye(5))
