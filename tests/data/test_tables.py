"""Tables: columns that are asked for."""

import pytest

from catalogue import whole
from outfold.data import table_files
from outfold.data.columns import prepare
from outfold.exceptions import TableError


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return table_files.open_table(path)


def test_a_missing_column_is_told_with_the_nearest_names(tmp_path):
    table = put(tmp_path / "a.csv", "alcohol,sulphates\n1,2\n3,4\n")
    with pytest.raises(TableError, match=r"a\.csv has no column 'Alcohols' to use\. Did you mean 'alcohol'\?"):
        prepare(table, columns=["Alcohols"])
    with pytest.raises(TableError, match=r"no column 'zzz' to carry along\. It has 'alcohol', 'sulphates'"):
        prepare(table, id="zzz")


def test_ten_thousand_columns_are_read_and_messages_stay_short(tmp_path):
    names = [f"c{at}" for at in range(10_000)]
    text = ",".join(names) + "\n" + "\n".join(",".join(str(at % 7 + row) for at in range(10_000)) for row in range(3))
    table = put(tmp_path / "a.csv", text)
    values, _ = whole(table, table.numeric)
    assert values.shape == (3, 10_000)
    assert values[2, 9_999] == 9_999 % 7 + 2
    with pytest.raises(TableError) as told:
        table.require(["q"], "to use")
    assert len(str(told.value)) < 200
