"""Fits of rows that Dask holds: the same wherever they lie; nothing of their size comes together."""

import sys

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.local import get_sync
from scipy.spatial.distance import cdist

from catalogue import new_points, quietly
from outfold import PHATE, DiffusionMaps, KernelPCA, LaplacianEigenmaps, Roseland, graphs, landmarks
from outfold._runtime.threads import Threads
from outfold.data import sources
from outfold.datasets import s_curve
from outfold.distributed import rows as dask_rows
from outfold.operators import heat_potential, landmark_passes

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


# -- refused, and why ----------------------------------------------------------------------


def test_bad_values_are_named_by_their_row():
    rows = X.copy()
    rows[450, 1] = np.nan
    for choice in (landmarks.Points(X[:50]), 600):
        with pytest.raises(ValueError, match=r"rows 400 to 499 of the Dask array .* first is row 450"):
            Roseland(landmarks=choice).fit(lazy(rows, 100))
    with pytest.raises(ValueError, match="NaN"):
        Roseland(landmarks=50, random_state=0).fit(X).transform(lazy(rows, 100)).compute()


def shorter(values, chunks, part, rows):
    """An array one of whose parts has fewer rows, or more, than the array says."""

    def change(block, block_info=None):
        return np.resize(block, (rows, *block.shape[1:])) if block_info[0]["chunk-location"][0] == part else block

    return lazy(values, chunks).map_blocks(change, dtype=float)


@pytest.mark.parametrize("rows", [99, 101, 0])
def test_a_part_of_another_length_than_the_array_says_is_refused_by_its_number(rows):
    X_ = shorter(X, 100, 2, rows)
    told = rf"Part 2 of the Dask array \(600 x 3 in 6 parts\) should hold rows 200 to 299, .* shape is \({rows}, 3\)"
    for method in (
        Roseland(landmarks=50, random_state=0),
        Roseland(landmarks=landmarks.Points(X[:50])),
        DiffusionMaps(landmarks=50, random_state=0),
    ):
        with pytest.raises(ValueError, match=told):
            method.fit(X_)
    model = Roseland(landmarks=50, random_state=0).fit(X)
    with pytest.raises(ValueError, match=told):
        model.transform(X_).compute()
    with pytest.raises(ValueError, match=told):
        model.trust(X_).p_value.compute()


def test_a_part_of_the_weights_of_another_length_is_refused():
    weights = shorter(np.ones(600) + (np.arange(600) % 2), 100, 3, 90)
    with pytest.raises(ValueError, match=r"Part 3 of sample_weight has shape \(90,\) for 100 rows, those from 300"):
        Roseland(landmarks=landmarks.Points(X[:50])).fit(lazy(X, 100), sample_weight=weights)


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


