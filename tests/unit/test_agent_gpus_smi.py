"""The agent's nvidia-smi source: its cells, and a simulated nvidia-smi that misbehaves."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import power, smi_csv
from console.agent.driver_files import DriverFiles
from console.agent.gpu_roster import Roster
from console.agent.gpu_source import RETRY_S, Unavailable
from console.agent.nvidia_smi import SmiSource
from console.domain.gpu import GpuSample
from tests.unit.agent_gpu_fakes import FakeSmi, smi_gpu

CASES = Path(__file__).parents[1] / "cases" / "gpu"
REPOSITORY = Path(__file__).parents[2]
TICK = 0.05
NO_HANDLE = "Unable to determine the device handle for GPU"
LOST = "GPU is lost.  Reboot the system to recover this GPU"

Rows = list[dict[str, Any]]
Shape = Callable[[str], str]


def without_units(line: str) -> str:
    return ", ".join(cell.split(" ")[0] if cell[0].isdigit() else cell for cell in line.split(", "))


def read_case(name: str, shape: Shape = str) -> list[smi_csv.Cells]:
    """The rows of a case, by the field names of its header."""
    header, *lines = (CASES / name).read_text().splitlines()
    fields = [title.partition(" [")[0] for title in header.split(", ")]
    found = [smi_csv.cells(fields, shape(line)) for line in lines]
    return [row for row in found if row is not None]


@pytest.mark.parametrize("shape", [str, without_units, lambda line: line + "  ", lambda line: line + "\r\n"])
def test_cells_that_are_words_are_missing_values(shape: Shape) -> None:
    rows = [smi_csv.values(cells) for cells in read_case("cells_that_are_words.csv", shape)]
    assert [row["busy_pct"] for row in rows] == [97, None, 0, None]
    assert [row["temp_c"] for row in rows] == [61, 58, None, None]
    assert [row["mem_used_mib"] for row in rows] == [171203, 171203, 4, None]
    assert [row["state"] for row in rows] == ["ok", "ok", "ok", "needs reset"]
    assert [row["note"] for row in rows] == [
        None,
        "utilization.gpu: [N/A]; power.draw: [Unknown Error]",
        "temperature.gpu: ERR!; power.draw: [Not Supported]",
        "[GPU requires reset]",
    ]
    watts = [smi_csv.power(cells).plain for cells in read_case("cells_that_are_words.csv", shape)]
    assert watts == [812.44, None, None, None]


def test_mig_has_no_utilisation() -> None:
    split, whole = (smi_csv.values(cells) for cells in read_case("mig.csv"))
    assert (split["state"], split["busy_pct"], split["mem_used_mib"]) == ("mig", None, 36537)
    assert split["note"] == "MIG is on: no utilisation of the whole card; utilization.gpu: [N/A]"
    assert (whole["state"], whole["busy_pct"], whole["note"]) == ("ok", 0, None)


def test_power_kinds_are_never_mixed() -> None:
    newer, without_data = (smi_csv.power(cells) for cells in read_case("power_kinds.csv"))
    assert newer == power.Power(average=402.10, instant=987.65, plain=402.10)
    alone: Rows = [{}]
    power.fill(alone, [newer])
    assert alone == [{"power_w": 402.10, "power_kind": "average"}]
    both: Rows = [{}, {}]
    power.fill(both, [newer, without_data])
    assert both == [{"power_w": 402.10, "power_kind": None}] * 2


def test_processes_are_by_the_uuid_of_their_gpu() -> None:
    found = smi_csv.processes((CASES / "compute_apps.csv").read_text())
    assert {uuid[-1]: [process["pid"] for process in of] for uuid, of in found.items()} == {
        "1": [41931],
        "2": [42077],
    }
    odd = smi_csv.processes(
        "GPU-1, 7, /opt/my, tools/python3, 12 MiB\nGPU-1, 8, [Not Found], [N/A]\nNo devices\n"
    )
    assert [(process["name"], process["mem_mib"]) for process in odd["GPU-1"]] == [
        ("python3", 12.0),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("line", "position", "bus_id", "words"),
    [
        (
            f"{NO_HANDLE}2: 0000:BA:00.0: Unknown Error",
            2,
            "0000:BA:00.0",
            "Unknown Error",
        ),
        (
            f"{NO_HANDLE} 0000:BA:00.0: {LOST}",
            None,
            "0000:BA:00.0",
            LOST,
        ),
    ],
)
def test_the_sentence_for_a_lost_gpu(line: str, position: int | None, bus_id: str, words: str) -> None:
    assert smi_csv.lost_gpu(line) == smi_csv.LostGpu(position, bus_id, words)


@given(st.lists(st.text(alphabet=st.characters(blacklist_characters="\r\n")), max_size=20), st.integers(0, 9))
def test_no_row_can_break_the_parser(found: list[str], index: int) -> None:
    line = ", ".join([str(index), *found])
    cells = smi_csv.cells(smi_csv.FIELDS, line)
    if cells is not None:
        values = smi_csv.values(cells)
        assert all(
            values[name] is None or isinstance(values[name], float) for name in smi_csv.GAUGES.values()
        )
    smi_csv.processes(line)
    smi_csv.lost_gpu(line)


@given(
    st.lists(
        st.sampled_from(["[N/A]", "97", "97 %", "-5 C", "0x4", "ERR!", "Enabled", "[GPU requires reset]", ""])
    )
)
def test_only_numbers_become_numbers(found: list[str]) -> None:
    padded = (found + ["[N/A]"] * len(smi_csv.FIELDS))[: len(smi_csv.FIELDS) - 1]
    cells = smi_csv.cells(smi_csv.FIELDS, ",".join(["0", *padded]))
    assert cells is not None
    values = smi_csv.values(cells)
    for field, name in smi_csv.GAUGES.items():
        expected = {"97": 97.0, "97 %": 97.0, "-5 C": -5.0}.get(cells[field])
        if name != "busy_pct" or values["state"] != "mig":
            assert values[name] == expected


class Bench:
    """A source over a simulated nvidia-smi, with a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        (folder / "bin").mkdir()
        self.now = 1000.0
        self.root = folder / "root"
        self.smi = FakeSmi(folder / "bin")
        self.roster = Roster()
        self.sources: list[SmiSource] = []

    def open(self) -> SmiSource:
        self.sources.append(SmiSource(self.roster, DriverFiles(str(self.root)), lambda: self.now))
        return self.sources[-1]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    bench = Bench(tmp_path)
    yield bench
    for source in bench.sources:
        source.close()


