"""Requests to the service and to the server of the page, drawn by a seed.

Each function draws a request and holds the law: an answer with the numbers of the library, or a refusal with a status
that the pages name, in our words; and the next good request is answered as ever.
"""

import asyncio
import contextlib
import copy
import errno
import gzip
import io
import itertools
import json
import logging
import re
import socket
import struct
import threading
import zlib
from dataclasses import dataclass, field, fields
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from clients import COLUMNS, PREPARATION, X, table_of
from fuzz.streams import NAMES, Sheet, mutated
from outfold import DiffusionMaps
from outfold.app.page import html as page_html
from outfold.app.page import rows as page_rows
from outfold.app.page import server as page_server
from outfold.app.service import formats, policy, server, service
from outfold.data.columns import Preparation

ROWS_UP_TO, BODY_BYTES = 60, 1 << 16
FORMS = formats.MEDIA_TYPES
DOCUMENTED = {*policy.CODES} - {500}
HOST = b"127.0.0.1:8765"
LIMITS = policy.Limits(body_bytes=BODY_BYTES, body_seconds=0.3, header_seconds=0.3, idle_seconds=0.3)


# -- servers -------------------------------------------------------------------------------


class Log(logging.Handler):
    """What the server logs: it should log nothing."""

    def __init__(self):
        super().__init__()
        self.told = []

    def emit(self, record):
        self.told.append(record.getMessage())


@dataclass
class Served:
    """An application, and a model that answers beside it."""

    app: object
    truth: object  # a copy: a changed model would agree with itself
    close: object
    log: Log = field(default_factory=Log)
    host: bytes = HOST

    def __post_init__(self):
        for name in ("outfold.app", "uvicorn", "uvicorn.error", "asyncio"):
            logging.getLogger(name).addHandler(self.log)


def serve():
    model = DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:120]))
    found = service.Service(model, PREPARATION, most_rows=ROWS_UP_TO, workers=2)
    model.inverse_transform(np.zeros((1, 3)))
    return Served(service.application(found, port=8765, limits=LIMITS), copy.deepcopy(model), found.close)


def serve_page():
    preparation = Preparation(NAMES, scaling=PREPARATION.scaling, centre=PREPARATION.centre, scale=PREPARATION.scale)
    model = DiffusionMaps(3, random_state=0).fit(preparation.apply(X[:120]))
    page = page_html.Page("m", model, preparation, page_rows.hold_training_rows(model, preparation))
    app = page_server.Door(page_server.routes(page), host="127.0.0.1", port=8765, token="s3cret", limits=LIMITS)
    return Served(app, copy.deepcopy(model), lambda: None)


@contextlib.contextmanager
def listening(served):
    """Serve on the loopback, on a thread of this process; ``served.host`` is the address."""
    servers, ready = [], threading.Event()

    class Seen(server._Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    def told(url):
        served.host = url.removeprefix("http://").encode()
        ready.set()

    served.app.port, original = None, server._Server
    server._Server = Seen
    thread = threading.Thread(target=server.run, args=(served.app, "127.0.0.1", 0), kwargs={"ready": told})
    thread.start()
    try:
        assert ready.wait(20)
        server._Server = original
        yield served
    finally:
        server._Server = original
        for one in servers:
            one.should_exit = True
        thread.join(30)


# -- asking without a network --------------------------------------------------------------


@dataclass
class Asked:
    """A request as an ASGI server hands it on."""

    method: str = "POST"
    target: str = "/v1/transform"
    headers: list = field(default_factory=list)
    body: bytes = b""
    parts: int = 1
    leaves: bool = False  # the client goes away before the body ends


@dataclass
class Answer:
    status: int | None
    headers: dict
    content: bytes


def ask(served, asked):
    """Return the answer of the application, called as a server does."""
    path, _, query = asked.target.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": asked.method, "path": unquote(path), "raw_path": path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"), "headers": asked.headers,
        "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8765),
    }  # fmt: skip
    ends = [len(asked.body) * at // asked.parts for at in range(asked.parts + 1)]
    waiting = [
        {"type": "http.request", "body": asked.body[a:b], "more_body": b < len(asked.body)}
        for a, b in itertools.pairwise(ends)
    ]
    if asked.leaves:
        waiting = waiting[:-1]
    sent = []

    async def receive():
        if waiting:
            return waiting.pop(0)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(served.app(scope, receive, send))
    starts = [message for message in sent if message["type"] == "http.response.start"]
    if not starts:
        return Answer(None, {}, b"")
    assert len(starts) == 1
    assert sent[-1]["type"] == "http.response.body"
    assert not sent[-1].get("more_body")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in starts[0]["headers"]}
    return Answer(starts[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))


