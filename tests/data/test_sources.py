"""Rows that are not in memory: whatever they come from, fit and transform are those of the array."""

import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, Roseland
from outfold._runtime.threads import Threads
from outfold.data import sources
from outfold.datasets import s_curve
from outfold.exceptions import FarPointsError, FarPointsWarning
from outfold.landmarks import FarthestPoint, InverseDensity, KMeans, MinDistance, RPCholesky

X = s_curve(700, random_state=0)[0]
NAMES = ["x", "y", "z"]


def as_npy(folder, values=X, name="rows.npy"):
    np.save(folder / name, values)
    return folder / name


def as_parquet(folder, values=X, name="rows.parquet"):
    table = pa.table({n: values[:, i] for i, n in enumerate(NAMES)})
    pq.write_table(table, folder / name, row_group_size=97)
    return folder / name


def as_zarr(folder):
    store = zarr.open(str(folder / "rows.zarr"), mode="w", shape=X.shape, chunks=(89, 2), dtype=X.dtype)
    store[:] = X
    return folder / "rows.zarr"


def as_hdf5(folder):
    file = h5py.File(folder / "rows.h5", "w")
    return file.create_dataset("rows", data=X)


def as_parquet_folder(folder):
    (folder / "parts").mkdir()
    as_parquet(folder / "parts", X[:300], "a.parquet")
    as_parquet(folder / "parts", X[300:], "b.parquet")
    return folder / "parts"


KINDS = {
    "memmap": lambda folder: np.load(as_npy(folder), mmap_mode="r"),
    "memmap of float32": lambda folder: np.load(as_npy(folder, X.astype(np.float32)), mmap_mode="r"),
    "npy": as_npy,
    "list of npy": lambda folder: [str(as_npy(folder, X[:50], "a.npy")), as_npy(folder, X[50:], "b.npy")],
    "parquet": as_parquet,
    "folder of parquet": as_parquet_folder,
    "zarr path": as_zarr,
    "zarr array": lambda folder: zarr.open(str(as_zarr(folder)), mode="r"),
    "hdf5": as_hdf5,
    "function": lambda folder: lambda: (X[a : a + 111] for a in range(0, 700, 111)),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def source(request, tmp_path):
    return request.param(tmp_path)


def plain(source):
    """The rows the array has that the source stands for."""
    return X.astype(np.float32).astype(float) if getattr(source, "dtype", None) == np.float32 else X


@pytest.mark.parametrize("n_neighbors", [None, 8])
def test_a_fit_of_any_source_is_that_of_the_array(source, n_neighbors):
    here = Roseland(3, landmarks=60, n_neighbors=n_neighbors, random_state=0).fit(plain(source))
    there = Roseland(3, landmarks=60, n_neighbors=n_neighbors, random_state=0).fit(source)
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-12)
    got = there.transform(source)
    np.testing.assert_allclose(got, here.transform(plain(source)), atol=1e-10)
    assert there.n_features_in_ == 3
    assert there.report_.n_samples == 700
    with pytest.raises(AttributeError, match="call transform"):
        there.embedding_  # noqa: B018


@pytest.mark.parametrize("rows", [1, 64, 700, 1000])
def test_blocks_are_the_rows_in_order_from_any_block_on(source, rows):
    opened = sources.open_rows(source)
    assert opened.shape == (700, 3)
    assert len(opened) == 700
    for start in (0, rows):
        found = list(opened.blocks(rows, start))
        assert [b.start for b, _ in found] == list(range(start, 700, rows))
        assert all(len(part) == b.stop - b.start for b, part in found)
        if found:
            np.testing.assert_array_equal(np.vstack([part for _, part in found]), plain(source)[start:])
    index = np.array([0, 3, 64, 65, 699])
    np.testing.assert_array_equal(opened.take(index), plain(source)[index])
    np.testing.assert_array_equal(opened.array(), plain(source))
    assert opened.fingerprint() == sources.open_rows(source).fingerprint()


