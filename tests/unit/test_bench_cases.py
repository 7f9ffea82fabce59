"""Hard cases of benchmarks (F06 to F13): streams at known times, through a request of the load generator.

The clock is the test's own, so that every time is exact whatever else the machine does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate, pairwise
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from console.agent import loadrequest
from console.agent.loadrequest import Endpoint, Flight
from console.domain.bench.client_limits import client_limits, in_flight
from console.domain.bench.comparability import differs
from console.domain.bench.figures import figures
from console.domain.bench.load import LoadDone, RequestTiming
from console.domain.bench.spreads import spread, tail
from tests.unit.bench_results import in_turn, request, result
from tests.unit.streaming_server import DONE, event, text, usage

SPEC = {"url": "http://127.0.0.1:9/v1/completions", "model": "m", "output_tokens": 16}

Read = tuple[float, bytes | str | Exception]
"""When a read ends, and what it has read."""


class Stream(httpx.AsyncByteStream):
    """An answer whose every read sets the clock."""

    def __init__(self, clock: list[float], reads: Sequence[Read]) -> None:
        self._clock = clock
        self._reads = reads

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at, data in self._reads:
            self._clock[0] = at
            if isinstance(data, Exception):
                raise data
            yield data.encode() if isinstance(data, str) else data


class Flown:
    """Sends requests one after the other, each at the time that it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock = [0.0]
        monkeypatch.setattr(loadrequest, "time", SimpleNamespace(monotonic=lambda: self._clock[0]))

    async def __call__(
        self, *reads: Read, sent: float = 0.0, status: int = 200, index: int = 0
    ) -> RequestTiming:
        self._clock[0] = sent
        endpoint = Endpoint(SPEC)
        answer = httpx.MockTransport(lambda _: httpx.Response(status, stream=Stream(self._clock, reads)))
        async with endpoint.client, httpx.AsyncClient(transport=answer) as client:
            endpoint.client = client
            flight = Flight(index, lambda _: None, lambda _: None)
            await flight.fly(endpoint, "a prompt")
        told = flight.answer.timing()
        return msgspec.convert(told | {"chunks": tuple(flight.answer.chunks)}, RequestTiming)


@pytest.fixture
def flown(monkeypatch: pytest.MonkeyPatch) -> Flown:
    return Flown(monkeypatch)


def delta(finish: str | None = None, **content: Any) -> str:
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": finish}]})


class TestFirstToken:
    """F06."""

    async def test_the_first_token_of_any_kind_starts_the_clock_and_nothing_else(self, flown: Flown) -> None:
        timing = await flown(
            (0.020, ": keep-alive\n\n"),
            (0.031, delta(role="assistant", content="")),
            (0.912, delta(content=None, reasoning_content="First")),
            (0.930, delta(reasoning_content=" think")),
            (4.100, delta(content="Paris")),
            (4.118, delta("stop")),
            (4.119, usage(14, 180)),
            (4.120, DONE),
        )
        assert timing.ok
        assert (timing.ttft, timing.chunks) == (0.912, (0.912, 0.930, 4.100))
        assert (timing.prompt_tokens, timing.completion_tokens, timing.finish_reason) == (14, 180, "stop")
        tpot = figures([timing]).tpot_ms.median
        assert tpot is not None
        assert 1000 / tpot == pytest.approx(56, abs=0.5)

    def test_a_ttft_of_0_is_told_and_keeps_a_result_from_every_comparison(self) -> None:
        zero = result(in_turn(12, first=0.0))
        assert zero.figures.ttft_ms.median == 0.0
        assert differs(result(), zero) == ["B has a TTFT of 0, which no server has"]


class TestBundles:
    """F07."""

    READS: tuple[Read, ...] = (
        (0.500, text("The quick brown fox")),
        (0.540, text(" jumps over the lazy")),
        (0.580, text(" dog near the river")),
        (0.620, text(" bank", "length")),
        (0.621, usage(8, 13) + DONE),
    )

    async def test_tokens_are_those_of_usage_and_gaps_those_of_chunks(self, flown: Flown) -> None:
        timing = await flown(*self.READS)
        found = figures([timing])
        assert (len(timing.chunks), found.total_output_tokens, found.tokens_estimated) == (4, 13, False)
        assert (found.itl_is_per_chunk, found.itl_ms.n) == (True, 3)
        assert found.itl_ms.mean == pytest.approx(40.0)
        # From the first chunk to the end, as sglang's client has it: 121 ms, not 120.
        assert found.tpot_ms.median == pytest.approx(121 / 12)
        assert found.max_output_tokens_per_s is not None
        assert found.max_output_tokens_per_s >= found.output_throughput

    async def test_without_usage_tokens_are_estimated_and_nothing_is_compared_with_them(
        self, flown: Flown
    ) -> None:
        timing = await flown(*self.READS[:-1], (0.621, DONE))
        assert figures([timing]).tokens_estimated
        estimated = result([msgspec.structs.replace(each, completion_tokens=None) for each in in_turn(12)])
        assert differs(estimated, result()) == ["the tokens of A are estimated: some answer had no usage"]


