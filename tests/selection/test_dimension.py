"""Criteria for dimension and time."""

import numpy as np
import pytest
from scipy.special import iv
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from catalogue import quietly
from outfold import DiffusionMaps, Roseland, datasets
from outfold.bandwidths import Slope
from outfold.operators.spectrum import spectral_dimension
from outfold.selection import gap_dimension, likelihood_dimension, slope_dimension, smallest_time

CIRCLE = np.repeat(iv(np.arange(1, 7), 10.0) / iv(0, 10.0), 2)  # epsilon = 0.1
SPHERE = np.exp(-0.05 * np.repeat([2, 6, 12], [3, 5, 7]))
TORUS = np.exp(-0.05 * np.repeat([1.0, 2.0, 4.0], 4) * [*[1] * 4, *[1] * 4, *[0.9] * 4])


@pytest.mark.parametrize(
    ("values", "by", "t", "dimension"),
    [
        (CIRCLE, "rate", 1, 2),
        (CIRCLE, "rate", 50, 2),
        (CIRCLE, "difference", 30, 2),
        (SPHERE, "rate", 1, 3),
        (SPHERE, "difference", 10, 3),
        (TORUS, "rate", 1, 4),
        ([0.2, -0.9, 0.85], "difference", 1, 2),
        ([1.0, 1.0, 1 - 1e-15, 0.3], "rate", 1, 3),
        ([5.0, 4.0, 0.5, 0.4], "ratio", 1, 2),
        ([5.0, 4.0, 0.5, 0.0], "ratio", 1, 3),
        ([0.5, 0.5, 0.5], "rate", 1, None),
        ([1.0, 1.0], "rate", 1, None),
        ([2.0, 2.0], "ratio", 1, None),
    ],
)
def test_the_gap_is_where_it_is_and_never_inside_a_multiplet(values, by, t, dimension):
    assert gap_dimension(values, by=by, t=t) == dimension


def test_the_gap_of_rates_is_that_of_a_naive_loop():
    values = np.sort(np.random.default_rng(0).uniform(size=30))[::-1]
    ratios = [np.log(values[l + 1]) / np.log(values[l]) for l in range(29)]
    assert gap_dimension(values) == int(np.argmax(ratios)) + 1


def test_the_slope_is_the_one_the_bandwidth_rule_finds():
    X = datasets.s_curve(300, random_state=0)[0]
    maps = DiffusionMaps(2, epsilon="slope").fit(X)
    assert slope_dimension(X) == maps.report_.dimension
    assert slope_dimension(maps) == maps.report_.dimension
    weighted = DiffusionMaps(2, epsilon=Slope()).fit(X, sample_weight=np.arange(300) % 3)
    assert slope_dimension(weighted) == pytest.approx(weighted.report_.dimension)


@pytest.mark.parametrize(("name", "dimension"), [("circle", 1), ("sphere", 2), ("flat_torus", 2)])
def test_the_slope_rounds_to_the_dimension(name, dimension):
    for seed in range(3):
        assert (
            round(slope_dimension(getattr(datasets, name)(5000 if seed == 0 else 400, random_state=seed))) == dimension
        )


def by_hand(points, k):
    """Levina and Bickel's estimate, the average of inverses, over different rows."""
    points = np.unique(points, axis=0)
    radii = NearestNeighbors(n_neighbors=k).fit(points).kneighbors()[0]
    return 1 / np.log(radii[:, -1:] / radii[:, :-1]).mean()


def gaussian(n, features, seed=0):
    return np.random.default_rng(seed).normal(size=(n, features))


def directions(n, features, seed=0):
    """Rows on a sphere of ``features`` - 1 dimensions."""
    rows = gaussian(n, features, seed)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


SETS = {
    "circle": (lambda: datasets.circle(800, random_state=0), 1),
    "sphere": (lambda: datasets.sphere(800, random_state=0), 2),
    "flat torus": (lambda: datasets.flat_torus(800, random_state=0), 2),
    "S-curve": (lambda: datasets.s_curve(800, random_state=0)[0], 2),
    "Swiss roll": (lambda: datasets.swiss_roll(800, random_state=0)[0], 2),
    "cube": (lambda: np.random.default_rng(0).uniform(size=(800, 3)), 3),
    "five-sphere": (lambda: directions(800, 6), 5),
    "nine-sphere": (lambda: directions(1500, 10), 9),
    "Gaussian": (lambda: gaussian(1500, 10), 10),
    "digits": (lambda: load_digits().data, None),
    "iris": (lambda: load_iris().data, None),
    "wine": (lambda: load_wine().data, None),
}


@pytest.mark.parametrize("name", SETS)
def test_the_likelihood_is_that_of_a_plain_formula_and_near_the_known_dimension(name):
    points, known = SETS[name][0](), SETS[name][1]
    for k in (5, 20):
        assert likelihood_dimension(points, n_neighbors=k) == pytest.approx(by_hand(points, k))
    found = likelihood_dimension(points)
    assert found == pytest.approx(np.mean([by_hand(points, k) for k in range(10, 21)]), rel=0.25)
    if known is not None:
        assert found == pytest.approx(known, rel=0.15)


