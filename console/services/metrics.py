"""What the endpoints of one server say, asked again and again through the host's tunnel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from console.domain.metrics import Reading, parse_reading, parse_router_reading, rates
from console.domain.readiness import conclude
from console.remote.sglang import SglangClient
from console.services.runs import Figures, Run

SCRAPE_S = 2.0
STARTING_HEALTH_S = 2.0
ENDING_START_HEALTH_S = 0.4
"""Once the ready line has come, somebody waits for the answer."""
LOOK_S = 0.1
"""So soon after the ready line the question is asked."""
READY_HEALTH_S = 15.0
"""A health check is a request of one token: rare once the server is ready."""
READY_ROUTER_S = 5.0
"""/readiness costs nothing but four lines in the router's log."""

Changed = Callable[[], None]


class Probe:
    """Asks one server for its health and its metrics, and puts the answers into its run."""

    def __init__(self, client: SglangClient, run: Run, changed: Changed) -> None:
        self._client = client
        self._run = run
        self._changed = changed
        self._previous: Reading | None = None
        self._workers_total: int | None = None
        self._is_router = run.process.role == "router"

    async def watch(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_health())
            group.create_task(self._watch_metrics())

    async def _watch_health(self) -> None:
        while True:
            await (self._ask_readiness() if self._is_router else self._ask_health())
            self._changed()
            await self._pause()

    async def _pause(self) -> None:
        """Until the next question is due, which may come to be earlier meanwhile."""
        begun, left = time.monotonic(), self._health_pause_s()
        while left > 0:
            # Only a plan that waits for a start is in a hurry.
            await asyncio.sleep(min(left, SCRAPE_S if left > STARTING_HEALTH_S else LOOK_S))
            left = begun + self._health_pause_s() - time.monotonic()

    def _health_pause_s(self) -> float:
        evidence = self._run.evidence
        if conclude(evidence)[0] == "ready" and not evidence.reds:
            return READY_ROUTER_S if self._is_router else READY_HEALTH_S
        is_awaited = evidence.ready_line and not evidence.was_ready
        return ENDING_START_HEALTH_S if is_awaited else STARTING_HEALTH_S

    async def _ask_health(self) -> None:
        port = self._run.port
        if port is None:
            self._run.told("unknown", "its port is not known")
            return
        health = await self._client.health(port)
        self._run.told(health.state, health.note)
        if health.state == "green" and self._run.figures.version is None:
            info = await self._client.server_info(port)
            if info is not None and info.version is not None:
                self._figure(version=info.version)

    async def _ask_readiness(self) -> None:
        if self._run.port is None:
            await self._find_router_port()
        port = self._run.port
        if port is None:
            self._run.told("unknown", "its port is not known")
            return
        readiness = await self._client.readiness(port)
        self._run.told(readiness.state, readiness.note)
        if readiness.total != self._workers_total or readiness.state != "green":
            workers = await self._client.workers(port)
            self._figure(workers=None if workers is None else workers.summary)
            self._workers_total = readiness.total

    async def _find_router_port(self) -> None:
        """A router that renamed itself leaves no flags; of its ports, the one that answers /readiness is
        it."""
        for port in self._run.process.listening or ():
            if (await self._client.readiness(port)).state in ("green", "red"):
                self._figure(port=port)
                return

    async def _watch_metrics(self) -> None:
        while True:
            begun = time.monotonic()
            await (self._scrape_router() if self._is_router else self._scrape())
            self._changed()
            await asyncio.sleep(max(0.2, begun + SCRAPE_S - time.monotonic()))

    async def _scrape(self) -> None:
        port = self._run.port
        if port is None:
            return
        page = await self._client.metrics(port)
        at = time.monotonic()
        if page.text is None:
            self._previous = None
            self._run.figures = msgspec.structs.replace(no_figures(self._run.figures), metrics_note=page.note)
            return
        reading = parse_reading(page.text, at)
        self._figure(
            metrics_note=reading.note,
            rates=rates(self._previous, reading),
            running=_whole(reading.running),
            queued=_whole(reading.queued),
            transferring=_transferring(reading),
            kv_pct=None if reading.kv_usage is None else 100 * reading.kv_usage,
        )
        self._previous = reading

    async def _scrape_router(self) -> None:
        port = self._metrics_port()
        if port is None:
            return
        page = await self._client.metrics(port)
        if page.text is None:
            self._figure(metrics_note=page.note, running=None, open_breakers=None)
            return
        reading = parse_router_reading(page.text, time.monotonic())
        self._figure(
            metrics_note=reading.note, running=_whole(reading.active), open_breakers=reading.open_breakers
        )

    def _metrics_port(self) -> int | None:
        if self._run.process.metrics_port is not None:
            return self._run.process.metrics_port
        others = [port for port in self._run.process.listening or () if port != self._run.port]
        return others[0] if len(others) == 1 and self._run.port is not None else None

    def _figure(self, **changes: object) -> None:
        self._run.figures = msgspec.structs.replace(self._run.figures, **changes)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _transferring(reading: Reading) -> int | None:
    queues = (
        reading.bootstrap_queue,
        reading.inflight_queue,
        reading.prealloc_queue,
        reading.transfer_queue,
    )
    known = [queue for queue in queues if queue is not None]
    return _whole(sum(known)) if known else None


def no_figures(figures: Figures) -> Figures:
    """The figures once the server cannot be asked: what was found stays, what moves is unknown."""
    return Figures(version=figures.version, port=figures.port, workers=figures.workers)
