"""One process of the load generator: so many requests in flight, and a time stamp for all that arrives.

It tells its leader (loadlead.py), in frames over a socket, all that it measures; times are absolute times of
the monotonic clock, which processes share. Frames, by header["kind"]:
    second   phase, and the fields of a report of loadstats.Progress
    first    at: when the first request was sent
    request  the fields of loadanswer.Answer.timing; the body holds the arrivals of its chunks as doubles
    over     phase, reason: of the first failure, and the fields of loadstats.Progress.health
The leader sends the start of the measured phase, one double, when every worker is warm. The end of the
socket, at any time, cuts the requests in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import struct
import time
from array import array
from typing import Any, Dict, NamedTuple, Sequence

from .frames import FrameWriter
from .loaddeck import Deck
from .loadrequest import Endpoint, Flight
from .loadstats import LoopLag, Progress

START = struct.Struct("=d")
TICK_S = 0.1
"""How often what idles is looked for, and frames are sent."""
COLLECT_EVERY = 64
"""Requests. Each leaves some 60 objects in cycles; those of so many are found within a millisecond, and not
while nobody asked for it."""
WARMUP, MEASURED = "warmup", "measured"

Spec = Dict[str, Any]


class Phase(NamedTuple):
    """Prompts, and who takes which."""

    name: str
    prompts: Sequence[str]
    deck: Deck


class Worker:
    """`places` requests in flight through `warmup`, then, when told to, through `measured`."""

    def __init__(self, spec: Spec, places: int, link: socket.socket) -> None:
        self._spec = spec
        self._places = places
        self._link = link
        self._writer = FrameWriter(link.fileno())
        self._endpoint = Endpoint(spec)
        self._lag = LoopLag()
        self._flights: set[Flight] = set()
        self._stopped: str | None = None
        """Why."""
        self._started: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

    async def run(self, warmup: Phase, measured: Phase, begun: float) -> None:
        """Do it all. `begun` is when the generator was started, on the monotonic clock."""
        loop = asyncio.get_running_loop()
        self._link.setblocking(False)
        loop.add_reader(self._link, self._hear)
        loop.add_reader(self._lag.fd, self._lag.probe)
        async with self._endpoint.client:
            await self._go_through(warmup, begun)
            self._writer.flush()
            start = await self._started
            if start is not None:
                await self._measure(measured, start)
        await self._say_the_rest()

    async def _measure(self, phase: Phase, start: float) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        await asyncio.sleep(max(0.0, start - time.monotonic()))
        limit_s = self._spec.get("total_limit_s")
        if limit_s is not None:
            reason = f"the time given, {limit_s:g} s, was over"
            asyncio.get_running_loop().call_later(limit_s, self._stop, reason)
        await self._go_through(phase, start)

    async def _go_through(self, phase: Phase, start: float) -> None:
        progress = Progress(start, self._lag)
        ticker = asyncio.create_task(self._tick(phase, progress))
        places = [asyncio.create_task(self._place(phase, progress)) for _ in range(self._places)]
        try:
            reasons = await asyncio.gather(*places)
        finally:
            ticker.cancel()
        self._tell_seconds(phase, progress)
        self._tell("second", phase=phase.name, **progress.report())
        reason = next(filter(None, reasons), None)
        self._tell("over", phase=phase.name, reason=reason, **progress.health())

    async def _place(self, phase: Phase, progress: Progress) -> str | None:
        """One prompt after the other; returns the reason of the first failure."""
        reason = None
        while self._stopped is None:
            index = await phase.deck.take()
            if index is None:
                break
            timing = await self._fly(phase, index, progress)
            reason = reason or timing["reason"]
        return reason

    async def _fly(self, phase: Phase, index: int, progress: Progress) -> dict[str, Any]:
        def sent(at: float) -> None:
            if phase.name == MEASURED and progress.done == 0:
                self._tell("first", at=at)

        flight = Flight(index, sent, progress.chunk)
        self._flights.add(flight)
        progress.in_flight += 1
        await flight.fly(self._endpoint, phase.prompts[index])
        progress.in_flight -= 1
        self._flights.discard(flight)
        timing = flight.answer.timing()
        progress.done += 1
        progress.failed += timing["failure"] is not None
        if progress.done % COLLECT_EVERY == 0:
            gc.collect()
        if phase.name == MEASURED:
            self._writer.put(dict(timing, kind="request"), array("d", flight.answer.chunks).tobytes())
        return timing

    async def _tick(self, phase: Phase, progress: Progress) -> None:
        while True:
            await asyncio.sleep(min(TICK_S, max(0.0, progress.next_report - time.monotonic())))
            self._tell_seconds(phase, progress)
            self._cut_what_idles()
            self._writer.flush()

    def _tell_seconds(self, phase: Phase, progress: Progress) -> None:
        while time.monotonic() >= progress.next_report:
            self._tell("second", phase=phase.name, **progress.report())

    def _cut_what_idles(self) -> None:
        limit_s = self._spec["idle_limit_s"]
        before = time.monotonic() - limit_s
        for flight in self._flights:
            if flight.heard_at < before:
                flight.end("timed out", f"nothing came for {limit_s:g} s")

    def _stop(self, reason: str) -> None:
        self._stopped = reason
        for flight in self._flights:
            flight.end("stopped", reason)

    def _hear(self) -> None:
        """The start of the measured phase, or the end."""
        try:
            data = self._link.recv(START.size)
        except ConnectionResetError:
            data = b""
        if data and not self._started.done():
            self._started.set_result(START.unpack(data)[0])
        elif not data:
            asyncio.get_running_loop().remove_reader(self._link)
            self._stop("the load was stopped")
            if not self._started.done():
                self._started.set_result(None)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._writer.put(dict(fields, kind=kind))

    async def _say_the_rest(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._writer.flush()
            while not self._writer.idle:
                await asyncio.sleep(TICK_S / 10)
                self._writer.flush()


def work(spec: Spec, places: int, link: socket.socket, phases: tuple[Phase, Phase], begun: float) -> None:
    """The whole life of a worker's process."""
    # Who reads the generator's output, or holds its life line, is not to wait for the workers.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    for phase in phases:
        phase.deck.receive()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        asyncio.run(measure(spec, places, link, phases, begun))


async def measure(
    spec: Spec, places: int, link: socket.socket, phases: tuple[Phase, Phase], begun: float
) -> None:
    """A worker, made where its loop runs."""
    await Worker(spec, places, link).run(*phases, begun)
