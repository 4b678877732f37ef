"""Streams of rows, drawn by a seed: blocks, files, tables of text, Dask frames and fits that are taken up again.

Each function draws a case and holds the law: the answer is that of the same rows in one array, or an error of ours that
names the place; what is written is complete or absent; the model is the same as before.
"""

import atexit
import contextlib
import csv
import gzip
import itertools
import tempfile
import warnings
from decimal import Decimal
from functools import cache, partial
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import zarr
from click.testing import CliRunner
from scipy import sparse

from fuzz.seeds import Planted, refusal
from outfold import DiffusionMaps, Roseland, storage
from outfold.app.cli.main import main
from outfold.data import Checkpoint, open_table, sources, table_files, tables, text_blocks
from outfold.data.columns import Preparation
from outfold.datasets import s_curve
from outfold.methods import base

NAMES = ("a", "b", "c")
STEP = 1 / 64  # features are multiples of it, which every kind of number here holds exactly


def on_grid(values):
    return np.round(np.asarray(values) / STEP) * STEP


X = np.unique(on_grid(s_curve(400, random_state=0)[0]), axis=0)  # of copies, landmarks are drawn in another way
X = X[np.random.default_rng(0).permutation(len(X))]
PREPARATION = Preparation(
    NAMES, scaling="standard", centre=np.array([0.25, 1.0, -0.5]), scale=np.array([0.5, 0.75, 1.5])
)
BY_PLACE = Preparation(("column_1", "column_2", "column_3"), named=False, width=3)


@cache
def models():
    rows = X[:150]
    return DiffusionMaps(2, random_state=0).fit(rows), Roseland(3, landmarks=40, random_state=0).fit(rows)


@cache
def saved(named):
    """A model with its columns, in a file that lives as long as the process."""
    preparation = PREPARATION if named else BY_PLACE
    folder = tempfile.TemporaryDirectory(prefix="outfold-fuzz-")
    path = Path(folder.name) / "m.outfold"
    model = DiffusionMaps(2, random_state=0).fit(preparation.apply(X[:150]))
    storage.save(model, path, preparation=preparation)
    atexit.register(folder.cleanup)
    return model, preparation, path


@contextlib.contextmanager
def set_to(*settings):
    """Change attributes of modules for a while."""
    old = [(owner, name, getattr(owner, name)) for owner, name, _ in settings]
    for owner, name, value in settings:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in old:
            setattr(owner, name, value)


@contextlib.contextmanager
def unchanged(model):
    """Hold that a model gives the same bits before and after."""
    before = model.transform(X[:5], on_far="keep").tobytes()
    yield
    assert model.transform(X[:5], on_far="keep").tobytes() == before, "the model has changed"


class Place:
    """A path for a file, in a folder of its own where an older file may lie."""

    def __init__(self, rng, name, folder, older=True):
        self.path = Path(folder) / name
        if older and rng.random() < 0.5 and self.path.suffix != ".zarr":
            self.path.write_bytes(b"old")
        self._before = self._content()

    def _content(self):
        return {path.name: path.is_file() and path.read_bytes() for path in self.path.parent.iterdir()}

    def assert_untouched(self):
        assert self._content() == self._before, "a call that failed left or changed files"


@contextlib.contextmanager
def place_for(rng, name, older=True):
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as folder:
        yield Place(rng, name, folder, older)


def assert_alike(found, truth, scale=1.0):
    """Hold row independence as the contract states it; NaN stands where the truth has NaN."""
    found, truth = np.asarray(found), np.asarray(truth)
    assert found.shape == truth.shape, (found.shape, truth.shape)
    size = max(1.0, np.nanmax(np.abs(truth), initial=0.0))
    np.testing.assert_allclose(found, truth, rtol=0, atol=scale * 1e-12 * size)


def pick_rows(rng, most=90):
    count = rng.choice([1, 2, 3, *[rng.randrange(4, most)] * 4])
    rows = X[np.random.default_rng(rng.randrange(2**32)).integers(0, len(X), count)].copy()
    if rng.random() < 0.2:
        rows[rng.randrange(count)] *= 32  # outside the data
    return rows


