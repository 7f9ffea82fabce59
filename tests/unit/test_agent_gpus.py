"""The agent's GPU sampler: the thread between a driver that may hang and a loop that must not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from console.agent.gpu_roster import Identity, Roster
from console.agent.gpu_source import Source, Unavailable
from console.agent.gpus import GpuSampler, open_source
from console.domain.gpu import GpuReport
from tests.unit.agent_gpu_fakes import FakeNvml, FakeSmi, FakeSource

DEADLINE_S = 5.0
REPOSITORY = Path(__file__).parents[2]


class Bench:
    """A sampler over simulated sources, with a clock for what it reports."""

    def __init__(self, *opened: Source | Exception, interval: float = 0.2) -> None:
        self.now = 1000.0
        self.handed_over = 0
        self._opened = list(opened)
        self._news = threading.Condition()
        self.sampler = GpuSampler(interval, self._wake, self._open, retry_s=0.05, clock=lambda: self.now)

    def _open(self, roster: Roster) -> Source:
        roster.learn(0, Identity(uuid="GPU-0", name="NVIDIA H200"))
        answer = self._opened.pop(0) if len(self._opened) > 1 else self._opened[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _wake(self) -> None:
        with self._news:
            self.handed_over += 1
            self._news.notify()

    def after(self, readings: int) -> GpuReport:
        """The report once that many readings were handed over."""
        with self._news:
            assert self._news.wait_for(lambda: self.handed_over >= readings, DEADLINE_S)
        return self.report()

    def report(self) -> GpuReport:
        return msgspec.convert(self.sampler.report(), GpuReport, strict=True)


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def row(**values: Any) -> dict[str, Any]:
    return Roster().row(0, uuid="GPU-0", **values)


def test_before_the_first_reading() -> None:
    report = Bench(FakeSource()).report()
    assert (report.source, report.reason, report.gpus) == ("none", "no reading yet", ())


def test_a_report_is_the_latest_reading() -> None:
    source = FakeSource()
    bench = Bench(source)
    assert set(bench.sampler.report()) == set(GpuReport.__struct_fields__)
    bench.sampler.start()
    source.let([row(busy_pct=97.0)])
    report = bench.after(1)
    assert (report.source, report.driver, report.reason) == ("nvml", "580.159.04", None)
    assert (report.gpus[0].uuid, report.gpus[0].busy_pct) == ("GPU-0", 97)
    source.let([row(busy_pct=3.0)])
    assert bench.after(2).gpus[0].busy_pct == 3
    bench.now += 1.5
    assert bench.report().age_s == pytest.approx(1.5, abs=0.01)


def test_a_report_may_be_changed_by_its_reader() -> None:
    source = FakeSource()
    bench = Bench(source)
    bench.sampler.start()
    source.let([row(processes=[{"pid": 7, "name": None, "mem_mib": None, "server_pid": None}])])
    bench.after(1)
    bench.sampler.report()["gpus"][0]["processes"][0]["server_pid"] = 7
    assert bench.sampler.report()["gpus"][0]["processes"][0]["server_pid"] is None


def test_a_driver_that_hangs_is_reported_with_the_age_and_heals_by_itself() -> None:
    source = FakeSource()
    bench = Bench(source)
    bench.sampler.start()
    source.let([row(busy_pct=97.0)])
    bench.after(1)
    until(lambda: source.under_way == 1)
    bench.now += 9.0
    assert (bench.report().reason, round(bench.report().age_s)) == (None, 9)
    bench.now += 25.0
    report = bench.report()
    assert report.reason == "GPU telemetry stalled 34 s (NVML not answering)"
    assert report.age_s == pytest.approx(34, abs=0.01)
    assert report.gpus[0].busy_pct == 97, "the last reading, as old as it says"
    assert (source.reads, source.most_under_way) == (2, 1), "one question, however long it takes"
    source.let([row(busy_pct=12.0)])
    report = bench.after(2)
    assert (report.gpus[0].busy_pct, round(report.age_s)) == (12, 0)
    assert report.reason is not None
    assert "stalled" not in report.reason


def test_a_driver_that_hangs_while_it_is_opened() -> None:
    asked, answered = threading.Event(), threading.Event()

    def hang(roster: Roster) -> Source:
        asked.set()
        answered.wait(DEADLINE_S)
        raise Unavailable("GPU telemetry unavailable: NVML: Unknown Error")

    clock = [0.0]
    sampler = GpuSampler(1.0, open_source=hang, clock=lambda: clock[0])
    sampler.start()
    assert asked.wait(DEADLINE_S)
    clock[0] = 12.0
    assert sampler.report()["reason"] == "GPU telemetry stalled 12 s (the driver not answering)"
    answered.set()
    until(lambda: sampler.report()["reason"] == "GPU telemetry unavailable: NVML: Unknown Error")


def test_a_source_that_paces_itself_has_its_interval_besides() -> None:
    source = FakeSource(paced=True)
    bench = Bench(source, interval=10.0)
    bench.sampler.start()
    source.let([row()])
    bench.after(1)
    until(lambda: source.under_way == 1)
    bench.now += 19.0
    assert bench.report().reason is None
    bench.now += 2.0
    assert bench.report().reason == "GPU telemetry stalled 21 s (NVML not answering)"


def test_slow_readings_are_remarked_on_with_one_hint() -> None:
    source = FakeSource()
    bench = Bench(source)
    bench.sampler.start()
    reasons = []
    for readings in (1, 2):
        until(lambda: source.under_way == 1)
        bench.now += 6.2
        source.let([row()])
        reasons.append(bench.after(readings).reason)
    hint = "; is persistence mode off? (nvidia-smi -pm 1 turns it on)"
    assert reasons == ["GPU readings are slow: 6.2 s" + hint, "GPU readings are slow: 6.2 s"]
    until(lambda: source.under_way == 1)
    source.let([row()])
    assert bench.after(3).reason is None


def test_what_is_unavailable_is_tried_again_and_rows_stay() -> None:
    source = FakeSource()
    gone = Unavailable("GPU telemetry unavailable: no NVIDIA driver on this host", "580.95.05")
    bench = Bench(gone, source)
    bench.sampler.start()
    report = bench.after(1)
    assert (report.source, report.driver, report.reason) == ("none", "580.95.05", str(gone))
    assert [(gpu.uuid, gpu.state, gpu.busy_pct) for gpu in report.gpus] == [("GPU-0", "unreadable", None)]
    source.let([row(busy_pct=97.0)])
    report = bench.after(2)
    assert (report.source, report.reason, report.gpus[0].state) == ("nvml", None, "ok")


def test_a_source_that_breaks_is_closed_and_another_opened() -> None:
    first, second = FakeSource(), FakeSource()
    bench = Bench(first, second)
    bench.sampler.start()
    first.let([row(busy_pct=97.0)], Unavailable("GPU telemetry lost: NVML: Uninitialized"))
    report = bench.after(2)
    assert (report.source, report.reason) == ("none", "GPU telemetry lost: NVML: Uninitialized")
    assert (report.gpus[0].name, report.gpus[0].busy_pct) == ("NVIDIA H200", None)
    assert first.closed
    second.let([row(busy_pct=1.0)])
    assert bench.after(3).gpus[0].busy_pct == 1


def test_the_driver_is_opened_anew_when_no_gpu_answers_for_long() -> None:
    first, second = FakeSource(), FakeSource()
    bench = Bench(first, second)
    bench.sampler.start()
    first.let([row(state="lost", note="GPU is lost")])
    assert bench.after(1).gpus[0].state == "lost"
    until(lambda: first.reads == 2)
    bench.now += 1.0
    first.let([row(state="lost", note="GPU is lost")])
    bench.after(2)
    until(lambda: first.closed)
    second.let([row(busy_pct=5.0)])
    assert bench.after(3).gpus[0].busy_pct == 5


def test_a_host_whose_driver_lists_no_gpu_says_so() -> None:
    source = FakeSource()
    bench = Bench(source)
    bench.sampler.start()
    source.let([])
    assert bench.after(1).reason == "the driver lists no GPU"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    """A host with a simulated nvidia-smi."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return FakeSmi(tmp_path)


