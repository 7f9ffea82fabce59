"""Work that is cancelled at an awkward moment ends as cancelled: who waits for its end would hang."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from console.cli.demo_host import DemoProcess
from console.remote.agent_parcel import AgentOptions
from console.remote.host import ByteChannel, ByteStream
from console.services.telemetry import HostWatch, Identity

DOORS = {"host": "127.0.0.1", "port": 22, "username": "demo", "client_key": "", "known_hosts": ""}


class SilentHost:
    """A host that never answers."""

    name = address = "silent"

    async def connect(self) -> None:
        await asyncio.Event().wait()

    async def run_shell(self) -> ByteChannel:
        raise AssertionError("there is no connection")

    async def open_tcp(self, address: str, port: int) -> ByteStream:
        raise AssertionError("there is no connection")

    async def close(self) -> None:
        """There is nothing to close."""


class SpeakingChild:
    """The demo as a child process, with a line on its stdout when it is told to speak."""

    returncode = None

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()

    def speak(self) -> None:
        self.stdout.feed_data(json.dumps(DOORS | {"variables": {}}).encode() + b"\n")


async def test_who_closes_a_watch_can_be_cancelled() -> None:
    updates = HostWatch(Identity(name="silent"), SilentHost, AgentOptions()).updates()
    await anext(updates)
    await asyncio.sleep(0)
    closing = asyncio.create_task(_close(updates))
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()


async def _close(updates: Any) -> None:
    await updates.aclose()


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_that_comes_with_the_demos_first_line_is_heeded(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    child = SpeakingChild()

    async def start(*_: str, **__: object) -> SpeakingChild:
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    opening = asyncio.create_task(DemoProcess().doors())
    for _ in range(3):
        await asyncio.sleep(0)
    child.speak()
    for _ in range(turns):
        await asyncio.sleep(0)
    asked = opening.cancel()
    await asyncio.wait({opening})
    assert opening.cancelled() == asked
