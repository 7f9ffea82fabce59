"""A session with an agent: its frames are taken, and the orders about deployments are given."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from console.domain.host_facts import Group
from console.domain.run_record import HostRecords, LockHolder, RunRecord
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.host import Host
from tests.integration.waiting import eventually

WAITS = "import os, signal; print(os.environ.get('LC_ALL'), flush=True); signal.pause()"


class Held(msgspec.Struct):
    held: bool
    holder: LockHolder | None = None


class Groups(msgspec.Struct):
    groups: tuple[Group, ...]


class Signalled(msgspec.Struct):
    signalled: tuple[int, ...]
    refused: tuple[dict[str, Any], ...]


class Environment(msgspec.Struct):
    environment: dict[str, str] | None


class Session:
    """One agent, whose frames are taken as they come."""

    def __init__(self, link: AgentLink) -> None:
        self.link = link
        self.records = HostRecords()
        self.told = 0
        self._taking = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async with aclosing(self.link.frames()) as frames:
            async for frame in frames:
                if isinstance(frame, HostRecords):
                    self.records = frame
                    self.told += 1

    async def lock(self, by: str = "me@desk") -> Held:
        return await self.link.value(Held, "lock", by=by, what="switch to tp4-ll")

    async def launch(self, run: str, script: str = WAITS, **fields: Any) -> RunRecord:
        return await self.link.value(RunRecord, "launch", run=asked(run, script) | fields)

    async def end(self) -> None:
        self._taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._taking
        await self.link.close()


def asked(run: str, script: str) -> dict[str, Any]:
    return {
        "id": run,
        "deployment": "d1",
        "profile": "tp4-ll",
        "name": "prefill",
        "role": "prefill",
        "argv": [sys.executable, "-S", "-c", script],
        "environment": {"NCCL_PROTO": "LL"},
        "gpus": [0],
        "port": 30000,
        "ports": [30000],
        "by": "me@desk",
        "sudo": False,
    }


@contextlib.asynccontextmanager
async def session(host: Host, python: str | None = sys.executable, **options: Any) -> AsyncIterator[Session]:
    """`python` None lets the host choose."""
    link = await AgentLink.start(host, AgentOptions(interval=0.5, **options), python)
    async with link:
        held = Session(link)
        await eventually(lambda: held.told, "no records came")
        yield held
        await held.end()
