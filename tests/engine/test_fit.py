"""What a fit selects of its spectrum, and what it says about it."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from catalogue import cloud, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    datasets,
)
from outfold.engine import fit
from outfold.exceptions import SpectrumWarning
from outfold.neighbors.brute import Brute
from outfold.neighbors.tree import PROBES
from outfold.selection import residuals

X = np.random.default_rng(0).normal(size=(300, 3))


@pytest.mark.parametrize(
    "method", [KernelPCA("auto"), ClassicalMDS("auto"), Isomap("auto"), LocallyLinearEmbedding("auto")], ids=repr
)
def test_auto_finds_the_plane(method):
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, (500, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    assert quietly(method.fit, plane).embedding_.shape[1] == 2


def test_every_eigenpair_can_be_asked_for():
    small = cloud(0, rows=20)
    for solver in ("dense", "lanczos", "auto"):
        maps = quietly(DiffusionMaps(19, epsilon=0.05, solver=solver).fit, small)
        assert maps.eigenvalues_.shape == (19,)
        assert np.isnan(maps.report_.gap)
        assert maps.report_.trace == pytest.approx(1 + maps.eigenvalues_.sum())


def test_indices_pick_eigenpairs():
    many = DiffusionMaps(6).fit(X)
    some = DiffusionMaps([1, 4, 6]).fit(X)
    np.testing.assert_allclose(some.embedding_, many.embedding_[:, [0, 3, 5]], atol=1e-12)
    np.testing.assert_allclose(some.eigenvalues_, many.eigenvalues_[[0, 3, 5]], atol=1e-12)


COUNTED = [
    DiffusionMaps("auto"),
    DiffusionMaps("auto", alpha=0, t=0),
    DiffusionMaps("auto", kernel="gaussian", t=0),
    DiffusionMaps("auto", kernel="variable", t=0),
    LaplacianEigenmaps("auto"),
    LaplacianEigenmaps("auto", laplacian="unnormalized"),
    Roseland("auto", random_state=0),
    LocallyLinearEmbedding("auto"),
]


def counted(method, points, **options):
    return quietly(method.fit, points, **options).embedding_.shape[1]


@pytest.mark.parametrize("method", COUNTED, ids=repr)
def test_auto_counts_the_coordinates_that_embed_a_closed_manifold(method):
    for name, wanted in (("circle", 2), ("sphere", 3), ("flat_torus", 4)):
        assert counted(method, getattr(datasets, name)(600, random_state=1)) == wanted


def test_auto_ends_at_the_last_new_direction_of_the_first_twelve():
    strip = np.random.default_rng(0).uniform(size=(600, 2)) * [2.5, 1]  # cos y comes after cos x and cos 2x
    new = np.flatnonzero(residuals(DiffusionMaps(12).fit(strip).eigenvectors_) > 0.4)
    assert new.tolist() == [0, 2]
    assert counted(DiffusionMaps("auto"), strip) == 3


def test_auto_keeps_as_many_coordinates_as_the_data_has_dimensions_and_twelve_at_most():
    digits = load_digits().data
    for method in (DiffusionMaps("auto"), LaplacianEigenmaps("auto"), Roseland("auto", random_state=0)):
        assert 6 <= counted(method, digits) <= 12  # 6.9 dimensions, by maximum likelihood
    assert counted(DiffusionMaps("auto"), np.random.default_rng(0).normal(size=(400, 40))) == 12


@pytest.mark.parametrize("clusters", [3, 20])
def test_auto_keeps_every_contrast_of_clusters(clusters):
    rng = np.random.default_rng(0)
    points = np.concatenate([50.0 * rng.normal(size=6) + rng.normal(size=(30, 6)) for _ in range(clusters)])
    maps = quietly(DiffusionMaps("auto").fit, points)
    assert maps.report_.components == clusters
    assert max(clusters - 1, 3) <= maps.report_.n_components <= max(12, clusters - 1)


@pytest.mark.parametrize("t", [4, 30, 1000])
def test_auto_leaves_out_coordinates_that_have_faded(t):
    points = datasets.sphere(400, random_state=0) * [1.0, 0.6, 0.3]
    kept = counted(DiffusionMaps("auto", t=t), points)
    weights = (lambda values: (values / values[0]) ** t)(DiffusionMaps(12).fit(points).eigenvalues_)
    assert (weights[:kept] > 0.1).all()
    assert kept == min(counted(DiffusionMaps("auto", t=1), points), int((weights > 0.1).sum()))


@pytest.mark.parametrize("method", COUNTED, ids=repr)
def test_auto_counts_the_same_for_weights_copies_and_any_order(method):
    points = datasets.s_curve(240, random_state=3)[0]
    copies = np.random.default_rng(0).integers(1, 4, len(points))
    once = counted(method, points, sample_weight=copies)
    assert once == counted(method, np.repeat(points, copies, axis=0)[::-1]) or isinstance(method, Roseland)
    assert counted(method, points) == counted(method, points[::-1]) or isinstance(method, Roseland)  # draws rows


def test_auto_of_precomputed_distances_is_that_of_the_points():
    points = datasets.sphere(300, random_state=0)
    lengths = np.linalg.norm(points[:, None] - points, axis=2)
    assert counted(DiffusionMaps("auto", metric="precomputed"), lengths) == 3
    assert counted(DiffusionMaps("auto", kernel="precomputed"), np.exp(-(lengths**2) / 0.2)) == 3


def test_auto_of_a_centred_kernel_says_if_the_spectrum_does_not_decay(monkeypatch):
    monkeypatch.setattr(fit, "MOST_PAIRS", 32)
    noise = np.random.default_rng(0).normal(size=(1100, 100))  # eigenvalues of one size
    model = quietly(KernelPCA("auto").fit, noise)
    assert any("decay below 0.1 within 32 eigenpairs; all 32" in text for text in model.report_.warnings)


@pytest.mark.parametrize(("epsilon", "message"), [(1e-4, "too small"), (1e4, "spans the data")])
def test_a_bandwidth_off_by_far_is_told(epsilon, message):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(SpectrumWarning) as caught:
        DiffusionMaps(1, epsilon=epsilon).fit(X)
    assert any(message in str(w.message) for w in caught)


def test_a_tiny_eigenvalue_is_told_when_it_is_divided_by():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(SpectrumWarning) as caught:
        DiffusionMaps(40, epsilon=3.0, t=0).fit(X)
    assert any("magnifies rounding" in str(w.message) for w in caught)


def test_outliers_that_carry_a_coordinate_are_named_with_the_remedy_and_the_default_has_none():
    rows = np.vstack([X, [[4.0, 4, 4], [-4, 4, 0], [0, -5, 4]]])
    with pytest.warns(SpectrumWarning, match=r"Coordinate 1 shows outliers: 5 of 303 .* pass kernel='adaptive'"):
        DiffusionMaps(2, epsilon=1.0).fit(rows)
    assert DiffusionMaps(2).fit(rows).report_.warnings == ()
    with pytest.warns(SpectrumWarning, match=r"Coordinate 1 shows outliers: 5 of 303 .* Scale the features, or drop"):
        KernelPCA(2, kernel="poly").fit(rows)


def test_few_rows_have_few_directions():
    """20 rows a direction at least: of fewer, every late eigenfunction of a small cluster looks new."""
    assert counted(DiffusionMaps("auto"), load_iris().data) <= 150 // 20
    assert counted(DiffusionMaps("auto"), datasets.circle(60, random_state=0)) == 2


@pytest.mark.parametrize("landmarks", [None, 100])
def test_rows_that_equal_an_anchor_are_not_searched_again(landmarks, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12))
    X = np.vstack([X, X[:50], X[:20]])[rng.permutation(270)]
    searched, plain = [], Brute.closest

    def counted(self, Z, k, runner, groups=None):
        searched.append(len(Z))
        return plain(self, Z, k, runner, groups)

    monkeypatch.setattr(Brute, "closest", counted)
    weights = np.ones(270)
    weights[:30] = 0
    maps = DiffusionMaps(3, n_neighbors=12, landmarks=landmarks, random_state=0).fit(X, sample_weight=weights)
    anchors = len(maps.landmarks_)
    others = sum(not (row == maps.landmarks_).all(axis=1).any() for row in X)
    assert sum(size for size in searched if size > PROBES) <= anchors + others
    assert others < 30 if landmarks is None else others > 50
    np.testing.assert_array_equal(maps.transform(X, on_far="keep"), maps.embedding_)