def read_out(path, columns):
    """The numbers in a file that was written, (rows, columns)."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        return zarr.open(str(path), mode="r")[:]
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return np.column_stack([table[name].to_numpy() for name in columns])
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    return np.array([[float(line[name] or "nan") for name in columns] for line in lines]).reshape(-1, len(columns))


# -- blocks --------------------------------------------------------------------------------


def as_block(rng, rows, sparse_too):
    """A block of the same numbers in another kind of array."""
    kinds = ["f8", "f8", "f4", "f2", ">f8", "O", "list", "frame", "fortran", "strided", "read-only"]
    kind = rng.choice([*kinds, *(["csr", "coo", "csc"] * 3 if sparse_too else [])])
    if kind in ("csr", "coo", "csc"):
        return getattr(sparse, f"{kind}_array")(rows)
    if kind == "list":
        return rows.tolist() if len(rows) else rows
    if kind == "frame":
        return pd.DataFrame(rows)
    if kind == "fortran":
        return np.asfortranarray(rows)
    if kind == "strided":
        return np.repeat(np.repeat(rows, 2, axis=0), 3, axis=1)[::2, ::3]
    if kind == "read-only":
        rows = rows.copy()
        rows.flags.writeable = False
        return rows
    return rows.astype(kind)


def cut(rng, rows):
    """The rows in blocks: of one row, empty, one of all, or any."""
    if rng.random() < 0.2:
        return [rows]
    if rng.random() < 0.2:
        return [rows[at : at + 1] for at in range(len(rows))]
    ends = sorted(rng.choices(range(len(rows) + 1), k=rng.randrange(8)))
    return [rows[a:b] for a, b in itertools.pairwise([0, *ends, len(rows)])]


def bad_block(rng, flaw, rows):
    """Rows that no fit and no transform takes."""
    one = rows[:1] if len(rows) else X[:1]
    if flaw in ("nan", "infinity"):
        rows = one.copy()
        rows[0, rng.randrange(3)] = {"nan": np.nan, "infinity": rng.choice([np.inf, -np.inf])}[flaw]
        return rows
    return {
        "width": rng.choice([one[:, :2], np.hstack([one, one]), one[:, :0]]),
        "axes": rng.choice([one[0], one[None], np.float64(3), 3.5]),
        "words": rng.choice([np.array([["tea", "1", "2"]]), np.array([["1", "tea", "3"]], object), [["1", "2", "x"]]]),
        "complex": one + 1j,
        "times": np.array([["2020-01-01", "2021-01-01", "2022-01-01"]], "M8[D]"),
        "nothing": rng.choice([None, {}, "rows", b"rows", object()]),
        "ragged": [[1.0, 2.0, 3.0], [1.0, 2.0]],
    }[flaw]


BAD_BLOCKS = ("nan", "infinity", "width", "axes", "words", "complex", "times", "nothing", "ragged")
BAD_PASSES = ("raises", "shorter", "longer", "wider", "exhausted", "no blocks", "none")


class Blocks:
    """A function that returns blocks; in a later pass it may go wrong."""

    def __init__(self, rng, rows):
        self.rows, self.passes, self.flaw, self.place = rows, 0, None, None
        sparse_too = rng.random() < 0.2
        self.blocks = [as_block(rng, part, sparse_too) for part in cut(rng, rows)]
        if rng.random() < 0.5:
            return
        self.flaw = rng.choice(BAD_BLOCKS + BAD_PASSES)
        at = rng.randrange(len(self.blocks) + 1)
        self.place = sum(block.shape[0] if hasattr(block, "shape") else len(block) for block in self.blocks[:at])
        self.at, self.first = at, rng.randrange(3)
        if self.flaw in BAD_BLOCKS:
            self.blocks.insert(at, bad_block(rng, self.flaw, rows))
        elif self.flaw == "exhausted":
            self.given = iter(self.blocks)

    def __call__(self):
        self.passes += 1
        late = self.passes > self.first if self.flaw else False
        if self.flaw == "none":
            return None
        if self.flaw == "no blocks":
            return iter(())
        if self.flaw == "exhausted":
            return self.given
        if self.flaw == "shorter" and self.passes > 1:
            return iter([np.empty((0, 3)), self.rows[:-1]])
        if self.flaw == "longer" and self.passes > 1:
            return iter([*self.blocks, self.rows[:2]])
        if self.flaw == "wider" and self.passes > 1:
            return iter([np.hstack([self.rows, self.rows])])
        if self.flaw == "raises" and late:
            return self._raising()
        return iter(self.blocks)

    def _raising(self):
        yield from self.blocks[: self.at]
        raise Planted("the disk of the user")


def blocks(rng):
    """Rows in blocks: ``transform``, into memory and into files."""
    model, given = rng.choice(models()), Blocks(rng, pick_rows(rng))
    out = rng.choice([None, "out.npy", "out.parquet", "out.zarr", "array"])
    steps = set_to((base, "STREAMED_ROWS", rng.choice([1, 7, 64, 1 << 14])))
    with unchanged(model), place_for(rng, out or "none") as place, steps:
        target = np.empty((len(given.rows), model._n_features_out)) if out == "array" else out and place.path
        try:
            found = model.transform(given, on_far="keep", out=target)
        except Planted:
            assert given.flaw == "raises"
            place.assert_untouched()
            return "planted"
        except Exception as error:
            told = refusal(error)
            assert given.flaw, told
            named = given.flaw in ("nan", "infinity") and out != "array"
            assert not named or f"row {given.place}" in told, (given.place, told)
            place.assert_untouched()
            return "refused"
        # a source that only goes wrong in a later pass may not be asked again
        assert given.flaw in (None, "raises"), f"{given.flaw} was taken"
        assert given.flaw is None or given.passes <= given.first
        if out not in (None, "array"):
            found = read_out(place.path, model.get_feature_names_out())
        assert_alike(found, model.transform(given.rows, on_far="keep"))
        return "taken"


def fits(rng):
    """Rows in blocks: fits that go through them, against the fit of the array."""
    rows = X[np.random.default_rng(rng.randrange(2**32)).permutation(len(X))[: rng.randrange(40, 90)]]
    given, estimator = Blocks(rng, rows), rng.choice([Roseland, DiffusionMaps])
    estimator = estimator(2, landmarks=rng.choice([12, 20]), random_state=rng.randrange(9))
    weight = np.array([rng.choice([0.0, 1.0, 1.0]) for _ in rows]) if rng.random() < 0.3 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = estimator.fit(given, sample_weight=weight)
        except Planted:
            assert given.flaw == "raises"
            return "planted"
        except Exception as error:
            told = refusal(error)
            assert given.flaw, told
            assert not hasattr(estimator, "model_"), "a failed fit left a model"
            return "refused"
        assert given.flaw in (None, "raises"), f"{given.flaw} was taken"
        truth = type(estimator)(**estimator.get_params()).fit(rows, sample_weight=weight)
    np.testing.assert_allclose(found.eigenvalues_, truth.eigenvalues_, rtol=1e-12, atol=1e-13)
    return "taken"


# -- files ---------------------------------------------------------------------------------


def mutated(rng, data):
    """Bytes with a few of them changed, moved, repeated or gone."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not data:
            break
        at, way = rng.randrange(len(data)), rng.random()
        if way < 0.5:
            data[at] = rng.choice([0, 255, 10, 13, 34, 44, rng.randrange(256), data[at] ^ (1 << rng.randrange(8))])
        elif way < 0.65:
            del data[at : at + rng.randrange(1, 40)]
        elif way < 0.85:
            data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(1, 60)]
        else:
            del data[at:]
    return bytes(data)


