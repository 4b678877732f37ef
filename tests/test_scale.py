"""Rows that Dask holds: the same fits, the same formula, lazily; nothing of their size comes together."""

import sys
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.local import get_sync

from catalogue import ALL_METHODS, NETWORKS, cloud, new_points, quietly, tolerance
from outfold import (
    PHATE,
    DiffusionMaps,
    KernelPCA,
    LaplacianEigenmaps,
    Roseland,
    SpectralClustering,
    _passes,
    landmarks,
    load,
    plan,
    plotting,
    potential,
    scale,
    sources,
)
from outfold.datasets import s_curve
from outfold.exceptions import FarPointsError
from outfold.leastsquares import LeastSquares
from outfold.methods.islands import Islands
from outfold.outliers import RemoveOutliers
from outfold.solvers import LowRank

X = s_curve(600, random_state=0)[0]
Z = new_points(X, 0, 40)
CHUNKS = [600, 100, (1, 2, 297, 0, 300), (599, 1)]


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
    for field in ("support", "flag", "distance", "residual", "disagreement"):
        told = getattr(trust, field)
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
    assert list(trust.columns) == ["support", "flag", "distance", "residual", "disagreement"]
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
    fitted = DiffusionMaps(2, landmarks=100, random_state=0).fit(lazy(X, 150)).calibrate(lazy(X, 150), folds=4)
    expected = fitted.trust(Z, coverage=0.8)
    places, trust = fitted.transform(lazy(Z, 9), return_trust=True)
    assert np.allclose(fitted.trust(lazy(Z, 9), coverage=0.8).error.compute(), expected.error)
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
    rows = Z.copy()
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
    assert fitted.trust(lazy(rows, 9)).distance is None


def test_a_model_from_a_file_is_as_good(tmp_path):
    Roseland(3, landmarks=100, random_state=0).fit(X).save(tmp_path / "m.outfold", embedding=True)
    for mmap in (False, True):
        fitted = load(tmp_path / "m.outfold", mmap=mmap)
        assert np.abs(fitted.transform(lazy(Z, 9)).compute() - quietly(fitted.transform, Z)).max() < 1e-12


def test_what_belongs_to_training_rows_does_not_travel():
    fitted = Roseland(3, landmarks=50, updatable=True, random_state=0).fit(X)
    from outfold._lazy import _light

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
        partial(plotting.kernel_sum, fitted),
        partial(plotting.overlay, fitted),
        partial(plotting.trust_map, fitted),
    ):
        with pytest.raises(TypeError, match="rows in memory"):
            call(rows)


def test_bad_values_are_named_by_their_row():
    rows = X.copy()
    rows[450, 1] = np.nan
    for choice in (landmarks.Points(X[:50]), 600):
        with pytest.raises(ValueError, match=r"rows 400 to 499 of the Dask array .* first is row 450"):
            Roseland(landmarks=choice).fit(lazy(rows, 100))
    with pytest.raises(ValueError, match="NaN"):
        Roseland(landmarks=50, random_state=0).fit(X).transform(lazy(rows, 100)).compute()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(600), "finite and >= 0"),
        (np.ones(599), "599 entries for 600"),
        (np.ones((600, 1)), "1D"),
        (np.full(600, np.nan), "finite"),
        (np.r_[1.0, np.zeros(599)], "zero for all but 1"),
    ],
)
def test_bad_weights_are_refused_as_in_memory(weights, message):
    for rows, given in ((lazy(X, 100), lazy(weights, 70)), (X, weights)):
        with pytest.raises(ValueError, match=message):
            Roseland(landmarks=50).fit(rows, sample_weight=given)


# -- fits ----------------------------------------------------------------------------------

