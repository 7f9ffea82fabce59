"""A simulated NVML: the part of nvidia-ml-py 13 that the agent asks, with the same names, shapes and units.

It answers for the demo host's GPUs by what the simulated servers publish (demohost.state, demohost.cards).
What a real card would refuse is refused here.
"""
# ruff: noqa: N802, N803, N816 - the names are nvidia-ml-py's

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from demohost import cards, lifeline, state
from demohost.nvml_errors import *  # noqa: F403 - nvidia-ml-py is one flat namespace
from demohost.nvml_errors import (
    NVML_ERROR_INVALID_ARGUMENT,
    NVML_ERROR_LIBRARY_NOT_FOUND,
    NVML_ERROR_NOT_SUPPORTED,
    NVML_ERROR_UNINITIALIZED,
    NVMLError,
    error_words,
)
from demohost.nvml_structures import (
    c_nvmlFieldValue_t,
    c_nvmlGpmMetricsGet_t,
    c_nvmlGpmSupport_t,
    c_nvmlMemory_t,
    c_nvmlMemory_v2_t,
    c_nvmlUtilization_t,
    nvmlPciInfo_t,
    struct_c_nvmlGpmSample_t,
)

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO = range(4)
NVML_VALUE_TYPE_UNSIGNED_INT = 1
NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT = 185, 186
NVML_DEVICE_MIG_DISABLE, NVML_DEVICE_MIG_ENABLE = 0, 1
nvmlMemory_v2 = 0x02000028

nvmlClocksEventReasonNone = 0x0
nvmlClocksEventReasonGpuIdle = cards.GPU_IDLE
nvmlClocksEventReasonApplicationsClocksSetting = 0x2
nvmlClocksEventReasonSwPowerCap = cards.SW_POWER_CAP
nvmlClocksEventReasonHwSlowdown = 0x8
nvmlClocksEventReasonSyncBoost = 0x10
nvmlClocksEventReasonSwThermalSlowdown = 0x20
nvmlClocksEventReasonHwThermalSlowdown = 0x40
nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x80
nvmlClocksEventReasonDisplayClockSetting = 0x100

NVML_GPM_METRIC_GRAPHICS_UTIL, NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY = 1, 2, 3
NVML_GPM_METRIC_ANY_TENSOR_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 5, 10
NVML_GPM_METRIC_PCIE_TX_PER_SEC, NVML_GPM_METRIC_PCIE_RX_PER_SEC = 20, 21
NVML_GPM_METRICS_GET_VERSION = NVML_GPM_SUPPORT_VERSION = 1

_MIB = 1 << 20
_MEMORY_CLOCK_MHZ, _IDLE_MEMORY_CLOCK_MHZ = 12481, 405


class _Device(int):
    """A handle: the GPU's index."""


class _Driver:
    """What the driver knows, read afresh when it is older than a driver's own sampling period."""

    PERIOD_S = 0.1

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._read_at = float("-inf")
        self._occupants: list[state.Occupant] = []

    def load(self) -> None:
        try:
            self._folder, self._read_at = lifeline.folder(), float("-inf")
        except lifeline.NoDemoHostError as error:
            raise NVMLError(NVML_ERROR_LIBRARY_NOT_FOUND) from error

    def unload(self) -> None:
        self._folder = None

    def check(self) -> Path:
        if self._folder is None:
            raise NVMLError(NVML_ERROR_UNINITIALIZED)
        return self._folder

    def occupant(self, gpu: int) -> state.Occupant | None:
        folder, now = self.check(), time.monotonic()
        if now - self._read_at > self.PERIOD_S:
            self._occupants, self._read_at = list(state.occupants(folder)), now
        return next((occupant for occupant in self._occupants if occupant.holds(gpu)), None)

    def card(self, gpu: int) -> cards.Card:
        return cards.card_at(gpu, self.occupant(gpu), time.time())


_driver = _Driver()


def nvmlInit() -> None:
    _driver.load()


def nvmlInitWithFlags(flags: int) -> None:
    _driver.load()


def nvmlShutdown() -> None:
    _driver.unload()


def nvmlErrorString(result: int) -> str:
    return error_words(result)


def nvmlSystemGetDriverVersion() -> str:
    _driver.check()
    return "580.159.04"


def nvmlSystemGetNVMLVersion() -> str:
    _driver.check()
    return "13.580.159.04"


def nvmlSystemGetCudaDriverVersion() -> int:
    _driver.check()
    return 13000


def nvmlDeviceGetCount() -> int:
    _driver.check()
    return cards.gpu_count()


def nvmlDeviceGetHandleByIndex(index: int) -> _Device:
    if not 0 <= index < nvmlDeviceGetCount():
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return _Device(index)


def nvmlDeviceGetIndex(handle: _Device) -> int:
    return int(handle)


def nvmlDeviceGetName(handle: _Device) -> str:
    return cards.NAME


def nvmlDeviceGetUUID(handle: _Device) -> str:
    return f"GPU-d3300000-0000-4000-8000-{handle:012x}"


def nvmlDeviceGetPciInfo(handle: _Device) -> nvmlPciInfo_t:
    # A PCI domain that no machine has, so that sysfs is not asked about another device's NUMA node.
    domain, bus = 0xDE30, 0x01 + 0x20 * handle
    bus_id = f"{domain:08X}:{bus:02X}:00.0".encode()
    return nvmlPciInfo_t(busIdLegacy=bus_id[4:], domain=domain, bus=bus, device=0, busId=bus_id)


def nvmlDeviceGetNumaNodeId(handle: _Device) -> int:
    return 0 if handle < nvmlDeviceGetCount() / 2 else 1


