"""Data sets: on their manifolds, isometric where they say so, the same for the same seed."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import Bunch

from outfold import datasets

GENERATORS = {
    "circle": datasets.circle,
    "sphere": datasets.sphere,
    "flat torus": datasets.flat_torus,
    "s curve": datasets.s_curve,
    "swiss roll": datasets.swiss_roll,
    "punched sphere": datasets.punched_sphere,
    "helix": datasets.helix,
    "toroidal helices": datasets.toroidal_helices,
    "rectangle": datasets.rectangle,
    "smooth manifold": datasets.smooth_manifold,
    "clusters in space": datasets.clusters_3d,
    "moons": datasets.noisy_moons,
    "blobs": datasets.blobs,
}

SHEETS = {name: GENERATORS[name] for name in ("s curve", "swiss roll")}
generators = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())
sheets = pytest.mark.parametrize("make", SHEETS.values(), ids=SHEETS.keys())


def arrays(made):
    return made if isinstance(made, tuple) else (made,)


@generators
def test_the_seed_decides_every_number(make):
    first, again, other = (arrays(make(60, random_state=seed)) for seed in (3, 3, 4))
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(first[0], other[0])
    assert all(len(array) == 60 for array in first)


@pytest.mark.parametrize("make", [datasets.circle, datasets.sphere, datasets.flat_torus])
def test_points_lie_on_the_manifold_and_cover_it_evenly(make):
    X = make(4000, random_state=0)
    circles = X.reshape(len(X), -1, 2) if make is datasets.flat_torus else X[:, None, :]
    np.testing.assert_allclose(np.linalg.norm(circles, axis=2), 1, atol=1e-14)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=0.05)


@sheets
def test_distance_on_the_flat_sheet_is_distance_in_space_between_neighbours(make):
    X, position = make(3000, random_state=0)
    flat, space = cdist(position, position), cdist(X, X)
    assert (space <= flat * (1 + 1e-12) + 1e-12).all()  # a bend only shortens
    span = position.max() - position.min()
    near = (flat > 0) & (flat < span / 50)
    assert (space[near] > 0.97 * flat[near]).all()


def test_the_swiss_roll_is_covered_evenly():
    length = datasets.swiss_roll(8000, random_state=0)[1][:, 0]
    counts = np.histogram(length, 10)[0]
    assert abs(counts / 800 - 1).max() < 0.15


@pytest.mark.parametrize(
    "make",
    [
        datasets.circle,
        datasets.sphere,
        datasets.flat_torus,
        datasets.punched_sphere,
        datasets.helix,
        datasets.toroidal_helices,
        datasets.smooth_manifold,
        *SHEETS.values(),
    ],
)
def test_noise_has_the_size_asked_for(make):
    clean, noisy = (arrays(make(2000, random_state=0, noise=noise))[0] for noise in (0.0, 0.1))
    assert (noisy - clean).std() == pytest.approx(0.1, rel=0.05)


def test_blobs_have_the_shape_asked_for():
    X, label = datasets.blobs(200, centers=4, dimension=6, spread=0.01, random_state=0)
    assert X.shape == (200, 6)
    assert max(X[label == k].std(axis=0).max() for k in range(4)) < 0.02


def test_the_punched_sphere_is_the_sphere_without_its_cap_and_an_even_disc():
    X, disc = datasets.punched_sphere(4000, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(X - [0, 0, 1], axis=1), 1, atol=1e-14)
    assert 1.7 < X[:, 2].max() < 2 - 8 / 29 + 1e-12
    np.testing.assert_allclose(2 * X[:, :2] / (2 - X[:, 2:]), disc, atol=1e-9)  # seen from the pole
    assert abs(np.histogram((disc**2).sum(axis=1), 10, (0, 25))[0] / 400 - 1).max() < 0.15


def test_clusters_in_space_are_cubes_on_a_chain():
    X, label = datasets.clusters_3d(2048, clusters=4, bridge=7, random_state=0)
    assert X.shape == (2048, 3)
    assert np.ptp(np.bincount(label[:-21])) <= 1
    centres = np.array([X[:-21][label[:-21] == c].mean(axis=0) for c in range(4)])
    side = np.sort(cdist(centres, centres)[np.triu_indices(4, 1)])[0] / np.sqrt(12)
    for c in range(4):
        assert np.ptp(X[:-21][label[:-21] == c], axis=0) == pytest.approx([side] * 3, rel=0.1)
    lines = X[-21:].reshape(3, 7, 3)
    np.testing.assert_allclose(np.diff(lines, 2, axis=1), 0, atol=1e-12)  # even steps
    np.testing.assert_allclose(lines[:, 3], (centres[:-1] + centres[1:]) / 2, atol=0.1)
    assert label[-21:].reshape(3, 7).tolist() == [[c] * 4 + [c + 1] * 3 for c in range(3)]
    with pytest.raises(ValueError, match="n=20 is too few for 3 clusters"):
        datasets.clusters_3d(20)


def test_the_helix_is_its_formula_and_has_the_published_percentile():
    X, t = datasets.helix(500, noise=0, random_state=0)
    np.testing.assert_array_equal(X, np.column_stack([np.cos(t), np.sin(2 * t), np.sin(3 * t)]))
    assert abs(np.histogram(datasets.helix(8000, random_state=0)[1], 10, (0, 2 * np.pi))[0] / 800 - 1).max() < 0.15
    noisy = datasets.helix(2000, random_state=0)[0]
    assert np.percentile(pdist(noisy), 2) == pytest.approx(0.1756, rel=0.02)  # Dorado (2018), figure 4.2.6


def test_toroidal_helices_lie_on_the_torus_and_apart():
    X, label, phi = datasets.toroidal_helices(2001, random_state=0)
    around = np.hypot(X[:, 0], X[:, 1]) - 3
    np.testing.assert_allclose(np.hypot(around, X[:, 2]), 1, atol=1e-14)
    assert np.bincount(label).tolist() == [1001, 1000]
    np.testing.assert_allclose(np.exp(1j * np.arctan2(X[:, 2], around)), np.exp(8j * phi), atol=1e-12)
    assert cdist(X[label == 0], X[label == 1]).min() > 0.3


def test_toroidal_helices_are_those_of_the_published_file(shared_data):
    with np.load(shared_data / "grae" / "toroidal_helices.npz") as file:
        X, label, phi = file["X"], file["label"], file["phi"]

    class Same:  # a generator of the file's own places
        def uniform(self, low, high, n):
            return phi

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "check_random_state", lambda _: Same())
        mine, which, _ = datasets.toroidal_helices(len(X))
    np.testing.assert_array_equal(which, label)
    np.testing.assert_allclose(mine, X, atol=3e-7)  # the file has single precision


def test_the_rectangle_is_covered_evenly_or_by_a_grid():
    X = datasets.rectangle(4000, sides=(2, 7), random_state=0)
    assert X.min() >= 0
    counts = np.histogram2d(*X.T, bins=(2, 5), range=((0, 2), (0, 7)))[0]
    assert abs(counts / 400 - 1).max() < 0.15
    grid = datasets.rectangle(10_000, grid=True)
    assert len(grid) == 77 * 130
    across, up = (np.unique(grid[:, axis]) for axis in (0, 1))
    np.testing.assert_allclose(across, (np.arange(77) + 0.5) * 3 / 77)
    np.testing.assert_allclose(up, (np.arange(130) + 0.5) * 5 / 130)
    assert len(np.unique(grid, axis=0)) == len(grid)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_smooth_manifold_is_bent_and_locally_flat_of_its_dimension(dimension):
    X, place = datasets.smooth_manifold(3000, dimension=dimension, random_state=0)
    assert place.shape == (3000, dimension)
    spread = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    share = np.cumsum(spread) / spread.sum()
    assert share[dimension - 1] < 0.9  # no plane of that dimension holds it
    assert share[40] > 0.99  # but its spectrum decays
    index = NearestNeighbors(n_neighbors=20).fit(X)
    near = index.kneighbors(X[:100], return_distance=False)
    assert np.linalg.norm(place[near] - place[:100, None], axis=2).max() < 0.3  # it does not come back to itself
    local = np.array([np.linalg.svd(X[rows] - X[rows].mean(axis=0), compute_uv=False) ** 2 for rows in near])
    held = np.cumsum(local, axis=1) / local.sum(axis=1, keepdims=True)
    assert np.median(held[:, dimension - 1]) > 0.95
    if dimension > 1:
        assert np.median(held[:, dimension - 2]) < 0.9


def test_points_of_a_smooth_manifold_differ_by_seed_and_the_manifold_does_not():
    X, place = datasets.smooth_manifold(2000, dimension=1, features=5, random_state=0)
    Z, other = datasets.smooth_manifold(50, dimension=1, features=5, random_state=1)
    order = place[:, 0].argsort()
    between = np.column_stack([np.interp(other[:, 0], place[order, 0], X[order, k]) for k in range(5)])
    np.testing.assert_allclose(Z[1:], between[1:], atol=1e-3)
    assert not np.allclose(datasets.smooth_manifold(50, dimension=1, features=5, manifold=1, random_state=1)[0], Z)
    with pytest.raises(ValueError, match="features at least 7"):
        datasets.smooth_manifold(50, dimension=3, features=6)


# -- images --------------------------------------------------------------------------------


def test_rotated_digits_turn_all_the_way_round():
    X, label, angle = datasets.rotated_digits(source="digits", rotations=72)
    assert X.shape == (216, 784)
    assert X.min() >= 0
    assert 0.8 < X.max() <= 1
    assert np.bincount(label).tolist() == [72] * 3
    np.testing.assert_allclose(angle.reshape(3, 72), np.tile(2 * np.pi * np.arange(72) / 72, (3, 1)))
    pictures = X.reshape(3, 72, 28, 28)
    np.testing.assert_allclose(pictures[:, 18], np.rot90(pictures[:, 0], axes=(1, 2)), atol=1e-7)  # a quarter turn
    steps = np.linalg.norm(np.diff(X.reshape(3, 72, 784), axis=1, append=X.reshape(3, 72, 784)[:, :1]), axis=2)
    assert steps.max() < 3 * steps.min()  # smooth, and closed


def test_rotated_digits_of_the_file_are_turned_as_we_turn(shared_data, monkeypatch):
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    X, label, angle = datasets.rotated_digits(rotations=36)
    with np.load(shared_data / datasets.ROTATED_FILE) as file:
        np.testing.assert_array_equal(X, file["X"][::10] / 255)
        np.testing.assert_array_equal(label, file["label"][::10])
        np.testing.assert_allclose(angle, file["angle"][::10])

    def answer(*, data_id, **_):
        assert data_id == 554
        rows = dict(zip((51230, 50147, 38261), X[::36] * 255))

        class Rows:
            def __getitem__(self, wanted):
                return [rows[row] for row in wanted]

        return Bunch(data=Rows())

    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    turned = datasets.rotated_digits(source="mnist", rotations=36)[0]
    np.testing.assert_allclose(turned, X, atol=0.51 / 255)  # the file is rounded to whole numbers


def test_rotated_digits_say_where_they_are_from(monkeypatch, tmp_path):
    monkeypatch.setenv("OUTFOLD_DATA", str(tmp_path))
    digits = datasets.rotated_digits(source="digits", rotations=4)[0]
    np.testing.assert_array_equal(datasets.rotated_digits(rotations=4)[0], digits)
    with pytest.raises(OSError, match=r"rotated_digits\.npz is not there. Set OUTFOLD_DATA"):
        datasets.rotated_digits(source="file")
    with pytest.raises(ValueError, match="none of 'auto'"):
        datasets.rotated_digits(source="emnist")
    with pytest.raises(ValueError, match="rotations=7 does not divide 360"):
        datasets.rotated_digits(rotations=7)
