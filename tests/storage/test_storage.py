"""The model file: every estimator comes back to the last bit."""

import copy
import importlib.util
import json
import os
import pickle
import stat

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsTransformer

from catalogue import ALL_METHODS, cloud, quietly
from models import X, Z, assert_same_model, fitted
from outfold import (
    GRAE,
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    DiffusionNet,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    Roseland,
    SpectralClustering,
    graphs,
    load,
    storage,
    trust,
)
from outfold.bandwidths import Bandwidth
from outfold.distances import Metric
from outfold.engine import fit as engine_fit
from outfold.extensions import Barycentric, LeastSquares, domain
from outfold.landmarks import FarthestPoint
from outfold.methods import Islands

methods = pytest.mark.parametrize("estimator", ALL_METHODS.values(), ids=ALL_METHODS.keys())
both = pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])


@pytest.fixture(scope="module")
def small():
    return fitted(DiffusionMaps(2, n_neighbors=8))


# -- there and back ------------------------------------------------------------------------


@methods
def test_every_method_comes_back_to_the_last_bit(estimator, tmp_path):
    model = fitted(estimator)
    if hasattr(estimator.extension, "predict"):
        with pytest.raises(ValueError, match="extension=KNeighborsRegressor.*cannot be kept.*outfold.extensions"):
            model.save(tmp_path / "m")
        return
    if callable(getattr(estimator, "kernel", None)):
        with pytest.raises(ValueError, match="kernel=.*cannot be kept.*Pass a kernel by its name"):
            model.save(tmp_path / "m")
        return
    model.save(tmp_path / "m")
    assert_same_model(model, load(tmp_path / "m"))
    assert_same_model(model, load(tmp_path / "m", mmap=True))


@both
@pytest.mark.parametrize(
    "estimator",
    [
        DiffusionMaps(inverse="kernel_ridge"),
        Roseland(landmarks=30, n_neighbors=8, inverse="laplacian_pyramid", random_state=0),
        KernelPCA(kernel="rbf", gamma=0.3, inverse="barycentric"),
    ],
    ids=str,
)
def test_the_way_back_and_calibrated_bands_come_back(estimator, mmap, tmp_path):
    model = fitted(estimator)
    quietly(model.calibrate, X, folds=3)
    model.save(tmp_path / "before")  # the way back is not learnt yet, and will be by whoever asks
    back, error = model.inverse_transform(Z[:, :2]), model.round_trip_error_
    model.save(tmp_path / "after")
    for name in ("before", "after"):
        again = load(tmp_path / name, mmap=mmap)
        assert_same_model(model, again)
        assert np.isfinite(again.trust(X[:3]).error).all()
        assert np.array_equal(again.inverse_transform(Z[:, :2]), back)
        assert again.round_trip_error_ == error


@both
@pytest.mark.parametrize(
    "estimator",
    [
        DiffusionMaps(metric="precomputed"),
        DiffusionMaps(metric="precomputed", landmarks=0.5, random_state=0),
        DiffusionMaps(metric="precomputed", kernel="gaussian"),
        DiffusionMaps(metric="precomputed", kernel="gaussian", landmarks=0.5, random_state=0),
        DiffusionMaps(metric="precomputed", kernel="variable", landmarks=0.5, random_state=0),
        LaplacianEigenmaps(metric="precomputed", laplacian="unnormalized", landmarks=0.5, random_state=0),
        ClassicalMDS(metric="precomputed"),
        Isomap(metric="precomputed", n_neighbors=8),
        Isomap(metric="precomputed", n_neighbors=8, landmarks=20, random_state=0),
        LaplacianEigenmaps(kernel="precomputed"),
        KernelPCA(kernel="precomputed"),
    ],
    ids=str,
)
def test_given_matrices_come_back(estimator, mmap, tmp_path):
    def between(A):
        d = np.linalg.norm(A[:, None] - X, axis=2)
        return np.exp(-(d**2)) if getattr(estimator, "kernel", "") == "precomputed" else d

    model = fitted(estimator, between(X))
    model.save(tmp_path / "m")
    assert_same_model(model, load(tmp_path / "m", mmap=mmap), between(Z))