def test_rows_of_a_healthy_host(bench: Bench) -> None:
    bench.smi.play(gpus=[smi_gpu(0), smi_gpu(1)], apps="GPU-1, 41931, sglang::scheduler, 90000")
    source = bench.open()
    for _ in range(3):
        samples = msgspec.convert(source.read(TICK), list[GpuSample], strict=True)
        assert [(gpu.index, gpu.uuid, gpu.busy_pct) for gpu in samples] == [
            (0, "GPU-0", 97),
            (1, "GPU-1", 97),
        ]
    assert source.driver == "580.95.05"
    second = samples[1]
    assert (second.power_w, second.power_kind, second.power_limit_w) == (812.44, "average", 1000)
    assert (second.throttle, second.clock_mhz, second.note) == (("power cap",), 1965, None)
    assert second.processes is not None
    assert samples[0].processes == ()
    assert [(process.pid, process.name, process.mem_mib) for process in second.processes] == [
        (41931, "sglang::scheduler", 90000)
    ]
    queries = [start for start in bench.smi.started() if "--query-gpu" in str(start)]
    assert len(queries) == 1, "one held-open process, not one for each reading"


def test_a_field_that_an_older_driver_refuses_is_left_out(bench: Bench) -> None:
    older = smi_gpu(0)
    bench.smi.play(gpus=[older], refused=["power.draw.average", "power.draw.instant"])
    row = bench.open().read(TICK)[0]
    assert (row["power_w"], row["power_kind"], row["busy_pct"]) == (812.44, None, 97)