EVENTS = (
    b'data: {"choices":[{"text":"\xc3\xa9"}]}\n\n',
    b'data: {"choices":[{"text":"caf\xc3\xa9"}]}\r\n\r\n',
    b'data:{"choices":[{"text":"x"}]}\n\n',
    b"data: [DONE]\n\n",
)
STREAM = b"".join(EVENTS)
FIRST, SECOND, THIRD, _ = accumulate(map(len, EVENTS))
"""Where each event with text ends."""


class TestReads:
    """F08."""

    def reads(self, *ends: int) -> list[Read]:
        """The stream cut there; the first read ends at 1.0, the next at 2.0, and so on."""
        edges = [0, *ends, len(STREAM)]
        pieces = [STREAM[a:b] for a, b in pairwise(edges)]
        return [(float(number), piece) for number, piece in enumerate(pieces, 1)]

    async def test_an_event_is_of_the_time_of_the_read_that_completes_it(self, flown: Flown) -> None:
        inside_json, inside_character = FIRST + 20, SECOND - 9
        timing = await flown(*self.reads(inside_json, inside_character, SECOND + 4, THIRD + 7))
        assert timing.ok
        assert (timing.chunks, timing.ended) == ((1.0, 3.0, 4.0), 5.0)

    @pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
    async def test_any_cut_gives_the_same_chunks(self, flown: Flown, step: int) -> None:
        timing = await flown(*self.reads(*range(step, len(STREAM), step)))
        places = (FIRST, SECOND, THIRD)
        assert timing.chunks == tuple(float(math.ceil(place / step)) for place in places)


QUEUE_FULL = {"object": "error", "message": "The request queue is full.", "code": 503}


class TestAborts:
    """F09."""

    @pytest.mark.parametrize(
        ("reads", "kind", "reason"),
        [
            (
                [(0.1, text("a")), (0.2, text("", "abort")), (0.3, DONE)],
                "aborted",
                "the server aborted it (after 1 chunks with text)",
            ),
            (
                [(0.1, event({"error": QUEUE_FULL})), (0.2, DONE)],
                "rejected",
                "The request queue is full. (code 503)",
            ),
            (
                [(0.1, text("a")), (0.2, httpx.RemoteProtocolError("peer closed connection"))],
                "cut off",
                "the connection broke off: peer closed connection",
            ),
            ([(0.1, text("a"))], "cut off", "the stream ended without [DONE] (after 1 chunks with text)"),
            ([(0.1, DONE)], "empty", "the stream ended without any text"),
        ],
    )
    async def test_http_200_is_no_success(
        self, flown: Flown, reads: list[Read], kind: str, reason: str
    ) -> None:
        timing = await flown(*reads)
        assert (timing.status, timing.failure, timing.reason) == (200, kind, reason)
        good = in_turn(3)
        found = figures([*good, timing], 5.0)
        assert (found.completed, found.failed, found.failures) == (3, 1, {kind: 1})
        assert found.ttft_ms == figures(good, 5.0).ttft_ms
        assert found.output_throughput == figures(good, 5.0).output_throughput

    @pytest.mark.parametrize("status", [429, 503])
    async def test_a_refusal_is_a_failure_of_its_status(self, flown: Flown, status: int) -> None:
        timing = await flown((0.1, '{"error": {"message": "slow down"}}'), status=status)
        assert (timing.failure, timing.reason) == ("rejected", f"HTTP {status}: slow down")

    def test_an_answer_at_its_length_with_fewer_tokens_is_noted(self) -> None:
        found = figures([request(0, 0.0, tokens=5), request(1, 0.0, tokens=16)], 1.0, 16)
        assert (found.completed, found.short) == (2, 1)


class TestFewSamples:
    """F12."""

    def test_of_four_the_median_and_the_largest_are_told_and_no_tail(self) -> None:
        found = spread([200, 210, 220, 900])
        assert (found.n, found.median, found.p99, tail(found)) == (4, 215.0, None, ("max", 900))

    def test_of_none_nothing_is_told(self) -> None:
        found = figures([request(0, 0.0, failure="rejected")] * 4, 2.0)
        assert (found.completed, found.failed) == (0, 4)
        assert {found.ttft_ms, found.tpot_ms, found.itl_ms, found.e2e_latency_ms} == {spread([])}

    def test_a_failure_that_never_ends_poisons_no_mean(self) -> None:
        endless = request(9, 0.0, failure="timed out", ended=math.inf)
        found = figures([*in_turn(9), endless], 5.0)
        assert found.e2e_latency_ms.n == 9
        assert found.e2e_latency_ms.max == pytest.approx(411.0)
        assert found.concurrency == pytest.approx(9 * 0.411 / 5.0)


