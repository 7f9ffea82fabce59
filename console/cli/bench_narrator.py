"""Tells on stderr how a measurement goes: one line, redrawn on a terminal, now and then in a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from console.domain.bench.benching import BenchEvent, BenchPhase
from console.domain.bench.load import LoadSecond
from console.domain.printable import printable

EVERY_S = 10.0
"""In a pipe, where each line stays."""
LATE_MS = 20.0
"""A load generator whose loop is later than that is told of."""
CLEARED = "\r\x1b[K"


class BenchNarrator:
    """One plan's teller."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._redraws = self._stream.isatty()
        self._clock = clock
        self._told_at = float("-inf")
        self._of = ""

    def tell(self, event: BenchEvent) -> None:
        """Say how far it is; results are for others to print."""
        match event:
            case BenchPhase():
                self._of = _of(event)
                self._say(f"{self._of}{event.text}")
                self._told_at = self._clock()
            case LoadSecond() if self._is_due():
                self._say(f"{self._of}{_progress(event)}")
                self._told_at = self._clock()

    def clear(self) -> None:
        """Take the line back, for something else to be printed."""
        if self._redraws:
            self._write(CLEARED)

    def _is_due(self) -> bool:
        return self._redraws or self._clock() - self._told_at >= EVERY_S

    def _say(self, text: str) -> None:
        if self._redraws:
            columns = shutil.get_terminal_size().columns
            self._write(f"{CLEARED}{printable(text)[: columns - 1]}")
        else:
            self._write(f"{printable(text)}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _of(phase: BenchPhase) -> str:
    count = f"{phase.number}/{phase.of} " if phase.of > 1 else ""
    concurrency = "" if phase.concurrency is None else f"C={phase.concurrency} "
    return f"{count}{concurrency}".rstrip() + ": " if count or concurrency else ""


def _progress(now: LoadSecond) -> str:
    """`37 of 96 ended, 16 in flight, 812 chunks/s, about 20 s left`."""
    if now.second < 0:
        return f"warming up, {now.done} of {now.of} ended"
    parts = [f"{now.done} of {now.of} ended", f"{now.in_flight} in flight", f"{now.chunks:,} chunks/s"]
    parts += [f"{now.failed} failed"] if now.failed else []
    parts += [f"the client is {now.lag_ms:.0f} ms late"] if now.lag_ms >= LATE_MS else []
    if 0 < now.done < now.of:
        parts.append(f"about {(now.second + 1) * (now.of - now.done) / now.done:.0f} s left")
    return ", ".join(parts)
