"""Collections of series: what is read, how it is cut into stretches, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from outfold.dynamics import DMD, Delays
from outfold.dynamics.series import read_series

PARTS = [np.random.default_rng(seed).normal(size=(n, 2)) for seed, n in enumerate((5, 3, 7))]
LENGTHS = [len(part) for part in PARTS]
LABELS = np.repeat(["a", "b", "c"], LENGTHS)
TIMES = np.concatenate([np.arange(n) * 0.1 + 3 for n in LENGTHS])
ROWS = np.concatenate(PARTS)
FRAME = pd.DataFrame(ROWS, columns=["x", "y"], index=pd.MultiIndex.from_arrays([LABELS, TIMES], names=["who", "t"]))
TABLE = pl.DataFrame(FRAME.reset_index())
for array in (*PARTS, LABELS, TIMES, ROWS):
    array.flags.writeable = False

FORMS = {
    "list": (PARTS, {}),
    "array": (ROWS, {"series": LABELS}),
    "array with times": (ROWS, {"series": LABELS, "time": TIMES}),
    "pandas": (FRAME, {}),
    "pandas, columns": (FRAME.reset_index(), {"series": "who", "time": "t"}),
    "polars": (TABLE, {"series": "who", "time": "t"}),
}
forms = pytest.mark.parametrize(("X", "words"), FORMS.values(), ids=FORMS.keys())


@forms
def test_every_form_is_the_same_collection(X, words):
    found = read_series(X, **words)
    np.testing.assert_array_equal(found.values, ROWS)
    assert found.starts.tolist() == [0, 5, 8, 15]
    assert found.owners.tolist() == [0, 1, 2]
    before, after = found.pairs()
    assert before.tolist() == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13]
    assert (after == before + 1).all()
    assert found.ends().tolist() == [4, 7, 14]
    assert found.step == (1 if "time" not in words and X is not FRAME else pytest.approx(0.1, rel=1e-12))


@forms
def test_results_come_back_in_the_form_of_the_input(X, words):
    model = DMD().fit(X, **words)
    back = model.reconstruct(X, **words)
    later = model.predict(X, steps=2, **words)
    assert type(back) is type(X)
    wanted = DMD().fit(PARTS)
    expected = np.concatenate(wanted.reconstruct(PARTS))
    if isinstance(back, list):
        assert [len(part) for part in back] == LENGTHS
        back = np.concatenate(back)
    elif not isinstance(back, np.ndarray):
        assert list(back.columns) == list(X.columns)
        assert back["t"].to_list() == list(TIMES) if X is not FRAME else back.index.equals(X.index)
        back = back[["x", "y"]].to_numpy()
    np.testing.assert_allclose(back, expected, rtol=0, atol=1e-12)
    if hasattr(later, "columns"):
        assert later.shape[0] == 6
        times = later.index.get_level_values("t") if X is FRAME else later["t"].to_numpy()
        np.testing.assert_allclose(times, np.concatenate([3 + 0.1 * (n + np.arange(2)) for n in LENGTHS]), rtol=1e-12)
        labels = later.index.get_level_values("who") if X is FRAME else later["who"]
        assert list(labels) == list("aabbcc")
        later = np.split(later[["x", "y"]].to_numpy(), 3)
    np.testing.assert_allclose(later, wanted.predict(PARTS, steps=2), rtol=0, atol=1e-12)


def test_rows_of_series_may_be_mixed_and_keep_their_places():
    order = np.argsort(np.concatenate([np.arange(n) for n in LENGTHS]), kind="stable")  # a, b, c, a, b, c, ...
    mixed = read_series(ROWS[order], LABELS[order])
    np.testing.assert_array_equal(mixed.values, ROWS)
    np.testing.assert_array_equal(mixed.restore([]), ROWS[order])


def test_a_gap_starts_a_new_stretch():
    found = read_series(ROWS[:6], time=[0, 1, 2, 5, 6, 9])
    assert found.starts.tolist() == [0, 3, 5, 6]
    assert found.pairs()[0].tolist() == [0, 1, 3]
    assert found.ends().tolist() == [5]
    assert found.step == 1


def test_rounded_times_are_regular():
    assert read_series(ROWS[:4], time=1e6 + np.array([0.1, 0.2, 0.3, 0.5])).starts.tolist() == [0, 3, 4]


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_dates_are_seconds_and_forecasts_have_dates(zone):
    days = pd.date_range("2024-03-25", periods=7, freq="12h", tz=zone)
    frame = pd.DataFrame(PARTS[2], index=days, columns=["x", "y"])
    model = DMD().fit(frame)
    assert model.step_ == 12 * 3600
    later = model.predict(frame, steps=2)
    assert later.index.equals(pd.date_range(days[-1], periods=3, freq="12h")[1:])
    assert model.predict(frame, times=[6 * 3600]).index[0] == days[-1] + pd.Timedelta("6h")


def test_a_frame_with_a_plain_index_is_one_series():
    assert read_series(FRAME.reset_index(drop=True)).owners.tolist() == [0]


def late():
    return FRAME.iloc[[0, 2, 1, 3]]


def infinite():
    rows = ROWS.copy()
    rows[6, 1] = np.inf
    return rows


REFUSED = {
    "unsorted": (late(), {}, "Series 'a' goes back in time: 3.1, in row 2 of X, comes after 3.2. Sort the rows"),
    "repeated": (FRAME.iloc[[0, 1, 1, 2]], {}, "Series 'a' has time 3.1 twice, in rows 1 and 2 of X. Drop one"),
    "irregular": (ROWS[:4], {"time": [0, 1, 2.3, 4.3]}, "0 has irregular times: 2.3 is 1.3 steps after 1, and"),
    "one sample": ([*PARTS, ROWS[:1]], {}, "Series 3 has 1 sample in its longest .* for DMD needs 2. Leave this"),
    "alone": (ROWS[:5], {"time": [0, 1, 5, 7, 9], "series": [0, 0, 1, 1, 1]}, "Series 1 has 1 sample .*from time 5"),
    "missing": (FRAME.assign(y=FRAME.y.where(FRAME.y != ROWS[6, 1])), {}, "'b' has NaN at time 3.1, column 'y'"),
    "infinite": (infinite(), {"series": LABELS}, "Series 'b' has infinity at time 1, column 1"),
    "no label": (ROWS[:3], {"series": [0, None, 0]}, "Row 1 of X belongs to no series"),
    "labels": (ROWS, {"series": [0, 1]}, "series has shape .2,., and needs one label for each of 15 rows"),
    "no time": (ROWS[:3], {"time": [0, np.nan, 2]}, "time must be finite: 1 of 3"),
    "no date": (ROWS[:3], {"time": pd.to_datetime(["2024-01-01", None, "2024-01-03"])}, "the first that of row 1"),
    "no column": (TABLE, {"series": "name"}, "series='name' is not a column of X, whose columns are 'who', 't'"),
    "no frame": (ROWS, {"series": "who"}, "series='who' names a column, and X is no frame"),
    "a list with labels": (PARTS, {"series": LABELS}, "A list of arrays is one series for each array"),
    "a list of columns": ([ROWS[:, 0]], {}, r"X\[0\] has shape \(15,\), and each series is an array of shape"),
    "other features": ([ROWS, ROWS[:, :1]], {}, r"X\[1\] has 1 features and X\[0\] has 2"),
    "levels": (FRAME.set_index(FRAME.index.codes[0], append=True), {}, "index of X has 3 levels, 'who', 't', None"),
    "text as time": (FRAME.reset_index(level=1, drop=True)[[]].assign(x=1.0), {}, "The index of X holds 'a', and is"),
}  # fmt: skip


@pytest.mark.parametrize(("X", "words", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_collection_is_refused_with_series_and_time(X, words, sentence):
    with pytest.raises(ValueError, match=sentence):
        DMD().fit(X, **words)


def test_frames_in_a_list_and_sparse_rows_are_refused():
    with pytest.raises(TypeError, match="Pass one frame: pandas.concat"):
        DMD().fit([FRAME])
    with pytest.raises(TypeError, match="do not take sparse"):
        DMD().fit(csr_array(ROWS))


def test_new_series_have_the_step_of_the_fit():
    model = Delays(1).fit(FRAME)
    assert model.transform(FRAME.loc[["a"]].iloc[[0, 1, 3, 4]]).index.get_level_values("t").tolist() == [3.1, 3.4]
    with pytest.raises(ValueError, match="3.05 is 0.5 steps after 3, and one step is 0.1, the step of the fit"):
        model.transform(ROWS[:3], time=[3, 3.05, 3.1])


def test_a_label_beside_dates_in_the_index_is_enough():
    dates = pd.date_range("2024-01-01", periods=7, freq="D")
    frame = pd.DataFrame(ROWS, columns=["x", "y"], index=dates[:5].append([dates[:3], dates])).assign(who=LABELS)
    found = read_series(frame, "who")
    assert (found.step, found.starts.tolist()) == (86400, [0, 5, 8, 15])
    later = DMD().fit(frame, series="who").predict(frame, series="who")
    assert later.index.tolist() == [dates[5], dates[3], dates[6] + pd.Timedelta("1D")]
    assert later["who"].tolist() == ["a", "b", "c"]
    numbered = frame.reset_index(drop=True)  # row numbers of several series are no times
    assert read_series(numbered, "who").step == 1
    later = DMD().fit(numbered, series="who").predict(numbered, series="who")
    assert list(later.columns) == ["who", "x", "y"]


def test_time_zones_of_columns_and_clock_changes():
    days = pd.date_range("2024-03-29", periods=7, freq="24h", tz="Europe/Paris")  # clocks change on the 31st
    frame = pd.DataFrame(PARTS[2], columns=["x", "y"]).assign(day=days)
    later = DMD().fit(frame, time="day").predict(frame, time="day")
    assert later["day"][0] == days[-1] + pd.Timedelta("24h")
    with pytest.raises(ValueError, match="has irregular times: 2024-04-01 01:00:00 is 1.042 steps"):
        DMD().fit(frame.assign(day=days.tz_localize(None)), time="day")
