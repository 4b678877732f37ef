"""The policy: who may ask, how much and how long, on every route."""

import asyncio
import logging

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import outfold
from clients import PREPARATION, X, ask, error_of, serving, together
from outfold.app.service import policy, service

TOKEN = "a-token-that-nobody-knows"


@pytest.fixture(scope="module")
def served():
    yield from serving(outfold.ClassicalMDS(2).fit(PREPARATION.apply(X[:50])))


@pytest.fixture
def app(served):
    return service.application(served, port=8765)


def test_every_route_of_an_open_address_needs_the_token(served):
    app = service.application(served, host="0.0.0.0", port=8765, token=TOKEN)
    base = "http://192.168.1.7:8765"
    routes = [(method, path) for path, method, _ in served._paths()]
    for method, path in [*routes, ("GET", "/nothing"), ("OPTIONS", "/health"), ("HEAD", "/"), ("PUT", "/v1/model")]:
        for sent in (
            None,
            "",
            "Bearer",
            "Bearer ",
            f"Basic {TOKEN}",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            "Bearer \xe4",
            TOKEN,
        ):
            headers = {} if sent is None else {"authorization": sent.encode("latin-1")}
            answer = ask(app, method, path, base=base, headers=headers, content=b"x" * 99)
            assert answer.status_code == 401, (method, path, sent)
            assert answer.headers["www-authenticate"] == "Bearer"
        answer = ask(app, method, path, base=base, headers={"authorization": f"bearer {TOKEN}"})
        assert answer.status_code not in (401, 403)
    twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
    assert ask(app, "GET", "/health", base=base, headers=twice).status_code == 401


def test_an_open_address_without_a_token_cannot_be_made(served):
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"):
        with pytest.raises(ValueError, match="token"):
            service.application(served, host=host, port=8765)
    for token in ("", "two words", "ümlaut", "x" * 513):
        with pytest.raises(ValueError, match="visible"):
            service.application(served, host="0.0.0.0", port=8765, token=token)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765", "127.8.9.1:8765"])
def test_names_of_this_machine_are_served(app, host):
    for origin in ({}, {"origin": f"http://{host}"}):
        assert ask(app, "GET", "/health", headers={"host": host, **origin}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.com", "evil.com:8765", "127.0.0.1",
     "127.0.0.1:80", "127.0.0.1:8766", "localhost.evil.com:8765", "x@127.0.0.1:8765",
     "127.0.0.1:8765@evil.com", "127.1:8765", "2130706433:8765", "192.168.1.7:8765", "localhost.:8765", "", "[::]:8765",
     "127.0.0.1:8765, evil.com", "127.0.0.1:8765/", "[::1:8765", "0.0.0.0:8765"],
)  # fmt: skip
def test_a_rebound_name_is_refused_on_every_route(app, served, host):
    for path, method, _ in served._paths():
        assert error_of(ask(app, method, path, headers={"host": host}), 403)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.com", "null", "https://127.0.0.1:8765", "http://127.0.0.1", "http://localhost:8765", "", "file://"],
)
def test_other_origins_are_refused_and_nothing_is_said_to_them(app, served, origin):
    for path, method, _ in served._paths():
        answer = ask(app, method, path, headers={"origin": origin})
        assert error_of(answer, 403)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_address_is_served_by_its_own_names(served):
    sent = {"authorization": f"Bearer {TOKEN}"}

    def status(name, **settings):
        app = service.application(served, port=8765, token=TOKEN, **settings)
        return ask(app, "GET", "/health", headers={"host": name, **sent}).status_code

    assert status("192.168.1.7:8765", host="192.168.1.7") == 200
    assert status("192.168.1.8:8765", host="192.168.1.7") == 403
    assert status("box.example.org:8765", host="box.example.org") == 200
    assert status("192.168.1.7:8765", host="0.0.0.0") == 200
    assert status("evil.com:8765", host="0.0.0.0") == 403
    assert status("models.example.org", host="0.0.0.0", names=["models.example.org"]) == 200
    sent["origin"] = "https://models.example.org"
    assert status("models.example.org", host="0.0.0.0", names=["models.example.org"]) == 200
    assert status("192.168.1.7:8765", host="0.0.0.0", names=["models.example.org"]) == 403