def check_refusal(served, answer):
    """Hold that an answer is a refusal as the pages describe it; return its words."""
    assert answer.status in DOCUMENTED, (answer.status, answer.content[:300], served.log.told)
    error = json.loads(answer.content)
    assert error.keys() == {"error"}
    assert error["error"]["code"] == policy.CODES[answer.status]
    words = error["error"]["message"]
    assert words
    assert not re.search(r"Traceback|site-packages|/src/|object at 0x|\.py:|line \d+, in ", words), words
    assert answer.headers.get("x-content-type-options") == "nosniff"
    assert not served.log.told, served.log.told
    return words


# -- requests of the service ---------------------------------------------------------------


@dataclass
class Wanted:
    """A request that is well formed: rows, route, forms and options."""

    name: str
    values: np.ndarray
    form: str
    wanted: str
    options: dict
    by_name: bool

    @classmethod
    def draw(cls, rng):
        name = rng.choice(["transform", "transform", "trust", "inverse"])
        count, seed = rng.choice([1, 2, rng.randrange(1, ROWS_UP_TO + 1)]), rng.randrange(2**32)
        random = np.random.default_rng(seed)
        values = random.normal(size=(count, 3)) if name == "inverse" else X[random.integers(0, len(X), count)].copy()
        if rng.random() < 0.2:
            values[rng.randrange(count)] *= rng.choice([100, 1e6, -1e-9, 0])
        options = {}
        if name != "inverse" and rng.random() < 0.3:
            options["level"] = rng.choice([0.001, 0.2])
        if name == "transform" and rng.random() < 0.4:
            options["trust"] = rng.choice(["true", "false"])
        return cls(name, values, rng.choice(FORMS), rng.choice([*FORMS, ""]), options, rng.random() < 0.5)

    @property
    def names(self):
        return list(COLUMNS) if self.name != "inverse" else [f"diffusionmaps{at}" for at in range(3)]

    def target(self):
        options = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f"/v1/{self.name}{'?' if options else ''}{options}"

    def headers(self, body):
        found = [(b"host", HOST), (b"content-type", self.form.encode()), (b"content-length", b"%d" % len(body))]
        return [*found, (b"accept", self.wanted.encode())] if self.wanted else found

    def body(self, rng):
        if self.form == formats.JSON:
            cells = [[rng.choice([repr, "{:.17g}".format, "{:.17E}".format])(value) for value in row]
                     for row in self.values.tolist()]  # fmt: skip
            return self.json(rng, cells)
        held = io.BytesIO()
        if self.form == formats.NPY:
            rows = self.values.astype(rng.choice(["<f8", ">f8"]))
            version = rng.choice([(1, 0), (2, 0), (3, 0)])
            np.lib.format.write_array(held, np.asfortranarray(rows) if rng.random() < 0.3 else rows, version=version)
            return held.getvalue()
        columns = {name: pa.array(self.values[:, at]) for at, name in enumerate(self.names)}
        columns |= {"other": pa.array(["x"] * len(self.values))} if rng.random() < 0.4 else {}
        order = rng.sample(list(columns), len(columns))
        table = pa.table({name: columns[name] for name in order})
        with ipc.new_stream(held, table.schema) as stream:
            stream.write_table(table, max_chunksize=rng.choice([1, 7, 1000]))
        return held.getvalue()

    def json(self, rng, cells):
        space = rng.choice(["", " ", "\n", "\t\r\n"])
        if not self.by_name:
            return (
                f'{space}{{"rows":{space}[' + ",".join(f"[{','.join(row)}]" for row in cells) + f"]}}{space}"
            ).encode()
        columns = dict(zip(self.names, zip(*cells)))
        parts = [f"{json.dumps(name)}:{space}[{','.join(columns[name])}]" for name in rng.sample(list(columns), 3)]
        return ('{"columns":{' + ",".join(parts) + "}}").encode()


def check_numbers(served, wanted, answer, values=None):
    """Hold that an answer has the numbers of the library, to the last bit."""
    assert answer.status == 200, answer.content
    values = wanted.values if values is None else values
    assert answer.headers["content-type"] == (wanted.wanted or wanted.form)
    found, truth = table_of(answer), served.truth
    if wanted.name == "inverse":
        expected = PREPARATION.undo(truth.inverse_transform(values))
        np.testing.assert_array_equal(np.column_stack([found[name] for name in COLUMNS]), expected)
        return
    points, form = PREPARATION.apply(values), answer.headers["content-type"]
    trust = truth.trust(points, **{name: wanted.options[name] for name in ("level",) if name in wanted.options})
    assert answer.headers.get("outfold-outside", str(trust.flag.sum())) == str(trust.flag.sum())
    if wanted.name == "transform":
        places = truth.transform(points, on_far="keep")
        np.testing.assert_array_equal(np.column_stack([found[f"diffusionmaps{at}"] for at in range(3)]), places)
        if form != formats.NPY:
            np.testing.assert_array_equal(found["outside"], trust.flag)
    if wanted.name == "trust" or wanted.options.get("trust") == "true":
        for name in (one.name for one in fields(trust) if one.name != "flag"):
            if (known := getattr(trust, name)) is not None:
                numbers = np.array(found[name], dtype=float)  # null is NaN, and so is what is not finite
                expected = np.where(np.isfinite(known), known, np.nan) if form == formats.JSON else known
                np.testing.assert_array_equal(numbers, expected)


