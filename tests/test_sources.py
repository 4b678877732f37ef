"""Rows that are not in memory: whatever they come from, fit and transform are those of the array."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from catalogue import quietly, up_to_signs
from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, Roseland, _passes, sources
from outfold.datasets import s_curve
from outfold.exceptions import FarPointsError, FarPointsWarning
from outfold.landmarks import FarthestPoint, InverseDensity, KMeans, MinDistance, RPCholesky
from outfold.sinks import replacing

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
    opened = sources.opened(source)
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
    assert opened.fingerprint() == sources.opened(source).fingerprint()


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


def test_rows_that_fit_in_one_chunk_are_searched_once(monkeypatch):
    X, _ = s_curve(2000, random_state=0)
    searched, search = [], _passes.Near._kept
    monkeypatch.setattr(_passes.Near, "_kept", lambda self, *words: (searched.append(1), search(self, *words))[1])
    maps = Roseland(3, landmarks=100, n_neighbors=8, random_state=0)
    streamed = maps.fit(lambda: (X[:700], X[700:])).eigenvalues_
    assert len(searched) == 1
    np.testing.assert_allclose(streamed, maps.fit(X).eigenvalues_, atol=1e-12)
    assert not hasattr(maps.fit(lambda: (X[:700], X[700:])), "embedding_")


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
        (lambda: iter([X[:, 0]]), ValueError, "two-dimensional"),
        (lambda: iter([X, X[:, :2]]), ValueError, "3 columns first and 2"),
    ]:
        with pytest.raises(error, match=match):
            Roseland(2, landmarks=20).fit(rows)


def test_a_source_that_changes_between_walks_is_noticed():
    lengths = iter([700, 650, 650, 650])
    with pytest.raises(ValueError, match="650 rows, after 700"):
        Roseland(2, landmarks=20).fit(lambda: iter([X[: next(lengths)]]))


# -- where an embedding goes ---------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return Roseland(2, landmarks=60, random_state=0).fit(X)


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr", "memmap", "array"])
@pytest.mark.parametrize("rows", ["path", "array"])
def test_an_embedding_can_be_written_as_it_is_made(kind, rows, model, tmp_path):
    target = tmp_path / f"out.{kind}"
    if kind == "memmap":
        target = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", shape=(700, 2))
    elif kind == "array":
        target = np.empty((700, 2))
    for _ in range(2):  # the second takes the place of the first
        out = model.transform(as_npy(tmp_path) if rows == "path" else X, out=target)
    assert out is target
    readers = {"npy": np.load, "zarr": lambda p: zarr.open(str(p), mode="r")[:]}
    readers["parquet"] = lambda p: np.column_stack([c.to_numpy() for c in pq.read_table(p).columns])
    got = readers.get(kind, np.asarray)(out)
    np.testing.assert_array_equal(got, model.transform(X))
    if kind == "parquet":
        assert pq.read_schema(out).names == list(model.get_feature_names_out())
    assert not [p for p in tmp_path.iterdir() if p.name.endswith((".part", ".old"))]


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


def test_a_wrong_target_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="must end in"):
        model.transform(X, out=tmp_path / "out.csv")
    with pytest.raises(ValueError, match=r"\(700, 3\); the embedding has \(700, 2\)"):
        model.transform(X, out=np.empty((700, 3)))


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.npy"
    path.write_text("old")

    def write():
        with replacing(path) as beside:
            beside.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="nothing was put in its place"):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.npy"]


FULL = """
import resource, signal, sys, numpy as np
from outfold import Roseland
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rows = np.load(sys.argv[1])
model = Roseland(2, landmarks=60, random_state=0).fit(rows)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    if sys.argv[3] == "transform":
        model.transform(rows, out=sys.argv[2])
    else:
        Roseland(2, landmarks=60, random_state=0, checkpoint=sys.argv[2]).fit(rows)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["out.npy", "out.parquet", "out.zarr", "folder"])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(kind, tmp_path):
    rows = as_npy(tmp_path, np.tile(X, (4, 1)))
    target = tmp_path / "there" / kind
    target.parent.mkdir()
    if kind.endswith("npy") or kind.endswith("parquet"):
        target.write_text("old")
    what = "transform" if "." in kind else "checkpoint"
    run = [sys.executable, "-W", "ignore", "-c", FULL, str(rows), str(target), what]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "nothing was put in its place" in told
    if kind.endswith("npy") or kind.endswith("parquet"):
        assert target.read_text() == "old"
    assert [p.name for p in tmp_path.rglob("*.part")] == []