class TestFigures:
    """16 streams that make 5,000 tokens a second together: every figure, against what it is by definition."""

    GAP_S = 0.0032
    STREAMS = 16

    async def test_every_figure_is_right(self, flown: Flown) -> None:
        shapes = [
            (number * 0.001, 0.02 + 0.007 * (number % 5), 800 + 90 * (number % 7))
            for number in range(self.STREAMS)
        ]
        found = figures([await self._answered(flown, *shape) for shape in shapes])
        ttfts = [first for _, first, _ in shapes]
        tokens = [count for *_, count in shapes]
        # The end comes with the usage, a gap after the last token.
        latencies = [first + count * self.GAP_S for _, first, count in shapes]
        duration = max(sent + took for (sent, *_), took in zip(shapes, latencies, strict=True))
        assert found.duration == pytest.approx(duration)
        assert (found.completed, found.total_output_tokens, found.total_input_tokens) == (
            16,
            sum(tokens),
            16 * 7,
        )
        assert found.output_throughput == pytest.approx(sum(tokens) / duration)
        assert found.input_throughput == pytest.approx(16 * 7 / duration)
        assert found.total_throughput == pytest.approx((sum(tokens) + 16 * 7) / duration)
        assert found.request_throughput == pytest.approx(16 / duration)
        assert found.concurrency == pytest.approx(sum(latencies) / duration)
        assert found.ttft_ms.mean == pytest.approx(1000 * fmean(ttfts))
        assert found.ttft_ms.median == pytest.approx(1000 * median(ttfts))
        assert found.e2e_latency_ms.mean == pytest.approx(1000 * fmean(latencies))
        tpots = [count * self.GAP_S / (count - 1) for count in tokens]
        assert found.tpot_ms.mean == pytest.approx(1000 * fmean(tpots))
        assert found.itl_ms.n == sum(tokens) - 16
        assert [found.itl_ms.mean, found.itl_ms.p90, found.itl_ms.p99] == pytest.approx([3.2] * 3)
        arrivals = (int(sent + first + self.GAP_S * at) for sent, first, n in shapes for at in range(n))
        seconds = Counter(arrivals)
        assert found.per_second == pytest.approx([seconds[second] for second in sorted(seconds)])
        assert found.max_output_tokens_per_s == pytest.approx(max(seconds.values()))

    async def _answered(self, flown: Flown, sent: float, first: float, tokens: int) -> RequestTiming:
        start = sent + first
        chunks: list[Read] = [(start + self.GAP_S * number, text(" tok")) for number in range(tokens)]
        end: Read = (start + self.GAP_S * tokens, usage(7, tokens) + DONE)
        return await flown(*chunks, end, sent=sent)


FINE = LoadDone(duration_s=10.0, cpu_pct=20.0, lag_p95_ms=0.2, lag_max_ms=3.0)


class TestClientLimits:
    """F13: what the client itself may have done to the figures."""

    def test_what_runs_out_is_not_held_against_it(self) -> None:
        """One server that serves one after the other, two in flight, and none left to send at the end."""
        served = [RequestTiming(index=n, sent=max(0.0, n - 1.0), ended=n + 1.0) for n in range(4)]
        assert in_flight(served) == pytest.approx(2.0)
        assert in_flight([RequestTiming(index=n, sent=0.0, ended=n + 1.0) for n in range(4)]) is None
        assert in_flight([]) is None
        assert client_limits(FINE, None, 16) is None

    def test_places_that_stood_empty_are(self) -> None:
        served = [RequestTiming(index=n, sent=2.0 * n, ended=2.0 * n + 1.0) for n in range(4)]
        assert in_flight(served) == pytest.approx(0.5)

    def test_a_client_that_kept_up_is_no_limit(self) -> None:
        at_the_limits = LoadDone(duration_s=10.0, cpu_pct=70.0, lag_p95_ms=1.0, lag_max_ms=50.0)
        assert client_limits(FINE, 15.9, 16) is None
        assert client_limits(at_the_limits, 0.85 * 16, 16) is None

    @pytest.mark.parametrize(
        ("changes", "in_flight", "reason"),
        [
            ({"cpu_pct": 71.0}, 16.0, "the busiest worker took 71 % of a core, above 70 %"),
            ({"lag_p95_ms": 1.2}, 16.0, "its loop lagged 1.2 ms at p95, above 1 ms"),
            ({}, 13.5, "only 13.5 of 16 requests were in flight on average"),
            (
                {"cpu_pct": 99.0, "lag_p95_ms": 40.0},
                16.0,
                "the busiest worker took 99 % of a core, above 70 %; "
                "its loop lagged 40.0 ms at p95, above 1 ms",
            ),
        ],
    )
    def test_the_flag_is_up_with_its_reason(
        self, changes: dict[str, float], in_flight: float, reason: str
    ) -> None:
        assert client_limits(msgspec.structs.replace(FINE, **changes), in_flight, 16) == reason