def assert_serves(served):
    """Hold that a good request is answered as ever."""
    good = Wanted("transform", X[:3], formats.NPY, "", {}, False)
    held = io.BytesIO()
    np.save(held, good.values)
    check_numbers(served, good, ask(served, Asked(headers=good.headers(held.getvalue()), body=held.getvalue())))


def good_requests(served, rng):
    """Well-formed requests in every form, in pieces: the numbers of the library."""
    wanted = Wanted.draw(rng)
    body = wanted.body(rng)
    headers = wanted.headers(body)
    if rng.random() < 0.3:  # chunked
        headers = [pair for pair in headers if pair[0] != b"content-length"]
    rng.shuffle(headers)
    asked = Asked(target=wanted.target(), headers=headers, body=body, parts=rng.choice([1, 1, 2, 9]))
    if rng.random() < 0.05:
        asked.leaves = True
        answer = ask(served, asked)
        assert answer.status is None or asked.parts == 1
        return "left"
    check_numbers(served, wanted, ask(served, asked))
    return wanted.name


BAD_CELLS = {
    "NaN": {400}, "-Infinity": {400}, "1e400": {422}, "9" * 400: {422}, "9" * 5000: {400}, "null": {422},
    "true": {422}, '"1"': {422}, "[]": {422}, "{}": {422}, "01": {400}, "1.": {400}, "+1": {400}, "0x10": {400},
    "'1'": {400}, "\ud7ff": {400}, '"\\ud800"': {422}, "1 2": {400}, "": {400}, "1,2": {422}, "-": {400},
}  # fmt: skip


