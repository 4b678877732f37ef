"""Turns: who waits for whom. Nothing here depends on seconds: the order of the turns is what counts."""

import asyncio
import threading

import numpy as np
import pytest

import outfold
from clients import COLUMNS, PREPARATION, X, body_of, error_of, post, table_of, together
from outfold.app.service import formats, policy, service
from outfold.app.service.turns import Turns
from outfold.data.columns import Preparation


def steps_of(name, parts, log):
    """The steps of a request of so many blocks, which write what they do into the log."""
    log.append(f"{name} read")
    if parts:
        found = yield [lambda at=at: log.append(f"{name} {at}") or at for at in range(parts)]
        assert found == list(range(parts))
    return name


def order(*requests, workers=1):
    """The log of the turns of requests (client, name, blocks, short) that all wait when the first turn comes."""
    log, gate, held = [], threading.Event(), threading.Event()

    def closed():
        held.set()
        gate.wait(20)
        return
        yield

    async def go():
        turns = Turns(workers)
        first = [asyncio.create_task(turns.run("gate", closed(), short=True, wait_seconds=60))]
        await asyncio.to_thread(held.wait, 20)
        others = [
            asyncio.create_task(turns.run(client, steps_of(name, parts, log), short=short, wait_seconds=60))
            for client, name, parts, short in requests
        ]
        while turns._unfinished.total() <= len(requests):
            await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*first, *others) == [None, *(request[1] for request in requests)]
        turns.close()
        assert not turns._clients
        assert not turns._unfinished

    asyncio.run(go())
    return log


def test_another_clients_row_waits_for_one_turn_only():
    log = order(*[("ann", f"large{at}", 10, False) for at in range(40)], ("bob", "row", 0, True))
    assert len(log) == 40 * 11 + 1
    assert log.index("row read") == 1


def test_a_row_of_the_same_client_waits_for_one_turn_at_most():
    log = order(*[("ann", f"large{at}", 10, False) for at in range(40)], ("ann", "row", 0, True))
    assert log.index("row read") <= 1


def test_large_requests_get_every_other_turn_beside_small_ones():
    log = order(("ann", "large", 10, False), *[("ann", f"row{at}", 0, True) for at in range(40)])
    large = [at for at, turn in enumerate(log) if turn.startswith("large")]
    assert np.diff([-1, *large]).max() == 2
    assert [turn for turn in log if turn.startswith("row")] == [f"row{at} read" for at in range(40)]


def test_turns_go_round_the_clients():
    log = order(("ann", "a", 5, False), ("bob", "b", 5, False), ("cat", "c", 2, False))
    assert log[:9] == ["a read", "b read", "c read", "a 0", "b 0", "c 0", "a 1", "b 1", "c 1"]
    assert log[9:] == ["a 2", "b 2", "a 3", "b 3", "a 4", "b 4"]


@pytest.mark.parametrize("workers", [1, 2])
def test_few_requests_of_a_client_are_in_memory_as_numbers(workers):
    log, under_way, most = order(*[("ann", f"a{at}", 4, False) for at in range(10)], workers=workers), set(), 0
    left = {f"a{at}": 5 for at in range(10)}
    for name in (turn.partition(" ")[0] for turn in log):
        under_way.add(name)
        most = max(most, len(under_way))
        left[name] -= 1
        if not left[name]:
            under_way.remove(name)
    assert most <= workers + 1  # a block that another thread finishes is in the log first


def test_blocks_of_a_request_that_is_alone_run_at_the_same_time():
    meet = threading.Barrier(2)

    def steps():
        return sum((yield [lambda: meet.wait(20) * 0 + 1] * 2))

    async def go():
        turns = Turns(2)
        try:
            return await turns.run("ann", steps(), short=False, wait_seconds=60)
        finally:
            turns.close()

    assert asyncio.run(go()) == 2


class Full:
    """Turns whose only thread is busy until the end of the context."""

    def __init__(self):
        self.turns, self.gate = Turns(1), threading.Event()

    def _steps(self):
        self.gate.wait(20)
        return
        yield

    async def __aenter__(self):
        self.held = asyncio.create_task(self.turns.run("ann", self._steps(), short=False, wait_seconds=60))
        while self.turns._clients or not self.turns._unfinished:
            await asyncio.sleep(0)
        return self.turns

    async def __aexit__(self, *error):
        self.gate.set()
        await self.held
        self.turns.close()


def test_a_request_that_gets_no_turn_is_refused_with_the_numbers():
    log = []

    async def go():
        async with Full() as turns:
            with pytest.raises(policy.Refused) as refused:
                await turns.run("bob", steps_of("b", 2, log), short=True, wait_seconds=0.01)
            assert not turns._clients
            return refused.value

    found = asyncio.run(go())
    assert (found.status, found.headers) == (503, {"retry-after": "1"})
    assert "waited 0.01 s" in found.message
    assert "1 others are under way, 0 of them by the same client" in found.message
    assert log == []


def test_a_request_that_nobody_waits_for_gets_no_turn():
    log = []

    async def go():
        async with Full() as turns:
            late = asyncio.create_task(turns.run("bob", steps_of("b", 2, log), short=True, wait_seconds=60))
            await asyncio.sleep(0)
            late.cancel()
            with pytest.raises(asyncio.CancelledError):
                await late

    asyncio.run(go())
    assert log == []


def test_a_request_that_nobody_waits_for_any_longer_gets_no_further_turn():
    log, begun, go_on = [], threading.Event(), threading.Event()

    def steps():
        yield [begun.set, lambda: go_on.wait(20), lambda: log.append("third")]

    async def go():
        turns = Turns(1)
        task = asyncio.create_task(turns.run("ann", steps(), short=False, wait_seconds=60))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert await turns.run("ann", steps_of("b", 2, log), short=False, wait_seconds=60) == "b"
        turns.close()

    asyncio.run(go())
    assert log == ["b read", "b 0", "b 1"]


