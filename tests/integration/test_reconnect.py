"""A lost connection: said within 16 s, back within 5 s, and not one log line lost or doubled."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from subprocess import Popen

import pytest

from console.domain.host_view import HostView
from console.domain.observation import LogUpdate, Update
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from console.services.telemetry import HostWatch, Identity
from tests.integration import numbered
from tests.integration.sshd import SshServer


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Popen[bytes]]:
    process = numbered.start(tmp_path, str(tmp_path))
    yield process
    process.kill()
    process.wait()


class Watched:
    """Takes the updates of a watch, and lets a test wait for what it wants to see."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.host = HostView(name="")
        self.news = asyncio.Condition()

    async def follow(self, updates: AsyncGenerator[Update, None]) -> None:
        async with aclosing(updates):
            async for update in updates:
                async with self.news:
                    if isinstance(update, LogUpdate):
                        self.lines += [line.text for line in update.lines]
                    elif isinstance(update, HostView):
                        self.host = update
                    self.news.notify_all()

    async def until(self, condition: Callable[[], bool], limit_s: float) -> float:
        begun = time.monotonic()
        async with asyncio.timeout(limit_s), self.news:
            await self.news.wait_for(condition)
        return time.monotonic() - begun


def numbers(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines]


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_no_line_is_lost_or_doubled(gpu_box: SshServer, writer: Popen[bytes], how: str) -> None:
    watched = Watched()
    watch = HostWatch(Identity(name="gpu-box"), lambda: SshHost("gpu-box"), AgentOptions(), sys.executable)
    following = asyncio.create_task(watched.follow(watch.updates()))
    try:
        await watched.until(lambda: len(watched.lines) > 300, 15.0)
        if how == "killed":
            gpu_box.stop()
            await watched.until(lambda: watched.host.connection == "lost", 16.0)
            gpu_box.start()
        else:
            with gpu_box.frozen():
                await watched.until(lambda: watched.host.connection == "lost", 16.0)
        await watched.until(lambda: watched.host.connection == "up", 5.0)
        seen = len(watched.lines)
        await watched.until(lambda: len(watched.lines) > seen + 500, 10.0)
    finally:
        following.cancel()
        await asyncio.wait([following])
    found = numbers(watched.lines)
    assert found == list(range(found[0], found[0] + len(found)))