def bad_json(rng, wanted):
    """Return JSON that is refused, and the statuses it may get."""
    cells = [[repr(value) for value in row] for row in wanted.values.tolist()]
    if rng.random() < 0.5:
        cell = rng.choice(list(BAD_CELLS))
        cells[rng.randrange(len(cells))][rng.randrange(3)] = cell
        found = BAD_CELLS[cell]
        if cell == "1,2" and not wanted.by_name and len(cells) == 1:
            found = {422}
        if cell == "" and wanted.by_name and len(cells) == 1:  # a column without rows
            found = {422}
        return wanted.json(rng, cells), found
    good = wanted.json(rng, cells)
    deep = rng.choice([100, 1500, 2000, 40_000])
    row = ",".join(cells[0])
    return rng.choice([
        (b"[" * deep, {400, 413}),
        (b'{"a":' * min(deep, BODY_BYTES // 6), {400, 413}),
        (b'{"rows":' + b"[" * 80 + b"1" + b"]" * 80 + b"}", {400, 413, 422}),
        (good + rng.choice([b"}", b"x", b"{}", b"\0", b"[1]"]), {400}),
        (good[: rng.randrange(1, len(good.rstrip()))], {400}),
        (b"\xef\xbb\xbf" + good, {400}),
        (good.decode().encode(rng.choice(["utf-16", "utf-16-le", "utf-32"])), {400}),
        (b'{"rows": [' + row.encode() + b']}', {422}),
        (f'{{"rows": [[{row}]], "rows": [[{row}]]}}'.encode(), {400}),
        (f'{{"rows": [[{row}]], "columns": {{}}}}'.encode(), {422}),
        (f'{{"columns": [[{row}]]}}'.encode(), {422}),
        (f'[[{row}]]'.encode(), {422}),
        (f'{{"Rows": [[{row}]]}}'.encode(), {422}),
        (f'{{"rows": [[{row},1]]}}'.encode(), {422}),
        (f'{{"rows": [[{row}],[1,2]]}}'.encode(), {422}),
        (f'{{"rows": {{"0": [{row}]}}}}'.encode(), {422}),
        (f'{{"rows": [{",".join([f"[{row}]"] * (ROWS_UP_TO + 1))}]}}'.encode(), {413}),
        (f'{{"rows": [{"[]," * 3000}[]]}}'.encode(), {413}),
        (json.dumps({"columns": {f"c{at}": [1] for at in range(1200)}}).encode(), {413, 422}),
        (json.dumps({"columns": {**{name: [1] for name in wanted.names}, wanted.names[0]: [1, 2]}}).encode(), {422}),
        (json.dumps({"columns": {name: [1] for name in wanted.names[:2]}}).encode(), {422}),
        (json.dumps({"columns": {name: [] for name in wanted.names}}).encode(), {422}),
        (b'{"columns": {"\\ud800": [1]}}', {422}),
        (b'{"rows": []}', {422}), (b'{"rows": null}', {422}), (b"{}", {422}), (b"null", {422}), (b"0", {422}),
        (b" " * 100, {400}), (b"", {400}), (b"\xff\xfe", {400}), (b'"' + b"a" * 60_000, {400}),
    ])  # fmt: skip


def bad_npy(rng, wanted):
    def saved(values, **options):
        held = io.BytesIO()
        np.lib.format.write_array(held, np.asarray(values), **options)
        return held.getvalue()

    good, values = saved(wanted.values), wanted.values.copy()
    spoiled = values.copy()
    spoiled[rng.randrange(len(values)), rng.randrange(3)] = rng.choice([np.nan, np.inf, -np.inf])
    header = good[10 : 10 + int.from_bytes(good[8:10], "little")]

    def told(old, new):
        changed = header.replace(old, new)
        return good[:8] + len(changed).to_bytes(2, "little") + changed + good[10 + len(header) :]

    shape = f"({len(values)}, 3)".encode()
    return rng.choice([
        (saved(spoiled), {422}),
        (saved(values[:, :2]), {422}), (saved(values[:, 0]), {422}), (saved(values[None]), {422}),
        (saved(values[:0]), {422}), (saved(np.zeros((ROWS_UP_TO + 1, 3))), {413}),
        (saved(values + 1j), {400}), (saved(values.astype("U5")), {400}), (saved(values > 0), {400}),
        (saved(values.astype(object), allow_pickle=True), {400}),
        (saved(np.zeros(3, [("a", "f8")])), {400}), (saved(values.astype("M8[s]")), {400}),
        (good[: rng.randrange(len(good))], {400, 422}), (good + b"\0", {400}),
        (told(shape, b"(3, 3, 3)"), {422}), (told(shape, b"(99999999999999999999, 3)"), {413}),
        (told(shape, b"(-1, 3)"), {400}), (told(shape, b"(1,)"), {422}), (told(b"'<f8'", b"'<f1'"), {400}),
        (told(b"'<f8'", b"__import__('os')"), {400}), (told(b"False", b"1"), {400}),
        (good[:8] + b"\xff\xff" + good[10:], {400}), (good[:6] + b"\x09\x00" + good[8:], {400}),
        (good[:8] + b"\x00\x00" + good[10:], {400}),
    ])  # fmt: skip


def bad_arrow(rng, wanted):
    names, values = wanted.names, wanted.values

    def stream(table, **options):
        held = io.BytesIO()
        with ipc.new_stream(held, table.schema, options=ipc.IpcWriteOptions(**options)) as file:
            file.write_table(table)
        return held.getvalue()

    columns = {name: pa.array(values[:, at]) for at, name in enumerate(names)}
    good, at = stream(pa.table(columns)), rng.choice(names)

    def with_column(column):
        return stream(pa.table(columns | {at: column}))

    count = len(values)
    spoiled = values[:, 0].copy()
    spoiled[rng.randrange(count)] = rng.choice([np.nan, np.inf])
    held = io.BytesIO()
    with ipc.new_file(held, pa.table(columns).schema) as file:
        file.write_table(pa.table(columns))
    long = pa.table({name: np.zeros(ROWS_UP_TO + 1) for name in names})
    return rng.choice([
        (with_column(pa.array(["1"] * count)), {422}), (with_column(pa.array([True] * count)), {422}),
        (with_column(pa.array([None] * count, pa.float64())), {422}), (with_column(pa.array(spoiled)), {422}),
        (with_column(pa.array([[1.0]] * count)), {422}), (with_column(pa.nulls(count)), {422}),
        (with_column(pa.array([1] * count, pa.timestamp("s"))), {422}),
        (with_column(pa.array(["1"] * count).dictionary_encode()), {422}),
        (with_column(pa.array([1.0] * count).dictionary_encode()), {422}),
        (stream(pa.table({name: columns[name] for name in names[:2]})), {422}),
        (stream(pa.Table.from_arrays([*columns.values(), columns[at]], [*names, at])), {422}),
        (stream(pa.table(columns), compression=rng.choice(["lz4", "zstd"])), {422}),
        (stream(pa.table(columns).slice(0, 0)), {422}), (stream(long), {413}),
        (good[: rng.randrange(len(good) - 8)], {400, 422}), (held.getvalue(), {400, 422}),
        (b"\xff\xff\xff\xff" + rng.randbytes(40), {400}), (rng.randbytes(60), {400}), (b"", {400}),
    ])  # fmt: skip


BAD_QUERIES = (
    "trust=yes", "trust=true&trust=true", "coverage=0", "coverage=nan", "level=1", "level=-inf", "level=1e400", "x=1",
    "trust", "=", "%00=1", "level=0.5&level=0.5", "coverage=1_0&x", "\xff=\xff", "a=b&" * 300,
)  # fmt: skip
BAD_PATHS = (
    "/", "//v1/transform", "/v1/transform/", "/v1/../v1/transform", "/v1/transform%00", "/v1//transform",
    "/V1/transform", "/v1/transform;x", "/v1/%74ransform%2f", "/../../etc/passwd", "/v1/trans%ff", "*", "",
    "/v1/transform%0d%0aX: y", "/" + "a" * 3000, "/v1/%F0%9F%8D%B5", "/v2/transform",
)  # fmt: skip
BAD_HEADERS = (
    ((b"content-encoding", b"gzip"), {415}), ((b"content-encoding", b"br"), {415}),
    ((b"content-encoding", b"identity, gzip"), {415}), ((b"content-encoding", b"\xff"), {415}),
    ((b"content-type", b"text/html"), {415}), ((b"content-type", b""), {415}), ((b"content-type", b"\xff"), {415}),
    ((b"content-type", b"application/json; charset=latin-1"), {415}),
    ((b"content-type", b"application/json, application/json"), {415}),
    ((b"accept", b"text/html"), {406}), ((b"accept", b"*/*;q=0"), {406}), ((b"accept", b"a/b;q=nan"), {406}),
    ((b"accept", b",;q="), {406}),
    ((b"host", b"evil.example"), {403}), ((b"host", b"127.0.0.1:99999"), {403}), ((b"host", b"127.0.0.1:0"), {403}),
    ((b"host", b"127.0.0.1:8765@evil"), {403}), ((b"host", b""), {403}), ((b"host", b"[::1"), {403}),
    ((b"host", b"127.0.0.1"), {403}), ((b"host", "１２７.0.0.1:8765".encode()), {403}), ((b"host", b"\xff"), {403}),
    ((b"origin", b"null"), {403}), ((b"origin", b"http://evil.example"), {403}), ((b"origin", b"\xff"), {403}),
    ((b"origin", b"https://127.0.0.1:8765"), {403}), ((b"origin", b"http://127.0.0.1:8765.evil"), {403}),
    ((b"content-length", b"9" * 40), {413}), ((b"content-length", b"%d" % (BODY_BYTES + 1)), {413}),
    ((b"x", b"y" * (policy.HEAD_BYTES + 1)), {431}),
)  # fmt: skip


def bad_requests(served, rng):
    """Requests with one thing wrong: the status that the page names, and the server goes on."""
    wanted = Wanted.draw(rng)
    body, codes, asked = wanted.body(rng), None, Asked(target=wanted.target())
    headers, way = wanted.headers(body), rng.random()
    if way < 0.5:
        body, codes = {formats.JSON: bad_json, formats.NPY: bad_npy, formats.ARROW: bad_arrow}[wanted.form](rng, wanted)
        headers = wanted.headers(body)
    elif way < 0.6:
        query = rng.choice(BAD_QUERIES)
        asked.target, codes = f"/v1/{wanted.name}?{query}", {400}
        if query == "=" or (query == "" and not wanted.options):
            codes = {400}
    elif way < 0.7:
        asked.target, codes = rng.choice(BAD_PATHS), {404}
    elif way < 0.75:
        asked.method, codes = rng.choice(["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW", "post", "\u2603"]), {405}
        wanted.options = {}
    elif way < 0.8:
        codes = {413}
        body += b" " * BODY_BYTES
        headers = [pair for pair in wanted.headers(body) if rng.random() < 0.5 or pair[0] != b"content-length"]
        asked.parts = rng.choice([1, 30])
    elif way < 0.85:  # bodies that would grow
        bomb = rng.choice([gzip.compress(bytes(1 << 22)), zlib.compress(bytes(1 << 22))])
        body, codes = bomb, {400}
        headers = wanted.headers(body)
        if rng.random() < 0.5:
            headers.append((b"content-encoding", rng.choice([b"gzip", b"deflate", b"x-gzip"])))
            codes = {415}
    else:
        (name, value), codes = rng.choice(BAD_HEADERS)
        headers = [pair for pair in headers if pair[0] != name]
        headers.insert(rng.randrange(len(headers) + 1), (name, value))
        if name in (b"host", b"origin") and rng.random() < 0.3:
            own = (b"host", HOST) if name == b"host" else (b"origin", b"http://127.0.0.1:8765")
            headers.insert(rng.choice([0, len(headers)]), own)
    asked.headers, asked.body = headers, body
    answer = ask(served, asked)
    if asked.method == "GET" and answer.status == 200:
        raise AssertionError("a POST route answered GET")
    check_refusal(served, answer)
    assert answer.status in codes, (answer.status, codes, answer.content[:200], asked.target, body[:200])
    if rng.random() < 0.1:
        assert_serves(served)
    return answer.status


def read_elsewhere(form, body, names):
    """The rows of a body as another reader sees them, in the order of ``names``."""
    if form == formats.NPY:
        return np.load(io.BytesIO(body), allow_pickle=False).astype(float)
    if form == formats.ARROW:
        schema = ipc.open_stream(body).schema
        wanted = ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
        table = ipc.open_stream(body, options=wanted).read_all()
        return np.column_stack([table[name].cast(pa.float64(), safe=False).to_numpy() for name in names])
    found = json.loads(body)
    rows = found["rows"] if "rows" in found else np.column_stack([found["columns"][name] for name in names])
    return np.array(rows, dtype=float)


def mutated_bodies(served, rng):
    """Bodies with changed bytes: what is taken is what another reader sees in them."""
    wanted = Wanted.draw(rng)
    body = mutated(rng, wanted.body(rng))
    asked = Asked(target=wanted.target(), headers=wanted.headers(body), body=body, parts=rng.choice([1, 3]))
    answer = ask(served, asked)
    if answer.status != 200:
        check_refusal(served, answer)
        assert answer.status in (400, 413, 422)
        return answer.status
    with np.errstate(all="ignore"):
        values = read_elsewhere(wanted.form, body, wanted.names)
    assert np.isfinite(values).all()
    check_numbers(served, wanted, answer, values)
    return 200


# -- the wire ------------------------------------------------------------------------------


def exchange(served, parts, half):
    """Send parts of bytes on one connection; return all that comes back until the other side closes."""
    host, port = served.host.decode().split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = []
        try:
            for part in parts:
                connection.sendall(part)
            if half:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                found.append(part)
        except ConnectionError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the other side has closed already
                raise
        return b"".join(found)


def split_answers(text):
    """The answers in what came over a connection, by their lengths."""
    found = []
    while text:
        head, blank, rest = text.partition(b"\r\n\r\n")
        assert blank, text[:200]
        first, *lines = head.split(b"\r\n")
        assert re.fullmatch(rb"HTTP/1\.1 \d{3} [^\r\n]*", first), first
        headers = {name.decode().lower(): value.strip().decode("latin-1") for name, _, value in
                   (line.partition(b":") for line in lines)}  # fmt: skip
        status = int(first.split()[1])
        size = int(headers.get("content-length", 0)) if status != 100 else 0
        if headers.get("transfer-encoding") == "chunked":
            content, rest = unchunk(rest)
        else:
            content, rest = rest[:size], rest[size:]
        found.append(Answer(status, headers, content))
        text = rest
    return found


def unchunk(text):
    content = b""
    while True:
        size, _, text = text.partition(b"\r\n")
        if not int(size or b"0", 16):
            return content, text[2:]
        content, text = content + text[: int(size, 16)], text[int(size, 16) + 2 :]


def request_bytes(wanted, body, host, more=()):
    lines = [f"POST {wanted.target()} HTTP/1.1".encode(), b"Host: " + host]
    lines += [name.title() + b": " + value for name, value in wanted.headers(body) if name != b"host"]
    return b"\r\n".join([*lines, *more, b"", b""])


def chunked(rng, body, flaw=None):
    """A body in chunks of any sizes, which may be spoiled."""
    parts, at = [], 0
    while at < len(body):
        size = rng.randrange(1, len(body) - at + 1)
        extension = rng.choice([b"", b"", b";x", b';x="y"'])
        parts.append(rng.choice([b"%x", b"%X", b"0%x"]) % size + extension + b"\r\n" + body[at : at + size] + b"\r\n")
        at += size
    parts.append(b"0\r\n" + rng.choice([b"", b"X: y\r\n"]) + b"\r\n")
    if flaw:
        place = rng.randrange(len(parts))
        parts[place] = rng.choice(
            [b"zz\r\n", b"-1\r\n", b"\r\n", b"f" * 30 + b"\r\nx", b"5\r\nabc", b"0x5\r\nabcde\r\n", b"5\n"]
        )
    return b"".join(parts)


BAD_LINES = (
    b"Content-Length: 5", b"Content-Length: x", b"Content-Length: -1", b"Content-Length: 1, 2", b"Content-Length:",
    b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: \xff", b"Host: evil",
    b"no colon", b" folded: x", b"a b: c", b": x", b"X: \0", b"X: a\nY: b", b"X\r: y", b"\xff: x",
    b"X: " + b"y" * 20_000, b"\r\n".join([b"X: y"] * 3000),
)  # fmt: skip
HARMLESS_LINES = (
    b"Connection: Upgrade\r\nUpgrade: websocket", b"Range: bytes=0-1", b"X: \xff", b"Cookie: a=b; =",
    b"Forwarded: for=1.2.3.4", b"X-Forwarded-Proto: https", b"If-None-Match: *", b"X:", b"TE: trailers",
)  # fmt: skip
BAD_FIRST = (
    b"GET", b"POST /v1/transform", b"POST /v1/transform HTTP/9", b"POST  /v1/transform HTTP/1.1", b"\0\0\0",
    b"PRI * HTTP/2.0", b"POST /v1/trans form HTTP/1.1", b"\x16\x03\x01\x02\x00\x01", b"POST \xff HTTP/1.1",
    b"POST http://evil/v1/transform HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"G" * 30_000, b"",
)  # fmt: skip


def wires(served, rng):
    """Bytes on a connection: requests one after another, in pieces, with wrong lines and lengths, or broken off."""
    count, sent, expected, good = rng.choice([1, 1, 2, 4]), [], [], True
    for number in range(count):
        wanted = Wanted.draw(rng)
        body, more = wanted.body(rng), []
        headers = request_bytes(wanted, body, served.host)
        if rng.random() < 0.3:
            more.append(rng.choice(HARMLESS_LINES))
        last = number == count - 1
        flaw = rng.choice(["line", "first", "chunk", "length", "cut", "bytes"]) if last and rng.random() < 0.6 else None
        lines = headers[:-4].split(b"\r\n")
        if rng.random() < 0.3 or flaw == "chunk":
            lines = [line for line in lines if not line.startswith(b"Content-Length")] + [b"Transfer-Encoding: chunked"]
            body = chunked(rng, body, flaw == "chunk")
        if flaw == "line":
            lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(BAD_LINES))
        elif flaw == "first":
            lines[0] = rng.choice(BAD_FIRST)
        elif flaw == "length":
            lines = [line for line in lines if not line.startswith((b"Content-Length", b"Transfer"))]
            lines.append(b"Content-Length: %d" % rng.choice([len(body) - 1, len(body) + 9, 1, BODY_BYTES * 2]))
        data = b"\r\n".join([*lines, *more, b"", b""]) + body
        if flaw == "cut":
            data = data[: rng.randrange(len(data))]
        elif flaw == "bytes":
            data = mutated(rng, data)
        good = flaw is None
        sent.append(data)
        expected.append(wanted)
    text = b"".join(sent)
    cuts = sorted(rng.sample(range(len(text)), min(len(text), rng.choice([0, 0, 1, 5])))) if text else []
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
    if rng.random() < 0.05:
        reset(served, text[: rng.randrange(len(text) + 1)])
        return "reset"
    found = [answer for answer in split_answers(exchange(served, parts, half=True)) if answer.status != 100]
    whole = expected if good else expected[:-1]
    assert len(found) >= len(whole) or not good, (len(found), text)
    for wanted, answer in zip(whole, found):
        if answer.status != 200 and len(expected) > 1:  # a broken end may be seen before earlier answers are sent
            check_refusal(served, answer)
            break
        check_numbers(served, wanted, answer)
    for answer in found[len(whole) :]:
        if answer.status != 200:
            check_refusal(served, answer)
    assert not served.log.told, served.log.told
    return found[-1].status if found else "closed"


def reset(served, data):
    """Send bytes and go away without a word."""
    host, port = served.host.decode().split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(data)


def assert_listens(served):
    """Hold that a good request over the network is answered as ever."""
    wanted = Wanted("transform", X[:3], formats.JSON, "", {}, False)
    body = json.dumps({"rows": X[:3].tolist()}).encode()
    (answer,) = split_answers(exchange(served, [request_bytes(wanted, body, served.host) + body], half=True))
    check_numbers(served, wanted, answer)


# -- the page ------------------------------------------------------------------------------

TOKENS = (b"outfold_token=" + b"s3cret".hex().encode(), b"a=b; outfold_token=" + b"s3cret".hex().encode())
BAD_COOKIES = (
    b"outfold_token=", b"outfold_token=zz", b"outfold_token=ff", b"outfold_token=\xff", b"=;=;", b"a" * 9000,
    b"outfold_token=" + b"S3cret".hex().encode(), b'outfold_token="', b"outfold_token=c3a9", b"\0",
)  # fmt: skip
PAGE_PATHS = (
    "/", "/page.js", "/page.css", "/facts", "/data/0", "/data/1", "/data/999", "/data/-1", "/data/1e3", "/data/",
    "/data/%31", "/data/" + "9" * 30, "/data/" + "9" * 5000, "/data/0/0", "/..%2f..%2fetc/passwd", "/page.js%00",
    "/data/%D9%A1", "/facts/", "/assets/page.js", "//facts", "/?token=x", "/?token=%ff", "/?token=a&token=b",
    "/?token=s3cret", "/?token=s3cret%00", "/page.js?token=s3cret", "/data/0?x=%ff",
)  # fmt: skip
BAD_NAMES = (
    "n.csv", "n.tsv", "../../etc/passwd", "%00", "%ff%fe", "a" * 2000, "%F0%9F%8D%B5.csv", "%0d%0a", "", "x&name=y",
    "<script>", "..", "/",
)  # fmt: skip


def page_requests(served, rng):
    """Requests to the server of the page: what the token opens, dropped tables, or a refusal."""
    cookie = rng.choice(TOKENS) if rng.random() < 0.8 else rng.choice(BAD_COOKIES)
    headers = [(b"host", HOST), (b"cookie", cookie)]
    if rng.random() < 0.1:
        headers = [
            headers[0],
            (b"authorization", rng.choice([b"Bearer s3cret", b"Bearer", b"Basic x", b"Bearer \xff", b""])),
        ]
    known = (cookie in TOKENS and headers[1][0] == b"cookie") or headers[1][1] == b"Bearer s3cret"
    if rng.random() < 0.4:
        asked = Asked(rng.choice(["GET"] * 8 + ["HEAD", "POST", "PUT"]), rng.choice(PAGE_PATHS), headers)
        answer = ask(served, asked)
        in_address = re.fullmatch(r"/\?token=([a-z0-9%]*)", asked.target)
        if in_address and unquote(in_address[1]).isascii() and headers[1][0] == b"cookie":
            known = in_address[1] == "s3cret"
        assert (answer.status == 401) == (not known), (asked, answer.status)
        if answer.status in (200, 303):
            assert asked.method in ("GET", "HEAD")
            assert not served.log.told
            return answer.status
        check_refusal(served, answer)
        return answer.status
    return dropped(served, rng, headers, known)


def dropped(served, rng, headers, known):
    """A table dropped on the page: the numbers of the library, or a refusal in words."""
    sheet = Sheet(rng, named=True)
    sheet.flaw = None if sheet.flaw == "gzip" else sheet.flaw
    data, name = sheet.data, rng.choice(BAD_NAMES)
    changed = rng.random() < 0.3
    if changed:
        data = mutated(rng, data)
    if sheet.separator == "\t" and rng.random() < 0.5:
        name = "n.tsv"
    answer = ask(served, Asked("POST", f"/new?name={name}", headers, data, parts=rng.choice([1, 4])))
    if not known:
        assert answer.status == 401
        return 401
    if answer.status != 200:
        words = check_refusal(served, answer)
        assert answer.status == 422 or len(data) > LIMITS.body_bytes, words
        whole = np.isfinite(sheet.values).all(axis=1).any()
        assert changed or sheet.flaw or not whole or name == "n.tsv", words
        assert (
            sheet.flaw not in ("short", "long", "word")
            or changed
            or name == "n.tsv"
            or f"line {sheet.bad_line}" in words
        )
        return answer.status
    size = int.from_bytes(answer.content[:4], "little")
    head, rest = json.loads(answer.content[4 : 4 + size]), answer.content[4 + size :]
    assert len(rest) == sum(stream["bytes"] for stream in head["streams"])
    if changed:
        return 200
    assert sheet.flaw is None, sheet.flaw
    values = sheet.values[np.isfinite(sheet.values).all(axis=1)]
    preparation = Preparation(NAMES, scaling="standard", centre=PREPARATION.centre, scale=PREPARATION.scale)
    truth = served.truth.transform(preparation.apply(values), on_far="keep")
    values = served.truth.eigenvalues_  # the page weighs coordinates itself
    start, found = 0, []
    for stream in head["streams"]:
        if stream["role"] == "coordinate":
            found.append(np.frombuffer(rest[start : start + stream["bytes"]], "<f4"))
        start += stream["bytes"]
    np.testing.assert_allclose(np.column_stack(found) * values, truth, rtol=1e-6, atol=1e-6 * np.abs(truth).max())
    return 200
