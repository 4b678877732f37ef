"""Text through pyarrow: the same tables and the same errors as from the reader of the standard library."""

import csv
import gzip
import io
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfold.data import table_files, tables, text_blocks
from outfold.exceptions import TableError

pytest.importorskip("pyarrow")

NEVER = 1 << 40

CELLS = st.one_of(
    st.floats(width=64).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        [*("1.5", " 1.5", "\t2 ", "+3", "+-3", "++3", "-+3", "+ 3", "- 3", "+.5", "+inf", "1_2"),
         *("1e5", "1E400", "1e-400", "-inf", "Infinity", "-nan", "nan(1)"),
         *("", " ", "NA", " na", "N/A", "NaN", "null", "None", "?", "??", ".5", "5.", ".", "0x10", "1,5", "1;5", "007"),
         *("é", "٣", "1\xa0", "\u2003 4", "\x1c5", "\x00", "a b", '"', 'a"b', '"a', 'a"', '""', "\r", "\n", "\r\n")]
    ),
    st.text(alphabet='19.-e" ,;\n\rnaé', max_size=6),
)  # fmt: skip


def read(path, features, carried, quick, monkeypatch):
    """Batches of a table as tuples, and the error at their end."""
    with monkeypatch.context() as patch:
        patch.setattr(table_files, "QUICK_BYTES_FROM", 0 if quick else NEVER)
        found = []
        try:
            table = table_files.Text(path, "a.csv")
            names = table.names
            chosen = [name for name, wanted in zip(names, features) if wanted]
            beside = [name for name, wanted in zip(names, carried) if wanted]
            for batch in table.batches(chosen, beside):
                found.append((batch.start, batch.values.tobytes(), [list(column) for column in batch.carried]))
        except TableError as error:
            return found, str(error)
        return found, None


def quoted(cells, always):
    """Rows of cells as a well-formed text."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL, lineterminator="\n").writerows(cells)
    return out.getvalue()


@st.composite
def texts(draw):
    width = draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=12))
    if draw(st.booleans()):
        rows.append(draw(st.lists(CELLS, max_size=4)))
    if draw(st.booleans()):
        body = quoted(rows, draw(st.booleans()))
    else:
        body = draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(",".join(row) for row in rows)
    head = draw(st.sampled_from(["", ",".join("xyz"[:width]) + "\n", '"x\nx",y,z\n', "\n\nx\r\n"]))
    return draw(st.sampled_from(["", "\ufeff"])) + head + body


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


@settings(max_examples=400)
@given(
    text=texts(), block=st.integers(1, 80), step=st.integers(1, 5), features=st.tuples(*[st.booleans()] * 3),
    carried=st.tuples(*[st.booleans()] * 3),
)  # fmt: skip
@example('x,y\n1,"a"b\n', 8, 2, (True, False, False), (False, True, False))
@example("x,y\n1,a\r2,b\n", 8, 2, (True, False, False), (False, True, False))
@example('x\n1\n""\n\n2', 3, 2, (True, False, False), (True, False, False))
def test_both_readers_give_the_same_batches_or_the_same_error(places, text, block, step, features, carried):
    path = places / "a.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block)
        patch.setattr(tables, "BATCH_ROWS_UP_TO", step)
        ours, quick = (read(path, features, carried, quick, patch) for quick in (False, True))
    assert quick == ours


def by_pyarrow(path, features, carried=()):
    """The blocks that pyarrow reads, without help."""
    return list(table_files.Text(Path(path), "a.csv")._quick_blocks(features, carried))


@pytest.fixture
def always(monkeypatch):
    """Small files too, in blocks of 64 bytes."""
    monkeypatch.setattr(table_files, "QUICK_BYTES_FROM", 0)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)


@pytest.mark.parametrize("words", [["1.5", "", "NA"], [" 1.5", " na ", "+1.5"]], ids=["plain", "with blanks"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_usual_text_needs_no_help_of_the_standard_library(tmp_path, always, words, pack):
    text = "\ufeffname,x\r\n" + "".join(f'"row\n""{at}"" é",{words[at % 3]}\r\n' for at in range(300))
    path = tmp_path / ("a.csv.gz" if pack is gzip.compress else "a.csv")
    path.write_bytes(pack(text.encode()))
    blocks = by_pyarrow(path, ["x"], ["name"])
    assert list(chain.from_iterable(cells[0] for _, cells in blocks)) == [f'row\n"{at}" é' for at in range(300)]
    expected = [1.5, np.nan, 1.5 if "+1.5" in words else np.nan] * 100
    np.testing.assert_array_equal(np.concatenate([values for values, _ in blocks]).ravel(), expected)


@pytest.mark.parametrize(
    "line", ['3,"a"b', '3,a"b', '3,"a', "3,a,b", "x,a", "3,\0", "3,a\r4,b", f"3,{'a' * 140_000}"], ids=range(8)
)
def test_the_standard_library_goes_on_where_text_is_unusual(tmp_path, always, line):
    """What pyarrow may read otherwise is not read by it, however late in the file."""
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,a\n" * 100 + line + "\n" + "2,b\n" * 100, newline="")
    with pytest.raises(text_blocks.Unlike):
        by_pyarrow(path, ["x"], ["y"])


def test_latin_letters_are_told_with_their_line(tmp_path, always):
    (tmp_path / "a.csv").write_bytes(b"x,y\n" + b"1,a\n" * 10_000 + b"2,\xe9\n")
    table = table_files.Text(tmp_path / "a.csv", "a.csv")
    with pytest.raises(text_blocks.Unlike):
        by_pyarrow(tmp_path / "a.csv", ["x"])
    with pytest.raises(TableError, match="line 10002: not UTF-8"):
        list(table.batches(["x"]))


def test_a_quote_that_is_not_closed_ends_the_search_for_the_end_of_a_record(tmp_path, always, monkeypatch):
    monkeypatch.setattr(text_blocks, "RECORD_BYTES_UP_TO", 500)
    (tmp_path / "a.csv").write_text('x,y\n1,"a\n' + "2,b\n" * 10_000)
    reads = []
    monkeypatch.setattr(np, "frombuffer", reads.append)
    with pytest.raises(text_blocks.Unlike):
        by_pyarrow(tmp_path / "a.csv", ["x"])
    assert not reads


def test_a_table_of_very_many_columns_or_a_small_one_does_not_ask_for_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(text_blocks.Unlike):
        by_pyarrow(tmp_path / "a.csv", ["x"])
    monkeypatch.setattr(table_files, "QUICK_BYTES_FROM", 0)
    monkeypatch.setattr(text_blocks, "COLUMNS_UP_TO", 1)
    with pytest.raises(text_blocks.Unlike):
        by_pyarrow(tmp_path / "a.csv", ["x"])
