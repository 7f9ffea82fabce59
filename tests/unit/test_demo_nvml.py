"""The simulated NVML, asked as the agent and nvidia-ml-py's users ask the real one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from console.agent.driver_files import DriverFiles
from console.agent.gpu_roster import Roster
from console.agent.nvml import NvmlSource
from tests.unit.demo_modules import Import, demo_modules


class Host:
    """A demo host's folder, on which this test is the server."""

    def __init__(self, folder: Path, load: Import) -> None:
        self._folder, self._state = folder, load("demohost.state")
        (folder / "state").mkdir()
        (folder / "alive").touch()
        self.nvml = load("simulated_pynvml")

    def occupy(self, role: str, gpus: tuple[int, ...], **changes: Any) -> None:
        """Publish a server on those GPUs."""
        pid = os.getpid()
        occupant = self._state.Occupant(
            pid=pid,
            start_ticks=self._state.start_ticks(pid),
            role=role,
            gpus=gpus,
            ranks=tuple(7000 + gpu for gpu in gpus),
            phase="serving",
            intensity=0.9,
            warmth=0.9,
            mem_mib=84000.0,
        )
        self._state.publish(self._folder, occupant._replace(**changes))

    def gpu(self, index: int) -> Any:
        """A handle, from a driver that was loaded now."""
        self.nvml.nvmlInit()
        return self.nvml.nvmlDeviceGetHandleByIndex(index)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("DSV4_DEMO_FOLDER", str(tmp_path))
    with demo_modules() as load:
        yield Host(tmp_path, load)


def gpm(nvml: Any, handle: Any, *metrics: int) -> list[float]:
    first, second = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
    nvml.nvmlGpmSampleGet(handle, first)
    nvml.nvmlGpmSampleGet(handle, second)
    asked = nvml.c_nvmlGpmMetricsGet_t()
    asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
    asked.numMetrics = len(metrics)
    asked.sample1, asked.sample2 = first, second
    for place, metric in enumerate(metrics):
        asked.metrics[place].metricId = metric
    nvml.nvmlGpmMetricsGet(asked)
    assert [asked.metrics[place].nvmlReturn for place in range(len(metrics))] == [0] * len(metrics)
    return [asked.metrics[place].value for place in range(len(metrics))]


def test_a_free_gpu_is_idle_and_empty(host: Host) -> None:
    nvml, handle = host.nvml, host.gpu(3)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0
    assert nvml.nvmlDeviceGetPowerUsage(handle) == pytest.approx(15_000, abs=1000)
    assert nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used == 0
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == nvml.nvmlClocksEventReasonGpuIdle
    assert nvml.nvmlDeviceGetComputeRunningProcesses(handle) == []


def test_decode_is_busy_but_cold(host: Host) -> None:
    host.occupy("decode", (4, 5, 6, 7))
    nvml, handle = host.nvml, host.gpu(5)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu >= 92
    assert 0.40 < nvml.nvmlDeviceGetPowerUsage(handle) / nvml.nvmlDeviceGetEnforcedPowerLimit(handle) < 0.50
    sm, dram = gpm(nvml, handle, nvml.NVML_GPM_METRIC_SM_UTIL, nvml.NVML_GPM_METRIC_DRAM_BW_UTIL)
    assert 30 < sm < 45
    assert 33 < dram < 43


def test_prefill_is_hotter_than_decode(host: Host) -> None:
    host.occupy("decode", (0,))
    cold = host.nvml.nvmlDeviceGetTemperature(host.gpu(0), host.nvml.NVML_TEMPERATURE_GPU)
    host.occupy("prefill", (0,))
    assert host.nvml.nvmlDeviceGetTemperature(host.gpu(0), host.nvml.NVML_TEMPERATURE_GPU) > cold + 10


def test_memory_is_told_with_and_without_what_the_driver_reserves(host: Host) -> None:
    host.occupy("decode", (0,), mem_mib=84000.0)
    nvml, handle = host.nvml, host.gpu(0)
    newer, older = (
        nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2),
        nvml.nvmlDeviceGetMemoryInfo(handle),
    )
    assert newer.total == older.total == 97887 << 20
    assert newer.used == 84000 << 20
    assert older.used == newer.used + newer.reserved
    assert newer.used + newer.reserved + newer.free == newer.total


