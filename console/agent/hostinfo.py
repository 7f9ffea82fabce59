"""The machine itself: clock, load, processors, memory."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, NamedTuple

from . import procfs

STAT_HEAD = 512
"""Enough for the first line of /proc/stat, which sums all processors."""
BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class CpuTicks(NamedTuple):
    """Clock ticks of all processors together since boot."""

    idle: int
    total: int


class HostInfo:
    """Samples with the fields of console.domain.gpu.HostSample."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._hostname = socket.gethostname()
        self._cpus = os.cpu_count()
        self._boot_id = text_of(proc + "/sys/kernel/random/boot_id")
        self._ticks: CpuTicks | None = None

    def sample(self) -> dict[str, Any]:
        """The host at this instant; `cpu_pct` covers the time since the last sample."""
        load1, load5, load15 = load_averages()
        memory = meminfo_mib(self._proc)
        return {
            "hostname": self._hostname,
            "time": time.time(),
            "boot_id": self._boot_id,
            "uptime_s": None if BOOT_CLOCK is None else time.clock_gettime(BOOT_CLOCK),
            "cpus": self._cpus,
            "load1": load1,
            "load5": load5,
            "load15": load15,
            "cpu_pct": self._cpu_pct(),
            "mem_total_mib": memory.get("MemTotal"),
            "mem_available_mib": memory.get("MemAvailable"),
        }

    def _cpu_pct(self) -> float | None:
        """Share of all processors' time that was not idle since the last call; None at the first."""
        before, self._ticks = self._ticks, cpu_ticks(self._proc)
        if before is None or self._ticks is None or self._ticks.total <= before.total:
            return None
        idle = (self._ticks.idle - before.idle) / (self._ticks.total - before.total)
        return min(100.0, max(0.0, 100.0 * (1.0 - idle)))


def cpu_ticks(proc: str) -> CpuTicks | None:
    """All processors together: user nice system idle iowait irq softirq steal guest guest_nice (proc(5)).

    Waiting for I/O is idle time. Guest time is left out, because user and nice already hold it.
    """
    words = (procfs.read(proc + "/stat", STAT_HEAD) or b"").partition(b"\n")[0].split()
    if len(words) < 6 or words[0] != b"cpu":
        return None
    ticks = [int(word) for word in words[1:9]]
    return CpuTicks(idle=ticks[3] + ticks[4], total=sum(ticks))


def load_averages() -> tuple[float | None, float | None, float | None]:
    """Load over 1, 5 and 15 minutes."""
    try:
        return os.getloadavg()
    except OSError:
        return None, None, None


def meminfo_mib(proc: str) -> dict[str, float]:
    """The lines of /proc/meminfo, in MiB (the file counts in KiB and says kB)."""
    found = {}
    for line in (procfs.read(proc + "/meminfo") or b"").splitlines()[:8]:
        name, _, rest = line.partition(b":")
        words = rest.split()
        if len(words) == 2 and words[1] == b"kB":
            found[name.decode("ascii")] = int(words[0]) / 1024
    return found


def text_of(path: str) -> str | None:
    """A one-line file without its line end."""
    data = procfs.read(path)
    return None if data is None else data.decode("ascii", "replace").strip()
