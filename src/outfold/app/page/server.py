"""The server of the page: HTML, scripts, data, and a route that embeds tables dropped on the page."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from ...data.columns import Preparation
from ...data.table_files import Text
from ...exceptions import TableError
from ...methods.base import SpectralEstimator
from ..service import policy, server
from . import columns as page_columns
from . import html as page_html
from . import rows as page_rows
from .html import Page

NEW_BYTES = 1 << 24  # bytes of a dropped table, at most
NEW_ROWS = 20_000  # rows of a dropped table, at most
COOKIE = "outfold_token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


# -- new points ----------------------------------------------------------------------------


def place_new_rows(estimator: SpectralEstimator, preparation: Preparation, body: bytes, name: str) -> bytes:
    """Embed the rows of a CSV that was dropped on the page, as ``outfold transform`` does; return them packed."""
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
        cloud = page_rows.table(estimator, preparation, table, most=2 * NEW_ROWS, watch=count)
    return page_columns.container(cloud.head(), cloud.streams)


# -- routes --------------------------------------------------------------------------------


def routes(shown: Page) -> list[BaseRoute]:
    """Return the routes of the page. The page uses relative addresses, so a proxy may serve it under any path."""
    live = {"bytes": NEW_BYTES, "rows": NEW_ROWS}
    facts, streams = json.dumps(shown.describe(live=live), allow_nan=False), shown.cloud.streams
    numbered = {str(number): stream for number, stream in enumerate(streams)}
    turn = threading.Lock()  # dropped tables are embedded one at a time

    def embedded(body: bytes, told: str) -> bytes:
        with turn:
            return place_new_rows(shown.estimator, shown.preparation, body, told)

    async def page(request: Request) -> Response:
        if "token" in request.query_params:  # move the token from the address to a cookie
            answer: Response = RedirectResponse("./", 303)
            kept = request.query_params["token"].encode().hex()
            answer.set_cookie(COOKIE, kept, httponly=True, samesite="strict")
            return answer
        return Response(page_html.serve_asset(), media_type="text/html", headers={"content-security-policy": POLICY})

    async def data(request: Request) -> Response:
        number = request.path_params["number"]
        if number not in numbered:
            raise policy.Refused(404, f"There are {len(streams)} columns.")
        raw = await run_in_threadpool(numbered[number].raw)
        return Response(raw, media_type="application/octet-stream")

    async def new(request: Request) -> Response:
        body = await request.body()
        if len(body) > NEW_BYTES:
            raise policy.Refused(413, f"The table has {len(body)} bytes; at most {NEW_BYTES} are taken.")
        try:
            packed = await run_in_threadpool(embedded, body, request.query_params.get("name", ""))
        except (ValueError, TypeError) as error:  # a table that cannot be read, or that the model does not take
            raise policy.Refused(422, str(error)) from None
        return Response(packed, media_type="application/octet-stream")

    places = {
        "/": page,
        "/page.js": server.answer_with(lambda: page_html.asset("page.js"), "text/javascript"),
        "/page.css": server.answer_with(lambda: page_html.asset("page.css"), "text/css"),
        "/facts": server.answer_with(lambda: facts),
        "/data/{number}": data,
    }
    return [*(Route(path, ask, methods=["GET"]) for path, ask in places.items()), Route("/new", new, methods=["POST"])]


class Door(policy.Guard):
    """The guard for browsers: it takes the token from the address of the page, and from a cookie for other requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = {name.lower(): value for name, value in scope["headers"]}
            token = _read_request(scope) or _keep_token(given.get(b"cookie", b""))
            if token is not None and b"authorization" not in given:
                header = (b"authorization", b"Bearer " + token.encode("ascii"))
                scope = {**scope, "headers": [*scope["headers"], header]}
        await super().__call__(scope, receive, send)


def _read_request(scope: Scope) -> str | None:
    """Return the token in the address of the page itself, or None."""
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token", []) if scope["path"] == "/" else []
    return found[0] if len(found) == 1 and found[0].isascii() else None


def _keep_token(cookie: bytes) -> str | None:
    try:
        found = SimpleCookie(cookie.decode("latin-1")).get(COOKIE)
        return None if found is None else bytes.fromhex(found.value).decode("ascii")
    except (CookieError, ValueError):
        return None


def serve(page: Page, *, host: str, port: int, token: str | None, ready: Callable[[str], object]) -> None:
    """Serve the page until SIGTERM or SIGINT; ``ready`` is called with its address once it answers."""
    limits = policy.Limits(body_bytes=NEW_BYTES + 1, requests=8)
    app = Door(routes(page), host=host, port=port or None, token=token, limits=limits)
    server.run(app, host, port, ready=ready)