# -- taking up a fit that was killed -------------------------------------------------------

KILLED = """
import os, signal, sys, numpy as np
from outfold import Roseland, _engine, _passes, _resolve
from outfold.checkpoints import Checkpoint
stage, at, rows, folder, near = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5] == "near"
count = 0
def dying(call):
    def wrapped(*args, **kwargs):
        global count
        count += 1
        if count > at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return wrapped
kind = _passes.Near if near else _passes.Dense
if stage == "solve":
    _engine.solve = dying(_engine.solve)
elif stage != "none":
    name = "_look_first" if stage == "first" else "_look_second"
    setattr(kind, name, dying(getattr(kind, name)))
_resolve.free_memory = lambda: 1.3e10 if stage == "none" else 1.45e10  # less the second time
_passes.CHUNK_SHARE = 6e-4
_passes.block_rows = lambda width: 16384
rows = np.load(rows, mmap_mode="r")
model = Roseland(3, landmarks=80, n_neighbors=8 if near else None, random_state=None, n_jobs=1,
                 checkpoint=Checkpoint(folder, seconds=0)).fit(rows)
np.savez(sys.argv[6], values=model.eigenvalues_, vectors=model.eigenvectors_, places=model.landmarks_)
print(os.listdir(folder))
"""


@pytest.mark.parametrize("near", ["near", "dense"])
@pytest.mark.parametrize(("stage", "at"), [("first", 2), ("second", 2), ("solve", 0)])
def test_a_killed_fit_resumes_to_the_same_bits(stage, at, near, tmp_path):
    rows = as_npy(tmp_path, s_curve(60_000, random_state=1)[0])

    def run(stage, folder, out):
        call = [sys.executable, "-W", "ignore", "-c", KILLED, stage, str(at), str(rows), str(folder), near, str(out)]
        return subprocess.run(call, capture_output=True, text=True, check=False)

    killed = run(stage, tmp_path / "kept", tmp_path / "never.npz")
    assert killed.returncode == -9, killed.stderr
    first = {p.name: p.read_bytes() for p in (tmp_path / "kept").iterdir()}
    assert first
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "fit.npz").write_bytes(first["fit.npz"])  # the same seed, from the beginning
    resumed = run("none", tmp_path / "kept", tmp_path / "resumed.npz")
    assert resumed.stdout.strip() == "[]", resumed.stderr  # nothing is left behind
    assert run("none", tmp_path / "whole", tmp_path / "whole.npz").returncode == 0
    with np.load(tmp_path / "resumed.npz") as a, np.load(tmp_path / "whole.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in a.files)


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    rows = as_npy(tmp_path)
    from outfold.checkpoints import Checkpoint

    kept = Checkpoint(tmp_path / "kept")
    kept.begin("another", 0, 1e9)
    with pytest.raises(ValueError, match="other data or with other parameters"):
        Roseland(2, landmarks=60, checkpoint=tmp_path / "kept").fit(rows)
    (tmp_path / "kept" / "fit.npz").write_bytes(b"PK half a file")
    with pytest.raises(ValueError, match="cannot be read"):
        Roseland(2, landmarks=60, checkpoint=str(tmp_path / "kept")).fit(rows)
    with pytest.raises(ValueError, match="path of a folder"):
        Roseland(2, landmarks=60, checkpoint=3).fit(rows)


@pytest.mark.parametrize("n_neighbors", [None, 8])
def test_memory_cuts_chunks_and_changes_nothing_else(n_neighbors, tmp_path):
    rows = s_curve(50_000, random_state=2)[0]
    ample = Roseland(3, landmarks=100, n_neighbors=n_neighbors, random_state=0).fit(rows)
    tight = Roseland(3, landmarks=100, n_neighbors=n_neighbors, random_state=0, memory="20MB").fit(
        as_npy(tmp_path, rows)
    )
    np.testing.assert_allclose(tight.eigenvalues_, ample.eigenvalues_, rtol=1e-12)
    assert up_to_signs(quietly(tight.transform, rows), ample.embedding_) < 1e-10
