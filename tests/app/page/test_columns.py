"""Columns of a page: they come back as they went, and a file too large gives some up."""

import json
import zlib

import numpy as np

from outfold.app.page import columns as page_columns


def unpacked(stream):
    """As the page reads it."""
    raw = np.frombuffer(zlib.decompress(stream.pack()), np.uint8)
    size = {"f4": 4, "i4": 4, "u2": 2, "q2": 2, "u1": 1}[stream.kind]
    whole = raw.reshape(size, -1).T.tobytes()
    codes = np.frombuffer(whole, {"f4": "<f4", "i4": "<i4", "u1": "u1"}.get(stream.kind, "<u2"))
    return codes if stream.kind != "q2" else np.where(codes == 65535, np.nan, stream.low + stream.step * codes)


def test_streams_come_back_as_they_went():
    values = np.random.default_rng(0).normal(size=1000) * 50
    values[3] = np.nan
    exact, rough = page_columns.numbers("a", "column", values), page_columns.numbers("a", "column", values).quantise()
    np.testing.assert_array_equal(unpacked(exact), values.astype(np.float32))
    np.testing.assert_allclose(unpacked(rough), values, atol=0.51 * np.nanmax(np.ptp(values[4:])) / 65534 + 1e-4)
    assert np.isnan(unpacked(rough)[3])
    words = page_columns.group("g", "label", ["b 10", "b 9", None, "b 10"])
    assert [words.words[code] for code in unpacked(words)] == ["b 10", "b 9", "(missing)", "b 10"]
    assert words.words == ("(missing)", "b 9", "b 10")
    assert unpacked(page_columns.name_column("id", ["7", "-12"])).tolist() == [7, -12]
    assert page_columns.name_column("id", ["07", "8"]).cells == ("07", "8")
    many = page_columns.group("g", "column", [f"w{at}" for at in range(5000)])
    assert many.kind == "text"
    assert json.loads(many.raw())[4999] == "w4999"


def test_a_file_too_large_gives_up_columns_first_and_says_which():
    random = np.random.default_rng(0)
    rows = page_columns.EXACT_ROWS + 1000
    axes = [page_columns.numbers(f"c{at}", "coordinate", random.normal(size=rows)) for at in range(4)]
    columns = [page_columns.numbers(f"x{at}", "column", random.normal(size=rows)) for at in range(3)]
    label = page_columns.group("kind", "label", ["a", "b"] * (rows // 2))
    kept, letters, notes = page_columns.fit_ends([*axes, label, *columns], rows, 1_650_000)
    assert [stream.name for stream in kept] == ["c0", "c1", "c2", "c3", "kind", "x0", "x1"]
    assert sum(map(len, letters)) <= 1_650_000
    assert "Left out, to keep the file below 20 MB: x2." in notes[1]
    few, letters, notes = page_columns.fit_ends([*axes, label, *columns], rows, 800_000)
    assert [stream.name for stream in few][:3] == ["c0", "c1", "c2"]
    assert sum(map(len, letters)) <= 800_000
    assert "1/4095" in notes[0]
    all_, _, notes = page_columns.fit_ends([*axes, label, *columns], 100, 10**9)
    assert len(all_) == 8
    assert notes == []
    lossy, _, notes = page_columns.fit_ends([*axes, label, *columns], 100, 2_000_000)  # digits go before columns
    assert [stream.name for stream in lossy] == [stream.name for stream in all_]
    assert "1/65535" in notes[0]
