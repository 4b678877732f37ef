"""The HTTP server: uvicorn with limits on slow clients, and a graceful stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from types import FrameType
from typing import TypeAlias

import h11
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from .policy import HEAD_BYTES, SECURITY, Guard, Limits, problem

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def answer_with(content: Callable[[], str], media_type: str = "application/json") -> Endpoint:
    """Return the endpoint of a route whose answer does not depend on the request."""

    async def answer(request: Request) -> Response:
        return Response(content(), media_type=media_type)

    return answer


class _Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with time limits for slow clients and answers to clients that half-closed the connection."""

    limits = Limits()
    _due: asyncio.TimerHandle | None = None  # ends the connection if the headers are late
    _stalled: asyncio.TimerHandle | None = None  # ends the connection if the client does not read the answer
    _half_closed = False  # whether the client has sent all that it will send

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that `pause_writing` is called as soon as one byte waits
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
        """Keep the connection open for the answer: a client that has sent its whole request may still read."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        self._half_closed = True
        self._finish()
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()  # begins to answer the next request, if the client has sent one already
        if self._half_closed and not self.transport.is_closing():
            self._finish()

    def _finish(self) -> None:
        """Close the connection after the answer to the last request of a client that sends no more."""
        if self.cycle.response_complete:
            self.transport.close()
        elif self.conn.their_state is h11.SEND_BODY:
            self._end(400, "The request ended before its body did.")
        elif not self.conn.trailing_data[0]:
            self.cycle.keep_alive = False

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
        """Answer without calling the application, and close the connection."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = problem(status, message)
            fixed = "".join(f"{name}: {value}\r\n" for name, value in SECURITY.items())
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n{more}{fixed}\r\n"
            )
            self.transport.write(head.encode() + body)
        if self.cycle is not None:
            self.cycle.disconnected = True  # discards what the application still sends
            self.cycle.message_event.set()
        self.transport.close()

    def _stop(self, name: str) -> None:
        if (timer := getattr(self, name)) is not None:
            timer.cancel()
            setattr(self, name, None)


class _Server(uvicorn.Server):
    """A server that calls ``ready`` when it listens, and finishes open requests at the first signal to stop."""

    ready: Callable[[], object]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # a second signal: do not wait for open requests
        self.should_exit = True


def run(app: Guard, host: str, port: int, *, ready: Callable[[str], object] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; open requests are then finished, within ``limits.stop_seconds``.

    Parameters
    ----------
    app : its limits count
    host, port : the address to listen on; port 0 takes a free one
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
