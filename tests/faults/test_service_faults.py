"""The service under clients that are slow, broken, hostile or gone: never a 500, never a hang."""

import http.client
import io
import json
import random
import re
import signal
import socket
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

import outfold
from clients import GOOD, Server
from outfold import storage
from outfold.app.service import formats
from outfold.data.columns import Preparation
from outfold.datasets import s_curve

SHORT = {"body_bytes": 1 << 20, "header_seconds": 0.5, "body_seconds": 0.5, "write_seconds": 0.5, "idle_seconds": 0.5,
         "connections": 30}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    X = np.asarray(s_curve(200, random_state=0)[0])
    path = tmp_path_factory.mktemp("model") / "m.outfold"
    estimator = outfold.DiffusionMaps(2, random_state=0).fit(X)
    estimator.inverse_transform(np.zeros((1, 2)))
    storage.save(estimator, path, preparation=Preparation(columns=("a", "b", "c")))
    return path


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    found = Server(model, tmp_path_factory.mktemp("log"), **SHORT)
    yield found
    assert found.stop() == ""  # nothing went wrong that was not told to the client


def answer(connection):
    """All that comes until the other side closes."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def said(server, *parts, half=False, pause=0.0):
    """What comes back on parts of a request, then (perhaps) the end of our half."""
    with server.connect() as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            if half:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return answer(connection)


def status(text):
    return int(text.split(b" ", 2)[1]) if text else None


def alive(server):
    text = said(server, server.post(more=b"Connection: close\r\n"))
    assert status(text) == 200
    return text


# -- slow ----------------------------------------------------------------------------------


def test_headers_that_drip_are_cut_off(server):
    text = said(server, b"GET /health HTTP/1.1\r\n" + server.head, *[b"X: y\r\n"] * 3, pause=0.3)
    assert status(text) == 408
    assert status(said(server)) == 408  # nothing at all
    assert alive(server)


def test_a_second_request_that_drips_is_cut_off_too(server):
    first = b"GET /health HTTP/1.1\r\n" + server.head + b"\r\n"
    text = said(server, first, b"GET /health HTT", b"P/1.1\r\nA:", b" 3\r\n", pause=0.3)
    assert [int(code) for code in re.findall(rb"HTTP/1.1 (\d+)", text)] == [200, 408]


def test_a_body_that_drips_is_cut_off(server):
    head = server.post(b" " * 100)[:-100]
    for parts in ((head,), (head, b" ", b" ", b" ")):
        assert status(said(server, *parts, pause=0.3)) == 408
    assert alive(server)


def test_an_idle_connection_is_closed(server):
    text = said(server, b"GET /health HTTP/1.1\r\n" + server.head + b"\r\n")
    assert status(text) == 200  # and then the end


def test_an_answer_that_nobody_reads_is_given_up(server):
    body = json.dumps({"rows": [[0.1, 0.2, 0.3]] * 4000}).encode()
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            for _ in range(60):  # more than the buffers of both sides hold
                connection.sendall(server.post(body, "/v1/transform?trust=true"))
        except OSError:
            pass  # timed out or reset: it has given us up
        asked, metrics = time.monotonic(), b""
        while b"outfold_in_flight 1\n" not in metrics and time.monotonic() < asked + 10:  # our end stays open
            time.sleep(0.2)
            metrics = said(server, b"GET /metrics HTTP/1.1\r\nConnection: close\r\n" + server.head + b"\r\n")
    assert b"outfold_in_flight 1\n" in metrics  # the one that asks


# -- half ----------------------------------------------------------------------------------


def test_a_client_that_closed_its_half_gets_its_answer(server):
    whole = said(server, server.post(), half=True)
    assert status(whole) == 200
    assert json.loads(whole.partition(b"\r\n\r\n")[2])["columns"] == ["diffusionmaps0", "diffusionmaps1"]


def test_half_a_request_is_refused_at_once(server):
    assert status(said(server, server.post()[:-3], half=True)) == 400
    assert said(server, server.post()[:40], half=True) == b""
    assert alive(server)


def test_a_client_that_left_does_no_harm(server):
    for length in (1, 60, 150, len(server.post())):
        with server.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
            connection.sendall(server.post()[:length])
    assert alive(server)


# -- large ---------------------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_and_the_answer_is_seen(server):
    body = b" " * (SHORT["body_bytes"] + 1)
    assert status(said(server, server.post(body))) == 413
    assert status(said(server, server.post(body)[:300])) == 413  # before it comes
    head = server.post(more=b"Expect: 100-continue\r\n")[: -len(GOOD)].replace(b"Length: 27", b"Length: 99999999")
    assert status(said(server, head)) == 413


def test_a_client_that_sends_all_before_it_reads_sees_why_it_was_refused(server):
    for headers in ({}, {"Transfer-Encoding": "chunked"}):
        connection = http.client.HTTPConnection(server.host, int(server.port), timeout=10)
        body = (b" " * 65536 for _ in range(56)) if headers else b" " * 65536 * 56
        connection.request(
            "POST", "/v1/transform", body, {"Content-Type": formats.JSON, **headers}, encode_chunked=bool(headers)
        )
        assert connection.getresponse().status == 413
        connection.close()


def test_a_request_for_nobody_or_for_two_is_refused(server):
    assert status(said(server, b"GET /health HTTP/1.0\r\n\r\n")) == 403
    assert status(said(server, b"GET /health HTTP/1.1\r\n\r\n")) == 400
    assert status(said(server, b"GET /health HTTP/1.1\r\n" + server.head + b"Host: evil.com\r\n\r\n")) == 400


def test_expect_continue_is_answered(server):
    head = server.post(more=b"Expect: 100-continue\r\nConnection: close\r\n")[: -len(GOOD)]
    text = said(server, head, GOOD, pause=0.1)
    assert re.findall(rb"HTTP/1.1 (\d+)", text) == [b"100", b"200"]


def test_chunks_without_end_are_refused(server):
    head = (
        b"POST /v1/transform HTTP/1.1\r\n%sContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        % server.head
    )
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert status(said(server, head, *[chunk] * 40)) == 413
    assert status(said(server, head, b"3\r\nabc\r\n")) == 408
    assert status(said(server, head, b"zz\r\n")) == 400
    assert status(said(server, head, b"1b\r\n" + GOOD + b"\r\n0\r\n\r\n", half=True)) == 200
    both = server.post(more=b"Transfer-Encoding: chunked\r\n")
    assert status(said(server, both, half=True)) == 400  # two ways to say how long it is


def test_large_headers_are_refused(server):
    assert status(said(server, b"GET / HTTP/1.1\r\n" + server.head + b"X: " + b"y" * 40_000 + b"\r\n\r\n")) == 431
    assert status(said(server, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000)) == 400
    assert alive(server)


def test_more_connections_than_are_taken_are_sent_away(server):
    held = [server.connect() for _ in range(SHORT["connections"])]
    try:
        text = said(server)
        assert status(text) == 503
        assert b"Retry-After" in text
    finally:
        for connection in held:
            connection.close()
    time.sleep(0.2)
    assert alive(server)


# -- fuzzed --------------------------------------------------------------------------------

CELLS = ["1", "-2.5", "1e400", "NaN", "null", "true", '"x"', "[]", "{}", "9" * 30, "-0", "1e-400", "01", "1.", "\ud7ff"]
WORDS = ["rows", "columns", "a", "b", "c", "", "trust", "\\u0000", "\\ud800", "diffusionmaps0"]
PATHS = [
    "/v1/transform",
    "/v1/trust",
    "/v1/inverse",
    "/v1/model",
    "/health",
    "/metrics",
    "/openapi.json",
    "/",
    "*",
    "//",
]

LINES = [
    b"Accept: application/x-npy",
    b"Accept: \xff",
    b"Origin: null",
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Host: evil",
    b"Authorization: Bearer x",
    b"Range: bytes=0-1",
]


def fuzzed_json(rng, depth=0):
    kind = rng.random()
    if depth == 0 and kind < 0.6:
        row = [rng.choice(["0.1", "2", "-3e2", "1e300"]) for _ in range(3)]
        if rng.random() < 0.5:
            row[rng.randrange(3)] = rng.choice(CELLS)
        rows = ",".join("[" + ",".join(row[: rng.choice([3, 3, 3, 2])]) + "]" for _ in range(rng.randrange(5)))
        if rng.random() < 0.5:
            return '{"rows":[' + rows + "]}"
        return '{"columns":{' + ",".join(f'"{name}":[{",".join(row)}]' for name in "abc") + "}}"
    if kind < 0.3 or depth > 5:
        return rng.choice(CELLS)
    parts = [fuzzed_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind < 0.6:
        return "[" + ",".join(parts) + "]"
    return "{" + ",".join(f'"{rng.choice(WORDS)}":{part}' for part in parts) + "}"


def fuzzed_body(rng):
    """A form and bytes that are sometimes of that form."""
    form = rng.choice(formats.MEDIA_TYPES)
    values = np.array(
        [[rng.choice([0.1, 1.0, -5.0, 1e30, np.inf, np.nan]) for _ in range(3)] for _ in range(rng.randrange(4))]
    )
    held = io.BytesIO()
    if form == formats.JSON:
        held.write(fuzzed_json(rng).encode())
    elif form == formats.NPY:
        np.save(held, values.reshape(-1, 3).astype(rng.choice(["f8", "f4", "c16", "U3"])))
    else:
        table = pa.table({name: values.reshape(-1, 3)[:, at] for at, name in enumerate("abc")})
        with ipc.new_stream(held, table.schema) as stream:
            stream.write_table(table)
    return form, mutated(rng, held.getvalue()) if rng.random() < 0.6 else held.getvalue()


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if not data:
            break
        at, way = rng.randrange(len(data)), rng.random()
        if way < 0.5:
            data[at] = rng.choice([0, 255, 127, 128, rng.randrange(256), data[at] ^ (1 << rng.randrange(8))])
        elif way < 0.5:
            del data[at : at + rng.randrange(1, 40)]
        elif way < 0.9:
            data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(1, 60)]
        else:
            del data[at:]
    return bytes(data)


def fuzzed(rng, server):
    form, body = fuzzed_body(rng)
    method = rng.choice(["POST"] * 8 + ["GET", "PUT", "HEAD", "OPTIONS", "BREW"])
    path = rng.choice(PATHS[:3] * 4 + PATHS) + rng.choice(
        ["", "", "", "?trust=true", "?coverage=x", "?" + "a=b&" * 50, "%00%ff"]
    )
    lines = [f"{method} {path} HTTP/{rng.choice(['1.1'] * 9 + ['1.0', '2.0', '9'])}".encode(), server.head.strip()]
    lines.append(
        b"Content-Type: " + (form if rng.random() < 0.9 else rng.choice([*formats.MEDIA_TYPES, "text/x", ""])).encode()
    )
    if rng.random() < 0.2:
        lines.append(rng.choice(LINES))
    if rng.random() < 0.8:
        lines.append(b"Content-Length: %d" % (len(body) if rng.random() < 0.9 else rng.choice([0, 3, 10**6, 10**9])))
    else:
        lines.append(b"Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    request = b"\r\n".join(lines) + b"\r\n\r\n" + body
    return mutated(rng, request) if rng.random() < 0.2 else request


def fuzz(server, count, seed):
    seen = {}
    for number in range(count):
        request = fuzzed(random.Random(f"{seed}-{number}"), server)
        text = said(server, request, half=True)  # times out, and fails, if it hangs
        codes = [int(code) for code in re.findall(rb"(?:^|\n|\})HTTP/1.1 (\d+)", text)]
        assert all(code in (100, 200, 400, 403, 404, 405, 406, 413, 415, 422) for code in codes), (
            number,
            request,
            text,
        )
        seen[codes[-1] if codes else None] = seen.get(codes[-1] if codes else None, 0) + 1
    return seen


def test_fuzzed_requests_get_an_answer_and_never_a_500(server):
    before = alive(server).partition(b"\r\n\r\n")[2]
    seen = fuzz(server, 200, 0)
    assert seen.keys() >= {200, 400, 422}
    assert alive(server).partition(b"\r\n\r\n")[2] == before


@pytest.mark.slow
def test_ten_thousand_fuzzed_requests_get_an_answer_and_never_a_500(server):
    seen = fuzz(server, 10_000, 1)
    assert seen.keys() >= {200, 400, 403, 404, 405, 406, 413, 415, 422}
    assert alive(server)


# -- the end -------------------------------------------------------------------------------


def test_requests_under_way_are_finished_when_told_to_stop_and_nobody_holds_it_up(model, tmp_path):
    server = Server(model, tmp_path, stop_seconds=1.5)
    idle, silent, begun = server.connect(), server.connect(), [server.connect() for _ in range(5)]
    whole = server.post()
    idle.sendall(b"GET /health HTTP/1.1\r\n" + server.head + b"\r\n")
    for connection in (silent, *begun):
        connection.sendall(whole[:-10])
    time.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    for connection in begun:
        connection.sendall(whole[-10:])
        assert status(answer(connection)) == 200
        connection.close()
    assert status(answer(idle)) == 200
    idle.close()
    assert server.process.wait(20) == 0
    assert status(answer(silent)) in (503, None)
    silent.close()
    assert "Traceback" not in server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_stopped_under_load_every_request_that_was_begun_is_answered(model, tmp_path, seed):
    server = Server(model, tmp_path)
    body = json.dumps({"rows": np.random.default_rng(seed).normal(size=(500, 3)).tolist()})
    stopped, outcomes = threading.Event(), []

    def client():
        while not stopped.is_set():
            start = time.monotonic()
            try:
                connection = http.client.HTTPConnection(server.host, int(server.port), timeout=20)
                connection.request("POST", "/v1/transform?trust=true", body, {"Content-Type": formats.JSON})
                found = connection.getresponse()
                found.read()
                outcomes.append((start, found.status))
            except (ConnectionError, http.client.HTTPException, OSError) as error:
                outcomes.append((start, type(error).__name__))
                return
            finally:
                connection.close()

    clients = [threading.Thread(target=client) for _ in range(20)]
    for one in clients:
        one.start()
    time.sleep(2 + 0.3 * seed)
    told = time.monotonic()
    log = server.stop()
    stopped.set()
    for one in clients:
        one.join(30)
    early = [outcome for start, outcome in outcomes if start < told - 0.5]
    assert set(early) == {200}
    assert 500 not in {outcome for _, outcome in outcomes}
    assert "Traceback" not in log