def arrow_columns(rng, rows):
    """Columns of the numbers, each in a type that holds them."""
    columns = {}
    for name, column in zip(NAMES, rows.T):
        kind = rng.choice(["f8", "f4", "f2", "decimal"])
        if kind == "decimal" and np.isfinite(column).all():
            columns[name] = pa.array(list(map(Decimal, column.tolist())), pa.decimal128(20, 6))
        else:
            nulls = rng.random() < 0.5  # NaN as a missing value
            columns[name] = pa.array(column.astype("f8" if kind == "decimal" else kind), from_pandas=nulls)
    return columns


def write_npy(rng, path, rows):
    kind = rng.choice(["<f8", ">f8", "<f4", "<f2"])
    rows = rows.astype(kind)
    with open(path, "wb") as file:
        version = rng.choice([(1, 0), (2, 0), (3, 0)])
        np.lib.format.write_array(file, np.asfortranarray(rows) if rng.random() < 0.3 else rows, version=version)


def write_sparse(rng, path, rows):
    sparse.save_npz(path, rng.choice([sparse.csr_array, sparse.csc_array, sparse.coo_array])(rows))


def write_npz(rng, path, rows):
    if rng.random() < 0.5:
        write_sparse(rng, path, rows)
    else:
        rng.choice([np.savez, np.savez_compressed])(path, **{rng.choice(["X", "arr_0"]): rows})


def write_parquet(rng, path, rows):
    table = pa.table(arrow_columns(rng, rows))
    pq.write_table(table, path, row_group_size=rng.choice([1, 7, 1000]), compression=rng.choice(["none", "snappy"]))


def write_feather(rng, path, rows):
    table = pa.table(arrow_columns(rng, rows))
    with pyarrow.ipc.new_file(str(path), table.schema) as file:
        if rng.random() < 0.3:
            file.write_batch(pa.RecordBatch.from_pylist([], table.schema))
        file.write_table(table, max_chunksize=rng.choice([1, 7, 1000]))


def write_zarr(rng, path, rows):
    chunks = (rng.choice([1, 7, 200]), rng.choice([1, 2, 3]))
    kind = rng.choice(["f8", "f4", ">f8"])
    store = zarr.open(str(path), mode="w", shape=rows.shape, chunks=chunks, dtype=kind, fill_value=0)
    store[:] = rows


