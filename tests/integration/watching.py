"""A host watched over a real sshd, and what a test waits to see of it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from console.domain.host_view import HostView
from console.domain.logline import LogLine
from console.domain.observation import LogUpdate, ServerKey, Servers, Update
from console.domain.server_view import ServerView
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from console.services.telemetry import HostWatch, Identity


class Watching:
    """Everything that was seen of one host with one server."""

    def __init__(self, watch: HostWatch) -> None:
        self.watch = watch
        self.lines: list[LogLine] = []
        self.live: LogLine | None = None
        self.notes: list[str] = []
        self.host = HostView(name="")
        self.servers: tuple[ServerView, ...] = ()
        self._news = asyncio.Condition()

    @property
    def texts(self) -> list[str]:
        """The lines of the log."""
        return [line.text for line in self.lines]

    @property
    def server(self) -> ServerKey:
        """The only server."""
        (view,) = self.servers
        return view.process.key

    async def until(self, condition: Callable[[], object], limit_s: float = 15.0) -> float:
        """Wait for what happens; returns the seconds that took."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(limit_s), self._news:
                await self._news.wait_for(condition)
        except TimeoutError as error:
            seen = f"{len(self.lines)} lines, the last {self.texts[-3:]}, notes {self.notes}, {self.host}"
            raise AssertionError(f"not within {limit_s} s; seen: {seen}") from error
        return time.monotonic() - begun

    async def follow(self, updates: AsyncGenerator[Update, None]) -> None:
        """Take what the watch yields."""
        async with aclosing(updates):
            async for update in updates:
                async with self._news:
                    self._take(update)
                    self._news.notify_all()

    def _take(self, update: Update) -> None:
        if isinstance(update, LogUpdate):
            self.lines += update.lines
            self.live = update.live
            self.notes += update.notes
        elif isinstance(update, HostView):
            self.host = update
        elif isinstance(update, Servers):
            self.servers = update.views


@asynccontextmanager
async def watching(host: str, log_lines: int = 2000) -> AsyncIterator[Watching]:
    """Watch a host until the block ends."""
    watch = HostWatch(
        Identity(name=host), lambda: SshHost(host), AgentOptions(), sys.executable, log_lines=log_lines
    )
    seen = Watching(watch)
    following = asyncio.create_task(seen.follow(watch.updates()))
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.wait([following])
