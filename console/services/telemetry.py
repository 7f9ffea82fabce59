"""One host, watched: the connection, its samples, servers, logs and rates as one stream of values."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence

from console.domain.errors import ConnectionLost
from console.domain.gpu import Sample
from console.domain.logclass import LinePattern
from console.domain.observation import Ended, Servers, Update
from console.domain.run_record import HostRecords
from console.domain.server_view import ServerView
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.frames import LogBytes, ServersFound, TailEvent
from console.remote.sglang import SglangClient
from console.remote.tunnel import HostTransport
from console.services.log_questions import LogQuestions
from console.services.logs import FIRST_LINES
from console.services.metrics import no_figures
from console.services.probes import Probes
from console.services.rates import throughput
from console.services.runs import Run, Runs
from console.services.session import Event, LinkDown, LinkUp, OpenHost, session
from console.services.standing import Identity, Standing

__all__ = ["AgentOptions", "HostWatch", "Identity"]

WAITING_UPDATES = 256
"""A screen that is slower than the host makes the host wait: nothing is buffered without limit."""
RATE_S = 2.0
TICK_S = 1.0


class HostWatch:
    """Watches one host from the first connection to the end of the generator."""

    def __init__(
        self,
        identity: Identity,
        open_host: OpenHost,
        options: AgentOptions,
        python: str | None = None,
        log_lines: int = FIRST_LINES,
        patterns: Sequence[LinePattern] = (),
    ) -> None:
        self._standing = Standing(identity, options.interval)
        self._events = session(open_host, options, python)
        self._runs = Runs(log_lines, patterns)
        self._probes = Probes(self._note_change)
        self._queue: asyncio.Queue[Update] = asyncio.Queue(WAITING_UPDATES)
        self._client: SglangClient | None = None
        self._looked = False
        self._look_note: str | None = None
        self.logs = LogQuestions(self._runs, self._standing)
        self._servers_changed = False
        self._records = HostRecords()
        self._pulse = asyncio.Event()
        self._sample: Sample | None = None

    @property
    def link(self) -> AgentLink:
        """The agent. Raises ConnectionLost while there is none."""
        if self._standing.link is None:
            raise ConnectionLost("the host is not connected", cause=self._standing.view().detail or "")
        return self._standing.link

    @property
    def client(self) -> SglangClient:
        """Asks the host's ports. Raises ConnectionLost while there is no connection."""
        if self._client is None:
            raise ConnectionLost("the host is not connected")
        return self._client

    @property
    def records(self) -> HostRecords:
        """What is kept on the host, as last heard."""
        return self._records

    @property
    def skew_s(self) -> float:
        """The host's clock minus ours."""
        return self._standing.skew_s or 0.0

    @property
    def sample(self) -> Sample | None:
        """The newest."""
        return self._sample

    def server_views(self) -> tuple[ServerView, ...]:
        """All servers known, at this moment."""
        return self._runs.views()

    def set_readonly(self, on: bool) -> None:
        """Have the agent refuse every change, this one and those after a reconnect; or take that back."""
        self._standing.readonly.turn(on, self._standing.link)

    async def change(self, limit_s: float) -> None:
        """Wait until something about the servers or records has changed, `limit_s` seconds at most."""
        self._pulse.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._pulse.wait()

    async def updates(self) -> AsyncGenerator[Update, None]:
        """Everything that happens; ends after `Ended`. Closing the generator closes the connection."""
        tasks = [self._task(self._follow_events()), self._task(self._tick()), self._task(self._rate())]
        try:
            yield self._standing.view()
            while True:
                update = await self._next(tasks)
                yield update
                if isinstance(update, Ended):
                    return
        finally:
            self._probes.stop()
            await _cancel(tasks)
            await self._events.aclose()

    async def _next(self, tasks: list[asyncio.Task[None]]) -> Update:
        """The next update; an error in one of the tasks is raised here rather than lost."""
        if not self._queue.empty():
            return self._queue.get_nowait()
        getting = asyncio.create_task(self._queue.get())
        try:
            await asyncio.wait([getting, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                for task in tasks:
                    if task.done():
                        task.result()
            return await getting
        finally:
            getting.cancel()

    @staticmethod
    def _task(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    async def _follow_events(self) -> None:
        async for event in self._events:
            await self._take(event)
        # The session has said its last word; the reader of the queue ends this task.
        await asyncio.Event().wait()

    async def _take(self, event: Event) -> None:
        match event:
            case Sample():
                await self._take_sample(event)
            case LogBytes():
                await self._take_log(event)
            case TailEvent():
                await self._take_tail_event(event)
            case ServersFound():
                await self._take_servers(event)
            case HostRecords():
                self._records = event
                await self._queue.put(event)
                self._pulse.set()
            case LinkUp():
                await self._take_up(event)
            case LinkDown():
                await self._take_down(event)

    async def _take_up(self, up: LinkUp) -> None:
        self._standing.came_up(up)
        self._client = SglangClient(HostTransport(up.host))
        self._runs.booted(up.link.hello.boot_id)
        for run in self._runs:
            await self._follow_log(run)
        await self._queue.put(self._standing.view())

    async def _take_down(self, down: LinkDown) -> None:
        self._standing.went_down(down)
        self._client = None
        self._probes.stop()
        for run in self._runs:
            run.figures = no_figures(run.figures)
        await self._queue.put(self._standing.view())
        if down.retry_at is None:
            await self._queue.put(Ended(down.error))

    async def _take_sample(self, sample: Sample) -> None:
        self._sample = sample
        self._standing.sampled(sample)
        self._runs.skew_s = self._standing.skew_s or 0.0
        await self._queue.put(sample)
        await self._queue.put(self._standing.view())

    async def _take_servers(self, found: ServersFound) -> None:
        new, replaced = self._runs.found(found.servers, self._standing.utc_offset_s or 0.0)
        for run in replaced:
            await self._forget(run)
        for run in new:
            await self._follow_log(run)
        self._looked, self._look_note = True, found.note
        self._pulse.set()
        if self._client is not None:
            self._probes.ask(self._client, self._runs.alive())
        await self._put_servers()

    async def _take_log(self, chunk: LogBytes) -> None:
        run = self._runs.get(chunk.tail)
        if run is None:
            return
        update = run.log.take(chunk)
        before = run.evidence
        run.read(update.lines, time.monotonic(), update.live, update.revised)
        await self._queue.put(update)
        if run.evidence != before:
            self._note_change()

    async def _take_tail_event(self, event: TailEvent) -> None:
        run = self._runs.get(event.tail)
        if run is None:
            return
        update = run.log.told(event)
        run.read(update.lines, time.monotonic(), update.live, update.revised)
        if event.event == "opened" and run.log.from_start:
            run.opened_at_start()
        await self._queue.put(update)
        self._servers_changed = True

    async def _follow_log(self, run: Run) -> None:
        order = run.log.order()
        if order is not None and self._standing.link is not None:
            await self._standing.link.send("tail", **order)

    async def _forget(self, run: Run) -> None:
        if self._standing.link is not None:
            await self._standing.link.send("untail", tail=run.log.tail)

    def _note_change(self) -> None:
        self._servers_changed = True
        self._pulse.set()

    async def _put_servers(self) -> None:
        self._servers_changed = False
        await self._queue.put(Servers(self._runs.views(), self._looked, self._look_note))

    async def _tick(self) -> None:
        """What changes by itself: the age of things, and what probes found since."""
        while True:
            await asyncio.sleep(TICK_S / 2)
            await self._end_logs()
            if self._servers_changed:
                await self._put_servers()
            if not self._standing.is_up:
                await self._queue.put(self._standing.view())

    async def _end_logs(self) -> None:
        """The half line of a server that is gone is a line: nobody will finish it."""
        if self._standing.link is None:
            return
        for run in list(self._runs):
            update = None if run.evidence.alive else run.log.end()
            if update is not None:
                run.read(update.lines, time.monotonic(), update.live, update.revised)
                await self._queue.put(update)
                self._servers_changed = True

    async def _rate(self) -> None:
        while True:
            await asyncio.sleep(RATE_S)
            if self._looked:
                await self._queue.put(throughput(list(self._runs), time.monotonic()))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    # Awaited one by one, their cancellation could not be told from one of whoever waits here.
    await asyncio.gather(*tasks, return_exceptions=True)
