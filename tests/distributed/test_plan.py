"""A plan for workers."""

import dask
import dask.array as da
import numpy as np
import pytest

from outfold import DiffusionMaps, Roseland, plan
from outfold.datasets import s_curve

X = s_curve(600, random_state=0)[0]


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(values, chunks):
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *values.shape[1:]))


def test_a_plan_for_workers():
    method = Roseland(10, landmarks=10_000)
    one, two = (plan((20_000_000, 3), method, workers=count) for count in (1, 2))
    assert [stage.name for stage in two.stages] == ["landmarks", "first pass", "second pass", "solve"]
    assert 1.7 < one.seconds / two.seconds < 2.1
    assert two.peak < 2e9
    assert "on 2 workers" in str(two)
    assert "MB moved" in str(two)
    assert two.moved > 2 * 20_000_000 * 24  # both passes read all rows
    large = plan((10**9, 50), method, workers=100)
    assert large.parts > 100
    assert large.peak < 4e9
    assert plan(lazy(X, 100), Roseland(landmarks=100), workers=2).parts == 6
    assert plan((10**6, 3), DiffusionMaps(landmarks=1000), workers=2).stages[0].name == "landmarks"
    dense = plan((10**6, 3), Roseland(landmarks=8000, n_neighbors=None), workers=2)
    assert dense.edges == "all landmarks"
    assert dense.seconds > one.seconds / 20
    for bad in (0, -1):
        with pytest.raises(ValueError, match="workers"):
            plan((1000, 3), method, workers=bad)
    with pytest.raises(ValueError, match="without landmarks"):
        plan((1000, 3), DiffusionMaps(), workers=2)


@pytest.mark.parametrize("neighbours", [None, 12])
def test_a_plan_can_be_measured(neighbours):
    method = Roseland(3, landmarks=100, n_neighbors=neighbours)
    for rows in (lazy(X, 100), X, X.shape):
        found = plan(rows, method, workers=2, measured=True)
        assert 0 < found.stages[1].seconds < 60
        assert found.stages[1].seconds != plan(rows, method, workers=2).stages[1].seconds
