"""Checks of every request to a server: token, host, origin, size, time and number of requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router
from starlette.types import Message, Receive, Scope, Send

LOG = logging.getLogger("outfold.app")

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "timeout",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    431: "headers_too_large",
    500: "internal",
    503: "busy",
}
SECURITY = {  # headers of every answer, unless the route sets them itself
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_WORDS = {404: "There is no such route.", 405: "This route does not take that method."}
HEAD_BYTES = 1 << 14  # bytes of the headers of a request, at most
DRAINED = 1 << 22  # bytes of a refused body that are read and discarded, so that the client can read the answer
DRAIN_SECONDS = 1.0
CLIENT_LETTERS = 100  # of the name of a client, at most
_HOST_PATTERN = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server on sizes, numbers and times."""

    body_bytes: int = 1 << 25  # bytes of the body of one request
    held_bytes: int = 1 << 29  # bytes of the bodies of all open requests together
    client_bytes: int = 1 << 28  # the same of one client
    requests: int = 256  # open requests with a body, running or waiting
    client_requests: int = 128  # the same of one client
    connections: int = 512  # open connections
    header_seconds: float = 10.0  # from the first byte of a request to the end of its headers
    body_seconds: float = 30.0  # for the whole body to arrive
    wait_seconds: float = 45.0  # until the work on an answer begins
    answer_seconds: float = 60.0  # to compute an answer, with the wait
    write_seconds: float = 30.0  # that a client may leave an answer unread
    idle_seconds: float = 15.0  # between two requests of a connection
    stop_seconds: float = 20.0  # for open requests to finish after a signal to stop

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name}={value} must be above 0.")


