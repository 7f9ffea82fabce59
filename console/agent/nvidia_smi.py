"""nvidia-smi as the source, where the host's Python has no pynvml."""

from __future__ import annotations

import re
import subprocess
import time
from itertools import count
from typing import Any, Callable

from . import power, smi_csv
from .driver_files import DriverFiles
from .gpu_roster import Identity, Roster
from .gpu_source import Row, Unavailable
from .smi_child import environment, find
from .smi_csv import Cells, LostGpu
from .smi_stream import Batch, SmiEnded, SmiStream

APPS_S = 15.0
"""Processes are asked for by a process of their own, so seldom."""
APPS_TIMEOUT_S = 10.0
LIBRARY = re.compile(r"NVML library version: (\d+(?:\.\d+)*)")

Clock = Callable[[], float]


class SmiSource:
    """All GPUs of the host by nvidia-smi. Raises Unavailable when there is no such program."""

    name = "nvidia-smi"
    title = "nvidia-smi"
    paced = True

    def __init__(self, roster: Roster, files: DriverFiles, clock: Clock = time.monotonic) -> None:
        program = find()
        if program is None:
            raise Unavailable(
                "GPU telemetry unavailable: no pynvml, no nvidia-smi on this host", files.version()
            )
        self.driver: str | None = files.version()
        self._program = program
        self._roster = roster
        self._files = files
        self._clock = clock
        self._stream = SmiStream(program, self._bus_ids, clock)
        self._apps: dict[str, list[dict[str, Any]]] | None = None
        self._apps_at = 0.0

    def _bus_ids(self) -> set[str]:
        """The PCI addresses of the host's GPUs, as far as anything has named them."""
        return {*self._roster.bus_ids(), *(gpu.bus_id for gpu in self._files.gpus() if gpu.bus_id)}

    def read(self, interval: float) -> list[Row]:
        """Wait for the next batch: one row for each GPU, by index. Raises Unavailable."""
        try:
            batch = self._stream.next(interval)
        except SmiEnded as ended:
            raise self._unavailable(str(ended)) from ended
        except OSError as error:
            raise self._unavailable(str(error.strerror)) from error
        if self._clock() >= self._apps_at:
            self._apps = self._processes()
            self._apps_at = self._clock() + APPS_S
        return self._rows(batch)

    def _unavailable(self, said: str) -> Unavailable:
        loaded = self._files.version()
        if "version mismatch" in said:
            library = LIBRARY.search(said)
            return Unavailable(self._files.mismatch(library.group(1) if library else None), loaded)
        return Unavailable(f"GPU telemetry unavailable: nvidia-smi: {said or 'ended without a word'}", loaded)

    def _rows(self, batch: Batch) -> list[Row]:
        """The batch as rows, each where its GPU was before."""
        found = batch.rows
        self.driver = next((smi_csv.word(row.get("driver_version")) for row in found.values()), self.driver)
        index_at = self._roster.place({at: self._identity(row) for at, row in found.items()})
        rows = [self._row(index_at[at], row) for at, row in found.items()]
        power.fill(rows, [smi_csv.power(row) for row in found.values()])
        rows += self._lost_rows(batch.lost, set(index_at.values()))
        rows += self._roster.absent([row["index"] for row in rows])
        return sorted(rows, key=lambda row: int(row["index"]))

    def _identity(self, row: Cells) -> Identity:
        bus_id = smi_csv.word(row.get("pci.bus_id"))
        return Identity(
            uuid=smi_csv.word(row.get("uuid")),
            name=smi_csv.word(row.get("name")),
            bus_id=bus_id,
            numa_node=self._files.numa_node(bus_id) if bus_id else None,
        )

    def _row(self, index: int, row: Cells) -> Row:
        values = smi_csv.values(row)
        if self._apps is not None:
            values["processes"] = self._apps.get(row.get("uuid", ""), [])
        return self._roster.row(index, **values)

    def _lost_rows(self, lost: dict[str, LostGpu], taken: set[int]) -> list[Row]:
        """Rows for the GPUs that there is only a sentence about."""
        rows = []
        for bus_id, gpu in sorted(lost.items()):
            index = self._roster.bus_ids().get(bus_id, gpu.position)
            if index is None or index in taken:
                # nvidia-smi counts in PCI order, so the first gap is the likeliest place.
                index = next(free for free in count() if free not in taken)
            taken.add(index)
            self._roster.learn(index, Identity(bus_id=gpu.bus_id))
            rows.append(self._roster.row(index, state="lost", note=gpu.words))
        return rows

    def _processes(self) -> dict[str, list[dict[str, Any]]] | None:
        """The compute processes by the uuid of their GPU; None when nvidia-smi does not tell."""
        fields = ",".join(smi_csv.APP_FIELDS)
        command = [self._program, f"--query-compute-apps={fields}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=APPS_TIMEOUT_S,
                env=environment(),
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return smi_csv.processes(done.stdout.decode("utf-8", "replace"))

    def close(self) -> None:
        """End the process."""
        self._stream.close()
