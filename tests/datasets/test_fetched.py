"""Data sets of files: found, cleaned as written, or refused with every way to get them."""

import numpy as np
import pytest
from sklearn.utils import Bunch

from outfold import datasets

FETCHERS = {
    "wine": (datasets.fetch_red_wine, 40691),
    "vowel": (datasets.fetch_vowel, 307),
    "ionosphere": (datasets.fetch_ionosphere, 59),
}

fetchers = pytest.mark.parametrize(("fetch", "number"), FETCHERS.values(), ids=FETCHERS.keys())


def test_red_wine_is_found_in_the_data_folder_and_cleaned_as_written(shared_data, monkeypatch):
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    X, y = datasets.fetch_red_wine(return_X_y=True)
    assert X.shape == (1599, 11)
    assert np.bincount(y)[3:].tolist() == [10, 53, 681, 638, 199, 18]
    clean, quality = datasets.clean_red_wine(X, y)
    assert clean.shape == (1148, 11)
    assert sorted(set(quality.tolist())) == [5, 6, 7]
    low, high = np.quantile(X[(y >= 5) & (y <= 7)], [0.25, 0.75], axis=0)
    assert (np.abs(clean - np.clip(clean, low, high)) <= 3 * (high - low)).all()
    assert len(np.unique(clean, axis=0)) == 1148
    assert len(datasets.clean_red_wine(*datasets.clean_red_wine(X, y, outliers=None))[0]) == 1151  # repeats go first


def test_red_wine_without_repeats_only(shared_data):
    X, y = datasets.fetch_red_wine(return_X_y=True, path=shared_data / datasets.WINE_FILE)
    distinct, quality = datasets.clean_red_wine(X, y, classes=None, outliers=None)
    assert (len(distinct), len(quality)) == (1359, 1359)
    np.testing.assert_array_equal(distinct[:4], X[:4])  # row 4 repeats row 0
    np.testing.assert_array_equal(distinct[4], X[5])


def test_cleaning_takes_one_step_after_the_other():
    X = np.array([[0.0], [1], [2], [3], [4], [13], [1], [400], [400]])
    y = np.array([5, 5, 6, 6, 7, 7, 5, 3, 3])
    assert datasets.clean_red_wine(X, y)[0].ravel().tolist() == [0, 1, 2, 3, 4]  # quartiles 1 and 3.5: 13 > 11
    assert datasets.clean_red_wine(X, y, outliers=4)[0].ravel().tolist() == [0, 1, 2, 3, 4, 13]
    assert datasets.clean_red_wine(X, y, classes=None)[0].ravel().tolist() == [0, 1, 2, 3, 4, 13]
    assert datasets.clean_red_wine(X, y, classes=(3,))[1].tolist() == [3]
    with pytest.raises(ValueError, match=r"X has shape \(9, 1\) and y \(8,\)"):
        datasets.clean_red_wine(X, y[:8])


def test_red_wine_by_path_names_its_features(shared_data):
    wine = datasets.fetch_red_wine(path=shared_data / datasets.WINE_FILE)
    assert wine.data.shape == (1599, len(wine.feature_names))
    assert wine.data[0, wine.feature_names.index("alcohol")] == 9.4


def test_vowels_of_the_file(shared_data, monkeypatch):
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    vowel = datasets.fetch_vowel()
    assert vowel.data.shape == (990, 10)
    assert vowel.data[0, [0, 9]].tolist() == [-3.639, -0.814]
    assert vowel.target[:12].tolist() == [*range(11), 0]
    assert np.bincount(vowel.target).tolist() == [90] * 11
    assert np.bincount(vowel.speaker).tolist() == [66] * 15
    assert vowel.train.sum() == 528
    assert sorted(set(vowel.speaker[vowel.train])) == list(range(8))
    assert sorted(set(vowel.speaker[vowel.sex == 1])) == [4, 5, 6, 7, 12, 13, 14]


def test_vowels_of_openml_are_those_of_the_file(shared_data, monkeypatch):
    file = datasets.fetch_vowel(path=shared_data / "vowel" / "vowel-context.data")
    names = "Andrew Bill David Mark Jo Kate Penny Rose Mike Nick Rich Tim Sarah Sue Wendy"
    columns = {"Speaker_Number": sorted(names.split()), "Sex": ["Male", "Female"], "Train_or_Test": ["Train", "Test"]}
    speaker = [columns["Speaker_Number"].index(names.split()[k]) for k in file.speaker]
    answer = Bunch(
        data=np.column_stack([~file.train, file.data[:, 5:], speaker, file.sex, file.data[:, :5]]),
        target=np.array([datasets.VOWELS[k] for k in file.target], dtype=object),
        feature_names=[
            "Train_or_Test",
            *(f"Feature_{k}" for k in range(5, 10)),
            "Speaker_Number",
            "Sex",
            *(f"Feature_{k}" for k in range(5)),
        ],
        categories=columns,
    )
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: answer)
    monkeypatch.delenv("OUTFOLD_DATA", raising=False)
    fetched = datasets.fetch_vowel()
    assert fetched.keys() == file.keys()
    for key in ("data", "target", "speaker", "sex", "train"):
        np.testing.assert_array_equal(fetched[key], file[key])
    del answer["categories"]
    assert "speaker" not in datasets.fetch_vowel()
    answer.target[3] = "hood"
    with pytest.raises(ValueError, match="no vowels of it: .*hood"):
        datasets.fetch_vowel()


