"""Rows that Dask holds through a model: the same formula, lazily, to arrays, frames and files."""

from dataclasses import fields
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from catalogue import ALL_METHODS, NETWORKS, cloud, new_points, quietly, tolerance
from outfold import PHATE, DiffusionMaps, Roseland, SpectralClustering, load, plotting
from outfold.data import sources
from outfold.datasets import s_curve
from outfold.exceptions import FarPointsError
from outfold.extensions import LeastSquares
from outfold.methods import Islands
from outfold.selection import RemoveOutliers
from outfold.solvers import LowRank

X = s_curve(600, random_state=0)[0]
Z = new_points(X, 0, 40)


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(values, chunks):
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *values.shape[1:]))


def frame(values, partitions=3):
    return dd.from_pandas(pd.DataFrame(np.array(values), columns=list("abcdef")[: values.shape[1]]), partitions)


# -- a model and the rows of Dask ----------------------------------------------------------


@pytest.mark.parametrize("name", [*ALL_METHODS, *NETWORKS])
def test_every_method_gives_lazily_what_it_gives_at_once(name):
    method = (ALL_METHODS | NETWORKS)[name]
    rows = cloud(3, rows=40)
    fitted = quietly(method.fit, rows)
    new = new_points(rows, 3, 11)
    lazily = lazy(new, (4, 0, 1, 6))
    if getattr(getattr(fitted.model_, "extension", None), "batchwise", False):
        with pytest.raises(ValueError, match="Joint degrees"):
            fitted.transform(lazily)
        return
    expected = quietly(fitted.transform, new)
    close = tolerance(fitted, expected) if name in ALL_METHODS else 1e-10
    found = fitted.transform(lazily)
    assert found.chunks == ((4, 0, 1, 6), (expected.shape[1],))
    assert np.abs(found.compute() - expected).max() <= close
    judged, trust = fitted.trust(new), fitted.trust(lazily)
    for field in (field.name for field in fields(judged)):
        told = getattr(trust, field)
        if getattr(judged, field) is None:
            assert told is None
            continue
        assert told.shape == (11,)
        assert told.chunks == ((4, 0, 1, 6),)
        assert np.allclose(told.compute(), getattr(judged, field), rtol=1e-9, atol=100 * close)
    assert trust.error is None
    assert trust.flag.dtype == bool
    back = fitted.inverse_transform(lazy(expected, 5))
    assert back.chunks == ((5, 5, 1), (rows.shape[1],))
    assert np.allclose(back.compute(), fitted.inverse_transform(expected), rtol=1e-9, atol=1e-9)


def test_the_kind_of_number_is_that_of_the_rows():
    fitted = Roseland(3, landmarks=100, random_state=0).fit(X)
    found = fitted.transform(lazy(Z.astype(np.float32), 7))
    assert found.dtype == np.float32 == found.compute().dtype
    assert np.abs(found.compute() - quietly(fitted.transform, Z.astype(np.float32))).max() < 1e-5
    assert fitted.transform(lazy((10 * Z).astype(np.int32), 7)).dtype == np.float64


def test_rows_may_be_cut_into_columns_and_parts_of_unknown_size():
    fitted = Roseland(3, landmarks=100, random_state=0).fit(X)
    expected = quietly(fitted.transform, Z)
    cut = da.from_array(Z, chunks=(9, 2))
    assert np.abs(fitted.transform(cut).compute() - expected).max() < 1e-12
    unknown = frame(Z).to_dask_array()
    assert np.isnan(unknown.shape[0])
    assert np.abs(fitted.transform(unknown).compute() - expected).max() < 1e-12


