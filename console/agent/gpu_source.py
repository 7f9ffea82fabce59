"""What the sampler asks of a source of GPU readings: NVML or nvidia-smi."""

from __future__ import annotations

from typing import Any, Dict, Protocol

Row = Dict[str, Any]
"""One GPU: the fields of console.domain.gpu.GpuSample. `blank_row` has them all."""

RETRY_S = 30.0
"""What failed is tried again this often: opening the driver anew each second would itself be a load."""

MIG_NOTE = "MIG is on: no utilisation of the whole card"

SICK = ("lost", "needs reset", "unreadable")
"""States of a GPU that may heal and is then looked for anew."""


class Unavailable(Exception):
    """No GPU can be read. The message is a sentence for people; `driver` the loaded version where known."""

    def __init__(self, reason: str, driver: str | None = None) -> None:
        super().__init__(reason)
        self.driver = driver


class Source(Protocol):
    """An open way to the driver."""

    name: str
    """`nvml` or `nvidia-smi`."""
    title: str
    """What to call it when it does not answer."""
    paced: bool
    """True when `read` itself waits until the next reading is due."""
    driver: str | None

    def read(self, interval: float) -> list[Row]:
        """One row for each GPU, by index. May block for as long as the driver does. Raises Unavailable."""

    def close(self) -> None:
        """Let go of the driver."""


def blank_row(index: int) -> Row:
    """A row in which nothing has been read."""
    return {
        "index": index,
        "uuid": None,
        "name": None,
        "bus_id": None,
        "numa_node": None,
        "state": "ok",
        "note": None,
        "busy_pct": None,
        "activity_pct": None,
        "occupancy_pct": None,
        "tensor_pct": None,
        "dram_pct": None,
        "pcie_tx_mb_s": None,
        "pcie_rx_mb_s": None,
        "power_w": None,
        "power_kind": None,
        "power_limit_w": None,
        "mem_used_mib": None,
        "mem_total_mib": None,
        "temp_c": None,
        "clock_mhz": None,
        "throttle": None,
        "processes": None,
    }
