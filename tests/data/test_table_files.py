"""Files of tables: what cannot be read is told with file and line."""

import gzip
import io
import sys

import numpy as np
import pytest

from catalogue import whole
from outfold.data import table_files, tables
from outfold.data.columns import prepare
from outfold.exceptions import TableError

HEAD = "id,x,name,y\n"
ROWS = '007,1.5,Bob,2\n008,,"Ann, the\nsecond",3\n009,-1e3,"say ""hi""",NA\n'


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return table_files.open_table(path)


@pytest.fixture
def small(monkeypatch):
    """Batches of two rows."""
    monkeypatch.setattr(tables, "BATCH_ROWS_UP_TO", 2)


EXPECTED = np.array([[1.5, 2.0], [np.nan, 3.0], [-1000.0, np.nan]])


# -- reading -------------------------------------------------------------------------------


def test_text_gives_numbers_where_they_are_wanted_and_cells_as_written(tmp_path, small):
    table = put(tmp_path / "a.csv", HEAD + ROWS)
    assert table.names == ("id", "x", "name", "y")
    assert table.numeric == ("id", "x", "y")
    values, (ids, names) = whole(table, ("x", "y"), ("id", "name"))
    np.testing.assert_array_equal(values, EXPECTED)
    assert ids == ["007", "008", "009"]
    assert names == ["Bob", "Ann, the\nsecond", 'say "hi"']


@pytest.mark.parametrize(
    ("name", "separator"), [("a.tsv", "\t"), ("a.csv", ";"), ("a.csv", "\t"), ("a.csv", ",")], ids=repr
)
def test_separators(tmp_path, name, separator):
    table = put(tmp_path / name, separator.join("abc") + "\n" + separator.join("123") + "\n")
    assert table.names == ("a", "b", "c")
    np.testing.assert_array_equal(whole(table, ("c", "a"))[0], [[3, 1]])


def test_a_comma_within_quotes_does_not_make_it_the_separator(tmp_path):
    assert put(tmp_path / "a.csv", '"a,b";c\n1;2\n').names == ("a,b", "c")


def test_gzip_a_byte_order_mark_and_windows_lines(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("\ufeffx,y\r\n1,2\r\n\r\n3,4\r\n".encode()))
    table = table_files.open_table(tmp_path / "a.csv.gz")
    assert table.names == ("x", "y")
    np.testing.assert_array_equal(whole(table, ("x", "y"))[0], [[1, 2], [3, 4]])


def test_a_first_line_of_numbers_is_a_row(tmp_path):
    table = put(tmp_path / "a.csv", "1,2\n3,4\n")
    assert not table.named
    assert table.numeric == ("column_1", "column_2")
    np.testing.assert_array_equal(whole(table, table.numeric)[0], [[1, 2], [3, 4]])
    assert table.places([0, 1]) == [1, 2]


def test_a_number_with_underscores_is_text(tmp_path):
    assert put(tmp_path / "a.csv", "x,y\n1_2,3\n").numeric == ("y",)


def test_lines_are_those_of_the_file_though_cells_have_several(tmp_path):
    table = put(tmp_path / "a.csv", "\n" + HEAD + ROWS + "\n\n010,4,Eve,5\n")
    assert table.places([-1, 0, 1, 2, 3]) == [2, 3, 4, 6, 9]


def test_standard_input_is_a_table_and_leaves_no_file(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((HEAD + ROWS).encode())))
    table = table_files.open_table("-")
    path = table.path
    for _ in range(2):
        np.testing.assert_array_equal(whole(table, ("x", "y"))[0], EXPECTED)
    assert path.exists()
    del table
    assert not path.exists()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_arrow_files_give_the_same_and_keep_types(tmp_path, small, suffix):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    columns = {
        "id": arrow.array(["007", "008", "009"]).dictionary_encode(),
        "x": arrow.array([1.5, None, -1000.0]),
        "y": arrow.array([2, 3, None], arrow.int32()),
        "yes": arrow.array([True, False, None]),
        "a.b": arrow.array([1, 2, 3], arrow.int8()),
    }
    path = tmp_path / f"a{suffix}"
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(arrow.table(columns), path)
    table = table_files.open_table(path)
    assert table.numeric == ("x", "y", "a.b")
    values, (ids, yes) = whole(table, ("x", "y"), ("id", "yes"))
    np.testing.assert_array_equal(values, EXPECTED)
    assert (ids, yes) == (["007", "008", "009"], [True, False, None])
    np.testing.assert_array_equal(whole(table, ("a.b",))[0].ravel(), [1, 2, 3])
    assert table.kind("y") == arrow.int32()


