"""The agent's NVML source, against a simulated pynvml."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import throttle
from console.agent.driver_files import DriverFiles
from console.agent.gpu_roster import Roster
from console.agent.gpu_source import RETRY_S, Unavailable
from console.agent.nvml import NvmlSource
from console.agent.nvml_gpu import MIG_S, SLOW_S
from console.domain.gpu import GpuSample
from tests.unit.agent_gpu_fakes import AVERAGE, INSTANT, FakeNvml

Rows = list[dict[str, Any]]


class Bench:
    """A source over a simulated NVML, with a clock that the test moves."""

    def __init__(self, root: Path, gpus: int = 2) -> None:
        self.now = 1000.0
        self.nvml = FakeNvml(gpus)
        self.roster = Roster()
        self.files = DriverFiles(str(root))

    def open(self) -> NvmlSource:
        return NvmlSource(self.nvml, self.roster, self.files, lambda: self.now)

    def rows(self, source: NvmlSource, after: float = 1.0) -> Rows:
        self.now += after
        return source.read(1.0)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def kernel_driver(root: Path, version: str = "580.95.05", *bus_ids: str) -> None:
    """The files of a loaded kernel driver."""
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (root)\n"
        "GCC version:  gcc version 15.3.0 (GCC)\n"
    )
    for bus_id in bus_ids:
        folder = root / "proc/driver/nvidia/gpus" / bus_id
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-at-{bus_id}\nBus Location: \t {bus_id}\n"
        )


def test_a_row_is_a_gpu_sample(bench: Bench) -> None:
    rows = bench.rows(bench.open())
    samples = msgspec.convert(rows, list[GpuSample], strict=True)
    assert set(rows[0]) == set(GpuSample.__struct_fields__)
    first = samples[0]
    assert (first.index, first.uuid, first.name, first.bus_id) == (
        0,
        "GPU-0",
        "NVIDIA H200",
        "00000000:18:00.0",
    )
    assert (first.busy_pct, first.power_w, first.power_kind, first.power_limit_w) == (
        97,
        400.0,
        "average",
        700.0,
    )
    assert (first.mem_used_mib, first.mem_total_mib) == (1024.0, 143360.0)
    assert (first.temp_c, first.clock_mhz, first.throttle) == (61, 1980, ("power cap",))
    assert (first.state, first.note, first.processes) == ("ok", None, ())


def test_numa_node_comes_from_sysfs_by_pci_address(bench: Bench, tmp_path: Path) -> None:
    for bus_id, node in (("0000:18:00.0", "1"), ("0000:28:00.0", "-1")):
        (tmp_path / "sys/bus/pci/devices" / bus_id).mkdir(parents=True)
        (tmp_path / "sys/bus/pci/devices" / bus_id / "numa_node").write_text(node + "\n")
    assert [row["numa_node"] for row in bench.rows(bench.open())] == [1, None]


def test_gpm_needs_two_samples_and_gives_pcie_in_mb_s(bench: Bench) -> None:
    bench.nvml.gpus[0].gpm = {
        pynvml.NVML_GPM_METRIC_SM_UTIL: 34.0,
        pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 14.0,
        pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 0.0,
        pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 38.0,
        pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 1000.0,
        pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: math.nan,
    }
    bench.nvml.gpus[1].gpm = None
    source = bench.open()
    assert bench.rows(source)[0]["activity_pct"] is None
    bench.nvml.gpus[1].gpm = {pynvml.NVML_GPM_METRIC_SM_UTIL: 99.0}
    with_gpm, without = bench.rows(source)
    got = [with_gpm[name] for name in ("activity_pct", "occupancy_pct", "tensor_pct", "dram_pct")]
    assert got == [34.0, 14.0, 0.0, 38.0]
    assert (with_gpm["pcie_tx_mb_s"], with_gpm["pcie_rx_mb_s"]) == (1048.576, None)
    assert without["activity_pct"] is None
    assert without["busy_pct"] == 97
    source.close()
    assert bench.nvml.calls["nvmlGpmSampleFree"] == bench.nvml.calls["nvmlGpmSampleAlloc"] == 2
    assert bench.nvml.open == 0


def test_gpm_that_fails_once_says_so_and_starts_again(bench: Bench) -> None:
    gpu = bench.nvml.gpus[0]
    gpu.gpm = {pynvml.NVML_GPM_METRIC_SM_UTIL: 34.0}
    source = bench.open()
    bench.rows(source)
    gpu.fails["nvmlGpmSampleGet"] = pynvml.NVML_ERROR_UNKNOWN
    row = bench.rows(source)[0]
    assert (row["activity_pct"], row["note"], row["state"]) == (None, "GPM: Unknown Error", "ok")
    gpu.fails.clear()
    assert bench.rows(source)[0]["activity_pct"] is None
    assert bench.rows(source)[0]["activity_pct"] == 34.0


@pytest.mark.parametrize(
    ("fields", "watts", "kind"),
    [
        ([{AVERAGE: 400, INSTANT: 900}, {AVERAGE: 410, INSTANT: 910}], [400, 410], "average"),
        ([{INSTANT: 900}, {AVERAGE: 410, INSTANT: 910}], [900, 910], "instant"),
        ([{}, {}], [300, 300], None),
        ([{}, {AVERAGE: 410}], [None, 410], "average"),
    ],
)
def test_power_is_of_one_kind(
    bench: Bench, fields: list[dict[int, float]], watts: list[float | None], kind: str | None
) -> None:
    for gpu, field_watts in zip(bench.nvml.gpus, fields, strict=True):
        gpu.field_watts = field_watts
    rows = bench.rows(bench.open())
    assert [row["power_w"] for row in rows] == watts
    assert {row["power_kind"] for row in rows if row["power_w"] is not None} == {kind}


def test_one_value_that_cannot_be_read_is_none_and_named(bench: Bench) -> None:
    bench.nvml.gpus[1].fails = {
        "nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_NOT_SUPPORTED,
        "nvmlDeviceGetEnforcedPowerLimit": pynvml.NVML_ERROR_UNKNOWN,
    }
    bench.nvml.gpus[0].busy = 0
    idle, odd = bench.rows(bench.open())
    assert (idle["busy_pct"], idle["note"]) == (0, None)
    assert (odd["busy_pct"], odd["power_limit_w"], odd["temp_c"], odd["state"]) == (None, None, 61, "ok")
    assert odd["note"] == "power limit: Unknown Error; utilization: Not Supported"


def test_a_gpu_that_answers_nothing_is_unreadable(bench: Bench) -> None:
    source = bench.open()
    bench.nvml.gpus[0].everything_fails = pynvml.NVML_ERROR_UNKNOWN
    sick, well = bench.rows(source)
    assert (sick["state"], sick["uuid"], sick["busy_pct"]) == ("unreadable", "GPU-0", None)
    assert (well["state"], well["busy_pct"]) == ("ok", 97)


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (pynvml.NVML_ERROR_GPU_IS_LOST, "lost", "GPU is lost"),
        (pynvml.NVML_ERROR_RESET_REQUIRED, "needs reset", "GPU requires restart"),
    ],
)
def test_a_gpu_lost_under_way_keeps_its_row_and_is_left_alone(
    tmp_path: Path, code: int, state: str, words: str
) -> None:
    bench = Bench(tmp_path, gpus=4)
    source = bench.open()
    bench.rows(source)
    bench.nvml.gpus[2].everything_fails = code
    rows = bench.rows(source)
    assert [row["index"] for row in rows] == [0, 1, 2, 3]
    assert [row["uuid"] for row in rows] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert (rows[2]["state"], rows[2]["note"], rows[2]["name"]) == (state, words, "NVIDIA H200")
    assert rows[2]["busy_pct"] is None
    assert [row["busy_pct"] for row in rows if row["index"] != 2] == [97, 97, 97]
    asked = bench.nvml.calls.total()
    bench.rows(source)
    others_only = bench.nvml.calls.total() - asked
    bench.nvml.gpus[2].everything_fails = None
    asked = bench.nvml.calls.total()
    assert bench.rows(source)[2]["state"] == state
    assert bench.nvml.calls.total() - asked == others_only
    assert bench.rows(source, after=RETRY_S)[2]["state"] == "ok"


def test_a_gpu_without_a_handle_is_lost_and_named_by_the_kernel_driver(tmp_path: Path) -> None:
    bench = Bench(tmp_path, gpus=3)
    kernel_driver(tmp_path, "580.95.05", "0000:18:00.0", "0000:28:00.0", "0000:38:00.0")
    lost = bench.nvml.gpus[1]
    lost.fails["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_UNKNOWN
    source = bench.open()
    rows = bench.rows(source)
    assert [row["state"] for row in rows] == ["ok", "lost", "ok"]
    assert (rows[1]["bus_id"], rows[1]["uuid"]) == ("0000:28:00.0", "GPU-at-0000:28:00.0")
    assert rows[1]["note"] == "Unknown Error"
    assert rows[2]["uuid"] == "GPU-2"
    lost.fails.clear()
    healed = bench.rows(source, after=RETRY_S)[1]
    assert (healed["state"], healed["uuid"], healed["busy_pct"]) == ("ok", "GPU-1", 97)


def test_rows_do_not_shift_when_the_driver_leaves_a_lost_gpu_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, gpus=4)
    source = bench.open()
    bench.rows(source)
    source.close()
    del bench.nvml.gpus[2]
    rows = bench.rows(bench.open())
    assert [(row["index"], row["uuid"], row["state"]) for row in rows] == [
        (0, "GPU-0", "ok"),
        (1, "GPU-1", "ok"),
        (2, "GPU-2", "lost"),
        (3, "GPU-3", "ok"),
    ]


def test_mig_has_no_utilisation_even_where_the_driver_says_zero(bench: Bench) -> None:
    bench.nvml.gpus[0].mig = [1, 1]
    bench.nvml.gpus[0].busy = 0
    bench.nvml.gpus[1].mig = None
    bench.nvml.gpus[1].busy = 0
    split, whole = bench.rows(bench.open())
    assert (split["state"], split["busy_pct"], split["activity_pct"]) == ("mig", None, None)
    assert split["note"].startswith("MIG is on")
    assert split["mem_used_mib"] == 1024.0
    assert (whole["state"], whole["busy_pct"], whole["note"]) == ("ok", 0, None)


def test_processes_by_pid(bench: Bench, tmp_path: Path) -> None:
    bench.nvml.gpus[0].processes = [
        SimpleNamespace(pid=os.getpid(), usedGpuMemory=90000 << 20),
        SimpleNamespace(pid=2**22 + 1, usedGpuMemory=None),
    ]
    mine, gone = bench.rows(bench.open())[0]["processes"]
    assert mine["name"] is not None
    assert "python" in mine["name"] or "pytest" in mine["name"]
    assert (mine["pid"], mine["mem_mib"], mine["server_pid"]) == (os.getpid(), 90000.0, None)
    assert (gone["name"], gone["mem_mib"]) == (None, None)


def test_slow_things_are_asked_for_slowly_and_pcie_throughput_never(bench: Bench) -> None:
    source = bench.open()
    opening = bench.nvml.calls["nvmlDeviceGetUtilizationRates"]
    for _ in range(int(MIG_S)):
        bench.rows(source, after=1.0)
    calls = bench.nvml.calls
    assert calls["nvmlDeviceGetUtilizationRates"] - opening == MIG_S * 2
    assert calls["nvmlDeviceGetEnforcedPowerLimit"] == MIG_S / SLOW_S * 2
    assert calls["nvmlDeviceGetComputeRunningProcesses"] == MIG_S / SLOW_S * 2
    assert calls["nvmlDeviceGetMigMode"] == 2
    assert "nvmlDeviceGetPcieThroughput" not in calls


def test_an_older_binding_and_driver(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = bench.nvml
    monkeypatch.setattr(FakeNvml, "nvmlMemory_v2", None, raising=False)
    reasons = FakeNvml.nvmlDeviceGetCurrentClocksEventReasons
    monkeypatch.setattr(FakeNvml, "nvmlDeviceGetCurrentClocksThrottleReasons", reasons, raising=False)
    nvml.gpus[0].fails["nvmlDeviceGetCurrentClocksEventReasons"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    nvml.gpus[1].gpm = None
    row = bench.rows(bench.open())[1]
    assert row["mem_used_mib"] == 2048.0
    assert nvml.calls["nvmlDeviceGetMemoryInfo_v2"] == 0
    assert row["throttle"] == ["power cap"]


def test_driver_and_library_of_different_versions(bench: Bench, tmp_path: Path) -> None:
    kernel_driver(tmp_path, "580.95.05")
    bench.nvml.init_fails = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    with pytest.raises(Unavailable) as caught:
        bench.open()
    assert str(caught.value) == (
        "GPU telemetry unavailable: driver 580.95.05 loaded, library 580.126 installed"
        " - reboot needed before the next launch"
    )
    assert caught.value.driver == "580.95.05"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "GPU telemetry unavailable: no NVIDIA driver on this host"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "GPU telemetry unavailable: NVML: Driver Not Loaded"),
    ],
)
def test_why_nvml_does_not_start(bench: Bench, code: int, sentence: str) -> None:
    bench.nvml.init_fails = code
    with pytest.raises(Unavailable, match=f"^{sentence}$"):
        bench.open()


def test_a_driver_that_goes_away_is_reported_once_for_all(bench: Bench) -> None:
    source = bench.open()
    bench.rows(source)
    bench.nvml.gpus[0].everything_fails = pynvml.NVML_ERROR_UNINITIALIZED
    with pytest.raises(Unavailable, match=r"^GPU telemetry lost: NVML: Uninitialized$"):
        bench.rows(source)


@given(st.integers(0, 2**64 - 1))
def test_throttle_words_are_one_for_each_bit_but_idle(mask: int) -> None:
    words = throttle.words(mask)
    assert len(words) == len(set(words)) == (mask & ~throttle.IDLE).bit_count()


def test_idle_is_no_throttle_reason() -> None:
    assert throttle.words(pynvml.nvmlClocksEventReasonGpuIdle) == []
    assert throttle.words(0x4 | 0x8 | 0x40 | 0x8000) == ["power cap", "hw slowdown", "hw thermal", "0x8000"]
