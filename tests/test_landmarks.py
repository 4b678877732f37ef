"""Landmarks: how many, where, how heavy; the same for the same seed; for every method."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from catalogue import cloud, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
    landmarks,
)
from outfold.data.sources import BlockSource, InMemory
from outfold.landmarks import Points, Random, count_of

CHOICES = [
    landmarks.Random,
    landmarks.KMeans,
    landmarks.FarthestPoint,
    landmarks.MinDistance,
    landmarks.InverseDensity,
    landmarks.RPCholesky,
]

choices = pytest.mark.parametrize("choice", CHOICES, ids=lambda c: c.__name__)
X = np.random.default_rng(0).normal(size=(600, 2))


def select(choice, points=X, weights=None, seed=0):
    measure = np.ones(len(points)) if weights is None else weights
    return choice.select(InMemory(points), measure, np.random.default_rng(seed))


@choices
def test_the_count_the_seed_and_the_weight(choice):
    found, again, other = (select(choice(60), seed=s) for s in (1, 1, 2))
    assert len(found.points) == 60
    assert len(np.unique(found.points, axis=0)) == 60
    assert np.array_equal(found.points, again.points)
    assert found.measure.mean() == pytest.approx(1)
    if choice is not landmarks.FarthestPoint:  # the one without randomness
        assert not np.array_equal(found.points, other.points)
    if choice is not landmarks.KMeans:
        assert np.array_equal(found.points, X[found.index])
    assert len(select(choice(0.25)).points) == 150


def test_landmarks_by_count_fraction_and_points():
    X = np.random.default_rng(0).normal(size=(300, 3))
    measure, rng = np.ones(300), np.random.default_rng(0)
    assert len(Random(50).select(InMemory(X), measure, rng).points) == 50
    assert len(Random(0.1).select(InMemory(X), measure, rng).points) == 30
    chosen = Random(40).select(InMemory(X), np.r_[np.zeros(250), np.ones(50)], rng)
    assert chosen.index.min() >= 250
    assert Points(X[:9]).select(InMemory(X), measure, rng).index is None
    one, two, three = (DiffusionMaps(landmarks=80, random_state=s).fit(X).landmarks_ for s in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


@choices
def test_rows_without_weight_are_never_chosen(choice):
    weights = (np.arange(600) % 3 > 0).astype(float)
    far = X.copy()
    far[weights == 0] += 100
    assert np.abs(select(choice(60), far, weights).points).max() < 50


@choices
def test_few_distinct_rows_are_no_obstacle(choice):
    copies = np.repeat(X[:12], 10, axis=0)
    found = select(choice(40), copies)
    assert 2 <= len(found.points) <= 40
    assert (found.measure > 0).all()


@choices
def test_too_many_and_too_few(choice):
    with pytest.raises(ValueError, match=r"landmarks=601 .*\(600\)"):
        select(choice(601))
    with pytest.raises(ValueError, match="landmarks=1 must be at least 2"):
        select(choice(1))


@choices
@pytest.mark.parametrize(
    "method",
    [
        DiffusionMaps,
        LaplacianEigenmaps,
        SpectralClustering,
        KernelPCA,
        ClassicalMDS,
        Isomap,
        LocallyLinearEmbedding,
        Roseland,
    ],
)
def test_every_method_takes_them(choice, method):
    model = method(2, landmarks=choice(80), random_state=0)
    quietly(model.fit, X)
    part = np.random.default_rng(0).permutation(600)[:50]
    np.testing.assert_allclose(quietly(model.transform, X[part]), model.embedding_[part], rtol=0, atol=1e-9)


def test_weights_are_those_of_the_nearest_rows():
    found = select(landmarks.FarthestPoint(20))
    nearest = cdist(X, found.points).argmin(axis=1)
    mass = np.bincount(nearest, minlength=20)
    np.testing.assert_allclose(found.measure, mass / mass.mean())


def test_farthest_points_are_farthest():
    found = select(landmarks.FarthestPoint(30)).points
    spacing = pdist(found).min()
    assert cdist(X, found).min(axis=1).max() <= spacing  # every row is nearer to one of them than they to each other


def test_covers_are_more_even_than_chance():
    spacing = {c.__name__: pdist(select(c(60)).points).min() for c in CHOICES}
    for even in ("FarthestPoint", "MinDistance"):
        assert spacing[even] > 5 * spacing["Random"]


def test_inverse_density_turns_the_density_round():
    rng = np.random.default_rng(1)
    line = np.sort(np.concatenate([rng.uniform(0, 1, 3000), rng.uniform(1, 2, 1000)]))[:, None]  # p is 3 : 1
    found = [select(landmarks.InverseDensity(300), line, seed=s).points for s in range(5)]
    left = np.mean([(f < 1).sum() for f in found])
    assert left / (300 - left) == pytest.approx(1 / 9, rel=0.5)  # 1 / p^2, some of it spent: drawn without replacement


def test_randomly_pivoted_cholesky_explains_the_kernel_better_than_chance():
    points = np.vstack([X, 8 + 0.05 * X[:30]])  # a small cluster apart, easily missed

    def unexplained(found):
        K = np.exp(-(cdist(points, points) ** 2) / 2)
        C = np.exp(-(cdist(points, found.points) ** 2) / 2)
        A = np.exp(-(cdist(found.points, found.points) ** 2) / 2)
        return np.trace(K - C @ np.linalg.pinv(A, rcond=1e-12) @ C.T)

    chance = np.mean([unexplained(select(landmarks.Random(20), points, seed=s)) for s in range(10)])
    chosen = np.mean([unexplained(select(landmarks.RPCholesky(20, epsilon=1.0), points, seed=s)) for s in range(10)])
    assert chosen < 0.7 * chance


def test_inverse_density_of_heavy_tails_is_drawn_all_the_same():
    rows = np.random.default_rng(0).standard_cauchy(size=(4000, 2))
    chosen = landmarks.InverseDensity(50).select(InMemory(rows), np.ones(4000), np.random.default_rng(0))
    assert len(np.unique(chosen.index)) == 50


def test_the_smallest_fraction_is_two_landmarks():
    assert count_of(1e-9, 100) == 2
    assert count_of(0.02, 100) == 2
    assert count_of(0.03, 100) == 3
    assert len(select(Random(1e-9)).points) == 2


def test_farthest_points_do_not_depend_on_the_origin():
    points = cloud(0, rows=60)
    here, there = (
        landmarks.FarthestPoint(7).select(InMemory(X), np.ones(60), np.random.default_rng(0)).index
        for X in (points, points + 1000.0)
    )
    np.testing.assert_array_equal(here, there)


@choices
def test_weighted_rows_have_the_landmarks_of_repeated_rows_in_any_order(choice):
    rng = np.random.default_rng(1)
    points, weights = np.vstack([X[:120], X[:30]]), rng.integers(0, 4, 150)
    repeated = rng.permutation(np.repeat(points, weights, axis=0))
    one, two = select(choice(40), points, weights.astype(float), 5), select(choice(40), repeated, seed=5)
    first, second = (np.lexsort(found.points.T) for found in (one, two))
    np.testing.assert_allclose(one.points[first], two.points[second], atol=1e-12)
    np.testing.assert_allclose(one.measure[first], two.measure[second], atol=1e-12)
    assert len(np.unique(one.points, axis=0)) == len(one.points)


def test_rows_without_copies_and_weights_are_drawn_by_number():
    """As files are: the rows that a generator of this seed names, whatever their content."""
    drawn = select(Random(50), seed=7)
    np.testing.assert_array_equal(drawn.index, np.sort(np.random.default_rng(7).choice(600, 50, replace=False)))
    absent = np.ones(600)
    absent[::3] = 0
    some = select(Random(50), weights=absent, seed=7)
    np.testing.assert_array_equal(some.points, select(Random(50), X[absent > 0], seed=7).points)


def test_places_are_drawn_evenly_whatever_their_weight_and_light_ones_more_rarely():
    points = np.arange(40.0)[:, None]
    weights = np.repeat([1.0, 50.0, 0.5, 0.1], 10)
    chosen = np.zeros(40)
    for seed in range(2000):
        chosen[select(Random(4), points, weights, seed).index] += 1
    share = chosen.reshape(4, 10).mean(axis=1) / 2000  # each draw is in proportion to min(weight, 1): 1, 1, 0.5, 0.1
    assert share[0] == pytest.approx(share[1], rel=0.06)
    assert share[2] == pytest.approx(share[0] / 2, rel=0.15)
    assert share[3] == pytest.approx(share[0] / 10, rel=0.3)
    assert np.abs(chosen[:20] / chosen[:20].mean() - 1).max() < 0.25


def test_the_measure_of_a_random_landmark_is_that_of_its_place():
    points, weights = np.array([[0.0], [1.0], [0.0], [2.0]]), np.array([1.0, 2.5, 3.0, 0.0])
    found = select(Random(2), points, weights)
    assert found.points.ravel().tolist() == [0.0, 1.0]
    assert found.index.tolist() == [0, 1]
    assert found.measure.tolist() == [4.0, 2.5]


@choices
def test_landmarks_are_counted_in_places(choice):
    """A fraction of the distinct rows; a count beyond them takes them all; one beyond all rows is an error."""
    points = np.repeat(X[:30], 4, axis=0)
    fewer = 2 if choice is landmarks.KMeans else 0  # centres to which no row is nearest are left out
    assert 15 - fewer <= len(select(choice(0.5), points).points) <= 15
    assert 30 - fewer <= len(select(choice(50), points).points) <= 30
    assert 30 - fewer <= len(select(choice(50), X[:30], np.full(30, 4.0)).points) <= 30
    for rows, weights in ((points, None), (X[:30], np.full(30, 4.0))):
        with pytest.raises(ValueError, match="more landmarks than there are training rows"):
            select(choice(121), rows, weights)


def test_k_means_of_few_rows_moves_no_more_than_the_rows_and_a_centre_of_one_row_is_that_row():
    points = cloud(4, rows=60)
    centres, moved = (select(landmarks.KMeans(0.5), rows).points for rows in (points, points * (1 + 1e-12)))
    np.testing.assert_allclose(moved, centres, atol=1e-10)
    owner = cdist(points, centres).argmin(axis=1)
    alone = [at for at in range(len(centres)) if (owner == at).sum() == 1]
    assert alone
    for at in alone:
        np.testing.assert_array_equal(centres[at], points[owner == at][0])


@choices
def test_weighted_rows_have_the_same_landmarks_wherever_they_lie(choice):
    weights = np.random.default_rng(2).uniform(0.1, 3, 600)
    weights[::7] = 0
    here = select(choice(40), weights=weights, seed=3)
    blocks = BlockSource(lambda: np.array_split(X, 7))
    there = choice(40).select(blocks, weights, np.random.default_rng(3))
    np.testing.assert_allclose(there.points, here.points, atol=1e-12)
    np.testing.assert_allclose(there.measure, here.measure, rtol=1e-12)
    if here.index is not None:
        np.testing.assert_array_equal(there.index, here.index)


def test_random_landmarks_keep_their_own_weights():
    weights = np.random.default_rng(2).uniform(0.1, 3, 600)
    found = select(Random(50), weights=weights, seed=4)
    np.testing.assert_array_equal(found.points, X[found.index])
    np.testing.assert_array_equal(found.measure, weights[found.index])


@pytest.mark.parametrize("distance", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights and copies"])
def test_landmarks_by_distance_are_apart_and_cover_every_row(distance, weighted):
    points, weights = (X, None)
    if weighted:
        points, weights = np.vstack([X, X[:200]]), np.random.default_rng(3).integers(0, 3, 800).astype(float)
    found = select(landmarks.MinDistance(distance=distance), points, weights)
    assert pdist(found.points).min() >= distance * (1 - 1e-12)
    rows = points if weights is None else points[weights > 0]
    assert cdist(rows, found.points).min(axis=1).max() < distance
    assert np.array_equal(points[found.index], found.points)
    nearest = cdist(points, found.points).argmin(axis=1)
    mass = np.bincount(nearest, weights=np.ones(len(points)) if weights is None else weights)
    np.testing.assert_allclose(found.measure, mass / mass.mean(), rtol=1e-12)


def test_landmarks_by_distance_of_rows_in_blocks_are_apart():
    blocks = BlockSource(lambda: (X[i : i + 100] for i in range(0, 600, 100)))
    found = landmarks.MinDistance(distance=0.3).select(blocks, np.ones(600), np.random.default_rng(0))
    assert pdist(found.points).min() >= 0.3
    assert cdist(X, found.points).min(axis=1).max() < 0.3  # a sample holds all of so few rows


@pytest.mark.parametrize("method", [DiffusionMaps, Isomap, Roseland, ClassicalMDS])
def test_every_method_takes_landmarks_by_distance(method):
    model = quietly(method(2, landmarks=landmarks.MinDistance(distance=0.3), random_state=0).fit, X)
    assert pdist(model.landmarks_).min() >= 0.3
    assert 50 < len(model.landmarks_) < 200


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, "size=None, distance=None.*either a number of landmarks or their least distance"),
        ({"size": 5, "distance": 1.0}, "size=5, distance=1.0.*either"),
        ({"distance": 0}, "distance=0 must be a finite number > 0"),
        ({"distance": np.inf}, "distance=inf must be a finite"),
        ({"distance": np.nan}, "distance=nan must be a finite"),
        ({"distance": "far"}, "distance='far' must be a finite"),
        ({"distance": 1e3}, "leaves 1 landmark.*Pass a smaller distance"),
    ],
)
def test_a_distance_that_gives_no_landmarks_is_refused(choice, message):
    with pytest.raises(ValueError, match=message):
        select(landmarks.MinDistance(**choice))
