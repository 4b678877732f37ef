"""Delay coordinates: never from another series, never across a gap."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from outfold import DiffusionMaps
from outfold.dynamics import Delays


def collection(seed):
    """Ragged series with gaps: rows, labels and times; each value names its series and time."""
    random = np.random.default_rng(seed)
    labels, times = [], []
    for name in range(int(random.integers(1, 5))):
        kept = np.flatnonzero(random.uniform(size=int(random.integers(9, 30))) < 0.85)
        at = np.union1d(kept, np.arange(8))  # one stretch is long enough
        labels.append(np.full(len(at), name))
        times.append(at.astype(float))
    labels, times = np.concatenate(labels), np.concatenate(times)
    return np.column_stack([100.0 * labels + times, -times]), labels, times


def naive(X, labels, times, delays, step, kappa):
    """The definition, looked up by series and time; None where a row in between is missing."""
    there = {(label, t): x for x, label, t in zip(X, labels, times)}
    found = []
    for label, t in zip(labels, times):
        whole = all((label, t - back) in there for back in range(delays * step + 1))
        past = [np.exp(-kappa * d) * there[label, t - d * step] for d in range(delays + 1)] if whole else None
        found.append(None if past is None else np.concatenate(past))
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("delays", "step", "kappa"), [(0, 1, 0.0), (1, 1, 0.3), (3, 2, 0.0), (2, 3, 1.0)])
def test_delays_are_those_of_the_definition(seed, delays, step, kappa):
    X, labels, times = collection(seed)
    X.flags.writeable = False
    model = Delays(delays, step=step, kappa=kappa).fit(X, series=labels, time=times)
    wanted = naive(X, labels, times, delays, step, kappa)
    found = model.transform(X, series=labels, time=times)
    np.testing.assert_allclose(found, [row for row in wanted if row is not None], rtol=1e-15)
    assert model.dropped_.tolist() == [at for at, row in enumerate(wanted) if row is None]
    assert (~model.mask(X, series=labels, time=times)).nonzero()[0].tolist() == model.dropped_.tolist()
    np.testing.assert_array_equal(model.inverse_transform(found), np.delete(X, model.dropped_, axis=0))


def test_a_frame_keeps_the_index_of_the_rows_that_remain():
    X, labels, times = collection(3)
    frame = pd.DataFrame(X, columns=["x", "y"], index=pd.MultiIndex.from_arrays([labels, times], names=["who", "t"]))
    for model in (Delays(2), Delays(2).set_output(transform="pandas")):
        found = model.fit_transform(frame)
        assert found.index.equals(frame.index[model.mask(frame)])
        assert list(found.columns) == ["x", "y", "x_lag1", "y_lag1", "x_lag2", "y_lag2"]
        assert model.inverse_transform(found).equals(frame[model.mask(frame)])
    with pytest.raises(ValueError, match="X has no column 'x'. Pass what transform returned"):
        model.inverse_transform(found[["y"]])
    table = pl.DataFrame(frame.reset_index())
    with_columns = Delays(2).fit(table, series="who", time="t")
    lagged = with_columns.transform(table, series="who", time="t")
    assert lagged.columns == ["who", "t", *found.columns]
    assert with_columns.inverse_transform(lagged).equals(table.filter(model.mask(frame)))
    shuffled = frame.iloc[np.argsort(times, kind="stable")]  # the series take turns
    pd.testing.assert_frame_equal(Delays(2).fit_transform(shuffled).sort_index(), found.sort_index())


def test_lists_come_back_as_lists_and_arrays_as_frames_if_asked():
    parts = [np.arange(6.0).reshape(3, 2), np.arange(10.0).reshape(5, 2)]
    model = Delays(1).fit(parts)
    found = model.transform(parts)
    assert [part.shape for part in found] == [(2, 4), (4, 4)]
    for part, back in zip(parts, model.inverse_transform(found)):
        np.testing.assert_array_equal(back, part[1:])
    model.set_output(transform="pandas")
    assert list(model.transform(parts[0]).columns) == ["x0", "x1", "x0_lag1", "x1_lag1"]
    with pytest.raises(ValueError, match="A list comes back as a list"):
        model.transform(parts)


def test_a_pipeline_takes_frames():
    t = np.arange(80) * 0.2
    X = pd.concat({name: pd.DataFrame({"x": np.sin(t + name)}) for name in (0, 1)}, names=["who", "t"])
    pipeline = make_pipeline(StandardScaler(), Delays(3), DiffusionMaps(2)).set_output(transform="pandas")
    found = pipeline.fit_transform(X)
    assert found.index.equals(X.index[X.index.get_level_values("t") >= 3])
    assert clone(Delays(3, step=2, kappa=0.5)).get_params() == {"n_delays": 3, "step": 2, "kappa": 0.5}


def test_wrong_input_is_refused():
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match=r"Series 0 has 4 samples .* and Delays\(2, step=2\) needs 5"):
        Delays(2, step=2).fit(X)
    with pytest.raises(ValueError, match="n_delays=-1 must be a whole number >= 0"):
        Delays(-1).fit(X)
    with pytest.raises(ValueError, match="kappa=-1 must be >= 0"):
        Delays(1, kappa=-1).fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but Delays is expecting 2"):
        Delays(1).fit(X).transform(np.ones((4, 3)))
    with pytest.raises(ValueError, match="X has 2 columns, and 2 features with 1 delays have 4"):
        Delays(1).fit(X).inverse_transform(X)


EXCUSED = dict.fromkeys(
    (
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ),
    "rows without earlier ones are dropped, and the order of rows is that of time",
)


def test_scikit_learn_agrees():
    results = estimator_checks.check_estimator(Delays(), on_fail=None, on_skip=None, expected_failed_checks=EXCUSED)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
