"""The service: answers are the library's, in every form, and what cannot be answered is refused by name."""

import copy
import io
import json
import sys
import threading

import numpy as np
import pytest
from click.testing import CliRunner

import outfold
from clients import COLUMNS, PREPARATION, ROWS, X, ask, body_of, error_of, post, serving, table_of, together
from outfold import methods, storage
from outfold.app import guard, service, wire
from outfold.app.command import main
from outfold.preparation import Preparation


@pytest.fixture(scope="module")
def served():
    yield from serving(outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200])).calibrate(folds=3))


@pytest.fixture
def app(served):
    return service.application(served, port=8765)


# -- laws ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [None, *wire.FORMS])
@pytest.mark.parametrize("form", wire.FORMS)
def test_positions_are_those_of_the_library_in_every_form(app, served, form, wanted):
    answer = post(app, "/v1/transform", form=form, wanted=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == (wanted or form)
    found, flag = table_of(answer), served.estimator.trust(PREPARATION.apply(ROWS)).flag
    assert answer.headers["outfold-outside"] == str(flag.sum())
    assert flag[-1]
    assert not flag.all()
    truth = served.estimator.transform(PREPARATION.apply(ROWS), on_far="keep")
    np.testing.assert_array_equal(np.column_stack([found[name] for name in served.coordinates]), truth)
    if (wanted or form) != wire.NPY:
        np.testing.assert_array_equal(found["outside"], flag)


@pytest.mark.parametrize("form", wire.FORMS)
def test_trust_is_that_of_the_library(app, served, form):
    truth = served.estimator.trust(PREPARATION.apply(ROWS), coverage=0.5)
    for path in ("/v1/trust?coverage=0.5", "/v1/transform?trust=true&coverage=0.5"):
        found = table_of(post(app, path, form=form))
        np.testing.assert_array_equal(found["flag" if "/trust" in path else "outside"], truth.flag)
        for name in ("support", "distance", "residual", "disagreement", "error"):
            values = np.array(found[name], dtype=float)  # null is NaN
            wanted = getattr(truth, name)
            np.testing.assert_array_equal(
                values, np.where(np.isfinite(wanted), wanted, np.nan) if form == wire.JSON else wanted
            )
    assert np.isinf(truth.error[-1])


@pytest.mark.parametrize("form", wire.FORMS)
def test_the_way_back_ends_in_the_units_of_the_table(app, served, form):
    places = served.estimator.transform(PREPARATION.apply(X[:9]))
    found = table_of(post(app, "/v1/inverse", places, form=form, names=served.coordinates))
    truth = PREPARATION.undo(served.estimator.inverse_transform(places))
    np.testing.assert_array_equal(np.column_stack([found[name] for name in COLUMNS]), truth)
    assert np.abs(truth - X[:9]).max() < 0.5
    assert ask(app, "GET", "/v1/model").json()["round_trip_error"] == served.estimator.round_trip_error_


def test_columns_are_found_by_name(app):
    columns = {name: ROWS[:, at].tolist() for at, name in enumerate(COLUMNS)}
    given = {"columns": {"aside": ["x"], **dict(reversed(columns.items()))}}
    by_name = ask(app, "POST", "/v1/transform", json=given)
    assert by_name.json() == post(app, "/v1/transform").json()


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "<i4", ">i2", "|u1", "|i1", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_numbers_is_read(app, kind, order):
    values = np.array([[1, 0, 2], [0, 1, 1]], dtype=kind, order=order)
    assert (
        post(app, "/v1/transform", values, form=wire.NPY, wanted=wire.JSON).json()
        == post(app, "/v1/transform", values).json()
    )


def test_requests_at_the_same_time_do_not_mix(app, served):
    parts = [ROWS[at : at + 1 + at % 7] for at in range(30)]
    settings = {"headers": {"content-type": wire.NPY}}
    requests = [(("POST", "/v1/transform"), {"content": body_of(wire.NPY, part), **settings}) for part in parts]
    for part, answer in zip(parts, together(app, *requests)):
        truth = served.estimator.transform(PREPARATION.apply(part), on_far="keep")
        np.testing.assert_allclose(np.load(io.BytesIO(answer.content)), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "GRAE")) for name in methods.__all__]
)
@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
def test_every_method_can_be_served(name):
    estimator = getattr(outfold, name)().fit(X[:150])
    found = service.Service(estimator, Preparation(COLUMNS))
    try:
        app, truth = service.application(found, port=8765), estimator.transform(ROWS, on_far="keep")
        np.testing.assert_array_equal(post(app, "/v1/transform").json()["embedding"], truth)
        assert post(app, "/v1/trust").json()["flag"] == estimator.trust(ROWS).flag.tolist()
        back = post(app, "/v1/inverse", truth[:5])
        np.testing.assert_array_equal(back.json()["features"], estimator.inverse_transform(truth[:5]))
        assert ask(app, "GET", "/v1/model").json()["method"] == name
    finally:
        found.close()


