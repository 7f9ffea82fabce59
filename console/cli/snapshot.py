"""Watch a host just long enough to know how it stands, for `status`."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import msgspec

from console.cli.target import Target
from console.domain.gpu import Sample
from console.domain.host_view import HostView
from console.domain.observation import Ended, Servers, Update
from console.domain.run_record import HostRecords
from console.domain.server_view import ServerView
from console.domain.throughput import Throughput

LIMIT_S = 12.0
"""After the connection stands: what is not known by then is said to be unknown."""

ENOUGH_SAMPLES = 3
"""The first is sent at once, with or without GPUs; the next two carry readings an interval apart."""


class Snapshot(msgspec.Struct, kw_only=True):
    """What is known so far."""

    host: HostView | None = None
    sample: Sample | None = None
    servers: Servers | None = None
    records: HostRecords | None = None
    throughput: Throughput | None = None

    def take(self, update: Update) -> None:
        """Learn from one update."""
        match update:
            case HostView():
                self.host = update
            case Sample():
                self.sample = update
            case Servers():
                self.servers = update
            case HostRecords():
                self.records = update
            case Throughput():
                self.throughput = update

    def is_complete(self) -> bool:
        """Two readings of the GPUs (GPM needs two), every server asked, and a rate between two scrapes."""
        if self.sample is None or self.sample.seq < ENOUGH_SAMPLES or self.servers is None:
            return False
        views = [view for view in self.servers.views if view.state not in ("gone", "failed")]
        return all(_was_asked(view) for view in views) and (not views or self._has_rates(views))

    def _has_rates(self, views: list[ServerView]) -> bool:
        serving = [view for view in views if view.process.role != "router" and view.state == "ready"]
        if not serving or all(view.metrics_note for view in serving):
            return True
        rated = self.throughput is not None and self.throughput.gen_tok_s is not None
        return rated or not any(view.process.role in ("single", "decode") for view in serving)


def _was_asked(view: ServerView) -> bool:
    return view.state == "ready" or view.health_note is not None or view.reason is not None


async def snapshot(target: Target) -> Snapshot:
    """Connect and watch until everything is known, 12 s at most. Raises HostError."""
    seen = Snapshot()
    deadline: float | None = None
    async with aclosing(target.updates()) as updates:
        while deadline is None or time.monotonic() < deadline:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                # Not wait_for: Python 3.11's takes a Ctrl-C that comes with an update for nothing.
                async with asyncio.timeout(left):
                    update = await anext(updates)
            except TimeoutError:
                break
            if isinstance(update, Ended):
                raise update.error
            seen.take(update)
            if deadline is None and isinstance(update, Sample):
                deadline = time.monotonic() + LIMIT_S
            if seen.is_complete():
                break
    return seen
