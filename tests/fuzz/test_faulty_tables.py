"""Files with faults through the command: exit code 2 and a sentence, never a traceback."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from click.testing import CliRunner

from outfold.app.cli.main import main

HEADER = "tea,milk,sugar\n"
ROWS = [",".join(map(str, row)) for row in np.random.default_rng(0).uniform(size=(40, 3)).round(3).tolist()]
GOOD = HEADER + "\n".join(ROWS) + "\n"


def table(**columns):
    values = np.random.default_rng(0).uniform(size=(40, 3))
    return pa.table({**dict(zip(("tea", "milk", "sugar"), values.T)), **columns})


def parquet(path, found):
    pq.write_table(found, path)


def npy(path, array):
    np.save(path, array, allow_pickle=True)


FAULTS = {  # name of the file -> how it is written
    "empty.csv": lambda p: p.write_text(""),
    "blank.csv": lambda p: p.write_text("\n\n\n"),
    "header only.csv": lambda p: p.write_text(HEADER),
    "one row.csv": lambda p: p.write_text(HEADER + ROWS[0]),
    "twice.csv": lambda p: p.write_text("tea,milk,tea\n" + "\n".join(ROWS)),
    "ragged.csv": lambda p: p.write_text(GOOD + "1,2\n"),
    "long row.csv": lambda p: p.write_text(GOOD + "1,2,3,4\n"),
    "open quote.csv": lambda p: p.write_text(GOOD + '"1,2,3\n'),
    "all missing.csv": lambda p: p.write_text(HEADER + ",,\n" * 40),
    "all text.csv": lambda p: p.write_text(HEADER + "a,b,c\n" * 40),
    "constant.csv": lambda p: p.write_text(HEADER + "1,1,1\n" * 40),
    "text far down.csv": lambda p: p.write_text(HEADER + "\n".join(ROWS * 40) + "\n1,grey,2\n"),
    "latin.csv": lambda p: p.write_bytes(("t\xe9,milk,sugar\n" + "\n".join(ROWS)).encode("latin-1")),
    "utf-16.csv": lambda p: p.write_bytes(GOOD.encode("utf-16")),
    "utf-32.csv": lambda p: p.write_bytes(GOOD.encode("utf-32")),
    "nulls.csv": lambda p: p.write_bytes(GOOD.encode().replace(b"0.5", b"\0.5")),
    "binary.csv": lambda p: p.write_bytes(np.random.default_rng(0).bytes(4000)),
    "parquet.csv": lambda p: parquet(p, table()),
    "zip.csv": lambda p: p.write_bytes(b"PK\3\4" + bytes(400)),
    "folder.csv": lambda p: p.mkdir(),
    "missing.csv": lambda p: None,
    "text.csv.gz": lambda p: p.write_text(GOOD),
    "cut.csv.gz": lambda p: p.write_bytes(gzip.compress(GOOD.encode())[:-20]),
    "text.parquet": lambda p: p.write_text(GOOD),
    "empty.parquet": lambda p: p.write_bytes(b""),
    "cut.parquet": lambda p: (parquet(p, table()), p.write_bytes(p.read_bytes()[:-40])),
    "no rows.parquet": lambda p: parquet(p, table().slice(0, 0)),
    "no columns.parquet": lambda p: parquet(p, pa.table({})),
    "text only.parquet": lambda p: parquet(p, pa.table({"tea": ["a"] * 40})),
    "nulls only.parquet": lambda p: parquet(p, pa.table({"tea": pa.nulls(40, pa.float64())})),
    "lists.parquet": lambda p: parquet(p, pa.table({"tea": [[1.0]] * 40})),
    "text.feather": lambda p: p.write_text(GOOD),
    "text.npy": lambda p: p.write_text(GOOD),
    "objects.npy": lambda p: npy(p, np.array([[1, "a"]] * 40, dtype=object)),
    "texts.npy": lambda p: npy(p, np.array([["a", "b"]] * 40)),
    "complex.npy": lambda p: npy(p, np.ones((40, 3)) * 1j),
    "dates.npy": lambda p: npy(p, np.arange(120).reshape(40, 3).astype("datetime64[s]")),
    "structured.npy": lambda p: npy(p, np.zeros(40, dtype=[("a", float)])),
    "flat.npy": lambda p: npy(p, np.arange(40.0)),
    "deep.npy": lambda p: npy(p, np.ones((40, 2, 2))),
    "no rows.npy": lambda p: npy(p, np.ones((0, 3))),
    "cut.npy": lambda p: (npy(p, np.ones((40, 3))), p.write_bytes(p.read_bytes()[:-40])),
    "array.npz": lambda p: (np.save(p.with_suffix(".npy"), np.eye(40)), p.with_suffix(".npy").rename(p)),
    "two arrays.npz": lambda p: np.savez(p, a=np.eye(4), b=np.eye(4)),
    "text.npz": lambda p: p.write_text(GOOD),
    "sparse complex.npz": lambda p: scipy.sparse.save_npz(p, scipy.sparse.csr_array(np.eye(40) * 1j)),
    "sparse nan.npz": lambda p: scipy.sparse.save_npz(p, scipy.sparse.csr_array(np.eye(40) * np.nan)),
    "text.zarr": lambda p: p.write_text(GOOD),
    "empty.zarr": lambda p: p.mkdir(),
    "text.h5ad": lambda p: p.write_text(GOOD),
    "rows.docx": lambda p: p.write_text(GOOD),
    "folder": lambda p: p.mkdir(),
}


FOR_A_MODEL = ("one row.csv", "constant.csv", "all missing.csv")  # rows that a model embeds, or leaves blank


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def check(result):
    assert result.exit_code == 2, f"{result.exit_code}: {result.output} {result.exception!r}"
    assert "Traceback" not in result.output
    assert "Error" in result.output
    assert len(result.output.strip().splitlines()[-1]) > 20


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_with_a_fault_is_refused(name, tmp_path):
    FAULTS[name](tmp_path / name)
    check(run("fit", tmp_path / name, "--save", tmp_path / "model.outfold"))
    assert not (tmp_path / "model.outfold").exists()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "good.csv").write_text(GOOD)
    result = run("fit", folder / "good.csv", "--save", folder / "model.outfold", "--quiet")
    assert result.exit_code == 0, result.output
    return folder / "model.outfold"


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in FOR_A_MODEL])
def test_a_file_with_a_fault_is_refused_by_a_model(name, model, tmp_path):
    FAULTS[name](tmp_path / name)
    check(run("transform", model, tmp_path / name, "-o", tmp_path / "places.csv"))
    assert not (tmp_path / "places.csv").exists()


def test_what_is_no_fault_is_read(tmp_path):
    for name, content in {
        "bom.csv": b"\xef\xbb\xbf" + GOOD.encode(),
        "windows.csv": GOOD.replace("\n", "\r\n").encode(),
        "semicolon.csv": GOOD.replace(",", ";").encode(),
        "missing cell.csv": GOOD.encode() + b"1,,2\n",
        "no end of line.csv": GOOD.rstrip().encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
        result = run("fit", tmp_path / name, "--quiet", "--save", tmp_path / "model.outfold")
        assert result.exit_code == 0, f"{name}: {result.output}"