def nvmlDeviceGetMigMode(device: _Device) -> list[int]:
    return [NVML_DEVICE_MIG_DISABLE, NVML_DEVICE_MIG_DISABLE]


def nvmlDeviceGetUtilizationRates(handle: _Device) -> c_nvmlUtilization_t:
    card = _driver.card(handle)
    return c_nvmlUtilization_t(gpu=round(card.busy), memory=round(card.dram))


def nvmlDeviceGetPowerUsage(handle: _Device) -> int:
    return round(_driver.card(handle).power_w * 1000)


def nvmlDeviceGetEnforcedPowerLimit(handle: _Device) -> int:
    return round(cards.POWER_LIMIT_W * 1000)


def nvmlDeviceGetPowerManagementLimit(handle: _Device) -> int:
    return nvmlDeviceGetEnforcedPowerLimit(handle)


def nvmlDeviceGetFieldValues(handle: _Device, fieldIds: Sequence[Any]) -> Any:
    """Power, average and instant; each value has a return code of its own."""
    values = (c_nvmlFieldValue_t * len(fieldIds))()
    for value, asked in zip(values, fieldIds, strict=True):
        value.fieldId = asked[0] if isinstance(asked, tuple) else asked
        value.timestamp = int(time.time() * 1e6)
        if value.fieldId in (NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT):
            value.valueType = NVML_VALUE_TYPE_UNSIGNED_INT
            value.value.uiVal = nvmlDeviceGetPowerUsage(handle)
        else:
            value.nvmlReturn = NVML_ERROR_NOT_SUPPORTED
    return values


def nvmlDeviceGetMemoryInfo(
    handle: _Device, version: int | None = None
) -> c_nvmlMemory_t | c_nvmlMemory_v2_t:
    """Version 2 splits off what the driver reserves; version 1 counts it as used."""
    total, used = cards.MEMORY_MIB * _MIB, int(_driver.card(handle).used_mib) * _MIB
    reserved = int(cards.RESERVED_MIB) * _MIB
    free = total - reserved - used
    if version:
        return c_nvmlMemory_v2_t(version=version, total=total, reserved=reserved, free=free, used=used)
    return c_nvmlMemory_t(total=total, free=free, used=used + reserved)


def nvmlDeviceGetTemperature(handle: _Device, sensor: int) -> int:
    return round(_driver.card(handle).temp_c)


def nvmlDeviceGetClockInfo(handle: _Device, type: int) -> int:
    card = _driver.card(handle)
    if type == NVML_CLOCK_MEM:
        return _IDLE_MEMORY_CLOCK_MHZ if card.reasons & cards.GPU_IDLE else _MEMORY_CLOCK_MHZ
    return round(card.clock_mhz)


def nvmlDeviceGetCurrentClocksEventReasons(handle: _Device) -> int:
    return _driver.card(handle).reasons


nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons


def nvmlDeviceGetComputeRunningProcesses(handle: _Device) -> list[SimpleNamespace]:
    occupant = _driver.occupant(handle)
    if occupant is None or not occupant.mem_mib:
        return []
    pid = occupant.ranks[occupant.gpus.index(handle)]
    used = int(occupant.mem_mib) * _MIB
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=used, gpuInstanceId=0xFFFFFFFF, computeInstanceId=0xFFFFFFFF)
    ]


nvmlDeviceGetComputeRunningProcesses_v3 = nvmlDeviceGetComputeRunningProcesses


def nvmlGpmQueryDeviceSupport(device: _Device) -> c_nvmlGpmSupport_t:
    return c_nvmlGpmSupport_t(version=NVML_GPM_SUPPORT_VERSION, isSupportedDevice=1)


def nvmlGpmSampleAlloc() -> Any:
    return ctypes.pointer(struct_c_nvmlGpmSample_t())


def nvmlGpmSampleFree(gpmSample: Any) -> None:
    pass  # Python frees it


def nvmlGpmSampleGet(device: _Device, gpmSample: Any) -> Any:
    card = _driver.card(device)
    values = gpmSample.contents.values
    values[NVML_GPM_METRIC_GRAPHICS_UTIL] = card.busy
    values[NVML_GPM_METRIC_SM_UTIL] = card.sm
    values[NVML_GPM_METRIC_SM_OCCUPANCY] = card.occupancy
    values[NVML_GPM_METRIC_ANY_TENSOR_UTIL] = card.tensor
    values[NVML_GPM_METRIC_DRAM_BW_UTIL] = card.dram
    values[NVML_GPM_METRIC_PCIE_TX_PER_SEC] = card.pcie_tx
    values[NVML_GPM_METRIC_PCIE_RX_PER_SEC] = card.pcie_rx
    return gpmSample


_GPM_METRICS = frozenset((1, 2, 3, 5, 10, 20, 21))


def nvmlGpmMetricsGet(metricsGet: c_nvmlGpmMetricsGet_t) -> c_nvmlGpmMetricsGet_t:
    """What was asked for, as the mean between the two samples; each metric has a return code of its own."""
    if metricsGet.version != NVML_GPM_METRICS_GET_VERSION:
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    first, second = metricsGet.sample1.contents.values, metricsGet.sample2.contents.values
    for metric in metricsGet.metrics[: metricsGet.numMetrics]:
        if metric.metricId in _GPM_METRICS:
            metric.value = (first[metric.metricId] + second[metric.metricId]) / 2
        else:
            metric.nvmlReturn = NVML_ERROR_NOT_SUPPORTED
    return metricsGet
