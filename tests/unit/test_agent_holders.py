"""Who holds ports and GPUs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from console.agent.gpu_source import blank_row
from console.agent.gpus import GpuSampler
from console.agent.inspecting import NOT_READ_YET
from console.domain.host_facts import Holders
from tests.unit.agent_inspections import NO_GPUS, Asker
from tests.unit.agent_proc_fakes import FakeProc

LISTEN, ESTABLISHED, TIME_WAIT = "0A", "01", "06"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def sockets(proc: FakeProc, *rows: tuple[int, str, int], table: str = "tcp") -> None:
    """The host's table of (port, state, inode)."""
    address = "0" * (8 if table == "tcp" else 32)
    (proc.root / "net").mkdir(exist_ok=True)
    (proc.root / "net" / table).write_text(
        HEAD
        + "".join(
            f"   {number}: {address}:{port:04X} {address}:0000 {state} 00000000:00000000 00:00000000 00000000"
            f"     0        0 {inode} 1 0000 100 0 0 10 0\n"
            for number, (port, state, inode) in enumerate(rows)
        )
    )


def held(proc: FakeProc, *ports: int, runs: dict[int, str] | None = None) -> dict[int, int | None]:
    """Port to pid."""
    found = Asker(str(proc.root), runs=runs).ask(Holders, "holders", ports=list(ports))
    return {port.port: port.holder.pid if port.holder else None for port in found.ports}


def test_c03_a_left_over_process_is_named(proc: FakeProc) -> None:
    proc.add(40111, "sglang::tokenizer", fds={23: "socket:[900]"}, start=500)
    sockets(proc, (30000, LISTEN, 900), (31000, LISTEN, 901))
    asker = Asker(str(proc.root), runs={40111: "old-run"})
    (port,) = asker.ask(Holders, "holders", ports=[30000, 8998, 8000]).ports
    assert port.port == 30000
    assert port.holder is not None
    assert (port.holder.pid, port.holder.name, port.holder.run) == (40111, "sglang::tokenizer", "old-run")


def test_c03_time_wait_is_nobody(proc: FakeProc) -> None:
    sockets(proc, (30000, TIME_WAIT, 0), (30001, ESTABLISHED, 77))
    assert held(proc, 30000, 30001) == {}


def test_both_families_in_one_answer(proc: FakeProc) -> None:
    proc.add(10, "a", fds={3: "socket:[1]"})
    proc.add(11, "b", fds={3: "socket:[2]", 4: "socket:[3]"})
    sockets(proc, (8000, LISTEN, 1))
    sockets(proc, (8001, LISTEN, 2), (8002, LISTEN, 3), table="tcp6")
    assert held(proc, 8002, 8001, 8000) == {8000: 10, 8001: 11, 8002: 11}


def test_a_holder_that_may_not_be_read_is_unknown_not_absent(proc: FakeProc) -> None:
    sockets(proc, (22, LISTEN, 5))
    assert held(proc, 22) == {22: None}


def test_of_several_the_eldest_opened_it(proc: FakeProc) -> None:
    proc.add(50, "child", fds={3: "socket:[1]"}, start=900)
    proc.add(60, "parent", fds={3: "socket:[1]"}, start=300)
    sockets(proc, (8000, LISTEN, 1))
    assert held(proc, 8000) == {8000: 60}


def test_real_sockets() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as four,
        closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as six,
        closing(socket.create_connection(four.getsockname())) as client,
    ):
        ports = [each.getsockname()[1] for each in (four, six, client)]
        found = Asker(runs={os.getpid(): "this"}).ask(Holders, "holders", ports=ports)
        holders = {port.port: port.holder for port in found.ports}
    assert set(holders) == set(ports[:2])
    assert {holder and (holder.pid, holder.run) for holder in holders.values()} == {(os.getpid(), "this")}


def test_a_real_socket_outlives_its_parent() -> None:
    """Case C02: the one who listens is an orphan, whose parent has gone."""
    script = (
        "import os, socket, sys\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "if os.fork(): os._exit(0)\n"
        "print(os.getpid(), s.getsockname()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-S", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, port = map(int, parent.stdout.readline().split())
        parent.wait()
        (found,) = Asker().ask(Holders, "holders", ports=[port]).ports
    assert found.holder is not None
    assert found.holder.pid == pid


def report(*rows: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**NO_GPUS, "source": "nvml", "reason": None, "driver": "580", "gpus": list(rows), **fields}


def row(index: int, **fields: Any) -> dict[str, Any]:
    return {**blank_row(index), "mem_total_mib": 183359.0, **fields}


def gpus(proc: FakeProc, found: dict[str, Any]) -> Holders:
    return Asker(str(proc.root), lambda: found, {41931: "run-7"}).ask(Holders, "holders", ports=[])


def test_c02_orphans_are_seen_on_their_gpus(proc: FakeProc) -> None:
    proc.add(41931, "sglang::scheduler_TP0")
    process = {"pid": 41931, "name": None, "mem_mib": 100998.0, "server_pid": None}
    first, second = gpus(proc, report(row(0, mem_used_mib=101200.0, processes=[process]), row(1))).gpus
    (holder,) = first.holders
    assert (holder.process.name, holder.process.run, holder.mem_mib) == (
        "sglang::scheduler_TP0",
        "run-7",
        100998.0,
    )
    assert (first.index, first.mem_used_mib, first.mem_total_mib, first.note) == (0, 101200.0, 183359.0, None)
    assert (second.index, second.mem_used_mib, second.holders) == (1, None, ())


def test_c07_a_holder_that_vanished_from_proc_is_still_told(proc: FakeProc) -> None:
    (gpu,) = gpus(proc, report(row(0, processes=[{"pid": 41931, "mem_mib": 10151.0}]))).gpus
    (holder,) = gpu.holders
    assert (holder.process.pid, holder.process.name, holder.process.state) == (41931, "gone from /proc", "X")
    assert holder.mem_mib == 10151.0


def test_only_a_sick_gpu_has_a_note(proc: FakeProc) -> None:
    found = gpus(
        proc,
        report(
            row(0, note="MIG is on"),
            row(1, state="lost", note="fell off the bus"),
            row(2, state="needs reset"),
        ),
    )
    assert [gpu.note for gpu in found.gpus] == [None, "fell off the bus", "needs reset"]
    assert found.gpu_note is None


def test_no_gpus_and_stalled_readings_are_told(proc: FakeProc) -> None:
    assert gpus(proc, NO_GPUS).gpu_note == "no NVIDIA driver"
    stalled = gpus(proc, report(row(0), reason="GPU telemetry stalled 12 s", age_s=12.0))
    assert (len(stalled.gpus), stalled.gpu_note) == (1, "GPU telemetry stalled 12 s")
    slow = gpus(proc, report(row(0), reason="GPU readings are slow: 3.0 s", age_s=1.0))
    assert slow.gpu_note is None


def test_an_agent_that_has_just_begun_waits_for_its_first_reading(proc: FakeProc) -> None:
    assert GpuSampler(1.0).report()["reason"] == NOT_READ_YET
    reports = [{**NO_GPUS, "reason": NOT_READ_YET}] * 2 + [report(row(0))]
    asker = Asker(str(proc.root), lambda: reports.pop(0))
    assert len(asker.ask(Holders, "holders", ports=[]).gpus) == 1
    assert reports == []
