"""Preparations: the same columns and the same scale for every table, or a refusal."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import RobustScaler, StandardScaler

from outfold import DiffusionMaps, storage
from outfold.data import columns as preparation
from outfold.data import tables
from outfold.data.columns import Preparation, Prepared, prepare
from outfold.data.table_files import open_table
from outfold.exceptions import TableError


@pytest.fixture
def raw():
    rng = np.random.default_rng(0)
    X = rng.normal([5, -2, 1e6], [3, 0.01, 1e4], size=(500, 3))
    X.flags.writeable = False
    return X


@pytest.fixture
def small(monkeypatch):
    """Many batches."""
    monkeypatch.setattr(tables, "BATCH_ROWS_UP_TO", 37)


def array(X, told="a.npy"):
    return tables.Matrix(X, told)


def named(X, names="abc"):
    return tables.Matrix(X, "a.h5ad", tuple(names))


@pytest.mark.parametrize(("scaling", "scaler"), [("standard", StandardScaler()), ("robust", RobustScaler())])
def test_scaling_in_batches_is_that_of_scikit_learn(raw, small, scaling, scaler):
    found, missing = prepare(array(raw), scaling=scaling)
    expected = scaler.fit_transform(raw)
    np.testing.assert_allclose(found.apply(raw), expected, atol=1e-9)
    np.testing.assert_allclose(Prepared(array(raw), found, 500).array(), expected, atol=1e-9)
    np.testing.assert_allclose(found.undo(found.apply(raw)), raw, rtol=1e-14)
    assert (missing.rows, missing.left_out) == (500, 0)


def test_none_leaves_columns_as_they_are(raw):
    found, _ = prepare(array(raw), scaling="none")
    assert np.shares_memory(found.apply(raw), raw)
    np.testing.assert_array_equal(found.undo(raw), raw)


def test_quartiles_of_many_rows_are_those_of_a_random_part(monkeypatch, small):
    monkeypatch.setattr(preparation, "SAMPLE_ROWS", 4000)
    X = np.sort(np.random.default_rng(1).normal(10, 2, size=(20_000, 1)), axis=0)  # a first part would be far off
    found, _ = prepare(array(X), scaling="robust")
    lower, centre, upper = np.percentile(X, [25, 50, 75])
    assert found.centre[0] == pytest.approx(centre, abs=0.15)
    assert found.scale[0] == pytest.approx(upper - lower, rel=0.05)


def test_where_quartiles_agree_the_standard_deviation_scales():
    X = np.zeros((100, 2))
    X[:10, 0], X[:, 1] = 3.0, np.arange(100) % 7
    found, _ = prepare(array(X), scaling="robust")
    assert found.scale[0] == pytest.approx(X[:, 0].std())


def test_rows_that_lack_a_value_are_left_out_and_counted(raw, small):
    X = raw.copy()
    X[[3, 77, 210, 400], [0, 1, 1, 2]] = np.nan, np.nan, np.inf, np.nan
    kept = np.delete(X, [3, 77, 210, 400], axis=0)
    found, missing = prepare(named(X))
    np.testing.assert_allclose(found.centre, kept.mean(axis=0), rtol=1e-12)
    assert missing.describe(named(X)) == (
        "4 of 500 rows lack a value, in 'b' (2), 'a' (1), 'c' (1); first rows 4, 78, 211"
    )
    np.testing.assert_allclose(Prepared(named(X), found, 496).array(), (kept - kept.mean(0)) / kept.std(0), atol=1e-9)


def test_columns_without_values_or_with_one_are_left_out(raw):
    X = np.column_stack([raw, np.full(500, np.nan), np.full(500, 0.1)])
    found, missing = prepare(named(X, "abcde"))
    assert (found.columns, found.empty, found.constant) == (("a", "b", "c"), ("d",), ("e",))
    assert missing.left_out == 0
    assert prepare(named(X, "abcde"), scaling="none")[0].columns == ("a", "b", "c", "e")


def test_id_and_label_are_no_features(raw):
    found, _ = prepare(named(raw), id="b", label="a")
    assert (found.columns, found.id, found.label) == (("c",), "b", "a")


def test_columns_that_number_rows_are_noticed(raw, small):
    X = np.column_stack([raw, np.arange(500), np.r_[np.arange(499), 3]])
    assert prepare(named(X, "abcde"))[1].rising == ("d",)


# -- other tables --------------------------------------------------------------------------


def test_order_and_extra_columns_do_not_matter(raw):
    found, _ = prepare(named(raw))
    other = tables.Matrix(np.column_stack([raw[:, [2, 0]], raw[:, :1], raw[:, 1]]), "b.h5ad", ("c", "a", "new", "b"))
    assert found.find_ignored(other) == ("new",)
    np.testing.assert_array_equal(Prepared(other, found, 500).array(), found.apply(raw))


def test_a_table_without_a_column_is_refused(raw):
    found, _ = prepare(named(raw))
    with pytest.raises(TableError, match=r"b\.h5ad has no column 'b' that the model was fitted with.*'bb'"):
        found.match(tables.Matrix(raw, "b.h5ad", ("a", "bb", "c")))


def test_tables_without_names_go_by_place_and_number(raw):
    by_name, _ = prepare(named(raw))
    assert by_name.match(array(raw)) == ("column_1", "column_2", "column_3")
    with pytest.raises(TableError, match=r"a\.npy has 2 columns of numbers, and the model takes 3 \('a', 'b', 'c'\)"):
        by_name.match(array(raw[:, :2]))
    wide = np.column_stack([np.ones(500), raw])
    by_place, _ = prepare(array(wide))
    assert by_place.columns == ("column_2", "column_3", "column_4")
    assert by_place.match(named(wide, "wxyz")) == ("x", "y", "z")
    np.testing.assert_array_equal(by_place.apply(wide), by_place.apply(raw))
    with pytest.raises(TableError, match=r"has 5 columns of numbers, and the model takes 4, by their place"):
        by_place.match(array(np.ones((3, 5))))


def test_rows_of_another_width_are_refused(raw):
    found, _ = prepare(named(raw))
    with pytest.raises(ValueError, match=r"shape \(500, 2\), but the model takes 3"):
        found.apply(raw[:, :2])
    with pytest.raises(ValueError, match=r"shape \(500, 2\), but the model has 3"):
        found.undo(raw[:, :2])


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": ()},
        {"columns": ("a", "a")},
        {"columns": (1,)},
        {"scaling": "log"},
        {"scaling": "standard"},
        {"scaling": "standard", "centre": np.zeros(1), "scale": np.zeros(1)},
        {"scaling": "standard", "centre": np.array([np.nan]), "scale": np.ones(1)},
        {"centre": np.zeros(1)},
        {"named": False},
        {"width": -1},
    ],
)
def test_what_is_no_preparation_is_refused(fields):
    assert Preparation(columns=("a",)).apply(np.ones((2, 1))).shape == (2, 1)
    with pytest.raises(ValueError):
        Preparation(**{"columns": ("a",), **fields})


class CountingName(str):
    """A name that counts how often it is compared with other names."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountingName.compared += 1
        return str.__eq__(self, other)