def test_the_first_error_of_a_request_is_its_answer_and_the_threads_go_on():
    log = []

    def broken():
        yield [lambda: 1 / 0, lambda: log.append("never")]

    async def go():
        turns = Turns(1)
        with pytest.raises(ZeroDivisionError):
            await turns.run("ann", broken(), short=False, wait_seconds=60)
        assert await turns.run("ann", steps_of("b", 2, log), short=False, wait_seconds=60) == "b"
        turns.close()

    asyncio.run(go())
    assert log == ["b read", "b 0", "b 1"]


# -- in the service ------------------------------------------------------------------------


@pytest.fixture
def estimator():
    return outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200]))


def started(monkeypatch, estimator, rows, **settings):
    """A service whose turns embed so many rows."""
    monkeypatch.setattr(service, "TURN_ROWS_UP_TO", rows)
    return service.Service(estimator, PREPARATION, **settings)


@pytest.mark.parametrize("form", formats.MEDIA_TYPES)
def test_blocks_of_rows_give_the_answer_of_the_whole(monkeypatch, estimator, form):
    monkeypatch.setattr(formats, "PART_CELLS", 50)
    found = started(monkeypatch, estimator, 7)
    try:
        app, points = service.application(found, port=8765), PREPARATION.apply(X)
        answers = [post(app, "/v1/transform?trust=true", X, form=form) for _ in range(2)]
        assert answers[0].content == answers[1].content
        table, trust = table_of(answers[0]), estimator.trust(points)
        positions = np.column_stack([table[name] for name in found.coordinates])
        np.testing.assert_allclose(positions, estimator.transform(points), rtol=0, atol=1e-12)
        assert table["outside"].astype(bool).tolist() == trust.flag.tolist()
        np.testing.assert_allclose(np.array(table["p_value"], float), trust.p_value, rtol=0, atol=1e-12)
        back = table_of(post(app, "/v1/inverse", positions, form=form, names=found.coordinates))
        truth = PREPARATION.undo(estimator.inverse_transform(positions))
        np.testing.assert_allclose(np.column_stack([back[name] for name in COLUMNS]), truth, rtol=0, atol=1e-11)
    finally:
        found.close()


def test_rows_that_depend_on_each_other_are_one_block(monkeypatch):
    extension = outfold.extensions.LeastSquares(degrees="joint")
    maps = outfold.DiffusionMaps(2, coordinates="canonical", extension=extension, random_state=0).fit(X[:100])
    monkeypatch.setattr(service, "TURN_ROWS_UP_TO", 7)
    found = service.Service(maps, Preparation(columns=COLUMNS))
    try:
        answer = post(service.application(found, port=8765), "/v1/transform", X[100:150])
        truth, parts = maps.transform(X[100:150], on_far="keep"), maps.transform(X[100:107], on_far="keep")
        np.testing.assert_allclose(answer.json()["embedding"], truth, rtol=0, atol=1e-12)
        assert np.abs(parts - truth[:7]).max() > 1e-6
    finally:
        found.close()


@pytest.mark.parametrize("client", ["10.0.0.1", "10.0.0.2"])
def test_a_row_is_answered_before_forty_large_requests_of_a_client(monkeypatch, estimator, client):
    found, log, gate = started(monkeypatch, estimator, 20, workers=1), [], threading.Event()
    embed = found._embed

    def watched(points, ask):
        assert gate.wait(20)
        log.append(len(points))
        return embed(points, ask)

    def asked(client, values, path):
        headers = {"content-type": formats.NPY, "x-forwarded-for": f"spoofed, {client}"}
        return (("POST", path), {"content": body_of(formats.NPY, values), "headers": headers})

    monkeypatch.setattr(found, "_embed", watched)
    monkeypatch.setattr(service.Turns, "_put", opening(service.Turns._put, gate, found.turns, 41))
    app = service.application(found, port=8765, client_header="X-Forwarded-For")
    large = [asked("10.0.0.1", np.vstack([X] * 2), "/v1/transform?trust=true")] * 40
    try:
        answers = together(app, *large, asked(client, X[:1], "/v1/transform"))
    finally:
        found.close()
    assert [answer.status_code for answer in answers] == [200] * 41
    assert len(log) == 40 * 24 + 1
    assert log.index(1) <= 2


def opening(put, gate, turns, count):
    """``Turns._put`` that opens the gate when so many requests are there."""

    def put_and_open(self, job, *, first):
        put(self, job, first=first)
        if self is turns and self._unfinished.total() == count:
            gate.set()

    return put_and_open


def test_a_request_that_waits_too_long_gets_503(monkeypatch, estimator):
    found, gate = started(monkeypatch, estimator, 20, workers=1), threading.Event()
    embed = found._embed
    monkeypatch.setattr(found, "_embed", lambda points, ask: gate.wait(20) and embed(points, ask))
    app = service.application(found, port=8765, limits=policy.Limits(wait_seconds=0.05))
    give_up = found.turns._give_up

    def refuse(*words):
        give_up(*words)
        gate.set()

    monkeypatch.setattr(found.turns, "_give_up", refuse)
    sent = {"content": body_of(formats.NPY, X[:1]), "headers": {"content-type": formats.NPY}}
    try:
        first, second = together(app, *[(("POST", "/v1/transform"), sent)] * 2)
    finally:
        found.close()
    refused, answered = sorted((first, second), key=lambda answer: answer.status_code, reverse=True)
    assert answered.status_code == 200
    assert "waited 0.05 s without a turn: 1 others are under way" in error_of(refused, 503)
    assert refused.headers["retry-after"] == "1"
