"""The order `load`, from the console's side, to an agent on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from console.domain.bench.load import (
    LoadBegun,
    LoadDone,
    LoadEvent,
    LoadFailed,
    LoadRequests,
    LoadSecond,
    LoadSpec,
    RequestTiming,
)
from console.domain.errors import ConnectionLost
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.frames import Reply, Value
from console.remote.local import LocalHost
from tests.unit.streaming_server import StreamingServer, paced

LONG = [paced("long", 5000, 0.01)] * 50


@pytest.fixture(scope="module")
def server() -> Iterator[StreamingServer]:
    with StreamingServer() as server:
        yield server


@contextlib.asynccontextmanager
async def agent(**options: Any) -> AsyncIterator[AgentLink]:
    host = LocalHost()
    link = await AgentLink.start(host, AgentOptions(interval=0.5, **options), sys.executable)
    taking = asyncio.create_task(take(link))
    try:
        yield link
    finally:
        taking.cancel()
        await asyncio.wait([taking])
        await link.close()
        await host.close()


async def take(link: AgentLink) -> None:
    with contextlib.suppress(ConnectionLost):
        async with aclosing(link.frames(silence_s=60.0)) as frames:
            async for _ in frames:
                pass


@pytest.fixture(autouse=True)
def _host_of_the_tests_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSV4_AGENT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DSV4_AGENT_ONLY_ENV", f"DSV4_TEST={tmp_path}")


@pytest.fixture
async def link() -> AsyncGenerator[AgentLink, None]:
    async with agent() as link:
        yield link


def spec(server: StreamingServer, prompts: list[str], **fields: Any) -> LoadSpec:
    return LoadSpec(
        **{"url": server.url, "model": "m", "output_tokens": 4, "concurrency": 4, "workers": 2, **fields},
        prompts=tuple(prompts),
    )


async def load(
    link: AgentLink, what: LoadSpec, stop: asyncio.Event | None = None, python: str | None = None
) -> AsyncGenerator[LoadEvent, None]:
    order = link.ask("load", stop, python=python, spec=msgspec.to_builtins(what))
    async with aclosing(order) as answers:
        async for answer in answers:
            if isinstance(answer, Reply):
                raise AssertionError(answer.error)
            assert isinstance(answer, Value)
            if bytes(answer.value) != b"null":
                event: LoadEvent = msgspec.json.decode(answer.value, type=LoadEvent)
                assert answer.more != isinstance(event, LoadDone | LoadFailed)
                yield event


async def pids_of(events: AsyncGenerator[LoadEvent, None]) -> tuple[int, ...]:
    """Those of a load that is under way."""
    begun = await anext(events)
    assert isinstance(begun, LoadBegun)
    async for event in events:
        if isinstance(event, LoadSecond) and event.chunks:
            break
    assert all(map(lives, begun.pids))
    return begun.pids


def lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


async def gone(pids: tuple[int, ...], limit_s: float) -> float:
    """How many seconds it takes until they have all ended; fails when it takes longer than the limit."""
    begun = time.monotonic()
    while any(map(lives, pids)):
        assert time.monotonic() < begun + limit_s, f"not within {limit_s} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - begun


def requests_in(events: list[LoadEvent]) -> list[RequestTiming]:
    return [each for event in events if isinstance(event, LoadRequests) for each in event.items]


async def test_a_load_from_its_begin_to_its_end(link: AgentLink, server: StreamingServer) -> None:
    prompts = [paced(f"n{number}", 5, 0.02) for number in range(30)]
    events = [event async for event in load(link, spec(server, prompts, warmup=(prompts[0],) * 4))]
    assert isinstance(events[0], LoadBegun)
    assert events[0].client.startswith("httpx ")
    requests = requests_in(events)
    assert sorted(request.index for request in requests) == list(range(30))
    assert all(request.ok and request.completion_tokens == 5 for request in requests)
    done = events[-1]
    assert isinstance(done, LoadDone)
    assert not done.stopped
    await gone(events[0].pids, 1.0)


async def test_prompts_may_be_megabytes(link: AgentLink, server: StreamingServer) -> None:
    prompts = [paced("x" * 500_000, 2, 0.0)] * 8
    events = [event async for event in load(link, spec(server, prompts))]
    assert [request.ok for request in requests_in(events)] == [True] * 8


async def test_a_cancelled_load_tells_what_it_has(link: AgentLink, server: StreamingServer) -> None:
    stop = asyncio.Event()
    events = load(link, spec(server, LONG), stop)
    pids = await pids_of(events)
    stop.set()
    rest = [event async for event in events]
    assert [request.failure for request in requests_in(rest)] == ["stopped"] * 4
    assert all(request.chunks for request in requests_in(rest))
    done = rest[-1]
    assert isinstance(done, LoadDone)
    assert done.stopped
    await gone(pids, 1.0)


async def test_who_leaves_ends_it(link: AgentLink, server: StreamingServer) -> None:
    events = load(link, spec(server, LONG))
    pids = await pids_of(events)
    await events.aclose()
    await gone(pids, 2.0)


async def test_one_load_at_a_time_and_then_the_next(link: AgentLink, server: StreamingServer) -> None:
    stop = asyncio.Event()
    first = load(link, spec(server, LONG), stop)
    await pids_of(first)
    with pytest.raises(AssertionError, match="a load runs already"):
        await anext(load(link, spec(server, LONG)))
    stop.set()
    assert [event async for event in first]
    assert [event async for event in load(link, spec(server, [paced("next", 2, 0.0)]))]


async def test_a_python_that_is_not_there_is_told(link: AgentLink, server: StreamingServer) -> None:
    with pytest.raises(AssertionError, match="/no/python: No such file or directory"):
        await anext(load(link, spec(server, LONG), python="/no/python"))


async def test_a_read_only_session_loads_nothing(server: StreamingServer) -> None:
    async with agent(readonly=True) as link:
        with pytest.raises(AssertionError, match="read-only"):
            await anext(load(link, spec(server, LONG)))


async def test_a_session_that_ends_leaves_no_generator(server: StreamingServer) -> None:
    async with agent() as link:
        events = load(link, spec(server, LONG))
        pids = await pids_of(events)
    await gone(pids, 1.0)
    with pytest.raises(ConnectionLost):
        [event async for event in events]


async def test_kill_9_of_the_agent_leaves_no_generator(link: AgentLink, server: StreamingServer) -> None:
    events = load(link, spec(server, LONG))
    pids = await pids_of(events)
    os.kill(link.hello.pid, signal.SIGKILL)
    await gone(pids, 1.0)
    with pytest.raises(ConnectionLost):
        [event async for event in events]


async def test_a_frozen_agent_has_no_generator_after_15_seconds(
    link: AgentLink, server: StreamingServer
) -> None:
    events = load(link, spec(server, LONG))
    pids = await pids_of(events)
    os.kill(link.hello.pid, signal.SIGSTOP)
    try:
        assert await gone(pids, 15.0) > 5.0
    finally:
        os.kill(link.hello.pid, signal.SIGCONT)
        await events.aclose()
