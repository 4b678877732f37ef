"""Equal rows are one place, found exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfold._loops import hashing
from outfold._loops.elementwise import COMPILED_FROM
from outfold.data import places
from outfold.data.places import count_neighbors, find_places, hash_rows

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, rows=st.integers(2, 60), features=st.integers(1, 4), values=st.integers(2, 9))
def test_places_are_the_distinct_rows_in_the_order_they_appear(seed, rows, features, values):
    X = np.random.default_rng(seed).integers(0, values, (rows, features)) * 0.1
    found = find_places(X)
    distinct, first = np.unique(X, axis=0, return_index=True)
    if len(distinct) == rows:
        assert found is None
        return
    assert found.first.tolist() == sorted(first.tolist())
    np.testing.assert_array_equal(X[found.first][found.member], X)
    np.testing.assert_allclose(found.mass(np.ones(rows)), [(p == X).all(axis=1).sum() for p in X[found.first]])


def test_hashes_of_many_entries_are_those_of_few():
    X = np.random.default_rng(0).normal(size=(2000, 40))
    X[X < -1], X[5, 5], X[6, 6], X[7] = 0.0, -0.0, np.nan, X[8]
    assert X.size >= COMPILED_FROM
    few = np.concatenate([hash_rows(X[at : at + 100]) for at in range(0, 2000, 100)])
    np.testing.assert_array_equal(hash_rows(X), few)
    np.testing.assert_array_equal(hash_rows(np.asfortranarray(X)), few)
    bits, columns = (X[:50] + 0.0).view(np.uint64), np.arange(1, 41).astype(np.uint64)
    fast, slow = np.empty((2, 50), np.uint64)
    hashing.hash_entries(bits, columns, fast, 0, 50)
    with np.errstate(over="ignore"):
        hashing.hash_entries.plain(bits, columns, slow, 0, 50)
    np.testing.assert_array_equal(fast, slow)


def test_zero_has_one_sign_and_nan_equals_itself():
    X = np.array([[0.0, np.nan], [-0.0, np.nan], [0.0, 1.0]])
    assert find_places(X).member.tolist() == [0, 0, 1]


def test_rows_that_differ_in_the_last_bit_are_two_places():
    X = np.array([[1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)], [2.0, 1.0]])
    assert find_places(X) is None


def test_rows_of_one_hash_are_compared(monkeypatch):
    X = np.array([[1.0], [2.0], [1.0], [3.0]])
    monkeypatch.setattr(places, "hash_rows", lambda points, seed=0: np.zeros(len(points), np.uint64))
    assert find_places(X).member.tolist() == [0, 1, 0, 2]
    assert find_places(X[[0, 1, 3]]) is None


@given(seed=seeds)
def test_a_hash_is_that_of_the_content(seed):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    order = np.random.default_rng(seed).permutation(40)
    keys = hash_rows(X)
    np.testing.assert_array_equal(hash_rows(X[order]), keys[order])
    np.testing.assert_array_equal(hash_rows(np.asfortranarray(X)), keys)
    assert len(np.unique(keys)) == 40
    assert (hash_rows(X, seed=1) != keys).all()


def test_hashes_do_not_depend_on_how_many_rows_there_are(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 2))
    whole = hash_rows(X)
    monkeypatch.setattr(places, "HASHED_ROWS", 7)
    np.testing.assert_array_equal(hash_rows(X), whole)


def test_a_place_counts_once_and_a_light_one_as_its_measure():
    X = np.array([[0.0], [1.0], [0.0], [2.0], [3.0], [3.0]])
    found = count_neighbors(X, np.array([1.0, 5.0, 3.0, 0.25, 0.3, 0.1]))
    assert found == pytest.approx([0.25, 1.0, 0.75, 0.25, 0.3, 0.1])
    assert count_neighbors(X[[0, 1]], np.ones(2)) is None
    assert count_neighbors(X[[0, 1]], np.full(2, 7.0)).tolist() == [1, 1]
