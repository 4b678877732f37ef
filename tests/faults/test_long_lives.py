"""Processes that live long: after many requests, fits and loads they hold what they held after a few.

The short tests count what Python holds, which an object forgotten each time would raise. The long ones (second tier)
watch the resident memory, which also grows by what is not Python's.
"""

import gc
import http.client
import itertools
import os
import pathlib
import socket
import sys
import threading

import numpy as np
import pytest

import outfold
from catalogue import quietly
from clients import COLUMNS, PREPARATION, Server, X, ask, body_of, together
from outfold import methods, storage
from outfold.app.service import formats, policy, service

METHODS = [name for name in methods.__all__ if name not in ("GRAE", "DiffusionNet")]
SMALL = X[:60]


def held():
    """Objects and blocks that Python holds, threads and open files."""
    for _ in range(3):
        gc.collect()
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return np.array([len(gc.get_objects()), sys.getallocatedblocks(), threading.active_count(), files])


def growth(work, times, *, warm, watch=lambda number: None):
    """How much is held more after ``work`` has been called so many times, by kind; ``warm`` calls come before."""
    for number in range(warm):
        work(number)
    before = held()
    for number in range(warm, warm + times):
        work(number)
        watch(number)
    return held() - before


def check_flat(grown, times):
    """Refuse one object more for every fifth call, some blocks more for each, and any thread or file more."""
    objects, blocks, threads, files = grown
    assert objects < times / 5, f"{objects} objects more after {times} calls"
    assert blocks < 8 * times, f"{blocks} blocks more after {times} calls"  # tables of Python's own grow now and then
    assert (threads, files) <= (0, 0)


def resident(process="self"):
    """Bytes of a process in memory."""
    path = pathlib.Path(f"/proc/{process}/status")
    if not path.exists():
        pytest.skip("/proc says how much memory a process has; this system has none")
    return 1024 * int(next(line.split()[1] for line in path.read_text().splitlines() if line.startswith("VmRSS")))


def check_trend(sizes):
    """Refuse resident memory whose line through the second half rises by more than 2 % of it, or by 5 MB."""
    later = np.array(sizes[len(sizes) // 2 :], float)
    slope = np.polyfit(np.arange(len(later)), later, 1)[0]
    assert slope * len(later) < max(5e6, 0.02 * later.mean()), [round(size / 1e6) for size in sizes]


# -- requests ------------------------------------------------------------------------------


def mixed(count):
    """Requests of every kind, one after another: method, path and settings; good and bad."""
    for number in range(count):
        form = formats.MEDIA_TYPES[number % 3]
        path = ("/v1/transform", "/v1/transform?trust=true", "/v1/trust", "/v1/inverse")[number // 3 % 4]
        names = COLUMNS if "inverse" not in path else ("diffusionmaps0", "diffusionmaps1", "diffusionmaps2")
        yield "POST", path, form, body_of(form, X[: 1 + 37 * number % 200], names)
        if number % 4 == 0:
            yield "POST", path, form, b"{" * (1 + number % 50)
            yield "POST", path + "?x=y", form, b"x"
            yield "POST", path, "text/plain", b"x"
            yield "GET", ("/v1/model", "/metrics", "/health", "/nothing")[number // 4 % 4], form, b""


def test_a_service_holds_nothing_of_answered_requests(monkeypatch):
    monkeypatch.setattr(service, "TURN_ROWS_UP_TO", 50)
    estimator = quietly(outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200])).calibrate, folds=3)
    found = service.Service(estimator, PREPARATION, most_rows=500, workers=2)
    app = service.application(found, port=8765)
    requests = [
        ((method, path), {"content": body, "headers": {"content-type": form}}) for method, path, form, body in mixed(24)
    ]

    def work(number):
        seen = {answer.status_code for answer in together(app, *requests)}
        assert seen >= {200, 400, 404, 415}
        assert 500 not in seen

    try:
        grown = growth(work, 6, warm=4)
        assert not app._held
        assert not app._requests
        assert not found.turns._clients
        assert not found.turns._unfinished
        check_flat(grown, 6 * len(requests))
    finally:
        found.close()


def test_a_service_holds_nothing_of_requests_that_were_given_up():
    estimator = outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200]))
    found, gate = service.Service(estimator, PREPARATION, workers=1), threading.Event()
    embed = found._embed
    found._embed = lambda points, ask: gate.wait(20) and embed(points, ask)
    app = service.application(found, port=8765, limits=policy.Limits(answer_seconds=0.05))
    sent = {"content": body_of(formats.NPY, X[:9]), "headers": {"content-type": formats.NPY}}

    def work(number):
        gate.clear()
        answers = together(app, *[(("POST", "/v1/transform"), sent)] * 5)
        assert {answer.status_code for answer in answers} == {503}
        gate.set()
        while ask(app, "POST", "/v1/transform", **sent).status_code != 200:
            pass

    try:
        check_flat(growth(work, 8, warm=4), 8 * 6)
        assert not found.turns._clients
        assert not found.turns._unfinished
    finally:
        found.close()