def test_rows_very_far_away_get_a_finite_answer(app):
    for size in (1e10, 1e100, 1e200, 1e300):
        for path in ("/v1/transform?trust=true", "/v1/trust"):
            answer = post(app, path, [[size, -size, 0.0]])
            assert answer.status_code == 200
            assert answer.json().get("outside", answer.json().get("flag")) == [True]
            assert np.isfinite(answer.json().get("embedding", [[0.0]])).all()


def test_a_way_back_that_takes_long_is_not_waited_for(served, monkeypatch):
    estimator, begun = copy.copy(served.estimator), threading.Event()
    monkeypatch.setattr(service, "LEARNING", 0.05)
    monkeypatch.setattr(type(estimator), "_learnt_back", lambda self: begun.wait(20))
    found = service.Service(estimator, PREPARATION)
    try:
        answer = post(service.application(found, port=8765), "/v1/inverse", np.zeros((1, 3)))
        assert "ask again" in error_of(answer, 503)
        assert answer.headers["retry-after"] == "10"
    finally:
        begun.set()
        found.close()


def test_a_way_back_is_learnt_at_the_start_where_that_is_quick(served, monkeypatch):
    learnt = []
    monkeypatch.setattr(type(served.estimator), "_learnt_back", lambda self: learnt.append(True))
    found = service.Service(served.estimator, PREPARATION)
    try:
        monkeypatch.setattr(service, "QUICK", 199)
        assert found.learn_back_if_quick().startswith("learnt from 200 points when first asked for")
        assert learnt == []
        monkeypatch.setattr(service, "QUICK", 200)
        assert found.learn_back_if_quick() == "being learnt from 200 points"
        found.learn_back().result(20)
        assert learnt == [True]
    finally:
        found.close()


def test_clusters_come_with_positions():
    estimator = outfold.SpectralClustering(3, random_state=0).fit(X[:200])
    found = service.Service(estimator, Preparation(COLUMNS))
    try:
        answer = post(service.application(found, port=8765), "/v1/transform", X[:50])
        assert answer.json()["cluster"] == estimator.predict(X[:50]).tolist()
        assert len(set(answer.json()["cluster"])) == 3
    finally:
        found.close()


def test_a_model_without_names_takes_columns_by_place_and_leaves_out_what_the_fit_left_out():
    known = Preparation(("column_1", "column_3"), named=False, width=3)
    estimator = outfold.DiffusionMaps(2, random_state=0).fit(X[:200, [0, 2]])
    found = service.Service(estimator, known)
    try:
        app = service.application(found, port=8765)
        answers = [post(app, "/v1/transform", X[200:]), post(app, "/v1/transform", X[200:][:, [0, 2]])]
        assert answers[0].json() == answers[1].json()
        np.testing.assert_array_equal(
            answers[0].json()["embedding"], estimator.transform(X[200:, [0, 2]], on_far="keep")
        )
    finally:
        found.close()