def test_a_frame_gives_a_frame_with_its_index_and_divisions():
    rows = frame(X)
    fitted = Roseland(3, landmarks=100, random_state=0).fit(rows)
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    new = pd.DataFrame(Z, columns=list("abc"), index=np.arange(100, 140))
    lazily = dd.from_pandas(new, npartitions=3)
    found = fitted.transform(lazily)
    assert list(found.columns) == list(fitted.get_feature_names_out())
    assert found.divisions == lazily.divisions
    expected = quietly(fitted.transform, new)
    computed = found.compute()
    assert (computed.index == new.index).all()
    assert (computed.dtypes == found.dtypes).all()
    assert np.abs(computed.to_numpy() - expected).max() < 1e-12
    trust = fitted.trust(lazily)
    assert list(trust.columns) == [
        *("p_value", "score", "flag", "support", "isolation", "distance", "amplitude", "residual", "disagreement")
    ]
    assert trust.dtypes["flag"] == trust.compute().dtypes["flag"] == np.dtype(bool)
    assert np.allclose(trust.compute()["support"], fitted.trust(new).support)
    places, judged = fitted.transform(lazily, return_trust=True)
    assert np.abs(places.compute().to_numpy() - expected).max() < 1e-12
    assert list(judged.columns) == list(trust.columns)
    back = fitted.inverse_transform(found)
    assert list(back.columns) == ["a", "b", "c"]
    assert back.divisions == lazily.divisions
    assert np.allclose(back.compute().to_numpy(), fitted.inverse_transform(expected), atol=1e-8)
    with pytest.raises(ValueError, match="'c' instead of 'a'"):
        fitted.transform(lazily[["c", "b", "a"]])


def test_bands_are_told_once_calibrated():
    fitted = DiffusionMaps(2, landmarks=100, random_state=0).fit(lazy(X, 150))
    quietly(fitted.calibrate, lazy(X, 150), folds=4)
    expected = fitted.trust(Z, coverage=0.8)
    places, trust = fitted.transform(lazy(Z, 9), return_trust=True)
    assert np.allclose(fitted.trust(lazy(Z, 9), coverage=0.8).error.compute(), expected.error)
    assert (fitted.trust(lazy(Z, 9), level=0.3).flag.compute() == fitted.trust(Z, level=0.3).flag).all()
    assert (fitted.trust(Z, level=0.3).flag != expected.flag).any()
    assert trust.error.compute().shape == (40,)
    assert places.shape == (40, 2)


def test_clusters_of_lazy_rows():
    blobs = cloud(1, "clusters", rows=300)
    clusters = SpectralClustering(3, landmarks=100, random_state=0)
    labels = quietly(clusters.fit_predict, lazy(blobs, 70))
    assert labels.chunks == ((70, 70, 70, 70, 20),)
    assert labels.dtype == np.int64
    assert (labels.compute() == quietly(clusters.predict, blobs)).all()
    assert len(np.unique(labels.compute())) == 3
    with pytest.raises(AttributeError, match="keeps no labels_"):
        clusters.labels_  # noqa: B018
    named = quietly(clusters.fit, frame(blobs)).predict(frame(blobs))
    assert (named.compute().to_numpy() == labels.compute()).all()


def test_far_rows_are_answered_when_they_are_looked_at():
    fitted = Roseland(3, landmarks=100, random_state=0).fit(X)
    rows = Z[~fitted.trust(Z).flag]  # one row in a hundred is flagged
    rows[25] += 100
    lazily = lazy(rows, 10)
    fitted.transform(lazily).compute()  # does not warn: see trust
    assert np.isnan(fitted.transform(lazily, on_far="nan").compute()[25]).all()
    nearest = quietly(fitted.transform, rows, on_far="nearest")
    assert np.abs(fitted.transform(lazily, on_far="nearest").compute() - nearest).max() < 1e-12
    with pytest.raises(FarPointsError, match="row 25"):
        fitted.transform(lazily, on_far="raise").compute()
    with pytest.raises(ValueError, match="on_far"):
        fitted.transform(lazily, on_far="perhaps")


def test_distances_that_are_given_come_in_parts_too():
    from sklearn.metrics import pairwise_distances

    fitted = DiffusionMaps(2, metric="precomputed").fit(pairwise_distances(X[:80]))
    rows = pairwise_distances(Z, X[:80])
    assert np.abs(fitted.transform(lazy(rows, 9)).compute() - quietly(fitted.transform, rows)).max() < 1e-12
    known, trust = fitted.trust(rows), fitted.trust(lazy(rows, 9))
    assert trust.residual is None
    for name in ("p_value", "score", "isolation", "distance"):
        assert np.allclose(getattr(trust, name).compute(), getattr(known, name))