@both
@pytest.mark.parametrize(
    "estimator",
    [
        DiffusionMaps(coordinates="canonical", extension=LeastSquares("joint"), n_neighbors=9),
        DiffusionMaps(landmarks=X[:30], metric=Metric("minkowski", {"p": 3})),
        ClassicalMDS(metric="mahalanobis"),
        DiffusionMaps(n_neighbors=graphs.Union(8, search="cells")),
        Roseland(landmarks=FarthestPoint(0.5), extension=Barycentric(8), memory="1GB", checkpoint=None),
        DiffusionMaps("auto", extension="auto", n_jobs=1),
        Isomap(n_neighbors=6, landmarks=0.5, extension="net", inverse="linear", random_state=1),
    ],
    ids=lambda e: type(e).__name__,
)
def test_objects_as_parameters_come_back(estimator, mmap, tmp_path):
    model = fitted(estimator)
    model.save(tmp_path / "m")
    assert_same_model(model, load(tmp_path / "m", mmap=mmap))


@both
def test_missing_values_weights_float32_names_and_frames_come_back(mmap, tmp_path):
    import pandas as pd

    holes = X.copy()
    holes[::7, 1] = np.nan
    weights = np.arange(60) % 3.0
    frame = pd.DataFrame(X, columns=["x", "höhe", "z"]).astype(np.float32)
    for number, (estimator, data, new) in enumerate(
        [
            (DiffusionMaps(metric="nan_euclidean"), (holes, None, weights), Z),
            (LaplacianEigenmaps(n_neighbors=12), (X, None, weights + 1), Z),
            (Isomap(n_neighbors=12), (X, None, 3 * weights), Z),
            (KernelPCA(), (X.astype(np.float32),), Z.astype(np.float32)),
        ]
    ):
        model = fitted(estimator, *data)
        model.save(tmp_path / f"{number}")
        assert_same_model(model, load(tmp_path / f"{number}", mmap=mmap), new)
    model = DiffusionMaps(2).set_output(transform="pandas")
    quietly(model.fit, frame)
    model.save(tmp_path / "frame", embedding=True)
    again = load(tmp_path / "frame", mmap=mmap)
    assert again.transform(frame).equals(model.transform(frame))
    assert list(again.feature_names_in_) == ["x", "höhe", "z"]
    assert again.embedding_.dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"z": "w"}))


@both
def test_many_columns_fit_into_the_header(mmap, tmp_path):
    import pandas as pd

    names = [f"column number {i} of a table with long names of columns" for i in range(3000)]
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3000)), columns=names)
    model = fitted(KernelPCA(2), wide)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", mmap=mmap)
    assert list(again.feature_names_in_) == names
    assert np.array_equal(again.transform(wide), model.transform(wide))


@both
def test_the_order_of_bytes_in_an_array_does_not_matter(mmap, tmp_path):
    model = fitted(DiffusionMaps(landmarks=X[:30].astype(">f8")))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", mmap=mmap)
    assert np.array_equal(again.landmarks, X[:30])
    assert np.array_equal(again.transform(X), model.transform(X))


@both
def test_clusters_are_predicted_alike(mmap, tmp_path):
    for normalize in (False, True):
        model = fitted(SpectralClustering(3, normalize_rows=normalize))
        model.save(tmp_path / "m")
        again = load(tmp_path / "m", mmap=mmap)
        assert np.array_equal(again.predict(Z), model.predict(Z))
        with pytest.raises(AttributeError, match="keeps no labels_.*embedding=True"):
            again.labels_  # noqa: B018
        model.save(tmp_path / "m", embedding=True)
        assert np.array_equal(load(tmp_path / "m", mmap=mmap).labels_, model.labels_)


