"""Where embeddings and tables go: what is written is read again, and a failure leaves what was there."""

import os

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from catalogue import whole
from outfold import Roseland
from outfold.data import table_files, writers
from outfold.data.writers import replacing
from outfold.datasets import s_curve

X = s_curve(700, random_state=0)[0]


def as_npy(folder, values=X, name="rows.npy"):
    np.save(folder / name, values)
    return folder / name


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


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npy", ".zarr", ".h5ad"])
def test_what_is_written_is_read_again(tmp_path, suffix):
    for name in {".parquet": ["pyarrow"], ".zarr": ["zarr"], ".h5ad": ["anndata"]}.get(suffix, []):
        pytest.importorskip(name)
    places = np.array([[0.1, 1 / 3], [np.nan, np.nan], [-1e-300, 5.0]])
    path = tmp_path / f"out{suffix}"
    alone = suffix in writers.NUMBERS_ONLY
    with writers.table(path, {} if alone else {"id": None}, ["a", "b"]) as add:
        add([] if alone else [["007", "x,y"]], places[:2])
        add([] if alone else [['q"']], places[2:])
        assert not path.exists()
    table = table_files.open_table(path, obsm="X_outfold" if suffix == ".h5ad" else None)
    names = table.numeric if alone or suffix == ".h5ad" else ("a", "b")
    values, others = whole(table, names, () if alone else ("id",))
    np.testing.assert_array_equal(values, places)
    assert alone or list(others[0]) == ["007", "x,y", 'q"']
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".zarr"])
def test_an_error_on_the_way_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_text("old")

    def interrupted():
        with writers.table(path, {}, ["a"]) as add:
            add([], np.ones((3, 1)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_types_of_parquet_columns_are_carried_through(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"id": arrow.array([7, None, 9], arrow.int64()), "day": arrow.array([1, 2, 3], arrow.date32())}
    parquet.write_table(arrow.table({**columns, "x": [1.0, 2.0, 3.0]}), tmp_path / "a.parquet")
    table = table_files.open_table(tmp_path / "a.parquet")
    with writers.table(tmp_path / "b.parquet", {name: table.kind(name) for name in columns}, ["p"]) as add:
        for batch in table.batches(("x",), tuple(columns)):
            add(batch.carried, batch.values)
    assert parquet.read_table(tmp_path / "b.parquet").select(list(columns)).equals(arrow.table(columns))


def test_names_that_clash_and_files_of_other_kinds_are_refused(tmp_path):
    with (
        pytest.raises(ValueError, match="two columns called 'a'"),
        writers.table(tmp_path / "o.csv", {"a": None}, ["a"]),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"o\.doc must end in one of \.csv"),
        writers.table(tmp_path / "o.doc", {}, ["a"]),
    ):
        pass