def test_a_model_from_a_file_is_as_good(tmp_path):
    Roseland(3, landmarks=100, random_state=0).fit(X).save(tmp_path / "m.outfold", embedding=True)
    for mmap in (False, True):
        fitted = load(tmp_path / "m.outfold", mmap=mmap)
        assert np.abs(fitted.transform(lazy(Z, 9)).compute() - quietly(fitted.transform, Z)).max() < 1e-12


def test_what_belongs_to_training_rows_does_not_travel():
    fitted = Roseland(3, landmarks=50, updatable=True, random_state=0).fit(X)
    from outfold.distributed.transform import _light

    light = _light(fitted)
    assert "embedding_" not in light.__dict__
    assert "_past" not in light.__dict__
    assert light.n_jobs == 1
    assert fitted.embedding_.shape == (600, 3)


# -- refused, and why ----------------------------------------------------------------------


def test_what_cannot_be_is_refused_before_anything_is_computed():
    fitted = Roseland(3, landmarks=100, random_state=0).fit(X)

    def never(block):
        raise AssertionError("nothing is to be computed")

    rows = da.from_array(X, chunks=(100, 3)).map_blocks(never, meta=np.empty((0, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but Roseland is expecting 3"):
        fitted.transform(rows[:, :2])
    with pytest.raises(ValueError, match="Z has 2 columns, but the embedding has 3"):
        fitted.inverse_transform(rows[:, :2])
    with pytest.raises(ValueError, match="rows and columns"):
        fitted.transform(rows[:, 0])
    with pytest.raises(ValueError, match="rows and columns"):
        Roseland().fit(rows[:, 0])
    with pytest.raises(ValueError, match="numbers are needed"):
        Roseland().fit(rows.astype("U5"))
    for method in (DiffusionMaps(), PHATE(landmarks=None), DiffusionMaps(landmarks=50, solver=LowRank())):
        with pytest.raises(ValueError, match="lies in parts"):
            method.fit(rows)
    with pytest.raises(ValueError, match="set_output"):
        Roseland(3, landmarks=100, random_state=0).fit(X).set_output(transform="pandas").transform(rows)
    joint = DiffusionMaps(coordinates="canonical", extension=LeastSquares(degrees="joint")).fit(X[:100])
    with pytest.raises(ValueError, match="Joint degrees"):
        joint.transform(rows)
    for call in (
        *(method.fit for method in NETWORKS.values()),
        RemoveOutliers().fit,
        RemoveOutliers().fit(X).transform,
        Islands().fit,
        Islands().fit(X).transform,
        plotting.embedding,
        plotting.decay,
        partial(plotting.kernel_sum, Roseland(3, landmarks=100, kernel="gaussian", random_state=0).fit(X)),
        partial(plotting.overlay, fitted),
        partial(plotting.trust_map, fitted),
    ):
        with pytest.raises(TypeError, match="rows in memory"):
            call(rows)


# -- files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".zarr", ".parquet"])
@pytest.mark.parametrize("chunks", [100, (1, 2, 297, 300), None], ids=str)
def test_an_embedding_goes_to_files_part_by_part(tmp_path, suffix, chunks):
    fitted = Roseland(3, landmarks=100, random_state=0).fit(X)
    expected = fitted.transform(X, on_far="keep")
    rows = frame(X).to_dask_array() if chunks is None else lazy(X, chunks)
    out = tmp_path / f"places{suffix}"
    out.mkdir()
    (out / "old").write_text("what was there")
    assert fitted.transform(rows, out=out) == out
    written = sources.open_rows(out)
    assert np.abs(written.array() - expected).max() < 1e-12
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    if suffix == ".parquet":
        assert written.names == list(fitted.get_feature_names_out())
        assert len(list(out.iterdir())) == rows.numblocks[0]


def test_a_failed_walk_leaves_no_file(tmp_path):
    fitted = Roseland(3, landmarks=100, random_state=0).fit(X)
    rows = X.copy()
    rows[333] = np.inf
    for suffix in (".zarr", ".parquet"):
        with pytest.raises(ValueError, match="infinity"):
            fitted.transform(lazy(rows, 100), out=tmp_path / f"places{suffix}")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"ending in \.zarr or \.parquet"):
        fitted.transform(lazy(X, 100), out=tmp_path / "places.npy")
