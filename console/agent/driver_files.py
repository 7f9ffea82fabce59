"""What the NVIDIA kernel driver says about itself in /proc and /sys, also when NVML does not answer."""

from __future__ import annotations

import os
import re

from .gpu_roster import Identity, short_bus_id

KERNEL_MODULE = re.compile(r"NVRM version:.*?\s(\d+(?:\.\d+)+)(?:\s|$)")
UNKNOWN_UUID = "?"
"""The driver fills the uuid of a GPU that it never woke with question marks."""


class DriverFiles:
    """Readers of the driver's files under `root`."""

    def __init__(self, root: str = "/") -> None:
        self._root = root

    def _text(self, *parts: str) -> str | None:
        try:
            with open(os.path.join(self._root, *parts), errors="replace") as source:
                return source.read()
        except OSError:
            return None

    def version(self) -> str | None:
        """The version of the kernel module that is loaded now."""
        found = KERNEL_MODULE.search(self._text("proc/driver/nvidia/version") or "")
        return found.group(1) if found else None

    def numa_node(self, bus_id: str) -> int | None:
        """The NUMA node of a PCI device; None where the firmware names none (-1)."""
        text = self._text("sys/bus/pci/devices", short_bus_id(bus_id), "numa_node")
        node = int(text) if text else -1
        return node if node >= 0 else None

    def gpus(self) -> list[Identity]:
        """The GPUs that the driver is bound to, in PCI order; among them those that fell off the bus."""
        try:
            bus_ids = sorted(os.listdir(os.path.join(self._root, "proc/driver/nvidia/gpus")))
        except OSError:
            return []
        return [self._gpu(bus_id) for bus_id in bus_ids]

    def _gpu(self, bus_id: str) -> Identity:
        text = self._text("proc/driver/nvidia/gpus", bus_id, "information") or ""
        lines = (line.partition(":") for line in text.splitlines())
        said = {key.strip(): value.strip() for key, _, value in lines}
        uuid = said.get("GPU UUID", UNKNOWN_UUID)
        return Identity(
            uuid=None if UNKNOWN_UUID in uuid else uuid,
            name=said.get("Model"),
            bus_id=bus_id,
            numa_node=self.numa_node(bus_id),
        )

    def mismatch(self, library: str | None) -> str:
        """The sentence for a driver update that waits for a reboot."""
        loaded = self.version() or "(unknown version)"
        installed = library or "(unknown version)"
        return (
            f"GPU telemetry unavailable: driver {loaded} loaded, library {installed} installed"
            " - reboot needed before the next launch"
        )
