"""Leads the workers of a load: deals the prompts, merges what they measure, and writes it out as events.

Events are those of console/domain/bench/load.py, one JSON object a line. stdin is the life line: its end, or
no byte for 10 s, ends the load, as SIGTERM does; what is in flight is then cut and told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import signal
import socket
import sys
import time
from typing import Any, Dict, Iterable, NamedTuple

import httpx

from .frames import FrameReader
from .loaddeck import Deck
from .loadmerge import PhaseMerge, Requests
from .loadworker import MEASURED, START, WARMUP, Phase, work
from .tether import tie

SILENCE_S = 10.0
BATCH_S = 0.5
START_IN_S = 0.02
"""From the word to the first dispatch: every worker has heard it by then."""
END_S = 0.8
"""After a stop the workers have half of it, and who reads the rest."""
READ_SIZE = 1 << 16

Spec = Dict[str, Any]
Event = Dict[str, Any]


class Lines:
    """Events out, a line each. It never waits for the reader: what is not taken is kept."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._waiting = bytearray()
        self._empty = asyncio.Event()

    def put(self, event: Event) -> None:
        """One event."""
        self._waiting += json.dumps(event, separators=(",", ":")).encode() + b"\n"
        self._flush()

    async def taken(self) -> None:
        """Wait until all was read, or nobody reads any more."""
        await self._empty.wait()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        self._empty.clear()
        try:
            while self._waiting:
                del self._waiting[: os.write(self._fd, self._waiting[:READ_SIZE])]
        except BlockingIOError:
            loop.add_writer(self._fd, self._flush)
            return
        except BrokenPipeError:
            self._waiting.clear()
        loop.remove_writer(self._fd)
        self._empty.set()


class Member(NamedTuple):
    """A worker, seen from here."""

    number: int
    pid: int
    link: socket.socket
    frames: FrameReader


class LoadGenerator:
    """Leads the workers, which run already."""

    def __init__(self, spec: Spec, members: list[Member], client: str, stdout: int) -> None:
        self._members = members
        self._client = client
        self._lines = Lines(stdout)
        self._warmup = PhaseMerge(len(members), len(spec["warmup"]), measured=False)
        self._measured = PhaseMerge(len(members), len(spec["prompts"]), measured=True)
        self._requests = Requests()
        self._living = len(members)
        self._over = asyncio.Event()
        """Every worker has ended, or was given up."""
        self._stopped_at: float | None = None
        self._failure: str | None = None
        self._heard_at = time.monotonic()

    async def run(self, stdin: int) -> None:
        """From the first event to the last."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(stdin, self._hear, stdin)
        for member in self._members:
            member.link.setblocking(False)
            loop.add_reader(member.link, self._listen, member)
        pids = [os.getpid(), *(member.pid for member in self._members)]
        self._lines.put({"event": "begun", "pids": pids, "client": self._client})
        ticker = asyncio.create_task(self._tick())
        await self._over.wait()
        self._put(self._requests.batches())
        self._lines.put(self._last_event())
        await self._until_taken()
        ticker.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(BATCH_S)
            # Every worker has told of its first dispatch then, which all times count from.
            if self._measured.told:
                self._put(self._requests.batches())
            if time.monotonic() - self._heard_at > SILENCE_S:
                self._stop()

    async def _until_taken(self) -> None:
        """Until all was read; after a stop, not for long."""
        while self._stopped_at is None or time.monotonic() < self._stopped_at + END_S:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._lines.taken(), END_S / 10)
                return

    def _hear(self, stdin: int) -> None:
        self._heard_at = time.monotonic()
        if not os.read(stdin, READ_SIZE):
            asyncio.get_running_loop().remove_reader(stdin)
            self._stop()

    def _stop(self) -> None:
        """Have the workers cut what is in flight. They tell it, and end; they are not waited for long."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            asyncio.get_running_loop().call_later(END_S / 2, self._over.set)
            for member in self._members:
                with contextlib.suppress(OSError):
                    member.link.shutdown(socket.SHUT_WR)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._stop()

    def _listen(self, member: Member) -> None:
        try:
            data = member.link.recv(READ_SIZE)
        except ConnectionResetError:
            data = b""
        for header, body in member.frames.feed(data):
            self._take(member.number, header, body)
        if not data:
            self._lose(member)

    def _lose(self, member: Member) -> None:
        asyncio.get_running_loop().remove_reader(member.link)
        self._living -= 1
        if self._stopped_at is None and not self._measured.has_ended(member.number):
            self._fail("a worker of the load generator ended before it was done")
        if not self._living:
            self._over.set()

    def _take(self, worker: int, header: Event, body: bytes) -> None:
        kind = header["kind"]
        if kind == "request":
            self._requests.take(worker, header, body)
        elif kind == "first":
            self._requests.first(header["at"])
        elif header["phase"] == MEASURED:
            self._put(self._measured.take(worker, header))
        else:
            self._put(self._warmup.take(worker, header))
            if self._warmup.over and self._stopped_at is None:
                self._begin()

    def _begin(self) -> None:
        """All workers are warm."""
        warmup = self._warmup
        if warmup.done and warmup.failed == warmup.done:
            self._fail(f"every request of the warm-up failed: {warmup.reason}")
            return
        start = START.pack(time.monotonic() + START_IN_S)
        for member in self._members:
            with contextlib.suppress(OSError):
                member.link.send(start)

    def _put(self, events: Iterable[Event]) -> None:
        for event in events:
            self._lines.put(event)

    def _last_event(self) -> Event:
        if self._failure is not None:
            return {"event": "failed", "reason": self._failure}
        return {
            "event": "done",
            "duration_s": round(self._requests.duration_s, 6),
            **self._measured.health(),
            "stopped": self._requests.answered < self._measured.of,
        }


def start_workers(spec: Spec, phases: tuple[Phase, Phase], begun: float) -> list[Member]:
    """Fork them. In a worker this does not return."""
    count = max(1, min(spec["workers"], spec["concurrency"]))
    members: list[Member] = []
    for number in range(count):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            tie()
            for link in (ours, *(member.link for member in members)):
                link.close()
            places = spec["concurrency"] // count + (number < spec["concurrency"] % count)
            work(spec, places, theirs, phases, begun)
            sys.exit()
        theirs.close()
        members.append(Member(number, pid, ours, FrameReader()))
    return members


def generate(spec: Spec) -> None:
    """Carry out a load, from stdin to stdout."""
    begun = time.monotonic()
    warmup, prompts = spec["warmup"], spec["prompts"]
    phases = Phase(WARMUP, warmup, Deck(len(warmup))), Phase(MEASURED, prompts, Deck(len(prompts)))
    members = start_workers(spec, phases, begun)
    for phase in phases:
        phase.deck.deal()
    client = f"httpx {httpx.__version__} on Python {platform.python_version()}"

    async def lead() -> None:
        await LoadGenerator(spec, members, client, 1).run(0)

    asyncio.run(lead())
    for member in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.pid, signal.SIGKILL)
        os.waitpid(member.pid, 0)
