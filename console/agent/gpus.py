"""GPU telemetry: a thread that reads the driver, and the latest report for whoever asks.

The thread is there because a call into a sick driver can hang for ever, in a state that no signal ends. All
else goes on meanwhile, and the report says how old it is.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, NamedTuple, TypeVar

from . import site_packages
from .driver_files import DriverFiles
from .gpu_roster import Roster
from .gpu_source import RETRY_S, SICK, Row, Source, Unavailable
from .nvidia_smi import SmiSource
from .nvml import NvmlSource

STALLED_S = 10.0
"""A reading that is not there after this long is said to have stalled."""
SLOW_S = 2.0
"""A reading that takes longer is worth a hint."""

PERSISTENCE_HINT = "; is persistence mode off? (nvidia-smi -pm 1 turns it on)"
NO_GPUS = "the driver lists no GPU"

Clock = Callable[[], float]
T = TypeVar("T")


def open_source(roster: Roster, load: Callable[[str], Any] = site_packages.load) -> Source:
    """NVML where this Python has pynvml and the driver answers it, else nvidia-smi. Raises Unavailable."""
    files = DriverFiles()
    nvml = load("pynvml")
    if nvml is None:
        return SmiSource(roster, files)
    try:
        return NvmlSource(nvml, roster, files)
    except Unavailable as refused:
        # A driver that was replaced under this process answers new processes only.
        try:
            return SmiSource(roster, files)
        except Unavailable:
            raise refused from None


class Reading(NamedTuple):
    """What the thread hands over, in one assignment. `at` is monotonic."""

    at: float
    source: str
    driver: str | None
    reason: str | None
    rows: list[Row]


class GpuSampler:
    """Reads in a thread of its own; `report` never waits.

    There is never more than one reading under way: a slow driver is asked less often, not more at once.
    """

    def __init__(
        self,
        interval: float,
        wake: Callable[[], None] = lambda: None,
        open_source: Callable[[Roster], Source] = open_source,
        *,
        retry_s: float = RETRY_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self._interval = interval
        self._wake = wake
        self._open_source = open_source
        self._retry_s = retry_s
        self._clock = clock
        self._roster = Roster()
        self._reading = Reading(clock(), "none", None, "no reading yet", [])
        self._asked = "the driver"
        self._due: float | None = None
        """When the reading under way should have been there; None between readings."""
        self._hinted = False
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)

    def start(self) -> None:
        """Begin to read. The thread ends with the process."""
        self._thread.start()

    def set_interval(self, seconds: float) -> None:
        """Read this often from now on."""
        self._interval = seconds
        self._changed.set()

    def report(self) -> dict[str, Any]:
        """The latest reading: the fields of console.domain.gpu.GpuReport. The caller may change it."""
        reading, due, now = self._reading, self._due, self._clock()
        age = now - reading.at
        stalled = due is not None and now - due >= STALLED_S
        stall = f"GPU telemetry stalled {age:.0f} s ({self._asked} not answering)"
        return {
            "source": reading.source,
            "reason": stall if stalled else reading.reason,
            "driver": reading.driver,
            "age_s": age,
            "gpus": [copied(row) for row in reading.rows],
        }

    def _run(self) -> None:
        while True:
            try:
                source = self._ask("the driver", lambda: self._open_source(self._roster))
                self._read_from(source)
            except Unavailable as gone:
                self._hand_over("none", gone.driver, str(gone), self._roster.unreadable())
                time.sleep(self._retry_s)

    def _ask(self, who: str, call: Callable[[], T], allowance: float = 0.0) -> T:
        """Make a call that may never come back; `report` says so when it is late."""
        self._asked = who
        self._due = self._clock() + allowance
        try:
            return call()
        finally:
            self._due = None

    def _read_from(self, source: Source) -> None:
        """Read until no GPU has answered for a while: the driver is then opened anew. Raises Unavailable."""
        healthy_at = self._clock()
        try:
            while self._clock() - healthy_at < self._retry_s:
                began = self._clock()
                rows = self._read_once(source)
                if any(row["state"] not in SICK for row in rows):
                    healthy_at = self._clock()
                self._rest(source, began)
        finally:
            self._ask(source.title, source.close)

    def _read_once(self, source: Source) -> list[Row]:
        interval = self._interval
        waits = interval if source.paced else 0.0
        began = self._clock()
        rows = self._ask(source.title, lambda: source.read(interval), waits)
        reason = self._remark(self._clock() - began - waits) if rows else NO_GPUS
        self._hand_over(source.name, source.driver, reason, rows)
        return rows

    def _remark(self, took: float) -> str | None:
        """What to say about the time that a reading took; the hint is given once."""
        if took < SLOW_S:
            return None
        hint = "" if self._hinted else PERSISTENCE_HINT
        self._hinted = True
        return f"GPU readings are slow: {took:.1f} s{hint}"

    def _hand_over(self, source: str, driver: str | None, reason: str | None, rows: list[Row]) -> None:
        self._reading = Reading(self._clock(), source, driver, reason, rows)
        self._wake()

    def _rest(self, source: Source, began: float) -> None:
        """Wait until the next reading is due, by the interval as it is then."""
        if source.paced:
            return
        while self._changed.wait(max(0.0, began + self._interval - self._clock())):
            self._changed.clear()


def copied(row: Row) -> Row:
    """A row that may be changed."""
    processes = row["processes"]
    return dict(row, processes=None if processes is None else [dict(process) for process in processes])