def test_answers_carry_security_headers(app):
    for answer in (
        ask(app, "GET", "/health"),
        ask(app, "GET", "/nothing"),
        ask(app, "GET", "/", headers={"host": "x"}),
    ):
        for name, value in policy.SECURITY.items():
            assert answer.headers[name] == value


def guarded(endpoint, **limits):
    return policy.Guard(
        [Route("/", endpoint, methods=["GET", "POST"])], host="127.0.0.1", port=8765, limits=policy.Limits(**limits)
    )


async def length(request):
    return PlainTextResponse(str(len(await request.body())))


def test_bodies_are_limited_whether_told_or_not():
    app = guarded(length, body_bytes=100)

    async def parts(count):
        for _ in range(count):
            yield b"x" * 10

    assert ask(app, "POST", "/", content=b"x" * 100).text == "100"
    assert ask(app, "POST", "/", content=parts(10)).text == "100"
    assert error_of(ask(app, "POST", "/", content=b"x" * 101), 413)
    assert error_of(ask(app, "POST", "/", content=parts(11)), 413)
    assert error_of(ask(app, "POST", "/", content=b"x", headers={"content-length": "9" * 50}), 413)
    assert error_of(ask(guarded(length, held_bytes=50), "POST", "/", content=b"x" * 51), 503)
    assert not app._held


def test_a_body_that_does_not_arrive_is_refused(app):
    async def never():
        yield b"{"
        await asyncio.sleep(60)

    app = guarded(length, body_seconds=0.05)
    assert error_of(ask(app, "POST", "/", content=never()), 408)
    assert not app._held


def test_too_many_at_a_time_are_sent_away():
    async def slow(request):
        await asyncio.sleep(0.3)
        return PlainTextResponse("done")

    app = guarded(slow, requests=3)
    answers = together(app, *[(("POST", "/"), {"content": b"x"})] * 8)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 5
    assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 503)
    assert ask(app, "POST", "/", content=b"x").status_code == 200
    assert error_of(ask(guarded(slow, answer_seconds=0.05), "GET", "/"), 503)


@pytest.mark.parametrize("limit", [{"client_requests": 2}, {"client_bytes": 20}])
def test_one_client_leaves_room_for_others(limit):
    async def slow(request):
        await asyncio.sleep(0.3)
        return PlainTextResponse(request.state.client)

    route = [Route("/", slow, methods=["POST"])]
    limits = policy.Limits(**limit)
    app = policy.Guard(route, host="127.0.0.1", port=8765, limits=limits, client_header="X-Forwarded-For")
    named = ["a, ann"] * 4 + ["ann, bob"] * 2  # a proxy adds to what its client claims
    sent = [(("POST", "/"), {"content": b"x" * 10, "headers": {"x-forwarded-for": name}}) for name in named]
    answers = together(app, *sent)
    assert [answer.status_code for answer in answers] == [200, 200, 503, 503, 200, 200]
    assert [answer.text for answer in answers if answer.status_code == 200] == ["ann", "ann", "bob", "bob"]
    assert "this client" in error_of(answers[2], 503)
    assert not app._held
    assert not app._requests


def test_a_header_that_no_proxy_sets_names_nobody():
    async def told(request):
        return PlainTextResponse(request.state.client)

    route = [Route("/", told, methods=["GET"])]
    sent = {"headers": {"x-forwarded-for": "ann"}}
    for settings, name in (({}, "127.0.0.1"), ({"client_header": "x-forwarded-for"}, "ann")):
        assert ask(policy.Guard(route, host="127.0.0.1", port=8765, **settings), "GET", "/", **sent).text == name


def test_what_goes_wrong_here_is_logged_and_not_told(caplog):
    async def broken(request):
        raise KeyError("/home/ann/secret")

    with caplog.at_level(logging.ERROR):
        answer = ask(guarded(broken), "GET", "/")
    assert "ann" not in error_of(answer, 500)
    assert "/home/ann/secret" in caplog.text


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="body_bytes"):
        policy.Limits(body_bytes=0)


def test_sockets_of_other_kinds_are_closed(app):
    sent = []

    async def go():
        async def send(message):
            sent.append(message)

        await app({"type": "websocket"}, None, send)

    asyncio.run(go())
    assert sent == [{"type": "websocket.close", "code": 1008}]
