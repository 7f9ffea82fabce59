"""Facts about single processes, from made-up /procs and real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import processfacts
from console.domain.host_facts import ProcessFact
from tests.unit.agent_proc_fakes import BOOT_TIME, PREFILL, TICKS, FakeProc

DOCKER = "5e1f0a" * 10 + "abcd"


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def fact(proc: FakeProc | str, pid: int, run: str | None = None) -> ProcessFact:
    """As the console reads it: the agent's fields are exactly the domain's."""
    found = processfacts.fact(proc if isinstance(proc, str) else str(proc.root), pid, run)
    assert found is not None
    assert set(found) == set(ProcessFact.__struct_fields__)
    return msgspec.convert(found, ProcessFact)


def test_a_server_is_named_by_its_program_and_not_by_its_arguments(proc: FakeProc) -> None:
    proc.add(
        4185, PREFILL.replace("/venv/bin/python", "/venv/bin/python3") + " --api-key sk-secret", start=700
    )
    found = fact(proc, 4185, "run-1")
    assert found.name == "python3 -m sglang.launch_server"
    assert found.process == (4185, 700)
    assert found.started == BOOT_TIME + 700 / TICKS
    assert (found.run, found.unit, found.waits_in, found.state) == ("run-1", None, None, "S")


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["sglang::scheduler_TP0"], "sglang::scheduler_TP0"),
        (["/usr/local/bin/python3", "/usr/local/bin/sglang", "serve", "--api-key", "x"], "python3 sglang"),
        (["python3", "-u", "run.py", "-m", "x"], "python3 run.py"),
        (["python3", "-c", "import secret"], "python3"),
        (["sudo", "-n", "env", "HF_TOKEN=hf_secret", "python3"], "sudo"),
        (["nginx: master process /usr/sbin/nginx -g daemon off;"], "nginx: master process /usr/sbin/nginx"),
        (["python3 -m sglang.launch_server --api-key x"], "python3"),
        (["/usr/bin/" + "x" * 200], "x" * 80),
    ],
)
def test_names(proc: FakeProc, argv: list[str], name: str) -> None:
    proc.add(7, "placeholder")
    proc.rename(7, *argv)
    assert fact(proc, 7).name == name


def test_a_process_without_a_command_line_goes_by_its_kernel_name(proc: FakeProc) -> None:
    proc.add(7, "", comm="pt_main_thread", state="Z")
    assert (fact(proc, 7).name, fact(proc, 7).state) == ("pt_main_thread", "Z")


def test_one_that_is_gone_is_none(proc: FakeProc) -> None:
    assert processfacts.fact(str(proc.root), 99) is None


def test_no_boot_time_is_no_start(proc: FakeProc) -> None:
    (proc.root / "stat").write_text("cpu 1 2 3\n")
    proc.add(7, "sleep 1")
    assert fact(proc, 7).started is None


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        (f"0::/system.slice/docker-{DOCKER}.scope", "docker-5e1f0a5e1f0a"),
        (f"12:memory:/docker/{DOCKER}\n1:name=systemd:/docker/{DOCKER}", "docker-5e1f0a5e1f0a"),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{DOCKER}.scope", "containerd-5e1f0a5e1f0a"),
        (f"0::/machine.slice/libpod-{DOCKER}.scope/container", "libpod-5e1f0a5e1f0a"),
        (f"11:cpu:/kubepods/besteffort/pod9d1e/{DOCKER}", "container-5e1f0a5e1f0a"),
        ("0::/system.slice/sglang.service", "sglang.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/serve.service", "serve.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope", None),
        ("0::/user.slice/user-1000.slice/session-3.scope", None),
        ("0::/system.slice/ssh.service", None),
        ("0::/system.slice/system-sshd.slice/sshd@7-10.0.0.1:22-10.0.0.2:5.service", None),
        ("0::/init.scope", None),
        ("9:name=systemd:/\n4:memory:/job/0\n0::/", None),
    ],
)
def test_what_may_start_it_again(proc: FakeProc, group: str, unit: str | None) -> None:
    (proc.add(7, "sleep 1") / "cgroup").write_text(group + "\n")
    assert fact(proc, 7).unit == unit


def test_the_agent_s_own_container_starts_nothing_again(proc: FakeProc) -> None:
    group = f"1:name=systemd:/docker/{DOCKER}\n"
    (proc.root / "self/cgroup").write_text(group)
    (proc.add(7, "sleep 1") / "cgroup").write_text(group)
    (proc.add(8, "sleep 1") / "cgroup").write_text("1:name=systemd:/system.slice/other.service\n")
    assert (fact(proc, 7).unit, fact(proc, 8).unit) == (None, "other.service")


@given(st.text())
def test_no_group_and_no_title_is_too_strange(text: str) -> None:
    found = processfacts.unit(text)
    assert found is None or found.endswith(".service") or "-" in found
    assert len(processfacts.name([text], "comm")) <= max(processfacts.NAME_CHARS, 4)


@given(
    st.sampled_from(
        [["sglang", "serve"], ["python3", "-m", "sglang.launch_server"], ["python3", "-u", "x.py"]]
    ),
    st.lists(st.text()),
    st.integers(0, 5),
)
def test_no_argument_is_ever_told(program: list[str], arguments: list[str], at: int) -> None:
    arguments.insert(at, "sk-1f0e2d3c")
    assert "sk-" not in processfacts.name([*program, *arguments], "comm")


STACK = "[<0>] uvm_spin_loop+0xb4/0x100 [nvidia_uvm]\n[<0>] uvm_ioctl+0x1/0x2 [nvidia_uvm]\n"


@pytest.mark.parametrize(
    ("state", "stack", "wchan", "waits_in"),
    [
        ("R", STACK, "0", "uvm_spin_loop [nvidia_uvm]"),
        ("D", STACK, "uvm_spin_loop", "uvm_spin_loop [nvidia_uvm]"),
        ("D", None, "rpc_wait_bit_killable", "rpc_wait_bit_killable"),
        ("D", "[<ffffffffc0a1b2c4>] nfs4_wait.isra.0+0x1/0x2\n", None, "nfs4_wait.isra.0"),
        ("R", None, "0", None),
        ("R", "", "", None),
        ("D", None, None, None),
        ("S", STACK, "ep_poll", None),
    ],
)
def test_where_in_the_kernel_it_hangs(
    proc: FakeProc, state: str, stack: str | None, wchan: str | None, waits_in: str | None
) -> None:
    """Case C07: kill -9 has no effect on a process that spins in the driver."""
    folder = proc.add(41931, "sglang::scheduler_TP0", state=state)
    for name, text in (("stack", stack), ("wchan", wchan)):
        if text is not None:
            (folder / name).write_text(text)
    found = fact(proc, 41931)
    assert (found.name, found.waits_in) == ("sglang::scheduler_TP0", waits_in)


def test_a_real_process() -> None:
    found = fact("/proc", os.getpid())
    assert found.pid == os.getpid()
    assert found.name.startswith("python")
    assert found.user is not None
    assert found.started is not None


def test_a_real_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = fact("/proc", child.pid)
    assert (found.state, found.name[:6]) == ("Z", "python")
    child.wait()
    assert processfacts.fact("/proc", child.pid) is None
