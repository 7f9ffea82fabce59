"""What each simulated server does to which GPUs: one small JSON file a server, `state/PID.json`.

The servers write them, the simulated NVML reads them. A file counts only while its process lives.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Phase = Literal["loading", "capturing", "serving", "stopping"]


class Occupant(NamedTuple):
    """One server on its GPUs."""

    pid: int
    start_ticks: int
    """Process start in clock ticks since boot (field 22 of /proc/PID/stat): a pid used again has another."""
    role: str
    gpus: tuple[int, ...]
    ranks: tuple[int, ...]
    """The pid that holds each GPU's memory, in the order of `gpus`."""
    phase: Phase
    intensity: float
    """How hard it works, 0 to 1."""
    warmth: float
    """Intensity as the last half minute felt it."""
    mem_mib: float
    """Memory held on each of its GPUs."""
    bootstrap_port: int | None = None
    """Of a prefill server."""

    def holds(self, gpu: int) -> bool:
        """Does it use this GPU?"""
        return gpu in self.gpus


def start_ticks(pid: int) -> int | None:
    """When a process started; None when there is no such process, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def publish(host_folder: Path, occupant: Occupant) -> None:
    """Write the occupant's file, in one step for whoever reads it."""
    path = _path(host_folder, occupant.pid)
    fresh = path.with_suffix(f".{occupant.pid}")
    fresh.write_text(json.dumps(occupant._asdict()))
    os.replace(fresh, path)


def withdraw(host_folder: Path, pid: int) -> None:
    """Remove the occupant's file."""
    _path(host_folder, pid).unlink(missing_ok=True)


def occupants(host_folder: Path) -> Iterator[Occupant]:
    """The servers that live."""
    for path in sorted((host_folder / "state").glob("*.json")):
        try:
            found = Occupant(**json.loads(path.read_text()))
        except FileNotFoundError:
            continue
        if start_ticks(found.pid) == found.start_ticks:
            yield found._replace(gpus=tuple(found.gpus), ranks=tuple(found.ranks))


def _path(host_folder: Path, pid: int) -> Path:
    return host_folder / "state" / f"{pid}.json"