def test_each_rank_holds_its_gpu(host: Host) -> None:
    host.occupy("prefill", (0, 1, 2, 3))
    nvml = host.nvml
    (process,) = nvml.nvmlDeviceGetComputeRunningProcesses(host.gpu(2))
    assert (process.pid, process.usedGpuMemory) == (7002, 84000 << 20)


def test_a_dead_servers_file_counts_for_nothing(host: Host) -> None:
    host.occupy("decode", (0,), start_ticks=1)
    assert host.nvml.nvmlDeviceGetComputeRunningProcesses(host.gpu(0)) == []


def test_the_second_prefill_card_runs_into_its_power_limit_now_and_then(host: Host) -> None:
    cards, state = host.nvml.cards, host.nvml.state
    occupant = state.Occupant(1, 1, "prefill", (0, 1, 2, 3), (1, 2, 3, 4), "serving", 0.9, 0.9, 70000.0)
    seen = {gpu: [cards.card_at(gpu, occupant, float(second)) for second in range(600)] for gpu in range(4)}
    capped = {
        gpu: [card for card in found if card.reasons == cards.SW_POWER_CAP] for gpu, found in seen.items()
    }
    assert [bool(capped[gpu]) for gpu in range(4)] == [False, True, False, False]
    assert 20 < len(capped[1]) < 200
    assert all(card.power_w > 590 and card.clock_mhz < 2000 for card in capped[1])
    assert all(card.power_w < 600 for found in seen.values() for card in found)


def test_gpus_belong_to_two_numa_nodes(host: Host) -> None:
    nodes = [host.nvml.nvmlDeviceGetNumaNodeId(host.gpu(index)) for index in range(8)]
    assert nodes == [0, 0, 0, 0, 1, 1, 1, 1]


def test_errors_are_subclasses_by_code(host: Host) -> None:
    nvml = host.nvml
    with pytest.raises(nvml.NVMLError_Uninitialized, match="Uninitialized"):
        nvml.nvmlDeviceGetCount()
    nvml.nvmlInit()
    with pytest.raises(nvml.NVMLError) as caught:
        nvml.nvmlDeviceGetHandleByIndex(8)
    assert caught.value.value == nvml.NVML_ERROR_INVALID_ARGUMENT
    (value,) = nvml.nvmlDeviceGetFieldValues(host.gpu(0), [82])
    assert value.nvmlReturn == nvml.NVML_ERROR_NOT_SUPPORTED


def test_elsewhere_there_is_no_nvml(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSV4_DEMO_FOLDER")
    with pytest.raises(host.nvml.NVMLError_LibraryNotFound):
        host.nvml.nvmlInit()


def test_names_and_numbers_are_those_of_nvidia_ml_py(host: Host) -> None:
    mine = {
        name: value for name, value in vars(host.nvml).items() if name.lower().startswith(("nvml", "c_nvml"))
    }
    assert len(mine) > 60
    for name, value in mine.items():
        real = getattr(pynvml, name)
        if isinstance(value, int):
            assert value == real, name
        elif inspect.isfunction(value):
            parameters = [list(inspect.signature(function).parameters) for function in (value, real)]
            assert parameters[0] == parameters[1], name


def test_structures_have_the_real_fields(host: Host) -> None:
    for name in ("c_nvmlMemory_v2_t", "nvmlPciInfo_t", "c_nvmlFieldValue_t", "c_nvmlGpmMetricsGet_t"):
        mine, real = getattr(host.nvml, name), getattr(pynvml, name)
        assert [field[0] for field in mine._fields_] == [field[0] for field in real._fields_]


def test_the_agent_reads_it_like_any_nvml(host: Host, tmp_path: Path) -> None:
    host.occupy("decode", (4, 5, 6, 7))
    now = iter(range(1000, 2000))
    source = NvmlSource(host.nvml, Roster(), DriverFiles(str(tmp_path)), lambda: float(next(now)))
    source.read(1.0)
    rows = source.read(1.0)
    assert [row["index"] for row in rows] == list(range(8))
    assert all(row["state"] == "ok" and row["note"] is None for row in rows)
    busy, free = rows[6], rows[0]
    assert busy["busy_pct"] > 90 > 50 > busy["activity_pct"] > 20
    assert busy["power_kind"] == "average"
    assert busy["pcie_rx_mb_s"] > 1000
    assert (free["busy_pct"], free["mem_used_mib"], free["throttle"]) == (0, 0, [])
