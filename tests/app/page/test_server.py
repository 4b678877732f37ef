"""The page as it is served: who sees it, and tables that are dropped."""

import csv
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from outfold.app.cli.main import main
from outfold.app.page import rows as page_rows
from outfold.storage import open_model


def features(folder, name):
    with open(folder / name, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    preparation = open_model(folder / "m.outfold")[1]
    return preparation.apply(np.array([[float(row[column]) for column in preparation.columns] for row in rows]))


def test_only_those_with_the_token_see_the_page(folder):
    httpx = pytest.importorskip("httpx")
    live = pytest.importorskip("outfold.app.page.server")
    estimator, preparation = open_model(folder / "m.outfold")
    page = live.Page("m", estimator, preparation, page_rows.hold_training_rows(estimator, preparation))
    routes = live.routes(page)
    door = live.Door(
        routes, host="0.0.0.0", port=80, token='s;"cret', limits=live.policy.Limits(), names=(), watch=None
    )

    async def asked():
        transport = httpx.ASGITransport(app=door)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path in ("/", "/page.js", "/page.css", "/facts", "/data/0", "/?token=other"):
                assert (await client.get(path)).status_code == 401
            assert (await client.post("/new", content=b"x")).status_code == 401
            first = await client.get("/", params={"token": 's;"cret'})
            assert first.status_code == 303
            assert "HttpOnly" in first.headers["set-cookie"]
            assert "SameSite=strict" in first.headers["set-cookie"]
            assert (await client.get("/")).status_code == 200
            assert len((await client.get("/data/0")).content) == 4 * 120
            assert (await client.get("/data/999")).status_code == 404
            assert (await client.get("/facts", headers={"host": "evil.example"})).status_code == 403
            assert (await client.post("/new", content=b"", headers={"origin": "http://evil"})).status_code == 403

    import asyncio

    asyncio.run(asked())


def test_a_dropped_table_that_cannot_be_read_is_refused_in_words(folder):
    live = pytest.importorskip("outfold.app.page.server")
    estimator, preparation = open_model(folder / "m.outfold")
    for body, words in (
        (b"", "n.csv is empty"),
        (b"x,y\n1,2\n", "has no column 'z'"),
        (b"x,y,z\n1,2,tea\n", "line 2: 'tea' in column 'z' is not a number"),
        (b"x,y,z\n1,2\n", "2 cells where the header has 3"),
        (b"x,y,z\n1,2,\n", "no complete row"),
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        (b"x,y,z\n" + b"1,2,3\n" * (live.NEW_ROWS + 1), f"more than {live.NEW_ROWS} rows"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            live.place_new_rows(estimator, preparation, body, "../n.csv")
    body = (folder / "new.csv").read_bytes()
    packed = live.place_new_rows(estimator, preparation, body, "new.csv")
    head = json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])
    assert head["rows"] == 23
    found, start = {}, 4 + int.from_bytes(packed[:4], "little")
    for stream in head["streams"]:
        found[stream["name"]] = packed[start : start + stream["bytes"]]
        start += stream["bytes"]
    assert start == len(packed)
    trust = estimator.trust(features(folder, "new.csv"))
    np.testing.assert_array_equal(np.frombuffer(found["outside"], np.uint8), trust.flag)
    np.testing.assert_allclose(np.frombuffer(found["error"], "<f4"), trust.error, rtol=1e-6)
    np.testing.assert_allclose(np.frombuffer(found["p_value"], "<f4"), np.maximum(trust.p_value, 1e-6), rtol=1e-6)
    np.testing.assert_allclose(np.frombuffer(found["support"], "<f4"), np.maximum(trust.support, -100), rtol=1e-6)


def test_other_machines_need_a_token(folder):
    pytest.importorskip("starlette")
    answer = CliRunner().invoke(main, ["explore", str(folder / "m.outfold"), "--host", "0.0.0.0"])
    assert answer.exit_code == 2
    assert "needs a token" in answer.stderr