@both
def test_networks_come_back(mmap, tmp_path):
    pytest.importorskip("torch")
    for number, model in enumerate(
        [
            DiffusionNet(hidden=(6,), max_iter=4, random_state=0),
            DiffusionNet(hidden=(6,), max_iter=4, spectral=Isomap(n_neighbors=8), inverse="linear", random_state=0),
            GRAE(hidden=(6,), epochs=2, random_state=0),
            GRAE(hidden=(6,), epochs=2, target=X[:, :2], random_state=0),
            GRAE(hidden=(6,), epochs=2, target=fitted(PHATE(random_state=0)), random_state=0),
        ]
    ):
        model = quietly(model.fit, X)
        model.save(tmp_path / f"{number}")
        again = load(tmp_path / f"{number}", mmap=mmap)
        assert_same_model(model, again)
        assert np.array_equal(again.inverse_transform(Z[:, :2]), model.inverse_transform(Z[:, :2]))
        assert np.array_equal(again.reconstruct(Z), model.reconstruct(Z))
        assert np.array_equal(again.is_outlier(Z, 1.0), model.is_outlier(Z, 1.0))
        assert np.array_equal(again.sample(5, random_state=0), model.sample(5, random_state=0))
        assert again.n_iter_ == model.n_iter_
        if isinstance(model, DiffusionNet):
            with pytest.raises(AttributeError, match="keeps no spectral_"):
                again.score(X)
            model.save(tmp_path / "m", embedding=True)
            assert load(tmp_path / "m", mmap=mmap).score(X) == model.score(X)


@both
def test_islands_come_back(mmap, tmp_path):
    apart = np.vstack([X, X + 50])
    model = Islands(n_neighbors=8).fit(apart)
    model.save(tmp_path / "m", embedding=True)
    again = load(tmp_path / "m", mmap=mmap)
    assert len(again.pieces_) == 2
    assert np.array_equal(again.transform(Z), model.transform(Z))
    assert np.array_equal(again.labels_, model.labels_)


@both
@pytest.mark.parametrize("neighbours", [None, 8])
def test_a_loaded_model_is_updated_as_the_one_that_was_saved(mmap, neighbours, tmp_path):
    model = fitted(Roseland(landmarks=30, n_neighbors=neighbours, updatable=True, random_state=0))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", mmap=mmap)
    for one in (model, again):
        quietly(one.update, Z)
    assert_same_model(model, again)
    assert again.report_.drift.updates == 1
    again.save(tmp_path / "m")
    quietly(load(tmp_path / "m").update, Z)


@both
def test_a_loaded_model_can_be_fitted_calibrated_cloned_and_pickled(mmap, small, tmp_path):
    small.save(tmp_path / "m", embedding=True)
    model = load(tmp_path / "m", mmap=mmap)
    assert_same_model(small, copy.copy(model))
    assert_same_model(small, pickle.loads(pickle.dumps(model)))
    assert not hasattr(clone(model), "model_")
    quietly(model.calibrate, folds=3)
    assert np.isfinite(model.trust(X[:3]).error).all()
    model.save(tmp_path / "again")
    assert np.array_equal(load(tmp_path / "again").trust(X).error, model.trust(X).error)
    other = cloud(1, rows=50)
    quietly(model.fit, other)
    assert len(model.embedding_) == 50
    assert np.array_equal(model.transform(other), fitted(DiffusionMaps(2, n_neighbors=8), other).transform(other))
    with pytest.raises(ValueError, match="NaN"):
        load(tmp_path / "m", mmap=mmap).fit(np.full((5, 2), np.nan))


# -- what is kept --------------------------------------------------------------------------


@both
def test_the_embedding_is_kept_only_if_asked(mmap, small, tmp_path):
    small.save(tmp_path / "m")
    with pytest.raises(AttributeError, match=r"keeps no embedding_.*save\(path, embedding=True\).*transform"):
        load(tmp_path / "m", mmap=mmap).embedding_  # noqa: B018
    less = os.path.getsize(tmp_path / "m")
    small.save(tmp_path / "m", embedding=True)
    assert np.array_equal(load(tmp_path / "m", mmap=mmap).embedding_, small.embedding_)
    assert os.path.getsize(tmp_path / "m") >= less + small.embedding_.nbytes