def test_features_of_many_columns_are_chosen_in_linear_time():
    names = (CountingName("id"), *(f"column {at}" for at in range(1000)))
    table = SimpleNamespace(names=names, numeric=names[:500], aside=(), require=lambda *_: None)
    features, text = preparation._choose_columns(table, None, "id", None)
    assert (features, text) == (names[1:500], names[500:])
    assert CountingName.compared <= 20  # a set that is built anew for each column compares each time


def test_a_sample_of_rows_one_at_a_time_is_that_of_a_block(monkeypatch):
    monkeypatch.setattr(preparation, "SAMPLE_ROWS", 1000)
    rows = np.random.default_rng(0).normal(size=(5000, 2))
    alone, together = preparation._Sample(2), preparation._Sample(2)
    together.add(rows)
    cuts, cut = [], preparation._Sample._cut
    monkeypatch.setattr(preparation._Sample, "_cut", lambda self: cuts.append(cut(self)))
    for row in rows:
        alone.add(row[None])
    np.testing.assert_array_equal(alone.rows, together.rows)
    assert len(alone.rows) == 1000
    assert len(cuts) < 20  # each copies the sample


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_two_hundred_thousand_columns(tmp_path, suffix):
    """A file of 8 rows is prepared, read again and kept with a model in seconds: anything quadratic takes hours."""
    X = np.random.default_rng(0).normal(size=(8, 200_000)).round(6)
    names, path = [f"gene_{at}" for at in range(X.shape[1])], tmp_path / f"wide{suffix}"
    if suffix == ".csv":
        lines = [",".join(names), *(",".join(map(repr, row)) for row in X.tolist())]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table(dict(zip(names, X.T))), path)
    table = open_table(path)
    found, _ = prepare(table)
    features = Prepared(table, found, 8).array()
    np.testing.assert_allclose(features, (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-12)
    storage.save(DiffusionMaps(2, n_neighbors=4).fit(features), tmp_path / "m", preparation=found)
    assert storage.open_model(tmp_path / "m")[1].columns == tuple(names)
    with pytest.raises(TableError, match="Did you mean 'gene_7'"):
        table.require(["Gene_7"], "to use")
