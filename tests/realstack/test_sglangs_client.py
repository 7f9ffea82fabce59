"""The console's load generator beside sglang's own client: the same load of a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean, median
from typing import NamedTuple

import pytest

from tests.realstack.relay import Relay
from tests.realstack.stack import RealStack
from tests.realstack.two_clients import Figures, SglangsClient, Shape, by_generator

pytestmark = pytest.mark.realstack

TIMES = 5
CLOSE = 0.05
TTFT = "median_ttft_ms"
COMPARED = ("output_throughput", TTFT, "median_tpot_ms")
CLOSE_MS = 3.0
"""Of a TTFT of 20 ms, 5 % are less than what a client takes to connect."""
ALONE = Shape(input_tokens=256, output_tokens=64, concurrency=1, requests=36)
TOGETHER = Shape(input_tokens=256, output_tokens=64, concurrency=4, requests=24)

Client = Callable[[Shape, int], Figures]


@pytest.fixture(scope="module")
def sglangs_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with SglangsClient(tmp_path_factory.mktemp("client")) as client:
        yield client.measure


def test_medians_on_a_single_server(single: RealStack, sglangs_client: Client) -> None:
    see_the_same_medians(single, single.ports.single, sglangs_client)


def test_medians_on_a_pair(real_stack: RealStack, sglangs_client: Client) -> None:
    see_the_same_medians(real_stack, real_stack.ports.router, sglangs_client)


def see_the_same_medians(stack: RealStack, port: int, sglangs_client: Client) -> None:
    """Interleaved, with one request at a time: with more, their figures hang on which of them meet.

    The speed of a shared machine drifts by a tenth within a minute; a round in the order A B B A cancels it.
    """
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for number in range(TIMES):
        clients = [(ours, by_generator), (theirs, sglangs_client)]
        first, second = clients if number % 2 == 0 else reversed(clients)
        found = [measured(client, stack, port) for _, client in (first, second, second, first)]
        first[0].append(mean_of(found[0], found[3]))
        second[0].append(mean_of(found[1], found[2]))
    for name in COMPARED:
        ratio = median(each[name] for each in ours) / median(each[name] for each in theirs)
        assert ratio == pytest.approx(1.0, abs=CLOSE), (name, ratio, ours, theirs)


def measured(client: Client, stack: RealStack, port: int) -> Figures:
    """A turn of one client, on a server that is as it was before every other turn."""
    stack.flush_caches()
    found = client(ALONE, port)
    see_it_whole(found, ALONE)
    return found


def mean_of(a: Figures, b: Figures) -> Figures:
    return {name: fmean((a[name], b[name])) for name in COMPARED}


def see_it_whole(found: Figures, shape: Shape) -> None:
    """Every request succeeded, and had all of its tokens."""
    assert found["completed"] == shape.requests
    assert found["total_input_tokens"] == shape.requests * shape.input_tokens
    assert found["total_output_tokens"] == shape.requests * shape.output_tokens


def test_both_see_what_passes_between_them_and_a_single_server(
    single: RealStack, sglangs_client: Client
) -> None:
    see_what_passes(single.ports.single, sglangs_client)


def test_both_see_what_passes_between_them_and_a_pair(real_stack: RealStack, sglangs_client: Client) -> None:
    see_what_passes(real_stack.ports.router, sglangs_client)


def see_what_passes(port: int, sglangs_client: Client) -> None:
    """With several requests at a time each client is held against what has passed in its own turn."""
    ours: list[Turn] = []
    theirs: list[Turn] = []
    for number in range(TIMES):
        turns = [(ours, by_generator), (theirs, sglangs_client)]
        for found, measure in turns if number % 2 == 0 else reversed(turns):
            found.append(against_the_relay(measure, port))
    for name in COMPARED:
        ratio = median(each.share(name) for each in ours) / median(each.share(name) for each in theirs)
        apart = abs(median(each.more(name) for each in ours) - median(each.more(name) for each in theirs))
        close = ratio == pytest.approx(1.0, abs=CLOSE) or (name == TTFT and apart < CLOSE_MS)
        assert close, (name, ratio, apart, ours, theirs)


class Turn(NamedTuple):
    """What a client says of one load, and what has passed between it and the server."""

    said: Figures
    passed: Figures

    def share(self, name: str) -> float:
        return float(self.said[name] / self.passed[name])

    def more(self, name: str) -> float:
        return float(self.said[name] - self.passed[name])


def against_the_relay(measure: Client, port: int) -> Turn:
    """One client's turn."""
    with Relay(port) as relay:
        said = measure(TOGETHER, relay.port)
        passed = relay.figures(of=TOGETHER.output_tokens)
    see_it_whole(said, TOGETHER)
    assert passed["completed"] == TOGETHER.requests
    return Turn({name: said[name] for name in COMPARED}, passed)