@pytest.mark.parametrize("name", SETS)
def test_a_fit_reports_the_dimension_of_its_neighbours(name):
    points = SETS[name][0]()
    maps = quietly(DiffusionMaps().fit, points)
    assert maps.report_.dimension == pytest.approx(by_hand(points, 19))  # 20 with the row itself
    assert likelihood_dimension(maps, n_neighbors=19) == pytest.approx(maps.report_.dimension)
    few = quietly(Roseland(landmarks=0.5, random_state=0).fit, np.unique(points, axis=0))
    assert few.report_.dimension == pytest.approx(by_hand(few.landmarks_, 14))


def test_copies_weights_and_order_do_not_change_the_likelihood():
    points = datasets.s_curve(300, random_state=0)[0]
    copies = np.random.default_rng(0).integers(1, 4, len(points))
    repeated = np.repeat(points, copies, axis=0)
    wanted = likelihood_dimension(points)
    assert likelihood_dimension(repeated[::-1]) == pytest.approx(wanted)
    weighted = DiffusionMaps().fit(points, sample_weight=copies)
    assert likelihood_dimension(weighted) == pytest.approx(wanted)
    assert weighted.report_.dimension == pytest.approx(DiffusionMaps().fit(repeated).report_.dimension)
    faint = DiffusionMaps().fit(np.vstack([points, 3 * points[:40] + 5]), sample_weight=[1] * 300 + [1e-9] * 40)
    assert faint.report_.dimension == pytest.approx(DiffusionMaps().fit(points).report_.dimension, rel=1e-5)


def test_of_many_rows_the_neighbours_of_an_even_sample_are_read_among_all():
    points = datasets.sphere(6000, random_state=0)
    assert likelihood_dimension(points) == pytest.approx(by_hand(points, 20), rel=0.02)
    assert likelihood_dimension(points) == pytest.approx(likelihood_dimension(points[::-1]), rel=1e-12)
    assert DiffusionMaps().fit(points).report_.dimension == pytest.approx(by_hand(points, 19), rel=0.02)


def test_the_likelihood_knows_metrics_and_precomputed_distances_have_the_same():
    points = datasets.sphere(200, random_state=0)
    lengths = pairwise_distances(points, metric="cityblock")
    given = DiffusionMaps(metric="precomputed").fit(lengths).report_.dimension
    radii = np.sort(lengths, axis=1)[:, 1:20]
    assert given == pytest.approx(1 / np.log(radii[:, -1:] / radii[:, :-1]).mean())
    assert likelihood_dimension(points, n_neighbors=19, metric="manhattan") == pytest.approx(given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: likelihood_dimension(X, n_neighbors=1), "n_neighbors=1 must be a whole number >= 2"),
        (lambda X: likelihood_dimension(X, n_neighbors=2.5), "n_neighbors=2.5 must be a whole number"),
        (lambda X: likelihood_dimension(np.ones_like(X)), "All training points are equal"),
        (lambda X: likelihood_dimension(np.eye(4)), "equally far, so they show no dimension"),
        (lambda X: likelihood_dimension(X[0]), "2D array"),
        (lambda X: likelihood_dimension(DiffusionMaps()), "not fitted"),
    ],
)
def test_what_has_no_dimension_is_refused(call, message):
    with pytest.raises((ValueError, NotFittedError), match=message):
        call(datasets.circle(40, random_state=0))


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.01])
@pytest.mark.parametrize("dimension", [2, 4, 6])
def test_the_smallest_time_reaches_the_dimension_and_a_step_less_does_not(dimension, delta):
    time = smallest_time(CIRCLE, dimension, delta=delta)
    assert time == int(time)
    assert spectral_dimension(CIRCLE, t=time, delta=delta) <= dimension
    before = spectral_dimension(CIRCLE, t=time - 1, delta=delta)
    assert before is None or before > dimension
    exact = smallest_time(CIRCLE, dimension, delta=delta, whole=False)
    assert time - 1 < exact <= time
    assert (CIRCLE[dimension] / CIRCLE[0]) ** exact == pytest.approx(delta)


def test_equality_reaches_the_dimension():
    assert smallest_time([1.0, 0.1, 0.01], 1) == 1
    assert smallest_time([1.0, 0.5, 0.25], 1, delta=0.125) == 3
    assert smallest_time([0.8, 0.0], 1) == 1


def test_precomputed_distances_have_no_points_to_look_at():
    X = datasets.circle(30, random_state=0)
    maps = DiffusionMaps(2, metric="precomputed").fit(np.linalg.norm(X[:, None] - X, axis=2))
    with pytest.raises(ValueError, match="metric='precomputed' keeps no points"):
        slope_dimension(maps)
