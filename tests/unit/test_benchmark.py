"""Benchmarks of a host that is made up: what is measured, with which prompts, and what is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from console.domain.bench.benching import BenchAsk, BenchStopped
from console.domain.bench.load import LoadDone, LoadEvent, LoadRequests, LoadSpec, RequestTiming
from console.domain.bench.result import BenchResult
from console.domain.errors import NotReady, NotRunning, ReadOnly
from console.domain.proof import Answer
from console.domain.run_record import HostRecords
from console.domain.server_view import ServerView
from console.remote.frames import Value
from console.remote.sglang import MetricsPage
from console.services.bench_store import BenchStore
from console.services.bench_target import find_target, settings_of
from console.services.benchmark import Benchmarks
from console.services.telemetry import HostWatch
from tests.unit.deployed import DECODE_RUN, PAIR, PREFILL_RUN, RECORD, VIEWS, records, run, seen, view

STRANGER = view(run("single", 31000, 9001, (6, 7)))
SECRET = msgspec.structs.replace(
    PAIR,
    flags={"api-key": "sesame", "page-size": 64},
    environment={"HF_TOKEN": "hf_sesame"},
    router=PAIR.router and msgspec.structs.replace(PAIR.router, flags={"api-key": "sesame"}),
)


class FakeClient:
    """A model whose tokens are words; its caches can be emptied, or not."""

    def __init__(self) -> None:
        self.keys: set[str | None] = set()
        self.flushes = True

    async def complete(
        self, port: int, prompt: str, max_tokens: int, limit_s: float, api_key: str | None = None
    ) -> Answer:
        self.keys.add(api_key)
        tokens = len(prompt.replace(".", " .").split())
        return Answer(seconds=0.1, status=200, prompt_tokens=tokens, completion_tokens=1)

    async def metrics(self, port: int) -> MetricsPage:
        return MetricsPage(note="off")

    async def flush(self, port: int) -> bool:
        return self.flushes


class FakeLink:
    """A host that answers every request in a second."""

    def __init__(self) -> None:
        self.specs: list[LoadSpec] = []

    async def ask(self, op: str, stop: asyncio.Event, /, **fields: Any) -> AsyncGenerator[Value, None]:
        assert op == "load"
        spec = msgspec.convert(fields["spec"], LoadSpec)
        self.specs.append(spec)
        items = tuple(
            RequestTiming(index=index, sent=0.0, chunks=(0.5, 1.0), ended=1.0, completion_tokens=2)
            for index in range(len(spec.prompts))
        )
        events: tuple[LoadEvent, ...] = (
            LoadRequests(items=items),
            LoadDone(duration_s=1.0, cpu_pct=5.0, lag_p95_ms=0.1, lag_max_ms=0.2),
        )
        for event in events:
            yield Value(id=1, value=msgspec.Raw(msgspec.json.encode(event)))


class FakeWatch:
    """A host as last heard of."""

    def __init__(self, found: HostRecords, views: tuple[ServerView, ...] = VIEWS) -> None:
        self.records = found
        self.views = views
        self.client = FakeClient()
        self.link = FakeLink()
        self.sample = None

    def server_views(self) -> tuple[ServerView, ...]:
        return self.views


class Bench:
    """Benchmarks of such a host."""

    def __init__(self, folder: Path, found: HostRecords | None = None) -> None:
        self.watch = FakeWatch(found or records())
        self.store = BenchStore(folder / "journal.db")
        self.why: str | None = None
        self.benchmarks = Benchmarks(
            cast(HostWatch, self.watch),
            host="gpu-box",
            demo=False,
            store=self.store,
            refusal=lambda: self.why,
        )

    async def measured(self, **asked: Any) -> list[BenchResult]:
        ask = msgspec.convert({"input_tokens": 64, "output_tokens": 2, "prompts": 4} | asked, BenchAsk)
        run = self.benchmarks.run(await self.benchmarks.plan(ask))
        events = [event async for event in run.events()]
        assert not any(isinstance(event, BenchStopped) for event in events), events
        return [event for event in events if isinstance(event, BenchResult)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class TestTarget:
    def test_the_deployments_router_and_what_is_behind_it(self) -> None:
        found = find_target((STRANGER, *VIEWS), records())
        assert (found.name, found.port) == ("router :8000 of pd-ll", 8000)
        assert found.servers == {"prefill :30000": 30000, "decode :30001": 30001}
        assert (found.gpus, found.runs) == ((0, 1, 2, 3), RECORD.runs)

    def test_a_stranger_that_starts_is_not_waited_for(self) -> None:
        starting = msgspec.structs.replace(STRANGER, state="starting")
        assert find_target((starting, *VIEWS), records()).port == 8000

    def test_of_two_single_servers_only_the_one_that_is_measured_counts(self) -> None:
        other = view(run("single", 32000, 9002))
        found = find_target((STRANGER, other), HostRecords())
        assert (found.name, found.servers) == ("single :31000", {"single :31000": 31000})
        assert (found.profile, found.runs) == (None, ())

    def test_a_server_on_its_way_up_may_be_waited_for(self) -> None:
        loading = view(DECODE_RUN, "starting", phase="loading", reason="loading 4/46 shards")
        with pytest.raises(NotReady, match="decode is not ready: loading 4/46 shards"):
            find_target(seen(loading), records())

    def test_waiting_for_one_beside_a_dead_one_would_be_in_vain(self) -> None:
        dead = view(PREFILL_RUN, "failed", phase="crashed", reason="out of memory", next="use less")
        starting = view(DECODE_RUN, "starting")
        with pytest.raises(NotRunning) as caught:
            find_target(seen(dead, starting), records())
        assert not isinstance(caught.value, NotReady)
        assert str(caught.value) == "prefill does not serve: out of memory. Next: use less."

    def test_half_a_pair_or_nothing(self) -> None:
        with pytest.raises(NotRunning, match="a pair without its router"):
            find_target(seen(without=("router",)), records())
        with pytest.raises(NotRunning, match="no server runs"):
            find_target((), HostRecords())


def test_no_secret_is_kept_with_a_result() -> None:
    kept = settings_of(SECRET)
    assert kept["decode flag page-size"] == "64"
    assert {kept["decode flag api-key"], kept["prefill HF_TOKEN"], kept["router flag api-key"]} == {
        "********"
    }
    assert not [value for value in kept.values() if "sesame" in value]


class TestSeed:
    async def test_one_that_is_given_is_that_of_the_first_and_the_next_have_the_next(
        self, bench: Bench
    ) -> None:
        results = await bench.measured(concurrency=(1, 2), repeats=2, seed=7)
        assert [result.context.seed for result in results] == [7, 8, 9, 10]
        prompts = [prompt for spec in bench.watch.link.specs for prompt in (*spec.warmup, *spec.prompts)]
        assert len(set(prompts)) == len(prompts), "none is served by a cache of the one before"

    async def test_that_of_a_result_gives_its_prompts_again(self, bench: Bench) -> None:
        first = await bench.measured(concurrency=(1, 2))
        await bench.measured(concurrency=(2,), seed=first[1].context.seed)
        _, second, again = bench.watch.link.specs
        assert again.prompts == second.prompts

    async def test_without_one_prompts_are_new_each_time(self, bench: Bench) -> None:
        await bench.measured(concurrency=(2,))
        await bench.measured(concurrency=(2,))
        first, second = bench.watch.link.specs
        assert not set(first.prompts) & set(second.prompts)


class TestRun:
    async def test_the_key_of_the_profile_is_sent(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, records(deployment=msgspec.structs.replace(RECORD, profile=SECRET)))
        await bench.measured(concurrency=(1,))
        assert bench.watch.client.keys == {"sesame"}
        assert bench.watch.link.specs[0].api_key == "sesame"

    async def test_nothing_is_measured_while_a_plan_is_under_way(self, bench: Bench) -> None:
        plan = await bench.benchmarks.plan(BenchAsk())
        bench.why = "eve@desk is changing this host"
        with pytest.raises(ReadOnly, match="eve@desk"):
            bench.benchmarks.run(plan)

    async def test_it_is_under_way_from_the_first_event_to_the_last(self, bench: Bench) -> None:
        run = bench.benchmarks.run(await bench.benchmarks.plan(BenchAsk(concurrency=(1,), prompts=4)))
        assert not run.under_way
        async for _ in run.events():
            assert run.under_way
        assert not run.under_way

    async def test_a_cache_that_is_not_emptied_is_not_called_so(self, bench: Bench) -> None:
        bench.watch.client.flushes = False
        run = bench.benchmarks.run(await bench.benchmarks.plan(BenchAsk(concurrency=(1,), cache="flushed")))
        last = [event async for event in run.events()][-1]
        assert isinstance(last, BenchStopped)
        assert last.reason == (
            "prefill :30000 has not emptied its prefix cache: it does so only while it serves nobody"
        )
        assert last.next == "measure again when nobody is served, or with the cache `nonce`"
        assert not bench.watch.link.specs
        assert await bench.store.history() == ()
