"""A connection that comes back: link events and frames as one stream, over every reconnect."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

import msgspec

from console.domain.errors import AgentFailed, AuthenticationFailed, HostError, HostKeyChanged, HostKeyUnknown
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.frames import Frame
from console.remote.host import Host

OpenHost = Callable[[], Host]

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 3.0
STEADY_S = 30.0
"""A connection that lived this long was a good one: the next wait starts small again."""

REFUSED_WAIT_S = 30.0
REFUSALS = (AuthenticationFailed, HostKeyChanged, HostKeyUnknown)
"""Quick retries would not help, and may lock the account."""


class LinkUp(msgspec.Struct, frozen=True):
    """Connected, and the agent has said hello."""

    host: Host
    link: AgentLink


class LinkDown(msgspec.Struct, frozen=True):
    """Not connected. `retry_at` is on the monotonic clock; None when there is none: it was the first
    attempt."""

    error: HostError
    retry_at: float | None


Event = LinkUp | LinkDown | Frame


def waits() -> Iterator[float]:
    """Seconds before each attempt: 0.5, 1, 2, 3, 3, … with 20 % jitter, so that consoles do not come in
    step."""
    wait = FIRST_WAIT_S
    while True:
        yield wait * random.uniform(0.8, 1.0)
        wait = min(LONGEST_WAIT_S, wait * 2)


async def session(
    open_host: OpenHost, options: AgentOptions, python: str | None
) -> AsyncGenerator[Event, None]:
    """Connect, yield what the agent says, and connect again for ever.

    Ends only when the first attempt fails: whoever asked for the host should be told, not kept waiting.
    """
    pauses = waits()
    ever_up = False
    while True:
        started = time.monotonic()
        try:
            # aclosing: a generator that is merely dropped would close its connection some time later.
            async with aclosing(_one_connection(open_host, options, python)) as events:
                async for event in events:
                    if isinstance(event, LinkUp):
                        ever_up = True
                        # The search for a Python need not be made again on this host.
                        python = event.link.hello.python
                    yield event
            return
        except HostError as error:
            if time.monotonic() - started > STEADY_S:
                pauses = waits()
            if not ever_up:
                yield LinkDown(error, None)
                return
            if isinstance(error, AgentFailed):
                python = None
            wait = REFUSED_WAIT_S if isinstance(error, REFUSALS) else next(pauses)
            yield LinkDown(error, time.monotonic() + wait)
            await asyncio.sleep(wait)


async def _one_connection(
    open_host: OpenHost, options: AgentOptions, python: str | None
) -> AsyncGenerator[Event, None]:
    host = open_host()
    try:
        await host.connect()
        async with await AgentLink.start(host, options, python) as link:
            yield LinkUp(host, link)
            async with aclosing(link.frames(silence_s=10.0 + 3 * options.interval)) as frames:
                async for frame in frames:
                    yield frame
    finally:
        await host.close()