FITS = {
    "roseland": Roseland(3, landmarks=150, random_state=0),
    "roseland plain": Roseland(3, landmarks=150, alpha=0, t=2, random_state=0),
    "roseland nearest": Roseland(3, landmarks=150, n_neighbors=12, random_state=0),
    "roseland k-means": Roseland(3, landmarks=landmarks.KMeans(60), random_state=0),
    "roseland inverse density": Roseland(3, landmarks=landmarks.InverseDensity(0.2), random_state=0),
    "roseland points": Roseland(3, landmarks=X[::5]),
    "roseland extended": Roseland(3, landmarks=150, extension="kernel_ridge", random_state=0),
    "roseland slope": Roseland(3, landmarks=150, epsilon="slope", random_state=0),
    "roseland percentile": Roseland(3, landmarks=150, epsilon="percentile", n_neighbors=40, random_state=0),
    "diffusion maps": DiffusionMaps(3, landmarks=150, random_state=0),
    "diffusion maps farthest": DiffusionMaps(3, landmarks=landmarks.FarthestPoint(100)),
    "diffusion maps median": DiffusionMaps(3, landmarks=landmarks.MinDistance(100), epsilon="median", random_state=0),
    "laplacian eigenmaps": LaplacianEigenmaps(3, landmarks=0.3, n_neighbors=12, random_state=0),
    "kernel pca": KernelPCA(3, kernel="rbf", gamma=0.5, landmarks=landmarks.RPCholesky(50), random_state=0),
    "phate": PHATE(2, landmarks=100, mds="classical", random_state=0),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_a_fit_does_not_depend_on_where_rows_lie(name, chunks):
    method = FITS[name]
    here = quietly(method.fit, X)
    expected = here.transform(Z, on_far="keep")
    epsilon, values, support = here.report_.epsilon, here.eigenvalues_, here.trust(Z).support
    there = quietly(method.fit, lazy(X, chunks))
    assert there.report_.epsilon == pytest.approx(epsilon, rel=1e-12, nan_ok=True)
    assert np.abs(there.eigenvalues_ - values).max() < 1e-10
    assert np.abs(there.transform(Z, on_far="keep") - expected).max() < 1e-10 * max(1, np.abs(expected).max())
    assert np.allclose(there.trust(Z).support, support, atol=1e-10)
    assert there.report_.n_samples == 600
    with pytest.raises(AttributeError, match="keeps no embedding_"):
        there.embedding_  # noqa: B018


@pytest.mark.parametrize("name", ["roseland", "roseland nearest", "roseland k-means", "diffusion maps", "phate"])
@pytest.mark.parametrize("kind", ["counts", "shares", "some are zero"])
def test_weights_may_lie_in_parts(name, kind):
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 4, 600).astype(float) if kind == "counts" else rng.uniform(0.1, 3, 600)
    if kind == "some are zero":
        weights[rng.integers(0, 600, 200)] = 0
    method = FITS[name]
    expected = quietly(method.fit, X, sample_weight=weights).transform(Z, on_far="keep")
    for given in (lazy(weights, (100, 499, 1)), weights, dd.from_pandas(pd.Series(weights), npartitions=2)):
        found = quietly(method.fit, lazy(X, (250, 350)), sample_weight=given).transform(Z, on_far="keep")
        assert np.abs(found - expected).max() < 1e-10 * max(1, np.abs(expected).max())
    here = quietly(method.fit, X, sample_weight=lazy(weights, 100)).transform(Z, on_far="keep")
    assert np.array_equal(here, expected)


@pytest.mark.parametrize("neighbours", [None, 12])
def test_a_large_gram_matrix_is_summed_up_in_pieces(monkeypatch, neighbours):
    method = Roseland(3, landmarks=150, n_neighbors=neighbours, random_state=0)
    expected = method.fit(X).transform(Z, on_far="keep")
    monkeypatch.setattr(_passes, "GRAM_BYTES", 20_000)
    pieces = []
    kept = scale.Spread.joined
    monkeypatch.setattr(
        scale.Spread, "joined", lambda *a, **k: (pieces.append((k.get("pieces"), k.get("apart"))), kept(*a, **k))[1]
    )
    found = method.fit(lazy(X, 100)).transform(Z, on_far="keep")
    assert np.abs(found - expected).max() < 1e-10
    assert pieces[-1][0] > 4
    assert pieces[-1][1] is (neighbours is None)


def test_an_update_takes_rows_in_parts():
    first, more = X[::2], X[1::2]
    for kind in (None, "weights"):
        weights = None if kind is None else np.random.default_rng(0).uniform(0.5, 2, 300)
        given = None if weights is None else lazy(weights, 70)
        here = Roseland(3, landmarks=100, updatable=True, random_state=0).fit(first, sample_weight=weights)
        there = Roseland(3, landmarks=100, updatable=True, random_state=0).fit(lazy(first, 80), sample_weight=given)
        quietly(here.update, more, sample_weight=weights)
        quietly(there.update, lazy(more, 90), sample_weight=given)
        assert np.abs(here.transform(Z, on_far="keep") - there.transform(Z, on_far="keep")).max() < 1e-10