@pytest.mark.parametrize(
    "method",
    [DiffusionMaps(2, landmarks=60), LaplacianEigenmaps(2, landmarks=60), KernelPCA(2, landmarks=60),
     ClassicalMDS(2, landmarks=60)],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_every_landmark_method_goes_through_blocks(method, tmp_path):
    method.set_params(random_state=0)
    path = as_npy(tmp_path)
    here, there = method.fit(X).transform(X), method.fit(path).transform(path)
    assert not hasattr(method, "embedding_")
    np.testing.assert_allclose(there, here, atol=1e-12)


def test_other_methods_read_what_fits_into_memory(tmp_path):
    path = as_parquet(tmp_path)
    np.testing.assert_allclose(Isomap(2).fit(path).embedding_, Isomap(2).fit(X).embedding_, atol=1e-12)
    np.testing.assert_allclose(DiffusionMaps(2).fit(path).embedding_, DiffusionMaps(2).fit(X).embedding_, atol=1e-12)


@pytest.mark.parametrize("choice", [KMeans, FarthestPoint, MinDistance, InverseDensity, RPCholesky])
def test_landmarks_of_a_source_are_those_of_the_array(choice, tmp_path):
    path = as_npy(tmp_path)
    here, there = (Roseland(2, landmarks=choice(40), random_state=0).fit(rows) for rows in (X, path))
    np.testing.assert_allclose(there.landmarks_, here.landmarks_)


def test_columns_keep_their_names_and_must_agree(tmp_path):
    model = Roseland(2, landmarks=60, random_state=0).fit(as_parquet(tmp_path))
    assert list(model.feature_names_in_) == NAMES
    other = pa.table({"x": X[:, 0], "height": X[:, 1], "z": X[:, 2]})
    pq.write_table(other, tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="'height' instead of 'y'"):
        model.transform(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="X has 2 features, but Roseland is expecting 3"):
        model.transform(as_npy(tmp_path, X[:, :2], "narrow.npy"))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_row_is_named(bad, tmp_path):
    rows = X.copy()
    rows[321, 1] = bad
    with pytest.raises(ValueError, match="row 321"):
        Roseland(2, landmarks=60, random_state=0).fit(as_npy(tmp_path, rows))


def test_what_is_no_source_is_refused_by_name(tmp_path):
    (tmp_path / "rows.csv").write_text("1,2\n")
    words = pa.table({"x": X[:, 0], "word": ["a"] * 700})
    pq.write_table(words, tmp_path / "words.parquet")
    for rows, error, match in [
        (tmp_path / "rows.csv", ValueError, "none of .npy"),
        (tmp_path / "missing.npy", FileNotFoundError, "missing.npy"),
        (tmp_path / "words.parquet", ValueError, "'word'"),
        (as_npy(tmp_path, X[:, 0], "flat.npy"), ValueError, "shape"),
        ([as_npy(tmp_path, X, "a.npy"), as_npy(tmp_path, X[:, :2], "b.npy")], ValueError, "2 to 3 columns"),
        (as_npy(tmp_path, X[:1], "one.npy"), ValueError, "at least 2 rows"),
        (lambda: iter([X[:, 0]]), ValueError, "2D array"),
        (lambda: iter([X, X[:, :2]]), ValueError, "3 columns first and 2"),
    ]:
        with pytest.raises(error, match=match):
            Roseland(2, landmarks=20).fit(rows)


def test_a_source_that_changes_between_walks_is_noticed():
    lengths = iter([700, 650, 650, 650])
    with pytest.raises(ValueError, match="650 rows, after 700"):
        Roseland(2, landmarks=20).fit(lambda: iter([X[: next(lengths)]]))


@pytest.fixture(scope="module")
def model():
    return Roseland(2, landmarks=60, random_state=0).fit(X)


def test_far_rows_of_a_source_are_answered_alike(model, tmp_path):
    rows = X.copy()
    rows[650] = 50.0
    path = as_npy(tmp_path, rows)
    with pytest.warns(FarPointsWarning, match="1 of 700 rows.*row 650"):
        model.transform(path)
    with pytest.raises(FarPointsError, match="row 650"):
        model.transform(path, on_far="raise", out=tmp_path / "never.npy")
    assert not (tmp_path / "never.npy").exists()
    assert np.isnan(model.transform(path, on_far="nan")[650]).all()
    np.testing.assert_array_equal(model.transform(path, on_far="nearest"), model.transform(rows, on_far="nearest"))


# -- one verb for rows ---------------------------------------------------------------------


def weighted_sum(points, measure, start):
    """A look that depends on all it is told; the number of the first row shows that it is the right one."""
    return measure @ points, [start, start + len(points)]


def join_sums(earlier, later):
    assert earlier[1][-1] == later[1][0]
    return earlier[0] + later[0], [earlier[1][0], later[1][-1]]


def ask(source, **options):
    given = {"measure": None, "runner": Threads(2), "title": "sums"} | options
    return source.reduce(weighted_sum, join_sums, **given)


@pytest.mark.parametrize("block", [1, 64, 700, None])
def test_a_sum_is_that_of_the_array_wherever_rows_lie(source, block):
    opened, weights = sources.open_rows(source), np.random.default_rng(0).uniform(size=700)
    for measure in (None, weights):
        found, rows = ask(opened, measure=measure, block=block)
        np.testing.assert_allclose(found, (np.ones(700) if measure is None else measure) @ plain(source), atol=1e-10)
        assert rows == [0, 700]
    np.testing.assert_array_equal(ask(opened, block=64)[0], ask(sources.InMemory(plain(source)), block=64)[0])


def test_a_walk_gives_the_rows_in_order_from_any_block_on():
    walk = sources.InMemory(X).walk(
        weighted_sum, join_sums, measure=None, runner=Threads(2), title="", start=128, block=64
    )
    found = list(walk)
    assert [rows.start for rows, _ in found] == list(range(128, 700, 64))
    assert all(answer[1] == [rows.start, rows.stop] for rows, answer in found)


@pytest.mark.parametrize("jobs", [2, 3, 8])
def test_threads_do_not_change_a_bit_of_a_sum(jobs):
    rows = sources.InMemory(np.random.default_rng(0).normal(size=(5000, 7)))
    np.testing.assert_array_equal(
        ask(rows, runner=Threads(jobs), block=100)[0], ask(rows, runner=Threads(1), block=100)[0]
    )


def test_tables_beside_each_other_are_one_table():
    both = sources.put_beside(sources.InMemory(X), sources.InMemory(2 * X))
    assert both.shape == (700, 6)
    np.testing.assert_array_equal(np.vstack([rows for _, rows in both.blocks(64)]), np.hstack([X, 2 * X]))
    np.testing.assert_array_equal(both.take(np.array([3, 600])), np.hstack([X, 2 * X])[[3, 600]])


def test_nobody_answers_for_arrays_and_nothing_is_loaded_to_find_out(tmp_path):
    for rows in (X, X.tolist(), np.load(as_npy(tmp_path), mmap_mode="r"), tmp_path, None, iter([])):
        assert sources.collection(rows) is None
        assert sources.require_in_memory(rows) is rows
    code = (
        "import sys, numpy as np\nfrom outfold.data import sources\n"
        "assert sources.collection(np.ones((2, 2))) is None and sources.open_parts(np.ones((2, 2))) is None\n"
        "print([name for name in sys.modules if 'dask' in name or name.startswith('outfold.distributed')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"