def serve_long(folder, stop, watch):
    """Send requests of every kind to a process, with and without an end, until ``stop(number)``."""
    path = folder / "m.outfold"
    estimator = quietly(outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200])).calibrate, folds=3)
    storage.save(estimator, path, preparation=PREPARATION)
    server, number = Server(path, folder), 0
    connection = http.client.HTTPConnection(server.host, int(server.port), timeout=60)
    requests = [*mixed(48), *(("POST", path, form, body_of(form, np.tile(X, (20, 1)))) for form in formats.MEDIA_TYPES
                              for path in ("/v1/transform", "/v1/transform?trust=true"))]  # fmt: skip
    try:
        for method, path, form, body in itertools.cycle(requests):
            if stop(number):
                return number
            if number % 10 == 0:  # a client that leaves before, within and after its request
                request = server.post(body, path)
                with server.connect() as leaving:
                    leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    leaving.sendall(request[: (1, len(request) // 2, len(request))[number // 10 % 3]])
            connection.request(method, path, body, {"Content-Type": form})
            answer = connection.getresponse()
            answer.read()
            assert answer.status < 500
            if answer.will_close:
                connection.close()
            number += 1
            watch(number, server.process.pid)
    finally:
        connection.close()
        assert "Traceback" not in server.stop()


@pytest.mark.slow
def test_the_memory_of_a_service_stays_flat(tmp_path):
    sizes = []

    def watch(number, process):
        if number % 100 == 0:
            sizes.append(resident(process))

    serve_long(tmp_path, lambda number: number == 6000, watch)
    check_trend(sizes)


# -- fits and loads ------------------------------------------------------------------------


def fit_each(number):
    """Fit and use the next method."""
    name = METHODS[number % len(METHODS)]
    model = quietly(getattr(outfold, name)(2).fit, SMALL + 1e-3 * number)
    quietly(model.transform, X[60:70])
    quietly(model.trust, X[60:70])
    if number // len(METHODS) % 4 == 0:
        quietly(model.inverse_transform, model.embedding_[:5])


def load_each(paths, number):
    """Load and use the next model."""
    model = outfold.load(paths[number % len(paths)])
    quietly(model.transform, X[60:70])
    quietly(model.trust, X[60:70])


@pytest.fixture
def saved(tmp_path):
    """A file of each method."""
    paths = [tmp_path / f"{name}.outfold" for name in METHODS]
    for name, path in zip(METHODS, paths):
        quietly(getattr(outfold, name)(2).fit, SMALL).save(path)
    return paths


def test_fits_leave_nothing_behind():
    times = 4 * len(METHODS)
    check_flat(growth(fit_each, times, warm=times), times)


def test_loads_leave_nothing_behind(saved):
    times = 4 * len(METHODS)
    check_flat(growth(lambda number: load_each(saved, number), times, warm=times), times)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fits", "loads"])
def test_the_memory_of_many_fits_and_loads_stays_flat(saved, kind):
    sizes = []

    def watch(number):
        if number % 20 == 0:
            sizes.append(resident())

    work = fit_each if kind == "fits" else lambda number: load_each(saved, number)
    check_flat(growth(work, 1200, warm=200, watch=watch), 1200)
    check_trend(sizes)
