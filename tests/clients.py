"""Clients of the service without a network, a service in a process of its own, and a table to send."""

import asyncio
import io
import json
import signal
import socket
import subprocess
import sys

import httpx
import numpy as np
import pyarrow
import pyarrow.ipc

from outfold.app.service import formats, policy, service
from outfold.data.columns import Preparation
from outfold.datasets import s_curve

COLUMNS = ("length", "width", "</script>")
PREPARATION = Preparation(
    columns=COLUMNS, scaling="standard", centre=np.array([0.1, 1.0, -0.2]), scale=np.array([0.7, 0.6, 1.4])
)
X = np.asarray(s_curve(240, random_state=0)[0])
ROWS = np.vstack([X[200:240], [[100.0, 0.0, 0.0]]])  # the last is outside the data


def serving(estimator):
    """A service, closed in the end: the body of a fixture."""
    found = service.Service(estimator, PREPARATION, most_rows=500, workers=2)
    yield found
    found.close()


def together(app, *requests, base="http://127.0.0.1:8765"):
    """Answers to requests that are all under way at once."""

    async def go():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base, timeout=30) as client:
            return await asyncio.gather(*(client.request(*words, **settings) for words, settings in requests))

    return asyncio.run(go())


def ask(app, method, path, base="http://127.0.0.1:8765", **settings):
    return together(app, ((method, path), settings), base=base)[0]


def body_of(form, values, names=COLUMNS):
    if form == formats.JSON:
        return json.dumps({"rows": np.asarray(values).tolist()}).encode()
    held = io.BytesIO()
    if form == formats.NPY:
        np.save(held, np.asarray(values))
        return held.getvalue()
    order = list(names)[::-1]  # by name, not by place
    table = pyarrow.table(
        {name: np.ascontiguousarray(np.asarray(values)[:, list(names).index(name)]) for name in order}
        | {"aside": ["text"] * len(values)}
    )
    with pyarrow.ipc.new_stream(held, table.schema) as stream:
        stream.write_table(table, max_chunksize=7)
    return held.getvalue()


def _refused(name):
    raise AssertionError(f"{name} in JSON")


def table_of(answer):
    """An answer as columns, whatever its form."""
    form = answer.headers["content-type"]
    if form == formats.ARROW:
        read = pyarrow.ipc.open_stream(answer.content).read_all()
        return {name: np.asarray(read[name].to_pylist()) for name in read.column_names}
    if form == formats.NPY:
        values = np.load(io.BytesIO(answer.content), allow_pickle=False)
        names = answer.headers.get("outfold-columns")
        return dict(zip(names.split(",") if names else COLUMNS, values.T))
    found = json.loads(answer.content, parse_constant=_refused)
    matrix = found.get("embedding", found.get("features"))
    columns = dict(zip(found.pop("columns", []), np.array(matrix or [], dtype=float).T))
    return columns | {name: np.array(v) for name, v in found.items() if name not in ("embedding", "features")}


def post(app, path, values=ROWS, form=formats.JSON, wanted=None, names=COLUMNS, **settings):
    headers = {"content-type": form, **({"accept": wanted} if wanted else {}), **settings.pop("headers", {})}
    return ask(app, "POST", path, content=body_of(form, values, names), headers=headers, **settings)


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    (error,) = answer.json().values()
    assert error["code"] == policy.CODES[status]
    assert "Traceback" not in error["message"]
    return error["message"]


# -- a process that serves -----------------------------------------------------------------

SERVER = """
import sys
from outfold import storage
from outfold.app.service import policy, server, service

policy.DRAIN_SECONDS = 0.3
estimator, preparation = storage.open_model(sys.argv[1])
found = service.Service(estimator, preparation, most_rows=5000)
limits = policy.Limits(**eval(sys.argv[2]))
server.run(service.application(found, port=None, limits=limits), "127.0.0.1", 0)
print("ended", flush=True)
"""
GOOD = b'{"rows": [[0.1, 0.2, 0.3]]}'


class Server:
    """A process that serves, stopped by its id."""

    def __init__(self, model, folder, **limits):
        self.log = folder / "log"
        with open(self.log, "w") as log:
            command = [sys.executable, "-c", SERVER, str(model), repr(limits)]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.host, self.port = self.process.stdout.readline().strip().removeprefix("http://").split(":")
        self.head = f"Host: {self.host}:{self.port}\r\n".encode()

    def connect(self, seconds=10.0):
        return socket.create_connection((self.host, int(self.port)), timeout=seconds)

    def post(self, body=GOOD, path="/v1/transform", more=b""):
        length = f"Content-Length: {len(body)}\r\n".encode()
        return (
            b"POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\n%s%s\r\n"
            % (path.encode(), self.head, length, more)
            + body
        )

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        finally:
            self.process.kill()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        assert (code, rest) == (0, "ended\n")
        return self.log.read_text()
