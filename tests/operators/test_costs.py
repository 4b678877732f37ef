"""Costs: how they grow with rows, landmarks, features and neighbours. Their constants are measured, not tested."""

import pytest

from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LocallyLinearEmbedding, Roseland, plan
from outfold.operators import costs


def seconds(shape, method):
    return {stage.name: stage.seconds for stage in plan(shape, method).stages}


def held(shape, method):
    return {stage.name: stage.bytes for stage in plan(shape, method).stages}


@pytest.mark.parametrize("n_neighbors", [None, 16])
def test_passes_over_twice_the_rows_take_twice_as_long(n_neighbors):
    method = Roseland(4, landmarks=2000, n_neighbors=n_neighbors, memory="100GB")
    once, twice = seconds((10**5, 5), method), seconds((2 * 10**5, 5), method)
    for name in ("first pass", "second pass"):
        assert twice[name] == pytest.approx(2 * once[name], rel=1e-9)


def test_products_of_dense_rows_grow_with_the_square_of_the_landmarks():
    """The second pass is the first and the products; the first is linear in the landmarks."""
    few, many = (seconds((10**5, 5), Roseland(4, landmarks=m, n_neighbors=None)) for m in (1000, 2000))
    assert many["first pass"] == pytest.approx(2 * few["first pass"], rel=1e-9)
    products = [one["second pass"] - one["first pass"] for one in (few, many)]
    assert products[1] == pytest.approx(4 * products[0], rel=1e-9)


def test_products_of_sparse_rows_grow_with_the_square_of_the_neighbors():
    few, many = (seconds((10**5, 5), Roseland(4, landmarks=5000, n_neighbors=k, memory="100GB")) for k in (8, 16))
    assert many["second pass"] == pytest.approx(
        4 * few["second pass"], rel=1e-9
    )  # one pass searches, the other multiplies


def test_a_dense_kernel_holds_the_square_of_its_rows():
    once, twice = (held((n, 5), DiffusionMaps(n_neighbors=None)) for n in (2000, 4000))
    assert twice["kernel"] == pytest.approx(4 * once["kernel"], rel=1e-2)
    assert once["kernel"] >= 8 * 2000**2


@pytest.mark.parametrize(("method", "tables"), [(KernelPCA(), 1), (ClassicalMDS(), 1), (Isomap(), 2)])
def test_a_centred_kernel_is_one_table_and_geodesics_are_another(method, tables):
    peak = plan((10_000, 3), method).peak
    assert tables <= peak / (8 * 10_000**2) < tables + 0.15


@pytest.mark.parametrize("method", [DiffusionMaps(), KernelPCA(), LocallyLinearEmbedding()])
def test_the_copy_of_the_data_that_a_model_keeps_is_counted(method):
    few, many = (held((4000, features), method) for features in (1000, 2000))
    assert all(many[stage] - few[stage] >= 8 * 4000 * 1000 for stage in few if stage != "embedding")


def test_landmarks_are_copied_and_other_rows_are_not():
    few, many = (plan((10**6, features), Roseland(landmarks=2000, n_neighbors=None)).peak for features in (100, 200))
    assert 8 * 2000 * 100 <= many - few < 8 * 10**6 * 100


@pytest.mark.parametrize("features", [3, 9, 50])
def test_a_search_takes_longer_with_more_of_anything(features):
    base = costs.search_seconds(features, 1000, 5000, 10)
    assert costs.search_seconds(features, 2000, 5000, 10) == pytest.approx(2 * base)
    assert costs.search_seconds(features + 1, 1000, 5000, 10) > base
    wider = costs.search_seconds(features, 1000, 5000, 20)
    assert wider == pytest.approx(2 * base) if features <= 10 else wider == base


@pytest.mark.parametrize("n_neighbors", [None, 16])
def test_passes_on_two_threads_take_half_as_long(n_neighbors):
    one, two = (
        seconds((10**5, 5), Roseland(4, landmarks=2000, n_neighbors=n_neighbors, memory="100GB", n_jobs=jobs))
        for jobs in (1, 2)
    )
    for name in ("first pass", "second pass"):
        assert two[name] == pytest.approx(one[name] / 2, rel=1e-9)