class Refused(Exception):
    """A route refuses a request: status, a message for the client, and headers of the answer."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class _Gone(Exception):
    """The client closed the connection."""


# -- access --------------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def check_token(host: str, token: str | None) -> str | None:
    """Return the token if it is valid. A host that other machines can reach needs one: None raises."""
    if token is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached from other machines, so it needs a token: pass --token or set OUTFOLD_TOKEN. "
            "127.0.0.1 needs none."
        )
    if token is not None and not re.fullmatch(r"[!-~]{1,512}", token):
        raise ValueError("A token is 1 to 512 visible ASCII characters without spaces.")
    return token


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


class Guard:
    """An ASGI application: the checks of this module in front of routes.

    Parameters
    ----------
    routes : sequence of starlette routes
    host, port : the address it will listen on; with port None or 0 the port of each connection counts
    token : every request must carry it, if it is not None; required unless ``host`` is a loopback address
    limits : Limits
    names : other names allowed in the Host header, such as that of a proxy in front
    client_header : header in which a proxy names the client; None: the client is the address that connects
    watch : called with path, status and seconds after each request

    >>> Guard([], host="127.0.0.1", port=8765).limits.body_bytes
    33554432
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        *,
        host: str,
        port: int | None,
        token: str | None = None,
        limits: Limits | None = None,
        names: Sequence[str] = (),
        client_header: str | None = None,
        watch: Callable[[str, int, float], object] | None = None,
    ) -> None:
        token = check_token(host, token)
        self.routes = Router(routes, redirect_slashes=False)
        self.host, self.port, self.limits, self.watch = host.lower(), port, limits or Limits(), watch
        self.names = {name.lower() for name in names}
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()
        self._client_header = client_header
        self.in_flight = 0
        self._held: Counter[str] = Counter()  # bytes of the bodies of open requests, by client
        self._requests: Counter[str] = Counter()  # open requests with a body, by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.routes(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._watch(scope, receive, send)

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whatever happens, and report its status and seconds."""
        answer, start = _Answer(scope, receive, send), time.perf_counter()
        self.in_flight += 1
        try:
            await self._serve(scope, receive, answer)
        except _Gone:
            answer.status = 499
        except Refused as error:
            await answer.refuse(error.status, error.message, error.headers)
        except HTTPException as error:  # from the router: no such route or method
            await answer.refuse(error.status_code, _WORDS.get(error.status_code, "Refused."), error.headers or {})
        except asyncio.CancelledError:
            await answer.refuse(503, "The service is stopping.", {"retry-after": "5"})
        except Exception:
            LOG.exception("%s %r failed", scope["method"], scope["path"])
            await answer.refuse(500, "Something went wrong here; the log of the service says what.")
        finally:
            self.in_flight -= 1
            if self.watch is not None:
                self.watch(scope["path"], answer.status or 500, time.perf_counter() - start)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = Headers(raw=[(name.lower(), value) for name, value in scope["headers"]])
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_BYTES:
            raise Refused(431, f"The headers have more than {HEAD_BYTES} bytes.")
        self._check_token(headers.getlist("authorization"))
        self._check_place(scope, headers)
        client = self._client(scope, headers)
        body = await self._body(client, receive, headers)
        answer.unread = False
        try:
            with self._open_request(client, bool(body)):
                await self._within({**scope, "state": {"client": client}}, _pass_on(body, receive), answer)
        finally:
            _add(self._held, client, -len(body))

    def _client(self, scope: Scope, headers: Headers) -> str:
        """Return who asks: the address that connects, or the last one that the proxy's header names."""
        named = self._client_header and headers.get(self._client_header, "").rpartition(",")[2].strip()
        return str(named or (scope.get("client") or ("unknown",))[0])[:CLIENT_LETTERS]

    @contextmanager
    def _open_request(self, client: str, waits: bool) -> Iterator[None]:
        """Count a request with a body inside; refuse it if too many are open, of this client or of all."""
        total, own = self._requests.total(), self._requests[client]
        if waits and (total >= self.limits.requests or own >= self.limits.client_requests):
            message = f"{total} requests are waiting already, {own} of them by this client."
            raise Refused(503, message, headers={"retry-after": "1"})
        _add(self._requests, client, waits)
        try:
            yield
        finally:
            _add(self._requests, client, -waits)

    async def _within(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        seconds = self.limits.answer_seconds
        try:
            async with asyncio.timeout(seconds) as clock:
                await self.routes({**scope, "app": self}, receive, answer)
        except TimeoutError:
            if not clock.expired():
                raise
            message = f"There was no answer within {seconds:g} s: send fewer rows at a time."
            raise Refused(503, message, headers={"retry-after": "5"}) from None

    def _check_token(self, given: list[str]) -> None:
        if self._token is None:
            return
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        found = hashlib.sha256(token.strip().encode("latin-1")).digest()
        if not (hmac.compare_digest(found, self._token) and kind.lower() == "bearer"):
            message = "This address needs a token, sent as: Authorization: Bearer TOKEN."
            raise Refused(401, message, headers={"www-authenticate": "Bearer"})

    def _check_place(self, scope: Scope, headers: Headers) -> None:
        """Refuse a wrong Host or Origin: the page of another site can make a browser send requests to this server.

        It does so under its own name, which it resolves to our address (DNS rebinding), or across origins.
        """
        hosts = headers.getlist("host")
        port = self.port or (scope.get("server") or (None, None))[1]
        if len(hosts) != 1 or not self._is_ours(hosts[0], port):
            raise Refused(403, "The Host of this request is not the address that is served.")
        origins = headers.getlist("origin")
        behind = hosts[0].partition(":")[0].lower() in self.names  # a proxy, which may speak TLS
        if origins and origins not in [[f"http://{hosts[0]}"], *([[f"https://{hosts[0]}"]] if behind else [])]:
            raise Refused(403, "Requests of other sites are refused.")

    def _is_ours(self, text: str, port: int | None) -> bool:
        parts = _HOST_PATTERN.fullmatch(text)
        if parts is None:
            return False
        name = parts[1].lower()
        if name in self.names:  # a proxy in front has a port of its own
            return True
        if int(parts[2] or 80) != port:
            return False
        address, bound = _address(name), _address(self.host)
        if is_loopback(name.strip("[]")) or name == self.host or (address is not None and address == bound):
            return True
        if bound is None or not bound.is_unspecified:
            return False
        # bound to all addresses: any number is ours, and so is the name of this machine
        return address is not None or name == socket.gethostname().lower()

    async def _body(self, client: str, receive: Receive, headers: Headers) -> bytes:
        """Return the whole body and add its bytes to ``_held``; refuse it as soon as it is too long or too late."""
        most, parts, size = self.limits.body_bytes, [], 0
        told = headers.get("content-length", "0")
        if told.isdecimal() and int(told[:20]) > most:
            raise Refused(413, f"The body has {told[:20]} bytes; at most {most} are taken.")
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    _add(self._held, client, len(part))
                    if size > most:
                        raise Refused(413, f"The body has more than {most} bytes.")
                    self._check_held(client)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except BaseException as error:
            _add(self._held, client, -size)
            if isinstance(error, TimeoutError):
                raise Refused(408, f"The body did not arrive within {self.limits.body_seconds:g} s.") from None
            raise

    def _check_held(self, client: str) -> None:
        total, own = self._held.total(), self._held[client]
        if total > self.limits.held_bytes or own > self.limits.client_bytes:
            message = f"Open requests hold {total} bytes, those of this client {own}: send fewer large ones at a time."
            raise Refused(503, message, headers={"retry-after": "1"})


def _add(counts: Counter[str], name: str, number: int) -> None:
    """Add to a count; leave out names whose count is 0, so that clients who left are forgotten."""
    counts[name] += number
    if not counts[name]:
        del counts[name]


def _pass_on(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` whose first message is the whole body; later messages come from ``receive``."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return first.pop() if first else await receive()

    return given


class _Answer:
    """``send`` that adds the headers in ``SECURITY`` to every answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.status: int | None = None
        self.unread = True  # whether bytes of the request's body may still arrive

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Send an error as JSON, unless an answer has begun; read the rest of the body, up to ``DRAINED`` bytes."""
        if self.status is not None:
            return  # the server closes the connection when an answer stops half-way
        body = problem(status, message)
        told = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        if self.unread:
            told["connection"] = "close"
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]
        await self({"type": "http.response.start", "status": status, "headers": raw})
        await self._send({"type": "http.response.body", "body": body, "more_body": self.unread})
        if self.unread:
            await self._drain()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _drain(self) -> None:
        """Read and discard the rest of the body.

        Closing a connection with unread bytes resets it, and the client would not see the answer.
        """
        if any(name.lower() == b"expect" for name, _ in self._scope["headers"]):
            return  # "Expect: 100-continue": the client sends the body only after we ask for it
        left = DRAINED
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return
        except (TimeoutError, asyncio.CancelledError):
            return


def problem(status: int, message: str) -> bytes:
    """Return the JSON body of an error."""
    return json.dumps({"error": {"code": CODES.get(status, "refused"), "message": message}}).encode()