def test_distances_that_are_given_are_taken():
    given = np.linalg.norm(X[:60, None] - X[None, :60], axis=2)
    estimator = outfold.ClassicalMDS(2, metric="precomputed").fit(given)
    found = service.Service(estimator, Preparation(tuple(f"column_{at}" for at in range(1, 61)), named=False, width=60))
    try:
        app = service.application(found, port=8765)
        answer = post(app, "/v1/transform", given[:5])
        np.testing.assert_array_equal(answer.json()["embedding"], estimator.transform(given[:5]))
        assert "Negative" in error_of(post(app, "/v1/transform", -given[:5]), 422)
        assert "no way back" in error_of(post(app, "/v1/inverse", np.zeros((1, 2))), 422)
    finally:
        found.close()


# -- the other routes ----------------------------------------------------------------------


def test_the_model_tells_what_it_is(app, served):
    found = ask(app, "GET", "/v1/model").json()
    assert found["method"] == "DiffusionMaps"
    assert found["columns"] == list(COLUMNS)
    assert found["eigenvalues"] == served.estimator.eigenvalues_.tolist()
    assert found["epsilon"] == served.estimator.epsilon_
    assert found["report"]["n_samples"] == 200
    assert found["calibrated"]
    assert "n_jobs" not in found["parameters"]


def test_metrics_count_requests_rows_and_seconds(served):
    app = service.application(served, port=8765)
    served.metrics.__init__(served.metrics._routes)
    served.metrics.in_flight = lambda: app.in_flight
    post(app, "/v1/transform")
    post(app, "/v1/transform", ROWS[:, :2])
    ask(app, "GET", '/a"b')
    lines = ask(app, "GET", "/metrics").text.splitlines()
    assert 'outfold_requests_total{route="/v1/transform",code="200"} 1' in lines
    assert 'outfold_requests_total{route="/v1/transform",code="422"} 1' in lines
    assert 'outfold_requests_total{route="other",code="404"} 1' in lines
    assert f'outfold_rows_total{{route="/v1/transform"}} {len(ROWS)}' in lines
    assert 'outfold_request_seconds_bucket{route="/v1/transform",le="+Inf"} 2' in lines
    assert 'outfold_request_seconds_count{route="/v1/transform"} 2' in lines
    assert "outfold_in_flight 1" in lines
    counts = [float(line.split()[1]) for line in lines if line.startswith("outfold_request_seconds_bucket")]
    assert counts[:15] == sorted(counts[:15])