def test_ionosphere_of_a_file_and_of_openml_are_the_same(tmp_path, monkeypatch):
    X = np.round(np.random.default_rng(0).uniform(-1, 1, (351, 34)), 5)
    letters = np.where(X[:, 0] > 0, "g", "b")
    (tmp_path / "ionosphere").mkdir()
    lines = [",".join([*map(str, row), letter]) for row, letter in zip(X, letters)]
    (tmp_path / "ionosphere" / "ionosphere.data").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("OUTFOLD_DATA", str(tmp_path))
    file = datasets.fetch_ionosphere(return_X_y=True)
    monkeypatch.delenv("OUTFOLD_DATA")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: Bunch(data=X, target=letters.astype(object)))
    for one, other, truth in zip(file, datasets.fetch_ionosphere(return_X_y=True), (X, X[:, 0] > 0)):
        np.testing.assert_array_equal(one, truth)
        np.testing.assert_array_equal(other, truth)


def test_faces_are_upright_pictures(shared_data, monkeypatch, tmp_path):
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    faces = datasets.fetch_faces()
    assert faces.data.shape == (698, 1024)
    assert faces.target.shape == (698, len(faces.target_names))
    np.testing.assert_array_equal(faces.images[5], faces.data[5].reshape(32, 32).T)
    monkeypatch.setenv("OUTFOLD_DATA", str(tmp_path))
    with pytest.raises(OSError, match=r"OUTFOLD_DATA is .*nowhere to be downloaded. Either pass path="):
        datasets.fetch_faces()
    np.savez(tmp_path / "other.npz", X=np.ones(3))
    with pytest.raises(ValueError, match=r"it holds \['X'\] and lacks \['light_pan_tilt_z'\]"):
        datasets.fetch_faces(path=tmp_path / "other.npz")


@fetchers
def test_a_table_that_is_nowhere_names_every_way_to_get_it(monkeypatch, tmp_path, fetch, number):
    def offline(*, data_id, **_):
        assert data_id == number
        raise ConnectionError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    monkeypatch.setenv("OUTFOLD_DATA", str(tmp_path))
    with pytest.raises(OSError, match=rf"path=.*OUTFOLD_DATA.*OpenML's data set {number} "):
        fetch()


def test_red_wine_falls_back_on_openml(monkeypatch):
    def answer(*, data_id, **_):
        assert data_id == 40691
        return Bunch(data=np.ones((1599, 11)), target=np.full(1599, "5"))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    monkeypatch.delenv("OUTFOLD_DATA", raising=False)
    X, y = datasets.fetch_red_wine(return_X_y=True)
    assert X.shape == (1599, 11)
    assert set(y.tolist()) == {5}


@fetchers
def test_a_path_that_was_given_is_the_only_place_looked_at(tmp_path, fetch, number):
    with pytest.raises(FileNotFoundError):
        fetch(path=tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n", "not the .*a"), ("1,2\n", "14 columns, and has 2"), ("", "not the"), ("1," * 13 + "1", r"\(1, 10\)")],
    ids=["words", "another table", "empty", "cut short"],
)
def test_a_file_that_is_not_the_vowels_is_refused(tmp_path, text, message):
    (tmp_path / "table").write_text(text)
    with pytest.raises(ValueError, match=message):
        datasets.fetch_vowel(path=tmp_path / "table")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "not the red wine table"), ("", "not the red wine table"), (None, r"shape \(1, 11\)")],
    ids=["another table", "empty", "cut short"],
)
def test_a_file_that_is_not_the_red_wine_is_refused(tmp_path, text, message):
    header = ";".join(f'"{name}"' for name in (*datasets.WINE_FEATURES, "quality"))
    file = tmp_path / "wine.csv"
    file.write_text(f"{header}\n{';'.join(['1'] * 12)}\n" if text is None else text)
    with pytest.raises(ValueError, match=message):
        datasets.fetch_red_wine(path=file)