def test_a_folder_of_parquet_is_one_table(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for at in range(3):
        parquet.write_table(arrow.table({"x": [float(at)] * 2}), tmp_path / f"{at}.parquet")
    np.testing.assert_array_equal(whole(table_files.open_table(tmp_path), ("x",))[0].ravel(), [0, 0, 1, 1, 2, 2])
    parquet.write_table(arrow.table({"z": [1.0]}), tmp_path / "3.parquet")
    with pytest.raises(TableError, match=r"3\.parquet has other columns than 0\.parquet"):
        table_files.open_table(tmp_path).names  # noqa: B018


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr"])
def test_arrays_have_columns_by_their_place(tmp_path, small, suffix):
    X, path = np.arange(15.0).reshape(5, 3), tmp_path / f"a{suffix}"
    if suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        zarr.open(str(path), mode="w", shape=X.shape, dtype=X.dtype)[:] = X
    else:
        (np.save if suffix == ".npy" else np.savez)(path, X)
    table = table_files.open_table(path)
    values, (carried,) = whole(table, ("column_3", "column_1"), ("column_2",))
    np.testing.assert_array_equal(values, X[:, [2, 0]])
    assert carried == X[:, 1].tolist()
    assert not table.named


# -- what cannot be read -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a\.csv is empty"),
        ("\n\n", r"a\.csv is empty"),
        ("x,y\n", r"a\.csv has a header but no rows"),
        ("x,y\n1,2\n", r"a\.csv has 1 row, line 2; a fit needs at least 2"),
        ("x,y\n1,2\n3\n", r"a\.csv, line 3: 1 cell where the header has 2"),
        ("x,y\n1,2\n\n3,4,5\n", r"a\.csv, line 4: 3 cells where the header has 2"),
        ('x,y\n1,2\n"3,4\n5,6\n', r"a\.csv, line 3: unexpected end of data\. Is a quote not closed"),
        ('x,y\n1,2\n"3"4,5\n', r"a\.csv, line 3: .*quote"),
        ("x,y,x\n1,2,3\n", r"a\.csv, line 1: 2 columns \(1, 3\) are called 'x'"),
        ("x,y\na,b\nc,d\n", r"a\.csv has no column of numbers to use \(it has 'x', 'y'\)"),
        ("x,y\n1,\n,2\n,\n", r"3 of 3 rows lack a value, in 'x' \(2\), 'y' \(2\); lines 2, 3, 4\. That leaves 0"),
        ("x,y\n3,1\n3,1\n", r"every column holds one value only \('x', 'y'\)"),
        ("x,y\n,NA\nnan,\n", r"every column of numbers is empty"),
    ],
)
def test_what_is_wrong_with_a_text_is_told_with_its_line(tmp_path, text, message):
    with pytest.raises(TableError, match=message):
        prepare(put(tmp_path / "a.csv", text))


def test_text_in_a_column_of_numbers_is_found_however_late(tmp_path):
    lines = ["x,y", *["1,2", "3,4"] * 3000, "5,six", "7,8"]
    with pytest.raises(TableError, match=r"a\.csv, line 6002: 'six' in column 'y' is not a number"):
        prepare(put(tmp_path / "a.csv", "\n".join(lines)))


def test_a_broken_line_is_found_however_late(tmp_path):
    lines = ["x,y", *["1,2", "3,4"] * 60_000, "5", "7,8"]
    with pytest.raises(TableError, match=r"a\.csv, line 120002: 1 cell where the header has 2"):
        prepare(put(tmp_path / "a.csv", "\n".join(lines)))


@pytest.mark.slow
def test_a_broken_line_at_a_million_is_found(tmp_path):
    lines = ["x,y", *["1,2"] * 999_998, "5,6,7", "8,9"]
    with pytest.raises(TableError, match=r"a\.csv, line 1000000: 3 cells where the header has 2"):
        prepare(put(tmp_path / "a.csv", "\n".join(lines)))


def test_what_is_not_utf8_is_told_with_its_line(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x,y\n1,2\n" * 3 + b"3,\xff\n")
    with pytest.raises(TableError, match=r"a\.csv, line 7: not UTF-8 text"):
        prepare(table_files.open_table(tmp_path / "a.csv"))


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npy", ".npz", ".h5ad", ".csv.gz"])
def test_a_file_that_is_not_what_its_name_says_is_told(tmp_path, suffix):
    path = tmp_path / f"wrong{suffix}"
    path.write_bytes(b"this is no table at all, whatever it may be called\n" * 20)
    with pytest.raises(TableError, match=r"wrong\.\S+ is not a"):
        prepare(table_files.open_table(path))


def test_a_cut_parquet_is_told(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "cut.parquet"
    parquet.write_table(arrow.table({"x": np.random.default_rng(0).random(10_000)}), path)
    data = bytearray(path.read_bytes())
    data[4:40_000] = bytes(len(data[4:40_000]))
    path.write_bytes(data)
    with pytest.raises(TableError, match=r"cut\.parquet is not a Parquet file, or is damaged"):
        prepare(table_files.open_table(path))


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(
        TableError, match=r"a\.npy is not an array that can be read: it is no array, or holds Python objects"
    ):
        table_files.open_table(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("values", "message"),
    [(np.zeros(3), r"shape \(3,\)"), (np.zeros((0, 3)), r"shape \(0, 3\)"), (np.array([["a"]]), "holds <U1")],
)
def test_arrays_that_are_no_table_are_told(tmp_path, values, message):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(TableError, match=message):
        table_files.open_table(tmp_path / "a.npy")


def test_a_missing_file_a_strange_one_and_a_folder(tmp_path):
    (tmp_path / "a.docx").write_text("x")
    for path, message in [
        (tmp_path / "none.csv", "There is no file"),
        (tmp_path / "a.docx", r"a\.docx is none of \.csv"),
        (tmp_path, r"folder without \.parquet"),
    ]:
        with pytest.raises(TableError, match=message):
            table_files.open_table(path)
