"""How a load worker does: what it has done in each second, its CPU, and the lag of its loop."""

from __future__ import annotations

import ctypes
import math
import os
import struct
import time
from collections import Counter
from typing import Any, Dict

PROBE_S = 0.01
CLOCK_MONOTONIC = 1
TFD_NONBLOCK = os.O_NONBLOCK
TFD_TIMER_ABSTIME = 1
NS = 1_000_000_000

Report = Dict[str, Any]


class LoopLag:
    """How late a loop comes to what is ready: a kernel timer (timerfd_create(2)) that it should see at once.

    A timer of asyncio's own would be rounded up to a millisecond by epoll_wait. Every tick counts, those also
    that a long stall made the loop miss. Raises OSError where there are no such timers.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)
        """Readable at each tick; `probe` takes them."""
        self._due = time.monotonic() + PROBE_S
        seconds, rest = divmod(int(self._due * NS), NS)
        times = (ctypes.c_long * 4)(0, int(PROBE_S * NS), seconds, rest)
        if self.fd < 0 or libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, times, None) < 0:
            raise OSError(ctypes.get_errno(), "no kernel timer for the lag of the loop")
        self.lags: list[float] = []
        """Seconds."""

    def probe(self) -> None:
        """Record the lag of every tick since the last call."""
        try:
            (ticks,) = struct.unpack("=Q", os.read(self.fd, 8))
        except BlockingIOError:
            return
        now = time.monotonic()
        self.lags.extend(max(0.0, now - self._due - tick * PROBE_S) for tick in range(ticks))
        self._due += ticks * PROBE_S

    def close(self) -> None:
        """End the timer."""
        os.close(self.fd)


class Progress:
    """One worker's counts in one phase that began at `start` of the monotonic clock."""

    def __init__(self, start: float, lag: LoopLag) -> None:
        self.start = start
        self.in_flight = self.done = self.failed = 0
        self._chunks: Counter[int] = Counter()
        self._lag = lag
        self._first_lag = self._lags_told = len(lag.lags)
        self._first_cpu = self._cpu_told = Cpu()
        self._second = 0

    @property
    def next_report(self) -> float:
        """When the second that goes on is over."""
        return self.start + self._second + 1

    def chunk(self, at: float) -> None:
        """A chunk with text came."""
        self._chunks[int(at - self.start)] += 1

    def report(self) -> Report:
        """The second that goes on: it ends with this."""
        lags, cpu = self._lag.lags, Cpu()
        report = {
            "second": self._second,
            "chunks": self._chunks.pop(self._second, 0),
            "in_flight": self.in_flight,
            "done": self.done,
            "failed": self.failed,
            "lag_ms": 1000 * max(lags[self._lags_told :], default=0.0),
            "cpu_pct": cpu.percent_since(self._cpu_told),
        }
        self._lags_told, self._cpu_told = len(lags), cpu
        self._second += 1
        return report

    def health(self) -> Report:
        """CPU and lag over the whole phase."""
        lags = sorted(self._lag.lags[self._first_lag :])
        return {
            "cpu_pct": Cpu().percent_since(self._first_cpu),
            "lag_p95_ms": 1000 * percentile(lags, 0.95),
            "lag_max_ms": 1000 * (lags[-1] if lags else 0.0),
        }


class Cpu:
    """The CPU time that this process has taken until now."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.process_time()

    def percent_since(self, earlier: Cpu) -> float:
        """Of one core."""
        return 100 * (self._used - earlier._used) / max(1e-6, self._at - earlier._at)


def percentile(ordered: list[float], share: float) -> float:
    """By nearest rank; 0 of nothing."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0
