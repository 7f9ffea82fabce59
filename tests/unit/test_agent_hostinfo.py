"""The machine itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from console.agent.hostinfo import HostInfo
from console.domain.gpu import HostSample

MEMINFO = """MemTotal:       24684084 kB
MemFree:        16600000 kB
MemAvailable:   23600128 kB
Buffers:           12345 kB
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of two processors that have been idle for 1000 ticks."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("6c4d5ab2-0000-4000-8000-1234567890ab\n")
    (tmp_path / "meminfo").write_text(MEMINFO)
    set_ticks(tmp_path, user=0, idle=1000)
    return tmp_path


def set_ticks(proc: Path, *, user: int = 0, idle: int = 0, iowait: int = 0, guest: int = 0) -> None:
    """/proc/stat: user nice system idle iowait irq softirq steal guest guest_nice of all, and more lines."""
    (proc / "stat").write_text(f"cpu  {user} 0 0 {idle} {iowait} 0 0 0 {guest} 0\ncpu0 9 9 9 9\nbtime 1\n")


def sample(host: HostInfo) -> HostSample:
    """A sample as the console reads it: the agent's fields are exactly the domain's."""
    fields = host.sample()
    assert set(fields) == set(HostSample.__struct_fields__)
    return msgspec.convert(msgspec.json.decode(msgspec.json.encode(fields)), HostSample)


def test_memory_and_boot(proc: Path) -> None:
    host = sample(HostInfo(str(proc)))
    assert host.mem_total_mib == 24684084 / 1024
    assert host.mem_available_mib == 23600128 / 1024
    assert host.boot_id == "6c4d5ab2-0000-4000-8000-1234567890ab"


def test_the_processors_share_covers_the_time_between_two_samples(proc: Path) -> None:
    host = HostInfo(str(proc))
    assert sample(host).cpu_pct is None
    set_ticks(proc, user=150, idle=1040, iowait=10, guest=100)
    assert sample(host).cpu_pct == pytest.approx(75.0)
    set_ticks(proc, user=150, idle=1240, iowait=10, guest=100)
    assert sample(host).cpu_pct == 0.0


def test_no_time_passed_or_counters_went_back(proc: Path) -> None:
    host = HostInfo(str(proc))
    sample(host)
    assert sample(host).cpu_pct is None
    set_ticks(proc, user=0, idle=10)
    assert sample(host).cpu_pct is None


def test_idle_that_shrinks_while_time_passes_stays_within_bounds(proc: Path) -> None:
    """proc(5): iowait may decrease."""
    host = HostInfo(str(proc))
    set_ticks(proc, idle=1000, iowait=100)
    sample(host)
    set_ticks(proc, user=200, idle=1000, iowait=50)
    assert sample(host).cpu_pct == 100.0


@pytest.mark.parametrize("content", ["", "cpu\n", "intr 5 6 7 8 9 10\n"])
def test_what_cannot_be_read_is_none(proc: Path, content: str) -> None:
    (proc / "stat").write_text(content)
    (proc / "meminfo").write_text(content)
    (proc / "sys/kernel/random/boot_id").unlink()
    host = HostInfo(str(proc))
    host.sample()
    got = sample(host)
    assert (got.cpu_pct, got.mem_total_mib, got.mem_available_mib, got.boot_id) == (None, None, None, None)


def test_no_load_averages(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unobtainable() -> tuple[float, float, float]:
        raise OSError("load averages were unobtainable")

    monkeypatch.setattr(os, "getloadavg", unobtainable)
    got = sample(HostInfo(str(proc)))
    assert (got.load1, got.load5, got.load15) == (None, None, None)


def test_this_machine() -> None:
    host = HostInfo()
    sample(host)
    got = sample(host)
    assert got.hostname == os.uname().nodename
    assert got.time == pytest.approx(time.time(), abs=60)
    assert got.uptime_s is not None
    assert got.uptime_s > 0
    assert got.mem_total_mib is not None
    assert got.mem_available_mib is not None
    assert 0 < got.mem_available_mib <= got.mem_total_mib
    assert got.cpus == os.cpu_count()
    assert got.load1 is not None
