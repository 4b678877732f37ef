"""Where embeddings and tables go: what is written is read again, and a failure leaves what was there."""

import os
import pathlib
import stat
import subprocess
import sys

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


# -- links, permissions and what is no file --------------------------------------------------


def put(path, text="new", **how):
    with replacing(path, **how) as beside:
        if how.get("folder"):
            beside.mkdir()
            beside /= "part"
        beside.write_text(text)


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
class TestLinks:
    def test_a_link_stays_one_and_its_target_is_written_beside_itself(self, tmp_path):
        for folder in ("a", "b", "c"):
            (tmp_path / folder).mkdir()
        (tmp_path / "c" / "m").write_text("old")
        (tmp_path / "b" / "m").symlink_to("../c/m")
        (tmp_path / "a" / "m").symlink_to(tmp_path / "b" / "m")
        with replacing(tmp_path / "a" / "m") as beside:
            assert beside.parent == tmp_path / "c"
            beside.write_text("new")
        assert (tmp_path / "a" / "m").is_symlink()
        assert (tmp_path / "b" / "m").is_symlink()
        assert not (tmp_path / "c" / "m").is_symlink()
        assert (tmp_path / "c" / "m").read_text() == "new"
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c", "m", "m", "m"]

    def test_a_link_to_nothing_makes_its_target(self, tmp_path):
        (tmp_path / "link").symlink_to("target")
        put(tmp_path / "link")
        assert (tmp_path / "target").read_text() == "new"
        assert os.readlink(tmp_path / "link") == "target"
        (tmp_path / "far").symlink_to("nowhere/target")
        with pytest.raises(FileNotFoundError, match=r"far .*nothing was put in its place. Is there such a folder\?"):
            put(tmp_path / "far")

    def test_links_in_a_circle_are_refused(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match="Do its links lead in a circle"):
            put(tmp_path / "a")
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]

    def test_a_folder_is_written_through_a_link(self, tmp_path):
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "old").write_text("old")
        (tmp_path / "link").symlink_to("there")
        put(tmp_path / "link", folder=True)
        assert (tmp_path / "link").is_symlink()
        assert os.listdir(tmp_path / "there") == ["part"]
        with pytest.raises(IsADirectoryError, match="It is a folder"):
            put(tmp_path / "link")
        assert sorted(os.listdir(tmp_path)) == ["link", "there"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=r"\(It is a folder\); nothing was put in its place. Name a file"):
        put(tmp_path / "folder")
    (tmp_path / "file").write_text("old")
    with pytest.raises(NotADirectoryError, match="a folder is to be written"):
        put(tmp_path / "file", folder=True)
    with pytest.raises(ValueError, match="holds a null character"):
        put(tmp_path / "a\0b")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="It is a device or a pipe"):
            put(tmp_path / "pipe")
    assert (tmp_path / "file").read_text() == "old"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".part"]


@pytest.mark.skipif(os.name != "posix", reason="no modes")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own(mask, model, tmp_path):
    before = os.umask(mask)
    try:
        put(tmp_path / "m")
        model.save(tmp_path / "model")
        model.transform(X[:9], out=tmp_path / "o.npy")
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~mask}
        for mode in (0o640, 0o600, 0o444, 0o666):
            os.chmod(tmp_path / "m", mode)
            with replacing(tmp_path / "m") as beside:
                assert stat.S_IMODE(beside.stat().st_mode) & 0o077 == 0  # nobody else reads it before it is there
                beside.write_text("new")
            assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_folder_is_the_old_one_or_the_new_one_whenever_it_is_interrupted(moment, monkeypatch, tmp_path):
    put(tmp_path / "there", "old", folder=True)
    rename, calls = pathlib.Path.rename, []

    def interrupted(self, target):
        if not calls and moment == "before":
            calls.append(0)
            raise KeyboardInterrupt
        calls.append(rename(self, target))
        if len(calls) == {"before": 0, "between": 1, "after": 2}[moment]:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(pathlib.Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(tmp_path / "there", folder=True)
    assert (tmp_path / "there" / "part").read_text() == ("new" if moment == "after" else "old")
    assert os.listdir(tmp_path) == ["there"]


def test_a_folder_that_was_put_aside_when_its_writer_was_killed_comes_back(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    name = f".there.{writers._MACHINE}-{process.pid}-00000000"
    for suffix, text in ((".old", "old"), (".part", "whole")):
        (tmp_path / f"{name}{suffix}").mkdir()
        (tmp_path / f"{name}{suffix}" / "part").write_text(text)

    def failing():
        with replacing(tmp_path / "there", folder=True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert os.listdir(tmp_path) == ["there"]
    assert (tmp_path / "there" / "part").read_text() == "old"


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
    old = path / "zarr.json" if suffix == ".zarr" else path
    old.parent.mkdir(exist_ok=True)
    old.write_text("old")

    def interrupted():
        with writers.table(path, {}, ["a"]) as add:
            add([], np.ones((3, 1)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert old.read_text() == "old"
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
