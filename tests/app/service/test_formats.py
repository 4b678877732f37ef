"""What is sent: JSON, NPY and Arrow, read by their grammar and nothing else."""

import io

import numpy as np
import pytest

import outfold
from catalogue import quietly
from clients import COLUMNS, PREPARATION, ROWS, X, ask, body_of, error_of, post, serving
from outfold.app.service import formats, service


@pytest.fixture(scope="module")
def served():
    model = outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200]))
    yield from serving(quietly(model.calibrate, folds=3))


@pytest.fixture
def app(served):
    return service.application(served, port=8765)


BAD = {
    b"": 400,
    b"{": 400,
    b"\xff\xfe": 400,
    b"\xef\xbb\xbf{}": 400,
    b'{"rows": [[1, 2, NaN]]}': 400,
    b'{"rows": [[1, 2, -Infinity]]}': 400,
    b'{"rows": [[1, 2, 3]], "rows": [[1, 2, 3]]}': 400,
    b'{"rows": [[1, 2, 3]]} {}': 400,
    b'{"rows": [[1, 2, ' + b"9" * 5000 + b"]]}": 400,
    b"[]": 422,
    b"3": 422,
    b"null": 422,
    b'"rows"': 422,
    b"{}": 422,
    b'{"rows": [[1, 2, 3]], "columns": {}}': 422,
    b'{"lines": [[1, 2, 3]]}': 422,
    b'{"rows": []}': 422,
    b'{"rows": null}': 422,
    b'{"rows": {"0": [1, 2, 3]}}': 422,
    b'{"rows": [1, 2, 3]}': 422,
    b'{"rows": [[]]}': 422,
    b'{"rows": [[1, 2]]}': 422,
    b'{"rows": [[1, 2, 3], [1, 2]]}': 422,
    b'{"rows": [[1, 2, "3"]]}': 422,
    b'{"rows": [[1, 2, true]]}': 422,
    b'{"rows": [[1, 2, null]]}': 422,
    b'{"rows": [[1, 2, [3]]]}': 422,
    b'{"rows": [[1, 2, 1e999]]}': 422,
    b'{"rows": [[1, 2, ' + b"9" * 400 + b"]]}": 422,
    b'{"rows": [[1.7e308, 2, 3]]}': 422,
    b'{"columns": {"length": [1]}}': 422,
    b'{"columns": {"length": [1], "width": [1, 2], "</script>": [1]}}': 422,
    b'{"columns": {"length": [1], "width": [""], "</script>": [1]}}': 422,
    b'{"columns": {"length": [], "width": [], "</script>": []}}': 422,
    b'{"columns": [[1, 2, 3]]}': 422,
    b'{"rows": [' + b",".join([b"[1, 2, 3]"] * 501) + b"]}": 413,
    b'{"rows": [' + b",".join([b"[]"] * 100_000) + b"]}": 413,
    b'{"columns": {' + b",".join(b'"%d":0' % at for at in range(20_000)) + b"}}": 413,
    b'{"columns": {' + b",".join(b'"%d":0' % at for at in range(2000)) + b"}}": 413,
    b'{"rows": [' + b"{}," * 2000 + b"{}]}": 400,
}


@pytest.mark.parametrize(("body", "status"), BAD.items(), ids=lambda v: repr(v)[:40])
def test_bad_json_is_refused(app, body, status):
    assert error_of(ask(app, "POST", "/v1/transform", content=body, headers={"content-type": formats.JSON}), status)


def test_deep_json_is_refused(app):
    body = b'{"rows": ' + b"[" * 2000 + b"]" * 2000 + b"}"
    answer = ask(app, "POST", "/v1/transform", content=body, headers={"content-type": formats.JSON})
    assert answer.status_code in (400, 422)  # Pythons differ in how deep they read; those that can find no table
    with pytest.raises(formats.Unreadable, match="too deeply"):
        formats.parse_json(b"[" * 200_000 + b"]" * 200_000)


def test_the_row_and_the_column_are_named(app):
    def told(**document):
        return error_of(ask(app, "POST", "/v1/transform", json=document), 422)

    assert told(rows=[[1, 2, 3], [1, 2, "x"]]) == "Row 1, column 2: text is not a number."
    assert told(rows=[[1, 2, 3], [1, 2]]) == "Row 1 has 2 numbers, row 0 has 3."
    assert "Row 1, column 'width'" in told(columns={"length": [1, 2], "width": [1, None], "</script>": [1, 2]})
    assert "'width'" in told(columns={"length": [1, 2], "</script>": [1, 2]})
    bad = np.array(ROWS)
    bad[7, 1] = np.nan
    for form in (formats.NPY, formats.ARROW):
        assert error_of(post(app, "/v1/transform", bad, form=form), 422).startswith("Row 7, column 1 ('width'): nan")


def npy(header, data=b"\0" * 24, version=1):
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3), }\n"), 200),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3), }\n", version=2), 200),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n"), 422),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 3), }\n"), 422),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1), }\n"), 422),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), }\n", b""), 422),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n"), 400),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 3), }\n"), 413),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 3), }\n", b"cos\nsystem\n"), 400),
        (npy(b"{'descr': '<U8', 'fortran_order': False, 'shape': (1, 3), }\n"), 400),
        (npy(b"{'descr': '<c8', 'fortran_order': False, 'shape': (1, 3), }\n"), 400),
        (npy(b"{'descr': '<f1', 'fortran_order': False, 'shape': (1, 3), }\n"), 400),
        (npy(b"__import__('os')"), 400),
        (npy(b"(" * 5000), 400),
        (npy(b" " * 70000, version=2), 400),
        (b"\x93NUMPY", 400),
        (b"PK\x03\x04", 400),
    ],
)
def test_npy_is_read_by_its_grammar_and_nothing_else(app, body, status):
    answer = ask(app, "POST", "/v1/transform", content=body, headers={"content-type": formats.NPY})
    assert answer.status_code == status, answer.text


def test_arrow_that_could_grow_or_is_no_table_of_numbers_is_refused(app):
    arrow, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.ipc")

    def told(status, table, **options):
        held = io.BytesIO()
        with ipc.new_stream(held, table.schema, options=ipc.IpcWriteOptions(**options)) as stream:
            stream.write_table(table)
        return error_of(
            ask(app, "POST", "/v1/trust", content=held.getvalue(), headers={"content-type": formats.ARROW}), status
        )

    good = {name: [0.5, 0.5] for name in COLUMNS}
    for codec in ("lz4", "zstd"):
        assert "Compressed" in told(422, arrow.table(good), compression=codec)
    assert "dictionaries" in told(422, arrow.table(good | {"kind": arrow.array(["a", "b"]).dictionary_encode()}))
    assert "'width' holds string" in told(422, arrow.table(good | {"width": ["1", "2"]}))
    assert "'width' is missing" in told(422, arrow.table(good).drop_columns("width"))
    assert "Row 1, column 1" in told(422, arrow.table(good | {"width": [1.0, None]}))
    assert "no rows" in told(422, arrow.table(good).slice(0, 0))
    told(413, arrow.table({name: np.zeros(501) for name in COLUMNS}))
    whole = body_of(formats.ARROW, ROWS)
    for part in (whole[:100], whole[:-200], b"\xff" * 50, b"ARROW1"):
        assert error_of(ask(app, "POST", "/v1/trust", content=part, headers={"content-type": formats.ARROW}), 400)
