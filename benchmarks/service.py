"""``outfold serve`` on loopback: single rows, 1,000-row batches of 50 clients, memory, and the library beside it.

    python benchmarks/service.py                    60 s of load
    python benchmarks/service.py 10 20              seconds, clients
    python benchmarks/service.py --queues           one row beside forty requests of 10,000 rows, and nothing else
    python benchmarks/service.py --write            into docs/service.md

The model is diffusion maps of 5,000 rows x 20 columns through 1,000 landmarks, with columns scaled. Clients are
threads of one process that send bytes made before, so most of the work is the service's; they still share the cores
with it. Where others use the machine too, seconds of work a row compare better than rows a second.
"""

import http.client
import io
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import numpy as np
import pages

import outfold
from outfold import storage
from outfold.data.columns import Preparation

ROWS, COLUMNS, BATCH, FORTY = 5000, 20, 1000, 40
LIBRARY = """
import json, sys, time
import numpy as np
from outfold import storage
estimator, preparation = storage.open_model(sys.argv[1])
batch, seconds = np.load(sys.argv[2]), float(sys.argv[3])
estimator.transform(preparation.apply(batch), on_far="keep")
start, work, rows = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - start < seconds:
    estimator.transform(preparation.apply(batch), on_far="keep")
    rows += len(batch)
print(json.dumps([rows / (time.perf_counter() - start), (time.process_time() - work) / rows]))
"""


