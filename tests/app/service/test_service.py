"""The service: answers are the library's, in every form, and what cannot be answered is refused by name."""

import copy
import io
import threading
from dataclasses import fields

import numpy as np
import pytest

import outfold
from catalogue import quietly
from clients import COLUMNS, PREPARATION, ROWS, X, ask, body_of, error_of, post, serving, table_of, together
from outfold import methods
from outfold.app.service import formats, service
from outfold.data.columns import Preparation


@pytest.fixture(scope="module")
def served():
    model = outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200]))
    yield from serving(quietly(model.calibrate, folds=3))


@pytest.fixture
def app(served):
    return service.application(served, port=8765)


# -- laws ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [None, *formats.MEDIA_TYPES])
@pytest.mark.parametrize("form", formats.MEDIA_TYPES)
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
    if (wanted or form) != formats.NPY:
        np.testing.assert_array_equal(found["outside"], flag)


@pytest.mark.parametrize("form", formats.MEDIA_TYPES)
def test_trust_is_that_of_the_library(app, served, form):
    truth = served.estimator.trust(PREPARATION.apply(ROWS), coverage=0.5)
    for path in ("/v1/trust?coverage=0.5", "/v1/transform?trust=true&coverage=0.5"):
        found = table_of(post(app, path, form=form))
        np.testing.assert_array_equal(found["flag" if "/trust" in path else "outside"], truth.flag)
        known = [
            field.name for field in fields(truth) if getattr(truth, field.name) is not None and field.name != "flag"
        ]
        assert {"p_value", "score", "isolation", "amplitude", "error"} < set(known)
        for name in known:
            values = np.array(found[name], dtype=float)  # null is NaN
            wanted = getattr(truth, name)
            np.testing.assert_array_equal(
                values, np.where(np.isfinite(wanted), wanted, np.nan) if form == formats.JSON else wanted
            )
    assert np.isinf(truth.error[-1])


def test_the_level_decides_what_is_outside(app, served):
    truth = served.estimator.trust(PREPARATION.apply(ROWS), level=0.4)
    assert truth.flag.sum() > served.estimator.trust(PREPARATION.apply(ROWS)).flag.sum()
    assert post(app, "/v1/trust?level=0.4").json()["flag"] == truth.flag.tolist()
    assert post(app, "/v1/transform?level=0.4").json()["outside"] == truth.flag.tolist()


def test_facts_that_a_model_does_not_know_are_absent():
    given = np.linalg.norm(X[:60, None] - X[None, :60], axis=2)
    estimator = outfold.ClassicalMDS(2, metric="precomputed").fit(given)
    found = service.Service(estimator, Preparation(columns=tuple(f"column_{at}" for at in range(60)), width=60))
    try:
        answer = post(service.application(found, port=8765), "/v1/trust", given[:5]).json()
        assert set(answer) == {"flag", "p_value", "score", "support"}
    finally:
        found.close()


@pytest.mark.parametrize("form", formats.MEDIA_TYPES)
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
        post(app, "/v1/transform", values, form=formats.NPY, wanted=formats.JSON).json()
        == post(app, "/v1/transform", values).json()
    )


def test_requests_at_the_same_time_do_not_mix(app, served):
    parts = [ROWS[at : at + 1 + at % 7] for at in range(30)]
    settings = {"headers": {"content-type": formats.NPY}}
    requests = [(("POST", "/v1/transform"), {"content": body_of(formats.NPY, part), **settings}) for part in parts]
    for part, answer in zip(parts, together(app, *requests)):
        truth = served.estimator.transform(PREPARATION.apply(part), on_far="keep")
        np.testing.assert_allclose(np.load(io.BytesIO(answer.content)), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "GRAE")) for name in methods.__all__]
)
@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
def test_every_method_can_be_served(name):
    estimator = getattr(outfold, name)().fit(X[:150])
    found = service.Service(estimator, Preparation(columns=COLUMNS))
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
    monkeypatch.setattr(type(estimator), "_inverse_model", lambda self: begun.wait(20))
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
    monkeypatch.setattr(type(served.estimator), "_inverse_model", lambda self: learnt.append(True))
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
    found = service.Service(estimator, Preparation(columns=COLUMNS))
    try:
        answer = post(service.application(found, port=8765), "/v1/transform", X[:50])
        assert answer.json()["cluster"] == estimator.predict(X[:50]).tolist()
        assert len(set(answer.json()["cluster"])) == 3
    finally:
        found.close()


def test_a_model_without_names_takes_columns_by_place_and_leaves_out_what_the_fit_left_out():
    known = Preparation(columns=("column_1", "column_3"), named=False, width=3)
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
    found = service.Service(
        estimator, Preparation(columns=tuple(f"column_{at}" for at in range(1, 61)), named=False, width=60)
    )
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


# -- what is refused -----------------------------------------------------------------------


def test_forms_are_negotiated(app, served, monkeypatch):
    body = body_of(formats.JSON, ROWS)

    def sent(status, path="/v1/transform", **headers):
        return error_of(
            ask(app, "POST", path, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()}), status
        )

    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
        sent(415, content_type=kind)
    sent(415, content_type=formats.JSON, content_encoding="gzip")
    sent(406, content_type=formats.JSON, accept="text/html")
    sent(406, content_type=formats.JSON, accept="application/json;q=0")
    for query in (
        "trust=1",
        "trust=true&trust=true",
        "coverage=0",
        "coverage=nan",
        "coverage=2",
        "level=0",
        "level=1",
        "level=x",
        "depth=3",
        "trust",
    ):
        sent(400, f"/v1/transform?{query}", content_type=formats.JSON)
    sent(400, "/v1/inverse?trust=true", content_type=formats.JSON)
    monkeypatch.setattr(served, "_arrow", False)
    assert "outfold[io]" in sent(415, content_type=formats.ARROW)
    assert "outfold[io]" in sent(415, content_type=formats.JSON, accept=formats.ARROW)


@pytest.mark.parametrize(
    ("accept", "sent", "form"),
    [
        ("", formats.NPY, None),
        ("*/*", formats.NPY, formats.NPY),
        ("application/*", formats.ARROW, formats.ARROW),
        ("text/html, application/json;q=0.2", formats.NPY, formats.JSON),
        ("application/json;q=0.2, application/x-npy;q=0.9", formats.ARROW, formats.NPY),
        ("application/json;q=0, */*", formats.JSON, formats.NPY),
        ("application/json;q=x", formats.JSON, None),
    ],
)
def test_the_form_liked_best_is_chosen(accept, sent, form):
    assert service.choose_media_type(accept, sent) == form


def test_unknown_routes_and_methods_are_refused_as_json(app):
    for path in ("/", "/v1", "/v1/transform/", "/docs", "/../etc/passwd", "/v1/%2e%2e/model"):
        assert error_of(ask(app, "GET", path), 404)
    assert error_of(ask(app, "GET", "/v1/transform"), 405)
    assert error_of(ask(app, "OPTIONS", "/v1/transform", headers={"origin": "http://127.0.0.1:8765"}), 405)
    assert error_of(ask(app, "DELETE", "/health"), 405)
