"""One GPU behind its NVML handle.

Calls are chosen for their price in CPU, measured once a second on an H200 (driver 580): the first call
0.1 ms, GPM 0.25 ms, any other value 0.01 ms, MIG mode 0.3 ms. nvmlDeviceGetPcieThroughput, which waits for
20 ms, is never called: GPM has the traffic.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from . import gpm, procfs, throttle
from .gpu_source import MIG_NOTE
from .power import Power

MIB = 1048576.0
SLOW_S = 5.0
"""Power limit and processes move slowly."""
MIG_S = 30.0

POWER_FIELDS = (185, 186)
"""NVML_FI_DEV_POWER_AVERAGE and _INSTANT of nvml.h, unsigned milliwatts; older bindings do not name them."""

MEASURED = ("mem_used_mib", "temp_c", "clock_mhz", "busy_pct", "throttle")
"""With the power, what is new at each reading: without any of these a GPU is unreadable."""

Call = Callable[..., Any]
Values = Dict[str, Any]


class Failed(Exception):
    """The GPU as a whole cannot be read: `state` as in GpuSample, and the driver's words."""

    def __init__(self, state: str, words: str) -> None:
        super().__init__(words)
        self.state = state


class DriverGone(Exception):
    """NVML has to be opened anew."""


def grave(nvml: Any, error: Any) -> Exception | None:
    """What an NVMLError says about the whole GPU or driver; None when it concerns one value."""
    if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
        return Failed("lost", str(error))
    if error.value == nvml.NVML_ERROR_RESET_REQUIRED:
        return Failed("needs reset", str(error))
    if error.value in (
        nvml.NVML_ERROR_UNINITIALIZED,
        nvml.NVML_ERROR_DRIVER_NOT_LOADED,
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    ):
        return DriverGone(str(error))
    return None


class NvmlGpu:
    """Reads one GPU. Raises Failed and DriverGone; one value that fails is None, and the note says so."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._refused: list[str] = []
        self._slow: Values = {}
        self._slow_refused: list[str] = []
        self._slow_due = 0.0
        self._mig = False
        self._mig_due = 0.0
        self._memory_version = self._newest_memory_version()
        self._temperature = self._first_known(
            ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), nvml.NVML_TEMPERATURE_GPU
        )
        self._reasons = self._first_known(
            ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        )
        self._gpm = gpm.opened(nvml, handle)

    def _newest_memory_version(self) -> tuple[int, ...]:
        """Version 2 where binding and driver have it: it does not count the driver's reserve as used."""
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        return (version,) if version and self._knows("nvmlDeviceGetMemoryInfo", version) else ()

    def _first_known(self, names: tuple[str, ...], *arguments: Any) -> Call:
        """A call that was renamed, by the first of its names that binding and driver both have."""
        name = next((name for name in names if self._knows(name, *arguments)), names[-1])
        call: Call = getattr(self._nvml, name)
        return call

    def _knows(self, name: str, *arguments: Any) -> bool:
        if not hasattr(self._nvml, name):
            return False
        try:
            getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            return bool(error.value != self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return True

    def _ask(self, what: str, call: Call, *arguments: Any) -> Any:
        """A value, or None when the driver refuses it."""
        try:
            return call(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            worse = grave(self._nvml, error)
            if worse is not None:
                raise worse from error
            self._refused.append(f"{what}: {error}")
            return None

    def read(self, now: float) -> tuple[Values, Power]:
        """The values of this instant, and the power in each kind there is. `now` is monotonic."""
        if now >= self._slow_due:
            self._read_slowly_moving(now)
        self._refused = []
        values = dict(self._slow)
        self._read_gauges(values)
        if not self._mig:
            self._read_activity(values)
        power = self._power()
        self._judge(values, power)
        return values, power

    def _read_gauges(self, values: Values) -> None:
        nvml = self._nvml
        memory = self._ask("memory", nvml.nvmlDeviceGetMemoryInfo, *self._memory_version)
        if memory is not None:
            values["mem_used_mib"] = memory.used / MIB
            values["mem_total_mib"] = memory.total / MIB
        values["temp_c"] = self._ask("temperature", self._temperature, nvml.NVML_TEMPERATURE_GPU)
        values["clock_mhz"] = self._ask("clock", nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM)
        reasons = self._ask("throttle reasons", self._reasons)
        values["throttle"] = None if reasons is None else throttle.words(reasons)

    def _read_activity(self, values: Values) -> None:
        utilization = self._ask("utilization", self._nvml.nvmlDeviceGetUtilizationRates)
        if utilization is not None:
            values["busy_pct"] = utilization.gpu
        if self._gpm is not None:
            values.update(self._ask("GPM", self._gpm.read) or {})

    def _power(self) -> Power:
        """Average and instant by field value; where there is neither, the call that does not say which."""
        nvml = self._nvml
        watts = [
            value.value.uiVal / 1000.0 if value.nvmlReturn == nvml.NVML_SUCCESS else None
            for value in self._ask("power", nvml.nvmlDeviceGetFieldValues, POWER_FIELDS) or ()
        ]
        if any(value is not None for value in watts):
            return Power(*watts)
        milliwatts = self._ask("power", nvml.nvmlDeviceGetPowerUsage)
        return Power(plain=None if milliwatts is None else milliwatts / 1000.0)

    def _judge(self, values: Values, power: Power) -> None:
        """Set state and note."""
        notes = self._slow_refused + self._refused
        if all(value is None for value in (*power, *map(values.get, MEASURED))):
            values["state"] = "unreadable"
        elif self._mig:
            values["state"] = "mig"
            notes = [MIG_NOTE, *notes]
        values["note"] = "; ".join(notes) or None

    def _read_slowly_moving(self, now: float) -> None:
        if now >= self._mig_due:
            self._mig = self._mig_mode()
            self._mig_due = now + MIG_S
        self._refused = []
        limit = self._ask("power limit", self._nvml.nvmlDeviceGetEnforcedPowerLimit)
        processes = self._ask("processes", self._nvml.nvmlDeviceGetComputeRunningProcesses)
        self._slow = {
            "power_limit_w": None if limit is None else limit / 1000.0,
            "processes": None if processes is None else [gpu_process(found) for found in processes],
        }
        self._slow_refused = self._refused
        self._slow_due = now + SLOW_S

    def _mig_mode(self) -> bool:
        """True when the card is split. Cards that cannot be split refuse the question."""
        mode = self._ask("MIG mode", self._nvml.nvmlDeviceGetMigMode)
        return mode is not None and mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE

    def close(self) -> None:
        """Give back what was allocated."""
        if self._gpm is not None:
            self._gpm.close()


def gpu_process(found: Any) -> Values:
    """The fields of GpuProcess from NVML's process structure."""
    memory = found.usedGpuMemory
    return {
        "pid": found.pid,
        "name": process_name(found.pid),
        "mem_mib": None if memory is None else memory / MIB,
        "server_pid": None,
    }


def process_name(pid: int, proc: str = "/proc") -> str | None:
    """A process's title where it set one, else its program's file name; None when it is gone."""
    arguments = procfs.arguments(proc, pid)
    if arguments and arguments[0]:
        return arguments[0].rpartition("/")[2]
    found = procfs.stat(proc, pid)
    return found.comm if found else None
