"""Requests drawn by a seed, to the service and to the page: the numbers of the library, or a refusal in words."""

import pytest

from fuzz import requests, seeds

FEW = {"good_requests": 150, "bad_requests": 800, "mutated_bodies": 400, "page_requests": 150, "wires": 120}
MANY = 20  # times as many in the second tier


@pytest.fixture(scope="module")
def service():
    served = requests.serve()
    yield served
    served.close()


@pytest.fixture(scope="module")
def page():
    served = requests.serve_page()
    yield served
    served.close()


@pytest.fixture(scope="module")
def wire():
    served = requests.serve()
    with requests.listening(served):
        yield served
    served.close()


def fuzz(law, seed, served, count):
    seen = seeds.run(law, seed, count, served)
    (requests.assert_listens if law is requests.wires else requests.assert_serves)(served)
    assert len(seen) > 2 or not seeds.is_whole(seed)


@seeds.each_seed
@pytest.mark.parametrize(
    "law", [requests.good_requests, requests.bad_requests, requests.mutated_bodies], ids=lambda law: law.__name__
)
def test_requests_get_the_numbers_of_the_library_or_a_refusal(law, seed, service):
    fuzz(law, seed, service, FEW[law.__name__])


@seeds.each_seed
def test_requests_of_browsers_get_their_page_or_a_refusal(seed, page):
    seeds.run(requests.page_requests, seed, FEW["page_requests"], page)


@seeds.each_seed
def test_bytes_on_a_connection_get_their_answers_or_a_refusal(seed, wire):
    fuzz(requests.wires, seed, wire, FEW["wires"])


@pytest.mark.slow
@seeds.each_seed
@pytest.mark.parametrize(
    "law", [requests.good_requests, requests.bad_requests, requests.mutated_bodies], ids=lambda law: law.__name__
)
def test_many_requests_get_the_numbers_of_the_library_or_a_refusal(law, seed, service):
    fuzz(law, seed, service, MANY * FEW[law.__name__])


@pytest.mark.slow
@seeds.each_seed
def test_many_requests_of_browsers_get_their_page_or_a_refusal(seed, page):
    seeds.run(requests.page_requests, seed, MANY * FEW["page_requests"], page)


@pytest.mark.slow
@seeds.each_seed
def test_many_connections_get_their_answers_or_a_refusal(seed, wire):
    fuzz(requests.wires, seed, wire, MANY * FEW["wires"])
