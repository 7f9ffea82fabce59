"""What a held-open nvidia-smi prints, instant by instant, and how to keep it printing."""

from __future__ import annotations

import time
from typing import Callable

from . import smi_csv
from .gpu_roster import short_bus_id
from .gpu_source import RETRY_S
from .smi_child import SmiChild
from .smi_csv import Cells, LostGpu

Clock = Callable[[], float]


class SmiEnded(Exception):
    """nvidia-smi ends, and it is not known how to help it. The message is what it said."""


class Batch:
    """What nvidia-smi prints for one instant: for each GPU a row, or a sentence in its place."""

    def __init__(self) -> None:
        self.rows: dict[int, Cells] = {}
        self.lost: dict[str, LostGpu] = {}

    def __len__(self) -> int:
        return len(self.rows) + len(self.lost)

    def take(self, entry: Cells | LostGpu) -> bool:
        """Add an entry; False when its GPU is there already, so that it belongs to the next instant."""
        if isinstance(entry, LostGpu):
            return self.lost.setdefault(short_bus_id(entry.bus_id), entry) is entry
        return self.rows.setdefault(int(entry["index"]), entry) is entry


class SmiStream:
    """Batches of one nvidia-smi process after another. `bus_ids` names the GPUs of the host.

    For the sake of one lost GPU nvidia-smi may give up on all; it is then run on the others.
    """

    def __init__(self, program: str, bus_ids: Callable[[], set[str]], clock: Clock = time.monotonic) -> None:
        self._program = program
        self._bus_ids = bus_ids
        self._clock = clock
        self._fields = list(smi_csv.FIELDS)
        self._child: SmiChild | None = None
        self._interval = 0.0
        self._left_over: Cells | LostGpu | None = None
        self._said: list[str] = []
        self._delivered = False
        self._size = 0
        """GPUs in a batch, once known: before that, its end shows only when the next begins."""
        self._left_out: dict[str, LostGpu] = {}
        self._whole_at = 0.0

    def next(self, interval: float) -> Batch:
        """Wait for the next batch. Raises SmiEnded, and OSError when nvidia-smi does not start."""
        if self._left_out and self._clock() >= self._whole_at:
            self._left_out = {}
            self._size = 0
            self._start(interval)
        elif self._child is None or interval != self._interval:
            self._start(interval)
        batch = self._batch()
        while batch is None:
            self._recover()
            self._start(interval)
            batch = self._batch()
        self._delivered = True
        batch.lost.update(self._left_out)
        return batch

    def _start(self, interval: float) -> None:
        self.close()
        self._interval = interval
        self._left_over = None
        self._said = []
        command = [self._program, "--query-gpu=" + ",".join(self._fields), "--format=csv,noheader,nounits"]
        command += ["-lms", str(int(interval * 1000))]
        if self._left_out:
            others = self._others()
            command += ["-i", ",".join(others)]
            self._size = len(others)
        self._child = SmiChild(command)

    def _others(self) -> list[str]:
        return sorted(self._bus_ids() - set(self._left_out))

    def _batch(self) -> Batch | None:
        """The entries of one instant; None when nvidia-smi has ended."""
        batch = Batch()
        while not self._size or len(batch) < self._size:
            entry = self._entry()
            if entry is None:
                return None
            if not batch.take(entry):
                self._left_over = entry
                break
        self._size = len(batch)
        return batch

    def _entry(self) -> Cells | LostGpu | None:
        """The next row, or sentence about a GPU. What else is said is kept: it tells why nvidia-smi ends."""
        entry, self._left_over = self._left_over, None
        while entry is None and self._child is not None:
            line = self._child.line()
            if line is None:
                return None
            entry = smi_csv.lost_gpu(line) or smi_csv.cells(self._fields, line)
            if not isinstance(entry, dict):
                self._said.append(line)
        return entry

    def _recover(self) -> None:
        """Change what made nvidia-smi end. Raises SmiEnded when there is nothing to change."""
        said = " ".join(self._said)
        refused = smi_csv.REFUSED_FIELD.search(said)
        lost = {short_bus_id(gpu.bus_id): gpu for gpu in map(smi_csv.lost_gpu, self._said) if gpu}
        if refused and refused.group(1) in self._fields:
            self._fields.remove(refused.group(1))
        elif lost.keys() - self._left_out.keys():
            self._left_out.update(lost)
            self._whole_at = self._clock() + RETRY_S
            if not self._others():
                raise SmiEnded(said)
        elif self._delivered:
            self._delivered = False
        else:
            raise SmiEnded(said)

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None
