"""The load of a benchmark: how long prompts are, and the generator on the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from console.domain.bench.load import LoadEvent, LoadFailed, LoadSpec
from console.domain.bench.prompts import Calibration, calibrate, probes
from console.domain.errors import ConsoleError, HostRefused
from console.remote.agent_link import AgentLink
from console.remote.frames import Reply, Value
from console.remote.sglang import SglangClient

PROBE_S = 60.0


async def calibrate_on(client: SglangClient, port: int, api_key: str | None = None) -> Calibration:
    """How many tokens the words of prompts are to the model there. Raises ConsoleError."""
    counted = []
    for probe in probes():
        answer = await client.complete(port, probe.text, 1, PROBE_S, api_key)
        if answer.status != 200 or answer.prompt_tokens is None:
            raise ConsoleError(
                "the target does not answer a request",
                cause=answer.error or f"no answer within {PROBE_S:.0f} s",
                next_step="see that it serves, then measure again",
            )
        counted.append((probe, answer.prompt_tokens))
    return calibrate(counted)


async def load(
    link: AgentLink, spec: LoadSpec, python: str | None, stop: asyncio.Event
) -> AsyncGenerator[LoadEvent, None]:
    """Have the host generate the load. `stop` cuts it, and its end still comes.

    Raises HostRefused when the host does not, ConnectionLost.
    """
    order = link.ask("load", stop, python=python, spec=msgspec.to_builtins(spec))
    async with aclosing(order) as answers:
        async for answer in answers:
            if isinstance(answer, Reply) and answer.error is not None:
                raise HostRefused("the load generator did not run", cause=answer.error)
            if isinstance(answer, Value):
                event = msgspec.json.decode(bytes(answer.value), type=LoadEvent | None)
                if isinstance(event, LoadFailed):
                    raise HostRefused("the load generator did not run", cause=event.reason)
                if event is not None:
                    yield event