@pytest.mark.parametrize("name", ["roseland nearest", "roseland", "roseland k-means", "diffusion maps", "phate"])
def test_nothing_of_the_size_of_the_rows_comes_together(name, monkeypatch):
    monkeypatch.setattr(_passes, "SAMPLED_ROWS", 500)
    monkeypatch.setattr(potential, "SAMPLED_ROWS", 500)
    monkeypatch.setattr(landmarks, "POOL_BYTES", 24_000)
    count = 100_000
    came = []

    def watched(graph, keys, **options):
        found = get_sync(graph, keys, **options)
        came.append(_size(found))
        return found

    tile = da.from_array(X, chunks=(600, 3))
    rows = da.concatenate([tile + 1e-9 * at for at in range(count // 600)])
    weights = da.ones(rows.shape[0], chunks=5000) + 0.5 * da.arange(rows.shape[0], chunks=5000) / count
    with dask.config.set(scheduler=watched):
        method = FITS[name]
        fitted = quietly(method.fit, rows.rechunk((5000, 3)), sample_weight=weights)
        fitted.transform(rows), fitted.trust(rows)
    assert fitted.report_.n_samples == rows.shape[0]
    assert len(came) > 2
    assert max(came) < 4 * count  # half a number a row


def _size(found):
    if isinstance(found, list | tuple):
        return sum(map(_size, found))
    if hasattr(found, "__dataclass_fields__"):
        return sum(_size(getattr(found, name)) for name in found.__dataclass_fields__)
    if hasattr(found, "indptr"):
        return found.data.nbytes + found.indices.nbytes
    return getattr(found, "nbytes", sys.getsizeof(found))


def test_a_checkpoint_takes_the_fit_up_where_it_was_in_other_parts_too(tmp_path):
    method = Roseland(3, landmarks=100, n_neighbors=12, random_state=0, checkpoint=tmp_path / "kept")
    expected = Roseland(3, landmarks=100, n_neighbors=12, random_state=0).fit(X).transform(Z, on_far="keep")
    seen = []

    def dies(stage, parts):
        """Rows whose part 4 cannot be read the third time and later: drawn, first pass, second pass."""
        count = {"reads": 0}

        def read(block, block_info=None):
            at = block_info[0]["array-location"][0][0]
            if at == 400:
                count["reads"] += 1
                if count["reads"] == stage:
                    raise OSError("lost")
            seen.append(at)
            return block

        return da.from_array(X, chunks=(parts, 3)).map_blocks(read, dtype=float, meta=np.empty((0, 3)))

    from outfold import checkpoints

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "_threads", lambda: 2)  # parts in a wave
        patch.setattr(checkpoints.Checkpoint, "keep", _always(checkpoints.Checkpoint.keep))
        with pytest.raises(OSError, match="lost"):
            method.fit(dies(4, 100))  # 1: fingerprint, 2: landmarks, 3: first pass
    assert {path.stem for path in (tmp_path / "kept").iterdir()} == {"fit", "first-pass", "second-pass"}
    seen.clear()
    found = method.fit(dies(99, (150, 100, 100, 50, 200))).transform(Z, on_far="keep")
    assert np.abs(found - expected).max() < 1e-10
    walked = [at for at in seen if seen.count(at) == 3]  # fingerprint, landmarks, rest of the second pass
    assert set(walked) == {400}
    assert not list((tmp_path / "kept").iterdir())


def _always(keep):
    return lambda self, stage, state, *, done: keep(self, stage, state, done=True)


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
    written = sources.opened(out)
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


def test_rows_from_zarr_and_parquet(tmp_path):
    import zarr

    store = zarr.open(str(tmp_path / "x.zarr"), mode="w", shape=X.shape, chunks=(90, 3), dtype=float)
    store[:] = X
    frame(X).to_parquet(tmp_path / "x.parquet")
    method = Roseland(3, landmarks=100, random_state=0)
    expected = method.fit(X).eigenvalues_
    for rows in (da.from_zarr(str(tmp_path / "x.zarr")), dd.read_parquet(tmp_path / "x.parquet")):
        assert np.abs(method.fit(rows).eigenvalues_ - expected).max() < 1e-12


# -- plans ---------------------------------------------------------------------------------


def test_a_plan_for_workers():
    method = Roseland(10, landmarks=10_000)
    one, two = (plan((20_000_000, 3), method, workers=count) for count in (1, 2))
    assert [stage.name for stage in two.stages] == ["landmarks", "first pass", "second pass", "solve"]
    assert 1.7 < one.seconds / two.seconds < 2.1
    assert two.peak < 2e9
    assert "on 2 workers" in str(two)
    assert "MB moved" in str(two)
    assert two.moved > 2 * 20_000_000 * 24  # both passes read all rows
    large = plan((10**9, 50), method, workers=100)
    assert large.parts > 100
    assert large.peak < 4e9
    assert plan(lazy(X, 100), Roseland(landmarks=100), workers=2).parts == 6
    assert plan((10**6, 3), DiffusionMaps(landmarks=1000), workers=2).stages[0].name == "landmarks"
    dense = plan((10**6, 3), Roseland(landmarks=8000, n_neighbors=None), workers=2)
    assert dense.edges == "all landmarks"
    assert dense.seconds > one.seconds / 20
    for bad in (0, -1):
        with pytest.raises(ValueError, match="workers"):
            plan((1000, 3), method, workers=bad)
    with pytest.raises(ValueError, match="without landmarks"):
        plan((1000, 3), DiffusionMaps(), workers=2)


@pytest.mark.parametrize("neighbours", [None, 12])
def test_a_plan_can_be_measured(neighbours):
    method = Roseland(3, landmarks=100, n_neighbors=neighbours)
    for rows in (lazy(X, 100), X, X.shape):
        found = plan(rows, method, workers=2, measured=True)
        assert 0 < found.stages[1].seconds < 60
        assert found.stages[1].seconds != plan(rows, method, workers=2).stages[1].seconds