@pytest.fixture
def no_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without nvidia-smi."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("console.agent.smi_child.PLACES", ())


def test_nvml_is_the_first_choice(smi: FakeSmi) -> None:
    assert open_source(Roster(), lambda name: FakeNvml()).name == "nvml"


def test_nvidia_smi_where_there_is_no_pynvml(smi: FakeSmi) -> None:
    assert open_source(Roster(), lambda name: None).name == "nvidia-smi"


def test_nvidia_smi_where_nvml_refuses_this_process(smi: FakeSmi) -> None:
    nvml = FakeNvml()
    nvml.init_fails = nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert open_source(Roster(), lambda name: nvml).name == "nvidia-smi"


@pytest.mark.usefixtures("no_smi")
def test_the_reason_when_there_is_nothing() -> None:
    nvml = FakeNvml()
    nvml.init_fails = nvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with pytest.raises(Unavailable, match="no NVIDIA driver on this host"):
        open_source(Roster(), lambda name: nvml)
    with pytest.raises(Unavailable, match="no pynvml, no nvidia-smi on this host"):
        open_source(Roster(), lambda name: None)


def test_pynvml_is_found_under_python_without_site_packages() -> None:
    code = "from console.agent import site_packages as s; print(s.load('pynvml'), s.load('no_such_package'))"
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "pynvml.py" in found.stdout
    assert found.stdout.endswith(" None\n")


def test_the_interval_can_be_changed_at_any_time() -> None:
    source = FakeSource()
    bench = Bench(source, interval=1e6)
    bench.sampler.start()
    source.let([row()])
    bench.after(1)
    source.let([row()])
    bench.sampler.set_interval(0.2)
    bench.after(2)
    assert source.intervals[:2] == [1e6, 0.2]