FITS = {
    "roseland": Roseland(3, landmarks=150, random_state=0),
    "roseland plain": Roseland(3, landmarks=150, alpha=0, t=2, random_state=0),
    "roseland nearest": Roseland(3, landmarks=150, n_neighbors=12, random_state=0),
    "roseland threshold": Roseland(3, landmarks=150, epsilon=0.05, threshold=1e-3, random_state=0),
    "roseland ball": Roseland(3, landmarks=X[::5], n_neighbors=graphs.Ball(0.5), updatable=True),
    "roseland self-tuning": Roseland(3, landmarks=150, kernel="self_tuning", random_state=0),
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


# -- fits ----------------------------------------------------------------------------------


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
    monkeypatch.setattr(landmark_passes, "GRAM_BYTES", 20_000)
    pieces = []
    kept = dask_rows.DaskRows.walk_pieces

    def walk_pieces(rows, look, join, count, **options):
        pieces.append((count, options.get("apart")))
        return kept(rows, look, join, count, **options)

    monkeypatch.setattr(dask_rows.DaskRows, "walk_pieces", walk_pieces)
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
    monkeypatch.setattr(landmark_passes, "SAMPLED_ROWS", 500)
    monkeypatch.setattr(heat_potential, "SAMPLED_ROWS", 500)
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


def test_given_affinities_may_lie_in_parts():
    W = np.exp(-(cdist(X, X[::6]) ** 2))
    here = quietly(Roseland(3, kernel="precomputed").fit, W)
    there = quietly(Roseland(3, kernel="precomputed").fit, lazy(W, 100))
    assert np.abs(here.eigenvalues_ - there.eigenvalues_).max() < 1e-12
    found = there.transform(lazy(W, 100), on_far="keep").compute()
    assert np.abs(found - here.embedding_).max() < 1e-9


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
        """Rows whose part 4 cannot be read once: at the read number ``stage``."""
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

    from outfold.data import checkpoints

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_rows, "worker_threads", lambda: 2)  # parts in a wave
        patch.setattr(checkpoints.Checkpoint, "keep", _always(checkpoints.Checkpoint.keep))
        with pytest.raises(OSError, match="lost"):
            method.fit(dies(4, 100))  # 1: fingerprint, 2: landmarks, 3: first pass
    assert {path.stem for path in (tmp_path / "kept").iterdir()} == {"fit", "first-pass", "second-pass"}
    seen.clear()
    found = method.fit(dies(99, (150, 100, 100, 50, 200))).transform(Z, on_far="keep")
    assert np.abs(found - expected).max() < 1e-10
    walked = [at for at in seen if seen.count(at) == 4]  # fingerprint, landmarks, rest of the second pass, sample
    assert set(walked) == {400}
    assert not list((tmp_path / "kept").iterdir())


def _always(keep):
    return lambda self, stage, state, *, done: keep(self, stage, state, done=True)


# -- one verb for rows ---------------------------------------------------------------------


class Sums:
    """A look that is sent to the rows."""

    def __call__(self, points, measure, start):
        assert Threads(8).workers == 1  # a worker has one thread for it
        assert np.array_equal(points, X[start : start + len(points)])
        return measure @ points


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("start", [0, 250])
def test_a_sum_over_parts_is_that_of_the_array(chunks, start):
    weights = np.random.default_rng(0).uniform(size=600)
    rows = sources.open_rows(lazy(X, chunks))
    assert rows.in_parts
    dask_weights = sources.collection(lazy(weights, 70)).weights(lazy(weights, 70), rows, unit=1.0)
    for measure in (None, weights, dask_weights):
        found = rows.reduce(Sums(), np.add, measure=measure, runner=Threads(), title="sums", start=start)
        wanted = (np.ones(600) if measure is None else weights)[start:] @ X[start:]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(TypeError, match="these are Dask's"):
        sources.require_in_memory(lazy(X, chunks))


def test_pieces_of_an_answer_are_joined_each_on_its_own():
    rows = sources.open_rows(lazy(X, 100))
    options = {"measure": None, "runner": Threads(), "title": "pieces"}
    whole = rows.walk_pieces(lambda points, measure, start: tuple(points.sum(axis=0)), np.add, 3, **options)
    apart = rows.walk_pieces(
        lambda points, measure, start, piece: points[:, piece].sum(), np.add, 3, apart=True, **options
    )
    for found in (whole, apart):
        np.testing.assert_allclose(sum(np.array(pieces) for _, pieces in found), X.sum(axis=0), rtol=1e-12)


# -- files ---------------------------------------------------------------------------------


def test_rows_from_zarr_and_parquet(tmp_path):
    import zarr

    store = zarr.open(str(tmp_path / "x.zarr"), mode="w", shape=X.shape, chunks=(90, 3), dtype=float)
    store[:] = X
    frame(X).to_parquet(tmp_path / "x.parquet")
    method = Roseland(3, landmarks=100, random_state=0)
    expected = method.fit(X).eigenvalues_
    for rows in (da.from_zarr(str(tmp_path / "x.zarr")), dd.read_parquet(tmp_path / "x.parquet")):
        assert np.abs(method.fit(rows).eigenvalues_ - expected).max() < 1e-12
