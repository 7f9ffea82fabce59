"""Which GPUs this host has. One that was seen once keeps its row, whatever becomes of it."""

from __future__ import annotations

from itertools import chain, count
from typing import Any, Iterable, Mapping, NamedTuple

from .gpu_source import Row, blank_row

UNLISTED = "the driver no longer lists this GPU"


class Identity(NamedTuple):
    """What does not change about a GPU; None where it could not be read."""

    uuid: str | None = None
    name: str | None = None
    bus_id: str | None = None
    numa_node: int | None = None


def short_bus_id(bus_id: str) -> str:
    """A PCI address as sysfs spells it, `0000:ba:00.0`, from NVML's `00000000:BA:00.0`."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


class Roster:
    """Index to identity, as first seen.

    Drivers may leave a lost GPU out when they are opened anew, which shifts the positions of those behind it;
    the roster goes by uuid, so that no row moves.
    """

    def __init__(self) -> None:
        self._known: dict[int, Identity] = {}

    def place(self, found: Mapping[int, Identity]) -> dict[int, int]:
        """The index of each GPU that the driver lists, by its position in the driver's list."""
        by_uuid = {gpu.uuid: index for index, gpu in self._known.items() if gpu.uuid}
        placed = {at: by_uuid[gpu.uuid] for at, gpu in found.items() if gpu.uuid in by_uuid}
        for at in sorted(set(found) - set(placed)):
            placed[at] = self._free(at, set(placed.values()))
        for at, index in placed.items():
            self.learn(index, found[at])
        return placed

    def learn(self, index: int, gpu: Identity) -> None:
        """Remember who is at an index; what cannot name itself does not displace what could."""
        if gpu.uuid or index not in self._known:
            self._known[index] = gpu

    def _free(self, wanted: int, taken: set[int]) -> int:
        """The wanted index; when that is taken, one that is known but missing, else a new one."""
        return next(index for index in chain((wanted,), sorted(self._known), count()) if index not in taken)

    def bus_ids(self) -> dict[str, int]:
        """The index of each GPU whose PCI address is known, by that address as sysfs spells it."""
        return {short_bus_id(gpu.bus_id): index for index, gpu in self._known.items() if gpu.bus_id}

    def row(self, index: int, **values: Any) -> Row:
        """A row with the GPU's identity and the values given."""
        row = blank_row(index)
        row.update(self._known.get(index, Identity())._asdict())
        row.update(values)
        return row

    def absent(self, present: Iterable[int]) -> list[Row]:
        """Rows for the known GPUs that are not among `present`."""
        missing = sorted(set(self._known) - set(present))
        return [self.row(index, state="lost", note=UNLISTED) for index in missing]

    def unreadable(self) -> list[Row]:
        """Rows for all known GPUs while none can be read."""
        return [self.row(index, state="unreadable") for index in sorted(self._known)]