@pytest.mark.parametrize(
    "estimator",
    [
        Roseland(landmarks=50, random_state=0),
        Roseland(landmarks=50, kernel="gaussian", random_state=0),
        Roseland(landmarks=50, n_neighbors=8, random_state=0),
        Roseland(landmarks=50, updatable=True, kernel="gaussian", random_state=0),
        DiffusionMaps(landmarks=50, random_state=0),
        SpectralClustering(3, landmarks=50, random_state=0),
        PHATE(landmarks=50, random_state=0),
        KernelPCA(kernel="rbf", gamma=0.2, landmarks=50, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_the_size_of_a_landmark_model_does_not_depend_on_the_rows(estimator, tmp_path, monkeypatch):
    """Beyond the sample of rows that it stores, here 100 of them."""
    for module, name in ((engine_fit, "REFERENCE_ROWS"), (domain, "REFERENCE_ROWS"), (trust, "MASSES")):
        monkeypatch.setattr(module, name, 100)
    sizes = []
    for rows in (1000, 4000):
        fitted(estimator, cloud(0, rows=rows)).save(tmp_path / "m")
        sizes.append(sum(a["bytes"] for a in storage.describe(tmp_path / "m")["arrays"].values()))
    assert sizes[0] == sizes[1] < 60_000


def test_an_updatable_model_of_nearest_landmarks_is_no_larger_than_one_of_all_pairs_of_landmarks(tmp_path, monkeypatch):
    """Its sums have an entry for two landmarks that a row has in common, so their number grows up to all pairs."""
    for module, name in ((engine_fit, "REFERENCE_ROWS"), (domain, "REFERENCE_ROWS"), (trust, "MASSES")):
        monkeypatch.setattr(module, name, 100)
    for rows in (1000, 4000, 16_000):
        for k in (8, 50):
            fitted(Roseland(landmarks=50, n_neighbors=k, updatable=True, random_state=0), cloud(0, rows=rows)).save(
                tmp_path / "m"
            )
            size = sum(a["bytes"] for a in storage.describe(tmp_path / "m")["arrays"].values())
            assert size < 60_000


def test_safetensors_reads_the_file(small, tmp_path):
    small.save(tmp_path / "m.safetensors")
    arrays = load_file(tmp_path / "m.safetensors")
    assert any(np.array_equal(a, small.eigenvalues_) for a in arrays.values())
    told = storage.describe(tmp_path / "m.safetensors")["arrays"]
    assert {n: (a.dtype.name, a.shape) for n, a in arrays.items()} == {
        n: (a["dtype"], a["shape"]) for n, a in told.items()
    }


def test_equal_arrays_are_kept_once(small, tmp_path):
    small.save(tmp_path / "m")
    contents = [(a.shape, a.tobytes()) for a in load_file(tmp_path / "m").values()]
    assert len(set(contents)) == len(contents)


@both
def test_what_was_done_to_a_table_goes_with_the_model(mmap, small, tmp_path):
    columns = tuple(f"column {i}" for i in range(100))
    preparation = Bandwidth(2.5, "any object of ours")
    if importlib.util.find_spec("outfold.data.columns"):
        kind = importlib.import_module("outfold.data.columns").Preparation
        preparation = kind(columns, scaling="standard", centre=np.arange(100.0), scale=np.ones(100))
    storage.save(small, tmp_path / "m", preparation=preparation)
    model, found = storage.open_model(tmp_path / "m", mmap=mmap)
    assert type(found) is type(preparation)
    for name, value in vars(preparation).items():
        assert np.array_equal(getattr(found, name), value)
    assert np.array_equal(model.transform(Z), small.transform(Z))
    assert storage.describe(tmp_path / "m")["preparation"]
    small.save(tmp_path / "m")
    assert storage.open_model(tmp_path / "m")[1] is None
    with pytest.raises(ValueError, match="preparation is an object"):
        storage.save(small, tmp_path / "m", preparation=object())


def test_a_file_tells_what_it_holds_without_its_arrays(tmp_path):
    model = fitted(Roseland(3, landmarks=X[:40], random_state=7))
    model.save(tmp_path / "m", embedding=True)
    told = storage.describe(tmp_path / "m")
    assert (told["method"], told["rows"], told["features"], told["components"]) == ("Roseland", 60, 3, 3)
    assert told["params"]["random_state"] == 7
    assert told["params"]["landmarks"] == "array"
    assert told["embedding"]
    assert not told["preparation"]
    assert told["bytes"] == os.path.getsize(tmp_path / "m")
    assert "Roseland" in told["report"]
    json.dumps(told)
    damaged = flipped((tmp_path / "m").read_bytes(), 8 * os.path.getsize(tmp_path / "m") - 1)  # in the last array
    (tmp_path / "m").write_bytes(damaged)
    assert storage.describe(tmp_path / "m") == told


def distance(a, b):
    return float(np.abs(a - b).sum())


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (DiffusionMaps(metric=distance), "metric=<function.*is a callable.*by its name"),
        (ClassicalMDS(metric=Metric(distance)), "metric=Metric.*is a callable"),
        (DiffusionMaps(kernel=lambda a, b: float(np.exp(-((a - b) ** 2).sum()))), "kernel=<function.*precomputed"),
        (KernelPCA(kernel=lambda a, b: float(a @ b)), "kernel=<function.*by its name"),
        (DiffusionMaps(extension=LinearRegression()), "extension=LinearRegression"),
        (DiffusionMaps(inverse=LinearRegression()), "inverse=LinearRegression"),
        (DiffusionMaps(random_state=np.random.RandomState(0)), "random_state=RandomState.*random_state=None"),
        (
            DiffusionMaps(n_neighbors=graphs.Union(6, search=KNeighborsTransformer(n_neighbors=30))),
            "n_neighbors=Union.*search='auto'",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_file_can_hold_is_refused_before_anything_is_written(estimator, message, tmp_path):
    model = quietly(estimator.fit, X)
    with pytest.raises(ValueError, match=message):
        model.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_fit_whose_numbers_are_wrong_is_not_kept(tmp_path):
    model = fitted(DiffusionMaps())
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    model.eigenvalues_ = model.eigenvalues_ * np.nan
    with pytest.raises(ValueError, match="cannot be kept.*eigenvalues_ has 2 entries that are NaN"):
        model.save(tmp_path / "m")
    model = fitted(DiffusionMaps())
    model.note = "my own"
    with pytest.raises(ValueError, match="attribute 'note'"):
        model.save(tmp_path / "m")
    with pytest.raises(NotFittedError):
        DiffusionMaps().save(tmp_path / "m")
    with pytest.raises(TypeError, match="LinearRegression is not a method of Outfold"):
        storage.save(LinearRegression(), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


# -- writing -------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_model_is_saved_through_a_link_and_keeps_the_mode_of_the_old_one(small, tmp_path):
    (tmp_path / "v1").write_text("older")
    (tmp_path / "v1").chmod(0o640)
    (tmp_path / "m").symlink_to("v1")
    small.save(tmp_path / "m")
    assert os.readlink(tmp_path / "m") == "v1"
    assert stat.S_IMODE((tmp_path / "v1").lstat().st_mode) == 0o640
    assert_same_model(small, load(tmp_path / "m"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "f").symlink_to("folder")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        small.save(tmp_path / "f")
    assert sorted(os.listdir(tmp_path)) == ["f", "folder", "m", "v1"]


def test_a_folder_is_not_replaced(small, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_text("data")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        small.save(tmp_path / "folder")
    assert (tmp_path / "folder" / "precious").read_text() == "data"
    with pytest.raises(OSError, match="nothing was put in its place. Is there such a folder?"):
        small.save(tmp_path / "nowhere" / "m")


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_bridges_between_components_come_back(tmp_path):
    X = np.vstack([cloud(0, rows=40), cloud(1, rows=40) + 100])
    joined = DiffusionMaps(2, n_neighbors=6, components="join").fit(X)
    assert joined.model_.rule.geometry.bridges.nnz > 0
    joined.save(tmp_path / "joined.outfold")
    np.testing.assert_array_equal(load(tmp_path / "joined.outfold").transform(X), joined.transform(X))
