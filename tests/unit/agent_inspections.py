"""Asks the agent's Inspections as the loop does, and reads their answers as the console does."""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec

from console.agent.frames import Header
from console.agent.inspecting import Inspections
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.local import LocalHost

PATIENCE_S = 60.0
NO_GPUS: dict[str, Any] = {
    "source": "none",
    "reason": "no NVIDIA driver",
    "driver": None,
    "age_s": 0.0,
    "gpus": [],
}

_T = TypeVar("_T")


class Asker:
    """Takes what the Inspections write; `clock` tells them the time."""

    def __init__(
        self,
        proc: str = "/proc",
        gpus: Callable[[], dict[str, Any]] = lambda: dict(NO_GPUS),
        runs: dict[int, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seen: list[Header] = []
        self.inspections = Inspections(self, proc, gpus, (runs or {}).get, clock)  # type: ignore[arg-type] # only put is used
        self._ids = 0

    def put(self, header: Header, body: bytes = b"") -> None:
        """As the frame writer's."""
        self.seen.append(header)

    def begin(self, op: str, **order: Any) -> int:
        """Give an order; its id."""
        self._ids += 1
        getattr(self.inspections, op)({"op": op, "id": self._ids, **order})
        return self._ids

    def last(self, number: int) -> Header:
        """The last part of an answer, once it is there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for header in self.seen:
                if header["id"] == number and not header["more"]:
                    return header
            assert time.monotonic() < deadline, self.seen
            select.select(self.inspections.readable(), [], [], 1.0)
            self.inspections.pump()

    def ask(self, kind: type[_T], op: str, **order: Any) -> _T:
        """The value that an order asks for."""
        header = self.last(self.begin(op, **order))
        assert header["kind"] == "value", header
        return msgspec.convert(msgspec.json.decode(msgspec.json.encode(header["value"])), kind)


def until(true: Callable[[], object]) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@contextlib.asynccontextmanager
async def agent_here() -> AsyncIterator[AgentLink]:
    """A link to an agent on this machine, whose answers are taken."""
    host = LocalHost()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(host.close)
        link = await stack.enter_async_context(await AgentLink.start(host, AgentOptions()))
        taking = asyncio.create_task(_take_all(link))
        yield link
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await taking


async def _take_all(link: AgentLink) -> None:
    async with contextlib.aclosing(link.frames()) as frames:
        async for _ in frames:
            pass
