"""GPUs and host at one instant, as the agent reads them.

Units are in the names: `_pct` 0-100, `_w` watts, `_mib` mebibytes, `_c` degrees Celsius, `_mhz`, `_mb_s`
megabytes (10^6 bytes) a second. `None` is a value that could not be read; it is never shown as 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

GpuState = Literal["ok", "mig", "lost", "needs reset", "unreadable"]
"""`lost`: fell off the bus. `mig`: split, so that whole-card utilisation does not exist."""

SmSource = Literal["activity", "utilization"]
"""What `sm_pct` is: GPM's SM activity, or NVML's utilisation (a share of time with any kernel)."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process with a compute context on a GPU."""

    pid: int
    name: str | None = None
    mem_mib: float | None = None
    server_pid: int | None = None
    """The SGLang server or router it descends from, by ancestry or process session; None for others."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU at one instant. Rows keep their index and uuid even when nothing else can be read."""

    index: int
    uuid: str | None = None
    name: str | None = None
    bus_id: str | None = None
    numa_node: int | None = None
    state: GpuState = "ok"
    note: str | None = None
    """The driver's own words for what is wrong, such as `GPU is lost` or `[Unknown Error]`."""
    busy_pct: float | None = None
    """NVML utilisation: share of time in which at least one kernel ran."""
    activity_pct: float | None = None
    """GPM SM activity, where the card answers GPM."""
    occupancy_pct: float | None = None
    tensor_pct: float | None = None
    dram_pct: float | None = None
    pcie_tx_mb_s: float | None = None
    pcie_rx_mb_s: float | None = None
    power_w: float | None = None
    power_kind: Literal["average", "instant"] | None = None
    """What `power_w` is: a one-second average (newer parts) or the instant."""
    power_limit_w: float | None = None
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    temp_c: float | None = None
    clock_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    """Why the clock is held down (`power cap`, `thermal`, …); empty when nothing does; None unreadable."""
    processes: tuple[GpuProcess, ...] | None = None

    @property
    def sm_pct(self) -> float | None:
        """SM activity where GPM answers, else utilisation."""
        return self.busy_pct if self.activity_pct is None else self.activity_pct

    @property
    def sm_source(self) -> SmSource | None:
        """Which of the two `sm_pct` is; None when neither could be read."""
        if self.activity_pct is not None:
            return "activity"
        return "utilization" if self.busy_pct is not None else None

    @property
    def power_share_pct(self) -> float | None:
        """Power as a share of the enforced limit."""
        if self.power_w is None or not self.power_limit_w:
            return None
        return 100.0 * self.power_w / self.power_limit_w


class GpuReport(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of a host in one reading, and where the reading came from."""

    source: Literal["nvml", "nvidia-smi", "none"]
    reason: str | None = None
    """One sentence when there is something to say: why there are no GPUs, or why telemetry is stalled."""
    driver: str | None = None
    age_s: float = 0.0
    """Seconds between the reading and the sample that carries it: grows while the driver hangs."""
    gpus: tuple[GpuSample, ...] = ()


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """The machine itself."""

    hostname: str
    time: float
    """The host's own clock, seconds since the epoch."""
    boot_id: str | None = None
    uptime_s: float | None = None
    cpus: int | None = None
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    cpu_pct: float | None = None
    mem_total_mib: float | None = None
    mem_available_mib: float | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One telemetry frame of the agent."""

    seq: int
    host: HostSample
    gpu: GpuReport
    dropped: int = 0
    """Samples that were thrown away because the connection could not take them, since the start."""


NO_GPUS = GpuReport(source="none", reason="no reading yet")
