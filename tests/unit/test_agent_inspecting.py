"""What the agent finds out about its host, and how it answers while that takes long."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.agent import hostchecks, inspecting, logout
from console.agent.children import Children, TookTooLong
from console.agent.job import Job
from console.domain.host_facts import HostFacts
from tests.unit.agent_inspections import NO_GPUS, Asker, until
from tests.unit.agent_proc_fakes import Clock, FakeProc

NOTHING: dict[str, Any] = {"paths": [], "pythons": [], "disks": [], "sudo": False}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSV4_AGENT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_whole_answer(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    (tmp_path / "model").mkdir()
    (tmp_path / "config.json").write_text("{}")
    paths = [str(tmp_path / name) for name in ("model", "config.json", "nowhere", "config.json/x")]
    found = Asker(gpus=lambda: {**NO_GPUS, "driver": "580.95"}).ask(
        HostFacts, "inspect", paths=paths, pythons=[], disks=[str(tmp_path / "not/yet")], sudo=False
    )
    assert list(found.paths.values()) == ["folder", "file", "missing", "missing"]
    assert set(found.disk_free_mib) == {str(tmp_path / "not/yet"), str(state)}
    assert all(free > 0 for free in found.disk_free_mib.values())
    assert (found.driver, found.state_folder, found.sudo) == ("580.95", str(state), None)
    assert "NCCL_DEBUG" in found.inherited
    assert found.mem_available_mib
    assert found.user
    assert not state.exists()


def test_what_may_not_be_read_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    # root, as whom tests may run, may read everything.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert [hostchecks.kind_of(str(tmp_path / name)) for name in ("folder", "file")] == ["denied", "denied"]
    (tmp_path / "loop").symlink_to("loop")
    assert hostchecks.kind_of(str(tmp_path / "loop")) == "denied"


def test_a_disk_that_cannot_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: str) -> os.statvfs_result:
        raise OSError("stale file handle")

    monkeypatch.setattr(os, "statvfs", fails)
    assert hostchecks.disks(["/"]) == {}


def test_pythons(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in {"sglang": "0.5.15", "sglang_router": "0.3.2", "nixl_cu13": "1.3.0"}.items():
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("raise SystemExit('SGLang was run')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    other = program(tmp_path / "bin/other", "echo hello")
    text = tmp_path / "text"
    text.touch()
    asked = [sys.executable, str(other), str(text), "/no/python"]
    found = Asker().ask(HostFacts, "inspect", **{**NOTHING, "pythons": asked}).pythons
    assert [found[path].usable for path in asked] == [True, False, False, False]
    assert [fact.path for fact in found.values()] == asked
    python = found[sys.executable]
    assert python.version == ".".join(map(str, sys.version_info[:3]))
    assert (python.packages["sglang"], python.packages["sglang-router"], python.packages["nixl"]) == (
        "0.5.15",
        "0.3.2",
        "1.3.0",
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", None),
        ("echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required"),
        ("exit 3", "sudo: exit code 3"),
        ('test "$*" = "-n true" || { echo "not so: $*" >&2; exit 1; }; tty -s && exit 1; exit 0', None),
        (None, "sudo: command not found"),
    ],
)
def test_sudo(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, said: str | None
) -> None:
    (tmp_path / "bin").mkdir()
    if script is not None:
        program(tmp_path / "bin/sudo", f"PATH=/usr/bin:/bin; {script}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert Asker().ask(HostFacts, "inspect", **{**NOTHING, "sudo": True}).sudo == said
    assert Asker().ask(HostFacts, "inspect", **NOTHING).sudo is None


SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"
MANAGER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope\n"
YES = "[Login]\nKillUserProcesses=yes\n"


@pytest.mark.parametrize(
    ("group", "files", "killed"),
    [
        (SESSION, {}, False),
        (SESSION, {"etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, False),
        (SESSION, {"etc/systemd/logind.conf": YES}, True),
        (SESSION, {"etc/systemd/logind.conf": YES, "usr/lib/systemd/logind.conf": "[Login]\n"}, True),
        (SESSION, {"etc/systemd/logind.conf": "[Other]\nKillUserProcesses=yes\n"}, False),
        (SESSION, {"etc/systemd/logind.conf": YES, "etc/systemd/logind.conf.d/1.conf": "[Login]\n"}, True),
        (SESSION, {"usr/lib/systemd/logind.conf.d/9.conf": YES}, True),
        (
            SESSION,
            {"usr/lib/systemd/logind.conf.d/9.conf": YES, "etc/systemd/logind.conf.d/9.conf": "[Login]\n"},
            False,
        ),
        (
            SESSION,
            {
                "etc/systemd/logind.conf": YES,
                "run/systemd/logind.conf.d/a.conf": "[Login]\nKillUserProcesses=0",
            },
            False,
        ),
        (SESSION, {"etc/systemd/logind.conf": YES + "KillExcludeUsers=root ops\n"}, False),
        (SESSION, {"etc/systemd/logind.conf": YES + "KillOnlyUsers=guest\n"}, False),
        (SESSION, {"etc/systemd/logind.conf": YES + "KillOnlyUsers=guest ops\n"}, True),
        # Lingering keeps the user's systemd, not what a login started.
        (SESSION, {"etc/systemd/logind.conf": YES, "var/lib/systemd/linger/ops": ""}, True),
        (MANAGER, {"etc/systemd/logind.conf": YES}, False),
        ("0::/system.slice/ssh.service\n", {"etc/systemd/logind.conf": YES}, False),
        (None, {"etc/systemd/logind.conf": YES}, False),
    ],
)
def test_who_ends_at_logout(tmp_path: Path, group: str | None, files: dict[str, str], killed: bool) -> None:
    proc = FakeProc(tmp_path / "proc")
    if group is not None:
        (proc.root / "self/cgroup").write_text(group)
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert logout.kills("ops", str(proc.root), str(tmp_path / "root")) is killed


def test_root_is_spared_unless_told_otherwise() -> None:
    assert not logout.kills_sessions_of("root", {"KillUserProcesses": "yes"})
    assert logout.kills_sessions_of("root", {"KillUserProcesses": "yes", "KillExcludeUsers": ""})


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A path that does not answer until the event is set, as on a dead network disk."""
    answers = threading.Event()

    def wait(path: str) -> str:
        answers.wait(30)
        return "folder"

    monkeypatch.setattr(hostchecks, "kind_of", wait)
    yield answers
    answers.set()


