"""NVML, through the pynvml that SGLang brought: the first choice of source."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable

from . import power
from .driver_files import DriverFiles
from .gpu_roster import Identity, Roster, short_bus_id
from .gpu_source import RETRY_S, Row, Unavailable
from .nvml_gpu import DriverGone, Failed, NvmlGpu, Values, grave
from .power import Power

Clock = Callable[[], float]


def text(value: Any) -> str:
    """A string of NVML's; older bindings hand out bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Slot:
    """A position in NVML's list of GPUs: the reader there, or why there is none. Raises DriverGone."""

    def __init__(self, nvml: Any, position: int, now: float) -> None:
        self._nvml = nvml
        self._position = position
        self._gpu: NvmlGpu | None = None
        self._failed = Failed("unreadable", "not opened yet")
        self._retry_at = 0.0
        self.handle: Any = None
        self._open(now)

    def _open(self, now: float) -> None:
        nvml = self._nvml
        try:
            self.handle = nvml.nvmlDeviceGetHandleByIndex(self._position)
            self._gpu = NvmlGpu(nvml, self.handle)
        except nvml.NVMLError as error:
            worse = grave(nvml, error)
            if isinstance(worse, DriverGone):
                raise worse from error
            state = "lost" if error.value == nvml.NVML_ERROR_UNKNOWN else "unreadable"
            self._give_up(worse if isinstance(worse, Failed) else Failed(state, str(error)), now)

    def _give_up(self, failed: Failed, now: float) -> None:
        """Leave a sick GPU alone for a while: each question to it may cost seconds and a line in dmesg."""
        self._gpu = None
        self._failed = failed
        self._retry_at = now + RETRY_S

    def read(self, now: float) -> tuple[Values, Power]:
        """What the GPU says now, or its state and note."""
        if self._gpu is None and now >= self._retry_at:
            self._open(now)
        if self._gpu is not None:
            try:
                return self._gpu.read(now)
            except Failed as failed:
                self._give_up(failed, now)
        return {"state": self._failed.state, "note": str(self._failed)}, Power()

    def close(self) -> None:
        """Give back what was allocated."""
        if self._gpu is not None:
            self._gpu.close()


class NvmlSource:
    """All GPUs of the host. Raises Unavailable when NVML does not start."""

    name = "nvml"
    title = "NVML"
    paced = False

    def __init__(self, nvml: Any, roster: Roster, files: DriverFiles, clock: Clock = time.monotonic) -> None:
        self._nvml = nvml
        self._roster = roster
        self._files = files
        self._clock = clock
        self._slots: dict[int, Slot] = {}
        self._nameless: set[int] = set()
        try:
            nvml.nvmlInit()
            self.driver: str | None = text(nvml.nvmlSystemGetDriverVersion())
            self._enlist(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            self.close()
            raise self._unavailable(error) from error
        except DriverGone as gone:
            self.close()
            raise self._lost(gone) from gone

    def _enlist(self, count: int) -> None:
        """Open each GPU and give it the row that it had before."""
        slots = {position: Slot(self._nvml, position, self._clock()) for position in range(count)}
        found = {position: self._identity(slot.handle) for position, slot in slots.items()}
        index_at = self._roster.place(self._with_silent_named(found))
        self._slots = {index_at[position]: slot for position, slot in slots.items()}
        self._nameless = {index for index, slot in self._slots.items() if slot.handle is None}

    def _identity(self, handle: Any) -> Identity:
        if handle is None:
            return Identity()
        bus_id = self._fact(lambda: self._nvml.nvmlDeviceGetPciInfo(handle).busId)
        return Identity(
            uuid=self._fact(lambda: self._nvml.nvmlDeviceGetUUID(handle)),
            name=self._fact(lambda: self._nvml.nvmlDeviceGetName(handle)),
            bus_id=bus_id,
            numa_node=self._numa_node(handle, bus_id),
        )

    def _numa_node(self, handle: Any, bus_id: str | None) -> int | None:
        """As the kernel has it; NVML, which many cards do not answer, where the kernel does not say."""
        node = self._files.numa_node(bus_id) if bus_id else None
        ask = getattr(self._nvml, "nvmlDeviceGetNumaNodeId", None)
        if node is not None or ask is None:
            return node
        try:
            return int(ask(handle))
        except self._nvml.NVMLError:
            return None

    def _fact(self, ask: Callable[[], Any]) -> str | None:
        try:
            return text(ask())
        except self._nvml.NVMLError:
            return None

    def _with_silent_named(self, found: dict[int, Identity]) -> dict[int, Identity]:
        """Name the GPUs that NVML cannot open after those that the kernel driver has besides."""
        heard = {short_bus_id(gpu.bus_id) for gpu in found.values() if gpu.bus_id}
        others = iter([gpu for gpu in self._files.gpus() if gpu.bus_id not in heard])
        return {position: gpu if gpu.bus_id else next(others, gpu) for position, gpu in sorted(found.items())}

    def _unavailable(self, error: Any) -> Unavailable:
        loaded = self._files.version()
        if error.value == self._nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            library = self._fact(self._nvml.nvmlSystemGetNVMLVersion)
            return Unavailable(self._files.mismatch(library), loaded)
        if error.value == self._nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return Unavailable("GPU telemetry unavailable: no NVIDIA driver on this host", loaded)
        return Unavailable(f"GPU telemetry unavailable: NVML: {error}", loaded)

    def _lost(self, gone: DriverGone) -> Unavailable:
        return Unavailable(f"GPU telemetry lost: NVML: {gone}", self._files.version())

    def read(self, interval: float) -> list[Row]:
        """One row for each GPU, by index. Raises Unavailable."""
        now = self._clock()
        try:
            readings = {index: slot.read(now) for index, slot in sorted(self._slots.items())}
        except DriverGone as gone:
            raise self._lost(gone) from gone
        self._learn_names()
        rows = [self._roster.row(index, **values) for index, (values, _) in readings.items()]
        power.fill(rows, [watts for _, watts in readings.values()])
        return sorted(rows + self._roster.absent(readings), key=lambda row: int(row["index"]))

    def _learn_names(self) -> None:
        """Name the GPUs that could not be opened at first and now can."""
        for index in [index for index in self._nameless if self._slots[index].handle is not None]:
            self._roster.learn(index, self._identity(self._slots[index].handle))
            self._nameless.remove(index)

    def close(self) -> None:
        """Let go of NVML, which may itself be gone."""
        with contextlib.suppress(self._nvml.NVMLError):
            for slot in self._slots.values():
                slot.close()
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()
