"""The page, served: its parts, its data, and a place to drop new points."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ...exceptions import TableError
from ...preparation import Preparation
from ...tables import Text
from .. import guard
from . import gathering, streams, writing
from .gathering import Cloud

NEW_BYTES = 1 << 24  # of a dropped table
NEW_ROWS = 20_000
COOKIE = "outfold_token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


# -- new points ----------------------------------------------------------------------------


def landed(estimator: Any, preparation: Preparation, body: bytes, name: str) -> bytes:
    """The rows of a CSV that was dropped on the page, embedded as ``outfold transform`` does, packed for the page."""
    told = "".join(letter for letter in Path(name).name if letter.isprintable())[:80] or "the table"
    if not body.strip():
        raise TableError(f"{told} is empty.")
    seen = 0

    def count(rows: int) -> None:
        nonlocal seen
        seen += rows
        if seen > NEW_ROWS:
            raise TableError(f"{told} has more than {NEW_ROWS} rows. outfold transform takes any number.")

    with tempfile.TemporaryDirectory(prefix="outfold-") as folder:
        path = Path(folder) / "new.csv"
        path.write_bytes(body)
        table = Text(path, told, "\t" if name.lower().endswith(".tsv") else None)
        cloud = gathering.table(estimator, preparation, table, most=2 * NEW_ROWS, watch=count)
    return streams.container(cloud.head(), cloud.streams)


# -- routes --------------------------------------------------------------------------------


def routes(name: str, estimator: Any, preparation: Preparation, cloud: Cloud) -> list[BaseRoute]:
    """What the page asks for; all of it beside the page itself, so that it may stand behind a path of a proxy."""
    live = {"bytes": NEW_BYTES, "rows": NEW_ROWS}
    facts = json.dumps(writing.told(name, estimator, preparation, cloud, live=live), allow_nan=False)
    turn = threading.Lock()  # one table at a time

    def embedded(body: bytes, told: str) -> bytes:
        with turn:
            return landed(estimator, preparation, body, told)

    async def page(request: Request) -> Response:
        if "token" in request.query_params:  # not to stay in the address
            answer: Response = RedirectResponse("./", 303)
            kept = request.query_params["token"].encode().hex()
            answer.set_cookie(COOKIE, kept, httponly=True, samesite="strict")
            return answer
        return Response(writing.served(), media_type="text/html", headers={"content-security-policy": POLICY})

    async def script(request: Request) -> Response:
        return Response(writing.asset("page.js"), media_type="text/javascript")

    async def style(request: Request) -> Response:
        return Response(writing.asset("page.css"), media_type="text/css")

    async def document(request: Request) -> Response:
        return Response(facts, media_type="application/json")

    async def data(request: Request) -> Response:
        number = request.path_params["number"]
        if number >= len(cloud.streams):
            raise guard.Refused(404, f"There are {len(cloud.streams)} columns.")
        raw = await run_in_threadpool(cloud.streams[number].raw)
        return Response(raw, media_type="application/octet-stream")

    async def new(request: Request) -> Response:
        body = await request.body()
        if len(body) > NEW_BYTES:
            raise guard.Refused(413, f"The table has {len(body)} bytes; at most {NEW_BYTES} are taken.")
        try:
            packed = await run_in_threadpool(embedded, body, request.query_params.get("name", ""))
        except (ValueError, TypeError) as error:  # a table that cannot be read, or that the model does not take
            raise guard.Refused(422, str(error)) from None
        return Response(packed, media_type="application/octet-stream")

    places = {"/": page, "/page.js": script, "/page.css": style, "/facts": document, "/data/{number:int}": data}
    return [*(Route(path, ask, methods=["GET"]) for path, ask in places.items()), Route("/new", new, methods=["POST"])]


class Door(guard.Guard):
    """The guard, for browsers: a page they open brings its token in the address, and what it asks for as a cookie."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = {name.lower(): value for name, value in scope["headers"]}
            token = _asked(scope) or _kept(given.get(b"cookie", b""))
            if token is not None and b"authorization" not in given:
                header = (b"authorization", b"Bearer " + token.encode("ascii"))
                scope = {**scope, "headers": [*scope["headers"], header]}
        await super().__call__(scope, receive, send)


def _asked(scope: Any) -> str | None:
    """The token in the address of the page itself."""
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token", []) if scope["path"] == "/" else []
    return found[0] if len(found) == 1 and found[0].isascii() else None


def _kept(cookie: bytes) -> str | None:
    try:
        found = SimpleCookie(cookie.decode("latin-1")).get(COOKIE)
        return None if found is None else bytes.fromhex(found.value).decode("ascii")
    except (CookieError, ValueError):
        return None


def serve(
    name: str,
    estimator: Any,
    preparation: Preparation,
    cloud: Cloud,
    *,
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[str], Any],
) -> None:
    """Serve the page until told to stop; ``ready`` is called with its address."""
    found = routes(name, estimator, preparation, cloud)
    limits = guard.Limits(body_bytes=NEW_BYTES + 1, requests=8)
    app = Door(found, host=host, port=port or None, token=token, limits=limits, names=(), watch=None)
    guard.run(app, host, port, ready=ready)