def test_a_disk_that_hangs_holds_up_nobody(state: Path, hanging: threading.Event) -> None:
    clock = Clock()
    asker = Asker(clock=clock)
    number = asker.begin("inspect", **{**NOTHING, "paths": ["/nfs/model"]})
    asker.inspections.pump()
    assert (asker.seen, asker.inspections.due) == ([], False)

    clock.now += inspecting.MORE_S
    due = [asker.inspections.due]
    asker.inspections.pump()
    due.append(asker.inspections.due)
    assert due == [True, False]
    assert asker.seen == [{"kind": "value", "id": number, "more": True}]

    hanging.set()
    assert asker.last(number)["value"]["paths"] == {"/nfs/model": "folder"}
    assert asker.inspections.readable() == []


def test_one_that_never_answers_is_given_up(state: Path, hanging: threading.Event) -> None:
    clock = Clock()
    asker = Asker(clock=clock)
    number = asker.begin("inspect", **{**NOTHING, "paths": ["/nfs/model"]})
    clock.now += inspecting.LIMIT_S
    asker.inspections.pump()
    assert asker.seen == [{"kind": "reply", "id": number, "error": inspecting.HANGS, "more": False}]
    assert asker.inspections.readable() == []


def test_a_cancelled_question_gets_no_answer(state: Path, hanging: threading.Event) -> None:
    asker = Asker()
    number = asker.begin("inspect", **{**NOTHING, "paths": ["/nfs/model"]})
    asker.inspections.cancel(number)
    asker.inspections.cancel(number)
    hanging.set()
    assert asker.inspections.readable() == []
    asker.ask(HostFacts, "inspect", **NOTHING)
    assert [header["id"] for header in asker.seen] == [number + 1]


def test_too_many_questions_are_refused(state: Path, hanging: threading.Event) -> None:
    asker = Asker()
    for _ in range(inspecting.MOST_AT_ONCE):
        asker.begin("inspect", **{**NOTHING, "paths": ["/nfs/model"]})
    refused = asker.begin("holders", ports=[])
    assert [(header["id"], header["error"]) for header in asker.seen] == [
        (refused, "too many questions at once")
    ]
    assert len(asker.inspections.readable()) == inspecting.MOST_AT_ONCE
    asker.inspections.close()
    assert asker.inspections.readable() == []


def test_what_fails_is_told(state: Path, tmp_path: Path) -> None:
    asker = Asker(str(tmp_path / "no-proc"))
    proc = FakeProc(tmp_path / "proc")
    (proc.root / "net").mkdir()
    assert asker.last(asker.begin("holders", ports=[80]))["value"]["ports"] == []

    def lost() -> dict[str, Any]:
        raise OSError(5, "Input/output error")

    asker = Asker(gpus=lost)
    assert asker.last(asker.begin("holders", ports=[]))["error"] == "Input/output error"


def test_a_child_ends_at_its_limit() -> None:
    with pytest.raises(TookTooLong):
        Children().run(["sleep", "60"], 0.05)


def test_a_child_ends_with_its_question() -> None:
    hears, says = os.pipe()
    script = f"echo ready >/proc/{os.getpid()}/fd/{says}; exec sleep 60"
    job = Job(lambda children: children.run(["sh", "-c", script], 120.0))
    # It says so itself, through a copy of the pipe that it opens by this process's name.
    assert os.read(hears, 16) == b"ready\n"
    job.close()
    until(lambda: job.over)
    assert job.value.code == -signal.SIGKILL
    for fd in (hears, says):
        os.close(fd)


def test_no_child_starts_for_a_question_that_is_over() -> None:
    children = Children()
    children.end()
    with pytest.raises(OSError, match="nobody waits"):
        children.run(["true"], 1.0)