def test_a_lost_gpu_does_not_take_the_others_along(bench: Bench) -> None:
    gpus: list[dict[str, str]] = [smi_gpu(number) for number in range(4)]
    bench.smi.play(gpus=gpus)
    source = bench.open()
    assert [row["state"] for row in source.read(TICK)] == ["ok"] * 4
    sentence = f"{NO_HANDLE}2: 0000:38:00.0: Unknown Error"
    ill = [*gpus[:2], {"pci.bus_id": gpus[2]["pci.bus_id"], "sentence": sentence}, gpus[3]]
    bench.smi.play(gpus=ill, gives_up=True)
    for _ in range(2):
        rows = source.read(TICK * 1.5)
        assert [row["uuid"] for row in rows] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
        assert [row["state"] for row in rows] == ["ok", "ok", "lost", "ok"]
        assert (rows[2]["note"], rows[2]["busy_pct"], rows[3]["busy_pct"]) == ("Unknown Error", None, 97)
    bench.smi.play(gpus=gpus)
    bench.now += RETRY_S
    assert [row["state"] for row in source.read(TICK * 1.5)] == ["ok"] * 4


def test_a_sentence_in_between_stands_for_its_gpu(bench: Bench) -> None:
    sentence = f"{NO_HANDLE} 0000:28:00.0: {LOST}"
    bench.smi.play(gpus=[smi_gpu(0), {"pci.bus_id": "00000000:28:00.0", "sentence": sentence}, smi_gpu(2)])
    source = bench.open()
    for _ in range(2):
        rows = source.read(TICK)
        assert [(row["index"], row["state"]) for row in rows] == [(0, "ok"), (1, "lost"), (2, "ok")]
        assert rows[1]["note"] == LOST


def test_driver_and_library_of_different_versions(bench: Bench) -> None:
    (bench.root / "proc/driver/nvidia").mkdir(parents=True)
    (bench.root / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n"
    )
    said = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126"
    bench.smi.play(say=said, exit=18)
    with pytest.raises(Unavailable) as caught:
        bench.open().read(TICK)
    assert str(caught.value) == (
        "GPU telemetry unavailable: driver 580.95.05 loaded, library 580.126 installed"
        " - reboot needed before the next launch"
    )


def test_what_nvidia_smi_says_when_it_fails_is_the_reason(bench: Bench) -> None:
    bench.smi.play(say="No devices were found", exit=6)
    with pytest.raises(Unavailable, match=r"^GPU telemetry unavailable: nvidia-smi: No devices were found$"):
        bench.open().read(TICK)


def test_no_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("console.agent.smi_child.PLACES", ())
    with pytest.raises(Unavailable, match="no pynvml, no nvidia-smi on this host"):
        SmiSource(Roster(), DriverFiles(str(tmp_path)))


def test_a_process_that_is_killed_is_started_again(bench: Bench) -> None:
    bench.smi.play(gpus=[smi_gpu(0)], apps_exit=1)
    source = bench.open()
    assert source.read(TICK)[0]["processes"] is None
    os.kill(bench.smi.started()[0][0], signal.SIGKILL)
    assert source.read(TICK)[0]["busy_pct"] == 97


def test_another_interval_takes_another_process(bench: Bench) -> None:
    bench.smi.play(gpus=[smi_gpu(0)])
    source = bench.open()
    source.read(TICK)
    source.read(TICK * 2)
    intervals = [start[start.index("-lms") + 1] for start in bench.smi.started() if "-lms" in start]
    assert intervals == ["50", "100"]


HOLDER = """
import os, sys, time
from console.agent.smi_child import SmiChild
child = SmiChild([sys.executable, "-c", "import os,time; print(os.getpid(), flush=True); time.sleep(600)"])
print(child.line(), flush=True)
sys.stdin.read()
os._exit(0)
"""


def test_nvidia_smi_dies_with_the_agent() -> None:
    """Also a silent one, which would never notice that its pipe is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as agent:
        assert agent.stdout is not None
        child = int(agent.stdout.readline())
        pidfd = os.pidfd_open(child)
        agent.kill()
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        assert poll.poll(5000), "the child outlived the agent"
    finally:
        os.close(pidfd)
