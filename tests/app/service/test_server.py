"""The server: addresses that cannot be had."""

import socket

import pytest

import outfold
from clients import PREPARATION, X, serving
from outfold.app.service import policy, server, service


@pytest.fixture(scope="module")
def served():
    yield from serving(outfold.ClassicalMDS(2).fit(PREPARATION.apply(X[:50])))


def test_an_address_that_is_taken_is_named(served):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}"):
            server.run(service.application(served), "127.0.0.1", port)


def test_a_host_that_is_not_this_machine_is_told_in_words():
    app = policy.Guard([], host="nowhere.invalid", port=0, token="t")
    with pytest.raises(OSError, match=r"nowhere\.invalid is no address of this machine .*127\.0\.0\.1"):
        server.run(app, "nowhere.invalid", 0)
