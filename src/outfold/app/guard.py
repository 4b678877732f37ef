"""The one door to what is served: who may ask, how much, how long; and the server behind it.

Every request passes :class:`Guard` before a route sees it: the token, the Host it was meant for, the Origin it came
from, the size of its body and the time it takes to arrive. Routes raise :class:`Refused` for what they will not do.
"""

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router
from uvicorn.protocols.http.h11_impl import H11Protocol

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
SECURITY = {  # what a route sets itself stays
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
HEAD_BYTES = 1 << 14  # of a request line and headers
DRAINED = 1 << 22  # bytes of a refused body that are read and forgotten, so that the answer is seen
DRAIN_SECONDS = 1.0
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)

Scope = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """How much and how long, for everyone together or for one request."""

    body_bytes: int = 1 << 25
    held_bytes: int = 1 << 28  # of all bodies at a time
    requests: int = 128  # with a body, at work or waiting for it
    connections: int = 512
    header_seconds: float = 10.0  # from the first byte of a request to the end of its headers
    body_seconds: float = 30.0
    answer_seconds: float = 60.0
    write_seconds: float = 30.0  # that a client may leave an answer unread
    idle_seconds: float = 15.0  # between two requests of a connection
    stop_seconds: float = 20.0  # for requests under way when told to stop

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name}={value} must be above 0.")