def write_h5ad(rng, path, rows):
    import anndata

    values = sparse.csr_matrix(rows) if rng.random() < 0.5 else rows
    found = anndata.AnnData(values, var=pd.DataFrame(index=list(NAMES)))
    found.obsm["X_other"] = rows[:, ::-1]
    found.write_h5ad(path)


WRITERS = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".parquet": write_parquet,
    ".feather": write_feather,
    ".zarr": write_zarr,
}
SOURCE_KINDS = (".npy", ".npz", ".parquet", ".zarr", "memmap", "hdf5", "list", "folder")
NOT_FINITE = ("nan", "infinity")
WRONG_FILES = ("damage", "damage", "cut", "empty", "width", "flat", "words", "objects", "complex", "fields", "no rows")


def harm(rng, path, flaw, rows):
    """Make a file of rows unfit, in the way ``flaw`` names."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    file = rng.choice(sorted(files))
    if flaw == "damage":
        file.write_bytes(mutated(rng, file.read_bytes()))
    elif flaw == "cut":
        data = file.read_bytes()
        file.write_bytes(data[: rng.randrange(len(data))])
    elif flaw == "empty":
        file.write_bytes(b"")
    else:
        other = {
            "width": rows[:, :2],
            "flat": rows[:, 0],
            "words": rows.astype("U8"),
            "objects": rows.astype(object),
            "complex": rows + 1j,
            "fields": np.zeros(4, [("a", "f8"), ("b", "f8"), ("c", "f8")]),
            "no rows": rows[:0],
        }[flaw]
        np.save(path, other, allow_pickle=True)


def draw_file(rng, folder, kinds, writers=WRITERS):
    """Return (path, rows, flaw): a file of rows, which may be spoiled."""
    rows, suffix, flaw = pick_rows(rng), rng.choice(kinds), None
    path = folder / f"rows{suffix}"
    if rng.random() < 0.5:
        possible = WRONG_FILES if suffix == ".npy" else WRONG_FILES[:4]
        flaw = rng.choice(NOT_FINITE + possible)
    if flaw in NOT_FINITE:
        rows[rng.randrange(len(rows)), rng.randrange(3)] = np.nan if flaw == "nan" else np.inf
    writers[suffix](rng, path, rows)
    if flaw in WRONG_FILES:
        harm(rng, path, flaw, rows)
    return path, rows, flaw


def open_source(rng, folder):
    """Return (X, rows, flaw): rows that are not in memory, as ``fit`` and ``transform`` take them."""
    kind = rng.choice(SOURCE_KINDS)
    if kind.startswith("."):
        return draw_file(rng, folder, [kind], WRITERS | {".npz": write_sparse})
    if kind == "list":
        parts = []
        for at in range(rng.randrange(1, 4)):
            (folder / str(at)).mkdir()
            parts.append(draw_file(rng, folder / str(at), (".npy", ".parquet", ".zarr")))
        flaws = [flaw for *_, flaw in parts if flaw]
        flaw = None if not flaws else flaws[0] if len(flaws) == 1 else "several"
        return [path for path, *_ in parts], np.vstack([rows for _, rows, _ in parts]), flaw
    rows = pick_rows(rng)
    if kind == "folder":
        for at, part in enumerate(np.array_split(rows, 2)):
            write_parquet(rng, folder / f"{at}.parquet", part)
        return folder, rows, None
    if kind == "hdf5":
        with h5py.File(folder / "rows.h5", "w") as file:
            file["rows"] = rows
        return h5py.File(folder / "rows.h5")["rows"], rows, None
    np.save(folder / "rows.npy", rows)
    return np.load(folder / "rows.npy", mmap_mode="r"), rows, None


def row_files(rng):
    """Files of rows through ``transform``: the answer of the array, or a refusal."""
    model = rng.choice(models())
    steps = set_to(
        (base, "STREAMED_ROWS", rng.choice([1, 7, 1 << 14])), (sources, "PIECE_BYTES", rng.choice([24, 500]))
    )
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as name, unchanged(model), steps:
        given, rows, flaw = open_source(rng, Path(name))
        try:
            found = model.transform(given, on_far="keep")
        except Exception as error:
            told = refusal(error)
            assert flaw, told
            assert flaw not in NOT_FINITE or "row " in told, told
            return "refused"
        finally:
            if hasattr(given, "file"):
                given.file.close()
        # damage may hit a number, which nobody can see
        assert np.isfinite(found).all()
        assert flaw in (None, "damage", "several", "no rows"), f"{flaw} was taken"
        if flaw is None:
            assert_alike(found, model.transform(rows, on_far="keep"))
        return "damaged" if flaw else "taken"


def table_rows(table, features, carried=()):
    """All rows of a table: numbers, and the columns carried along."""
    values, others, at = [np.empty((0, len(features)))], [[] for _ in carried], 0
    for batch in table.batches(features, carried):
        assert batch.start == at
        at += len(batch.values)
        values.append(batch.values)
        for column, cells in zip(others, batch.carried):
            column.extend(list(cells))
    return np.concatenate(values), others


def table_file(rng):
    """Files as tables: the rows that were written, NaN where one is not finite, or a refusal."""
    kinds = [*WRITERS, *WRITERS]
    steps = set_to((tables, "BATCH_CELLS", rng.choice([3, 50, 1 << 19])))
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as name, steps:
        if rng.random() < 0.05:
            with set_to((pd.options.mode, "copy_on_write", True)) if pd.__version__ < "3" else contextlib.nullcontext():
                rows, flaw, path = pick_rows(rng), None, Path(name) / "rows.h5ad"
                write_h5ad(rng, path, rows)
            if rng.random() < 0.5:
                flaw = rng.choice(["damage", "cut", "empty"])
                harm(rng, path, flaw, rows)
        else:
            path, rows, flaw = draw_file(rng, Path(name), kinds)
        try:
            table = open_table(path)
            found, _ = table_rows(table, table.numeric)
            if rng.random() < 0.3 and table.rows:
                start = rng.randrange(table.rows)
                stop = rng.randrange(start, table.rows + 3)
                np.testing.assert_array_equal(table.between(table.numeric, start, stop), found[start:stop])
        except Exception as error:
            told = refusal(error)
            assert flaw, told
            assert path.name in told, told
            return "refused"
        if flaw in ("damage", "width"):
            return "damaged"
        assert flaw in (None, *NOT_FINITE), f"{flaw} was taken"
        np.testing.assert_array_equal(found, rows)
        return "taken"


# -- text ----------------------------------------------------------------------------------

MISSING = ("", "NA", "n/a", " nan ", "NULL", "None", "?", "inf", "-Infinity", "1e999", "\t")
WORDS = ("x1", 'tea, or "coffee"', "two\nlines", "two\r\nlines", "", "007", "é", "\u2028", "a;b\tc", "'", "NA", " ")
BAD_CELLS = ("word", "word late", "1_2", "huge cell")
BAD_TEXT = (
    *(
        "short",
        "long",
        *BAD_CELLS,
        "quote",
        "bytes",
        "nul",
        "twice",
        "lacking",
        "header only",
        "empty",
        "half",
        "utf-16",
    ),
    *("blank only", "gzip"),
)


def spell(rng, value):
    """A number as text, in one of the ways people write it."""
    ways = [repr, "{:.17g}".format, "{:.6f}".format, "{:+.6f}".format, "{:.8e}".format, "{:.8E}".format]
    text = rng.choice(ways)(float(value))
    return rng.choice(
        [text, text, text, f" {text}", f"{text} ", text.replace("0.", ".", 1) if text[:2] == "0." else text]
    )


class Sheet:
    """A table of text with known numbers: its bytes, and what they say."""

    def __init__(self, rng, named=None):
        self.rows, self.flaw, self.bad_line = pick_rows(rng), None, None
        self.named = rng.random() < 0.8 if named is None else named
        self.separator = rng.choice([",", ",", ";", "\t"])
        self.end = rng.choice(["\n", "\n", "\r\n", "\r"])
        if rng.random() < 0.5:
            self.flaw = rng.choice(BAD_TEXT)
        if self.flaw == "header only":
            self.rows, self.named = self.rows[:0], True
        self.names = [*NAMES, "name", "note"] if self.named else list(NAMES)
        rng.shuffle(self.names) if self.named else None
        self._make(rng)

    def _make(self, rng):
        self.words = [[rng.choice(WORDS) for _ in self.rows] for _ in range(2)]
        columns = {name: [spell(rng, value) for value in self.rows[:, at]] for at, name in enumerate(NAMES)}
        self.values = self.rows.copy()
        for _ in range(rng.choice([0, 0, 3]) if len(self.rows) > 1 else 0):
            row, at = rng.randrange(1, len(self.rows)), rng.randrange(3)
            columns[NAMES[at]][row], self.values[row, at] = rng.choice(MISSING), np.nan
        columns |= {"name": self.words[0], "note": self.words[1]}
        lines = [list(cells) for cells in zip(*(columns[name] for name in self.names))]
        header = [f" {name} " if rng.random() < 0.1 else name for name in self.names]
        if self.flaw in ("twice", "lacking") and self.named:
            header[header.index(next(name for name in header if name.strip() == "a"))] = {
                "twice": "b",
                "lacking": "A1",
            }[self.flaw]
            if self.flaw == "twice":
                header = [name.strip() for name in header]
        elif self.flaw in ("twice", "lacking"):
            self.flaw = None
        bad = self._spoil(rng, lines)
        parts, place = [], 1
        for number, cells in enumerate([header, *lines] if self.named else lines):
            while rng.random() < 0.05 and self.flaw != "empty":
                parts.append(self.end)
                place += 1
            if bad is not None and number - self.named == bad:
                self.bad_line = place
            text = self._line(rng, cells)
            parts.append(text)
            place += len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
        text = "".join(parts)
        if rng.random() < 0.3 and self.flaw != "half":
            text = text.removesuffix(self.end)
        self.data = self._encode(rng, text)

    def _spoil(self, rng, lines):
        """Spoil a line in the way of the flaw; return its number."""
        if self.flaw not in ("short", "long", "word", "word late", "1_2", "huge cell", "quote"):
            return None
        if len(lines) < 2:
            self.flaw = None
            return None
        bad = len(lines) - 1 if self.flaw == "word late" else rng.randrange(1, len(lines))
        cells, at = lines[bad], self.names.index("a")
        if self.flaw == "short":
            cells.pop()
        elif self.flaw == "long":
            cells.append("1")
        elif self.flaw in ("word", "word late", "1_2"):
            cells[at] = {"1_2": "1_2"}.get(self.flaw) or rng.choice(["tea", "1,5", "0x10", "--1", "1e", "nan(1)"])
        elif self.flaw == "huge cell":
            cells[at] = "1" * (csv.field_size_limit() + 1)
        return bad

    def _line(self, rng, cells):
        every = rng.random() < 0.3
        need = {self.separator, '"', "\r", "\n"}
        quoted = ['"' + cell.replace('"', '""') + '"' if every or need & set(cell) else cell for cell in cells]
        return self.separator.join(quoted) + self.end

    def _encode(self, rng, text):
        if self.flaw == "quote":
            return text.encode() + b'"open' + self.separator.encode()
        if self.flaw == "empty":
            return b""
        if self.flaw == "blank only":
            return self.end.encode() * rng.randrange(1, 5)
        if self.flaw == "half":
            cut = text.rstrip("\r\n")
            last = cut.rfind(self.separator)
            return cut[:last].encode() if last > 0 and '"' not in text and self.named else b"a,b,c\n1,2,3\n1,"
        if self.flaw == "utf-16":
            return text.encode("utf-16")
        data = rng.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode()
        if self.flaw in ("bytes", "nul"):
            letter = {"bytes": rng.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80"]), "nul": b"\0"}[self.flaw]
            return data + self.end.encode() + letter + self.end.encode()
        return data


def reading(rng, quick):
    """Settings of the readers: small blocks and batches, and which of the two reads first."""
    small = rng.choice([16, 100, 1000, 1 << 20])
    return set_to(
        (table_files, "QUICK_BYTES_FROM", 0 if quick else 1 << 60),
        (text_blocks, "BLOCK_BYTES", small),
        (text_blocks, "PARSED_BYTES", max(1 << 10, small)),
        (text_blocks, "RECORD_BYTES_UP_TO", rng.choice([1 << 26, 10 * small])),
        (tables, "BATCH_CELLS", rng.choice([5, 60, 1 << 19])),
        (table_files, "TYPE_ROWS", rng.choice([2, 1000])),
    )


def text(rng):
    """Tables of text: the numbers and words that were written, or a refusal that names the line."""
    sheet = Sheet(rng)
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as name, reading(rng, rng.random() < 0.6):
        path = Path(name) / ("rows.tsv" if sheet.separator == "\t" else "rows.csv")
        if rng.random() < 0.15 or sheet.flaw == "gzip":
            path = path.with_name(path.name + ".gz")
            data = gzip.compress(sheet.data)
            path.write_bytes(data[: rng.randrange(1, len(data))] if sheet.flaw == "gzip" else data)
        else:
            path.write_bytes(sheet.data)
        try:
            table = open_table(path)
            features, carried = (NAMES, ["name", "note"]) if sheet.named else (table.names, [])
            table.require([*features, *carried], "here")
            found, words = table_rows(table, features, carried)
        except Exception as error:
            told = refusal(error)
            assert sheet.flaw, told
            assert path.name in told, told
            line = sheet.flaw in ("short", "long", *BAD_CELLS)
            assert not line or f"line {sheet.bad_line}:" in told, (sheet.flaw, sheet.bad_line, told)
            return "refused"
        if sheet.flaw == "header only":
            assert not len(found)
            return "no rows"
        assert sheet.flaw is None, f"{sheet.flaw} was taken"
        np.testing.assert_array_equal(np.where(np.isfinite(found), found, np.nan), sheet.values)
        assert not sheet.named or words == sheet.words
        return "taken"


def two_readers(rng):
    """Mutated tables of text: both readers say the same, numbers, words and errors."""
    sheet = Sheet(rng)
    data, answers = mutated(rng, sheet.data), []
    if not data:
        return "empty"
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as name:
        path = Path(name) / rng.choice(["rows.csv", "rows.tsv"])
        path.write_bytes(data)
        state = rng.getstate()
        for quick in (False, True):
            rng.setstate(state)
            with reading(rng, quick):
                try:
                    table = open_table(path)
                    features, carried = table.names[::2], table.names[1::2]
                    values, words = table_rows(table, features, carried)
                    answers.append((table.names, table.numeric, values.tolist().__repr__(), words))
                except Exception as error:
                    answers.append(refusal(error))
    assert answers[0] == answers[1]
    return "refused" if isinstance(answers[0], str) else "taken"


# -- the command ---------------------------------------------------------------------------


def command(rng):
    """``outfold transform`` of a table from a file or a pipe to a file or a pipe."""
    sheet = Sheet(rng)
    model, preparation, place = saved(sheet.named)
    out = rng.choice(["-", "out.csv", "out.tsv", "out.parquet", "out.npy", "out.zarr"])
    pipe, trust = sheet.flaw != "gzip" and rng.random() < 0.6, out[-4:] not in (".npy", "zarr") and rng.random() < 0.4
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as name, reading(rng, rng.random() < 0.5):
        path = Path(name) / ("rows.tsv" if sheet.separator == "\t" else "rows.csv")
        data = gzip.compress(sheet.data)[:-9] if sheet.flaw == "gzip" else sheet.data
        path = path.with_name(path.name + ".gz") if sheet.flaw == "gzip" else path
        path.write_bytes(data)
        words = ["--debug", "transform", str(place), "-" if pipe else str(path)]
        with place_for(rng, out if out != "-" else "none") as place:
            target = place.path
            words += ["-o", "-" if out == "-" else str(target), *(["--trust"] if trust else [])]
            words += ["--id", "name"] if sheet.named and rng.random() < 0.5 and out[-4:] not in (".npy", "zarr") else []
            answer = CliRunner().invoke(main, words, input=sheet.data if pipe else None)
            if answer.exit_code:
                check_refused(answer, sheet)
                place.assert_untouched()
                return "refused"
            assert sheet.flaw is None, f"{sheet.flaw} was taken: {answer.output}"
            truth = np.full((len(sheet.values), 2), np.nan)
            whole = np.isfinite(sheet.values).all(axis=1)
            if whole.any():
                truth[whole] = model.transform(preparation.apply(sheet.values[whole]), on_far="keep")
            if out == "-":
                target.write_text(answer.stdout, encoding="utf-8", newline="")
                target = target.rename(target.with_suffix(".csv"))
            assert_alike(read_out(target, model.get_feature_names_out()), truth)
            return "taken"


def check_refused(answer, sheet):
    """Hold that a command ended with an error of ours, and without a table."""
    if not isinstance(answer.exception, SystemExit):
        told = refusal(answer.exception)
    else:
        assert answer.exit_code in (1, 2)
        told = answer.output
    assert sheet.flaw, told
    line = sheet.flaw in ("short", "long") or (sheet.flaw in BAD_CELLS and sheet.named)  # else it makes a column text
    assert not line or f"line {sheet.bad_line}:" in told, (sheet.bad_line, told)


# -- Dask ----------------------------------------------------------------------------------


def dask_rows(rng):
    """Dask arrays and frames in odd parts: lazily what the model gives at once."""
    import dask
    import dask.array as da
    import dask.dataframe as dd

    model, rows = rng.choice(models()), pick_rows(rng)
    parts, flaw = cut(rng, rows), None
    if rng.random() < 0.3:
        flaw = rng.choice(["nan", "width", "words", "raises"])
    out = rng.choice([None, None, "out.zarr", "out.parquet"])
    with dask.config.set(scheduler="sync"), unchanged(model):
        if rng.random() < 0.5:
            given = da.concatenate(
                [da.from_array(part, chunks=(max(1, len(part)), rng.choice([1, 3]))) for part in parts]
            )
            if flaw == "nan":
                rows[place_of_nan := rng.randrange(len(rows))] = np.nan
                given = da.from_array(rows, chunks=(rng.choice([1, 5, 100]), 3))
            elif flaw == "width":
                given = given[:, :2]
            elif flaw == "words":
                given = given.astype(rng.choice(["U8", "M8[s]", "c16"]))
            elif flaw == "raises":
                given = given.map_blocks(_raise_planted, dtype=float)
            if rng.random() < 0.3 and flaw is None:
                given = given[da.from_array(np.ones(len(rows), bool), chunks=(given.chunks[0],))]  # unknown sizes
        else:
            frames = [pd.DataFrame(part, columns=list(NAMES)) for part in parts]
            if rng.random() < 0.4:
                frames = [frame[rng.sample(NAMES, 3)] for frame in frames]
            meta = frames[0].iloc[:0]
            if flaw == "nan":
                rows = rows.copy()
                rows[place_of_nan := rng.randrange(len(rows)), 1] = np.nan
                frames, meta = [pd.DataFrame(rows, columns=list(NAMES))], pd.DataFrame(rows[:0], columns=list(NAMES))
            elif flaw == "width":
                frames, meta = [frame[["a", "b"]] for frame in frames], meta[["a", "b"]]
            elif flaw == "words":
                frames = [*frames, pd.DataFrame({"a": [1.0], "b": ["tea"], "c": [1.0]})]
            elif flaw == "raises":
                frames = [*frames, None]
            given = dd.from_map(_part, frames, meta=meta)
            rows = rows if flaw else pd.concat(frames)[list(meta.columns)].to_numpy()
        try:
            with place_for(rng, out or "none", older=False) as place:
                try:
                    found = model.transform(given, on_far="keep", **({"out": place.path} if out else {}))
                    found = (
                        read_parts(place.path, model.get_feature_names_out()) if out else np.asarray(found.compute())
                    )
                except BaseException:
                    place.assert_untouched()
                    raise
        except Planted:
            assert flaw == "raises"
            return "planted"
        except Exception as error:
            told = refusal(error)
            assert flaw, told
            assert flaw != "nan" or f"row {place_of_nan}" in told
            return "refused"
    assert flaw is None, f"{flaw} was taken"
    assert_alike(found, model.transform(rows, on_far="keep"))
    return "taken"


def read_parts(path, columns):
    return (
        read_out(path, columns) if path.suffix == ".zarr" else pq.read_table(path).to_pandas()[list(columns)].to_numpy()
    )


def _raise_planted(block):
    if block.size:
        raise Planted("a worker of the user")
    return block


def _part(frame):
    if frame is None:
        raise Planted("a file of the user")
    return frame


# -- checkpoints ---------------------------------------------------------------------------


class Failing:
    """Blocks of rows that fail at block number ``at``, counted over all passes."""

    def __init__(self, parts, at):
        self.parts, self.at, self.count = parts, at, 0

    def __call__(self):
        for part in self.parts:
            self.count += 1
            if self.count == self.at:
                raise Planted("the disk of the user")
            yield part


@cache
def uninterrupted(rows, landmarks, seed, neighbors):
    return Roseland(2, landmarks=landmarks, n_neighbors=neighbors, random_state=seed).fit(X[:rows])


def checkpoints(rng):
    """Fits that stop at any block of any pass, and are taken up: the same bits; damaged states are refused."""
    rows, landmarks, seed, neighbors = (
        rng.choice([120, 200]),
        rng.choice([10, 30]),
        rng.randrange(2),
        rng.choice([None, 4]),
    )
    truth = uninterrupted(rows, landmarks, seed, neighbors)
    with tempfile.TemporaryDirectory(prefix="outfold-fuzz-") as name:
        ends = sorted(rng.sample(range(1, rows), rng.randrange(1, 6)))
        parts = [X[a:b] for a, b in itertools.pairwise([0, *ends, rows])]
        small = set_to((sources, "block_rows", lambda width: rng.choice([16, 50])))
        again = partial(Roseland, 2, landmarks=landmarks, n_neighbors=neighbors, random_state=seed)
        harmed = False
        with small:
            for attempt in itertools.count():
                source = Failing(parts, rng.randrange(1, 8 * len(parts)) if attempt < 6 else 0)
                try:
                    found = again(checkpoint=Checkpoint(name, seconds=0)).fit(source)
                    break
                except Planted:
                    states = sorted(Path(name).glob("*.npz"))
                    if states and rng.random() < 0.15:
                        state, harmed = rng.choice(states), True
                        state.write_bytes(mutated(rng, state.read_bytes()))
                except Exception as error:
                    told = refusal(error)
                    assert harmed, told
                    assert name in told, told
                    return "refused"
    if not harmed:  # a bit of the padding of a zip archive is nobody's
        np.testing.assert_allclose(found.eigenvalues_, truth.eigenvalues_, rtol=1e-12)
    assert_alike(found.transform(X[:20], on_far="keep"), truth.transform(X[:20], on_far="keep"), 100)
    return "resumed" if attempt else "taken"


ALL = (blocks, fits, row_files, table_file, text, two_readers, command, dask_rows, checkpoints)
