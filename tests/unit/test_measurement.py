"""One measurement on a host that is made up: what servers, GPUs and the client say of it, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from console.domain.bench.benching import BenchAsk
from console.domain.bench.ending import partial
from console.domain.bench.load import (
    LoadBegun,
    LoadDone,
    LoadEvent,
    LoadFailed,
    LoadRequests,
    LoadSecond,
    RequestTiming,
)
from console.domain.bench.prompts import Calibration
from console.domain.bench.result import BenchResult
from console.domain.errors import ConnectionLost, HostError
from console.domain.gpu import GpuReport, GpuSample, HostSample, Sample
from console.domain.profile import BenchShape
from console.remote.frames import Value
from console.remote.sglang import MetricsPage
from console.services.bench_store import BenchStore
from console.services.bench_target import BenchTarget
from console.services.measurement import UNDER_WAY, Measurement, workers_for
from console.services.telemetry import HostWatch
from tests.unit.bench_results import in_turn, request

WORDS = Calibration(fixed=0, per_deck=16, per_filler=1, per_mark=1, varied=True)
TOKENS = 32
ITEMS = in_turn(10)
DONE = LoadDone(duration_s=ITEMS[-1].ended, cpu_pct=20.0, lag_p95_ms=0.2, lag_max_ms=2.0)
BEGUN = LoadBegun(pids=(7, 8), client="httpx 0.28.1 on Python 3.11.7")


def second(number: int, done: int, failed: int = 0) -> LoadSecond:
    return LoadSecond(
        second=number, chunks=5, in_flight=1, done=done, failed=failed, of=10, lag_ms=0.3, cpu_pct=12.0
    )


WHOLE = (BEGUN, second(-1, 1), second(0, 2), LoadRequests(items=ITEMS), DONE)


def page(
    generated: int,
    *,
    transfers: int = 0,
    speeds: float = 0.0,
    start: float | None = None,
    computed: int = 0,
    cached: int | None = None,
) -> str:
    lines = [f"sglang:generation_tokens_total {generated}"]
    if cached is not None:
        lines += [f'sglang:realtime_tokens_total{{mode="prefill_compute"}} {computed}']
        lines += [f'sglang:realtime_tokens_total{{mode="prefill_cache"}} {cached}']
    if transfers:
        lines += [f"sglang:kv_transfer_latency_ms_count {transfers}"]
        lines += [f"sglang:kv_transfer_speed_gb_s_sum {speeds}"]
    if start is not None:
        lines += [f"process_start_time_seconds {start}"]
    return "\n".join([*lines, ""])


class FakeClient:
    """Servers whose pages are told, one for each scrape."""

    def __init__(self, pages: dict[int, list[str | None]]) -> None:
        self._pages = pages

    async def metrics(self, port: int) -> MetricsPage:
        return MetricsPage(text=self._pages[port].pop(0))


class FakeLink:
    """A host that tells these events, and then may be lost."""

    def __init__(self, events: Sequence[LoadEvent | HostError]) -> None:
        self._events = events
        self.on_event: Callable[[LoadEvent], None] = lambda _: None

    async def ask(self, op: str, stop: asyncio.Event, /, **fields: Any) -> AsyncGenerator[Value, None]:
        assert op == "load"
        for event in self._events:
            if isinstance(event, HostError):
                raise event
            self.on_event(event)
            yield Value(id=1, value=msgspec.Raw(msgspec.json.encode(event)))


class FakeWatch:
    """A host with two GPUs, one of which is measured."""

    def __init__(self, events: Sequence[LoadEvent | HostError], pages: dict[int, list[str | None]]) -> None:
        self.link = FakeLink(events)
        self._client = FakeClient(pages)
        self.connected = True
        self.sample: Sample | None = None

    @property
    def client(self) -> FakeClient:
        if not self.connected:
            raise ConnectionLost("the host is not connected")
        return self._client


class Bench:
    """Takes one measurement."""

    def __init__(self, folder: Path) -> None:
        self.store = BenchStore(folder / "journal.db")
        self.lost: HostError | None = None

    async def measured(
        self,
        *events: LoadEvent | HostError,
        before: str | None = None,
        after: str | None = None,
        concurrency: int = 1,
        prepare: Callable[[FakeWatch], None] = lambda _: None,
    ) -> BenchResult:
        watch = FakeWatch(events or WHOLE, {30000: [before, after]})
        prepare(watch)
        target = BenchTarget(
            name="single :30000",
            port=30000,
            servers={"single :30000": 30000},
            shape=BenchShape(),
            gpus=(1,),
        )
        measurement = Measurement(
            cast(HostWatch, watch),
            target,
            BenchAsk(input_tokens=64, output_tokens=TOKENS, prompts=10),
            concurrency,
            seed=1,
            series="s",
            host="gpu-box",
            demo=False,
            store=self.store,
        )
        told: list[Any] = []
        try:
            told += [event async for event in measurement.events(asyncio.Event(), WORDS)]
        except HostError as error:
            self.lost = error
        (kept,) = await self.store.history()
        found = await self.store.result(kept.id)
        assert not told or told[-1] == found
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class TestServers:
    """The warm-up of one request makes 32 tokens, the measured ten 320."""

    async def test_their_counters_are_those_of_the_measured_part(self, bench: Bench) -> None:
        context = (await bench.measured(before=page(1000), after=page(1352))).context
        assert (context.server_tokens, context.other_load) == (320, 0.0)

    async def test_more_than_ours_is_the_load_of_others(self, bench: Bench) -> None:
        context = (await bench.measured(before=page(1000), after=page(1352 + 480))).context
        assert context.server_tokens == 800
        assert context.other_load == pytest.approx(1.5)

    async def test_a_warm_up_that_failed_in_part_made_no_tokens(self, bench: Bench) -> None:
        events = (BEGUN, second(-1, 4, failed=3), LoadRequests(items=ITEMS), DONE)
        found = await bench.measured(*events, before=page(1000), after=page(1352), concurrency=4)
        assert found.context.server_tokens == 320

    async def test_what_failed_of_ours_is_not_the_load_of_others(self, bench: Bench) -> None:
        """The servers may have counted the tokens of an answer that was cut."""
        cut = request(9, ITEMS[8].ended, failure="cut off", completion_tokens=None)
        events = (BEGUN, second(-1, 1), LoadRequests(items=(*ITEMS[:9], cut)), DONE)
        found = await bench.measured(*events, before=page(1000), after=page(1352))
        assert (found.figures.total_output_tokens, found.context.other_load) == (288, 0.0)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (page(9000, transfers=5, speeds=10.0), page(352, transfers=11, speeds=33.0)),
            (page(9000, transfers=11, speeds=33.0), page(9999, transfers=5, speeds=10.0)),
            (page(9, start=1.0), page(9352, start=2.0)),
            (page(9), None),
            (None, page(9)),
            ("<html>", "<html>"),
        ],
    )
    async def test_a_server_that_was_restarted_or_tells_nothing_says_nothing(
        self, bench: Bench, before: str | None, after: str | None
    ) -> None:
        context = (await bench.measured(before=before, after=after)).context
        assert (context.server_tokens, context.other_load, context.kv_transfer_gb_s) == (None, None, None)

    async def test_kv_transfers_have_their_mean_speed(self, bench: Bench) -> None:
        before, after = page(0, transfers=5, speeds=10.0), page(352, transfers=16, speeds=43.0)
        found = await bench.measured(before=before, after=after)
        assert found.context.kv_transfer_gb_s == pytest.approx(3.0)

    async def test_without_a_transfer_there_is_no_speed(self, bench: Bench) -> None:
        still = page(0, transfers=5, speeds=10.0), page(352, transfers=5, speeds=10.0)
        found = await bench.measured(before=still[0], after=still[1])
        assert (found.context.server_tokens, found.context.kv_transfer_gb_s) == (320, None)

    @pytest.mark.parametrize(
        ("computed", "cached", "share"), [(900, 100, 0.1), (1000, 0, 0.0), (0, 0, None), (0, None, None)]
    )
    async def test_what_a_prefix_cache_served(
        self, bench: Bench, computed: int, cached: int | None, share: float | None
    ) -> None:
        before = page(0, computed=70, cached=None if cached is None else 50)
        after = page(352, computed=70 + computed, cached=None if cached is None else 50 + cached)
        context = (await bench.measured(before=before, after=after)).context
        assert context.cached_share == (None if share is None else pytest.approx(share))


def sample(seq: int, **fields: float) -> Sample:
    other = GpuSample(index=0, power_w=500.0, activity_pct=100.0)
    measured = msgspec.convert({"index": 1, **fields}, GpuSample)
    gpu = GpuReport(source="nvml", gpus=(other, measured))
    return Sample(seq=seq, gpu=gpu, host=HostSample(hostname="gpu-box", time=float(seq)))


class TestGpus:
    async def test_means_are_of_the_gpus_and_the_time_that_were_measured(self, bench: Bench) -> None:
        samples = {
            -1: sample(1, power_w=900.0, activity_pct=1.0),
            0: sample(
                2, power_w=300.0, activity_pct=90.0, dram_pct=40.0, clock_mhz=2400.0, power_limit_w=600.0
            ),
            1: sample(
                3, power_w=500.0, activity_pct=98.0, dram_pct=44.0, clock_mhz=2300.0, power_limit_w=600.0
            ),
            2: sample(3, power_w=500.0, activity_pct=98.0),
        }
        seconds = [second(number, 1) for number in samples]

        def prepare(watch: FakeWatch) -> None:
            def take(event: LoadEvent) -> None:
                if isinstance(event, LoadSecond):
                    watch.sample = samples[event.second]

            watch.link.on_event = take

        gpu = (
            await bench.measured(BEGUN, *seconds, LoadRequests(items=ITEMS), DONE, prepare=prepare)
        ).context.gpu
        energy = 400.0 * DONE.duration_s
        assert gpu == pytest.approx(
            {
                "power_w": 400.0,
                "sm_pct": 94.0,
                "dram_pct": 42.0,
                "clock_mhz": 2350.0,
                "power_limit_w": 600.0,
                "energy_j": energy,
                "energy_j_per_token": energy / 320,
            }
        )

    async def test_without_readings_nothing_is_0(self, bench: Bench) -> None:
        assert (await bench.measured()).context.gpu == {}


class TestClient:
    @pytest.mark.parametrize(
        ("concurrency", "workers"), [(1, 1), (16, 1), (17, 2), (32, 2), (33, 3), (64, 4), (1024, 4)]
    )
    def test_one_worker_has_so_many_streams_that_it_stays_below_half_a_core(
        self, concurrency: int, workers: int
    ) -> None:
        assert workers_for(concurrency) == workers

    async def test_what_it_says_of_itself_is_kept(self, bench: Bench) -> None:
        client = (await bench.measured()).client
        assert (client.where, client.name, client.limited) == ("host", BEGUN.client, None)
        assert (client.cpu_pct, client.lag_p95_ms, client.lag_max_ms) == (20.0, 0.2, 2.0)

    async def test_the_flag_is_up_where_it_may_have_been_the_limit(self, bench: Bench) -> None:
        busy = msgspec.structs.replace(DONE, cpu_pct=93.0)
        found = await bench.measured(*WHOLE[:-1], busy)
        assert found.client.limited == "the busiest worker took 93 % of a core, above 70 %"
        assert not found.client.offered_less

    async def test_too_few_in_flight_is_told_apart_from_a_client_that_is_late(self, bench: Bench) -> None:
        client = (await bench.measured(*WHOLE, concurrency=4)).client
        assert client.limited == "only 1.0 of 4 requests were in flight on average"
        assert client.offered_less


class TestEnd:
    async def test_what_is_measured_is_kept_while_it_goes_on(self, bench: Bench) -> None:
        """A console that is killed then leaves this."""

        class Killed(BaseException):
            pass

        def prepare(watch: FakeWatch) -> None:
            def take(event: LoadEvent) -> None:
                if isinstance(event, LoadDone):
                    raise Killed

            watch.link.on_event = take

        with pytest.raises(Killed):
            await bench.measured(prepare=prepare)
        (kept,) = await bench.store.history()
        assert (kept.partial, kept.figures.completed) == (UNDER_WAY, 10)

    async def test_a_lost_connection_leaves_what_was_told_and_is_raised(self, bench: Bench) -> None:
        lost = ConnectionLost("the connection to gpu-box is lost")
        found = await bench.measured(*WHOLE[:-1], lost)
        assert (found.partial, found.figures.completed) == (lost.sentence, 10)
        assert bench.lost is lost

    async def test_a_connection_lost_after_the_last_answer_loses_only_the_counters(
        self, bench: Bench
    ) -> None:
        def prepare(watch: FakeWatch) -> None:
            def take(event: LoadEvent) -> None:
                watch.connected = not isinstance(event, LoadDone)

            watch.link.on_event = take

        found = await bench.measured(before=page(0), after=page(352), prepare=prepare)
        assert (found.partial, found.figures.completed, found.context.server_tokens) == (None, 10, None)

    async def test_a_generator_that_fails_leaves_what_was_told(self, bench: Bench) -> None:
        found = await bench.measured(*WHOLE[:-1], LoadFailed(reason="a worker ended"))
        assert found.partial is not None
        assert "a worker ended" in str(bench.lost)
        assert found.figures.completed == 10

    async def test_a_server_that_dies_leaves_a_partial_result(self, bench: Bench) -> None:
        dead = [
            request(index, 10.0, failure="refused", chunks=(), ended=10.0 + index) for index in range(10, 16)
        ]
        found = await bench.measured(*WHOLE[:-1], LoadRequests(items=tuple(dead)), DONE)
        assert found.partial == "the target answered no more: the last 6 requests all failed"
        assert (found.figures.completed, found.figures.failures) == (10, {"refused": 6})


def failed(count: int, sent: float = 50.0, **changes: Any) -> list[RequestTiming]:
    """One after the other, from `sent` on."""
    return [
        request(100 + number, sent + number, ended=sent + number + 0.5, failure="cut off", **changes)
        for number in range(count)
    ]


class TestSilence:
    """When failures are the end of the target."""

    @pytest.mark.parametrize(
        ("timings", "concurrency"),
        [
            (in_turn(10), 1),
            ([*in_turn(10), *failed(1)], 1),
            ([*in_turn(10), *failed(15)], 16),
            ([*failed(5, 0.0), *in_turn(100)], 1),
            (failed(20, chunks=()), 4),
        ],
        ids=["none", "the last alone", "fewer than in flight", "answered again", "never answered"],
    )
    def test_failures_alone_are_no_end(self, timings: list[RequestTiming], concurrency: int) -> None:
        assert partial(DONE, None, timings, concurrency) is None

    @pytest.mark.parametrize(
        ("timings", "concurrency"),
        [([*in_turn(10), *failed(2)], 1), ([*in_turn(10), *failed(16)], 16), (failed(16), 16)],
        ids=["at 1", "at 16", "in the first round"],
    )
    def test_all_that_was_in_flight_failing_last_is(
        self, timings: list[RequestTiming], concurrency: int
    ) -> None:
        found = partial(DONE, None, timings, concurrency)
        assert found is not None
        assert found.startswith("the target answered no more")