class Refused(Exception):
    """What a route answers instead of what was asked for; the message is for the client."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class _Gone(Exception):
    """The client left."""


# -- who may ask ---------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def checked_token(host: str, token: str | None) -> str | None:
    """The token, if it can be one; an address that others reach needs one."""
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
    """Routes behind checks that all of them share; an ASGI application."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        *,
        host: str,
        port: int | None,
        token: str | None,
        limits: Limits,
        names: Sequence[str],
        watch: Callable[[str, int, float], Any] | None,
    ) -> None:
        token = checked_token(host, token)
        self.routes = Router(routes, redirect_slashes=False)
        self.host, self.port, self.limits, self.watch = host.lower(), port, limits, watch
        self.names = {name.lower() for name in names}
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()
        self.in_flight = 0
        self._held = 0  # bytes
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await _live(receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        answer, start = _Answer(scope, receive, send), time.perf_counter()
        self.in_flight += 1
        try:
            await self._serve(scope, receive, answer)
        except _Gone:
            answer.status = 499
        except Refused as error:
            await answer.refuse(error.status, error.message, error.headers)
        except HTTPException as error:  # of the router
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

    async def _serve(self, scope: Scope, receive: Any, answer: _Answer) -> None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_BYTES:
            raise Refused(431, f"The headers have more than {HEAD_BYTES} bytes.")
        self._check_token(headers.get("authorization", []))
        self._check_place(scope, headers)
        body = await self._body(receive, headers)
        answer.unread, waits = False, bool(body)
        try:
            if waits and self._requests >= self.limits.requests:
                raise Refused(503, f"{self._requests} requests are waiting already.", headers={"retry-after": "1"})
            self._requests += waits
            try:
                await self._within(scope, _handed(body, receive), answer)
            finally:
                self._requests -= waits
        finally:
            self._held -= len(body)

    async def _within(self, scope: Scope, receive: Any, answer: _Answer) -> None:
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

    def _check_place(self, scope: Scope, headers: dict[str, list[str]]) -> None:
        """A page elsewhere can make a browser ask us: by a name of its own that leads here, or across origins."""
        hosts = headers.get("host", [])
        port = self.port or (scope.get("server") or (None, None))[1]
        if len(hosts) != 1 or not self._is_ours(hosts[0], port):
            raise Refused(403, "The Host of this request is not the address that is served.")
        origins = headers.get("origin", [])
        behind = hosts[0].partition(":")[0].lower() in self.names  # a proxy, which may speak TLS
        if origins and origins not in [[f"http://{hosts[0]}"], *([[f"https://{hosts[0]}"]] if behind else [])]:
            raise Refused(403, "Requests of other sites are refused.")

    def _is_ours(self, text: str, port: int | None) -> bool:
        parts = _HOST.fullmatch(text)
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
        return address is not None or name == socket.gethostname().lower()  # all addresses: by number, or our own name

    async def _body(self, receive: Any, headers: dict[str, list[str]]) -> bytes:
        """All of it, counted into what is held; refused as soon as it is too long or too late."""
        most, parts, size = self.limits.body_bytes, [], 0
        told = headers.get("content-length", ["0"])[0]
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
                    self._held += len(part)
                    if size > most:
                        raise Refused(413, f"The body has more than {most} bytes.")
                    if self._held > self.limits.held_bytes:
                        raise Refused(503, "Too many large requests at a time.", headers={"retry-after": "1"})
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            self._held -= size
            raise Refused(408, f"The body did not arrive within {self.limits.body_seconds:g} s.") from None
        except BaseException:
            self._held -= size
            raise


_WORDS = {404: "There is no such route.", 405: "This route does not take that method."}


def _handed(body: bytes, receive: Any) -> Any:
    """A ``receive`` that gives the body at once, and then what comes."""
    first: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Any:
        return first.pop() if first else await receive()

    return given


async def _live(receive: Any, send: Any) -> None:
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


class _Answer:
    """``send`` with the headers that every answer has."""

    def __init__(self, scope: Scope, receive: Any, send: Any) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.status: int | None = None
        self.unread = True  # whether some of the body may still come

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", []))
            there = {name.lower() for name, _ in given}
            given += [(n.encode(), v.encode()) for n, v in SECURITY.items() if n.encode() not in there]
            message = {**message, "headers": given}
        await self._send(message)

    async def refuse(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """An error as JSON, unless an answer has begun; what is left of the body is read, within reason."""
        if self.status is not None:
            return  # the server closes the connection on an answer that breaks off
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
        """Closing on bytes that nobody read would reset the connection, and the client would not see why."""
        if any(name.lower() == b"expect" for name, _ in self._scope["headers"]):
            return  # it waits to be asked for the body
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
    """The body of an error."""
    return json.dumps({"error": {"code": CODES.get(status, "refused"), "message": message}}).encode()


def application(
    routes: Sequence[BaseRoute],
    *,
    host: str,
    port: int | None,
    token: str | None = None,
    limits: Limits | None = None,
    names: Sequence[str] = (),
    watch: Callable[[str, int, float], Any] | None = None,
) -> Guard:
    """Routes of Starlette as an ASGI application that only those may ask who should.

    Parameters
    ----------
    routes : sequence of starlette routes
    host, port : where it will listen; a port of None or 0 is that of the connection
    token : required of every request if given; must be given unless ``host`` is a loopback address
    limits : Limits
    names : other names that a Host header may have, such as that of a proxy in front
    watch : called with path, status and seconds after each request

    >>> application([], host="127.0.0.1", port=8765).limits.body_bytes
    33554432
    """
    limits = limits or Limits()
    return Guard(routes, host=host, port=port, token=token, limits=limits, names=names, watch=watch)


# -- the server ----------------------------------------------------------------------------


class _Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with limits on slow clients and answers for those that closed their half."""

    limits = Limits()
    _due: asyncio.TimerHandle | None = None  # headers
    _stalled: asyncio.TimerHandle | None = None  # what was written and not read

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # pause_writing is told of every byte that waits
        self._due = self.loop.call_later(self.limits.header_seconds, self._late)
        if len(self.connections) > self.limits.connections:
            self._end(503, f"There are {self.limits.connections} connections already.", "Retry-After: 1\r\n")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop("_due")
        elif self._due is None:  # the first bytes of another request
            self._due = self.loop.call_later(self.limits.header_seconds, self._late)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that has said all it has to say may still read: it gets its answer."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self.cycle.keep_alive = False
            return True
        self._end(400, "The request ended before its body did.")
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop("_stalled")
        self._stalled = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("_stalled")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("_due")
        self._stop("_stalled")
        super().connection_lost(exc)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # the connection is broken already
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._end(400, "This is not HTTP/1.1 as it should be.")

    def _late(self) -> None:
        self._due = None
        self._end(408, f"The headers did not arrive within {self.limits.header_seconds:g} s.")

    def _end(self, status: int, message: str, more: str = "") -> None:
        """Answer without the application, and close."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = problem(status, message)
            fixed = "".join(f"{name}: {value}\r\n" for name, value in SECURITY.items())
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n{more}{fixed}\r\n"
            )
            self.transport.write(head.encode() + body)
        if self.cycle is not None:
            self.cycle.disconnected = True  # what the application still says goes nowhere
            self.cycle.message_event.set()
        self.transport.close()

    def _stop(self, name: str) -> None:
        if (timer := getattr(self, name)) is not None:
            timer.cancel()
            setattr(self, name, None)


class _Server(uvicorn.Server):
    """Says when it listens, and ends well when told to."""

    ready: Callable[[], Any]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.force_exit = self.should_exit  # told twice
        self.should_exit = True


def run(app: Guard, host: str, port: int, *, ready: Callable[[str], Any] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are then finished, within ``limits.stop_seconds``.

    Parameters
    ----------
    app : what :func:`application` made
    host, port : where to listen; port 0 is any that is free
    ready : called with the address (``http://127.0.0.1:8765``) once it answers; None prints it
    """
    listener = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        app,
        http=type("_Bounded", (_Protocol,), {"limits": app.limits}),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=app.limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=app.limits.stop_seconds,  # type: ignore[arg-type]
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = _Server(config)
    server.ready = lambda: (ready or (lambda told: print(told, flush=True)))(url)
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise OSError(f"{host} is no address of this machine ({error.strerror}). 127.0.0.1 is, for itself.") from None
    listener = socket.socket(family, kind, number)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(
            f"{host}, port {port}, cannot be listened on: {error.strerror}. --port 0 takes a free one."
        ) from None
    return listener
