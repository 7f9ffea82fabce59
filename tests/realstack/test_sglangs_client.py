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
ALONE = Shape(input_tokens=1408, output_tokens=64, concurrency=1, requests=12)
"""Of a length whose answers are text from the first token on: after others this model begins in the middle of
a character, which SGLang holds back to the end. A TTFT of sglang's holds its connecting, of nearly a
millisecond: the prompts are long enough for that, too."""
EXPERIMENTS = 2
TURNS = 5
"""Of each client in each of the five."""
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
    """A true difference shows in both experiments; chance makes one of some twenty exceed what is close."""
    found = (ratios_of_medians(stack, port, sglangs_client) for _ in range(EXPERIMENTS))
    told: list[dict[str, float]] = []
    for ratios in found:
        told.append(ratios)
        if all(ratio == pytest.approx(1.0, abs=CLOSE) for ratio in ratios.values()):
            return
    raise AssertionError(told)


def ratios_of_medians(stack: RealStack, port: int, sglangs_client: Client) -> dict[str, float]:
    """Ours to theirs, with one request at a time: with more, figures hang on which of them meet.

    The speed of a shared machine drifts by a tenth within a minute, and two cores give a process that has
    just been started its place by chance. So each of the five is the mean of short turns that are spread over
    the whole time, and the clients take turns in the order A B B A.
    """
    ours: list[list[Figures]] = [[] for _ in range(TIMES)]
    theirs: list[list[Figures]] = [[] for _ in range(TIMES)]
    for number in range(TIMES * TURNS):
        turns = [(ours, by_generator), (theirs, sglangs_client)]
        for found, client in turns if number % 2 == 0 else reversed(turns):
            found[number % TIMES].append(measured(client, stack, port))
    return {name: median_of_means(ours, name) / median_of_means(theirs, name) for name in COMPARED}


def median_of_means(found: list[list[Figures]], name: str) -> float:
    return median(fmean(turn[name] for turn in turns) for turns in found)


def measured(client: Client, stack: RealStack, port: int) -> Figures:
    """A turn of one client, on a server that is as it was before every other turn."""
    stack.flush_caches()
    found = client(ALONE, port)
    see_it_whole(found, ALONE)
    return found


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