def memory(process):
    """Resident bytes now."""
    text = pathlib.Path(f"/proc/{process}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def work(process):
    """Seconds of all cores so far."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepared(folder):
    """A model, a batch and their files."""
    rng = np.random.default_rng(0)
    hidden = rng.uniform(-1, 1, size=(ROWS + BATCH, 3))
    X = np.tanh(hidden @ rng.normal(size=(3, COLUMNS))) * rng.uniform(1, 50, COLUMNS)
    X += 0.02 * X.std(axis=0) * rng.normal(size=X.shape)
    centre, scale = X[:ROWS].mean(axis=0), X[:ROWS].std(axis=0)
    names = tuple(f"x{at}" for at in range(COLUMNS))
    known = Preparation(columns=names, scaling="standard", centre=centre, scale=scale)
    estimator = outfold.DiffusionMaps(3, landmarks=1000, random_state=0).fit(known.apply(X[:ROWS]))
    storage.save(estimator, folder / "m.outfold", preparation=known)
    np.save(folder / "batch.npy", X[ROWS:])
    return estimator.transform(known.apply(X[ROWS:]), on_far="keep"), X[ROWS:]


def library(folder, seconds=5.0):
    words = [sys.executable, "-c", LIBRARY, str(folder / "m.outfold"), str(folder / "batch.npy"), str(seconds)]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def single(address, row, count=2000, seconds=60.0, first=100):
    """Seconds of requests for one row, one after another on one connection; the ``first`` are left out."""
    connection, taken = http.client.HTTPConnection(address), []
    body, end = json.dumps({"rows": [row.tolist()]}), time.perf_counter() + seconds
    while len(taken) < count and (time.perf_counter() < end or len(taken) < 3):
        start = time.perf_counter()
        connection.request("POST", "/v1/transform", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        taken.append(time.perf_counter() - start)
        assert answer.status == 200
    return taken[first:] if len(taken) > first else taken


class Load:
    """Clients that send one batch after another until told to stop."""

    def __init__(self, address, batch, form, path="/v1/transform", source=""):
        self.host, _, self.port = address.rpartition(":")
        self.source = source
        held = io.BytesIO()
        np.save(held, batch)
        body = held.getvalue() if form.endswith("npy") else json.dumps({"rows": batch.tolist()}).encode()
        lines = [f"Host: {address}", f"Content-Type: {form}", f"Content-Length: {len(body)}", "", ""]
        head = "\r\n".join([f"POST {path} HTTP/1.1", *lines])
        self.request, self.taken, self.errors = head.encode() + body, [], []
        self.stop = threading.Event()

    def client(self):
        address = (self.host, int(self.port))
        with socket.create_connection(address, timeout=90, source_address=(self.source, 0)) as connection:
            reader = connection.makefile("rb")
            while not self.stop.is_set():
                start = time.perf_counter()
                try:
                    connection.sendall(self.request)
                    status, size = reader.readline(), 0
                    while (line := reader.readline()) != b"\r\n":
                        if line.lower().startswith(b"content-length:"):
                            size = int(line[15:])
                    reader.read(size)
                    if b" 200 " not in status:
                        self.errors.append(status)
                except (OSError, ValueError) as error:
                    self.errors.append(error)
                    return
                self.taken.append(time.perf_counter() - start)

    def run(self, clients, seconds, watch):
        threads = [threading.Thread(target=self.client) for _ in range(clients)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for _ in range(6):
            time.sleep(seconds / 6)
            watch()
        self.stop.set()
        for thread in threads:
            thread.join()
        return len(self.taken) / (time.perf_counter() - start)


def told(name, taken):
    p50, p99 = statistics.median(taken), float(np.quantile(taken, 0.99))
    said = f"p50 {1e3 * p50:.2g} ms, p99 {1e3 * p99:.2g} ms, {len(taken)} requests"
    print(f"{name:<34} {said}", flush=True)
    return said


def loaded(server, address, batch, form, clients, seconds, *, quiet=False):
    """Rows a second, seconds of work a row, and all of it in words."""
    load, resident, spent = Load(address, batch, form), [], work(server)
    rate = len(batch) * load.run(clients, seconds, lambda: resident.append(memory(server)))
    per_row = (work(server) - spent) / (len(load.taken) * len(batch))
    said = ""
    if not quiet:
        said = told(f"{clients} clients, {form.rpartition('/')[2]}", load.taken)
        said = f"{rate:,.0f} rows/s, {said}, {len(load.errors) or 'no'} errors"
        flat = " ".join(f"{size / 1e6:.0f}" for size in resident)
        print(f"{'':<34} {rate:.0f} rows/s, {1e6 * per_row:.2f} us of work a row, {len(load.errors)} errors")
        print(f"{'':<34} resident MB while it ran: {flat}", flush=True)
    return rate, per_row, said


def beside_the_library(server, address, batch, folder, clients, rounds=5):
    """Library and service in turns, so that what others do to the machine falls on both."""
    rates, works = [], []
    for _ in range(rounds):
        own, own_row = library(folder, 3.0)
        rate, per_row, _ = loaded(server, address, batch, "application/x-npy", clients, 3.0, quiet=True)
        rates.append(own / rate)
        works.append(per_row / own_row)
    name = f"library over service, {clients} client{'s' * (clients > 1)}"
    shown = " ".join(f"{ratio:.2f}" for ratio in rates)
    print(
        f"{name:<34} rows/s {statistics.median(rates):.2f} ({shown}), work a row {statistics.median(works):.2f}",
        flush=True,
    )
    return statistics.median(rates), statistics.median(works)


def beside_large_ones(process, address, batch, form, source, seconds=40.0):
    """The wait of one row while one client has forty requests of 10,000 rows with trust under way."""
    load, resident = Load(address, np.tile(batch, (10, 1)), form, "/v1/transform?trust=true", source), []

    def look():
        resident.append(memory(process))

    runner = threading.Thread(target=load.run, args=(FORTY, seconds, look))
    runner.start()
    time.sleep(3.0)  # until all forty are there
    taken = single(address, batch[0], seconds=seconds - 6.0, first=0)
    runner.join()
    p50, p95, most = (1e3 * float(np.quantile(taken, at)) for at in (0.5, 0.95, 1.0))
    said = f"p50 {p50:.3g} ms, p95 {p95:.3g} ms, longest {most:.3g} ms, {len(taken)} requests"
    errors = dict(Counter(map(str, load.errors))) or "no errors"
    behind = f"{10 * len(batch) * len(load.taken) / seconds:,.0f} rows/s, {errors}"
    name = f"beside forty, {form.rpartition('/')[2]}, from {source}"
    print(f"{name:<50} {said}; the forty: {behind}; {max(resident) / 1e6:.0f} MB", flush=True)
    return said


def queues(process, address, batch):
    """Rows of the table: one row alone, and beside one client's forty large requests."""
    taken = single(address, batch[0])
    p50, p95, most = (1e3 * float(np.quantile(taken, at)) for at in (0.5, 0.95, 1.0))
    said = f"p50 {p50:.3g} ms, p95 {p95:.3g} ms, longest {most:.3g} ms"
    print(f"{'one row alone':<50} {said}; {memory(process) / 1e6:.0f} MB", flush=True)
    table = [["one row alone", said]]
    for form in ("application/x-npy", "application/json"):
        for source in ("127.0.0.2", "127.0.0.1"):
            said = beside_large_ones(process, address, batch, form, source)
            whose = "another" if source == "127.0.0.2" else "the same"
            name = (
                f"one row beside forty requests of 10,000 rows with trust by {whose} client, {form.rpartition('/')[2]}"
            )
            table.append([name.replace("x-npy", "npy"), said])
    return table


def main(seconds=60.0, clients=50, *, write=False, only_queues=False):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        truth, batch = prepared(folder)
        code = "from outfold.app.cli.main import main; main()"
        words = [sys.executable, "-c", code, "serve", str(folder / "m.outfold"), "--port", "0", "--quiet"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            address = process.stdout.readline().strip().removeprefix("http://")
            if only_queues:
                queues(process.pid, address, batch)
                return
            table = [["one row as JSON, one client", told("one row, JSON, one client", single(address, batch[0]))]]
            load = Load(address, batch, "application/x-npy")
            connection = http.client.HTTPConnection(address)
            connection.request("POST", "/v1/transform", load.request.partition(b"\r\n\r\n")[2],
                               {"Content-Type": "application/x-npy"})  # fmt: skip
            found = np.load(io.BytesIO(connection.getresponse().read()))
            print(f"{'npy against the library':<34} largest difference {np.abs(found - truth).max():.1e}")
            loaded(process.pid, address, batch, "application/x-npy", clients, 6.0, quiet=True)  # buffers grow
            start = memory(process.pid)
            *_, said = loaded(process.pid, address, batch, "application/x-npy", clients, seconds)
            table.append([f"1,000 rows as npy, {clients} clients, {seconds:.0f} s", said])
            held = f"{start / 1e6:.0f} MB before, {memory(process.pid) / 1e6:.0f} MB after"
            print(f"{'memory':<34} {held}")
            *_, said = loaded(process.pid, address, batch, "application/json", clients, min(seconds, 10.0))
            table += [["resident memory", held], [f"1,000 rows as JSON, {clients} clients", said]]
            for count in (clients, 1):
                rates, works = beside_the_library(process.pid, address, batch, folder, count)
                beside = f"rows a second of the library {rates:.2f} of the service's, work a row {1 / works:.2f}"
                table.append([f"library beside the service, {count} client{'s' * (count > 1)}", beside])
            table += queues(process.pid, address, batch)
        finally:
            process.terminate()
            code = process.wait(30)
        print(f"{'stopped':<34} exit code {code}")
    if write:
        pages.write("service.md", "figures", "\n".join(["| | |", "|---|---|", *(f"| {a} | {b} |" for a, b in table)]))


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if not word.startswith("--")]
    flags = {"write": "--write" in sys.argv, "only_queues": "--queues" in sys.argv}
    main(*map(float, given[:1]), *map(int, given[1:2]), **flags)