def holds(schema, value, document):
    """Whether a value is what a schema says, as far as the words of ours go."""
    if "$ref" in schema:
        return holds(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, document)
    if "oneOf" in schema:
        return sum(holds(one, value, document) for one in schema["oneOf"]) == 1
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kinds = {"number": (int, float), "integer": int, "string": str, "boolean": bool, "array": list, "object": dict}
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean") in names
    if not any(isinstance(value, kinds[name]) for name in names if name != "null"):
        return False
    if isinstance(value, list):
        assert len(value) <= schema.get("maxItems", len(value))
        return all(holds(schema["items"], part, document) for part in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if not set(schema.get("required", ())) <= set(value):
            return False
        if not schema.get("additionalProperties", True) and not set(value) <= set(known):
            return False
        return all(holds(known[name], part, document) for name, part in value.items() if name in known)
    return True


def test_the_openapi_document_is_complete_and_true(app, served):
    document = ask(app, "GET", "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert {(path, method.upper()) for path, way in document["paths"].items() for method in way} == {
        (path, method) for path, method, _ in served._paths()
    }
    for path, way in document["paths"].items():
        for method, told in way.items():
            good, bad = told["responses"]["200"]["content"], told["responses"]
            if method == "get":
                answer = ask(app, "GET", path)
                (form,) = good
                assert answer.headers["content-type"].startswith(form)
                value = answer.json() if form == wire.JSON else answer.text
                assert holds(good[form]["schema"], value, document), path
                assert holds(
                    bad["403"]["content"][wire.JSON]["schema"],
                    ask(app, "GET", path, headers={"host": "x"}).json(),
                    document,
                )
                continue
            width = len(served.coordinates if path.endswith("inverse") else COLUMNS)
            names = served.coordinates if path.endswith("inverse") else COLUMNS
            values = np.full((2, width), 0.25)
            assert holds(told["requestBody"]["content"][wire.JSON]["schema"], {"rows": values.tolist()}, document)
            assert not holds(told["requestBody"]["content"][wire.JSON]["schema"], {"rows": [["a"]]}, document)
            query = [f"{p['name']}={json.dumps(p['schema']['default'])}" for p in told["parameters"]]
            for form in told["requestBody"]["content"]:
                for wanted in good:
                    answer = post(app, f"{path}?{'&'.join(query)}", values, form=form, wanted=wanted, names=names)
                    assert answer.status_code == 200, answer.text
                    assert answer.headers["content-type"] == wanted
                    if wanted == wire.JSON:
                        assert holds(
                            good[form]["schema"] if form == wanted else good[wanted]["schema"], answer.json(), document
                        )
            for status in (400, 413, 415, 422):
                assert str(status) in bad


# -- what is refused -----------------------------------------------------------------------


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
    assert error_of(ask(app, "POST", "/v1/transform", content=body, headers={"content-type": wire.JSON}), status)


def test_deep_json_is_refused(app):
    body = b'{"rows": ' + b"[" * 2000 + b"]" * 2000 + b"}"
    answer = ask(app, "POST", "/v1/transform", content=body, headers={"content-type": wire.JSON})
    assert answer.status_code in (400, 422)  # Pythons differ in how deep they read; those that can find no table
    with pytest.raises(wire.Unreadable, match="too deeply"):
        wire.parsed(b"[" * 200_000 + b"]" * 200_000)


def test_the_row_and_the_column_are_named(app):
    def told(**document):
        return error_of(ask(app, "POST", "/v1/transform", json=document), 422)

    assert told(rows=[[1, 2, 3], [1, 2, "x"]]) == "Row 1, column 2: text is not a number."
    assert told(rows=[[1, 2, 3], [1, 2]]) == "Row 1 has 2 numbers, row 0 has 3."
    assert "Row 1, column 'width'" in told(columns={"length": [1, 2], "width": [1, None], "</script>": [1, 2]})
    assert "'width'" in told(columns={"length": [1, 2], "</script>": [1, 2]})
    bad = np.array(ROWS)
    bad[7, 1] = np.nan
    for form in (wire.NPY, wire.ARROW):
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
    answer = ask(app, "POST", "/v1/transform", content=body, headers={"content-type": wire.NPY})
    assert answer.status_code == status, answer.text


def test_arrow_that_could_grow_or_is_no_table_of_numbers_is_refused(app):
    arrow, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.ipc")

    def told(status, table, **options):
        held = io.BytesIO()
        with ipc.new_stream(held, table.schema, options=ipc.IpcWriteOptions(**options)) as stream:
            stream.write_table(table)
        return error_of(
            ask(app, "POST", "/v1/trust", content=held.getvalue(), headers={"content-type": wire.ARROW}), status
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
    whole = body_of(wire.ARROW, ROWS)
    for part in (whole[:100], whole[:-200], b"\xff" * 50, b"ARROW1"):
        assert error_of(ask(app, "POST", "/v1/trust", content=part, headers={"content-type": wire.ARROW}), 400)


def test_forms_are_negotiated(app, served, monkeypatch):
    body = body_of(wire.JSON, ROWS)

    def sent(status, path="/v1/transform", **headers):
        return error_of(
            ask(app, "POST", path, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()}), status
        )

    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
        sent(415, content_type=kind)
    sent(415, content_type=wire.JSON, content_encoding="gzip")
    sent(406, content_type=wire.JSON, accept="text/html")
    sent(406, content_type=wire.JSON, accept="application/json;q=0")
    for query in ("trust=1", "trust=true&trust=true", "coverage=0", "coverage=nan", "coverage=2", "depth=3", "trust"):
        sent(400, f"/v1/transform?{query}", content_type=wire.JSON)
    sent(400, "/v1/inverse?trust=true", content_type=wire.JSON)
    monkeypatch.setattr(served, "_arrow", False)
    assert "outfold[io]" in sent(415, content_type=wire.ARROW)
    assert "outfold[io]" in sent(415, content_type=wire.JSON, accept=wire.ARROW)


@pytest.mark.parametrize(
    ("accept", "sent", "form"),
    [
        ("", wire.NPY, None),
        ("*/*", wire.NPY, wire.NPY),
        ("application/*", wire.ARROW, wire.ARROW),
        ("text/html, application/json;q=0.2", wire.NPY, wire.JSON),
        ("application/json;q=0.2, application/x-npy;q=0.9", wire.ARROW, wire.NPY),
        ("application/json;q=0, */*", wire.JSON, wire.NPY),
        ("application/json;q=x", wire.JSON, None),
    ],
)
def test_the_form_liked_best_is_chosen(accept, sent, form):
    assert service.chosen(accept, sent) == form


def test_unknown_routes_and_methods_are_refused_as_json(app):
    for path in ("/", "/v1", "/v1/transform/", "/docs", "/../etc/passwd", "/v1/%2e%2e/model"):
        assert error_of(ask(app, "GET", path), 404)
    assert error_of(ask(app, "GET", "/v1/transform"), 405)
    assert error_of(ask(app, "OPTIONS", "/v1/transform", headers={"origin": "http://127.0.0.1:8765"}), 405)
    assert error_of(ask(app, "DELETE", "/health"), 405)


# -- the command ---------------------------------------------------------------------------


def test_an_open_address_without_a_token_is_refused_before_the_model_is_read(tmp_path, monkeypatch):
    monkeypatch.delenv("OUTFOLD_TOKEN", raising=False)
    answer = CliRunner().invoke(main, ["serve", str(tmp_path / "none.outfold"), "--host", "0.0.0.0"])
    assert answer.exit_code == 2
    assert "OUTFOLD_TOKEN" in answer.output
    answer = CliRunner().invoke(main, ["serve", str(tmp_path / "none.outfold"), "--host", "0.0.0.0", "--token", "x"])
    assert answer.exit_code == 2
    assert "There is no model" in answer.output


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = CliRunner().invoke(main, ["serve", str(tmp_path / "none.outfold")])
    assert answer.exit_code == 1
    assert 'pip install "outfold[app]"' in answer.output


def test_the_command_serves_what_was_saved(tmp_path, monkeypatch, served):
    path, seen = tmp_path / "wine.outfold", []
    storage.save(served.estimator, path, preparation=PREPARATION)

    def instead(app, host, port, *, ready):
        ready("http://127.0.0.1:1")
        seen.append(post(app, "/v1/transform", base=f"http://{host}:{port}"))
        seen.append(post(app, "/v1/transform", ROWS[[0] * 60], base=f"http://{host}:{port}"))

    monkeypatch.setattr(guard, "run", instead)
    words = ["serve", str(path), "--port", "1234", "--max-rows", "50", "--workers", "1"]
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 0, answer.output
    truth = served.estimator.transform(PREPARATION.apply(ROWS), on_far="keep")
    np.testing.assert_array_equal(seen[0].json()["embedding"], truth)
    assert error_of(seen[1], 413)
    assert "http://127.0.0.1:1" in answer.output
    assert CliRunner().invoke(main, [*words, "--quiet"]).output == "http://127.0.0.1:1\n"
