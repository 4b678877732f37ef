"""Data sets: on their manifolds, isometric where they say so, the same for the same seed."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outfold import datasets

GENERATORS = {
    "circle": datasets.circle,
    "sphere": datasets.sphere,
    "flat torus": datasets.flat_torus,
    "s curve": datasets.s_curve,
    "swiss roll": datasets.swiss_roll,
    "punched sphere": datasets.punched_sphere,
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
    "make", [datasets.circle, datasets.sphere, datasets.flat_torus, datasets.punched_sphere, *SHEETS.values()]
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


# -- red wine ------------------------------------------------------------------------------


def test_red_wine_is_found_in_the_data_folder_and_cleaned_to_its_distinct_rows(shared_data, monkeypatch):
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    X, y = datasets.fetch_red_wine(return_X_y=True)
    assert X.shape == (1599, 11)
    assert np.bincount(y)[3:].tolist() == [10, 53, 681, 638, 199, 18]
    distinct, quality = datasets.clean_red_wine(X, y)
    assert (len(distinct), len(quality)) == (1359, 1359)
    np.testing.assert_array_equal(distinct[:4], X[:4])  # row 4 repeats row 0
    np.testing.assert_array_equal(distinct[4], X[5])


def test_red_wine_by_path_names_its_features(shared_data):
    wine = datasets.fetch_red_wine(path=shared_data / datasets.WINE_FILE)
    assert wine.data.shape == (1599, len(wine.feature_names))
    assert wine.data[0, wine.feature_names.index("alcohol")] == 9.4


def test_red_wine_nowhere_names_every_way_to_get_it(monkeypatch, tmp_path):
    def offline(**_):
        raise ConnectionError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    monkeypatch.setenv("OUTFOLD_DATA", str(tmp_path))
    with pytest.raises(OSError, match=r"path=.*OUTFOLD_DATA.*OpenML's data set 40691"):
        datasets.fetch_red_wine()


def test_red_wine_falls_back_on_openml(monkeypatch):
    def answer(*, data_id, **_):
        assert data_id == 40691
        return np.ones((1599, 11)), np.full(1599, "5")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    monkeypatch.delenv("OUTFOLD_DATA", raising=False)
    X, y = datasets.fetch_red_wine(return_X_y=True)
    assert X.shape == (1599, 11)
    assert set(y.tolist()) == {5}


def test_a_path_that_was_given_is_the_only_place_looked_at(tmp_path):
    with pytest.raises(FileNotFoundError):
        datasets.fetch_red_wine(path=tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "not the red wine table"), ("", "not the red wine table"), (None, r"shape \(1, 11\)")],
    ids=["another table", "empty", "cut short"],
)
def test_a_file_that_is_not_the_table_is_refused(tmp_path, text, message):
    header = ";".join(f'"{name}"' for name in (*datasets.WINE_FEATURES, "quality"))
    file = tmp_path / "wine.csv"
    file.write_text(f"{header}\n{';'.join(['1'] * 12)}\n" if text is None else text)
    with pytest.raises(ValueError, match=message):
        datasets.fetch_red_wine(path=file)
